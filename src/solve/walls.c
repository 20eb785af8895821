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

enum { BLOCK = 32, BLOCKS = 64, BLOCKS_LARGE_DIM = 4, HALVINGS = 20, MOST_HALVINGS = 48 };
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
static int every_tile(const sosmc_solver *s)
{
    int most = s->dim <= SHIFTED ? BLOCKS : BLOCKS_LARGE_DIM;
    return (s->tiles * blocks_per_tile(s) + most - 1) / most;
}
static size_t path_count(const sosmc_solver *s)
{
    int every = every_tile(s);
    return KINDS * (size_t)((s->tiles + every - 1) / every) * (size_t)blocks_per_tile(s);
}
size_t sosmc_i_paths_doubles(const sosmc_solver *s) { return path_count(s) * path_doubles(s); }

static int is_across(const sosmc_solver *s, size_t j, double a, double b)
{
    const double *low = s->walled + s->dim, *high = low + s->dim;
    return s->walled[j] != 0 && ((a - low[j]) * (b - low[j]) <= 0 || (a - high[j]) * (b - high[j]) <= 0);
}

static void store(const sosmc_solver *s, double *path, int ld, const tile_points *at, const tile_points *to, int i,
                  double r)
{
    size_t dim = (size_t)s->dim;
    if (!(r > path[2 * dim])) return;
    for (size_t j = 0; j < dim; j++) {
        path[j] = at->x[j * (size_t)ld + (size_t)i];
        path[dim + j] = to->x[j * (size_t)ld + (size_t)i];
    }
    path[2 * dim] = r;
}

void sosmc_i_paths_store(const sosmc_solver *s, int tile, const sosmc_batch *b, const tile_points *at,
                         const tile_points *to, const double *w, uint64_t step, double *r)
{
    int every = every_tile(s), blocks = blocks_per_tile(s);
    size_t dim = (size_t)s->dim, ld = (size_t)b->ld;
    if (tile % every) return;
    memset(r, 0, (size_t)b->n * sizeof *r);
    for (size_t j = 0; j < dim; j++)
        for (size_t i = j * ld; i < j * ld + (size_t)b->n; i++)
            r[i - j * ld] += 0.5 * (at->gU[i] + to->gU[i]) * (to->x[i] - at->x[i]);
    for (int i = 0; i < b->n; i++) {
        double apart = to->U[i] < INFINITY ? fabs(to->U[i] - at->U[i] - r[i]) : INFINITY;
        r[i] = !(w[i] > 0) || !(at->U[i] < INFINITY) ? 0 : isnan(apart) ? INFINITY : apart;
    }
    for (int k = 0; k * BLOCK < b->n; k++) {
        int first = k * BLOCK, end = first + BLOCK < b->n ? first + BLOCK : b->n;
        int any = first + (int)((step + (uint64_t)tile) % (uint64_t)(end - first));
        double *path = s->paths + (size_t)(tile / every * blocks + k) * KINDS * path_doubles(s);
        for (int i = first; i < end; i++) {
            int known = 0;
            for (size_t j = 0; s->v.walls && r[i] > LITTLE && j < dim && !known; j++)
                known = is_across(s, j, at->x[j * ld + (size_t)i], to->x[j * ld + (size_t)i]);
            store(s, path + (known ? KNOWN : LARGEST) * path_doubles(s), b->ld, at, to, i, r[i]);
            if (i != any || known) continue;
            path[ANY * path_doubles(s) + 2 * dim] = 0; /* the last one is kept */
            store(s, path + ANY * path_doubles(s), b->ld, at, to, i, r[i]);
        }
    }
}

/* ---------------------------------------------------------------------------- halving */

typedef struct {
    double *x[2], *g[2], U[2]; /* both ends */
    double start;              /* U of the particle */
    double half;               /* the lower U of the ends behind half of the halvings */
    double r;
    int jump;
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
    int full = (int)sosmc_i_round_up((size_t)n, SMALL);
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

static double remainder_of(size_t dim, const double *a, const double *b, const double *ga, const double *gb, double Ua,
                           double Ub)
{
    double sum = 0;
    if (!(Ua < INFINITY) || !(Ub < INFINITY)) return Ua < INFINITY || Ub < INFINITY ? INFINITY : 0;
    for (size_t j = 0; j < dim; j++) sum += 0.5 * (ga[j] + gb[j]) * (b[j] - a[j]);
    return isfinite(Ub - Ua - sum) ? Ub - Ua - sum : INFINITY;
}

/* Whether a path is followed behind so many halvings; sets v->jump. */
static int goes_on(const sosmc_solver *s, path *v, int halvings)
{
    int high = !(fabs(v->r) < HIGH);
    double change[2] = {0, 0}, size = high ? 0 : fmax(fabs(v->U[0]), fabs(v->U[1]));
    if (!(fabs(v->r) > LITTLE + noise_of(s) * size) || !(fmin(v->U[0], v->U[1]) - v->start < MASS)) return 0;
    if (halvings == HALVINGS / 2) v->half = fmin(v->U[0], v->U[1]);
    for (int end = 0; end < 2; end++)
        for (int j = 0; j < s->dim; j++) change[end] += v->g[end][j] * (v->x[1][j] - v->x[0][j]);
    v->jump = halvings >= HALVINGS && (high || fmax(fabs(change[0]), fabs(change[1])) < FLAT);
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
            for (size_t j = 0; !v.jump && j < dim; j++) f->x[(size_t)rows * dim + j] = 0.5 * (v.x[0][j] + v.x[1][j]);
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
            const double *m = f->x + (size_t)rows * dim, *gm = f->g + (size_t)rows * dim;
            double first = remainder_of(dim, v->x[0], m, v->g[0], gm, v->U[0], f->U[rows]),
                   second = remainder_of(dim, m, v->x[1], gm, v->g[1], f->U[rows], v->U[1]);
            int end = fabs(first) >= fabs(second);
            memcpy(v->x[end], m, dim * sizeof(double));
            memcpy(v->g[end], gm, dim * sizeof(double));
            v->U[end] = f->U[rows];
            v->r = end ? first : second;
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

/* Marks the coordinates that a jump is across: each of them alone meets it, moved either way. Where none does, all are marked. */
static sosmc_status mark_coordinates(finder *f, const path *v, int *found)
{
    sosmc_solver *s = f->s;
    int across = 0, count;
    for (int first = 0; first < s->dim && s->v.walls < FINDINGS; first += count) {
        count = s->dim - first < LARGE / 2 ? s->dim - first : LARGE / 2;
        for (int row = 0; row < 2 * count; row++) {
            double *x = f->x + (size_t)row * f->dim,
                   wide = WIDER * (v->x[1][first + row / 2] - v->x[0][first + row / 2]);
            memcpy(x, v->x[0], f->dim * sizeof(double));
            x[first + row / 2] += row % 2 ? -wide : wide;
        }
        sosmc_status status = evaluate(f, 2 * count);
        if (status != SOSMC_OK) return status;
        for (int row = 0; row < 2 * count; row++) {
            int j = first + row / 2;
            double smooth = v->g[0][j] * (f->x[(size_t)row * f->dim + (size_t)j] - v->x[0][j]);
            if (fabs(f->U[row] - v->U[0] - smooth) < 0.5 * fmin(fabs(v->r), HIGH)) continue;
            *found |= add_wall(s, j, v->x[1][j]);
            if (across++ == 0) s->v.wall_where = j;
        }
    }
    for (int j = 0; j < s->dim && !across; j++) *found |= add_wall(s, j, v->x[1][j]);
    s->v.wall_place = v->x[1][s->v.wall_where];
    s->v.wall_jump = fmin(fabs(v->r), 1e300);
    return SOSMC_OK;
}

/* Whether the jump is at a place that is known. */
static int is_known(const sosmc_solver *s, const path *v)
{
    for (size_t j = 0; j < (size_t)s->dim; j++) {
        double wide = WIDER * fabs(v->x[1][j] - v->x[0][j]);
        if (is_across(s, j, v->x[0][j] - wide, v->x[0][j] + wide)) return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- jumps that change with theta */

/* Finds a parameter with which some of the jumps change: theta_j becomes theta_j + NUDGE units, and both ends stay. */
static sosmc_status find_changing(finder *f)
{
    sosmc_solver *s = f->s;
    int n = f->n < EXAMINED ? f->n : EXAMINED;
    for (int j = 0; j < s->p && s->v.wall_moves == 0; j++) {
        double e = NUDGE * (s->v.has_unit ? s->unit[j] : fmax(1, fabs(s->theta[j])));
        memcpy(s->try_theta, s->theta, (size_t)s->p * sizeof(double));
        s->try_theta[j] += s->o.low < s->o.high && s->theta[j] + e > s->o.high ? -e : e;
        for (int row = 0; row < 2 * n; row++)
            memcpy(f->x + (size_t)row * f->dim, f->list[row / 2].x[row % 2], f->dim * sizeof(double));
        sosmc_status status = sosmc_host_move(f->host, s->try_theta);
        if (status == SOSMC_OK) status = evaluate(f, 2 * n);
        if (status != SOSMC_OK) return status;
        for (int i = 0; i < n; i++) {
            const path *v = &f->list[i];
            double now = f->U[2 * i + 1] - f->U[2 * i], was = v->U[1] - v->U[0];
            int stays = fabs(v->r) < HIGH ? fabs(now - was) < SAME + noise_of(s) * (fabs(v->U[0]) + fabs(v->U[1]))
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
    double *rows = f->U + path_count(s) + LARGE;
    for (size_t k = 0; k < path_count(s); k++) {
        const double *from = s->paths + k * path_doubles(s);
        if (!(from[2 * dim] > LITTLE) || (k % KINDS == KNOWN && known++ >= EXAMINED)) continue;
        memcpy(rows, from, 2 * dim * sizeof(double));
        f->list[f->n++] = (path){.x = {rows, rows + dim}, .g = {rows + 2 * dim, rows + 3 * dim}};
        rows += 4 * dim;
    }
    for (int end = 0; end < 2; end++) {
        for (int i = 0; i < f->n; i++) memcpy(f->x + (size_t)i * dim, f->list[i].x[end], dim * sizeof(double));
        sosmc_status status = evaluate(f, f->n);
        if (status != SOSMC_OK) return status;
        for (int i = 0; i < f->n; i++) {
            memcpy(f->list[i].g[end], f->g + (size_t)i * dim, dim * sizeof(double));
            f->list[i].U[end] = f->U[i];
        }
    }
    for (int i = 0; i < f->n; i++) {
        path *v = &f->list[i];
        v->start = v->U[0];
        v->r = v->start < INFINITY ? remainder_of(dim, v->x[0], v->x[1], v->g[0], v->g[1], v->U[0], v->U[1]) : 0;
    }
    return SOSMC_OK;
}

/* Of the jumps in the list: powers of the distance, new coordinates, changes with theta. */
static sosmc_status examine(finder *f, int *found)
{
    sosmc_solver *s = f->s;
    sosmc_status status = SOSMC_OK;
    for (int i = 0, located = 0; i < f->n && status == SOSMC_OK; i++) {
        path *v = &f->list[i];
        double power = (v->half - fmin(v->U[0], v->U[1])) / (0.6931 * (HALVINGS - HALVINGS / 2));
        if (!(fabs(v->r) < HIGH) && fabs(power) > fabs(s->v.wall_power)) s->v.wall_power = power;
        if (!is_known(s, v) && located++ < LOCATED) status = mark_coordinates(f, v, found);
    }
    s->v.walls += *found;
    return f->n > 0 && status == SOSMC_OK && s->v.wall_moves == 0 ? find_changing(f) : status;
}

sosmc_status sosmc_i_walls_find(sosmc_solver *s, int *found)
{
    size_t dim = (size_t)s->dim, most = path_count(s), rows = most + LARGE;
    finder f = {.s = s, .dim = dim, .list = malloc(most * sizeof *f.list)};
    double *memory = malloc((rows * (2 * dim + 1) + most * 4 * dim) * sizeof *memory);
    sosmc_status status = f.list && memory ? SOSMC_OK : SOSMC_ENOMEM;
    *found = 0;
    s->v.wall_power = 0; /* of the last time, where theta is */
    if (status == SOSMC_OK) status = sosmc_host_create(&f.host, &s->problem.model, s->theta, SMALL);
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
    double coefficient[LARGE], size = 0;
    sosmc_host *host;
    memset(sums, 0, p * sizeof *sums);
    for (size_t k = 0; k < many; k++) {
        for (size_t j = 0; j < dim; j++) x[k * dim + j] = c->x[particle_at(s, chosen[k]) + j * ld];
        coefficient[k] = (k % 2 ? -1.0 : 1.0) / (double)(1 + k % (size_t)tile);
        size = fmax(size, fabs(c->U[chosen[k]]));
    }
    sosmc_status status = sosmc_host_create(&host, &s->problem.model, s->theta, tile);
    if (status == SOSMC_OK) status = sosmc_host_gradients(host, n, x, U, g);
    if (status == SOSMC_OK) status = sosmc_host_contract(host, n, x, coefficient, sums);
    sosmc_host_free(host);
    if (status != SOSMC_OK) return status;
    s->v.evaluations += n;
    s->v.contractions += n;
    for (size_t k = 0; k < many; k++)
        if (!(fabs(U[k] - c->U[chosen[k]]) <= SAME + noise * size)) s->v.batch = BATCH_ENERGY;
    for (size_t j = 0; j < dim; j++) {
        double square = 0;
        for (size_t k = 0; k < many; k++) square += g[k * dim + j] * g[k * dim + j] / n;
        for (size_t k = 0; k < many; k++) {
            double was = c->g[particle_at(s, chosen[k]) + j * ld],
                   allowed = (SAME + noise) * (sqrt(square) + fabs(was));
            if (!(fabs(g[k * dim + j] - was) <= allowed + 1e-300)) s->v.batch = BATCH_ENERGY;
        }
    }
    for (size_t j = 0; j < p; j++) { /* the sum in these batches against the scores in those of the solver */
        double mean = 0, square = 0, was = 0;
        for (size_t k = 0; k < many; k++) {
            double D = s->D[(size_t)chosen[k] * p + j];
            mean += D / n;
            square += D * D / n;
            was += coefficient[k] * D;
        }
        double sd = sqrt(fmax(square - mean * mean, 0)), allowed = SAME * sd + noise * sqrt(square);
        if (fabs(sums[j] - was) > 4 * allowed + 1e-300 && s->v.batch == 0) s->v.batch = BATCH_SCORES;
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
