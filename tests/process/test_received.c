/* test_received.c: run directories that came from elsewhere: with links and FIFOs in the place of files, moved to another folder,
 * with damaged and missing files. Nothing outside is written, nobody waits for ever, and what can be had is made of them. */
#define _GNU_SOURCE 1 /* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];
enum { BYTES = 1 << 20 };

/* What the program says, having ended with the code. */
static const char *says(int code, const char *arguments)
{
    static char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    int got = program_run(&s, arguments, said);
    if (got != code) fail_msg("sosmc %s: exit code %d (expected %d), '%s'", arguments, got, code, said);
    return said;
}

static void expect(int code, const char *words, const char *arguments)
{
    const char *said = says(code, arguments);
    if (!strstr(said, words)) fail_msg("sosmc %s: '%s' (expected '%s')", arguments, said, words);
}

static char *slurp(const char *name)
{
    static char bytes[BYTES];
    FILE *f = fopen(folder_path(folder, name), "rb");
    if (!f) fail_msg("cannot open %s", name);
    bytes[fread(bytes, 1, BYTES - 1, f)] = 0;
    (void)fclose(f);
    return bytes;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(folder_path(folder, name), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int is_there(const char *name) { return access(folder_path(folder, name), F_OK) == 0; }
static void clear(const char *name) { (void)folder_remove(folder_path(folder, name)); }

static void move(const char *from, const char *to)
{
    char old[PROGRAM_WORDS];
    (void)snprintf(old, sizeof old, "%s", folder_path(folder, from));
    assert_int_equal(rename(old, folder_path(folder, to)), 0);
}

static void must_be_same(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, one), folder_path(folder, other), difference)) fail_msg("%s", difference);
}

#define RUN "run run.yaml --out run --quiet"

/* ---------------------------------------------------------------------------- links */

static const char victim[] = "somebody's work\n";

static void set_trap(const char *name)
{
    (void)unlink(folder_path(folder, name));
    assert_int_equal(symlink("../victim", folder_path(folder, name)), 0);
    write_file("victim", victim);
}

static void nothing_is_written_through_links(void **state)
{
    /* Those that grow are refused; those that are written anew take the place of the link. */
    static const struct {
        const char *name;
        int fresh, resume;
    } rows[] = {{"run/trace.csv", 0, 4},       {"run/timing.csv", 0, 4},     {"run/evaluation.csv", 0, 4},
                {"run/summary.json", 0, 0},    {"run/theta.npy", 0, 0},      {"run/report.html", 0, 0},
                {"run/trace.csv.tmp", 0, 0},   {"run/checkpoint.tmp", 0, 0}, {"run/run.yaml.tmp", 0, 0},
                {"run/summary.json.tmp", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clear("run");
        (void)says(0, RUN);
        set_trap(rows[i].name);
        (void)says(rows[i].resume, RUN " --resume --iterations 44");
        assert_string_equal(slurp("victim"), victim);
        clear("run");
        (void)says(0, RUN);
        set_trap(rows[i].name);
        int code = strstr(rows[i].name, ".csv") && !strstr(rows[i].name, ".tmp") &&
                           strcmp(rows[i].name, "run/evaluation.csv") != 0
                       ? 4
                       : 0;
        (void)says(code, RUN " --overwrite"); /* which removes evaluation.csv before it begins */
        assert_string_equal(slurp("victim"), victim);
    }
    clear("run");
}

static void a_report_stays_in_its_directory(void **state)
{
    struct stat st;
    (void)says(0, RUN);
    clear("run/figures");
    assert_int_equal(mkdir(folder_path(folder, "elsewhere"), 0755), 0);
    assert_int_equal(symlink("../elsewhere", folder_path(folder, "run/figures")), 0);
    set_trap("run/report.html");
    set_trap("run/report.html.tmp");
    (void)says(0, "report run");
    assert_string_equal(slurp("victim"), victim);
    assert_int_equal(rmdir(folder_path(folder, "elsewhere")), 0); /* it is empty */
    assert_non_null(strstr(slurp("run/report.html"), "run/figures is a link"));
    assert_int_equal(lstat(folder_path(folder, "run/report.html"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    clear("run");
}

/* ---------------------------------------------------------------------------- FIFOs */

static void nobody_waits_for_a_fifo(void **state)
{
    static const struct {
        const char *name;
        int report; /* the exit code of `report`, which does not read all of them */
    } rows[] = {{"run/run.yaml", 4},    {"run/trace.csv", 4},      {"run/timing.csv", 4},
                {"run/checkpoint", 0},  {"run/summary.json", 4},   {"run/theta.npy", 4},
                {"run/inputs.json", 0}, {"run/evaluation.csv", 4}, {"run/particles.npz", 4}};
    char words[PROGRAM_WORDS];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clear("run");
        (void)says(0, RUN);
        (void)unlink(folder_path(folder, rows[i].name));
        assert_int_equal(mkfifo(folder_path(folder, rows[i].name), 0600), 0);
        (void)snprintf(words, sizeof words, "%s is a FIFO", rows[i].name);
        expect(4, words, RUN " --resume --iterations 44");
        expect(4, words, RUN " --overwrite");
        expect(4, words, "judge run --quiet");
        (void)says(rows[i].report, "report run");
    }
    clear("run");
}

/* ---------------------------------------------------------------------------- moved directories */

static const char *sought;
static char found_in[PROGRAM_WORDS];

static int look(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    static char bytes[BYTES];
    if (kind != FTW_F || *found_in) return 0;
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) (void)fclose(f);
    if (memmem(bytes, n, sought, strlen(sought))) (void)snprintf(found_in, sizeof found_in, "%s", path);
    return 0;
}

/* No file in the directory names the place that it was made in. */
static void must_not_name(const char *dir, const char *place)
{
    sought = place;
    found_in[0] = 0;
    (void)nftw(folder_path(folder, dir), look, 8, FTW_PHYS);
    if (*found_in) fail_msg("%s names %s", found_in, place);
}

#define TUNE "tune model.safetensors --reward lower --beta 0.5 --forward --particles 20 --iterations 8 --quiet --out "
#define PICTURE "deblur photo.pgm --blur box:3 --noise 2 --iterations 12 --particles 2 --quiet --simulate --out "
#define SEEN "deblur photo.pgm --blur box:3 --noise 2 --iterations 12 --particles 2 --quiet --out "

static void directories_may_be_moved(void **state)
{
    char arguments[2 * PROGRAM_WORDS], place[PROGRAM_WORDS], purified[PROGRAM_WORDS];
    const char *const commands[] = {TUNE, purified, PICTURE, SEEN};
    /* what stops each of them, but for the second: it comes to its end, and so to all its directories */
    static const char *const limits[] = {" --budget-seconds 1e-9", "", " --time-limit 1e-9", " --time-limit 1e-9"};
    (void)snprintf(
        purified, sizeof purified,
        "tune %s/../examples/data/bars.safetensors --reward bright --beta 1 --warm 2 --purify 2 --particles 10 "
        "--iterations 4 --set evaluate.every=0 --quiet --out ",
        getenv("SOSMC_TEST_SOURCE"));
    assert_int_equal(mkdir(folder_path(folder, "first_place"), 0755) | mkdir(folder_path(folder, "second"), 0755), 0);
    (void)snprintf(place, sizeof place, "%s", "first_place");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        (void)snprintf(arguments, sizeof arguments, "%sfirst_place/d", commands[i]);
        (void)says(0, arguments);
        move("first_place/d", "second/whole");
        (void)snprintf(arguments, sizeof arguments, "%sfirst_place/d --set output.checkpoint_every=1%s", commands[i],
                       limits[i]);
        (void)says(0, arguments);
        must_not_name("first_place/d", place);
        move("first_place/d", "second/d");
        (void)snprintf(arguments, sizeof arguments, "%ssecond/d --resume", commands[i]);
        (void)says(0, arguments);
        must_not_name("second/d", place);
        /* resumed at another place, and replayed from there: the numbers of one that was never moved */
        static const char *const names[] = {"second/d/trace.csv", "second/replay/trace.csv"};
        char *whole = strdup(slurp("second/whole/trace.csv"));
        assert_non_null(whole);
        (void)says(0, "run second/d/run.yaml --out second/replay --quiet");
        for (size_t k = 0; k < 2; k++) assert_string_equal(slurp(names[k]), whole);
        free(whole);
        (void)says(0, "report second/d");
        (void)says(0, "judge second/d --quiet");
        static const char *const dirs[] = {"second/d", "second/whole", "second/replay"};
        for (size_t k = 0; k < 3; k++) clear(dirs[k]);
    }
    clear("first_place");
    clear("second");
}

/* ---------------------------------------------------------------------------- damage */

/* The line number n, from 1 on, replaced by this text. */
static void spoil_line(const char *name, int n, const char *text)
{
    static char out[BYTES];
    char *bytes = slurp(name), *at = bytes;
    for (int i = 1; i < n; i++) at = strchr(at, '\n') + 1;
    char *end = strchr(at, '\n');
    (void)snprintf(out, sizeof out, "%.*s%s%s", (int)(at - bytes), bytes, text, end);
    write_file(name, out);
}

static int lines(const char *name)
{
    int n = 0;
    for (const char *p = slurp(name); *p; p++) n += *p == '\n';
    return n;
}

#define LONG RUN " --set output.thin=1 --set output.trace_rows=0"

static void a_bad_row_costs_one_row(void **state)
{
    clear("run");
    (void)says(0, LONG);
    int all = lines("run/trace.csv");
    assert_int_equal(all, 44);
    spoil_line("run/trace.csv", 12, "10,oops");
    char *before = strdup(slurp("run/trace.csv"));
    assert_non_null(before);
    expect(0, "run/trace.csv was damaged: 1 of its lines, the first of them line 12, is no rows",
           LONG " --resume --iterations 50");
    assert_int_equal(lines("run/trace.csv"), 50);
    assert_string_equal(slurp("run/trace.csv.damaged"), before);
    free(before);
    assert_null(strstr(says(0, LONG " --resume --iterations 51"), "damaged"));
    clear("run");
}

static void what_is_missing_is_made_again(void **state)
{
    static const char *const names[] = {"summary.json", "theta.npy",  "particles.npz", "report.html",
                                        "run.yaml",     "timing.csv", "trace.csv",     "evaluation.csv"};
    char name[64];
    clear("run");
    clear("whole");
    (void)says(0, RUN);
    move("run", "whole");
    (void)says(0, RUN);
    for (size_t i = 0; i < 5; i++) { /* with the same bytes, as far as they do not grow row by row */
        (void)snprintf(name, sizeof name, "run/%s", names[i]);
        assert_int_equal(unlink(folder_path(folder, name)), 0);
        (void)says(0, RUN " --resume");
        must_be_same("whole", "run");
    }
    for (size_t i = 5; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(name, sizeof name, "run/%s", names[i]);
        assert_int_equal(unlink(folder_path(folder, name)), 0);
        expect(0, "was missing; it begins again with iteration", RUN " --resume --iterations 50");
        assert_true(is_there(name));
        (void)says(0, "report run");
        clear("run");
        (void)says(0, RUN);
    }
    clear("run");
    clear("whole");
}

static int set_up(void **state) { return folder_make(folder, "sosmc_received") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_through_links), cmocka_unit_test(a_report_stays_in_its_directory),
        cmocka_unit_test(nobody_waits_for_a_fifo),          cmocka_unit_test(directories_may_be_moved),
        cmocka_unit_test(a_bad_row_costs_one_row),          cmocka_unit_test(what_is_missing_is_made_again)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
