/* test_engine_gradients.c: the gradient, the loss and log Z of every objective and both orders against sums written out
 * by hand; the hooks of an objective; and that sharing a pass of the model changes no gradient. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <sosmc/models.h>

#include "assertions.h"
#include "quartic_model.h"
#include "formulas_by_hand.h"
#include "expect_engine.h"

static void check_loss(const sosmc_objective *o, const estimate *e, double logz, const sosmc_info *info)
{
    double kl = NAN, loss = NAN;
    switch (o->loss) {
    case SOSMC_LOSS_MMLE: loss = -logz; break;
    case SOSMC_LOSS_LIKELIHOOD: loss = e->data_U + logz; break;
    case SOSMC_LOSS_FORWARD_KL: /* KL(ref || theta) = E_ref[U - U_ref] + log Z/Z_ref */
        kl = e->data_U - e->data_ref + logz;
        loss = -e->mean_score + o->b * kl;
        break;
    default: /* KL(theta || ref) = -E[U - U_ref] - log Z/Z_ref */
        kl = -e->difference - logz;
        loss = -e->mean_score + o->kl * kl;
        break;
    }
    assert_close(info->loss, loss, 1e-11);
    if (isnan(kl))
        assert_true(isnan(info->kl));
    else
        assert_close(info->kl, kl, 1e-11);
}

/* Algorithm 1: the gradient at theta_k sees the particles after the move of this iteration, and so does everything the
 * info says. */
static void follow_paper(sosmc_kernel kernel, sosmc_scheme scheme, int objective, int ramp)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(kernel, SOSMC_ORDER_PAPER);
    p.objective = quartic_objective(objective, quartic_start);
    p.objective.scale = 0.8;
    p.objective.ramp = ramp;
    p.init.exact = 1; /* declared: log Z is relative to the start, where it is zero */
    cfg.scheme = scheme;
    cfg.scheme.ess_min = 0;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 4; k++) {
        double theta[THETA];
        memcpy(theta, sosmc_theta(s), sizeof theta);
        const sosmc_info *info = expect_step(s);
        moment after = quartic_now(s);
        estimate e = by_hand_estimate(&p.objective, k, theta, after.x, after.logw);
        by_hand_check_step(&cfg, theta, e.g, after.theta, info);
        assert_close(info->ess, e.ess, 1e-12);
        assert_close(info->mean_energy, e.mean_energy, 1e-12);
        if (p.objective.score.eval)
            assert_close(info->mean_score, e.mean_score, 1e-12);
        else
            assert_true(isnan(info->mean_score));
        assert_int_equal(info->iteration, k);
        assert_int_equal(info->updates, k);
        assert_int_equal(info->gradient_updates, k);
        if (scheme.weighted)
            check_loss(&p.objective, &e, info->logz, info);
        else
            assert_true(isnan(info->loss) && isnan(info->kl) && isnan(info->logz));
    }
    assert_int_equal(sosmc_iteration(s), 4);
    sosmc_free(s);
}

/* The order of the programs: the gradient sees the particles as the last iteration left them, resampled or not. */
static void follow_authors(sosmc_kernel kernel, int objective, int ramp, double ess_min)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(kernel, SOSMC_ORDER_AUTHORS);
    p.objective = quartic_objective(objective, quartic_start);
    p.objective.ramp = ramp;
    p.init.exact = 1;
    cfg.scheme.ess_min = ess_min;
    sosmc *s = expect_create(&p, &cfg);
    moment before = quartic_now(s);
    double logz = 0;
    for (int k = 0; k < 4; k++) {
        const sosmc_info *info = expect_step(s);
        moment after = quartic_now(s);
        estimate e = by_hand_estimate(&p.objective, k, before.theta, before.x, before.logw);
        by_hand_check_step(&cfg, before.theta, e.g, after.theta, info);
        check_loss(&p.objective, &e, logz, info);
        assert_int_equal(info->gradient_updates, k);
        assert_int_equal(info->updates, k + 1);
        if (ess_min == 0) { /* an invariant kernel is weighed where it stood, ULA where it went */
            e = by_hand_estimate(&p.objective, k + 1, after.theta, kernel.invariant ? before.x : after.x, after.logw);
            assert_close(info->ess, e.ess, 1e-12);
            assert_close(info->mean_energy, e.mean_energy, 1e-12);
            if (p.objective.score.eval) assert_close(info->mean_score, e.mean_score, 1e-12);
        }
        logz = info->logz;
        before = after;
    }
    sosmc_free(s);
}

static void test_gradients_by_hand(void **state)
{
    for (int objective = 0; objective < OBJECTIVES; objective++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            follow_paper(quartic_kernel(kernel), sosmc_scheme_sosmc(N), objective, 0);
            follow_paper(quartic_kernel(kernel), sosmc_scheme_unweighted(N), objective, 0);
            follow_paper(quartic_kernel(kernel), sosmc_scheme_moved_first(N), objective, 0);
            follow_authors(quartic_kernel(kernel), objective, 0, 0);
            follow_authors(quartic_kernel(kernel), objective, 0, 2);
        }
}

/* A reward that comes in within three updates, or in one, which is at once; the loss has all of it from the first. */
static void test_ramp(void **state)
{
    for (int objective = FORWARD; objective <= REVERSE; objective++)
        for (int ramp = 1; ramp <= 3; ramp++) {
            follow_paper(quartic_kernel(ULA), sosmc_scheme_sosmc(N), objective, ramp);
            follow_paper(quartic_kernel(RWM), sosmc_scheme_unweighted(N), objective, ramp);
            follow_authors(quartic_kernel(ULA), objective, ramp, 2);
        }
}

static void test_why_no_loss(void **state)
{
    quartic m = {.shift = 0};
    const char *const reasons[] = {NULL,
                                   "does not say which loss",
                                   "no weights",
                                   "no density",
                                   "theta0 equal to theta_ref",
                                   "theta0 equal to theta_ref",
                                   NULL,
                                   NULL};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (i == 1) p.objective.loss = SOSMC_LOSS_NONE;
        if (i == 2) cfg.scheme = sosmc_scheme_unweighted(N);
        if (i == 3) p.init.logpdf = NULL;
        if (i == 4) p.objective = quartic_objective(REVERSE, quartic_away);
        if (i == 5) p.objective = quartic_objective(FORWARD, quartic_away);
        if (i == 6)
            p.objective = quartic_objective(FORWARD, NULL), p.objective.a = p.objective.b = 0, p.init.logpdf = NULL;
        if (i == 7) p.init.logpdf = NULL, p.init.exact = 1;
        sosmc *s = expect_create(&p, &cfg);
        const sosmc_info *info = expect_step(s);
        const char *why = sosmc_why_no_loss(s);
        assert_true((why != NULL) == (reasons[i] != NULL));
        if (why && reasons[i]) assert_non_null(strstr(why, reasons[i]));
        assert_true(isnan(info->loss) == (reasons[i] != NULL));
        assert_true(isnan(info->logz) == (i == 2 || i == 3 || i == 6));
        sosmc_free(s);
    }
}

/* ---------------------------------------------------------------------------- hooks */

static void test_H(void **state)
{
    quartic m = {.shift = 0};
    for (int objective = MMLE; objective <= LIKELIHOOD; objective++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        p.objective = quartic_objective(objective, NULL);
        p.objective.H = by_hand_H;
        if (objective == MMLE) p.model.grad_theta = NULL; /* not needed then */
        sosmc *s = expect_create(&p, &cfg);
        moment before = quartic_now(s);
        double g[THETA] = {0, p.objective.a * quartic_start[0], p.objective.a};
        for (int i = 0; i < N; i++) g[0] += p.objective.a * exp(before.logw[i]) * before.x[i][0];
        for (int j = 0; objective == LIKELIHOOD && j < BATCH; j++)
            by_hand_gtheta(quartic_start, quartic_row(j), 1.0 / BATCH, g);
        const sosmc_info *info = expect_step(s);
        by_hand_check_step(&cfg, quartic_start, g, sosmc_theta(s), info);
        sosmc_free(s);
    }
}

/* The objective on a cloud that stays where it is, with its hooks, as a function of theta. */
static double fixed_cloud_loss(const sosmc_objective *o, const double *theta, const moment *c)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double U = by_hand_U(theta, c->x[i]);
        sum += exp(c->logw[i]) * (o->a * U + o->energy2 * U * U);
    }
    for (int j = 0; j < BATCH; j++) {
        double U = by_hand_U(theta, quartic_row(j)), r = theta[0] * quartic_row(j)[0] + theta[2];
        sum += (o->b * U + o->energy2 * U * U + (o->penalty ? 0.5 * r * r : 0)) / BATCH;
    }
    return o->scale * sum;
}

static void test_hooks_by_finite_differences(void **state)
{
    tally t = {.h = 0};
    quartic m = {.t = &t};
    for (int hooks = 0; hooks < 4; hooks++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        p.objective = quartic_objective(LIKELIHOOD, NULL);
        p.objective.scale = 1.5;
        p.objective.loss = hooks & 1 ? SOSMC_LOSS_NONE
                                     : SOSMC_LOSS_LIKELIHOOD; /* with and without energies of the data */
        if (hooks & 1) p.objective.energy2 = 0.3;
        if (hooks & 2) p.objective.penalty = by_hand_penalty;
        cfg.optimiser = sosmc_sgd(1);
        cfg.threads = 2;
        sosmc *s = expect_create(&p, &cfg);
        moment c = quartic_now(s);
        (void)expect_step(s);
        for (int j = 0; j < THETA; j++) {
            const double eps = 1e-5;
            double up[THETA], down[THETA];
            memcpy(up, quartic_start, sizeof up);
            memcpy(down, quartic_start, sizeof down);
            up[j] += eps;
            down[j] -= eps;
            double slope = (fixed_cloud_loss(&p.objective, up, &c) - fixed_cloud_loss(&p.objective, down, &c)) /
                           (2 * eps);
            assert_close(quartic_start[j] - sosmc_theta(s)[j], slope, 1e-8);
        }
        sosmc_free(s);
    }
    assert_int_equal(atomic_load(&t.stale), 0); /* the data batch too is fresh only after its own energy */
}

/* ---------------------------------------------------------------------------- a mixture: shared passes, and log Z itself */

/* The mixture with `fresh` hidden from it: every gradient takes a pass of its own. */
static int unfused_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const sosmc_model *inner = self;
    sosmc_batch stale = *b;
    stale.fresh = 0;
    return inner->grad_theta(inner->self, theta, &stale, c, g);
}
static int unfused_prepare(const void *self, const double *theta, void *prep)
{
    const sosmc_model *inner = self;
    return inner->prepare(inner->self, theta, prep);
}
static int unfused_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_model *inner = self;
    return inner->energy(inner->self, theta, b, U, gx);
}

static const double MEANS[] = {0.0, 0.0, 2.0, 1.0, -1.5, 2.0};
static const double MIXTURE_START[] = {0.3, -0.2, 0.1};
static const sosmc_mixture MIXTURE = {.dim = DIM, .components = 3, .means = MEANS, .variance = 0.6};
static const sosmc_mixture_law LAW = {.mixture = &MIXTURE, .theta = MIXTURE_START};

static void test_fused_equals_unfused(void **state)
{
    sosmc_model inner = sosmc_mixture_model(&MIXTURE);
    inner.tile = TILE;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int variant = 0; variant < 4; variant++) {
            sosmc_problem p = {.model = inner,
                               .objective = quartic_objective(FORWARD, NULL),
                               .init = sosmc_mixture_source(&LAW),
                               .theta0 = MIXTURE_START};
            sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), variant & 1);
            cfg.scheme.ess_min = variant & 2 ? 0.97 : 0;
            cfg.optimiser = sosmc_sgd(1);
            sosmc *fused = expect_create(&p, &cfg);
            p.model.self = &inner;
            p.model.prepare = unfused_prepare;
            p.model.energy = unfused_energy;
            p.model.grad_theta = unfused_grad_theta;
            sosmc *unfused = expect_create(&p, &cfg);
            int rejections = 0;
            for (int k = 0; k < 5; k++) {
                rejections += expect_step(fused)->accept < 1;
                (void)expect_step(unfused);
                assert_true(sosmc_hash(fused) == sosmc_hash(unfused));
            }
            assert_true(kernel == ULA || rejections >= 3);
            sosmc_free(fused);
            sosmc_free(unfused);
        }
}

/* log Z of the mixture is known, and its law has equal weights exp(-U)/q. */
static void test_absolute_logz(void **state)
{
    sosmc_problem p = {.model = sosmc_mixture_model(&MIXTURE),
                       .objective = sosmc_mmle(),
                       .init = sosmc_mixture_source(&LAW),
                       .theta0 = MIXTURE_START};
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.05), SOSMC_ORDER_PAPER);
    sosmc *s = expect_create(&p, &cfg);
    const sosmc_info *info = expect_step(s);
    assert_close(info->logz, sosmc_mixture_logz(&MIXTURE), 1e-13);
    assert_close(info->loss, -sosmc_mixture_logz(&MIXTURE), 1e-13);
    assert_close(info->ess, N, 1e-13);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_equals_unfused),
        cmocka_unit_test(test_absolute_logz),
        cmocka_unit_test(test_gradients_by_hand),
        cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_why_no_loss),
        cmocka_unit_test(test_H),
        cmocka_unit_test(test_hooks_by_finite_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
