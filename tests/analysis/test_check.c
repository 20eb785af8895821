/* test_check.c: the library's checks of a user's model find what is wrong with it, and nothing in one that is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <sosmc/analysis.h>

#include "toys.h"

enum { DIM = 2 };
static const toy_gauss gauss = {.dim = DIM, .variance = 0.8};
static const double start[DIM] = {0.2, -0.1};

static sosmc_problem sound(void)
{
    static toy_normal law = {.mean = start};
    law.sd = sqrt(gauss.variance);
    return (sosmc_problem){
        .model = toy_gauss_model(&gauss), .objective = sosmc_mmle(), .init = toy_normal_source(&law), .theta0 = start};
}

static sosmc_settings settings(void)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(100);
    cfg.kernel = sosmc_ula(0.05);
    return cfg;
}

static const sosmc_check_item *item_named(const sosmc_check_report *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->item[i].name, name) == 0) return &r->item[i];
    return NULL;
}

static int verdict_of(const sosmc_check_report *r, const char *name)
{
    const sosmc_check_item *item = item_named(r, name);
    return item ? item->verdict : -1;
}

static void a_sound_model_passes(void **state)
{
    static const char *const names[] = {"gradient in x", "gradient in theta", "weights", "short run", "threads"};
    sosmc_problem p = sound();
    sosmc_settings cfg = settings();
    sosmc_check_report r;
    assert_int_equal(sosmc_check(&p, &cfg, NULL, &r), SOSMC_OK);
    assert_int_equal(r.count, 5);
    assert_int_equal(r.failed + r.warned, 0);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(r.item[i].name, names[i]);
        assert_int_equal(r.item[i].verdict, SOSMC_CHECK_OK);
    }
    assert_true(fabs(r.item[0].value - 1) < 1e-8 && r.item[0].error < 1e-4);
    assert_true(fabs(r.item[2].value - 1) < 4.5 * r.item[2].error);
    assert_true(fabs(r.step.curvature * gauss.variance - 1) < 0.1);
    p.theta0 = NULL; /* zeros */
    sosmc_check_options few = {.iterations = 3, .threads = 1};
    assert_int_equal(sosmc_check(&p, &cfg, &few, &r), SOSMC_OK);
    assert_int_equal(r.failed, 0);
    assert_int_equal(verdict_of(&r, "threads"), -1);
    assert_string_equal(item_named(&r, "short run")->sentence, "3 iterations, all values finite");
}

/* dU/dx is 1.01 times what it should be. */
static int wrong_gx(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    for (int e = 0; gx && e < b->dim * b->ld; e++) gx[e] *= 1.01;
    return rc;
}

static int wrong_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    int rc = toy_gauss_model(self).grad_theta(self, theta, b, c, g);
    g[0] += 0.05;
    return rc;
}

/* The energy takes its variance from a place that every thread writes to, and gives the others time to do so. */
static atomic_int shared;
static int shared_memory(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    atomic_store(&shared, (int)(b->first + 1));
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    if (atomic_load(&shared) != b->first + 1)
        for (int i = 0; i < b->n; i++) U[i] += 1e-3;
    return rc;
}

/* A hundred coordinates, of which the derivative of one is wrong. */
enum { MANY = 100, SPOILT = 57 };
static const toy_gauss wide = {.dim = MANY, .variance = 0.8};
static int one_wrong_gx(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    for (int i = 0; gx && i < b->n; i++) gx[SPOILT * b->ld + i] += 0.3;
    return rc;
}
static int one_wrong_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    int rc = toy_gauss_model(self).grad_theta(self, theta, b, c, g);
    for (int i = 0; i < b->n; i++) g[SPOILT] += c[i];
    return rc;
}

/* The energy takes the mean of the batch into account, as a network with batch normalisation does. */
static int coupled(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    double mean = 0;
    for (int i = 0; i < b->n; i++) mean += U[i] / b->n;
    for (int i = 0; i < b->n; i++) U[i] -= mean;
    return rc;
}

static int forgetful(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    static double drift;
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    for (int i = 0; i < b->n; i++) U[i] += drift;
    drift += 1e-9;
    return rc;
}

static int refuses(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx) { return 1; }
static int draws_nothing(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x) { return 1; }

static void faults_are_found(void **state)
{
    sosmc_settings cfg = settings();
    sosmc_check_options alone = {.threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    p.model.energy = wrong_gx;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_FAIL);
    assert_non_null(strstr(item_named(&r, "gradient in x")->sentence, "gx does not match the energy"));
    p = sound();
    p.model.grad_theta = wrong_theta;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_OK);
    assert_int_equal(verdict_of(&r, "gradient in theta"), SOSMC_CHECK_FAIL);
    p = sound();
    p.model.energy = refuses;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_string_equal(item_named(&r, "gradient in x")->sentence, "the callback returned an error");
    assert_int_equal(verdict_of(&r, "short run"), SOSMC_CHECK_FAIL);
    p = sound();
    p.init.draw = draws_nothing;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "initial law"), SOSMC_CHECK_FAIL);
}

/* dU/dtheta of the toy, with faults: the sign of the second parameter, a particle, the work of an earlier call, an error. */
enum { SOUND, SIGN, PARTICLE, STALE, ERROR, NOT_A_NUMBER, FAULTS };
static int fault;
static int own_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double score = (theta[j] - b->x[j * b->ld + i]) / gauss.variance;
            if (fault == SIGN && j == 1) score = -score;
            if (fault == PARTICLE && i == 6) score *= 1 + 1e-6;
            if (fault == STALE && b->fresh) score += 1e-3;
            if (fault == NOT_A_NUMBER && i == 3) score = NAN;
            D[j * b->ld + i] = score;
        }
    return fault == ERROR;
}

static void wrong_scores_are_found(void **state)
{
    static const char *const says[FAULTS] = {
        [SOUND] = "each is what grad_theta gives for its particle alone",
        [SIGN] = "scores and grad_theta differ for parameter 1 by 2 of its largest score",
        [PARTICLE] = "scores and grad_theta differ for parameter",
        [STALE] = "of its largest score, in a batch that is fresh",
        [ERROR] = "the callback returned an error",
        [NOT_A_NUMBER] = "scores and grad_theta differ for parameter 0 by inf"};
    sosmc_settings cfg = settings();
    sosmc_problem p = sound();
    sosmc_check_options options = {.iterations = -1, .threads = 1};
    sosmc_check_report r;
    p.model.scores = own_scores;
    for (fault = SOUND; fault < FAULTS; fault++) {
        assert_int_equal(sosmc_check(&p, &cfg, &options, &r), SOSMC_OK);
        assert_int_equal(verdict_of(&r, "gradient in theta"), SOSMC_CHECK_OK);
        assert_int_equal(verdict_of(&r, "scores"), fault == SOUND ? SOSMC_CHECK_OK : SOSMC_CHECK_FAIL);
        assert_int_equal(r.failed, fault != SOUND);
        assert_non_null(strstr(item_named(&r, "scores")->sentence, says[fault]));
    }
}

/* U = sum_j 100 log cosh(2 (x_j - theta_j)) in float, whose remainder is quadratic for small steps only, and whose energies are
 * rounded so much that the smallest steps tell nothing. *self is the factor by which both gradients are wrong. */
static double curved_part(float away) { return 100 * (fabsf(2 * away) + log1pf(expf(-fabsf(4 * away)))); }

static int curved_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        U[i] = 0;
        for (int j = 0; j < b->dim; j++) {
            float away = (float)b->x[j * b->ld + i] - (float)theta[j];
            U[i] += (float)curved_part(away);
            if (gx) gx[j * b->ld + i] = *(const double *)self * 200 * tanhf(2 * away);
        }
    }
    return 0;
}

static int curved_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < b->dim; j++)
            g[j] -= c[i] * *(const double *)self * 200 * tanhf(2 * (float)(b->x[j * b->ld + i] - theta[j]));
    return 0;
}

static void rounding_and_curvature_are_no_faults(void **state)
{
    static const double right = 1, wrong[] = {0.99, 1.01, 0.9, 1.1, -1};
    sosmc_check_options alone = {.iterations = -1, .threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    sosmc_settings cfg = settings();
    cfg.scheme = sosmc_scheme_unweighted(100);
    p.model = (sosmc_model){.dim_x = DIM,
                            .dim_theta = DIM,
                            .rounding = 1.2e-7,
                            .self = &right,
                            .energy = curved_energy,
                            .grad_theta = curved_grad_theta};
    for (cfg.seed = 0; cfg.seed < 100; cfg.seed++) { /* the seed names the particles where the check is made */
        assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
        if (r.failed) fail_msg("seed %d: %s; %s", (int)cfg.seed, r.item[0].sentence, r.item[1].sentence);
        assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_OK);
        assert_int_equal(verdict_of(&r, "gradient in theta"), SOSMC_CHECK_OK);
    }
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        p.model.self = &wrong[k];
        for (cfg.seed = 0; cfg.seed < 20; cfg.seed++) {
            assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
            assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_FAIL);
            assert_int_equal(verdict_of(&r, "gradient in theta"), SOSMC_CHECK_FAIL);
        }
    }
}

/* U = the toy's + sum_j cos(x_j + theta_j) / 10, which is rounded without a word of it: to nine digits, to float, by noise of nine digits
 * as a badly conditioned matrix makes it. Both gradients are right, or have a factor, a sign, or lack the second term. */
enum { DIGITS, FLOAT, NOISE, ROUNDINGS };
enum { RIGHT, FACTOR, TURNED, DROPPED, MISTAKES };
static int rounding, mistake;

static double rounded(double U)
{
    uint64_t bits;
    int power;
    double digits = frexp(U, &power);
    if (rounding == FLOAT) return (float)U;
    if (rounding == DIGITS) return ldexp(nearbyint(digits * 1e9) / 1e9, power);
    memcpy(&bits, &U, sizeof bits);
    bits = (bits ^ bits >> 31) * 0x9e3779b97f4a7c15u;
    return U * (1 + 1e-9 * ((double)(bits >> 11) / (double)(UINT64_C(1) << 53) - 0.5));
}

static double mistaken(double toy, double rest)
{
    if (mistake == DROPPED) return toy;
    return (toy + rest) * (mistake == FACTOR ? 1.001 : mistake == TURNED ? -1 : 1);
}

static int rounded_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = toy_gauss_model(self).energy(self, theta, b, U, gx);
    for (int i = 0; i < b->n; i++) {
        for (int j = 0; j < b->dim; j++) {
            double at = b->x[j * b->ld + i] + theta[j];
            U[i] += 0.1 * cos(at);
            if (gx) gx[j * b->ld + i] = mistaken(gx[j * b->ld + i], -0.1 * sin(at));
        }
        U[i] = rounded(U[i]);
    }
    return rc;
}

static int rounded_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i];
            g[j] += c[i] * mistaken((theta[j] - x) / gauss.variance, -0.1 * sin(x + theta[j]));
        }
    return 0;
}

/* Whether a gradient is right does not hang on the seed, which names the particles and the direction. */
static void rounded_energies_are_no_faults_and_hide_none(void **state)
{
    sosmc_check_options alone = {.iterations = -1, .threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    sosmc_settings cfg = settings();
    cfg.scheme = sosmc_scheme_unweighted(100);
    p.model.energy = rounded_energy;
    p.model.grad_theta = rounded_grad_theta;
    for (rounding = DIGITS; rounding < ROUNDINGS; rounding++)
        for (mistake = RIGHT; mistake < MISTAKES; mistake++)
            for (cfg.seed = 0; cfg.seed < (mistake ? 20 : 200); cfg.seed++) {
                assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
                for (int i = 0; i < 2; i++)
                    if (r.item[i].verdict != (mistake ? SOSMC_CHECK_FAIL : SOSMC_CHECK_OK))
                        fail_msg("rounding %d, mistake %d, seed %d: %s", rounding, mistake, (int)cfg.seed,
                                 r.item[i].sentence);
            }
}

/* The moves of ula with a log-weight that is too large by 0.02. */
static int wrong_weights(const sosmc_kernel *k, sosmc_move *m)
{
    int rc = sosmc_ula(k->h).step(k, m);
    for (int i = 0; m->logG && i < m->b.n; i++) m->logG[i] += 0.02;
    return rc;
}

static void wrong_weights_are_found(void **state)
{
    sosmc_check_options alone = {.threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    sosmc_settings cfg = settings();
    cfg.kernel.step = wrong_weights;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "weights"), SOSMC_CHECK_FAIL);
    assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_OK);
    assert_non_null(strstr(item_named(&r, "weights")->sentence, "the kernel do not agree"));
}

/* A step that is too large for weights, of a sound model: a few paths carry their mean, so that nothing can be said. */
static void weights_of_few_paths_are_not_known(void **state)
{
    sosmc_check_options alone = {.threads = 1};
    sosmc_check_report r;
    sosmc_problem p = {.model = toy_gauss_model(&wide), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    sosmc_settings cfg = settings();
    cfg.kernel = sosmc_ula(0.7);
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "weights"), SOSMC_CHECK_UNKNOWN);
    assert_non_null(strstr(item_named(&r, "weights")->sentence, "too coarse to tell, from an effective "));
    assert_int_equal(r.failed, 0);
}

/* Without settings the model alone is tested; the first particles come from anywhere. */
static void a_model_alone_is_checked(void **state)
{
    sosmc_check_report r;
    sosmc_problem p = sound();
    p.init = (sosmc_source){.draw = NULL};
    assert_int_equal(sosmc_check(&p, NULL, NULL, &r), SOSMC_OK);
    assert_int_equal(r.count, 2);
    assert_int_equal(r.failed, 0);
    p.model.energy = wrong_gx;
    assert_int_equal(sosmc_check(&p, NULL, NULL, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_FAIL);
}

static int no_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *x)
{
    memcpy(x, b->x, (size_t)b->dim * (size_t)b->ld * sizeof *x);
    return 0;
}

/* Where a kernel uses the prox, gx is that of the smooth part: it differs from the gradient of U in a right model too. */
static void a_smooth_part_is_not_compared(void **state)
{
    sosmc_check_options alone = {.threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    sosmc_settings cfg = settings();
    p.model.energy = wrong_gx;
    p.model.prox = no_prox;
    cfg.kernel = sosmc_myula(0.05, 0.05, SOSMC_MYULA_RATIO);
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "gradient in x"), SOSMC_CHECK_SKIP);
    assert_int_equal(verdict_of(&r, "gradient in theta"), SOSMC_CHECK_OK);
    assert_int_equal(r.failed, 0);
}

static void shared_memory_is_found(void **state)
{
    sosmc_settings cfg = settings();
    sosmc_problem p = sound();
    sosmc_check_options options = {.iterations = 1, .threads = 4};
    sosmc_check_report r;
    p.model.energy = shared_memory;
    p.objective = (sosmc_objective){0}; /* nothing is optimised: the weights need not be checked */
    assert_int_equal(sosmc_check(&p, &cfg, &options, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "weights"), SOSMC_CHECK_SKIP);
    assert_int_equal(verdict_of(&r, "threads"), SOSMC_CHECK_FAIL);
}

/* The coordinate that is wrong is named, in words and as a number; a model with one big tile is checked as any other. */
static void the_wrong_coordinate_is_named(void **state)
{
    static const char *const names[] = {"gradient in x", "gradient in theta"};
    for (int which = 0; which < 2; which++)
        for (int tile = 0; tile < 2; tile++) {
            sosmc_settings cfg = settings();
            sosmc_check_report r;
            sosmc_problem p = {
                .model = toy_gauss_model(&wide), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
            cfg.scheme = sosmc_scheme_unweighted(100); /* weights are not what this is about, and they take long */
            if (which == 0) p.model.energy = one_wrong_gx;
            if (which == 1) p.model.grad_theta = one_wrong_theta;
            if (tile) p.model.tile = 1 << 30;
            assert_int_equal(sosmc_check(&p, &cfg, NULL, &r), SOSMC_OK);
            const sosmc_check_item *item = item_named(&r, names[which]), *other = item_named(&r, names[1 - which]);
            assert_int_equal(item->verdict, SOSMC_CHECK_FAIL);
            assert_int_equal(item->coordinate, SPOILT);
            assert_true(fabs(item->value - item->limit) > item->error);
            assert_non_null(strstr(item->sentence, "in coordinate 57, counted from 0, it says "));
            assert_int_equal(other->verdict, SOSMC_CHECK_OK);
            assert_int_equal(other->coordinate, -1);
            assert_true(fabs(other->value - other->limit) < other->error);
            assert_int_equal(verdict_of(&r, "threads"), tile ? SOSMC_CHECK_SKIP : SOSMC_CHECK_OK);
        }
}

static void impure_energies_are_found(void **state)
{
    sosmc_settings cfg = settings();
    sosmc_check_options alone = {.threads = 1};
    sosmc_check_report r;
    sosmc_problem p = sound();
    p.model.energy = coupled;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "particles"), SOSMC_CHECK_FAIL);
    const sosmc_check_item *item = item_named(&r, "particles");
    assert_true(item && strstr(item->sentence, "the energy of particle 0 is another"));
    p.model.energy = forgetful;
    assert_int_equal(sosmc_check(&p, &cfg, &alone, &r), SOSMC_OK);
    assert_int_equal(verdict_of(&r, "repeated"), SOSMC_CHECK_FAIL);
}

static void large_steps_are_warned_of(void **state)
{
    sosmc_settings cfg = settings();
    sosmc_problem p = sound();
    sosmc_step_check step;
    cfg.kernel = sosmc_ula(1.2); /* L is 1.25, so 0.4 is safe */
    assert_int_equal(sosmc_check_step(&p, &cfg, &step), SOSMC_OK);
    assert_true(fabs(step.beyond - 3) < 0.1 && fabs(step.largest - 0.4) < 0.01 && step.h == 1.2);
    cfg.kernel = sosmc_leapfrog(0.5, 1, 1); /* ula at 1/8 */
    assert_int_equal(sosmc_check_step(&p, &cfg, &step), SOSMC_OK);
    assert_true(step.h == 0.125 && fabs(step.beyond - 0.3125) < 0.01 && fabs(step.largest - sqrt(0.8)) < 0.02);
    cfg.kernel = sosmc_mala(1.2);
    assert_int_equal(sosmc_check_step(&p, &cfg, &step), SOSMC_OK);
    assert_true(step.h == 0 && isnan(step.curvature));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_model_passes),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(wrong_scores_are_found),
        cmocka_unit_test(rounding_and_curvature_are_no_faults),
        cmocka_unit_test(rounded_energies_are_no_faults_and_hide_none),
        cmocka_unit_test(wrong_weights_are_found),
        cmocka_unit_test(weights_of_few_paths_are_not_known),
        cmocka_unit_test(a_model_alone_is_checked),
        cmocka_unit_test(a_smooth_part_is_not_compared),
        cmocka_unit_test(shared_memory_is_found),
        cmocka_unit_test(the_wrong_coordinate_is_named),
        cmocka_unit_test(impure_energies_are_found),
        cmocka_unit_test(large_steps_are_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
