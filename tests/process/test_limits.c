/* test_limits.c: the program under limits on its address space and its stack. Whatever they are, it ends with a sentence or does
 * its work; no limit ends it with a signal. Where the heap had taken the rest of the address space, a stack that was still to
 * grow did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "assertions.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM];

static rlim_t space, stack; /* of the next child, in KiB; 0: no limit of ours */

static void set_limits(void)
{
    struct rlimit none = {0, 0}, s = {space << 10, space << 10}, t = {stack << 10, stack << 10};
    (void)setrlimit(RLIMIT_CORE, &none);
    if (stack && setrlimit(RLIMIT_STACK, &t)) return;
    if (space) (void)setrlimit(RLIMIT_AS, &s);
}

static int run_limited(const char *arguments, char said[PROGRAM_WORDS])
{
    program_setting s = {.folder = folder, .in_child = set_limits};
    return program_run(&s, arguments, said);
}

/* The smallest space, in steps of 64 KiB, in which the program can be loaded and speaks. */
static rlim_t least_space(void)
{
    char said[PROGRAM_WORDS];
    for (space = 2048; space < 1 << 20; space += 64)
        if (run_limited("--version", said) == 0) return space;
    return 0;
}

/* Small steps, since the room in which the stack cannot grow is a few pages. */
static void no_space_ends_it_with_a_signal(void **state)
{
    enum { TRIES = 270, STEP = 12 };
    char said[PROGRAM_WORDS];
    int done = 0, refused = 0;
    if (!program_faults()) {
        print_message("skipped: sanitizers need the address space for themselves\n");
        skip();
    }
    rlim_t first = least_space();
    assert_true(first > 0);
    for (int i = 0; i < TRIES; i++) {
        space = first + (rlim_t)(i * STEP);
        (void)folder_remove(folder_path(folder, "o"));
        int code = run_limited("run toy.yaml --out o --quiet", said);
        if (code != 0 && code != 2 && code != 3 && code != 4) /* 2: refused before it began */
            fail_msg("%lu KiB: exit code %d, '%s'", (unsigned long)space, code, said);
        if (code != 0) assert_contains(said, "memory");
        done += code == 0;
        refused += code != 0;
    }
    space = 0;
    assert_true(done > 0 && refused > 0);
}

static void a_small_stack_is_told(void **state)
{
    char said[PROGRAM_WORDS];
    stack = 160;
    assert_int_equal(run_limited("run toy.yaml --out o --overwrite --quiet", said), 3);
    assert_contains(said, "the limit on the stack is 160 KiB; expected at least 384 (ulimit -s)");
    stack = 0;
}

/* Minutes of work before the first step, and a limit on time: the run ends soon, and nothing is left. */
static void time_ends_the_preparation(void **state)
{
    enum { COMPONENTS = 1500, COORDINATES = 60 };
    char said[PROGRAM_WORDS];
    struct timespec begun, ended;
    FILE *f = fopen(folder_path(folder, "heavy.yaml"), "w");
    assert_non_null(f);
    (void)fprintf(f, "model:\n  type: gaussian_mixture\n  means:\n");
    for (int k = 0; k < COMPONENTS; k++)
        for (int j = 0; j < COORDINATES; j++)
            (void)fprintf(f, "%s%d%s", j == 0 ? "    - [" : ", ", (7 * k + 11 * k * j) % 23 - 11,
                          j + 1 == COORDINATES ? "]\n" : "");
    (void)fprintf(f, "objective: {type: reward_reverse, beta: 1, reward: {type: formula, formula: x1}}\n"
                     "limits: {seconds: 0.5}\n");
    assert_int_equal(fclose(f), 0);
    space = stack = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &begun);
    assert_int_equal(run_limited("run heavy.yaml --quiet --out heavy", said), 3);
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_contains(said, "before its first step, by limits.seconds; raise the limit");
    assert_true(ended.tv_sec - begun.tv_sec < 60);
    assert_int_equal(
        run_limited("run heavy.yaml --quiet --out heavy --set limits.seconds=0 --budget-seconds 0.5", said), 3);
    assert_contains(said, "--budget-seconds");
    assert_int_not_equal(access(folder_path(folder, "heavy"), F_OK), 0);
}

/* 20,000 columns: the matrix of the initial distribution is refused with its size, and soon. */
static void a_wide_table_is_refused_with_numbers(void **state)
{
    enum { COLUMNS = 20000, ROWS = 4 };
    char said[PROGRAM_WORDS];
    FILE *f = fopen(folder_path(folder, "wide.csv"), "w");
    assert_non_null(f);
    for (int r = -1; r < ROWS; r++)
        for (int j = 0; j < COLUMNS; j++)
            if (r < 0)
                (void)fprintf(f, "c%d%s", j, j + 1 < COLUMNS ? "," : "\n");
            else
                (void)fprintf(f, "%d%s", j ? (7 * j + r * (j % 5 + 1)) % 97 : r % 2, j + 1 < COLUMNS ? "," : "\n");
    assert_int_equal(fclose(f), 0);
    runtext_save(folder_path(folder, "wide.yaml"),
                 "model: {type: logistic_regression, data: wide.csv, label: c0}\nobjective: mmle\n");
    assert_int_equal(setenv("SOSMC_MEMORY", "2G", 1), 0);
    assert_int_equal(run_limited("run wide.yaml --quiet --out wide", said), 2);
    assert_int_equal(unsetenv("SOSMC_MEMORY"), 0);
    assert_contains(said, "an initial normal distribution of 19999 coordinates needs 3.20 GB of memory, and ");
}

static int set_up(void **state)
{
    if (folder_make(folder, "limits") || program_furnish(folder)) return -1;
    runtext_save(
        folder_path(folder, "toy.yaml"),
        "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2.5]}\nobjective: mmle\nkernel: mala\nparticles: 64\n"
        "iterations: 5\njudge: none\noutput: {report: false}\n");
    return 0;
}
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_space_ends_it_with_a_signal),
        cmocka_unit_test(a_small_stack_is_told),
        cmocka_unit_test(time_ends_the_preparation),
        cmocka_unit_test(a_wide_table_is_refused_with_numbers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
