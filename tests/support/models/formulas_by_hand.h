/* formulas_by_hand.h: the formulas of quartic_model.h and of the engine written out a second time, for one particle and in the
 * plainest way: kernels as densities, gradients as sums. Tests compare everything that the engine reports with these. */
#ifndef SOSMC_TESTS_FORMULAS_BY_HAND_H
#define SOSMC_TESTS_FORMULAS_BY_HAND_H

#include "quartic_model.h"

double by_hand_U(const double *theta, const double *x);
void by_hand_gx(const double *theta, const double *x, double *g);
void by_hand_gtheta(const double *theta, const double *x, double c, double *g); /* g += c dU/dtheta */
double by_hand_R(const double *x);                                              /* the reward */

/* log of the density of N(mean, 2 h noise^2) at `to`, without the constant that both kernels share. */
double by_hand_log_kernel(const sosmc_kernel *k, const double *theta, const double *from, const double *to);

/* The sums of the objective at theta after so many updates, from particles x with normalised weights w and the data batch.
 * */
typedef struct {
    double g[THETA], mean_score, mean_energy, difference, data_U, data_ref, ess;
} estimate;
estimate by_hand_estimate(const sosmc_objective *o, int updates, const double *theta, double (*x)[DIM],
                          const double *logw);

/* Asserts that `info` and `to` are those of a plain gradient step from `from`. */
void by_hand_check_step(const sosmc_settings *cfg, const double *from, const double *g, const double *to,
                        const sosmc_info *info);

/* The normals of particle i in a step, drawn from their stream. */
void by_hand_normals(const sosmc_settings *cfg, int stream, int64_t at, int i, double *z);

/* ---------------------------------------------------------------------------- hooks */

/* H in place of dU on the particles; dU stays on the data. */
int by_hand_H(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
/* The mean over the data of (theta_0 y_0 + theta_2)^2 / 2. */
int by_hand_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                    double *value);

#endif
