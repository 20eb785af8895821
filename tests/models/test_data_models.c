/* test_data_models.c: the models that carry data, and what is computed from their clouds. Energies against the joint
 * density in long double, gradients against finite differences, bit by bit level against level and tile against tile;
 * Laplace's approximation against the gradient it should annul; Louis' identity and importance sampling against closed
 * forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

enum { DIM = 7, ROWS = 523, N = 37, LD = 40, LEVELS = 3 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};

static double y[DIM], features[ROWS * DIM], labels[ROWS];
static const sosmc_hierarchical hierarchy = {.dim = DIM, .y = y};
static const sosmc_logistic logistic = {
    .rows = ROWS, .dim = DIM, .features = features, .labels = labels, .variance = 2.5};
static const double theta = 0.7;

static double uniform(double a, double b)
{
    static uint64_t state = 0x9E3779B97F4A7C15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return a + (b - a) * ((double)(state >> 11) * 0x1p-53);
}

static void fill(double *x, int count, double size)
{
    for (int k = 0; k < count; k++) x[k] = uniform(-size, size);
}

static void assert_close(long double a, long double b, long double tolerance)
{
    if (!(fabsl(a - b) <= tolerance)) fail_msg("%.17Lg and %.17Lg differ by more than %Lg", a, b, tolerance);
}

static sosmc_model model_of(int which)
{
    return which ? sosmc_logistic_model(&logistic) : sosmc_hierarchical_model(&hierarchy);
}

static void energy(int which, double at, const sosmc_batch *b, double *U, double *gx)
{
    sosmc_model m = model_of(which);
    assert_int_equal(m.energy(m.self, &at, b, U, gx), 0);
}

static void contract(int which, double at, const sosmc_batch *b, const double *c, double *g)
{
    sosmc_model m = model_of(which);
    assert_int_equal(m.grad_theta(m.self, &at, b, c, g), 0);
}

/* ------------------------------------------------------------------------------------------------ energies */

static long double log_normal(long double x, long double mean, long double variance)
{
    return -0.5L * logl(2 * 3.14159265358979323846264L * variance) - 0.5L * (x - mean) * (x - mean) / variance;
}

/* -log p_theta(x, y) of particle i, term by term. */
static long double joint(int which, double at, const double *x, int ld, int i)
{
    long double sum = 0;
    for (int j = 0; j < DIM; j++) {
        long double xj = x[j * ld + i];
        sum -= which ? log_normal(xj, at, logistic.variance) : log_normal(xj, at, 1) + log_normal(y[j], xj, 1);
    }
    for (int r = 0; which && r < ROWS; r++) {
        long double a = 0;
        for (int j = 0; j < DIM; j++) a += (long double)features[r * DIM + j] * x[j * ld + i];
        long double t = labels[r] > 0.5 ? -a : a;
        sum += t > 0 ? t + log1pl(expl(-t)) : log1pl(expl(t));
    }
    return sum;
}

static void energies_are_joint_densities(void **state)
{
    static _Alignas(64) double x[DIM * LD];
    double U[LD];
    const double sizes[] = {0.1, 2, 50, 1e5};
    sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD};
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < 4; k++) {
            fill(x, DIM * LD, sizes[k]);
            energy(which, theta, &b, U, NULL);
            for (int i = 0; i < N; i++) {
                long double expect = joint(which, theta, x, LD, i);
                assert_close(U[i], expect, 1e-13L * (1 + fabsl(expect)));
            }
        }
}

/* Far out the likelihood is a straight line, however far: values and gradients stay finite. */
static void large_scores_do_no_harm(void **state)
{
    static _Alignas(64) double x[DIM * 8], gx[DIM * 8];
    double U[8];
    sosmc_batch b = {.x = x, .dim = DIM, .n = 8, .ld = 8};
    for (int k = 0; k < DIM * 8; k++) x[k] = (k % 3 ? 1e100 : -1e100) * (1 + k % 5);
    energy(1, theta, &b, U, gx);
    for (int k = 0; k < 8; k++) assert_true(isfinite(U[k]));
    for (int k = 0; k < DIM * 8; k++) assert_true(isfinite(gx[k]));
}

/* exp(-U) is posterior times likelihood, at every x. */
static void hierarchy_in_closed_form(void **state)
{
    static _Alignas(64) double x[DIM * LD];
    double U[LD], lq[LD];
    const sosmc_hierarchical_law law = {.data = &hierarchy, .theta = theta};
    sosmc_source posterior = sosmc_hierarchical_source(&law);
    sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD};
    long double loglik = 0, sum = 0;
    for (int j = 0; j < DIM; j++) loglik += log_normal(y[j], theta, 2), sum += y[j];
    assert_close(sosmc_hierarchical_loglik(&hierarchy, theta), loglik, 1e-14L * fabsl(loglik));
    assert_close(sosmc_hierarchical_best(&hierarchy), sum / DIM, 1e-15L);
    fill(x, DIM * LD, 3);
    energy(0, theta, &b, U, NULL);
    assert_int_equal(posterior.logpdf(posterior.self, &b, lq), 0);
    for (int i = 0; i < N; i++) assert_close(-U[i], lq[i] + loglik, 1e-13L * fabs(U[i]));
}

static void gradients_match_differences(void **state)
{
    static _Alignas(64) double x[DIM * LD], gx[DIM * LD];
    const double step = 1e-5;
    double U[LD], above[LD], below[LD], c[LD], g = 0.25, expect = 0.25;
    sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD};
    for (int which = 0; which < 2; which++) {
        fill(x, DIM * LD, 2);
        fill(c, LD, 1);
        energy(which, theta, &b, U, gx);
        for (int j = 0; j < DIM; j++) {
            for (int i = 0; i < N; i++) x[j * LD + i] += step;
            energy(which, theta, &b, above, NULL);
            for (int i = 0; i < N; i++) x[j * LD + i] -= 2 * step;
            energy(which, theta, &b, below, NULL);
            for (int i = 0; i < N; i++) x[j * LD + i] += step;
            for (int i = 0; i < N; i++) assert_close(gx[j * LD + i], (above[i] - below[i]) / (2 * step), 1e-6L);
        }
        g = expect = 0.25; /* a contraction adds to what is there */
        contract(which, theta, &b, c, &g);
        energy(which, theta + step, &b, above, NULL);
        energy(which, theta - step, &b, below, NULL);
        for (int i = 0; i < N; i++) expect += c[i] * (above[i] - below[i]) / (2 * step);
        assert_close(g, expect, 1e-6L);
    }
}

/* The same bits at every level, with or without a gradient, and for a particle alone. */
static void bits_depend_on_nothing(void **state)
{
    static _Alignas(64) double x[DIM * LD], gx[DIM * LD], gx0[DIM * LD];
    double U[LD], U0[LD], alone[DIM], ga[DIM], Ua;
    fill(x, DIM * LD, 2);
    for (int which = 0; which < 2; which++) {
        sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD, .simd = sosmc_simd_named("plain")};
        energy(which, theta, &b, U0, gx0);
        for (int v = 0; v < LEVELS; v++) {
            b.simd = sosmc_simd_named(level_name[v]);
            if (!b.simd) continue;
            energy(which, theta, &b, U, gx);
            assert_memory_equal(U, U0, N * sizeof *U);
            for (int j = 0; j < DIM; j++) assert_memory_equal(gx + j * LD, gx0 + j * LD, N * sizeof *gx);
            energy(which, theta, &b, U, NULL);
            assert_memory_equal(U, U0, N * sizeof *U);
            for (int i = 0; i < N; i++) {
                sosmc_batch one = {.x = alone, .dim = DIM, .n = 1, .ld = 1, .simd = b.simd};
                for (int j = 0; j < DIM; j++) alone[j] = x[j * LD + i];
                energy(which, theta, &one, &Ua, ga);
                assert_memory_equal(&Ua, U0 + i, sizeof Ua);
                for (int j = 0; j < DIM; j++) assert_memory_equal(ga + j, gx0 + j * LD + i, sizeof *ga);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ laws */

static void laplace_finds_the_mode(void **state)
{
    double mode[DIM], factor[DIM * DIM], U, above[DIM], below[DIM];
    const double step = 1e-5;
    sosmc_batch b = {.x = mode, .dim = DIM, .n = 1, .ld = 1};
    assert_int_equal(sosmc_logistic_laplace(&logistic, theta, mode, factor), SOSMC_OK);
    energy(1, theta, &b, &U, above);
    for (int j = 0; j < DIM; j++) assert_close(above[j], 0, 1e-11L);
    for (int j = 0; j < DIM; j++) {
        double kept = mode[j];
        mode[j] = kept + step;
        energy(1, theta, &b, &U, above);
        mode[j] = kept - step;
        energy(1, theta, &b, &U, below);
        mode[j] = kept;
        for (int l = 0; l < DIM; l++) {
            double P = 0;
            for (int k = 0; k <= j && k <= l; k++) P += factor[j * DIM + k] * factor[l * DIM + k];
            assert_close(P, (above[l] - below[l]) / (2 * step), 1e-6L);
        }
    }
}

/* Separable data and a vague prior make a mode far from the start; data that are not numbers an error. */
static void laplace_is_robust(void **state)
{
    double f[4] = {1, 2, -1, -3}, label[4] = {1, 1, 0, 0}, mode, factor, U, g;
    sosmc_logistic data = {.rows = 4, .dim = 1, .features = f, .labels = label, .variance = 1e8};
    sosmc_model m = sosmc_logistic_model(&data);
    const double at = -30;
    sosmc_batch b = {.x = &mode, .dim = 1, .n = 1, .ld = 1};
    assert_int_equal(sosmc_logistic_laplace(&data, at, &mode, &factor), SOSMC_OK);
    assert_int_equal(m.energy(m.self, &at, &b, &U, &g), 0);
    assert_true(mode > 5 && fabs(g) < 1e-9 && factor > 0);
    f[1] = NAN;
    assert_int_equal(sosmc_logistic_laplace(&data, at, &mode, &factor), SOSMC_ENUMERIC);
}

static const double mean3[3] = {1, -2, 0.5}, factor3[9] = {2, NAN, NAN, -0.5, 1.5, NAN, 0.3, 0.8, 0.6};

static void gaussian_density(void **state)
{
    static _Alignas(64) double x[3 * LD];
    double lq[LD];
    const double shares[] = {0, 0.1, 1 - 0x1p-20};
    fill(x, 3 * LD, 3);
    for (int k = 0; k < 3; k++) {
        const sosmc_gaussian law = {.dim = 3,
                                    .mean = mean3,
                                    .factor = factor3,
                                    .widen = k ? 1.25 : 0,
                                    .share = shares[k],
                                    .centre = 0.3,
                                    .variance = 4};
        sosmc_source source = sosmc_gaussian_source(&law);
        sosmc_batch b = {.x = x, .dim = 3, .n = N, .ld = LD};
        assert_int_equal(source.logpdf(source.self, &b, lq), 0);
        for (int i = 0; i < N; i++) {
            long double squares = 0, narrow = 0, wide = 0;
            for (int j = 0; j < 3; j++) {
                long double z = 0;
                for (int l = j; l < 3; l++) z += factor3[l * 3 + j] * ((long double)x[l * LD + i] - mean3[l]);
                squares += z * z;
                narrow += logl(factor3[j * 3 + j]) - 0.5L * logl(2 * 3.14159265358979323846264L);
                wide += log_normal(x[j * LD + i], law.centre, law.variance);
            }
            if (k) squares /= 1.25L * 1.25L, narrow -= 3 * logl(1.25L);
            narrow -= 0.5L * squares;
            long double expect = logl((1 - shares[k]) * expl(narrow) + shares[k] * expl(wide));
            assert_close(lq[i], expect, 2e-14L * (1 + fabsl(expect)));
        }
    }
}

/* Draws come from normals by the law's own factor, wide ones in their share; batches do not matter. */
static void gaussian_draws(void **state)
{
    enum { DRAWS = 20000, WIDTH = 200 };
    static _Alignas(64) double x[3 * WIDTH], z[3 * WIDTH];
    double u[WIDTH], alone[3];
    const sosmc_gaussian law = {
        .dim = 3, .mean = mean3, .factor = factor3, .widen = 1.25, .share = 0.2, .centre = 0.3, .variance = 4};
    const sosmc_rng rng = {.seed = 5, .stream = SOSMC_STREAM_USER};
    sosmc_source source = sosmc_gaussian_source(&law);
    int wide = 0;
    for (int first = 0; first < DRAWS; first += WIDTH) {
        sosmc_batch b = {.x = x, .dim = 3, .n = WIDTH, .ld = WIDTH, .first = first};
        assert_int_equal(source.draw(source.self, rng, &b, x), 0);
        sosmc_normals(rng, &b, z);
        sosmc_uniforms(rng, 0, &b, u);
        for (int i = 0; i < WIDTH; i++) {
            wide += u[i] <= law.share;
            for (int j = 0; j < 3; j++) {
                double back = (x[j * WIDTH + i] - law.centre) / 2;
                if (u[i] > law.share) back = 0;
                for (int l = j; l < 3 && u[i] > law.share; l++)
                    back += factor3[l * 3 + j] * (x[l * WIDTH + i] - mean3[l]) / law.widen;
                assert_close(back, z[j * WIDTH + i], 1e-13L);
            }
        }
        sosmc_batch one = {.x = alone, .dim = 3, .n = 1, .ld = 1, .first = first + 77};
        assert_int_equal(source.draw(source.self, rng, &one, alone), 0);
        for (int j = 0; j < 3; j++) assert_true(alone[j] == x[j * WIDTH + 77]);
    }
    assert_true(fabs(wide - 0.2 * DRAWS) < 4 * sqrt(0.16 * DRAWS));
}

/* ------------------------------------------------------------------------------------------------ Louis, evidence */

/* dim - Var(sum_d x_d), with weights; a particle without weight may be lost anywhere. */
static void louis_on_the_hierarchy(void **state)
{
    enum { PARTICLES = 50 };
    double x[PARTICLES * DIM], logw[PARTICLES], information, total = 0, mean = 0, variance = 0;
    sosmc_model m = model_of(0);
    const double far = 1000;
    fill(x, PARTICLES * DIM, 2);
    fill(logw, PARTICLES, 1);
    logw[7] = -INFINITY;
    for (int j = 0; j < DIM; j++) x[7 * DIM + j] = NAN;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < PARTICLES; i++) {
            double sum = 0;
            if (i == 7) continue;
            for (int j = 0; j < DIM; j++) sum += x[i * DIM + j];
            if (pass == 0)
                total += exp(logw[i]), mean += exp(logw[i]) * sum;
            else
                variance += exp(logw[i]) / total * (sum - mean / total) * (sum - mean / total);
        }
    assert_int_equal(sosmc_louis(&m, &theta, PARTICLES, x, logw, &information), SOSMC_OK);
    assert_close(information, DIM - variance, 1e-9L);
    assert_int_equal(sosmc_louis(&m, &far, PARTICLES, x, logw, &information), SOSMC_OK);
    assert_close(information, DIM - variance, 1e-6L);
    for (int i = 0; i < PARTICLES; i++) logw[i] = -INFINITY;
    assert_int_equal(sosmc_louis(&m, &theta, PARTICLES, x, logw, &information), SOSMC_ENUMERIC);
}

/* A matrix of two parameters, and a model that prepares and parks: the mixture. log Z does not depend on theta, so with
 * many exact draws the information is zero; with few, both parts are checked against sums over particles. */
static void louis_on_a_mixture(void **state)
{
    enum { PARTICLES = 400 };
    static const double means[4] = {-1, 0, 1, 0.5};
    const double at[2] = {0.3, -0.2};
    const sosmc_mixture mixture = {.dim = 2, .components = 2, .means = means, .variance = 1};
    sosmc_model m = sosmc_mixture_model(&mixture);
    double x[PARTICLES * 2], information[4], expect[4] = {0}, mean[2] = {0};
    double p1[PARTICLES], v1 = 1 / (1 + exp(at[1] - at[0]));
    fill(x, PARTICLES * 2, 2);
    for (int i = 0; i < PARTICLES; i++) {
        double d0 = 0, d1 = 0;
        for (int j = 0; j < 2; j++) d0 += pow(x[2 * i + j] - means[j], 2), d1 += pow(x[2 * i + j] - means[2 + j], 2);
        p1[i] = 1 / (1 + exp(at[1] - at[0] - d1 / 2 + d0 / 2));
        mean[0] += (v1 - p1[i]) / PARTICLES;
    }
    /* dU/dtheta = (v1 - p1)(1, -1) and d2U/dtheta2 = (v1 (1 - v1) - p1 (1 - p1)) (1, -1)(1, -1)^T */
    for (int i = 0; i < PARTICLES; i++)
        expect[0] += (v1 * (1 - v1) - p1[i] * (1 - p1[i]) - pow(v1 - p1[i] - mean[0], 2)) / PARTICLES;
    expect[3] = expect[0];
    expect[1] = expect[2] = -expect[0];
    assert_int_equal(sosmc_louis(&m, at, PARTICLES, x, NULL, information), SOSMC_OK);
    for (int k = 0; k < 4; k++) assert_close(information[k], expect[k], 1e-8L);
}

static int refuses(const void *self, const double *at, const sosmc_batch *b, const double *c, double *g) { return 1; }

static void failures_have_a_status(void **state)
{
    double x[DIM] = {0}, information;
    sosmc_evidence evidence;
    sosmc_model m = model_of(0);
    sosmc_source law = sosmc_standard_normal();
    assert_int_equal(sosmc_importance(&m, &theta, law, 1, 0, &evidence), SOSMC_EINVAL);
    law.logpdf = NULL;
    assert_int_equal(sosmc_importance(&m, &theta, law, 100, 0, &evidence), SOSMC_EINVAL);
    m.grad_theta = refuses;
    assert_int_equal(sosmc_louis(&m, &theta, 1, x, NULL, &information), SOSMC_EMODEL);
}

/* From the posterior itself every weight is Z. */
static void evidence_without_error(void **state)
{
    const sosmc_hierarchical_law law = {.data = &hierarchy, .theta = theta};
    sosmc_model m = model_of(0);
    sosmc_evidence evidence;
    double expect = sosmc_hierarchical_loglik(&hierarchy, theta);
    assert_int_equal(sosmc_importance(&m, &theta, sosmc_hierarchical_source(&law), 1000, 1, &evidence), SOSMC_OK);
    assert_close(evidence.logz, expect, 1e-13L * fabs(expect));
    assert_true(evidence.error < 1e-8);
    assert_close(evidence.ess, 1000, 1e-6L);
}

/* From a law that is a little off, errors are as large as claimed: z-scores over seeds have mean 0 and variance 1. */
static void evidence_with_honest_error(void **state)
{
    enum { SEEDS = 400, DRAWS = 1000 };
    const sosmc_hierarchical_law law = {.data = &hierarchy, .theta = theta + 0.5};
    sosmc_model m = model_of(0);
    double expect = sosmc_hierarchical_loglik(&hierarchy, theta), sum = 0, squares = 0;
    for (int k = 0; k < SEEDS; k++) {
        sosmc_evidence e;
        assert_int_equal(sosmc_importance(&m, &theta, sosmc_hierarchical_source(&law), DRAWS, (uint64_t)k, &e),
                         SOSMC_OK);
        assert_true(e.error > 0 && e.ess > 100 && e.ess < DRAWS);
        double z = (e.logz + e.error * e.error / 2 - expect) / e.error; /* log of a mean is low by half its variance */
        sum += z / SEEDS;
        squares += z * z / SEEDS;
    }
    assert_true(fabs(sum) < 4 / sqrt(SEEDS));
    assert_true(fabs(squares - 1) < 4 * sqrt(2.0 / SEEDS));
}

int main(void)
{
    fill(y, DIM, 3);
    fill(features, ROWS * DIM, 1.5);
    for (int r = 0; r < ROWS; r++) labels[r] = uniform(0, 1) < 1 / (1 + exp(-2 * features[r * DIM]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energies_are_joint_densities),
        cmocka_unit_test(large_scores_do_no_harm),
        cmocka_unit_test(hierarchy_in_closed_form),
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(bits_depend_on_nothing),
        cmocka_unit_test(laplace_finds_the_mode),
        cmocka_unit_test(laplace_is_robust),
        cmocka_unit_test(gaussian_density),
        cmocka_unit_test(gaussian_draws),
        cmocka_unit_test(louis_on_the_hierarchy),
        cmocka_unit_test(louis_on_a_mixture),
        cmocka_unit_test(failures_have_a_status),
        cmocka_unit_test(evidence_without_error),
        cmocka_unit_test(evidence_with_honest_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
