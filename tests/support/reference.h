/* reference.h: reference data: the folder that SOSMC_TEST_DATA names, which need not be there, and what comes with the project in
 * experiments/. */
#ifndef SOSMC_TESTS_REFERENCE_H
#define SOSMC_TESTS_REFERENCE_H

#include <stddef.h>

/* The path of a file or folder in it, or NULL after saying what is missing. The last four answers stay valid. */
const char *reference_find(const char *name);
/* The same, but the test is skipped where there is none. */
const char *reference_file(const char *name);
/* A file of n doubles and nothing else; skips likewise. */
void reference_doubles(const char *name, size_t n, double *x);

#endif
