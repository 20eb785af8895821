/* blur.c: blurs of images and their transposes.
 *
 *     (B x)_p = sum_k t_k x_{p+k} / c_p,  c_p = sum of the t_k with p + k inside the image;   B' = W' diag(1 / c)
 *
 * with taps t of sum one. The window W alone is symmetric for box, Gaussian and motion blur (t_k = t_{-k}), so transposing
 * means to divide first and gather afterwards; the taps are reversed nevertheless, so that the code does not depend on their
 * symmetry.
 *
 * Box and Gaussian factorise, and so do their counts: columns first, then rows. Box sums slide, O(1) per pixel whatever
 * the window. A recursive Gaussian would be O(1) per pixel too, but its kernel is an approximation whose border has no
 * simple normalisation or transpose; the direct sum has both, at a cost that grows with sigma.
 *
 * Invariant: apply and adjoint use the same taps and the same divisors, from the same function. */
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

#include "base/arithmetic.h"
#include "imaging.h"
#include "base/table.h"

enum { MOST_PATCH = 2000000, MOST_SIGMA = 100, MOST_LENGTH = 200, SAMPLES_PER_PIXEL = 16, TOGETHER = 8 };
#define RADIUS_SIGMAS 4.0

const char *sosmc_blur_fault(const sosmc_blur *b)
{
    if (b->rows < 1 || b->columns < 1) return "rows and columns must be at least 1";
    if (b->columns > SOSMC_IMAGE_PIXELS / b->rows) return "rows * columns must be at most 2^29";
    switch (b->kind) {
    case SOSMC_BLUR_NONE: return NULL;
    case SOSMC_BLUR_BOX: return b->patch >= 1 && b->patch <= MOST_PATCH ? NULL : "patch must be 1 to 2000000";
    case SOSMC_BLUR_GAUSSIAN: return b->sigma >= 0 && b->sigma <= MOST_SIGMA ? NULL : "sigma must be 0 to 100";
    case SOSMC_BLUR_MOTION:
        if (!(b->length >= 0 && b->length <= MOST_LENGTH)) return "length must be 0 to 200";
        return fabs(b->angle) <= 1e6 ? NULL : "angle must be a number of degrees, at most 10^6 in size";
    }
    return "kind is not one of sosmc_blur_kind";
}

static int radius_of(const sosmc_blur *b)
{
    switch (b->kind) {
    case SOSMC_BLUR_BOX: return b->patch / 2;
    case SOSMC_BLUR_GAUSSIAN: return (int)ceil(RADIUS_SIGMAS * b->sigma);
    case SOSMC_BLUR_MOTION: return (int)ceil(b->length / 2) + 1;
    default: return 0;
    }
}

static size_t pixels_of(const sosmc_blur *b) { return (size_t)b->rows * (size_t)b->columns; }

/* Where things lie in the scratch. */
typedef struct {
    double *one, *two;     /* images */
    double *down, *across; /* divisors: per row, per column */
    double *both;          /* their reciprocals for the pixels of one row */
    double *taps;          /* Gaussian: distances 0..radius; motion: side x side */
} places;

static places places_in(const sosmc_blur *b, double *scratch)
{
    size_t d = pixels_of(b);
    double *lines = scratch + 2 * d;
    return (places){.one = scratch,
                    .two = scratch + d,
                    .down = lines,
                    .across = lines + b->rows,
                    .both = lines + b->rows + b->columns,
                    .taps = lines + b->rows + 2 * (size_t)b->columns};
}

size_t sosmc_blur_scratch(const sosmc_blur *b)
{
    size_t side = b->kind == SOSMC_BLUR_BOX ? 0 : 2 * (size_t)radius_of(b) + 1;
    size_t taps = b->kind == SOSMC_BLUR_MOTION ? side * side : side;
    return 2 * pixels_of(b) + (size_t)b->rows + 2 * (size_t)b->columns + taps;
}

/* ------------------------------------------------------------------------------------------------ one axis */

/* A line of n with symmetric taps 0..radius (index: distance), or, if not weighted, with taps of one. */
typedef struct {
    int n, radius, weighted;
    const double *taps;
} axis;

/* The sum of the taps that stay inside, from each place. */
static void divisors(const axis *a, double *by)
{
    for (int i = 0; i < a->n; i++) {
        int before = i < a->radius ? i : a->radius, after = a->n - 1 - i < a->radius ? a->n - 1 - i : a->radius;
        double sum = a->weighted ? a->taps[0] : 1.0 + before + after;
        for (int k = 1; a->weighted && k <= before; k++) sum += a->taps[k];
        for (int k = 1; a->weighted && k <= after; k++) sum += a->taps[k];
        by[i] = sum;
    }
}

/* Window sums down all columns at once, row by row. x and y differ. */
static void gather_columns(const imaging_code *code, const axis *a, int columns, const double *x, double *y)
{
    size_t m = (size_t)columns;
    for (int i = 0; i < a->n; i++) {
        double *to = y + (size_t)i * m;
        int first = i > a->radius ? i - a->radius : 0, last = i < a->n - 1 - a->radius ? i + a->radius : a->n - 1;
        if (!a->weighted && i > 0) { /* slide: the row above, plus what enters, minus what leaves */
            int enters = i + a->radius<a->n, leaves = i - a->radius> 0;
            memcpy(to, to - m, m * sizeof *to);
            if (enters && leaves) {
                code->slide(columns, x + (size_t)last * m, x + (size_t)(first - 1) * m, to);
            } else if (enters) {
                code->add(columns, 1, x + (size_t)last * m, to);
            } else if (leaves) {
                code->add(columns, -1, x + (size_t)(first - 1) * m, to);
            }
            continue;
        }
        memset(to, 0, m * sizeof *to);
        for (int k = first; k <= last; k++)
            code->add(columns, a->weighted ? a->taps[k > i ? k - i : i - k] : 1, x + (size_t)k * m, to);
    }
}

/* Sliding sums of `count` rows side by side: each addition depends on the sum of its own row alone. */
static inline void slide_rows(const axis *a, int count, const double *x, double *y)
{
    size_t n = (size_t)a->n, radius = (size_t)a->radius;
    double sum[TOGETHER] = {0};
    for (size_t j = 0; j < n && j <= radius; j++)
        for (size_t r = 0; r < (size_t)count; r++) sum[r] += x[r * n + j];
    for (size_t j = 0; j < n; j++) {
        for (size_t r = 0; r < (size_t)count; r++) y[r * n + j] = sum[r];
        if (j + radius + 1 < n)
            for (size_t r = 0; r < (size_t)count; r++) sum[r] += x[r * n + j + radius + 1];
        if (j >= radius)
            for (size_t r = 0; r < (size_t)count; r++) sum[r] -= x[r * n + j - radius];
    }
}

static void gather_rows(const imaging_code *code, const axis *a, int rows, const double *x, double *y)
{
    size_t n = (size_t)a->n;
    for (int i = 0; !a->weighted && i < rows; i += TOGETHER) {
        size_t at = (size_t)i * n;
        if (i + TOGETHER <= rows) {
            slide_rows(a, TOGETHER, x + at, y + at);
        } else {
            slide_rows(a, rows - i, x + at, y + at);
        }
    }
    for (size_t i = 0; a->weighted && i < (size_t)rows; i++) {
        double *to = y + i * n;
        const double *from = x + i * n;
        memset(to, 0, n * sizeof *to);
        for (int k = -a->radius; k <= a->radius; k++) {
            int first = k < 0 ? -k : 0, count = a->n - (k < 0 ? -k : k);
            if (count > 0) code->add(count, a->taps[k < 0 ? -k : k], from + first + k, to + first);
        }
    }
}

/* y = x / (down across): the divisors factorise. Neighbouring rows mostly share theirs. */
static void divide_all(const imaging_code *code, const sosmc_blur *b, const places *p, const double *x, double *y)
{
    size_t n = (size_t)b->columns;
    for (size_t i = 0; i < (size_t)b->rows; i++) {
        if (i == 0 || p->down[i] != p->down[i - 1])
            for (size_t j = 0; j < n; j++) p->both[j] = 1 / (p->down[i] * p->across[j]);
        code->multiply(b->columns, x + i * n, p->both, y + i * n);
    }
}

static void gaussian_taps(const sosmc_blur *b, double *taps)
{
    int radius = radius_of(b);
    double sum = -1;
    for (int k = 0; k <= radius; k++) taps[k] = k ? -0.5 * (k / b->sigma) * (k / b->sigma) : 0;
    sosmc_exp(NULL, radius + 1, taps, taps);
    for (int k = radius; k >= 0; k--) sum += 2 * taps[k];
    for (int k = 0; k <= radius; k++) taps[k] /= sum;
}

static void separable(const sosmc_blur *b, int transpose, const double *x, double *y, const places *p)
{
    const imaging_code *code = sosmc_i_imaging(NULL);
    int weighted = b->kind == SOSMC_BLUR_GAUSSIAN, radius = radius_of(b);
    axis down = {.n = b->rows, .radius = radius, .weighted = weighted, .taps = p->taps},
         across = {.n = b->columns, .radius = radius, .weighted = weighted, .taps = p->taps};
    if (weighted) gaussian_taps(b, p->taps);
    divisors(&down, p->down);
    divisors(&across, p->across);
    if (transpose) {
        divide_all(code, b, p, x, p->one);
        gather_rows(code, &across, b->rows, p->one, p->two);
        gather_columns(code, &down, b->columns, p->two, y);
    } else {
        gather_columns(code, &down, b->columns, x, p->one);
        gather_rows(code, &across, b->rows, p->one, p->two);
        divide_all(code, b, p, p->two, y);
    }
}

/* ------------------------------------------------------------------------------------------------ motion */

/* The mean of many bilinear samples of the segment: taps[(radius + dy) * side + radius + dx]. */
static void motion_taps(const sosmc_blur *b, double *taps)
{
    int radius = radius_of(b), side = 2 * radius + 1, samples = (int)ceil(SAMPLES_PER_PIXEL * b->length);
    double turns = b->angle / 360, sine, cosine;
    if (samples < 1) samples = 1;
    sosmc_i_simd(NULL)->sincos2pi(1, &turns, &sine, &cosine);
    memset(taps, 0, (size_t)side * (size_t)side * sizeof *taps);
    for (int m = 0; m < samples; m++) {
        double along = ((m + 0.5) / samples - 0.5) * b->length, x = along * cosine, y = -along * sine;
        double left = floor(x), top = floor(y), right_part = x - left, low_part = y - top;
        double *at = taps + (radius + (int)top) * side + radius + (int)left;
        at[0] += (1 - low_part) * (1 - right_part) / samples;
        at[1] += (1 - low_part) * right_part / samples;
        at[side] += low_part * (1 - right_part) / samples;
        at[side + 1] += low_part * right_part / samples;
    }
}

/* to_j = sum over the taps that stay inside of t_k x_{p + sign k}, for the pixels p of row i; x NULL: of t_k alone. */
static void gather_taps(const imaging_code *code, const sosmc_blur *b, const double *taps, int sign, int i,
                        const double *x, double *to)
{
    int radius = radius_of(b), side = 2 * radius + 1, n = b->columns;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int k = 0; k < side * side; k++) {
        int row = i + sign * (k / side - radius), shift = sign * (k % side - radius);
        int first = shift < 0 ? -shift : 0, count = n - (shift < 0 ? -shift : shift);
        if (taps[k] == 0 || row < 0 || row >= b->rows || count <= 0) continue;
        if (x) {
            code->add(count, taps[k], x + (size_t)row * (size_t)n + first + shift, to + first);
        } else {
            for (int j = first; j < first + count; j++) to[j] += taps[k];
        }
    }
}

/* Reciprocal divisors of row i, in place of those of the row above; far from the border all rows have the same. */
static void motion_divisors(const imaging_code *code, const sosmc_blur *b, const places *p, int i)
{
    int radius = radius_of(b);
    if (i > radius && i + radius < b->rows) return;
    gather_taps(code, b, p->taps, 1, i, NULL, p->both);
    for (int j = 0; j < b->columns; j++) p->both[j] = 1 / p->both[j];
}

static void motion(const sosmc_blur *b, int transpose, const double *x, double *y, const places *p)
{
    const imaging_code *code = sosmc_i_imaging(NULL);
    size_t n = (size_t)b->columns;
    motion_taps(b, p->taps);
    for (int i = 0; i < b->rows; i++) {
        size_t at = (size_t)i * n;
        if (!transpose) gather_taps(code, b, p->taps, 1, i, x, p->one + at);
        motion_divisors(code, b, p, i);
        code->multiply(b->columns, (transpose ? x : p->one) + at, p->both, (transpose ? p->one : p->two) + at);
    }
    if (!transpose) memcpy(y, p->two, pixels_of(b) * sizeof *y);
    for (int i = 0; transpose && i < b->rows; i++) gather_taps(code, b, p->taps, -1, i, p->one, y + (size_t)i * n);
}

/* ------------------------------------------------------------------------------------------------ */

static void blur(const sosmc_blur *b, int transpose, const double *x, double *y, double *scratch)
{
    places p = places_in(b, scratch);
    if (b->kind == SOSMC_BLUR_BOX || (b->kind == SOSMC_BLUR_GAUSSIAN && b->sigma > 0)) {
        separable(b, transpose, x, y, &p);
    } else if (b->kind == SOSMC_BLUR_MOTION) {
        motion(b, transpose, x, y, &p);
    } else if (x != y) {
        memcpy(y, x, pixels_of(b) * sizeof *y);
    }
}

static void cover(const sosmc_blur *b, const double *x, double *y)
{
    size_t d = pixels_of(b);
    for (size_t e = 0; e < d; e++) y[e] = b->mask[e] * x[e];
}

void sosmc_blur_apply(const sosmc_blur *b, const double *x, double *y, double *scratch)
{
    STANDARD_ARITHMETIC;
    blur(b, 0, x, y, scratch);
    if (b->mask) cover(b, y, y);
}

void sosmc_blur_adjoint(const sosmc_blur *b, const double *x, double *y, double *scratch)
{
    STANDARD_ARITHMETIC;
    if (b->mask) cover(b, x, y);
    blur(b, 1, b->mask ? y : x, y, scratch);
}

/* Rayleigh quotients of B'B grow towards the square sought. B'B has no negative entry, so its leading vector has none
 * either (Perron, Frobenius), and a start of ones cannot miss it. */
double sosmc_blur_norm2(const sosmc_blur *b, int iterations, double *scratch)
{
    STANDARD_ARITHMETIC;
    size_t d = pixels_of(b);
    double *v = scratch + sosmc_blur_scratch(b), *y = v + d, last = 0, norm2 = 0;
    for (size_t e = 0; e < d; e++) v[e] = 1;
    for (int k = 0; k < iterations; k++) {
        double before = 0, after = 0;
        sosmc_blur_apply(b, v, y, scratch);
        for (size_t e = 0; e < d; e++) before += v[e] * v[e], after += y[e] * y[e];
        if (!(before > 0) || !(after > 0)) return 0;
        norm2 = after / before;
        if (k > 0 && norm2 - last <= 1e-9 * norm2) break;
        last = norm2;
        sosmc_blur_adjoint(b, y, v, scratch);
        double scale = 1 / sqrt(after);
        for (size_t e = 0; e < d; e++) v[e] *= scale;
    }
    return norm2;
}
