/* cloud.c: weighted particles in groups: evaluation, moves, weights, resampling.
 *
 * Invariant: random numbers are named by the solver's clock and the particle's number; sums over particles run in the order of tiles
 * and of particles in them. So nothing depends on threads or on the vector code. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

static const double ACCEPTANCE = 0.57, LARGEST_H = 1.805; /* a step of 1.9 standard deviations */
static const double ACCEPTANCE_WALK = 0.3,
                    LOG_SPREAD = 2.302585092994046; /* scales from a tenth to ten times the step */

/* ---------------------------------------------------------------------------- tiles */

sosmc_batch sosmc_i_solver_batch(const sosmc_solver *s, const host *h, int worker, int tile)
{
    int64_t first = tile_first(s, tile);
    return sosmc_i_host_batch(h, worker, first, first + tile_count(s, tile));
}

double *sosmc_i_solver_vector(const sosmc_solver *s, int worker, int which)
{
    return host_room(&s->at, worker) + (size_t)which * s->vector;
}
double *sosmc_i_solver_row(const sosmc_solver *s, int worker, int which)
{
    return sosmc_i_solver_vector(s, worker, VECTORS) + (size_t)which * s->at.row;
}

int sosmc_i_solver_energy(const sosmc_solver *s, const double *theta, const sosmc_batch *b, double *U, double *g,
                          double *row)
{
    const sosmc_model *m = &s->problem.model;
    if (m->energy(m->self, theta, b, row, g)) return -1;
    for (int i = 0; i < b->n; i++) {
        int good = row[i] < INFINITY && row[i] > -INFINITY;
        for (int j = 0; g && good && j < b->dim; j++) good = isfinite(g[(size_t)j * (size_t)b->ld + (size_t)i]);
        U[i] = good ? row[i] : INFINITY;
        for (int j = 0; g && !good && j < b->dim; j++) g[(size_t)j * (size_t)b->ld + (size_t)i] = 0;
    }
    return 0;
}

typedef struct {
    sosmc_solver *s;
    cloud *c;
    const host *h;
    const double *theta;
    int slopes;
} evaluation;

static sosmc_status evaluate_tile(void *ctx, int tile, int worker)
{
    const evaluation *e = ctx;
    sosmc_solver *s = e->s;
    sosmc_batch b = sosmc_i_solver_batch(s, e->h, worker, tile);
    b.x = tile_of(s, e->c->x, tile);
    return sosmc_i_solver_energy(s, e->theta, &b, e->c->U + b.first, e->slopes ? tile_of(s, e->c->g, tile) : NULL,
                                 sosmc_i_solver_row(s, worker, ROW_ENERGY))
               ? SOSMC_EMODEL
               : SOSMC_OK;
}

sosmc_status sosmc_i_solver_evaluate(sosmc_solver *s, cloud *c, host *h, const double *theta, int slopes)
{
    evaluation e = {.s = s, .c = c, .h = h, .theta = theta, .slopes = slopes};
    s->v.evaluations += s->n;
    return sosmc_i_parallel(s->helpers, evaluate_tile, &e, s->tiles);
}

static sosmc_status reward_tile(void *ctx, int tile, int worker)
{
    const evaluation *e = ctx;
    sosmc_solver *s = e->s;
    const sosmc_score *score = &s->problem.objective.score;
    double *row = sosmc_i_solver_row(s, worker, ROW_ENERGY);
    if (e->c->R) {
        sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
        b.x = tile_of(s, e->c->x, tile);
        if (score->eval(score->self, &b, row)) return SOSMC_EMODEL;
        memcpy(e->c->R + b.first, row, (size_t)b.n * sizeof(double));
    }
    if (e->c->Uref) {
        sosmc_batch b = sosmc_i_solver_batch(s, &s->ref, worker, tile);
        b.x = tile_of(s, e->c->x, tile);
        return sosmc_i_solver_energy(s, s->problem.objective.theta_ref, &b, e->c->Uref + b.first, NULL, row)
                   ? SOSMC_EMODEL
                   : SOSMC_OK;
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_solver_rewards(sosmc_solver *s, cloud *c)
{
    evaluation e = {.s = s, .c = c};
    if (c->Uref) s->v.evaluations += s->n;
    return c->R || c->Uref ? sosmc_i_parallel(s->helpers, reward_tile, &e, s->tiles) : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- weights */

double sosmc_i_log_sum(const sosmc_simd *simd, int n, const double *x, double *work)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    if (!(most > -INFINITY) || !(most < INFINITY)) return most;
    for (int i = 0; i < n; i++) work[i] = x[i] - most;
    sosmc_exp(simd, n, work, work);
    for (int i = 0; i < n; i++) sum += work[i];
    return most + sosmc_i_log1(NULL, sum);
}

double sosmc_i_solver_weights(const sosmc_solver *s, cloud *c, groups r)
{
    int lo = r.first * s->group, n = r.end * s->group - lo;
    double squares = 0, total = sosmc_i_log_sum(s->simd, n, c->logw + lo, c->w + lo);
    if (!isfinite(total)) {
        memset(c->w + lo, 0, (size_t)n * sizeof(double));
        return 0;
    }
    for (int i = lo; i < lo + n; i++) c->w[i] = c->logw[i] - total;
    sosmc_exp(s->simd, n, c->w + lo, c->w + lo);
    for (int i = lo; i < lo + n; i++) squares += c->w[i] * c->w[i];
    return 1 / squares;
}

/* ---------------------------------------------------------------------------- resampling */

static void gather_tiles(const sosmc_solver *s, groups r, double *x)
{
    size_t dim = (size_t)s->dim, ld = (size_t)s->at.ld;
    size_t from_tile = (size_t)(r.first * s->tiles_per_group) * s->vector;
    size_t all = (size_t)((r.end - r.first) * s->tiles_per_group) * s->vector;
    memcpy(s->spare + from_tile, x + from_tile, all * sizeof(double));
    for (int i = r.first * s->group; i < r.end * s->group; i++) {
        if (s->ancestor[i] == i) continue;
        const double *from = s->spare + particle_at(s, s->ancestor[i]);
        double *to = x + particle_at(s, i);
        for (size_t j = 0; j < dim; j++) to[j * ld] = from[j * ld];
    }
}

static void gather(const sosmc_solver *s, groups r, double *values)
{
    int lo = r.first * s->group, n = r.end * s->group - lo;
    memcpy(s->scratch, values + lo, (size_t)n * sizeof(double));
    for (int i = lo; i < lo + n; i++) values[i] = s->scratch[s->ancestor[i] - lo];
}

static void follow(sosmc_solver *s, cloud *c, groups r, int law)
{
    gather_tiles(s, r, c->x);
    gather_tiles(s, r, c->g);
    gather(s, r, c->U);
    if (!law) return;
    gather_tiles(s, r, s->gq);
    gather(s, r, s->Lq);
}

/* Ancestors of the particles lo to lo + n - 1 by their weights; they then share the weight that these had. */
static sosmc_status draw_ancestors(sosmc_solver *s, cloud *c, int lo, int n)
{
    double total = sosmc_i_log_sum(s->simd, n, c->logw + lo, s->scratch);
    sosmc_status status = sosmc_resample(SOSMC_SYSTEMATIC, sosmc_i_solver_name(s, STREAM_RESAMPLE), n, c->w + lo,
                                         s->scratch, s->ancestor + lo);
    for (int i = lo; i < lo + n; i++) {
        s->ancestor[i] += lo;
        c->logw[i] = total - sosmc_i_log1(NULL, (double)n);
    }
    return status;
}

sosmc_status sosmc_i_solver_resample(sosmc_solver *s, cloud *c, groups r, int law)
{
    int did = 0;
    double squares = 0;
    if (sosmc_i_solver_weights(s, c, r) == 0) return SOSMC_OK;
    for (int i = r.first * s->group; i < r.end * s->group; i++) s->ancestor[i] = i;
    for (int k = r.first; k < r.end; k++) {
        double sum = 0, sum2 = 0;
        for (int i = k * s->group; i < (k + 1) * s->group; i++) {
            sum += c->w[i];
            sum2 += c->w[i] * c->w[i];
        }
        squares += sum * sum;
        if (!(sum > 0) || !(sum * sum < 0.5 * s->group * sum2)) continue;
        sosmc_status status = draw_ancestors(s, c, k * s->group, s->group);
        if (status != SOSMC_OK) return status;
        did = 1;
    }
    if (did) follow(s, c, r, law);
    if (s->v.phase <= SOSMC_PHASE_SEARCH && 1 / squares < 0.5 * (r.end - r.first)) { /* groups have become unequal */
        s->v.exchanges++;
        (void)sosmc_i_solver_weights(s, c, r);
        sosmc_status status = draw_ancestors(s, c, r.first * s->group, (r.end - r.first) * s->group);
        if (status != SOSMC_OK) return status;
        follow(s, c, r, law);
    }
    (void)sosmc_i_solver_weights(s, c, r);
    return SOSMC_OK;
}

sosmc_status sosmc_i_solver_resample_all(sosmc_solver *s, cloud *c)
{
    double ess = sosmc_i_solver_weights(s, c, ALL);
    if (ess == 0 || ess >= 0.5 * s->n) return SOSMC_OK;
    sosmc_status status = draw_ancestors(s, c, 0, s->n);
    if (status != SOSMC_OK) return status;
    follow(s, c, ALL, 0);
    (void)sosmc_i_solver_weights(s, c, ALL);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- moves */

typedef struct {
    sosmc_solver *s;
    cloud *c;
    const metric *m;
    groups r;
    double t;
    sosmc_rng move, accept, scale;
    int last, part; /* part: of a jump, which of the two is moved */
} moving;

/* Energies of the points under the model, and under the law of their half where that still counts. */
static int evaluate_points(sosmc_solver *s, const moving *v, sosmc_batch *b, int worker, int law, const tile_points *p)
{
    b->x = p->x;
    double *g = v->m->walk ? NULL : p->gU;
    if (sosmc_i_solver_energy(s, s->theta, b, p->U, g, sosmc_i_solver_row(s, worker, ROW_OTHER))) return -1;
    if (v->t < 1)
        s->code->energies(&s->q[law], b->n, b->ld, p->x, p->Lq, p->gq, s->room + (size_t)worker * s->room_each);
    return 0;
}

/* Weighted squares of jumps and slopes by coordinate: the tile's row of s->partial. A walk has no slopes: there the sums of places and
 * of their squares stand instead. */
static void note_jumps(const moving *v, int tile, const sosmc_batch *b, const tile_points *at, const double *before)
{
    const sosmc_solver *s = v->s;
    double *jumps = s->partial + (size_t)tile * s->row, *slopes = jumps + s->dim;
    const double *w = v->c->w + b->first;
    for (int j = 0; j < s->dim; j++) {
        const double *x = at->x + (size_t)j * (size_t)b->ld, *old = before + (size_t)j * (size_t)b->ld,
                     *g = at->gU + (size_t)j * (size_t)b->ld, *gq = at->gq + (size_t)j * (size_t)b->ld;
        double jump = 0, slope = 0, place = 0, square = 0;
        for (int i = 0; i < b->n; i++) {
            double slid = x[i] - old[i], steep = v->m->walk ? x[i] : v->t < 1 ? v->t * g[i] + (1 - v->t) * gq[i] : g[i];
            jump += w[i] * slid * slid;
            slope += w[i] * steep * steep;
            place += w[i] * x[i];
            square += w[i] * x[i] * x[i];
        }
        jumps[j] = jump;
        slopes[j] = slope;
        if (v->m->walk) slopes[s->dim + j] = place;
        if (v->m->walk || !s->v.walls) continue;
        slopes[s->dim + j] = place;
        slopes[2 * s->dim + j] = square;
    }
}

/* Every particle's step times a factor of its own, whose logarithm is uniform whatever the particle is: one walk makes small steps
 * within a mode and jumps to others, and its proposals stay symmetric. */
static void spread_out(const moving *v, const sosmc_batch *b, double *step, double *f)
{
    sosmc_uniforms(v->scale, 0, b, f);
    for (int i = 0; i < b->n; i++) f[i] = LOG_SPREAD * (2 * f[i] - 1);
    sosmc_exp(v->s->simd, b->n, f, f);
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) step[(size_t)j * (size_t)b->ld + (size_t)i] *= f[i];
}

/* A tile of the cloud; and a worker's room for what it may be replaced by. */
static tile_points points_at(const moving *v, int tile)
{
    sosmc_solver *s = v->s;
    size_t first = (size_t)tile_first(s, tile);
    int law = v->t < 1;
    double *g = tile_of(s, v->c->g, tile);
    return (tile_points){.x = tile_of(s, v->c->x, tile),
                         .gU = g,
                         .gq = law ? tile_of(s, s->gq, tile) : g,
                         .U = v->c->U + first,
                         .Lq = (law ? s->Lq : v->c->U) + first};
}

static tile_points points_to(const moving *v, int worker)
{
    const sosmc_solver *s = v->s;
    int law = v->t < 1;
    return (tile_points){.x = sosmc_i_solver_vector(s, worker, VECTOR_PLACE),
                         .gU = sosmc_i_solver_vector(s, worker, VECTOR_GRADIENT),
                         .gq = sosmc_i_solver_vector(s, worker, law ? VECTOR_LAW : VECTOR_GRADIENT),
                         .U = sosmc_i_solver_row(s, worker, ROW_ENERGY),
                         .Lq = sosmc_i_solver_row(s, worker, law ? ROW_LAW : ROW_ENERGY)};
}

static sosmc_status move_tile(void *ctx, int task, int worker)
{
    const moving *v = ctx;
    sosmc_solver *s = v->s;
    int tile = task + v->r.first * s->tiles_per_group, half = tile / s->tiles_per_group >= v->r.middle;
    const preconditioner *p = &v->m->c[half];
    const tile_move m = {.C = {.dim = s->dim, .diagonal = p->diagonal, .factor = p->C, .inverse = v->m->inverse[half]},
                         .gradient = !v->m->walk,
                         .t = v->t,
                         .h = v->m->h};
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    tile_points at = points_at(v, tile), to = points_to(v, worker);
    double *step = sosmc_i_solver_vector(s, worker, VECTOR_STEP), *g = sosmc_i_solver_vector(s, worker, VECTOR_SLOPE);
    double *before = sosmc_i_solver_vector(s, worker, VECTOR_BEFORE), *u = sosmc_i_solver_row(s, worker, ROW_UNIFORM);
    double *work = s->room + (size_t)worker * s->room_each;
    sosmc_normals(v->move, &b, step);
    sosmc_uniforms(v->accept, 0, &b, u);
    if (v->m->walk) spread_out(v, &b, step, sosmc_i_solver_row(s, worker, ROW_OTHER));
    s->code->propose(&m, b.n, b.ld, &at, step, g, to.x, work);
    if (evaluate_points(s, v, &b, worker, tile / s->tiles_per_group >= HALF, &to)) return SOSMC_EMODEL;
    if (v->last && v->t >= 1 && !v->m->walk && s->paths)
        sosmc_i_paths_store(s, tile, &b, &at, &to, v->c->w + b.first, v->move.step,
                            sosmc_i_solver_row(s, worker, ROW_LAW));
    if (v->last) memcpy(before, at.x, s->vector * sizeof(double));
    s->code->decide(&m, b.n, b.ld, &at, &to, step, g, u, s->accepted + b.first, work);
    if (v->last) note_jumps(v, tile, &b, &at, before);
    return SOSMC_OK;
}

pool sosmc_i_solver_pool(const sosmc_solver *s, const cloud *c, int first, int end)
{
    return (pool){.x = c->x,
                  .vector = s->vector,
                  .ld = s->at.ld,
                  .first = first * s->tiles_per_group,
                  .tiles = (end - first) * s->tiles_per_group,
                  .lanes = tile_count(s, s->tiles_per_group - 1)};
}

/* A jump of every particle of a tile, with the differences of the other part's particles. */
static sosmc_status jump_tile(void *ctx, int task, int worker)
{
    const moving *v = ctx;
    sosmc_solver *s = v->s;
    int tile = task + (v->part ? v->r.middle : v->r.first) * s->tiles_per_group;
    const pool from = v->part ? sosmc_i_solver_pool(s, v->c, v->r.first, v->r.middle)
                              : sosmc_i_solver_pool(s, v->c, v->r.middle, v->r.end);
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    double *u = sosmc_i_solver_row(s, worker, ROW_UNIFORM), *none = sosmc_i_solver_row(s, worker, ROW_OTHER);
    tile_points at = points_at(v, tile), to = points_to(v, worker);
    const tile_move m = {.C = {.dim = s->dim}, .gradient = !v->m->walk, .t = v->t, .gain = none};
    memcpy(to.x, at.x, s->vector * sizeof(double));
    sosmc_i_jump(&from, v->move, &b, to.x);
    if (evaluate_points(s, v, &b, worker, tile / s->tiles_per_group >= HALF, &to)) return SOSMC_EMODEL;
    sosmc_uniforms(v->accept, 0, &b, u);
    memset(none, 0, (size_t)b.n * sizeof(double));
    s->code->decide(&m, b.n, b.ld, &at, &to, NULL, NULL, u, s->accepted + b.first,
                    s->room + (size_t)worker * s->room_each);
    return SOSMC_OK;
}

int sosmc_i_solver_jumps(const sosmc_solver *s)
{
    return s->v.many[SEARCHED] || s->v.many[FRESH] ? (s->dim + 2) / 3 : 0;
}

/* How far a jump along a coordinate goes: E[jump^2] over twice the variance, which is 1 for independent draws; mean over coordinates. Where
 * modes are apart in all coordinates at once, no jump joins two of them, and this is nearly 0. */
static double reach_of(const sosmc_solver *s, const cloud *c, groups r, const double *before, double tries)
{
    double reach = 0;
    for (int j = 0; j < s->dim; j++) {
        double total = 0, mean = 0, square = 0, moved = 0;
        for (int i = r.first * s->group; i < r.end * s->group; i++) {
            size_t at = particle_at(s, i) + (size_t)j * (size_t)s->at.ld;
            double w = c->w[i], away = c->x[at] - mean, slid = c->x[at] - before[at];
            if (!(w > 0)) continue;
            total += w;
            mean += w / total * away;
            square += w * away * (c->x[at] - mean);
            moved += w * slid * slid;
        }
        reach += 0.5 * moved / fmax(square, 1e-300) / tries / s->dim;
    }
    return reach;
}

static sosmc_status jump(sosmc_solver *s, moving *v)
{
    sosmc_status status = SOSMC_OK;
    int jumps = sosmc_i_solver_jumps(s), rests = s->v.phase == SOSMC_PHASE_MEASURE && s->v.starting < 0;
    if (jumps == 0) return status;
    if (rests) jumps = s->dim;
    memcpy(s->spare, v->c->x, (size_t)s->tiles * s->vector * sizeof(double));
    for (int k = 0; k < 2 * jumps && status == SOSMC_OK; k++) {
        v->part = k % 2;
        v->move = sosmc_i_solver_name(s, STREAM_MOVE);
        v->accept = sosmc_i_solver_name(s, STREAM_ACCEPT);
        int moved = v->part ? v->r.end - v->r.middle : v->r.middle - v->r.first;
        status = sosmc_i_parallel(s->helpers, jump_tile, v, moved * s->tiles_per_group);
        s->v.evaluations += moved * s->group;
    }
    if (v->t >= 1) s->v.reach = reach_of(s, v->c, v->r, s->spare, (double)jumps / s->dim);
    return status;
}

/* The smallest over coordinates of E[jump^2] E[slope^2] / 2: for a normal law 1 less the autocorrelation. Of a walk E[jump^2] over twice
 * the variance, which is the same for a normal law. */
static double mobility_of(const sosmc_solver *s, groups r, int walk)
{
    double least = 1;
    for (int j = 0; j < s->dim; j++) {
        double jump = 0, slope = 0, place = 0, square = 0;
        int walled = !walk && s->v.walls && s->walled[j] > 0;
        for (int tile = r.first * s->tiles_per_group; tile < r.end * s->tiles_per_group; tile++) {
            const double *row = s->partial + (size_t)tile * s->row;
            jump += row[j];
            slope += row[s->dim + j];
            if (walk || walled) place += row[2 * s->dim + j];
            if (walled) square += row[3 * s->dim + j];
        }
        if (walled) slope = fmax(slope, 1 / fmax(square - place * place, 1e-300)); /* E[g^2] may be smaller there */
        if (walk) slope = 1 / fmax(slope - place * place, 1e-300);
        least = fmin(least, 0.5 * jump * slope);
    }
    return fmax(least, 1e-6);
}

double sosmc_i_moves_wanted(double mobility)
{
    return -0.69314718055994531 / sosmc_i_log1(NULL, 1 - fmin(mobility, 0.999));
}

sosmc_status sosmc_i_solver_move(sosmc_solver *s, cloud *c, groups r, metric *m, double t, int moves, int adapt)
{
    moving jumping = {.s = s, .c = c, .m = m, .r = r, .t = t};
    (void)sosmc_i_solver_weights(s, c, r);
    sosmc_status jumped = jump(s, &jumping);
    if (jumped != SOSMC_OK) return jumped;
    for (int k = 0; k < moves; k++) {
        moving v = {.s = s, .c = c, .m = m, .r = r, .t = t, .last = k + 1 == moves};
        v.move = sosmc_i_solver_name(s, STREAM_MOVE);
        v.accept = sosmc_i_solver_name(s, STREAM_ACCEPT);
        if (m->walk) v.scale = sosmc_i_solver_name(s, STREAM_STRETCH);
        sosmc_status status = sosmc_i_parallel(s->helpers, move_tile, &v, (r.end - r.first) * s->tiles_per_group);
        if (status != SOSMC_OK) return status;
        s->v.evaluations += (r.end - r.first) * s->group;
        double mean = 0;
        for (int i = r.first * s->group; i < r.end * s->group; i++) mean += c->w[i] * s->accepted[i];
        s->v.accept = mean;
        double target = m->walk ? ACCEPTANCE_WALK : ACCEPTANCE;
        if (adapt) m->h *= sosmc_i_exp1(NULL, fmin(fmax(1.4 * (mean - target), -1), 1));
        if (m->h > LARGEST_H) m->h = LARGEST_H;
    }
    s->v.mobility = mobility_of(s, r, m->walk);
    return SOSMC_OK;
}
