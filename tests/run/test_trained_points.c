/* test_trained_points.c: what `sosmc train` tells of a user's points beside its numbers: their units, whether any were held out and what
 * follows where none or few are, points that no density can describe. Most runs are ended at once: the words do not hang on how long
 * they took. gnuplot is a script that draws nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sosmc/sosmc.h>

#include "assertions.h"
#include "program.h"
#include "scratch.h"
#include "summary.h"

#define SHORT "--hidden 8 --particles 128 --set limits.evaluations=10000 "
#define PLAIN SHORT "--set output.report=false "

/* ---------------------------------------------------------------------------- points, and what is told of them */

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Triangular noise: no two rows are the same. `factor` times the numbers, plus `centre`. */
static void write_points(const char *name, int rows, double factor, double centre)
{
    static char text[1 << 18];
    size_t used = (size_t)snprintf(text, sizeof text, "a,b\n");
    uint64_t state = 5;
    for (int i = 0; i < rows; i++) {
        double a = uniform(&state) + uniform(&state), b = uniform(&state) - uniform(&state);
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g,%.17g\n", centre + factor * a, centre + b);
    }
    write_text(name, text);
}

static double number_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("%s has no number", key);
    return json_number_value(v);
}

static double item(const json_t *o, const char *key, size_t k)
{
    return json_number_value(json_array_get(json_object_get(o, key), k));
}

/* ---------------------------------------------------------------------------- units */

/* Points that are a thousand times as wide in one coordinate are fitted by the same network; in their own units its density is a thousandth
 * everywhere. */
static void units_are_told(void **state)
{
    double told[2], shift[2];
    for (int k = 0; k < 2; k++) {
        char dir[8], sentence[256];
        (void)snprintf(dir, sizeof dir, "u%d", k);
        write_points("points.csv", 200, k ? 1000 : 1, k ? 30 : 0);
        char *screen = strdup(program_says(scratch, 0, "train points.csv " SHORT "--out %s", dir));
        json_t *summary = summary_of(dir), *scaling = json_object_get(summary, "scaling");
        assert_non_null(screen);
        told[k] = number_of(summary, "log_likelihood");
        shift[k] = number_of(scaling, "log_density");
        assert_near(shift[k], log(item(scaling, "factor", 0)) + log(item(scaling, "factor", 1)), 1e-9);
        assert_near(item(scaling, "centre", 0), k ? 1030 : 1, k ? 100 : 0.1);
        (void)snprintf(
            sentence, sizeof sentence,
            "the points were scaled to mean 0 and standard deviation 2; in their own units every log-density is "
            "%.6g %s",
            fabs(shift[k]), shift[k] < 0 ? "lower" : "higher");
        assert_contains(screen, sentence);
        free(screen);
        char page[32];
        (void)snprintf(page, sizeof page, "u%d/report.html", k);
        char *report = slurp(page, NULL);
        char *paragraph = strstr(report, "Units: "); /* the table of the summary has the sentence too */
        assert_non_null(paragraph);
        assert_memory_equal(paragraph + strlen("Units: "), sentence, strlen(sentence));
        free(report);
        json_decref(summary);
    }
    assert_near(told[1], told[0], 0.01); /* the scaled points differ in their last digits, and moves with them */
    assert_near(shift[1] - shift[0], -log(1000), 1e-5);
    assert_true(shift[0] > 0 && shift[1] < 0); /* both words were seen */
}

/* The network keeps the units, through a tuning too, and a sample of it says that it is in them. */
static void samples_know_their_units(void **state)
{
    static const char *const models[] = {"k/model.safetensors", "t/model.safetensors"};
    write_points("points.csv", 200, 3, 7);
    (void)program_says(scratch, 0, "train points.csv " PLAIN "--out k --quiet");
    (void)program_says(scratch, 0,
                       "tune k/model.safetensors --reward lower --beta 0.5 --iterations 3 --particles 40 --set "
                       "output.report=false --set evaluate.nodes=20 --out t --quiet");
    json_t *trained = summary_of("k");
    for (int i = 0; i < 2; i++) {
        assert_contains(
            program_says(scratch, 0, "sample %s --smc --chains 30 --set output.report=false --out s%d", models[i], i),
            "a point x is centre + x / factor");
        char dir[8];
        (void)snprintf(dir, sizeof dir, "s%d", i);
        json_t *sampled = summary_of(dir), *there = json_object_get(sampled, "scaling"),
               *here = json_object_get(trained, "scaling");
        for (size_t j = 0; j < 2; j++) {
            assert_near(item(there, "centre", j), item(here, "centre", j), 1e-12);
            assert_near(item(there, "factor", j), item(here, "factor", j), 1e-12);
        }
        json_decref(sampled);
    }
    json_decref(trained);
}

static void points_as_they_are_have_no_other_units(void **state)
{
    write_points("points.csv", 200, 1, 0);
    char *screen = strdup(program_says(scratch, 0, "train points.csv --no-standardise " PLAIN "--out n"));
    json_t *summary = summary_of("n");
    assert_non_null(screen);
    assert_null(json_object_get(summary, "scaling"));
    assert_null(strstr(screen, "units"));
    free(screen);
    json_decref(summary);
}

/* ---------------------------------------------------------------------------- points that are held out */

static int warns(const json_t *summary, const char *words)
{
    const json_t *warnings = json_object_get(summary, "warnings");
    for (size_t i = 0; i < json_array_size(warnings); i++)
        if (strstr(json_string_value(json_array_get(warnings, i)), words)) return 1;
    return 0;
}

static void few_points_are_no_measure(void **state)
{
    static const struct {
        int rows, warned;
        const char *options, *why;
    } tests[] = {{49, 1, "", "none of the 49 points was held out (objective.held_out; train holds out a tenth of 50"},
                 {50, 0, "", NULL},
                 {49, 0, " --set objective.held_out=0.3", NULL},
                 {50, 0, " --set objective.held_out=0", "none of the 50 points was held out (objective.held_out)"}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        char dir[8];
        (void)snprintf(dir, sizeof dir, "f%zu", i);
        write_points("points.csv", tests[i].rows, 1, 0);
        char *screen = strdup(program_says(scratch, 0, "train points.csv " PLAIN "--out %s%s", dir, tests[i].options));
        json_t *summary = summary_of(dir);
        const char *why = json_string_value(json_object_get(summary, "held_out_why"));
        assert_non_null(screen);
        assert_int_equal(warns(summary, "says nothing about new points"), tests[i].warned);
        assert_int_equal(strstr(screen, "says nothing about new points") != NULL, tests[i].warned);
        assert_int_equal(why != NULL, tests[i].why != NULL);
        if (tests[i].why) {
            assert_contains(why, tests[i].why);
            assert_contains(screen, tests[i].why);
            assert_true(json_is_null(json_object_get(summary, "held_out")));
        } else {
            (void)number_of(summary, "held_out");
        }
        free(screen);
        json_decref(summary);
    }
}

enum { HELD_ROWS = 240 };

/* The rows that a seed holds out lie farther out, by `shift`. */
static void write_shifted(uint64_t seed, double share, double shift)
{
    static char text[1 << 16];
    size_t used = 0;
    uint64_t state = 11;
    sosmc_rng name = {.seed = seed, .stream = SOSMC_STREAM_USER + 1}; /* STREAM_HELD_OUT */
    for (int i = 0; i < HELD_ROWS; i++) {
        double u, a = uniform(&state) - uniform(&state), b = uniform(&state) - uniform(&state);
        sosmc_batch one = {.simd = sosmc_simd_best(), .dim = 1, .n = 1, .ld = 1, .first = i};
        sosmc_uniforms(name, 0, &one, &u);
        double times = u <= share ? 1 + shift : 1;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g,%.17g\n", times * a, times * b);
    }
    write_text("points.csv", text);
}

/* The warning is given above three standard errors of the held-out mean, as the guide has it, and not below. */
static void held_out_points_that_are_less_likely(void **state)
{
    int below = 0, above = 0;
    for (int k = 0; k < 16; k++) {
        char dir[8];
        (void)snprintf(dir, sizeof dir, "h%d", k);
        write_shifted(3, 0.2, 0.05 * k);
        (void)program_says(
            scratch, 0,
            "train points.csv --no-standardise " PLAIN "--set objective.held_out=0.2 --seed 3 --quiet --out %s", dir);
        json_t *summary = summary_of(dir);
        double gap = number_of(summary, "log_likelihood") - number_of(summary, "held_out"),
               errors = gap / number_of(summary, "held_out_spread");
        assert_int_equal(warns(summary, "knows its points by heart"), gap > 0.05 && errors > 3);
        below += errors > 2 && errors < 3;
        above += errors > 3 && errors < 4;
        json_decref(summary);
    }
    assert_true(below > 0 && above > 0);
}

/* ---------------------------------------------------------------------------- points that no density describes */

static void equal_points_are_refused(void **state)
{
    static const char *const commands[] = {"train ones.csv --out o", "train ones.csv --no-standardise --out o"};
    write_text("ones.csv", "a,b\n1,1\n1,1\n1,1\n");
    write_text("ones.yaml",
               "model: {type: mlp, inputs: 2, hidden: [8], base: gaussian}\n"
               "objective: {type: ebm_likelihood, data: {type: file, file: ones.csv, standardise: true}}\n");
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(
            program_says(scratch, 4, "%s", commands[i]),
            "sosmc: ones.csv: all of its 3 points are the same, so there is nothing to be learnt from them\n");
    assert_contains(program_says(scratch, 4, "run ones.yaml --out o"),
                    "ones.csv: all of its 3 points are the same, so there is nothing to be learnt from them\n");
}

static void columns_without_spread_are_named(void **state)
{
    char text[4096];
    size_t used = 0;
    uint64_t seed = 2;
    for (int i = 0; i < 60; i++) used += (size_t)snprintf(text + used, sizeof text - used, "%.9g,7\n", uniform(&seed));
    write_text("flat.csv", text);
    char *screen = strdup(program_says(scratch, 0, "train flat.csv " PLAIN "--out c"));
    json_t *summary = summary_of("c");
    assert_non_null(screen);
    assert_contains(
        screen, "warning: column 2 has the same value in all 60 points: a density can be made as large as one likes");
    assert_true(warns(summary, "column 2 has the same value in all 60 points"));
    free(screen);
    json_decref(summary);
}

/* ---------------------------------------------------------------------------- */

static int furnish(void **state)
{
    char path[2 * FOLDER_ROOM + 64];
    if (scratch_make(state)) return -1;
    write_text("gnuplot", "#!/bin/sh\ncat >/dev/null\necho '<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'\n");
    const char *before = getenv("PATH");
    (void)snprintf(path, sizeof path, "%s:%s", scratch, before ? before : "/usr/bin:/bin");
    return chmod(at("gnuplot"), 0755) || setenv("PATH", path, 1) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_told),
        cmocka_unit_test(samples_know_their_units),
        cmocka_unit_test(points_as_they_are_have_no_other_units),
        cmocka_unit_test(few_points_are_no_measure),
        cmocka_unit_test(held_out_points_that_are_less_likely),
        cmocka_unit_test(equal_points_are_refused),
        cmocka_unit_test(columns_without_spread_are_named),
    };
    return cmocka_run_group_tests(tests, furnish, scratch_remove);
}
