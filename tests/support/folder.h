/* folder.h: a folder of the test's own, gone when the test ends. */
#ifndef SOSMC_TESTS_FOLDER_H
#define SOSMC_TESTS_FOLDER_H

enum { FOLDER_ROOM = 256 };

/* Makes NAME_XXXXXX and puts its path into `folder`; in memory where there is such a place: flushes to a busy disk take
 * long. 0 for success, as cmocka's set-up functions want it. */
int folder_make(char folder[FOLDER_ROOM], const char *name);
int folder_remove(const char *folder);
/* FOLDER/NAME; the last four answers stay valid. */
const char *folder_path(const char *folder, const char *name);

#endif
