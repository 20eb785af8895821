/* safetensors.c: tensors as the safetensors format has them.
 *
 *   length of the header, PREFIX bytes |
 *   {"NAME": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...} spaces |
 *   the numbers, tensor after tensor without gaps; offsets count from their beginning */
#include "tensors_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = SAFETENSORS_PREFIX, CHUNK = 1 << 16 };

/* ------------------------------------------------------------------------------------------------ reading */

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
    e->count = tensors_shape_count(e->dims, e->shape);
    return e->count < 0 ? tensors_too_many(s->path, error, room) : 0;
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
    const char *fault = tensors_name_fault(name);
    if (fault) return tensors_bad_name(s->path, name, fault, error, room);
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
    if (json_object_size(header) > TENSORS_MOST + 1) return tensors_too_many(s->path, error, room);
    s->list = calloc(json_object_size(header) + 1, sizeof *s->list);
    if (!s->list) return files_fail(error, room, "no memory to read %s", s->path);
    json_object_foreach(header, name, value)
    {
        if (!strcmp(name, tensors_metadata_name)) {
            if (tensors_metadata_from_json(s->path, value, out, error, room)) return -1;
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
    if (total > TENSORS_NUMBERS) return tensors_too_many(s->path, error, room);
    for (int i = 0; i < s->entries; i++) {
        const entry *e = &s->list[i];
        float *data = tensors_add(out, e->name, e->dims, e->shape);
        if (!data) return files_fail(error, room, "no memory to read %s", s->path);
        if (read_numbers(s, e, data, error, room)) return -1;
    }
    return 0;
}

/* The text in front of the numbers, NULL with a sentence. */
static char *read_header(stream *s, uint64_t size, size_t *n, char *error, size_t room)
{
    unsigned char prefix[PREFIX] = {0};
    if (read_bytes(s, prefix, PREFIX, error, room)) return NULL;
    uint64_t length = files_little_endian(prefix, PREFIX);
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

int safetensors_read(FILE *file, const char *path, uint64_t size, tensor_file *out, char *error, size_t room)
{
    size_t n = 0;
    stream s = {.file = file, .path = path};
    char *text = read_header(&s, size, &n, error, room);
    if (!text) return -1;
    json_t *header = tensors_parse_json(path, "header", text, n, error, room);
    free(text);
    if (!header) return -1;
    int status = parse_header(&s, header, out, error, room);
    if (!status) status = read_entries(&s, out, error, room);
    free(s.list);
    json_decref(header);
    return status;
}

/* ------------------------------------------------------------------------------------------------ writing */

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
    if (!status && f->pairs > 0)
        status = json_object_set_new(header, tensors_metadata_name, tensors_metadata_to_json(f));
    for (int i = 0; i < f->count && !status; i++) {
        status = json_object_set_new(header, f->tensor[i].name, entry_to_json(&f->tensor[i], place));
        place += 4 * tensor_count(&f->tensor[i]);
    }
    char *text = status ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

int safetensors_write(const char *path, const tensor_file *f, char *error, size_t room)
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
