/* experiment.c: places, runs, tables and numbers of the experiments. Invariant: nothing here knows which experiment it is. */
#include "experiment.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "terminal/session.h"
#include "files/share.h"

enum { SENTENCE = 1024 };

/* ---------------------------------------------------------------------------- places */

int experiment_threads(int wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return wanted > 0 ? wanted : cores > 0 ? (int)cores : 1;
}

int experiment_folder(const char *out, char absolute[FILES_PATH])
{
    char error[SENTENCE];
    return share_make_folder(out, absolute, error, sizeof error) ? complain(SOSMC_EXIT_IO, "%s", error) : SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- runs */

sosmc_settings experiment_defaults(void)
{
    sosmc_settings settings = sosmc_defaults();
    settings.on_collapse = SOSMC_COLLAPSE_CONTINUE;
    return settings;
}

int experiment_failed(int code, const char *sentence)
{
    return interrupt_requested() ? complain(SOSMC_EXIT_INTERRUPTED, "interrupted; the same command continues")
                                 : complain(code, "%s", sentence);
}

int experiment_interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_requested();
}

int experiment_refused(const char *path, const char *what, sosmc_status status, char *error, size_t room)
{
    const char *why = status == SOSMC_STOPPED    ? "interrupted"
                      : status == SOSMC_ENUMERIC ? "the network gave values that are not finite"
                      : status == SOSMC_ENOMEM   ? "there is not enough memory"
                                                 : sosmc_status_name(status);
    return files_fail(error, room, "%s: no %s: %s", path, what, why);
}

static int set_path(config *c, const experiment_path *p, char *error, size_t room)
{
    char assignment[FILES_PATH + 64];
    if (!p->path) return 0;
    (void)snprintf(assignment, sizeof assignment, "%s=%s", p->key, p->path);
    return config_set(c, assignment, error, room);
}

int experiment_run(const char *text, const char *name, const experiment_path *path, int paths, const char *dir,
                   int quiet)
{
    char error[SENTENCE];
    int code = SOSMC_EXIT_USAGE, rc;
    session_options options = {.out = dir, .resume = 1, .quiet = quiet, .experiment = 1};
    config *c = config_parse(text, name, error, sizeof error);
    rc = c ? config_set(c, "on_collapse=continue", error, sizeof error) : -1;
    for (int i = 0; rc == 0 && i < paths; i++) rc = set_path(c, &path[i], error, sizeof error);
    if (rc || config_resolve(c, error, sizeof error))
        (void)complain(0, "%s", error);
    else
        code = session_run(c, &options);
    config_free(c);
    return code;
}

experiment_file experiment_load(const char *dir, const char *file)
{
    char path[FILES_PATH];
    experiment_file f = {.code = SOSMC_EXIT_IO};
    if (files_join(path, dir, file, f.error, sizeof f.error)) return f;
    f.c = config_load(path, f.error, sizeof f.error);
    if (!f.c && errno == 0) f.code = SOSMC_EXIT_USAGE;
    return f;
}

void experiment_set(experiment_file *f, const char *format, ...)
{
    char assignment[FILES_PATH + 64];
    va_list args;
    if (!f->c) return;
    va_start(args, format);
    (void)vsnprintf(assignment, sizeof assignment, format, args);
    va_end(args);
    if (config_set(f->c, assignment, f->error, sizeof f->error) == 0) return;
    config_free(f->c);
    f->c = NULL;
    f->code = SOSMC_EXIT_USAGE;
}

int experiment_go(experiment_file *f, const char *dir, int quiet)
{
    session_options options = {.out = dir, .resume = 1, .quiet = quiet, .experiment = 1};
    if (!f->c) return complain(f->code, "%s", f->error);
    int code = config_resolve(f->c, f->error, sizeof f->error) ? complain(SOSMC_EXIT_USAGE, "%s", f->error)
                                                               : session_run(f->c, &options);
    config_free(f->c);
    f->c = NULL;
    return code;
}

int64_t experiment_iterations(const char *dir)
{
    char path[FILES_PATH], ignored[SENTENCE];
    json_t *summary = NULL;
    if (files_join(path, dir, "summary.json", ignored, sizeof ignored) ||
        json_read(path, &summary, ignored, sizeof ignored))
        return -1;
    int64_t done = json_integer_value(json_object_get(summary, "iterations"));
    json_decref(summary);
    return done;
}

/* ---------------------------------------------------------------------------- what runs left */

int experiment_table(const char *dir, const char *file, csv_table *t, char *error, size_t room)
{
    char path[FILES_PATH];
    csv_options options = {.header = CSV_HEADER_YES};
    if (files_join(path, dir, file, error, room) || csv_read(path, &options, t, error, room)) return -1;
    if (t->rows > 0) return 0;
    csv_free(t);
    return files_fail(error, room, "%s has no rows; delete the folder and run the command again", path);
}

double *experiment_column(const csv_table *t, const char *name)
{
    const csv_column *c = csv_find(t, name);
    double *out = malloc(((size_t)t->rows + 1) * sizeof *out);
    for (int64_t i = 0; out && i < t->rows; i++) out[i] = c && c->number ? c->number[i] : NAN;
    return out;
}

double experiment_last(const csv_table *t, const char *name)
{
    const csv_column *c = csv_find(t, name);
    return c && c->number && t->rows > 0 ? c->number[t->rows - 1] : NAN;
}

/* FNV-1a's step, a word at a time, with the high bits folded back. */
uint64_t experiment_mix(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * 0x100000001B3U;
    return digest ^ (digest >> 29);
}

uint64_t experiment_mix_doubles(uint64_t digest, const double *value, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, &value[i], sizeof word);
        digest = experiment_mix(digest, word);
    }
    return digest;
}

void experiment_key(uint64_t digest, double key[2])
{
    key[0] = (double)(digest >> 32);
    key[1] = (double)(digest & 0xFFFFFFFFU);
}

int experiment_recall(const char *cache, const char *name, double *out, int64_t count)
{
    char ignored[256];
    npy_array a;
    if (npz_read(cache, name, &a, ignored, sizeof ignored)) return -1;
    int fits = npy_count(&a) == count;
    if (fits) npy_doubles(&a, out);
    npy_free(&a);
    return fits ? 0 : -1;
}

int experiment_is_kept(const char *cache, const double key[2])
{
    double stored[2];
    return access(cache, F_OK) == 0 && experiment_recall(cache, "key", stored, 2) == 0 && stored[0] == key[0] &&
           stored[1] == key[1];
}

/* ---------------------------------------------------------------------------- numbers */

experiment_mean experiment_mean_of(const double *value, int n)
{
    experiment_mean m = {.mean = NAN, .sd = NAN, .error = NAN};
    double sum = 0, square = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(value[i])) {
            sum += value[i];
            m.n++;
        }
    if (m.n > 0) m.mean = sum / m.n;
    for (int i = 0; i < n; i++)
        if (!isnan(value[i])) square += (value[i] - m.mean) * (value[i] - m.mean);
    if (m.n > 1) {
        m.sd = sqrt(square / (m.n - 1));
        m.error = m.sd / sqrt(m.n);
    }
    return m;
}

int experiment_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

const char *experiment_with_error(double mean, double error, char out[64])
{
    if (isnan(mean)) return "";
    if (isnan(error))
        (void)snprintf(out, 64, "%.4f", mean);
    else
        (void)snprintf(out, 64, "%.4f ± %.4f", mean, error);
    return out;
}

const char *experiment_decimals(double value, int digits, char out[32])
{
    if (isnan(value)) return "-";
    (void)snprintf(out, 32, "%.*f", digits, value);
    return out;
}

void experiment_field(atomic_file *f, double value)
{
    char t[32];
    atomic_print(f, ",%s", isnan(value) ? "" : files_number(value, t));
}
