/* test_myula.c: the Moreau-Yosida Langevin kernel and the deblurring model it was made for.
 *
 * The kernel: with a proximal map that does nothing it is ULA, bit for bit; with soft thresholding, where Z is known, the
 * two exact weightings estimate Z without bias and the third does not; what it keeps for a particle follows the particle.
 * The model: gradient, proximal map, layout of batches and channels; and a run of both has the same bits on any number of
 * threads, at any vector level and across a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

#include "stats.h"
#include "toys.h"

static sosmc *engine(const sosmc_problem *p, const sosmc_settings *cfg)
{
    sosmc *s = NULL;
    if (sosmc_create(&s, p, cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return s;
}

static void step(sosmc *s)
{
    if (sosmc_step(s) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

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
    sosmc *s = engine(p, one), *t = engine(p, two);
    for (int k = 0; k < 12; k++) {
        step(s);
        step(t);
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
        sosmc *s = engine(&p, &cfg);
        step(s);
        for (int k = 1; k < 6; k++) {
            double offset = 0;
            was = theta;
            theta = sosmc_theta(s)[0];
            assert_int_equal(sosmc_cloud(s, x, before), SOSMC_OK);
            step(s);
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
    sosmc *s = engine(&p, &cfg);
    step(s);
    for (int k = 1; k < 8; k++) {
        assert_int_equal(sosmc_cloud(s, was, NULL), SOSMC_OK);
        for (int i = 0; i < CLOUD; i++)
            cached_move(&cfg.kernel, theta, cfg.seed, i, (uint64_t)k, was + i * DIM, expected + i * DIM);
        theta = sosmc_theta(s)[0]; /* where this iteration moves to */
        step(s);
        assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int i = 0; i < CLOUD; i++) assert_true(nearest(x + i * DIM, expected, CLOUD) < 1e-12);
        for (int i = 1; i < CLOUD; i++) twice += nearest(x + i * DIM, x + (i - 1) * DIM, 1) == 0;
    }
    assert_true(twice > CLOUD / 2); /* somebody did lose his place */
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ settings */

static void refused(const sosmc_problem *p, const sosmc_settings *cfg, const char *word)
{
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, p, cfg), SOSMC_EINVAL);
    if (!strstr(sosmc_message(s), word)) fail_msg("'%s' does not say '%s'", sosmc_message(s), word);
    sosmc_free(s);
}

static void wrong_settings_are_refused(void **state)
{
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        sosmc_problem p = toy_problem();
        sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.1, 0.4, (sosmc_myula_weight)weight));
        p.model.prox = NULL;
        refused(&p, &cfg, "model.prox");
        p = toy_problem();
        cfg.kernel.lambda = -1;
        refused(&p, &cfg, "kernel.lambda");
        cfg.kernel.lambda = NAN;
        refused(&p, &cfg, "kernel.lambda");
    }
}

static void theta_keeps_its_bounds(void **state)
{
    sosmc_problem p = toy_problem();
    sosmc_settings cfg = toy_settings(CLOUD, sosmc_myula(0.1, 0.2, SOSMC_MYULA_AS_INVARIANT));
    int at_low = 0;
    cfg.optimiser.low = -0.9;
    cfg.optimiser.high = -0.3;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 30; k++) {
        step(s);
        assert_true(sosmc_theta(s)[0] >= -0.9 && sosmc_theta(s)[0] <= -0.3);
        at_low += sosmc_theta(s)[0] == -0.9;
    }
    assert_true(at_low > 0);
    sosmc_free(s);
    cfg.optimiser.low = cfg.optimiser.high = 0; /* nowhere */
    s = engine(&p, &cfg);
    for (int k = 0; k < 30; k++) step(s);
    assert_true(sosmc_theta(s)[0] < -0.9);
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ the deblurring model */

enum { ROWS = 9, COLUMNS = 12, PIXELS = ROWS * COLUMNS, COLOURS = 3, MOST = COLOURS * PIXELS, TILE = 8 };

static double seen[MOST], masked[PIXELS];

static int set_up(void **state)
{
    for (int e = 0; e < MOST; e++) seen[e] = 100 + 60 * (e / COLUMNS % 2) + 20 * sin(1.3 * e);
    for (int e = 0; e < PIXELS; e++) masked[e] = e % 7 != 3;
    return 0;
}

static sosmc_deblur deblur_of(int which, int channels)
{
    sosmc_deblur d = {.blur = {.rows = ROWS, .columns = COLUMNS, .mask = which > 3 ? masked : NULL},
                      .channels = channels,
                      .y = seen,
                      .sigma = 0.7,
                      .tv = which % 2 ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC,
                      .prox_tv = SOSMC_TV_ANISOTROPIC,
                      .tolerance = 1e-8,
                      .freedom = channels * PIXELS};
    d.blur.kind = (sosmc_blur_kind)(which % 4);
    d.blur.patch = 4;
    d.blur.sigma = 1.2;
    d.blur.length = 5;
    d.blur.angle = 25;
    return d;
}

static void fill(uint64_t seed, int n, double *x)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int e = 0; e < n; e++) x[e] = seen[e % MOST] + 15 * x[e];
}

/* Exactly the room that the model asks for, so that a sanitizer sees one double too many. */
static void *work_for(const sosmc_model *m, int particles)
{
    void *work = NULL;
    assert_int_equal(posix_memalign(&work, 64, (size_t)particles * m->work), 0);
    memset(work, 0xFF, (size_t)particles * m->work); /* not numbers */
    return work;
}

typedef struct {
    double U, gx[MOST], gtheta, prox[MOST];
} values;

/* Everything the model says of one particle, by itself. */
static values ask(const sosmc_deblur *d, double theta, const double *x)
{
    sosmc_model m = sosmc_deblur_model(d);
    const double one = 1;
    values v = {0};
    sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
    assert_int_equal(m.dim_x, d->channels * PIXELS);
    assert_int_equal(m.energy(d, &theta, &b, &v.U, v.gx), 0);
    assert_int_equal(m.grad_theta(d, &theta, &b, &one, &v.gtheta), 0);
    assert_int_equal(m.prox(d, &theta, 0.4, &b, v.prox), 0);
    free(b.work);
    return v;
}

/* The energy alone, and its gradient when asked for. */
static double ask_energy(const sosmc_deblur *d, double theta, const double *x, double *gx)
{
    sosmc_model m = sosmc_deblur_model(d);
    double U = NAN;
    sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
    assert_int_equal(m.energy(d, &theta, &b, &U, gx), 0);
    free(b.work);
    return U;
}

static void gradients_are_right(void **state)
{
    double x[MOST], away[MOST], theta = -1.5;
    for (int which = 0; which < 8; which++) {
        sosmc_deblur d = deblur_of(which, 2), smooth;
        fill((uint64_t)which, 2 * PIXELS, x);
        values v = ask(&d, theta, x);
        smooth = d;
        smooth.freedom = 0;
        for (int e = 0; e < 2 * PIXELS; e += 5) { /* the smooth part: a quadratic, so central differences are exact */
            double U[2], h = 0.5, none = -700;    /* e^theta TV is nothing there */
            for (int side = 0; side < 2; side++) {
                memcpy(away, x, sizeof away);
                away[e] += side ? h : -h;
                U[side] = ask(&smooth, none, away).U;
            }
            double scale = fmax(1, fabs(v.gx[e]));
            assert_true(fabs((U[1] - U[0]) / (2 * h) - v.gx[e]) < 1e-7 * scale);
        }
        double h = 1e-5, slope = (ask(&d, theta + h, x).U - ask(&d, theta - h, x).U) / (2 * h);
        assert_true(fabs(slope - v.gtheta) < 1e-5 * fabs(v.gtheta));
        double tv = sosmc_tv(d.tv, ROWS, COLUMNS, x) + sosmc_tv(d.tv, ROWS, COLUMNS, x + PIXELS);
        assert_true(fabs(v.gtheta - (exp(theta) * tv - 2 * PIXELS)) < 1e-9 * tv);
    }
}

/* ... as the library has it, or as it was published; and it does something. */
static void the_prox_is_that_of_total_variation(void **state)
{
    double x[MOST], u[PIXELS], theta = 1.1;
    double *scratch = malloc(sosmc_tv_prox_scratch(ROWS, COLUMNS) * sizeof *scratch);
    assert_non_null(scratch);
    for (int which = 0; which < 3; which++) {
        sosmc_deblur d = deblur_of(1, COLOURS);
        if (which == 1) d.prox_tv = SOSMC_TV_ISOTROPIC;
        if (which == 2) d.published_passes = 35;
        fill(3, MOST, x);
        values v = ask(&d, theta, x);
        for (int c = 0; c < COLOURS; c++) {
            const double *z = x + (size_t)c * PIXELS;
            sosmc_tv_settings s = {.rows = ROWS, .columns = COLUMNS, .kind = d.prox_tv, .tolerance = d.tolerance};
            if (which == 2)
                sosmc_tv_prox_published(ROWS, COLUMNS, 35, 0.4 * exp(theta), z, u, scratch);
            else
                assert_int_equal(sosmc_tv_prox(&s, 0.4 * exp(theta), z, u, scratch, NULL), SOSMC_OK);
            assert_memory_equal(v.prox + (size_t)c * PIXELS, u, sizeof u);
            assert_true(memcmp(u, z, sizeof u) != 0);
        }
    }
    free(scratch);
}

/* Particles side by side, with one column left over, say what each says alone. */
static void tiles_change_nothing(void **state)
{
    enum { N = TILE - 1, CHANNELS = 2, LONG = CHANNELS * PIXELS };
    static double x[N][LONG], tile[LONG * TILE], gx[LONG * TILE], p[LONG * TILE];
    double U[TILE], c[TILE], g = 0.25, again = 0.25, sum = 0.25, theta = 0.3;
    sosmc_deblur d = deblur_of(5, CHANNELS);
    sosmc_model m = sosmc_deblur_model(&d);
    sosmc_batch b = {.x = tile, .work = work_for(&m, TILE), .dim = LONG, .n = N, .ld = TILE};
    for (int i = 0; i < N; i++) {
        fill(20 + (uint64_t)i, LONG, x[i]);
        c[i] = 0.3 - 0.2 * i;
        for (int e = 0; e < LONG; e++) tile[e * TILE + i] = x[i][e];
    }
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    b.fresh = 1;
    assert_int_equal(m.grad_theta(&d, &theta, &b, c, &g), 0);
    b.fresh = 0;
    assert_int_equal(m.grad_theta(&d, &theta, &b, c, &again), 0);
    assert_int_equal(m.prox(&d, &theta, 0.4, &b, p), 0);
    for (int i = 0; i < N; i++) {
        values v = ask(&d, theta, x[i]);
        assert_true(U[i] == v.U);
        sum += c[i] * v.gtheta;
        for (int e = 0; e < LONG; e++) assert_true(gx[e * TILE + i] == v.gx[e] && p[e * TILE + i] == v.prox[e]);
    }
    assert_true(g == again && g == sum);
    free(b.work);
}

static void colour_is_the_sum_of_its_channels(void **state)
{
    double x[MOST], theta = 0.3, U = 0, g = 0;
    sosmc_deblur d = deblur_of(6, COLOURS);
    fill(9, MOST, x);
    values whole = ask(&d, theta, x);
    for (int c = 0; c < COLOURS; c++) {
        sosmc_deblur one = deblur_of(6, 1);
        size_t from = (size_t)c * PIXELS;
        one.y = seen + from;
        values v = ask(&one, theta, x + from);
        U += v.U;
        g += v.gtheta;
        assert_memory_equal(whole.gx + from, v.gx, PIXELS * sizeof(double));
        assert_memory_equal(whole.prox + from, v.prox, PIXELS * sizeof(double));
    }
    assert_true(fabs(whole.U - U) < 1e-12 * fabs(U) && fabs(whole.gtheta - g) < 1e-12 * fabs(g));
}

/* Another theta at the same pictures: the same bits, and the gradient is left alone. */
static void what_does_not_change_is_kept(void **state)
{
    enum { N = 3 };
    static double tile[PIXELS * TILE], gx[PIXELS * TILE], again[PIXELS * TILE];
    double U[TILE], V[TILE], x[PIXELS], theta = -1, other = -1.3;
    sosmc_deblur d = deblur_of(1, 1);
    sosmc_model m = sosmc_deblur_model(&d);
    sosmc_batch b = {.x = tile, .work = work_for(&m, TILE), .dim = PIXELS, .n = N, .ld = TILE};
    for (int i = 0; i < N; i++) {
        fill(70 + (uint64_t)i, PIXELS, x);
        for (int e = 0; e < PIXELS; e++) tile[e * TILE + i] = x[e];
    }
    assert_int_equal(m.energy(&d, &other, &b, V, again), 0);
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    memset(tile, 0xFF, sizeof tile); /* not numbers: nobody looks */
    b.fresh = 1;
    assert_int_equal(m.energy(&d, &other, &b, U, gx), 0);
    assert_memory_equal(U, V, N * sizeof *U);
    for (int e = 0; e < PIXELS * TILE; e++) assert_true(e % TILE >= N || gx[e] == again[e]);
    free(b.work);
}

/* ------------------------------------------------------------------------------------------------ the envelope */

/* min_v e^theta TV(v) + |v - x|^2 / (2 lambda): at most what v = x gives, nearly that for a narrow one; smooth. */
static void the_envelope_is_smooth(void **state)
{
    double x[MOST], away[MOST], theta = 0.4, h = 1e-4;
    for (int which = 0; which < 4; which++) {
        sosmc_deblur d = deblur_of(which, 2), plain;
        d.prox_tv = d.tv;
        plain = d;
        fill(30 + (uint64_t)which, 2 * PIXELS, x);
        double U = ask(&plain, theta, x).U, steepest2 = 8 * exp(2 * theta) * 2 * PIXELS; /* |D|^2 <= 8 */
        static const double widths[] = {4, 4e-2, 4e-4};
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            double width = widths[i];
            d.envelope = width;
            double near = ask_energy(&d, theta, x, NULL);
            assert_true(near < U && U - near < 0.5 * width * steepest2);
        }
        d.envelope = 0.8;
        d.tolerance = 1e-9;
        ask_energy(&d, theta, x, away);
        double gx[MOST];
        memcpy(gx, away, sizeof gx);
        for (int e = 0; e < 2 * PIXELS; e += 17) {
            double at[2];
            for (int side = 0; side < 2; side++) {
                memcpy(away, x, sizeof away);
                away[e] += side ? h : -h;
                at[side] = ask_energy(&d, theta, away, NULL);
            }
            assert_true(fabs((at[1] - at[0]) / (2 * h) - gx[e]) < 1e-3 * fmax(1, fabs(gx[e])));
        }
        double slope = (ask_energy(&d, theta + h, x, NULL) - ask_energy(&d, theta - h, x, NULL)) / (2 * h), g = 0;
        const double one = 1;
        sosmc_model m = sosmc_deblur_model(&d);
        sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
        assert_true(m.prox == NULL);
        assert_int_equal(m.grad_theta(&d, &theta, &b, &one, &g), 0);
        assert_true(fabs(g - slope) < 1e-4 * fabs(slope));
        free(b.work);
    }
}

static void unsound_descriptions_make_no_model(void **state)
{
    for (int which = 0; which < 9; which++) {
        sosmc_deblur d = deblur_of(1, 1);
        assert_int_equal(sosmc_deblur_model(&d).dim_x, PIXELS);
        if (which == 0) d.y = NULL;
        if (which == 1) d.sigma = 0;
        if (which == 2) d.channels = 5;
        if (which == 3) d.blur.patch = 0;
        if (which == 4) d.tolerance = NAN;
        if (which == 5) d.published_passes = -1;
        if (which == 6) d.envelope = -1;
        if (which == 7) d.envelope = INFINITY;
        if (which == 8) d.envelope = 1, d.prox_tv = SOSMC_TV_ISOTROPIC; /* the prior has the other */
        assert_int_equal(sosmc_deblur_model(&d).dim_x, 0);
    }
}

/* ------------------------------------------------------------------------------------------------ the same bits */

enum { PARTICLES = 7, ITERATIONS = 10 };

typedef struct {
    sosmc_deblur d;
    sosmc_rows start;
    sosmc_problem p;
    sosmc_settings cfg;
} deblurring;

static void begin(deblurring *r, sosmc_myula_weight weight)
{
    static const double grey[2 * PIXELS] = {0}, theta0[1] = {-2};
    *r = (deblurring){.d = deblur_of(1, 2),
                      .start = {.data = grey, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = 30}};
    r->p = (sosmc_problem){.model = sosmc_deblur_model(&r->d),
                           .objective = sosmc_mmle(),
                           .init = sosmc_rows_source(&r->start),
                           .theta0 = theta0};
    r->p.objective.scale = 1.0 / (2 * PIXELS);
    r->cfg = sosmc_defaults();
    r->cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
    r->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    r->cfg.scheme.ess_min = 0.9;
    r->cfg.kernel = sosmc_myula(0.02, 0.4, weight);
    r->cfg.optimiser = sosmc_sgd(0.05);
    r->cfg.adapt[0] = (sosmc_adapt){.threshold = 0.95, .factor = 1.1, .min = 1e-4, .max = 0.05, .before_move = 1};
    r->cfg.seed = 3;
}

static void hashes(const deblurring *r, uint64_t hash[ITERATIONS])
{
    sosmc *s = engine(&r->p, &r->cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        step(s);
        hash[k] = sosmc_hash(s);
    }
    sosmc_free(s);
}

/* The model as it is, or one that is never told that only theta has changed; both with cracks, if asked for, where U is not
 * a number. */
typedef struct {
    sosmc_model model;
    int deaf;
    double crack; /* width */
} listener;

static int listener_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const listener *l = self;
    sosmc_batch heard = *b;
    if (l->deaf) heard.fresh = 0;
    int rc = l->model.energy(l->model.self, theta, &heard, U, gx);
    for (int i = 0; i < b->n; i++)
        if (fabs(remainder(b->x[i] - 0.3, 1)) < l->crack) U[i] = NAN;
    return rc;
}

static int listener_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const listener *l = self;
    return l->model.grad_theta(l->model.self, theta, b, c, g);
}

static int listener_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const listener *l = self;
    return l->model.prox(l->model.self, theta, lambda, b, p);
}

static int listen(const deblurring *r, int deaf, double crack, uint64_t hash[ITERATIONS])
{
    listener l = {.model = r->p.model, .deaf = deaf, .crack = crack};
    deblurring with = *r;
    int retries = 0;
    with.p.model.self = &l;
    with.p.model.energy = listener_energy;
    with.p.model.grad_theta = listener_grad_theta;
    with.p.model.prox = listener_prox;
    sosmc *s = engine(&with.p, &with.cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        step(s);
        hash[k] = sosmc_hash(s);
        retries += sosmc_last(s)->retries;
    }
    sosmc_free(s);
    return retries;
}

/* What the engine says of work is true: after resampling, after moves that were repeated, in either order. */
static void being_told_changes_no_bit(void **state)
{
    uint64_t told[ITERATIONS], deaf[ITERATIONS];
    for (int which = 0; which < 6; which++) {
        int retry = which >= 4, weighted = which % 2 || retry; /* the others know no repeated moves */
        int order = (retry ? which : which / 2) % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER;
        deblurring r;
        begin(&r, SOSMC_MYULA_AS_INVARIANT);
        r.cfg.adapt[0].factor = 0;
        if (!weighted) r.cfg.scheme = sosmc_scheme_unweighted(PARTICLES);
        r.cfg.scheme.drift_at = SOSMC_AT_CURRENT;
        r.cfg.scheme.order = order;
        if (weighted) r.cfg.scheme.ess_min = 2; /* always */
        if (retry) r.cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        int repeated = listen(&r, 0, retry ? 0.02 : 0, told);
        assert_true(!retry || repeated > 0);
        (void)listen(&r, 1, retry ? 0.02 : 0, deaf);
        assert_memory_equal(told, deaf, sizeof told);
    }
}

static void threads_and_levels_give_the_same_bits(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    uint64_t first[ITERATIONS], again[ITERATIONS];
    deblurring r;
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        begin(&r, (sosmc_myula_weight)weight);
        hashes(&r, first);
        assert_true(first[1] != first[0]);
        for (int threads = 2; threads <= 5; threads += 3) {
            r.cfg.threads = threads;
            hashes(&r, again);
            assert_memory_equal(first, again, sizeof first);
        }
        for (int l = 0; l < 3; l++) {
            r.cfg.simd = sosmc_simd_named(level[l]);
            if (!r.cfg.simd) continue;
            hashes(&r, again);
            assert_memory_equal(first, again, sizeof first);
        }
    }
}

/* ULA on the envelope makes the moves of MYULA; only its weights are those of another target. */
static void ula_on_the_envelope_is_myula(void **state)
{
    static double x[PARTICLES * 2 * PIXELS], y[PARTICLES * 2 * PIXELS];
    deblurring one, two;
    begin(&one, SOSMC_MYULA_CACHED);
    one.cfg.scheme = sosmc_scheme_unweighted(PARTICLES);
    one.cfg.scheme.drift_at = SOSMC_AT_CURRENT;
    one.cfg.adapt[0].factor = 0;
    one.cfg.kernel = sosmc_myula(0.02, 0.4, SOSMC_MYULA_AS_INVARIANT);
    one.cfg.optimiser = sosmc_sgd(0);
    one.d.prox_tv = one.d.tv;
    two = one;
    two.d.envelope = 0.4;
    one.p.model = sosmc_deblur_model(&one.d);
    two.p.model = sosmc_deblur_model(&two.d);
    one.p.init.self = &one.start;
    two.p.init.self = &two.start;
    two.cfg.kernel = sosmc_ula(0.02);
    sosmc *s = engine(&one.p, &one.cfg), *t = engine(&two.p, &two.cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        step(s);
        step(t);
    }
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(t, y, NULL), SOSMC_OK);
    for (int e = 0; e < PARTICLES * 2 * PIXELS; e++) assert_true(fabs(x[e] - y[e]) < 1e-9 * fmax(1, fabs(x[e])));
    assert_true(fabs(sosmc_last(s)->mean_energy - sosmc_last(t)->mean_energy) > 1e-3);
    sosmc_free(s);
    sosmc_free(t);
}

typedef struct {
    unsigned char bytes[1 << 17];
    size_t used, read;
} tape;

static int put(void *ctx, const void *bytes, size_t n)
{
    tape *t = ctx;
    if (n > sizeof t->bytes - t->used) return 1;
    memcpy(t->bytes + t->used, bytes, n);
    t->used += n;
    return 0;
}

static int get(void *ctx, void *bytes, size_t n)
{
    tape *t = ctx;
    if (n > t->used - t->read) return 1;
    memcpy(bytes, t->bytes + t->read, n);
    t->read += n;
    return 0;
}

static void a_checkpoint_changes_nothing(void **state)
{
    static tape t;
    uint64_t whole[ITERATIONS];
    deblurring r;
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        begin(&r, (sosmc_myula_weight)weight);
        hashes(&r, whole);
        t.used = t.read = 0;
        sosmc *s = engine(&r.p, &r.cfg);
        for (int k = 0; k < ITERATIONS / 2; k++) step(s);
        assert_int_equal(sosmc_save(s, put, &t), SOSMC_OK);
        sosmc_free(s);
        s = engine(&r.p, &r.cfg);
        assert_int_equal(sosmc_load(s, get, &t), SOSMC_OK);
        for (int k = ITERATIONS / 2; k < ITERATIONS; k++) {
            step(s);
            assert_true(sosmc_hash(s) == whole[k]);
        }
        sosmc_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_prox_it_is_ula),
        cmocka_unit_test(exact_weightings_are_unbiased),
        cmocka_unit_test(as_many_comparisons_as_announced),
        cmocka_unit_test(the_invariant_weighting_is_biased),
        cmocka_unit_test(weights_follow_the_formula),
        cmocka_unit_test(the_pull_follows_the_particle),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(theta_keeps_its_bounds),
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(the_prox_is_that_of_total_variation),
        cmocka_unit_test(tiles_change_nothing),
        cmocka_unit_test(colour_is_the_sum_of_its_channels),
        cmocka_unit_test(what_does_not_change_is_kept),
        cmocka_unit_test(the_envelope_is_smooth),
        cmocka_unit_test(ula_on_the_envelope_is_myula),
        cmocka_unit_test(unsound_descriptions_make_no_model),
        cmocka_unit_test(being_told_changes_no_bit),
        cmocka_unit_test(threads_and_levels_give_the_same_bits),
        cmocka_unit_test(a_checkpoint_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
