/* folder.c: see folder.h. Removal goes through rm, which knows every kind of file a test may leave; by its full name, because
 * a test may have changed PATH. */
#include "folder.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int folder_make(char folder[FOLDER_ROOM], const char *name)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
    (void)snprintf(folder, FOLDER_ROOM, "%s/%s_XXXXXX", base, name);
    return mkdtemp(folder) ? 0 : -1;
}

int folder_remove(const char *folder)
{
    char name[] = "/bin/rm", flags[] = "-rf", path[FOLDER_ROOM];
    char *argv[] = {name, flags, path, NULL};
    pid_t child;
    int status = -1;
    (void)snprintf(path, sizeof path, "%s", folder);
    if (posix_spawn(&child, name, NULL, NULL, argv, environ)) return -1;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

const char *folder_path(const char *folder, const char *name)
{
    enum { ANSWERS = 4, ROOM = 4096 };
    static char path[ANSWERS][ROOM];
    static int turn;
    char *out = path[turn++ % ANSWERS];
    int length = snprintf(out, ROOM, "%s/%s", folder, name);
    if (length < 0 || length >= ROOM) abort(); /* a test's own mistake */
    return out;
}
