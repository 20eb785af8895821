/* checkpoint_files.h: checkpoint files in a folder of the test's own, beside an engine and the record of its run. */
#ifndef SOSMC_TESTS_CHECKPOINT_FILES_H
#define SOSMC_TESTS_CHECKPOINT_FILES_H

#include "record.h"

enum { NAME_ROOM = 512 };

typedef struct {
    char dir[NAME_ROOM / 4], path[NAME_ROOM / 2], previous[NAME_ROOM], tmp[NAME_ROOM];
} place;

place place_new(void);
void place_free(const place *p); /* fails the test when there is a file that nobody asked for */
int place_exists(const char *path);
void place_write(const char *path, const void *bytes, size_t n);
void place_save(sosmc *s, const place *p);
void assert_file_is(const char *path, const memory *expected);

/* Iteration 3 in PATH.previous, iteration 4 in PATH, an engine at iteration 1. */
typedef struct {
    place p;
    world w;
    record *r;
    sosmc *s;
} desk;

desk desk_new(int which);
void desk_free(desk *d);
/* Fails to save at d->p.path, and the two files stay what they are. */
void assert_not_saved(desk *d, sosmc_status expected);

#endif
