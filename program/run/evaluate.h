/* evaluate.h: what the model of a run is worth, measured during the run without its particles: exact expectations on a
 * lattice and averages over fresh chains, a row of DIR/evaluation.csv every so many iterations (`evaluate` of the run
 * file).
 *
 * Columns, all of them deterministic; a value that does not exist is an empty field:
 *
 *     iteration, updates                                    updates: how many are behind the theta that is evaluated
 *     logz, reward, kl, loss, ref_reward,                   exact (sosmc_exact), of the theta the engine now holds,
 *     best_reward, best_kl, best_loss, excess, edge         after this iteration's update; edge tells a box too small
 *     particle_reward, weighted_reward                      means of the reward over the cloud the engine now holds
 *     particle_kl, particle_loss                            from the running log Z, of the theta at which this
 *                                                           iteration's gradient was taken: an update earlier
 *     fresh, fresh_error                                    mean reward of fresh chains and its standard error; of
 *                                                           the sampler `jitter`, over their last states
 *     loglik                                                mean log density of all data points, exact
 *
 * Under a reverse divergence, kl is KL(pi || ref) and loss = -reward + beta kl. Under a forward one, kl is KL(ref ||
 * pi), and the optimum is not known: best_* and excess are empty. Under ebm_likelihood, loss = -loglik. Models that are not
 * of the plane have no exact values: all but the particles' and the fresh chains' are empty; with evaluate.stop their loss is
 * that of a judgement. */
#ifndef SOSMC_RUN_EVALUATE_H
#define SOSMC_RUN_EVALUATE_H

#include <sosmc/lattice.h>

#include "runfile/config.h"
#include "files/files.h"
#include "hooks.h"
#include "job/problem.h"

typedef struct evaluation evaluation;

/* Checks what can be checked before a directory is created: 0, or -1 with one sentence. */
int evaluation_check(const config *c, const job *j, char *error, size_t room);

/* *out is NULL when the run file asks for none. Opens DIR/evaluation.csv, keeping rows before iteration `from` (see
 * trace_open). The reference and the reward are taken on the lattice once. Borrows *j until evaluation_close; hooks may be
 * NULL. */
int evaluation_open(evaluation **out, const config *c, const job *j, const char *dir, int64_t from,
                    const run_hooks *hooks, char *error, size_t room);

/* After an iteration: appends a row when the iteration is a multiple of evaluate.every or the last one. An iteration that
 * has a row gets no second one. Fresh chains that an interrupt ends early leave no row, so call this once more with
 * sosmc_last after a checkpoint is loaded: it then writes the missing row. Here as below, e NULL: nothing. */
int evaluation_step(evaluation *e, const sosmc *s, const sosmc_info *info, char *error, size_t room);

/* The mean reward of the last fresh chains and its error; NaN: there is none. e may be NULL. */
void evaluation_fresh(const evaluation *e, double *mean, double *error);

/* Whether the loss has gained less than evaluate.stop from the row before the last to the last: the run is over. e may be NULL. */
int evaluation_settled(const evaluation *e);

int evaluation_flush(evaluation *e, char *error, size_t room); /* before a checkpoint, as trace_flush */
int evaluation_close(evaluation *e, char *error, size_t room);

/* The last row, which may stem from before a resumption, as an object `evaluated`; nothing when there is no row. Always 0:
 * the file keeps its errors. */
int evaluation_summary(const evaluation *e, json_writer *w);

/* Exact values of a theta on a lattice with divided cells (sosmc_plane_exact), and how far they change when the lattice does: the largest difference to one with two
 * nodes less along each axis and to one with half of them, which is what the finite distance of the nodes does to them. NaN:
 * the value does not exist. */
typedef struct {
    double logz, reward, kl, loss, loglik;
    double best_loss, best_reward, best_kl; /* of the best of all densities */
    double excess;                          /* over its loss */
    double ref_reward;                      /* of the reference */
    double edge; /* share of the mass on the outermost nodes: not tiny, and the box is too small */
} evaluation_values;
/* -1: the model is not of the plane, or gives no finite values there. */
int evaluation_exact(const job *j, const double *theta, const sosmc_lattice *l, evaluation_values *value,
                     evaluation_values *error);
/* The lattice of the run file; nodes 0: it has none. e may be NULL. */
sosmc_lattice evaluation_lattice(const evaluation *e);

#endif
