/* stats.h: means over replicates, their standard errors, and an account of how often they were compared.
 *
 * A comparison is judged in standard errors computed from the replicates. The bound follows from the number of
 * comparisons that a program announces: they all hold by chance with probability above 1 - 3e-4 (Bonferroni; three
 * programs: 1e-3), and it is never below 4. Few replicates are taken into account (Student's t). */
#ifndef SOSMC_TESTS_STATS_H
#define SOSMC_TESTS_STATS_H

#include <sosmc/sosmc.h>

/* Mean and variance of what was added. */
typedef struct {
    int64_t n;
    double mean, m2;
} stats_tally;
void stats_add(stats_tally *t, double value);
double stats_se(const stats_tally *t); /* standard error of the mean */
/* (mean - expected) / standard error, as the normal deviate with the same tail as the t-score it is. */
double stats_z(const stats_tally *t, double expected);

/* Fewer replicates in instrumented builds: standard errors grow by themselves. */
int stats_replicates(int wanted);

/* Reads `count` estimates off a finished engine; `theta` is where the last gradient was taken, before the last update.
 * */
typedef void (*stats_reader)(const void *ctx, const sosmc *s, const double *theta, double *estimate);
/* Runs the problem with seeds seed, seed + 1, ... for `iterations` each and tallies the estimates. Stops the test when
 * a run fails. */
enum { STATS_MOST = 32 };
void stats_run(const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations, int replicates,
               stats_reader read, const void *ctx, int count, stats_tally *tally);

/* The account of one test; `planned` counts the comparisons of the whole program. */
typedef struct {
    int made, beyond;
    double bound, worst;
    char where[200];
} stats_ledger;
stats_ledger stats_open(int planned);
/* Compares and notes; tells of every comparison beyond the bound. Returns the z-score. */
double stats_compare(stats_ledger *ledger, const stats_tally *t, double expected, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int stats_close(const stats_ledger *ledger); /* fails when one was beyond; returns how many were made */

/* A negative control: fails the test when the wrong thing is NOT noticed with the ledger's bound. */
void stats_must_notice(const stats_ledger *ledger, const stats_tally *t, double expected, const char *what);

#endif
