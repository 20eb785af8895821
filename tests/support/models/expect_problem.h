/* expect_problem.h: problems of exact_problems.h in a test. */
#ifndef SOSMC_TESTS_EXPECT_PROBLEM_H
#define SOSMC_TESTS_EXPECT_PROBLEM_H

#include "exact_problems.h"

/* Opens a problem, with SOSMC_TEST_DATA as the folder of reference data. Returns 0, after a message that it is skipped, where that
 * names none and the problem needs it; the test fails where it cannot be opened for another reason. */
int expect_problem(exact_problem *e, const char *name);

#endif
