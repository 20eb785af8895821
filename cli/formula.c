/* formula.c: a formula as text, turned into a few vector instructions and run over chunks of 256 particles.
 *
 * The language, loosest binding first; all values are doubles, true is 1 and false is 0, and anything but 0 counts as
 * true (so does NaN, as in C):
 *
 *     a || b   a && b                   both sides are always evaluated
 *     a < b   <=   >   >=   ==   !=     do not chain: a < b < c is refused. With NaN all are false, but != is true
 *     a + b   a - b
 *     a * b   a / b
 *     -a   +a   !a
 *     a ^ b                             to the right: 2^3^2 is 2^9; -a^2 is -(a^2); 2^-1 is allowed
 *     numbers (1, .5, 2e-3), pi, x1 to x<dim>, ( ... ), functions
 *
 *     exp log sqrt abs sin cos tan tanh sigmoid softplus floor        of one argument
 *     ceil(a) = -floor(-a)   round(a) = floor(a + 0.5)   sign(a) = (a > 0) - (a < 0)
 *     min max                    of two or more; NaN if any of them is
 *     pow(a, b) = a ^ b   mod(a, b) = a - b floor(a / b)   clamp(a, low, high) = min(max(a, low), high)
 *     if(c, a, b)                a where c is true, else b; both are evaluated, the other one's NaN does no harm
 *     sum mean norm2 norm        of all coordinates: sum x_j, sum / dim, sum x_j^2, sqrt(norm2); with or without ()
 *
 * Where the model's points are pictures, these see pixels held to the picture's [-clamp, clamp], while x1, sum, norm2 and
 * norm see coordinates as they are (pixels.h says exactly what is computed, and in which order):
 *
 *     mean                       of all pixels, also where it has no ()
 *     mean(r1, r2, c1, c2)       of rows r1 to r2 and columns c1 to c2 in all channels, counted from 1 at the top left,
 *                                both ends included; whole numbers known beforehand, such as rows/2 + 1
 *     sd                         population standard deviation of all pixels
 *     tv                         mean absolute difference of neighbouring pixels, side by side or one above the other
 *     mask                       sum m_j x_j / sum |m_j| with the run's mask m
 *     rows columns               how many a picture has
 *
 * The arithmetic: every operation rounds once, as IEEE 754 says, in the order written; constants are computed by the
 * same code as vectors, and nothing is rearranged unless the result has the same bits, the sign of zero included. What
 * is not a single operation:
 *
 *     exp, log       the library's own: exp is 0 below -708 and inf above 709.78; log 0 = -inf, log of less is NaN
 *     sin, cos       errors below 8e-16 for |a| <= 2^30, NaN beyond; tan = sin / cos
 *     sigmoid(a)     1 / (1 + exp(-a))
 *     tanh(a)        (1 - e) / (1 + e) with e = exp(-2|a|); for |a| < 1/2 a quotient of polynomials, to 1e-15 relative
 *     softplus(a)    max(a, 0) + log(1 + e) with e = exp(-|a|), the logarithm corrected for the rounding of 1 + e
 *     a ^ b          b a whole constant up to 1024 in size: by multiplications (squares and products of them), the
 *                    reciprocal of that for b < 0, and 1 for b = 0; b = 0.5: sqrt(a). Otherwise exp(b log a), to about
 *                    |b log a| 2e-16 relative; a < 0 gives NaN unless b is whole; 0^0 = 1
 *     sum, norm2     x1 first, one coordinate after the other
 *
 * So a formula gives the same bits on every machine, at every vector level and in any batch; the sign and the payload
 * of a NaN are not promised.
 *
 * How: the parser makes nodes, each once (equal subexpressions become one node), folding constants as they appear. The
 * nodes the result needs become instructions over a file of registers, each a row of 256 particles; coordinates are
 * read where they lie, constants are rows of 8. Whoever evaluates owns the register file, on the stack: a compiled
 * formula is never written to. Invariant: instructions work on whole blocks of 8 particles; what is in the lanes of
 * particles that do not exist is computed and never stored. */
#include "formula.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simd/table.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    TEXT_LIMIT = 65536, /* bytes */
    NESTING = 64,       /* parentheses, calls, prefixes and powers within each other */
    INSTRUCTIONS = 1024,
    NODES = 2048,      /* instructions, constants and coordinates, dead ones included */
    COORDINATES = 512, /* different ones a formula may name */
    STATISTICS = 256,  /* different ones of a picture */
    REGISTERS = 32,
    CHUNK = 256, /* particles at a time */
    BLOCK = 8    /* particles that any row can be read in units of */
};

/* ------------------------------------------------------------------------------------------------ instructions */

typedef enum {
    OP_CONSTANT,
    OP_COORDINATE,
    OP_SUM, /* from here on, instructions: of all coordinates, ... */
    OP_NORM2,
    OP_STATISTIC, /* entry `number` in formula.statistic */
    OP_EXP,       /* ... by functions of the library, ... */
    OP_LOG,
    OP_SIN,
    OP_COS,
    OP_TURN, /* ... and lane by lane: an angle in turns, NaN if it is too large */
    OP_NEGATE,
    OP_ABS,
    OP_SQRT,
    OP_FLOOR,
    OP_SQUARE,
    OP_POWER, /* a to the whole power `number` */
    OP_NOT,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_MIN,
    OP_MAX,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_AND,
    OP_OR,
    OP_SELECT /* a ? b : c */
} op;

static int arguments_of(op code) { return code < OP_EXP ? 0 : code < OP_ADD ? 1 : code < OP_SELECT ? 2 : 3; }
static int is_leaf(op code) { return code <= OP_COORDINATE; }
static int commutes(op code)
{
    return code == OP_ADD || code == OP_MULTIPLY || code == OP_EQUAL || code == OP_UNEQUAL || code == OP_AND ||
           code == OP_OR;
}

/* Where an argument is. */
typedef enum { IN_REGISTER, IN_COORDINATE, IN_CONSTANT } where;
typedef struct {
    where kind;
    int index; /* of the register, the entry in formula.coordinate, or the constant */
} place;

typedef struct {
    op code;
    int target; /* register */
    place from[3];
    int number; /* the exponent of OP_POWER, the entry of OP_STATISTIC */
} instruction;

struct formula {
    int dim, instructions, coordinates, constants;
    instruction *code;
    int *coordinate;  /* which coordinates are named: 0 for x1 */
    double *constant; /* BLOCK copies of each */
    place result;
    pixels_shape picture; /* where there are statistics; its mask is `mask` */
    pixels_statistic *statistic;
    double *mask;
};

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

/* The engine has chosen a level, which this machine is known to run: follow it. */
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

/* ------------------------------------------------------------------------------------------------ evaluation */

/* What a chunk of particles needs. With rows that can be read in whole blocks, registers are `width` = CHUNK wide; in a
 * batch of another shape (the single long particle) they are one BLOCK wide, and copies of the named coordinates follow
 * them in the file. */
typedef struct {
    const formula *f;
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
    pixels_evaluate(c->simd, &c->f->picture, &c->f->statistic[k->number], c->b->x + c->from, (size_t)c->b->ld, there,
                    out);
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
    const formula *f = self;
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

sosmc_score formula_score(const formula *f) { return (sosmc_score){.self = f, .eval = evaluate}; }

void formula_free(formula *f)
{
    if (!f) return;
    free(f->code);
    free(f->coordinate);
    free(f->constant);
    free(f->statistic);
    free(f->mask);
    free(f);
}

/* ------------------------------------------------------------------------------------------------ nodes */

typedef struct {
    op code;
    int arg[3];
    int number;   /* exponent of OP_POWER, coordinate of OP_COORDINATE, entry of OP_STATISTIC */
    double value; /* of OP_CONSTANT */
} node;

typedef struct {
    const char *text;
    size_t at;
    int dim, depth, share; /* share: equal subexpressions become one node */
    int nodes, instructions, coordinates, statistics;
    const pixels_shape *picture; /* NULL: none */
    char *error;
    size_t room;
    int failed;
    node node[NODES];
    pixels_statistic statistic[STATISTICS];
} parser;

/* Notes the first mistake only. Returns -1, which every maker of nodes passes on. */
static int __attribute__((format(printf, 3, 4))) refuse(parser *p, size_t at, const char *format, ...)
{
    va_list args;
    if (p->failed++) return -1;
    int used = snprintf(p->error, p->room, "column %zu: ", at + 1);
    va_start(args, format);
    if (used >= 0 && (size_t)used < p->room) (void)vsnprintf(p->error + used, p->room - (size_t)used, format, args);
    va_end(args);
    return -1;
}

static int same(const node *a, const node *b)
{
    return a->code == b->code && a->arg[0] == b->arg[0] && a->arg[1] == b->arg[1] && a->arg[2] == b->arg[2] &&
           a->number == b->number && !memcmp(&a->value, &b->value, sizeof a->value);
}

static int add_node(parser *p, node made)
{
    int leaf = is_leaf(made.code);
    for (int k = p->nodes - 1; k >= 0 && (leaf || p->share); k--)
        if (same(&p->node[k], &made)) return k;
    if (p->nodes == NODES || (!leaf && p->instructions == INSTRUCTIONS))
        return refuse(p, p->at, "the formula is too long; at most %d operations fit", (int)INSTRUCTIONS);
    if (made.code == OP_COORDINATE && ++p->coordinates > COORDINATES)
        return refuse(p, p->at, "more than %d different coordinates; sum, mean, norm2 and norm see all of them",
                      (int)COORDINATES);
    if (!leaf) p->instructions++;
    p->node[p->nodes] = made;
    return p->nodes++;
}

static int constant(parser *p, double value)
{
    return add_node(p, (node){.code = OP_CONSTANT, .arg = {-1, -1, -1}, .value = value});
}

static int is_constant(const parser *p, int k) { return p->node[k].code == OP_CONSTANT; }
static int is_value(const parser *p, int k, double value) { return is_constant(p, k) && p->node[k].value == value; }

/* By the code that runs over particles, so that folding cannot change a bit. */
static int fold(parser *p, const node *made)
{
    double in[3][BLOCK], out[BLOCK];
    rows r = {.out = out, .n = BLOCK, .number = made->number};
    for (int a = 0; a < arguments_of(made->code); a++) {
        for (int i = 0; i < BLOCK; i++) in[a][i] = p->node[made->arg[a]].value;
        r.in[a] = in[a];
        r.mask[a] = SIZE_MAX;
    }
    perform(sosmc_simd_best(), level_of(sosmc_simd_named("plain")), made->code, &r);
    return constant(p, out[0]);
}

/* A node, or a simpler one with the same bits. */
static int make(parser *p, op code, int number, int a, int b, int c)
{
    node made = {.code = code, .arg = {a, b, c}, .number = number};
    int arguments = arguments_of(code), constants = 0;
    if (p->failed) return -1;
    for (int k = 0; k < arguments; k++) constants += is_constant(p, made.arg[k]);
    if (arguments && constants == arguments) return fold(p, &made);
    const node *first = a >= 0 ? &p->node[a] : NULL;
    if (code == OP_NEGATE && first->code == OP_NEGATE) return first->arg[0];
    if ((code == OP_MULTIPLY || code == OP_DIVIDE) && is_value(p, b, 1)) return a;
    if ((code == OP_MULTIPLY || code == OP_DIVIDE) && first && first->code == OP_NEGATE && is_constant(p, b))
        return make(p, code, 0, first->arg[0], constant(p, -p->node[b].value), -1); /* (-x) / 20 is x / (-20) */
    if (commutes(code) && a > b) made.arg[0] = b, made.arg[1] = a;
    return add_node(p, made);
}

static int leaf(parser *p, op code, int number) { return make(p, code, number, -1, -1, -1); }
static int unary(parser *p, op code, int a) { return a < 0 ? -1 : make(p, code, 0, a, -1, -1); }
static int binary(parser *p, op code, int a, int b) { return a < 0 || b < 0 ? -1 : make(p, code, 0, a, b, -1); }
static int choose(parser *p, int c, int a, int b)
{
    return a < 0 || b < 0 || c < 0 ? -1 : make(p, OP_SELECT, 0, c, a, b);
}

/* ---------------------------------------------------------------------------------------------- what functions mean */

static int add(parser *p, int a, int b) { return binary(p, OP_ADD, a, b); }
static int subtract(parser *p, int a, int b) { return binary(p, OP_SUBTRACT, a, b); }
static int multiply(parser *p, int a, int b) { return binary(p, OP_MULTIPLY, a, b); }
static int divide(parser *p, int a, int b) { return binary(p, OP_DIVIDE, a, b); }

static int sigmoid(parser *p, const int *a)
{
    int one = constant(p, 1), e = unary(p, OP_EXP, unary(p, OP_NEGATE, a[0]));
    return divide(p, one, add(p, one, e));
}

static int tangent(parser *p, const int *a) { return divide(p, unary(p, OP_SIN, a[0]), unary(p, OP_COS, a[0])); }

/* value of c[0] + c[1] z + ... + c[3] z^3 */
static int cubic(parser *p, const double *c, int z)
{
    int sum = constant(p, c[3]);
    for (int k = 2; k >= 0; k--) sum = add(p, multiply(p, sum, z), constant(p, c[k]));
    return sum;
}

/* Near zero 1 - e loses digits; there the continued fraction of tanh, cut after the 13. */
static int hyperbolic_tangent(parser *p, const int *a)
{
    static const double above[] = {135135, 17325, 378, 1}, below[] = {135135, 62370, 3150, 28};
    int one = constant(p, 1), size = unary(p, OP_ABS, a[0]), z = unary(p, OP_SQUARE, a[0]);
    int e = unary(p, OP_EXP, multiply(p, size, constant(p, -2)));
    int far = divide(p, subtract(p, one, e), add(p, one, e));
    int near = divide(p, multiply(p, a[0], cubic(p, above, z)), cubic(p, below, z));
    far = choose(p, binary(p, OP_LESS, a[0], constant(p, 0)), unary(p, OP_NEGATE, far), far);
    return choose(p, binary(p, OP_LESS, size, constant(p, 0.5)), near, far);
}

/* log(1 + e) = log(u) e / (u - 1) with u = 1 + e as rounded: the error of u cancels. */
static int softplus(parser *p, const int *a)
{
    int one = constant(p, 1), e = unary(p, OP_EXP, unary(p, OP_NEGATE, unary(p, OP_ABS, a[0]))), u = add(p, one, e);
    int corrected = divide(p, multiply(p, unary(p, OP_LOG, u), e), subtract(p, u, one));
    int log1p = choose(p, binary(p, OP_EQUAL, u, one), e, corrected);
    return add(p, binary(p, OP_MAX, a[0], constant(p, 0)), log1p);
}

static int whole_power(parser *p, int a, int n)
{
    if (a < 0 || n == 0) return a < 0 ? -1 : constant(p, 1);
    if (n < 0) return divide(p, constant(p, 1), whole_power(p, a, -n));
    return n == 1 ? a : n == 2 ? unary(p, OP_SQUARE, a) : make(p, OP_POWER, n, a, -1, -1);
}

static int power(parser *p, int a, int b)
{
    if (a < 0 || b < 0) return -1;
    double exponent = is_constant(p, b) ? p->node[b].value : NAN, base = is_constant(p, a) ? p->node[a].value : NAN;
    int whole = floor(exponent) == exponent;
    if (whole && fabs(exponent) <= 1024) return whole_power(p, a, (int)exponent);
    if (exponent == 0.5) return unary(p, OP_SQRT, a);
    if ((is_constant(p, b) && !whole) || base > 0) return unary(p, OP_EXP, multiply(p, b, unary(p, OP_LOG, a)));
    int size = unary(p, OP_EXP, multiply(p, b, unary(p, OP_LOG, unary(p, OP_ABS, a))));
    int half = divide(p, b, constant(p, 2));
    int odd = binary(p, OP_UNEQUAL, unary(p, OP_FLOOR, half), half);
    int signed_size = choose(p, odd, unary(p, OP_NEGATE, size), size);
    int negative = choose(p, binary(p, OP_EQUAL, unary(p, OP_FLOOR, b), b), signed_size, constant(p, NAN));
    int any = choose(p, binary(p, OP_LESS, a, constant(p, 0)), negative, size);
    return choose(p, binary(p, OP_EQUAL, b, constant(p, 0)), constant(p, 1), any);
}

static int raised(parser *p, const int *a) { return power(p, a[0], a[1]); }
static int modulo(parser *p, const int *a)
{
    return subtract(p, a[0], multiply(p, a[1], unary(p, OP_FLOOR, divide(p, a[0], a[1]))));
}
static int ceiling(parser *p, const int *a)
{
    return unary(p, OP_NEGATE, unary(p, OP_FLOOR, unary(p, OP_NEGATE, a[0])));
}
static int rounded(parser *p, const int *a) { return unary(p, OP_FLOOR, add(p, a[0], constant(p, 0.5))); }
static int clamped(parser *p, const int *a) { return binary(p, OP_MIN, binary(p, OP_MAX, a[0], a[1]), a[2]); }
static int sign_of(parser *p, const int *a)
{
    int zero = constant(p, 0);
    return subtract(p, binary(p, OP_LESS, zero, a[0]), binary(p, OP_LESS, a[0], zero));
}
static int mean(parser *p, const int *a) { return divide(p, leaf(p, OP_SUM, 0), constant(p, p->dim)); }
static int norm(parser *p, const int *a) { return unary(p, OP_SQRT, leaf(p, OP_NORM2, 0)); }

enum { MANY = 3 * NODES };
static const struct {
    const char *name;
    int arguments;                         /* 0: over all coordinates; MANY: two or more */
    op code;                               /* what it is, */
    int (*build)(parser *p, const int *a); /* or what it is made of */
} functions[] = {
    {"exp", 1, OP_EXP, NULL},     {"log", 1, OP_LOG, NULL},     {"sqrt", 1, OP_SQRT, NULL},
    {"abs", 1, OP_ABS, NULL},     {"sin", 1, OP_SIN, NULL},     {"cos", 1, OP_COS, NULL},
    {"floor", 1, OP_FLOOR, NULL}, {"tan", 1, 0, tangent},       {"tanh", 1, 0, hyperbolic_tangent},
    {"sigmoid", 1, 0, sigmoid},   {"softplus", 1, 0, softplus}, {"ceil", 1, 0, ceiling},
    {"round", 1, 0, rounded},     {"sign", 1, 0, sign_of},      {"min", MANY, OP_MIN, NULL},
    {"max", MANY, OP_MAX, NULL},  {"pow", 2, 0, raised},        {"mod", 2, 0, modulo},
    {"clamp", 3, 0, clamped},     {"if", 3, OP_SELECT, NULL},   {"sum", 0, OP_SUM, NULL},
    {"norm2", 0, OP_NORM2, NULL}, {"mean", 0, 0, mean},         {"norm", 0, 0, norm},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static int apply(parser *p, int which, const int *a)
{
    op code = functions[which].code;
    if (functions[which].build) return functions[which].build(p, a);
    switch (arguments_of(code)) {
    case 0: return leaf(p, code, 0);
    case 1: return unary(p, code, a[0]);
    case 2: return binary(p, code, a[0], a[1]);
    default: return choose(p, a[0], a[1], a[2]);
    }
}

/* ------------------------------------------------------------------------------------------------ text */

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static char look(parser *p)
{
    while (is_space(p->text[p->at])) p->at++;
    return p->text[p->at];
}

static int take(parser *p, char c)
{
    if (look(p) != c) return 0;
    p->at++;
    return 1;
}

/* What stands at the next character, for a message. */
static const char *found(parser *p, char *words, size_t room)
{
    char c = look(p);
    if (!c)
        (void)snprintf(words, room, "the formula ends");
    else if (c > ' ' && c <= '~')
        (void)snprintf(words, room, "found '%c'", c);
    else
        (void)snprintf(words, room, "found the byte 0x%02X", (unsigned)(unsigned char)c);
    return words;
}

static int expected(parser *p, const char *what)
{
    char words[40];
    (void)found(p, words, sizeof words);
    return refuse(p, p->at, "expected %s, but %s", what, words);
}

/* strtod reads what was scanned, or more of what no formula may contain (0x1p3); the decimal point is that of the C
 * locale, which a program has unless it asks for another. */
static int number(parser *p)
{
    const char *start = p->text + p->at, *c = start;
    char *end;
    while (is_digit(*c)) c++;
    if (*c == '.') c++;
    while (is_digit(*c)) c++;
    if (*c == 'e' || *c == 'E') {
        const char *digits = c + 1 + (c[1] == '+' || c[1] == '-');
        if (is_digit(*digits)) c = digits;
        while (is_digit(*c)) c++;
    }
    double value = strtod(start, &end);
    if (end != c) return refuse(p, p->at, "not a decimal number");
    if (value > DBL_MAX) return refuse(p, p->at, "the number is too large");
    p->at += (size_t)(c - start);
    return constant(p, value);
}

static int expression(parser *p, int least);

static int no_picture(parser *p, size_t at, const char *name, size_t length)
{
    return refuse(p, at, "'%.*s' is a statistic of pictures; this model has points of dimension %d", (int)length, name,
                  p->dim);
}

static int miscounted(parser *p, size_t at, int which, int count)
{
    const char *name = functions[which].name;
    int wanted = functions[which].arguments;
    if (!strcmp(name, "mean")) return no_picture(p, at, "mean(...)", strlen("mean(...)"));
    if (wanted == 0) return refuse(p, at, "'%s' is taken over all coordinates and has no arguments", name);
    if (wanted == MANY) return refuse(p, at, "'%s' takes at least 2 arguments, not %d", name, count);
    return refuse(p, at, "'%s' takes %d argument%s, not %d", name, wanted, wanted == 1 ? "" : "s", count);
}

/* Arguments in parentheses. min and max fold theirs as they come, so that there may be any number. */
static int call(parser *p, size_t at, int which)
{
    int a[3] = {-1, -1, -1}, count = 0, wanted = functions[which].arguments;
    if (!take(p, '(')) {
        if (wanted == 0) return apply(p, which, a);
        return refuse(p, at, "'%s' is a function; write %s(...)", functions[which].name, functions[which].name);
    }
    while (look(p) != ')' || count) {
        int argument = expression(p, 0);
        if (argument < 0) return -1;
        if (wanted == MANY && count >= 2)
            a[0] = apply(p, which, a), a[1] = argument;
        else if (count < 3)
            a[count] = argument;
        count++;
        if (take(p, ',')) continue;
        if (look(p) == ')') break;
        return expected(p, count < wanted ? "',' or ')' after an argument" : "')' after the arguments");
    }
    p->at++;
    if (wanted == MANY ? count < 2 : count != wanted) return miscounted(p, at, which, count);
    return apply(p, which, a);
}

/* ------------------------------------------------------------------------------------------------ pictures */

typedef enum { NAME_MEAN, NAME_SD, NAME_TV, NAME_MASK, NAME_ROWS, NAME_COLUMNS, PICTURE_NAMES } picture_name;
static const char *const picture_names[PICTURE_NAMES] = {"mean", "sd", "tv", "mask", "rows", "columns"};

static int statistic(parser *p, size_t at, pixels_statistic made)
{
    int k = 0;
    while (k < p->statistics && memcmp(&p->statistic[k], &made, sizeof made) != 0) k++;
    if (k == STATISTICS) return refuse(p, at, "more than %d different statistics of a picture", (int)STATISTICS);
    if (k == p->statistics) p->statistic[p->statistics++] = made;
    return leaf(p, OP_STATISTIC, k);
}

/* One edge of a block: an expression that is a whole number from `low` to `high`. */
static int edge(parser *p, const char *what, int low, int high, int *value)
{
    char words[32];
    (void)look(p);
    size_t at = p->at;
    int k = expression(p, 0);
    if (k < 0) return -1;
    if (!is_constant(p, k)) return refuse(p, at, "the %s of a block must be a number known beforehand", what);
    double given = p->node[k].value;
    (void)snprintf(words, sizeof words, "%.10g", isnan(given) ? NAN : given);
    if (!(given >= low && given <= high) || floor(given) != given)
        return refuse(p, at, "the %s is %s; expected a whole number from %d to %d", what, words, low, high);
    *value = (int)given;
    return 0;
}

/* mean(r1, r2, c1, c2), the parenthesis taken. */
static int block_mean(parser *p, size_t at)
{
    static const char *const what[4] = {"first row", "last row", "first column", "last column"};
    const int rows = p->picture->rows, columns = p->picture->columns;
    int e[4] = {1, rows, 1, columns};
    for (int k = 0; k < 4; k++) {
        if (k && !take(p, ',')) {
            if (look(p) != ')') return expected(p, "',' or ')' after an argument");
            return refuse(p, at, "'mean' of a block takes 4 numbers, first and last row, first and last column, not %d",
                          k);
        }
        if (edge(p, what[k], k % 2 ? e[k - 1] : 1, k < 2 ? rows : columns, &e[k])) return -1;
    }
    if (!take(p, ')')) return expected(p, "')' after the arguments");
    return statistic(
        p, at,
        (pixels_statistic){
            .kind = PIXELS_MEAN, .row = e[0] - 1, .row_end = e[1], .column = e[2] - 1, .column_end = e[3]});
}

static int mask_mean(parser *p, size_t at)
{
    double size = 0;
    if (!p->picture->mask) return refuse(p, at, "'mask' needs a mask, and this run has none");
    for (int j = 0; j < p->dim; j++) size += fabs(p->picture->mask[j]);
    if (!(size > 0 && size <= DBL_MAX))
        return refuse(p, at, "the weights of the mask must be finite numbers, not all of them 0");
    return statistic(p, at, (pixels_statistic){.kind = PIXELS_MASK});
}

static int picture_value(parser *p, size_t at, picture_name which)
{
    if (take(p, '(') && !take(p, ')')) {
        if (which == NAME_MEAN) return block_mean(p, at);
        return refuse(p, at, "'%s' is taken over the whole picture and has no arguments", picture_names[which]);
    }
    switch (which) {
    case NAME_SD: return statistic(p, at, (pixels_statistic){.kind = PIXELS_SD});
    case NAME_TV: return statistic(p, at, (pixels_statistic){.kind = PIXELS_TV});
    case NAME_MASK: return mask_mean(p, at);
    case NAME_ROWS: return constant(p, p->picture->rows);
    case NAME_COLUMNS: return constant(p, p->picture->columns);
    default:
        return statistic(
            p, at,
            (pixels_statistic){.kind = PIXELS_MEAN, .row_end = p->picture->rows, .column_end = p->picture->columns});
    }
}

/* ------------------------------------------------------------------------------------------------ names */

static int is_name(const char *text, const char *name, size_t length)
{
    return strlen(text) == length && !memcmp(text, name, length);
}

/* x7 as 6; -1 if the name is not a coordinate's at all, and `dim` if there are not so many. */
static int coordinate_named(const parser *p, const char *name, size_t length)
{
    int64_t value = 0;
    if (length < 2 || name[0] != 'x' || name[1] == '0') return -1;
    for (size_t k = 1; k < length; k++) {
        if (!is_digit(name[k])) return -1;
        value = value > p->dim ? value : 10 * value + (name[k] - '0');
    }
    return value > p->dim ? p->dim : (int)value - 1;
}

static int named(parser *p)
{
    const char *name = p->text + p->at;
    size_t at = p->at, length = 0;
    while (is_letter(name[length]) || is_digit(name[length])) length++;
    int shown = length < 32 ? (int)length : 32;
    p->at += length;
    for (int k = 0; k < PICTURE_NAMES && p->picture; k++)
        if (is_name(picture_names[k], name, length)) return picture_value(p, at, (picture_name)k);
    for (int k = 0; k < FUNCTIONS; k++)
        if (is_name(functions[k].name, name, length)) return call(p, at, k);
    for (int k = 0; k < PICTURE_NAMES; k++)
        if (is_name(picture_names[k], name, length)) return no_picture(p, at, name, length);
    if (length == 2 && !memcmp(name, "pi", 2)) return constant(p, 3.14159265358979323846);
    int j = coordinate_named(p, name, length);
    if (j >= 0 && j < p->dim) return leaf(p, OP_COORDINATE, j);
    if (j >= 0)
        return refuse(p, at, "unknown name '%.*s'; the model has %d coordinate%s", shown, name, p->dim,
                      p->dim == 1 ? "" : "s");
    if (look(p) == '(') return refuse(p, at, "unknown function '%.*s'", shown, name);
    return refuse(p, at, "unknown name '%.*s'; coordinates are x1 to x%d", shown, name, p->dim);
}

static int primary(parser *p)
{
    char c = look(p);
    if (is_digit(c) || (c == '.' && is_digit(p->text[p->at + 1]))) return number(p);
    if (is_letter(c)) return named(p);
    if (!take(p, '(')) return expected(p, "a number, a name or '('");
    int inside = expression(p, 0);
    if (inside < 0) return -1;
    return take(p, ')') ? inside : expected(p, "an operator or ')'");
}

/* -a, +a, !a, a, a ^ b. All nesting passes through here. */
static int prefixed(parser *p)
{
    char c = look(p);
    int a;
    if (p->depth == NESTING) return refuse(p, p->at, "nested deeper than %d", (int)NESTING);
    p->depth++;
    if (c == '-' || c == '+' || c == '!') {
        p->at++;
        a = prefixed(p);
        if (c != '+') a = unary(p, c == '-' ? OP_NEGATE : OP_NOT, a);
    } else {
        a = primary(p);
        if (a >= 0 && take(p, '^')) a = power(p, a, prefixed(p));
    }
    p->depth--;
    return a;
}

/* The infix operators, longest first. Those of a higher rank bind tighter. */
enum { RANK_OR, RANK_AND, RANK_COMPARE, RANK_ADD, RANK_MULTIPLY };
static const struct {
    const char *text;
    int rank, swap; /* swap: a > b is b < a */
    op code;
} operators[] = {
    {"||", RANK_OR, 0, OP_OR},
    {"&&", RANK_AND, 0, OP_AND},
    {"<=", RANK_COMPARE, 0, OP_LESS_EQUAL},
    {">=", RANK_COMPARE, 1, OP_LESS_EQUAL},
    {"==", RANK_COMPARE, 0, OP_EQUAL},
    {"!=", RANK_COMPARE, 0, OP_UNEQUAL},
    {"<", RANK_COMPARE, 0, OP_LESS},
    {">", RANK_COMPARE, 1, OP_LESS},
    {"+", RANK_ADD, 0, OP_ADD},
    {"-", RANK_ADD, 0, OP_SUBTRACT},
    {"*", RANK_MULTIPLY, 0, OP_MULTIPLY},
    {"/", RANK_MULTIPLY, 0, OP_DIVIDE},
};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

static int operator_here(parser *p)
{
    (void)look(p);
    for (int k = 0; k < OPERATORS; k++)
        if (!strncmp(p->text + p->at, operators[k].text, strlen(operators[k].text))) return k;
    return -1;
}

static int expression(parser *p, int least)
{
    int left = prefixed(p), compared = 0;
    for (;;) {
        int k = left < 0 ? -1 : operator_here(p);
        if (k < 0 || operators[k].rank < least) return left;
        if (operators[k].rank == RANK_COMPARE && compared)
            return refuse(p, p->at, "comparisons do not chain; write (a < b) && (b < c)");
        compared |= operators[k].rank == RANK_COMPARE;
        p->at += strlen(operators[k].text);
        if (operators[k].code == OP_MULTIPLY && p->text[p->at] == '*')
            return refuse(p, p->at - 1, "'**' is written '^'");
        int right = expression(p, operators[k].rank + 1);
        left = operators[k].swap ? binary(p, operators[k].code, right, left)
                                 : binary(p, operators[k].code, left, right);
    }
}

static int whole_text(parser *p)
{
    if (!look(p)) return refuse(p, 0, "the formula is empty");
    int result = expression(p, 0);
    if (result < 0 || !look(p)) return result;
    switch (look(p)) {
    case '=': return refuse(p, p->at, "'=' alone means nothing here; compare with '=='");
    case '&': return refuse(p, p->at, "'&' alone means nothing here; 'and' is '&&'");
    case '|': return refuse(p, p->at, "'|' alone means nothing here; 'or' is '||'");
    default: return expected(p, "an operator");
    }
}

/* ------------------------------------------------------------------------------------------------ code */

typedef struct {
    int need[NODES]; /* registers a node's evaluation takes, its arguments sharing nothing */
    int uses[NODES]; /* arguments not yet read */
    int slot[NODES]; /* register, coordinate or constant number; -1: not yet made */
    int stack[NODES];
    int busy[REGISTERS];
} scheduler;

/* Sethi and Ullman: what takes more registers goes first, so that a tree of m instructions needs about log2 m. */
static void count_needs(const parser *p, scheduler *s)
{
    for (int k = 0; k < p->nodes; k++) {
        int held = 0, most = is_leaf(p->node[k].code) ? 0 : 1, left[3] = {0, 0, 0},
            arguments = arguments_of(p->node[k].code);
        for (int a = 0; a < arguments; a++) left[a] = s->need[p->node[k].arg[a]];
        for (int round = 0; round < arguments; round++) {
            int best = 0;
            for (int a = 1; a < 3; a++)
                if (left[a] > left[best]) best = a;
            if (held + left[best] > most) most = held + left[best];
            held += left[best] > 0;
            left[best] = 0;
        }
        s->need[k] = most;
        s->uses[k] = 0;
        s->slot[k] = -1;
    }
}

/* The argument of k that is to be made next, or -1 when all are there. */
static int missing(const parser *p, const scheduler *s, int k)
{
    int next = -1;
    for (int a = 0; a < arguments_of(p->node[k].code); a++) {
        int arg = p->node[k].arg[a];
        if (s->slot[arg] < 0 && (next < 0 || s->need[arg] > s->need[next])) next = arg;
    }
    return next;
}

static void count_uses(const parser *p, scheduler *s, int root)
{
    s->uses[root] = 1;
    for (int k = root; k >= 0; k--) /* arguments are older than their users */
        for (int a = 0; s->uses[k] && a < arguments_of(p->node[k].code); a++) s->uses[p->node[k].arg[a]]++;
}

static place place_of(const parser *p, const scheduler *s, int k)
{
    where kind = p->node[k].code == OP_CONSTANT     ? IN_CONSTANT
                 : p->node[k].code == OP_COORDINATE ? IN_COORDINATE
                                                    : IN_REGISTER;
    return (place){.kind = kind, .index = s->slot[k]};
}

static void emit_leaf(const parser *p, scheduler *s, int k, formula *f)
{
    if (p->node[k].code == OP_COORDINATE) {
        f->coordinate[f->coordinates] = p->node[k].number;
        s->slot[k] = f->coordinates++;
        return;
    }
    for (int i = 0; i < BLOCK; i++) f->constant[(size_t)f->constants * BLOCK + (size_t)i] = p->node[k].value;
    s->slot[k] = f->constants++;
}

/* Returns non-zero when the registers do not suffice. */
static int emit(const parser *p, scheduler *s, int k, formula *f)
{
    const node *made = &p->node[k];
    instruction *next = &f->code[f->instructions];
    int target = 0;
    if (is_leaf(made->code)) {
        emit_leaf(p, s, k, f);
        return 0;
    }
    *next = (instruction){.code = made->code, .number = made->number};
    for (int a = 0; a < arguments_of(made->code); a++) {
        int arg = made->arg[a];
        next->from[a] = place_of(p, s, arg);
        if (--s->uses[arg] == 0 && next->from[a].kind == IN_REGISTER) s->busy[s->slot[arg]] = 0;
    }
    while (target < REGISTERS && s->busy[target]) target++;
    if (target == REGISTERS) return 1;
    s->busy[target] = 1;
    s->slot[k] = next->target = target;
    f->instructions++;
    return 0;
}

static int generate(const parser *p, scheduler *s, int root, formula *f)
{
    int top = 0;
    f->instructions = f->coordinates = f->constants = 0;
    memset(s->busy, 0, sizeof s->busy);
    count_needs(p, s);
    count_uses(p, s, root);
    s->stack[top++] = root;
    while (top) {
        int k = s->stack[top - 1], next = missing(p, s, k);
        if (next >= 0)
            s->stack[top++] = next;
        else if (top--, emit(p, s, k, f))
            return 1;
    }
    f->result = place_of(p, s, root);
    return 0;
}

static int copy_picture(const parser *p, formula *f)
{
    size_t pixels = (size_t)p->dim, count = (size_t)p->statistics;
    f->picture = *p->picture;
    f->picture.mask = NULL;
    f->statistic = malloc((count + 1) * sizeof *f->statistic);
    if (!f->statistic) return -1;
    memcpy(f->statistic, p->statistic, count * sizeof *f->statistic);
    if (!p->picture->mask) return 0;
    f->picture.mask = f->mask = malloc(pixels * sizeof *f->mask);
    if (!f->mask) return -1;
    memcpy(f->mask, p->picture->mask, pixels * sizeof *f->mask);
    return 0;
}

static formula *room_for(const parser *p)
{
    formula *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->dim = p->dim;
    f->code = malloc((size_t)(p->instructions + 1) * sizeof *f->code);
    f->coordinate = malloc((size_t)(p->coordinates + 1) * sizeof *f->coordinate);
    f->constant = malloc((size_t)(p->nodes + 1) * BLOCK * sizeof *f->constant);
    if (f->code && f->coordinate && f->constant && (!p->picture || !copy_picture(p, f))) return f;
    formula_free(f);
    return NULL;
}

static int parse(parser *p, int share)
{
    p->at = 0;
    p->share = share;
    p->depth = p->nodes = p->instructions = p->coordinates = p->statistics = p->failed = 0;
    return whole_text(p);
}

/* Shared subexpressions live long. When that takes too many registers, each is computed where it is needed instead. */
static formula *compile(parser *p, scheduler *s)
{
    formula *f = NULL;
    for (int share = 1; share >= 0 && !f; share--) {
        int root = parse(p, share);
        if (root < 0) break;
        f = room_for(p);
        if (!f) {
            (void)snprintf(p->error, p->room, "out of memory");
            break;
        }
        if (generate(p, s, root, f)) {
            formula_free(f);
            f = NULL;
            if (!share)
                (void)refuse(p, 0, "the formula needs more than %d intermediate values at once", (int)REGISTERS);
        }
    }
    return f;
}

static int picture_fits(const pixels_shape *picture, int dim)
{
    return picture->channels > 0 && picture->rows > 0 && picture->columns > 0 && picture->clamp >= 0 &&
           (double)picture->channels * picture->rows * picture->columns == dim;
}

formula *formula_compile_picture(const char *text, int dim, const pixels_shape *picture, char *error, size_t room)
{
    parser *p = malloc(sizeof *p);
    scheduler *s = malloc(sizeof *s);
    formula *f = NULL;
    if (room) error[0] = '\0';
    if (!p || !s) {
        (void)snprintf(error, room, "out of memory");
        goto done;
    }
    p->text = text;
    p->dim = dim;
    p->picture = picture;
    p->error = error;
    p->room = room;
    p->failed = 0;
    if (strnlen(text, TEXT_LIMIT + 1) > TEXT_LIMIT)
        (void)refuse(p, TEXT_LIMIT, "the formula is longer than %d bytes", (int)TEXT_LIMIT);
    else if (picture && !picture_fits(picture, dim))
        (void)refuse(p, 0, "a picture of %d x %d x %d pixels, held to %g, does not suit a model of dimension %d",
                     picture->channels, picture->rows, picture->columns, picture->clamp, dim);
    else
        f = compile(p, s);
done:
    free(s);
    free(p);
    return f;
}

formula *formula_compile(const char *text, int dim, char *error, size_t room)
{
    return formula_compile_picture(text, dim, NULL, error, room);
}
