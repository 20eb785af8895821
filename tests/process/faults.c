/* faults.c: a library that is loaded before libc and lets a program meet one fault at an exact place.
 *
 *     SOSMC_FAULT        memory   an allocation fails
 *                        disk     a call that changes files fails with ENOSPC
 *                        kill     SIGKILL just before a call that changes files
 *                        lock     flock fails with ENOLCK, as on a file system without locks
 *                        record   nothing fails; SOSMC_FAULT_LOG gets a line for every fsync and every rename
 *     SOSMC_FAULT_AT     which of these calls, from 1 on; 0: none, only count
 *     SOSMC_FAULT_STAYS  1: all later ones fail too
 *     SOSMC_FAULT_LOG    a file that gets the number of calls at exit and, behind it, the numbers of those allocations that
 *                        came from a place (a chain of callers) for the first time
 *
 * Counting begins with main: what the loader does is not the program's. Children start without any of this. Invariant:
 * the n-th call is the same call in every run of a program that does the same things in the same order. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

typedef enum { NOTHING, MEMORY, DISK, KILL, LOCK, RECORD } kind;
static kind fault;
static long at;
static int stays;
static char log_path[4096];
static atomic_long calls;
static _Thread_local int inside; /* what this library itself allocates does not count */

/* ---------------------------------------------------------------------------- places */

enum { CALLERS = 10, PLACES = 1 << 15 };
static uint64_t place[PLACES];
static long first[PLACES], places;

static void note_place(long call)
{
    void *caller[CALLERS];
    uint64_t hash = 1469598103934665603u;
    int n = backtrace(caller, CALLERS);
    for (int i = 2; i < n; i++) hash = (hash ^ (uint64_t)(uintptr_t)caller[i]) * 1099511628211u;
    size_t slot = (size_t)(hash >> 20) % PLACES;
    while (place[slot] && place[slot] != hash) slot = (slot + 1) % PLACES;
    if (place[slot] == hash || places + 1 == PLACES) return;
    place[slot] = hash;
    first[places++] = call;
}

static void write_log(void)
{
    inside = 1;
    FILE *f = fopen(log_path, "w");
    if (!f) return;
    (void)fprintf(f, "%ld\n", atomic_load(&calls));
    for (long i = 0; i < places; i++) (void)fprintf(f, "%ld\n", first[i]);
    (void)fclose(f);
}

__attribute__((constructor)) static void begin(void)
{
    static const char *const names[] = {"SOSMC_FAULT", "SOSMC_FAULT_AT", "SOSMC_FAULT_STAYS", "SOSMC_FAULT_LOG",
                                        "LD_PRELOAD"};
    const char *what = getenv(names[0]), *when = getenv(names[1]), *always = getenv(names[2]), *log = getenv(names[3]);
    void *warm[2];
    (void)backtrace(warm, 2); /* loads what it needs now */
    at = when ? atol(when) : 0;
    stays = always && *always == '1';
    (void)snprintf(log_path, sizeof log_path, "%s", log ? log : "");
    if (*log_path && !(what && strcmp(what, "record") == 0)) (void)atexit(write_log);
    static const struct {
        const char *name;
        kind kind;
    } kinds[] = {{"memory", MEMORY}, {"disk", DISK}, {"kill", KILL}, {"lock", LOCK}, {"record", RECORD}};
    kind chosen = NOTHING;
    for (size_t i = 0; what && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(what, kinds[i].name) == 0) chosen = kinds[i].kind;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)unsetenv(names[i]);
    fault = chosen;
}

/* Counts a call; whether it is to fail. */
static int strikes(void)
{
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (at < 1 || n < at || (n > at && !stays)) return 0;
    return 1;
}

/* ---------------------------------------------------------------------------- memory */

static int no_memory(void)
{
    if (fault != MEMORY || inside) return 0;
    if (*log_path) {
        inside = 1;
        note_place(atomic_load(&calls) + 1);
        inside = 0;
    }
    if (!strikes()) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return no_memory() ? NULL : __libc_malloc(size); }
void *calloc(size_t nmemb, size_t size) { return no_memory() ? NULL : __libc_calloc(nmemb, size); }
void *realloc(void *ptr, size_t size) { return no_memory() ? NULL : __libc_realloc(ptr, size); }
void *memalign(size_t alignment, size_t size) { return no_memory() ? NULL : __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return no_memory() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **memptr, size_t alignment, size_t size)
{
    void *got = no_memory() ? NULL : __libc_memalign(alignment, size);
    if (got) *memptr = got;
    return got ? 0 : ENOMEM;
}

/* ---------------------------------------------------------------------------- files */

/* The libc function of that name, found once. */
static void *real(const char *name, void **kept)
{
    if (!*kept) {
        inside = 1;
        *kept = dlsym(RTLD_NEXT, name);
        inside = 0;
    }
    return *kept;
}
#define REAL(result, name, arguments) \
    static void *kept_##name;         \
    union {                           \
        void *object;                 \
        result(*function) arguments;  \
    } libc_##name = {.object = real(#name, &kept_##name)}

static int no_room(void)
{
    if (fault != DISK && fault != KILL) return 0;
    if (!strikes()) return 0;
    if (fault == KILL) (void)kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return 1;
}

static int is_file(FILE *f)
{
    struct stat s;
    return f && fileno(f) > 2 && fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode);
}

int open(const char *file, int oflag, ...)
{
    REAL(int, open, (const char *, int, ...));
    va_list list;
    va_start(list, oflag);
    mode_t mode = (oflag & O_CREAT) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if ((oflag & O_ACCMODE) != O_RDONLY && no_room()) return -1;
    return libc_open.function(file, oflag, mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    REAL(ssize_t, write, (int, const void *, size_t));
    if (fd == STDOUT_FILENO || fd == STDERR_FILENO) return libc_write.function(fd, buf, n); /* words are no file */
    return no_room() ? -1 : libc_write.function(fd, buf, n);
}

int fflush(FILE *stream)
{
    REAL(int, fflush, (FILE *));
    return is_file(stream) && no_room() ? EOF : libc_fflush.function(stream);
}

int fclose(FILE *stream)
{
    REAL(int, fclose, (FILE *));
    int failed = is_file(stream) && (fcntl(fileno(stream), F_GETFL) & O_ACCMODE) != O_RDONLY && no_room();
    int closed = libc_fclose.function(stream);
    if (failed) errno = ENOSPC;
    return failed ? EOF : closed;
}

/* A line of the record: the call and the files that it names, as the kernel knows them. */
static void record(const char *call, int fd, const char *old, const char *new)
{
    char line[3 * 4096], link[64], path[4096] = "";
    if (fault != RECORD) return;
    REAL(ssize_t, write, (int, const void *, size_t));
    REAL(int, open, (const char *, int, ...));
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = fd >= 0 ? readlink(link, path, sizeof path - 1) : 0;
    path[n > 0 ? n : 0] = 0;
    int length = snprintf(line, sizeof line, "%s %s%s%s%s%s\n", call, path, old ? "/" : "", old ? old : "",
                          new ? " " : "", new ? new : "");
    int log = libc_open.function(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log >= 0 && length > 0) (void)!libc_write.function(log, line, (size_t)length);
    if (log >= 0) (void)close(log);
}

int fsync(int fd)
{
    REAL(int, fsync, (int));
    record("fsync", fd, NULL, NULL);
    return no_room() ? -1 : libc_fsync.function(fd);
}

int ftruncate(int fd, off_t length)
{
    REAL(int, ftruncate, (int, off_t));
    return no_room() ? -1 : libc_ftruncate.function(fd, length);
}

int rename(const char *old, const char *new)
{
    REAL(int, rename, (const char *, const char *));
    record("rename", -1, old, new);
    return no_room() ? -1 : libc_rename.function(old, new);
}

int renameat(int oldfd, const char *old, int newfd, const char *new)
{
    REAL(int, renameat, (int, const char *, int, const char *));
    record("rename", oldfd, old, new);
    return no_room() ? -1 : libc_renameat.function(oldfd, old, newfd, new);
}

int openat(int fd, const char *file, int oflag, ...)
{
    REAL(int, openat, (int, const char *, int, ...));
    va_list list;
    va_start(list, oflag);
    mode_t mode = (oflag & O_CREAT) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if ((oflag & O_ACCMODE) != O_RDONLY && no_room()) return -1;
    return libc_openat.function(fd, file, oflag, mode);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, (const char *, mode_t));
    return no_room() ? -1 : libc_mkdir.function(path, mode);
}

int mkdirat(int fd, const char *path, mode_t mode)
{
    REAL(int, mkdirat, (int, const char *, mode_t));
    return no_room() ? -1 : libc_mkdirat.function(fd, path, mode);
}

int flock(int fd, int operation)
{
    REAL(int, flock, (int, int));
    if (fault == LOCK) errno = ENOLCK;
    return fault == LOCK ? -1 : libc_flock.function(fd, operation);
}

FILE *tmpfile(void)
{
    REAL(FILE *, tmpfile, (void));
    return no_room() ? NULL : libc_tmpfile.function();
}

/* A full disk still lets go of files. */
int unlink(const char *name)
{
    REAL(int, unlink, (const char *));
    if (fault == KILL) (void)no_room();
    return libc_unlink.function(name);
}

int unlinkat(int fd, const char *name, int flag)
{
    REAL(int, unlinkat, (int, const char *, int));
    if (fault == KILL) (void)no_room();
    return libc_unlinkat.function(fd, name, flag);
}
