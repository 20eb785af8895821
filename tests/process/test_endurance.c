/* test_endurance.c: many particles and many iterations in bounded memory and a bounded trace.
 *
 * The resident memory of the program is sampled while it runs: behind the first checkpoint it may not grow. The trace keeps its
 * first and its last row and never has many more rows than output.trace_rows, also while it is being written. The long
 * tier runs a million of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

enum { SLACK = 1 << 20 };

/* Resident bytes, 0 when the process has gone. */
static double resident(pid_t pid)
{
    char path[64], line[128];
    double pages = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fgets(line, sizeof line, f)) {
        char *end;
        (void)strtod(line, &end);
        pages = strtod(end, NULL);
    }
    (void)fclose(f);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

typedef struct {
    double first, most, bytes; /* resident memory at the first checkpoint and at most behind it; of trace.csv */
    long samples;
} watch;

static double file_bytes(const char *name)
{
    FILE *f = fopen(folder_path(folder, name), "rb");
    if (!f) return 0;
    double size = fseek(f, 0, SEEK_END) ? 0 : (double)ftell(f);
    (void)fclose(f);
    return size;
}

/* The iteration of the last whole row of a trace; -1: it has none. */
static long last_row(const char *name)
{
    char tail[2048];
    FILE *f = fopen(folder_path(folder, name), "rb");
    if (!f) return -1;
    (void)fseek(f, 0, SEEK_END);
    long size = ftell(f), from = size < (long)sizeof tail - 1 ? 0 : size - (long)sizeof tail + 1;
    (void)fseek(f, from, SEEK_SET);
    size_t n = fread(tail, 1, sizeof tail - 1, f);
    (void)fclose(f);
    tail[n] = 0;
    char *end = strrchr(tail, '\n');
    if (!end) return -1;
    *end = 0;
    const char *row = strrchr(tail, '\n');
    return row ? strtol(row + 1, NULL, 10) : -1;
}

/* Runs n iterations and watches; the exit code must be 0. */
static watch watched(const char *arguments, long n)
{
    program_setting s = {.folder = folder};
    watch w = {0};
    int status = 0;
    const struct timespec nap = {.tv_nsec = 5000000};
    (void)folder_remove(folder_path(folder, "run"));
    pid_t pid = program_start(&s, arguments);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        /* The checkpoints are there before the sample is taken, the last row not yet behind it: it belongs to the iterations. */
        int iterates = access(folder_path(folder, "run/checkpoint.previous"), F_OK) == 0;
        double now = resident(pid), bytes = file_bytes("run/trace.csv");
        if (bytes > w.bytes) w.bytes = bytes;
        iterates = iterates && last_row("run/trace.csv") < n - 1;
        (void)nanosleep(&nap, NULL);
        if (now <= 0 || !iterates) continue;
        if (w.samples++ == 0) w.first = now;
        if (now > w.most) w.most = now;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("sosmc %s: status %d", arguments, status);
    return w;
}

/* Rows of the trace, whose iterations must rise from 0 to n - 1 in equal steps but for the last. */
static long check_rows(const char *name, long n)
{
    char line[4096];
    long rows = 0, last = -1, step = 0;
    FILE *f = fopen(folder_path(folder, name), "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (; fgets(line, sizeof line, f); rows++) {
        long at = strtol(line, NULL, 10);
        if (rows == 0) assert_int_equal(at, 0);
        if (rows == 1) step = at;
        if (rows > 1 && at - last != step && at != n - 1) fail_msg("%s: row %ld is of iteration %ld", name, rows, at);
        last = at;
    }
    (void)fclose(f);
    assert_int_equal(last, n - 1);
    return rows;
}

static void many_iterations(void **state)
{
    long n = program_nightly() ? 1000000 : 60000, most = program_nightly() ? 100000 : 4000;
    char arguments[512];
    (void)snprintf(arguments, sizeof arguments,
                   "run run.yaml --out run --quiet --set particles=4 --set iterations=%ld --set output.thin=1 "
                   "--set output.trace_rows=%ld --set evaluate.every=0 --set output.checkpoint_every=%ld "
                   "--set objective.reference.batch=4 --set output.report=false",
                   n, most, n / 50);
    watch w = watched(arguments, n);
    long rows = check_rows("run/trace.csv", n);
    assert_int_equal(check_rows("run/timing.csv", n), rows);
    double row = file_bytes("run/trace.csv") / (double)rows;
    print_message(
        "%ld iterations: %ld rows, at most %.1f MB of trace; memory %.2f MB, then at most %.2f MB (%ld samples)\n", n,
        rows, w.bytes / 1e6, w.first / 1e6, w.most / 1e6, w.samples);
    assert_in_range(rows, most / 2, most + 1);
    assert_true(w.bytes < 1.6 * row * (double)most + 65536);
    assert_true(w.samples > 0);
    assert_true(w.most - w.first < SLACK);
}

static void many_particles(void **state)
{
    char arguments[512];
    int million = program_nightly();
    (void)snprintf(arguments, sizeof arguments,
                   "run run.yaml --out run --quiet --set particles=%d --set iterations=%d --set evaluate.every=0 "
                   "--set output.checkpoint_every=%d --set output.particles=false --set output.report=false",
                   million ? 1000000 : 50000, million ? 300 : 200, million ? 20 : 10);
    watch w = watched(arguments, million ? 300 : 200);
    print_message("many particles: memory %.2f MB, then at most %.2f MB (%ld samples)\n", w.first / 1e6, w.most / 1e6,
                  w.samples);
    assert_true(w.samples > 0);
    assert_true(w.most - w.first < SLACK);
}

/* A report of a long run reads a trace of bounded size. */
static void all_rows_on_demand(void **state)
{
    (void)watched("run run.yaml --out run --quiet --set iterations=500 --set output.thin=1 --set output.trace_rows=0",
                  500);
    assert_int_equal(check_rows("run/trace.csv", 500), 500);
    (void)watched("run run.yaml --out run --quiet --set iterations=500 --set output.thin=1 --set output.trace_rows=1",
                  500);
    assert_int_equal(check_rows("run/trace.csv", 500), 2);
}

static int set_up(void **state) { return folder_make(folder, "sosmc_endurance") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_iterations), cmocka_unit_test(many_particles),
                                       cmocka_unit_test(all_rows_on_demand)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
