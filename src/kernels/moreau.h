/* moreau.h: the drift that MYULA and MYMALA share (maths.md MYULA): D(x) = f(x) + (x - prox_{lambda g}(x)) / lambda. */
#ifndef SOSMC_KERNELS_MOREAU_H
#define SOSMC_KERNELS_MOREAU_H

#include "kernel.h"

/* pull = x - prox(x) under theta. Returns the model's value. */
int sosmc_i_pull(const sosmc_kernel *k, const sosmc_move *m, const double *x, double *pull);
/* drift = f + rate pull. */
void sosmc_i_drift(size_t len, const double *restrict f, const double *restrict pull, double rate,
                   double *restrict drift);
/* The noise and the width of the envelope (see `check` of sosmc_kernel). */
const char *sosmc_i_check_moreau(const sosmc_kernel *k, int weighted, char *text, size_t room);

#endif
