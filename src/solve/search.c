/* search.c: theta to the minimum, without a learning rate (maths.md SOLVE).
 *
 * In every update the cloud defines the loss near theta (look.c), a function without noise. It is minimised by a few BFGS steps, as far
 * as the cloud can see: a theta at which fewer than half of the particles would count is too far. Then the cloud follows: it is
 * shifted, weighed, resampled within its groups and moved. Four updates in a row that stay well inside what the cloud sees, and gain
 * little, end the search. */
#include <math.h>

#include "base/linear.h"
#include "solve_inside.h"

enum {
    BFGS_STEPS = 8,
    TRIES = 12,
    QUIET = 4,
    WANDERING = 100,
    MOST_MOVES = 12,
    MOST_UPDATES = 1000,
    FITTED_ALWAYS = 10,
    FITTED_EVERY = 5
};
static const double SEES = 0.5, INSIDE = 0.9;
static const double RADIUS = 1.02, LARGEST_RADIUS = 1e4; /* in units of the metric: sqrt(1.5 log 2) */

typedef struct {
    sosmc_solver *s;
    look l;
    size_t p;
    double *unit, *F, *inverse, *H, *z, *g, *g1, *d, *y, *work, *noise;
    int has_H;
} searching;

/* F = Cov(D - K' g) + 0.01 Var(D) where there is a shift, else Cov(D). */
static void fisher(searching *v)
{
    sosmc_solver *s = v->s;
    const cloud *c = &s->c[SEARCHED];
    const shift *k = &s->k[SEARCHED];
    size_t p = v->p, ld = (size_t)s->at.ld;
    double *mean = v->work, *row = mean + p, *plain = row + p;
    memset(mean, 0, p * sizeof(double));
    memset(v->F, 0, p * p * sizeof(double));
    for (int i = 0; i < s->n; i++)
        for (size_t j = 0; j < p; j++) mean[j] += c->w[i] * s->D[(size_t)i * p + j];
    for (int tile = 0; tile < s->tiles; tile++) {
        const double *K = k->K[tile / s->tiles_per_group >= HALF], *g = c->g + (size_t)tile * s->vector;
        for (int i = 0; i < tile_count(s, tile); i++) {
            int64_t at = tile_first(s, tile) + i;
            double w = c->w[at];
            if (!(w > 0)) continue;
            for (size_t j = 0; j < p; j++) row[j] = plain[j] = s->D[(size_t)at * p + j] - mean[j];
            for (int d = 0; k->active && d < s->dim; d++)
                for (size_t j = 0; j < p; j++) row[j] -= g[(size_t)d * ld + (size_t)i] * K[(size_t)d * p + j];
            for (size_t j = 0; j < p; j++)
                for (size_t m = 0; m <= j; m++)
                    v->F[j * p + m] += w * (row[j] * row[m] + (k->active && m == j ? 0.01 * plain[j] * plain[j] : 0));
        }
    }
    for (size_t j = 0; j < p; j++)
        for (size_t m = 0; m < j; m++) v->F[m * p + j] = v->F[j * p + m];
}

/* Whether at most a tenth of the information about parameter j is missing, so that the scores tell little of it. */
static int hardly_missing(const sosmc_solver *s, size_t j)
{
    size_t p = (size_t)s->p;
    double mean = 0, square = 0;
    for (int i = 0; i < s->n; i++) {
        double D = s->D[(size_t)i * p + j], w = s->c[SEARCHED].w[i];
        if (!(w > 0)) continue;
        mean += w * D;
        square += w * D * D;
    }
    return square - mean * mean < 0.1 * s->complete[j * p + j];
}

/* Adds the complete-data information C of the parameters about which hardly any is missing, a hundredth of it where there is a shift; F alone
 * stays in v->noise. C is found in the updates
 * 0, 1, 2, 4, 8 and so on, and behind each that gained much. */
static sosmc_status add_complete(searching *v)
{
    sosmc_solver *s = v->s;
    size_t p = v->p;
    double share = s->k[SEARCHED].active ? 0.01 : 1;
    memcpy(v->noise, v->F, p * p * sizeof(double));
    if (!uses_energy(s)) return SOSMC_OK;
    sosmc_status status = SOSMC_OK;
    int far = s->v.gain > 100 * sosmc_i_wanted(s); /* theta has gone where C may be another */
    if (far || (s->v.updates & (s->v.updates - 1)) == 0) status = sosmc_i_complete(s, &s->c[SEARCHED], v->F);
    int adds[SOSMC_SOLVE_PARAMETERS];
    for (size_t j = 0; j < p; j++) adds[j] = hardly_missing(s, j);
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < p; k++)
            if (adds[j] && adds[k]) v->F[j * p + k] += share * s->complete[j * p + k];
    return status;
}

/* Units in which the cloud changes by about one standard deviation; they may grow by half per update, so that a parameter on which
 * the model stops to depend is not thrown far away. Returns 1 where no parameter matters. */
static int find_units(searching *v)
{
    sosmc_solver *s = v->s;
    size_t p = v->p;
    double most = 0;
    for (size_t j = 0; j < p; j++) most = fmax(most, sqrt(fmax(v->F[j * p + j], 0)));
    if (!(most > 0) || !isfinite(most)) return 1;
    for (size_t j = 0; j < p; j++) {
        double unit = 1 / fmax(sqrt(fmax(v->F[j * p + j], 0)), p > 1 ? 1e-6 * most : 0);
        if (s->v.has_unit) unit = fmin(unit, 1.5 * s->unit[j]);
        v->unit[j] = s->unit[j] = unit;
        if (!s->v.has_unit) s->first_unit[j] = unit;
    }
    s->v.has_unit = 1;
    for (size_t j = 0; j < p; j++)
        for (size_t m = 0; m < p; m++)
            v->F[j * p + m] = v->F[j * p + m] * v->unit[j] * v->unit[m] + (j == m ? 1e-3 : 0);
    memcpy(v->H, v->F, p * p * sizeof(double));
    if (sosmc_i_cholesky(p, v->H)) { /* C of few particles need not be positive definite */
        for (size_t k = 0; k < p * p; k++)
            if (k % (p + 1) != 0) v->F[k] = 0;
        memcpy(v->H, v->F, p * p * sizeof(double));
        if (sosmc_i_cholesky(p, v->H)) return 1;
    }
    sosmc_i_cholesky_inverse(p, v->H, v->inverse);
    return 0;
}

static double form(const searching *v, const double *M, const double *a)
{
    sosmc_i_matrix_vector(v->p, M, a, v->work);
    return sosmc_i_dot(v->p, a, v->work);
}

static int held(const sosmc_solver *s, double at, double direction)
{
    if (!(s->o.low < s->o.high)) return 0;
    return (at <= s->o.low && direction < 0) || (at >= s->o.high && direction > 0);
}

/* d = -H g, no longer than the radius, and not through a bound; without H, along the gradient in the metric, as long as that. Returns 1
 * where the radius limits it. */
static int find_direction(searching *v)
{
    sosmc_solver *s = v->s;
    size_t p = v->p;
    sosmc_i_matrix_vector(p, v->has_H ? v->H : v->inverse, v->g, v->d);
    double length = sqrt(fmax(form(v, v->F, v->d), 1e-300));
    int limited = !v->has_H || length > s->v.radius;
    for (size_t j = 0; j < p; j++) {
        v->d[j] *= limited ? -s->v.radius / length : -1;
        if (held(s, s->theta[j] + v->z[j] * v->unit[j], v->d[j])) v->d[j] = 0;
    }
    return limited;
}

static void trial_point(searching *v, double t)
{
    sosmc_solver *s = v->s;
    for (size_t j = 0; j < v->p; j++) {
        double to = s->theta[j] + (v->z[j] + t * v->d[j]) * v->unit[j];
        if (s->o.low < s->o.high) to = fmin(fmax(to, s->o.low), s->o.high);
        s->try_theta[j] = to;
    }
}

static void swap(double **a, double **b)
{
    double *kept = *a;
    *a = *b;
    *b = kept;
}

/* The inverse Hessian after the step st with the difference of gradients y. */
static void update_bfgs(searching *v, const double *st, double first_scale)
{
    size_t p = v->p;
    double sy = sosmc_i_dot(p, st, v->y), yy = sosmc_i_dot(p, v->y, v->y);
    if (!v->has_H) {
        double scale = sy > 0 ? sy / fmax(form(v, v->inverse, v->y), 1e-300) : first_scale;
        for (size_t k = 0; k < p * p; k++) v->H[k] = v->inverse[k] * scale;
        v->has_H = 1;
    }
    if (!(sy > 1e-10 * sqrt(sosmc_i_dot(p, st, st) * yy))) return;
    double *Hy = v->work + p;
    sosmc_i_matrix_vector(p, v->H, v->y, Hy);
    double yHy = sosmc_i_dot(p, v->y, Hy);
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < p; k++)
            v->H[j * p + k] += -(st[j] * Hy[k] + Hy[j] * st[k]) / sy + (1 + yHy / sy) * st[j] * st[k] / sy;
}

/* Minimises what the cloud sees. *limited: it ended where the cloud ceases to see. Returns the status. */
static sosmc_status minimise(searching *v, double *gain, double *cess, int *limited, int *moved)
{
    sosmc_solver *s = v->s;
    size_t p = v->p;
    sosmc_status status = sosmc_i_look(s, &v->l, s->theta, v->g);
    double first = v->l.loss, now = first;
    *gain = 0;
    *cess = 1;
    *limited = *moved = 0;
    if (status != SOSMC_OK) return status;
    if (!isfinite(first))
        return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "the loss is not finite: the data or the reward are not");
    for (size_t j = 0; j < p; j++) v->g[j] *= v->unit[j];
    for (int k = 0; k < BFGS_STEPS; k++) {
        double t = 1;
        int good = 0, hit = 0, at_radius = find_direction(v);
        double slope = sosmc_i_dot(p, v->g, v->d), metric = sosmc_i_dot(p, v->g, v->g);
        if (!(metric > 0) || !(slope < 0)) {
            if (!v->has_H || k > 0) break;
            v->has_H = 0;
            continue;
        }
        for (int tries = 0; tries < TRIES && !good; tries++) {
            trial_point(v, t);
            status = sosmc_i_look(s, &v->l, s->try_theta, v->g1);
            if (status != SOSMC_OK) return status;
            if (v->l.cess < SEES) {
                hit = 1;
                t *= 0.5;
            } else if (v->l.loss <= now + 1e-4 * t * slope + 1e-13 * fmax(1, fabs(now))) {
                good = 1;
            } else {
                t *= 0.4;
            }
        }
        if (!good) {
            if (!v->has_H || k > 0) break;
            v->has_H = 0; /* what was remembered misleads */
            continue;
        }
        for (size_t j = 0; j < p; j++) {
            double at = (s->try_theta[j] - s->theta[j]) / v->unit[j];
            v->d[j] = at - v->z[j];
            v->z[j] = at;
            v->g1[j] *= v->unit[j];
            v->y[j] = v->g1[j] - v->g[j];
        }
        double scale = 2 * sqrt(form(v, v->F, v->d) / fmax(form(v, v->inverse, v->g), 1e-300));
        update_bfgs(v, v->d, scale);
        swap(&v->g, &v->g1);
        now = v->l.loss;
        *cess = v->l.cess;
        *moved = 1;
        swap(&s->look_x, &s->best_x);
        swap(&s->look_g, &s->best_g);
        swap(&s->look_U, &s->best_U);
        if (hit)
            s->v.radius = fmax(RADIUS, 0.5 * s->v.radius);
        else if (at_radius && t == 1 && *cess > INSIDE)
            s->v.radius = fmin(2 * s->v.radius, LARGEST_RADIUS);
        if (hit && *cess < 0.5 * (1 + SEES)) {
            *limited = 1;
            break;
        }
        if (0.5 * form(v, v->H, v->g) < 1e-3 * fmax(first - now, 1e-12)) break;
    }
    *gain = first - now;
    return SOSMC_OK;
}

/* The cloud follows theta: weights, places, energies. */
static sosmc_status follow(sosmc_solver *s, const searching *v, int moved)
{
    cloud *c = &s->c[SEARCHED];
    sosmc_status status = SOSMC_OK;
    if (moved) {
        for (int i = 0; i < s->n; i++) {
            double more = c->U[i] - s->best_U[i];
            c->logw[i] = isfinite(more) ? s->lw[i] + more : -INFINITY;
        }
        for (size_t j = 0; j < v->p; j++) {
            double to = s->theta[j] + v->z[j] * v->unit[j];
            s->theta[j] = s->o.low < s->o.high ? fmin(fmax(to, s->o.low), s->o.high) : to;
        }
        double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
        for (int i = 0; i < s->n; i++) c->logw[i] -= total;
        status = sosmc_i_host_move(&s->at, s->theta);
        if (status != SOSMC_OK) return status;
        if (s->k[SEARCHED].active) {
            swap(&c->x, &s->best_x);
            swap(&c->g, &s->best_g);
            swap(&c->U, &s->best_U);
        } else {
            status = sosmc_i_solver_evaluate(s, c, &s->at, s->theta, 1);
        }
    }
    if (status == SOSMC_OK) status = sosmc_i_solver_resample(s, c, ALL, 0);
    return status;
}

/* What the noise of one cloud alone would gain: tr(H^-1 V) / 2, the gradient's covariance V being that of the scores, times the mean
 * square of their coefficients, over the effective sample size. The cloud then has no more to tell, and measuring goes on. */
static double noise_gain(const searching *v, double ess)
{
    const sosmc_objective *o = &v->s->problem.objective;
    const cloud *c = &v->s->c[SEARCHED];
    double sum = 0, mean = 0, square = 0;
    for (size_t j = 0; v->has_H && j < v->p; j++)
        for (size_t k = 0; k < v->p; k++) sum += v->H[j * v->p + k] * v->noise[j * v->p + k] * v->unit[j] * v->unit[k];
    for (int i = 0; i < v->s->n && c->R; i++) {
        mean += c->w[i] * c->R[i];
        square += c->w[i] * c->R[i] * c->R[i];
    }
    return 0.5 * o->scale * o->scale * (fmax(square - mean * mean, 0) + o->a * o->a) * sum / ess;
}

/* Whether theta has gone to and fro in the last WANDERING updates, by far more than it has come along, or has gone far, for little:
 * what they gained is noise, and measuring tells more. */
static int wanders(searching *v)
{
    sosmc_solver *s = v->s;
    s->v.path += sqrt(fmax(form(v, v->F, v->z), 0));
    if (s->v.updates % WANDERING != 0) return 0;
    for (size_t j = 0; j < v->p; j++) {
        v->d[j] = (s->theta[j] - s->mark[j]) / v->unit[j];
        s->mark[j] = s->theta[j];
    }
    double net = sqrt(fmax(form(v, v->F, v->d), 0)), path = s->v.path, gained = s->v.decrease - s->v.marked;
    s->v.path = 0;
    s->v.marked = s->v.decrease;
    int far = 0;
    for (size_t j = 0; j < v->p; j++) far |= fabs(s->theta[j] - s->theta0[j]) > 10 * s->first_unit[j];
    return (net < 0.15 * path || far) && gained < WANDERING * 50 * sosmc_i_wanted(s);
}

sosmc_status sosmc_i_search_step(sosmc_solver *s, int *done)
{
    cloud *c = &s->c[SEARCHED];
    size_t p = (size_t)s->p;
    searching v = {.s = s, .p = p, .l = {.c = c, .k = &s->k[SEARCHED], .every = 1}};
    double *m = s->small + 2 * (size_t)s->dim, gain = 0, cess = 1;
    int limited = 0, moved = 0;
    v.F = m;
    v.inverse = v.F + p * p;
    v.H = v.inverse + p * p;
    v.unit = v.H + p * p;
    v.z = v.unit + p;
    v.g = v.z + p;
    v.g1 = v.g + p;
    v.d = v.g1 + p;
    v.y = v.d + p;
    v.work = v.y + p;
    v.noise = v.work + 4 * p;
    *done = 0;
    if (!(s->v.radius > 0)) s->v.radius = RADIUS;
    double ess = sosmc_i_solver_weights(s, c, ALL);
    if (ess == 0) return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "no particle has weight any more");
    double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
    for (int i = 0; i < s->n; i++) s->lw[i] = c->logw[i] - total;
    sosmc_status status = sosmc_i_solver_rewards(s, c);
    if (status == SOSMC_OK) status = sosmc_i_data_draw(s);
    if (status == SOSMC_OK) status = sosmc_i_solver_scores(s, c);
    if (status == SOSMC_OK && s->v.updates == 0) status = sosmc_i_batches_compare(s, c);
    if (status == SOSMC_OK) status = sosmc_i_shift_fit(s, &s->k[SEARCHED], c, 1);
    if (status != SOSMC_OK) return status;
    fisher(&v);
    status = add_complete(&v);
    if (status != SOSMC_OK) return status;
    memset(v.z, 0, p * sizeof(double));
    int nothing = find_units(&v);
    if (!nothing) {
        v.has_H = s->v.has_bfgs != 0;
        for (size_t j = 0; j < p && v.has_H; j++)
            for (size_t k = 0; k < p; k++) v.H[j * p + k] = s->bfgs[j * p + k] / (v.unit[j] * v.unit[k]);
        status = minimise(&v, &gain, &cess, &limited, &moved);
        if (status != SOSMC_OK) return status;
        s->v.has_bfgs = v.has_H;
        for (size_t j = 0; j < p && v.has_H; j++)
            for (size_t k = 0; k < p; k++) s->bfgs[j * p + k] = v.H[j * p + k] * v.unit[j] * v.unit[k];
    }
    status = follow(s, &v, moved);
    int64_t k = s->v.updates++;
    if (status == SOSMC_OK && (k < FITTED_ALWAYS || k % FITTED_EVERY == 0))
        status = sosmc_i_metric_fit(s, &s->m, c, ALL, 1);
    if (status == SOSMC_OK) status = sosmc_i_solver_move(s, c, ALL, &s->m, 1, (int)s->v.moves, 1);
    if (status != SOSMC_OK) return status;
    double wanted = sosmc_i_moves_wanted(s->v.mobility);
    s->v.moves = (int64_t)fmin(fmax(ceil(wanted), 1), MOST_MOVES);
    s->v.moves_wanted = wanted;
    s->v.gain = gain;
    s->v.decrease += gain;
    s->v.cess = cess;
    int little = nothing || gain < fmax(sosmc_i_wanted(s), 3 * noise_gain(&v, ess));
    int inside = !limited && cess > INSIDE && little, wall = 0;
    if ((s->v.updates & (s->v.updates - 1)) == 0) status = sosmc_i_walls_find(s, &wall); /* update 1, 2, 4, 8, ... */
    if (status != SOSMC_OK) return status;
    if (wall) s->v.has_bfgs = 0; /* of another function */
    s->v.quiet = inside && !wall ? s->v.quiet + 1 : 0;
    if (s->v.quiet >= QUIET || (!nothing && wanders(&v))) *done = 1;
    if (!*done && s->v.updates >= MOST_UPDATES) s->v.out_of_updates = *done = 1;
    return SOSMC_OK;
}
