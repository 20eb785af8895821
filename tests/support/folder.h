/* folder.h: a temporary folder of one test. */
#ifndef SOSMC_TESTS_FOLDER_H
#define SOSMC_TESTS_FOLDER_H

enum { FOLDER_ROOM = 256 };

/* Makes a folder NAME_XXXXXX and puts its path into `folder`. The folder is in memory where the system has such a place,
 * because flushes to a busy disk take long. Returns 0 for success, as cmocka's set-up functions must. */
int folder_make(char folder[FOLDER_ROOM], const char *name);
int folder_remove(const char *folder);
/* FOLDER/NAME; the results of the last four calls stay valid. */
const char *folder_path(const char *folder, const char *name);

#endif
