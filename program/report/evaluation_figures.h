/* evaluation_figures.h: the figures of a run's evaluation.csv. */
#ifndef SOSMC_REPORT_EVALUATION_FIGURES_H
#define SOSMC_REPORT_EVALUATION_FIGURES_H

#include "files/files.h"
#include "view/plot.h"

enum { EVALUATION_FIGURES = 3, EVALUATION_SERIES = 6 };
typedef struct {
    plot_figure figure;
    const char *title;
    char caption[600], alt[300];
    plot_panel panel;
    plot_series series[EVALUATION_SERIES];
} evaluation_figure;
/* Figures point into it: it must stay where it is. */
typedef struct {
    evaluation_figure item[EVALUATION_FIGURES];
    int n;
    csv_table table;
    double *bars; /* ends of the error bars of the fresh chains */
} evaluation_gallery;

/* Reward, excess over the optimum (or loss) and log-likelihood against iteration, as far as DIR/evaluation.csv has
 * them; without the file, none. */
int evaluation_figures(evaluation_gallery *g, const char *dir, char *error, size_t room);
void evaluation_figures_free(evaluation_gallery *g);

#endif
