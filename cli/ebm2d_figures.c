/* ebm2d_figures.c: turns arrays of the 2-D experiment into panels and series, and hands them to plot.c.
 *
 * What is drawn is bounded, never what is given: clouds become bin counts or at most CLOUD points, curves at most CURVE
 * values that keep the extremes, paths at most PATH points. All memory of a figure hangs on one pool, freed at the end
 * whatever happened; a function that gets none leaves an empty series, and the pool remembers. */
#include "ebm2d_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "pool.h"

enum { CLOUD = 500, CURVE = 500, PATH = 800, NODES = 160, STAIRS = 400, BLOCKS = 100 };
#define RED PLOT_RGB(0xE4003A) /* for what stands out; no method has it */
#define FAINT PLOT_RGB(0xB8B8B8)

/* ---------------------------------------------------------------------------- common parts */

/* Draws unless memory was short, and frees the pool either way. */
static int finish(pool *p, const plot_figure *f, const char *dir, char **svg, char *error, size_t room)
{
    int status = p->failed ? files_fail(error, room, "no memory to draw figure %s", f->name)
                           : plot_write(f, 1, dir, svg, error, room);
    pool_free(p);
    return status;
}

/* The two methods look the same in all figures; others take what is left. */
static int colour_of(const char *name, int place)
{
    static const int others[] = {PLOT_BLUE, PLOT_GREEN, PLOT_ORANGE, PLOT_PURPLE, PLOT_SKY, PLOT_GREY};
    if (!strcmp(name, "ImpDiff")) return PLOT_BLACK;
    if (!strcmp(name, "SOSMC-ULA")) return PLOT_VERMILION;
    return others[place % (int)(sizeof others / sizeof *others)];
}

/* Mean and 1.96 standard errors over the seeds, at each of n places; a NaN is left out. */
static void summarise(const double *v, int n, int seeds, double *mean, double *low, double *high)
{
    for (int i = 0; i < n; i++) {
        double sum = 0.0, square = 0.0;
        int known = 0;
        for (int s = 0; s < seeds; s++) {
            double value = v[(size_t)s * (size_t)n + (size_t)i];
            if (!isfinite(value)) continue;
            sum += value;
            known++;
        }
        mean[i] = known ? sum / known : NAN;
        for (int s = 0; s < seeds; s++) {
            double value = v[(size_t)s * (size_t)n + (size_t)i];
            if (isfinite(value)) square += (value - mean[i]) * (value - mean[i]);
        }
        double half = known > 1 ? 1.96 * sqrt(square / (known - 1) / known) : 0.0;
        low[i] = mean[i] - half;
        high[i] = mean[i] + half;
    }
}

/* Keeps at most CURVE places: plot_thin chooses among the indices, all arrays follow. */
static int thin(pool *p, double *x, double *mean, double *low, double *high, int n)
{
    double *index = pool_doubles(p, n), *value = pool_doubles(p, n);
    if (n <= CURVE || !index || !value) return n;
    for (int i = 0; i < n; i++) index[i] = i;
    int kept = plot_thin(index, mean, n, CURVE, index, value);
    for (int i = 0; i < kept; i++) {
        int from = (int)index[i];
        x[i] = x[from];
        mean[i] = mean[from];
        low[i] = low[from];
        high[i] = high[from];
    }
    return kept;
}

/* The style with the curve's values; without values when there are none. */
static plot_series curve_series(pool *p, const ebm2d_curve *c, plot_series style)
{
    style.n = 0;
    if (!c || c->n <= 0 || c->seeds <= 0) return style;
    double *x = pool_doubles(p, c->n), *mean = pool_doubles(p, c->n), *low = pool_doubles(p, c->n),
           *high = pool_doubles(p, c->n);
    if (!x || !mean || !low || !high) return style;
    memcpy(x, c->x, (size_t)c->n * sizeof *x);
    summarise(c->y, c->n, c->seeds, mean, low, high);
    style.n = thin(p, x, mean, low, high, c->n);
    style.x = x;
    style.y = mean;
    style.low = c->seeds > 1 ? low : NULL;
    style.high = c->seeds > 1 ? high : NULL;
    return style;
}

/* Curves that are not there must not leave a sample in the legend. */
static void add_curve(pool *p, plot_panel *panel, plot_series *room, const ebm2d_curve *c, plot_series style)
{
    plot_series s = curve_series(p, c, style);
    if (s.n > 0) room[panel->n++] = s;
}

static plot_series edge_series(pool *p, ebm2d_edge edge, double half_side)
{
    plot_series s = {.colour = RED, .dash = PLOT_DASHED, .width = 1.4};
    double *v = pool_doubles(p, 4);
    if (!v || edge == EBM2D_NO_EDGE) return s;
    v[0] = -half_side;
    v[1] = half_side;
    s.n = 2;
    s.x = edge == EBM2D_HORIZONTAL ? v : v + 2;
    s.y = edge == EBM2D_HORIZONTAL ? v + 2 : v;
    s.label = edge == EBM2D_HORIZONTAL ? "edge of the rewarded half-plane (y = 0)"
                                       : "edge of the rewarded half-plane (x = 0)";
    return s;
}

/* Evenly chosen among the points of a cloud. */
static plot_series cloud_series(pool *p, const ebm2d_cloud *c, plot_series style)
{
    style.n = 0;
    int n = c->n < CLOUD ? c->n : CLOUD;
    double *x = pool_doubles(p, n), *y = pool_doubles(p, n);
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

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The density whose upper level set holds each of the shares of the mass on the lattice. */
static void mass_levels(const double *z, int n, const double *share, int levels, double *out, double *sorted)
{
    double total = 0.0, sum = 0.0;
    int k = 0;
    memcpy(sorted, z, (size_t)n * sizeof *z);
    qsort(sorted, (size_t)n, sizeof *sorted, larger_first);
    for (int i = 0; i < n; i++) total += sorted[i];
    for (int i = 0; i < n && k < levels; i++) {
        sum += sorted[i];
        while (k < levels && sum >= share[k] * total) out[k++] = sorted[i];
    }
    while (k < levels) out[k++] = NAN;
}

/* Every so many nodes, so that contours are short; values that are not finite count as no density. */
static const plot_lattice *coarse(pool *p, const plot_lattice *l)
{
    int stride_x = (l->nx + NODES - 1) / NODES, stride_y = (l->ny + NODES - 1) / NODES;
    int nx = (l->nx - 1) / stride_x + 1, ny = (l->ny - 1) / stride_y + 1;
    plot_lattice *out = pool_take(p, 1, sizeof *out);
    double *z = pool_doubles(p, nx * ny);
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

static void model_panel(pool *p, const ebm2d_models *f, int m, plot_panel *panel, plot_series *s)
{
    enum { LEVELS = 3 };
    static const double share[LEVELS] = {0.5, 0.9, 0.99};
    const plot_lattice *l = &f->density[m], *map = l->nx > 1 && l->ny > 1 ? coarse(p, l) : NULL;
    int nodes = map ? map->nx * map->ny : 0;
    double *level = pool_doubles(p, LEVELS), *sorted = pool_doubles(p, nodes);
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

int ebm2d_draw_models(const ebm2d_models *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    pool p = {0};
    plot_panel *panel = pool_take(&p, f->models, sizeof *panel);
    plot_series *s = pool_take(&p, 2 * f->models, sizeof *s);
    double half = 0.0; /* of a box around all lattices */
    for (int m = 0; m < f->models; m++) {
        half = fmax(half, fmax(fabs(f->density[m].x_min), fabs(f->density[m].x_max)));
        half = fmax(half, fmax(fabs(f->density[m].y_min), fabs(f->density[m].y_max)));
    }
    for (int m = 0; m < f->models && panel && s; m++) {
        model_panel(&p, f, m, &panel[m], s + (size_t)m * 2);
        panel[m].x_min = panel[m].y_min = -half;
        panel[m].x_max = panel[m].y_max = half;
    }
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = f->models, .compact = 1};
    figure.width = figure.height = 320;
    return finish(&p, &figure, dir, svg, error, room);
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

static const plot_hexagons *hexagons_of(pool *p, const int *count, double half_side)
{
    plot_hexagons *h = pool_take(p, 1, sizeof *h);
    double *x = pool_doubles(p, EBM2D_BINS), *y = pool_doubles(p, EBM2D_BINS), *v = pool_doubles(p, EBM2D_BINS);
    if (!h || !x || !y || !v) return NULL;
    for (int bin = 0; bin < EBM2D_BINS; bin++) {
        if (count[bin] == 0) continue;
        ebm2d_bin_centre(bin, half_side, &x[h->n], &y[h->n]);
        v[h->n++] = count[bin];
    }
    h->x = x;
    h->y = y;
    h->value = v;
    h->width = 2.0 * half_side / EBM2D_ACROSS;
    h->height = 2.0 / 3.0 * 2.0 * half_side / EBM2D_UP;
    return h;
}

int ebm2d_draw_densities(const ebm2d_densities *f, const char *dir, const char *name, char **svg, char *error,
                         size_t room)
{
    pool p = {0};
    int panels = f->rows * f->columns;
    double half = f->half_side > 0.0 ? f->half_side : 6.0;
    plot_panel *panel = pool_take(&p, panels, sizeof *panel);
    int *count = pool_take(&p, panels, EBM2D_BINS * sizeof *count);
    plot_series *edge = pool_take(&p, 1, sizeof *edge);
    plot_scale scale = {.min = 1.0, .max = 2.0};
    for (int i = 0; i < panels && panel && count && edge; i++) {
        int r = i / f->columns, c = i % f->columns, *mine = count + (size_t)i * EBM2D_BINS;
        *edge = edge_series(&p, f->edge, half);
        (void)ebm2d_count(&f->cloud[i], half, mine);
        panel[i] = (plot_panel){.x_min = -half, .x_max = half, .y_min = -half, .y_max = half, .series = edge, .n = 1};
        panel[i].equal = 1;
        panel[i].hexagons = hexagons_of(&p, mine, half);
        if (r == 0) panel[i].title = pool_words(&p, "%s %.6g", f->quantity, f->column[c]);
        if (c == 0) panel[i].y_label = f->row[r];
    }
    if (count) scale = ebm2d_count_scale(count, panels * EBM2D_BINS);
    double size = f->columns > 6 ? 140 : 190;
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = panels, .columns = f->columns};
    figure.width = figure.height = size;
    figure.compact = 1;
    figure.scale = &scale;
    return finish(&p, &figure, dir, svg, error, room);
}

/* ---------------------------------------------------------------------------- reward and KL */

typedef struct {
    double x0, x1, y0, y1;
} frame;

static void widen(frame *b, double x, double y)
{
    if (!isfinite(x) || !isfinite(y)) return;
    b->x0 = fmin(b->x0, x); /* fmin and fmax leave a NaN out: it stands for an empty frame */
    b->x1 = fmax(b->x1, x);
    b->y0 = fmin(b->y0, y);
    b->y1 = fmax(b->y1, y);
}

static plot_series path_series(pool *p, const ebm2d_path *path, plot_series style)
{
    double *v[6];
    style.n = 0;
    for (int k = 0; k < 6; k++)
        if (!(v[k] = pool_doubles(p, path->n))) return style;
    if (path->n <= 0 || path->seeds <= 0) return style;
    summarise(path->reward, path->n, path->seeds, v[0], v[1], v[2]);
    summarise(path->kl, path->n, path->seeds, v[3], v[4], v[5]);
    style.n = path->n;
    style.x = v[0];
    style.y = v[3];
    if (path->seeds == 1) return style;
    style.x_low = v[1];
    style.x_high = v[2];
    style.low = v[4];
    style.high = v[5];
    return style;
}

static int best_point(const plot_series *s, double beta)
{
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        double j = s->x[i] - beta * s->y[i];
        if (isfinite(j) && (best < 0 || j > s->x[best] - beta * s->y[best])) best = i;
    }
    return best;
}

/* The line reward - beta KL = level inside the frame, from below to above; 0 when it misses the frame. */
static int level_line(const frame *b, double beta, double level, double x[2], double y[2])
{
    y[0] = beta > 0.0 ? fmax(b->y0, (b->x0 - level) / beta) : b->y0;
    y[1] = beta > 0.0 ? fmin(b->y1, (b->x1 - level) / beta) : b->y1;
    for (int k = 0; k < 2; k++) x[k] = level + beta * y[k];
    return y[0] < y[1] && x[0] >= b->x0 - 1e-9 && x[1] <= b->x1 + 1e-9;
}

/* The round step that gives the number of lines nearest to ten. */
static double level_step(double low, double high)
{
    static const double round[] = {1.0, 2.0, 2.5, 5.0};
    double wish = (high - low) / 10.0, power = pow(10.0, floor(log10(wish)) - 1.0), best = wish;
    double off = INFINITY;
    for (int i = 0; i < 12; i++) {
        if (i > 0 && i % 4 == 0) power *= 10.0;
        double step = round[i % 4] * power;
        double miss = fabs(floor(high / step) - floor(low / step) - 10.0);
        if (miss >= off) continue;
        off = miss;
        best = step;
    }
    return best;
}

/* Lines of equal J, one series with gaps, and their values near the upper ends. */
static plot_series level_lines(pool *p, const frame *b, double beta, plot_panel *panel)
{
    enum { MOST = 24 };
    plot_series s = {.colour = FAINT, .width = 1.1, .label = "equal J = reward - beta KL"};
    double low = b->x0 - beta * b->y1, high = b->x1 - beta * b->y0, step = level_step(low, high);
    double *x = pool_doubles(p, 3 * MOST), *y = pool_doubles(p, 3 * MOST);
    plot_text *text = pool_take(p, MOST, sizeof *text);
    if (!x || !y || !text) return s;
    for (double k = ceil(low / step); k * step < high && s.n < 3 * MOST; k += 1.0) {
        double level = k * step, *u = x + s.n, *v = y + s.n;
        if (!level_line(b, beta, level, u, v)) continue;
        double x_end = fmin(u[1], b->x1 - 0.05 * (b->x1 - b->x0)), y_end = fmin(v[1], b->y1 - 0.05 * (b->y1 - b->y0));
        y_end = beta > 0.0 ? fmin(y_end, (x_end - level) / beta) : y_end;
        u[2] = v[2] = NAN;
        s.n += 3;
        x_end = level + beta * y_end;
        if (y_end < b->y0 + 0.05 * (b->y1 - b->y0) || x_end < b->x0 + 0.05 * (b->x1 - b->x0)) continue;
        text[panel->texts++] = (plot_text){.x = x_end,
                                           .y = y_end,
                                           .text = pool_words(p, "%.3g", fabs(level) < 1e-9 * step ? 0.0 : level),
                                           .colour = PLOT_GREY};
    }
    s.x = x;
    s.y = y;
    panel->text = text;
    return s;
}

/* The ring around the best point and the line of its J. */
static void ring(pool *p, const plot_series *s, const frame *b, double beta, const char *method, plot_panel *panel,
                 plot_series *out)
{
    int best = best_point(s, beta);
    double *x = pool_doubles(p, 2), *y = pool_doubles(p, 2);
    if (best < 0 || !x || !y) return;
    out[panel->n] = (plot_series){.kind = PLOT_RINGS, .colour = RED, .width = 1.5, .n = 1, .x = s->x + best};
    out[panel->n].label = pool_words(p, "best point of %s", method);
    out[panel->n++].y = s->y + best;
    if (!level_line(b, beta, s->x[best] - beta * s->y[best], x, y)) return;
    out[panel->n] = (plot_series){.colour = RED, .dash = PLOT_DASHED, .width = 1.5, .n = 2, .x = x, .y = y};
    out[panel->n++].label = "J of that point";
}

static void best_title(const ebm2d_trajectories *f, const plot_series *path, double beta, char *title)
{
    int used = title ? snprintf(title, POOL_WORDS, "beta = %.6g; best J:", beta) : POOL_WORDS;
    for (int m = 0; m < f->methods && used < POOL_WORDS; m++) {
        int best = best_point(&path[m], beta);
        if (best < 0) continue;
        used += snprintf(title + used, (size_t)(POOL_WORDS - used), "%s %s %.4f", m ? "," : "", f->method[m],
                         path[m].x[best] - beta * path[m].y[best]);
    }
}

static void trajectory_panel(pool *p, const ebm2d_trajectories *f, int i, const frame *b, const plot_series *path,
                             plot_panel *panel)
{
    const ebm2d_trajectory *t = &f->panel[i];
    plot_series *s = pool_take(p, f->methods + 4, sizeof *s);
    char *title = pool_words(p, " ");
    *panel = (plot_panel){.title = title, .x_min = b->x0, .x_max = b->x1, .y_min = b->y0, .y_max = b->y1, .series = s};
    panel->x_label = pool_words(p, "reward (%s)", f->reward ? f->reward : "mean");
    panel->y_label = "KL(pi || pi_0)";
    best_title(f, path, t->beta, title);
    if (!s) return;
    s[panel->n++] = level_lines(p, b, t->beta, panel);
    int ringed = f->ringed >= 0 && f->ringed < f->methods;
    for (int m = 0; m < f->methods; m++) s[panel->n++] = path[m];
    if (ringed) ring(p, &path[f->ringed], b, t->beta, f->method[f->ringed], panel, s);
    if (isfinite(t->optimum_reward) && isfinite(t->optimum_kl))
        s[panel->n++] = (plot_series){.kind = PLOT_CROSSES,
                                      .colour = PLOT_BLUE,
                                      .width = 1.1,
                                      .label = "exact optimum",
                                      .n = 1,
                                      .x = &t->optimum_reward,
                                      .y = &t->optimum_kl};
}

/* The frame that all panels share: every mean, bar end and optimum with a little air. */
static frame common_frame(const ebm2d_trajectories *f, const plot_series *path)
{
    frame b = {NAN, NAN, NAN, NAN};
    for (int k = 0; k < f->panels * f->methods; k++)
        for (int i = 0; i < path[k].n; i++) {
            widen(&b, path[k].x[i], path[k].y[i]);
            if (!path[k].low) continue;
            widen(&b, path[k].x_low[i], path[k].low[i]);
            widen(&b, path[k].x_high[i], path[k].high[i]);
        }
    for (int i = 0; i < f->panels; i++) widen(&b, f->panel[i].optimum_reward, f->panel[i].optimum_kl);
    if (!isfinite(b.x0)) b = (frame){0.0, 1.0, 0.0, 1.0};
    double dx = fmax(b.x1 - b.x0, 1e-6), dy = fmax(b.y1 - b.y0, 1e-6);
    return (frame){b.x0 - 0.06 * dx, b.x1 + 0.06 * dx, b.y0 - 0.06 * dy, b.y1 + 0.12 * dy};
}

int ebm2d_draw_trajectories(const ebm2d_trajectories *f, const char *dir, const char *name, char **svg, char *error,
                            size_t room)
{
    pool p = {0};
    int paths = f->panels * f->methods;
    plot_panel *panel = pool_take(&p, f->panels, sizeof *panel);
    plot_series *path = pool_take(&p, paths, sizeof *path);
    for (int k = 0; k < paths && path; k++) {
        int m = k % f->methods;
        plot_series style = {
            .kind = PLOT_MARKS, .label = f->method[m], .colour = colour_of(f->method[m], m), .width = 1.6};
        path[k] = path_series(&p, &f->panel[k / f->methods].path[m], style);
    }
    if (panel && path) {
        frame b = common_frame(f, path);
        for (int i = 0; i < f->panels; i++)
            trajectory_panel(&p, f, i, &b, path + (size_t)i * (size_t)f->methods, &panel[i]);
    }
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = f->panels, .columns = f->columns};
    figure.width = f->panels > 1 ? 540 : 720;
    figure.height = f->panels > 1 ? 400 : 500;
    return finish(&p, &figure, dir, svg, error, room);
}

/* ---------------------------------------------------------------------------- hitting times */

static int smaller_first(const void *a, const void *b) { return -larger_first(a, b); }

/* The share of visits at or before t, at times that are dense near 0 where the curve is steep. */
static plot_series stairs(pool *p, const double *first, int chains, double steps, plot_series style)
{
    double *sorted = pool_doubles(p, chains), *t = pool_doubles(p, STAIRS), *share = pool_doubles(p, STAIRS);
    int known = 0, before = 0;
    style.n = 0;
    if (!sorted || !t || !share || chains <= 0) return style;
    for (int i = 0; i < chains; i++)
        if (!isnan(first[i])) sorted[known++] = first[i];
    qsort(sorted, (size_t)known, sizeof *sorted, smaller_first);
    for (int i = 0; i < STAIRS; i++) {
        double fraction = (double)i / (STAIRS - 1), time = floor(steps * fraction * fraction * fraction);
        if (style.n > 0 && time <= t[style.n - 1]) continue;
        while (before < known && sorted[before] <= time) before++;
        t[style.n] = time;
        share[style.n++] = (double)before / chains;
    }
    style.x = t;
    style.y = share;
    return style;
}

int ebm2d_draw_hitting(const ebm2d_hitting *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    pool p = {0};
    plot_series *s = pool_take(&p, f->methods, sizeof *s);
    for (int m = 0; m < f->methods && s; m++)
        s[m] = stairs(&p, f->first[m], f->chains, f->steps,
                      (plot_series){.label = f->method[m], .colour = colour_of(f->method[m], m)});
    plot_panel panel[2] = {{.x_label = "step t", .x_max = f->steps, .series = s, .n = s ? f->methods : 0},
                           {.x_label = "step t", .log_x = 1, .x_min = 1.0, .x_max = f->steps, .series = s}};
    panel[1].n = panel[0].n;
    panel[0].y_label = "chains that were in H by step t";
    for (int i = 0; i < 2; i++) panel[i].y_max = 1.02;
    for (int m = 0; m < panel[0].n; m++) /* from the first value on: that is where chains start */
        panel[0].y_min = s[m].n > 0 && (m == 0 || s[m].y[0] < panel[0].y_min) ? s[m].y[0] : panel[0].y_min;
    panel[0].y_min = panel[1].y_min = fmax(0.0, floor(10.0 * panel[0].y_min - 0.3) / 10.0);
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = 2, .width = 460, .height = 330};
    return finish(&p, &figure, dir, svg, error, room);
}

/* ---------------------------------------------------------------------------- chains */

/* All stretches whose steps have one colour: from each chain its points of that colour and the one that follows. */
static plot_series stretch(pool *p, const ebm2d_chains *f, int m, const plot_scale *scale, int colour)
{
    int stride = f->n > PATH ? (f->n + PATH - 1) / PATH : 1, points = (f->n + stride - 1) / stride;
    plot_series s = {.colour = plot_shade(scale, colour), .width = 0.7};
    double *x = pool_doubles(p, f->chains * (points + 2)), *y = pool_doubles(p, f->chains * (points + 2));
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

static plot_series ends(pool *p, const ebm2d_chains *f, int m, int last)
{
    plot_series s = {.kind = last ? PLOT_CROSSES : PLOT_DOTS, .label = last ? "end" : "start", .colour = PLOT_BLACK};
    double *x = pool_doubles(p, f->chains), *y = pool_doubles(p, f->chains);
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

int ebm2d_draw_chains(const ebm2d_chains *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    pool p = {0};
    double half = f->half_side > 0.0 ? f->half_side : 6.0;
    plot_scale scale = {.max = f->n > 1 ? f->step[f->n - 1] : 1.0, .shades = PLOT_PLASMA, .label = "step"};
    if (f->n > 1) scale.min = f->step[0];
    plot_panel *panel = pool_take(&p, f->methods, sizeof *panel);
    for (int m = 0; m < f->methods && panel; m++) {
        plot_series *s = pool_take(&p, PLOT_STEPS + 3, sizeof *s);
        panel[m] = (plot_panel){.title = f->method[m], .equal = 1, .series = s, .x_min = -half, .x_max = half};
        panel[m].y_min = -half;
        panel[m].y_max = half;
        if (!s) break;
        for (int k = 0; k < PLOT_STEPS; k++) s[panel[m].n++] = stretch(&p, f, m, &scale, k);
        s[panel[m].n++] = edge_series(&p, f->edge, half);
        for (int last = 0; last < 2; last++) s[panel[m].n++] = ends(&p, f, m, last);
    }
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = f->methods};
    figure.width = figure.height = 400;
    figure.compact = 1;
    figure.scale = &scale;
    return finish(&p, &figure, dir, svg, error, room);
}

/* ---------------------------------------------------------------------------- against iteration */

/* The values that all panels show, for a common axis: means always, bands when asked for. */
static void value_range(const plot_panel *panel, int panels, int positive, int bands, double *low, double *high)
{
    *low = *high = NAN;
    for (int k = 0; k < panels; k++)
        for (int j = 0; j < panel[k].n; j++) {
            const plot_series *s = &panel[k].series[j];
            for (int i = 0; i < (s->kind == PLOT_LEVEL ? 1 : s->n); i++) {
                double v[] = {s->y[i], bands && s->low ? s->low[i] : NAN, bands && s->high ? s->high[i] : NAN};
                for (int m = 0; m < 3; m++) {
                    if (!isfinite(v[m]) || (positive && v[m] <= 0.0)) continue;
                    *low = fmin(*low, v[m]);
                    *high = fmax(*high, v[m]);
                }
            }
        }
}

static void share_axis(plot_panel *panel, int panels)
{
    double low, high;
    value_range(panel, panels, 0, 1, &low, &high);
    if (!(low < high)) return;
    for (int i = 0; i < panels; i++) {
        panel[i].y_min = low - 0.05 * (high - low);
        panel[i].y_max = high + 0.05 * (high - low);
    }
}

static const ebm2d_curve *curve_at(const ebm2d_curve *c, int m) { return c ? &c[m] : NULL; }

int ebm2d_draw_rewards(const ebm2d_rewards *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    enum { KINDS = 5 };
    pool p = {0};
    plot_panel *panel = pool_take(&p, f->methods, sizeof *panel);
    for (int m = 0; m < f->methods && panel; m++) {
        plot_series *s = pool_take(&p, KINDS, sizeof *s);
        panel[m] = (plot_panel){.title = f->method[m], .x_label = "iteration", .y_label = "reward", .series = s};
        if (!s) break;
        add_curve(&p, &panel[m], s, curve_at(f->particle, m), (plot_series){.label = "particles", .colour = PLOT_BLUE});
        add_curve(&p, &panel[m], s, curve_at(f->weighted, m),
                  (plot_series){.label = "weighted particles", .colour = PLOT_ORANGE, .dash = PLOT_DOTTED});
        add_curve(&p, &panel[m], s, curve_at(f->exact, m),
                  (plot_series){.label = "exact E[R]", .colour = PLOT_GREEN, .width = 1.1});
        add_curve(&p, &panel[m], s, curve_at(f->fresh, m),
                  (plot_series){.kind = PLOT_RINGS, .label = "R_fresh", .colour = PLOT_VERMILION, .width = 0.8});
        if (isfinite(f->target))
            s[panel[m].n++] = (plot_series){.kind = PLOT_LEVEL,
                                            .label = "pi*(H)",
                                            .colour = PLOT_BLACK,
                                            .dash = PLOT_DASHED,
                                            .n = 1,
                                            .y = &f->target};
    }
    if (panel && !p.failed) share_axis(panel, f->methods);
    plot_figure figure = {
        .name = name, .title = f->title, .panel = panel, .panels = f->methods, .width = 470, .height = 340};
    return finish(&p, &figure, dir, svg, error, room);
}

/* A band that reaches 0 has no place on a logarithmic axis: the axis follows the means, and bands end where it ends. */
static void fit_log_axis(plot_panel *panel, int panels)
{
    double low, high;
    value_range(panel, panels, 1, 0, &low, &high);
    if (!panel || !(low > 0.0)) return;
    for (int k = 0; k < panels; k++) {
        panel[k].y_min = low / 2.0;
        panel[k].y_max = high * 2.0;
        for (int j = 0; j < panel[k].n; j++)
            for (int i = 0; panel[k].series[j].low && i < panel[k].series[j].n; i++) {
                double *v[] = {(double *)panel[k].series[j].low + i, (double *)panel[k].series[j].high + i};
                for (int m = 0; m < 2; m++)
                    if (isfinite(*v[m])) *v[m] = fmin(fmax(*v[m], panel[k].y_min), panel[k].y_max);
            }
    }
}

/* The values of all seeds from `first` to before `last`, sorted; returns how many are known. */
static int sorted_stretch(const ebm2d_curve *c, int first, int last, double *out)
{
    int n = 0;
    for (int s = 0; s < c->seeds; s++)
        for (int i = first; i < last; i++) {
            double v = c->y[(size_t)s * (size_t)c->n + (size_t)i];
            if (isfinite(v)) out[n++] = v;
        }
    qsort(out, (size_t)n, sizeof *out, smaller_first);
    return n;
}

/* A long rough curve: median of each hundredth, in a band from the 10th to the 90th percentile. */
static plot_series rough_series(pool *p, const ebm2d_curve *c, plot_series style)
{
    double *x = pool_doubles(p, BLOCKS), *y = pool_doubles(p, BLOCKS), *low = pool_doubles(p, BLOCKS),
           *high = pool_doubles(p, BLOCKS), *sorted = pool_doubles(p, (c->n / BLOCKS + 1) * c->seeds);
    style.n = 0;
    if (!x || !y || !low || !high || !sorted) return style;
    for (int b = 0; b < BLOCKS; b++) {
        int first = (int)((int64_t)c->n * b / BLOCKS), last = (int)((int64_t)c->n * (b + 1) / BLOCKS);
        int n = sorted_stretch(c, first, last, sorted);
        x[b] = 0.5 * (c->x[first] + c->x[last - 1]);
        y[b] = n ? sorted[n / 2] : NAN;
        low[b] = n ? sorted[n / 10] : NAN;
        high[b] = n ? sorted[n - 1 - n / 10] : NAN;
    }
    style.n = BLOCKS;
    style.x = x;
    style.y = y;
    style.low = low;
    style.high = high;
    return style;
}

int ebm2d_draw_curves(const ebm2d_curves *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    pool p = {0};
    plot_panel *panel = pool_take(&p, f->panels, sizeof *panel);
    for (int i = 0; i < f->panels && panel; i++) {
        plot_series *s = pool_take(&p, f->methods, sizeof *s);
        panel[i] = (plot_panel){.x_label = "iteration", .y_label = f->quantity, .log_y = !f->linear, .series = s};
        if (f->beta) panel[i].title = pool_words(&p, "beta = %.6g", f->beta[i]);
        for (int m = 0; m < f->methods && s; m++) {
            const ebm2d_curve *c = &f->curve[(size_t)i * (size_t)f->methods + (size_t)m];
            plot_series style = {.label = f->method[m], .colour = colour_of(f->method[m], m), .width = 1.6};
            if (c->n > CURVE && c->seeds > 0)
                s[panel[i].n++] = rough_series(&p, c, style);
            else
                add_curve(&p, &panel[i], s, c, style);
        }
    }
    if (!f->linear && !p.failed) fit_log_axis(panel, f->panels);
    plot_figure figure = {.name = name, .title = f->title, .panel = panel, .panels = f->panels, .columns = f->columns};
    figure.width = f->panels > 1 ? 420 : 640;
    figure.height = f->panels > 1 ? 310 : 380;
    return finish(&p, &figure, dir, svg, error, room);
}

int ebm2d_draw_rings(const ebm2d_rings *f, const char *dir, const char *name, char **svg, char *error, size_t room)
{
    pool p = {0};
    plot_series *s = pool_take(&p, 2 * f->groups, sizeof *s);
    plot_panel panel = {.x_label = "step", .y_label = "share on the inner ring", .log_x = f->log_steps, .series = s};
    for (int i = 0; i < f->groups && s; i++) {
        add_curve(&p, &panel, s, &f->share[i],
                  (plot_series){.label = f->group[i], .colour = colour_of(f->group[i], i)});
        if (!isfinite(f->exact[i])) continue;
        s[panel.n++] = (plot_series){.kind = PLOT_LEVEL,
                                     .label = pool_words(&p, "%s, exact", f->group[i]),
                                     .colour = colour_of(f->group[i], i),
                                     .dash = PLOT_DASHED,
                                     .n = 1,
                                     .y = &f->exact[i]};
    }
    double low, high;
    value_range(&panel, 1, 0, 1, &low, &high);
    panel.y_max = high > 0.0 ? 1.15 * high : 1.0;
    plot_figure figure = {.name = name, .title = f->title, .panel = &panel, .panels = 1, .width = 680, .height = 380};
    return finish(&p, &figure, dir, svg, error, room);
}
