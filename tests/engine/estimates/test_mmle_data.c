/* test_mmle_data.c: maximum marginal likelihood with the library's models from data, weighted SOSMC with ULA and MALA.
 *
 * The hierarchical Gaussian has closed forms for everything. For logistic regression on the Wisconsin breast cancer
 * data (546 training rows, nine features, prior N(theta 1, 5 I)) the reference values were computed without particles,
 * by 2 million importance samples; their own errors are added in squares to those of the replicates. Near theta* the
 * log-likelihood is its maximum minus I (theta - theta*)^2 / 2, which carries the running log Z of any theta_k there.
 * All estimates have a bias of order 1/N, which N is chosen to hide behind the standard error: the nightly tier has more
 * particles with its more replicates. Negative controls have a quarter of them. */
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

#include "reference.h"
#include "stats.h"

enum { WITHOUT_DATA = 10, PLANNED = WITHOUT_DATA + 43 };
static int comparisons;

static int replicates(void) { return stats_by_tier(16, 48, 8); }
static int control_replicates(void) { return stats_by_tier(16, 48, 16); }
/* Half of the particles with half of the replicates keeps the bias where it is behind the standard error. */
static int particles(int quick) { return quick * stats_by_tier(2, 6, 1) / 2; }
static int control_particles(int quick) { return quick * stats_by_tier(1, 3, 1); }

static sosmc_kernel kernel_of(int k, double ula, double mala) { return k ? sosmc_mala(mala) : sosmc_ula(ula); }

static sosmc_settings settings_of(int cloud, sosmc_kernel kernel, double rate, int64_t burn_in)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(cloud);
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
        /* theta comes nearer by 1/20 in each iteration: what is left after 200 changes the average by 1e-5 */
        sosmc_settings cfg = settings_of(particles(6000), kernel_of(k, 0.03, 0.1), 0.1 / D, 200);
        stats_run(&p, &cfg, 300, replicates(), read_hierarchy, NULL, H_COUNT, tally);
        for (int q = 0; q < H_COUNT; q++)
            (void)stats_compare(&ledger, &tally[q], expected[q], "%s: %s", cfg.kernel.name, h_name[q]);
    }
    comparisons += stats_close(&ledger);
}

/* The same runs with one datum that is not what the model of the closed form has, and without weights. */
static void wrong_hierarchies_are_noticed(void **state)
{
    const double theta0 = -1;
    double other_y[D];
    memcpy(other_y, y, sizeof other_y);
    other_y[0] += 3;
    const sosmc_hierarchical other = {.dim = D, .y = other_y};
    const sosmc_hierarchical_law law = {.data = &hierarchy, .theta = theta0};
    sosmc_problem p = {.model = sosmc_hierarchical_model(&other),
                       .objective = sosmc_mmle(),
                       .init = sosmc_hierarchical_source(&law),
                       .theta0 = &theta0};
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[H_COUNT];
    sosmc_settings cfg = settings_of(control_particles(1500), sosmc_ula(0.03), 0.1 / D, 200);
    stats_run(&p, &cfg, 300, control_replicates(), read_hierarchy, NULL, H_COUNT, tally);
    stats_must_notice(&ledger, &tally[H_THETA], sosmc_hierarchical_best(&hierarchy), "hierarchy, a wrong datum, theta");
    stats_must_notice(&ledger, &tally[H_LOGZ], 0, "hierarchy, a wrong datum, log-likelihood");
    stats_must_notice(&ledger, &tally[H_MEAN], 0, "hierarchy, a wrong datum, posterior mean");
    p.model = sosmc_hierarchical_model(&hierarchy);
    cfg.kernel = sosmc_ula(0.2);
    cfg.kernel.invariant = 1;
    stats_run(&p, &cfg, 300, control_replicates(), read_hierarchy, NULL, H_COUNT, tally);
    stats_must_notice(&ledger, &tally[H_SD], 0.5, "hierarchy, ULA taken for invariant, posterior sd");
    stats_must_notice(&ledger, &tally[H_INFORMATION], D / 2.0, "hierarchy, ULA taken for invariant, information");
}

/* ---------------------------------------------------------------------------- logistic regression */

enum { P = 9, ALL = 683, TRAIN = 546 };
static double features[TRAIN * P], labels[TRAIN];
static const sosmc_logistic wisconsin = {
    .rows = TRAIN, .dim = P, .features = features, .labels = labels, .variance = 5};
/* For negative controls: a narrower prior, and a quarter of the rows. */
static const sosmc_logistic narrow = {.rows = TRAIN, .dim = P, .features = features, .labels = labels, .variance = 3};
static const sosmc_logistic quarter = {
    .rows = TRAIN / 4, .dim = P, .features = features, .labels = labels, .variance = 5};

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
    const char *path = reference_find("mmle/wisconsin_split.csv");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 1;
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

/* p-value of the log-likelihood at theta*, by importance sampling with this model. */
static double evidence_p(const sosmc_logistic *data)
{
    approximation a;
    sosmc_evidence e;
    sosmc_model model = sosmc_logistic_model(data);
    int draws = stats_by_tier(200000, 2000000, 200000);
    assert_int_equal(sosmc_importance(&model, &best, laplace_at(best, &a), draws, stats_seed(1), &e), SOSMC_OK);
    print_message("log p = %.5f +- %.5f, ESS %.0f of %d\n", e.logz, e.error, e.ess, draws);
    assert_true(e.ess > 0.2 * draws);
    return erfc(fabs(e.logz - loglik) / hypot(e.error, loglik_error) / sqrt(2));
}

static void evidence_at_the_optimum(void **state)
{
    if (missing_data()) skip();
    stats_ledger ledger = stats_open(PLANNED);
    stats_note(&ledger, evidence_p(&wisconsin), "log-likelihood at theta*");
    comparisons += stats_close(&ledger);
    stats_must_notice_p(&ledger, evidence_p(&narrow), "a narrower prior, log-likelihood at theta*");
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
        sosmc_settings cfg = settings_of(particles(1000), kernel_of(k, 0.015, 0.06), 0.2, 40);
        stats_run(&p, &cfg, 120, replicates(), read_fit, NULL, L_COUNT, tally);
        compare_rough(&ledger, &tally[L_THETA], best, best_error, "theta");
        compare_rough(&ledger, &tally[L_LOGZ], loglik, loglik_error, "log-likelihood");
        compare_rough(&ledger, &tally[L_INFORMATION], information, 5e-5, "information");
        print_message("%s: theta %.5f +- %.5f, log p %.4f +- %.4f, information %.4f +- %.4f\n", cfg.kernel.name,
                      tally[L_THETA].mean, stats_se(&tally[L_THETA]), tally[L_LOGZ].mean, stats_se(&tally[L_LOGZ]),
                      tally[L_INFORMATION].mean, stats_se(&tally[L_INFORMATION]));
    }
    comparisons += stats_close(&ledger);
}

static void missing_rows_are_noticed(void **state)
{
    const double theta0 = 0;
    approximation a;
    stats_tally tally[L_COUNT];
    if (missing_data()) skip();
    sosmc_problem p = {.model = sosmc_logistic_model(&quarter),
                       .objective = sosmc_mmle(),
                       .init = laplace_at(theta0, &a),
                       .theta0 = &theta0};
    stats_ledger ledger = stats_open(PLANNED);
    sosmc_settings cfg = settings_of(control_particles(250), sosmc_ula(0.015), 0.2, 40);
    stats_run(&p, &cfg, 120, control_replicates(), read_fit, NULL, L_COUNT, tally);
    stats_must_notice(&ledger, &tally[L_THETA], best, "regression, a quarter of the rows, theta");
    stats_must_notice(&ledger, &tally[L_LOGZ], loglik, "regression, a quarter of the rows, log-likelihood");
    stats_must_notice(&ledger, &tally[L_INFORMATION], information, "regression, a quarter of the rows, information");
}

static void read_posterior(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    sosmc_model model = sosmc_logistic_model(&wisconsin);
    cloud_summary c;
    summarise(s, &model, theta, &c);
    for (int j = 0; j < P; j++) estimate[j] = c.mean[j], estimate[P + j] = c.sd[j];
}

/* theta stays at theta*; the cloud starts from a neighbour's approximation, weighted, and moves. */
static void tally_posterior(const sosmc_logistic *data, int kernel, int cloud, int runs, stats_tally tally[2 * P])
{
    approximation a;
    sosmc_problem p = {
        .model = sosmc_logistic_model(data), .objective = sosmc_mmle(), .init = laplace_at(0.5, &a), .theta0 = &best};
    sosmc_settings cfg = settings_of(cloud, kernel_of(kernel, 0.015, 0.06), 0, 0);
    stats_run(&p, &cfg, 60, runs, read_posterior, NULL, 2 * P, tally);
}

/* The component that tells most of a mistake. */
static int farthest(const stats_tally *tally, const double *expected)
{
    int found = 0;
    for (int j = 1; j < P; j++)
        if (fabs(stats_z(&tally[j], expected[j])) > fabs(stats_z(&tally[found], expected[found]))) found = j;
    return found;
}

static void regression_has_its_posterior(void **state)
{
    stats_tally tally[2 * P];
    if (missing_data()) skip();
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 2; k++) {
        tally_posterior(&wisconsin, k, particles(2000), replicates(), tally);
        for (int j = 0; j < P; j++) {
            compare_rough(&ledger, &tally[j], means[j], 5e-5, "posterior mean");
            compare_rough(&ledger, &tally[P + j], sds[j], 5e-5, "posterior sd");
        }
    }
    comparisons += stats_close(&ledger);
    tally_posterior(&quarter, 0, control_particles(500), control_replicates(), tally);
    int of_mean = farthest(tally, means), of_sd = farthest(tally + P, sds);
    stats_must_notice(&ledger, &tally[of_mean], means[of_mean], "regression, a quarter of the rows, posterior mean");
    stats_must_notice(&ledger, &tally[P + of_sd], sds[of_sd], "regression, a quarter of the rows, posterior sd");
}

static void as_many_comparisons_as_announced(void **state)
{
    assert_int_equal(comparisons, missing_data() ? WITHOUT_DATA : PLANNED);
}

int main(void)
{
    sosmc_batch b = {.dim = D, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 11, .stream = SOSMC_STREAM_USER}, &b, y);
    for (int j = 0; j < D; j++) y[j] = 1 + 1.4 * y[j];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hierarchy_reaches_its_closed_form), cmocka_unit_test(wrong_hierarchies_are_noticed),
        cmocka_unit_test(evidence_at_the_optimum),           cmocka_unit_test(regression_reaches_its_optimum),
        cmocka_unit_test(missing_rows_are_noticed),          cmocka_unit_test(regression_has_its_posterior),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
