/* deblurring_figures.h: the pictures of the deblurring experiment. Errors as in files.h. */
#ifndef SOSMC_DEBLURRING_DEBLURRING_FIGURES_H
#define SOSMC_DEBLURRING_DEBLURRING_FIGURES_H

#include "deblurring_cells.h"
#include "view/arena.h"
#include "view/plot.h"

/* theta, MSE and SSIM of the cloud against the iteration, all seeds of both published methods. */
plot_figure deblurring_curves(arena *memory, const deblurring_plan *plan, deblurring_setup setup);
/* Truth, what was seen, and the mean pictures of both methods, in one range of greys: DIR/NAME.png. */
int deblurring_draw_means(const deblurring_plan *plan, deblurring_setup setup, const char *dir, const char *name,
                          char *error, size_t room);
/* The first eight particles of either method at the end, in one range of greys, the last three under magnifiers. */
int deblurring_draw_particles(const deblurring_plan *plan, deblurring_setup setup, const char *dir, const char *name,
                              char *error, size_t room);

/* A circular magnifier on a picture whose pixels are squares of `zoom`: the disc of `radius` pixels around (row, column) is
 * shown twice as large, as far from there as the picture allows; both discs have a ring of this shade. */
typedef struct {
    double row, column, radius, shade;
} deblurring_magnifier;
void deblurring_magnify(const deblurring_magnifier *m, int rows, int columns, int zoom, const double *picture,
                        double *canvas);

#endif
