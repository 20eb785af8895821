/* place.h: the directory that a run is to be written to: whether it may be.
 *
 * A file that the run reads is never written to, and a file that no run of ours made is replaced only with --overwrite. */
#ifndef SOSMC_RUN_PLACE_H
#define SOSMC_RUN_PLACE_H

#include "inputs.h"
#include "lock.h"

/* The files that a run writes. The first PLACE_KEPT of them are replaced by every new run and need not be removed. */
enum { PLACE_KEPT = 3, PLACE_NAMES = 19 };
extern const char *const place_names[PLACE_NAMES];

/* The directory of a run file for which nobody chose one: path/to/x.yaml is run into x. */
void place_default(const char *file, char out[FILES_PATH]);

typedef struct {
    const char *dir;
    const run_lock *lock;    /* that of the directory */
    const char *const *more; /* names of files that the command writes besides those of a run; NULL: none */
    int names;               /* how many */
    int resume, overwrite;
} place;

/* -1 with a sentence where a FIFO, a device or a folder has the name of a file of a run: a reader could wait on it for ever. */
int place_refuse_odd(const char *dir, char *error, size_t room);
/* Whether the directory holds a run of ours, perhaps one that has hardly begun. */
int place_is_ours(const place *p);
/* -1 with a sentence where a file would be replaced that no run of ours made. */
int place_refuse_foreign(const place *p, char *error, size_t room);
/* 0 where a run with this run file and these files may be written there; -1 with a sentence. Nothing is changed. */
int place_check(const place *p, const config *c, const inputs *in, char *error, size_t room);

#endif
