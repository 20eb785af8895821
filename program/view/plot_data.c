/* plot_data.c: the data of a figure as blocks of gnuplot's language, one per series, lattice and step of the scale, named
 * after panel and place: $s0_1, $heat0, $lines0, $h0_7. Invariant: what is not finite never reaches gnuplot as a number. */
#include <math.h>

#include "plot_inside.h"

enum { CONTOURS = 8 }; /* about so many lines of equal value where none are asked for */

static void put_value(FILE *s, double v)
{
    if (isfinite(v))
        plot_emit(s, "%.9g", v);
    else
        (void)fputs("NaN", s);
}

static void put_series_data(FILE *s, const plot_series *d, int panel, int index)
{
    int band = d->low && d->high;
    plot_emit(s, "$s%d_%d << EOD\n", panel, index);
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
    plot_emit(s, "$%s%d << EOD\n", name, panel);
    for (int r = 0; r < l->ny; r++)
        for (int c = 0; c < l->nx; c++) {
            put_value(s, l->z[(size_t)r * (size_t)l->nx + (size_t)c]);
            (void)putc(c + 1 < l->nx ? ' ' : '\n', s);
        }
    (void)fputs("EOD\n", s);
}

void plot_put_lattice_columns(FILE *s, const plot_lattice *l)
{
    double dx = (l->x_max - l->x_min) / (l->nx - 1), dy = (l->y_max - l->y_min) / (l->ny - 1);
    plot_emit(s, "using (%.17g+$1*%.17g):(%.17g+$2*%.17g):3", l->x_min, dx, l->y_min, dy);
}

/* gnuplot turns the lattice into lines of equal value, kept in $lines<panel>; 0 when the lattice is flat. */
static int put_contours(FILE *s, const plot_panel *p, int panel)
{
    const plot_lattice *l = p->contour;
    range z;
    int any = 0;
    plot_lattice_range(l, &z);
    if (!(z.min < z.max)) return 0;
    double step = plot_round_step((z.max - z.min) / CONTOURS);
    put_lattice_data(s, l, "contour", panel);
    plot_emit(s, "set contour base\nunset surface\nset view map\nset cntrparam levels discrete ");
    double first = step * (floor(z.min / step) + 1.0);
    for (int i = 0; i < p->contour_levels && p->contour_level; i++)
        if (isfinite(p->contour_level[i])) plot_emit(s, "%s%.12g", any++ ? "," : "", p->contour_level[i]);
    for (int i = 0; !p->contour_level && first + i * step < z.max - 1e-9 * step; i++)
        plot_emit(s, "%s%.12g", any++ ? "," : "", first + i * step);
    if (!any) plot_emit(s, "%.12g", 0.5 * (z.min + z.max));
    plot_emit(s, "\nset table $lines%d\nsplot $contour%d matrix ", panel, panel);
    plot_put_lattice_columns(s, l);
    plot_emit(s, " with lines notitle\nunset table\nunset contour\nset surface\n");
    return 1;
}

/* Writes one block for each step of the scale that occurs and sets used[] for it. Hexagons are drawn slightly too large, so
 * that no white line shows between neighbours. */
static void put_hexagon_data(FILE *s, const plot_hexagons *h, const plot_scale *scale, int panel, int used[PLOT_STEPS])
{
    static const double corner[6][2] = {{0.5, -0.25}, {0.5, 0.25}, {0, 0.5}, {-0.5, 0.25}, {-0.5, -0.25}, {0, -0.5}};
    const double swell = 1.03;
    for (int k = 0; k < PLOT_STEPS; k++) {
        used[k] = 0;
        for (int i = 0; i < h->n; i++) {
            if (plot_step(scale, h->value[i]) != k) continue;
            if (!used[k]++) plot_emit(s, "$h%d_%d << EOD\n", panel, k);
            for (int c = 0; c < 6; c++)
                plot_emit(s, "%.9g %.9g\n", h->x[i] + swell * h->width * corner[c][0],
                          h->y[i] + swell * h->height * corner[c][1]);
            (void)putc('\n', s);
        }
        if (used[k]) (void)fputs("EOD\n", s);
    }
}

void plot_put_data(FILE *s, const plot_figure *f, drawn made[PANELS])
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
