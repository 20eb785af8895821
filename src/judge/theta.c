/* theta.c: theta from the sums of the tail (maths.md GROUPS, NEWTON).
 *
 *     theta^ = mean theta - H^-1 mean g,      V = (16/15) sum_c T_c T_c' / n^2,
 *     Cov(theta^) = H^-1 V H^-1 + sum_b r_b r_b' / (B (B - 1)),   r_b = H^-1 (H_b - H) H^-1 g,
 *
 * with n the iterations that the observations stand for and H_b the means of H over B parts of them: the last term is the error of
 * H times the Newton step. V has rank 15; nothing inverts it, and its quadratic forms are sums of squares. */
#include "theta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"

static double square(double x) { return x * x; }

static void mean_hessian(theta_estimate *e, const watch_sums *tail)
{
    size_t p = (size_t)e->dim;
    double weight = 0;
    for (int b = 0; b < WATCH_BLOCKS; b++) {
        weight += tail->H_weight[b];
        for (size_t k = 0; k < p * p; k++) e->H[k] += tail->H[(size_t)b * p * p + k];
    }
    for (size_t k = 0; k < p * p; k++) e->H[k] = weight > 0 ? e->H[k] / weight : NAN;
}

/* Adds the error of H along the step to the squared errors. work: dim doubles. */
static void add_hessian_error(theta_estimate *e, const watch_sums *tail, double *work)
{
    size_t p = (size_t)e->dim;
    double parts = 0;
    for (int b = 0; b < WATCH_BLOCKS; b++) parts += tail->H_weight[b] > 0;
    for (int b = 0; b < WATCH_BLOCKS && parts > 1; b++) {
        if (!(tail->H_weight[b] > 0)) continue;
        const double *H = tail->H + (size_t)b * p * p;
        for (size_t j = 0; j < p; j++) {
            work[j] = 0;
            for (size_t k = 0; k < p; k++) work[j] += (H[j * p + k] / tail->H_weight[b] - e->H[j * p + k]) * e->step[k];
        }
        sosmc_i_cholesky_solve(p, e->factor, work);
        for (size_t j = 0; j < p; j++) e->mc_error[j] += work[j] * work[j] / (parts * (parts - 1));
    }
}

static void find_errors(theta_estimate *e, const watch_sums *tail, double *work)
{
    size_t p = (size_t)e->dim;
    double n = tail->head[HEAD_WEIGHT], scale = SOSMC_GROUPS / (SOSMC_GROUPS - 1.0) / (n * n);
    for (size_t c = 0; c < SOSMC_GROUPS; c++) {
        const double *T = tail->T + c * p;
        memcpy(work, T, p * sizeof(double));
        sosmc_i_cholesky_solve(p, e->factor, work);
        for (size_t j = 0; j < p; j++) {
            e->mc_error[j] += scale * square(work[j]);
            e->expected += 0.5 * scale * work[j] * T[j];
        }
    }
    add_hessian_error(e, tail, work);
    for (size_t j = 0; j < p; j++) e->mc_error[j] = sqrt(e->mc_error[j]);
}

sosmc_status sosmc_i_theta_estimate(theta_estimate *e, int dim, const watch_sums *tail, double longest)
{
    size_t p = (size_t)dim;
    double n = tail->head[HEAD_WEIGHT];
    double *memory = calloc(5 * p + 3 * p * p, sizeof *memory);
    *e = (theta_estimate){.dim = dim, .newton = NAN, .memory = memory};
    if (!memory) return SOSMC_ENOMEM;
    e->theta = memory;
    e->mean = e->theta + p;
    e->mc_error = e->mean + p;
    e->step = e->mc_error + p;
    double *work = e->step + p;
    e->H = work + p;
    e->factor = e->H + p * p;
    e->inverse = e->factor + p * p;
    for (int c = 0; c < SOSMC_GROUPS; c++) e->alive += tail->group_weight[c] > 1e-9;
    for (size_t j = 0; j < p; j++) {
        e->theta[j] = e->mean[j] = tail->theta[j] / n;
        e->step[j] = tail->grad[j] / n;
    }
    mean_hessian(e, tail);
    memcpy(e->factor, e->H, p * p * sizeof(double));
    for (size_t k = 0; k < p * p; k++)
        if (!isfinite(e->H[k])) return SOSMC_OK;
    if (sosmc_i_cholesky(p, e->factor)) return SOSMC_OK;
    e->definite = 1;
    sosmc_i_cholesky_inverse(p, e->factor, e->inverse);
    sosmc_i_cholesky_solve(p, e->factor, e->step);
    e->newton = 0;
    for (size_t j = 0; j < p; j++) e->newton += 0.5 * e->step[j] * tail->grad[j] / n;
    find_errors(e, tail, work);
    e->newton_taken = e->newton <= longest;
    for (size_t j = 0; e->newton_taken && j < p; j++) e->theta[j] = e->mean[j] - e->step[j];
    return SOSMC_OK;
}

void sosmc_i_theta_free(theta_estimate *e)
{
    free(e->memory);
    e->memory = NULL;
}
