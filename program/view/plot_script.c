/* plot_script.c: the script that draws a figure: terminal, frames and axes, curves, legend and the bar of the scale.
 * Labels enter it in single quotes, where gnuplot interprets nothing; on logarithmic axes the ticks are ours. */
#include <math.h>
#include <stdarg.h>

#include "files/words.h"
#include "plot_inside.h"

enum { SCALE_BAR = 14, SCALE_HEIGHT = 260 };
#define INK "#222222"

/* ---------------------------------------------------------------------------- words on the canvas */

void plot_emit(FILE *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vfprintf(s, format, list);
    va_end(list);
}

/* In single quotes only the quote itself is special. A control character would end the line of the script, or turn the words of the figure
 * round; bytes that are not UTF-8 would make the SVG invalid. */
static void put_quoted(FILE *s, const char *text)
{
    (void)putc('\'', s);
    for (int n = 0; text && *text; text += n) {
        unsigned code;
        n = words_next(text, &code);
        if (*text == '\'')
            (void)fputs("''", s);
        else if (n == 1 && code < 0x80 && words_control(code))
            (void)putc(' ', s);
        else if (words_control(code))
            (void)fputs("\xEF\xBF\xBD", s);
        else
            (void)fwrite(text, 1, (size_t)n, s);
    }
    (void)putc('\'', s);
}

static void put_text(const canvas *g, const char *text, double x, double y, int font, const char *how)
{
    plot_emit(g->s, "set label ");
    put_quoted(g->s, text);
    plot_emit(g->s, " at screen %.9g, screen %.9g %s font ',%d' noenhanced front tc rgb '" INK "'\n", x / g->width,
              y / g->height, how, font);
}

/* Powers of ten, and over short ranges their doubles and quintuples too: gnuplot alone may label a single tick. */
static void put_log_ticks(FILE *s, char axis, const range *r)
{
    static const double steps[] = {1.0, 2.0, 5.0};
    double decades = log10(r->max / r->min);
    int first = (int)floor(log10(r->min)), last = (int)ceil(log10(r->max)), few = decades < 2.8, any = 0;
    int stride = few ? 1 : (int)ceil(decades / 7.0);
    plot_emit(s, "set logscale %c 10\nset %ctics (", axis, axis);
    for (int d = first; d <= last; d++)
        for (int i = 0; i < (few ? 3 : 1); i++) {
            double v = steps[i] * pow(10.0, d);
            if (v < r->min * 0.9999 || v > r->max * 1.0001 || d % stride) continue;
            plot_emit(s, "%s", any++ ? ", " : "");
            if (d >= -3 && d <= 4 && decades < 4.0)
                plot_emit(s, "'%g' %.17g", v, v);
            else if (i == 0)
                plot_emit(s, "'10^{%d}' %.17g", d, v);
            else
                plot_emit(s, "'%g·10^{%d}' %.17g", steps[i], d, v);
        }
    plot_emit(s, ") enhanced");
}

/* `length` is that of the axis: as many numbers as fit without touching. SVG leaves more room between axis and numbers
 * than PDF; the shift makes them alike. */
static void put_axis(const canvas *g, char axis, const range *r, double length)
{
    double dx = axis == 'y' && g->format == PLOT_SVG ? 6 / g->width : 0;
    double dy = axis == 'x' && g->format == PLOT_SVG ? 13 / g->height : 0;
    double step = plot_round_step((r->max - r->min) * (g->compact ? 50 : axis == 'x' ? 70 : 36) / length);
    plot_emit(g->s, "set %crange [%.17g:%.17g]\n", axis, r->min, r->max);
    if (r->log)
        put_log_ticks(g->s, axis, r);
    else if (g->compact) /* no number at either end, where it would touch the neighbour's */
        plot_emit(g->s, "unset logscale %c\nset %ctics %.9g, %.9g, %.9g", axis, axis,
                  step * (floor(r->min / step) + 1.0), step, step * (ceil(r->max / step) - 1.0));
    else
        plot_emit(g->s, "unset logscale %c\nset %ctics %.9g", axis, axis, step);
    plot_emit(g->s, " out nomirror scale 0.5 offset screen %.9g, screen %.9g font ',%d' tc rgb '" INK "'\n", dx, dy,
              SMALL);
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
        plot_emit(s, "using 1:2:%s lc rgb '#%06X' lw 1.5 dt solid pt 7 ps 0 notitle",
                  d->x_low && d->x_high ? "5:6:3:4 with xyerrorbars" : "3:4 with yerrorbars", plot_rgb(d->colour));
    else
        plot_emit(s, "using 1:3:4 with filledcurves lc rgb '#%06X' fs transparent solid 0.2 noborder notitle",
                  plot_rgb(d->colour));
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
    unsigned c = plot_rgb(d->colour);
    double w = line_width(d), step = d->n > 1 ? d->x[1] - d->x[0] : 1.0;
    switch (d->kind) {
    case PLOT_LINE: plot_emit(s, "using 1:2 with lines lc rgb '#%06X' lw %g %s", c, w, dash_type(d->dash)); break;
    case PLOT_MARKS:
        plot_emit(s, "using 1:2 with linespoints lc rgb '#%06X' lw %g %s pt 7 ps 0.7", c, w, dash_type(d->dash));
        break;
    case PLOT_POINTS: plot_emit(s, "using 1:2 with points pt 7 ps %g lc rgb '#A0%06X'", mark_size(d), c); break;
    case PLOT_DOTS:
    case PLOT_RINGS:
    case PLOT_CROSSES:
        plot_emit(s, "using 1:2 with points pt %d ps %g lw 1.8 lc rgb '#%06X'", mark_type(d->kind), mark_size(d), c);
        break;
    case PLOT_BARS:
        plot_emit(s, "using 1:2:(%.9g) with boxes lc rgb '#%06X' lw 0.6 ", step, c);
        plot_emit(s, "fs transparent solid 0.45 border rgb '#%06X'", c);
        break;
    case PLOT_LEVEL: plot_emit(s, "%.17g with lines lc rgb '#%06X' lw %g %s", d->y[0], c, w, dash_type(d->dash)); break;
    }
    plot_emit(s, " notitle");
}

static void put_heat(const canvas *g, const plot_panel *p, const box *b)
{
    static const char *const shades[] = {"0 '#FFFFFF', 1 '#E3EFF8', 2 '#BAD8EE', 3 '#84B9DF', 4 '#4390C8'",
                                         "0 '#FFFFFF', 1 '#FDF0DC', 2 '#FAD9A8', 3 '#F3B85F', 4 '#E08A16'",
                                         "0 '#FFFFFF', 1 '#E4F4EC', 2 '#B5DFCC', 3 '#74C3A2', 4 '#2B9E76'",
                                         "0 '#0D0887', 1 '#8F0DA4', 2 '#D5546E', 3 '#F7A83B'"};
    range z;
    plot_lattice_range(p->heat, &z);
    if (!(z.min < z.max)) plot_pad(&z, 0.0);
    if (z.min > 0.0 && z.min < 0.02 * z.max) z.min = 0.0; /* "0" at the foot of the bar, not "6e-08" */
    plot_emit(g->s, "set palette defined (%s)\nset cbrange [%.17g:%.17g]\n", shades[p->shades], z.min, z.max);
    plot_emit(g->s,
              "set colorbox vertical user origin screen %.9g, screen %.9g size screen %.9g, screen %.9g noborder\n",
              (b->right + 12) / g->width, b->bottom / g->height, 12 / g->width, (b->top - b->bottom) / g->height);
    plot_emit(g->s, "set cbtics out nomirror scale 0.4 offset screen %.9g, 0 font ',%d' tc rgb '" INK "'\n",
              g->format == PLOT_SVG ? -4 / g->width : 0, SMALL);
    if (p->heat_label)
        put_text(g, p->heat_label, b->right + 88, 0.5 * (b->bottom + b->top), FONT, "center rotate by 90");
}

/* Numbers stand at the outer axes of compact panels; a panel with nothing below it has an outer axis. */
static void put_number_format(const canvas *g, int index, int panels)
{
    int inner_x = g->compact && index + g->columns < panels, inner_y = g->compact && index % g->columns > 0;
    plot_emit(g->s, "set format x '%s'\nset format y '%s'\n", inner_x ? "" : "%g", inner_y ? "" : "%g");
}

static void put_words(const canvas *g, const plot_panel *p)
{
    for (int i = 0; i < p->texts; i++) {
        const plot_text *t = &p->text[i];
        if (!t->text || !isfinite(t->x) || !isfinite(t->y)) continue;
        plot_emit(g->s, "set label ");
        put_quoted(g->s, t->text);
        plot_emit(g->s, " at first %.9g, first %.9g center boxed font ',%d' noenhanced front tc rgb '#%06X'\n", t->x,
                  t->y, SMALL - 2, plot_rgb(t->colour));
    }
}

/* A word stands to the right of its line; neighbours that would touch stand on different heights. */
static void put_rules(const canvas *g, const plot_panel *p, const range *x, const box *b)
{
    double pixel = (x->max - x->min) / (b->right - b->left), free[2] = {-INFINITY, -INFINITY};
    for (int i = 0; i < p->rules; i++) {
        const plot_rule *r = &p->rule[i];
        if (!(r->x >= x->min && r->x <= x->max)) continue;
        int up = r->x < free[0] && r->x >= free[1];
        double width = plot_text_width(r->text, SMALL - 2) * pixel, at = fmin(r->x + 3 * pixel, x->max - width);
        free[up] = at + width + 4 * pixel;
        plot_emit(g->s, "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead back ", r->x, r->x);
        plot_emit(g->s, "lc rgb '#999999' lw 1.2 dt (2,4)\nset label ");
        put_quoted(g->s, r->text);
        plot_emit(g->s, " at first %.9g, screen %.9g left font ',%d' noenhanced front tc rgb '#666666'\n", at,
                  (b->top + (up ? 22 : 9)) / g->height, SMALL - 2);
    }
}

static void put_frame(const canvas *g, const plot_panel *p, int index, int panels, box *b)
{
    range x, y;
    plot_find_ranges(p, &x, &y);
    *b = plot_panel_box(g, p, index, &x, &y);
    plot_emit(g->s, "unset label\nunset arrow\nunset object\nunset key\n");
    plot_emit(g->s, "set lmargin at screen %.9g\nset rmargin at screen %.9g\n", b->left / g->width,
              b->right / g->width);
    plot_emit(g->s, "set bmargin at screen %.9g\nset tmargin at screen %.9g\n", b->bottom / g->height,
              b->top / g->height);
    put_number_format(g, index, panels);
    put_axis(g, 'x', &x, b->right - b->left);
    put_axis(g, 'y', &y, b->top - b->bottom);
    int closed = p->heat || g->compact;
    plot_emit(g->s, "set border %d lc rgb '#888888'\nunset grid\n", closed ? 15 : 3);
    if (!closed) plot_emit(g->s, "set grid back lt 1 lc rgb '#E4E4E4' lw 1 dt solid\n");
    double x_mid = 0.5 * (b->left + b->right), y_mid = 0.5 * (b->bottom + b->top);
    if (p->title) put_text(g, p->title, x_mid, b->top + 18, FONT, "center");
    if (p->x_label) put_text(g, p->x_label, x_mid, b->bottom - 44, FONT, "center");
    if (p->y_label) put_text(g, p->y_label, b->left - (g->compact ? 54 : 70), y_mid, FONT, "center rotate by 90");
    if (p->heat) put_heat(g, p, b);
    put_words(g, p);
    put_rules(g, p, &x, b);
}

/* Below everything else the map, then bands, then lines: what is drawn later covers what is drawn before. */
static void put_plot(FILE *s, const plot_panel *p, int index, const plot_scale *scale, const drawn *made)
{
    const char *comma = "";
    plot_emit(s, "plot ");
    if (p->heat) {
        plot_emit(s, "$heat%d matrix ", index);
        plot_put_lattice_columns(s, p->heat);
        plot_emit(s, " with image notitle");
        comma = ", \\\n  ";
    }
    for (int k = 0; k < PLOT_STEPS; k++) {
        if (!made->step[k]) continue;
        plot_emit(s, "%s$h%d_%d using 1:2 with filledcurves closed fc rgb '#%06X' fs solid noborder notitle", comma,
                  index, k, plot_rgb(plot_shade(scale, k)));
        comma = ", \\\n  ";
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n; i++) {
            const plot_series *d = &p->series[i];
            if (pass == 0 && !(d->low && d->high && d->n > 0)) continue;
            if (pass == 1 && (d->kind == PLOT_LEVEL ? !isfinite(d->y[0]) : d->n == 0)) continue;
            plot_emit(s, "%s", comma);
            comma = ", \\\n  ";
            if (d->kind != PLOT_LEVEL) plot_emit(s, "$s%d_%d ", index, i);
            if (pass == 0)
                put_band(s, d);
            else
                put_series(s, d);
        }
    if (made->contours)
        plot_emit(s, "%s$lines%d using 1:2 with lines lc rgb '#%06X' lw %g dt solid notitle", comma, index,
                  plot_rgb(p->contour_colour), plot_contour_width(p));
    plot_emit(s, *comma || made->contours ? "\n" : "NaN notitle\n");
}

/* ---------------------------------------------------------------------------- the legend */

static void put_sample(const canvas *g, const plot_series *d, double x, double y)
{
    unsigned c = plot_rgb(d->colour);
    double x0 = x / g->width, x1 = (x + LEGEND_SAMPLE) / g->width, h = 7 / g->height, ys = y / g->height;
    int bars = d->kind == PLOT_BARS, band = d->kind == PLOT_LINE && d->low && d->high;
    if (bars || band) {
        plot_emit(g->s, "set object rectangle from screen %.9g, screen %.9g to screen %.9g, screen %.9g ", x0, ys - h,
                  x1, ys + h);
        plot_emit(g->s, "front fc rgb '#%06X' fs transparent solid %g noborder\n", c, bars ? 0.45 : 0.2);
    }
    if (!bars && (d->kind == PLOT_MARKS || !plot_has_mark(d->kind))) {
        plot_emit(g->s, "set arrow from screen %.9g, screen %.9g to screen %.9g, screen %.9g ", x0, ys, x1, ys);
        plot_emit(g->s, "nohead front lc rgb '#%06X' lw %g %s\n", c, line_width(d), dash_type(d->dash));
    }
    if (plot_has_mark(d->kind))
        plot_emit(g->s, "set label '' at screen %.9g, screen %.9g point pt %d ps %g lw 1.8 lc rgb '#%06X' front\n",
                  0.5 * (x0 + x1), ys, mark_type(d->kind), d->kind == PLOT_POINTS ? 0.5 : mark_size(d), c);
}

static void put_legend(const canvas *g, const legend *l)
{
    double y = g->legend_height - 0.5 * LEGEND_LINE;
    for (int i = 0; i < l->n; y -= LEGEND_LINE) {
        int n = plot_legend_line(l, i, g->legend_width);
        double width = -LEGEND_GAP;
        for (int k = 0; k < n; k++) width += plot_legend_entry_width(&l->entry[i + k]);
        double x = 0.5 * (g->width - width);
        for (int k = 0; k < n; k++, i++) {
            put_sample(g, &l->entry[i].style, x, y);
            put_text(g, l->entry[i].label, x + LEGEND_SAMPLE + 8, y, FONT, "left");
            x += plot_legend_entry_width(&l->entry[i]);
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
    double step = plot_round_step((c->max - c->min) * 40 / (b->top - b->bottom)),
           first = step * ceil(c->min / step - 1e-9);
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
        plot_emit(g->s, "set object rectangle from screen %.9g, screen %.9g to screen %.9g, screen %.9g ",
                  b.left / g->width, low / g->height, b.right / g->width, high / g->height);
        plot_emit(g->s, "front fc rgb '#%06X' fs solid noborder\n", plot_rgb(plot_shade(c, k)));
    }
    put_scale_numbers(g, c, &b);
    if (c->label) put_text(g, c->label, g->width - 14, middle, FONT, "center rotate by 90");
}

/* ---------------------------------------------------------------------------- the script */

/* A pixel is 1/96 inch. The PDF terminal draws a font of size n at 2n/3 points, so the same sizes suit both. */
static void put_terminal(const canvas *g)
{
    if (g->format == PLOT_SVG)
        plot_emit(
            g->s,
            "set terminal svg size %.0f,%.0f fixed enhanced font 'sans-serif,%d' background rgb 'white' rounded\n",
            g->width, g->height, FONT);
    else
        plot_emit(g->s, "set terminal pdfcairo size %.3fin,%.3fin enhanced font 'sans,%d' linewidth 1 rounded\n",
                  g->width / 96.0, g->height / 96.0, FONT);
    plot_emit(g->s, "set encoding utf8\nset datafile missing 'NaN'\nset pointintervalbox 0\n"
                    "set minussign\nset clip two\nset errorbars small\n"
                    "set style textbox opaque noborder fillcolor rgb 'white' margins 0.6, 0.4\n");
}

/* Title, legend and scale belong to the whole figure; they are drawn together with the last panel. */
void plot_put_figure(const canvas *g, const plot_figure *f, const legend *l)
{
    drawn made[PANELS];
    put_terminal(g);
    plot_put_data(g->s, f, made);
    plot_emit(g->s, "set multiplot\n");
    for (int i = 0; i < f->panels; i++) {
        box b;
        put_frame(g, &f->panel[i], i, f->panels, &b);
        if (i + 1 == f->panels) put_legend(g, l);
        if (i + 1 == f->panels && f->scale) put_scale(g, f->scale);
        if (i + 1 == f->panels && f->title) put_text(g, f->title, 0.5 * g->width, g->height - 22, LARGE, "center");
        put_plot(g->s, &f->panel[i], i, f->scale, &made[i]);
    }
    plot_emit(g->s, "unset multiplot\nunset output\n");
}
