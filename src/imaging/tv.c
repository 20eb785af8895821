/* tv.c: the value of the total variation, the exact proximal map of one line, and the published two-dimensional map.
 *
 * One line, argmin_v 1/2 |v - z|^2 + w sum |v_{k+1} - v_k|, by dynamic programming (N. Johnson, J. Comput. Graph. Stat.
 * 22, 2013). Let f_k(x) be the best value of the first k terms when v_k = x. Its derivative is increasing and piecewise
 * linear; passing to the next pixel clips it to [-w, w] (the cost of a jump) and adds x - z. It is kept as a list of
 * knots, each with the change of slope and offset there, that loses knots at its ends and gains one at each: amortised
 * O(1). Where the clipping happened (low_k, high_k) is all that the way back needs: v_k = clamp(v_{k+1}, low_k,
 * high_k).
 *
 * A line is first cut where the outcome is plain (sosmc_i_tv_line).
 *
 * Invariant: slopes count pixels and are exact; no sum runs longer than the pixels that have merged. */
#include <math.h>
#include <sosmc/imaging.h>

#include "base/arithmetic.h"
#include "imaging.h"
#include "tv_line.h"

double sosmc_tv(sosmc_tv_kind kind, int rows, int columns, const double *x)
{
    STANDARD_ARITHMETIC;
    return sosmc_i_imaging(NULL)->tv(kind == SOSMC_TV_ISOTROPIC, rows, columns, x);
}

/* ------------------------------------------------------------------------------------------------ one line */

/* The derivative of f_k: knots first..last from left to right. */
typedef struct {
    line_knot *knot;
    int first, last;
    double w;
} derivative;

typedef struct {
    int stride;
    double w;
    const double *z;
    double *u;
} pixel_line;

/* Adds x - z, finds where the derivative is -w and makes that the first knot. */
static inline double clip_low(derivative *f, double z)
{
    double slope = 1, offset = -z - f->w;
    int k = f->first;
    while (k <= f->last && slope * f->knot[k].x + offset <= -f->w) {
        slope += f->knot[k].slope;
        offset += f->knot[k].offset;
        k++;
    }
    double x = (-f->w - offset) / slope;
    f->first = k - 1;
    f->knot[k - 1] = (line_knot){x, slope, offset + f->w};
    return x;
}

static inline double clip_high(derivative *f, double z)
{
    double slope = 1, offset = -z + f->w;
    int k = f->last;
    while (k > f->first && slope * f->knot[k].x + offset >= f->w) {
        slope -= f->knot[k].slope;
        offset -= f->knot[k].offset;
        k--;
    }
    double x = (f->w - offset) / slope;
    f->last = k + 1;
    f->knot[k + 1] = (line_knot){x, -slope, f->w - offset};
    return x;
}

/* Where the derivative, with the last x - z added, is zero. */
static double minimum(const derivative *f, double z)
{
    double slope = 1, offset = -z - f->w;
    for (int k = f->first; k <= f->last && slope * f->knot[k].x + offset <= 0; k++) {
        slope += f->knot[k].slope;
        offset += f->knot[k].offset;
    }
    return -offset / slope;
}

/* Pixels first..last of a line between two edges that carry the flux `enters` and `leaves`. */
static void solve_part(const pixel_line *l, int first, int last, double enters, double leaves, line_room *room)
{
    size_t stride = (size_t)l->stride;
    const double *z = l->z + (size_t)first * stride;
    double *u = l->u + (size_t)first * stride, *low = room->low, *high = room->high, w = l->w;
    int n = last - first + 1;
    double begin = z[0] - enters, end = z[(size_t)(n - 1) * stride] + leaves;
    derivative f = {.knot = room->knot, .first = n, .last = n + 1, .w = w};
    low[0] = begin - w;
    high[0] = begin + w;
    f.knot[n] = (line_knot){low[0], 1, w - begin};
    f.knot[n + 1] = (line_knot){high[0], -1, w + begin};
    for (int k = 1; k < n - 1; k++) {
        double here = z[(size_t)k * stride];
        low[k] = clip_low(&f, here);
        high[k] = clip_high(&f, here);
    }
    double v = minimum(&f, end);
    u[(size_t)(n - 1) * stride] = v;
    for (int k = n - 2; k >= 0; k--) {
        v = v < low[k] ? low[k] : v;
        v = v > high[k] ? high[k] : v;
        u[(size_t)k * stride] = v;
    }
}

/* No pixel moves by more than 2 w, so an edge along which z rises or falls by more than 4 w keeps its direction and
 * carries the flux w or -w: the line falls apart there, for small w mostly into single pixels. */
void sosmc_i_tv_line(int n, int stride, double w, const double *z, double *u, line_room *room)
{
    pixel_line l = {.stride = stride, .w = w, .z = z, .u = u};
    double enters = 0, here = n > 0 ? z[0] : 0, next = here;
    for (int k = 0, first = 0; k < n; k++, here = next) {
        double leaves = 0;
        if (k + 1 < n) {
            next = z[(size_t)(k + 1) * (size_t)stride];
            if (fabs(next - here) <= 4 * w) continue;
            leaves = next > here ? w : -w;
        }
        if (k == first) {
            u[(size_t)k * (size_t)stride] = here + (leaves - enters);
        } else {
            solve_part(&l, first, k, enters, leaves, room);
        }
        first = k + 1;
        enters = leaves;
    }
}

line_room sosmc_i_tv_line_room(int n, double *scratch)
{
    size_t knots = 2 * (size_t)n + 2;
    return (line_room){.knot = (line_knot *)(void *)scratch,
                       .low = scratch + LINE_KNOT_DOUBLES * knots,
                       .high = scratch + LINE_KNOT_DOUBLES * knots + n};
}

size_t sosmc_tv_line_scratch(int n) { return LINE_KNOT_DOUBLES * (2 * (size_t)n + 2) + 2 * (size_t)n; }

/* A weight as large as n (max - min) leaves a constant line. With larger ones rounding errors would exceed the differences of
 * the pixels. */
void sosmc_tv_line(int n, double w, const double *z, double *u, double *scratch)
{
    STANDARD_ARITHMETIC;
    line_room room = sosmc_i_tv_line_room(n, scratch);
    double most = n * sosmc_image_range((size_t)n, z);
    sosmc_i_tv_line(n, 1, w < most ? w : most, z, u, &room);
}

void sosmc_i_tv_columns(int rows, int columns, double w, const double *z, double *u, double *scratch)
{
    line_room room = sosmc_i_tv_line_room(rows, scratch);
    for (int j = 0; j < columns; j++) sosmc_i_tv_line(rows, columns, w, z + j, u + j, &room);
}

void sosmc_i_tv_rows(int rows, int columns, double w, const double *z, double *u, double *scratch)
{
    line_room room = sosmc_i_tv_line_room(columns, scratch);
    for (size_t i = 0; i < (size_t)rows; i++)
        sosmc_i_tv_line(columns, 1, w, z + i * (size_t)columns, u + i * (size_t)columns, &room);
}

/* ------------------------------------------------------------------------------------------------ as published */

/* docs/imaging.md PUBLISHED. t drifts by the solution in every pass and never settles; u does. */
void sosmc_tv_prox_published(int rows, int columns, int passes, double w, const double *z, double *u, double *scratch)
{
    STANDARD_ARITHMETIC;
    size_t d = (size_t)rows * (size_t)columns;
    double *t = scratch, *s = t + d, *rest = s + d, *line = rest + d, mean = 0;
    for (size_t e = 0; e < d; e++) mean += z[e];
    mean /= (double)d;
    for (size_t e = 0; e < d; e++) t[e] = 2 * mean;
    for (int pass = 0; pass < passes; pass++) {
        sosmc_i_tv_columns(rows, columns, w, t, s, line);
        for (size_t e = 0; e < d; e++) s[e] = t[e] - 2 * s[e];
        for (size_t e = 0; e < d; e++) rest[e] = z[e] - s[e];
        sosmc_i_tv_rows(rows, columns, w, rest, u, line);
        for (size_t e = 0; e < d; e++) t[e] = 0.5 * (t[e] + 2 * (s[e] + u[e]) - s[e]);
    }
    sosmc_i_tv_columns(rows, columns, w, t, s, line);
    for (size_t e = 0; e < d; e++) rest[e] = z[e] - (t[e] - s[e]);
    sosmc_i_tv_rows(rows, columns, w, rest, u, line);
}
