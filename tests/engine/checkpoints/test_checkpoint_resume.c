/* test_checkpoint_resume.c: a run that is stopped and taken up again is the run that was never stopped.
 *
 * The state hash is compared at every iteration, for every place to stop, with other numbers of threads and at other
 * vector levels. A step that failed can be repaired by loading, and is never continued as if it were whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/engine_inside.h"
#include "expect_engine.h"
#include "record.h"

static void resume_equals_uninterrupted(void **state)
{
    const char *const levels[] = {"plain", "avx2", "avx512"};
    const int threads[] = {1, 3, 2};
    for (int which = 0; which < ENGINE_CASES; which++) {
        engine_case w = engine_case_of(which);
        record *r = record_run(&w);
        for (int k = 0; k <= K; k++) {
            engine_case other = w;
            other.cfg.threads = threads[k % 3];
            other.cfg.simd = sosmc_simd_named(levels[(k + which) % 3]); /* NULL: the best of this machine */
            sosmc *s = engine_case_open(other);
            memory_must_load(s, &r->at[k]);
            record_follow(s, &w, r, k, 1);
            sosmc_free(s);
        }
        record_free(r);
    }
}

/* The settings really do what the test is meant to stop. */
static void the_cases_are_eventful(void **state)
{
    int resampled = 0, dropped[2] = {0}, adapted = 0, averaged = 0, accepted = 0;
    for (int which = 0; which < ENGINE_CASES; which++) {
        engine_case w = engine_case_of(which);
        sosmc *s = engine_case_open(w);
        double h = s->now->v.h, rate = s->now->v.rate;
        for (int k = 0; k < K; k++) {
            expect_steps(s, 1);
            resampled += sosmc_last(s)->resampled;
            if (which == DROPPED || which == DROPPED_MALA) dropped[which - DROPPED] += sosmc_last(s)->nonfinite;
            accepted += sosmc_last(s)->accept < 1.0;
        }
        adapted += s->now->v.h != h;
        adapted += s->now->v.rate != rate;
        averaged += s->now->v.averaged > 0;
        sosmc_free(s);
    }
    assert_true(resampled >= 10);
    assert_true(dropped[0] >= 3 && dropped[1] >= 3);
    assert_true(adapted >= 4);
    assert_true(averaged >= 4);
    assert_true(accepted >= 20);
}

static void load_into_an_engine_that_has_stepped(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++) {
        engine_case w = engine_case_of(which);
        record *r = record_run(&w);
        w.cfg.threads = 2;
        sosmc *s = engine_case_open(w);
        expect_steps(s, K + 3);
        for (int k = K; k >= 0; k--) {
            memory_must_load(s, &r->at[k]);
            record_follow(s, &w, r, k, 0);
        }
        sosmc_free(s);
        record_free(r);
    }
}

/* Where a model parks depends on work_limit; what a run computes does not. */
static void parking_is_not_part_of_the_state(void **state)
{
    const int which[] = {ULA_PAPER, ULA_AUTHORS, MALA_AUTHORS, UNWEIGHTED_AUTHORS, SOUL};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++) {
        engine_case w = engine_case_of(which[q]);
        record *r = record_run(&w);
        w.cfg.work_limit = 0;
        sosmc *s = engine_case_open(w);
        for (int k = 0; k <= K; k++) {
            memory_must_load(s, &r->at[k]);
            record_follow(s, &w, r, k, 0);
        }
        sosmc_free(s);
        record_free(r);
    }
}

/* ---------------------------------------------------------------------------- after a failure */

/* A step that failed half-way can be repaired by loading ... */
static void loading_repairs_a_failed_step(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++)
        for (int call = 1; call <= 3; call++) {
            engine_case w = engine_case_of(which);
            record *r = record_run(&w);
            sosmc *s = engine_case_open(w);
            expect_steps(s, 3);
            atomic_store(&engine_case_energy_breaks, call);
            sosmc_status status = sosmc_step(s);
            atomic_store(&engine_case_energy_breaks, 0);
            if (status == SOSMC_OK) { /* so few calls per step */
                assert_true(call > 1);
            } else {
                assert_int_equal(status, SOSMC_EMODEL);
                memory_must_load(s, &r->at[3]);
                record_follow(s, &w, r, 3, 0);
            }
            sosmc_free(s);
            record_free(r);
        }
}

/* ... and must not pass for a whole one: to go on from it, or to save it, either is refused or gives the run that was
 * never disturbed. */
static void a_failed_step_is_not_continued(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++)
        for (int saved = 0; saved < 2; saved++) {
            engine_case w = engine_case_of(which);
            record *r = record_run(&w);
            sosmc *s = engine_case_open(w);
            memory m = {.used = 0};
            expect_steps(s, 3);
            atomic_store(&engine_case_energy_breaks, w.cfg.scheme.particles > 64 ? 3 : 1);
            sosmc_status status = sosmc_step(s);
            atomic_store(&engine_case_energy_breaks, 0);
            assert_int_equal(status, SOSMC_EMODEL);
            if (saved) {
                status = memory_save(s, &m);
                if (status == SOSMC_OK) memory_must_load(s, &m);
            } else {
                status = SOSMC_OK;
            }
            for (int k = (int)sosmc_iteration(s); k < K && status == SOSMC_OK; k++) status = sosmc_step(s);
            if (status == SOSMC_OK && sosmc_hash(s) != r->hash[K])
                fail_msg("%s: a failed step was %s without a word, and the run is another one", w.name,
                         saved ? "saved and taken up again" : "continued");
            sosmc_free(s);
            free(m.bytes);
            record_free(r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_equals_uninterrupted),          cmocka_unit_test(the_cases_are_eventful),
        cmocka_unit_test(load_into_an_engine_that_has_stepped), cmocka_unit_test(parking_is_not_part_of_the_state),
        cmocka_unit_test(loading_repairs_a_failed_step),        cmocka_unit_test(a_failed_step_is_not_continued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
