/* plot.h: figures, described by plain values and drawn by gnuplot as SVG and PDF.
 *
 * A figure is a grid of panels with one legend below it; a panel shows lines (with confidence bands), marks, points,
 * bars, level lines and words over an optional heat map or hexagonal histogram with contours. Everything
 * pointed to is borrowed for the call. Zero is a sensible choice everywhere: start from {0} and set what you mean.
 *
 *     plot_series s[] = {{.label = "SOSMC-ULA", .n = n, .x = k, .y = mean, .low = low, .high = high}};
 *     plot_panel p[] = {{.x_label = "iteration", .y_label = "mean reward", .series = s, .n = 1}};
 *     plot_figure f = {.name = "reward", .title = "Mean reward", .panel = p, .panels = 1};
 *     plot_write(&f, 1, "DIR/figures", NULL, error, sizeof error);
 *
 * Labels are UTF-8 and shown as they are written. Errors as in files.h. */
#ifndef SOSMC_VIEW_PLOT_H
#define SOSMC_VIEW_PLOT_H

#include <stddef.h>

/* The palette of Okabe and Ito, which colour-blind readers can tell apart. */
typedef enum {
    PLOT_BLUE = 0,
    PLOT_VERMILION,
    PLOT_GREEN,
    PLOT_ORANGE,
    PLOT_PURPLE,
    PLOT_SKY,
    PLOT_BLACK,
    PLOT_YELLOW, /* faint on white: for areas */
    PLOT_GREY,
    PLOT_COLOURS
} plot_colour;
#define PLOT_RGB(rgb) (0x1000000 | (int)(rgb)) /* any other colour, 0xRRGGBB */

typedef enum {
    PLOT_LINE = 0, /* y over x; a value that is not finite breaks the line */
    PLOT_MARKS,    /* a line with a mark at every value, and error bars instead of a band */
    PLOT_POINTS,   /* a cloud of translucent dots */
    PLOT_BARS,     /* bars of equal width, centred at evenly spaced x */
    PLOT_LEVEL,    /* a horizontal line at y[0] */
    PLOT_DOTS,     /* filled marks without a line */
    PLOT_RINGS,    /* open marks without a line, to stand around others */
    PLOT_CROSSES   /* diagonal crosses without a line */
} plot_kind;
typedef enum { PLOT_SOLID = 0, PLOT_DASHED, PLOT_DOTTED } plot_dash;

typedef struct {
    plot_kind kind;
    const char *label; /* in the legend; NULL: not there. Equal labels of several panels appear once. */
    int colour;        /* plot_colour or PLOT_RGB(...) */
    plot_dash dash;
    double width; /* of the line, or of a point, dot, ring or cross; 0: the usual */
    int n;
    const double *x, *y;
    const double *low, *high;     /* both or none: a band around the line, error bars at marks */
    const double *x_low, *x_high; /* both or none: horizontal error bars of PLOT_MARKS that have vertical ones */
} plot_series;

/* Values on a lattice over a box: z[r * nx + c] belongs to the point
 * (x_min + c (x_max - x_min)/(nx - 1), y_min + r (y_max - y_min)/(ny - 1)). */
typedef struct {
    int nx, ny; /* 2 to 2000 each; 100 to 300 look well */
    double x_min, x_max, y_min, y_max;
    const double *z;
} plot_lattice;
typedef enum { PLOT_BLUES = 0, PLOT_ORANGES, PLOT_GREENS, PLOT_PLASMA } plot_shades;

/* A colour scale that all panels of a figure share, with its bar to the right of them. */
typedef struct {
    double min, max; /* min < max, and 0 < min when log */
    int log;
    plot_shades shades;
    const char *label; /* beside the bar */
} plot_scale;
enum { PLOT_STEPS = 16 }; /* colours of a scale: few enough for small files, enough to look smooth */
/* The step from 0 to PLOT_STEPS - 1 to which a value belongs; those beyond either end go to the last one there. */
int plot_step(const plot_scale *scale, double value);
int plot_shade(const plot_scale *scale, int step); /* its colour, as PLOT_RGB */

/* Hexagons with a corner up and down around n centres, coloured by value on the figure's scale. */
typedef struct {
    int n;
    const double *x, *y, *value;
    double width, height; /* of one of them, between opposite sides and between opposite corners */
} plot_hexagons;

/* A word at a point of the panel, on a white ground so that lines do not cross it. */
typedef struct {
    double x, y;
    const char *text;
    int colour;
} plot_text;

/* A vertical line through the panel, with a word at its top. */
typedef struct {
    double x;
    const char *text;
} plot_rule;

typedef struct {
    const char *title, *x_label, *y_label;
    int log_x, log_y;
    int equal;                         /* a unit is as long on either axis */
    double x_min, x_max, y_min, y_max; /* min == max: from the data */
    const plot_series *series;
    int n;
    const plot_lattice *heat; /* a map below everything else */
    const char *heat_label;   /* beside its colour bar */
    plot_shades shades;
    const plot_lattice *contour; /* lines of equal value above the map */
    const char *contour_label;   /* in the legend */
    int contour_colour;
    double contour_width;        /* 0: 1.6 */
    const double *contour_level; /* NULL: round values, about eight of them */
    int contour_levels;
    const plot_hexagons *hexagons; /* below everything else; the figure has a scale */
    const plot_text *text;         /* above everything else */
    int texts;
    const plot_rule *rule; /* below the lines; the panel then has no title */
    int rules;
} plot_panel;

typedef struct {
    const char *name;  /* of its files, without ending */
    const char *title; /* above it; NULL: none */
    const plot_panel *panel;
    int panels, columns;  /* columns 0: all panels in one row */
    double width, height; /* of a panel in pixels; 0: 540 by 330, compact 150 by 150 */
    /* Panels of equal ranges side by side: numbers stand at the outer axes only, titles belong in the first row (they
     * name the columns) and y_labels in the first column (they name the rows). */
    int compact;
    const plot_scale *scale; /* of hexagons and shaded lines; NULL: none */
} plot_figure;

int plot_available(void); /* gnuplot can be run */
/* The same: 0, or -1 with a sentence that says why not, without its full stop. A gnuplot that takes more than 30 seconds, or as many
 * as the environment's SOSMC_GNUPLOT_SECONDS says, is ended, and not tried again. */
int plot_check(char *error, size_t room);
#define PLOT_ADVICE "gnuplot was not found: install it (Debian: apt-get install gnuplot-nox)"

typedef enum { PLOT_SVG = 0, PLOT_PDF, PLOT_FORMATS } plot_format;
/* The bytes of one figure, followed by a NUL; the caller frees. */
int plot_render(const plot_figure *figure, plot_format format, char **bytes, size_t *size, char *error, size_t room);

/* Draws n figures and writes DIR/NAME.svg and DIR/NAME.pdf (the directory is made). svg: NULL, or n pointers that
 * receive the SVG texts; the caller frees them. On failure all of them are NULL. */
int plot_write(const plot_figure *figure, int n, const char *dir, char **svg, char *error, size_t room);

/* Reduces a long curve to at most `limit` values that look the same: the smallest and the largest of each section, in
 * order. Returns how many there are; the arrays may be the same for input and output. */
int plot_thin(const double *x, const double *y, int n, int limit, double *out_x, double *out_y);

#endif
