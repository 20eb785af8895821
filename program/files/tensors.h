/* tensors.h: named arrays of floats in one file, as safetensors or as NPZ: the files that hold the weights of networks.
 *
 * A reader recognises the format by the file's first bytes, a writer chooses by the ending of the path. Both accept
 * only what both formats can hold: finite numbers, distinct names in UTF-8 without control characters, at most
 * four dimensions. Metadata are pairs of texts; safetensors has a place for them, in an NPZ file they stand as JSON in
 * the bytes of an array called __metadata__ (Python: json.loads(bytes(z["__metadata__"]))).
 *
 * The rules of files.h hold: 0 or -1 with one sentence, a file that exists is whole, every length is checked before it is used. */
#ifndef SOSMC_FILES_TENSORS_H
#define SOSMC_FILES_TENSORS_H

#include <stddef.h>
#include <stdint.h>

enum {
    TENSOR_NAME = 200,         /* room for a name */
    TENSOR_DIMS = 4,           /* dimensions at most */
    TENSORS_MOST = 4096,       /* tensors in a file, and keys */
    TENSORS_NUMBERS = 1 << 28, /* numbers in a file: 1 GiB of them */
};

typedef struct {
    char name[TENSOR_NAME];
    int dims; /* 0 is a single number */
    int64_t shape[TENSOR_DIMS];
    float *data; /* C order */
} tensor;

typedef struct {
    char *key, *value;
} tensor_pair;

/* All zero is an empty one. */
typedef struct {
    tensor *tensor; /* in the order of their bytes in the file */
    int count;
    tensor_pair *metadata;
    int pairs;
} tensor_file;

typedef enum { TENSORS_UNKNOWN = 0, TENSORS_SAFETENSORS, TENSORS_NPZ } tensors_kind;
tensors_kind tensors_ending(const char *path); /* .safetensors, .npz, or neither */

/* safetensors: F32, F64, F16 and BF16, rounded to float. NPZ: float32 and float64. On failure `out` is empty. */
int tensors_read(const char *path, tensor_file *out, char *error, size_t room);
/* The same in two steps: names, shapes and metadata, by which a caller may refuse the file, and then the numbers. A small NPZ file may
 * hold many. The caller frees `out` in any case. */
int tensors_read_shapes(const char *path, tensor_file *out, char *error, size_t room);
int tensors_read_numbers(const char *path, tensor_file *f, char *error, size_t room);
/* Always 32-bit floats; equal contents give equal files. */
int tensors_write(const char *path, const tensor_file *f, char *error, size_t room);
void tensors_free(tensor_file *f);

const tensor *tensors_find(const tensor_file *f, const char *name);  /* NULL: no such tensor */
const char *tensors_metadata(const tensor_file *f, const char *key); /* NULL: no such key */
int64_t tensor_count(const tensor *t);                               /* numbers; -1: more than a file may hold */

/* For writers: adds a tensor filled with zeros. NULL: no memory, or a shape that is not allowed. */
float *tensors_add(tensor_file *f, const char *name, int dims, const int64_t *shape);
int tensors_describe(tensor_file *f, const char *key, const char *value); /* -1: no memory */

#endif
