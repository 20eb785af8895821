/* cloud.c: where a particle's numbers are, and how they travel.
 *
 * A particle's record is its columns of x, gx, aux and its entries of U, R, Uref. Whatever moves particles (resampling,
 * checkpoints, ranks) moves whole records, so nothing cached about a particle can be left behind. */
#include "engine_inside.h"

sosmc_batch sosmc_i_batch(const sosmc *s, const layout *l, int t, const double *x)
{
    return (sosmc_batch){
        .x = x, .prep = s->prep, .simd = s->simd, .dim = l->dim, .n = l->count[t], .ld = l->ld, .first = l->first[t]};
}

static void *parked_work(const sosmc *s, int t) { return s->work + (size_t)(t - s->cut.tile_lo) * s->work_stride; }

void sosmc_i_lend_work(const sosmc *s, int t, int worker, sosmc_batch *b)
{
    b->work = parks(s, t) ? parked_work(s, t) : s->worker[worker].work;
    b->next_work = t + 1 < s->cut.tile_hi && parks(s, t + 1) ? parked_work(s, t + 1) : NULL;
}

/* The arrays of a record, in the order of checkpoints. `rows` is how many rows of ld each has per tile. */
typedef struct {
    double *base;
    size_t rows, stride;
} part;
enum { PARTS = 7, GATHERED = 64 };

static int parts_of(const sosmc *s, const state *st, part parts[PARTS])
{
    const layout *l = &s->cut;
    const part all[PARTS] = {
        {st->c.x, (size_t)l->dim, l->vector},
        {st->c.gx, (size_t)l->dim, l->vector},
        {st->c.aux, (size_t)l->dim * (size_t)s->cfg.kernel.aux, l->vector * (size_t)s->cfg.kernel.aux},
        {st->c.U, 1, (size_t)l->ld},
        {st->c.R, 1, (size_t)l->ld},
        {st->c.Uref, 1, (size_t)l->ld},
        {st->logw, 1, (size_t)l->ld}};
    int count = 0;
    for (int i = 0; i < PARTS; i++)
        if (all[i].base && all[i].rows > 0) parts[count++] = all[i];
    return count;
}

static size_t record_rows(const sosmc *s, int with_logw)
{
    part parts[PARTS];
    size_t rows = 0;
    int count = parts_of(s, s->now, parts) - (with_logw ? 0 : 1);
    for (int i = 0; i < count; i++) rows += parts[i].rows;
    return rows;
}

size_t sosmc_i_record_doubles(const sosmc *s, int n) { return record_rows(s, 1) * (size_t)n; }

void sosmc_i_pack(const sosmc *s, const state *st, int t, double *record)
{
    part parts[PARTS];
    int count = parts_of(s, st, parts), n = s->cut.count[t];
    for (int i = 0; i < count; i++) {
        const double *from = parts[i].base + (size_t)(t - s->cut.tile_lo) * parts[i].stride;
        for (size_t j = 0; j < parts[i].rows; j++, record += n)
            memcpy(record, from + j * (size_t)s->cut.ld, (size_t)n * sizeof(double));
    }
}

void sosmc_i_unpack(const sosmc *s, state *st, int t, const double *record)
{
    part parts[PARTS];
    int count = parts_of(s, st, parts), n = s->cut.count[t];
    for (int i = 0; i < count; i++) {
        double *to = parts[i].base + (size_t)(t - s->cut.tile_lo) * parts[i].stride;
        for (size_t j = 0; j < parts[i].rows; j++, record += n)
            memcpy(to + j * (size_t)s->cut.ld, record, (size_t)n * sizeof(double));
    }
}

/* ---------------------------------------------------------------------------- resampled particles change places */

/* Where offspring's ancestors are: in this rank's tiles, or in the packet another rank sent. */
static int owns(const sosmc *s, int64_t particle)
{
    const layout *l = &s->cut;
    int t = tile_of(l, particle);
    return t >= l->tile_lo && t < l->tile_hi;
}

/* Some offspring of a tile whose ancestors are this rank's, and where these are. */
typedef struct {
    int n, place[GATHERED], column[GATHERED];
    size_t tile[GATHERED];
} offspring;

/* Row by row: a row of the tile is written once, however long the particles are. */
static void copy_columns(const part *from, const part *to, size_t ld, const offspring *o, size_t t)
{
    const double *source[GATHERED];
    for (int i = 0; i < o->n; i++) source[i] = from->base + o->tile[i] * from->stride + o->column[i];
    double *restrict row = to->base + t * to->stride;
    for (size_t j = 0; j < from->rows * ld; j += ld, row += ld)
        for (int i = 0; i < o->n; i++) row[o->place[i]] = source[i][j];
}

static sosmc_status gather_tile(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = &s->cut;
    int t = l->tile_lo + task;
    part from[PARTS], to[PARTS];
    int parts = parts_of(s, s->now, from) - 1; /* all but the log-weights, which start anew */
    (void)parts_of(s, s->spare, to);
    const int *ancestor = s->ancestors + l->first[t];
    for (int i = 0; i < l->count[t];) {
        offspring o;
        o.n = 0;
        for (; i < l->count[t] && o.n < GATHERED; i++) {
            int a = tile_of(l, ancestor[i]);
            if (a < l->tile_lo || a >= l->tile_hi) continue;
            o.tile[o.n] = (size_t)(a - l->tile_lo);
            o.column[o.n] = (int)(ancestor[i] - l->first[a]);
            o.place[o.n++] = i;
        }
        for (int p = 0; p < parts; p++) copy_columns(&from[p], &to[p], (size_t)l->ld, &o, (size_t)task);
    }
    return SOSMC_OK;
}

static void pack_particle(const part *parts, int count, const layout *l, int64_t particle, double *record)
{
    int t = tile_of(l, particle), i = (int)(particle - l->first[t]);
    for (int p = 0; p < count; p++) {
        const double *a = parts[p].base + (size_t)(t - l->tile_lo) * parts[p].stride + i;
        for (size_t j = 0; j < parts[p].rows; j++) *record++ = a[j * (size_t)l->ld];
    }
}

static void unpack_particle(const part *parts, int count, const layout *l, int t, int i, const double *record)
{
    for (int p = 0; p < count; p++) {
        double *b = parts[p].base + (size_t)(t - l->tile_lo) * parts[p].stride + i;
        for (size_t j = 0; j < parts[p].rows; j++) b[j * (size_t)l->ld] = *record++;
    }
}

void sosmc_i_rank_particles(const layout *l, int rank, int size, int64_t *lo, int64_t *hi)
{
    int a = first_tile(l, sosmc_i_rank_bound(l->blocks, rank, size));
    int b = first_tile(l, sosmc_i_rank_bound(l->blocks, rank + 1, size));
    *lo = a < l->tiles ? (int64_t)a * l->tile : l->particles;
    *hi = b < l->tiles ? (int64_t)b * l->tile : l->particles;
}

/* Ancestors ascend, so what one rank needs of another is a run without repetitions: each record is sent once. */
static sosmc_status exchange_records(sosmc *s)
{
    const layout *l = &s->cut;
    const sosmc_comm *comm = &s->cfg.comm;
    part from[PARTS], to[PARTS];
    int parts = parts_of(s, s->now, from) - 1;
    (void)parts_of(s, s->spare, to);
    size_t record = record_rows(s, 0);
    int64_t my_lo, my_hi, lo, hi;
    sosmc_i_rank_particles(l, comm->rank, comm->size, &my_lo, &my_hi);

    double *out = s->packet_out;
    for (int r = 0; r < comm->size; r++) {
        double *begin = out;
        sosmc_i_rank_particles(l, r, comm->size, &lo, &hi);
        int64_t last = -1;
        for (int64_t i = lo; i < hi && r != comm->rank; i++) {
            int64_t a = s->ancestors[i];
            if (a == last || a < my_lo || a >= my_hi) continue;
            pack_particle(from, parts, l, a, out);
            out += record;
            last = a;
        }
        s->bytes_out[r] = (size_t)(out - begin) * sizeof(double);
    }
    for (int r = 0; r < comm->size; r++) {
        sosmc_i_rank_particles(l, r, comm->size, &lo, &hi);
        size_t count = 0;
        int64_t last = -1;
        for (int64_t i = my_lo; i < my_hi && r != comm->rank; i++) {
            int64_t a = s->ancestors[i];
            if (a == last || a < lo || a >= hi) continue;
            count++;
            last = a;
        }
        s->bytes_in[r] = count * record * sizeof(double);
    }
    if (comm->exchange(comm->self, s->bytes_out, s->packet_out, s->bytes_in, s->packet_in))
        return sosmc_i_fail(s, SOSMC_ECOMM, "iteration %lld: the communicator's exchange failed on rank %d",
                            (long long)s->now->v.iteration, comm->rank);
    size_t received = 0;
    int64_t last = -1;
    for (int t = l->tile_lo; t < l->tile_hi; t++)
        for (int i = 0; i < l->count[t]; i++) {
            int64_t a = s->ancestors[l->first[t] + i];
            if (owns(s, a)) continue;
            if (a != last) received++;
            unpack_particle(to, parts, l, t, i, s->packet_in + (received - 1) * record);
            last = a;
        }
    return SOSMC_OK;
}

sosmc_status sosmc_i_gather_cloud(sosmc *s)
{
    TRY(sosmc_i_parallel(s->threads, gather_tile, s, s->cut.tile_hi - s->cut.tile_lo));
    return ranks(s) > 1 ? exchange_records(s) : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the cloud for the user */

static void copy_to_user(const sosmc *s, int t, const double *x, const double *logw, double logmean, double *user_x,
                         double *user_logw, size_t ld)
{
    const layout *l = &s->cut;
    double shift = logmean + sosmc_i_log1(s->simd, (double)l->particles);
    for (int i = 0; i < l->count[t]; i++) {
        int64_t particle = l->first[t] + i;
        if (user_logw) user_logw[particle] = logw[i] - shift;
        if (user_x)
            for (int j = 0; j < l->dim; j++) user_x[particle * l->dim + j] = x[(size_t)j * ld + (size_t)i];
    }
}

sosmc_status sosmc_i_cloud(const sosmc *s, double *x, double *logw)
{
    const layout *l = &s->cut;
    const state *st = s->now;
    int size = ranks(s), rounds = 0;
    if (!s->ready) return s->failed;
    for (int r = 0; r < size && size > 1; r++) {
        int tiles = l->block_tile[sosmc_i_rank_bound(l->blocks, r + 1, size)] -
                    l->block_tile[sosmc_i_rank_bound(l->blocks, r, size)];
        if (tiles > rounds) rounds = tiles;
    }
    if (size == 1)
        for (int t = l->tile_lo; t < l->tile_hi; t++)
            copy_to_user(s, t, vector_at(st->c.x, l, t), row_at(st->logw, l, t), st->v.logmean, x, logw, (size_t)l->ld);
    size_t bytes = sosmc_i_record_doubles(s, l->count[0]) * sizeof(double);
    for (int round = 0; round < rounds; round++) {
        int mine = l->tile_lo + round;
        if (mine < l->tile_hi) sosmc_i_pack(s, st, mine, s->packet_out);
        if (s->cfg.comm.allgather(s->cfg.comm.self, s->packet_out, bytes, s->packet_in))
            return sosmc_i_fail(s, SOSMC_ECOMM, "the communicator's allgather failed on rank %d", s->cfg.comm.rank);
        for (int r = 0; r < size; r++) {
            int t = l->block_tile[sosmc_i_rank_bound(l->blocks, r, size)] + round;
            if (t >= l->block_tile[sosmc_i_rank_bound(l->blocks, r + 1, size)]) continue;
            const double *record = (const double *)((const char *)s->packet_in + (size_t)r * bytes);
            size_t n = (size_t)l->count[t], rows = record_rows(s, 1);
            copy_to_user(s, t, record, record + (rows - 1) * n, st->v.logmean, x, logw, n);
        }
    }
    return SOSMC_OK;
}

sosmc_status sosmc_cloud(const sosmc *s, double *x, double *logw)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter_reading(s));
    sosmc_status status = sosmc_i_cloud(s, x, logw);
    if (status == SOSMC_OK && x) sosmc_i_to_x(&s->p.model, s->cut.particles, x);
    return sosmc_i_leave_reading(s, status);
}
