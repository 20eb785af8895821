/* fuzz.h: what the fuzzers share. Each of them hands bytes to one reader, as a file where the reader takes a path, and
 * holds it to what docs/fuzzing.md promises: it accepts, or it refuses with one sentence; nothing else may happen. */
#ifndef SOSMC_FUZZ_FUZZ_H
#define SOSMC_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_SENTENCE = 1024, FUZZ_PATH = 256 };

/* libFuzzer's interface. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* The path of NAME in a folder of this process, in memory where there is such a place, gone when the process ends. The last
 * four answers stay valid. */
const char *fuzz_path(const char *name);
/* The same with these bytes in it. */
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);
/* A copy that ends with a NUL; the caller frees. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Stops the fuzzer, which keeps the input, when what must hold does not. */
void fuzz_must(int holds, const char *what);
/* A reader returned `status` with this sentence: of a refusal there must be one, of printable characters, on one line. */
void fuzz_judge(int status, const char *sentence);

#endif
