/* mnist_cells.c: the cells of the experiment with pictures: their run files (experiments/mnist, with what a cell sets), run as
 * any other run file and read back.
 *
 * A run stops every so many iterations for a look at its particles, which goes to cloud.csv; continuing a run does not change
 * its numbers. Invariant: a cell's directory holds a row of cloud.csv for every stop that its checkpoint is beyond. */
#include "mnist_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mnist_chains.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

static const char *const method_words[MNIST_METHODS] = {"impdiff", "sosmc"};

/* ---------------------------------------------------------------------------- run files */

const char *mnist_description(const char *model)
{
    const char *dot = strrchr(model, '.');
    return dot && strcmp(dot, ".npz") == 0 ? "mnist" : NULL;
}

double mnist_reward_of(mnist_reward reward, double scale, const double *x)
{
    double upper = 0, lower = 0;
    for (int i = 0; i < MNIST_PIXELS; i++) {
        double c = fmax(-1, fmin(1, x[i]));
        if (i < MNIST_PIXELS / 2)
            upper += c;
        else
            lower += c;
    }
    double r = reward == MNIST_HALF ? lower - upper : reward == MNIST_DARK ? -lower - upper : lower + upper;
    return scale * r / MNIST_PIXELS; /* half: (1/2) of means over half of the pixels */
}

experiment_file mnist_cell_file(const mnist_plan *plan, const mnist_cell *c)
{
    static const char *const impdiff[] = {"scheme=impdiff_printed", "init.exact=false", "resampling=null",
                                          "adapt=null"};
    const mnist_setting *s = &c->set;
    experiment_file f = experiment_load(plan->settings, s->file);
    for (size_t i = 0; c->method == MNIST_IMPDIFF && i < sizeof impdiff / sizeof *impdiff; i++)
        experiment_set(&f, "%s", impdiff[i]);
    experiment_set(&f, "objective.beta=%.17g", c->beta);
    experiment_set(&f, "objective.reward={type: %s, scale: %.17g}", mnist_reward_names[c->reward], c->scale);
    experiment_set(&f, "particles=%d", s->particles);
    experiment_set(&f, "iterations=%d", s->iterations);
    experiment_set(&f, "seed=%" PRIu64, plan->seed + (uint64_t)c->seed);
    experiment_set(&f, "evaluate.every=%d", s->every);
    experiment_set(&f, "evaluate.chains=%d", s->chains);
    experiment_set(&f, "evaluate.steps=%d", s->steps);
    return f;
}

void mnist_setting_name(const mnist_cell *c, char *out, size_t room)
{
    (void)snprintf(out, room, "%s%s%s-%s-beta%g", mnist_group_names[c->group], c->label ? "-" : "",
                   c->label ? c->label : "", mnist_reward_names[c->reward], c->beta);
}

void mnist_cell_name(const mnist_cell *c, char *out, size_t room)
{
    char setting[MNIST_NAME], seed[16] = "";
    mnist_setting_name(c, setting, sizeof setting);
    if (c->seed > 0) (void)snprintf(seed, sizeof seed, "-seed%d", c->seed);
    (void)snprintf(out, room, "%.100s-%s%s", setting, method_words[c->method], seed);
}

static void cell_name(const void *context, int cell, char out[GRID_NAME])
{
    mnist_cell_name(&((const mnist_plan *)context)->cell[cell], out, GRID_NAME);
}

int mnist_cell_model(const mnist_plan *plan, const mnist_cell *c, char out[FILES_PATH], char *error, size_t room)
{
    const grid g = {.out = plan->out, .name = cell_name, .context = (void *)plan};
    return grid_path(&g, (int)(c - plan->cell), "model.safetensors", out, error, room);
}

static int start_path(const mnist_plan *plan, const mnist_cell *c, int purified, const char *file, char out[FILES_PATH],
                      char *error, size_t room)
{
    char name[MNIST_NAME], relative[MNIST_NAME + 64];
    mnist_start_name(c, purified, name);
    (void)snprintf(relative, sizeof relative, "start/%s%s", name, file);
    return files_join(out, plan->out, relative, error, room);
}

/* ---------------------------------------------------------------------------- running */

static void set_model(experiment_file *f, const mnist_plan *plan)
{
    const char *network = mnist_description(plan->model);
    experiment_set(f, "model.file=%s", plan->model);
    if (network) experiment_set(f, "model.network=%s", network);
}

/* Start runs of further seeds use seeds that no tuning run has. */
#define SEEDS_APART UINT64_C(1000)

/* A start run makes several moves per iteration, because logging an iteration costs an evaluation and nobody reads that
 * log. */
static int sweeps_of(int steps)
{
    int n = 16;
    while (steps % n) n--;
    return n;
}

static int sample_start(const mnist_plan *plan, const mnist_cell *c, const char *init, int threads, int quiet)
{
    const mnist_setting *s = &c->set;
    char dir[FILES_PATH], error[SENTENCE];
    int purify = init != NULL, steps = purify ? s->purify : s->warm, sweeps = sweeps_of(steps);
    if (start_path(plan, c, purify, "", dir, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    experiment_file f = experiment_load(plan->settings, purify ? s->purifier : s->sampler);
    set_model(&f, plan);
    if (purify) experiment_set(&f, "init.file=%s", init);
    experiment_set(&f, "scheme.sweeps=%d", sweeps);
    experiment_set(&f, "particles=%d", s->particles);
    experiment_set(&f, "iterations=%d", steps / sweeps + 1);
    experiment_set(&f, "seed=%" PRIu64, plan->seed + SEEDS_APART * (uint64_t)c->seed + (purify ? 1 : 0));
    experiment_set(&f, "threads=%d", threads);
    return experiment_go(&f, dir, quiet);
}

int mnist_start_run(const mnist_plan *plan, const mnist_cell *c, int threads, int quiet)
{
    char init[FILES_PATH], error[SENTENCE];
    int code = sample_start(plan, c, NULL, threads, quiet);
    if (code != SOSMC_EXIT_OK || c->set.purify == 0) return code;
    if (start_path(plan, c, 0, "/particles.npz", init, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    return sample_start(plan, c, init, threads, quiet);
}

/* A cell under way. */
typedef struct {
    const mnist_plan *plan;
    const mnist_cell *cell;
    char dir[FILES_PATH], init[FILES_PATH];
} cell_run;

/* A look at the particles that the run has just left. */
static int look(void *context, int k, double *value, char *error, size_t room)
{
    const cell_run *r = context;
    double cloud[MNIST_CLOUDS];
    (void)k;
    if (mnist_look(r->plan->model, r->dir, r->cell->reward, r->cell->scale, cloud, error, room)) return -1;
    memcpy(value, cloud + 1, (MNIST_CLOUDS - 1) * sizeof *value);
    return 0;
}

/* The stops fall on evaluations, because the last iteration of a run is always evaluated. */
static int between_stops(const mnist_setting *s)
{
    int wanted = s->iterations / 10, n = wanted / s->every;
    return s->every * (n > 1 ? n : 1);
}

static int next_stop(const void *context, int k)
{
    const mnist_setting *s = &((const cell_run *)context)->cell->set;
    int last = s->iterations - 1, next = k < 0 ? 0 : k + between_stops(s);
    return k >= last ? s->iterations : next < last ? next : last;
}

static int run_until(void *context, int iterations)
{
    const cell_run *r = context;
    mnist_cell stage = *r->cell;
    stage.set.iterations = iterations;
    experiment_file f = mnist_cell_file(r->plan, &stage);
    set_model(&f, r->plan);
    experiment_set(&f, "init.file=%s", r->init);
    return experiment_go(&f, r->dir, 1);
}

int mnist_cell_run(mnist_plan *plan, int cell, char *error, size_t room)
{
    char spare[FILES_PATH], name[GRID_NAME];
    cell_run r = {.plan = plan, .cell = &plan->cell[cell]};
    const grid g = {.out = plan->out, .name = cell_name, .context = plan};
    const experiment_stages stages = {.dir = r.dir,
                                      .file = "cloud.csv",
                                      .columns = "iteration,reward,energy,energy_ref,pixel_sd,outside",
                                      .name = name,
                                      .values = MNIST_CLOUDS - 1,
                                      .iterations = r.cell->set.iterations,
                                      .next = next_stop,
                                      .run = run_until,
                                      .look = look,
                                      .context = &r};
    cell_name(plan, cell, name);
    if (grid_path(&g, cell, NULL, r.dir, error, room) ||
        grid_path(&g, cell, "checkpoint.previous", spare, error, room) ||
        start_path(plan, r.cell, r.cell->set.purify > 0, "/particles.npz", r.init, error, room))
        return SOSMC_EXIT_IO;
    int code = experiment_run_in_stages(&stages);
    /* Removes checkpoint.previous, half of what a finished cell takes on the disk. */
    if (code == SOSMC_EXIT_OK) (void)unlink(spare);
    return code;
}

int mnist_cell_read(mnist_plan *plan, int cell, char *error, size_t room)
{
    static const char *const values[MNIST_VALUES] = {"iteration", "fresh", "fresh_error", "particle_kl",
                                                     "particle_loss"};
    static const char *const series[MNIST_SERIES] = {"iteration", "mean_score", "ess", "resampled", "h"};
    static const char *const clouds[MNIST_CLOUDS] = {"iteration",  "reward",   "energy",
                                                     "energy_ref", "pixel_sd", "outside"};
    mnist_cell *c = &plan->cell[cell];
    const grid g = {.out = plan->out, .name = cell_name, .context = plan};
    char dir[FILES_PATH];
    mnist_cell_forget(c);
    return grid_path(&g, cell, NULL, dir, error, room) ||
                   experiment_columns(dir, "evaluation.csv", values, MNIST_VALUES, c->value, &c->evaluations, error,
                                      room) ||
                   experiment_columns(dir, "trace.csv", series, MNIST_SERIES, c->series, &c->steps, error, room) ||
                   experiment_columns(dir, "cloud.csv", clouds, MNIST_CLOUDS, c->cloud, &c->clouds, error, room)
               ? -1
               : 0;
}

/* ---------------------------------------------------------------------------- looking up */

const mnist_cell *mnist_find(const mnist_plan *plan, mnist_group group, mnist_reward reward, double beta,
                             mnist_method method)
{
    for (int i = 0; i < plan->cells; i++) {
        const mnist_cell *c = &plan->cell[i];
        if (c->group == group && c->reward == reward && c->beta == beta && c->method == method && c->seed == 0)
            return c;
    }
    return NULL;
}

double mnist_last(const mnist_cell *c, mnist_value value)
{
    return c && c->evaluations > 0 ? c->value[value][c->evaluations - 1] : NAN;
}

double mnist_last_cloud(const mnist_cell *c, mnist_cloud value)
{
    return c && c->clouds > 0 ? c->cloud[value][c->clouds - 1] : NAN;
}

double mnist_smallest_ess(const mnist_cell *c)
{
    double least = NAN;
    for (int i = 0; c->method == MNIST_SOSMC && i < c->steps; i++) least = fmin(least, c->series[MNIST_ESS][i]);
    return least;
}

int mnist_resamplings(const mnist_cell *c)
{
    int n = 0;
    for (int i = 0; i < c->steps; i++) n += c->series[MNIST_RESAMPLED][i] > 0;
    return n;
}
