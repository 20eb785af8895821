/* lock.c: see lock.h. */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 320, TRIES = 100 };
static const char NAME[] = ".sosmc.lock";

/* "process 17 on host", as the file has it, or what is known. The holder may not have written it yet: it gets a moment. */
static void holder(int fd, char out[WORDS])
{
    const struct timespec moment = {.tv_nsec = 5000000};
    char text[WORDS] = "";
    for (int i = 0; i < 20 && !strchr(text, '\n'); i++) {
        if (i > 0) (void)nanosleep(&moment, NULL);
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = 0;
    }
    text[strcspn(text, "\n")] = 0;
    (void)snprintf(out, WORDS, "%s", strncmp(text, "process ", 8) == 0 ? text : "another process");
}

static void sign(int fd)
{
    char host[256] = "", text[WORDS];
    (void)gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), *host ? host : "this host");
    /* The words are for people alone; the lock holds without them. */
    if (ftruncate(fd, 0) == 0 && n > 0) (void)!pwrite(fd, text, (size_t)n, 0);
}

/* The file, as it is or new; -1: errno says why not. */
static int open_file(const char *path, int *left)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int made = open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0666);
    *left = 0;
    if (made >= 0 || errno != EEXIST) return made;
    *left = 1;
    const int found = open(path, O_RDWR | flags);
    if (found >= 0 || errno != EACCES) return found;
    return open(path, O_RDONLY | flags); /* somebody else's, which may be locked all the same */
}

/* Whether the name still leads to the file that is open: its holder may have removed it meanwhile. */
static int is_current(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static lock_status busy(int fd, const char *dir, char *error, size_t room)
{
    char who[WORDS];
    holder(fd, who);
    (void)close(fd);
    files_say(error, room, "%s is being written by %s; wait until that ends, or choose another directory", dir, who);
    return LOCK_BUSY;
}

static lock_status cannot_open(const char *path, char *error, size_t room)
{
    if (errno == EACCES || errno == EROFS || errno == EPERM) return LOCK_NONE;
    if (errno == ELOOP)
        files_say(error, room, "%s is a link; nothing is written through links in a directory of results", path);
    else
        (void)files_cannot("create", path, errno, error, room);
    return LOCK_EIO;
}

static lock_status no_locks(int fd, const char *path, int left, char *error, size_t room)
{
    static atomic_int said;
    const char *why = strerror(errno);
    if (!atomic_exchange(&said, 1))
        files_say(error, room, "%s cannot be locked (%s); see to it that no other process writes there", path, why);
    if (!left) (void)unlink(path);
    (void)close(fd);
    return LOCK_NONE;
}

/* flock, asked again for a moment: a child of a process that was just killed shares its lock until it dies too. */
static int take_flock(int fd)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    int failed = -1;
    for (int i = 0; i < 10; i++) {
        failed = flock(fd, LOCK_EX | LOCK_NB);
        if (!failed || errno != EWOULDBLOCK) break;
        (void)nanosleep(&moment, NULL);
        errno = EWOULDBLOCK;
    }
    return failed;
}

lock_status lock_take(run_lock *l, const char *dir, char *error, size_t room)
{
    struct stat st;
    *l = (run_lock){.held = 0};
    if (error && room) error[0] = 0;
    if (files_join(l->path, dir, NAME, error, room)) return LOCK_EIO;
    for (int i = 0; i < TRIES; i++) {
        int fd = open_file(l->path, &l->left);
        if (fd < 0 && errno == ENOENT && l->left) continue; /* its holder has just removed it */
        if (fd < 0) return cannot_open(l->path, error, room);
        if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
            (void)close(fd);
            files_say(error, room, "%s is not a file; expected the lock of the directory, or nothing", l->path);
            return LOCK_EIO;
        }
        int failed = take_flock(fd);
        if (failed && errno == EWOULDBLOCK) return busy(fd, dir, error, room);
        if (failed && errno != EINTR) return no_locks(fd, l->path, l->left, error, room);
        if (!failed && is_current(fd, l->path)) {
            l->left = l->left && st.st_size > 0; /* an empty one belongs to a process that is about to take it */
            sign(fd);
            l->held = fd + 1;
            return LOCK_TAKEN;
        }
        (void)close(fd);
    }
    files_say(error, room, "%s changes hands all the time; try again later", l->path);
    return LOCK_BUSY;
}

int lock_lost(const run_lock *l) { return l->held && !is_current(l->held - 1, l->path); }

void lock_give_back(run_lock *l)
{
    if (!l->held) return;
    if (!lock_lost(l)) (void)unlink(l->path); /* while it is held: who opens it now finds out that it is gone */
    (void)close(l->held - 1);
    l->held = 0;
}
