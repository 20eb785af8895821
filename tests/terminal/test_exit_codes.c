/* test_exit_codes.c: the exit codes of the header and of the man page are the same, with the same sentences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/exit_codes.h"
#include "runtext.h"

enum { TEXT = 8192 };

/* "CODE MEANING" for every row of the header. */
static void table_of_the_header(char out[TEXT])
{
    size_t used = 0;
#define ADD(name, code, meaning) used += (size_t)snprintf(out + used, TEXT - used, "%d %s\n", (code), (meaning));
    SOSMC_EXIT_CODES(ADD)
#undef ADD
}

/* A line of the man page without the backslashes of its dashes. */
static void append(char out[TEXT], const char *line, size_t length, const char *before)
{
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, TEXT - used, "%s", before);
    for (size_t i = 0; i < length && used + 1 < TEXT; i++)
        if (line[i] != '\\') out[used++] = line[i];
    out[used] = 0;
}

/* The same of the section EXIT STATUS, where ".TP", ".B CODE" and lines of text follow each other. */
static void table_of_the_man_page(const char *page, char out[TEXT])
{
    const char *line = strstr(page, ".SH EXIT STATUS\n");
    assert_non_null(line);
    *out = 0;
    for (line = strchr(line, '\n') + 1; *line && strncmp(line, ".SH", 3) != 0;) {
        size_t length = strcspn(line, "\n");
        if (!strncmp(line, ".B ", 3))
            append(out, line + 3, length - 3, *out ? "\n" : "");
        else if (strncmp(line, ".TP", 3) != 0)
            append(out, line, length, " ");
        line += length + (line[length] == '\n');
    }
    append(out, "", 0, "\n");
}

static void header_and_man_page_agree(void **state)
{
    char path[RUNTEXT_PATH], header[TEXT], manual[TEXT];
    if (!runtext_source("docs/sosmc.1", path)) skip();
    char *page = runtext_read(path);
    assert_non_null(page);
    table_of_the_header(header);
    table_of_the_man_page(page, manual);
    free(page);
    assert_string_equal(header, manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(header_and_man_page_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
