/* judgements.h: judgements that a test expects to succeed, and whether two of them are the same to the last bit. */
#ifndef SOSMC_TESTS_JUDGEMENTS_H
#define SOSMC_TESTS_JUDGEMENTS_H

#include <sosmc/judge.h>

/* Judges the engine; the test fails, with the message, when that does. options may be NULL. */
sosmc_judgement expect_judgement(const sosmc *s, const sosmc_judge_options *options);
/* Of every number and every sentence in it. */
uint64_t judgement_hash(const sosmc_judgement *j);

#endif
