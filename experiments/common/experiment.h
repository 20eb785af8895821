/* experiment.h: what the experiments of `sosmc reproduce` share: where things are, runs made from texts, tables that runs left,
 * cached arrays, means with errors.
 *
 * Functions that return an exit code (run.h) have said what went wrong; the others are as in files.h. */
#ifndef SOSMC_COMMON_EXPERIMENT_H
#define SOSMC_COMMON_EXPERIMENT_H

#include <stddef.h>
#include <stdint.h>

#include <sosmc/sosmc.h>

#include "job/problem.h"
#include "runfile/config.h"
#include "files/files.h"
#include "run/grid.h"
#include "view/arena.h"
#include "view/page.h"
#include "view/plot.h"
#include "reproduce.h"

/* ------------------------------------------------------------------------------------------------ places */

int experiment_threads(int wanted); /* 0: as many as the machine has cores */
/* Makes the folder; `absolute` is its name from the root. An exit code. */
int experiment_folder(const char *out, char absolute[FILES_PATH]);

/* The folder of the experiment's files that come with the program, which has to hold `file`. 0, or -1 with a sentence. */
int experiment_find(const char *name, const char *file, char dir[FILES_PATH], char *error, size_t room);

/* --quick beside --full, and --budget-seconds, which is langevin's, are refused. An exit code. */
int experiment_check_sizes(const reproduce_options *options, const char *name);

/* ------------------------------------------------------------------------------------------------ runs */

/* Prints the sentence and returns `code`. After an interrupt it prints that the same command continues, and returns
 * SOSMC_EXIT_INTERRUPTED. */
int experiment_failed(int code, const char *sentence);

/* For sosmc_fresh_record.stop; the context is not used. */
int experiment_interrupted(void *ctx);
/* Writes "PATH: no WHAT: why" for a stored network that the library refuses, and returns -1. */
int experiment_refused(const char *path, const char *what, sosmc_status status, char *error, size_t room);

/* A run file that comes with the program, with the values that an experiment sets in it. An error is kept, and
 * experiment_go prints it: a caller need not check in between. */
typedef struct {
    config *c; /* NULL after an error */
    int code;  /* the exit code of that error */
    char error[1024];
} experiment_file;
experiment_file experiment_load(const char *dir, const char *file);
/* One assignment KEY=VALUE, as --set takes it: paths need no quoting. */
void experiment_set(experiment_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs it into `dir`, or continues it there, and frees it. An exit code. */
int experiment_go(experiment_file *f, const char *dir, int quiet);

/* The engine of such a file, for an experiment that takes the steps itself; `file` is freed by experiment_engine_free. Returns
 * 0, or -1 with a sentence; experiment_engine_free may be called in either case. */
typedef struct {
    config *file; /* the job refers to values in it */
    job job;
    sosmc *engine;
} experiment_engine;
int experiment_start(experiment_file *f, experiment_engine *out, char *error, size_t room);
void experiment_engine_free(experiment_engine *e);

/* Runs a grid with a line of progress (unless quiet) until the program is interrupted; returns what grid_run does. */
int experiment_grid(const grid *g, int threads, int quiet, char *error, size_t room);
/* The same; what went wrong is printed on standard error. Returns an exit code. */
int experiment_run_grid(const grid *g, int threads, int quiet);

/* A run that stops after certain iterations. At each stop `look` measures what the run has left so far, and the values
 * become a row of DIR/FILE. Continuing a run does not change its numbers. Rows that an earlier process wrote are kept. */
typedef struct {
    const char *dir, *file, *columns; /* the columns begin with the iteration, which is not one of the values */
    const char *name;                 /* of the run, in messages */
    int values, iterations;
    /* The stop after that of k; after -1 the first; `iterations`: there is none. */
    int (*next)(const void *context, int k);
    int (*run)(void *context, int iterations); /* an exit code */
    int (*look)(void *context, int k, double *value, char *error, size_t room);
    void *context;
} experiment_stages;
int experiment_run_in_stages(const experiment_stages *s); /* an exit code */
/* How far the run in this directory has come; -1: unknown. */
int64_t experiment_iterations(const char *dir);

/* ------------------------------------------------------------------------------------------------ what runs left */

/* A table that has rows. */
int experiment_table(const char *dir, const char *file, csv_table *t, char *error, size_t room);
/* A copy, which the caller frees; NaN where a field is empty. */
double *experiment_column(const csv_table *t, const char *name);
/* Columns of DIR/FILE into out[0..n-1], which the caller frees, also after -1. */
int experiment_columns(const char *dir, const char *file, const char *const *names, int n, double **out, int *rows,
                       char *error, size_t room);
double experiment_last(const csv_table *t, const char *name);

/* A digest of settings, which begins with EXPERIMENT_DIGEST. experiment_key stores it in two doubles without loss. */
#define EXPERIMENT_DIGEST 0xCBF29CE484222325U
uint64_t experiment_mix(uint64_t digest, uint64_t word);
uint64_t experiment_mix_doubles(uint64_t digest, const double *value, int n);
void experiment_key(uint64_t digest, double key[2]);
/* Mixes every key of the run file and its value, defaults too. 0, or -1 with a sentence. */
int experiment_mix_file(experiment_file *f, uint64_t *digest, char *error, size_t room);
/* Whether the file exists and holds this key in its member `key`. */
int experiment_is_kept(const char *cache, const double key[2]);
/* Reads a member of the file with `count` numbers. Returns -1 without a message where it cannot: the caller then computes
 * the numbers again. */
int experiment_recall(const char *cache, const char *name, double *out, int64_t count);

/* ------------------------------------------------------------------------------------------------ the page */

/* The page of an experiment, with its figures in OUT/figures. */
typedef struct {
    page *page;
    const char *out;
    char figures[FILES_PATH];
    int plots;          /* gnuplot can be run; without it pages have no curves */
    char no_plots[256]; /* why not, in words */
    char *error;
    size_t room;
} experiment_page;
/* 0, or -1 with a sentence. `error` is kept for the functions below. */
int experiment_page_begin(experiment_page *x, const char *out, const char *title, const char *subtitle, char *error,
                          size_t room);
/* Writes OUT/NAME, unless `rc` tells of an earlier failure, and frees the page. Returns 0 or -1. */
int experiment_page_end(experiment_page *x, int rc, const char *name);
/* Draws the figure as OUT/figures/NAME.svg and .pdf and puts it onto the page (without gnuplot: nothing), then frees the
 * memory that it was made of (NULL: not in an arena). `alt` NULL: the caption. 0, or -1 with a sentence in x->error. */
int experiment_figure(const experiment_page *x, arena *memory, plot_figure figure, const char *alt,
                      const char *caption);
void experiment_picture(const experiment_page *x, const char *name, const char *caption); /* OUT/figures/NAME.png */

/* ------------------------------------------------------------------------------------------------ numbers */

typedef struct {
    int n;
    double mean, sd, error; /* sd and error (of the mean) are NaN below two values */
} experiment_mean;
experiment_mean experiment_mean_of(const double *value, int n); /* of those that are not NaN */

int experiment_ascending(const void *a, const void *b); /* of doubles, for qsort */

const char *experiment_with_error(double mean, double error, char out[64]); /* "m ± e"; empty for NaN */
const char *experiment_decimals(double value, int digits, char out[32]);    /* "-" for NaN */
/* Begins a table on a page. Every column is a letter for its alignment, a space and its head: "l method|r reward". */
void experiment_page_table(page *p, const char *caption, const char *columns);
/* A row of it from values, by one letter for each cell: s a text; d an int; g a double; 0 to 9 a double with so many decimals;
 * m an experiment_mean and e two doubles, a mean with its error. A double that is NaN leaves its cell empty. */
void experiment_cells(page *p, const page_mark *mark, const char *cells, ...);
/* A row of it from one formatted line whose cells are separated by bars. */
void experiment_row(page *p, const page_mark *mark, const char *format, ...) __attribute__((format(printf, 3, 4)));
void experiment_field(atomic_file *f, double value); /* ",VALUE", empty for NaN */

#endif
