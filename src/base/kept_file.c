/* kept_file.c: writing and reading files that survive a crash (kept_file.h). All functions return 0, or -1 with error, verb and subject
 * set. */
#include "kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(kept_file *f, const char *verb, const char *subject, int error)
{
    f->verb = verb;
    f->subject = subject;
    f->error = error;
    return -1;
}

static int name(char out[KEPT_PATH], const char *path, const char *ending)
{
    int n = snprintf(out, KEPT_PATH, "%s%s", path, ending);
    return n > 0 && n < KEPT_PATH ? 0 : -1;
}

int sosmc_i_kept_names(kept_file *f, const char *path)
{
    f->fd = -1;
    f->error = 0;
    f->used = f->filled = 0;
    if (!path || !*path) return -1;
    return name(f->path, path, "") || name(f->temporary, path, ".tmp") || name(f->previous, path, ".previous") ? -1 : 0;
}

int sosmc_i_kept_create(kept_file *f)
{
    struct stat there;
    if (stat(f->path, &there) == 0 && S_ISDIR(there.st_mode)) return fail(f, "write", f->path, EISDIR);
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return f->fd < 0 ? fail(f, "create", f->temporary, errno) : 0;
}

int sosmc_i_kept_open(kept_file *f, int which)
{
    const char *path = which == 0 ? f->path : which == 1 ? f->previous : f->temporary;
    f->used = f->filled = 0;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    return f->fd < 0 ? fail(f, "open", path, errno) : 0;
}

static int flush(kept_file *f)
{
    for (size_t done = 0; done < f->used;) {
        ssize_t n = write(f->fd, f->buffer + done, f->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail(f, "write", f->temporary, n < 0 ? errno : EIO);
        done += (size_t)n;
    }
    f->used = 0;
    return 0;
}

int sosmc_i_kept_put(void *ctx, const void *bytes, size_t n)
{
    kept_file *f = ctx;
    for (const char *p = bytes; n > 0;) {
        size_t room = KEPT_BUFFER - f->used, part = n < room ? n : room;
        memcpy(f->buffer + f->used, p, part);
        f->used += part;
        p += part;
        n -= part;
        if (f->used == KEPT_BUFFER && flush(f)) return -1;
    }
    return 0;
}

int sosmc_i_kept_get(void *ctx, void *bytes, size_t n)
{
    kept_file *f = ctx;
    for (char *p = bytes; n > 0;) {
        if (f->used == f->filled) {
            ssize_t got = read(f->fd, f->buffer, KEPT_BUFFER);
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

/* A rename is safe once the directory that holds the names is on the disk; best effort where that cannot be asked. */
static void sync_directory(const char *path)
{
    char directory[KEPT_PATH];
    if (name(directory, path, "")) return;
    char *slash = strrchr(directory, '/');
    if (slash == directory) slash++;
    if (slash) *slash = 0;
    int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

int sosmc_i_kept_place(kept_file *f)
{
    if (flush(f)) return -1;
    if (fsync(f->fd)) return fail(f, "write", f->temporary, errno);
    if (rename(f->path, f->previous) && errno != ENOENT) return fail(f, "rename", f->path, errno);
    if (rename(f->temporary, f->path)) return fail(f, "rename", f->temporary, errno);
    sync_directory(f->path);
    return 0;
}

void sosmc_i_kept_close(kept_file *f, int spoilt)
{
    if (f->fd >= 0) (void)close(f->fd);
    if (f->fd >= 0 && spoilt) (void)unlink(f->temporary);
    f->fd = -1;
}

void sosmc_i_kept_words(const kept_file *f, char *text, size_t room)
{
    char words[128] = "unknown error";
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *said = strerror_r(f->error, words, sizeof words);
#else
    (void)strerror_r(f->error, words, sizeof words);
    const char *said = words;
#endif
    (void)snprintf(text, room, "cannot %s %s: %s", f->verb ? f->verb : "use", f->subject ? f->subject : f->path, said);
}
