/* outcome.h: what a run tells when it ends: theta with its errors, the best value it holds of every other quantity, and the
 * verdict.
 *
 * The best value is an exact one where there is a formula, a sum over a lattice where the model is of the plane, with its error;
 * otherwise it is the judged one, from fresh particles that did not steer theta, with its Monte Carlo error (sosmc/judge.h).
 * Where neither is to be had there is no number, and a sentence says why. What an iteration said of itself is never told: it
 * stays in the summary as `last_iteration`. */
#ifndef SOSMC_RUN_OUTCOME_H
#define SOSMC_RUN_OUTCOME_H

#include <sosmc/judge.h>

#include "runfile/config.h"
#include "evaluate.h"
#include "files/files.h"
#include "job/problem.h"
#include "moments.h"
#include "stepper.h"

/* Nodes along an axis of the lattice on which models of the plane have exact values; the second where the first is too coarse. */
enum { OUTCOME_NODES = 300, OUTCOME_MANY_NODES = 600 };

/* How a value was found: by fresh particles, by a formula (then it is exact), as a sum over a lattice, as the mean over
 * independent chains of whatever distribution their sampler has. */
typedef enum { TOLD_JUDGED, TOLD_FORMULA, TOLD_LATTICE, TOLD_CHAINS } told_from;
extern const char *const told_words[]; /* for each a word */
typedef struct {
    int exists; /* the objective has this quantity; otherwise the rest means nothing */
    told_from from;
    double value, error;
    char why[SOSMC_WHY]; /* why there is no value (NaN), or none of its error (NaN); empty where both are there */
} told;

enum { OUTCOME_WARNINGS = 4 + JOB_NOTES, OUTCOME_SENTENCE = 512, OUTCOME_WORD = 64 };
typedef struct {
    char model[OUTCOME_WORD], objective[OUTCOME_WORD], method[2 * OUTCOME_WORD]; /* what was run */
    int optimises;         /* the run is for theta: not where particles are only sampled */
    int network;           /* theta is a network's weights */
    int likelihood;        /* theta is estimated from data: it has a statistical error too */
    int mmle;              /* the loss is minus a marginal log-likelihood */
    int weighted, accepts; /* there are weights; moves are accepted or rejected */
    int averaged;          /* the iterations kept an average of theta */
    int failed;            /* the run broke off */
    int stopped;           /* the judgement was stopped before its end: there are no judged numbers */
    int not_judged;        /* the run file says `judge: none` */
    int particles, dim_theta;
    int64_t iterations; /* of an automatic run, the solver's steps */
    int automatic;      /* the settings are: `solve` is what the solver's last step said, and `last` means nothing */
    sosmc_solve_info solve;
    int tempers; /* the run tempers: `temper` is what its last step said, and `last` and `solve` mean nothing */
    sosmc_sampler_info temper;
    told model_reward, model_log_z; /* of a tilted model: what it was before */
    sosmc_info last;                /* what the last iteration said */
    double *last_theta;             /* of the last iteration, then the average; NULL: theta is a network's */

    double *theta;          /* the estimate; of a network too */
    char (*name)[JOB_NAME]; /* of its numbers; NULL: theta is a network's */
    /* The other errors, intervals and the verdict are those of the judgement. */
    sosmc_judgement judged;
    double *low,
        *high; /* 95 %: with both errors for likelihoods, with the Monte Carlo error otherwise; NULL: there is none */
    told loss, reward, kl, log_z;
    told best_loss, best_reward, best_kl; /* of the best of all densities, where it is known */
    told excess;                          /* of the loss over that */
    /* Of models that are fitted to points: the mean log-density at the points that were fitted and at those that were held out. */
    told log_likelihood, held_out;
    int64_t fitted_rows, held_out_rows;
    double held_out_spread; /* standard error of the second mean, if the points stand for others like them */
    /* What the points' coordinates are (scaling.h), and in words what follows for the numbers; empty: they were not scaled. */
    points_scaling scaling;
    double log_density; /* what makes log-densities those in the units of the data; 0 where they are */
    char units[OUTCOME_SENTENCE];
    double aic, bic; /* NaN: there is none */
    int warnings;    /* what the verdict does not know of: a step that is too large, exact values that cannot be used */
    int told_before; /* the first so many of them were told when the run began */
    char warning[OUTCOME_WARNINGS][OUTCOME_SENTENCE];
    int has_residuals; /* of what was seen, by the last particles */
    sosmc_residual residual[SOSMC_RESIDUALS];
    int64_t left_out; /* rows of the data that were left out because a value is missing */
} outcome;

/* What an outcome is taken from. */
typedef struct {
    const config *c;
    const job *job;
    const stepper *at;            /* the engine, the solver or the sampler */
    const evaluation *evaluation; /* NULL: there is none */
    moments_theta theta;          /* of a log-strength, in the iterations that are averaged */
    const char *warning;          /* that was known when the run began; empty: none */
    const char *failed;           /* the sentence with which the run broke off; NULL: it did not */
    int anyway;                   /* judge also where the run file says `judge: none` */
    int (*stop)(void *ctx);       /* ends the judgement early; may be NULL */
    void *stop_ctx;
} outcome_source;

/* Nothing in *o points into the engine or the job. -1: a sentence in `error`. Call outcome_free in any case. */
int outcome_take(outcome *o, const outcome_source *from, char *error, size_t room);
void outcome_free(outcome *o); /* zeros are fine */

void outcome_write(const outcome *o, json_writer *w); /* into the open object of summary.json */

#endif
