/* test_score.c: score centrality. Where the data come from the model at theta, the gradient there has mean zero over data sets:
 *
 *     E_y[ grad -log p_theta(y) ] = E_y E[ dU/dtheta | y ] = 0,        E_y[ mean_m dU(y_m) ] - E_pi[ dU ] = 0,
 *
 * for maximum marginal likelihood and for the likelihood of an energy. Nothing but the simulator has to be known, and the
 * gradient is the engine's own, caught on its way to the optimiser after some weighted moves at theta. It needs every constant
 * of U that depends on theta, right weights and right objectives. Self-normalised weights leave a bias of order 1/N, which the
 * standard errors hide: clouds begin at the posterior or near it. */
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

enum { DIM = 4, ROWS = 14, BATCH = 6, ITERATIONS = 4, MOST_THETA = 3 };

typedef enum { HIERARCHY, SPREAD, LOGISTIC, SCALED, MIXTURE, MODELS } model_kind;
static const char *const model_name[MODELS] = {"hierarchy", "spread", "logistic", "likelihood, scaled",
                                               "likelihood, mixture"};
static const int dim_theta[MODELS] = {1, 1, 1, 2, 3};
static const double theta_of[MODELS][MOST_THETA] = {{0.5}, {0.3}, {0.5}, {0.4, 0.3}, {0.2, -0.4, 0.3}};

typedef struct {
    model_kind model;
    sosmc_kernel kernel;
    /* negative controls */
    double shift;     /* data come from theta + shift (its first component) */
    int one_data_set; /* the same data in all replicates */
    int unweighted;   /* a scheme without weights */
    double sign;      /* of the data term, where not 0 */
    int (*grad)(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
} subject;

static int particles(void) { return stats_by_tier(200, 800, 200); }

/* The gradient of the last of some iterations at a theta that stays. */
static void gradient(const subject *t, sosmc_problem p, uint64_t seed, double *seen)
{
    const toy_path stay = {.rows = 1, .theta = theta_of[t->model], .seen = seen};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = t->unweighted ? sosmc_scheme_unweighted(particles()) : sosmc_scheme_sosmc(particles());
    cfg.kernel = t->kernel;
    cfg.optimiser = toy_follow(&stay);
    cfg.seed = seed;
    p.theta0 = theta_of[t->model];
    if (t->grad) p.model.grad_theta = t->grad;
    if (t->sign != 0) p.objective.b = t->sign;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, ITERATIONS, NULL, NULL);
    if (status != SOSMC_OK) fail_msg("%s: %s", model_name[t->model], sosmc_message(s));
    sosmc_free(s);
}

/* ---------------------------------------------------------------------------- data, and the gradient they give */

static void hierarchy(const subject *t, uint64_t data_seed, uint64_t seed, double *seen)
{
    double z[2 * DIM], y[DIM], theta = theta_of[HIERARCHY][0];
    laws_normals(data_seed, 1, 2 * DIM, z);
    for (int j = 0; j < DIM; j++) y[j] = theta + t->shift + z[j] + z[DIM + j];
    const sosmc_hierarchical data = {.dim = DIM, .y = y};
    const sosmc_hierarchical_law law = {.data = &data, .theta = theta};
    const sosmc_problem p = {
        .model = sosmc_hierarchical_model(&data), .objective = sosmc_mmle(), .init = sosmc_hierarchical_source(&law)};
    gradient(t, p, seed, seen);
}

/* x_d ~ N(0, e^theta), y_d ~ N(x_d, 1): the posterior is N(y / P, 1 / P), P = 1 + e^-theta. */
static void spread(const subject *t, uint64_t data_seed, uint64_t seed, double *seen)
{
    double z[2 * DIM], y[DIM], mean[DIM], theta = theta_of[SPREAD][0], precision = 1 + exp(-theta);
    laws_normals(data_seed, 1, 2 * DIM, z);
    for (int j = 0; j < DIM; j++) y[j] = exp(0.5 * (theta + t->shift)) * z[j] + z[DIM + j];
    for (int j = 0; j < DIM; j++) mean[j] = y[j] / precision;
    const toy_data data = {.dim = DIM, .y = y};
    const toy_normal law = {.mean = mean, .sd = 1 / sqrt(precision)};
    const sosmc_problem p = {
        .model = toy_spread_model(&data), .objective = sosmc_mmle(), .init = toy_normal_source(&law)};
    gradient(t, p, seed, seen);
}

static void logistic(const subject *t, uint64_t data_seed, uint64_t seed, double *seen)
{
    enum { P = 3 };
    double z[P + ROWS * P], uniform[ROWS], labels[ROWS], mode[P], factor[P * P] = {0}, theta = theta_of[LOGISTIC][0];
    const double *features = z + P;
    laws_normals(data_seed, 1, P + ROWS * P, z);
    laws_uniforms(data_seed, 0, ROWS, uniform);
    for (int r = 0; r < ROWS; r++) {
        double dot = 0;
        for (int j = 0; j < P; j++) dot += features[r * P + j] * (theta + t->shift + sqrt(2) * z[j]);
        labels[r] = uniform[r] * (1 + exp(-dot)) < 1;
    }
    const sosmc_logistic data = {.rows = ROWS, .dim = P, .features = features, .labels = labels, .variance = 2};
    assert_int_equal(sosmc_logistic_laplace(&data, theta, mode, factor), SOSMC_OK);
    const sosmc_gaussian law = {
        .dim = P, .mean = mode, .factor = factor, .widen = 1.2, .share = 0.02, .centre = theta, .variance = 2};
    const sosmc_problem p = {
        .model = sosmc_logistic_model(&data), .objective = sosmc_mmle(), .init = sosmc_gaussian_source(&law)};
    gradient(t, p, seed, seen);
}

/* U = e^theta_1 (x - theta_0)^2 / 2; data and particles are drawn from it exactly. */
static void scaled(const subject *t, uint64_t seed, double *seen)
{
    const double *theta = theta_of[SCALED], away = theta[0] + t->shift;
    const toy_normal law = {.mean = theta, .sd = exp(-0.5 * theta[1])}, data = {.mean = &away, .sd = law.sd};
    const sosmc_problem p = {.model = toy_scaled_model(),
                             .objective = sosmc_likelihood(toy_normal_source(&data), BATCH),
                             .init = toy_normal_exact(&law)};
    gradient(t, p, seed, seen);
}

static void mixture(const subject *t, uint64_t seed, double *seen)
{
    static const double means[6] = {-2, 0, 1.5, 1, 0.5, -2};
    static const sosmc_mixture components = {.dim = 2, .components = 3, .means = means, .variance = 0.8};
    const double away[MOST_THETA] = {theta_of[MIXTURE][0] + t->shift, theta_of[MIXTURE][1], theta_of[MIXTURE][2]};
    const sosmc_mixture_law law = {.mixture = &components, .theta = theta_of[MIXTURE]},
                            data = {.mixture = &components, .theta = away};
    const sosmc_problem p = {.model = sosmc_mixture_model(&components),
                             .objective = sosmc_likelihood(sosmc_mixture_source(&data), BATCH),
                             .init = sosmc_mixture_source(&law)};
    gradient(t, p, seed, seen);
}

static void scores(const subject *t, uint64_t seed, stats_tally tally[MOST_THETA])
{
    memset(tally, 0, MOST_THETA * sizeof *tally);
    for (int r = 0; r < stats_by_tier(3000, 20000, 1000); r++) {
        double seen[MOST_THETA] = {0};
        uint64_t name = stats_seed(seed + (uint64_t)r), data = t->one_data_set ? stats_seed(seed) : name;
        switch (t->model) {
        case HIERARCHY: hierarchy(t, data, name, seen); break;
        case SPREAD: spread(t, data, name, seen); break;
        case LOGISTIC: logistic(t, data, name, seen); break;
        case SCALED: scaled(t, name, seen); break;
        default: mixture(t, name, seen); break;
        }
        for (int k = 0; k < dim_theta[t->model]; k++) stats_add(&tally[k], seen[k]);
    }
}

/* ---------------------------------------------------------------------------- the mean is zero */

enum { KERNELS = 5, PLANNED = KERNELS * (1 + 1 + 1 + 2 + 3) };
static int comparisons;

static sosmc_kernel kernel_of(int k)
{
    switch (k) {
    case 0: return sosmc_ula(0.12);
    case 1: return sosmc_mala(0.3);
    case 2: return sosmc_underdamped(0.4, 1, 1);
    case 3: return sosmc_leapfrog(0.3, 3, 1);
    default: return sosmc_rwm(0.3);
    }
}

static void gradients_have_mean_zero(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int m = 0; m < MODELS; m++)
        for (int k = 0; k < KERNELS; k++) {
            const subject t = {.model = (model_kind)m, .kernel = kernel_of(k)};
            stats_tally tally[MOST_THETA];
            scores(&t, 1000000u * (uint64_t)(KERNELS * m + k + 1), tally);
            for (int j = 0; j < dim_theta[m]; j++)
                stats_compare(&ledger, &tally[j], 0, "%s, %s, component %d", model_name[m], t.kernel.name, j);
        }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- negative controls */

/* dU/dtheta of the spread model without the derivative of its normalising constant. */
static int without_constant(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
            g[0] -= c[i] * 0.5 * exp(-theta[0]) * x * x;
        }
    return 0;
}

/* dU/dtheta of the scaled model, of the data at the theta of some time ago. */
static int stale(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    sosmc_model right = toy_scaled_model();
    const double before[2] = {theta[0] - 0.3, theta[1]};
    /* the data batch is the small one */
    return right.grad_theta(NULL, b->n == BATCH ? before : theta, b, c, g);
}

static void must_notice(const stats_ledger *ledger, subject t, int component, const char *what)
{
    stats_tally tally[MOST_THETA];
    scores(&t, 90000000, tally);
    stats_must_notice(ledger, &tally[component], 0, what);
}

static void wrong_scores_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const sosmc_kernel ula = kernel_of(0);
    must_notice(&ledger, (subject){.model = HIERARCHY, .kernel = ula, .shift = 0.3}, 0, "hierarchy, another prior");
    must_notice(&ledger, (subject){.model = LOGISTIC, .kernel = ula, .shift = 0.5}, 0, "logistic, another prior");
    must_notice(&ledger, (subject){.model = HIERARCHY, .kernel = ula, .one_data_set = 1}, 0,
                "hierarchy, the same data every time");
    must_notice(&ledger, (subject){.model = SPREAD, .kernel = ula, .grad = without_constant}, 0,
                "spread, gradient without its constant");
    must_notice(&ledger, (subject){.model = SCALED, .kernel = ula, .grad = stale}, 0,
                "scaled, data term at an older theta");
    must_notice(&ledger, (subject){.model = SCALED, .kernel = sosmc_ula(0.6), .unweighted = 1}, 1,
                "scaled, a cloud without weights");
    must_notice(&ledger, (subject){.model = SCALED, .kernel = ula, .sign = -1}, 1,
                "scaled, data term of the wrong sign");
    must_notice(&ledger, (subject){.model = MIXTURE, .kernel = ula, .shift = 1}, 0, "mixture, data of another theta");
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_have_mean_zero),
        cmocka_unit_test(wrong_scores_are_noticed),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
