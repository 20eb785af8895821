/* test_rewards.c: the linear reward of held coordinates, against the sum written out, in batches of any shape. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/models.h>

enum { DIM = 19, N = 301, LD = 304 };

static _Alignas(64) double x[DIM * LD];
static double weight[DIM];

static int fill(void **state)
{
    sosmc_batch b = {.dim = DIM, .n = N, .ld = LD};
    sosmc_normals((sosmc_rng){.seed = 8, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int j = 0; j < DIM; j++) weight[j] = j % 4 == 2 ? 0 : 0.3 * j - 2;
    return 0;
}

static void eval(const sosmc_linear *linear, const sosmc_batch *b, double *s)
{
    sosmc_score score = sosmc_linear_reward(linear);
    assert_int_equal(score.eval(score.self, b, s), 0);
}

static void linear_sums_held_coordinates(void **state)
{
    static const double clamps[] = {0, 0.5, 2};
    for (int k = 0; k < 3; k++) {
        const sosmc_linear linear = {.dim = DIM, .weight = weight, .clamp = clamps[k]};
        const sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD};
        double s[LD];
        eval(&linear, &b, s);
        for (int i = 0; i < N; i++) {
            double expect = 0;
            for (int j = 0; j < DIM; j++) {
                double at = x[j * LD + i];
                expect += weight[j] * (clamps[k] > 0 ? fmin(fmax(at, -clamps[k]), clamps[k]) : at);
            }
            assert_true(s[i] == expect);
        }
    }
}

/* The single long particle, whose vector is contiguous, and a row that no vector divides. */
static void linear_has_the_same_bits_in_any_batch(void **state)
{
    const sosmc_linear linear = {.dim = DIM, .weight = weight, .clamp = 1};
    const sosmc_batch all = {.x = x, .dim = DIM, .n = N, .ld = LD};
    double expect[LD], one[DIM], odd[DIM * 7], s[7];
    eval(&linear, &all, expect);
    for (int i = 0; i + 7 <= N; i += 7) {
        for (int j = 0; j < DIM; j++) {
            one[j] = x[j * LD + i];
            memcpy(odd + 7 * j, x + j * LD + i, 7 * sizeof *odd);
        }
        eval(&linear, &(sosmc_batch){.x = one, .dim = DIM, .n = 1, .ld = 1}, s);
        assert_true(s[0] == expect[i]);
        eval(&linear, &(sosmc_batch){.x = odd, .dim = DIM, .n = 7, .ld = 7}, s);
        assert_memory_equal(s, expect + i, sizeof s);
    }
}

static void linear_shows_nan_where_it_looks(void **state)
{
    const double two[2] = {0, 3};
    const sosmc_linear linear = {.dim = 2, .weight = two, .clamp = 1};
    double s;
    eval(&linear, &(sosmc_batch){.x = (double[]){NAN, 0.5}, .dim = 2, .n = 1, .ld = 1}, &s);
    assert_true(s == 1.5);
    eval(&linear, &(sosmc_batch){.x = (double[]){0.5, NAN}, .dim = 2, .n = 1, .ld = 1}, &s);
    assert_true(isnan(s));
    eval(&linear, &(sosmc_batch){.x = (double[]){0.5, -INFINITY}, .dim = 2, .n = 1, .ld = 1}, &s);
    assert_true(s == -3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_sums_held_coordinates),
        cmocka_unit_test(linear_has_the_same_bits_in_any_batch),
        cmocka_unit_test(linear_shows_nan_where_it_looks),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
