/* test_disk.c: disks that are full, folders that may not be written, files that are not what they should be.
 *
 * Whatever fails, the program says so in a sentence with the file's name and ends with the exit code of input and output (or of
 * usage, when another path is all that is needed); once the fault is gone, the same command with --resume ends with the
 * bytes of an undisturbed run. */
#define _GNU_SOURCE 1 /* unshare */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];
static const program_scene *const scene = &program_scenes[SCENE_RUN];

/* Runs and expects the exit code and, unless `words` is NULL, these words on standard error. */
static void expect(const program_setting *s, const char *arguments, int code, const char *words)
{
    char said[PROGRAM_WORDS];
    int got = program_run(s, arguments, said);
    if (got != code || (words && !strstr(said, words)))
        fail_msg("sosmc %s: exit code %d (expected %d), '%s' (expected '%s')", arguments, got, code, said,
                 words ? words : "anything");
}

static void start_over(void) { (void)folder_remove(folder_path(folder, scene->out)); }

static void must_be_whole(const char *after, long n)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, "whole"), folder_path(folder, "run"), difference))
        fail_msg("after %s %ld: %s", after, n, difference);
    const char *left = program_leftover(folder_path(folder, "run"));
    if (left) fail_msg("after %s %ld: %s is left", after, n, left);
}

/* ---------------------------------------------------------------------------- full disks */

/* A call that changes a file fails; 1 when the run failed with it. */
static int fail_call(long n, int stays)
{
    char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "disk", .at = n, .stays = stays}, sound = {.folder = folder};
    start_over();
    int code = program_run(&s, scene->fresh, said);
    if (code != 0 && (code != 4 || !strstr(said, "No space left on device")))
        fail_msg("call %ld: exit code %d, '%s'", n, code, said);
    const char *left = program_leftover(folder_path(folder, "run"));
    if (left) fail_msg("call %ld: %s is left", n, left);
    if (code == 0) return 0; /* what could not be done was no more than a figure, or a wish */
    expect(&sound, scene->again, 0, NULL);
    must_be_whole("failing call", n);
    return 1;
}

static void every_call_may_fail(void **state)
{
    char said[PROGRAM_WORDS], log[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "disk", .log = log};
    long calls = 0, failed = 0, tried = 0;
    if (!program_faults()) {
        print_message("no library of faults beside the sanitizers\n");
        skip();
    }
    (void)snprintf(log, sizeof log, "%s", folder_path(folder, "log"));
    start_over();
    assert_int_equal(program_run(&s, scene->fresh, said), 0);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &calls), 1); // NOLINT(cert-err34-c): our own number
    (void)fclose(f);
    for (long n = 1; n <= calls; n += program_nightly() ? 1 : 11) {
        failed += fail_call(n, (int)(n & 1));
        if (program_nightly()) failed += fail_call(n, !(n & 1));
        tried++;
    }
    start_over();
    print_message("%ld of %ld calls failed, the run with %ld\n", tried, calls, failed);
    assert_true(failed > tried / 4);
}

/* A file system of so many KiB that only this process and its children see; 0, or -1 where that is not allowed. */
static int mount_small(const char *path, const char *size, unsigned long flags)
{
    char options[64];
    (void)snprintf(options, sizeof options, "size=%s", size);
    return mount("tmpfs", path, "tmpfs", flags, options);
}

static void a_full_disk(void **state)
{
    char inside[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    assert_int_equal(mkdir(folder_path(folder, "small"), 0755), 0);
    (void)snprintf(inside, sizeof inside, "%s", folder_path(folder, "small"));
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount_small(inside, "16k", 0)) {
        print_message("no file system may be mounted here: %s\n", strerror(errno));
        skip();
    }
    expect(&s, "run run.yaml --out small/run --quiet", 4, "No space left on device");
    assert_int_equal(mount_small(inside, "8m", MS_REMOUNT), 0);
    expect(&s, "run run.yaml --out small/run --quiet --resume", 0, NULL);
    char difference[PROGRAM_WORDS];
    int differ = program_differ(folder_path(folder, "whole"), folder_path(folder, "small/run"), difference);
    assert_int_equal(umount(inside), 0);
    if (differ) fail_msg("after a full disk: %s", difference);
}

static void limit_files(void)
{
    const struct rlimit limit = {.rlim_cur = 600, .rlim_max = 600};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

static void files_may_not_grow(void **state)
{
    program_setting s = {.folder = folder, .in_child = limit_files}, sound = {.folder = folder};
    start_over();
    expect(&s, scene->fresh, 4, "File too large");
    expect(&sound, scene->again, 0, NULL);
    must_be_whole("a limit on files", 0);
    start_over();
}

/* ---------------------------------------------------------------------------- folders */

static void become_nobody(void)
{
    if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(96);
}

/* Root may write everywhere: then the program runs as nobody, and the folder only has to be somebody else's. */
static void forbid(const char *path, int forbidden)
{
    if (geteuid() == 0)
        assert_int_equal(chmod(path, 0755), 0);
    else
        assert_int_equal(chmod(path, forbidden ? 0555 : 0755), 0);
}

static void folders_that_cannot_be_written(void **state)
{
    program_setting s = {.folder = folder, .in_child = become_nobody}, sound = {.folder = folder};
    char said[PROGRAM_WORDS];
    start_over();
    forbid(folder, 1);
    if (program_run(&s, "--version", said) != 0) {
        forbid(folder, 0);
        print_message("the program may not be run by nobody here\n");
        skip();
    }
    expect(&s, "run run.yaml --out run --quiet", 4, "cannot create run: Permission denied");
    forbid(folder, 0);
    expect(&sound, scene->fresh, 0, NULL);
    forbid(folder_path(folder, "run"), 1);
    forbid(folder_path(folder, "run/figures"), 1);
    expect(&s, "run run.yaml --out run --quiet --overwrite", 4, "Permission denied");
    must_be_whole("a folder that may not be written", 0); /* not even --overwrite takes anything away then */
    expect(&s, "report run", 4, "Permission denied");
    must_be_whole("a report that may not be written", 0);
    forbid(folder_path(folder, "run"), 0);
    forbid(folder_path(folder, "run/figures"), 0);
    start_over();
}

static void a_path_that_is_a_file(void **state)
{
    program_setting s = {.folder = folder};
    char photo[PROGRAM_WORDS];
    struct stat st;
    (void)snprintf(photo, sizeof photo, "%s", folder_path(folder, "photo.pgm"));
    assert_int_equal(stat(photo, &st), 0);
    expect(&s, "run run.yaml --out photo.pgm --quiet", 4, "photo.pgm exists and is not a directory");
    expect(&s, "run run.yaml --out photo.pgm --quiet --overwrite", 4, "photo.pgm exists and is not a directory");
    expect(&s, "deblur photo.pgm --noise 2 --out run.yaml --quiet", 4, "run.yaml exists and is not a directory");
    expect(&s, "tune model.safetensors --reward lower --beta 1 --out photo.pgm --quiet", 4, "photo.pgm");
    expect(&s, "run bin --out run --quiet", 4, "bin");
    off_t size = st.st_size;
    assert_int_equal(stat(photo, &st), 0);
    assert_int_equal(st.st_size, size);
}

/* ---------------------------------------------------------------------------- checkpoints */

enum { TRUNCATED, FLIPPED, FOREIGN, EMPTY, NEWER, FAULTS };
static const char *const fault_names[FAULTS] = {"truncated", "flipped", "foreign", "empty", "newer"};

static void damage(const char *name, int how)
{
    char bytes[65536];
    FILE *f = fopen(folder_path(folder, name), "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    assert_true(n > 200 && n < sizeof bytes);
    if (how == TRUNCATED) n /= 2;
    if (how == FLIPPED) bytes[n / 2] = (char)(bytes[n / 2] ^ 16);
    if (how == FOREIGN) (void)snprintf(bytes, sizeof bytes, "PK: this is no checkpoint at all");
    if (how == EMPTY) n = 0;
    if (how == NEWER) bytes[8] = 99;
    f = fopen(folder_path(folder, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* One damaged file: the one before it serves. Both: the sentence names the file, and nothing is touched. */
static void damaged_checkpoints(void **state)
{
    program_setting s = {.folder = folder};
    for (int how = 0; how < FAULTS; how++) {
        start_over();
        expect(&s, scene->fresh, 0, NULL);
        damage("run/checkpoint", how);
        expect(&s, scene->again, 0, "goes on from iteration 42");
        must_be_whole(fault_names[how], how);
        damage("run/checkpoint", how);
        damage("run/checkpoint.previous", how);
        expect(&s, scene->again, 4, "run/checkpoint: ");
        if (how == NEWER) expect(&s, scene->again, 4, "format version 99");
        assert_int_equal(access(folder_path(folder, "run/trace.csv"), F_OK), 0);
        assert_int_equal(access(folder_path(folder, "run/summary.json"), F_OK), 0);
        expect(&s, "run run.yaml --out run --quiet --overwrite", 0, NULL);
        must_be_whole("--overwrite", how);
    }
    start_over();
}

static void a_checkpoint_of_another_problem(void **state)
{
    program_setting s = {.folder = folder};
    char from[PROGRAM_WORDS];
    expect(&s, "run run.yaml --out other --quiet --set particles=80 --set output.report=false", 0, NULL);
    start_over();
    expect(&s, scene->fresh, 0, NULL);
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, "other/checkpoint"));
    assert_int_equal(rename(from, folder_path(folder, "run/checkpoint")), 0);
    expect(&s, scene->again, 2, "run/checkpoint: ");
    (void)folder_remove(folder_path(folder, "other"));
    start_over();
}

/* ---------------------------------------------------------------------------- the order on the disk */

enum { CALLS = 4096, CALL = 512 };
static char call[CALLS][CALL]; /* "fsync PATH" or "rename DIR/OLD NEW" */

/* What a run does with fsync and rename, in its order; how many calls. */
static int record_calls(const char *arguments)
{
    char said[PROGRAM_WORDS], log[PROGRAM_WORDS], *end;
    program_setting s = {.folder = folder, .fault = "record", .log = log};
    int n = 0;
    (void)snprintf(log, sizeof log, "%s", folder_path(folder, "calls"));
    (void)unlink(log);
    start_over();
    int code = program_run(&s, arguments, said);
    if (code != 0) fail_msg("sosmc %s: exit code %d, %s", arguments, code, said);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    while (n < CALLS && fgets(call[n], CALL, f))
        if ((end = strchr(call[n++], '\n')) != NULL) *end = 0;
    (void)fclose(f);
    assert_true(n > 10 && n < CALLS);
    return n;
}

static int ends_in(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* The number of the last call below `before` that is "fsync" of this path; -1: there is none. */
static int synced(const char *path, size_t length, int from, int before)
{
    for (int i = before - 1; i >= from; i--)
        if (strncmp(call[i], "fsync ", 6) == 0 && strlen(call[i] + 6) == length &&
            strncmp(call[i] + 6, path, length) == 0)
            return i;
    return -1;
}

static int is_figure(const char *old) { return strstr(old, "/figures/") != NULL; }

/* One file that takes its name: its bytes go to the disk before, its folder after. A figure, which can be drawn again, waits for
 * nothing. */
static void check_rename(int at, int n)
{
    const char *old = call[at] + strlen("rename "), *blank = strchr(old, ' ');
    size_t length = (size_t)(blank - old), folder_length = length;
    while (folder_length > 0 && old[folder_length] != '/') folder_length--;
    int temporary = strncmp(blank - 4, ".tmp", 4) == 0, before = synced(old, length, 0, at);
    int after = synced(old, folder_length, at + 1, at + 2 < n ? at + 2 : n);
    if (!temporary) return; /* the checkpoint becomes the previous one */
    if (is_figure(old) && before >= 0) fail_msg("a figure waits for the disk: %s", call[at]);
    if (is_figure(old)) return;
    if (before < 0) fail_msg("not on the disk before it has its name: %s", call[at]);
    if (after < 0) fail_msg("the folder is not on the disk after: %s", call[at]);
}

static void bytes_come_before_names(void **state)
{
    static const char *const names[] = {"run.yaml",      "checkpoint",   "theta.npy",
                                        "particles.npz", "summary.json", "report.html"};
    int renamed[sizeof names / sizeof *names] = {0}, figures = 0, last = 0;
    if (!program_faults()) {
        print_message("no library of faults beside the sanitizers\n");
        skip();
    }
    int n = record_calls(scene->fresh), syncs = 0, matter = 0;
    for (int i = 0; i < n; i++) {
        syncs += strncmp(call[i], "fsync ", 6) == 0;
        if (strncmp(call[i], "rename ", 7) != 0) continue;
        check_rename(i, n);
        figures += is_figure(call[i]);
        matter += !is_figure(call[i]) && strstr(call[i], ".tmp ") != NULL;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char ending[64];
            (void)snprintf(ending, sizeof ending, ".tmp %s", names[k]);
            renamed[k] += ends_in(call[i], ending);
        }
        if (!ends_in(call[i], ".tmp checkpoint")) continue;
        /* the rows of the trace are on the disk before the checkpoint that follows them */
        const char *dir = call[i] + strlen("rename ");
        char trace[CALL];
        (void)snprintf(trace, sizeof trace, "%.*s/run/trace.csv", (int)(strstr(dir, "/run/") - dir), dir);
        if (synced(trace, strlen(trace), last, i) < 0) fail_msg("rows are not on the disk before %s", call[i]);
        last = i;
    }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (renamed[k] < 1) fail_msg("%s was never renamed to its name", names[k]);
    assert_true(figures > 2);
    /* two for each file that matters, its own and its folder's, and those of the rows that grow */
    print_message("%d files that matter, %d figures, %d calls of fsync\n", matter, figures, syncs);
    assert_true(syncs <= 2 * matter + 8 * 5 + 10);
    start_over();
}

static int set_up(void **state)
{
    char said[PROGRAM_WORDS], from[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    if (folder_make(folder, "sosmc_disk") || program_furnish(folder)) return -1;
    if (program_run(&s, scene->fresh, said) != 0) return -1;
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, scene->out));
    return rename(from, folder_path(folder, "whole"));
}
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_may_fail),
                                       cmocka_unit_test(bytes_come_before_names),
                                       cmocka_unit_test(files_may_not_grow),
                                       cmocka_unit_test(folders_that_cannot_be_written),
                                       cmocka_unit_test(a_path_that_is_a_file),
                                       cmocka_unit_test(damaged_checkpoints),
                                       cmocka_unit_test(a_checkpoint_of_another_problem),
                                       cmocka_unit_test(a_full_disk)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
