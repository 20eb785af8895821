/* test_settings.c: who chooses how a run file is solved: the solver, where the file chooses nothing, or its author. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runfile/config.h"
#include "runfile/schema.h"
#include "runtext.h"

static char error[1024];
#define ERROR error, sizeof error

static void expect(const char *text, const char *settings)
{
    config *c = runtext_resolved(text);
    if (strcmp(config_text(c, "settings"), settings) != 0)
        fail_msg("settings is %s, expected %s of\n%s", config_text(c, "settings"), settings, text);
    runtext_assert_replays(c);
    config_free(c);
}

/* What stands beside these is not chosen. */
static void a_file_that_chooses_nothing(void **state)
{
    expect(SMALL, "automatic");
    expect(TOY, "automatic");
    expect(SMALL "seed: 4\nthreads: 2\nparticles: 256\ninit: normal\noutput: {thin: 5, report: false}\n", "automatic");
    expect(SMALL "precision: 0.01\nlimits: {seconds: 5}\n", "automatic");
    expect(SMALL "kernel: null\niterations: ~\n", "automatic"); /* null takes a key out */
}

/* Every key that only a run with chosen settings reads is a choice; the resolved file of an automatic run has none of them. */
static void a_file_that_chooses_something(void **state)
{
    static const struct {
        const char *path, *text;
    } chosen[] = {{"scheme", SMALL "scheme: sosmc\n"},
                  {"kernel", SMALL "kernel: {}\n"},
                  {"resampling", SMALL "resampling: ssp\n"},
                  {"adapt", SMALL "adapt: []\n"},
                  {"optimiser", SMALL "optimiser: sgd\n"},
                  {"iterations", SMALL "iterations: 100\n"},
                  {"on_nonfinite", SMALL "on_nonfinite: fail\n"},
                  {"on_collapse", SMALL "on_collapse: continue\n"},
                  {"judge", SMALL "judge: none\n"},
                  {"evaluate", SMALL "evaluate: {every: 10}\n"},
                  {"objective.ramp", "model: {type: gaussian_mixture, means: [[0], [1]]}\n"
                                     "objective: {type: reward_reverse, reward: x1, ramp: 3}\n"},
                  {"objective.batch", FIT "{type: circles}\n  batch: 5\n"},
                  {"objective.batches", FIT "{type: circles}\n  batches: epochs\n"},
                  {"objective.reference.batch",
                   "model: {type: gaussian_mixture, means: [[0], [1]]}\n"
                   "objective: {type: reward_forward, reward: x1, reference: {batch: 7}}\n"},
                  {"output.moments_from", SMALL "output: {moments_from: 3}\n"},
                  {"output.moments_every", SMALL "output: {moments_every: 3}\n"}};
    const char *list = schema_chosen;
    char path[PATH_ROOM];
    size_t n = 0;
    config *automatic = runtext_resolved(SMALL);
    for (; schema_word(&list, path, sizeof path); n++) {
        assert_true(n < sizeof chosen / sizeof *chosen);
        assert_string_equal(chosen[n].path, path);
        expect(chosen[n].text, "explicit");
        assert_false(config_has(automatic, path));
    }
    assert_int_equal(n, sizeof chosen / sizeof *chosen);
    config_free(automatic);
}

/* Networks and pictures are beyond the solver, and where nothing is optimised there is nothing to solve. */
static void what_the_solver_does_not_do(void **state)
{
    expect("model: {type: mlp}\nobjective: {type: ebm_likelihood, data: a.csv}\n", "explicit");
    expect("model: {type: network, layers: mnist}\nobjective: none\n", "explicit");
    expect("model: {type: stored, file: a.npz}\nobjective: {type: reward_reverse, reward: x1}\n", "automatic");
    expect("model: {type: stored, file: a.npz}\nobjective: {type: reward_forward, reward: x1}\n", "explicit");
    expect("model: {type: deblur, picture: a.png, noise: 1}\nobjective: mmle\n", "explicit");
    expect("model: {type: gaussian_mixture, means: [[0], [1]]}\nobjective: none\n", "explicit");
    expect("model: {type: gaussian_mixture, means: [[0], [1]]}\nobjective: anneal\n", "explicit");
}

/* ---------------------------------------------------------------------------- assignments */

static const char *assigned(config *c, const char *const *set)
{
    for (; *set; set++) assert_int_equal(config_set(c, *set, ERROR), 0);
    return config_resolve(c, ERROR) ? error : config_text(c, "settings");
}
#define ASSIGNED(c, ...) assigned(c, (const char *const[]){__VA_ARGS__, NULL})

static void nobody_leaves_the_solver_unawares(void **state)
{
    config *c = runtext_resolved(SMALL);
    assert_string_equal(
        ASSIGNED(c, "kernel.type=mala"),
        "--set kernel.type=mala: kernel is decided by the solver, because settings is automatic, as in every "
        "file that chooses nothing; to choose it yourself, set settings to explicit (--set "
        "settings=explicit)");
    assert_string_equal(ASSIGNED(c, "settings=explicit"), "explicit");
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_int_equal(config_integer(c, "iterations"), 1000);
    config_free(c);
    c = runtext_resolved(SMALL);
    assert_non_null(strstr(ASSIGNED(c, "output.moments_from=5"), "output.moments_from is decided by the solver"));
    config_free(c);
    assert_string_equal(runtext_complaint(SMALL "settings: automatic\niterations: 5\n"),
                        "run.yaml:4: iterations is decided by the solver, because settings is automatic; to choose it "
                        "yourself, set settings to explicit (--set settings=explicit)");
}

/* A file that has chosen stays so, whatever an assignment does to its choice. */
static void a_choice_may_be_changed(void **state)
{
    config *c = runtext_resolved(SMALL "iterations: 50\n");
    assert_string_equal(ASSIGNED(c, "iterations=7", "kernel=hmc"), "explicit");
    assert_int_equal(config_integer(c, "iterations"), 7);
    assert_string_equal(ASSIGNED(c, "iterations=null"), "explicit");
    assert_string_equal(ASSIGNED(c, "settings=automatic", "kernel=null"), "automatic");
    config_free(c);
}

static void keys_of_the_solver(void **state)
{
    config *c = runtext_resolved(SMALL "limits: {evaluations: 1e9}\n");
    assert_int_equal(config_integer(c, "particles"), 1024);
    assert_true(config_number(c, "limits.seconds") == 0 && config_integer(c, "limits.evaluations") == 1000000000);
    assert_false(config_has(c, "precision"));
    config_free(c);
    assert_string_equal(runtext_complaint(SMALL "precision: 0.1\nkernel: ula\n"),
                        "run.yaml:3: precision applies only when settings is automatic; here it is explicit");
    assert_string_equal(runtext_complaint(SMALL "limits: {seconds: 1}\nsettings: paper\n"),
                        "run.yaml:3: limits applies only when settings is automatic; here it is paper");
    assert_string_equal(runtext_complaint(SMALL "particles: 1000\n"),
                        "run.yaml:3: particles is 1000; expected a multiple of 16 of at least 128, because settings is "
                        "automatic");
    assert_non_null(strstr(runtext_complaint(SMALL "particles: 112\n"), "expected a multiple of 16"));
    assert_non_null(strstr(runtext_complaint(SMALL "settings: auto\n"), "(did you mean 'automatic'?)"));
}

/* ---------------------------------------------------------------------------- the paper's */

static void the_papers_defaults(void **state)
{
    config *c = runtext_resolved(SMALL "settings: paper\n");
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    assert_true(config_number(c, "kernel.step") == 0.05 && config_count(c, "adapt") == 0);
    assert_true(config_number(c, "optimiser.rate") == 0.01);
    assert_string_equal(config_text(c, "optimiser.schedule.type"), "constant");
    assert_string_equal(config_text(c, "resampling.scheme"), "multinomial");
    runtext_assert_replays(c);
    config_free(c);
    c = runtext_resolved("model: {type: deblur, picture: a.png, noise: 1}\nobjective: mmle\nsettings: paper\n");
    assert_string_equal(config_text(c, "kernel.type"), "myula");
    config_free(c);
    c = runtext_resolved(SMALL "settings: paper\nkernel: mala\noptimiser: {rate: 0.3}\n");
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    assert_true(config_number(c, "optimiser.rate") == 0.3);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_chooses_nothing), cmocka_unit_test(a_file_that_chooses_something),
        cmocka_unit_test(what_the_solver_does_not_do), cmocka_unit_test(nobody_leaves_the_solver_unawares),
        cmocka_unit_test(a_choice_may_be_changed),     cmocka_unit_test(keys_of_the_solver),
        cmocka_unit_test(the_papers_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
