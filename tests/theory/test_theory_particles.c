/* test_theory_particles.c: what the statements about particles rest on (targets, quadrature, exact draws, fits) against closed
 * forms and finite differences, and the statements themselves at their quick size, under two seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "theory/theory_kernels.h"
#include "theory/theory_runs.h"

/* ---------------------------------------------------------------------------- targets */

static const theory_target *const every[] = {&theory_skew, &theory_waves, &theory_kinked, &theory_normal};
enum { TARGETS = 4 };
static const double theta[THEORY_DIM] = {0.4, 0.7};

static void derivatives(void **state)
{
    const double e = 1e-5;
    for (int t = 0; t < TARGETS; t++)
        for (int i = 0; i <= 16; i++) {
            double x = -3 + 0.37 * i;
            theory_value v = every[t]->at(x, theta);
            double slope = (every[t]->at(x + e, theta).U - every[t]->at(x - e, theta).U) / (2 * e);
            double bend = (every[t]->at(x + e, theta).slope - every[t]->at(x - e, theta).slope) / (2 * e);
            assert_true(fabs(slope - v.slope) < 1e-8);
            assert_true(fabs(bend) <= every[t]->curvature(theta) + 1e-6);
            for (int j = 0; j < THEORY_DIM; j++) {
                double up[THEORY_DIM] = {theta[0], theta[1]}, down[THEORY_DIM] = {theta[0], theta[1]};
                up[j] += e;
                down[j] -= e;
                assert_true(fabs((every[t]->at(x, up).U - every[t]->at(x, down).U) / (2 * e) - v.du[j]) < 1e-8);
            }
        }
}

static void quadrature(void **state)
{
    theory_lattice *l = malloc(sizeof *l);
    double mean = 0, square = 0;
    assert_non_null(l);
    theory_tabulate(&theory_normal, theta, l);
    for (int i = 0; i < THEORY_NODES; i++) mean += l->mass[i] * l->x[i];
    for (int i = 0; i < THEORY_NODES; i++) square += l->mass[i] * (l->x[i] - mean) * (l->x[i] - mean);
    assert_true(fabs(l->logz - 0.5 * (log(2 * acos(-1.0)) - theta[1])) < 1e-11);
    assert_true(fabs(mean - theta[0]) < 1e-11 && fabs(square - exp(-theta[1])) < 1e-11);
    assert_true(fabs(l->du[0]) < 1e-11 && fabs(l->du[1] - 0.5) < 1e-11);
    /* a kink: Z of exp(-x^2/2 - |x|/2 - log 2) is sqrt(2 pi) e^{1/8} erfc(1/sqrt 8) / 2 at theta = (0, 0) with softplus
     * left out */
    const double still[THEORY_DIM] = {0, 0};
    theory_tabulate(&theory_kinked, still, l);
    assert_true(fabs(l->logz - log(sqrt(2 * acos(-1.0)) * exp(0.125) * erfc(sqrt(0.125)))) < 1e-9);
    free(l);
}

static void exact_draws_follow_the_density(void **state)
{
    enum { N = 40000 };
    theory_lattice *l = malloc(sizeof *l);
    double *x = aligned_alloc(64, N * sizeof *x);
    assert_true(l && x);
    for (int t = 0; t < TARGETS; t++) {
        theory_tally draw = {0}, square = {0};
        double mean = 0, second = 0;
        theory_tabulate(every[t], theta, l);
        sosmc_source source = theory_exact_source(l);
        sosmc_batch b = {.x = x, .simd = sosmc_simd_best(), .dim = 1, .n = N, .ld = N};
        assert_int_equal(source.draw(source.self, (sosmc_rng){.seed = 5, .stream = SOSMC_STREAM_INIT}, &b, x), 0);
        for (int i = 0; i < THEORY_NODES; i++) {
            mean += l->mass[i] * l->x[i];
            second += l->mass[i] * l->x[i] * l->x[i];
        }
        for (int i = 0; i < N; i++) {
            theory_add(&draw, x[i]);
            theory_add(&square, x[i] * x[i]);
        }
        assert_true(fabs(theory_z(&draw, mean)) < 4.5 && fabs(theory_z(&square, second)) < 4.5);
    }
    free(x);
    free(l);
}

static void prox_is_soft_thresholding(void **state)
{
    const double x[4] = {2, -2, 0.1, -0.1};
    double p[4];
    sosmc_model m = theory_model(&theory_kinked), smooth = theory_model(&theory_skew);
    sosmc_batch b = {.x = x, .dim = 1, .n = 4, .ld = 4};
    assert_int_equal(m.prox(m.self, theta, 0.5, &b, p), 0);
    assert_true(p[0] == 1.75 && p[1] == -1.75 && p[2] == 0 && p[3] == 0);
    assert_int_equal(smooth.prox(smooth.self, theta, 0.5, &b, p), 0);
    assert_memory_equal(p, x, sizeof x);
}

/* The path is gradient descent on l = mean U(y) + log Z: its first step against finite differences of l. */
static double loss(const theory_target *t, const double *at, theory_lattice *l)
{
    double sum = 0;
    theory_tabulate(t, at, l);
    for (int m = 0; m < THEORY_DATA; m++) sum += theory_energy(t, at, theory_data[m]) / THEORY_DATA;
    return sum + l->logz;
}

static void paths_descend(void **state)
{
    const double e = 1e-4, rate = 0.5;
    theory_lattice *l = malloc(sizeof *l);
    assert_non_null(l);
    for (int t = 0; t < TARGETS; t++) {
        theory_path path = {.seen = NULL};
        assert_int_equal(theory_descend(every[t], theta, rate, &path), 0);
        for (int j = 0; j < THEORY_DIM; j++) {
            double up[THEORY_DIM] = {theta[0], theta[1]}, down[THEORY_DIM] = {theta[0], theta[1]};
            up[j] += e;
            down[j] -= e;
            double slope = (loss(every[t], up, l) - loss(every[t], down, l)) / (2 * e);
            assert_true(fabs(path.theta[1][j] - (theta[j] - rate * slope)) < 1e-6);
        }
        assert_true(loss(every[t], path.theta[THEORY_STEPS], l) < loss(every[t], theta, l));
    }
    free(l);
}

/* ---------------------------------------------------------------------------- statistics */

static void fits_find_the_exponent(void **state)
{
    const double x[4] = {1, 2, 4, 8}, y[4] = {3, -1.5, 0.75, -0.375}, se[4] = {0.3, 0.15, 0.075, 0.0375};
    theory_fit fit = theory_power(4, x, y, se);
    assert_true(fabs(fit.slope + 1) < 1e-12);
    /* weights 100 each, sum of squares of log x about its mean 5 log(2)^2 */
    assert_true(fabs(fit.error - 1 / (10 * sqrt(5) * log(2))) < 1e-12);
    theory_tally t = {0};
    for (int i = 1; i <= 4; i++) theory_add(&t, i);
    assert_true(fabs(t.mean - 2.5) < 1e-15 && fabs(theory_se(&t) - sqrt(5.0 / 12)) < 1e-15);
}

/* ---------------------------------------------------------------------------- the statements */

static void holds(theory_check check, const char *id, int controls)
{
    theory_options o = {.quick = 1, .threads = 1, .seed = 3};
    theory_statement s = {.id = id};
    assert_int_equal(check(&o, &s), 0);
    if (s.faults || s.unnoticed) print_error("%s: %s; %s\n", id, s.fault, s.control);
    assert_int_equal(s.faults, 0);
    assert_int_equal(s.unnoticed, 0);
    assert_int_equal(s.controls, controls);
    assert_int_equal(s.claim.verdict, CLAIM_CONFIRMED);
    assert_false(s.table.failed || s.second.failed || s.memory.failed);
    assert_true(s.table.rows > 5 && s.title && s.says && s.how);
    theory_statement_free(&s);
}

static void equivalences(void **state) { holds(theory_equivalences, "equivalences", 4); }
static void score_identities(void **state) { holds(theory_score_identities, "score-identities", 4); }
static void feynman_kac(void **state) { holds(theory_feynman_kac, "feynman-kac", 3); }
static void ula_bias(void **state) { holds(theory_ula_bias, "ula-bias", 1); }

/* The same seed gives the same cells, another one others. */
static void seeds_decide(void **state)
{
    theory_statement s[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
    for (int i = 0; i < 3; i++) {
        theory_options o = {.quick = 1, .threads = 1 + i, .seed = i < 2 ? 8 : 9};
        assert_int_equal(theory_equivalences(&o, &s[i]), 0);
    }
    int cells = s[0].second.rows * s[0].second.columns, others = 0;
    for (int c = 0; c < cells; c++) {
        assert_string_equal(s[0].second.cell[c], s[1].second.cell[c]);
        others += strcmp(s[0].second.cell[c], s[2].second.cell[c]) != 0;
    }
    assert_true(others > 4);
    for (int i = 0; i < 3; i++) theory_statement_free(&s[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives),
        cmocka_unit_test(quadrature),
        cmocka_unit_test(exact_draws_follow_the_density),
        cmocka_unit_test(prox_is_soft_thresholding),
        cmocka_unit_test(paths_descend),
        cmocka_unit_test(fits_find_the_exponent),
        cmocka_unit_test(equivalences),
        cmocka_unit_test(score_identities),
        cmocka_unit_test(feynman_kac),
        cmocka_unit_test(ula_bias),
        cmocka_unit_test(seeds_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
