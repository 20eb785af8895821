/* test_formula.c: formulas typed by users. Values against libm and against C's own operators, precedence, every
 * message, limits, shapes of batches, vector levels, two threads at once, and a hundred thousand strings that are
 * mostly nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expression/formula_inside.h" /* the tests count instructions and registers */

enum { DIM = 3, N = 301, LD = 304 };

static _Alignas(64) double cloud[DIM * LD];

/* Normals of three sizes, with whole numbers, zeros and ties among them. */
static void fill(double *x, int dim, int n, int ld)
{
    sosmc_batch b = {.dim = dim, .n = n, .ld = ld, .first = 7};
    sosmc_normals((sosmc_rng){.seed = 3, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int j = 0; j < dim; j++)
        for (int i = 0; i < n; i++) {
            double *at = &x[(size_t)j * (size_t)ld + (size_t)i];
            *at *= i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 0.01;
            if (i % 10 == 9) *at = rint(*at);
            if (i % 50 == 49) *at = x[i];
        }
}

static sosmc_expression *compiled(const char *text, int dim)
{
    char error[256];
    sosmc_expression *f = sosmc_expression_compile(text, dim, NULL, error, sizeof error);
    if (!f) fail_msg("%s: %s", text, error);
    assert_string_equal(error, "");
    return f;
}

static void eval(const sosmc_expression *f, const sosmc_batch *b, double *s)
{
    sosmc_score score = sosmc_expression_score(f);
    assert_int_equal(score.eval(score.self, b, s), 0);
}

/* The value of a formula without coordinates. */
static double value(const char *text)
{
    double x = 0, s = NAN;
    sosmc_batch b = {.x = &x, .dim = 1, .n = 1, .ld = 1};
    sosmc_expression *f = compiled(text, 1);
    eval(f, &b, &s);
    sosmc_expression_free(f);
    return s;
}

/* min and max of something that is not a number are not a number, in whichever place it stands. */
static void min_and_max_pass_on_what_is_not_a_number(void **state)
{
    static const char *const texts[] = {"min(log(x1), 2)",      "min(2, log(x1))",     "max(log(x1), 2)",
                                        "max(2, log(x1))",      "min(log(x1), 2, 3)",  "max(3, log(x1), 2)",
                                        "min(log(x1), -1e300)", "max(log(x1), 1e300)", "clamp(log(x1), -1, 1)"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        double x[16], s[16];
        sosmc_batch b = {.x = x, .dim = 1, .n = 16, .ld = 16};
        for (int i = 0; i < 16; i++) x[i] = i % 3 ? 1.5 : -1;
        sosmc_expression *f = compiled(texts[t], 1);
        eval(f, &b, s);
        for (int i = 0; i < 16; i++)
            if (isnan(s[i]) != (i % 3 == 0)) fail_msg("%s at %g is %g", texts[t], x[i], s[i]);
        sosmc_expression_free(f);
    }
}

/* ------------------------------------------------------------------------------------------------ values */

typedef double (*reference)(double x1, double x2, double x3);
#define REFERENCE(name, expression) \
    static double name(double x1, double x2, double x3) { return (void)x1, (void)x2, (void)x3, (expression); }

static double squared(double a) { return a * a; }
static double least(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }
static double most(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

REFERENCE(r_gate, (x1 >= 0) * exp(-((x1 - 4) * (x1 - 4) + x2 * x2) / 20))
REFERENCE(r_arithmetic, x1 + x2 * x3 - x1 / (x2 * x2 + 1))
REFERENCE(r_negative_square, -(x1 *x1))
REFERENCE(r_division, x1 / x2 / x3)
REFERENCE(r_cube, x1 *x1 *x1)
REFERENCE(r_seventh, pow(x1, 7))
REFERENCE(r_inverse_cube, 1 / (x1 * x1 * x1))
REFERENCE(r_zero_power, 1)
REFERENCE(r_power, pow(x1, x2))
REFERENCE(r_tower, pow(2, pow(x1, 2)))
REFERENCE(r_power_of_two, pow(2, x1))
REFERENCE(r_fraction, pow(fabs(x1), 1.7))
REFERENCE(r_fraction_negative, pow(x1, 1.7))
REFERENCE(r_root, sqrt(x1))
REFERENCE(r_log, log(x1))
REFERENCE(r_exp, exp(x1 + x2))
REFERENCE(r_sin, sin(x1 * 100))
REFERENCE(r_cos, cos(x1 * 1e6 + x2))
REFERENCE(r_tan, tan(x2))
REFERENCE(r_tanh, tanh(x1))
REFERENCE(r_tanh_small, tanh(x1 / 1e9))
REFERENCE(r_sigmoid, 1 / (1 + exp(-10 * x1)))
REFERENCE(r_softplus, 10 * x1 > 0 ? 10 * x1 + log1p(exp(-10 * x1)) : log1p(exp(10 * x1)))
REFERENCE(r_abs, fabs(x1 - x2))
REFERENCE(r_min, least(least(x1, x2), least(x3, 0.5)))
REFERENCE(r_max, most(most(x1, x2), log(x3)))
REFERENCE(r_floor, floor(3 * x1))
REFERENCE(r_ceil, ceil(3 * x1))
REFERENCE(r_round, floor(3 * x1 + 0.5))
REFERENCE(r_sign, (x1 > 0) - (x1 < 0))
REFERENCE(r_mod, x1 - 2 * floor(x1 / 2))
REFERENCE(r_clamp, x1<-1 ? -1 : x1> 2 ? 2 : x1)
REFERENCE(r_if, x1 < x2 ? x3 : -x3)
REFERENCE(r_if_guard, x1 > 0 ? log(x1) : 0)
REFERENCE(r_logic, (x1 < x2 && !(x2 < x3)) || x3 == 0)
REFERENCE(r_compare, (x1 < x2) + 2 * (x1 <= x2) + 4 * (x1 > x2) + 8 * (x1 >= x2) + 16 * (x1 == x2) + 32 * (x1 != x2))
REFERENCE(r_norm2, x1 *x1 + x2 * x2 + x3 * x3)
REFERENCE(r_norm, sqrt(x1 *x1 + x2 * x2 + x3 * x3))
REFERENCE(r_mean, (x1 + x2 + x3) / 3)
REFERENCE(r_shared, exp(-squared(x1 - 4)) * (1 - exp(-squared(x1 - 4))) + exp(-squared(x1 - 4)))

static const struct {
    const char *text;
    reference expect;
    double relative, absolute; /* errors allowed; 0: the same bits */
} values[] = {
    {"(x1 >= 0) * exp(-((x1-4)^2 + x2^2)/20)", r_gate, 1e-14, 0},
    {"x1 + x2*x3 - x1/(x2^2 + 1)", r_arithmetic, 0, 0},
    {"-x1^2", r_negative_square, 0, 0},
    {"x1/x2/x3", r_division, 0, 0},
    {"x1^3", r_cube, 3e-16, 0},
    {"x1^7", r_seventh, 1e-15, 0},
    {"x1^-3", r_inverse_cube, 1e-15, 0},
    {"x1^0", r_zero_power, 0, 0},
    {"x1^x2", r_power, 1e-14, 0},
    {"pow(x1, x2)", r_power, 1e-14, 0},
    {"2^x1^2", r_tower, 1e-13, 0},
    {"2^x1", r_power_of_two, 1e-14, 0},
    {"abs(x1)^1.7", r_fraction, 1e-14, 0},
    {"x1^1.7", r_fraction_negative, 1e-14, 0},
    {"sqrt(x1)", r_root, 0, 0},
    {"x1^0.5", r_root, 0, 0},
    {"log(x1)", r_log, 5e-16, 0},
    {"exp(x1 + x2)", r_exp, 5e-16, 0},
    {"sin(x1 * 100)", r_sin, 0, 8e-16},
    {"cos(x1 * 1e6 + x2)", r_cos, 0, 8e-16},
    {"tan(x2)", r_tan, 1e-13, 1e-15},
    {"tanh(x1)", r_tanh, 2e-15, 0},
    {"tanh(x1/1e9)", r_tanh_small, 2e-15, 0},
    {"sigmoid(10*x1)", r_sigmoid, 1e-15, 0},
    {"softplus(10*x1)", r_softplus, 2e-15, 0},
    {"abs(x1 - x2)", r_abs, 0, 0},
    {"min(x1, x2, x3, .5)", r_min, 0, 0},
    {"max(x1, x2, log(x3))", r_max, 5e-16, 0},
    {"floor(3*x1)", r_floor, 0, 0},
    {"ceil(3*x1)", r_ceil, 0, 0},
    {"round(3*x1)", r_round, 0, 0},
    {"sign(x1)", r_sign, 0, 0},
    {"mod(x1, 2)", r_mod, 0, 0},
    {"clamp(x1, -1, 2)", r_clamp, 0, 0},
    {"if(x1 < x2, x3, -x3)", r_if, 0, 0},
    {"if(x1 > 0, log(x1), 0)", r_if_guard, 5e-16, 0},
    {"x1 < x2 && !(x2 < x3) || x3 == 0", r_logic, 0, 0},
    {"(x1<x2) + 2*(x1<=x2) + 4*(x1>x2) + 8*(x1>=x2) + 16*(x1==x2) + 32*(x1!=x2)", r_compare, 0, 0},
    {"norm2", r_norm2, 0, 0},
    {"norm2() + 0*sum", r_norm2, 0, 0},
    {"norm", r_norm, 0, 0},
    {"mean", r_mean, 0, 0},
    {"sum/3", r_mean, 0, 0},
    {"exp(-(x1-4)^2) * (1 - exp(-(x1-4)^2)) + exp(-(x1-4)^2)", r_shared, 1e-14, 0},
};

static void values_are_those_of_libm(void **state)
{
    double s[N];
    sosmc_batch b = {.x = cloud, .dim = DIM, .n = N, .ld = LD};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        sosmc_expression *f = compiled(values[k].text, DIM);
        eval(f, &b, s);
        for (int i = 0; i < N; i++) {
            double expect = values[k].expect(cloud[i], cloud[LD + i], cloud[2 * LD + i]);
            if (isnan(expect) && isnan(s[i])) continue;
            if (expect == s[i]) continue;
            if (!(fabs(s[i] - expect) <= values[k].absolute + values[k].relative * fabs(expect)))
                fail_msg("%s at (%.17g, %.17g, %.17g) is %.17g, not %.17g", values[k].text, cloud[i], cloud[LD + i],
                         cloud[2 * LD + i], s[i], expect);
        }
        sosmc_expression_free(f);
    }
}

/* Constants are folded by the code that runs over particles: the same bits. */
static void folding_changes_no_bit(void **state)
{
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
        for (int i = 0; i < 40; i++) {
            double x[DIM] = {cloud[i], cloud[LD + i], cloud[2 * LD + i]}, direct, folded;
            char text[2048], *to = text;
            if (strstr(values[k].text, "norm") || strstr(values[k].text, "sum") || strstr(values[k].text, "mean"))
                continue;
            if (strstr(values[k].text, "^x") || strstr(values[k].text, ", x2)"))
                continue; /* a constant exponent is another case */
            for (const char *c = values[k].text; *c; c++) {
                if (*c == 'x' && isdigit((unsigned char)c[1]))
                    to += sprintf(to, "(%.17g)", x[*++c - '1']);
                else
                    *to++ = *c;
            }
            *to = '\0';
            sosmc_batch b = {.x = x, .dim = DIM, .n = 1, .ld = 1};
            sosmc_expression *f = compiled(values[k].text, DIM), *g = compiled(text, DIM);
            eval(f, &b, &direct);
            eval(g, &b, &folded);
            assert_int_equal(g->instructions, 0);
            if (!(isnan(direct) && isnan(folded)) && memcmp(&direct, &folded, sizeof direct) != 0)
                fail_msg("%s is %.17g, but %s is %.17g", values[k].text, direct, text, folded);
            sosmc_expression_free(f);
            sosmc_expression_free(g);
        }
}

static void precedence(void **state)
{
    static const struct {
        const char *text;
        double expect;
    } cases[] = {
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"2 - 3 - 4", -5},
        {"100 / 5 / 2", 10},
        {"2 ^ 3 ^ 2", 512},
        {"-2 ^ 2", -4},
        {"(-2) ^ 2", 4},
        {"2 ^ -1", 0.5},
        {"2 ^ -2 ^ 2", 0.0625},
        {"--3", 3},
        {"-+-3", 3},
        {"!0 + 1", 2},
        {"!2", 0},
        {"!!2", 1},
        {"(1 < 2) == 1", 1},
        {"1 + 1 == 2", 1},
        {"1 || 0 && 0", 1},
        {"3 || 0", 1},
        {"0 || -2", 1},
        {"3 && 2", 1},
        {"(1 || 0) && 0", 0},
        {"0 && 1 || 1", 1},
        {"3 > 2 && 2 >= 2", 1},
        {"1 != 1 || 2 <= 1", 0},
        {"-3 * -2", 6},
        {"2*-3^2", -18},
        {"1e2", 100},
        {"1.5e-1 + .5 + 2.", 2.65},
        {"pi", 3.14159265358979323846},
        {"if(2 > 1, 10, 20)", 10},
        {"0/0 == 0/0", 0},
        {"0/0 != 0/0", 1},
        {"min(1, 0/0) != min(1, 0/0)", 1},
        {"max(0/0, 1) != max(0/0, 1)", 1},
        {"(0/0) && 1", 1},
        {"0^0", 1},
        {"0^-1", INFINITY},
        {"(-8)^3", -512},
        {"2^1025", INFINITY},
        {"(-1)^1025", -1},
        {"(-1)^2000000001", -1},
        {"exp(-1e9)", 0},
        {"exp(1e9)", INFINITY},
        {"log(0)", -INFINITY},
        {"1/(-0*1)", -INFINITY},
        {" \t1\n+\r2 ", 3},
        {"sin(2^31) == sin(2^31)", 0},
        {"1-1", 0},
        {"1 -1", 0},
        {"min(max(1,2),3)", 2},
        {"abs(-3)", 3},
        {"10 - -3", 13},
        {"1 / 3 * 3", 1},
        {"mod(-1, 3)", 2},
        {"round(2.5)", 3},
        {"sign(-0.1)", -1},
        {"tanh(1000)", 1},
        {"sigmoid(-1000)", 0},
        {"softplus(1000)", 1000},
        {"1 <= 2", 1},
        {"2 >= 3", 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double got = value(cases[k].text);
        if (got != cases[k].expect) fail_msg("%s is %.17g, not %.17g", cases[k].text, got, cases[k].expect);
    }
}

/* ------------------------------------------------------------------------------------------------ errors */

static void expect_error(const char *text, int dim, const char *message)
{
    char error[256];
    sosmc_expression *f = sosmc_expression_compile(text, dim, NULL, error, sizeof error);
    if (f) fail_msg("%.60s compiles, but should say: %s", text, message);
    if (strcmp(error, message) != 0) fail_msg("%.60s: \"%s\" instead of \"%s\"", text, error, message);
}

static void errors_say_where_and_what(void **state)
{
    expect_error("", 2, "column 1: the formula is empty");
    expect_error("  \n", 2, "column 1: the formula is empty");
    expect_error("x1 + x2*x7", 2, "column 9: unknown name 'x7'; the model has 2 coordinates");
    expect_error("x2", 1, "column 1: unknown name 'x2'; the model has 1 coordinate");
    expect_error("x99999999999999999999999", 2,
                 "column 1: unknown name 'x99999999999999999999999'; the model has 2 coordinates");
    expect_error("1 + x0", 2, "column 5: unknown name 'x0'; coordinates are x1 to x2");
    expect_error("x01", 2, "column 1: unknown name 'x01'; coordinates are x1 to x2");
    expect_error("y", 2, "column 1: unknown name 'y'; coordinates are x1 to x2");
    expect_error("2 * foo(x1)", 2, "column 5: unknown function 'foo'");
    expect_error("a_name_that_is_longer_than_thirty_two_characters", 2,
                 "column 1: unknown name 'a_name_that_is_longer_than_thirt'; coordinates are x1 to x2");
    expect_error("exp", 2, "column 1: 'exp' is a function; write exp(...)");
    expect_error("exp()", 2, "column 1: 'exp' takes 1 argument, not 0");
    expect_error("exp(1, 2)", 2, "column 1: 'exp' takes 1 argument, not 2");
    expect_error("1 + if(x1, 2)", 2, "column 5: 'if' takes 3 arguments, not 2");
    expect_error("if(1,2,3,4)", 2, "column 1: 'if' takes 3 arguments, not 4");
    expect_error("min(x1)", 2, "column 1: 'min' takes at least 2 arguments, not 1");
    expect_error("norm2(x1)", 2, "column 1: 'norm2' is taken over all coordinates and has no arguments");
    expect_error("exp(x1", 2, "column 7: expected ')' after the arguments, but the formula ends");
    expect_error("min(x1 x2)", 2, "column 8: expected ',' or ')' after an argument, but found 'x'");
    expect_error("min(x1,)", 2, "column 8: expected a number, a name or '(', but found ')'");
    expect_error("(x1 + 2", 2, "column 8: expected an operator or ')', but the formula ends");
    expect_error("(x1 + 2]", 2, "column 8: expected an operator or ')', but found ']'");
    expect_error("x1 +", 2, "column 5: expected a number, a name or '(', but the formula ends");
    expect_error("x1 x2", 2, "column 4: expected an operator, but found 'x'");
    expect_error("2 x1", 2, "column 3: expected an operator, but found 'x'");
    expect_error("x1)", 2, "column 3: expected an operator, but found ')'");
    expect_error("* 2", 2, "column 1: expected a number, a name or '(', but found '*'");
    expect_error("x1 ** 2", 2, "column 4: '**' is written '^'");
    expect_error("x1 = 2", 2, "column 4: '=' alone means nothing here; compare with '=='");
    expect_error("x1 & x2", 2, "column 4: '&' alone means nothing here; 'and' is '&&'");
    expect_error("x1 | x2", 2, "column 4: '|' alone means nothing here; 'or' is '||'");
    expect_error("0 < x1 < 1", 2, "column 8: comparisons do not chain; write (a < b) && (b < c)");
    expect_error("1 < 2 == 1", 2, "column 7: comparisons do not chain; write (a < b) && (b < c)");
    expect_error("1 + \xE2\x88\x92 2", 2, "column 5: expected a number, a name or '(', but found the byte 0xE2");
    expect_error("0x10", 2, "column 1: not a decimal number");
    expect_error("1 + 1e999", 2, "column 5: the number is too large");
    expect_error("1.5.2", 2, "column 4: expected an operator, but found '.'");
    expect_error(".", 2, "column 1: expected a number, a name or '(', but found '.'");
    expect_error("1e", 2, "column 2: expected an operator, but found 'e'");
}

/* Names of columns stand for coordinates; what could mean two of them is refused where it is used. */
static void columns_have_names(void **state)
{
    static const char *const names[] = {"height", "body mass", "mean", "again", "again", "x7", "x1", "_2"};
    static const struct {
        const char *text, *same, *error;
    } cases[] = {
        {"height", "x1", NULL},
        {"height^2 - _2", "x1^2 - x8", NULL},
        {"mean * 2 + mean()", "x3 * 2 + sum / 8", NULL},
        {"x2 + x7", NULL, "column 6: 'x7' stands for several coordinates; rename the columns"},
        {"x1", NULL, "column 1: 'x1' stands for several coordinates; rename the columns"},
        {"1 + again", NULL, "column 5: 'again' stands for several coordinates; rename the columns"},
        {"body", NULL, "column 1: unknown name 'body'; coordinates are x1 to x8, or the names of the columns"}};
    _Alignas(64) double x[8][8] = {{0}}, s[2][8];
    for (int j = 0; j < 8; j++) x[j][0] = j + 0.25;
    const sosmc_batch b = {.x = &x[0][0], .simd = sosmc_simd_best(), .dim = 8, .n = 1, .ld = 8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[256] = "";
        const char *text[2] = {cases[i].text, cases[i].same};
        for (int k = 0; k < (cases[i].same ? 2 : 1); k++) {
            sosmc_expression *f = sosmc_expression_compile_named(text[k], 8, NULL, k ? NULL : names, error,
                                                                 sizeof error);
            if (f && cases[i].error) fail_msg("%s compiles", text[k]);
            if (f) {
                sosmc_score score = sosmc_expression_score(f);
                assert_int_equal(score.eval(score.self, &b, s[k]), 0);
            }
            sosmc_expression_free(f);
        }
        assert_string_equal(error, cases[i].error ? cases[i].error : "");
        if (!cases[i].error) assert_true(s[0][0] == s[1][0]);
    }
}

static void messages_fit_their_room(void **state)
{
    char error[12] = "###########";
    assert_null(sosmc_expression_compile("x1 + y", 2, NULL, error, 9));
    assert_string_equal(error, "column 6");
    assert_string_equal(error + 9, "##");
    assert_null(sosmc_expression_compile("x1 + y", 2, NULL, NULL, 0));
    sosmc_expression_free(NULL);
}

/* ------------------------------------------------------------------------------------------------ limits */

/* `head` repeated, then `middle`, then `tail` repeated. */
static char *repeated(const char *head, const char *middle, const char *tail, int times)
{
    size_t room = (strlen(head) + strlen(tail)) * (size_t)times + strlen(middle) + 1;
    char *text = malloc(room), *to = text;
    assert_non_null(text);
    for (int k = 0; k < times; k++) to = stpcpy(to, head);
    to = stpcpy(to, middle);
    for (int k = 0; k < times; k++) to = stpcpy(to, tail);
    return text;
}

static void expect_repeated_error(const char *head, const char *middle, const char *tail, int times,
                                  const char *message)
{
    char *text = repeated(head, middle, tail, times);
    expect_error(text, 2, message);
    free(text);
}

static void expect_repeated_value(const char *head, const char *middle, const char *tail, int times, double expect)
{
    char *text = repeated(head, middle, tail, times);
    double x[2] = {1, 1}, s;
    sosmc_batch b = {.x = x, .dim = 2, .n = 1, .ld = 1};
    sosmc_expression *f = compiled(text, 2);
    eval(f, &b, &s);
    assert_true(s == expect);
    sosmc_expression_free(f);
    free(text);
}

static void limits_are_errors(void **state)
{
    expect_repeated_value("(", "x1", ")", 63, 1);
    expect_repeated_error("(", "x1", ")", 64, "column 65: nested deeper than 64");
    expect_repeated_error("(", "x1", ")", 32000, "column 65: nested deeper than 64");
    expect_repeated_error("-", "x1", "", 60000, "column 65: nested deeper than 64");
    expect_repeated_error("exp(", "x1", ")", 10000, "column 257: nested deeper than 64");
    expect_repeated_error("x1^", "x2", "", 20000, "column 193: nested deeper than 64");
    expect_repeated_value("", "x1", "+x2", 1024, 1025);
    expect_repeated_error("", "x1", "+x2", 1025, "column 3078: the formula is too long; at most 1024 operations fit");
    expect_repeated_error("", "x1", "+x2", 21844, "column 3078: the formula is too long; at most 1024 operations fit");
    expect_repeated_error("", "1", " ", 65536, "column 65537: the formula is longer than 65536 bytes");
    expect_repeated_value("", "1", " ", 65535, 1);
    expect_repeated_value("max(", "1", ",x1+1)", 60, 2);
}

/* t1..tm each used twice, far apart: more values alive than there are registers, so sharing has to be given up. */
static void registers_never_run_out_of_reach(void **state)
{
    enum { TERMS = 100 };
    char text[TERMS * 40], *to = text;
    double x[TERMS], s, sum = 0, product = 1;
    for (int k = 0; k < TERMS; k++) {
        x[k] = 0.5 + k / 100.0;
        sum += sqrt(x[k]);
        product *= sqrt(x[k]);
    }
    for (int k = 1; k <= TERMS; k++) to += sprintf(to, "%ssqrt(x%d)", k > 1 ? "+" : "(", k);
    for (int k = 1; k <= TERMS; k++) to += sprintf(to, "%ssqrt(x%d)", k > 1 ? "*" : ") - (", k);
    sprintf(to, ")");
    sosmc_batch b = {.x = x, .dim = TERMS, .n = 1, .ld = 1};
    sosmc_expression *f = compiled(text, TERMS);
    assert_true(f->instructions > 3 * TERMS);
    eval(f, &b, &s);
    assert_true(s == sum - product);
    sosmc_expression_free(f);
}

/* A full binary tree of 511 additions and 512 square roots, and a comb that leans to the right. */
static char *tree(char *to, int depth, int *leaf_number)
{
    if (depth == 0) return to + sprintf(to, "sqrt(x1+%d)", (*leaf_number)++);
    to = tree(stpcpy(to, "("), depth - 1, leaf_number);
    to = tree(stpcpy(to, "+"), depth - 1, leaf_number);
    return stpcpy(to, ")");
}

static void trees_take_few_registers(void **state)
{
    static char text[TEXT_LIMIT];
    double x = 2, s, expect = 0;
    int leaves = 0;
    sosmc_batch b = {.x = &x, .dim = 1, .n = 1, .ld = 1};
    *tree(text, 8, &leaves) = '\0';
    sosmc_expression *f = compiled(text, 1);
    int registers = 0;
    for (int k = 0; k < f->instructions; k++) registers = f->code[k].target > registers ? f->code[k].target : registers;
    assert_in_range(registers, 0, 9);
    eval(f, &b, &s);
    for (int k = 0; k < leaves; k++) expect += sqrt(x + k);
    assert_true(fabs(s - expect) < 1e-12 * expect);
    sosmc_expression_free(f);

    char *comb = repeated("sqrt(x1)+(", "x1", ")", 60);
    f = compiled(comb, 1);
    eval(f, &b, &s);
    assert_true(fabs(s - (60 * sqrt(2) + 2)) < 1e-12 * s);
    sosmc_expression_free(f);
    free(comb);
}

static void equal_parts_are_computed_once(void **state)
{
    sosmc_expression *f = compiled("exp(-(x1-4)^2) * (1 - exp(-(x1-4)^2)) + exp(-(x1-4)^2)", 2);
    assert_int_equal(f->instructions, 7); /* subtract, square, negate, exp; subtract, multiply, add */
    sosmc_expression_free(f);
    f = compiled("(x1+x2)*(x2+x1)*1", 2);
    assert_int_equal(f->instructions, 2);
    sosmc_expression_free(f);
    f = compiled("-(x1^2)/(2*10)", 2);
    assert_int_equal(f->instructions, 2);
    sosmc_expression_free(f);
}

/* ------------------------------------------------------------------------------------------------ batches */

/* The same bits in a batch of any size, alone, and at every vector level; nothing written beyond the batch. */
static void shapes_and_levels_agree(void **state)
{
    static const char *const names[] = {"plain", "avx2", "avx512"};
    static const int sizes[] = {1, 7, 8, 9, 255, 256, 257, N};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        double expect[N + 1], s[N + 1], alone[DIM];
        sosmc_batch b = {.x = cloud, .dim = DIM, .n = N, .ld = LD, .simd = sosmc_simd_named("plain")};
        sosmc_expression *f = compiled(values[k].text, DIM);
        eval(f, &b, expect);
        for (int i = 0; i < N; i++)
            if (isnan(expect[i])) expect[i] = NAN;
        for (int v = 0; v < 3; v++) {
            b.simd = sosmc_simd_named(names[v]);
            if (!b.simd) continue;
            for (size_t m = 0; m < sizeof sizes / sizeof sizes[0]; m++) {
                b.n = sizes[m];
                s[b.n] = 1234.5;
                eval(f, &b, s);
                assert_true(s[b.n] == 1234.5);
                for (int i = 0; i < b.n; i++)
                    if (isnan(s[i])) s[i] = NAN;
                if (memcmp(s, expect, (size_t)b.n * sizeof *s) != 0)
                    fail_msg("%s differs at %s", values[k].text, names[v]);
            }
            for (int i = 0; i < N; i += 5) {
                sosmc_batch one = {.x = alone, .dim = DIM, .n = 1, .ld = 1, .simd = b.simd};
                for (int j = 0; j < DIM; j++) alone[j] = cloud[j * LD + i];
                eval(f, &one, s);
                if (isnan(s[0])) s[0] = NAN;
                assert_memory_equal(s, &expect[i], sizeof *s);
            }
        }
        sosmc_expression_free(f);
    }
    sosmc_expression *f = compiled("x1", 2);
    sosmc_batch wrong = {.x = cloud, .dim = DIM, .n = 1, .ld = LD};
    double s;
    assert_int_not_equal(sosmc_expression_score(f).eval(f, &wrong, &s), 0);
    sosmc_expression_free(f);
}

static void constants_and_coordinates_stand_alone(void **state)
{
    double s[N];
    sosmc_batch b = {.x = cloud, .dim = DIM, .n = N, .ld = LD};
    sosmc_expression *f = compiled("2.5", DIM);
    eval(f, &b, s);
    for (int i = 0; i < N; i++) assert_true(s[i] == 2.5);
    sosmc_expression_free(f);
    f = compiled("x3", DIM);
    eval(f, &b, s);
    for (int i = 0; i < N; i++) assert_true(s[i] == cloud[2 * LD + i]);
    sosmc_expression_free(f);
}

typedef struct {
    const sosmc_expression *f;
    double s[N];
    int wrong;
} job;

static void *evaluate_often(void *arg)
{
    job *mine = arg;
    double s[N];
    sosmc_batch b = {.x = cloud, .dim = DIM, .n = N, .ld = LD};
    sosmc_score score = sosmc_expression_score(mine->f);
    for (int k = 0; k < 2000; k++) {
        (void)score.eval(score.self, &b, s);
        mine->wrong += memcmp(s, mine->s, sizeof s) != 0;
    }
    return NULL;
}

static void two_threads_share_a_formula(void **state)
{
    job jobs[2];
    pthread_t id[2];
    sosmc_batch b = {.x = cloud, .dim = DIM, .n = N, .ld = LD};
    sosmc_expression *f = compiled("exp(-norm2/4) * sin(x1*x2) + tanh(x3) + (x1 > x2)", DIM);
    eval(f, &b, jobs[0].s);
    for (int t = 0; t < 2; t++) {
        jobs[t].f = f;
        jobs[t].wrong = 0;
        memcpy(jobs[t].s, jobs[0].s, sizeof jobs[t].s);
        assert_int_equal(pthread_create(&id[t], NULL, evaluate_often, &jobs[t]), 0);
    }
    for (int t = 0; t < 2; t++) {
        pthread_join(id[t], NULL);
        assert_int_equal(jobs[t].wrong, 0);
    }
    sosmc_expression_free(f);
}

/* ------------------------------------------------------------------------------------------------ nonsense */

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Words of the language in random order, now and then random bytes. What compiles must run; the rest must say why. */
static void nonsense_does_no_harm(void **state)
{
    static const char *const words[] = {
        "x1",    "x2",   "x3",   "x4",     "1",     "0.5",  "2e3",    ".",         "pi",     "+",     "-",
        "*",     "/",    "^",    "(",      ")",     "(",    ")",      ",",         "<",      "<=",    ">",
        "==",    "!=",   "!",    "&&",     "||",    "exp(", "log(",   "sqrt(",     "min(",   "max(",  "if(",
        "tanh(", "pow(", "sin(", "floor(", "norm2", "sum",  "mean()", "softplus(", "clamp(", "1e400", "0x",
        " ",     "\n",   "foo",  "=",      "&",     "9",    "E",
    };
    uint64_t seed = 20240717;
    int good = 0;
    for (int k = 0; k < 100000; k++) {
        char text[512], error[100];
        double s[9];
        size_t used = 0, length = 1 + next_random(&seed) % (k % 100 == 0 ? 60 : 12);
        for (size_t w = 0; w < length && used < 480; w++) {
            if (next_random(&seed) % 200 == 0)
                text[used++] = (char)(1 + next_random(&seed) % 255);
            else
                used = (size_t)(stpcpy(text + used, words[next_random(&seed) % (sizeof words / sizeof words[0])]) -
                                text);
        }
        text[used] = '\0';
        sosmc_expression *f = sosmc_expression_compile(text, DIM, NULL, error, sizeof error);
        if (!f) {
            assert_memory_equal(error, "column ", 7);
            continue;
        }
        sosmc_batch b = {.x = cloud, .dim = DIM, .n = 9, .ld = LD};
        assert_string_equal(error, "");
        eval(f, &b, s);
        sosmc_expression_free(f);
        good++;
    }
    assert_in_range(good, 1000, 100000);
}

int main(void)
{
    fill(cloud, DIM, N, LD);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_libm),
        cmocka_unit_test(min_and_max_pass_on_what_is_not_a_number),
        cmocka_unit_test(folding_changes_no_bit),
        cmocka_unit_test(precedence),
        cmocka_unit_test(errors_say_where_and_what),
        cmocka_unit_test(columns_have_names),
        cmocka_unit_test(messages_fit_their_room),
        cmocka_unit_test(limits_are_errors),
        cmocka_unit_test(registers_never_run_out_of_reach),
        cmocka_unit_test(trees_take_few_registers),
        cmocka_unit_test(equal_parts_are_computed_once),
        cmocka_unit_test(shapes_and_levels_agree),
        cmocka_unit_test(constants_and_coordinates_stand_alone),
        cmocka_unit_test(two_threads_share_a_formula),
        cmocka_unit_test(nonsense_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
