/* say.h: what the program says on standard error, and the codes it exits with. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

/* Exit codes of the program. */
enum {
    SOSMC_EXIT_OK = 0,
    SOSMC_EXIT_USAGE = 2,
    SOSMC_EXIT_NUMERIC = 3,
    SOSMC_EXIT_IO = 4,
    SOSMC_EXIT_INTERRUPTED = 130
};

/* "sosmc: SENTENCE" on standard error; returns `code`, so that `return complain(...)` reads well. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exit code of a command that returned `code`: what looked like an error of usage is one of memory, if it ran out. */
int complain_code(int code);

#endif
