/* test_coverage.c: do reported intervals hold the truth as often as they say?
 *
 * Every error the library gives or the program prints is a standard error of something whose truth is known here:
 *
 *     log-likelihood     sosmc_importance (`log_likelihood`, `log_likelihood_error` of a run's summary): exact log Z
 *     fresh reward       sosmc_fresh_reward (`fresh`, `fresh_error` of an evaluation, bars and tables): exact mean
 *     theta              1 / sqrt(observed information) by sosmc_louis (`theta_standard_error`): theta of the simulated data
 *     posterior          weighted mean and standard deviation of the cloud (`sosmc deblur`'s for every pixel): the x* of the data
 *
 * 400 runs (more in the nightly tier), each with data and seed of its own; mean +- 1.96 and +- 1 standard errors should hold
 * the truth in 95 % and 68.27 % of them. The number that do is binomial, and its p-value exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>

#include "exact_laws.h"
#include "stats.h"
#include "toys.h"

enum { LEVELS = 2, PLANNED = 14 * LEVELS };
static const double width[LEVELS] = {1.959963984540054, 1}, nominal[LEVELS] = {0.95, 0.6826894921370859};
static int comparisons;

static int runs(void) { return stats_by_tier(400, 4000, 200); }

typedef struct {
    int64_t runs, held[LEVELS];
} coverage;

static void enter(coverage *c, double estimate, double error, double truth)
{
    c->runs++;
    for (int l = 0; l < LEVELS; l++) c->held[l] += fabs(estimate - truth) <= width[l] * error;
}

static void judge(stats_ledger *ledger, const coverage *c, const char *what)
{
    print_message("    %s: holds %.2f%% of 95%%, %.2f%% of 68.27%%\n", what, 100 * (double)c->held[0] / (double)c->runs,
                  100 * (double)c->held[1] / (double)c->runs);
    for (int l = 0; l < LEVELS; l++)
        stats_note(ledger, stats_binomial_p(c->runs, c->held[l], nominal[l]), "%s: %.2f%% of %.2f%%", what,
                   100 * (double)c->held[l] / (double)c->runs, 100 * nominal[l]);
}

static void must_notice(const stats_ledger *ledger, const coverage *c, const char *what)
{
    char text[160];
    (void)snprintf(text, sizeof text, "%s (%.1f%% of 95%%)", what, 100 * (double)c->held[0] / (double)c->runs);
    stats_must_notice_p(ledger, stats_binomial_p(c->runs, c->held[0], nominal[0]), text);
}

/* ---------------------------------------------------------------------------- log-likelihood */

enum { DIM = 4 };
static const double THETA = 0.5;

static void hierarchical_data(uint64_t seed, double noise, double *truth, double *y)
{
    double z[2 * DIM];
    laws_normals(seed, 1, 2 * DIM, z);
    for (int j = 0; j < DIM; j++) {
        truth[j] = THETA + z[j];
        y[j] = truth[j] + noise * z[DIM + j];
    }
}

/* A law for importance sampling, with a mistake: a density that is another law's, or every draw used twice. */
typedef struct {
    sosmc_source right, other;
    int twice;
} spoilt;

static int spoilt_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const spoilt *s = self;
    int rc = s->right.draw(s->right.self, rng, b, x);
    for (int j = 0; j < b->dim && s->twice; j++)
        for (int i = 0; i + 1 < b->n; i += 2) x[j * b->ld + i + 1] = x[j * b->ld + i];
    return rc;
}

static int spoilt_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const spoilt *s = self;
    return s->other.logpdf(s->other.self, b, lq);
}

/* What the program does: a Gaussian around the mode, widened, with a little of the prior. */
static void evidence_of_hierarchy(uint64_t seed, int stale, int twice, coverage *c)
{
    double truth[DIM], y[DIM], mean[DIM], aside[DIM], factor[DIM * DIM] = {0};
    hierarchical_data(seed, 1, truth, y);
    for (int j = 0; j < DIM; j++) {
        mean[j] = 0.5 * (y[j] + THETA);
        aside[j] = mean[j] + (j == 0 ? 0.15 : 0);
        factor[j * DIM + j] = sqrt(2);
    }
    sosmc_gaussian law = {
        .dim = DIM, .mean = mean, .factor = factor, .widen = 1.2, .share = 0.02, .centre = THETA, .variance = 1};
    sosmc_gaussian other = law;
    other.mean = stale ? aside : mean;
    const spoilt s = {.right = sosmc_gaussian_source(&law), .other = sosmc_gaussian_source(&other), .twice = twice};
    const sosmc_source broken = {.self = &s, .draw = spoilt_draw, .logpdf = spoilt_logpdf};
    const sosmc_hierarchical data = {.dim = DIM, .y = y};
    sosmc_model model = sosmc_hierarchical_model(&data);
    sosmc_evidence e;
    assert_int_equal(sosmc_importance(&model, &THETA, stale || twice ? broken : s.right, 1000, seed, &e), SOSMC_OK);
    enter(c, e.logz, e.error, sosmc_hierarchical_loglik(&data, THETA));
}

/* log of the integral of N(x; theta, variance) times the likelihood of the labels, one coefficient: trapezoid. */
static double logistic_loglik(const sosmc_logistic *data, double theta)
{
    enum { HALF = 1500 };
    const double sd = sqrt(data->variance), step = 9 * sd / HALF;
    double sum = 0;
    for (int k = -HALF; k <= HALF; k++) {
        double x = theta + k * step, r = (x - theta) / sd, log_p = -0.5 * r * r;
        for (int i = 0; i < data->rows; i++) {
            double eta = data->features[i] * x;
            log_p -= data->labels[i] > 0.5 ? log1p(exp(-eta)) : log1p(exp(eta));
        }
        sum += exp(log_p) * step;
    }
    return log(sum / (sd * sqrt(2 * 3.14159265358979323846)));
}

static void evidence_of_logistic(uint64_t seed, coverage *c)
{
    enum { ROWS = 20 };
    double z[1 + ROWS], uniform[ROWS], labels[ROWS], mode, factor;
    laws_normals(seed, 1, 1 + ROWS, z);
    laws_uniforms(seed, 0, ROWS, uniform);
    for (int r = 0; r < ROWS; r++) labels[r] = uniform[r] * (1 + exp(-z[1 + r] * (THETA + 1.5 * z[0]))) < 1;
    const sosmc_logistic data = {.rows = ROWS, .dim = 1, .features = z + 1, .labels = labels, .variance = 2.25};
    assert_int_equal(sosmc_logistic_laplace(&data, THETA, &mode, &factor), SOSMC_OK);
    const sosmc_gaussian law = {
        .dim = 1, .mean = &mode, .factor = &factor, .widen = 1.2, .share = 0.02, .centre = THETA, .variance = 2.25};
    sosmc_model model = sosmc_logistic_model(&data);
    sosmc_evidence e;
    assert_int_equal(sosmc_importance(&model, &THETA, sosmc_gaussian_source(&law), 1000, seed, &e), SOSMC_OK);
    enter(c, e.logz, e.error, logistic_loglik(&data, THETA));
}

static void log_likelihoods(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    coverage hierarchy = {0}, logistic = {0}, stale = {0}, twice = {0};
    for (int r = 0; r < runs(); r++) {
        uint64_t seed = stats_seed(1000000 + (uint64_t)r);
        evidence_of_hierarchy(seed, 0, 0, &hierarchy);
        evidence_of_logistic(seed, &logistic);
        evidence_of_hierarchy(seed, 1, 0, &stale);
        evidence_of_hierarchy(seed, 0, 1, &twice);
    }
    judge(&ledger, &hierarchy, "log-likelihood, hierarchy");
    judge(&ledger, &logistic, "log-likelihood, logistic");
    comparisons += stats_close(&ledger);
    must_notice(&ledger, &stale, "log-likelihood with the density of another law");
    must_notice(&ledger, &twice, "log-likelihood with every draw used twice");
}

/* ---------------------------------------------------------------------------- fresh chains */

static const toy_gauss TARGET = {.dim = 1, .variance = 0.7};

/* Chains that begin where they should. The reward is x, whose mean is right even under Langevin steps without correction, or
 * the square of x - theta. `independent`: the error of as many independent draws as there were steps, a mistake. */
typedef struct {
    const sosmc_kernel *kernel;
    int square, independent;
} chains_kind;

static void fresh(chains_kind kind, uint64_t seed, coverage *c)
{
    enum { FEW = 60, MANY = 200, MOST = 800, AVERAGED = 12 };
    const toy_reward coordinate = {.slope = 1}, square = {.curvature = -2, .centre = THETA};
    double start[MOST], mean, error;
    int chains = kind.square ? MOST : stats_by_tier(FEW, MANY, FEW);
    laws_normals(seed, chains, 1, start);
    for (int i = 0; i < chains; i++) start[i] = THETA + sqrt(TARGET.variance) * start[i];
    const sosmc_fresh f = {.chains = chains,
                           .burn_in = 2,
                           .averaged = AVERAGED,
                           .step = 0.1,
                           .seed = seed,
                           .kernel = kind.kernel,
                           .start = start};
    sosmc_model model = toy_gauss_model(&TARGET);
    sosmc_score score = toy_reward_score(kind.square ? &square : &coordinate);
    assert_int_equal(sosmc_fresh_reward(&model, &THETA, &score, &f, NULL, NULL, &mean, &error), SOSMC_OK);
    if (kind.independent) error = sqrt(TARGET.variance / (chains * AVERAGED));
    enter(c, mean, error, kind.square ? TARGET.variance : THETA);
}

static coverage fresh_many(chains_kind kind, uint64_t seed)
{
    coverage c = {0};
    for (int r = 0; r < runs(); r++) fresh(kind, stats_seed(seed + (uint64_t)r), &c);
    return c;
}

static void fresh_rewards(void **state)
{
    enum { KERNELS = 4 };
    const sosmc_kernel kernel[KERNELS] = {{0}, sosmc_mala(0.3), sosmc_rwm(0.4), sosmc_hmc(0.5, 3, 1)};
    sosmc_kernel momentum = sosmc_underdamped(0.1, 0.1, 1);
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < KERNELS; k++) {
        char what[64];
        coverage c = fresh_many((chains_kind){.kernel = k ? &kernel[k] : NULL}, 2000000u + 100000u * (uint64_t)k);
        (void)snprintf(what, sizeof what, "fresh reward, %s", k ? kernel[k].name : "ula");
        judge(&ledger, &c, what);
    }
    coverage square = fresh_many((chains_kind){.kernel = &momentum, .square = 1}, 2700000);
    judge(&ledger, &square, "fresh reward, underdamped, square");
    comparisons += stats_close(&ledger);
    coverage naive = fresh_many((chains_kind){.independent = 1}, 2900000);
    must_notice(&ledger, &naive, "fresh reward, steps of a chain taken for independent");
    momentum.begin = NULL;
    coverage at_rest = fresh_many((chains_kind){.kernel = &momentum, .square = 1}, 2800000);
    must_notice(&ledger, &at_rest, "fresh reward, underdamped that begins at rest");
}

/* ---------------------------------------------------------------------------- theta, and x given the data */

static sosmc *fit(const sosmc_problem *p, sosmc_kernel kernel, double rate, int iterations, uint64_t seed)
{
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = sosmc_scheme_sosmc(stats_by_tier(300, 800, 300));
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(rate);
    cfg.seed = seed;
    sosmc_status status = sosmc_create(&s, p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, iterations, NULL, NULL);
    if (status != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return s;
}

static void cloud_of(const sosmc *s, int dim, double **x, double **logw)
{
    size_t n = (size_t)sosmc_particles(s);
    *x = malloc(n * (size_t)dim * sizeof **x);
    *logw = malloc(n * sizeof **logw);
    assert_true(*x && *logw);
    assert_int_equal(sosmc_cloud(s, *x, *logw), SOSMC_OK);
}

/* The maximum of the likelihood of 16 numbers y ~ N(theta, 2). `complete`: the information as if x were seen, a mistake. */
static void estimate(sosmc_kernel kernel, int complete, uint64_t seed, coverage *c)
{
    enum { COUNT = 16 };
    double z[2 * COUNT], y[COUNT], *x, *logw, information, start = THETA + 0.5;
    laws_normals(seed, 1, 2 * COUNT, z);
    for (int j = 0; j < COUNT; j++) y[j] = THETA + z[j] + z[COUNT + j];
    const sosmc_hierarchical data = {.dim = COUNT, .y = y};
    const sosmc_hierarchical_law law = {.data = &data, .theta = start};
    const sosmc_problem p = {.model = sosmc_hierarchical_model(&data),
                             .objective = sosmc_mmle(),
                             .init = sosmc_hierarchical_source(&law),
                             .theta0 = &start};
    sosmc *s = fit(&p, kernel, 0.5 / COUNT, 25, seed);
    cloud_of(s, COUNT, &x, &logw);
    assert_int_equal(sosmc_louis(&p.model, sosmc_theta(s), sosmc_particles(s), x, logw, &information), SOSMC_OK);
    enter(c, sosmc_theta(s)[0], 1 / sqrt(complete ? COUNT : information), THETA);
    free(x);
    free(logw);
    sosmc_free(s);
}

static void estimates_of_theta(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const sosmc_kernel kernel[3] = {sosmc_ula(0.1), sosmc_mala(0.2), sosmc_underdamped(0.3, 1, 1)};
    coverage complete = {0};
    for (int k = 0; k < 3; k++) {
        coverage c = {0};
        char what[64];
        for (int r = 0; r < runs(); r++)
            estimate(kernel[k], 0, stats_seed(3000000u + 100000u * (uint64_t)k + (uint64_t)r), &c);
        (void)snprintf(what, sizeof what, "theta, %s", kernel[k].name);
        judge(&ledger, &c, what);
    }
    comparisons += stats_close(&ledger);
    for (int r = 0; r < runs(); r++) estimate(kernel[0], 1, stats_seed(3900000u + (uint64_t)r), &complete);
    must_notice(&ledger, &complete, "theta with the information of complete data");
}

/* Mean and standard deviation of the first coordinate, from a cloud that began at the prior. */
static void posterior(sosmc_kernel kernel, double noise, uint64_t seed, coverage *c)
{
    double truth[DIM], y[DIM], prior_mean[DIM], *x, *logw, mean = 0, square = 0;
    hierarchical_data(seed, noise, truth, y);
    for (int j = 0; j < DIM; j++) prior_mean[j] = THETA;
    const sosmc_hierarchical data = {.dim = DIM, .y = y};
    const toy_normal prior = {.mean = prior_mean, .sd = 1};
    const sosmc_problem p = {.model = sosmc_hierarchical_model(&data),
                             .objective = sosmc_sampling((sosmc_score){0}),
                             .init = toy_normal_source(&prior),
                             .theta0 = &THETA};
    sosmc *s = fit(&p, kernel, 1, 8, seed);
    cloud_of(s, DIM, &x, &logw);
    for (int i = 0; i < sosmc_particles(s); i++) mean += exp(logw[i]) * x[i * DIM];
    for (int i = 0; i < sosmc_particles(s); i++) square += exp(logw[i]) * (x[i * DIM] - mean) * (x[i * DIM] - mean);
    enter(c, mean, sqrt(square), truth[0]);
    free(x);
    free(logw);
    sosmc_free(s);
}

static void posterior_intervals(void **state)
{
    enum { KERNELS = 4 };
    stats_ledger ledger = stats_open(PLANNED);
    const sosmc_kernel kernel[KERNELS] = {sosmc_ula(0.15), sosmc_mala(0.3), sosmc_underdamped(0.4, 1, 1),
                                          sosmc_leapfrog(0.4, 3, 1)};
    coverage noisy = {0};
    for (int k = 0; k < KERNELS; k++) {
        coverage c = {0};
        char what[64];
        for (int r = 0; r < runs(); r++)
            posterior(kernel[k], 1, stats_seed(4000000u + 100000u * (uint64_t)k + (uint64_t)r), &c);
        (void)snprintf(what, sizeof what, "posterior, %s", kernel[k].name);
        judge(&ledger, &c, what);
    }
    comparisons += stats_close(&ledger);
    for (int r = 0; r < runs(); r++) posterior(kernel[0], 2, stats_seed(4900000u + (uint64_t)r), &noisy);
    must_notice(&ledger, &noisy, "posterior of data with more noise than the model knows");
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_likelihoods),
        cmocka_unit_test(fresh_rewards),
        cmocka_unit_test(estimates_of_theta),
        cmocka_unit_test(posterior_intervals),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
