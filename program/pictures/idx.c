/* idx.c: arrays of bytes in the IDX format of MNIST, plain or gzipped.
 *
 *     0, 0, 8 (bytes), number of dimensions | each dimension, 4 bytes with the high one first | the bytes in C order
 *
 * Invariant: memory for the bytes is allocated only when the file is large enough to hold them, and nothing may follow them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "files/files.h"
#include "images_inside.h"

enum { DIMS = 3, DEFLATE_GAIN = 1032 /* deflation shrinks by no more */ };

typedef struct {
    gzFile stream; /* reads plain files as they are */
    const char *path;
    int packed;
    uint64_t size; /* of the file */
    char *error;
    size_t room;
} source;

static int open_source(source *s)
{
    unsigned char head[2] = {0};
    FILE *f = files_open(s->path, &s->size, s->error, s->room);
    if (!f) return -1;
    s->packed = fread(head, 1, 2, f) == 2 && head[0] == 0x1F && head[1] == 0x8B;
    int fd = fseek(f, 0, SEEK_SET) ? -1 : fcntl(fileno(f), F_DUPFD_CLOEXEC, 0);
    (void)fclose(f);
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        (void)files_cannot("read", s->path, errno, s->error, s->room);
        if (fd >= 0) (void)close(fd);
        return -1;
    }
    s->stream = gzdopen(fd, "rb");
    if (s->stream) return 0;
    (void)close(fd);
    return files_fail(s->error, s->room, "no memory to read %s", s->path);
}

/* At most n bytes; fewer at the end of the file, -1 when they make no sense. */
static int64_t pull(source *s, unsigned char *out, uint64_t n)
{
    uint64_t done = 0;
    while (done < n) {
        unsigned part = n - done < (1U << 30) ? (unsigned)(n - done) : 1U << 30;
        int got = gzread(s->stream, out + done, part), code = Z_OK;
        (void)gzerror(s->stream, &code);
        if (code == Z_MEM_ERROR) return files_fail(s->error, s->room, "no memory to read %s", s->path);
        /* Of a stream that ends early, zlib returns the bytes and an error. */
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            return files_fail(s->error, s->room, "%s is damaged: its compressed bytes end early or make no sense",
                              s->path);
        }
        if (got == 0) break;
        done += (uint64_t)got;
    }
    return (int64_t)done;
}

static int64_t number_at(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

/* The shape, and how many bytes it means. */
static int pull_header(source *s, int dims, int64_t *shape, uint64_t *bytes)
{
    unsigned char head[4 + 4 * DIMS] = {0};
    int64_t n = 4 + 4 * dims, got = pull(s, head, (uint64_t)n);
    if (got < 0) return -1;
    if (got < 4 || number_at(head) != (0x800 | dims))
        return files_fail(s->error, s->room, "%s begins with 0x%08" PRIX64 "; an IDX file of %s begins with 0x%08X",
                          s->path, (uint64_t)number_at(head), dims == 1 ? "labels" : "pictures",
                          0x800U | (unsigned)dims);
    if (got < n) return files_fail(s->error, s->room, "%s is damaged: it ends inside its header", s->path);
    *bytes = 1;
    for (int i = 0; i < dims; i++) {
        shape[i] = number_at(head + 4 + 4 * (size_t)i);
        if (shape[i] < 1 || shape[i] > IMAGE_SET / (int64_t)*bytes)
            return files_fail(s->error, s->room,
                              "%s has an impossible shape: dimension %d is %" PRId64
                              "; expected at least 1, and at most %" PRId64 " bytes in all",
                              s->path, i + 1, shape[i], IMAGE_SET);
        *bytes *= (uint64_t)shape[i];
    }
    uint64_t rest = s->size - (s->packed ? 0 : (uint64_t)n);
    if (s->packed ? *bytes / DEFLATE_GAIN > rest : *bytes != rest)
        return files_fail(s->error, s->room,
                          "%s is damaged: its header promises %" PRIu64 " bytes, and there are %s%" PRIu64, s->path,
                          *bytes, s->packed ? "no more than the compressed " : "", rest);
    return 0;
}

static int pull_all(source *s, int dims, int64_t *shape, unsigned char **out)
{
    uint64_t bytes = 0;
    unsigned char beyond = 0;
    if (pull_header(s, dims, shape, &bytes)) return -1;
    unsigned char *b = malloc((size_t)bytes);
    if (!b) return files_fail(s->error, s->room, "no memory for the %" PRIu64 " bytes of %s", bytes, s->path);
    /* Reads to the end of the stream, where the checksum is. */
    int64_t got = pull(s, b, bytes), more = got < 0 ? -1 : pull(s, &beyond, 1);
    if (more == 0 && got == (int64_t)bytes) {
        *out = b;
        return 0;
    }
    free(b);
    if (more < 0) return -1;
    return files_fail(s->error, s->room, "%s is damaged: its header promises %" PRIu64 " bytes, and there are %s",
                      s->path, bytes, more ? "more" : "fewer");
}

int idx_read(const char *path, int dims, int64_t *shape, unsigned char **bytes, char *error, size_t room)
{
    source s = {.path = path, .error = error, .room = room};
    *bytes = NULL;
    if (open_source(&s)) return -1;
    int status = pull_all(&s, dims, shape, bytes);
    (void)gzclose(s.stream);
    return status;
}

int idx_labels_read(const char *path, unsigned char **label, int64_t *count, char *error, size_t room)
{
    return idx_read(path, 1, count, label, error, room);
}
