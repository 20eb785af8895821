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
#include "files/files.h"
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

/* A number of an array file; `member` NULL: NAME.npy. */
static npy_array array_of(const char *name, const char *member)
{
    npy_array a;
    char error[256];
    if (member ? npz_read(at(name), member, &a, error, sizeof error) : npy_read(at(name), &a, error, sizeof error))
        fail_msg("%s", error);
    return a;
}

/* Points that are a thousand times as wide in one coordinate are fitted by the same network: its density in their units is a thousandth
 * everywhere. With --scaled both have the numbers of the fit, and say what is between the two. */
static void units_are_those_of_the_data(void **state)
{
    double data[2] = {0}, fit[2] = {0}, shift[2];
    for (int k = 0; k < 4; k++) {
        char dir[8];
        (void)snprintf(dir, sizeof dir, "u%d", k);
        write_points("points.csv", 200, k % 2 ? 1000 : 1, k % 2 ? 30 : 0);
        const char *screen = program_says(scratch, 0, "train points.csv " SHORT "--out %s%s", dir,
                                          k < 2 ? "" : " --scaled");
        assert_contains(screen,
                        k < 2 ? "in the units of the data; x1 is a, x2 is b\n" : "in the units of the fit (scaling in");
        json_t *summary = summary_of(dir), *scaling = json_object_get(summary, "scaling");
        double volume = log(item(scaling, "factor", 0)) + log(item(scaling, "factor", 1));
        assert_near(item(scaling, "centre", 0), k % 2 ? 1030 : 1, k % 2 ? 100 : 0.1);
        assert_near(number_of(scaling, "log_density"), k < 2 ? 0 : volume, 1e-9);
        assert_true(number_of(summary, "loss") == -number_of(summary, "log_likelihood"));
        (k < 2 ? data : fit)[k % 2] = number_of(summary, "log_likelihood");
        shift[k % 2] = volume;
        npy_array x = array_of(k % 2 ? (k < 2 ? "u1/particles.npz" : "u3/particles.npz")
                                     : (k < 2 ? "u0/particles.npz" : "u2/particles.npz"),
                               "x");
        double mean = 0;
        for (int64_t i = 0; i < x.shape[0]; i++) mean += ((const double *)x.data)[2 * i] / (double)x.shape[0];
        assert_near(mean, k >= 2 ? 0 : k ? 1030 : 1, k >= 2 ? 0.6 : k ? 200 : 0.2);
        npy_free(&x);
        char page[32];
        (void)snprintf(page, sizeof page, "%s/report.html", dir);
        char *report = slurp(page, NULL);
        assert_non_null(strstr(report, k < 2 ? "Units: points and densities are in the units of the data"
                                             : "Units: points and densities are in the units of the fit"));
        free(report);
        json_decref(summary);
    }
    assert_near(fit[1], fit[0], 0.01); /* the scaled points differ in their last digits, and moves with them */
    for (int k = 0; k < 2; k++) assert_near(data[k], fit[k] + shift[k], 1e-9);
    assert_near(shift[1] - shift[0], -log(1000), 1e-5);
}

/* A reward in the units of the data, with a column by its name, is the same question as the one that is worked out for the points as they
 * were fitted; the samples are those of the fit, moved and stretched; log Z differs by the volume; a reward of the wrong units differs. */
static void rewards_are_in_the_units_of_the_data(void **state)
{
    char other[160];
    write_points("points.csv", 200, 30, 7);
    (void)program_says(scratch, 0, "train points.csv " PLAIN "--out k --quiet");
    json_t *trained = summary_of("k"), *scaling = json_object_get(trained, "scaling");
    double centre[2], factor[2];
    for (size_t j = 0; j < 2; j++) {
        centre[j] = item(scaling, "centre", j);
        factor[j] = item(scaling, "factor", j);
    }
    (void)snprintf(other, sizeof other, "x1>%.17g", factor[0] * (40 - centre[0]));
    (void)program_says(
        scratch, 0,
        "sample k/model.safetensors --particles 500 --reward a>40 --set output.report=false --out d --quiet");
    (void)program_says(
        scratch, 0,
        "sample k/model.safetensors --particles 500 --scaled --reward %s --set output.report=false --out s --quiet",
        other);
    json_t *data = summary_of("d"), *fit = summary_of("s");
    assert_true(number_of(data, "reward") > 0.05 && number_of(data, "reward") < 0.95);
    assert_near(number_of(data, "reward"), number_of(fit, "reward"), 1e-9);
    assert_near(number_of(data, "log_z"), number_of(fit, "log_z") - log(factor[0]) - log(factor[1]), 1e-9);
    npy_array x = array_of("d/samples.npy", NULL), y = array_of("s/samples.npy", NULL);
    const double *a = x.data, *b = y.data;
    assert_true(x.shape[0] == 500 && y.shape[0] == 500);
    for (int64_t i = 0; i < 1000; i++) assert_near(a[i], centre[i % 2] + b[i] / factor[i % 2], 1e-9);
    npy_free(&x);
    npy_free(&y);
    /* run files of earlier versions, which had no such key */
    char *former = slurp("d/run.yaml", NULL), *key = strstr(former, "  units: data\n");
    assert_non_null(key);
    memmove(key, key + strlen("  units: data\n"), strlen(key + strlen("  units: data\n")) + 1);
    write_text("former.yaml", former);
    assert_contains(program_says(scratch, 0, "run former.yaml --print"), "  units: scaled\n");
    free(former);
    /* tuned by steps of its own from particles of its own: the files between the runs are in the units of the data too */
    for (int k = 0; k < 2; k++)
        (void)program_says(scratch, 0,
                           "tune k/model.safetensors --reward %s --beta 0.5 --iterations 3 --particles 40 --set "
                           "output.report=false --set evaluate.nodes=40 --out t%d --quiet%s",
                           k ? other : "a>40", k, k ? " --scaled" : "");
    json_t *tuned = summary_of("t0"), *same = summary_of("t1");
    assert_near(number_of(tuned, "reward"), number_of(same, "reward"), 1e-9);
    assert_near(number_of(tuned, "loss"), number_of(same, "loss"), 1e-9);
    assert_near(number_of(tuned, "log_z"), number_of(same, "log_z") - log(factor[0]) - log(factor[1]), 1e-9);
    assert_contains(
        program_says(scratch, 0,
                     "sample t0/model.safetensors --particles 300 --reward b>0 --set output.report=false --out st"),
        "in the units of the data; x1 is a, x2 is b");
    /* lower: below the mean of the points */
    (void)program_says(
        scratch, 0,
        "sample k/model.safetensors --particles 500 --reward lower --set output.report=false --out l --quiet");
    json_t *lower = summary_of("l");
    assert_near(number_of(lower, "reward"), 0.5, 0.25);
    assert_contains(program_says(scratch, 2, "sample k/model.safetensors --reward c>0"),
                    "unknown name 'c'; coordinates are x1 to x2, or the "
                    "names of the columns");
    json_t *all[] = {trained, data, fit, tuned, same, lower};
    for (int i = 0; i < 6; i++) json_decref(all[i]);
}

/* A ring and a blob: tempering, which `sample` takes by itself, has the blob's mass within its error, by quadrature and for every seed;
 * chains are never converged, because nothing checks the masses of what they visit. */
static void modes_have_their_masses(void **state)
{
    static char text[1 << 16];
    size_t used = (size_t)snprintf(text, sizeof text, "east,north\n");
    uint64_t seed = 11;
    for (int i = 0; i < 400; i++) {
        double angle = 6.283185307179586 * uniform(&seed), out = 20 + uniform(&seed) + uniform(&seed);
        int blob = i % 5 == 0;
        double x = blob ? 160 + 4 * (uniform(&seed) + uniform(&seed)) : 100 + out * cos(angle),
               y = blob ? 4 * (uniform(&seed) + uniform(&seed)) : out * sin(angle);
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g,%.17g\n", x, y);
    }
    write_text("ring.csv", text);
    (void)program_says(
        scratch, 0,
        "train ring.csv --hidden 32,32 --set limits.evaluations=2000000 --set output.report=false --out r --quiet");
    (void)program_says(
        scratch, 0,
        "sample r/model.safetensors --chains 50 --steps 20 --reward east>140 --set output.report=false --out chains --quiet");
    json_t *chains = summary_of("chains");
    double mass = number_of(chains, "reward");
    assert_string_equal(json_string_value(json_object_get(chains, "reward_from")), "quadrature");
    assert_true(number_of(chains, "reward_error") < 0.005);
    assert_string_equal(json_string_value(json_object_get(json_object_get(chains, "verdict"), "status")),
                        "not_converged");
    assert_true(mass > 0.1 && mass < 0.4);
    json_decref(chains);
    for (int k = 0; k < 3; k++) {
        (void)program_says(
            scratch, 0,
            "sample r/model.safetensors --reward east>140 --seed %d --set output.report=false --overwrite --out m --quiet",
            k);
        json_t *summary = summary_of("m");
        assert_string_equal(json_string_value(json_object_get(json_object_get(summary, "verdict"), "status")),
                            "converged");
        assert_near(number_of(summary, "reward"), mass, 4 * number_of(summary, "reward_error") + 0.005);
        assert_true(number_of(summary, "reward_error") < 0.02);
        json_decref(summary);
    }
}

/* Names of any letters survive, and only those that a formula can hold stand in one. */
static void odd_columns_have_numbers(void **state)
{
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "\"body \"\"mass\"\" (kg)\",mean\n");
    uint64_t seed = 3;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g,%.17g\n", uniform(&seed), uniform(&seed));
    write_text("odd.csv", text);
    assert_contains(program_says(scratch, 0, "train odd.csv " PLAIN "--no-standardise --out o"),
                    "; x1 is body \"mass\" (kg), x2 is mean\n");
    (void)program_says(
        scratch, 0,
        "sample o/model.safetensors --particles 300 --reward mean-x2+x1*0 --set output.report=false --out so --quiet");
    json_t *summary = summary_of("so");
    assert_true(number_of(summary, "reward") == 0); /* the column, not the mean of the coordinates */
    json_decref(summary);
}

static void columns_that_may_be_identifiers_are_named(void **state)
{
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "height,id\n");
    uint64_t seed = 3;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g,%d\n", uniform(&seed), i);
    write_text("id.csv", text);
    assert_contains(
        program_says(scratch, 0, "train id.csv " PLAIN "--out id"),
        "column 2 of id.csv has a different whole number in every row; if it is an identifier, leave it out");
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
        cmocka_unit_test(units_are_those_of_the_data),
        cmocka_unit_test(rewards_are_in_the_units_of_the_data),
        cmocka_unit_test(modes_have_their_masses),
        cmocka_unit_test(odd_columns_have_numbers),
        cmocka_unit_test(columns_that_may_be_identifiers_are_named),
        cmocka_unit_test(few_points_are_no_measure),
        cmocka_unit_test(held_out_points_that_are_less_likely),
        cmocka_unit_test(equal_points_are_refused),
        cmocka_unit_test(columns_without_spread_are_named),
    };
    return cmocka_run_group_tests(tests, furnish, scratch_remove);
}
