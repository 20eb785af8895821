/* say.c: sentences on standard error. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "files/words.h"

/* Set once any error was reported while errno was ENOMEM. main() then exits with 3 (no memory) instead of 2 (usage). */
static int memory_ran_out;

int complain(int code, const char *format, ...)
{
    enum { SENTENCE = 8192 };
    char sentence[SENTENCE], line[SENTENCE];
    va_list args;
    memory_ran_out |= errno == ENOMEM;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    fprintf(stderr, "sosmc: %s\n", words_line(sentence, line, sizeof line));
    return code;
}

int complain_code(int code) { return code == SOSMC_EXIT_USAGE && memory_ran_out ? SOSMC_EXIT_NUMERIC : code; }
