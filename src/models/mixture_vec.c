/* mixture_vec.c: energy, gradients and draws of the Gaussian mixture, compiled once per vector level.
 *
 *     e_j = v_j exp(-|x - mu_j|^2 / (2 variance)),  S = sum_j e_j,  p_j = e_j / (S + eps)
 *     U = -log(S + eps),   dU/dx = sum_j p_j (x - mu_j) / variance,   dU/dtheta_j = v_j sum_i p_i - p_j
 *
 * prep holds log v_j, then v_j; work holds the p_j of a tile, one row of ld per component. Distances are summed as they
 * stand: expanding the square would save a subtraction and lose digits when modes are far from the origin.
 *
 * Invariant: U and p of a particle come from one sequence of operations, whoever asks (energy with or without gradient,
 * contraction on its own); so fused and unfused results have the same bits. The eight lanes of a vector never mix. */
#include "mixture.h"
#include "base/simd.h"
#include "base/vmath.h"

/* What the inner loops need, with the pointers at the first of eight particles. */
struct octet {
    const double *x, *means, *logv;
    double *gx, *work; /* gx is NULL when no gradient is wanted, work when p is not wanted */
    double *S, *top;   /* out: sum of e_j; the largest exponent, subtracted from all when eps is 0 */
    int dim, components;
    size_t ld;
    double exponent; /* -1 / (2 variance) */
};

/* log v_j - |x - mu_j|^2 / (2 variance), and x - mu_j in t unless that is NULL. */
VEC vd log_term(const struct octet *o, int dim, int width, const vd *xs, int j, vd *t)
{
    const double *mu = o->means + (size_t)j * (size_t)dim;
    vd d2 = vd_set(0.0);
    for (int d = 0; d < dim; d++) {
        vd diff = vd_sub(xs ? xs[d] : vd_load_n(o->x + (size_t)d * o->ld, width), vd_set(mu[d]));
        if (t) t[d] = diff;
        d2 = vd_fma(diff, diff, d2);
    }
    return vd_fma(d2, vd_set(o->exponent), vd_set(o->logv[j]));
}

/* S of eight particles, e_j into the rows of work, sum_j e_j (x - mu_j) into gx. Of the parameters after o, all are
 * constants where this is expanded, except `dim` when `few` is 0.
 *     few      dim is 1, 2 or 3: coordinates and gradient live in registers
 *     width    lanes to read and write in rows: 8, padding included, or 1 if ld is 1
 *     grad     the gradient is wanted;   shifted   eps is 0: the largest term becomes 1, nothing vanishes far away */
VEC void terms(const struct octet *o, int dim, int few, int width, int grad, int shifted)
{
    enum { FEW = 3 };
    vd x[FEW], t[FEW], G[FEW], S = vd_set(0.0), top = vd_set(0.0);
    const vd *xs = few ? x : NULL;
    if (few)
        for (int d = 0; d < dim; d++) x[d] = vd_load_n(o->x + (size_t)d * o->ld, width), G[d] = vd_set(0.0);
    else if (grad)
        for (int d = 0; d < dim; d++) vd_store_n(o->gx + (size_t)d * o->ld, width, vd_set(0.0));

    if (shifted) {
        top = log_term(o, dim, width, xs, 0, NULL);
        for (int j = 1; j < o->components; j++) top = vd_max(log_term(o, dim, width, xs, j, NULL), top);
        vd_store(o->top, top);
    }
    for (int j = 0; j < o->components; j++) {
        vd a = log_term(o, dim, width, xs, j, few ? t : NULL);
        vd e = vd_exp(shifted ? vd_sub(a, top) : a);
        S = vd_add(S, e);
        if (o->work) vd_store_n(o->work + (size_t)j * o->ld, width, e);
        for (int d = 0; grad && d < dim; d++) {
            if (few) {
                G[d] = vd_fma(e, t[d], G[d]);
            } else {
                double *row = o->gx + (size_t)d * o->ld;
                vd mu = vd_set(o->means[(size_t)j * (size_t)dim + (size_t)d]);
                vd diff = vd_sub(vd_load_n(o->x + (size_t)d * o->ld, width), mu);
                vd_store_n(row, width, vd_fma(e, diff, vd_load_n(row, width)));
            }
        }
    }
    vd_store(o->S, S);
    for (int d = 0; grad && few && d < dim; d++) vd_store(o->gx + (size_t)d * o->ld, G[d]);
}

/* All octets of a block; the loop is inside each case so that the constants of exp stay in registers. */
VEC void block_terms(struct octet o, int n, int dim, int few, int width, int grad, int shifted)
{
    for (int i = 0; i < n; i += LANES) {
        terms(&o, dim, few, width, grad, shifted);
        o.x += LANES;
        o.S += LANES;
        o.top += LANES;
        if (grad) o.gx += LANES;
        if (o.work) o.work += LANES;
    }
}

VEC void block_of_kind(const struct octet *o, int n, int grad, int shifted)
{
    if (o->ld == 1) {
        block_terms(*o, n, o->dim, 0, 1, grad, shifted);
        return;
    }
    switch (o->dim) {
#if !defined(SOSMC_LEVEL_PLAIN) /* where a vector is not a register, the general case is as fast */
    case 1: block_terms(*o, n, 1, 1, LANES, grad, shifted); break;
    case 2: block_terms(*o, n, 2, 1, LANES, grad, shifted); break;
    case 3: block_terms(*o, n, 3, 1, LANES, grad, shifted); break;
#endif
    default: block_terms(*o, n, o->dim, 0, LANES, grad, shifted); break;
    }
}

static void block_sums(const struct octet *o, int n) { block_of_kind(o, n, 0, 0); }
static void block_sums_shifted(const struct octet *o, int n) { block_of_kind(o, n, 0, 1); }
static void block_grad(const struct octet *o, int n) { block_of_kind(o, n, 1, 0); }
static void block_grad_shifted(const struct octet *o, int n) { block_of_kind(o, n, 1, 1); }
static void (*const block_kinds[2][2])(const struct octet *o, int n) = {{block_sums, block_sums_shifted},
                                                                        {block_grad, block_grad_shifted}};

/* rows of ld, eight wide, times `factor` */
VEC void scale_rows(int rows, size_t ld, int width, double *p, vd factor)
{
    for (int r = 0; r < rows; r++, p += ld) vd_store_n(p, width, vd_mul(vd_load_n(p, width), factor));
}

/* Logarithm and reciprocal of S + eps come a block of particles after the exponentials: right after each S they
 * would wait for it and hold up the exponentials of the next octet. U, gx and work may be NULL. */
static void evaluate(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, double *U, double *gx,
                     double *work)
{
    enum { BLOCK = 128 };
    double S[BLOCK], top[BLOCK];
    const int shifted = !(m->eps > 0.0), width = b->ld == 1 ? 1 : LANES;
    const size_t ld = (size_t)b->ld;
    const vd one = vd_set(1.0), eps = vd_set(m->eps), inverse_variance = vd_set(1.0 / m->variance);
    struct octet o = {.means = m->means, .logv = prep, .S = S, .top = top, .ld = ld};
    o.dim = m->dim;
    o.components = m->components;
    o.exponent = -0.5 / m->variance;
    for (int start = 0; start < b->n; start += BLOCK) {
        int count = b->n - start < BLOCK ? b->n - start : BLOCK;
        o.x = b->x + start;
        o.gx = gx ? gx + start : NULL;
        o.work = work ? work + start : NULL;
        block_kinds[gx != NULL][shifted](&o, count);
        for (int i = 0; i < count; i += LANES) {
            vd s = vd_load(S + i);
            if (!shifted) s = vd_add(s, eps);
            if (U) {
                vd logS = vd_log(s);
                if (shifted) logS = vd_add(vd_load(top + i), logS);
                vd_store_n(U + start + i, count - i < LANES ? count - i : LANES, vd_sub(vd_set(0.0), logS));
            }
            if (!work) continue;
            vd inverse = vd_div(one, s);
            scale_rows(m->components, ld, width, work + start + i, inverse);
            if (gx) scale_rows(m->dim, ld, width, gx + start + i, vd_mul(inverse, inverse_variance));
        }
    }
}

static void energy(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, double *U, double *gx)
{
    evaluate(m, prep, b, U, gx, gx ? b->work : NULL); /* without a gradient, work keeps what it holds */
}

/* sum[j] = sum_i c_i p_ij for `count` neighbouring components. A coefficient of zero adds nothing even to NaN, and the
 * coefficients of padding are read as zero: one rule covers both. */
VEC void contract_rows(int count, const sosmc_batch *b, const double *rows, const double *c, double *sum)
{
    vd acc[4];
    for (int j = 0; j < count; j++) acc[j] = vd_set(0.0);
    for (int i = 0; i < b->n; i += LANES) {
        int k = b->n - i < LANES ? b->n - i : LANES;
        vd ci = vd_load_n(c + i, k);
        vm live = vd_ne(ci, vd_set(0.0));
        for (int j = 0; j < count; j++)
            acc[j] = vd_fma_if(live, ci, vd_load_n(rows + (size_t)j * (size_t)b->ld + i, k), acc[j]);
    }
    for (int j = 0; j < count; j++) sum[j] = vd_fold(acc[j]);
}

/* sum_i c_i (v_j P_i - p_ij) = v_j T - A_j with A_j = sum_i c_i p_ij and T = sum_j A_j: no P_i is ever needed. */
static void contract(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, const double *c, double *g)
{
    const double *v = prep + m->components;
    double *rows = b->work, total = 0.0, sum[4];
    const double *per = m->probabilities ? v + m->components : NULL; /* d log theta_j / d theta_j */
    if (!b->fresh) evaluate(m, prep, b, NULL, NULL, rows);
    for (int j = 0, count; j < m->components; j += count, rows += (size_t)count * (size_t)b->ld) {
        count = m->components - j < 4 ? m->components - j : 4;
        switch (count) {
        case 1: contract_rows(1, b, rows, c, sum); break;
        case 2: contract_rows(2, b, rows, c, sum); break;
        case 3: contract_rows(3, b, rows, c, sum); break;
        default: contract_rows(4, b, rows, c, sum); break;
        }
        for (int l = 0; l < count; l++) total += sum[l], g[j + l] -= per ? per[j + l] * sum[l] : sum[l];
    }
    for (int j = 0; j < m->components; j++) g[j] += per ? per[j] * (v[j] * total) : v[j] * total;
}

/* D_ij = v_j P_i - p_ij with P_i = sum_j p_ij. */
static void scores(const sosmc_mixture *m, const double *prep, const sosmc_batch *b, double *D)
{
    const double *v = prep + m->components, *rows = b->work;
    const size_t ld = (size_t)b->ld;
    if (!b->fresh) evaluate(m, prep, b, NULL, NULL, b->work);
    for (int i = 0; i < b->n; i += LANES) {
        int k = b->n - i < LANES ? b->n - i : LANES;
        vd total = vd_set(0.0);
        for (int j = 0; j < m->components; j++) total = vd_add(total, vd_load_n(rows + (size_t)j * ld + i, k));
        for (int j = 0; j < m->components; j++) {
            vd p = vd_load_n(rows + (size_t)j * ld + i, k);
            vd_store_n(D + (size_t)j * ld + i, k, vd_sub(vd_mul(vd_set(v[j]), total), p));
        }
    }
}

/* Inverse CDF. Component j owns (cum_{j-1}, cum_j] of (0, total], so a component of weight zero is never drawn and the
 * last one needs no comparison. Cumulative weights are made in pieces, since there is no bound on their number. */
static void place(const sosmc_mixture *m, const double *theta, int n, int ld, const double *u, double *x)
{
    enum { BLOCK = 256, PIECE = 64 };
    double cum[PIECE], pick[BLOCK];
    const int dim = m->dim, components = m->components;
    const vd deviation = vd_set(sqrt(m->variance)), rounder = vd_set(0x1p52), stride = vd_set(dim);
    double top = theta[0], total = 0.0;
    for (int j = 1; j < components; j++) top = theta[j] > top ? theta[j] : top;
    for (int j = 0; j < components; j += LANES) {
        int k = components - j < LANES ? components - j : LANES;
        vd_store_n(cum, k, vd_exp(vd_sub(vd_load_n(theta + j, k), vd_set(top))));
        for (int l = 0; l < k; l++) total += cum[l];
    }
    for (int start = 0; start < n; start += BLOCK) {
        int count = n - start < BLOCK ? n - start : BLOCK;
        double below = 0.0;
        for (int i = 0; i < BLOCK; i += LANES) vd_store(pick + i, vd_set(0.0));
        for (int j = 0; j < components - 1; j += PIECE) {
            int piece = components - 1 - j < PIECE ? components - 1 - j : PIECE;
            for (int l = 0; l < piece; l += LANES) {
                int k = piece - l < LANES ? piece - l : LANES;
                vd_store_n(cum + l, k, vd_exp(vd_sub(vd_load_n(theta + j + l, k), vd_set(top))));
            }
            for (int l = 0; l < piece; l++) cum[l] = below += cum[l];
            for (int i = 0; i < count; i += LANES) {
                int k = count - i < LANES ? count - i : LANES;
                vd at = vd_mul(vd_load_n(u + start + i, k), vd_set(total)), chosen = vd_load(pick + i);
                for (int l = 0; l < piece; l++) chosen = vd_sel(vd_lt(vd_set(cum[l]), at), vd_set(j + l + 1), chosen);
                vd_store(pick + i, chosen);
            }
        }
        for (int i = 0; i < count; i += LANES) {
            int k = count - i < LANES ? count - i : LANES;
            vd at = vd_fma(vd_load(pick + i), stride, rounder);
            vi offset = vi_and(vd_bits(at), vi_set(0x000FFFFFFFFFFFFFu));
            for (int d = 0; d < dim; d++) {
                double *row = x + (size_t)d * (size_t)ld + start + i;
                vd_store_n(row, k, vd_fma(deviation, vd_load_n(row, k), vd_gather(m->means + d, offset)));
            }
        }
    }
}

extern const mixture_code AT_LEVEL(sosmc_i_mixture);
const mixture_code AT_LEVEL(sosmc_i_mixture) = {
    .energy = energy, .contract = contract, .scores = scores, .place = place};
