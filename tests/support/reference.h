/* reference.h: reference data: files of the folder that SOSMC_TEST_DATA names, which may be absent, and of experiments/. */
#ifndef SOSMC_TESTS_REFERENCE_H
#define SOSMC_TESTS_REFERENCE_H

#include <stddef.h>

/* The path of a file or folder in it, or NULL after a message that it is missing. The results of the last four calls stay
 * valid. */
const char *reference_find(const char *name);
/* The same, but the test is skipped where it is missing. */
const char *reference_file(const char *name);
/* Reads a file of exactly n doubles; the test is skipped where it is missing. */
void reference_doubles(const char *name, size_t n, double *x);

#endif
