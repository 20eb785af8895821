/* test_earlier_directories.c: run directories of earlier versions. Their resolved run files have keys that nothing ever read
 * and that are refused today; such a directory still resumes and reports, and only such a file may have these keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "runfile/config.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

#define FIRST_LINE "# A resolved run file: every key with its value. `sosmc run` on this file repeats the run.\n"
#define OPTIMISER(rate)                                                       \
    "optimiser:\n  type: adam\n  rate: " rate                                 \
    "\n  beta1: 0.9\n  beta2: 0.999\n  eps: 1.0e-08\n  clip: 0\n  noise: 0\n" \
    "  schedule:\n    type: constant\n    warmup: 0\n  average: 0\n  average_from: 0\n"
#define REST(iterations)                                                                                             \
    "particles: 50\niterations: " iterations "\nseed: 0\nthreads: 1\non_nonfinite: default\non_collapse: stop\n"     \
    "evaluate:\n  every: 0\n  sampler: ula\n  nodes: 400\n  low: -6\n  high: 6\n  chains: 0\n  burn_in: 15000\n"     \
    "  averaged: 5000\n  step: 0.005\n"                                                                              \
    "output:\n  thin: 1\n  trace_rows: 100000\n  checkpoint_seconds: 60\n  checkpoint_every: 0\n  particles: true\n" \
    "  report: false\n  moments_every: 10\n"
#define KERNEL                                                                                              \
    "scheme:\n  type: sosmc\n  order: paper\n  sweeps: 1\nkernel:\n  type: mala\n  step: 0.2\n  noise: 1\n" \
    "resampling:\n  scheme: systematic\n  threshold: 0.5\nadapt: []\n"

/* A run file, and what an earlier version wrote for its first half. */
static const char cool[] = "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
                           "objective: {type: anneal, steps: 20}\nkernel: {type: mala, step: 0.2}\n"
                           "particles: 50\niterations: 30\noutput: {report: false}\n";
#define COOL_KEYS                                                                                                \
    "model:\n  type: gaussian_mixture\n  means: [[-3, 0], [3, 0]]\n  variance: 0.5\n  eps: 0\n  theta: [0, 0]\n" \
    "objective:\n  type: anneal\n  steps: 20\n  power: 2\n  base_sd: 4\n"                                        \
    "init:\n  type: normal\n  mean: [0]\n  sd: [4]\n" KERNEL OPTIMISER("0.5") REST("15")
static const char cool_resolved[] = FIRST_LINE COOL_KEYS;

static void write_file(const char *name, const char *text)
{
    if (files_write(folder_path(folder, name), text, strlen(text), ERROR)) fail_msg("%s", error);
}

#define says(code, arguments) program_says(folder, code, "%s", arguments)

static void assert_same_file(const char *one, const char *other)
{
    char *a = runtext_read(folder_path(folder, one)), *b = runtext_read(folder_path(folder, other));
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void keys_of_earlier_versions_are_dropped(void **state)
{
    config *c = runtext_resolved(cool_resolved);
    char *text = runtext_written(c);
    assert_false(config_has(c, "init") || config_has(c, "optimiser"));
    assert_null(strstr(text, "init:"));
    assert_null(strstr(text, "optimiser:"));
    runtext_assert_replays(c);
    free(text);
    config_free(c);
}

/* With observations that are written out, model.column named no column; nothing is optimised, and there was a rate. */
static void those_of_other_runs_too(void **state)
{
    config *c = runtext_resolved(
        FIRST_LINE "model:\n  type: hierarchical_gaussian\n  column: 1\n  y: [1, 2]\n  theta: [0]\n"
                   "objective:\n  type: none\ninit:\n  type: model\n  theta: [0]\n" KERNEL OPTIMISER("0.01") REST("3"));
    assert_true(config_has(c, "init.theta"));
    assert_false(config_has(c, "model.column") || config_has(c, "optimiser"));
    runtext_assert_replays(c);
    config_free(c);
}

/* Without the line that the program writes, the file is somebody's own, and so is the mistake. */
static void elsewhere_they_are_refused(void **state)
{
    assert_contains(runtext_complaint(COOL_KEYS),
                    "init applies only when objective.type is reward_forward, reward_reverse, mmle, ebm_likelihood, "
                    "none or temper; here it is anneal");
}

static void what_is_set_is_never_dropped(void **state)
{
    config *c = runtext_parse(cool_resolved);
    assert_int_equal(config_set(c, "optimiser.rate=0.1", ERROR), 0);
    assert_int_equal(config_resolve(c, ERROR), -1);
    assert_contains(error, "--set optimiser.rate=0.1: optimiser applies only when objective.type is");
    config_free(c);
}

/* Half a run with the run file of an earlier version beside it ends as the whole run does. */
static void the_directory_resumes_and_reports(void **state)
{
    write_file("cool.yaml", cool);
    (void)says(0, "run cool.yaml --out whole");
    (void)says(0, "run cool.yaml --out half --iterations 15");
    write_file("half/run.yaml", cool_resolved);
    (void)says(0, "report half");
    (void)says(0, "run cool.yaml --out half --resume");
    assert_same_file("whole/trace.csv", "half/trace.csv");
    assert_same_file("whole/run.yaml", "half/run.yaml");
    write_file("old.yaml", cool_resolved);
    (void)says(0, "run old.yaml --out old");
    (void)says(0, "run old.yaml --out old --iterations 30 --resume");
    assert_same_file("whole/trace.csv", "old/trace.csv");
}

/* The text without the lines that hold one of these keys. */
static void drop_keys(char *text, const char *const *key, int keys)
{
    char *to = text;
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n"), whole = length + (line[length] == '\n');
        int dropped = 0;
        for (int i = 0; i < keys; i++) dropped |= strncmp(line + strspn(line, " "), key[i], strlen(key[i])) == 0;
        if (!dropped) memmove(to, line, whole);
        to += dropped ? 0 : whole;
        line += whole;
    }
    *to = 0;
}

/* A directory whose data are a table, before the files and keys that came later: no record of the inputs, no lock; none of
 * the keys for missing values, words and identifiers. */
static void directories_without_the_newer_files(void **state)
{
    static const char *const later[] = {"missing:", "exclude:", "positive:", "settings:", "judge:", "cost:"};
    static const char *const files[] = {"inputs.json", ".sosmc.lock", "report.html", "summary.json", "timing.csv"};
    char path[128];
    write_file("table.csv", "x,z,y\n1,2.5,0\n2,1,1\n4,3.5,0\n1,5,1\n3,2,1\n");
    write_file(
        "table.yaml",
        "model: {type: logistic_regression, data: table.csv, label: y}\nobjective: mmle\nkernel: {type: mala, step: 0.2}\n"
        "optimiser: {rate: 0.1}\njudge: none\nparticles: 50\niterations: 30\noutput: {report: false}\n");
    (void)says(0, "run table.yaml --out table-whole");
    (void)says(0, "run table.yaml --out table --iterations 15");
    char *text = runtext_read(folder_path(folder, "table/run.yaml"));
    assert_non_null(text);
    drop_keys(text, later, sizeof later / sizeof *later);
    assert_null(strstr(text, "missing"));
    write_file("table/run.yaml", text);
    free(text);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "table/%s", files[i]);
        (void)unlink(folder_path(folder, path));
    }
    (void)says(0, "report table");
    (void)says(0, "run table.yaml --out table --resume");
    assert_same_file("table-whole/trace.csv", "table/trace.csv");
    assert_same_file("table-whole/run.yaml", "table/run.yaml");
    assert_same_file("table-whole/inputs.json", "table/inputs.json"); /* the record has begun */
    assert_contains(says(0, "run table.yaml --out table --resume"), "table is finished");
    (void)says(0, "report table");
    (void)says(0, "judge table");
}

static int make_folder(void **state) { return folder_make(folder, "sosmc_earlier"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_earlier_versions_are_dropped), cmocka_unit_test(those_of_other_runs_too),
        cmocka_unit_test(elsewhere_they_are_refused),           cmocka_unit_test(what_is_set_is_never_dropped),
        cmocka_unit_test(the_directory_resumes_and_reports),    cmocka_unit_test(directories_without_the_newer_files)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
