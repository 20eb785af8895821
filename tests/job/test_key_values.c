/* test_key_values.c: every key that says how a problem is solved reaches its own field of the library's settings: the job of a
 * run file with another value than the default has that value there, and the job of the same file without the key has not.
 * Keys of models, objectives and initial laws that no other test notices are here too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/problem.h"
#include "job/problem_inside.h"
#include "runfile/config.h"
#include "runfile/schema.h"
#include "runtext.h"

static char error[1024];
#define ERROR error, sizeof error

#define SEEN "model: {type: deblur, picture: $/data/blocks_blurred.png, noise: 5}\nobjective: mmle\n"

typedef enum { INT, LONG, SEED, DOUBLE } field_type;

typedef struct {
    const char *text;       /* the run file without the key */
    const char *assignment; /* PATH=VALUE */
    size_t field;           /* its offset in the job */
    field_type type;
    double expected;
} key_value;

#define ROW(text, assignment, name, type, expected)           \
    {                                                         \
        text, assignment, offsetof(job, name), type, expected \
    }

static const key_value values[] = {
    ROW(SMALL, "particles=37", settings.scheme.particles, INT, 37),
    ROW(SMALL, "iterations=41", iterations, LONG, 41),
    ROW(SMALL, "seed=43", settings.seed, SEED, 43),
    ROW(SMALL, "threads=3", settings.threads, INT, 3),
    ROW(SMALL, "on_nonfinite=fail", settings.on_nonfinite, INT, SOSMC_NONFINITE_FAIL),
    ROW(SMALL, "on_nonfinite=drop", settings.on_nonfinite, INT, SOSMC_NONFINITE_DROP),
    ROW(SMALL, "on_nonfinite=retry", settings.on_nonfinite, INT, SOSMC_NONFINITE_RETRY),
    ROW(SMALL "scheme: unweighted\n", "on_nonfinite=restart", settings.on_nonfinite, INT, SOSMC_NONFINITE_RESTART),
    ROW(SMALL, "on_collapse=continue", settings.on_collapse, INT, SOSMC_COLLAPSE_CONTINUE),

    ROW(SMALL, "scheme.type=unweighted", settings.scheme.weighted, INT, 0),
    ROW(SMALL, "scheme.order=authors", settings.scheme.order, INT, SOSMC_ORDER_AUTHORS),
    ROW(SMALL, "scheme.sweeps=5", settings.scheme.sweeps, INT, 5),
    ROW(SMALL "scheme: soul\n", "scheme.sweeps=6", settings.scheme.sweeps, INT, 6),
    ROW(SMALL "scheme: pcd\n", "scheme.sweeps=7", settings.scheme.sweeps, INT, 7),
    ROW(SMALL "scheme: {type: pcd, sweeps: 7}\n", "scheme.keep=4", settings.scheme.keep, INT, 4),
    ROW(SMALL "scheme: pcd\n", "scheme.pool=2000", settings.scheme.pool, INT, 2000),
    ROW(SMALL "scheme: pcd\n", "scheme.pool_rule=newest", settings.scheme.pool_rule, INT, SOSMC_POOL_NEWEST),
    ROW(SMALL "scheme: unweighted\n", "scheme.refresh=0.25", settings.scheme.refresh, DOUBLE, 0.25),
    ROW(SMALL "scheme: unweighted\n", "scheme.drift_at=current", settings.scheme.drift_at, INT, SOSMC_AT_CURRENT),
    ROW(SMALL "settings: paper\n", "resampling.scheme=systematic", settings.scheme.resampling, INT, SOSMC_SYSTEMATIC),
    ROW(SMALL, "resampling.scheme=multinomial", settings.scheme.resampling, INT, SOSMC_MULTINOMIAL),
    ROW(SMALL, "resampling.scheme=stratified", settings.scheme.resampling, INT, SOSMC_STRATIFIED),
    ROW(SMALL, "resampling.scheme=residual", settings.scheme.resampling, INT, SOSMC_RESIDUAL),
    ROW(SMALL, "resampling.scheme=ssp", settings.scheme.resampling, INT, SOSMC_SSP),
    ROW(SMALL, "resampling.threshold=0.75", settings.scheme.ess_min, DOUBLE, 0.75),
    ROW(SMALL, "resampling.threshold=always", settings.scheme.ess_min, DOUBLE, 2),
    ROW(SMALL, "resampling.threshold=never", settings.scheme.ess_min, DOUBLE, 0),

    ROW(SMALL, "kernel.type=ula", settings.kernel.metropolis, INT, 0),
    ROW(SMALL "kernel: mala\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SMALL "kernel: hmc\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SMALL "kernel: leapfrog\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SMALL "kernel: underdamped\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SEEN "kernel: myula\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SEEN "kernel: mymala\n", "kernel.step=0.375", settings.kernel.h, DOUBLE, 0.375),
    ROW(SMALL "kernel: ula\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SMALL "kernel: mala\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SMALL "kernel: rwm\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SEEN "kernel: myula\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SEEN "kernel: mymala\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SMALL "scheme: pcd\nkernel: jitter\n", "kernel.noise=1.5", settings.kernel.noise, DOUBLE, 1.5),
    ROW(SMALL "kernel: rwm\n", "kernel.spread=3", settings.kernel.spread, DOUBLE, 3),
    ROW(SMALL "scheme: pcd\nkernel: jitter\n", "kernel.gradient_clip=0.5", settings.kernel.gradient_clip, DOUBLE, 0.5),
    ROW(SMALL "scheme: pcd\nkernel: jitter\n", "kernel.clamp=2.5", settings.kernel.clamp, DOUBLE, 2.5),
    ROW(SMALL "scheme: unweighted\nkernel: ula\n", "kernel.clamp=2.5", settings.kernel.clamp, DOUBLE, 2.5),
    ROW(SMALL "kernel: ula\n", "kernel.forward=current", settings.kernel.forward_at, INT, SOSMC_AT_CURRENT),
    ROW(SMALL "kernel: ula\n", "kernel.backward=previous", settings.kernel.backward_at, INT, SOSMC_AT_PREVIOUS),
    ROW(SEEN "kernel: myula\n", "kernel.lambda=0.75", settings.kernel.lambda, DOUBLE, 0.75),
    ROW(SEEN "kernel: mymala\n", "kernel.lambda=0.75", settings.kernel.lambda, DOUBLE, 0.75),
    ROW(SEEN "kernel: myula\n", "kernel.weight=ratio", settings.kernel.invariant, INT, 0),
    ROW(SEEN "kernel: {type: myula, weight: ratio}\n", "kernel.weight=cached", settings.kernel.forward_at, INT,
        SOSMC_AT_PREVIOUS),
    ROW(SMALL "kernel: hmc\n", "kernel.leapfrog=9", settings.kernel.leapfrog, INT, 9),
    ROW(SMALL "kernel: leapfrog\n", "kernel.leapfrog=9", settings.kernel.leapfrog, INT, 9),
    ROW(SMALL "kernel: hmc\n", "kernel.mass=2.25", settings.kernel.mass, DOUBLE, 2.25),
    ROW(SMALL "kernel: leapfrog\n", "kernel.mass=2.25", settings.kernel.mass, DOUBLE, 2.25),
    ROW(SMALL "kernel: underdamped\n", "kernel.mass=2.25", settings.kernel.mass, DOUBLE, 2.25),
    ROW(SMALL "kernel: underdamped\n", "kernel.friction=3.5", settings.kernel.friction, DOUBLE, 3.5),

    ROW(SMALL "kernel: mala\nadapt: [{}, {}]\n", "adapt.1.signal=accept", settings.adapt[1].signal, INT,
        SOSMC_SIGNAL_ACCEPT),
    ROW(SMALL "kernel: mala\nadapt: [{}, {}]\n", "adapt.1.target=rate", settings.adapt[1].target, INT,
        SOSMC_ADAPT_RATE),
    ROW(SMALL "kernel: ula\nadapt: {}\n", "adapt.threshold=0.625", settings.adapt[0].threshold, DOUBLE, 0.625),
    ROW(SMALL "kernel: ula\nadapt: {}\n", "adapt.factor=1.25", settings.adapt[0].factor, DOUBLE, 1.25),
    ROW(SMALL "kernel: ula\nadapt: {}\n", "adapt.min=0.015625", settings.adapt[0].min, DOUBLE, 0.015625),
    ROW(SMALL "kernel: ula\nadapt: {}\n", "adapt.max=64", settings.adapt[0].max, DOUBLE, 64),
    ROW(SMALL "scheme: {order: authors}\nkernel: mala\nadapt: {}\n", "adapt.before_move=true",
        settings.adapt[0].before_move, INT, 1),

    ROW(SMALL, "optimiser.type=sgd", settings.optimiser.slots, INT, 0),
    ROW(SMALL, "optimiser.rate=0.0625", settings.optimiser.lr, DOUBLE, 0.0625),
    ROW(SMALL "optimiser: momentum\n", "optimiser.momentum=0.625", settings.optimiser.momentum, DOUBLE, 0.625),
    ROW(SMALL "optimiser: nesterov\n", "optimiser.momentum=0.625", settings.optimiser.momentum, DOUBLE, 0.625),
    ROW(SMALL "optimiser: {type: mirror, map: log}\n", "optimiser.map=entropy", settings.optimiser.map, INT,
        SOSMC_MIRROR_ENTROPY),
    ROW(SMALL "optimiser: rmsprop\n", "optimiser.decay=0.625", settings.optimiser.beta2, DOUBLE, 0.625),
    ROW(SMALL, "optimiser.beta1=0.5", settings.optimiser.beta1, DOUBLE, 0.5),
    ROW(SMALL, "optimiser.beta2=0.75", settings.optimiser.beta2, DOUBLE, 0.75),
    ROW(SMALL, "optimiser.eps=0.125", settings.optimiser.eps, DOUBLE, 0.125),
    ROW(SMALL "optimiser: adamw\n", "optimiser.weight_decay=0.375", settings.optimiser.weight_decay, DOUBLE, 0.375),
    ROW(SMALL, "optimiser.clip=7", settings.optimiser.clip, DOUBLE, 7),
    ROW(SMALL, "optimiser.low=-3", settings.optimiser.low, DOUBLE, -3),
    ROW(SMALL, "optimiser.high=4", settings.optimiser.high, DOUBLE, 4),
    ROW(SMALL, "optimiser.noise=0.5", settings.optimiser.noise, DOUBLE, 0.5),
    ROW(SMALL "optimiser: {schedule: constant}\n", "optimiser.schedule.type=cosine", settings.schedule.kind, INT,
        SOSMC_SCHEDULE_COSINE),
    ROW(SMALL "optimiser: {schedule: cosine}\n", "optimiser.schedule.a=77", settings.schedule.a, DOUBLE, 77),
    ROW(SMALL "optimiser: {schedule: cosine}\n", "optimiser.schedule.b=0.25", settings.schedule.b, DOUBLE, 0.25),
    ROW(SMALL, "optimiser.schedule.warmup=11", settings.schedule.warmup, LONG, 11),
    ROW(SMALL, "optimiser.average=0.875", settings.average, DOUBLE, 0.875),
    ROW(SMALL "optimiser: {average: 1}\n", "optimiser.average_from=13", settings.average_from, LONG, 13),

    ROW(SMALL "settings: paper\n", "settings=automatic", automatic, INT, 1),
    ROW(SMALL "settings: automatic\n", "precision=0.0625", solve.precision, DOUBLE, 0.0625),
    ROW(SMALL "settings: automatic\n", "limits.seconds=2.5", solve.seconds, DOUBLE, 2.5),
    ROW(SMALL "settings: automatic\n", "limits.evaluations=12345678901", solve.evaluations, LONG, 12345678901),
    ROW(SMALL "settings: automatic\n", "particles=256", solve.particles, INT, 256),
    ROW(SMALL "settings: automatic\n", "seed=77", solve.seed, SEED, 77),
    ROW(SMALL "settings: automatic\n", "threads=3", solve.threads, INT, 3),

    ROW(SMALL, "objective.beta=0.75", problem.objective.b, DOUBLE, 0.75),
    ROW(SMALL, "objective.reference.batch=123", problem.objective.batch, INT, 123),
    ROW(SMALL, "objective.ramp=17", problem.objective.ramp, LONG, 17),
    ROW(FIT "{type: circles}\n", "objective.batch=19", problem.objective.batch, INT, 19),
    ROW(FIT "{type: circles}\n", "objective.energy2=0.0625", problem.objective.energy2, DOUBLE, 0.0625),
};

static double value_of(const job *j, const key_value *v)
{
    const char *at = (const char *)j + v->field;
    int small;
    int64_t large;
    uint64_t seed;
    double number;
    switch (v->type) {
    case INT: memcpy(&small, at, sizeof small); return small;
    case LONG: memcpy(&large, at, sizeof large); return (double)large;
    case SEED: memcpy(&seed, at, sizeof seed); return (double)seed;
    default: memcpy(&number, at, sizeof number); return number;
    }
}

/* The job of the text with one assignment (NULL: none). */
static void build(job *j, config **c, const char *text, const char *assignment)
{
    char whole[4 * RUNTEXT_PATH];
    int io;
    if (!runtext_beside_examples(text, whole)) skip();
    if (!strstr(whole, "settings:"))
        (void)snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "settings: explicit\n");
    *c = config_parse(whole, "file", ERROR);
    if (!*c || (assignment && config_set(*c, assignment, ERROR)) || config_resolve(*c, ERROR) ||
        job_build(j, *c, &io, ERROR))
        fail_msg("%s\n%s%s", error, text, assignment ? assignment : "");
}

static void every_key_reaches_its_field(void **state)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const key_value *v = &values[i];
        job without, with;
        config *a, *b;
        build(&without, &a, v->text, NULL);
        build(&with, &b, v->text, v->assignment);
        if (value_of(&with, v) != v->expected || value_of(&without, v) == v->expected) {
            print_error("%s%s: the field is %g, and %g without it\n", v->text, v->assignment, value_of(&with, v),
                        value_of(&without, v));
            wrong++;
        }
        job_free(&without);
        job_free(&with);
        config_free(a);
        config_free(b);
    }
    assert_int_equal(wrong, 0);
}

/* Of every key of these sections there is a row above; those of mappings and lists stand for what they hold. */
static void no_key_is_left_out(void **state)
{
    static const char *const sections[] = {"scheme.",   "kernel.",    "resampling.", "adapt.",  "optimiser.",
                                           "particles", "iterations", "seed",        "threads", "on_",
                                           "precision", "limits.",    "settings"};
    int missing = 0, seen = 0;
    for (const schema_key *row = schema_keys; row->path; row++) {
        int ours = 0, found = 0;
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
            ours |= strncmp(row->path, sections[s], strlen(sections[s])) == 0;
        if (!ours || row->type == TYPE_MAP || row->type == TYPE_RULES) continue;
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            const char *path = values[i].assignment;
            char plain[64];
            size_t n = strcspn(path, "=");
            (void)snprintf(plain, sizeof plain, "%.*s", (int)n, path);
            char *digit = strstr(plain, ".1.");
            if (digit) memmove(digit, digit + 2, strlen(digit + 2) + 1);
            found |= strcmp(plain, row->path) == 0;
        }
        if (!found) print_error("no row sets %s\n", row->path);
        missing += !found;
        seen++;
    }
    assert_true(seen > 40);
    assert_int_equal(missing, 0);
}

/* The share of the wide part, and the spread of a standardised feature, which is that of a population: divided by n. */
static void logistic_regression(void **state)
{
    char path[RUNTEXT_PATH];
    int io;
    job j = {.iterations = 0};
    if (!runtext_source("examples/logistic.yaml", path)) skip();
    config *c = config_load(path, ERROR);
    if (!c || config_set(c, "init.share=0.3125", ERROR) || config_set(c, "model.train=null", ERROR) ||
        config_resolve(c, ERROR) || job_build(&j, c, &io, ERROR))
        fail_msg("%s", error);
    const sosmc_gaussian *law = j.problem.init.self;
    assert_true(law->share == 0.3125);
    const sosmc_logistic *l = j.parts->model;
    assert_true(l->rows > 10);
    for (int k = 0; k < l->dim; k++) {
        double mean = 0, squares = 0;
        for (int r = 0; r < l->rows; r++) mean += l->features[r * l->dim + k] / l->rows;
        for (int r = 0; r < l->rows; r++) squares += pow(l->features[r * l->dim + k] - mean, 2) / l->rows;
        if (squares > 0) assert_true(fabs(mean) < 1e-12 && fabs(squares - 1) < 1e-12);
    }
    job_free(&j);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_reaches_its_field),
        cmocka_unit_test(no_key_is_left_out),
        cmocka_unit_test(logistic_regression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
