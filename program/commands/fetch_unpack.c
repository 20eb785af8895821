/* fetch_unpack.c: some files out of a gzipped tar archive, each with a size and a checksum known beforehand.
 *
 * The program tar reads the archive: once for its names, then once for the bytes of each file, which it writes to a pipe. Its
 * arguments hold no path of ours, because tar takes some paths for names of other machines: the archive is its standard input.
 *
 * Invariant: new files stand under their temporary names until every sum has been found right; then all are renamed. The names
 * in the archive are compared and handed back to tar, and are never paths on the disk: bytes go under our names, no more of them
 * than we expect, give or take a buffer. */
#include "fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/child.h"
#include "files/files.h"
#include "terminal/interrupt.h"
#include "files/sha256.h"

enum { MOST_FILES = 16, CHUNK = 65536, NAME_ROOM = 1024, PATIENCE = 100 /* milliseconds */ };

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
    const char *path;
    char *error;
    size_t room;
    pid_t tar;
    int pipe; /* what tar writes */
    atomic_file out[MOST_FILES];
    int wanted[MOST_FILES], opened[MOST_FILES];
    char member[MOST_FILES][NAME_ROOM]; /* the file's name in the archive; empty: it has none */
} package;

/* ------------------------------------------------------------------------------------------------ tar */

/* In the child: lists the archive, or writes the member. Only calls that are safe between fork and exec. */
static void become_tar(int archive, int out, const char *member, pid_t parent)
{
    const char *list[] = {"tar", "-t", "-z", "-f", "-", NULL};
    const char *take[] = {"tar", "-x", "-z", "-O", "-f", "-", "--", member, NULL};
    child_begin(parent);
    (void)signal(SIGPIPE, SIG_DFL);
    int nothing = open("/dev/null", O_WRONLY);
    if (nothing < 0 || dup2(archive, 0) < 0 || dup2(out, 1) < 0 || dup2(nothing, 2) < 0) _exit(126);
    (void)execvp("tar", (char *const *)(uintptr_t)(member ? take : list));
    _exit(127);
}

static int make_pipe(int ends[2])
{
    if (pipe(ends)) return -1;
    for (int i = 0; i < 2; i++) (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    return 0;
}

/* Starts tar; member NULL: its names are asked for. */
static int start_tar(package *p, const char *member)
{
    uint64_t size = 0;
    int ends[2];
    FILE *archive = files_open(p->path, &size, p->error, p->room);
    if (!archive) return -1;
    if (make_pipe(ends)) {
        int number = errno;
        (void)fclose(archive);
        return files_cannot("start", "tar", number, p->error, p->room);
    }
    pid_t parent = getpid();
    p->tar = fork();
    if (p->tar == 0) become_tar(fileno(archive), ends[1], member, parent);
    int number = errno;
    if (p->tar > 0) child_note(p->tar);
    (void)fclose(archive);
    (void)close(ends[1]);
    p->pipe = ends[0];
    if (p->tar > 0) return 0;
    (void)close(ends[0]);
    return files_cannot("start", "tar", number, p->error, p->room);
}

/* At most n bytes of what tar writes; 0 at its end, -1 with a sentence. */
static ssize_t pull(const package *p, void *out, size_t n)
{
    struct pollfd ready = {.fd = p->pipe, .events = POLLIN};
    for (;;) {
        if (interrupt_requested()) return files_fail(p->error, p->room, "interrupted; nothing was written");
        int count = poll(&ready, 1, PATIENCE);
        ssize_t got = count > 0 ? read(p->pipe, out, n) : count;
        if (count > 0 && got >= 0) return got;
        if (got < 0 && errno != EINTR) return files_cannot("read what tar makes of", p->path, errno, p->error, p->room);
    }
}

/* Waits for tar. `last` is what pull returned last: unless 0, tar is stopped, and its own verdict does not count. */
static int end_tar(const package *p, ssize_t last)
{
    (void)close(p->pipe);
    if (last != 0) (void)kill(p->tar, SIGTERM);
    int status = fetch_wait(p->tar);
    if (last < 0) return -1;
    if (interrupt_requested()) return files_fail(p->error, p->room, "interrupted; nothing was written");
    if (last > 0 || (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)) return 0;
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return files_fail(p->error, p->room, "tar is not there or cannot run; install it, with gzip, to unpack %s",
                          p->path);
    return files_fail(p->error, p->room,
                      "%s is damaged, or no gzipped tar archive: its bytes end early or make no sense", p->path);
}

/* ------------------------------------------------------------------------------------------------ names and bytes */

/* Remembers the name if it is, behind any folders, that of a file that is wanted and has none yet. */
static void note_member(package *p, const char *name, const fetch_file *file, int files)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    for (int i = 0; i < files; i++)
        if (p->wanted[i] && !p->member[i][0] && !strcmp(last, file[i].name)) {
            (void)snprintf(p->member[i], NAME_ROOM, "%s", name);
            return;
        }
}

/* Finds the members, a line each of what tar lists. Names that are too long for us are passed over. */
static int find_members(package *p, const fetch_file *file, int files)
{
    char bytes[4096] = {0}, name[NAME_ROOM];
    size_t length = 0;
    ssize_t n = 1;
    if (start_tar(p, NULL)) return -1;
    while (n > 0) {
        n = pull(p, bytes, sizeof bytes);
        for (ssize_t k = 0; k < n; k++) {
            int ends = bytes[k] == '\n', fits = length < NAME_ROOM;
            if (fits) name[length++] = ends ? 0 : bytes[k];
            if (!ends) continue;
            if (fits) note_member(p, name, file, files);
            length = 0;
        }
    }
    return end_tar(p, n);
}

/* Takes the bytes of one file. A link has none, and counts as a file that is not there. */
static int take_member(package *p, int i, const fetch_file *file)
{
    unsigned char bytes[CHUNK];
    char sum[SHA256_TEXT];
    uint64_t size = 0;
    ssize_t n = 1;
    sha256 s;
    if (start_tar(p, p->member[i])) return -1;
    sha256_begin(&s);
    while (n > 0 && size <= file->size) {
        n = pull(p, bytes, sizeof bytes);
        if (n > 0) atomic_put(&p->out[i], bytes, (size_t)n);
        if (n > 0) sha256_add(&s, bytes, (size_t)n);
        if (n > 0) size += (uint64_t)n;
    }
    sha256_end(&s, sum);
    if (end_tar(p, n)) return -1;
    if (size == 0) p->member[i][0] = 0;
    if (size == 0 || (size == file->size && !strcmp(sum, file->sha256))) return 0;
    if (size == file->size)
        return files_fail(p->error, p->room, "%s in %s has the SHA-256 %s; expected %s, so nothing was written",
                          file->name, p->path, sum, file->sha256);
    return files_fail(
        p->error, p->room, "%s in %s has %s%" PRIu64 " bytes; expected %" PRIu64 ", so nothing was written", file->name,
        p->path, size > file->size ? "more than " : "", size > file->size ? file->size : size, file->size);
}

static int take_all(package *p, const char *dir, const fetch_file *file, int files)
{
    char path[FILES_PATH];
    if (find_members(p, file, files)) return -1;
    for (int i = 0; i < files; i++) {
        if (!p->member[i][0]) continue;
        if (files_join(path, dir, file[i].name, p->error, p->room) || atomic_open(&p->out[i], path, p->error, p->room))
            return -1;
        p->opened[i] = 1;
        if (take_member(p, i, &file[i])) return -1;
    }
    for (int i = 0; i < files; i++)
        if (p->wanted[i] && !p->member[i][0])
            return files_fail(p->error, p->room, "%s holds no %s", p->path, file[i].name);
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
    if (!status) status = settle(p, files, take_all(p, dir, file, files));
    free(p);
    return status;
}
