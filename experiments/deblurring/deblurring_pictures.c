/* deblurring_pictures.c: pictures to blur. A drawn one is a function of the place in the unit square, sampled at the centres of
 * pixels without smoothing. Invariant: values stay within 0 and 255. */
#include "deblurring_pictures.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "pictures/images.h"

const char *const deblurring_picture_names[DEBLURRING_PICTURES] = {"guitar", "flower", "shapes", "texture"};

static const double TURN = 6.28318530717958647692;

/* ---------------------------------------------------------------------------- drawing */

/* From 0 to 1, a fixed number for every pair of whole ones. */
static double hashed(int i, int j)
{
    uint64_t h = (uint64_t)(uint32_t)i * 0x9E3779B97F4A7C15U ^ (uint64_t)(uint32_t)j * 0xC2B2AE3D27D4EB4FU;
    h = (h ^ (h >> 31)) * 0xD6E8FEB86659FD93U;
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93U;
    return (double)(h >> 11) * 0x1p-53;
}

/* Numbers on a lattice of `cells` by `cells`, with smooth transitions between them. */
static double value_noise(double r, double c, int cells)
{
    double y = r * cells, x = c * cells, fy = y - floor(y), fx = x - floor(x);
    int i = (int)floor(y), j = (int)floor(x);
    fy = fy * fy * (3 - 2 * fy);
    fx = fx * fx * (3 - 2 * fx);
    double above = (1 - fx) * hashed(i, j) + fx * hashed(i, j + 1);
    double below = (1 - fx) * hashed(i + 1, j) + fx * hashed(i + 1, j + 1);
    return (1 - fy) * above + fy * below;
}

static int in_disc(double r, double c, double r0, double c0, double radius)
{
    return (r - r0) * (r - r0) + (c - c0) * (c - c0) <= radius * radius;
}

/* A convex polygon, its corners in order, as pairs of r and c. */
static int in_polygon(double r, double c, const double *corner, int corners)
{
    int left = 0, right = 0;
    for (int k = 0; k < corners; k++) {
        const double *a = corner + 2 * (size_t)k, *b = corner + 2 * (size_t)((k + 1) % corners);
        double side = (b[0] - a[0]) * (c - a[1]) - (b[1] - a[1]) * (r - a[0]);
        left += side >= 0;
        right += side <= 0;
    }
    return left == corners || right == corners;
}

static double shapes(double r, double c)
{
    static const double triangle[] = {0.62, 0.08, 0.95, 0.18, 0.80, 0.48},
                        kite[] = {0.08, 0.62, 0.22, 0.50, 0.44, 0.66, 0.20, 0.80};
    static const double steps[] = {20, 60, 100, 140, 180, 220};
    if (in_disc(r, c, 0.27, 0.27, 0.09)) return 30;
    if (in_disc(r, c, 0.27, 0.27, 0.19)) return 235;
    if (in_polygon(r, c, triangle, 3)) return 200;
    if (in_polygon(r, c, kite, 4)) return 15;
    if (r > 0.55 && r < 0.92 && c > 0.55 && c < 0.91) return steps[(int)((c - 0.55) / 0.06)];
    return r > 0.5 ? 110 : 75;
}

static double texture(double r, double c)
{
    double fine = 0.5 + 0.5 * sin(TURN * (7 * c + 3 * r)), coarse = 0.5 + 0.5 * sin(TURN * (2 * r * r + 5 * r));
    double grain = 0.6 * value_noise(r, c, 9) + 0.4 * value_noise(r, c, 23);
    return r < 0.5 ? (c < 0.5 ? 30 + 190 * fine : 20 + 220 * grain)
                   : (c < 0.5 ? 240 * grain * coarse : 60 + 140 * coarse);
}

/* Draws twelve petals around a dark centre, a stem and two leaves. */
static double flower(double r, double c)
{
    static const double leaf[] = {0.78, 0.52, 0.66, 0.66, 0.62, 0.88, 0.72, 0.76};
    double y = r - 0.34, x = 0.75 * (c - 0.5), radius = sqrt(y * y + x * x), angle = atan2(y, x);
    double edge = 0.20 + 0.08 * cos(12 * angle);
    if (radius < 0.075) return 45 + 30 * value_noise(r, c, 40);
    if (radius < edge) return radius < 0.16 ? 225 : 195 + 25 * cos(24 * angle);
    if (fabs(c - 0.5 - 0.04 * sin(5 * r)) < 0.025 && r > 0.34) return 120;
    if (in_polygon(r, c, leaf, 4) || in_polygon(r, 1 - c, leaf, 4)) return 140 + 20 * sin(TURN * 18 * (r - c));
    return 40 + 50 * value_noise(r, c, 12) + 20 * r;
}

void deblurring_draw(deblurring_picture what, int rows, int columns, double *out)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double r = (i + 0.5) / rows, c = (j + 0.5) / columns;
            double value = what == DEBLURRING_FLOWER    ? flower(r, c)
                           : what == DEBLURRING_TEXTURE ? texture(r, c)
                                                        : shapes(r, c);
            out[(size_t)i * (size_t)columns + (size_t)j] = fmax(0, fmin(255, value));
        }
}

/* ---------------------------------------------------------------------------- reading */

int deblurring_find_photograph(const char *dir, deblurring_picture what, char path[FILES_PATH])
{
    static const char *const names[2][4] = {{"guitar_292x119.f64", "guitar.png", "guitar.jpg", "guitar.jpeg"},
                                            {"flower_292x150.f64", "flower.png", "flower.jpg", "flower.jpeg"}};
    for (int i = 0; i < 4; i++)
        if (files_join(path, dir, names[what][i], NULL, 0) == 0 && access(path, R_OK) == 0) return i == 0 ? 1 : 2;
    (void)files_join(path, dir, names[what][0], NULL, 0);
    return 0;
}

static double read_double(const unsigned char *byte)
{
    uint64_t bits = files_little_endian(byte, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int deblurring_read_photograph(const char *dir, deblurring_picture what, double *out, char *error, size_t room)
{
    int rows = DEBLURRING_PHOTOGRAPH_ROWS, columns = DEBLURRING_COLUMNS(what);
    const size_t pixels = (size_t)rows * (size_t)columns, wanted = 8 * pixels;
    char path[FILES_PATH], *bytes = NULL;
    size_t size = 0, e = 0;
    image im;
    if (deblurring_find_photograph(dir, what, path) == 2) {
        if (image_read(path, &im, error, room)) return -1;
        image_grey(&im, rows, columns, out);
        image_free(&im);
        return 0;
    }
    if (files_read(path, wanted + 1, &bytes, &size, error, room)) return -1;
    for (; size == wanted && e < pixels; e++) {
        out[e] = read_double((const unsigned char *)bytes + 8 * e);
        if (!(out[e] >= 0 && out[e] <= 255)) break;
    }
    free(bytes);
    if (size != wanted)
        return files_fail(error, room, "%s has %zu bytes; expected %zu: %d x %d doubles", path, size, wanted, rows,
                          columns);
    if (e < pixels)
        return files_fail(error, room, "%s: pixel %zu is %g; expected a value from 0 to 255", path, e, out[e]);
    return 0;
}
