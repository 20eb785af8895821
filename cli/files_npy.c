/* files_npy.c: arrays in NumPy's formats, one to a file (NPY) or several in a ZIP archive (NPZ).
 *
 * Invariant of the readers: no length found in a file is believed before it has met the bytes that are really there. */
#include "files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "arrays are written as they stand in memory, which must be little-endian"
#endif

/*     \x93NUMPY 1 0 | length of the dictionary, 2 bytes | {'descr': ...} spaces newline | the elements in C order
 *     0             8                                   10                               a multiple of 64            */

static const struct {
    const char *descr;
    size_t bytes;
} npy_types[] = {[NPY_F64] = {"<f8", 8}, [NPY_F32] = {"<f4", 4}, [NPY_I64] = {"<i8", 8}, [NPY_U8] = {"|u1", 1}};
enum { NPY_TYPES = 4, NPY_PREFIX = 10, NPY_HEADER = 512 };
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

static uint64_t npy_bytes(const npy_array *a) { return (uint64_t)npy_count(a) * npy_types[a->type].bytes; }

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

/* The bytes in front of the elements; their number. */
static size_t npy_header(const npy_array *a, char out[NPY_HEADER])
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

static int check_array(const char *path, const npy_array *a, char *error, size_t room)
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
    if (check_array(path, a, error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_put(&f, header, npy_header(a, header));
    atomic_put(&f, a->data, (size_t)npy_bytes(a));
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- where an array's bytes come from */

/* A file, or a member of an archive: `size` bytes, made of `left` bytes of the file. */
enum { CHUNK = 65536 };
typedef struct {
    FILE *file;
    char name[FILES_PATH + 256]; /* for messages */
    uint64_t size, left;
    int deflated;
    uint32_t crc;
    z_stream z;
    unsigned char in[CHUNK];
} source;

static int damaged(const source *s, const char *why, char *error, size_t room)
{
    return files_fail(error, room, "%s is damaged: %s", s->name, why);
}

static int pull_stored(source *s, void *out, size_t n, char *error, size_t room)
{
    if (n > s->left) return damaged(s, "it ends early", error, room);
    if (fread(out, 1, n, s->file) != n)
        return files_cannot("read", s->name, ferror(s->file) ? errno : EIO, error, room);
    s->left -= n;
    return 0;
}

static int refill(source *s, char *error, size_t room)
{
    size_t n = s->left < CHUNK ? (size_t)s->left : CHUNK;
    if (n == 0) return damaged(s, "its compressed bytes end early", error, room);
    if (pull_stored(s, s->in, n, error, room)) return -1;
    s->z.next_in = s->in;
    s->z.avail_in = (uInt)n;
    return 0;
}

static int pull_deflated(source *s, void *out, size_t n, char *error, size_t room)
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
        if (code == Z_STREAM_END && n > 0) return damaged(s, "it unpacks to fewer bytes than it says", error, room);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return damaged(s, s->z.msg ? s->z.msg : "its compressed bytes make no sense", error, room);
    }
    return 0;
}

static int pull(source *s, void *out, size_t n, char *error, size_t room)
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

static const char *take_descr(const source *s, const char *p, npy_array *a, char *error, size_t room)
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

static const char *take_order(const source *s, const char *p, char *error, size_t room)
{
    if (!strncmp(p, "False", 5)) return p + 5;
    if (!strncmp(p, "True", 4))
        (void)files_fail(error, room, "%s is in Fortran order; save it through numpy.ascontiguousarray", s->name);
    else
        (void)damaged(s, "its header has no truth value for fortran_order", error, room);
    return NULL;
}

static const char *take_shape(const source *s, const char *p, npy_array *a, char *error, size_t room)
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
    (void)damaged(s, "its header has no proper shape", error, room);
    return NULL;
}

/* {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), } in any order of the keys. */
static int parse_header(const source *s, const char *p, npy_array *a, char *error, size_t room)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    p = skip_space(p);
    if (*p++ != '{') return damaged(s, "its header is no dictionary", error, room);
    for (p = skip_space(p); *p != '}'; p = skip_space(p)) {
        char word[32];
        p = take_string(p, word);
        int key = !p                               ? 0
                  : !strcmp(word, "descr")         ? DESCR
                  : !strcmp(word, "fortran_order") ? ORDER
                  : !strcmp(word, "shape")         ? SHAPE
                                                   : 0;
        if (!key || (seen & key) || *(p = skip_space(p)) != ':')
            return damaged(s, "its header makes no sense", error, room);
        seen |= key;
        p = skip_space(p + 1);
        p = key == DESCR   ? take_descr(s, p, a, error, room)
            : key == ORDER ? take_order(s, p, error, room)
                           : take_shape(s, p, a, error, room);
        if (!p) return -1;
        p = skip_space(p);
        if (*p == ',') p++;
    }
    if (seen != ALL || *skip_space(p + 1)) return damaged(s, "its header is incomplete", error, room);
    return 0;
}

static int pull_header(source *s, npy_array *a, size_t *used, char *error, size_t room)
{
    unsigned char prefix[NPY_PREFIX] = {0};
    if (s->size < NPY_PREFIX) return files_fail(error, room, "%s is too short to be an NPY file", s->name);
    if (pull(s, prefix, NPY_PREFIX, error, room)) return -1;
    if (memcmp(prefix, npy_magic, 6) != 0) return files_fail(error, room, "%s is not an NPY file", s->name);
    if (prefix[6] != 1 || prefix[7] != 0)
        return files_fail(error, room, "%s is an NPY file of version %d.%d; version 1.0 is read", s->name, prefix[6],
                          prefix[7]);
    size_t length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
    if (length > s->size - NPY_PREFIX) return damaged(s, "it ends inside its header", error, room);
    char *text = malloc(length + 1);
    if (!text) return files_fail(error, room, "no memory to read %s", s->name);
    int status = pull(s, text, length, error, room);
    text[length] = 0;
    if (!status && strlen(text) != length) status = damaged(s, "its header holds a zero byte", error, room);
    if (!status) status = parse_header(s, text, a, error, room);
    free(text);
    *used = NPY_PREFIX + length;
    return status;
}

/* The array must be all there is: its length decides the allocation only after it has met the size of the source. */
static int pull_array(source *s, npy_array *out, char *error, size_t room)
{
    npy_array a = {0};
    size_t used = 0;
    if (pull_header(s, &a, &used, error, room)) return -1;
    int64_t count = npy_count(&a);
    if (count < 0) return damaged(s, "its shape is impossible", error, room);
    uint64_t bytes = npy_bytes(&a);
    if (bytes != s->size - used)
        return files_fail(error, room,
                          "%s is damaged: its header promises %" PRIu64 " bytes of numbers, %" PRIu64 " are there",
                          s->name, bytes, s->size - used);
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

static source *source_open(const char *path, char *error, size_t room)
{
    source *s = calloc(1, sizeof *s);
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

static void source_close(source *s)
{
    if (s->deflated) (void)inflateEnd(&s->z);
    (void)fclose(s->file);
    free(s);
}

int npy_read(const char *path, npy_array *out, char *error, size_t room)
{
    *out = (npy_array){0};
    source *s = source_open(path, error, room);
    if (!s) return -1;
    int status = pull_array(s, out, error, room);
    source_close(s);
    return status;
}

/* ------------------------------------------------------------------------------------------------ NPZ: writing */

/*     { local header | NAME.npy | bytes }  per member
 *     { central header | NAME.npy }        per member
 *     [ end record of ZIP64 | its locator ] end record
 *
 * A wide archive (4 GiB and more) writes all ones into every 32-bit size and offset, and the true ones into ZIP64
 * fields; a narrow one has none of these, because some readers do not know them. */
enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR64_BYTES = 20,
    ZIP_DATE = 1 << 5 | 1, /* 1980-01-01 */
    ZIP_NAME = 256
};

typedef struct {
    unsigned char b[128];
    size_t n;
} record;

static void put(record *r, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) r->b[r->n++] = (unsigned char)(value >> (8 * i));
}

typedef struct {
    char name[ZIP_NAME];
    uint64_t offset, size, packed; /* of the local header; of the NPY bytes; as they stand in the archive */
    uint32_t crc;
} zip_entry;

typedef struct {
    atomic_file file;
    uint64_t offset;
    int wide, level;
} zip_writer;

static void zip_put(zip_writer *z, const void *bytes, size_t n)
{
    atomic_put(&z->file, bytes, n);
    z->offset += n;
}

/* What local and central headers share: versions, flags, method, date, checksum, sizes, length of the name. */
static void put_common(record *r, const zip_writer *z, const zip_entry *e)
{
    put(r, z->wide ? 45 : 20, 2);
    put(r, 0, 2);
    put(r, z->level ? 8 : 0, 2);
    put(r, 0, 2);
    put(r, ZIP_DATE, 2);
    put(r, e->crc, 4);
    put(r, z->wide ? UINT32_MAX : e->packed, 4);
    put(r, z->wide ? UINT32_MAX : e->size, 4);
    put(r, strlen(e->name), 2);
}

static void put_local(zip_writer *z, const zip_entry *e)
{
    record r = {.n = 0};
    put(&r, LOCAL, 4);
    put_common(&r, z, e);
    put(&r, z->wide ? 20 : 0, 2);
    zip_put(z, r.b, r.n);
    zip_put(z, e->name, strlen(e->name));
    if (!z->wide) return;
    r.n = 0;
    put(&r, 1, 2);
    put(&r, 16, 2);
    put(&r, e->size, 8);
    put(&r, e->packed, 8);
    zip_put(z, r.b, r.n);
}

static void put_central(zip_writer *z, const zip_entry *e)
{
    record r = {.n = 0};
    put(&r, CENTRAL, 4);
    put(&r, 3 << 8 | (z->wide ? 45 : 20), 2); /* made on Unix */
    put_common(&r, z, e);
    put(&r, z->wide ? 28 : 0, 2);
    put(&r, 0, 2 + 2 + 2);
    put(&r, (uint64_t)0100644 << 16, 4);
    put(&r, z->wide ? UINT32_MAX : e->offset, 4);
    zip_put(z, r.b, r.n);
    zip_put(z, e->name, strlen(e->name));
    if (!z->wide) return;
    r.n = 0;
    put(&r, 1, 2);
    put(&r, 24, 2);
    put(&r, e->size, 8);
    put(&r, e->packed, 8);
    put(&r, e->offset, 8);
    zip_put(z, r.b, r.n);
}

static void put_end(zip_writer *z, int members, uint64_t start)
{
    record r = {.n = 0};
    uint64_t size = z->offset - start, end = z->offset, n = (uint64_t)members;
    if (z->wide) {
        put(&r, END64, 4);
        put(&r, END64_BYTES - 12, 8);
        put(&r, 3 << 8 | 45, 2);
        put(&r, 45, 2);
        put(&r, 0, 8);
        put(&r, n, 8);
        put(&r, n, 8);
        put(&r, size, 8);
        put(&r, start, 8);
        put(&r, LOCATOR64, 4);
        put(&r, 0, 4);
        put(&r, end, 8);
        put(&r, 1, 4);
    }
    put(&r, END, 4);
    put(&r, 0, 4);
    put(&r, z->wide ? UINT16_MAX : n, 2);
    put(&r, z->wide ? UINT16_MAX : n, 2);
    put(&r, z->wide ? UINT32_MAX : size, 4);
    put(&r, z->wide ? UINT32_MAX : start, 4);
    put(&r, 0, 2);
    zip_put(z, r.b, r.n);
}

/* Packs the bytes into the archive; with Z_FINISH these are the last. */
static int deflate_bytes(zip_writer *zip, z_stream *z, const void *bytes, size_t n, int flush)
{
    unsigned char out[CHUNK];
    const unsigned char *p = bytes;
    do {
        uInt part = n < (1U << 30) ? (uInt)n : 1U << 30;
        z->next_in = (z_const Bytef *)p;
        z->avail_in = part;
        p += part;
        n -= part;
        do {
            z->next_out = out;
            z->avail_out = sizeof out;
            if (deflate(z, n == 0 ? flush : Z_NO_FLUSH) == Z_STREAM_ERROR) return -1;
            zip_put(zip, out, sizeof out - z->avail_out);
        } while (z->avail_out == 0);
    } while (n > 0);
    return 0;
}

static int put_deflated(zip_writer *zip, const char *header, size_t n, const npy_array *a)
{
    z_stream z = {0};
    if (deflateInit2(&z, zip->level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) return -1;
    int status = deflate_bytes(zip, &z, header, n, Z_NO_FLUSH);
    if (!status) status = deflate_bytes(zip, &z, a->data, (size_t)npy_bytes(a), Z_FINISH);
    (void)deflateEnd(&z);
    return status;
}

/* The header is written twice: the packed size is known only when everything is packed. */
static int put_member(zip_writer *zip, zip_entry *e, const npy_array *a)
{
    char header[NPY_HEADER];
    size_t n = npy_header(a, header);
    e->offset = zip->offset;
    e->size = n + npy_bytes(a);
    e->crc = (uint32_t)crc32_z(crc32_z(0, (const Bytef *)header, n), a->data ? a->data : (const void *)"",
                               (size_t)npy_bytes(a));
    put_local(zip, e);
    uint64_t start = zip->offset;
    if (zip->level) {
        if (put_deflated(zip, header, n, a)) return -1;
    } else {
        zip_put(zip, header, n);
        zip_put(zip, a->data, (size_t)npy_bytes(a));
    }
    uint64_t end = zip->offset;
    e->packed = end - start;
    if (fseeko(zip->file.stream, (off_t)e->offset, SEEK_SET)) return -1;
    put_local(zip, e);
    if (fseeko(zip->file.stream, (off_t)end, SEEK_SET)) return -1;
    zip->offset = end;
    return 0;
}

static int check_members(const char *path, const npz_member *member, int members, uint64_t *bytes, char *error,
                         size_t room)
{
    if (members < 0 || members >= UINT16_MAX) return files_fail(error, room, "cannot write %s: too many arrays", path);
    *bytes = 0;
    for (int i = 0; i < members; i++) {
        size_t n = member[i].name ? strlen(member[i].name) : 0;
        if (n == 0 || n + 5 > ZIP_NAME)
            return files_fail(error, room, "cannot write %s: an array's name is empty or too long", path);
        if (check_array(path, &member[i].array, error, room)) return -1;
        *bytes += npy_bytes(&member[i].array) + 2 * NPY_HEADER + 2 * ZIP_NAME; /* headers included, generously */
    }
    return 0;
}

int npz_write(const char *path, const npz_member *member, int members, int level, char *error, size_t room)
{
    zip_writer z = {.level = level & 15, .wide = (level & NPZ_WIDE) != 0};
    zip_entry *entry = NULL;
    uint64_t bytes = 0;
    int status = check_members(path, member, members, &bytes, error, room);
    if (status) return status;
    if (bytes + bytes / 1000 >= UINT32_MAX) z.wide = 1; /* deflation may add a little */
    entry = calloc((size_t)members + 1, sizeof *entry);
    if (!entry) return files_fail(error, room, "no memory to write %s", path);
    status = atomic_open(&z.file, path, error, room);
    if (status) goto done;
    for (int i = 0; i < members && !status; i++) {
        (void)snprintf(entry[i].name, ZIP_NAME, "%s.npy", member[i].name);
        errno = 0;
        status = put_member(&z, &entry[i], &member[i].array);
    }
    if (status) {
        (void)files_cannot("write", path, errno, error, room);
        atomic_abandon(&z.file);
        goto done;
    }
    uint64_t start = z.offset;
    for (int i = 0; i < members; i++) put_central(&z, &entry[i]);
    put_end(&z, members, start);
    status = atomic_close(&z.file, error, room);
done:
    free(entry);
    return status;
}

/* ------------------------------------------------------------------------------------------------ NPZ: reading */

static uint64_t get(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

static int read_at(source *s, uint64_t offset, void *out, uint64_t n, char *error, size_t room)
{
    if (offset > s->size || n > s->size - offset) return damaged(s, "it ends early", error, room);
    if (fseeko(s->file, (off_t)offset, SEEK_SET) || fread(out, 1, (size_t)n, s->file) != n)
        return files_cannot("read", s->name, ferror(s->file) ? errno : EIO, error, room);
    return 0;
}

/* Place of the end record among the last n bytes of the file; -1: none whose comment ends with the file. */
static int64_t search_end(const unsigned char *tail, int64_t n)
{
    for (int64_t at = n - END_BYTES; at >= 0; at--)
        if (get(tail + at, 4) == END && (int64_t)get(tail + at + 20, 2) == n - END_BYTES - at) return at;
    return -1;
}

/* The ZIP64 record that stands in for an end record at `end`. */
static int wide_end(source *s, uint64_t end, uint64_t *start, uint64_t *size, char *error, size_t room)
{
    unsigned char r[END64_BYTES] = {0};
    if (end < LOCATOR64_BYTES) return damaged(s, "its ZIP64 records are missing", error, room);
    if (read_at(s, end - LOCATOR64_BYTES, r, LOCATOR64_BYTES, error, room)) return -1;
    if (get(r, 4) != LOCATOR64) return damaged(s, "its ZIP64 records are missing", error, room);
    if (read_at(s, get(r + 8, 8), r, END64_BYTES, error, room)) return -1;
    if (get(r, 4) != END64) return damaged(s, "its ZIP64 records are missing", error, room);
    *size = get(r + 40, 8);
    *start = get(r + 48, 8);
    return 0;
}

/* Where the list of members stands. */
static int find_list(source *s, uint64_t *start, uint64_t *size, char *error, size_t room)
{
    enum { TAIL = END_BYTES + UINT16_MAX };
    uint64_t n = s->size < TAIL ? s->size : TAIL, end = 0;
    unsigned char *tail = calloc(1, TAIL);
    if (!tail) return files_fail(error, room, "no memory to read %s", s->name);
    int status = read_at(s, s->size - n, tail, n, error, room);
    int64_t at = status ? -1 : search_end(tail, (int64_t)n);
    if (at >= 0) {
        end = s->size - n + (uint64_t)at;
        *size = get(tail + at + 12, 4);
        *start = get(tail + at + 16, 4);
    } else if (!status) {
        status = files_fail(error, room, "%s is not an NPZ file", s->name);
    }
    free(tail);
    if (!status && *start == UINT32_MAX) status = wide_end(s, end, start, size, error, room);
    if (!status && (*start > s->size || *size > s->size - *start))
        status = damaged(s, "its list of arrays lies outside the file", error, room);
    return status;
}

/* ZIP64 fields stand in the order size, packed, offset; only those whose 32-bit form is all ones. */
static int get_wide(const unsigned char *extra, size_t n, zip_entry *e)
{
    uint64_t *field[] = {&e->size, &e->packed, &e->offset};
    while (n >= 4) {
        size_t length = (size_t)get(extra + 2, 2);
        if (length > n - 4) return -1;
        if (get(extra, 2) == 1) {
            const unsigned char *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX) continue;
                if ((size_t)(p - extra) + 8 > length + 4) return -1;
                *field[i] = get(p, 8);
                p += 8;
            }
        }
        extra += 4 + length;
        n -= 4 + length;
    }
    return 0;
}

static int names_match(const unsigned char *entry, size_t n, const char *name)
{
    size_t m = strlen(name);
    if (n < m || memcmp(entry, name, m) != 0) return 0;
    return n == m || (n == m + 4 && !memcmp(entry + m, ".npy", 4));
}

/* The member of that name in the central directory; `method` and `flags` as ZIP counts them. */
static int find_member(const source *s, const unsigned char *p, size_t n, const char *name, zip_entry *e, int *method,
                       int *flags, char *error, size_t room)
{
    while (n >= CENTRAL_BYTES && get(p, 4) == CENTRAL) {
        size_t length = (size_t)get(p + 28, 2), extra = (size_t)get(p + 30, 2), comment = (size_t)get(p + 32, 2);
        size_t whole = CENTRAL_BYTES + length + extra + comment;
        if (whole > n) break;
        if (names_match(p + CENTRAL_BYTES, length, name)) {
            *flags = (int)get(p + 8, 2);
            *method = (int)get(p + 10, 2);
            *e = (zip_entry){.crc = (uint32_t)get(p + 16, 4),
                             .packed = get(p + 20, 4),
                             .size = get(p + 24, 4),
                             .offset = get(p + 42, 4)};
            if (get_wide(p + CENTRAL_BYTES + length, extra, e)) break;
            return 0;
        }
        p += whole;
        n -= whole;
    }
    if (n > 0) return damaged(s, "its list of arrays makes no sense", error, room);
    return files_fail(error, room, "%s holds no array called '%s'", s->name, name);
}

/* Points the source at the member's bytes. Deflation shrinks by 1032 at most: a larger promise is a trap. */
static int enter_member(source *s, const zip_entry *e, int method, int flags, const char *name, char *error,
                        size_t room)
{
    unsigned char local[LOCAL_BYTES] = {0};
    if (flags & 1) return files_fail(error, room, "'%s' in %s is encrypted", name, s->name);
    if (method != 0 && method != 8)
        return files_fail(error, room, "'%s' in %s is packed by method %d; stored and deflated are read", name, s->name,
                          method);
    if (read_at(s, e->offset, local, LOCAL_BYTES, error, room)) return -1;
    uint64_t start = e->offset + LOCAL_BYTES + get(local + 26, 2) + get(local + 28, 2);
    if (get(local, 4) != LOCAL || start > s->size || e->packed > s->size - start ||
        (method == 0 && e->packed != e->size) || e->size / 1033 > e->packed)
        return damaged(s, "sizes and places of its arrays make no sense", error, room);
    if (fseeko(s->file, (off_t)start, SEEK_SET)) return files_cannot("read", s->name, errno, error, room);
    size_t n = strlen(s->name);
    (void)snprintf(s->name + n, sizeof s->name - n, ":%.200s", name);
    s->size = e->size;
    s->left = e->packed;
    s->crc = 0;
    if (method == 0) return 0;
    if (inflateInit2(&s->z, -MAX_WBITS) != Z_OK) return files_fail(error, room, "no memory to unpack %s", s->name);
    s->deflated = 1;
    return 0;
}

int npz_read(const char *path, const char *name, npy_array *out, char *error, size_t room)
{
    uint64_t start = 0, size = 0;
    unsigned char *list = NULL;
    zip_entry e = {.size = 0};
    int status = -1, method = 0, flags = 0;
    *out = (npy_array){0};
    source *s = source_open(path, error, room);
    if (!s) return -1;
    if (find_list(s, &start, &size, error, room)) goto done;
    list = malloc((size_t)size + 1);
    if (!list) {
        (void)files_fail(error, room, "no memory to read %s", path);
        goto done;
    }
    if (read_at(s, start, list, size, error, room)) goto done;
    if (find_member(s, list, (size_t)size, name, &e, &method, &flags, error, room)) goto done;
    if (enter_member(s, &e, method, flags, name, error, room)) goto done;
    if (pull_array(s, out, error, room)) goto done;
    status = s->crc == e.crc ? 0 : damaged(s, "its checksum does not match its bytes", error, room);
done:
    if (status) npy_free(out);
    free(list);
    source_close(s);
    return status;
}
