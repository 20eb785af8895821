/* test_signals.c: somebody wants the program to stop, or has gone away.
 *
 * SIGINT, SIGTERM, SIGHUP and SIGXCPU: exit code 130 after the iteration under way, everything saved, and the continued run has
 * the bytes of an undisturbed one. A second signal: 130 at once, and the last checkpoint serves. SIGUSR1: a checkpoint, and the run
 * goes on. What the caller ignores stays ignored. Closed or broken streams: the run goes on; the exit code tells when the words did
 * not arrive. A gnuplot that hangs is not waited for, and ends when the program does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
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
static const program_scene *const scene = &program_scenes[SCENE_RUN];

/* So many iterations that the signal comes first, and few enough to be made again. */
#define LONGER "run run.yaml --out run --quiet --set particles=2000 --set iterations=300000 --set output.report=false"
#define SHORTER "run run.yaml --out whole --quiet --set particles=2000 --set output.report=false --set iterations="

static void nap(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(1e9 * seconds)};
    (void)nanosleep(&t, NULL);
}

static void wait_for(const char *name)
{
    for (int i = 0; i < 6000 && access(folder_path(folder, name), F_OK) != 0; i++) nap(0.01);
    assert_int_equal(access(folder_path(folder, name), F_OK), 0);
}

static int run(void (*in_child)(void), const char *arguments, char said[PROGRAM_WORDS])
{
    program_setting s = {.folder = folder, .in_child = in_child};
    return program_run(&s, arguments, said);
}

static void must_run(const char *arguments)
{
    char said[PROGRAM_WORDS];
    int code = run(NULL, arguments, said);
    if (code != 0) fail_msg("sosmc %s: exit code %d: %s", arguments, code, said);
}

/* The number of iterations that summary.json tells. */
static long iterations_done(void)
{
    char line[512];
    long done = -1;
    FILE *f = fopen(folder_path(folder, "run/summary.json"), "r");
    assert_non_null(f);
    while (done < 0 && fgets(line, sizeof line, f)) {
        char *at = strstr(line, "\"iterations\": ");
        if (at) done = strtol(at + strlen("\"iterations\": "), NULL, 10);
    }
    (void)fclose(f);
    return done;
}

static void must_be_same(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, one), folder_path(folder, other), difference)) fail_msg("%s", difference);
}

static void clear(void)
{
    (void)folder_remove(folder_path(folder, "run"));
    (void)folder_remove(folder_path(folder, "whole"));
}

/* ---------------------------------------------------------------------------- signals */

static void stopped_by(int signal_number)
{
    char arguments[512];
    program_setting s = {.folder = folder};
    clear();
    pid_t pid = program_start(&s, LONGER);
    wait_for("run/checkpoint");
    (void)kill(pid, signal_number);
    int code = program_wait(pid);
    if (code != 130) fail_msg("signal %d: exit code %d", signal_number, code);
    long done = iterations_done();
    assert_true(done > 0 && done < 300000);
    assert_null(program_leftover(folder_path(folder, "run")));
    /* a few iterations more: the bytes of a run that was never stopped */
    (void)snprintf(arguments, sizeof arguments, "%s --set iterations=%ld --resume", LONGER, done + 9);
    must_run(arguments);
    (void)snprintf(arguments, sizeof arguments, SHORTER "%ld", done + 9);
    must_run(arguments);
    must_be_same("whole", "run");
}

static void asked_to_stop(void **state)
{
    stopped_by(SIGINT);
    stopped_by(SIGTERM);
    stopped_by(SIGHUP);  /* the terminal is closed */
    stopped_by(SIGXCPU); /* the limit of a batch queue */
    clear();
}

/* Iterations that take long, a checkpoint after each: a second signal finds the program within one. */
#define SLOW                                                                                                \
    "run run.yaml --out run --quiet --set particles=5000 --set kernel.type=hmc --set kernel.leapfrog=1000 " \
    "--set evaluate.every=0 --set output.report=false --set output.checkpoint_every=1 --set iterations="

/* 1: it stopped within an iteration, so that nothing was written since the last checkpoint. */
static int stops_at_once(int first, int second)
{
    program_setting s = {.folder = folder};
    clear();
    must_run(SLOW "1");
    long before = iterations_done();
    pid_t pid = program_start(&s, SLOW "10000 --resume");
    wait_for("run/checkpoint.previous");
    (void)kill(pid, first);
    nap(0.005);
    (void)kill(pid, second);
    assert_int_equal(program_wait(pid), 130);
    return iterations_done() == before;
}

static void asked_twice(void **state)
{
    static const int pairs[][2] = {{SIGINT, SIGINT}, {SIGTERM, SIGTERM}, {SIGHUP, SIGTERM}, {SIGXCPU, SIGINT}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int tries = 0;
        /* the first signal may have come just before the iteration's end */
        while (!stops_at_once(pairs[i][0], pairs[i][1]) && tries < 20) tries++;
        if (tries == 20) fail_msg("signals %d and %d: everything was finished first", pairs[i][0], pairs[i][1]);
        must_run(SLOW "10000 --resume --budget-seconds 0.001");
        assert_true(iterations_done() >= 2);
    }
    /* The kernel sends SIGXCPU every second: that is no second wish, and everything is saved. */
    assert_false(stops_at_once(SIGXCPU, SIGXCPU));
    clear();
}

static int ignored;
static void ignore_it(void) { (void)signal(ignored, SIG_IGN); }

/* nohup and the shell's background jobs. */
static void what_is_ignored_stays_ignored(void **state)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        program_setting s = {.folder = folder, .in_child = ignore_it};
        ignored = signals[i];
        clear();
        pid_t pid = program_start(&s, LONGER);
        wait_for("run/checkpoint");
        for (int k = 0; k < 3; k++) {
            (void)kill(pid, signals[i]);
            nap(0.02);
        }
        assert_int_equal(kill(pid, 0), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it still runs */
        (void)kill(pid, ignored == SIGTERM ? SIGINT : SIGTERM);
        assert_int_equal(program_wait(pid), 130);
    }
    clear();
}

/* SIGUSR1 is "save now": a checkpoint and its trace, and the run goes on. */
static void saved_on_request(void **state)
{
    program_setting s = {.folder = folder};
    char arguments[512];
    clear();
    pid_t pid = program_start(&s, LONGER " --set output.checkpoint_every=0 --set output.checkpoint_seconds=0");
    wait_for("run/timing.csv");
    nap(0.1);
    assert_int_not_equal(access(folder_path(folder, "run/checkpoint"), F_OK), 0);
    (void)kill(pid, SIGUSR1);
    wait_for("run/checkpoint");
    nap(0.05);
    assert_int_not_equal(access(folder_path(folder, "run/checkpoint.previous"), F_OK), 0); /* one, not one each time */
    (void)kill(pid, SIGUSR1);
    wait_for("run/checkpoint.previous");
    (void)kill(pid, SIGKILL);
    assert_int_equal(program_wait(pid), 128 + SIGKILL);
    must_run(LONGER " --resume --budget-seconds 1e-9"); /* from what was saved */
    long done = iterations_done();
    assert_true(done > 0 && done < 300000);
    (void)snprintf(arguments, sizeof arguments, SHORTER "%ld", done);
    must_run(arguments);
    (void)snprintf(arguments, sizeof arguments, "%s --set iterations=%ld --resume", LONGER, done);
    must_run(arguments);
    (void)unlink(folder_path(folder, "run/checkpoint.previous")); /* which was saved on request */
    (void)unlink(folder_path(folder, "whole/checkpoint.previous"));
    must_be_same("whole", "run");
    clear();
}

/* ---------------------------------------------------------------------------- children */

static void put_script(const char *text, mode_t mode)
{
    FILE *f = fopen(folder_path(folder, "odd/gnuplot"), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(folder_path(folder, "odd/gnuplot"), mode), 0);
}

static const char *patience;
static void with_odd_gnuplot(void)
{
    char path[PROGRAM_WORDS];
    (void)snprintf(path, sizeof path, "%s/odd", folder);
    (void)setenv("PATH", path, 1);
    if (patience) (void)setenv("SOSMC_GNUPLOT_SECONDS", patience, 1);
}

/* The number of the gnuplot that hangs, once it has said it. */
static pid_t hanging(void)
{
    long pid = 0;
    for (int i = 0; i < 6000 && pid == 0; i++) {
        FILE *f = fopen(folder_path(folder, "hangs"), "r");
        if (f && fscanf(f, "%ld\n", &pid) != 1) pid = 0; // NOLINT(cert-err34-c): our own number
        if (f) (void)fclose(f);
        nap(0.01);
    }
    assert_true(pid > 0);
    return (pid_t)pid;
}

static void must_end(pid_t pid)
{
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++) nap(0.01);
    assert_int_not_equal(kill(pid, 0), 0);
}

static void page_must_say(const char *words)
{
    static char page[1 << 20];
    FILE *f = fopen(folder_path(folder, "run/report.html"), "r");
    assert_non_null(f);
    page[fread(page, 1, sizeof page - 1, f)] = 0;
    (void)fclose(f);
    if (!strstr(page, words)) fail_msg("the report does not say '%s'", words);
}

/* A gnuplot that hangs; `alone`: itself, otherwise in a program that it started. */
static void put_hanging_gnuplot(int alone)
{
    char script[PROGRAM_WORDS];
    (void)snprintf(script, sizeof script, "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n%s\n%s\n",
                   alone ? "echo $$ >$HANGS" : "/bin/sleep 1000 &\necho $! >$HANGS",
                   alone ? "exec /bin/sleep 1000" : "wait");
    put_script(script, 0755);
    (void)unlink(folder_path(folder, "hangs"));
    (void)setenv("HANGS", folder_path(folder, "hangs"), 1);
}

static void gnuplot_hangs(void **state)
{
    char said[PROGRAM_WORDS];
    assert_int_equal(mkdir(folder_path(folder, "odd"), 0755), 0);
    /* a time limit */
    put_hanging_gnuplot(0);
    patience = "0.3";
    clear();
    time_t begin = time(NULL);
    int code = run(with_odd_gnuplot, "run run.yaml --out run --quiet", said);
    if (code != 0) fail_msg("exit code %d: %s", code, said);
    assert_true(time(NULL) - begin < 20);
    page_must_say("gnuplot did not end within 0.3 seconds");
    must_end(hanging());
    /* a signal, and a kill: nothing runs on */
    patience = NULL;
    for (int how = 0; how < 2; how++) {
        program_setting s = {.folder = folder, .in_child = with_odd_gnuplot};
        clear();
        put_hanging_gnuplot(how == 1);
        pid_t pid = program_start(&s, "run run.yaml --out run --quiet"), child = hanging();
        begin = time(NULL);
        (void)kill(pid, how == 1 ? SIGKILL : SIGTERM);
        assert_int_equal(program_wait(pid), how == 1 ? 128 + SIGKILL : 130);
        assert_true(time(NULL) - begin < 20);
        must_end(child);
        assert_int_not_equal(access(folder_path(folder, "run/report.html"), F_OK), 0);
        must_run("run run.yaml --out run --quiet --resume"); /* with another gnuplot */
        assert_int_equal(access(folder_path(folder, "run/report.html"), F_OK), 0);
    }
    clear();
}

static void why_gnuplot_did_not_start(void **state)
{
    static const struct {
        const char *script;
        mode_t mode;
        const char *words;
    } rows[] = {{"#!/bin/sh\n", 0644, "gnuplot could not be started: Permission denied"},
                {"#!/no/such/shell\n", 0755, "gnuplot was not found"},
                {"#!/bin/sh\nexit 3\n", 0755, "'gnuplot --version' failed with exit code 3"},
                {"#!/bin/sh\nkill -9 $$\n", 0755, "gnuplot was ended by signal 9"},
                {NULL, 0, "gnuplot was not found: install it"}};
    char said[PROGRAM_WORDS];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].script)
            put_script(rows[i].script, rows[i].mode);
        else
            assert_int_equal(unlink(folder_path(folder, "odd/gnuplot")), 0);
        clear();
        int code = run(with_odd_gnuplot, "run run.yaml --out run --quiet", said);
        if (code != 0) fail_msg("exit code %d: %s", code, said);
        page_must_say(rows[i].words);
    }
    clear();
}

/* ---------------------------------------------------------------------------- streams */

static void close_streams(void)
{
    (void)close(0);
    (void)close(1);
    (void)close(2);
}
static void full_output(void) { (void)dup2(open("/dev/full", O_WRONLY), 1); }
static void full_errors(void) { (void)dup2(open("/dev/full", O_WRONLY), 2); }
static void broken_pipe(void)
{
    int end[2];
    if (pipe(end)) _exit(96);
    (void)close(end[0]);
    (void)dup2(end[1], 1);
    (void)dup2(end[1], 2);
}
static void broken_output(void)
{
    int end[2];
    if (pipe(end)) _exit(96);
    (void)close(end[0]);
    (void)dup2(end[1], 1);
}

static void nobody_listens(void **state)
{
    char said[PROGRAM_WORDS];
    void (*const how[])(void) = {close_streams, full_errors, full_output, broken_output, broken_pipe};
    const int codes[] = {0, 0, 4, 4, 4};
    clear();
    must_run(scene->fresh);
    char from[PROGRAM_WORDS];
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, "run"));
    assert_int_equal(rename(from, folder_path(folder, "whole")), 0);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        (void)folder_remove(folder_path(folder, "run"));
        int code = run(how[i], "run run.yaml --out run", said);
        if (code != codes[i]) fail_msg("streams of kind %zu: exit code %d: %s", i, code, said);
        must_be_same("whole", "run"); /* nothing lost, nothing of ours in a file */
    }
    clear();
}

static void words_must_arrive(void **state)
{
    static const char *const commands[] = {"list",
                                           "help",
                                           "help run",
                                           "run --help",
                                           "--version",
                                           "check run.yaml",
                                           "train circles --print",
                                           "deblur photo.pgm --noise 2 --print"};
    char said[PROGRAM_WORDS];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int code = run(NULL, commands[i], said);
        if (code != 0) fail_msg("sosmc %s: exit code %d: %s", commands[i], code, said);
        code = run(full_output, commands[i], said);
        if (code != 4 || !strstr(said, "cannot write to standard output"))
            fail_msg("sosmc %s to a full device: exit code %d, '%s'", commands[i], code, said);
        code = run(broken_output, commands[i], said);
        if (code != 4) fail_msg("sosmc %s to a broken pipe: exit code %d, '%s'", commands[i], code, said);
        code = run(close_streams, commands[i], said);
        if (code != 0) fail_msg("sosmc %s with closed streams: exit code %d", commands[i], code);
    }
}

static int set_up(void **state) { return folder_make(folder, "sosmc_signals") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_to_stop),
                                       cmocka_unit_test(asked_twice),
                                       cmocka_unit_test(what_is_ignored_stays_ignored),
                                       cmocka_unit_test(saved_on_request),
                                       cmocka_unit_test(gnuplot_hangs),
                                       cmocka_unit_test(why_gnuplot_did_not_start),
                                       cmocka_unit_test(nobody_listens),
                                       cmocka_unit_test(words_must_arrive)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
