/* test_formula_pictures.c: formulas on statistics of pictures. Values against sums written out pixel by pixel in long
 * double, bit by bit over vector levels and shapes of batches, what NaN and a mask's zeros do, and every message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "expression/formula_inside.h" /* the tests count instructions */

enum { CHANNELS = 2, ROWS = 5, COLUMNS = 4, PIXELS = CHANNELS * ROWS * COLUMNS, N = 301, LD = 304 };

static _Alignas(64) double cloud[PIXELS * LD];
static double mask[PIXELS];
static const sosmc_picture_shape shape = {
    .channels = CHANNELS, .rows = ROWS, .columns = COLUMNS, .clamp = 1, .mask = mask};

/* Half of the pixels lie outside [-1, 1]; the mask has both signs and zeros. */
static int fill(void **state)
{
    sosmc_batch b = {.dim = PIXELS, .n = N, .ld = LD};
    sosmc_normals((sosmc_rng){.seed = 5, .stream = SOSMC_STREAM_USER}, &b, cloud);
    for (int j = 0; j < PIXELS; j++) {
        mask[j] = j % 5 == 3 ? 0 : 0.25 * (j % 7) - 0.6;
        for (int i = 0; i < N; i++) cloud[j * LD + i] *= 1.5;
    }
    return 0;
}

static sosmc_expression *compiled(const char *text, const sosmc_picture_shape *picture)
{
    char error[256];
    sosmc_expression *f = sosmc_expression_compile(text, picture->channels * picture->rows * picture->columns, picture,
                                                   error, sizeof error);
    if (!f) fail_msg("%s: %s", text, error);
    assert_string_equal(error, "");
    return f;
}

static void eval(const sosmc_expression *f, const sosmc_batch *b, double *s)
{
    sosmc_score score = sosmc_expression_score(f);
    assert_int_equal(score.eval(score.self, b, s), 0);
}

/* The value of a formula at one picture of the given shape. */
static double value(const char *text, const sosmc_picture_shape *picture, const double *x)
{
    double s = NAN;
    sosmc_batch b = {.x = x, .dim = picture->channels * picture->rows * picture->columns, .n = 1, .ld = 1};
    sosmc_expression *f = compiled(text, picture);
    eval(f, &b, &s);
    sosmc_expression_free(f);
    return s;
}

/* ------------------------------------------------------------------------------------------------ values */

typedef struct {
    int i;        /* particle */
    double clamp; /* 0: none */
} look_at;

static long double at(look_at p, int channel, int row, int column)
{
    double x = cloud[((channel * ROWS + row) * COLUMNS + column) * LD + p.i];
    return p.clamp > 0 ? fmin(fmax(x, -p.clamp), p.clamp) : x;
}

/* Rows and columns from 1, as in formulas. */
static long double mean_of(look_at p, int r1, int r2, int c1, int c2)
{
    long double sum = 0;
    for (int c = 0; c < CHANNELS; c++)
        for (int row = r1; row <= r2; row++)
            for (int column = c1; column <= c2; column++) sum += at(p, c, row - 1, column - 1);
    return sum / (CHANNELS * (r2 - r1 + 1) * (c2 - c1 + 1));
}

static long double r_mean(look_at p) { return mean_of(p, 1, ROWS, 1, COLUMNS); }
static long double r_block(look_at p) { return mean_of(p, 2, 4, 1, 3); }
static long double r_pixel(look_at p) { return mean_of(p, ROWS, ROWS, COLUMNS, COLUMNS); }
static long double r_half(look_at p) { return (mean_of(p, 4, 5, 1, 4) - mean_of(p, 1, 3, 1, 4)) / 2; }

static long double r_sd(look_at p)
{
    long double m = r_mean(p), sum = 0;
    for (int c = 0; c < CHANNELS; c++)
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++)
                sum += (at(p, c, row, column) - m) * (at(p, c, row, column) - m);
    return sqrtl(sum / PIXELS);
}

static long double r_tv(look_at p)
{
    long double sum = 0;
    int pairs = 0;
    for (int c = 0; c < CHANNELS; c++) {
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column + 1 < COLUMNS; column++, pairs++)
                sum += fabsl(at(p, c, row, column + 1) - at(p, c, row, column));
        for (int row = 0; row + 1 < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++, pairs++)
                sum += fabsl(at(p, c, row + 1, column) - at(p, c, row, column));
    }
    return sum / pairs;
}

static long double r_mask(look_at p)
{
    long double sum = 0, size = 0;
    for (int j = 0; j < PIXELS; j++) {
        sum += mask[j] * at(p, j / (ROWS * COLUMNS), j / COLUMNS % ROWS, j % COLUMNS);
        size += fabs(mask[j]);
    }
    return sum / size;
}

static long double r_mixed(look_at p) { return expl(-r_tv(p)) * (r_mean(p) > 0) + r_sd(p) * cloud[2 * LD + p.i]; }

static const struct {
    const char *text;
    long double (*expect)(look_at p);
} values[] = {
    {"mean", r_mean},
    {"mean()", r_mean},
    {"mean(1, rows, 1, columns)", r_mean},
    {"mean(2,4,1,3)", r_block},
    {"mean(rows, rows, columns(), 2^2)", r_pixel},
    {"0.5*(mean(4,5,1,4) - mean(1,3,1,4))", r_half},
    {"sd", r_sd},
    {"tv", r_tv},
    {"mask", r_mask},
    {"exp(-tv)*(mean > 0) + sd*x3", r_mixed},
};

static void statistics_are_those_of_clipped_pixels(void **state)
{
    for (size_t k = 0; k < 2 * sizeof values / sizeof values[0]; k++) {
        double s[LD];
        sosmc_picture_shape picture = shape;
        picture.clamp = k % 2 ? 0 : 1;
        sosmc_batch b = {.x = cloud, .dim = PIXELS, .n = N, .ld = LD};
        sosmc_expression *f = compiled(values[k / 2].text, &picture);
        eval(f, &b, s);
        for (int i = 0; i < N; i++) {
            double expect = (double)values[k / 2].expect((look_at){.i = i, .clamp = picture.clamp});
            if (!(fabs(s[i] - expect) < 4e-15))
                fail_msg("%s of picture %d is %.17g, not %.17g", values[k / 2].text, i, s[i], expect);
        }
        sosmc_expression_free(f);
    }
}

/* x1, sum and norm2 do not know the clamp. */
static void coordinates_stay_as_they_are(void **state)
{
    const sosmc_picture_shape two = {.channels = 1, .rows = 1, .columns = 2, .clamp = 1};
    const double x[2] = {3, -0.5};
    assert_true(value("x1", &two, x) == 3);
    assert_true(value("sum", &two, x) == 2.5);
    assert_true(value("norm2", &two, x) == 9.25);
    assert_true(value("mean", &two, x) == 0.25);
    assert_true(value("tv", &two, x) == 1.5);
    assert_true(value("rows*10 + columns", &two, x) == 12);
}

static void flat_and_single_pixels_have_no_spread(void **state)
{
    static double flat[784];
    const sosmc_picture_shape digit = {.channels = 1, .rows = 28, .columns = 28, .clamp = 1};
    const sosmc_picture_shape dot = {.channels = 3, .rows = 1, .columns = 1};
    for (int j = 0; j < 784; j++) flat[j] = 0.1;
    assert_true(value("sd", &digit, flat) == 0);
    assert_true(value("tv", &digit, flat) == 0);
    assert_true(value("tv", &dot, (double[]){1, 2, 4}) == 0);
    assert_true(fabs(value("sd", &dot, (double[]){1, 2, 4}) - sqrt(14.0) / 3) < 1e-15);
}

/* A shift that leaves no digit to a difference of squares. */
static void spread_survives_a_large_mean(void **state)
{
    const sosmc_picture_shape four = {.channels = 1, .rows = 2, .columns = 2};
    assert_true(fabs(value("sd", &four, (double[]){1e9, 1e9 + 1, 1e9, 1e9 + 1}) - 0.5) < 1e-9);
}

/* The rewards of the experiment on digits, typed and compiled. */
static void agrees_with_linear_rewards(void **state)
{
    enum { SIDE = 28, DIM = SIDE * SIDE, M = 16 };
    static _Alignas(64) double x[DIM * M];
    double weight[DIM], s[M], t[M];
    const sosmc_picture_shape digit = {.channels = 1, .rows = SIDE, .columns = SIDE, .clamp = 1, .mask = weight};
    const sosmc_linear linear = {.dim = DIM, .weight = weight, .clamp = 1};
    sosmc_batch b = {.x = x, .dim = DIM, .n = M, .ld = M};
    sosmc_normals((sosmc_rng){.seed = 6, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int j = 0; j < DIM; j++) weight[j] = (j < DIM / 2 ? -1 : 1) / (double)DIM;
    const char *const texts[] = {"0.5*(mean(15,28,1,28) - mean(1,14,1,28))", "mask"};
    sosmc_score reward = sosmc_linear_reward(&linear);
    assert_int_equal(reward.eval(reward.self, &b, t), 0);
    for (int k = 0; k < 2; k++) {
        sosmc_expression *f = compiled(texts[k], &digit);
        eval(f, &b, s);
        for (int i = 0; i < M; i++) assert_true(fabs(s[i] - t[i]) < 1e-15);
        sosmc_expression_free(f);
    }
}

/* ------------------------------------------------------------------------------------------------ bits */

static void bits_do_not_depend_on_level_or_batch(void **state)
{
    static const char *const levels[] = {"plain", "avx2", "avx512"};
    static double odd[PIXELS * N], one[PIXELS];
    double expect[LD], s[LD];
    for (int j = 0; j < PIXELS; j++)
        for (int i = 0; i < N; i++) odd[j * N + i] = cloud[j * LD + i];
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        sosmc_expression *f = compiled(values[k].text, &shape);
        sosmc_batch b = {.x = cloud, .dim = PIXELS, .n = N, .ld = LD, .simd = sosmc_simd_named("plain")};
        eval(f, &b, expect);
        for (int v = 0; v < 3; v++) {
            b.simd = sosmc_simd_named(levels[v]);
            if (!b.simd) continue;
            memset(s, 0, sizeof s);
            eval(f, &b, s);
            assert_memory_equal(s, expect, N * sizeof *s);
            sosmc_batch other = {.x = odd, .dim = PIXELS, .n = N, .ld = N, .simd = b.simd};
            memset(s, 0, sizeof s);
            eval(f, &other, s);
            assert_memory_equal(s, expect, N * sizeof *s);
            for (int j = 0; j < PIXELS; j++) one[j] = cloud[j * LD + 77];
            other = (sosmc_batch){.x = one, .dim = PIXELS, .n = 1, .ld = 1, .simd = b.simd};
            eval(f, &other, s);
            assert_memory_equal(s, expect + 77, sizeof *s);
        }
        sosmc_expression_free(f);
    }
}

static int statistics_in(const char *text)
{
    sosmc_expression *f = compiled(text, &shape);
    int count = 0;
    for (int k = 0; k < f->instructions; k++) count += f->code[k].code == OP_STATISTIC;
    sosmc_expression_free(f);
    return count;
}

static void equal_statistics_are_computed_once(void **state)
{
    assert_int_equal(statistics_in("mean + exp(mean) * mean(1,5,1,4)"), 1);
    assert_int_equal(statistics_in("mean(1,2,1,4) - mean(1,3,1,4) + mean(1,2,1,4)"), 2);
    assert_int_equal(statistics_in("sd*sd + tv/tv - mask*mask"), 3);
    assert_int_equal(statistics_in("rows + columns"), 0);
}

/* A NaN shows where it is looked at, and only there; so does an infinite pixel that is not held. */
static void pixels_outside_do_no_harm(void **state)
{
    double x[PIXELS] = {0};
    sosmc_picture_shape open = shape;
    open.clamp = 0;
    x[3] = NAN; /* row 1, column 4; the mask is 0 there */
    assert_true(mask[3] == 0);
    assert_true(value("mean(2,5,1,4)", &shape, x) == 0);
    assert_true(value("mean(1,5,1,3)", &shape, x) == 0);
    assert_true(value("mask", &shape, x) == 0);
    assert_true(isnan(value("mean(1,1,1,4)", &shape, x)));
    assert_true(isnan(value("mean", &shape, x)) && isnan(value("sd", &shape, x)) && isnan(value("tv", &shape, x)));
    x[3] = INFINITY;
    assert_true(value("mean(1,1,4,4)", &shape, x) == 0.5); /* of two channels */
    assert_true(value("mean(1,1,4,4)", &open, x) == INFINITY);
    assert_true(value("mask", &open, x) == 0);
}

static void the_picture_is_copied(void **state)
{
    double weight[2] = {1, 3}, x[2] = {0.25, 0.5}, s;
    sosmc_picture_shape two = {.channels = 1, .rows = 2, .columns = 1, .clamp = 1, .mask = weight};
    sosmc_batch b = {.x = x, .dim = 2, .n = 1, .ld = 1};
    sosmc_expression *f = compiled("mask", &two);
    weight[0] = weight[1] = -100;
    two.clamp = 0.01;
    eval(f, &b, &s);
    assert_true(s == 1.75 / 4);
    sosmc_expression_free(f);
}

/* ------------------------------------------------------------------------------------------------ errors */

static void expect_error(const char *text, const sosmc_picture_shape *picture, int dim, const char *message)
{
    char error[256];
    sosmc_expression *f = sosmc_expression_compile(text, dim, picture, error, sizeof error);
    int compiles = f != NULL;
    sosmc_expression_free(f);
    if (compiles) fail_msg("%s compiles, but should say: %s", text, message);
    if (strcmp(error, message) != 0) fail_msg("%s: \"%s\" instead of \"%s\"", text, error, message);
}

static void blocks_are_checked(void **state)
{
    const char *four = "column 5: 'mean' of a block takes 4 numbers, first and last row, first and last column, not 2";
    expect_error("1 + mean(1,2)", &shape, PIXELS, four);
    expect_error("mean(0,5,1,4)", &shape, PIXELS, "column 6: the first row is 0; expected a whole number from 1 to 5");
    expect_error("mean(1, 6, 1, 4)", &shape, PIXELS,
                 "column 9: the last row is 6; expected a whole number from 1 to 5");
    expect_error("mean(3,2,1,4)", &shape, PIXELS, "column 8: the last row is 2; expected a whole number from 3 to 5");
    expect_error("mean(1,5,5,5)", &shape, PIXELS,
                 "column 10: the first column is 5; expected a whole number from 1 to 4");
    expect_error("mean(1,5,2,1)", &shape, PIXELS,
                 "column 12: the last column is 1; expected a whole number from 2 to 4");
    expect_error("mean(rows/2,5,1,4)", &shape, PIXELS,
                 "column 6: the first row is 2.5; expected a whole number from 1 to 5");
    expect_error("mean(log(-1),5,1,4)", &shape, PIXELS,
                 "column 6: the first row is nan; expected a whole number from 1 to 5");
    expect_error("mean(1,x2,1,4)", &shape, PIXELS,
                 "column 8: the last row of a block must be a number known beforehand");
    expect_error("mean(1,mean,1,4)", &shape, PIXELS,
                 "column 8: the last row of a block must be a number known beforehand");
    expect_error("mean(1 2,1,4)", &shape, PIXELS, "column 8: expected ',' or ')' after an argument, but found '2'");
    expect_error("mean(1,2,1,4,5)", &shape, PIXELS, "column 13: expected ')' after the arguments, but found ','");
    expect_error("mean(1,2,1,", &shape, PIXELS, "column 12: expected a number, a name or '(', but the formula ends");
    expect_error("mean(", &shape, PIXELS, "column 6: expected a number, a name or '(', but the formula ends");
}

static void other_names_are_checked(void **state)
{
    double none[PIXELS] = {0}, bad[PIXELS] = {1, NAN};
    sosmc_picture_shape bare = shape, empty = shape, broken = shape;
    bare.mask = NULL, empty.mask = none, broken.mask = bad;
    expect_error("sd(x1)", &shape, PIXELS, "column 1: 'sd' is taken over the whole picture and has no arguments");
    expect_error("rows(1)", &shape, PIXELS, "column 1: 'rows' is taken over the whole picture and has no arguments");
    expect_error("1 - mask", &bare, PIXELS, "column 5: 'mask' needs a mask, and this run has none");
    expect_error("mask", &empty, PIXELS, "column 1: the weights of the mask must be finite numbers, not all of them 0");
    expect_error("mask", &broken, PIXELS,
                 "column 1: the weights of the mask must be finite numbers, not all of them 0");
    expect_error("sum(1)", &shape, PIXELS, "column 1: 'sum' is taken over all coordinates and has no arguments");
    expect_error("mean", &shape, 41,
                 "column 1: a picture of 2 x 5 x 4 pixels, held to 1, does not suit a model of dimension 41");
    sosmc_expression_free(compiled("mean", &bare));
}

static void points_have_no_pictures(void **state)
{
    char error[256];
    double s, x[2] = {1, 4};
    sosmc_batch b = {.x = x, .dim = 2, .n = 1, .ld = 1};
    expect_error("x1 + sd", NULL, 2, "column 6: 'sd' is a statistic of pictures; this model has points of dimension 2");
    expect_error("tv", NULL, 2, "column 1: 'tv' is a statistic of pictures; this model has points of dimension 2");
    expect_error("mask()", NULL, 2,
                 "column 1: 'mask' is a statistic of pictures; this model has points of dimension 2");
    expect_error("rows", NULL, 2, "column 1: 'rows' is a statistic of pictures; this model has points of dimension 2");
    expect_error("columns", NULL, 2,
                 "column 1: 'columns' is a statistic of pictures; this model has points of dimension 2");
    expect_error("mean(1,1,1,2)", NULL, 2,
                 "column 1: 'mean(...)' is a statistic of pictures; this model has points of dimension 2");
    sosmc_expression *f = sosmc_expression_compile("mean() + mean", 2, NULL, error,
                                                   sizeof error); /* of all coordinates, as ever */
    assert_non_null(f);
    eval(f, &b, &s);
    assert_true(s == 5);
    sosmc_expression_free(f);
}

static void there_are_limits(void **state)
{
    enum { SIDE = 20, ROOM = 257 * 24 };
    const sosmc_picture_shape square = {.channels = 1, .rows = SIDE, .columns = SIDE};
    char text[ROOM], error[256];
    for (int extra = 0; extra < 2; extra++) {
        int used = snprintf(text, sizeof text, "0");
        for (int k = 0; k < STATISTICS + extra; k++)
            used += snprintf(text + used, sizeof text - (size_t)used, "+mean(1,%d,1,%d)", 1 + k / SIDE, 1 + k % SIDE);
        sosmc_expression *f = sosmc_expression_compile(text, SIDE * SIDE, &square, error, sizeof error);
        assert_int_equal(!f, extra);
        sosmc_expression_free(f);
    }
    assert_non_null(strstr(error, ": more than 256 different statistics of a picture"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_clipped_pixels),
        cmocka_unit_test(coordinates_stay_as_they_are),
        cmocka_unit_test(flat_and_single_pixels_have_no_spread),
        cmocka_unit_test(spread_survives_a_large_mean),
        cmocka_unit_test(agrees_with_linear_rewards),
        cmocka_unit_test(bits_do_not_depend_on_level_or_batch),
        cmocka_unit_test(equal_statistics_are_computed_once),
        cmocka_unit_test(pixels_outside_do_no_harm),
        cmocka_unit_test(the_picture_is_copied),
        cmocka_unit_test(blocks_are_checked),
        cmocka_unit_test(other_names_are_checked),
        cmocka_unit_test(points_have_no_pictures),
        cmocka_unit_test(there_are_limits),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
