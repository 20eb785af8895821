/* streams_and_python.h: the test's own standard streams sent to a file while a command runs inside it, and Python run as a
 * child process. */
#ifndef SOSMC_TESTS_STREAMS_AND_PYTHON_H
#define SOSMC_TESTS_STREAMS_AND_PYTHON_H

#include <stddef.h>

typedef struct {
    int out, err; /* duplicates of the original streams */
} diverted_streams;
/* Sends both streams to the file, which is emptied first, until streams_restore. */
diverted_streams streams_divert(const char *file);
void streams_restore(diverted_streams kept);

/* Exit status of PYTHON A B C (NULL: no more words; 127: no Python), which is $SOSMC_TEST_PYTHON or else python3. What it
 * prints goes into `out` (NULL: to our standard output), its standard error into `log`. */
int python_run(const char *out, const char *log, const char *a, const char *b, const char *c);

/* Runs tests/files/real_packages.py VERB FOLDER. The test fails when the script does; it is skipped, with the reason, where the
 * script, numpy or safetensors is absent. The log stays in the folder. */
void python_packages(const char *folder, const char *verb);

#endif
