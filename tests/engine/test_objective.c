/* test_objective.c: the rows of constants behind objectives and schemes, the default settings, names and version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <sosmc/sosmc.h>

static int some_score(const void *self, const sosmc_batch *b, double *s) { return 0; }

static void expect_row(sosmc_objective o, double a, double b, double kl, int loss)
{
    assert_true(o.a == a);
    assert_true(o.b == b);
    assert_true(o.kl == kl);
    assert_true(o.scale == 1.0);
    assert_true(o.energy2 == 0.0);
    assert_null((void *)(uintptr_t)o.H);
    assert_null((void *)(uintptr_t)o.penalty);
    assert_int_equal(o.loss, loss);
}

static void objectives_are_rows(void **state)
{
    const double theta_ref[2] = {1.0, 2.0};
    sosmc_score reward = {.self = theta_ref, .eval = some_score};
    sosmc_source law = sosmc_standard_normal();

    sosmc_objective mmle = sosmc_mmle();
    expect_row(mmle, 1.0, 0.0, 0.0, SOSMC_LOSS_MMLE);
    assert_int_equal(mmle.batch, 0);

    sosmc_objective likelihood = sosmc_likelihood(law, 64);
    expect_row(likelihood, -1.0, 1.0, 0.0, SOSMC_LOSS_LIKELIHOOD);
    assert_int_equal(likelihood.batch, 64);
    assert_true(likelihood.data.draw == law.draw);
    assert_true(!likelihood.score.eval);

    sosmc_objective forward = sosmc_reward_forward(reward, 0.25, law, 32, theta_ref);
    expect_row(forward, -0.25, 0.25, 0.0, SOSMC_LOSS_FORWARD_KL);
    assert_int_equal(forward.batch, 32);
    assert_true(forward.data.draw == law.draw && forward.score.eval == some_score);
    assert_ptr_equal(forward.score.self, theta_ref);
    assert_ptr_equal(forward.theta_ref, theta_ref);

    sosmc_objective reverse = sosmc_reward_reverse(reward, 0.25, theta_ref);
    expect_row(reverse, 0.0, 0.0, 0.25, SOSMC_LOSS_REVERSE_KL);
    assert_int_equal(reverse.batch, 0);
    assert_true(reverse.score.eval == some_score);
    assert_ptr_equal(reverse.theta_ref, theta_ref);
}

static void expect_scheme(sosmc_scheme s, int particles, int pool, int sweeps, int keep, int weighted, int drift_at,
                          double refresh)
{
    assert_int_equal(s.particles, particles);
    assert_int_equal(s.pool, pool);
    assert_int_equal(s.sweeps, sweeps);
    assert_int_equal(s.keep, keep);
    assert_int_equal(s.weighted, weighted);
    assert_int_equal(s.order, SOSMC_ORDER_PAPER);
    assert_int_equal(s.drift_at, drift_at);
    assert_true(s.refresh == refresh);
    assert_true(s.ess_min == (weighted ? 0.5 : 0.0));
    assert_int_equal(s.resampling, SOSMC_SYSTEMATIC);
}

static void schemes_are_rows(void **state)
{
    expect_scheme(sosmc_scheme_sosmc(500), 500, 500, 1, 1, 1, SOSMC_AT_PREVIOUS, 0.0);
    expect_scheme(sosmc_scheme_unweighted(500), 500, 500, 1, 1, 0, SOSMC_AT_PREVIOUS, 0.0);
    expect_scheme(sosmc_scheme_moved_first(500), 500, 500, 1, 1, 0, SOSMC_AT_CURRENT, 0.0);
    expect_scheme(sosmc_scheme_soul(10000), 1, 1, 10000, 5000, 0, SOSMC_AT_CURRENT, 0.0);
    expect_scheme(sosmc_scheme_soul(1), 1, 1, 1, 1, 0, SOSMC_AT_CURRENT, 0.0);
    expect_scheme(sosmc_scheme_pcd(100, 5000, 20), 100, 5000, 20, 1, 0, SOSMC_AT_CURRENT, 0.05);
}

static void defaults(void **state)
{
    sosmc_settings cfg = sosmc_defaults();
    expect_scheme(cfg.scheme, 1000, 1000, 1, 1, 1, SOSMC_AT_PREVIOUS, 0.0);
    assert_string_equal(cfg.kernel.name, sosmc_ula(0.05).name);
    assert_true(cfg.kernel.h == 0.05);
    assert_string_equal(cfg.optimiser.name, "adam");
    assert_true(cfg.optimiser.lr == 0.01);
    assert_int_equal(cfg.schedule.kind, SOSMC_SCHEDULE_CONSTANT);
    assert_true(sosmc_schedule_rate(cfg.schedule, 0.01, 1000) == 0.01);
    assert_int_equal(cfg.threads, 1);
    assert_true(cfg.seed == 0);
    assert_true(cfg.average == 0.0);
    assert_true(cfg.work_limit == 256u * 1024u * 1024u);
    assert_int_equal(cfg.on_nonfinite, SOSMC_NONFINITE_DEFAULT);
    assert_true(!cfg.alloc && !cfg.simd && cfg.comm.size == 0);
    for (int q = 0; q < 2; q++) {
        assert_true(cfg.adapt[q].factor == 1.0);
        assert_true(cfg.adapt[q].threshold == 0.95);
        assert_true(cfg.adapt[q].min == 1e-8 && cfg.adapt[q].max == 1e8);
        assert_int_equal(cfg.adapt[q].target, SOSMC_ADAPT_STEP);
        assert_int_equal(cfg.adapt[q].before_move, 0);
    }
    assert_int_equal(cfg.adapt[0].signal, SOSMC_SIGNAL_ESS);
    assert_int_equal(cfg.adapt[1].signal, SOSMC_SIGNAL_ACCEPT);
}

static void names(void **state)
{
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", SOSMC_VERSION_MAJOR, SOSMC_VERSION_MINOR, SOSMC_VERSION_PATCH);
    assert_string_equal(sosmc_version(), version);
    assert_string_equal(sosmc_version(), SOSMC_VERSION);

    const sosmc_status all[] = {SOSMC_OK,     SOSMC_STOPPED,  SOSMC_EINVAL, SOSMC_ENOMEM,
                                SOSMC_EMODEL, SOSMC_ENUMERIC, SOSMC_EIO,    SOSMC_ECOMM};
    for (int p = 0; p < 8; p++)
        for (int q = 0; q < p; q++) assert_string_not_equal(sosmc_status_name(all[p]), sosmc_status_name(all[q]));
    assert_string_equal(sosmc_status_name(SOSMC_EINVAL), "SOSMC_EINVAL");
    assert_string_equal(sosmc_status_name((sosmc_status)77), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objectives_are_rows),
        cmocka_unit_test(schemes_are_rows),
        cmocka_unit_test(defaults),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
