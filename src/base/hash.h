/* hash.h: a hash of 64-bit words, for states and streams. */
#ifndef SOSMC_BASE_HASH_H
#define SOSMC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of n bytes, a multiple of 8; what is left over does not count. */
static inline uint64_t sosmc_i_mix(uint64_t hash, const void *bytes, size_t n)
{
    const char *p = bytes;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

#endif
