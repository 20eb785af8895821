/* test_mmle_toy.c: maximum marginal likelihood where everything is known.
 *
 * x_d ~ N(theta, 1), y_d | x_d ~ N(x_d, 1): theta* = mean(y), x_d | y ~ N((y_d + theta)/2, 1/2), and log p_theta(y) is
 * a sum of log N(y_d; theta, 2). In u = x - E x, t = theta - theta* the energy is even, so the mean of theta and of
 * the cloud's centre has no bias at any N once the start is forgotten; log Z and the cloud's variance have one of
 * order 1/N, which N is chosen to hide behind the standard error.
 *
 * Gradient and step: U sums over d, so dU/dtheta = sum_d (theta - x_d) and SGD with rate lr moves theta by lr D (mean
 * x - theta). With lr = h this is particle gradient descent, and for the deviations t of theta and s of the mean of
 * all x it is the linear map
 *
 *     t' = t - h D (t - s),   s' = s - h (2 s - t) + noise,   noise ~ N(0, 2h/(N D)),
 *
 * whose matrix I - h A has eigenvalues 1 - h lambda, lambda^2 - (D+2) lambda + D = 0. It is stable when h lambda_max <
 * 2, that is h < 4 / ((D+2) + sqrt(D^2+4)).
 *
 * With noise of its own in the update (maths.md THETA-NOISE) t' gets another term, N(0, 2h/N), and the law of theta is no
 * longer a point that the cloud blurs but nearly exp(-N l): variance 2/(N D), since l = sum_d (y_d - theta)^2 / 4.
 *
 * For the bias of unweighted Langevin moves in theta itself: x_d ~ N(0, exp(theta)) (toy_spread). With precision
 * a = 1 + exp(-theta), an unadjusted chain has variance 1/(a (1 - h a/2)) instead of 1/a, and theta settles where
 * exp(theta) = mean(y^2)/a^2 + that variance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "stats.h"
#include "toys.h"

enum { PLANNED = 75 };
static int comparisons;

static const double y10[] = {2.1, 0.3, -0.4, 1.7, 3.2, 0.9, -1.1, 2.6, 1.5, 0.2};
static const double y4[] = {1.2, -0.3, 0.8, 2.0};
static const double y5[] = {2.5, -1.2, 0.6, -2.1, 1.4};
static const toy_data ten = {10, y10}, four = {4, y4}, five = {5, y5};

static sosmc_kernel kernel_of(int k)
{
    return k == 0 ? sosmc_ula(0.05) : k == 1 ? sosmc_mala(0.1) : k == 2 ? sosmc_rwm(0.05) : sosmc_hmc(0.3, 3, 1);
}

static sosmc_problem maximise(sosmc_model model, sosmc_source init, const double *theta0)
{
    return (sosmc_problem){.model = model, .objective = sosmc_mmle(), .init = init, .theta0 = theta0};
}

/* ---------------------------------------------------------------------------- theta and the posterior */

enum { THETA, CENTRE, FIRST, VARIANCE, POSTERIOR };
static const char *const posterior_name[POSTERIOR] = {"theta", "mean of the posterior", "mean of x_0", "variance"};

typedef struct {
    const toy_data *toy;
    int authors; /* whose order: the cloud belongs to the newest theta, or to the one before */
} posterior;

static void read_posterior(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const posterior *p = ctx;
    int n = sosmc_particles(s), dim = p->toy->dim;
    double *x = malloc(sizeof(double) * (size_t)(n * dim)), *logw = malloc(sizeof(double) * (size_t)n);
    double centre = p->authors ? sosmc_theta(s)[0] : theta[0];
    assert_true(x && logw);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    estimate[THETA] = sosmc_theta(s)[0];
    estimate[CENTRE] = estimate[FIRST] = estimate[VARIANCE] = 0;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < dim; d++) {
            double w = exp(logw[i]), off = x[i * dim + d] - 0.5 * (p->toy->y[d] + centre);
            estimate[CENTRE] += w * off / dim;
            estimate[VARIANCE] += w * off * off / dim;
            if (d == 0) estimate[FIRST] += w * off;
        }
    free(x);
    free(logw);
}

static void theta_and_posterior(void **state)
{
    const double theta0 = -0.5, truth[POSTERIOR] = {toy_data_mean(&ten), 0, 0, 0.5};
    stats_ledger ledger = stats_open(PLANNED);
    sosmc_problem problem = maximise(toy_hierarchy_model(&ten), sosmc_standard_normal(), &theta0);
    for (int k = 0; k < 8; k++) {
        posterior p = {.toy = &ten, .authors = k % 2};
        sosmc_settings cfg = sosmc_defaults();
        stats_tally tally[POSTERIOR];
        cfg.scheme = sosmc_scheme_sosmc(300);
        cfg.scheme.order = k % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER;
        cfg.kernel = kernel_of(k / 2);
        cfg.optimiser = sosmc_sgd(0.05);
        cfg.seed = 10000u * (uint64_t)(k + 1);
        stats_run(&problem, &cfg, 120, stats_replicates(50), read_posterior, &p, POSTERIOR, tally);
        for (int e = 0; e < POSTERIOR; e++)
            stats_compare(&ledger, &tally[e], truth[e], "%s (%s, order %d)", posterior_name[e], cfg.kernel.name,
                          cfg.scheme.order);
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- the log-likelihood */

enum { FROM_LOGZ, FROM_LOSS, LOGLIKS };

static void read_loglik(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const sosmc_info *info = sosmc_last(s);
    int newest = info->updates == sosmc_iteration(s); /* the authors' order */
    estimate[FROM_LOGZ] = exp(info->logz - toy_hierarchy_loglik(ctx, newest ? *sosmc_theta(s) : *theta));
    estimate[FROM_LOSS] = exp(-info->loss - toy_hierarchy_loglik(ctx, *theta));
    assert_int_equal(info->gradient_updates, sosmc_iteration(s) - 1);
}

static int weigh_nothing(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(m->h);
    int rc = ula.step(&ula, m);
    for (int i = 0; m->logG && i < m->b.n; i++) m->logG[i] = 0;
    return rc;
}

/* Along a given path (here the exact gradient descent) Zhat/Z has mean 1 at any N. Where theta itself follows the
 * particles it has not: the update favours thetas that the present cloud likes, a bias of about 7/N here. */
static void log_likelihood(void **state)
{
    enum { ITERATIONS = 30 };
    const double lr = 0.1, near[4] = {0.4, -0.2, 0.2, 0.6};
    const toy_normal shifted = {near, 0.9};
    double thetas[ITERATIONS + 1] = {-0.5};
    for (int k = 0; k < ITERATIONS; k++) thetas[k + 1] = thetas[k] - lr * 4 * 0.5 * (thetas[k] - toy_data_mean(&four));
    const toy_path path = {.rows = ITERATIONS + 1, .theta = thetas};
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[LOGLIKS];
    sosmc_settings cfg = sosmc_defaults();
    for (int k = 0; k < 12; k++) {
        int given = k < 8, ranging = k / 2 % 2;
        sosmc_problem problem = maximise(toy_hierarchy_model(&four),
                                         k >= 4 ? toy_normal_source(&shifted) : sosmc_standard_normal(), thetas);
        cfg.scheme = sosmc_scheme_sosmc(given ? 300 : 4000);
        cfg.scheme.order = k % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER;
        cfg.kernel = ranging ? sosmc_rwm(0.1) : sosmc_ula(0.1);
        cfg.optimiser = given ? toy_follow(&path) : sosmc_sgd(lr);
        cfg.seed = 200000u + 10000u * (uint64_t)k;
        stats_run(&problem, &cfg, ITERATIONS, stats_replicates(given ? 400 : 40), read_loglik, &four, LOGLIKS, tally);
        stats_compare(&ledger, &tally[FROM_LOGZ], 1, "exp(logz - log p), run %d", k);
        stats_compare(&ledger, &tally[FROM_LOSS], 1, "exp(-loss - log p), run %d", k);
    }
    comparisons += stats_close(&ledger);

    sosmc_problem problem = maximise(toy_hierarchy_model(&four), sosmc_standard_normal(), thetas);
    cfg.scheme.particles = cfg.scheme.pool = 300;
    cfg.kernel = sosmc_ula(0.1);
    cfg.kernel.step = weigh_nothing;
    cfg.optimiser = toy_follow(&path);
    stats_run(&problem, &cfg, ITERATIONS, stats_replicates(400), read_loglik, &four, LOGLIKS, tally);
    stats_must_notice(&ledger, &tally[FROM_LOGZ], 1, "log-likelihood without incremental weights");
}

/* ---------------------------------------------------------------------------- particle gradient descent */

enum { D = 100 };
typedef struct {
    double y[D];
    toy_data toy;
} hundred;

static void fill(hundred *h)
{
    for (int d = 0; d < D; d++) h->y[d] = 1 + 1.5 * sin(1.7 * d);
    h->toy = (toy_data){D, h->y};
}

static sosmc_settings gradient_descent(sosmc_scheme scheme, double h)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.kernel = sosmc_ula(h);
    cfg.optimiser = sosmc_sgd(h);
    cfg.seed = 31;
    return cfg;
}

/* Stationary E[t^2] of the linear map above, by iterating its covariance; `noise` is the variance of theta's own. */
static double stationary_variance(double h, int dim, int particles, double noise)
{
    double tt = 0, ts = 0, ss = 0;
    for (int k = 0; k < 20000; k++) {
        double a = 1 - h * dim, b = h * dim, c = h, d = 1 - 2 * h;
        double tt1 = a * a * tt + 2 * a * b * ts + b * b * ss, ts1 = a * c * tt + (a * d + b * c) * ts + b * d * ss;
        ss = c * c * tt + 2 * c * d * ts + d * d * ss + 2 * h / (particles * (double)dim);
        tt = tt1 + noise;
        ts = ts1;
    }
    return tt;
}

static void read_deviation(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    double t = *sosmc_theta(s) - toy_data_mean(ctx);
    estimate[0] = t;
    estimate[1] = t * t;
    estimate[2] = t / (*theta - toy_data_mean(ctx)); /* growth */
}

static void stability_border(void **state)
{
    enum { N = 10, ITERATIONS = 1200 };
    hundred data;
    fill(&data);
    sosmc_problem problem = maximise(toy_hierarchy_model(&data.toy), sosmc_standard_normal(), NULL);
    double lambda = 0.5 * ((D + 2) + sqrt(D * (double)D + 4)), border = 4 / ((D + 2) + sqrt(D * (double)D + 4));
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[3];

    sosmc_settings cfg = gradient_descent(sosmc_scheme_unweighted(N), 0.98 * border);
    stats_run(&problem, &cfg, ITERATIONS, stats_replicates(200), read_deviation, &data.toy, 3, tally);
    stats_compare(&ledger, &tally[0], 0, "theta - mean(y) below the border");
    stats_compare(&ledger, &tally[1], stationary_variance(0.98 * border, D, N, 0),
                  "variance of theta below the border");

    cfg = gradient_descent(sosmc_scheme_unweighted(N), 1.02 * border);
    stats_run(&problem, &cfg, ITERATIONS, 1, read_deviation, &data.toy, 3, tally);
    print_message("    above the border: |theta - mean(y)| = %.3g, growth %.9f, expected %.9f\n", fabs(tally[0].mean),
                  tally[2].mean, 1 - 1.02 * border * lambda);
    assert_true(fabs(tally[0].mean) > 1e6);
    assert_true(fabs(tally[2].mean - (1 - 1.02 * border * lambda)) < 1e-6);

    /* Moving first (gradient at the new particles) is another map, stable up to the smaller root of
     * 3 D h^2 - (4 + 2 D) h + 4 = 0: 0.02021 instead of 0.01980 at D = 100. At 0.02 the two differ. */
    cfg = gradient_descent(sosmc_scheme_unweighted(N), 0.02);
    stats_run(&problem, &cfg, ITERATIONS, 1, read_deviation, &data.toy, 3, tally);
    assert_true(fabs(tally[0].mean) > 1e6);
    cfg = gradient_descent(sosmc_scheme_moved_first(N), 0.02);
    stats_run(&problem, &cfg, ITERATIONS, stats_replicates(200), read_deviation, &data.toy, 3, tally);
    stats_compare(&ledger, &tally[0], 0, "theta - mean(y), moved first");
    cfg = gradient_descent(sosmc_scheme_moved_first(N), 0.0204);
    stats_run(&problem, &cfg, ITERATIONS, 1, read_deviation, &data.toy, 3, tally);
    assert_true(fabs(tally[0].mean) > 1e6);
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- interacting particle Langevin */

static void noise_gives_theta_its_law(void **state)
{
    enum { ITERATIONS = 300, REPLICATES = 2400 /* a sixth of them must still notice the controls */ };
    const double h = 0.05, small = 1e-3, star = toy_data_mean(&ten);
    stats_ledger ledger = stats_open(PLANNED);
    sosmc_problem problem = maximise(toy_hierarchy_model(&ten), sosmc_standard_normal(), &star);
    for (int k = 0; k < 3; k++) {
        const int n = k == 0 ? 1 : k == 1 ? 8 : 40;
        double expected = stationary_variance(h, 10, n, 2 * h / n), law = 2 / (n * 10.0);
        stats_tally tally[3];
        sosmc_settings cfg = gradient_descent(sosmc_scheme_unweighted(n), h);
        cfg.optimiser.noise = 1;
        cfg.seed = 7000u + 10000u * (uint64_t)k;
        stats_run(&problem, &cfg, ITERATIONS, stats_replicates(REPLICATES), read_deviation, &ten, 3, tally);
        stats_compare(&ledger, &tally[0], 0, "theta - mean(y) with noise, %d particles", n);
        stats_compare(&ledger, &tally[1], expected, "variance of theta with noise, %d particles", n);
        stats_must_notice(&ledger, &tally[1], stationary_variance(h, 10, n, 0), "theta's noise left out");
        print_message("    %d particles: variance %.4g (+- %.2g), expected %.4g, exp(-N l) %.4g\n", n, tally[1].mean,
                      stats_se(&tally[1]), expected, law);
        assert_true(fabs(stationary_variance(small, 10, n, 2 * small / n) / law - 1) < 0.02);
        if (n == 1) continue;
        cfg.optimiser.noise = sqrt(n); /* without the division by N */
        stats_run(&problem, &cfg, ITERATIONS, stats_replicates(REPLICATES), read_deviation, &ten, 3, tally);
        stats_must_notice(&ledger, &tally[1], expected, "noise without the division by N");
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- the bias of unweighted moves */

/* Where unweighted Langevin moves with step h settle; h = 0: the maximum of the likelihood. */
static double settles_at(const toy_data *toy, double h)
{
    double lo = -3, hi = 4;
    while (hi - lo > 1e-13) {
        double mid = 0.5 * (lo + hi), a = 1 + exp(-mid);
        if (exp(mid) < toy_data_square(toy) / (a * a) + 1 / (a * (1 - 0.5 * h * a)))
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void read_average(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    estimate[0] = *sosmc_theta_average(s);
}

static sosmc_settings averaged(sosmc_scheme scheme, double h)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.kernel = sosmc_ula(h);
    cfg.optimiser = sosmc_sgd(0.2);
    cfg.average = 1;
    cfg.average_from = 200;
    cfg.seed = 4100;
    return cfg;
}

static void unweighted_moves_are_biased_and_weighted_ones_are_not(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const double theta0 = 0.6, step[2] = {0.1, 0.2};
    double star = settles_at(&five, 0);
    sosmc_problem problem = maximise(toy_spread_model(&five), sosmc_standard_normal(), &theta0);
    assert_true(fabs(star - log(toy_data_square(&five) - 1)) < 1e-12);
    for (int k = 0; k < 2; k++) {
        stats_tally plain, weighted;
        sosmc_settings cfg = averaged(sosmc_scheme_unweighted(1000), step[k]);
        stats_run(&problem, &cfg, 300, stats_replicates(40), read_average, NULL, 1, &plain);
        stats_compare(&ledger, &plain, settles_at(&five, step[k]), "unweighted theta, h = %g", step[k]);
        stats_must_notice(&ledger, &plain, star, "unweighted theta as if unbiased");
        cfg = averaged(sosmc_scheme_sosmc(1000), step[k]);
        cfg.scheme.ess_min = 0.9;
        stats_run(&problem, &cfg, 300, stats_replicates(40), read_average, NULL, 1, &weighted);
        stats_compare(&ledger, &weighted, star, "weighted theta, h = %g", step[k]);
        print_message(
            "    h = %.2f: unweighted %.4f (bias %.4f, expected %.4f), weighted %.4f (+- %.4f), theta* = %.4f\n",
            step[k], plain.mean, plain.mean - star, settles_at(&five, step[k]) - star, weighted.mean,
            stats_se(&weighted), star);
    }
    /* of order h: halving the step halves the bias, but for h^2 */
    double ratio = (settles_at(&five, 0.1) - star) / (settles_at(&five, 0.05) - star);
    assert_true(ratio > 1.9 && ratio < 2.3);
    comparisons += stats_close(&ledger);
}

/* The same for the cloud alone, at theta*: variance 1/(2 (1 - h)) without weights, 1/2 with them. */
static void read_variance(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    posterior p = {.toy = &four};
    double all[POSTERIOR];
    read_posterior(&p, s, theta, all);
    estimate[0] = all[VARIANCE];
}

static void unweighted_clouds_are_too_wide(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const double star = toy_data_mean(&four), step[3] = {0.05, 0.1, 0.2};
    const toy_path stay = {.rows = 1, .theta = &star};
    sosmc_problem problem = maximise(toy_hierarchy_model(&four), sosmc_standard_normal(), &star);
    for (int k = 0; k < 3; k++) {
        stats_tally plain, weighted;
        sosmc_settings cfg = sosmc_defaults();
        cfg.kernel = sosmc_ula(step[k]);
        cfg.optimiser = toy_follow(&stay);
        cfg.scheme = sosmc_scheme_unweighted(1000);
        cfg.seed = 5100;
        stats_run(&problem, &cfg, 150, stats_replicates(60), read_variance, NULL, 1, &plain);
        stats_compare(&ledger, &plain, 0.5 / (1 - step[k]), "unweighted variance, h = %g", step[k]);
        stats_must_notice(&ledger, &plain, 0.5, "unweighted variance as if unbiased");
        cfg.scheme = sosmc_scheme_sosmc(1000);
        stats_run(&problem, &cfg, 150, stats_replicates(60), read_variance, NULL, 1, &weighted);
        stats_compare(&ledger, &weighted, 0.5, "weighted variance, h = %g", step[k]);
    }
    comparisons += stats_close(&ledger);
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theta_and_posterior),
        cmocka_unit_test(log_likelihood),
        cmocka_unit_test(stability_border),
        cmocka_unit_test(noise_gives_theta_its_law),
        cmocka_unit_test(unweighted_moves_are_biased_and_weighted_ones_are_not),
        cmocka_unit_test(unweighted_clouds_are_too_wide),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
