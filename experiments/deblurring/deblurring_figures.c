/* deblurring_figures.c: curves, pictures and magnified particles. Curves show what the runs left, never anything smoothed.
 * Invariant: within one figure a grey means the same value everywhere. */
#include "deblurring_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/squares.h"
#include "pictures/images.h"
#include "files/directory.h"

enum { PANELS = 3, METHODS = 2, SIDE_BY_SIDE = 4, PICTURE_WIDTH = 180 };

/* The colours of the published figures. */
static const int colours[METHODS] = {PLOT_RGB(0x003f5c), PLOT_RGB(0xbc5090)};

/* ---------------------------------------------------------------------------- curves */

/* The first seed stands in the legend, the others are thin. */
static plot_series curve(const deblurring_cell *c, deblurring_value value)
{
    return (plot_series){.label = c->seed == 0 ? deblurring_recipes[c->method].name : NULL,
                         .colour = colours[c->method],
                         .width = c->seed == 0 ? 0 : 0.7,
                         .n = c->rows,
                         .x = c->value[DEBLURRING_K],
                         .y = c->value[value]};
}

plot_figure deblurring_curves(arena *memory, const deblurring_plan *plan, deblurring_setup setup)
{
    static const deblurring_value values[PANELS] = {DEBLURRING_THETA, DEBLURRING_MSE, DEBLURRING_SSIM};
    static const char *const labels[PANELS] = {"θ", "MSE of the cloud", "SSIM of the cloud"};
    double *level = arena_doubles(memory, 1);
    plot_panel *panel = arena_take(memory, PANELS, sizeof *panel);
    for (int i = 0; level && panel && i < PANELS; i++) {
        plot_series *s = arena_take(memory, METHODS * DEBLURRING_SEEDS + 1, sizeof *s);
        panel[i] = (plot_panel){.x_label = "iteration", .y_label = labels[i], .series = s};
        if (values[i] == DEBLURRING_SSIM) {
            panel[i].y_min = -0.05;
            panel[i].y_max = 1.02;
        }
        for (int k = 0; s && k < plan->cells; k++)
            if (plan->cell[k].setup == setup && plan->cell[k].method <= DEBLURRING_P && plan->cell[k].rows > 0)
                s[panel[i].n++] = curve(&plan->cell[k], values[i]);
        *level = log(0.03);
        if (s && values[i] == DEBLURRING_THETA)
            s[panel[i].n++] = (plot_series){
                .kind = PLOT_LEVEL, .label = "log 0.03", .colour = PLOT_GREY, .dash = PLOT_DASHED, .n = 1, .y = level};
    }
    return (plot_figure){.name = arena_words(memory, "curves-%s", deblurring_settings[setup].name),
                         .panel = panel,
                         .panels = PANELS,
                         .width = 360,
                         .height = 280};
}

/* ---------------------------------------------------------------------------- pictures */

static void widen(const double *x, size_t n, double *low, double *high)
{
    for (size_t e = 0; e < n; e++) {
        *low = fmin(*low, x[e]);
        *high = fmax(*high, x[e]);
    }
}

static int zoom_of(int columns) { return columns >= PICTURE_WIDTH ? 1 : (PICTURE_WIDTH + columns - 1) / columns; }

static int write_row(const char *dir, const char *name, const double *x, int count, int rows, int columns,
                     image_grid grid, char *error, size_t room)
{
    char path[FILES_PATH], file[DEBLURRING_NAME + 8];
    double low = INFINITY, high = -INFINITY;
    widen(x, (size_t)count * (size_t)rows * (size_t)columns, &low, &high);
    grid.line = 4;
    grid.shade = 255;
    grid.low = low;
    grid.high = high > low ? high : low + 1;
    (void)snprintf(file, sizeof file, "%s.png", name);
    if (directory_make(dir, error, room) || files_join(path, dir, file, error, room)) return -1;
    return image_grid_write(path, x, count, 1, rows, columns, &grid, error, room);
}

/* Both published methods of a setup, first seed; 0: they are not there. */
static int pair_of(const deblurring_plan *plan, deblurring_setup setup, const deblurring_cell *pair[METHODS])
{
    for (int m = 0; m < METHODS; m++) {
        pair[m] = deblurring_find(plan, setup, (deblurring_method)m, 0);
        if (!pair[m] || !pair[m]->mean) return 0;
    }
    return 1;
}

int deblurring_draw_means(const deblurring_plan *plan, deblurring_setup setup, const char *dir, const char *name,
                          char *error, size_t room)
{
    const deblurring_cell *pair[METHODS];
    int rows, columns;
    if (!pair_of(plan, setup, pair)) return files_fail(error, room, "figure %s has no runs", name);
    const double *truth = deblurring_truth(plan, pair[0], &rows, &columns);
    size_t pixels = (size_t)rows * (size_t)columns;
    double *x = malloc(SIDE_BY_SIDE * pixels * sizeof *x);
    double *scratch = malloc(deblurring_see_scratch(plan, pair[0]) * sizeof *scratch);
    int rc = x && scratch ? 0 : files_fail(error, room, "no memory to draw figure %s", name);
    if (rc == 0) {
        memcpy(x, truth, pixels * sizeof *x);
        deblurring_see(plan, pair[0], x + pixels, scratch);
        for (size_t m = 0; m < METHODS; m++) memcpy(x + (2 + m) * pixels, pair[m]->mean, pixels * sizeof *x);
        image_grid grid = {.columns = SIDE_BY_SIDE, .magnify = zoom_of(columns)};
        rc = write_row(dir, name, x, SIDE_BY_SIDE, rows, columns, grid, error, room);
    }
    free(x);
    free(scratch);
    return rc;
}

/* ---------------------------------------------------------------------------- particles */

void deblurring_magnify(const deblurring_magnifier *m, int rows, int columns, int zoom, const double *picture,
                        double *canvas)
{
    const double times = 2;
    double ring = 0.6, large = fmin(times * m->radius, 0.5 * fmin(rows, columns) - 2 * ring);
    double inset_row = m->row < 0.5 * rows ? rows - large - ring : large + ring;
    double inset_column = m->column < 0.5 * columns ? columns - large - ring : large + ring;
    for (int i = 0; i < rows * zoom; i++)
        for (int j = 0; j < columns * zoom; j++) {
            double r = (i + 0.5) / zoom, c = (j + 0.5) / zoom, row = r, column = c;
            double inside = root_of_squares(r - inset_row, c - inset_column) - large;
            double around = root_of_squares(r - m->row, c - m->column) - large / times;
            if (inside < 0) {
                row = m->row + (r - inset_row) / times;
                column = m->column + (c - inset_column) / times;
            }
            int at_row = (int)fmax(0, fmin(rows - 1, floor(row))), at = (int)fmax(0, fmin(columns - 1, floor(column)));
            int on_ring = fabs(inside) < ring || (inside > 0 && fabs(around) < 0.5 * ring);
            canvas[(size_t)i * (size_t)(columns * zoom) + (size_t)j] = on_ring ? m->shade
                                                                               : picture[at_row * columns + at];
        }
}

/* Where the published figures look, as shares of the picture, in the last three of the eight columns. */
static deblurring_magnifier magnifier_of(deblurring_setup setup, int column, int rows, int columns, double shade)
{
    static const double guitar[3][3] = {{79, 220, 17}, {55, 200, 17}, {79, 195, 17}};
    static const double flower[3][3] = {{35, 100, 17}, {127, 20, 20}, {15, 125, 15}};
    const double *at = setup == DEBLURRING_B ? flower[column - 5] : guitar[column - 5];
    double width = setup == DEBLURRING_B ? 150 : 119, height = 292;
    return (deblurring_magnifier){.row = (at[1] + 0.5) / height * rows,
                                  .column = (at[0] + 0.5) / width * columns,
                                  .radius = at[2] / width * columns,
                                  .shade = shade};
}

static void enlarge(int rows, int columns, int zoom, const double *picture, double *canvas)
{
    for (int i = 0; i < rows * zoom; i++)
        for (int j = 0; j < columns * zoom; j++)
            canvas[(size_t)i * (size_t)(columns * zoom) + (size_t)j] = picture[i / zoom * columns + j / zoom];
}

int deblurring_draw_particles(const deblurring_plan *plan, deblurring_setup setup, const char *dir, const char *name,
                              char *error, size_t room)
{
    const deblurring_cell *pair[METHODS];
    int rows, columns;
    if (!pair_of(plan, setup, pair)) return files_fail(error, room, "figure %s has no runs", name);
    (void)deblurring_truth(plan, pair[0], &rows, &columns);
    int zoom = zoom_of(columns), shown = pair[0]->shown_count;
    size_t pixels = (size_t)rows * (size_t)columns, large = pixels * (size_t)zoom * (size_t)zoom;
    double low = INFINITY, high = -INFINITY;
    double *canvas = malloc(METHODS * (size_t)shown * large * sizeof *canvas);
    if (!canvas) return files_fail(error, room, "no memory to draw figure %s", name);
    for (int m = 0; m < METHODS; m++) widen(pair[m]->shown, (size_t)shown * pixels, &low, &high);
    for (int m = 0; m < METHODS; m++)
        for (int i = 0; i < shown; i++) {
            const double *x = pair[m]->shown + (size_t)i * pixels;
            double *to = canvas + (size_t)(m * shown + i) * large;
            deblurring_magnifier glass = magnifier_of(setup, i < 5 ? 5 : i, rows, columns, high);
            if (i < 5)
                enlarge(rows, columns, zoom, x, to);
            else
                deblurring_magnify(&glass, rows, columns, zoom, x, to);
        }
    image_grid grid = {.columns = shown, .magnify = 1};
    int rc = write_row(dir, name, canvas, METHODS * shown, rows * zoom, columns * zoom, grid, error, room);
    free(canvas);
    return rc;
}
