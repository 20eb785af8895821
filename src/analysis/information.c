/* information.c: what a fit is worth: observed information by Louis' identity, and log Z with its Monte Carlo error.
 *
 * Both look at a model through its callbacks alone. Louis' identity needs dU/dtheta of single particles, which
 * grad_theta gives for batches of one, and the mean of d2U/dtheta2, which is the derivative of the contraction at fixed
 * weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/arithmetic.h"
#include "host.h"
#include "base/linear.h"
#include "base/table.h"

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

/* g += c dU/dtheta(x_i), the particle being a batch of its own. */
static sosmc_status add_gradient(const host *h, const weighted *cloud, int64_t i, double c, double *g)
{
    sosmc_batch b = sosmc_i_host_batch(h, 0, i, cloud->n);
    b.x = cloud->x + i * b.dim;
    return h->model->grad_theta(h->model->self, h->theta, &b, &c, g) ? SOSMC_EMODEL : SOSMC_OK;
}

/* g = E[dU/dtheta]. A particle without weight may have coordinates that are not finite, so it is left out. */
static sosmc_status mean_gradient(host *h, const double *theta, const weighted *cloud, double *g)
{
    sosmc_status status = sosmc_i_host_move(h, theta);
    memset(g, 0, (size_t)h->model->dim_theta * sizeof *g);
    for (int64_t i = 0; i < cloud->n && status == SOSMC_OK; i++) {
        double w = weight(cloud, i);
        if (w > 0) status = add_gradient(h, cloud, i, w, g);
    }
    return status;
}

/* information = E[d2U/dtheta2], column by column, made symmetric. */
static sosmc_status mean_curvature(host *h, const double *theta, const weighted *cloud, double *room,
                                   double *information)
{
    size_t dim = (size_t)h->model->dim_theta;
    double *moved = room, *above = room + dim, *below = room + 2 * dim;
    memcpy(moved, theta, dim * sizeof *moved);
    for (size_t k = 0; k < dim; k++) {
        double step = 0x1p-14 * fmax(1, fabs(theta[k])), up = theta[k] + step, down = theta[k] - step;
        moved[k] = up;
        sosmc_status status = mean_gradient(h, moved, cloud, above);
        moved[k] = down;
        if (status == SOSMC_OK) status = mean_gradient(h, moved, cloud, below);
        if (status != SOSMC_OK) return status;
        moved[k] = theta[k];
        for (size_t l = 0; l < dim; l++) information[l * dim + k] = (above[l] - below[l]) / (up - down);
    }
    for (size_t k = 0; k < dim; k++)
        for (size_t l = 0; l < k; l++)
            information[k * dim + l] = information[l * dim + k] = 0.5 *
                                                                  (information[k * dim + l] + information[l * dim + k]);
    return SOSMC_OK;
}

/* information -= Cov(dU/dtheta), around the mean, which far from an optimum is large. */
static sosmc_status subtract_covariance(host *h, const double *theta, const weighted *cloud, double *room,
                                        double *information)
{
    size_t dim = (size_t)h->model->dim_theta;
    double *mean = room, *g = room + dim;
    sosmc_status status = mean_gradient(h, theta, cloud, mean);
    for (int64_t i = 0; i < cloud->n && status == SOSMC_OK; i++) {
        double w = weight(cloud, i);
        if (!(w > 0)) continue;
        memset(g, 0, dim * sizeof *g);
        status = add_gradient(h, cloud, i, 1, g);
        for (size_t k = 0; k < dim; k++) g[k] -= mean[k];
        for (size_t k = 0; k < dim; k++)
            for (size_t l = 0; l < dim; l++) information[k * dim + l] -= w * g[k] * g[l];
    }
    return status;
}

sosmc_status sosmc_louis(const sosmc_model *model, const double *theta, int64_t n, const double *x, const double *logw,
                         double *information)
{
    STANDARD_ARITHMETIC;
    size_t dim = (size_t)model->dim_theta;
    weighted cloud = {.n = n, .x = x, .logw = logw, .total = 1};
    double total = 0;
    host h;
    for (int64_t i = 0; i < n; i++) total += weight(&cloud, i);
    if (!(total > 0) || isinf(total)) return SOSMC_ENUMERIC;
    cloud.total = total;
    double *room = calloc(3 * dim + 1, sizeof *room);
    sosmc_i_host_shape(&h, model, 1, 1);
    sosmc_status status = room ? sosmc_i_host_open(&h, NULL, 0, 0) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) {
        status = mean_curvature(&h, theta, &cloud, room, information);
        if (status == SOSMC_OK) status = subtract_covariance(&h, theta, &cloud, room, information);
        sosmc_i_host_close(&h);
    }
    free(room);
    for (size_t k = 0; k < dim * dim && status == SOSMC_OK; k++)
        if (!isfinite(information[k])) status = SOSMC_ENUMERIC;
    return status;
}

/* ---------------------------------------------------------------------------------------------- covariance */

sosmc_status sosmc_information(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                               const double *logw, double *information, double *covariance)
{
    STANDARD_ARITHMETIC;
    size_t p = model->dim_theta > 0 ? (size_t)model->dim_theta : 0;
    if (!covariance) return sosmc_louis(model, theta, n, x, logw, information);
    double *factor = malloc((p * p + 1) * sizeof *factor);
    if (!factor) return SOSMC_ENOMEM;
    sosmc_status status = sosmc_louis(model, theta, n, x, logw, information);
    if (status == SOSMC_OK) {
        memcpy(factor, information, p * p * sizeof *factor);
        if (sosmc_i_cholesky(p, factor) == 0)
            sosmc_i_cholesky_inverse(p, factor, covariance);
        else
            for (size_t k = 0; k < p * p; k++) covariance[k] = NAN;
    }
    free(factor);
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
static sosmc_status one_tile(const host *h, sosmc_source law, sosmc_rng rng, sosmc_batch b, double *x, double *U,
                             double *lq, totals *t)
{
    if (law.draw(law.self, rng, &b, x) || law.logpdf(law.self, &b, lq)) return SOSMC_EMODEL;
    if (h->model->energy(h->model->self, h->theta, &b, U, NULL)) return SOSMC_EMODEL;
    sosmc_i_bound_energies(h->model, &b, U);
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
    STANDARD_ARITHMETIC;
    if (!law.draw || !law.logpdf || draws < 2) return SOSMC_EINVAL;
    host h;
    sosmc_rng rng = {.seed = seed, .stream = SOSMC_STREAM_USER};
    totals t = {.top = -INFINITY};
    sosmc_i_host_shape(&h, model, TILE, TILE);
    sosmc_status status = sosmc_i_host_open(&h, theta, 1, 2);
    if (status != SOSMC_OK) return status;
    double *draw = host_room(&h, 0), *U = draw + h.vector, *lq = U + h.row;
    for (int64_t first = 0; first < draws && status == SOSMC_OK; first += TILE)
        status = one_tile(&h, law, rng, sosmc_i_host_batch(&h, 0, first, draws), draw, U, lq, &t);
    sosmc_i_host_close(&h);
    if (status != SOSMC_OK) return status;
    if (!(t.sum > 0)) return SOSMC_ENUMERIC;
    double n = (double)draws, spread = t.squares / (t.sum * t.sum) - 1 / n;
    *out = (sosmc_evidence){.logz = t.top + sosmc_i_log1(NULL, t.sum / n),
                            .error = sqrt(fmax(0, spread) * n / (n - 1)),
                            .ess = t.sum * t.sum / t.squares};
    return SOSMC_OK;
}
