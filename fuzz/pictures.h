/* pictures.h: what the fuzzers of picture formats share. */
#ifndef SOSMC_FUZZ_PICTURES_H
#define SOSMC_FUZZ_PICTURES_H

#include "fuzz.h"

#include "pictures/images.h"

/* Reads the bytes as a picture: pixels from 0 to 255, or a sentence. */
static inline void fuzz_picture(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    image im;
    int status = image_read(fuzz_file("picture", data, size), &im, error, sizeof error);
    fuzz_judge(status, error);
    for (int64_t i = 0; status == 0 && i < (int64_t)im.channels * im.rows * im.columns; i++)
        fuzz_must(im.pixel[i] >= 0 && im.pixel[i] <= 255, "pixels are from 0 to 255");
    image_free(&im);
}

#endif
