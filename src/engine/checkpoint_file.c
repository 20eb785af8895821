/* checkpoint_file.c: checkpoints as files that survive a crash at any moment.
 *
 * The bytes go to PATH.tmp and to the disk; then PATH becomes PATH.previous and PATH.tmp becomes PATH. Whenever the machine
 * stops, PATH or PATH.previous is whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_inside.h"

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

static sosmc_status open_temporary(sosmc *s, file *f, const char *path, const char *temporary)
{
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) return cannot(s, "write", path, EISDIR);
    f->fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return f->fd < 0 ? cannot(s, "create", temporary, errno) : SOSMC_OK;
}

/* To the disk, and then into place. */
static sosmc_status put_in_place(sosmc *s, file *f, const char *path, const char *temporary, const char *previous)
{
    if (flush(f)) return cannot(s, "write", temporary, f->error);
    if (fsync(f->fd)) return cannot(s, "write", temporary, errno);
    if (rename(path, previous) && errno != ENOENT) return cannot(s, "rename", path, errno);
    if (rename(temporary, path)) return cannot(s, "rename", temporary, errno);
    sync_directory(path);
    return SOSMC_OK;
}

static sosmc_status save_file(sosmc *s, const char *path)
{
    char temporary[PATH_ROOM], previous[PATH_ROOM];
    double unused = 0;
    int64_t none = 0;
    file f = {.fd = -1};
    int writes = ranks(s) == 1 || s->cfg.comm.rank == 0;
    if (!s->ready) return s->failed;
    if (!path || !*path || name(temporary, path, ".tmp") || name(previous, path, ".previous"))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    /* Rank 0 alone has a file; the others must hear of its failures before and after they have sent their tiles. */
    sosmc_status status = writes ? open_temporary(s, &f, path, temporary) : SOSMC_OK;
    status = sosmc_i_agree(s, status, &unused, &none);
    if (status == SOSMC_OK) {
        status = sosmc_i_save(s, writes ? put_bytes : NULL, &f);
        if (f.error) status = cannot(s, "write", temporary, f.error);
        if (status == SOSMC_OK && writes) status = put_in_place(s, &f, path, temporary, previous);
        status = sosmc_i_agree(s, status, &unused, &none);
    }
    if (f.fd < 0) return status;
    (void)close(f.fd);
    if (status != SOSMC_OK) (void)unlink(temporary);
    return status;
}

sosmc_status sosmc_save_file(sosmc *s, const char *path)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, save_file(s, path));
}

/* All ranks take the same file, or none does. */
static sosmc_status read_file(sosmc *s, const char *path)
{
    double unused = 0;
    int64_t none = 0;
    file f = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    sosmc_status status = f.fd < 0 ? cannot(s, "open", path, errno) : SOSMC_OK;
    status = sosmc_i_agree(s, status, &unused, &none);
    if (status == SOSMC_OK) status = sosmc_i_load(s, get_bytes, &f);
    if (f.fd >= 0) (void)close(f.fd);
    return status;
}

static sosmc_status load_file(sosmc *s, const char *path)
{
    char previous[PATH_ROOM], temporary[PATH_ROOM], first[MESSAGE];
    if (!s->ready) return s->failed;
    if (!path || !*path || name(temporary, path, ".tmp") || name(previous, path, ".previous"))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    sosmc_status status = read_file(s, path);
    if (status != SOSMC_EIO) return status;
    (void)snprintf(first, sizeof first, "%s", s->message);
    if (read_file(s, previous) == SOSMC_OK) return SOSMC_OK;
    if (read_file(s, temporary) == SOSMC_OK)
        return SOSMC_OK; /* whole, if the machine stopped between the two renames */
    return sosmc_i_fail(s, status, "%.*s", MESSAGE - 1, first); /* what is wrong with the newest matters most */
}

sosmc_status sosmc_load_file(sosmc *s, const char *path)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, load_file(s, path));
}
