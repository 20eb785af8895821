/* test_exact_problems.c: the answers of exact_problems.h, tested by themselves. The models' gradients against differences of their
 * energies, the gradients of the losses against differences of the losses, log Z against importance draws and, where a law is the
 * posterior itself, to rounding; published values where there are any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "assertions.h"
#include "base/linear.h"
#include "expect_gradients.h"
#include "expect_problem.h"
#include "numbers.h"

#define FOR_PROBLEMS(e)                     \
    for (int k_ = 0; exact_names[k_]; k_++) \
        for (exact_problem e = {0}; !e.name && expect_problem(&e, exact_names[k_]); exact_close(&e), e.name = "closed")

/* ---------------------------------------------------------------------------- the models */

/* A point of the initial law and a theta near the best. */
static void somewhere(const exact_problem *e, double *x, double *theta)
{
    int d = e->problem.model.dim_x;
    double *draw = numbers_room((size_t)d * 8 * sizeof *draw);
    sosmc_batch b = {.dim = d, .n = 1, .ld = 8, .first = numbers_between(0, 1000)};
    assert_int_equal(e->problem.init.draw(e->problem.init.self, (sosmc_rng){.seed = 5}, &b, draw), 0);
    for (int j = 0; j < d; j++) x[j] = draw[(size_t)j * 8];
    for (int j = 0; j < e->problem.model.dim_theta; j++) theta[j] = e->best[j] + numbers_uniform(-0.3, 0.3);
    free(draw);
}

static void energies_have_their_gradients(void **state)
{
    static double x[2 * EXACT_PARAMETERS], theta[EXACT_PARAMETERS];
    FOR_PROBLEMS(e)
    {
        somewhere(&e, x, theta);
        expect_gradients(&e.problem.model, theta, x, 1e-5, 1e-5);
    }
}

/* ---------------------------------------------------------------------------- the answers */

static void losses_have_their_gradients(void **state)
{
    double theta[EXACT_PARAMETERS], gradient[EXACT_PARAMETERS], x[2 * EXACT_PARAMETERS];
    const double step = 1e-4;
    FOR_PROBLEMS(e)
    {
        int p = e.problem.model.dim_theta;
        somewhere(&e, x, theta);
        (void)e.values(&e, theta, gradient);
        for (int j = 0; j < p; j += 1 + p / 6) {
            double kept = theta[j], up, down;
            theta[j] = kept + step;
            up = e.values(&e, theta, NULL).loss;
            theta[j] = kept - step;
            down = e.values(&e, theta, NULL).loss;
            theta[j] = kept;
            assert_close((up - down) / (2 * step), gradient[j], 1e-6);
        }
    }
}

static void the_best_is_a_minimum(void **state)
{
    double gradient[EXACT_PARAMETERS], *H = malloc(sizeof *H * EXACT_PARAMETERS * EXACT_PARAMETERS);
    assert_non_null(H);
    FOR_PROBLEMS(e)
    {
        int p = e.problem.model.dim_theta;
        (void)e.values(&e, e.best, gradient);
        for (int j = 0; j < p; j++) assert_near(gradient[j], 0, 1e-6);
        exact_hessian(&e, e.best, H);
        for (int j = 0; j < p && !e.identified; j++) H[j * p + j] += 1e-6;
        assert_int_equal(sosmc_i_cholesky((size_t)p, H), 0);
    }
    free(H);
}

/* log Z at theta0 by draws of the initial law; without any error where that is the posterior. */
static void log_z_is_what_draws_say(void **state)
{
    FOR_PROBLEMS(e)
    {
        sosmc_evidence z;
        if (strcmp(e.name, "logistic") == 0) continue; /* known near the maximum alone */
        assert_int_equal(sosmc_importance(&e.problem.model, e.problem.theta0, e.problem.init, 40000, 7, &z), SOSMC_OK);
        double exact = e.values(&e, e.problem.theta0, NULL).log_z;
        assert_near(z.logz, exact, 4 * z.error + 1e-9 * (1 + fabs(exact)));
        assert_true(z.error < 0.03);
    }
}

static void published_values_are_met(void **state)
{
    static const double best[4] = {-1.399230, -0.991404, -1.127819, -1.579471};
    exact_problem e;
    if (!expect_problem(&e, "cbpp")) skip();
    for (int j = 0; j < 4; j++) assert_near(e.best[j], best[j], 2e-6);
    assert_near(exp(e.best[4]), 0.647518, 2e-6);
    assert_near(e.values(&e, e.best, NULL).log_z, -91.983369, 2e-6);
    exact_close(&e);
}

/* Divergence and reward at the reference, and the divergence to it, are known without quadrature. */
static void values_at_the_reference(void **state)
{
    FOR_PROBLEMS(e)
    {
        const sosmc_objective *o = &e.problem.objective;
        if (!o->theta_ref) continue;
        exact_values v = e.values(&e, o->theta_ref, NULL);
        assert_near(v.kl, 0, 1e-12);
        assert_near(v.loss, -v.reward, 1e-12);
        assert_near(v.log_z, 0.5 * e.problem.model.dim_x * log(2 * 3.14159265358979323846), 1e-9);
    }
}

static void unknown_names_are_refused(void **state)
{
    exact_problem e;
    assert_int_not_equal(exact_open(&e, "nothing", NULL), 0);
    exact_close(&e);
    assert_int_not_equal(exact_open(&e, "cbpp", "/nowhere"), 0);
    exact_close(&e);
}

/* The engine's own cloud has lost a mode, draws of the same law under another name have not, and the density has both. */
static void lost_modes_are_lost_for_the_engine_alone(void **state)
{
    enum { MANY = 64 };
    _Alignas(64) double x[2 * MANY];
    exact_problem e;
    assert_true(expect_problem(&e, "far"));
    sosmc_settings cfg = {.seed = 9};
    int64_t iterations = 0;
    assert_true(exact_spoil(&e, EXACT_LOST, &cfg, &iterations));
    for (uint64_t seed = 9; seed < 11; seed++) {
        int right = 0;
        sosmc_batch b = {.dim = 2, .n = MANY, .ld = MANY};
        assert_int_equal(
            e.problem.init.draw(e.problem.init.self, (sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_INIT}, &b, x), 0);
        for (int i = 0; i < MANY; i++) right += x[i] > 0;
        assert_int_equal(right > 0, seed != 9);
    }
    exact_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(energies_have_their_gradients, numbers_start),
        cmocka_unit_test_setup(losses_have_their_gradients, numbers_start),
        cmocka_unit_test(the_best_is_a_minimum),
        cmocka_unit_test(log_z_is_what_draws_say),
        cmocka_unit_test(published_values_are_met),
        cmocka_unit_test(values_at_the_reference),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(lost_modes_are_lost_for_the_engine_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
