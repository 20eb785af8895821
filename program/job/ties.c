/* ties.c: see ties.h. */
#include "ties.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 20, MANY_ROWS = 200 }; /* fewer values than these in more rows than those are next to none */
static const double SHARE = 0.05;      /* largest share of equal rows that is not spoken of */

int ties_all_same(const double *x, int64_t rows, int dim)
{
    int same = rows > 1;
    for (int64_t i = dim; i < rows * dim && same; i++) same = x[i] == x[i - dim];
    return same;
}

/* How many values a column has, at most VALUES. */
static int count_values(const double *x, int64_t rows, int dim)
{
    double seen[VALUES];
    int n = 0;
    for (int64_t i = 0; i < rows && n < VALUES; i++) {
        int k = 0;
        while (k < n && seen[k] != x[i * dim]) k++;
        if (k == n) seen[n++] = x[i * dim];
    }
    return n;
}

/* FNV-1a over the bytes, with one zero. Two rows of a million that differ have the same with a probability of 3e-8. */
static uint64_t hash_row(const double *x, int dim)
{
    uint64_t hash = 14695981039346656037u;
    for (int j = 0; j < dim; j++) {
        unsigned char byte[sizeof(double)];
        double v = x[j] == 0 ? 0 : x[j];
        memcpy(byte, &v, sizeof v);
        for (size_t k = 0; k < sizeof v; k++) hash = (hash ^ byte[k]) * 1099511628211u;
    }
    return hash;
}

static int compare(const void *a, const void *b)
{
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p > q) - (p < q);
}

/* Rows that have an equal one; -1: no memory. */
static int64_t count_equal(const double *x, int64_t rows, int dim)
{
    uint64_t *hash = malloc(((size_t)rows + 1) * sizeof *hash);
    int64_t equal = 0;
    if (!hash) return -1;
    for (int64_t i = 0; i < rows; i++) hash[i] = hash_row(x + i * dim, dim);
    qsort(hash, (size_t)rows, sizeof *hash, compare);
    for (int64_t i = 0; i < rows; i++)
        equal += (i > 0 && hash[i] == hash[i - 1]) || (i + 1 < rows && hash[i] == hash[i + 1]);
    free(hash);
    return equal;
}

#define UNBOUNDED "a density can be made as large as one likes there, so that the log-likelihood means little; "

int ties_words(const double *x, int64_t rows, int dim, char *out, size_t room)
{
    *out = 0;
    for (int j = 0; j < dim && rows > 1; j++) {
        int values = count_values(x + j, rows, dim);
        if (values > 1 && (values == VALUES || rows <= MANY_ROWS)) continue;
        if (values == 1)
            (void)snprintf(out, room,
                           "column %d has the same value in all %" PRId64 " points: " UNBOUNDED "leave it out", j + 1,
                           rows);
        else
            (void)snprintf(out, room,
                           "column %d has only %d different values in %" PRId64 " points: " UNBOUNDED
                           "leave it out, or add noise as fine as its rounding",
                           j + 1, values, rows);
        return 1;
    }
    int64_t equal = count_equal(x, rows, dim);
    if (equal < 0) return -1;
    if (!((double)equal > SHARE * (double)rows)) return 0;
    (void)snprintf(out, room,
                   "%.0f %% of the %" PRId64 " points are equal to another one: " UNBOUNDED
                   "leave copies out, or add noise as fine as the rounding",
                   100 * (double)equal / (double)rows, rows);
    return 1;
}
