/* fuzz_checkpoint.c: checkpoints. The first byte chooses the run that is asked to continue with the others. A stream that is
 * accepted must lead on: steps succeed or fail with a sentence, and a refused stream leaves the engine as it was.
 *
 * Checksums would hide all the rest from random mutation: most mutants get theirs put right, as an attacker would. */
#include "checkpoint_plan.h"

#include <string.h>

enum { CHECK = 280, HEAD = 288 }; /* the header's own sum, and where the header ends */

static uint64_t mix(const uint8_t *bytes, size_t n)
{
    uint64_t hash = 0x736f736d63000001u, word;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    uint64_t sum;
    if (seed % 8 == 0 || size < 1 + HEAD + 8) return LLVMFuzzerMutate(data, size, most);
    if (seed % 8 < 6) { /* numbers change, lengths do not: another length is never accepted */
        size_t at = (seed % 8 < 2 ? 1 : 1 + HEAD), room = size - at < 64 ? size - at : 64;
        at += (seed >> 3) % (size - at - room + 1);
        (void)LLVMFuzzerMutate(data + at, room, room);
    } else {
        size = LLVMFuzzerMutate(data, size, most);
    }
    if (size < 1 + HEAD + 8) return size;
    sum = mix(data + 1, CHECK);
    memcpy(data + 1 + CHECK, &sum, 8);
    sum = mix(data + 1, size - 9);
    memcpy(data + size - 8, &sum, 8);
    return size;
}

typedef struct {
    const uint8_t *at;
    size_t left;
} stream;

static int get(void *ctx, void *bytes, size_t n)
{
    stream *s = ctx;
    if (n > s->left) return -1;
    if (n) memcpy(bytes, s->at, n);
    s->at += n;
    s->left -= n;
    return 0;
}

static int put(void *ctx, const void *bytes, size_t n)
{
    *(size_t *)ctx += n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    stream s = {data + 1, size - 1};
    sosmc *engine = checkpoint_engine(data[0]);
    fuzz_must(engine != NULL, "the engine can be made");
    uint64_t before = sosmc_hash(engine);
    size_t saved = 0;
    sosmc_status status = sosmc_load(engine, get, &s);
    fuzz_judge(status, sosmc_message(engine));
    fuzz_must(status == SOSMC_OK || sosmc_hash(engine) == before, "a refused stream leaves the engine as it was");
    for (int i = 0; status == SOSMC_OK && i < 2; i++) {
        status = sosmc_step(engine);
        fuzz_judge(status, sosmc_message(engine));
    }
    if (status == SOSMC_OK) fuzz_judge(sosmc_save(engine, put, &saved), sosmc_message(engine));
    sosmc_free(engine);
    return 0;
}
