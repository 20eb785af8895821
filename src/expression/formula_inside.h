/* formula_inside.h: what the parts of formulas share. A text passes through them in this order:
 *
 *     formula_parse.c        characters to calls of what makes nodes, and what is wrong with them
 *     formula_nodes.c        operations as nodes, folded and shared, and what the functions are made of
 *     formula.c              nodes to instructions over registers
 *     formula_evaluate.c     instructions over particles
 *
 * Invariant: a node's arguments are older than itself, and -1 stands for a node that could not be made: every maker of
 * nodes passes it on, and the sentence is that of the first mistake. */
#ifndef SOSMC_EXPRESSION_FORMULA_INSIDE_H
#define SOSMC_EXPRESSION_FORMULA_INSIDE_H

#include <sosmc/expression.h>

#include "pixels.h"

enum {
    TEXT_LIMIT = 65536, /* bytes */
    INSTRUCTIONS = 1024,
    NODES = 2048,      /* instructions, constants and coordinates, dead ones included */
    COORDINATES = 512, /* different ones a formula may name */
    STATISTICS = 256,  /* different ones of a picture */
    REGISTERS = 32,
    BLOCK = 8 /* particles that any row can be read in units of */
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

static inline int arguments_of(op code) { return code < OP_EXP ? 0 : code < OP_ADD ? 1 : code < OP_SELECT ? 2 : 3; }
static inline int is_leaf(op code) { return code <= OP_COORDINATE; }

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

struct sosmc_expression {
    int dim, instructions, coordinates, constants;
    instruction *code;
    int *coordinate;  /* which coordinates are named: 0 for x1 */
    double *constant; /* BLOCK copies of each */
    place result;
    sosmc_picture_shape picture; /* where there are statistics; its mask is `mask` */
    pixels_statistic *statistic;
    double *mask;
};

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
    const sosmc_picture_shape *picture; /* NULL: none */
    const char *const *names;           /* of the coordinates; NULL: none */
    char *error;
    size_t room;
    int failed;
    node node[NODES];
    pixels_statistic statistic[STATISTICS];
} parser;

/* Notes the first mistake only, at byte `at` of the text. Returns -1. */
int sosmc_i_formula_refuse(parser *p, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Nodes, or simpler ones with the same bits: their numbers. */
int sosmc_i_node_constant(parser *p, double value);
int sosmc_i_node_leaf(parser *p, op code, int number); /* number: of the coordinate, or the entry of the statistic */
int sosmc_i_node_unary(parser *p, op code, int a);
int sosmc_i_node_binary(parser *p, op code, int a, int b);
int sosmc_i_node_power(parser *p, int a, int b); /* a ^ b */
int sosmc_i_node_is_constant(const parser *p, int k);

/* The functions by name; what they do, and to how many arguments. */
enum { MANY = 3 * NODES };
typedef struct {
    const char *name;
    int arguments;                         /* 0: over all coordinates; MANY: two or more */
    op code;                               /* what it is, */
    int (*build)(parser *p, const int *a); /* or what it is made of */
} formula_function;
extern const formula_function sosmc_i_formula_functions[];
extern const int sosmc_i_formula_function_count;
int sosmc_i_node_function(parser *p, int which, const int *a); /* of two arguments where there may be many */

/* ------------------------------------------------------------------------------------------------ the way through */

/* The node that is the whole text's value, all earlier nodes being forgotten; -1: sosmc_i_formula_refuse has said why. */
int sosmc_i_formula_parse(parser *p, int share);

/* An instruction's value for arguments that are constants. */
double sosmc_i_formula_fold(op code, int number, const double *value);

#endif
