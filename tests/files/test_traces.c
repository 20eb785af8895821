/* test_traces.c: the trace of a run: exact numbers, the same bytes after a kill, none of another run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/files.h"
#include "scratch.h"

enum { ROWS = 12, RESUME = 9 };
static const char columns[] = "iteration,a,b";

static void append_rows(trace *t, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        double value[] = {1.0 / (double)(k + 1), k % 3 == 0 ? NAN : -1e-300 * (double)k};
        trace_append(t, k, value, 2);
    }
}

static void write_trace(const char *name, int64_t from, int64_t to)
{
    trace *t = NULL;
    if (trace_open(&t, at(name), columns, from, ERROR)) fail_msg("%s", sentence);
    append_rows(t, from, to);
    assert_int_equal(trace_close(t, ERROR), 0);
}

static void a_trace_has_exact_numbers_and_gaps(void **state)
{
    write_trace("t.csv", 0, 2);
    char *text = slurp("t.csv", NULL);
    assert_string_equal(text, "iteration,a,b\n0,1,\n1,0.5,-1e-300\n");
    free(text);
}

/* Killed at any byte behind the last flush, whatever the file system makes of the tail: the end is the same. */
static void a_resumed_trace_has_the_same_bytes(void **state)
{
    size_t n = 0, flushed = 0;
    write_trace("whole.csv", 0, ROWS);
    write_trace("part.csv", 0, RESUME);
    free(slurp("part.csv", &flushed));
    char *all = slurp("whole.csv", &n);
    for (size_t cut = flushed; cut <= n; cut++)
        for (int zeros = 0; zeros < 2; zeros++) {
            char *damaged = calloc(n + 8, 1);
            assert_non_null(damaged);
            memcpy(damaged, all, cut);
            write_raw("cut.csv", damaged, zeros ? n + 8 : cut);
            free(damaged);
            trace *t = NULL;
            double value = 0.0;
            if (trace_open(&t, at("cut.csv"), columns, RESUME, ERROR)) fail_msg("%s", sentence);
            assert_int_equal(trace_kept(t, &value), RESUME - 1);
            assert_true(value == 1.0 / RESUME);
            append_rows(t, RESUME, ROWS);
            assert_int_equal(trace_close(t, ERROR), 0);
            assert_same_file("cut.csv", "whole.csv");
        }
    free(all);
}

static void a_killed_writer_can_be_resumed(void **state)
{
    enum { MANY = 20000, SAVED = 5000 };
    write_trace("whole.csv", 0, MANY);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        trace *t = NULL;
        if (trace_open(&t, at("killed.csv"), columns, 0, ERROR)) _exit(1);
        append_rows(t, 0, SAVED);
        if (trace_flush(t, ERROR)) _exit(1); /* a checkpoint would be written now */
        if (write(ready[1], "x", 1) != 1) _exit(1);
        append_rows(t, SAVED, MANY / 2);
        for (;;) (void)pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ready[0]);
    (void)close(ready[1]);
    write_trace("killed.csv", SAVED, MANY);
    assert_same_file("killed.csv", "whole.csv");
}

static void a_finished_trace_is_extended_or_started_anew(void **state)
{
    write_trace("whole.csv", 0, ROWS);
    write_trace("t.csv", 0, 7);
    write_trace("t.csv", 7, ROWS);
    assert_same_file("t.csv", "whole.csv");
    write_trace("t.csv", 0, ROWS);
    assert_same_file("t.csv", "whole.csv");
}

/* Opens a file of this text from iteration 5 on and closes it again; what it is then. The caller frees. */
static char *reopened(const char *text, char note[1024])
{
    trace *t = NULL;
    write_text("t.csv", text);
    if (trace_open(&t, at("t.csv"), columns, 5, ERROR)) fail_msg("%s", sentence);
    (void)snprintf(note, 1024, "%s", trace_note(t));
    assert_int_equal(trace_close(t, ERROR), 0);
    return slurp("t.csv", NULL);
}

/* Every kind of line that is no row, in the middle: the others stay, and the old file does too. */
static void a_damaged_trace_is_kept_aside(void **state)
{
    static const char *const lines[] = {"x,1,2", "2,1", "2,1,2,3", "1,1,2", "2,one,2", ",1,2", "", "2;1;2", "-2,1,2"};
    char note[1024], text[256];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        (void)snprintf(text, sizeof text, "iteration,a,b\n0,1,2\n1,1,2\n%s\n3,1,2\n4,,2\n5,1,2\n", lines[i]);
        char *now = reopened(text, note), *aside = slurp("t.csv.damaged", NULL);
        assert_string_equal(now, "iteration,a,b\n0,1,2\n1,1,2\n3,1,2\n4,,2\n");
        assert_string_equal(aside, text);
        assert_non_null(strstr(note, "line 4"));
        assert_non_null(strstr(note, "t.csv.damaged, and the run goes on with the 4 rows"));
        free(now);
        free(aside);
        assert_int_equal(unlink(at("t.csv.damaged")), 0);
    }
    static const char zeros[] = "iteration,a,b\n0,1,2\n1,\0,2\n2,1,2\n"; /* zeros between rows are no tail */
    trace *t = NULL;
    write_raw("t.csv", zeros, sizeof zeros - 1);
    assert_int_equal(trace_open(&t, at("t.csv"), columns, 5, ERROR), 0);
    assert_int_equal(trace_kept(t, NULL), 2);
    assert_non_null(strstr(trace_note(t), "1 of its lines, the first of them line 3"));
    assert_int_equal(trace_close(t, ERROR), 0);
    /* a second damaged file does not replace the first */
    free(reopened("iteration,a,b\nx,1,2\n", note));
    char *first = slurp("t.csv.damaged", NULL), *second = slurp("t.csv.damaged-2", NULL);
    assert_memory_equal(first, zeros, sizeof zeros - 1);
    assert_string_equal(second, "iteration,a,b\nx,1,2\n");
    free(first);
    free(second);
    assert_int_equal(unlink(at("t.csv.damaged")) || unlink(at("t.csv.damaged-2")), 0);
}

/* What a crash leaves is cut off without a word, and what is missing is begun. */
static void a_tail_is_no_damage(void **state)
{
    static const char zeros[] = "iteration,a,b\n0,1,2\n\0\0\0\n\0\0"; /* pages that never reached the disk */
    trace *t = NULL;
    write_raw("zeros.csv", zeros, sizeof zeros - 1);
    assert_int_equal(trace_open(&t, at("zeros.csv"), columns, 5, ERROR), 0);
    assert_int_equal(trace_kept(t, NULL), 0);
    assert_string_equal(trace_note(t), "");
    assert_int_equal(trace_close(t, ERROR), 0);
    static const char *const tails[] = {"", "3,1", "5,1,2\n6,x\n", "7,1,2\n8,1,2\n"};
    char note[1024], text[256];
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        (void)snprintf(text, sizeof text, "iteration,a,b\n0,1,2\n2,1,2\n%s", tails[i]);
        char *now = reopened(text, note);
        assert_string_equal(now, "iteration,a,b\n0,1,2\n2,1,2\n");
        assert_string_equal(note, "");
        free(now);
    }
    assert_int_not_equal(access(at("t.csv.damaged"), F_OK), 0);
    assert_int_equal(trace_open(&t, at("absent.csv"), columns, 5, ERROR), 0);
    assert_non_null(strstr(trace_note(t), "was missing; it begins again with iteration 5"));
    assert_int_equal(trace_close(t, ERROR), 0);
    char *absent = slurp("absent.csv", NULL);
    assert_string_equal(absent, "iteration,a,b\n");
    free(absent);
    assert_int_equal(trace_close(NULL, ERROR), 0);
}

/* Rows of another table are not taken over, and the table is not lost. */
static void a_foreign_trace_is_kept_aside(void **state)
{
    char note[1024], *now = reopened("iteration,a\n0,1\n", note), *aside = slurp("t.csv.damaged", NULL);
    assert_string_equal(now, "iteration,a,b\n");
    assert_string_equal(aside, "iteration,a\n0,1\n");
    assert_non_null(strstr(note, "1 of its lines"));
    free(now);
    free(aside);
    assert_int_equal(unlink(at("t.csv.damaged")), 0);
    now = reopened("iteration,aa,b\n0,1,2\n", note); /* the header alone is damaged */
    assert_string_equal(now, "iteration,a,b\n0,1,2\n");
    assert_non_null(strstr(note, "header line"));
    free(now);
    assert_int_equal(unlink(at("t.csv.damaged")), 0);
}

static void the_info_becomes_a_row(void **state)
{
    char head[TRACE_COLUMNS];
    sosmc_info info = {.iteration = 3,
                       .updates = 4,
                       .gradient_updates = 2,
                       .ess = 9.5,
                       .mean_score = 1,
                       .mean_energy = 2,
                       .data_energy = NAN,
                       .penalty = 7,
                       .loss = NAN,
                       .kl = NAN,
                       .logz = -1,
                       .grad_norm = 5,
                       .accept = 0.5,
                       .h = 0.25,
                       .rate = 0.125,
                       .resampled = 1,
                       .nonfinite = 0,
                       .retries = 6,
                       .mobility = 0.75};
    double theta[65] = {3.0, 4.0};
    trace *t = NULL;
    trace_columns(2, head);
    assert_int_equal(trace_open(&t, at("t.csv"), head, 0, ERROR), 0);
    trace_info(t, &info, theta, 2);
    assert_int_equal(trace_close(t, ERROR), 0);
    char *text = slurp("t.csv", NULL);
    assert_string_equal(
        text,
        "iteration,updates,gradient_updates,ess,mean_score,mean_energy,data_energy,penalty,loss,kl,logz,"
        "grad_norm,accept,h,rate,resampled,nonfinite,retries,mobility,theta_1,theta_2\n3,4,2,9.5,1,2,,7,,,-1,5,0.5,0.25,0.125,1,0,6,0.75,3,4\n");
    free(text);
    trace_columns(65, head);
    assert_non_null(strstr(head, "retries,mobility,theta_norm"));
    assert_int_equal(trace_open(&t, at("t.csv"), head, 0, ERROR), 0);
    trace_info(t, &info, theta, 65);
    assert_int_equal(trace_close(t, ERROR), 0);
    text = slurp("t.csv", NULL);
    assert_non_null(strstr(text, ",0,6,0.75,5\n"));
    free(text);
    trace_columns(64, head);
    assert_non_null(strstr(head, ",theta_64"));
    assert_int_equal(trace_open(&t, at("t.csv"), TRACE_TIMING, 0, ERROR), 0);
    trace_time(t, 1, 0.5);
    assert_int_equal(trace_close(t, ERROR), 0);
}

/* A trace that an earlier version began has no column mobility: it goes on without it, and a new one has it. */
static void a_trace_of_an_earlier_version_goes_on(void **state)
{
    static const char old[] =
        "iteration,updates,gradient_updates,ess,mean_score,mean_energy,data_energy,penalty,loss,kl,logz,"
        "grad_norm,accept,h,rate,resampled,nonfinite,retries,theta_1\n"
        "0,1,0,9.5,1,2,,7,,,-1,5,0.5,0.25,0.125,1,0,6,3\n";
    sosmc_info info = {.iteration = 1, .updates = 2, .retries = 6, .mobility = 0.75};
    double theta[1] = {4.0};
    trace *t = NULL;
    assert_int_equal(files_write(at("old.csv"), old, strlen(old), ERROR), 0);
    assert_int_equal(trace_open_info(&t, at("old.csv"), 1, 1, ERROR), 0);
    trace_info(t, &info, theta, 1);
    assert_int_equal(trace_close(t, ERROR), 0);
    char *text = slurp("old.csv", NULL);
    assert_memory_equal(text, old, strlen(old));
    assert_string_equal(text + strlen(old), "1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,6,4\n");
    free(text);
    assert_int_equal(trace_open_info(&t, at("old.csv"), 1, 0, ERROR), 0); /* begun again */
    trace_info(t, &info, theta, 1);
    assert_int_equal(trace_close(t, ERROR), 0);
    text = slurp("old.csv", NULL);
    assert_non_null(strstr(text, "retries,mobility,theta_1\n"));
    assert_non_null(strstr(text, ",0,6,0.75,4\n"));
    free(text);
}

static void a_full_disk_stops_a_trace(void **state)
{
    struct rlimit old, small;
    trace *t = NULL;
    assert_int_equal(trace_open(&t, at("full.csv"), columns, 0, ERROR), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 512;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    append_rows(t, 0, 10000);
    int status = trace_flush(t, ERROR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    assert_says("full.csv");
    assert_int_equal(trace_close(t, ERROR), -1);
}

/* Rows that were deleted are noticed on opening, those that are no longer wanted are not. */
static void missing_rows_are_named(void **state)
{
    trace *t = NULL;
    for (int lost = 0; lost < 2; lost++) {
        write_trace("m.csv", 0, ROWS);
        char *text = slurp("m.csv", NULL);
        if (lost) {
            char *row = strstr(text, "\n4,");
            memmove(row, strstr(row + 1, "\n"), strlen(strstr(row + 1, "\n")) + 1);
        }
        write_raw("m.csv", text, strlen(text));
        free(text);
        if (trace_open(&t, at("m.csv"), columns, RESUME, ERROR)) fail_msg("%s", sentence);
        trace_note_missing(t, RESUME, 2);
        if (lost)
            assert_non_null(strstr(trace_note(t), "m.csv has 4 of the 5 rows before 9"));
        else
            assert_string_equal(trace_note(t), "");
        assert_int_equal(trace_close(t, ERROR), 0);
    }
}

/* A file that somebody removes, empties or cuts while it is written fails the next flush. */
static void a_trace_is_not_lost_in_silence(void **state)
{
    for (int how = 0; how < 3; how++) {
        trace *t = NULL;
        if (trace_open(&t, at("g.csv"), columns, 0, ERROR)) fail_msg("%s", sentence);
        append_rows(t, 0, 4);
        assert_int_equal(trace_flush(t, ERROR), 0);
        append_rows(t, 4, 6);
        assert_int_equal(how == 0 ? unlink(at("g.csv")) : truncate(at("g.csv"), how == 1 ? 0 : 20), 0);
        assert_int_equal(trace_flush(t, ERROR), -1);
        assert_non_null(strstr(sentence, "g.csv was removed, replaced or changed while the run wrote to it"));
        (void)trace_close(t, ERROR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_has_exact_numbers_and_gaps),
        cmocka_unit_test(a_resumed_trace_has_the_same_bytes),
        cmocka_unit_test(a_killed_writer_can_be_resumed),
        cmocka_unit_test(a_finished_trace_is_extended_or_started_anew),
        cmocka_unit_test(a_damaged_trace_is_kept_aside),
        cmocka_unit_test(a_tail_is_no_damage),
        cmocka_unit_test(a_foreign_trace_is_kept_aside),
        cmocka_unit_test(the_info_becomes_a_row),
        cmocka_unit_test(a_trace_of_an_earlier_version_goes_on),
        cmocka_unit_test(a_full_disk_stops_a_trace),
        cmocka_unit_test(missing_rows_are_named),
        cmocka_unit_test(a_trace_is_not_lost_in_silence),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
