/* student.h: Student's law with a whole number of degrees of freedom. The bits are the same on every machine. */
#ifndef SOSMC_BASE_STUDENT_H
#define SOSMC_BASE_STUDENT_H

/* The t with P(T <= t) = p, to a relative 1e-8; NaN unless 1e-6 <= p <= 1 - 1e-6 and dof >= 1. It takes time proportional to
 * dof. */
double sosmc_i_student_quantile(double p, int dof);

/* log Gamma(twice / 2), twice >= 1. */
double sosmc_i_log_gamma_half(int twice);

#endif
