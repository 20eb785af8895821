/* test_linear.c: Cholesky factors, solves, inverses and determinants of random matrices by their residuals, a matrix that is not
 * positive definite, and eigenvalues of matrices whose eigenvalues are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "assertions.h"
#include "base/linear.h"
#include "base/table.h"

enum { MOST = 200 };
static const size_t SIZES[] = {1, 2, 3, 7, 20, 64, MOST};
enum { SIZES_COUNT = sizeof SIZES / sizeof *SIZES };
static double A[MOST * MOST], B[MOST * MOST], C[MOST * MOST], V[MOST * MOST], x[MOST], y[MOST], value[MOST];

/* n x m standard normals: row k is particle k of this name. */
static void normals(uint64_t seed, size_t n, size_t m, double *z)
{
    sosmc_rng rng = {.seed = seed, .stream = SOSMC_STREAM_USER};
    for (size_t k = 0; k < n; k++) {
        sosmc_batch b = {.first = (int64_t)k, .dim = (int)m, .n = 1, .ld = 1};
        sosmc_normals(rng, &b, z + k * m);
    }
}

/* A = B B^T / n + I / 10 */
static void positive(uint64_t seed, size_t n)
{
    normals(seed, n, n, B);
    for (size_t k = 0; k < n; k++)
        for (size_t l = 0; l < n; l++) {
            double sum = 0;
            for (size_t q = 0; q < n; q++) sum += B[k * n + q] * B[l * n + q];
            A[k * n + l] = sum / (double)n + (k == l ? 0.1 : 0);
        }
}

static double dot(size_t n, const double *u, const double *v)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += u[k] * v[k];
    return sum;
}

static void factor_gives_the_matrix(void **state)
{
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        positive(1, n);
        memcpy(C, A, n * n * sizeof *C);
        for (size_t k = 0; k < n; k++) /* the upper triangle is not read */
            for (size_t l = k + 1; l < n; l++) C[k * n + l] = NAN;
        assert_int_equal(sosmc_i_cholesky(n, C), 0);
        for (size_t k = 0; k < n; k++)
            for (size_t l = 0; l <= k; l++) assert_near(dot(l + 1, C + k * n, C + l * n), A[k * n + l], 1e-13);
        for (size_t k = 0; k < n; k++)
            for (size_t l = k + 1; l < n; l++) assert_true(isnan(C[k * n + l]));
    }
}

static void solves_leave_no_residual(void **state)
{
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        positive(2, n);
        memcpy(C, A, n * n * sizeof *C);
        assert_int_equal(sosmc_i_cholesky(n, C), 0);
        normals(3, 1, n, x);

        memcpy(y, x, n * sizeof *y);
        sosmc_i_solve_lower(n, C, y);
        for (size_t k = 0; k < n; k++) assert_near(dot(k + 1, C + k * n, y), x[k], 1e-12);

        memcpy(y, x, n * sizeof *y);
        sosmc_i_solve_lower_transposed(n, C, y);
        for (size_t k = 0; k < n; k++) {
            double sum = 0;
            for (size_t q = k; q < n; q++) sum += C[q * n + k] * y[q];
            assert_near(sum, x[k], 1e-12);
        }

        memcpy(y, x, n * sizeof *y);
        sosmc_i_cholesky_solve(n, C, y);
        sosmc_i_matrix_vector(n, A, y, value);
        for (size_t k = 0; k < n; k++) assert_near(value[k], x[k], 1e-11);
    }
}

static void inverse_times_matrix_is_one(void **state)
{
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        positive(4, n);
        memcpy(C, A, n * n * sizeof *C);
        assert_int_equal(sosmc_i_cholesky(n, C), 0);
        sosmc_i_cholesky_inverse(n, C, B);
        for (size_t k = 0; k < n; k++) /* A is symmetric */
            for (size_t l = 0; l < n; l++) assert_near(dot(n, B + k * n, A + l * n), k == l, 1e-11);
    }
}

static void a_product_of_the_matrix_by_hand(void **state)
{
    const double a[9] = {2, -1, 0.5, -1, 3, 4, 0.5, 4, -2}, v[3] = {1, 2, -4};
    double product[3];
    sosmc_i_matrix_vector(3, a, v, product);
    assert_true(product[0] == -2 && product[1] == -11 && product[2] == 16.5);
}

/* Determinants: of a 2 x 2 matrix by hand, and of larger ones as the product of eigenvalues. */
static void determinants(void **state)
{
    double two[4] = {3, NAN, 1, 5};
    assert_int_equal(sosmc_i_cholesky(2, two), 0);
    assert_near(sosmc_i_cholesky_log_determinant(2, two), log(14), 1e-14);
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        double sum = 0;
        positive(5, n);
        memcpy(C, A, n * n * sizeof *C);
        assert_int_equal(sosmc_i_cholesky(n, C), 0);
        assert_int_equal(sosmc_i_eigen(n, A, value, V), 0);
        for (size_t k = 0; k < n; k++) sum += log(value[k]);
        assert_near(sosmc_i_cholesky_log_determinant(n, C), sum, 1e-11);
    }
}

static void not_positive_definite(void **state)
{
    double negative[9] = {1, 2, 3, 2, 1, 4, 3, 4, 1}, singular[4] = {1, 2, 2, 4}, nan[1] = {NAN}, inf[1] = {INFINITY};
    assert_int_equal(sosmc_i_cholesky(3, negative), -1);
    assert_int_equal(sosmc_i_cholesky(2, singular), -1);
    assert_int_equal(sosmc_i_cholesky(1, nan), -1);
    assert_int_equal(sosmc_i_cholesky(1, inf), -1);
}

static void eigenvectors_leave_no_residual(void **state)
{
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        normals(6, n, n, B);
        for (size_t k = 0; k < n; k++) /* symmetric, with eigenvalues of both signs */
            for (size_t l = 0; l < n; l++) A[k * n + l] = 0.5 * (B[k * n + l] + B[l * n + k]);
        memcpy(C, A, n * n * sizeof *C);
        assert_int_equal(sosmc_i_eigen(n, C, value, V), 0);
        for (size_t k = 0; k < n; k++) {
            assert_true(k == 0 || value[k - 1] <= value[k]);
            sosmc_i_matrix_vector(n, A, V + k * n, y);
            for (size_t l = 0; l < n; l++) {
                assert_near(y[l], value[k] * V[k * n + l], 1e-12);
                assert_near(dot(n, V + k * n, V + l * n), k == l, 1e-12);
            }
        }
    }
}

/* The matrix with 2 on the diagonal and -1 beside it has the eigenvalues 2 - 2 cos(pi k / (n + 1)). */
static void known_eigenvalues(void **state)
{
    for (int s = 0; s < SIZES_COUNT; s++) {
        size_t n = SIZES[s];
        memset(A, 0, n * n * sizeof *A);
        for (size_t k = 0; k < n; k++) {
            A[k * n + k] = 2;
            if (k > 0) A[k * n + k - 1] = A[(k - 1) * n + k] = -1;
        }
        assert_int_equal(sosmc_i_eigen(n, A, value, V), 0);
        for (size_t k = 0; k < n; k++)
            assert_near(value[k], 2 - 2 * cos(M_PI * (double)(k + 1) / (double)(n + 1)), 1e-13);
    }
}

static void diagonal_and_degenerate_matrices(void **state)
{
    double diagonal[9] = {3, 0, 0, 0, -1, 0, 0, 0, 2}, ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, zero[4] = {0},
           tiny[4] = {1, 1e-300, 1e-300, 1}, bad[4] = {1, NAN, NAN, 1};
    assert_int_equal(sosmc_i_eigen(3, diagonal, value, V), 0);
    assert_true(value[0] == -1 && value[1] == 2 && value[2] == 3);
    assert_true(V[1] == 1 && V[5] == 1 && V[6] == 1);
    assert_int_equal(sosmc_i_eigen(3, ones, value, V), 0);
    assert_near(value[0], 0, 1e-15);
    assert_near(value[1], 0, 1e-15);
    assert_near(value[2], 3, 1e-15);
    assert_int_equal(sosmc_i_eigen(2, zero, value, V), 0);
    assert_true(value[0] == 0 && value[1] == 0);
    assert_int_equal(sosmc_i_eigen(2, tiny, value, V), 0);
    assert_true(value[0] == 1 && value[1] == 1);
    assert_int_equal(sosmc_i_eigen(2, bad, value, V), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factor_gives_the_matrix),
        cmocka_unit_test(solves_leave_no_residual),
        cmocka_unit_test(inverse_times_matrix_is_one),
        cmocka_unit_test(a_product_of_the_matrix_by_hand),
        cmocka_unit_test(determinants),
        cmocka_unit_test(not_positive_definite),
        cmocka_unit_test(eigenvectors_leave_no_residual),
        cmocka_unit_test(known_eigenvalues),
        cmocka_unit_test(diagonal_and_degenerate_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
