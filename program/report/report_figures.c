/* report_figures.c: the figures of a report: curves against iteration and wall-clock time, theta.
 *
 * Long traces are thinned to what a screen can show. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_inside.h"

enum { THIN = 2000, DISTINCT = 7 };

void report_gallery_free(gallery *g)
{
    arena_free(&g->memory);
    g->n = 0;
}

/* ---------------------------------------------------------------------------- small things */

/* "theta" with the number below the line. */
static char *theta_name(gallery *g, int j)
{
    static const char *const low[] = {"₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉"};
    char digits[16], out[64] = "θ";
    (void)snprintf(digits, sizeof digits, "%d", j);
    for (const char *p = digits; *p; p++) (void)strncat(out, low[*p - '0'], sizeof out - strlen(out) - 1);
    return arena_words(&g->memory, "%s", out);
}

exhibit *gallery_add(gallery *g, section where, const char *name, const char *title)
{
    if (g->n == EXHIBITS || g->memory.failed) return NULL;
    exhibit *e = &g->item[g->n++];
    *e = (exhibit){.section = where, .title = title, .figure = {.name = name, .width = HALF, .height = TALL}};
    return e;
}

/* The unit in which a wall-clock axis reads best. */
static double time_unit(const report_data *r, const char **label)
{
    double last = 0.0;
    for (int i = 0; r->seconds && i < r->rows; i++) last = r->seconds[i] > last ? r->seconds[i] : last;
    *label = last > 7200.0  ? "wall-clock time / h"
             : last > 300.0 ? "wall-clock time / min"
             : last < 0.5   ? "wall-clock time / ms"
                            : "wall-clock time / s";
    return last > 7200.0 ? 1.0 / 3600.0 : last > 300.0 ? 1.0 / 60.0 : last < 0.5 ? 1000.0 : 1.0;
}

/* ---------------------------------------------------------------------------- curves against iteration and time */

/* Moves n values into memory of the figures. */
static double *keep(gallery *g, const double *v, int n)
{
    double *out = arena_doubles(&g->memory, n);
    if (out && n > 0) memcpy(out, v, (size_t)n * sizeof *v);
    return out;
}

/* y times scale over x times unit, thinned, without rows that lack either. Only what is thinned is kept: traces are
 * long, and there may be many lines. */
static plot_series line_of(gallery *g, const report_data *r, const double *x, double unit, const double *y,
                           double scale, int limit)
{
    double *a = malloc(2 * ((size_t)r->rows + 1) * sizeof *a), *b = a ? a + r->rows + 1 : NULL;
    plot_series s = {.n = 0};
    if (!a) {
        g->memory.failed = 1;
        return s;
    }
    for (int i = 0; i < r->rows; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i])) continue;
        a[s.n] = unit * x[i];
        b[s.n++] = scale * y[i];
    }
    s.n = plot_thin(a, b, s.n, limit, a, b);
    s.x = keep(g, a, s.n);
    s.y = keep(g, b, s.n);
    free(a);
    return s;
}

/* A vertical line where each phase of the solver, or of tempering, begins; nothing for a trace without phases. Tempering
 * counts its resamplings. */
static void mark_phases(gallery *g, const report_data *r, plot_panel *p, const double *x, double unit)
{
    static const char *const of_solver[] = {"start", "search", "measure", "judge", "done"};
    static const char *const of_tempering[] = {"trial", "measurement"};
    enum { PHASES = sizeof of_solver / sizeof *of_solver, TEMPERING = sizeof of_tempering / sizeof *of_tempering };
    int tempers = report_values(r, "resamplings") != NULL, phases = tempers ? TEMPERING : PHASES;
    const char *const *names = tempers ? of_tempering : of_solver;
    const double *phase = report_values(r, "phase");
    plot_rule *rule = phase ? arena_take(&g->memory, PHASES, sizeof *rule) : NULL;
    int last = -1;
    for (int i = 0; rule && i < r->rows; i++) {
        int now = phase[i] >= 0 && phase[i] < phases ? (int)phase[i] : -1;
        if (now <= last || !isfinite(x[i])) continue;
        rule[p->rules++] = (plot_rule){.x = unit * x[i], .text = names[now]};
        last = now;
    }
    p->rule = rule;
}

/* One panel per clock: iterations, and wall-clock time when it was measured. */
static plot_panel *clock_panels(gallery *g, const report_data *r, exhibit *e, int series)
{
    const char *label;
    int panels = r->seconds ? 2 : 1;
    plot_panel *p = arena_take(&g->memory, panels, sizeof *p);
    for (int i = 0; p && i < panels; i++) {
        p[i].series = arena_take(&g->memory, series, sizeof *p[i].series);
        p[i].x_label = r->unit;
    }
    if (!p || g->memory.failed) return NULL;
    double unit = time_unit(r, &label);
    if (panels == 2) p[1].x_label = label;
    mark_phases(g, r, &p[0], r->trace.column[0].number, 1);
    if (panels == 2) mark_phases(g, r, &p[1], r->seconds, unit);
    e->figure.panel = p;
    e->figure.panels = panels;
    e->figure.width = panels == 2 ? HALF : WIDE;
    return p;
}

/* The next free series of a panel; clock_panels has taken the room. */
static plot_series *slot(plot_panel *p) { return (plot_series *)p->series + p->n++; }

static void add_line(gallery *g, const report_data *r, plot_panel *p, int panels, const double *y, double scale,
                     int limit, plot_series style)
{
    const char *label;
    for (int i = 0; i < panels; i++) {
        const double *x = i == 0 ? r->trace.column[0].number : r->seconds;
        plot_series s = line_of(g, r, x, i == 0 ? 1.0 : time_unit(r, &label), y, scale, limit);
        s.label = style.label;
        s.colour = style.colour;
        s.width = style.width;
        *slot(&p[i]) = s;
    }
}

static void add_levels(gallery *g, const report_extra *extra, const curve *c, double scale, plot_panel *p, int panels)
{
    static const plot_dash dashes[] = {PLOT_DASHED, PLOT_DOTTED};
    static const int colours[] = {PLOT_VERMILION, PLOT_BLACK, PLOT_GREEN};
    int k = 0;
    for (int j = 0; j < extra->levels; j++) {
        if (strcmp(extra->level[j].column, c->column) != 0) continue;
        double *y = arena_doubles(&g->memory, 1);
        if (!y) return;
        y[0] = scale * extra->level[j].value;
        plot_series s = {.kind = PLOT_LEVEL,
                         .label = extra->level[j].label,
                         .colour = colours[k % 3],
                         .dash = dashes[k % 2],
                         .y = y,
                         .n = 1};
        for (int i = 0; i < panels; i++) *slot(&p[i]) = s;
        k++;
    }
}

/* A trace may be thinned; then a row is not an iteration. */
static const char *rows_are(const report_data *r)
{
    const double *k = r->trace.column[0].number;
    if (k[r->rows - 1] - k[0] != r->rows - 1) return "rows of the trace";
    return strcmp(r->unit, "step") == 0 ? "steps" : "iterations";
}

static void say_ess(const report_data *r, exhibit *e)
{
    const double *y = report_values(r, "resampled");
    size_t n = strlen(e->caption), room = sizeof e->caption - n;
    int times = 0;
    for (int i = 0; y && i < r->rows; i++) times += y[i] > 0.0;
    if (y) (void)snprintf(e->caption + n, room, " Resampled in %d of %d %s.", times, r->rows, rows_are(r));
}

/* What the solver did with a network: nothing, trained it, tuned it towards a reward. */
typedef enum { NOT_A_NETWORK, TRAINED, TUNED } solved;
static solved network_of(const report_data *r)
{
    const char *model = json_string_value(json_object_get(r->summary, "model")),
               *objective = json_string_value(json_object_get(r->summary, "objective"));
    if (strcmp(r->unit, "step") != 0 || !model || !objective) return NOT_A_NETWORK;
    if (strcmp(model, "mlp") != 0 && strcmp(model, "stored") != 0) return NOT_A_NETWORK;
    return strcmp(objective, "reward_reverse") == 0 ? TUNED : TRAINED;
}

/* The solver measures a network's loss, and does not estimate it on the way. */
static const char *about(const report_data *r, const curve *c)
{
    solved how = network_of(r);
    if (how == TUNED && c->tuned) return c->tuned;
    return how != NOT_A_NETWORK && c->learnt ? c->learnt : c->about;
}

static void describe(const report_data *r, exhibit *e, const curve *c, const digest *d, int panels)
{
    int n = snprintf(e->caption, sizeof e->caption, "%s: %.5g at the start", about(r, c), d->first);
    (void)snprintf(e->caption + n, sizeof e->caption - (size_t)n,
                   report_has_result(r, c) ? "; the result is at the top of the page."
                                           : ", %.5g at the end, %.5g on average over the last tenth.",
                   d->last, d->mean);
    (void)snprintf(e->alt, sizeof e->alt, "%s against %s%s; %.4g at the start.", c->title, r->unit,
                   panels == 2 ? " and wall-clock time" : "", d->first);
}

/* The sum of the absolute differences of neighbouring values, in units of the range: about 1 when the curve is smooth. */
static double roughness(const report_data *r, const double *y, double range)
{
    double way = 0.0, before = NAN;
    for (int i = 0; i < r->rows; i++) {
        if (isfinite(y[i]) && isfinite(before)) way += fabs(y[i] - before);
        if (isfinite(y[i])) before = y[i];
    }
    return way / range;
}

/* Mean of the finite values around each row. At the start, where curves are steep, the window narrows. */
static double *running_mean(gallery *g, const report_data *r, const double *y, int half)
{
    double *out = arena_doubles(&g->memory, r->rows), *sum = arena_doubles(&g->memory, r->rows),
           *count = arena_doubles(&g->memory, r->rows);
    if (!out || !sum || !count) return NULL;
    for (int i = 0; i < r->rows; i++) {
        int there = isfinite(y[i]) != 0;
        sum[i + 1] = sum[i] + (there ? y[i] : 0.0);
        count[i + 1] = count[i] + there;
    }
    for (int i = 0; i < r->rows; i++) {
        int h = i < half ? i : half, end = i + h < r->rows ? i + h + 1 : r->rows;
        double n = count[end] - count[i - h];
        out[i] = n > 0.0 ? (sum[end] - sum[i - h]) / n : NAN;
    }
    return out;
}

/* A rough curve is drawn pale, with its running mean above it. */
static void add_values(gallery *g, const report_data *r, const curve *c, const digest *d, plot_panel *p, int panels)
{
    const double *y = report_values(r, c->column);
    double scale = report_scale(r, c);
    int half = r->rows / 80;
    int rough = c->noisy && half > 1 && roughness(r, y, (d->max - d->min) / fabs(scale)) > 8.0;
    add_line(g, r, p, panels, y, scale, THIN,
             (plot_series){.colour = rough ? PLOT_RGB(0xA3CBE5) : PLOT_BLUE, .width = rough ? 1.1 : 2.0});
    if (!rough) return;
    const double *mean = running_mean(g, r, y, half);
    char *each = arena_words(&g->memory, "single %s", rows_are(r)),
         *label = arena_words(&g->memory, "running mean over %d %s", 2 * half + 1, rows_are(r));
    if (mean)
        add_line(g, r, p, panels, mean, scale, THIN, (plot_series){.label = label, .colour = PLOT_BLUE, .width = 2.0});
    for (int i = 0; i < panels; i++) ((plot_series *)p[i].series)[0].label = each;
}

/* A column without values has no figure; a constant one is shown in the table only. */
static void add_curve(gallery *g, const report_data *r, const report_extra *extra, const curve *c)
{
    digest d = report_digest(r, c);
    if (d.n < 2 || d.min == d.max || !report_shows(extra, c)) return;
    exhibit *e = gallery_add(g, c->section, c->name, c->title);
    plot_panel *p = e ? clock_panels(g, r, e, 2 + extra->levels) : NULL;
    if (!p) return;
    double scale = report_scale(r, c);
    int share = !strcmp(c->column, "ess") && r->particles > 0;
    for (int i = 0; i < e->figure.panels; i++) {
        p[i].y_label = share ? "ESS / N" : c->label;
        p[i].log_y = c->log && d.min > 0.0 && d.max > 20.0 * d.min;
        if (d.min < 0.5 && (share || !strcmp(c->column, "accept"))) p[i].y_max = 1.03; /* from zero to one */
    }
    add_values(g, r, c, &d, p, e->figure.panels);
    add_levels(g, extra, c, scale, p, e->figure.panels);
    for (int i = 0; i < e->figure.panels && p[0].n > 1; i++)
        if (!p[i].series[0].label) ((plot_series *)p[i].series)[0].label = p[i].y_label;
    describe(r, e, c, &d, e->figure.panels);
    if (!strcmp(c->column, "ess")) say_ess(r, e);
}

/* ---------------------------------------------------------------------------- theta */

/* From dark blue to yellow, readable without colour. */
static int shade(int j, int n)
{
    static const int stop[5][3] = {
        {0x00, 0x22, 0x4E}, {0x35, 0x45, 0x6C}, {0x66, 0x69, 0x70}, {0xA5, 0x9C, 0x74}, {0xE0, 0xC8, 0x50}};
    double t = n > 1 ? 4.0 * j / (n - 1) : 0.0;
    int i = t < 4.0 ? (int)t : 3, rgb = 0;
    for (int k = 0; k < 3; k++) rgb = rgb << 8 | (int)lround(stop[i][k] + (t - i) * (stop[i + 1][k] - stop[i][k]));
    return PLOT_RGB(rgb);
}

static int count_thetas(const report_data *r)
{
    char name[32];
    int p = 0;
    do (void)snprintf(name, sizeof name, "theta_%d", ++p);
    while (report_values(r, name));
    return p - 1;
}

static void add_theta(gallery *g, const report_data *r)
{
    char name[32] = "theta_norm";
    int p = count_thetas(r), norm = p == 0;
    if (r->rows < 2 || (norm && !report_values(r, name))) return;
    exhibit *e = gallery_add(g, SECTION_ENGINE, "theta", "Parameters");
    plot_panel *panel = e ? clock_panels(g, r, e, norm ? 1 : p) : NULL;
    if (!panel) return;
    for (int j = 0; j < (norm ? 1 : p); j++) {
        int few = p <= DISTINCT;
        if (!norm) (void)snprintf(name, sizeof name, "theta_%d", j + 1);
        plot_series s = {.colour = few ? j : shade(j, p), .width = few ? 1.8 : 1.1};
        if (p > 1 && (few || j == 0 || j == p - 1)) s.label = theta_name(g, j + 1);
        add_line(g, r, panel, e->figure.panels, report_values(r, name), 1.0, few ? THIN : THIN / 4, s);
    }
    for (int i = 0; i < e->figure.panels; i++) panel[i].y_label = norm ? "norm of θ" : "θ";
    if (norm)
        (void)snprintf(e->caption, sizeof e->caption, "Euclidean norm of the parameters.");
    else if (p <= DISTINCT)
        (void)snprintf(e->caption, sizeof e->caption, "The parameter%s.", p > 1 ? "s" : "");
    else
        (void)snprintf(e->caption, sizeof e->caption, "The %d parameters, from the first (dark) to the last (light).",
                       p);
    (void)snprintf(e->alt, sizeof e->alt, "Path of the parameters against %s%s.", r->unit,
                   e->figure.panels == 2 ? " and wall-clock time" : "");
}

/* ---------------------------------------------------------------------------- what the solver still has to do */

static void add_left(gallery *g, const report_data *r)
{
    typedef struct {
        const char *column, *label;
        int colour;
    } shown;
    static const shown newton[] = {{"left", "worth of the Newton step", PLOT_BLUE},
                                   {"left_error", "worth of the Monte Carlo error", PLOT_ORANGE},
                                   {"wanted", "what may be left", PLOT_BLACK}};
    static const shown excess[] = {{"left", "above the best of all densities", PLOT_BLUE},
                                   {"left_error", "its error", PLOT_ORANGE},
                                   {"wanted", "what may be left", PLOT_BLACK}};
    const shown *lines = network_of(r) == TUNED ? excess : newton;
    enum { LINES = sizeof newton / sizeof *newton };
    digest d = report_digest(r, &(curve){.column = "left", .sign = 1.0});
    if (d.n < 2) return;
    exhibit *e = gallery_add(g, SECTION_OBJECTIVE, "left", "What is left");
    plot_panel *panel = e ? clock_panels(g, r, e, LINES) : NULL;
    if (!panel) return;
    for (int j = 0; j < LINES; j++)
        add_line(g, r, panel, e->figure.panels, report_values(r, lines[j].column), 1.0, THIN,
                 (plot_series){.label = lines[j].label, .colour = lines[j].colour, .width = 2.0});
    for (int i = 0; i < e->figure.panels; i++) {
        panel[i].y_label = "in the loss";
        panel[i].log_y = d.min > 0.0;
    }
    (void)snprintf(
        e->caption, sizeof e->caption,
        lines == excess
            ? "Measured with fresh particles every 50 updates: how far the loss is above that of the best of all "
              "densities, %.2g at the end, and how much of that may be left."
            : "Measured with particles that did not steer the parameters: what a further Newton step and the Monte "
              "Carlo error are worth in the loss, %.2g at the end, and how much of it may be left.",
        d.last);
    (void)snprintf(e->alt, sizeof e->alt, "What is left of the loss against %s, beside what may be left.", r->unit);
}

/* ---------------------------------------------------------------------------- all of them */

static void add_given(gallery *g, const report_extra *extra)
{
    for (int i = 0; i < extra->figures; i++) {
        const report_figure *f = &extra->figure[i];
        exhibit *e = gallery_add(g, SECTION_OBJECTIVE, f->figure.name, f->title);
        if (!e) return;
        e->figure = f->figure;
        (void)snprintf(e->caption, sizeof e->caption, "%s", f->caption);
        (void)snprintf(e->alt, sizeof e->alt, "%s", f->alt);
    }
}

void report_gallery(gallery *g, const report_data *r, const report_extra *extra)
{
    *g = (gallery){0};
    if (!extra->picture) report_add_cloud(g, r, extra); /* single coordinates of pictures mean little */
    add_given(g, extra);
    for (int i = 0; i < report_curve_count; i++) add_curve(g, r, extra, &report_curves[i]);
    add_left(g, r);
    add_theta(g, r);
}
