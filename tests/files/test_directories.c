/* test_directories.c: directories that somebody else prepared: links, FIFOs and guessed names in the place of our files. Whatever
 * is there, nothing outside the directory changes and nobody waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/directory.h"
#include "files/files.h"
#include "scratch.h"

static const char victim[] = "somebody's work";

static void assert_victim_is_whole(void)
{
    char *text = slurp("victim", NULL);
    assert_string_equal(text, victim);
    free(text);
}

/* A link from NAME to the victim. */
static void set_trap(const char *name)
{
    (void)unlink(at(name));
    char target[FILES_PATH];
    (void)snprintf(target, sizeof target, "%s", at("victim"));
    assert_int_equal(symlink(target, at(name)), 0);
    write_text("victim", victim);
}

static void a_link_is_replaced_and_not_followed(void **state)
{
    struct stat st;
    set_trap("a.txt");
    set_trap("a.txt.tmp");
    assert_int_equal(files_write(at("a.txt"), "new", 3, ERROR), 0);
    assert_victim_is_whole();
    assert_int_equal(lstat(at("a.txt"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void a_trace_through_a_link_is_refused(void **state)
{
    trace *t = NULL;
    for (int from = 0; from < 2; from++) {
        set_trap("t.csv");
        assert_int_equal(trace_open(&t, at("t.csv"), "iteration,a", from, ERROR), -1);
        assert_says("t.csv is a link");
        assert_victim_is_whole();
    }
    assert_int_equal(unlink(at("t.csv")), 0);
    char other[FILES_PATH]; /* a second name of the victim: a new trace is a new file */
    (void)snprintf(other, sizeof other, "%s", at("victim"));
    assert_int_equal(link(other, at("t.csv")), 0);
    assert_int_equal(trace_open(&t, at("t.csv"), "iteration,a", 0, ERROR), 0);
    assert_int_equal(trace_close(t, ERROR), 0);
    assert_victim_is_whole();
}

static void nobody_waits_for_a_fifo(void **state)
{
    trace *t = NULL;
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    for (int from = 0; from < 2; from++) {
        assert_int_equal(trace_open(&t, at("fifo"), "iteration,a", from, ERROR), -1);
        assert_says("fifo is a FIFO");
    }
    assert_int_equal(trace_open_info(&t, at("fifo"), 1, 5, ERROR), -1);
    assert_says("fifo is a FIFO");
    assert_int_equal(directory_regular(at("fifo"), ERROR), -1);
    assert_int_equal(directory_regular("/dev/null", ERROR), -1);
    assert_says("a device");
    assert_int_equal(directory_regular(at("nothing"), ERROR), 0);
}

static void a_folder_is_no_link(void **state)
{
    char elsewhere[FILES_PATH];
    (void)snprintf(elsewhere, sizeof elsewhere, "%s", at("elsewhere"));
    assert_int_equal(mkdir(elsewhere, 0755), 0);
    assert_int_equal(symlink(elsewhere, at("figures")), 0);
    assert_int_equal(directory_folder(at("figures"), ERROR), -1);
    assert_says("figures is a link");
    int folder = directory_folder(at("made"), ERROR), again = directory_folder(at("made"), ERROR);
    assert_true(folder >= 0 && again >= 0);
    /* The folder stays the same one, whatever takes its name. */
    char from[FILES_PATH];
    (void)snprintf(from, sizeof from, "%s", at("made"));
    assert_int_equal(rename(from, at("moved")), 0);
    assert_int_equal(symlink(elsewhere, from), 0);
    atomic_file f;
    assert_int_equal(atomic_open_in(&f, folder, at("made/a.svg"), ERROR), 0);
    atomic_put(&f, "x", 1);
    assert_int_equal(atomic_close_loosely(&f, ERROR), 0);
    assert_true(is_there("moved/a.svg") && !is_there("elsewhere/a.svg"));
    assert_int_equal(close(folder) || close(again), 0);
}

/* The only name in the folder that ends in .tmp. */
static void temporary_in(const char *folder, char out[256])
{
    DIR *d = opendir(at(folder));
    assert_non_null(d);
    out[0] = 0;
    // cppcheck-suppress readdirCalled ; nobody else reads this stream
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        size_t n = strlen(e->d_name);
        if (n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0) (void)snprintf(out, 256, "%s", e->d_name);
    }
    (void)closedir(d);
}

static void temporaries_cannot_be_guessed_and_are_swept(void **state)
{
    char name[2][256], path[FILES_PATH];
    atomic_file f[2];
    assert_int_equal(mkdir(at("swept"), 0755), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_open(&f[i], at("swept/a.txt"), ERROR), 0);
        temporary_in("swept", name[i]);
        if (i == 0) atomic_abandon(&f[0]);
    }
    assert_true(strncmp(name[0], "a.txt.", 6) == 0 && strlen(name[0]) == strlen("a.txt") + DIRECTORY_SUFFIX - 1);
    assert_string_not_equal(name[0], name[1]);
    /* the second writer is killed, so to speak */
    static const char *const others[] = {"swept/a.tmp", "swept/a.0123456789abcdeF.tmp", "swept/a.0123456789abcdef.txt"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) write_text(others[i], "the user's");
    directory_sweep(at("swept"), 0);
    (void)snprintf(path, sizeof path, "swept/%.200s", name[1]);
    assert_false(is_there(path));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_true(is_there(others[i]));
    assert_int_equal(atomic_close(&f[1], ERROR), -1); /* its bytes have no name any more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_link_is_replaced_and_not_followed),
                                       cmocka_unit_test(a_trace_through_a_link_is_refused),
                                       cmocka_unit_test(nobody_waits_for_a_fifo), cmocka_unit_test(a_folder_is_no_link),
                                       cmocka_unit_test(temporaries_cannot_be_guessed_and_are_swept)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
