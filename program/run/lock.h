/* lock.h: one writer for a directory of results.
 *
 * The lock is that of flock() on DIR/.sosmc.lock, a file with the process and the host that hold it. It ends with the process, so
 * one that a dead process left is simply taken, and the file goes when the lock is given back. */
#ifndef SOSMC_RUN_LOCK_H
#define SOSMC_RUN_LOCK_H

#include <stddef.h>

#include "files/files.h"

typedef enum {
    LOCK_TAKEN,
    LOCK_NONE, /* there are no locks here: the file system has none (a sentence, once
                * in the life of the process), or the directory may not be written (none) */
    LOCK_BUSY, /* a sentence names the process that writes there */
    LOCK_EIO   /* a sentence */
} lock_status;

typedef struct {
    int held; /* descriptor + 1; 0: none, so that a zeroed lock may be given back */
    int left; /* the file was there already, with its words: a process of ours was killed */
    char path[FILES_PATH];
} run_lock;

/* Takes the lock of a directory that exists. It is refused too where another thread of this process holds it. */
lock_status lock_take(run_lock *l, const char *dir, char *error, size_t room);
int lock_lost(const run_lock *l); /* the file of a lock that was taken has been removed or replaced */
void lock_give_back(run_lock *l); /* one that was not taken is fine */

#endif
