/* ebm2d_figures_paths.c: rewards against divergences in the 2-D experiment: a path per method over lines of equal J = reward -
 * beta KL, with axes that all panels share. Invariant: the frame of a figure holds every point that is finite. */
#include <math.h>
#include <stdio.h>

#include "ebm2d_figures_inside.h"

#define FAINT PLOT_RGB(0xB8B8B8)

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

static plot_series path_series(arena *p, const ebm2d_path *path, plot_series style)
{
    double *v[6];
    style.n = 0;
    for (int k = 0; k < 6; k++)
        if (!(v[k] = arena_doubles(p, path->n))) return style;
    if (path->n <= 0 || path->seeds <= 0) return style;
    ebm2d_summarise(path->reward, path->n, path->seeds, v[0], v[1], v[2]);
    ebm2d_summarise(path->kl, path->n, path->seeds, v[3], v[4], v[5]);
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
static plot_series level_lines(arena *p, const frame *b, double beta, plot_panel *panel)
{
    enum { MOST = 24 };
    plot_series s = {.colour = FAINT, .width = 1.1, .label = "equal J = reward - beta KL"};
    double low = b->x0 - beta * b->y1, high = b->x1 - beta * b->y0, step = level_step(low, high);
    double *x = arena_doubles(p, 3 * MOST), *y = arena_doubles(p, 3 * MOST);
    plot_text *text = arena_take(p, MOST, sizeof *text);
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
                                           .text = arena_words(p, "%.3g", fabs(level) < 1e-9 * step ? 0.0 : level),
                                           .colour = PLOT_GREY};
    }
    s.x = x;
    s.y = y;
    panel->text = text;
    return s;
}

/* The ring around the best point and the line of its J. */
static void ring(arena *p, const plot_series *s, const frame *b, double beta, const char *method, plot_panel *panel,
                 plot_series *out)
{
    int best = best_point(s, beta);
    double *x = arena_doubles(p, 2), *y = arena_doubles(p, 2);
    if (best < 0 || !x || !y) return;
    out[panel->n] = (plot_series){.kind = PLOT_RINGS, .colour = RED, .width = 1.5, .n = 1, .x = s->x + best};
    out[panel->n].label = arena_words(p, "best point of %s", method);
    out[panel->n++].y = s->y + best;
    if (!level_line(b, beta, s->x[best] - beta * s->y[best], x, y)) return;
    out[panel->n] = (plot_series){.colour = RED, .dash = PLOT_DASHED, .width = 1.5, .n = 2, .x = x, .y = y};
    out[panel->n++].label = "J of that point";
}

/* There is room for three names; the values of more stand in the order of the legend. */
static void best_title(const ebm2d_trajectories *f, const plot_series *path, double beta, char *title)
{
    int names = f->methods <= 3;
    int used = title ? snprintf(title, ARENA_WORDS, "beta = %.6g; best J%s:", beta, names ? "" : " (as in the legend)")
                     : ARENA_WORDS;
    for (int m = 0; m < f->methods && used < ARENA_WORDS; m++) {
        int best = best_point(&path[m], beta);
        if (best < 0) continue;
        used += snprintf(title + used, (size_t)(ARENA_WORDS - used), "%s%s%s %.4f", m ? "," : "", names ? " " : "",
                         names ? f->method[m] : "", path[m].x[best] - beta * path[m].y[best]);
    }
}

static void trajectory_panel(arena *p, const ebm2d_trajectories *f, int i, const frame *b, const plot_series *path,
                             plot_panel *panel)
{
    const ebm2d_trajectory *t = &f->panel[i];
    plot_series *s = arena_take(p, f->methods + 4, sizeof *s);
    char *title = arena_words(p, " ");
    *panel = (plot_panel){.title = title, .x_min = b->x0, .x_max = b->x1, .y_min = b->y0, .y_max = b->y1, .series = s};
    panel->x_label = arena_words(p, "reward (%s)", f->reward ? f->reward : "mean");
    panel->y_label = "KL(pi || pi_0)";
    best_title(f, path, t->beta, title);
    if (!s) return;
    s[panel->n++] = level_lines(p, b, t->beta, panel);
    for (int m = 0; m < f->methods; m++) s[panel->n++] = path[m];
    ring(p, &path[0], b, t->beta, f->method[0], panel, s);
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

plot_figure ebm2d_draw_trajectories(arena *p, const ebm2d_trajectories *f, const char *name)
{
    int paths = f->panels * f->methods;
    plot_panel *panel = arena_take(p, f->panels, sizeof *panel);
    plot_series *path = arena_take(p, paths, sizeof *path);
    for (int k = 0; k < paths && path; k++) {
        int m = k % f->methods;
        plot_series style = {
            .kind = PLOT_MARKS, .label = f->method[m], .colour = ebm2d_colour(f->method[m], m), .width = 1.6};
        path[k] = path_series(p, &f->panel[k / f->methods].path[m], style);
    }
    if (panel && path) {
        frame b = common_frame(f, path);
        for (int i = 0; i < f->panels; i++)
            trajectory_panel(p, f, i, &b, path + (size_t)i * (size_t)f->methods, &panel[i]);
    }
    plot_figure figure = {.name = name, .panel = panel, .panels = f->panels, .columns = f->columns};
    figure.width = f->panels > 1 ? 540 : 720;
    figure.height = f->panels > 1 ? 400 : 500;
    return figure;
}
