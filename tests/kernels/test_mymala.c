/* test_mymala.c: the two kernels that leave a posterior with a total-variation prior invariant exactly: MYMALA, and the Gibbs
 * moves of the deblurring model.
 *
 * On a row of pixels without a blur the posterior is a Markov chain, and its constant, hence the marginal likelihood and the
 * theta that is most likely, follows from a recursion on a lattice. On pictures with blurs, masks and colours
 *
 *     E[e^theta TV(x) + x . grad f(x)] = d     and     E[sum of grad f] = 0
 *
 * hold for every theta, because TV is homogeneous and sees no constants (f: the misfit; both by parts). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

#include "expect_engine.h"
#include "stats.h"
#include "toys.h"

enum { CHAIN_COMPARISONS = 16, PICTURE_COMPARISONS = 12, PLANNED = CHAIN_COMPARISONS + PICTURE_COMPARISONS };
static int comparisons;

/* ------------------------------------------------------------------------------------------------ the row of pixels */

enum { SHORT = 4, LONG = 12, POINTS = 700 };
static const double ROW[LONG] = {0.9, 1.1, -0.3, -0.8, -1.9, -2.3, -1.6, -2.1, 0.4, 2.6, 2.2, 2.9};

static sosmc_deblur row_of(int pixels)
{
    return (sosmc_deblur){.blur = {.rows = 1, .columns = pixels},
                          .channels = 1,
                          .y = ROW,
                          .sigma = 0.8,
                          .tv = SOSMC_TV_ISOTROPIC,
                          .prox_tv = SOSMC_TV_ANISOTROPIC,
                          .tolerance = 1e-8,
                          .freedom = pixels - 1};
}

/* log of the integral of exp(-U): the messages of a chain, from its first pixel to its last. */
static double row_logz(const sosmc_deblur *d, double theta)
{
    static double message[POINTS], next[POINTS], fall[POINTS];
    const double low = -6, width = 12.0 / (POINTS - 1), rate = exp(theta);
    double scale = 0, sum = 0;
    for (int k = 0; k < POINTS; k++) fall[k] = exp(-rate * width * k);
    for (int pixel = 0; pixel < d->blur.columns; pixel++) {
        double most = 0;
        for (int k = 0; k < POINTS; k++) {
            double away = (low + width * k - d->y[pixel]) / d->sigma, in = pixel == 0;
            for (int j = 0; pixel > 0 && j < POINTS; j++) in += message[j] * fall[abs(j - k)] * width;
            next[k] = in * exp(-0.5 * away * away);
            most = fmax(most, next[k]);
        }
        for (int k = 0; k < POINTS; k++) message[k] = next[k] / most;
        scale += log(most);
    }
    for (int k = 0; k < POINTS; k++) sum += message[k] * width;
    return scale + log(sum) + d->freedom * theta;
}

static double row_slope(const sosmc_deblur *d, double theta)
{
    const double h = 1e-3;
    return (row_logz(d, theta + h) - row_logz(d, theta - h)) / (2 * h);
}

/* The theta that makes the row most likely, by bisection: the likelihood rises before it and falls behind it. */
static double row_optimum(const sosmc_deblur *d)
{
    double low = -2, high = 1.5;
    assert_true(row_slope(d, low) > 0 && row_slope(d, high) < 0);
    while (high - low > 1e-4) {
        double middle = 0.5 * (low + high);
        *(row_slope(d, middle) > 0 ? &low : &high) = middle;
    }
    return 0.5 * (low + high);
}

static sosmc_kernel kernel_of(const sosmc_deblur *d, int gibbs)
{
    return gibbs ? sosmc_deblur_gibbs(d, 0.05) : sosmc_mymala(0.35, 0.3);
}

/* ------------------------------------------------------------------------------------------------ weights */

enum { LAST = 6, WEIGHED = 16 };
static const double PATH[LAST + 1] = {-0.5, -0.2, 0.1, 0.3, 0.5, 0.6, 0.7};
static const toy_path WAY = {.rows = LAST + 1, .theta = PATH};

/* Exact values along the path. */
typedef struct {
    double logz[LAST + 1], slope[LAST + 1];
} exact_row;

static void read_off(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const exact_row *exact = ctx;
    const sosmc_info *info = sosmc_last(s);
    double x[WEIGHED * SHORT], logw[WEIGHED], at = PATH[info->updates], sum = 0;
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    for (int i = 0; i < WEIGHED; i++)
        sum += exp(logw[i]) * (SHORT - 1 - exp(at) * sosmc_tv(SOSMC_TV_ISOTROPIC, 1, SHORT, x + (size_t)i * SHORT));
    estimate[0] = exp(info->logz - exact->logz[info->updates]);
    estimate[1] = estimate[0] * (sum - exact->slope[info->updates]);
}

static void tally_up(sosmc_kernel k, const sosmc_deblur *d, const exact_row *exact, int order, double ess_min,
                     stats_tally tally[2])
{
    sosmc_problem p = {
        .model = sosmc_deblur_model(d), .objective = sosmc_mmle(), .init = sosmc_standard_normal(), .theta0 = PATH};
    sosmc_settings cfg = sosmc_defaults();
    memset(tally, 0, 2 * sizeof *tally);
    cfg.scheme = sosmc_scheme_sosmc(WEIGHED);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = ess_min;
    cfg.kernel = k;
    cfg.optimiser = toy_follow(&WAY);
    cfg.seed = 700000;
    stats_run(&p, &cfg, LAST, stats_replicates(1500), read_off, exact, 2, tally);
}

static exact_row exact_values(const sosmc_deblur *d)
{
    exact_row e;
    for (int k = 0; k <= LAST; k++) {
        e.logz[k] = row_logz(d, PATH[k]);
        e.slope[k] = row_slope(d, PATH[k]);
    }
    return e;
}

/* E[Z_hat] = Z, and the same for the unnormalised mean of dU/dtheta. */
static void weights_are_exact(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    sosmc_deblur d = row_of(SHORT);
    exact_row exact = exact_values(&d);
    stats_tally tally[2];
    for (int which = 0; which < 8; which++) {
        int gibbs = which % 2, order = which / 2 % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER, always = which / 4;
        tally_up(kernel_of(&d, gibbs), &d, &exact, order, always ? 2 : 0.6, tally);
        const char *name = gibbs ? "gibbs" : "mymala";
        stats_compare(&ledger, &tally[0], 1, "%s, order %d, always %d, Zhat/Z", name, order, always);
        stats_compare(&ledger, &tally[1], 0, "%s, order %d, always %d, dU/dtheta", name, order, always);
    }
    comparisons += stats_close(&ledger);
}

/* What the test can see: the same moves without their Metropolis test. */
static void moves_without_the_test_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    sosmc_deblur d = row_of(SHORT);
    exact_row exact = exact_values(&d);
    stats_tally tally[2];
    tally_up(sosmc_myula(0.35, 0.3, SOSMC_MYULA_AS_INVARIANT), &d, &exact, SOSMC_ORDER_PAPER, 0.6, tally);
    stats_must_notice(&ledger, &tally[0], 1, "MYULA taken for invariant, Zhat/Z");
}

/* ------------------------------------------------------------------------------------------------ the best theta */

/* The mean of theta over the second half of a run. */
static double learnt(const sosmc_deblur *d, sosmc_kernel k, int weighted, uint64_t seed)
{
    enum { PARTICLES = 200, BURN = 300, KEPT = 300 };
    const double begin = -1;
    sosmc_rows start = {.data = ROW, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = 0.5};
    sosmc_problem p = {
        .model = sosmc_deblur_model(d), .objective = sosmc_mmle(), .init = sosmc_rows_source(&start), .theta0 = &begin};
    sosmc_settings cfg = sosmc_defaults();
    double sum = 0;
    cfg.scheme = weighted ? sosmc_scheme_sosmc(PARTICLES) : sosmc_scheme_unweighted(PARTICLES);
    if (!weighted) cfg.scheme.drift_at = SOSMC_AT_CURRENT;
    cfg.kernel = k;
    cfg.optimiser = sosmc_sgd(0.02);
    cfg.seed = seed;
    sosmc *s = expect_create(&p, &cfg);
    for (int i = 0; i < BURN + KEPT; i++) {
        expect_step(s);
        if (i >= BURN) sum += sosmc_theta(s)[0];
    }
    sosmc_free(s);
    return sum / KEPT;
}

static void theta_goes_where_it_is_most_likely(void **state)
{
    sosmc_deblur d = row_of(LONG), counted = d;
    double best = row_optimum(&d), off, found;
    counted.freedom = LONG; /* as if TV saw constants */
    off = row_optimum(&counted);
    print_message("    most likely: %.4f; with the number of pixels for the constant: %.4f\n", best, off);
    assert_true(fabs(off - best) > 0.1);
    for (int which = 0; which < 4; which++) {
        found = learnt(&d, kernel_of(&d, which % 2), which / 2, 40 + (uint64_t)which);
        print_message("    %s, %s: %.4f\n", which % 2 ? "gibbs" : "mymala", which / 2 ? "weighted" : "unweighted",
                      found);
        assert_true(fabs(found - best) < 0.03);
    }
    found = learnt(&counted, kernel_of(&counted, 1), 1, 50);
    assert_true(fabs(found - off) < 0.03);
    for (int weighted = 0; weighted < 2; weighted++) { /* without the Metropolis test theta ends elsewhere */
        found = learnt(&d, sosmc_myula(0.35, 0.3, SOSMC_MYULA_AS_INVARIANT), weighted, 60);
        print_message("    myula, %s: %.4f\n", weighted ? "weighted as if invariant" : "unweighted", found);
        assert_true(fabs(found - best) > 0.03);
    }
}

/* ------------------------------------------------------------------------------------------------ pictures */

enum { ROWS = 5, COLUMNS = 6, PIXELS = ROWS * COLUMNS, MOST = 2 * PIXELS };
static double seen[MOST], mask[PIXELS];

static int set_up(void **state)
{
    for (int e = 0; e < MOST; e++) seen[e] = 40 + 25 * (e / COLUMNS % 2) + 10 * sin(1.7 * e);
    for (int e = 0; e < PIXELS; e++) mask[e] = e % 7 != 3;
    return 0;
}

static sosmc_deblur picture_of(int which)
{
    sosmc_deblur d = {.blur = {.rows = ROWS, .columns = COLUMNS, .kind = (sosmc_blur_kind)(which % 3)},
                      .channels = which == 4 ? 2 : 1,
                      .y = seen,
                      .sigma = 3,
                      .tv = which % 2 ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC,
                      .prox_tv = SOSMC_TV_ANISOTROPIC,
                      .tolerance = 1e-8};
    d.blur.patch = 3;
    d.blur.sigma = 0.7;
    d.freedom = d.channels * (PIXELS - 1);
    if (which >= 3) d.blur.mask = mask;
    return d;
}

/* e^theta TV + (x - y) . grad f, whose mean is d, and the sum of grad f. y is a constant shift away from x. */
static void identities(const sosmc_deblur *d, double theta, const double *x, double sums[2])
{
    double r[PIXELS], scratch[4096];
    assert_true(sosmc_blur_scratch(&d->blur) <= 4096);
    sums[0] = sums[1] = 0;
    for (int c = 0; c < d->channels; c++) {
        const double *own = x + (size_t)c * PIXELS, *y = d->y + (size_t)c * PIXELS;
        sosmc_blur_apply(&d->blur, own, r, scratch);
        for (int e = 0; e < PIXELS; e++)
            r[e] = (r[e] - (d->blur.mask ? d->blur.mask[e] : 1) * y[e]) / (d->sigma * d->sigma);
        sosmc_blur_adjoint(&d->blur, r, r, scratch);
        sums[0] += exp(theta) * sosmc_tv(d->tv, ROWS, COLUMNS, own);
        for (int e = 0; e < PIXELS; e++) {
            sums[0] += (own[e] - 45) * r[e]; /* any constant will do: TV does not see it */
            sums[1] += r[e];
        }
    }
}

/* Independent particles, each averaged over its own sweeps: one replicate each. */
static void tally_picture(const sosmc_deblur *d, double tolerance, stats_tally tally[2])
{
    enum { PARTICLES = 300, BURN = 25, KEPT = 25 };
    static double x[PARTICLES * MOST], mean[PARTICLES][2];
    const double theta = -2;
    sosmc_rows start = {.data = seen, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = 10};
    sosmc_problem p = {
        .model = sosmc_deblur_model(d), .objective = sosmc_mmle(), .init = sosmc_rows_source(&start), .theta0 = &theta};
    sosmc_settings cfg = sosmc_defaults();
    double sums[2];
    cfg.scheme = sosmc_scheme_unweighted(PARTICLES);
    cfg.kernel = sosmc_deblur_gibbs(d, tolerance);
    cfg.optimiser = sosmc_sgd(0); /* theta stays */
    cfg.seed = stats_seed(61);
    memset(mean, 0, sizeof mean);
    memset(tally, 0, 2 * sizeof *tally);
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < BURN + KEPT; k++) {
        expect_step(s);
        if (k < BURN) continue;
        assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int i = 0; i < PARTICLES; i++) {
            identities(d, theta, x + (size_t)i * (size_t)p.model.dim_x, sums);
            for (int j = 0; j < 2; j++) mean[i][j] += sums[j] / KEPT;
        }
    }
    for (int i = 0; i < PARTICLES; i++)
        for (int j = 0; j < 2; j++) stats_add(&tally[j], mean[i][j]);
    sosmc_free(s);
}

/* Even where the linear systems are hardly solved: the Metropolis test pays for it. */
static void pictures_keep_their_law(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[2];
    for (int which = 0; which < 6; which++) {
        sosmc_deblur d = picture_of(which % 5);
        double tolerance = which == 5 ? 1 : 0.05;
        tally_picture(&d, tolerance, tally);
        stats_compare(&ledger, &tally[0], d.channels * PIXELS, "picture %d, tolerance %g, x . grad U", which,
                      tolerance);
        stats_compare(&ledger, &tally[1], 0, "picture %d, tolerance %g, sum of grad f", which, tolerance);
    }
    comparisons += stats_close(&ledger);
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

/* ------------------------------------------------------------------------------------------------ bits */

enum { CLOUD = 7, ITERATIONS = 8 };

static int identity(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    memcpy(p, b->x, (size_t)b->dim * (size_t)b->ld * sizeof *p);
    return 0;
}

typedef struct {
    sosmc_deblur d;
    sosmc_rows start;
    sosmc_problem p;
    sosmc_settings cfg;
} setting;

static void begin(setting *r, int gibbs)
{
    static const double theta0[1] = {-2};
    *r = (setting){.d = picture_of(4), .start = {.data = seen, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = 10}};
    r->p = (sosmc_problem){.model = sosmc_deblur_model(&r->d),
                           .objective = sosmc_mmle(),
                           .init = sosmc_rows_source(&r->start),
                           .theta0 = theta0};
    r->p.objective.scale = 1.0 / MOST;
    r->cfg = sosmc_defaults();
    r->cfg.scheme = sosmc_scheme_sosmc(CLOUD);
    r->cfg.scheme.ess_min = 0.9;
    r->cfg.kernel = gibbs ? sosmc_deblur_gibbs(&r->d, 0.05) : sosmc_mymala(0.5, 0.5);
    r->cfg.optimiser = sosmc_sgd(0.2);
    r->cfg.adapt[0] = (sosmc_adapt){
        .threshold = 0.7, .factor = 1.1, .min = 1e-3, .max = 2, .signal = SOSMC_SIGNAL_ACCEPT};
    r->cfg.seed = 3;
}

static void hashes(const setting *r, uint64_t hash[ITERATIONS])
{
    double accepted = 0;
    sosmc *s = expect_create(&r->p, &r->cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        expect_step(s);
        hash[k] = sosmc_hash(s);
        accepted += isnan(sosmc_last(s)->accept) ? 0 : sosmc_last(s)->accept;
    }
    assert_true(accepted > 0.5 && accepted < ITERATIONS - 1); /* some moves are accepted, some are not */
    sosmc_free(s);
}

static void threads_and_levels_give_the_same_bits(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    uint64_t first[ITERATIONS], again[ITERATIONS];
    setting r;
    for (int gibbs = 0; gibbs < 2; gibbs++) {
        begin(&r, gibbs);
        hashes(&r, first);
        assert_true(first[1] != first[0]);
        r.cfg.threads = 3;
        hashes(&r, again);
        assert_memory_equal(first, again, sizeof first);
        for (int l = 0; l < 3; l++) {
            r.cfg.simd = sosmc_simd_named(level[l]);
            if (!r.cfg.simd) continue;
            hashes(&r, again);
            assert_memory_equal(first, again, sizeof first);
        }
    }
}

static void without_a_prox_mymala_is_mala(void **state)
{
    uint64_t one[ITERATIONS], two[ITERATIONS];
    setting r;
    begin(&r, 0);
    r.p.model.prox = identity;
    hashes(&r, one);
    r.cfg.kernel = sosmc_mala(0.5);
    hashes(&r, two);
    assert_memory_equal(one, two, sizeof one);
}

static void wrong_settings_are_refused(void **state)
{
    setting r;
    begin(&r, 0);
    r.cfg.kernel.lambda = 0;
    expect_refusal(&r.p, &r.cfg, SOSMC_EINVAL, "kernel.lambda");
    begin(&r, 0);
    r.p.model.prox = NULL;
    expect_refusal(&r.p, &r.cfg, SOSMC_EINVAL, "model.prox");
    begin(&r, 1);
    r.cfg.kernel.h = 0;
    expect_refusal(&r.p, &r.cfg, SOSMC_EINVAL, "kernel.h");
    begin(&r, 1);
    r.d.envelope = 0.3; /* the kernel knows the potential without it */
    r.cfg.kernel = sosmc_deblur_gibbs(&r.d, 0.05);
    expect_refusal(&r.p, &r.cfg, SOSMC_EINVAL, "kernel.step");
}

/* The kernel of one picture with the model of another. */
static void another_model_is_noticed(void **state)
{
    setting r;
    sosmc_deblur other = picture_of(4);
    begin(&r, 1);
    r.cfg.kernel = sosmc_deblur_gibbs(&other, 0.05);
    sosmc *s = expect_create(&r.p, &r.cfg);
    expect_step(s); /* iteration 0 does not move */
    assert_int_equal(sosmc_step(s), SOSMC_EMODEL);
    assert_non_null(strstr(sosmc_message(s), "gibbs"));
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_exact),
        cmocka_unit_test(moves_without_the_test_are_noticed),
        cmocka_unit_test(theta_goes_where_it_is_most_likely),
        cmocka_unit_test(pictures_keep_their_law),
        cmocka_unit_test(as_many_comparisons_as_announced),
        cmocka_unit_test(threads_and_levels_give_the_same_bits),
        cmocka_unit_test(without_a_prox_mymala_is_mala),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(another_model_is_noticed),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
