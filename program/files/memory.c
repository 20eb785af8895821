/* memory.c: see memory.h. */
#include "memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "files.h"

/* ---------------------------------------------------------------------------- numbers in files of the system */

/* The number behind `word` at the beginning of a line of PATH, or, where that is empty, in its first line; NaN: there is none. */
static double number_in(const char *path, const char *word)
{
    char line[256];
    double value = NAN;
    size_t length = strlen(word);
    FILE *f = fopen(path, "re");
    while (f && isnan(value) && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, word, length) != 0) continue;
        double read = strtod(line + length, &end);
        if (end == line + length || !(read >= 0)) break; /* "max": no limit */
        value = read;
    }
    if (f) (void)fclose(f);
    return value;
}

static double number_of(const char *dir, const char *name, const char *word)
{
    char path[FILES_PATH];
    return files_join(path, dir, name, NULL, 0) ? NAN : number_in(path, word);
}

static void limit(memory_left *out, double bytes, const char *why, const char *name)
{
    if (!(bytes < out->bytes)) return; /* also NaN */
    out->bytes = fmax(bytes, 0);
    (void)snprintf(out->why, sizeof out->why, why, name);
}

/* ---------------------------------------------------------------------------- control groups */

/* The files of a control group, by version. */
typedef struct {
    const char *mount[2]; /* where the tree is mounted: the first that has the group's files counts */
    const char *limit, *used, *cache[2];
} cgroup_files;
static const cgroup_files version_2 = {.mount = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
                                       .limit = "memory.max",
                                       .used = "memory.current",
                                       .cache = {"inactive_file ", "active_file "}};
static const cgroup_files version_1 = {.mount = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"},
                                       .limit = "memory.limit_in_bytes",
                                       .used = "memory.usage_in_bytes",
                                       .cache = {"total_inactive_file ", "total_active_file "}};

/* What may still be taken in the group DIR. The cache of files counts as used there, but goes where memory is wanted. */
static void limit_by_group(const cgroup_files *v, const char *dir, memory_left *out)
{
    double most = number_of(dir, v->limit, ""), used = number_of(dir, v->used, ""), cache = 0;
    for (int i = 0; i < 2; i++) {
        double part = number_of(dir, "memory.stat", v->cache[i]);
        if (part > 0) cache += part;
    }
    if (!(most < 0x1p60) || isnan(used)) return; /* version 1 writes "no limit" as a very large number */
    limit(out, most - fmax(used - cache, 0), " below the limit of the control group %.160s", dir);
}

/* PATH of /proc/self/cgroup and all groups above it. One of another name space, which is not mounted here, has no files. */
static void limit_by_groups(const cgroup_files *v, const char *root, const char *path, memory_left *out)
{
    for (int i = 0; i < 2; i++) {
        char dir[2 * FILES_PATH];
        size_t top = (size_t)snprintf(dir, sizeof dir, "%s%s", root, v->mount[i]);
        if (top >= FILES_PATH) return;
        (void)snprintf(dir + top, sizeof dir - top, "%s", strcmp(path, "/") == 0 ? "" : path);
        for (;;) {
            limit_by_group(v, dir, out);
            char *slash = strrchr(dir + top, '/');
            if (!slash) break;
            *slash = 0;
        }
    }
}

/* Lines are "0::/PATH" (version 2) and "4:memory:/PATH", perhaps with more names beside memory (version 1). */
static void find_groups(const char *root, memory_left *out)
{
    char file[FILES_PATH], line[FILES_PATH];
    if (snprintf(file, sizeof file, "%s/proc/self/cgroup", root) >= (int)sizeof file) return;
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || path[1] != '/') continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        int second = strcmp(names, ":") == 0, first = 0;
        for (char *rest = NULL, *name = strtok_r(names, ":,", &rest); name; name = strtok_r(NULL, ":,", &rest))
            first |= strcmp(name, "memory") == 0;
        if (second || first) limit_by_groups(second ? &version_2 : &version_1, root, path, out);
    }
    if (f) (void)fclose(f);
}

/* ---------------------------------------------------------------------------- the process */

/* Field `k` of /proc/self/statm in bytes: 0 all of its address space, 1 what is resident, 5 its data; NaN: not known. */
static double statm(const char *root, int k)
{
    char file[FILES_PATH], line[256] = "";
    if (snprintf(file, sizeof file, "%s/proc/self/statm", root) >= (int)sizeof file) return NAN;
    FILE *f = fopen(file, "re");
    int rc = f && fgets(line, sizeof line, f) ? 0 : -1;
    if (f) (void)fclose(f);
    char *at = line;
    double value = NAN;
    for (int i = 0; i <= k && rc == 0; i++) {
        char *end;
        value = strtod(at, &end);
        if (end == at) rc = -1;
        at = end;
    }
    return rc ? NAN : value * (double)sysconf(_SC_PAGESIZE);
}

double memory_resident(const char *root)
{
    double bytes = statm(root, 1);
    return bytes > 0 ? bytes : 0;
}

static void limit_by_process(const char *root, memory_left *out)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        limit(out, (double)r.rlim_cur - statm(root, 0), " below %s", "the limit of the address space (ulimit -v)");
    if (getrlimit(RLIMIT_DATA, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        limit(out, (double)r.rlim_cur - statm(root, 5), " below %s", "the limit of data (ulimit -d)");
}

/* ---------------------------------------------------------------------------- all of it */

/* SOSMC_MEMORY: 0 with *bytes, or -1. */
static int read_wish(const char *wish, double *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(wish, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == wish || !(value >= 0) || isinf(value) || (*end && (!unit || end[1]))) return -1;
    for (long k = unit ? unit - units + 1 : 0; k > 0; k--) value *= 1000;
    *bytes = value;
    return 0;
}

int memory_find(const char *root, memory_left *out, char *error, size_t room)
{
    const char *wish = getenv("SOSMC_MEMORY");
    char file[FILES_PATH];
    double bytes;
    *out = (memory_left){.bytes = INFINITY};
    if (wish && *wish) {
        if (read_wish(wish, &bytes))
            return files_fail(
                error, room,
                "the environment variable SOSMC_MEMORY is '%.60s'; expected a number of bytes, perhaps with K, M, "
                "G or T behind it",
                wish);
        limit(out, bytes, " by %s", "SOSMC_MEMORY");
        return 0;
    }
    if (snprintf(file, sizeof file, "%s/proc/meminfo", root) < (int)sizeof file)
        limit(out, 1024 * number_in(file, "MemAvailable:"), "%s", "");
    find_groups(root, out);
    limit_by_process(root, out);
    return 0;
}

const char *memory_number(double bytes, char out[MEMORY_NUMBER])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    int k = 0;
    double value = bytes / 1e3;
    for (; value >= 999.5 && k < 5; k++) value /= 1000;
    (void)snprintf(out, MEMORY_NUMBER,
                   value < 9.995   ? "%.2f %s"
                   : value < 99.95 ? "%.1f %s"
                                   : "%.0f %s",
                   value, units[k]);
    return out;
}

int memory_check(const char *what, double bytes, const char *advice, char *error, size_t room)
{
    memory_left left;
    char needed[MEMORY_NUMBER], there[MEMORY_NUMBER];
    if (memory_find("", &left, error, room)) return -1;
    if (bytes <= left.bytes) return 0;
    errno = 0; /* nothing was asked for: this is no want of memory that happened */
    return files_fail(error, room, "%s needs %s of memory, and %s are free%s%s%s", what, memory_number(bytes, needed),
                      memory_number(left.bytes, there), left.why, *advice ? "; " : "", advice);
}
