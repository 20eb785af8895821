/* deblur_estimate.h: what `sosmc deblur` must know before it starts and the user need not say: how strong the noise is, what
 * missing pixels might look like, and how strong the prior will be about. */
#ifndef CLI_DEBLUR_ESTIMATE_H
#define CLI_DEBLUR_ESTIMATE_H

#include <sosmc/imaging.h>

#include "files/images.h"

/* Pixels whose value depends on others at most so far away, along either axis. */
int blur_reach(const sosmc_blur *blur);

/* The standard deviation of the noise on a blurred picture, from the frequencies the blur leaves least of (docs/imaging.md
 * NOISE). A constant picture has none: 0. Fails with a sentence where too few pixels stand together. */
int noise_estimate(const image *seen, const sosmc_blur *blur, double *sigma, char *error, size_t room);
/* Rounding to whole steps of the file is noise of this standard deviation: no picture has less. */
double noise_floor(const image *seen);

/* Missing pixels (mask 0) take the values of a membrane that is fixed at the others. */
int fill_missing(image *seen, const double *mask, char *error, size_t room);

/* The theta at which e^theta TV(x) / d = 1 for a quick least-squares reconstruction x of d numbers. */
int theta_estimate(const image *seen, const sosmc_blur *blur, double sigma, double *theta, char *error, size_t room);

/* The most likely picture under that theta, nearly: where the particles start. As many numbers as `seen` has. */
int start_estimate(const image *seen, const sosmc_blur *blur, double sigma, double theta, double *x, char *error,
                   size_t room);

#endif
