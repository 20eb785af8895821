/* pool.c: a list of blocks. Invariant: what was taken lives until pool_free, wherever it is pointed to from. */
#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct pool_block {
    struct pool_block *next;
    double room[]; /* of doubles, so that anything may stand there */
};

void *pool_take(pool *p, int n, size_t size)
{
    struct pool_block *b = calloc(1, sizeof *b + ((size_t)(n > 0 ? n : 0) + 1) * size);
    if (!b) {
        p->failed = 1;
        return NULL;
    }
    b->next = p->first;
    p->first = b;
    return b->room;
}

double *pool_doubles(pool *p, int n) { return pool_take(p, n, sizeof(double)); }

char *pool_words(pool *p, const char *format, ...)
{
    char *text = pool_take(p, POOL_WORDS, 1);
    if (!text) return NULL;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, POOL_WORDS, format, list);
    va_end(list);
    return text;
}

void pool_free(pool *p)
{
    for (struct pool_block *b = p->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *p = (pool){.first = NULL};
}
