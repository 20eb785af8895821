/* chains.c: independent chains of a kernel at a fixed theta, and the mean of a score along them (maths.md FRESH):
 *
 *     x_0 uniform on the box or given,     x_{t+1} ~ K(x_t, .), where no kernel is named x_t - h grad U(x_t) + sqrt(2h) z_{t+1}
 *
 * Nothing is weighed. A tile makes all its steps before the next one starts, so its numbers stay
 * in a core's cache. Invariant: a chain's path depends on the model, the seed and the chain's number alone, and the
 * sums run over chains in order; tiles and threads change no bit. */
#include <math.h>
#include <sosmc/analysis.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/bounds.h"
#include "host.h"
#include "base/table.h"

enum { STEPS_BETWEEN_LOOKS = 128 };
/* The largest number of a step that the name of a random number can hold. */
static const int64_t MOST_STEPS = INT64_C(1) << 47;

/* Everything the tiles share. */
typedef struct {
    host h;
    const sosmc_model *model;
    const double *theta;
    const sosmc_score *score;
    sosmc_kernel kernel;
    sosmc_fresh f;
    sosmc_fresh_record record;
    int64_t steps;
    double *final;      /* chains rows of dim, or NULL */
    double *chain_mean; /* of the score, one per chain */
    atomic_int stopped;
} ensemble;

/* What a kernel reads and writes. */
typedef struct {
    double *x, *gx, *aux; /* dim rows of ld, of aux kernel.aux times as many */
    double *U;            /* ld */
} place;

/* One tile on its way. */
typedef struct {
    sosmc_batch b;
    place now, next;
    double *tmp;                    /* the kernel's scratch */
    double *accept, *score, *total; /* ld of each; total: of the scores to be averaged */
    int snapshot;                   /* the next one to keep */
    int waiting;                    /* chains without a hit */
} tile;

/* ------------------------------------------------------------------------------------------------ one tile */

/* Doubles of a worker: vectors of two places and of the kernel's scratch; then rows: 2 U, the kernel's 4, and 3 more. */
static size_t vectors_of(const ensemble *e) { return 2 * (2 + (size_t)e->kernel.aux) + (size_t)e->kernel.scratch; }
enum { ROWS_OF_KERNEL = 4, ROWS = ROWS_OF_KERNEL + 5 };

static place take_place(const ensemble *e, double **memory)
{
    place p = {.x = *memory, .gx = *memory + e->h.vector, .aux = *memory + 2 * e->h.vector};
    p.U = p.aux + (size_t)e->kernel.aux * e->h.vector;
    *memory = p.U + e->h.row;
    return p;
}

static tile tile_at(const ensemble *e, int number, int worker)
{
    double *memory = host_room(&e->h, worker);
    sosmc_batch b = sosmc_i_host_batch(&e->h, worker, (int64_t)number * e->h.tile, e->f.chains);
    memset(memory, 0, e->h.scratch); /* what another tile left */
    tile t = {.b = b, .now = take_place(e, &memory), .next = take_place(e, &memory), .tmp = memory};
    t.accept = t.tmp + (size_t)e->kernel.scratch * e->h.vector + ROWS_OF_KERNEL * e->h.row;
    t.score = t.accept + e->h.row;
    t.total = t.score + e->h.row;
    return t;
}

/* Sets the first states of the chains and, for a kernel that is not blind, the energies and gradients there. */
static sosmc_status start(const ensemble *e, tile *t)
{
    sosmc_rng rng = {.seed = e->f.seed, .stream = SOSMC_STREAM_INIT};
    double width = e->f.high - e->f.low, *u = t->score;
    for (int j = 0; j < e->model->dim_x; j++) {
        double *x = t->now.x + (size_t)j * (size_t)e->h.ld;
        const double *given = e->f.start ? e->f.start + (size_t)t->b.first * (size_t)e->model->dim_x + (size_t)j : NULL;
        if (!given) sosmc_uniforms(rng, (uint32_t)j, &t->b, u);
        for (int i = 0; i < t->b.n; i++)
            x[i] = given ? given[(size_t)i * (size_t)e->model->dim_x] : e->f.low + width * u[i];
    }
    t->waiting = e->record.hit ? t->b.n : 0;
    for (int i = 0; i < t->waiting; i++) e->record.hit[t->b.first + i] = -1;
    rng.stream = SOSMC_STREAM_BEGIN;
    if (e->kernel.begin && e->kernel.begin(&e->kernel, rng, &t->b, t->now.aux)) return SOSMC_EMODEL;
    if (e->kernel.blind || e->steps == 0) return SOSMC_OK;
    return e->model->energy(e->model->self, e->theta, &t->b, t->now.U, t->now.gx) ? SOSMC_EMODEL : SOSMC_OK;
}

/* Row i of the tile, contiguous. */
static void copy_state(const ensemble *e, const tile *t, int i, double *to)
{
    for (int j = 0; j < e->model->dim_x; j++) to[j] = t->now.x[(size_t)j * (size_t)e->h.ld + (size_t)i];
}

static void copy_states(const ensemble *e, const tile *t, double *rows)
{
    for (int i = 0; i < t->b.n; i++)
        copy_state(e, t, i, rows + ((size_t)t->b.first + (size_t)i) * (size_t)e->model->dim_x);
}

static void remember(const ensemble *e, tile *t, int64_t step)
{
    const sosmc_fresh_record *r = &e->record;
    size_t dim = (size_t)e->model->dim_x, states = (size_t)e->steps + 1;
    if (t->snapshot < r->snapshots && r->at[t->snapshot] == step)
        copy_states(e, t, r->snapshot + (size_t)t->snapshot++ * (size_t)e->f.chains * dim);
    for (int64_t i = 0, left = r->paths - t->b.first; i < left && i < t->b.n; i++)
        copy_state(e, t, (int)i, r->path + ((size_t)(t->b.first + i) * states + (size_t)step) * dim);
}

static void note_hits(const ensemble *e, tile *t, int64_t step)
{
    int64_t *hit = e->record.hit + t->b.first;
    for (int i = 0; i < t->b.n; i++)
        if (hit[i] < 0 && t->score[i] > 0.5) hit[i] = step, t->waiting--;
}

/* The score is evaluated only at the steps whose scores are used. */
static sosmc_status observe(const ensemble *e, tile *t, int64_t step)
{
    int averaging = step > e->f.burn_in;
    remember(e, t, step);
    if (!e->score || (!averaging && !t->waiting)) return SOSMC_OK;
    if (e->score->eval(e->score->self, &t->b, t->score)) return SOSMC_EMODEL;
    for (int i = 0; averaging && i < t->b.n; i++) t->total[i] += t->score[i];
    if (t->waiting) note_hits(e, t, step);
    return SOSMC_OK;
}

static sosmc_status move(const ensemble *e, tile *t, int64_t step)
{
    place before = t->now;
    sosmc_move m = {.model = e->model,
                    .theta_prev = e->theta,
                    .theta = e->theta,
                    .prep_prev = e->h.prep,
                    .h = e->kernel.h,
                    .rng = {.seed = e->f.seed, .step = (uint64_t)step, .stream = SOSMC_STREAM_MOVE},
                    .b = t->b,
                    .x = before.x,
                    .U = before.U,
                    .gx = before.gx,
                    .aux = before.aux,
                    .x_new = t->next.x,
                    .U_new = t->next.U,
                    .gx_new = t->next.gx,
                    .aux_new = t->next.aux,
                    .accept = t->accept,
                    .tmp = t->tmp};
    if (e->kernel.step(&e->kernel, &m)) return SOSMC_EMODEL;
    t->now = t->next;
    t->next = before;
    t->b.x = t->now.x;
    return SOSMC_OK;
}

/* A state that is not finite never becomes finite again, so it is enough to check now and then. */
static sosmc_status look(ensemble *e, const tile *t)
{
    for (int j = 0; j < e->model->dim_x; j++)
        if (!t->b.simd->all_finite((size_t)t->b.n, t->now.x + (size_t)j * (size_t)e->h.ld)) return SOSMC_ENUMERIC;
    if (e->record.stop && e->record.stop(e->record.stop_ctx)) atomic_store(&e->stopped, 1);
    return SOSMC_OK;
}

static sosmc_status finish(const ensemble *e, const tile *t)
{
    double *mean = e->chain_mean + t->b.first, count = (double)e->f.averaged;
    if (e->final) copy_states(e, t, e->final);
    /* Without steps this is 0/0, hence NaN, as the header says. */
    for (int i = 0; e->score && i < t->b.n; i++) mean[i] = t->total[i] / count;
    for (int i = 0; e->score && e->f.averaged && i < t->b.n; i++)
        if (!isfinite(mean[i])) return SOSMC_ENUMERIC;
    return SOSMC_OK;
}

static sosmc_status run_tile(void *ctx, int task, int worker)
{
    ensemble *e = ctx;
    tile t = tile_at(e, task, worker);
    sosmc_status status = start(e, &t);
    if (status != SOSMC_OK) return status;
    if ((status = observe(e, &t, 0)) != SOSMC_OK) return status;
    for (int64_t step = 1; step <= e->steps; step++) {
        if ((status = move(e, &t, step)) != SOSMC_OK) return status;
        if ((status = observe(e, &t, step)) != SOSMC_OK) return status;
        if (step % STEPS_BETWEEN_LOOKS && step != e->steps) continue;
        if ((status = look(e, &t)) != SOSMC_OK) return status;
        if (atomic_load(&e->stopped)) return SOSMC_OK; /* the caller is told at the end */
    }
    return finish(e, &t);
}

/* ------------------------------------------------------------------------------------------------ all of them */

static int is_record(const ensemble *e)
{
    const sosmc_fresh_record *r = &e->record;
    if (r->snapshots < 0 || (r->snapshots && (!r->at || !r->snapshot))) return 0;
    for (int k = 0; k < r->snapshots; k++)
        if (r->at[k] < 0 || r->at[k] > e->steps || (k && r->at[k] <= r->at[k - 1])) return 0;
    if (r->paths < 0 || r->paths > e->f.chains || (r->paths && !r->path)) return 0;
    return !r->hit || e->score;
}

static int is_fresh(const sosmc_fresh *f)
{
    if (f->chains < 1 || f->burn_in < 0 || f->averaged < 0 || f->threads < 0 || f->threads > HOST_MOST_THREADS)
        return 0;
    if (f->burn_in > MOST_STEPS || f->averaged > MOST_STEPS - f->burn_in) return 0;
    return f->start || (isfinite(f->low) && isfinite(f->high) && f->low <= f->high);
}

/* What the engine asks of a kernel, except where weights are concerned. */
static int is_kernel(const sosmc_kernel *k)
{
    enum { MOST_VECTORS = 64 };
    char sentence[256];
    if (!k->step || !(k->h > 0 && isfinite(k->h))) return 0;
    if (k->aux < 0 || k->scratch < 0 || k->aux >= MOST_VECTORS || k->scratch >= MOST_VECTORS) return 0;
    return !k->check || !k->check(k, 0, sentence, sizeof sentence);
}

/* Mean, standard error and population standard deviation of the chains' means, in the chains' order. */
static void summarise(const ensemble *e, double *mean, double *error, double *sd)
{
    double n = e->f.chains, sum = 0, squares = 0, centre;
    for (int i = 0; i < e->f.chains; i++) sum += e->chain_mean[i];
    centre = e->score ? sum / n : NAN;
    for (int i = 0; i < e->f.chains; i++) squares += (e->chain_mean[i] - centre) * (e->chain_mean[i] - centre);
    if (mean) *mean = centre;
    if (error) *error = e->f.chains > 1 ? sqrt(squares / (n - 1) / n) : NAN;
    if (sd) *sd = sqrt(squares / n);
}

/* All memory is taken here, before the first step. */
static sosmc_status run_all(ensemble *e, double *mean, double *error, double *sd)
{
    sosmc_status status = sosmc_i_host_cut(&e->h, e->model, e->f.chains, e->f.threads);
    if (status == SOSMC_OK) status = sosmc_i_host_open(&e->h, e->theta, vectors_of(e), ROWS);
    if (status != SOSMC_OK) return status;
    e->chain_mean = calloc((size_t)e->f.chains, sizeof *e->chain_mean);
    status = e->chain_mean ? sosmc_i_host_parallel(&e->h, run_tile, e, (e->f.chains - 1) / e->h.tile + 1)
                           : SOSMC_ENOMEM;
    if (status == SOSMC_OK && atomic_load(&e->stopped)) status = SOSMC_STOPPED;
    if (status == SOSMC_OK) summarise(e, mean, error, sd);
    free(e->chain_mean);
    sosmc_i_host_close(&e->h);
    return status;
}

static sosmc_status run(ensemble e, const sosmc_fresh_record *record, double *mean, double *error, double *sd)
{
    e.kernel = e.f.kernel ? *e.f.kernel : sosmc_ula(e.f.step);
    if (record) e.record = *record;
    if (e.model->dim_x < 1 || sosmc_i_first_bound(e.model) >= 0 || !is_fresh(&e.f) || !is_kernel(&e.kernel))
        return SOSMC_EINVAL;
    e.steps = e.f.burn_in + e.f.averaged;
    if (!is_record(&e)) return SOSMC_EINVAL;
    atomic_init(&e.stopped, 0);
    return run_all(&e, mean, error, sd);
}

sosmc_status sosmc_fresh_reward(const sosmc_model *model, const double *theta, const sosmc_score *score,
                                const sosmc_fresh *f, const sosmc_fresh_record *record, double *x, double *mean,
                                double *error)
{
    STANDARD_ARITHMETIC;
    ensemble e = {.model = model, .theta = theta, .score = score, .f = *f, .final = x};
    return run(e, record, mean, error, NULL);
}

sosmc_status sosmc_fresh_final(const sosmc_model *model, const double *theta, const sosmc_score *score,
                               const sosmc_fresh *f, const sosmc_fresh_record *record, double *x, double *mean,
                               double *sd)
{
    STANDARD_ARITHMETIC;
    ensemble e = {.model = model, .theta = theta, .score = score, .f = *f, .final = x};
    if (!score || !is_fresh(f) || f->burn_in + f->averaged < 1) return SOSMC_EINVAL;
    e.f.burn_in = f->burn_in + f->averaged - 1; /* an average over one step is the score of the final state */
    e.f.averaged = 1;
    return run(e, record, mean, NULL, sd);
}
