/* scores.h: dU/dtheta of every particle of a batch, for any model. */
#ifndef SOSMC_BASE_SCORES_H
#define SOSMC_BASE_SCORES_H

#include <sosmc/sosmc.h>

/* Doubles of scratch that sosmc_i_scores wants for this model, a multiple of 8; 0 where the model has scores of its own. It does
 * not overflow where the model's work for a whole batch can be had. */
size_t sosmc_i_scores_scratch(const sosmc_model *model);

/* D[j * ld + i] = dU/dtheta_j(x_i), dim_theta rows of b->ld, by the model's own callback, or else by one call of grad_theta for
 * each particle. The scratch is 64-byte aligned; the model must have `scores` or `grad_theta`. Where it has only grad_theta,
 * b->work is not looked at. Returns 0, or what the failing callback returned. */
int sosmc_i_scores(const sosmc_model *model, const double *theta, const sosmc_batch *b, double *scratch, double *D);

#endif
