/* imaging.h: what Bayesian deblurring of images needs: total variation and its proximal maps, blurs with their
 * transposes, the usual measures of quality, and estimates of noise and start (docs/imaging.md).
 *
 * An image is rows x columns doubles, row after row, without padding: pixel (i, j) is x[i * columns + j]. Nothing is
 * clipped or rescaled. Arrays are the caller's, must not overlap unless said so, and need no alignment. Only
 * the estimates allocate, and they free before they return; scratch is counted in doubles, may be shared by all calls
 * of one thread and need not be kept between calls. All results have the same bits at every vector level. */
#ifndef SOSMC_IMAGING_H
#define SOSMC_IMAGING_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* rows * columns of an image is at most this. */
#define SOSMC_IMAGE_PIXELS (1 << 29)

/* ------------------------------------------------------------------------------------------------ total variation */

/* With forward differences a = x(i+1, j) - x(i, j) and b = x(i, j+1) - x(i, j), zero where they would leave the image:
 * the sum over the pixels of sqrt(a^2 + b^2), or of |a| + |b|. */
typedef enum { SOSMC_TV_ISOTROPIC = 0, SOSMC_TV_ANISOTROPIC = 1 } sosmc_tv_kind;
SOSMC_API double sosmc_tv(sosmc_tv_kind kind, int rows, int columns, const double *x);

/* u = argmin_v 1/2 |v - z|^2 + w sum_k |v_{k+1} - v_k| of one line, exactly, in time proportional to n whatever z is.
 * u may be z. Scratch: sosmc_tv_line_scratch(n). A weight beyond n (max z - min z) changes nothing any more. */
SOSMC_API size_t sosmc_tv_line_scratch(int n);
SOSMC_API void sosmc_tv_line(int n, double w, const double *z, double *u, double *scratch);

/* The map u* = argmin_v 1/2 |v - z|^2 + w TV(v), stopped as soon as the duality gap proves
 *
 *     |u - u*| <= tolerance |u*|        (both norms Euclidean, over the whole image).
 *
 * Anisotropic: from the closed form z - w D' sign(D z), which is u* wherever no neighbours merge, edges that violate
 * the optimality conditions are relaxed one by one; when they are too many, rows and columns are solved exactly in
 * turn, with acceleration. Isotropic: the accelerated projected gradient method on the dual. */
typedef struct {
    int rows, columns;
    sosmc_tv_kind kind;
    double tolerance; /* at least 1e-9: below that rounding hides what is to be proved; 1e-6 is a good choice */
    int passes;       /* at most so many passes over the image; 0: 10000 */
    double *dual; /* isotropic, or NULL: 2 rows columns doubles, where to start (zeros: nothing known) and, on return,
                       * where the method stopped; useful when z and w change little from call to call */
} sosmc_tv_settings;

typedef struct {
    double gap;    /* duality gap of u: |u - u*|^2 <= gap */
    double bound;  /* so |u - u*| is at most this; up to rounding */
    int passes;    /* over the whole image; the relaxation of edges counts as one */
    int certified; /* the tolerance was reached; 0: `passes` ended the iteration, and `bound` says how far it came */
} sosmc_tv_result;

SOSMC_API size_t sosmc_tv_prox_scratch(int rows, int columns);
/* u must not be z. result may be NULL. SOSMC_EINVAL: sizes, tolerance or w (finite, not negative) are wrong;
 * SOSMC_ENUMERIC: z is not finite, or its squares are not. */
SOSMC_API sosmc_status sosmc_tv_prox(const sosmc_tv_settings *s, double w, const double *z, double *u, double *scratch,
                                     sosmc_tv_result *result);

/* The anisotropic map as published experiments computed it: `passes` (35) Douglas-Rachford iterations from twice the
 * mean, no stopping rule (docs/imaging.md PUBLISHED). Same scratch. */
SOSMC_API void sosmc_tv_prox_published(int rows, int columns, int passes, double w, const double *z, double *u,
                                       double *scratch);

/* ------------------------------------------------------------------------------------------------ blurs */

typedef enum {
    SOSMC_BLUR_NONE = 0,
    SOSMC_BLUR_BOX = 1,      /* mean over a square window of 2 floor(patch / 2) + 1 pixels a side */
    SOSMC_BLUR_GAUSSIAN = 2, /* weights exp(-k^2 / (2 sigma^2)), |k| <= ceil(4 sigma), along columns and along rows */
    SOSMC_BLUR_MOTION = 3    /* along a straight line of `length` pixels, bilinear weights */
} sosmc_blur_kind;

/* y = mask . (B x). Weights that fall outside the image are dropped and the others rescaled to the sum one, so B keeps
 * constant images. Cost is proportional to the pixels; for the box whatever the window, for the others times
 * the width of their kernel. */
typedef struct {
    int rows, columns;
    sosmc_blur_kind kind;
    int patch;          /* box: 1 to 2 * 10^6; an even one gives a window of patch + 1 */
    double sigma;       /* Gaussian: pixels, 0 to 100 */
    double length;      /* motion: pixels from end to end, 0 to 200 */
    double angle;       /* motion: degrees, anticlockwise from the direction of the rows */
    const double *mask; /* rows * columns factors, 0 where a pixel is missing (inpainting); NULL: none */
} sosmc_blur;

/* In words what is wrong with a description; NULL: nothing. The other functions expect a sound one. */
SOSMC_API const char *sosmc_blur_fault(const sosmc_blur *b);
/* A pixel of B x depends on pixels at most so far away, along either axis. */
SOSMC_API int sosmc_blur_reach(const sosmc_blur *b);
SOSMC_API size_t sosmc_blur_scratch(const sosmc_blur *b);
/* y = B x and y = B' x. y may be x. */
SOSMC_API void sosmc_blur_apply(const sosmc_blur *b, const double *x, double *y, double *scratch);
SOSMC_API void sosmc_blur_adjoint(const sosmc_blur *b, const double *x, double *y, double *scratch);
/* The square of the largest singular value, from below, by at most `iterations` steps of the power method (fewer when
 * it stands still to 1e-9). Scratch: sosmc_blur_scratch(b) + 2 rows columns. */
SOSMC_API double sosmc_blur_norm2(const sosmc_blur *b, int iterations, double *scratch);

/* ------------------------------------------------------------------------------------------------ quality */

SOSMC_API double sosmc_mse(size_t n, const double *truth, const double *x);
/* 10 log10(range^2 / MSE): infinite for equal images. */
SOSMC_API double sosmc_psnr(size_t n, double range, const double *truth, const double *x);
/* Structural similarity with a uniform 7 x 7 window, unbiased variances, K1 = 0.01, K2 = 0.03, averaged over the
 * windows inside the image. Colour: `channels` images one after the other, and the mean of their values. NaN for an
 * image smaller than the window. Scratch: sosmc_ssim_scratch(columns). */
SOSMC_API size_t sosmc_ssim_scratch(int columns);
SOSMC_API double sosmc_ssim(int rows, int columns, int channels, double range, const double *truth, const double *x,
                            double *scratch);
/* max - min: the range the deblurring experiment uses. */
SOSMC_API double sosmc_image_range(size_t n, const double *x);

/* ------------------------------------------------------------------------------------------------ deblurring */

/* y = B x + sigma noise, with the prior of density proportional to exp(-e^theta TV(x)): for sosmc_mmle, which finds the
 * strength e^theta that makes y most likely (maths.md DEBLUR):
 *     U_theta(x) = |y - B x|^2 / (2 sigma^2) + e^theta TV(x) - freedom * theta.
 * dU/dx is that of the first term alone; the model's prox takes care of the second: use it with sosmc_myula. */
typedef struct {
    sosmc_blur blur;
    int channels;     /* 1 to 4, one picture after the other in x and y; they share theta */
    const double *y;  /* channels * rows * columns numbers */
    double sigma;     /* standard deviation of the noise */
    sosmc_tv_kind tv; /* of the potential */
    sosmc_tv_kind prox_tv;
    double tolerance;     /* of the proximal map, relative (sosmc_tv_settings) */
    int published_passes; /* above 0: so many Douglas-Rachford passes instead, as published experiments did (35) */
    /* The prior's constant is e^(-freedom theta). TV does not see constants, so the exact one is channels * (pixels - 1);
     * the paper takes the number of pixels. */
    double freedom;
    /* Above 0: the Moreau-Yosida envelope of this width replaces e^theta TV, for which tv and prox_tv must agree. dU/dx is then
     * that of the whole potential and there is no prox left: use it with sosmc_ula, which is then MYULA with the envelope for
     * its target, or with any other kernel that takes gradients. */
    double envelope;
} sosmc_deblur;
SOSMC_API sosmc_model sosmc_deblur_model(const sosmc_deblur *m); /* dim_x 0: the description is not sound */

/* A kernel for this model alone: the picture and the variances behind its differences take turns, each drawn given the other
 * (maths.md GIBBS). It leaves pi_theta invariant exactly and forgets within some ten moves what Langevin kernels take
 * thousands for; a move solves one linear system per channel, some hundred blurs. The error of that solve, squared and in
 * units of the posterior's own spread, is about `tolerance` (0.05), which is the kernel's h; a Metropolis test pays for it.
 * Use it with the model of the same description, and without an envelope. */
SOSMC_API sosmc_kernel sosmc_deblur_gibbs(const sosmc_deblur *deblur, double tolerance);

/* The residuals y - B x of the pixels that were seen, for a picture x that was drawn from the posterior. If blur and noise are what
 * the description says, they are independent normal numbers of standard deviation sigma. A statistic of them is off if it differs
 * from `expected` by more than `limit`: four standard deviations of it under such noise, and what a prior that is not quite that of
 * the picture, or an estimate of sigma, may add (docs/imaging.md RESIDUALS). */
typedef enum {
    SOSMC_RESIDUAL_SD = 0,     /* root mean square */
    SOSMC_RESIDUAL_ACROSS = 1, /* autocorrelation of neighbours in a row */
    SOSMC_RESIDUAL_DOWN = 2,   /* in a column */
    SOSMC_RESIDUAL_FAR = 3,    /* share beyond four of their own root mean square */
    SOSMC_RESIDUALS = 4
} sosmc_residual_kind;
typedef struct {
    double value, expected, limit;
} sosmc_residual;
SOSMC_API sosmc_status sosmc_deblur_residuals(const sosmc_deblur *m, const double *x,
                                              sosmc_residual out[SOSMC_RESIDUALS]);

/* ------------------------------------------------------------------------------------------------ noise and start */

/* What a deblurring must know before it starts, from the picture itself. Of the description only blur (with its mask), channels
 * and y are read, and sigma where said so. Results depend neither on a seed nor on threads or vector levels; their last digits
 * may depend on the C library. Statuses: SOSMC_EINVAL when the description is not sound, SOSMC_ENUMERIC when pixels are not
 * finite, SOSMC_ENOMEM. */

/* The standard deviation of the noise, from the frequencies the blur leaves least of, in windows without missing pixels;
 * where the blur clears no frequency, from second differences, of which those where all nine pixels are at most 0 or at least
 * 255 do not count (docs/imaging.md NOISE). A constant picture has none: 0. */
#define SOSMC_NOISE_SIDE 16 /* a window has at least so many pixels a side; differences are at least so many squared */
typedef enum { SOSMC_NOISE_FROM_WINDOWS = 0, SOSMC_NOISE_FROM_DIFFERENCES = 1 } sosmc_noise_source;
typedef struct {
    double sigma;            /* NaN: the status is not SOSMC_OK */
    sosmc_noise_source from; /* what the picture was asked */
    int64_t count;           /* of windows or differences that could answer */
} sosmc_noise;
/* SOSMC_ENUMERIC also when too few pixels stand together. Missing pixels may hold anything. */
SOSMC_API sosmc_status sosmc_estimate_noise(const sosmc_deblur *seen, sosmc_noise *out);
/* The standard deviation that rounding to multiples of `step` adds: no rounded picture has less noise. */
SOSMC_API double sosmc_rounding_noise(double step);

/* Missing pixels (where the blur's mask is 0) take the values of a membrane that is fixed at the others. */
SOSMC_API sosmc_status sosmc_fill_missing(const sosmc_blur *blur, int channels, double *y);

/* The two below read sigma, which must be above 0, and want missing pixels filled. */
/* The theta at which e^theta TV(x) / d = 1 for a quick least-squares reconstruction x of d numbers. */
SOSMC_API sosmc_status sosmc_estimate_theta(const sosmc_deblur *seen, double *theta);
/* Nearly the most likely picture under that theta, where particles may start: x takes as many numbers as y has. */
SOSMC_API sosmc_status sosmc_estimate_start(const sosmc_deblur *seen, double theta, double *x);

#ifdef __cplusplus
}
#endif

#endif
