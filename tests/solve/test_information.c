/* test_information.c: parameters of which the particles say little or nothing: dU/dtheta does not depend on x, or hardly does, or the
 * data determine a combination alone. Every answer is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/solve.h>

#include "stats.h"

/* A model whose dU/dtheta of one particle is a function of its own; `terms` writes p numbers and may write U and dU/dx too. */
typedef struct known known;
struct known {
    int dim, p;
    double b;
    const double *y;
    void (*terms)(const known *k, const double *theta, const double *x, double *U, double *gx, double *D);
};

enum { MOST = 256 };

static void one(const known *k, const double *theta, const sosmc_batch *b, int i, double *U, double *gx, double *D)
{
    double x[MOST];
    for (int j = 0; j < k->dim; j++) x[j] = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
    k->terms(k, theta, x, U, gx, D);
}

static int known_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const known *k = self;
    for (int i = 0; i < b->n; i++) {
        double g[MOST], D[MOST];
        one(k, theta, b, i, &U[i], g, D);
        for (int j = 0; gx && j < k->dim; j++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = g[j];
    }
    return 0;
}

static int known_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *sum)
{
    const known *k = self;
    for (int i = 0; i < b->n; i++) {
        double U, g[MOST], D[MOST];
        one(k, theta, b, i, &U, g, D);
        for (int j = 0; j < k->p; j++) sum[j] += c[i] * D[j];
    }
    return 0;
}

static sosmc_problem problem_of(const known *k, const double *theta0)
{
    return (sosmc_problem){
        .model = {.dim_x = k->dim, .dim_theta = k->p, .self = k, .energy = known_energy, .grad_theta = known_grad},
        .objective = sosmc_mmle(),
        .theta0 = theta0};
}

/* ((x - t1)^2 + (x - 1)^2)/2 + sum_j (t_j - 5)^2/2 */
static void penalties(const known *k, const double *t, const double *x, double *U, double *gx, double *D)
{
    double a = x[0] - t[0], c = x[0] - 1;
    *U = 0.5 * (a * a + c * c);
    gx[0] = a + c;
    D[0] = -a;
    for (int j = 1; j < k->p; j++) {
        *U += 0.5 * (t[j] - 5) * (t[j] - 5);
        D[j] = t[j] - 5;
    }
}

/* x^2/2 + 10 log cosh(t - 1) + b x t */
static void hardly(const known *k, const double *t, const double *x, double *U, double *gx, double *D)
{
    *U = 0.5 * x[0] * x[0] + 10 * log(cosh(t[0] - 1)) + k->b * x[0] * t[0];
    gx[0] = x[0] + k->b * t[0];
    D[0] = 10 * tanh(t[0] - 1) + k->b * x[0];
}

/* y_j ~ N(x_j, e^(2 t3)), x_j ~ N(t1, e^(2 t2)), (t3 + 1)^2/2 */
static void ridge(const known *k, const double *t, const double *x, double *U, double *gx, double *D)
{
    double inner = exp(-2 * t[1]), outer = exp(-2 * t[2]);
    *U = k->dim * (t[1] + t[2]) + 0.5 * (t[2] + 1) * (t[2] + 1);
    D[0] = 0;
    D[1] = k->dim;
    D[2] = k->dim + t[2] + 1;
    for (int j = 0; j < k->dim; j++) {
        double a = x[j] - t[0], c = x[j] - k->y[j];
        *U += 0.5 * (a * a * inner + c * c * outer);
        gx[j] = a * inner + c * outer;
        D[0] -= a * inner;
        D[1] -= a * a * inner;
        D[2] -= c * c * outer;
    }
}

/* ---------------------------------------------------------------------------- answers */

enum { MOST_PARAMETERS = 200 };

/* On this many seeds: theta and its standard errors within so much of them, `converged`, and errors that hold the distance. */
static void expect_answers(const known *k, const double *best, const double *standard, double far, double off,
                           int seeds)
{
    const double theta0[MOST_PARAMETERS] = {0};
    sosmc_problem problem = problem_of(k, theta0);
    for (int seed = 1; seed <= seeds; seed++) {
        sosmc_solution r;
        assert_int_equal(sosmc_solve(&r, &problem, &(sosmc_solve_options){.seed = (uint64_t)seed}), SOSMC_OK);
        const sosmc_judgement *j = &r.judgement;
        if (j->verdict.status != SOSMC_CONVERGED) print_message("seed %d: %s\n", seed, j->verdict.reason[0]);
        assert_int_equal(j->verdict.status, SOSMC_CONVERGED);
        for (int i = 0; i < k->p; i++) {
            double away = fabs(j->theta[i] - best[i]);
            if (!(away <= far * standard[i]) || !(fabs(j->theta_standard_error[i] / standard[i] - 1) <= off))
                print_message("seed %d: theta_%d %.9g +- %.2g, standard error %.7g\n", seed, i + 1, j->theta[i],
                              j->theta_mc_error[i], j->theta_standard_error[i]);
            assert_true(away <= far * standard[i]);
            assert_true(away <= 5 * j->theta_mc_error[i] + 1e-3 * standard[i]);
            assert_true(fabs(j->theta_standard_error[i] / standard[i] - 1) <= off);
        }
        sosmc_solution_free(&r);
    }
}

/* Of 2 parameters one, of 200 all but one do not meet x. */
static void parameters_without_latents_move(void **state)
{
    const int counts[2] = {2, MOST_PARAMETERS};
    double best[MOST_PARAMETERS], standard[MOST_PARAMETERS];
    for (int j = 0; j < MOST_PARAMETERS; j++) {
        best[j] = j == 0 ? 1 : 5;
        standard[j] = j == 0 ? sqrt(2) : 1;
    }
    for (int c = 0; c < 2; c++) {
        known k = {.dim = 1, .p = counts[c], .terms = penalties};
        expect_answers(&k, best, standard, 1e-3, 1e-3, stats_nightly() ? 20 : c == 0 ? 3 : 1);
    }
}

static void scores_that_hardly_vary_have_standard_errors(void **state)
{
    const double shares[2] = {0.01, 0.001};
    for (int c = 0; c < 2; c++) {
        known k = {.dim = 1, .p = 1, .b = shares[c], .terms = hardly};
        double best = 1 + shares[c] * shares[c] / 10, standard = 1 / sqrt(10 - shares[c] * shares[c]);
        expect_answers(&k, &best, &standard, 1e-5, 1e-3, stats_nightly() ? 20 : 3);
    }
}

/* The data fix e^(2 t2) + e^(2 t3), and the penalty the rest: of the information in a complete set of data 39 of 40 parts are missing. */
static void a_flat_ridge_is_measured(void **state)
{
    static const double upper[10] = {0.06270678, 0.18911843, 0.31863936, 0.45376219, 0.59776013,
                                     0.75541503, 0.93458929, 1.15034938, 1.43953147, 1.95996398};
    const double best[3] = {1, 0.64308, -1}, standard[3] = {0.4333, 0.1682, 1};
    const double theta0[3] = {0};
    double y[20], squares[3] = {0};
    for (int j = 0; j < 20; j++) y[j] = 1 + 2 * (j < 10 ? -upper[9 - j] : upper[j - 10]);
    known k = {.dim = 20, .p = 3, .y = y, .terms = ridge};
    sosmc_problem problem = problem_of(&k, theta0);
    int seeds = stats_nightly() ? 20 : 1, silent = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        sosmc_solution r;
        assert_int_equal(sosmc_solve(&r, &problem, &(sosmc_solve_options){.seed = (uint64_t)seed}), SOSMC_OK);
        const sosmc_judgement *j = &r.judgement;
        int good = j->theta_mc_error && j->theta_standard_error;
        for (int i = 0; i < 3 && good; i++) {
            double away = fabs(j->theta[i] - best[i]);
            good = away <= 4 * j->theta_mc_error[i] + 1e-3 * standard[i];
            squares[i] += away * away / (j->theta_mc_error[i] * j->theta_mc_error[i]) / seeds;
            if (fabs(j->theta_standard_error[i] / standard[i] - 1) > 0.2) good = 0;
        }
        int named = j->verdict.status != SOSMC_CONVERGED;
        print_message("    seed %d: (%.4f, %.4f, %.4f), %s\n", seed, j->theta[0], j->theta[1], j->theta[2],
                      named ? j->verdict.reason[0] : "converged");
        silent += !good && !named;
        sosmc_solution_free(&r);
    }
    print_message("    rms of the distance over its error: %.2f, %.2f\n", sqrt(squares[1]), sqrt(squares[2]));
    assert_int_equal(silent, 0);
}

/* A parameter that U does not contain, and one along which U falls for ever. */
static void nothing(const known *k, const double *t, const double *x, double *U, double *gx, double *D)
{
    double a = x[0] - t[0], c = x[0] - 1;
    *U = 0.5 * (a * a + c * c) + k->b * t[1];
    gx[0] = a + c;
    D[0] = -a;
    D[1] = k->b;
}

static void parameters_that_nothing_determines_are_named(void **state)
{
    for (int c = 0; c < 2; c++) {
        known k = {.dim = 1, .p = 2, .b = c, .terms = nothing};
        const double theta0[2] = {0};
        sosmc_problem problem = problem_of(&k, theta0);
        sosmc_solution r;
        assert_int_equal(sosmc_solve(&r, &problem, NULL), SOSMC_OK);
        assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
        int names = 0;
        for (int q = 0; q < r.judgement.verdict.reasons; q++)
            names |= strstr(r.judgement.verdict.reason[q], "theta_2") != NULL;
        assert_true(names);
        sosmc_solution_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_without_latents_move),
        cmocka_unit_test(scores_that_hardly_vary_have_standard_errors),
        cmocka_unit_test(a_flat_ridge_is_measured),
        cmocka_unit_test(parameters_that_nothing_determines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
