/* exit_codes.h: what the program exits with. The sentences are those of the man page, docs/sosmc.1; a test compares the two.
 *
 * A row is NAME, CODE, MEANING, and stands for the constant SOSMC_EXIT_NAME. */
#ifndef SOSMC_TERMINAL_EXIT_CODES_H
#define SOSMC_TERMINAL_EXIT_CODES_H

#define SOSMC_EXIT_CODES(ROW)                                                                                                \
    ROW(OK, 0, "done")                                                                                                       \
    ROW(USAGE, 2, "usage, or an error in the run file")                                                                      \
    ROW(NUMERIC, 3, "numerical failure, a check that failed, or memory ran out")                                             \
    ROW(IO, 4, "a file could not be read or written, or standard output not be written to; also for want of memory")         \
    ROW(UNTRUSTED, 5, "with --strict: finished, but the verdict is not that the run has converged")                          \
    ROW(BUSY, 6, "another process is writing to the directory")                                                              \
    ROW(INTERRUPTED, 130,                                                                                                    \
        "stopped by SIGINT, SIGTERM, SIGHUP or SIGXCPU after the iteration under way; everything is saved. A second signal " \
        "stops at once: the last checkpoint is what --resume goes on from")

enum {
#define CODE(name, code, meaning) SOSMC_EXIT_##name = (code),
    SOSMC_EXIT_CODES(CODE)
#undef CODE
};

#endif
