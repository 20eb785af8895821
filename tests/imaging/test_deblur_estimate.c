/* test_deblur_estimate.c: the noise of simulated pictures is found within a few per cent whatever blurred them, missing pixels
 * are filled by a membrane, and theta starts near -log of the clean picture's total variation per pixel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

typedef struct {
    int channels, rows, columns;
    double *pixel; /* one channel after the other */
} image;

static void image_free(image *im) { free(im->pixel); }

static sosmc_deblur as_seen(const image *im, sosmc_blur blur, double sigma)
{
    return (sosmc_deblur){.blur = blur, .channels = im->channels, .y = im->pixel, .sigma = sigma};
}

static const sosmc_blur blurs[] = {{.kind = SOSMC_BLUR_NONE},
                                   {.kind = SOSMC_BLUR_BOX, .patch = 5},
                                   {.kind = SOSMC_BLUR_BOX, .patch = 9},
                                   {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 1.5},
                                   {.kind = SOSMC_BLUR_GAUSSIAN, .sigma = 0.3},
                                   {.kind = SOSMC_BLUR_MOTION, .length = 9, .angle = 30}};
enum { BLURS = sizeof blurs / sizeof *blurs };

/* Shades, a disc, blocks with hard edges and a little texture. */
static void draw(image *im, int channels, int rows, int columns)
{
    *im = (image){.channels = channels, .rows = rows, .columns = columns};
    im->pixel = malloc((size_t)channels * (size_t)rows * (size_t)columns * sizeof(double));
    assert_non_null(im->pixel);
    double *x = im->pixel;
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++) {
                double u = (i - 0.5 * rows) / (0.3 * rows), v = (j - 0.4 * columns) / (0.3 * columns);
                *x = 90 + 20.0 * c + 0.3 * i + (u * u + v * v < 1 ? 60 : 0) + ((i / 13 + j / 17) % 3 == 0 ? -35 : 0);
                x++;
            }
}

/* Blurs and adds noise; `round_it`: to whole numbers, as a file would. */
static sosmc_blur degrade(image *im, sosmc_blur blur, double sigma, uint64_t seed, int round_it)
{
    size_t pixels = (size_t)im->rows * (size_t)im->columns;
    blur.rows = im->rows;
    blur.columns = im->columns;
    double *scratch = malloc((sosmc_blur_scratch(&blur) + 1) * sizeof *scratch), *z = malloc(pixels * sizeof *z);
    assert_true(scratch && z);
    for (int c = 0; c < im->channels; c++) {
        double *x = im->pixel + (size_t)c * pixels;
        sosmc_batch b = {.x = z, .dim = (int)pixels, .n = 1, .ld = 1, .simd = sosmc_simd_best()};
        sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER + (uint32_t)c}, &b, z);
        sosmc_blur_apply(&blur, x, x, scratch);
        for (size_t j = 0; j < pixels; j++) x[j] = round_it ? round(x[j] + sigma * z[j]) : x[j] + sigma * z[j];
    }
    free(scratch);
    free(z);
    return blur;
}

static double estimate(int channels, int rows, int columns, const sosmc_blur *blur, double sigma, uint64_t seed,
                       int round_it)
{
    image im;
    sosmc_noise found;
    draw(&im, channels, rows, columns);
    sosmc_deblur seen = as_seen(&im, degrade(&im, *blur, sigma, seed, round_it), 0);
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_OK);
    assert_true(found.count > 0);
    image_free(&im);
    return found.sigma;
}

static void noise_is_found(void **state)
{
    static const double sigmas[] = {0.5, 2, 10};
    for (int b = 0; b < BLURS; b++)
        for (int s = 0; s < 3; s++) {
            double found = estimate(1, 150, 170, &blurs[b], sigmas[s], 11, 0);
            if (!(fabs(found / sigmas[s] - 1) < 0.1)) fail_msg("blur %d: %g, expected %g", b, found, sigmas[s]);
        }
}

/* Areas that are all black or all white have no noise left to see, and say nothing about that of the rest. */
static void noise_beside_clipped_areas(void **state)
{
    enum { ROWS = 150, COLUMNS = 170 };
    for (int white = 0; white < 2; white++) {
        image im;
        sosmc_noise found;
        draw(&im, 1, ROWS, COLUMNS);
        sosmc_deblur seen = as_seen(&im, degrade(&im, blurs[0], 5, 17, 0), 0);
        for (int e = 0; e < ROWS * COLUMNS; e++)
            if (e % COLUMNS < 110) im.pixel[e] = white ? 255 : 0; /* two thirds of the picture */
        assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_OK);
        assert_int_equal(found.from, SOSMC_NOISE_FROM_DIFFERENCES);
        if (!(fabs(found.sigma / 5 - 1) < 0.1)) fail_msg("%s: %g, expected 5", white ? "white" : "black", found.sigma);
        image_free(&im);
    }
}

/* Single estimates from small pictures scatter; their mean does not lie. */
static void noise_of_small_pictures(void **state)
{
    enum { SEEDS = 24 };
    for (int b = 0; b < BLURS; b++) {
        double sum = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) sum += estimate(1, 40, 48, &blurs[b], 2, seed, 0) / SEEDS;
        if (!(fabs(sum / 2 - 1) < 0.15)) fail_msg("blur %d: %g on average, expected 2", b, sum);
    }
}

static void rounding_counts_as_noise(void **state)
{
    double found = estimate(3, 150, 170, &blurs[1], 0.4, 3, 1), expected = sqrt(0.4 * 0.4 + 1 / 12.0);
    if (!(fabs(found / expected - 1) < 0.1)) fail_msg("%g, expected %g", found, expected);
    assert_true(fabs(sosmc_rounding_noise(1) - 0.288675) < 1e-6);
    assert_true(fabs(sosmc_rounding_noise(1 / 257.0) * 257 - 0.288675) < 1e-6);
}

/* A dark patch that never was: windows with missing pixels are left out, and without a whole one the status says so. */
static void noise_beside_missing_pixels(void **state)
{
    image im;
    sosmc_noise found;
    draw(&im, 1, 150, 170);
    sosmc_blur blur = degrade(&im, blurs[1], 2, 5, 0);
    double *mask = malloc(150 * 170 * sizeof *mask);
    assert_non_null(mask);
    for (int j = 0; j < 150 * 170; j++) mask[j] = j / 170 > 40 || j % 170 > 40;
    for (int j = 0; j < 150 * 170; j++)
        if (mask[j] == 0) im.pixel[j] = j % 2 ? 0 : NAN;
    blur.mask = mask;
    sosmc_deblur seen = as_seen(&im, blur, 0);
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_OK);
    if (!(fabs(found.sigma / 2 - 1) < 0.15)) fail_msg("%g, expected 2", found.sigma);
    for (int j = 0; j < 150 * 170; j++) mask[j] = (j / 170) % 8 > 0;
    for (int j = 0; j < 150 * 170; j++) im.pixel[j] = 0;
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_ENUMERIC);
    assert_true(isnan(found.sigma) && found.from == SOSMC_NOISE_FROM_WINDOWS && found.count == 0);
    free(mask);
    image_free(&im);
}

static void too_small_for_noise(void **state)
{
    image im;
    sosmc_noise found;
    draw(&im, 1, 18, 18);
    sosmc_deblur seen = as_seen(&im, degrade(&im, blurs[1], 2, 5, 0), 0);
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_ENUMERIC);
    assert_true(isnan(found.sigma) && found.from == SOSMC_NOISE_FROM_WINDOWS && found.count == 0);
    seen.blur = (sosmc_blur){
        .kind = SOSMC_BLUR_NONE, .rows = 17, .columns = 17}; /* 15 x 15 differences; 256 are wanted */
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_ENUMERIC);
    assert_true(isnan(found.sigma) && found.from == SOSMC_NOISE_FROM_DIFFERENCES && found.count == 225);
    image_free(&im);
}

static void wrong_descriptions_are_refused(void **state)
{
    double y[20 * 20], theta = 0, x[20 * 20];
    sosmc_noise found;
    for (int j = 0; j < 20 * 20; j++) y[j] = 100 + j % 7;
    const sosmc_deblur sound = {.blur = {.rows = 20, .columns = 20}, .channels = 1, .y = y, .sigma = 1};
    sosmc_deblur seen = sound;
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_OK);
    assert_int_equal(sosmc_estimate_theta(&seen, &theta), SOSMC_OK);
    assert_int_equal(sosmc_estimate_start(&seen, theta, x), SOSMC_OK);
    seen.sigma = 0;
    assert_int_equal(sosmc_estimate_theta(&seen, &theta), SOSMC_EINVAL);
    assert_int_equal(sosmc_estimate_start(&seen, theta, x), SOSMC_EINVAL);
    seen = sound;
    seen.channels = 0;
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_EINVAL);
    assert_int_equal(sosmc_fill_missing(&seen.blur, 0, y), SOSMC_EINVAL);
    seen = sound;
    seen.blur.kind = SOSMC_BLUR_BOX; /* without a patch */
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_EINVAL);
    seen = sound;
    y[7] = NAN;
    assert_int_equal(sosmc_estimate_noise(&seen, &found), SOSMC_ENUMERIC);
    assert_int_equal(sosmc_estimate_theta(&seen, &theta), SOSMC_ENUMERIC);
    assert_int_equal(sosmc_estimate_start(&seen, 0, x), SOSMC_ENUMERIC);
}

/* The membrane through a linear picture is that picture. */
static void missing_pixels_are_filled(void **state)
{
    enum { ROWS = 12, COLUMNS = 14 };
    double mask[ROWS * COLUMNS], x[2 * ROWS * COLUMNS];
    sosmc_blur blur = {.rows = ROWS, .columns = COLUMNS, .mask = mask};
    for (int j = 0; j < ROWS * COLUMNS; j++) {
        int row = j / COLUMNS, column = j % COLUMNS;
        mask[j] = !(row >= 3 && row < 8 && column >= 4 && column < 9);
        x[j] = mask[j] > 0 ? 3.0 * row + column : -1000;
        x[ROWS * COLUMNS + j] = mask[j] > 0 ? 7 : 1e6;
    }
    assert_int_equal(sosmc_fill_missing(&blur, 2, x), SOSMC_OK);
    for (int j = 0; j < ROWS * COLUMNS; j++) {
        int row = j / COLUMNS, column = j % COLUMNS;
        assert_true(fabs(x[j] - (3.0 * row + column)) < 1e-6);
        assert_true(x[ROWS * COLUMNS + j] == 7);
    }
}

static void theta_starts_near(void **state)
{
    for (int b = 0; b < BLURS; b++) {
        image im;
        double theta = NAN;
        draw(&im, 1, 90, 100);
        double wanted = -log(sosmc_tv(SOSMC_TV_ISOTROPIC, 90, 100, im.pixel) / (90 * 100));
        sosmc_deblur seen = as_seen(&im, degrade(&im, blurs[b], 0.5, 2, 0), 0.5);
        assert_int_equal(sosmc_estimate_theta(&seen, &theta), SOSMC_OK);
        if (!(fabs(theta - wanted) < 0.7)) fail_msg("blur %d: theta %g, the clean picture says %g", b, theta, wanted);
        image_free(&im);
    }
}

/* The start has less total variation than the truth and noise together, and is nearer to the truth than what was seen. */
static void start_is_nearer(void **state)
{
    for (int b = 0; b < BLURS; b++) {
        enum { N = 60 * 70 };
        image clean, seen;
        double x[N];
        draw(&clean, 1, 60, 70);
        draw(&seen, 1, 60, 70);
        sosmc_deblur description = as_seen(&seen, degrade(&seen, blurs[b], 4, 2, 0), 4);
        assert_int_equal(sosmc_estimate_start(&description, -2, x), SOSMC_OK);
        double before = sosmc_mse(N, clean.pixel, seen.pixel), after = sosmc_mse(N, clean.pixel, x);
        if (!(after < 0.8 * before)) fail_msg("blur %d: MSE %g, before it was %g", b, after, before);
        image_free(&clean);
        image_free(&seen);
    }
}

/* Residuals that are normal noise are never off in 200 pictures, and each statistic sees what is not: too much noise, light and
 * dark lines, single pixels that are wrong. Missing pixels do not count. */
static void residuals_are_compared_with_noise(void **state)
{
    enum { ROWS = 40, COLUMNS = 48, N = ROWS * COLUMNS };
    static double x[2 * N], y[2 * N], z[2 * N], mask[N];
    sosmc_batch b = {.x = z, .dim = 2 * N, .n = 1, .ld = 1, .simd = sosmc_simd_best()};
    sosmc_blur blur = {.rows = ROWS, .columns = COLUMNS, .mask = mask};
    sosmc_deblur seen = {.blur = blur, .channels = 2, .y = y, .sigma = 3};
    sosmc_residual r[SOSMC_RESIDUALS];
    for (int j = 0; j < N; j++) mask[j] = j % COLUMNS > 2;
    for (int wrong = -1; wrong < SOSMC_RESIDUALS; wrong++)
        for (uint64_t seed = 0; seed < (wrong < 0 ? 200 : 1); seed++) {
            sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, z);
            for (int j = 0; j < 2 * N; j++) {
                double noise = 3 * z[j];
                if (wrong == SOSMC_RESIDUAL_SD) noise *= 1.4;
                if (wrong == SOSMC_RESIDUAL_ACROSS) noise += j / COLUMNS % 2 ? 2 : -2;
                if (wrong == SOSMC_RESIDUAL_DOWN) noise += j % COLUMNS % 2 ? 2 : -2;
                if (wrong == SOSMC_RESIDUAL_FAR) noise += j % 200 == 50 ? 30 : 0;
                x[j] = j % 7;
                y[j] = mask[j % N] > 0 ? x[j] + noise : 1e6;
            }
            assert_int_equal(sosmc_deblur_residuals(&seen, x, r), SOSMC_OK);
            for (int k = 0; k < SOSMC_RESIDUALS; k++) {
                int off = fabs(r[k].value - r[k].expected) > r[k].limit;
                if (off && wrong < 0)
                    fail_msg("seed %d, statistic %d: %g, expected %g +- %g", (int)seed, k, r[k].value, r[k].expected,
                             r[k].limit);
                if (!off && k == wrong) fail_msg("statistic %d is %g, and passes", k, r[k].value);
            }
        }
    seen.sigma = 0;
    assert_int_equal(sosmc_deblur_residuals(&seen, x, r), SOSMC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_found),
        cmocka_unit_test(noise_beside_clipped_areas),
        cmocka_unit_test(noise_of_small_pictures),
        cmocka_unit_test(rounding_counts_as_noise),
        cmocka_unit_test(noise_beside_missing_pixels),
        cmocka_unit_test(too_small_for_noise),
        cmocka_unit_test(missing_pixels_are_filled),
        cmocka_unit_test(theta_starts_near),
        cmocka_unit_test(start_is_nearer),
        cmocka_unit_test(residuals_are_compared_with_noise),
        cmocka_unit_test(wrong_descriptions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
