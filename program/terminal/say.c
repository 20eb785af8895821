/* say.c: sentences on standard error. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Set once any error was reported while errno was ENOMEM. main() then exits with 3 (no memory) instead of 2 (usage). */
static int memory_ran_out;

int complain(int code, const char *format, ...)
{
    va_list args;
    memory_ran_out |= errno == ENOMEM;
    va_start(args, format);
    fputs("sosmc: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

int complain_code(int code) { return code == SOSMC_EXIT_USAGE && memory_ran_out ? SOSMC_EXIT_NUMERIC : code; }
