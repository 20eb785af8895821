/* stats.h: means over replicates, p-values of bounded statistics, and an account of how often they were compared.
 *
 * The programs that keep a ledger are one family: all their comparisons hold by chance with probability above 1 - 1e-4.
 * Each of STATS_PROGRAMS programs has an equal share of that, divided by the number of comparisons it announces
 * (Bonferroni: no independence is needed). A comparison is either
 *   - a mean over replicates, judged in standard errors: few replicates are taken into account (Student's t), and so is
 *     skewness where there are enough of them to know it (Hall's transformation, which to this order is the
 *     bootstrap-t); or
 *   - a bounded statistic with a p-value that is a proved bound at any number of replicates.
 * docs/statistics.md has the allocation and what each program can see. */
#ifndef SOSMC_TESTS_STATS_H
#define SOSMC_TESTS_STATS_H

#include <sosmc/sosmc.h>

/* ---------------------------------------------------------------------------- tier and seed */

int stats_nightly(void); /* SOSMC_TEST_TIER=nightly: more replicates of the same tests */
/* Returns fewer replicates in instrumented builds; standard errors are computed from them and grow accordingly. */
int stats_replicates(int wanted);
/* By tier; in instrumented builds, which take ten times as long, the third number whatever the tier. */
int stats_by_tier(int quick, int many, int instrumented);
/* SOSMC_TEST_SEED=k, k > 0, shifts every seed that goes through this function: the same tests with other random numbers. */
uint64_t stats_seed(uint64_t seed);

/* ---------------------------------------------------------------------------- means over replicates */

/* Mean, variance and skewness of what was added. */
typedef struct {
    int64_t n;
    double mean, m2, m3; /* m2, m3: sums of powers of the deviations from the mean */
} stats_tally;
void stats_add(stats_tally *t, double value);
double stats_se(const stats_tally *t); /* standard error of the mean */
/* (mean - expected) / standard error, as the normal deviate with the same tail: corrected for skewness from
 * STATS_ENOUGH replicates on (fewer do not know it), then for the estimated variance. */
enum { STATS_ENOUGH = 400 };
double stats_z(const stats_tally *t, double expected);

/* Reads `count` estimates off a finished engine; `theta` is where the last gradient was taken, before the last update.
 * */
typedef void (*stats_reader)(const void *ctx, const sosmc *s, const double *theta, double *estimate);
/* Runs the problem with seeds seed, seed + 1, ... for `iterations` each and tallies the estimates. Stops the test when
 * a run fails. */
enum { STATS_MOST = 32 };
void stats_run(const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations, int replicates,
               stats_reader read, const void *ctx, int count, stats_tally *tally);

/* ---------------------------------------------------------------------------- bounded statistics */

/* Two-sided p-value of k successes in n, each with this probability: exact. */
double stats_binomial_p(int64_t n, int64_t k, double probability);
/* k of n intervals held what they should: is each one's probability between 0.90 and 0.98? The exact p-value of the nearer end. */
double stats_coverage_p(int64_t n, int64_t k);
/* Do counts follow the probabilities? From the likelihood-ratio chi-square G = 2 n KL(counts/n || probabilities) by
 * P(n KL >= t) <= e^-t (e t / (cells - 1))^(cells - 1) (Agrawal 2020): a bound for every n, however rare a cell. */
double stats_fit_p(int cells, const int64_t *count, const double *probability);
/* The sum of n independent numbers of mean 0 and variance 1, none larger than `most` in size: Bernstein's inequality. */
double stats_bounded_p(double sum, int64_t n, double most);

/* Do values follow the uniform law on the unit cube? By the normalised Legendre polynomials of degree 1 and 2 of every
 * coordinate, and the products of degree 1 of every two: under the law each has mean 0 and variance 1 and is bounded. */
enum { STATS_CUBE = 6, STATS_CUBE_MOST = 2 * STATS_CUBE + STATS_CUBE * (STATS_CUBE - 1) / 2 };
typedef struct {
    int dim;
    int64_t n;
    double sum[STATS_CUBE_MOST];
} stats_cube;
void stats_cube_add(stats_cube *c, const double *u);
int stats_cube_count(int dim); /* how many statistics that makes */
/* p-value of statistic s, its mean, and which one it is. */
double stats_cube_p(const stats_cube *c, int s, double *mean, char name[32]);

/* ---------------------------------------------------------------------------- the account */

/* Of the whole family, and of how many programs; test_ledger.c counts them. */
#define STATS_ALARM 1e-4
enum { STATS_PROGRAMS = 16 };

/* The account of one test; `planned` counts the comparisons of the whole program. */
typedef struct {
    int made, beyond;
    double bound, worst; /* as normal deviates, two-sided */
    char where[200];
} stats_ledger;
double stats_deviate(double p); /* the normal deviate with this two-sided tail */
stats_ledger stats_open(int planned);
/* Compares and counts; prints every comparison beyond the bound. Returns the z-score. */
double stats_compare(stats_ledger *ledger, const stats_tally *t, double expected, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a p-value, and for all statistics of a cube. */
void stats_note(stats_ledger *ledger, double p, const char *format, ...) __attribute__((format(printf, 3, 4)));
void stats_note_cube(stats_ledger *ledger, const stats_cube *c, const char *what);
int stats_close(const stats_ledger *ledger); /* fails when one was beyond; returns how many were made */

/* A negative control: fails the test when the wrong thing is NOT noticed with the ledger's bound. */
void stats_must_notice(const stats_ledger *ledger, const stats_tally *t, double expected, const char *what);
void stats_must_notice_p(const stats_ledger *ledger, double p, const char *what);
void stats_must_notice_cube(const stats_ledger *ledger, const stats_cube *c, const char *what); /* any of it will do */

#endif
