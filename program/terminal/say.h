/* say.h: what the program says on standard error, and the codes it exits with. */
#ifndef SOSMC_TERMINAL_SAY_H
#define SOSMC_TERMINAL_SAY_H

#include "exit_codes.h"

/* "sosmc: SENTENCE" on standard error, one line without control characters whatever it quotes (files/words.h); returns `code`, so that `return complain(...)` reads well. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exit code of a command that returned `code`: SOSMC_EXIT_NUMERIC in place of SOSMC_EXIT_USAGE where memory ran out. */
int complain_code(int code);

#endif
