/* gaussian.c: a Gaussian law given by the factor of its precision, with an optional wide part: a source with density.
 *
 *     q(x) = (1 - share) N(x; mean, widen^2 (C C^T)^-1) + share N(x; centre 1, variance I)
 *     draw: C^T u = z by back substitution, x = mean + widen u;   density: |C^T (x - mean)|^2, log det = sum log C_jj
 *
 * Invariant: what a particle draws depends on its number alone; uniforms decide which part it comes from. */
#include <math.h>
#include <sosmc/models.h>

#include "base/table.h"

enum { CHUNK = 64 };
static const double half_log_2pi = 0.91893853320467274178;

static double width_of(const sosmc_gaussian *law) { return law->widen > 0 ? law->widen : 1; }

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const sosmc_gaussian *law = self;
    const size_t dim = (size_t)law->dim, ld = (size_t)b->ld;
    double u[CHUNK], deviation = sqrt(law->variance), width = width_of(law);
    sosmc_normals(rng, b, x);
    for (int from = 0; from < b->n; from += CHUNK) {
        sosmc_batch part = *b;
        part.n = b->n - from < CHUNK ? b->n - from : CHUNK;
        part.first += from;
        sosmc_uniforms(rng, 0, &part, u); /* u is in (0, 1], so a share of 0 is never chosen and a share of 1 always */
        for (size_t j = dim; j-- > 0;) {
            double *restrict row = x + j * ld + from;
            for (size_t k = j + 1; k < dim; k++) {
                const double *restrict later = x + k * ld + from;
                double c = law->factor[k * dim + j];
                for (int i = 0; i < part.n; i++) row[i] = u[i] <= law->share ? row[i] : row[i] - c * later[i];
            }
            double diagonal = law->factor[j * dim + j];
            for (int i = 0; i < part.n; i++) row[i] = u[i] <= law->share ? row[i] : row[i] / diagonal;
        }
        for (size_t j = 0; j < dim; j++) {
            double *restrict row = x + j * ld + from;
            for (int i = 0; i < part.n; i++)
                row[i] = u[i] <= law->share ? law->centre + deviation * row[i] : law->mean[j] + width * row[i];
        }
    }
    return 0;
}

/* squares[i] = |C^T (x_i - mean)|^2 */
static void narrow_squares(const sosmc_gaussian *law, const double *x, size_t ld, int n, double *restrict squares)
{
    const size_t dim = (size_t)law->dim;
    double z[CHUNK];
    for (int i = 0; i < n; i++) squares[i] = 0;
    for (size_t j = 0; j < dim; j++) {
        for (int i = 0; i < n; i++) z[i] = 0;
        for (size_t k = j; k < dim; k++) {
            const double *restrict row = x + k * ld;
            double c = law->factor[k * dim + j], mean = law->mean[k];
            for (int i = 0; i < n; i++) z[i] += c * (row[i] - mean);
        }
        for (int i = 0; i < n; i++) squares[i] += z[i] * z[i];
    }
}

static void wide_squares(const sosmc_gaussian *law, const double *x, size_t ld, int n, double *restrict squares)
{
    for (int i = 0; i < n; i++) squares[i] = 0;
    for (size_t j = 0; j < (size_t)law->dim; j++) {
        const double *restrict row = x + j * ld;
        for (int i = 0; i < n; i++) squares[i] += (row[i] - law->centre) * (row[i] - law->centre);
    }
    for (int i = 0; i < n; i++) squares[i] /= law->variance;
}

/* log(e^a + e^b) = max + log(1 + exp(-|a - b|)) */
static void add_densities(const sosmc_simd *simd, int n, const double *a, double *b)
{
    double e[CHUNK];
    for (int i = 0; i < n; i++) e[i] = -fabs(a[i] - b[i]);
    sosmc_exp(simd, n, e, e);
    for (int i = 0; i < n; i++) e[i] += 1;
    sosmc_log(simd, n, e, e);
    for (int i = 0; i < n; i++) b[i] = (a[i] > b[i] ? a[i] : b[i]) + e[i];
}

static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const sosmc_gaussian *law = self;
    const size_t dim = (size_t)law->dim;
    double wide[CHUNK], constant = -law->dim * half_log_2pi, narrow_log = constant, wide_log = constant;
    double width = width_of(law), half = 0.5 / (width * width);
    narrow_log -= law->dim * sosmc_i_log1(b->simd, width);
    for (size_t j = 0; j < dim; j++) narrow_log += sosmc_i_log1(b->simd, law->factor[j * dim + j]);
    if (law->share > 0) {
        narrow_log += sosmc_i_log1(b->simd, 1 - law->share);
        wide_log += sosmc_i_log1(b->simd, law->share) - 0.5 * law->dim * sosmc_i_log1(b->simd, law->variance);
    }
    for (int from = 0; from < b->n; from += CHUNK) {
        int n = b->n - from < CHUNK ? b->n - from : CHUNK;
        double *out = lq + from;
        narrow_squares(law, b->x + from, (size_t)b->ld, n, out);
        for (int i = 0; i < n; i++) out[i] = narrow_log - half * out[i];
        if (!(law->share > 0)) continue;
        wide_squares(law, b->x + from, (size_t)b->ld, n, wide);
        for (int i = 0; i < n; i++) wide[i] = wide_log - 0.5 * wide[i];
        add_densities(b->simd, n, wide, out);
    }
    return 0;
}

sosmc_source sosmc_gaussian_source(const sosmc_gaussian *law)
{
    return (sosmc_source){.self = law, .draw = draw, .logpdf = logpdf};
}
