/* deblurring_pictures.h: what is blurred in the deblurring experiment: the photograph of the test data, where it is, and
 * pictures drawn here, so that the experiment runs anywhere. */
#ifndef SOSMC_DEBLURRING_DEBLURRING_PICTURES_H
#define SOSMC_DEBLURRING_DEBLURRING_PICTURES_H

#include <stddef.h>

typedef enum {
    DEBLURRING_GUITAR, /* read */
    DEBLURRING_FLOWER, /* drawn: flat petals on a ground with grain, in the place of a photograph that is not at hand */
    DEBLURRING_SHAPES, /* drawn: piecewise constant, what total variation is for */
    DEBLURRING_TEXTURE, /* drawn: gratings and smooth noise, what it is not for */
    DEBLURRING_PICTURES
} deblurring_picture;

extern const char *const deblurring_picture_names[DEBLURRING_PICTURES];

enum { DEBLURRING_GUITAR_ROWS = 292, DEBLURRING_GUITAR_COLUMNS = 119 };

/* rows * columns values from 0 to 255; the same picture at every size, up to its grain. Not for the guitar. */
void deblurring_draw(deblurring_picture what, int rows, int columns, double *out);

/* DIR/guitar_292x119.f64: raw little-endian doubles, row after row. Errors as in files.h. */
int deblurring_read_guitar(const char *dir, double *out, char *error, size_t room);
int deblurring_has_guitar(const char *dir);

#endif
