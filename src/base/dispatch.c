/* dispatch.c: which vector level to use, and the public functions that only pass on to it.
 *
 * The processor is asked by its own instructions and not through the compiler's library, which not every linker has. cpuid says what
 * it can do, xgetbv which registers the system saves when it changes threads: both are needed. In a virtual machine cpuid may take
 * microseconds, so the answer, which is the same whoever asks, is remembered. All levels give the same bits; the choice decides
 * speed alone. */
#include "table.h"

#include <string.h>
#if defined(SOSMC_HAVE_X86_LEVELS)
#include <cpuid.h>
#include <stdatomic.h>
#endif

extern const struct sosmc_simd sosmc_i_simd_plain;
enum { PLAIN, AVX2, AVX512, LEVELS };
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const struct sosmc_simd sosmc_i_simd_avx512, sosmc_i_simd_avx2;
static const struct sosmc_simd *const levels[LEVELS] = {&sosmc_i_simd_plain, &sosmc_i_simd_avx2, &sosmc_i_simd_avx512};

/* Bits of XCR0: registers that the system saves. */
enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xe6 };

static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int ask_processor(void)
{
    const unsigned wide = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return PLAIN;
    if (!(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA)) return PLAIN;
    unsigned saved = saved_registers();
    if ((saved & SAVES_YMM) != SAVES_YMM) return PLAIN;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return PLAIN;
    return (saved & SAVES_ZMM) == SAVES_ZMM && (b & wide) == wide ? AVX512 : AVX2;
}

static int best_level(void)
{
    static atomic_int known; /* the level + 1; 0: not asked yet */
    int level = atomic_load_explicit(&known, memory_order_relaxed) - 1;
    if (level >= 0) return level;
    level = ask_processor();
    atomic_store_explicit(&known, level + 1, memory_order_relaxed);
    return level;
}
#else
static const struct sosmc_simd *const levels[LEVELS] = {&sosmc_i_simd_plain};
static int best_level(void) { return PLAIN; }
#endif

const sosmc_simd *sosmc_simd_best(void) { return levels[best_level()]; }

const sosmc_simd *sosmc_simd_named(const char *name)
{
    static const char *const names[LEVELS] = {"plain", "avx2", "avx512"};
    for (int level = best_level(); name && level >= PLAIN; level--)
        if (strcmp(name, names[level]) == 0) return levels[level];
    return NULL;
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
