/* theory.c: the functions by which a check fills in its statement: rows of tables, faults, controls, a figure. Invariant: no
 * failure is silent. A table that found no memory, or a row with the wrong number of cells, sets `failed`, and the command
 * then ends with an error. */
#include "theory.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/interrupt.h"
#include "terminal/say.h"

enum { LINE = THEORY_COLUMNS * THEORY_CELL };

/* ---------------------------------------------------------------------------- tables */

static int make_room(theory_table *t)
{
    if (t->columns == 0)
        while (t->columns < THEORY_COLUMNS && t->head[t->columns]) t->columns++;
    if (t->columns == 0) return -1;
    if (t->rows < t->room) return 0;
    int room = t->room ? 2 * t->room : 16;
    void *cell = realloc(t->cell, (size_t)room * (size_t)t->columns * sizeof *t->cell);
    if (cell) t->cell = cell;
    void *mark = realloc(t->mark, (size_t)room * sizeof *t->mark);
    if (mark) t->mark = mark;
    if (!cell || !mark) return -1;
    t->room = room;
    return 0;
}

static void add_row(theory_table *t, page_mark mark, char *line)
{
    if (make_room(t)) {
        t->failed = 1;
        return;
    }
    char(*cell)[THEORY_CELL] = t->cell + (size_t)t->rows * (size_t)t->columns;
    char *rest = line;
    int n = 0;
    for (; rest && n < t->columns; n++) {
        const char *text = strsep(&rest, "|");
        (void)snprintf(cell[n], THEORY_CELL, "%s", text);
    }
    if (n < t->columns || rest) t->failed = 1;
    for (; n < t->columns; n++) cell[n][0] = 0;
    t->mark[t->rows++] = mark;
}

void theory_marked_row(theory_table *t, page_mark mark, const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    add_row(t, mark, line);
}

/* ---------------------------------------------------------------------------- statements */

void theory_fault(theory_statement *s, const char *format, ...)
{
    va_list args;
    if (s->faults++ > 0) return;
    va_start(args, format);
    (void)vsnprintf(s->fault, sizeof s->fault, format, args);
    va_end(args);
}

void theory_control(theory_statement *s, int noticed, const char *format, ...)
{
    size_t used = strlen(s->control);
    va_list args;
    s->controls++;
    s->unnoticed += !noticed;
    if (used + 32 > sizeof s->control) return;
    if (used) used += (size_t)snprintf(s->control + used, sizeof s->control - used, "; ");
    va_start(args, format);
    (void)vsnprintf(s->control + used, sizeof s->control - used, format, args);
    va_end(args);
    used = strlen(s->control);
    (void)snprintf(s->control + used, sizeof s->control - used, noticed ? " (noticed)" : " (NOT NOTICED)");
}

int theory_fail(theory_statement *s, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    return interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : code;
}

plot_series *theory_figure(theory_statement *s, plot_panel panel, int n, const char *caption)
{
    plot_panel *p = arena_take(&s->memory, 1, sizeof *p);
    plot_series *series = arena_take(&s->memory, n, sizeof *series);
    if (!p || !series) return NULL;
    panel.series = series;
    panel.n = n;
    *p = panel;
    s->figure = (plot_figure){.panel = p, .panels = 1};
    s->figure_caption = caption;
    return series;
}

static void free_table(theory_table *t)
{
    free(t->cell);
    free(t->mark);
}

void theory_statement_free(theory_statement *s)
{
    free_table(&s->table);
    free_table(&s->second);
    arena_free(&s->memory);
    *s = (theory_statement){.id = NULL};
}

/* ---------------------------------------------------------------------------- numbers */

double theory_bound(int comparisons)
{
    const double each = 1e-5 / (comparisons > 1 ? comparisons : 1);
    double low = 0, high = 20;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (erfc(middle / sqrt(2)) > each)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double theory_score(double mean, double error, int values, double expected)
{
    double t = (mean - expected) / error, nu = values - 1;
    if (!(error > 0)) return mean == expected ? 0 : INFINITY;
    return copysign((8 * nu + 1) / (8 * nu + 3) * sqrt(nu * log1p(t * t / nu)), t);
}

double theory_slope(const double *x, const double *y, int n, double *constant)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < n; i++) {
        double u = log(x[i]), v = log(y[i]);
        sx += u;
        sy += v;
        sxx += u * u;
        sxy += u * v;
    }
    double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
    if (constant) *constant = exp((sy - slope * sx) / n);
    return slope;
}
