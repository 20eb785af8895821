/* lattice.c: exact expectations of two-dimensional models by plain sums over a lattice (maths.md LATTICE), and the
 * energies of any model at any points.
 *
 *     log Z = log sum_g exp(-U_g) + log cell,   m_g = exp(-U_g) / sum exp(-U),   KL = sum_g m_g (log m_g - log m'_g)
 *
 * Invariants: the maximum is taken out before exponentials are summed; logarithms of masses come from the energies,
 * never from masses that may have underflowed; a divergence is summed as such, never a difference of two losses. Tiles
 * are cut by the model's wish and the number of points alone, so threads change nothing. */
#include <math.h>
#include <sosmc/lattice.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "base/threads.h"
#include "base/tiles.h"

enum { ALIGNMENT = 64, MOST_NODES = 30000, MOST_THREADS = 1024, SCORE_TILE = 256, PIECE = 256 };

/* ------------------------------------------------------------------------------------------------ many points */

/* A model or a score at the nodes of a lattice or at given rows. */
typedef struct {
    const sosmc_model *model; /* NULL: the score */
    const double *theta;
    const sosmc_score *score;
    const sosmc_lattice *lattice; /* NULL: the rows */
    const double *rows;
    int64_t points;
    int dim, tile, ld, tiles;
    size_t vector, row; /* doubles: a tile's x and its values */
    size_t stride;      /* bytes of one worker: x, values, the model's scratch */
    char *workers;
    void *prep;
    double *out;
} survey;

double sosmc_lattice_node(const sosmc_lattice *l, int axis, int index)
{
    int last = l->nodes - 1;
    return (l->low[axis] * (last - index) + l->high[axis] * index) / last;
}

static void place_nodes(const survey *s, int64_t first, int n, double *x)
{
    int nodes = s->lattice->nodes;
    for (int i = 0; i < n; i++) {
        x[i] = sosmc_lattice_node(s->lattice, 0, (int)((first + i) % nodes));
        x[s->ld + i] = sosmc_lattice_node(s->lattice, 1, (int)((first + i) / nodes));
    }
}

static void place_rows(const survey *s, int64_t first, int n, double *x)
{
    size_t dim = (size_t)s->dim, ld = (size_t)s->ld;
    const double *from = s->rows + (size_t)first * dim;
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t j = 0; j < dim; j++) x[j * ld + i] = from[i * dim + j];
}

/* An energy of plus infinity is a density of zero; nothing else that is not finite has a meaning. */
static int sensible(const survey *s, int n, const double *value)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(value[i]) && !(s->model && value[i] == INFINITY)) return 0;
    return 1;
}

static sosmc_status evaluate_tile(void *ctx, int task, int worker)
{
    const survey *s = ctx;
    char *memory = s->workers + (size_t)worker * s->stride;
    double *x = (double *)(void *)memory, *value = x + s->vector;
    int64_t first = (int64_t)task * s->tile, left = s->points - first;
    sosmc_batch b = {.x = x,
                     .prep = s->prep,
                     .work = value + s->row,
                     .simd = sosmc_simd_best(),
                     .dim = s->dim,
                     .n = left < s->tile ? (int)left : s->tile,
                     .ld = s->ld,
                     .first = first};
    if (s->lattice)
        place_nodes(s, first, b.n, x);
    else
        place_rows(s, first, b.n, x);
    int code = s->model ? s->model->energy(s->model->self, s->theta, &b, value, NULL)
                        : s->score->eval(s->score->self, &b, value);
    if (code) return SOSMC_EMODEL;
    if (!sensible(s, b.n, value)) return SOSMC_ENUMERIC;
    memcpy(s->out + first, value,
           (size_t)b.n * sizeof *value); /* callbacks may write padding, so they get rows of ours */
    return SOSMC_OK;
}

/* The rules of the engine: rows aligned, unless a tile is one large particle. */
static sosmc_status cut(survey *s)
{
    int wish = s->model ? s->model->tile : SCORE_TILE;
    s->tile = sosmc_i_tile(wish, s->dim, s->points);
    s->ld = sosmc_i_tile_row(s->tile, s->dim);
    int64_t tiles = (s->points + s->tile - 1) / s->tile;
    if (tiles > INT32_MAX) return SOSMC_EINVAL;
    s->tiles = (int)tiles;
    s->vector = sosmc_i_round_up((size_t)s->dim * (size_t)s->ld, TILE_LANES);
    s->row = sosmc_i_round_up((size_t)s->ld, TILE_LANES);
    size_t work = 0;
    if (s->model && __builtin_mul_overflow(s->model->work, (size_t)s->ld, &work)) return SOSMC_ENOMEM;
    if (work > SIZE_MAX / (4 * (size_t)MOST_THREADS)) return SOSMC_ENOMEM;
    s->stride = (s->vector + s->row) * sizeof(double) + sosmc_i_round_up(work, ALIGNMENT);
    return SOSMC_OK;
}

static sosmc_status evaluate(survey *s, int threads)
{
    if (threads < 0 || threads > MOST_THREADS || s->points < 0 || s->dim < 1) return SOSMC_EINVAL;
    if (s->points == 0) return SOSMC_OK;
    sosmc_status status = cut(s);
    if (status != SOSMC_OK) return status;
    if (threads > s->tiles) threads = s->tiles;
    if (threads < 1) threads = 1;
    size_t prep = sosmc_i_round_up(s->model ? s->model->prep : 0, ALIGNMENT);
    size_t crew = sosmc_i_round_up(sosmc_i_pool_bytes(threads), ALIGNMENT),
           all = prep + crew + (size_t)threads * s->stride;
    char *memory = aligned_alloc(ALIGNMENT, all);
    if (!memory) return SOSMC_ENOMEM;
    memset(memory, 0, all); /* padding is read, if never relied upon */
    s->prep = memory;
    s->workers = memory + prep + crew;
    if (s->model && s->model->prepare && s->model->prepare(s->model->self, s->theta, s->prep)) {
        free(memory);
        return SOSMC_EMODEL;
    }
    /* where threads cannot be had, the calling one does the work */
    pool *helpers = threads > 1 ? sosmc_i_pool_start(memory + prep, threads) : NULL;
    status = sosmc_i_parallel(helpers, evaluate_tile, s, s->tiles);
    sosmc_i_pool_stop(helpers);
    free(memory);
    return status;
}

sosmc_status sosmc_energies(const sosmc_model *model, const double *theta, int64_t n, const double *x, int threads,
                            double *U)
{
    survey s = {.model = model, .theta = theta, .rows = x, .points = n, .dim = model->dim_x, .out = U};
    return evaluate(&s, threads);
}

static int is_lattice(const sosmc_lattice *l)
{
    if (l->nodes < 2 || l->nodes > MOST_NODES) return 0;
    for (int axis = 0; axis < 2; axis++)
        if (!isfinite(l->low[axis]) || !isfinite(l->high[axis]) || !(l->low[axis] < l->high[axis])) return 0;
    return 1;
}

sosmc_status sosmc_lattice_energy(const sosmc_model *model, const double *theta, const sosmc_lattice *l, int threads,
                                  double *U)
{
    if (!is_lattice(l) || model->dim_x != 2) return SOSMC_EINVAL;
    int64_t points = (int64_t)l->nodes * l->nodes;
    survey s = {.model = model, .theta = theta, .lattice = l, .points = points, .dim = 2, .out = U};
    return evaluate(&s, threads);
}

sosmc_status sosmc_lattice_score(const sosmc_score *score, const sosmc_lattice *l, double *R)
{
    if (!is_lattice(l)) return SOSMC_EINVAL;
    survey s = {.score = score, .lattice = l, .points = (int64_t)l->nodes * l->nodes, .dim = 2, .out = R};
    return evaluate(&s, 1);
}

/* ------------------------------------------------------------------------------------------------ sums over nodes */

/* Masses proportional to exp(-U + R / beta), or to exp(-U) when R is NULL. */
typedef struct {
    int64_t count;
    const double *U, *R;
    double beta;
    double logsum; /* log of the sum of what the masses are proportional to */
} measure;

static inline double log_weight(const measure *p, int64_t g) { return p->R ? p->R[g] / p->beta - p->U[g] : -p->U[g]; }

/* mass[i] = exp(log weight - shift) of the nodes from..from+n-1; returns n, at most PIECE. */
static int exponentials(const measure *p, int64_t from, double shift, double *mass)
{
    int n = p->count - from < PIECE ? (int)(p->count - from) : PIECE;
    for (int i = 0; i < n; i++) mass[i] = log_weight(p, from + i) - shift;
    sosmc_exp(NULL, n, mass, mass);
    return n;
}

static measure measured(int64_t count, const double *U, const double *R, double beta)
{
    measure p = {.count = count, .U = U, .R = R, .beta = beta, .logsum = -INFINITY};
    double mass[PIECE], top = -INFINITY, sum = 0;
    for (int64_t g = 0; g < count; g++) top = log_weight(&p, g) > top ? log_weight(&p, g) : top;
    if (!(top > -INFINITY)) return p;
    for (int64_t g = 0, n; g < count; g += n) {
        double part = 0; /* a sum of sums keeps rounding small */
        n = exponentials(&p, g, top, mass);
        for (int i = 0; i < n; i++) part += mass[i];
        sum += part;
    }
    p.logsum = top + sosmc_i_log1(NULL, sum);
    return p;
}

static double expectation(const measure *p, const double *f)
{
    double mass[PIECE], sum = 0;
    for (int64_t g = 0, n; g < p->count; g += n) {
        double part = 0;
        n = exponentials(p, g, p->logsum, mass);
        for (int i = 0; i < n; i++) part += mass[i] * f[g + i];
        sum += part;
    }
    return sum;
}

/* KL(p || q). A node without mass contributes nothing, wherever q is; one without mass in q alone, infinity. */
static double divergence(const measure *p, const measure *q)
{
    double mass[PIECE], sum = 0, offset = q->logsum - p->logsum;
    for (int64_t g = 0, n; g < p->count; g += n) {
        double part = 0;
        n = exponentials(p, g, p->logsum, mass);
        for (int i = 0; i < n; i++)
            if (mass[i] != 0) part += mass[i] * ((log_weight(p, g + i) - log_weight(q, g + i)) + offset);
        sum += part;
    }
    return sum;
}

static double ring_mass(const measure *p, int nodes)
{
    double sum = 0;
    for (int64_t r = 0; r < nodes; r++) {
        int inner = r > 0 && r < nodes - 1;
        for (int64_t c = 0; c < nodes; c += inner ? nodes - 1 : 1)
            sum += sosmc_i_exp1(NULL, log_weight(p, r * nodes + c) - p->logsum);
    }
    return sum;
}

static double log_cell(const sosmc_lattice *l)
{
    double last = l->nodes - 1;
    return sosmc_i_log1(NULL, (l->high[0] - l->low[0]) / last * ((l->high[1] - l->low[1]) / last));
}

static void compare_with_reference(const measure *pi, const measure *ref, sosmc_exact *out)
{
    out->kl = divergence(pi, ref);
    out->forward_kl = divergence(ref, pi);
}

static void compare_with_best(const measure *pi, const measure *ref, const double *R, double beta, sosmc_exact *out)
{
    measure best = measured(ref->count, ref->U, R, beta);
    out->best_reward = expectation(&best, R);
    out->best_kl = divergence(&best, ref);
    out->best_loss = -beta * (best.logsum - ref->logsum);
    out->excess = beta * divergence(pi, &best);
}

void sosmc_lattice_exact(const sosmc_lattice *l, const double *U, const double *U_ref, const double *R, double beta,
                         sosmc_exact *out)
{
    int64_t count = (int64_t)l->nodes * l->nodes;
    measure pi = measured(count, U, NULL, 0), ref = {.logsum = -INFINITY};
    *out = (sosmc_exact){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (U_ref) ref = measured(count, U_ref, NULL, 0);
    out->logz = pi.logsum + log_cell(l);
    if (U_ref) out->ref_logz = ref.logsum + log_cell(l);
    if (pi.logsum == -INFINITY) return; /* no mass on the lattice, no expectations */
    int has_ref = U_ref && ref.logsum != -INFINITY;
    out->edge = ring_mass(&pi, l->nodes);
    if (R) out->reward = expectation(&pi, R);
    if (has_ref) compare_with_reference(&pi, &ref, out);
    if (has_ref && R) out->ref_reward = expectation(&ref, R);
    if (has_ref && R && beta > 0) compare_with_best(&pi, &ref, R, beta, out);
    out->loss = beta == 0 ? -out->reward : -out->reward + beta * out->kl;
}

double sosmc_lattice_loglik(int64_t n, const double *U, double logz)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += U[i];
    return -sum / (double)n - logz;
}
