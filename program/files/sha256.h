/* sha256.h: the SHA-256 checksum (FIPS 180-4), to tell whether bytes are those that were meant. */
#ifndef SOSMC_FILES_SHA256_H
#define SOSMC_FILES_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_TEXT = 65 }; /* 64 hexadecimal digits and a NUL */

typedef struct {
    uint32_t h[8];
    uint64_t bytes; /* so far */
    unsigned char block[64];
} sha256;

void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const void *bytes, size_t n);
void sha256_end(sha256 *s, char out[SHA256_TEXT]); /* lower-case digits */

#endif
