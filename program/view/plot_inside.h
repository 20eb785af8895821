/* plot_inside.h: what the parts of plot.c share. A figure passes through them in this order:
 *
 *     plot_layout.c      what ranges the data take, where panels and legend stand, in pixels
 *     plot_data.c        the data, as blocks of gnuplot's language
 *     plot_script.c      everything else of the script: terminal, frames, curves, legend, scale
 *     plot.c             gnuplot itself, and the files
 *     plot_svg.c         its SVG, made smaller
 *
 * and plot_colours.c tells all of them which colour is meant. Lengths are pixels from the lower left corner. */
#ifndef SOSMC_VIEW_PLOT_INSIDE_H
#define SOSMC_VIEW_PLOT_INSIDE_H

#include <stdio.h>

#include "plot.h"

enum {
    SMALL = 14, /* fonts, in pixels */
    FONT = 16,
    LARGE = 19,
    LEGEND_LINE = 28,
    LEGEND_SAMPLE = 30,
    LEGEND_GAP = 24,
    SCALE_ROOM = 104, /* for the bar of the figure's scale */
    PANELS = 64
};

unsigned plot_rgb(int colour); /* of plot_colour or PLOT_RGB: 0xRRGGBB */

/* ---------------------------------------------------------------------------- layout */

typedef struct {
    double min, max;
    int log;
} range;

typedef struct {
    double left, right, bottom, top;
} box;

typedef struct {
    FILE *s; /* the script */
    plot_format format;
    double width, height; /* of the whole figure, in pixels */
    double panel_width, panel_height, title_height, legend_width, legend_height;
    box margin; /* around the inside of each panel */
    box outer;  /* around all panels */
    int columns, rows, compact;
} canvas;

/* One sample of the legend: a series, or the contours of a panel. */
typedef struct {
    const char *label;
    plot_series style;
} legend_entry;
enum { LEGEND_MAX = 64 };
typedef struct {
    legend_entry entry[LEGEND_MAX];
    int n;
} legend;

int plot_has_mark(plot_kind kind);
double plot_contour_width(const plot_panel *p); /* of its lines, the usual one included */

void plot_find_ranges(const plot_panel *p, range *x, range *y);
void plot_lattice_range(const plot_lattice *l, range *z); /* of its finite values; NaN: there are none */
void plot_pad(range *r, double share);                    /* by this share of its length on either side */
double plot_round_step(double v);                         /* 1, 2, 2.5 or 5 times a power of ten */

void plot_collect_legend(const plot_figure *f, legend *l);
double plot_text_width(const char *text, double font); /* in pixels, roughly */
double plot_legend_entry_width(const legend_entry *e);
int plot_legend_line(const legend *l, int first, double width); /* how many entries from `first` on fit into one line */

canvas plot_make_canvas(const plot_figure *f, const legend *l, plot_format format, FILE *s);
/* The inside of a panel. */
box plot_panel_box(const canvas *g, const plot_panel *p, int index, const range *x, const range *y);

/* ---------------------------------------------------------------------------- script */

/* The stream keeps an error of writing; it is checked once at the end. */
void plot_emit(FILE *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What plot_put_data made for a panel. */
typedef struct {
    int contours, step[PLOT_STEPS];
} drawn;
void plot_put_data(FILE *s, const plot_figure *f, drawn made[PANELS]);
/* Converts places in the lattice's block to coordinates. */
void plot_put_lattice_columns(FILE *s, const plot_lattice *l);

void plot_put_figure(const canvas *g, const plot_figure *f, const legend *l); /* the whole script */

/* ---------------------------------------------------------------------------- SVG */

/* In place, the text being followed by a NUL. */
void plot_merge_polygons(char *svg, size_t *size);

#endif
