/* checkpoint.c: the whole state as bytes, and its hash.
 *
 *     magic, version, byte order | shape of the problem | last info | scalars, theta, slots, average, pool | tiles | watched |
 *     checksum
 *
 * Everything is written as 64-bit words. The layout does not know threads or ranks. Reading goes into the spare state and
 * takes effect only when the checksum agrees, so a damaged stream changes nothing. What models park in `work` is not
 * stored: tiles that were fresh are evaluated again, which gives the same bits because the inputs are the same. */
#include "engine_inside.h"

/* Version 2 did not know the last number of the shape, scheme.pool_rule; its runs had rule 0. Versions 2 and 3 did not know the
 * last number of the info, collapsed; their runs go on from 0. Versions 2 to 4 did not know mobility, nor what is watched of a
 * run (watch.h): that is one word, 1 where the sums follow and 0 where nothing does. */
enum { NAME = 48, SHAPES = 20, SHAPES_OF_2 = 19, NAMES_FROM = 17, OLDEST_VERSION = 2, FORMAT_VERSION = 5 };
static const char MAGIC[8] = {'S', 'O', 'S', 'M', 'C', 'K', 'P', '\n'};
static const uint64_t BYTE_ORDER_MARK = 0x0102030405060708u, SEED_OF_HASH = 0x736f736d63000001u;

typedef struct {
    char magic[8];
    uint64_t version, byte_order;
    int64_t shape[SHAPES];
    char kernel[NAME], optimiser[NAME];
    uint64_t check; /* hash of the above: a damaged header must not be taken for another problem's */
} header;

static const char *const SHAPE_NAMES[SHAPES] = {"seed",
                                                "model.dim_x",
                                                "model.dim_theta",
                                                "scheme.particles",
                                                "tile",
                                                "scheme.pool",
                                                "scheme.sweeps",
                                                "scheme.keep",
                                                "scheme.weighted",
                                                "scheme.order",
                                                "scheme.drift_at",
                                                "optimiser.slots",
                                                "average",
                                                "kernel gradients",
                                                "kernel.aux",
                                                "a score",
                                                "a reference energy",
                                                "kernel's name or bounds of x (hashed)",
                                                "optimiser's name (hashed)",
                                                "scheme.pool_rule"};

/* Names may be longer than what the header shows of them. */
static int64_t name_hash(const char *name)
{
    uint64_t hash = SEED_OF_HASH;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x9e3779b97f4a7c15u;
    return (int64_t)(hash >> 1);
}

static header describe(const sosmc *s)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    header h = {.version = FORMAT_VERSION,
                .byte_order = BYTE_ORDER_MARK,
                .shape = {(int64_t)s->cfg.seed,
                          s->p.model.dim_x,
                          s->p.model.dim_theta,
                          c->particles,
                          s->cut.count[0],
                          c->pool,
                          c->sweeps,
                          c->keep,
                          s->weighted,
                          c->order,
                          c->drift_at,
                          s->cfg.optimiser.slots,
                          s->cfg.average > 0,
                          s->uses_gradient,
                          s->cfg.kernel.aux,
                          s->p.objective.score.eval != NULL,
                          s->uses_reference,
                          name_hash(s->cfg.kernel.name) ^ sosmc_i_bounds_hash(&s->p.model),
                          name_hash(s->cfg.optimiser.name),
                          c->pool_rule}};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    strncpy(h.kernel, s->cfg.kernel.name, NAME - 1);
    strncpy(h.optimiser, s->cfg.optimiser.name, NAME - 1);
    h.check = sosmc_i_mix(SEED_OF_HASH, &h, offsetof(header, check));
    return h;
}

/* ---------------------------------------------------------------------------- hash */

/* The arrays of a state that every rank holds in full, in the order of the stream. */
typedef struct {
    void *data;
    size_t bytes;
} span;
enum { SPANS = 6 };

static void spans_of(const sosmc *s, state *st, span spans[SPANS])
{
    size_t theta = (size_t)s->p.model.dim_theta * sizeof(double);
    size_t pool = st->pool ? (size_t)s->cfg.scheme.pool * (size_t)s->p.model.dim_x * sizeof(double) : 0;
    const span all[SPANS] = {{&st->v, sizeof st->v},
                             {st->theta, theta},
                             {st->theta_prev, theta},
                             {st->slots, theta * (size_t)s->cfg.optimiser.slots},
                             {st->average, st->average ? theta : 0},
                             {st->pool, pool}};
    memcpy(spans, all, sizeof all);
}

static uint64_t hash_state(const sosmc *s)
{
    const layout *l = &s->cut;
    int size = ranks(s);
    if (!s->ready) return 0;
    for (int t = l->tile_lo; t < l->tile_hi; t++) {
        sosmc_i_pack(s, s->now, t, s->record);
        s->tile_hash[t] = sosmc_i_mix(SEED_OF_HASH, s->record, sosmc_i_record_doubles(s, l->count[t]) * sizeof(double));
    }
    if (size > 1) {
        size_t tiles = (size_t)l->tiles;
        if (s->cfg.comm.allgather(s->cfg.comm.self, s->tile_hash, tiles * sizeof(uint64_t), s->packet_in)) return 0;
        for (int r = 0; r < size; r++) {
            int lo = l->block_tile[sosmc_i_rank_bound(l->blocks, r, size)];
            int hi = l->block_tile[sosmc_i_rank_bound(l->blocks, r + 1, size)];
            memcpy(s->tile_hash + lo, (const uint64_t *)s->packet_in + (size_t)r * tiles + lo,
                   (size_t)(hi - lo) * sizeof(uint64_t));
        }
    }
    span spans[SPANS];
    uint64_t hash = SEED_OF_HASH;
    spans_of(s, s->now, spans);
    for (int i = 0; i < SPANS; i++)
        if (spans[i].bytes) hash = sosmc_i_mix(hash, spans[i].data, spans[i].bytes);
    return sosmc_i_mix(hash, s->tile_hash, (size_t)l->tiles * sizeof(uint64_t));
}

uint64_t sosmc_hash(const sosmc *s)
{
    if (sosmc_i_enter(s) != SOSMC_OK) return 0;
    uint64_t hash = hash_state(s);
    (void)sosmc_i_leave(s, SOSMC_OK);
    return hash;
}

/* ---------------------------------------------------------------------------- the last iteration's info */

enum { INFO_COLLAPSED = 18, INFO_MOBILITY, INFO, INFO_OF_3 = 18, INFO_OF_4 };

/* All but the wall-clock time, which no two runs share. */
static void pack_info(const sosmc_info *f, double out[INFO])
{
    const double all[INFO] = {(double)f->iteration,
                              (double)f->updates,
                              (double)f->gradient_updates,
                              f->ess,
                              f->mean_score,
                              f->mean_energy,
                              f->loss,
                              f->kl,
                              f->logz,
                              f->grad_norm,
                              f->accept,
                              f->h,
                              f->rate,
                              (double)f->resampled,
                              (double)f->nonfinite,
                              (double)f->retries,
                              f->data_energy,
                              f->penalty,
                              (double)f->collapsed,
                              f->mobility};
    memcpy(out, all, sizeof all);
}

/* The whole number that a double of a stream stands for; 0 where it is none, or too large. */
static int64_t whole(double value) { return fabs(value) <= 0x1p53 ? (int64_t)value : 0; }
static int counted(double value) { return fabs(value) <= INT32_MAX ? (int)value : 0; }

static sosmc_info unpack_info(const double in[INFO])
{
    return (sosmc_info){.iteration = whole(in[0]),
                        .updates = whole(in[1]),
                        .gradient_updates = whole(in[2]),
                        .ess = in[3],
                        .mean_score = in[4],
                        .mean_energy = in[5],
                        .loss = in[6],
                        .kl = in[7],
                        .logz = in[8],
                        .grad_norm = in[9],
                        .accept = in[10],
                        .h = in[11],
                        .rate = in[12],
                        .resampled = counted(in[13]),
                        .nonfinite = counted(in[14]),
                        .retries = counted(in[15]),
                        .data_energy = in[16],
                        .penalty = in[17],
                        .collapsed = whole(in[INFO_COLLAPSED]),
                        .mobility = in[INFO_MOBILITY]};
}

/* ---------------------------------------------------------------------------- save */

typedef struct {
    sosmc_write put; /* NULL on ranks that only send */
    sosmc_read get;
    void *ctx;
    uint64_t hash;
    int failed;
} stream;

static void write_bytes(stream *f, const void *bytes, size_t n)
{
    if (f->failed || !f->put || n == 0) return;
    f->hash = sosmc_i_mix(f->hash, bytes, n);
    f->failed = f->put(f->ctx, bytes, n) != 0;
}

/* Rank 0 gets the packed tile, with its fresh mark at the end, whoever owns it. */
static sosmc_status fetch_tile(sosmc *s, int t)
{
    const layout *l = &s->cut;
    const sosmc_comm *comm = &s->cfg.comm;
    size_t doubles = sosmc_i_record_doubles(s, l->count[t]);
    int mine = t >= l->tile_lo && t < l->tile_hi;
    if (mine) {
        sosmc_i_pack(s, s->now, t, s->record);
        s->record[doubles] = s->now->fresh[t - l->tile_lo];
    }
    if (ranks(s) == 1) return SOSMC_OK;
    int owner = 0;
    while (t >= l->block_tile[sosmc_i_rank_bound(l->blocks, owner + 1, comm->size)]) owner++;
    if (owner == 0) return SOSMC_OK;
    memset(s->bytes_out, 0, (size_t)comm->size * sizeof *s->bytes_out);
    memset(s->bytes_in, 0, (size_t)comm->size * sizeof *s->bytes_in);
    if (mine) s->bytes_out[0] = (doubles + 1) * sizeof(double);
    if (comm->rank == 0) s->bytes_in[owner] = (doubles + 1) * sizeof(double);
    if (comm->exchange(comm->self, s->bytes_out, s->record, s->bytes_in, s->packet_in))
        return sosmc_i_fail(s, SOSMC_ECOMM, "the communicator's exchange failed on rank %d while saving", comm->rank);
    if (comm->rank == 0) memcpy(s->record, s->packet_in, (doubles + 1) * sizeof(double));
    return SOSMC_OK;
}

static int finite_or_zero_weight(const sosmc *s, const double *record, int n)
{
    size_t rows = sosmc_i_record_doubles(s, 1), last = (rows - 1) * (size_t)n; /* the last row holds log-weights */
    if (!s->simd->all_finite(last, record)) return 0;
    for (size_t i = last; i < rows * (size_t)n; i++)
        if (!isfinite(record[i]) && record[i] != -INFINITY) return 0;
    return 1;
}

/* May this state be saved, or gone on with? *heaviest receives this rank's largest log-weight; `verdict` ends the message. */
static sosmc_status check_health(sosmc *s, state *st, sosmc_status failure, const char *verdict, double *heaviest)
{
    const layout *l = &s->cut;
    const vital *v = &st->v;
    const double scalars[] = {v->h, v->rate, v->logz, v->logz0, v->logmean};
    span spans[SPANS];
    spans_of(s, st, spans);
    for (int i = 1; i < SPANS; i++) /* the first holds the scalars, whole numbers among them */
        if (spans[i].bytes && !s->simd->all_finite(spans[i].bytes / sizeof(double), spans[i].data))
            return sosmc_i_fail(s, failure,
                                "iteration %lld: theta, the optimiser's memory, the average or the pool is "
                                "not finite; %s",
                                (long long)v->iteration, verdict);
    if (!s->simd->all_finite(sizeof scalars / sizeof *scalars, scalars))
        return sosmc_i_fail(s, failure, "iteration %lld: the step, the rate or log Z is not finite; %s",
                            (long long)v->iteration, verdict);
    for (int t = l->tile_lo; t < l->tile_hi; t++) {
        double tile_max = s->simd->max(l->count[t], row_at(st->logw, l, t));
        if (tile_max > *heaviest) *heaviest = tile_max;
        sosmc_i_pack(s, st, t, s->record);
        if (!finite_or_zero_weight(s, s->record, l->count[t]))
            return sosmc_i_fail(s, failure, "iteration %lld: a particle between %lld and %lld is not finite; %s",
                                (long long)v->iteration, (long long)l->first[t],
                                (long long)l->first[t] + l->count[t] - 1, verdict);
    }
    return SOSMC_OK;
}

static size_t watched_bytes(const sosmc *s)
{
    return WATCH_SETS * sosmc_i_watch_doubles(s->p.model.dim_theta) * sizeof(double);
}

sosmc_status sosmc_i_save(sosmc *s, sosmc_write put, void *ctx)
{
    double heaviest = -INFINITY;
    int64_t none = 0;
    if (s->failed) return s->failed;
    int writes = ranks(s) == 1 || s->cfg.comm.rank == 0;
    if (writes && !put) return sosmc_i_fail(s, SOSMC_EINVAL, "sosmc_save needs a function that takes the bytes");
    sosmc_status health = check_health(s, s->now, SOSMC_ENUMERIC, "not saved", &heaviest);
    TRY(sosmc_i_agree(s, health, &heaviest, &none));
    if (heaviest == -INFINITY)
        return sosmc_i_fail(s, SOSMC_ENUMERIC, "iteration %lld: no particle has any weight; not saved",
                            (long long)s->now->v.iteration);
    stream f = {.put = writes ? put : NULL, .ctx = ctx, .hash = SEED_OF_HASH};
    header h = describe(s);
    span spans[SPANS];
    double info[INFO];
    write_bytes(&f, &h, sizeof h);
    pack_info(&s->info, info);
    write_bytes(&f, info, sizeof info);
    spans_of(s, s->now, spans);
    for (int i = 0; i < SPANS; i++) write_bytes(&f, spans[i].data, spans[i].bytes);
    for (int t = 0; t < s->cut.tiles; t++) {
        TRY(fetch_tile(s, t));
        write_bytes(&f, s->record, (sosmc_i_record_doubles(s, s->cut.count[t]) + 1) * sizeof(double));
    }
    uint64_t watched = (uint64_t)s->watch.on;
    write_bytes(&f, &watched, sizeof watched);
    if (watched) write_bytes(&f, s->now->watched, watched_bytes(s));
    uint64_t checksum = f.hash;
    write_bytes(&f, &checksum, sizeof checksum);
    sosmc_status status = SOSMC_OK;
    if (f.failed)
        status = sosmc_i_fail(s, SOSMC_EIO, "iteration %lld: the checkpoint could not be written",
                              (long long)s->now->v.iteration);
    return sosmc_i_agree(s, status, &heaviest, &none);
}

sosmc_status sosmc_save(sosmc *s, sosmc_write put, void *ctx)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, sosmc_i_save(s, put, ctx));
}

/* ---------------------------------------------------------------------------- load */

static int read_bytes(stream *f, void *bytes, size_t n)
{
    if (n == 0) return 0;
    if (f->get(f->ctx, bytes, n)) return -1;
    f->hash = sosmc_i_mix(f->hash, bytes, n);
    return 0;
}

static sosmc_status truncated(sosmc *s) { return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint ends too early"); }

/* Names go into messages. */
static int is_printable(const char *name)
{
    for (int i = 0; i < NAME && name[i]; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F) return 0;
    return 1;
}

static sosmc_status compare_names(sosmc *s, const header *theirs, const header *ours)
{
    if (!is_printable(theirs->kernel) || !is_printable(theirs->optimiser))
        return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: its names hold control characters");
    if (strncmp(theirs->kernel, ours->kernel, NAME) != 0)
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint was made with kernel %.*s, this run has %s", NAME,
                            theirs->kernel, ours->kernel);
    if (strncmp(theirs->optimiser, ours->optimiser, NAME) != 0)
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint was made with optimiser %.*s, this run has %s", NAME,
                            theirs->optimiser, ours->optimiser);
    return SOSMC_OK;
}

/* The header as it was written: its version says how long the shape is. */
static sosmc_status read_header(sosmc *s, stream *f, header *h)
{
    const size_t shape = offsetof(header, shape), names = offsetof(header, kernel), check = offsetof(header, check);
    *h = (header){.version = 0};
    if (read_bytes(f, h, shape)) return truncated(s);
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) return sosmc_i_fail(s, SOSMC_EIO, "this is not a sosmc checkpoint");
    if (h->byte_order != BYTE_ORDER_MARK)
        return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint was written on a machine of another byte order");
    if (h->version < OLDEST_VERSION || h->version > FORMAT_VERSION)
        return sosmc_i_fail(s, SOSMC_EIO,
                            "the checkpoint has format version %llu; this library reads versions %d to %d",
                            (unsigned long long)h->version, OLDEST_VERSION, FORMAT_VERSION);
    size_t shapes = (h->version == 2 ? SHAPES_OF_2 : SHAPES) * sizeof *h->shape;
    if (read_bytes(f, h->shape, shapes) || read_bytes(f, h->kernel, check - names)) return truncated(s);
    uint64_t expected = f->hash; /* nothing was read before */
    if (read_bytes(f, &h->check, sizeof h->check)) return truncated(s);
    if (h->check != expected)
        return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: the checksum of its header does not match");
    return SOSMC_OK;
}

static sosmc_status compare(sosmc *s, const header *theirs)
{
    header ours = describe(s);
    for (int i = 0; i < SHAPES; i++) {
        if (i == NAMES_FROM) TRY(compare_names(s, theirs, &ours));
        if (theirs->shape[i] != ours.shape[i])
            return sosmc_i_fail(s, SOSMC_EINVAL,
                                "the checkpoint belongs to another problem: its %s is %lld, this run's is %lld",
                                SHAPE_NAMES[i], (long long)theirs->shape[i], (long long)ours.shape[i]);
    }
    return SOSMC_OK;
}

/* A stream with the right sums need not come from sosmc_save. Counts name random numbers and slots of the pool: those that
 * no run can reach would lead outside of both. */
static sosmc_status check_counts(sosmc *s, const vital *v, int64_t collapsed)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    int64_t most = ((int64_t)1 << 48) / c->sweeps, slots = INT64_MAX / c->particles - 2;
    if (v->iteration >= 0 && v->iteration < most && v->iteration < slots && v->updates >= 0 &&
        v->updates <= v->iteration && v->averaged >= 0 && v->averaged <= v->updates &&
        (v->cached == 0 || v->cached == 1) && v->h > 0 && v->rate >= 0 && collapsed >= 0 && collapsed <= v->iteration)
        return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: its counts or its step make no sense");
}

/* Reads on over `n` bytes, a multiple of 8, that this engine does not keep. */
static int skip_bytes(stream *f, size_t n)
{
    uint64_t word[64];
    for (size_t some; n > 0; n -= some) {
        some = n < sizeof word ? n : sizeof word;
        if (read_bytes(f, word, some)) return -1;
    }
    return 0;
}

/* What is watched of the run. An engine that watches and finds nothing begins at its next power of two. */
static sosmc_status read_watched(sosmc *s, stream *f, uint64_t version)
{
    uint64_t there = 0;
    state *st = s->spare;
    if (s->watch.on) memset(st->watched, 0, watched_bytes(s));
    if (version < FORMAT_VERSION) return SOSMC_OK;
    if (read_bytes(f, &there, sizeof there)) return truncated(s);
    if (there > 1 || (there && s->p.model.dim_theta > WATCH_PARAMETERS))
        return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: what it says of its past makes no sense");
    if (!there) return SOSMC_OK;
    if (!s->watch.on) return skip_bytes(f, watched_bytes(s)) ? truncated(s) : SOSMC_OK;
    return read_bytes(f, st->watched, watched_bytes(s)) ? truncated(s) : SOSMC_OK;
}

/* Bounds of groups are places of particles. */
static sosmc_status check_watched(sosmc *s)
{
    for (int set = 0; s->watch.on && set < WATCH_SETS; set++) {
        size_t doubles = sosmc_i_watch_doubles(s->p.model.dim_theta);
        watch_sums w = sosmc_i_watch_sums(s->spare->watched + (size_t)set * doubles, s->p.model.dim_theta);
        int sound = s->simd->all_finite(HEAD_ALL, w.head) && w.head[HEAD_COUNT] >= 0 && w.head[HEAD_HESSIANS] >= 0 &&
                    w.head[HEAD_HESSIANS] < 0x1p48 && w.head[HEAD_RENEWALS] >= 0 && w.head[HEAD_RENEWALS] < 0x1p48;
        if (w.head[HEAD_START] > 0) {
            sound = sound && w.bound[0] == 0 && w.bound[SOSMC_GROUPS] == (double)s->cut.particles;
            for (int c = 0; c < SOSMC_GROUPS; c++) sound = sound && w.bound[c] <= w.bound[c + 1];
        }
        if (!sound)
            return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: its groups of particles make no sense");
    }
    return SOSMC_OK;
}

static sosmc_status read_state(sosmc *s, stream *f, double info[INFO])
{
    const layout *l = &s->cut;
    header h;
    span spans[SPANS];
    TRY(read_header(s, f, &h));
    TRY(compare(s, &h));
    info[INFO_COLLAPSED] = 0;
    info[INFO_MOBILITY] = NAN;
    size_t infos = h.version < 4 ? INFO_OF_3 : h.version == 4 ? INFO_OF_4 : INFO;
    if (read_bytes(f, info, infos * sizeof *info)) return truncated(s);
    spans_of(s, s->spare, spans);
    for (int i = 0; i < SPANS; i++)
        if (read_bytes(f, spans[i].data, spans[i].bytes)) return truncated(s);
    for (int t = 0; t < l->tiles; t++) {
        size_t doubles = sosmc_i_record_doubles(s, l->count[t]);
        if (read_bytes(f, s->record, (doubles + 1) * sizeof(double))) return truncated(s);
        if (t < l->tile_lo || t >= l->tile_hi) continue;
        sosmc_i_unpack(s, s->spare, t, s->record);
        s->spare->fresh[t - l->tile_lo] = s->record[doubles] != 0;
    }
    TRY(read_watched(s, f, h.version));
    uint64_t expected = f->hash, checksum;
    if (f->get(f->ctx, &checksum, sizeof checksum)) return truncated(s);
    if (checksum != expected)
        return sosmc_i_fail(s, SOSMC_EIO, "the checkpoint is damaged: its checksum does not match");
    TRY(check_watched(s));
    TRY(check_counts(s, &s->spare->v, whole(info[INFO_COLLAPSED])));
    double heaviest = -INFINITY;
    return check_health(s, s->spare, SOSMC_EIO, "the checkpoint is damaged", &heaviest);
}

static sosmc_status use_loaded_state(sosmc *s, const double info[INFO])
{
    state old = *s->now;
    *s->now = *s->spare;
    *s->spare = old;
    s->seen_valid = s->pending = 0;
    s->dropped = s->weighted; /* perhaps; the next resampling knows */
    s->info = unpack_info(info);
    return sosmc_i_refresh(s, "the checkpoint's");
}

sosmc_status sosmc_i_load(sosmc *s, sosmc_read get, void *ctx)
{
    double no_max = 0;
    int64_t none = 0;
    if (!s->ready) return s->failed;
    TRY(sosmc_i_here(s));
    if (!get) return sosmc_i_fail(s, SOSMC_EINVAL, "sosmc_load needs a function that delivers the bytes");
    stream f = {.get = get, .ctx = ctx, .hash = SEED_OF_HASH};
    double info[INFO] = {0};
    TRY(sosmc_i_agree(s, read_state(s, &f, info), &no_max, &none));
    TRY(sosmc_i_same_state(s, f.hash));
    sosmc_status status = sosmc_i_agree(s, use_loaded_state(s, info), &no_max, &none);
    if (atomic_exchange(&s->refused, 0)) status = sosmc_i_fail(s, SOSMC_EINVAL, "%s", SOSMC_I_REFUSED);
    s->failed = status;
    s->interrupted = SOSMC_OK;
    return status;
}

sosmc_status sosmc_load(sosmc *s, sosmc_read get, void *ctx)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, sosmc_i_load(s, get, ctx));
}
