/* files_npz.c: arrays in NumPy's format, several in a ZIP archive.
 *
 * Invariant of the readers: a length found in a file is compared with the bytes that the file has before it is used. */
#include "npy_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    unsigned char out[NPY_CHUNK];
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
        if (npy_check(path, &member[i].array, error, room)) return -1;
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

static int read_at(npy_source *s, uint64_t offset, void *out, uint64_t n, char *error, size_t room)
{
    if (offset > s->size || n > s->size - offset) return npy_damaged(s, "it ends early", error, room);
    if (fseeko(s->file, (off_t)offset, SEEK_SET) || fread(out, 1, (size_t)n, s->file) != n)
        return files_cannot("read", s->name, ferror(s->file) ? errno : EIO, error, room);
    return 0;
}

/* Place of the end record among the last n bytes of the file; -1: none whose comment ends with the file. */
static int64_t search_end(const unsigned char *tail, int64_t n)
{
    for (int64_t at = n - END_BYTES; at >= 0; at--)
        if (files_little_endian(tail + at, 4) == END &&
            (int64_t)files_little_endian(tail + at + 20, 2) == n - END_BYTES - at)
            return at;
    return -1;
}

/* The ZIP64 record that stands in for an end record at `end`. */
static int wide_end(npy_source *s, uint64_t end, uint64_t *start, uint64_t *size, char *error, size_t room)
{
    unsigned char r[END64_BYTES] = {0};
    if (end < LOCATOR64_BYTES) return npy_damaged(s, "its ZIP64 records are missing", error, room);
    if (read_at(s, end - LOCATOR64_BYTES, r, LOCATOR64_BYTES, error, room)) return -1;
    if (files_little_endian(r, 4) != LOCATOR64) return npy_damaged(s, "its ZIP64 records are missing", error, room);
    if (read_at(s, files_little_endian(r + 8, 8), r, END64_BYTES, error, room)) return -1;
    if (files_little_endian(r, 4) != END64) return npy_damaged(s, "its ZIP64 records are missing", error, room);
    *size = files_little_endian(r + 40, 8);
    *start = files_little_endian(r + 48, 8);
    return 0;
}

/* Where the list of members stands. */
static int find_list(npy_source *s, uint64_t *start, uint64_t *size, char *error, size_t room)
{
    enum { TAIL = END_BYTES + UINT16_MAX };
    uint64_t n = s->size < TAIL ? s->size : TAIL, end = 0;
    unsigned char *tail = calloc(1, TAIL);
    if (!tail) return files_fail(error, room, "no memory to read %s", s->name);
    int status = read_at(s, s->size - n, tail, n, error, room);
    int64_t at = status ? -1 : search_end(tail, (int64_t)n);
    if (at >= 0) {
        end = s->size - n + (uint64_t)at;
        *size = files_little_endian(tail + at + 12, 4);
        *start = files_little_endian(tail + at + 16, 4);
    } else if (!status) {
        status = files_fail(error, room, "%s is not an NPZ file, or its end is missing", s->name);
    }
    free(tail);
    if (!status && *start == UINT32_MAX) status = wide_end(s, end, start, size, error, room);
    if (!status && (*start > s->size || *size > s->size - *start))
        status = npy_damaged(s, "its list of arrays lies outside the file", error, room);
    return status;
}

/* ZIP64 fields stand in the order size, packed, offset; only those whose 32-bit form is all ones. */
static int get_wide(const unsigned char *extra, size_t n, zip_entry *e)
{
    uint64_t *field[] = {&e->size, &e->packed, &e->offset};
    while (n >= 4) {
        size_t length = (size_t)files_little_endian(extra + 2, 2);
        if (length > n - 4) return -1;
        if (files_little_endian(extra, 2) == 1) {
            const unsigned char *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX) continue;
                if ((size_t)(p - extra) + 8 > length + 4) return -1;
                *field[i] = files_little_endian(p, 8);
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

/* One entry of the list: its name, what stands behind it, and the length of all. */
typedef struct {
    const unsigned char *name;
    size_t length, extra, whole;
} listed;

/* The entry at p, of which n bytes are left; 0: there is no whole one. */
static int next_listed(const unsigned char *p, size_t n, listed *out)
{
    if (n < CENTRAL_BYTES || files_little_endian(p, 4) != CENTRAL) return 0;
    *out = (listed){.name = p + CENTRAL_BYTES,
                    .length = (size_t)files_little_endian(p + 28, 2),
                    .extra = (size_t)files_little_endian(p + 30, 2)};
    out->whole = CENTRAL_BYTES + out->length + out->extra + (size_t)files_little_endian(p + 32, 2);
    return out->whole <= n;
}

static int bad_list(const npy_source *s, char *error, size_t room)
{
    return npy_damaged(s, "its list of arrays makes no sense", error, room);
}

/* The member of that name in the list; `method` and `flags` as ZIP counts them. */
static int find_member(const npy_source *s, const unsigned char *p, size_t n, const char *name, zip_entry *e,
                       int *method, int *flags, char *error, size_t room)
{
    for (listed l; next_listed(p, n, &l); p += l.whole, n -= l.whole) {
        if (!names_match(l.name, l.length, name)) continue;
        *flags = (int)files_little_endian(p + 8, 2);
        *method = (int)files_little_endian(p + 10, 2);
        *e = (zip_entry){.crc = (uint32_t)files_little_endian(p + 16, 4),
                         .packed = files_little_endian(p + 20, 4),
                         .size = files_little_endian(p + 24, 4),
                         .offset = files_little_endian(p + 42, 4)};
        return get_wide(l.name + l.length, l.extra, e) ? bad_list(s, error, room) : 0;
    }
    if (n > 0) return bad_list(s, error, room);
    return files_fail(error, room, "%s holds no array called '%s'", s->name, name);
}

/* The list of members, `size` bytes; the caller frees. NULL: a sentence. */
static unsigned char *read_list(npy_source *s, size_t *size, char *error, size_t room)
{
    uint64_t start = 0, n = 0;
    if (find_list(s, &start, &n, error, room)) return NULL;
    unsigned char *list = malloc((size_t)n + 1);
    if (!list) {
        (void)files_fail(error, room, "no memory to read %s", s->name);
        return NULL;
    }
    *size = (size_t)n;
    if (!read_at(s, start, list, n, error, room)) return list;
    free(list);
    return NULL;
}

int npz_list(const char *path, npz_visit *visit, void *context, char *error, size_t room)
{
    size_t n = 0;
    npy_source *s = npy_source_open(path, error, room);
    if (!s) return -1;
    unsigned char *list = read_list(s, &n, error, room);
    const unsigned char *p = list;
    int status = list ? 0 : -1;
    for (listed l; !status && next_listed(p, n, &l); p += l.whole, n -= l.whole)
        status = visit(context, (const char *)l.name, l.length, error, room);
    if (!status && n > 0) status = bad_list(s, error, room);
    free(list);
    npy_source_close(s);
    return status;
}

/* Points the source at the member's bytes. Deflate compresses by a factor of 1032 at most, so a larger size in the header
 * is refused. */
static int enter_member(npy_source *s, const zip_entry *e, int method, int flags, const char *name, char *error,
                        size_t room)
{
    unsigned char local[LOCAL_BYTES] = {0};
    if (flags & 1) return files_fail(error, room, "'%s' in %s is encrypted", name, s->name);
    if (method != 0 && method != 8)
        return files_fail(error, room, "'%s' in %s is packed by method %d; stored and deflated are read", name, s->name,
                          method);
    if (read_at(s, e->offset, local, LOCAL_BYTES, error, room)) return -1;
    uint64_t start = e->offset + LOCAL_BYTES + files_little_endian(local + 26, 2) + files_little_endian(local + 28, 2);
    if (files_little_endian(local, 4) != LOCAL || start > s->size || e->packed > s->size - start ||
        (method == 0 && e->packed != e->size) || e->size / 1033 > e->packed)
        return npy_damaged(s, "sizes and places of its arrays make no sense", error, room);
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

int npz_read_part(const char *path, const char *name, int whole, npy_array *out, char *error, size_t room)
{
    size_t size = 0;
    zip_entry e = {.size = 0};
    int method = 0, flags = 0;
    *out = (npy_array){0};
    npy_source *s = npy_source_open(path, error, room);
    if (!s) return -1;
    unsigned char *list = read_list(s, &size, error, room);
    int status = list ? find_member(s, list, size, name, &e, &method, &flags, error, room) : -1;
    free(list);
    if (!status) status = enter_member(s, &e, method, flags, name, error, room);
    if (!status) status = npy_pull_array(s, whole, out, error, room);
    if (!status && whole && s->crc != e.crc)
        status = npy_damaged(s, "its checksum does not match its bytes", error, room);
    if (status) npy_free(out);
    npy_source_close(s);
    return status;
}

int npz_read(const char *path, const char *name, npy_array *out, char *error, size_t room)
{
    return npz_read_part(path, name, 1, out, error, room);
}
