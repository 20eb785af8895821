/* expect_engine.h: calls of the engine that a test expects to succeed. Where one fails, the test fails with the engine's
 * message. */
#ifndef SOSMC_TESTS_EXPECT_ENGINE_H
#define SOSMC_TESTS_EXPECT_ENGINE_H

#include <sosmc/sosmc.h>

sosmc *expect_create(const sosmc_problem *p, const sosmc_settings *cfg);
const sosmc_info *expect_step(sosmc *s);
void expect_steps(sosmc *s, int count);
/* Fails the test unless sosmc_create returns this status and a message that contains `words`. */
void expect_refusal(const sosmc_problem *p, const sosmc_settings *cfg, sosmc_status status, const char *words);

#endif
