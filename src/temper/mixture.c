/* mixture.c: a mixture of normal laws fitted to points, as a starting law of a pass: where the mass of a law with several modes or a
 * bent one lies, a single normal law has little of its own there.
 *
 * Centres by k-means from well-spread points, then expectation-maximisation with full covariances. The fit only has to be near: what
 * it misses costs weights, not correctness, because draws are weighed with its density. Invariant: sums run over points in order, and
 * no function of libm but sqrt is called. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "laws.h"

enum { FITTED = 4096, PER_PARAMETER = 20, MEANS_ROUNDS = 10, ROUNDS = 20, STREAM_CENTRES = 23 };
static const double NARROWEST = 0.02, LEAST_SHARE = 1e-3; /* of the points' standard deviation; of the weight */

typedef struct {
    const laws *q;
    int parts;
    int64_t n;
    const double *x;           /* n rows of dim */
    double *w, *unit;          /* weights that sum to 1; standard deviations of the coordinates */
    double *share;             /* parts rows of n: how much of a point a component has */
    double *weight, *mean, *L; /* of the components */
    double *column, *z;        /* n numbers; dim numbers */
} fit;

static double square(double a) { return a * a; }

static double apart(const fit *f, const double *a, const double *b)
{
    double sum = 0;
    for (int j = 0; j < f->q->dim; j++) sum += square((a[j] - b[j]) / f->unit[j]);
    return sum;
}

static void find_units(fit *f)
{
    size_t dim = (size_t)f->q->dim;
    for (size_t j = 0; j < dim; j++) {
        double mean = 0, spread = 0;
        for (int64_t i = 0; i < f->n; i++) mean += f->w[i] * f->x[(size_t)i * dim + j];
        for (int64_t i = 0; i < f->n; i++) spread += f->w[i] * square(f->x[(size_t)i * dim + j] - mean);
        f->unit[j] = spread > 0 ? sqrt(spread) : 1;
    }
}

/* Each next centre is a point drawn in proportion to its weight and its squared distance from the centres so far. */
static void first_centres(fit *f)
{
    size_t dim = (size_t)f->q->dim;
    double u[LAW_MOST];
    sosmc_batch b = {.simd = sosmc_simd_best(), .dim = 1, .n = LAW_MOST, .ld = LAW_MOST};
    sosmc_uniforms((sosmc_rng){.stream = STREAM_CENTRES}, 0, &b, u);
    for (int64_t i = 0; i < f->n; i++) f->column[i] = 1;
    for (int k = 0; k < f->parts; k++) {
        double total = 0, below = 0;
        int64_t at = f->n - 1;
        for (int64_t i = 0; i < f->n; i++) total += f->w[i] * f->column[i];
        for (int64_t i = 0; i < f->n && at == f->n - 1; i++) {
            below += f->w[i] * f->column[i];
            if (below >= u[k] * total) at = i;
        }
        memcpy(f->mean + (size_t)k * dim, f->x + (size_t)at * dim, dim * sizeof(double));
        for (int64_t i = 0; i < f->n; i++) {
            double far = apart(f, f->x + (size_t)i * dim, f->mean + (size_t)k * dim);
            f->column[i] = k == 0 ? far : fmin(f->column[i], far);
        }
    }
}

/* Every point belongs to the nearest centre, and centres become the means of their points. */
static void settle_centres(fit *f)
{
    size_t dim = (size_t)f->q->dim, n = (size_t)f->n;
    memset(f->share, 0, (size_t)f->parts * n * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        int nearest = 0;
        double least = INFINITY;
        for (int k = 0; k < f->parts; k++) {
            double far = apart(f, f->x + i * dim, f->mean + (size_t)k * dim);
            if (far < least) least = far, nearest = k;
        }
        f->share[(size_t)nearest * n + i] = 1;
    }
    for (int k = 0; k < f->parts; k++) {
        double *mean = f->mean + (size_t)k * dim, total = 0;
        const double *share = f->share + (size_t)k * n;
        for (size_t i = 0; i < n; i++) total += f->w[i] * share[i];
        if (!(total > 0)) continue;
        memset(mean, 0, dim * sizeof(double));
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < dim && share[i] > 0; j++) mean[j] += f->w[i] / total * f->x[i * dim + j];
    }
}

/* The components from the shares; one that has nearly nothing is left out from then on. */
static void maximise(fit *f, double inflate)
{
    size_t dim = (size_t)f->q->dim, n = (size_t)f->n, doubles = sosmc_i_law_doubles(f->q);
    for (int k = 0; k < f->parts; k++) {
        double *L = f->L + (size_t)k * doubles, total = 0;
        for (size_t i = 0; i < n; i++) total += f->column[i] = f->w[i] * f->share[(size_t)k * n + i];
        f->weight[k] = total > LEAST_SHARE ? total : 0;
        for (size_t i = 0; i < n && total > 0; i++) f->column[i] /= total;
        if (f->weight[k] > 0 && sosmc_i_fit_normal(f->q, f->n, f->x, f->column, inflate, f->mean + (size_t)k * dim, L))
            f->weight[k] = 0;
        for (size_t j = 0; j < dim; j++) {
            double *diagonal = &L[f->q->diagonal ? j : j * dim + j];
            *diagonal = fmax(*diagonal, NARROWEST * f->unit[j]);
        }
    }
}

/* log of the density of component k at a point, but for a constant that all share. */
static double log_density(const fit *f, int k, const double *x)
{
    size_t dim = (size_t)f->q->dim;
    const double *L = f->L + (size_t)k * sosmc_i_law_doubles(f->q), *mean = f->mean + (size_t)k * dim;
    double sum = 0, product = f->weight[k], log_norm = 0;
    for (size_t j = 0; j < dim; j++) {
        double diagonal = L[f->q->diagonal ? j : j * dim + j], away = x[j] - mean[j];
        for (size_t i = 0; i < j && !f->q->diagonal; i++) away -= L[j * dim + i] * f->z[i];
        f->z[j] = away / diagonal;
        sum += f->z[j] * f->z[j];
        product /= diagonal / f->unit[j];
        if (j % 16 == 15) log_norm += sosmc_i_log1(NULL, product), product = 1;
    }
    return log_norm + sosmc_i_log1(NULL, product) - 0.5 * sum;
}

/* The shares from the components. */
static void expect(fit *f)
{
    size_t dim = (size_t)f->q->dim, n = (size_t)f->n;
    double part[LAW_MOST];
    for (size_t i = 0; i < n; i++) {
        double most = -INFINITY, total = 0;
        for (int k = 0; k < f->parts; k++) {
            part[k] = f->weight[k] > 0 ? log_density(f, k, f->x + i * dim) : -INFINITY;
            most = fmax(most, part[k]);
        }
        for (int k = 0; k < f->parts; k++) {
            part[k] = part[k] - most > -700 ? sosmc_i_exp1(NULL, part[k] - most) : 0;
            total += part[k];
        }
        for (int k = 0; k < f->parts; k++) f->share[(size_t)k * n + i] = total > 0 ? part[k] / total : 0;
    }
}

/* At most FITTED evenly spaced points. */
static void take_points(fit *f, int64_t n, const double *x, const double *w, double *rows)
{
    size_t dim = (size_t)f->q->dim;
    int64_t every = (n + FITTED - 1) / FITTED;
    double total = 0;
    f->n = 0;
    for (int64_t i = 0; i < n; i += every) {
        if (w && !(w[i] > 0)) continue;
        memcpy(rows + (size_t)f->n * dim, x + (size_t)i * dim, dim * sizeof(double));
        total += f->w[f->n++] = w ? w[i] : 1;
    }
    for (int64_t i = 0; i < f->n; i++) f->w[i] /= total;
    f->x = rows;
}

int sosmc_i_fit_mixture(laws *q, int parts, double weight, double inflate, int64_t n, const double *x, const double *w)
{
    fit f = {.q = q};
    size_t dim = (size_t)q->dim, most = (size_t)(n < FITTED ? n : FITTED), doubles = sosmc_i_law_doubles(q);
    int affordable = (int)fmin(parts, (double)most / (PER_PARAMETER * ((double)dim + 1)));
    f.parts = affordable < 1 ? 1 : affordable;
    if (f.parts > LAW_MOST) f.parts = LAW_MOST;
    size_t k = (size_t)f.parts;
    double *memory = malloc((most * (dim + 2 + k) + 2 * dim + k * (1 + dim + doubles)) * sizeof *memory), *at = memory;
    if (!memory) return -1;
    double *rows = at;
    f.w = (at += most * dim);
    f.column = (at += most);
    f.share = (at += most);
    f.unit = (at += most * k);
    f.z = (at += dim);
    f.weight = (at += dim);
    f.mean = (at += k);
    f.L = at + k * dim;
    memset(f.L, 0, k * doubles * sizeof(double));
    take_points(&f, n, x, w, rows);
    find_units(&f);
    first_centres(&f);
    for (int round = 0; round < MEANS_ROUNDS; round++) settle_centres(&f);
    maximise(&f, 1);
    for (int round = 0; round < ROUNDS && f.parts > 1; round++) {
        expect(&f);
        maximise(&f, round + 1 == ROUNDS ? inflate : 1);
    }
    if (f.parts == 1) maximise(&f, inflate);
    int rc = 0;
    for (int part = 0; part < f.parts && rc == 0; part++)
        if (f.weight[part] > 0)
            rc = sosmc_i_laws_add(q, weight * f.weight[part], 0, f.mean + (size_t)part * dim,
                                  f.L + (size_t)part * doubles);
    free(memory);
    return rc;
}
