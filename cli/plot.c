/* plot.c: figures through gnuplot.
 *
 * The layout is ours, in pixels, so that nothing overlaps whatever the data: every panel gets its place, its ranges
 * and, on logarithmic axes, its ticks; the legend is set below the panels like text, line by line.
 *
 *     +---------------- title ----------------+
 *     | panel 0            | panel 1          |
 *     |   LEFT [inner] RIGHT                  |
 *     +---------------- legend ---------------+
 *
 * gnuplot runs as a child with the script as its standard input and files for output and errors: no pipes, so nobody
 * can wait for the other. Labels enter the script in single quotes, where gnuplot interprets nothing. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"

extern char **environ;

enum {
    LEFT = 96, /* of a panel, for numbers and label of the axis */
    RIGHT = 24,
    RIGHT_HEAT = 104, /* with a colour bar */
    TOP = 14,
    TOP_TITLE = 38,
    BOTTOM = 60,
    FIGURE_TITLE = 42,
    LEGEND_LINE = 28,
    LEGEND_SAMPLE = 30,
    LEGEND_GAP = 24,
    SMALL = 14, /* fonts, in pixels */
    FONT = 16,
    LARGE = 19,
    CONTOURS = 8,
    PANELS = 64,
    GAP = 5, /* around a compact panel; what stands outside of all of them: */
    COMPACT_LEFT = 74,
    COMPACT_RIGHT = 14,
    COMPACT_TOP = 30,
    COMPACT_BOTTOM = 32,
    SCALE_ROOM = 104, /* for the bar of the figure's scale */
    SCALE_BAR = 14,
    SCALE_HEIGHT = 260
};
#define INK "#222222"

/* ---------------------------------------------------------------------------- small things */

static unsigned rgb(int colour)
{
    static const unsigned palette[] = {0x0072B2, 0xD55E00, 0x009E73, 0xE69F00, 0xCC79A7,
                                       0x56B4E9, 0x000000, 0xF0E442, 0x8A8A8A};
    if (colour & 0x1000000) return (unsigned)colour & 0xFFFFFFU;
    return palette[(unsigned)colour % PLOT_COLOURS];
}

static void emit(FILE *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void emit(FILE *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vfprintf(s, format, list); /* an error stays with the stream, which is asked at the end */
    va_end(list);
}

/* In single quotes only the quote itself is special. Control characters would end the line, other bytes the SVG. */
static void put_quoted(FILE *s, const char *text)
{
    (void)putc('\'', s);
    for (int n = 0; text && *text; text += n > 0 ? n : 1) {
        n = files_utf8(text);
        if (n == 0)
            (void)fputs("\xEF\xBF\xBD", s);
        else if (*text == '\'')
            (void)fputs("''", s);
        else if (n == 1 && ((unsigned char)*text < 0x20 || *text == 0x7F))
            (void)putc(' ', s);
        else
            (void)fwrite(text, 1, (size_t)n, s);
    }
    (void)putc('\'', s);
}

/* Width in pixels, after the widest of the usual fonts: others leave a little more air. */
static double text_width(const char *text, double font)
{
    double em = 0.0;
    for (; *text; text++) {
        char c = *text;
        if (((unsigned char)c & 0xC0) == 0x80) continue;
        if (strchr("ijlI.,:;'|!()[]", c))
            em += 0.34;
        else if (strchr("mwMW", c))
            em += 0.96;
        else if (c >= 'A' && c <= 'Z')
            em += 0.73;
        else if (c == ' ' || c == '-')
            em += 0.36;
        else
            em += 0.62;
    }
    return em * font;
}

int plot_thin(const double *x, const double *y, int n, int limit, double *out_x, double *out_y)
{
    int m = 0, buckets = limit / 2 > 0 ? limit / 2 : 1;
    if (n <= limit) {
        memmove(out_x, x, (size_t)n * sizeof *x);
        memmove(out_y, y, (size_t)n * sizeof *y);
        return n;
    }
    for (int b = 0; b < buckets; b++) {
        int first = (int)((int64_t)n * b / buckets), last = (int)((int64_t)n * (b + 1) / buckets), low = first,
            high = first;
        for (int i = first; i < last; i++) {
            if (y[i] < y[low] || isnan(y[low])) low = i;
            if (y[i] > y[high] || isnan(y[high])) high = i;
        }
        int one = low < high ? low : high, two = low < high ? high : low;
        double x1 = x[one], y1 = y[one], x2 = x[two], y2 = y[two];
        out_x[m] = x1;
        out_y[m++] = y1;
        if (two == one) continue;
        out_x[m] = x2;
        out_y[m++] = y2;
    }
    return m;
}

/* ---------------------------------------------------------------------------- colour scales */

int plot_step(const plot_scale *scale, double value)
{
    double t = scale->log ? log(fmax(value, scale->min) / scale->min) / log(scale->max / scale->min)
                          : (value - scale->min) / (scale->max - scale->min);
    return !(t > 0.0) ? 0 : t >= 1.0 ? PLOT_STEPS - 1 : (int)(t * PLOT_STEPS);
}

/* The lightest shade stands out from white: a single count has to be seen. */
int plot_shade(const plot_scale *scale, int step)
{
    enum { STOPS = 4 };
    static const unsigned ramp[][STOPS] = {[PLOT_BLUES] = {0xC3DCF1, 0x6BAED6, 0x2171B5, 0x08264F},
                                           [PLOT_ORANGES] = {0xFBDDB0, 0xF3B85F, 0xD9740A, 0x5C2C00},
                                           [PLOT_GREENS] = {0xC2E5D5, 0x74C3A2, 0x178A63, 0x053B2A},
                                           [PLOT_PLASMA] = {0x0D0887, 0x8F0DA4, 0xD5546E, 0xF7A83B}};
    double t = (STOPS - 1) * (double)step / (PLOT_STEPS - 1);
    int stop = t < STOPS - 2 ? (int)t : STOPS - 2, colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = (ramp[scale->shades][stop] >> shift) & 0xFFU, b = (ramp[scale->shades][stop + 1] >> shift) & 0xFFU;
        colour |= (int)lround(a + (t - stop) * (b - a)) << shift;
    }
    return PLOT_RGB(colour);
}

/* ---------------------------------------------------------------------------- ranges and ticks */

typedef struct {
    double min, max;
    int log;
} range;

static void include(range *r, double v)
{
    if (!isfinite(v) || (r->log && v <= 0.0)) return;
    if (!(v >= r->min)) r->min = v;
    if (!(v <= r->max)) r->max = v;
}

static void include_series(const plot_series *s, range *x, range *y)
{
    int level = s->kind == PLOT_LEVEL;
    double half = s->kind == PLOT_BARS && s->n > 1 ? 0.5 * (s->x[1] - s->x[0]) : 0.0;
    if (s->kind == PLOT_BARS) include(y, 0.0);
    for (int i = 0; i < (level ? 1 : s->n); i++) {
        include(y, s->y[i]);
        if (s->low && s->high) {
            include(y, s->low[i]);
            include(y, s->high[i]);
        }
        if (level) continue;
        if (s->x_low && s->x_high) {
            include(x, s->x_low[i]);
            include(x, s->x_high[i]);
        }
        include(x, s->x[i] - half);
        include(x, s->x[i] + half);
    }
}

/* A little air around the curves, and a range that is none is made one. */
static void pad(range *r, double share)
{
    if (!(r->min <= r->max)) *r = (range){.min = r->log ? 1.0 : 0.0, .max = r->log ? 10.0 : 1.0, .log = r->log};
    if (r->log) {
        double f = r->max / r->min > 1.0 + 1e-9 ? pow(r->max / r->min, share) : 2.0;
        r->min /= f;
        r->max *= f;
        return;
    }
    double d = r->max - r->min, size = fmax(fabs(r->min), fabs(r->max));
    if (d <= 1e-12 * size || d == 0.0) {
        d = size > 0.0 ? 0.2 * size : 1.0;
        r->min -= d;
        r->max += d;
        return;
    }
    r->min -= share * d;
    r->max += share * d;
}

static int has_mark(plot_kind kind)
{
    return kind == PLOT_POINTS || kind == PLOT_MARKS || kind == PLOT_DOTS || kind == PLOT_RINGS || kind == PLOT_CROSSES;
}

static void find_ranges(const plot_panel *p, range *x, range *y)
{
    *x = (range){.min = NAN, .max = NAN, .log = p->log_x};
    *y = (range){.min = NAN, .max = NAN, .log = p->log_y};
    for (int i = 0; i < p->n; i++) include_series(&p->series[i], x, y);
    for (int i = 0; p->hexagons && i < p->hexagons->n; i++) {
        include(x, p->hexagons->x[i]);
        include(y, p->hexagons->y[i]);
    }
    int bars = p->n > 0 && p->series[0].kind == PLOT_BARS && !p->log_y && y->min == 0.0;
    int dots = p->hexagons || (p->n > 0 && has_mark(p->series[0].kind));
    pad(x, dots ? 0.04 : 0.0);
    pad(y, 0.05);
    if (bars) y->min = 0.0;
    const plot_lattice *box = p->heat ? p->heat : p->contour;
    if (box) {
        *x = (range){box->x_min, box->x_max, 0};
        *y = (range){box->y_min, box->y_max, 0};
    }
    if (p->x_min < p->x_max) *x = (range){p->x_min, p->x_max, p->log_x};
    if (p->y_min < p->y_max) *y = (range){p->y_min, p->y_max, p->log_y};
}

/* ---------------------------------------------------------------------------- layout */

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

static void legend_add(legend *l, const char *label, const plot_series *style)
{
    if (!label || !*label || l->n == LEGEND_MAX) return;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->entry[i].label, label)) return;
    l->entry[l->n++] = (legend_entry){label, *style};
}

static double contour_width(const plot_panel *p) { return p->contour_width > 0.0 ? p->contour_width : 1.6; }

static void collect_legend(const plot_figure *f, legend *l)
{
    l->n = 0;
    for (int i = 0; i < f->panels; i++) {
        const plot_panel *p = &f->panel[i];
        plot_series line = {.colour = p->contour_colour, .width = contour_width(p)};
        for (int j = 0; j < p->n; j++) legend_add(l, p->series[j].label, &p->series[j]);
        if (p->contour) legend_add(l, p->contour_label, &line);
    }
}

static double entry_width(const legend_entry *e) { return LEGEND_SAMPLE + 8 + text_width(e->label, FONT) + LEGEND_GAP; }

/* How many entries from `first` on fit into one line. */
static int line_entries(const legend *l, int first, double width)
{
    double used = 0.0;
    int n = 0;
    for (; first + n < l->n; n++) {
        used += entry_width(&l->entry[first + n]);
        if (n > 0 && used > width - LEGEND_GAP) break;
    }
    return n;
}

static int legend_lines(const legend *l, double width)
{
    int lines = 0;
    for (int i = 0; i < l->n; i += line_entries(l, i, width)) lines++;
    return lines;
}

/* The narrowest column that needs no more lines: lines of even length, no orphan at the end. */
static double legend_width(const legend *l, double width)
{
    int lines = legend_lines(l, width);
    while (width > 100 && legend_lines(l, width - 10) == lines) width -= 10;
    return width;
}

static canvas make_canvas(const plot_figure *f, const legend *l, plot_format format, FILE *s)
{
    canvas g = {.s = s, .format = format, .margin = {LEFT, RIGHT, BOTTOM, TOP}, .compact = f->compact};
    g.panel_width = f->width > 0 ? f->width : f->compact ? 150 : 540;
    g.panel_height = f->height > 0 ? f->height : f->compact ? 150 : 330;
    g.columns = f->columns > 0 ? f->columns : f->panels;
    g.rows = (f->panels + g.columns - 1) / g.columns;
    for (int i = 0; i < f->panels; i++)
        if (f->panel[i].title) g.margin.top = TOP_TITLE;
    if (f->compact) {
        g.margin = (box){GAP, GAP, GAP, GAP};
        g.outer = (box){COMPACT_LEFT, COMPACT_RIGHT, COMPACT_BOTTOM, COMPACT_TOP};
    }
    if (f->scale) g.outer.right = SCALE_ROOM;
    g.width = g.outer.left + g.columns * g.panel_width + g.outer.right;
    g.legend_width = legend_width(l, g.width);
    g.legend_height = l->n > 0 ? LEGEND_LINE * legend_lines(l, g.legend_width) + 8 : 0;
    g.title_height = f->title ? FIGURE_TITLE : 0;
    g.height = g.title_height + g.outer.top + g.rows * g.panel_height + g.outer.bottom + g.legend_height;
    return g;
}

/* The inside of a panel, from the lower left corner of the figure. */
static box panel_box(const canvas *g, const plot_panel *p, int index, const range *x, const range *y)
{
    int r = index / g->columns, c = index % g->columns;
    double x0 = g->outer.left + c * g->panel_width;
    double y1 = g->height - g->title_height - g->outer.top - r * g->panel_height;
    box b = {.left = x0 + g->margin.left, .right = x0 + g->panel_width - (p->heat ? RIGHT_HEAT : g->margin.right)};
    b.bottom = y1 - g->panel_height + g->margin.bottom;
    b.top = y1 - g->margin.top;
    if (!p->equal || x->log || y->log) return b;
    double w = b.right - b.left, h = b.top - b.bottom, dx = x->max - x->min, dy = y->max - y->min;
    double scale = fmin(w / dx, h / dy), beside = w - scale * dx, above = h - scale * dy;
    b.left += 0.5 * beside;
    b.right -= 0.5 * beside;
    b.bottom += 0.5 * above;
    b.top -= 0.5 * above;
    return b;
}

/* ---------------------------------------------------------------------------- words on the canvas */

static void put_text(const canvas *g, const char *text, double x, double y, int font, const char *how)
{
    emit(g->s, "set label ");
    put_quoted(g->s, text);
    emit(g->s, " at screen %.9g, screen %.9g %s font ',%d' noenhanced front tc rgb '" INK "'\n", x / g->width,
         y / g->height, how, font);
}

/* Powers of ten, and over short ranges their doubles and quintuples too: gnuplot alone may label a single tick. */
static void put_log_ticks(FILE *s, char axis, const range *r)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    double decades = log10(r->max / r->min);
    int first = (int)floor(log10(r->min)), last = (int)ceil(log10(r->max)), few = decades < 2.8, any = 0;
    int stride = few ? 1 : (int)ceil(decades / 7.0);
    emit(s, "set logscale %c 10\nset %ctics (", axis, axis);
    for (int d = first; d <= last; d++)
        for (int i = 0; i < (few ? 3 : 1); i++) {
            double v = steps[i] * pow(10.0, d);
            if (v < r->min * 0.9999 || v > r->max * 1.0001 || d % stride) continue;
            emit(s, "%s", any++ ? ", " : "");
            if (d >= -3 && d <= 4 && decades < 4.0)
                emit(s, "'%g' %.17g", v, v);
            else if (i == 0)
                emit(s, "'10^{%d}' %.17g", d, v);
            else
                emit(s, "'%g·10^{%d}' %.17g", steps[i], d, v);
        }
    emit(s, ") enhanced");
}

/* 1, 2, 2.5 or 5 times a power of ten, near v from above. */
static double round_step(double v)
{
    double p = pow(10.0, floor(log10(v))), m = v / p;
    return p * (m <= 1.0 ? 1.0 : m <= 2.0 ? 2.0 : m <= 2.5 ? 2.5 : m <= 5.0 ? 5.0 : 10.0);
}

/* `length` is that of the axis: as many numbers as fit without touching. SVG leaves more room between axis and numbers
 * than PDF; the shift makes them alike. */
static void put_axis(const canvas *g, char axis, const range *r, double length)
{
    double dx = axis == 'y' && g->format == PLOT_SVG ? 6 / g->width : 0;
    double dy = axis == 'x' && g->format == PLOT_SVG ? 13 / g->height : 0;
    double step = round_step((r->max - r->min) * (g->compact ? 50 : axis == 'x' ? 70 : 36) / length);
    emit(g->s, "set %crange [%.17g:%.17g]\n", axis, r->min, r->max);
    if (r->log)
        put_log_ticks(g->s, axis, r);
    else if (g->compact) /* no number at either end, where it would touch the neighbour's */
        emit(g->s, "unset logscale %c\nset %ctics %.9g, %.9g, %.9g", axis, axis, step * (floor(r->min / step) + 1.0),
             step, step * (ceil(r->max / step) - 1.0));
    else
        emit(g->s, "unset logscale %c\nset %ctics %.9g", axis, axis, step);
    emit(g->s, " out nomirror scale 0.5 offset screen %.9g, screen %.9g font ',%d' tc rgb '" INK "'\n", dx, dy, SMALL);
}

/* ---------------------------------------------------------------------------- data */

static void put_value(FILE *s, double v)
{
    if (isfinite(v))
        emit(s, "%.9g", v);
    else
        (void)fputs("NaN", s);
}

static void put_series_data(FILE *s, const plot_series *d, int panel, int index)
{
    int band = d->low && d->high;
    emit(s, "$s%d_%d << EOD\n", panel, index);
    for (int i = 0; i < d->n; i++) {
        if (!isfinite(d->x[i]) || !isfinite(d->y[i])) { /* a blank line is what breaks a line */
            (void)putc('\n', s);
            continue;
        }
        put_value(s, d->x[i]);
        (void)putc(' ', s);
        put_value(s, d->y[i]);
        for (int k = 0; band && k < 2; k++) {
            (void)putc(' ', s);
            put_value(s, k ? d->high[i] : d->low[i]);
        }
        for (int k = 0; band && d->x_low && d->x_high && k < 2; k++) {
            (void)putc(' ', s);
            put_value(s, k ? d->x_high[i] : d->x_low[i]);
        }
        (void)putc('\n', s);
    }
    (void)fputs("EOD\n", s);
}

static void put_lattice_data(FILE *s, const plot_lattice *l, const char *name, int panel)
{
    emit(s, "$%s%d << EOD\n", name, panel);
    for (int r = 0; r < l->ny; r++)
        for (int c = 0; c < l->nx; c++) {
            put_value(s, l->z[(size_t)r * (size_t)l->nx + (size_t)c]);
            (void)putc(c + 1 < l->nx ? ' ' : '\n', s);
        }
    (void)fputs("EOD\n", s);
}

static void lattice_range(const plot_lattice *l, range *z)
{
    *z = (range){.min = NAN, .max = NAN};
    for (size_t i = 0; i < (size_t)l->nx * (size_t)l->ny; i++) include(z, l->z[i]);
}

static void put_lattice_columns(FILE *s, const plot_lattice *l)
{
    double dx = (l->x_max - l->x_min) / (l->nx - 1), dy = (l->y_max - l->y_min) / (l->ny - 1);
    emit(s, "using (%.17g+$1*%.17g):(%.17g+$2*%.17g):3", l->x_min, dx, l->y_min, dy);
}

/* gnuplot turns the lattice into lines of equal value, kept in $lines<panel>; 0 when the lattice is flat. */
static int put_contours(FILE *s, const plot_panel *p, int panel)
{
    const plot_lattice *l = p->contour;
    range z;
    int any = 0;
    lattice_range(l, &z);
    if (!(z.min < z.max)) return 0;
    double step = round_step((z.max - z.min) / CONTOURS);
    put_lattice_data(s, l, "contour", panel);
    emit(s, "set contour base\nunset surface\nset view map\nset cntrparam levels discrete ");
    double first = step * (floor(z.min / step) + 1.0);
    for (int i = 0; i < p->contour_levels && p->contour_level; i++)
        if (isfinite(p->contour_level[i])) emit(s, "%s%.12g", any++ ? "," : "", p->contour_level[i]);
    for (int i = 0; !p->contour_level && first + i * step < z.max - 1e-9 * step; i++)
        emit(s, "%s%.12g", any++ ? "," : "", first + i * step);
    if (!any) emit(s, "%.12g", 0.5 * (z.min + z.max));
    emit(s, "\nset table $lines%d\nsplot $contour%d matrix ", panel, panel);
    put_lattice_columns(s, l);
    emit(s, " with lines notitle\nunset table\nunset contour\nset surface\n");
    return 1;
}

/* One block per step of the scale that occurs, told by used[]. A hair too large, so that no white shows between
 * neighbours. */
static void put_hexagon_data(FILE *s, const plot_hexagons *h, const plot_scale *scale, int panel, int used[PLOT_STEPS])
{
    static const double corner[6][2] = {{0.5, -0.25}, {0.5, 0.25}, {0, 0.5}, {-0.5, 0.25}, {-0.5, -0.25}, {0, -0.5}};
    const double swell = 1.03;
    for (int k = 0; k < PLOT_STEPS; k++) {
        used[k] = 0;
        for (int i = 0; i < h->n; i++) {
            if (plot_step(scale, h->value[i]) != k) continue;
            if (!used[k]++) emit(s, "$h%d_%d << EOD\n", panel, k);
            for (int c = 0; c < 6; c++)
                emit(s, "%.9g %.9g\n", h->x[i] + swell * h->width * corner[c][0],
                     h->y[i] + swell * h->height * corner[c][1]);
            (void)putc('\n', s);
        }
        if (used[k]) (void)fputs("EOD\n", s);
    }
}

/* ---------------------------------------------------------------------------- panels */

static const char *dash_type(plot_dash dash)
{
    return dash == PLOT_DASHED ? "dt (9,5)" : dash == PLOT_DOTTED ? "dt (2,4)" : "dt solid";
}

static double line_width(const plot_series *d) { return d->width > 0.0 ? d->width : d->kind == PLOT_LEVEL ? 1.5 : 2.2; }

static void put_band(FILE *s, const plot_series *d)
{
    if (d->kind != PLOT_LINE)
        emit(s, "using 1:2:%s lc rgb '#%06X' lw 1.5 dt solid pt 7 ps 0 notitle",
             d->x_low && d->x_high ? "5:6:3:4 with xyerrorbars" : "3:4 with yerrorbars", rgb(d->colour));
    else
        emit(s, "using 1:3:4 with filledcurves lc rgb '#%06X' fs transparent solid 0.2 noborder notitle",
             rgb(d->colour));
}

static double mark_size(const plot_series *d)
{
    static const double usual[] = {
        [PLOT_MARKS] = 0.7, [PLOT_POINTS] = 0.22, [PLOT_DOTS] = 0.6, [PLOT_RINGS] = 0.9, [PLOT_CROSSES] = 0.8};
    return d->width > 0.0 && d->kind != PLOT_MARKS ? d->width : usual[d->kind];
}

static int mark_type(plot_kind kind) { return kind == PLOT_RINGS ? 6 : kind == PLOT_CROSSES ? 2 : 7; }

static void put_series(FILE *s, const plot_series *d)
{
    unsigned c = rgb(d->colour);
    double w = line_width(d), step = d->n > 1 ? d->x[1] - d->x[0] : 1.0;
    switch (d->kind) {
    case PLOT_LINE: emit(s, "using 1:2 with lines lc rgb '#%06X' lw %g %s", c, w, dash_type(d->dash)); break;
    case PLOT_MARKS:
        emit(s, "using 1:2 with linespoints lc rgb '#%06X' lw %g %s pt 7 ps 0.7", c, w, dash_type(d->dash));
        break;
    case PLOT_POINTS: emit(s, "using 1:2 with points pt 7 ps %g lc rgb '#A0%06X'", mark_size(d), c); break;
    case PLOT_DOTS:
    case PLOT_RINGS:
    case PLOT_CROSSES:
        emit(s, "using 1:2 with points pt %d ps %g lw 1.8 lc rgb '#%06X'", mark_type(d->kind), mark_size(d), c);
        break;
    case PLOT_BARS:
        emit(s, "using 1:2:(%.9g) with boxes lc rgb '#%06X' lw 0.6 ", step, c);
        emit(s, "fs transparent solid 0.45 border rgb '#%06X'", c);
        break;
    case PLOT_LEVEL: emit(s, "%.17g with lines lc rgb '#%06X' lw %g %s", d->y[0], c, w, dash_type(d->dash)); break;
    }
    emit(s, " notitle");
}

static void put_heat(const canvas *g, const plot_panel *p, const box *b)
{
    static const char *const shades[] = {"0 '#FFFFFF', 1 '#E3EFF8', 2 '#BAD8EE', 3 '#84B9DF', 4 '#4390C8'",
                                         "0 '#FFFFFF', 1 '#FDF0DC', 2 '#FAD9A8', 3 '#F3B85F', 4 '#E08A16'",
                                         "0 '#FFFFFF', 1 '#E4F4EC', 2 '#B5DFCC', 3 '#74C3A2', 4 '#2B9E76'",
                                         "0 '#0D0887', 1 '#8F0DA4', 2 '#D5546E', 3 '#F7A83B'"};
    range z;
    lattice_range(p->heat, &z);
    if (!(z.min < z.max)) pad(&z, 0.0);
    if (z.min > 0.0 && z.min < 0.02 * z.max) z.min = 0.0; /* "0" at the foot of the bar, not "6e-08" */
    emit(g->s, "set palette defined (%s)\nset cbrange [%.17g:%.17g]\n", shades[p->shades], z.min, z.max);
    emit(g->s, "set colorbox vertical user origin screen %.9g, screen %.9g size screen %.9g, screen %.9g noborder\n",
         (b->right + 12) / g->width, b->bottom / g->height, 12 / g->width, (b->top - b->bottom) / g->height);
    emit(g->s, "set cbtics out nomirror scale 0.4 offset screen %.9g, 0 font ',%d' tc rgb '" INK "'\n",
         g->format == PLOT_SVG ? -4 / g->width : 0, SMALL);
    if (p->heat_label)
        put_text(g, p->heat_label, b->right + 88, 0.5 * (b->bottom + b->top), FONT, "center rotate by 90");
}

/* Numbers stand at the outer axes of compact panels; a panel with nothing below it has an outer axis. */
static void put_number_format(const canvas *g, int index, int panels)
{
    int inner_x = g->compact && index + g->columns < panels, inner_y = g->compact && index % g->columns > 0;
    emit(g->s, "set format x '%s'\nset format y '%s'\n", inner_x ? "" : "%g", inner_y ? "" : "%g");
}

static void put_words(const canvas *g, const plot_panel *p)
{
    for (int i = 0; i < p->texts; i++) {
        const plot_text *t = &p->text[i];
        if (!t->text || !isfinite(t->x) || !isfinite(t->y)) continue;
        emit(g->s, "set label ");
        put_quoted(g->s, t->text);
        emit(g->s, " at first %.9g, first %.9g center boxed font ',%d' noenhanced front tc rgb '#%06X'\n", t->x, t->y,
             SMALL - 2, rgb(t->colour));
    }
}

static void put_frame(const canvas *g, const plot_panel *p, int index, int panels, box *b)
{
    range x, y;
    find_ranges(p, &x, &y);
    *b = panel_box(g, p, index, &x, &y);
    emit(g->s, "unset label\nunset arrow\nunset object\nunset key\n");
    emit(g->s, "set lmargin at screen %.9g\nset rmargin at screen %.9g\n", b->left / g->width, b->right / g->width);
    emit(g->s, "set bmargin at screen %.9g\nset tmargin at screen %.9g\n", b->bottom / g->height, b->top / g->height);
    put_number_format(g, index, panels);
    put_axis(g, 'x', &x, b->right - b->left);
    put_axis(g, 'y', &y, b->top - b->bottom);
    int closed = p->heat || g->compact;
    emit(g->s, "set border %d lc rgb '#888888'\nunset grid\n", closed ? 15 : 3);
    if (!closed) emit(g->s, "set grid back lt 1 lc rgb '#E4E4E4' lw 1 dt solid\n");
    double x_mid = 0.5 * (b->left + b->right), y_mid = 0.5 * (b->bottom + b->top);
    if (p->title) put_text(g, p->title, x_mid, b->top + 18, FONT, "center");
    if (p->x_label) put_text(g, p->x_label, x_mid, b->bottom - 44, FONT, "center");
    if (p->y_label) put_text(g, p->y_label, b->left - (g->compact ? 54 : 70), y_mid, FONT, "center rotate by 90");
    if (p->heat) put_heat(g, p, b);
    put_words(g, p);
}

/* What put_data made for a panel. */
typedef struct {
    int contours, step[PLOT_STEPS];
} drawn;

/* Below everything else the map, then bands, then lines: what is drawn later covers what is drawn before. */
static void put_plot(FILE *s, const plot_panel *p, int index, const plot_scale *scale, const drawn *made)
{
    const char *comma = "";
    emit(s, "plot ");
    if (p->heat) {
        emit(s, "$heat%d matrix ", index);
        put_lattice_columns(s, p->heat);
        emit(s, " with image notitle");
        comma = ", \\\n  ";
    }
    for (int k = 0; k < PLOT_STEPS; k++) {
        if (!made->step[k]) continue;
        emit(s, "%s$h%d_%d using 1:2 with filledcurves closed fc rgb '#%06X' fs solid noborder notitle", comma, index,
             k, rgb(plot_shade(scale, k)));
        comma = ", \\\n  ";
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n; i++) {
            const plot_series *d = &p->series[i];
            if (pass == 0 && !(d->low && d->high && d->n > 0)) continue;
            if (pass == 1 && (d->kind == PLOT_LEVEL ? !isfinite(d->y[0]) : d->n == 0)) continue;
            emit(s, "%s", comma);
            comma = ", \\\n  ";
            if (d->kind != PLOT_LEVEL) emit(s, "$s%d_%d ", index, i);
            if (pass == 0)
                put_band(s, d);
            else
                put_series(s, d);
        }
    if (made->contours)
        emit(s, "%s$lines%d using 1:2 with lines lc rgb '#%06X' lw %g dt solid notitle", comma, index,
             rgb(p->contour_colour), contour_width(p));
    emit(s, *comma || made->contours ? "\n" : "NaN notitle\n");
}

/* ---------------------------------------------------------------------------- the legend */

static void put_sample(const canvas *g, const plot_series *d, double x, double y)
{
    unsigned c = rgb(d->colour);
    double x0 = x / g->width, x1 = (x + LEGEND_SAMPLE) / g->width, h = 7 / g->height, ys = y / g->height;
    int bars = d->kind == PLOT_BARS, band = d->kind == PLOT_LINE && d->low && d->high;
    if (bars || band) {
        emit(g->s, "set object rectangle from screen %.9g, screen %.9g to screen %.9g, screen %.9g ", x0, ys - h, x1,
             ys + h);
        emit(g->s, "front fc rgb '#%06X' fs transparent solid %g noborder\n", c, bars ? 0.45 : 0.2);
    }
    if (!bars && (d->kind == PLOT_MARKS || !has_mark(d->kind))) {
        emit(g->s, "set arrow from screen %.9g, screen %.9g to screen %.9g, screen %.9g ", x0, ys, x1, ys);
        emit(g->s, "nohead front lc rgb '#%06X' lw %g %s\n", c, line_width(d), dash_type(d->dash));
    }
    if (has_mark(d->kind))
        emit(g->s, "set label '' at screen %.9g, screen %.9g point pt %d ps %g lw 1.8 lc rgb '#%06X' front\n",
             0.5 * (x0 + x1), ys, mark_type(d->kind), d->kind == PLOT_POINTS ? 0.5 : mark_size(d), c);
}

static void put_legend(const canvas *g, const legend *l)
{
    double y = g->legend_height - 0.5 * LEGEND_LINE;
    for (int i = 0; i < l->n; y -= LEGEND_LINE) {
        int n = line_entries(l, i, g->legend_width);
        double width = -LEGEND_GAP;
        for (int k = 0; k < n; k++) width += entry_width(&l->entry[i + k]);
        double x = 0.5 * (g->width - width);
        for (int k = 0; k < n; k++, i++) {
            put_sample(g, &l->entry[i].style, x, y);
            put_text(g, l->entry[i].label, x + LEGEND_SAMPLE + 8, y, FONT, "left");
            x += entry_width(&l->entry[i]);
        }
    }
}

/* ---------------------------------------------------------------------------- the bar of the figure's scale */

static void put_scale_number(const canvas *g, const plot_scale *c, double v, const box *b)
{
    double t = c->log ? log(v / c->min) / log(c->max / c->min) : (v - c->min) / (c->max - c->min);
    char number[32];
    (void)snprintf(number, sizeof number, "%.6g", v);
    if (t >= -1e-9 && t <= 1.0 + 1e-9)
        put_text(g, number, b->right + 6, b->bottom + t * (b->top - b->bottom), SMALL, "left");
}

static void put_scale_numbers(const canvas *g, const plot_scale *c, const box *b)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    int few = c->log && c->max / c->min < 1000.0;
    double step = round_step((c->max - c->min) * 40 / (b->top - b->bottom)), first = step * ceil(c->min / step - 1e-9);
    for (int d = c->log ? (int)floor(log10(c->min)) : 0; c->log && pow(10.0, d) <= c->max; d++)
        for (int i = 0; i < (few ? 3 : 1); i++) put_scale_number(g, c, steps[i] * pow(10.0, d), b);
    for (int i = 0; !c->log && first + i * step <= c->max * (1.0 + 1e-9); i++)
        put_scale_number(g, c, first + i * step, b);
}

static void put_scale(const canvas *g, const plot_scale *c)
{
    double middle = g->legend_height + g->outer.bottom + 0.5 * g->rows * g->panel_height;
    middle += 0.5 * (g->margin.bottom - g->margin.top);
    double height = fmin(SCALE_HEIGHT, g->rows * g->panel_height - g->margin.bottom - g->margin.top);
    box b = {.left = g->width - SCALE_ROOM + 14, .bottom = middle - 0.5 * height, .top = middle + 0.5 * height};
    b.right = b.left + SCALE_BAR;
    for (int k = 0; k < PLOT_STEPS; k++) {
        double low = b.bottom + k * height / PLOT_STEPS, high = b.bottom + (k + 1) * height / PLOT_STEPS;
        emit(g->s, "set object rectangle from screen %.9g, screen %.9g to screen %.9g, screen %.9g ", b.left / g->width,
             low / g->height, b.right / g->width, high / g->height);
        emit(g->s, "front fc rgb '#%06X' fs solid noborder\n", rgb(plot_shade(c, k)));
    }
    put_scale_numbers(g, c, &b);
    if (c->label) put_text(g, c->label, g->width - 14, middle, FONT, "center rotate by 90");
}

/* ---------------------------------------------------------------------------- the script */

/* A pixel is 1/96 inch. The PDF terminal draws a font of size n at 2n/3 points, so the same sizes suit both. */
static void put_terminal(const canvas *g)
{
    if (g->format == PLOT_SVG)
        emit(g->s,
             "set terminal svg size %.0f,%.0f fixed enhanced font 'sans-serif,%d' background rgb 'white' rounded\n",
             g->width, g->height, FONT);
    else
        emit(g->s, "set terminal pdfcairo size %.3fin,%.3fin enhanced font 'sans,%d' linewidth 1 rounded\n",
             g->width / 96.0, g->height / 96.0, FONT);
    emit(g->s, "set encoding utf8\nset datafile missing 'NaN'\nset pointintervalbox 0\n"
               "set minussign\nset clip two\nset errorbars small\n"
               "set style textbox opaque noborder fillcolor rgb 'white' margins 0.6, 0.4\n");
}

static void put_data(FILE *s, const plot_figure *f, drawn made[PANELS])
{
    for (int i = 0; i < f->panels; i++) {
        const plot_panel *p = &f->panel[i];
        for (int j = 0; j < p->n; j++)
            if (p->series[j].kind != PLOT_LEVEL && p->series[j].n > 0) put_series_data(s, &p->series[j], i, j);
        if (p->heat) put_lattice_data(s, p->heat, "heat", i);
        made[i] = (drawn){.contours = p->contour ? put_contours(s, p, i) : 0};
        if (p->hexagons) put_hexagon_data(s, p->hexagons, f->scale, i, made[i].step);
    }
}

/* Title, legend and scale belong to the whole figure; they ride on the last panel. */
static void put_figure(const canvas *g, const plot_figure *f, const legend *l)
{
    drawn made[PANELS];
    put_terminal(g);
    put_data(g->s, f, made);
    emit(g->s, "set multiplot\n");
    for (int i = 0; i < f->panels; i++) {
        box b;
        put_frame(g, &f->panel[i], i, f->panels, &b);
        if (i + 1 == f->panels) put_legend(g, l);
        if (i + 1 == f->panels && f->scale) put_scale(g, f->scale);
        if (i + 1 == f->panels && f->title) put_text(g, f->title, 0.5 * g->width, g->height - 22, LARGE, "center");
        put_plot(g->s, &f->panel[i], i, f->scale, &made[i]);
    }
    emit(g->s, "unset multiplot\nunset output\n");
}

static int odd_lattice(const plot_lattice *l)
{
    if (!l) return 0;
    if (l->nx < 2 || l->ny < 2 || l->nx > 2000 || l->ny > 2000 || !l->z) return 1;
    return !(l->x_min < l->x_max) || !(l->y_min < l->y_max);
}

static int check_figure(const plot_figure *f, char *error, size_t room)
{
    if (!f->name || !*f->name || strchr(f->name, '/'))
        return files_fail(error, room, "a figure needs a name without slashes");
    if (f->panels < 1 || f->panels > PANELS)
        return files_fail(error, room, "figure %s has %d panels; 1 to %d can be drawn", f->name, f->panels, PANELS);
    const plot_scale *c = f->scale;
    if (c && (!(c->min < c->max) || (c->log && !(c->min > 0.0)) || !isfinite(c->max - c->min)))
        return files_fail(error, room, "figure %s has a colour scale from %g to %g; it has to grow%s", f->name, c->min,
                          c->max, c->log ? " from above 0" : "");
    for (int i = 0; i < f->panels; i++)
        if (f->panel[i].hexagons && !c) return files_fail(error, room, "figure %s has hexagons but no scale", f->name);
    for (int i = 0; i < f->panels; i++)
        if (odd_lattice(f->panel[i].heat) || odd_lattice(f->panel[i].contour))
            return files_fail(error, room, "figure %s has a lattice without extent or values", f->name);
    return 0;
}

/* ---------------------------------------------------------------------------- the child */

typedef struct {
    pid_t pid; /* 0: not running */
    FILE *in, *out, *err;
} child;

static void child_clean(child *c)
{
    if (c->in) (void)fclose(c->in);
    if (c->out) (void)fclose(c->out);
    if (c->err) (void)fclose(c->err);
    *c = (child){0};
}

static int spawn_gnuplot(child *c, char *const argv[])
{
    posix_spawn_file_actions_t a;
    int failed = posix_spawn_file_actions_init(&a);
    if (failed) return failed;
    failed = posix_spawn_file_actions_adddup2(&a, fileno(c->in), 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&a, fileno(c->out), 1);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&a, fileno(c->err), 2);
    if (!failed) failed = posix_spawnp(&c->pid, "gnuplot", &a, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&a);
    return failed;
}

/* Files without names, so that nothing is left behind whatever happens. */
static int child_open(child *c)
{
    *c = (child){.in = tmpfile(), .out = tmpfile(), .err = tmpfile()};
    if (c->in && c->out && c->err) return 0;
    int number = errno;
    child_clean(c);
    return number ? number : EIO;
}

static int child_start(child *c)
{
    static char name[] = "gnuplot", plain[] = "-d"; /* -d: the user's own settings must not change our figures */
    char *argv[] = {name, plain, NULL};
    if (fflush(c->in) || lseek(fileno(c->in), 0, SEEK_SET) != 0) return errno;
    return spawn_gnuplot(c, argv);
}

static int child_wait(child *c)
{
    int status = 0;
    pid_t got;
    do got = waitpid(c->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    c->pid = 0;
    return got > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int plot_available(void)
{
    static char name[] = "gnuplot", version[] = "--version";
    char *argv[] = {name, version, NULL};
    child c;
    if (child_open(&c)) return 0;
    int there = !spawn_gnuplot(&c, argv) && child_wait(&c) == 0;
    child_clean(&c);
    return there;
}

/* ---------------------------------------------------------------------------- smaller SVG */

/* Tenths of a pixel in the shortest form SVG reads; a space goes before what would run into the number ahead. */
static char *put_short(char *out, long v, int first)
{
    char text[32];
    long a = labs(v), part = a % 10;
    int n = a >= 10 || part == 0 ? snprintf(text, sizeof text, "%ld", a / 10) : 0;
    if (part) n += snprintf(text + n, sizeof text - (size_t)n, ".%ld", part);
    if (v < 0 || !first) *out++ = v < 0 ? '-' : ' ';
    memcpy(out, text, (size_t)n);
    return out + n;
}

/* The corners of <polygon fill = 'rgb( 67, 144, 200)' points = '89.36,210.60 ...'/> in tenths, the line behind it in
 * *next; 0 when it is anything else, or has so many corners that it might not become shorter. */
enum { CORNERS = 8, PAINT = 3 };
#define POLYGON "<polygon fill = 'rgb("
static int read_polygon(char *line, unsigned long paint[PAINT], long at[CORNERS][2], char **next)
{
    static const char points[] = ")' points = '";
    int n = 0;
    line += strspn(line, "\t ");
    if (strncmp(line, POLYGON, strlen(POLYGON)) != 0) return 0;
    line += strlen(POLYGON);
    for (int k = 0; k < PAINT; k++) {
        paint[k] = strtoul(line, &line, 10);
        if (paint[k] > 255) return 0;
        if (k + 1 < PAINT && *line++ != ',') return 0;
    }
    if (strncmp(line, points, strlen(points)) != 0) return 0;
    for (line += strlen(points); *line != '\''; n++) {
        if (n == CORNERS) return 0;
        for (int k = 0; k < 2; k++) {
            at[n][k] = lround(10.0 * strtod(line, &line));
            if (*line++ != (k ? ' ' : ',')) return 0;
        }
    }
    if (strncmp(line, "'/>\n", 4) != 0) return 0;
    *next = line + 4;
    return n;
}

static char *put_polygon(char *out, long at[CORNERS][2], int n)
{
    for (int i = 0; i < n; i++) {
        if (i < 2) *out++ = "Ml"[i];
        for (int k = 0; k < 2; k++) out = put_short(out, at[i][k] - (i ? at[i - 1][k] : 0), i < 2 && k == 0);
    }
    *out++ = 'z';
    return out;
}

/* gnuplot spends a line on every hexagon; neighbours of one colour become a single path with relative corners. The text
 * only shrinks, so it is done in place. */
static void merge_polygons(char *svg, size_t *size)
{
    char *in = svg, *out = svg, *next = NULL, head[64];
    unsigned long last[PAINT] = {0}, paint[PAINT] = {0};
    long at[CORNERS][2];
    int open = 0;
    while (*in) {
        int n = read_polygon(in, paint, at, &next);
        if (open && (n == 0 || memcmp(paint, last, sizeof last) != 0)) {
            out = stpcpy(out, "'/>\n");
            open = 0;
        }
        if (n == 0) { /* any other line stays */
            size_t length = strcspn(in, "\n");
            length += in[length] == '\n';
            memmove(out, in, length);
            out += length;
            in += length;
            continue;
        }
        (void)snprintf(head, sizeof head, "<path fill='#%02lX%02lX%02lX' d='", paint[0], paint[1], paint[2]);
        if (!open) out = stpcpy(out, head);
        out = put_polygon(out, at, n);
        memcpy(last, paint, sizeof last);
        open = 1;
        in = next;
    }
    *out = 0;
    *size = (size_t)(out - svg);
}

/* ---------------------------------------------------------------------------- one picture */

static int start_picture(child *c, const plot_figure *f, plot_format format, char *error, size_t room)
{
    *c = (child){0};
    if (check_figure(f, error, room)) return -1;
    legend *l = malloc(sizeof *l);
    if (!l) return files_fail(error, room, "no memory to draw figure %s", f->name);
    collect_legend(f, l);
    int failed = child_open(c);
    if (!failed) {
        canvas g = make_canvas(f, l, format, c->in);
        put_figure(&g, f, l);
        failed = ferror(c->in) ? EIO : child_start(c);
    }
    free(l);
    if (!failed) return 0;
    child_clean(c);
    if (failed == ENOENT) return files_fail(error, room, "%s", PLOT_ADVICE);
    return files_fail(error, room, "cannot run gnuplot for figure %s: %s", f->name, strerror(failed));
}

static char *whole_stream(FILE *f, size_t *size)
{
    struct stat st;
    if (fstat(fileno(f), &st) || fseek(f, 0, SEEK_SET)) return NULL;
    *size = (size_t)st.st_size;
    char *bytes = malloc(*size + 1);
    if (bytes && fread(bytes, 1, *size, f) != *size) {
        free(bytes);
        return NULL;
    }
    if (bytes) bytes[*size] = 0;
    return bytes;
}

/* gnuplot's complaint without its empty lines and its picture of the script. */
static int gnuplot_said(const plot_figure *f, child *c, char *error, size_t room)
{
    size_t n = 0;
    char *text = whole_stream(c->err, &n), *last = text;
    for (char *p = text; p && *p; p++) {
        if (*p != '\n') continue;
        *p = 0;
        if (p[1] && p[1] != '\n') last = p + 1;
    }
    (void)files_fail(error, room, "gnuplot failed on figure %s: %.300s", f->name,
                     last && *last ? last : "it gives no reason");
    free(text);
    return -1;
}

static int finish_picture(child *c, const plot_figure *f, plot_format format, char **bytes, size_t *size, char *error,
                          size_t room)
{
    int code = child_wait(c), status = 0;
    struct stat st;
    *bytes = NULL;
    *size = 0;
    if (code || fstat(fileno(c->out), &st) || st.st_size == 0) {
        status = gnuplot_said(f, c, error, room);
    } else {
        *bytes = whole_stream(c->out, size);
        if (*bytes && format == PLOT_SVG) merge_polygons(*bytes, size);
        if (!*bytes) status = files_fail(error, room, "cannot read what gnuplot drew for figure %s", f->name);
    }
    child_clean(c);
    return status;
}

int plot_render(const plot_figure *figure, plot_format format, char **bytes, size_t *size, char *error, size_t room)
{
    child c;
    *bytes = NULL;
    *size = 0;
    if (start_picture(&c, figure, format, error, room)) return -1;
    return finish_picture(&c, figure, format, bytes, size, error, room);
}

/* ---------------------------------------------------------------------------- many figures */

static int write_picture(const plot_figure *f, const char *dir, const char *ending, const char *bytes, size_t size,
                         char *error, size_t room)
{
    char name[512], path[FILES_PATH];
    (void)snprintf(name, sizeof name, "%.500s.%s", f->name, ending);
    if (files_join(path, dir, name, error, room)) return -1;
    return files_write(path, bytes, size, error, room);
}

/* Both formats of a figure are drawn side by side. */
static int write_figure(const plot_figure *f, const char *dir, char **svg, char *error, size_t room)
{
    static const char *const endings[PLOT_FORMATS] = {"svg", "pdf"};
    child c[PLOT_FORMATS] = {{0}};
    int status = 0;
    for (int k = 0; k < PLOT_FORMATS && !status; k++) status = start_picture(&c[k], f, (plot_format)k, error, room);
    for (int k = 0; k < PLOT_FORMATS; k++) {
        char *bytes = NULL;
        size_t size = 0;
        if (c[k].pid == 0) continue;
        if (status) { /* the other one failed: its sentence stays */
            (void)child_wait(&c[k]);
            child_clean(&c[k]);
            continue;
        }
        status = finish_picture(&c[k], f, (plot_format)k, &bytes, &size, error, room);
        if (!status) status = write_picture(f, dir, endings[k], bytes, size, error, room);
        if (!status && k == PLOT_SVG && svg)
            *svg = bytes;
        else
            free(bytes);
    }
    return status;
}

int plot_write(const plot_figure *figure, int n, const char *dir, char **svg, char *error, size_t room)
{
    int status = files_directory(dir, error, room);
    for (int i = 0; svg && i < n; i++) svg[i] = NULL;
    for (int i = 0; i < n && !status; i++) status = write_figure(&figure[i], dir, svg ? &svg[i] : NULL, error, room);
    for (int i = 0; svg && status && i < n; i++) {
        free(svg[i]);
        svg[i] = NULL;
    }
    return status;
}
