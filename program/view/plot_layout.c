/* plot_layout.c: where things stand: in the data's units the range of either axis of a panel; in pixels the place of every
 * panel, and the legend below them, set like text, line by line.
 *
 *     +---------------- title ----------------+
 *     | panel 0            | panel 1          |
 *     |   LEFT [inner] RIGHT                  |
 *     +---------------- legend ---------------+
 *
 * The layout is ours and not gnuplot's, so that nothing overlaps whatever the data. Invariant: a range has min < max, above
 * 0 on a logarithmic axis, unless the panel itself asks for another. */
#include <math.h>
#include <string.h>

#include "plot_inside.h"

enum {
    LEFT = 96, /* of a panel, for numbers and label of the axis */
    RIGHT = 24,
    RIGHT_HEAT = 104, /* with a colour bar */
    TOP = 14,
    TOP_TITLE = 38,
    BOTTOM = 60,
    FIGURE_TITLE = 42,
    GAP = 5, /* around a compact panel; what stands outside of all of them: */
    COMPACT_LEFT = 74,
    COMPACT_RIGHT = 14,
    COMPACT_TOP = 30,
    COMPACT_BOTTOM = 32
};

/* ---------------------------------------------------------------------------- ranges and steps */

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

/* Widens the range a little around the curves; an empty range becomes one of positive length. */
void plot_pad(range *r, double share)
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

int plot_has_mark(plot_kind kind)
{
    return kind == PLOT_POINTS || kind == PLOT_MARKS || kind == PLOT_DOTS || kind == PLOT_RINGS || kind == PLOT_CROSSES;
}

void plot_find_ranges(const plot_panel *p, range *x, range *y)
{
    *x = (range){.min = NAN, .max = NAN, .log = p->log_x};
    *y = (range){.min = NAN, .max = NAN, .log = p->log_y};
    for (int i = 0; i < p->n; i++) include_series(&p->series[i], x, y);
    for (int i = 0; p->hexagons && i < p->hexagons->n; i++) {
        include(x, p->hexagons->x[i]);
        include(y, p->hexagons->y[i]);
    }
    int bars = p->n > 0 && p->series[0].kind == PLOT_BARS && !p->log_y && y->min == 0.0;
    int dots = p->hexagons || (p->n > 0 && plot_has_mark(p->series[0].kind));
    plot_pad(x, dots ? 0.04 : 0.0);
    plot_pad(y, 0.05);
    if (bars) y->min = 0.0;
    const plot_lattice *below = p->heat ? p->heat : p->contour;
    if (below) {
        *x = (range){below->x_min, below->x_max, 0};
        *y = (range){below->y_min, below->y_max, 0};
    }
    if (p->x_min < p->x_max) *x = (range){p->x_min, p->x_max, p->log_x};
    if (p->y_min < p->y_max) *y = (range){p->y_min, p->y_max, p->log_y};
}

void plot_lattice_range(const plot_lattice *l, range *z)
{
    *z = (range){.min = NAN, .max = NAN};
    for (size_t i = 0; i < (size_t)l->nx * (size_t)l->ny; i++) include(z, l->z[i]);
}

/* 1, 2, 2.5 or 5 times a power of ten, near v from above. */
double plot_round_step(double v)
{
    double p = pow(10.0, floor(log10(v))), m = v / p;
    return p * (m <= 1.0 ? 1.0 : m <= 2.0 ? 2.0 : m <= 2.5 ? 2.5 : m <= 5.0 ? 5.0 : 10.0);
}

/* ---------------------------------------------------------------------------- the legend */

/* Width in pixels, estimated with the widest of the usual fonts; narrower fonts leave more space. */
double plot_text_width(const char *text, double font)
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

static void legend_add(legend *l, const char *label, const plot_series *style)
{
    if (!label || !*label || l->n == LEGEND_MAX) return;
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->entry[i].label, label)) return;
    l->entry[l->n++] = (legend_entry){label, *style};
}

double plot_contour_width(const plot_panel *p) { return p->contour_width > 0.0 ? p->contour_width : 1.6; }

void plot_collect_legend(const plot_figure *f, legend *l)
{
    l->n = 0;
    for (int i = 0; i < f->panels; i++) {
        const plot_panel *p = &f->panel[i];
        plot_series line = {.colour = p->contour_colour, .width = plot_contour_width(p)};
        for (int j = 0; j < p->n; j++) legend_add(l, p->series[j].label, &p->series[j]);
        if (p->contour) legend_add(l, p->contour_label, &line);
    }
}

double plot_legend_entry_width(const legend_entry *e)
{
    return LEGEND_SAMPLE + 8 + plot_text_width(e->label, FONT) + LEGEND_GAP;
}

/* How many entries from `first` on fit into one line. */
int plot_legend_line(const legend *l, int first, double width)
{
    double used = 0.0;
    int n = 0;
    for (; first + n < l->n; n++) {
        used += plot_legend_entry_width(&l->entry[first + n]);
        if (n > 0 && used > width - LEGEND_GAP) break;
    }
    return n;
}

static int legend_lines(const legend *l, double width)
{
    int lines = 0;
    for (int i = 0; i < l->n; i += plot_legend_line(l, i, width)) lines++;
    return lines;
}

/* The narrowest column that needs no more lines, so that lines have even lengths and the last is not a single entry. */
static double legend_width(const legend *l, double width)
{
    int lines = legend_lines(l, width);
    while (width > 100 && legend_lines(l, width - 10) == lines) width -= 10;
    return width;
}

/* ---------------------------------------------------------------------------- panels */

canvas plot_make_canvas(const plot_figure *f, const legend *l, plot_format format, FILE *s)
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
box plot_panel_box(const canvas *g, const plot_panel *p, int index, const range *x, const range *y)
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
