/* ebm2d_figures_plane.c: the figures of the 2-D experiment that show points of the plane: models with their data, densities as
 * hexagonal histograms, and paths of chains.
 *
 * What is drawn is bounded, never what is given: clouds become bin counts or at most CLOUD points, lattices at most NODES
 * nodes along a side, paths at most PATH points. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "ebm2d_figures_inside.h"

enum { CLOUD = 500, PATH = 800, NODES = 160 };

#define BOX 6.0 /* half the side of what is shown */

static plot_series edge_series(arena *p)
{
    plot_series s = {.colour = RED, .dash = PLOT_DASHED, .width = 1.4};
    double *v = arena_doubles(p, 4);
    if (!v) return s;
    v[0] = -BOX;
    v[1] = BOX;
    s.n = 2;
    s.x = v;
    s.y = v + 2;
    s.label = "edge of the rewarded half-plane (y = 0)";
    return s;
}

/* Evenly chosen among the points of a cloud. */
static plot_series cloud_series(arena *p, const ebm2d_cloud *c, plot_series style)
{
    style.n = 0;
    int n = c->n < CLOUD ? c->n : CLOUD;
    double *x = arena_doubles(p, n), *y = arena_doubles(p, n);
    if (!x || !y) return style;
    for (int i = 0; i < n; i++) {
        size_t from = (size_t)c->n * (size_t)i / (size_t)n;
        x[i] = c->x[from];
        y[i] = c->y[from];
    }
    style.n = n;
    style.x = x;
    style.y = y;
    return style;
}

/* ---------------------------------------------------------------------------- models */

/* The density whose upper level set holds each of the shares of the mass on the lattice. */
static void mass_levels(const double *z, int n, const double *share, int levels, double *out, double *sorted)
{
    double total = 0.0, sum = 0.0;
    int k = 0;
    memcpy(sorted, z, (size_t)n * sizeof *z);
    qsort(sorted, (size_t)n, sizeof *sorted, experiment_ascending);
    for (int i = n - 1; i >= 0; i--) total += sorted[i];
    for (int i = n - 1; i >= 0 && k < levels; i--) {
        sum += sorted[i];
        while (k < levels && sum >= share[k] * total) out[k++] = sorted[i];
    }
    while (k < levels) out[k++] = NAN;
}

/* Every so many nodes, so that contours are short; values that are not finite count as no density. */
static const plot_lattice *coarse(arena *p, const plot_lattice *l)
{
    int stride_x = (l->nx + NODES - 1) / NODES, stride_y = (l->ny + NODES - 1) / NODES;
    int nx = (l->nx - 1) / stride_x + 1, ny = (l->ny - 1) / stride_y + 1;
    plot_lattice *out = arena_take(p, 1, sizeof *out);
    double *z = arena_doubles(p, nx * ny);
    if (!out || !z) return NULL;
    for (int r = 0; r < ny; r++)
        for (int c = 0; c < nx; c++) {
            double v = l->z[(size_t)(r * stride_y) * (size_t)l->nx + (size_t)(c * stride_x)];
            z[(size_t)r * (size_t)nx + (size_t)c] = isfinite(v) ? v : 0.0;
        }
    *out = *l;
    out->nx = nx;
    out->ny = ny;
    out->z = z;
    out->x_max = l->x_min + (l->x_max - l->x_min) * ((nx - 1) * stride_x) / (l->nx - 1);
    out->y_max = l->y_min + (l->y_max - l->y_min) * ((ny - 1) * stride_y) / (l->ny - 1);
    return out;
}

static void model_panel(arena *p, const ebm2d_models *f, int m, plot_panel *panel, plot_series *s)
{
    enum { LEVELS = 3 };
    static const double share[LEVELS] = {0.5, 0.9, 0.99};
    const plot_lattice *l = &f->density[m], *map = l->nx > 1 && l->ny > 1 ? coarse(p, l) : NULL;
    int nodes = map ? map->nx * map->ny : 0;
    double *level = arena_doubles(p, LEVELS), *sorted = arena_doubles(p, nodes);
    *panel = (plot_panel){.title = f->model[m], .equal = 1, .series = s, .n = 2};
    s[0] = cloud_series(p, &f->data[m], (plot_series){.kind = PLOT_POINTS, .label = "data", .colour = PLOT_BLACK});
    s[1] = cloud_series(p, &f->samples[m], (plot_series){.kind = PLOT_POINTS, .label = "model samples", .colour = RED});
    if (!map || !level || !sorted) return;
    mass_levels(map->z, nodes, share, LEVELS, level, sorted);
    panel->contour = map;
    panel->contour_label = "around 50, 90 and 99 % of the model's mass";
    panel->contour_colour = PLOT_BLUE;
    panel->contour_level = level;
    panel->contour_levels = LEVELS;
    panel->contour_width = 1.0;
}

plot_figure ebm2d_draw_models(arena *p, const ebm2d_models *f, const char *name)
{
    plot_panel *panel = arena_take(p, f->models, sizeof *panel);
    plot_series *s = arena_take(p, 2 * f->models, sizeof *s);
    double half = 0.0; /* of a box around all lattices */
    for (int m = 0; m < f->models; m++) {
        half = fmax(half, fmax(fabs(f->density[m].x_min), fabs(f->density[m].x_max)));
        half = fmax(half, fmax(fabs(f->density[m].y_min), fabs(f->density[m].y_max)));
    }
    for (int m = 0; m < f->models && panel && s; m++) {
        model_panel(p, f, m, &panel[m], s + (size_t)m * 2);
        panel[m].x_min = panel[m].y_min = -half;
        panel[m].x_max = panel[m].y_max = half;
    }
    plot_figure figure = {.name = name, .panel = panel, .panels = f->models, .compact = 1};
    figure.width = figure.height = 320;
    return figure;
}

/* ---------------------------------------------------------------------------- hexagons */

/* Distances are those of a plane in which a lattice cell is 1 wide and sqrt(3) high. */
int ebm2d_bin(double x, double y, double half_side)
{
    if (!(fabs(x) <= half_side && fabs(y) <= half_side)) return -1;
    double u = (x + half_side) / (2.0 * half_side) * EBM2D_ACROSS, v = (y + half_side) / (2.0 * half_side) * EBM2D_UP;
    int c1 = (int)lround(u), r1 = (int)lround(v), c2 = (int)floor(u), r2 = (int)floor(v);
    double near1 = (u - c1) * (u - c1) + 3.0 * (v - r1) * (v - r1);
    double near2 = (u - c2 - 0.5) * (u - c2 - 0.5) + 3.0 * (v - r2 - 0.5) * (v - r2 - 0.5);
    if (near1 < near2 || c2 == EBM2D_ACROSS || r2 == EBM2D_UP) return r1 * (EBM2D_ACROSS + 1) + c1;
    return (EBM2D_ACROSS + 1) * (EBM2D_UP + 1) + r2 * EBM2D_ACROSS + c2;
}

void ebm2d_bin_centre(int bin, double half_side, double *x, double *y)
{
    int first = (EBM2D_ACROSS + 1) * (EBM2D_UP + 1), second = bin >= first, wide = EBM2D_ACROSS + !second;
    int index = second ? bin - first : bin, column = index % wide, row = index / wide;
    double shift = second ? 0.5 : 0.0;
    *x = half_side * (2.0 * (column + shift) / EBM2D_ACROSS - 1.0);
    *y = half_side * (2.0 * (row + shift) / EBM2D_UP - 1.0);
}

int ebm2d_count(const ebm2d_cloud *cloud, double half_side, int count[EBM2D_BINS])
{
    int inside = 0;
    memset(count, 0, EBM2D_BINS * sizeof *count);
    for (int i = 0; i < cloud->n; i++) {
        int bin = ebm2d_bin(cloud->x[i], cloud->y[i], half_side);
        if (bin < 0) continue;
        count[bin]++;
        inside++;
    }
    return inside;
}

/* From how often each count occurs: the value at a fractional place in the sorted list, interpolated. */
static double percentile(const int *often, int largest, int total, double share)
{
    double place = share * (total - 1);
    int below = (int)floor(place), passed = 0, low = 0, high = 0;
    for (int v = 1; v <= largest; v++) {
        if (passed <= below && below < passed + often[v]) low = v;
        if (passed <= below + 1 && below + 1 < passed + often[v]) high = v;
        passed += often[v];
    }
    return high > low ? low + (place - below) * (high - low) : low;
}

plot_scale ebm2d_count_scale(const int *count, int n)
{
    plot_scale s = {.min = 1.0, .max = 2.0, .log = 1, .shades = PLOT_BLUES, .label = "particles per hexagon"};
    int largest = 0, total = 0;
    for (int i = 0; i < n; i++) {
        largest = count[i] > largest ? count[i] : largest;
        total += count[i] > 0;
    }
    int *often = calloc((size_t)largest + 1, sizeof *often);
    for (int i = 0; i < n && often; i++) often[count[i]]++;
    if (often && total > 0) {
        s.min = fmax(1.0, percentile(often, largest, total, 0.05));
        s.max = fmax(s.min + 1.0, percentile(often, largest, total, 0.995));
    }
    free(often);
    return s;
}

static const plot_hexagons *hexagons_of(arena *p, const int *count)
{
    plot_hexagons *h = arena_take(p, 1, sizeof *h);
    double *x = arena_doubles(p, EBM2D_BINS), *y = arena_doubles(p, EBM2D_BINS), *v = arena_doubles(p, EBM2D_BINS);
    if (!h || !x || !y || !v) return NULL;
    for (int bin = 0; bin < EBM2D_BINS; bin++) {
        if (count[bin] == 0) continue;
        ebm2d_bin_centre(bin, BOX, &x[h->n], &y[h->n]);
        v[h->n++] = count[bin];
    }
    h->x = x;
    h->y = y;
    h->value = v;
    h->width = 2.0 * BOX / EBM2D_ACROSS;
    h->height = 2.0 / 3.0 * 2.0 * BOX / EBM2D_UP;
    return h;
}

plot_figure ebm2d_draw_densities(arena *p, const ebm2d_densities *f, const char *name)
{
    int panels = f->rows * f->columns;
    plot_panel *panel = arena_take(p, panels, sizeof *panel);
    int *count = arena_take(p, panels, EBM2D_BINS * sizeof *count);
    plot_series *edge = arena_take(p, 1, sizeof *edge);
    plot_scale *scale = arena_take(p, 1, sizeof *scale);
    for (int i = 0; i < panels && panel && count && edge; i++) {
        int r = i / f->columns, c = i % f->columns, *mine = count + (size_t)i * EBM2D_BINS;
        *edge = edge_series(p);
        (void)ebm2d_count(&f->cloud[i], BOX, mine);
        panel[i] = (plot_panel){.x_min = -BOX, .x_max = BOX, .y_min = -BOX, .y_max = BOX, .series = edge, .n = 1};
        panel[i].equal = 1;
        panel[i].hexagons = hexagons_of(p, mine);
        if (r == 0) panel[i].title = arena_words(p, "%s %.6g", f->quantity, f->column[c]);
        if (c == 0) panel[i].y_label = f->row[r];
    }
    if (count && scale) *scale = ebm2d_count_scale(count, panels * EBM2D_BINS);
    double size = f->columns > 6 ? 140 : 190;
    plot_figure figure = {.name = name, .panel = panel, .panels = panels, .columns = f->columns};
    figure.width = figure.height = size;
    figure.compact = 1;
    figure.scale = scale;
    return figure;
}

/* ---------------------------------------------------------------------------- chains */

/* All stretches whose steps have one colour: from each chain its points of that colour and the one that follows. */
static plot_series stretch(arena *p, const ebm2d_chains *f, int m, const plot_scale *scale, int colour)
{
    int stride = f->n > PATH ? (f->n + PATH - 1) / PATH : 1, points = (f->n + stride - 1) / stride;
    plot_series s = {.colour = plot_shade(scale, colour), .width = 0.7};
    double *x = arena_doubles(p, f->chains * (points + 2)), *y = arena_doubles(p, f->chains * (points + 2));
    if (!x || !y) return s;
    for (int c = 0; c < f->chains; c++) {
        size_t base = (size_t)c * (size_t)f->n;
        int inside = 0;
        for (int i = 0; i < f->n; i += stride) {
            int mine = plot_step(scale, f->step[i]) == colour;
            if (!mine && !inside) continue;
            x[s.n] = f->x[m][base + (size_t)i];
            y[s.n++] = f->y[m][base + (size_t)i];
            inside = mine;
            if (!mine) break;
        }
        x[s.n] = y[s.n] = NAN;
        s.n++;
    }
    s.x = x;
    s.y = y;
    return s;
}

static plot_series ends(arena *p, const ebm2d_chains *f, int m, int last)
{
    plot_series s = {.kind = last ? PLOT_CROSSES : PLOT_DOTS, .label = last ? "end" : "start", .colour = PLOT_BLACK};
    double *x = arena_doubles(p, f->chains), *y = arena_doubles(p, f->chains);
    if (!x || !y || f->n < 1) return s;
    for (int c = 0; c < f->chains; c++) {
        size_t at = (size_t)c * (size_t)f->n + (last ? (size_t)f->n - 1 : 0);
        x[c] = f->x[m][at];
        y[c] = f->y[m][at];
    }
    s.n = f->chains;
    s.x = x;
    s.y = y;
    return s;
}

plot_figure ebm2d_draw_chains(arena *p, const ebm2d_chains *f, const char *name)
{
    plot_scale *scale = arena_take(p, 1, sizeof *scale);
    if (!scale) return (plot_figure){.name = name};
    *scale = (plot_scale){.max = f->n > 1 ? f->step[f->n - 1] : 1.0, .shades = PLOT_PLASMA, .label = "step"};
    if (f->n > 1) scale->min = f->step[0];
    plot_panel *panel = arena_take(p, f->methods, sizeof *panel);
    for (int m = 0; m < f->methods && panel; m++) {
        plot_series *s = arena_take(p, PLOT_STEPS + 3, sizeof *s);
        panel[m] = (plot_panel){.title = f->method[m], .equal = 1, .series = s, .x_min = -BOX, .x_max = BOX};
        panel[m].y_min = -BOX;
        panel[m].y_max = BOX;
        if (!s) break;
        for (int k = 0; k < PLOT_STEPS; k++) s[panel[m].n++] = stretch(p, f, m, scale, k);
        s[panel[m].n++] = edge_series(p);
        for (int last = 0; last < 2; last++) s[panel[m].n++] = ends(p, f, m, last);
    }
    plot_figure figure = {.name = name, .panel = panel, .panels = f->methods};
    figure.width = figure.height = 400;
    figure.compact = 1;
    figure.scale = scale;
    return figure;
}
