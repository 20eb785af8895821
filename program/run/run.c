/* run.c: one run and its directory.
 *
 *     run.yaml        the resolved run file: `sosmc run DIR/run.yaml` replays it
 *     inputs.json     sizes and SHA-256 of the files that the run reads, where it reads any
 *     trace.csv       a row per iteration or, where the settings are automatic, per step of the solver, all of it deterministic;
 *                     timing.csv holds the wall clock. Both are thinned as they grow: the first and the last row stay
 *     checkpoint      the whole state (of a solver also the time that its steps took), with checkpoint.previous behind it
 *     evaluation.csv  exact values on a lattice, where the run file asks for them
 *     theta.npy, particles.npz, summary.json, report.html, figures/    at the end
 *     model.safetensors, model.npz    instead of theta.npy, when theta is a network
 *     samples.npy     the final particles alone, when nothing is optimised
 *     mean.npy, sd.npy    moments over many iterations, where the run file asks for them; moments.npz goes with checkpoint
 *
 * Rows reach the disk before the checkpoint that follows them, and are thinned behind it. The results come in the order arrays,
 * summary.json, report.html, each of which goes before a new one of its predecessor comes: a directory whose summary has the
 * checkpoint's state hash is complete up to there. So a run that is killed at any moment and resumed ends with the bytes
 * of one that was not. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "clock.h"
#include "curvature.h"
#include "evaluate.h"
#include "files/directory.h"
#include "files/files.h"
#include "inputs.h"
#include "moments.h"
#include "outcome.h"
#include "job/problem.h"
#include "need.h"
#include "place.h"
#include "same_run.h"
#include "stepper.h"

enum { SENTENCE = 1024 };

static run_status status_of(sosmc_status status)
{
    switch (status) {
    case SOSMC_OK: return RUN_OK;
    case SOSMC_STOPPED: return RUN_STOPPED;
    case SOSMC_EINVAL: return RUN_EUSAGE;
    case SOSMC_EIO:
    case SOSMC_ECOMM: return RUN_EIO;
    default: return RUN_ENUMERIC;
    }
}

/* All that a run holds; zero-initialised, so that close_run may be called at any point. */
typedef struct {
    const config *c;
    const run_options *options;
    const run_hooks *hooks;
    run_result *result;
    char dir[FILES_PATH], checkpoint[FILES_PATH], error[SENTENCE];
    run_lock own_lock, *lock; /* lock: own_lock, or the caller's */
    inputs inputs;
    int new_changes;             /* of these, the changes from this one on are those of this process */
    char step_warning[SENTENCE]; /* known before the first iteration; empty: none */
    job job;
    stepper at; /* the engine or the solver */
    trace *trace, *timing;
    evaluation *evaluation;
    moments *moments;
    double begun, before; /* when this process began to iterate; seconds that earlier processes spent */
    double seconds;       /* of all iterations */
    double last_checkpoint;
    int64_t thin, trace_rows,
        stride; /* of the trace: iterations per row that the run file asks for; the most rows; iterations per row now */
    const char *limit;               /* what ended an automatic run before it was done; NULL: nothing did */
    int64_t saved, checkpoint_every; /* saved: the iteration of the checkpoint; -1: there is none */
    double checkpoint_seconds;
    int saves; /* that hooks->saves has asked for so far */
} run;

/* Keeps the sentence that goes with a status. Lack of memory is never reported as a mistake of the user. */
static run_status fail(run *r, run_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static run_status fail(run *r, run_status status, const char *format, ...)
{
    va_list args;
    int no_memory = errno == ENOMEM;
    va_start(args, format);
    (void)vsnprintf(r->result->message, sizeof r->result->message, format, args);
    va_end(args);
    return status == RUN_EUSAGE && no_memory ? RUN_ENUMERIC : status;
}

static run_status tell_error(run *r, run_status status) { return fail(r, status, "%s", r->error); }

static void say(const run *r, const char *sentence)
{
    if (r->hooks->say) r->hooks->say(r->hooks->ctx, sentence);
}

static int must_stop(const run *r) { return r->hooks->stop && r->hooks->stop(r->hooks->ctx); }

static int out_of_time(const run *r)
{
    return r->options->budget_seconds > 0 && monotonic_seconds() - r->begun >= r->options->budget_seconds;
}

/* ---------------------------------------------------------------------------- the directory */

static int path_in(run *r, const char *name, char out[FILES_PATH])
{
    return files_join(out, r->dir, name, r->error, sizeof r->error);
}

static int exists(run *r, const char *name)
{
    char path[FILES_PATH];
    return path_in(r, name, path) == 0 && access(path, F_OK) == 0;
}

static int has_checkpoint(run *r) { return exists(r, "checkpoint") || exists(r, "checkpoint.previous"); }

static void forget(run *r, const char *name)
{
    char path[FILES_PATH];
    if (path_in(r, name, path) == 0) (void)unlink(path);
}

static void forget_old_run(run *r)
{
    for (int i = PLACE_KEPT; i < PLACE_NAMES; i++) forget(r, place_names[i]);
}

/* Removes temporary files that a killed process left. To be called after the checkpoint is read, because the only whole
 * checkpoint may be a temporary file. */
static void forget_temporaries(run *r)
{
    char name[64];
    for (int i = 0; i < PLACE_NAMES; i++) { /* the names that earlier versions gave them */
        (void)snprintf(name, sizeof name, "%s.tmp", place_names[i]);
        forget(r, name);
    }
    directory_sweep(r->dir, 1); /* with its figures */
}

/* A directory is continued only with the run file that began it, but for what same_run.h lists. */
static int same_run(run *r)
{
    char path[FILES_PATH];
    return path_in(r, "run.yaml", path) || same_run_check(r->c, path, r->inputs.known, r->error, sizeof r->error) ? -1
                                                                                                                  : 0;
}

static int write_run_file(run *r)
{
    char path[FILES_PATH];
    atomic_file f;
    if (path_in(r, "run.yaml", path) || atomic_open(&f, path, r->error, sizeof r->error)) return -1;
    if (config_write_in(r->c, f.stream, r->dir, r->options->root ? r->options->root : r->dir) && !f.error)
        f.error = EIO;
    return atomic_close(&f, r->error, sizeof r->error);
}

/* What a summary.json says of convergence; -1: it has no verdict, as those of earlier versions. */
static int told_status(const json_t *summary)
{
    const char *status = json_string_value(json_object_get(json_object_get(summary, "verdict"), "status"));
    for (int i = SOSMC_CONVERGED; status && i <= SOSMC_RUN_FAILED; i++)
        if (strcmp(status, sosmc_verdict_name((sosmc_verdict_status)i)) == 0) return i;
    return -1;
}

/* Whether summary.json tells a result: not that of a run that broke off, whose directory may be used again. */
static int has_result(run *r)
{
    char path[FILES_PATH], ignored[SENTENCE];
    json_t *summary = NULL;
    if (!exists(r, "summary.json")) return 0;
    if (path_in(r, "summary.json", path) || json_read(path, &summary, ignored, sizeof ignored)) return 1;
    int failed = told_status(summary) == SOSMC_RUN_FAILED;
    json_decref(summary);
    return !failed;
}

/* ---------------------------------------------------------------------------- whether it may be written */

static run_status take_lock(run *r)
{
    if (r->lock->held) return RUN_OK;
    lock_status status = lock_take(r->lock, r->dir, r->error, sizeof r->error);
    if (status == LOCK_BUSY) return tell_error(r, RUN_EBUSY);
    if (status == LOCK_EIO) return tell_error(r, RUN_EIO);
    if (status == LOCK_NONE && *r->error) say(r, r->error);
    return RUN_OK;
}

/* Nobody chose this directory, and another run file began there: that run is left alone, even without a checkpoint. One that
 * broke off says so in its summary, and may be replaced. */
static int begun_by_another(run *r)
{
    char words[SENTENCE];
    if (!r->options->unnamed || r->options->overwrite || r->options->resume) return 0;
    if (!exists(r, "run.yaml") || exists(r, "summary.json") || same_run(r) == 0) return 0;
    (void)snprintf(words, sizeof words, "%.900s", r->error);
    (void)files_fail(r->error, sizeof r->error, "%s; choose a directory with --out, or replace it with --overwrite",
                     words);
    return -1;
}

/* Compares what is there with what the run reads. */
static run_status check_directory(run *r)
{
    const run_options *o = r->options;
    place there = {.dir = r->dir, .lock = r->lock, .resume = o->resume, .overwrite = o->overwrite};
    if (place_refuse_odd(r->dir, r->error, sizeof r->error)) return tell_error(r, RUN_EIO);
    if (place_check(&there, r->c, &r->inputs, r->error, sizeof r->error)) return tell_error(r, RUN_EUSAGE);
    int found = has_checkpoint(r) || has_result(r);
    if (found && !o->resume && !o->overwrite)
        return fail(r, RUN_EUSAGE,
                    "%s already holds a run; continue it with --resume, replace it with --overwrite, or "
                    "choose another --out",
                    r->dir);
    if (begun_by_another(r)) return tell_error(r, RUN_EUSAGE);
    if (inputs_measure(&r->inputs, r->error, sizeof r->error)) return tell_error(r, RUN_EIO);
    if (!o->resume || !exists(r, "run.yaml")) return RUN_OK;
    if (inputs_compare(&r->inputs, r->dir, o->accept_changed, &r->new_changes, r->error, sizeof r->error) ||
        same_run(r))
        return tell_error(r, RUN_EUSAGE);
    return RUN_OK;
}

static run_status open_directory(run *r)
{
    if (r->options->judge && !has_checkpoint(r))
        return fail(r, RUN_EIO, "%s has no checkpoint, so there is no cloud to judge", r->dir);
    if (files_directory(r->dir, r->error, sizeof r->error)) return tell_error(r, RUN_EIO);
    if (path_in(r, "checkpoint", r->checkpoint)) return tell_error(r, RUN_EIO);
    run_status status = take_lock(r);
    if (status == RUN_OK) status = check_directory(r);
    if (status == RUN_OK && r->options->overwrite && !r->options->resume) forget_old_run(r);
    return status;
}

/* ---------------------------------------------------------------------------- beginning */

static int thin_traces(run *r)
{
    return trace_thin(r->trace, r->stride, r->error, sizeof r->error) ||
                   trace_thin(r->timing, r->stride, r->error, sizeof r->error)
               ? -1
               : 0;
}

static void say_note(const run *r, const trace *t)
{
    if (*trace_note(t)) say(r, trace_note(t));
}

static int open_traces(run *r)
{
    char path[FILES_PATH];
    int64_t from = stepper_done(&r->at);
    if (path_in(r, "trace.csv", path) || stepper_open_trace(&r->at, &r->trace, path, from, r->error, sizeof r->error))
        return -1;
    if (path_in(r, "timing.csv", path) ||
        stepper_open_timing(&r->at, &r->timing, path, from, r->error, sizeof r->error))
        return -1;
    (void)trace_kept(r->timing, &r->before);
    r->thin = config_integer(r->c, "output.thin");
    r->trace_rows = config_integer(r->c, "output.trace_rows");
    r->stride = trace_stride(from, r->thin, r->trace_rows);
    /* A last row that is not a multiple of the stride is removed too: it is no longer the last. */
    if (thin_traces(r)) return -1;
    trace_note_missing(r->trace, from, r->stride);
    trace_note_missing(r->timing, from, r->stride);
    say_note(r, r->trace);
    say_note(r, r->timing);
    if (moments_open(&r->moments, r->c, &r->job, r->dir, from, r->error, sizeof r->error)) return -1;
    return evaluation_open(&r->evaluation, r->c, &r->job, r->dir, from, r->hooks, r->error, sizeof r->error);
}

/* Whether a long step should not be waited for. */
static int end_step(void *ctx)
{
    const run *r = ctx;
    return must_stop(r) || out_of_time(r);
}

/* Builds everything that the run file asks for before the directory is touched, so that a wrong run file changes nothing.
 * */
static run_status prepare_run(run *r)
{
    int io = 0;
    if (need_inputs(r->c, r->error, sizeof r->error)) return tell_error(r, RUN_EUSAGE);
    if (job_build(&r->job, r->c, &io, r->error, sizeof r->error)) return tell_error(r, io ? RUN_EIO : RUN_EUSAGE);
    if (evaluation_check(r->c, &r->job, r->error, sizeof r->error)) return tell_error(r, RUN_EUSAGE);
    if (need_check(r->c, &r->job, r->error, sizeof r->error)) return tell_error(r, RUN_EUSAGE);
    r->begun = monotonic_seconds();
    r->job.solve.stop = end_step;
    r->job.solve.stop_ctx = r;
    sosmc_status status = stepper_create(&r->at, &r->job);
    if (status == SOSMC_OK) return RUN_OK;
    if (status == SOSMC_STOPPED && must_stop(r))
        return fail(r, RUN_STOPPED, "%s; nothing was written", stepper_message(&r->at));
    if (status == SOSMC_STOPPED)
        return fail(r, RUN_ENUMERIC, "%s, by %s; raise the limit", stepper_message(&r->at),
                    out_of_time(r) ? "--budget-seconds" : "limits.seconds");
    char where[FILES_PATH];
    if (!r->job.automatic || status != SOSMC_EINVAL) return fail(r, status_of(status), "%s", stepper_message(&r->at));
    return fail(r, RUN_EUSAGE, "%s: settings is automatic, and the solver refuses this run: %s",
                config_where(r->c, "settings", where, sizeof where), stepper_message(&r->at));
}

static run_status resume_run(run *r)
{
    char note[FILES_PATH + 2 * SENTENCE];
    r->saved = -1;
    if (!r->options->resume || !has_checkpoint(r)) return RUN_OK;
    sosmc_status status = checkpoint_load(&r->at, r->checkpoint, note, sizeof note, r->error, sizeof r->error);
    if (status != SOSMC_OK) return tell_error(r, status_of(status));
    if (*note) say(r, note);
    if (exists(r, "checkpoint")) r->saved = stepper_done(&r->at);
    inputs_changed_at(&r->inputs, r->new_changes, stepper_done(&r->at));
    return RUN_OK;
}

/* The record of a directory of an earlier version begins when its run goes on, not when it is judged. */
static int write_inputs(run *r)
{
    if (r->options->judge && !r->inputs.known) return 0;
    if (r->inputs.n == 0) forget(r, "inputs.json");
    return inputs_write(&r->inputs, r->dir, r->error, sizeof r->error);
}

static void say_warning(const run *r, const char *warning)
{
    char sentence[SENTENCE + 16];
    (void)snprintf(sentence, sizeof sentence, "warning: %s", warning);
    say(r, sentence);
}

/* Warned of before the first iteration, because a user may rather stop than wait: notes about the data, and a large step. */
static void warn_first(run *r)
{
    for (int i = 0; job_note_at(&r->job, i); i++) say_warning(r, job_note_at(&r->job, i));
    if (!r->at.engine) return;
    if (curvature_warning(&r->job, r->step_warning, sizeof r->step_warning)) say_warning(r, r->step_warning);
}

/* None is left to do: all iterations are behind it, or the loss or theta has settled. */
static int is_over(const run *r)
{
    return stepper_finished(&r->at) || evaluation_settled(r->evaluation) || moments_over(r->moments);
}

static void tell_progress(const run *r)
{
    run_progress p = {.done = stepper_done(&r->at),
                      .theta = stepper_theta(&r->at),
                      .dim_theta = r->job.problem.model.dim_theta,
                      .weighted = 1,
                      .strength = NAN};
    if (r->at.sampler) {
        p.temper = &r->at.tempered;
    } else if (r->job.automatic) {
        p.solve = &r->at.solved;
    } else {
        int64_t next = moments_next(r->moments);
        p.total = next > 0 ? next : r->job.iterations;
        p.info = &r->at.last;
        p.strength = job_strength(&r->job, r->at.engine);
        p.weighted = r->job.settings.scheme.weighted;
    }
    if (r->hooks->progress) r->hooks->progress(r->hooks->ctx, &p);
}

static run_status begin_run(run *r)
{
    warn_first(r);
    if (!r->options->judge && write_run_file(r)) return tell_error(r, RUN_EIO);
    if (write_inputs(r) || open_traces(r)) return tell_error(r, RUN_EIO);
    /* writes the row that an interrupt prevented */
    if (r->evaluation && evaluation_step(r->evaluation, r->at.engine, &r->at.last, r->error, sizeof r->error))
        return tell_error(r, RUN_EIO);
    r->checkpoint_every = config_integer(r->c, "output.checkpoint_every");
    r->checkpoint_seconds = config_number(r->c, "output.checkpoint_seconds");
    r->begun = r->last_checkpoint = monotonic_seconds();
    tell_progress(r);
    return RUN_OK;
}

/* ---------------------------------------------------------------------------- going on */

static double elapsed(const run *r) { return r->before + monotonic_seconds() - r->begun; }

/* A file could not be written; the reason may be that somebody removed the lock and another process has taken the directory. */
static run_status not_written(run *r)
{
    if (!lock_lost(r->lock)) return tell_error(r, RUN_EIO);
    return fail(
        r, RUN_EBUSY,
        "%s was removed while this run wrote to %s, and another run may have begun there; this one ends as its last "
        "checkpoint has it, and --resume goes on from there",
        r->lock->path, r->dir);
}

/* Nothing is written to a directory whose lock somebody has removed. */
static run_status flush_rows(run *r)
{
    int failed = lock_lost(r->lock) || trace_flush(r->trace, r->error, sizeof r->error) ||
                 trace_flush(r->timing, r->error, sizeof r->error) ||
                 evaluation_flush(r->evaluation, r->error, sizeof r->error);
    return failed ? not_written(r) : RUN_OK;
}

static run_status save(run *r)
{
    int64_t stride = trace_stride(stepper_done(&r->at), r->thin, r->trace_rows);
    run_status code = flush_rows(r);
    if (code != RUN_OK) return code;
    if (moments_save(r->moments, stepper_done(&r->at), r->error, sizeof r->error)) return not_written(r);
    sosmc_status status = checkpoint_save(&r->at, r->checkpoint, r->error, sizeof r->error);
    if (status == SOSMC_EIO) return not_written(r);
    if (status != SOSMC_OK) return tell_error(r, status_of(status));
    r->last_checkpoint = monotonic_seconds();
    r->saved = stepper_done(&r->at);
    if (stride == r->stride) return RUN_OK;
    r->stride = stride;
    return thin_traces(r) ? not_written(r) : RUN_OK;
}

static void put_row(run *r)
{
    stepper_row(&r->at, r->trace);
    trace_time(r->timing, stepper_done(&r->at) - 1, elapsed(r));
}

/* Writes the last row of a thinned trace after the checkpoint, so that a run that continues from there does not have the
 * row. */
static run_status put_last_row(run *r)
{
    int64_t last = stepper_done(&r->at) - 1;
    if (last < 0 || last % r->stride == 0) return RUN_OK;
    put_row(r);
    return flush_rows(r);
}

/* Whether somebody has asked for a checkpoint since the last call. */
static int save_asked(run *r)
{
    int asked = r->hooks->saves ? r->hooks->saves(r->hooks->ctx) : 0, more = asked != r->saves;
    r->saves = asked;
    return more;
}

static int due(run *r, int64_t done)
{
    if (save_asked(r)) return 1;
    if (r->checkpoint_every > 0 && done % r->checkpoint_every == 0) return 1;
    return r->checkpoint_seconds > 0 && monotonic_seconds() - r->last_checkpoint > r->checkpoint_seconds;
}

/* ---------------------------------------------------------------------------- the end */

/* theta is the estimate of the judgement; the last iterate is in the checkpoint. */
static int write_network(run *r)
{
    static const char *const names[] = {"model.safetensors", "model.npz"};
    char path[FILES_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (path_in(r, names[i], path) ||
            job_write_model(&r->job, r->result->outcome.theta, path, r->error, sizeof r->error))
            return -1;
    return 0;
}

static int write_arrays(run *r)
{
    char path[FILES_PATH];
    int64_t n = stepper_particles(&r->at), dim = r->job.problem.model.dim_x;
    npy_array theta = npy_vector(r->result->outcome.theta, r->job.problem.model.dim_theta);
    if (job_has_network(&r->job)) {
        if (write_network(r)) return -1;
    } else if (path_in(r, "theta.npy", path) || npy_write(path, &theta, r->error, sizeof r->error)) {
        return -1;
    }
    if (moments_write(r->moments, r->at.engine, r->error, sizeof r->error)) return -1;
    if (!config_flag(r->c, "output.particles")) return 0;
    double *x = malloc((size_t)n * (size_t)dim * sizeof *x), *logw = malloc((size_t)n * sizeof *logw);
    int rc = -1;
    if (!x || !logw)
        (void)files_fail(r->error, sizeof r->error, "out of memory for %lld particles", (long long)n);
    else if (stepper_cloud(&r->at, x, logw) == SOSMC_OK && path_in(r, "particles.npz", path) == 0) {
        scaling_map(job_units(&r->job), 1, n, x);
        npz_member members[] = {{"x", npy_matrix(x, n, dim)}, {"logw", npy_vector(logw, n)}};
        rc = npz_write(path, members, 2, 0, r->error, sizeof r->error);
        if (rc == 0 && r->job.problem.objective.scale == 0) /* a run that samples: the points alone, as an array */
            rc = path_in(r, "samples.npy", path) || npy_write(path, &members[0].array, r->error, sizeof r->error);
    }
    free(x);
    free(logw);
    return rc;
}

static void state_hash(const run *r, char out[32])
{
    (void)snprintf(out, 32, "%016llx", (unsigned long long)stepper_hash(&r->at));
}

static int write_summary(run *r)
{
    char path[FILES_PATH], hash[32];
    atomic_file f;
    if (path_in(r, "summary.json", path) || atomic_open(&f, path, r->error, sizeof r->error)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "version", sosmc_version());
    json_put_text(&w, "settings", config_text(r->c, "settings"));
    json_put_truth(&w, "finished", is_over(r) && !r->result->outcome.stopped);
    json_put_whole(&w, "iterations", stepper_done(&r->at));
    if (!r->at.engine) json_put_text(&w, "limit", r->limit);
    outcome_write(&r->result->outcome, &w);
    (void)evaluation_summary(r->evaluation, &w);
    if (r->moments) json_put_whole(&w, "moments_clouds", moments_clouds(r->moments));
    if (r->inputs.changes) inputs_tell(&r->inputs, &w);
    json_put_number(&w, "seconds", r->seconds);
    json_put_unsigned(&w, "seed", r->job.settings.seed);
    state_hash(r, hash);
    json_put_text(&w, "state_hash", hash);
    json_close(&w);
    return atomic_close(&f, r->error, sizeof r->error);
}

/* Whether the arrays that a finished run leaves are there; one that is missing is made again. */
static int has_arrays(run *r)
{
    int network = job_has_network(&r->job), particles = config_flag(r->c, "output.particles");
    return exists(r, network ? "model.safetensors" : "theta.npy") && (!network || exists(r, "model.npz")) &&
           (!particles || exists(r, "particles.npz")) &&
           (!particles || r->job.problem.objective.scale != 0 || exists(r, "samples.npy")) &&
           (!config_has(r->c, "output.moments_from") || (exists(r, "mean.npy") && exists(r, "sd.npy")));
}

/* Whether the results in the directory are those of the engine's state, which has no iterations left and was judged. */
static int is_complete(run *r)
{
    char path[FILES_PATH], hash[32];
    json_t *summary = NULL;
    int may_have_settled = r->at.engine && /* the summary then says whether it has */
                           (config_number(r->c, "evaluate.stop") > 0 || config_flag(r->c, "output.moments_settle"));
    if ((!stepper_finished(&r->at) && !may_have_settled) || r->options->judge) return 0;
    if (!r->options->resume || !exists(r, "summary.json") || r->inputs.changes > r->new_changes) return 0;
    if (!exists(r, "run.yaml") || !exists(r, "trace.csv") || !exists(r, "timing.csv") || !has_arrays(r)) return 0;
    if (path_in(r, "summary.json", path) || json_read(path, &summary, r->error, sizeof r->error)) return 0;
    const char *there = json_string_value(json_object_get(summary, "state_hash"));
    state_hash(r, hash);
    int same = there && strcmp(there, hash) == 0 && json_is_true(json_object_get(summary, "finished"));
    r->result->verdict = told_status(summary);
    json_decref(summary);
    return same;
}

static int take_outcome(run *r, const char *failed)
{
    outcome_source from = {.c = r->c,
                           .job = &r->job,
                           .at = &r->at,
                           .evaluation = r->evaluation,
                           .theta = moments_theta_of(r->moments),
                           .warning = r->step_warning,
                           .failed = failed,
                           .anyway = r->options->judge,
                           .stop = r->hooks->stop,
                           .stop_ctx = r->hooks->ctx};
    int rc = outcome_take(&r->result->outcome, &from, r->error, sizeof r->error);
    r->result->verdict = r->result->outcome.judged.verdict.status;
    return rc;
}

/* A run that broke off leaves a summary that says so. It is no reason to fail once more: the sentence of the failure stays. */
static void record_failure(run *r)
{
    r->seconds = elapsed(r);
    forget(r, "report.html");
    if (take_outcome(r, r->result->message) == 0) (void)write_summary(r);
}

/* What the run file asks for beside the iterations themselves; of the solver's steps it can ask for nothing. */
static int look_beside(run *r)
{
    const sosmc_info *info = r->at.engine ? &r->at.last : NULL;
    return info && (evaluation_step(r->evaluation, r->at.engine, info, r->error, sizeof r->error) ||
                    moments_step(r->moments, r->at.engine, info, r->error, sizeof r->error))
               ? -1
               : 0;
}

static void say_settled(const run *r)
{
    char sentence[160];
    (void)snprintf(
        sentence, sizeof sentence,
        "the loss gains less than evaluate.stop from one evaluation to the next: the run ends after iteration %lld",
        (long long)stepper_done(&r->at));
    say(r, sentence);
}

static run_status iterate(run *r)
{
    while (!is_over(r) && !r->options->judge && !must_stop(r) && !out_of_time(r) &&
           !stepper_limit(&r->at, elapsed(r))) {
        sosmc_status status = stepper_step(&r->at);
        if (status == SOSMC_STOPPED) break; /* in the midst of a long step, which was taken back */
        if (status != SOSMC_OK) {
            (void)trace_flush(r->trace, r->error, sizeof r->error);
            run_status code = fail(r, status_of(status), "%s", stepper_message(&r->at));
            record_failure(r);
            return code;
        }
        int64_t done = stepper_done(&r->at);
        if ((done - 1) % trace_stride(done, r->stride, r->trace_rows) == 0) put_row(r);
        if (look_beside(r)) {
            char ignored[SENTENCE];
            (void)trace_flush(r->trace, ignored, sizeof ignored);
            return not_written(r);
        }
        tell_progress(r);
        if (!due(r, done)) continue;
        run_status code = save(r);
        if (code != RUN_OK) return code;
    }
    r->seconds = elapsed(r);
    if (!stepper_finished(&r->at) && evaluation_settled(r->evaluation)) say_settled(r);
    if (!is_over(r)) r->limit = out_of_time(r) ? "budget" : stepper_limit(&r->at, r->seconds);
    run_status code = r->saved == stepper_done(&r->at) ? flush_rows(r) : save(r);
    return code == RUN_OK ? put_last_row(r) : code;
}

/* Judging comes first, because the arrays hold its theta. */
static run_status finish(run *r)
{
    long long done = stepper_done(&r->at);
    if (take_outcome(r, NULL)) return tell_error(r, RUN_ENUMERIC);
    if (config_flag(r->c, "output.report")) forget(r, "report.html");
    if (write_arrays(r) || write_summary(r)) return tell_error(r, RUN_EIO);
    if (!must_stop(r)) return RUN_OK;
    if (r->at.sampler)
        return fail(r, RUN_STOPPED, "stopped after temperature %lld; everything is saved, continue with --resume",
                    done);
    if (r->job.automatic)
        return fail(r, RUN_STOPPED,
                    "stopped after step %lld, in the phase %s; everything is saved, continue with --resume", done,
                    sosmc_phase_name((sosmc_phase)sosmc_solver_info(r->at.solver)->phase));
    return fail(r, RUN_STOPPED, "stopped after iteration %lld of %lld; everything is saved, continue with --resume",
                done, (long long)r->job.iterations);
}

static void close_run(run *r)
{
    char ignored[SENTENCE];
    (void)trace_close(r->trace, ignored, sizeof ignored);
    (void)trace_close(r->timing, ignored, sizeof ignored);
    (void)evaluation_close(r->evaluation, ignored, sizeof ignored);
    moments_close(r->moments);
    stepper_free(&r->at);
    job_free(&r->job);
    lock_give_back(&r->own_lock);
}

run_status run_execute(const config *c, const run_options *options, const run_hooks *hooks, run_result *out)
{
    static const run nothing;
    static const run_hooks silence;
    *out = (run_result){.status = RUN_ENUMERIC, .message = "out of memory", .verdict = -1};
    run *r = malloc(sizeof *r);
    if (!r) return out->status;
    *r = nothing;
    r->c = c;
    r->options = options;
    r->hooks = hooks ? hooks : &silence;
    r->result = out;
    out->message[0] = 0;
    (void)snprintf(r->dir, sizeof r->dir, "%s", options->out);
    r->lock = options->lock ? options->lock : &r->own_lock;
    inputs_find(&r->inputs, c, "photo", options->photo);
    run_status status = prepare_run(r);
    if (status == RUN_OK) status = open_directory(r);
    if (status == RUN_OK) status = resume_run(r);
    if (status == RUN_OK) forget_temporaries(r);
    if (status == RUN_OK && is_complete(r)) {
        out->complete = 1;
    } else {
        if (status == RUN_OK) status = begin_run(r);
        if (status == RUN_OK) status = iterate(r);
        if (status == RUN_OK) status = finish(r);
    }
    out->status = status;
    out->iterations = stepper_done(&r->at);
    out->automatic = !r->at.engine;
    out->limit = r->limit;
    out->seconds = r->seconds;
    close_run(r);
    free(r);
    return status;
}

void run_result_free(run_result *result) { outcome_free(&result->outcome); }
