/* simdf.h: sixteen floats (vf), the counterpart of simd.h for networks, written once per vector level.
 *
 * Every operation has one IEEE result, the same at each level and in each lane. Sums across lanes (vf_fold) halve: lanes
 * l and l + 8, then l + 4, l + 2, l + 1. */
#ifndef SOSMC_BASE_SIMDF_H
#define SOSMC_BASE_SIMDF_H

#include "simd.h"

#define FLOATS 16 /* in a vf */

#if defined(SOSMC_LEVEL_AVX512)

typedef __m512 vf;

VEC vf vf_set(float a) { return _mm512_set1_ps(a); }
VEC vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
VEC void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
VEC vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
VEC vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
VEC vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
VEC vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
VEC vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
VEC vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
VEC vf vf_fnms(vf a, vf b, vf c) { return _mm512_fnmsub_ps(a, b, c); }
VEC vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
VEC vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
/* p 2^n with n in the low bits of t (as left there by adding 3 * 2^22), p's exponent far from its limits */
VEC vf vf_scale_by(vf p, vf t)
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}
/* the float whose bits are the low nine of t, then zeros */
VEC vf vf_lift(vf t) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23)); }
VEC float vf_fold(vf a)
{
    __m256 s = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
/* g[l] += a[l], widened */
VEC void vf_add_to(double *g, vf a)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(a)), hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    _mm512_storeu_pd(g, _mm512_add_pd(_mm512_loadu_pd(g), lo));
    _mm512_storeu_pd(g + 8, _mm512_add_pd(_mm512_loadu_pd(g + 8), hi));
}

#elif defined(SOSMC_LEVEL_AVX2)

typedef struct {
    __m256 a, b;
} vf;

VEC vf vf_pair(__m256 a, __m256 b) { return (vf){a, b}; }
VEC vf vf_set(float a) { return vf_pair(_mm256_set1_ps(a), _mm256_set1_ps(a)); }
VEC vf vf_load(const float *p) { return vf_pair(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
VEC void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a.a), _mm256_storeu_ps(p + 8, a.b); }
VEC vf vf_add(vf a, vf b) { return vf_pair(_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b)); }
VEC vf vf_sub(vf a, vf b) { return vf_pair(_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b)); }
VEC vf vf_mul(vf a, vf b) { return vf_pair(_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b)); }
VEC vf vf_div(vf a, vf b) { return vf_pair(_mm256_div_ps(a.a, b.a), _mm256_div_ps(a.b, b.b)); }
VEC vf vf_fma(vf a, vf b, vf c) { return vf_pair(_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)); }
VEC vf vf_fnma(vf a, vf b, vf c) { return vf_pair(_mm256_fnmadd_ps(a.a, b.a, c.a), _mm256_fnmadd_ps(a.b, b.b, c.b)); }
VEC vf vf_fnms(vf a, vf b, vf c) { return vf_pair(_mm256_fnmsub_ps(a.a, b.a, c.a), _mm256_fnmsub_ps(a.b, b.b, c.b)); }
VEC vf vf_max(vf a, vf b) { return vf_pair(_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b)); }
VEC vf vf_min(vf a, vf b) { return vf_pair(_mm256_min_ps(a.a, b.a), _mm256_min_ps(a.b, b.b)); }
VEC __m256 scale_8_by(__m256 p, __m256 t)
{
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}
VEC vf vf_scale_by(vf p, vf t) { return vf_pair(scale_8_by(p.a, t.a), scale_8_by(p.b, t.b)); }
VEC __m256 lift_8(__m256 t) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23)); }
VEC vf vf_lift(vf t) { return vf_pair(lift_8(t.a), lift_8(t.b)); }
VEC float vf_fold(vf a)
{
    __m256 s = _mm256_add_ps(a.a, a.b);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
VEC void add_4_to(double *g, __m128 a) { _mm256_storeu_pd(g, _mm256_add_pd(_mm256_loadu_pd(g), _mm256_cvtps_pd(a))); }
VEC void vf_add_to(double *g, vf a)
{
    add_4_to(g, _mm256_castps256_ps128(a.a));
    add_4_to(g + 4, _mm256_extractf128_ps(a.a, 1));
    add_4_to(g + 8, _mm256_castps256_ps128(a.b));
    add_4_to(g + 12, _mm256_extractf128_ps(a.b, 1));
}

#else

typedef struct {
    float v[FLOATS];
} vf;
#define EACH_FLOAT(expression)                                  \
    do {                                                        \
        vf r;                                                   \
        for (int l = 0; l < FLOATS; l++) r.v[l] = (expression); \
        return r;                                               \
    } while (0)

VEC vf vf_set(float a) { EACH_FLOAT(a); }
VEC vf vf_load(const float *p)
{
    vf r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
VEC void vf_store(float *p, vf a) { memcpy(p, a.v, sizeof a.v); }
VEC vf vf_add(vf a, vf b) { EACH_FLOAT(a.v[l] + b.v[l]); }
VEC vf vf_sub(vf a, vf b) { EACH_FLOAT(a.v[l] - b.v[l]); }
VEC vf vf_mul(vf a, vf b) { EACH_FLOAT(a.v[l] * b.v[l]); }
VEC vf vf_div(vf a, vf b) { EACH_FLOAT(a.v[l] / b.v[l]); }
VEC_LONG vf vf_fma(vf a, vf b, vf c) { EACH_FLOAT(fmaf(a.v[l], b.v[l], c.v[l])); }
VEC_LONG vf vf_fnma(vf a, vf b, vf c) { EACH_FLOAT(fmaf(-a.v[l], b.v[l], c.v[l])); }
VEC_LONG vf vf_fnms(vf a, vf b, vf c) { EACH_FLOAT(fmaf(-a.v[l], b.v[l], -c.v[l])); }
VEC vf vf_max(vf a, vf b) { EACH_FLOAT(a.v[l] > b.v[l] ? a.v[l] : b.v[l]); } /* as the instruction: b when unordered */
VEC vf vf_min(vf a, vf b) { EACH_FLOAT(a.v[l] < b.v[l] ? a.v[l] : b.v[l]); }
VEC vf vf_scale_by(vf p, vf t)
{
    uint32_t bits[FLOATS], n[FLOATS];
    memcpy(bits, p.v, sizeof bits);
    memcpy(n, t.v, sizeof n);
    for (int l = 0; l < FLOATS; l++) bits[l] += n[l] << 23;
    memcpy(p.v, bits, sizeof bits);
    return p;
}
VEC vf vf_lift(vf t)
{
    uint32_t bits[FLOATS];
    memcpy(bits, t.v, sizeof bits);
    for (int l = 0; l < FLOATS; l++) bits[l] <<= 23;
    memcpy(t.v, bits, sizeof bits);
    return t;
}
VEC float vf_fold(vf a)
{
    for (int half = FLOATS / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) a.v[l] += a.v[l + half];
    return a.v[0];
}
VEC void vf_add_to(double *g, vf a)
{
    for (int l = 0; l < FLOATS; l++) g[l] += (double)a.v[l];
}

#endif

/* exp(r) for |r| <= log(2)/2 (Cephes' coefficients) */
VEC vf vf_exp_small(vf r)
{
    vf p = vf_fma(r, vf_set(1.9875691500e-4f), vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(5.0000001201e-1f));
    return vf_add(vf_fma(vf_mul(r, r), p, r), vf_set(1.0f));
}

/* exp(x) to about one unit in the last place; x is held to [-87, 88], so the result is never 0, infinite or subnormal.
 * x = n log 2 + r with |r| <= log(2)/2. */
VEC vf vf_exp(vf x)
{
    const vf rounder = vf_set(12582912.0f); /* 3 * 2^22: adding it leaves round(x / log 2) in the low bits */
    x = vf_min(vf_max(x, vf_set(-87.0f)), vf_set(88.0f));
    vf t = vf_fma(x, vf_set(1.44269504f), rounder), n = vf_sub(t, rounder);
    vf r = vf_fnma(n, vf_set(0.693359375f), x);
    r = vf_fnma(n, vf_set(-2.12194440e-4f), r);
    return vf_scale_by(vf_exp_small(r), t);
}

/* 1 + exp(-x), the bits of adding vf_exp(-x) to 1 in three operations less: the sign goes into the constants, and with the
 * exponent's bias in the rounder the low bits of t, lifted, are 2^n, by which exp(r) is multiplied while 1 is added. */
VEC vf vf_one_plus_exp_minus(vf x)
{
    const vf rounder = vf_set(12583039.0f); /* 3 * 2^22 + 127 */
    x = vf_max(vf_min(x, vf_set(87.0f)), vf_set(-88.0f));
    vf t = vf_fma(x, vf_set(-1.44269504f), rounder), n = vf_sub(t, rounder);
    vf r = vf_fnms(n, vf_set(0.693359375f), x);
    r = vf_fnma(n, vf_set(-2.12194440e-4f), r);
    return vf_fma(vf_exp_small(r), vf_lift(t), vf_set(1.0f));
}

/* log(1 + e) for e in [0, 1]: 2 atanh(s), s = e / (2 + e) <= 1/3. */
VEC vf vf_log1p(vf e)
{
    vf s = vf_div(e, vf_add(e, vf_set(2.0f))), z = vf_mul(s, s);
    vf p = vf_fma(z, vf_set(2.0f / 15), vf_set(2.0f / 13));
    p = vf_fma(p, z, vf_set(2.0f / 11));
    p = vf_fma(p, z, vf_set(2.0f / 9));
    p = vf_fma(p, z, vf_set(2.0f / 7));
    p = vf_fma(p, z, vf_set(2.0f / 5));
    p = vf_fma(p, z, vf_set(2.0f / 3));
    return vf_fma(vf_mul(p, z), s, vf_add(s, s));
}

#endif
