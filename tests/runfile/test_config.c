/* test_config.c: run files that are right are read as written; and the table of keys, the manual and the examples tell
 * the same story. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "runfile/config.h"
#include "runtext.h"
#include "runfile/schema.h"

/* ---------------------------------------------------------------------------- what is right */

/* The next example of the manual, cut off where it ends; NULL: there is none. */
static char *example_after(char *text)
{
    char *begin = strstr(text, "```yaml\n"), *end = begin ? strstr(begin, "\n```\n") : NULL;
    if (!end) return NULL;
    end[1] = 0;
    return begin + 8;
}

static void example_of_the_manual(void **state)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    config_document(out);
    fclose(out);
    char *small = example_after(text), *large = small ? example_after(small + strlen(small) + 1) : NULL;
    if (!small || !large) fail_msg("the manual has no two examples");
    config *c = runtext_resolved(small);
    assert_string_equal(config_text(c, "settings"), "automatic");
    config_free(c);
    c = runtext_resolved(large);
    assert_string_equal(config_text(c, "settings"), "explicit");
    int n, rows, cols;
    const double *means = config_matrix(c, "model.means", &rows, &cols);
    assert_true(rows == 2 && cols == 2 && means[0] == -3 && means[1] == 0 && means[2] == 3 && means[3] == 0);
    const double *center = config_vector(c, "objective.reward.center", &n);
    assert_true(n == 2 && center[0] == 4 && center[1] == 3.8);
    assert_true(config_number(c, "model.eps") == 1e-9);
    assert_true(config_number(c, "objective.beta") == 0.1);
    assert_int_equal(config_integer(c, "objective.reference.batch"), 5000);
    assert_string_equal(config_text(c, "scheme.type"), "sosmc");
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    assert_true(config_number(c, "adapt.max") == 0.99 && config_number(c, "adapt.0.max") == 0.99);
    assert_int_equal(config_count(c, "adapt"), 1);
    assert_int_equal(config_integer(c, "particles"), 10000);
    assert_int_equal(config_unsigned(c, "seed"), 0);
    assert_int_equal(config_line(c, "kernel.step"), 8);
    assert_int_equal(config_line(c, "kernel.noise"), 0);
    config_free(c);
    free(text);
}

static void defaults_of_the_library(void **state)
{
    sosmc_settings cfg = sosmc_defaults();
    sosmc_scheme pcd = sosmc_scheme_pcd(7, 7, 10), soul = sosmc_scheme_soul(9);
    sosmc_optimiser adamw = sosmc_adamw(1, 0.01);
    config *c = runtext_resolved(SMALL "kernel: {}\noptimiser: {}\nadapt: {}\n");
    assert_int_equal(config_integer(c, "particles"), cfg.scheme.particles);
    assert_true(config_number(c, "resampling.threshold") == cfg.scheme.ess_min);
    assert_true(!strcmp(config_text(c, "resampling.scheme"), "systematic") &&
                cfg.scheme.resampling == SOSMC_SYSTEMATIC);
    assert_true(!strcmp(config_text(c, "scheme.order"), "paper") && cfg.scheme.order == SOSMC_ORDER_PAPER);
    assert_int_equal(config_integer(c, "scheme.sweeps"), cfg.scheme.sweeps);
    assert_string_equal(config_text(c, "kernel.type"), cfg.kernel.name);
    assert_true(config_number(c, "kernel.step") == cfg.kernel.h);
    assert_true(config_number(c, "kernel.noise") == cfg.kernel.noise);
    assert_string_equal(config_text(c, "optimiser.type"), cfg.optimiser.name);
    assert_true(config_number(c, "optimiser.rate") == cfg.optimiser.lr);
    assert_true(config_number(c, "optimiser.beta1") == adamw.beta1 &&
                config_number(c, "optimiser.beta2") == adamw.beta2);
    assert_true(config_number(c, "optimiser.eps") == adamw.eps && config_number(c, "optimiser.clip") == adamw.clip);
    assert_true(config_number(c, "optimiser.average") == cfg.average);
    assert_int_equal(config_integer(c, "optimiser.average_from"), cfg.average_from);
    assert_true(config_number(c, "adapt.threshold") == cfg.adapt[0].threshold);
    assert_true(config_number(c, "adapt.min") == cfg.adapt[0].min && config_number(c, "adapt.max") == cfg.adapt[0].max);
    assert_int_equal(config_integer(c, "threads"), cfg.threads);
    assert_int_equal(config_unsigned(c, "seed"), cfg.seed);
    assert_int_equal(config_has(c, "model.y"), 0);
    config_free(c);

    c = runtext_resolved(SMALL "scheme: pcd\nparticles: 7");
    assert_true(config_number(c, "scheme.refresh") == pcd.refresh && config_integer(c, "scheme.keep") == pcd.keep);
    assert_int_equal(config_integer(c, "scheme.pool"), 7);
    config_free(c);
    c = runtext_resolved(SMALL "scheme: soul\nparticles: 9");
    assert_int_equal(config_integer(c, "scheme.sweeps"), soul.sweeps);
    assert_int_equal(config_integer(c, "scheme.keep"), soul.keep);
    config_free(c);
    c = runtext_resolved(SMALL "kernel: hmc");
    assert_int_equal(config_integer(c, "kernel.leapfrog"), 1);
    assert_true(config_number(c, "kernel.mass") == 1);
    config_free(c);
    c = runtext_resolved(SMALL "kernel: underdamped");
    assert_true(config_number(c, "kernel.friction") == 1 && config_number(c, "kernel.mass") == 1);
    assert_int_equal(config_has(c, "kernel.leapfrog"), 0);
    config_free(c);
    c = runtext_resolved(SMALL "kernel: leapfrog");
    assert_int_equal(config_integer(c, "kernel.leapfrog"), 1);
    assert_int_equal(config_has(c, "kernel.friction"), 0);
    config_free(c);
    c = runtext_resolved(SMALL "kernel: {}\n");
    assert_int_equal(config_count(c, "adapt"), 0); /* no rule: sosmc_defaults has them switched off */
    config_free(c);
}

static void derived_defaults(void **state)
{
    int n;
    config *c = runtext_resolved("model: {type: gaussian_mixture, means: [[0], [1], [2]], theta: [1, 2.5, -3]}\n"
                                 "objective: {type: reward_reverse, reward: x1}\n");
    const double *theta = config_vector(c, "objective.reference.theta", &n);
    assert_true(n == 3 && theta[0] == 1 && theta[1] == 2.5 && theta[2] == -3);
    theta = config_vector(c, "init.theta", &n);
    assert_true(n == 3 && theta[1] == 2.5);
    assert_int_equal(config_has(c, "objective.reference.batch"), 0);
    config_free(c);

    c = runtext_resolved(SMALL);
    theta = config_vector(c, "model.theta", &n);
    assert_true(n == 2 && theta[0] == 0 && theta[1] == 0);
    assert_string_equal(config_text(c, "objective.reward.type"), "formula");
    assert_string_equal(config_text(c, "objective.reward.formula"), "x1");
    config_free(c);

    c = runtext_resolved(LOGIT);
    assert_string_equal(config_text(c, "init.type"), "laplace");
    assert_true(config_vector(c, "init.theta", &n)[0] == 0 && n == 1 && config_number(c, "init.share") == 0.02);
    assert_int_equal(config_flag(c, "model.standardise"), 1);
    assert_int_equal(config_column(c, "model.label"), 3);
    assert_int_equal(config_count(c, "model.features"), 0);
    assert_int_equal(config_has(c, "model.train"), 0);
    config_free(c);

    c = runtext_resolved(TOY);
    assert_string_equal(config_text(c, "init.type"), "model");
    assert_true(config_vector(c, "model.y", &n)[1] == 2 && n == 2);
    config_free(c);
}

/* Points to fit: a bare value is a file, and what a generator does by default depends on which it is. */
static void training_points(void **state)
{
    static const struct {
        const char *type;
        double scale, noise;
    } made[] = {{"two_moons", 2.2, 0.08}, {"circles", 2.5, 0.02}, {"blobs", 2, 0}};
    char text[400];
    int rows, cols;
    config *c = runtext_resolved(FIT "/d/points.csv\n  batch: 0\n");
    assert_string_equal(config_text(c, "objective.data.type"), "file");
    assert_string_equal(config_text(c, "objective.data.file"), "/d/points.csv");
    assert_true(config_number(c, "objective.data.scale") == 1 && !config_flag(c, "objective.data.standardise"));
    assert_false(config_has(c, "objective.data.points") || config_has(c, "objective.data.seed"));
    assert_string_equal(config_text(c, "objective.batches"), "random");
    assert_int_equal(config_set(c, "objective.data=/e.npy", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "objective.data.file"), "/e.npy");
    assert_int_equal(config_set(c, "objective.data={type: circles, factor: 0.3}", runtext_error, sizeof runtext_error),
                     0);
    runtext_resolve(c);
    assert_true(config_number(c, "objective.data.factor") == 0.3 && !config_has(c, "objective.data.file"));
    config_free(c);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, FIT "{type: %s}\n  batch: 8\n  batches: epochs\n", made[i].type);
        c = runtext_resolved(text);
        assert_int_equal(config_integer(c, "objective.data.points"), 20000);
        assert_true(config_number(c, "objective.data.scale") == made[i].scale);
        assert_true(config_flag(c, "objective.data.standardise") && config_unsigned(c, "objective.data.seed") == 0);
        assert_true(i == 2 ? config_number(c, "objective.data.sd") == 0.5
                           : config_number(c, "objective.data.noise") == made[i].noise);
        assert_string_equal(config_text(c, "objective.batches"), "epochs");
        const double *centres = config_matrix(c, "objective.data.centres", &rows, &cols);
        assert_true(i == 2 ? rows == 3 && cols == 2 && centres[0] == 0.97627 && centres[5] == 2.91788 : !centres);
        config_free(c);
    }
}

static void numbers_and_flags(void **state)
{
    static const struct {
        const char *text;
        double value;
    } numbers[] = {{"1.0e-9", 1e-9}, {"1e-9", 1e-9}, {".5", 0.5},   {"5.", 5},    {"+2", 2},
                   {"1E3", 1000},    {"010", 10},    {"1.e2", 100}, {"0.1", 0.1}, {"1e+2", 100}};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "ON"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "off", "OFF"};
    char text[400];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(text, sizeof text, SMALL "kernel: {step: %s}\n", numbers[i].text);
        config *c = runtext_resolved(text);
        assert_true(config_number(c, "kernel.step") == numbers[i].value);
        config_free(c);
    }
    for (int i = 0; i < 7; i++) {
        snprintf(text, sizeof text, SMALL "output: {report: %s, particles: %s}\n", yes[i], no[i]);
        config *c = runtext_resolved(text);
        assert_true(config_flag(c, "output.report") == 1 && config_flag(c, "output.particles") == 0);
        config_free(c);
    }
    config *c = runtext_resolved(SMALL "particles: 1e4\nseed: 18446744073709551615\niterations: 9007199254740992\n");
    assert_int_equal(config_integer(c, "particles"), 10000);
    assert_true(config_unsigned(c, "seed") == UINT64_MAX);
    assert_true(config_integer(c, "iterations") == (int64_t)1 << 53);
    config_free(c);
    c = runtext_resolved(SMALL "seed: 1e3\nresampling: {threshold: always}\n");
    assert_int_equal(config_unsigned(c, "seed"), 1000);
    assert_true(config_number(c, "resampling.threshold") == 2);
    assert_int_equal(config_set(c, "resampling.threshold=never", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    assert_true(config_number(c, "resampling.threshold") == 0);
    config_free(c);
}

static void shorthands_and_aliases(void **state)
{
    int n;
    config *c = runtext_resolved(
        "model: &m {type: gaussian_mixture, means: [&a [1, 2], *a], theta: &t [3, 4]}\n"
        "objective: {type: reward_forward, reward: \"1\", reference: {theta: *t}}\n"
        "kernel: rwm\nscheme: soul\nresampling: ssp\noptimiser: {type: sgd, schedule: constant}\ninit: normal\n");
    assert_true(config_vector(c, "objective.reference.theta", &n)[1] == 4 && n == 2);
    assert_string_equal(config_text(c, "kernel.type"), "rwm");
    assert_string_equal(config_text(c, "resampling.scheme"), "ssp");
    assert_string_equal(config_text(c, "objective.reward.formula"), "1");
    assert_string_equal(config_text(c, "init.type"), "normal");
    config_free(c);
    c = runtext_resolved(SMALL "adapt: null\nkernel: ~\nsettings: explicit\n"); /* null is the default */
    assert_int_equal(config_count(c, "adapt"), 1);
    assert_string_equal(config_text(c, "kernel.type"), "mala");
    config_free(c);
    c = runtext_resolved("\xEF\xBB\xBF# with a byte order mark\r\n---\r\n" SMALL "...\n");
    config_free(c);
}

static void columns(void **state)
{
    config *c = runtext_resolved(
        "model: {type: logistic_regression, data: /d.csv, label: '3', features: [a, 2, \"4\"],\n"
        "  train: {column: 5, value: 1}}\nobjective: mmle\n");
    assert_int_equal(config_column(c, "model.label"), 0);
    assert_string_equal(config_text(c, "model.label"), "3");
    assert_int_equal(config_count(c, "model.features"), 3);
    assert_int_equal(config_column(c, "model.features.0"), 0);
    assert_int_equal(config_column(c, "model.features.1"), 2);
    assert_int_equal(config_column(c, "model.features.2"), 0);
    assert_int_equal(config_column(c, "model.train.column"), 5);
    assert_string_equal(config_text(c, "model.train.value"), "1");
    char *text = runtext_written(c);
    config *again = runtext_resolved(text);
    assert_int_equal(config_column(again, "model.label"), 0);
    assert_int_equal(config_column(again, "model.features.1"), 2);
    assert_string_equal(config_text(again, "model.features.2"), "4");
    assert_string_equal(config_text(again, "model.train.value"), "1");
    config_free(again);
    config_free(c);
    free(text);
}

/* A default that depends on whether another key is written. */
static void network_given_is_network_meant(void **state)
{
    config *c = runtext_resolved("model: {type: stored, file: a.npz}\nobjective:\n  type: reward_reverse\n"
                                 "  reward: {network: judge.npz, output: 3}\n");
    assert_string_equal(config_text(c, "objective.reward.type"), "network");
    assert_int_equal(config_integer(c, "objective.reward.output"), 3);
    config_free(c);
    c = runtext_resolved("model: {type: stored, file: a.npz}\nobjective: {type: reward_reverse, reward: x1}\n");
    assert_string_equal(config_text(c, "objective.reward.type"), "formula");
    config_free(c);
}

/* ---------------------------------------------------------------------------- table, manual, examples */

static int same_path(const schema_key *a, const schema_key *b)
{
    return a->path && b->path && !strcmp(a->path, b->path);
}

static void check_place(const schema_key *row)
{
    char parent[100];
    snprintf(parent, sizeof parent, "%.*s", (int)schema_parent_length(row->path), row->path);
    const schema_key *above = *parent ? schema_find(parent) : NULL;
    assert_true(!*parent || (above && above < row && (above->type == TYPE_MAP || above->type == TYPE_RULES)));
    const schema_key *first = schema_find(row->path);
    for (const schema_key *r = first; r < row; r++) assert_true(same_path(r, row) && r->type == row->type);
    assert_true(same_path(first, row) && (first == row || (first->when && row->when)));
    assert_true(row->meaning && row->meaning[strlen(row->meaning) - 1] != ' ');
}

static void check_condition(const schema_key *row)
{
    char selector[100], word[64];
    if (!row->when) return;
    const char *words = strchr(row->when, '=') + 1;
    snprintf(selector, sizeof selector, "%.*s", (int)(words - row->when) - 1, row->when);
    const schema_key *by = schema_find(selector);
    assert_true(by && by < row && by->type == TYPE_CHOICE);
    while (schema_word(&words, word, sizeof word)) {
        int known = 0;
        for (const schema_key *r = by; same_path(r, by); r++) known |= schema_has_word(r->allowed, word);
        assert_true(known);
    }
    for (const schema_key *r = schema_find(row->path); r < row; r++) { /* no value selects two rows */
        const char *others = strchr(r->when, '=') + 1;
        assert_int_equal(strncmp(r->when, row->when, (size_t)(others - r->when)), 0);
        while (schema_word(&others, word, sizeof word)) assert_false(schema_has_word(strchr(row->when, '=') + 1, word));
    }
}

/* The keys that decide a default exist, and those whose values do stand before it. `settings`, the first key, alone looks ahead:
 * at words that only the file itself can hold. */
static void check_one_condition(const schema_key *row, const char *when)
{
    char path[PATH_ROOM];
    size_t length = strcspn(when, "=");
    if (*when == '@') {
        assert_string_equal(when + 1, schema_chosen);
        for (const char *list = schema_chosen; schema_word(&list, path, sizeof path);)
            assert_non_null(schema_find(path));
        return;
    }
    snprintf(path, sizeof path, "%.*s", (int)length, when);
    const schema_key *by = schema_find(path);
    int in_file = by &&
                  (by->fallback == REQUIRED || (when[length] && !schema_has_word(when + length + 1, by->fallback)));
    assert_true(by && (!when[length] || by < row || (row == schema_keys && in_file)));
}

static void check_cases(const schema_key *row)
{
    char when[PATH_ROOM], value[PATH_ROOM], one[PATH_ROOM], last[PATH_ROOM] = "none";
    for (const char *rule = row->fallback + 1; schema_case(&rule, when, value);) {
        snprintf(last, sizeof last, "%s", when);
        assert_true(*value);
        for (char *at = when; *at; at += strcspn(at, "&") + (at[strcspn(at, "&")] == '&')) {
            snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "&"), at);
            check_one_condition(row, one);
        }
    }
    assert_string_equal(last, "");
}

static void table_is_sound(void **state)
{
    char word[64];
    for (const schema_key *row = schema_keys; row->path; row++) {
        check_place(row);
        check_condition(row);
        if (row->type == TYPE_CHOICE || row->type == TYPE_LEVEL) {
            const char *words = schema_words(row);
            while (schema_word(&words, word, sizeof word)) assert_non_null(schema_meaning(row->path, word));
        }
        if (row->fallback && row->fallback[0] == '?') check_cases(row);
        if (row->fallback && row->fallback[0] == '=') {
            const char *space = strchr(row->fallback, ' ');
            assert_non_null(schema_find(space ? space + 1 : row->fallback + 1));
        }
    }
    for (const schema_choice *choice = schema_choices; choice->path; choice++) {
        int known = 0;
        for (const schema_key *row = schema_keys; row->path; row++)
            known |= !strcmp(row->path, choice->path) && schema_has_word(schema_words(row), choice->name);
        assert_true(known);
    }
}

/* SOSMC_UPDATE_DOCS=1 rewrites the manual instead of comparing it. */
static void manual_is_current(void **state)
{
    char path[4096], *text = NULL;
    size_t length = 0;
    if (!runtext_source("docs/run-file.md", path)) skip();
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    config_document(out);
    fclose(out);
    for (const schema_key *row = schema_keys; row->path; row++) assert_non_null(strstr(text, row->path));
    if (getenv("SOSMC_UPDATE_DOCS")) runtext_save(path, text);
    char *stored = runtext_read(path);
    assert_non_null(stored);
    if (strcmp(stored, text) != 0) fail_msg("docs/run-file.md is out of date: run this test with SOSMC_UPDATE_DOCS=1");
    free(stored);
    free(text);
}

/* What belongs to run files that other programs hold, which `sosmc run` cannot run. tests/embed has them. */
static int is_own(const char *word) { return word && (!strcmp(word, "own") || !strcmp(word, "model.type=own")); }

/* Each example resolves and replays, and together they use every key and every choice. (Names of methods are resolved away:
 * docs/paper.md has them.) */
static void examples_cover_everything(void **state)
{
    enum { MOST = 300 };
    char used[MOST] = {0}, chosen[MOST] = {0};
    runtext_files f = {0};
    if (runtext_examples(&f)) skip();
    for (size_t e = 0; e < f.found.gl_pathc; e++) {
        config *c = config_load(f.found.gl_pathv[e], runtext_error, sizeof runtext_error);
        if (!c || config_resolve(c, runtext_error, sizeof runtext_error)) fail_msg("%s", runtext_error);
        runtext_assert_replays(c);
        for (int i = 0; schema_keys[i].path; i++)
            if (config_line(c, schema_keys[i].path) > 0) used[i] = 1;
        for (int i = 0; schema_keys[i].path; i++) /* rules of a list of two */
            for (int k = 0; k < config_count(c, "adapt") && schema_is_child(&schema_keys[i], "adapt"); k++) {
                char path[100];
                snprintf(path, sizeof path, "adapt.%d.%s", k, schema_leaf(schema_keys[i].path));
                if (config_line(c, path) > 0) used[i] = 1;
            }
        for (int i = 0; schema_choices[i].path; i++) {
            const char *text = config_text(c, schema_choices[i].path);
            if (text && config_line(c, schema_choices[i].path) > 0 && !strcmp(text, schema_choices[i].name))
                chosen[i] = 1;
        }
        for (int k = 0; k < config_count(c, "adapt"); k++)
            for (int i = 0; schema_choices[i].path; i++) {
                char path[100];
                snprintf(path, sizeof path, "adapt.%d.%s", k, schema_leaf(schema_choices[i].path));
                if (!strncmp(schema_choices[i].path, "adapt.", 6) && config_line(c, path) > 0 &&
                    !strcmp(config_text(c, path), schema_choices[i].name))
                    chosen[i] = 1;
            }
        config_free(c);
    }
    for (int i = 0; schema_keys[i].path; i++)
        if (!used[i] && !is_own(schema_keys[i].when)) fail_msg("no example uses the key %s", schema_keys[i].path);
    for (int i = 0; schema_choices[i].path; i++)
        if (!chosen[i] && !schema_method_named(schema_choices[i].name) && !is_own(schema_choices[i].name))
            fail_msg("no example has %s: %s", schema_choices[i].path, schema_choices[i].name);
    globfree(&f.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_of_the_manual),
        cmocka_unit_test(defaults_of_the_library),
        cmocka_unit_test(derived_defaults),
        cmocka_unit_test(training_points),
        cmocka_unit_test(numbers_and_flags),
        cmocka_unit_test(shorthands_and_aliases),
        cmocka_unit_test(columns),
        cmocka_unit_test(network_given_is_network_meant),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(manual_is_current),
        cmocka_unit_test(examples_cover_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
