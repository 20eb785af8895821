/* images_inside.h: what the readers of single formats share with images.c. */
#ifndef SOSMC_PICTURES_IMAGES_INSIDE_H
#define SOSMC_PICTURES_IMAGES_INSIDE_H

#include <stdio.h>

#include "images.h"

/* The file stands at its first byte. On failure `out` may hold pixels, which the caller frees. */
int image_png_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room);
int image_jpeg_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room);
int image_pnm_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room);

/* Checks the size against the bounds and allocates the pixels of channels, rows and columns, which are set. `least` is
 * the smallest number of file bytes that so many pixels can take. Where only the header is wanted it returns -1, and im->shape
 * becomes -1. */
int image_allocate(image *im, const char *path, uint64_t size, double least, char *error, size_t room);

/* IDX: the file's magic number must be 0x800 | dims; shape and bytes, which the caller frees. */
int idx_read(const char *path, int dims, int64_t *shape, unsigned char **bytes, char *error, size_t room);

#endif
