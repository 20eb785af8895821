/* test_config_errors.c: what is wrong with a run file is named: the file and line, the key, what it holds and what was
 * expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "runfile/config.h"
#include "runtext.h"
#include "runfile/schema.h"

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
         "run.yaml:3: unknown key 'kernel.zzz'; kernel has the keys type, step, noise, spread, gradient_clip, "
         "clamp, forward, backward, lambda, weight, leapfrog, mass and friction"},
        {SMALL "zzz: 1",
         "run.yaml:3: unknown key 'zzz'; a run file has the keys settings, model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, on_collapse, precision, limits, judge, evaluate and output"},
        {SMALL "? ''\n: 1",
         "run.yaml:3: unknown key ''; a run file has the keys settings, model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, on_collapse, precision, limits, judge, evaluate and output"},
        {SMALL "<<: {seed: 1}",
         "run.yaml:3: unknown key '<<'; a run file has the keys settings, model, objective, init, scheme, kernel, "
         "resampling, adapt, optimiser, particles, iterations, seed, threads, on_nonfinite, on_collapse, precision, limits, judge, evaluate and output"},
        {SMALL "seed: 1\nseed: 2", "run.yaml:4: duplicate key 'seed'; line 3 has it already"},
        {SMALL "kernel: {step: 1,\n  step: 2}", "run.yaml:4: duplicate key 'step'; line 3 has it already"},
        {"seed: 1", "run.yaml:1: model is missing; expected a mapping of keys to values"},
        {"model: {type: logistic_regression}\nobjective: mmle",
         "run.yaml:1: model.data is missing; expected the name of a file, because model.type is logistic_regression"},
        {"seed: 1\nmodel: {means: [[1]]}",
         "run.yaml:2: model.type is missing; expected gaussian_mixture, hierarchical_gaussian, logistic_regression, deblur, mlp, network, stored or own"},
        {"model: gaussian_mixture",
         "run.yaml:1: model.means is missing; expected a list of equally long lists of numbers, "
         "because model.type is gaussian_mixture"},
        {SMALL "optimiser: {schedule: exponential}",
         "run.yaml:3: optimiser.schedule.a is missing; expected a positive number, "
         "because optimiser.schedule.type is exponential"},
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
         "run.yaml:3: objective.reward applies only when objective.type is reward_forward, reward_reverse, none, "
         "anneal or temper; here it is mmle"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: temper\nkernel: mala",
         "run.yaml:2: objective.type is temper, which finds its moves and temperatures, and settings is explicit; expected "
         "none of scheme, kernel, iterations and the like, or objective.type anneal"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: {type: temper,\n beta: 2}",
         "run.yaml:3: objective.beta stands without objective.reward, which the model is tilted by"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: temper\nprecision: 0.1",
         "run.yaml:3: precision is for solvers, and objective.type is temper, which ends by itself"},
        {"model: {type: hierarchical_gaussian, y: [1],\n column: 2}\nobjective: mmle",
         "run.yaml:2: model.column applies only when model.data is given; here model.y is"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: anneal\ninit: normal",
         "run.yaml:3: init applies only when objective.type is reward_forward, reward_reverse, mmle, ebm_likelihood, "
         "none or temper; here it is anneal"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: none\noptimiser: {rate: 1}",
         "run.yaml:3: optimiser applies only when objective.type is reward_forward, reward_reverse, mmle or "
         "ebm_likelihood; here it is none"},
        {"model: {type: hierarchical_gaussian, y: [1]}\nobjective: none\nadapt: {target: rate}",
         "run.yaml:3: adapt.target is rate, but objective.type none has no learning rate; expected step"},
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
         "run.yaml:4: objective.data.type is 'moons'; expected file, two_moons, circles, blobs, images or own (did you mean "
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
        {LOGIT "init: model", "run.yaml:3: init.type is 'model'; expected laplace, inside, normal or own"},
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
        {SMALL "kernel: ula\nadapt: {signal: accept}",
         "run.yaml:4: adapt.signal is accept, but kernel ula accepts everything; expected ess"},
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
        assert_string_equal(runtext_complaint(cases[i].text), cases[i].message);
}

static void long_and_strange_values(void **state)
{
    assert_string_equal(
        runtext_complaint(SMALL "kernel: {step: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz}"),
        "run.yaml:3: kernel.step is 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv...'; expected a positive "
        "number");
    assert_string_equal(runtext_complaint(SMALL "kernel: {step: \"\\e[2J\\n\"}"),
                        "run.yaml:3: kernel.step is '?[2J?'; expected a positive number");
    /* a clipped value ends with a whole character */
    const char *text = runtext_complaint(SMALL "kernel: {step: aééééééééééééééééééééééééééééééé}");
    assert_true(files_is_utf8(text));
    assert_non_null(strstr(text, "é...'"));
    assert_non_null(strstr(runtext_complaint(SMALL "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz: 1"),
                           "unknown key 'abcdefgh"));
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

/* ---------------------------------------------------------------------------- files */

static void data_files(void **state)
{
    char folder[] = "/tmp/sosmc_config_XXXXXX", path[4200], expected[4300], here[4096];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    runtext_save(path, "model: {type: logistic_regression, data: sub/d.csv, label: y}\nobjective: mmle\n");
    config *c = config_load(path, runtext_error, sizeof runtext_error);
    assert_non_null(c);
    runtext_resolve(c);
    char *real = realpath(folder, NULL);
    snprintf(expected, sizeof expected, "%s/sub/d.csv", real);
    assert_string_equal(config_text(c, "model.data"), expected);
    assert_string_equal(config_directory(c), real);
    assert_int_equal(config_set(c, "model.data=e.csv", runtext_error, sizeof runtext_error),
                     0); /* typed here: relative to here */
    runtext_resolve(c);
    char *cwd = realpath(here, NULL);
    snprintf(expected, sizeof expected, "%s/e.csv", cwd);
    assert_string_equal(config_text(c, "model.data"), expected);
    assert_int_equal(config_set(c, "model.data=/abs/e.csv", runtext_error, sizeof runtext_error), 0);
    runtext_resolve(c);
    assert_string_equal(config_text(c, "model.data"), "/abs/e.csv");
    free(real);
    free(cwd);
    config_free(c);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void unreadable_files(void **state)
{
    assert_null(config_load("/no/such/file.yaml", runtext_error, sizeof runtext_error));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(runtext_error, "/no/such/file.yaml: cannot be read: No such file or directory");
    assert_null(config_load("/tmp", runtext_error, sizeof runtext_error));
    assert_int_equal(errno, EISDIR);
    assert_string_equal(runtext_error, "/tmp: cannot be read: Is a directory");
    assert_null(config_load("/dev/zero", runtext_error, sizeof runtext_error));
    assert_int_equal(errno, EFBIG);
    assert_string_equal(runtext_error, "/dev/zero: larger than 64 MB, which no run file is");
    assert_null(config_load("/dev/null", runtext_error, sizeof runtext_error));
    assert_int_equal(errno, 0); /* readable, and wrong */
    assert_string_equal(runtext_error,
                        "/dev/null:1: there is nothing in it; a run file needs at least a model and an objective");
}

static void standard_input(void **state)
{
    char path[] = "/tmp/sosmc_config_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    runtext_save(path, SMALL "kernel: {step: no}\n");
    assert_non_null(freopen(path, "r", stdin));
    config *c = config_load("-", runtext_error, sizeof runtext_error);
    assert_non_null(c);
    assert_int_equal(config_resolve(c, runtext_error, sizeof runtext_error), -1);
    assert_string_equal(runtext_error, "stdin:3: kernel.step is 'no'; expected a positive number");
    config_free(c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files), cmocka_unit_test(long_and_strange_values), cmocka_unit_test(small_buffers),
        cmocka_unit_test(data_files),  cmocka_unit_test(unreadable_files),        cmocka_unit_test(standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
