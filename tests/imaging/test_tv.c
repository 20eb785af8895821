/* test_tv.c: values of the total variation by hand and on the experiment's image, the exact map of one line against its
 * optimality conditions and against brute force, refusals, and the same bits at every vector level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sosmc/imaging.h>

#include "imaging/imaging.h"
#include "assertions.h"
#include "reference.h"

enum { ROWS = 292, COLUMNS = 119, PIXELS = ROWS * COLUMNS, LONG = 3000 };

static double *doubles(size_t n)
{
    double *x = malloc(n * sizeof *x);
    assert_non_null(x);
    return x;
}

static void fill_normals(uint64_t seed, int n, double scale, double *x)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int e = 0; e < n; e++) x[e] *= scale;
}

/* ---------------------------------------------------------------------------- values */

static void values_by_hand(void **state)
{
    static const double x[6] = {1, 4, 4, 5, 1, 7}; /* differences: 3 0 -4 6 in rows, 4 -3 3 down */
    assert_near(sosmc_tv(SOSMC_TV_ANISOTROPIC, 2, 3, x), 23, 1e-14);
    assert_near(sosmc_tv(SOSMC_TV_ISOTROPIC, 2, 3, x), 5 + 3 + 3 + 4 + 6, 1e-14);
    assert_near(sosmc_tv(SOSMC_TV_ISOTROPIC, 1, 6, x), sosmc_tv(SOSMC_TV_ANISOTROPIC, 6, 1, x), 1e-14);
    assert_true(sosmc_tv(SOSMC_TV_ISOTROPIC, 1, 1, x) == 0);
    for (int n = 1; n <= 20; n++) { /* every length of the last block */
        double line[20], sum = 0;
        fill_normals(3, n, 1, line);
        for (int k = 0; k + 1 < n; k++) sum += fabs(line[k + 1] - line[k]);
        assert_near(sosmc_tv(SOSMC_TV_ANISOTROPIC, 1, n, line), sum, 1e-13);
        assert_near(sosmc_tv(SOSMC_TV_ISOTROPIC, n, 1, line), sum, 1e-13);
    }
}

static void values_of_the_experiment(void **state)
{
    double *x = doubles(PIXELS);
    reference_doubles("deblurring/guitar_292x119.f64", PIXELS, x);
    assert_near(sosmc_tv(SOSMC_TV_ISOTROPIC, ROWS, COLUMNS, x), 1170588.7198, 1e-4);
    assert_near(sosmc_tv(SOSMC_TV_ANISOTROPIC, ROWS, COLUMNS, x), 1469589.6243, 1e-4);
    free(x);
}

/* ---------------------------------------------------------------------------- one line */

/* q_k = sum_{j <= k} (u_j - z_j) must lie in [-w, w], end at zero, and be w (-w) wherever u rises (falls). */
static void assert_optimal(int n, double w, const double *z, const double *u, double tolerance)
{
    double q = 0;
    for (int k = 0; k < n; k++) {
        q += u[k] - z[k];
        double rise = k + 1 < n ? u[k + 1] - u[k] : 0;
        if (!(fabs(q) <= w + tolerance)) fail_msg("flux %g beyond %g at %d of %d", q, w, k, n);
        if (rise > tolerance) assert_near(q, w, tolerance);
        if (rise < -tolerance) assert_near(q, -w, tolerance);
    }
    assert_near(q, 0, tolerance);
}

static void solve_line(int n, double w, const double *z, double *u)
{
    double *scratch = doubles(sosmc_tv_line_scratch(n));
    sosmc_tv_line(n, w, z, u, scratch);
    free(scratch);
}

static void short_lines(void **state)
{
    static const double z[4] = {1, 3, 3, 0};
    double u[4];
    solve_line(1, 2, z, u);
    assert_true(u[0] == 1);
    solve_line(2, 0.25, z, u);
    assert_true(u[0] == 1.25 && u[1] == 2.75);
    solve_line(2, 1.5, z, u);
    assert_true(u[0] == 2 && u[1] == 2);
    solve_line(4, 0, z, u);
    assert_memory_equal(u, z, sizeof z);
    solve_line(4, 1e300, z, u);
    for (int k = 0; k < 4; k++) assert_near(u[k], 1.75, 1e-14);
    solve_line(4, 0.5, z, u); /* 1.5, and the plateau gives w at each end, and 0.5 */
    assert_near(u[0], 1.5, 1e-15);
    assert_near(u[1], 2.5, 1e-15);
    assert_near(u[2], 2.5, 1e-15);
    assert_near(u[3], 0.5, 1e-15);
}

static void long_lines(void **state)
{
    double *z = doubles(LONG), *u = doubles(LONG);
    static const double weight[] = {1e-7, 0.02, 0.4, 3, 40, 1e4};
    for (int kind = 0; kind < 6; kind++) {
        fill_normals(7 + (uint64_t)kind, LONG, 10, z);
        for (int k = 0; k < LONG; k++) {
            if (kind == 1) z[k] = 5;                             /* constant */
            if (kind == 2) z[k] = k;                             /* rising: one knot after the other falls away */
            if (kind == 3) z[k] = (double)(k % 2) * (LONG - k);  /* a saw of shrinking teeth */
            if (kind == 4) z[k] = 1e-3 * k * k * (k < LONG / 2); /* a parabola and a fall */
            if (kind == 5) z[k] = floor(0.1 * z[k]);             /* many ties */
        }
        for (int m = 0; m < 6; m++) {
            solve_line(LONG, weight[m], z, u);
            assert_optimal(LONG, weight[m], z, u, 1e-7);
        }
        memcpy(u, z, LONG * sizeof *u);
        double *other = doubles(LONG);
        solve_line(LONG, 3, z, other);
        solve_line(LONG, 3, u, u); /* in place */
        assert_memory_equal(u, other, LONG * sizeof *u);
        free(other);
    }
    free(z);
    free(u);
}

/* Maximises the dual one flux at a time until nothing moves. */
static void brute_force(int n, double w, const double *z, double *u)
{
    double q[16] = {0};
    memcpy(u, z, (size_t)n * sizeof *u);
    for (int sweep = 0; sweep < 20000; sweep++)
        for (int k = 0; k + 1 < n; k++) {
            double to = fmax(-w, fmin(w, q[k] + 0.5 * (u[k + 1] - u[k])));
            u[k] += to - q[k];
            u[k + 1] -= to - q[k];
            q[k] = to;
        }
}

static void lines_against_brute_force(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        int n = 2 + (int)(seed % 11);
        double z[16], u[16], v[16], w = exp(-4 + 0.15 * (double)seed);
        fill_normals(100 + seed, n, 2, z);
        if (seed % 3 == 0)
            for (int k = 0; k < n; k++) z[k] = rint(z[k]);
        solve_line(n, w, z, u);
        brute_force(n, w, z, v);
        for (int k = 0; k < n; k++) assert_near(u[k], v[k], 1e-12);
    }
}

/* ---------------------------------------------------------------------------- refusals */

static void refusals(void **state)
{
    double z[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, u[12], *scratch = doubles(sosmc_tv_prox_scratch(3, 4));
    const sosmc_tv_settings good = {.rows = 3, .columns = 4, .kind = SOSMC_TV_ANISOTROPIC, .tolerance = 1e-6};
    sosmc_tv_settings s = good;
    assert_int_equal(sosmc_tv_prox(&s, 0.1, z, u, scratch, NULL), SOSMC_OK);
    assert_int_equal(sosmc_tv_prox(&s, -0.1, z, u, scratch, NULL), SOSMC_EINVAL);
    assert_int_equal(sosmc_tv_prox(&s, NAN, z, u, scratch, NULL), SOSMC_EINVAL);
    assert_int_equal(sosmc_tv_prox(&s, INFINITY, z, u, scratch, NULL), SOSMC_EINVAL);
    s.tolerance = 1e-10;
    assert_int_equal(sosmc_tv_prox(&s, 0.1, z, u, scratch, NULL), SOSMC_EINVAL);
    s = good, s.rows = 0;
    assert_int_equal(sosmc_tv_prox(&s, 0.1, z, u, scratch, NULL), SOSMC_EINVAL);
    s = good, s.rows = s.columns = 1 << 15;
    assert_int_equal(sosmc_tv_prox(&s, 0.1, z, u, scratch, NULL), SOSMC_EINVAL);
    for (int kind = 0; kind < 2; kind++)
        for (int k = 0; k < 3; k++) {
            static const double odd[3] = {NAN, INFINITY, 1e200};
            s = good, s.kind = kind ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
            z[5] = odd[k];
            assert_int_equal(sosmc_tv_prox(&s, 0.1, z, u, scratch, NULL), SOSMC_ENUMERIC);
        }
    free(scratch);
}

/* ---------------------------------------------------------------------------- vector levels */

typedef struct {
    double tv[2], range, moved, square[2], gap, similarity;
    int suspects;
    int32_t edge[2 * 13 * 21];
    double u[13 * 21], v[13 * 21], q[2 * 13 * 21], r[2 * 13 * 21], sums[5 * 21];
} outcome;

static void pass_over(const imaging_code *code, int rows, int columns, outcome *o)
{
    double z[13 * 21], lines[2 * 21];
    int d = rows * columns;
    memset(o, 0, sizeof *o);
    fill_normals(5, d, 1, z);
    for (int k = 0; k < 2; k++) o->tv[k] = code->tv(k, rows, columns, z);
    o->range = code->range((size_t)d, z);
    o->suspects = code->closed_form(rows, columns, 0.1, z, o->u, o->edge, &o->square[0]);
    o->moved = code->moved((size_t)d, 0.3, z, o->u);
    for (int k = 0; k < 3; k++) code->dual_step(rows, columns, 0.1, 0.125, 0.2 * k, z, o->q, o->r, lines);
    o->gap = code->dual_gap(rows, columns, 0.1, z, o->q, o->v, &o->square[1]);
    code->window_row(columns, columns, z, o->u, NULL, NULL, o->sums);
    code->window_row(columns, columns, o->u, z, z, o->v, o->sums);
    if (columns >= 7) o->similarity = code->similarity(columns - 6, columns, o->sums, 1, 2);
}

static void same_bits_at_every_level(void **state)
{
    static const char *const name[] = {"avx2", "avx512"};
    static outcome plain, other;
    for (int columns = 1; columns <= 21; columns++) {
        int rows = 1 + columns * 5 % 13;
        pass_over(sosmc_i_imaging(sosmc_simd_named("plain")), rows, columns, &plain);
        for (int k = 0; k < 2; k++) {
            if (!sosmc_simd_named(name[k])) continue;
            pass_over(sosmc_i_imaging(sosmc_simd_named(name[k])), rows, columns, &other);
            assert_memory_equal(&plain, &other, sizeof plain);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(values_of_the_experiment),
        cmocka_unit_test(short_lines),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(lines_against_brute_force),
        cmocka_unit_test(refusals),
        cmocka_unit_test(same_bits_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
