/* ebm2d_figures_inside.h: what the figures of the 2-D experiment share. All memory of a figure hangs on one pool, freed at
 * the end whatever happened; a function that gets none leaves an empty series, and the pool remembers. */
#ifndef CLI_EBM2D_FIGURES_INSIDE_H
#define CLI_EBM2D_FIGURES_INSIDE_H

#include "ebm2d_figures.h"
#include "view/arena.h"

#define RED PLOT_RGB(0xE4003A) /* for what stands out; no method has it */

/* Draws unless memory was short, and frees the pool either way. */
int ebm2d_finish(pool *p, const plot_figure *f, const char *dir, char **svg, char *error, size_t room);

/* The two methods look the same in all figures; others take what is left. */
int ebm2d_colour(const char *name, int place);

/* Mean and 1.96 standard errors over the seeds, at each of n places; a NaN is left out. */
void ebm2d_summarise(const double *v, int n, int seeds, double *mean, double *low, double *high);

#endif
