/* test_checkpoint_disk.c: in which order a checkpoint file reaches the disk.
 *
 * A file that is renamed before its bytes are on the disk may be empty after a power failure, and a name is safe only when its
 * directory is on the disk too. This program has its own write, fsync, fdatasync and rename, which the library calls instead of libc's:
 * they note who was called for which file, and then do the work. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "checkpoint_files.h"
#include "expect_engine.h"

/* ---------------------------------------------------------------------------- what was called */

typedef struct {
    char verb; /* w: write, f: fsync, r: rename */
    char path[NAME_ROOM], to[NAME_ROOM];
} event;
enum { EVENTS = 64 };
static event seen[EVENTS];
static int count, noting;

static void note(char verb, const char *path, const char *to)
{
    if (!noting) return;
    const event *last = count ? &seen[count - 1] : NULL;
    if (verb == 'w' && last && last->verb == 'w' && strcmp(last->path, path) == 0)
        return; /* one line for a run of them */
    assert_true(count < EVENTS);
    event *e = &seen[count++];
    e->verb = verb;
    (void)snprintf(e->path, sizeof e->path, "%s", path);
    (void)snprintf(e->to, sizeof e->to, "%s", to);
}

static void note_descriptor(char verb, int fd)
{
    char link[64], path[NAME_ROOM];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    note(verb, path, "");
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    note_descriptor('w', fd);
    return syscall(SYS_write, fd, bytes, n);
}
int fsync(int fd)
{
    note_descriptor('f', fd);
    return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd)
{
    note_descriptor('f', fd);
    return (int)syscall(SYS_fdatasync, fd);
}
int rename(const char *from, const char *to)
{
    note('r', from, to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---------------------------------------------------------------------------- the order */

static const event *expect(int at, char verb, const char *path, const char *to)
{
    if (at >= count) fail_msg("call %d is missing: %c %s", at, verb, path);
    const event *e = &seen[at];
    if (e->verb != verb || strcmp(e->path, path) != 0 || strcmp(e->to, to) != 0)
        fail_msg("call %d is %c %s %s, expected %c %s %s", at, e->verb, e->path, e->to, verb, path, to);
    return e;
}

static void bytes_then_names_then_the_directory(void **state)
{
    checkpoint_folder p = checkpoint_folder_new();
    sosmc *s = engine_case_open(engine_case_of(ULA_PAPER));
    char *dir = realpath(p.dir, NULL), path[NAME_ROOM], previous[NAME_ROOM + 16], temporary[NAME_ROOM];
    assert_non_null(dir);
    (void)snprintf(path, sizeof path, "%s/%s", dir, strrchr(p.path, '/') + 1);
    (void)snprintf(previous, sizeof previous, "%s.previous", path);
    for (int k = 0; k < 3; k++) {
        expect_steps(s, 1);
        count = 0;
        noting = 1;
        sosmc_status status = sosmc_save_file(s, path);
        noting = 0;
        assert_int_equal(status, SOSMC_OK);
        assert_true(count > 0);
        (void)snprintf(temporary, sizeof temporary, "%s", seen[0].path); /* whatever its name is */
        assert_string_not_equal(temporary, path);
        assert_int_equal(strncmp(temporary, dir, strlen(dir)), 0); /* a rename from another file system is a copy */
        (void)expect(0, 'w', temporary, "");
        (void)expect(1, 'f', temporary, "");
        (void)expect(2, 'r', path, previous);
        (void)expect(3, 'r', temporary, path);
        (void)expect(4, 'f', dir, "");
        assert_int_equal(count, 5);
    }
    sosmc_free(s);
    free(dir);
    checkpoint_folder_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_then_names_then_the_directory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
