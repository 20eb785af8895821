/* formula_evaluate.c: instructions over chunks of 256 particles, at any vector level with the same bits.
 *
 * A chunk runs through all instructions before the next one begins, so that its registers stay in the fastest memory.
 * Invariant: rows are read and written in whole blocks of 8 particles; what is in the lanes of particles that do not
 * exist is computed and never stored. The formula is never written to: whoever evaluates has the registers on the stack. */
#include <math.h>
#include <string.h>

#include "formula_inside.h"
#include "base/table.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { CHUNK = 256 }; /* particles at a time */

/* ------------------------------------------------------------------------------------------------ arithmetic */

/* Rows of n doubles, n a multiple of BLOCK; a row whose mask is 0 has BLOCK doubles that stand for all. `out` may be
 * one of the others. */
typedef struct {
    const double *in[3];
    size_t mask[3];
    double *out;
    int n, number;
} rows;

/* Eight lanes for arithmetic, four where there are comparisons: gcc takes those apart lane by lane when they are wider
 * than the processor's registers, and likewise when two of their results meet before they have selected anything. */
typedef double v8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double v4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t m8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t m4 __attribute__((vector_size(32), aligned(8), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define A (*(const V *)(in_a + (i & mask_a)))
#define B (*(const V *)(in_b + (i & mask_b)))
#define C (*(const V *)(in_c + (i & mask_c)))
#define OUT (*(const V *)(out + i))
#define EACH(value)                                                   \
    do {                                                              \
        typedef v8 V;                                                 \
        for (size_t i = 0; i < n; i += 8) *(v8 *)(out + i) = (value); \
    } while (0)
#define EACH_COMPARED(value)                                          \
    do {                                                              \
        typedef v4 V;                                                 \
        const v4 zero = {0, 0, 0, 0}, one = zero + 1;                 \
        for (size_t i = 0; i < n; i += 4) *(v4 *)(out + i) = (value); \
        (void)zero, (void)one;                                        \
    } while (0)
#define IS(mask) ((v4)((mask) & (m4)one))                                 /* 1 where the mask is set, else 0 */
#define PICK(mask, x, y) ((v4)(((mask) & (m4)(x)) | (~(mask) & (m4)(y)))) /* x where the mask is set, else y */

/* 2 pi in three parts: n times either of the first two is exact for the whole numbers n that occur below 2^30. */
#define TWO_PI_1 0x1.921fb4p+2
#define TWO_PI_2 0x1.4442dp-22
#define TWO_PI_3 0x1.8469898cc5170p-46
#define INV_TWO_PI 0x1.45f306dc9c883p-3
#define ROUNDER 0x1.8p52 /* adding and subtracting it rounds to whole numbers */

/* Eight angles in turns, between -1/2 and 1/2. */
ALWAYS_INLINE void turn(const double *a, double *out)
{
    v8 angle = *(const v8 *)a, turns = (angle * INV_TWO_PI + ROUNDER) - ROUNDER;
    v8 rest = ((angle - turns * TWO_PI_1) - turns * TWO_PI_2) - turns * TWO_PI_3;
    *(v8 *)out = rest * INV_TWO_PI;
}

ALWAYS_INLINE void eight_powers(const double *a, int exponent, double *out)
{
    v8 square = *(const v8 *)a, power = {1, 1, 1, 1, 1, 1, 1, 1};
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1) power *= square;
    *(v8 *)out = power;
}

/* sqrt() may set errno, for which gcc would take a loop apart. */
ALWAYS_INLINE void two_roots(const double *a, double *out)
{
#if defined(__SSE2__)
    _mm_storeu_pd(out, _mm_sqrt_pd(_mm_loadu_pd(a)));
#else
    out[0] = sqrt(a[0]), out[1] = sqrt(a[1]);
#endif
}

/* The lane by lane instructions. One body for all vector levels: every operation here is exactly rounded, and the build
 * forbids contraction, so they agree to the bit. */
ALWAYS_INLINE void lanes(op code, const rows *r)
{
    const double *in_a = r->in[0], *in_b = r->in[1], *in_c = r->in[2];
    const size_t mask_a = r->mask[0], mask_b = r->mask[1], mask_c = r->mask[2], n = (size_t)r->n;
    double *out = r->out;
    switch (code) {
    case OP_TURN:
        for (size_t i = 0; i < n; i += 8) turn(in_a + (i & mask_a), out + i);
        EACH_COMPARED(PICK((v4)((m4)A & INT64_MAX) <= 0x1p30 * one, OUT, NAN * one));
        break;
    case OP_NEGATE: EACH(-A); break;
    case OP_ABS: EACH((v8)((m8)A & INT64_MAX)); break;
    case OP_SQRT:
        for (size_t i = 0; i < n; i += 2) two_roots(in_a + (i & (mask_a | (BLOCK - 1))), out + i);
        break;
    case OP_FLOOR:
        for (size_t i = 0; i < n; i++) out[i] = floor(in_a[i & (mask_a | (BLOCK - 1))]);
        break;
    case OP_SQUARE: EACH(A * A); break;
    case OP_POWER:
        for (size_t i = 0; i < n; i += 8) eight_powers(in_a + (i & mask_a), r->number, out + i);
        break;
    case OP_NOT: EACH_COMPARED(IS(A == zero)); break;
    case OP_ADD: EACH(A + B); break;
    case OP_SUBTRACT: EACH(A - B); break;
    case OP_MULTIPLY: EACH(A * B); break;
    case OP_DIVIDE: EACH(A / B); break;
    case OP_MIN: EACH_COMPARED(PICK(A != A, A, PICK(A < B, A, B))); break;
    case OP_MAX: EACH_COMPARED(PICK(A != A, A, PICK(A > B, A, B))); break;
    case OP_LESS: EACH_COMPARED(IS(A < B)); break;
    case OP_LESS_EQUAL: EACH_COMPARED(IS(A <= B)); break;
    case OP_EQUAL: EACH_COMPARED(IS(A == B)); break;
    case OP_UNEQUAL: EACH_COMPARED(IS(A != B)); break;
    case OP_AND: EACH_COMPARED(PICK(A != zero, IS(B != zero), zero)); break;
    case OP_OR: EACH_COMPARED(PICK(A != zero, one, IS(B != zero))); break;
    case OP_SELECT: EACH_COMPARED(PICK(A != zero, B, C)); break;
    default: break;
    }
}

/* out = sum_j x_j or sum_j x_j^2 over `dim` rows of ld that start at x. */
ALWAYS_INLINE void across(op code, const double *x, int dim, size_t ld, size_t n, double *out)
{
    for (size_t i = 0; i < n; i += BLOCK) {
        v8 sum = {0, 0, 0, 0, 0, 0, 0, 0};
        for (size_t j = 0; j < (size_t)dim; j++) {
            v8 a = *(const v8 *)(x + j * ld + i);
            if (code != OP_SUM) a *= a;
            sum += a;
        }
        *(v8 *)(out + i) = sum;
    }
}

typedef struct {
    void (*lanes)(op code, const rows *r);
    void (*across)(op code, const double *x, int dim, size_t ld, size_t n, double *out);
} level;

static void lanes_plain(op code, const rows *r) { lanes(code, r); }
static void across_plain(op code, const double *x, int dim, size_t ld, size_t n, double *out)
{
    across(code, x, dim, ld, n, out);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define AT(features) __attribute__((target(features)))
AT("avx2") static void lanes_avx2(op code, const rows *r) { lanes(code, r); }
AT("avx2") static void across_avx2(op code, const double *x, int dim, size_t ld, size_t n, double *out)
{
    across(code, x, dim, ld, n, out);
}
AT("avx512f,avx512dq,avx512vl") static void lanes_avx512(op code, const rows *r) { lanes(code, r); }
AT("avx512f,avx512dq,avx512vl")
static void across_avx512(op code, const double *x, int dim, size_t ld, size_t n, double *out)
{
    across(code, x, dim, ld, n, out);
}
#endif

#undef A
#undef B
#undef C
#undef OUT

/* Takes the vector level that the engine has chosen, since this machine is known to have it. */
static level level_of(const sosmc_simd *simd)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (!strcmp(simd->name, "avx512")) return (level){.lanes = lanes_avx512, .across = across_avx512};
    if (!strcmp(simd->name, "avx2")) return (level){.lanes = lanes_avx2, .across = across_avx2};
#endif
    return (level){.lanes = lanes_plain, .across = across_plain};
}

/* Any instruction that looks at its arguments alone. The library's functions take rows that are all there, which they
 * are: an instruction whose arguments are all constant was folded. */
static void perform(const sosmc_simd *simd, level at, op code, const rows *r)
{
    double turns[CHUNK], other[CHUNK];
    rows reduced = *r;
    switch (code) {
    case OP_EXP: simd->exp(r->n, r->in[0], r->out); break;
    case OP_LOG: simd->log(r->n, r->in[0], r->out); break;
    case OP_SIN:
    case OP_COS:
        reduced.out = turns;
        at.lanes(OP_TURN, &reduced);
        if (code == OP_SIN)
            simd->sincos2pi(r->n, turns, r->out, other);
        else
            simd->sincos2pi(r->n, turns, other, r->out);
        break;
    default: at.lanes(code, r); break;
    }
}

/* By the code that runs over particles, so that folding cannot change a bit. */
double sosmc_i_formula_fold(op code, int number, const double *value)
{
    double in[3][BLOCK], out[BLOCK];
    rows r = {.out = out, .n = BLOCK, .number = number};
    for (int a = 0; a < arguments_of(code); a++) {
        for (int i = 0; i < BLOCK; i++) in[a][i] = value[a];
        r.in[a] = in[a];
        r.mask[a] = SIZE_MAX;
    }
    perform(sosmc_simd_best(), level_of(sosmc_simd_named("plain")), code, &r);
    return out[0];
}

/* ------------------------------------------------------------------------------------------------ evaluation */

/* What a chunk of particles needs. With rows that can be read in whole blocks, registers are `width` = CHUNK wide; in a
 * batch of another shape (the single long particle) they are one BLOCK wide, and copies of the named coordinates follow
 * them in the file. */
typedef struct {
    const sosmc_expression *f;
    const sosmc_batch *b;
    const sosmc_simd *simd;
    level at;
    double *file; /* REGISTERS * CHUNK */
    size_t width;
    int copies;
    int from, n;
} chunk;

static double *register_at(const chunk *c, int index) { return c->file + (size_t)index * c->width; }

static const double *row_of(const chunk *c, place p)
{
    switch (p.kind) {
    case IN_REGISTER: return register_at(c, p.index);
    case IN_CONSTANT: return c->f->constant + (size_t)p.index * BLOCK;
    default:
        if (c->copies) return register_at(c, REGISTERS + p.index);
        return c->b->x + (size_t)c->f->coordinate[p.index] * (size_t)c->b->ld + c->from;
    }
}

static void copy_coordinates(const chunk *c)
{
    for (int k = 0; k < c->f->coordinates; k++) {
        double *to = register_at(c, REGISTERS + k);
        const double *x = c->b->x + (size_t)c->f->coordinate[k] * (size_t)c->b->ld + c->from;
        for (int i = 0; i < BLOCK; i++) to[i] = i < c->n ? x[i] : 0;
    }
}

/* across() for rows that cannot be read in blocks; the same operations in the same order. */
static void across_copies(op code, const chunk *c, double *out)
{
    for (int i = 0; i < BLOCK; i++) {
        const double *x = c->b->x + c->from + i;
        double sum = 0;
        for (size_t j = 0; i < c->n && j < (size_t)c->f->dim; j++) {
            double a = x[j * (size_t)c->b->ld];
            sum += code == OP_SUM ? a : a * a;
        }
        out[i] = sum;
    }
}

/* Lanes without a particle are zero where rows cannot be read so far. */
static void execute_statistic(const chunk *c, const instruction *k, size_t n, double *out)
{
    size_t there = c->copies ? (size_t)c->n : n;
    memset(out + there, 0, (n - there) * sizeof *out);
    sosmc_i_pixels_evaluate(c->simd, &c->f->picture, &c->f->statistic[k->number], c->b->x + c->from, (size_t)c->b->ld,
                            there, out);
}

static void execute(const chunk *c, const instruction *k)
{
    int n = (c->n + BLOCK - 1) / BLOCK * BLOCK, arguments = arguments_of(k->code);
    rows r = {.out = register_at(c, k->target), .n = n, .number = k->number};
    for (int a = 0; a < arguments; a++) {
        r.in[a] = row_of(c, k->from[a]);
        r.mask[a] = k->from[a].kind == IN_CONSTANT ? 0 : SIZE_MAX;
    }
    if (arguments)
        perform(c->simd, c->at, k->code, &r);
    else if (k->code == OP_STATISTIC)
        execute_statistic(c, k, (size_t)n, r.out);
    else if (c->copies)
        across_copies(k->code, c, r.out);
    else
        c->at.across(k->code, c->b->x + c->from, c->f->dim, (size_t)c->b->ld, (size_t)n, r.out);
}

static int evaluate(const void *self, const sosmc_batch *b, double *s)
{
    _Alignas(64) double file[REGISTERS * CHUNK];
    const sosmc_expression *f = self;
    chunk c = {
        .f = f, .b = b, .simd = b->simd ? b->simd : sosmc_simd_best(), .file = file, .copies = b->ld % BLOCK != 0};
    if (b->dim != f->dim) return 1;
    c.at = level_of(c.simd);
    c.width = c.copies ? BLOCK : CHUNK;
    for (; c.from < b->n; c.from += (int)c.width) {
        c.n = b->n - c.from < (int)c.width ? b->n - c.from : (int)c.width;
        if (c.copies) copy_coordinates(&c);
        for (int k = 0; k < f->instructions; k++) execute(&c, &f->code[k]);
        const double *result = row_of(&c, f->result);
        if (f->result.kind == IN_CONSTANT)
            for (int i = 0; i < c.n; i++) s[c.from + i] = result[0];
        else
            memcpy(s + c.from, result, (size_t)c.n * sizeof *s);
    }
    return 0;
}

_Static_assert(REGISTERS *BLOCK + COORDINATES * BLOCK <= REGISTERS * CHUNK, "the copies fit behind narrow registers");
_Static_assert((int)CHUNK <= (int)PIXELS_PARTICLES, "statistics take a whole chunk");

sosmc_score sosmc_expression_score(const sosmc_expression *f) { return (sosmc_score){.self = f, .eval = evaluate}; }
