/* fuzz_arrays.c: NPY files, and arrays in NPZ archives, as points for training and as pictures. What is accepted is written
 * and read back the same. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "pictures/images.h"
#include "job/points.h"

static void write_and_read(const npy_array *a)
{
    char error[FUZZ_SENTENCE] = "";
    npy_array b;
    fuzz_must(npy_write(fuzz_path("again.npy"), a, error, sizeof error) == 0, "every array can be written");
    fuzz_must(npy_read(fuzz_path("again.npy"), &b, error, sizeof error) == 0, "what was written can be read");
    static const size_t bytes[] = {[NPY_F64] = 8, [NPY_F32] = 4, [NPY_I64] = 8, [NPY_U8] = 1};
    fuzz_must(a->type == b.type && a->dims == b.dims && npy_count(a) == npy_count(&b), "with type and shape");
    fuzz_must(npy_count(a) == 0 || !memcmp(a->data, b.data, (size_t)npy_count(a) * bytes[a->type]), "with its numbers");
    npy_free(&b);
}

static void take(int status, npy_array *a, const char *error)
{
    fuzz_judge(status, error);
    if (status == 0) write_and_read(a);
    npy_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    npy_array a;
    double *x = NULL;
    int64_t rows = 0;
    int archive = size > 1 && data[0] == 'P';
    const char *path = fuzz_file(archive ? "points.npz" : "points.npy", data, size);
    if (archive) {
        take(npz_read(path, "x", &a, error, sizeof error), &a, error);
        take(npz_read(path, "logw", &a, error, sizeof error), &a, error);
    } else {
        image_set set;
        take(npy_read(path, &a, error, sizeof error), &a, error);
        fuzz_judge(images_read(path, &set, error, sizeof error), error);
        images_free(&set);
    }
    fuzz_judge(points_load(path, 2, &x, &rows, error, sizeof error), error);
    free(x);
    return 0;
}
