/* prior.h: what models share whose coordinates have the prior N(theta, v) each: dU/dtheta = sum_j (theta - x_j) / v. */
#ifndef SOSMC_MODELS_PRIOR_H
#define SOSMC_MODELS_PRIOR_H

#include <sosmc/sosmc.h>

/* sum[i] = sum_j (theta - x_j) of n particles, from number `from` on. */
static inline void prior_sums(double theta, const sosmc_batch *b, int from, int n, double *restrict sum)
{
    for (int i = 0; i < n; i++) sum[i] = 0;
    for (int j = 0; j < b->dim; j++) {
        const double *restrict x = b->x + (size_t)j * (size_t)b->ld + from;
        for (int i = 0; i < n; i++) sum[i] += theta - x[i];
    }
}

/* D[i] = dU/dtheta(x_i) */
static inline void prior_scores(double theta, double variance, const sosmc_batch *b, double *restrict D)
{
    prior_sums(theta, b, 0, b->n, D);
    for (int i = 0; i < b->n; i++) D[i] /= variance;
}

/* *g += sum_i c_i dU/dtheta(x_i), chunks of particles at a time so that the sums over j stay side by side. */
static inline void prior_contract(double theta, double variance, const sosmc_batch *b, const double *c, double *g)
{
    enum { CHUNK = 64 };
    double sum[CHUNK];
    for (int from = 0; from < b->n; from += CHUNK) {
        int n = b->n - from < CHUNK ? b->n - from : CHUNK;
        prior_sums(theta, b, from, n, sum);
        for (int i = 0; i < n; i++) *g += c[from + i] * sum[i] / variance;
    }
}

#endif
