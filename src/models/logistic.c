/* logistic.c: Bayesian logistic regression with a learned prior mean, and Laplace's approximation of its posterior.
 *
 *     U_theta(x) = sum_j (x_j - theta)^2 / (2 v) + (dim/2) log(2 pi v) + sum_r log(1 + exp((1 - 2 y_r) f_r . x))
 *                = -log p_theta(x, y),   dU/dtheta = sum_j (theta - x_j) / v
 *
 * The pass over the data is in logistic_vec.c; here are what depends on the prior alone, and Newton's method. */
#include <math.h>
#include <sosmc/models.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "prior.h"
#include "base/linear.h"
#include "base/table.h"

typedef void data_pass(const sosmc_logistic *m, double theta, const sosmc_batch *b, double *U, double *gx);
data_pass sosmc_i_logistic_energy_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
data_pass sosmc_i_logistic_energy_avx2, sosmc_i_logistic_energy_avx512;
#endif

static data_pass *pass_for(const sosmc_simd *simd) { return SIMD_CHOOSE(simd, sosmc_i_logistic_energy); }

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_logistic *m = self;
    const double two_pi = 6.283185307179586;
    double constant = 0.5 * m->dim * sosmc_i_log1(b->simd, two_pi * m->variance);
    pass_for(b->simd)(m, theta[0], b, U, gx);
    for (int i = 0; i < b->n; i++) U[i] += constant;
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    prior_contract(theta[0], ((const sosmc_logistic *)self)->variance, b, c, g);
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    prior_scores(theta[0], ((const sosmc_logistic *)self)->variance, b, D);
    return 0;
}

sosmc_model sosmc_logistic_model(const sosmc_logistic *data)
{
    return (sosmc_model){
        .dim_x = data->dim, .dim_theta = 1, .self = data, .energy = energy, .grad_theta = grad_theta, .scores = scores};
}

/* ------------------------------------------------------------------------------------------------ Laplace */

/* U, dU/dx and the lower triangle of d2U/dx2 at x. */
static double curvature(const sosmc_logistic *m, double theta, const double *x, double *g, double *P)
{
    size_t dim = (size_t)m->dim;
    double U = 0;
    sosmc_batch b = {.x = x, .dim = m->dim, .n = 1, .ld = 1};
    (void)energy(m, &theta, &b, &U, g);
    memset(P, 0, dim * dim * sizeof *P);
    for (size_t j = 0; j < dim; j++) P[j * dim + j] = 1 / m->variance;
    for (size_t r = 0; r < (size_t)m->rows; r++) {
        const double *f = m->features + r * dim;
        double a = 0;
        for (size_t j = 0; j < dim; j++) a += f[j] * x[j];
        double e = sosmc_i_exp1(NULL, -fabs(a)), weight = e / ((1 + e) * (1 + e));
        for (size_t j = 0; j < dim; j++)
            for (size_t l = 0; l <= j; l++) P[j * dim + l] += weight * f[j] * f[l];
    }
    return U;
}

/* One Newton step from x: the step into s, C at x, and the squared length of the step as C measures it. */
static double newton(const sosmc_logistic *m, double theta, const double *x, double *U, double *g, double *s, double *C)
{
    size_t dim = (size_t)m->dim;
    double length = 0;
    *U = curvature(m, theta, x, g, C);
    if (!isfinite(*U) || sosmc_i_cholesky(dim, C)) return NAN;
    memcpy(s, g, dim * sizeof *s);
    sosmc_i_cholesky_solve(dim, C, s);
    for (size_t j = 0; j < dim; j++) length += g[j] * s[j];
    return length;
}

/* x <- x - s, or a fraction of s when that does not lower U. */
static void walk(const sosmc_logistic *m, double theta, double U, const double *s, double *from, double *x)
{
    enum { HALVINGS = 60 };
    size_t dim = (size_t)m->dim;
    double fraction = 1, tried = 0;
    sosmc_batch b = {.x = x, .dim = m->dim, .n = 1, .ld = 1};
    memcpy(from, x, dim * sizeof *from);
    for (int half = 0; half < HALVINGS; half++, fraction *= 0.5) {
        for (size_t j = 0; j < dim; j++) x[j] = from[j] - fraction * s[j];
        (void)energy(m, &theta, &b, &tried, NULL);
        if (tried <= U) return;
    }
}

/* U is strictly convex: Newton's method with halved steps converges from anywhere. Once steps are short, in standard
 * deviations, they double the digits, and U no longer shows what they gain. */
sosmc_status sosmc_logistic_laplace(const sosmc_logistic *data, double theta, double *mode, double *factor)
{
    STANDARD_ARITHMETIC;
    enum { STEPS = 200 };
    const double enough = 1e-22, close = 1e-6; /* squared lengths */
    size_t dim = (size_t)data->dim;
    double U, length = INFINITY, *g = malloc(3 * dim * sizeof *g);
    if (!g) return SOSMC_ENOMEM;
    double *s = g + dim, *from = s + dim;
    for (size_t j = 0; j < dim; j++) mode[j] = theta;
    for (int k = 0; k < STEPS; k++) {
        length = newton(data, theta, mode, &U, g, s, factor);
        if (!(length >= enough)) break;
        if (length > close)
            walk(data, theta, U, s, from, mode);
        else
            for (size_t j = 0; j < dim; j++) mode[j] -= s[j];
    }
    free(g);
    return length < close ? SOSMC_OK : SOSMC_ENUMERIC;
}
