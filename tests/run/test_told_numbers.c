/* test_told_numbers.c: numbers that a run leaves and that follow from others: intervals from errors, how many clouds are in the moments, the
 * report of a run that was made longer, and the map of the density on it. gnuplot is a script that keeps what it is told. */
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

#include "assertions.h"
#include "program.h"
#include "scratch.h"
#include "summary.h"

#define MIXTURE                                                                    \
    "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"   \
    "objective: {type: reward_reverse, reward: \"exp(-(x1 - 3)^2)\", beta: 0.5}\n" \
    "kernel: {type: mala, step: 0.1}\noptimiser: {type: adam, rate: 0.05}\nparticles: 100\nevaluate: {every: 0}\n"

static double item(const json_t *summary, const char *key, size_t k)
{
    const json_t *v = json_array_get(json_object_get(summary, key), k);
    if (!json_is_number(v)) fail_msg("%s has no number", key);
    return json_number_value(v);
}

/* Student's 97.5 % quantile with 15 degrees of freedom: sixteen groups. */
static void intervals_follow_from_errors(void **state)
{
    write_text("run.yaml", MIXTURE "iterations: 200\noutput: {report: false}\n");
    (void)program_says(scratch, 0, "run run.yaml --out interval --quiet");
    json_t *summary = summary_of("interval");
    for (size_t k = 0; k < 2; k++) {
        double theta = item(summary, "theta", k), error = item(summary, "theta_mc_error", k);
        assert_close(item(summary, "theta_high", k) - theta, 2.13145 * error, 1e-6);
        assert_close(theta - item(summary, "theta_low", k), 2.13145 * error, 1e-6);
    }
    json_decref(summary);
}

/* Iterations 3, 5, 7, 9 of ten. */
static void moments_count_their_clouds(void **state)
{
    write_text("run.yaml",
               MIXTURE "iterations: 10\njudge: none\noutput: {report: false, moments_from: 3, moments_every: 2}\n");
    (void)program_says(scratch, 0, "run run.yaml --out moments --quiet");
    json_t *summary = summary_of("moments");
    assert_int_equal(json_integer_value(json_object_get(summary, "moments_clouds")), 4);
    json_decref(summary);
}

static void a_longer_run_has_a_new_report(void **state)
{
    write_text("run.yaml", MIXTURE "iterations: 1234\njudge: none\n");
    (void)program_says(scratch, 0, "run run.yaml --out longer --quiet");
    char *before = slurp("longer/report.html", NULL);
    assert_contains(before, "1234");
    (void)program_says(scratch, 0, "run run.yaml --out longer --quiet --resume --iterations 1345");
    char *after = slurp("longer/report.html", NULL);
    assert_contains(after, "1345");
    free(before);
    free(after);
}

/* Over the box of the particles the density is largest near a mode and next to nothing in the corners. */
static void the_map_of_the_density(void **state)
{
    write_text("run.yaml", MIXTURE "iterations: 5\njudge: none\n");
    (void)program_says(scratch, 0, "run run.yaml --out map --quiet");
    char *scripts = slurp("scripts.txt", NULL), *block = strstr(scripts, "$heat0 << EOD\n");
    assert_non_null(block);
    block = strchr(block, '\n') + 1;
    char *end = strstr(block, "EOD");
    assert_non_null(end);
    double most = 0, corner = strtod(block, NULL);
    for (char *p = block; p < end;) {
        char *next;
        most = fmax(most, strtod(p, &next));
        p = next > p ? next : p + 1;
        while (p < end && (*p == ' ' || *p == '\n')) p++;
    }
    assert_true(most == 1); /* densities are compared by shape */
    assert_true(corner < 0.01);
    free(scripts);
}

static int furnish(void **state)
{
    char path[2 * FOLDER_ROOM + 64], script[2 * FOLDER_ROOM];
    if (scratch_make(state)) return -1;
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\ncat >>%s\necho '<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>'\n", at("scripts.txt"));
    write_text("gnuplot", script);
    const char *before = getenv("PATH");
    (void)snprintf(path, sizeof path, "%s:%s", scratch, before ? before : "/usr/bin:/bin");
    return chmod(at("gnuplot"), 0755) || setenv("PATH", path, 1) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_of_the_density), cmocka_unit_test(intervals_follow_from_errors),
        cmocka_unit_test(moments_count_their_clouds), cmocka_unit_test(a_longer_run_has_a_new_report)};
    return cmocka_run_group_tests(tests, furnish, scratch_remove);
}
