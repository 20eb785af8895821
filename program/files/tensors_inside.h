/* tensors_inside.h: what tensors.c and safetensors.c share. */
#ifndef SOSMC_FILES_TENSORS_INSIDE_H
#define SOSMC_FILES_TENSORS_INSIDE_H

#include <stdio.h>

#include "files.h"
#include "tensors.h"

extern const char tensors_metadata_name[]; /* __metadata__ */

int64_t tensors_shape_count(int dims, const int64_t *shape); /* as tensor_count */
/* What is wrong with the name of a tensor, NULL if nothing. */
const char *tensors_name_fault(const char *name);
/* Sentences; always -1. */
int tensors_bad_name(const char *path, const char *name, const char *fault, char *error, size_t room);
int tensors_too_many(const char *path, char *error, size_t room);

json_t *tensors_metadata_to_json(const tensor_file *f); /* NULL: no memory */
int tensors_metadata_from_json(const char *path, json_t *object, tensor_file *f, char *error, size_t room);
/* `what` is "header" or "metadata"; text[n] is 0. NULL: a sentence. */
json_t *tensors_parse_json(const char *path, const char *what, const char *text, size_t n, char *error, size_t room);

/* Bytes in front of the header: no file is shorter. The most bytes of a header or of metadata, as in the reference implementation. */
enum { SAFETENSORS_PREFIX = 8, MOST_HEADER = 100000000 };
/* From the beginning of a file of `size` bytes. */
int safetensors_read(FILE *file, const char *path, uint64_t size, tensor_file *out, char *error, size_t room);
int safetensors_write(const char *path, const tensor_file *f, char *error, size_t room);

#endif
