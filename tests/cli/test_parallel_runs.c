/* test_parallel_runs.c: independent runs on several threads: each once, the first failure's sentence and nothing begun after
 * it; and the time left, worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "assertions.h"
#include "common/parallel_runs.h"

/* ---------------------------------------------------------------------------- running */

enum { JOBS = 40 };

typedef struct {
    atomic_int runs[JOBS], begun;
    int fails, asked; /* the job that fails, -1: none; how often a cost was asked for */
} notes;

static int run(void *context, int job, char *error, size_t room)
{
    notes *n = context;
    atomic_fetch_add(&n->runs[job], 1);
    atomic_fetch_add(&n->begun, 1);
    if (job != n->fails) return 0;
    (void)snprintf(error, room, "job %d is wrong", job);
    return -1;
}

static double cost(const void *context, int job)
{
    ((notes *)context)->asked++; /* by the caller's thread alone */
    return job + 1;
}

static void every_job_once(void **state)
{
    for (int threads = 0; threads <= 100; threads = threads * 5 + 1) {
        notes n = {.fails = -1};
        char error[128] = "";
        parallel_work w = {.run = run, .cost = cost, .context = &n, .jobs = JOBS, .threads = threads, .quiet = 1};
        assert_int_equal(parallel_runs(&w, error, sizeof error), 0);
        for (int i = 0; i < JOBS; i++) assert_int_equal(n.runs[i], 1);
        assert_int_equal(n.asked, JOBS);
        w.jobs = 0;
        assert_int_equal(parallel_runs(&w, error, sizeof error), 0);
        assert_int_equal(n.begun, JOBS);
    }
}

static void the_first_failure_is_told(void **state)
{
    notes n = {.fails = 7};
    char error[128] = "";
    parallel_work w = {.run = run, .context = &n, .jobs = JOBS, .threads = 1, .quiet = 1};
    assert_int_equal(parallel_runs(&w, error, sizeof error), -1);
    assert_string_equal(error, "job 7 is wrong");
    assert_int_equal(n.begun, 8);
}

/* ---------------------------------------------------------------------------- time left */

#define WAITS(c)                                \
    {                                           \
        .cost = (c), .begun = NAN, .ended = NAN \
    }

static void time_left(void **state)
{
    parallel_job equal[] = {{1, 0, 4}, {1, 0, 6}, WAITS(1), WAITS(1)};
    assert_near(parallel_left(equal, 4, 2, 6), 5, 1e-12);
    assert_near(parallel_left(equal, 4, 1, 6), 10, 1e-12);
    equal[2].begun = 5; /* has run for 3 of its 5 seconds; the other is then the longest */
    assert_near(parallel_left(equal, 4, 2, 8), 5, 1e-12);
    equal[3].begun = 6;
    assert_near(parallel_left(equal, 4, 2, 8), 3, 1e-12);
    assert_near(parallel_left(equal, 4, 2, 30), 0, 0); /* late, but not negative */

    parallel_job costly[] = {{1, 0, 2}, {3, 0, 6}, WAITS(10), WAITS(1), WAITS(5)};
    assert_near(parallel_left(costly, 5, 1, 6), 32, 1e-12);
    assert_near(parallel_left(costly, 5, 4, 6), 20, 1e-12); /* the longest alone */
}

static void what_was_found_done_tells_nothing(void **state)
{
    parallel_job job[] = {{1, 0, 0.01}, {1, 0, 0.02}, {1, 0, 0.02}, {1, 0.02, NAN}, WAITS(1)};
    assert_near(parallel_left(job, 5, 1, 0.02), 2 * 0.05 / 3, 1e-12); /* perhaps all are that short */
    assert_true(isnan(parallel_left(job, 5, 1, 3)));                  /* no, they are not */
    job[3].ended = 8.02;
    assert_near(parallel_left(job, 5, 1, 9), 8, 1e-12);
    parallel_job none[] = {WAITS(1), {1, 0, NAN}};
    assert_true(isnan(parallel_left(none, 2, 2, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_once),
        cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(time_left),
        cmocka_unit_test(what_was_found_done_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
