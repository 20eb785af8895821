/* pool.h: memory of one figure, let go in one call. A pool that got none remembers: look once, at the end. */
#ifndef CLI_POOL_H
#define CLI_POOL_H

#include <stddef.h>

struct pool_block;
typedef struct {
    struct pool_block *first;
    int failed;
} pool; /* begin with {0} */

void *pool_take(pool *p, int n, size_t size); /* zeros; NULL: none was to be had */
double *pool_doubles(pool *p, int n);
enum { POOL_WORDS = 128 };
char *pool_words(pool *p, const char *format, ...) __attribute__((format(printf, 2, 3))); /* cut at POOL_WORDS */
void pool_free(pool *p);

#endif
