/* theory_gauss.h: a Gaussian N(theta, S) with correlations rho^|i-j|, its exact draws, an optimiser with a given gradient,
 * and runs of the engine with them, for statements whose exact values are known.
 *
 *     U = 1/2 (e_0^2 + sum_j (e_j - rho e_{j-1})^2 / (1 - rho^2)),   e = x - theta;   Z does not depend on theta. */
#ifndef SOSMC_THEORY_THEORY_GAUSS_H
#define SOSMC_THEORY_THEORY_GAUSS_H

#include <sosmc/sosmc.h>

#include "theory.h"

typedef struct {
    int dim;
    double rho;
} theory_gauss;

double theory_gauss_norm2(const theory_gauss *g, const double *v); /* v' S^-1 v */

/* A law whose mean moves along -gradient, starting from exact draws at theta = 0. */
typedef struct {
    theory_gauss law;
    double *gradient; /* dim numbers of different sizes; only its norms matter */
} theory_moving;
int theory_moving_make(arena *memory, theory_moving *m, int dim, double rho); /* 0, or -1: no memory */
sosmc_settings theory_moving_settings(const theory_moving *m, sosmc_kernel kernel, int particles, double gamma,
                                      uint64_t seed);
/* An exit code, as of a check. `last` (may be NULL) receives the last iteration's info, `sd` (may be NULL) the weighted
 * standard deviation of the first coordinate at the end: 1 for the law itself. */
int theory_moving_run(theory_statement *s, const theory_moving *m, const sosmc_settings *c, int iterations,
                      sosmc_observer see, void *ctx, sosmc_info *last, double *sd);

#endif
