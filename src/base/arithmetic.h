/* arithmetic.h: the floating-point environment that the promise of equal bits needs: rounding to nearest, subnormal numbers kept,
 * no traps. A host process may have set another one (flush-to-zero is what some Python extensions do). A function that computes
 * opens with STANDARD_ARITHMETIC: from there to its end the environment is ours, and whichever way it returns the host's comes back,
 * with the exception flags that the host had. */
#ifndef SOSMC_BASE_ARITHMETIC_H
#define SOSMC_BASE_ARITHMETIC_H

#if defined(__x86_64__) || defined(__SSE2__)

#include <xmmintrin.h>

/* Every double is computed in SSE registers, under MXCSR; a callback's long double in those of the x87, which has its own word. */
typedef struct {
    unsigned mxcsr;
    unsigned short control;
} sosmc_i_arithmetic;

static inline void sosmc_i_arithmetic_load(const sosmc_i_arithmetic *a)
{
    __asm__ volatile("fldcw %0" ::"m"(a->control) : "memory");
    _mm_setcsr(a->mxcsr);
}
static inline void sosmc_i_arithmetic_set(void)
{
    static const sosmc_i_arithmetic standard = {0x1f80, 0x037f};
    sosmc_i_arithmetic_load(&standard);
}
static inline sosmc_i_arithmetic sosmc_i_arithmetic_enter(void)
{
    sosmc_i_arithmetic host = {.mxcsr = _mm_getcsr()};
    __asm__ volatile("fnstcw %0" : "=m"(host.control));
    sosmc_i_arithmetic_set();
    __asm__ volatile("" ::: "memory"); /* nothing that is loaded below is computed with before */
    return host;
}
static inline void sosmc_i_arithmetic_leave(const sosmc_i_arithmetic *host)
{
    __asm__ volatile("" ::: "memory");
    sosmc_i_arithmetic_load(host);
}

#else

#include <fenv.h>

typedef fenv_t sosmc_i_arithmetic;

static inline void sosmc_i_arithmetic_set(void) { (void)fesetenv(FE_DFL_ENV); }
static inline sosmc_i_arithmetic sosmc_i_arithmetic_enter(void)
{
    sosmc_i_arithmetic host;
    (void)fegetenv(&host);
    sosmc_i_arithmetic_set();
    __asm__ volatile("" ::: "memory");
    return host;
}
static inline void sosmc_i_arithmetic_leave(const sosmc_i_arithmetic *host)
{
    __asm__ volatile("" ::: "memory");
    (void)fesetenv(host);
}

#endif

#define STANDARD_ARITHMETIC                                                \
    __attribute__((cleanup(sosmc_i_arithmetic_leave)))                     \
    const sosmc_i_arithmetic host_arithmetic = sosmc_i_arithmetic_enter(); \
    (void)host_arithmetic

#endif
