/* test_judge_pass.c: log Z, loss, KL and reward of a judgement against exact values: 95 % intervals hold them in 90 to 98 % of the
 * runs, without any floor, and Z is unbiased. Negative controls: the factor (N/(N-1))^r for r multinomial resamplings, the running
 * log Z of the cloud that steers theta, a starting law whose density lacks a component, and a lost mode with fresh particles
 * from a fit of the cloud alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect_engine.h"
#include "expect_problem.h"
#include "judge/fresh.h"
#include "judgements.h"
#include "stats.h"

enum { QUANTITIES = 4 };
static const char *const quantity[QUANTITIES] = {"loss", "log Z", "KL", "reward"};

/* Short runs: the numbers belong to whatever theta they end at. */
typedef struct {
    const char *problem;
    char schedule;
    int numbers; /* how many of the four it has */
} plan;
static const plan plans[] = {{"forward", 'c', 4}, {"reverse", 'o', 4}, {"reverse1", 'd', 4}, {"energy", 'o', 2},
                             {"hier20", 'c', 2},  {"linear5", 'd', 2}, {"cbpp", 'c', 2}};
enum { PLANS = sizeof plans / sizeof *plans, PARTICLES = 200, ITERATIONS = 140 };
/* A comparison for every number and one for every Z; the wide start; the lost mode. */
enum { PLANNED = 20 + PLANS + 2 + 1 };

static int replicates(void) { return stats_by_tier(40, 400, 10); }

/* ---------------------------------------------------------------------------- judged runs */

static void judge_plan(const plan *of, stats_ledger *ledger)
{
    exact_problem e;
    int64_t held[QUANTITIES] = {0}, made[QUANTITIES] = {0};
    stats_tally Z = {0}, width[QUANTITIES] = {{0}};
    if (!expect_problem(&e, of->problem)) return;
    for (int r = 0; r < replicates(); r++) {
        sosmc_settings cfg = exact_settings(&e, PARTICLES, ITERATIONS, of->schedule);
        cfg.seed = stats_seed(500 + (uint64_t)r);
        sosmc *s = expect_create(&e.problem, &cfg);
        expect_steps(s, ITERATIONS);
        sosmc_judgement j = expect_judgement(s, NULL);
        exact_values v = e.values(&e, j.theta, NULL);
        const double exact[QUANTITIES] = {v.loss, v.log_z, v.kl, v.reward};
        const sosmc_number *told[QUANTITIES] = {&j.loss, &j.log_z, &j.kl, &j.reward};
        for (int q = 0; q < QUANTITIES; q++) {
            if (isnan(exact[q])) continue;
            assert_true(isfinite(told[q]->value) && told[q]->error >= 0);
            made[q]++;
            held[q] += fabs(told[q]->value - exact[q]) <= 1.959963984540054 * told[q]->error;
            stats_add(&width[q], told[q]->error);
        }
        stats_add(&Z, exp(j.log_z.value - v.log_z));
        sosmc_judgement_free(&j);
        sosmc_free(s);
    }
    stats_compare(ledger, &Z, 1, "%s: Z", of->problem);
    for (int q = 0; q < QUANTITIES; q++) {
        if (made[q] == 0) continue;
        print_message("    %s, %s: %lld of %lld held, mean error %.3g\n", of->problem, quantity[q], (long long)held[q],
                      (long long)made[q], width[q].mean);
        stats_note(ledger, stats_coverage_p(made[q], held[q]), "%s: %s", of->problem, quantity[q]);
    }
    exact_close(&e);
}

static void intervals_hold_exact_values(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < PLANS; k++) judge_plan(&plans[k], &ledger);
    stats_close(&ledger);
}

/* The running log Z of the same kind of run, told as if it were an estimate. */
static void the_running_log_z_is_biased(void **state)
{
    enum { RUNS = 24, LONG = 500 };
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally off = {0};
    exact_problem e;
    assert_true(expect_problem(&e, "energy"));
    for (int r = 0; r < RUNS; r++) {
        sosmc_settings cfg = exact_settings(&e, 400, LONG, 'c');
        cfg.seed = stats_seed(900 + (uint64_t)r);
        cfg.judge = 0;
        sosmc *s = expect_create(&e.problem, &cfg);
        expect_steps(s, LONG - 1);
        double theta[8];
        memcpy(theta, sosmc_theta(s), sizeof(double) * 5);
        expect_steps(s, 1);
        stats_add(&off, sosmc_last(s)->logz - e.values(&e, theta, NULL).log_z);
        sosmc_free(s);
    }
    stats_must_notice(&ledger, &off, 0, "the running log Z");
    exact_close(&e);
}

/* ---------------------------------------------------------------------------- the pass alone */

/* Moves in the coordinates of x themselves. */
static const preconditioner plain = {.dim = 2, .gradient = 1, .C = (double[4]){1, 0, 0, 1}};

static void add_round(laws *q, double weight, double centre, double sd)
{
    const double mean[2] = {centre, 0}, L[4] = {sd, 0, 0, sd};
    assert_int_equal(sosmc_i_laws_add(q, weight, 0, mean, L), 0);
}

static pass_cloud pass_from(const exact_problem *e, const laws *q, int particles, uint64_t seed)
{
    pass_cloud p;
    pass_task task = {.model = &e->problem.model,
                      .theta = e->best,
                      .q = q,
                      .c = &plain,
                      .particles = particles,
                      .threads = 1,
                      .moves = 1,
                      .seed = stats_seed(seed)};
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    assert_true(p.arrived >= 1);
    return p;
}

/* The estimate of the variance of log Z for r multinomial resamplings, 1 - (N/(N-1))^(r+1) (1 - sum M^2). */
static double error_with_factor(const pass_cloud *p, double error)
{
    double n = p->n, squares = error * error * (n - 1) / n + 1 / n;
    double variance = 1 - pow(n / (n - 1), p->resamplings + 1.0) * (1 - squares);
    return variance > 0 ? sqrt(variance) : 0;
}

/* A start so wide that particles are resampled on the way. */
static void a_wide_start_is_calibrated(void **state)
{
    enum { FRESH = 64 };
    stats_ledger ledger = stats_open(PLANNED);
    int64_t runs = 600, held = 0, with_factor = 0;
    stats_tally Z = {0};
    exact_problem e;
    assert_true(expect_problem(&e, "reverse"));
    double exact = e.values(&e, e.best, NULL).log_z;
    laws q = {.dim = 2};
    add_round(&q, 1, 1, 6);
    sosmc_i_laws_close(&q);
    for (int64_t r = 0; r < runs; r++) {
        pass_cloud p = pass_from(&e, &q, FRESH, 1300 + (uint64_t)r);
        double error = sosmc_i_pass_error(&p, NULL, 1), off = fabs(p.log_z - exact);
        assert_true(p.resamplings >= 1);
        held += off <= 1.959963984540054 * error;
        with_factor += off <= 1.959963984540054 * error_with_factor(&p, error);
        stats_add(&Z, exp(p.log_z - exact));
        sosmc_i_pass_free(&p);
    }
    print_message("    %lld of %lld held, with the factor %lld\n", (long long)held, (long long)runs,
                  (long long)with_factor);
    stats_compare(&ledger, &Z, 1, "Z from a wide start");
    stats_note(&ledger, stats_coverage_p(runs, held), "log Z from a wide start");
    stats_close(&ledger);
    stats_must_notice_p(&ledger, stats_coverage_p(runs, with_factor), "the factor of multinomial resampling");
    sosmc_i_laws_free(&q);
    exact_close(&e);
}

static void a_density_must_have_every_component(void **state)
{
    enum { FRESH = 256, RUNS = 60 };
    stats_ledger ledger = stats_open(PLANNED);
    exact_problem e;
    assert_true(expect_problem(&e, "reverse"));
    double exact = e.values(&e, e.best, NULL).log_z;
    for (int broken = 0; broken < 2; broken++) {
        int64_t held = 0;
        laws q = {.dim = 2};
        add_round(&q, 0.6, -2, 2);
        add_round(&q, 0.4, 2, 2);
        sosmc_i_laws_close(&q);
        if (broken) q.log_weight[1] = -INFINITY; /* it draws from two components and knows of one */
        for (int r = 0; r < RUNS; r++) {
            pass_cloud p = pass_from(&e, &q, FRESH, 2300 + (uint64_t)r);
            held += fabs(p.log_z - exact) <= 1.959963984540054 * sosmc_i_pass_error(&p, NULL, 1);
            sosmc_i_pass_free(&p);
        }
        double probability = stats_coverage_p(RUNS, held);
        if (broken)
            stats_must_notice_p(&ledger, probability, "a density without its second component");
        else
            assert_true(stats_deviate(probability) <= ledger.bound);
        sosmc_i_laws_free(&q);
    }
    exact_close(&e);
}

/* ---------------------------------------------------------------------------- a lost mode */

/* log Z in stated errors, from the normal fit of the cloud alone, which is the second component of the starting law. */
static double from_cloud_alone(const sosmc *s, const double *theta, double exact)
{
    sosmc_judge_options options = {.pass_particles = 512};
    fresh f = {.engine = s, .problem = sosmc_i_problem_of(s), .settings = sosmc_i_settings_of(s), .options = &options};
    pass_cloud p;
    assert_int_equal(sosmc_i_fresh_open(&f, theta), SOSMC_OK);
    for (int k = 0; k < f.q.count; k++) f.q.part[k].weight = k == 1;
    sosmc_i_laws_close(&f.q);
    assert_int_equal(sosmc_i_fresh_pass(&f, theta, 0, 0, &p), SOSMC_OK);
    double z = (p.log_z - exact) / sosmc_i_pass_error(&p, NULL, 1);
    sosmc_i_pass_free(&p);
    sosmc_i_fresh_close(&f);
    return z;
}

/* The cloud has one of two modes that are ten standard deviations apart, and theta stays. */
static void a_lost_mode_is_found(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    int64_t runs = stats_by_tier(40, 100, 20), within = 0, alone = 0;
    int64_t iterations = 20;
    exact_problem e;
    assert_true(expect_problem(&e, "far"));
    const double *theta = e.problem.theta0;
    double exact = e.values(&e, theta, NULL).log_z;
    for (int64_t r = 0; r < runs; r++) {
        sosmc_settings cfg = exact_settings(&e, PARTICLES, iterations, 'c');
        cfg.seed = stats_seed(700 + (uint64_t)r);
        cfg.optimiser.lr = 0;
        assert_true(exact_spoil(&e, EXACT_LOST, &cfg, &iterations));
        sosmc *s = expect_create(&e.problem, &cfg);
        expect_steps(s, (int)iterations);
        sosmc_judgement j = expect_judgement(s, NULL);
        within += fabs(j.log_z.value - exact) <= 3 * j.log_z.error;
        alone += fabs(from_cloud_alone(s, theta, exact)) <= 3;
        sosmc_judgement_free(&j);
        sosmc_free(s);
    }
    print_message("    %lld of %lld within three errors, from the cloud alone %lld\n", (long long)within,
                  (long long)runs, (long long)alone);
    double share = (double)within / (double)runs;
    stats_note(&ledger, share < 0.95 ? stats_binomial_p(runs, within, 0.95) : 1, "a lost mode");
    stats_close(&ledger);
    stats_must_notice_p(&ledger, stats_binomial_p(runs, alone, 0.95), "a lost mode, from the cloud alone");
    exact_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_hold_exact_values), cmocka_unit_test(the_running_log_z_is_biased),
        cmocka_unit_test(a_wide_start_is_calibrated),  cmocka_unit_test(a_density_must_have_every_component),
        cmocka_unit_test(a_lost_mode_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
