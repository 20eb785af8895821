/* streams_and_python.h: what a test sees from outside: the streams of a command that runs inside it, and Python beside it. */
#ifndef TEST_STREAMS_AND_PYTHON_H
#define TEST_STREAMS_AND_PYTHON_H

#include <stddef.h>

typedef struct {
    int out, err; /* where the streams went before */
} outside_streams;
/* Both streams go into the file, which begins empty, until they are restored. */
outside_streams outside_divert(const char *file);
void outside_restore(outside_streams kept);

/* Exit status of PYTHON A B C (NULL: no more words; 127: no Python), which is $SOSMC_TEST_PYTHON or else python3. What it
 * prints goes into `out` (NULL: where ours goes), what it complains about into `log`. */
int outside_python(const char *out, const char *log, const char *a, const char *b, const char *c);

/* Runs tests/cli/real_packages.py VERB FOLDER, which fails the test when it fails, and skips it, saying why, where the
 * script, numpy or safetensors is absent. Its log stays in the folder. */
void outside_packages(const char *folder, const char *verb);

#endif
