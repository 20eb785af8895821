/* test_mmle_data.c: maximum marginal likelihood with the library's models from data, weighted SOSMC with ULA and MALA.
 *
 * The hierarchical Gaussian has closed forms for everything. For logistic regression on the Wisconsin breast cancer
 * data (546 training rows, nine features, prior N(theta 1, 5 I)) the reference values were computed without particles,
 * by 2 million importance samples; their own errors are added in squares to those of the replicates. Near theta* the
 * log-likelihood is its maximum minus I (theta - theta*)^2 / 2, which carries the running log Z of any theta_k there.
 * All estimates have a bias of order 1/N, which N is chosen to hide behind the standard error. */
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

#include "stats.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { REPLICATES = 8 };
#else
enum { REPLICATES = 16 };
#endif
enum { PLANNED = 60 };
static int comparisons;

static sosmc_kernel kernel_of(int k, double ula, double mala) { return k ? sosmc_mala(mala) : sosmc_ula(ula); }

static sosmc_settings settings_of(int particles, sosmc_kernel kernel, double rate, int64_t burn_in)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(particles);
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(rate);
    cfg.average = 1;
    cfg.average_from = burn_in;
    cfg.seed = 1000;
    return cfg;
}

/* Weighted means, standard deviations and observed information of a finished cloud. */
typedef struct {
    double mean[16], sd[16], information;
} cloud_summary;

static void summarise(const sosmc *s, const sosmc_model *model, const double *theta, cloud_summary *out)
{
    int n = sosmc_particles(s), dim = model->dim_x;
    double *x = malloc(sizeof *x * (size_t)n * (size_t)dim), *logw = malloc(sizeof *logw * (size_t)n);
    assert_true(x && logw && dim <= 16);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    for (int j = 0; j < dim; j++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < n; i++) mean += exp(logw[i]) * x[i * dim + j];
        for (int i = 0; i < n; i++) squares += exp(logw[i]) * (x[i * dim + j] - mean) * (x[i * dim + j] - mean);
        out->mean[j] = mean;
        out->sd[j] = sqrt(squares);
    }
    assert_int_equal(sosmc_louis(model, theta, n, x, logw, &out->information), SOSMC_OK);
    free(x);
    free(logw);
}

/* A reference value with an error of its own: the tally is judged as if it had been measured that much less exactly. */
static void compare_rough(stats_ledger *ledger, const stats_tally *t, double expected, double error, const char *what)
{
    stats_tally rough = *t;
    double se = stats_se(t), n = (double)t->n;
    rough.m2 = (se * se + error * error) * n * (n - 1);
    (void)stats_compare(ledger, &rough, expected, "%s", what);
}

/* ---------------------------------------------------------------------------- the hierarchical Gaussian */

enum { D = 12 };
static double y[D];
static const sosmc_hierarchical hierarchy = {.dim = D, .y = y};

enum { H_THETA, H_LOGZ, H_INFORMATION, H_MEAN, H_SD, H_COUNT };
static const char *const h_name[H_COUNT] = {"theta", "log-likelihood", "information", "posterior mean", "posterior sd"};

static void read_hierarchy(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    sosmc_model model = sosmc_hierarchical_model(&hierarchy);
    cloud_summary c;
    summarise(s, &model, theta, &c);
    estimate[H_THETA] = sosmc_theta_average(s)[0];
    estimate[H_LOGZ] = sosmc_last(s)->logz - sosmc_hierarchical_loglik(&hierarchy, theta[0]);
    estimate[H_INFORMATION] = c.information;
    estimate[H_MEAN] = estimate[H_SD] = 0;
    for (int j = 0; j < D; j++) {
        estimate[H_MEAN] += (c.mean[j] - 0.5 * (y[j] + theta[0])) / D;
        estimate[H_SD] += c.sd[j] * c.sd[j] / D;
    }
}

static void hierarchy_reaches_its_closed_form(void **state)
{
    const double theta0 = -1, expected[H_COUNT] = {sosmc_hierarchical_best(&hierarchy), 0, D / 2.0, 0, 0.5};
    const sosmc_hierarchical_law law = {.data = &hierarchy, .theta = theta0};
    sosmc_problem p = {.model = sosmc_hierarchical_model(&hierarchy),
                       .objective = sosmc_mmle(),
                       .init = sosmc_hierarchical_source(&law),
                       .theta0 = &theta0};
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 2; k++) {
        stats_tally tally[H_COUNT] = {{0}};
        sosmc_settings cfg = settings_of(6000, kernel_of(k, 0.03, 0.1), 0.1 / D, 120);
        stats_run(&p, &cfg, 300, REPLICATES, read_hierarchy, NULL, H_COUNT, tally);
        for (int q = 0; q < H_COUNT; q++)
            (void)stats_compare(&ledger, &tally[q], expected[q], "%s: %s", cfg.kernel.name, h_name[q]);
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- logistic regression */

enum { P = 9, ALL = 683, TRAIN = 546 };
static double features[TRAIN * P], labels[TRAIN];
static const sosmc_logistic wisconsin = {
    .rows = TRAIN, .dim = P, .features = features, .labels = labels, .variance = 5};

static const double best = 0.96772, best_error = 0.00013, loglik = -61.3242, loglik_error = 0.0008,
                    information = 1.7613;
static const double means[P] = {1.1760, 0.1389, 0.7236, 0.9297, 0.5968, 1.6315, 1.2527, 1.0558, 1.2045};
static const double sds[P] = {.4558, .7979, .8168, .4535, .4736, .4579, .4767, .4913, .4651};

/* Features standardised over all rows (population standard deviation), then the training rows. */
static int read_wisconsin(FILE *file)
{
    static double raw[ALL][P], label[ALL];
    static char split[ALL][16];
    char line[256];
    int rows = 0, used = 0;
    if (!fgets(line, sizeof line, file)) return -1;
    for (; rows < ALL && fgets(line, sizeof line, file); rows++) {
        double *r = raw[rows];
        if (sscanf(line, "%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%15[a-z]", r, r + 1, r + 2, r + 3, r + 4, r + 5,
                   r + 6, r + 7, r + 8, &label[rows], split[rows]) != P + 2)
            return -1;
    }
    if (rows != ALL) return -1;
    for (int j = 0; j < P; j++) {
        double mean = 0, squares = 0;
        for (int i = 0; i < ALL; i++) mean += raw[i][j] / ALL;
        for (int i = 0; i < ALL; i++) squares += (raw[i][j] - mean) * (raw[i][j] - mean) / ALL;
        for (int i = 0; i < ALL; i++) raw[i][j] = (raw[i][j] - mean) / sqrt(squares);
    }
    for (int i = 0; i < ALL; i++) {
        if (strcmp(split[i], "train") != 0) continue;
        if (used == TRAIN) return -1;
        memcpy(features + (size_t)used * P, raw[i], sizeof raw[i]);
        labels[used++] = label[i];
    }
    return used == TRAIN ? 0 : -1;
}

static int missing_data(void)
{
    const char *folder = getenv("SOSMC_TEST_DATA");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/mmle/wisconsin_split.csv", folder ? folder : "");
    FILE *file = folder ? fopen(path, "r") : NULL;
    if (!file) {
        print_message("skipped: %s\n", folder ? path : "SOSMC_TEST_DATA names no folder of reference data");
        return 1;
    }
    int damaged = read_wisconsin(file);
    (void)fclose(file);
    if (damaged) fail_msg("%s is not the file it should be", path);
    return 0;
}

/* The Laplace approximation at theta, a little widened, with some of the prior: weights are bounded. */
typedef struct {
    double mode[P], factor[P * P];
    sosmc_gaussian law;
} approximation;

static sosmc_source laplace_at(double theta, approximation *a)
{
    assert_int_equal(sosmc_logistic_laplace(&wisconsin, theta, a->mode, a->factor), SOSMC_OK);
    a->law = (sosmc_gaussian){.dim = P,
                              .mean = a->mode,
                              .factor = a->factor,
                              .widen = 1.2,
                              .share = 0.02,
                              .centre = theta,
                              .variance = wisconsin.variance};
    return sosmc_gaussian_source(&a->law);
}

static void evidence_at_the_optimum(void **state)
{
    approximation a;
    sosmc_evidence e;
    sosmc_model model = sosmc_logistic_model(&wisconsin);
    if (missing_data()) skip();
    sosmc_source law = laplace_at(best, &a);
    assert_int_equal(sosmc_importance(&model, &best, law, 200000, 1, &e), SOSMC_OK);
    print_message("log p = %.5f +- %.5f, ESS %.0f of 200000\n", e.logz, e.error, e.ess);
    assert_true(e.ess > 50000);
    assert_true(fabs(e.logz - loglik) < 4 * hypot(e.error, loglik_error));
}

enum { L_THETA, L_LOGZ, L_INFORMATION, L_COUNT };

static void read_fit(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    sosmc_model model = sosmc_logistic_model(&wisconsin);
    cloud_summary c;
    double off = theta[0] - best;
    summarise(s, &model, theta, &c);
    estimate[L_THETA] = sosmc_theta_average(s)[0];
    estimate[L_LOGZ] = sosmc_last(s)->logz + 0.5 * information * off * off;
    estimate[L_INFORMATION] = c.information;
}

static void regression_reaches_its_optimum(void **state)
{
    const double theta0 = 0;
    approximation a;
    if (missing_data()) skip();
    sosmc_problem p = {.model = sosmc_logistic_model(&wisconsin),
                       .objective = sosmc_mmle(),
                       .init = laplace_at(theta0, &a),
                       .theta0 = &theta0};
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 2; k++) {
        stats_tally tally[L_COUNT] = {{0}};
        sosmc_settings cfg = settings_of(1000, kernel_of(k, 0.015, 0.06), 0.2, 40);
        stats_run(&p, &cfg, 120, REPLICATES, read_fit, NULL, L_COUNT, tally);
        compare_rough(&ledger, &tally[L_THETA], best, best_error, "theta");
        compare_rough(&ledger, &tally[L_LOGZ], loglik, loglik_error, "log-likelihood");
        compare_rough(&ledger, &tally[L_INFORMATION], information, 5e-5, "information");
        print_message("%s: theta %.5f +- %.5f, log p %.4f +- %.4f, information %.4f +- %.4f\n", cfg.kernel.name,
                      tally[L_THETA].mean, stats_se(&tally[L_THETA]), tally[L_LOGZ].mean, stats_se(&tally[L_LOGZ]),
                      tally[L_INFORMATION].mean, stats_se(&tally[L_INFORMATION]));
    }
    comparisons += stats_close(&ledger);
}

static void read_posterior(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    sosmc_model model = sosmc_logistic_model(&wisconsin);
    cloud_summary c;
    summarise(s, &model, theta, &c);
    for (int j = 0; j < P; j++) estimate[j] = c.mean[j], estimate[P + j] = c.sd[j];
}

/* theta stays at theta*; the cloud starts from a neighbour's approximation, weighted, and moves. */
static void regression_has_its_posterior(void **state)
{
    approximation a;
    if (missing_data()) skip();
    sosmc_problem p = {.model = sosmc_logistic_model(&wisconsin),
                       .objective = sosmc_mmle(),
                       .init = laplace_at(0.5, &a),
                       .theta0 = &best};
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 2; k++) {
        stats_tally tally[2 * P] = {{0}};
        sosmc_settings cfg = settings_of(2000, kernel_of(k, 0.015, 0.06), 0, 0);
        stats_run(&p, &cfg, 60, REPLICATES, read_posterior, NULL, 2 * P, tally);
        for (int j = 0; j < P; j++) {
            compare_rough(&ledger, &tally[j], means[j], 5e-5, "posterior mean");
            compare_rough(&ledger, &tally[P + j], sds[j], 5e-5, "posterior sd");
        }
    }
    comparisons += stats_close(&ledger);
}

static void comparisons_were_planned(void **state) { assert_in_range(comparisons, 1, PLANNED); }

int main(void)
{
    sosmc_batch b = {.dim = D, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 11, .stream = SOSMC_STREAM_USER}, &b, y);
    for (int j = 0; j < D; j++) y[j] = 1 + 1.4 * y[j];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hierarchy_reaches_its_closed_form), cmocka_unit_test(evidence_at_the_optimum),
        cmocka_unit_test(regression_reaches_its_optimum),    cmocka_unit_test(regression_has_its_posterior),
        cmocka_unit_test(comparisons_were_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
