/* fuzz_jpeg.c: JPEG pictures. */
#include "pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || data[0] != 0xFF || data[1] != 0xD8 || data[2] != 0xFF) return -1; /* not for the corpus */
    fuzz_picture(data, size);
    return 0;
}
