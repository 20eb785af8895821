/* tv_prox.c: proximal maps of the total variation of an image, stopped by the duality gap.
 *
 *     u* = argmin_v 1/2 |v - z|^2 + w TV(v),   u = z - D' q with |q| <= w per edge (per pixel when isotropic)
 *     gap(q) = sum (w |D u| - q . D u) >= |u - u*|^2
 *
 * (The gap bounds the primal and the dual excess together, and each of them is at least |u - u*|^2 / 2.)
 *
 * Anisotropic, few merging neighbours: q = w sign(D z) is right on every edge along which u keeps the sign of z, and
 * the gap lives on the other edges alone. Those are relaxed one at a time (exact maximisation of the dual over one q);
 * an edge enters the list when a neighbour's relaxation upsets it. Invariant: an edge outside the list has q = w sign(D
 * z) and contributes nothing to the gap, so the sum over the list is the gap.
 *
 * Anisotropic, many: z = u + a + b with a from vertical edges, b from horizontal ones; a is eliminated exactly, column
 * by column, and b takes accelerated gradient steps that are exact solves row by row (A. Chambolle, T. Pock, SMAI J.
 * Comput. Math. 1, 2015). Every pass ends with a feasible a + b, so its gap is w TV(u) - (z - u) . u.
 *
 * Isotropic: accelerated projected gradient on the dual (A. Beck, M. Teboulle, IEEE Trans. Image Process. 18, 2009).
 * Both accelerations start again when the dual objective -|u|^2 / 2 falls. */
#include <float.h>
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

#include "base/arithmetic.h"
#include "imaging.h"
#include "base/table.h"
#include "tv_line.h"

enum { MOST_PASSES = 10000, UPDATES_PER_PIXEL = 4 };

extern const imaging_code sosmc_i_imaging_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const imaging_code sosmc_i_imaging_avx2, sosmc_i_imaging_avx512;
#endif

const imaging_code *sosmc_i_imaging(const sosmc_simd *simd) { return SIMD_CHOOSE(simd, sosmc_i_imaging); }

/* One call: what was asked, and what has been reached. */
typedef struct {
    const imaging_code *code;
    int rows, columns, most;
    size_t pixels;
    double w, tolerance;
    const double *z;
    double *u, *scratch;
    sosmc_tv_result result;
} proximal;

/* |u*| >= |u| - |u - u*|, so this much of a gap proves the tolerance. */
static double gap_wanted(const proximal *p, double square, double gap)
{
    double least = sqrt(square) - sqrt(gap);
    return least > 0 ? p->tolerance * p->tolerance * least * least : 0;
}

static int settled(proximal *p, double square, double gap)
{
    p->result.gap = gap;
    p->result.certified = gap <= gap_wanted(p, square, gap);
    return p->result.certified || p->result.passes >= p->most;
}

/* ------------------------------------------------------------------------------------------------ a few edges */

typedef struct {
    double q;
    int32_t edge;
} live_edge;

typedef enum { EDGE_ASLEEP = 0, EDGE_LISTED = 1, EDGE_ABSENT = 2 } edge_state;

/* state has one byte per edge and a margin of absent edges for the row above the image. */
typedef struct {
    int columns, count, room;
    double w;
    const double *z;
    double *u;
    unsigned char *state;
    live_edge *live;
} edge_list;

static inline int far_end(const edge_list *l, int edge) { return edge / 2 + (edge & 1 ? l->columns : 1); }

static inline double difference(const edge_list *l, const double *x, int edge)
{
    return x[far_end(l, edge)] - x[edge / 2];
}

static inline double share(const edge_list *l, double q, int edge)
{
    double slope = difference(l, l->u, edge);
    return l->w * fabs(slope) - q * slope;
}

/* Takes an edge into the list if it contributes to the gap. */
static inline void consider(edge_list *l, int edge)
{
    if (l->state[edge] != EDGE_ASLEEP) return;
    double was = difference(l, l->z, edge), q = was > 0 ? l->w : was < 0 ? -l->w : 0;
    if (share(l, q, edge) == 0) return;
    if (l->count < l->room) {
        l->state[edge] = EDGE_LISTED;
        l->live[l->count] = (live_edge){q, (int32_t)edge};
    }
    l->count++;
}

static inline void consider_around(edge_list *l, int pixel)
{
    consider(l, 2 * pixel);
    consider(l, 2 * pixel - 2);
    consider(l, 2 * pixel + 1);
    consider(l, 2 * (pixel - l->columns) + 1);
}

static inline void relax(edge_list *l, live_edge *e)
{
    int from = e->edge / 2, to = far_end(l, e->edge);
    double q = e->q + 0.5 * (l->u[to] - l->u[from]);
    q = q > l->w ? l->w : q < -l->w ? -l->w : q;
    double change = q - e->q;
    if (change == 0) return;
    e->q = q;
    l->u[from] += change;
    l->u[to] -= change;
    consider_around(l, from);
    consider_around(l, to);
}

static double gap_of(const edge_list *l)
{
    double gap = 0;
    for (int k = 0; k < l->count; k++) gap += share(l, l->live[k].q, l->live[k].edge);
    return gap;
}

/* The list begins with those of the suspects that count. Suspects and states share the scratch with the list. */
static edge_list edges_of(const proximal *p, const int32_t *suspect, int suspects, double *scratch)
{
    size_t margin = 2 * (size_t)p->columns + 2, edges = 2 * p->pixels;
    unsigned char *bytes = (unsigned char *)(void *)(scratch + p->pixels);
    edge_list l = {.columns = p->columns,
                   .room = (int)(p->pixels / 2),
                   .w = p->w,
                   .z = p->z,
                   .u = p->u,
                   .state = bytes + margin,
                   .live = (live_edge *)(void *)scratch};
    memset(bytes, EDGE_ABSENT, margin);
    memset(l.state, EDGE_ASLEEP, edges);
    for (int i = 0; i < p->rows; i++) l.state[2 * ((size_t)(i + 1) * (size_t)p->columns - 1)] = EDGE_ABSENT;
    for (size_t j = 0; j < (size_t)p->columns; j++) l.state[edges - 1 - 2 * j] = EDGE_ABSENT;
    for (int k = 0; k < suspects && l.count <= l.room; k++) consider(&l, suspect[k]);
    return l;
}

/* 0: u and its certificate are ready; otherwise there was more to do than this method is good for. */
static int relax_edges(proximal *p)
{
    int32_t *suspect = (int32_t *)(void *)p->scratch;
    double *rest = p->scratch + p->pixels, square;
    int suspects = p->code->closed_form(p->rows, p->columns, p->w, p->z, p->u, suspect, &square);
    p->result.passes = 1;
    if (!isfinite(square)) {
        p->result.gap = NAN;
        return 0;
    }
    if (suspects == 0) return !settled(p, square, 0);
    edge_list l = edges_of(p, suspect, suspects, rest);
    if (l.count > l.room) return -1;
    double gap = gap_of(&l), wanted = gap_wanted(p, square, gap);
    size_t updates = 0;
    while (gap > wanted) {
        updates += (size_t)l.count;
        if (updates > UPDATES_PER_PIXEL * p->pixels) return -1;
        for (int k = 0; k < l.count && l.count <= l.room; k++) relax(&l, &l.live[k]);
        if (l.count > l.room) return -1;
        gap = gap_of(&l);
    }
    p->result.gap = gap;
    p->result.certified = 1;
    return 0;
}

/* ------------------------------------------------------------------------------------------------ rows and columns */

typedef struct {
    double t; /* of the usual recursion t <- (1 + sqrt(1 + 4 t^2)) / 2 */
    double square;
} acceleration;

/* The factor of the next extrapolation; 0, a fresh start, when |u|^2 has grown. */
static double momentum_after(acceleration *a, double square)
{
    double t = square > a->square ? 1 : a->t, next = 0.5 * (1 + sqrt(1 + 4 * t * t));
    a->t = next;
    a->square = square;
    return (t - 1) / next;
}

static double square_of(size_t n, const double *x)
{
    double sum = 0;
    for (size_t e = 0; e < n; e++) sum += x[e] * x[e];
    return sum;
}

/* w TV(u) - (z - u) . u; the mean of z - u is zero, so u may be centred, which saves digits. Rounding is allowed for.
 * */
static double gap_between(const proximal *p, double mean)
{
    double cost = p->w * p->code->tv(0, p->rows, p->columns, p->u);
    double gap = cost - p->code->moved(p->pixels, mean, p->z, p->u);
    return (gap > 0 ? gap : 0) + 4 * DBL_EPSILON * cost;
}

static void alternate(proximal *p)
{
    size_t d = p->pixels;
    double *b = p->scratch, *y = b + d, *rest = y + d, *line = rest + d, mean = 0;
    acceleration a = {.t = 1, .square = INFINITY};
    for (size_t e = 0; e < d; e++) mean += p->z[e];
    mean /= (double)d;
    memset(b, 0, 2 * d * sizeof *b);
    for (;;) {
        for (size_t e = 0; e < d; e++) rest[e] = p->z[e] - y[e];
        sosmc_i_tv_columns(p->rows, p->columns, p->w, rest, p->u, line);
        for (size_t e = 0; e < d; e++) rest[e] = y[e] + p->u[e]; /* z - a(y) */
        sosmc_i_tv_rows(p->rows, p->columns, p->w, rest, p->u, line);
        double square = square_of(d, p->u);
        p->result.passes++;
        if (settled(p, square, gap_between(p, mean))) return;
        double momentum = momentum_after(&a, square);
        for (size_t e = 0; e < d; e++) {
            double next = rest[e] - p->u[e];
            y[e] = next + momentum * (next - b[e]);
            b[e] = next;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ isotropic */

/* What leaves the image must stay zero; everything else must lie in its disc. */
static void admit(const proximal *p, double *q)
{
    size_t d = p->pixels, n = (size_t)p->columns;
    for (size_t i = 0; i < (size_t)p->rows; i++) q[i * n + n - 1] = 0;
    for (size_t j = 0; j < n; j++) q[2 * d - 1 - j] = 0;
    for (size_t e = 0; e < d; e++) {
        double length = sqrt(q[e] * q[e] + q[d + e] * q[d + e]), shrink = length > p->w ? p->w / length : 1;
        q[e] *= shrink;
        q[d + e] *= shrink;
    }
}

/* The first step may be long: for small w all that matters is the direction of D z. */
static void descend_dual(proximal *p, double *dual)
{
    const double step = 1.0 / 8, first = 1e3; /* 8 bounds the square of the norm of D */
    size_t d = p->pixels;
    double *q = p->scratch, *r = q + 2 * d, *lines = r + 2 * d, square, gap, momentum = 0;
    int known = 0, look = 1;
    acceleration a = {.t = 1, .square = INFINITY};
    if (dual) {
        memcpy(q, dual, 2 * d * sizeof *q);
        admit(p, q);
        for (size_t e = 0; e < 2 * d && !known; e++) known = q[e] != 0;
    } else {
        memset(q, 0, 2 * d * sizeof *q);
    }
    memcpy(r, q, 2 * d * sizeof *q);
    for (;;) {
        p->code->dual_step(p->rows, p->columns, p->w, known ? step : first, momentum, p->z, q, r, lines);
        known = 1;
        p->result.passes++;
        if (p->result.passes < look && p->result.passes < p->most) {
            momentum = momentum_after(&a, a.square);
            continue;
        }
        gap = p->code->dual_gap(p->rows, p->columns, p->w, p->z, q, p->u, &square);
        if (!isfinite(square)) gap = p->result.gap = NAN;
        if (isnan(gap) || settled(p, square, gap > 0 ? gap : 0)) break;
        if (square > a.square) memcpy(r, q, 2 * d * sizeof *q);
        momentum = momentum_after(&a, square);
        look = p->result.passes < 8 ? p->result.passes + 1 : p->result.passes + p->result.passes / 4;
    }
    if (dual) memcpy(dual, q, 2 * d * sizeof *q);
}

/* ------------------------------------------------------------------------------------------------ */

/* u = mean z. This is the result for constant images, and for weights so large that rounding errors would exceed the
 * differences of the pixels. */
static void level(proximal *p)
{
    double off = 0, first = p->z[0];
    for (size_t e = 0; e < p->pixels; e++) off += p->z[e] - first;
    for (size_t e = 0; e < p->pixels; e++) p->u[e] = first + off / (double)p->pixels;
    p->result.gap = isfinite(off) ? 0 : NAN;
    p->result.passes = p->result.certified = 1;
}

/* Doubles: the isotropic method needs 4 d + 2 columns, the alternating one 3 d and a line, the list of edges
 * d (suspects), d (list) and 2 (d + columns + 1) bytes. */
size_t sosmc_tv_prox_scratch(int rows, int columns)
{
    size_t longer = (size_t)(rows > columns ? rows : columns);
    return 4 * (size_t)rows * (size_t)columns + 2 * longer + 8 + sosmc_tv_line_scratch((int)longer);
}

/* One line: both kinds are the same, and its map is exact. A number that is not finite might not reach the result. */
static void solve_line(proximal *p)
{
    sosmc_tv_line((int)p->pixels, p->w, p->z, p->u, p->scratch);
    p->result = (sosmc_tv_result){
        .passes = 1, .certified = 1, .gap = isfinite(square_of(p->pixels, p->z)) ? 0 : INFINITY};
}

static int sensible(const sosmc_tv_settings *s, double w)
{
    if (s->rows < 1 || s->columns < 1 || s->columns > SOSMC_IMAGE_PIXELS / s->rows) return 0;
    if (s->kind != SOSMC_TV_ISOTROPIC && s->kind != SOSMC_TV_ANISOTROPIC) return 0;
    return s->tolerance >= 1e-9 && isfinite(s->tolerance) && s->passes >= 0 && w >= 0 && isfinite(w);
}

sosmc_status sosmc_tv_prox(const sosmc_tv_settings *s, double w, const double *z, double *u, double *scratch,
                           sosmc_tv_result *result)
{
    STANDARD_ARITHMETIC;
    if (!sensible(s, w)) return SOSMC_EINVAL;
    proximal p = {.code = sosmc_i_imaging(NULL),
                  .rows = s->rows,
                  .columns = s->columns,
                  .most = s->passes ? s->passes : MOST_PASSES,
                  .pixels = (size_t)s->rows * (size_t)s->columns,
                  .w = w,
                  .tolerance = s->tolerance,
                  .z = z,
                  .u = u,
                  .scratch = scratch};
    double range = p.code->range(p.pixels, z);
    if (w >= (double)p.pixels * range) { /* more than any flux through the image needs: nothing but the mean is left */
        level(&p);
    } else if (s->rows == 1 || s->columns == 1) {
        solve_line(&p);
    } else if (s->kind == SOSMC_TV_ISOTROPIC && w > 0) { /* without weight both maps are the identity */
        descend_dual(&p, s->dual);
    } else if (relax_edges(&p)) {
        alternate(&p);
    }
    p.result.bound = sqrt(p.result.gap);
    if (result) *result = p.result;
    return isfinite(p.result.gap) ? SOSMC_OK : SOSMC_ENUMERIC;
}
