/* table.h: the arithmetic that exists once per vector level, as a table of functions.
 *
 * base_vec.c is compiled three times (AVX-512, AVX2 + FMA, plain C). Every function performs, per
 * particle or per element, the same sequence of IEEE operations at each level, so the bits agree; sums use 8 accumulators,
 * element e in accumulator e mod 8, folded ((0+4)+(2+6))+((1+5)+(3+7)). */
#ifndef SOSMC_BASE_TABLE_H
#define SOSMC_BASE_TABLE_H

#include <sosmc/sosmc.h>

/* Sums over a tile of w = exp(logw - shift). */
enum { SUM_W, SUM_W2, SUM_WR, SUM_WU, SUM_WD, SUM_COUNT };

/* The vector levels, as sosmc_simd_level tells them. */
enum { SIMD_PLAIN, SIMD_AVX2, SIMD_AVX512 };

struct sosmc_simd {
    const char *name;
    int level; /* one of the above */

    /* --- random numbers (maths.md RNG-names) --- */
    /* u[i] in (0,1], i = 0..n-1: first word pair of block 0x80000000 + draw of particle first + i */
    void (*uniforms)(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u);
    /* z[j*ld + i]: coordinate j from block j/2 of particle first + i (cosine for even j, sine for odd j). Writes only
     * i < n rounded up to 8 (ld > 1) or exactly dim numbers (ld == 1, n == 1). */
    void (*normals)(sosmc_rng rng, int64_t first, int dim, int n, int ld, double *z);

    /* --- elementwise; any n, no alignment needed --- */
    void (*exp)(int n, const double *x, double *y);
    void (*log)(int n, const double *x, double *y);
    void (*sincos2pi)(int n, const double *x, double *s, double *c); /* of 2 pi x, |x| < 2^40 */
    int (*all_finite)(size_t n, const double *x);

    /* --- Langevin arithmetic on a tile (flat arrays of dim*ld, padding included) --- */
    /* y = x - h g + s z  as  fma(s, z, fma(-h, g, x));  g NULL: y = fma(s, z, x) */
    void (*propose)(size_t len, const double *x, const double *g, const double *z, double h, double s, double *y);
    /* out[i] = U0[i] - U1[i] + q sum_j (g0+g1) (dx/2 + h/4 (g0-g1)),  dx = y - x,  q = 1/noise^2   (maths.md ULA-weight)
     * n > 1: j ascending per particle; n == 1 with ld == 1: 8 accumulators over j */
    void (*langevin_ratio)(int dim, int n, int ld, const double *x, const double *y, const double *g0, const double *g1,
                           double h, double q, const double *U0, const double *U1, double *out);
    /* out[i] = sum_j p[j*ld+i]^2, same summation orders */
    void (*norm2)(int dim, int n, int ld, const double *p, double *out);

    /* --- weights --- */
    double (*max)(int n, const double *x); /* -inf for n = 0; NaN is ignored */
    /* w[i] = exp(logw[i] - shift), and sums[SUM_W] += sum w, W2: w^2, WR: w R, WU: w U, WD: w (U - Uref). R and Uref may be
     * NULL (their sums are left alone). A weight of zero contributes zero whatever its R, U, Uref. */
    void (*weigh)(int n, const double *logw, double shift, const double *R, const double *U, const double *Uref,
                  double *w, double *sums);
    /* c[i] = scale * w[i] * (((R[i] + kl (U[i] - Uref[i])) + offset) + e2 U[i]); R, Uref may be NULL (zero) */
    void (*coefficients)(int n, const double *w, double scale, const double *R, double kl, const double *U,
                         const double *Uref, double offset, double e2, double *c);
};

/* The level for a batch: its own, or the best of this machine. */
const sosmc_simd *sosmc_i_simd(const sosmc_simd *simd);

/* A model whose vector code is compiled per level offers three functions or tables, name_plain, name_avx2 and name_avx512; this
 * is the address of the one for `simd`. */
#if defined(SOSMC_HAVE_X86_LEVELS)
#define SIMD_CHOOSE(simd, name)                                \
    (sosmc_i_simd(simd)->level == SIMD_AVX512 ? &name##_avx512 \
     : sosmc_i_simd(simd)->level == SIMD_AVX2 ? &name##_avx2   \
                                              : &name##_plain)
#else
#define SIMD_CHOOSE(simd, name) (&name##_plain)
#endif

/* log and exp of one number with the library's own bits. */
double sosmc_i_log1(const sosmc_simd *simd, double x);
double sosmc_i_exp1(const sosmc_simd *simd, double x);

#endif
