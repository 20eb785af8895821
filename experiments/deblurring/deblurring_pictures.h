/* deblurring_pictures.h: what is blurred in the deblurring experiment: the photograph of the test data, where it is, and
 * pictures drawn here, so that the experiment runs anywhere. */
#ifndef SOSMC_DEBLURRING_DEBLURRING_PICTURES_H
#define SOSMC_DEBLURRING_DEBLURRING_PICTURES_H

#include <stddef.h>

#include "files/files.h"

typedef enum {
    DEBLURRING_GUITAR,  /* read */
    DEBLURRING_FLOWER,  /* read; without the photograph drawn: flat petals on a ground with grain */
    DEBLURRING_SHAPES,  /* drawn: piecewise constant, what total variation is for */
    DEBLURRING_TEXTURE, /* drawn: gratings and smooth noise, what it is not for */
    DEBLURRING_PICTURES
} deblurring_picture;

extern const char *const deblurring_picture_names[DEBLURRING_PICTURES];

enum { DEBLURRING_PHOTOGRAPH_ROWS = 292 };
#define DEBLURRING_COLUMNS(what) ((what) == DEBLURRING_FLOWER ? 150 : 119) /* of a photograph */

/* rows * columns values from 0 to 255; the same picture at every size, up to its grain. Not for the guitar. */
void deblurring_draw(deblurring_picture what, int rows, int columns, double *out);

/* The guitar or the flower: DIR/guitar_292x119.f64 or DIR/flower_292x150.f64 (raw little-endian doubles, row after row), or else
 * guitar or flower as .png, .jpg or .jpeg, which becomes grey and gets that size. Errors as in files.h. */
int deblurring_read_photograph(const char *dir, deblurring_picture what, double *out, char *error, size_t room);
/* Its path; 0: it is not there. */
int deblurring_find_photograph(const char *dir, deblurring_picture what, char path[FILES_PATH]);

#endif
