/* test_config_assignments.c: --set PATH=VALUE changes a run file as if it had been written there, any number of times;
 * what is wrong with an assignment is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runfile/config.h"
#include "runfile/schema.h"
#include "runtext.h"

/* What setting this on top of a text says. */
static const char *set_complaint(const char *text, const char *assignment)
{
    config *c = runtext_parse(text);
    if (!config_set(c, assignment, runtext_error, sizeof runtext_error) &&
        !config_resolve(c, runtext_error, sizeof runtext_error))
        snprintf(runtext_error, sizeof runtext_error, "nothing is wrong");
    config_free(c);
    return runtext_error;
}

static void assignments(void **state)
{
    static const char *const sets[] = {"kernel.type=mala",
                                       "kernel.step=0.25",
                                       "model.theta=[1, -1]",
                                       "particles=77",
                                       "model.means.1=[5, 6]",
                                       "model.means.1.0=7",
                                       "adapt.factor=1.5",
                                       "adapt.signal=accept",
                                       "adapt.1={factor: 2}",
                                       "optimiser={type: sgd, rate: 1e-3}",
                                       "optimiser.clip=3",
                                       "objective.reward=x1 > 0 ? exp(-x2^2 / 2) : 0",
                                       "objective.reference.theta= [2,2] ",
                                       "optimiser.schedule.type=exponential",
                                       "optimiser.schedule.a=4",
                                       "particles=78",
                                       "init='normal'"};
    int n, rows, cols;
    config *c = runtext_parse(SMALL "kernel: ula\n");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (config_set(c, sets[i], runtext_error, sizeof runtext_error)) fail_msg("%s", runtext_error);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_true(config_number(c, "kernel.step") == 0.25);
    assert_true(config_vector(c, "model.theta", &n)[1] == -1 && n == 2);
    assert_int_equal(config_integer(c, "particles"), 78);
    const double *means = config_matrix(c, "model.means", &rows, &cols);
    assert_true(rows == 2 && means[0] == -1 && means[2] == 7 && means[3] == 6);
    assert_int_equal(config_count(c, "adapt"), 2);
    assert_true(config_number(c, "adapt.0.factor") == 1.5 && config_number(c, "adapt.1.factor") == 2);
    assert_string_equal(config_text(c, "adapt.0.signal"), "accept");
    assert_string_equal(config_text(c, "optimiser.type"), "sgd");
    assert_true(config_number(c, "optimiser.clip") == 3);
    assert_true(config_number(c, "optimiser.schedule.a") == 4);
    assert_string_equal(config_text(c, "objective.reward.formula"), "x1 > 0 ? exp(-x2^2 / 2) : 0");
    assert_string_equal(config_text(c, "init.type"), "normal");
    char *text = runtext_written(c);
    config *again = runtext_resolved(text);
    char *text_again = runtext_written(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    config_free(again);
    config_free(c);
}

/* A type can change back and forth: defaults of the last resolve do not stand in the way. */
static void resolve_again(void **state)
{
    config *c = runtext_resolved(SMALL "kernel: ula\noptimiser: adam\n");
    char *first = runtext_written(c);
    static const char *const there[] = {"kernel.type=hmc", "scheme=pcd", "optimiser.type=sgd",
                                        "objective.type=reward_reverse"};
    static const char *const back[] = {"kernel.type=ula", "scheme=sosmc", "optimiser.type=adam",
                                       "objective.type=reward_forward"};
    for (int i = 0; i < 4; i++) assert_int_equal(config_set(c, there[i], runtext_error, sizeof runtext_error), 0);
    assert_int_equal(config_write(c, stdout), -1);
    runtext_resolve(c);
    assert_int_equal(config_integer(c, "kernel.leapfrog"), 1);
    assert_int_equal(config_has(c, "kernel.noise"), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(config_set(c, back[i], runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    char *second = runtext_written(c);
    assert_string_equal(first, second);
    free(first);
    free(second);
    config_free(c);
}

static void null_returns_the_default(void **state)
{
    config *c = runtext_parse(SMALL "adapt: {}\nseed: 4\nscheme: impdiff");
    assert_int_equal(config_set(c, "adapt=null", runtext_error, sizeof runtext_error), 0);
    assert_int_equal(config_set(c, "seed=~", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    assert_int_equal(config_count(c, "adapt"), 0);
    assert_int_equal(config_unsigned(c, "seed"), 0);
    config_free(c);
}

static void wrong_assignments(void **state)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"kernel.type=mla",
         "--set kernel.type=mla: kernel.type is 'mla'; expected ula, mala, rwm, hmc, underdamped, leapfrog, jitter, myula, mymala or gibbs (did you mean 'ula'?)"},
        {"kernal.step=1", "--set kernal.step=1: unknown key 'kernal'; did you mean 'kernel'?"},
        {"kernel.stp=1", "--set kernel.stp=1: unknown key 'kernel.stp'; did you mean 'kernel.step'?"},
        {"kernel.step=", "--set kernel.step=: there is no value after '='; null stands for the default"},
        {"kernel.step", "--set kernel.step: there is no '='; expected PATH=VALUE, such as kernel.step=0.1"},
        {"=1", "--set =1: the path is empty; expected PATH=VALUE, such as kernel.step=0.1"},
        {"kernel..step=1", "--set kernel..step=1: the path has an empty name"},
        {".step=1", "--set .step=1: the path has an empty name"},
        {"kernel.=1", "--set kernel.=1: the path has an empty name"},
        {"seed.x=1", "nothing is wrong"}, /* seed is not given: a mapping is made, and refused below */
        {"particles.x=1", "--set particles.x=1: 'particles' is not a mapping, so nothing in it can be set"},
        {"model.theta.5=1", "--set model.theta.5=1: the list has 2 items, numbered from 0; '5' is not one of them"},
        {"model.theta.x=1", "--set model.theta.x=1: the list has 2 items, numbered from 0; 'x' is not one of them"},
        {"model.theta=[1, 2", "--set model.theta=[1, 2: not valid YAML: did not find expected ',' or ']'"},
        {"model.theta=[1] 2", "--set model.theta=[1] 2: not valid YAML: did not find expected <document start>"},
        {"seed={seed: *a}", "--set seed={seed: *a}: the alias *a has no anchor &a before it"},
        {"seed=\xff", "--set seed=\xff: not valid UTF-8"},
        {"seed=\n", "--set seed=?: there is no value after '='; null stands for the default"},
        {"model=null", "run.yaml:1: model is missing; expected a mapping of keys to values"},
    };
    const char *text = "model: {type: gaussian_mixture, means: [[1], [2]], theta: [1, 2]}\n"
                       "objective: {type: reward_forward, reward: x1}\nparticles: 7\nsettings: explicit\n";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].set, "seed.x=1"))
            assert_string_equal(set_complaint(text, cases[i].set),
                                "--set seed.x=1: seed is a mapping; expected a whole number from 0 to 2^64 - 1");
        else
            assert_string_equal(set_complaint(text, cases[i].set), cases[i].message);
    }
    assert_string_equal(set_complaint(SMALL "adapt: [{}, {}]", "adapt.factor=2"),
                        "--set adapt.factor=2: the list has 2 items, numbered from 0; 'factor' is not one of them");
    assert_string_equal(set_complaint("{}", "seed=1"),
                        "run.yaml:1: model is missing; expected a mapping of keys to values");
}

/* Other commands build a run file from nothing. */
/* Earlier versions wrote keys into resolved files that nobody reads; what --set asks for is never dropped with them. */
static void what_was_once_written(void **state)
{
    const char *once = SCHEMA_RESOLVED
        "\nmodel: {type: hierarchical_gaussian, y: [1, 2], column: 1}\nobjective: mmle\n";
    const char *bare = SCHEMA_RESOLVED "\nmodel: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\n";
    config_free(runtext_resolved(once));
    const char *said = set_complaint(bare, "model.column=1");
    if (strncmp(said, "--set model.column=1: model.column", 34) != 0) fail_msg("%s", said);
}

static void build_from_nothing(void **state)
{
    config *c = runtext_parse("{}");
    assert_int_equal(
        config_set(c, "model={type: hierarchical_gaussian, y: [1, 2]}", runtext_error, sizeof runtext_error), 0);
    assert_int_equal(config_set(c, "objective.type=mmle", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    config_free(c);
}

static void places(void **state)
{
    char out[200];
    config *c = runtext_parse(SMALL "kernel:\n  type: mala\n");
    assert_int_equal(config_set(c, "particles=5", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    assert_string_equal(config_where(c, "kernel.type", out, sizeof out), "run.yaml:4");
    assert_string_equal(config_where(c, "kernel.step", out, sizeof out),
                        "run.yaml:3"); /* a default: the mapping around it */
    assert_string_equal(config_where(c, "kernel.nothing.at.all", out, sizeof out), "run.yaml:3");
    assert_string_equal(config_where(c, "particles", out, sizeof out), "--set particles=5");
    assert_string_equal(config_where(c, "seed", out, sizeof out), "run.yaml:1");
    assert_int_equal(config_line(c, "particles"), 0);
    assert_int_equal(config_line(c, "kernel"), 3);
    assert_true(isnan(config_number(c, "no.such.key")));
    assert_null(config_text(c, "no"));
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments),
        cmocka_unit_test(resolve_again),
        cmocka_unit_test(null_returns_the_default),
        cmocka_unit_test(wrong_assignments),
        cmocka_unit_test(what_was_once_written),
        cmocka_unit_test(build_from_nothing),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
