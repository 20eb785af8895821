/* npy_inside.h: what files_npy.c and files_npz.c share: the bytes of an array, wherever they come from or go to. */
#ifndef SOSMC_FILES_NPY_INSIDE_H
#define SOSMC_FILES_NPY_INSIDE_H

#include <zlib.h>

#include "files.h"

enum { NPY_CHUNK = 65536, NPY_HEADER = 512 };

/* A file, or a member of an archive: `size` bytes, made of `left` bytes of the file. */
typedef struct {
    FILE *file;
    char name[FILES_PATH + 256]; /* for messages */
    uint64_t size, left;
    int deflated;
    uint32_t crc;
    z_stream z;
    unsigned char in[NPY_CHUNK];
} npy_source;

npy_source *npy_source_open(const char *path, char *error, size_t room); /* NULL: a sentence */
void npy_source_close(npy_source *s);
int npy_damaged(const npy_source *s, const char *why, char *error, size_t room); /* -1 */
/* Unless `whole` is set, the header alone is read. Nothing may follow the array. Its length is compared with the size of the source before memory is allocated for it. */
int npy_pull_array(npy_source *s, int whole, npy_array *out, char *error, size_t room);

int npy_check(const char *path, const npy_array *a, char *error, size_t room); /* can it be written? */
uint64_t npy_bytes(const npy_array *a);                                        /* of its elements */
size_t npy_header(const npy_array *a, char out[NPY_HEADER]); /* the bytes in front of them; their number */

#endif
