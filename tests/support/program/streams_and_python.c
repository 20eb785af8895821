/* streams_and_python.c: see streams_and_python.h. A call that fails here fails the test that made it. */
#include "streams_and_python.h"

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

#include "folder.h"

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

diverted_streams streams_divert(const char *file)
{
    (void)fflush(NULL);
    (void)unlink(file);
    int out = divert(1, file);
    return (diverted_streams){out, divert(2, file)};
}

void streams_restore(diverted_streams kept)
{
    (void)fflush(NULL);
    restore(1, kept.out);
    restore(2, kept.err);
}

int python_run(const char *out, const char *log, const char *a, const char *b, const char *c)
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

void python_packages(const char *folder, const char *verb)
{
    char script[4096], line[1024];
    const char *tests = getenv("SOSMC_TEST_SOURCE"), *log = folder_path(folder, "python.log");
    (void)snprintf(script, sizeof script, "%s/files/real_packages.py", tests ? tests : "");
    if (!tests || access(script, R_OK)) {
        print_message("skipped: SOSMC_TEST_SOURCE does not name the folder of the tests\n");
        skip();
    }
    if (python_run(NULL, log, "-c", "import numpy, safetensors.numpy", NULL)) {
        print_message("skipped: SOSMC_TEST_PYTHON, or else python3, needs: pip install numpy safetensors\n");
        skip();
    }
    if (!python_run(NULL, log, script, verb, folder)) return;
    FILE *in = fopen(log, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) print_message("%s", line);
    (void)fclose(in);
    fail_msg("real_packages.py %s failed", verb);
}
