/* start.c: a weighted cloud at theta, by tempering from laws with a density.
 *
 *     V_t = (1 - t) (-log q) + t U_theta,   t from 0 to 1, each next t such that the conditional effective sample size is half
 *
 * The first half of the groups starts from law A, the other from law B; each is a tempered cloud of its own with absolute weights, so
 * every group knows its own log Z. A group that misses a mode has too small a log Z and counts for less. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

enum { MOST_TEMPERATURES = 400, FEWEST_MOVES = 2, MOST_MOVES = 8 };
static const double TARGET = 0.5, TARGET_JUMPING = 0.9;
static const groups LAW_RANGE[2] = {{0, HALF / 2, HALF}, {HALF, HALF + HALF / 2, GROUPS}};

/* Half the square of d^(-1/6). */
static double first_step(const sosmc_solver *s)
{
    return 0.5 * sosmc_i_exp1(NULL, -sosmc_i_log1(NULL, (double)s->dim) / 3);
}

typedef struct {
    sosmc_solver *s;
    cloud *c;
    sosmc_rng draw, stretch;
} drawing;

static double chi_square(const drawing *v, int dof, int64_t particle)
{
    double z[MOST_DOF], sum = 0;
    sosmc_batch b = {.simd = v->s->simd, .dim = dof, .n = 1, .ld = 1, .first = particle};
    sosmc_normals(v->stretch, &b, z);
    for (int k = 0; k < dof; k++) sum += z[k] * z[k];
    return sum;
}

static sosmc_status draw_tile(void *ctx, int tile, int worker)
{
    const drawing *v = ctx;
    sosmc_solver *s = v->s;
    const laws *q = &s->q[tile / s->tiles_per_group >= HALF];
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    double *z = sosmc_i_solver_vector(s, worker, VECTOR_STEP), *stretch = sosmc_i_solver_row(s, worker, ROW_UNIFORM);
    double *x = tile_of(s, v->c->x, tile);
    int64_t in_group = b.first % s->group;
    sosmc_normals(v->draw, &b, z);
    for (int i = 0; i < b.n; i++) {
        int dof = q->part[sosmc_i_law_of(q, in_group + i, s->group)].dof;
        stretch[i] = dof > 0 ? sqrt(dof / chi_square(v, dof, b.first + i)) : 1;
    }
    sosmc_batch place = b;
    place.first = in_group; /* every group holds the components in their proportions */
    sosmc_i_laws_draw(q, &place, s->group, z, stretch, x);
    b.x = x;
    if (sosmc_i_solver_energy(s, s->theta, &b, v->c->U + b.first, tile_of(s, v->c->g, tile),
                              sosmc_i_solver_row(s, worker, ROW_ENERGY)))
        return SOSMC_EMODEL;
    s->code->energies(q, b.n, b.ld, x, s->Lq + b.first, tile_of(s, s->gq, tile),
                      s->room + (size_t)worker * s->room_each);
    return SOSMC_OK;
}

/* Places to begin the search for modes: particles of the other cloud, where there is one. */
static int seeds_of(sosmc_solver *s, int which, double *seed)
{
    cloud *c = &s->c[1 - which];
    double total = 0, below = 0;
    int found = 0;
    if (s->v.phase == SOSMC_PHASE_START) return 0;
    (void)sosmc_i_solver_weights(s, c, ALL);
    for (int i = 0; i < s->n; i++) total += c->w[i];
    for (int i = 0; i < s->n && found < SEEDS; i++) {
        below += c->w[i];
        if (below < total * (found + 0.5) / SEEDS) continue;
        for (int j = 0; j < s->dim; j++)
            seed[(size_t)found * (size_t)s->dim + (size_t)j] = c->x[particle_at(s, i) + (size_t)j * (size_t)s->at.ld];
        found++;
    }
    return found;
}

sosmc_status sosmc_i_start_laws(sosmc_solver *s, int which)
{
    for (int k = 0; k < 2; k++) {
        sosmc_i_laws_free(&s->q[k]);
        s->q[k] = (laws){.dim = s->dim, .diagonal = s->dim > FULL};
    }
    if (s->network) {
        sosmc_status known = sosmc_i_learn_laws(s, &s->q[0], 0);
        return known == SOSMC_OK ? sosmc_i_learn_laws(s, &s->q[1], 0) : known;
    }
    int seeds = seeds_of(s, which, s->spare);
    sosmc_status status = sosmc_i_places_find(s, &s->found[which], s->theta, seeds, s->spare);
    if (status == SOSMC_OK) status = sosmc_i_places_laws(s, &s->found[which], s->q);
    s->v.modes[which] = s->found[which].count;
    s->v.many[which] = s->found[which].many;
    return status;
}

sosmc_status sosmc_i_start_begin(sosmc_solver *s, int which)
{
    cloud *c = &s->c[which];
    s->v.start_clock = s->v.clock++;
    s->v.part = 0;
    s->v.t = 0;
    s->v.temperatures = 0;
    s->v.arrived[which] = 1;
    s->start_metric.h = first_step(s);
    sosmc_status status = sosmc_i_start_laws(s, which);
    if (status != SOSMC_OK) return status;
    drawing v = {.s = s, .c = c};
    v.draw = sosmc_i_solver_name(s, STREAM_LAW);
    v.stretch = sosmc_i_solver_name(s, STREAM_STRETCH);
    s->v.evaluations += s->n;
    for (int i = 0; i < s->n; i++) c->logw[i] = 0;
    return sosmc_i_parallel(s->helpers, draw_tile, &v, s->tiles);
}

/* ---------------------------------------------------------------------------- temperatures */

/* The share of the conditional effective sample size behind an increment; d: log of the weights per unit of t. */
static double share(const sosmc_solver *s, const cloud *c, groups r, double increment, double most)
{
    double sums[2];
    int lo = r.first * s->group;
    s->code->spread((r.end - r.first) * s->group, c->w + lo, s->value + lo, increment, most, sums);
    return sums[1] > 0 ? sums[0] * sums[0] / sums[1] : 0;
}

static double next_increment(sosmc_solver *s, cloud *c, groups r)
{
    double most = -INFINITY, low = 0, high = 1 - s->v.t, target = sosmc_i_solver_jumps(s) ? TARGET_JUMPING : TARGET;
    for (int i = r.first * s->group; i < r.end * s->group; i++) {
        s->value[i] = c->w[i] > 0 ? s->Lq[i] - c->U[i] : -INFINITY;
        if (s->value[i] > most) most = s->value[i];
    }
    if (!isfinite(most) || share(s, c, r, high, most) >= target) return high;
    for (int k = 0; k < 60; k++) {
        double middle = low > 0 ? sqrt(low * high) : 0.1 * high;
        if (share(s, c, r, middle, most) >= target)
            low = middle;
        else
            high = middle;
        if (low > 0 && high < 1.02 * low) break;
    }
    return fmax(low, 1e-12);
}

static void note_groups(sosmc_solver *s, cloud *c, int which)
{
    for (int k = 0; k < GROUPS; k++)
        s->v.start_log_z[which][k] = sosmc_i_log_sum(s->simd, s->group, c->logw + k * s->group, s->scratch) -
                                     sosmc_i_log1(NULL, (double)s->group);
}

/* Both laws have arrived: one cloud, whose kernel is the solver's. */
static sosmc_status finish(sosmc_solver *s, int which)
{
    cloud *c = &s->c[which];
    for (int i = 0; i < s->n; i++)
        if (!isfinite(c->U[i])) c->logw[i] = -INFINITY;
    note_groups(s, c, which);
    if (sosmc_i_solver_weights(s, c, ALL) == 0)
        return sosmc_i_solver_fail(
            s, SOSMC_ENUMERIC,
            "no particle has a finite energy at theta; declare the bounds of x (x_low, x_high), or give an initial distribution inside them");
    sosmc_status status = sosmc_i_solver_resample(s, c, ALL, 0);
    if (status != SOSMC_OK || s->v.phase != SOSMC_PHASE_START) return status;
    s->m.h = s->start_metric.h;
    status = sosmc_i_metric_fit(s, &s->m, c, ALL, 1);
    return status == SOSMC_OK ? sosmc_i_solver_move(s, c, ALL, &s->m, 1, 6, 1) : status;
}

sosmc_status sosmc_i_start_step(sosmc_solver *s, int which, int *done)
{
    cloud *c = &s->c[which];
    groups r = LAW_RANGE[s->v.part];
    int lo = r.first * s->group, hi = r.end * s->group;
    *done = 0;
    double before = sosmc_i_solver_weights(s, c, r);
    if (s->v.t == 0) /* outside the support: no weight at any temperature */
        for (int i = lo; i < hi; i++)
            if (!isfinite(c->U[i])) c->logw[i] = -INFINITY;
    if (before > 0) before = sosmc_i_solver_weights(s, c, r);
    if (before > 0 && s->v.t < 1 && s->v.temperatures < MOST_TEMPERATURES) {
        double increment = next_increment(s, c, r), t = s->v.t + increment;
        if (t > 1 - 1e-12) t = 1;
        for (int i = lo; i < hi; i++) c->logw[i] = c->w[i] > 0 ? c->logw[i] + increment * s->value[i] : -INFINITY;
        s->v.t = t;
        s->v.temperatures++;
        sosmc_status status = sosmc_i_solver_resample(s, c, r, 1);
        if (status == SOSMC_OK) status = sosmc_i_metric_fit(s, &s->start_metric, c, r, t);
        double stays = 1;
        for (int k = 0; k < MOST_MOVES && status == SOSMC_OK; k++) {
            status = sosmc_i_solver_move(s, c, r, &s->start_metric, t, 1, 1);
            stays *= 1 - s->v.mobility;
            if (k + 1 >= FEWEST_MOVES && stays < 0.5) break;
        }
        if (status != SOSMC_OK) return status;
    }
    if (before > 0 && s->v.t < 1 && s->v.temperatures < MOST_TEMPERATURES) return SOSMC_OK;
    if (s->v.t < 1) { /* it did not arrive: these groups count for nothing */
        s->v.arrived[which] = 0;
        for (int i = lo; i < hi; i++) c->logw[i] = -INFINITY;
    }
    s->v.t = 0;
    s->v.temperatures = 0;
    s->start_metric.h = first_step(s);
    if (++s->v.part < 2) return SOSMC_OK;
    *done = 1;
    return finish(s, which);
}

void sosmc_i_start_gap(const sosmc_solver *s, int which, double *gap, double *error)
{
    double z[2], variance = 0;
    for (int law = 0; law < 2; law++) {
        const double *of = s->v.start_log_z[which] + (ptrdiff_t)law * HALF;
        double most = -INFINITY, sum = 0, squares = 0;
        for (int k = 0; k < HALF; k++) most = fmax(most, of[k]);
        for (int k = 0; k < HALF; k++) sum += isfinite(most) ? sosmc_i_exp1(NULL, of[k] - most) / HALF : 0;
        z[law] = isfinite(most) ? most + sosmc_i_log1(NULL, sum) : -INFINITY;
        for (int k = 0; k < HALF && isfinite(most); k++) {
            double away = sosmc_i_exp1(NULL, of[k] - z[law]) - 1;
            squares += away * away / HALF;
        }
        variance += squares / (HALF - 1);
    }
    *gap = z[0] - z[1];
    *error = sqrt(variance);
}
