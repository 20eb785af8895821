/* philox.h: Philox4x32-10 of one counter, in plain C: the reference the vector versions are tested against.
 *
 * A counter of four 32-bit words and a key of two give four 32-bit words, by ten rounds of two multiplications each
 * (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC 2011). */
#ifndef SOSMC_BASE_PHILOX_H
#define SOSMC_BASE_PHILOX_H

#include <sosmc/sosmc.h>

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static inline void philox_block(uint32_t k0, uint32_t k1, uint32_t c[4])
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c[0], p1 = (uint64_t)PHILOX_M1 * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
}

/* Word 3 of the counter; words 0 to 2 are the draw block, the particle and the lower half of the step. */
static inline uint32_t philox_c3(sosmc_rng rng)
{
    return rng.stream << 24 | (rng.retry & 0xFFu) << 16 | (uint32_t)(rng.step >> 32 & 0xFFFFu);
}

/* The two 64-bit numbers named by rng, particle and block. */
static inline void philox_numbers(sosmc_rng rng, uint64_t particle, uint32_t block, uint64_t number[2])
{
    uint32_t c[4] = {block, (uint32_t)particle, (uint32_t)rng.step, philox_c3(rng)};
    philox_block((uint32_t)rng.seed, (uint32_t)(rng.seed >> 32), c);
    number[0] = c[0] | (uint64_t)c[1] << 32;
    number[1] = c[2] | (uint64_t)c[3] << 32;
}

#endif
