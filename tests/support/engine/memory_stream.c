/* memory_stream.c: see memory_stream.h. Reading beyond the end fails, and a call that fails does not move the position. */
#include "memory_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

int memory_put(void *ctx, const void *bytes, size_t n)
{
    memory *m = ctx;
    if (++m->calls == m->fail_at) return -1;
    if (m->used + n > m->room) {
        m->room = 2 * (m->used + n);
        m->bytes = realloc(m->bytes, m->room);
        if (!m->bytes) return -1;
    }
    memcpy(m->bytes + m->used, bytes, n);
    m->used += n;
    return 0;
}

int memory_get(void *ctx, void *bytes, size_t n)
{
    memory *m = ctx;
    if (++m->calls == m->fail_at || m->at + n > m->used) return -1;
    memcpy(bytes, m->bytes + m->at, n);
    m->at += n;
    return 0;
}

sosmc_status memory_save(sosmc *s, memory *m)
{
    m->used = m->at = 0;
    m->calls = 0;
    return sosmc_save(s, memory_put, m);
}

sosmc_status memory_load(sosmc *s, memory *m)
{
    m->at = 0;
    m->calls = 0;
    return sosmc_load(s, memory_get, m);
}

void memory_must_save(sosmc *s, memory *m)
{
    if (memory_save(s, m) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

void memory_must_load(sosmc *s, memory *m)
{
    if (memory_load(s, m) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

int memory_same(const memory *a, const memory *b) { return a->used == b->used && !memcmp(a->bytes, b->bytes, a->used); }
