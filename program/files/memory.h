/* memory.h: how much memory this process may still take: the one place of the program that knows.
 *
 * It is the least of these, as far as the system tells them:
 *
 *     MemAvailable of /proc/meminfo: what can be had without swapping;
 *     of every control group that holds the process, up to the root, its limit less what is used without the cache of files
 *         (memory.max and memory.current of version 2, memory.limit_in_bytes and memory.usage_in_bytes of version 1);
 *     RLIMIT_AS and RLIMIT_DATA (ulimit -v, -d) less what the process has;
 *     SOSMC_MEMORY of the environment, which takes the place of all others: bytes, or with K, M, G or T thousands and so on. */
#ifndef SOSMC_FILES_MEMORY_H
#define SOSMC_FILES_MEMORY_H

#include <stddef.h>

enum { MEMORY_WORDS = 256 };

typedef struct {
    double bytes;           /* INFINITY: nothing is known */
    char why[MEMORY_WORDS]; /* what limits it, to follow "are free": "" or " (...)" */
} memory_left;

/* `root` stands before /proc and /sys: "" but for tests. Returns -1 with a sentence where SOSMC_MEMORY cannot be read. */
int memory_find(const char *root, memory_left *out, char *error, size_t room);
/* The resident memory of this process, in bytes; 0: not known. */
double memory_resident(const char *root);

/* "1.50 GB", "230 MB". */
enum { MEMORY_NUMBER = 32 };
const char *memory_number(double bytes, char out[MEMORY_NUMBER]);

/* 0 where `bytes` more are to be had; else -1 with the sentence "WHAT needs ... of memory, and ... are free", with ADVICE behind
 * it ("": none). WHAT is a whole subject: "the run". */
int memory_check(const char *what, double bytes, const char *advice, char *error, size_t room);

#endif
