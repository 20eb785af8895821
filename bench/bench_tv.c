/* bench_tv.c: proximal maps of the total variation, blurs and image measures: processor time on one core, best of
 * several repeats.
 *
 * The image is the experiment's (292 x 119) with the noise of a particle, that of
 * experiments/deblurring, or else a synthetic one of the same size. The published recipe (35 passes) and the map
 * stopped by its certificate run in turns, in the same process; errors are measured against a certified map of
 * tolerance 1e-9 (1e-7 for w of 1 and more). */
#include <math.h>
#include <sosmc/imaging.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "guitar.h"

enum { REPEATS = 7, PUBLISHED = 35 };
static const double TOLERANCE = 1e-6;

static double truth[PIXELS], z[PIXELS], u[PIXELS], v[PIXELS], best[PIXELS], *scratch;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void add_noise(double sd)
{
    sosmc_batch b = {.dim = PIXELS, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &b, z);
    for (int e = 0; e < PIXELS; e++) z[e] = truth[e] + sd * z[e];
}

static double norm(const double *x)
{
    double sum = 0;
    for (int e = 0; e < PIXELS; e++) sum += x[e] * x[e];
    return sqrt(sum);
}

static double relative(const double *x, const double *reference)
{
    return sqrt(sosmc_mse(PIXELS, reference, x) * PIXELS) / norm(reference);
}

static void weigh_against_published(double sd, double w)
{
    sosmc_tv_settings s = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_TV_ANISOTROPIC, .tolerance = TOLERANCE};
    sosmc_tv_settings fine = s;
    sosmc_tv_result r = {0};
    double published = INFINITY, certified = INFINITY;
    fine.tolerance = w < 1 ? 1e-9 : 1e-7;
    add_noise(sd);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begin = now();
        sosmc_tv_prox_published(ROWS, COLUMNS, PUBLISHED, w, z, v, scratch);
        double middle = now();
        if (sosmc_tv_prox(&s, w, z, u, scratch, &r)) exit(1);
        double end = now();
        published = fmin(published, middle - begin);
        certified = fmin(certified, end - middle);
    }
    if (sosmc_tv_prox(&fine, w, z, best, scratch, NULL)) exit(1);
    printf("%6.1f %8.0e %10.3f %10.4f %8.0f   %9.1e %9.1e %9.1e %6d%s\n", sd, w, published, certified,
           published / certified, relative(v, best), relative(u, best), r.bound / norm(best), r.passes,
           r.certified ? "" : "  not certified");
}

static void isotropic(double sd, double w)
{
    sosmc_tv_settings s = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_TV_ISOTROPIC, .tolerance = TOLERANCE};
    sosmc_tv_result r = {0};
    double best_time = INFINITY;
    add_noise(sd);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begin = now();
        if (sosmc_tv_prox(&s, w, z, u, scratch, &r)) exit(1);
        best_time = fmin(best_time, now() - begin);
    }
    printf("%6.1f %8.0e %10.4f %6d%s\n", sd, w, best_time, r.passes, r.certified ? "" : "  not certified");
}

typedef void task(const void *what);
static void run_apply(const void *b) { sosmc_blur_apply(b, z, u, scratch); }
static void run_adjoint(const void *b) { sosmc_blur_adjoint(b, z, u, scratch); }
static void run_tv(const void *kind) { u[0] = sosmc_tv(*(const sosmc_tv_kind *)kind, ROWS, COLUMNS, z); }
static void run_mse(const void *unused) { u[0] = sosmc_mse(PIXELS, truth, z); }
static void run_ssim(const void *unused) { u[0] = sosmc_ssim(ROWS, COLUMNS, 1, 255, truth, z, scratch); }

static void report(const char *name, task *work, const void *what)
{
    double least = INFINITY;
    for (int repeat = 0; repeat < 10 * REPEATS; repeat++) {
        double begin = now();
        work(what);
        least = fmin(least, now() - begin);
    }
    printf("  %-36s %8.1f us\n", name, 1e3 * least);
}

static void others(void)
{
    const sosmc_blur box = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_BLUR_BOX, .patch = 5};
    const sosmc_blur wide = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_BLUR_BOX, .patch = 10};
    const sosmc_blur gauss = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_BLUR_GAUSSIAN, .sigma = 1.5};
    const sosmc_blur motion = {.rows = ROWS, .columns = COLUMNS, .kind = SOSMC_BLUR_MOTION, .length = 9, .angle = 30};
    const sosmc_tv_kind iso = SOSMC_TV_ISOTROPIC, aniso = SOSMC_TV_ANISOTROPIC;
    printf("\nother passes over the image\n");
    report("total variation, isotropic", run_tv, &iso);
    report("total variation, anisotropic", run_tv, &aniso);
    report("box blur, patch 5", run_apply, &box);
    report("box blur, patch 5, transposed", run_adjoint, &box);
    report("box blur, patch 10", run_apply, &wide);
    report("Gaussian blur, sigma 1.5", run_apply, &gauss);
    report("motion blur, length 9, 30 degrees", run_apply, &motion);
    report("mean square error", run_mse, NULL);
    report("structural similarity", run_ssim, NULL);
}

int main(void)
{
    static const double weights[] = {1e-7, 1e-5, 1e-3, 5e-3, 2e-2}, large[] = {0.4, 4};
    scratch = malloc(sosmc_tv_prox_scratch(ROWS, COLUMNS) * sizeof *scratch);
    if (!scratch) return 1;
    printf("%s image, %d x %d, vector level %s, tolerance %.0e\n\n", read_guitar(truth), ROWS, COLUMNS,
           sosmc_simd_name(NULL), TOLERANCE);
    printf("anisotropic map, milliseconds, and relative errors\n");
    printf(" noise        w  published  certified    ratio   published certified     bound passes\n");
    for (int k = 0; k < 5; k++) weigh_against_published(10, weights[k]);
    for (int k = 0; k < 5; k++) weigh_against_published(1, weights[k]);
    for (int k = 0; k < 2; k++) weigh_against_published(10, large[k]);
    printf("\nisotropic map, milliseconds\n noise        w  certified passes\n");
    for (int k = 0; k < 5; k++) isotropic(10, weights[k]);
    for (int k = 0; k < 2; k++) isotropic(10, large[k]);
    others();
    free(scratch);
    return 0;
}
