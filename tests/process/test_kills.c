/* test_kills.c: the program is killed, the same command is given again, and the folder ends as if nothing had happened: the
 * same names, the same bytes but for wall-clock times, no temporary file.
 *
 * Twice over: at random moments, SOSMC_KILLS of them (10, or 200 in the nightly tier), and before each call that changes a file
 * (some, or all in the nightly tier), which meets every state a folder can be found in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM];

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    (void)nanosleep(&t, NULL);
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static void must_run(const program_scene *scene, const char *arguments)
{
    char said[PROGRAM_WORDS];
    program_setting s = {.folder = folder};
    int code = program_run(&s, arguments, said);
    if (code != 0) fail_msg("%s: exit code %d: %s", scene->name, code, said);
}

/* The folder of an undisturbed run goes out of the way; its seconds are the result. */
static double make_whole(const program_scene *scene)
{
    char from[PROGRAM_WORDS];
    double begin = now();
    must_run(scene, scene->fresh);
    double seconds = now() - begin;
    (void)snprintf(from, sizeof from, "%s", folder_path(folder, scene->out));
    (void)folder_remove(folder_path(folder, "whole"));
    assert_int_equal(rename(from, folder_path(folder, "whole")), 0);
    return seconds;
}

static void must_be_whole(const program_scene *scene, const char *after, long n)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, "whole"), folder_path(folder, scene->out), difference))
        fail_msg("%s, after %s %ld: %s", scene->name, after, n, difference);
    const char *left = program_leftover(folder_path(folder, scene->out));
    if (left) fail_msg("%s, after %s %ld: %s is left", scene->name, after, n, left);
}

static void start_over(const program_scene *scene) { (void)folder_remove(folder_path(folder, scene->out)); }

/* ---------------------------------------------------------------------------- at random moments */

/* 1: killed; 0: it was faster. */
static int kill_after(const program_scene *scene, double seconds)
{
    program_setting s = {.folder = folder};
    pid_t pid = program_start(&s, access(folder_path(folder, scene->out), F_OK) ? scene->fresh : scene->again);
    nap(seconds);
    (void)kill(pid, SIGKILL);
    int code = program_wait(pid);
    if (code != 0 && code != 128 + SIGKILL) fail_msg("%s: exit code %d", scene->name, code);
    return code != 0;
}

static void killed_at_random(void **state)
{
    const char *asked = getenv("SOSMC_KILLS"), *seed = getenv("SOSMC_KILL_SEED");
    int kills = asked ? atoi(asked) : program_nightly() ? 200 : 10, done = 0;
    uint64_t random = seed ? strtoull(seed, NULL, 10) : 1;
    for (int k = 0; k < SCENES; k++) {
        const program_scene *scene = &program_scenes[k];
        if (k == SCENE_REPRODUCE && !program_faults()) {
            print_message("%s is left out: beside the sanitizers it takes minutes\n", scene->name);
            continue;
        }
        int wanted = kills * (k + 1) / SCENES - done, here = 0;
        double seconds = make_whole(scene), begin = now();
        start_over(scene);
        while (here < wanted && now() - begin < 10 * seconds * (wanted + 2) + 60) {
            /* A folder that is complete has nothing left to disturb; every third one is completed on the way. */
            if (!kill_after(scene, 1.05 * seconds * uniform(&random))) {
                must_be_whole(scene, "kill", here);
                start_over(scene);
                continue;
            }
            here++;
            if (here % 3) continue;
            must_run(scene, scene->again);
            must_be_whole(scene, "kill", here);
            start_over(scene);
        }
        must_run(scene, access(folder_path(folder, scene->out), F_OK) ? scene->fresh : scene->again);
        must_be_whole(scene, "kill", here);
        start_over(scene);
        assert_int_equal(here, wanted);
        done += here;
    }
    print_message("%d kills at random moments\n", done);
}

/* ---------------------------------------------------------------------------- before every change of a file */

static long count_calls(const program_scene *scene)
{
    char said[PROGRAM_WORDS], log[PROGRAM_WORDS];
    program_setting s = {.folder = folder, .fault = "kill", .log = log};
    long calls = 0;
    (void)snprintf(log, sizeof log, "%s", folder_path(folder, "log"));
    start_over(scene);
    assert_int_equal(program_run(&s, scene->fresh, said), 0);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    if (fscanf(f, "%ld", &calls) != 1) calls = 0; // NOLINT(cert-err34-c): our own number
    (void)fclose(f);
    assert_true(calls > 20);
    return calls;
}

static void killed_before(const program_scene *scene, long step)
{
    char said[PROGRAM_WORDS];
    (void)make_whole(scene);
    long calls = count_calls(scene), n = 1;
    for (; n <= calls; n += step) {
        program_setting s = {.folder = folder, .fault = "kill", .at = n};
        start_over(scene);
        int code = program_run(&s, scene->fresh, said);
        if (code != 128 + SIGKILL) fail_msg("%s: call %ld of %ld: exit code %d", scene->name, n, calls, code);
        must_run(scene, scene->again);
        must_be_whole(scene, "the kill before call", n);
    }
    start_over(scene);
    print_message("%s: killed before every %ldth of %ld calls\n", scene->name, step, calls);
}

static void killed_before_every_change(void **state)
{
    if (!program_faults()) {
        print_message("no library of faults beside the sanitizers\n");
        skip();
    }
    killed_before(&program_scenes[SCENE_RUN], program_nightly() ? 1 : 13);
    killed_before(&program_scenes[SCENE_DEBLUR], program_nightly() ? 1 : 11);
    if (!program_nightly()) return;
    killed_before(&program_scenes[SCENE_TRAIN], 1);
    killed_before(&program_scenes[SCENE_TUNE], 1);
}

/* The comparison would notice: a byte, a name, a temporary file. */
static void differences_are_seen(void **state)
{
    const program_scene *scene = &program_scenes[SCENE_RUN];
    char difference[PROGRAM_WORDS], whole[PROGRAM_WORDS];
    (void)make_whole(scene);
    must_run(scene, scene->fresh);
    (void)snprintf(whole, sizeof whole, "%s", folder_path(folder, "whole"));
    FILE *f = fopen(folder_path(folder, "run/trace.csv"), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -2, SEEK_END), 0);
    int last = getc(f);
    assert_int_equal(fseek(f, -2, SEEK_END), 0);
    assert_int_not_equal(putc(last == '1' ? '2' : '1', f), EOF);
    assert_int_equal(fclose(f), 0);
    assert_true(program_differ(whole, folder_path(folder, "run"), difference));
    assert_non_null(strstr(difference, "trace.csv"));
    start_over(scene);
    must_run(scene, scene->fresh);
    assert_false(program_differ(whole, folder_path(folder, "run"), difference));
    f = fopen(folder_path(folder, "run/figures/a.svg.tmp"), "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_true(program_differ(whole, folder_path(folder, "run"), difference));
    assert_non_null(program_leftover(folder_path(folder, "run")));
    start_over(scene);
}

static int set_up(void **state) { return folder_make(folder, "sosmc_kills") || program_furnish(folder) ? -1 : 0; }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(differences_are_seen), cmocka_unit_test(killed_at_random),
                                       cmocka_unit_test(killed_before_every_change)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
