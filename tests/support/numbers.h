/* numbers.h: random numbers from a generator that is not the library's, and memory filled with NaN. */
#ifndef SOSMC_TESTS_NUMBERS_H
#define SOSMC_TESTS_NUMBERS_H

#include <stddef.h>

/* A cmocka set-up: every test sees the same numbers, whatever ran before it. */
int numbers_start(void **state);
double numbers_uniform(double a, double b);
int numbers_between(int a, int b); /* both included */

/* Aligned for vectors, exactly that long, and NaN as floats and as doubles; the caller frees it. */
void *numbers_room(size_t bytes);

#endif
