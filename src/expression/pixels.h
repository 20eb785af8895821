/* pixels.h: statistics of pictures, one number per particle: means of blocks, spread, roughness, a user's mask.
 *
 * A picture is a particle whose coordinates are channel after channel, row after row (the top one first), column after
 * column. Every statistic sees pixels held to [-clamp, clamp], and a NaN among those it looks at becomes its value. */
#ifndef SOSMC_EXPRESSION_PIXELS_H
#define SOSMC_EXPRESSION_PIXELS_H

#include <stddef.h>

#include <sosmc/expression.h>

enum { PIXELS_PARTICLES = 256 }; /* at most so many at a time */

typedef enum {
    PIXELS_MEAN, /* over the block, in all channels */
    PIXELS_SD,   /* population standard deviation over all pixels of all channels */
    /* mean over all pairs of neighbours, left and right or above and below in the same channel, of the absolute
     * difference; 0 where a picture has no two pixels side by side. Pixels at opposite borders are no neighbours */
    PIXELS_TV,
    PIXELS_MASK /* sum_j mask_j x_j / sum_j |mask_j|; where the mask is 0 it does not look */
} pixels_kind;

typedef struct {
    pixels_kind kind;
    int row, row_end, column, column_end; /* the block of PIXELS_MEAN: from 0, the ends not included */
} pixels_statistic;

/* out[i] for particles 0 to n-1, pixel j of particle i being x[j * ld + i]; one pass over the pixels. The bits depend
 * neither on the vector level nor on n and ld. */
void sosmc_i_pixels_evaluate(const sosmc_simd *simd, const sosmc_picture_shape *shape,
                             const pixels_statistic *statistic, const double *x, size_t ld, size_t n, double *out);

#endif
