/* test_engine_weights.c: weights as the ratios of densities they are, written out a second time for one particle; what
 * does not change them; and resampling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "assertions.h"
#include "quartic_model.h"
#include "formulas_by_hand.h"
#include "expect_engine.h"

static void test_constant_in_U(void **state)
{
    const double shift = 1024;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int objective = 0; objective < OBJECTIVES; objective++) {
            quartic plain = {.shift = 0}, shifted = {.shift = shift};
            sosmc_problem p = quartic_problem(&plain), q = quartic_problem(&shifted);
            sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), kernel & 1);
            p.objective = q.objective = quartic_objective(objective, quartic_start);
            cfg.scheme.ess_min = 0.8;
            sosmc *a = expect_create(&p, &cfg), *b = expect_create(&q, &cfg);
            for (int k = 0; k < 6; k++) {
                const sosmc_info *ia = expect_step(a), *ib = expect_step(b);
                moment ma = quartic_now(a), mb = quartic_now(b);
                for (int i = 0; i < N; i++) {
                    assert_close(mb.logw[i], ma.logw[i], 1e-9);
                    for (int j = 0; j < DIM; j++) assert_close(mb.x[i][j], ma.x[i][j], 1e-9);
                }
                for (int j = 0; j < THETA; j++) assert_close(mb.theta[j], ma.theta[j], 1e-9);
                assert_int_equal(ia->resampled, ib->resampled);
                assert_close(ib->ess, ia->ess, 1e-9);
                if (!isnan(ia->accept)) assert_close(ib->accept, ia->accept, 1e-9);
                assert_close(ib->mean_energy, ia->mean_energy + shift, 1e-9);
                assert_close(ib->logz, ia->logz - shift, 1e-9);
                /* -log Z moves with the constant; a likelihood or a divergence does not */
                assert_close(ib->loss, objective == MMLE ? ia->loss + shift : ia->loss, 1e-9);
            }
            sosmc_free(a);
            sosmc_free(b);
        }
}

/* With theta at rest a reversible kernel weighs nothing, to the last bit; with theta in motion, or without the Metropolis
 * step, it does. */
static void test_reversible_at_rest(void **state)
{
    quartic m = {.shift = 0};
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
            for (int moving = 0; moving <= 1; moving++) {
                sosmc_problem p = quartic_problem(&m);
                sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), order);
                p.init.exact = 1;
                cfg.optimiser = sosmc_sgd(moving ? 0.1 : 0);
                sosmc *s = expect_create(&p, &cfg);
                for (int k = 0; k < 5; k++) {
                    const sosmc_info *info = expect_step(s);
                    moment c = quartic_now(s);
                    int equal = 1, rest = kernel != ULA && !moving;
                    for (int i = 1; i < N; i++) equal &= c.logw[i] == c.logw[0];
                    if (k == 0 && (order == SOSMC_ORDER_PAPER)) rest = 1; /* nothing has happened */
                    assert_int_equal(equal, rest);
                    assert_true((info->ess == N) == rest);
                    assert_true((info->logz == 0) == rest);
                    if (rest) assert_close(c.logw[0], -log(N), 1e-14);
                }
                sosmc_free(s);
            }
}

/* The incremental weight as the ratio it is. */
static double by_hand_logG(const sosmc_kernel *k, const double *prev, const double *cur, const double *x,
                           const double *y)
{
    if (k->invariant) return by_hand_U(prev, x) - by_hand_U(cur, x);
    const double *forward = k->forward_at == SOSMC_AT_CURRENT ? cur : prev;
    const double *backward = k->backward_at == SOSMC_AT_CURRENT ? cur : prev;
    return by_hand_U(prev, x) - by_hand_U(cur, y) + by_hand_log_kernel(k, backward, y, x) -
           by_hand_log_kernel(k, forward, x, y);
}

static void follow_weights(sosmc_kernel kernel, int order)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(kernel, order);
    sosmc *s = expect_create(&p, &cfg);
    moment before = quartic_now(s);
    double prev[THETA], sum = 0, logz = NAN;
    for (int i = 0; i < N; i++) { /* W_0 = exp(-U) / q */
        double lq = -log(2 * acos(-1)) - 0.5 * (before.x[i][0] * before.x[i][0] + before.x[i][1] * before.x[i][1]);
        double W = exp(-by_hand_U(quartic_start, before.x[i]) - lq);
        assert_close(before.logw[i] - before.logw[0],
                     log(W) - (-by_hand_U(quartic_start, before.x[0]) + log(2 * acos(-1)) +
                               0.5 * (before.x[0][0] * before.x[0][0] + before.x[0][1] * before.x[0][1])),
                     1e-12);
        sum += W / N;
    }
    logz = log(sum);
    memcpy(prev, quartic_start, sizeof prev);
    for (int k = 0; k < 5; k++) {
        const sosmc_info *info = expect_step(s);
        moment after = quartic_now(s);
        const double *cur = order == SOSMC_ORDER_PAPER ? before.theta : after.theta;
        double logG[N], total = 0;
        if (order == SOSMC_ORDER_AUTHORS) memcpy(prev, before.theta, sizeof prev);
        for (int i = 0; i < N; i++) {
            int moved = order == SOSMC_ORDER_AUTHORS || k > 0;
            logG[i] = moved ? by_hand_logG(&kernel, prev, cur, before.x[i], after.x[i]) : 0;
            total += exp(before.logw[i] + logG[i]);
        }
        for (int i = 0; i < N; i++) assert_close(after.logw[i], before.logw[i] + logG[i] - log(total), 1e-10);
        logz += log(total);
        assert_close(info->logz, logz, 1e-10);
        memcpy(prev, before.theta, sizeof prev);
        before = after;
    }
    sosmc_free(s);
}

static void test_weights_by_hand(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        for (int choice = 0; choice < 4; choice++)
            for (int loud = 0; loud <= 1; loud++) {
                sosmc_kernel k = quartic_ula_at(choice & 1, choice >> 1);
                k.noise = loud ? 1.3 : 1;
                follow_weights(k, order);
            }
        for (int kernel = MALA; kernel < KERNELS; kernel++) follow_weights(quartic_kernel(kernel), order);
    }
}

static void test_cloud(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    for (int weighted = 0; weighted <= 1; weighted++) {
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (!weighted) cfg.scheme = sosmc_scheme_unweighted(N);
        sosmc *s = expect_create(&p, &cfg);
        for (int k = 0; k < 4; k++) {
            moment c = quartic_now(s);
            double x[N][DIM], logw[N], sum = 0;
            for (int i = 0; i < N; i++) sum += exp(c.logw[i]);
            assert_close(sum, 1, 1e-13);
            if (!weighted) assert_close(c.logw[3], -log(N), 1e-14);
            assert_int_equal(sosmc_cloud(s, x[0], NULL), SOSMC_OK);
            assert_int_equal(sosmc_cloud(s, NULL, logw), SOSMC_OK);
            assert_memory_equal(x, c.x, sizeof x);
            assert_memory_equal(logw, c.logw, sizeof logw);
            (void)expect_step(s);
        }
        sosmc_free(s);
    }
}

/* After resampling all weights are equal, every particle is one of the old ones, and heavy ones are there more often. */
static void test_resampled_cloud(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = expect_create(&p, &cfg);
    moment before = quartic_now(s);
    sosmc_free(s);
    cfg.scheme.ess_min = 2;
    s = expect_create(&p, &cfg);
    assert_int_equal(expect_step(s)->resampled, 1); /* iteration 0 weighs with W_0 and does not move */
    moment after = quartic_now(s);
    for (int a = 0, i = 0; a < N; a++) {
        int offspring = 0;
        while (i < N && quartic_same(after.x[i], before.x[a], DIM)) i++, offspring++;
        double expected = N * exp(before.logw[a]);
        assert_true(offspring >= floor(expected - 1e-9) && offspring <= ceil(expected + 1e-9)); /* systematic */
        if (a == N - 1) assert_int_equal(i, N);
    }
    for (int i = 0; i < N; i++) assert_close(after.logw[i], -log(N), 1e-14);
    sosmc_free(s);
}

static void test_when_to_resample(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.3), SOSMC_ORDER_PAPER);
    int happened = 0, spared = 0;
    cfg.optimiser = sosmc_sgd(0.6);
    cfg.scheme.ess_min = 0.75;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 12; k++) {
        const sosmc_info *info = expect_step(s);
        assert_int_equal(info->resampled, info->ess < 0.75 * N);
        assert_true(info->ess >= 1 && info->ess <= N * (1 + 1e-14));
        info->resampled ? happened++ : spared++;
    }
    assert_true(happened > 0 && spared > 0);
    sosmc_free(s);
    cfg.scheme.ess_min = 1; /* exact weights that are equal: ESS is N, and N is not below N */
    p.init.exact = 1;
    s = expect_create(&p, &cfg);
    assert_int_equal(expect_step(s)->resampled, 0);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_in_U),   cmocka_unit_test(test_reversible_at_rest),
        cmocka_unit_test(test_weights_by_hand), cmocka_unit_test(test_cloud),
        cmocka_unit_test(test_resampled_cloud), cmocka_unit_test(test_when_to_resample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
