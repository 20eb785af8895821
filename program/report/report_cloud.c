/* report_cloud.c: the cloud of particles in a report: a line, a plane with its density, or pairs of coordinates.
 *
 * A weighted cloud is drawn as an unweighted one: dots are chosen by systematic resampling with a fixed offset, so that the
 * same run always gives the same picture. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_inside.h"

enum { DOTS = 1500 };

/* ---------------------------------------------------------------------------- dots */

static const double *cloud_x(const report_data *r) { return r->x.data; }

/* Indices of `dots` particles, in proportion to their weights. */
static int *choose(gallery *g, const report_data *r, int dots)
{
    int *index = arena_take(&g->memory, dots, sizeof *index);
    double sum = 0.0;
    int64_t i = 0;
    for (int k = 0; index && k < dots; k++) {
        double want = (k + 0.5) / dots;
        while (i + 1 < r->particles && sum + r->w[i] < want) sum += r->w[i++];
        index[k] = (int)i;
    }
    return index;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A range that shows the chosen values of one coordinate. A few far values may lie outside; the captions give their weight.
 * */
static void cloud_range(gallery *g, const double *v, int n, double *min, double *max)
{
    double *sorted = arena_doubles(&g->memory, n);
    if (!sorted) return;
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    double low = sorted[n / 200], high = sorted[n - 1 - n / 200], air = 0.25 * (high - low);
    if (!(air > 0.0)) air = fabs(low) > 0.0 ? 0.1 * fabs(low) : 1.0;
    *min = fmax(low - air, sorted[0] - 0.2 * air);
    *max = fmin(high + air, sorted[n - 1] + 0.2 * air);
}

static const char *const axes[] = {"x₁", "x₂", "x₃"};

typedef struct {
    int dots;
    double *x[3]; /* the chosen values of the first coordinates */
    double min[3], max[3];
    const char *axis[3];
} sample;

static int draw_sample(gallery *g, const report_data *r, sample *s)
{
    int coordinates = r->dim < 3 ? r->dim : 3;
    s->dots = r->particles < DOTS ? (int)r->particles : DOTS;
    const int *index = choose(g, r, s->dots);
    const json_t *columns = json_object_get(json_object_get(r->summary, "scaling"), "columns");
    for (int j = 0; index && j < coordinates; j++) {
        const char *column = json_string_value(json_array_get(columns, (size_t)j));
        s->axis[j] = column ? column : r->dim == 1 ? "x" : axes[j];
        s->x[j] = arena_doubles(&g->memory, s->dots);
        if (!s->x[j]) return -1;
        for (int k = 0; k < s->dots; k++) s->x[j][k] = cloud_x(r)[(int64_t)index[k] * r->dim + j];
        cloud_range(g, s->x[j], s->dots, &s->min[j], &s->max[j]);
    }
    return g->memory.failed ? -1 : 0;
}

static plot_panel dots_panel(gallery *g, const sample *s, int a, int b, int colour)
{
    plot_series *d = arena_take(&g->memory, 1, sizeof *d);
    plot_panel p = {.x_label = s->axis[a], .y_label = s->axis[b], .series = d, .n = d ? 1 : 0};
    p.x_min = s->min[a];
    p.x_max = s->max[a];
    p.y_min = s->min[b];
    p.y_max = s->max[b];
    if (d)
        *d = (plot_series){
            .kind = PLOT_POINTS, .label = "particles", .colour = colour, .n = s->dots, .x = s->x[a], .y = s->x[b]};
    return p;
}

static void show_box(plot_panel *p, const plot_lattice *l)
{
    p->x_min = l->x_min;
    p->x_max = l->x_max;
    p->y_min = l->y_min;
    p->y_max = l->y_max;
}

/* Share of the weight outside the panel. */
static double outside(const report_data *r, const plot_panel *p, int a, int b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < r->particles; i++) {
        double x = cloud_x(r)[i * r->dim + a], y = cloud_x(r)[i * r->dim + b];
        if (!(x >= p->x_min && x <= p->x_max && y >= p->y_min && y <= p->y_max)) sum += r->w[i];
    }
    return sum;
}

/* Densities are compared by shape: the largest value becomes 1. */
static plot_lattice *relative(gallery *g, const plot_lattice *l)
{
    size_t n = (size_t)l->nx * (size_t)l->ny;
    plot_lattice *out = arena_take(&g->memory, 1, sizeof *out);
    double *z = arena_take(&g->memory, (int)n, sizeof *z), top = 0.0;
    if (!out || !z) return NULL;
    for (size_t i = 0; i < n; i++)
        if (isfinite(l->z[i]) && l->z[i] > top) top = l->z[i];
    for (size_t i = 0; i < n; i++) z[i] = top > 0.0 ? l->z[i] / top : l->z[i];
    *out = *l;
    out->z = z;
    return out;
}

static int is_map(const plot_lattice *l) { return l && l->nx > 1 && l->ny > 1 && l->z; }

static int is_line(const plot_lattice *l) { return l && l->nx > 1 && l->ny == 1 && l->z; }

static void caption_cloud(exhibit *e, const report_data *r, const sample *s, double lost)
{
    size_t n = strlen(e->caption);
    (void)snprintf(e->caption + n, sizeof e->caption - n,
                   " %d of %" PRId64 " particles are shown, chosen in proportion to their weights.", s->dots,
                   r->particles);
    n = strlen(e->caption);
    if (lost > 0.0)
        (void)snprintf(e->caption + n, sizeof e->caption - n, " A share %.2g of the weight lies outside the picture.",
                       lost);
}

/* As high as equal units on both axes want it, within reason; 200 and 100 pixels are the margins. */
static double plane_height(const plot_panel *p, double width)
{
    double ratio = (p->y_max - p->y_min) / (p->x_max - p->x_min);
    return 100.0 + fmin(fmax((width - 200.0) * ratio, 200.0), 520.0);
}

static void add_plane(gallery *g, const report_data *r, const report_extra *extra, const sample *s)
{
    int density = is_map(extra->density), reward = is_map(extra->reward);
    exhibit *e = gallery_add(g, SECTION_CLOUD, "cloud", "Final cloud");
    plot_panel *p = e ? arena_take(&g->memory, 2, sizeof *p) : NULL;
    if (!p) return;
    p[0] = dots_panel(g, s, 0, 1, PLOT_BLACK);
    p[0].equal = 1;
    if (density) {
        p[0].title = reward ? "target density and reward contours" : "target density";
        p[0].heat = relative(g, extra->density);
        p[0].heat_label = "density / maximum";
        show_box(&p[0], extra->density);
    }
    if (reward) {
        if (!density) show_box(&p[0], extra->reward);
        p[0].contour = extra->reward;
        p[0].contour_label = "reward (contours)";
        p[0].contour_colour = PLOT_VERMILION;
        p[1] = dots_panel(g, s, 0, 1, PLOT_BLACK);
        p[1].equal = 1;
        p[1].title = "reward";
        p[1].heat = extra->reward;
        p[1].heat_label = "reward";
        p[1].shades = PLOT_ORANGES;
        show_box(&p[1], extra->reward);
    }
    e->figure.panel = p;
    e->figure.panels = reward ? 2 : 1;
    e->figure.width = reward ? HALF : 760;
    e->figure.height = plane_height(&p[0], e->figure.width);
    (void)snprintf(e->caption, sizeof e->caption, "The final cloud%s.", density ? " over the target density" : "");
    (void)snprintf(e->alt, sizeof e->alt, "Scatter plot of the final particles in the plane%s.",
                   density ? " over a map of the target density" : "");
    caption_cloud(e, r, s, outside(r, &p[0], 0, 1));
}

/* ---------------------------------------------------------------------------- marginals */

static plot_series histogram(gallery *g, const report_data *r, int j, double min, double max, double *lost)
{
    int bins = (int)(2.0 * cbrt((double)r->particles));
    bins = bins < 20 ? 20 : bins > 80 ? 80 : bins;
    double *x = arena_doubles(&g->memory, bins), *y = arena_doubles(&g->memory, bins), width = (max - min) / bins;
    if (!x || !y) return (plot_series){0};
    *lost = 0.0;
    for (int b = 0; b < bins; b++) x[b] = min + (b + 0.5) * width;
    for (int64_t i = 0; i < r->particles; i++) {
        double at = (cloud_x(r)[i * r->dim + j] - min) / width;
        if (at >= 0.0 && at < bins)
            y[(int)at] += r->w[i] / width;
        else
            *lost += r->w[i];
    }
    return (plot_series){.kind = PLOT_BARS, .label = "particles", .colour = PLOT_BLUE, .n = bins, .x = x, .y = y};
}

/* A lattice of one row as a curve; a density is scaled to unit area, by the trapezoidal rule. */
static plot_series lattice_curve(gallery *g, const plot_lattice *l, int unit_area)
{
    double *x = arena_doubles(&g->memory, l->nx), *y = arena_doubles(&g->memory, l->nx), area = 0.0,
           dx = (l->x_max - l->x_min) / (l->nx - 1);
    if (!x || !y) return (plot_series){0};
    for (int i = 0; i < l->nx; i++) {
        x[i] = l->x_min + i * dx;
        if (isfinite(l->z[i])) area += dx * l->z[i] * (i == 0 || i == l->nx - 1 ? 0.5 : 1.0);
    }
    for (int i = 0; i < l->nx; i++) y[i] = unit_area && area > 0.0 ? l->z[i] / area : l->z[i];
    return (plot_series){.colour = PLOT_VERMILION, .n = l->nx, .x = x, .y = y};
}

static void add_line_cloud(gallery *g, const report_data *r, const report_extra *extra, const sample *s)
{
    int density = is_line(extra->density), reward = is_line(extra->reward);
    exhibit *e = gallery_add(g, SECTION_CLOUD, "cloud", "Final cloud");
    plot_panel *p = e ? arena_take(&g->memory, 2, sizeof *p) : NULL;
    plot_series *a = arena_take(&g->memory, 2, sizeof *a), *b = arena_take(&g->memory, 1, sizeof *b);
    if (!p || !a || !b) return;
    double min = density ? extra->density->x_min : s->min[0], max = density ? extra->density->x_max : s->max[0],
           lost = 0.0;
    a[0] = histogram(g, r, 0, min, max, &lost);
    if (density) a[1] = lattice_curve(g, extra->density, 1);
    a[1].label = "target density";
    p[0] = (plot_panel){
        .x_label = s->axis[0], .y_label = "density", .series = a, .n = 1 + density, .x_min = min, .x_max = max};
    if (reward) {
        b[0] = lattice_curve(g, extra->reward, 0);
        p[1] = (plot_panel){
            .x_label = s->axis[0], .y_label = "reward", .series = b, .n = 1, .x_min = min, .x_max = max};
    }
    e->figure.panel = p;
    e->figure.panels = 1 + reward;
    e->figure.width = reward ? HALF : WIDE;
    (void)snprintf(e->caption, sizeof e->caption, "Weighted histogram of the %" PRId64 " final particles%s%s.",
                   r->particles, density ? " and the target density" : "", reward ? "; right, the reward" : "");
    size_t n = strlen(e->caption);
    if (lost > 0.0)
        (void)snprintf(e->caption + n, sizeof e->caption - n, " A share %.2g of the weight lies outside.", lost);
    (void)snprintf(e->alt, sizeof e->alt, "Weighted histogram of the final particles.");
}

static void add_pairs(gallery *g, const report_data *r, const sample *s)
{
    static const int pair[3][2] = {{0, 1}, {0, 2}, {1, 2}};
    exhibit *e = gallery_add(g, SECTION_CLOUD, "cloud", "Final cloud");
    plot_panel *p = e ? arena_take(&g->memory, 6, sizeof *p) : NULL;
    if (!p) return;
    for (int k = 0; k < 3; k++) p[k] = dots_panel(g, s, pair[k][0], pair[k][1], PLOT_BLACK);
    for (int j = 0; j < 3; j++) {
        plot_series *h = arena_take(&g->memory, 1, sizeof *h);
        double lost;
        if (!h) return;
        *h = histogram(g, r, j, s->min[j], s->max[j], &lost);
        h->label = "weighted histogram";
        p[3 + j] = (plot_panel){
            .x_label = s->axis[j], .y_label = "density", .series = h, .n = 1, .x_min = s->min[j], .x_max = s->max[j]};
    }
    e->figure.panel = p;
    e->figure.panels = 6;
    e->figure.columns = 3;
    e->figure.width = WIDE / 3.0;
    e->figure.height = 300;
    (void)snprintf(e->caption, sizeof e->caption, "The final cloud: the first three of %d coordinates.", r->dim);
    (void)snprintf(e->alt, sizeof e->alt,
                   "Scatter plots and histograms of the first three coordinates of the final particles.");
    caption_cloud(e, r, s, 0.0);
}

void report_add_cloud(gallery *g, const report_data *r, const report_extra *extra)
{
    sample s = {0};
    if (r->particles == 0 || draw_sample(g, r, &s)) return;
    if (r->dim == 1)
        add_line_cloud(g, r, extra, &s);
    else if (r->dim == 2)
        add_plane(g, r, extra, &s);
    else
        add_pairs(g, r, &s);
}
