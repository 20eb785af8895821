/* test_tempered.c: runs that temper have everything that a run has: rows, checkpoints from which they go on with the same bits, numbers
 * with their errors; for every kind of model, or with the reason why not. And runs that end where their loss has settled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "run/run.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

#define MIXTURE \
    "model: {type: gaussian_mixture, means: [[-4, 0], [4, 0]], theta: [-1.3862943611198906, -0.2876820724517809]}\n"
#define TEMPER MIXTURE "objective: {type: temper, reward: \"x1 > 0\"}\nparticles: 400\n"
#define TILT MIXTURE "objective: {type: temper, reward: \"x1 > 0\", beta: 0.25}\nparticles: 400\n"

static run_result result;

static run_status run(const char *text, const char *name, int resume, const run_hooks *hooks)
{
    char out[FOLDER_ROOM + 64];
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, name));
    run_options options = {.out = out, .resume = resume};
    config *c = config_parse(text, "test.yaml", ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
    run_result_free(&result);
    run_status status = run_execute(c, &options, hooks, &result);
    config_free(c);
    return status;
}

static void must_run(const char *text, const char *name, int resume)
{
    if (run(text, name, resume, NULL) != RUN_OK) fail_msg("%s", result.message);
}

static void expect(const told *t, double exact, double largest_error)
{
    assert_true(t->exists && t->from == TOLD_JUDGED && t->error > 0 && t->error < largest_error);
    assert_true(fabs(t->value - exact) < 4 * t->error);
}

/* ---------------------------------------------------------------------------- tempering */

static void numbers_have_errors(void **state)
{
    const double gain = log(0.25 + 0.75 * exp(4)), mass = 0.75 * exp(4 - gain), log_z = log(2 * M_PI);
    must_run(TEMPER, "plain", 0);
    assert_int_equal(result.verdict, SOSMC_CONVERGED);
    expect(&result.outcome.log_z, log_z, 0.1);
    expect(&result.outcome.reward, 0.75, 0.05);
    assert_false(result.outcome.kl.exists || result.outcome.model_reward.exists);
    must_run(TILT, "tilted", 0);
    assert_int_equal(result.verdict, SOSMC_CONVERGED);
    expect(&result.outcome.log_z, log_z + gain, 0.1);
    expect(&result.outcome.reward, mass, 0.02);
    expect(&result.outcome.kl, 4 * mass - gain, 0.1);
    expect(&result.outcome.loss, -0.25 * gain, 0.03);
    expect(&result.outcome.model_reward, 0.75, 0.05);
    expect(&result.outcome.model_log_z, log_z, 0.1);
}

/* Energies so large that their differences are rounded away say nothing of the particles. */
static void energies_beyond_rounding_are_named(void **state)
{
    static const struct {
        const char *mean;
        int verdict;
    } cases[] = {{"1e100", SOSMC_NOT_CONVERGED}, {"3e8", SOSMC_NOT_CONVERGED}, {"30", SOSMC_CONVERGED}};
    for (int i = 0; i < 3; i++) {
        char text[256], name[16];
        (void)snprintf(name, sizeof name, "large%d", i);
        (void)snprintf(
            text, sizeof text,
            "model: {type: gaussian_mixture, means: [[%s, 0]]}\nobjective: temper\nparticles: 500\noutput: {report: false}\n",
            cases[i].mean);
        must_run(text, name, 0);
        assert_int_equal(result.verdict, cases[i].verdict);
        const sosmc_verdict_words *v = &result.outcome.judged.verdict;
        if (i == 0) assert_non_null(strstr(v->reason[v->reasons - 1], "the energies are too large: log Z is -5e+199"));
    }
}

/* Stopped at any step, a run goes on to the bytes of one that was not. */
static int left;
static int stop(void *ctx) { return left-- <= 0; }

static void interrupted_runs_go_on(void **state)
{
    const run_hooks hooks = {.stop = stop};
    char difference[PROGRAM_WORDS] = "", whole[FOLDER_ROOM + 64], file[128];
    must_run(TILT, "whole", 0);
    (void)snprintf(whole, sizeof whole, "%s", folder_path(folder, "whole"));
    for (int k = 1; k < result.iterations; k += 4) {
        char name[32];
        (void)snprintf(name, sizeof name, "stopped%d", k);
        left = k;
        assert_int_equal(run(TILT, name, 0, &hooks), RUN_STOPPED);
        assert_non_null(strstr(result.message, "continue with --resume"));
        must_run(TILT, name, 1);
        (void)snprintf(file, sizeof file, "%s/checkpoint.previous", name);
        (void)unlink(folder_path(folder, file));
        if (program_differ(whole, folder_path(folder, name), difference)) fail_msg("%s: %s", name, difference);
    }
    must_run(TILT, "whole", 1);
    assert_true(result.complete);
}

/* A limit ends it with a verdict that says so, and a larger one goes on to the numbers of a run without. */
static void limits_end_it(void **state)
{
    must_run(TILT, "unlimited", 0);
    double log_z = result.outcome.log_z.value;
    int64_t steps = result.iterations;
    must_run(TILT "limits: {evaluations: 2000}\n", "limited", 0);
    assert_string_equal(result.limit, "evaluations");
    assert_true(result.iterations < steps && result.verdict != SOSMC_CONVERGED);
    must_run(TILT, "limited", 1);
    assert_true(result.limit == NULL && result.iterations == steps && result.verdict == SOSMC_CONVERGED);
    assert_true(result.outcome.log_z.value == log_z);
}

/* Every kind of model, from every kind of law; log Z against a formula where there is one. */
static void any_model_and_law(void **state)
{
    static const struct {
        const char *text;
        double log_z; /* NaN: it is not known */
    } runs[] = {
        {"model: {type: hierarchical_gaussian, y: [1, 2, 3], theta: [2]}\nobjective: temper\n", -4.2965},
        {"model: {type: hierarchical_gaussian, y: [1, 2, 3], theta: [2]}\nobjective: temper\ninit: {type: normal, mean: 2, sd: 2}\n",
         -4.2965},
        {"model: {type: hierarchical_gaussian, y: [1, 2, 3], theta: [2]}\nobjective: temper\ninit: model\n", -4.2965},
        {MIXTURE "objective: temper\ninit: model\n", 1.8378770664093453},
        {"model: {type: mlp, inputs: 3, hidden: [8], base: gaussian, base_sd: 1}\nobjective: temper\ninit: base\n",
         NAN},
    };
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "any%zu", k);
        must_run(runs[k].text, name, 0);
        assert_int_equal(result.verdict, SOSMC_CONVERGED);
        expect(&result.outcome.log_z, isnan(runs[k].log_z) ? result.outcome.log_z.value : runs[k].log_z, 0.1);
    }
}

/* Without a base law there is no log Z: particles, and the reason in words. */
static void no_law_no_number(void **state)
{
    must_run("model: {type: mlp, inputs: 3, hidden: [8], base: none}\nobjective: temper\n", "none", 0);
    assert_true(result.outcome.log_z.exists && isnan(result.outcome.log_z.value));
    assert_contains(result.outcome.log_z.why, "no base law");
    assert_int_equal(result.verdict, SOSMC_NOT_CONVERGED);
}

/* ---------------------------------------------------------------------------- a loss that has settled */

#define SETTLES                                                                                        \
    "model: {type: gaussian_mixture, means: [[-2, 0], [2, 0]]}\n"                                      \
    "objective: {type: reward_reverse, reward: \"x1 > 0\", beta: 0.5}\nparticles: 200\nkernel: mala\n" \
    "iterations: 3000\noptimiser: {rate: 0.02}\noutput: {report: false}\n"

static void a_settled_loss_ends_the_run(void **state)
{
    must_run(SETTLES "evaluate: {every: 50, nodes: 60, stop: 0.001}\n", "settled", 0);
    int64_t ended = result.iterations;
    assert_in_range(ended, 101, 1000);
    assert_null(result.limit);
    must_run(SETTLES "evaluate: {every: 50, nodes: 60, stop: 0.001}\n", "settled", 1);
    assert_true(result.complete && result.iterations == ended);
    assert_int_equal(unlink(folder_path(folder, "settled/summary.json")), 0); /* killed before it was written */
    must_run(SETTLES "evaluate: {every: 50, nodes: 60, stop: 0.001}\n", "settled", 1);
    assert_true(!result.complete && result.iterations == ended);
    must_run(
        "model: {type: gaussian_mixture, means: [[-2, 0, 0], [2, 0, 0]]}\n"
        "objective: {type: reward_reverse, reward: \"x1 > 0\", beta: 0.5, ramp: 150}\nparticles: 200\nkernel: mala\n"
        "iterations: 600\noptimiser: {rate: 0.02}\noutput: {report: false}\nevaluate: {every: 50, stop: 10}\n",
        "ramp", 0); /* by fresh particles; and no gain counts before the ramp is over */
    assert_int_equal(result.iterations, 201);
}

static int make_folder(void **state) { return folder_make(folder, "test_tempered"); }
static int remove_folder(void **state)
{
    run_result_free(&result);
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_errors),        cmocka_unit_test(energies_beyond_rounding_are_named),
        cmocka_unit_test(interrupted_runs_go_on),     cmocka_unit_test(limits_end_it),
        cmocka_unit_test(any_model_and_law),          cmocka_unit_test(no_law_no_number),
        cmocka_unit_test(a_settled_loss_ends_the_run)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
