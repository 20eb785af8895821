/* kernel.h: what the kernels of this folder share, beside the helpers of sosmc.h. */
#ifndef SOSMC_KERNELS_KERNEL_H
#define SOSMC_KERNELS_KERNEL_H

#include "base/table.h"

/* p ~ N(0, mass I) for the batch's particles. */
void sosmc_i_fresh_momentum(sosmc_rng rng, double mass, const sosmc_batch *b, double *p);

/* Leapfrog steps from (x, p), the first kick with m->gx: fills x_new, U_new and gx_new, and p with the momentum there.
 * log_ratio (NULL: it is not needed) receives the total energy under theta_prev at the start less that under theta at the end.
 * Uses row 1. Returns the energy's value. */
int sosmc_i_leapfrog(const sosmc_kernel *k, sosmc_move *m, int steps, double *p, double *log_ratio);

/* What the kernels' `check` functions are made of: each returns NULL, or a sentence in `text` that names the parameter, its
 * value and what was expected. */
const char *sosmc_i_wrong(const char *name, double value, const char *expected, char *text, size_t room);
const char *sosmc_i_check_positive(const char *name, double value, char *text, size_t room);
const char *sosmc_i_check_not_negative(const char *name, double value, char *text, size_t room);
/* The scale of Langevin noise; without any, a move has no density. */
const char *sosmc_i_check_noise(const sosmc_kernel *k, int weighted, char *text, size_t room);
/* The mass and the number of leapfrog steps. */
const char *sosmc_i_check_leapfrog(const sosmc_kernel *k, int weighted, char *text, size_t room);

#endif
