/* stats.c: see stats.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stats.h"

void stats_add(stats_tally *t, double value)
{
    double off = value - t->mean;
    t->n++;
    t->mean += off / (double)t->n;
    t->m2 += off * (value - t->mean);
}

double stats_se(const stats_tally *t) { return sqrt(t->m2 / ((double)t->n * (double)(t->n - 1))); }

double stats_z(const stats_tally *t, double expected)
{
    double score = (t->mean - expected) / stats_se(t), dof = (double)(t->n - 1);
    if (t->mean == expected) return 0;
    /* Wallace's approximation, good to 0.02 from 5 degrees of freedom on */
    double z = (8 * dof + 1) / (8 * dof + 3) * sqrt(dof * log1p(score * score / dof));
    return score < 0 ? -z : z;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#endif

int stats_replicates(int wanted)
{
#ifdef INSTRUMENTED
    int fewer = wanted / 6;
    return fewer > 20 ? fewer : wanted < 20 ? wanted : 20;
#else
    return wanted;
#endif
}

static void run_once(const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations,
                     stats_reader read, const void *ctx, double *estimate)
{
    double theta[STATS_MOST];
    size_t dim = (size_t)problem->model.dim_theta;
    sosmc *s = NULL;
    sosmc_status status = sosmc_create(&s, problem, settings);
    if (status == SOSMC_OK) status = sosmc_run(s, iterations - 1, NULL, NULL);
    if (status == SOSMC_OK) memcpy(theta, sosmc_theta(s), dim * sizeof(double));
    if (status == SOSMC_OK) status = sosmc_step(s);
    if (status != SOSMC_OK) print_error("seed %llu: %s\n", (unsigned long long)settings->seed, sosmc_message(s));
    assert_int_equal(status, SOSMC_OK);
    read(ctx, s, theta, estimate);
    sosmc_free(s);
}

void stats_run(const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations, int replicates,
               stats_reader read, const void *ctx, int count, stats_tally *tally)
{
    double estimate[STATS_MOST];
    assert_true(count <= STATS_MOST && problem->model.dim_theta <= STATS_MOST);
    memset(tally, 0, (size_t)count * sizeof *tally);
    for (int r = 0; r < replicates; r++) {
        sosmc_settings cfg = *settings;
        cfg.seed += (uint64_t)r;
        run_once(problem, &cfg, iterations, read, ctx, estimate);
        for (int e = 0; e < count; e++) stats_add(&tally[e], estimate[e]);
    }
}

/* ---------------------------------------------------------------------------- the account */

stats_ledger stats_open(int planned)
{
    const double alarm = 3e-4;
    double lo = 4, hi = 10;
    while (hi - lo > 1e-6) {
        double mid = 0.5 * (lo + hi);
        if (planned * erfc(mid / sqrt(2)) > alarm)
            lo = mid;
        else
            hi = mid;
    }
    return (stats_ledger){.bound = hi};
}

double stats_compare(stats_ledger *ledger, const stats_tally *t, double expected, const char *format, ...)
{
    char what[sizeof ledger->where];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    double z = stats_z(t, expected);
    ledger->made++;
    if (!(fabs(z) <= ledger->worst)) {
        ledger->worst = fabs(z);
        memcpy(ledger->where, what, sizeof what);
    }
    if (!(fabs(z) <= ledger->bound)) {
        ledger->beyond++;
        print_error("%s: %.6g instead of %.6g, %.1f standard errors of %.2g\n", what, t->mean, expected, z,
                    stats_se(t));
    }
    return z;
}

int stats_close(const stats_ledger *ledger)
{
    print_message("    %d comparisons, bound %.2f standard errors; largest %.2f (%s)\n", ledger->made, ledger->bound,
                  ledger->worst, ledger->where);
    assert_int_equal(ledger->beyond, 0);
    return ledger->made;
}

void stats_must_notice(const stats_ledger *ledger, const stats_tally *t, double expected, const char *what)
{
    double z = stats_z(t, expected);
    print_message("    negative control, %s: %.5g instead of %.5g, %.1f standard errors\n", what, t->mean, expected, z);
    if (!(fabs(z) > ledger->bound)) print_error("%s was not noticed\n", what);
    assert_true(fabs(z) > ledger->bound);
}
