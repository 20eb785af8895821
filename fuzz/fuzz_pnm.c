/* fuzz_pnm.c: PGM and PPM pictures, and files that are no pictures. */
#include "pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_picture(data, size);
    return 0;
}
