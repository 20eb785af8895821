/* stack.c: the stack of the main thread. Commands use less than 192 KiB of it; the kernel maps 132 KiB at the start and the rest
 * when it is touched. */
#include "stack.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "say.h"

enum { STACK = 256 * 1024, LEAST = 384 * 1024 /* with arguments and environment */, PAGE = 4096 };

static __attribute__((noinline)) void touch(void)
{
    char room[STACK];
    for (size_t i = STACK; i >= PAGE; i -= PAGE) ((volatile char *)room)[i - 1] = 0; /* downwards, as a stack grows */
}

int stack_claim(void)
{
    struct rlimit space, stack;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur < LEAST)
        return complain(SOSMC_EXIT_NUMERIC, "the limit on the stack is %lu KiB; expected at least %d (ulimit -s)",
                        (unsigned long)(stack.rlim_cur / 1024), LEAST / 1024);
    if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY) return 0;
    // cppcheck-suppress invalidFunctionArg ; memory without a file has no descriptor
    void *probe = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED)
        return complain(
            SOSMC_EXIT_NUMERIC,
            "out of memory: the limit on the address space, %lu KiB, leaves no room for the stack (ulimit -v)",
            (unsigned long)(space.rlim_cur / 1024));
    (void)munmap(probe, STACK);
    touch();
    return 0;
}
