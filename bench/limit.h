/* limit.h: what the machine allows. The arithmetic of a Langevin iteration that cannot be avoided, on one tile that stays in
 * the first-level cache: two normals, one energy with gradient, the Langevin step and its weight; for the reference batch,
 * its draw and its contracted gradient. Six-component mixture in the plane, as in the Langevin experiment (V_sparse). Every
 * figure is the best of several repeats, because other work on the machine only ever adds time. For networks the limit is the
 * rate of multiply-adds on registers. */
#ifndef SOSMC_BENCH_LIMIT_H
#define SOSMC_BENCH_LIMIT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sosmc/models.h>

#include "base/table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LIMIT_COMPONENTS = 6, LIMIT_DIM = 2, LIMIT_TILE = 256, LIMIT_CHAINS = 12 };

static const double limit_theta[LIMIT_COMPONENTS] = {1.5, -1.5, 1.5, -1.5, 1.5, -1.5};

static inline double limit_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline sosmc_mixture limit_mixture(void)
{
    static const double means[LIMIT_COMPONENTS * LIMIT_DIM] = {4,  0, 2,  3.4641016151377546,  -2, 3.4641016151377546,
                                                               -4, 0, -2, -3.4641016151377546, 2,  -3.4641016151377546};
    return (sosmc_mixture){
        .dim = LIMIT_DIM, .components = LIMIT_COMPONENTS, .means = means, .variance = 1, .eps = 1e-9};
}

typedef struct {
    double normal;    /* ns for one normal */
    double move;      /* ns for one particle: move and weight */
    double reference; /* ns for one reference point: draw and gradient in theta */
} limit;

static inline limit measure_limit(void)
{
    enum { N = LIMIT_TILE, D = LIMIT_DIM, ROUNDS = 2000, REPEATS = 20 };
    static _Alignas(64) double x[D * N], y[D * N], g0[D * N], g1[D * N], z[D * N], U0[N], U1[N], out[N], c[N];
    const sosmc_simd *v = sosmc_simd_best();
    sosmc_mixture mixture = limit_mixture();
    sosmc_mixture_law law = {.mixture = &mixture, .theta = limit_theta};
    sosmc_model model = sosmc_mixture_model(&mixture);
    sosmc_source source = sosmc_mixture_source(&law);
    void *work = aligned_alloc(64, (model.work * N + 63) / 64 * 64),
         *prep = aligned_alloc(64, (model.prep + 63) / 64 * 64);
    if (!work || !prep || model.prepare(model.self, limit_theta, prep)) {
        fprintf(stderr, "the limit cannot be measured: out of memory\n");
        exit(1);
    }
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = v, .dim = D, .n = N, .ld = N};
    limit best = {.normal = INFINITY, .move = INFINITY, .reference = INFINITY};
    double g[LIMIT_COMPONENTS] = {0};
    for (int i = 0; i < N; i++) c[i] = 1.0 / N;
    sosmc_normals((sosmc_rng){.seed = 1}, &b, x);
    (void)model.energy(model.self, limit_theta, &b, U0, g0);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begin = limit_now();
        for (int k = 0; k < ROUNDS; k++) v->normals((sosmc_rng){.seed = 1, .step = (uint64_t)k}, 0, D, N, N, z);
        double drawn = limit_now();
        for (int k = 0; k < ROUNDS; k++) {
            v->normals((sosmc_rng){.seed = 1, .step = (uint64_t)k}, 0, D, N, N, z);
            v->propose(D * N, x, g0, z, 0.1, sqrt(0.2), y);
            b.x = y;
            (void)model.energy(model.self, limit_theta, &b, U1, g1);
            v->langevin_ratio(D, N, N, x, y, g0, g1, 0.1, 1, U0, U1, out);
        }
        double moved = limit_now();
        for (int k = 0; k < ROUNDS / 4; k++) {
            b.x = y;
            (void)source.draw(source.self, (sosmc_rng){.seed = 1, .step = (uint64_t)k, .stream = SOSMC_STREAM_DATA}, &b,
                              y);
            (void)model.grad_theta(model.self, limit_theta, &b, c, g);
        }
        double end = limit_now();
        best.normal = fmin(best.normal, (drawn - begin) * 1e9 / ROUNDS / (D * N));
        best.move = fmin(best.move, (moved - drawn) * 1e9 / ROUNDS / N);
        best.reference = fmin(best.reference, (end - moved) * 1e9 * 4 / ROUNDS / N);
    }
    free(work);
    free(prep);
    return best;
}

/* ---------------------------------------------------------------------------- networks */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static inline double limit_multiply_add_512(int rounds)
{
    __m512 a[LIMIT_CHAINS], b = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < LIMIT_CHAINS; i++) a[i] = _mm512_set1_ps((float)i);
    double begin = limit_now();
    for (int k = 0; k < rounds; k++)
#pragma GCC unroll 12
        for (int i = 0; i < LIMIT_CHAINS; i++) a[i] = _mm512_fmadd_ps(a[i], b, c);
    double seconds = limit_now() - begin;
    float sum = 0;
    for (int i = 0; i < LIMIT_CHAINS; i++) sum += _mm512_cvtss_f32(a[i]);
    return sum == 0 ? INFINITY : seconds / 16; /* the sum is there so that the loop is */
}
__attribute__((target("avx2,fma"))) static inline double limit_multiply_add_256(int rounds)
{
    __m256 a[LIMIT_CHAINS], b = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < LIMIT_CHAINS; i++) a[i] = _mm256_set1_ps((float)i);
    double begin = limit_now();
    for (int k = 0; k < rounds; k++)
#pragma GCC unroll 12
        for (int i = 0; i < LIMIT_CHAINS; i++) a[i] = _mm256_fmadd_ps(a[i], b, c);
    double seconds = limit_now() - begin;
    float sum = 0;
    for (int i = 0; i < LIMIT_CHAINS; i++) sum += _mm256_cvtss_f32(a[i]);
    return sum == 0 ? INFINITY : seconds / 8;
}
#endif

/* Operations per second of one core, f32 multiply-adds counted as two, measured once; NaN where there is no vector code to measure. */
static inline double limit_peak(void)
{
    enum { ROUNDS = 1000000 };
    double per_lane = NAN;
#if defined(__x86_64__)
    const char *level = sosmc_simd_name(sosmc_simd_best());
    if (strcmp(level, "avx512") == 0) per_lane = limit_multiply_add_512(ROUNDS);
    if (strcmp(level, "avx2") == 0) per_lane = limit_multiply_add_256(ROUNDS);
#endif
    return 2.0 * ROUNDS * LIMIT_CHAINS / per_lane;
}

/* Memory of zeros that starts a cache line, or the end of the program. */
static inline void *limit_room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

#endif
