/* stats.c: see stats.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

/* ---------------------------------------------------------------------------- tier and seed */

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

int stats_nightly(void)
{
    const char *tier = getenv("SOSMC_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0;
}

int stats_by_tier(int quick, int many, int instrumented)
{
#ifdef INSTRUMENTED
    return instrumented;
#else
    return stats_nightly() ? many : quick;
#endif
}

uint64_t stats_seed(uint64_t seed)
{
    const char *shift = getenv("SOSMC_TEST_SEED");
    return seed + (shift ? (uint64_t)strtoull(shift, NULL, 10) << 40 : 0);
}

/* ---------------------------------------------------------------------------- means over replicates */

void stats_add(stats_tally *t, double value)
{
    double off = value - t->mean, before = t->m2;
    t->n++;
    double n = (double)t->n, share = off / n;
    t->mean += share;
    t->m2 += off * (value - t->mean);
    t->m3 += off * share * share * (n - 1) * (n - 2) - 3 * share * before;
}

double stats_se(const stats_tally *t) { return sqrt(t->m2 / ((double)t->n * (double)(t->n - 1))); }

/* Hall's transformation: monotone, and with the skewness taken out of the t-score to first order. */
static double unskewed(const stats_tally *t, double score)
{
    double n = (double)t->n, root = sqrt(n), sd = sqrt(t->m2 / n);
    if (t->n < STATS_ENOUGH || !(sd > 0) || !isfinite(score)) return score;
    double skewness = t->m3 / n / (sd * sd * sd), s = score / root;
    return score + root * (skewness * s * s / 3 + skewness * skewness * s * s * s / 27 + skewness / (6 * n));
}

double stats_z(const stats_tally *t, double expected)
{
    if (t->mean == expected) return 0;
    double score = unskewed(t, (t->mean - expected) / stats_se(t)), dof = (double)(t->n - 1);
    /* Wallace's approximation, good to 0.02 from 5 degrees of freedom on */
    double z = (8 * dof + 1) / (8 * dof + 3) * sqrt(dof * log1p(score * score / dof));
    return score < 0 ? -z : z;
}

/* ---------------------------------------------------------------------------- bounded statistics */

static double log_choose(double n, double k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }

/* sum of P(X = j) for j = from, from + by, ... while it matters */
static double binomial_tail(double n, double from, double by, double probability)
{
    double sum = 0;
    for (double j = from; j >= 0 && j <= n; j += by) {
        double term = exp(log_choose(n, j) + j * log(probability) + (n - j) * log1p(-probability));
        sum += term;
        if (term < 1e-18 * sum) break;
    }
    return sum;
}

double stats_binomial_p(int64_t n, int64_t k, double probability)
{
    if (!(probability > 0)) return k > 0 ? 0 : 1;
    if (!(probability < 1)) return k < n ? 0 : 1;
    double up = (double)k >= (double)n * probability ? 1 : -1;
    return fmin(1, 2 * binomial_tail((double)n, (double)k, up, probability));
}

double stats_coverage_p(int64_t n, int64_t k)
{
    double share = (double)k / (double)n;
    return share < 0.90 ? stats_binomial_p(n, k, 0.90) : share > 0.98 ? stats_binomial_p(n, k, 0.98) : 1;
}

double stats_fit_p(int cells, const int64_t *count, const double *probability)
{
    double n = 0, divergence = 0, free_cells = -1;
    for (int c = 0; c < cells; c++) n += (double)count[c];
    for (int c = 0; c < cells; c++) {
        if (!(probability[c] > 0) && count[c] > 0) return 0;
        if (probability[c] > 0) free_cells++;
        if (count[c] > 0) divergence += (double)count[c] * log((double)count[c] / (n * probability[c]));
    }
    if (!(free_cells > 0) || !(divergence > free_cells)) return 1;
    return fmin(1, exp(free_cells * (1 + log(divergence / free_cells)) - divergence));
}

double stats_bounded_p(double sum, int64_t n, double most)
{
    double t = fabs(sum) / sqrt((double)n);
    return fmin(1, 2 * exp(-0.5 * t * t / (1 + most * t / (3 * sqrt((double)n)))));
}

static double legendre(int degree, double u)
{
    return degree == 1 ? sqrt(3) * (2 * u - 1) : sqrt(5) * (6 * u * (u - 1) + 1);
}

int stats_cube_count(int dim) { return 2 * dim + dim * (dim - 1) / 2; }

void stats_cube_add(stats_cube *c, const double *u)
{
    double *product = c->sum + 2 * (size_t)c->dim;
    c->n++;
    for (int j = 0; j < c->dim; j++) {
        c->sum[2 * j] += legendre(1, u[j]);
        c->sum[2 * j + 1] += legendre(2, u[j]);
        for (int k = 0; k < j; k++) *product++ += legendre(1, u[j]) * legendre(1, u[k]);
    }
}

double stats_cube_p(const stats_cube *c, int s, double *mean, char name[32])
{
    int pair = s - 2 * c->dim, j = 1;
    *mean = c->sum[s] / (double)c->n;
    if (pair < 0) {
        (void)snprintf(name, 32, "degree %d of %d", 1 + s % 2, s / 2);
        return stats_bounded_p(c->sum[s], c->n, s % 2 ? sqrt(5) : sqrt(3));
    }
    while (pair >= j) pair -= j++;
    (void)snprintf(name, 32, "%d with %d", pair, j);
    return stats_bounded_p(c->sum[s], c->n, 3);
}

/* ---------------------------------------------------------------------------- runs */

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
        cfg.seed = stats_seed(settings->seed + (uint64_t)r);
        run_once(problem, &cfg, iterations, read, ctx, estimate);
        for (int e = 0; e < count; e++) stats_add(&tally[e], estimate[e]);
    }
}

/* ---------------------------------------------------------------------------- the account */

double stats_deviate(double p)
{
    double lo = 0, hi = 40;
    while (hi - lo > 1e-9) {
        double mid = 0.5 * (lo + hi);
        if (erfc(mid / sqrt(2)) > p)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

stats_ledger stats_open(int planned)
{
    return (stats_ledger){.bound = stats_deviate(STATS_ALARM / STATS_PROGRAMS / planned)};
}

/* Not a number is beyond every bound. Returns whether it was. */
static int enter(stats_ledger *ledger, double z, const char *what)
{
    ledger->made++;
    if (!(fabs(z) <= ledger->worst)) {
        ledger->worst = fabs(z);
        (void)snprintf(ledger->where, sizeof ledger->where, "%s", what);
    }
    if (fabs(z) <= ledger->bound) return 0;
    ledger->beyond++;
    return 1;
}

double stats_compare(stats_ledger *ledger, const stats_tally *t, double expected, const char *format, ...)
{
    char what[sizeof ledger->where];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    double z = stats_z(t, expected);
    if (enter(ledger, z, what))
        print_error("%s: %.6g instead of %.6g, %.1f standard errors of %.2g\n", what, t->mean, expected, z,
                    stats_se(t));
    return z;
}

void stats_note(stats_ledger *ledger, double p, const char *format, ...)
{
    char what[sizeof ledger->where];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (enter(ledger, isnan(p) ? NAN : stats_deviate(p), what)) print_error("%s: p below %.2g\n", what, p);
}

void stats_note_cube(stats_ledger *ledger, const stats_cube *c, const char *what)
{
    for (int s = 0; s < stats_cube_count(c->dim); s++) {
        char name[32];
        double mean, p = stats_cube_p(c, s, &mean, name);
        stats_note(ledger, p, "%s, %s (mean %.4f)", what, name, mean);
    }
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

void stats_must_notice_p(const stats_ledger *ledger, double p, const char *what)
{
    double z = stats_deviate(p);
    print_message("    negative control, %s: p below %.1e, %.1f standard errors\n", what, p, z);
    if (!(z > ledger->bound)) print_error("%s was not noticed\n", what);
    assert_true(z > ledger->bound);
}

void stats_must_notice_cube(const stats_ledger *ledger, const stats_cube *c, const char *what)
{
    double least = 1;
    for (int s = 0; s < stats_cube_count(c->dim); s++) {
        char name[32];
        double mean;
        least = fmin(least, stats_cube_p(c, s, &mean, name));
    }
    stats_must_notice_p(ledger, least, what);
}
