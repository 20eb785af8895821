/* toys.h: small targets, laws and rewards whose every expectation is known, as plain values of the public API.
 *
 *     toy_gauss     U = |x - theta|^2 / (2 v)                       log Z = (d/2) log 2 pi v, whatever theta
 *     toy_scaled    U = exp(theta_1) (x - theta_0)^2 / 2            log Z = log(2 pi)/2 - theta_1/2
 *     toy_natural   U = theta_1 x^2 / 2 - theta_0 x, theta_1 > 0    log Z = log(2 pi/theta_1)/2 + theta_0^2/(2 theta_1)
 *     toy_skew      U = (x-theta_0)^2 / 2 + theta_1 log(1+exp(2x))  by quadrature; N(theta_0, 1) at theta_1 = 0
 *     toy_hierarchy x_d ~ N(theta, 1), y_d | x_d ~ N(x_d, 1)        log Z = sum log N(y_d; theta, 2)
 *     toy_spread    x_d ~ N(0, exp(theta)), y_d | x_d ~ N(x_d, 1)   log Z = sum log N(y_d; 0, 1 + exp(theta))
 *
 * Structs are borrowed by what is made of them. */
#ifndef SOSMC_TESTS_TOYS_H
#define SOSMC_TESTS_TOYS_H

#include <sosmc/sosmc.h>

typedef struct {
    int dim;
    double variance;
} toy_gauss;
sosmc_model toy_gauss_model(const toy_gauss *toy); /* tiles of 8, so that small clouds have several */
double toy_gauss_logz(const toy_gauss *toy);

sosmc_model toy_scaled_model(void);
double toy_scaled_logz(const double *theta);

sosmc_model toy_natural_model(void);
double toy_natural_logz(const double *theta);

sosmc_model toy_skew_model(void);

typedef struct {
    int dim;
    const double *y;
} toy_data;
double toy_data_mean(const toy_data *toy);
double toy_data_square(const toy_data *toy); /* mean of y_d^2 */

/* The constants of the model are part of U, so that log Z is the log-likelihood of y itself. */
sosmc_model toy_hierarchy_model(const toy_data *toy);
double toy_hierarchy_loglik(const toy_data *toy, double theta);

sosmc_model toy_spread_model(const toy_data *toy);
double toy_spread_loglik(const toy_data *toy, double theta);

/* ---------------------------------------------------------------------------- laws and rewards */

/* N(mean, sd^2 I); declare it exact where it is pi_{theta0}. */
typedef struct {
    const double *mean;
    double sd;
} toy_normal;
sosmc_source toy_normal_source(const toy_normal *law); /* with density */
sosmc_source toy_normal_exact(const toy_normal *law);  /* without density, exact = 1 */

/* R(x) = sum_j slope x_j - curvature (x_j - centre)^2 / 2 */
typedef struct {
    double slope, curvature, centre;
} toy_reward;
sosmc_score toy_reward_score(const toy_reward *reward);

/* ---------------------------------------------------------------------------- a given path of theta */

/* An optimiser that ignores the gradient: update k leads to row k + 1, and beyond the last row theta stays. `seen`,
 * when not NULL, receives the gradient of the last update. */
typedef struct {
    int64_t rows;
    const double *theta; /* rows of dim_theta */
    double *seen;
} toy_path;
sosmc_optimiser toy_follow(const toy_path *path);

/* ---------------------------------------------------------------------------- quadrature for one-dimensional models */

/* Trapezoid on [-LIMIT, LIMIT], spectrally accurate for smooth densities that have vanished at the ends. */
enum { TOY_POINTS = 4096 };
typedef struct {
    double x[TOY_POINTS], U[TOY_POINTS], p[TOY_POINTS]; /* p: probability of each point */
    double logz;
} toy_grid;
void toy_integrate(const sosmc_model *model, const double *theta, toy_grid *grid);
double toy_mean(const toy_grid *grid, double power); /* E x^power */
double toy_mean_energy(const toy_grid *grid);        /* E U */
double toy_mean_reward(const toy_grid *grid, const toy_reward *reward);
double toy_kl(const toy_grid *from, const toy_grid *to); /* KL(from || to) */

#endif
