/* test_progress.c: the line that a run shows while it goes on names what exists, and what a run of that kind is for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/progress.h"

static void expect(const char *line, double strength, int weighted, const sosmc_info *info)
{
    char *bytes = NULL;
    size_t n = 0;
    progress p;
    progress_begin(&p, 0, 0);
    p.terminal = 0;
    p.last = -1e9; /* long ago */
    p.out = open_memstream(&bytes, &n);
    assert_non_null(p.out);
    progress_info(&p, 10, 40, info, strength, weighted);
    assert_int_equal(fclose(p.out), 0);
    if (strncmp(bytes, line, strlen(line)) != 0) fail_msg("'%s', expected '%s'", bytes, line);
    free(bytes);
}

static void lines_name_what_exists(void **state)
{
    const sosmc_info info = {.mean_score = NAN, .loss = NAN, .ess = 4, .h = 0.05};
    const sosmc_info reward = {.mean_score = 0.5, .loss = -0.25, .ess = 90, .h = 0.1};
    expect("10/40  strength 0.04  ", 0.04, 0, &info); /* what deblur learns; its particles have no weights */
    expect("10/40  strength 0.04  ESS 4  ", 0.04, 1, &info);
    expect("10/40  step 0.05  ", NAN, 0, &info);
    expect("10/40  reward 0.5  loss -0.25  ESS 90  step 0.1  ", NAN, 1, &reward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_name_what_exists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
