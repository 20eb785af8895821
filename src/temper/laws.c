/* laws.c: mixtures of normal and Student laws.
 *
 *     -log q(x) = -log sum_k a_k q_k(x),   q_k normal or Student with location m_k and scale L_k L_k'
 *
 * The densities are in tile_vec.c. Invariant: every sum runs over ascending indices, so the bits do not depend on threads. */
#include "laws.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"
#include "base/student.h"
#include "base/table.h"

static const double LOG_2PI = 1.8378770664093454836, LOG_PI = 1.1447298858494001741;

size_t sosmc_i_law_doubles(const laws *q) { return q->diagonal ? (size_t)q->dim : (size_t)q->dim * (size_t)q->dim; }

void sosmc_i_laws_free(laws *q)
{
    for (int k = 0; k < q->count; k++) free(q->memory[k]);
    q->count = 0;
}

static double entry(const laws *q, const law *a, int j)
{
    return a->L[q->diagonal ? (size_t)j : (size_t)j * (size_t)q->dim + (size_t)j];
}

int sosmc_i_laws_add(laws *q, double weight, int dof, const double *mean, const double *L)
{
    size_t dim = (size_t)q->dim, doubles = sosmc_i_law_doubles(q);
    if (q->count == LAW_MOST) return -1;
    double *memory = malloc((2 * dim + doubles) * sizeof *memory);
    if (!memory) return -1;
    law *a = &q->part[q->count];
    *a = (law){.weight = weight, .dof = dof, .mean = memory, .inverse = memory + dim, .L = memory + 2 * dim};
    memcpy(a->mean, mean, dim * sizeof(double));
    memcpy(a->L, L, doubles * sizeof(double));
    double log_det = 0;
    for (int j = 0; j < q->dim; j++) {
        a->inverse[j] = 1 / entry(q, a, j);
        log_det += sosmc_i_log1(NULL, entry(q, a, j));
    }
    a->log_norm = -log_det - 0.5 * q->dim * LOG_2PI;
    if (dof > 0)
        a->log_norm = sosmc_i_log_gamma_half(dof + q->dim) - sosmc_i_log_gamma_half(dof) - log_det -
                      0.5 * q->dim * (sosmc_i_log1(NULL, (double)dof) + LOG_PI);
    q->memory[q->count++] = memory;
    return 0;
}

void sosmc_i_laws_close(laws *q)
{
    double total = 0;
    for (int k = 0; k < q->count; k++) total += q->part[k].weight;
    for (int k = 0; k < q->count; k++) {
        q->part[k].weight /= total;
        q->log_weight[k] = sosmc_i_log1(NULL, q->part[k].weight);
    }
}

/* ---------------------------------------------------------------------------- fits */

int sosmc_i_fit_normal(const laws *q, int64_t n, const double *x, const double *w, double inflate, double *mean,
                       double *L)
{
    size_t dim = (size_t)q->dim;
    double squares = 0;
    memset(mean, 0, dim * sizeof(double));
    memset(L, 0, sosmc_i_law_doubles(q) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        squares += w[i] * w[i];
        for (size_t j = 0; j < dim && w[i] > 0; j++) mean[j] += w[i] * x[(size_t)i * dim + j];
    }
    double keep = 1 - fmin(1, 2 * (double)q->dim * squares);
    for (int64_t i = 0; i < n; i++) {
        const double *at = x + (size_t)i * dim;
        if (!(w[i] > 0)) continue;
        for (size_t j = 0; j < dim; j++) {
            double away = w[i] * (at[j] - mean[j]);
            if (q->diagonal) {
                L[j] += away * (at[j] - mean[j]);
                continue;
            }
            for (size_t k = 0; k <= j; k++) L[j * dim + k] += away * (at[k] - mean[k]);
        }
    }
    for (size_t j = 0; j < dim; j++) {
        double *diagonal = &L[q->diagonal ? j : j * dim + j], least = 1e-12 * (1 + mean[j] * mean[j]);
        if (!isfinite(*diagonal)) return -1;
        *diagonal = inflate * fmax(*diagonal, least);
        for (size_t k = 0; !q->diagonal && k < j; k++) L[j * dim + k] *= inflate * keep;
    }
    if (q->diagonal) {
        for (size_t j = 0; j < dim; j++) L[j] = sqrt(L[j]);
        return 0;
    }
    /* A covariance that is not positive definite to rounding loses its correlations. */
    double *copy = malloc(dim * dim * sizeof *copy);
    if (!copy) return -1;
    memcpy(copy, L, dim * dim * sizeof *copy);
    if (sosmc_i_cholesky(dim, L)) {
        memset(L, 0, dim * dim * sizeof *L);
        for (size_t j = 0; j < dim; j++) L[j * dim + j] = sqrt(copy[j * dim + j]);
    }
    for (size_t j = 0; j < dim; j++)
        for (size_t k = j + 1; k < dim; k++) L[j * dim + k] = 0;
    free(copy);
    return 0;
}

/* ---------------------------------------------------------------------------- draws */

int sosmc_i_law_of(const laws *q, int64_t i, int64_t n)
{
    double below = 0, at = ((double)i + 0.5) / (double)n;
    int k = 0;
    for (; k + 1 < q->count; k++) {
        below += q->part[k].weight;
        if (at < below) break;
    }
    return k;
}

/* y += a x */
static void add_row(int n, double a, const double *restrict x, double *restrict y)
{
    for (int i = 0; i < n; i++) y[i] += a * x[i];
}

/* n neighbours, all of one component. */
static void draw_some(const laws *q, const law *a, int n, size_t ld, const double *z, const double *stretch, double *x)
{
    size_t dim = (size_t)q->dim;
    for (size_t j = 0; j < dim; j++) {
        double *row = x + j * ld;
        for (int i = 0; i < n; i++) row[i] = 0;
        if (q->diagonal) add_row(n, a->L[j], z + j * ld, row);
        for (size_t k = 0; !q->diagonal && k <= j; k++) add_row(n, a->L[j * dim + k], z + k * ld, row);
        for (int i = 0; i < n; i++) row[i] = a->mean[j] + stretch[i] * row[i];
    }
}

void sosmc_i_laws_draw(const laws *q, const sosmc_batch *b, int64_t n, const double *z, const double *stretch,
                       double *x)
{
    for (int i = 0, end; i < b->n; i = end) {
        int k = sosmc_i_law_of(q, b->first + i, n);
        for (end = i + 1; end < b->n && sosmc_i_law_of(q, b->first + end, n) == k;) end++;
        draw_some(q, &q->part[k], end - i, (size_t)b->ld, z + i, stretch + i, x + i);
    }
}
