/* report.h: report.html, the page that shows a run, and the same figures as files.
 *
 * Reads what a run leaves in its directory: trace.csv (needed), timing.csv, summary.json, theta.npy, particles.npz (x
 * and logw), run.yaml. What is missing is left out; what is damaged is an error. Writes DIR/report.html, one
 * self-contained page, and DIR/figures/NAME.svg and .pdf. Without gnuplot the page has no figures and says how to get
 * them. */
#ifndef SOSMC_REPORT_REPORT_H
#define SOSMC_REPORT_REPORT_H

#include <stddef.h>

#include "files/files.h"
#include "view/plot.h"

/* A horizontal line in the figure of one trace column: a threshold, a known optimum. */
typedef struct {
    const char *column; /* as in trace.csv: "ess", "mean_score", ... */
    double value;       /* in the units of the column: an ESS counts particles */
    const char *label;
} report_level;

/* A figure that others have made; everything is borrowed for the call. */
typedef struct {
    plot_figure figure;
    const char *title, *caption, *alt;
} report_figure;

/* What does not follow from the files of the directory. All of it may be zero. */
typedef struct {
    const char *title;           /* NULL: the directory's name */
    const char *about;           /* a sentence below the title; NULL: none */
    const char *no_loss;         /* sosmc_why_no_loss */
    int no_weights;              /* the method has none: an effective sample size is not shown */
    int no_acceptance;           /* the kernel accepts every move: an acceptance is not shown */
    const plot_lattice *density; /* of the target at the last theta, any scale; ny = 1 when x has one coordinate */
    const plot_lattice *reward;  /* likewise */
    const char *picture;         /* a PNG file below DIR that shows particles; NULL: none */
    const report_level *level;
    int levels;
    const report_figure *figure; /* shown before the curves of the trace */
    int figures;
} report_extra;

/* Reads the particles of DIR from PATH, which it sets. Before they are unpacked their number is compared with summary.json, and their
 * coordinates with `dim` (0: not known). 1: read; 0: there are none; 2: they are larger than 2 GiB; -1: a sentence. */
int report_cloud(const char *dir, int dim, char path[FILES_PATH], npy_array *x, char *error, size_t room);
int report_write(const char *dir, const report_extra *extra /* may be NULL */, char *error, size_t room);

#endif
