/* moments.c: running mean and standard deviation of every coordinate over weighted clouds.
 *
 * Cloud k has weighted mean a_k and variance v_k in a coordinate. Behind n clouds, mean = sum a_k / n, and
 * spread = sum v_k + sum (a_k - mean)^2, updated without cancellation (Chan, Golub and LeVeque), so sd^2 = spread / n.
 *
 * Invariant: sums run over the particles in their order, by one thread. */
#include <sosmc/analysis.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arithmetic.h"

typedef struct {
    sosmc_moments open;
    double *now_mean, *now_spread; /* of one cloud */
    int particles;                 /* x and w hold so many */
    double *x, *w;                 /* an engine's cloud */
} moments;

sosmc_status sosmc_moments_create(sosmc_moments **out, int dim, int particles)
{
    *out = NULL;
    if (dim < 1 || particles < 0) return SOSMC_EINVAL;
    moments *m = calloc(1, sizeof *m);
    if (!m) return SOSMC_ENOMEM;
    size_t n = (size_t)dim, most = (size_t)particles;
    m->open = (sosmc_moments){.dim = dim, .mean = calloc(n, 4 * sizeof(double))};
    m->particles = particles;
    m->x = most ? calloc(n, most * sizeof(double)) : NULL;
    m->w = most ? malloc(most * sizeof(double)) : NULL;
    if (!m->open.mean || (most && (!m->x || !m->w))) {
        sosmc_moments_free(&m->open);
        return SOSMC_ENOMEM;
    }
    m->open.spread = m->open.mean + n;
    m->now_mean = m->open.spread + n;
    m->now_spread = m->now_mean + n;
    *out = &m->open;
    return SOSMC_OK;
}

void sosmc_moments_free(sosmc_moments *open)
{
    moments *m = (moments *)open;
    if (!m) return;
    free(m->open.mean);
    free(m->x);
    free(m->w);
    free(m);
}

void sosmc_moments_clear(sosmc_moments *m)
{
    m->clouds = 0;
    memset(m->mean, 0, 2 * (size_t)m->dim * sizeof(double));
}

/* Weighted mean and variance of one cloud; particle i has weight w[i] / total, or 1 / total where w is NULL. */
static void measure(moments *m, int64_t n, const double *x, const double *w, double total)
{
    size_t dim = (size_t)m->open.dim;
    memset(m->now_mean, 0, 2 * dim * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double weight = (w ? w[i] : 1) / total;
        for (size_t j = 0; j < dim; j++) m->now_mean[j] += weight * x[(size_t)i * dim + j];
    }
    for (int64_t i = 0; i < n; i++) {
        double weight = (w ? w[i] : 1) / total;
        for (size_t j = 0; j < dim; j++) {
            double off = x[(size_t)i * dim + j] - m->now_mean[j];
            m->now_spread[j] += weight * off * off;
        }
    }
}

static void take_in(moments *m)
{
    sosmc_moments *open = &m->open;
    double n = (double)++open->clouds;
    for (int j = 0; j < open->dim; j++) {
        double off = m->now_mean[j] - open->mean[j];
        open->mean[j] += off / n;
        open->spread[j] += m->now_spread[j] + off * off * (n - 1) / n;
    }
}

sosmc_status sosmc_moments_add(sosmc_moments *open, int64_t n, const double *x, const double *w)
{
    STANDARD_ARITHMETIC;
    double sum = 0;
    if (n < 1) return SOSMC_EINVAL;
    for (int64_t i = 0; w && i < n; i++) {
        if (!(w[i] >= 0)) return SOSMC_ENUMERIC;
        sum += w[i];
    }
    if (w && !(sum > 0 && isfinite(sum))) return SOSMC_ENUMERIC;
    measure((moments *)open, n, x, w, w ? sum : (double)n);
    take_in((moments *)open);
    return SOSMC_OK;
}

sosmc_status sosmc_moments_add_cloud(sosmc_moments *open, const sosmc *s)
{
    STANDARD_ARITHMETIC;
    moments *m = (moments *)open;
    int n = sosmc_particles(s);
    if (n > m->particles) return SOSMC_EINVAL;
    sosmc_status status = sosmc_cloud(s, m->x, m->w);
    if (status != SOSMC_OK) return status;
    /* The weights are normalised already; dividing by their sum would only add a rounding error. */
    sosmc_exp(NULL, n, m->w, m->w);
    measure(m, n, m->x, m->w, 1);
    take_in(m);
    return SOSMC_OK;
}

void sosmc_moments_sd(const sosmc_moments *m, double *sd)
{
    STANDARD_ARITHMETIC;
    for (int j = 0; j < m->dim; j++) sd[j] = m->clouds ? sqrt(m->spread[j] / (double)m->clouds) : NAN;
}
