/* test_first_screen.c: what a stranger sees first. Each test is a small problem that once ended with exit code 0 and a wrong
 * number on the screen; now the number is right and has its error, or a sentence says what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

static void write_file(const char *name, const char *text)
{
    if (files_write(folder_path(folder, name), text, strlen(text), ERROR)) fail_msg("%s", error);
}

#define says(code, arguments) program_says(folder, code, "%s", arguments)

static json_t *summary_of(const char *name)
{
    json_t *summary = NULL;
    char file[256];
    (void)snprintf(file, sizeof file, "%s/summary.json", name);
    if (json_read(folder_path(folder, file), &summary, ERROR)) fail_msg("%s", error);
    return summary;
}

static double number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static double first_of(const json_t *object, const char *key)
{
    const json_t *v = json_array_get(json_object_get(object, key), 0);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int has_sentence(const json_t *list, const char *words)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strstr(json_string_value(json_array_get(list, i)), words)) return 1;
    return 0;
}

static int warned(const json_t *summary, const char *words)
{
    return has_sentence(json_object_get(summary, "warnings"), words);
}

static int reproached(const json_t *summary, const char *words)
{
    return has_sentence(json_object_get(json_object_get(summary, "verdict"), "reasons"), words);
}

static const char *status_of(const json_t *summary)
{
    return json_string_value(json_object_get(json_object_get(summary, "verdict"), "status"));
}

static char *page_of(const char *name)
{
    char file[256], *text = NULL;
    size_t size;
    (void)snprintf(file, sizeof file, "%s/report.html", name);
    if (files_read(folder_path(folder, file), (size_t)64 << 20, &text, &size, ERROR)) fail_msg("%s", error);
    return text;
}

/* n standard normals that have names. */
static void normals(uint64_t seed, int n, double *z)
{
    _Alignas(64) double row[8];
    for (int i = 0; i < n; i++) {
        sosmc_batch b = {.dim = 1, .n = 8, .ld = 8, .first = 8 * (int64_t)i, .simd = sosmc_simd_best(), .x = row};
        sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, row);
        z[i] = row[0];
    }
}

/* ---------------------------------------------------------------------------- problems of a stranger */

static double write_hierarchy(const char *name, double mean)
{
    double z[20], sum = 0;
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "model: {type: hierarchical_gaussian, y: [");
    normals(7, 20, z);
    for (int i = 0; i < 20; i++) {
        double y = floor(1000 * (mean + sqrt(2.0) * z[i])) / 1000;
        sum += y / 20;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.3f", i ? ", " : "", y);
    }
    (void)snprintf(text + used, sizeof text - used, "]}\nobjective: mmle\nsettings: explicit\n");
    write_file(name, text);
    return sum;
}

/* 20 rows with mean 40: rate times iterations does not reach that far. */
static void theta_that_has_not_arrived_says_so(void **state)
{
    (void)write_hierarchy("far.yaml", 40);
    static const char *const how[] = {
        "run far.yaml --out far --overwrite",
        "run far.yaml --out far --overwrite --set kernel.type=ula --set optimiser.rate=0.01"};
    for (int i = 0; i < 2; i++) {
        const char *said = says(0, how[i]);
        assert_contains(said, "verdict: not converged");
        assert_contains(said, "theta has not converged: a Newton step would still gain");
        assert_contains(said, "take more iterations or a larger rate");
        json_t *s = summary_of("far");
        assert_string_equal(status_of(s), "not_converged");
        assert_true(reproached(s, "theta has not converged"));
        json_decref(s);
        char *page = page_of("far");
        const char *verdict = strstr(page, "<b>Not converged</b>"), *reason = strstr(page, "theta has not converged"),
                   *heading = strstr(page, "<h2");
        assert_true(verdict && reason && heading && verdict < reason && reason < heading);
        free(page);
    }
}

/* The same model with a mean that can be reached has its errors and its interval, and nothing speaks against it. */
static void theta_that_has_arrived_has_its_error(void **state)
{
    double mean = write_hierarchy("near.yaml", 2), sd = sqrt(2.0 / 20);
    const char *said = says(0, "run near.yaml --out near --strict");
    assert_null(strstr(said, "warning"));
    assert_contains(said, "hierarchical_gaussian, mmle, by sosmc, mala, adam\n");
    assert_contains(said, "Monte Carlo error 0.00");
    assert_contains(said, "standard error 0.3");
    assert_contains(said, "verdict: converged\n");
    json_t *s = summary_of("near");
    double theta = first_of(s, "theta"), noise = first_of(s, "theta_mc_error");
    assert_true(noise > 0 && noise < 0.02);
    assert_true(fabs(theta - mean) < 5 * noise);
    assert_near(first_of(s, "theta_standard_error"), sd, 0.03);
    assert_near(first_of(s, "theta_low"), theta - 1.96 * sd, 0.06);
    assert_near(first_of(s, "theta_high"), theta + 1.96 * sd, 0.06);
    assert_string_equal(status_of(s), "converged");
    assert_int_equal(json_array_size(json_object_get(s, "warnings")), 0);
    /* log p(y) of 20 observations N(theta, 2) is known */
    assert_string_equal(json_string_value(json_object_get(s, "loss_from")), "exact");
    assert_true(number(s, "loss") == -number(s, "log_z") && number(s, "loss_error") == 0);
    assert_near(number(s, "aic"), 2 + 2 * number(s, "loss"), 1e-9);
    assert_near(number(s, "bic"), log(20) + 2 * number(s, "loss"), 1e-9);
    json_decref(s);
    char *page = page_of("near");
    assert_contains(page, "<b>Converged</b>");
    assert_contains(page, "Monte Carlo error");
    assert_contains(page, "95 % interval");
    free(page);
}

static void write_logistic(void)
{
    enum { ROWS = 300, FEATURES = 4 };
    static char text[40000];
    double z[ROWS * (FEATURES + 1)];
    static const double slope[FEATURES] = {1, -0.5, 2, 0};
    normals(3, ROWS * (FEATURES + 1), z);
    size_t used = (size_t)snprintf(text, sizeof text, "a,b,c,d,y\n");
    for (int i = 0; i < ROWS; i++) {
        const double *x = z + i * (FEATURES + 1);
        double linear = 0.3 + 1.7 * x[FEATURES]; /* a logistic noise has this standard deviation, nearly */
        for (int j = 0; j < FEATURES; j++) linear += slope[j] * x[j];
        used += (size_t)snprintf(text + used, sizeof text - used, "%.5f,%.5f,%.5f,%.5f,%d\n", x[0], x[1], x[2], x[3],
                                 linear > 0);
    }
    write_file("table.csv", text);
    write_file("logistic.yaml", "model: {type: logistic_regression, data: table.csv, label: y}\nobjective: mmle\n"
                                "settings: explicit\noutput: {report: false}\n");
}

/* A step far beyond what the potential bears: the running loss is off by a thousand, the judged one is not, and the step is
 * named. check and run speak alike. */
static void a_collapsing_regression_tells_a_judged_loss(void **state)
{
    write_logistic();
    const char *said = says(0, "run logistic.yaml --out old --set kernel.type=ula --set kernel.step=0.05 "
                               "--set optimiser.rate=0.01 --seed 1");
    assert_contains(said, "warning: kernel.step is 0.05, ");
    assert_contains(said, "verdict: not converged");
    json_t *s = summary_of("old");
    double told = number(s, "loss"), running = number(json_object_get(s, "last_iteration"), "loss");
    assert_string_equal(json_string_value(json_object_get(s, "loss_from")), "judged");
    assert_true(number(s, "loss_error") > 0 && number(s, "loss_error") < 0.1);
    assert_true(fabs(running - told) > 5);
    assert_true(warned(s, "kernel.step is 0.05, "));
    json_decref(s);
    const char *checked = says(0, "check logistic.yaml --set kernel.type=ula --set kernel.step=0.05");
    assert_contains(checked, "not known  weights: "); /* of a right model: a few paths carry the mean */
    assert_contains(checked, "warn  step: kernel.step is 0.05, ");
    assert_null(strstr(checked, "all is well"));
}

/* Weights that a few particles carry for long: the groups that give theta its error die out again and again. */
static void starved_weights_are_named(void **state)
{
    (void)write_hierarchy("wild.yaml", 2);
    const char *said = says(5,
                            "run wild.yaml --out wild --set kernel.type=ula --set kernel.step=0.5 --set particles=200 "
                            "--set iterations=300 --set optimiser.rate=0.05 --set output.report=false --strict");
    assert_contains(said, "the error of theta is not to be trusted: ");
    assert_contains(said, "the groups of particles behind it died out ");
    assert_contains(said, " observed iterations; take more particles or a smaller rate");
}

/* L = 2 for y ~ N(x, 1), x ~ N(theta, 1): 0.5 / L is 0.25. Both sides of it, for run and check, and with momentum. */
static void steps_are_held_against_the_curvature(void **state)
{
    (void)write_hierarchy("flat.yaml", 1);
    static const struct {
        const char *kernel;
        int warns;
    } cases[] = {{"{type: ula, step: 0.24}", 0},         {"{type: ula, step: 0.26}", 1},
                 {"{type: underdamped, step: 0.70}", 0}, {"{type: underdamped, step: 0.72}", 1},
                 {"{type: leapfrog, step: 0.72}", 1},    {"{type: mala, step: 0.9}", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048], *file = NULL;
        size_t size;
        assert_int_equal(files_read(folder_path(folder, "flat.yaml"), 4096, &file, &size, ERROR), 0);
        (void)snprintf(text, sizeof text, "%skernel: %s\noutput: {report: false}\nparticles: 100\niterations: 50\n",
                       file, cases[i].kernel);
        free(file);
        write_file("step.yaml", text);
        const char *said = says(0, "run step.yaml --out step --overwrite");
        assert_int_equal(strstr(said, "warning: kernel.step is") != NULL, cases[i].warns);
        json_t *s = summary_of("step");
        assert_int_equal(warned(s, "kernel.step is"), cases[i].warns);
        json_decref(s);
        said = says(0, "check step.yaml");
        assert_int_equal(strstr(said, "warn  step: kernel.step is") != NULL, cases[i].warns);
        assert_int_equal(strstr(said, "no check failed, but see the warning") != NULL, cases[i].warns);
    }
}

/* Three modes, a reward on one side: the running loss may fall below what any density can have, the told one cannot. */
static void no_loss_is_better_than_the_best(void **state)
{
    write_file("three.yaml", "model: {type: gaussian_mixture, means: [[-1, -1], [1, -1], [0, 1]], variance: 0.5}\n"
                             "objective: {type: reward_reverse, reward: {type: half_plane, normal: [0, -1], offset: "
                             "0.2}, beta: 0.25}\noutput: {report: false}\n");
    for (int seed = 0; seed < 3; seed++) {
        char command[128];
        (void)snprintf(command, sizeof command, "run three.yaml --out three%d --seed %d", seed, seed);
        const char *said = says(0, command);
        assert_contains(said, "loss -0.");
        assert_contains(said, " (quadrature)\n");
        assert_contains(said, "the best loss of all densities is");
        (void)snprintf(command, sizeof command, "three%d", seed);
        json_t *s = summary_of(command);
        assert_string_equal(json_string_value(json_object_get(s, "loss_from")), "quadrature");
        assert_true(number(s, "loss") > number(s, "best_loss"));
        assert_true(number(s, "loss_error") < 0.01);
        json_decref(s);
    }
}

/* Where exact values were asked for, they are what is told, at the estimate of theta; the particles' own are not printed beside
 * them. */
static void exact_values_come_first(void **state)
{
    write_file("asked.yaml", "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, eps: 1.0e-9}\n"
                             "objective: {type: reward_reverse, reward: \"exp(-(x1 - 3)^2)\", beta: 0.25}\n"
                             "evaluate: {every: 50, nodes: 200, low: -8, high: 8}\niterations: 200\n");
    const char *said = says(0, "run asked.yaml --out asked");
    json_t *s = summary_of("asked"), *exact = json_object_get(s, "evaluated");
    assert_true(json_is_number(json_object_get(exact, "ref_reward")) &&
                !json_object_get(exact, "loss")); /* a run has one */
    char words[64];
    (void)snprintf(words, sizeof words, "loss %.6g", number(s, "loss"));
    assert_contains(said, words);
    (void)snprintf(words, sizeof words, "loss %.6g", number(json_object_get(s, "last_iteration"), "loss"));
    assert_null(strstr(said, words));
    json_decref(s);
    char *page = page_of("asked");
    assert_contains(page, "loss (quadrature)");
    assert_null(strstr(page, "final loss"));
    free(page);
}

/* Behind an edge that cuts the model off the lattice is not believed. */
static void a_box_that_is_too_small_is_named(void **state)
{
    const char *said = says(0, "run asked.yaml --out cut --set evaluate.high=3 --set output.report=false");
    assert_contains(said, "warning: the exact values are cut off and not told");
    json_t *s = summary_of("cut");
    assert_string_equal(json_string_value(json_object_get(s, "loss_from")), "judged");
    assert_true(number(s, "loss_error") > 0);
    json_decref(s);
}

/* theta.npy and the summary have the estimate; the last iterate and the average that the run kept stay beside it. */
static void the_estimate_is_what_is_told(void **state)
{
    char command[512];
    (void)snprintf(command, sizeof command,
                   "run %s/../examples/hierarchical.yaml --out average --set output.report=false",
                   getenv("SOSMC_TEST_SOURCE"));
    const char *said = says(0, command);
    json_t *s = summary_of("average");
    double told = first_of(s, "theta");
    const json_t *last = json_object_get(s, "last_iteration");
    assert_near(first_of(last, "theta"), 1.26046, 1e-5);
    assert_near(first_of(last, "theta_average"), 1.25234, 1e-5);
    assert_true(fabs(told - 1.25) < 5 * first_of(s, "theta_mc_error") && told != first_of(last, "theta_average"));
    char words[64];
    (void)snprintf(words, sizeof words, "theta %.6g, Monte Carlo error", told);
    assert_contains(said, words);
    json_decref(s);
    npy_array stored = {0};
    assert_int_equal(npy_read(folder_path(folder, "average/theta.npy"), &stored, ERROR), 0);
    assert_true(*(const double *)stored.data == told);
    npy_free(&stored);
}

/* One chain without weights has neither an effective sample size nor, under ula, an acceptance. */
static void what_does_not_exist_is_not_shown(void **state)
{
    char command[512];
    (void)snprintf(command, sizeof command, "run %s/../examples/soul.yaml --out soul --set iterations=40",
                   getenv("SOSMC_TEST_SOURCE"));
    const char *said = says(0, command);
    assert_null(strstr(said, "ESS"));
    assert_null(strstr(said, "acceptance"));
    json_t *s = summary_of("soul");
    assert_true(json_is_null(json_object_get(s, "ess")));
    assert_true(json_is_null(json_object_get(s, "acceptance")));
    json_decref(s);
    char *page = page_of("soul");
    assert_null(strstr(page, "ESS"));
    assert_null(strstr(page, "Mean acceptance"));
    free(page);
}

/* Where nothing is optimised there is no theta to tell. */
static void samples_have_no_theta(void **state)
{
    write_file("sample.yaml", "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
                              "objective: {type: anneal, steps: 50}\niterations: 60\n"
                              "kernel: {type: mala, step: 0.2}\n"
                              "output: {report: false}\n");
    const char *said = says(0, "run sample.yaml --out sample --strict");
    assert_null(strstr(said, "theta"));
    assert_contains(said, "log Z 1.1447");
}

/* A first cloud that its weights nearly empty. */
static void first_weights_that_leave_nothing_are_named(void **state)
{
    write_file("first.yaml", "model: {type: hierarchical_gaussian, y: [30, 31, 29, 30, 32, 28]}\nobjective: mmle\n"
                             "init: {type: normal}\nkernel: {type: mala, step: 0.2}\noptimiser: {rate: 0.01}\n"
                             "iterations: 30\noutput: {report: false}\n");
    const char *said = says(0, "run first.yaml --out first");
    assert_contains(said, "the initial law does not cover the target: its first weights leave 0.0");
    assert_contains(said, "take a wider initial law or more particles");
}

static int set_up(void **state) { return folder_make(folder, "first_screen") || program_furnish(folder); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theta_that_has_not_arrived_says_so),
        cmocka_unit_test(theta_that_has_arrived_has_its_error),
        cmocka_unit_test(a_collapsing_regression_tells_a_judged_loss),
        cmocka_unit_test(starved_weights_are_named),
        cmocka_unit_test(steps_are_held_against_the_curvature),
        cmocka_unit_test(no_loss_is_better_than_the_best),
        cmocka_unit_test(exact_values_come_first),
        cmocka_unit_test(a_box_that_is_too_small_is_named),
        cmocka_unit_test(the_estimate_is_what_is_told),
        cmocka_unit_test(what_does_not_exist_is_not_shown),
        cmocka_unit_test(samples_have_no_theta),
        cmocka_unit_test(first_weights_that_leave_nothing_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
