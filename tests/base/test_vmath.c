/* test_vmath.c: elementary functions against long double, table arithmetic against naive loops, and all levels bit by
 * bit against each other. A NaN counts as equal to any NaN: its payload is not promised. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/table.h"

enum { LEVELS = 3, DENSE = 200000, FEWER = 20000 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
#define FOR_LEVELS(s)                   \
    for (int v_ = 0; v_ < LEVELS; v_++) \
        for (const sosmc_simd *s = sosmc_simd_named(level_name[v_]); s; s = NULL)

static uint64_t state = 88172645463325252u;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
static double between(double a, double b) { return a + (b - a) * ((double)(next() >> 11) * 0x1p-53); }

static int same_bits(double a, double b) { return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a); }
static void assert_same(int n, const double *a, const double *b)
{
    for (int i = 0; i < n; i++)
        if (!same_bits(a[i], b[i])) fail_msg("element %d: %a and %a", i, a[i], b[i]);
}
static void assert_near(double a, double b, double scale)
{
    if (!(fabs(a - b) <= 1e-13 * scale)) fail_msg("%.17g and %.17g", a, b);
}

/* Distance in units of the last place of the exact value. */
static double ulps(double got, long double exact)
{
    int e;
    frexp((double)exact, &e);
    return (double)fabsl(((long double)got - exact) / ldexpl(1.0L, e - 53));
}

/* ---------------------------------------------------------------------------------------- elementary functions */

#define EXP_ULP 1.1
#define LOG_ULP 0.9
#define SINCOS_ERROR 1.7e-16

static double x[DENSE], y[DENSE], s[DENSE], c[DENSE], ref[DENSE], ref2[DENSE];

static double worst(int n, const double *value, long double (*exact)(long double))
{
    double most = 0.0;
    for (int i = 0; i < n; i++) {
        double u = ulps(value[i], exact((long double)x[i]));
        if (!(u <= most)) most = u; /* NaN wins, and then fails */
    }
    return most;
}

static void fill(double a, double b)
{
    for (int i = 0; i < DENSE; i++) x[i] = between(a, b);
}

static void exp_is_accurate(void **unused)
{
    static const double range[][2] = {{-708.0, 709.78}, {-1.0, 1.0},      {-1e-3, 1e-3},
                                      {709.0, 709.78},  {-708.0, -707.0}, {-40, 0}};
    for (size_t r = 0; r < sizeof range / sizeof *range; r++) {
        fill(range[r][0], range[r][1]);
        sosmc_simd_best()->exp(DENSE, x, y);
        double most = worst(DENSE, y, expl);
        print_message("exp on [%g, %g]: %.3f ulp\n", range[r][0], range[r][1], most);
        assert_true(most < EXP_ULP);
    }
    for (int i = 0; i < DENSE; i++) x[i] = ldexp(between(-1.0, 1.0), -(int)(next() % 1070)); /* tiny: 1 + x */
    sosmc_simd_best()->exp(DENSE, x, y);
    assert_true(worst(DENSE, y, expl) < EXP_ULP);
}

static void exp_at_the_edges(void **unused)
{
    const double inf = (double)INFINITY;
    double in[] = {0.0,
                   -0.0,
                   -inf,
                   inf,
                   (double)NAN,
                   -708.0,
                   nextafter(-708.0, -1e9),
                   -745.0,
                   -1e308,
                   709.782712893384,
                   nextafter(709.782712893384, 1e3),
                   710.0,
                   711.0,
                   1e4,
                   1e308,
                   1.0};
    enum { N = sizeof in / sizeof *in };
    double out[N];
    uint64_t odd_nan = 0x7FF0000000000FFFu; /* a payload that reaches the bits used for the exponent */
    memcpy(&in[4], &odd_nan, sizeof odd_nan);
    FOR_LEVELS(v)
    {
        v->exp(N, in, out);
        assert_true(out[0] == 1.0 && out[1] == 1.0 && out[2] == 0.0 && out[3] == inf && isnan(out[4]));
        assert_true(out[5] > 0x1p-1022 && out[6] == 0.0 && out[7] == 0.0 && out[8] == 0.0);
        assert_true(ulps(out[9], expl((long double)in[9])) < EXP_ULP);
        assert_true(out[10] == inf && out[11] == inf && out[12] == inf && out[13] == inf && out[14] == inf);
        assert_true(ulps(out[15], expl(1.0L)) < EXP_ULP);
        assert_true(!signbit(out[6]) && !signbit(out[2]));
    }
}

static void log_is_accurate(void **unused)
{
    static const double range[][2] = {{0x1p-1022, 1e-300}, {0.0, 1.0},   {0.5, 2.0}, {0.999, 1.001},
                                      {0.7, 0.72},         {1.41, 1.42}, {1.0, 1e6}, {1e300, 1.7e308}};
    for (size_t r = 0; r < sizeof range / sizeof *range; r++) {
        fill(range[r][0], range[r][1]);
        sosmc_simd_best()->log(DENSE, x, y);
        double most = worst(DENSE, y, logl);
        print_message("log on [%g, %g]: %.3f ulp\n", range[r][0], range[r][1], most);
        assert_true(most < LOG_ULP);
    }
    for (int i = 0; i < DENSE; i++) { /* every exponent, and subnormals */
        uint64_t bits = next() >> 1;
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 8 == 0) x[i] = ldexp(between(0.0, 1.0), -1022);
        if (!isfinite(x[i]) || x[i] == 0.0) x[i] = 1.0;
    }
    sosmc_simd_best()->log(DENSE, x, y);
    assert_true(worst(DENSE, y, logl) < LOG_ULP);
    for (int i = 0; i < DENSE; i++) x[i] = 1.0 + ldexp(between(-1.0, 1.0), -(int)(next() % 54)); /* towards 1 */
    for (int i = 0; i < DENSE; i++) x[i] = x[i] > 0.0 ? x[i] : 1.0;
    sosmc_simd_best()->log(DENSE, x, y);
    assert_true(worst(DENSE, y, logl) < LOG_ULP);
}

static void log_at_the_edges(void **unused)
{
    const double inf = (double)INFINITY;
    double in[] = {1.0,
                   0.0,
                   -0.0,
                   -1.0,
                   -0x1p-1074,
                   -inf,
                   inf,
                   (double)NAN,
                   0x1p-1074,
                   0x1p-1022,
                   nextafter(0x1p-1022, 0.0),
                   0x1.fffffffffffffp1023};
    enum { N = sizeof in / sizeof *in };
    double out[N];
    FOR_LEVELS(v)
    {
        v->log(N, in, out);
        assert_true(out[0] == 0.0 && out[1] == -inf && out[2] == -inf && out[6] == inf && isnan(out[7]));
        assert_true(isnan(out[3]) && isnan(out[4]) && isnan(out[5]));
        for (int i = 8; i < N; i++) assert_true(ulps(out[i], logl((long double)in[i])) < LOG_ULP);
    }
    assert_true(sosmc_i_log1(NULL, 2.0) == out[0] + sosmc_i_log1(NULL, 2.0) && sosmc_i_exp1(NULL, 0.0) == 1.0);
}

static void sincos_is_accurate(void **unused)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    static const double size[] = {1.0, 0.25, 1e-8, 100.0, 0x1p40};
    for (size_t r = 0; r < sizeof size / sizeof *size; r++) {
        double most = 0.0;
        fill(-size[r], size[r]);
        for (int i = 0; i < 64; i++)
            x[i] = ((double)i - 32.0) / 8.0 * (size[r] < 1.0 ? 0.0 : 1.0); /* multiples of pi/4 */
        sosmc_simd_best()->sincos2pi(DENSE, x, s, c);
        for (int i = 0; i < DENSE; i++) {
            long double turn = (long double)x[i] - rintl((long double)x[i]);
            double es = (double)fabsl((long double)s[i] - sinl(two_pi * turn)),
                   ec = (double)fabsl((long double)c[i] - cosl(two_pi * turn));
            if (!(es <= most)) most = es;
            if (!(ec <= most)) most = ec;
        }
        print_message("sin, cos on %g: %.3g\n", size[r], most);
        assert_true(most < SINCOS_ERROR);
    }
    double quarter[] = {0.0, 0.25, 0.5, 0.75, 1.0, -0.25}, sine[6], cosine[6];
    FOR_LEVELS(v)
    {
        v->sincos2pi(6, quarter, sine, cosine);
        assert_true(sine[0] == 0.0 && sine[1] == 1.0 && sine[2] == 0.0 && sine[3] == -1.0 && sine[4] == 0.0 &&
                    sine[5] == -1.0);
        assert_true(cosine[0] == 1.0 && cosine[1] == 0.0 && cosine[2] == -1.0 && cosine[3] == 0.0 && cosine[4] == 1.0);
    }
}

static void levels_agree(void **unused)
{
    const sosmc_simd *plain = sosmc_simd_named("plain");
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < FEWER; i++) { /* raw bits: every class of number */
            uint64_t bits = next();
            memcpy(&x[i], &bits, sizeof bits);
            if (pass == 1) x[i] = between(-760.0, 760.0);
            if (pass == 2) x[i] = between(-2.0, 2.0);
        }
        FOR_LEVELS(v)
        {
            plain->exp(FEWER, x, ref);
            v->exp(FEWER, x, y);
            assert_same(FEWER, y, ref);
            plain->log(FEWER, x, ref);
            v->log(FEWER, x, y);
            assert_same(FEWER, y, ref);
            if (pass == 0) continue;
            plain->sincos2pi(FEWER, x, ref, ref2);
            v->sincos2pi(FEWER, x, s, c);
            assert_same(FEWER, s, ref);
            assert_same(FEWER, c, ref2);
        }
    }
}

static void any_length_and_in_place(void **unused)
{
    fill(0.1, 3.0);
    FOR_LEVELS(v)
    {
        v->exp(64, x, ref);
        v->log(64, x, ref2);
        for (int n = 0; n <= 33; n++) {
            for (int i = 0; i < 64; i++) y[i] = s[i] = -7.0, c[i] = x[i + 1];
            v->exp(n, x + 1, y);
            v->log(n, x + 1, s);
            v->exp(n, c, c);
            assert_same(n, y, ref + 1);
            assert_same(n, s, ref2 + 1);
            assert_same(n, c, ref + 1);
            for (int i = n; i < 64; i++) assert_true(y[i] == -7.0 && s[i] == -7.0 && c[i] == x[i + 1]);
        }
    }
}

/* ---------------------------------------------------------------------------------------- Langevin and weights */

enum { ROOM = 40 * 64 };
static double X[ROOM], Y[ROOM], G0[ROOM], G1[ROOM], Z[ROOM], U0[64], U1[64], out[ROOM], expect[ROOM];

static void randomise(void)
{
    for (int i = 0; i < ROOM; i++)
        X[i] = between(-2, 2), Y[i] = between(-2, 2), G0[i] = between(-2, 2), G1[i] = between(-2, 2),
        Z[i] = between(-2, 2);
    for (int i = 0; i < 64; i++) U0[i] = between(-5, 5), U1[i] = between(-5, 5);
}

static const struct {
    int dim, n, ld;
} shapes[] = {{1, 8, 8}, {2, 64, 64}, {3, 13, 16}, {17, 5, 8}, {40, 3, 8},
              {2, 1, 8}, {1, 1, 1},   {7, 1, 1},   {8, 1, 1},  {1000, 1, 1}};

static void ratio_and_norm(void **unused)
{
    const double h = 0.3, q = 1.0 / (0.7 * 0.7);
    const sosmc_simd *plain = sosmc_simd_named("plain");
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        int dim = shapes[k].dim, n = shapes[k].n, ld = shapes[k].ld;
        randomise();
        FOR_LEVELS(v)
        {
            for (int i = 0; i < 64; i++) out[i] = expect[i] = -7.0;
            v->langevin_ratio(dim, n, ld, X, Y, G0, G1, h, q, U0, U1, out);
            plain->langevin_ratio(dim, n, ld, X, Y, G0, G1, h, q, U0, U1, expect);
            assert_same(64, out, expect);
            for (int i = 0; i < n; i++) {
                double sum = 0.0;
                for (int j = 0; j < dim; j++) { /* the two Gaussian densities, not yet simplified */
                    double dx = Y[j * ld + i] - X[j * ld + i], f = dx + h * G0[j * ld + i],
                           b = -dx + h * G1[j * ld + i];
                    sum += (f * f - b * b) / (4.0 * h);
                }
                assert_near(out[i], U0[i] - U1[i] + q * sum, 100.0 * dim);
            }
            v->norm2(dim, n, ld, X, out);
            plain->norm2(dim, n, ld, X, expect);
            assert_same(64, out, expect);
            for (int i = 0; i < n; i++) {
                double sum = 0.0;
                for (int j = 0; j < dim; j++) sum += X[j * ld + i] * X[j * ld + i];
                assert_near(out[i], sum, 1.0 + sum);
            }
        }
    }
}

static void ratio_sums_in_eight(void **unused)
{
    double acc[8] = {0};
    enum { N = 21 };
    randomise();
    for (int j = 0; j < N; j++) acc[j % 8] = fma(X[j], X[j], acc[j % 8]);
    double sum = ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
    FOR_LEVELS(v)
    {
        v->norm2(N, 1, 1, X, out);
        assert_true(same_bits(out[0], sum));
    }
}

static void proposals(void **unused)
{
    randomise();
    FOR_LEVELS(v) for (size_t n = 0; n < 40; n++)
    {
        for (int i = 0; i < 64; i++) out[i] = -7.0;
        v->propose(n, X, G0, Z, 0.1, 0.4, out);
        for (size_t i = 0; i < n; i++) assert_true(same_bits(out[i], fma(0.4, Z[i], fma(-0.1, G0[i], X[i]))));
        assert_true(out[n] == -7.0);
        v->propose(n, X, NULL, Z, 0.1, 0.4, out);
        for (size_t i = 0; i < n; i++) assert_true(same_bits(out[i], fma(0.4, Z[i], X[i])));
    }
}

static void maximum_and_finiteness(void **unused)
{
    const double inf = (double)INFINITY, bad[] = {inf, -inf, (double)NAN};
    FOR_LEVELS(v)
    {
        assert_true(v->max(0, X) == -inf);
        for (int n = 1; n <= 40; n++)
            for (int at = 0; at < n; at++) {
                for (int i = 0; i < n; i++) X[i] = i == at ? 3.0 : i % 3 ? -1.0 - i : (double)NAN;
                assert_true(v->max(n, X) == 3.0);
            }
        for (int i = 0; i < 40; i++) X[i] = (double)NAN;
        assert_true(v->max(40, X) == -inf);
        for (size_t n = 0; n <= 40; n++) {
            for (size_t i = 0; i < 40; i++) X[i] = i < n ? 1.7e308 * (i % 2 ? 1 : -1) : (double)NAN;
            assert_true(v->all_finite(n, X));
            for (size_t i = 0; i < n; i++)
                for (int k = 0; k < 3; k++) {
                    double keep = X[i];
                    X[i] = bad[k];
                    assert_false(v->all_finite(n, X));
                    X[i] = keep;
                }
        }
    }
}

static void weights_and_coefficients(void **unused)
{
    const sosmc_simd *plain = sosmc_simd_named("plain");
    const double shift = 1.5, inf = (double)INFINITY;
    for (int n = 0; n <= 50; n++) {
        randomise();
        X[3] = -inf; /* a dropped particle: weight zero, energies anything */
        U0[3] = (double)NAN, U1[3] = inf, Y[3] = inf;
        FOR_LEVELS(v) for (int with = 0; with < 4; with++)
        {
            const double *R = with & 1 ? Y : NULL, *Uref = with & 2 ? U1 : NULL;
            double sums[SUM_COUNT] = {1, 2, 3, 4, 5}, other[SUM_COUNT] = {1, 2, 3, 4, 5},
                   naive[SUM_COUNT] = {1, 2, 3, 4, 5};
            for (int i = 0; i < 64; i++) out[i] = expect[i] = -7.0;
            v->weigh(n, X, shift, R, U0, Uref, out, sums);
            plain->weigh(n, X, shift, R, U0, Uref, expect, other);
            assert_same(64, out, expect);
            assert_same(SUM_COUNT, sums, other);
            for (int i = 0; i < n; i++) {
                double w = exp(X[i] - shift);
                assert_near(out[i], w, 1.0);
                if (w == 0.0) continue;
                naive[SUM_W] += w;
                naive[SUM_W2] += w * w;
                naive[SUM_WU] += w * U0[i];
                if (R) naive[SUM_WR] += w * R[i];
                if (Uref) naive[SUM_WD] += w * (U0[i] - Uref[i]);
            }
            for (int k = 0; k < SUM_COUNT; k++) assert_near(sums[k], naive[k], 100.0);

            double w[64];
            memcpy(w, out, sizeof w);
            for (int i = 0; i < 64; i++) out[i] = expect[i] = -7.0;
            v->coefficients(n, w, 0.8, R, 0.3, U0, Uref, -0.4, 0.05, out);
            plain->coefficients(n, w, 0.8, R, 0.3, U0, Uref, -0.4, 0.05, expect);
            assert_same(64, out, expect);
            for (int i = 0; i < n; i++) {
                double score = (R ? R[i] : 0.0) + (Uref ? 0.3 * (U0[i] - Uref[i]) : 0.0);
                if (w[i] == 0.0)
                    assert_true(out[i] == 0.0);
                else
                    assert_near(out[i], 0.8 * w[i] * (score - 0.4 + 0.05 * U0[i]), 10.0);
            }
        }
    }
}

static void names(void **unused)
{
    assert_null(sosmc_simd_named("sse"));
    assert_null(sosmc_simd_named(NULL));
    assert_string_equal(sosmc_simd_name(sosmc_simd_named("plain")), "plain");
    assert_string_equal(sosmc_simd_name(NULL), sosmc_simd_name(sosmc_simd_best()));
    FOR_LEVELS(v) print_message("level %s\n", sosmc_simd_name(v));
}

static void levels_have_numbers(void **state)
{
    for (int v = 0; v < LEVELS; v++) {
        const sosmc_simd *simd = sosmc_simd_named(level_name[v]);
        if (!simd) continue;
        assert_int_equal(sosmc_simd_level(simd), v);
        assert_string_equal(sosmc_simd_name(simd), level_name[v]);
    }
    assert_int_equal(sosmc_simd_level(NULL), sosmc_simd_level(sosmc_simd_best()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_numbers),     cmocka_unit_test(names),
        cmocka_unit_test(exp_is_accurate),         cmocka_unit_test(exp_at_the_edges),
        cmocka_unit_test(log_is_accurate),         cmocka_unit_test(log_at_the_edges),
        cmocka_unit_test(sincos_is_accurate),      cmocka_unit_test(levels_agree),
        cmocka_unit_test(any_length_and_in_place), cmocka_unit_test(ratio_and_norm),
        cmocka_unit_test(ratio_sums_in_eight),     cmocka_unit_test(proposals),
        cmocka_unit_test(maximum_and_finiteness),  cmocka_unit_test(weights_and_coefficients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
