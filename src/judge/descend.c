/* descend.c: L-BFGS with backtracking, one evaluation at a time, so that nothing depends on threads. */
#include "descend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"

enum { HALVINGS = 30 };

void sosmc_i_whiten(const preconditioner *c, double *s)
{
    size_t dim = (size_t)c->dim;
    if (!c->diagonal) sosmc_i_solve_lower(dim, c->C, s);
    for (size_t j = 0; c->diagonal && j < dim; j++) s[j] /= c->C[j];
}

void sosmc_i_unwhiten(const preconditioner *c, double *s)
{
    size_t dim = (size_t)c->dim;
    if (!c->diagonal) sosmc_i_solve_lower_transposed(dim, c->C, s);
    for (size_t j = 0; c->diagonal && j < dim; j++) s[j] /= c->C[j];
}

sosmc_status sosmc_i_descent_open(descent *d, const sosmc_model *model, const double *theta)
{
    size_t dim = (size_t)model->dim_x;
    *d = (descent){
        .dim = dim, .rounding = model->rounding, .memory = calloc((5 + 2 * DESCENT_MEMORY) * dim, sizeof(double))};
    if (!d->memory) return SOSMC_ENOMEM;
    d->x = d->memory;
    d->g = d->x + dim;
    d->try_x = d->g + dim;
    d->try_g = d->try_x + dim;
    d->direction = d->try_g + dim;
    d->S = d->direction + dim;
    d->Y = d->S + DESCENT_MEMORY * dim;
    return sosmc_host_create(&d->host, model, theta, 0);
}

void sosmc_i_descent_close(descent *d)
{
    sosmc_host_free(d->host);
    free(d->memory);
    d->memory = NULL;
    d->host = NULL;
}

/* U at x, and the gradient in u. */
static sosmc_status evaluate(descent *d, const double *x, double *U, double *g)
{
    sosmc_status status = sosmc_host_gradients(d->host, 1, x, U, g);
    d->evaluations++;
    if (status == SOSMC_OK) sosmc_i_whiten(d->c, g);
    return status;
}

/* direction = -(inverse Hessian of the last differences) g: the two loops of L-BFGS. */
static void find_direction(descent *d, int64_t pairs)
{
    size_t dim = d->dim;
    double alpha[DESCENT_MEMORY] = {0};
    int64_t oldest = pairs > DESCENT_MEMORY ? pairs - DESCENT_MEMORY : 0;
    for (size_t j = 0; j < dim; j++) d->direction[j] = -d->g[j];
    for (int64_t k = pairs - 1; k >= oldest; k--) {
        const double *S = d->S + (size_t)(k % DESCENT_MEMORY) * dim, *Y = d->Y + (size_t)(k % DESCENT_MEMORY) * dim;
        alpha[k % DESCENT_MEMORY] = d->rho[k % DESCENT_MEMORY] * sosmc_i_dot(dim, S, d->direction);
        for (size_t j = 0; j < dim; j++) d->direction[j] -= alpha[k % DESCENT_MEMORY] * Y[j];
    }
    if (pairs > 0) {
        const double *Y = d->Y + (size_t)((pairs - 1) % DESCENT_MEMORY) * dim;
        double scale = 1 / (d->rho[(pairs - 1) % DESCENT_MEMORY] * sosmc_i_dot(dim, Y, Y));
        for (size_t j = 0; j < dim; j++) d->direction[j] *= scale;
    }
    for (int64_t k = oldest; k < pairs; k++) {
        const double *S = d->S + (size_t)(k % DESCENT_MEMORY) * dim, *Y = d->Y + (size_t)(k % DESCENT_MEMORY) * dim;
        double beta = d->rho[k % DESCENT_MEMORY] * sosmc_i_dot(dim, Y, d->direction);
        for (size_t j = 0; j < dim; j++) d->direction[j] += S[j] * (alpha[k % DESCENT_MEMORY] - beta);
    }
}

/* From d->x with d->g: a step along the direction that lowers U enough. Returns 1 where there is none. */
static int line_search(descent *d, double *U, double *length, sosmc_status *status)
{
    size_t dim = d->dim;
    double slope = sosmc_i_dot(dim, d->g, d->direction), size = sqrt(sosmc_i_dot(dim, d->direction, d->direction));
    *length = size > d->longest ? d->longest / size : 1;
    int capped = *length < 1;
    if (!(slope < -d->rounding * fabs(*U))) return 1; /* nothing to gain that U could show */
    for (int k = 0; k < HALVINGS; k++, *length *= 0.5) {
        double value;
        for (size_t j = 0; j < dim; j++) d->try_x[j] = *length * d->direction[j];
        sosmc_i_unwhiten(d->c, d->try_x);
        for (size_t j = 0; j < dim; j++) d->try_x[j] += d->x[j];
        *status = evaluate(d, d->try_x, &value, d->try_g);
        if (*status != SOSMC_OK) return 1;
        if (!(value <= *U + 1e-4 * *length * slope) || !sosmc_i_all_finite(dim, d->try_g)) continue;
        *U = value;
        if (capped && k == 0) d->longest *= 2; /* the minimum is far: longer steps go on lowering U */
        return 0;
    }
    return 1;
}

int sosmc_i_descend(descent *d, int steps, double *U, sosmc_status *status)
{
    size_t dim = d->dim;
    int64_t pairs = 0;
    d->longest = 10 * sqrt((double)dim) + 10;
    *status = evaluate(d, d->x, U, d->g);
    if (*status != SOSMC_OK || !isfinite(*U) || !sosmc_i_all_finite(dim, d->g)) return 1;
    for (int k = 0; k < steps && sosmc_i_dot(dim, d->g, d->g) > 1e-10 * (double)dim; k++) {
        double length;
        find_direction(d, pairs);
        if (line_search(d, U, &length, status)) break;
        double *S = d->S + (size_t)(pairs % DESCENT_MEMORY) * dim, *Y = d->Y + (size_t)(pairs % DESCENT_MEMORY) * dim;
        for (size_t j = 0; j < dim; j++) {
            S[j] = length * d->direction[j];
            Y[j] = d->try_g[j] - d->g[j];
        }
        double curvature = sosmc_i_dot(dim, S, Y);
        if (curvature > 1e-12 * sosmc_i_dot(dim, Y, Y)) {
            d->rho[pairs % DESCENT_MEMORY] = 1 / curvature;
            pairs++;
        }
        memcpy(d->x, d->try_x, dim * sizeof(double));
        memcpy(d->g, d->try_g, dim * sizeof(double));
    }
    return !(sosmc_i_dot(dim, d->g, d->g) < 0.01 * (double)dim);
}
