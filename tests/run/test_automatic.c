/* test_automatic.c: runs whose settings are automatic have everything that a run has: rows for every step, checkpoints from which
 * they go on with the same bits, limits that may be raised, a judgement that can be told again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "run/run.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

#define TOY "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2.5]}\nobjective: mmle\nparticles: 128\nseed: 4\n"
#define REWARD                                                                         \
    "model: {type: gaussian_mixture, means: [[-2, 0, 0], [2, 0, 1]], variance: 0.5}\n" \
    "objective: {type: reward_forward, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\nparticles: 128\n"

#define NET                                                                  \
    "model: {type: mlp, inputs: 3, hidden: [16, 16], base: gaussian}\n"      \
    "objective: {type: ebm_likelihood, held_out: 0.25, data: {type: blobs, " \
    "points: 400, centres: [[0, 3, 1], [2, 0, -1]]}}\nparticles: 128\n"

static run_result result;

static run_status run(const char *text, const char *name, int resume, int judge, const run_hooks *hooks)
{
    char out[FOLDER_ROOM + 64];
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, name));
    run_options options = {.out = out, .resume = resume, .judge = judge};
    config *c = config_parse(text, "test.yaml", ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
    run_result_free(&result);
    run_status status = run_execute(c, &options, hooks, &result);
    config_free(c);
    return status;
}

static void must_run(const char *text, const char *name, int resume)
{
    if (run(text, name, resume, 0, NULL) != RUN_OK) fail_msg("%s", result.message);
}

static json_t *summary_of(const char *name)
{
    char file[128];
    json_t *s = NULL;
    (void)snprintf(file, sizeof file, "%s/summary.json", name);
    if (json_read(folder_path(folder, file), &s, ERROR)) fail_msg("%s", error);
    return s;
}

static const char *text_of(const json_t *s, const char *key) { return json_string_value(json_object_get(s, key)); }

static void move(const char *name, const char *from, const char *to)
{
    char old[FOLDER_ROOM + 64], new[FOLDER_ROOM + 64], file[128];
    (void)snprintf(file, sizeof file, "%s/%s", name, from);
    (void)snprintf(old, sizeof old, "%s", folder_path(folder, file));
    (void)snprintf(file, sizeof file, "%s", to);
    (void)snprintf(new, sizeof new, "%s", folder_path(folder, file));
    assert_int_equal(rename(old, new), 0);
}

/* Checkpoints hold the time that the steps took; the state's hash, in the summary, does not. A continued run has the checkpoint
 * before its last too. */
static void must_agree(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS] = "", left[FOLDER_ROOM + 64], file[128];
    (void)snprintf(file, sizeof file, "%s/checkpoint.previous", other);
    (void)unlink(folder_path(folder, file));
    move(one, "checkpoint", "one");
    move(other, "checkpoint", "other");
    (void)snprintf(left, sizeof left, "%s", folder_path(folder, one));
    int differ = program_differ(left, folder_path(folder, other), difference);
    (void)snprintf(file, sizeof file, "%s/checkpoint", one);
    move(".", "one", file);
    (void)snprintf(file, sizeof file, "%s/checkpoint", other);
    move(".", "other", file);
    if (differ) fail_msg("%s, %s: %s", one, other, difference);
}

/* ---------------------------------------------------------------------------- rows and numbers */

static void every_step_has_a_row(void **state)
{
    csv_table t;
    csv_options options = {.header = CSV_HEADER_YES};
    must_run(TOY, "rows", 0);
    assert_true(result.automatic && result.limit == NULL && result.verdict == SOSMC_CONVERGED);
    assert_true(fabs(result.outcome.theta[0] - 2.125) < 0.01);
    assert_int_equal(csv_read(folder_path(folder, "rows/trace.csv"), &options, &t, ERROR), 0);
    assert_int_equal(t.rows, result.iterations);
    const double *step = csv_find(&t, "step")->number, *phase = csv_find(&t, "phase")->number,
                 *evaluations = csv_find(&t, "evaluations")->number, *theta = csv_find(&t, "theta_1")->number;
    for (int64_t i = 0; i < t.rows; i++) {
        assert_true(step[i] == (double)i);
        assert_true(i == 0 || (phase[i] >= phase[i - 1] && evaluations[i] >= evaluations[i - 1]));
    }
    assert_true(phase[0] == SOSMC_PHASE_START && phase[t.rows - 1] == SOSMC_PHASE_DONE);
    assert_true(theta[0] == 0 && theta[t.rows - 1] == result.outcome.theta[0]);
    json_t *s = summary_of("rows");
    assert_true(json_number_value(json_object_get(s, "evaluations")) == evaluations[t.rows - 1]);
    assert_string_equal(text_of(s, "phase"), "done");
    assert_string_equal(text_of(s, "settings"), "automatic");
    assert_true(json_is_true(json_object_get(s, "finished")) && json_is_null(json_object_get(s, "limit")));
    json_decref(s);
    csv_free(&t);
    assert_int_equal(csv_read(folder_path(folder, "rows/timing.csv"), &options, &t, ERROR), 0);
    assert_true(t.rows == result.iterations && strcmp(t.column[0].name, "step") == 0);
    csv_free(&t);
}

static void rows_are_thinned(void **state)
{
    csv_table t;
    csv_options options = {.header = CSV_HEADER_YES};
    must_run(TOY "output: {thin: 4}\n", "thin", 0);
    assert_int_equal(csv_read(folder_path(folder, "thin/trace.csv"), &options, &t, ERROR), 0);
    const double *step = t.column[0].number;
    assert_true(t.rows > 3 && step[1] == 4 && step[t.rows - 1] == (double)result.iterations - 1);
    csv_free(&t);
}

static void explicit_runs_say_so(void **state)
{
    must_run(TOY "iterations: 3\n", "explicit", 0);
    assert_false(result.automatic);
    json_t *s = summary_of("explicit");
    assert_string_equal(text_of(s, "settings"), "explicit");
    assert_null(json_object_get(s, "phase"));
    json_decref(s);
}

/* ---------------------------------------------------------------------------- going on */

typedef struct {
    int64_t stop_at, last;
    int phases; /* bits of those that were seen */
    int wrong;
} witness;

static void see(void *ctx, const run_progress *p)
{
    witness *w = ctx;
    w->wrong += !p->solve || p->info || p->total || !p->theta || p->dim_theta < 1 || p->solve->step != p->done;
    w->last = p->done;
    w->phases |= 1 << p->solve->phase;
}

static int enough(void *ctx)
{
    const witness *w = ctx;
    return w->stop_at > 0 && w->last >= w->stop_at;
}

/* Stopped after every step, one after the other, and continued: the bytes of a run that was not. */
static void stopped_anywhere_and_continued(void **state)
{
    static const char *const texts[] = {TOY, REWARD};
    for (int i = 0; i < 2; i++) {
        char whole[16], parts[16];
        int64_t steps = 1;
        (void)snprintf(whole, sizeof whole, "whole%d", i);
        (void)snprintf(parts, sizeof parts, "parts%d", i);
        must_run(texts[i], whole, 0);
        int64_t all = result.iterations;
        witness w = {.stop_at = 1};
        run_hooks hooks = {.stop = enough, .progress = see, .ctx = &w};
        while (run(texts[i], parts, steps > 1, 0, &hooks) == RUN_STOPPED) {
            assert_int_equal(result.iterations, steps);
            if (steps == 1)
                assert_contains(result.message,
                                "stopped after step 1, in the phase start; everything is saved, continue "
                                "with --resume");
            w.stop_at = ++steps;
        }
        assert_int_equal(result.status, RUN_OK);
        assert_true(result.iterations == all && steps >= all && w.wrong == 0);
        assert_int_equal(w.phases, 31);
        must_agree(whole, parts);
    }
}

/* A finished run has nothing left to do; a lost summary is written again. */
static void finished_runs(void **state)
{
    must_run(TOY, "finished", 0);
    must_run(TOY, "finished", 1);
    assert_true(result.complete && result.verdict == SOSMC_CONVERGED);
    assert_int_equal(unlink(folder_path(folder, "finished/summary.json")), 0);
    must_run(TOY, "finished", 1);
    assert_false(result.complete);
    must_agree("whole0", "finished");
    assert_int_equal(run(TOY, "finished", 1, 1, NULL), RUN_OK); /* judged: what the solver said is said again */
    must_agree("whole0", "finished");
}

/* ---------------------------------------------------------------------------- limits */

static void a_limit_may_be_raised(void **state)
{
    must_run(TOY "limits: {evaluations: 3000}\n", "limited", 0);
    assert_string_equal(result.limit, "evaluations");
    assert_int_equal(result.verdict, SOSMC_NOT_CONVERGED);
    int64_t steps = result.iterations;
    json_t *s = summary_of("limited");
    assert_true(json_is_false(json_object_get(s, "finished")));
    assert_string_equal(text_of(s, "limit"), "evaluations");
    assert_true(json_number_value(json_object_get(s, "evaluations")) >= 3000);
    assert_true(strcmp(text_of(s, "phase"), "done") != 0);
    json_decref(s);
    must_run(TOY "limits: {evaluations: 3000}\n", "limited", 1);
    assert_true(result.iterations == steps && result.limit);
    must_run(TOY "limits: {evaluations: 6000}\n", "limited", 1);
    assert_true(result.iterations > steps);
    must_run(TOY, "limited", 1);
    assert_true(result.limit == NULL && result.verdict == SOSMC_CONVERGED);
    must_agree("whole0", "limited");
    must_run(TOY "limits: {seconds: 1.0e-9}\n", "hasty", 0);
    assert_true(result.limit && strcmp(result.limit, "seconds") == 0 && result.iterations == 1);
}

/* What decides where the solver goes makes it another run. */
static void another_precision_is_another_run(void **state)
{
    assert_int_equal(run(TOY "precision: 0.01\n", "finished", 1, 0, NULL), RUN_EUSAGE);
    assert_contains(result.message, "belongs to another run");
    assert_int_equal(run(TOY "iterations: 5\n", "finished", 1, 0, NULL), RUN_EUSAGE);
    assert_contains(result.message, "it has 'settings: automatic', this run 'settings: explicit'");
    must_run(TOY "threads: 2\n", "finished", 1);
}

/* ---------------------------------------------------------------------------- networks */

static double number_of(const json_t *s, const char *key) { return json_number_value(json_object_get(s, key)); }

/* Points are held out by the seed alone; what is told of them and of the others adds up. */
static void a_network_is_trained_like_any_other_run(void **state)
{
    must_run(NET, "net", 0);
    assert_true(result.automatic && result.verdict == SOSMC_CONVERGED);
    json_t *s = summary_of("net");
    assert_true(number_of(s, "fitted_rows") + number_of(s, "held_out_rows") == 400);
    assert_true(fabs(number_of(s, "held_out_rows") - 100) < 40);
    assert_string_equal(text_of(s, "log_likelihood_from"), "judged");
    assert_true(fabs(number_of(s, "log_likelihood") + number_of(s, "loss")) < 1e-6); /* not in the same order of sums */
    assert_true(number_of(s, "held_out_error") == number_of(s, "log_z_error") && number_of(s, "held_out_error") > 0);
    assert_true(fabs(number_of(s, "held_out") - number_of(s, "log_likelihood")) < 1 &&
                number_of(s, "held_out_spread") > 0);
    json_decref(s);
    must_run(NET "limits: {evaluations: 200000}\n", "net-parts", 0);
    assert_string_equal(result.limit, "evaluations");
    must_run(NET "threads: 2\n", "net-parts", 1);
    assert_true(result.limit == NULL && result.verdict == SOSMC_CONVERGED);
    assert_int_equal(access(folder_path(folder, "net-parts/model.safetensors"), R_OK), 0);
    json_t *one = summary_of("net"), *other = summary_of("net-parts");
    assert_string_equal(text_of(one, "state_hash"), text_of(other, "state_hash"));
    json_decref(one);
    json_decref(other);
}

/* ---------------------------------------------------------------------------- refusals */

static void what_the_solver_refuses(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"model: {type: mlp, hidden: [64], base: gaussian, base_sd: 1}\n"
         "objective: {type: reward_reverse, reward: x1, beta: 0}\nsettings: automatic\n",
         "test.yaml:3: settings is automatic, and the solver refuses this run: the model has 257 parameters, and with more "
         "than 200 the solver takes only the likelihood of data"},
        {"model: {type: mlp, hidden: [64]}\n"
         "objective: {type: ebm_likelihood, data: {type: circles, points: 30}}\nsettings: automatic\n",
         "init.type is base, but the network has none; see model.base"},
        {"model: {type: mlp, hidden: [64], base: gaussian}\n"
         "objective: {type: ebm_likelihood, data: {type: circles, points: 30}, held_out: 0.001}\n",
         "test.yaml:2: objective.held_out is 0.001, which takes 0 of 30 points"},
        {"model: {type: gaussian_mixture, means: [[0], [1]]}\nobjective: none\nsettings: automatic\n",
         "nothing to minimise"},
        {"model: {type: gaussian_mixture, means: [[0, 0], [1, 0]]}\n"
         "objective: {type: ebm_likelihood, data: {type: circles, points: 30}, energy2: 0.1}\n",
         "the solver refuses this run: the objective has a regulariser on energies"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(run(cases[i].text, "refused", 0, 0, NULL), RUN_EUSAGE);
        assert_contains(result.message, cases[i].words);
        assert_int_not_equal(access(folder_path(folder, "refused"), F_OK), 0);
    }
}

static int set_up(void **state) { return folder_make(folder, "automatic"); }
static int tear_down(void **state)
{
    run_result_free(&result);
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_has_a_row),
        cmocka_unit_test(rows_are_thinned),
        cmocka_unit_test(explicit_runs_say_so),
        cmocka_unit_test(stopped_anywhere_and_continued),
        cmocka_unit_test(finished_runs),
        cmocka_unit_test(a_limit_may_be_raised),
        cmocka_unit_test(another_precision_is_another_run),
        cmocka_unit_test(a_network_is_trained_like_any_other_run),
        cmocka_unit_test(what_the_solver_refuses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
