/* test_rewards.c: the linear reward of held coordinates, against the sum written out, in batches of any shape; gates, peaks and half-planes
 * against their formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* R of the two-dimensional points in x, by hand. */
static double distance(int i, const double *center)
{
    return (x[i] - center[0]) * (x[i] - center[0]) + (x[LD + i] - center[1]) * (x[LD + i] - center[1]);
}

static void expect_reward(sosmc_score score, double (*by_hand)(int i, const void *self))
{
    const sosmc_batch b = {.x = x, .dim = 2, .n = N, .ld = LD};
    double s[LD];
    assert_int_equal(score.eval(score.self, &b, s), 0);
    for (int i = 0; i < N; i++)
        if (!(fabs(s[i] - by_hand(i, score.self)) < 1e-14))
            fail_msg("%d: %.17g and %.17g", i, s[i], by_hand(i, score.self));
}

static double gate(int i, const void *self)
{
    const sosmc_gate *g = self;
    double open = g->lambda > 0 ? 1 / (1 + exp(-x[i] / g->lambda)) : x[i] >= 0;
    return open * exp(-distance(i, g->center) / g->tau) / g->alpha;
}

static double peaks(int i, const void *self)
{
    const sosmc_peaks *p = self;
    double most = 0;
    for (int k = 0; k < p->count; k++) most = fmax(most, exp(-distance(i, p->centers + 2 * k) / p->tau) / p->alpha);
    return most;
}

static double half_plane(int i, const void *self)
{
    const sosmc_half_plane *h = self;
    return h->normal[0] * x[i] + h->normal[1] * x[LD + i] > h->offset;
}

static void rewards_are_their_formulas(void **state)
{
    static const double centers[] = {0.5, -1, -1, 0.25, 1.5, 2}, normal[] = {0.6, -0.8};
    const sosmc_gate hard = {.dim = 2, .center = centers, .tau = 3, .alpha = 2}, smooth = {2, centers, 3, 0.7, 2};
    const sosmc_peaks three = {.dim = 2, .count = 3, .centers = centers, .tau = 0.8, .alpha = 1.5};
    const sosmc_half_plane half = {.dim = 2, .normal = normal, .offset = 0.4};
    expect_reward(sosmc_gate_reward(&hard), gate);
    expect_reward(sosmc_gate_reward(&smooth), gate);
    expect_reward(sosmc_peaks_reward(&three), peaks);
    expect_reward(sosmc_half_plane_reward(&half), half_plane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_sums_held_coordinates),
        cmocka_unit_test(linear_has_the_same_bits_in_any_batch),
        cmocka_unit_test(linear_shows_nan_where_it_looks),
        cmocka_unit_test(rewards_are_their_formulas),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
