/* fetch_tar.c: some files out of a gzipped tar archive, each with a size and a checksum known beforehand.
 *
 *     { header of 512 bytes: name, size in octal, ... | bytes, filled up to a multiple of 512 } per member
 *
 * Invariant: new files stand under their temporary names until every sum has been found right; then all are renamed.
 * What the archive says of a member is only used to find it: bytes go under our names, as many as we expect. */
#include "fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "files/files.h"
#include "terminal/interrupt.h"
#include "files/sha256.h"

enum { MOST_FILES = 16, RECORD = 512, CHUNK = 65536, NAME_ROOM = 100 };

int fetch_is_there(const char *path, const fetch_file *file)
{
    unsigned char bytes[CHUNK];
    char sum[SHA256_TEXT];
    uint64_t size = 0;
    sha256 s;
    FILE *f = files_open(path, &size, NULL, 0);
    if (!f) return 0;
    sha256_begin(&s);
    for (size_t n = 1; size == file->size && n > 0;) {
        n = fread(bytes, 1, sizeof bytes, f);
        sha256_add(&s, bytes, n);
    }
    (void)fclose(f);
    sha256_end(&s, sum);
    return size == file->size && !strcmp(sum, file->sha256);
}

typedef struct {
    gzFile stream;
    const char *path;
    char *error;
    size_t room;
    atomic_file out[MOST_FILES];
    int wanted[MOST_FILES], opened[MOST_FILES], found[MOST_FILES];
} package;

/* n bytes of the archive; 0, or 1 at its very end, or -1. */
static int pull(package *p, unsigned char *out, unsigned n)
{
    int code = Z_OK, got = gzread(p->stream, out, n);
    (void)gzerror(p->stream, &code);
    if (interrupt_requested()) return files_fail(p->error, p->room, "interrupted; nothing was written");
    if (got == (int)n) return 0;
    if (got == 0 && code == Z_OK) return 1;
    if (code == Z_MEM_ERROR) return files_fail(p->error, p->room, "no memory to unpack %s", p->path);
    return files_fail(p->error, p->room,
                      "%s is damaged, or no gzipped tar archive: its bytes end early or make no sense", p->path);
}

/* Digits to the base eight, between blanks; -1: there are none. */
static int64_t octal(const unsigned char *p, int n)
{
    int64_t value = 0;
    int i = 0, digits = 0;
    while (i < n && p[i] == ' ') i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++, digits++) value = value * 8 + (p[i] - '0');
    return digits > 0 && (i == n || p[i] == 0 || p[i] == ' ') ? value : -1;
}

/* The header's own sum counts its eight bytes as blanks. */
static int header_is_sound(const unsigned char head[RECORD])
{
    int64_t sum = 0;
    for (int i = 0; i < RECORD; i++) sum += i >= 148 && i < 156 ? ' ' : head[i];
    return sum == octal(head + 148, 8);
}

/* Which of the files a header announces; -1: none that is wanted. */
static int file_of(const package *p, const unsigned char head[RECORD], const fetch_file *file, int files)
{
    char name[NAME_ROOM + 1] = "";
    memcpy(name, head, NAME_ROOM);
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    if (head[156] != '0' && head[156] != 0) return -1; /* a folder, a link, more words about the next member */
    for (int i = 0; i < files; i++)
        if (p->wanted[i] && !p->found[i] && !strcmp(last, file[i].name)) return i;
    return -1;
}

/* `size` bytes and what fills the last record; i: the file they go to, or -1. */
static int take_bytes(package *p, int i, uint64_t size, const fetch_file *file)
{
    unsigned char bytes[CHUNK];
    char sum[SHA256_TEXT];
    sha256 s;
    sha256_begin(&s);
    for (uint64_t left = size; left > 0;) {
        unsigned n = left < CHUNK ? (unsigned)left : CHUNK;
        unsigned whole = (n + RECORD - 1) / RECORD * RECORD;
        int status = pull(p, bytes, whole);
        if (status > 0) return files_fail(p->error, p->room, "%s is damaged: it ends inside a file", p->path);
        if (status < 0) return -1;
        if (i >= 0) atomic_put(&p->out[i], bytes, n);
        if (i >= 0) sha256_add(&s, bytes, n);
        left -= n;
    }
    if (i < 0) return 0;
    sha256_end(&s, sum);
    if (!strcmp(sum, file[i].sha256)) return 0;
    return files_fail(p->error, p->room, "%s in %s has the SHA-256 %s; expected %s, so nothing was written",
                      file[i].name, p->path, sum, file[i].sha256);
}

static int take_member(package *p, const unsigned char head[RECORD], const char *dir, const fetch_file *file, int files)
{
    char path[FILES_PATH];
    int64_t size = octal(head + 124, 12);
    if (!header_is_sound(head) || size < 0)
        return files_fail(p->error, p->room, "%s is damaged, or no tar archive: a header's sum is wrong", p->path);
    int i = file_of(p, head, file, files);
    if (i >= 0) {
        if ((uint64_t)size != file[i].size)
            return files_fail(p->error, p->room,
                              "%s in %s has %" PRId64 " bytes; expected %" PRIu64 ", so nothing was written",
                              file[i].name, p->path, size, file[i].size);
        if (files_join(path, dir, file[i].name, p->error, p->room) || atomic_open(&p->out[i], path, p->error, p->room))
            return -1;
        p->opened[i] = p->found[i] = 1;
    }
    return take_bytes(p, i, (uint64_t)size, file);
}

static int take_all(package *p, const char *dir, const fetch_file *file, int files)
{
    unsigned char head[RECORD];
    static const unsigned char zeros[RECORD];
    int status = pull(p, head, RECORD);
    while (status == 0 && memcmp(head, zeros, RECORD) != 0) {
        if (take_member(p, head, dir, file, files)) return -1;
        status = pull(p, head, RECORD);
    }
    if (status < 0) return -1;
    for (int i = 0; i < files; i++)
        if (p->wanted[i] && !p->found[i]) return files_fail(p->error, p->room, "%s holds no %s", p->path, file[i].name);
    return 0;
}

/* Renames all temporary files to their names, or removes all of them. */
static int settle(package *p, int files, int status)
{
    for (int i = 0; i < files; i++) {
        if (!p->opened[i]) continue;
        if (status)
            atomic_abandon(&p->out[i]);
        else
            status = atomic_close(&p->out[i], p->error, p->room);
    }
    return status;
}

static gzFile open_stream(const char *path, char *error, size_t room)
{
    uint64_t size = 0;
    FILE *f = files_open(path, &size, error, room);
    if (!f) return NULL;
    int fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 0);
    (void)fclose(f);
    gzFile stream = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (stream) return stream;
    (void)files_cannot("read", path, errno, error, room);
    if (fd >= 0) (void)close(fd);
    return NULL;
}

int fetch_unpack(const char *path, const char *dir, const fetch_file *file, int files, char *error, size_t room)
{
    char there[FILES_PATH];
    if (files < 0 || files > MOST_FILES) return files_fail(error, room, "%s: too many files are asked for", path);
    package *p = calloc(1, sizeof *p);
    if (!p) return files_fail(error, room, "no memory to read %s", path);
    *p = (package){.path = path, .error = error, .room = room};
    int status = 0;
    for (int i = 0; i < files && !status; i++) {
        status = files_join(there, dir, file[i].name, error, room);
        p->wanted[i] = !status && !fetch_is_there(there, &file[i]);
    }
    if (!status) p->stream = open_stream(path, error, room);
    if (p->stream) {
        status = settle(p, files, take_all(p, dir, file, files));
        (void)gzclose(p->stream);
    } else {
        status = -1;
    }
    free(p);
    return status;
}
