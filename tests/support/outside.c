/* outside.c: streams and Python. Whatever goes wrong here fails the test that asked. */
#include "outside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int divert(int stream, const char *path)
{
    int kept = dup(stream), file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(kept >= 0 && file >= 0 && dup2(file, stream) >= 0);
    assert_int_equal(close(file), 0);
    return kept;
}

static void restore(int stream, int kept)
{
    assert_true(dup2(kept, stream) >= 0);
    assert_int_equal(close(kept), 0);
}

outside_streams outside_divert(const char *file)
{
    (void)fflush(NULL);
    (void)unlink(file);
    int out = divert(1, file);
    return (outside_streams){out, divert(2, file)};
}

void outside_restore(outside_streams kept)
{
    (void)fflush(NULL);
    restore(1, kept.out);
    restore(2, kept.err);
}

int outside_python(const char *out, const char *log, const char *a, const char *b, const char *c)
{
    enum { WORDS = 4, ROOM = 8192 };
    const char *program = getenv("SOSMC_TEST_PYTHON");
    const char *given[WORDS] = {program && *program ? program : "python3", a, b, c};
    char word[WORDS][ROOM], *argv[WORDS + 1] = {NULL};
    for (int i = 0; i < WORDS && given[i]; i++) {
        (void)snprintf(word[i], sizeof word[i], "%s", given[i]);
        argv[i] = word[i];
    }
    pid_t child;
    int status = 0;
    posix_spawn_file_actions_t streams;
    assert_int_equal(posix_spawn_file_actions_init(&streams), 0);
    if (out) (void)posix_spawn_file_actions_addopen(&streams, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)posix_spawn_file_actions_addopen(&streams, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int failed = posix_spawnp(&child, argv[0], &streams, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&streams);
    if (failed) return 127;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
