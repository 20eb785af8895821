/* assertions.h: assertions that cmocka does not have. */
#ifndef SOSMC_TESTS_ASSERTIONS_H
#define SOSMC_TESTS_ASSERTIONS_H

void assert_contains(const char *text, const char *part);
/* |a - b| <= tolerance, and neither is NaN. */
void assert_near(double a, double b, double tolerance);
/* |a - b| <= tolerance (1 + |b|), and neither is NaN. */
void assert_close(double a, double b, double tolerance);

#endif
