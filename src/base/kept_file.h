/* kept_file.h: files that survive a crash at any moment.
 *
 * The bytes go to a temporary and to the disk; then PATH becomes PATH.previous and the temporary becomes PATH. Whenever the machine
 * stops, PATH or PATH.previous is whole.
 *
 * The temporary is PATH.XXXXXXXXXXXXXXXX.tmp with random digits. It must not be there before and is no link, so nobody can lead the
 * bytes elsewhere. It is locked (flock) while it is written: one whose lock is free was left by a process that died, and the next
 * writer removes it. */
#ifndef SOSMC_BASE_KEPT_FILE_H
#define SOSMC_BASE_KEPT_FILE_H

#include <stddef.h>

enum { KEPT_BUFFER = 32768, KEPT_PATH = 4096 };

typedef struct {
    int fd, error;       /* errno of what went wrong, or 0 */
    const char *verb;    /* what could not be done: "create", "write", "rename", "open" */
    const char *subject; /* and to which file: one of the names below */
    size_t used, filled; /* bytes waiting to be written; bytes read ahead and how many of them are used */
    char temporary[KEPT_PATH], previous[KEPT_PATH], path[KEPT_PATH];
    _Alignas(8) char buffer[KEPT_BUFFER]; /* entries of a directory are read into it too */
} kept_file;

/* Fills the names. -1: the path is empty or too long. */
int sosmc_i_kept_names(kept_file *f, const char *path);
/* Removes temporaries of the dead and opens a new one, for sosmc_i_kept_put. */
int sosmc_i_kept_create(kept_file *f);
/* Opens PATH (which 0) or PATH.previous (1), for sosmc_i_kept_get. */
int sosmc_i_kept_open(kept_file *f, int which);
/* sosmc_write and sosmc_read; ctx is the kept_file. */
int sosmc_i_kept_put(void *ctx, const void *bytes, size_t n);
int sosmc_i_kept_get(void *ctx, void *bytes, size_t n);
/* To the disk, and then into place. */
int sosmc_i_kept_place(kept_file *f);
/* Closes it; `spoilt`: the temporary goes too. */
void sosmc_i_kept_close(kept_file *f, int spoilt);
/* "cannot VERB SUBJECT: why" */
void sosmc_i_kept_words(const kept_file *f, char *text, size_t room);

#endif
