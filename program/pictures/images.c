/* images.c: one picture from a file of any known format, and many small ones in a grid.
 *
 * Invariant: pixels are allocated only after rows times columns was compared with IMAGE_PIXELS and with the size of the file,
 * by the smallest number of bytes that the format needs for so many pixels. */
#include "images.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "images_inside.h"

/* ------------------------------------------------------------------------------------------------ reading */

int image_allocate(image *im, const char *path, uint64_t size, double least, char *error, size_t room)
{
    int64_t pixels = (int64_t)im->rows * im->columns;
    if (im->rows < 1 || im->columns < 1 || pixels > IMAGE_PIXELS)
        return files_fail(error, room, "%s has %d x %d pixels; expected at least one and at most %" PRId64, path,
                          im->columns, im->rows, IMAGE_PIXELS);
    if (least > (double)size)
        return files_fail(error, room,
                          "%s is damaged: it promises %d x %d pixels, for which its %" PRIu64 " bytes are too few",
                          path, im->columns, im->rows, size);
    if (im->shape) return im->shape = -1;
    im->pixel = malloc((size_t)pixels * (size_t)im->channels * sizeof *im->pixel);
    if (im->pixel) return 0;
    return files_fail(error, room, "no memory for the %d x %d pixels of %s", im->columns, im->rows, path);
}

void image_free(image *im)
{
    free(im->pixel);
    *im = (image){0};
}

static int is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int read_known(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room)
{
    enum { HEAD = 8 };
    static const unsigned char png[HEAD] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, jpeg[] = {0xFF, 0xD8, 0xFF};
    unsigned char head[HEAD] = {0};
    size_t n = fread(head, 1, HEAD, file);
    if (ferror(file) || fseek(file, 0, SEEK_SET)) return files_cannot("read", path, errno, error, room);
    if (n == HEAD && !memcmp(head, png, HEAD)) return image_png_read(file, path, size, out, error, room);
    if (n >= sizeof jpeg && !memcmp(head, jpeg, sizeof jpeg))
        return image_jpeg_read(file, path, size, out, error, room);
    if (n >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7' && (is_space(head[2]) || head[2] == '#'))
        return image_pnm_read(file, path, size, out, error, room);
    return files_fail(error, room, "%s is no picture that can be read; expected PNG, JPEG, PGM or PPM", path);
}

static double grey_at(const image *im, int row, int column)
{
    size_t plane = (size_t)im->rows * (size_t)im->columns;
    const double *p = im->pixel + (size_t)row * (size_t)im->columns + (size_t)column;
    return im->channels == 1 ? *p : floor((19595 * p[0] + 38470 * p[plane] + 7471 * p[2 * plane]) / 65536 + 0.5);
}

/* The place among n inputs of output i of m: the input before it, and how far behind that it is. */
static int place_of(int i, int m, int n, double *behind)
{
    double at = m > 1 ? (double)i * (n - 1) / (m - 1) : 0;
    int before = (int)at < n - 1 ? (int)at : n > 1 ? n - 2 : 0;
    *behind = at - before;
    return before;
}

void image_grey(const image *im, int rows, int columns, double *out)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double down, right;
            int r = place_of(i, rows, im->rows, &down), c = place_of(j, columns, im->columns, &right);
            int below = r + (im->rows > 1), beside = c + (im->columns > 1);
            double above = (1 - right) * grey_at(im, r, c) + right * grey_at(im, r, beside);
            double under = (1 - right) * grey_at(im, below, c) + right * grey_at(im, below, beside);
            out[(size_t)i * (size_t)columns + (size_t)j] = (1 - down) * above + down * under;
        }
}

int image_read_part(const char *path, int whole, image *out, char *error, size_t room)
{
    uint64_t size = 0;
    *out = (image){.shape = !whole};
    FILE *file = files_open(path, &size, error, room);
    if (!file) return -1;
    int status = read_known(file, path, size, out, error, room);
    (void)fclose(file);
    if (out->shape < 0) status = out->shape = 0;
    if (status) image_free(out);
    return status;
}

int image_read(const char *path, image *out, char *error, size_t room)
{
    return image_read_part(path, 1, out, error, room);
}

/* ------------------------------------------------------------------------------------------------ masks */

int image_read_mask(const char *path, int rows, int columns, double **mask, char *error, size_t room)
{
    image im;
    int light = 0;
    *mask = NULL;
    if (image_read(path, &im, error, room)) return -1;
    size_t pixels = (size_t)im.rows * (size_t)im.columns;
    for (size_t j = 0; j < pixels; j++) light |= (im.pixel[j] = im.pixel[j] >= 128) > 0;
    int fits = im.rows == rows && im.columns == columns;
    if (!fits)
        (void)files_fail(error, room, "%s has %d x %d pixels; expected %d x %d as the picture has", path, im.columns,
                         im.rows, columns, rows);
    else if (!light)
        (void)files_fail(error, room, "%s is dark all over; expected white where pixels were seen", path);
    if (fits && light)
        *mask = im.pixel;
    else
        image_free(&im);
    return *mask ? 0 : 1;
}

/* Planes of rows lines, or of ones (NULL), in the middle of larger planes of zeros; the caller frees. */
static double *framed(const double *from, size_t planes, size_t rows, size_t columns, size_t width)
{
    size_t wide = columns + 2 * width, high = rows + 2 * width;
    double *to = calloc(planes * high * wide, sizeof *to);
    for (size_t i = 0; to && i < planes * rows; i++)
        for (size_t j = 0; j < columns; j++)
            to[(i / rows * high + i % rows + width) * wide + width + j] = from ? from[i * columns + j] : 1;
    return to;
}

int image_frame(const image *im, const double *mask, int width, image *out, double **out_mask)
{
    size_t rows = (size_t)im->rows, columns = (size_t)im->columns;
    *out = *im;
    out->rows += 2 * width;
    out->columns += 2 * width;
    out->pixel = framed(im->pixel, (size_t)im->channels, rows, columns, (size_t)width);
    *out_mask = framed(mask, 1, rows, columns, (size_t)width);
    return out->pixel && *out_mask ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------ grids */

/* Gaps that stand above row `row` of places. */
static int64_t gaps_above(const image_grid *g, int64_t row)
{
    int64_t n = 0;
    for (int i = 0; i < g->gaps; i++) n += g->gap_after[i] < row;
    return n;
}

static int check_grid(const char *path, int64_t count, int channels, int rows, int columns, const image_grid *g,
                      char *error, size_t room)
{
    const char *wrong = (channels != 1 && channels != 3)       ? "channels must be 1 or 3"
                        : count < 1 || rows < 1 || columns < 1 ? "there must be a picture, and a pixel in it"
                        : g->columns < 1 || g->magnify < 1     ? "columns and magnification must be at least 1"
                        : g->line < 0 || g->gap < 0            ? "lines and gaps must not be negative"
                        : g->shade < 0 || g->shade > 255       ? "the shade must be from 0 to 255"
                        : !(isfinite(g->high - g->low) && g->low < g->high) ? "low must be below high"
                                                                            : NULL;
    return wrong ? files_fail(error, room, "cannot write %s: %s", path, wrong) : 0;
}

/* The top left pixel of the place of picture i. */
static void place(const image_grid *g, int64_t i, int rows, int columns, int64_t *top, int64_t *left)
{
    int64_t row = i / g->columns, column = i % g->columns;
    *top = g->line + row * ((int64_t)rows * g->magnify + g->line) + gaps_above(g, row) * g->gap;
    *left = g->line + column * ((int64_t)columns * g->magnify + g->line);
}

/* A plane, rows times columns, magnified to where `out` points. */
static void paint(const double *plane, int rows, int columns, const image_grid *g, double *out, int64_t stride)
{
    double scale = 255 / (g->high - g->low);
    for (int64_t r = 0; r < (int64_t)rows * g->magnify; r++)
        for (int64_t c = 0; c < (int64_t)columns * g->magnify; c++)
            out[r * stride + c] = (plane[r / g->magnify * columns + c / g->magnify] - g->low) * scale;
}

int image_grid_write(const char *path, const double *value, int64_t count, int channels, int rows, int columns,
                     const image_grid *g, char *error, size_t room)
{
    if (check_grid(path, count, channels, rows, columns, g, error, room)) return -1;
    /* Sizes first as doubles, which do not overflow: below the bound the whole numbers do not either. */
    int64_t lines = 1 + (count - 1) / g->columns, gaps = gaps_above(g, lines - 1);
    double high = g->line + (double)lines * ((double)rows * g->magnify + g->line) + (double)gaps * g->gap;
    double wide = g->line + (double)g->columns * ((double)columns * g->magnify + g->line);
    if (!(high * wide <= (double)IMAGE_PIXELS))
        return files_fail(error, room,
                          "cannot write %s: the grid would have %.0f x %.0f pixels; at most %" PRId64 " are written",
                          path, wide, high, IMAGE_PIXELS);
    image im = {.channels = channels, .rows = (int)high, .columns = (int)wide, .bits = 8};
    int64_t pixels = (int64_t)im.rows * im.columns, top, left;
    im.pixel = malloc((size_t)pixels * (size_t)channels * sizeof *im.pixel);
    if (!im.pixel) return files_fail(error, room, "no memory for the %d x %d pixels of %s", im.columns, im.rows, path);
    for (int64_t p = 0; p < pixels * channels; p++) im.pixel[p] = g->shade;
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < channels; k++) {
            place(g, i, rows, columns, &top, &left);
            paint(value + (i * channels + k) * rows * columns, rows, columns, g,
                  im.pixel + k * pixels + top * im.columns + left, im.columns);
        }
    int status = image_write(path, &im, 8, 0, 255, error, room);
    free(im.pixel);
    return status;
}
