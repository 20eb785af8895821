/* test_keys_read.c: no key of a run file is accepted and then ignored. Every key that a resolved file has, written or by
 * default, is asked for while the job is built; those of `evaluate` and `output` are asked for by the run itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "runfile/config.h"
#include "job/problem.h"
#include "job/problem_inside.h"
#include "runtext.h"
#include "runfile/schema.h"

static char error[1024];
#define ERROR error, sizeof error

static int belongs_to_the_run(const char *path)
{
    return strncmp(path, "evaluate.", 9) == 0 || strncmp(path, "output.", 7) == 0;
}

/* Builds the job of a resolved file, and counts and names the keys that nobody asked for. */
static int unread_keys(config *c, const char *name)
{
    job j;
    int io = 0, at = 0, count = 0;
    config_watch(c);
    if (job_build(&j, c, &io, ERROR)) fail_msg("%s: %s", name, error);
    job_free(&j);
    for (const char *path; (path = config_unread(c, &at));) {
        if (belongs_to_the_run(path)) continue;
        print_error("%s: %s is accepted and ignored\n", name, path);
        count++;
    }
    return count;
}

static void every_key_of_every_example(void **state)
{
    runtext_files f;
    int count = 0;
    if (runtext_examples(&f)) skip();
    for (size_t i = 0; i < f.found.gl_pathc; i++) {
        config *c = config_load(f.found.gl_pathv[i], ERROR);
        if (!c || config_resolve(c, ERROR)) fail_msg("%s", error);
        count += unread_keys(c, f.found.gl_pathv[i]);
        config_free(c);
    }
    globfree(&f.found);
    assert_int_equal(count, 0);
}

#define MIXTURE "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"
#define POINTS "model: {type: mlp, hidden: [4], base: gaussian}\n"
#define PICTURES "model: {type: network, layers: \"1x12x12; dense 1; base 1\"}\n"
#define SEEN "model: {type: deblur, picture: $/data/blocks_blurred.png, noise: 5}\n"
#define REVERSE "objective: {type: reward_reverse, reward: "
#define FITTED "objective: {type: ebm_likelihood, data: "

/* One file at least for every word of every choice that the job is built from. Data files are those of examples/. */
static const char *const files[] = {
    MIXTURE REVERSE "x1}\n",
    MIXTURE REVERSE "{type: hard_gate, center: [0, 0], tau: 1}}\n",
    MIXTURE REVERSE "{type: smooth_gate, center: [0, 0], tau: 1, lambda: 1}}\n",
    MIXTURE REVERSE "{type: multi_modal, centers: [[0, 0]], tau: 1}}\n",
    MIXTURE REVERSE "{type: half_plane, normal: [1, 0]}}\n",
    MIXTURE "objective: {type: reward_forward, reward: x1}\n",
    PICTURES REVERSE "{type: bright}}\ninit: {type: uniform}\n",
    PICTURES REVERSE "{type: dark}}\ninit: normal\n",
    PICTURES REVERSE "{type: half}}\ninit: base\n",
    MIXTURE "objective: none\n",
    MIXTURE "objective: anneal\n",
    MIXTURE "objective: {type: anneal, reward: x1}\n",
    SEEN "objective: none\n",
    SEEN "objective: anneal\nkernel: myula\n",
    POINTS "objective: none\ninit: uniform\nscheme: unweighted\n",
    POINTS "objective: anneal\n",
    MIXTURE FITTED "{type: two_moons}}\n",
    MIXTURE FITTED "{type: circles}, batch: 5, batches: epochs}\n",
    MIXTURE FITTED "{type: blobs}}\ninit: normal\n",
    MIXTURE FITTED "$/data/points.csv}\nscheme: cd\n",
    POINTS FITTED "{type: circles}}\ninit: base\n",
    POINTS FITTED "{type: circles}}\ninit: {type: uniform}\nscheme: pcd\n",
    "model: {type: mlp, hidden: [4], base: gaussian, base_sd: 2}\n" FITTED "{type: circles}}\ninit: normal\n",
    "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\n",
    "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\ninit: normal\n",
    "model: {type: hierarchical_gaussian, y: [1, 2]}\nscheme: jala_em\n",
    "model: {type: hierarchical_gaussian, y: [1, 2]}\nscheme: pgd\n",
    "model: {type: hierarchical_gaussian, y: [1, 2]}\nscheme: ipla\n",
    SEEN "scheme: mypgd\n",
    SEEN "scheme: myipla\ninit: normal\n",
    SEEN "objective: mmle\nkernel: gibbs\n",
    SEEN "objective: mmle\nkernel: mymala\n",
    "model: {type: deblur, picture: $/data/blocks_blurred.png, noise: 5, blur: box}\nobjective: mmle\n",
    "model: {type: deblur, picture: $/data/blocks_blurred.png, noise: 5, blur: gaussian}\nobjective: mmle\n",
    "model: {type: deblur, picture: $/data/blocks_blurred.png, noise: 5, blur: motion}\nobjective: mmle\n",
    SMALL "precision: 0.1\nlimits: {seconds: 5, evaluations: 1000}\n",
    SMALL "settings: explicit\n",
    SMALL "settings: paper\n",
    SMALL "scheme: impdiff\n",
    SMALL "scheme: impdiff_printed\n",
    SMALL "scheme: unweighted\n",
    SMALL "scheme: soul\n",
    SMALL "scheme: pcd\nkernel: jitter\n",
    SMALL "kernel: ula\n",
    SMALL "kernel: mala\n",
    SMALL "kernel: rwm\n",
    SMALL "kernel: hmc\n",
    SMALL "kernel: underdamped\n",
    SMALL "kernel: leapfrog\n",
    SMALL "kernel: rwm\nadapt: [{signal: accept}, {target: rate}]\n",
    SMALL "optimiser: sgd\n",
    SMALL "optimiser: momentum\n",
    SMALL "optimiser: nesterov\n",
    SMALL "optimiser: rmsprop\n",
    SMALL "optimiser: adagrad\n",
    SMALL "optimiser: {type: adam, low: -1, high: 1, average: 1}\n",
    SMALL "optimiser: {type: adamw, low: -1}\n",
    SMALL "optimiser: {schedule: constant}\n",
    SMALL "optimiser: {schedule: {type: robbins_monro, a: 10}}\n",
    SMALL "optimiser: {schedule: {type: exponential, a: 10}}\n",
    SMALL "optimiser: {schedule: {type: cosine}}\n",
    SMALL "optimiser: {schedule: {type: steps, a: 10, b: 0.5}}\n",
};

/* What files lend whose model belongs to another program. */
static void the_keys_of_an_own_model(void **state)
{
    static const double theta0[] = {0};
    static const sosmc_hierarchical law = {.dim = 1, .y = theta0};
    sosmc_model model = sosmc_hierarchical_model(&law);
    job_own own = {.model = &model, .theta0 = theta0};
    config *c = runtext_resolved("model: {type: own, dim_x: 1, dim_theta: 1}\nobjective: mmle\n");
    config_lend(c, &own);
    assert_int_equal(unread_keys(c, "own"), 0);
    config_free(c);
    c = runtext_resolved("model: {type: own, dim_x: 2, dim_theta: 1}\nobjective: mmle\n");
    config_lend(c, &own);
    job j;
    int io;
    assert_int_equal(job_build(&j, c, &io, ERROR), -1);
    assert_non_null(strstr(error, "model.dim_x is 2; the model of this program has 1"));
    job_free(&j);
    config_free(c);
}

static void every_key_of_every_type(void **state)
{
    int count = 0;
    char text[4 * RUNTEXT_PATH];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!runtext_beside_examples(files[i], text)) skip();
        config *c = config_parse(text, "file", ERROR);
        if (!c || config_resolve(c, ERROR)) fail_msg("%s\n%s", error, text);
        count += unread_keys(c, files[i]);
        config_free(c);
    }
    assert_int_equal(count, 0);
}

/* The table of kinds has the words that the schema offers, in the same order. */
static void kinds_are_those_of_the_schema(void **state)
{
    const char *words = schema_find("model.type")->allowed;
    char word[64];
#define NEXT(kind) assert_true(schema_word(&words, word, sizeof word) && strcmp(word, #kind) == 0);
    MODEL_KINDS(NEXT)
#undef NEXT
    assert_false(schema_word(&words, word, sizeof word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_every_example), cmocka_unit_test(every_key_of_every_type),
        cmocka_unit_test(the_keys_of_an_own_model), cmocka_unit_test(kinds_are_those_of_the_schema)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
