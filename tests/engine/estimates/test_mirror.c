/* test_mirror.c: mirror descent on theta. Steps against the recursion in long double; weights of a mixture against the minimum of
 * each loss by quadrature; a variance against its closed form; and what leaves the domain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <sosmc/models.h>
#include <string.h>

#include "toys.h"

/* ---------------------------------------------------------------------------- steps */

static void the_recursions(void **state)
{
    for (int map = SOSMC_MIRROR_ENTROPY; map <= SOSMC_MIRROR_LOG; map++) {
        double theta[3] = {0.2, 0.5, 0.3}, g[3];
        long double expected[3] = {0.2, 0.5, 0.3};
        sosmc_optimiser o = sosmc_mirror(0.05, (sosmc_mirror_map)map);
        assert_int_equal(o.slots, 0);
        for (int k = 0; k < 50; k++) {
            long double sum = 0;
            for (int j = 0; j < 3; j++) g[j] = 3 * sin(0.7 * k + j) + 0.2;
            for (int j = 0; j < 3; j++) sum += expected[j] *= expl(-(long double)0.05 * g[j]);
            for (int j = 0; map == SOSMC_MIRROR_ENTROPY && j < 3; j++) expected[j] /= sum;
            o.step(&o, k, 3, g, theta, NULL);
            for (int j = 0; j < 3; j++)
                assert_true(fabsl(theta[j] - expected[j]) <= (8 * (k + 1)) * DBL_EPSILON * expected[j]);
        }
    }
}

/* A probability of 0 is never reached, and can be left again. */
static void a_vertex_can_be_left(void **state)
{
    const double away[2] = {0, 1e5}, back[2] = {1e3, 0};
    double theta[2] = {0.5, 0.5};
    sosmc_optimiser o = sosmc_mirror(1, SOSMC_MIRROR_ENTROPY);
    o.step(&o, 0, 2, away, theta, NULL);
    assert_true(theta[0] == 1 && theta[1] > 0 && theta[1] < 1e-300);
    o.step(&o, 1, 2, back, theta, NULL);
    assert_true(theta[1] == 1 && theta[0] > 0);
}

/* ---------------------------------------------------------------------------- weights of a mixture */

enum { FORWARD, REVERSE, LIKELIHOOD, KINDS, ROWS = 200, PARTICLES = 2000, UPDATES = 600, SEEDS = 4 };
static const double means[2] = {-1.5, 1.5}, start[2] = {0.4, 0.6};
static const sosmc_mixture mixture = {.dim = 1, .components = 2, .means = means, .variance = 0.5, .probabilities = 1};
static double rows[ROWS];

static void fill_rows(void)
{
    for (int i = 0; i < ROWS; i++) rows[i] = means[i % 4 == 0] + 1.5 * ((i * 37 % ROWS + 0.5) / ROWS - 0.5);
}

static double log_density(double w, double x)
{
    double left = exp(-(x + 1.5) * (x + 1.5)), right = exp(-(x - 1.5) * (x - 1.5));
    return log((1 - w) * left + w * right) - 0.5 * log(acos(-1));
}

/* The loss at the weights (1 - w, w), with the reward x / 2 and beta 1. */
static double exact_loss(int kind, double w)
{
    double loss = 0;
    for (int i = 0; kind == LIKELIHOOD && i < ROWS; i++) loss -= log_density(w, rows[i]) / ROWS;
    for (double x = -8; kind != LIKELIHOOD && x <= 8; x += 0.02) {
        double lp = log_density(w, x), lq = log_density(start[1], x);
        loss += 0.02 * (kind == FORWARD ? exp(lq) * (lq - lp) : exp(lp) * (lp - lq)) - 0.02 * exp(lp) * x / 2;
    }
    return loss;
}

static double best_weight(int kind)
{
    double low = 1e-6, high = 1 - 1e-6;
    while (high - low > 1e-7) {
        double a = low + (high - low) / 3, b = high - (high - low) / 3;
        if (exact_loss(kind, a) < exact_loss(kind, b))
            high = b;
        else
            low = a;
    }
    return (low + high) / 2;
}

static double run(const sosmc_problem *problem, sosmc_settings *cfg, double *theta, int dim)
{
    sosmc *s;
    cfg->average = 1;
    cfg->average_from = UPDATES / 2;
    if (sosmc_create(&s, problem, cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    for (int k = 0; k < UPDATES; k++) {
        double sum = 0;
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
        for (int j = 0; j < dim; j++) sum += sosmc_theta(s)[j];
        if (dim > 1) assert_true(fabs(sum - 1) < 1e-14);
    }
    memcpy(theta, sosmc_theta_average(s), (size_t)dim * sizeof(double));
    sosmc_free(s);
    return theta[dim - 1];
}

static double standard_error(const double *value, double *mean)
{
    double square = 0;
    *mean = 0;
    for (int r = 0; r < SEEDS; r++) *mean += value[r] / SEEDS;
    for (int r = 0; r < SEEDS; r++) square += (value[r] - *mean) * (value[r] - *mean);
    return sqrt(square / (SEEDS - 1) / SEEDS);
}

static void weights_of_a_mixture(void **state)
{
    const toy_reward reward = {.slope = 0.5};
    const double logs[2] = {log(start[0]), log(start[1])};
    const sosmc_mixture_law law = {.mixture = &mixture, .theta = logs};
    sosmc_rows data = {.data = rows, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
    fill_rows();
    for (int kind = 0; kind < KINDS; kind++) {
        sosmc_problem p = {.model = sosmc_mixture_model(&mixture), .init = sosmc_mixture_source(&law), .theta0 = start};
        p.init.exact = 1;
        p.objective = kind == FORWARD
                          ? sosmc_reward_forward(toy_reward_score(&reward), 1, sosmc_mixture_source(&law), 500, start)
                      : kind == REVERSE ? sosmc_reward_reverse(toy_reward_score(&reward), 1, start)
                                        : sosmc_likelihood(sosmc_rows_source(&data), ROWS);
        double value[SEEDS], theta[2], mean, exact = best_weight(kind);
        for (int r = 0; r < SEEDS; r++) {
            sosmc_settings cfg = sosmc_defaults();
            cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
            cfg.kernel = sosmc_mala(0.3);
            cfg.optimiser = sosmc_mirror(0.1, SOSMC_MIRROR_ENTROPY);
            cfg.seed = (uint64_t)r;
            value[r] = run(&p, &cfg, theta, 2);
        }
        double error = standard_error(value, &mean);
        print_message("kind %d: weight %.4f +- %.4f, exact %.4f\n", kind, mean, error, exact);
        assert_true(error < 0.01 && fabs(exact - start[1]) > 0.05);
        assert_true(fabs(mean - exact) <= 6 * error + 0.002); /* 3 degrees of freedom; a bias of order 1 / particles */
    }
}

/* ---------------------------------------------------------------------------- a variance */

/* x_d ~ N(0, theta), y_d | x_d ~ N(x_d, 1): theta* is the mean of y^2 less 1. */
enum { LATENT = 8 };
static const double y[LATENT] = {3, -1, 2.5, -4, 0.5, 2, -2.2, 1};

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        U[i] = 0.5 * LATENT * log(theta[0]);
        for (int d = 0; d < LATENT; d++) {
            double x = b->x[d * b->ld + i], off = x - y[d];
            U[i] += 0.5 * (x * x / theta[0] + off * off);
            if (gx) gx[d * b->ld + i] = x / theta[0] + off;
        }
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) {
        double square = 0;
        for (int d = 0; d < LATENT; d++) square += b->x[d * b->ld + i] * b->x[d * b->ld + i];
        g[0] += c[i] * 0.5 * (LATENT / theta[0] - square / (theta[0] * theta[0]));
    }
    return 0;
}

static void a_variance(void **state)
{
    const sosmc_model model = {.dim_x = LATENT, .dim_theta = 1, .energy = energy, .grad_theta = grad_theta};
    const double one = 1;
    double zeros[LATENT] = {0}, value[SEEDS], theta, mean, exact = -1;
    const toy_normal wide = {zeros, 1};
    for (int d = 0; d < LATENT; d++) exact += y[d] * y[d] / LATENT;
    for (int r = 0; r < SEEDS; r++) {
        sosmc_problem p = {.model = model, .objective = sosmc_mmle(), .init = toy_normal_source(&wide), .theta0 = &one};
        sosmc_settings cfg = sosmc_defaults();
        cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
        cfg.kernel = sosmc_mala(0.3);
        cfg.optimiser = sosmc_mirror(0.05, SOSMC_MIRROR_LOG);
        cfg.seed = (uint64_t)r;
        value[r] = run(&p, &cfg, &theta, 1);
    }
    double error = standard_error(value, &mean);
    print_message("variance %.4f +- %.4f, exact %.4f\n", mean, error, exact);
    assert_true(error < 0.05 && fabs(mean - exact) <= 6 * error + 0.01);
}

/* ---------------------------------------------------------------------------- outside of the domain */

static void expect_message(const sosmc_settings *cfg, const sosmc_model *model, const double *theta0,
                           const char *expected)
{
    double zeros[LATENT] = {0};
    const toy_normal law = {zeros, 1};
    sosmc_problem p = {.model = *model, .objective = sosmc_mmle(), .init = toy_normal_source(&law), .theta0 = theta0};
    sosmc *s;
    assert_int_equal(sosmc_create(&s, &p, cfg), SOSMC_EINVAL);
    if (!strstr(sosmc_message(s), expected)) fail_msg("'%s' has no '%s'", sosmc_message(s), expected);
    sosmc_free(s);
}

static void what_leaves_the_domain(void **state)
{
    const sosmc_model variance = {.dim_x = LATENT, .dim_theta = 1, .energy = energy, .grad_theta = grad_theta};
    const sosmc_model weights = sosmc_mixture_model(&mixture);
    const double zero = 0, below = -2, one = 1, at_zero[2] = {0, 1}, short_sum[2] = {0.3, 0.6}, fine[2] = {0.3, 0.7};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(64);
    cfg.optimiser = sosmc_mirror(0.1, SOSMC_MIRROR_LOG);
    expect_message(&cfg, &variance, &zero, "theta[0] is 0; the mirror optimiser with the map log");
    expect_message(&cfg, &variance, &below, "theta[0] is -2;");
    cfg.optimiser.noise = 1;
    expect_message(&cfg, &variance, &one, "optimiser.noise is 1");
    cfg.optimiser = sosmc_mirror(0.1, SOSMC_MIRROR_ENTROPY);
    expect_message(&cfg, &weights, at_zero, "theta[0] is 0; the mirror optimiser with the map entropy");
    expect_message(&cfg, &weights, short_sum, "the sum of theta is 0.9;");
    cfg.optimiser.low = 0.1;
    cfg.optimiser.high = 0.9;
    expect_message(&cfg, &weights, fine, "optimiser.low is 0.1");

    double zeros[LATENT] = {0}; /* a rate so large that the variance becomes 0 */
    const toy_normal law = {zeros, 0.1};
    sosmc_problem p = {.model = variance, .objective = sosmc_mmle(), .init = toy_normal_source(&law), .theta0 = &one};
    sosmc *s;
    cfg.optimiser = sosmc_mirror(1e4, SOSMC_MIRROR_LOG);
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_step(s), SOSMC_ENUMERIC);
    assert_non_null(strstr(sosmc_message(s), "theta[0] is 0; the mirror optimiser"));
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recursions),         cmocka_unit_test(a_vertex_can_be_left),
        cmocka_unit_test(weights_of_a_mixture),   cmocka_unit_test(a_variance),
        cmocka_unit_test(what_leaves_the_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
