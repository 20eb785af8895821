/* says.c: see program.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "program.h"

const char *program_says(const char *folder, int code, const char *format, ...)
{
    static char said[PROGRAM_WORDS];
    char arguments[8192];
    program_setting s = {.folder = folder};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    int got = program_run(&s, arguments, said);
    if (got != code) fail_msg("sosmc %s: exit code %d (expected %d), '%s'", arguments, got, code, said);
    return said;
}
