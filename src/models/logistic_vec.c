/* logistic_vec.c: energy and gradient of Bayesian logistic regression, compiled once per vector level.
 *
 *     t_r = (1 - 2 y_r) f_r . x,   -log p(y | x) = sum_r log(1 + exp(t_r)),
 *     d/dx = sum_r f_r (1 - 2 y_r) / (1 + exp(-t_r))
 *
 * With e = exp(-|t|) nothing overflows: log(1 + exp t) = max(t, 0) + log(1 + e), and 1 / (1 + exp(-t)) is 1/(1 + e) or
 * e/(1 + e). The factors 1 + e lie between 1 and 2, so 256 of them are multiplied before one logarithm is taken.
 *
 * Eight particles at a time pass over all rows, four rows at a time: each coordinate is loaded once for four scalar
 * products, each entry of the gradient once for four updates, and four exponentials are in flight.
 *
 * Invariant: a particle's U and gx come from one sequence of operations, whatever the level, the tile, the place. */
#include <sosmc/models.h>

#include "base/simd.h"
#include "base/table.h"
#include "base/vmath.h"

void AT_LEVEL(sosmc_i_logistic_energy)(const sosmc_logistic *m, double theta, const sosmc_batch *b, double *U,
                                       double *gx);

enum { TOGETHER = 4, FACTORS = 256 };

struct octet {
    const double *x;
    double *gx; /* NULL when no gradient is wanted */
    size_t ld;
    vd hinge, product; /* sum of max(t, 0), product of 1 + e since the last logarithm */
};

/* `count` rows that start at f and y; count and width are constants where this is expanded. */
VEC void some_rows(struct octet *o, int count, int width, int dim, const double *f, const double *y)
{
    const vd zero = vd_set(0.0), one = vd_set(1.0);
    vd a[TOGETHER], slope[TOGETHER];
    for (int r = 0; r < count; r++) a[r] = zero;
    for (int j = 0; j < dim; j++) {
        vd x = vd_load_n(o->x + (size_t)j * o->ld, width);
        for (int r = 0; r < count; r++) a[r] = vd_fma(vd_set(f[(size_t)r * (size_t)dim + (size_t)j]), x, a[r]);
    }
    for (int r = 0; r < count; r++) {
        vd side = vd_set(1.0 - 2.0 * y[r]), t = vd_mul(side, a[r]);
        vd e = vd_exp(vd_min(t, vd_sub(zero, t))), whole = vd_add(one, e);
        o->hinge = vd_add(o->hinge, vd_max(t, zero));
        o->product = vd_mul(o->product, whole);
        slope[r] = vd_div(vd_mul(side, vd_sel(vd_lt(t, zero), e, one)), whole);
    }
    for (int j = 0; o->gx && j < dim; j++) {
        double *row = o->gx + (size_t)j * o->ld;
        vd g = vd_load_n(row, width);
        for (int r = 0; r < count; r++) g = vd_fma(slope[r], vd_set(f[(size_t)r * (size_t)dim + (size_t)j]), g);
        vd_store_n(row, width, g);
    }
}

/* Prior and likelihood of up to eight particles, constants left out. */
VEC vd all_rows(struct octet *o, const sosmc_logistic *m, double theta, int width)
{
    const vd centre = vd_set(theta), precision = vd_set(1.0 / m->variance);
    vd square = vd_set(0.0), logs = vd_set(0.0);
    for (int j = 0; j < m->dim; j++) {
        vd off = vd_sub(vd_load_n(o->x + (size_t)j * o->ld, width), centre);
        square = vd_fma(off, off, square);
        if (o->gx) vd_store_n(o->gx + (size_t)j * o->ld, width, vd_mul(off, precision));
    }
    o->hinge = vd_set(0.0);
    for (int from = 0; from < m->rows; from += FACTORS) {
        int to = m->rows - from < FACTORS ? m->rows : from + FACTORS, r = from;
        const double *f = m->features + (size_t)from * (size_t)m->dim;
        o->product = vd_set(1.0);
        for (; r + TOGETHER <= to; r += TOGETHER, f += (size_t)TOGETHER * (size_t)m->dim)
            some_rows(o, TOGETHER, width, m->dim, f, m->labels + r);
        for (; r < to; r++, f += m->dim) some_rows(o, 1, width, m->dim, f, m->labels + r);
        logs = vd_add(logs, vd_log(o->product));
    }
    return vd_fma(vd_mul(vd_set(0.5), precision), square, vd_add(o->hinge, logs));
}

/* Rows of ld > 1 hold whole octets, padding included. */
void AT_LEVEL(sosmc_i_logistic_energy)(const sosmc_logistic *m, double theta, const sosmc_batch *b, double *U,
                                       double *gx)
{
    for (int i = 0; i < b->n; i += LANES) {
        int k = b->n - i < LANES ? b->n - i : LANES;
        struct octet o = {.x = b->x + i, .gx = gx ? gx + i : NULL, .ld = (size_t)b->ld};
        vd_store_n(U + i, k, b->ld == 1 ? all_rows(&o, m, theta, 1) : all_rows(&o, m, theta, LANES));
    }
}
