/* keep.c: the whole state of a solver as bytes, and its hash.
 *
 *     magic, version, byte order, shape | everything that is plain numbers | theta | clouds | coordinates | what the phase needs | checksum
 *
 * Modes and laws are not stored: they follow from theta and the cloud, and are found again. The same bytes, without a header, are what
 * a step that a callback stopped is taken back to. A stream is read whole and checked before
 * anything changes, so a damaged one changes nothing. */

#include <stdio.h>
#include <stdlib.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/kept_file.h"
#include "solve_inside.h"

enum { FORMAT_VERSION = 6, SHAPES = 9 };
static const char MAGIC[8] = {'S', 'O', 'S', 'M', 'S', 'L', 'V', '\n'};
static const uint64_t BYTE_ORDER_MARK = 0x0102030405060708u, SEED_OF_HASH = 0x736f736d63000002u;

typedef struct {
    char magic[8];
    uint64_t version, byte_order;
    int64_t shape[SHAPES];
    uint64_t bytes; /* of what follows, without the checksum */
} header;

static const char *const SHAPE_NAMES[SHAPES] = {"seed",      "dim_x",     "dim_theta",        "particles",    "tile",
                                                "objective", "data rows", "precision (bits)", "bounds (hash)"};

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

typedef struct {
    void *data;
    size_t bytes;
} span;
enum { SPANS = 96 };

typedef struct {
    span *out;
    int count;
} span_list;

static void note_span(void *ctx, double **where, size_t doubles, int state)
{
    span_list *l = ctx;
    if (state) l->out[l->count++] = (span){*where, doubles * sizeof(double)};
}

/* All arrays of the state, in the order of the stream; multiples of eight bytes each. */
static int spans_of(sosmc_solver *s, span out[SPANS])
{
    span_list l = {.out = out};
    sosmc_i_solver_arrays(s, note_span, &l);
    return l.count;
}

/* What the struct itself holds beside `plain`. */
enum { LOOSE = 9 };
static void pack_loose(const sosmc_solver *s, double out[LOOSE])
{
    for (int k = 0; k < 2; k++) {
        out[k] = s->k[k].active;
        out[2 + k] = s->m.c[k].diagonal;
        out[4 + k] = s->start_metric.c[k].diagonal;
    }
    out[6] = s->m.h;
    out[7] = s->start_metric.h;
    out[8] = s->m.walk;
}

static void unpack_loose(sosmc_solver *s, const double in[LOOSE])
{
    for (int k = 0; k < 2; k++) {
        s->k[k].active = in[k] != 0;
        s->m.c[k].diagonal = in[2 + k] != 0;
        s->start_metric.c[k].diagonal = in[4 + k] != 0;
    }
    s->m.h = in[6];
    s->start_metric.h = in[7];
    s->m.walk = in[8] != 0;
}

static header describe(sosmc_solver *s)
{
    const sosmc_objective *o = &s->problem.objective;
    double bounds[2] = {s->o.low, s->o.high};
    int64_t of_x = sosmc_i_bounds_hash(&s->problem.model);
    span spans[SPANS];
    int count = spans_of(s, spans);
    header h = {.version = FORMAT_VERSION,
                .byte_order = BYTE_ORDER_MARK,
                .shape = {(int64_t)s->o.seed, s->dim, s->p, s->n, s->tile, o->loss, s->data_points,
                          bits_of(s->o.precision), (int64_t)sosmc_i_mix(SEED_OF_HASH, bounds, sizeof bounds) ^ of_x},
                .bytes = sizeof s->v + LOOSE * sizeof(double)};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    for (int k = 0; k < count; k++) h.bytes += spans[k].bytes;
    return h;
}

size_t sosmc_i_solver_state_bytes(sosmc_solver *s) { return describe(s).bytes; }

uint64_t sosmc_solver_hash(const sosmc_solver *solver)
{
    sosmc_solver *s = (sosmc_solver *)(uintptr_t)solver; /* nothing is changed */
    if (!s->ready) return 0;
    span spans[SPANS];
    int count = spans_of(s, spans);
    double loose[LOOSE];
    plain v = s->v;
    v.seconds = 0;
    pack_loose(s, loose);
    uint64_t hash = sosmc_i_mix(sosmc_i_mix(SEED_OF_HASH, &v, sizeof v), loose, sizeof loose);
    for (int k = 0; k < count; k++) hash = sosmc_i_mix(hash, spans[k].data, spans[k].bytes);
    return hash;
}

/* ---------------------------------------------------------------------------- save */

typedef struct {
    sosmc_write put;
    void *ctx;
    uint64_t hash;
    int failed;
} stream;

static void write_bytes(stream *f, const void *bytes, size_t n)
{
    if (f->failed || n == 0) return;
    f->hash = sosmc_i_mix(f->hash, bytes, n);
    f->failed = f->put(f->ctx, bytes, n) != 0;
}

sosmc_status sosmc_solver_save(const sosmc_solver *solver, sosmc_write put, void *ctx)
{
    sosmc_solver *s = (sosmc_solver *)(uintptr_t)solver; /* but for its message, nothing is changed */
    if (!s->ready) return s->failed;
    if (s->failed) return s->failed;
    span spans[SPANS];
    int count = spans_of(s, spans);
    double loose[LOOSE];
    header h = describe(s);
    stream f = {.put = put, .ctx = ctx, .hash = SEED_OF_HASH};
    pack_loose(s, loose);
    write_bytes(&f, &h, sizeof h);
    write_bytes(&f, &s->v, sizeof s->v);
    write_bytes(&f, loose, sizeof loose);
    for (int k = 0; k < count; k++) write_bytes(&f, spans[k].data, spans[k].bytes);
    uint64_t check = f.hash;
    write_bytes(&f, &check, sizeof check);
    if (!f.failed) return SOSMC_OK;
    (void)snprintf(s->message, sizeof s->message, "the solver's state could not be written");
    return SOSMC_EIO;
}

/* ---------------------------------------------------------------------------- load */

static sosmc_status refuse(sosmc_solver *s, sosmc_status status, const char *words)
{
    (void)snprintf(s->message, sizeof s->message, "%s", words);
    return status;
}

static sosmc_status same_shape(sosmc_solver *s, const header *there)
{
    header mine = describe(s);
    if (memcmp(there->magic, MAGIC, sizeof MAGIC) != 0)
        return refuse(s, SOSMC_EIO, "this is no saved state of a solver");
    if (there->byte_order != BYTE_ORDER_MARK)
        return refuse(s, SOSMC_EIO, "the saved state is of a machine with another order of bytes, or damaged");
    if (there->version != FORMAT_VERSION)
        return refuse(s, SOSMC_EINVAL, "the saved state is of another version of the library");
    for (int k = 0; k < SHAPES; k++) {
        if (there->shape[k] == mine.shape[k]) continue;
        (void)snprintf(s->message, sizeof s->message,
                       "the saved state is of another problem: its %s is %lld, here it is %lld", SHAPE_NAMES[k],
                       (long long)there->shape[k], (long long)mine.shape[k]);
        return SOSMC_EINVAL;
    }
    return there->bytes == mine.bytes ? SOSMC_OK : refuse(s, SOSMC_EIO, "the saved state is damaged");
}

/* Numbers that are used as indices and counts. */
static int sensible(const sosmc_solver *s, const plain *v)
{
    if (s->network && v->phase == SOSMC_PHASE_MEASURE) return 0; /* networks have no such phase */
    return v->phase >= SOSMC_PHASE_START && v->phase <= SOSMC_PHASE_DONE && v->part >= 0 && v->part <= 2 &&
           v->stage >= 0 && v->updates >= 0 && v->averaged >= 0 && v->cuts >= 0 && v->stage < 64 && v->starting >= -1 &&
           v->starting < CLOUDS && v->kept >= 0 && v->kept <= KEPT && v->round >= 0 && v->rounds >= 0 &&
           v->rounds < 1 << 20 && v->hessians >= 0 && v->hessians <= HESSIANS && v->moves >= 0 && v->moves < 1 << 20 &&
           v->found.worst < s->p && v->found.at_bound < s->p && v->found.newton_worst < s->p && v->wall_where >= 0 &&
           v->wall_where < s->dim && v->wall_moves >= 0 && v->wall_moves <= s->p && v->found.hides_where >= 0 &&
           v->found.hides_where < s->p;
}

/* What a stream holds behind its header becomes the state, but for what follows from it. */
static void copy_in(sosmc_solver *s, const char *bytes)
{
    span spans[SPANS];
    int count = spans_of(s, spans);
    double loose[LOOSE];
    memcpy(&s->v, bytes, sizeof s->v);
    bytes += sizeof s->v;
    memcpy(loose, bytes, sizeof loose);
    bytes += sizeof loose;
    unpack_loose(s, loose);
    for (int k = 0; k < count; k++) {
        memcpy(spans[k].data, bytes, spans[k].bytes);
        bytes += spans[k].bytes;
    }
}

sosmc_status sosmc_i_solver_wake(sosmc_solver *s)
{
    sosmc_status status = sosmc_i_host_move(&s->at, s->theta);
    int again = s->v.phase == SOSMC_PHASE_MEASURE && s->v.starting >= 0;
    again = again || (s->network && s->v.phase == SOSMC_PHASE_SEARCH);
    if (status == SOSMC_OK && s->v.begun && (s->v.phase == SOSMC_PHASE_START || again)) {
        int64_t evaluations = s->v.evaluations; /* they have been counted */
        status = sosmc_i_start_laws(s, again && !s->network ? (int)s->v.starting : SEARCHED);
        s->v.evaluations = evaluations;
    }
    s->stale = status != SOSMC_OK;
    return status;
}

static sosmc_status take_over(sosmc_solver *s, const char *bytes)
{
    copy_in(s, bytes);
    enum { TOLD = 8 };
    sosmc_number *told[TOLD] = {&s->v.loss,           &s->v.log_z,       &s->v.kl,      &s->v.reward,
                                &s->v.best_loss_told, &s->v.best_reward, &s->v.best_kl, &s->v.excess_told};
    for (int k = 0; k < TOLD; k++) told[k]->why[SOSMC_WHY - 1] = 0;
    s->failed = s->interrupted = SOSMC_OK;
    s->message[0] = 0;
    sosmc_status status = sosmc_i_solver_wake(s);
    sosmc_i_solver_note(s);
    return status == SOSMC_OK ? status
                              : sosmc_i_solver_fail(s, status, "a callback of the model failed at the saved theta");
}

sosmc_status sosmc_solver_load(sosmc_solver *s, sosmc_read get, void *ctx)
{
    STANDARD_ARITHMETIC;
    header h;
    if (!s->ready) return s->failed;
    if (get(ctx, &h, sizeof h)) return refuse(s, SOSMC_EIO, "the saved state is cut short");
    sosmc_status status = same_shape(s, &h);
    if (status != SOSMC_OK) return status;
    char *bytes = malloc(h.bytes + sizeof(uint64_t));
    if (!bytes) return refuse(s, SOSMC_ENOMEM, "there is not enough memory to read the saved state");
    plain v;
    uint64_t check;
    if (get(ctx, bytes, h.bytes + sizeof check)) {
        status = refuse(s, SOSMC_EIO, "the saved state is cut short");
    } else {
        span spans[SPANS];
        int count = spans_of(s, spans);
        const char *at = bytes;
        uint64_t hash = sosmc_i_mix(SEED_OF_HASH, &h, sizeof h);
        memcpy(&v, bytes, sizeof v);
        memcpy(&check, bytes + h.bytes, sizeof check);
        hash = sosmc_i_mix(hash, at, sizeof v);
        at += sizeof v;
        hash = sosmc_i_mix(hash, at, LOOSE * sizeof(double));
        at += LOOSE * sizeof(double);
        for (int k = 0; k < count; k++, at += spans[k - 1].bytes)
            hash = spans[k].bytes ? sosmc_i_mix(hash, at, spans[k].bytes) : hash;
        if (hash != check || !sensible(s, &v)) status = refuse(s, SOSMC_EIO, "the saved state is damaged");
    }
    if (status == SOSMC_OK) status = take_over(s, bytes);
    free(bytes);
    return status;
}

/* ---------------------------------------------------------------------------- a step that is taken back */

void sosmc_i_solver_keep(sosmc_solver *s)
{
    span spans[SPANS];
    int count = spans_of(s, spans);
    double loose[LOOSE];
    char *at = s->before;
    pack_loose(s, loose);
    memcpy(at, &s->v, sizeof s->v);
    at += sizeof s->v;
    memcpy(at, loose, sizeof loose);
    at += sizeof loose;
    for (int k = 0; k < count; k++) {
        memcpy(at, spans[k].data, spans[k].bytes);
        at += spans[k].bytes;
    }
}

void sosmc_i_solver_take_back(sosmc_solver *s)
{
    copy_in(s, s->before);
    s->stale = 1;
}

/* ---------------------------------------------------------------------------- files */

sosmc_status sosmc_solver_save_file(const sosmc_solver *solver, const char *path)
{
    sosmc_solver *s = (sosmc_solver *)(uintptr_t)solver;
    kept_file f = {.fd = -1};
    if (!s->ready) return s->failed;
    if (sosmc_i_kept_names(&f, path)) return refuse(s, SOSMC_EINVAL, "the path is empty or too long");
    sosmc_status status = sosmc_i_kept_create(&f) ? SOSMC_EIO : sosmc_solver_save(s, sosmc_i_kept_put, &f);
    if (status == SOSMC_OK && sosmc_i_kept_place(&f)) status = SOSMC_EIO;
    if (f.error) sosmc_i_kept_words(&f, s->message, sizeof s->message);
    sosmc_i_kept_close(&f, status != SOSMC_OK);
    return status;
}

sosmc_status sosmc_solver_load_file(sosmc_solver *s, const char *path)
{
    char first[MESSAGE_ROOM];
    sosmc_status status = SOSMC_EIO;
    kept_file f = {.fd = -1};
    if (!s->ready) return s->failed;
    if (sosmc_i_kept_names(&f, path)) return refuse(s, SOSMC_EINVAL, "the path is empty or too long");
    for (int which = 0; which < 2 && status == SOSMC_EIO; which++) {
        if (sosmc_i_kept_open(&f, which))
            sosmc_i_kept_words(&f, s->message, sizeof s->message);
        else
            status = sosmc_solver_load(s, sosmc_i_kept_get, &f);
        sosmc_i_kept_close(&f, 0);
        if (which == 0) memcpy(first, s->message, sizeof first); /* what is wrong with the newest matters most */
    }
    if (status == SOSMC_EIO) memcpy(s->message, first, sizeof first);
    return status;
}
