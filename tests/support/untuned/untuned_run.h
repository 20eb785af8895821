/* untuned_run.h: runs of sosmc_solve on problems of untuned.h, compared with the exact answers, and counts of such runs. */
#ifndef SOSMC_TESTS_UNTUNED_RUN_H
#define SOSMC_TESTS_UNTUNED_RUN_H

#include <sosmc/solve.h>

#include "untuned.h"

/* What is called right:
 *     - at most 1 % of the initial gap of the loss is left,
 *     - and, of likelihoods, at most 0.1 nats,
 *     - and every identified parameter is within its limit of stated Monte Carlo errors, or within a floor: 0.01 of a weight, 2 %
 *       of a parameter;
 *     - and, in the third table, each stated standard error is within 10 %, and the stated loss within 4 errors or 0.1 nats.
 * The limit is three errors for one parameter; of p parameters it is what the largest of p errors exceeds as rarely. */
typedef struct {
    uint64_t seed;
    sosmc_status status;
    int verdict; /* sosmc_verdict_status */
    int finished;
    char reason[SOSMC_SENTENCE]; /* the first of the verdict */
    double gap;                  /* the share of the initial gap that is left */
    double nats;                 /* what is left in nats of likelihood; NaN of rewards */
    double standard_error_off;   /* the largest relative error of a standard error; NaN: not compared */
    double largest;              /* error of an identified parameter, in stated errors; infinite where none is stated */
    int close;                   /* the loss is right; never where the energy is wrong (UNTUNED_NAMED) */
    int within, within_floor;    /* the parameters are right by their stated errors alone, or by them or the floor */
    /* 95 % intervals of identified parameters, and how many hold the best theta; a weight that is right to 1e-5 counts as held */
    int intervals, covered;
    double loss, loss_error, exact_loss; /* stated, and at the theta that was found */
    int64_t evaluations, contractions, updates;
    double seconds; /* processor time of all threads */
} untuned_outcome;

double untuned_error_limit(int parameters);

/* Solves the problem, whatever comes of it. */
void untuned_solve(const untuned_problem *u, const sosmc_solve_options *options, untuned_outcome *o);
/* The same problem with sosmc_defaults and a standard normal initial law, so many iterations: status, gap, nats, close and seconds. */
void untuned_run_defaults(const untuned_problem *u, uint64_t seed, int threads, int64_t iterations, untuned_outcome *o);

int untuned_right(const untuned_outcome *o);                               /* as above */
int untuned_flagged(const untuned_outcome *o);                             /* the verdict is not `converged` */
int untuned_as_wanted(const untuned_problem *u, const untuned_outcome *o); /* right, or named where that is enough */
/* Wrong by more than the limit of stated errors and by more than 0.1 nats (rewards: 1 % of the initial gap), and not flagged. */
int untuned_silent_and_far(const untuned_outcome *o, int parameters);

/* Counts over the runs of one problem. */
enum { UNTUNED_RUNS = 1000, UNTUNED_REASONS = 12, UNTUNED_REASON = 160 };
typedef struct {
    int runs, right, right_without_floor, solved, flagged, right_flagged, silent, silent_far,
        as_wanted; /* solved: right, not flagged */
    int intervals, covered, losses, losses_covered;
    double seconds, evaluations, gap[UNTUNED_RUNS];
    int old_runs, old_close, old_failed; /* failed: it ended before its last iteration, and its time is not counted */
    double old_seconds;
    int reasons; /* of flagged runs: the first sentence, with # in place of its numbers */
    char reason[UNTUNED_REASONS][UNTUNED_REASON];
    int reason_count[UNTUNED_REASONS];
} untuned_tally;
void untuned_count(untuned_tally *t, const untuned_problem *u, const untuned_outcome *o);
void untuned_count_defaults(untuned_tally *t, const untuned_outcome *o);
/* The median of gap; sorts it. NaN counts as large. */
double untuned_median_gap(untuned_tally *t);

#endif
