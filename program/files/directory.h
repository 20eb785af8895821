/* directory.h: directories that somebody else may have prepared. The path that a user names may lead through links; what is
 * written inside it never does, because each file is opened relative to the descriptor of its folder, without following links.
 *
 * Temporary files are NAME.XXXXXXXXXXXXXXXX.tmp with sixteen random hexadecimal digits, so that nobody can put a link or a file
 * in their place beforehand. */
#ifndef SOSMC_FILES_DIRECTORY_H
#define SOSMC_FILES_DIRECTORY_H

#include <stddef.h>

enum { DIRECTORY_SUFFIX = 22 }; /* bytes that a temporary name adds, and a NUL */

/* The descriptor of the directory that holds PATH; -1: errno says why not. *name is the last part of PATH. */
int directory_of(const char *path, const char **name);
/* The descriptor of the folder PATH, which is made where it is missing. It belongs to a directory of ours, so a link is refused;
 * the directory above it may be one. -1 with a sentence. */
int directory_folder(const char *path, char *error, size_t room);
int directory_make(const char *path, char *error, size_t room); /* the same without the descriptor: 0, or -1 */

/* Creates and opens NAME.XXXXXXXXXXXXXXXX.tmp in the directory, and appends what the name has more to `name`, which has
 * DIRECTORY_SUFFIX bytes of room behind it. -1: errno says why not. */
int directory_temporary(int directory, char *name);
/* Removes the temporary files that a process left which was killed, from a directory that nobody writes to and from `depth`
 * levels of folders in it. */
void directory_sweep(const char *path, int depth);

/* 0 where PATH is a regular file, or a link to one, or not there; -1 with a sentence where it is a FIFO, a device or something
 * else that a reader could wait on for ever. */
int directory_regular(const char *path, char *error, size_t room);
/* The same without links, for a file that is to be opened for writing. */
int directory_no_link(const char *path, char *error, size_t room);

#endif
