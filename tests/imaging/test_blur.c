/* test_blur.c: blurs against their definition, transposes against blurs, constants, masks, norms, and the values known
 * for the experiment's image. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/imaging.h>

#include "assertions.h"
#include "reference.h"

enum { ROWS = 292, COLUMNS = 119, PIXELS = ROWS * COLUMNS, KINDS = 13 };

static double x[PIXELS], y[PIXELS], bx[PIXELS], by[PIXELS], mask[PIXELS], *scratch;

/* Descriptions without sizes; windows beyond the image are among them. */
static const sosmc_blur kinds[KINDS] = {
    {.kind = SOSMC_BLUR_NONE},
    {.kind = SOSMC_BLUR_BOX, .patch = 1},
    {.kind = SOSMC_BLUR_BOX, .patch = 5},
    {.kind = SOSMC_BLUR_BOX, .patch = 10},
    {.kind = SOSMC_BLUR_BOX, .patch = 101},
    {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 0},
    {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 0.3},
    {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 2.5},
    {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 30},
    {.kind = SOSMC_BLUR_MOTION, .length = 0, .angle = 77},
    {.kind = SOSMC_BLUR_MOTION, .length = 7, .angle = 0},
    {.kind = SOSMC_BLUR_MOTION, .length = 9.5, .angle = 33},
    {.kind = SOSMC_BLUR_MOTION, .length = 60, .angle = -115},
};
static const int shapes[][2] = {{1, 1}, {1, 17}, {19, 1}, {2, 3}, {24, 33}, {40, 9}};
enum { SHAPES = 6 };

/* Exactly what the header asks for, so that a sanitizer sees one double too many. */
static void make_room(const sosmc_blur *b)
{
    free(scratch);
    scratch = malloc((sosmc_blur_scratch(b) + 2 * (size_t)b->rows * (size_t)b->columns) * sizeof *scratch);
    assert_non_null(scratch);
}

static sosmc_blur sized(int kind, int shape)
{
    sosmc_blur b = kinds[kind];
    b.rows = shapes[shape][0];
    b.columns = shapes[shape][1];
    assert_null(sosmc_blur_fault(&b));
    make_room(&b);
    return b;
}

static void fill_normals(uint64_t seed, int n, double *z)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, z);
}

static double inner(int n, const double *a, const double *b)
{
    double sum = 0;
    for (int e = 0; e < n; e++) sum += a[e] * b[e];
    return sum;
}

/* <B x, y> = <x, B' y>, with and without a mask, and in place. */
static void transposes(void **state)
{
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < 2 * SHAPES; s++) {
            sosmc_blur b = sized(k, s / 2);
            int d = b.rows * b.columns;
            fill_normals(1, d, x);
            fill_normals(2, d, y);
            fill_normals(3, d, mask);
            for (int e = 0; e < d; e++) mask[e] = mask[e] > 0;
            if (s % 2) b.mask = mask;
            sosmc_blur_apply(&b, x, bx, scratch);
            sosmc_blur_adjoint(&b, y, by, scratch);
            assert_near(inner(d, bx, y), inner(d, x, by), 1e-12 * (1 + sqrt(inner(d, x, x) * inner(d, y, y))));
            sosmc_blur_apply(&b, x, x, scratch);
            sosmc_blur_adjoint(&b, y, y, scratch);
            assert_memory_equal(x, bx, (size_t)d * sizeof *x);
            assert_memory_equal(y, by, (size_t)d * sizeof *y);
        }
}

static void constants_stay(void **state)
{
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < SHAPES; s++) {
            sosmc_blur b = sized(k, s);
            int d = b.rows * b.columns;
            for (int e = 0; e < d; e++) x[e] = 83.7, mask[e] = e % 3 != 1;
            sosmc_blur_apply(&b, x, y, scratch);
            for (int e = 0; e < d; e++) assert_near(y[e], 83.7, 1e-11);
            b.mask = mask;
            sosmc_blur_apply(&b, x, y, scratch);
            for (int e = 0; e < d; e++) assert_near(y[e], e % 3 != 1 ? 83.7 : 0, 1e-11);
        }
}

/* Weight of pixel offset (i, j) before normalisation; the motion blur by samples of its own definition. */
static double weight_at(const sosmc_blur *b, int i, int j)
{
    if (b->kind == SOSMC_BLUR_BOX) return abs(i) <= b->patch / 2 && abs(j) <= b->patch / 2;
    if (b->kind == SOSMC_BLUR_GAUSSIAN && b->sigma > 0) {
        int radius = (int)ceil(4 * b->sigma);
        return abs(i) <= radius && abs(j) <= radius ? exp(-0.5 * (i * i + j * j) / (b->sigma * b->sigma)) : 0;
    }
    if (b->kind != SOSMC_BLUR_MOTION || b->length == 0) return i == 0 && j == 0;
    int samples = (int)ceil(16 * b->length);
    double sum = 0, turn = b->angle * acos(-1) / 180;
    for (int m = 0; m < samples; m++) {
        double along = ((m + 0.5) / samples - 0.5) * b->length;
        double dx = fabs(j - along * cos(turn)), dy = fabs(i + along * sin(turn));
        sum += fmax(0, 1 - dx) * fmax(0, 1 - dy);
    }
    return sum;
}

static void against_the_definition(void **state)
{
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < SHAPES; s++) {
            sosmc_blur b = sized(k, s);
            int reach = b.rows > b.columns ? b.rows : b.columns, side = 2 * reach + 1;
            double *taps = malloc((size_t)(side * side) * sizeof *taps);
            assert_non_null(taps);
            for (int e = 0; e < side * side; e++) taps[e] = weight_at(&b, e / side - reach, e % side - reach);
            fill_normals(4, b.rows * b.columns, x);
            sosmc_blur_apply(&b, x, y, scratch);
            for (int p = 0; p < b.rows * b.columns; p++) {
                double sum = 0, count = 0;
                for (int q = 0; q < b.rows * b.columns; q++) {
                    int i = q / b.columns - p / b.columns, j = q % b.columns - p % b.columns;
                    double t = taps[(i + reach) * side + j + reach];
                    sum += t * x[q];
                    count += t;
                }
                assert_near(y[p], sum / count, 1e-11);
            }
            free(taps);
        }
}

/* A mask of ones changes nothing; one of zeros leaves nothing; without a blur the norm is the largest factor. */
static void norms(void **state)
{
    sosmc_blur b = sized(0, 4);
    for (int e = 0; e < b.rows * b.columns; e++) mask[e] = e == 100 ? -3 : 1;
    assert_near(sosmc_blur_norm2(&b, 100, scratch), 1, 1e-12);
    b.mask = mask;
    assert_near(sosmc_blur_norm2(&b, 100, scratch), 9, 1e-6);
    memset(mask, 0, sizeof mask);
    assert_true(sosmc_blur_norm2(&b, 100, scratch) == 0);
    for (int k = 1; k < KINDS; k++) { /* between what one direction shows and the bound of Schur's test */
        b = sized(k, 4);
        int d = b.rows * b.columns;
        double norm2 = sosmc_blur_norm2(&b, 300, scratch), most = 0;
        for (int e = 0; e < d; e++) x[e] = 1;
        sosmc_blur_adjoint(&b, x, y, scratch);
        for (int e = 0; e < d; e++) most = fmax(most, y[e]);
        assert_true(norm2 >= 1 - 1e-9 && norm2 <= most + 1e-9);
    }
}

static void faults_are_named(void **state)
{
    const sosmc_blur good = {.rows = 4, .columns = 5, .kind = SOSMC_BLUR_BOX, .patch = 3};
    sosmc_blur b = good;
    assert_null(sosmc_blur_fault(&b));
    b.patch = 0;
    assert_string_equal(sosmc_blur_fault(&b), "patch must be 1 to 2000000");
    b = good, b.rows = 0;
    assert_non_null(sosmc_blur_fault(&b));
    b = good, b.rows = b.columns = 1 << 15;
    assert_non_null(sosmc_blur_fault(&b));
    b = good, b.kind = SOSMC_BLUR_GAUSSIAN, b.sigma = NAN;
    assert_non_null(sosmc_blur_fault(&b));
    b = good, b.kind = SOSMC_BLUR_MOTION, b.length = -1;
    assert_non_null(sosmc_blur_fault(&b));
    b = good, b.kind = SOSMC_BLUR_MOTION, b.angle = INFINITY;
    assert_non_null(sosmc_blur_fault(&b));
}

static void values_of_the_experiment(void **state)
{
    static const int patch[2] = {5, 10};
    static const double square[2] = {701.68292391, 957.82614253}, sum[2] = {3038799.15754, 3039526.19398},
                        norm[2] = {1.00276, 1.00303}, similar[2] = {0.43041795, 0.24491966};
    reference_doubles("deblurring/guitar_292x119.f64", PIXELS, x);
    for (int k = 0; k < 2; k++) {
        sosmc_blur b = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_BLUR_BOX, .patch = patch[k]};
        double total = 0;
        make_room(&b);
        sosmc_blur_apply(&b, x, y, scratch);
        for (int e = 0; e < PIXELS; e++) total += y[e];
        assert_near(sosmc_mse(PIXELS, x, y), square[k], 1e-8);
        assert_near(total, sum[k], 1e-5);
        assert_near(sosmc_ssim(ROWS, COLUMNS, 1, sosmc_image_range(PIXELS, x), x, y, scratch), similar[k], 1e-8);
        assert_near(sqrt(sosmc_blur_norm2(&b, 1000, scratch)), norm[k], 1e-5);
    }
}

static int drop(void **state)
{
    free(scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes), cmocka_unit_test(constants_stay),   cmocka_unit_test(against_the_definition),
        cmocka_unit_test(norms),      cmocka_unit_test(faults_are_named), cmocka_unit_test(values_of_the_experiment),
    };
    return cmocka_run_group_tests(tests, NULL, drop);
}
