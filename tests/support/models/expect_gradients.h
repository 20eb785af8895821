/* expect_gradients.h: a model's gradients against differences of its energy, in a test. */
#ifndef SOSMC_TESTS_EXPECT_GRADIENTS_H
#define SOSMC_TESTS_EXPECT_GRADIENTS_H

#include <sosmc/sosmc.h>

/* At the point x (dim_x numbers) and theta, both of which move on the way and come back: at most six coordinates of either
 * gradient are compared with central differences of these steps, and the scores with the gradient in theta. The test fails where
 * they differ. */
void expect_gradients(const sosmc_model *m, double *theta, double *x, double step_theta, double step_x);

#endif
