/* pass.c: tempering from a law q with density to pi_theta (maths.md PASS).
 *
 *     V_t = (1 - t) (-log q) + t U,   t from 0 to 1, each next t such that the conditional effective sample size is a
 *     little above 0.9 N; weigh, resample below N/2, move by preconditioned MALA.
 *
 * Particles are kept in tiles as the model sees them. They carry both energies, so trying a t costs no evaluation. log Z is absolute, because q is normalised. Every particle
 * knows its first ancestor; the classes of equal ancestors are independent at the start, and their scatter is the error.
 * Invariant: random numbers are named by pass, temperature, move and particle, sums run over particles in order. */
#include "pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/host.h"
#include "base/scores.h"
#include "base/table.h"
#include "tile.h"

enum { STREAM_DRAW = 16, STREAM_MOVE, STREAM_ACCEPT, STREAM_RESAMPLE }; /* between the engine's and a user's */
enum { MOST_TEMPERATURES = 2000, MOST_DOF = 256 };
static const double TARGET = 0.9, ACCEPTANCE = 0.57, ACCEPTANCE_WALK = 0.3;
/* Of the next increment: so much less than allowed is near enough, and that is aimed at. */
static const double NEAR = 0.95, AIM = 0.975;

extern const tile_code sosmc_i_tile_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const tile_code sosmc_i_tile_avx2, sosmc_i_tile_avx512;
#endif

const tile_code *sosmc_i_tile_code(const sosmc_simd *simd) { return SIMD_CHOOSE(simd, sosmc_i_tile); }

/* The room of a worker: vectors, then rows. */
enum { STEP, SLOPE, PLACE, GRADIENT, LAW_GRADIENT, VECTORS };
enum { ENERGY, LAW_ENERGY, UNIFORM, ROWS };

typedef struct {
    const pass_task *task;
    const tile_code *code;
    pass_cloud *p;
    host h, ref;
    double t, step, increment;                /* the last increment of t */
    uint64_t number;                          /* names the move */
    double *gU, *gq, *keep;                   /* tiles of all particles, like p->x; the last is scratch */
    double *Lq, *logw, *d, *accepted, *spare; /* n numbers each; d: log of the weights per unit of t */
    double *scratch;                          /* 2 n + 1 numbers */
    double *inverse;                          /* of the diagonal of the preconditioner */
    int *ancestor, *eve;
    double *room; /* of the workers */
    size_t room_each;
} state;

/* ---------------------------------------------------------------------------- names of random numbers */

static sosmc_rng name(const state *s, uint32_t stream, uint64_t step)
{
    return (sosmc_rng){.seed = s->task->seed, .step = s->task->number << 40 | step, .stream = stream};
}

/* ---------------------------------------------------------------------------- tiles */

static int tiles(const state *s) { return (s->p->n + s->h.tile - 1) / s->h.tile; }

static tile_points points_of(const state *s, int task)
{
    size_t at = (size_t)task * s->h.vector, first = (size_t)task * (size_t)s->h.tile;
    return (tile_points){
        .x = s->p->x + at, .gU = s->gU + at, .gq = s->gq + at, .U = s->p->U + first, .Lq = s->Lq + first};
}

static double *vector_of(const state *s, int worker, int which)
{
    return host_room(&s->h, worker) + (size_t)which * s->h.vector;
}
static double *row_of(const state *s, int worker, int which)
{
    return vector_of(s, worker, VECTORS) + (size_t)which * s->h.row;
}
static double *work_of(const state *s, int worker) { return s->room + (size_t)worker * s->room_each; }

/* Energies and, where somebody uses them, gradients of the points, under the model and under the law. */
static sosmc_status evaluate(state *s, sosmc_batch *b, int worker, const tile_points *p)
{
    const sosmc_model *m = s->task->model;
    int walk = !s->task->c->gradient;
    double *U = row_of(s, worker, ENERGY);
    b->x = p->x;
    if (m->energy(m->self, s->task->theta, b, U, walk ? NULL : p->gU)) return SOSMC_EMODEL;
    for (int i = 0; i < b->n; i++) p->U[i] = U[i] < INFINITY ? U[i] : INFINITY; /* no number is a density of zero */
    s->code->energies(s->task->q, b->n, b->ld, p->x, p->Lq, walk ? NULL : p->gq, work_of(s, worker));
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the start */

static double chi_square(const state *s, int dof, int64_t particle)
{
    double z[MOST_DOF], sum = 0;
    sosmc_batch b = {.simd = s->h.simd, .dim = dof, .n = 1, .ld = 1, .first = particle};
    sosmc_normals(name(s, STREAM_DRAW, 1), &b, z);
    for (int k = 0; k < dof; k++) sum += z[k] * z[k];
    return sum;
}

static sosmc_status start_tile(void *ctx, int task, int worker)
{
    state *s = ctx;
    const laws *q = s->task->q;
    tile_points at = points_of(s, task);
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n);
    double *z = vector_of(s, worker, STEP), *stretch = row_of(s, worker, UNIFORM);
    sosmc_normals(name(s, STREAM_DRAW, 0), &b, z);
    for (int i = 0; i < b.n; i++) {
        int dof = q->part[sosmc_i_law_of(q, b.first + i, s->p->n)].dof;
        stretch[i] = dof > 0 ? sqrt(dof / chi_square(s, dof, b.first + i)) : 1;
    }
    sosmc_i_laws_draw(q, &b, s->p->n, z, stretch, at.x);
    return evaluate(s, &b, worker, &at);
}

/* ---------------------------------------------------------------------------- moves */

static sosmc_status move_tile(void *ctx, int task, int worker)
{
    state *s = ctx;
    const preconditioner *c = s->task->c;
    const tile_move m = {.C = {.dim = c->dim, .diagonal = c->diagonal, .factor = c->C, .inverse = s->inverse},
                         .gradient = c->gradient,
                         .t = s->t,
                         .h = s->step};
    tile_points at = points_of(s, task), to = {.x = vector_of(s, worker, PLACE),
                                               .gU = vector_of(s, worker, GRADIENT),
                                               .gq = vector_of(s, worker, LAW_GRADIENT),
                                               .U = row_of(s, worker, ENERGY),
                                               .Lq = row_of(s, worker, LAW_ENERGY)};
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n);
    double *step = vector_of(s, worker, STEP), *g = vector_of(s, worker, SLOPE), *u = row_of(s, worker, UNIFORM);
    sosmc_normals(name(s, STREAM_MOVE, s->number), &b, step);
    sosmc_uniforms(name(s, STREAM_ACCEPT, s->number), 0, &b, u);
    s->code->propose(&m, b.n, b.ld, &at, step, g, to.x, work_of(s, worker));
    if (evaluate(s, &b, worker, &to)) return SOSMC_EMODEL;
    s->code->decide(&m, b.n, b.ld, &at, &to, step, g, u, s->accepted + b.first, work_of(s, worker));
    return SOSMC_OK;
}

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

/* d = Lq - U; returns the largest. */
static double incremental(state *s)
{
    const pass_cloud *p = s->p;
    double most = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        s->d[i] = p->w[i] > 0 ? s->Lq[i] - p->U[i] : -INFINITY;
        if (s->d[i] > most) most = s->d[i];
    }
    return most;
}

/* sqrt(-log CESS) of an increment, which is nearly proportional to small ones; infinite or not a number where it is unknown. */
static double distance(const state *s, double increment, double most)
{
    double sums[2];
    s->code->spread(s->p->n, s->p->w, s->d, increment, most, sums);
    return sqrt(fmax(0, -sosmc_i_log1(NULL, sums[0] * sums[0] / sums[1])));
}

/* The next t, in proportion from try to try, between the largest increment known to be allowed and the smallest known not to be;
 * halfway between the two where the proportion leads outside. */
static double next_temperature(state *s)
{
    const double most = incremental(s), whole = 1 - s->t, allowed = sqrt(-sosmc_i_log1(NULL, TARGET));
    double low = 0, high = INFINITY, tried = s->increment > 0 ? fmin(whole, s->increment) : whole;
    for (int k = 0; k < 200 && high - low > (1 - NEAR) * low; k++) {
        double far = isfinite(most) ? distance(s, tried, most) : INFINITY;
        if (far <= allowed)
            low = tried;
        else
            high = tried;
        if (low == whole || (far <= allowed && far >= NEAR * allowed)) break;
        tried = fmin(whole, tried * (AIM * allowed / far));
        if (!(tried > low && tried < high)) tried = 0.5 * (low + high);
    }
    s->increment = low > 0 ? low : high;
    return low == whole ? 1 : s->t + s->increment;
}

/* Adds `increment` times d to the log-weights; normalises; log Z grows by the log of the weighted mean. */
static int weigh(state *s, double increment)
{
    pass_cloud *p = s->p;
    double most = -INFINITY, total = 0;
    for (int i = 0; i < p->n; i++) {
        s->logw[i] = p->w[i] > 0 ? s->logw[i] + increment * s->d[i] : -INFINITY;
        if (s->logw[i] > most) most = s->logw[i];
    }
    if (!isfinite(most)) return -1;
    for (int i = 0; i < p->n; i++) p->w[i] = s->logw[i] - most;
    sosmc_exp(s->h.simd, p->n, p->w, p->w);
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

/* Where the first coordinate of a particle stands. */
static size_t place_of(const state *s, int i)
{
    return (size_t)(i / s->h.tile) * s->h.vector + (size_t)(i % s->h.tile);
}

static void gather_tiles(const state *s, double *x)
{
    size_t dim = (size_t)s->p->dim, ld = (size_t)s->h.ld;
    memcpy(s->keep, x, (size_t)tiles(s) * s->h.vector * sizeof(double));
    for (int i = 0; i < s->p->n; i++) {
        const double *from = s->keep + place_of(s, s->ancestor[i]);
        double *to = x + place_of(s, i);
        for (size_t j = 0; j < dim; j++) to[j * ld] = from[j * ld];
    }
}

static void gather(const state *s, double *values)
{
    memcpy(s->spare, values, (size_t)s->p->n * sizeof(double));
    for (int i = 0; i < s->p->n; i++) values[i] = s->spare[s->ancestor[i]];
}

static sosmc_status resample(state *s)
{
    pass_cloud *p = s->p;
    sosmc_status status = sosmc_resample(SOSMC_SYSTEMATIC, name(s, STREAM_RESAMPLE, (uint64_t)p->temperatures), p->n,
                                         p->w, s->scratch, s->ancestor);
    if (status != SOSMC_OK) return status;
    gather_tiles(s, p->x);
    if (s->task->c->gradient) {
        gather_tiles(s, s->gU);
        gather_tiles(s, s->gq);
    }
    gather(s, p->U);
    gather(s, s->Lq);
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
    (void)incremental(s);
    p->khat = sosmc_i_khat(p->n, s->d, s->scratch);
    for (int i = 0; i < p->n; i++)
        s->d[i] = isfinite(p->U[i]) ? 0 : -INFINITY; /* outside the support: no weight at any t */
    if (weigh(s, 1)) return SOSMC_OK;
    if (s->task->plain > 0 && p->khat <= s->task->plain) {
        (void)incremental(s);
        if (weigh(s, 1)) return SOSMC_OK;
        s->t = p->arrived = 1;
        p->acceptance = NAN;
        return SOSMC_OK;
    }
    if (s->task->only_plain) return SOSMC_OK;
    while (s->t < 1 && p->temperatures < MOST_TEMPERATURES) {
        if (s->task->stop && s->task->stop(s->task->stop_ctx)) return SOSMC_STOPPED;
        double next = next_temperature(s);
        if (weigh(s, next - s->t)) return SOSMC_OK;
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
    size_t first = (size_t)task * (size_t)s->h.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)first, p->n);
    double *row = row_of(s, worker, ENERGY);
    b.x = points_of(s, task).x;
    if (p->R) {
        if (s->task->score->eval(s->task->score->self, &b, row)) return SOSMC_EMODEL;
        memcpy(p->R + first, row, (size_t)b.n * sizeof(double));
    }
    if (p->D) {
        double *scratch = work_of(s, worker), *D = scratch + sosmc_i_scores_scratch(m);
        if (sosmc_i_scores(m, s->task->theta, &b, scratch, D)) return SOSMC_EMODEL;
        sosmc_i_to_rows(p->dim_theta, b.ld, b.n, D, p->D + first * (size_t)p->dim_theta);
    }
    if (p->Uref) {
        sosmc_batch ref = sosmc_i_host_batch(&s->ref, worker, (int64_t)first, p->n);
        ref.x = b.x;
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
    s->h.simd = s->ref.simd = sosmc_i_simd(task->simd);
    if (status == SOSMC_OK) status = sosmc_i_host_open(&s->h, task->theta, VECTORS, ROWS);
    if (status == SOSMC_OK && task->theta_ref) status = sosmc_i_host_open(&s->ref, task->theta_ref, 0, 0);
    if (status != SOSMC_OK) return status;
    *out = (pass_cloud){.n = task->particles, .dim = m->dim_x, .dim_theta = m->dim_theta};
    size_t workers = (size_t)s->h.workers, all = (size_t)tiles(s) * s->h.vector, parts = 20;
    size_t moving = LAW_WORK * dim, scoring = p ? sosmc_i_scores_scratch(m) + p * (size_t)s->h.ld : 0;
    s->room_each = ((moving > scoring ? moving : scoring) + 7) / 8 * 8;
    size_t doubles = workers * s->room_each + 4 * all + dim + n * (12 + p) + 1 + 8 * parts;
    double *d = out->memory = aligned_alloc(64, (doubles * sizeof *d + 63) / 64 * 64);
    out->eve = calloc(3 * n, sizeof(int));
    if (!d || !out->eve) return SOSMC_ENOMEM;
    s->eve = out->eve + n;
    s->ancestor = s->eve + n;
    out->x = part_of(&d, all);
    s->gU = part_of(&d, all);
    s->gq = part_of(&d, all);
    s->keep = part_of(&d, all);
    memset(out->x, 0, 3 * all * sizeof(double)); /* a model may read padding */
    s->room = part_of(&d, workers * s->room_each);
    s->inverse = part_of(&d, dim);
    out->w = part_of(&d, n);
    out->U = part_of(&d, n);
    out->class_sum = part_of(&d, n);
    if (task->score) out->R = part_of(&d, n);
    if (task->theta_ref) out->Uref = part_of(&d, n);
    if (p) out->D = part_of(&d, n * p);
    s->Lq = part_of(&d, n);
    s->logw = part_of(&d, n);
    s->d = part_of(&d, n);
    s->accepted = part_of(&d, n);
    s->spare = part_of(&d, n);
    s->scratch = part_of(&d, 2 * n + 1);
    for (size_t j = 0; j < dim; j++) s->inverse[j] = 1 / task->c->C[task->c->diagonal ? j : j * dim + j];
    return SOSMC_OK;
}

sosmc_status sosmc_i_pass(const pass_task *task, pass_cloud *out)
{
    state s = {.task = task, .code = sosmc_i_tile_code(task->simd), .p = out};
    *out = (pass_cloud){.n = 0};
    sosmc_status status = open_pass(&s, task, out);
    if (status == SOSMC_OK) {
        double log_n = sosmc_i_log1(NULL, (double)out->n), dim = out->dim < 1 ? 1 : out->dim;
        s.step = 1 / (1 + 0.2 * sqrt(dim));
        for (int i = 0; i < out->n; i++) {
            out->parts = sosmc_i_law_of(task->q, i, out->n) + 1;
            out->part_end[out->parts - 1] = i + 1;
        }
        for (int k = 1; k < out->parts; k++) /* a component without a particle is empty */
            if (out->part_end[k] < out->part_end[k - 1]) out->part_end[k] = out->part_end[k - 1];
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
    double mean = f ? sosmc_i_pass_mean(p, f) : 0, sum = 0;
    memset(p->class_sum, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0) p->class_sum[p->eve[i]] += p->w[i] * ((f ? f[i] - mean : 0) + c);
    for (int k = 0, first = 0; k < p->parts; first = p->part_end[k++]) {
        double n = p->part_end[k] - first, centre = 0, squares = 0;
        for (int i = first; i < p->part_end[k]; i++) centre += p->class_sum[i] / n;
        if (n < 2) centre = c / p->n; /* one ancestor has no scatter of its own */
        for (int i = first; i < p->part_end[k]; i++) squares += (p->class_sum[i] - centre) * (p->class_sum[i] - centre);
        sum += n < 2 ? squares : squares * n / (n - 1);
    }
    return sqrt(sum);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Puts the m largest of n numbers last, in any order (Hoare's selection). */
static void largest_last(int n, int m, double *x)
{
    int low = 0, high = n - 1, first = n - m;
    while (low < high) {
        double pivot = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i > j) break;
            double kept = x[i];
            x[i++] = x[j];
            x[j--] = kept;
        }
        if (first > j && first < i) return;
        if (first <= j)
            high = j;
        else
            low = i;
    }
}

static double log1(double x) { return sosmc_i_log1(NULL, x); }

/* Mean of log(1 - b y) over m values. work: m doubles. */
static double mean_log(double b, int m, const double *y, double *work)
{
    double sum = 0;
    for (int i = 0; i < m; i++) work[i] = 1 - b * y[i];
    sosmc_log(NULL, m, work, work);
    for (int i = 0; i < m; i++) sum += work[i];
    return sum / m;
}

double sosmc_i_khat(int n, const double *logw, double *work)
{
    enum { CANDIDATES = 200 };
    int m = (int)fmin(n / 5.0, 3 * sqrt((double)n)), q = 30 + (int)sqrt((double)m);
    if (m < 5 || q > CANDIDATES) return NAN;
    double *sorted = work, *y = work + n, likelihood[CANDIDATES], b[CANDIDATES], best = -INFINITY, total = 0, mean = 0;
    for (int i = 0; i < n; i++) sorted[i] = isnan(logw[i]) ? -INFINITY : logw[i];
    largest_last(n, m + 1, sorted);
    qsort(sorted + n - m - 1, (size_t)m + 1, sizeof *sorted, ascending);
    double most = sorted[n - 1], cut = sosmc_i_exp1(NULL, fmax(sorted[n - m - 1] - most, -700));
    for (int i = 0; i < m; i++) y[i] = fmax(sosmc_i_exp1(NULL, fmax(sorted[n - m + i] - most, -700)) - cut, 0);
    if (!isfinite(most) || !(y[m - 1] > 1e-300)) return NAN;
    double quartile = fmax(y[(int)floor(m / 4.0 + 0.5) - 1], 1e-300);
    for (int j = 0; j < q; j++) {
        b[j] = 1 / y[m - 1] + (1 - sqrt(q / (j + 0.5))) / (3 * quartile);
        double k = mean_log(b[j], m, y, y + m);
        likelihood[j] = m * (log1(-b[j] / k) - k - 1);
        if (likelihood[j] > best) best = likelihood[j];
    }
    if (!isfinite(best)) return NAN;
    for (int j = 0; j < q; j++) {
        double w = isfinite(likelihood[j]) ? sosmc_i_exp1(NULL, likelihood[j] - best) : 0;
        total += w;
        mean += w * b[j];
    }
    return mean_log(mean / total, m, y, y + m) * m / (m + 10.0) + 0.5 * 10 / (m + 10.0);
}
