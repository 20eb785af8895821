/* test_methods.c: names of published methods as schemes: each is the file that writes out what it means, and docs/paper.md,
 * which has them all, holds nothing that does not resolve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "runfile/config.h"
#include "folder.h"
#include "commands/list.h"
#include "job/problem.h"
#include "runtext.h"
#include "runfile/schema.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

#define PICTURE "model: {type: deblur, picture: /a.png, noise: 1}\n"
#define POINTS "objective: {type: ebm_likelihood, data: /points.csv}\n"
#define MIXTURE "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"

/* ---------------------------------------------------------------------------- what they are */

static char *resolved(const char *text)
{
    config *c = runtext_resolved(text);
    runtext_assert_replays(c);
    char *out = runtext_written(c);
    config_free(c);
    return out;
}

static void each_is_what_it_means(void **state)
{
    static const struct {
        const char *name, *means;
    } cases[] = {
        {TOY "scheme: jala_em\n", TOY "scheme: sosmc\nkernel: ula\n"},
        {TOY "scheme: pgd\n", TOY "scheme: unweighted\nkernel: ula\n"},
        {PICTURE "scheme: mypgd\n", PICTURE "objective: mmle\nscheme: unweighted\nkernel: myula\n"},
        {TOY "scheme: ipla\n", TOY "scheme: unweighted\nkernel: ula\noptimiser: {type: sgd, noise: 1}\n"},
        {PICTURE "scheme: myipla\n",
         PICTURE "objective: mmle\nscheme: unweighted\nkernel: myula\noptimiser: {type: sgd, noise: 1}\n"},
        {MIXTURE POINTS "scheme: cd\n", MIXTURE POINTS "scheme: {type: pcd, refresh: 1}\ninit: data\n"},
        /* what is written besides stays, also where it agrees */
        {TOY "scheme: {type: pgd, order: authors}\nkernel: {step: 0.2}\n",
         TOY "scheme: {type: unweighted, order: authors}\nkernel: {type: ula, step: 0.2}\n"},
        {TOY "scheme: ipla\noptimiser: {rate: 0.3, noise: 1.0}\nkernel: ula\n",
         TOY "scheme: unweighted\nkernel: ula\noptimiser: {type: sgd, rate: 0.3, noise: 1}\n"},
        {MIXTURE POINTS "scheme: {type: cd, sweeps: 1}\n",
         MIXTURE POINTS "scheme: {type: pcd, refresh: 1, sweeps: 1}\ninit: data\n"},
        /* schemes of their own, with the moves they are published with */
        {SMALL "scheme: impdiff\n", SMALL "scheme: impdiff\nkernel: ula\n"},
        {SMALL "scheme: soul\n", SMALL "scheme: soul\nkernel: ula\n"},
        {MIXTURE POINTS "scheme: pcd\n", MIXTURE POINTS "scheme: pcd\nkernel: ula\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = resolved(cases[i].name), *means = resolved(cases[i].means);
        assert_string_equal(name, means);
        free(name);
        free(means);
    }
}

static void contradictions(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {TOY "scheme: pgd\nkernel: hmc\n",
         "run.yaml:4: scheme pgd means kernel.type ula, and here it is hmc; write scheme: "
         "unweighted to combine them"},
        {SMALL "scheme: jala_em\n",
         "run.yaml:2: scheme jala_em means objective.type mmle, and here it is reward_forward; "
         "write scheme: sosmc to combine them"},
        {TOY "scheme: ipla\noptimiser: {noise: 0.5}\n",
         "run.yaml:4: scheme ipla means optimiser.noise 1, and here it is "
         "0.5; write scheme: unweighted to combine them"},
        {TOY "scheme: ipla\noptimiser: {type: [1]}\n",
         "run.yaml:4: scheme ipla means optimiser.type sgd, and here it is "
         "not a single value; write scheme: unweighted to combine them"},
        {MIXTURE POINTS "scheme: {type: cd, refresh: 0.5}\n",
         "run.yaml:3: scheme cd means scheme.refresh 1, and here it "
         "is 0.5; write scheme: pcd to combine them"},
        {TOY "scheme: pgd\nkernel: [1]\n", "run.yaml:4: kernel is a list; expected a mapping of keys to values"},
        {TOY "scheme: {type: pgd, sweep: 2}\n",
         "run.yaml:3: unknown key 'scheme.sweep'; did you mean 'scheme.sweeps'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(runtext_complaint(cases[i].text), cases[i].message);
    assert_non_null(strstr(runtext_complaint(TOY "scheme: pgdd\n"), "(did you mean 'pgd'?)"));
    assert_non_null(strstr(runtext_complaint(TOY "scheme: jala-em\n"), "(did you mean 'jala_em'?)"));
    assert_non_null(strstr(runtext_complaint(TOY "scheme: mypla\n"), "(did you mean 'myipla'?)"));
}

/* What a name filled in goes with the name. */
static void a_name_can_be_taken_back(void **state)
{
    config *c = runtext_resolved(TOY "settings: explicit\n");
    char *first = runtext_written(c);
    assert_int_equal(config_set(c, "scheme=ipla", ERROR), 0);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "optimiser.type"), "sgd");
    assert_int_equal(config_line(c, "optimiser.type"), 0);
    runtext_resolve(c); /* the name is still known */
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    assert_int_equal(config_set(c, "kernel.type=mala", ERROR), 0);
    assert_int_equal(config_resolve(c, ERROR), -1);
    assert_string_equal(error, "--set kernel.type=mala: scheme ipla means kernel.type ula, and here it is mala; write "
                               "scheme: unweighted to combine them");
    assert_int_equal(config_set(c, "kernel=null", ERROR), 0);
    assert_int_equal(config_set(c, "scheme=sosmc", ERROR), 0);
    runtext_resolve(c);
    char *second = runtext_written(c);
    assert_string_equal(first, second);
    free(first);
    free(second);
    config_free(c);
}

static void all_are_listed(void **state)
{
    char *text = NULL, line[200];
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    list_choices(out);
    fclose(out);
    for (const schema_method *m = schema_methods; m->name; m++) {
        snprintf(line, sizeof line, "  %-22s %s\n", m->name, schema_meaning("scheme.type", m->name));
        assert_non_null(strstr(text, line));
    }
    free(text);
}

/* ---------------------------------------------------------------------------- contrastive divergence */

enum { ROWS = 40, PARTICLES = 64 };

static int is_row(const double *x)
{
    for (int i = 0; i < ROWS; i++)
        if (fabs(x[0] - i) < 1e-9 && fabs(x[1] + i) < 1e-9) return 1;
    return 0;
}

/* Steps too small to be seen leave the particles where they began, and in every iteration they begin at other points. */
static void chains_restart_from_the_data(void **state)
{
    double x[2 * PARTICLES], before[2 * PARTICLES] = {0};
    sosmc *engine = NULL;
    char text[2048] = "x,y\n";
    job j;
    int io;
    for (int i = 0; i < ROWS; i++) snprintf(text + strlen(text), 32, "%d,%d\n", i, -i);
    runtext_save(folder_path(folder, "points.csv"), text);
    snprintf(text, sizeof text,
             MIXTURE "objective: {type: ebm_likelihood, data: '%s', batch: 8, batches: epochs}\nscheme: cd\n"
                     "kernel: {step: 1e-26}\nparticles: %d\n",
             folder_path(folder, "points.csv"), PARTICLES);
    config *c = runtext_resolved(text);
    if (job_build(&j, c, &io, ERROR)) fail_msg("%s", error);
    assert_int_equal(sosmc_create(&engine, &j.problem, &j.settings), SOSMC_OK);
    for (int k = 0; k < 5; k++) {
        int moved = 0;
        assert_int_equal(sosmc_step(engine), SOSMC_OK);
        assert_int_equal(sosmc_cloud(engine, x, NULL), SOSMC_OK);
        for (int i = 0; i < PARTICLES; i++) {
            assert_true(is_row(x + 2 * i));
            moved += fabs(x[2 * i] - before[2 * i]) > 0.5;
        }
        assert_true(moved > PARTICLES / 2);
        memcpy(before, x, sizeof x);
    }
    sosmc_free(engine);
    job_free(&j);
    config_free(c);
}

static void a_start_from_data_needs_data_and_no_weights(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {SMALL "scheme: pcd\ninit: data\n", "init.type is data, but objective.type reward_forward has no points"},
        {"model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"
         "objective: {type: ebm_likelihood, data: {type: circles, points: 10}}\ninit: data\nscheme: sosmc\n",
         "init.type is data, whose law has no density"}};
    for (int i = 0; i < 2; i++) {
        job j;
        int io;
        config *c = runtext_resolved(cases[i].text);
        assert_int_equal(job_build(&j, c, &io, ERROR), -1);
        assert_non_null(strstr(error, cases[i].message));
        job_free(&j);
        config_free(c);
    }
}

/* ---------------------------------------------------------------------------- the page */

/* A snippet without a model stands in a file that has one, and an objective. */
static void resolve_snippet(const char *snippet)
{
    char text[8192];
    int model = !strncmp(snippet, "model:", 6) || strstr(snippet, "\nmodel:");
    int objective = !strncmp(snippet, "objective:", 10) || strstr(snippet, "\nobjective:");
    snprintf(text, sizeof text, "%s\n%s%s", snippet, model ? "" : MIXTURE,
             model || objective ? "" : "objective: {type: reward_forward, reward: x1}\n");
    config *c = config_parse(text, "docs/paper.md", ERROR);
    if (!c || config_resolve(c, ERROR)) fail_msg("%s\nin:\n%s", error, snippet);
    runtext_assert_replays(c);
    config_free(c);
}

static void the_page_resolves(void **state)
{
    char path[RUNTEXT_PATH], snippet[4096];
    int count = 0;
    if (!runtext_source("docs/paper.md", path)) skip();
    char *page = runtext_read(path);
    assert_non_null(page);
    for (const char *at = strstr(page, "```yaml\n"); at; at = strstr(at, "```yaml\n"), count++) {
        at += strlen("```yaml\n");
        const char *end = strstr(at, "```");
        assert_non_null(end);
        snprintf(snippet, sizeof snippet, "%.*s", (int)(end - at), at);
        resolve_snippet(snippet);
    }
    assert_true(count > 10);
    for (const schema_choice *c = schema_choices; c->path; c++) { /* no method, kernel or objective is forgotten */
        int named = !strcmp(c->path, "scheme.type") || !strcmp(c->path, "kernel.type") ||
                    !strcmp(c->path, "objective.type");
        snprintf(snippet, sizeof snippet, "`%s`", c->name);
        if (named && !strstr(page, snippet)) fail_msg("docs/paper.md does not have %s %s", c->path, c->name);
    }
    free(page);
}

/* 20,000 is 20000. */
static double number_of(const char *cell)
{
    char digits[64];
    size_t n = 0;
    for (; *cell && *cell != '|' && n + 1 < sizeof digits; cell++)
        if (*cell != ',') digits[n++] = *cell;
    digits[n] = 0;
    return strtod(digits, NULL);
}

/* Rows that end with a run file of the plane and its key hold the value of that key. */
static void constants_of_the_plane(void **state)
{
    char path[RUNTEXT_PATH], constant[96], text[3][32], file[64], key[64], name[128];
    int rows = 0;
    if (!runtext_source("docs/paper.md", path)) skip();
    char *page = runtext_read(path);
    assert_non_null(page);
    for (const char *line = strstr(page, "\n| scale of circles"); line && line[1] == '|';
         line = strchr(line + 1, '\n')) {
        if (sscanf(line + 1, "| %95[^|]| %31[^|]| %31[^|]| %31[^|]| `%63[^`]` `%63[^`]`", constant, text[0], text[1],
                   text[2], file, key) != 6)
            continue;
        (void)snprintf(name, sizeof name, "experiments/ebm2d/%s", file);
        if (!runtext_source(name, path)) skip();
        config *c = config_load(path, ERROR);
        if (!c || config_resolve(c, ERROR)) fail_msg("%s: %s", path, error);
        int list = !strcmp(key, "init.high"), word = !strcmp(key, "model.file"), n = 0;
        double here = list ? config_vector(c, key, &n)[0] : word ? 0 : config_number(c, key);
        if (word ? !strstr(config_text(c, key), "/circles.safetensors") || strncmp(text[2], "circles", 7) != 0
                 : !(here == number_of(text[2])))
            fail_msg("docs/paper.md: %s is %s; %s has %s: %g", constant, text[2], file, key, here);
        rows++;
        config_free(c);
    }
    assert_int_equal(rows, 24);
    free(page);
}

static int make_folder(void **state) { return folder_make(folder, "test_methods"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_what_it_means),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(a_name_can_be_taken_back),
        cmocka_unit_test(all_are_listed),
        cmocka_unit_test(chains_restart_from_the_data),
        cmocka_unit_test(a_start_from_data_needs_data_and_no_weights),
        cmocka_unit_test(the_page_resolves),
        cmocka_unit_test(constants_of_the_plane),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
