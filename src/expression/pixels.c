/* pixels.c: statistics of pictures over a batch, pixel by pixel for all particles at once: rows of particles are read in
 * the order in which they lie, and the running values of a chunk stay in the nearest cache.
 *
 * Invariant: every particle's arithmetic is the same sequence of exactly rounded operations, pixel 0 first, whatever the
 * width of the vectors; the levels differ in nothing but what the compiler makes of the same loops. */
#include "pixels.h"

#include <math.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* In this form, comparing with the bound first, each line is one instruction on x86, and NaN stays NaN. */
ALWAYS_INLINE double held(double x, double bound)
{
    x = -bound > x ? -bound : x;
    return bound < x ? bound : x;
}

ALWAYS_INLINE void add_held(const double *restrict x, double bound, size_t n, double *restrict out)
{
    for (size_t i = 0; i < n; i++) out[i] += held(x[i], bound);
}

ALWAYS_INLINE void add_weighted(const double *restrict x, double weight, double bound, size_t n, double *restrict out)
{
    for (size_t i = 0; i < n; i++) out[i] += weight * held(x[i], bound);
}

/* Welford: mean and sum of squared deviations of the first k + 1 pixels out of those of the first k. */
ALWAYS_INLINE void add_deviation(const double *restrict x, double share, double bound, size_t n, double *restrict mean,
                                 double *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        double pixel = held(x[i], bound), off = pixel - mean[i];
        mean[i] += off * share;
        out[i] += off * (pixel - mean[i]);
    }
}

ALWAYS_INLINE void add_difference(const double *restrict x, const double *restrict y, double bound, size_t n,
                                  double *restrict out)
{
    for (size_t i = 0; i < n; i++) out[i] += fabs(held(x[i], bound) - held(y[i], bound));
}

typedef struct {
    const sosmc_picture_shape *shape;
    const double *x;
    size_t ld, n;
    double bound;
    double *out;
} pass;

ALWAYS_INLINE const double *pixel(const pass *p, int channel, int row, int column)
{
    size_t rows = (size_t)p->shape->rows, columns = (size_t)p->shape->columns;
    return p->x + (((size_t)channel * rows + (size_t)row) * columns + (size_t)column) * p->ld;
}

ALWAYS_INLINE void divide(const pass *p, double divisor)
{
    for (size_t i = 0; i < p->n; i++) p->out[i] /= divisor;
}

ALWAYS_INLINE void block_mean(const pass *p, const pixels_statistic *s)
{
    for (int c = 0; c < p->shape->channels; c++)
        for (int row = s->row; row < s->row_end; row++)
            for (int column = s->column; column < s->column_end; column++)
                add_held(pixel(p, c, row, column), p->bound, p->n, p->out);
    divide(p, (double)p->shape->channels * (s->row_end - s->row) * (s->column_end - s->column));
}

ALWAYS_INLINE void deviation(const pass *p, size_t pixels)
{
    _Alignas(64) double mean[PIXELS_PARTICLES] = {0};
    for (size_t j = 0; j < pixels; j++)
        add_deviation(p->x + j * p->ld, 1 / (double)(j + 1), p->bound, p->n, mean, p->out);
    divide(p, (double)pixels);
    for (size_t i = 0; i < p->n; i++) p->out[i] = sqrt(p->out[i]);
}

ALWAYS_INLINE void variation(const pass *p)
{
    const sosmc_picture_shape *s = p->shape;
    double pairs = (double)s->channels * ((s->rows - 1.0) * s->columns + s->rows * (s->columns - 1.0));
    for (int c = 0; c < s->channels; c++)
        for (int row = 0; row < s->rows; row++)
            for (int column = 0; column < s->columns; column++) {
                const double *here = pixel(p, c, row, column);
                if (row > 0) add_difference(here, pixel(p, c, row - 1, column), p->bound, p->n, p->out);
                if (column > 0) add_difference(here, pixel(p, c, row, column - 1), p->bound, p->n, p->out);
            }
    if (pairs > 0) divide(p, pairs);
}

ALWAYS_INLINE void masked(const pass *p, size_t pixels)
{
    double size = 0;
    for (size_t j = 0; j < pixels; j++) {
        double weight = p->shape->mask[j];
        if (weight == 0) continue;
        size += fabs(weight);
        add_weighted(p->x + j * p->ld, weight, p->bound, p->n, p->out);
    }
    divide(p, size);
}

ALWAYS_INLINE void evaluate(const pass *p, const pixels_statistic *s)
{
    size_t pixels = (size_t)p->shape->channels * (size_t)p->shape->rows * (size_t)p->shape->columns;
    memset(p->out, 0, p->n * sizeof *p->out);
    switch (s->kind) {
    case PIXELS_MEAN: block_mean(p, s); break;
    case PIXELS_SD: deviation(p, pixels); break;
    case PIXELS_TV: variation(p); break;
    case PIXELS_MASK: masked(p, pixels); break;
    }
}

static void evaluate_plain(const pass *p, const pixels_statistic *s) { evaluate(p, s); }
#if defined(__x86_64__) && defined(__GNUC__)
#define AT(features) __attribute__((target(features)))
AT("avx2") static void evaluate_avx2(const pass *p, const pixels_statistic *s) { evaluate(p, s); }
AT("avx512f,avx512dq,avx512vl") static void evaluate_avx512(const pass *p, const pixels_statistic *s)
{
    evaluate(p, s);
}
#endif

void sosmc_i_pixels_evaluate(const sosmc_simd *simd, const sosmc_picture_shape *shape,
                             const pixels_statistic *statistic, const double *x, size_t ld, size_t n, double *out)
{
    const pass p = {
        .shape = shape, .x = x, .ld = ld, .n = n, .bound = shape->clamp > 0 ? shape->clamp : INFINITY, .out = out};
#if defined(__x86_64__) && defined(__GNUC__)
    const char *name = sosmc_simd_name(simd);
    if (!strcmp(name, "avx512")) {
        evaluate_avx512(&p, statistic);
        return;
    }
    if (!strcmp(name, "avx2")) {
        evaluate_avx2(&p, statistic);
        return;
    }
#endif
    evaluate_plain(&p, statistic);
}
