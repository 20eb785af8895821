/* tensors.c: named arrays of floats as safetensors or NPZ.
 *
 * Invariant: what comes out of the reader would be accepted by the writer, and the other way round; both pass through
 * check_file. Memory grows with the bytes that are in the file, never with what a header says. */
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

static const char metadata_name[] = "__metadata__";

/* ------------------------------------------------------------------------------------------------ contents */

static int64_t shape_count(int dims, const int64_t *shape)
{
    int64_t count = 1;
    if (dims < 0 || dims > TENSOR_DIMS) return -1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && count > TENSORS_NUMBERS / shape[i])) return -1;
        count *= shape[i];
    }
    return count;
}

int64_t tensor_count(const tensor *t) { return shape_count(t->dims, t->shape); }

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

float *tensors_add(tensor_file *f, const char *name, int dims, const int64_t *shape)
{
    int64_t count = shape_count(dims, shape);
    if (count < 0 || strlen(name) >= TENSOR_NAME) return NULL;
    tensor *more = realloc(f->tensor, ((size_t)f->count + 1) * sizeof *more);
    if (!more) return NULL;
    f->tensor = more;
    tensor *t = &more[f->count];
    *t = (tensor){.dims = dims, .data = calloc(count ? (size_t)count : 1, sizeof *t->data)};
    if (!t->data) return NULL;
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < dims; i++) t->shape[i] = shape[i];
    f->count++;
    return t->data;
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

static int is_utf8(const char *s)
{
    for (int n; (n = files_utf8(s)) > 0;) s += n;
    return *s == 0;
}

/* Names go into messages: control characters stay out. */
static int is_plain(const char *s)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) return 0;
    return is_utf8(s);
}

static const char *shown(const char *name) { return is_plain(name) ? name : "?"; }

/* What is wrong with the name of a tensor, NULL if nothing. */
static const char *name_fault(const char *name)
{
    _Static_assert(TENSOR_NAME == 200, "the message below says so");
    if (!*name) return "is empty";
    if (strlen(name) >= TENSOR_NAME) return "is longer than 199 bytes";
    if (!is_plain(name)) return "holds a control character or is not UTF-8";
    return strcmp(name, metadata_name) != 0 ? NULL : "is kept for the metadata";
}

static int bad_name(const char *path, const char *name, const char *fault, char *error, size_t room)
{
    return files_fail(error, room, "the name of a tensor in %s %s: '%.60s'", path, fault, shown(name));
}

static int check_tensor(const char *path, const tensor *t, char *error, size_t room)
{
    const char *fault = name_fault(t->name);
    if (fault) return bad_name(path, t->name, fault, error, room);
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

static int too_many(const char *path, char *error, size_t room)
{
    return files_fail(error, room,
                      "%s holds more than %d tensors or keys, or %d numbers, the most that are read or written", path,
                      TENSORS_MOST, TENSORS_NUMBERS);
}

static int check_metadata(const char *path, const tensor_file *f, char *error, size_t room)
{
    if (f->pairs > TENSORS_MOST) return too_many(path, error, room);
    for (int i = 0; i < f->pairs; i++) {
        const char *key = f->metadata[i].key, *value = f->metadata[i].value;
        if (!key || !value || !is_utf8(key) || !is_utf8(value))
            return files_fail(error, room, "the metadata of %s hold a text that is not UTF-8", path);
        if (tensors_metadata(f, key) != value)
            return files_fail(error, room, "the metadata of %s hold the key '%.60s' twice", path, shown(key));
    }
    return 0;
}

static int check_file(const char *path, const tensor_file *f, char *error, size_t room)
{
    int64_t total = 0;
    if (f->count > TENSORS_MOST) return too_many(path, error, room);
    for (int i = 0; i < f->count; i++) {
        const tensor *t = &f->tensor[i];
        if (check_tensor(path, t, error, room)) return -1;
        if (tensors_find(f, t->name) != t)
            return files_fail(error, room, "%s holds two tensors called '%s'", path, t->name);
        total += tensor_count(t);
    }
    if (total > TENSORS_NUMBERS) return too_many(path, error, room);
    return check_metadata(path, f, error, room);
}

/* ------------------------------------------------------------------------------------------------ JSON */

static json_t *metadata_to_json(const tensor_file *f)
{
    json_t *object = json_object();
    for (int i = 0; object && i < f->pairs; i++)
        if (json_object_set_new(object, f->metadata[i].key, json_string(f->metadata[i].value))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static int metadata_from_json(const char *path, json_t *object, tensor_file *f, char *error, size_t room)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return files_fail(error, room, "the metadata of %s are not an object", path);
    if (json_object_size(object) > TENSORS_MOST) return too_many(path, error, room);
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

/* `what` is "header" or "metadata"; text[n] is 0. */
static json_t *parse_json(const char *path, const char *what, const char *text, size_t n, char *error, size_t room)
{
    json_error_t why;
    if (strlen(text) != n || !is_utf8(text)) {
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

/* ---------------------------------------------------------------------------------------- safetensors: reading */

/*   length of the header, 8 bytes | {"NAME": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...} spaces |
 *   the numbers, tensor after tensor without gaps; offsets count from their beginning */
enum { PREFIX = 8, MOST_HEADER = 100000000 /* the limit of the reference implementation */, CHUNK = 1 << 16 };

typedef enum { DTYPE_F32 = 0, DTYPE_F64, DTYPE_F16, DTYPE_BF16, DTYPES } dtype;
static const struct {
    const char *name;
    int bytes;
} dtypes[DTYPES] = {
    [DTYPE_F32] = {"F32", 4}, [DTYPE_F64] = {"F64", 8}, [DTYPE_F16] = {"F16", 2}, [DTYPE_BF16] = {"BF16", 2}};

/* A tensor as the header describes it. */
typedef struct {
    const char *name;
    dtype type;
    int dims;
    int64_t shape[TENSOR_DIMS], count, begin, end;
} entry;

typedef struct {
    FILE *file;
    const char *path;
    int64_t data; /* bytes behind the header */
    entry *list;
    int entries;
} stream;

/* Half precision: sign, 5 bits of exponent, 10 of fraction. Every such number is a float. */
static float from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexpf((float)fraction, -24)
                                  : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits >> 15 ? -value : value;
}

/* The upper half of a float. */
static float from_bfloat(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return value;
}

/* `n` numbers of little-endian bytes; a double beyond the range of float becomes infinite and is refused later. */
static void convert(dtype type, const unsigned char *bytes, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        double wide;
        uint16_t half;
        switch (type) {
        case DTYPE_F64:
            memcpy(&wide, bytes + 8 * i, sizeof wide);
            out[i] = (float)wide;
            break;
        case DTYPE_F16:
        case DTYPE_BF16:
            memcpy(&half, bytes + 2 * i, sizeof half);
            out[i] = type == DTYPE_F16 ? from_half(half) : from_bfloat(half);
            break;
        default: memcpy(&out[i], bytes + 4 * i, sizeof *out);
        }
    }
}

static int read_bytes(const stream *s, void *out, size_t n, char *error, size_t room)
{
    errno = 0;
    if (fread(out, 1, n, s->file) == n) return 0;
    return files_cannot("read", s->path, ferror(s->file) ? errno : EIO, error, room);
}

static int read_at(const stream *s, uint64_t place, void *out, uint64_t n, char *error, size_t room)
{
    if (fseeko(s->file, (off_t)place, SEEK_SET)) return files_cannot("read", s->path, errno, error, room);
    return read_bytes(s, out, (size_t)n, error, room);
}

static int read_numbers(const stream *s, const entry *e, float *out, char *error, size_t room)
{
    unsigned char bytes[CHUNK];
    size_t width = (size_t)dtypes[e->type].bytes;
    for (size_t left = (size_t)e->count; left > 0;) {
        size_t n = left < CHUNK / width ? left : CHUNK / width;
        if (read_bytes(s, bytes, n * width, error, room)) return -1;
        convert(e->type, bytes, n, out);
        out += n;
        left -= n;
    }
    return 0;
}

static int entry_fault(const stream *s, const entry *e, const char *fault, char *error, size_t room)
{
    return files_fail(error, room, "%s is damaged: tensor '%s' %s", s->path, e->name, fault);
}

static int parse_type(const stream *s, const json_t *value, entry *e, char *error, size_t room)
{
    const char *word = json_string_value(value);
    if (!word) return entry_fault(s, e, "has no dtype", error, room);
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(word, dtypes[i].name)) {
            e->type = (dtype)i;
            return 0;
        }
    return files_fail(error, room, "tensor '%s' of %s has numbers of type %.20s; F32, F64, F16 and BF16 are read",
                      e->name, s->path, word);
}

static int parse_shape(const stream *s, const json_t *value, entry *e, char *error, size_t room)
{
    if (!json_is_array(value)) return entry_fault(s, e, "has no list as its shape", error, room);
    size_t dims = json_array_size(value);
    if (dims > TENSOR_DIMS)
        return files_fail(error, room, "tensor '%s' of %s has %zu dimensions; at most %d are read", e->name, s->path,
                          dims, TENSOR_DIMS);
    e->dims = (int)dims;
    for (int i = 0; i < e->dims; i++) {
        const json_t *n = json_array_get(value, (size_t)i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return entry_fault(s, e, "has a shape that is not made of whole numbers from 0 on", error, room);
        e->shape[i] = json_integer_value(n);
    }
    e->count = shape_count(e->dims, e->shape);
    return e->count < 0 ? too_many(s->path, error, room) : 0;
}

static int parse_offsets(const stream *s, const json_t *value, entry *e, char *error, size_t room)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return entry_fault(s, e, "has no two whole numbers as its data_offsets", error, room);
    e->begin = json_integer_value(begin);
    e->end = json_integer_value(end);
    if (e->begin < 0 || e->end < e->begin) return entry_fault(s, e, "ends before it begins", error, room);
    if (e->end > s->data)
        return files_fail(error, room,
                          "%s is damaged: tensor '%s' ends at byte %" PRId64 " of the numbers, of which %" PRId64
                          " bytes are there",
                          s->path, e->name, e->end, s->data);
    int64_t needed = e->count * dtypes[e->type].bytes;
    if (e->end - e->begin == needed) return 0;
    return files_fail(error, room, "%s is damaged: tensor '%s' needs %" PRId64 " bytes for its shape and has %" PRId64,
                      s->path, e->name, needed, e->end - e->begin);
}

static int parse_entry(const stream *s, const char *name, const json_t *value, entry *e, char *error, size_t room)
{
    const char *fault = name_fault(name);
    if (fault) return bad_name(s->path, name, fault, error, room);
    *e = (entry){.name = name};
    if (!json_is_object(value)) return entry_fault(s, e, "is not described by an object", error, room);
    if (parse_type(s, json_object_get(value, "dtype"), e, error, room)) return -1;
    if (parse_shape(s, json_object_get(value, "shape"), e, error, room)) return -1;
    return parse_offsets(s, json_object_get(value, "data_offsets"), e, error, room);
}

/* Empty tensors stand before what begins at the same byte. */
static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* One after the other, from the first byte to the last. */
static int check_places(const stream *s, char *error, size_t room)
{
    int64_t place = 0;
    for (int i = 0; i < s->entries; i++) {
        const entry *e = &s->list[i];
        if (e->begin < place)
            return files_fail(error, room, "%s is damaged: tensors '%s' and '%s' overlap", s->path, e[-1].name,
                              e->name);
        if (e->begin > place)
            return files_fail(error, room, "%s is damaged: %" PRId64 " bytes before tensor '%s' belong to no tensor",
                              s->path, e->begin - place, e->name);
        place = e->end;
    }
    if (place == s->data) return 0;
    return files_fail(error, room, "%s is damaged: its last %" PRId64 " bytes belong to no tensor", s->path,
                      s->data - place);
}

static int parse_header(stream *s, json_t *header, tensor_file *out, char *error, size_t room)
{
    const char *name;
    json_t *value;
    if (json_object_size(header) > TENSORS_MOST + 1) return too_many(s->path, error, room);
    s->list = calloc(json_object_size(header) + 1, sizeof *s->list);
    if (!s->list) return files_fail(error, room, "no memory to read %s", s->path);
    json_object_foreach(header, name, value)
    {
        if (!strcmp(name, metadata_name)) {
            if (metadata_from_json(s->path, value, out, error, room)) return -1;
        } else if (parse_entry(s, name, value, &s->list[s->entries++], error, room)) {
            return -1;
        }
    }
    qsort(s->list, (size_t)s->entries, sizeof *s->list, by_place);
    return check_places(s, error, room);
}

static int read_entries(const stream *s, tensor_file *out, char *error, size_t room)
{
    int64_t total = 0;
    for (int i = 0; i < s->entries; i++) total += s->list[i].count;
    if (total > TENSORS_NUMBERS) return too_many(s->path, error, room);
    for (int i = 0; i < s->entries; i++) {
        const entry *e = &s->list[i];
        float *data = tensors_add(out, e->name, e->dims, e->shape);
        if (!data) return files_fail(error, room, "no memory to read %s", s->path);
        if (read_numbers(s, e, data, error, room)) return -1;
    }
    return 0;
}

static uint64_t little_endian(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

/* The text in front of the numbers, NULL with a sentence. */
static char *read_header(stream *s, uint64_t size, size_t *n, char *error, size_t room)
{
    unsigned char prefix[PREFIX] = {0};
    if (read_bytes(s, prefix, PREFIX, error, room)) return NULL;
    uint64_t length = little_endian(prefix, PREFIX);
    if (length > MOST_HEADER || length > size - PREFIX || length < 2) {
        (void)files_fail(error, room,
                         "%s is neither NPZ nor safetensors, or damaged: as safetensors it has a header of %" PRIu64
                         " bytes, where from 2 to %" PRIu64 " are expected",
                         s->path, length, size - PREFIX < MOST_HEADER ? size - PREFIX : (uint64_t)MOST_HEADER);
        return NULL;
    }
    *n = (size_t)length;
    char *text = malloc(*n + 1);
    if (!text) {
        (void)files_fail(error, room, "no memory to read %s", s->path);
        return NULL;
    }
    s->data = (int64_t)(size - PREFIX - length);
    text[*n] = 0;
    if (!read_bytes(s, text, *n, error, room)) {
        if (*text == '{') return text;
        (void)files_fail(error, room, "%s is neither NPZ nor safetensors, or damaged: its header does not begin with {",
                         s->path);
    }
    free(text);
    return NULL;
}

static int read_safetensors(stream *s, uint64_t size, tensor_file *out, char *error, size_t room)
{
    size_t n = 0;
    char *text = read_header(s, size, &n, error, room);
    if (!text) return -1;
    json_t *header = parse_json(s->path, "header", text, n, error, room);
    free(text);
    if (!header) return -1;
    int status = parse_header(s, header, out, error, room);
    if (!status) status = read_entries(s, out, error, room);
    free(s->list);
    json_decref(header);
    return status;
}

/* ------------------------------------------------------------------------------------------------ NPZ: reading */

/* npz_read finds an array by its name; the names are in the list at the archive's end:
 *     { central header, 46 bytes | NAME.npy | extra | comment } per array, end record, 22 bytes | comment */
enum {
    ZIP_LOCAL = 0x04034b50,
    ZIP_CENTRAL = 0x02014b50,
    ZIP_END = 0x06054b50,
    ZIP_CENTRAL_BYTES = 46,
    ZIP_END_BYTES = 22
};

/* The name of an array without .npy; 1: the member is not an array; -1: a sentence. */
static int member_name(const char *path, const unsigned char *bytes, size_t n, char out[TENSOR_NAME], char *error,
                       size_t room)
{
    if (n < 4 || memcmp(bytes + n - 4, ".npy", 4) != 0) return 1;
    n -= 4;
    if (n >= TENSOR_NAME || memchr(bytes, 0, n))
        return bad_name(path, "", "is longer than 199 bytes or holds a zero byte", error, room);
    memcpy(out, bytes, n);
    out[n] = 0;
    const char *fault = strcmp(out, metadata_name) != 0 ? name_fault(out) : NULL;
    /* npz_read would not tell x.npy from x.npy.npy. */
    if (!fault && n >= 4 && !strcmp(out + n - 4, ".npy")) fault = "ends in .npy twice";
    return fault ? bad_name(path, out, fault, error, room) : 0;
}

static int take_member(const char *path, const char *name, tensor_file *out, char *error, size_t room)
{
    char member[TENSOR_NAME + 8];
    npy_array a;
    (void)snprintf(member, sizeof member, "%s.npy", name);
    if (npz_read(path, member, &a, error, room)) return -1;
    int64_t count = npy_count(&a);
    int status = -1;
    float *data = NULL;
    if (a.type != NPY_F32 && a.type != NPY_F64)
        (void)files_fail(error, room, "array '%s' of %s holds whole numbers; float32 and float64 are read", name, path);
    else if (count > TENSORS_NUMBERS)
        (void)too_many(path, error, room);
    else if (!(data = tensors_add(out, name, a.dims, a.shape)))
        (void)files_fail(error, room, "no memory to read %s", path);
    else
        status = 0;
    if (data) convert(a.type == NPY_F32 ? DTYPE_F32 : DTYPE_F64, a.data, (size_t)count, data);
    npy_free(&a);
    return status;
}

static int take_metadata(const char *path, tensor_file *out, char *error, size_t room)
{
    npy_array a;
    if (out->pairs > 0) return files_fail(error, room, "%s holds two arrays called '%s'", path, metadata_name);
    if (npz_read(path, "__metadata__.npy", &a, error, room)) return -1;
    int status = -1;
    size_t n = (size_t)npy_count(&a);
    char *text = NULL;
    if (a.type != NPY_U8 || a.dims != 1) {
        (void)files_fail(error, room, "'%s' of %s is not a row of uint8, the bytes of a JSON object", metadata_name,
                         path);
    } else if (!(text = calloc(n + 1, 1))) {
        (void)files_fail(error, room, "no memory to read %s", path);
    } else {
        memcpy(text, a.data, n);
        json_t *object = parse_json(path, "metadata", text, n, error, room);
        if (object) status = metadata_from_json(path, object, out, error, room);
        json_decref(object);
    }
    free(text);
    npy_free(&a);
    return status;
}

static int take_list(const char *path, const unsigned char *p, size_t n, tensor_file *out, char *error, size_t room)
{
    char name[TENSOR_NAME];
    int64_t total = 0;
    while (n >= ZIP_CENTRAL_BYTES && little_endian(p, 4) == ZIP_CENTRAL) {
        size_t length = (size_t)little_endian(p + 28, 2);
        size_t whole = ZIP_CENTRAL_BYTES + length + little_endian(p + 30, 2) + little_endian(p + 32, 2);
        if (whole > n) break;
        int other = member_name(path, p + ZIP_CENTRAL_BYTES, length, name, error, room);
        if (other < 0) return -1;
        p += whole;
        n -= whole;
        if (other) continue;
        if (!strcmp(name, metadata_name)) {
            if (take_metadata(path, out, error, room)) return -1;
            continue;
        }
        if (tensors_find(out, name)) return files_fail(error, room, "%s holds two arrays called '%s'", path, name);
        if (take_member(path, name, out, error, room)) return -1;
        total += tensor_count(&out->tensor[out->count - 1]);
        if (out->count > TENSORS_MOST || total > TENSORS_NUMBERS) return too_many(path, error, room);
    }
    return n == 0 ? 0 : files_fail(error, room, "%s is damaged: its list of arrays makes no sense", path);
}

/* The end record is the last thing in the file, but for a comment of at most 64 KiB. */
static const unsigned char *find_end(const unsigned char *tail, size_t n)
{
    for (size_t at = n - ZIP_END_BYTES + 1; at-- > 0;)
        if (little_endian(tail + at, 4) == ZIP_END && little_endian(tail + at + 20, 2) == n - ZIP_END_BYTES - at)
            return tail + at;
    return NULL;
}

static int read_npz(const stream *s, uint64_t size, tensor_file *out, char *error, size_t room)
{
    enum { TAIL = ZIP_END_BYTES + UINT16_MAX };
    unsigned char *list = NULL, *tail = NULL;
    uint64_t n = size < TAIL ? size : TAIL;
    int status = -1;
    if (size < ZIP_END_BYTES) return files_fail(error, room, "%s is damaged: it is no whole ZIP archive", s->path);
    tail = malloc(TAIL);
    if (!tail) return files_fail(error, room, "no memory to read %s", s->path);
    if (read_at(s, size - n, tail, n, error, room)) goto done;
    const unsigned char *end = find_end(tail, (size_t)n);
    uint64_t length = end ? little_endian(end + 12, 4) : 0, start = end ? little_endian(end + 16, 4) : 0;
    if (!end || (start != UINT32_MAX && start + length > size)) {
        (void)files_fail(error, room, "%s is damaged: it is no whole ZIP archive", s->path);
    } else if (start == UINT32_MAX || length == UINT32_MAX) {
        (void)files_fail(error, room, "%s is a ZIP64 archive; models are read from archives of less than 4 GiB",
                         s->path);
    } else if (!(list = malloc((size_t)length + 1))) {
        (void)files_fail(error, room, "no memory to read %s", s->path);
    } else if (!read_at(s, start, list, length, error, room)) {
        status = take_list(s->path, list, (size_t)length, out, error, room);
    }
done:
    free(list);
    free(tail);
    return status;
}

/* ------------------------------------------------------------------------------------------------ reading either */

int tensors_read(const char *path, tensor_file *out, char *error, size_t room)
{
    uint64_t size = 0;
    unsigned char first[PREFIX] = {0};
    stream s = {.path = path};
    *out = (tensor_file){0};
    s.file = files_open(path, &size, error, room);
    if (!s.file) return -1;
    int status;
    if (size < PREFIX) {
        status = files_fail(error, room, "%s is neither NPZ nor safetensors: it has only %d bytes", path, (int)size);
    } else {
        status = read_bytes(&s, first, PREFIX, error, room);
        rewind(s.file);
    }
    if (!status) {
        /* As the length of a header, two letters "PK" are harmless and all four bytes are 64 MiB. */
        uint64_t mark = little_endian(first, 4);
        status = mark == ZIP_LOCAL || mark == ZIP_END ? read_npz(&s, size, out, error, room)
                                                      : read_safetensors(&s, size, out, error, room);
    }
    (void)fclose(s.file);
    if (!status) status = check_file(path, out, error, room);
    if (status) tensors_free(out);
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

/* {"dtype": "F32", "shape": [...], "data_offsets": [place, behind it]} */
static json_t *entry_to_json(const tensor *t, int64_t place)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->dims; i++)
        if (json_array_append_new(shape, json_integer(t->shape[i]))) {
            json_decref(shape);
            return NULL;
        }
    json_int_t end = place + 4 * tensor_count(t);
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)place, end);
}

/* The header's text, NULL without memory. */
static char *header_text(const tensor_file *f)
{
    json_t *header = json_object();
    int64_t place = 0;
    int status = header ? 0 : -1;
    if (!status && f->pairs > 0) status = json_object_set_new(header, metadata_name, metadata_to_json(f));
    for (int i = 0; i < f->count && !status; i++) {
        status = json_object_set_new(header, f->tensor[i].name, entry_to_json(&f->tensor[i], place));
        place += 4 * tensor_count(&f->tensor[i]);
    }
    char *text = status ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static int write_safetensors(const char *path, const tensor_file *f, char *error, size_t room)
{
    atomic_file a;
    char *text = header_text(f);
    if (!text) return files_fail(error, room, "no memory to write %s", path);
    size_t n = strlen(text), whole = (n + 7) / 8 * 8; /* the numbers begin at a multiple of 8 */
    if (whole > MOST_HEADER) {
        free(text);
        return files_fail(error, room,
                          "the names and metadata of %s need a header of %zu bytes; at most %d are allowed", path,
                          whole, MOST_HEADER);
    }
    int status = atomic_open(&a, path, error, room);
    if (!status) {
        unsigned char length[PREFIX] = {0};
        for (int i = 0; i < PREFIX; i++) length[i] = (unsigned char)((uint64_t)whole >> (8 * i));
        atomic_put(&a, length, PREFIX);
        atomic_put(&a, text, n);
        atomic_put(&a, "       ", whole - n);
        for (int i = 0; i < f->count; i++)
            atomic_put(&a, f->tensor[i].data, (size_t)tensor_count(&f->tensor[i]) * sizeof(float));
        status = atomic_close(&a, error, room);
    }
    free(text);
    return status;
}

static int write_npz(const char *path, const tensor_file *f, char *error, size_t room)
{
    int count = f->count, status = -1;
    char *text = NULL;
    npz_member *member = calloc((size_t)count + 1, sizeof *member);
    json_t *metadata = metadata_to_json(f);
    if (metadata) text = json_dumps(metadata, JSON_COMPACT);
    json_decref(metadata);
    if (!member || !text) {
        (void)files_fail(error, room, "no memory to write %s", path);
        goto done;
    }
    for (int i = 0; i < count; i++) {
        const tensor *t = &f->tensor[i];
        if (ends_in(t->name, ".npy")) {
            (void)bad_name(path, t->name, "ends in .npy, which NPZ adds itself", error, room);
            goto done;
        }
        member[i].name = t->name;
        member[i].array = (npy_array){.type = NPY_F32, .dims = t->dims, .data = t->data};
        memcpy(member[i].array.shape, t->shape, sizeof t->shape);
    }
    if (f->pairs > 0)
        member[count++] = (npz_member){metadata_name,
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
    return kind == TENSORS_NPZ ? write_npz(path, f, error, room) : write_safetensors(path, f, error, room);
}
