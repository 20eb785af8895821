/* test_run_library.c: runs without a terminal. Two of them in two threads of one process leave the bytes of two processes, hooks
 * are called as promised, a stop is a status and not a signal, and nothing is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "run/run.h"

static char folder[FOLDER_ROOM];

static const char *const texts[] = {
    "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, eps: 1.0e-9}\n"
    "objective: {type: reward_forward, reward: \"exp(-(x1 - 3)^2)\", beta: 0.1}\n"
    "kernel: {type: ula, step: 0.1}\noptimiser: {type: adam, rate: 0.1}\nparticles: 400\niterations: 300\n"
    "evaluate: {every: 20, nodes: 60, chains: 4, burn_in: 50, averaged: 50}\n"
    "output: {report: false, checkpoint_every: 50}\n",
    "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\nparticles: 300\niterations: 400\nseed: 4\n"
    "output: {report: false, moments_from: 100, checkpoint_every: 70}\n"};

typedef struct {
    int text;
    char out[FOLDER_ROOM + 16];
    run_hooks hooks;
    run_result result;
    int resume;
} errand;

static void *go(void *ctx)
{
    errand *e = ctx;
    char error[512];
    config *c = config_parse(texts[e->text], "test.yaml", error, sizeof error);
    run_options options = {.out = e->out, .resume = e->resume};
    if (c && config_resolve(c, error, sizeof error) == 0) (void)run_execute(c, &options, &e->hooks, &e->result);
    config_free(c);
    return NULL;
}

static errand *prepare(errand *e, int text, const char *name)
{
    *e = (errand){.text = text};
    (void)snprintf(e->out, sizeof e->out, "%s/%s", folder, name);
    e->result.status = RUN_EUSAGE;
    return e;
}

static void must_agree(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, one), folder_path(folder, other), difference))
        fail_msg("%s and %s: %s", one, other, difference);
}

/* The program itself leaves what the library is compared with: another process. */
static void run_program(int text, const char *name)
{
    char said[PROGRAM_WORDS], command[256], error[512];
    program_setting s = {.folder = folder};
    if (files_write(folder_path(folder, "test.yaml"), texts[text], strlen(texts[text]), error, sizeof error))
        fail_msg("%s", error);
    (void)snprintf(command, sizeof command, "run test.yaml --out %s --quiet", name);
    if (program_run(&s, command, said)) fail_msg("%s", said);
}

static void two_threads_are_two_processes(void **state)
{
    errand e[2];
    pthread_t thread[2];
    run_program(0, "p0");
    run_program(1, "p1");
    for (int i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(pthread_create(&thread[i], NULL, go, prepare(&e[i], i, name)), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        if (e[i].result.status != RUN_OK) fail_msg("%s", e[i].result.message);
    }
    must_agree("p0", "t0");
    must_agree("p1", "t1");
    assert_int_equal(e[0].result.iterations, 300);
    assert_int_equal(e[1].result.outcome.dim_theta, 1);
    for (int i = 0; i < 2; i++) run_result_free(&e[i].result);
}

typedef struct {
    int64_t calls, last, stop_at;
    int sentences;
} witness;

static void see(void *ctx, const run_progress *p)
{
    witness *w = ctx;
    assert_int_equal(p->total, 400);
    assert_int_equal(p->done, w->calls == 0 ? p->done : w->last + 1);
    w->calls++;
    w->last = p->done;
}

static void hear(void *ctx, const char *sentence)
{
    witness *w = ctx;
    w->sentences += *sentence != 0;
}

static int enough(void *ctx)
{
    const witness *w = ctx;
    return w->stop_at > 0 && w->last >= w->stop_at;
}

/* Stopped in the middle, then continued: the bytes of a run that was not. */
static void a_stop_is_a_status(void **state)
{
    errand e;
    witness w = {.stop_at = 123};
    run_program(1, "whole");
    prepare(&e, 1, "halves")->hooks = (run_hooks){.stop = enough, .progress = see, .say = hear, .ctx = &w};
    (void)go(&e);
    assert_int_equal(e.result.status, RUN_STOPPED);
    assert_int_equal(e.result.iterations, 123);
    assert_contains(e.result.message, "stopped after iteration 123 of 400");
    assert_true(e.result.outcome.stopped);
    assert_int_equal(e.result.verdict, SOSMC_NOT_CONVERGED);
    run_result_free(&e.result);
    assert_int_equal(w.calls, 124); /* once before the first iteration */
    w = (witness){.stop_at = 0};
    prepare(&e, 1, "halves")->hooks = (run_hooks){.progress = see, .ctx = &w};
    e.resume = 1;
    (void)go(&e);
    assert_int_equal(e.result.status, RUN_OK);
    run_result_free(&e.result);
    must_agree("whole", "halves");
    (void)go(&e);
    assert_true(e.result.status == RUN_OK && e.result.complete);
}

/* Stopped after the last iteration, while it is judged: nothing is finished, no judged number is told, and what continues it judges
 * it. */
static void a_stop_in_the_judgement_is_made_up_for(void **state)
{
    errand e;
    witness w = {.stop_at = 400};
    json_t *summary = NULL;
    char error[512];
    prepare(&e, 1, "unjudged")->hooks = (run_hooks){.stop = enough, .progress = see, .ctx = &w};
    (void)go(&e);
    assert_int_equal(e.result.status, RUN_STOPPED);
    assert_int_equal(e.result.iterations, 400);
    assert_contains(e.result.outcome.judged.verdict.reason[0], "stopped before it was judged");
    run_result_free(&e.result);
    if (json_read(folder_path(folder, "unjudged/summary.json"), &summary, error, sizeof error)) fail_msg("%s", error);
    assert_true(json_is_false(json_object_get(summary, "finished")));
    assert_true(json_is_false(json_object_get(json_object_get(summary, "verdict"), "judged")));
    json_decref(summary);
    prepare(&e, 1, "unjudged")->resume = 1;
    (void)go(&e);
    assert_true(e.result.status == RUN_OK && !e.result.complete);
    run_result_free(&e.result);
    must_agree("whole", "unjudged");
}

/* Whatever happens: the streams stay empty. */
static void nothing_is_printed(void **state)
{
    errand good, again;
    char error[512], *text = NULL;
    size_t size;
    const char *file = folder_path(folder, "streams");
    (void)fflush(stdout);
    int out = dup(1), err = dup(2), to = open(file, O_CREAT | O_TRUNC | O_RDWR, 0600);
    assert_true(out >= 0 && err >= 0 && to >= 0);
    assert_true(dup2(to, 1) == 1 && dup2(to, 2) == 2);
    (void)go(prepare(&good, 0, "silent"));
    (void)go(prepare(&again, 0, "silent"));
    (void)fflush(stdout);
    assert_true(dup2(out, 1) == 1 && dup2(err, 2) == 2);
    (void)close(out);
    (void)close(err);
    (void)close(to);
    assert_int_equal(good.result.status, RUN_OK);
    assert_int_equal(again.result.status, RUN_EUSAGE);
    assert_contains(again.result.message, "already holds a run");
    run_result_free(&good.result);
    run_result_free(&again.result);
    assert_int_equal(files_read(file, 1 << 20, &text, &size, error, sizeof error), 0);
    assert_int_equal(size, 0);
    free(text);
}

static int set_up(void **state) { return folder_make(folder, "run_library"); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_are_two_processes), cmocka_unit_test(a_stop_is_a_status),
        cmocka_unit_test(a_stop_in_the_judgement_is_made_up_for), cmocka_unit_test(nothing_is_printed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
