/* share.c: where files are that come with the program. */
#include "share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int share_make_folder(const char *path, char absolute[FILES_PATH], char *error, size_t room)
{
    char *here = *path == '/' ? NULL : realpath(".", NULL);
    int plain = files_is_utf8(path) && (!here || files_is_utf8(here));
    free(here);
    if (!plain)
        return files_fail(
            error, room,
            "%s is a folder whose name, or that of a folder above it, is not valid UTF-8, and run files could not "
            "name what is in it; choose another",
            path);
    if (files_directory(path, error, room)) return -1;
    if (!realpath(path, absolute)) return files_fail(error, room, "cannot find %s: %s", path, strerror(errno));
    return 0;
}

int share_look(const char *dir, const char *name, const char *ending, char out[FILES_PATH])
{
    char file[64];
    (void)snprintf(file, sizeof file, "%s.%s", name, ending);
    if (files_join(out, dir, file, NULL, 0) == 0 && access(out, R_OK) == 0) return 1;
    out[0] = 0;
    return 0;
}

int share_place(const char *name, int (*has)(const void *context, const char *dir), const void *context,
                char out[FILES_PATH])
{
    static const char *const from_program[] = {SOSMC_SHARE_FROM_BIN, "share/sosmc"}; /* installed; in a build tree */
    char here[FILES_PATH], dir[2 * FILES_PATH];
    const char *share = getenv("SOSMC_SHARE");
    if (share && *share && files_join(dir, share, name, NULL, 0) == 0 && has(context, dir) && realpath(dir, out))
        return 0;
    ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    here[n > 0 ? n : 0] = 0;
    char *slash = strrchr(here, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof from_program / sizeof *from_program; i++) {
        (void)snprintf(dir, sizeof dir, "%s/%s/%s", here, from_program[i], name);
        if (has(context, dir) && realpath(dir, out)) return 0;
    }
    return -1;
}

static int holds(const void *context, const char *dir)
{
    char path[FILES_PATH];
    return files_join(path, dir, context, NULL, 0) == 0 && access(path, R_OK) == 0;
}

int share_find(const char *name, const char *file, char dir[FILES_PATH]) { return share_place(name, holds, file, dir); }
