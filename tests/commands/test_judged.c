/* test_judged.c: what a run leaves for a reader: the contract of summary.json for every objective, the verdict and --strict, and
 * `sosmc judge` on directories that exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

static void write_file(const char *name, const char *text)
{
    if (files_write(folder_path(folder, name), text, strlen(text), ERROR)) fail_msg("%s", error);
}

#define says(code, ...) program_says(folder, code, __VA_ARGS__)

static json_t *summary_of(const char *name)
{
    json_t *summary = NULL;
    char file[256];
    (void)snprintf(file, sizeof file, "%s/summary.json", name);
    if (json_read(folder_path(folder, file), &summary, ERROR)) fail_msg("%s", error);
    return summary;
}

static int is_there(const char *name) { return access(folder_path(folder, name), F_OK) == 0; }

static const char *status_of(const json_t *summary)
{
    return json_string_value(json_object_get(json_object_get(summary, "verdict"), "status"));
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---------------------------------------------------------------------------- the contract of summary.json */

static void must(int holds, const char *run, const char *key, const char *what)
{
    if (!holds) fail_msg("%s/summary.json: %s %s", run, key, what);
}

static const json_t *beside(const json_t *s, const char *key, const char *ending)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s", key, ending);
    return json_object_get(s, name);
}

static void check_verdict(const char *run, const json_t *s)
{
    const json_t *verdict = json_object_get(s, "verdict"), *reasons = json_object_get(verdict, "reasons");
    const char *status = status_of(s);
    must(json_is_object(verdict) && status && json_is_array(reasons), run, "verdict", "is not whole");
    int good = strcmp(status, "converged") == 0;
    must(good || !strcmp(status, "not_converged") || !strcmp(status, "failed"), run, "verdict.status", "is no status");
    must(good == (json_array_size(reasons) == 0), run, "verdict.reasons", "do not go with the status");
    for (size_t i = 0; i < json_array_size(reasons); i++)
        must(strlen(json_string_value(json_array_get(reasons, i))) > 20, run, "verdict.reasons", "is no sentence");
}

/* A list of as many numbers as theta has names, or null with its reason. */
static void check_list(const char *run, const json_t *s, const char *key)
{
    const json_t *list = json_object_get(s, key), *names = json_object_get(s, "theta_names");
    must(list != NULL, run, key, "is missing");
    if (json_is_null(list)) {
        must(json_is_string(beside(s, key, "_why")), run, key, "is null without a reason");
        return;
    }
    must(!beside(s, key, "_why"), run, key, "has a reason to be missing, and is there");
    must(json_array_size(list) == json_array_size(names) && json_array_size(list) > 0, run, key, "has another length");
    for (size_t i = 0; i < json_array_size(list); i++)
        must(json_is_number(json_array_get(list, i)), run, key, "has something that is no number");
}

/* A number with its error, or null, or without an error, with the reason. */
static void check_number(const char *run, const json_t *s, const char *key, int expected)
{
    const json_t *value = json_object_get(s, key), *mistake = beside(s, key, "_error"), *why = beside(s, key, "_why");
    must((value != NULL) == expected, run, key, expected ? "is missing" : "is there");
    if (!value) {
        must(!mistake && !why, run, key, "is missing, and something is said of it");
        return;
    }
    must(mistake != NULL, run, key, "has no word of its error");
    must(json_is_number(value) || json_is_null(value), run, key, "is no number");
    int whole = json_is_number(value) && json_is_number(mistake);
    must(whole == (why == NULL), run, key,
         whole ? "is whole, with a reason to be missing" : "is missing for no reason");
    must(json_is_number(value) == json_is_string(beside(s, key, "_from")), run, key, "does not say where it is from");
    if (whole) must(json_number_value(mistake) >= 0, run, key, "has a negative error");
}

static void check_contract(const char *run, const json_t *s, const char *quantities)
{
    static const char *const all[] = {"loss", "log_z", "kl", "reward"};
    check_verdict(run, s);
    must(text_of(s, "model") && text_of(s, "objective") && text_of(s, "method"), run, "model", "is not named");
    check_list(run, s, "theta");
    check_list(run, s, "theta_mc_error");
    check_list(run, s, "theta_standard_error");
    must(json_is_array(json_object_get(s, "theta_low")) == json_is_array(json_object_get(s, "theta_high")), run,
         "theta_low", "stands alone");
    for (int i = 0; i < 4; i++) check_number(run, s, all[i], strstr(quantities, all[i]) != NULL);
    const json_t *last = json_object_get(s, "last_iteration");
    int automatic = strcmp(text_of(s, "settings"), "automatic") == 0;
    for (int i = 0; i < 4 && !automatic; i++)
        must(json_object_get(last, all[i]) != NULL, run, all[i], "is not in last_iteration");
    if (!automatic) return;
    must(!last && json_is_object(json_object_get(s, "last_step")), run, "last_step", "is not there");
    must(text_of(s, "phase") && json_is_integer(json_object_get(s, "evaluations")), run, "phase", "is not told");
    must(json_is_null(json_object_get(s, "limit")) || text_of(s, "limit"), run, "limit", "is not told");
    must(json_is_true(json_object_get(s, "finished")) == (strcmp(text_of(s, "phase"), "done") == 0), run, "finished",
         "does not go with the phase");
}

#define SHORT "particles: 200\niterations: 150\noutput: {report: false}\n"
#define THREE "model: {type: gaussian_mixture, means: [[-2, 0, 0], [2, 0, 1]], variance: 0.5}\n"
#define NETWORK "model: {type: mlp, inputs: 3, hidden: [8], init_sd: 0.3, base: gaussian, base_sd: 2}\n"
#define POINTS "data: {type: blobs, centres: [[0, 0, 1], [1, 1, 0]], points: 60}, batch: 20"

static const struct {
    const char *name, *text, *has, *from; /* what it has, and where its loss comes from; NULL: from nowhere */
} kinds[] = {
    {"mmle", "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2]}\nobjective: mmle\n" SHORT, "loss log_z", "exact"},
    {"forward", THREE "objective: {type: reward_forward, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\n" SHORT,
     "loss log_z kl reward", "judged"},
    {"reverse", THREE "objective: {type: reward_reverse, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\n" SHORT,
     "loss log_z kl reward", "judged"},
    {"plane",
     "model: {type: gaussian_mixture, means: [[-2, 0], [2, 0]], variance: 0.5}\n"
     "objective: {type: reward_reverse, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\n" SHORT,
     "loss log_z kl reward", "quadrature"},
    {"network", NETWORK "objective: {type: ebm_likelihood, " POINTS "}\ninit: base\n" SHORT, "loss log_z", "judged"},
    {"baseless",
     "model: {type: mlp, inputs: 3, hidden: [8], init_sd: 0.3}\nobjective: {type: ebm_likelihood, " POINTS "}\n"
     "scheme: {type: pcd, pool: 300}\ninit: {type: uniform, low: [-2], high: [2]}\n" SHORT,
     "loss log_z", NULL},
    {"anneal", THREE "objective: {type: anneal, steps: 40}\nkernel: {type: mala, step: 0.2}\n" SHORT, "log_z", NULL},
    {"none", THREE "objective: {type: none, reward: \"x1\"}\nkernel: {type: mala, step: 0.2}\n" SHORT, "log_z reward",
     NULL},
    {"chain",
     "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2]}\nobjective: mmle\nscheme: soul\nkernel: {type: ula, step: 0.1}\n" SHORT,
     "loss log_z", "exact"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void every_kind_keeps_the_contract(void **state)
{
    for (int i = 0; i < KINDS; i++)
        for (int judged = 0; judged < 2; judged++) {
            char out[64], file[64];
            (void)snprintf(file, sizeof file, "%s.yaml", kinds[i].name);
            (void)snprintf(out, sizeof out, "%s-%s", kinds[i].name, judged ? "judged" : "not");
            write_file(file, kinds[i].text);
            (void)says(0, "run %s --out %s%s", file, out, judged ? "" : " --set judge=none");
            json_t *s = summary_of(out);
            check_contract(out, s, kinds[i].has);
            const char *from = text_of(s, "loss_from"), *expected = kinds[i].from;
            if (!judged && expected && strcmp(expected, "judged") == 0) expected = NULL;
            if ((from != NULL) != (expected != NULL) || (from && strcmp(from, expected) != 0))
                fail_msg("%s: the loss is from %s", out, from ? from : "nowhere");
            json_decref(s);
        }
}

/* Automatic runs keep it too, finished or ended by a limit in any phase. */
static void automatic_runs_keep_the_contract(void **state)
{
    static const struct {
        const char *name, *text, *has, *from;
    } solved[] = {
        {"solved-mmle", "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2]}\nobjective: mmle\n", "loss log_z",
         "exact"},
        {"solved-forward", THREE "objective: {type: reward_forward, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\n",
         "loss log_z kl reward", "judged"},
        {"solved-reverse", THREE "objective: {type: reward_reverse, reward: \"exp(-(x1 - 2)^2)\", beta: 0.5}\n",
         "loss log_z kl reward", "judged"},
        {"solved-data",
         THREE "objective: {type: ebm_likelihood, data: {type: blobs, centres: [[-2, 0, 0], [2, 0, 1]], points: 60, "
               "standardise: false, scale: 1}}\n",
         "loss log_z", "judged"}};
    for (size_t i = 0; i < sizeof solved / sizeof *solved; i++) {
        char file[64];
        (void)snprintf(file, sizeof file, "%s.yaml", solved[i].name);
        write_file(file, solved[i].text);
        (void)says(0, "run %s --out %s --set output.report=false --strict", file, solved[i].name);
        json_t *s = summary_of(solved[i].name);
        check_contract(solved[i].name, s, solved[i].has);
        assert_string_equal(text_of(s, "loss_from"), solved[i].from);
        double all = json_number_value(json_object_get(s, "evaluations"));
        json_decref(s);
        for (int share = 1; share < 8; share++) {
            (void)says(
                5, "run %s --out ended --overwrite --set output.report=false --strict --set limits.evaluations=%.0f",
                file, all * share / 8);
            s = summary_of("ended");
            check_contract("ended", s, solved[i].has);
            assert_string_equal(text_of(s, "limit"), "evaluations");
            assert_string_equal(status_of(s), "not_converged");
            json_decref(s);
        }
    }
}

/* The run itself is the same, bit for bit. */
static void judging_leaves_the_iterations_alone(void **state)
{
    for (int i = 0; i < KINDS; i++) {
        char judged[64], not [64];
        (void)snprintf(judged, sizeof judged, "%s-judged", kinds[i].name);
        (void)snprintf(not, sizeof not, "%s-not", kinds[i].name);
        json_t *a = summary_of(judged), *b = summary_of(not );
        assert_string_equal(text_of(a, "state_hash"), text_of(b, "state_hash"));
        json_decref(a);
        json_decref(b);
    }
}

static void names_and_reasons(void **state)
{
    json_t *s = summary_of("forward-judged");
    assert_string_equal(json_string_value(json_array_get(json_object_get(s, "theta_names"), 1)), "logit_2");
    json_decref(s);
    s = summary_of("mmle-judged");
    assert_string_equal(json_string_value(json_array_get(json_object_get(s, "theta_names"), 0)), "theta");
    assert_true(json_is_number(json_object_get(s, "aic")) && json_is_number(json_object_get(s, "bic")));
    json_decref(s);
    s = summary_of("network-judged");
    assert_contains(text_of(s, "theta_why"), "model.safetensors");
    json_decref(s);
    s = summary_of("baseless-judged");
    assert_contains(text_of(s, "log_z_why"), "has no base law");
    json_decref(s);
    s = summary_of("mmle-not");
    assert_string_equal(status_of(s), "not_converged");
    assert_contains(text_of(s, "theta_mc_error_why"), "judge: none");
    json_decref(s);
}

/* A run that breaks off says so in its summary, keeps its exit code, and does not block its directory. */
static void a_failed_run_has_a_summary(void **state)
{
    write_file("fails.yaml", "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\nscheme: unweighted\n"
                             "kernel: {type: ula, step: 30}\n" SHORT);
    const char *said = says(3, "run fails.yaml --out fails --set iterations=2000");
    json_t *s = summary_of("fails");
    check_contract("fails", s, "loss log_z");
    assert_string_equal(status_of(s), "failed");
    assert_contains(said,
                    json_string_value(json_array_get(json_object_get(json_object_get(s, "verdict"), "reasons"), 0)));
    assert_true(json_is_false(json_object_get(s, "finished")));
    assert_string_equal(text_of(s, "theta_why"), "the run failed");
    json_decref(s);
    (void)says(0, "run fails.yaml --out fails --set kernel.step=0.1");
}

/* ---------------------------------------------------------------------------- --strict */

static const char good[] = "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2]}\nobjective: mmle\n"
                           "optimiser: {type: adam, rate: 0.05}\nkernel: {type: mala, step: 0.3}\n"
                           "particles: 500\niterations: 500\noutput: {report: false}\n";

static void strict_is_about_the_verdict(void **state)
{
    write_file("good.yaml", good);
    (void)says(0, "run good.yaml --out good --strict");
    assert_contains(says(0, "run good.yaml --out good --resume --strict"), "is finished");
    (void)says(0, "run good.yaml --out brief --iterations 160 --set optimiser.rate=0.0005");
    assert_contains(says(5, "run good.yaml --out brief --iterations 160 --set optimiser.rate=0.0005 --resume --strict"),
                    "has not converged");
    (void)says(5, "run good.yaml --out brief --iterations 160 --set optimiser.rate=0.0005 --overwrite --strict");
    (void)says(5, "run good.yaml --out unjudged --set judge=none --strict");
    assert_contains(says(0, "run good.yaml --out quiet --iterations 160 --set optimiser.rate=0.0005 --quiet"),
                    "theta has not converged");
    (void)says(5, "judge brief --strict --quiet");
    (void)says(0, "judge good --strict --quiet");
    (void)says(5,
               "sample baseless-judged/model.safetensors --chains 20 --steps 30 --out drawn --strict --set judge=none");
}

/* ---------------------------------------------------------------------------- sosmc judge */

static void assert_same(const char *one, const char *other)
{
    char difference[PROGRAM_WORDS], whole[FOLDER_ROOM + 64];
    (void)snprintf(whole, sizeof whole, "%s", folder_path(folder, one));
    if (program_differ(whole, folder_path(folder, other), difference)) fail_msg("%s, %s: %s", one, other, difference);
}

/* A directory that was moved, with its summary lost, ends as it was; a page that was lost is there again. */
static void a_moved_directory_is_judged_again(void **state)
{
    (void)says(0, "run good.yaml --out moved");
    assert_int_equal(rename(folder_path(folder, "moved"), folder_path(folder, "elsewhere")), 0);
    assert_int_equal(unlink(folder_path(folder, "elsewhere/summary.json")), 0);
    assert_contains(says(0, "judge elsewhere --threads 2"), "verdict: converged");
    assert_same("good", "elsewhere");
    (void)says(0, "run good.yaml --out paged --set output.report=true");
    assert_int_equal(unlink(folder_path(folder, "paged/report.html")), 0);
    (void)says(0, "judge paged --quiet");
    assert_true(is_there("paged/report.html"));
}

/* A copy of a file without a column of its lines, or without lines that begin with a word. */
static void cut_column(const char *name, const char *column)
{
    csv_table t;
    csv_options options = {.header = CSV_HEADER_YES};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (csv_read(folder_path(folder, name), &options, &t, ERROR)) fail_msg("%s", error);
    for (int64_t row = -1; row < t.rows; row++) {
        for (int c = 0, first = 1; c < t.columns; c++) {
            if (strcmp(t.column[c].name, column) == 0) continue;
            double v = row < 0 ? 0 : t.column[c].number[row];
            fputs(first ? "" : ",", out);
            if (row < 0) fputs(t.column[c].name, out);
            if (row >= 0 && !isnan(v)) fprintf(out, "%.17g", v);
            first = 0;
        }
        fputc('\n', out);
    }
    csv_free(&t);
    assert_int_equal(fclose(out), 0);
    write_file(name, text);
    free(text);
}

static void cut_section(const char *name, const char *section)
{
    char *text = runtext_read(folder_path(folder, name)), *kept = calloc(strlen(text) + 1, 1);
    int skipping = 0;
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n") + 1;
        if (*line != ' ') skipping = strncmp(line, section, strlen(section)) == 0;
        if (!skipping) strncat(kept, line, length);
        line += length;
    }
    write_file(name, kept);
    free(kept);
    free(text);
}

/* A directory as earlier versions left it: no key judge, no column mobility, a summary without a verdict. It is judged, reported
 * and continued. */
static void an_earlier_directory_is_judged_and_resumed(void **state)
{
    (void)says(0, "run good.yaml --out old --iterations 300 --set judge=none");
    cut_section("old/run.yaml", "judge:");
    cut_column("old/trace.csv", "mobility");
    write_file("old/summary.json", "{\"version\": \"0.1.0\", \"finished\": true, \"iterations\": 300}\n");
    assert_contains(says(0, "judge old"), "theta has no Monte Carlo error, because");
    json_t *s = summary_of("old");
    check_contract("old", s, "loss log_z");
    json_decref(s);
    char *rows = runtext_read(folder_path(folder, "old/trace.csv"));
    assert_null(strstr(rows, "mobility"));
    free(rows);
    (void)says(0, "report old");
    (void)says(0, "run good.yaml --out old --resume");
    json_t *whole = summary_of("good");
    s = summary_of("old");
    assert_string_equal(text_of(s, "state_hash"), text_of(whole, "state_hash"));
    json_decref(s);
    json_decref(whole);
}

/* What was not judged during the run can be judged after it, but for what had to be gathered on the way. */
static void an_unjudged_run_is_judged_later(void **state)
{
    json_t *s = summary_of("forward-not");
    assert_true(json_is_null(json_object_get(s, "loss")));
    json_decref(s);
    (void)says(0, "judge forward-not --quiet");
    s = summary_of("forward-not");
    check_contract("forward-not", s, "loss log_z kl reward");
    assert_string_equal(text_of(s, "loss_from"), "judged");
    assert_true(json_is_null(json_object_get(s, "theta_mc_error")));
    json_decref(s);
    char *file = runtext_read(folder_path(folder, "forward-not/run.yaml"));
    assert_contains(file, "judge:\n  cost: none\n"); /* the run file still says what was run */
    free(file);
}

static void directories_that_cannot_be_judged(void **state)
{
    assert_contains(says(4, "judge nowhere"), "nowhere is not a run directory: it has no run.yaml");
    (void)says(0, "run good.yaml --out bare --iterations 160 --set optimiser.rate=0.0005");
    (void)unlink(folder_path(folder, "bare/checkpoint"));
    (void)unlink(folder_path(folder, "bare/checkpoint.previous"));
    assert_contains(says(4, "judge bare"), "bare has no checkpoint, so there is no cloud to judge");
    assert_contains(says(2, "judge"), "judge takes one run directory");
}

/* ---------------------------------------------------------------------------- resumed */

/* Half of a run, continued in its tail, ends with the summary of the whole; so does one that was killed while it was judged. */
static void a_resumed_run_has_the_same_summary(void **state)
{
    (void)says(0, "run good.yaml --out half --iterations 400");
    (void)says(0, "run good.yaml --out half --resume");
    assert_int_equal(unlink(folder_path(folder, "half/checkpoint.previous")), 0); /* of iteration 400 */
    assert_same("good", "half");
    assert_int_equal(unlink(folder_path(folder, "half/summary.json")), 0);
    assert_int_equal(unlink(folder_path(folder, "half/theta.npy")), 0);
    (void)says(0, "run good.yaml --out half --resume");
    assert_same("good", "half");
    (void)says(
        0,
        "run good.yaml --out half --resume --set judge=none"); /* whether it is judged does not make it another run */
}

static int set_up(void **state) { return folder_make(folder, "judged") || program_furnish(folder); }
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_keeps_the_contract),
        cmocka_unit_test(automatic_runs_keep_the_contract),
        cmocka_unit_test(judging_leaves_the_iterations_alone),
        cmocka_unit_test(names_and_reasons),
        cmocka_unit_test(a_failed_run_has_a_summary),
        cmocka_unit_test(strict_is_about_the_verdict),
        cmocka_unit_test(a_moved_directory_is_judged_again),
        cmocka_unit_test(an_earlier_directory_is_judged_and_resumed),
        cmocka_unit_test(an_unjudged_run_is_judged_later),
        cmocka_unit_test(directories_that_cannot_be_judged),
        cmocka_unit_test(a_resumed_run_has_the_same_summary),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
