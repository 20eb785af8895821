/* ebm2d_figures.c: turns arrays of the 2-D experiment into panels and series, and hands them to plot.h: what all figures share,
 * and the curves against steps and iterations. Points of the plane are in ebm2d_figures_plane.c, rewards against
 * divergences in ebm2d_figures_paths.c.
 *
 * What is drawn is bounded, never what is given: curves become at most CURVE values that keep the extremes, or BLOCKS
 * medians. */
#include "ebm2d_figures.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "ebm2d_figures_inside.h"

enum { CURVE = 500, STAIRS = 400, BLOCKS = 100 };

/* ---------------------------------------------------------------------------- common parts */

int ebm2d_colour(const char *name, int place)
{
    static const int others[] = {PLOT_BLUE, PLOT_GREEN, PLOT_ORANGE, PLOT_PURPLE, PLOT_SKY, PLOT_GREY};
    if (!strcmp(name, "ImpDiff")) return PLOT_BLACK;
    if (!strcmp(name, "SOSMC-ULA")) return PLOT_VERMILION;
    return others[place % (int)(sizeof others / sizeof *others)];
}

void ebm2d_summarise(const double *v, int n, int seeds, double *mean, double *low, double *high)
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

/* ---------------------------------------------------------------------------- curves */

/* Keeps at most CURVE places: plot_thin chooses among the indices, all arrays follow. */
static int thin(arena *p, double *x, double *mean, double *low, double *high, int n)
{
    double *index = arena_doubles(p, n), *value = arena_doubles(p, n);
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

/* Returns the style with the values of the curve; a curve without values gives an empty series. */
static plot_series curve_series(arena *p, const ebm2d_curve *c, plot_series style)
{
    style.n = 0;
    if (!c || c->n <= 0 || c->seeds <= 0) return style;
    double *x = arena_doubles(p, c->n), *mean = arena_doubles(p, c->n), *low = arena_doubles(p, c->n),
           *high = arena_doubles(p, c->n);
    if (!x || !mean || !low || !high) return style;
    memcpy(x, c->x, (size_t)c->n * sizeof *x);
    ebm2d_summarise(c->y, c->n, c->seeds, mean, low, high);
    style.n = thin(p, x, mean, low, high, c->n);
    style.x = x;
    style.y = mean;
    style.low = c->seeds > 1 ? low : NULL;
    style.high = c->seeds > 1 ? high : NULL;
    return style;
}

/* Adds the curve to the panel unless it is empty: an empty one would leave a sample in the legend. */
static void add_curve(arena *p, plot_panel *panel, plot_series *room, const ebm2d_curve *c, plot_series style)
{
    plot_series s = curve_series(p, c, style);
    if (s.n > 0) room[panel->n++] = s;
}

/* ---------------------------------------------------------------------------- hitting times */

/* The share of visits at or before t, at times that are dense near 0 where the curve is steep. */
static plot_series stairs(arena *p, const double *first, int chains, double steps, plot_series style)
{
    double *sorted = arena_doubles(p, chains), *t = arena_doubles(p, STAIRS), *share = arena_doubles(p, STAIRS);
    int known = 0, before = 0;
    style.n = 0;
    if (!sorted || !t || !share || chains <= 0) return style;
    for (int i = 0; i < chains; i++)
        if (!isnan(first[i])) sorted[known++] = first[i];
    qsort(sorted, (size_t)known, sizeof *sorted, experiment_ascending);
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

plot_figure ebm2d_draw_hitting(arena *p, const ebm2d_hitting *f, const char *name)
{
    plot_series *s = arena_take(p, f->methods, sizeof *s);
    for (int m = 0; m < f->methods && s; m++)
        s[m] = stairs(p, f->first[m], f->chains, f->steps,
                      (plot_series){.label = f->method[m], .colour = ebm2d_colour(f->method[m], m)});
    plot_panel *panel = arena_take(p, 2, sizeof *panel);
    if (!s || !panel) return (plot_figure){.name = name};
    panel[0] = (plot_panel){.x_label = "step t", .x_max = f->steps, .series = s, .n = f->methods};
    panel[1] = (plot_panel){
        .x_label = "step t", .log_x = 1, .x_min = 1.0, .x_max = f->steps, .series = s, .n = f->methods};
    panel[0].y_label = "chains that were in H by step t";
    for (int i = 0; i < 2; i++) panel[i].y_max = 1.02;
    for (int m = 0; m < panel[0].n; m++) /* from the first value on: that is where chains start */
        panel[0].y_min = s[m].n > 0 && (m == 0 || s[m].y[0] < panel[0].y_min) ? s[m].y[0] : panel[0].y_min;
    panel[0].y_min = panel[1].y_min = fmax(0.0, floor(10.0 * panel[0].y_min - 0.3) / 10.0);
    plot_figure figure = {.name = name, .panel = panel, .panels = 2, .width = 460, .height = 330};
    return figure;
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

plot_figure ebm2d_draw_rewards(arena *p, const ebm2d_rewards *f, const char *name)
{
    enum { KINDS = 5 };
    plot_panel *panel = arena_take(p, f->methods, sizeof *panel);
    for (int m = 0; m < f->methods && panel; m++) {
        plot_series *s = arena_take(p, KINDS, sizeof *s);
        panel[m] = (plot_panel){.title = f->method[m], .x_label = "iteration", .y_label = "reward", .series = s};
        if (!s) break;
        add_curve(p, &panel[m], s, curve_at(f->particle, m), (plot_series){.label = "particles", .colour = PLOT_BLUE});
        add_curve(p, &panel[m], s, curve_at(f->weighted, m),
                  (plot_series){.label = "weighted particles", .colour = PLOT_ORANGE, .dash = PLOT_DOTTED});
        add_curve(p, &panel[m], s, curve_at(f->exact, m),
                  (plot_series){.label = "exact E[R]", .colour = PLOT_GREEN, .width = 1.1});
        add_curve(p, &panel[m], s, curve_at(f->fresh, m),
                  (plot_series){.kind = PLOT_RINGS, .label = "R_fresh", .colour = PLOT_VERMILION, .width = 0.8});
        if (isfinite(f->target))
            s[panel[m].n++] = (plot_series){.kind = PLOT_LEVEL,
                                            .label = "pi*(H)",
                                            .colour = PLOT_BLACK,
                                            .dash = PLOT_DASHED,
                                            .n = 1,
                                            .y = &f->target};
    }
    if (panel && !p->failed) share_axis(panel, f->methods);
    plot_figure figure = {.name = name, .panel = panel, .panels = f->methods, .width = 470, .height = 340};
    return figure;
}

/* A band that reaches 0 cannot be drawn on a logarithmic axis: the range of the axis follows the means, and bands are cut
 * there. */
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
    qsort(out, (size_t)n, sizeof *out, experiment_ascending);
    return n;
}

/* A long rough curve: median of each hundredth, in a band from the 10th to the 90th percentile. */
static plot_series rough_series(arena *p, const ebm2d_curve *c, plot_series style)
{
    double *x = arena_doubles(p, BLOCKS), *y = arena_doubles(p, BLOCKS), *low = arena_doubles(p, BLOCKS),
           *high = arena_doubles(p, BLOCKS), *sorted = arena_doubles(p, (c->n / BLOCKS + 1) * c->seeds);
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

plot_figure ebm2d_draw_curves(arena *p, const ebm2d_curves *f, const char *name)
{
    plot_panel *panel = arena_take(p, f->panels, sizeof *panel);
    for (int i = 0; i < f->panels && panel; i++) {
        plot_series *s = arena_take(p, f->methods, sizeof *s);
        panel[i] = (plot_panel){.x_label = "iteration", .y_label = f->quantity, .log_y = 1, .series = s};
        if (f->beta) panel[i].title = arena_words(p, "beta = %.6g", f->beta[i]);
        for (int m = 0; m < f->methods && s; m++) {
            const ebm2d_curve *c = &f->curve[(size_t)i * (size_t)f->methods + (size_t)m];
            plot_series style = {.label = f->method[m], .colour = ebm2d_colour(f->method[m], m), .width = 1.6};
            if (c->n > CURVE && c->seeds > 0)
                s[panel[i].n++] = rough_series(p, c, style);
            else
                add_curve(p, &panel[i], s, c, style);
        }
    }
    if (!p->failed) fit_log_axis(panel, f->panels);
    plot_figure figure = {.name = name, .panel = panel, .panels = f->panels, .columns = f->columns};
    figure.width = f->panels > 1 ? 420 : 640;
    figure.height = f->panels > 1 ? 310 : 380;
    return figure;
}

plot_figure ebm2d_draw_rings(arena *p, const ebm2d_rings *f, const char *name)
{
    plot_series *s = arena_take(p, 2 * f->groups, sizeof *s);
    plot_panel *panel = arena_take(p, 1, sizeof *panel);
    if (!s || !panel) return (plot_figure){.name = name};
    *panel = (plot_panel){.x_label = "step", .y_label = "share on the inner ring", .series = s};
    for (int i = 0; i < f->groups; i++) {
        add_curve(p, panel, s, &f->share[i],
                  (plot_series){.label = f->group[i], .colour = ebm2d_colour(f->group[i], i)});
        if (!isfinite(f->exact[i])) continue;
        s[panel->n++] = (plot_series){.kind = PLOT_LEVEL,
                                      .label = arena_words(p, "%s, exact", f->group[i]),
                                      .colour = ebm2d_colour(f->group[i], i),
                                      .dash = PLOT_DASHED,
                                      .n = 1,
                                      .y = &f->exact[i]};
    }
    double low, high;
    value_range(panel, 1, 0, 1, &low, &high);
    panel->y_max = high > 0.0 ? 1.15 * high : 1.0;
    plot_figure figure = {.name = name, .panel = panel, .panels = 1, .width = 680, .height = 380};
    return figure;
}
