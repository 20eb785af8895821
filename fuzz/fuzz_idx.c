/* fuzz_idx.c: IDX files of pictures and of labels, plain and gzipped. */
#include "fuzz.h"

#include <stdlib.h>

#include "pictures/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    const char *path = fuzz_file("pictures", data, size);
    unsigned char *label = NULL;
    int64_t labels = 0, sum = 0;
    image_set set;
    int status = images_read(path, &set, error, sizeof error);
    fuzz_judge(status, error);
    if (status == 0) {
        int64_t pixels = (int64_t)set.channels * set.rows * set.columns;
        fuzz_must(set.count > 0 && pixels > 0, "a set has a picture, and a pixel in it");
        for (int64_t i = 0; set.bytes && i < set.count * pixels; i++) sum += set.bytes[i];
    }
    images_free(&set);
    status = idx_labels_read(path, &label, &labels, error, sizeof error);
    fuzz_judge(status, error);
    for (int64_t i = 0; status == 0 && i < labels; i++) sum += label[i];
    fuzz_must(sum >= 0, "bytes are not negative");
    free(label);
    return 0;
}
