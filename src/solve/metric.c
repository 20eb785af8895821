/* metric.c: what is fitted on particles and then applied to others.
 *
 *     coordinates   C C' = E[g g'], g the slope of the law: widths of modes, not distances between them
 *     shift         K = E[g g']^-1 Cov(g, dU/dtheta): where particles go when theta goes
 *
 * The rule of the solver: nothing is applied to the particles that it was fitted on. Coordinates that depend on a particle's own slope do not
 * leave its law invariant; in 50 dimensions the error of that is larger than what is to be estimated, with a healthy acceptance. So each part of the
 * groups is served by the other. Invariant: sums run over tiles in order, eight accumulators in each. */
#include <math.h>

#include "base/linear.h"
#include "base/scores.h"
#include "solve_inside.h"

double sosmc_i_dot8(int n, const double *a, const double *b)
{
    double sum[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += a[i + k] * b[i + k];
    for (int k = 0; i < n; i++, k++) sum[k] += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* ---------------------------------------------------------------------------- second moments of the slopes */

typedef struct {
    sosmc_solver *s;
    const double *g; /* tiles */
    const double *w;
    int first, end; /* groups */
    int diagonal;
    double *F; /* dim x dim, the lower triangle; or a diagonal */
} moments;

static sosmc_status moment_row(void *ctx, int j, int worker)
{
    const moments *m = ctx;
    const sosmc_solver *s = m->s;
    size_t dim = (size_t)s->dim, ld = (size_t)s->at.ld;
    double *wg = sosmc_i_solver_row(s, worker, ROW_OTHER), *row = m->F + (m->diagonal ? 0 : (size_t)j * dim);
    if (m->diagonal)
        row[j] = 0;
    else
        memset(row, 0, dim * sizeof(double));
    for (int tile = m->first * s->tiles_per_group; tile < m->end * s->tiles_per_group; tile++) {
        const double *g = m->g + (size_t)tile * s->vector, *w = m->w + tile_first(s, tile);
        int n = tile_count(s, tile);
        for (int i = 0; i < n; i++) wg[i] = w[i] * g[(size_t)j * ld + (size_t)i];
        for (size_t k = m->diagonal ? (size_t)j : 0; k <= (size_t)j; k++) row[k] += sosmc_i_dot8(n, wg, g + k * ld);
    }
    return SOSMC_OK;
}

static double weight_of(const sosmc_solver *s, const double *w, int first, int end, double *effective)
{
    double sum = 0, squares = 0;
    for (int i = first * s->group; i < end * s->group; i++) {
        sum += w[i];
        squares += w[i] * w[i];
    }
    *effective = squares > 0 ? sum * sum / squares : 0;
    return sum;
}

/* C of one part from the groups first to end - 1. */
static sosmc_status fit_part(sosmc_solver *s, metric *m, int part, const double *g, const double *w, int first, int end)
{
    preconditioner *c = &m->c[part];
    size_t dim = (size_t)s->dim;
    double effective, total = weight_of(s, w, first, end, &effective);
    int full = s->dim <= FULL && effective >= 1.5 * s->dim;
    for (int tries = 0; tries < 2; tries++, full = 0) {
        moments sum = {.s = s, .g = g, .w = w, .first = first, .end = end, .diagonal = !full, .F = c->C};
        sosmc_status status = sosmc_i_parallel(s->helpers, moment_row, &sum, s->dim);
        if (status != SOSMC_OK) return status;
        c->diagonal = !full;
        double load = full ? 1 + fmin(1, 0.5 * s->dim / effective + 1e-3) : 1, most = 0;
        for (size_t j = 0; j < dim; j++) most = fmax(most, c->C[full ? j * dim + j : j] / total);
        if (!(most > 0) || !isfinite(most)) most = 1;
        for (size_t k = 0; full && k < dim * dim; k++) c->C[k] /= total;
        for (size_t j = 0; j < dim; j++) {
            double *entry = &c->C[full ? j * dim + j : j];
            if (!full) *entry /= total;
            if (!isfinite(*entry)) *entry = most;
            *entry = fmax(*entry, 1e-24 * most) * load;
            if (!full) *entry = sqrt(*entry);
        }
        if (!full || sosmc_i_cholesky(dim, c->C) == 0) break;
    }
    for (size_t j = 0; j < dim; j++) m->inverse[part][j] = 1 / c->C[c->diagonal ? j : j * dim + j];
    return SOSMC_OK;
}

sosmc_status sosmc_i_metric_fit(sosmc_solver *s, metric *m, cloud *c, groups r, double t)
{
    double *g = c->g, effective;
    (void)sosmc_i_solver_weights(s, c, r);
    if (t < 1) { /* the slopes of the law at this temperature */
        size_t lo = (size_t)(r.first * s->tiles_per_group) * s->vector,
               hi = (size_t)(r.end * s->tiles_per_group) * s->vector;
        g = s->spare;
        for (size_t k = lo; k < hi; k++) g[k] = t * c->g[k] + (1 - t) * s->gq[k];
    }
    double a = weight_of(s, c->w, r.first, r.middle, &effective), b = weight_of(s, c->w, r.middle, r.end, &effective);
    int cross = fmin(a, b) >= 1e-3 && !s->not_crossed; /* a part without weight has nothing to tell */
    sosmc_status status = fit_part(s, m, 0, g, c->w, cross ? r.middle : r.first, r.end);
    if (status == SOSMC_OK) status = fit_part(s, m, 1, g, c->w, r.first, cross ? r.middle : r.end);
    return status;
}

/* ---------------------------------------------------------------------------- dU/dtheta of every particle */

typedef struct {
    sosmc_solver *s;
    const cloud *c;
} scoring;

static sosmc_status score_tile(void *ctx, int tile, int worker)
{
    const scoring *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    double *scratch = s->room + (size_t)worker * s->room_each, *D = scratch + sosmc_i_scores_scratch(m);
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    b.x = tile_of(s, v->c->x, tile);
    if (sosmc_i_scores(m, s->theta, &b, scratch, D)) return SOSMC_EMODEL;
    for (int i = 0; i < b.n; i++) {
        double *row = s->D + (size_t)(b.first + i) * (size_t)s->p;
        for (int j = 0; j < s->p; j++) {
            double value = D[(size_t)j * (size_t)b.ld + (size_t)i];
            row[j] = isfinite(value) ? value : 0;
        }
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_solver_scores(sosmc_solver *s, cloud *c)
{
    scoring v = {.s = s, .c = c};
    s->v.contractions += s->n;
    return sosmc_i_parallel(s->helpers, score_tile, &v, s->tiles);
}

/* ---------------------------------------------------------------------------- the shift with theta */

typedef struct {
    sosmc_solver *s;
    const cloud *c;
    int first, end;
    double total;
    const double *mean; /* of D */
    double *B;          /* dim rows of p */
} crossing;

/* Row j of Cov(g, D). */
static sosmc_status cross_row(void *ctx, int j, int worker)
{
    const crossing *v = ctx;
    const sosmc_solver *s = v->s;
    size_t p = (size_t)s->p, ld = (size_t)s->at.ld;
    double *row = v->B + (size_t)j * p;
    (void)worker;
    memset(row, 0, p * sizeof(double));
    for (int tile = v->first * s->tiles_per_group; tile < v->end * s->tiles_per_group; tile++) {
        const double *g = v->c->g + (size_t)tile * s->vector + (size_t)j * ld;
        int64_t first = tile_first(s, tile);
        for (int i = 0; i < tile_count(s, tile); i++) {
            const double *D = s->D + (size_t)(first + i) * p;
            double wg = v->c->w[first + i] * g[i];
            for (size_t k = 0; k < p; k++) row[k] += wg * (D[k] - v->mean[k]);
        }
    }
    for (size_t k = 0; k < p; k++) row[k] /= v->total;
    return SOSMC_OK;
}

/* K from the groups first to end - 1, where it explains a fifth of the variance of a column or more. Returns 1 where no column is
 * left. */
static int regress(sosmc_solver *s, const cloud *c, int first, int end, double *K, sosmc_status *status)
{
    size_t dim = (size_t)s->dim, p = (size_t)s->p;
    double *F = s->small, *mean = F + dim * dim, *residual = mean + p, *variance = residual + p, *fit = variance + p;
    double effective, total = weight_of(s, c->w, first, end, &effective);
    int columns = 0;
    if (!(total > 0) || !(effective > 2 * s->dim)) return 1;
    memset(mean, 0, 3 * p * sizeof(double));
    for (int i = first * s->group; i < end * s->group; i++)
        for (size_t k = 0; k < p; k++) mean[k] += c->w[i] * s->D[(size_t)i * p + k] / total;
    moments sum = {.s = s, .g = c->g, .w = c->w, .first = first, .end = end, .F = F};
    crossing cross = {.s = s, .c = c, .first = first, .end = end, .total = total, .mean = mean, .B = K};
    *status = sosmc_i_parallel(s->helpers, moment_row, &sum, s->dim);
    if (*status == SOSMC_OK) *status = sosmc_i_parallel(s->helpers, cross_row, &cross, s->dim);
    for (size_t k = 0; k < dim * dim; k++) F[k] /= total;
    for (size_t j = 0; s->v.walls && j < dim; j++) { /* no rows for coordinates with a wall: E[g_j] is not 0 there */
        if (!(s->walled[j] > 0)) continue;
        memset(K + j * p, 0, p * sizeof(double));
        for (size_t k = 0; k < dim; k++) F[j * dim + k] = F[k * dim + j] = j == k;
    }
    for (size_t j = 0; j < dim; j++) F[j * dim + j] = F[j * dim + j] * (1 + 1e-6) + 1e-300;
    if (*status != SOSMC_OK || sosmc_i_cholesky(dim, F)) return 1;
    for (size_t k = 0; k < p; k++) { /* column by column */
        for (size_t j = 0; j < dim; j++) fit[j] = K[j * p + k];
        sosmc_i_cholesky_solve(dim, F, fit);
        for (size_t j = 0; j < dim; j++) K[j * p + k] = fit[j];
    }
    size_t ld = (size_t)s->at.ld;
    for (int tile = first * s->tiles_per_group; tile < end * s->tiles_per_group; tile++) {
        int64_t at = tile_first(s, tile);
        const double *g = c->g + (size_t)tile * s->vector;
        for (int i = 0; i < tile_count(s, tile); i++) {
            const double *D = s->D + (size_t)(at + i) * p;
            double w = c->w[at + i];
            for (size_t k = 0; k < p; k++) fit[k] = D[k] - mean[k];
            for (size_t k = 0; k < p; k++) variance[k] += w * fit[k] * fit[k];
            for (size_t j = 0; j < dim; j++)
                for (size_t k = 0; k < p; k++) fit[k] -= g[j * ld + (size_t)i] * K[j * p + k];
            for (size_t k = 0; k < p; k++) residual[k] += w * fit[k] * fit[k];
        }
    }
    for (size_t k = 0; k < p; k++) {
        double share = residual[k] / fmax(variance[k], 1e-300) * effective / fmax(effective - s->dim, 1);
        int keeps = share < 0.8;
        for (size_t j = 0; !keeps && j < dim; j++) K[j * p + k] = 0;
        columns += keeps;
    }
    return columns == 0;
}

sosmc_status sosmc_i_shift_fit(sosmc_solver *s, shift *k, cloud *c, int cross)
{
    const sosmc_objective *o = &s->problem.objective;
    sosmc_status status = SOSMC_OK;
    k->active = 0;
    if (o->score.eval || o->kl != 0 || s->dim > s->n / 5 || s->dim > SHIFTED) return SOSMC_OK;
    (void)sosmc_i_solver_weights(s, c, ALL);
    if (cross && !s->not_crossed) {
        if (regress(s, c, HALF, GROUPS, k->K[0], &status) || regress(s, c, 0, HALF, k->K[1], &status)) return status;
    } else {
        if (regress(s, c, 0, GROUPS, k->K[0], &status)) return status;
        memcpy(k->K[1], k->K[0], (size_t)s->dim * (size_t)s->p * sizeof(double));
    }
    k->active = 1;
    return SOSMC_OK;
}
