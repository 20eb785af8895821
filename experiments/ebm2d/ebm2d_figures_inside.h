/* ebm2d_figures_inside.h: what the figures of the 2-D experiment share. All memory of a figure belongs to one
 * arena. A function whose allocation fails returns an empty series; the arena's `failed` is then set. */
#ifndef SOSMC_EBM2D_EBM2D_FIGURES_INSIDE_H
#define SOSMC_EBM2D_EBM2D_FIGURES_INSIDE_H

#include "ebm2d_figures.h"

#define RED PLOT_RGB(0xE4003A) /* for what stands out; no method has it */

/* The two methods look the same in all figures; others take what is left. */
int ebm2d_colour(const char *name, int place);

/* Mean and 1.96 standard errors over the seeds, at each of n places; a NaN is left out. */
void ebm2d_summarise(const double *v, int n, int seeds, double *mean, double *low, double *high);

#endif
