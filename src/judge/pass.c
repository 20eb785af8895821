/* pass.c: tempering from a law q with density to pi_theta (maths.md PASS).
 *
 *     V_t = (1 - t) (-log q) + t U,   t from 0 to 1, each next t by bisection so that the conditional effective sample size is
 *     0.9 N; weigh, resample below N/2, move by preconditioned MALA.
 *
 * The particles carry both energies, so trying a t costs no evaluation. log Z is absolute, because q is normalised. Every particle
 * knows its first ancestor; the classes of equal ancestors are independent at the start, and their scatter is the error.
 * Invariant: random numbers are named by pass, temperature, move and particle, sums run over particles in order. */
#include "pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/host.h"
#include "base/linear.h"
#include "base/scores.h"
#include "base/table.h"

enum { STREAM_DRAW = 16, STREAM_MOVE, STREAM_ACCEPT, STREAM_RESAMPLE }; /* between the engine's and a user's */
enum { MOST_TEMPERATURES = 2000, MOST_DOF = 256 };
static const double TARGET = 0.9, ACCEPTANCE = 0.57, ACCEPTANCE_WALK = 0.3;

typedef struct {
    const pass_task *task;
    pass_cloud *p;
    host h, ref;
    double t, step;
    uint64_t number;                   /* names the move */
    double *gU, *gq, *Lq, *logw, *inc; /* n rows of dim, n rows of dim, n numbers each */
    double *keep, *accepted;           /* n rows of dim; n numbers */
    double *other, *scratch;
    int *ancestor, *eve;
    double *room; /* of the workers */
    size_t room_each;
} state;

/* ---------------------------------------------------------------------------- names of random numbers */

static sosmc_rng name(const state *s, uint32_t stream, uint64_t step)
{
    return (sosmc_rng){.seed = s->task->seed, .step = s->task->number << 40 | step, .stream = stream};
}

/* ---------------------------------------------------------------------------- energies */

static void keep_finite(double *U)
{
    if (!(*U < INFINITY)) *U = INFINITY; /* an infinite energy, or none, is a density of zero */
}

/* The model's energy, with its gradient, and the law's, of the rows of a tile that stand in the worker's first vector. */
static sosmc_status energies(state *s, sosmc_batch *b, int worker, const double *rows, double *U, double *gU,
                             double *Lq, double *gq)
{
    const sosmc_model *m = s->task->model;
    double *tile = host_room(&s->h, worker), *g = tile + s->h.vector, *row = tile + 3 * s->h.vector;
    double *work = s->room + (size_t)worker * s->room_each;
    int dim = m->dim_x, walk = !s->task->c->gradient;
    sosmc_i_from_rows(dim, b->ld, b->n, rows, tile);
    if (m->energy(m->self, s->task->theta, b, row, walk ? NULL : g)) return SOSMC_EMODEL;
    if (!walk) sosmc_i_to_rows(dim, b->ld, b->n, g, gU);
    for (int i = 0; i < b->n; i++) {
        size_t at = (size_t)i * (size_t)dim;
        U[i] = row[i];
        keep_finite(&U[i]);
        Lq[i] = sosmc_i_laws_energy(s->task->q, rows + at, walk ? NULL : gq + at, work);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the start */

static double chi_square(const state *s, int dof, int64_t particle)
{
    double z[MOST_DOF], sum = 0;
    sosmc_batch b = {.simd = sosmc_simd_best(), .dim = dof, .n = 1, .ld = 1, .first = particle};
    sosmc_normals(name(s, STREAM_DRAW, 1), &b, z);
    for (int k = 0; k < dof; k++) sum += z[k] * z[k];
    return sum;
}

static sosmc_status start_tile(void *ctx, int task, int worker)
{
    state *s = ctx;
    const laws *q = s->task->q;
    size_t dim = (size_t)q->dim;
    int n = s->p->n;
    int64_t first = (int64_t)task * s->h.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, first, n);
    double *z = host_room(&s->h, worker) + 2 * s->h.vector, *work = s->room + (size_t)worker * s->room_each;
    sosmc_normals(name(s, STREAM_DRAW, 0), &b, z);
    for (int i = 0; i < b.n; i++) {
        int k = sosmc_i_law_of(q, first + i, n), dof = q->part[k].dof;
        double chi2 = dof > 0 ? chi_square(s, dof, first + i) : 1;
        for (size_t j = 0; j < dim; j++) work[j] = z[j * (size_t)b.ld + (size_t)i];
        sosmc_i_law_draw(q, k, work, chi2, s->p->x + (size_t)(first + i) * dim);
    }
    size_t at = (size_t)first;
    return energies(s, &b, worker, s->p->x + at * dim, s->p->U + at, s->gU + at * dim, s->Lq + at, s->gq + at * dim);
}

/* ---------------------------------------------------------------------------- moves */

/* g <- C^-1 g: the gradient in the coordinates of the moves. */
static void whiten(const preconditioner *c, double *g)
{
    if (!c->diagonal) {
        sosmc_i_solve_lower((size_t)c->dim, c->C, g);
        return;
    }
    for (int j = 0; j < c->dim; j++) g[j] /= c->C[j];
}
/* u <- C^-T u: a step of theirs in the coordinates of x. */
static void colour(const preconditioner *c, double *u)
{
    if (!c->diagonal) {
        sosmc_i_solve_lower_transposed((size_t)c->dim, c->C, u);
        return;
    }
    for (int j = 0; j < c->dim; j++) u[j] /= c->C[j];
}

static void slope(const state *s, const double *gU, const double *gq, double *out)
{
    const preconditioner *c = s->task->c;
    for (int j = 0; j < c->dim; j++) out[j] = s->t < 1 ? s->t * gU[j] + (1 - s->t) * gq[j] : gU[j];
    whiten(c, out);
}

static double blend(const state *s, double U, double Lq) { return s->t < 1 ? s->t * U + (1 - s->t) * Lq : U; }

/* One particle's proposal into `to`; its step and its slope in whitened coordinates stay in `step` and `g`. */
static void propose(const state *s, size_t i, const double *z, size_t ld, double *step, double *g, double *to)
{
    const preconditioner *c = s->task->c;
    size_t dim = (size_t)c->dim, at = i * dim;
    double noise = sqrt(2 * s->step);
    if (c->gradient) slope(s, s->gU + at, s->gq + at, g);
    for (size_t j = 0; j < dim; j++) step[j] = noise * z[j * ld] - (c->gradient ? s->step * g[j] : 0);
    memcpy(to, step, dim * sizeof(double));
    colour(c, to);
    for (size_t j = 0; j < dim; j++) to[j] += s->p->x[at + j];
}

static sosmc_status move_tile(void *ctx, int task, int worker)
{
    state *s = ctx;
    const preconditioner *c = s->task->c;
    pass_cloud *p = s->p;
    size_t dim = (size_t)c->dim, first = (size_t)task * (size_t)s->h.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)first, p->n);
    size_t tile = (size_t)s->h.tile, ld = (size_t)b.ld;
    double *room = host_room(&s->h, worker), *z = room + 2 * s->h.vector, *u = room + 3 * s->h.vector + s->h.row;
    double *work = s->room + (size_t)worker * s->room_each + 2 * dim;
    double *step = work, *g = step + tile * dim, *y = g + tile * dim, *gU = y + tile * dim, *gq = gU + tile * dim;
    double *g1 = gq + tile * dim, *U = g1 + dim, *Lq = U + tile;
    sosmc_normals(name(s, STREAM_MOVE, s->number), &b, z);
    sosmc_uniforms(name(s, STREAM_ACCEPT, s->number), 0, &b, u);
    for (size_t i = 0; i < (size_t)b.n; i++) propose(s, first + i, z + i, ld, step + i * dim, g + i * dim, y + i * dim);
    if (energies(s, &b, worker, y, U, gU, Lq, gq)) return SOSMC_EMODEL;
    for (size_t i = 0; i < (size_t)b.n; i++) {
        size_t me = first + i;
        double ratio = blend(s, p->U[me], s->Lq[me]) - blend(s, U[i], Lq[i]);
        if (c->gradient && isfinite(U[i])) {
            slope(s, gU + i * dim, gq + i * dim, g1);
            for (size_t j = 0; j < dim; j++) {
                double g0 = g[i * dim + j];
                ratio += (g0 + g1[j]) * (0.5 * step[i * dim + j] + 0.25 * s->step * (g0 - g1[j]));
            }
        }
        s->accepted[me] = !(ratio > -700) ? 0 : ratio >= 0 ? 1 : sosmc_i_exp1(NULL, ratio);
        if (!(u[i] <= s->accepted[me]) || !isfinite(U[i])) continue;
        memcpy(p->x + me * dim, y + i * dim, dim * sizeof(double));
        memcpy(s->gU + me * dim, gU + i * dim, dim * sizeof(double));
        memcpy(s->gq + me * dim, gq + i * dim, dim * sizeof(double));
        p->U[me] = U[i];
        s->Lq[me] = Lq[i];
    }
    return SOSMC_OK;
}

static int tiles(const state *s) { return (s->p->n + s->h.tile - 1) / s->h.tile; }

static sosmc_status move(state *s, double *acceptance)
{
    const pass_cloud *p = s->p;
    double mean = 0, target = s->task->c->gradient ? ACCEPTANCE : ACCEPTANCE_WALK;
    s->number++;
    sosmc_status status = sosmc_i_host_parallel(&s->h, move_tile, s, tiles(s));
    if (status != SOSMC_OK) return status;
    for (int i = 0; i < p->n; i++) mean += p->w[i] * s->accepted[i]; /* dead particles say nothing about the step */
    *acceptance = mean;
    s->step *= sosmc_i_exp1(NULL, mean - target);
    if (s->step > 4) s->step = 4;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- weights */

/* inc = log of the incremental weights from t to `next`; returns the conditional effective sample size as a share. */
static double conditional_ess(state *s, double next)
{
    const pass_cloud *p = s->p;
    double most = -INFINITY, sum = 0, squares = 0;
    for (int i = 0; i < p->n; i++) {
        s->inc[i] = p->w[i] > 0 ? (next - s->t) * (s->Lq[i] - p->U[i]) : -INFINITY;
        if (s->inc[i] > most) most = s->inc[i];
    }
    if (!isfinite(most)) return 0;
    for (int i = 0; i < p->n; i++) s->other[i] = s->inc[i] - most;
    sosmc_exp(NULL, p->n, s->other, s->other);
    for (int i = 0; i < p->n; i++) {
        double v = s->inc[i] == -INFINITY ? 0 : s->other[i];
        sum += p->w[i] * v;
        squares += p->w[i] * v * v;
    }
    return sum * sum / squares;
}

static double next_temperature(state *s)
{
    double low = s->t, high = 1;
    if (conditional_ess(s, 1) >= TARGET) return 1;
    for (int k = 0; k < 200 && high - low > 0.02 * (low - s->t); k++) {
        double middle = 0.5 * (low + high);
        if (conditional_ess(s, middle) >= TARGET)
            low = middle;
        else
            high = middle;
    }
    return low > s->t ? low : high;
}

/* Adds `inc` to the log-weights; normalises; log Z grows by the log of the weighted mean. */
static int weigh(state *s)
{
    pass_cloud *p = s->p;
    double most = -INFINITY, total = 0;
    for (int i = 0; i < p->n; i++) {
        s->logw[i] = p->w[i] > 0 ? s->logw[i] + s->inc[i] : -INFINITY;
        if (s->logw[i] > most) most = s->logw[i];
    }
    if (!isfinite(most)) return -1;
    for (int i = 0; i < p->n; i++) p->w[i] = s->logw[i] == -INFINITY ? -1e9 : s->logw[i] - most;
    sosmc_exp(NULL, p->n, p->w, p->w);
    for (int i = 0; i < p->n; i++) total += p->w[i];
    double log_total = most + sosmc_i_log1(NULL, total);
    for (int i = 0; i < p->n; i++) {
        p->w[i] /= total;
        s->logw[i] -= log_total;
    }
    p->log_z += log_total;
    return 0;
}

static double ess(const pass_cloud *p)
{
    double squares = 0;
    for (int i = 0; i < p->n; i++) squares += p->w[i] * p->w[i];
    return 1 / squares;
}

static void gather_rows(double *rows, size_t dim, const int *from, int n, double *spare)
{
    memcpy(spare, rows, (size_t)n * dim * sizeof(double));
    for (int i = 0; i < n; i++) memcpy(rows + (size_t)i * dim, spare + (size_t)from[i] * dim, dim * sizeof(double));
}

static sosmc_status resample(state *s)
{
    pass_cloud *p = s->p;
    size_t dim = (size_t)p->dim;
    sosmc_status status = sosmc_resample(SOSMC_SYSTEMATIC, name(s, STREAM_RESAMPLE, (uint64_t)p->temperatures), p->n,
                                         p->w, s->scratch, s->ancestor);
    if (status != SOSMC_OK) return status;
    gather_rows(p->x, dim, s->ancestor, p->n, s->keep);
    gather_rows(s->gU, dim, s->ancestor, p->n, s->keep);
    gather_rows(s->gq, dim, s->ancestor, p->n, s->keep);
    gather_rows(p->U, 1, s->ancestor, p->n, s->other);
    gather_rows(s->Lq, 1, s->ancestor, p->n, s->other);
    memcpy(s->eve, p->eve, (size_t)p->n * sizeof *s->eve);
    double log_n = sosmc_i_log1(NULL, (double)p->n);
    for (int i = 0; i < p->n; i++) {
        p->eve[i] = s->eve[s->ancestor[i]];
        p->w[i] = 1.0 / p->n;
        s->logw[i] = -log_n;
    }
    p->resamplings++;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the whole path */

static sosmc_status temper(state *s)
{
    pass_cloud *p = s->p;
    double accepted = 0, sum = 0;
    int moves = 0;
    for (int i = 0; i < p->n; i++) s->other[i] = s->Lq[i] - p->U[i];
    p->khat = sosmc_i_khat(p->n, s->other, s->scratch);
    for (int i = 0; i < p->n; i++)
        s->inc[i] = isfinite(p->U[i]) ? 0 : -INFINITY; /* outside the support: no weight at any t */
    if (weigh(s)) return SOSMC_OK;
    while (s->t < 1 && p->temperatures < MOST_TEMPERATURES) {
        if (s->task->stop && s->task->stop(s->task->stop_ctx)) return SOSMC_STOPPED;
        double next = next_temperature(s);
        (void)conditional_ess(s, next);
        if (weigh(s)) return SOSMC_OK;
        s->t = p->arrived = next;
        p->temperatures++;
        if (ess(p) < 0.5 * p->n) {
            sosmc_status status = resample(s);
            if (status != SOSMC_OK) return status;
        }
        for (int k = 0; k < s->task->moves; k++) {
            sosmc_status status = move(s, &accepted);
            if (status != SOSMC_OK) return status;
            sum += accepted;
            moves++;
        }
    }
    p->acceptance = moves ? sum / moves : NAN;
    return SOSMC_OK;
}

/* What the numbers need at the final particles: score, reference energy, D. */
static sosmc_status finish_tile(void *ctx, int task, int worker)
{
    state *s = ctx;
    pass_cloud *p = s->p;
    const sosmc_model *m = s->task->model;
    size_t dim = (size_t)p->dim, first = (size_t)task * (size_t)s->h.tile, dim_theta = (size_t)p->dim_theta;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)first, p->n);
    double *tile = host_room(&s->h, worker), *row = tile + 3 * s->h.vector;
    sosmc_i_from_rows(p->dim, b.ld, b.n, p->x + first * dim, tile);
    if (p->R) {
        if (s->task->score->eval(s->task->score->self, &b, row)) return SOSMC_EMODEL;
        memcpy(p->R + first, row, (size_t)b.n * sizeof(double));
    }
    if (p->D) {
        double *scratch = s->room + (size_t)worker * s->room_each, *D = scratch + sosmc_i_scores_scratch(m);
        if (sosmc_i_scores(m, s->task->theta, &b, scratch, D)) return SOSMC_EMODEL;
        for (size_t i = 0; i < (size_t)b.n; i++)
            for (size_t j = 0; j < dim_theta; j++) p->D[(first + i) * dim_theta + j] = D[j * (size_t)b.ld + i];
    }
    if (p->Uref) {
        sosmc_batch ref = sosmc_i_host_batch(&s->ref, worker, (int64_t)first, p->n);
        double *other = host_room(&s->ref, worker);
        sosmc_i_from_rows(p->dim, ref.ld, ref.n, p->x + first * dim, other);
        if (m->energy(m->self, s->task->theta_ref, &ref, row, NULL)) return SOSMC_EMODEL;
        memcpy(p->Uref + first, row, (size_t)b.n * sizeof(double));
    }
    return SOSMC_OK;
}

static void count_survivors(pass_cloud *p)
{
    int alive = 0;
    memset(p->class_sum, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++) p->class_sum[p->eve[i]] += p->w[i];
    for (int i = 0; i < p->n; i++) alive += p->class_sum[i] > 0;
    p->survivors = (double)alive / p->n;
}

/* ---------------------------------------------------------------------------- memory */

static double *part_of(double **memory, size_t doubles)
{
    double *p = *memory;
    *memory += (doubles + 7) / 8 * 8;
    return p;
}

static sosmc_status open_pass(state *s, const pass_task *task, pass_cloud *out)
{
    const sosmc_model *m = task->model;
    size_t n = (size_t)task->particles, dim = (size_t)m->dim_x, p = task->wants_gradients ? (size_t)m->dim_theta : 0;
    sosmc_status status = sosmc_i_host_cut(&s->h, m, task->particles, task->threads);
    if (status == SOSMC_OK) status = sosmc_i_host_cut(&s->ref, m, task->particles, task->threads);
    if (status == SOSMC_OK) status = sosmc_i_host_open(&s->h, task->theta, 3, 2);
    if (status == SOSMC_OK && task->theta_ref) status = sosmc_i_host_open(&s->ref, task->theta_ref, 1, 1);
    if (status != SOSMC_OK) return status;
    size_t tile = (size_t)s->h.tile, workers = (size_t)s->h.workers;
    size_t moving = 2 * dim + 5 * tile * dim + dim + 2 * tile;
    size_t scoring = p ? sosmc_i_scores_scratch(m) + p * (size_t)s->h.ld : 0;
    s->room_each = ((moving > scoring ? moving : scoring) + 7) / 8 * 8;
    size_t kept = n * (dim + p + 7) + 64, own = n * (3 * dim + 8) + workers * s->room_each + 256;
    char *memory = aligned_alloc(64, (kept + own) * sizeof(double) / 64 * 64 + 4096 + 2 * n * sizeof(int) / 64 * 64);
    if (!memory) return SOSMC_ENOMEM;
    double *d = (double *)(void *)memory;
    *out = (pass_cloud){.n = task->particles, .dim = m->dim_x, .dim_theta = m->dim_theta, .memory = memory};
    s->room = part_of(&d, workers * s->room_each);
    out->x = part_of(&d, n * dim);
    out->w = part_of(&d, n);
    out->U = part_of(&d, n);
    out->class_sum = part_of(&d, n);
    if (task->score) out->R = part_of(&d, n);
    if (task->theta_ref) out->Uref = part_of(&d, n);
    if (p) out->D = part_of(&d, n * p);
    s->gU = part_of(&d, n * dim);
    s->gq = part_of(&d, n * dim);
    s->keep = part_of(&d, n * dim);
    s->Lq = part_of(&d, n);
    s->logw = part_of(&d, n);
    s->inc = part_of(&d, n);
    s->accepted = part_of(&d, n);
    s->other = part_of(&d, n);
    s->scratch = part_of(&d, 2 * n + 1);
    out->eve = calloc(3 * n, sizeof(int));
    if (!out->eve) return SOSMC_ENOMEM;
    s->eve = out->eve + n;
    s->ancestor = s->eve + n;
    memset(s->gU, 0, 2 * (n * dim + 8) * sizeof(double));
    return SOSMC_OK;
}

sosmc_status sosmc_i_pass(const pass_task *task, pass_cloud *out)
{
    state s = {.task = task, .p = out};
    *out = (pass_cloud){.n = 0};
    sosmc_status status = open_pass(&s, task, out);
    if (status == SOSMC_OK) {
        double log_n = sosmc_i_log1(NULL, (double)out->n), dim = out->dim < 1 ? 1 : out->dim;
        s.step = 1 / (1 + 0.2 * sqrt(dim));
        for (int i = 0; i < out->n; i++) {
            out->eve[i] = i;
            out->w[i] = 1.0 / out->n;
            s.logw[i] = -log_n;
        }
        status = sosmc_i_host_parallel(&s.h, start_tile, &s, tiles(&s));
    }
    if (status == SOSMC_OK) status = temper(&s);
    if (status == SOSMC_OK && out->arrived >= 1) status = sosmc_i_host_parallel(&s.h, finish_tile, &s, tiles(&s));
    if (status == SOSMC_OK) count_survivors(out);
    sosmc_i_host_close(&s.h);
    sosmc_i_host_close(&s.ref);
    return status;
}

void sosmc_i_pass_free(pass_cloud *p)
{
    free(p->memory);
    free(p->eve);
    *p = (pass_cloud){.n = 0};
}

/* ---------------------------------------------------------------------------- errors */

double sosmc_i_pass_mean(const pass_cloud *p, const double *f)
{
    double sum = 0;
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0) sum += p->w[i] * f[i];
    return sum;
}

double sosmc_i_pass_error(const pass_cloud *p, const double *f, double c)
{
    double mean = f ? sosmc_i_pass_mean(p, f) : 0, sum = 0, n = p->n;
    memset(p->class_sum, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0) p->class_sum[p->eve[i]] += p->w[i] * ((f ? f[i] - mean : 0) + c);
    for (int i = 0; i < p->n; i++) {
        double e = p->class_sum[i] - c / n;
        sum += e * e;
    }
    return sqrt(sum * n / (n - 1));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double log1(double x) { return sosmc_i_log1(NULL, x); }

/* Mean of log(1 - b y) over m values. */
static double mean_log(double b, int m, const double *y)
{
    double sum = 0;
    for (int i = 0; i < m; i++) sum += log1(1 - b * y[i]);
    return sum / m;
}

double sosmc_i_khat(int n, const double *logw, double *work)
{
    enum { CANDIDATES = 200 };
    int m = (int)fmin(n / 5.0, 3 * sqrt((double)n)), q = 30 + (int)sqrt((double)m);
    if (m < 5 || q > CANDIDATES) return NAN;
    double *sorted = work, *y = work + n, likelihood[CANDIDATES], b[CANDIDATES], best = -INFINITY, total = 0, mean = 0;
    for (int i = 0; i < n; i++) sorted[i] = isnan(logw[i]) ? -INFINITY : logw[i];
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double most = sorted[n - 1], cut = sosmc_i_exp1(NULL, fmax(sorted[n - m - 1] - most, -700));
    for (int i = 0; i < m; i++) y[i] = fmax(sosmc_i_exp1(NULL, fmax(sorted[n - m + i] - most, -700)) - cut, 0);
    if (!isfinite(most) || !(y[m - 1] > 1e-300)) return NAN;
    double quartile = fmax(y[(int)floor(m / 4.0 + 0.5) - 1], 1e-300);
    for (int j = 0; j < q; j++) {
        b[j] = 1 / y[m - 1] + (1 - sqrt(q / (j + 0.5))) / (3 * quartile);
        double k = mean_log(b[j], m, y);
        likelihood[j] = m * (log1(-b[j] / k) - k - 1);
        if (likelihood[j] > best) best = likelihood[j];
    }
    if (!isfinite(best)) return NAN;
    for (int j = 0; j < q; j++) {
        double w = isfinite(likelihood[j]) ? sosmc_i_exp1(NULL, likelihood[j] - best) : 0;
        total += w;
        mean += w * b[j];
    }
    return mean_log(mean / total, m, y) * m / (m + 10.0) + 0.5 * 10 / (m + 10.0);
}
