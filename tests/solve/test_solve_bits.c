/* test_solve_bits.c: a solver takes the same steps, bit for bit, on any number of threads, with any vector code, and when it is saved
 * and loaded after any of its steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/solve.h>

#include "exact_problems.h"
#include "memory_stream.h"

enum { PARTICLES = 128, MOST_STEPS = 4000 };

/* One of each objective, and one with a shift in more dimensions than a tile has particles of a group. */
static const char *const names[] = {"forward1", "reverse", "energy", "hier20", "linear5"};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { NAMES = 2, DENSE = 5 }; /* everything takes many times as long */
#else
enum { NAMES = sizeof names / sizeof *names, DENSE = 30 };
#endif

static const sosmc_solve_options options = {.particles = PARTICLES, .seed = 5, .precision = 0};

static void open_problem(exact_problem *e, const char *name)
{
    assert_int_equal(exact_open(e, name, NULL), 0);
    e->problem.init = (sosmc_source){.draw = NULL};
}

static sosmc_solver *create(const exact_problem *e, const sosmc_solve_options *o)
{
    sosmc_solver *s;
    assert_int_equal(sosmc_solver_create(&s, &e->problem, o), SOSMC_OK);
    return s;
}

static int done(const sosmc_solver *s) { return sosmc_solver_info(s)->phase == SOSMC_PHASE_DONE; }

/* The hashes after every step; returns how many there are. */
static int path_of(const exact_problem *e, const sosmc_solve_options *o, uint64_t *hash)
{
    sosmc_solver *s = create(e, o);
    int n = 0;
    for (; !done(s) && n < MOST_STEPS; n++) {
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        hash[n] = sosmc_solver_hash(s);
        assert_true(n == 0 || hash[n] != hash[n - 1]); /* every step changes something */
    }
    assert_true(done(s));
    sosmc_solver_free(s);
    return n;
}

static uint64_t first[MOST_STEPS], other[MOST_STEPS];

static void expect_same_path(int n, const exact_problem *e, const sosmc_solve_options *o)
{
    assert_int_equal(path_of(e, o, other), n);
    assert_memory_equal(first, other, (size_t)n * sizeof *first);
}

static void threads_do_not_matter(void **state)
{
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, names[k]);
        int n = path_of(&e, &options, first);
        for (int threads = 2; threads <= 3; threads++) {
            sosmc_solve_options o = options;
            o.threads = threads;
            expect_same_path(n, &e, &o);
        }
        sosmc_solve_options o = options; /* and what is compared does depend on the seed */
        o.seed++;
        (void)path_of(&e, &o, other);
        assert_true(first[0] != other[0]);
        exact_close(&e);
    }
}

static void levels_do_not_matter(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, names[k]);
        int n = path_of(&e, &options, first);
        for (int j = 0; j < 3; j++) {
            sosmc_solve_options o = options;
            o.simd = sosmc_simd_named(level[j]);
            if (o.simd) expect_same_path(n, &e, &o);
        }
        exact_close(&e);
    }
}

/* Saved after step k and loaded into another solver, which then goes to the end: the first DENSE values of k, and `tries` more, spread
 * evenly. */
static void resume_everywhere(const exact_problem *e, int tries)
{
    int n = path_of(e, &options, first), every = n / tries + 1, phases = 0, phase = -1;
    sosmc_solver *s = create(e, &options);
    for (int k = 0; k < n; k++) {
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        int begins = sosmc_solver_info(s)->phase != phase; /* the first step in a phase */
        phase = sosmc_solver_info(s)->phase;
        if (k > DENSE && k % every != 0 && k + 2 < n && !begins) continue;
        memory bytes = {.used = 0};
        assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
        sosmc_solver *again = create(e, &options);
        assert_int_equal(sosmc_solver_load(again, memory_get, &bytes), SOSMC_OK);
        assert_true(sosmc_solver_hash(again) == first[k]);
        assert_true(sosmc_solver_info(again)->evaluations == sosmc_solver_info(s)->evaluations);
        phases |= 1 << sosmc_solver_info(again)->phase;
        assert_int_equal(sosmc_solver_run(again), SOSMC_OK);
        assert_true(sosmc_solver_hash(again) == first[n - 1]);
        sosmc_solver_free(again);
        free(bytes.bytes);
    }
    assert_int_equal(phases, 0x1f); /* every phase was among them */
    sosmc_solver_free(s);
}

static void a_resumed_solver_is_the_same(void **state)
{
    for (int k = 0; k < NAMES; k++) {
        exact_problem e;
        open_problem(&e, names[k]);
        resume_everywhere(&e, 15);
        exact_close(&e);
    }
}

/* Stopped by a limit it says so; with a larger one it goes on to the same end. */
static void a_limit_can_be_raised(void **state)
{
    exact_problem e;
    open_problem(&e, "reverse");
    int n = path_of(&e, &options, first);
    sosmc_solve_options o = options;
    o.evaluations = 1000;
    sosmc_solver *s = create(&e, &o);
    sosmc_solution r;
    int stops = 0;
    for (; !done(s); stops++) {
        assert_int_equal(sosmc_solver_run(s), SOSMC_OK);
        assert_int_equal(sosmc_solver_solution(s, &r), SOSMC_OK);
        assert_int_equal(r.finished, done(s));
        if (!done(s)) {
            assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
            assert_non_null(strstr(r.judgement.verdict.reason[0], "larger limit"));
            assert_true(isnan(r.judgement.loss.value) && r.judgement.loss.why[0]);
            if (r.info.phase < SOSMC_PHASE_JUDGE) assert_null(r.judgement.theta_mc_error); /* it was not measured */
            o.evaluations += 4000;
            sosmc_solver_limits(s, 0, o.evaluations);
        }
        sosmc_solution_free(&r);
    }
    assert_true(stops > 3);
    assert_true(sosmc_solver_hash(s) == first[n - 1]);
    sosmc_solver_free(s);
    exact_close(&e);
}

/* A damaged or foreign stream is refused in words and leaves the solver as it was. */
static void a_damaged_state_is_refused(void **state)
{
    exact_problem e, foreign;
    open_problem(&e, "reverse");
    open_problem(&foreign, "energy");
    sosmc_solver *s = create(&e, &options), *alien = create(&foreign, &options);
    for (int k = 0; k < 20; k++) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    memory bytes = {.used = 0};
    assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
    uint64_t before = sosmc_solver_hash(s);
    for (size_t k = 0; k < 40; k++) {
        size_t at = bytes.used * k / 40;
        char *byte = bytes.bytes + at;
        *byte = (char)(*byte ^ 0x10);
        bytes.at = 0;
        assert_int_not_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_OK);
        assert_true(sosmc_solver_message(s)[0]);
        assert_true(sosmc_solver_hash(s) == before);
        *byte = (char)(*byte ^ 0x10);
    }
    bytes.at = 0;
    assert_int_equal(sosmc_solver_load(alien, memory_get, &bytes), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_solver_message(alien), "dim_x is 2, here it is 1"));
    size_t whole = bytes.used;
    bytes.used /= 2;
    bytes.at = 0;
    assert_int_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_EIO);
    assert_non_null(strstr(sosmc_solver_message(s), "cut short"));
    bytes.used = whole;
    bytes.at = 0;
    assert_int_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_OK);
    sosmc_solver_free(s);
    sosmc_solver_free(alien);
    free(bytes.bytes);
    exact_close(&e);
    exact_close(&foreign);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),        cmocka_unit_test(levels_do_not_matter),
        cmocka_unit_test(a_resumed_solver_is_the_same), cmocka_unit_test(a_limit_can_be_raised),
        cmocka_unit_test(a_damaged_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
