/* checkpoint_file.c: checkpoints as files that survive a crash at any moment.
 *
 * The bytes go to PATH.tmp and to the disk; then PATH becomes PATH.previous and PATH.tmp becomes PATH. Whenever the machine
 * stops, PATH or PATH.previous is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"

enum { BUFFER = 32768, PATH_ROOM = 4096 };

typedef struct {
    int fd, error;
    size_t used, filled; /* bytes waiting to be written; bytes read ahead and how many of them are used */
    char buffer[BUFFER];
} file;

/* ---------------------------------------------------------------------------- bytes */

static int flush(file *f)
{
    for (size_t done = 0; done < f->used;) {
        ssize_t n = write(f->fd, f->buffer + done, f->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            f->error = n < 0 ? errno : EIO;
            return -1;
        }
        done += (size_t)n;
    }
    f->used = 0;
    return 0;
}

static int put_bytes(void *ctx, const void *bytes, size_t n)
{
    file *f = ctx;
    for (const char *p = bytes; n > 0;) {
        size_t room = BUFFER - f->used, part = n < room ? n : room;
        memcpy(f->buffer + f->used, p, part);
        f->used += part;
        p += part;
        n -= part;
        if (f->used == BUFFER && flush(f)) return -1;
    }
    return 0;
}

static int get_bytes(void *ctx, void *bytes, size_t n)
{
    file *f = ctx;
    for (char *p = bytes; n > 0;) {
        if (f->used == f->filled) {
            ssize_t got = read(f->fd, f->buffer, BUFFER);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return -1;
            f->used = 0;
            f->filled = (size_t)got;
        }
        size_t there = f->filled - f->used, part = n < there ? n : there;
        memcpy(p, f->buffer + f->used, part);
        f->used += part;
        p += part;
        n -= part;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- names */

static int name(char out[PATH_ROOM], const char *path, const char *ending)
{
    int n = snprintf(out, PATH_ROOM, "%s%s", path, ending);
    return n > 0 && n < PATH_ROOM ? 0 : -1;
}

/* A rename is safe once the directory that holds the names is on the disk; best effort where that cannot be asked. */
static void sync_directory(const char *path)
{
    char directory[PATH_ROOM];
    if (name(directory, path, "")) return;
    char *slash = strrchr(directory, '/');
    if (slash == directory) slash++;
    if (slash) *slash = 0;
    int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

static sosmc_status cannot(const sosmc *s, const char *verb, const char *path, int error)
{
    char words[128] = "unknown error";
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return sosmc_i_fail(s, SOSMC_EIO, "cannot %s %s: %s", verb, path, strerror_r(error, words, sizeof words));
#else
    (void)strerror_r(error, words, sizeof words);
    return sosmc_i_fail(s, SOSMC_EIO, "cannot %s %s: %s", verb, path, words);
#endif
}

static sosmc_status write_file(sosmc *s, const char *path, const char *temporary, const char *previous)
{
    file f = {.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (f.fd < 0) return cannot(s, "create", temporary, errno);
    sosmc_status status = sosmc_save(s, put_bytes, &f);
    if (status == SOSMC_OK && (flush(&f) || fsync(f.fd))) {
        if (!f.error) f.error = errno;
        status = SOSMC_EIO;
    }
    if (close(f.fd) && status == SOSMC_OK) {
        f.error = errno;
        status = SOSMC_EIO;
    }
    if (f.error) status = cannot(s, "write", temporary, f.error);
    if (status == SOSMC_OK && rename(path, previous) && errno != ENOENT) status = cannot(s, "rename", path, errno);
    if (status == SOSMC_OK && rename(temporary, path)) status = cannot(s, "rename", temporary, errno);
    if (status != SOSMC_OK) (void)unlink(temporary);
    else sync_directory(path);
    return status;
}

sosmc_status sosmc_save_file(sosmc *s, const char *path)
{
    char temporary[PATH_ROOM], previous[PATH_ROOM];
    if (!path || !*path || name(temporary, path, ".tmp") || name(previous, path, ".previous"))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    if (ranks(s) > 1 && s->cfg.comm.rank != 0) return sosmc_save(s, NULL, NULL);
    return write_file(s, path, temporary, previous);
}

static sosmc_status read_file(sosmc *s, const char *path)
{
    file f = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f.fd < 0) return cannot(s, "open", path, errno);
    sosmc_status status = sosmc_load(s, get_bytes, &f);
    (void)close(f.fd);
    return status;
}

sosmc_status sosmc_load_file(sosmc *s, const char *path)
{
    char previous[PATH_ROOM], first[MESSAGE];
    if (!path || !*path || name(previous, path, ".previous"))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    sosmc_status status = read_file(s, path);
    if (status != SOSMC_EIO) return status;
    (void)snprintf(first, sizeof first, "%s", s->message);
    if (read_file(s, previous) == SOSMC_OK) return SOSMC_OK;
    return sosmc_i_fail(s, status, "%.*s", MESSAGE - 1, first); /* what is wrong with the newest matters most */
}
