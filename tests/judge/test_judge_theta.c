/* test_judge_theta.c: theta of a judgement and its Monte Carlo errors against exact minimisers: 95 % intervals hold each parameter
 * in 90 to 98 % of the runs, under constant, cosine and decaying rates, and nearly all runs have them; statistical errors against exact information. Negative
 * controls: gradients taken for independent, 20 batch means of the path, the mean of the tail without the Newton step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "base/linear.h"
#include "engine/watch.h"
#include "expect_engine.h"
#include "expect_problem.h"
#include "judgements.h"
#include "stats.h"

enum { MOST = 20, PARTICLES = 300, ITERATIONS = 400 };
typedef struct {
    const char *problem;
    char schedule;
    int first, every, count; /* which parameters are compared */
} plan;
static const plan plans[] = {{"forward", 'c', 0, 1, 3}, {"forward", 'o', 0, 1, 3}, {"energy", 'o', 0, 1, 5},
                             {"energy", 'd', 0, 1, 5},  {"batches", 'c', 0, 1, 5}, {"hier20", 'c', 0, 1, 1},
                             {"cbpp", 'c', 0, 1, 5},    {"linear20", 'o', 1, 6, 4}};
enum { PLANS = sizeof plans / sizeof *plans, PLANNED = PLANS + 3 + 3 + 5 + 5 + 5 + 1 + 5 + 4 };

static int replicates(void) { return stats_by_tier(40, 400, 10); }

/* ---------------------------------------------------------------------------- the path of a run */

/* theta and its gradient in every iteration, for the controls. */
typedef struct {
    int p;
    double theta[ITERATIONS][MOST], gradient[ITERATIONS][MOST];
} path;

static int follow(void *ctx, const sosmc *s, const sosmc_info *info)
{
    path *to = ctx;
    memcpy(to->theta[info->iteration], sosmc_theta(s), (size_t)to->p * sizeof(double));
    memcpy(to->gradient[info->iteration], sosmc_gradient(s), (size_t)to->p * sizeof(double));
    return 0;
}

enum { HALF = ITERATIONS / 2 };
static double tail_mean(const double (*rows)[MOST], int j, int from, int to)
{
    double sum = 0;
    for (int k = from; k < to; k++) sum += rows[k][j] / (to - from);
    return sum;
}

/* The error of the tail's mean from 20 batches of it. */
static double batch_means_error(const path *w, int j)
{
    enum { BATCHES = 20, LENGTH = HALF / BATCHES };
    stats_tally t = {0};
    for (int b = 0; b < BATCHES; b++) stats_add(&t, tail_mean(w->theta, j, HALF + b * LENGTH, HALF + (b + 1) * LENGTH));
    return stats_se(&t);
}

/* The error of parameter j from the inverse Hessian, as if the gradients of the tail were independent. */
static double independent_error(const path *w, const double *inverse, int j)
{
    stats_tally t = {0};
    for (int k = HALF; k < ITERATIONS; k++) {
        double sum = 0;
        for (int l = 0; l < w->p; l++) sum += inverse[j * w->p + l] * w->gradient[k][l];
        stats_add(&t, sum);
    }
    return stats_se(&t);
}

/* ---------------------------------------------------------------------------- judged runs */

static sosmc *run(const exact_problem *e, char schedule, int r, sosmc_observer see, void *ctx)
{
    sosmc_settings cfg = exact_settings(e, PARTICLES, ITERATIONS, schedule);
    cfg.seed = stats_seed(3000 + (uint64_t)r);
    sosmc *s = expect_create(&e->problem, &cfg);
    assert_int_equal(sosmc_run(s, ITERATIONS, see, ctx), SOSMC_OK);
    return s;
}

/* Without fresh particles, which theta and its errors do not need. */
static sosmc_judgement judge_theta(const sosmc *s)
{
    sosmc_judge_options options = {.why_no_log_z = "this test looks at theta alone"};
    return expect_judgement(s, &options);
}

static void judge_plan(const plan *of, stats_ledger *ledger)
{
    exact_problem e;
    int64_t held[MOST] = {0}, told = 0, all = 0;
    stats_tally width = {0};
    if (!expect_problem(&e, of->problem)) return;
    for (int r = 0; r < replicates(); r++) {
        sosmc *s = run(&e, of->schedule, r, NULL, NULL);
        sosmc_judgement j = judge_theta(s);
        told += j.theta_mc_error != NULL;
        if (j.theta_mc_error) assert_near(j.t_quantile, 2.131450, 1e-5);
        for (int c = 0; c < of->count && j.theta_mc_error; c++) {
            int k = of->first + c * of->every;
            held[c] += fabs(j.theta[k] - e.best[k]) <= j.t_quantile * j.theta_mc_error[k];
            stats_add(&width, j.theta_mc_error[k]);
        }
        sosmc_judgement_free(&j);
        sosmc_free(s);
    }
    double silent = 1 - (double)told / replicates();
    stats_note(ledger, silent > 0.05 ? stats_binomial_p(replicates(), replicates() - told, 0.05) : 1,
               "%s, schedule %c: %lld of %d runs have errors", of->problem, of->schedule, (long long)told,
               replicates());
    for (int c = 0; c < of->count; c++) {
        stats_note(ledger, stats_coverage_p(told, held[c]), "%s, schedule %c: %lld of %lld intervals hold theta_%d",
                   of->problem, of->schedule, (long long)held[c], (long long)told, of->first + c * of->every + 1);
        all += held[c];
    }
    print_message("    %s, schedule %c: %lld of %lld held, mean error %.3g, %lld runs without\n", of->problem,
                  of->schedule, (long long)all, (long long)told * of->count, width.mean,
                  (long long)(replicates() - told));
    exact_close(&e);
}

static void intervals_hold_the_best_theta(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < PLANS; k++) judge_plan(&plans[k], &ledger);
    stats_close(&ledger);
}

/* Time averages do not see what persists in the cloud. The first parameter of the mixture, under a cosine. */
static void time_averages_are_too_sure(void **state)
{
    enum { RUNS = 60 };
    const double t_19 = 2.093;
    static path w;
    int64_t batches = 0, independent = 0;
    double H[9], inverse[9];
    stats_ledger ledger = stats_open(PLANNED);
    exact_problem e;
    assert_true(expect_problem(&e, "forward"));
    w.p = 3;
    exact_hessian(&e, e.best, H);
    assert_int_equal(sosmc_i_cholesky(3, H), 0);
    sosmc_i_cholesky_inverse(3, H, inverse);
    for (int r = 0; r < RUNS; r++) {
        sosmc_free(run(&e, 'o', r, follow, &w));
        double off = fabs(tail_mean(w.theta, 0, HALF, ITERATIONS) - e.best[0]);
        batches += off <= t_19 * batch_means_error(&w, 0);
        independent += off <= 1.96 * independent_error(&w, inverse, 0);
    }
    print_message("    %lld and %lld of %d held\n", (long long)batches, (long long)independent, RUNS);
    stats_must_notice_p(&ledger, stats_coverage_p(RUNS, batches), "20 batch means");
    stats_must_notice_p(&ledger, stats_coverage_p(RUNS, independent), "gradients taken for independent");
    exact_close(&e);
}

/* The mean of the tail with the errors of the judgement: at a constant rate it lags behind its target. */
static void the_newton_step_is_needed(void **state)
{
    enum { RUNS = 60 };
    int64_t with = 0, without = 0;
    stats_ledger ledger = stats_open(PLANNED);
    exact_problem e;
    assert_true(expect_problem(&e, "reverse1"));
    for (int r = 0; r < RUNS; r++) {
        watch_sums tail;
        const char *why;
        sosmc *s = run(&e, 'c', r, NULL, NULL);
        sosmc_judgement j = judge_theta(s);
        assert_int_equal(sosmc_i_watch_tail(s, &tail, &why), 0);
        assert_non_null(j.theta_mc_error);
        double limit = j.t_quantile * j.theta_mc_error[0];
        with += fabs(j.theta[0] - e.best[0]) <= limit;
        without += fabs(tail.theta[0] / tail.head[HEAD_WEIGHT] - e.best[0]) <= limit;
        sosmc_judgement_free(&j);
        sosmc_free(s);
    }
    print_message("    %lld of %d held, without the Newton step %lld\n", (long long)with, RUNS, (long long)without);
    assert_true(stats_deviate(stats_coverage_p(RUNS, with)) <= ledger.bound);
    stats_must_notice_p(&ledger, stats_coverage_p(RUNS, without), "the mean of the tail without the Newton step");
    exact_close(&e);
}

/* ---------------------------------------------------------------------------- statistical errors */

static void standard_errors_are_those_of_the_information(void **state)
{
    static const char *const names[] = {"hier20", "linear5", "cbpp"};
    const double normal = 1.959963984540054;
    double H[25], inverse[25];
    for (int k = 0; k < 3; k++) {
        exact_problem e;
        stats_tally ratio[5] = {{0}};
        if (!expect_problem(&e, names[k])) continue;
        int p = e.problem.model.dim_theta;
        exact_hessian(&e, e.best, H);
        assert_int_equal(sosmc_i_cholesky((size_t)p, H), 0);
        sosmc_i_cholesky_inverse((size_t)p, H, inverse);
        for (int r = 0; r < 12; r++) {
            sosmc *s = run(&e, 'c', r, NULL, NULL);
            sosmc_judge_options options = {.rows = e.rows};
            sosmc_judgement j = expect_judgement(s, &options);
            assert_non_null(j.theta_standard_error);
            for (int i = 0; i < p; i++) {
                double se = j.theta_standard_error[i], mc = j.theta_mc_error[i],
                       half = normal * sqrt(se * se + mc * mc);
                stats_add(&ratio[i], se / sqrt(inverse[i * p + i]));
                assert_near(j.theta_high[i] - j.theta[i], half, 1e-12);
                assert_near(j.theta[i] - j.theta_low[i], half, 1e-12);
            }
            assert_near(j.aic, 2 * p + 2 * j.loss.value, 1e-9);
            assert_near(j.bic, p * log((double)e.rows) + 2 * j.loss.value, 1e-9);
            assert_int_equal(j.rows, e.rows);
            sosmc_judgement_free(&j);
            sosmc_free(s);
        }
        for (int i = 0; i < p; i++) {
            print_message("    %s: standard error of theta_%d over its exact value: %.3f, sd %.3f\n", e.name, i + 1,
                          ratio[i].mean, stats_se(&ratio[i]) * sqrt(12));
            assert_near(ratio[i].mean, 1, 0.02 + 4 * stats_se(&ratio[i]));
        }
        exact_close(&e);
    }
}

/* ---------------------------------------------------------------------------- where there is no error */

static void expect_no_error(const sosmc *s, const char *words)
{
    sosmc_judgement j = expect_judgement(s, NULL);
    assert_null(j.theta_mc_error);
    assert_null(j.theta_standard_error);
    assert_contains(j.why_no_mc_error, words);
    assert_true(j.why_no_standard_error[0] != 0);
    assert_non_null(j.theta);
    sosmc_judgement_free(&j);
}

static void what_was_not_gathered_is_not_told(void **state)
{
    exact_problem e;
    assert_true(expect_problem(&e, "hier20"));
    sosmc_settings cfg = exact_settings(&e, 100, 200, 'c');
    sosmc *s = expect_create(&e.problem, &cfg);
    expect_steps(s, 50);
    expect_no_error(s, "too few iterations");
    sosmc_free(s);
    cfg.judge = 0;
    s = expect_create(&e.problem, &cfg);
    expect_steps(s, 200);
    expect_no_error(s, "judge");
    sosmc_free(s);
    exact_close(&e);
}

/* A superfluous direction has no error of its own and spoils no other: the loss at theta is as good as elsewhere. */
static void a_flat_direction_does_no_harm(void **state)
{
    exact_problem e;
    assert_true(expect_problem(&e, "softmax"));
    sosmc *s = run(&e, 'o', 0, NULL, NULL);
    sosmc_judgement j = expect_judgement(s, NULL);
    assert_non_null(j.theta_mc_error);
    assert_int_equal(j.verdict.status, SOSMC_CONVERGED);
    double best = e.values(&e, e.best, NULL).loss;
    assert_near(e.values(&e, j.theta, NULL).loss, best, 0.01);
    sosmc_judgement_free(&j);
    sosmc_free(s);
    exact_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_hold_the_best_theta),
        cmocka_unit_test(time_averages_are_too_sure),
        cmocka_unit_test(the_newton_step_is_needed),
        cmocka_unit_test(standard_errors_are_those_of_the_information),
        cmocka_unit_test(what_was_not_gathered_is_not_told),
        cmocka_unit_test(a_flat_direction_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
