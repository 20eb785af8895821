/* files_npy.c: arrays in NumPy's format, one to a file.
 *
 * Invariant of the readers: a length found in a file is compared with the bytes that the file has before it is used. */
#include "npy_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "arrays are written as they stand in memory, which must be little-endian"
#endif

/*     \x93NUMPY 1 0 | length of the dictionary, 2 bytes | {'descr': ...} spaces newline | the elements in C order
 *     0             8                                   10                               a multiple of 64            */

static const struct {
    const char *descr;
    size_t bytes;
} npy_types[] = {[NPY_F64] = {"<f8", 8}, [NPY_F32] = {"<f4", 4}, [NPY_I64] = {"<i8", 8}, [NPY_U8] = {"|u1", 1}};
enum { NPY_TYPES = 4, NPY_PREFIX = 10 };
static const char npy_magic[8] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};

npy_array npy_vector(const double *data, int64_t n)
{
    return (npy_array){.type = NPY_F64, .dims = 1, .shape = {n}, .data = data};
}

npy_array npy_matrix(const double *data, int64_t rows, int64_t columns)
{
    return (npy_array){.type = NPY_F64, .dims = 2, .shape = {rows, columns}, .data = data};
}

int64_t npy_count(const npy_array *a)
{
    int64_t count = 1, limit = INT64_MAX / 8;
    if ((unsigned)a->type >= NPY_TYPES || a->dims < 0 || a->dims > NPY_DIMS) return -1;
    for (int i = 0; i < a->dims; i++) {
        int64_t n = a->shape[i];
        if (n < 0 || (n > 0 && count > limit / n)) return -1;
        count *= n;
    }
    return count;
}

uint64_t npy_bytes(const npy_array *a) { return (uint64_t)npy_count(a) * npy_types[a->type].bytes; }

void npy_doubles(const npy_array *a, double *out)
{
    int64_t n = npy_count(a);
    for (int64_t i = 0; i < n; i++) switch (a->type) {
        case NPY_F64: out[i] = ((const double *)a->data)[i]; break;
        case NPY_F32: out[i] = (double)((const float *)a->data)[i]; break;
        case NPY_I64: out[i] = (double)((const int64_t *)a->data)[i]; break;
        case NPY_U8: out[i] = (double)((const uint8_t *)a->data)[i]; break;
        }
}

void npy_free(npy_array *a)
{
    free(a->owned);
    *a = (npy_array){0};
}

size_t npy_header(const npy_array *a, char out[NPY_HEADER])
{
    char shape[NPY_DIMS * 24] = "";
    size_t n = 0;
    for (int i = 0; i < a->dims; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRId64, i ? ", " : "", a->shape[i]);
    int text = snprintf(out + NPY_PREFIX, NPY_HEADER - NPY_PREFIX,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", npy_types[a->type].descr, shape,
                        a->dims == 1 ? "," : "");
    size_t used = NPY_PREFIX + (size_t)text, total = (used + 1 + 63) / 64 * 64;
    memset(out + used, ' ', total - used);
    out[total - 1] = '\n';
    memcpy(out, npy_magic, sizeof npy_magic);
    out[8] = (char)((total - NPY_PREFIX) & 0xFF);
    out[9] = (char)((total - NPY_PREFIX) >> 8);
    return total;
}

int npy_check(const char *path, const npy_array *a, char *error, size_t room)
{
    int64_t count = npy_count(a);
    if (count < 0) return files_fail(error, room, "cannot write %s: the array's type or shape is impossible", path);
    if (count > 0 && !a->data) return files_fail(error, room, "cannot write %s: the array has no data", path);
    return 0;
}

int npy_write(const char *path, const npy_array *a, char *error, size_t room)
{
    atomic_file f;
    char header[NPY_HEADER];
    if (npy_check(path, a, error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_put(&f, header, npy_header(a, header));
    atomic_put(&f, a->data, (size_t)npy_bytes(a));
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- where an array's bytes come from */

int npy_damaged(const npy_source *s, const char *why, char *error, size_t room)
{
    return files_fail(error, room, "%s is damaged: %s", s->name, why);
}

static int pull_stored(npy_source *s, void *out, size_t n, char *error, size_t room)
{
    if (n > s->left) return npy_damaged(s, "it ends early", error, room);
    if (fread(out, 1, n, s->file) != n)
        return files_cannot("read", s->name, ferror(s->file) ? errno : EIO, error, room);
    s->left -= n;
    return 0;
}

static int refill(npy_source *s, char *error, size_t room)
{
    size_t n = s->left < NPY_CHUNK ? (size_t)s->left : NPY_CHUNK;
    if (n == 0) return npy_damaged(s, "its compressed bytes end early", error, room);
    if (pull_stored(s, s->in, n, error, room)) return -1;
    s->z.next_in = s->in;
    s->z.avail_in = (uInt)n;
    return 0;
}

static int pull_deflated(npy_source *s, void *out, size_t n, char *error, size_t room)
{
    for (unsigned char *p = out; n > 0;) {
        if (s->z.avail_in == 0 && refill(s, error, room)) return -1;
        uInt part = n < (1U << 30) ? (uInt)n : 1U << 30;
        s->z.next_out = p;
        s->z.avail_out = part;
        int code = inflate(&s->z, Z_NO_FLUSH);
        size_t made = part - s->z.avail_out;
        p += made;
        n -= made;
        if (code == Z_STREAM_END && n > 0) return npy_damaged(s, "it unpacks to fewer bytes than it says", error, room);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return npy_damaged(s, s->z.msg ? s->z.msg : "its compressed bytes make no sense", error, room);
    }
    return 0;
}

static int pull(npy_source *s, void *out, size_t n, char *error, size_t room)
{
    int status = s->deflated ? pull_deflated(s, out, n, error, room) : pull_stored(s, out, n, error, room);
    if (!status) s->crc = (uint32_t)crc32_z(s->crc, out, n);
    return status;
}

/* ---------------------------------------------------------------------------- the dictionary */

static const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\t') p++;
    return p;
}

/* A Python string without escapes; NULL when there is none or it does not fit. */
static const char *take_string(const char *p, char out[32])
{
    char quote = *p;
    size_t n = 0;
    if (quote != '\'' && quote != '"') return NULL;
    for (p++; *p && *p != quote; p++) {
        if (*p == '\\' || n + 1 >= 32) return NULL;
        out[n++] = *p;
    }
    out[n] = 0;
    return *p ? p + 1 : NULL;
}

static const char *take_descr(const npy_source *s, const char *p, npy_array *a, char *error, size_t room)
{
    char descr[32];
    const char *end = take_string(p, descr);
    if (!end) {
        (void)files_fail(error, room, "%s holds records; plain float64, float32, int64 or uint8 are read", s->name);
        return NULL;
    }
    for (int i = 0; i < NPY_TYPES; i++)
        if (!strcmp(descr, npy_types[i].descr)) {
            a->type = (npy_type)i;
            return end;
        }
    if (descr[0] == '>')
        (void)files_fail(error, room, "%s holds big-endian numbers ('%s'); convert them with astype", s->name, descr);
    else if (strchr(descr, 'O'))
        (void)files_fail(error, room, "%s holds pickled Python objects, which are never read", s->name);
    else
        (void)files_fail(error, room, "%s holds elements of type '%s'; float64, float32, int64 and uint8 are read",
                         s->name, descr);
    return NULL;
}

static const char *take_order(const npy_source *s, const char *p, char *error, size_t room)
{
    if (!strncmp(p, "False", 5)) return p + 5;
    if (!strncmp(p, "True", 4))
        (void)files_fail(error, room, "%s is in Fortran order; save it through numpy.ascontiguousarray", s->name);
    else
        (void)npy_damaged(s, "its header has no truth value for fortran_order", error, room);
    return NULL;
}

static const char *take_shape(const npy_source *s, const char *p, npy_array *a, char *error, size_t room)
{
    a->dims = 0;
    if (*p++ != '(') goto bad;
    for (p = skip_space(p); *p != ')'; p = skip_space(p)) {
        if (*p < '0' || *p > '9') goto bad;
        if (a->dims == NPY_DIMS) {
            (void)files_fail(error, room, "%s has more than %d dimensions", s->name, NPY_DIMS);
            return NULL;
        }
        char *end;
        errno = 0;
        long long n = strtoll(p, &end, 10);
        if (errno) goto bad;
        a->shape[a->dims++] = n;
        p = skip_space(end);
        if (*p == ',')
            p++;
        else if (*p != ')')
            goto bad;
    }
    return p + 1;
bad:
    (void)npy_damaged(s, "its header has no proper shape", error, room);
    return NULL;
}

/* {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), } in any order of the keys. */
static int parse_header(const npy_source *s, const char *p, npy_array *a, char *error, size_t room)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    p = skip_space(p);
    if (*p++ != '{') return npy_damaged(s, "its header is no dictionary", error, room);
    for (p = skip_space(p); *p != '}'; p = skip_space(p)) {
        char word[32];
        p = take_string(p, word);
        int key = !p                               ? 0
                  : !strcmp(word, "descr")         ? DESCR
                  : !strcmp(word, "fortran_order") ? ORDER
                  : !strcmp(word, "shape")         ? SHAPE
                                                   : 0;
        if (!key || (seen & key) || *(p = skip_space(p)) != ':')
            return npy_damaged(s, "its header makes no sense", error, room);
        seen |= key;
        p = skip_space(p + 1);
        p = key == DESCR   ? take_descr(s, p, a, error, room)
            : key == ORDER ? take_order(s, p, error, room)
                           : take_shape(s, p, a, error, room);
        if (!p) return -1;
        p = skip_space(p);
        if (*p == ',') p++;
    }
    if (seen != ALL || *skip_space(p + 1)) return npy_damaged(s, "its header is incomplete", error, room);
    return 0;
}

static int pull_header(npy_source *s, npy_array *a, size_t *used, char *error, size_t room)
{
    unsigned char prefix[NPY_PREFIX] = {0};
    if (s->size < NPY_PREFIX) return files_fail(error, room, "%s is too short to be an NPY file", s->name);
    if (pull(s, prefix, NPY_PREFIX, error, room)) return -1;
    if (memcmp(prefix, npy_magic, 6) != 0) return files_fail(error, room, "%s is not an NPY file", s->name);
    if (prefix[6] != 1 || prefix[7] != 0)
        return files_fail(error, room, "%s is an NPY file of version %d.%d; version 1.0 is read", s->name, prefix[6],
                          prefix[7]);
    size_t length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
    if (length > s->size - NPY_PREFIX) return npy_damaged(s, "it ends inside its header", error, room);
    char *text = malloc(length + 1);
    if (!text) return files_fail(error, room, "no memory to read %s", s->name);
    int status = pull(s, text, length, error, room);
    text[length] = 0;
    if (!status && strlen(text) != length) status = npy_damaged(s, "its header holds a zero byte", error, room);
    if (!status) status = parse_header(s, text, a, error, room);
    free(text);
    *used = NPY_PREFIX + length;
    return status;
}

int npy_pull_array(npy_source *s, int whole, npy_array *out, char *error, size_t room)
{
    npy_array a = {0};
    size_t used = 0;
    if (pull_header(s, &a, &used, error, room)) return -1;
    int64_t count = npy_count(&a);
    if (count < 0) return npy_damaged(s, "its shape is impossible", error, room);
    uint64_t bytes = npy_bytes(&a);
    if (bytes != s->size - used)
        return files_fail(error, room,
                          "%s is damaged: its header promises %" PRIu64 " bytes of numbers, %" PRIu64 " are there",
                          s->name, bytes, s->size - used);
    *out = a;
    if (!whole) return 0;
    a.owned = malloc(bytes ? (size_t)bytes : 1);
    if (!a.owned) return files_fail(error, room, "no memory for the %" PRIu64 " bytes of %s", bytes, s->name);
    if (pull(s, a.owned, (size_t)bytes, error, room)) {
        npy_free(&a);
        return -1;
    }
    a.data = a.owned;
    *out = a;
    return 0;
}

npy_source *npy_source_open(const char *path, char *error, size_t room)
{
    npy_source *s = calloc(1, sizeof *s);
    if (!s) {
        (void)files_fail(error, room, "no memory to read %s", path);
        return NULL;
    }
    (void)snprintf(s->name, sizeof s->name, "%s", path);
    s->file = files_open(path, &s->size, error, room);
    s->left = s->size;
    if (s->file) return s;
    free(s);
    return NULL;
}

void npy_source_close(npy_source *s)
{
    if (s->deflated) (void)inflateEnd(&s->z);
    (void)fclose(s->file);
    free(s);
}

int npy_read(const char *path, npy_array *out, char *error, size_t room)
{
    *out = (npy_array){0};
    npy_source *s = npy_source_open(path, error, room);
    if (!s) return -1;
    int status = npy_pull_array(s, 1, out, error, room);
    npy_source_close(s);
    return status;
}
