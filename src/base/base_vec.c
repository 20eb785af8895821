/* base_vec.c: random numbers, elementary functions, Langevin arithmetic and weights, compiled once per vector level,
 * and the table that hands them out.
 *
 * Invariant: per particle and per element the sequence of IEEE operations is the same at each level, and a particle's
 * random numbers depend on their name alone (seed, step, stream, retry, particle, block), never on how the cloud is cut
 * into batches. Sums run in 8 accumulators, element e in accumulator e mod 8, folded as vd_fold does. */
#include "philox.h"
#include "simd.h"
#include "table.h"
#include "vmath.h"

/* Lanes in use from element i of n. */
VEC int lanes_at(int i, int n) { return n - i < LANES ? n - i : LANES; }

/* ------------------------------------------------------------------------------------------------ random numbers */

/* Eight Philox blocks, each 32-bit word in the lower half of a 64-bit lane: one multiplication gives both halves of the
 * product, and the upper halves need no clearing because the next multiplication ignores them. */
VEC_LONG void philox8(uint64_t seed, vi c0, vi c1, vi c2, vi c3, vi *first, vi *second)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        vi p0 = vi_mul32(vi_set(PHILOX_M0), c0), p1 = vi_mul32(vi_set(PHILOX_M1), c2);
        c0 = vi_xor3(vi_hi32(p1), c1, vi_set(k0));
        c2 = vi_xor3(vi_hi32(p0), c3, vi_set(k1));
        c1 = p1;
        c3 = p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    *first = vi_pack32(c0, c1);
    *second = vi_pack32(c2, c3);
}

/* On (0, 1]: the top 52 bits become the mantissa of a number in [1, 2), and 2 minus that is exact and never zero. */
VEC vd unit(vi number)
{
    return vd_sub(vd_set(2.0), vi_double(vi_or(vi_shr(number, 12), vi_set(0x3FF0000000000000u))));
}

/* Box-Muller. The first number is never zero and never subnormal, so the logarithm needs no special cases. */
VEC_LONG void normal_pair(vd u1, vd u2, vd *even, vd *odd)
{
    vd radius = vd_sqrt(vd_mul(vd_set(-2.0), vd_log_core(u1, vd_set(0.0)))), s, c;
    vd_sincos2pi(u2, &s, &c);
    *even = vd_mul(radius, c);
    *odd = vd_mul(radius, s);
}

static void uniforms(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u)
{
    vi c0 = vi_set(0x80000000u + draw), c2 = vi_set(rng.step), c3 = vi_set(philox_c3(rng)), a, b;
    for (int i = 0; i < n; i += LANES) {
        philox8(rng.seed, c0, vi_count((uint64_t)(first + i)), c2, c3, &a, &b);
        vd_store_n(u + i, lanes_at(i, n), unit(a));
    }
}

/* One long particle: eight blocks at a time, sixteen neighbouring coordinates. */
static void normals_along(sosmc_rng rng, int64_t first, int dim, double *z)
{
    vi c1 = vi_set((uint64_t)first), c2 = vi_set(rng.step), c3 = vi_set(philox_c3(rng)), a, b;
    vd even, odd;
    for (int j = 0; j < dim; j += 2 * LANES) {
        philox8(rng.seed, vi_count((uint64_t)j / 2), c1, c2, c3, &a, &b);
        normal_pair(unit(a), unit(b), &even, &odd);
        if (dim - j >= 2 * LANES) {
            vd_store_pairs(z + j, even, odd);
        } else {
            double last[2 * LANES];
            vd_store_pairs(last, even, odd);
            memcpy(z + j, last, (size_t)(dim - j) * sizeof *z);
        }
    }
}

/* Philox for a block of particles, then Box-Muller for the block: one after the other within each vector, the two long
 * chains of dependent operations would leave the processor waiting. */
static void normals(sosmc_rng rng, int64_t first, int dim, int n, int ld, double *z)
{
    enum { BLOCK = 128 };
    double u1[BLOCK], u2[BLOCK];
    if (ld == 1) {
        normals_along(rng, first, dim, z);
        return;
    }
    vi c2 = vi_set(rng.step), c3 = vi_set(philox_c3(rng)), a, b;
    vd even, odd;
    for (int j = 0; j < dim; j += 2) {
        vi c0 = vi_set((uint64_t)j / 2);
        for (int start = 0; start < n; start += BLOCK) {
            double *row = z + (size_t)j * (size_t)ld + start;
            int count = n - start < BLOCK ? n - start : BLOCK;
            for (int i = 0; i < count; i += LANES) {
                philox8(rng.seed, c0, vi_count((uint64_t)(first + start + i)), c2, c3, &a, &b);
                vd_store(u1 + i, unit(a));
                vd_store(u2 + i, unit(b));
            }
            for (int i = 0; i < count; i += LANES) {
                normal_pair(vd_load(u1 + i), vd_load(u2 + i), &even, &odd);
                vd_store(row + i, even);
                if (j + 1 < dim) vd_store(row + ld + i, odd);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------ elementwise */

static void exp_all(int n, const double *x, double *y)
{
    for (int i = 0, k; i < n; i += LANES) k = lanes_at(i, n), vd_store_n(y + i, k, vd_exp(vd_load_n(x + i, k)));
}

static void log_all(int n, const double *x, double *y)
{
    for (int i = 0, k; i < n; i += LANES) k = lanes_at(i, n), vd_store_n(y + i, k, vd_log(vd_load_n(x + i, k)));
}

static void sincos2pi_all(int n, const double *x, double *s, double *c)
{
    for (int i = 0; i < n; i += LANES) {
        vd sine, cosine;
        vd_sincos2pi(vd_load_n(x + i, lanes_at(i, n)), &sine, &cosine);
        vd_store_n(s + i, lanes_at(i, n), sine);
        vd_store_n(c + i, lanes_at(i, n), cosine);
    }
}

/* x - x is zero for finite x and NaN otherwise, and a sum that has become NaN stays NaN. */
static int all_finite(size_t n, const double *x)
{
    vd acc = vd_set(0.0);
    double rest = 0.0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) acc = vd_add(acc, vd_sub(vd_load(x + i), vd_load(x + i)));
    for (; i < n; i++) rest += x[i] - x[i];
    return vd_fold(acc) + rest == 0.0;
}

/* ------------------------------------------------------------------------------------------------ Langevin */

static void propose(size_t len, const double *x, const double *g, const double *z, double h, double s, double *y)
{
    vd hv = vd_set(h), sv = vd_set(s);
    for (size_t i = 0; i < len; i += LANES) {
        int k = len - i < LANES ? (int)(len - i) : LANES;
        vd drift = vd_load_n(x + i, k);
        if (g) drift = vd_fnma(hv, vd_load_n(g + i, k), drift);
        vd_store_n(y + i, k, vd_fma(sv, vd_load_n(z + i, k), drift));
    }
}

/* One coordinate's share of (g0 + g1).(dx/2 + h/4 (g0 - g1)): the squares |dx|^2/(4h) of the two Gaussian densities
 * have cancelled on paper, and g0^2 - g1^2 is a product here so that it does not cancel in the machine. */
VEC vd ratio_term(const double *x, const double *y, const double *g0, const double *g1, int k, vd quarter_h, vd acc)
{
    vd a = vd_load_n(g0, k), b = vd_load_n(g1, k), dx = vd_sub(vd_load_n(y, k), vd_load_n(x, k));
    return vd_fma(vd_add(a, b), vd_fma(quarter_h, vd_sub(a, b), vd_mul(vd_set(0.5), dx)), acc);
}

static void langevin_ratio(int dim, int n, int ld, const double *x, const double *y, const double *g0, const double *g1,
                           double h, double q, const double *U0, const double *U1, double *out)
{
    vd quarter_h = vd_set(0.25 * h);
    if (ld == 1) {
        vd acc = vd_set(0.0);
        for (int j = 0; j < dim; j += LANES)
            acc = ratio_term(x + j, y + j, g0 + j, g1 + j, lanes_at(j, dim), quarter_h, acc);
        double sum = vd_fold(acc);
        vd_store_n(out, 1, vd_fma(vd_set(q), vd_set(sum), vd_set(U0[0] - U1[0])));
        return;
    }
    for (int i = 0; i < n; i += LANES) {
        int k = lanes_at(i, n);
        vd acc = vd_set(0.0);
        for (int j = 0; j < dim; j++) {
            size_t at = (size_t)j * (size_t)ld + (size_t)i;
            acc = ratio_term(x + at, y + at, g0 + at, g1 + at, k, quarter_h, acc);
        }
        vd_store_n(out + i, k, vd_fma(vd_set(q), acc, vd_sub(vd_load_n(U0 + i, k), vd_load_n(U1 + i, k))));
    }
}

static void norm2(int dim, int n, int ld, const double *p, double *out)
{
    if (ld == 1) {
        vd acc = vd_set(0.0);
        for (int j = 0; j < dim; j += LANES) {
            vd a = vd_load_n(p + j, lanes_at(j, dim));
            acc = vd_fma(a, a, acc);
        }
        out[0] = vd_fold(acc);
        return;
    }
    for (int i = 0; i < n; i += LANES) {
        int k = lanes_at(i, n);
        vd acc = vd_set(0.0);
        for (int j = 0; j < dim; j++) {
            vd a = vd_load_n(p + (size_t)j * (size_t)ld + i, k);
            acc = vd_fma(a, a, acc);
        }
        vd_store_n(out + i, k, acc);
    }
}

/* ------------------------------------------------------------------------------------------------ weights */

static double max_of(int n, const double *x)
{
    vd acc = vd_set(-(double)INFINITY);
    int i = 0;
    /* With the arguments in this order NaN is ignored. */
    for (; i + LANES <= n; i += LANES) acc = vd_max(vd_load(x + i), acc);
    double lane[LANES], best = -(double)INFINITY;
    vd_store(lane, acc);
    for (int l = 0; l < LANES; l++) best = lane[l] > best ? lane[l] : best;
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}

static void weigh(int n, const double *logw, double shift, const double *R, const double *U, const double *Uref,
                  double *w, double *sums)
{
    vd zero = vd_set(0.0), sw = zero, sw2 = zero, sr = zero, su = zero, sd = zero;
    for (int i = 0; i < n; i += LANES) {
        int k = lanes_at(i, n);
        vd wi = vd_exp(vd_sub(vd_load_n(logw + i, k), vd_set(shift)));
        vd_store_n(w + i, k, wi);
        if (k < LANES) wi = vd_load_n(w + i, k); /* the unused lanes get weight zero */
        vm live = vd_ne(wi, zero);               /* zero times an infinite energy must not become NaN */
        vd u = vd_load_n(U + i, k);
        sw = vd_add(sw, wi);
        sw2 = vd_fma(wi, wi, sw2);
        su = vd_fma_if(live, wi, u, su);
        if (R) sr = vd_fma_if(live, wi, vd_load_n(R + i, k), sr);
        if (Uref) sd = vd_fma_if(live, wi, vd_sub(u, vd_load_n(Uref + i, k)), sd);
    }
    sums[SUM_W] += vd_fold(sw);
    sums[SUM_W2] += vd_fold(sw2);
    sums[SUM_WU] += vd_fold(su);
    if (R) sums[SUM_WR] += vd_fold(sr);
    if (Uref) sums[SUM_WD] += vd_fold(sd);
}

static void coefficients(int n, const double *w, double scale, const double *R, double kl, const double *U,
                         const double *Uref, double offset, double e2, double *c)
{
    vd zero = vd_set(0.0);
    for (int i = 0; i < n; i += LANES) {
        int k = lanes_at(i, n);
        vd wi = vd_load_n(w + i, k), u = vd_load_n(U + i, k), s = R ? vd_load_n(R + i, k) : zero;
        if (Uref) s = vd_fma(vd_set(kl), vd_sub(u, vd_load_n(Uref + i, k)), s);
        s = vd_fma(vd_set(e2), u, vd_add(s, vd_set(offset)));
        s = vd_mul(vd_mul(vd_set(scale), wi), s);
        vd_store_n(c + i, k, vd_sel(vd_eq(wi, zero), zero, s)); /* a dropped particle's energy may be infinite */
    }
}

/* ------------------------------------------------------------------------------------------------ the table */

#if defined(SOSMC_LEVEL_AVX512)
enum { LEVEL = SIMD_AVX512 };
#elif defined(SOSMC_LEVEL_AVX2)
enum { LEVEL = SIMD_AVX2 };
#else
enum { LEVEL = SIMD_PLAIN };
#endif

extern const struct sosmc_simd AT_LEVEL(sosmc_i_simd);
const struct sosmc_simd AT_LEVEL(sosmc_i_simd) = {
    .name = LEVEL_NAME,
    .level = LEVEL,
    .uniforms = uniforms,
    .normals = normals,
    .exp = exp_all,
    .log = log_all,
    .sincos2pi = sincos2pi_all,
    .all_finite = all_finite,
    .propose = propose,
    .langevin_ratio = langevin_ratio,
    .norm2 = norm2,
    .max = max_of,
    .weigh = weigh,
    .coefficients = coefficients,
};
