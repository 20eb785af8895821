/* report_inside.h: what the parts of the report share: a run as read from its directory, and the figures made of it. */
#ifndef SOSMC_REPORT_REPORT_INSIDE_H
#define SOSMC_REPORT_REPORT_INSIDE_H

#include "files/files.h"
#include "view/arena.h"
#include "view/plot.h"
#include "report.h"

typedef struct {
    csv_table trace;
    int rows;           /* of the trace */
    const char *unit;   /* what a row stands for: "iteration", or "step" where the settings were automatic */
    double *seconds;    /* wall-clock time of each row, NaN where unknown; NULL: no timing */
    json_t *summary;    /* NULL: none */
    char *settings;     /* the run file; NULL: none */
    npy_array theta;    /* owned == NULL: none */
    npy_array x;        /* particles x dim; owned == NULL: none */
    double *w;          /* normalised weights of the particles; NULL: no cloud */
    int64_t particles;  /* 0: no cloud */
    int dim, too_large; /* too_large: the cloud is there, but too big to load for a picture */
} report_data;

int report_load(report_data *r, const char *dir, char *error, size_t room);
void report_unload(report_data *r);

/* ---------------------------------------------------------------------------- curves */

typedef enum { SECTION_OBJECTIVE, SECTION_CLOUD, SECTION_ENGINE, SECTIONS } section;

/* A column of the trace, as it is shown. */
typedef struct {
    const char *column, *name; /* of the trace; of the figure's files */
    const char *title, *label; /* above the figure; at its axis */
    const char *about;         /* in the caption */
    section section;
    double sign;        /* -1: shown with the sign turned */
    int log;            /* logarithmic when it spans more than a factor of 20 */
    int noisy;          /* Monte Carlo noise around a path: shown with its running mean when rough */
    const char *learnt; /* in the caption where the solver trained or tuned a network; NULL: as otherwise */
    const char *tuned;  /* ... where it tuned one towards a reward; NULL: as where it trained one */
    const char *result; /* the key of the run's result of the same quantity; NULL: there is none */
} curve;
extern const curve report_curves[];
extern const int report_curve_count;

const double *report_values(const report_data *r, const char *column); /* NULL: no such column */
/* What the values are multiplied by: the sign, or 1/N for an ESS when the number of particles is known. */
double report_scale(const report_data *r, const curve *c);

/* Whether the quantity exists in this run. */
int report_shows(const report_extra *extra, const curve *c);

/* First and last finite value, range, and mean and standard deviation of the last tenth; n: how many are finite. */
typedef struct {
    int n;
    double first, last, min, max, mean, sd;
} digest;
digest report_digest(const report_data *r, const curve *c);
/* Whether the page has the run's result of this quantity, beside which no last value of the trace is shown. */
int report_has_result(const report_data *r, const curve *c);

/* ---------------------------------------------------------------------------- figures */

enum { EXHIBITS = 24 };
typedef struct {
    plot_figure figure;
    section section;
    const char *title;
    char caption[1000], alt[400];
} exhibit;
typedef struct {
    exhibit item[EXHIBITS];
    int n;
    arena memory; /* what the figures point to; `failed` where there was none left */
} gallery;

void report_gallery(gallery *g, const report_data *r, const report_extra *extra);
void report_gallery_free(gallery *g);

/* Adds a figure of HALF x TALL pixels; NULL: the gallery is full. */
enum { WIDE = 1080, HALF = 540, TALL = 330 };
exhibit *gallery_add(gallery *g, section where, const char *name, const char *title);
void report_add_cloud(gallery *g, const report_data *r, const report_extra *extra);

#endif
