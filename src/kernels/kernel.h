/* langevin.h: what the kernels share. */
#ifndef SOSMC_KERNELS_LANGEVIN_H
#define SOSMC_KERNELS_LANGEVIN_H

#include "base/table.h"

/* The scratch of a move: vector v of the kernel's own, and rows behind them. */
double *sosmc_i_vector(const sosmc_kernel *k, const sosmc_move *m, int v);
double *sosmc_i_row(const sosmc_kernel *k, const sosmc_move *m, int row);
size_t sosmc_i_vector_length(const sosmc_move *m);

/* p ~ N(0, mass I) for the batch's particles. */
void sosmc_i_fresh_momentum(sosmc_rng rng, double mass, const sosmc_batch *b, double *p);

/* Leapfrog steps from (x, p), the first kick with m->gx: fills x_new, U_new and gx_new, and p with the momentum there.
 * log_ratio (NULL: nobody asks) receives the total energy under theta_prev at the start less that under theta at the end.
 * Uses row 1. Returns the energy's value. */
int sosmc_i_leapfrog(const sosmc_kernel *k, sosmc_move *m, int steps, double *p, double *log_ratio);

/* Metropolis: particle i keeps its proposal in *_new with probability exp(log_ratio[i]), else goes back to its old state.
 * A ratio that is not a number is a rejection. Fills m->accept. */
void sosmc_i_accept(const sosmc_kernel *k, sosmc_move *m, const double *log_ratio);

#endif
