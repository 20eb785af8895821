/* descend.h: to a minimum of U by L-BFGS, in coordinates in which steps and tolerances know no unit. */
#ifndef SOSMC_JUDGE_DESCEND_H
#define SOSMC_JUDGE_DESCEND_H

#include <sosmc/analysis.h>

#include "temper/pass.h"

enum { DESCENT_MEMORY = 6 };

typedef struct {
    size_t dim;
    double rounding; /* relative rounding error of U: a step that would gain less is not tried */
    sosmc_host *host;
    const preconditioner *c;                   /* the coordinates u: x = x0 + C^-T u */
    double *x, *g, *try_x, *try_g, *direction; /* points in x, gradients and directions in u */
    double *S, *Y, rho[DESCENT_MEMORY];        /* differences of u and g, DESCENT_MEMORY rows of dim each */
    double longest;                            /* step, in u */
    int64_t evaluations;
    double *memory;
} descent;

/* SOSMC_ENOMEM, SOSMC_EMODEL. Close it in any case. */
sosmc_status sosmc_i_descent_open(descent *d, const sosmc_model *model, const double *theta);
void sosmc_i_descent_close(descent *d);

/* s <- C^-1 s and s <- C^-T s */
void sosmc_i_whiten(const preconditioner *c, double *s);
void sosmc_i_unwhiten(const preconditioner *c, double *s);

/* From the point in d->x to a minimum of U, which stays there with its gradient in d->g: at most `steps` steps in the coordinates
 * d->c. Returns 1 where the gradient did not vanish, or the energy at the start is not finite. */
int sosmc_i_descend(descent *d, int steps, double *U, sosmc_status *status);

#endif
