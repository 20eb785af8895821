/* linear.h: dense linear algebra for small symmetric matrices, up to some 200 rows.
 *
 * Matrices are n x n, row-major, without gaps. Every sum runs over ascending indices in one accumulator, so the bits are the
 * same on every machine. Nothing is allocated. */
#ifndef SOSMC_BASE_LINEAR_H
#define SOSMC_BASE_LINEAR_H

#include <stddef.h>

/* The factor C of a = C C^T in the lower triangle of a, of which only the lower triangle is read; what stands above the diagonal
 * stays as it is, and all functions below that take C ignore it. Returns 0, or -1 when a is not positive definite; a is then
 * spoilt. */
int sosmc_i_cholesky(size_t n, double *a);
/* s <- C^-1 s, s <- C^-T s, and both in turn: s <- (C C^T)^-1 s. */
void sosmc_i_solve_lower(size_t n, const double *C, double *s);
void sosmc_i_solve_lower_transposed(size_t n, const double *C, double *s);
void sosmc_i_cholesky_solve(size_t n, const double *C, double *s);
/* inverse = (C C^T)^-1, all n x n of it; row k is the solution for the k-th unit vector, so the two triangles may differ by
 * rounding. */
void sosmc_i_cholesky_inverse(size_t n, const double *C, double *inverse);
/* log det(C C^T) */
double sosmc_i_cholesky_log_determinant(size_t n, const double *C);

/* a' b; whether all of x are finite. */
double sosmc_i_dot(size_t n, const double *a, const double *b);
int sosmc_i_all_finite(size_t n, const double *x);

/* y = a x; y may not be x. */
void sosmc_i_matrix_vector(size_t n, const double *a, const double *x, double *y);

/* The eigenvalues of the symmetric matrix a in ascending order, and of each its eigenvector of length one in a row of
 * `vectors` (n x n). a is overwritten. Returns 0, or -1 when a has an entry that is not finite, or, which has not been seen,
 * when the off-diagonal entries do not vanish. */
int sosmc_i_eigen(size_t n, double *a, double *values, double *vectors);

#endif
