/* squares.h: sqrt(a^2 + b^2): the error of a difference of independent numbers, and distances. libm's hypot, which would also do for
 * numbers near the limits of double, has a symbol of its own since glibc 2.35, and a program that names it needs that. */
#ifndef SOSMC_COMMON_SQUARES_H
#define SOSMC_COMMON_SQUARES_H

#include <math.h>

static inline double root_of_squares(double a, double b) { return sqrt(a * a + b * b); }

#endif
