/* test_image_quality.c: measures of quality against their definition written down plainly, the experiment's values, and
 * scikit-image where SOSMC_TEST_PYTHON, or else python3, has it. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sosmc/imaging.h>

#include "assertions.h"
#include "folder.h"
#include "streams_and_python.h"
#include "reference.h"

enum { ROWS = 292, COLUMNS = 119, PIXELS = ROWS * COLUMNS, CHANNELS = 3, WIDE = 40, HIGH = 90 };

static double x[PIXELS], y[PIXELS], sums[5 * COLUMNS];
static char folder[FOLDER_ROOM];

/* CHANNELS smooth images and noisy copies. */
static void fill(int rows, int columns)
{
    int n = CHANNELS * rows * columns;
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &b, y);
    for (int e = 0; e < n; e++) {
        x[e] = 120 + 80 * sin(0.2 * (e % columns)) * cos(0.01 * e / columns) + (double)(e % 5);
        y[e] = x[e] + 12 * y[e];
    }
}

static double window(int columns, double range, const double *a, const double *b)
{
    double ma = 0, mb = 0, va = 0, vb = 0, cov = 0, c1 = pow(0.01 * range, 2), c2 = pow(0.03 * range, 2);
    for (int k = 0; k < 49; k++) ma += a[k / 7 * columns + k % 7] / 49, mb += b[k / 7 * columns + k % 7] / 49;
    for (int k = 0; k < 49; k++) {
        double da = a[k / 7 * columns + k % 7] - ma, db = b[k / 7 * columns + k % 7] - mb;
        va += da * da / 48, vb += db * db / 48, cov += da * db / 48;
    }
    return (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
}

static void against_the_definition(void **state)
{
    static const int shape[][2] = {{7, 7}, {7, 20}, {HIGH, WIDE}, {80, 14}, {12, 8}};
    for (int s = 0; s < 5; s++) {
        int rows = shape[s][0], columns = shape[s][1], d = rows * columns;
        double sum = 0, square = 0;
        fill(rows, columns);
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i + 7 <= rows; i++)
                for (int j = 0; j + 7 <= columns; j++) {
                    int at = c * d + i * columns + j;
                    sum += window(columns, 200, x + at, y + at) / ((rows - 6) * (columns - 6) * CHANNELS);
                }
        for (int e = 0; e < d; e++) square += (x[e] - y[e]) * (x[e] - y[e]) / d;
        assert_near(sosmc_ssim(rows, columns, CHANNELS, 200, x, y, sums), sum, 1e-10);
        assert_near(sosmc_ssim(rows, columns, CHANNELS, 200, x, x, sums), 1, 1e-12);
        assert_near(sosmc_mse((size_t)d, x, y), square, 1e-9);
        assert_near(sosmc_psnr((size_t)d, 200, x, y), 10 * log10(40000 / square), 1e-9);
    }
    assert_true(isnan(sosmc_ssim(6, 20, 1, 200, x, y, sums)) && isnan(sosmc_ssim(20, 6, 1, 200, x, y, sums)));
    assert_true(isinf(sosmc_psnr(10, 200, x, x)));
}

static void range_of_an_image(void **state)
{
    static const double z[11] = {3, 4, 1, 5, 9, 2, 6, 5, 3, -5, 8};
    assert_true(sosmc_image_range(11, z) == 14 && sosmc_image_range(9, z) == 8 && sosmc_image_range(1, z) == 0);
    assert_true(sosmc_image_range(0, z) == 0);
}

static void values_of_the_experiment(void **state)
{
    reference_doubles("deblurring/guitar_292x119.f64", PIXELS, x);
    for (int e = 0; e < PIXELS; e++) y[e] = 50;
    double range = sosmc_image_range(PIXELS, x);
    assert_near(range, 253.474576271, 1e-9);
    assert_near(sosmc_ssim(ROWS, COLUMNS, 1, range, x, y, sums), 0.10566733, 1e-8);
    assert_near(sosmc_mse(PIXELS, x, y), 4044.99769, 1e-5);
}

/* ---------------------------------------------------------------------------- scikit-image */

static const char script[] =
    "import sys, numpy as np\n"
    "from skimage.metrics import structural_similarity as ssim, peak_signal_noise_ratio as psnr\n"
    "a, b = np.fromfile(sys.argv[1]).reshape(2, 3, 90, 40)\n"
    "print(repr(float(ssim(a, b, data_range=200.0, channel_axis=0))))\n"
    "print(repr(float(ssim(a[0], b[0], data_range=200.0))))\n"
    "print(repr(float(psnr(a, b, data_range=200.0))))\n";

static void against_scikit_image(void **state)
{
    const size_t n = (size_t)CHANNELS * HIGH * WIDE;
    double theirs[3] = {0};
    if (python_run(folder_path(folder, "answer"), "/dev/null", "-c", "import skimage.metrics", "")) {
        print_message("skipped: SOSMC_TEST_PYTHON, or else python3, needs: pip install scikit-image\n");
        skip();
    }
    fill(HIGH, WIDE);
    FILE *f = fopen(folder_path(folder, "images"), "wb");
    assert_non_null(f);
    assert_true(fwrite(x, sizeof *x, n, f) == n && fwrite(y, sizeof *y, n, f) == n && fclose(f) == 0);
    assert_int_equal(
        python_run(folder_path(folder, "answer"), "/dev/null", "-c", script, folder_path(folder, "images")), 0);
    f = fopen(folder_path(folder, "answer"), "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lf %lf %lf", &theirs[0], &theirs[1], &theirs[2]), 3);
    (void)fclose(f);
    assert_near(sosmc_ssim(HIGH, WIDE, CHANNELS, 200, x, y, sums), theirs[0], 1e-6);
    assert_near(sosmc_ssim(HIGH, WIDE, 1, 200, x, y, sums), theirs[1], 1e-6);
    assert_near(sosmc_psnr(n, 200, x, y), theirs[2], 1e-6);
    print_message("scikit-image: SSIM differs by %.1e, PSNR by %.1e\n",
                  fabs(sosmc_ssim(HIGH, WIDE, CHANNELS, 200, x, y, sums) - theirs[0]),
                  fabs(sosmc_psnr(n, 200, x, y) - theirs[2]));
}

static int make_folder(void **state) { return folder_make(folder, "test_image_quality"); }

static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_definition),
        cmocka_unit_test(range_of_an_image),
        cmocka_unit_test(values_of_the_experiment),
        cmocka_unit_test(against_scikit_image),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
