/* test_calibration.c: simulation-based calibration at a fixed theta (Talts et al. 2018).
 *
 * x* is drawn from the prior, data from x*, and a weighted cloud is run for the posterior of x given the data. Then x* is one
 * more draw from what the cloud stands for: the weight of the particles below it,
 *
 *     u = sum_i w_i 1{ f(x_i) < f(x*) },
 *
 * is uniform for every f, up to O(1/N): u has the error of the cloud, which adds some 2/ESS to the mean of the polynomial of
 * degree 2, less than a standard error at the sizes chosen here. f are the coordinates and their sum. Many data sets make many u, which are judged as
 * points of the unit interval by bounded statistics, each f alone. What this cannot see: a cloud that ignores the data and
 * stands for the prior; test_geweke.c can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "exact_laws.h"
#include "stats.h"
#include "toys.h"

enum { MOST_DIM = 4, MOST_FUNCTIONS = MOST_DIM + 1, ROWS = 14, ITERATIONS = 7 };
static const double THETA = 0.5;

/* ---------------------------------------------------------------------------- what is run */

typedef enum { HIERARCHY, LOGISTIC } model_kind;
typedef struct {
    const char *name;
    model_kind model;
    sosmc_kernel kernel;
    sosmc_resampling resampling;
    double ess_min;
    /* negative controls */
    double prior_shift, noise; /* where x* really comes from, and the noise of the data beyond the model's */
    int stale;                 /* the data are those of another x* */
} subject;

static int dim_of(const subject *t) { return t->model == HIERARCHY ? 4 : 3; }
static int functions_of(const subject *t) { return dim_of(t) + 1; }
static int particles(void) { return stats_by_tier(300, 2000, 300); }

/* u of one finished cloud */
static void read_ranks(const subject *t, const sosmc *s, const double *truth, double *u)
{
    int n = sosmc_particles(s), dim = dim_of(t);
    double *x = malloc((size_t)n * (size_t)dim * sizeof *x), *logw = malloc((size_t)n * sizeof *logw), sum = 0;
    assert_true(x && logw);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    memset(u, 0, MOST_FUNCTIONS * sizeof *u);
    for (int j = 0; j < dim; j++) sum += truth[j];
    for (int i = 0; i < n; i++) {
        double w = exp(logw[i]), total = 0;
        for (int j = 0; j < dim; j++) {
            u[j] += x[i * dim + j] < truth[j] ? w : 0;
            total += x[i * dim + j];
        }
        u[dim] += total < sum ? w : 0;
    }
    for (int f = 0; f <= dim; f++) u[f] = fmin(u[f], 1);
    free(x);
    free(logw);
}

static void run_cloud(const subject *t, sosmc_model model, sosmc_source init, uint64_t seed, const double *truth,
                      double *u)
{
    sosmc_problem p = {.model = model, .objective = sosmc_sampling((sosmc_score){0}), .init = init, .theta0 = &THETA};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = sosmc_scheme_sosmc(particles());
    cfg.scheme.resampling = t->resampling;
    cfg.scheme.ess_min = t->ess_min;
    cfg.kernel = t->kernel;
    cfg.seed = seed;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, ITERATIONS, NULL, NULL);
    if (status != SOSMC_OK) fail_msg("%s: %s", t->name, sosmc_message(s));
    read_ranks(t, s, truth, u);
    sosmc_free(s);
}

/* x*_d ~ N(theta, 1), y_d ~ N(x*_d, 1); the cloud begins around the posterior N((y + theta)/2, 1/2), with twice its variance. */
static void hierarchy_ranks(const subject *t, uint64_t seed, double *u)
{
    double z[3 * MOST_DIM], truth[MOST_DIM], y[MOST_DIM], mean[MOST_DIM];
    laws_normals(seed, 1, 3 * MOST_DIM, z);
    for (int j = 0; j < MOST_DIM; j++) {
        truth[j] = THETA + t->prior_shift + z[j];
        y[j] = (t->stale ? THETA + z[2 * MOST_DIM + j] : truth[j]) + (1 + t->noise) * z[MOST_DIM + j];
        mean[j] = 0.5 * (y[j] + THETA);
    }
    const sosmc_hierarchical data = {.dim = MOST_DIM, .y = y};
    const toy_normal around = {.mean = mean, .sd = 1};
    run_cloud(t, sosmc_hierarchical_model(&data), toy_normal_source(&around), seed, truth, u);
}

/* x* ~ N(theta 1, 2 I), a few labels; the cloud begins at Laplace's approximation, a little widened. */
static void logistic_ranks(const subject *t, uint64_t seed, double *u)
{
    enum { DIM = 3 };
    double z[DIM + ROWS * DIM], uniform[ROWS], labels[ROWS], truth[DIM], mode[DIM], factor[DIM * DIM] = {0};
    const double *features = z + DIM;
    laws_normals(seed, 1, DIM + ROWS * DIM, z);
    laws_uniforms(seed, 0, ROWS, uniform);
    for (int j = 0; j < DIM; j++) truth[j] = THETA + t->prior_shift + sqrt(2) * z[j];
    for (int r = 0; r < ROWS; r++) {
        double dot = 0;
        for (int j = 0; j < DIM; j++) dot += features[r * DIM + j] * truth[j];
        labels[r] = uniform[r] * (1 + exp(-dot * (1 + t->noise))) < 1;
    }
    const sosmc_logistic data = {.rows = ROWS, .dim = DIM, .features = features, .labels = labels, .variance = 2};
    assert_int_equal(sosmc_logistic_laplace(&data, THETA, mode, factor), SOSMC_OK);
    const sosmc_gaussian law = {
        .dim = DIM, .mean = mode, .factor = factor, .widen = 1.2, .share = 0.02, .centre = THETA, .variance = 2};
    run_cloud(t, sosmc_logistic_model(&data), sosmc_gaussian_source(&law), seed, truth, u);
}

/* One cube per function: they are not independent of each other. */
static void calibrate(const subject *t, uint64_t seed, stats_cube cube[MOST_FUNCTIONS])
{
    for (int f = 0; f < MOST_FUNCTIONS; f++) cube[f] = (stats_cube){.dim = 1};
    for (int r = 0; r < stats_by_tier(1500, 15000, 700); r++) {
        double u[MOST_FUNCTIONS];
        uint64_t name = stats_seed(seed + (uint64_t)r);
        if (t->model == HIERARCHY)
            hierarchy_ranks(t, name, u);
        else
            logistic_ranks(t, name, u);
        for (int f = 0; f < functions_of(t); f++) stats_cube_add(&cube[f], &u[f]);
    }
}

/* ---------------------------------------------------------------------------- ranks are uniform */

enum { SUBJECTS = 11, PLANNED = (7 * 5 + 4 * 4) * 2 };
static int comparisons;

static subject subject_of(int s)
{
    const subject all[SUBJECTS] = {
        {.name = "hierarchy, ula", .kernel = sosmc_ula(0.15), .resampling = SOSMC_SYSTEMATIC, .ess_min = 0.5},
        {.name = "hierarchy, ula, always", .kernel = sosmc_ula(0.15), .resampling = SOSMC_STRATIFIED, .ess_min = 2},
        {.name = "hierarchy, mala", .kernel = sosmc_mala(0.3), .resampling = SOSMC_RESIDUAL, .ess_min = 0.5},
        {.name = "hierarchy, rwm", .kernel = sosmc_rwm(0.3), .resampling = SOSMC_SSP, .ess_min = 0.5},
        {.name = "hierarchy, hmc", .kernel = sosmc_hmc(0.4, 3, 1), .resampling = SOSMC_MULTINOMIAL, .ess_min = 0.5},
        {.name = "hierarchy, underdamped", .kernel = sosmc_underdamped(0.4, 1, 1), .ess_min = 0.5},
        {.name = "hierarchy, leapfrog", .kernel = sosmc_leapfrog(0.4, 3, 1), .ess_min = 0.5},
        {.name = "logistic, ula", .model = LOGISTIC, .kernel = sosmc_ula(0.1), .ess_min = 0.5},
        {.name = "logistic, mala", .model = LOGISTIC, .kernel = sosmc_mala(0.3), .ess_min = 2},
        {.name = "logistic, underdamped", .model = LOGISTIC, .kernel = sosmc_underdamped(0.4, 1, 1), .ess_min = 0.5},
        {.name = "logistic, leapfrog", .model = LOGISTIC, .kernel = sosmc_leapfrog(0.3, 3, 1), .ess_min = 0.5},
    };
    return all[s];
}

static void ranks_are_uniform(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int s = 0; s < SUBJECTS; s++) {
        subject t = subject_of(s);
        stats_cube cube[MOST_FUNCTIONS];
        calibrate(&t, 1000000u * (uint64_t)(s + 1), cube);
        for (int f = 0; f < functions_of(&t); f++) {
            char what[100];
            (void)snprintf(what, sizeof what, "%s, function %d", t.name, f);
            stats_note_cube(&ledger, &cube[f], what);
        }
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- negative controls */

static void must_notice(const stats_ledger *ledger, subject t, const char *what)
{
    stats_cube cube[MOST_FUNCTIONS];
    double least = 1, mean;
    char name[32];
    calibrate(&t, 50000000, cube);
    for (int f = 0; f < functions_of(&t); f++)
        for (int s = 0; s < stats_cube_count(1); s++) least = fmin(least, stats_cube_p(&cube[f], s, &mean, name));
    stats_must_notice_p(ledger, least, what);
}

/* ULA with the noise of its first step in every step, and ULA that gives everybody the same weight. */
static int same_noise(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(m->h);
    m->rng.step = 0;
    return ula.step(&ula, m);
}

static int no_weight(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(m->h);
    int rc = ula.step(&ula, m);
    for (int i = 0; i < m->b.n; i++) m->logG[i] = 0;
    return rc;
}

static void miscalibration_is_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    subject t = subject_of(0);
    t.prior_shift = 0.5;
    must_notice(&ledger, t, "x* from another prior");
    t = subject_of(7);
    t.prior_shift = 0.7;
    must_notice(&ledger, t, "logistic, x* from another prior");
    t = subject_of(7);
    t.noise = -2;
    must_notice(&ledger, t, "logistic, labels the wrong way round");
    t = subject_of(2);
    t.noise = 0.6;
    must_notice(&ledger, t, "data with more noise than the model knows");
    t = subject_of(2);
    t.stale = 1;
    must_notice(&ledger, t, "data of another x*");
    t = subject_of(0);
    t.kernel.h = 0.7;
    t.kernel.step = no_weight;
    must_notice(&ledger, t, "ULA without incremental weights");
    t = subject_of(0);
    t.kernel.step = same_noise;
    must_notice(&ledger, t, "ULA with the same noise in every step");
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_uniform),
        cmocka_unit_test(miscalibration_is_noticed),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
