/* test_files.c: files appear whole or not at all, JSON is read as it was written, and what cannot be done is said in a
 * sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/files.h"
#include "scratch.h"

/* ---------------------------------------------------------------------------- whole files */

static void a_file_is_replaced_whole(void **state)
{
    assert_int_equal(files_write(at("a.txt"), "old", 3, ERROR), 0);
    atomic_file f;
    assert_int_equal(atomic_open(&f, at("a.txt"), ERROR), 0);
    atomic_print(&f, "%s %d", "new", 7);
    assert_int_equal(fflush(f.stream), 0);
    char *before = slurp("a.txt", NULL); /* nobody sees the new bytes yet */
    assert_string_equal(before, "old");
    assert_int_equal(atomic_close(&f, ERROR), 0);
    char *after = slurp("a.txt", NULL);
    assert_string_equal(after, "new 7");
    assert_false(is_there("a.txt.tmp"));
    free(before);
    free(after);
}

static void an_abandoned_file_leaves_the_old_one(void **state)
{
    assert_int_equal(files_write(at("b.txt"), "old", 3, ERROR), 0);
    atomic_file f;
    assert_int_equal(atomic_open(&f, at("b.txt"), ERROR), 0);
    atomic_put(&f, "half", 4);
    atomic_abandon(&f);
    atomic_abandon(&f);
    char *after = slurp("b.txt", NULL);
    assert_string_equal(after, "old");
    assert_false(is_there("b.txt.tmp"));
    free(after);
}

/* A limit on the size of files stands in for a full disk. */
static void a_full_disk_is_told_and_leaves_the_old_file(void **state)
{
    enum { LIMIT = 4096 };
    struct rlimit old, small;
    assert_int_equal(files_write(at("c.txt"), "old", 3, ERROR), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = LIMIT;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static char big[16 * LIMIT];
    int status = files_write(at("c.txt"), big, sizeof big, ERROR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    assert_says("c.txt");
    assert_says(strerror(EFBIG));
    char *after = slurp("c.txt", NULL);
    assert_string_equal(after, "old");
    assert_false(is_there("c.txt.tmp"));
    free(after);
}

static void what_cannot_be_opened_is_named(void **state)
{
    char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(files_write(at("no/such/folder"), "x", 1, ERROR), -1);
    assert_says("no/such/folder");
    assert_says(strerror(ENOENT));
    assert_int_equal(files_read(at("missing"), 100, &bytes, &n, ERROR), -1);
    assert_says("missing");
    assert_int_equal(files_read(scratch, 100, &bytes, &n, ERROR), -1);
    assert_says("not a regular file");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(files_read(at("pipe"), 100, &bytes, &n, ERROR), -1); /* and does not wait for a writer */
    assert_says("not a regular file");
    write_text("long.txt", "0123456789");
    assert_int_equal(files_read(at("long.txt"), 9, &bytes, &n, ERROR), -1);
    assert_says("at most 9");
    assert_int_equal(files_fail(NULL, 0, "nobody listens"), -1);
}

static void directories_are_made_with_their_parents(void **state)
{
    assert_int_equal(files_directory(at("p/q/r"), ERROR), 0);
    assert_int_equal(files_directory(at("p/q/r/"), ERROR), 0);
    write_text("p/file", "x");
    assert_int_equal(files_directory(at("p/file"), ERROR), -1);
    assert_says("not a directory");
    assert_int_equal(files_directory(at("p/file/deeper"), ERROR), -1);
    assert_int_equal(files_directory("", ERROR), -1);
    char long_name[512] = "p/new/newer/", path[1024];
    memset(long_name + strlen(long_name), 'x',
           300); /* longer than a name may be: what was made on the way is removed */
    (void)snprintf(path, sizeof path, "%s", at(long_name));
    assert_int_equal(files_directory(path, ERROR), -1);
    assert_int_not_equal(access(at("p/new"), F_OK), 0);
    assert_int_equal(access(at("p/q/r"), F_OK), 0);
    char deep[FILES_PATH], out[FILES_PATH];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(files_join(out, deep, "y", ERROR), -1);
    assert_says("longer than");
}

static void utf8_is_recognised(void **state)
{
    static const struct {
        const char *s;
        int n;
    } known[] = {{"", 0},
                 {"a", 1},
                 {"\xC3\xA9", 2},
                 {"\xE2\x82\xAC", 3},
                 {"\xF0\x9F\x98\x80", 4},
                 {"\x80", 0},
                 {"\xC0\xAF", 0},
                 {"\xC3", 0},
                 {"\xE0\x80\xAF", 0},
                 {"\xED\xA0\x80", 0},
                 {"\xFF", 0},
                 {"\xE2\x82", 0},
                 {"\xF4\x90\x80\x80", 0},
                 {"\xF0\x80\x80\x80", 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) assert_int_equal(files_utf8(known[i].s), known[i].n);
}

static void numbers_are_short_and_exact(void **state)
{
    char text[32];
    assert_string_equal(files_number(0.1, text), "0.1");
    assert_string_equal(files_number(1000.0, text), "1000");
    static const double hard[] = {1.0 / 3.0, 0x1p-1074, 1.7976931348623157e308, -0.1 - 0.2, 123456789.123456789};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        assert_true(strtod(files_number(hard[i], text), NULL) == hard[i]);
}

/* ---------------------------------------------------------------------------- JSON */

static void write_json(const char *name)
{
    static const double theta[] = {0.1, NAN, -2.5e-300, INFINITY};
    atomic_file f;
    assert_int_equal(atomic_open(&f, at(name), ERROR), 0);
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "text \"quoted\"", "tab\t line\n back\\slash \x01 \x7F \xC3\xA9 bad\xFF");
    json_put_text(&w, "nothing", NULL);
    json_put_number(&w, "third", 1.0 / 3.0);
    json_put_number(&w, "nan", NAN);
    json_put_whole(&w, "whole", INT64_MIN);
    json_put_truth(&w, "yes", 1);
    json_put_truth(&w, "no", 0);
    json_put_numbers(&w, "theta", theta, 4);
    json_open_list(&w, "list");
    json_put_numbers(&w, NULL, theta, 0);
    json_open_object(&w, NULL);
    json_close(&w);
    json_close(&w);
    json_close(&w);
    assert_int_equal(atomic_close(&f, ERROR), 0);
}

static void json_round_trip(void **state)
{
    json_t *j = NULL;
    write_json("a.json");
    write_json("b.json");
    assert_same_file("a.json", "b.json");
    if (json_read(at("a.json"), &j, ERROR)) fail_msg("%s", sentence);
    assert_string_equal(json_string_value(json_object_get(j, "text \"quoted\"")),
                        "tab\t line\n back\\slash \x01 \x7F \xC3\xA9 bad\xEF\xBF\xBD");
    assert_true(json_is_null(json_object_get(j, "nothing")));
    assert_true(json_real_value(json_object_get(j, "third")) == 1.0 / 3.0);
    assert_true(json_is_null(json_object_get(j, "nan")));
    assert_true(json_integer_value(json_object_get(j, "whole")) == INT64_MIN);
    assert_true(json_is_true(json_object_get(j, "yes")) && json_is_false(json_object_get(j, "no")));
    const json_t *theta = json_object_get(j, "theta");
    assert_int_equal(json_array_size(theta), 4);
    assert_true(json_real_value(json_array_get(theta, 2)) == -2.5e-300);
    assert_true(json_is_null(json_array_get(theta, 1)) && json_is_null(json_array_get(theta, 3)));
    assert_int_equal(json_array_size(json_object_get(j, "list")), 2);
    json_decref(j);
}

/* A seed may have 64 bits; Jansson has 63. */
static void large_numbers_become_text(void **state)
{
    json_t *j = NULL;
    atomic_file f;
    assert_int_equal(atomic_open(&f, at("large.json"), ERROR), 0);
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_unsigned(&w, "most", UINT64_MAX);
    json_put_unsigned(&w, "fits", INT64_MAX);
    json_put_text(&w, "text", "a \"18446744073709551615\" \\");
    json_put_number(&w, "real", 1e300);
    json_close(&w);
    assert_int_equal(atomic_close(&f, ERROR), 0);
    if (json_read(at("large.json"), &j, ERROR)) fail_msg("%s", sentence);
    assert_string_equal(json_string_value(json_object_get(j, "most")), "18446744073709551615");
    assert_true(json_integer_value(json_object_get(j, "fits")) == INT64_MAX);
    assert_string_equal(json_string_value(json_object_get(j, "text")), "a \"18446744073709551615\" \\");
    assert_true(json_real_value(json_object_get(j, "real")) == 1e300);
    json_decref(j);
    write_text("large.json", "[1e999, 99999999999999999999]");
    assert_int_equal(json_read(at("large.json"), &j, ERROR), -1);
}

static void bad_json_is_refused_with_its_line(void **state)
{
    json_t *j = NULL;
    write_text("bad.json", "{\n\"a\": 1,\n\"b\" 2}\n");
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    assert_says("bad.json:3:");
    write_text("bad.json", "{\"a\": 1, \"a\": 2}");
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    char deep[8192]; /* must not exhaust the stack */
    memset(deep, '[', sizeof deep);
    write_raw("bad.json", deep, sizeof deep);
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    assert_null(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_whole),
        cmocka_unit_test(an_abandoned_file_leaves_the_old_one),
        cmocka_unit_test(a_full_disk_is_told_and_leaves_the_old_file),
        cmocka_unit_test(what_cannot_be_opened_is_named),
        cmocka_unit_test(directories_are_made_with_their_parents),
        cmocka_unit_test(utf8_is_recognised),
        cmocka_unit_test(numbers_are_short_and_exact),
        cmocka_unit_test(json_round_trip),
        cmocka_unit_test(large_numbers_become_text),
        cmocka_unit_test(bad_json_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
