/* expect_engine.c: see expect_engine.h. */
#include "expect_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

sosmc *expect_create(const sosmc_problem *p, const sosmc_settings *cfg)
{
    sosmc *s = NULL;
    if (sosmc_create(&s, p, cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return s;
}

const sosmc_info *expect_step(sosmc *s)
{
    if (sosmc_step(s) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return sosmc_last(s);
}

void expect_steps(sosmc *s, int count)
{
    for (int k = 0; k < count; k++) (void)expect_step(s);
}

void expect_refusal(const sosmc_problem *p, const sosmc_settings *cfg, sosmc_status status, const char *words)
{
    sosmc *s = NULL;
    sosmc_status got = sosmc_create(&s, p, cfg);
    if (got != status || !strstr(sosmc_message(s), words))
        fail_msg("%s ('%s'), where %s with '%s' was expected", sosmc_status_name(got), sosmc_message(s),
                 sosmc_status_name(status), words);
    sosmc_free(s);
}
