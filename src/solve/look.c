/* look.c: the loss near theta, as a cloud at theta sees it (maths.md SOLVE).
 *
 *     v_i = exp(U_theta(x_i) - U_theta'(x_i')),  x_i' = x_i - K (theta' - theta),   w'_i proportional to w_i v_i
 *     log Z' - log Z = log sum w_i v_i,          CESS = (sum w v)^2 / sum w v^2
 *     l(theta') = -sum w' s - (a + kl) log(Z'/Z) + b mean U_theta'(y),   s = score + kl (U - U_ref)
 *
 * times the objective's scale, which is that of sosmc.h for all objectives. Its gradient is the contraction with w'_i (s_i - sbar + a) of
 * dU/dtheta - K' dU/dx. For one cloud it is a function without noise. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

/* ---------------------------------------------------------------------------- data */

static sosmc_batch data_batch(const sosmc_solver *s, int worker, int tile)
{
    int64_t share = tile / s->tiles_per_share * s->data_share, at = (int64_t)(tile % s->tiles_per_share) * s->data.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->data, worker, share + at, share + s->data_share);
    b.x = s->data_x + (size_t)tile * s->data.vector;
    return b;
}

sosmc_status sosmc_i_data_draw(sosmc_solver *s)
{
    const sosmc_source *data = &s->problem.objective.data;
    if (s->data_points == 0) return SOSMC_OK;
    sosmc_rng rng = sosmc_i_solver_name(s, STREAM_DATA);
    for (int tile = 0; tile < s->data_shares * s->tiles_per_share; tile++) {
        sosmc_batch b = data_batch(s, 0, tile);
        double *x = s->data_x + (size_t)tile * s->data.vector;
        if (s->data_shares == 1 ? data->row(data->self, &b, x) : data->draw(data->self, rng, &b, x))
            return sosmc_i_solver_fail(s, SOSMC_EMODEL, "the source of data failed");
    }
    return SOSMC_OK;
}

typedef struct {
    sosmc_solver *s;
    const double *theta;
    int gradient;
} data_look;

static sosmc_status data_tile(void *ctx, int tile, int worker)
{
    const data_look *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = sosmc_i_original(&s->problem.model);
    sosmc_batch b = data_batch(s, worker, tile);
    double *row = host_room(&s->data, worker);
    if (m->energy(m->self, v->theta, &b, row, NULL)) return SOSMC_EMODEL;
    memcpy(s->data_U + b.first, row, (size_t)b.n * sizeof(double));
    if (!v->gradient) return SOSMC_OK;
    for (int i = 0; i < b.n; i++) row[i] = 1;
    double *sum = s->partial + (size_t)tile * s->row;
    memset(sum, 0, (size_t)s->p * sizeof(double));
    return m->grad_theta(m->self, v->theta, &b, row, sum) ? SOSMC_EMODEL : SOSMC_OK;
}

sosmc_status sosmc_i_data_mean(sosmc_solver *s, const double *theta, double *mean, double *gradient)
{
    data_look v = {.s = s, .theta = theta, .gradient = gradient != NULL};
    double sum = 0, points = (double)s->data_points;
    int tiles = s->data_shares * s->tiles_per_share;
    s->v.evaluations += s->data_points;
    if (gradient) s->v.contractions += s->data_points;
    sosmc_status status = sosmc_i_host_move(&s->data, theta);
    if (status == SOSMC_OK) status = sosmc_i_parallel(s->helpers, data_tile, &v, tiles);
    if (status != SOSMC_OK) return status;
    for (int64_t i = 0; i < s->data_points; i++) sum += s->data_U[i];
    *mean = sum / points;
    if (!gradient) return SOSMC_OK;
    memset(gradient, 0, (size_t)s->p * sizeof(double));
    for (int tile = 0; tile < tiles; tile++)
        for (int j = 0; j < s->p; j++) gradient[j] += s->partial[(size_t)tile * s->row + (size_t)j] / points;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- particles */

typedef struct {
    sosmc_solver *s;
    const look *l;
    const double *theta, *K[2];
    double *delta; /* K (theta' - theta) of either half */
} looking;

static int left_out(const look *l, int tile) { return tile % l->every != l->phase; }

/* Of tiles, so that two or more, with 128 particles, are looked at. */
int sosmc_i_share(const sosmc_solver *s)
{
    int every = s->n / 128 < s->tiles / 2 ? s->n / 128 : s->tiles / 2;
    return every > 1 ? every : 1;
}

static sosmc_status look_tile(void *ctx, int tile, int worker)
{
    const looking *v = ctx;
    sosmc_solver *s = v->s;
    const cloud *c = v->l->c;
    if (left_out(v->l, tile)) return SOSMC_OK;
    sosmc_batch b = sosmc_i_solver_batch(s, &s->trial, worker, tile);
    double *x = tile_of(s, s->look_x, tile), *g = tile_of(s, s->look_g, tile);
    const double *from = tile_of(s, c->x, tile);
    b.x = from;
    if (v->l->k->active) {
        const double *delta = v->delta + (tile / s->tiles_per_group >= HALF ? s->dim : 0);
        for (int j = 0; j < s->dim; j++)
            for (int i = 0; i < b.ld; i++)
                x[(size_t)j * (size_t)b.ld + (size_t)i] = from[(size_t)j * (size_t)b.ld + (size_t)i] - delta[j];
        b.x = x;
    }
    return sosmc_i_solver_energy(s, v->theta, &b, s->look_U + b.first, v->l->k->active ? g : NULL,
                                 sosmc_i_solver_row(s, worker, ROW_ENERGY))
               ? SOSMC_EMODEL
               : SOSMC_OK;
}

/* Coefficients times dU/dtheta and times dU/dx, into the tile's row of s->partial. */
static sosmc_status contract_tile(void *ctx, int tile, int worker)
{
    const looking *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    if (left_out(v->l, tile)) return SOSMC_OK;
    sosmc_batch b = sosmc_i_solver_batch(s, &s->trial, worker, tile);
    double *sum = s->partial + (size_t)tile * s->row, *coefficient = sosmc_i_solver_row(s, worker, ROW_ENERGY);
    b.x = v->l->k->active ? tile_of(s, s->look_x, tile) : tile_of(s, v->l->c->x, tile);
    memcpy(coefficient, s->coefficient + b.first, (size_t)b.n * sizeof(double));
    memset(sum, 0, (size_t)s->p * sizeof(double));
    if (m->grad_theta(m->self, v->theta, &b, coefficient, sum)) return SOSMC_EMODEL;
    for (int j = 0; v->l->k->active && j < s->dim; j++)
        sum[s->p + j] = sosmc_i_dot8(b.n, coefficient, tile_of(s, s->look_g, tile) + (size_t)j * (size_t)b.ld);
    return SOSMC_OK;
}

/* The weights at theta' in s->coefficient; log(Z'/Z), CESS. Returns -1 where nothing is left. */
static int reweigh(sosmc_solver *s, look *l, double *log_ratio)
{
    double most = -INFINITY, sum = 0, all = 0, first = 0, second = 0;
    for (int tile = 0; tile < s->tiles; tile++) {
        int64_t lo = tile_first(s, tile);
        for (int64_t i = lo; i < lo + tile_count(s, tile); i++) {
            double v = l->c->U[i] - s->look_U[i];
            s->value[i] = left_out(l, tile) || !isfinite(v) ? -INFINITY : v;
            s->coefficient[i] = left_out(l, tile) ? -INFINITY : s->lw[i] + s->value[i];
            if (s->coefficient[i] > most) most = s->coefficient[i];
            if (!left_out(l, tile)) all += l->c->w[i];
        }
    }
    if (!isfinite(most) || !(all > 0)) return -1;
    for (int i = 0; i < s->n; i++) s->coefficient[i] -= most;
    sosmc_exp(s->simd, s->n, s->coefficient, s->coefficient);
    for (int i = 0; i < s->n; i++) sum += s->coefficient[i];
    for (int i = 0; i < s->n; i++) { /* (sum w v)^2 / (sum w sum w v^2), v relative to its largest weight */
        double wv = s->coefficient[i] / sum;
        first += wv;
        if (l->c->w[i] > 0) second += wv * wv / l->c->w[i];
        s->coefficient[i] = wv;
    }
    l->cess = first * first / (all * second);
    *log_ratio = most + sosmc_i_log1(NULL, sum / all);
    return 0;
}

/* ---------------------------------------------------------------------------- complete data */

/* The gradient at theta of the mean energy over a share of the particles, whose weights stand in s->coefficient. */
static sosmc_status mean_scores(sosmc_solver *s, look *l, const double *theta, double *gradient)
{
    looking v = {.s = s, .l = l, .theta = theta};
    s->v.contractions += (int64_t)((s->tiles - l->phase + l->every - 1) / l->every) * s->tile;
    sosmc_status status = sosmc_i_host_move(&s->trial, theta);
    if (status == SOSMC_OK) status = sosmc_i_parallel(s->helpers, contract_tile, &v, s->tiles);
    memset(gradient, 0, (size_t)s->p * sizeof(double));
    for (int tile = l->phase; tile < s->tiles; tile += l->every)
        for (int j = 0; j < s->p; j++) gradient[j] += s->partial[(size_t)tile * s->row + (size_t)j];
    return status;
}

sosmc_status sosmc_i_complete(sosmc_solver *s, cloud *c, const double *F)
{
    static const shift none = {0};
    size_t p = (size_t)s->p;
    double high[SOSMC_SOLVE_PARAMETERS], low[SOSMC_SOLVE_PARAMETERS], *C = s->complete, all = 0;
    look l = {.c = c, .k = &none, .every = sosmc_i_share(s)};
    for (int k = 0; k < s->n; k++) all += left_out(&l, tile_with(s, k)) ? 0 : c->w[k];
    for (int k = 0; k < s->n; k++) s->coefficient[k] = c->w[k] / all;
    for (size_t j = 0; j < p; j++) {
        double e = LENGTH_OF_DIFFERENCE / sqrt(F[j * p + j] + fmax(C[j * p + j], 0));
        if (!(C[j * p + j] > 0)) e = fmin(e, 1e-3 * fmax(1, fabs(s->theta[j]))); /* where nothing is known of it */
        for (int tries = 0; tries < 3; tries++) {
            memcpy(s->try_theta, s->theta, p * sizeof(double));
            s->try_theta[j] = s->theta[j] + e;
            sosmc_status status = mean_scores(s, &l, s->try_theta, high);
            s->try_theta[j] = s->theta[j] - e;
            if (status == SOSMC_OK) status = mean_scores(s, &l, s->try_theta, low);
            if (status != SOSMC_OK) return status;
            for (size_t k = 0; k < p; k++) C[j * p + k] = isfinite(high[k] - low[k]) ? (high[k] - low[k]) / (2 * e) : 0;
            double wanted = LENGTH_OF_DIFFERENCE / sqrt(F[j * p + j] + fmax(C[j * p + j], 0));
            if (!isfinite(wanted) || (e < 3 * wanted && wanted < 3 * e)) break;
            e = wanted;
        }
    }
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < j; k++) C[j * p + k] = C[k * p + j] = 0.5 * (C[j * p + k] + C[k * p + j]);
    return SOSMC_OK;
}

sosmc_status sosmc_i_look(sosmc_solver *s, look *l, const double *theta, double *gradient)
{
    const sosmc_objective *o = &s->problem.objective;
    size_t dim = (size_t)s->dim, p = (size_t)s->p;
    double *delta = s->small, mean = 0, log_ratio = 0, score = 0, data = 0;
    looking v = {.s = s, .l = l, .theta = theta, .delta = delta};
    int used = (s->tiles - l->phase + l->every - 1) / l->every;
    for (int half = 0; l->k->active && half < 2; half++)
        for (size_t j = 0; j < dim; j++) {
            double sum = 0;
            for (size_t k = 0; k < p; k++) sum += l->k->K[half][j * p + k] * (theta[k] - s->theta[k]);
            delta[(size_t)half * dim + j] = sum;
        }
    sosmc_status status = sosmc_i_host_move(&s->trial, theta);
    if (status == SOSMC_OK) status = sosmc_i_parallel(s->helpers, look_tile, &v, s->tiles);
    if (status != SOSMC_OK) return status;
    s->v.evaluations += (int64_t)used * s->tile;
    l->loss = INFINITY;
    l->cess = 0;
    if (gradient) memset(gradient, 0, p * sizeof(double));
    if (reweigh(s, l, &log_ratio)) return SOSMC_OK;
    const double *R = l->c->R, *Uref = l->c->Uref;
    for (int i = 0; i < s->n; i++) {
        double w = s->coefficient[i];
        s->value[i] = w > 0 ? (R ? R[i] : 0) + (Uref ? o->kl * (s->look_U[i] - Uref[i]) : 0) : 0;
        mean += w * s->value[i];
    }
    score = mean;
    if (s->data_points > 0 && o->b != 0 && !l->particles_alone) {
        status = sosmc_i_data_mean(s, theta, &data, gradient);
        if (status != SOSMC_OK) return status;
        for (size_t k = 0; gradient && k < p; k++) gradient[k] *= o->scale * o->b;
    }
    l->loss = o->scale * (-score - (o->a + o->kl) * log_ratio + o->b * data);
    if (!isfinite(l->loss)) l->loss = INFINITY;
    if (!gradient) return SOSMC_OK;
    for (int i = 0; i < s->n; i++) s->coefficient[i] *= o->scale * (s->value[i] - mean + o->a);
    s->v.contractions += (int64_t)used * s->tile;
    status = sosmc_i_parallel(s->helpers, contract_tile, &v, s->tiles);
    if (status != SOSMC_OK) return status;
    for (int tile = 0; tile < s->tiles; tile++) {
        if (left_out(l, tile)) continue;
        const double *sum = s->partial + (size_t)tile * s->row,
                     *K = l->k->active ? l->k->K[tile / s->tiles_per_group >= HALF] : NULL;
        for (size_t k = 0; k < p; k++) gradient[k] += sum[k];
        for (size_t j = 0; K && j < dim; j++)
            for (size_t k = 0; k < p; k++) gradient[k] -= K[j * p + k] * sum[p + j];
    }
    return SOSMC_OK;
}
