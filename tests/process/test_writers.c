/* test_writers.c: one writer for a directory of results. Every command that writes is started twice at once: the second one says who
 * writes there and ends with 6, and the first leaves the bytes of one that was alone. A lock that a dead process left is taken,
 * and where there are no locks the program says so once. Processes of mpirun and srun are refused. */
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];
#define LOCK ".sosmc.lock"

static void nap(void)
{
    const struct timespec t = {.tv_nsec = 50000};
    (void)nanosleep(&t, NULL);
}

static int run(const char *arguments, char said[PROGRAM_WORDS])
{
    program_setting s = {.folder = folder};
    return program_run(&s, arguments, said);
}

static void expect(int code, const char *words, const char *arguments)
{
    char said[PROGRAM_WORDS];
    int got = run(arguments, said);
    if (got != code || (words && !strstr(said, words)))
        fail_msg("sosmc %s: exit code %d (expected %d), '%s' (expected '%s')", arguments, got, code, said,
                 words ? words : "anything");
}

static int is_there(const char *dir, const char *name)
{
    char path[PROGRAM_WORDS];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(folder_path(folder, path), F_OK) == 0;
}

static void move(const char *from, const char *to)
{
    char old[PROGRAM_WORDS];
    (void)snprintf(old, sizeof old, "%s", folder_path(folder, from));
    assert_int_equal(rename(old, folder_path(folder, to)), 0);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    FILE *f = fopen(folder_path(folder, name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(folder_path(folder, name), mode), 0);
}

/* ---------------------------------------------------------------------------- twice at once */

typedef struct {
    const char *before; /* what is run first, NULL: nothing */
    const char *arguments, *again, *dir;
    int code; /* of the first process */
} job;

static const job jobs[] = {
    {NULL, "run run.yaml --out run --quiet", "run run.yaml --out run --quiet --overwrite", "run", 0},
    {NULL, "run run.yaml --out run --quiet --overwrite", "run run.yaml --out run --quiet --resume", "run", 0},
    {NULL, "train circles --cd --hidden 4 --particles 20 --batch 16 --out d --quiet --set iterations=8", NULL, "d", 0},
    {NULL, "tune model.safetensors --reward lower --beta 1 --particles 20 --iterations 8 --out d --quiet", NULL, "d",
     0},
    {NULL, "sample model.safetensors --chains 20 --steps 400 --out d --quiet", NULL, "d", 0},
    {NULL, "deblur photo.pgm --noise 2 --out d --quiet", "deblur photo.pgm --noise 2 --out d --quiet --overwrite", "d",
     0},
    {NULL, "reproduce deblurring --quick --seeds 1 --threads 1 --out d --quiet", NULL, "d", 0},
    {"run run.yaml --out d --quiet", "report d", NULL, "d", 0},
    {"run run.yaml --out d --quiet", "judge d --quiet", NULL, "d", 0},
    {NULL, "demo --quick --quiet --out d", NULL, "d", 0}};

/* Whether a process holds the lock: it has put its number there. */
static int is_locked(const char *dir)
{
    char path[PROGRAM_WORDS];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/" LOCK, dir);
    return stat(folder_path(folder, path), &st) == 0 && st.st_size > 0;
}

/* Stops the process and waits until it stands, or has ended, which program_wait finds out later. */
static void stop(pid_t pid)
{
    siginfo_t info;
    (void)kill(pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
}

/* 1: the first process was met while it held the lock, which it is told of by its number. */
static int meet(const job *j)
{
    char said[PROGRAM_WORDS], who[64];
    program_setting s = {.folder = folder};
    (void)folder_remove(folder_path(folder, j->dir));
    if (j->before) expect(0, NULL, j->before);
    pid_t first = program_start(&s, j->arguments);
    for (int i = 0; i < 20000 && !is_locked(j->dir); i++) nap();
    stop(first);
    int met = is_locked(j->dir), code = met ? run(j->again ? j->again : j->arguments, said) : 0;
    (void)kill(first, SIGCONT);
    int ended = program_wait(first);
    if (ended != j->code) fail_msg("sosmc %s: exit code %d", j->arguments, ended);
    (void)snprintf(who, sizeof who, "%s is being written by process %ld on ", j->dir, (long)first);
    if (met && (code != 6 || !strstr(said, who)))
        fail_msg("sosmc %s, a second time: exit code %d, '%s' (expected '%s')", j->arguments, code, said, who);
    return met;
}

static void every_command_twice(void **state)
{
    char difference[PROGRAM_WORDS];
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const job *j = &jobs[i];
        int tries = 0;
        while (!meet(j) && tries < 20) tries++; /* it may have been too fast */
        if (tries == 20) fail_msg("sosmc %s was never met at work", j->arguments);
        assert_false(is_there(j->dir, LOCK));
        if (j->code) continue;
        (void)folder_remove(folder_path(folder, "met"));
        move(j->dir, "met");
        if (j->before) expect(0, NULL, j->before);
        expect(0, NULL, j->arguments);
        if (strncmp(j->arguments, "demo", 4) != 0 && /* its page has times in words */
            program_differ(folder_path(folder, "met"), folder_path(folder, j->dir), difference))
            fail_msg("sosmc %s, met by another: %s", j->arguments, difference);
        (void)folder_remove(folder_path(folder, j->dir));
    }
}

/* Both at the same moment, whoever comes first: one of them ends well, and what is there is the work of one. */
static void side_by_side(void **state)
{
    program_setting s = {.folder = folder};
    char difference[PROGRAM_WORDS];
    (void)folder_remove(folder_path(folder, "run"));
    expect(0, NULL, "run run.yaml --out run --quiet");
    move("run", "whole");
    for (int i = 0; i < 10; i++) {
        const char *how = i % 2 ? "run run.yaml --out run --quiet --overwrite"
                                : "run run.yaml --out run --quiet --resume";
        pid_t one = program_start(&s, how), two = program_start(&s, how);
        int a = program_wait(one), b = program_wait(two);
        if ((a != 0 && a != 6) || (b != 0 && b != 6) || (a == 6 && b == 6)) fail_msg("exit codes %d and %d", a, b);
        if (program_differ(folder_path(folder, "whole"), folder_path(folder, "run"), difference))
            fail_msg("two at once: %s", difference);
        (void)folder_remove(folder_path(folder, "run"));
    }
    /* Two run files of one name, whose default directory is the same. */
    assert_int_equal(mkdir(folder_path(folder, "a"), 0755) | mkdir(folder_path(folder, "b"), 0755), 0);
    write_file("a/twin.yaml", "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\niterations: 3000\n",
               0644);
    write_file("b/twin.yaml", "model: {type: hierarchical_gaussian, y: [7, 8]}\nobjective: mmle\niterations: 3000\n",
               0644);
    pid_t one = program_start(&s, "run a/twin.yaml --quiet"), two = program_start(&s, "run b/twin.yaml --quiet");
    int a = program_wait(one), b = program_wait(two);
    if ((a != 0) == (b != 0) || (a + b != 6 && a + b != 2)) fail_msg("exit codes %d and %d", a, b);
    (void)folder_remove(folder_path(folder, "twin"));
}

/* ---------------------------------------------------------------------------- locks that nobody holds */

static void a_dead_process_holds_nothing(void **state)
{
    program_setting s = {.folder = folder};
    (void)folder_remove(folder_path(folder, "run"));
    pid_t pid = program_start(&s, "run run.yaml --out run --quiet --set iterations=100000000");
    for (int i = 0; i < 200000 && !is_there("run", "checkpoint"); i++) nap();
    (void)kill(pid, SIGKILL);
    assert_int_equal(program_wait(pid), 128 + SIGKILL);
    assert_true(is_there("run", LOCK));
    expect(0, NULL, "run run.yaml --out run --quiet --overwrite");
    assert_false(is_there("run", LOCK));
    /* what is in the place of the lock is neither waited for nor written through */
    assert_int_equal(mkfifo(folder_path(folder, "run/" LOCK), 0600), 0);
    expect(4, "not a file", "run run.yaml --out run --quiet --overwrite");
    assert_int_equal(unlink(folder_path(folder, "run/" LOCK)), 0);
    assert_int_equal(symlink("../run.yaml", folder_path(folder, "run/" LOCK)), 0);
    expect(4, "is a link", "run run.yaml --out run --quiet --overwrite");
    assert_int_equal(unlink(folder_path(folder, "run/" LOCK)), 0);
    (void)folder_remove(folder_path(folder, "run"));
}

/* A cleaner of old files removes the lock, and another run takes the directory: the first one ends, and the other is whole. */
static void a_removed_lock_ends_the_run(void **state)
{
    program_setting s = {.folder = folder};
    (void)folder_remove(folder_path(folder, "run"));
    pid_t pid = program_start(
        &s, "run run.yaml --out run --quiet --set iterations=100000000 --set output.checkpoint_every=1000");
    for (int i = 0; i < 200000 && !is_there("run", "checkpoint"); i++) nap();
    stop(pid);
    assert_int_equal(unlink(folder_path(folder, "run/" LOCK)), 0);
    expect(0, NULL, "run run.yaml --out run --quiet --overwrite");
    (void)kill(pid, SIGCONT);
    assert_int_equal(program_wait(pid), 6);
    (void)folder_remove(folder_path(folder, "run"));
}

static void without_locks_it_is_said_once(void **state)
{
    char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "lock"};
    if (!program_faults()) {
        print_message("no library of faults beside the sanitizers\n");
        skip();
    }
    (void)folder_remove(folder_path(folder, "d"));
    int code = program_run(
        &s, "tune model.safetensors --reward lower --beta 1 --particles 20 --iterations 8 --out d --quiet", said);
    const char *first = strstr(said, "cannot be locked (No locks available)");
    if (code != 0 || !first || strstr(first + 1, "cannot be locked")) fail_msg("exit code %d, '%s'", code, said);
    assert_false(is_there("d", LOCK) || is_there("d/start", LOCK));
    (void)folder_remove(folder_path(folder, "d"));
}

/* ---------------------------------------------------------------------------- launchers */

static const char *const *launched;

static void set_variables(void)
{
    for (const char *const *v = launched; *v; v += 2) (void)setenv(v[0], v[1], 1);
}

static void launchers_are_refused(void **state)
{
    static const struct {
        int code;
        const char *variable[8];
    } rows[] = {{2, {"OMPI_COMM_WORLD_SIZE", "4"}},
                {0, {"OMPI_COMM_WORLD_SIZE", "1"}},
                {2, {"PMI_SIZE", "2"}},
                {2, {"MV2_COMM_WORLD_SIZE", "2"}},
                {2, {"SLURM_NTASKS", "3", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "3"}},
                {2, {"SLURM_NTASKS", "3", "SLURM_STEP_ID", "0"}},
                {2, {"SLURM_NTASKS", "3", "SLURM_PROCID", "1"}},
                {0, {"SLURM_NTASKS", "3", "SLURM_PROCID", "0"}}, /* a batch script, which runs once */
                {0, {"SLURM_NTASKS", "3", "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "1"}}};
    static const char *const commands[] = {"run run.yaml --out d --quiet --set output.report=false",
                                           "reproduce theory --quick --only chi-square --out d --quiet"};
    char said[PROGRAM_WORDS];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 2; k++) {
            program_setting s = {.folder = folder, .in_child = set_variables};
            launched = rows[i].variable;
            (void)folder_remove(folder_path(folder, "d"));
            int code = program_run(&s, commands[k], said);
            if (code != rows[i].code || (code && !strstr(said, "started this command")))
                fail_msg("%s=%s: sosmc %s: exit code %d, '%s'", launched[0], launched[1], commands[k], code, said);
            assert_int_equal(access(folder_path(folder, "d"), F_OK) == 0, code == 0);
        }
    launched = rows[0].variable;
    program_setting s = {.folder = folder, .in_child = set_variables};
    assert_int_equal(program_run(&s, "list", said), 0); /* which writes nothing */
    (void)folder_remove(folder_path(folder, "d"));
}

static int set_up(void **state) { return folder_make(folder, "sosmc_writers") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_twice),           cmocka_unit_test(side_by_side),
        cmocka_unit_test(a_dead_process_holds_nothing),  cmocka_unit_test(a_removed_lock_ends_the_run),
        cmocka_unit_test(without_locks_it_is_said_once), cmocka_unit_test(launchers_are_refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
