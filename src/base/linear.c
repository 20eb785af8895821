/* linear.c: Cholesky factors and what follows from them, and eigenvalues by cyclic Jacobi rotations. */
#include "linear.h"

#include <math.h>
#include <string.h>

#include "table.h"

/* ------------------------------------------------------------------------------------------------ Cholesky */

int sosmc_i_cholesky(size_t n, double *a)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t l = 0; l <= k; l++) {
            double sum = a[k * n + l];
            for (size_t q = 0; q < l; q++) sum -= a[k * n + q] * a[l * n + q];
            if (l < k)
                a[k * n + l] = sum / a[l * n + l];
            else if (sum > 0 && isfinite(sum))
                a[k * n + k] = sqrt(sum);
            else
                return -1;
        }
    }
    return 0;
}

void sosmc_i_solve_lower(size_t n, const double *C, double *s)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t q = 0; q < k; q++) s[k] -= C[k * n + q] * s[q];
        s[k] /= C[k * n + k];
    }
}

void sosmc_i_solve_lower_transposed(size_t n, const double *C, double *s)
{
    for (size_t k = n; k-- > 0;) {
        for (size_t q = k + 1; q < n; q++) s[k] -= C[q * n + k] * s[q];
        s[k] /= C[k * n + k];
    }
}

void sosmc_i_cholesky_solve(size_t n, const double *C, double *s)
{
    sosmc_i_solve_lower(n, C, s);
    sosmc_i_solve_lower_transposed(n, C, s);
}

void sosmc_i_cholesky_inverse(size_t n, const double *C, double *inverse)
{
    memset(inverse, 0, n * n * sizeof *inverse);
    for (size_t k = 0; k < n; k++) { /* the matrix is symmetric: columns are rows */
        inverse[k * n + k] = 1;
        sosmc_i_cholesky_solve(n, C, inverse + k * n);
    }
}

double sosmc_i_cholesky_log_determinant(size_t n, const double *C)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += sosmc_i_log1(NULL, C[k * n + k]);
    return 2 * sum;
}

/* ------------------------------------------------------------------------------------------------ products */

double sosmc_i_dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
}

int sosmc_i_all_finite(size_t n, const double *x)
{
    for (size_t j = 0; j < n; j++)
        if (!isfinite(x[j])) return 0;
    return 1;
}

void sosmc_i_matrix_vector(size_t n, const double *a, const double *x, double *y)
{
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t l = 0; l < n; l++) sum += a[k * n + l] * x[l];
        y[k] = sum;
    }
}

/* ------------------------------------------------------------------------------------------------ eigenvalues */

/* The largest |entry| of the upper triangle, with the diagonal or without; infinite where an entry is not finite. */
static double largest(size_t n, const double *a, int diagonal)
{
    double most = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t l = diagonal ? k : k + 1; l < n; l++) {
            if (!isfinite(a[k * n + l])) return INFINITY;
            most = fmax(most, fabs(a[k * n + l]));
        }
    return most;
}

/* (u, v) <- (c u - s v, s u + c v) */
static void rotate_rows(size_t n, double c, double s, double *u, double *v)
{
    for (size_t r = 0; r < n; r++) {
        double ur = u[r], vr = v[r];
        u[r] = c * ur - s * vr;
        v[r] = s * ur + c * vr;
    }
}

/* The rotation in the plane of coordinates p < q that makes a[p][q] zero; a stays symmetric in every bit. The tangent t of its
 * angle is the smaller root of t^2 + 2 t ratio - 1 = 0, which moves the diagonal by t a[p][q]. */
static void rotate(size_t n, size_t p, size_t q, double *a, double *vectors)
{
    double off = a[p * n + q], below = a[p * n + p], above = a[q * n + q], ratio = (above - below) / (2 * off);
    double t = 1 / (fabs(ratio) + sqrt(ratio * ratio + 1));
    if (ratio < 0) t = -t;
    double c = 1 / sqrt(t * t + 1), s = t * c;
    rotate_rows(n, c, s, a + p * n, a + q * n);
    rotate_rows(n, c, s, vectors + p * n, vectors + q * n);
    for (size_t r = 0; r < n; r++) {
        a[r * n + p] = a[p * n + r];
        a[r * n + q] = a[q * n + r];
    }
    a[p * n + p] = below - t * off;
    a[q * n + q] = above + t * off;
    a[p * n + q] = a[q * n + p] = 0;
}

/* Ascending; equal ones stay in order. */
static void sort(size_t n, double *values, double *vectors)
{
    for (size_t k = 1; k < n; k++)
        for (size_t l = k; l > 0 && values[l] < values[l - 1]; l--) {
            double kept = values[l], *u = vectors + l * n, *v = u - n;
            values[l] = values[l - 1];
            values[l - 1] = kept;
            for (size_t r = 0; r < n; r++) {
                kept = u[r];
                u[r] = v[r];
                v[r] = kept;
            }
        }
}

/* Sweeps over all pairs (p, q), p < q, row by row, until the largest off-diagonal entry is below half a unit in the last place
 * of the largest entry at the start. Some ten sweeps are enough for 200 rows. */
int sosmc_i_eigen(size_t n, double *a, double *values, double *vectors)
{
    enum { SWEEPS = 60 };
    double limit = 0x1p-53 * largest(n, a, 1);
    if (isinf(limit)) return -1;
    memset(vectors, 0, n * n * sizeof *vectors);
    for (size_t k = 0; k < n; k++) vectors[k * n + k] = 1;
    for (int sweep = 0; largest(n, a, 0) > limit; sweep++) {
        if (sweep == SWEEPS) return -1;
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (a[p * n + q] != 0) rotate(n, p, q, a, vectors);
    }
    for (size_t k = 0; k < n; k++) values[k] = a[k * n + k];
    sort(n, values, vectors);
    return 0;
}
