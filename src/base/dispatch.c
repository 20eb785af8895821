/* dispatch.c: which vector level to use, and the public functions that only pass on to it.
 *
 * The choice is a value that is computed from the properties of the processor at every call. Nothing is stored, so there is
 * no state to initialise or to share. All levels give the same bits; the choice decides speed alone. */
#include "table.h"

#include <string.h>

extern const struct sosmc_simd sosmc_i_simd_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const struct sosmc_simd sosmc_i_simd_avx512, sosmc_i_simd_avx2;

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

const sosmc_simd *sosmc_simd_best(void)
{
#if defined(SOSMC_HAVE_X86_LEVELS)
    if (has_avx512()) return &sosmc_i_simd_avx512;
    if (has_avx2()) return &sosmc_i_simd_avx2;
#endif
    return &sosmc_i_simd_plain;
}

const sosmc_simd *sosmc_simd_named(const char *name)
{
    if (!name) return NULL;
#if defined(SOSMC_HAVE_X86_LEVELS)
    if (!strcmp(name, "avx512")) return has_avx512() ? &sosmc_i_simd_avx512 : NULL;
    if (!strcmp(name, "avx2")) return has_avx2() ? &sosmc_i_simd_avx2 : NULL;
#endif
    return !strcmp(name, "plain") ? &sosmc_i_simd_plain : NULL;
}

const char *sosmc_simd_name(const sosmc_simd *simd) { return sosmc_i_simd(simd)->name; }

int sosmc_simd_level(const sosmc_simd *simd) { return sosmc_i_simd(simd)->level; }

const sosmc_simd *sosmc_i_simd(const sosmc_simd *simd) { return simd ? simd : sosmc_simd_best(); }

void sosmc_exp(const sosmc_simd *simd, int n, const double *x, double *y) { sosmc_i_simd(simd)->exp(n, x, y); }

void sosmc_log(const sosmc_simd *simd, int n, const double *x, double *y) { sosmc_i_simd(simd)->log(n, x, y); }

double sosmc_i_exp1(const sosmc_simd *simd, double x)
{
    sosmc_exp(simd, 1, &x, &x);
    return x;
}

double sosmc_i_log1(const sosmc_simd *simd, double x)
{
    sosmc_log(simd, 1, &x, &x);
    return x;
}

void sosmc_normals(sosmc_rng rng, const sosmc_batch *batch, double *z)
{
    sosmc_i_simd(batch->simd)->normals(rng, batch->first, batch->dim, batch->n, batch->ld, z);
}

void sosmc_uniforms(sosmc_rng rng, uint32_t draw, const sosmc_batch *batch, double *u)
{
    sosmc_i_simd(batch->simd)->uniforms(rng, draw, batch->first, batch->n, u);
}
