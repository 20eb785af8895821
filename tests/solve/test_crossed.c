/* test_crossed.c: nothing that is fitted on particles is applied to them.
 *
 * Coordinates that depend on a particle's own slope do not leave its law invariant, and because they are fitted anew at every
 * temperature, the error adds up: log Z comes out wrong by nats, with a healthy acceptance. On a mixed model with 60 groups, and on a
 * hierarchy in 50 dimensions, the wide law of the start shows it; the solver, whose halves are fitted on each other, is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "solve/solve_inside.h"
#include "untuned/untuned.h"

enum { REPEATS = 12 };

/* The mean over seeds of log Z from the wide law, less the exact value, and its standard error. */
static double bias_of(const untuned_problem *u, const double *theta, int not_crossed, double *error)
{
    sosmc_problem p = u->problem;
    double mean = 0, square = 0, exact = -u->loss(u, theta, NULL);
    p.theta0 = theta;
    for (uint64_t seed = 1; seed <= REPEATS; seed++) {
        sosmc_solver *s;
        sosmc_solve_options options = {.seed = seed};
        double z = 0;
        assert_int_equal(sosmc_solver_create(&s, &p, &options), SOSMC_OK);
        s->not_crossed = not_crossed;
        while (sosmc_solver_info(s)->phase == SOSMC_PHASE_START) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        assert_true(sosmc_solver_info(s)->accept > 0.3); /* nothing in the cloud tells it */
        for (int k = HALF; k < GROUPS; k++) z += exp(s->v.start_log_z[SEARCHED][k] - exact) / HALF;
        sosmc_solver_free(s);
        mean += log(z) / REPEATS;
        square += log(z) * log(z) / REPEATS;
    }
    *error = sqrt((square - mean * mean) / (REPEATS - 1));
    return mean;
}

static void own_coordinates_make_log_z_wrong(void **state)
{
    static const char *const names[] = {"hier50", "glmm60"};
    for (int k = 0; k < 2; k++) {
        untuned_problem u;
        double error, own_error;
        assert_int_equal(untuned_open(&u, names[k], NULL), 0);
        double crossed = bias_of(&u, u.best, 0, &error), own = bias_of(&u, u.best, 1, &own_error);
        print_message("%s: log Z less the exact value %.2f +- %.2f with cross-fitting, %.2f +- %.2f without\n",
                      names[k], crossed, error, own, own_error);
        assert_true(fabs(crossed) < 4 * error + 0.1);
        assert_true(fabs(own) > 5 * own_error && fabs(own) > fabs(crossed) + 0.5);
        untuned_close(&u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_coordinates_make_log_z_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
