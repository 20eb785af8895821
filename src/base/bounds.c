/* bounds.c: coordinates with bounds (maths.md BOUNDS),
 *
 *     low < x           x = low + e^z                          log |dx/dz| = z
 *     x < high          x = high - e^z                         log |dx/dz| = z
 *     low < x < high    x = low + (high - low) / (1 + e^-z)    log |dx/dz| = log(high - low) - |z| - 2 log(1 + e^-|z|)
 *
 *     U_z(z) = U(x) - sum_j log |dx_j/dz_j|,      dU_z/dz_j = dU/dx_j dx_j/dz_j - d log |dx_j/dz_j| / dz_j
 *
 * and dU/dx by central differences of U. The moves test every proposal, and the weights are of U alone, so an error of such a slope
 * costs acceptance and not rightness. A replaced model keeps in front of the user's scratch:
 *
 *     work   | x: dim rows of ld | three rows of ld | the user's work |        each rounded up to whole lanes
 *
 * Invariants: x is strictly inside of the bounds whenever z is a number, and the bits of x depend on z alone. */
#include "bounds.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "table.h"
#include "tiles.h"

enum { BLOCK = 64, ROWS = 3 };
static const double LARGEST_Z = 709; /* e^z is a number up to here */

/* ---------------------------------------------------------------------------- one coordinate */

typedef struct {
    double low, high;   /* infinite: none */
    double first, last; /* the numbers that x may be: a few roundings inside, so that differences have room */
} range;

static double gap_at(double bound) { return 4 * fmax(fabs(bound) * DBL_EPSILON, DBL_MIN); }

static range range_of(const sosmc_model *m, int j)
{
    range r = {.low = m->x_low ? m->x_low[j] : -INFINITY, .high = m->x_high ? m->x_high[j] : INFINITY};
    r.first = r.low == -INFINITY ? -DBL_MAX : r.low + gap_at(r.low);
    r.last = r.high == INFINITY ? DBL_MAX : r.high - gap_at(r.high);
    return r;
}

static int is_free(range r) { return r.low == -INFINITY && r.high == INFINITY; }
static int has_both(range r) { return r.low > -INFINITY && r.high < INFINITY; }
static double held(range r, double x) { return x < r.first ? r.first : x > r.last ? r.last : x; }

/* What n numbers z, at most BLOCK, become. */
typedef struct {
    double x[BLOCK], slope[BLOCK], volume[BLOCK], bend[BLOCK]; /* dx/dz; log |dx/dz| and its derivative */
} image;

static void transform(range r, const sosmc_simd *simd, int n, const double *z, image *to)
{
    double e[BLOCK] = {0}, sum[BLOCK], width = r.high - r.low, log_width = sosmc_i_log1(simd, width);
    int both = has_both(r), rising = r.low > -INFINITY;
    for (int i = 0; i < n; i++) e[i] = both ? -fabs(z[i]) : fmin(z[i], LARGEST_Z);
    sosmc_exp(simd, n, e, e);
    for (int i = 0; i < n; i++) sum[i] = 1 + e[i];
    if (both) sosmc_log(simd, n, sum, to->volume);
    for (int i = 0; i < n; i++) {
        double near = e[i] / sum[i], gap = both ? width * near : e[i]; /* from the nearer bound */
        to->x[i] = held(r, (both ? z[i] <= 0 : rising) ? r.low + gap : r.high - gap);
        to->slope[i] = both ? gap / sum[i] : rising ? e[i] : -e[i];
        to->bend[i] = !both ? 1 : z[i] > 0 ? 2 * near - 1 : 1 - 2 * near;
        if (both)
            to->volume[i] = log_width - fabs(z[i]) - 2 * to->volume[i];
        else
            to->volume[i] = z[i] > LARGEST_Z ? -INFINITY : z[i]; /* no number x: no density */
    }
}

/* ---------------------------------------------------------------------------- batches */

/* Of a batch z: x, laid out like it; log |dx/dz| times `sign` is added to `sum`; slopes of x become those of z. NULL: not wanted. */
static void change(const sosmc_model *m, const sosmc_batch *b, double *x, double sign, double *sum, double *g)
{
    image to;
    for (int j = 0; j < b->dim; j++) {
        range r = range_of(m, j);
        size_t row = (size_t)j * (size_t)b->ld;
        if (is_free(r) && x && x != b->x) memcpy(x + row, b->x + row, (size_t)b->n * sizeof *x);
        for (int i = 0, n; i < b->n && !is_free(r); i += n) {
            n = b->n - i < BLOCK ? b->n - i : BLOCK;
            transform(r, b->simd, n, b->x + row + i, &to);
            if (x) memcpy(x + row + i, to.x, (size_t)n * sizeof *x);
            for (int k = 0; sum && k < n; k++) sum[i + k] += sign * to.volume[k];
            for (int k = 0; g && k < n; k++) g[row + (size_t)(i + k)] *= to.slope[k];
            for (int k = 0; g && k < n; k++) g[row + (size_t)(i + k)] -= to.bend[k];
        }
    }
}

/* A batch x becomes z. Returns the first coordinate, counted from 1, of a point that is outside, or on a bound where `strict`, with
 * the particle; that point then stands for the nearest one inside. 0: there is none. */
static int invert(const sosmc_model *m, const sosmc_batch *b, double *x, int strict, int *particle)
{
    int found = 0;
    for (int j = 0; j < b->dim; j++) {
        range r = range_of(m, j);
        double *row = x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n && !is_free(r); i++) {
            double at = held(r, row[i]);
            int inside = strict ? row[i] > r.low && row[i] < r.high : row[i] >= r.low && row[i] <= r.high;
            if (!inside && !found) *particle = i, found = j + 1;
            row[i] = r.low > -INFINITY ? sosmc_i_log1(b->simd, at - r.low) : 0;
            if (r.high < INFINITY) row[i] = (has_both(r) ? row[i] : 0) - sosmc_i_log1(b->simd, r.high - at);
            if (r.low == -INFINITY) row[i] = -row[i];
        }
    }
    return found;
}

static size_t length_of(size_t doubles) { return sosmc_i_round_up(doubles, TILE_LANES); }

/* The batch as the user's functions see it; a fresh one still has its x. */
static sosmc_batch seen(const bounded *k, const sosmc_batch *b)
{
    sosmc_batch at = *b;
    double *x = b->work;
    if (!b->fresh) change(&k->model, b, x, 0, NULL, NULL);
    at.x = x;
    at.work = x + length_of((size_t)b->dim * (size_t)b->ld) + ROWS * length_of((size_t)b->ld);
    at.next_work = NULL;
    return at;
}

/* ---------------------------------------------------------------------------- the user's functions */

/* gx by differences: the step is the cube root of the rounding error, times the size of the coordinate. */
static int differences(const bounded *k, const double *theta, const sosmc_batch *at, double *U, double *gx)
{
    const sosmc_model *m = &k->model;
    size_t ld = (size_t)at->ld, n = (size_t)at->n;
    double *x = (double *)at->work - ROWS * length_of(ld) - length_of((size_t)at->dim * ld);
    double *from = (double *)at->work - ROWS * length_of(ld), *low = from + length_of(ld), *step = low + length_of(ld);
    double relative = m->rounding > 0 ? sosmc_i_exp1(NULL, sosmc_i_log1(NULL, m->rounding) / 3) : 6e-6;
    for (size_t j = 0; j < (size_t)at->dim; j++) {
        range r = range_of(m, (int)j);
        double *row = x + j * ld;
        memcpy(from, row, n * sizeof *row);
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < n; i++) {
                step[i] = relative * fmax(fabs(from[i]), 1e-3);
                step[i] = fmin(step[i], fmin(from[i] - r.low, r.high - from[i]) / 2);
                row[i] = side ? from[i] - step[i] : from[i] + step[i];
            }
            int rc = m->energy(m->self, theta, at, side ? low : U, NULL);
            if (rc) return rc;
        }
        for (size_t i = 0; i < n; i++) gx[j * ld + i] = (U[i] - low[i]) / ((from[i] + step[i]) - (from[i] - step[i]));
        memcpy(row, from, n * sizeof *row);
    }
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const bounded *k = self;
    const sosmc_model *m = &k->model;
    sosmc_batch at = seen(k, b);
    at.fresh = 0; /* gx does not hold what the user's function wrote */
    int rc = gx && m->no_gx ? differences(k, theta, &at, U, gx) : 0;
    if (rc == 0) rc = m->energy(m->self, theta, &at, U, m->no_gx ? NULL : gx);
    if (rc == 0) change(m, b, NULL, -1, U, gx);
    return rc;
}

static int prepare(const void *self, const double *theta, void *prep)
{
    const bounded *k = self;
    return k->model.prepare(k->model.self, theta, prep);
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const bounded *k = self;
    sosmc_batch at = seen(k, b);
    return k->model.grad_theta(k->model.self, theta, &at, c, g);
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const bounded *k = self;
    sosmc_batch at = seen(k, b);
    return k->model.scores(k->model.self, theta, &at, D);
}

/* Whoever asks for a reward or a density lends the model's scratch. */
static int reward(const void *self, const sosmc_batch *b, double *s)
{
    const bounded *k = self;
    sosmc_batch at = seen(k, b);
    return k->score.eval(k->score.self, &at, s);
}

static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const bounded *k = self;
    sosmc_batch at = seen(k, b);
    int rc = k->init.logpdf(k->init.self, &at, lq);
    if (rc == 0) change(&k->model, b, NULL, 1, lq, NULL);
    return rc;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const bounded *k = self;
    int particle, rc = k->init.draw(k->init.self, rng, b, x);
    return rc ? rc : invert(&k->model, b, x, 1, &particle);
}

/* ---------------------------------------------------------------------------- problems */

static const bounded *behind(const sosmc_model *m) { return m->energy == energy ? m->self : NULL; }
const sosmc_model *sosmc_i_original(const sosmc_model *m) { return behind(m) ? &behind(m)->model : m; }

int sosmc_i_first_bound(const sosmc_model *m)
{
    int j = 0;
    while (j < m->dim_x && is_free(range_of(m, j))) j++;
    return j < m->dim_x ? j : -1;
}

static const char *refused(const sosmc_problem *p, char *text, size_t room)
{
    const sosmc_model *m = &p->model;
    if (m->prox)
        return "the model has a proximal map (model.prox), which does not go with bounds (model.x_low, x_high)";
    if (p->objective.energy2 != 0 || p->objective.H)
        return "objective.energy2 and objective.H do not go with bounds of x (model.x_low, x_high)";
    for (int j = 0; j < m->dim_x; j++) {
        range r = range_of(m, j);
        if (r.low < r.high && r.first < r.last && !(has_both(r) && r.high - r.low == INFINITY)) continue;
        (void)snprintf(text, room,
                       "in coordinate %d model.x_low is %g and model.x_high is %g; the first has to be the smaller", j,
                       r.low, r.high);
        return text;
    }
    return NULL;
}

const char *sosmc_i_bound(bounded *k, sosmc_problem *p, int differences_too, char *text, size_t room)
{
    sosmc_model *m = &p->model;
    int bounds = sosmc_i_first_bound(m) >= 0;
    const char *why = bounds ? refused(p, text, room) : NULL;
    if (why || (!bounds && !(m->no_gx && differences_too))) return why;
    *k = (bounded){.model = *m, .score = p->objective.score, .init = p->init};
    m->self = k;
    m->x_low = m->x_high = NULL;
    m->no_gx = m->no_gx && !differences_too;
    m->work += ((size_t)m->dim_x + ROWS + (1 + ROWS) * TILE_LANES) * sizeof(double);
    m->energy = energy;
    if (m->prepare) m->prepare = prepare;
    if (m->grad_theta) m->grad_theta = grad_theta;
    if (m->scores) m->scores = scores;
    if (p->objective.score.eval) p->objective.score = (sosmc_score){.self = k, .eval = reward};
    if (p->init.draw)
        p->init = (sosmc_source){
            .self = k, .draw = draw, .logpdf = p->init.logpdf ? logpdf : NULL, .exact = p->init.exact};
    else if (bounds)
        p->init = sosmc_standard_normal();
    return NULL;
}

const char *sosmc_i_points_outside(const sosmc_problem *p, uint64_t seed, int64_t particles, char *text, size_t room)
{
    enum { DRAWS = 4096 };
    const bounded *k = behind(&p->model);
    const sosmc_source *of[] = {k ? &k->init : NULL, &p->objective.data};
    double *x = k ? aligned_alloc(64, (size_t)k->model.dim_x * 2 * BLOCK * sizeof *x) : NULL, *z;
    const char *why = NULL;
    for (int data = 0; x && data < 2 && !why; data++) {
        int rows = of[data]->row && of[data]->rows > 0, i = 0;
        int64_t n = rows ? of[data]->rows : particles > DRAWS ? particles : DRAWS;
        sosmc_batch b = {.x = x, .simd = sosmc_simd_best(), .dim = k->model.dim_x, .n = BLOCK, .ld = BLOCK};
        sosmc_rng rng = {.seed = seed, .stream = data ? SOSMC_STREAM_DATA : SOSMC_STREAM_INIT};
        size_t all = (size_t)b.dim * BLOCK;
        for (z = x + all; b.first < n && (rows || of[data]->draw) && !why; b.first += BLOCK) {
            if (n - b.first < BLOCK) b.n = (int)(n - b.first);
            /* a source that fails says so elsewhere */
            if (rows ? of[data]->row(of[data]->self, &b, x) : of[data]->draw(of[data]->self, rng, &b, x)) break;
            memcpy(z, x, all * sizeof *x);
            int j = invert(&k->model, &b, z, !data, &i) - 1;
            if (j < 0) continue;
            range r = range_of(&k->model, j);
            (void)snprintf(text, room, "%s %lld has %g in coordinate %d, where the model's bounds are %g and %g%s",
                           data ? "objective.data: row" : "init: particle", (long long)b.first + i, x[j * BLOCK + i], j,
                           r.low, r.high,
                           data ? "" : "; start inside of model.x_low and x_high, or leave the start out");
            why = text;
        }
    }
    free(x);
    return why;
}

int64_t sosmc_i_bounds_hash(const sosmc_model *m)
{
    uint64_t hash = 0;
    const double *of[] = {sosmc_i_original(m)->x_low, sosmc_i_original(m)->x_high};
    for (int k = 0; k < 2; k++)
        if (of[k]) hash = sosmc_i_mix(hash + (uint64_t)k + 1, of[k], (size_t)m->dim_x * sizeof(double));
    return (int64_t)(hash >> 1);
}

/* ---------------------------------------------------------------------------- points */

void sosmc_i_to_x(const sosmc_model *m, int64_t n, double *rows)
{
    sosmc_batch b = {.x = rows, .dim = m->dim_x, .n = 1, .ld = 1}; /* a point is a batch of its own */
    for (int64_t i = 0; i < n && behind(m); i++, b.x += b.dim)
        change(&behind(m)->model, &b, rows + i * b.dim, 0, NULL, NULL);
}

void sosmc_i_to_z(const sosmc_model *m, const sosmc_batch *b, double *x)
{
    int particle;
    if (behind(m)) (void)invert(&behind(m)->model, b, x, 0, &particle);
}

void sosmc_i_bound_energies(const sosmc_model *m, const sosmc_batch *b, double *U)
{
    for (int j = 0; j < b->dim && (m->x_low || m->x_high); j++) {
        range r = range_of(m, j);
        const double *row = b->x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++)
            if (row[i] < r.low || row[i] > r.high) U[i] = INFINITY;
    }
}
