/* ties.h: points on which a density can be made as large as one likes: equal ones, and columns with few values. */
#ifndef SOSMC_JOB_TIES_H
#define SOSMC_JOB_TIES_H

#include <stddef.h>
#include <stdint.h>

/* Whether there are at least two points (rows of dim numbers), and all are the same. */
int ties_all_same(const double *x, int64_t rows, int dim);

/* Writes a sentence and returns 1 where a column has no spread or next to no values, or many points are equal; 0: none of this, and `out` is
 * empty. -1: no memory. */
int ties_words(const double *x, int64_t rows, int dim, char *out, size_t room);

#endif
