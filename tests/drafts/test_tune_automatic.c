/* test_tune_automatic.c: `tune` without settings: which words leave the settings to the run and which choose them; an interrupted
 * tuning goes on to the same state; what a run tells of a network that may be no law. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "job/model_file.h"
#include "program.h"
#include "scratch.h"
#include "summary.h"

enum { WIDTH = 16, PARAMETERS = 2 * WIDTH + WIDTH + WIDTH * WIDTH + WIDTH + WIDTH + 1 };

/* ---------------------------------------------------------------------------- run files */

static void printed(const char *words, int automatic)
{
    char line[512];
    (void)snprintf(line, sizeof line, "tune %s --print", words);
    const char *text = program_says(scratch, 0, line);
    if ((strstr(text, "settings: automatic") != NULL) != automatic)
        fail_msg("%s: settings are %s", line, automatic ? "explicit" : "automatic");
}

static void points_need_no_setting(void **state)
{
    printed("base.npz --reward lower --beta 0.25", 1);
    const char *text = program_says(scratch, 0, "tune base.npz --reward lower --beta 0.25 --print");
    assert_contains(text, "particles: 1024");
    assert_null(strstr(text, "type: normal"));
    text = program_says(scratch, 0, "tune bare.npz --reward lower --beta 0.25 --print");
    assert_contains(text, "settings: automatic");
    assert_contains(text, "type: normal");
    assert_contains(text, "sd: [4]");
    printed("base.npz --reward x1 --beta 1e-3 --particles 256 --seed 3", 1); /* these choose nothing */
    printed("base.npz --reward lower --beta 0.25 --set output.thin=2", 1);
}

static void a_word_that_chooses_is_followed(void **state)
{
    static const char *const words[] = {"--kernel rwm",
                                        "--iterations 20",
                                        "--method impdiff",
                                        "--step 0.01",
                                        "--noise-scale 0.5",
                                        "--rate 1e-3",
                                        "--start chains",
                                        "--paper",
                                        "--forward",
                                        "--set kernel.type=rwm",
                                        "--set evaluate.every=5",
                                        "--set iterations=20",
                                        "--set optimiser.rate=1e-3",
                                        "--set settings=explicit"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        char line[256];
        (void)snprintf(line, sizeof line, "base.npz --reward lower --beta 0.25 %s", words[k]);
        printed(line, 0);
    }
    printed("base.npz --reward lower --beta 0", 0);
}

/* ---------------------------------------------------------------------------- runs */

static const char *text_of(const json_t *s, const char *key)
{
    const char *text = json_string_value(json_object_get(s, key));
    if (!text) fail_msg("%s is no text", key);
    return text;
}

#define TUNE "tune base.npz --reward left --beta 0.25 --particles 128 --set precision=0.01 --quiet "

static void an_interrupted_tuning_goes_on(void **state)
{
    (void)program_says(scratch, 0, TUNE "--out whole");
    (void)program_says(scratch, 0, TUNE "--out parts --budget-seconds 0.05");
    json_t *parts = summary_of("parts"), *whole = summary_of("whole");
    assert_true(json_is_false(json_object_get(parts, "finished")) && json_is_true(json_object_get(whole, "finished")));
    assert_string_not_equal(text_of(parts, "state_hash"), text_of(whole, "state_hash"));
    json_decref(parts);
    (void)program_says(scratch, 0, TUNE "--out parts --resume");
    parts = summary_of("parts");
    assert_string_equal(text_of(parts, "state_hash"), text_of(whole, "state_hash"));
    assert_string_equal(text_of(json_object_get(whole, "verdict"), "status"), "converged");
    json_decref(parts);
    json_decref(whole);
}

/* Judged numbers are told where their errors are smaller than those of a lattice, whose nodes are wide for so quick a reward. */
static void the_better_number_is_told(void **state)
{
    (void)program_says(scratch, 0,
                       "tune base.npz --reward sin(40*x1) --beta 0.25 --set precision=1 --quiet --out quick");
    json_t *s = summary_of("quick");
    assert_int_equal(json_array_size(json_object_get(s, "warnings")),
                     0); /* there are no points, of which few could be learnt by heart */
    const char *const names[] = {"excess", "loss", "reward", "kl", "best_loss"};
    int judged = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s_from", names[k]);
        judged += strcmp(text_of(s, key), "judged") == 0;
        assert_true(isfinite(json_number_value(json_object_get(s, names[k]))));
        (void)snprintf(key, sizeof key, "%s_error", names[k]);
        assert_true(json_number_value(json_object_get(s, key)) < 0.01);
    }
    assert_true(judged > 0);
    print_message("%d of %d numbers are judged\n", judged, (int)(sizeof names / sizeof *names));
    json_decref(s);
}

/* A network without a base whose mass no lattice holds: no number is told, and nothing is called converged. */
static void a_network_that_is_no_law(void **state)
{
    (void)program_says(
        scratch, 0, "tune well.npz --reward left --beta 0.25 --particles 128 --set precision=0.05 --quiet --out well");
    json_t *s = summary_of("well");
    assert_string_equal(text_of(json_object_get(s, "verdict"), "status"), "not_converged");
    const char *const names[] = {"loss", "reward", "kl", "log_z"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char key[64];
        assert_true(json_is_null(json_object_get(s, names[k])));
        (void)snprintf(key, sizeof key, "%s_why", names[k]);
        assert_true(*text_of(s, key) != 0);
    }
    json_decref(s);
}

/* ---------------------------------------------------------------------------- stored networks */

static int store(const char *name, const char *activation, double base_sd, double *theta)
{
    char error[512];
    int width[] = {WIDTH, WIDTH};
    model_file f = {
        .inputs = 2, .hidden_layers = 2, .width = width, .base_sd = base_sd, .parameters = PARAMETERS, .theta = theta};
    (void)snprintf(f.activation, sizeof f.activation, "%s", activation);
    return model_write(at(name), &f, error, sizeof error);
}

/* A well around the origin in a plain that has no end: exp(-U) has no finite integral, though particles stay in the well for long. */
static void dig_well(double *theta)
{
    double *second = theta + 3 * (ptrdiff_t)WIDTH, *bias = second + (ptrdiff_t)WIDTH * WIDTH, *last = bias + WIDTH;
    memset(theta, 0, PARAMETERS * sizeof *theta);
    for (int k = 0; k < 4; k++) { /* four walls */
        theta[2 * k + k / 2] = k % 2 ? -1 : 1;
        theta[2 * WIDTH + k] = 2;
        second[k] = 2;
    }
    bias[0] = -6;
    last[0] = -5;
}

static int furnish(void **state)
{
    double theta[PARAMETERS];
    for (int j = 0; j < PARAMETERS; j++) theta[j] = 0.3 * sin(3.0 * j + 1);
    if (scratch_make(state) || store("base.npz", "silu", 1.5, theta) || store("bare.npz", "silu", 0, theta)) return -1;
    dig_well(theta);
    return store("well.npz", "tanh", 0, theta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_need_no_setting),        cmocka_unit_test(a_word_that_chooses_is_followed),
        cmocka_unit_test(an_interrupted_tuning_goes_on), cmocka_unit_test(the_better_number_is_told),
        cmocka_unit_test(a_network_that_is_no_law),
    };
    return cmocka_run_group_tests(tests, furnish, scratch_remove);
}
