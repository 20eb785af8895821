/* simd.h: eight doubles (vd), eight 64-bit integers (vi) and eight truth values (vm), written once per vector level.
 *
 * Every operation here has one IEEE result, the same at each level and in each lane; code written with these types
 * gives the same bits on AVX-512, on AVX2 with FMA and in plain C. Two exceptions by intent: the payload and sign of a
 * NaN are not promised, and vi_hi32 leaves the upper half of each lane unspecified (see there).
 *
 * The build defines one of SOSMC_LEVEL_AVX512, SOSMC_LEVEL_AVX2, SOSMC_LEVEL_PLAIN, and SOSMC_LEVEL as its name. */
#ifndef SOSMC_BASE_SIMD_H
#define SOSMC_BASE_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SOSMC_PASTE_(a, b) a##_##b
#define SOSMC_PASTE(a, b) SOSMC_PASTE_(a, b)
#define SOSMC_TEXT_(a) #a
#define SOSMC_TEXT(a) SOSMC_TEXT_(a)
#define AT_LEVEL(name) SOSMC_PASTE(name, SOSMC_LEVEL) /* a symbol of this level: name_avx512, name_avx2, name_plain */
#define LEVEL_NAME SOSMC_TEXT(SOSMC_LEVEL)

#define LANES 8
#define VEC static inline __attribute__((always_inline, unused))
/* Functions of many operations: inlined where a vector is a register, called where it is eight numbers in memory (there
 * inlining gains nothing and takes the compiler minutes). */
#if defined(SOSMC_LEVEL_PLAIN)
#define VEC_LONG static __attribute__((noinline, unused))
#else
#define VEC_LONG VEC
#endif

#if defined(SOSMC_LEVEL_AVX512)

#include <immintrin.h>
typedef __m512d vd;
typedef __m512i vi;
typedef __mmask8 vm;

VEC vm vm_first(int k) { return (vm)((1u << k) - 1u); }
VEC vd vd_set(double a) { return _mm512_set1_pd(a); }
VEC vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
VEC void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
VEC int all_lanes(int k) { return __builtin_constant_p(k) && k == LANES; }
VEC vd vd_load_n(const double *p, int k) { return all_lanes(k) ? vd_load(p) : _mm512_maskz_loadu_pd(vm_first(k), p); }
VEC void vd_store_n(double *p, int k, vd a)
{
    if (all_lanes(k)) {
        vd_store(p, a);
    } else {
        _mm512_mask_storeu_pd(p, vm_first(k), a);
    }
}
VEC vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
VEC vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
VEC vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
VEC vd vd_div(vd a, vd b) { return _mm512_div_pd(a, b); }
VEC vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
VEC vd vd_fnma(vd a, vd b, vd c) { return _mm512_fnmadd_pd(a, b, c); }
VEC vd vd_fma_if(vm m, vd a, vd b, vd c) { return _mm512_mask3_fmadd_pd(a, b, c, m); }
VEC vd vd_sqrt(vd a) { return _mm512_sqrt_pd(a); }
VEC vd vd_max(vd a, vd b) { return _mm512_max_pd(a, b); }
VEC vd vd_min(vd a, vd b) { return _mm512_min_pd(a, b); }
VEC vm vd_lt(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
VEC vm vd_eq(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
VEC vm vd_ne(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ); }
VEC vd vd_sel(vm m, vd a, vd b) { return _mm512_mask_blend_pd(m, b, a); }
VEC vd vd_gather(const double *p, vi at) { return _mm512_i64gather_pd(at, p, 8); }
VEC void vd_store_pairs(double *p, vd a, vd b)
{
    _mm512_storeu_pd(p, _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b));
    _mm512_storeu_pd(p + 8, _mm512_permutex2var_pd(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b));
}
VEC double vd_fold(vd a)
{
    __m256d s = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    __m128d t = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
    return _mm_cvtsd_f64(t) + _mm_cvtsd_f64(_mm_unpackhi_pd(t, t));
}

VEC vi vd_bits(vd a) { return _mm512_castpd_si512(a); }
VEC vd vi_double(vi a) { return _mm512_castsi512_pd(a); }
VEC vi vi_set(uint64_t a) { return _mm512_set1_epi64((long long)a); }
VEC vi vi_count(uint64_t a) { return _mm512_add_epi64(vi_set(a), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)); }
VEC vi vi_add(vi a, vi b) { return _mm512_add_epi64(a, b); }
VEC vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
VEC vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
VEC vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
VEC vi vi_xor3(vi a, vi b, vi c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
VEC vi vi_shl(vi a, unsigned k) { return _mm512_slli_epi64(a, k); }
VEC vi vi_shr(vi a, unsigned k) { return _mm512_srli_epi64(a, k); }
VEC vi vi_mul32(vi a, vi b) { return _mm512_mul_epu32(a, b); }
VEC vi vi_hi32(vi a) { return _mm512_shuffle_epi32(a, (_MM_PERM_ENUM)0xF5); }
VEC vi vi_pack32(vi lo, vi hi) { return _mm512_mask_shuffle_epi32(lo, 0xAAAA, hi, (_MM_PERM_ENUM)0xA0); }
VEC vm vi_odd(vi a) { return _mm512_test_epi64_mask(a, vi_set(1)); }

#elif defined(SOSMC_LEVEL_AVX2)

#include <immintrin.h>
typedef struct {
    __m256d a, b;
} vd;
typedef struct {
    __m256i a, b;
} vi;
typedef vd vm; /* only the sign of each lane counts: what blendv looks at */

VEC vd vd_pair(__m256d a, __m256d b) { return (vd){a, b}; }
VEC vi vi_pair(__m256i a, __m256i b) { return (vi){a, b}; }
VEC __m256i first_of_4(int k) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(k), _mm256_setr_epi64x(0, 1, 2, 3)); }
VEC vd vd_set(double a) { return vd_pair(_mm256_set1_pd(a), _mm256_set1_pd(a)); }
VEC vd vd_load(const double *p) { return vd_pair(_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)); }
VEC void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a.a), _mm256_storeu_pd(p + 4, a.b); }
VEC vd vd_load_n(const double *p, int k)
{
    if (k >= LANES) return vd_load(p);
    return vd_pair(_mm256_maskload_pd(p, first_of_4(k)),
                   k > 4 ? _mm256_maskload_pd(p + 4, first_of_4(k - 4)) : _mm256_setzero_pd());
}
VEC void vd_store_n(double *p, int k, vd a)
{
    if (k >= LANES) {
        vd_store(p, a);
        return;
    }
    _mm256_maskstore_pd(p, first_of_4(k), a.a);
    if (k > 4) _mm256_maskstore_pd(p + 4, first_of_4(k - 4), a.b);
}
VEC vd vd_add(vd a, vd b) { return vd_pair(_mm256_add_pd(a.a, b.a), _mm256_add_pd(a.b, b.b)); }
VEC vd vd_sub(vd a, vd b) { return vd_pair(_mm256_sub_pd(a.a, b.a), _mm256_sub_pd(a.b, b.b)); }
VEC vd vd_mul(vd a, vd b) { return vd_pair(_mm256_mul_pd(a.a, b.a), _mm256_mul_pd(a.b, b.b)); }
VEC vd vd_div(vd a, vd b) { return vd_pair(_mm256_div_pd(a.a, b.a), _mm256_div_pd(a.b, b.b)); }
VEC vd vd_fma(vd a, vd b, vd c) { return vd_pair(_mm256_fmadd_pd(a.a, b.a, c.a), _mm256_fmadd_pd(a.b, b.b, c.b)); }
VEC vd vd_fnma(vd a, vd b, vd c) { return vd_pair(_mm256_fnmadd_pd(a.a, b.a, c.a), _mm256_fnmadd_pd(a.b, b.b, c.b)); }
VEC vd vd_sqrt(vd a) { return vd_pair(_mm256_sqrt_pd(a.a), _mm256_sqrt_pd(a.b)); }
VEC vd vd_max(vd a, vd b) { return vd_pair(_mm256_max_pd(a.a, b.a), _mm256_max_pd(a.b, b.b)); }
VEC vd vd_min(vd a, vd b) { return vd_pair(_mm256_min_pd(a.a, b.a), _mm256_min_pd(a.b, b.b)); }
VEC vm vd_lt(vd a, vd b) { return vd_pair(_mm256_cmp_pd(a.a, b.a, _CMP_LT_OQ), _mm256_cmp_pd(a.b, b.b, _CMP_LT_OQ)); }
VEC vm vd_eq(vd a, vd b) { return vd_pair(_mm256_cmp_pd(a.a, b.a, _CMP_EQ_OQ), _mm256_cmp_pd(a.b, b.b, _CMP_EQ_OQ)); }
VEC vm vd_ne(vd a, vd b) { return vd_pair(_mm256_cmp_pd(a.a, b.a, _CMP_NEQ_UQ), _mm256_cmp_pd(a.b, b.b, _CMP_NEQ_UQ)); }
VEC vd vd_sel(vm m, vd a, vd b) { return vd_pair(_mm256_blendv_pd(b.a, a.a, m.a), _mm256_blendv_pd(b.b, a.b, m.b)); }
VEC vd vd_fma_if(vm m, vd a, vd b, vd c) { return vd_sel(m, vd_fma(a, b, c), c); }
VEC vd vd_gather(const double *p, vi at)
{
    return vd_pair(_mm256_i64gather_pd(p, at.a, 8), _mm256_i64gather_pd(p, at.b, 8));
}
VEC void store_pairs_of_4(double *p, __m256d a, __m256d b)
{
    __m256d lo = _mm256_unpacklo_pd(a, b), hi = _mm256_unpackhi_pd(a, b); /* a0 b0 a2 b2, a1 b1 a3 b3 */
    _mm256_storeu_pd(p, _mm256_permute2f128_pd(lo, hi, 0x20));
    _mm256_storeu_pd(p + 4, _mm256_permute2f128_pd(lo, hi, 0x31));
}
VEC void vd_store_pairs(double *p, vd a, vd b)
{
    store_pairs_of_4(p, a.a, b.a);
    store_pairs_of_4(p + 8, a.b, b.b);
}
VEC double vd_fold(vd a)
{
    __m256d s = _mm256_add_pd(a.a, a.b);
    __m128d t = _mm_add_pd(_mm256_castpd256_pd128(s), _mm256_extractf128_pd(s, 1));
    return _mm_cvtsd_f64(t) + _mm_cvtsd_f64(_mm_unpackhi_pd(t, t));
}

VEC vi vd_bits(vd a) { return vi_pair(_mm256_castpd_si256(a.a), _mm256_castpd_si256(a.b)); }
VEC vd vi_double(vi a) { return vd_pair(_mm256_castsi256_pd(a.a), _mm256_castsi256_pd(a.b)); }
VEC vi vi_set(uint64_t a) { return vi_pair(_mm256_set1_epi64x((long long)a), _mm256_set1_epi64x((long long)a)); }
VEC vi vi_add(vi a, vi b) { return vi_pair(_mm256_add_epi64(a.a, b.a), _mm256_add_epi64(a.b, b.b)); }
VEC vi vi_count(uint64_t a)
{
    return vi_add(vi_set(a), vi_pair(_mm256_setr_epi64x(0, 1, 2, 3), _mm256_setr_epi64x(4, 5, 6, 7)));
}
VEC vi vi_and(vi a, vi b) { return vi_pair(_mm256_and_si256(a.a, b.a), _mm256_and_si256(a.b, b.b)); }
VEC vi vi_or(vi a, vi b) { return vi_pair(_mm256_or_si256(a.a, b.a), _mm256_or_si256(a.b, b.b)); }
VEC vi vi_xor(vi a, vi b) { return vi_pair(_mm256_xor_si256(a.a, b.a), _mm256_xor_si256(a.b, b.b)); }
VEC vi vi_xor3(vi a, vi b, vi c) { return vi_xor(a, vi_xor(b, c)); }
VEC vi vi_shl(vi a, int k) { return vi_pair(_mm256_slli_epi64(a.a, k), _mm256_slli_epi64(a.b, k)); }
VEC vi vi_shr(vi a, int k) { return vi_pair(_mm256_srli_epi64(a.a, k), _mm256_srli_epi64(a.b, k)); }
VEC vi vi_mul32(vi a, vi b) { return vi_pair(_mm256_mul_epu32(a.a, b.a), _mm256_mul_epu32(a.b, b.b)); }
VEC vi vi_hi32(vi a) { return vi_pair(_mm256_shuffle_epi32(a.a, 0xF5), _mm256_shuffle_epi32(a.b, 0xF5)); }
VEC vi vi_pack32(vi lo, vi hi)
{
    return vi_pair(_mm256_blend_epi32(lo.a, _mm256_slli_epi64(hi.a, 32), 0xAA),
                   _mm256_blend_epi32(lo.b, _mm256_slli_epi64(hi.b, 32), 0xAA));
}
VEC vm vi_odd(vi a) { return vi_double(vi_shl(a, 63)); }

#else /* plain C: loops a compiler may vectorise as it likes, since no operation crosses lanes */

typedef struct {
    double v[LANES];
} vd;
typedef struct {
    uint64_t v[LANES];
} vi;
typedef struct {
    uint64_t v[LANES];
} vm;
#define EACH(type, expression)                                 \
    do {                                                       \
        type r;                                                \
        for (int l = 0; l < LANES; l++) r.v[l] = (expression); \
        return r;                                              \
    } while (0)

VEC vd vd_set(double a) { EACH(vd, a); }
VEC vd vd_load(const double *p) { EACH(vd, p[l]); }
VEC void vd_store(double *p, vd a) { memcpy(p, a.v, sizeof a.v); }
VEC vd vd_load_n(const double *p, int k) { EACH(vd, l < k ? p[l] : 0.0); }
VEC void vd_store_n(double *p, int k, vd a)
{
    for (int l = 0; l < k; l++) p[l] = a.v[l];
}
VEC vd vd_add(vd a, vd b) { EACH(vd, a.v[l] + b.v[l]); }
VEC vd vd_sub(vd a, vd b) { EACH(vd, a.v[l] - b.v[l]); }
VEC vd vd_mul(vd a, vd b) { EACH(vd, a.v[l] * b.v[l]); }
VEC vd vd_div(vd a, vd b) { EACH(vd, a.v[l] / b.v[l]); }
VEC_LONG vd vd_fma(vd a, vd b, vd c) { EACH(vd, fma(a.v[l], b.v[l], c.v[l])); }
VEC vd vd_neg(vd a) { EACH(vd, -a.v[l]); }
VEC vd vd_fnma(vd a, vd b, vd c) { return vd_fma(vd_neg(a), b, c); }
VEC vd vd_sqrt(vd a) { EACH(vd, sqrt(a.v[l])); }
VEC vd vd_max(vd a, vd b) { EACH(vd, a.v[l] > b.v[l] ? a.v[l] : b.v[l]); }
VEC vd vd_min(vd a, vd b) { EACH(vd, a.v[l] < b.v[l] ? a.v[l] : b.v[l]); }
VEC vm vd_lt(vd a, vd b) { EACH(vm, a.v[l] < b.v[l]); }
VEC vm vd_eq(vd a, vd b) { EACH(vm, a.v[l] == b.v[l]); }
VEC vm vd_ne(vd a, vd b) { EACH(vm, a.v[l] != b.v[l]); }
VEC vd vd_sel(vm m, vd a, vd b) { EACH(vd, m.v[l] ? a.v[l] : b.v[l]); }
VEC vd vd_fma_if(vm m, vd a, vd b, vd c) { return vd_sel(m, vd_fma(a, b, c), c); }
VEC vd vd_gather(const double *p, vi at) { EACH(vd, p[at.v[l]]); }
VEC void vd_store_pairs(double *p, vd a, vd b)
{
    for (int l = 0; l < LANES; l++) p[2 * l] = a.v[l], p[2 * l + 1] = b.v[l];
}
VEC double vd_fold(vd a)
{
    const double *v = a.v;
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

VEC vi vd_bits(vd a)
{
    vi r;
    memcpy(&r, &a, sizeof r);
    return r;
}
VEC vd vi_double(vi a)
{
    vd r;
    memcpy(&r, &a, sizeof r);
    return r;
}
VEC vi vi_set(uint64_t a) { EACH(vi, a); }
VEC vi vi_count(uint64_t a) { EACH(vi, a + (uint64_t)l); }
VEC vi vi_add(vi a, vi b) { EACH(vi, a.v[l] + b.v[l]); }
VEC vi vi_and(vi a, vi b) { EACH(vi, a.v[l] & b.v[l]); }
VEC vi vi_or(vi a, vi b) { EACH(vi, a.v[l] | b.v[l]); }
VEC vi vi_xor(vi a, vi b) { EACH(vi, a.v[l] ^ b.v[l]); }
VEC vi vi_xor3(vi a, vi b, vi c) { EACH(vi, a.v[l] ^ b.v[l] ^ c.v[l]); }
VEC vi vi_shl(vi a, int k) { EACH(vi, a.v[l] << k); }
VEC vi vi_shr(vi a, int k) { EACH(vi, a.v[l] >> k); }
VEC vi vi_mul32(vi a, vi b) { EACH(vi, (a.v[l] & 0xFFFFFFFFu) * (b.v[l] & 0xFFFFFFFFu)); }
VEC vi vi_hi32(vi a) { EACH(vi, a.v[l] >> 32); }
VEC vi vi_pack32(vi lo, vi hi) { EACH(vi, (lo.v[l] & 0xFFFFFFFFu) | hi.v[l] << 32); }
VEC vm vi_odd(vi a) { EACH(vm, a.v[l] & 1); }
#undef EACH

#endif

/* What is not plain from the names, and holds at every level:
 *   vd_max(a, b)      a > b ? a : b; so b when either is NaN, and b for two zeros. vd_min likewise with <.
 *   vd_lt, vd_eq      false when either is NaN; vd_ne true.
 *   vd_fnma           -(a b) + c, one rounding.   vd_fma_if   a b + c where m, else c untouched.
 *   vd_load_n         k = 1..8 numbers, zeros after them; vd_store_n touches k numbers alone.
 *   vd_store_pairs    a0 b0 a1 b1 ... a7 b7.
 *   vd_fold           ((0+4)+(2+6)) + ((1+5)+(3+7)).
 *   vd_gather         p[at[lane]].
 *   vi_count(a)       a, a+1, ..., a+7.   vi_odd   bit 0.
 *   vi_mul32          lower half times lower half, all 64 bits; the upper halves are ignored.
 *   vi_hi32           the upper half moved to the lower; what is then in the upper half differs between levels, so the
 *                     result may only go (through xor) to vi_mul32 and vi_pack32, which ignore it.
 *   vi_pack32         lower half of lo, below lower half of hi. */

#endif
