/* information.c: what a fit is worth: observed information by Louis' identity, and log Z with its Monte Carlo error.
 *
 * Both look at a model through its callbacks alone. Louis' identity needs dU/dtheta of single particles, which
 * grad_theta gives for batches of one, and the mean of d2U/dtheta2, which is the derivative of the contraction at fixed
 * weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

/* A model at one theta, with the memory its callbacks want. */
typedef struct {
    const sosmc_model *model;
    const double *theta;
    void *prep, *work;
} bound;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static sosmc_status prepare(const bound *m)
{
    if (!m->model->prepare) return SOSMC_OK;
    return m->model->prepare(m->model->self, m->theta, m->prep) ? SOSMC_EMODEL : SOSMC_OK;
}

/* ------------------------------------------------------------------------------------------------ Louis */

typedef struct {
    int64_t n;
    const double *x, *logw;
    double total; /* of the weights */
} weighted;

static double weight(const weighted *cloud, int64_t i)
{
    return cloud->logw ? sosmc_i_exp1(NULL, cloud->logw[i]) / cloud->total : 1 / cloud->total;
}

/* g += c dU/dtheta(x_i) */
static sosmc_status add_gradient(const bound *m, const weighted *cloud, int64_t i, double c, double *g)
{
    sosmc_batch b = {.x = cloud->x + i * m->model->dim_x,
                     .prep = m->prep,
                     .work = m->work,
                     .dim = m->model->dim_x,
                     .n = 1,
                     .ld = 1,
                     .first = i};
    return m->model->grad_theta(m->model->self, m->theta, &b, &c, g) ? SOSMC_EMODEL : SOSMC_OK;
}

/* g = E[dU/dtheta]. A particle without weight may be anywhere, even at infinity: it is not looked at. */
static sosmc_status mean_gradient(const bound *m, const weighted *cloud, double *g)
{
    sosmc_status status = prepare(m);
    memset(g, 0, (size_t)m->model->dim_theta * sizeof *g);
    for (int64_t i = 0; i < cloud->n && status == SOSMC_OK; i++) {
        double w = weight(cloud, i);
        if (w > 0) status = add_gradient(m, cloud, i, w, g);
    }
    return status;
}

/* information = E[d2U/dtheta2], column by column, made symmetric. */
static sosmc_status mean_curvature(const bound *m, const weighted *cloud, double *moved, double *above, double *below,
                                   double *information)
{
    size_t dim = (size_t)m->model->dim_theta;
    bound near = {.model = m->model, .theta = moved, .prep = m->prep, .work = m->work};
    memcpy(moved, m->theta, dim * sizeof *moved);
    for (size_t k = 0; k < dim; k++) {
        double step = 0x1p-14 * fmax(1, fabs(m->theta[k])), up = m->theta[k] + step, down = m->theta[k] - step;
        moved[k] = up;
        sosmc_status status = mean_gradient(&near, cloud, above);
        moved[k] = down;
        if (status == SOSMC_OK) status = mean_gradient(&near, cloud, below);
        if (status != SOSMC_OK) return status;
        moved[k] = m->theta[k];
        for (size_t l = 0; l < dim; l++) information[l * dim + k] = (above[l] - below[l]) / (up - down);
    }
    for (size_t k = 0; k < dim; k++)
        for (size_t l = 0; l < k; l++)
            information[k * dim + l] = information[l * dim + k] = 0.5 *
                                                                  (information[k * dim + l] + information[l * dim + k]);
    return SOSMC_OK;
}

/* information -= Cov(dU/dtheta), around the mean, which far from an optimum is large. */
static sosmc_status subtract_covariance(const bound *m, const weighted *cloud, double *mean, double *g,
                                        double *information)
{
    size_t dim = (size_t)m->model->dim_theta;
    sosmc_status status = mean_gradient(m, cloud, mean);
    for (int64_t i = 0; i < cloud->n && status == SOSMC_OK; i++) {
        double w = weight(cloud, i);
        if (!(w > 0)) continue;
        memset(g, 0, dim * sizeof *g);
        status = add_gradient(m, cloud, i, 1, g);
        for (size_t k = 0; k < dim; k++) g[k] -= mean[k];
        for (size_t k = 0; k < dim; k++)
            for (size_t l = 0; l < dim; l++) information[k * dim + l] -= w * g[k] * g[l];
    }
    return status;
}

sosmc_status sosmc_louis(const sosmc_model *model, const double *theta, int64_t n, const double *x, const double *logw,
                         double *information)
{
    size_t dim = (size_t)model->dim_theta, rows = rounded(3 * dim * sizeof(double)), prep = rounded(model->prep);
    weighted cloud = {.n = n, .x = x, .logw = logw, .total = 1};
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += weight(&cloud, i);
    if (!(total > 0) || isinf(total)) return SOSMC_ENUMERIC;
    cloud.total = total;
    char *memory = aligned_alloc(64, rows + prep + rounded(model->work) + 64);
    if (!memory) return SOSMC_ENOMEM;
    double *a = (double *)(void *)memory, *b = a + dim, *c = b + dim;
    bound m = {.model = model, .theta = theta, .prep = memory + rows, .work = memory + rows + prep};
    sosmc_status status = mean_curvature(&m, &cloud, a, b, c, information);
    if (status == SOSMC_OK) status = subtract_covariance(&m, &cloud, a, b, information);
    free(memory);
    for (size_t k = 0; k < dim * dim && status == SOSMC_OK; k++)
        if (!isfinite(information[k])) status = SOSMC_ENUMERIC;
    return status;
}

/* ---------------------------------------------------------------------------------------------- importance sampling */

/* Sums of W and W^2 as multiples of exp(top) and exp(2 top), top the largest log-weight so far. */
typedef struct {
    double top, sum, squares;
} totals;

static void gather(totals *t, const sosmc_simd *simd, int n, double *logw)
{
    double top = t->top;
    for (int i = 0; i < n; i++) top = logw[i] > top ? logw[i] : top;
    if (!(top > -INFINITY)) return;
    double scale = sosmc_i_exp1(simd, t->top - top);
    t->sum *= scale;
    t->squares *= scale * scale;
    t->top = top;
    for (int i = 0; i < n; i++) logw[i] -= top;
    sosmc_exp(simd, n, logw, logw);
    for (int i = 0; i < n; i++) t->sum += logw[i], t->squares += logw[i] * logw[i];
}

enum { TILE = 64 };

/* b is a tile at memory of its own; x and the rows U, lq are its to write. */
static sosmc_status one_tile(const bound *m, sosmc_source law, sosmc_rng rng, sosmc_batch b, double *x, double *U,
                             double *lq, totals *t)
{
    if (law.draw(law.self, rng, &b, x) || law.logpdf(law.self, &b, lq)) return SOSMC_EMODEL;
    if (m->model->energy(m->model->self, m->theta, &b, U, NULL)) return SOSMC_EMODEL;
    for (int i = 0; i < b.n; i++) {
        U[i] = -U[i] - lq[i];
        if (isnan(U[i]) || U[i] == INFINITY) return SOSMC_ENUMERIC;
    }
    gather(t, b.simd, b.n, U);
    return SOSMC_OK;
}

sosmc_status sosmc_importance(const sosmc_model *model, const double *theta, sosmc_source law, int64_t draws,
                              uint64_t seed, sosmc_evidence *out)
{
    if (!law.draw || !law.logpdf || draws < 2) return SOSMC_EINVAL;
    size_t x_bytes = (size_t)model->dim_x * TILE * sizeof(double), row = TILE * sizeof(double),
           prep = rounded(model->prep);
    char *memory = aligned_alloc(64, x_bytes + 2 * row + prep + rounded(model->work * TILE) + 64);
    if (!memory) return SOSMC_ENOMEM;
    double *x = (double *)(void *)memory, *U = x + (size_t)model->dim_x * TILE, *lq = U + TILE;
    char *rest = memory + x_bytes + 2 * row;
    bound m = {.model = model, .theta = theta, .prep = rest, .work = rest + prep};
    sosmc_rng rng = {.seed = seed, .stream = SOSMC_STREAM_USER};
    sosmc_batch b = {
        .x = x, .prep = m.prep, .work = m.work, .simd = sosmc_simd_best(), .dim = model->dim_x, .ld = TILE};
    totals t = {.top = -INFINITY};
    sosmc_status status = prepare(&m);
    memset(memory, 0, x_bytes); /* padding is read, if never relied upon */
    for (; b.first < draws && status == SOSMC_OK; b.first += TILE) {
        b.n = draws - b.first < TILE ? (int)(draws - b.first) : TILE;
        status = one_tile(&m, law, rng, b, x, U, lq, &t);
    }
    free(memory);
    if (status != SOSMC_OK) return status;
    if (!(t.sum > 0)) return SOSMC_ENUMERIC;
    double n = (double)draws, spread = t.squares / (t.sum * t.sum) - 1 / n;
    *out = (sosmc_evidence){.logz = t.top + sosmc_i_log1(NULL, t.sum / n),
                            .error = sqrt(fmax(0, spread) * n / (n - 1)),
                            .ess = t.sum * t.sum / t.squares};
    return SOSMC_OK;
}
