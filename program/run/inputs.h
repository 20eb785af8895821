/* inputs.h: the files that a run reads. They are never written to, and a run is continued only with the same ones: their sizes
 * and SHA-256 are kept in DIR/inputs.json. */
#ifndef SOSMC_RUN_INPUTS_H
#define SOSMC_RUN_INPUTS_H

#include <sys/types.h>

#include "files/files.h"
#include "files/sha256.h"
#include "runfile/config.h"

enum { INPUTS_MOST = 16, INPUTS_CHANGES = 32, INPUTS_NAME = 192 };

typedef struct {
    const char *key;  /* of the run file; "photo" and the like for what a command reads besides */
    const char *path; /* of a file, or of a folder of pictures */
    dev_t device;
    ino_t number;
    uint64_t size; /* bytes, in a folder of all pictures */
    char sum[SHA256_TEXT];
} input_file;

typedef struct {
    int n;
    input_file file[INPUTS_MOST];
    int known;   /* inputs_compare has found a record of the directory */
    int changes; /* of files in the life of the run, each accepted by its user */
    struct {
        char key[INPUTS_NAME], name[INPUTS_NAME]; /* name: the last part of the path */
        int64_t iteration;                        /* before which it changed */
    } change[INPUTS_CHANGES];
} inputs;

/* Finds the files: those of the keys of a resolved run file, and one besides, `also` (NULL: none), which is called `also_key`.
 * Keys and paths are borrowed from both. */
void inputs_find(inputs *in, const config *c, const char *also_key, const char *also);
/* Leaves out the files that the command makes itself: those that keys name and that are DIR/NAME. */
void inputs_drop(inputs *in, const char *dir, const char *name);
void inputs_drop_missing(inputs *in); /* leaves out the files that are not there yet */
/* Reads all of them for their sizes and sums. 0, or -1 with a sentence. */
int inputs_measure(inputs *in, char *error, size_t room);

/* Whether the files are those with which the run in `dir` began; one that has no record, as in directories of earlier versions,
 * passes. With `accept` a change is noted instead of refused, after the *before that were accepted earlier. 0, or -1 with a
 * sentence that names the file. */
int inputs_compare(inputs *in, const char *dir, int accept, int *before, char *error, size_t room);
/* The changes from the one number `first` on were met at this iteration. */
void inputs_changed_at(inputs *in, int first, int64_t iteration);
/* Writes DIR/inputs.json; nothing where the run reads no files. */
int inputs_write(const inputs *in, const char *dir, char *error, size_t room);
void inputs_tell(const inputs *in, json_writer *w); /* the list accepted_changes */

/* Whether one of these names in `dir`, or a file in DIR/figures, is one of the files or the run file itself; then -1 with a
 * sentence. `own_run_file`: DIR/run.yaml may be the run file, for a run that goes on. */
int inputs_clash(const inputs *in, const config *c, const char *dir, const char *const *name, int names,
                 int own_run_file, char *error, size_t room);

#endif
