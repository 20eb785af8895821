/* formula_nodes.c: operations as nodes, and the functions that are made of several.
 *
 * Equal subexpressions become one node, and constants are folded as they appear; a node is replaced by a simpler one
 * only where all bits stay, the sign of zero included. Invariant: a node's arguments are older than itself. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formula_inside.h"

int sosmc_i_formula_refuse(parser *p, size_t at, const char *format, ...)
{
    va_list args;
    if (p->failed++) return -1;
    int used = snprintf(p->error, p->room, "column %zu: ", at + 1);
    va_start(args, format);
    if (used >= 0 && (size_t)used < p->room) (void)vsnprintf(p->error + used, p->room - (size_t)used, format, args);
    va_end(args);
    return -1;
}

static int commutes(op code)
{
    return code == OP_ADD || code == OP_MULTIPLY || code == OP_EQUAL || code == OP_UNEQUAL || code == OP_AND ||
           code == OP_OR;
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
        return sosmc_i_formula_refuse(p, p->at, "the formula is too long; at most %d operations fit",
                                      (int)INSTRUCTIONS);
    if (made.code == OP_COORDINATE && ++p->coordinates > COORDINATES)
        return sosmc_i_formula_refuse(p, p->at,
                                      "more than %d different coordinates; sum, mean, norm2 and norm see all of them",
                                      (int)COORDINATES);
    if (!leaf) p->instructions++;
    p->node[p->nodes] = made;
    return p->nodes++;
}

int sosmc_i_node_constant(parser *p, double value)
{
    return add_node(p, (node){.code = OP_CONSTANT, .arg = {-1, -1, -1}, .value = value});
}

int sosmc_i_node_is_constant(const parser *p, int k) { return p->node[k].code == OP_CONSTANT; }
static int is_value(const parser *p, int k, double value)
{
    return sosmc_i_node_is_constant(p, k) && p->node[k].value == value;
}

static int fold(parser *p, const node *made)
{
    double value[3] = {0, 0, 0};
    for (int a = 0; a < arguments_of(made->code); a++) value[a] = p->node[made->arg[a]].value;
    return sosmc_i_node_constant(p, sosmc_i_formula_fold(made->code, made->number, value));
}

/* A node, or a simpler one with the same bits. */
static int make(parser *p, op code, int number, int a, int b, int c)
{
    node made = {.code = code, .arg = {a, b, c}, .number = number};
    int arguments = arguments_of(code), constants = 0;
    if (p->failed) return -1;
    for (int k = 0; k < arguments; k++) constants += sosmc_i_node_is_constant(p, made.arg[k]);
    if (arguments && constants == arguments) return fold(p, &made);
    const node *first = a >= 0 ? &p->node[a] : NULL;
    if (code == OP_NEGATE && first->code == OP_NEGATE) return first->arg[0];
    if ((code == OP_MULTIPLY || code == OP_DIVIDE) && is_value(p, b, 1)) return a;
    if ((code == OP_MULTIPLY || code == OP_DIVIDE) && first && first->code == OP_NEGATE &&
        sosmc_i_node_is_constant(p, b))
        return make(p, code, 0, first->arg[0], sosmc_i_node_constant(p, -p->node[b].value),
                    -1); /* (-x) / 20 is x / (-20) */
    if (commutes(code) && a > b) made.arg[0] = b, made.arg[1] = a;
    return add_node(p, made);
}

int sosmc_i_node_leaf(parser *p, op code, int number) { return make(p, code, number, -1, -1, -1); }
int sosmc_i_node_unary(parser *p, op code, int a) { return a < 0 ? -1 : make(p, code, 0, a, -1, -1); }
int sosmc_i_node_binary(parser *p, op code, int a, int b) { return a < 0 || b < 0 ? -1 : make(p, code, 0, a, b, -1); }
static int choose(parser *p, int c, int a, int b)
{
    return a < 0 || b < 0 || c < 0 ? -1 : make(p, OP_SELECT, 0, c, a, b);
}

/* ---------------------------------------------------------------------------------------------- what functions mean */

static int add(parser *p, int a, int b) { return sosmc_i_node_binary(p, OP_ADD, a, b); }
static int subtract(parser *p, int a, int b) { return sosmc_i_node_binary(p, OP_SUBTRACT, a, b); }
static int multiply(parser *p, int a, int b) { return sosmc_i_node_binary(p, OP_MULTIPLY, a, b); }
static int divide(parser *p, int a, int b) { return sosmc_i_node_binary(p, OP_DIVIDE, a, b); }

static int sigmoid(parser *p, const int *a)
{
    int one = sosmc_i_node_constant(p, 1), e = sosmc_i_node_unary(p, OP_EXP, sosmc_i_node_unary(p, OP_NEGATE, a[0]));
    return divide(p, one, add(p, one, e));
}

static int tangent(parser *p, const int *a)
{
    return divide(p, sosmc_i_node_unary(p, OP_SIN, a[0]), sosmc_i_node_unary(p, OP_COS, a[0]));
}

/* value of c[0] + c[1] z + ... + c[3] z^3 */
static int cubic(parser *p, const double *c, int z)
{
    int sum = sosmc_i_node_constant(p, c[3]);
    for (int k = 2; k >= 0; k--) sum = add(p, multiply(p, sum, z), sosmc_i_node_constant(p, c[k]));
    return sum;
}

/* Near zero 1 - e loses digits; there the continued fraction of tanh, cut after the 13. */
static int hyperbolic_tangent(parser *p, const int *a)
{
    static const double above[] = {135135, 17325, 378, 1}, below[] = {135135, 62370, 3150, 28};
    int one = sosmc_i_node_constant(p, 1), size = sosmc_i_node_unary(p, OP_ABS, a[0]),
        z = sosmc_i_node_unary(p, OP_SQUARE, a[0]);
    int e = sosmc_i_node_unary(p, OP_EXP, multiply(p, size, sosmc_i_node_constant(p, -2)));
    int far = divide(p, subtract(p, one, e), add(p, one, e));
    int near = divide(p, multiply(p, a[0], cubic(p, above, z)), cubic(p, below, z));
    far = choose(p, sosmc_i_node_binary(p, OP_LESS, a[0], sosmc_i_node_constant(p, 0)),
                 sosmc_i_node_unary(p, OP_NEGATE, far), far);
    return choose(p, sosmc_i_node_binary(p, OP_LESS, size, sosmc_i_node_constant(p, 0.5)), near, far);
}

/* log(1 + e) = log(u) e / (u - 1) with u = 1 + e as rounded: the error of u cancels. */
static int softplus(parser *p, const int *a)
{
    int one = sosmc_i_node_constant(p, 1),
        e = sosmc_i_node_unary(p, OP_EXP, sosmc_i_node_unary(p, OP_NEGATE, sosmc_i_node_unary(p, OP_ABS, a[0]))),
        u = add(p, one, e);
    int corrected = divide(p, multiply(p, sosmc_i_node_unary(p, OP_LOG, u), e), subtract(p, u, one));
    int log1p = choose(p, sosmc_i_node_binary(p, OP_EQUAL, u, one), e, corrected);
    return add(p, sosmc_i_node_binary(p, OP_MAX, a[0], sosmc_i_node_constant(p, 0)), log1p);
}

static int whole_power(parser *p, int a, int n)
{
    if (a < 0 || n == 0) return a < 0 ? -1 : sosmc_i_node_constant(p, 1);
    if (n < 0) return divide(p, sosmc_i_node_constant(p, 1), whole_power(p, a, -n));
    return n == 1 ? a : n == 2 ? sosmc_i_node_unary(p, OP_SQUARE, a) : make(p, OP_POWER, n, a, -1, -1);
}

int sosmc_i_node_power(parser *p, int a, int b)
{
    if (a < 0 || b < 0) return -1;
    double exponent = sosmc_i_node_is_constant(p, b) ? p->node[b].value : NAN,
           base = sosmc_i_node_is_constant(p, a) ? p->node[a].value : NAN;
    int whole = floor(exponent) == exponent;
    if (whole && fabs(exponent) <= 1024) return whole_power(p, a, (int)exponent);
    if (exponent == 0.5) return sosmc_i_node_unary(p, OP_SQRT, a);
    if ((sosmc_i_node_is_constant(p, b) && !whole) || base > 0)
        return sosmc_i_node_unary(p, OP_EXP, multiply(p, b, sosmc_i_node_unary(p, OP_LOG, a)));
    int size = sosmc_i_node_unary(p, OP_EXP,
                                  multiply(p, b, sosmc_i_node_unary(p, OP_LOG, sosmc_i_node_unary(p, OP_ABS, a))));
    int half = divide(p, b, sosmc_i_node_constant(p, 2));
    int odd = sosmc_i_node_binary(p, OP_UNEQUAL, sosmc_i_node_unary(p, OP_FLOOR, half), half);
    int signed_size = choose(p, odd, sosmc_i_node_unary(p, OP_NEGATE, size), size);
    int negative = choose(p, sosmc_i_node_binary(p, OP_EQUAL, sosmc_i_node_unary(p, OP_FLOOR, b), b), signed_size,
                          sosmc_i_node_constant(p, NAN));
    int any = choose(p, sosmc_i_node_binary(p, OP_LESS, a, sosmc_i_node_constant(p, 0)), negative, size);
    return choose(p, sosmc_i_node_binary(p, OP_EQUAL, b, sosmc_i_node_constant(p, 0)), sosmc_i_node_constant(p, 1),
                  any);
}

static int raised(parser *p, const int *a) { return sosmc_i_node_power(p, a[0], a[1]); }
static int modulo(parser *p, const int *a)
{
    return subtract(p, a[0], multiply(p, a[1], sosmc_i_node_unary(p, OP_FLOOR, divide(p, a[0], a[1]))));
}
static int ceiling(parser *p, const int *a)
{
    return sosmc_i_node_unary(p, OP_NEGATE, sosmc_i_node_unary(p, OP_FLOOR, sosmc_i_node_unary(p, OP_NEGATE, a[0])));
}
static int rounded(parser *p, const int *a)
{
    return sosmc_i_node_unary(p, OP_FLOOR, add(p, a[0], sosmc_i_node_constant(p, 0.5)));
}
static int clamped(parser *p, const int *a)
{
    return sosmc_i_node_binary(p, OP_MIN, sosmc_i_node_binary(p, OP_MAX, a[0], a[1]), a[2]);
}
static int sign_of(parser *p, const int *a)
{
    int zero = sosmc_i_node_constant(p, 0);
    return subtract(p, sosmc_i_node_binary(p, OP_LESS, zero, a[0]), sosmc_i_node_binary(p, OP_LESS, a[0], zero));
}
static int mean(parser *p, const int *a)
{
    return divide(p, sosmc_i_node_leaf(p, OP_SUM, 0), sosmc_i_node_constant(p, p->dim));
}
static int norm(parser *p, const int *a) { return sosmc_i_node_unary(p, OP_SQRT, sosmc_i_node_leaf(p, OP_NORM2, 0)); }

const formula_function sosmc_i_formula_functions[] = {
    {"exp", 1, OP_EXP, NULL},     {"log", 1, OP_LOG, NULL},     {"sqrt", 1, OP_SQRT, NULL},
    {"abs", 1, OP_ABS, NULL},     {"sin", 1, OP_SIN, NULL},     {"cos", 1, OP_COS, NULL},
    {"floor", 1, OP_FLOOR, NULL}, {"tan", 1, 0, tangent},       {"tanh", 1, 0, hyperbolic_tangent},
    {"sigmoid", 1, 0, sigmoid},   {"softplus", 1, 0, softplus}, {"ceil", 1, 0, ceiling},
    {"round", 1, 0, rounded},     {"sign", 1, 0, sign_of},      {"min", MANY, OP_MIN, NULL},
    {"max", MANY, OP_MAX, NULL},  {"pow", 2, 0, raised},        {"mod", 2, 0, modulo},
    {"clamp", 3, 0, clamped},     {"if", 3, OP_SELECT, NULL},   {"sum", 0, OP_SUM, NULL},
    {"norm2", 0, OP_NORM2, NULL}, {"mean", 0, 0, mean},         {"norm", 0, 0, norm},
};
const int sosmc_i_formula_function_count = sizeof sosmc_i_formula_functions / sizeof sosmc_i_formula_functions[0];

int sosmc_i_node_function(parser *p, int which, const int *a)
{
    op code = sosmc_i_formula_functions[which].code;
    if (sosmc_i_formula_functions[which].build) return sosmc_i_formula_functions[which].build(p, a);
    switch (arguments_of(code)) {
    case 0: return sosmc_i_node_leaf(p, code, 0);
    case 1: return sosmc_i_node_unary(p, code, a[0]);
    case 2: return sosmc_i_node_binary(p, code, a[0], a[1]);
    default: return choose(p, a[0], a[1], a[2]);
    }
}
