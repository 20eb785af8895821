/* deblur_estimate.c: the noise of a blurred picture, its missing pixels, a first strength of the prior, and where to start.
 * These are given to a run as its inputs, as numbers, so functions of libm may be used.
 *
 * NOISE. In a window of the picture whose pixels the border does not touch, the blur multiplies the picture's spectrum by
 * H(omega) and the noise is white. With a taper, the power at a frequency is exponentially distributed with mean
 *
 *     s + c g(omega),      g = (|H|^2 / |omega|^2) smeared by the taper,
 *
 * s the noise and c the contrast of the picture, whose power falls about as |omega|^-2. Of all frequencies those with
 * the smallest g are kept, where the blur (the zeros of a box or of a motion, the far end of a Gaussian) or the picture
 * itself leaves mostly noise, and s and c are fitted by maximum likelihood (Whittle), with powers far above their mean held
 * down. The median over the windows and channels counts: windows of pure texture or of no contrast do not.
 *
 * A blur that clears no frequency (none, or a very narrow one) leaves g nearly constant, and nothing tells s from c g. Then
 * the noise is taken from the second difference along both axes, which is zero on smooth and on most of piecewise smooth
 * pictures: the median of its absolute value, over that of a normal law.
 *
 * Nothing here depends on the seed or on threads. */
#include <sosmc/imaging.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arithmetic.h"

enum {
    WINDOW = 128,                    /* sides of a window, at most */
    WINDOW_LEAST = SOSMC_NOISE_SIDE, /* below that there are too few frequencies */
    WINDOWS = 4,                     /* along either axis, at most */
    SMEAR = 3                        /* half bins on either side that the taper mixes */
};
static const double KEPT = 0.2; /* of the frequencies */
/* The smallest of the kept g are above that part of the largest: they are too alike to tell s from c g. */
static const double FLAT = 0.3;
static const double PEAK = 6; /* powers above so many means are held down to that */
static const double PI = 3.14159265358979323846;

int sosmc_blur_reach(const sosmc_blur *blur)
{
    switch (blur->kind) {
    case SOSMC_BLUR_BOX: return blur->patch / 2;
    case SOSMC_BLUR_GAUSSIAN: return (int)ceil(4 * blur->sigma);
    case SOSMC_BLUR_MOTION: return (int)ceil(blur->length / 2) + 1;
    default: return 0;
    }
}

double sosmc_rounding_noise(double step) { return step / sqrt(12); }

/* The description is sound, and the pixels are finite; a missing one may be anything unless `filled`. */
static sosmc_status check(const sosmc_deblur *seen, int filled)
{
    const sosmc_blur *blur = &seen->blur;
    if (sosmc_blur_fault(blur) || seen->channels < 1 || seen->channels > 4 || !seen->y) return SOSMC_EINVAL;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns;
    for (size_t at = 0; at < pixels * (size_t)seen->channels; at++)
        if (!isfinite(seen->y[at]) && (filled || !blur->mask || blur->mask[at % pixels] != 0)) return SOSMC_ENUMERIC;
    return SOSMC_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---------------------------------------------------------------------------- spectra */

/* power[p * half + q] = |sum_ij a_ij e^(-2 pi i (p i / m + q j / n))|^2 for p < m, q < half; a has `rows` rows of `columns`.
 * `sums` is room for 2 * rows * half. */
static void spectrum(int rows, int columns, const double *a, int m, int n, int half, double *sums, double *power)
{
    for (int q = 0; q < half; q++) {
        for (int i = 0; i < rows; i++) {
            double *sum = sums + 2 * ((size_t)i * (size_t)half + (size_t)q);
            sum[0] = sum[1] = 0;
        }
        for (int j = 0; j < columns; j++) {
            double angle = 2 * PI * (double)((int64_t)q * j % n) / n, c = cos(angle), s = sin(angle);
            for (int i = 0; i < rows; i++) {
                double *sum = sums + 2 * ((size_t)i * (size_t)half + (size_t)q);
                double value = a[(size_t)i * (size_t)columns + (size_t)j];
                sum[0] += value * c;
                sum[1] -= value * s;
            }
        }
    }
    for (int p = 0; p < m; p++) {
        double re[WINDOW + 1] = {0}, im[WINDOW + 1] = {0};
        for (int i = 0; i < rows; i++) {
            double angle = 2 * PI * (double)((int64_t)p * i % m) / m, c = cos(angle), s = sin(angle);
            const double *sum = sums + 2 * (size_t)i * (size_t)half;
            for (int q = 0; q < half; q++) {
                re[q] += sum[2 * q] * c + sum[2 * q + 1] * s;
                im[q] += sum[2 * q + 1] * c - sum[2 * q] * s;
            }
        }
        for (int q = 0; q < half; q++) power[(size_t)p * (size_t)half + (size_t)q] = re[q] * re[q] + im[q] * im[q];
    }
}

/* How the blur spreads one pixel: (2 reach + 1)^2 numbers; the caller frees. */
static double *kernel_of(const sosmc_blur *blur, int reach)
{
    int side = 4 * reach + 1, width = 2 * reach + 1;
    sosmc_blur free_blur = *blur;
    free_blur.rows = free_blur.columns = side;
    free_blur.mask = NULL;
    size_t pixels = (size_t)side * (size_t)side;
    double *x = calloc(pixels, sizeof *x), *scratch = malloc((sosmc_blur_scratch(&free_blur) + 1) * sizeof *scratch);
    double *kernel = malloc((size_t)width * (size_t)width * sizeof *kernel);
    if (x && scratch && kernel) {
        x[pixels / 2] = 1;
        sosmc_blur_apply(&free_blur, x, x, scratch);
        for (int i = 0; i < width; i++)
            memcpy(kernel + (size_t)i * (size_t)width, x + (size_t)(i + reach) * (size_t)side + (size_t)reach,
                   (size_t)width * sizeof *kernel);
    } else {
        free(kernel);
        kernel = NULL;
    }
    free(x);
    free(scratch);
    return kernel;
}

/* g at the frequencies of an m x n window, m rows of n / 2 + 1; the caller frees. From a grid of half bins. */
static double *signal_of(const sosmc_blur *blur, int m, int n)
{
    static const double taper[SMEAR + 1] = {1, 0.7205, 0.25, 0.0288}; /* a Hann window's power, half bin by half bin */
    int reach = sosmc_blur_reach(blur), width = 2 * reach + 1, half = n / 2 + 1, fine = n + 1;
    double *kernel = kernel_of(blur, reach), *sums = malloc(2 * (size_t)width * (size_t)fine * sizeof *sums);
    double *grid = malloc(2 * (size_t)m * (size_t)fine * sizeof *grid);
    double *g = calloc((size_t)m * (size_t)half, sizeof *g);
    if (kernel && sums && grid && g) {
        spectrum(width, width, kernel, 2 * m, 2 * n, fine, sums, grid);
        for (int p = 0; p < 2 * m; p++)
            for (int q = 0; q < fine; q++) grid[p * fine + q] /= 4 - 2 * cos(PI * p / m) - 2 * cos(PI * q / n) + 1e-4;
        for (int p = 0; p < m; p++)
            for (int q = 0; q < half; q++)
                for (int a = -SMEAR; a <= SMEAR; a++)
                    for (int b = -SMEAR; b <= SMEAR; b++) {
                        int at = 2 * p + a, to = abs(2 * q + b); /* the power at -omega is that at omega */
                        if (2 * q + b < 0) at = -at;
                        if (to > n) to = 2 * n - to, at = -at;
                        at = (at % (2 * m) + 2 * m) % (2 * m);
                        g[p * half + q] += taper[abs(a)] * taper[abs(b)] * grid[at * fine + to];
                    }
    } else {
        free(g);
        g = NULL;
    }
    free(kernel);
    free(sums);
    free(grid);
    return g;
}

/* ---------------------------------------------------------------------------- noise */

/* s and c of powers that are exponential with mean s + c g, c 0 unless `sloped`, by Fisher's scoring from s; returns minus
 * the log-likelihood. Powers above PEAK means count as PEAK. */
static double fit(int n, const double *g, const double *power, int sloped, double *s)
{
    double c = 0, least = 1e-6 * *s, sum = 0;
    for (int pass = 0; pass < 50; pass++) {
        double a00 = 0, a01 = 0, a11 = 0, b0 = 0, b1 = 0;
        for (int k = 0; k < n; k++) {
            double mean = *s + c * g[k], weight = 1 / (mean * mean), seen = fmin(power[k], PEAK * mean);
            a00 += weight;
            a01 += weight * g[k];
            a11 += weight * g[k] * g[k];
            b0 += weight * seen;
            b1 += weight * seen * g[k];
        }
        double det = a00 * a11 - a01 * a01, slope = sloped && det > 0 ? (a00 * b1 - a01 * b0) / det : 0;
        c = fmax(slope, 0);
        *s = fmax((b0 - c * a01) / a00, least);
    }
    for (int k = 0; k < n; k++) {
        double mean = *s + c * g[k];
        sum += log(mean) + fmin(power[k] / mean, PEAK);
    }
    return sum;
}

/* The term c g is kept only where it makes the powers clearly more likely. Otherwise it would explain random fluctuations of
 * the noise. */
static double fit_noise(int n, const double *g, const double *power, double *sorted)
{
    static const double clearly = 3;
    memcpy(sorted, power, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double level = sorted[n / 2] / log(2), sloped = level;
    if (!(level > 0)) return 0;
    double flat = fit(n, g, power, 0, &level);
    return fit(n, g, power, 1, &sloped) < flat - clearly ? sloped : level;
}

/* Where windows stand, and what all of them share. */
typedef struct {
    int rows, columns; /* of a window */
    int top, left, down, across;
    double step_down, step_across;
    int n, half; /* frequencies that are kept */
    int *kept;   /* their places */
    double *g;   /* at the kept ones */
    double *taper_down, *taper_across, *area, *sums, *power, *chosen, *sorted, *result;
} survey;

static int axis(int length, int reach, int side, int *first, double *step)
{
    int room = length - 2 * reach;
    if (room < side) return 0;
    int count = room == side ? 1 : 1 + (room - side - 1) / (side / 2 + 1) + 1;
    if (count > WINDOWS) count = WINDOWS;
    *first = reach;
    *step = count > 1 ? (double)(room - side) / (count - 1) : 0;
    return count;
}

static void hann(int n, double *out)
{
    for (int i = 0; i < n; i++) out[i] = 0.5 - 0.5 * cos(2 * PI * (i + 0.5) / n);
}

static void survey_free(survey *v)
{
    free(v->kept);
    free(v->g);
    free(v->taper_down);
    free(v->area);
    free(v->sums);
    free(v->power);
    free(v->chosen);
    free(v->result);
}

/* The frequencies with the smallest g, the first column's mirror images left out; 1: g is nearly the same everywhere. */
static int choose(survey *v, double *g)
{
    size_t all = (size_t)v->rows * (size_t)v->half;
    double *sorted = malloc(all * sizeof *sorted);
    if (!sorted) return -1;
    memcpy(sorted, g, all * sizeof *sorted);
    qsort(sorted, all, sizeof *sorted, ascending);
    double bound = sorted[(size_t)(KEPT * (double)all)], least = sorted[all / 100];
    free(sorted);
    if (least > FLAT * bound) return 1;
    for (size_t k = 0; k < all; k++)
        if (g[k] <= bound && k % (size_t)v->half != 0) {
            v->kept[v->n] = (int)k;
            v->g[v->n++] = g[k];
        }
    return 0;
}

enum { SURVEY_SMALL = 1, SURVEY_UNCLEAR = 2 };

static int survey_open(survey *v, const sosmc_deblur *seen, int largest)
{
    const sosmc_blur *blur = &seen->blur;
    int reach = sosmc_blur_reach(blur);
    *v = (survey){.rows = largest, .columns = largest};
    if (blur->rows - 2 * reach < v->rows) v->rows = blur->rows - 2 * reach;
    if (blur->columns - 2 * reach < v->columns) v->columns = blur->columns - 2 * reach;
    if (v->rows < WINDOW_LEAST || v->columns < WINDOW_LEAST) return SURVEY_SMALL;
    v->half = v->columns / 2 + 1;
    v->down = axis(blur->rows, reach, v->rows, &v->top, &v->step_down);
    v->across = axis(blur->columns, reach, v->columns, &v->left, &v->step_across);
    size_t all = (size_t)v->rows * (size_t)v->half, area = (size_t)v->rows * (size_t)v->columns;
    double *g = signal_of(blur, v->rows, v->columns);
    v->kept = malloc(all * sizeof *v->kept);
    v->g = malloc(all * sizeof(double));
    v->taper_down = malloc((size_t)(v->rows + v->columns) * sizeof(double));
    v->area = malloc(area * sizeof(double));
    v->sums = malloc(2 * all * sizeof(double));
    v->power = malloc(all * sizeof(double));
    v->chosen = malloc(2 * all * sizeof(double));
    v->result = malloc((size_t)seen->channels * WINDOWS * WINDOWS * sizeof(double));
    int sound = g && v->kept && v->g && v->taper_down && v->area && v->sums && v->power && v->chosen && v->result;
    int rc = sound ? 0 : -1;
    if (sound) {
        v->taper_across = v->taper_down + v->rows;
        v->sorted = v->chosen + all;
        hann(v->rows, v->taper_down);
        hann(v->columns, v->taper_across);
        rc = choose(v, g);
    }
    free(g);
    return rc > 0 ? SURVEY_UNCLEAR : rc;
}

/* The noise's variance in the window at (top, left); -1 when pixels are missing there. */
static double window_noise(survey *v, const sosmc_deblur *seen, int channel, int top, int left)
{
    const sosmc_blur *blur = &seen->blur;
    const double *plane = seen->y + (size_t)channel * (size_t)blur->rows * (size_t)blur->columns, *mask = blur->mask;
    double mean = 0, weight = 0;
    for (int i = 0; i < v->rows; i++)
        for (int j = 0; j < v->columns; j++) {
            size_t at = (size_t)(top + i) * (size_t)blur->columns + (size_t)(left + j);
            if (mask && mask[at] == 0) return -1;
            mean += plane[at] / ((double)v->rows * v->columns);
        }
    for (int i = 0; i < v->rows; i++)
        for (int j = 0; j < v->columns; j++) {
            double taper = v->taper_down[i] * v->taper_across[j];
            v->area[(size_t)i * (size_t)v->columns + (size_t)j] =
                taper * (plane[(size_t)(top + i) * (size_t)blur->columns + (size_t)(left + j)] - mean);
            weight += taper * taper;
        }
    spectrum(v->rows, v->columns, v->area, v->rows, v->columns, v->half, v->sums, v->power);
    for (int k = 0; k < v->n; k++) v->chosen[k] = v->power[v->kept[k]];
    return fit_noise(v->n, v->g, v->chosen, v->sorted) / weight;
}

/* The windows' variances into v->result; how many. */
static int survey_run(survey *v, const sosmc_deblur *seen)
{
    int found = 0;
    for (int c = 0; c < seen->channels; c++)
        for (int a = 0; a < v->down; a++)
            for (int b = 0; b < v->across; b++) {
                double s = window_noise(v, seen, c, v->top + (int)(a * v->step_down),
                                        v->left + (int)(b * v->step_across));
                if (s >= 0) v->result[found++] = s;
            }
    qsort(v->result, (size_t)found, sizeof(double), ascending);
    return found;
}

/* |second difference along both axes| of one plane, where its nine pixels are there and not all black or all white. */
static size_t differences(const double *x, const double *mask, int rows, int columns, double *out)
{
    static const double factor[9] = {1, -2, 1, -2, 4, -2, 1, -2, 1}; /* noise of variance 1 becomes 36 */
    size_t n = 0;
    for (int i = 1; i + 1 < rows; i++)
        for (int j = 1; j + 1 < columns; j++) {
            double sum = 0;
            int missing = 0, clipped = 0;
            for (int k = 0; k < 9; k++) {
                size_t at = (size_t)(i + k / 3 - 1) * (size_t)columns + (size_t)(j + k % 3 - 1);
                missing |= mask && mask[at] == 0;
                clipped += x[at] <= 0 || x[at] >= 255;
                sum += factor[k] * x[at];
            }
            if (!missing && clipped < 9) out[n++] = fabs(sum) / 6;
        }
    return n;
}

static sosmc_status noise_of_differences(const sosmc_deblur *seen, sosmc_noise *out)
{
    static const double normal_median = 0.67448975019608171;
    const sosmc_blur *blur = &seen->blur;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns, n = 0;
    double *size = malloc(pixels * (size_t)seen->channels * sizeof *size);
    if (!size) return SOSMC_ENOMEM;
    for (int c = 0; c < seen->channels; c++)
        n += differences(seen->y + (size_t)c * pixels, blur->mask, blur->rows, blur->columns, size + n);
    qsort(size, n, sizeof *size, ascending);
    *out = (sosmc_noise){.sigma = NAN, .from = SOSMC_NOISE_FROM_DIFFERENCES, .count = (int64_t)n};
    if (n >= WINDOW_LEAST * WINDOW_LEAST) out->sigma = size[n / 2] / normal_median;
    free(size);
    return isnan(out->sigma) ? SOSMC_ENUMERIC : SOSMC_OK;
}

sosmc_status sosmc_estimate_noise(const sosmc_deblur *seen, sosmc_noise *out)
{
    STANDARD_ARITHMETIC;
    *out = (sosmc_noise){.sigma = NAN};
    sosmc_status status = check(seen, 0);
    if (status != SOSMC_OK) return status;
    for (int largest = WINDOW; largest >= WINDOW_LEAST; largest /= 2) {
        survey v;
        int rc = survey_open(&v, seen, largest), found = rc == 0 ? survey_run(&v, seen) : 0;
        if (found > 0) out->sigma = sqrt(v.result[(found - 1) / 2]);
        survey_free(&v);
        if (rc < 0) return SOSMC_ENOMEM;
        if (rc == SURVEY_UNCLEAR || (rc == SURVEY_SMALL && sosmc_blur_reach(&seen->blur) == 0))
            return noise_of_differences(seen, out);
        out->count = found;
        if (found > 0) return SOSMC_OK;
        if (rc == SURVEY_SMALL) break;
    }
    return SOSMC_ENUMERIC;
}

/* ---------------------------------------------------------------------------- missing pixels */

/* The mean of the neighbours that are known; NaN: none is. */
static double around(const double *x, const double *known, int rows, int columns, int i, int j)
{
    static const int step[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    double sum = 0;
    int n = 0;
    for (int k = 0; k < 4; k++) {
        int a = i + step[k][0], b = j + step[k][1];
        if (a < 0 || a >= rows || b < 0 || b >= columns) continue;
        size_t at = (size_t)a * (size_t)columns + (size_t)b;
        if (known && known[at] == 0) continue;
        sum += x[at];
        n++;
    }
    return n ? sum / n : NAN;
}

/* From the rims inwards, a ring at a time (a ring is marked only when all of it is found), then Gauss-Seidel sweeps. */
static void fill_plane(double *x, double *known, double *found, const double *mask, int rows, int columns)
{
    enum { SWEEPS = 100 };
    size_t pixels = (size_t)rows * (size_t)columns;
    memcpy(known, mask, pixels * sizeof *known);
    for (int more = 1; more;) {
        more = 0;
        for (size_t at = 0; at < pixels; at++)
            found[at] = known[at] != 0
                            ? NAN
                            : around(x, known, rows, columns, (int)(at / (size_t)columns), (int)(at % (size_t)columns));
        for (size_t at = 0; at < pixels; at++)
            if (!isnan(found[at])) x[at] = found[at], known[at] = 1, more = 1;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (size_t at = 0; at < pixels; at++)
            if (mask[at] == 0)
                x[at] = around(x, NULL, rows, columns, (int)(at / (size_t)columns), (int)(at % (size_t)columns));
}

sosmc_status sosmc_fill_missing(const sosmc_blur *blur, int channels, double *y)
{
    STANDARD_ARITHMETIC;
    sosmc_deblur seen = {.blur = *blur, .channels = channels, .y = y};
    sosmc_status status = check(&seen, 0);
    if (status != SOSMC_OK || !blur->mask) return status;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns;
    double *known = malloc(2 * pixels * sizeof *known);
    if (!known) return SOSMC_ENOMEM;
    for (int c = 0; c < channels; c++)
        fill_plane(y + (size_t)c * pixels, known, known + pixels, blur->mask, blur->rows, blur->columns);
    free(known);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the prior's strength */

/* Accelerated gradient steps on |y - B x|^2 / 2 from x = y, until the misfit is that of the noise: further ones would only fit
 * that (Morozov). */
static void reconstruct(const sosmc_blur *blur, double norm2, double sigma, const double *y, double *x, double *ahead,
                        double *residual, double *scratch)
{
    enum { STEPS = 60 };
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns;
    double t = 1;
    memcpy(x, y, pixels * sizeof *x);
    memcpy(ahead, y, pixels * sizeof *x);
    for (int k = 0; k < STEPS; k++) {
        double misfit = 0, t_next = 0.5 * (1 + sqrt(1 + 4 * t * t));
        sosmc_blur_apply(blur, ahead, residual, scratch);
        for (size_t j = 0; j < pixels; j++) residual[j] -= blur->mask ? blur->mask[j] * y[j] : y[j];
        for (size_t j = 0; j < pixels; j++) misfit += residual[j] * residual[j];
        if (misfit <= sigma * sigma * (double)pixels) return;
        sosmc_blur_adjoint(blur, residual, residual, scratch);
        for (size_t j = 0; j < pixels; j++) {
            double next = ahead[j] - residual[j] / norm2;
            ahead[j] = next + (t - 1) / t_next * (next - x[j]);
            x[j] = next;
        }
        t = t_next;
    }
}

sosmc_status sosmc_estimate_theta(const sosmc_deblur *seen, double *theta)
{
    STANDARD_ARITHMETIC;
    const sosmc_blur *blur = &seen->blur;
    sosmc_status status = seen->sigma > 0 ? check(seen, 1) : SOSMC_EINVAL;
    if (status != SOSMC_OK) return status;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns, inner = sosmc_blur_scratch(blur);
    double *x = malloc((5 * pixels + inner) * sizeof *x), tv = 0;
    if (!x) return SOSMC_ENOMEM;
    double norm2 = sosmc_blur_norm2(blur, 10, x);
    for (int c = 0; c < seen->channels; c++) {
        reconstruct(blur, fmax(norm2, 1), seen->sigma, seen->y + (size_t)c * pixels, x, x + pixels, x + 2 * pixels,
                    x + 3 * pixels);
        tv += sosmc_tv(SOSMC_TV_ISOTROPIC, blur->rows, blur->columns, x);
    }
    free(x);
    double mean = tv / ((double)pixels * seen->channels);
    *theta = -log(fmin(fmax(mean, 1e-3), 1e3));
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- where the particles start */

/* Accelerated proximal gradient steps (Beck and Teboulle) on |y - B x|^2 / 2 + weight TV(x) from x = y. `memory` holds three
 * pictures and the scratch of blur and proximal map. */
static int penalised(const sosmc_blur *blur, double norm2, double weight, const double *y, double *x, double *memory)
{
    enum { STEPS = 100 };
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns;
    double *ahead = memory, *residual = ahead + pixels, *next = residual + pixels, *scratch = next + pixels, t = 1;
    sosmc_tv_settings settings = {
        .rows = blur->rows, .columns = blur->columns, .kind = SOSMC_TV_ANISOTROPIC, .tolerance = 1e-5, .passes = 50};
    memcpy(x, y, pixels * sizeof *x);
    memcpy(ahead, y, pixels * sizeof *x);
    for (int k = 0; k < STEPS; k++) {
        double t_next = 0.5 * (1 + sqrt(1 + 4 * t * t)), moved = 0, size = 0;
        sosmc_blur_apply(blur, ahead, residual, scratch);
        for (size_t j = 0; j < pixels; j++) residual[j] -= blur->mask ? blur->mask[j] * y[j] : y[j];
        sosmc_blur_adjoint(blur, residual, residual, scratch);
        for (size_t j = 0; j < pixels; j++) ahead[j] -= residual[j] / norm2;
        if (sosmc_tv_prox(&settings, weight / norm2, ahead, next, scratch, NULL) != SOSMC_OK) return -1;
        for (size_t j = 0; j < pixels; j++) {
            double step = next[j] - x[j];
            ahead[j] = next[j] + (t - 1) / t_next * step;
            x[j] = next[j];
            moved += step * step;
            size += x[j] * x[j];
        }
        if (moved <= 1e-10 * size) break;
        t = t_next;
    }
    return 0;
}

sosmc_status sosmc_estimate_start(const sosmc_deblur *seen, double theta, double *x)
{
    STANDARD_ARITHMETIC;
    const sosmc_blur *blur = &seen->blur;
    sosmc_status status = seen->sigma > 0 && isfinite(theta) ? check(seen, 1) : SOSMC_EINVAL;
    if (status != SOSMC_OK) return status;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns,
           inner = sosmc_tv_prox_scratch(blur->rows, blur->columns);
    if (sosmc_blur_scratch(blur) > inner) inner = sosmc_blur_scratch(blur);
    double *memory = malloc((3 * pixels + inner) * sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    double norm2 = fmax(sosmc_blur_norm2(blur, 10, memory), 1);
    int rc = 0;
    for (int c = 0; rc == 0 && c < seen->channels; c++)
        rc = penalised(blur, norm2, exp(theta) * seen->sigma * seen->sigma, seen->y + (size_t)c * pixels,
                       x + (size_t)c * pixels, memory);
    free(memory);
    return rc ? SOSMC_ENUMERIC : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- residuals */

/* What may be off without harm: of sigma 15 %, as estimates of it are; of an autocorrelation what such a sigma adds to it; of the
 * share that is far. */
static const double OFF_SD = 0.15, OFF_CORRELATION = 0.04, OFF_FAR = 5e-4;
static const double ERRORS = 4, FAR = 4, FAR_NORMAL = 6.334248366623996e-05;

/* Adds the squares of one channel, the products of neighbours and their numbers. r is 0 where a pixel was not seen. */
static void add_residuals(const sosmc_blur *b, const double *r, double sum[3], double count[3])
{
    size_t n = (size_t)b->columns, pixels = n * (size_t)b->rows;
    for (size_t at = 0; at < pixels; at++) {
        if (b->mask && b->mask[at] == 0) continue;
        const size_t other[3] = {at, at % n + 1 < n ? at + 1 : at, at + n < pixels ? at + n : at};
        for (int k = 0; k < 3; k++) {
            if ((k > 0 && other[k] == at) || (b->mask && b->mask[other[k]] == 0)) continue;
            sum[k] += r[at] * r[other[k]];
            count[k]++;
        }
    }
}

sosmc_status sosmc_deblur_residuals(const sosmc_deblur *m, const double *x, sosmc_residual out[SOSMC_RESIDUALS])
{
    STANDARD_ARITHMETIC;
    const sosmc_blur *blur = &m->blur;
    sosmc_status status = m->sigma > 0 ? check(m, 0) : SOSMC_EINVAL;
    if (status != SOSMC_OK) return status;
    size_t pixels = (size_t)blur->rows * (size_t)blur->columns, all = pixels * (size_t)m->channels;
    double *r = malloc((all + sosmc_blur_scratch(blur)) * sizeof *r), sum[3] = {0}, count[3] = {0}, far = 0;
    if (!r) return SOSMC_ENOMEM;
    for (size_t from = 0; from < all; from += pixels) {
        sosmc_blur_apply(blur, x + from, r + from, r + all);
        for (size_t at = from; at < from + pixels; at++)
            r[at] = blur->mask && blur->mask[at - from] == 0 ? 0 : m->y[at] - r[at];
        add_residuals(blur, r + from, sum, count);
    }
    double sd = sqrt(sum[0] / count[0]);
    for (size_t at = 0; at < all; at++) far += fabs(r[at]) > FAR * sd;
    free(r);
    out[SOSMC_RESIDUAL_SD] = (sosmc_residual){sd, m->sigma, m->sigma * (OFF_SD + ERRORS / sqrt(2 * count[0]))};
    for (int k = 1; k < 3; k++)
        out[k] = (sosmc_residual){count[k] > 0 && sd > 0 ? sum[k] / count[k] / (sd * sd) : 0, 0,
                                  OFF_CORRELATION + ERRORS / sqrt(fmax(count[k], 1))};
    out[SOSMC_RESIDUAL_FAR] = (sosmc_residual){far / count[0], FAR_NORMAL,
                                               OFF_FAR + ERRORS * (sqrt(FAR_NORMAL * count[0]) + 1) / count[0]};
    return SOSMC_OK;
}
