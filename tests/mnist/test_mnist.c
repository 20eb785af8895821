/* test_mnist.c: the experiment with pictures: its cells and their run files against the published constants, rewards against
 * those of a run, recorded values, chains that share their noise and are kept, a look at made-up particles, verdicts worked
 * out from made-up findings, the whole of it at a tiny size with a small network, its continuation, and what it says to files
 * that are missing or of something else. */
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

#include "runfile/config.h"
#include "folder.h"
#include "pictures/images.h"
#include "mnist/mnist_chains.h"
#include "mnist/mnist_figures.h"
#include "mnist/mnist_page.h"
#include "mnist/mnist_record.h"
#include "job/network_text.h"
#include "job/problem.h"
#include "reference.h"
#include "common/reproduce.h"
#include "terminal/say.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

static int set_up(void **state) { return folder_make(folder, "test_mnist"); }
static int tear_down(void **state) { return folder_remove(folder); }

/* A network of 28 by 28 pictures that costs nothing; another one for every seed. */
static const char *small_network(const char *name, uint64_t seed, const char *layers)
{
    model_file m = {.inputs = 0};
    const char *path = folder_path(folder, name);
    if (network_parse(layers, &m.network, ERROR)) fail_msg("%s", error);
    m.parameters = (int)network_parameters(&m.network);
    m.inputs = m.network.channels * m.network.rows * m.network.columns;
    m.theta = calloc((size_t)m.parameters, sizeof *m.theta);
    assert_non_null(m.theta);
    sosmc_network_init(&m.network, seed, m.theta);
    if (model_write(path, &m, ERROR)) fail_msg("%s", error);
    model_free(&m);
    return path;
}

#define SMALL "1x28x28; conv 2 5 stride 4 silu; dense 1; energy -1"

/* ---------------------------------------------------------------------------- cells */

static int count(const mnist_plan *p, int group, int method)
{
    int n = 0;
    for (int i = 0; i < p->cells; i++) n += (int)p->cell[i].group == group && (int)p->cell[i].method == method;
    return n;
}

static mnist_plan planned(mnist_scale scale)
{
    mnist_plan p = {.out = "/out", .scale = scale, .seed = 42};
    if (mnist_plan_open(&p, ERROR) || mnist_plan_cells(&p, ERROR) || known_open(&p.known, "mnist", ERROR))
        fail_msg("%s", error);
    return p;
}

static void sizes(void **state)
{
    mnist_plan p = planned(mnist_scale_default());
    assert_int_equal(count(&p, MNIST_PAIR, MNIST_SOSMC), 2);
    assert_int_equal(count(&p, MNIST_SWEEP, MNIST_IMPDIFF), 12);
    assert_int_equal(count(&p, MNIST_SWEEP, MNIST_SOSMC), 12);
    assert_int_equal(count(&p, MNIST_PAPER, MNIST_SOSMC), 0);
    const mnist_cell *c = mnist_find(&p, MNIST_PAIR, MNIST_BRIGHT, 1, MNIST_SOSMC);
    assert_true(c && c->set.particles == 1000 && c->set.every == 250);
    for (int i = 1; i < p.cells; i++) assert_true(mnist_cell_cost(&p.cell[i - 1]) >= mnist_cell_cost(&p.cell[i]));
    int starts = 0;
    for (int i = 0; i < p.cells; i++) starts += mnist_start_is_first(&p, i);
    assert_int_equal(starts, 3 + mnist_has_group(&p, MNIST_BETTER)); /* two pairs, and the sweeps share theirs */
    mnist_plan_free(&p);
    p = planned(mnist_scale_full());
    assert_int_equal(count(&p, MNIST_SWEEP, MNIST_SOSMC), 36);
    assert_int_equal(count(&p, MNIST_PAPER, MNIST_IMPDIFF), 12);
    assert_int_equal(mnist_find(&p, MNIST_PAIR, MNIST_BRIGHT, 1, MNIST_SOSMC)->set.particles, 10000);
    mnist_plan_free(&p);
    p = planned(mnist_scale_quick());
    assert_int_equal(p.cells, 7);
    assert_int_equal(count(&p, MNIST_REDUCED, MNIST_SOSMC), 4);
    mnist_plan_free(&p);
    p = (mnist_plan){.scale = {.seeds = 1000}};
    assert_int_equal(mnist_plan_cells(&p, ERROR), -1);
    assert_non_null(strstr(error, "1000"));
}

static void names_differ(void **state)
{
    mnist_plan p = planned(mnist_scale_full());
    char a[MNIST_NAME], b[MNIST_NAME];
    for (int i = 0; i < p.cells; i++)
        for (int j = 0; j < i; j++) {
            mnist_cell_name(&p.cell[i], a, sizeof a);
            mnist_cell_name(&p.cell[j], b, sizeof b);
            assert_string_not_equal(a, b);
        }
    mnist_plan_free(&p);
}

static mnist_scale tiny(void)
{
    return (mnist_scale){.reduced = 1,
                         .particles = 8,
                         .iterations = 4,
                         .warm = 2,
                         .purify = 2,
                         .chains = 2,
                         .steps = 2,
                         .final_chains = 8,
                         .final_steps = 3,
                         .figure_steps = 12,
                         .least_every = 2};
}

/* Run to run, the start differs as well as the noise; within a run of all betas it does not. */
static void every_seed_has_its_start(void **state)
{
    char at[FILES_PATH], a[MNIST_NAME], b[MNIST_NAME];
    npy_array x[2];
    mnist_plan p = {.out = folder, .scale = tiny(), .seed = 42};
    assert_int_equal(mnist_plan_open(&p, ERROR), 0);
    (void)snprintf(p.model, sizeof p.model, "%s", small_network("starts.safetensors", 1, SMALL));
    for (int seed = 0; seed < 2; seed++) {
        mnist_cell c = {.seed = seed, .beta = 1, .set = p.setting[MNIST_SWEEPS]};
        c.set.particles = 4;
        c.set.warm = 2;
        mnist_cell other = c;
        other.beta = 2;
        mnist_start_name(&c, 0, a);
        mnist_start_name(&other, 0, b);
        assert_string_equal(a, b);
        assert_int_equal(mnist_start_run(&p, &c, 1, 1), SOSMC_EXIT_OK);
        (void)snprintf(at, sizeof at, "%s/start/%s/particles.npz", folder, a);
        if (npz_read(at, "x", &x[seed], ERROR)) fail_msg("%s", error);
    }
    const double *first = x[0].data, *second = x[1].data;
    int64_t equal = 0, n = npy_count(&x[0]);
    assert_true(n == (int64_t)4 * MNIST_PIXELS && npy_count(&x[1]) == n && x[0].type == NPY_F64);
    for (int64_t i = 0; i < n; i++) equal += first[i] == second[i];
    assert_true(equal < n / 10);
    npy_free(&x[0]);
    npy_free(&x[1]);
}

static config *resolved(const mnist_plan *p, const mnist_cell *cell)
{
    assert_non_null(cell);
    experiment_file f = mnist_cell_file(p, cell);
    experiment_set(&f, "model.file=/m.safetensors");
    experiment_set(&f, "init.file=/x.npz");
    if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) fail_msg("%s", f.error);
    return f.c;
}

/* What all cells of the authors' program share, and what the arguments say. */
static void check_run(const mnist_plan *p, mnist_group group, mnist_reward reward, double beta, mnist_method method,
                      const double expected[8])
{
    config *c = resolved(p, mnist_find(p, group, reward, beta, method));
    const char *const keys[] = {"particles",     "optimiser.rate",         "kernel.step",
                                "kernel.noise",  "objective.reward.scale", "evaluate.chains",
                                "evaluate.steps"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (config_number(c, keys[i]) != expected[i])
            fail_msg("%s is %g, expected %g", keys[i], config_number(c, keys[i]), expected[i]);
    assert_true(config_number(c, "objective.beta") == beta);
    assert_string_equal(config_text(c, "objective.type"), "reward_reverse");
    assert_string_equal(config_text(c, "objective.reward.type"), mnist_reward_names[reward]);
    assert_true(config_number(c, "objective.reward.clamp") == 1);
    assert_string_equal(config_text(c, "kernel.type"), "ula");
    assert_string_equal(config_text(c, "optimiser.type"), "adam");
    assert_true(config_number(c, "optimiser.beta1") == 0.9 && config_number(c, "optimiser.beta2") == 0.999);
    assert_string_equal(config_text(c, "evaluate.sampler"), "jitter");
    assert_int_equal(config_integer(c, "evaluate.every"), 50);
    assert_int_equal(config_integer(c, "iterations"), 1000);
    assert_int_equal(config_integer(c, "seed"), 42);
    if (method == MNIST_SOSMC) {
        assert_string_equal(config_text(c, "scheme.type"), "sosmc");
        assert_string_equal(config_text(c, "scheme.order"), "authors");
        assert_string_equal(config_text(c, "resampling.scheme"), "systematic");
        assert_true(config_number(c, "resampling.threshold") == expected[7]);
        assert_int_equal(config_count(c, "adapt"), group == MNIST_PAPER);
        if (group == MNIST_PAPER) {
            assert_true(config_number(c, "adapt.threshold") == 0.95 && config_number(c, "adapt.factor") == 1.01);
            assert_true(config_number(c, "adapt.max") == 0.01);
        }
    } else {
        assert_string_equal(config_text(c, "scheme.type"), "impdiff_printed");
    }
    config_free(c);
}

static void run_files(void **state)
{
    mnist_plan p = planned(mnist_scale_full());
    for (int m = 0; m < MNIST_METHODS; m++) {
        mnist_method method = (mnist_method)m;
        check_run(&p, MNIST_PAIR, MNIST_BRIGHT, 1, method, (double[]){10000, 1e-4, 5e-3, 0.1, 1, 64, 128, 0.95});
        check_run(&p, MNIST_PAIR, MNIST_HALF, 1, method, (double[]){2000, 2e-4, 3e-3, 0.4, 2, 128, 1000, 0.95});
        check_run(&p, MNIST_SWEEP, MNIST_DARK, 0.5, method, (double[]){1000, 1e-4, 3e-3, 1, 0.5, 64, 512, 0.9});
        check_run(&p, MNIST_SWEEP, MNIST_HALF, 5, method, (double[]){1000, 1e-4, 3e-3, 1, 2, 64, 512, 0.9});
        check_run(&p, MNIST_PAPER, MNIST_HALF, 2, method, (double[]){1000, 1e-4, 5e-3, 1, 1, 64, 512, 0.9});
        check_run(&p, MNIST_PAPER, MNIST_DARK, 2, method, (double[]){1000, 1e-4, 5e-3, 1, 1, 64, 512, 0.9});
    }
    assert_int_equal(mnist_find(&p, MNIST_PAIR, MNIST_BRIGHT, 1, MNIST_SOSMC)->set.final_steps, 256);
    assert_int_equal(mnist_find(&p, MNIST_PAIR, MNIST_HALF, 1, MNIST_SOSMC)->set.final_steps, 1000);
    assert_int_equal(mnist_find(&p, MNIST_SWEEP, MNIST_HALF, 1, MNIST_SOSMC)->set.final_chains, 192);
    mnist_plan_free(&p);
}

/* The settings of our own, and the starts: what every run file says. */
static void settings_of_files(void **state)
{
    static const mnist_setting expected[MNIST_SETTINGS] = {
        [MNIST_PAIR_BRIGHT] = {.particles = 10000, .iterations = 1000, .warm = 256, .purify = 1000, .every = 50},
        [MNIST_PAIR_HALF] = {.particles = 2000, .iterations = 1000, .warm = 256, .purify = 2000, .every = 50},
        [MNIST_SWEEPS] = {.particles = 1000, .iterations = 1000, .warm = 1000, .every = 50},
        [MNIST_PAPER_SWEEPS] = {.particles = 1000, .iterations = 1000, .warm = 1000, .every = 50},
        [MNIST_SMALL] = {.particles = 128, .iterations = 300, .warm = 256, .every = 50},
        [MNIST_SMALL_COLD] = {.particles = 128, .iterations = 300, .warm = 256, .purify = 300, .every = 50},
        [MNIST_COLD_TARGET] = {.particles = 1000, .iterations = 300, .warm = 256, .every = 100}};
    mnist_plan p = planned(mnist_scale_full());
    for (int i = 0; i < MNIST_SETTINGS; i++) {
        const mnist_setting *s = &p.setting[i], *e = &expected[i];
        if (s->particles != e->particles || s->iterations != e->iterations || s->warm != e->warm ||
            s->purify != e->purify || s->every != e->every)
            fail_msg("%s or a run file of its start has another size", s->file);
        if (!s->purifier) continue;
        experiment_file f = experiment_load(p.settings, s->purifier);
        if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) fail_msg("%s", f.error);
        if (config_number(f.c, "kernel.step") != s->gamma || config_number(f.c, "kernel.noise") != s->noise ||
            config_integer(f.c, "particles") != s->particles)
            fail_msg("%s has not the step, the noise and the particles of %s", s->purifier, s->file);
        config_free(f.c);
    }
    const mnist_setting *cold = &p.setting[MNIST_SMALL_COLD], *small = &p.setting[MNIST_SMALL];
    assert_true(small->gamma == 3e-3 && small->noise == 1 && small->threshold == 0.9 && small->rate == 1e-4);
    assert_true(cold->gamma == 5e-3 && cold->noise == 0.1 && cold->threshold == 0.95 && cold->rate == 1e-4);
    config *c = resolved(&p, mnist_find(&p, MNIST_BETTER, MNIST_HALF, 0.03, MNIST_SOSMC));
    assert_true(config_number(c, "model.temperature") == 0.01 && config_number(c, "kernel.step") == 1e-4);
    assert_true(config_number(c, "evaluate.step") == 0.1 && config_number(c, "evaluate.gradient_clip") == 3);
    assert_true(config_number(c, "optimiser.rate") == 3e-5 && config_number(c, "objective.beta") == 0.03);
    config_free(c);
    mnist_plan_free(&p);
}

static void rewards(void **state)
{
    char text[512];
    double x[MNIST_PIXELS], score;
    const char *path = small_network("rewards.safetensors", 1, SMALL);
    for (int i = 0; i < MNIST_PIXELS; i++) x[i] = 2 * sin(i * i); /* also outside of [-1, 1] */
    for (int r = 0; r < MNIST_REWARDS; r++) {
        job j;
        int io = 0;
        (void)snprintf(text, sizeof text,
                       "model: {type: stored, file: %s}\n"
                       "objective: {type: none, reward: {type: %s, scale: 0.5}}\n",
                       path, mnist_reward_names[r]);
        config *c = config_parse(text, "reward", ERROR);
        if (!c || config_resolve(c, ERROR) || job_build(&j, c, &io, ERROR)) fail_msg("%s", error);
        sosmc_batch b = {.x = x, .simd = sosmc_simd_best(), .dim = MNIST_PIXELS, .n = 1, .ld = 1};
        const sosmc_score *s = &j.problem.objective.score;
        assert_int_equal(s->eval(s->self, &b, &score), 0);
        assert_true(fabs(score - mnist_reward_of((mnist_reward)r, 0.5, x)) < 1e-12);
        job_free(&j);
        config_free(c);
    }
    for (int i = 0; i < MNIST_PIXELS; i++) x[i] = i < MNIST_PIXELS / 2 ? -1 : 3;
    assert_true(fabs(mnist_reward_of(MNIST_HALF, 1, x) - 1) < 1e-12); /* row 1 is at the top */
    assert_true(fabs(mnist_reward_of(MNIST_BRIGHT, 1, x)) < 1e-12);
}

/* ---------------------------------------------------------------------------- the record */

static void recorded(void **state)
{
    mnist_plan p = planned(mnist_scale_full());
    mnist_curves on_the_way;
    mnist_known k = mnist_known_of(&p, mnist_find(&p, MNIST_PAIR, MNIST_HALF, 1, MNIST_SOSMC));
    assert_true(k.baseline == 0.0406 && k.final == 0.3376 && isnan(k.rerun_gain));
    mnist_known_curves(&p, mnist_find(&p, MNIST_PAIR, MNIST_HALF, 1, MNIST_SOSMC), &on_the_way);
    assert_true(on_the_way.fresh[19][0] == 0.3833 && on_the_way.fresh[19][1] == 0.1394 &&
                on_the_way.cloud[9][4] == 1911.2 && k.particles == 2000);
    k = mnist_known_of(&p, mnist_find(&p, MNIST_PAIR, MNIST_BRIGHT, 1, MNIST_IMPDIFF));
    mnist_known_curves(&p, mnist_find(&p, MNIST_PAIR, MNIST_BRIGHT, 1, MNIST_IMPDIFF), &on_the_way);
    assert_true(k.final == -0.4868 && on_the_way.fresh[0][0] == -0.6413 && isnan(on_the_way.cloud[0][4]) &&
                on_the_way.cloud[0][2] == 0.023);
    k = mnist_known_of(&p, mnist_find(&p, MNIST_SWEEP, MNIST_DARK, 0.5, MNIST_SOSMC));
    mnist_known_curves(&p, mnist_find(&p, MNIST_SWEEP, MNIST_DARK, 0.5, MNIST_SOSMC), &on_the_way);
    assert_true(k.final == 0.4917 && on_the_way.fresh[1][0] == 0.4818 && on_the_way.cloud[9][0] == 0.1220 &&
                k.rerun_gain == 0.133);
    assert_true(fabs(k.rerun_gain_error - 0.009 / 3.92) < 1e-12 && k.rerun_ess == 996.6);
    k = mnist_known_of(&p, mnist_find(&p, MNIST_SWEEP, MNIST_HALF, 2, MNIST_SOSMC));
    mnist_known_curves(&p, mnist_find(&p, MNIST_SWEEP, MNIST_HALF, 2, MNIST_SOSMC), &on_the_way);
    assert_true(isnan(k.final) && !on_the_way.known && k.rerun_after == 0.2219);
    k = mnist_known_of(&p, mnist_find(&p, MNIST_SWEEP, MNIST_HALF, 2, MNIST_IMPDIFF));
    assert_true(isnan(k.rerun_gain) && isnan(k.final));
    k = mnist_known_of(&p, mnist_find(&p, MNIST_PAPER, MNIST_BRIGHT, 2, MNIST_SOSMC));
    assert_true(isnan(k.rerun_gain) && isnan(k.final));
    /* by hand: relative differences of the eight pairs of gains, and half of their mean square */
    assert_true(fabs(mnist_run_spread(&p) - 0.067) < 0.002);
    mnist_plan_free(&p);
}

static void published(void **state)
{
    mnist_network n;
    if (mnist_open(&n, reference_file("mnist_ebm_checkpoint.npz"), ERROR)) fail_msg("%s", error);
    assert_int_equal(mnist_is_published(n.file.theta, n.file.parameters), 1);
    n.file.theta[0] += 1e-3;
    assert_int_equal(mnist_is_published(n.file.theta, n.file.parameters), 0);
    mnist_close(&n);
}

/* ---------------------------------------------------------------------------- chains */

enum { CHAINS = 3, STEPS = 5 };

static void chains_share_noise(void **state)
{
    char one[FILES_PATH], other[FILES_PATH], cache[FILES_PATH];
    static double a[CHAINS * MNIST_PIXELS], b[CHAINS * MNIST_PIXELS], both[2 * CHAINS * MNIST_PIXELS];
    (void)snprintf(one, sizeof one, "%s", small_network("one.safetensors", 1, SMALL));
    (void)snprintf(other, sizeof other, "%s", small_network("other.safetensors", 2, SMALL));
    (void)snprintf(cache, sizeof cache, "%s", folder_path(folder, "kept.npz"));
    mnist_chains c = {.chains = CHAINS, .steps = STEPS, .seed = 7, .threads = 1};
    const int64_t at[] = {1, STEPS};
    if (mnist_chains_run(&c, one, cache, a, ERROR) || mnist_chains_run(&c, one, cache, b, ERROR)) fail_msg("%s", error);
    assert_memory_equal(a, b, sizeof a); /* made, and read */
    if (mnist_chains_run(&c, other, cache, b, ERROR)) fail_msg("%s", error);
    assert_memory_not_equal(a, b, sizeof a); /* what was kept is of another network */
    c.snapshots = 2;
    c.at = at;
    c.threads = 2;
    if (mnist_chains_run(&c, one, NULL, both, ERROR)) fail_msg("%s", error);
    assert_memory_equal(both + CHAINS * MNIST_PIXELS, a, sizeof a);
    c.steps = 1;
    c.snapshots = 0;
    if (mnist_chains_run(&c, other, NULL, b, ERROR)) fail_msg("%s", error);
    for (int i = 0; i < CHAINS * MNIST_PIXELS; i++) /* same start and noise: a step moves a pixel by 0.3 at most */
        assert_true(fabs(both[i] - b[i]) < 0.601);
    c = (mnist_chains){.chains = CHAINS, .steps = 1, .seed = 8, .threads = 1, .start = a};
    if (mnist_chains_run(&c, one, NULL, b, ERROR)) fail_msg("%s", error);
    for (int i = 0; i < CHAINS * MNIST_PIXELS; i++) assert_true(fabs(a[i] - b[i]) < 0.4 && fabs(b[i]) <= 1);
}

static void looks(void **state)
{
    char dir[FILES_PATH], path[FILES_PATH], reference[FILES_PATH];
    double x[2 * MNIST_PIXELS], logw[2] = {0, 0}, value[MNIST_CLOUDS], square = 0;
    (void)snprintf(reference, sizeof reference, "%s", small_network("reference.safetensors", 3, SMALL));
    (void)snprintf(dir, sizeof dir, "%s", folder_path(folder, "looked"));
    assert_int_equal(files_directory(dir, ERROR), 0);
    (void)small_network("looked/model.safetensors", 3, SMALL);
    for (int i = 0; i < 2 * MNIST_PIXELS; i++) x[i] = i < MNIST_PIXELS ? -0.5 : i % 2 ? 2 : 0.5;
    npz_member members[] = {{"x", npy_matrix(x, 2, MNIST_PIXELS)}, {"logw", npy_vector(logw, 2)}};
    assert_int_equal(files_join(path, dir, "particles.npz", ERROR), 0);
    assert_int_equal(npz_write(path, members, 2, 0, ERROR), 0);
    if (mnist_look(reference, dir, MNIST_BRIGHT, 2, value, ERROR)) fail_msg("%s", error);
    assert_true(fabs(value[MNIST_PLAIN] - 2 * (-0.5 + 0.75) / 2) < 1e-12);
    assert_true(fabs(value[MNIST_OUTSIDE] - 0.25) < 1e-12);
    assert_true(value[MNIST_ENERGY] == value[MNIST_ENERGY_REF]);
    for (int i = 0; i < 2 * MNIST_PIXELS; i++) square += pow(x[i] - 0.375, 2) / (2 * MNIST_PIXELS);
    assert_true(fabs(value[MNIST_PIXEL_SD] - sqrt(square)) < 1e-12);
    (void)small_network("looked/model.safetensors", 4, SMALL);
    if (mnist_look(reference, dir, MNIST_BRIGHT, 2, value, ERROR)) fail_msg("%s", error);
    assert_true(value[MNIST_ENERGY] != value[MNIST_ENERGY_REF]);
    assert_int_equal(mnist_look(reference, folder, MNIST_BRIGHT, 1, value, ERROR), -1);
    (void)small_network("wide.safetensors", 5, "1x14x56; dense 1");
    (void)small_network("narrow.safetensors", 5, "1x4x4; dense 1");
    mnist_network n;
    assert_int_equal(mnist_open(&n, folder_path(folder, "narrow.safetensors"), ERROR), -1);
    assert_non_null(strstr(error, "16 inputs"));
}

/* ---------------------------------------------------------------------------- verdicts */

/* Findings in which every claim holds. */
static void make_findings(mnist_findings *f, mnist_plan *plan)
{
    *f = (mnist_findings){.published = 1};
    if (mnist_findings_begin(f, plan, ERROR)) fail_msg("%s", error);
    for (int i = 0; i < f->bases; i++) f->base[i].spread = 0.5;
    for (int i = 0; i < plan->cells; i++) {
        mnist_cell *c = &plan->cell[i];
        mnist_finding *found = &f->cell[i];
        double gain = isnan(mnist_known_of(plan, c).rerun_gain) ? 0.2 : mnist_known_of(plan, c).rerun_gain;
        found->gain = (experiment_mean){.n = 192, .mean = gain, .sd = 0.05, .error = 0.004};
        found->over = (experiment_mean){
            .n = c->method == MNIST_SOSMC ? 192 : 0, .mean = c->reward == MNIST_HALF ? 0.01 : 0.001, .error = 0.002};
        found->sample.spread = c->beta < 1 ? 0.3 : 0.5;
        c->clouds = 1;
        for (int v = 0; v < MNIST_CLOUDS; v++) {
            c->cloud[v] = calloc(1, sizeof(double));
            assert_non_null(c->cloud[v]);
            c->cloud[v][0] = 0.5;
        }
    }
}

static void expect(const mnist_findings *f, const char *verdicts, const char *when)
{
    static const char letters[CLAIM_VERDICTS] = {'y', 'n', '-'};
    claim c[MNIST_CLAIMS];
    mnist_judge(f, c);
    for (int i = 0; i < MNIST_CLAIMS; i++) {
        assert_true(c[i].claim && c[i].because[0]);
        if (letters[c[i].verdict] != verdicts[i])
            fail_msg("%s: claim %d is %s: %s", when, i + 1, claim_verdict_names[c[i].verdict], c[i].because);
    }
}

/* The gain of SOSMC-ULA in a sweep, `apart` more with every further seed. */
static void set_gains(mnist_findings *f, const mnist_plan *p, mnist_reward reward, double beta, double gain,
                      double apart)
{
    for (int i = 0; i < p->cells; i++) {
        const mnist_cell *c = &p->cell[i];
        if (c->group == MNIST_SWEEP && c->method == MNIST_SOSMC && c->reward == reward && c->beta == beta)
            f->cell[i].gain.mean = gain + c->seed * apart;
    }
}

static void verdicts(void **state)
{
    mnist_plan p = planned(mnist_scale_full());
    mnist_findings f;
    make_findings(&f, &p);
    expect(&f, "yy-yyy", "everything as claimed");
    mnist_finding *half = &f.cell[mnist_find(&p, MNIST_SWEEP, MNIST_HALF, 0.5, MNIST_SOSMC) - p.cell];
    mnist_finding *dark = &f.cell[mnist_find(&p, MNIST_SWEEP, MNIST_DARK, 0.5, MNIST_SOSMC) - p.cell];
    half->over.mean = 0.001;
    expect(&f, "yn-yyy", "half is not better");
    half->over.mean = 0.01;
    dark->over.mean = 0.1;
    expect(&f, "yn-yyy", "dark is not comparable");
    dark->over.mean = 0;
    dark->sample.spread = 0.5;
    expect(&f, "yy-nyy", "no collapse");
    dark->sample.spread = 0.3;
    set_gains(&f, &p, MNIST_HALF, 0.5, 0.001, 0); /* positive, but within its errors; and far from the re-run */
    expect(&f, "ny-yyn", "a gain that is none");
    set_gains(&f, &p, MNIST_HALF, 0.5, -0.1, 0);
    expect(&f, "ny-ynn", "a loss");
    set_gains(&f, &p, MNIST_HALF, 0.5, 0.21, 0);
    f.published = 0;
    expect(&f, "yy-yy-", "another network");
    f.published = 1;
    for (int i = 0; i < p.cells; i++) f.cell[i].gain.mean += 0.3;
    expect(&f, "yy-yyn", "all gains elsewhere");
    for (int i = 0; i < p.cells; i++) f.cell[i].gain.mean -= 0.3;
    set_gains(&f, &p, MNIST_BRIGHT, 1, 0.229 + 0.03, 0); /* 5 standard errors of the chains, and runs do not differ */
    expect(&f, "yy-yyn", "a gain farther than the chains' errors");
    set_gains(&f, &p, MNIST_BRIGHT, 1, 0.229 + 0.02, 0.02); /* now they do, by 0.02 */
    expect(&f, "yy-yyy", "a gain as far as runs differ");
    set_gains(&f, &p, MNIST_BRIGHT, 1, 0.229 + 0.1, 0.02);
    expect(&f, "yy-yyn", "a gain farther than runs differ");
    mnist_findings_free(&f);
    mnist_plan_free(&p);
}

/* What the quick version does not run is said in a sentence, and a claim on all beta is not confirmed by one. */
static void verdicts_without_evidence(void **state)
{
    mnist_plan p = planned(mnist_scale_quick());
    mnist_findings f;
    claim c[MNIST_CLAIMS];
    make_findings(&f, &p);
    for (int i = 0; i < p.cells; i++)
        if (p.cell[i].reward == MNIST_HALF) f.cell[i].over.n = 0; /* it has no partner at this size */
    expect(&f, "----y-", "the quick version");
    mnist_judge(&f, c);
    for (int i = 0; i < MNIST_CLAIMS; i++) {
        assert_null(strstr(c[i].because, "0 of 0"));
        assert_null(strstr(c[i].because, "not measured"));
    }
    assert_non_null(strstr(c[0].because, "the quick version runs beta = 1 alone"));
    assert_non_null(strstr(c[1].because, "the quick version runs it with SOSMC-ULA alone"));
    assert_non_null(strstr(c[3].because, "the quick version runs beta = 1 alone"));
    assert_non_null(strstr(c[5].because, "the quick version runs beta = 1 alone"));
    for (int i = 0; i < p.cells; i++) f.cell[i].gain.mean = NAN;
    for (int i = 0; i < p.cells; i++) f.cell[i].over.n = 0;
    expect(&f, "------", "nothing measured");
    mnist_findings_free(&f);
    mnist_plan_free(&p);
}

static void distances(void **state)
{
    mnist_plan p = planned(mnist_scale_default());
    mnist_findings f;
    make_findings(&f, &p);
    const mnist_cell *c = mnist_find(&p, MNIST_SWEEP, MNIST_BRIGHT, 1, MNIST_SOSMC);
    f.cell[c - p.cell].gain.mean = 0.259; /* the re-run has 0.229, with an interval of 0.015 */
    mnist_distance d = mnist_apart(&f, c);
    double chains = hypot(0.004, 0.015 / 3.92), run = mnist_run_spread(&p) * 0.229 * sqrt(2);
    assert_true(fabs(d.chains - 0.03 / chains) < 1e-9 && fabs(d.all - 0.03 / hypot(chains, run)) < 1e-9);
    assert_true(isnan(mnist_apart(&f, mnist_find(&p, MNIST_SWEEP, MNIST_BRIGHT, 1, MNIST_IMPDIFF)).all));
    mnist_findings_free(&f);
    mnist_plan_free(&p);
}

/* ---------------------------------------------------------------------------- the whole, small */

static char *contents(const char *dir, const char *name)
{
    char path[FILES_PATH], *bytes = NULL;
    size_t size;
    if (files_join(path, dir, name, ERROR) || files_read(path, 1 << 24, &bytes, &size, ERROR)) fail_msg("%s", error);
    return bytes;
}

static void whole(void **state)
{
    mnist_scale scale = tiny();
    char model[FILES_PATH], out[FILES_PATH];
    static const char *const files[] = {"report.html", "summary.json", "table.csv"};
    char *before[3];
    (void)snprintf(model, sizeof model, "%s", small_network("whole.safetensors", 1, SMALL));
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, "out"));
    reproduce_options o = {.out = out, .quiet = 1, .threads = 2, .checkpoint = model};
    scale.iterations = 2;
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_OK);
    scale.iterations = 4; /* more iterations continue the runs */
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_OK);
    for (int i = 0; i < 3; i++) before[i] = contents(out, files[i]);
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_OK); /* all is there already */
    for (int i = 0; i < 3; i++) {
        char *after = contents(out, files[i]);
        assert_string_equal(after, before[i]);
        free(after);
    }
    assert_non_null(strstr(before[0], "not the published checkpoint"));
    assert_non_null(strstr(before[0], "data:image/png;base64,"));
    assert_non_null(strstr(before[1], "\"published_checkpoint\": false"));
    assert_non_null(strstr(before[2], "reduced,cold,bright,1,1,SOSMC-ULA,0,8,4,"));
    for (int i = 0; i < 3; i++) free(before[i]);
    o.seed = 1; /* the folder belongs to other runs */
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_USAGE);
}

static void grids(void **state)
{
    char model[FILES_PATH], path[FILES_PATH];
    (void)snprintf(model, sizeof model, "%s", small_network("cells.safetensors", 1, SMALL));
    char numbers[MNIST_NAME];
    mnist_plan p = {.out = folder, .scale = {.figure_steps = 11}};
    mnist_findings f = {.threads = 1};
    (void)snprintf(p.model, sizeof p.model, "%s", model);
    assert_int_equal(files_directory(folder_path(folder, "studies"), ERROR), 0);
    if (mnist_plan_open(&p, ERROR) || mnist_plan_cells(&p, ERROR) || mnist_findings_begin(&f, &p, ERROR))
        fail_msg("%s", error);
    const mnist_cell *cell[2] = {mnist_find(&p, MNIST_SWEEP, MNIST_DARK, 5, MNIST_SOSMC),
                                 mnist_find(&p, MNIST_SWEEP, MNIST_DARK, 1, MNIST_SOSMC)};
    for (int i = 0; i < 2; i++) {
        char relative[MNIST_NAME + 64], name[MNIST_NAME];
        mnist_cell_name(cell[i], name, sizeof name);
        (void)snprintf(relative, sizeof relative, "cells/%s", name);
        assert_int_equal(files_directory(folder_path(folder, relative), ERROR), 0);
        (void)snprintf(relative, sizeof relative, "cells/%s/model.safetensors", name);
        (void)small_network(relative, (uint64_t)i + 2, SMALL);
    }
    if (mnist_draw_samples(&f, cell, 2, MNIST_DARK, folder, "samples", ERROR) ||
        mnist_draw_trajectories(&f, cell, 2, MNIST_DARK, numbers, folder, "trajectories", ERROR))
        fail_msg("%s", error);
    assert_string_equal(numbers, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11");
    image im;
    (void)snprintf(path, sizeof path, "%s", folder_path(folder, "samples.png"));
    if (image_read(path, &im, ERROR)) fail_msg("%s", error);
    assert_int_equal(im.rows, 3 * 2 * MNIST_SIDE + 4 * 2);
    assert_int_equal(im.columns, 8 * 2 * MNIST_SIDE + 9 * 2);
    image_free(&im);
    (void)snprintf(path, sizeof path, "%s", folder_path(folder, "trajectories.png"));
    if (image_read(path, &im, ERROR)) fail_msg("%s", error);
    assert_int_equal(im.columns, 11 * 2 * MNIST_SIDE + 12 * 2);
    image_free(&im);
    mnist_findings_free(&f);
    mnist_plan_free(&p);
}

static void refusals(void **state)
{
    mnist_scale scale = tiny();
    reproduce_options o = {.out = folder_path(folder, "refused"), .quiet = 1, .checkpoint = "/nowhere/x.safetensors"};
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_IO);
    o.checkpoint = small_network("points.safetensors", 1, "1x4x4; dense 1");
    assert_int_equal(reproduce_mnist_scaled(&o, &scale), SOSMC_EXIT_IO);
    o.checkpoint = small_network("fine.safetensors", 1, SMALL);
    o.quick = o.full = 1;
    assert_int_equal(reproduce_mnist(&o), SOSMC_EXIT_USAGE);
    assert_int_equal(access(folder_path(folder, "refused"), F_OK), -1); /* nothing is left behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names_differ),
        cmocka_unit_test(every_seed_has_its_start),
        cmocka_unit_test(run_files),
        cmocka_unit_test(settings_of_files),
        cmocka_unit_test(rewards),
        cmocka_unit_test(recorded),
        cmocka_unit_test(published),
        cmocka_unit_test(chains_share_noise),
        cmocka_unit_test(looks),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(verdicts_without_evidence),
        cmocka_unit_test(distances),
        cmocka_unit_test(whole),
        cmocka_unit_test(grids),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
