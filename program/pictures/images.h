/* images.h: pictures and sets of pictures: PNG, JPEG, PGM and PPM in, PNG out; IDX, NPY and folders for training.
 *
 * Formats are recognised by their bytes, never by a name. A length found in a file is compared with the file's size and with
 * the bounds below before it is used, so a hostile file leads to an error message. Errors as in files.h. */
#ifndef SOSMC_PICTURES_IMAGES_H
#define SOSMC_PICTURES_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_PIXELS ((int64_t)1 << 28) /* the largest picture: rows times columns */
#define IMAGE_SET ((int64_t)1 << 32)    /* the largest set: pixels of all pictures and channels */

/* ------------------------------------------------------------------------------------------------ one picture */

typedef struct {
    int channels, rows, columns; /* 1 (grey) or 3 (red, green, blue) */
    int bits;                    /* per sample in the file: 16, or 8 for anything less */
    int alpha;                   /* the file had transparency, and the picture was laid on white */
    int jpeg;                    /* the file was a JPEG, whose compression changes the noise */
    int shape;                   /* of the readers: 1: only the header is wanted; -1: it was read */
    double *pixel; /* channels planes of rows lines, the top one first; 0 (dark) to 255 whatever the bits */
} image;

/* PNG (every kind), JPEG (grey and colour, turned as its EXIF orientation says; no CMYK), PGM and PPM (P2, P3, P5, P6).
 * Values are those of the file: colour profiles and gamma are left alone. */
int image_read(const char *path, image *out, char *error, size_t room);
/* Unless `whole` is set: all but the pixels, from the header. A small file may promise many. */
int image_read_part(const char *path, int whole, image *out, char *error, size_t room);
void image_free(image *im);

/* A mask of a picture of so many pixels: 1 where the file is light, 0 where it is dark; the caller frees. -1: it cannot be
 * read; 1: it has another size or no light pixel, and `error` begins with the path. */
int image_read_mask(const char *path, int rows, int columns, double **mask, char *error, size_t room);
/* Copies a picture and its mask (NULL: ones) with `width` pixels of 0 on every side; the caller frees both, also after -1, which is for
 * lack of memory. */
int image_frame(const image *im, const double *mask, int width, image *out, double **out_mask);

/* `out`: rows * columns greys. Colours become whole greys by the luma of ITU-R 601; the size changes bilinearly with aligned
 * corners and without a low-pass filter. */
void image_grey(const image *im, int rows, int columns, double *out);

/* An 8- or 16-bit PNG. Values from low to high become dark to light, those outside are clipped, NaN is dark; 0 and 255
 * keep a picture as it was read. */
int image_write(const char *path, const image *im, int bits, double low, double high, char *error, size_t room);

/* Many small pictures in one. Lines surround every place; a row's gap stands below it. */
typedef struct {
    int columns;          /* places in a row; what stays empty at the end has the lines' shade */
    int magnify;          /* a pixel becomes a square of so many */
    int line, gap, shade; /* widths in pixels of the file, the gap's beside the line's; shade 0 to 255 */
    const int *gap_after; /* rows of places, from 0, that have a gap below them */
    int gaps;
    double low, high; /* as in image_write */
} image_grid;

/* `value` holds `count` pictures one after the other, each channels planes of rows times columns. */
int image_grid_write(const char *path, const double *value, int64_t count, int channels, int rows, int columns,
                     const image_grid *grid, char *error, size_t room);

/* ------------------------------------------------------------------------------------------------ sets of pictures */

/* count pictures one after the other, each channels planes of rows times columns; one of the two arrays is there. */
typedef struct {
    int64_t count;
    int channels, rows, columns;
    unsigned char *bytes; /* 0 to 255, standing for byte / 127.5 - 1 */
    double *values;       /* from -1 to 1 */
} image_set;

/* IDX (plain or gzipped, 8-bit, three dimensions); NPY, uint8 or float, of shape N,H,W or N,C,H,W with C 1 or 3, or N,D
 * with D a square number (grey); or a folder, whose .png, .jpg, .jpeg, .pgm and .ppm files are taken in the order of
 * their names (as bytes compare) and must agree in size, channels and bits; other files in it are passed over.
 * Numbers of float files must lie in [-1, 1]. */
int images_read(const char *path, image_set *out, char *error, size_t room);
void images_free(image_set *set);
/* The pictures of a folder in the order in which images_read takes them; how many, or -1 with errno set. The caller frees every
 * entry and the list. */
struct dirent;
int images_in_folder(const char *path, struct dirent ***entry);
/* Picture i as numbers from -1 to 1, channels * rows * columns of them. */
void images_copy(const image_set *set, int64_t i, double *out);

/* An IDX file of labels (8-bit, one dimension), plain or gzipped; the caller frees. */
int idx_labels_read(const char *path, unsigned char **label, int64_t *count, char *error, size_t room);

#endif
