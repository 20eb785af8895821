/* test_moments.c: mean and standard deviation over weighted clouds: known answers by hand, no cancellation far from zero, the same
 * bits after the sums are stored and put back, and an engine's clouds as its own arrays give them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <sosmc/analysis.h>

#include "toys.h"

static sosmc_moments *created(int dim, int particles)
{
    sosmc_moments *m = NULL;
    assert_int_equal(sosmc_moments_create(&m, dim, particles), SOSMC_OK);
    return m;
}

/* Weights 1, 2, 1: means 2 and 20, variances (1 + 0 + 1) / 4 and 100 times that; on any scale. */
static void one_weighted_cloud(void **state)
{
    static const double x[6] = {1, 10, 2, 20, 3, 30},
                        w[9] = {0.25, 0.5, 0.25, 3, 6, 3, 0x1p-1074, 0x1p-1073, 0x1p-1074};
    for (int scale = 0; scale < 3; scale++) {
        double sd[2];
        sosmc_moments *m = created(2, 0);
        assert_int_equal(sosmc_moments_add(m, 3, x, w + (ptrdiff_t)3 * scale), SOSMC_OK);
        sosmc_moments_sd(m, sd);
        assert_true(m->clouds == 1 && m->mean[0] == 2 && m->mean[1] == 20);
        assert_true(m->spread[0] == 0.5 && m->spread[1] == 50);
        assert_true(sd[0] == sqrt(0.5) && sd[1] == sqrt(50));
        sosmc_moments_free(m);
    }
}

/* Clouds {0, 2} and {4} and {7, 9} with weights 3 : 1 count the same: means 1, 4, 7.5 and variances 1, 0, 0.75. */
static void clouds_count_the_same(void **state)
{
    static const double a[2] = {0, 2}, b[1] = {4}, c[2] = {7, 9}, w[2] = {3, 1};
    double sd, mean = 12.5 / 3;
    double variance = (1.75 + pow(1 - mean, 2) + pow(4 - mean, 2) + pow(7.5 - mean, 2)) / 3;
    sosmc_moments *m = created(1, 0);
    assert_int_equal(sosmc_moments_add(m, 2, a, NULL), SOSMC_OK);
    assert_int_equal(sosmc_moments_add(m, 1, b, NULL), SOSMC_OK);
    assert_int_equal(sosmc_moments_add(m, 2, c, w), SOSMC_OK);
    sosmc_moments_sd(m, &sd);
    assert_true(m->clouds == 3 && fabs(m->mean[0] - mean) < 1e-14 && fabs(sd * sd - variance) < 1e-14);
    sosmc_moments_clear(m);
    assert_true(m->clouds == 0 && m->mean[0] == 0 && m->spread[0] == 0);
    sosmc_moments_sd(m, &sd);
    assert_true(isnan(sd));
    sosmc_moments_free(m);
}

/* A sum of squares would have lost everything at 10^9. */
static void nothing_cancels(void **state)
{
    double sd;
    sosmc_moments *m = created(1, 0);
    for (int k = 0; k < 1000; k++) {
        double x[2] = {1e9 + k % 2, 1e9 + k % 2 + 2}; /* means 1e9 + 1 and 1e9 + 2, variance 1 within */
        assert_int_equal(sosmc_moments_add(m, 2, x, NULL), SOSMC_OK);
    }
    sosmc_moments_sd(m, &sd);
    assert_true(fabs(m->mean[0] - (1e9 + 1.5)) < 1e-6 && fabs(sd * sd - 1.25) < 1e-6);
    sosmc_moments_free(m);
}

static void what_is_wrong_is_refused(void **state)
{
    static const double x[2] = {1, 2}, negative[2] = {2, -1}, none[2] = {0, 0}, nan[2] = {1, NAN},
                        large[2] = {1e308, 1e308};
    const double *const wrong[] = {negative, none, nan, large};
    sosmc_moments *m = NULL;
    assert_int_equal(sosmc_moments_create(&m, 0, 3), SOSMC_EINVAL);
    assert_null(m);
    assert_int_equal(sosmc_moments_create(&m, 1, -1), SOSMC_EINVAL);
    assert_null(m);
    m = created(1, 0);
    assert_int_equal(sosmc_moments_add(m, 0, x, NULL), SOSMC_EINVAL);
    for (int k = 0; k < 4; k++) assert_int_equal(sosmc_moments_add(m, 2, x, wrong[k]), SOSMC_ENUMERIC);
    assert_true(m->clouds == 0 && m->mean[0] == 0 && m->spread[0] == 0);
    sosmc_moments_free(m);
    sosmc_moments_free(NULL);
}

/* ---------------------------------------------------------------------------- an engine's clouds */

enum { DIM = 2, PARTICLES = 40, CLOUDS = 30, STORED = 13 };

static void store_and_put_back(sosmc_moments **m)
{
    sosmc_moments *next = created(DIM, PARTICLES);
    next->clouds = (*m)->clouds;
    memcpy(next->mean, (*m)->mean, DIM * sizeof(double));
    memcpy(next->spread, (*m)->spread, DIM * sizeof(double));
    sosmc_moments_free(*m);
    *m = next;
}

static void clouds_of_an_engine(void **state)
{
    static const double centre[DIM] = {1, -2};
    toy_gauss gauss = {.dim = DIM, .variance = 0.5};
    toy_normal law = {.mean = centre, .sd = 1};
    sosmc_model model = toy_gauss_model(&gauss);
    sosmc_problem problem = {
        .model = model, .objective = sosmc_mmle(), .init = toy_normal_source(&law), .theta0 = centre};
    sosmc_settings settings = sosmc_defaults();
    settings.scheme = sosmc_scheme_sosmc(PARTICLES);
    settings.kernel = sosmc_ula(0.05);
    sosmc *s = NULL;
    sosmc_moments *taken = created(DIM, PARTICLES), *whole = created(DIM, PARTICLES), *given = created(DIM, 0),
                  *small = created(DIM, PARTICLES - 1);
    assert_int_equal(sosmc_create(&s, &problem, &settings), SOSMC_OK);
    assert_int_equal(sosmc_moments_add_cloud(small, s), SOSMC_EINVAL);
    for (int k = 0; k < CLOUDS; k++) {
        double x[PARTICLES * DIM], w[PARTICLES];
        assert_int_equal(sosmc_step(s), SOSMC_OK);
        assert_int_equal(sosmc_moments_add_cloud(taken, s), SOSMC_OK);
        assert_int_equal(sosmc_moments_add_cloud(whole, s), SOSMC_OK);
        assert_int_equal(sosmc_cloud(s, x, w), SOSMC_OK);
        for (int i = 0; i < PARTICLES; i++) w[i] = exp(w[i]);
        assert_int_equal(sosmc_moments_add(given, PARTICLES, x, w), SOSMC_OK);
        if (k == STORED) store_and_put_back(&taken);
    }
    assert_true(taken->clouds == CLOUDS && given->clouds == CLOUDS);
    for (int j = 0; j < DIM; j++) {
        assert_true(fabs(taken->mean[j] - given->mean[j]) < 1e-12);
        assert_true(fabs(taken->spread[j] - given->spread[j]) < 1e-10 && taken->spread[j] > 0);
    }
    assert_memory_equal(taken->mean, whole->mean, DIM * sizeof(double));
    assert_memory_equal(taken->spread, whole->spread, DIM * sizeof(double));
    sosmc_moments_free(taken);
    sosmc_moments_free(whole);
    sosmc_moments_free(given);
    sosmc_moments_free(small);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_weighted_cloud),  cmocka_unit_test(clouds_count_the_same),
        cmocka_unit_test(nothing_cancels),     cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(clouds_of_an_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
