/* formula_parse.c: a formula as text, read from left to right; the grammar is at the top of formula.c.
 *
 * Operators climb by rank, all nesting passes through `prefixed`, which counts it, and names are looked up where they
 * stand: statistics of pictures first, then functions, then coordinates. Invariant: p->at never passes the NUL, and the
 * first mistake is the one reported, with its column. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula_inside.h"

enum { NESTING = 64 }; /* parentheses, calls, prefixes and powers within each other */

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
    return sosmc_i_formula_refuse(p, p->at, "expected %s, but %s", what, words);
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
    if (end != c) return sosmc_i_formula_refuse(p, p->at, "not a decimal number");
    if (value > DBL_MAX) return sosmc_i_formula_refuse(p, p->at, "the number is too large");
    p->at += (size_t)(c - start);
    return sosmc_i_node_constant(p, value);
}

static int expression(parser *p, int least);

static int no_picture(parser *p, size_t at, const char *name, size_t length)
{
    return sosmc_i_formula_refuse(p, at, "'%.*s' is a statistic of pictures; this model has points of dimension %d",
                                  (int)length, name, p->dim);
}

static int miscounted(parser *p, size_t at, int which, int count)
{
    const char *name = sosmc_i_formula_functions[which].name;
    int wanted = sosmc_i_formula_functions[which].arguments;
    if (!strcmp(name, "mean")) return no_picture(p, at, "mean(...)", strlen("mean(...)"));
    if (wanted == 0)
        return sosmc_i_formula_refuse(p, at, "'%s' is taken over all coordinates and has no arguments", name);
    if (wanted == MANY) return sosmc_i_formula_refuse(p, at, "'%s' takes at least 2 arguments, not %d", name, count);
    return sosmc_i_formula_refuse(p, at, "'%s' takes %d argument%s, not %d", name, wanted, wanted == 1 ? "" : "s",
                                  count);
}

/* Arguments in parentheses. min and max fold theirs as they come, so that there may be any number. */
static int call(parser *p, size_t at, int which)
{
    int a[3] = {-1, -1, -1}, count = 0, wanted = sosmc_i_formula_functions[which].arguments;
    if (!take(p, '(')) {
        if (wanted == 0) return sosmc_i_node_function(p, which, a);
        return sosmc_i_formula_refuse(p, at, "'%s' is a function; write %s(...)", sosmc_i_formula_functions[which].name,
                                      sosmc_i_formula_functions[which].name);
    }
    while (look(p) != ')' || count) {
        int argument = expression(p, 0);
        if (argument < 0) return -1;
        if (wanted == MANY && count >= 2)
            a[0] = sosmc_i_node_function(p, which, a), a[1] = argument;
        else if (count < 3)
            a[count] = argument;
        count++;
        if (take(p, ',')) continue;
        if (look(p) == ')') break;
        return expected(p, count < wanted ? "',' or ')' after an argument" : "')' after the arguments");
    }
    p->at++;
    if (wanted == MANY ? count < 2 : count != wanted) return miscounted(p, at, which, count);
    return sosmc_i_node_function(p, which, a);
}

/* ------------------------------------------------------------------------------------------------ pictures */

typedef enum { NAME_MEAN, NAME_SD, NAME_TV, NAME_MASK, NAME_ROWS, NAME_COLUMNS, PICTURE_NAMES } picture_name;
static const char *const picture_names[PICTURE_NAMES] = {"mean", "sd", "tv", "mask", "rows", "columns"};

static int statistic(parser *p, size_t at, pixels_statistic made)
{
    int k = 0;
    while (k < p->statistics && memcmp(&p->statistic[k], &made, sizeof made) != 0) k++;
    if (k == STATISTICS)
        return sosmc_i_formula_refuse(p, at, "more than %d different statistics of a picture", (int)STATISTICS);
    if (k == p->statistics) p->statistic[p->statistics++] = made;
    return sosmc_i_node_leaf(p, OP_STATISTIC, k);
}

/* One edge of a block: an expression that is a whole number from `low` to `high`. */
static int edge(parser *p, const char *what, int low, int high, int *value)
{
    char words[32];
    (void)look(p);
    size_t at = p->at;
    int k = expression(p, 0);
    if (k < 0) return -1;
    if (!sosmc_i_node_is_constant(p, k))
        return sosmc_i_formula_refuse(p, at, "the %s of a block must be a number known beforehand", what);
    double given = p->node[k].value;
    (void)snprintf(words, sizeof words, "%.10g", isnan(given) ? NAN : given);
    if (!(given >= low && given <= high) || floor(given) != given)
        return sosmc_i_formula_refuse(p, at, "the %s is %s; expected a whole number from %d to %d", what, words, low,
                                      high);
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
            return sosmc_i_formula_refuse(
                p, at, "'mean' of a block takes 4 numbers, first and last row, first and last column, not %d", k);
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
    if (!p->picture->mask) return sosmc_i_formula_refuse(p, at, "'mask' needs a mask, and this run has none");
    for (int j = 0; j < p->dim; j++) size += fabs(p->picture->mask[j]);
    if (!(size > 0 && size <= DBL_MAX))
        return sosmc_i_formula_refuse(p, at, "the weights of the mask must be finite numbers, not all of them 0");
    return statistic(p, at, (pixels_statistic){.kind = PIXELS_MASK});
}

static int picture_value(parser *p, size_t at, picture_name which)
{
    if (take(p, '(') && !take(p, ')')) {
        if (which == NAME_MEAN) return block_mean(p, at);
        return sosmc_i_formula_refuse(p, at, "'%s' is taken over the whole picture and has no arguments",
                                      picture_names[which]);
    }
    switch (which) {
    case NAME_SD: return statistic(p, at, (pixels_statistic){.kind = PIXELS_SD});
    case NAME_TV: return statistic(p, at, (pixels_statistic){.kind = PIXELS_TV});
    case NAME_MASK: return mask_mean(p, at);
    case NAME_ROWS: return sosmc_i_node_constant(p, p->picture->rows);
    case NAME_COLUMNS: return sosmc_i_node_constant(p, p->picture->columns);
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

/* The coordinate of that name; -1: none has it, dim: several have, or it is the number of another. */
static int column_named(const parser *p, const char *name, size_t length)
{
    int found = -1, number = coordinate_named(p, name, length);
    for (int j = 0; p->names && j < p->dim; j++)
        if (p->names[j] && is_name(p->names[j], name, length)) found = found < 0 ? j : p->dim;
    return found >= 0 && number >= 0 && number < p->dim && number != found ? p->dim : found;
}

static int named(parser *p)
{
    const char *name = p->text + p->at;
    size_t at = p->at, length = 0;
    while (is_letter(name[length]) || is_digit(name[length])) length++;
    int shown = length < 32 ? (int)length : 32;
    p->at += length;
    int column = look(p) == '(' ? -1 : column_named(p, name, length);
    if (column == p->dim)
        return sosmc_i_formula_refuse(p, at, "'%.*s' stands for several coordinates; rename the columns", shown, name);
    if (column >= 0) return sosmc_i_node_leaf(p, OP_COORDINATE, column);
    for (int k = 0; k < PICTURE_NAMES && p->picture; k++)
        if (is_name(picture_names[k], name, length)) return picture_value(p, at, (picture_name)k);
    for (int k = 0; k < sosmc_i_formula_function_count; k++)
        if (is_name(sosmc_i_formula_functions[k].name, name, length)) return call(p, at, k);
    for (int k = 0; k < PICTURE_NAMES; k++)
        if (is_name(picture_names[k], name, length)) return no_picture(p, at, name, length);
    if (length == 2 && !memcmp(name, "pi", 2)) return sosmc_i_node_constant(p, 3.14159265358979323846);
    int j = coordinate_named(p, name, length);
    if (j >= 0 && j < p->dim) return sosmc_i_node_leaf(p, OP_COORDINATE, j);
    if (j >= 0)
        return sosmc_i_formula_refuse(p, at, "unknown name '%.*s'; the model has %d coordinate%s", shown, name, p->dim,
                                      p->dim == 1 ? "" : "s");
    if (look(p) == '(') return sosmc_i_formula_refuse(p, at, "unknown function '%.*s'", shown, name);
    return sosmc_i_formula_refuse(p, at, "unknown name '%.*s'; coordinates are x1 to x%d%s", shown, name, p->dim,
                                  p->names ? ", or the names of the columns" : "");
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
    if (p->depth == NESTING) return sosmc_i_formula_refuse(p, p->at, "nested deeper than %d", (int)NESTING);
    p->depth++;
    if (c == '-' || c == '+' || c == '!') {
        p->at++;
        a = prefixed(p);
        if (c != '+') a = sosmc_i_node_unary(p, c == '-' ? OP_NEGATE : OP_NOT, a);
    } else {
        a = primary(p);
        if (a >= 0 && take(p, '^')) a = sosmc_i_node_power(p, a, prefixed(p));
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
            return sosmc_i_formula_refuse(p, p->at, "comparisons do not chain; write (a < b) && (b < c)");
        compared |= operators[k].rank == RANK_COMPARE;
        p->at += strlen(operators[k].text);
        if (operators[k].code == OP_MULTIPLY && p->text[p->at] == '*')
            return sosmc_i_formula_refuse(p, p->at - 1, "'**' is written '^'");
        int right = expression(p, operators[k].rank + 1);
        left = operators[k].swap ? sosmc_i_node_binary(p, operators[k].code, right, left)
                                 : sosmc_i_node_binary(p, operators[k].code, left, right);
    }
}

static int whole_text(parser *p)
{
    if (!look(p)) return sosmc_i_formula_refuse(p, 0, "the formula is empty");
    int result = expression(p, 0);
    if (result < 0 || !look(p)) return result;
    switch (look(p)) {
    case '=': return sosmc_i_formula_refuse(p, p->at, "'=' alone means nothing here; compare with '=='");
    case '&': return sosmc_i_formula_refuse(p, p->at, "'&' alone means nothing here; 'and' is '&&'");
    case '|': return sosmc_i_formula_refuse(p, p->at, "'|' alone means nothing here; 'or' is '||'");
    default: return expected(p, "an operator");
    }
}

int sosmc_i_formula_parse(parser *p, int share)
{
    p->at = 0;
    p->share = share;
    p->depth = p->nodes = p->instructions = p->coordinates = p->statistics = p->failed = 0;
    return whole_text(p);
}
