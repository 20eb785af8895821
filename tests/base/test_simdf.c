/* test_simdf.c: sixteen floats in plain C, the level that defines the others: exp and log1p against long double, sums
 * across lanes and widening additions against the order that simdf.h promises, minima and maxima of what is no number.
 * That the other levels have the same bits is seen in networks (tests/networks/test_mlp.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOSMC_LEVEL plain
#define SOSMC_LEVEL_PLAIN 1
#include "base/simdf.h"

enum { DENSE = 200000 };

static uint64_t state_of = 88172645463325252u;
static float between(double a, double b)
{
    state_of ^= state_of << 13;
    state_of ^= state_of >> 7;
    state_of ^= state_of << 17;
    return (float)(a + (b - a) * ((double)(state_of >> 11) * 0x1p-53));
}

/* Distance in units of the last place of the exact value. */
static double ulps(float got, long double exact)
{
    int e;
    (void)frexpl(exact, &e);
    return (double)fabsl(((long double)got - exact) / ldexpl(1.0L, e - 24));
}

typedef vf unary(vf x);
static vf exp_of(vf x) { return vf_exp(x); }
static vf log1p_of(vf x) { return vf_log1p(x); }

static float at(unary *f, float x)
{
    float y[FLOATS];
    vf_store(y, f(vf_set(x)));
    for (int l = 1; l < FLOATS; l++) assert_memory_equal(y + l, y, sizeof *y);
    return y[0];
}

/* The largest error over [a, b], many points and both ends. */
static double worst(unary *f, long double (*exact)(long double), double a, double b)
{
    double most = fmax(ulps(at(f, (float)a), exact((float)a)), ulps(at(f, (float)b), exact((float)b)));
    for (int k = 0; k < DENSE; k += FLOATS) {
        float x[FLOATS], y[FLOATS];
        for (int l = 0; l < FLOATS; l++) x[l] = between(a, b);
        vf_store(y, f(vf_load(x)));
        for (int l = 0; l < FLOATS; l++) most = fmax(most, ulps(y[l], exact(x[l])));
    }
    return most;
}

static void exponentials(void **state)
{
    assert_true(worst(exp_of, expl, -87, 88) < 1.2);
    assert_true(worst(exp_of, expl, -1, 1) < 1.2);
    assert_true(at(exp_of, 0) == 1);
    assert_true(at(exp_of, -0.0f) == 1);
}

/* The sigmoid's denominator has the bits of the exponential itself, also beyond its range and for what is no number. */
static void one_plus_exponentials(void **state)
{
    static const float far[] = {0, -0.0f, 87, 87.5f, -87.5f, 88, -88, -88.5f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
    enum { FAR = sizeof far / sizeof far[0] };
    for (int k = 0; k < DENSE; k += FLOATS) {
        float x[FLOATS], minus[FLOATS], got[FLOATS], expected[FLOATS];
        for (int l = 0; l < FLOATS; l++) x[l] = k == 0 && l < FAR ? far[l] : between(-90, 90);
        for (int l = 0; l < FLOATS; l++) minus[l] = -x[l];
        vf_store(got, vf_one_plus_exp_minus(vf_load(x)));
        vf_store(expected, vf_add(vf_set(1), vf_exp(vf_load(minus))));
        assert_memory_equal(got, expected, sizeof got);
    }
}

/* Held to its range, also where x is no number: never 0, infinite or subnormal. */
static void exponentials_outside(void **state)
{
    const float low = at(exp_of, -87), high = at(exp_of, 88), far[] = {87.5f, 1e3f, 1e30f, INFINITY};
    assert_true(low >= 0x1p-126f && isfinite(high));
    for (size_t k = 1; k < sizeof far / sizeof far[0]; k++) {
        assert_true(at(exp_of, far[k]) == high);
        assert_true(at(exp_of, -far[k]) == low);
    }
    assert_true(at(exp_of, -far[0]) == low && at(exp_of, far[0]) < high);
    assert_true(at(exp_of, NAN) >= low && at(exp_of, NAN) <= high);
}

static void logarithms(void **state)
{
    assert_true(worst(log1p_of, log1pl, 1e-3, 1) < 2);
    assert_true(worst(log1p_of, log1pl, 1e-30, 1e-3) < 2);
    assert_true(at(log1p_of, 0) == 0);
    assert_true(at(log1p_of, 0x1p-126f) == 0x1p-126f); /* the smallest exp gives */
}

/* Lanes l and l + 8, then l + 4, l + 2, l + 1: the sum depends on it in floats. */
static void lanes_are_folded_by_halves(void **state)
{
    for (int k = 0; k < 1000; k++) {
        float x[FLOATS];
        for (int l = 0; l < FLOATS; l++) x[l] = between(-1, 1);
        float s0 = ((x[0] + x[8]) + (x[4] + x[12])) + ((x[2] + x[10]) + (x[6] + x[14]));
        float s1 = ((x[1] + x[9]) + (x[5] + x[13])) + ((x[3] + x[11]) + (x[7] + x[15]));
        assert_true(vf_fold(vf_load(x)) == s0 + s1);
    }
}

static void sums_are_widened(void **state)
{
    float x[FLOATS];
    double g[FLOATS + 1], expect[FLOATS + 1];
    for (int l = 0; l <= FLOATS; l++) expect[l] = g[l] = 1e9 * l + 0.125;
    for (int l = 0; l < FLOATS; l++) x[l] = between(-1, 1), expect[l] += (double)x[l];
    vf_add_to(g, vf_load(x));
    assert_memory_equal(g, expect, sizeof g);
}

/* As the instructions do it: the second operand when the two cannot be compared. */
static void minima_and_maxima(void **state)
{
    float y[FLOATS];
    vf_store(y, vf_max(vf_set(NAN), vf_set(2)));
    assert_true(y[3] == 2);
    vf_store(y, vf_max(vf_set(2), vf_set(NAN)));
    assert_true(isnan(y[3]));
    vf_store(y, vf_min(vf_set(NAN), vf_set(2)));
    assert_true(y[3] == 2);
    vf_store(y, vf_min(vf_set(-1), vf_set(2)));
    assert_true(y[3] == -1);
    vf_store(y, vf_max(vf_set(-1), vf_set(2)));
    assert_true(y[3] == 2);
}

/* One rounding, not two. */
static void fused_products(void **state)
{
    float y[FLOATS];
    const float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);
    vf_store(y, vf_fma(vf_set(a), vf_set(a), vf_set(c)));
    assert_true(y[5] == 0x1p-24f);
    vf_store(y, vf_fnma(vf_set(a), vf_set(a), vf_set(-c)));
    assert_true(y[5] == -0x1p-24f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials),
        cmocka_unit_test(exponentials_outside),
        cmocka_unit_test(one_plus_exponentials),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(lanes_are_folded_by_halves),
        cmocka_unit_test(sums_are_widened),
        cmocka_unit_test(minima_and_maxima),
        cmocka_unit_test(fused_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
