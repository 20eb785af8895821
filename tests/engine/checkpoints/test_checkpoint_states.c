/* test_checkpoint_states.c: a state with a number that is none, or without a particle that counts, is not saved and
 * does not replace a healthy file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "assertions.h"
#include "checkpoint_files.h"
#include "engine/engine_inside.h"
#include "expect_engine.h"

/* Its memory turns bad in update 2, theta in update 3: what a diverging rule does. */
static void bad_rule(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k >= 2) slots[1] = NAN;
    if (k >= 3) theta[2] = NAN;
}

static void a_bad_optimiser_does_not_replace_a_healthy_state(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    engine_case w = d.w;
    memory m = {.used = 0};
    w.cfg.optimiser = (sosmc_optimiser){.name = "bad", .slots = 1, .step = bad_rule};
    sosmc_free(d.s);
    d.s = engine_case_open(w);
    expect_steps(d.s, 2);
    assert_int_equal(memory_save(d.s, &m), SOSMC_OK);
    expect_steps(d.s, 1); /* theta is still fine */
    assert_int_equal(memory_save(d.s, &m), SOSMC_ENUMERIC);
    assert_int_equal(m.used, 0);
    assert_contains(sosmc_message(d.s), "optimiser");
    assert_not_saved(&d, SOSMC_ENUMERIC);
    assert_int_equal(sosmc_step(d.s), SOSMC_ENUMERIC); /* now it is not */
    assert_not_saved(&d, SOSMC_ENUMERIC);
    free(m.bytes);
    saved_run_free(&d);
}

/* No public way leads there, so the numbers are put into the state by hand. */
static double *poke(sosmc *s, int which)
{
    state *st = s->now;
    double *const all[] = {&st->theta[1],
                           &st->theta_prev[0],
                           &st->slots[1],
                           &st->c.x[3],
                           &st->c.gx[7],
                           &st->c.U[9],
                           &st->c.R[2],
                           &st->c.Uref[1],
                           &st->logw[5],
                           &st->v.h,
                           &st->v.rate,
                           &st->v.logz,
                           &st->v.logmean,
                           &st->v.logz0,
                           st->average,
                           st->pool ? &st->pool[4] : NULL,
                           NULL};
    enum { ALL = sizeof all / sizeof *all };
    return which < ALL - 1 ? all[which] : NULL;
}

static void no_number_may_be_bad(void **state)
{
    static const double values[] = {NAN, INFINITY};
    enum { POKES = 16, POOL_MEMBER = 15 };
    engine_case w = engine_case_of(MALA_AUTHORS), pool = engine_case_of(PCD);
    const sosmc_score score = {.eval = engine_case_reward};
    w.p.objective = sosmc_reward_reverse(score, 0.5, engine_case_reference);
    w.cfg.optimiser = sosmc_adam(0.05);
    saved_run d = saved_run_new(ULA_PAPER);
    for (int which = 0; which < POKES; which++)
        for (int v = 0; v < 2; v++) {
            sosmc_free(d.s);
            d.s = engine_case_open(which == POOL_MEMBER ? pool : w);
            expect_steps(d.s, 5);
            double *target = poke(d.s, which), healthy = *target;
            memory m = {.used = 0};
            assert_non_null(target);
            *target = values[v];
            sosmc_status status = memory_save(d.s, &m);
            if (status != SOSMC_ENUMERIC)
                fail_msg("number %d of the state is %g and was saved: %d", which, values[v], status);
            assert_int_equal(m.used, 0);
            assert_not_saved(&d, SOSMC_ENUMERIC);
            *target = healthy;
            assert_int_equal(memory_save(d.s, &m), SOSMC_OK);
            free(m.bytes);
        }
    saved_run_free(&d);
}

/* A weight of zero is no defect; a cloud of nothing else is. */
static void a_dead_cloud_is_not_saved(void **state)
{
    for (int which = ULA_PAPER; which <= MALA_AUTHORS; which++) {
        saved_run d = saved_run_new(which);
        memory m = {.used = 0};
        atomic_store(&engine_case_energy_is_nan, 1);
        sosmc_status status = sosmc_step(d.s);
        atomic_store(&engine_case_energy_is_nan, 0);
        assert_int_equal(status, SOSMC_ENUMERIC);
        if (memory_save(d.s, &m) == SOSMC_OK) fail_msg("%s: a cloud without weight was saved", d.w.name);
        assert_not_saved(&d, SOSMC_ENUMERIC);
        memory_must_load(d.s, &d.r->at[3]); /* nothing of the dead cloud comes along */
        record_follow(d.s, &d.w, d.r, 3, 0);
        for (int i = 0; i < 3 * 64; i++) d.s->now->logw[i] = -INFINITY; /* dead, and no step has failed of it */
        assert_not_saved(&d, SOSMC_ENUMERIC);
        free(m.bytes);
        saved_run_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_optimiser_does_not_replace_a_healthy_state),
        cmocka_unit_test(no_number_may_be_bad),
        cmocka_unit_test(a_dead_cloud_is_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
