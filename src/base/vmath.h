/* vmath.h: exp, log, sine and cosine of eight doubles, without branches and without libm.
 *
 * Each is an exact argument reduction, a minimax polynomial (tools/minimax.py prints the tables; the bounds quoted are
 * those of the rounded coefficients) and an exact or singly rounded reconstruction. Measured over the whole range, the
 * errors stay below 1.1 ulp for exp, 0.9 ulp for log and 1.7e-16 for sine and cosine (tests/base/test_vmath.c holds
 * them to it). Every step is one of simd.h's operations, so the bits are the same at each level. */
#ifndef SOSMC_BASE_VMATH_H
#define SOSMC_BASE_VMATH_H

#include "simd.h"

/* exp(r) = 1 + r + r^2 q(r), |r| <= log(2)/2, relative: error 4.82e-18 = 2^-57.53 */
static const double exp_c[10] = {
    0x1.0000000000007p-1,  0x1.5555555555501p-3,  0x1.55555555513ecp-5,  0x1.1111111126f14p-7,  0x1.6c16c1821416ap-10,
    0x1.a01a012ab7b8ep-13, 0x1.a0199ef43e1b1p-16, 0x1.71df2aee7ba52p-19, 0x1.28a96acf681f5p-22, 0x1.ad6ecc08d8e66p-26,
};
/* log(1+f) = 2 atanh s, remainder R(z) = z q(z), z = s^2 <= 0.0295, absolute in R: error 3.76e-18 = 2^-57.88 */
static const double log_c[7] = {
    0x1.5555555555572p-1, 0x1.9999999988a41p-2, 0x1.2492493b33fd9p-2, 0x1.c71c56effafb6p-3,
    0x1.746553c9dc503p-3, 0x1.39b7b039670fdp-3, 0x1.2e362fec13ee7p-3,
};
/* sin(2 pi r) = r q(r^2), |r| <= 1/8, relative: error 4.95e-17 = 2^-54.16, most of it the rounding of 2 pi */
static const double sin_c[7] = {
    0x1.921fb54442d18p+2, -0x1.4abbce625be41p+5, 0x1.466bc67758700p+6, -0x1.32d2cce2d5363p+6,
    0x1.50782fca38ddbp+5, -0x1.e30063a046395p+3, 0x1.e3eed5d693453p+1,
};
/* cos(2 pi r) = 1 + r^2 q(r^2), |r| <= 1/8, absolute: error 1.7e-17 = 2^-55.71 */
static const double cos_c[7] = {
    -0x1.3bd3cc9be45dep+4, 0x1.03c1f081b5ab6p+6, -0x1.55d3c7e3c9eebp+6, 0x1.e1f506847d558p+5,
    -0x1.a6d1ed453dad0p+4, 0x1.f9ccceb9510cdp+2, -0x1.b28ba7dbf970ep+0,
};
#define LOG2_HI 0x1.62e42fefa39efp-1
#define LOG2_LO 0x1.abc9e3b39803fp-56
#define INV_LOG2 0x1.71547652b82fep+0

/* Adding 1.5 * 2^52 rounds to the nearest integer, whose lowest bits are then the lowest bits of the sum. */
#define ROUNDER 0x1.8p52

/* exp(x): zero below -708 (no subnormal results, which would be slow and inexact), +inf above 709.7827, NaN for NaN.
 * x = n log 2 + r; the rounder's bias of 1022 makes the sum's low bits the exponent field of 2^(n-1), and the missing
 * factor 2 is folded into the last fma: so n = 1024, the binade of the largest doubles, needs no case of its own. */
VEC_LONG vd vd_exp(vd x)
{
    vd top = vd_min(vd_set(710.0), x); /* with the arguments in this order NaN stays NaN */
    vd t = vd_fma(top, vd_set(INV_LOG2), vd_set(ROUNDER + 1022.0));
    vd n = vd_sub(t, vd_set(ROUNDER + 1022.0));
    vd r = vd_fnma(n, vd_set(LOG2_LO), vd_fnma(n, vd_set(LOG2_HI), top));
    vd r2 = vd_mul(r, r);
    /* Two short chains of dependent operations are faster than one long one. */
    vd even = vd_set(exp_c[8]), odd = vd_set(exp_c[9]);
    for (int k = 6; k >= 0; k -= 2) {
        even = vd_fma(even, r2, vd_set(exp_c[k]));
        odd = vd_fma(odd, r2, vd_set(exp_c[k + 1]));
    }
    vd w = vd_fma(r2, vd_fma(odd, r, even), r);
    vd twice = vd_fma(w, vd_set(2.0), vd_set(2.0));
    vd y = vd_mul(twice, vi_double(vi_shl(vd_bits(t), 52)));
    return vd_sel(vd_lt(x, vd_set(-708.0)), vd_set(0.0), y);
}

/* log(x) for normal positive finite x, plus shift * log 2 for a whole number `shift`. x = 2^k (1+f) with 1+f between
 * sqrt(1/2) and sqrt(2); s = f/(2+f); log(1+f) = f - (f^2/2 - s (f^2/2 + R(s^2))), in which f is exact and everything
 * after it small. Adding the offset before the shift moves the binades' border from 1 to sqrt(1/2). */
VEC_LONG vd vd_log_core(vd x, vd shift)
{
    const uint64_t border = 0x3FE6A09E667F3BCDu, one = 0x3FF0000000000000u, mantissa = 0x000FFFFFFFFFFFFFu;
    vi moved = vi_add(vd_bits(x), vi_set(one - border));
    vi kbits = vi_or(vi_shr(moved, 52), vi_set(0x4330000000000000u)); /* 2^52 + 1023 + k */
    vd k = vd_sub(vi_double(kbits), vd_sub(vd_set(0x1p52 + 1023.0), shift));
    vd f = vd_sub(vi_double(vi_add(vi_and(moved, vi_set(mantissa)), vi_set(border))), vd_set(1.0));
    vd s = vd_div(f, vd_add(f, vd_set(2.0)));
    vd half = vd_mul(vd_mul(f, vd_set(0.5)), f);
    vd z = vd_mul(s, s), z2 = vd_mul(z, z);
    vd even = vd_set(log_c[6]), odd = vd_set(log_c[5]);
    even = vd_fma(even, z2, vd_set(log_c[4]));
    odd = vd_fma(odd, z2, vd_set(log_c[3]));
    even = vd_fma(even, z2, vd_set(log_c[2]));
    odd = vd_fma(odd, z2, vd_set(log_c[1]));
    even = vd_fma(even, z2, vd_set(log_c[0]));
    vd R = vd_mul(z, vd_fma(odd, z, even));
    vd tail = vd_fma(s, vd_add(half, R), vd_mul(k, vd_set(LOG2_LO)));
    return vd_fma(k, vd_set(LOG2_HI), vd_sub(f, vd_sub(half, tail)));
}

/* log(x): -inf at zero, NaN for negative numbers and NaN, +inf for +inf; subnormals are scaled by 2^54 first. */
VEC_LONG vd vd_log(vd x)
{
    vm tiny = vd_lt(x, vd_set(0x1p-1022));
    vd y = vd_log_core(vd_sel(tiny, vd_mul(x, vd_set(0x1p54)), x), vd_sel(tiny, vd_set(-54.0), vd_set(0.0)));
    y = vd_sel(vd_lt(x, vd_set((double)INFINITY)), y, x); /* the logarithm of +inf is +inf, that of NaN is NaN */
    y = vd_sel(vd_eq(x, vd_set(0.0)), vd_set(-(double)INFINITY), y);
    return vd_sel(vd_lt(x, vd_set(0.0)), vd_set((double)NAN), y);
}

/* sin(2 pi x) and cos(2 pi x), |x| < 2^40. x = q/4 + r exactly with |r| <= 1/8; q chooses which of the two polynomials
 * is which and their signs. */
VEC_LONG void vd_sincos2pi(vd x, vd *sine, vd *cosine)
{
    vd t = vd_fma(x, vd_set(4.0), vd_set(ROUNDER));
    vd r = vd_fnma(vd_sub(t, vd_set(ROUNDER)), vd_set(0.25), x);
    vd z = vd_mul(r, r);
    vd s = vd_set(sin_c[6]), c = vd_set(cos_c[6]);
    for (int k = 5; k >= 0; k--) {
        s = vd_fma(s, z, vd_set(sin_c[k]));
        c = vd_fma(c, z, vd_set(cos_c[k]));
    }
    s = vd_mul(s, r);
    c = vd_fma(c, z, vd_set(1.0));
    vi q = vd_bits(t), sign = vi_set(0x8000000000000000u);
    vm swap = vi_odd(q);
    vi sine_sign = vi_and(vi_shl(q, 62), sign), cosine_sign = vi_and(vi_shl(vi_add(q, vi_set(1)), 62), sign);
    *sine = vi_double(vi_xor(vd_bits(vd_sel(swap, c, s)), sine_sign));
    *cosine = vi_double(vi_xor(vd_bits(vd_sel(swap, s, c)), cosine_sign));
}

#endif
