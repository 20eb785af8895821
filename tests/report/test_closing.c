/* test_closing.c: the lines with which a run closes, from an outcome in which every number is unmistakable, read word by word. */
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
#include "report/closing.h"

static double theta[] = {1.25, -2.5}, mc_error[] = {0.011, 0.022}, standard_error[] = {0.33, 0.44}, low[] = {0.5, -3.5},
              high[] = {2.5, -1.5};
static char names[][JOB_NAME] = {"alpha", "b"};

static run_result told_run(void)
{
    run_result r = {.iterations = 77, .seconds = 12.5};
    outcome *o = &r.outcome;
    (void)snprintf(o->model, sizeof o->model, "model_1");
    (void)snprintf(o->objective, sizeof o->objective, "objective_1");
    (void)snprintf(o->method, sizeof o->method, "method_1");
    o->optimises = o->likelihood = o->mmle = o->weighted = o->accepts = 1;
    o->dim_theta = 2;
    o->theta = theta;
    o->name = names;
    o->low = low;
    o->high = high;
    o->judged.theta_mc_error = mc_error;
    o->judged.theta_standard_error = standard_error;
    o->loss = (told){.exists = 1, .value = 101.5, .error = 0.25};
    o->reward = (told){.exists = 1, .from = TOLD_LATTICE, .value = 3.75};
    o->kl = (told){.exists = 1, .value = NAN, .error = NAN, .why = "there is none"};
    o->best_loss = (told){.exists = 1, .from = TOLD_LATTICE, .value = 99.5, .error = 0.125};
    o->best_reward = (told){.exists = 1, .from = TOLD_LATTICE, .value = 4.25, .error = 0.5};
    o->best_kl = (told){.exists = 1, .from = TOLD_LATTICE, .value = 0.75, .error = 0.0625};
    o->excess = (told){.exists = 1, .value = 2.25, .error = NAN, .why = "nobody knows"};
    o->log_z = (told){.exists = 1, .value = 55.5, .error = 0.5};
    o->particles = 640;
    o->iterations = 77;
    o->last = (sosmc_info){.ess = 321, .accept = 0.61};
    o->judged.verdict.status = SOSMC_NOT_CONVERGED;
    return r;
}

static const char *words(const run_result *r)
{
    static char said[4096];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    closing_write(r, "some/di\x1br", out);
    assert_int_equal(fclose(out), 0);
    (void)snprintf(said, sizeof said, "%s", text);
    free(text);
    return said;
}

static void every_number_is_told(void **state)
{
    run_result r = told_run();
    assert_string_equal(words(&r),
                        "77 iterations in 12.50 s\n"
                        "model_1, objective_1, by method_1\n"
                        "alpha 1.25, Monte Carlo error 0.011, standard error 0.33, 95 % from 0.5 to 2.5\n"
                        "b     -2.5, Monte Carlo error 0.022, standard error 0.44, 95 % from -3.5 to -1.5\n"
                        "log-likelihood -101.5 +- 0.25\n"
                        "reward 3.75 (quadrature)\n"
                        "KL: no number, because there is none\n"
                        "the best loss of all densities is 99.5 +- 0.12, with reward 4.25 +- 0.5 and KL 0.75 "
                        "+- 0.062 (quadrature)\n"
                        "this loss is above it by 2.25 (no error, because nobody knows)\n"
                        "ESS 321 of 640 in the last iteration, acceptance 0.61\n"
                        "results in some/di?r\n"
                        "verdict: not converged\n");
    (void)snprintf(r.outcome.units, sizeof r.outcome.units, "units_1");
    assert_contains(words(&r), "nobody knows)\nunits_1\nESS");
    r.outcome.best_kl.from = TOLD_JUDGED; /* of the three in that line one is not exact, so none is called so */
    assert_contains(words(&r), "with reward 4.25 +- 0.5 and KL 0.75 +- 0.062\n");
}

static void what_is_not_there_is_not_told(void **state)
{
    run_result r = told_run();
    outcome *o = &r.outcome;
    o->optimises = o->mmle = o->likelihood = o->weighted = 0;
    o->reward.exists = o->kl.exists = o->best_loss.exists = 0;
    o->not_judged = 1;
    assert_string_equal(words(&r), "77 iterations in 12.50 s\nmodel_1, objective_1, by method_1\nloss 101.5 +- 0.25\n"
                                   "log Z 55.5 +- 0.5\nresults in some/di?r\n"
                                   "verdict: none, because the run was not judged (judge: none)\n");
    o->judged.theta_mc_error = o->judged.theta_standard_error = NULL;
    (void)snprintf(o->judged.why_no_mc_error, SOSMC_WHY, "of a");
    (void)snprintf(o->judged.why_no_standard_error, SOSMC_WHY, "of b");
    o->optimises = o->likelihood = 1;
    assert_contains(words(&r),
                    "theta has no Monte Carlo error, because of a\ntheta has no standard error, because of b\n");
}

static void solvers_and_networks(void **state)
{
    run_result r = told_run();
    outcome *o = &r.outcome;
    r.automatic = o->automatic = o->network = 1;
    o->solve = (sosmc_solve_info){.updates = 9, .evaluations = 123000, .phase = 1, .ess = 111, .accept = NAN};
    o->judged.verdict.status = SOSMC_CONVERGED;
    assert_contains(words(&r), "77 steps, 9 updates of theta, 1.23e+05 evaluations in 12.50 s\n");
    assert_contains(words(&r), "ESS 111 of 640 in the last step\n");
    assert_contains(words(&r), "the network of 2 parameters is stored as some/di?r/model.safetensors\n");
    assert_contains(words(&r), "verdict: converged\n");
    r.limit = "seconds";
    assert_contains(words(&r), "; ended by limits.seconds in the phase search, --resume with a larger limit goes on\n");
    r.limit = "budget";
    assert_contains(words(&r), "; ended by --budget-seconds in the phase search, --resume goes on\n");
    r.complete = 1;
    assert_string_equal(words(&r), "some/di?r is finished: 77 steps\n");
}

static char against[512];
static void hear(void *ctx, const char *sentence)
{
    size_t used = strlen(against);
    (void)snprintf(against + used, sizeof against - used, "%s|", sentence);
}

static void what_speaks_against_it(void **state)
{
    run_result r = told_run();
    outcome *o = &r.outcome;
    o->judged.verdict.reasons = 2;
    (void)snprintf(o->judged.verdict.reason[0], SOSMC_SENTENCE, "first");
    (void)snprintf(o->judged.verdict.reason[1], SOSMC_SENTENCE, "second");
    o->warnings = 2;
    o->told_before = 1;
    (void)snprintf(o->warning[0], OUTCOME_SENTENCE, "early");
    (void)snprintf(o->warning[1], OUTCOME_SENTENCE, "late");
    against[0] = 0;
    closing_against(&r, hear, NULL);
    assert_string_equal(against, "first|second|warning: late|");
    against[0] = 0;
    o->not_judged = 1;
    closing_against(&r, hear, NULL);
    assert_string_equal(against, "warning: late|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_told), cmocka_unit_test(what_is_not_there_is_not_told),
        cmocka_unit_test(solvers_and_networks), cmocka_unit_test(what_speaks_against_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
