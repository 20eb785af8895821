/* test_myula.c: the Moreau-Yosida Langevin kernel: with a proximal map that does nothing it is ULA, bit for bit; with soft
 * thresholding, where Z is known, the two exact weightings estimate Z without bias and the third does not; what it keeps for
 * a particle follows the particle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "expect_engine.h"
#include "stats.h"
#include "toys.h"

/* ------------------------------------------------------------------------------------------------ the toy */

/* U = sum_j a_j (x_j - 1/2)^2 / 2 + e^theta |x_j|: the gradient is that of the first term, the prox that of the second. */
enum { DIM = 3 };
static const double CENTRE = 0.5;
static const double THETA0[1] = {-0.4};

static double curvature(int j) { return 1 + 0.5 * j; }

static int toy_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], d = x - CENTRE;
            U[i] += 0.5 * curvature(j) * d * d + exp(theta[0]) * fabs(x);
            if (gx) gx[j * b->ld + i] = curvature(j) * d;
        }
    return 0;
}

static int toy_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[0] += c[i] * exp(theta[0]) * fabs(b->x[j * b->ld + i]);
    return 0;
}

static double shrink(double x, double by) { return x > by ? x - by : x < -by ? x + by : 0; }

static int soft_threshold(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) p[j * b->ld + i] = shrink(b->x[j * b->ld + i], lambda * exp(theta[0]));
    return 0;
}

static int identity(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    memcpy(p, b->x, (size_t)b->dim * (size_t)b->ld * sizeof *p);
    return 0;
}

static sosmc_model toy_model(void)
{
    return (sosmc_model){.dim_x = DIM,
                         .dim_theta = 1,
                         .tile = 8,
                         .energy = toy_energy,
                         .grad_theta = toy_grad_theta,
                         .prox = soft_threshold};
}

static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }

/* The two half-lines of every coordinate are pieces of Gaussians. */
static double toy_logz(double theta)
{
    double b = exp(theta), c = CENTRE, sum = 0;
    for (int j = 0; j < DIM; j++) {
        double a = curvature(j), rest = b * b / (2 * a), root = sqrt(a);
        double above = exp(rest - b * c) * normal_cdf(root * (c - b / a));
        double below = exp(rest + b * c) * normal_cdf(-root * (c + b / a));
        sum += 0.5 * log(2 * 3.14159265358979323846 / a) + log(above + below);
    }
    return sum;
}

static sosmc_problem toy_problem(void)
{
    return (sosmc_problem){
        .model = toy_model(), .objective = sosmc_mmle(), .init = sosmc_standard_normal(), .theta0 = THETA0};
}

static sosmc_settings toy_settings(int particles, sosmc_kernel kernel)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(particles);
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.2);
    cfg.seed = 11;
    return cfg;
}

/* ------------------------------------------------------------------------------------------------ as ULA */

enum { CLOUD = 21 };

/* The same theta, log Z, particles and weights after every iteration. */
static void same_runs(const sosmc_problem *p, const sosmc_settings *one, const sosmc_settings *two)
{
    double x[CLOUD * DIM], y[CLOUD * DIM], a[CLOUD], b[CLOUD], first = NAN;
    sosmc *s = expect_create(p, one), *t = expect_create(p, two);
    for (int k = 0; k < 12; k++) {
        expect_step(s);
        expect_step(t);
        assert_int_equal(sosmc_cloud(s, x, a), SOSMC_OK);
        assert_int_equal(sosmc_cloud(t, y, b), SOSMC_OK);
        assert_memory_equal(sosmc_theta(s), sosmc_theta(t), sizeof(double));
        assert_memory_equal(&sosmc_last(s)->logz, &sosmc_last(t)->logz, sizeof(double));
        assert_int_equal(sosmc_last(s)->resampled, sosmc_last(t)->resampled);
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(a, b, sizeof a);
        if (k == 0) first = x[0];
    }
    assert_true(x[0] != first && sosmc_theta(s)[0] != THETA0[0]);
    sosmc_free(s);
    sosmc_free(t);
}

/* The weightings are then ULA's with the forward kernel at the new and at the previous theta, and ULA taken for invariant. */
static sosmc_kernel twin(sosmc_myula_weight weight, double h)
{
    sosmc_kernel k = sosmc_ula(h);
    k.noise = 1.1;
    if (weight != SOSMC_MYULA_CACHED) k.forward_at = SOSMC_AT_CURRENT;
    if (weight == SOSMC_MYULA_AS_INVARIANT) k.invariant = 1;
    return k;
}

static void without_a_prox_it_is_ula(void **state)
{
    sosmc_problem p = toy_problem();
    p.model.prox = identity;
    for (int which = 0; which < 3 * 4 * 2 * 2; which++) {
        sosmc_myula_weight weight = (sosmc_myula_weight)(which % 3);
        int kind = which / 3 % 4, order = which / 12 % 2;
        double lambda = which / 24 ? 0.03 : 7;
        sosmc_kernel k = sosmc_myula(0.1, lambda, weight);
        k.noise = 1.1;
        sosmc_settings one = toy_settings(CLOUD, k), two;
        if (kind < 2) one.scheme.ess_min = kind == 0 ? 0.8 : 2;
        if (kind >= 2) one.scheme = sosmc_scheme_unweighted(CLOUD);
        if (kind == 3) one.scheme.drift_at = SOSMC_AT_CURRENT;
        one.scheme.order = order ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER;
        two = one;
        two.kernel = twin(weight, 0.1);
        same_runs(&p, &one, &two);
    }
}

/* ------------------------------------------------------------------------------------------------ weights */

enum { LAST = 6, WEIGHED = 24, REPLICATES = 3000, PLANNED = 24 };
static const double PATH[LAST + 1] = {-0.4, 0, 0.3, 0.6, 0.7, 0.9, 1.0};
static const toy_path WAY = {.rows = LAST + 1, .theta = PATH};
static int comparisons;

typedef enum { RATIO, MEAN_ABS, ESTIMATES } estimates;

/* Z_hat / Z, and the unnormalised mean of |x| minus the exact one: unbiased too. */
static void read_off(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const sosmc_info *info = sosmc_last(s);
    double at = PATH[info->updates], ratio = exp(info->logz - toy_logz(at)), h = 1e-4;
    double x[WEIGHED * DIM], logw[WEIGHED], sum = 0, exact = (toy_logz(at - h) - toy_logz(at + h)) / (2 * h);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    for (int e = 0; e < WEIGHED * DIM; e++) sum += exp(logw[e / DIM]) * exp(at) * fabs(x[e]);
    estimate[RATIO] = ratio;
    estimate[MEAN_ABS] = ratio * (sum - exact);
}

static void tally_up(sosmc_kernel k, double ess_min, int order, stats_tally tally[ESTIMATES])
{
    sosmc_problem p = toy_problem();
    sosmc_settings cfg = toy_settings(WEIGHED, k);
    memset(tally, 0, ESTIMATES * sizeof *tally);
    cfg.scheme.ess_min = ess_min;
    cfg.scheme.order = order;
    cfg.optimiser = toy_follow(&WAY);
    cfg.seed = 500000;
    stats_run(&p, &cfg, LAST, stats_replicates(REPLICATES), read_off, NULL, ESTIMATES, tally);
}

static void exact_weightings_are_unbiased(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[ESTIMATES];
    for (int which = 0; which < 12; which++) {
        sosmc_myula_weight weight = which % 2 ? SOSMC_MYULA_CACHED : SOSMC_MYULA_RATIO;
        int order = which / 2 % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER, occasion = which / 4;
        sosmc_kernel k = sosmc_myula(0.25, 0.3, weight);
        if (occasion == 1) k.noise = 0.9;
        tally_up(k, occasion == 0 ? 0 : occasion == 1 ? 0.7 : 2, order, tally);
        stats_compare(&ledger, &tally[RATIO], 1, "weighting %d, order %d, occasion %d, Zhat/Z", weight, order,
                      occasion);
        stats_compare(&ledger, &tally[MEAN_ABS], 0, "weighting %d, order %d, occasion %d, |x|", weight, order,
                      occasion);
    }
    comparisons += stats_close(&ledger);
}

/* The move leaves something else invariant than pi: log Z is off, the less the smaller step and envelope are. */
static void the_invariant_weighting_is_biased(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally coarse[ESTIMATES], fine[ESTIMATES];
    tally_up(sosmc_myula(0.6, 0.7, SOSMC_MYULA_AS_INVARIANT), 0, SOSMC_ORDER_PAPER, coarse);
    tally_up(sosmc_myula(0.06, 0.07, SOSMC_MYULA_AS_INVARIANT), 0, SOSMC_ORDER_PAPER, fine);
    print_message("    Zhat/Z %.4f (+- %.4f), with a tenth of the step %.4f (+- %.4f)\n", coarse[RATIO].mean,
                  stats_se(&coarse[RATIO]), fine[RATIO].mean, stats_se(&fine[RATIO]));
    stats_must_notice(&ledger, &coarse[RATIO], 1, "MYULA taken for invariant, Zhat/Z");
    assert_true(fabs(fine[RATIO].mean - 1) + 3 * stats_se(&fine[RATIO]) < 0.5 * fabs(coarse[RATIO].mean - 1));
}

/* D at x under theta; `pulled` is 0 for a particle whose pull was never computed. */
static void drift(const sosmc_kernel *k, double theta, int pulled, const double *x, double *d)
{
    for (int j = 0; j < DIM; j++) {
        double pull = x[j] - shrink(x[j], k->lambda * exp(theta));
        d[j] = curvature(j) * (x[j] - CENTRE) + (pulled ? pull / k->lambda : 0);
    }
}

static double energy_at(double theta, const double *x)
{
    double U;
    sosmc_batch b = {.x = x, .dim = DIM, .n = 1, .ld = 1};
    assert_int_equal(toy_energy(NULL, &theta, &b, &U, NULL), 0);
    return U;
}

/* log of the density of a move from x to y with drift d, without constants. */
static double log_move(const sosmc_kernel *k, const double *x, const double *d, const double *y)
{
    double sum = 0;
    for (int j = 0; j < DIM; j++) sum += (y[j] - x[j] + k->h * d[j]) * (y[j] - x[j] + k->h * d[j]);
    return -sum / (4 * k->h * k->noise * k->noise);
}

/* Any reverse move makes unbiased weights; this is the one that is meant: increments of the log-weights, up to a constant,
 * from the densities themselves. */
static void weights_follow_the_formula(void **state)
{
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        sosmc_problem p = toy_problem();
        sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.2, 0.25, (sosmc_myula_weight)weight));
        double x[CLOUD * DIM], y[CLOUD * DIM], before[CLOUD], after[CLOUD], was = 0, theta = THETA0[0], d[DIM], e[DIM];
        int cached = weight == SOSMC_MYULA_CACHED;
        cfg.scheme.ess_min = 0;
        cfg.kernel.noise = 1.2;
        sosmc *s = expect_create(&p, &cfg);
        expect_step(s);
        for (int k = 1; k < 6; k++) {
            double offset = 0;
            was = theta;
            theta = sosmc_theta(s)[0];
            assert_int_equal(sosmc_cloud(s, x, before), SOSMC_OK);
            expect_step(s);
            assert_int_equal(sosmc_cloud(s, y, after), SOSMC_OK);
            for (int i = 0; i < CLOUD; i++) {
                const double *from = x + i * DIM, *to = y + i * DIM;
                double logG = energy_at(was, from) - energy_at(theta, to);
                drift(&cfg.kernel, cached ? was : theta, !cached || k > 1, from, d);
                drift(&cfg.kernel, theta, 1, to, e);
                logG += log_move(&cfg.kernel, to, e, from) - log_move(&cfg.kernel, from, d, to);
                if (weight == SOSMC_MYULA_AS_INVARIANT) logG = energy_at(was, from) - energy_at(theta, from);
                double rest = after[i] - before[i] - logG;
                if (i == 0) offset = rest;
                assert_true(fabs(rest - offset) < 1e-10);
            }
            assert_true(fabs(after[0] - before[0] - after[1] + before[1]) > 1e-6); /* there is something to weigh */
        }
        sosmc_free(s);
    }
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

/* ------------------------------------------------------------------------------------------------ what it keeps */

/* The cached move of particle i out of x, where it arrived under theta. */
static void cached_move(const sosmc_kernel *k, double theta, uint64_t seed, int i, uint64_t iteration, const double *x,
                        double *out)
{
    double z[DIM];
    sosmc_batch b = {.dim = DIM, .n = 1, .ld = 1, .first = i};
    sosmc_normals((sosmc_rng){.seed = seed, .step = iteration, .stream = SOSMC_STREAM_MOVE}, &b, z);
    for (int j = 0; j < DIM; j++) {
        double pull = iteration > 1 ? x[j] - shrink(x[j], k->lambda * exp(theta)) : 0; /* none before the first move */
        out[j] = x[j] - k->h * (curvature(j) * (x[j] - CENTRE) + pull / k->lambda) + sqrt(2 * k->h) * z[j];
    }
}

/* How far x is from the nearest of n others. */
static double nearest(const double *x, const double *others, int n)
{
    double least = INFINITY;
    for (int i = 0; i < n; i++) {
        double most = 0;
        for (int j = 0; j < DIM; j++) most = fmax(most, fabs(x[j] - others[i * DIM + j]));
        least = fmin(least, most);
    }
    return least;
}

/* Every iteration resamples: what a move starts from is an ancestor's place, and the pull that ancestor had there. */
static void the_pull_follows_the_particle(void **state)
{
    sosmc_problem p = toy_problem();
    sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.2, 0.25, SOSMC_MYULA_CACHED));
    double x[CLOUD * DIM], was[CLOUD * DIM], expected[CLOUD * DIM], theta = THETA0[0];
    int twice = 0;
    cfg.scheme.ess_min = 2;
    sosmc *s = expect_create(&p, &cfg);
    expect_step(s);
    for (int k = 1; k < 8; k++) {
        assert_int_equal(sosmc_cloud(s, was, NULL), SOSMC_OK);
        for (int i = 0; i < CLOUD; i++)
            cached_move(&cfg.kernel, theta, cfg.seed, i, (uint64_t)k, was + i * DIM, expected + i * DIM);
        theta = sosmc_theta(s)[0]; /* where this iteration moves to */
        expect_step(s);
        assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int i = 0; i < CLOUD; i++) assert_true(nearest(x + i * DIM, expected, CLOUD) < 1e-12);
        for (int i = 1; i < CLOUD; i++) twice += nearest(x + i * DIM, x + (i - 1) * DIM, 1) == 0;
    }
    assert_true(twice > CLOUD / 2); /* somebody did lose his place */
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ settings */

static void wrong_settings_are_refused(void **state)
{
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        sosmc_problem p = toy_problem();
        sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.1, 0.4, (sosmc_myula_weight)weight));
        p.model.prox = NULL;
        expect_refusal(&p, &cfg, SOSMC_EINVAL, "model.prox");
        p = toy_problem();
        cfg.kernel.lambda = -1;
        expect_refusal(&p, &cfg, SOSMC_EINVAL, "kernel.lambda");
        cfg.kernel.lambda = NAN;
        expect_refusal(&p, &cfg, SOSMC_EINVAL, "kernel.lambda");
    }
}

static void theta_keeps_its_bounds(void **state)
{
    sosmc_problem p = toy_problem();
    sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.1, 0.2, SOSMC_MYULA_AS_INVARIANT));
    int at_low = 0;
    cfg.optimiser.low = -0.9;
    cfg.optimiser.high = -0.3;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 30; k++) {
        expect_step(s);
        assert_true(sosmc_theta(s)[0] >= -0.9 && sosmc_theta(s)[0] <= -0.3);
        at_low += sosmc_theta(s)[0] == -0.9;
    }
    assert_true(at_low > 0);
    sosmc_free(s);
    cfg.optimiser.low = cfg.optimiser.high = 0; /* nowhere */
    s = expect_create(&p, &cfg);
    expect_steps(s, 30);
    assert_true(sosmc_theta(s)[0] < -0.9);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_prox_it_is_ula),         cmocka_unit_test(exact_weightings_are_unbiased),
        cmocka_unit_test(as_many_comparisons_as_announced), cmocka_unit_test(the_invariant_weighting_is_biased),
        cmocka_unit_test(weights_follow_the_formula),       cmocka_unit_test(the_pull_follows_the_particle),
        cmocka_unit_test(wrong_settings_are_refused),       cmocka_unit_test(theta_keeps_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
