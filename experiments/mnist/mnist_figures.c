/* mnist_figures.c: curves and grids of the experiment with pictures.
 *
 * Curves show what runs left, thinned, never anything smoothed. The networks of a picture grid share starts and noise,
 * under seeds of our own. Invariant: grey means the same in all grids, -1 black and 1 white. */
#include "mnist_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures/images.h"
#include "mnist_chains.h"
#include "mnist_record.h"
#include "files/directory.h"

enum { CURVE = 400, SERIES = 8, MOMENTS = 11, EIGHT = 8 };

/* ---------------------------------------------------------------------------- curves */

static const int colours[MNIST_METHODS] = {PLOT_BLACK, PLOT_VERMILION};

/* A copy of at most CURVE values. */
static plot_series thinned(arena *p, const double *x, const double *y, int n, plot_series style)
{
    double *to_x = arena_doubles(p, n), *to_y = arena_doubles(p, n);
    if (!to_x || !to_y) return style;
    style.n = plot_thin(x, y, n, CURVE, to_x, to_y);
    style.x = to_x;
    style.y = to_y;
    return style;
}

static void put(plot_panel *panel, plot_series *room, plot_series s)
{
    if (s.n > 0 && panel->n < SERIES) room[panel->n++] = s;
}

static void bars(arena *p, plot_series *s, const double *error, double factor)
{
    double *low = arena_doubles(p, s->n), *high = arena_doubles(p, s->n);
    if (!low || !high) return;
    for (int i = 0; i < s->n; i++) {
        low[i] = s->y[i] - factor * error[i];
        high[i] = s->y[i] + factor * error[i];
    }
    s->low = low;
    s->high = high;
}

static void fresh(arena *p, const mnist_cell *c, plot_panel *panel, plot_series *room)
{
    plot_series s = {.kind = PLOT_MARKS,
                     .label = mnist_method_names[c->method],
                     .colour = colours[c->method],
                     .n = c->evaluations,
                     .x = c->value[MNIST_K],
                     .y = c->value[MNIST_FRESH]};
    bars(p, &s, c->value[MNIST_FRESH_ERROR], 1.96);
    put(panel, room, s);
}

/* Column `column` of a recorded table of rows 0, `step`, ... */
static plot_series recorded(arena *p, const double *table, int rows, int width, int column, double step, double divisor,
                            plot_series style)
{
    double *x = arena_doubles(p, rows), *y = arena_doubles(p, rows);
    if (!x || !y) return style;
    for (int i = 0; i < rows; i++) {
        x[i] = step * i;
        y[i] = table[i * width + column] / divisor;
        if (!isnan(y[i])) style.n = rows;
    }
    style.x = x;
    style.y = y;
    return style;
}

static plot_series recorded_style(const mnist_cell *c)
{
    static const char *const names[MNIST_METHODS] = {"ImpDiff, recorded", "SOSMC-ULA, recorded"};
    return (plot_series){.kind = PLOT_CROSSES,
                         .label = names[c->method],
                         .colour = c->method == MNIST_SOSMC ? PLOT_BLUE : PLOT_GREY,
                         .width = 1.2};
}

static void particle(arena *p, const mnist_cell *c, plot_panel *panel, plot_series *room)
{
    int weights = c->method == MNIST_SOSMC;
    put(panel, room,
        thinned(p, c->series[MNIST_STEP], c->series[MNIST_SCORE], c->steps,
                (plot_series){.label = weights ? "SOSMC-ULA, weighted" : "ImpDiff", .colour = colours[c->method]}));
    if (weights)
        put(panel, room,
            (plot_series){.kind = PLOT_DOTS,
                          .label = "SOSMC-ULA, without weights",
                          .colour = PLOT_ORANGE,
                          .n = c->clouds,
                          .x = c->cloud[MNIST_CLOUD_K],
                          .y = c->cloud[MNIST_PLAIN]});
}

static void share_of_ess(arena *p, const mnist_cell *c, plot_panel *panel, plot_series *room)
{
    double *share = arena_doubles(p, c->steps);
    if (!share || c->method != MNIST_SOSMC) return;
    for (int i = 0; i < c->steps; i++) share[i] = c->series[MNIST_ESS][i] / c->set.particles;
    put(panel, room,
        thinned(p, c->series[MNIST_STEP], share, c->steps,
                (plot_series){.label = mnist_method_names[c->method], .colour = colours[c->method]}));
}

/* The standard deviation of a free random walk: from the variance of the first row and that of all noise added since. */
static void deviation(arena *p, const mnist_cell *c, plot_panel *panel, plot_series *room)
{
    double *walk = arena_doubles(p, c->clouds), variance = 0, at = 0;
    put(panel, room,
        (plot_series){.kind = PLOT_MARKS,
                      .label = mnist_method_names[c->method],
                      .colour = colours[c->method],
                      .n = c->clouds,
                      .x = c->cloud[MNIST_CLOUD_K],
                      .y = c->cloud[MNIST_PIXEL_SD]});
    if (!walk || c->clouds == 0) return;
    variance = c->cloud[MNIST_PIXEL_SD][0] * c->cloud[MNIST_PIXEL_SD][0];
    for (int i = 0, t = 0; i < c->clouds; i++) { /* the step may have been adapted: noise adds up over iterations */
        for (; t < c->steps && c->series[MNIST_STEP][t] < c->cloud[MNIST_CLOUD_K][i]; t++)
            at += 2 * c->series[MNIST_GAMMA][t] * c->set.noise * c->set.noise;
        walk[i] = sqrt(variance + at);
    }
    put(panel, room,
        (plot_series){.label = "free random walk",
                      .colour = PLOT_GREY,
                      .dash = PLOT_DASHED,
                      .n = c->clouds,
                      .x = c->cloud[MNIST_CLOUD_K],
                      .y = walk});
}

static void add_recorded(arena *p, mnist_curve what, const mnist_plan *plan, const mnist_cell *c, plot_panel *panel,
                         plot_series *room)
{
    mnist_curves k;
    plot_series style = recorded_style(c);
    mnist_known_curves(plan, c, &k);
    if (!k.known) return;
    if (what == MNIST_CURVE_FRESH) put(panel, room, recorded(p, &k.fresh[0][0], MNIST_RECORDED, 2, 0, 50, 1, style));
    if (what == MNIST_CURVE_PARTICLE)
        put(panel, room, recorded(p, &k.cloud[0][0], MNIST_RECORDED_CLOUDS, 5, 0, 100, 1, style));
    if (what == MNIST_CURVE_ESS)
        put(panel, room,
            recorded(p, &k.cloud[0][0], MNIST_RECORDED_CLOUDS, 5, 4, 100, mnist_known_of(plan, c).particles, style));
}

plot_figure mnist_draw_curves(arena *memory, mnist_curve what, const mnist_panel *panel, int panels,
                              const mnist_plan *record, const char *name)
{
    static void (*const draw[MNIST_CURVE_KINDS])(arena *, const mnist_cell *, plot_panel *,
                                                 plot_series *) = {fresh, particle, share_of_ess, deviation};
    static const char *const labels[MNIST_CURVE_KINDS] = {"fresh reward", "reward of the particles", "ESS / N",
                                                          "standard deviation of pixels"};
    plot_panel *all = arena_take(memory, panels, sizeof *all);
    for (int i = 0; all && i < panels; i++) {
        plot_series *s = arena_take(memory, SERIES, sizeof *s);
        all[i] = (plot_panel){.title = panel[i].title, .x_label = "iteration", .y_label = labels[what], .series = s};
        for (int m = 0; s && m < MNIST_METHODS; m++) {
            if (!panel[i].cell[m]) continue;
            draw[what](memory, panel[i].cell[m], &all[i], s);
            if (record) add_recorded(memory, what, record, panel[i].cell[m], &all[i], s);
        }
    }
    return (plot_figure){.name = name, .panel = all, .panels = panels, .columns = panels > 2 ? 2 : panels};
}

/* ---------------------------------------------------------------------------- grids */

static int write_grid(const double *x, int64_t count, int columns, int gap_after, const char *dir, const char *name,
                      char *error, size_t room)
{
    char path[FILES_PATH], file[MNIST_NAME + 32];
    image_grid grid = {.columns = columns,
                       .magnify = 2,
                       .line = 2,
                       .gap = 6,
                       .shade = 128,
                       .gap_after = &gap_after,
                       .gaps = gap_after >= 0,
                       .low = -1,
                       .high = 1};
    (void)snprintf(file, sizeof file, "%s.png", name);
    if (directory_make(dir, error, room) || files_join(path, dir, file, error, room)) return -1;
    return image_grid_write(path, x, count, 1, MNIST_SIDE, MNIST_SIDE, &grid, error, room);
}

int mnist_draw_grid(const mnist_sample *above, const mnist_sample *below, const char *dir, const char *name,
                    char *error, size_t room)
{
    size_t picture = MNIST_PIXELS, most = below ? MNIST_FEW / 2 : MNIST_FEW;
    size_t n = (size_t)above->chains < most ? (size_t)above->chains : most;
    double *x = malloc(2 * n * picture * sizeof *x);
    if (!x) return files_fail(error, room, "out of memory for a grid of pictures");
    memcpy(x, above->x, n * picture * sizeof *x);
    if (below) memcpy(x + n * picture, below->x, n * picture * sizeof *x);
    int rc = write_grid(x, (int64_t)(below ? 2 * n : n), EIGHT, below ? (int)n / EIGHT - 1 : -1, dir, name, error,
                        room);
    free(x);
    return rc;
}

/* ---------------------------------------------------------------------------- the same noise under several networks */

/* Steps of the published figures, or fewer. */
static int steps_of(const mnist_findings *f, int published)
{
    int most = f->plan->scale.figure_steps;
    return most > 0 && most < published ? most : published;
}

static int run_kept(const mnist_findings *f, const mnist_chains *chains, const char *model, const char *name,
                    double *out, char *error, size_t room)
{
    char cache[FILES_PATH], relative[MNIST_NAME + 64];
    (void)snprintf(relative, sizeof relative, "studies/%s.npz", name);
    return files_join(cache, f->plan->out, relative, error, room) ||
                   mnist_chains_run(chains, model, cache, out, error, room)
               ? -1
               : 0;
}

/* A row of `out` for the pre-trained network, then one for each cell. */
static int follow(const mnist_findings *f, const mnist_chains *chains, const mnist_cell *const *cell, int cells,
                  const char *name, double *out, char *error, size_t room)
{
    char model[FILES_PATH], words[MNIST_NAME], file[MNIST_NAME + 32];
    size_t row = mnist_chains_count(chains) * MNIST_PIXELS;
    for (int r = 0; r <= cells; r++) {
        (void)snprintf(model, sizeof model, "%s", f->plan->model);
        (void)snprintf(words, sizeof words, "pretrained");
        if (r > 0) mnist_cell_name(cell[r - 1], words, sizeof words);
        (void)snprintf(file, sizeof file, "%s-%s", name, words);
        if ((r > 0 && mnist_cell_model(f->plan, cell[r - 1], model, error, room)) ||
            run_kept(f, chains, model, file, out + (size_t)r * row, error, room))
            return -1;
    }
    return 0;
}

/* 0-based steps 0, 24, 49, ..., 255 of 256: eleven places, evenly spaced. */
static void moments(int steps, int64_t at[MOMENTS])
{
    static const int64_t published[MOMENTS] = {0, 24, 49, 75, 101, 126, 152, 178, 203, 229, 255};
    for (int i = 0; i < MOMENTS; i++)
        at[i] = 1 + (steps == 256 ? published[i] : (int64_t)i * (steps - 1) / (MOMENTS - 1));
}

int mnist_draw_trajectories(const mnist_findings *f, const mnist_cell *const *cell, int cells, mnist_reward reward,
                            char numbers[MNIST_NAME], const char *dir, const char *name, char *error, size_t room)
{
    int steps = steps_of(f, 256), rows = 1 + cells;
    size_t used = 0;
    int64_t at[MOMENTS];
    double first[MNIST_PIXELS], *x = malloc((size_t)(rows * MOMENTS * MNIST_PIXELS) * sizeof *x);
    mnist_chains begin = {.chains = 1, .steps = steps, .seed = reward == MNIST_HALF ? 999 : 4, .threads = 1};
    mnist_chains onward = {
        .chains = 1, .steps = steps, .seed = 1999, .threads = 1, .start = first, .snapshots = MOMENTS, .at = at};
    moments(steps, at);
    for (int i = 0; i < MOMENTS; i++)
        used += (size_t)snprintf(numbers + used, MNIST_NAME - used, "%s%d", i ? ", " : "", (int)at[i]);
    int rc = x ? 0 : files_fail(error, room, "out of memory for a grid of pictures");
    if (rc == 0) rc = mnist_chains_run(&begin, f->plan->model, NULL, first, error, room);
    if (rc == 0) rc = follow(f, &onward, cell, cells, name, x, error, room);
    if (rc == 0) rc = write_grid(x, rows * MOMENTS, MOMENTS, -1, dir, name, error, room);
    free(x);
    return rc;
}

int mnist_draw_samples(const mnist_findings *f, const mnist_cell *const *cell, int cells, mnist_reward reward,
                       const char *dir, const char *name, char *error, size_t room)
{
    int steps = steps_of(f, 512), rows = 1 + cells;
    double *first = malloc((size_t)(EIGHT * MNIST_PIXELS) * sizeof *first);
    double *x = malloc((size_t)(rows * EIGHT * MNIST_PIXELS) * sizeof *x);
    mnist_chains begin = {.chains = EIGHT, .steps = steps, .seed = 1, .threads = f->threads};
    mnist_chains onward = {.chains = EIGHT,
                           .steps = steps,
                           .seed = reward == MNIST_BRIGHT ? 1999 : 1009,
                           .threads = f->threads,
                           .start = first};
    int rc = x && first ? 0 : files_fail(error, room, "out of memory for a grid of pictures");
    if (rc == 0) rc = mnist_chains_run(&begin, f->plan->model, NULL, first, error, room);
    if (rc == 0) rc = follow(f, &onward, cell, cells, name, x, error, room);
    if (rc == 0) rc = write_grid(x, rows * EIGHT, EIGHT, -1, dir, name, error, room);
    free(first);
    free(x);
    return rc;
}
