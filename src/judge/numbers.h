/* numbers.h: loss, log Z, KL and reward from fresh particles, and what these say about theta. */
#ifndef SOSMC_JUDGE_NUMBERS_H
#define SOSMC_JUDGE_NUMBERS_H

#include "fresh.h"
#include "theta.h"

void sosmc_i_no_number(sosmc_number *n, const char *why);
/* Fills the numbers of the judgement from the pass at theta. Statuses as sosmc_judge. */
sosmc_status sosmc_i_numbers(const fresh *f, const double *theta, const pass_cloud *p, sosmc_judgement *out);
/* The Newton step that the fresh particles would make from theta, against the error of both: measured.fresh_*. */
sosmc_status sosmc_i_contradiction(const fresh *f, const double *theta, const pass_cloud *p, const theta_estimate *e,
                                   sosmc_measured *m);

/* Of a reward with a reverse divergence: every number from this one pass, where its weights go straight from the starting law to the model
 * and enough of its draws carry the reference and the best of all densities too. -1: not so, and nothing is filled. */
int sosmc_i_reweighed(const sosmc_objective *o, const pass_cloud *p, sosmc_judgement *out);

/* E R. Its error is at least one particle's share: a reward that is nearly the same everywhere could state none. */
sosmc_number sosmc_i_reward_of(const pass_cloud *p);
/* Reward, KL to the model and loss of particles that follow a tilted model. The gain log Z_tilted - log Z has the same ancestors at both
 * ends. scratch: n doubles. */
void sosmc_i_tilted_numbers(const pass_cloud *p, double beta, double *scratch, sosmc_number *reward, sosmc_number *kl,
                            sosmc_number *loss);

#endif
