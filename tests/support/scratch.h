/* scratch.h: for tests that read and write files: a temporary folder, and the error message of the last failure. */
#ifndef SOSMC_TESTS_SCRATCH_H
#define SOSMC_TESTS_SCRATCH_H

#include <stddef.h>

#include "folder.h"

extern char scratch[FOLDER_ROOM]; /* the path of the folder */
extern char sentence[2048];       /* "" until something fails */
#define ERROR sentence, sizeof sentence

/* Set-up and tear-down functions of a cmocka group. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* A name is that of a file in the folder; the results of the last four calls of `at` stay valid. */
const char *at(const char *name);
int is_there(const char *name);
void write_raw(const char *name, const void *bytes, size_t n);
void write_text(const char *name, const char *text);
char *slurp(const char *name, size_t *size); /* with a NUL behind it, the caller frees; size may be NULL */
void assert_same_file(const char *a, const char *b);

void assert_fine(int status);       /* 0, or the test fails with the sentence */
void assert_says(const char *part); /* the sentence holds it */

#endif
