/* sampler_keep.c: the whole state of a sampler as bytes, and its hash.
 *
 *     magic, version, byte order, shape | plain numbers | the fit that the measurement starts from | arrays | checksum
 *
 * A stream is read whole and checked before anything changes, so a damaged one changes nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "sampler_inside.h"

enum { FORMAT_VERSION = 2, SHAPES = 7, SPANS = 20 };
static const char MAGIC[8] = {'S', 'O', 'S', 'M', 'T', 'M', 'P', '\n'};
static const uint64_t BYTE_ORDER_MARK = 0x0102030405060708u, SEED_OF_HASH = 0x736f736d63000003u;
static const char *const SHAPE_NAMES[SHAPES] = {
    "seed",  "dim_x",       "particles",  "components of the law or bounds of x (hashed)",
    "moves", "beta (bits)", "cess (bits)"};

typedef struct {
    char magic[8];
    uint64_t version, byte_order;
    int64_t shape[SHAPES];
    int64_t phase, fitted; /* which pass it is in; whether there is a fit */
    uint64_t bytes;        /* of what follows, without the checksum */
} header;

/* Everything but arrays; eight bytes each. */
typedef struct {
    int64_t step, done, begun, spent, leg, lost, moves, number, temperatures, resamplings, evaluations, diagonal[2];
    double t, kernel_step, increment, accepted_sum, arrived, log_z, ess, khat, survivors, acceptance;
    double halfway_log_z, halfway_log_z_error, halfway_reward, halfway_reward_error, halfway_spread;
} plain;

typedef struct {
    void *data;
    size_t bytes;
} span;

static plain pack(const sosmc_sampler *s)
{
    const pass_cloud *p = &s->cloud;
    const pass_run *r = &s->run;
    return (plain){.step = s->info.step,
                   .done = s->info.done,
                   .begun = s->begun,
                   .spent = s->spent,
                   .leg = r->leg,
                   .lost = r->lost,
                   .moves = r->moves,
                   .number = (int64_t)r->number,
                   .temperatures = p->temperatures,
                   .resamplings = p->resamplings,
                   .evaluations = p->evaluations,
                   .diagonal = {r->own[0].diagonal, r->own[1].diagonal},
                   .t = r->t,
                   .kernel_step = r->step,
                   .increment = r->increment,
                   .accepted_sum = r->accepted_sum,
                   .arrived = p->arrived,
                   .log_z = p->log_z,
                   .ess = p->ess,
                   .khat = p->khat,
                   .survivors = p->survivors,
                   .acceptance = p->acceptance,
                   .halfway_log_z = p->halfway_log_z,
                   .halfway_log_z_error = p->halfway_log_z_error,
                   .halfway_reward = p->halfway_reward,
                   .halfway_reward_error = p->halfway_reward_error,
                   .halfway_spread = p->halfway_spread};
}

static void unpack(sosmc_sampler *s, const plain *v)
{
    pass_cloud *p = &s->cloud;
    pass_run *r = &s->run;
    s->info.step = v->step;
    s->info.done = v->done != 0;
    s->begun = v->begun != 0;
    s->spent = v->spent;
    r->leg = v->leg != 0;
    r->lost = v->lost != 0;
    r->moves = v->moves;
    r->number = (uint64_t)v->number;
    p->temperatures = (int)v->temperatures;
    p->resamplings = (int)v->resamplings;
    p->evaluations = v->evaluations;
    for (int half = 0; half < 2; half++) r->own[half].diagonal = v->diagonal[half] != 0;
    r->t = v->t;
    r->step = v->kernel_step;
    r->increment = v->increment;
    r->accepted_sum = v->accepted_sum;
    p->arrived = v->arrived;
    p->log_z = v->log_z;
    p->ess = v->ess;
    p->khat = v->khat;
    p->survivors = v->survivors;
    p->acceptance = v->acceptance;
    p->halfway_log_z = v->halfway_log_z;
    p->halfway_log_z_error = v->halfway_log_z_error;
    p->halfway_reward = v->halfway_reward;
    p->halfway_reward_error = v->halfway_reward_error;
    p->halfway_spread = v->halfway_spread;
}

static int spans_of(const sosmc_sampler *s, span out[SPANS])
{
    const pass_cloud *p = &s->cloud;
    const pass_run *r = &s->run;
    size_t n = (size_t)p->n, dim = (size_t)p->dim, all = (size_t)sosmc_i_pass_tiles(r) * p->vector;
    size_t square = p->dim > LAW_FULL ? dim : dim * dim;
    int count = 0;
#define SPAN(where, doubles) (out[count++] = (span){(where), (doubles) * sizeof(double)})
    if (s->fitted.count > 0) { /* first, because the others need the law */
        const law *fit = &s->fitted.part[s->fitted.count - 1];
        SPAN(fit->mean, dim);
        SPAN(fit->L, square);
    }
    SPAN(p->x, all);
    SPAN(r->gU, all);
    SPAN(r->gq, all);
    SPAN(p->w, n);
    SPAN(p->U, n);
    SPAN(r->Lq, n);
    SPAN(r->logw, n);
    if (p->R) SPAN(p->R, n);
    if (p->halfway) SPAN(p->halfway, n);
    for (int half = 0; half < 2; half++) {
        SPAN(r->own[half].C, square);
        SPAN(r->inverse[half], dim);
    }
    SPAN(p->eve, (n + 1) / 2); /* two to a double; what follows the last is scratch */
#undef SPAN
    return count;
}

static int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static header describe(const sosmc_sampler *s, const span *spans, int count)
{
    header h = {.version = FORMAT_VERSION,
                .byte_order = BYTE_ORDER_MARK,
                .shape = {(int64_t)s->task.seed, s->cloud.dim, s->task.particles,
                          s->given.count ^ sosmc_i_bounds_hash(&s->task.model), s->pass.moves, bits_of(s->task.beta),
                          bits_of(s->task.cess)},
                .phase = s->phase,
                .fitted = s->fitted.count > 0,
                .bytes = sizeof(plain)};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    for (int k = 0; k < count; k++) h.bytes += spans[k].bytes;
    return h;
}

uint64_t sosmc_sampler_hash(const sosmc_sampler *s)
{
    span spans[SPANS];
    if (!s->ready) return 0;
    int count = spans_of(s, spans);
    plain v = pack(s);
    uint64_t hash = sosmc_i_mix(SEED_OF_HASH, &v, sizeof v);
    for (int k = 0; k < count; k++) hash = sosmc_i_mix(hash, spans[k].data, spans[k].bytes);
    return hash;
}

sosmc_status sosmc_sampler_save(const sosmc_sampler *s, sosmc_write put, void *ctx)
{
    span spans[SPANS];
    if (!s->ready || s->failed) return s->failed;
    int count = spans_of(s, spans), failed;
    header h = describe(s, spans, count);
    plain v = pack(s);
    uint64_t hash = sosmc_i_mix(sosmc_i_mix(SEED_OF_HASH, &h, sizeof h), &v, sizeof v);
    failed = put(ctx, &h, sizeof h) || put(ctx, &v, sizeof v);
    for (int k = 0; k < count && !failed; k++) {
        hash = sosmc_i_mix(hash, spans[k].data, spans[k].bytes);
        failed = put(ctx, spans[k].data, spans[k].bytes);
    }
    return failed || put(ctx, &hash, sizeof hash) ? SOSMC_EIO : SOSMC_OK;
}

static sosmc_status say(sosmc_sampler *s, sosmc_status status, const char *words)
{
    (void)snprintf(s->message, sizeof s->message, "%s", words);
    return status;
}

static sosmc_status same_shape(sosmc_sampler *s, const header *there)
{
    header mine = describe(s, NULL, 0);
    if (memcmp(there->magic, MAGIC, sizeof MAGIC) != 0)
        return say(s, SOSMC_EIO, "this is no saved state of a tempering run");
    if (there->byte_order != BYTE_ORDER_MARK)
        return say(s, SOSMC_EIO, "the saved state is of a machine with another order of bytes, or damaged");
    if (there->version != FORMAT_VERSION)
        return say(s, SOSMC_EINVAL, "the saved state is of another version of the library");
    for (int k = 0; k < SHAPES; k++) {
        if (there->shape[k] == mine.shape[k]) continue;
        (void)snprintf(s->message, sizeof s->message,
                       "the saved state is of another problem: its %s is %lld, here it is %lld", SHAPE_NAMES[k],
                       (long long)there->shape[k], (long long)mine.shape[k]);
        return SOSMC_EINVAL;
    }
    int possible = (there->phase == TRIAL || there->phase == MEASUREMENT) &&
                   (there->phase == TRIAL ? !there->fitted : 1) && (s->task.direct ? there->phase == MEASUREMENT : 1);
    return possible ? SOSMC_OK : say(s, SOSMC_EIO, "the saved state is damaged");
}

/* First ancestors are indices. */
static int sensible(const sosmc_sampler *s)
{
    for (int i = 0; i < s->cloud.n; i++)
        if (s->cloud.eve[i] < 0 || s->cloud.eve[i] >= s->cloud.n) return 0;
    return 1;
}

/* Reads everything behind the header into a sampler of the same task that has not begun. */
static sosmc_status fill(sosmc_sampler *s, const header *there, sosmc_read get, void *ctx)
{
    span spans[SPANS];
    plain v;
    uint64_t check, hash = sosmc_i_mix(SEED_OF_HASH, there, sizeof *there);
    laws shape = {.dim = s->given.dim, .diagonal = s->given.dim > LAW_FULL};
    size_t dim = (size_t)shape.dim, first = there->fitted ? 2 : 0;
    double *fit = malloc((dim + sosmc_i_law_doubles(&shape)) * sizeof *fit);
    if (!fit) return SOSMC_ENOMEM;
    int failed = get(ctx, &v, sizeof v);
    if (!failed) hash = sosmc_i_mix(hash, &v, sizeof v);
    if (!failed && there->fitted) {
        failed = get(ctx, fit, (dim + sosmc_i_law_doubles(&shape)) * sizeof *fit);
        hash = failed ? 0 : sosmc_i_mix(hash, fit, (dim + sosmc_i_law_doubles(&shape)) * sizeof *fit);
    }
    for (size_t j = 0; !failed && there->fitted && j < dim; j++) /* a law has positive scales */
        failed = !(fit[dim + (shape.diagonal ? j : j * dim + j)] > 0);
    sosmc_status status = failed ? SOSMC_EIO : SOSMC_OK;
    if (status == SOSMC_OK && there->phase != s->phase) {
        sosmc_i_sampler_close(s);
        s->phase = (int)there->phase;
        if (there->fitted) status = sosmc_i_sampler_law(s, fit, fit + dim);
        if (status == SOSMC_OK) status = sosmc_i_sampler_open(s);
    }
    free(fit);
    if (status != SOSMC_OK) return status;
    int count = spans_of(s, spans);
    if (describe(s, spans, count).bytes != there->bytes) return SOSMC_EIO;
    for (int k = (int)first; k < count && !failed; k++) {
        failed = get(ctx, spans[k].data, spans[k].bytes);
        if (!failed) hash = sosmc_i_mix(hash, spans[k].data, spans[k].bytes);
    }
    if (failed || get(ctx, &check, sizeof check) || hash != check || !sensible(s)) return SOSMC_EIO;
    unpack(s, &v);
    return SOSMC_OK;
}

/* What a pass points to are members of its sampler. */
static void settle(sosmc_sampler *s)
{
    s->run.task = &s->pass;
    s->run.p = &s->cloud;
    s->run.h.model = s->run.ref.model = &s->task.model;
    s->pass.model = &s->task.model;
    if (s->pass.score) s->pass.score = &s->task.score;
    s->pass.q = s->fitted.count > 0 ? &s->fitted : &s->given;
}

sosmc_status sosmc_sampler_load(sosmc_sampler *s, sosmc_read get, void *ctx)
{
    STANDARD_ARITHMETIC;
    header there;
    sosmc_sampler *other = NULL;
    if (!s->ready) return s->failed;
    if (get(ctx, &there, sizeof there)) return say(s, SOSMC_EIO, "the saved state is cut short");
    sosmc_status status = same_shape(s, &there);
    if (status != SOSMC_OK) return status;
    status = sosmc_sampler_create(&other, &s->task);
    if (status == SOSMC_OK) status = fill(other, &there, get, ctx);
    if (status == SOSMC_OK) {
        sosmc_sampler kept = *s;
        *s = *other;
        *other = kept;
        s->bounds = kept.bounds; /* the task's model points to it */
        s->start = kept.start;
        other->start = NULL;
        settle(s);
        settle(other);
        s->message[0] = 0;
        sosmc_i_sampler_note(s);
    }
    sosmc_sampler_free(other);
    if (status == SOSMC_EIO) return say(s, status, "the saved state is damaged or cut short");
    return status == SOSMC_OK ? status : say(s, status, "there is not enough memory to read the saved state");
}
