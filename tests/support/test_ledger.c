/* test_ledger.c: the statistics that judge everything else (tests/support/stats.h).
 *
 * A p-value p is honest when P(p <= a) <= a for every a. Those of bounded statistics are checked by going through all
 * outcomes; the score of a mean, whose skewness is taken out, on exponential numbers, where the plain t-score is not
 * honest. And the programs that share the false alarms of the family are no more than was allowed for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact_laws.h"
#include "stats.h"

/* ---------------------------------------------------------------------------- honest p-values */

enum { LEVELS = 5 };
static const double level[LEVELS] = {0.3, 1e-2, 1e-4, 1e-6, 1e-9};

static double log_factorial(int n) { return lgamma(n + 1.0); }

static void add_outcome(double p, double probability, double *below)
{
    for (int l = 0; l < LEVELS; l++) below[l] += p <= level[l] ? probability : 0;
}

/* Never more often than it says; and often enough to be of use: within this factor. */
static void expect_honest(const char *what, const double *below, double factor)
{
    for (int l = 0; l < LEVELS; l++) {
        print_message("    %s: p <= %.0e with probability %.2e\n", what, level[l], below[l]);
        assert_true(below[l] <= level[l] * (1 + 1e-9));
        assert_true(below[l] >= level[l] / factor);
    }
}

static void binomial_p_is_honest(void **state)
{
    enum { N = 200 };
    double below[LEVELS] = {0};
    for (int k = 0; k <= N; k++) {
        double probability = exp(log_factorial(N) - log_factorial(k) - log_factorial(N - k) + k * log(0.3) +
                                 (N - k) * log(0.7));
        add_outcome(stats_binomial_p(N, k, 0.3), probability, below);
    }
    expect_honest("binomial", below, 5);
    assert_true(stats_binomial_p(4, 0, 0) == 1 && stats_binomial_p(4, 1, 0) == 0 && stats_binomial_p(4, 4, 1) == 1);
    assert_true(fabs(stats_binomial_p(4, 4, 0.5) - 2.0 / 16) < 1e-12);
}

static void fit_p_is_honest(void **state)
{
    enum { N = 120, CELLS = 3 };
    const double probability[CELLS] = {0.02, 0.38, 0.6};
    double below[LEVELS] = {0};
    for (int a = 0; a <= N; a++)
        for (int b = 0; a + b <= N; b++) {
            const int64_t count[CELLS] = {a, b, N - a - b};
            double log_p = log_factorial(N);
            for (int c = 0; c < CELLS; c++)
                log_p += (double)count[c] * log(probability[c]) - log_factorial((int)count[c]);
            add_outcome(stats_fit_p(CELLS, count, probability), exp(log_p), below);
        }
    expect_honest("fit", below, 1e5);
    const double impossible[CELLS] = {0.4, 0.6, 0};
    const int64_t seen[CELLS] = {5, 5, 1};
    assert_true(stats_fit_p(CELLS, seen, impossible) == 0);
}

/* Sums of numbers that are 3 with probability 1/10 and else -1/3: mean 0, variance 1, as skewed as it gets. */
static void bounded_p_is_honest(void **state)
{
    enum { N = 3000 };
    double below[LEVELS] = {0};
    for (int k = 0; k <= N; k++) {
        double probability = exp(log_factorial(N) - log_factorial(k) - log_factorial(N - k) + k * log(0.1) +
                                 (N - k) * log(0.9));
        add_outcome(stats_bounded_p(3 * k - (N - k) / 3.0, N, 3), probability, below);
    }
    expect_honest("bounded", below, 1000);
}

/* Means of exponential numbers: how often the score is below -3, once as it is, once without its third moment. */
static void skewness_is_taken_out(void **state)
{
    enum { N = STATS_ENOUGH, MEANS = 60000 };
    double u[N], tail = 0.5 * erfc(3 / sqrt(2));
    int64_t corrected = 0, plain = 0;
    for (int r = 0; r < MEANS; r++) {
        stats_tally t = {0};
        laws_uniforms(stats_seed(5000 + (uint64_t)r), 0, N, u);
        for (int i = 0; i < N; i++) stats_add(&t, -log(u[i]));
        corrected += stats_z(&t, 1) < -3;
        t.m3 = 0;
        plain += stats_z(&t, 1) < -3;
    }
    print_message("    below -3: %.5f, without the correction %.5f, should be %.5f\n", (double)corrected / MEANS,
                  (double)plain / MEANS, tail);
    assert_true(stats_binomial_p(MEANS, plain, tail) < 1e-9);
    assert_true(stats_binomial_p(MEANS, corrected, tail) > STATS_ALARM / STATS_PROGRAMS);
}

static void moments_are_right(void **state)
{
    const double value[5] = {1, 4, 2, 8, 5.5};
    double mean = 0, m2 = 0, m3 = 0;
    stats_tally t = {0};
    for (int i = 0; i < 5; i++) stats_add(&t, value[i]);
    for (int i = 0; i < 5; i++) mean += value[i] / 5;
    for (int i = 0; i < 5; i++) {
        m2 += pow(value[i] - mean, 2);
        m3 += pow(value[i] - mean, 3);
    }
    assert_true(fabs(t.mean - mean) < 1e-12 && fabs(t.m2 - m2) < 1e-12 && fabs(t.m3 - m3) < 1e-11);
}

/* ---------------------------------------------------------------------------- the family */

static void bounds_add_up(void **state)
{
    const int planned[] = {1, 24, 300, 5000};
    for (int k = 0; k < 4; k++) {
        double each = erfc(stats_open(planned[k]).bound / sqrt(2));
        assert_true(fabs(each * planned[k] * STATS_PROGRAMS / STATS_ALARM - 1) < 1e-5);
    }
}

static int keeps_a_ledger(const char *path)
{
    char line[512];
    int found = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) found = strstr(line, "= stats_open(") != NULL;
    (void)fclose(file);
    return found;
}

static void the_family_is_no_larger_than_allowed(void **state)
{
    const char *source = getenv("SOSMC_TEST_SOURCE");
    char pattern[1024];
    glob_t found = {0};
    int count = 0;
    if (!source) {
        print_message("skipped: SOSMC_TEST_SOURCE does not name the folder of the tests\n");
        skip();
    }
    (void)snprintf(pattern, sizeof pattern, "%s/*/test_*.c", source);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    (void)snprintf(pattern, sizeof pattern, "%s/*/*/test_*.c", source);
    assert_int_equal(glob(pattern, GLOB_APPEND, NULL, &found), 0);
    for (size_t k = 0; k < found.gl_pathc; k++) count += keeps_a_ledger(found.gl_pathv[k]);
    globfree(&found);
    print_message("    %d programs keep a ledger, %d have a share of %.0e\n", count, STATS_PROGRAMS, STATS_ALARM);
    assert_in_range(count, 5, STATS_PROGRAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binomial_p_is_honest),
        cmocka_unit_test(fit_p_is_honest),
        cmocka_unit_test(bounded_p_is_honest),
        cmocka_unit_test(skewness_is_taken_out),
        cmocka_unit_test(moments_are_right),
        cmocka_unit_test(bounds_add_up),
        cmocka_unit_test(the_family_is_no_larger_than_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
