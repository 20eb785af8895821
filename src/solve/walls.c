/* walls.c: two things that the solver assumes of the energy, checked at its particles (maths.md, Walls and jumps).
 *
 * 1. U has no jump. Control variates K'g and the transport of particles with theta need E[g_j] = 0, which fails in the coordinates across
 * which U has a wall or a step. A move from x to y knows U and g at both ends. For a smooth U
 *
 *     r = U(y) - U(x) - (g(x) + g(y))'(y - x) / 2
 *
 * falls by eight where the path from x to y is halved; at a jump it stays. Some paths are stored, and halved after updates 1, 2, 4,
 * 8, ... and after each stage, keeping the half with the larger |r|. A jump that is left is assigned to the coordinates that it is across:
 * K has no rows for them from then on. A jump whose place or height changes with theta, a power of the distance at a wall and U = -inf
 * are reasons of the verdict.
 *
 * 2. U, g and dU/dtheta of a particle do not depend on its batch: some are evaluated again in other batches. */
#include <math.h>
#include <stdlib.h>

#include "base/linear.h"
#include "solve_inside.h"

enum { BLOCK = 32, HALVINGS = 20, MOST_HALVINGS = 48 };
enum {
    LARGEST,
    ANY,
    KNOWN,
    KINDS
};                              /* of a block: the largest r; one whatever its r; the largest across a known wall */
enum { SMALL = 8, LARGE = 32 }; /* sizes of batches; models that are compiled see no others here */
enum { LOCATED = 8, EXAMINED = 4, FINDINGS = 6 };
/* In nats: a jump that counts; a wall, however it is written; the change of U along a path that is short; how far the lower side of a
 * jump may be above the particle (further up there is no mass). */
static const double LITTLE = 0.003, HIGH = 1e6, FLAT = 1e-3, MASS = 20;
/* How far coordinates are moved, in lengths of the path, and theta_j, in its units; what two batches may differ by, in nats or standard
 * deviations, and in rounding errors. */
static const double WIDER = 1000, NUDGE = 0.01, SAME = 1e-3, ROUNDINGS = 1000;

static double noise_of(const sosmc_solver *s)
{
    return ROUNDINGS * (s->problem.model.rounding > 0 ? s->problem.model.rounding : 2.3e-16);
}

/* ---------------------------------------------------------------------------- paths of moves */

/* A stored path: from, to, r. */
static size_t path_doubles(const sosmc_solver *s) { return 2 * (size_t)s->dim + 1; }
static int blocks_per_tile(const sosmc_solver *s) { return (s->tile + BLOCK - 1) / BLOCK; }
static size_t path_count(const sosmc_solver *s) { return KINDS * (size_t)s->tiles * (size_t)blocks_per_tile(s); }
size_t sosmc_i_paths_doubles(const sosmc_solver *s) { return path_count(s) * path_doubles(s); }

static int is_across(const sosmc_solver *s, size_t j, double a, double b)
{
    const double *low = s->walled + s->dim, *high = low + s->dim;
    return s->walled[j] != 0 && ((a - low[j]) * (b - low[j]) <= 0 || (a - high[j]) * (b - high[j]) <= 0);
}

void sosmc_i_paths_store(const sosmc_solver *s, int tile, const sosmc_batch *b, const tile_points *at,
                         const tile_points *to, const double *w, uint64_t step, double *r)
{
    size_t dim = (size_t)s->dim, ld = (size_t)b->ld;
    memset(r, 0, (size_t)b->n * sizeof *r);
    for (size_t j = 0; j < dim; j++)
        for (size_t i = j * ld; i < j * ld + (size_t)b->n; i++)
            r[i - j * ld] += 0.5 * (at->gU[i] + to->gU[i]) * (to->x[i] - at->x[i]);
    for (int i = 0; i < b->n; i++) {
        double apart = to->U[i] < INFINITY ? fabs(to->U[i] - at->U[i] - r[i]) : INFINITY;
        r[i] = !(w[i] > 0) || !(at->U[i] < INFINITY) ? 0 : isnan(apart) ? INFINITY : apart;
    }
    for (int i = 0; i < b->n; i++) {
        int block = i / BLOCK, left = b->n - block * BLOCK, known = 0;
        int any = (int)((step + (uint64_t)tile) % (uint64_t)(left < BLOCK ? left : BLOCK));
        for (size_t j = 0; s->v.walls && r[i] > LITTLE && j < dim && !known; j++)
            known = is_across(s, j, at->x[j * ld + (size_t)i], to->x[j * ld + (size_t)i]);
        int kind = known ? KNOWN : i % BLOCK == any ? ANY : LARGEST;
        double *path = s->paths + (size_t)((tile * blocks_per_tile(s) + block) * KINDS + kind) * path_doubles(s);
        if (!(r[i] > 0) || (kind != ANY && !(r[i] > path[2 * dim]))) continue;
        for (size_t j = 0; j < dim; j++) {
            path[j] = at->x[j * ld + (size_t)i];
            path[dim + j] = to->x[j * ld + (size_t)i];
        }
        path[2 * dim] = r[i];
    }
}

/* ---------------------------------------------------------------------------- halving */

typedef struct {
    double *x, *g, U;
} point;

typedef struct {
    point a, b;   /* the ends; their x lie behind each other, and their g */
    double start; /* U of the particle */
    double half;  /* the lower U of the ends behind half of the halvings */
    double r;
    int jump, is_new;
} path;

typedef struct {
    sosmc_solver *s;
    sosmc_host *host;
    size_t dim;
    path *list;
    int n;
    double *x, *g, *U; /* rows that are evaluated together */
} finder;

/* U and g of the first n rows of f->x, in full batches. */
static sosmc_status evaluate(finder *f, int n)
{
    size_t dim = f->dim;
    int rest = n % LARGE, full = n - rest + (rest == 0 ? 0 : rest <= SMALL ? SMALL : LARGE);
    for (int i = n; i < full; i++) memcpy(f->x + (size_t)i * dim, f->x, dim * sizeof(double));
    f->s->v.evaluations += full;
    sosmc_status status = sosmc_host_gradients(f->host, full, f->x, f->U, f->g);
    for (int i = 0; i < n; i++) {
        f->s->v.wall_minus |= f->U[i] == -INFINITY;
        if (isfinite(f->U[i]) && sosmc_i_all_finite(dim, f->g + (size_t)i * dim)) continue;
        f->U[i] = INFINITY;
        memset(f->g + (size_t)i * dim, 0, dim * sizeof(double));
    }
    return status;
}

static double remainder_of(size_t dim, const point *a, const point *b)
{
    double r = b->U - a->U;
    for (size_t j = 0; j < dim; j++) r -= 0.5 * (a->g[j] + b->g[j]) * (b->x[j] - a->x[j]);
    return isfinite(r) ? r : a->U < INFINITY || b->U < INFINITY ? INFINITY : 0;
}

/* Whether a path is followed behind so many halvings; sets v->jump. */
static int goes_on(const sosmc_solver *s, path *v, int halvings)
{
    int high = !(fabs(v->r) < HIGH);
    double a = 0, b = 0, low = fmin(v->a.U, v->b.U), size = high ? 0 : fmax(fabs(v->a.U), fabs(v->b.U));
    if (!(fabs(v->r) > LITTLE + noise_of(s) * size) || !(low - v->start < MASS)) return 0;
    if (halvings == HALVINGS / 2) v->half = low;
    for (int j = 0; j < s->dim; j++) {
        a += v->a.g[j] * (v->b.x[j] - v->a.x[j]);
        b += v->b.g[j] * (v->b.x[j] - v->a.x[j]);
    }
    v->jump = halvings >= HALVINGS && (high || fmax(fabs(a), fabs(b)) < FLAT);
    return v->jump || halvings < MOST_HALVINGS;
}

/* Halves all paths; the list is then that of jumps. */
static sosmc_status halve(finder *f)
{
    size_t dim = f->dim;
    for (int k = 0;; k++) {
        int kept = 0, rows = 0;
        for (int i = 0; i < f->n; i++) {
            path v = f->list[i];
            if (!v.jump && !goes_on(f->s, &v, k)) continue;
            f->list[kept++] = v;
            for (size_t j = 0; !v.jump && j < dim; j++) f->x[(size_t)rows * dim + j] = 0.5 * (v.a.x[j] + v.b.x[j]);
            rows += !v.jump;
        }
        f->n = kept;
        if (rows == 0) return SOSMC_OK;
        sosmc_status status = evaluate(f, rows);
        if (status != SOSMC_OK) return status;
        for (int i = f->n - 1; i >= 0; i--) {
            path *v = &f->list[i];
            if (v->jump) continue;
            rows--;
            const point m = {f->x + (size_t)rows * dim, f->g + (size_t)rows * dim, f->U[rows]};
            double first = remainder_of(dim, &v->a, &m), second = remainder_of(dim, &m, &v->b);
            int is_first = fabs(first) >= fabs(second);
            point *end = is_first ? &v->b : &v->a;
            memcpy(end->x, m.x, dim * sizeof(double));
            memcpy(end->g, m.g, dim * sizeof(double));
            end->U = m.U;
            v->r = is_first ? first : second;
        }
    }
}

/* ---------------------------------------------------------------------------- the coordinates of a jump */

/* Adds place `at` to the walls of coordinate j; returns whether that coordinate is new. */
static int add_wall(sosmc_solver *s, int j, double at)
{
    double *known = s->walled + j, *low = known + s->dim, *high = low + s->dim;
    int is_new = *known == 0;
    *low = is_new ? at : fmin(*low, at);
    *high = is_new ? at : fmax(*high, at);
    *known = 1;
    return is_new;
}

/* Row of f->x: the end a of a path, whose coordinates j to last (only: those without a wall) are moved along the path, far. */
static void place_row(const finder *f, const path *v, int row, int j, int last, int only)
{
    double *x = f->x + (size_t)row * f->dim, far = row % 2 ? -WIDER : WIDER;
    memcpy(x, v->a.x, f->dim * sizeof(double));
    for (; j <= last; j++)
        if (!only || f->s->walled[j] == 0) x[j] += far * (v->b.x[j] - v->a.x[j]);
}

/* Whether U at that row tells that the jump is between it and a. */
static int meets(const finder *f, const path *v, int row)
{
    double smooth = v->a.U;
    for (size_t j = 0; j < f->dim; j++) smooth += v->a.g[j] * (f->x[(size_t)row * f->dim + j] - v->a.x[j]);
    return !(fabs(f->U[row] - smooth) < 0.5 * fmin(fabs(v->r), HIGH));
}

/* Which of the jumps are across coordinates that are not known: moving all of these meets them. */
static sosmc_status find_new(finder *f)
{
    for (int row = 0; row < 2 * f->n; row++) place_row(f, &f->list[row / 2], row, 0, f->s->dim - 1, 1);
    sosmc_status status = evaluate(f, 2 * f->n);
    for (int i = 0; i < f->n; i++) f->list[i].is_new = meets(f, &f->list[i], 2 * i) || meets(f, &f->list[i], 2 * i + 1);
    return status;
}

/* Marks the coordinates that a jump is across: each of them alone meets it, moved either way. Where none does, all are marked. */
static sosmc_status mark_coordinates(finder *f, const path *v, int *found)
{
    sosmc_solver *s = f->s;
    int across = 0, count;
    for (int first = 0; first < s->dim && s->dim <= SHIFTED && s->v.walls < FINDINGS; first += count) {
        count = s->dim - first < LARGE / 2 ? s->dim - first : LARGE / 2;
        for (int row = 0; row < 2 * count; row++) place_row(f, v, row, first + row / 2, first + row / 2, 0);
        sosmc_status status = evaluate(f, 2 * count);
        if (status != SOSMC_OK) return status;
        for (int row = 0; row < 2 * count; row++) {
            int j = first + row / 2;
            if (!meets(f, v, row)) continue;
            *found |= add_wall(s, j, v->b.x[j]);
            if (across++ == 0) s->v.wall_where = j;
        }
    }
    for (int j = 0; j < s->dim && !across; j++) *found |= add_wall(s, j, v->b.x[j]);
    memcpy(f->x, v->b.x, f->dim * sizeof(double));
    sosmc_i_to_x(&s->problem.model, 1, f->x);
    s->v.wall_place = f->x[s->v.wall_where];
    s->v.wall_jump = fmin(fabs(v->r), 1e300);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- jumps that change with theta */

/* Finds a parameter with which some of the jumps change: theta_j becomes theta_j + NUDGE units, and both ends stay. */
static sosmc_status find_changing(finder *f)
{
    sosmc_solver *s = f->s;
    int n = f->n < EXAMINED ? f->n : EXAMINED;
    for (int j = 0; j < s->p && s->v.wall_moves == 0; j++) {
        memcpy(s->try_theta, s->theta, (size_t)s->p * sizeof(double));
        double e = NUDGE * s->unit[j];
        s->try_theta[j] += s->o.low < s->o.high && s->theta[j] + e > s->o.high ? -e : e;
        for (int i = 0; i < n; i++)
            memcpy(f->x + (size_t)(2 * i) * f->dim, f->list[i].a.x, 2 * f->dim * sizeof(double));
        sosmc_status status = sosmc_host_move(f->host, s->try_theta);
        if (status == SOSMC_OK) status = evaluate(f, 2 * n);
        if (status != SOSMC_OK) return status;
        for (int i = 0; i < n; i++) {
            const path *v = &f->list[i];
            double now = f->U[2 * i + 1] - f->U[2 * i], was = v->b.U - v->a.U;
            int stays = fabs(v->r) < HIGH ? fabs(now - was) < SAME + noise_of(s) * (fabs(v->a.U) + fabs(v->b.U))
                                          : fabs(now) > 0.5 * HIGH;
            if (!stays) s->v.wall_moves = j + 1;
        }
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- all of it */

/* The stored paths into the list, with what U is at theta now. */
static sosmc_status load_paths(finder *f)
{
    sosmc_solver *s = f->s;
    size_t dim = f->dim, known = 0;
    double *rows = f->U + 2 * path_count(s) + LARGE;
    for (size_t k = 0; k < path_count(s); k++) {
        const double *from = s->paths + k * path_doubles(s);
        if (!(from[2 * dim] > LITTLE) || (k % KINDS == KNOWN && known++ >= EXAMINED)) continue;
        memcpy(f->x + (size_t)(2 * f->n) * dim, from, 2 * dim * sizeof(double));
        memcpy(rows, from, 2 * dim * sizeof(double));
        f->list[f->n++] = (path){.a = {rows, rows + 2 * dim, 0}, .b = {rows + dim, rows + 3 * dim, 0}};
        rows += 4 * dim;
    }
    sosmc_status status = evaluate(f, 2 * f->n);
    for (int i = 0; i < f->n && status == SOSMC_OK; i++) {
        path *v = &f->list[i];
        memcpy(v->a.g, f->g + (size_t)(2 * i) * dim, 2 * dim * sizeof(double));
        v->start = v->a.U = f->U[2 * i];
        v->b.U = f->U[2 * i + 1];
        v->r = v->start < INFINITY ? remainder_of(dim, &v->a, &v->b) : 0;
    }
    return status;
}

/* Of the jumps in the list: powers of the distance, new coordinates, changes with theta. */
static sosmc_status examine(finder *f, int *found)
{
    sosmc_solver *s = f->s;
    sosmc_status status = find_new(f);
    for (int i = 0, located = 0; i < f->n && status == SOSMC_OK; i++) {
        path *v = &f->list[i];
        double power = (v->half - fmin(v->a.U, v->b.U)) / (0.6931 * HALVINGS / 2);
        if (!(fabs(v->r) < HIGH) && fabs(power) > fabs(s->v.wall_power)) s->v.wall_power = power;
        if (v->is_new && located++ < LOCATED) status = mark_coordinates(f, v, found);
    }
    s->v.walls += *found;
    return f->n > 0 && status == SOSMC_OK && s->v.wall_moves == 0 ? find_changing(f) : status;
}

sosmc_status sosmc_i_walls_find(sosmc_solver *s, int *found)
{
    size_t dim = (size_t)s->dim, most = path_count(s), rows = 2 * most + LARGE;
    finder f = {.s = s, .dim = dim, .list = malloc(most * sizeof *f.list)};
    double *memory = malloc((rows * (2 * dim + 1) + most * 4 * dim) * sizeof *memory);
    sosmc_status status = f.list && memory ? SOSMC_OK : SOSMC_ENOMEM;
    *found = 0;
    s->v.wall_power = 0; /* of the last time, where theta is */
    if (status == SOSMC_OK) status = sosmc_host_create(&f.host, &s->problem.model, s->theta, LARGE);
    if (status == SOSMC_OK) {
        f.x = memory;
        f.g = f.x + rows * dim;
        f.U = f.g + rows * dim;
        status = load_paths(&f);
    }
    if (status == SOSMC_OK) status = halve(&f);
    if (status == SOSMC_OK) status = examine(&f, found);
    sosmc_host_free(f.host);
    free(f.list);
    free(memory);
    memset(s->paths, 0, sosmc_i_paths_doubles(s) * sizeof(double));
    return status;
}

/* ---------------------------------------------------------------------------- the same particle in another batch */

/* Evaluates n particles in batches of `tile`, with room for 2 dim + 1 numbers of each, and p. */
static sosmc_status compare(sosmc_solver *s, const cloud *c, int n, const int *chosen, int tile, double *room)
{
    size_t dim = (size_t)s->dim, p = (size_t)s->p, ld = (size_t)s->at.ld, many = (size_t)n;
    double noise = fmax(noise_of(s), 1e-9), *x = room, *g = x + many * dim, *U = g + many * dim, *sums = U + many;
    double coefficient[LARGE], was[LARGE];
    sosmc_host *host;
    memset(sums, 0, p * sizeof *sums);
    for (size_t k = 0; k < many; k++) {
        for (size_t j = 0; j < dim; j++) x[k * dim + j] = c->x[particle_at(s, chosen[k]) + j * ld];
        coefficient[k] = 1.0 / (double)(1 + k);
    }
    sosmc_status status = sosmc_host_create(&host, &s->problem.model, s->theta, tile);
    if (status == SOSMC_OK) status = sosmc_host_gradients(host, n, x, U, g);
    if (status == SOSMC_OK) status = sosmc_host_contract(host, n, x, coefficient, sums);
    sosmc_host_free(host);
    if (status != SOSMC_OK) return status;
    s->v.evaluations += n;
    s->v.contractions += n;
    for (size_t j = 0; j <= dim; j++) { /* the last column is U */
        double square = 0, most = 0;
        for (size_t k = 0; k < many; k++) {
            was[k] = j < dim ? c->g[particle_at(s, chosen[k]) + j * ld] : c->U[chosen[k]];
            square += was[k] * was[k] / n;
            most = fmax(most, fabs(was[k]));
        }
        double allowed = SAME * (j < dim ? sqrt(square) : 1) + noise * most + 1e-300;
        for (size_t k = 0; k < many; k++)
            if (!(fabs((j < dim ? g[k * dim + j] : U[k]) - was[k]) <= allowed)) s->v.batch = BATCH_ENERGY;
    }
    for (size_t j = 0; j < p; j++) { /* the sum in these batches against the scores in those of the solver */
        double mean = 0, square = 0, sum = 0;
        for (size_t k = 0; k < many; k++) {
            double D = s->D[(size_t)chosen[k] * p + j];
            mean += D / n;
            square += D * D / n;
            sum += coefficient[k] * D;
        }
        double sd = sqrt(fmax(square - mean * mean, 0)), allowed = SAME * sd + noise * sqrt(square);
        if (fabs(sums[j] - sum) > 4 * allowed + 1e-300 && s->v.batch == 0) s->v.batch = BATCH_SCORES;
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_batches_compare(sosmc_solver *s, const cloud *c)
{
    int chosen[LARGE], n = 0;
    double *room = malloc((LARGE * (2 * (size_t)s->dim + 1) + (size_t)s->p) * sizeof *room);
    if (!room) return SOSMC_ENOMEM;
    for (int k = LARGE - 1; k >= 0; k--) { /* from all over, in descending order */
        int i = (int)((int64_t)k * (s->n - 1) / (LARGE - 1));
        while (i < s->n && !(c->w[i] > 0 && isfinite(c->U[i]))) i++;
        if (i < s->n) chosen[n++] = i;
    }
    sosmc_status status = n > 0 ? compare(s, c, n, chosen, LARGE, room) : SOSMC_OK;
    if (status == SOSMC_OK && n > 0) status = compare(s, c, n, chosen, SMALL, room);
    free(room);
    return status;
}
