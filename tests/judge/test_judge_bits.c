/* test_judge_bits.c: a judgement has the same bits on any number of threads, at any vector level and after a checkpoint, and judging
 * leaves the run as it is: the same states at every iteration with and without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/judge.h>

#include "engine/watch.h"
#include "engine_matrix.h"
#include "exact_problems.h"
#include "expect_engine.h"
#include "judgements.h"
#include "memory_stream.h"

/* Runs of 150 iterations, whose tail begins at 64: the last of two sets of sums to begin is that of 128. */
enum { PARTICLES = 150, ITERATIONS = 150 };

static const char *const names[] = {"energy", "batches", "reverse", "forward1", "hier20", "linear5"};
enum { NAMES = sizeof names / sizeof *names };

static sosmc_settings settings_of(const exact_problem *e)
{
    sosmc_settings cfg = exact_settings(e, PARTICLES, ITERATIONS, 'c');
    cfg.seed = 3;
    return cfg;
}

/* The runs start at the best theta: one that has not converged would have no errors to compare. */
static void open_problem(exact_problem *e, int k)
{
    assert_int_equal(exact_open(e, names[k], NULL), 0);
    e->problem.theta0 = e->best;
}

/* The hash of the judgement after ITERATIONS with these settings. */
static uint64_t judged(const exact_problem *e, const sosmc_settings *cfg, const sosmc_judge_options *options)
{
    sosmc *s = expect_create(&e->problem, cfg);
    expect_steps(s, ITERATIONS);
    sosmc_judgement j = expect_judgement(s, options);
    uint64_t hash = judgement_hash(&j);
    assert_non_null(j.theta_mc_error); /* there was something to compare */
    assert_true(isfinite(j.loss.value) && isfinite(j.loss.error));
    sosmc_judgement_free(&j);
    sosmc_free(s);
    return hash;
}

static void threads_do_not_matter(void **state)
{
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, k);
        sosmc_settings cfg = settings_of(&e);
        uint64_t one = judged(&e, &cfg, NULL);
        for (int threads = 2; threads <= 3; threads++) {
            sosmc_judge_options options = {.threads = threads};
            assert_true(one == judged(&e, &cfg, &options));
            cfg.threads = threads;
            assert_true(one == judged(&e, &cfg, NULL));
            cfg.threads = 1;
        }
        cfg.seed++; /* and what is compared does depend on the run */
        assert_false(one == judged(&e, &cfg, NULL));
        exact_close(&e);
    }
}

static void levels_do_not_matter(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, k);
        sosmc_settings cfg = settings_of(&e);
        uint64_t best = judged(&e, &cfg, NULL);
        for (int l = 0; l < 3; l++) {
            cfg.simd = sosmc_simd_named(level[l]);
            if (cfg.simd) assert_true(best == judged(&e, &cfg, NULL));
        }
        exact_close(&e);
    }
}

/* Influences are centred under the whole cloud, and so are those of a data batch: over all groups they add up to nothing. */
static void influences_add_up_to_nothing(void **state)
{
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        watch_sums tail;
        const char *why;
        open_problem(&e, k);
        sosmc_settings cfg = settings_of(&e);
        sosmc *s = expect_create(&e.problem, &cfg);
        expect_steps(s, ITERATIONS);
        assert_int_equal(sosmc_i_watch_tail(s, &tail, &why), 0);
        for (int j = 0; j < e.problem.model.dim_theta; j++) {
            double sum = 0, size = 0;
            for (int c = 0; c < SOSMC_GROUPS; c++) {
                sum += tail.T[c * e.problem.model.dim_theta + j];
                size += fabs(tail.T[c * e.problem.model.dim_theta + j]);
            }
            assert_true(size > 0 && fabs(sum) < 1e-9 * size);
        }
        sosmc_free(s);
        exact_close(&e);
    }
}

/* ---------------------------------------------------------------------------- the run stays as it is */

/* Every kernel, scheme and optimiser: the same states, and the same failures, with and without what judging gathers. */
static void gathering_changes_no_iteration(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++) {
        engine_case w = engine_case_of(which);
        w.cfg.judge = 0;
        sosmc *without = engine_case_open(w);
        w.cfg.judge = 0.05;
        sosmc *with = engine_case_open(w);
        for (int k = 0; k < 140; k++) {
            assert_int_equal(sosmc_step(with), sosmc_step(without));
            if (sosmc_hash(with) != sosmc_hash(without)) fail_msg("%s differs at iteration %d", w.name, k + 1);
        }
        sosmc_free(with);
        sosmc_free(without);
    }
}

/* Judged again and again, a run goes where it would have gone, and its checkpoints are the same. */
static void judging_changes_no_iteration(void **state)
{
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        memory before = {.used = 0}, after = {.used = 0};
        open_problem(&e, k);
        sosmc_settings cfg = settings_of(&e);
        sosmc *judged_one = expect_create(&e.problem, &cfg), *other = expect_create(&e.problem, &cfg);
        for (int part = 0; part < 3; part++) {
            expect_steps(judged_one, ITERATIONS / 3);
            expect_steps(other, ITERATIONS / 3);
            memory_must_save(judged_one, &before);
            sosmc_judgement a = expect_judgement(judged_one, NULL), b = expect_judgement(judged_one, NULL);
            memory_must_save(judged_one, &after);
            assert_true(memory_same(&before, &after));
            assert_true(sosmc_hash(judged_one) == sosmc_hash(other));
            assert_true(judgement_hash(&a) == judgement_hash(&b)); /* it draws the same fresh particles */
            sosmc_judgement_free(&a);
            sosmc_judgement_free(&b);
        }
        sosmc_free(judged_one);
        sosmc_free(other);
        free(before.bytes);
        free(after.bytes);
        exact_close(&e);
    }
}

/* ---------------------------------------------------------------------------- checkpoints */

/* Saved within the tail and at both sides of where sums begin, loaded into a new engine, and run to the end. */
static void checkpoints_keep_what_was_gathered(void **state)
{
    static const int at[] = {63, 64, 65, 100, 127, 128, 129, 149};
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, k);
        sosmc_settings cfg = settings_of(&e);
        uint64_t expected = judged(&e, &cfg, NULL);
        for (size_t c = 0; c < sizeof at / sizeof *at; c++) {
            memory m = {.used = 0};
            sosmc *s = expect_create(&e.problem, &cfg), *resumed;
            expect_steps(s, at[c]);
            memory_must_save(s, &m);
            resumed = expect_create(&e.problem, &cfg);
            expect_steps(resumed, 90); /* what it gathered itself is forgotten */
            memory_must_load(resumed, &m);
            expect_steps(resumed, ITERATIONS - at[c]);
            sosmc_judgement j = expect_judgement(resumed, NULL);
            if (judgement_hash(&j) != expected) fail_msg("%s differs when resumed at iteration %d", e.name, at[c]);
            sosmc_judgement_free(&j);
            sosmc_free(s);
            sosmc_free(resumed);
            free(m.bytes);
        }
        exact_close(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),        cmocka_unit_test(levels_do_not_matter),
        cmocka_unit_test(influences_add_up_to_nothing), cmocka_unit_test(gathering_changes_no_iteration),
        cmocka_unit_test(judging_changes_no_iteration), cmocka_unit_test(checkpoints_keep_what_was_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
