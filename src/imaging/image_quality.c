/* image_quality.c: mean square error, peak signal-to-noise ratio and structural similarity of images.
 *
 *     S = (2 mx my + C1) (2 cxy + C2) / ((mx^2 + my^2 + C1) (vx + vy + C2)),   C = (K range)^2
 *
 * with means, unbiased variances and covariance over 7 x 7 windows, averaged over the windows inside the image. Sums
 * over seven rows slide down the image.
 *
 * Invariant: the sliding sums are started afresh every 64 rows, so rounding cannot build up. */
#include <math.h>
#include <sosmc/imaging.h>
#include <string.h>

#include "base/arithmetic.h"
#include "imaging.h"

enum { FRESH = 64 };

double sosmc_image_range(size_t n, const double *x) { return sosmc_i_imaging(NULL)->range(n, x); }

double sosmc_mse(size_t n, const double *truth, const double *x)
{
    STANDARD_ARITHMETIC;
    double sum[8] = {0};
    for (size_t e = 0; e < n; e++) {
        double off = x[e] - truth[e];
        sum[e % 8] += off * off;
    }
    return (((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))) / (double)n;
}

double sosmc_psnr(size_t n, double range, const double *truth, const double *x)
{
    STANDARD_ARITHMETIC;
    return 10 * log10(range * range / sosmc_mse(n, truth, x));
}

size_t sosmc_ssim_scratch(int columns) { return SSIM_SUMS * (size_t)columns; }

static double channel_similarity(int rows, int columns, double c1, double c2, const double *truth, const double *x,
                                 double *sums)
{
    const imaging_code *code = sosmc_i_imaging(NULL);
    size_t n = (size_t)columns;
    double total = 0;
    for (int top = 0; top + SSIM_WINDOW <= rows; top++) {
        size_t first = (size_t)top, end = first + SSIM_WINDOW;
        int afresh = top % FRESH == 0;
        if (afresh) memset(sums, 0, sosmc_ssim_scratch(columns) * sizeof *sums);
        for (size_t i = afresh ? first : end - 1; i < end; i++)
            code->window_row(columns, columns, truth + i * n, x + i * n, afresh ? NULL : truth + (first - 1) * n,
                             afresh ? NULL : x + (first - 1) * n, sums);
        total += code->similarity(columns - SSIM_WINDOW + 1, columns, sums, c1, c2);
    }
    return total / ((double)(rows - SSIM_WINDOW + 1) * (columns - SSIM_WINDOW + 1));
}

double sosmc_ssim(int rows, int columns, int channels, double range, const double *truth, const double *x,
                  double *scratch)
{
    STANDARD_ARITHMETIC;
    double c1 = 0.01 * range * (0.01 * range), c2 = 0.03 * range * (0.03 * range), sum = 0;
    size_t d = (size_t)rows * (size_t)columns;
    if (rows < SSIM_WINDOW || columns < SSIM_WINDOW) return NAN;
    for (size_t c = 0; c < (size_t)channels; c++)
        sum += channel_similarity(rows, columns, c1, c2, truth + c * d, x + c * d, scratch);
    return sum / channels;
}
