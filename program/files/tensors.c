/* tensors.c: named arrays of floats as safetensors or NPZ.
 *
 * Invariant: what comes out of the reader would be accepted by the writer, and the other way round; both pass through
 * check_file. Memory grows with the bytes that are in the file, never with what a header says. */
#include "tensors_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char tensors_metadata_name[] = "__metadata__";

/* ------------------------------------------------------------------------------------------------ contents */

int64_t tensors_shape_count(int dims, const int64_t *shape)
{
    int64_t count = 1;
    if (dims < 0 || dims > TENSOR_DIMS) return -1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && count > TENSORS_NUMBERS / shape[i])) return -1;
        count *= shape[i];
    }
    return count;
}

int64_t tensor_count(const tensor *t) { return tensors_shape_count(t->dims, t->shape); }

const tensor *tensors_find(const tensor_file *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->tensor[i].name, name)) return &f->tensor[i];
    return NULL;
}

const char *tensors_metadata(const tensor_file *f, const char *key)
{
    for (int i = 0; i < f->pairs; i++)
        if (!strcmp(f->metadata[i].key, key)) return f->metadata[i].value;
    return NULL;
}

void tensors_free(tensor_file *f)
{
    for (int i = 0; i < f->count; i++) free(f->tensor[i].data);
    for (int i = 0; i < f->pairs; i++) {
        free(f->metadata[i].key);
        free(f->metadata[i].value);
    }
    free(f->tensor);
    free(f->metadata);
    *f = (tensor_file){0};
}

/* A tensor without its numbers. */
static tensor *add_shape(tensor_file *f, const char *name, int dims, const int64_t *shape)
{
    if (tensors_shape_count(dims, shape) < 0 || strlen(name) >= TENSOR_NAME) return NULL;
    tensor *more = realloc(f->tensor, ((size_t)f->count + 1) * sizeof *more);
    if (!more) return NULL;
    f->tensor = more;
    tensor *t = &more[f->count++];
    *t = (tensor){.dims = dims};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < dims; i++) t->shape[i] = shape[i];
    return t;
}

static float *give_data(tensor *t) { return t->data = calloc((size_t)tensor_count(t) + 1, sizeof *t->data); }

float *tensors_add(tensor_file *f, const char *name, int dims, const int64_t *shape)
{
    tensor *t = add_shape(f, name, dims, shape);
    return t ? give_data(t) : NULL;
}

int tensors_describe(tensor_file *f, const char *key, const char *value)
{
    tensor_pair *more = realloc(f->metadata, ((size_t)f->pairs + 1) * sizeof *more);
    if (!more) return -1;
    f->metadata = more;
    tensor_pair *p = &more[f->pairs];
    *p = (tensor_pair){.key = strdup(key), .value = strdup(value)};
    if (p->key && p->value) {
        f->pairs++;
        return 0;
    }
    free(p->key);
    free(p->value);
    return -1;
}

/* ------------------------------------------------------------------------------------------------ checks */

/* Names go into messages: control characters stay out. */
static int is_plain(const char *s)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) return 0;
    return files_is_utf8(s);
}

static const char *shown(const char *name) { return is_plain(name) ? name : "?"; }

const char *tensors_name_fault(const char *name)
{
    _Static_assert(TENSOR_NAME == 200, "the message below says so");
    if (!*name) return "is empty";
    if (strlen(name) >= TENSOR_NAME) return "is longer than 199 bytes";
    if (!is_plain(name)) return "holds a control character or is not UTF-8";
    return strcmp(name, tensors_metadata_name) != 0 ? NULL : "is kept for the metadata";
}

int tensors_bad_name(const char *path, const char *name, const char *fault, char *error, size_t room)
{
    return files_fail(error, room, "the name of a tensor in %s %s: '%.60s'", path, fault, shown(name));
}

static int check_tensor(const char *path, const tensor *t, char *error, size_t room)
{
    const char *fault = tensors_name_fault(t->name);
    if (fault) return tensors_bad_name(path, t->name, fault, error, room);
    int64_t count = tensor_count(t);
    if (count < 0) return files_fail(error, room, "tensor '%s' of %s has an impossible shape", t->name, path);
    if (count > 0 && !t->data) return files_fail(error, room, "tensor '%s' of %s has no data", t->name, path);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(t->data[i]))
            return files_fail(error, room,
                              "tensor '%s' of %s holds %g as number %" PRId64 " of %" PRId64
                              "; finite 32-bit floats are expected",
                              t->name, path, (double)t->data[i], i + 1, count);
    return 0;
}

int tensors_too_many(const char *path, char *error, size_t room)
{
    return files_fail(error, room,
                      "%s holds more than %d tensors or keys, or %d numbers, the most that are read or written", path,
                      TENSORS_MOST, TENSORS_NUMBERS);
}

static int check_metadata(const char *path, const tensor_file *f, char *error, size_t room)
{
    if (f->pairs > TENSORS_MOST) return tensors_too_many(path, error, room);
    for (int i = 0; i < f->pairs; i++) {
        const char *key = f->metadata[i].key, *value = f->metadata[i].value;
        if (!key || !value || !files_is_utf8(key) || !files_is_utf8(value))
            return files_fail(error, room, "the metadata of %s hold a text that is not UTF-8", path);
        if (tensors_metadata(f, key) != value)
            return files_fail(error, room, "the metadata of %s hold the key '%.60s' twice", path, shown(key));
    }
    return 0;
}

static int check_file(const char *path, const tensor_file *f, char *error, size_t room)
{
    int64_t total = 0;
    if (f->count > TENSORS_MOST) return tensors_too_many(path, error, room);
    for (int i = 0; i < f->count; i++) {
        const tensor *t = &f->tensor[i];
        if (check_tensor(path, t, error, room)) return -1;
        if (tensors_find(f, t->name) != t)
            return files_fail(error, room, "%s holds two tensors called '%s'", path, t->name);
        total += tensor_count(t);
    }
    if (total > TENSORS_NUMBERS) return tensors_too_many(path, error, room);
    return check_metadata(path, f, error, room);
}

/* ------------------------------------------------------------------------------------------------ JSON */

json_t *tensors_metadata_to_json(const tensor_file *f)
{
    json_t *object = json_object();
    for (int i = 0; object && i < f->pairs; i++)
        if (json_object_set_new(object, f->metadata[i].key, json_string(f->metadata[i].value))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

int tensors_metadata_from_json(const char *path, json_t *object, tensor_file *f, char *error, size_t room)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return files_fail(error, room, "the metadata of %s are not an object", path);
    if (json_object_size(object) > TENSORS_MOST) return tensors_too_many(path, error, room);
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return files_fail(error, room, "the metadata of %s hold something other than a text as '%.60s'", path,
                              shown(key));
        if (tensors_describe(f, key, json_string_value(value)))
            return files_fail(error, room, "no memory to read %s", path);
    }
    return 0;
}

json_t *tensors_parse_json(const char *path, const char *what, const char *text, size_t n, char *error, size_t room)
{
    json_error_t why;
    if (strlen(text) != n || !files_is_utf8(text)) {
        (void)files_fail(error, room, "%s is damaged: its %s is not UTF-8 text", path, what);
        return NULL;
    }
    json_t *out = json_parse(text, n, &why);
    if (out) return out;
    if (errno == ENOMEM)
        (void)files_fail(error, room, "no memory for the %s of %s", what, path);
    else if (json_error_code(&why) == json_error_duplicate_key)
        (void)files_fail(error, room, "%s is damaged: its %s holds a name twice: %s", path, what, why.text);
    else
        (void)files_fail(error, room, "%s is damaged: its %s is not JSON: %s", path, what, why.text);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ NPZ: reading */

/* The name of an array without .npy; 1: the member is not an array; -1: a sentence. */
static int member_name(const char *path, const char *bytes, size_t n, char out[TENSOR_NAME], char *error, size_t room)
{
    if (n < 4 || memcmp(bytes + n - 4, ".npy", 4) != 0) return 1;
    n -= 4;
    if (n >= TENSOR_NAME || memchr(bytes, 0, n))
        return tensors_bad_name(path, "", "is longer than 199 bytes or holds a zero byte", error, room);
    memcpy(out, bytes, n);
    out[n] = 0;
    const char *fault = strcmp(out, tensors_metadata_name) != 0 ? tensors_name_fault(out) : NULL;
    /* npz_read would not tell x.npy from x.npy.npy. */
    if (!fault && n >= 4 && !strcmp(out + n - 4, ".npy")) fault = "ends in .npy twice";
    return fault ? tensors_bad_name(path, out, fault, error, room) : 0;
}

/* The shape of a tensor that is added to `out`, or, where `t` is one of those, its numbers. */
static int take_member(const char *path, const char *name, tensor *t, tensor_file *out, char *error, size_t room)
{
    char member[TENSOR_NAME + 8];
    npy_array a;
    (void)snprintf(member, sizeof member, "%s.npy", name);
    if (npz_read_part(path, member, t != NULL, &a, error, room)) return -1;
    int64_t count = npy_count(&a);
    int status = -1;
    if (a.type != NPY_F32 && a.type != NPY_F64)
        (void)files_fail(error, room, "array '%s' of %s holds whole numbers; float32 and float64 are read", name, path);
    else if (count > TENSORS_NUMBERS)
        (void)tensors_too_many(path, error, room);
    else if (t ? count != tensor_count(t) || !give_data(t) : !add_shape(out, name, a.dims, a.shape))
        (void)files_fail(error, room, "no memory to read %s", path);
    else
        status = 0;
    for (int64_t i = 0; t && t->data && i < count; i++)
        t->data[i] = a.type == NPY_F32 ? ((const float *)a.data)[i] : (float)((const double *)a.data)[i];
    npy_free(&a);
    return status;
}

static int take_metadata(const char *path, tensor_file *out, char *error, size_t room)
{
    npy_array a;
    if (out->pairs > 0) return files_fail(error, room, "%s holds two arrays called '%s'", path, tensors_metadata_name);
    if (npz_read_part(path, "__metadata__.npy", 0, &a, error, room)) return -1;
    if (a.type != NPY_U8 || a.dims != 1 || a.shape[0] > MOST_HEADER)
        return files_fail(error, room, "'%s' of %s is not a row of uint8, at most %d bytes of a JSON object",
                          tensors_metadata_name, path, MOST_HEADER);
    if (npz_read(path, "__metadata__.npy", &a, error, room)) return -1;
    int status = -1;
    size_t n = (size_t)npy_count(&a);
    char *text = calloc(n + 1, 1);
    if (!text) {
        (void)files_fail(error, room, "no memory to read %s", path);
    } else {
        memcpy(text, a.data, n);
        json_t *object = tensors_parse_json(path, "metadata", text, n, error, room);
        if (object) status = tensors_metadata_from_json(path, object, out, error, room);
        json_decref(object);
    }
    free(text);
    npy_free(&a);
    return status;
}

typedef struct {
    const char *path;
    tensor_file *out;
    int64_t numbers;
} archive;

static int visit_member(void *context, const char *bytes, size_t n, char *error, size_t room)
{
    archive *z = context;
    char name[TENSOR_NAME];
    int other = member_name(z->path, bytes, n, name, error, room);
    if (other) return other < 0 ? -1 : 0;
    if (!strcmp(name, tensors_metadata_name)) return take_metadata(z->path, z->out, error, room);
    if (tensors_find(z->out, name)) return files_fail(error, room, "%s holds two arrays called '%s'", z->path, name);
    if (take_member(z->path, name, NULL, z->out, error, room)) return -1;
    z->numbers += tensor_count(&z->out->tensor[z->out->count - 1]);
    if (z->out->count > TENSORS_MOST || z->numbers > TENSORS_NUMBERS) return tensors_too_many(z->path, error, room);
    return 0;
}

static int read_npz(const char *path, tensor_file *out, char *error, size_t room)
{
    archive z = {.path = path, .out = out};
    return npz_list(path, visit_member, &z, error, room);
}

/* ------------------------------------------------------------------------------------------------ reading either */

/* 1: an archive; 0: something else; -1: a sentence. As the length of a safetensors header, two letters "PK" are harmless
 * and all four bytes are 64 MiB. */
static int is_archive(FILE *file, const char *path, char *error, size_t room)
{
    enum { ZIP_LOCAL = 0x04034b50, ZIP_END = 0x06054b50 };
    unsigned char first[4] = {0};
    errno = 0;
    if (fread(first, 1, sizeof first, file) != sizeof first)
        return files_cannot("read", path, ferror(file) ? errno : EIO, error, room);
    rewind(file);
    uint64_t mark = files_little_endian(first, sizeof first);
    return mark == ZIP_LOCAL || mark == ZIP_END;
}

int tensors_read(const char *path, tensor_file *out, char *error, size_t room)
{
    int status = tensors_read_shapes(path, out, error, room) || tensors_read_numbers(path, out, error, room) ? -1 : 0;
    if (status) tensors_free(out);
    return status;
}

int tensors_read_numbers(const char *path, tensor_file *f, char *error, size_t room)
{
    for (int i = 0; i < f->count; i++)
        if (!f->tensor[i].data && take_member(path, f->tensor[i].name, &f->tensor[i], f, error, room)) return -1;
    return check_file(path, f, error, room);
}

int tensors_read_shapes(const char *path, tensor_file *out, char *error, size_t room)
{
    uint64_t size = 0;
    int status = -1, archive;
    *out = (tensor_file){0};
    FILE *file = files_open(path, &size, error, room);
    if (!file) return -1;
    if (size < SAFETENSORS_PREFIX)
        (void)files_fail(error, room, "%s is neither NPZ nor safetensors: it has only %d bytes", path, (int)size);
    else if ((archive = is_archive(file, path, error, room)) >= 0)
        status = archive ? read_npz(path, out, error, room) : safetensors_read(file, path, size, out, error, room);
    (void)fclose(file);
    return status;
}

/* ------------------------------------------------------------------------------------------------ writing */

static int ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

tensors_kind tensors_ending(const char *path)
{
    return ends_in(path, ".safetensors") ? TENSORS_SAFETENSORS : ends_in(path, ".npz") ? TENSORS_NPZ : TENSORS_UNKNOWN;
}

static int write_npz(const char *path, const tensor_file *f, char *error, size_t room)
{
    int count = f->count, status = -1;
    char *text = NULL;
    npz_member *member = calloc((size_t)count + 1, sizeof *member);
    json_t *metadata = tensors_metadata_to_json(f);
    if (metadata) text = json_dumps(metadata, JSON_COMPACT);
    json_decref(metadata);
    if (!member || !text) {
        (void)files_fail(error, room, "no memory to write %s", path);
        goto done;
    }
    for (int i = 0; i < count; i++) {
        const tensor *t = &f->tensor[i];
        if (ends_in(t->name, ".npy")) {
            (void)tensors_bad_name(path, t->name, "ends in .npy, which NPZ adds itself", error, room);
            goto done;
        }
        member[i].name = t->name;
        member[i].array = (npy_array){.type = NPY_F32, .dims = t->dims, .data = t->data};
        memcpy(member[i].array.shape, t->shape, sizeof t->shape);
    }
    if (f->pairs > 0)
        member[count++] = (npz_member){tensors_metadata_name,
                                       {.type = NPY_U8, .dims = 1, .shape = {(int64_t)strlen(text)}, .data = text}};
    status = npz_write(path, member, count, 0, error, room);
done:
    free(member);
    free(text);
    return status;
}

int tensors_write(const char *path, const tensor_file *f, char *error, size_t room)
{
    tensors_kind kind = tensors_ending(path);
    if (kind == TENSORS_UNKNOWN)
        return files_fail(error, room, "cannot write %s: its name must end in .safetensors or .npz", path);
    if (check_file(path, f, error, room)) return -1;
    return kind == TENSORS_NPZ ? write_npz(path, f, error, room) : safetensors_write(path, f, error, room);
}
