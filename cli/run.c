/* run.c: one run and its directory.
 *
 *     run.yaml        the resolved run file: `sosmc run DIR/run.yaml` replays it
 *     trace.csv       a row per iteration, all of it deterministic; timing.csv holds the wall clock
 *     checkpoint      the whole state, with checkpoint.previous behind it
 *     evaluation.csv  exact values on a lattice, where the run file asks for them
 *     theta.npy, particles.npz, summary.json, report.html, figures/    at the end
 *     model.safetensors, model.npz    instead of theta.npy, when theta is a network
 *     samples.npy     the final particles alone, when nothing is optimised
 *     mean.npy, sd.npy    moments over many iterations, where the run file asks for them; moments.npz goes with checkpoint
 *
 * Rows reach the disk before the checkpoint that follows them, so a run that is killed at any moment and resumed ends with
 * the bytes of one that was not. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "evaluate.h"
#include "files.h"
#include "interrupt.h"
#include "moments.h"
#include "picture.h"
#include "problem.h"
#include "progress.h"

enum { SENTENCE = 1024 };

int complain(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("sosmc: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

static int exit_code(sosmc_status status)
{
    switch (status) {
    case SOSMC_OK: return SOSMC_EXIT_OK;
    case SOSMC_STOPPED: return SOSMC_EXIT_INTERRUPTED;
    case SOSMC_EINVAL: return SOSMC_EXIT_USAGE;
    case SOSMC_EIO:
    case SOSMC_ECOMM: return SOSMC_EXIT_IO;
    default: return SOSMC_EXIT_NUMERIC;
    }
}

/* All that a run holds; zero-initialised, so that close_run may be called at any point. */
typedef struct {
    const config *c;
    const run_options *options;
    char dir[FILES_PATH], checkpoint[FILES_PATH], error[SENTENCE];
    job job;
    sosmc *engine;
    trace *trace, *timing;
    evaluation *evaluation;
    moments *moments;
    progress progress;
    double begun, before; /* when this process began to iterate; seconds spent by earlier ones */
    double seconds;       /* of all iterations */
    double last_checkpoint;
    int64_t thin, checkpoint_every;
    double checkpoint_seconds;
} run;

static int say(run *r, int code) { return complain(code, "%s", r->error); }

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

static void forget_old_run(run *r)
{
    static const char *const names[] = {
        "checkpoint",  "checkpoint.previous",  "summary.json", "theta.npy",      "particles.npz",
        "report.html", "model.safetensors",    "model.npz",    "evaluation.csv", "samples.npy",
        "moments.npz", "moments.previous.npz", "mean.npy",     "sd.npy"};
    char path[FILES_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (path_in(r, names[i], path) == 0) (void)unlink(path);
}

/* A resolved run file without what may change between a run and its continuation. */
static char *comparable(const config *c)
{
    char *text = NULL, *kept = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f || config_write(c, f) || fclose(f)) return NULL;
    kept = calloc(size + 1, 1);
    int skipping = 0;
    size_t used = 0;
    for (char *line = text; kept && line && *line;) {
        char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) + 1 : strlen(line);
        if (*line != ' ' && *line != '#')
            skipping = strncmp(line, "iterations:", 11) == 0 || strncmp(line, "threads:", 8) == 0 ||
                       strncmp(line, "output:", 7) == 0 || strncmp(line, "evaluate:", 9) == 0;
        if (!skipping && *line != '#') {
            memcpy(kept + used, line, length);
            used += length;
        }
        line = end ? end + 1 : NULL;
    }
    free(text);
    return kept;
}

/* The first lines in which two run files differ, for the message. */
static void difference(const char *a, const char *b, char *out, size_t room)
{
    size_t line = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') line = i + 1;
    (void)snprintf(out, room, "it has '%.*s', this run '%.*s'", (int)strcspn(a + line, "\n"), a + line,
                   (int)strcspn(b + line, "\n"), b + line);
}

/* A directory is continued only with the run file that began it; iterations, threads, evaluate and output may change. */
static int same_run(run *r)
{
    char path[FILES_PATH], difference_text[256];
    if (path_in(r, "run.yaml", path)) return -1;
    config *old = config_load(path, r->error, sizeof r->error);
    if (!old || config_resolve(old, r->error, sizeof r->error)) {
        config_free(old);
        return -1;
    }
    char *a = comparable(old), *b = comparable(r->c);
    int same = a && b && strcmp(a, b) == 0;
    if (a && b && !same) {
        difference(a, b, difference_text, sizeof difference_text);
        (void)files_fail(r->error, sizeof r->error, "%s belongs to another run: %s", path, difference_text);
    }
    free(a);
    free(b);
    config_free(old);
    return same ? 0 : -1;
}

static int write_run_file(run *r)
{
    char path[FILES_PATH];
    atomic_file f;
    if (path_in(r, "run.yaml", path) || atomic_open(&f, path, r->error, sizeof r->error)) return -1;
    if (config_write(r->c, f.stream) && !f.error) f.error = EIO;
    return atomic_close(&f, r->error, sizeof r->error);
}

static int open_directory(run *r)
{
    int found;
    if (files_directory(r->dir, r->error, sizeof r->error)) return say(r, SOSMC_EXIT_IO);
    if (path_in(r, "checkpoint", r->checkpoint)) return say(r, SOSMC_EXIT_IO);
    found = has_checkpoint(r) || exists(r, "summary.json");
    if (found && !r->options->resume && !r->options->overwrite)
        return complain(SOSMC_EXIT_USAGE,
                        "%s already holds a run; continue it with --resume, replace it with --overwrite, or "
                        "choose another --out",
                        r->dir);
    if (r->options->overwrite && !r->options->resume) forget_old_run(r);
    if (r->options->resume && exists(r, "run.yaml") && same_run(r)) return say(r, SOSMC_EXIT_USAGE);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- beginning */

static int open_traces(run *r)
{
    char path[FILES_PATH], columns[TRACE_COLUMNS];
    int64_t from = sosmc_iteration(r->engine);
    trace_columns(r->job.problem.model.dim_theta, columns);
    if (path_in(r, "trace.csv", path) || trace_open(&r->trace, path, columns, from, r->error, sizeof r->error))
        return -1;
    if (path_in(r, "timing.csv", path) || trace_open(&r->timing, path, TRACE_TIMING, from, r->error, sizeof r->error))
        return -1;
    (void)trace_kept(r->timing, &r->before);
    if (moments_open(&r->moments, r->c, &r->job, r->dir, from, r->error, sizeof r->error)) return -1;
    return evaluation_open(&r->evaluation, r->c, &r->job, r->dir, from, r->error, sizeof r->error);
}

/* Everything the run file asks for exists before the directory is touched: a file that is wrong leaves no trace. */
static int prepare_run(run *r)
{
    int io = 0;
    if (job_build(&r->job, r->c, &io, r->error, sizeof r->error)) return say(r, io ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE);
    if (evaluation_check(r->c, &r->job, r->error, sizeof r->error)) return say(r, SOSMC_EXIT_USAGE);
    sosmc_status status = sosmc_create(&r->engine, &r->job.problem, &r->job.settings);
    return status == SOSMC_OK ? SOSMC_EXIT_OK : complain(exit_code(status), "%s", sosmc_message(r->engine));
}

static int begin_run(run *r)
{
    if (r->options->resume && has_checkpoint(r)) {
        sosmc_status status = sosmc_load_file(r->engine, r->checkpoint);
        if (status != SOSMC_OK) return complain(exit_code(status), "%s: %s", r->checkpoint, sosmc_message(r->engine));
    }
    if (write_run_file(r)) return say(r, SOSMC_EXIT_IO);
    if (open_traces(r)) return say(r, SOSMC_EXIT_IO);
    /* the row that an interrupt kept from being written */
    if (evaluation_step(r->evaluation, r->engine, sosmc_last(r->engine), r->error, sizeof r->error))
        return say(r, SOSMC_EXIT_IO);
    r->thin = config_integer(r->c, "output.thin");
    r->checkpoint_every = config_integer(r->c, "output.checkpoint_every");
    r->checkpoint_seconds = config_number(r->c, "output.checkpoint_seconds");
    r->begun = r->last_checkpoint = monotonic_seconds();
    progress_begin(&r->progress, r->options->quiet, sosmc_iteration(r->engine));
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- going on */

static double elapsed(const run *r) { return r->before + monotonic_seconds() - r->begun; }

static int save(run *r)
{
    if (trace_flush(r->trace, r->error, sizeof r->error) || trace_flush(r->timing, r->error, sizeof r->error) ||
        evaluation_flush(r->evaluation, r->error, sizeof r->error) ||
        moments_save(r->moments, sosmc_iteration(r->engine), r->error, sizeof r->error))
        return say(r, SOSMC_EXIT_IO);
    sosmc_status status = sosmc_save_file(r->engine, r->checkpoint);
    if (status != SOSMC_OK) return complain(exit_code(status), "%s", sosmc_message(r->engine));
    r->last_checkpoint = monotonic_seconds();
    return SOSMC_EXIT_OK;
}

static int due(const run *r, int64_t done)
{
    if (r->checkpoint_every > 0 && done % r->checkpoint_every == 0) return 1;
    return r->checkpoint_seconds > 0 && monotonic_seconds() - r->last_checkpoint > r->checkpoint_seconds;
}

static int out_of_time(const run *r)
{
    return r->options->budget_seconds > 0 && monotonic_seconds() - r->begun >= r->options->budget_seconds;
}

static int iterate(run *r)
{
    while (sosmc_iteration(r->engine) < r->job.iterations && !interrupt_requested() && !out_of_time(r)) {
        sosmc_status status = sosmc_step(r->engine);
        if (status != SOSMC_OK) {
            progress_end(&r->progress);
            (void)trace_flush(r->trace, r->error, sizeof r->error);
            return complain(exit_code(status), "%s", sosmc_message(r->engine));
        }
        const sosmc_info *info = sosmc_last(r->engine);
        if (info->iteration % r->thin == 0) {
            trace_info(r->trace, info, sosmc_theta(r->engine), r->job.problem.model.dim_theta);
            trace_time(r->timing, info->iteration, elapsed(r));
        }
        if (evaluation_step(r->evaluation, r->engine, info, r->error, sizeof r->error) ||
            moments_step(r->moments, r->engine, info, r->error, sizeof r->error)) {
            char ignored[SENTENCE];
            progress_end(&r->progress);
            (void)trace_flush(r->trace, ignored, sizeof ignored);
            return say(r, SOSMC_EXIT_IO);
        }
        progress_info(&r->progress, info->iteration + 1, r->job.iterations, info);
        if (!due(r, info->iteration + 1)) continue;
        int code = save(r);
        if (code != SOSMC_EXIT_OK) return code;
    }
    progress_end(&r->progress);
    r->seconds = elapsed(r);
    return save(r);
}

/* ---------------------------------------------------------------------------- the end */

/* The averaged theta where the run averages: it is what the run is for. */
static int write_network(run *r)
{
    static const char *const names[] = {"model.safetensors", "model.npz"};
    char path[FILES_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (path_in(r, names[i], path) ||
            job_write_model(&r->job, sosmc_theta_average(r->engine), path, r->error, sizeof r->error))
            return -1;
    return 0;
}

static int write_arrays(run *r)
{
    char path[FILES_PATH];
    int64_t n = sosmc_particles(r->engine), dim = r->job.problem.model.dim_x;
    npy_array theta = npy_vector(sosmc_theta(r->engine), r->job.problem.model.dim_theta);
    if (job_has_network(&r->job)) {
        if (write_network(r)) return -1;
    } else if (path_in(r, "theta.npy", path) || npy_write(path, &theta, r->error, sizeof r->error)) {
        return -1;
    }
    if (moments_write(r->moments, r->engine, r->error, sizeof r->error)) return -1;
    if (!config_flag(r->c, "output.particles")) return 0;
    double *x = malloc((size_t)n * (size_t)dim * sizeof *x), *logw = malloc((size_t)n * sizeof *logw);
    int rc = -1;
    if (!x || !logw)
        (void)files_fail(r->error, sizeof r->error, "out of memory for %lld particles", (long long)n);
    else if (sosmc_cloud(r->engine, x, logw) == SOSMC_OK && path_in(r, "particles.npz", path) == 0) {
        npz_member members[] = {{"x", npy_matrix(x, n, dim)}, {"logw", npy_vector(logw, n)}};
        rc = npz_write(path, members, 2, 0, r->error, sizeof r->error);
        if (rc == 0 && r->job.problem.objective.scale == 0) /* a run that samples: the points alone, as an array */
            rc = path_in(r, "samples.npy", path) || npy_write(path, &members[0].array, r->error, sizeof r->error);
    }
    free(x);
    free(logw);
    return rc;
}

static int write_summary(run *r)
{
    char path[FILES_PATH], hash[32];
    atomic_file f;
    sosmc_evidence evidence;
    const sosmc_info *info = sosmc_last(r->engine);
    int64_t done = sosmc_iteration(r->engine);
    if (path_in(r, "summary.json", path) || atomic_open(&f, path, r->error, sizeof r->error)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "version", sosmc_version());
    json_put_truth(&w, "finished", done >= r->job.iterations);
    json_put_whole(&w, "iterations", done);
    if (r->job.problem.model.dim_theta <= TRACE_THETAS)
        json_put_numbers(&w, "theta", sosmc_theta(r->engine), r->job.problem.model.dim_theta);
    if (r->job.settings.average > 0 && r->job.problem.model.dim_theta <= TRACE_THETAS)
        json_put_numbers(&w, "theta_average", sosmc_theta_average(r->engine), r->job.problem.model.dim_theta);
    json_put_number(&w, "reward", info->mean_score);
    json_put_number(&w, "loss", info->loss);
    json_put_number(&w, "kl", info->kl);
    json_put_text(&w, "why_no_loss", sosmc_why_no_loss(r->engine));
    json_put_number(&w, "mean_energy", info->mean_energy);
    json_put_number(&w, "data_energy", info->data_energy);
    (void)evaluation_summary(r->evaluation, &w);
    json_put_number(&w, "log_z", info->logz);
    if (r->job.problem.objective.loss == SOSMC_LOSS_MMLE) {
        double information = job_information(&r->job, r->engine);
        json_put_number(&w, "information", information);
        json_put_number(&w, "theta_standard_error", information > 0 ? 1 / sqrt(information) : NAN);
        if (job_evidence(&r->job, r->engine, &evidence) == 0) {
            json_put_number(&w, "log_likelihood", evidence.logz);
            json_put_number(&w, "log_likelihood_error", evidence.error);
        }
    }
    json_put_number(&w, "ess", info->ess);
    json_put_whole(&w, "particles", sosmc_particles(r->engine));
    json_put_number(&w, "acceptance", info->accept);
    json_put_number(&w, "step", info->h);
    if (r->moments) json_put_whole(&w, "moments_clouds", moments_clouds(r->moments));
    json_put_number(&w, "seconds", r->seconds);
    json_put_whole(&w, "seed", (int64_t)r->job.settings.seed);
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)sosmc_hash(r->engine));
    json_put_text(&w, "state_hash", hash);
    json_close(&w);
    return atomic_close(&f, r->error, sizeof r->error);
}

static void tell(const run *r, int64_t done)
{
    const sosmc_info *info = sosmc_last(r->engine);
    int dim = r->job.problem.model.dim_theta;
    if (r->options->quiet) return;
    printf("%lld iterations in %.2f s", (long long)done, r->seconds);
    if (!isnan(info->mean_score)) printf(", reward %.6g", info->mean_score);
    if (!isnan(info->loss)) printf(", loss %.6g", info->loss);
    if (!isnan(info->ess)) printf(", ESS %.0f of %d", info->ess, sosmc_particles(r->engine));
    putchar('\n');
    if (job_has_network(&r->job)) {
        printf("the network of %d parameters is stored as %s/model.safetensors\n", dim, r->dir);
    } else {
        printf("theta =");
        for (int j = 0; j < dim && j < 8; j++) printf(" %.6g", sosmc_theta(r->engine)[j]);
        puts(dim > 8 ? " ..." : "");
    }
    printf("results in %s\n", r->dir);
}

static int finish(run *r)
{
    int64_t done = sosmc_iteration(r->engine);
    if (write_arrays(r) || write_summary(r)) return say(r, SOSMC_EXIT_IO);
    if (interrupt_requested()) {
        (void)complain(0, "stopped after iteration %lld of %lld; everything is saved, continue with --resume",
                       (long long)done, (long long)r->job.iterations);
        return SOSMC_EXIT_INTERRUPTED;
    }
    if (config_flag(r->c, "output.report") && picture_report(r->dir, r->error, sizeof r->error))
        return say(r, SOSMC_EXIT_IO);
    tell(r, done);
    return SOSMC_EXIT_OK;
}

static void close_run(run *r)
{
    char ignored[SENTENCE];
    (void)trace_close(r->trace, ignored, sizeof ignored);
    (void)trace_close(r->timing, ignored, sizeof ignored);
    (void)evaluation_close(r->evaluation, ignored, sizeof ignored);
    moments_close(r->moments);
    sosmc_free(r->engine);
    job_free(&r->job);
}

int run_job(const config *c, const run_options *options)
{
    static const run nothing;
    run *r = malloc(sizeof *r);
    if (!r) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    *r = nothing;
    r->c = c;
    r->options = options;
    (void)snprintf(r->dir, sizeof r->dir, "%s", options->out);
    int code = prepare_run(r);
    if (code == SOSMC_EXIT_OK) code = open_directory(r);
    if (code == SOSMC_EXIT_OK) code = begin_run(r);
    if (code == SOSMC_EXIT_OK && sosmc_iteration(r->engine) >= r->job.iterations && exists(r, "summary.json") &&
        options->resume) {
        if (!options->quiet) printf("%s is finished: %lld iterations\n", r->dir, (long long)sosmc_iteration(r->engine));
    } else {
        if (code == SOSMC_EXIT_OK) code = iterate(r);
        if (code == SOSMC_EXIT_OK) code = finish(r);
    }
    close_run(r);
    free(r);
    return code;
}
