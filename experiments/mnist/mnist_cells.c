/* mnist_cells.c: run files of the experiment with pictures, made from their settings, run as any other run file and read
 * back.
 *
 * A run stops every so many iterations for a look at its particles, which goes to cloud.csv; continuing a run does not change
 * its numbers. Invariant: a cell's directory holds a row of cloud.csv for every stop that its checkpoint is beyond. */
#include "mnist_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "terminal/interrupt.h"
#include "mnist_chains.h"
#include "terminal/say.h"

enum { SENTENCE = 1024, TEXT = 4096, NAME = MNIST_NAME };

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

static const char *method_text(const mnist_cell *c, char *out, size_t room)
{
    const mnist_setting *s = &c->set;
    if (c->method == MNIST_IMPDIFF) return "scheme: {type: impdiff_printed}\n";
    int used = snprintf(out, room,
                        "scheme: {type: sosmc, order: authors}\n"
                        "resampling: {scheme: systematic, threshold: %.17g}\n",
                        s->threshold);
    if (s->adapt_factor > 1)
        (void)snprintf(out + used, room - (size_t)used,
                       "adapt: {threshold: %.17g, factor: %.17g, min: 1.0e-8, max: %.17g}\n", s->adapt_threshold,
                       s->adapt_factor, s->adapt_max);
    return out;
}

const char *mnist_cell_text(const mnist_plan *plan, const mnist_cell *c, char *out, size_t room)
{
    const mnist_setting *s = &c->set;
    char method[512], noise[64] = "";
    if (s->noise > 0) (void)snprintf(noise, sizeof noise, ", noise: %.17g", s->noise);
    (void)snprintf(out, room,
                   "model: {type: stored}\n"
                   "objective: {type: reward_reverse, beta: %.17g, reward: {type: %s, scale: %.17g}}\n"
                   "init: {type: file, exact: %s}\n"
                   "%s"
                   "kernel: {%s, step: %.17g%s}\n"
                   "optimiser: {type: adam, rate: %.17g}\n"
                   "particles: %d\niterations: %d\nseed: %" PRIu64 "\nthreads: 1\n"
                   "evaluate: {every: %d, sampler: jitter, chains: %d, steps: %d}\n"
                   "output: {report: false}\n",
                   c->beta, mnist_reward_names[c->reward], c->scale, c->method == MNIST_SOSMC ? "true" : "false",
                   method_text(c, method, sizeof method), s->kernel ? s->kernel : "type: ula", s->gamma, noise, s->rate,
                   s->particles, s->iterations, plan->seed + (uint64_t)c->seed, s->every, s->chains, s->steps);
    return out;
}

void mnist_cell_name(const mnist_cell *c, char *out, size_t room)
{
    int used = snprintf(out, room, "%s%s%s-%s-beta%g-%s", mnist_group_names[c->group], c->label ? "-" : "",
                        c->label ? c->label : "", mnist_reward_names[c->reward], c->beta, method_words[c->method]);
    if (c->seed > 0 && used > 0 && (size_t)used < room)
        (void)snprintf(out + used, room - (size_t)used, "-seed%d", c->seed);
}

int mnist_cell_directory(const mnist_plan *plan, const mnist_cell *c, char out[FILES_PATH], char *error, size_t room)
{
    char name[NAME], relative[NAME + 8];
    mnist_cell_name(c, name, sizeof name);
    (void)snprintf(relative, sizeof relative, "cells/%s", name);
    return files_join(out, plan->out, relative, error, room);
}

int mnist_cell_model(const mnist_plan *plan, const mnist_cell *c, char out[FILES_PATH], char *error, size_t room)
{
    char dir[FILES_PATH];
    return mnist_cell_directory(plan, c, dir, error, room) || files_join(out, dir, "model.safetensors", error, room)
               ? -1
               : 0;
}

static int start_path(const mnist_plan *plan, const mnist_cell *c, int purified, const char *file, char out[FILES_PATH],
                      char *error, size_t room)
{
    char name[NAME], relative[NAME + 64];
    mnist_start_name(c, purified, name);
    (void)snprintf(relative, sizeof relative, "start/%s%s", name, file);
    return files_join(out, plan->out, relative, error, room);
}

/* ---------------------------------------------------------------------------- running */

static int run_text(const mnist_plan *plan, const char *text, const char *name, const char *init, const char *dir,
                    const experiment_path set[MNIST_SETS], int quiet)
{
    experiment_path path[3 + MNIST_SETS] = {
        {"model.file", plan->model}, {"model.network", mnist_description(plan->model)}, {"init.file", init}};
    for (int i = 0; set && i < MNIST_SETS; i++) path[3 + i] = set[i];
    return experiment_run(text, name, path, 3 + MNIST_SETS, dir, quiet);
}

/* Starts of further seeds stay clear of the seeds of tuning. */
#define SEEDS_APART UINT64_C(1000)

/* Several moves per iteration: what is logged of a start costs an evaluation, and nobody reads it. */
static int sweeps_of(int steps)
{
    int n = 16;
    while (steps % n) n--;
    return n;
}

static int sample_start(const mnist_plan *plan, const mnist_cell *c, int purify, const char *init, int threads,
                        int quiet)
{
    const mnist_setting *s = &c->set;
    char text[TEXT], dir[FILES_PATH], error[SENTENCE], kernel[96] = "type: jitter";
    int steps = purify ? s->purify : s->warm, sweeps = sweeps_of(steps);
    if (purify) (void)snprintf(kernel, sizeof kernel, "type: ula, step: %.17g, noise: %.17g", s->gamma, s->noise);
    (void)snprintf(text, sizeof text,
                   "model: {type: stored}\n"
                   "objective: {type: none}\n"
                   "init: {type: %s}\n"
                   "scheme: {type: unweighted, sweeps: %d}\n"
                   "kernel: {%s}\n"
                   "particles: %d\niterations: %d\nseed: %" PRIu64 "\nthreads: %d\noutput: {report: false}\n",
                   purify ? "file" : "uniform, low: -1, high: 1", sweeps, kernel, s->particles, steps / sweeps + 1,
                   plan->seed + SEEDS_APART * (uint64_t)c->seed + (purify ? 1 : 0), threads);
    if (start_path(plan, c, purify, "", dir, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    return run_text(plan, text, purify ? "start by Langevin steps" : "start by the sampler", init, dir, NULL, quiet);
}

int mnist_start_run(const mnist_plan *plan, const mnist_cell *c, int threads, int quiet)
{
    char init[FILES_PATH], error[SENTENCE];
    int code = sample_start(plan, c, 0, NULL, threads, quiet);
    if (code != SOSMC_EXIT_OK || c->set.purify == 0) return code;
    if (start_path(plan, c, 0, "/particles.npz", init, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    return sample_start(plan, c, 1, init, threads, quiet);
}

#define CLOUD_COLUMNS "iteration,reward,energy,energy_ref,pixel_sd,outside"

/* The rows that an earlier process left stay. */
static int open_cloud(trace **rows, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    if (files_join(path, dir, "cloud.csv", error, room)) return -1;
    return trace_open(rows, path, CLOUD_COLUMNS, access(path, F_OK) == 0 ? INT64_MAX : 0, error, room);
}

/* A look at the particles that the run has just left. */
static int cloud_row(const mnist_plan *plan, const mnist_cell *c, const char *dir, trace *rows, int k, char *error,
                     size_t room)
{
    double value[MNIST_CLOUDS];
    if (experiment_iterations(dir) != k + 1)
        return files_fail(error, room,
                          "%s is beyond iteration %d, whose row in cloud.csv is missing; delete the folder and run the "
                          "command again",
                          dir, k);
    if (mnist_look(plan->model, dir, c->reward, c->scale, value, error, room)) return -1;
    trace_append(rows, k, value + 1, MNIST_CLOUDS - 1);
    return trace_flush(rows, error, room);
}

/* The stops fall on evaluations, because the last iteration of a run is always evaluated. */
static int between_stops(const mnist_setting *s)
{
    int wanted = s->iterations / 10, n = wanted / s->every;
    return s->every * (n > 1 ? n : 1);
}

static int next_stop(const mnist_setting *s, int k)
{
    int last = s->iterations - 1, next = k < 0 ? 0 : k + between_stops(s);
    return k >= last ? s->iterations : next < last ? next : last;
}

static int run_in_stages(const mnist_plan *plan, const mnist_cell *c, const char *dir, const char *init)
{
    char text[TEXT], error[SENTENCE], name[NAME];
    trace *rows = NULL;
    int code = SOSMC_EXIT_OK;
    if (files_directory(dir, error, sizeof error) || open_cloud(&rows, dir, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    int64_t done = trace_kept(rows, NULL);
    mnist_cell_name(c, name, sizeof name);
    for (int k = next_stop(&c->set, -1); code == SOSMC_EXIT_OK && k < c->set.iterations; k = next_stop(&c->set, k)) {
        mnist_cell stage = *c;
        stage.set.iterations = k + 1;
        if (k <= done && k + 1 < c->set.iterations) continue;
        code = run_text(plan, mnist_cell_text(plan, &stage, text, sizeof text), name, init, dir, c->set.set, 1);
        if (code == SOSMC_EXIT_OK && k > done && cloud_row(plan, c, dir, rows, k, error, sizeof error))
            code = interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : complain(SOSMC_EXIT_NUMERIC, "%s: %s", name, error);
    }
    if (trace_close(rows, error, sizeof error) && code == SOSMC_EXIT_OK) code = complain(SOSMC_EXIT_IO, "%s", error);
    return code;
}

int mnist_cell_run(const mnist_plan *plan, const mnist_cell *c)
{
    char dir[FILES_PATH], init[FILES_PATH], spare[FILES_PATH], error[SENTENCE];
    if (mnist_cell_directory(plan, c, dir, error, sizeof error) ||
        files_join(spare, dir, "checkpoint.previous", error, sizeof error) ||
        start_path(plan, c, c->set.purify > 0, "/particles.npz", init, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    int code = run_in_stages(plan, c, dir, init);
    if (code == SOSMC_EXIT_OK) (void)unlink(spare); /* half of what a finished cell takes on the disk */
    return code;
}

/* ---------------------------------------------------------------------------- reading */

static int read_columns(const char *dir, const char *file, const char *const *names, int n, double **out, int *rows,
                        char *error, size_t room)
{
    csv_table t;
    int rc = 0;
    if (experiment_table(dir, file, &t, error, room)) return -1;
    *rows = (int)t.rows;
    for (int i = 0; i < n; i++)
        if (!(out[i] = experiment_column(&t, names[i]))) rc = files_fail(error, room, "out of memory");
    csv_free(&t);
    return rc;
}

int mnist_cell_read(const mnist_plan *plan, mnist_cell *c, char *error, size_t room)
{
    static const char *const values[MNIST_VALUES] = {"iteration", "fresh", "fresh_error", "particle_kl",
                                                     "particle_loss"};
    static const char *const series[MNIST_SERIES] = {"iteration", "mean_score", "ess", "resampled", "h"};
    static const char *const clouds[MNIST_CLOUDS] = {"iteration",  "reward",   "energy",
                                                     "energy_ref", "pixel_sd", "outside"};
    char dir[FILES_PATH];
    mnist_cell_forget(c);
    return mnist_cell_directory(plan, c, dir, error, room) ||
                   read_columns(dir, "evaluation.csv", values, MNIST_VALUES, c->value, &c->evaluations, error, room) ||
                   read_columns(dir, "trace.csv", series, MNIST_SERIES, c->series, &c->steps, error, room) ||
                   read_columns(dir, "cloud.csv", clouds, MNIST_CLOUDS, c->cloud, &c->clouds, error, room)
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
