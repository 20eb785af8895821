/* weights.c: from log-weights to weights, effective sample size, running log Z and resampling.
 *
 * logw holds log-weights since the last resampling, up to the constant `logmean` = log mean exp(logw), which is taken out
 * before the next increment is added. So each reweighing adds exactly log sum_i w_{k-1,i} G_{k,i} to log Z, with the
 * normalised incoming weights (maths.md LOGZ). */
#include "engine_inside.h"
#include "resample.h"

static sosmc_status max_of_tile(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    int t = s->cut.tile_lo + task;
    s->tile_max[task] = s->simd->max(s->cut.count[t], row_at(s->now->logw, &s->cut, t));
    return SOSMC_OK;
}

typedef struct {
    sosmc *s;
    double shift;
} weighing;

static sosmc_status weigh_block(void *ctx, int task, int worker)
{
    const weighing *job = ctx;
    sosmc *s = job->s;
    const sample *seen = &s->seen;
    const layout *l = seen->l;
    int block = l->block_lo + task;
    double *sums = s->leaves + (size_t)block * SUM_ALL;
    memset(sums, 0, SUM_ALL * sizeof(double));
    for (int t = l->block_tile[block]; t < l->block_tile[block + 1]; t++) {
        double *w = row_at(seen->w, l, t);
        if (s->weighted) {
            s->simd->weigh(l->count[t], row_at(s->now->logw, l, t), job->shift, optional_row(seen->c->R, l, t),
                           row_at(seen->c->U, l, t), optional_row(seen->c->Uref, l, t), w, sums);
        } else { /* w is 1 and stays 1: its logarithm serves as log-weight */
            double *zero = worker_row(s, worker, ROW_A);
            for (int i = 0; i < l->count[t]; i++) zero[i] = 0;
            s->simd->weigh(l->count[t], zero, 0, optional_row(seen->c->R, l, t), row_at(seen->c->U, l, t),
                           optional_row(seen->c->Uref, l, t), w, sums);
        }
        if (l == &s->cut) sums[SUM_ACCEPT] += s->accept_sum[t - l->tile_lo];
    }
    if (l == &s->kept) sums[SUM_ACCEPT] += s->accept_sum[task]; /* one block per tile of the cloud */
    return SOSMC_OK;
}

double sosmc_i_ess(const sosmc *s)
{
    if (!s->weighted) return (double)s->seen.l->particles;
    return s->sums[SUM_W] * s->sums[SUM_W] / s->sums[SUM_W2];
}

static sosmc_status fail_all_weightless(sosmc *s)
{
    char theta[160];
    return sosmc_i_fail(
        s, SOSMC_ENUMERIC,
        "iteration %lld: all %lld particles have weight zero (kernel step %g, %d moves not finite in this "
        "iteration, theta = (%s)); a smaller step or learning rate keeps the cloud alive",
        (long long)s->now->v.iteration, (long long)s->cut.particles, s->now->v.h, s->info.nonfinite,
        sosmc_i_theta_words(s, theta, sizeof theta));
}

sosmc_status sosmc_i_measure(sosmc *s)
{
    weighing job = {.s = s, .shift = 0};
    if (s->weighted) {
        int tasks = s->cut.tile_hi - s->cut.tile_lo;
        double max = -INFINITY;
        int64_t bad = 0;
        if (!s->pending) (void)sosmc_i_parallel(s->threads, max_of_tile, s, tasks); /* a carry leaves them itself */
        for (int i = 0; i < tasks; i++)
            if (s->tile_max[i] > max) max = s->tile_max[i];
        TRY(sosmc_i_agree(s, SOSMC_OK, &max, &bad));
        if (!(max > -INFINITY) || isinf(max)) return fail_all_weightless(s);
        job.shift = max;
    }
    const layout *l = s->seen.l;
    sosmc_status status = sosmc_i_parallel(s->threads, weigh_block, &job, l->block_hi - l->block_lo);
    TRY(sosmc_i_reduce(s, l, s->leaves, SUM_ALL, status));
    memcpy(s->sums, s->leaves, sizeof s->sums);
    s->seen_valid = 1;
    if (!s->weighted) return SOSMC_OK;
    s->now->v.logmean = job.shift + sosmc_i_log1(s->simd, s->sums[SUM_W] / (double)s->cut.particles);
    if (s->pending) s->now->v.logz += s->now->v.logmean;
    s->pending = 0;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- resampling */

/* Every rank learns all weights, so that every rank finds the same ancestors. */
static sosmc_status collect_weights(sosmc *s)
{
    const layout *l = &s->cut;
    int size = ranks(s);
    for (int t = l->tile_lo; t < l->tile_hi; t++)
        memcpy(s->all_w + l->first[t], row_at(s->seen.w, l, t), (size_t)l->count[t] * sizeof(double));
    if (size == 1) return SOSMC_OK;
    size_t room = 0;
    for (int r = 0; r < size; r++) {
        int64_t lo, hi;
        sosmc_i_rank_particles(l, r, size, &lo, &hi);
        if ((size_t)(hi - lo) > room) room = (size_t)(hi - lo);
    }
    int64_t lo, hi;
    sosmc_i_rank_particles(l, s->cfg.comm.rank, size, &lo, &hi);
    memcpy(s->packet_out, s->all_w + lo, (size_t)(hi - lo) * sizeof(double));
    if (s->cfg.comm.allgather(s->cfg.comm.self, s->packet_out, room * sizeof(double), s->packet_in))
        return sosmc_i_fail(s, SOSMC_ECOMM, "iteration %lld: the communicator's allgather failed on rank %d",
                            (long long)s->now->v.iteration, s->cfg.comm.rank);
    for (int r = 0; r < size; r++) {
        sosmc_i_rank_particles(l, r, size, &lo, &hi);
        memcpy(s->all_w + lo, s->packet_in + (size_t)r * room, (size_t)(hi - lo) * sizeof(double));
    }
    return SOSMC_OK;
}

static int chunk_length(int n, int chunk)
{
    int left = n - chunk * SOSMC_I_CHUNK;
    return left < SOSMC_I_CHUNK ? left : SOSMC_I_CHUNK;
}

static sosmc_status cumulate_chunk(void *ctx, int task, int worker)
{
    sosmc_i_offspring *o = ctx;
    sosmc_i_spacings(o, task * SOSMC_I_CHUNK, chunk_length(o->n, task));
    return sosmc_i_cumulate(o, task * SOSMC_I_CHUNK, chunk_length(o->n, task));
}

static sosmc_status point_chunk(void *ctx, int task, int worker)
{
    sosmc_i_offspring *o = ctx;
    sosmc_i_points(o, task * SOSMC_I_CHUNK, chunk_length(o->n, task));
    return SOSMC_OK;
}

static sosmc_status merge_chunk(void *ctx, int task, int worker)
{
    sosmc_i_offspring *o = ctx;
    sosmc_i_merge(o, task * SOSMC_I_CHUNK, chunk_length(o->n, task));
    return SOSMC_OK;
}

/* Residual and SSP resampling round fractions in sequence; the others go through the threads chunk by chunk. */
static sosmc_status find_ancestors(sosmc *s)
{
    int n = (int)s->cut.particles, chunks = (n + SOSMC_I_CHUNK - 1) / SOSMC_I_CHUNK;
    sosmc_resampling scheme = (sosmc_resampling)s->cfg.scheme.resampling;
    sosmc_rng rng = {.seed = s->cfg.seed, .step = (uint64_t)s->now->v.iteration, .stream = SOSMC_STREAM_RESAMPLE};
    if (scheme == SOSMC_RESIDUAL || scheme == SOSMC_SSP)
        return sosmc_i_resample(s->simd, scheme, rng, n, s->all_w, s->resample_scratch, s->ancestors);
    sosmc_i_offspring o = {.simd = s->simd,
                           .scheme = scheme,
                           .rng = rng,
                           .n = n,
                           .offspring = n,
                           .w = s->all_w,
                           .scale = 1, /* the largest weight is 1: measure shifts by the maximum */
                           .c = s->resample_scratch,
                           .p = s->resample_scratch + n,
                           .ancestors = s->ancestors};
    TRY(sosmc_i_parallel(s->threads, cumulate_chunk, &o, chunks));
    TRY(sosmc_i_join(&o));
    TRY(sosmc_i_parallel(s->threads, point_chunk, &o, chunks));
    return sosmc_i_parallel(s->threads, merge_chunk, &o, chunks);
}

sosmc_status sosmc_i_resample_cloud(sosmc *s)
{
    const layout *l = &s->cut;
    size_t tiles = (size_t)(l->tile_hi - l->tile_lo);
    TRY(collect_weights(s));
    if (find_ancestors(s) != SOSMC_OK)
        return sosmc_i_fail(s, SOSMC_ENUMERIC, "iteration %lld: the weights cannot be resampled",
                            (long long)s->now->v.iteration);
    TRY(sosmc_i_gather_cloud(s));
    cloud c = s->now->c;
    s->now->c = s->spare->c;
    s->spare->c = c;
    memset(s->now->logw, 0, tiles * (size_t)l->ld * sizeof(double));
    memset(s->now->fresh, 0, tiles);
    s->now->v.logmean = 0;
    s->seen_valid = s->dropped = 0;
    return SOSMC_OK;
}
