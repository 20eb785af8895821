/* imaging.h: the arithmetic on images that exists once per vector level, as a table of functions (imaging_vec.c).
 *
 * Every function performs the same IEEE operations per pixel at each level. Sums use 8 accumulators, column j in
 * accumulator j mod 8, through all rows, folded once. Pixel p = i * columns + j has the edges 2 p (to its right
 * neighbour) and 2 p + 1 (to the pixel below). */
#ifndef SOSMC_IMAGING_IMAGING_H
#define SOSMC_IMAGING_IMAGING_H

#include <sosmc/imaging.h>

enum { SSIM_WINDOW = 7, SSIM_SUMS = 5 }; /* sums of x, y, x^2, y^2, x y */

typedef struct {
    double (*tv)(int isotropic, int rows, int columns, const double *x);
    double (*range)(size_t n, const double *x); /* max - min; NaN is ignored */
    /* u = z - w D' sign(D z); edges along which u no longer has the sign of z go into `suspect` (room for all edges),
     * and some that are level too. Returns their number; *square = |u|^2. */
    int (*closed_form)(int rows, int columns, double w, const double *z, double *u, int32_t *suspect, double *square);
    /* sum (z - u) (u - centre) */
    double (*moved)(size_t n, double centre, const double *z, const double *u);
    /* One step of the projected gradient method on the isotropic dual, from the extrapolated point r:
     *     next = project(r + step D (z - D' r)),   r <- next + momentum (next - q),   q <- next
     * q and r: horizontal parts (d), then vertical ones (d). lines: room for 2 * columns. */
    void (*dual_step)(int rows, int columns, double w, double step, double momentum, const double *z, double *q,
                      double *r, double *lines);
    /* u = z - D' q; returns sum (w |D u| - q . D u); *square = |u|^2 */
    double (*dual_gap)(int rows, int columns, double w, const double *z, const double *q, double *u, double *square);

    /* --- quadratic forms --- */
    double (*dot)(size_t n, const double *x, const double *y);
    /* r <- scale (r - mask y), mask NULL: without; returns |r|^2 */
    double (*residual)(size_t n, double scale, const double *mask, const double *y, double *r);
    /* y <- factor y + D' diag(down, right) D x, a factor for each pixel's edge to the one below and to its right; those of edges
     * that leave the image do not count. Returns x . y. */
    double (*stiffness)(int rows, int columns, double factor, const double *down, const double *right, const double *x,
                        double *y);
    /* v <- v + a p, r <- r - a q; returns |r|^2 */
    double (*descend)(size_t n, double a, const double *p, const double *q, double *v, double *r);

    /* --- rows --- */
    void (*slide)(int n, const double *enters, const double *leaves, double *sum); /* sum += enters - leaves */
    void (*add)(int n, double factor, const double *x, double *sum);               /* sum += factor * x */
    void (*multiply)(int n, const double *x, const double *by, double *y);         /* y = x * by; y may be x */
    /* Adds the SSIM of the n windows whose column sums (SSIM_SUMS rows of ld doubles) begin at each column. */
    double (*similarity)(int n, int ld, const double *sums, double c1, double c2);
    /* Column sums of one more row, and of one fewer: rows x and y enter, old_x and old_y (or NULL) leave. */
    void (*window_row)(int n, int ld, const double *x, const double *y, const double *old_x, const double *old_y,
                       double *sums);
} imaging_code;

const imaging_code *sosmc_i_imaging(const sosmc_simd *simd); /* NULL: the best of this machine */

#endif
