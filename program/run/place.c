/* place.c: see place.h. */
#include "place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/directory.h"
#include "runfile/schema.h"

const char *const place_names[PLACE_NAMES] = {
    "run.yaml",      "trace.csv",      "timing.csv",           "checkpoint", "checkpoint.previous",
    "summary.json",  "theta.npy",      "report.html",          "model.npz",  "model.safetensors",
    "particles.npz", "evaluation.csv", "samples.npy",          "mean.npy",   "moments.npz",
    "sd.npy",        "inputs.json",    "moments.previous.npz", "figures"};

/* Whether DIR/NAME is a file that begins with these bytes. */
static int begins_with(const char *dir, const char *name, const char *start)
{
    char path[FILES_PATH], there[64];
    size_t n = strlen(start);
    if (files_join(path, dir, name, NULL, 0)) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* no stream, which would need memory */
    int same = fd >= 0 && read(fd, there, n) == (ssize_t)n && memcmp(there, start, n) == 0;
    if (fd >= 0) (void)close(fd);
    return same;
}

int place_refuse_odd(const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    for (int i = 0; i < PLACE_NAMES; i++)
        if (strcmp(place_names[i], "figures") != 0 &&
            (files_join(path, dir, place_names[i], error, room) || directory_regular(path, error, room)))
            return -1;
    return 0;
}

int place_is_ours(const place *p)
{
    static const char checkpoint[] = "SOSMCKP\n";
    return (p->lock && p->lock->left) || begins_with(p->dir, "run.yaml", SCHEMA_RESOLVED) ||
           begins_with(p->dir, "checkpoint", checkpoint) || begins_with(p->dir, "checkpoint.previous", checkpoint);
}

static int refuse_foreign(const char *dir, const char *const *name, int names, char *error, size_t room)
{
    char path[FILES_PATH];
    struct stat st;
    for (int i = 0; i < names; i++) {
        if (files_join(path, dir, name[i], error, room)) return -1;
        if (lstat(path, &st)) continue;
        return files_fail(error, room,
                          "%s is there, and no run of this program made it; choose another --out, or replace it with "
                          "--overwrite",
                          path);
    }
    return 0;
}

int place_refuse_foreign(const place *p, char *error, size_t room)
{
    if (place_is_ours(p)) return 0;
    return refuse_foreign(p->dir, place_names, PLACE_NAMES, error, room) ||
                   refuse_foreign(p->dir, p->more, p->names, error, room)
               ? -1
               : 0;
}

int place_check(const place *p, const config *c, const inputs *in, char *error, size_t room)
{
    int own = config_is_resolved_file(c) && !(p->overwrite && !p->resume);
    if (inputs_clash(in, c, p->dir, place_names, PLACE_NAMES, own, error, room) ||
        inputs_clash(in, c, p->dir, p->more, p->names, 0, error, room))
        return -1;
    return p->overwrite ? 0 : place_refuse_foreign(p, error, room);
}

void place_default(const char *file, char out[FILES_PATH])
{
    const char *slash = strrchr(file, '/');
    (void)snprintf(out, FILES_PATH, "%s", slash ? slash + 1 : file);
    char *dot = strrchr(out, '.');
    if (dot && dot != out) *dot = 0;
    if (strcmp(out, "-") == 0) (void)snprintf(out, FILES_PATH, "run");
}
