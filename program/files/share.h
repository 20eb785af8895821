/* share.h: folders of files: the one a user wants results in, and those that come with the program (models, run files, a
 * photograph). */
#ifndef SOSMC_FILES_SHARE_H
#define SOSMC_FILES_SHARE_H

#include <stddef.h>

#include "files.h"

/* Makes the folder; `absolute` is its name from the root. 0, or -1 with a sentence. */
int share_make_folder(const char *path, char absolute[FILES_PATH], char *error, size_t room);
/* DIR/NAME.ENDING when it can be read: 1, else 0 and an empty `out`. */
int share_look(const char *dir, const char *name, const char *ending, char out[FILES_PATH]);
/* The first of the places where files come with the program (see below) that holds the file NAME/FILE. 0, or -1: none. */
int share_find(const char *name, const char *file, char dir[FILES_PATH]);
/* The first of the places where files come with the program of which `has` is true; absolute. They are $SOSMC_SHARE/NAME and
 * ../share/sosmc/NAME, seen from the folder of the program that runs: an installed tree may be moved. 0, or -1: none. */
int share_place(const char *name, int (*has)(const void *context, const char *dir), const void *context,
                char out[FILES_PATH]);

#endif
