/* expect_engine.h: engines that a test takes for granted: it fails with the engine's own sentence where they do. */
#ifndef SOSMC_TESTS_EXPECT_ENGINE_H
#define SOSMC_TESTS_EXPECT_ENGINE_H

#include <sosmc/sosmc.h>

sosmc *must_create(const sosmc_problem *p, const sosmc_settings *cfg);
const sosmc_info *must_step(sosmc *s);
void must_steps(sosmc *s, int count);
/* There is no engine: the status says so, and the sentence holds `words`. */
void must_refuse(const sosmc_problem *p, const sosmc_settings *cfg, sosmc_status status, const char *words);

#endif
