/* lattice.c: exact expectations of two-dimensional models by plain sums over a lattice (maths.md LATTICE), and the
 * energies of any model at any points.
 *
 *     log Z = log sum_g exp(-U_g) + log cell,   m_g = exp(-U_g) / sum exp(-U),   KL = sum_g m_g (log m_g - log m'_g)
 *
 * Invariants: the maximum is taken out before exponentials are summed; logarithms of masses come from the energies, never
 * from masses that may have underflowed; a divergence is summed as such, never a difference of two losses. The tiles depend
 * on model.tile and the number of points alone, so threads change nothing. */
#include <math.h>
#include <sosmc/analysis.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/bounds.h"
#include "host.h"
#include "lattice_inside.h"
#include "base/table.h"

enum { MOST_NODES = 30000, SCORE_TILE = 256, ROWS_TILE = 64, PIECE = 256 };

/* ------------------------------------------------------------------------------------------------ many points */

/* A model or a score at the nodes of a lattice or at given rows. The room of a worker: its points, and a row of values. */
typedef struct {
    host h;
    const sosmc_score *score;     /* NULL: the model's energy */
    const sosmc_lattice *lattice; /* NULL: the rows */
    const double *rows;
    int64_t points;
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
        x[s->h.ld + i] = sosmc_lattice_node(s->lattice, 1, (int)((first + i) / nodes));
    }
}

/* An energy of plus infinity is a density of zero; nothing else that is not finite has a meaning on a lattice or as an energy.
 * Rewards of given points are the caller's to judge. */
static int sensible(const survey *s, int n, const double *value)
{
    if (s->score && !s->lattice) return 1;
    for (int i = 0; i < n; i++)
        if (!isfinite(value[i]) && !(!s->score && value[i] == INFINITY)) return 0;
    return 1;
}

static sosmc_status evaluate_tile(void *ctx, int task, int worker)
{
    const survey *s = ctx;
    const sosmc_model *m = s->h.model;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->points);
    double *x = host_room(&s->h, worker), *value = x + s->h.vector;
    if (s->lattice)
        place_nodes(s, b.first, b.n, x);
    else
        sosmc_i_from_rows(b.dim, b.ld, b.n, s->rows + (size_t)b.first * (size_t)b.dim, x);
    int code = s->score ? s->score->eval(s->score->self, &b, value) : m->energy(m->self, s->h.theta, &b, value, NULL);
    if (code) return SOSMC_EMODEL;
    if (!s->score) sosmc_i_bound_energies(m, &b, value);
    if (!sensible(s, b.n, value)) return SOSMC_ENUMERIC;
    memcpy(s->out + b.first, value,
           (size_t)b.n * sizeof *value); /* callbacks may write padding, so they get rows of ours */
    return SOSMC_OK;
}

static sosmc_status evaluate(survey *s, const sosmc_model *model, const double *theta, int threads)
{
    if (threads < 0 || threads > HOST_MOST_THREADS || s->points < 0 || model->dim_x < 1) return SOSMC_EINVAL;
    if (s->points == 0) return SOSMC_OK;
    sosmc_status status = sosmc_i_host_cut(&s->h, model, s->points, threads);
    if (status == SOSMC_OK) status = sosmc_i_host_open(&s->h, theta, 1, 1);
    if (status != SOSMC_OK) return status;
    int tiles = (int)((s->points + s->h.tile - 1) / s->h.tile);
    status = sosmc_i_host_parallel(&s->h, evaluate_tile, s, tiles);
    sosmc_i_host_close(&s->h);
    return status;
}

sosmc_status sosmc_energies(const sosmc_model *model, const double *theta, int64_t n, const double *x, int threads,
                            double *U)
{
    STANDARD_ARITHMETIC;
    survey s = {.rows = x, .points = n, .out = U};
    return evaluate(&s, model, theta, threads);
}

sosmc_status sosmc_scores(const sosmc_score *score, int dim, int64_t n, const double *x, double *values)
{
    STANDARD_ARITHMETIC;
    sosmc_model shape = {.dim_x = dim, .tile = ROWS_TILE};
    survey s = {.score = score, .rows = x, .points = n, .out = values};
    return evaluate(&s, &shape, NULL, 1);
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
    STANDARD_ARITHMETIC;
    if (!is_lattice(l) || model->dim_x != 2) return SOSMC_EINVAL;
    int64_t points = (int64_t)l->nodes * l->nodes;
    survey s = {.lattice = l, .points = points, .out = U};
    return evaluate(&s, model, theta, threads);
}

sosmc_status sosmc_lattice_score(const sosmc_score *score, const sosmc_lattice *l, double *R)
{
    STANDARD_ARITHMETIC;
    if (!is_lattice(l)) return SOSMC_EINVAL;
    sosmc_model shape = {.dim_x = 2, .tile = SCORE_TILE};
    survey s = {.score = score, .lattice = l, .points = (int64_t)l->nodes * l->nodes, .out = R};
    return evaluate(&s, &shape, NULL, 1);
}

/* ------------------------------------------------------------------------------------------------ sums over nodes */

/* mass[i] = exp(log weight - shift) of the nodes from..from+n-1; returns n, at most PIECE. */
static int exponentials(const measure *p, int64_t from, double shift, double *mass)
{
    int n = p->count - from < PIECE ? (int)(p->count - from) : PIECE;
    for (int i = 0; i < n; i++) mass[i] = log_weight(p, from + i) - shift;
    sosmc_exp(NULL, n, mass, mass);
    return n;
}

measure sosmc_i_masses(int64_t count, const double *U, const double *R, double beta)
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

double sosmc_i_edge(const measure *p, int nodes)
{
    double sum = 0;
    if (p->logsum == -INFINITY) return NAN;
    for (int64_t r = 0; r < nodes; r++) {
        int inner = r > 0 && r < nodes - 1;
        for (int64_t c = 0; c < nodes; c += inner ? nodes - 1 : 1)
            sum += sosmc_i_exp1(NULL, log_weight(p, r * nodes + c) - p->logsum);
    }
    return sum;
}

double sosmc_i_log_cell(const sosmc_lattice *l)
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
    measure best = sosmc_i_masses(ref->count, ref->U, R, beta);
    out->best_reward = expectation(&best, R);
    out->best_kl = divergence(&best, ref);
    out->best_loss = -beta * (best.logsum - ref->logsum);
    out->excess = beta * divergence(pi, &best);
}

void sosmc_i_exact_sums(int64_t count, double log_cell, const double *U, const double *U_ref, const double *R,
                        double beta, sosmc_exact *out)
{
    measure pi = sosmc_i_masses(count, U, NULL, 0), ref = {.logsum = -INFINITY};
    *out = (sosmc_exact){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (U_ref) ref = sosmc_i_masses(count, U_ref, NULL, 0);
    out->logz = pi.logsum + log_cell;
    if (U_ref) out->ref_logz = ref.logsum + log_cell;
    if (pi.logsum == -INFINITY) return; /* no mass on the lattice, no expectations */
    int has_ref = U_ref && ref.logsum != -INFINITY;
    if (R) out->reward = expectation(&pi, R);
    if (has_ref) compare_with_reference(&pi, &ref, out);
    if (has_ref && R) out->ref_reward = expectation(&ref, R);
    if (has_ref && R && beta > 0) compare_with_best(&pi, &ref, R, beta, out);
    out->loss = beta == 0 ? -out->reward : -out->reward + beta * out->kl;
}

void sosmc_lattice_exact(const sosmc_lattice *l, const double *U, const double *U_ref, const double *R, double beta,
                         sosmc_exact *out)
{
    STANDARD_ARITHMETIC;
    sosmc_i_exact_sums((int64_t)l->nodes * l->nodes, sosmc_i_log_cell(l), U, U_ref, R, beta, out);
    measure pi = sosmc_i_masses((int64_t)l->nodes * l->nodes, U, NULL, 0);
    out->edge = sosmc_i_edge(&pi, l->nodes);
}

double sosmc_lattice_loglik(int64_t n, const double *U, double logz)
{
    STANDARD_ARITHMETIC;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += U[i];
    return -sum / (double)n - logz;
}
