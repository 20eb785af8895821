/* arena.c: a list of blocks. Invariant: a block is neither moved nor freed before arena_free. */
#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct arena_block {
    struct arena_block *next;
    double room[]; /* doubles, so that the block is aligned for any type */
};

void *arena_take(arena *p, int n, size_t size)
{
    struct arena_block *b = calloc(1, sizeof *b + ((size_t)(n > 0 ? n : 0) + 1) * size);
    if (!b) {
        p->failed = 1;
        return NULL;
    }
    b->next = p->first;
    p->first = b;
    return b->room;
}

double *arena_doubles(arena *p, int n) { return arena_take(p, n, sizeof(double)); }

char *arena_words(arena *p, const char *format, ...)
{
    char *text = arena_take(p, ARENA_WORDS, 1);
    if (!text) return NULL;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, ARENA_WORDS, format, list);
    va_end(list);
    return text;
}

void arena_free(arena *p)
{
    for (struct arena_block *b = p->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *p = (arena){.first = NULL};
}
