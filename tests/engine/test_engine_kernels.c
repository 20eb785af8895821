/* test_engine_kernels.c: what a kernel does to a particle, from named random numbers and written out by hand: Langevin
 * moves, Metropolis steps, and what they have in common. */
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

static void test_hmc_of_one_step_is_mala(void **state)
{
    const double eps = 0.8, mass = 1.7;
    quartic m = {.shift = 0};
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_hmc(eps, 1, mass), order);
        cfg.scheme.ess_min = 0.9;
        sosmc *hmc = expect_create(&p, &cfg);
        cfg.kernel = sosmc_mala(eps * eps / (2 * mass));
        sosmc *mala = expect_create(&p, &cfg);
        double rejected = 0;
        for (int k = 0; k < 6; k++) {
            const sosmc_info *a = expect_step(hmc), *b = expect_step(mala);
            moment ma = quartic_now(hmc), mb = quartic_now(mala);
            for (int i = 0; i < N; i++) {
                assert_close(ma.logw[i], mb.logw[i], 1e-10);
                for (int j = 0; j < DIM; j++) assert_close(ma.x[i][j], mb.x[i][j], 1e-10);
            }
            for (int j = 0; j < THETA; j++) assert_close(ma.theta[j], mb.theta[j], 1e-10);
            if (isnan(b->accept)) continue;
            assert_close(a->accept, b->accept, 1e-10);
            rejected += 1 - b->accept;
        }
        assert_true(rejected > 0.1);
        sosmc_free(hmc);
        sosmc_free(mala);
    }
}

/* With theta at rest, weights are all that distinguishes a weighted scheme that never resamples. */
static void test_weighted_moves_like_unweighted(void **state)
{
    quartic m = {.shift = 0};
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            sosmc_problem p = quartic_problem(&m);
            sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), order);
            cfg.optimiser = sosmc_sgd(0);
            sosmc *weighted = expect_create(&p, &cfg);
            cfg.scheme = sosmc_scheme_unweighted(N);
            cfg.scheme.order = order;
            sosmc *unweighted = expect_create(&p, &cfg);
            for (int k = 0; k < 5; k++) {
                (void)expect_step(weighted);
                const sosmc_info *info = expect_step(unweighted);
                moment a = quartic_now(weighted), b = quartic_now(unweighted);
                assert_memory_equal(a.x, b.x, sizeof a.x);
                assert_true(info->ess == N);
            }
            sosmc_free(weighted);
            sosmc_free(unweighted);
        }
}

/* The move itself, from named normals: what ULA does to a particle, at which theta, and that noise 0 is gradient descent. */
static void test_ula_move(void **state)
{
    quartic m = {.shift = 0};
    for (int variant = 0; variant < 8; variant++) {
        int order = variant & 1, loud = variant & 2;
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), order);
        cfg.scheme = variant & 4 ? sosmc_scheme_moved_first(N) : sosmc_scheme_unweighted(N);
        cfg.scheme.order = order;
        cfg.kernel.noise = loud ? 1.4 : 0;
        sosmc *s = expect_create(&p, &cfg);
        moment before = quartic_now(s);
        double prev[THETA];
        memcpy(prev, quartic_start, sizeof prev);
        for (int k = 0; k < 4; k++) {
            (void)expect_step(s);
            moment after = quartic_now(s);
            int at_current = variant & 4, moved = k > 0 || order == SOSMC_ORDER_AUTHORS || at_current;
            const double *cur = order == SOSMC_ORDER_PAPER ? before.theta : after.theta;
            if (order == SOSMC_ORDER_AUTHORS) memcpy(prev, before.theta, sizeof prev);
            for (int i = 0; i < N; i++) {
                double z[DIM], g[DIM];
                by_hand_normals(&cfg, SOSMC_STREAM_MOVE, k, i, z);
                by_hand_gx(at_current ? cur : prev, before.x[i], g);
                for (int j = 0; j < DIM; j++) {
                    double y = before.x[i][j] - 0.1 * g[j] + sqrt(0.2) * cfg.kernel.noise * z[j];
                    assert_close(after.x[i][j], moved ? y : before.x[i][j], 1e-13);
                }
            }
            memcpy(prev, before.theta, sizeof prev);
            before = after;
        }
        sosmc_free(s);
    }
}

/* Where the kernel proposes to go from x, given normals z, and the log of the Metropolis ratio. */
static double by_hand_proposal(const sosmc_kernel *k, int which, const double *theta, const double *x, const double *z,
                               double *y)
{
    double g[DIM], p[DIM], energy = by_hand_U(theta, x);
    memcpy(y, x, DIM * sizeof *y);
    by_hand_gx(theta, x, g);
    if (which <= RWM) {
        for (int j = 0; j < DIM; j++) y[j] += sqrt(2 * k->h) * z[j] - (which == MALA ? k->h * g[j] : 0);
        double ratio = energy - by_hand_U(theta, y);
        return which == RWM ? ratio : ratio + by_hand_log_kernel(k, theta, y, x) - by_hand_log_kernel(k, theta, x, y);
    }
    for (int j = 0; j < DIM; j++) p[j] = sqrt(k->mass) * z[j], energy += 0.5 * p[j] * p[j] / k->mass;
    for (int l = 0; l < k->leapfrog; l++) {
        for (int j = 0; j < DIM; j++) p[j] -= 0.5 * k->h * g[j], y[j] += k->h / k->mass * p[j];
        by_hand_gx(theta, y, g);
        for (int j = 0; j < DIM; j++) p[j] -= 0.5 * k->h * g[j];
    }
    for (int j = 0; j < DIM; j++) energy -= 0.5 * p[j] * p[j] / k->mass;
    return energy - by_hand_U(theta, y);
}

/* The factor of particle i's proposal, from the named uniform. */
static double by_hand_factor(const sosmc_settings *cfg, int64_t at, int i)
{
    double u;
    sosmc_batch one = {.dim = DIM, .n = 1, .ld = 8, .first = i};
    sosmc_uniforms((sosmc_rng){.seed = cfg->seed, .step = (uint64_t)at, .stream = SOSMC_STREAM_MOVE}, 0, &one, &u);
    return pow(cfg->kernel.spread, 2 * u - 1);
}

static void test_metropolis_by_hand(void **state)
{
    quartic m = {.shift = 0};
    for (int row = MALA; row <= KERNELS; row++) { /* the last: proposals of many scales */
        int kernel = row < KERNELS ? row : RWM;
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), SOSMC_ORDER_AUTHORS);
        if (row == KERNELS) cfg.kernel.spread = 5;
        sosmc *s = expect_create(&p, &cfg);
        moment before = quartic_now(s);
        int accepted = 0, rejected = 0;
        for (int k = 0; k < 4; k++) {
            const sosmc_info *info = expect_step(s);
            moment after = quartic_now(s);
            double mean = 0;
            for (int i = 0; i < N; i++) {
                double z[DIM], y[DIM], u;
                sosmc_batch one = {.dim = DIM, .n = 1, .ld = 8, .first = i};
                by_hand_normals(&cfg, SOSMC_STREAM_MOVE, k, i, z);
                for (int j = 0; row == KERNELS && j < DIM; j++) z[j] *= by_hand_factor(&cfg, k, i);
                sosmc_uniforms((sosmc_rng){.seed = cfg.seed, .step = (uint64_t)k, .stream = SOSMC_STREAM_ACCEPT}, 0,
                               &one, &u);
                double ratio = by_hand_proposal(&cfg.kernel, kernel, after.theta, before.x[i], z, y);
                int accept = log(u) < ratio;
                mean += fmin(1, exp(ratio)) / N;
                for (int j = 0; j < DIM; j++)
                    assert_close(after.x[i][j], accept ? y[j] : before.x[i][j], accept ? 1e-12 : 0);
                accept ? accepted++ : rejected++;
            }
            assert_close(info->accept, mean, 1e-12);
            before = after;
        }
        assert_true(accepted > 20 && rejected > 5);
        sosmc_free(s);
    }
}

/* Acceptance: certain for tiny steps, rare for huge ones, and then the particle stays where it was with all it had. */
static void test_acceptance(void **state)
{
    quartic m = {.shift = 0};
    for (int kernel = MALA; kernel < KERNELS; kernel++)
        for (int huge = 0; huge <= 1; huge++) {
            sosmc_problem p = quartic_problem(&m);
            sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), SOSMC_ORDER_AUTHORS);
            cfg.kernel.h = huge ? 1e3 : 1e-8;
            sosmc *s = expect_create(&p, &cfg);
            moment before = quartic_now(s);
            const sosmc_info *info = expect_step(s);
            moment after = quartic_now(s);
            assert_true(huge ? info->accept < 0.02 : info->accept > 0.999 && info->accept <= 1);
            int moved = 0;
            for (int i = 0; i < N; i++) moved += !quartic_same(before.x[i], after.x[i], DIM);
            assert_true(huge ? moved < 3 : moved > N - 3);
            sosmc_free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hmc_of_one_step_is_mala),
        cmocka_unit_test(test_weighted_moves_like_unweighted),
        cmocka_unit_test(test_ula_move),
        cmocka_unit_test(test_metropolis_by_hand),
        cmocka_unit_test(test_acceptance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
