/* memory_stream.h: checkpoints in memory, whose reading and writing can be made to fail at any call. */
#ifndef SOSMC_TESTS_MEMORY_STREAM_H
#define SOSMC_TESTS_MEMORY_STREAM_H

#include <stddef.h>

#include <sosmc/sosmc.h>

/* Initialise with {.used = 0}; the caller frees `bytes`. */
typedef struct {
    char *bytes;
    size_t used, room, at;
    int calls, fail_at; /* the call that fails, counted from 1; 0: none */
} memory;

/* sosmc_write and sosmc_read, with a memory as context. */
int memory_put(void *ctx, const void *bytes, size_t n);
int memory_get(void *ctx, void *bytes, size_t n);

/* The whole stream, from its beginning. */
sosmc_status memory_save(sosmc *s, memory *m);
sosmc_status memory_load(sosmc *s, memory *m);
/* ... and the test fails when that does. */
void memory_must_save(sosmc *s, memory *m);
void memory_must_load(sosmc *s, memory *m);

int memory_same(const memory *a, const memory *b);

#endif
