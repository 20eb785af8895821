/* checkpoint_files.h: a temporary folder for the checkpoint files of one test, and a run that has been saved in it. */
#ifndef SOSMC_TESTS_CHECKPOINT_FILES_H
#define SOSMC_TESTS_CHECKPOINT_FILES_H

#include "record.h"

enum { NAME_ROOM = 512 };

typedef struct {
    char dir[NAME_ROOM / 4], path[NAME_ROOM / 2], previous[NAME_ROOM], tmp[NAME_ROOM];
} checkpoint_folder;

checkpoint_folder checkpoint_folder_new(void);
void checkpoint_folder_free(const checkpoint_folder *p);     /* fails the test when another file is left in it */
int checkpoint_folder_leftovers(const checkpoint_folder *p); /* temporaries in it, by whomever */
int file_exists(const char *path);
void file_write(const char *path, const void *bytes, size_t n);
void checkpoint_folder_save(sosmc *s, const checkpoint_folder *p);
void assert_file_is(const char *path, const memory *expected);

/* PATH.previous holds iteration 3, PATH holds iteration 4, and the engine `s` stands at iteration 1. */
typedef struct {
    checkpoint_folder p;
    engine_case w;
    record *r;
    sosmc *s;
} saved_run;

saved_run saved_run_new(int which);
void saved_run_free(saved_run *d);
/* Asserts that saving at d->p.path fails with this status and leaves both files unchanged. */
void assert_not_saved(saved_run *d, sosmc_status expected);

#endif
