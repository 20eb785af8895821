/* test_config.c: run files. What is right is read as written, what is wrong is named, what is hostile is survived; and
 * the table of keys, the manual and the examples tell the same story. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sosmc/sosmc.h>

#include "config.h"
#include "schema.h"

static char error[2048];

/* The smallest run file there is. */
#define SMALL \
    "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\nobjective: {type: reward_forward, reward: x1}\n"
#define LOGIT "model: {type: logistic_regression, data: d.csv, label: 3}\nobjective: mmle\n"
/* An objective that wants points, up to the value of `data`. */
#define FIT "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\nobjective:\n  type: ebm_likelihood\n  data: "
#define TOY "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\n"

static config *parse(const char *text)
{
    config *c = config_parse(text, "run.yaml", error, sizeof error);
    if (!c) fail_msg("%s", error);
    return c;
}

static void must_resolve(config *c)
{
    if (config_resolve(c, error, sizeof error)) fail_msg("%s", error);
    assert_string_equal(error, "");
}

static config *resolved(const char *text)
{
    config *c = parse(text);
    must_resolve(c);
    return c;
}

static char *written(const config *c)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(config_write(c, out), 0);
    fclose(out);
    return text;
}

/* What resolving this text says. */
static const char *complaint(const char *text)
{
    config *c = config_parse(text, "run.yaml", error, sizeof error);
    if (!c) return error;
    if (config_resolve(c, error, sizeof error) == 0) snprintf(error, sizeof error, "nothing is wrong");
    config_free(c);
    return error;
}

/* What setting this on top of a text says. */
static const char *set_complaint(const char *text, const char *assignment)
{
    config *c = parse(text);
    if (!config_set(c, assignment, error, sizeof error) && !config_resolve(c, error, sizeof error))
        snprintf(error, sizeof error, "nothing is wrong");
    config_free(c);
    return error;
}

/* tests/.. of the source tree, or NULL when nobody said where that is. */
static const char *source_path(const char *rest, char out[4096])
{
    const char *tests = getenv("SOSMC_TEST_SOURCE");
    if (!tests) return NULL;
    snprintf(out, 4096, "%s/../%s", tests, rest);
    return out;
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) return NULL;
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, in) < (1 << 20) - 1);
    fclose(in);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* ---------------------------------------------------------------------------- what is right */

static void example_of_the_manual(void **state)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    config_document(out);
    fclose(out);
    char *begin = strstr(text, "```yaml\n"), *end = begin ? strstr(begin, "\n```\n") : NULL;
    if (!end)
        fail_msg("the manual has no example");
    else
        end[1] = 0;
    config *c = resolved(begin + 8);
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
    config *c = resolved(SMALL "adapt: {}\n");
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

    c = resolved(SMALL "scheme: pcd\nparticles: 7");
    assert_true(config_number(c, "scheme.refresh") == pcd.refresh && config_integer(c, "scheme.keep") == pcd.keep);
    assert_int_equal(config_integer(c, "scheme.pool"), 7);
    config_free(c);
    c = resolved(SMALL "scheme: soul\nparticles: 9");
    assert_int_equal(config_integer(c, "scheme.sweeps"), soul.sweeps);
    assert_int_equal(config_integer(c, "scheme.keep"), soul.keep);
    config_free(c);
    c = resolved(SMALL "kernel: hmc");
    assert_int_equal(config_integer(c, "kernel.leapfrog"), cfg.kernel.leapfrog);
    assert_true(config_number(c, "kernel.mass") == cfg.kernel.mass);
    config_free(c);
    c = resolved(SMALL "kernel: underdamped");
    assert_true(config_number(c, "kernel.friction") == 1 && config_number(c, "kernel.mass") == cfg.kernel.mass);
    assert_int_equal(config_has(c, "kernel.leapfrog"), 0);
    config_free(c);
    c = resolved(SMALL "kernel: leapfrog");
    assert_int_equal(config_integer(c, "kernel.leapfrog"), cfg.kernel.leapfrog);
    assert_int_equal(config_has(c, "kernel.friction"), 0);
    config_free(c);
    c = resolved(SMALL);
    assert_int_equal(config_count(c, "adapt"), 0); /* no rule: sosmc_defaults has them switched off */
    config_free(c);
}

static void derived_defaults(void **state)
{
    int n;
    config *c = resolved("model: {type: gaussian_mixture, means: [[0], [1], [2]], theta: [1, 2.5, -3]}\n"
                         "objective: {type: reward_reverse, reward: x1}\n");
    const double *theta = config_vector(c, "objective.reference.theta", &n);
    assert_true(n == 3 && theta[0] == 1 && theta[1] == 2.5 && theta[2] == -3);
    theta = config_vector(c, "init.theta", &n);
    assert_true(n == 3 && theta[1] == 2.5);
    assert_int_equal(config_has(c, "objective.reference.batch"), 0);
    config_free(c);

    c = resolved(SMALL);
    theta = config_vector(c, "model.theta", &n);
    assert_true(n == 2 && theta[0] == 0 && theta[1] == 0);
    assert_string_equal(config_text(c, "objective.reward.type"), "formula");
    assert_string_equal(config_text(c, "objective.reward.formula"), "x1");
    config_free(c);

    c = resolved(LOGIT);
    assert_string_equal(config_text(c, "init.type"), "laplace");
    assert_true(config_vector(c, "init.theta", &n)[0] == 0 && n == 1 && config_number(c, "init.share") == 0.02);
    assert_int_equal(config_flag(c, "model.standardise"), 1);
    assert_int_equal(config_column(c, "model.label"), 3);
    assert_int_equal(config_count(c, "model.features"), 0);
    assert_int_equal(config_has(c, "model.train"), 0);
    config_free(c);

    c = resolved(TOY);
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
    config *c = resolved(FIT "/d/points.csv\n");
    assert_string_equal(config_text(c, "objective.data.type"), "file");
    assert_string_equal(config_text(c, "objective.data.file"), "/d/points.csv");
    assert_true(config_number(c, "objective.data.scale") == 1 && !config_flag(c, "objective.data.standardise"));
    assert_false(config_has(c, "objective.data.points") || config_has(c, "objective.data.seed"));
    assert_string_equal(config_text(c, "objective.batches"), "random");
    assert_int_equal(config_set(c, "objective.data=/e.npy", error, sizeof error), 0);
    must_resolve(c);
    assert_string_equal(config_text(c, "objective.data.file"), "/e.npy");
    assert_int_equal(config_set(c, "objective.data={type: circles, factor: 0.3}", error, sizeof error), 0);
    must_resolve(c);
    assert_true(config_number(c, "objective.data.factor") == 0.3 && !config_has(c, "objective.data.file"));
    config_free(c);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, FIT "{type: %s}\n  batch: 8\n  batches: epochs\n", made[i].type);
        c = resolved(text);
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
        config *c = resolved(text);
        assert_true(config_number(c, "kernel.step") == numbers[i].value);
        config_free(c);
    }
    for (int i = 0; i < 7; i++) {
        snprintf(text, sizeof text, SMALL "output: {report: %s, particles: %s}\n", yes[i], no[i]);
        config *c = resolved(text);
        assert_true(config_flag(c, "output.report") == 1 && config_flag(c, "output.particles") == 0);
        config_free(c);
    }
    config *c = resolved(SMALL "particles: 1e4\nseed: 18446744073709551615\niterations: 9007199254740992\n");
    assert_int_equal(config_integer(c, "particles"), 10000);
    assert_true(config_unsigned(c, "seed") == UINT64_MAX);
    assert_true(config_integer(c, "iterations") == (int64_t)1 << 53);
    config_free(c);
    c = resolved(SMALL "seed: 1e3\nresampling: {threshold: always}\n");
    assert_int_equal(config_unsigned(c, "seed"), 1000);
    assert_true(config_number(c, "resampling.threshold") == 2);
    assert_int_equal(config_set(c, "resampling.threshold=never", error, sizeof error), 0);
    must_resolve(c);
    assert_true(config_number(c, "resampling.threshold") == 0);
    config_free(c);
}

static void shorthands_and_aliases(void **state)
{
    int n;
    config *c = resolved(
        "model: &m {type: gaussian_mixture, means: [&a [1, 2], *a], theta: &t [3, 4]}\n"
        "objective: {type: reward_forward, reward: \"1\", reference: {theta: *t}}\n"
        "kernel: rwm\nscheme: soul\nresampling: ssp\noptimiser: {type: sgd, schedule: constant}\ninit: normal\n");
    assert_true(config_vector(c, "objective.reference.theta", &n)[1] == 4 && n == 2);
    assert_string_equal(config_text(c, "kernel.type"), "rwm");
    assert_string_equal(config_text(c, "resampling.scheme"), "ssp");
    assert_string_equal(config_text(c, "objective.reward.formula"), "1");
    assert_string_equal(config_text(c, "init.type"), "normal");
    config_free(c);
    c = resolved(SMALL "adapt: null\nkernel: ~\n"); /* null is the default */
    assert_int_equal(config_count(c, "adapt"), 0);
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    config_free(c);
    c = resolved("\xEF\xBB\xBF# with a byte order mark\r\n---\r\n" SMALL "...\n");
    config_free(c);
}

static void columns(void **state)
{
    config *c = resolved("model: {type: logistic_regression, data: /d.csv, label: '3', features: [a, 2, \"4\"],\n"
                         "  train: {column: 5, value: 1}}\nobjective: mmle\n");
    assert_int_equal(config_column(c, "model.label"), 0);
    assert_string_equal(config_text(c, "model.label"), "3");
    assert_int_equal(config_count(c, "model.features"), 3);
    assert_int_equal(config_column(c, "model.features.0"), 0);
    assert_int_equal(config_column(c, "model.features.1"), 2);
    assert_int_equal(config_column(c, "model.features.2"), 0);
    assert_int_equal(config_column(c, "model.train.column"), 5);
    assert_string_equal(config_text(c, "model.train.value"), "1");
    char *text = written(c);
    config *again = resolved(text);
    assert_int_equal(config_column(again, "model.label"), 0);
    assert_int_equal(config_column(again, "model.features.1"), 2);
    assert_string_equal(config_text(again, "model.features.2"), "4");
    assert_string_equal(config_text(again, "model.train.value"), "1");
    config_free(again);
    config_free(c);
    free(text);
}

/* ---------------------------------------------------------------------------- what is wrong */

/* A default that depends on whether another key is written. */
static void network_given_is_network_meant(void **state)
{
    config *c = resolved("model: {type: stored, file: a.npz}\nobjective:\n  type: reward_reverse\n"
                         "  reward: {network: judge.npz, output: 3}\n");
    assert_string_equal(config_text(c, "objective.reward.type"), "network");
    assert_int_equal(config_integer(c, "objective.reward.output"), 3);
    config_free(c);
    c = resolved("model: {type: stored, file: a.npz}\nobjective: {type: reward_reverse, reward: x1}\n");
    assert_string_equal(config_text(c, "objective.reward.type"), "formula");
    config_free(c);
}

static void wrong_files(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        /* keys */
        {SMALL "kernel: {stp: 0.1}", "run.yaml:3: unknown key 'kernel.stp'; did you mean 'kernel.step'?"},
        {SMALL "kernel:\n  type: ula\n  setp: 0.1",
         "run.yaml:5: unknown key 'kernel.setp'; did you mean 'kernel.step'?"},
        {SMALL "optimizer: adam", "run.yaml:3: unknown key 'optimizer'; did you mean 'optimiser'?"},
        {SMALL "iter: 5", "run.yaml:3: unknown key 'iter'; did you mean 'iterations'?"},
        {SMALL "optimiser: {learning_rate: 1}",
         "run.yaml:3: unknown key 'optimiser.learning_rate'; did you mean 'optimiser.rate'?"},
        {SMALL "leapfrog: 1", "run.yaml:3: unknown key 'leapfrog'; did you mean 'kernel.leapfrog'?"},
        {SMALL "adapt: {treshold: 1}", "run.yaml:3: unknown key 'adapt.treshold'; did you mean 'adapt.threshold'?"},
        {SMALL "adapt:\n- {factor: 2}\n- {factr: 2}",
         "run.yaml:5: unknown key 'adapt.factr'; did you mean 'adapt.factor'?"},
        {SMALL "kernel: {zzz: 1}",
         "run.yaml:3: unknown key 'kernel.zzz'; kernel has the keys type, step, noise, gradient_clip, "
         "clamp, lambda, weight, leapfrog, mass and friction"},
        {SMALL "zzz: 1",
         "run.yaml:3: unknown key 'zzz'; a run file has the keys model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, evaluate and output"},
        {SMALL "? ''\n: 1",
         "run.yaml:3: unknown key ''; a run file has the keys model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, evaluate and output"},
        {SMALL "<<: {seed: 1}",
         "run.yaml:3: unknown key '<<'; a run file has the keys model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, evaluate and output"},
        {SMALL "seed: 1\nseed: 2", "run.yaml:4: duplicate key 'seed'; line 3 has it already"},
        {SMALL "kernel: {step: 1,\n  step: 2}", "run.yaml:4: duplicate key 'step'; line 3 has it already"},
        {"seed: 1", "run.yaml:1: model is missing; expected a mapping of keys to values"},
        {"model: {type: logistic_regression}\nobjective: mmle",
         "run.yaml:1: model.data is missing; expected the name of a file, because model.type is logistic_regression"},
        {"seed: 1\nmodel: {means: [[1]]}",
         "run.yaml:2: model.type is missing; expected gaussian_mixture, hierarchical_gaussian, logistic_regression, deblur, mlp, network or stored"},
        {"model: gaussian_mixture",
         "run.yaml:1: model.means is missing; expected a list of equally long lists of numbers, "
         "because model.type is gaussian_mixture"},
        {SMALL "optimiser: {schedule: cosine}",
         "run.yaml:3: optimiser.schedule.a is missing; expected a positive number, "
         "because optimiser.schedule.type is cosine"},
        {SMALL "kernel: {type: mala, leapfrog: 2}",
         "run.yaml:3: kernel.leapfrog applies only when kernel.type is hmc or leapfrog; here it is mala"},
        {SMALL "kernel: {type: leapfrog, friction: 2}",
         "run.yaml:3: kernel.friction applies only when kernel.type is underdamped; here it is leapfrog"},
        {SMALL "scheme: {type: soul, pool: 5}",
         "run.yaml:3: scheme.pool applies only when scheme.type is unweighted or pcd; here it is soul"},
        {SMALL "scheme: {type: impdiff, sweeps: 5}",
         "run.yaml:3: scheme.sweeps applies only when scheme.type is sosmc, "
         "unweighted, soul or pcd; here it is impdiff"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: {type: mmle,\n reward: x1}",
         "run.yaml:3: objective.reward applies only when objective.type is reward_forward, reward_reverse, none or "
         "anneal; here it is mmle"},
        {"model: {type: gaussian_mixture, means: [[1]]}\nobjective: {type: reward_forward, reward: {tau: 1}}",
         "run.yaml:2: objective.reward.tau applies only when objective.reward.type is hard_gate, smooth_gate or "
         "multi_modal; here it is formula"},
        {"model: {type: gaussian_mixture, means: [[1]]}\nobjective: {type: reward_forward, reward: {}}",
         "run.yaml:2: objective.reward.formula is missing; expected text, because objective.reward.type is formula"},
        {FIT "{type: file}",
         "run.yaml:4: objective.data.file is missing; expected the name of a file, because objective.data.type is "
         "file"},
        {FIT "{type: blobs, noise: 1}",
         "run.yaml:4: objective.data.noise applies only when objective.data.type is two_moons or circles; here it is "
         "blobs"},
        {FIT "{file: a.csv, seed: 1}",
         "run.yaml:4: objective.data.seed applies only when objective.data.type is two_moons, circles or blobs; here "
         "it is file"},
        {FIT "{type: moons}",
         "run.yaml:4: objective.data.type is 'moons'; expected file, two_moons, circles, blobs or images (did you mean "
         "'two_moons'?)"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: {type: mmle, data: a.csv}",
         "run.yaml:2: objective.data applies only when objective.type is ebm_likelihood; here it is mmle"},
        /* types and ranges */
        {FIT "{type: circles, factor: 1.5}", "run.yaml:4: objective.data.factor is '1.5'; expected a number in [0, 1]"},
        {FIT "{type: circles, points: 0}",
         "run.yaml:4: objective.data.points is '0'; expected a whole number of at least 1"},
        {SMALL "kernel: {step: fast}", "run.yaml:3: kernel.step is 'fast'; expected a positive number"},
        {SMALL "kernel: {step: 0}", "run.yaml:3: kernel.step is '0'; expected a positive number"},
        {SMALL "kernel: {step: -1}", "run.yaml:3: kernel.step is '-1'; expected a positive number"},
        {SMALL "kernel: {step: 1e-400}", "run.yaml:3: kernel.step is '1e-400'; expected a positive number"},
        {SMALL "kernel: {step: 1e400}", "run.yaml:3: kernel.step is '1e400'; expected a positive number"},
        {SMALL "kernel: {step: .inf}", "run.yaml:3: kernel.step is '.inf'; expected a positive number"},
        {SMALL "kernel: {step: 0x1}", "run.yaml:3: kernel.step is '0x1'; expected a positive number"},
        {SMALL "kernel: {step: 1e}", "run.yaml:3: kernel.step is '1e'; expected a positive number"},
        {SMALL "kernel: {step: .}", "run.yaml:3: kernel.step is '.'; expected a positive number"},
        {SMALL "kernel: {step: '0.1'}", "run.yaml:3: kernel.step is '0.1' in quotes; expected a positive number"},
        {SMALL "kernel: {step: }", "run.yaml:3: kernel.step is empty; expected a positive number"},
        {SMALL "kernel: {step: [1]}", "run.yaml:3: kernel.step is a list; expected a positive number"},
        {SMALL "kernel: {step: {a: 1}}", "run.yaml:3: kernel.step is a mapping; expected a positive number"},
        {SMALL "kernel: {type: underdamped, friction: -1}",
         "run.yaml:3: kernel.friction is '-1'; expected a number of at least 0"},
        {SMALL "kernel: {noise: -1}", "run.yaml:3: kernel.noise is '-1'; expected a number of at least 0"},
        {SMALL "kernel: {type: mla}",
         "run.yaml:3: kernel.type is 'mla'; expected ula, mala, rwm, hmc, underdamped, leapfrog, jitter, myula, mymala or gibbs (did you mean 'ula'?)"},
        {SMALL "kernel: nuts",
         "run.yaml:3: kernel.type is 'nuts'; expected ula, mala, rwm, hmc, underdamped, leapfrog, jitter, myula, mymala or gibbs"},
        {SMALL "kernel: gibbs",
         "run.yaml:3: kernel.type is gibbs, which knows the model deblur alone; model.type is gaussian_mixture"},
        {SMALL "kernel: [ula]", "run.yaml:3: kernel is a list; expected a mapping of keys to values"},
        {SMALL "kernel:\nseed: 1", "run.yaml:3: kernel is empty; expected a mapping of keys to values"},
        {SMALL "optimiser: {momentum: 1, type: momentum}",
         "run.yaml:3: optimiser.momentum is '1'; expected a number in [0, 1)"},
        {SMALL "resampling: {threshold: 1.5}",
         "run.yaml:3: resampling.threshold is '1.5'; expected a number in [0, 1], always or never"},
        {SMALL "resampling: {threshold: alway}",
         "run.yaml:3: resampling.threshold is 'alway'; expected a number in [0, 1], always or never (did you mean "
         "'always'?)"},
        {SMALL "particles: 0", "run.yaml:3: particles is '0'; expected a whole number of at least 1"},
        {SMALL "particles: 10.5", "run.yaml:3: particles is '10.5'; expected a whole number of at least 1"},
        {SMALL "particles: 3e9", "run.yaml:3: particles is '3e9'; expected a whole number of at most 2147483647"},
        {SMALL "iterations: 1e17",
         "run.yaml:3: iterations is '1e17'; expected a whole number of at most 9007199254740992"},
        {SMALL "threads: 2000", "run.yaml:3: threads is '2000'; expected a whole number in [1, 1024]"},
        {SMALL "seed: -1", "run.yaml:3: seed is '-1'; expected a whole number from 0 to 2^64 - 1"},
        {SMALL "seed: 18446744073709551616",
         "run.yaml:3: seed is '18446744073709551616'; expected a whole number from 0 to 2^64 - 1"},
        {SMALL "seed: 1.5", "run.yaml:3: seed is '1.5'; expected a whole number from 0 to 2^64 - 1"},
        {SMALL "output: {report: maybe}", "run.yaml:3: output.report is 'maybe'; expected true or false"},
        {SMALL "output: {report: 'yes'}", "run.yaml:3: output.report is 'yes'; expected true or false"},
        {"model: {type: gaussian_mixture, means: 3}",
         "run.yaml:1: model.means is '3'; expected a list of equally long lists of "
         "numbers"},
        {"model: {type: gaussian_mixture, means: [3, 4]}",
         "run.yaml:1: model.means.0 is '3'; expected a list of numbers"},
        {"model: {type: gaussian_mixture, means: [[], []]}",
         "run.yaml:1: model.means.0 is an empty list; expected a list of numbers"},
        {"model: {type: gaussian_mixture, means: []}",
         "run.yaml:1: model.means is an empty list; expected a list of equally long lists "
         "of numbers"},
        {"model:\n  type: gaussian_mixture\n  means:\n  - [1, 2]\n  - [1]",
         "run.yaml:5: model.means.1 is a list of 1; expected 2 numbers, as in the first"},
        {"model:\n  type: gaussian_mixture\n  means:\n  - [1, 2]\n  - [1,\n x]",
         "run.yaml:6: model.means.1.1 is 'x'; expected a number"},
        {"model:\n  type: gaussian_mixture\n  means:\n  - [1, 2]\n  - 7",
         "run.yaml:5: model.means.1 is '7'; expected a list of numbers"},
        {"model: {type: hierarchical_gaussian, y: []}",
         "run.yaml:1: model.y is an empty list; expected a list of numbers"},
        {"model: {type: hierarchical_gaussian, y: {}}", "run.yaml:1: model.y is a mapping; expected a list of numbers"},
        {LOGIT "init: {type: normal, sd: [1, -1]}", "run.yaml:3: init.sd.1 is '-1'; expected a positive number"},
        {LOGIT "init: {type: normal, sd: 0}", "run.yaml:3: init.sd is '0'; expected a list of positive numbers"},
        {LOGIT "init: model", "run.yaml:3: init.type is 'model'; expected laplace or normal"},
        {"model: {type: logistic_regression, data: d, label: 0}",
         "run.yaml:1: model.label is '0'; expected a column's name, or its number counted from 1"},
        {"model: {type: logistic_regression, data: d, label: a, features: [b, -1]}",
         "run.yaml:1: model.features.1 is '-1'; expected a column's name, or its number counted from 1"},
        {"model: {type: logistic_regression, data: d, label: a, features: b}",
         "run.yaml:1: model.features is 'b'; expected a list of columns, each a name or a number counted from 1"},
        {"model: {type: logistic_regression, data: ''}",
         "run.yaml:1: model.data is empty; expected the name of a file"},
        {"model: {type: logistic_regression, data: [a]}",
         "run.yaml:1: model.data is a list; expected the name of a file"},
        {SMALL "adapt: 3",
         "run.yaml:3: adapt is '3'; expected a mapping of keys to values, or a list of at most 2 of them"},
        {SMALL "adapt: [{}, {}, {}]", "run.yaml:3: adapt is a list of 3; expected at most 2 rules"},
        {SMALL "adapt: [{}, 1]", "run.yaml:3: adapt.1 is '1'; expected a mapping of keys to values"},
        {SMALL "adapt: [{}, {factor: 0.5}]", "run.yaml:3: adapt.1.factor is '0.5'; expected a number of at least 1"},
        /* between keys */
        {"model: {type: gaussian_mixture, means: [[1], [2]], theta: [1]}\n"
         "objective: {type: reward_forward, reward: x1}",
         "run.yaml:1: model.theta has 1 number; expected 2, one per row of model.means"},
        {"model: {type: gaussian_mixture, means: [[1], [2]]}\nobjective: {type: reward_forward, reward: x1,\n"
         " reference: {theta: [1, 2, 3]}}",
         "run.yaml:3: objective.reference.theta has 3 numbers; expected 2, one per row of model.means"},
        {TOY "init: {theta: [1, 2]}",
         "run.yaml:3: init.theta has 2 numbers; expected 1, because theta is a single number in this model"},
        {"model: {type: gaussian_mixture, means: [[1], [2]]}\n"
         "objective: {type: reward_forward, reward: {type: half_plane, normal: [1, 2]}}",
         "run.yaml:2: objective.reward.normal has 2 numbers; expected 1, the dimension of the model"},
        {"model: {type: gaussian_mixture, means: [[1], [2]]}\n"
         "objective: {type: reward_forward, reward: {type: multi_modal, tau: 1, centers: [[1, 2], [1, 2]]}}",
         "run.yaml:2: objective.reward.centers has 2 numbers in a row; expected 1, the dimension of the model"},
        {SMALL "init: {type: normal, mean: [1, 2, 3]}",
         "run.yaml:3: init.mean has 3 numbers; expected 2, the dimension of the "
         "model"},
        {"model: {type: hierarchical_gaussian}\nobjective: mmle",
         "run.yaml:1: model.data or model.y is missing; expected one of them"},
        {"model: {type: hierarchical_gaussian, data: a,\n y: [1]}\nobjective: mmle",
         "run.yaml:2: model.data and model.y are both given; expected one of them"},
        {SMALL "scheme: {type: soul, sweeps: 10, keep: 11}",
         "run.yaml:3: scheme.keep is 11; expected at most scheme.sweeps, which is 10"},
        {SMALL "scheme: {type: pcd, pool: 10}\nparticles: 11",
         "run.yaml:3: scheme.pool is 10; expected at least particles, which is 11"},
        {SMALL "adapt: {min: 2, max: 1}", "run.yaml:3: adapt.max is 1; expected at least adapt.min, which is 2"},
        {SMALL "scheme: impdiff\nadapt: {}",
         "run.yaml:4: adapt follows the effective sample size, which scheme impdiff does not have; take adapt out, for "
         "instance with --set adapt=null"},
        {SMALL "adapt: {signal: accept}",
         "run.yaml:3: adapt.signal is accept, but kernel ula accepts everything; expected ess"},
        {SMALL "kernel: underdamped\nadapt: {signal: accept}",
         "run.yaml:4: adapt.signal is accept, but kernel underdamped accepts everything; expected ess"},
        /* YAML */
        {"model: [1, 2",
         "run.yaml:2: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence that begins "
         "in line 1"},
        {"seed:\n\tmodel: 2", "run.yaml:2: not valid YAML: found character that cannot start any token"},
        {"seed: 'a\nb", "run.yaml:2: not valid YAML: found unexpected end of stream while scanning a quoted scalar "
                        "that begins in line 1"},
        {"a: b: c", "run.yaml:1: not valid YAML: mapping values are not allowed in this context"},
        {"seed: 1\nname: \"\xff\"", "run.yaml:2: not valid YAML: invalid leading UTF-8 octet"},
        {"seed: 1\n\n\x01", "run.yaml:3: not valid YAML: control characters are not allowed"},
        {"", "run.yaml:1: there is nothing in it; a run file needs at least a model and an objective"},
        {"# nothing\n", "run.yaml:2: there is nothing in it; a run file needs at least a model and an objective"},
        {"- 1", "run.yaml:1: a run file is a mapping of keys to values, such as 'seed: 1'"},
        {"word", "run.yaml:1: a run file is a mapping of keys to values, such as 'seed: 1'"},
        {"seed: 1\n---\nseed: 2", "run.yaml:2: a second document begins here; a run file holds one"},
        {"[1]: 2", "run.yaml:1: a key must be a word"},
        {"a: &x 1\n*x : 2", "run.yaml:2: a key must be a word"},
        {"seed: !!int 5", "run.yaml:1: the tag tag:yaml.org,2002:int has no meaning here; for text use quotes"},
        {"seed: !a [5]", "run.yaml:1: the tag !a has no meaning here; for text use quotes"},
        {"seed: *nobody", "run.yaml:1: the alias *nobody has no anchor &nobody before it"},
        {"seed: &a [*a]", "run.yaml:1: the alias *a has no anchor &a before it"},
        {"seed: \"a\\0b\"", "run.yaml:1: a value holds a zero byte"},
        {"\"a\\0b\": 1", "run.yaml:1: a value holds a zero byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(complaint(cases[i].text), cases[i].message);
}

static void long_and_strange_values(void **state)
{
    assert_string_equal(
        complaint(SMALL "kernel: {step: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz}"),
        "run.yaml:3: kernel.step is 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv...'; expected a positive "
        "number");
    assert_string_equal(complaint(SMALL "kernel: {step: \"\\e[2J\\n\"}"),
                        "run.yaml:3: kernel.step is '?[2J?'; expected a positive number");
    /* a clipped value ends with a whole character */
    const char *text = complaint(SMALL "kernel: {step: aééééééééééééééééééééééééééééééé}");
    assert_true(config_is_utf8(text));
    assert_non_null(strstr(text, "é...'"));
    assert_non_null(
        strstr(complaint(SMALL "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz: 1"), "unknown key 'abcdefgh"));
}

static void small_buffers(void **state)
{
    char tiny[8] = "xxxxxxx";
    assert_null(config_parse("a: [", "run.yaml", tiny, sizeof tiny));
    assert_string_equal(tiny, "run.yam");
    assert_null(config_parse("a: [", "run.yaml", tiny, 1));
    assert_string_equal(tiny, "");
    assert_null(config_parse("a: [", "run.yaml", NULL, 0));
    config *c = config_parse("a: 1", "run.yaml", NULL, 0);
    assert_int_equal(config_resolve(c, NULL, 0), -1);
    assert_int_equal(config_set(c, "a", NULL, 0), -1);
    assert_int_equal(config_write(c, stdout), -1); /* not resolved */
    config_free(c);
    config_free(NULL);
}

/* ---------------------------------------------------------------------------- assignments */

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
    config *c = parse(SMALL "kernel: ula\n");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (config_set(c, sets[i], error, sizeof error)) fail_msg("%s", error);
    must_resolve(c);
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
    char *text = written(c);
    config *again = resolved(text);
    char *text_again = written(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    config_free(again);
    config_free(c);
}

/* A type can change back and forth: defaults of the last resolve do not stand in the way. */
static void resolve_again(void **state)
{
    config *c = resolved(SMALL);
    char *first = written(c);
    static const char *const there[] = {"kernel.type=hmc", "scheme=pcd", "optimiser.type=sgd",
                                        "objective.type=reward_reverse"};
    static const char *const back[] = {"kernel.type=ula", "scheme=sosmc", "optimiser.type=adam",
                                       "objective.type=reward_forward"};
    for (int i = 0; i < 4; i++) assert_int_equal(config_set(c, there[i], error, sizeof error), 0);
    assert_int_equal(config_write(c, stdout), -1);
    must_resolve(c);
    assert_int_equal(config_integer(c, "kernel.leapfrog"), 1);
    assert_int_equal(config_has(c, "kernel.noise"), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(config_set(c, back[i], error, sizeof error), 0);
    must_resolve(c);
    char *second = written(c);
    assert_string_equal(first, second);
    free(first);
    free(second);
    config_free(c);
}

static void null_returns_the_default(void **state)
{
    config *c = parse(SMALL "adapt: {}\nseed: 4\nscheme: impdiff");
    assert_int_equal(config_set(c, "adapt=null", error, sizeof error), 0);
    assert_int_equal(config_set(c, "seed=~", error, sizeof error), 0);
    must_resolve(c);
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
                       "objective: {type: reward_forward, reward: x1}\nparticles: 7\n";
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
static void build_from_nothing(void **state)
{
    config *c = parse("{}");
    assert_int_equal(config_set(c, "model={type: hierarchical_gaussian, y: [1, 2]}", error, sizeof error), 0);
    assert_int_equal(config_set(c, "objective.type=mmle", error, sizeof error), 0);
    must_resolve(c);
    config_free(c);
}

static void places(void **state)
{
    char out[200];
    config *c = parse(SMALL "kernel:\n  type: mala\n");
    assert_int_equal(config_set(c, "particles=5", error, sizeof error), 0);
    must_resolve(c);
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

/* ---------------------------------------------------------------------------- files */

static void data_files(void **state)
{
    char folder[] = "/tmp/sosmc_config_XXXXXX", path[4200], expected[4300], here[4096];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    write_file(path, "model: {type: logistic_regression, data: sub/d.csv, label: y}\nobjective: mmle\n");
    config *c = config_load(path, error, sizeof error);
    assert_non_null(c);
    must_resolve(c);
    char *real = realpath(folder, NULL);
    snprintf(expected, sizeof expected, "%s/sub/d.csv", real);
    assert_string_equal(config_text(c, "model.data"), expected);
    assert_string_equal(config_directory(c), real);
    assert_int_equal(config_set(c, "model.data=e.csv", error, sizeof error), 0); /* typed here: relative to here */
    must_resolve(c);
    char *cwd = realpath(here, NULL);
    snprintf(expected, sizeof expected, "%s/e.csv", cwd);
    assert_string_equal(config_text(c, "model.data"), expected);
    assert_int_equal(config_set(c, "model.data=/abs/e.csv", error, sizeof error), 0);
    must_resolve(c);
    assert_string_equal(config_text(c, "model.data"), "/abs/e.csv");
    free(real);
    free(cwd);
    config_free(c);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void unreadable_files(void **state)
{
    assert_null(config_load("/no/such/file.yaml", error, sizeof error));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(error, "/no/such/file.yaml: cannot be read: No such file or directory");
    assert_null(config_load("/tmp", error, sizeof error));
    assert_int_equal(errno, EISDIR);
    assert_string_equal(error, "/tmp: cannot be read: Is a directory");
    assert_null(config_load("/dev/zero", error, sizeof error));
    assert_int_equal(errno, EFBIG);
    assert_string_equal(error, "/dev/zero: larger than 64 MB, which no run file is");
    assert_null(config_load("/dev/null", error, sizeof error));
    assert_int_equal(errno, 0); /* readable, and wrong */
    assert_string_equal(error,
                        "/dev/null:1: there is nothing in it; a run file needs at least a model and an objective");
}

static void standard_input(void **state)
{
    char path[] = "/tmp/sosmc_config_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    write_file(path, SMALL "kernel: {step: no}\n");
    assert_non_null(freopen(path, "r", stdin));
    config *c = config_load("-", error, sizeof error);
    assert_non_null(c);
    assert_int_equal(config_resolve(c, error, sizeof error), -1);
    assert_string_equal(error, "stdin:3: kernel.step is 'no'; expected a positive number");
    config_free(c);
    unlink(path);
}

/* ---------------------------------------------------------------------------- writing */

static void assert_replays(const config *c)
{
    char *text = written(c);
    config *again = resolved(text);
    char *text_again = written(again);
    assert_string_equal(text, text_again);
    config_free(again);
    free(text);
    free(text_again);
}

static void strange_texts_replay(void **state)
{
    static const char *const texts[] = {
        "true",       "No",       "null",      "~",      "12",       "1e5",      "a: b", "a #b",
        "- a",        "'",        "\"",        "\\",     "%",        "@",        "a\nb", "tab\there",
        " lead",      "trail ",   "caf\u00e9", "\u2028", "\xC2\x85", "\ufeff",   "\x7f", "\u20ac \U0001F600",
        "[",          "{}",       "&a",        "*a",     "!a",       "|",        ">",    "?",
        "x1 ? y : z", "/usr/a b", ".",         "-",      "0x1",      "\x01\x1b", "y",    "N",
        "yes_",       "trueish"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        config *c = parse(
            "{model: {type: logistic_regression, data: /d, label: a, train: {column: a}}, objective: mmle}");
        node *n = config_find(c, "model.train");
        node *value = node_make(c, NODE_SCALAR, n), *label = config_find(c, "model.label");
        assert_non_null(value);
        value->quoted = label->quoted = 1;
        value->text = label->text = texts[i];
        node_append(n, value, "value");
        must_resolve(c);
        char *text = written(c);
        config *again = resolved(text);
        assert_string_equal(config_text(again, "model.train.value"), texts[i]);
        assert_string_equal(config_text(again, "model.label"), texts[i]);
        assert_int_equal(config_column(again, "model.label"), 0);
        config_free(again);
        free(text);
        assert_replays(c);
        config_free(c);
    }
}

static uint64_t noise(uint64_t *s) /* splitmix64 */
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Every finite double comes back as it was, also from long lists that are broken over lines. */
static void numbers_replay(void **state)
{
    enum { COUNT = 5000 };
    static const double special[] = {0.1,  1e-9, 5e-324, 1.7976931348623157e308, -0.0, 1e15, 123456789012345680.0,
                                     1e22, 3.0,  1e5};
    uint64_t s = 1;
    char *text = malloc(COUNT * 32 + 200);
    assert_non_null(text);
    double x[COUNT];
    size_t used = (size_t)sprintf(text, "objective: mmle\nmodel: {type: hierarchical_gaussian, y: [");
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = noise(&s);
        memcpy(&x[i], &bits, sizeof bits);
        if (!isfinite(x[i])) x[i] = 1.5;
        if (i < 10) x[i] = special[i];
        used += (size_t)sprintf(text + used, "%s%.17g", i ? ", " : "", x[i]);
    }
    memcpy(text + used, "]}\n", 4);
    config *c = resolved(text);
    char *out = written(c);
    config *again = resolved(out);
    int n;
    const double *y = config_vector(again, "model.y", &n);
    assert_int_equal(n, COUNT);
    assert_memory_equal(y, x, sizeof x);
    assert_non_null(strstr(out, "[0.1, 1.0e-09, 5.0e-324, 1.7976931348623157e+308, -0, 1.0e+15, "));
    assert_replays(c);
    config_free(again);
    config_free(c);
    free(out);
    free(text);
}

/* ---------------------------------------------------------------------------- hostile files */

static char *repeated(const char *begin, const char *each, int count, const char *end)
{
    char *text = malloc(strlen(begin) + strlen(each) * (size_t)count + strlen(end) + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, begin);
    for (int i = 0; i < count; i++) p = stpcpy(p, each);
    memcpy(p, end, strlen(end) + 1);
    return text;
}

static void refuse_repeated(const char *begin, const char *each, int count, const char *end, const char *message)
{
    char *text = repeated(begin, each, count, end);
    assert_string_equal(complaint(text), message);
    free(text);
}

static void hostile_files(void **state)
{
    refuse_repeated("a: ", "[", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("a: ", "{a: ", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("", "- ", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("a: [", "1,", 1100000, "]",
                    "run.yaml:1: the file has more than 1000000 values; tables belong in a file of their own");
    refuse_repeated("seed: ", "x", 70000, "", "run.yaml:1: a value is longer than 65536 bytes; is a quote missing?");
    refuse_repeated("a: [", "&a 1,", 2000, "]", "run.yaml:1: the file has more than 1000 anchors");

    char *text = malloc(1 << 20), *p = text;
    assert_non_null(text);
    for (int i = 0; i < 1500; i++) p += sprintf(p, "k%d: 1\n", i);
    assert_string_equal(complaint(text), "run.yaml:1001: a mapping has more than 1000 keys");
    p = text + sprintf(text, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"); /* a billion laughs */
    for (int i = 1; i < 10; i++) {
        p += sprintf(p, "a%d: &a%d [*a%d", i, i, i - 1);
        for (int j = 0; j < 8; j++) p += sprintf(p, ", *a%d", i - 1);
        p += sprintf(p, "]\n");
    }
    assert_non_null(strstr(complaint(text), "the file has more than 1000000 values"));
    p = text + sprintf(text, "a0: &a0 x\n"); /* shallow to read, deep when aliases are followed */
    for (int i = 1; i < 900; i++) p += sprintf(p, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    assert_non_null(strstr(complaint(text), "the file is nested deeper than 32 levels"));
    free(text);

    config *c = parse("{}");
    text = repeated("a", ".a", 100, "=1");
    assert_int_equal(config_set(c, text, error, sizeof error), -1);
    assert_non_null(strstr(error, "the path is deeper than 32 levels"));
    free(text);
    text = repeated("seed=", "1", 70000, "");
    assert_int_equal(config_set(c, text, error, sizeof error), -1);
    assert_non_null(strstr(error, "the value is longer than 65536 bytes"));
    free(text);
    config_free(c);
}

typedef struct {
    glob_t found;
} files;

static int find_examples(files *f)
{
    char pattern[4096];
    if (!source_path("examples/*.yaml", pattern)) return -1;
    return glob(pattern, 0, NULL, &f->found) || f->found.gl_pathc == 0 ? -1 : 0;
}

/* Bytes changed, cut, doubled: whatever comes out is either refused in one line or replays. */
static void mutated_files(void **state)
{
    files f = {0};
    uint64_t s = 7;
    if (find_examples(&f)) skip();
    for (size_t e = 0; e < f.found.gl_pathc; e++) {
        char *text = read_file(f.found.gl_pathv[e]);
        assert_non_null(text);
        for (int trial = 0; trial < 200; trial++) {
            static const char marks[] = "{}[]:,-#&*!|>'\"%@ \n\t0123.e+=~\\\x01\x80\xff";
            char *mutant = strdup(text);
            size_t length = strlen(mutant);
            for (int change = 1 + (int)(noise(&s) % 3); change > 0; change--) {
                size_t at = noise(&s) % length, other = noise(&s) % length;
                char mark = marks[noise(&s) % (sizeof marks - 1)];
                switch (noise(&s) % 4) {
                case 0: mutant[at] = mark; break;
                case 1: mutant[at] = mutant[other]; break;
                case 2: memmove(mutant + at, mutant + at + 1, length - at); break;
                default: memmove(mutant + at, mutant + other, (at < other ? length - other : length - at) / 8); break;
                }
                length = strlen(mutant);
                if (length == 0) break;
            }
            config *c = config_parse(mutant, "mutant", error, sizeof error);
            if (c && !config_resolve(c, error, sizeof error))
                assert_replays(c);
            else {
                assert_int_equal(strncmp(error, "mutant:", 7), 0);
                assert_null(strchr(error, '\n'));
            }
            config_free(c);
            free(mutant);
        }
        free(text);
    }
    globfree(&f.found);
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
    if (!source_path("docs/run-file.md", path)) skip();
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    config_document(out);
    fclose(out);
    for (const schema_key *row = schema_keys; row->path; row++) assert_non_null(strstr(text, row->path));
    if (getenv("SOSMC_UPDATE_DOCS")) write_file(path, text);
    char *stored = read_file(path);
    assert_non_null(stored);
    if (strcmp(stored, text) != 0) fail_msg("docs/run-file.md is out of date: run this test with SOSMC_UPDATE_DOCS=1");
    free(stored);
    free(text);
}

/* Each example resolves and replays, and together they use every key and every choice. */
static void examples_cover_everything(void **state)
{
    enum { MOST = 300 };
    char used[MOST] = {0}, chosen[MOST] = {0};
    files f = {0};
    if (find_examples(&f)) skip();
    for (size_t e = 0; e < f.found.gl_pathc; e++) {
        config *c = config_load(f.found.gl_pathv[e], error, sizeof error);
        if (!c || config_resolve(c, error, sizeof error)) fail_msg("%s", error);
        assert_replays(c);
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
        if (!used[i]) fail_msg("no example uses the key %s", schema_keys[i].path);
    for (int i = 0; schema_choices[i].path; i++)
        if (!chosen[i]) fail_msg("no example has %s: %s", schema_choices[i].path, schema_choices[i].name);
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
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(long_and_strange_values),
        cmocka_unit_test(small_buffers),
        cmocka_unit_test(assignments),
        cmocka_unit_test(resolve_again),
        cmocka_unit_test(null_returns_the_default),
        cmocka_unit_test(wrong_assignments),
        cmocka_unit_test(build_from_nothing),
        cmocka_unit_test(places),
        cmocka_unit_test(data_files),
        cmocka_unit_test(unreadable_files),
        cmocka_unit_test(standard_input),
        cmocka_unit_test(strange_texts_replay),
        cmocka_unit_test(numbers_replay),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(mutated_files),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(manual_is_current),
        cmocka_unit_test(examples_cover_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
