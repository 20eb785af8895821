/* test_defaults.c: what a run file gets that names no kernel or no optimiser, and what that is worth on three problems whose
 * answers are known; beside them, what the same files give with a fixed step and a constant rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/judge.h>
#include <sosmc/sosmc.h>

#include "runfile/config.h"
#include "folder.h"
#include "job/problem.h"
#include "run/same_run.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* What a file had before that names neither. */
#define EXPLICIT "settings: explicit\n"
#define FIXED "kernel: {type: ula, step: 0.05}\noptimiser: {type: adam, rate: 0.01}\n"

/* ---------------------------------------------------------------------------- what is filled in */

static const char *written(const char *text, const char *path)
{
    static char value[64];
    config *c = runtext_resolved(text);
    snprintf(value, sizeof value, "%s", config_text(c, path));
    runtext_assert_replays(c);
    config_free(c);
    return value;
}

static void no_kernel_and_no_optimiser(void **state)
{
    config *c = runtext_resolved(SMALL "iterations: 700\n");
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_true(config_number(c, "kernel.step") == 0.05);
    assert_int_equal(config_count(c, "adapt"), 1);
    assert_string_equal(config_text(c, "adapt.signal"), "accept");
    assert_string_equal(config_text(c, "adapt.target"), "step");
    assert_true(config_number(c, "adapt.threshold") == 0.57 && config_number(c, "adapt.factor") == 1.02);
    assert_string_equal(config_text(c, "optimiser.type"), "adam");
    assert_true(config_number(c, "optimiser.rate") == 0.05);
    assert_string_equal(config_text(c, "optimiser.schedule.type"), "cosine");
    assert_true(config_number(c, "optimiser.schedule.a") == 700 && config_number(c, "optimiser.schedule.b") == 0);
    runtext_assert_replays(c);
    config_free(c);
    c = runtext_resolved(SMALL "iterations: 0\n"); /* a schedule needs an update to fall in */
    assert_true(config_number(c, "optimiser.schedule.a") == 1);
    config_free(c);
}

/* A mapping, however small, keeps what its missing keys always were. */
static void what_is_named_is_left_alone(void **state)
{
    static const char *const kernels[] = {"kernel: {}\n", "kernel: {step: 0.05}\n", "kernel: ula\n"};
    static const char *const optimisers[] = {"optimiser: {}\n", "optimiser: adam\n", "optimiser: {rate: 0.01}\n"};
    char text[512];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, SMALL "%s", kernels[i]);
        config *c = runtext_resolved(text);
        assert_string_equal(config_text(c, "kernel.type"), "ula");
        assert_int_equal(config_count(c, "adapt"), 0);
        assert_true(config_number(c, "optimiser.rate") == 0.05); /* one does not stand for the other */
        config_free(c);
        snprintf(text, sizeof text, SMALL "%s", optimisers[i]);
        c = runtext_resolved(text);
        assert_true(config_number(c, "optimiser.rate") == 0.01);
        assert_string_equal(config_text(c, "optimiser.schedule.type"), "constant");
        assert_string_equal(config_text(c, "kernel.type"), "mala");
        config_free(c);
    }
    config *c = runtext_resolved(SMALL "kernel: mala\nadapt: {}\n");
    assert_string_equal(config_text(c, "adapt.signal"), "ess");
    assert_true(config_number(c, "adapt.threshold") == 0.95 && config_number(c, "adapt.factor") == 1.01);
    config_free(c);
}

/* Also after the defaults have been filled in, and taken back by null. */
static void an_assignment_names_a_kernel(void **state)
{
    config *c = runtext_resolved(SMALL EXPLICIT);
    assert_int_equal(config_set(c, "kernel.type=ula", ERROR), 0);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    assert_int_equal(config_count(c, "adapt"), 0);
    assert_int_equal(config_set(c, "kernel=null", ERROR), 0);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_int_equal(config_count(c, "adapt"), 1);
    config_free(c);
}

static void rules_of_a_file_without_a_kernel(void **state)
{
    config *c = runtext_resolved(SMALL "adapt: []\n");
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_int_equal(config_count(c, "adapt"), 0);
    config_free(c);
    c = runtext_resolved(SMALL "adapt: {max: 0.3}\n");
    assert_string_equal(config_text(c, "adapt.signal"), "accept");
    assert_true(config_number(c, "adapt.max") == 0.3 && config_number(c, "adapt.factor") == 1.02);
    config_free(c);
    assert_string_equal(
        runtext_complaint(SMALL "adapt: {signal: ess}\n"),
        "run.yaml:3: adapt follows the effective sample size, which says nothing about the step of mala, "
        "the kernel of a file that names none; expected adapt.signal accept, or a kernel such as ula");
    c = runtext_resolved(SMALL "adapt: {signal: ess, target: rate}\n");
    config_free(c);
}

#define PICTURE "model: {type: deblur, picture: a.png, noise: 1"
#define NETWORK \
    "model: {type: stored, file: a.npz}\nobjective: {type: reward_reverse, reward: x1}\nsettings: explicit\n"

static void exceptions(void **state)
{
    assert_string_equal(written(PICTURE "}\nobjective: mmle\n", "kernel.type"), "gibbs"); /* its prior is not smooth */
    assert_string_equal(written(PICTURE ", envelope: 0.0}\nobjective: mmle\n", "kernel.type"), "gibbs");
    assert_string_equal(written(PICTURE ", envelope: 0.5}\nobjective: mmle\n", "kernel.type"), "mala");
    config *c = runtext_resolved(PICTURE "}\nobjective: mmle\n");
    assert_int_equal(config_count(c, "adapt"), 0);
    config_free(c);
    assert_string_equal(written(SMALL "scheme: unweighted\n", "kernel.type"), "mala");
    assert_string_equal(written(SMALL "scheme: impdiff\n", "kernel.type"), "ula");
    assert_string_equal(written(SMALL "scheme: impdiff_printed\n", "kernel.type"), "ula");
    assert_string_equal(written(SMALL "scheme: soul\n", "kernel.type"), "ula");
    assert_string_equal(written(SMALL "scheme: pcd\n", "kernel.type"), "ula");
    assert_string_equal(written(NETWORK, "optimiser.rate"), "0.01");
    assert_string_equal(written(NETWORK, "optimiser.schedule.type"), "constant");
    c = runtext_resolved("model: {type: stored, file: a.npz}\nobjective: none\n");
    assert_false(config_has(c, "optimiser")); /* theta stays */
    config_free(c);
}

/* ---------------------------------------------------------------------------- what it is worth */

typedef struct {
    double theta[4], loss, least_ess;
    sosmc_number log_z; /* judged */
} outcome;

static outcome run(const char *text)
{
    outcome out = {.least_ess = INFINITY};
    sosmc_judgement judged;
    sosmc *engine = NULL;
    job j;
    int io;
    runtext_save(folder_path(folder, "run.yaml"), text);
    config *c = config_load(folder_path(folder, "run.yaml"), ERROR);
    if (!c || config_resolve(c, ERROR) || job_build(&j, c, &io, ERROR)) fail_msg("%s", error);
    assert_int_equal(sosmc_create(&engine, &j.problem, &j.settings), SOSMC_OK);
    for (int64_t k = 0; k < j.iterations; k++) {
        assert_int_equal(sosmc_step(engine), SOSMC_OK);
        out.least_ess = fmin(out.least_ess, sosmc_last(engine)->ess);
    }
    memcpy(out.theta, sosmc_theta(engine), (size_t)j.problem.model.dim_theta * sizeof(double));
    out.loss = sosmc_last(engine)->loss;
    assert_int_equal(sosmc_judge(engine, NULL, &judged, ERROR), SOSMC_OK);
    out.log_z = judged.log_z;
    sosmc_judgement_free(&judged);
    sosmc_free(engine);
    job_free(&j);
    config_free(c);
    return out;
}

static double uniform(uint64_t *s) /* splitmix64 */
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* 300 rows with four features, and labels from a logistic model. */
static void write_table(void)
{
    static const double slope[] = {1.5, -1, 0.7, 0.2};
    uint64_t s = 7;
    FILE *f = fopen(folder_path(folder, "table.csv"), "w");
    assert_non_null(f);
    fputs("a,b,c,d,label\n", f);
    for (int i = 0; i < 300; i++) {
        double eta = 0.3;
        for (int j = 0; j < 4; j++) {
            double x = -6;
            for (int k = 0; k < 12; k++) x += uniform(&s);
            eta += slope[j] * x;
            fprintf(f, "%.6f,", x);
        }
        fprintf(f, "%d\n", uniform(&s) < 1 / (1 + exp(-eta)));
    }
    assert_int_equal(fclose(f), 0);
}

#define LOGISTIC "model: {type: logistic_regression, data: table.csv, label: label}\nobjective: mmle\n"

/* The running loss against the judged one, which fresh particles give. */
static void logistic_regression(void **state)
{
    write_table();
    outcome now = run(LOGISTIC EXPLICIT), before = run(LOGISTIC FIXED);
    assert_true(fabs(now.loss + now.log_z.value) < 0.05 + 4 * now.log_z.error);
    assert_true(now.least_ess > 100);
    assert_true(fabs(before.loss + before.log_z.value) > 100 && before.least_ess < 2);
}

/* The mean of y is 8, which theta, on its way from 0, must reach in a thousand updates. */
#define HIERARCHICAL \
    "model: {type: hierarchical_gaussian, y: [6.9, 8.3, 9.2, 7.1, 8.5, 7.4, 8.9, 7.7]}\nobjective: mmle\n"

static void hierarchical_gaussian(void **state)
{
    outcome now = run(HIERARCHICAL EXPLICIT), before = run(HIERARCHICAL FIXED);
    assert_true(fabs(now.theta[0] - 8) < 0.08);
    assert_true(fabs(before.theta[0] - 8) > 1);
}

/* Modes that do not touch: E[R] = sum_k p_k r_k and the divergence is that of the weights, so the best ones are
 * proportional to exp(r_k / beta), with r_k = sqrt(1 / (1 + 2 v / 4))^2 exp(-d_k^2 / (4 + 2 v)) for this reward. */
#define REWARD                                                                           \
    "model: {type: gaussian_mixture, means: [[-6, 0], [6, 0], [0, 8]], variance: 0.5}\n" \
    "objective: {type: reward_reverse, reward: \"2 * exp(-((x1 - 4)^2 + x2^2) / 40)\", beta: 0.5}\n"

static void reward_of_a_mixture(void **state)
{
    static const double squares[] = {100, 4, 80};
    double p[3], best[3], sum = 0, sum_best = 0;
    outcome now = run(REWARD EXPLICIT);
    for (int k = 0; k < 3; k++) {
        sum += p[k] = exp(now.theta[k]);
        sum_best += best[k] = exp(2 * exp(-squares[k] / 41) * 40 / 41 / 0.5);
    }
    for (int k = 0; k < 3; k++) assert_true(fabs(p[k] / sum - best[k] / sum_best) < 0.01);
}

/* ---------------------------------------------------------------------------- directories */

/* Does a run file continue what another one began? */
static int continues(const char *began, const char *text)
{
    config *c = runtext_resolved(began);
    char *resolved = runtext_written(c);
    runtext_save(folder_path(folder, "began.yaml"), resolved);
    config_free(c);
    free(resolved);
    c = runtext_resolved(text);
    int rc = same_run_check(c, folder_path(folder, "began.yaml"), 0, ERROR);
    config_free(c);
    return rc == 0;
}

static void more_iterations(void **state)
{
    assert_true(continues(SMALL "iterations: 100\n", SMALL "iterations: 100\n"));
    assert_false(continues(SMALL "iterations: 100\n", SMALL "iterations: 200\n"));
    assert_non_null(strstr(error,
                           "belongs to another run: its learning rate falls over 100 iterations, that of this run "
                           "over 200; begin in a new directory"));
    assert_true(continues(SMALL "iterations: 100\noptimiser: {rate: 0.05}\n",
                          SMALL "iterations: 200\noptimiser: {rate: 0.05}\n"));
    assert_true(continues(SMALL "iterations: 100\noptimiser: {schedule: {type: cosine, a: 150}}\n",
                          SMALL "iterations: 200\noptimiser: {schedule: {type: cosine, a: 150}}\n"));
}

/* A directory of earlier days: its own file continues it, the short one it was made from says why it does not. */
static void earlier_directories(void **state)
{
    assert_true(continues(SMALL FIXED, SMALL FIXED));
    config *c = runtext_resolved(SMALL FIXED);
    runtext_assert_replays(c);
    char *resolved = runtext_written(c);
    assert_true(continues(SMALL FIXED, resolved));
    free(resolved);
    config_free(c);
    assert_false(continues(SMALL FIXED, SMALL EXPLICIT));
    assert_non_null(
        strstr(error, "it has '  type: ula', this run '  type: mala' (given as the run file, it continues"));
}

static int make_folder(void **state) { return folder_make(folder, "test_defaults"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_kernel_and_no_optimiser),
        cmocka_unit_test(what_is_named_is_left_alone),
        cmocka_unit_test(an_assignment_names_a_kernel),
        cmocka_unit_test(rules_of_a_file_without_a_kernel),
        cmocka_unit_test(exceptions),
        cmocka_unit_test(logistic_regression),
        cmocka_unit_test(hierarchical_gaussian),
        cmocka_unit_test(reward_of_a_mixture),
        cmocka_unit_test(more_iterations),
        cmocka_unit_test(earlier_directories),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
