/* directory.c: see directory.h. */
#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { DIGITS = 16, TRIES = 100 };
static const char ENDING[] = ".tmp";

int directory_of(const char *path, const char **name)
{
    char parent[FILES_PATH] = ".";
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    size_t length = slash == path ? 1 : (size_t)(*name - path);
    if (length >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (slash) {
        memcpy(parent, path, length);
        parent[length] = 0;
    }
    return open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int directory_folder(const char *path, char *error, size_t room)
{
    const char *name;
    int above = directory_of(path, &name);
    if (above < 0) return files_cannot("open", path, errno, error, room);
    int made = mkdirat(above, name, 0777) == 0 || errno == EEXIST, number = errno;
    int folder = made ? openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (made) number = errno;
    (void)close(above);
    if (folder >= 0) return folder;
    if (!made) return files_cannot("create", path, number, error, room);
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return files_fail(error, room, "%s is a link; nothing is written through links in a directory of results",
                          path);
    return files_cannot("open", path, number, error, room);
}

int directory_make(const char *path, char *error, size_t room)
{
    int folder = directory_folder(path, error, room);
    return folder < 0 ? -1 : close(folder);
}

int directory_temporary(int directory, char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < TRIES; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) break;
        (void)snprintf(name + length, DIRECTORY_SUFFIX, ".%016" PRIx64 "%s", random, ENDING);
        int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static int is_temporary(const char *name)
{
    size_t n = strlen(name), end = sizeof ENDING - 1;
    if (n <= end + DIGITS + 1 || strcmp(name + n - end, ENDING) != 0) return 0;
    const char *digits = name + n - end - DIGITS;
    return digits[-1] == '.' && strspn(digits, "0123456789abcdef") == DIGITS;
}

/* Takes over the descriptor. Links are not followed. */
static void sweep(int directory, int depth)
{
    DIR *d = directory >= 0 ? fdopendir(directory) : NULL;
    if (!d && directory >= 0) (void)close(directory);
    // cppcheck-suppress readdirCalled ; nobody else reads this stream
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (is_temporary(e->d_name))
            (void)unlinkat(directory, e->d_name, 0);
        else if (depth > 0 && e->d_name[0] != '.')
            sweep(openat(directory, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth - 1);
    }
    if (d) (void)closedir(d);
}

void directory_sweep(const char *path, int depth) { sweep(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth); }

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)   ? "a FIFO"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISLNK(mode)  ? "a link"
                            : "a device";
}

static int expect_regular(const char *path, int known, const struct stat *st, char *error, size_t room)
{
    if (!known || S_ISREG(st->st_mode)) return 0;
    return files_fail(error, room, "%s is %s; expected a file of the run, or nothing", path, kind_of(st->st_mode));
}

int directory_regular(const char *path, char *error, size_t room)
{
    struct stat st = {0};
    return expect_regular(path, stat(path, &st) == 0, &st, error, room);
}

int directory_no_link(const char *path, char *error, size_t room)
{
    struct stat st = {0};
    return expect_regular(path, lstat(path, &st) == 0, &st, error, room);
}
