/* deblurring_cells.c: one run of the deblurring experiment, measured against the truth as it goes.
 *
 * Invariant: a checkpoint is written right behind a row of metrics.csv, and that row holds all that the checkpoint does not
 * (counts and seconds so far); so a run that is cut short at any moment goes on from the last of them with the same bits. */
#include "deblurring_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/experiment.h"
#include "run/checkpoint.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

static const double CHECKPOINT_SECONDS = 60;
enum { DIGEST_VERSION = 2 };

/* ---------------------------------------------------------------------------- the data */

static sosmc_blur blur_of(const deblurring_plan *plan, const deblurring_cell *c)
{
    sosmc_blur b = {.kind = SOSMC_BLUR_BOX, .patch = deblurring_settings[c->setup].patch};
    (void)deblurring_truth(plan, c, &b.rows, &b.columns);
    return b;
}

static uint64_t seed_of(const deblurring_plan *plan, const deblurring_cell *c)
{
    return plan->seed + (uint64_t)c->seed;
}

size_t deblurring_see_scratch(const deblurring_plan *plan, const deblurring_cell *c)
{
    sosmc_blur b = blur_of(plan, c);
    return sosmc_blur_scratch(&b) + (size_t)b.rows * (size_t)b.columns;
}

void deblurring_see(const deblurring_plan *plan, const deblurring_cell *c, double *y, double *scratch)
{
    sosmc_blur blur = blur_of(plan, c);
    int pixels = blur.rows * blur.columns;
    double *noise = scratch + sosmc_blur_scratch(&blur);
    sosmc_batch b = {.dim = pixels, .n = 1, .ld = 1};
    sosmc_blur_apply(&blur, deblurring_truth(plan, c, &blur.rows, &blur.columns), y, scratch);
    sosmc_normals((sosmc_rng){.seed = seed_of(plan, c), .stream = SOSMC_STREAM_DATA}, &b, noise);
    for (int e = 0; e < pixels; e++) y[e] += deblurring_settings[c->setup].noise * noise[e];
}

/* ---------------------------------------------------------------------------- names */

/* The run file of the cell. What was seen is the file `picture`. */
static experiment_file run_file(const deblurring_plan *plan, const deblurring_cell *c, const char *picture)
{
    const deblurring_setting *s = &deblurring_settings[c->setup];
    const deblurring_recipe *how = &deblurring_recipes[c->method];
    experiment_file f = experiment_load(plan->files, how->file);
    for (int i = 0; i < DEBLURRING_KEYS && how->set[i]; i++) experiment_set(&f, "%s", how->set[i]);
    experiment_set(&f, "model.picture=%s", picture);
    experiment_set(&f, "model.patch=%d", s->patch);
    experiment_set(&f, "model.noise=%.17g", s->noise);
    experiment_set(&f, "model.theta=[%.17g]", plan->scale.theta);
    experiment_set(&f, "init.sd=%.17g", s->start_sd);
    experiment_set(&f, "particles=%d", deblurring_cell_particles(plan, c));
    experiment_set(&f, "iterations=%d", plan->scale.iterations);
    experiment_set(&f, "seed=%llu", (unsigned long long)seed_of(plan, c));
    return f;
}

/* Of everything that decides the numbers: all keys of the run file with their defaults, the truth behind the picture, and
 * the distance of the rows of metrics.csv. */
static int digest_of(const deblurring_plan *plan, const deblurring_cell *c, uint64_t *digest, char *error, size_t room)
{
    int rows, columns;
    const double *truth = deblurring_truth(plan, c, &rows, &columns), numbers[] = {rows, columns, plan->scale.every};
    experiment_file f = run_file(plan, c, "/");
    *digest = experiment_mix(EXPERIMENT_DIGEST, DIGEST_VERSION);
    int rc = experiment_mix_file(&f, digest, error, room);
    *digest = experiment_mix_doubles(*digest, numbers, 3);
    *digest = experiment_mix_doubles(*digest, truth, rows * columns);
    config_free(f.c);
    return rc;
}

typedef struct {
    char dir[FILES_PATH], seen[FILES_PATH], metrics[FILES_PATH], checkpoint[FILES_PATH], spare[FILES_PATH],
        result[FILES_PATH];
    double key[2];
} places;

static int places_of(const deblurring_plan *plan, const deblurring_cell *c, places *p, char *error, size_t room)
{
    char name[DEBLURRING_NAME];
    uint64_t digest;
    if (digest_of(plan, c, &digest, error, room)) return -1;
    (void)snprintf(name, sizeof name, "cells/%s-%s-%d-%08x", deblurring_settings[c->setup].name,
                   deblurring_recipes[c->method].name, c->seed, (unsigned)(digest & 0xFFFFFFFFU));
    experiment_key(digest, p->key);
    return files_join(p->dir, plan->out, name, error, room) || files_join(p->seen, p->dir, "seen.npy", error, room) ||
                   files_join(p->metrics, p->dir, "metrics.csv", error, room) ||
                   files_join(p->checkpoint, p->dir, "checkpoint", error, room) ||
                   files_join(p->spare, p->dir, "checkpoint.previous", error, room) ||
                   files_join(p->result, p->dir, "result.npz", error, room)
               ? -1
               : 0;
}

/* ---------------------------------------------------------------------------- one run */

/* All that a run holds; zero-initialised, so that free_run may be called at any point. */
typedef struct {
    const deblurring_plan *plan;
    const deblurring_cell *cell;
    places at;
    const double *truth;
    int rows, columns, particles;
    size_t pixels;
    double range;
    double *x, *logw, *mean, *scratch;
    experiment_engine own;
    sosmc *engine; /* of `own` */
    trace *metrics;
    double least_ess, resamplings;
    int saves;                   /* that a signal has asked for so far */
    double before, begun, saved; /* seconds of earlier processes; when this one began, and last saved */
    char *error;
    size_t room;
} run;

static int take_memory(run *r)
{
    size_t n = (size_t)r->particles, scratch = deblurring_see_scratch(r->plan, r->cell);
    if (scratch < sosmc_ssim_scratch(r->columns)) scratch = sosmc_ssim_scratch(r->columns);
    r->mean = malloc(r->pixels * sizeof(double));
    r->x = malloc(n * r->pixels * sizeof(double));
    r->logw = malloc(n * sizeof(double));
    r->scratch = malloc(scratch * sizeof(double));
    return r->mean && r->x && r->logw && r->scratch
               ? 0
               : files_fail(r->error, r->room, "out of memory for %d particles of %zu pixels", r->particles, r->pixels);
}

static void free_run(run *r)
{
    char ignored[256];
    (void)trace_close(r->metrics, ignored, sizeof ignored);
    experiment_engine_free(&r->own);
    free(r->mean);
    free(r->x);
    free(r->logw);
    free(r->scratch);
}

/* Writes what was seen and makes the engine of the run file. */
static int build(run *r)
{
    char why[512];
    const npy_array seen = npy_matrix(r->mean, r->rows, r->columns); /* the mean picture comes much later */
    deblurring_see(r->plan, r->cell, r->mean, r->scratch);
    if (npy_write(r->at.seen, &seen, r->error, r->room)) return -1;
    r->range = sosmc_image_range(r->pixels, r->truth);
    experiment_file f = run_file(r->plan, r->cell, r->at.seen);
    experiment_set(&f, "threads=%d", r->plan->threads);
    experiment_engine_free(&r->own);
    if (experiment_start(&f, &r->own, why, sizeof why)) return files_fail(r->error, r->room, "%s: %s", r->at.dir, why);
    r->engine = r->own.engine;
    return 0;
}

/* Reads counts and seconds from the row of metrics.csv that belongs to the checkpoint. -1: there is no such row, and the
 * run begins again. */
static int read_saved_counts(run *r)
{
    char ignored[256];
    csv_table t;
    const csv_options options = {.header = CSV_HEADER_YES};
    double done = (double)sosmc_iteration(r->engine);
    int found = -1;
    if (csv_read(r->at.metrics, &options, &t, ignored, sizeof ignored)) return -1;
    const csv_column *k = csv_find(&t, "iterations"), *least = csv_find(&t, "least_ess");
    const csv_column *count = csv_find(&t, "resamplings"), *seconds = csv_find(&t, "seconds");
    int whole = k && k->number && least && least->number && count && count->number && seconds && seconds->number;
    for (int64_t i = 0; whole && found < 0 && i < t.rows; i++) {
        if (k->number[i] != done) continue;
        r->least_ess = least->number[i];
        r->resamplings = count->number[i];
        r->before = seconds->number[i];
        found = 0;
    }
    csv_free(&t);
    return found;
}

/* Loads the checkpoint that an earlier process left, or keeps the engine as it was created. */
static int resume_engine(run *r)
{
    char columns[512] = "iterations", note[1024];
    for (int v = 1; v < DEBLURRING_VALUES; v++) {
        size_t used = strlen(columns);
        (void)snprintf(columns + used, sizeof columns - used, ",%s", deblurring_value_names[v]);
    }
    int left = access(r->at.checkpoint, F_OK) == 0 || access(r->at.spare, F_OK) == 0;
    sosmc_status loaded = left ? checkpoint_load(&(stepper){.engine = r->engine}, r->at.checkpoint, note, sizeof note,
                                                 r->error, r->room)
                               : SOSMC_EIO;
    if (left && (loaded != SOSMC_OK || read_saved_counts(r)) && build(r)) return -1;
    int64_t done = sosmc_iteration(r->engine);
    if (done == 0) r->least_ess = r->particles;
    r->begun = r->saved = monotonic_seconds();
    return trace_open(&r->metrics, r->at.metrics, columns, done > 0 ? done + 1 : 0, r->error, r->room);
}

/* Values of the cloud against the truth; the mean picture stays in r->mean. */
static int measure(run *r, double value[DEBLURRING_VALUES])
{
    double mse = 0, ssim = 0;
    if (sosmc_cloud(r->engine, r->x, r->logw) != SOSMC_OK)
        return files_fail(r->error, r->room, "%s: %s", r->at.dir, sosmc_message(r->engine));
    memset(r->mean, 0, r->pixels * sizeof *r->mean);
    for (int i = 0; i < r->particles; i++) {
        const double *x = r->x + (size_t)i * r->pixels;
        double w = exp(r->logw[i]);
        mse += w * sosmc_mse(r->pixels, r->truth, x);
        ssim += w * sosmc_ssim(r->rows, r->columns, 1, r->range, r->truth, x, r->scratch);
        for (size_t e = 0; e < r->pixels; e++) r->mean[e] += w * x[e];
    }
    const sosmc_info *info = sosmc_last(r->engine);
    value[DEBLURRING_K] = (double)sosmc_iteration(r->engine);
    value[DEBLURRING_THETA] = sosmc_theta(r->engine)[0];
    value[DEBLURRING_MSE] = mse;
    value[DEBLURRING_SSIM] = ssim;
    value[DEBLURRING_MEAN_MSE] = sosmc_mse(r->pixels, r->truth, r->mean);
    value[DEBLURRING_MEAN_SSIM] = sosmc_ssim(r->rows, r->columns, 1, r->range, r->truth, r->mean, r->scratch);
    value[DEBLURRING_STEP] = info->h;
    value[DEBLURRING_ESS] = info->ess;
    value[DEBLURRING_LEAST_ESS] = r->least_ess;
    value[DEBLURRING_RESAMPLINGS] = r->resamplings;
    value[DEBLURRING_SECONDS] = r->before + monotonic_seconds() - r->begun;
    return 0;
}

static int save(run *r)
{
    if (trace_flush(r->metrics, r->error, r->room)) return -1;
    if (checkpoint_save(&(stepper){.engine = r->engine}, r->at.checkpoint, r->error, r->room) != SOSMC_OK) return -1;
    r->saved = monotonic_seconds();
    return 0;
}

static int iterate(run *r)
{
    double value[DEBLURRING_VALUES];
    int64_t last = r->plan->scale.iterations, every = r->plan->scale.every;
    while (sosmc_iteration(r->engine) < last) {
        if (sosmc_step(r->engine) != SOSMC_OK)
            return files_fail(r->error, r->room, "%s: %s", r->at.dir, sosmc_message(r->engine));
        const sosmc_info *info = sosmc_last(r->engine);
        int64_t done = sosmc_iteration(r->engine);
        if (isfinite(info->ess)) r->least_ess = fmin(r->least_ess, info->ess);
        r->resamplings += info->resampled;
        if (done % every != 0 && done != last) continue;
        if (measure(r, value)) return -1;
        trace_append(r->metrics, done, value + 1, DEBLURRING_VALUES - 1);
        int stop = interrupt_requested() != 0;
        int asked = r->saves != interrupt_saves();
        r->saves = interrupt_saves();
        if (stop || asked || done == last || monotonic_seconds() - r->saved > CHECKPOINT_SECONDS) {
            if (save(r)) return -1;
            if (stop) return files_fail(r->error, r->room, "interrupted");
        }
    }
    return 0;
}

static int store(run *r)
{
    double ignored[DEBLURRING_VALUES];
    int64_t shown = r->particles < DEBLURRING_SHOWN ? r->particles : DEBLURRING_SHOWN, pixels = (int64_t)r->pixels;
    if (measure(r, ignored)) return -1; /* a run that was cut short behind its last row has no mean picture yet */
    const npz_member member[] = {{"key", npy_vector(r->at.key, 2)},
                                 {"mean", npy_matrix(r->mean, r->rows, r->columns)},
                                 {"shown", npy_matrix(r->x, shown, pixels)}};
    if (npz_write(r->at.result, member, 3, 0, r->error, r->room)) return -1;
    (void)unlink(r->at.checkpoint); /* most of what a cell takes on the disk */
    (void)unlink(r->at.spare);
    return 0;
}

int deblurring_cell_run(const deblurring_plan *plan, const deblurring_cell *c, char *error, size_t room)
{
    static const run nothing;
    run *r = malloc(sizeof *r);
    if (!r) return files_fail(error, room, "out of memory");
    *r = nothing;
    r->plan = plan;
    r->cell = c;
    r->error = error;
    r->room = room;
    r->truth = deblurring_truth(plan, c, &r->rows, &r->columns);
    r->pixels = (size_t)r->rows * (size_t)r->columns;
    r->particles = deblurring_cell_particles(plan, c);
    int rc = places_of(plan, c, &r->at, error, room);
    if (rc == 0 && !experiment_is_kept(r->at.result, r->at.key))
        rc = files_directory(r->at.dir, error, room) || take_memory(r) || build(r) || resume_engine(r) || iterate(r) ||
                     store(r)
                 ? -1
                 : 0;
    free_run(r);
    free(r);
    return rc;
}

/* ---------------------------------------------------------------------------- reading */

int deblurring_cell_read(const deblurring_plan *plan, deblurring_cell *c, char *error, size_t room)
{
    places at;
    int rows, columns, particles = deblurring_cell_particles(plan, c);
    (void)deblurring_truth(plan, c, &rows, &columns);
    size_t pixels = (size_t)rows * (size_t)columns;
    if (places_of(plan, c, &at, error, room) || experiment_columns(at.dir, "metrics.csv", deblurring_value_names,
                                                                   DEBLURRING_VALUES, c->value, &c->rows, error, room))
        return -1;
    c->shown_count = particles < DEBLURRING_SHOWN ? particles : DEBLURRING_SHOWN;
    c->mean = malloc(pixels * sizeof *c->mean);
    c->shown = malloc(pixels * (size_t)c->shown_count * sizeof *c->shown);
    if (!c->mean || !c->shown) return files_fail(error, room, "out of memory");
    if (experiment_recall(at.result, "mean", c->mean, (int64_t)pixels) ||
        experiment_recall(at.result, "shown", c->shown, (int64_t)pixels * c->shown_count))
        return files_fail(error, room, "%s is damaged; delete the folder and run the command again", at.result);
    return 0;
}
