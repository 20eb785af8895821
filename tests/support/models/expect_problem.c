/* expect_problem.c: see expect_problem.h. */
#include "expect_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

int expect_problem(exact_problem *e, const char *name)
{
    const char *data = getenv("SOSMC_TEST_DATA");
    int needs_data = strcmp(name, "cbpp") == 0 || strcmp(name, "logistic") == 0;
    if (exact_open(e, name, data) == 0) return 1;
    exact_close(e);
    if (data || !needs_data) fail_msg("%s cannot be opened", name);
    print_message("    skipped: %s, because SOSMC_TEST_DATA names no folder of reference data\n", name);
    return 0;
}
