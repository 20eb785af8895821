/* arena.h: an arena holds all memory of one figure; arena_free frees it together. A failed allocation sets `failed`, so a caller
 * may check that once, at the end. */
#ifndef SOSMC_VIEW_ARENA_H
#define SOSMC_VIEW_ARENA_H

#include <stddef.h>

struct arena_block;
typedef struct {
    struct arena_block *first;
    int failed;
} arena; /* begin with {0} */

void *arena_take(arena *p, int n, size_t size); /* n items, filled with zeros; NULL: out of memory */
double *arena_doubles(arena *p, int n);
enum { ARENA_WORDS = 128 };
char *arena_words(arena *p, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* truncated to ARENA_WORDS bytes */
void arena_free(arena *p);

#endif
