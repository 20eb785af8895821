/* evaluation_figures.c: reward, excess over the optimum (or loss) and log-likelihood against iteration, as far as a run's
 * evaluation.csv has them. */
#include "evaluation_figures.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int finite_values(const double *y, int n)
{
    int count = 0;
    for (int i = 0; y && i < n; i++) count += isfinite(y[i]) != 0;
    return count;
}

/* The column of a quantity; NULL when it has no value at all. */
static const double *values(const evaluation_gallery *g, const char *column)
{
    const csv_column *c = csv_find(&g->table, column);
    return c && finite_values(c->number, (int)g->table.rows) > 0 ? c->number : NULL;
}

static evaluation_figure *add_figure(evaluation_gallery *g, const char *name, const char *title, const char *label)
{
    evaluation_figure *f = &g->item[g->n++];
    f->title = title;
    f->panel = (plot_panel){.x_label = "iteration", .y_label = label, .series = f->series};
    f->figure = (plot_figure){.name = name, .panel = &f->panel, .panels = 1, .width = 1080, .height = 330};
    return f;
}

static plot_series *add_values(const evaluation_gallery *g, evaluation_figure *f, const char *column, plot_series style)
{
    const double *y = values(g, column);
    if (!y) return NULL;
    plot_series *s = &f->series[f->panel.n++];
    *s = style;
    s->n = style.kind == PLOT_LEVEL ? 1 : (int)g->table.rows;
    s->x = g->table.column[0].number;
    s->y = style.kind == PLOT_LEVEL ? y + g->table.rows - 1 : y;
    return s;
}

/* Two standard errors either side; without errors (a single chain) the marks stand alone. */
static void add_fresh(evaluation_gallery *g, evaluation_figure *f)
{
    const double *y = values(g, "fresh"), *spread = values(g, "fresh_error");
    size_t n = (size_t)g->table.rows;
    plot_series *s = add_values(
        g, f, "fresh",
        (plot_series){.kind = PLOT_MARKS, .label = "fresh chains, ± 2 standard errors", .colour = PLOT_GREEN});
    if (!s) return;
    g->bars = spread ? malloc(2 * n * sizeof(double)) : NULL;
    if (!g->bars) {
        s->label = "fresh chains";
        return;
    }
    for (size_t i = 0; i < n; i++) {
        g->bars[i] = y[i] - 2 * spread[i];
        g->bars[n + i] = y[i] + 2 * spread[i];
    }
    s->low = g->bars;
    s->high = g->bars + n;
}

static void draw_reward(evaluation_gallery *g)
{
    const double *y = values(g, "reward"), *plain = values(g, "particle_reward"),
                 *weighted = values(g, "weighted_reward");
    int n = (int)g->table.rows, same = 1, exact = y != NULL;
    if (!exact) y = values(g, "fresh");
    if (!y) return;
    evaluation_figure *f = exact ? add_figure(g, "exact-reward", "Reward by quadrature", "mean reward")
                                 : add_figure(g, "fresh-reward", "Fresh reward", "mean reward");
    (void)add_values(g, f, "reward", (plot_series){.kind = PLOT_MARKS, .label = "quadrature", .colour = PLOT_BLUE});
    (void)add_values(g, f, "particle_reward", (plot_series){.label = "particles", .colour = PLOT_ORANGE});
    for (int i = 0; plain && weighted && i < n; i++) same &= fabs(plain[i] - weighted[i]) <= 1e-12 * fabs(plain[i]);
    if (!same)
        (void)add_values(g, f, "weighted_reward",
                         (plot_series){.label = "particles, weighted", .colour = PLOT_VERMILION, .dash = PLOT_DOTTED});
    add_fresh(g, f);
    (void)add_values(g, f, "best_reward",
                     (plot_series){.kind = PLOT_LEVEL, .label = "optimum", .colour = PLOT_BLACK, .dash = PLOT_DASHED});
    (void)add_values(g, f, "ref_reward",
                     (plot_series){.kind = PLOT_LEVEL, .label = "reference", .colour = PLOT_GREY, .dash = PLOT_DOTTED});
    (void)snprintf(
        f->caption, sizeof f->caption,
        exact ? "Mean reward under the model after each evaluated iteration, by quadrature: %.5g at the start. "
                "Particles and fresh chains only estimate it."
              : "Mean reward of fresh chains of the model after each evaluated iteration: %.5g at the start. "
                "The particles' own mean stands beside it.",
        y[0]);
    (void)snprintf(f->alt, sizeof f->alt, "Mean reward %s against iteration; %.4g at the start.",
                   exact ? "by quadrature" : "of fresh chains", y[0]);
}

/* A single line, logarithmic when it spans more than a factor of 20. */
static void draw_line(evaluation_gallery *g, const char *column, const char *name, const char *title, const char *about)
{
    const double *y = values(g, column);
    int n = (int)g->table.rows;
    double low = INFINITY, high = -INFINITY;
    if (!y) return;
    evaluation_figure *f = add_figure(g, name, title, column);
    (void)add_values(g, f, column, (plot_series){.kind = PLOT_MARKS, .colour = PLOT_BLUE});
    for (int i = 0; i < n; i++) {
        low = fmin(low, y[i]);
        high = fmax(high, y[i]);
    }
    f->panel.log_y = low > 0 && high > 20 * low;
    (void)snprintf(f->caption, sizeof f->caption, "%s: %.5g at the start; the result is at the top of the page.", about,
                   y[0]);
    (void)snprintf(f->alt, sizeof f->alt, "%s against iteration; %.4g at the start.", title, y[0]);
}

int evaluation_figures(evaluation_gallery *g, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    csv_options options = {.header = CSV_HEADER_YES, .max_rows = INT_MAX};
    *g = (evaluation_gallery){.n = 0};
    if (files_join(path, dir, "evaluation.csv", error, room)) return -1;
    if (access(path, F_OK) != 0) return 0;
    if (csv_read(path, &options, &g->table, error, room)) return -1;
    if (strcmp(g->table.column[0].name, "iteration") != 0 || !g->table.column[0].number) {
        evaluation_figures_free(g);
        return files_fail(error, room, "%s is damaged: its first column is not the numbers of the iterations", path);
    }
    if (g->table.rows < 2) return 0;
    draw_reward(g);
    if (values(g, "excess"))
        draw_line(g, "excess", "excess", "Excess loss", "Loss above that of the best of all densities, by quadrature");
    else if (!values(g, "loglik")) /* whose negative the loss is */
        draw_line(g, "loss", "exact-loss", "Loss by quadrature", "Loss by quadrature");
    draw_line(g, "loglik", "log-likelihood", "Log-likelihood", "Mean log density of the data points, by quadrature");
    return 0;
}

void evaluation_figures_free(evaluation_gallery *g)
{
    csv_free(&g->table);
    free(g->bars);
    *g = (evaluation_gallery){.n = 0};
}
