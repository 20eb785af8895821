/* minimise.h: the minimum of a smooth function of a few numbers, for exact answers. */
#ifndef SOSMC_TESTS_MINIMISE_H
#define SOSMC_TESTS_MINIMISE_H

/* The value at theta and, unless that is NULL, the gradient there. */
typedef double (*smooth_function)(const void *self, const double *theta, double *gradient);

/* The Hessian, p rows of p, symmetric, by differences of the gradient; steps are 1e-4, relative where a number is above 1. */
void difference_hessian(smooth_function f, const void *self, int p, const double *theta, double *H);

/* Goes from theta to a minimum by Newton's method in the eigenvectors of the Hessian: negative curvature counts as positive,
 * directions in which the function does not change are left alone, and a step is halved until the function falls. No parameter
 * moves by more than 1 + |theta_j| in one step. Returns 0, or non-zero when the steps do not vanish or memory is out. */
int minimise(smooth_function f, const void *self, int p, double *theta);

#endif
