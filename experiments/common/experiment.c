/* experiment.c: places, runs, tables and numbers of the experiments. Invariant: nothing here knows which experiment it is. */
#include "experiment.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "terminal/session.h"
#include "files/share.h"
#include "run/need.h"

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

int experiment_find(const char *name, const char *file, char dir[FILES_PATH], char *error, size_t room)
{
    if (share_find(name, file, dir) == 0) return 0;
    return files_fail(
        error, room,
        "no folder with %s was found; expected the environment variable SOSMC_SHARE with the folder above %s", file,
        name);
}

int experiment_check_sizes(const reproduce_options *options, const char *name)
{
    if (options->quick && options->full)
        return complain(SOSMC_EXIT_USAGE, "--quick and --full exclude each other; expected one of them");
    if (options->budget_seconds > 0)
        return complain(SOSMC_EXIT_USAGE, "--budget-seconds belongs to langevin; %s has a fixed number of iterations",
                        name);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- runs */

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
    experiment_set(f, "judge=none"); /* the tables have definitions of their own, most of them exact */
    if (!f->c) return complain(f->code, "%s", f->error);
    int code = config_resolve(f->c, f->error, sizeof f->error) ? complain(SOSMC_EXIT_USAGE, "%s", f->error)
                                                               : session_run(f->c, &options);
    config_free(f->c);
    f->c = NULL;
    return code;
}

int experiment_start(experiment_file *f, experiment_engine *out, char *error, size_t room)
{
    int io = 0;
    *out = (experiment_engine){.file = f->c};
    if (!f->c || config_resolve(f->c, f->error, sizeof f->error) ||
        job_build(&out->job, f->c, &io, f->error, sizeof f->error) ||
        need_check(f->c, &out->job, f->error, sizeof f->error))
        return files_fail(error, room, "%s", f->error);
    if (sosmc_create(&out->engine, &out->job.problem, &out->job.settings) == SOSMC_OK) return 0;
    return files_fail(error, room, "%s", sosmc_message(out->engine));
}

void experiment_engine_free(experiment_engine *e)
{
    sosmc_free(e->engine);
    job_free(&e->job);
    config_free(e->file);
    *e = (experiment_engine){.file = NULL};
}

static void show_progress(void *context, int done, int cells, double left)
{
    progress *bar = context;
    if (progress_due(bar)) progress_line(bar, done, cells, "runs", left);
}

int experiment_grid(const grid *g, int threads, int quiet, char *error, size_t room)
{
    progress bar;
    const grid_hooks hooks = {.stop = experiment_interrupted, .progress = show_progress, .context = &bar};
    progress_begin(&bar, quiet, 0);
    int code = grid_run(g, threads, &hooks, error, room);
    progress_end(&bar);
    return code;
}

int experiment_run_grid(const grid *g, int threads, int quiet)
{
    char error[SENTENCE];
    int code = experiment_grid(g, threads, quiet, error, sizeof error);
    if (code == 0) return SOSMC_EXIT_OK;
    if (code == GRID_UNREADABLE) return complain(SOSMC_EXIT_IO, "%s", error);
    return experiment_failed(code > 0 ? code : SOSMC_EXIT_NUMERIC, error);
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

/* ---------------------------------------------------------------------------- runs with stops */

enum { STAGE_VALUES = 16 };

static int look_row(const experiment_stages *s, trace *rows, int k, char *error, size_t room)
{
    double value[STAGE_VALUES];
    if (experiment_iterations(s->dir) != k + 1)
        return files_fail(
            error, room,
            "%s is beyond iteration %d, whose row in %s is missing; delete the folder and run the command "
            "again",
            s->dir, k, s->file);
    if (s->look(s->context, k, value, error, room)) return -1;
    trace_append(rows, k, value, s->values);
    return trace_flush(rows, error, room);
}

static int open_rows(const experiment_stages *s, trace **rows, char *error, size_t room)
{
    char path[FILES_PATH];
    if (files_directory(s->dir, error, room) || files_join(path, s->dir, s->file, error, room)) return -1;
    return trace_open(rows, path, s->columns, access(path, F_OK) == 0 ? INT64_MAX : 0, error, room);
}

/* The last stage is always run: one that is finished returns at once. */
int experiment_run_in_stages(const experiment_stages *s)
{
    char error[SENTENCE];
    trace *rows = NULL;
    int code = SOSMC_EXIT_OK;
    if (open_rows(s, &rows, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    int64_t done = trace_kept(rows, NULL);
    for (int k = s->next(s->context, -1); code == SOSMC_EXIT_OK && k < s->iterations; k = s->next(s->context, k)) {
        if (k <= done && s->next(s->context, k) < s->iterations) continue;
        code = s->run(s->context, k + 1);
        if (code == SOSMC_EXIT_OK && k > done && look_row(s, rows, k, error, sizeof error))
            code = interrupt_requested() ? SOSMC_EXIT_INTERRUPTED
                                         : complain(SOSMC_EXIT_NUMERIC, "%s: %s", s->name, error);
    }
    if (trace_close(rows, error, sizeof error) && code == SOSMC_EXIT_OK) code = complain(SOSMC_EXIT_IO, "%s", error);
    return code;
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

int experiment_columns(const char *dir, const char *file, const char *const *names, int n, double **out, int *rows,
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

int experiment_mix_file(experiment_file *f, uint64_t *digest, char *error, size_t room)
{
    char *text = NULL;
    size_t size = 0;
    if (!f->c || config_resolve(f->c, f->error, sizeof f->error)) return files_fail(error, room, "%s", f->error);
    FILE *out = open_memstream(&text, &size);
    int rc = out && config_write(f->c, out) == 0 ? 0 : -1;
    if (out && fclose(out)) rc = -1;
    for (size_t i = 0; rc == 0 && i < size; i++) *digest = experiment_mix(*digest, (unsigned char)text[i]);
    free(text);
    return rc ? files_fail(error, room, "out of memory") : 0;
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

/* ---------------------------------------------------------------------------- the page */

int experiment_page_begin(experiment_page *x, const char *out, const char *title, const char *subtitle, char *error,
                          size_t room)
{
    *x = (experiment_page){.out = out, .error = error, .room = room};
    x->plots = plot_check(x->no_plots, sizeof x->no_plots) == 0;
    if (files_join(x->figures, out, "figures", error, room)) return -1;
    x->page = page_new(title, subtitle);
    return 0;
}

int experiment_page_end(experiment_page *x, int rc, const char *name)
{
    char path[FILES_PATH];
    if (rc == 0) rc = files_join(path, x->out, name, x->error, x->room);
    if (rc == 0) rc = page_write(x->page, path, x->error, x->room);
    page_free(x->page);
    x->page = NULL;
    return rc;
}

int experiment_figure(const experiment_page *x, arena *memory, plot_figure figure, const char *alt, const char *caption)
{
    char stem[FILES_PATH], *svg = NULL;
    int rc = 0;
    if (memory && memory->failed) rc = files_fail(x->error, x->room, "no memory to draw figure %s", figure.name);
    if (rc == 0 && x->plots) rc = plot_write(&figure, 1, x->figures, &svg, x->error, x->room);
    if (svg) {
        (void)snprintf(stem, sizeof stem, "figures/%s", figure.name);
        page_figure(x->page, svg, alt ? alt : caption, caption, stem);
        free(svg);
    }
    if (memory) arena_free(memory);
    return rc;
}

void experiment_picture(const experiment_page *x, const char *name, const char *caption)
{
    char file[FILES_PATH];
    (void)snprintf(file, sizeof file, "figures/%s.png", name);
    page_picture(x->page, x->out, file, caption, caption);
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

enum { CELLS = 16, LINE = 1024 };

void experiment_page_table(page *p, const char *caption, const char *columns)
{
    char line[LINE], align[CELLS + 1] = "", *rest = line;
    const char *head[CELLS + 1] = {NULL};
    (void)snprintf(line, sizeof line, "%s", columns);
    for (int i = 0; i < CELLS && rest; i++) {
        char *column = strsep(&rest, "|");
        align[i] = column[0];
        head[i] = column + 2;
    }
    page_table(p, caption, align, head);
}

static const char *number_text(double value, int general, int digits, char out[64])
{
    if (isnan(value)) return "";
    (void)snprintf(out, 64, general ? "%.*g" : "%.*f", digits, value);
    return out;
}

void experiment_cells(page *p, const page_mark *mark, const char *cells, ...)
{
    char text[CELLS][64];
    const char *cell[CELLS] = {NULL};
    va_list list;
    va_start(list, cells);
    for (int i = 0; i < CELLS && cells[i]; i++) {
        experiment_mean m = {.mean = NAN};
        if (cells[i] == 'm') m = va_arg(list, experiment_mean);
        if (cells[i] == 'e') {
            m.mean = va_arg(list, double);
            m.error = va_arg(list, double);
        }
        if (cells[i] == 's')
            cell[i] = va_arg(list, const char *);
        else if (cells[i] == 'm' || cells[i] == 'e')
            cell[i] = experiment_with_error(m.mean, m.error, text[i]);
        else if (cells[i] == 'd')
            cell[i] = number_text(va_arg(list, int), 0, 0, text[i]);
        else if (cells[i] == 'g')
            cell[i] = number_text(va_arg(list, double), 1, 6, text[i]);
        else
            cell[i] = number_text(va_arg(list, double), 0, cells[i] - '0', text[i]);
    }
    va_end(list);
    page_row(p, cell, mark);
}

void experiment_row(page *p, const page_mark *mark, const char *format, ...)
{
    char line[LINE], *rest = line;
    const char *cell[CELLS] = {NULL};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    for (int i = 0; i < CELLS && rest; i++) cell[i] = strsep(&rest, "|");
    page_row(p, cell, mark);
}

void experiment_field(atomic_file *f, double value)
{
    char t[32];
    atomic_print(f, ",%s", isnan(value) ? "" : files_number(value, t));
}
