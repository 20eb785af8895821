/* test_mixture.c: the Gaussian mixture model and its source. Values against the formula in long double, gradients
 * against finite differences of U, and bit by bit: fused against unfused, level against level, tile against tile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sosmc/models.h>

#include "base/table.h"

enum { LEVELS = 3, DIMS = 17, COMPONENTS = 9, N = 37, LD = 40 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
#define FOR_LEVELS(s)                   \
    for (int v_ = 0; v_ < LEVELS; v_++) \
        for (const sosmc_simd *s = sosmc_simd_named(level_name[v_]); s; s = NULL)

static const int dims[] = {1, 2, 3, 5, DIMS}, counts[] = {1, 2, 6, COMPONENTS};
static const double epsilons[] = {0.0, 1e-9};
#define FOR_CASES(f, k)                                            \
    for (struct fixture f = {0}, *once_ = &f; once_; once_ = NULL) \
        for (int k = 0; k < 40; k++)                               \
            if (setup(&f, dims[k % 5], counts[k / 5 % 4], epsilons[k / 20]), 1)

struct fixture {
    double means[COMPONENTS * DIMS], theta[COMPONENTS], prep[2 * COMPONENTS];
    double x[DIMS * LD], U[LD], gx[DIMS * LD], c[LD], g[COMPONENTS];
    double work[COMPONENTS * LD];
    sosmc_mixture m;
    sosmc_model model;
    sosmc_batch b;
};

static double uniform(double a, double b)
{
    static uint64_t state = 0x9E3779B97F4A7C15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return a + (b - a) * ((double)(state >> 11) * 0x1p-53);
}

static void setup(struct fixture *f, int dim, int components, double eps)
{
    f->m = (sosmc_mixture){.dim = dim, .components = components, .means = f->means, .variance = 0.7, .eps = eps};
    for (int i = 0; i < COMPONENTS * DIMS; i++) f->means[i] = uniform(-1.5, 1.5);
    for (int j = 0; j < COMPONENTS; j++) f->theta[j] = uniform(-2.0, 2.0);
    for (int i = 0; i < DIMS * LD; i++) f->x[i] = uniform(-2.0, 2.0);
    for (int i = 0; i < LD; i++) f->c[i] = uniform(-1.0, 1.0);
    f->model = sosmc_mixture_model(&f->m);
    f->b = (sosmc_batch){.x = f->x, .prep = f->prep, .work = f->work, .dim = dim, .n = N, .ld = LD};
    assert_int_equal(f->model.prepare(f->model.self, f->theta, f->prep), 0);
}

static void energy(struct fixture *f, double *U, double *gx)
{
    assert_int_equal(f->model.energy(f->model.self, f->theta, &f->b, U, gx), 0);
}

static void gradient(struct fixture *f, int fresh, double *g)
{
    f->b.fresh = fresh;
    assert_int_equal(f->model.grad_theta(f->model.self, f->theta, &f->b, f->c, g), 0);
}

static void assert_close(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g and %.17g differ by more than %g", a, b, tolerance);
}

static void assert_rows_equal(int rows, int n, const double *a, int lda, const double *b, int ldb)
{
    for (int r = 0; r < rows; r++) assert_memory_equal(a + r * lda, b + r * ldb, (size_t)n * sizeof *a);
}

/* U, gx (dim) and dU/dtheta of one particle, by the formula. */
static long double formula(const struct fixture *f, int i, long double *gx, long double *gtheta)
{
    const int dim = f->m.dim, m = f->m.components;
    long double v[COMPONENTS], e[COMPONENTS], total = 0.0L, S = 0.0L, shift = 1e30L;
    for (int j = 0; j < m; j++) total += v[j] = expl((long double)f->theta[j]);
    for (int j = 0; j < m; j++) {
        long double d2 = 0.0L;
        v[j] /= total;
        for (int d = 0; d < dim; d++) {
            long double t = (long double)f->x[d * f->b.ld + i] - (long double)f->means[j * dim + d];
            d2 += t * t;
        }
        e[j] = d2 / (2.0L * (long double)f->m.variance);
        shift = e[j] < shift ? e[j] : shift;
    }
    if (f->m.eps > 0.0) shift = 0.0L;
    for (int j = 0; j < m; j++) e[j] = v[j] * expl(shift - e[j]), S += e[j];
    long double full = S + (long double)f->m.eps;
    for (int d = 0; d < dim; d++) {
        gx[d] = 0.0L;
        for (int j = 0; j < m; j++)
            gx[d] += e[j] * ((long double)f->x[d * f->b.ld + i] - (long double)f->means[j * dim + d]) /
                     ((long double)f->m.variance * full);
    }
    for (int j = 0; j < m; j++) gtheta[j] = (v[j] * S - e[j]) / full;
    return shift - logl(full);
}

static void values_follow_the_formula(void **unused)
{
    FOR_CASES(f, k)
    {
        long double gx[DIMS], one[COMPONENTS], sum[COMPONENTS] = {0};
        energy(&f, f.U, f.gx);
        for (int i = 0; i < N; i++) {
            assert_close(f.U[i], (double)formula(&f, i, gx, one), 1e-13 * (1.0 + fabs(f.U[i])));
            for (int d = 0; d < f.m.dim; d++) assert_close(f.gx[d * LD + i], (double)gx[d], 1e-12);
            for (int j = 0; j < f.m.components; j++) sum[j] += (long double)f.c[i] * one[j];
        }
        for (int j = 0; j < f.m.components; j++) f.g[j] = 0.25 * j; /* added to, not overwritten */
        gradient(&f, 1, f.g);
        for (int j = 0; j < f.m.components; j++) assert_close(f.g[j], 0.25 * j + (double)sum[j], 1e-12);
    }
}

/* Fourth-order central difference of a sampled function. */
static double slope(const double at[4], double h) { return (8.0 * (at[2] - at[1]) - (at[3] - at[0])) / (12.0 * h); }
static const double stencil[4] = {-2.0, -1.0, 1.0, 2.0};

static void gradient_in_x_by_differences(void **unused)
{
    const double h = 1e-3;
    FOR_CASES(f, k)
    {
        double at[4][LD];
        energy(&f, f.U, f.gx);
        for (int d = 0; d < f.m.dim; d++) {
            for (int q = 0; q < 4; q++) {
                for (int i = 0; i < LD; i++) f.x[d * LD + i] += stencil[q] * h;
                energy(&f, at[q], NULL);
                for (int i = 0; i < LD; i++) f.x[d * LD + i] -= stencil[q] * h;
            }
            for (int i = 0; i < N; i++) {
                double sample[4] = {at[0][i], at[1][i], at[2][i], at[3][i]};
                assert_close(f.gx[d * LD + i], slope(sample, h), 2e-9 * (1.0 + fabs(f.gx[d * LD + i])));
            }
        }
    }
}

static void gradient_in_theta_by_differences(void **unused)
{
    const double h = 1e-3;
    FOR_CASES(f, k)
    {
        double U[LD], total = 0.0;
        for (int j = 0; j < f.m.components; j++) f.g[j] = 0.0;
        gradient(&f, 0, f.g);
        for (int j = 0; j < f.m.components; j++) {
            double sample[4] = {0}, keep = f.theta[j];
            for (int q = 0; q < 4; q++) {
                f.theta[j] = keep + stencil[q] * h;
                f.model.prepare(f.model.self, f.theta, f.prep);
                energy(&f, U, NULL);
                for (int i = 0; i < N; i++) sample[q] += f.c[i] * U[i];
            }
            f.theta[j] = keep;
            assert_close(f.g[j], slope(sample, h), 2e-9);
            total += f.g[j];
        }
        assert_close(total, 0.0, 1e-13); /* softmax does not see a constant added to theta */
    }
}

/* Every way of asking gives the same bits. */
static void one_sequence_of_operations(void **unused)
{
    FOR_CASES(f, k)
    {
        static double U[LD], gx[DIMS * LD], fused[COMPONENTS], alone[COMPONENTS], parked[COMPONENTS * LD];
        f.b.simd = sosmc_simd_named("plain");
        energy(&f, f.U, f.gx);
        memcpy(parked, f.work, sizeof parked);
        memset(fused, 0, sizeof fused);
        gradient(&f, 1, fused);
        FOR_LEVELS(v)
        {
            f.b.simd = v;
            memset(f.work, 0xFF, sizeof f.work); /* NaN */
            energy(&f, U, gx);
            assert_rows_equal(1, N, U, LD, f.U, LD);
            assert_rows_equal(f.m.dim, N, gx, LD, f.gx, LD);
            assert_rows_equal(f.m.components, N, f.work, LD, parked, LD);
            memset(alone, 0, sizeof alone);
            gradient(&f, 1, alone);
            assert_memory_equal(alone, fused, sizeof alone);

            memset(f.work, 0xFF, sizeof f.work);
            memset(alone, 0, sizeof alone);
            gradient(&f, 0, alone);
            assert_memory_equal(alone, fused, sizeof alone);

            memset(f.work, 0x11, sizeof f.work); /* without gx, work must keep what it holds */
            memset(U, 0, sizeof U);
            energy(&f, U, NULL);
            assert_rows_equal(1, N, U, LD, f.U, LD);
            for (size_t i = 0; i < sizeof f.work; i++) assert_int_equal(((unsigned char *)f.work)[i], 0x11);
        }
    }
}

/* A particle's U and gx do not depend on the tile it is in, nor on the layout ld == 1. */
static void tiles_do_not_matter(void **unused)
{
    FOR_CASES(f, k)
    {
        static double x[DIMS * LD], U[LD], gx[DIMS * LD], work[COMPONENTS * LD], whole[COMPONENTS], sum[COMPONENTS];
        const int dim = f.m.dim;
        energy(&f, f.U, f.gx);
        memset(whole, 0, sizeof whole);
        gradient(&f, 1, whole);
        FOR_LEVELS(v) for (int n = 1; n <= 16; n += 5)
        {
            memset(sum, 0, sizeof sum);
            for (int start = 0; start < N; start += n) {
                int count = N - start < n ? N - start : n, ld = n == 1 ? 1 : (n + 7) / 8 * 8;
                sosmc_batch b = {.x = x, .prep = f.prep, .work = work, .simd = v, .dim = dim, .n = count, .ld = ld};
                for (int d = 0; d < dim; d++) memcpy(x + d * ld, f.x + d * LD + start, (size_t)count * sizeof *x);
                U[count] = gx[dim * ld] = work[f.m.components * ld] = -7.0;
                f.model.energy(f.model.self, f.theta, &b, U, gx);
                assert_rows_equal(1, count, U, ld, f.U + start, LD);
                assert_rows_equal(dim, count, gx, ld, f.gx + start, LD);
                assert_true(U[count] == -7.0 && gx[dim * ld] == -7.0 && work[f.m.components * ld] == -7.0);
                b.fresh = 1;
                f.model.grad_theta(f.model.self, f.theta, &b, f.c + start, sum);
            }
            for (int j = 0; j < f.m.components; j++)
                assert_close(sum[j], whole[j], 1e-13); /* the shape of the sum differs */
        }
    }
}

static void sums_run_in_eight(void **unused)
{
    static struct fixture f;
    double A[2], acc[8] = {0};
    setup(&f, 2, 2, 1e-9);
    energy(&f, f.U, f.gx);
    for (int j = 0; j < 2; j++) {
        memset(acc, 0, sizeof acc);
        for (int i = 0; i < N; i++) acc[i % 8] = fma(f.c[i], f.work[j * LD + i], acc[i % 8]);
        A[j] = ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
    }
    gradient(&f, 1, f.g);
    for (int j = 0; j < 2; j++) assert_true(f.g[j] == -A[j] + f.prep[2 + j] * (A[0] + A[1]));
}

static void nan_where_nobody_looks(void **unused)
{
    FOR_CASES(f, k)
    {
        double clean[COMPONENTS] = {0}, fused[COMPONENTS] = {0}, alone[COMPONENTS] = {0}, U[LD];
        f.c[11] = 0.0; /* a dropped particle: coefficient zero */
        energy(&f, f.U, f.gx);
        gradient(&f, 1, clean);
        FOR_LEVELS(v)
        {
            f.b.simd = v;
            for (int d = 0; d < f.m.dim; d++) {
                f.x[d * LD + 11] = (double)INFINITY;
                for (int i = N; i < LD; i++) f.x[d * LD + i] = (double)NAN;
            }
            for (int i = N; i < LD; i++) f.c[i] = (double)NAN;
            memset(f.work, 0xFF, sizeof f.work);
            energy(&f, U, f.gx);
            assert_memory_equal(U, f.U, 11 * sizeof *U);
            assert_memory_equal(U + 12, f.U + 12, (N - 12) * sizeof *U);
            memset(fused, 0, sizeof fused);
            memset(alone, 0, sizeof alone);
            gradient(&f, 1, fused);
            gradient(&f, 0, alone);
            assert_memory_equal(fused, clean, sizeof clean);
            assert_memory_equal(alone, clean, sizeof clean);
        }
    }
}

static void far_away_and_extreme_weights(void **unused)
{
    static const double where[] = {1e2, -1e4, 1e8, 1e100};
    FOR_CASES(f, k) for (int q = 0; q < 4; q++)
    {
        for (int i = 0; i < DIMS * LD; i++) f.x[i] = where[q] * uniform(0.5, 1.0);
        energy(&f, f.U, f.gx);
        for (int i = 0; i < N; i++) {
            if (f.m.eps > 0.0) {
                assert_close(f.U[i], -log(f.m.eps), 1e-13);
                for (int d = 0; d < f.m.dim; d++) assert_true(f.gx[d * LD + i] == 0.0);
            } else {
                assert_true(isfinite(f.U[i]) && f.U[i] > 0.0);
                for (int d = 0; d < f.m.dim; d++)
                    assert_close(f.gx[d * LD + i], f.x[d * LD + i] / f.m.variance, 3.0 + 1e-12 * fabs(where[q]));
            }
        }
        memset(f.g, 0, sizeof f.g);
        gradient(&f, 1, f.g);
        for (int j = 0; j < f.m.components; j++) assert_true(isfinite(f.g[j]));
    }
    FOR_CASES(f, k)
    { /* weights that underflow to zero */
        for (int j = 0; j < f.m.components; j++) f.theta[j] = j % 2 ? -900.0 : 900.0;
        f.model.prepare(f.model.self, f.theta, f.prep);
        energy(&f, f.U, f.gx);
        memset(f.g, 0, sizeof f.g);
        gradient(&f, 1, f.g);
        for (int i = 0; i < N; i++) assert_true(isfinite(f.U[i]) && isfinite(f.gx[i]));
        for (int j = 0; j < f.m.components; j++) assert_true(isfinite(f.g[j]) && isfinite(f.prep[j]));
    }
}

static void shape_of_the_model(void **unused)
{
    static struct fixture f;
    setup(&f, 2, 6, 1e-9);
    assert_int_equal(f.model.dim_x, 2);
    assert_int_equal(f.model.dim_theta, 6);
    assert_int_equal(f.model.tile, 256);
    assert_true(f.model.work == 6 * sizeof(double) && f.model.prep == 12 * sizeof(double));
    f.m = (sosmc_mixture){.dim = 200, .components = 1000};
    assert_true(sosmc_mixture_model(&f.m).tile >= 16 && sosmc_mixture_model(&f.m).tile % 8 == 0);
    f.m = (sosmc_mixture){.dim = 0, .components = -1}; /* nonsense is the engine's to refuse */
    assert_true(sosmc_mixture_model(&f.m).dim_theta == -1 && sosmc_mixture_model(&f.m).work == 0);
}

/* ---------------------------------------------------------------------------------------- the source */

enum { DRAWS = 200000 };
static double cloud[2 * DRAWS], density[DRAWS], other[DRAWS];
static const double hexagon[12] = {4, 0, 2, 3.4641016, -2, 3.4641016, -4, 0, -2, -3.4641016, 2, -3.4641016};
static const sosmc_rng rng = {.seed = 12, .step = 3, .stream = SOSMC_STREAM_INIT};

static void assert_within(const char *what, double value, double truth, double error)
{
    print_message("%s: %.6f, truth %.6f, %.2f standard errors\n", what, value, truth, (value - truth) / error);
    assert_true(fabs(value - truth) < 4.0 * error);
}

static void moments_of_draws(void **unused)
{
    const double theta[6] = {1.5, -1.5, 1.5, -1.5, 1.5, -1.5}, heavy = 0.31752470872764, light = 1.0 / 3.0 - heavy;
    const sosmc_mixture m = {.dim = 2, .components = 6, .means = hexagon, .variance = 0.01};
    const sosmc_mixture_law law = {.mixture = &m, .theta = theta};
    const sosmc_source source = sosmc_mixture_source(&law);
    sosmc_batch b = {.x = cloud, .dim = 2, .n = DRAWS, .ld = DRAWS};
    double count[6] = {0}, square[6][2] = {{0}}, mean[6][2] = {{0}};
    assert_false(source.exact);
    assert_int_equal(source.draw(source.self, rng, &b, cloud), 0);
    for (int i = 0; i < DRAWS; i++) { /* modes are 40 deviations apart: the nearest is the one drawn from */
        int nearest = 0;
        double least = 1e9;
        for (int j = 0; j < 6; j++) {
            double d2 = pow(cloud[i] - hexagon[2 * j], 2) + pow(cloud[DRAWS + i] - hexagon[2 * j + 1], 2);
            if (d2 < least) least = d2, nearest = j;
        }
        count[nearest] += 1.0;
        for (int d = 0; d < 2; d++) {
            double t = (cloud[d * DRAWS + i] - hexagon[2 * nearest + d]) / 0.1;
            mean[nearest][d] += t;
            square[nearest][d] += t * t;
        }
    }
    for (int j = 0; j < 6; j++) {
        double v = j % 2 ? light : heavy;
        assert_within("frequency", count[j] / DRAWS, v, sqrt(v * (1.0 - v) / DRAWS));
        for (int d = 0; d < 2; d++) {
            assert_within("  mean", mean[j][d] / count[j], 0.0, sqrt(1.0 / count[j]));
            assert_within("  second moment", square[j][d] / count[j], 1.0, sqrt(2.0 / count[j]));
        }
    }
}

static void same_draws_everywhere(void **unused)
{
    enum { MANY = 150, TOTAL = 600 };
    static double means[MANY * 3], theta[MANY], whole[3 * TOTAL], part[3 * TOTAL], lq[TOTAL], lp[TOTAL];
    for (int components = 1; components <= MANY; components += components < 4 ? 1 : 73)
        for (int dim = 1; dim <= 3; dim++) {
            sosmc_mixture m = {.dim = dim, .components = components, .means = means, .variance = 0.3, .eps = 1e-9};
            sosmc_mixture_law law = {.mixture = &m, .theta = theta};
            sosmc_source source = sosmc_mixture_source(&law);
            for (int i = 0; i < MANY * 3; i++) means[i] = uniform(-3.0, 3.0);
            for (int j = 0; j < MANY; j++) theta[j] = uniform(-3.0, 3.0);
            sosmc_batch b = {
                .x = whole, .simd = sosmc_simd_named("plain"), .dim = dim, .n = TOTAL, .ld = TOTAL, .first = 5};
            source.draw(source.self, rng, &b, whole);
            source.logpdf(source.self, &b, lq);
            FOR_LEVELS(v) for (int start = 0, n = 1; start < TOTAL; start += n, n = 3 * n + 1)
            {
                if (n > TOTAL - start) n = TOTAL - start;
                sosmc_batch tile = {
                    .x = part, .simd = v, .dim = dim, .n = n, .ld = n == 1 ? 1 : (n + 7) / 8 * 8, .first = 5 + start};
                source.draw(source.self, rng, &tile, part);
                source.logpdf(source.self, &tile, lp);
                assert_rows_equal(dim, n, part, tile.ld, whole + start, TOTAL);
                assert_rows_equal(1, n, lp, tile.ld, lq + start, TOTAL);
            }
        }
}

/* The inverse CDF by hand, from the same named numbers. */
static void draws_by_definition(void **unused)
{
    enum { COUNT = 150 };
    static double means[COUNT], theta[COUNT], x[1024], u[1024], z[1024];
    sosmc_mixture m = {.dim = 1, .components = COUNT, .means = means, .variance = 0.25};
    sosmc_mixture_law law = {.mixture = &m, .theta = theta};
    sosmc_batch b = {.x = x, .dim = 1, .n = 1024, .ld = 1024};
    int missed = 0;
    for (int j = 0; j < COUNT; j++) means[j] = 100.0 * j, theta[j] = j % 7 ? uniform(-3.0, 3.0) : -2000.0;
    sosmc_mixture_source(&law).draw(&law, rng, &b, x);
    sosmc_uniforms(rng, 0, &b, u);
    sosmc_normals(rng, &b, z);
    for (int i = 0; i < 1024; i++) {
        double total = 0.0, sum = 0.0;
        int pick = 0;
        for (int j = 0; j < COUNT; j++) total += exp(theta[j] - 3.0);
        while (u[i] * total > (sum += exp(theta[pick] - 3.0)) && pick < COUNT - 1) pick++;
        int drawn = (int)lround((x[i] - 0.5 * z[i]) / 100.0);
        assert_true(drawn % 7 != 0); /* weight zero */
        assert_close(x[i], fma(0.5, z[i], means[drawn]), 0.0);
        missed += drawn != pick;
    }
    assert_int_equal(missed, 0);
}

static void density_is_normalised(void **unused)
{
    enum { GRID = 4000 };
    const double line[2] = {-1.0, 2.0}, theta1[2] = {5.0, 4.0};
    sosmc_mixture m1 = {.dim = 1, .components = 2, .means = line, .variance = 0.3, .eps = 1e-9};
    sosmc_mixture_law law1 = {.mixture = &m1, .theta = theta1};
    sosmc_batch b = {.x = cloud, .dim = 1, .n = GRID, .ld = GRID};
    double sum = 0.0, h = 24.0 / GRID;
    for (int i = 0; i < GRID; i++) cloud[i] = -12.0 + h * i;
    sosmc_mixture_source(&law1).logpdf(&law1, &b, density);
    for (int i = 0; i < GRID; i++) sum += h * exp(density[i]); /* the trapezium rule is exact to rounding here */
    assert_close(sum, 1.0, 1e-12);
    assert_close(sosmc_mixture_logz(&m1), 0.5 * log(6.283185307179586 * 0.3), 1e-15);

    /* In the plane: q draws, and the mean of p/q is 1. */
    const double theta_q[6] = {0, 0.3, -0.2, 0.1, 0.4, 0}, theta_p[6] = {0.5, -0.1, 0.2, -0.6, 0.4, 0};
    sosmc_mixture m = {.dim = 2, .components = 6, .means = hexagon, .variance = 1.0, .eps = 1e-9};
    sosmc_mixture_law q = {.mixture = &m, .theta = theta_q}, p = {.mixture = &m, .theta = theta_p};
    sosmc_batch plane = {.x = cloud, .dim = 2, .n = DRAWS, .ld = DRAWS};
    double mean = 0.0, square = 0.0;
    sosmc_mixture_source(&q).draw(&q, rng, &plane, cloud);
    sosmc_mixture_source(&q).logpdf(&q, &plane, density);
    sosmc_mixture_source(&p).logpdf(&p, &plane, other);
    for (int i = 0; i < DRAWS; i++) {
        double ratio = exp(other[i] - density[i]);
        mean += ratio / DRAWS;
        square += ratio * ratio / DRAWS;
    }
    assert_within("mean of p/q", mean, 1.0, sqrt((square - mean * mean) / DRAWS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_the_formula),
        cmocka_unit_test(gradient_in_x_by_differences),
        cmocka_unit_test(gradient_in_theta_by_differences),
        cmocka_unit_test(one_sequence_of_operations),
        cmocka_unit_test(tiles_do_not_matter),
        cmocka_unit_test(sums_run_in_eight),
        cmocka_unit_test(nan_where_nobody_looks),
        cmocka_unit_test(far_away_and_extreme_weights),
        cmocka_unit_test(shape_of_the_model),
        cmocka_unit_test(moments_of_draws),
        cmocka_unit_test(same_draws_everywhere),
        cmocka_unit_test(draws_by_definition),
        cmocka_unit_test(density_is_normalised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
