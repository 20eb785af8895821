/* modes.h: modes of pi_theta and Laplace's approximation there. */
#ifndef SOSMC_JUDGE_MODES_H
#define SOSMC_JUDGE_MODES_H

#include "temper/pass.h"

enum { MODES_MOST = 8, MODES_DIM = 100 };

typedef struct {
    int count;
    double *x[MODES_MOST];   /* where */
    double *L[MODES_MOST];   /* lower factor of the inverse curvature, dim rows of dim */
    double mass[MODES_MOST]; /* log of Laplace's approximation of the integral of exp(-U) around it */
} modes;

/* Descends U from n starting points, rows of dim, in the coordinates of c (full and with gradients, at most MODES_DIM of them), and
 * keeps the distinct minima with positive curvature whose mass is not negligible. SOSMC_EMODEL, SOSMC_ENOMEM; finding none is no
 * failure. */
sosmc_status sosmc_i_modes_find(modes *m, const sosmc_model *model, const double *theta, const preconditioner *c, int n,
                                const double *starts);
void sosmc_i_modes_free(modes *m);

#endif
