/* test_resumed.c: what a run leaves, and what its continuation may change: which keys of the run file; when checkpoints are written;
 * which theta is stored; the row of evaluation.csv that a stop prevented; results of another state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "job/model_file.h"
#include "program.h"
#include "run/run.h"
#include "runfile/schema.h"
#include "runtext.h"
#include "run/same_run.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* ---------------------------------------------------------------------------- which keys may change */

static const char *const may_change[] = {"iterations", "threads", "judge.", "on_collapse", "evaluate.", "output."};

static int may(const char *path)
{
    for (size_t i = 0; i < sizeof may_change / sizeof *may_change; i++) {
        size_t n = strlen(may_change[i]);
        if (strncmp(path, may_change[i], n) == 0 && (may_change[i][n - 1] == '.' || !path[n])) return 1;
    }
    return 0;
}

/* Another legal value of the key, or 0 where this function knows none. */
static int another(const config *c, const schema_key *row, char out[256])
{
    const char *words = row->allowed, *text = config_text(c, row->path);
    char word[64];
    int n = 0;
    const double *v;
    switch (row->type) {
    case TYPE_NUMBER: (void)snprintf(out, 256, "%.17g", config_number(c, row->path) * 0.5 + 0.2); return 1;
    case TYPE_LEVEL: (void)snprintf(out, 256, "%.17g", config_number(c, row->path) * 0.5 + 0.1); return 1;
    case TYPE_INTEGER:
    case TYPE_LONG: (void)snprintf(out, 256, "%lld", (long long)config_integer(c, row->path) + 1); return 1;
    case TYPE_SEED: (void)snprintf(out, 256, "%llu", (unsigned long long)config_unsigned(c, row->path) + 1); return 1;
    case TYPE_FLAG: (void)snprintf(out, 256, "%s", config_flag(c, row->path) ? "false" : "true"); return 1;
    case TYPE_TEXT: (void)snprintf(out, 256, "%s + 0", text ? text : "x1"); return 1;
    case TYPE_VECTOR:
        v = config_vector(c, row->path, &n);
        if (!v || n > 4) return 0;
        size_t used = (size_t)snprintf(out, 256, "[");
        for (int i = 0; i < n; i++)
            used += (size_t)snprintf(out + used, 256 - used, "%s%.6g", i ? ", " : "", v[i] * 0.5 + 0.2);
        (void)snprintf(out + used, 256 - used, "]");
        return 1;
    case TYPE_CHOICE:
        while (schema_word(&words, word, sizeof word))
            if (!text || strcmp(word, text) != 0) {
                (void)snprintf(out, 256, "%s", word);
                return 1;
            }
        return 0;
    default: return 0;
    }
}

/* Tries every key of the run file with another value; how many there were. */
static int try_keys(const char *text)
{
    int tried = 0;
    config *began = runtext_resolved(text);
    char *resolved = runtext_written(began);
    runtext_save(folder_path(folder, "began.yaml"), resolved);
    free(resolved);
    for (const schema_key *row = schema_keys; row->path; row++) {
        char value[256], assignment[512];
        if (!config_has(began, row->path) || !another(began, row, value)) continue;
        config *c = runtext_resolved(text);
        (void)snprintf(assignment, sizeof assignment, "%s=%s", row->path, value);
        if (config_set(c, assignment, ERROR) == 0 && config_resolve(c, ERROR) == 0) {
            int same = same_run_check(c, folder_path(folder, "began.yaml"), 0, ERROR) == 0;
            /* iterations may be part of defaults that may not change, such as how long the learning rate falls */
            if (same != may(row->path) && strcmp(row->path, "iterations") != 0)
                fail_msg("%s: %s", assignment, same ? "goes on, and must not" : error);
            tried++;
        }
        config_free(c);
    }
    config_free(began);
    return tried;
}

static void only_some_keys_may_change(void **state)
{
    static const char *const texts[] = {
        "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
        "objective: {type: reward_forward, reward: \"exp(-(x1 - 3)^2)\", beta: 0.1, reference: {batch: 20}, ramp: 2}\n"
        "kernel: {type: mala, step: 0.1}\noptimiser: {type: adam, rate: 0.1, average: 0.5, clip: 3}\n"
        "adapt: {signal: accept, threshold: 0.5, factor: 1.02, min: 1e-6, max: 1}\n"
        "resampling: {scheme: systematic, threshold: 0.5}\nevaluate: {every: 5, nodes: 20}\nparticles: 60\n"
        "output: {moments_from: 3}\n",
        "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\n"
        "optimiser: {type: sgd, rate: 0.1, schedule: {type: cosine, a: 100, b: 0.1}}\n"
        "kernel: {type: hmc, step: 0.1, leapfrog: 3}\nscheme: {type: sosmc, sweeps: 2}\niterations: 50\n",
        "model: {type: mlp, inputs: 2, hidden: [4, 4], base: gaussian}\n"
        "objective: {type: ebm_likelihood, data: {type: circles, points: 32, seed: 0}, batch: 8}\n"
        "scheme: {type: pcd, pool: 20, sweeps: 2, refresh: 0.1}\nkernel: {type: ula, step: 0.01}\n"
        "init: {type: uniform, low: -2, high: 2}\noptimiser: {type: adam, rate: 0.01}\nparticles: 8\niterations: 20\n"};
    int tried = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tried += try_keys(texts[i]);
    print_message("%d keys with another value\n", tried);
    assert_true(tried > 90);
    config *c = runtext_resolved("model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\n"
                                 "optimiser: {type: sgd, rate: 0.1}\niterations: 70\n");
    char *resolved = runtext_written(c);
    runtext_save(folder_path(folder, "began.yaml"), resolved);
    free(resolved);
    assert_int_equal(config_set(c, "iterations=90", ERROR) || config_resolve(c, ERROR), 0);
    assert_int_equal(same_run_check(c, folder_path(folder, "began.yaml"), 0, ERROR), 0);
    config_free(c);
}

/* ---------------------------------------------------------------------------- running */

typedef struct {
    int64_t done, stop_in; /* stop_in: the iteration whose evaluation is interrupted; -1: none */
    int stopped;
    int asked;       /* how often `stop` was asked since the last progress */
    double nap;      /* seconds per iteration */
    int64_t look_at; /* whether there is a checkpoint after this iteration goes to `there` */
    int there;
    const char *out;
} watcher;

static int stop(void *ctx)
{
    watcher *w = ctx;
    w->stopped |= ++w->asked > 1 && w->done == w->stop_in;
    return w->stopped;
}

static void see(void *ctx, const run_progress *p)
{
    watcher *w = ctx;
    struct timespec t = {.tv_nsec = (long)(1e9 * w->nap)};
    char path[FILES_PATH];
    w->done = p->done;
    w->asked = 0;
    if (w->nap > 0) (void)nanosleep(&t, NULL);
    if (w->done != w->look_at) return;
    assert_int_equal(files_join(path, w->out, "checkpoint", ERROR), 0);
    w->there = access(path, F_OK) == 0;
}

/* Runs the text into the directory; the result is to be freed. */
static run_result execute(const char *text, const char *name, int resume, watcher *w)
{
    char out[FOLDER_ROOM + 64];
    run_result result;
    config *c = runtext_resolved(text);
    (void)snprintf(out, sizeof out, "%s/%s", folder, name);
    run_options options = {.out = out, .resume = resume};
    run_hooks hooks = {.stop = stop, .progress = see, .ctx = w};
    if (w) w->out = out;
    (void)run_execute(c, &options, w ? &hooks : NULL, &result);
    if (result.status != RUN_OK && result.status != RUN_STOPPED) fail_msg("%s", result.message);
    config_free(c);
    return result;
}

static void finish(const char *text, const char *name, int resume)
{
    run_result r = execute(text, name, resume, NULL);
    assert_int_equal(r.status, RUN_OK);
    run_result_free(&r);
}

static void must_agree(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS];
    if (program_differ(folder_path(folder, one), folder_path(folder, other), difference))
        fail_msg("%s and %s: %s", one, other, difference);
}

/* ---------------------------------------------------------------------------- what is left */

static const char evaluated[] =
    "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, eps: 1.0e-9}\n"
    "objective: {type: reward_forward, reward: \"exp(-(x1 - 3)^2)\", beta: 0.1}\n"
    "kernel: {type: ula, step: 0.1}\noptimiser: {type: adam, rate: 0.1}\nparticles: 50\n"
    "iterations: 45\nevaluate: {every: 20, nodes: 30, chains: 4, burn_in: 50, averaged: 50}\n"
    "output: {report: false, checkpoint_every: 10}\n";

/* A stop within the evaluation of iteration 20: the row comes when the run goes on. */
static void the_row_that_is_owed_is_written(void **state)
{
    watcher w = {.stop_in = 20, .look_at = -1};
    finish(evaluated, "whole", 0);
    run_result r = execute(evaluated, "halves", 0, &w);
    assert_int_equal(r.status, RUN_STOPPED);
    assert_int_equal(r.iterations, 21);
    run_result_free(&r);
    char *rows = runtext_read(folder_path(folder, "halves/evaluation.csv"));
    assert_null(strstr(rows, "\n20,"));
    free(rows);
    finish(evaluated, "halves", 1);
    rows = runtext_read(folder_path(folder, "halves/evaluation.csv"));
    assert_non_null(strstr(rows, "\n20,"));
    free(rows);
    (void)unlink(folder_path(folder, "halves/checkpoint.previous")); /* the stop saved one more */
    (void)unlink(folder_path(folder, "whole/checkpoint.previous"));
    must_agree("whole", "halves");
}

/* A summary of another state is no summary of this one, although it says that the run is finished. */
static void results_of_another_state_are_made_again(void **state)
{
    finish(evaluated, "first", 0);
    finish(evaluated, "second", 0);
    const char *path = folder_path(folder, "second/summary.json");
    char *text = runtext_read(path), *hash = strstr(text, "\"state_hash\": \"");
    assert_non_null(hash);
    hash += strlen("\"state_hash\": \"");
    *hash = *hash == '0' ? '1' : '0';
    runtext_save(path, text);
    free(text);
    run_result r = execute(evaluated, "second", 1, NULL);
    assert_false(r.complete);
    run_result_free(&r);
    must_agree("first", "second");
    r = execute(evaluated, "second", 1, NULL);
    assert_true(r.complete);
    run_result_free(&r);
}

static void checkpoints_come_in_time(void **state)
{
    static const char *const seconds[] = {"0.02", "0", "60"};
    for (int i = 0; i < 3; i++) {
        char text[512], name[16];
        watcher w = {.stop_in = -1, .nap = 0.01, .look_at = 9};
        (void)snprintf(text, sizeof text,
                       "model: {type: hierarchical_gaussian, y: [1, 2, 3]}\nobjective: mmle\nparticles: 20\n"
                       "iterations: 12\noutput: {report: false, checkpoint_seconds: %s}\n",
                       seconds[i]);
        (void)snprintf(name, sizeof name, "seconds%d", i);
        run_result r = execute(text, name, 0, &w);
        run_result_free(&r);
        assert_int_equal(w.there, i == 0);
    }
}

/* The last theta_norm of the trace, and the norm of the stored network. */
static void norms(const char *dir, double *last, double *stored)
{
    char name[64];
    csv_table t;
    model_file m;
    (void)snprintf(name, sizeof name, "%s/trace.csv", dir);
    if (csv_read(folder_path(folder, name), NULL, &t, ERROR)) fail_msg("%s", error);
    *last = csv_find(&t, "theta_norm")->number[t.rows - 1];
    csv_free(&t);
    static const char *const files[] = {"model.safetensors", "model.npz"};
    for (int i = 0; i < 2; i++) {
        double sum = 0;
        (void)snprintf(name, sizeof name, "%s/%s", dir, files[i]);
        if (model_read(folder_path(folder, name), &m, ERROR)) fail_msg("%s", error);
        for (int k = 0; k < m.parameters; k++) sum += m.theta[k] * m.theta[k];
        model_free(&m);
        if (i == 1) assert_true(*stored == sqrt(sum));
        *stored = sqrt(sum);
    }
}

/* Where theta is averaged, the network that is stored is the average. */
static void the_average_is_stored(void **state)
{
    for (int averaged = 0; averaged < 2; averaged++) {
        char text[1024];
        double last, stored;
        (void)snprintf(text, sizeof text,
                       "model: {type: mlp, inputs: 2, hidden: [6, 6], base: gaussian}\n"
                       "objective: {type: ebm_likelihood, data: {type: circles, points: 32, seed: 0}, batch: 8}\n"
                       "scheme: {type: pcd, pool: 20}\nkernel: {type: ula, step: 0.01}\n"
                       "init: {type: uniform, low: -2, high: 2}\n"
                       "optimiser: {type: adam, rate: 0.05, average: %s}\nparticles: 8\niterations: 20\njudge: none\n"
                       "output: {report: false}\n",
                       averaged ? "0.9" : "0");
        finish(text, averaged ? "averaged" : "plain", 0);
        norms(averaged ? "averaged" : "plain", &last, &stored);
        /* the files have single precision */
        if (averaged ? fabs(last - stored) < 1e-6 * last : fabs(last - stored) > 1e-7 * last)
            fail_msg("%s: norm %.17g in the trace, %.17g stored", averaged ? "averaged" : "plain", last, stored);
    }
}

/* y = theta + two unit normals: the information of n of them is n / 2, and the standard error is the root of its inverse. */
static void the_standard_error_is_a_root(void **state)
{
    finish("model: {type: hierarchical_gaussian, y: [1, 2, 3, 0, 4, 2, 2, 1, 3, 2, 0, 4, 2, 2, 1, 3, 2, 2]}\n"
           "objective: mmle\nparticles: 2000\niterations: 400\noutput: {report: false}\n",
           "information", 0);
    json_t *summary = NULL;
    if (json_read(folder_path(folder, "information/summary.json"), &summary, ERROR)) fail_msg("%s", error);
    double found = json_number_value(json_array_get(json_object_get(summary, "theta_standard_error"), 0));
    json_decref(summary);
    if (fabs(found - 1.0 / 3) > 0.02) fail_msg("the standard error is %g; expected 1/3", found);
}

static int set_up(void **state) { return folder_make(folder, "sosmc_resumed"); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_some_keys_may_change),
                                       cmocka_unit_test(the_row_that_is_owed_is_written),
                                       cmocka_unit_test(results_of_another_state_are_made_again),
                                       cmocka_unit_test(checkpoints_come_in_time),
                                       cmocka_unit_test(the_average_is_stored),
                                       cmocka_unit_test(the_standard_error_is_a_root)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
