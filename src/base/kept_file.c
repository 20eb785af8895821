/* kept_file.c: writing and reading files that survive a crash (kept_file.h). All functions return 0, or -1 with error, verb and subject
 * set. */
#include "kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DIGITS = 16, TRIES = 100 };
static const char ENDING[] = ".tmp";

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
    return name(f->path, path, "") || name(f->temporary, path, ".0123456789abcdef.tmp") ||
                   name(f->previous, path, ".previous")
               ? -1
               : 0;
}

/* The directory that holds the names; -1: it cannot be opened. */
static int open_directory(const char *path)
{
    char directory[KEPT_PATH];
    if (name(directory, path, "")) return -1;
    char *slash = strrchr(directory, '/');
    if (slash == directory) slash++;
    if (slash) *slash = 0;
    return open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---------------------------------------------------------------------------- temporaries */

/* Whether `entry` is a temporary of the file that is called `base`. */
static int is_temporary(const char *entry, const char *base)
{
    size_t n = strlen(base);
    return strncmp(entry, base, n) == 0 && entry[n] == '.' && strspn(entry + n + 1, "0123456789abcdef") == DIGITS &&
           strcmp(entry + n + 1 + DIGITS, ENDING) == 0;
}

/* Nobody holds its lock: who wrote it has died. */
static void remove_if_dead(int directory, const char *entry)
{
    struct stat st;
    int fd = openat(directory, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(directory, entry, 0);
    (void)close(fd);
}

#ifdef SYS_getdents64
typedef struct {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
} entry;

/* By the system's own call, because opendir allocates, which the library does not do after its beginning. */
static void remove_dead(kept_file *f)
{
    const char *slash = strrchr(f->path, '/'), *base = slash ? slash + 1 : f->path;
    int directory = open_directory(f->path);
    long got;
    if (directory < 0) return;
    while ((got = syscall(SYS_getdents64, directory, f->buffer, (size_t)KEPT_BUFFER)) > 0)
        for (long at = 0; at < got;) {
            const entry *e = (const entry *)(const void *)(f->buffer + at);
            if (is_temporary(e->name, base)) remove_if_dead(directory, e->name);
            at += e->length;
        }
    (void)close(directory);
}
#else
static void remove_dead(kept_file *f) { (void)f; }
#endif

/* A file that was not there, under a name that nobody can foresee. Another writer that looks for the dead may find it before it
 * has its lock; then it is gone, and another is taken. */
static int take_temporary(kept_file *f)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t random;
        struct stat st;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return -1;
        (void)snprintf(f->temporary + strlen(f->path), DIGITS + sizeof ENDING + 1, ".%016" PRIx64 "%s", random, ENDING);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) return -1;
        if (f->fd < 0) continue;
        (void)flock(f->fd, LOCK_EX | LOCK_NB); /* where there are no locks, nothing is removed either */
        if (fstat(f->fd, &st) == 0 && st.st_nlink > 0) return 0;
        (void)close(f->fd);
        f->fd = -1;
    }
    errno = EEXIST;
    return -1;
}

int sosmc_i_kept_create(kept_file *f)
{
    struct stat there;
    if (stat(f->path, &there) == 0 && S_ISDIR(there.st_mode)) return fail(f, "write", f->path, EISDIR);
    remove_dead(f);
    return take_temporary(f) ? fail(f, "create", f->path, errno) : 0;
}

/* ---------------------------------------------------------------------------- bytes */

int sosmc_i_kept_open(kept_file *f, int which)
{
    const char *path = which == 0 ? f->path : f->previous;
    f->used = f->filled = 0;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    return f->fd < 0 ? fail(f, "open", path, errno) : 0;
}

static int flush(kept_file *f)
{
    for (size_t done = 0; done < f->used;) {
        ssize_t n = write(f->fd, f->buffer + done, f->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail(f, "write", f->path, n < 0 ? errno : EIO);
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
    int fd = open_directory(path);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

int sosmc_i_kept_place(kept_file *f)
{
    if (flush(f)) return -1;
    if (fsync(f->fd)) return fail(f, "write", f->path, errno);
    if (rename(f->path, f->previous) && errno != ENOENT) return fail(f, "rename", f->path, errno);
    if (rename(f->temporary, f->path)) return fail(f, "replace", f->path, errno);
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
