/* test_solve.c: the solver's interface: what it needs, what it refuses in words, limits, observers, bounds, files, and what it says of a
 * parameter that the data do not ask for. That its answers are right is the business of tests/untuned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sosmc/solve.h>

#include "exact_problems.h"
#include "scratch.h"

/* ---------------------------------------------------------------------------- eight schools */

static const double sigma[8] = {15, 10, 16, 11, 9, 11, 10, 18};

/* x_j ~ N(theta_1, e^(2 theta_2)), y_j ~ N(x_j, sigma_j^2). With the data as they were published the likelihood is largest where the
 * schools do not differ at all: theta_2 has no best value but minus infinity. */
static const double published[8] = {28, 8, -3, 7, -1, 1, 18, 12};

static int schools_energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    const double *y = self;
    double precision = exp(-2 * t[1]);
    for (int i = 0; i < b->n; i++) U[i] = 8 * t[1];
    for (size_t j = 0; j < 8; j++)
        for (size_t i = 0; i < (size_t)b->n; i++) {
            size_t at = j * (size_t)b->ld + i;
            double apart = b->x[at] - t[0], off = (y[j] - b->x[at]) / (sigma[j] * sigma[j]);
            U[i] += 0.5 * (apart * apart * precision + off * (y[j] - b->x[at]));
            if (gx) gx[at] = apart * precision - off;
        }
    return 0;
}

static int schools_grad(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g)
{
    double precision = exp(-2 * t[1]);
    for (size_t j = 0; j < 8; j++)
        for (size_t i = 0; i < (size_t)b->n; i++) {
            double apart = b->x[j * (size_t)b->ld + i] - t[0];
            g[0] -= c[i] * apart * precision;
            g[1] += c[i] * (1 - apart * apart * precision);
        }
    return 0;
}

static const double schools_theta0[2] = {0, 1};
static sosmc_problem schools(void)
{
    return (sosmc_problem){
        .model = {.dim_x = 8, .dim_theta = 2, .self = published, .energy = schools_energy, .grad_theta = schools_grad},
        .objective = sosmc_mmle(),
        .theta0 = schools_theta0};
}

static int says(const sosmc_judgement *j, const char *words)
{
    for (int k = 0; k < j->verdict.reasons; k++)
        if (strstr(j->verdict.reason[k], words)) return 1;
    return 0;
}

static void a_parameter_that_runs_away_is_named(void **state)
{
    sosmc_problem p = schools();
    sosmc_solution r;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
    assert_true(says(&r.judgement, "its best value may be minus infinity (of the logarithm of a scale"));
    assert_true(says(&r.judgement, "theta_2 is not determined: it went from"));
    assert_false(says(&r.judgement, "keeps"));
    assert_true(isnan(r.judgement.theta_mc_error[1])); /* a sentence, no error */
    assert_true(r.judgement.theta_mc_error[0] > 0);
    assert_null(r.judgement.theta_standard_error);
    assert_true(r.judgement.why_no_standard_error[0]);
    assert_true(fabs(r.judgement.theta[0] - 7.686) < 0.4); /* the mean is known all the same */
    sosmc_solution_free(&r);
}

/* y_j ~ N(x_j, e^(2 c)), x_j ~ N(theta_1, e^(2 theta_2)), y_j from -3 to 5, without the terms of the normalising constants that are left out. */
typedef struct {
    int without; /* 1: of the prior; 2: of both, and both have the scale e^theta_2 */
} lacking;

static int lacking_energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    const lacking *l = self;
    double prior = exp(-2 * t[1]), data = l->without > 1 ? prior : 1;
    for (int i = 0; i < b->n; i++) {
        U[i] = l->without ? 0 : b->dim * t[1];
        for (int j = 0; j < b->dim; j++) {
            size_t at = (size_t)j * (size_t)b->ld + (size_t)i;
            double apart = b->x[at] - t[0], off = b->x[at] + 3 - 8.0 * j / (b->dim - 1);
            U[i] += 0.5 * (prior * apart * apart + data * off * off);
            if (gx) gx[at] = prior * apart + data * off;
        }
    }
    return 0;
}

static int lacking_grad(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g)
{
    const lacking *l = self;
    double prior = exp(-2 * t[1]);
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < b->dim; j++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i], apart = x - t[0],
                   off = x + 3 - 8.0 * j / (b->dim - 1);
            g[0] -= c[i] * prior * apart;
            g[1] += c[i] * ((l->without ? 0 : 1) - prior * (apart * apart + (l->without > 1 ? off * off : 0)));
        }
    return 0;
}

static void a_missing_constant_is_named(void **state)
{
    static const char *const words[] = {"theta_2", "theta_2 ran to plus infinity (it went from 0 to",
                                        "theta_2 keeps increasing (it went from 0 to"};
    static const double theta0[2] = {0, 0};
    for (int k = 0; k < 3; k++) {
        lacking l = {.without = k};
        sosmc_problem p = {
            .model = {.dim_x = 20, .dim_theta = 2, .self = &l, .energy = lacking_energy, .grad_theta = lacking_grad},
            .objective = sosmc_mmle(),
            .theta0 = theta0};
        sosmc_solution r;
        assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
        assert_int_equal(r.judgement.verdict.status, k ? SOSMC_NOT_CONVERGED : SOSMC_CONVERGED);
        assert_int_equal(says(&r.judgement, words[k]), k > 0);
        assert_int_equal(says(&r.judgement, "the normalising constant of the prior included?"), k > 0);
        assert_int_equal(r.judgement.theta[1] > 5, k > 0); /* where it went, not where it began */
        sosmc_solution_free(&r);
    }
}

static void a_theta_at_a_bound_is_named(void **state)
{
    sosmc_problem p = schools();
    sosmc_solve_options o = {.low = -100, .high = 5}; /* the best theta_1 is 7.7 */
    sosmc_solution r;
    assert_int_equal(sosmc_solve(&r, &p, &o), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
    assert_true(says(&r.judgement, "theta_1 ended at its bound 5"));
    for (int k = 0; k < 2; k++) assert_true(r.judgement.theta[k] >= -100 && r.judgement.theta[k] <= 5);
    sosmc_solution_free(&r);
}

/* ---------------------------------------------------------------------------- refusals */

static int no_prox(const void *self, const double *t, double l, const sosmc_batch *b, double *p) { return 0; }
static int own_H(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g) { return 0; }

static void expect_refused(const sosmc_problem *p, const sosmc_solve_options *o, const char *words)
{
    sosmc_solution r;
    assert_int_equal(sosmc_solve(&r, p, o), SOSMC_EINVAL);
    assert_int_equal(r.judgement.verdict.status, SOSMC_RUN_FAILED);
    assert_true(says(&r.judgement, words));
    assert_int_equal(r.finished, 0);
    sosmc_solution_free(&r);
}

static void what_it_cannot_do_is_refused_in_words(void **state)
{
    sosmc_problem p = schools();
    p.model.prox = no_prox;
    expect_refused(&p, NULL, "proximal map");
    p = schools();
    p.objective.H = own_H;
    expect_refused(&p, NULL, "an H of its own");
    p = schools();
    p.model.dim_theta = 201;
    p.theta0 = NULL;
    expect_refused(&p, NULL, "201 parameters, and with more than 200 the solver takes only the likelihood of data");
    p = schools();
    p.model.grad_theta = NULL;
    expect_refused(&p, NULL, "energy and grad_theta");
    p = schools();
    p.objective.loss = SOSMC_LOSS_NONE;
    expect_refused(&p, NULL, "nothing to minimise");
    p = schools();
    expect_refused(&p, &(sosmc_solve_options){.particles = 100},
                   "particles is 100; it has to be a multiple of 16 from 128");
    expect_refused(&p, &(sosmc_solve_options){.precision = -1}, "precision is -1");
    expect_refused(&p, &(sosmc_solve_options){.seconds = -2}, "a limit is negative");
    expect_refused(&p, &(sosmc_solve_options){.low = 2, .high = 1}, "bounds are 2 and 1");
    const double infinite[2] = {0, INFINITY};
    p.theta0 = infinite;
    expect_refused(&p, NULL, "theta0[1] is inf");
}

static int failing_energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx) { return 7; }
static int infinite_energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = INFINITY;
    for (int j = 0; gx && j < 8 * b->ld; j++) gx[j] = NAN;
    return 0;
}

static void a_model_that_fails_is_told(void **state)
{
    sosmc_problem p = schools();
    sosmc_solution r;
    p.model.energy = failing_energy;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_EMODEL);
    assert_true(says(&r.judgement, "a callback of the model failed in the phase `start`"));
    sosmc_solution_free(&r);
    p.model.energy = infinite_energy;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_ENUMERIC);
    assert_true(says(&r.judgement, "no particle has a finite energy"));
    sosmc_solution_free(&r);
}

/* A gradient that is wrong by a tenth leads astray, and is found. */
static int wrong_grad(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g)
{
    double own[2] = {0};
    int rc = schools_grad(self, t, b, c, own);
    g[0] += own[0];
    g[1] += 1.1 * own[1];
    return rc;
}

static int energy_alone(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    assert_null(gx); /* nobody asks for what the model does not have */
    return schools_energy(self, t, b, U, NULL);
}

static void a_model_without_slopes_is_solved(void **state)
{
    static const double apart[8] = {56.875, 6.875, -20.625, 4.375, -15.625, -10.625, 31.875, 16.875};
    sosmc_problem p = schools();
    sosmc_solution r;
    p.model.self = apart;
    p.model.energy = energy_alone;
    p.model.no_gx = 1;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_CONVERGED);
    assert_true(fabs(r.judgement.theta[0] - 8.0224) < 0.05);
    assert_true(fabs(exp(r.judgement.theta[1]) - 19.7639) < 0.1);
    sosmc_solution_free(&r);
    p.model.dim_x = 21;
    expect_refused(&p, NULL, "no dU/dx (no_gx) and 21 coordinates");
    p.model.dim_x = 8;
    p.init = sosmc_standard_normal();
    sosmc_settings cfg = sosmc_defaults(); /* whose kernel uses slopes */
    sosmc *s;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(s), "model.no_gx"));
    sosmc_free(s);
}

static void a_wrong_gradient_is_found(void **state)
{
    static const double apart[8] = {56.875, 6.875, -20.625, 4.375, -15.625, -10.625, 31.875, 16.875};
    sosmc_problem p = schools();
    sosmc_solution r;
    p.model.self = apart;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_CONVERGED);
    assert_true(fabs(r.judgement.theta[0] - 8.0224) < 0.05);
    assert_true(fabs(exp(r.judgement.theta[1]) - 19.7639) < 0.1);
    sosmc_solution_free(&r);
    p.model.grad_theta = wrong_grad;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
    assert_true(says(&r.judgement, "grad_theta does not match the energy"));
    sosmc_solution_free(&r);
}

/* A check says what the solver will say, of a wrong model nothing of the solver, and of one that it refuses why. */
static void a_check_tests_what_the_solver_does(void **state)
{
    static const double apart[8] = {56.875, 6.875, -20.625, 4.375, -15.625, -10.625, 31.875, 16.875};
    sosmc_problem p = schools();
    sosmc_check_report r;
    p.model.self = apart;
    assert_int_equal(sosmc_solve_check(&p, NULL, &r), SOSMC_OK);
    assert_int_equal(r.failed, 0);
    assert_string_equal(r.item[r.count - 1].name, "verdict");
    assert_int_equal(r.item[r.count - 1].verdict, SOSMC_CHECK_OK);
    assert_non_null(strstr(r.item[r.count - 1].sentence, "solved with 256 particles and "));
    sosmc_solve_options few = {.evaluations = 2000};
    assert_int_equal(sosmc_solve_check(&p, &few, &r), SOSMC_OK);
    assert_int_equal(r.item[r.count - 1].verdict, SOSMC_CHECK_UNKNOWN);
    assert_int_equal(r.failed, 0);
    p.model.prox = no_prox;
    assert_int_equal(sosmc_solve_check(&p, NULL, &r), SOSMC_EINVAL);
    assert_int_equal(r.item[r.count - 1].verdict, SOSMC_CHECK_SKIP);
    assert_non_null(strstr(r.item[r.count - 1].sentence, "proximal map"));
    p.model.prox = NULL;
    p.model.grad_theta = wrong_grad;
    assert_int_equal(sosmc_solve_check(&p, NULL, &r), SOSMC_OK);
    assert_int_equal(r.failed, 1);
    assert_string_not_equal(r.item[r.count - 1].name, "verdict");
}

/* ---------------------------------------------------------------------------- observers, clouds, files */

static int stop_at(void *ctx, const sosmc_solver *s, const sosmc_solve_info *info)
{
    (void)s;
    return info->step >= *(int *)ctx;
}

static void an_observer_may_stop_it(void **state)
{
    exact_problem e;
    int last = 12;
    assert_int_equal(exact_open(&e, "hier20", NULL), 0);
    sosmc_solve_options o = {.see = stop_at, .see_ctx = &last};
    sosmc_solution r;
    assert_int_equal(sosmc_solve(&r, &e.problem, &o), SOSMC_STOPPED);
    assert_int_equal(r.finished, 0);
    assert_int_equal(r.info.step, last);
    assert_true(says(&r.judgement, "larger limit"));
    sosmc_solution_free(&r);
    exact_close(&e);
}

static void the_cloud_is_weighted_and_in_place(void **state)
{
    exact_problem e;
    sosmc_solver *s;
    assert_int_equal(exact_open(&e, "hier20", NULL), 0);
    assert_int_equal(sosmc_solver_create(&s, &e.problem, NULL), SOSMC_OK);
    assert_int_equal(sosmc_solver_run(s), SOSMC_OK);
    int n = sosmc_solver_particles(s);
    double *x = malloc((size_t)n * 21 * sizeof *x), *logw = x + (size_t)n * 20, mean = 0, total = 0;
    assert_int_equal(sosmc_solver_cloud(s, x, logw), SOSMC_OK);
    for (int i = 0; i < n; i++) {
        total += exp(logw[i]);
        for (int j = 0; j < 20; j++) mean += exp(logw[i]) * x[(size_t)i * 20 + (size_t)j] / 20;
    }
    assert_true(fabs(total - 1) < 1e-9);
    assert_true(fabs(mean - e.best[0]) < 0.05); /* of the hierarchy: the mean of all latent variables is theta */
    free(x);
    sosmc_solver_free(s);
    exact_close(&e);
}

static void a_saved_file_survives_damage(void **state)
{
    exact_problem e;
    sosmc_solver *s, *again;
    char path[600];
    assert_int_equal(exact_open(&e, "reverse1", NULL), 0);
    assert_int_equal(sosmc_solver_create(&s, &e.problem, NULL), SOSMC_OK);
    assert_int_equal(sosmc_solver_create(&again, &e.problem, NULL), SOSMC_OK);
    (void)snprintf(path, sizeof path, "%s", at("victim"));
    write_text("victim", "mine");
    assert_int_equal(symlink(path, at("solver.tmp")), 0); /* nobody can lead what is saved elsewhere */
    (void)snprintf(path, sizeof path, "%s", at("solver"));
    assert_int_equal(sosmc_solver_load_file(again, path), SOSMC_EIO);
    assert_non_null(strstr(sosmc_solver_message(again), "cannot open"));
    assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    assert_int_equal(sosmc_solver_save_file(s, path), SOSMC_OK);
    uint64_t first = sosmc_solver_hash(s);
    assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    assert_int_equal(sosmc_solver_save_file(s, path), SOSMC_OK);
    assert_int_equal(sosmc_solver_load_file(again, path), SOSMC_OK);
    assert_true(sosmc_solver_hash(again) == sosmc_solver_hash(s));
    struct stat victim;
    assert_true(stat(at("victim"), &victim) == 0 && victim.st_size == 4);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(sosmc_solver_load_file(again, path), SOSMC_OK); /* the one before */
    assert_true(sosmc_solver_hash(again) == first);
    assert_int_equal(sosmc_solver_save_file(s, "/nowhere/at/all"), SOSMC_EIO);
    assert_non_null(strstr(sosmc_solver_message(s), "/nowhere/at/all"));
    sosmc_solver_free(s);
    sosmc_solver_free(again);
    exact_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_constant_is_named),  cmocka_unit_test(a_parameter_that_runs_away_is_named),
        cmocka_unit_test(a_theta_at_a_bound_is_named),  cmocka_unit_test(what_it_cannot_do_is_refused_in_words),
        cmocka_unit_test(a_model_that_fails_is_told),   cmocka_unit_test(a_model_without_slopes_is_solved),
        cmocka_unit_test(a_wrong_gradient_is_found),    cmocka_unit_test(a_check_tests_what_the_solver_does),
        cmocka_unit_test(an_observer_may_stop_it),      cmocka_unit_test(the_cloud_is_weighted_and_in_place),
        cmocka_unit_test(a_saved_file_survives_damage),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
