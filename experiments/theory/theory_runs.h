/* theory_runs.h: runs of the engine, single and replicated, for the statements about particles, and how their means are
 * judged.
 *
 * Every statement fixes the number of its comparisons in advance and judges each by theory_bound of that number, in standard
 * errors from replicates. */
#ifndef SOSMC_THEORY_THEORY_RUNS_H
#define SOSMC_THEORY_THEORY_RUNS_H

#include <sosmc/sosmc.h>

#include "theory.h"

typedef struct {
    int64_t n;
    double mean, m2;
} theory_tally; /* begin with {0} */
void theory_add(theory_tally *t, double value);
double theory_se(const theory_tally *t);
double theory_z(const theory_tally *t, double expected); /* (mean - expected) / standard error */

/* "1.0006(20)": four decimals, the standard error in units of the last one. */
const char *theory_brief(const theory_tally *t, char out[32]);

/* Fits log y = a + slope log x by least squares, with weights from the relative standard errors of y. */
typedef struct {
    double slope, error;
} theory_fit;
theory_fit theory_power(int n, const double *x, const double *y, const double *se);

uint64_t theory_seed(const theory_options *o, int statement, int cell);

/* The weighted scheme with these values. ess_min: 0 leaves the particles independent of each other. */
sosmc_settings theory_settings(int particles, double ess_min, sosmc_kernel kernel, sosmc_optimiser optimiser,
                               uint64_t seed);
/* Runs an engine. `out` receives, where its pointers are not NULL, the particles and their log-weights at the end and the
 * last iteration's info. Returns an exit code; after a failure the sentence is in s->error. */
typedef struct {
    double *x, *logw;
    sosmc_info *last;
} theory_ending;
int theory_engine(theory_statement *s, const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations,
                  theory_ending out);

/* Reads `count` numbers from an engine after its last iteration. */
typedef void (*theory_reader)(const void *ctx, const sosmc *s, double *value);
typedef struct {
    const sosmc_problem *problem;
    sosmc_settings settings; /* replicate r has seed + r */
    int64_t iterations;
    int replicates, count;
    theory_reader read;
    const void *ctx;
} theory_batch;
enum { THEORY_VALUES = 16 };
/* Returns an exit code; after a failure the sentence is in s->error. */
int theory_replicate(const theory_batch *batch, theory_statement *s, theory_tally *tally);

#endif
