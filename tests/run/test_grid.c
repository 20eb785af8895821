/* test_grid.c: a grid of runs on several threads: each cell once and then read, the first failure's code and sentence and
 * nothing begun after it, what the hooks are asked and told, places; and the time left, worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "assertions.h"
#include "run/grid.h"

/* ---------------------------------------------------------------------------- running */

enum { CELLS = 40, FAILED = 3 };

typedef struct {
    atomic_int runs[CELLS], begun;
    int fails, silent; /* the cell that fails, -1: none; it says nothing */
    int asked, read;   /* how often a cost was asked for; cells read, in order */
    int unreadable;    /* the cell that cannot be read, -1: none */
    int stop_after;    /* so many have begun; 0: never */
    int told, last;    /* by the progress hook: how often, and the last number of cells done */
} notes;

static int run(void *context, int cell, char *error, size_t room)
{
    notes *n = context;
    atomic_fetch_add(&n->runs[cell], 1);
    atomic_fetch_add(&n->begun, 1);
    if (n->stop_after > 0) {
        const struct timespec moment = {.tv_nsec = 60000000}; /* longer than a grid waits before it asks again */
        (void)nanosleep(&moment, NULL);
    }
    if (cell != n->fails) return 0;
    if (!n->silent) (void)snprintf(error, room, "cell %d is wrong", cell);
    return FAILED;
}

static double cost(const void *context, int cell)
{
    ((notes *)context)->asked++; /* by the caller's thread alone */
    return cell + 1;
}

static int read_back(void *context, int cell, char *error, size_t room)
{
    notes *n = context;
    assert_int_equal(n->read++, cell);
    if (cell != n->unreadable) return 0;
    (void)snprintf(error, room, "cell %d left nothing", cell);
    return -1;
}

static void name(const void *context, int cell, char out[GRID_NAME]) { (void)snprintf(out, GRID_NAME, "cell%d", cell); }

static int stop(void *context)
{
    const notes *n = context;
    return n->stop_after > 0 && atomic_load(&n->begun) >= n->stop_after;
}

static void progress(void *context, int done, int cells, double left)
{
    notes *n = context;
    assert_true(done >= n->last && done <= cells && !(left < 0));
    n->told++;
    n->last = done;
}

static grid grid_of(notes *n)
{
    return (grid){
        .out = "/out", .cells = CELLS, .name = name, .cost = cost, .run = run, .read = read_back, .context = n};
}

static void every_cell_once(void **state)
{
    for (int threads = 0; threads <= 100; threads = threads * 5 + 1) {
        notes n = {.fails = -1, .unreadable = -1};
        char error[128] = "";
        grid g = grid_of(&n);
        assert_int_equal(grid_run(&g, threads, NULL, error, sizeof error), 0);
        for (int i = 0; i < CELLS; i++) assert_int_equal(n.runs[i], 1);
        assert_int_equal(n.asked, CELLS);
        assert_int_equal(n.read, CELLS);
        g.cells = 0;
        assert_int_equal(grid_run(&g, threads, NULL, error, sizeof error), 0);
        assert_int_equal(n.begun, CELLS);
    }
}

static void the_first_failure_is_told(void **state)
{
    notes n = {.fails = 7};
    char error[128] = "";
    grid g = grid_of(&n);
    assert_int_equal(grid_run(&g, 1, NULL, error, sizeof error), FAILED);
    assert_string_equal(error, "cell 7 is wrong");
    assert_int_equal(n.begun, 8);
    assert_int_equal(n.read, 0);
    n = (notes){.fails = 2, .silent = 1};
    assert_int_equal(grid_run(&g, 1, NULL, error, sizeof error), FAILED);
    assert_string_equal(error, "/out/cells/cell2 did not finish");
    n = (notes){.fails = -1, .unreadable = 5};
    assert_int_equal(grid_run(&g, 2, NULL, error, sizeof error), GRID_UNREADABLE);
    assert_string_equal(error, "cell 5 left nothing");
}

static void hooks(void **state)
{
    notes n = {.fails = -1, .unreadable = -1, .stop_after = 3};
    char error[128] = "";
    grid g = grid_of(&n);
    const grid_hooks told = {.stop = stop, .progress = progress, .context = &n};
    assert_int_equal(grid_run(&g, 1, &told, error, sizeof error), GRID_STOPPED);
    assert_string_equal(error, "interrupted");
    assert_true(n.begun >= 3 && n.begun < CELLS && n.told > 0 && n.read == 0);
    int begun = n.begun; /* who is stopped before the beginning begins nothing */
    assert_int_equal(grid_run(&g, 1, &told, error, sizeof error), GRID_STOPPED);
    assert_int_equal(n.begun, begun);
    n = (notes){.fails = -1, .unreadable = -1};
    assert_int_equal(grid_run(&g, 2, &told, error, sizeof error), 0);
    assert_int_equal(n.last, CELLS);
}

static void places(void **state)
{
    char path[FILES_PATH], error[128];
    const grid g = grid_of(NULL);
    assert_int_equal(grid_path(&g, 4, NULL, path, error, sizeof error), 0);
    assert_string_equal(path, "/out/cells/cell4");
    assert_int_equal(grid_path(&g, 4, "trace.csv", path, error, sizeof error), 0);
    assert_string_equal(path, "/out/cells/cell4/trace.csv");
}

/* ---------------------------------------------------------------------------- time left */

#define WAITS(c)                                \
    {                                           \
        .cost = (c), .begun = NAN, .ended = NAN \
    }

static void time_left(void **state)
{
    grid_timing equal[] = {{1, 0, 4}, {1, 0, 6}, WAITS(1), WAITS(1)};
    assert_near(grid_left(equal, 4, 2, 6), 5, 1e-12);
    assert_near(grid_left(equal, 4, 1, 6), 10, 1e-12);
    equal[2].begun = 5; /* has run for 3 of its 5 seconds; the other is then the longest */
    assert_near(grid_left(equal, 4, 2, 8), 5, 1e-12);
    equal[3].begun = 6;
    assert_near(grid_left(equal, 4, 2, 8), 3, 1e-12);
    assert_near(grid_left(equal, 4, 2, 30), 0, 0); /* late, but not negative */

    grid_timing costly[] = {{1, 0, 2}, {3, 0, 6}, WAITS(10), WAITS(1), WAITS(5)};
    assert_near(grid_left(costly, 5, 1, 6), 32, 1e-12);
    assert_near(grid_left(costly, 5, 4, 6), 20, 1e-12); /* the longest alone */
}

static void what_was_found_done_tells_nothing(void **state)
{
    grid_timing job[] = {{1, 0, 0.01}, {1, 0, 0.02}, {1, 0, 0.02}, {1, 0.02, NAN}, WAITS(1)};
    assert_near(grid_left(job, 5, 1, 0.02), 2 * 0.05 / 3, 1e-12); /* perhaps all are that short */
    assert_true(isnan(grid_left(job, 5, 1, 3)));                  /* no, they are not */
    job[3].ended = 8.02;
    assert_near(grid_left(job, 5, 1, 9), 8, 1e-12);
    grid_timing none[] = {WAITS(1), {1, 0, NAN}};
    assert_true(isnan(grid_left(none, 2, 2, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_once), cmocka_unit_test(the_first_failure_is_told),
        cmocka_unit_test(hooks),           cmocka_unit_test(places),
        cmocka_unit_test(time_left),       cmocka_unit_test(what_was_found_done_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
