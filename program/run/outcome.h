/* outcome.h: what a run tells when it ends: the best value it holds of every quantity, and what must be said beside it.
 *
 * The best value is an exact one where the model is of the plane; else the evidence from fresh draws with its error; else
 * the mean over the last tenth of the iterations, which has a spread and no error and is called a running estimate. A single
 * iteration is never told: it stays in the summary as `last_iteration`. */
#ifndef SOSMC_RUN_OUTCOME_H
#define SOSMC_RUN_OUTCOME_H

#include "runfile/config.h"
#include "evaluate.h"
#include "files/files.h"
#include "job/problem.h"
#include "tail.h"

typedef enum { TOLD_NOT, TOLD_EXACT, TOLD_FRESH, TOLD_RUNNING } told_from;
typedef struct {
    told_from from;
    double value;
    double error;  /* of quadrature or of the fresh draws; NaN: it has none */
    double spread; /* of a running estimate: the standard deviation over the last tenth; NaN otherwise */
} told;

enum { OUTCOME_WARNINGS = 8, OUTCOME_SENTENCE = 512 };
typedef struct {
    int optimises;         /* the run is for theta: not where particles are only sampled */
    int network;           /* theta is a network's weights */
    int mmle;              /* the loss is minus a log-likelihood */
    int weighted, accepts; /* there are weights; moves are accepted or rejected */
    int averaged;          /* theta is an average over updates */
    int particles, dim_theta;
    int64_t iterations;
    double theta[TRACE_THETAS];      /* its first numbers: the average where the run averages, else the last one */
    double last_theta[TRACE_THETAS]; /* of the last iteration, likewise */
    sosmc_info last;                 /* what the last iteration said */
    const char *why_no_loss;         /* NULL: there is one */

    told loss, reward, kl, log_z;
    told best_loss;   /* of all densities, where it is known */
    int has_evidence; /* log Z at theta from fresh draws */
    sosmc_evidence evidence;
    double information, standard_error; /* of a scalar theta under mmle; NaN: there is none */
    const char *why_no_standard_error;  /* NULL: there is one, or nobody expects one */
    tail tail;
    int warnings;
    char warning[OUTCOME_WARNINGS][OUTCOME_SENTENCE];
} outcome;

/* Of an engine whose trace is on the disk. Nothing in *o points into the engine. `first` (NULL: none) is a warning that was
 * known when the run began. */
int outcome_take(outcome *o, const job *j, const sosmc *s, const evaluation *e, const char *dir, const char *first,
                 char *error, size_t room);

void outcome_write(const outcome *o, json_writer *w); /* into the open object of summary.json */

#endif
