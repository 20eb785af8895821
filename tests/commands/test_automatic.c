/* test_automatic.c: automatic runs as a person meets them: what is said, exit codes, limits and budgets, Ctrl-C, judge, check and
 * report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

#define says(code, ...) program_says(folder, code, __VA_ARGS__)

static void write_file(const char *name, const char *text)
{
    if (files_write(folder_path(folder, name), text, strlen(text), ERROR)) fail_msg("%s", error);
}

static char *contents(const char *name)
{
    char *text = runtext_read(folder_path(folder, name));
    if (!text) fail_msg("%s cannot be read", name);
    return text;
}

/* ---------------------------------------------------------------------------- what is said */

static void a_run_is_told(void **state)
{
    const char *said = says(0, "run toy.yaml --strict");
    assert_contains(said, " updates of theta, ");
    assert_contains(said, "hierarchical_gaussian, mmle, by the solver\ntheta 2.1");
    assert_contains(said, "log-likelihood -5.60");
    assert_contains(said, "verdict: converged");
    assert_string_equal(says(0, "run toy.yaml --out quiet --quiet"), "");
    assert_contains(says(0, "run toy.yaml --resume"), "toy is finished: ");
    char *page = contents("toy/report.html");
    assert_contains(page, "hierarchical_gaussian, mmle, by the solver.");
    assert_contains(page, ">steps<");
    assert_contains(page, ">evaluations<");
    free(page);
}

/* A column whose name stands twice is nobody's guess, and a label is no feature. */
static void columns_are_not_guessed(void **state)
{
    runtext_save(folder_path(folder, "twice.csv"), "a,b,a,y\n1,2,3,0\n2,1,0,1\n4,3,1,0\n1,5,2,1\n");
    runtext_save(folder_path(folder, "twice.yaml"),
                 "model: {type: logistic_regression, data: twice.csv, label: y, features: [b, a]}\nobjective: mmle\n");
    runtext_save(folder_path(folder, "label.yaml"),
                 "model: {type: logistic_regression, data: twice.csv, label: y, features: [b, y]}\nobjective: mmle\n");
    const char *said = says(2, "run twice.yaml");
    assert_contains(said, "model.features.1 is 'a', which names columns 1 and 3 of ");
    assert_contains(said, "give the number of the one that is meant");
    assert_contains(says(2, "run label.yaml"), "names column 'y', which is the label and so no feature");
}

/* The resolved file says what was run, and replays it. */
static void a_resolved_file_replays(void **state)
{
    assert_contains(says(0, "run toy.yaml --print"), "\nsettings: automatic\nmodel:\n");
    (void)says(0, "run toy/run.yaml --out replayed --quiet");
    char *one = contents("toy/trace.csv"), *other = contents("replayed/trace.csv");
    assert_string_equal(one, other);
    free(one);
    free(other);
    assert_contains(says(0, "run toy.yaml --print --set settings=explicit --set kernel.type=mala"), "  type: mala\n");
    assert_contains(says(2, "run toy.yaml --print --set kernel.type=mala"), "--set settings=explicit");
    assert_contains(says(2, "run toy.yaml --out other --iterations 5"), "iterations is decided by the solver");
    assert_int_not_equal(access(folder_path(folder, "other"), F_OK), 0);
}

/* The number behind `word` in what was said. */
static double number_after(const char *said, const char *word)
{
    const char *at = strstr(said, word);
    assert_non_null(at);
    return strtod(at + strlen(word), NULL);
}

/* U = sum_j (x_j - theta)^2/2 + (x_j - 1)^2/2 with x_1 > 1 has theta 1.433758, by the solver and by a kernel; a stop changes nothing. */
static void coordinates_have_bounds(void **state)
{
    static const char *const how[] = {"", " --set settings=explicit --set kernel.type=mala --set kernel.step=0.4 "
                                          "--set optimiser.rate=0.05 --set iterations=600"};
    write_file("pair.yaml", "model: {type: hierarchical_gaussian, y: [1, 1], x_low: [1, -.inf]}\nobjective: mmle\n");
    for (int k = 0; k < 2; k++) {
        const char *said = says(0, "run pair.yaml --strict --out pair%d%s", k, how[k]);
        double away = number_after(said, "theta ") - 1.433758, error_of = number_after(said, "Monte Carlo error ");
        if (!(away * away < 16 * error_of * error_of) || !(error_of < 0.02)) fail_msg("theta is %g off", away);
    }
    (void)says(0, "run pair.yaml --out stopped --quiet --set limits.evaluations=20000");
    (void)says(0, "run pair.yaml --out stopped --quiet --resume");
    char *one = contents("pair0/trace.csv"), *other = contents("stopped/trace.csv");
    assert_string_equal(one, other);
    free(one);
    free(other);
    assert_contains(says(0, "check pair.yaml"), "gradient in x: ");
    (void)says(0, "run pair.yaml --out tempered --quiet --set objective=temper --strict");
    assert_contains(says(2, "run pair.yaml --set init=normal"),
                    "in coordinate 0, where the model's bounds are 1 and inf");
    assert_contains(says(2, "run pair.yaml --set model.x_high=1"),
                    "in coordinate 0 model.x_low is 1 and model.x_high is 1");
    assert_contains(says(2, "run pair.yaml --out other --set model.x_low=[1,2,3]"),
                    "model.x_low has 3 numbers; expected 1 or 2");
    assert_contains(says(2, "run toy.yaml --out other --set init=inside"), "needs bounds");
}

/* ---------------------------------------------------------------------------- limits */

static void limits_and_budgets(void **state)
{
    const char *said = says(0, "run toy.yaml --out brief --set limits.evaluations=5000");
    assert_contains(said, "; ended by limits.evaluations in the phase ");
    assert_contains(said, "--resume with a larger limit goes on");
    assert_contains(said, "verdict: not converged");
    assert_contains(said, "go on with a larger limit of time or evaluations");
    (void)says(5, "run toy.yaml --out brief --resume --set limits.evaluations=5000 --strict");
    assert_contains(says(0, "run toy.yaml --out brief --resume --strict"), "verdict: converged");
    char *one = contents("toy/trace.csv"), *other = contents("brief/trace.csv");
    assert_string_equal(one, other);
    free(one);
    free(other);
    said = says(0, "run toy.yaml --out hasty --budget-seconds 0.000001");
    assert_contains(said, "; ended by --budget-seconds in the phase ");
    (void)says(0, "run toy.yaml --out hasty --resume --strict");
}

/* ---------------------------------------------------------------------------- Ctrl-C, and kill -9 */

static void nap(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(1e9 * seconds)};
    (void)nanosleep(&t, NULL);
}

/* The line of summary.json with the hash of the state. */
static void take_hash(const char *summary, char hash[64])
{
    char *text = contents(summary), *at = strstr(text, "\"state_hash\"");
    assert_non_null(at);
    (void)snprintf(hash, 64, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
}

/* Ends the run with the signal in its middle, and continues it: it ends as one that nobody ended. */
static void ended_by(int signal_number, int code)
{
    char one_hash[64], other_hash[64];
    program_setting s = {.folder = folder};
    (void)folder_remove(folder_path(folder, "cut"));
    pid_t pid = program_start(&s, "run slow.yaml --out cut");
    for (int i = 0; i < 6000 && access(folder_path(folder, "cut/checkpoint.previous"), F_OK) != 0; i++) nap(0.01);
    (void)kill(pid, signal_number);
    assert_int_equal(program_wait(pid), code);
    if (signal_number == SIGINT) {
        char *text = contents("cut/summary.json");
        assert_contains(text, "\"finished\": false");
        free(text);
    }
    (void)says(0, "run slow.yaml --out cut --resume --quiet --strict");
    char *one = contents("cut/trace.csv"), *other = contents("uncut/trace.csv");
    assert_string_equal(one, other);
    free(one);
    free(other);
    take_hash("cut/summary.json", one_hash);
    take_hash("uncut/summary.json", other_hash);
    assert_string_equal(one_hash, other_hash);
}

static void ended_and_continued(void **state)
{
    (void)says(0, "run slow.yaml --out uncut --quiet");
    ended_by(SIGINT, 130);
    ended_by(SIGKILL, 128 + SIGKILL);
}

/* ---------------------------------------------------------------------------- judge and check */

/* What the solver said is said again, also of a run that is not done. */
static void judged_again(void **state)
{
    char *before = contents("toy/summary.json");
    assert_contains(says(0, "judge toy --strict --threads 2"), "verdict: converged");
    char *after = contents("toy/summary.json");
    char *clock = strstr(before, "\"seconds\"");
    assert_non_null(clock);
    assert_memory_equal(before, after, (size_t)(clock - before));
    free(before);
    free(after);
    (void)says(0, "run toy.yaml --out open --quiet --set limits.evaluations=5000");
    assert_contains(says(5, "judge open --strict"), "it was ended while in its phase");
}

static void checked(void **state)
{
    const char *said = says(0, "check toy.yaml");
    assert_contains(said, "ok    gradient in theta");
    assert_contains(said, "ok    verdict: solved with 256 particles and ");
    assert_contains(said, "all is well");
    assert_null(strstr(said, "short run"));
    assert_contains(says(0, "check toy.yaml --set limits.evaluations=2000"),
                    "not known  verdict: with 1024 particles and ");
    assert_contains(says(2, "check net.yaml"),
                    "settings is automatic, and the run failed: the model has 257 parameters");
    assert_contains(says(2, "run net.yaml"), "net.yaml:3: settings is automatic, and the solver refuses this run");
}

/* ---------------------------------------------------------------------------- new */

/* What is written is solved as it stands, and a file that is there is left alone. */
static void files_to_begin_with(void **state)
{
    static const char *const models[] = {"hierarchical_gaussian", "logistic_regression", "gaussian_mixture"};
    write_file("data.csv", "a,b,y\n1,0.5,1\n2,-1,0\n-1,0.3,0\n0.5,2,1\n3,1.5,1\n-2,0.2,0\n0.1,-1,1\n1.5,0,0\n");
    for (int i = 0; i < 3; i++) {
        char name[64], *text;
        (void)snprintf(name, sizeof name, "%s.yaml", models[i]);
        assert_string_equal(says(0, "new %s --model %s", name, models[i]), "");
        text = contents(name);
        assert_contains(text, models[i]);
        free(text);
        assert_contains(says(0, "run %s --strict --set output.report=false", name), "by the solver");
        assert_contains(says(2, "new %s", name), "is there already; choose another name");
    }
    (void)says(0, "new plain.yaml");
    char *one = contents("plain.yaml"), *other = contents("hierarchical_gaussian.yaml");
    assert_string_equal(one, other);
    free(one);
    free(other);
    assert_contains(says(2, "new"), "new takes the name of one run file");
    assert_contains(says(2, "new x.yaml --model mlp"), "expected hierarchical_gaussian, logistic_regression or");
    (void)says(4, "new nowhere/x.yaml");
}

static int set_up(void **state)
{
    char slow[1024] = "model: {type: hierarchical_gaussian, y: [0";
    if (folder_make(folder, "automatic") || program_furnish(folder)) return -1;
    for (int i = 1; i < 40; i++) (void)snprintf(slow + strlen(slow), sizeof slow - strlen(slow), ", %d", i % 7);
    (void)snprintf(slow + strlen(slow), sizeof slow - strlen(slow),
                   "]}\nobjective: mmle\nparticles: 8192\noutput: {report: false, checkpoint_every: 1}\n");
    write_file("slow.yaml", slow);
    write_file("toy.yaml", "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2.5]}\nobjective: mmle\n");
    write_file("net.yaml", "model: {type: mlp, hidden: [64], base: gaussian, base_sd: 1}\n"
                           "objective: {type: reward_reverse, reward: x1, beta: 0}\nsettings: automatic\n");
    return 0;
}
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_told),
        cmocka_unit_test(columns_are_not_guessed),
        cmocka_unit_test(a_resolved_file_replays),
        cmocka_unit_test(coordinates_have_bounds),
        cmocka_unit_test(limits_and_budgets),
        cmocka_unit_test(ended_and_continued),
        cmocka_unit_test(judged_again),
        cmocka_unit_test(checked),
        cmocka_unit_test(files_to_begin_with),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
