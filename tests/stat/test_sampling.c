/* test_sampling.c: runs that optimise nothing. Tempering from a normal law to a mixture whose log Z and masses are known;
 * plain sampling at a fixed theta; boxes; clamped moves. Errors are judged by replicates: at most 4 standard errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

enum { REPLICATES = 16, N = 500 };

/* Two modes that no chain leaves: masses 0.8 and 0.2, nine standard deviations apart. */
static const double means[4] = {-4.5, 0, 4.5, 1}, theta[2] = {1.3862943611198906, 0};
static const sosmc_mixture mixture = {.dim = 2, .components = 2, .means = means, .variance = 1};

static void judge(const char *what, const double *value, double exact)
{
    double mean = 0, square = 0;
    for (int r = 0; r < REPLICATES; r++) mean += value[r] / REPLICATES;
    for (int r = 0; r < REPLICATES; r++) square += (value[r] - mean) * (value[r] - mean) / (REPLICATES - 1);
    double error = sqrt(square / REPLICATES);
    if (!(fabs(mean - exact) <= 4 * error))
        fail_msg("%s: %g, expected %g, standard error %g", what, mean, exact, error);
    if (!(error < 0.05)) fail_msg("%s: the standard error %g could not tell right from wrong", what, error);
}

static sosmc_settings settings_for(uint64_t seed, const sosmc_tempering *t, sosmc_kernel kernel)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(N);
    cfg.scheme.ess_min = 0.5;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_tempering_path(t);
    cfg.seed = seed;
    return cfg;
}

static void tempering_finds_log_z_and_masses(void **state)
{
    const double zero[2] = {0, 0}, factor[4] = {0.25, 0, 0, 0.25};
    const sosmc_gaussian base = {.dim = 2, .mean = zero, .factor = factor, .variance = 1};
    const sosmc_kernel kernels[2] = {sosmc_mala(0.5), sosmc_ula(0.02)};
    for (int k = 0; k < 2; k++) {
        double logz[REPLICATES], left[REPLICATES], x[2 * N], logw[N];
        for (int r = 0; r < REPLICATES; r++) {
            sosmc_tempering t = {
                .model = sosmc_mixture_model(&mixture), .theta = theta, .base_sd = 4, .steps = 60, .power = 2};
            sosmc_problem p = {.model = sosmc_tempered_model(&t),
                               .objective = sosmc_sampling((sosmc_score){0}),
                               .init = sosmc_gaussian_source(&base)};
            sosmc_settings cfg = settings_for((uint64_t)r + 1, &t, kernels[k]);
            sosmc *s = NULL;
            assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
            assert_int_equal(sosmc_run(s, 70, NULL, NULL), SOSMC_OK);
            assert_true(sosmc_theta(s)[0] == 1);
            logz[r] = sosmc_last(s)->logz;
            assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
            left[r] = 0;
            for (int i = 0; i < N; i++) left[r] += x[2 * i] < 0 ? exp(logw[i]) : 0;
            sosmc_free(s);
        }
        judge("log Z", logz, sosmc_mixture_logz(&mixture));
        judge("mass of the left mode", left, 0.8);
    }
}

/* dU_t/dt against differences of U_t. */
static void tempered_gradient(void **state)
{
    _Alignas(64) double x[16], U[3][8], gx[16], c[8], g = 0;
    _Alignas(64) char work[4096], prep[4096];
    sosmc_tempering tempering = {
        .model = sosmc_mixture_model(&mixture), .theta = theta, .base_sd = 3, .steps = 5, .power = 1};
    sosmc_model m = sosmc_tempered_model(&tempering);
    assert_true(m.work * 8 <= sizeof work && m.prep <= sizeof prep);
    for (int i = 0; i < 16; i++) x[i] = sin(3.0 * i) * 4;
    for (int i = 0; i < 8; i++) c[i] = cos(i);
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .dim = 2, .n = 8, .ld = 8};
    const double t[3] = {0.3, 0.31, 0.29};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(m.prepare(m.self, &t[k], prep), 0);
        assert_int_equal(m.energy(m.self, &t[k], &b, U[k], gx), 0);
    }
    assert_int_equal(m.grad_theta(m.self, t, &b, c, &g), 0);
    double slope = 0;
    for (int i = 0; i < 8; i++) slope += c[i] * (U[1][i] - U[2][i]) / 0.02;
    assert_true(fabs(g - slope) < 1e-9 * (1 + fabs(g)));
}

static int half(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0;
    return 0;
}

/* theta stays to the last bit, whatever the optimiser; the cloud moves, and the score is logged. */
static void sampling_leaves_theta(void **state)
{
    const double low[2] = {-1, 2}, high[2] = {1, 3};
    const sosmc_box box = {.dim = 2, .low = low, .high = high};
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_sampling((sosmc_score){.eval = half}),
                       .init = sosmc_box_source(&box),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    double before[2 * N], after[2 * N];
    cfg.scheme = sosmc_scheme_unweighted(N);
    cfg.kernel = sosmc_ula(0.05);
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, before, NULL), SOSMC_OK);
    double mean[2] = {0, 0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 2; j++) {
            assert_true(before[2 * i + j] > low[j] && before[2 * i + j] <= high[j]);
            mean[j] += before[2 * i + j] / N;
        }
    for (int j = 0; j < 2; j++) /* uniform: standard error (high - low) / sqrt(12 N) */
        assert_true(fabs(mean[j] - (low[j] + high[j]) / 2) < 4 * (high[j] - low[j]) / sqrt(12.0 * N));
    assert_int_equal(sosmc_run(s, 50, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, after, NULL), SOSMC_OK);
    assert_memory_equal(sosmc_theta(s), theta, sizeof theta);
    assert_memory_not_equal(before, after, sizeof after);
    assert_true(sosmc_last(s)->mean_score > 0 && sosmc_last(s)->mean_score < 1);
    assert_true(sosmc_last(s)->grad_norm == 0);
    sosmc_free(s);
}

/* Without the clamp a normal law of variance 1 leaves [-0.5, 0.5]; with it, never, and some particles stand at the edge. */
static void clamped_moves_stay_inside(void **state)
{
    const double low[2] = {-0.5, -0.5}, high[2] = {0.5, 0.5};
    const sosmc_box box = {.dim = 2, .low = low, .high = high};
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_sampling((sosmc_score){0}),
                       .init = sosmc_box_source(&box),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    double x[2 * N];
    int edge = 0;
    cfg.scheme = sosmc_scheme_pcd(N, 2 * N, 20);
    cfg.kernel = sosmc_ula_clamped(0.05, 0.5);
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 5, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    for (int i = 0; i < 2 * N; i++) {
        assert_true(fabs(x[i]) <= 0.5);
        edge += fabs(x[i]) == 0.5;
    }
    assert_true(edge > 0);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tempering_finds_log_z_and_masses),
                                       cmocka_unit_test(tempered_gradient), cmocka_unit_test(sampling_leaves_theta),
                                       cmocka_unit_test(clamped_moves_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
