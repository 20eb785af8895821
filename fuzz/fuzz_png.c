/* fuzz_png.c: PNG pictures. libpng compares a checksum for every piece of a file, which hides everything behind the first
 * change from random mutation: most mutants get theirs put right. */
#include "pictures.h"

#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, HEAD = 8, SUM = 4 }; /* a chunk: length, type | bytes | sum of type and bytes */

static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_number(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, most);
    if (seed % 16 == 0 || size < SIGNATURE) return size;
    memcpy(data, signature, SIGNATURE);
    for (size_t at = SIGNATURE; size - at >= HEAD + SUM;) {
        size_t length = number_at(data + at);
        if (length > size - at - HEAD - SUM) break;
        put_number(data + at + HEAD + length, (uint32_t)crc32(0, data + at + 4, (uInt)(length + 4)));
        at += HEAD + length + SUM;
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SIGNATURE || memcmp(data, signature, SIGNATURE) != 0) return -1;
    fuzz_picture(data, size);
    return 0;
}
