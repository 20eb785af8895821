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
 *     if(c, a, b)                a where c is true, else b; both are evaluated, and a NaN of the other one has no effect
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
#include <sosmc/expression.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "formula_inside.h"

void sosmc_expression_free(sosmc_expression *f)
{
    if (!f) return;
    free(f->code);
    free(f->coordinate);
    free(f->constant);
    free(f->statistic);
    free(f->mask);
    free(f);
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

static void emit_leaf(const parser *p, scheduler *s, int k, sosmc_expression *f)
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
static int emit(const parser *p, scheduler *s, int k, sosmc_expression *f)
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

static int generate(const parser *p, scheduler *s, int root, sosmc_expression *f)
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

static int copy_picture(const parser *p, sosmc_expression *f)
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

static sosmc_expression *room_for(const parser *p)
{
    sosmc_expression *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->dim = p->dim;
    f->code = malloc((size_t)(p->instructions + 1) * sizeof *f->code);
    f->coordinate = malloc((size_t)(p->coordinates + 1) * sizeof *f->coordinate);
    f->constant = malloc((size_t)(p->nodes + 1) * BLOCK * sizeof *f->constant);
    if (f->code && f->coordinate && f->constant && (!p->picture || !copy_picture(p, f))) return f;
    sosmc_expression_free(f);
    return NULL;
}

/* A shared subexpression occupies its register until its last use. When that takes too many registers, each is computed again
 * where it is needed. */
static sosmc_expression *compile(parser *p, scheduler *s)
{
    sosmc_expression *f = NULL;
    for (int share = 1; share >= 0 && !f; share--) {
        int root = sosmc_i_formula_parse(p, share);
        if (root < 0) break;
        f = room_for(p);
        if (!f) {
            (void)snprintf(p->error, p->room, "out of memory");
            break;
        }
        if (generate(p, s, root, f)) {
            sosmc_expression_free(f);
            f = NULL;
            if (!share)
                (void)sosmc_i_formula_refuse(p, 0, "the formula needs more than %d intermediate values at once",
                                             (int)REGISTERS);
        }
    }
    return f;
}

static int picture_fits(const sosmc_picture_shape *picture, int dim)
{
    return picture->channels > 0 && picture->rows > 0 && picture->columns > 0 && picture->clamp >= 0 &&
           (double)picture->channels * picture->rows * picture->columns == dim;
}

sosmc_expression *sosmc_expression_compile(const char *text, int dim, const sosmc_picture_shape *picture, char *error,
                                           size_t room)
{
    return sosmc_expression_compile_named(text, dim, picture, NULL, error, room);
}

sosmc_expression *sosmc_expression_compile_named(const char *text, int dim, const sosmc_picture_shape *picture,
                                                 const char *const *names, char *error, size_t room)
{
    STANDARD_ARITHMETIC;
    parser *p = malloc(sizeof *p);
    scheduler *s = malloc(sizeof *s);
    sosmc_expression *f = NULL;
    if (room) error[0] = '\0';
    if (!p || !s) {
        (void)snprintf(error, room, "out of memory");
        goto done;
    }
    p->text = text;
    p->dim = dim;
    p->picture = picture;
    p->names = names;
    p->error = error;
    p->room = room;
    p->failed = 0;
    if (strnlen(text, TEXT_LIMIT + 1) > TEXT_LIMIT)
        (void)sosmc_i_formula_refuse(p, TEXT_LIMIT, "the formula is longer than %d bytes", (int)TEXT_LIMIT);
    else if (picture && !picture_fits(picture, dim))
        (void)sosmc_i_formula_refuse(
            p, 0, "a picture of %d x %d x %d pixels, held to %g, does not suit a model of dimension %d",
            picture->channels, picture->rows, picture->columns, picture->clamp, dim);
    else
        f = compile(p, s);
done:
    free(s);
    free(p);
    return f;
}
