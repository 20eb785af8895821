/* exact_models.h: models of which log Z is known at every theta: in closed form, by quadrature in one dimension, or as a product of
 * such integrals. exact_problems.h makes problems of them. Structs are borrowed by what is made of them.
 *
 *     anchored   a mixture of the library whose last softmax parameter is 0, so that the others are identified
 *     bumps      U = x^2 / (2 variance) + sum_j theta_j exp(-((x - centre_j) / width)^2 / 2), one dimension
 *     herds      binomial counts with a random intercept per herd and log-odds per period (the cbpp data):
 *                theta = log-odds of period 1, differences of periods 2 to 4, log standard deviation of the intercepts
 *     linear     x ~ N(A theta, I), y | x ~ N(x, diag(noise))
 *
 * Herds and linear models have scores of their own; for the others the library derives them. */
#ifndef SOSMC_TESTS_EXACT_MODELS_H
#define SOSMC_TESTS_EXACT_MODELS_H

#include <sosmc/models.h>

enum { ANCHORED_MOST = 8, BUMPS_MOST = 8, HERDS_ROWS = 64, HERDS_MOST = 16, HERDS_PERIODS = 4, HERDS_THETA = 5 };

typedef struct {
    sosmc_mixture mixture;
    sosmc_model inner;
} anchored_mixture;
/* Fills in `inner` from `mixture`. */
sosmc_model anchored_model(anchored_mixture *a);

typedef struct {
    int count;
    double centre[BUMPS_MOST], width, variance;
} bumps;
sosmc_model bumps_model(const bumps *b);

typedef struct {
    int rows, herds;
    int herd[HERDS_ROWS], period[HERDS_ROWS];
    double cases[HERDS_ROWS], size[HERDS_ROWS];
    double constant; /* sum of the logarithms of the binomial coefficients */
} herd_data;
/* Reads cbpp.csv; non-zero when it cannot. */
int herds_read(herd_data *h, const char *path);
sosmc_model herds_model(const herd_data *h);
/* log-likelihood, and its gradient unless that is NULL: a trapezoidal rule per herd, spectrally accurate. */
double herds_loglik(const herd_data *h, const double *theta, double *gradient);
/* Mode of the posterior of every intercept and U'' there; the intercepts are independent. */
void herds_laplace(const herd_data *h, const double *theta, double *mode, double *curvature);

typedef struct {
    int dim, parameters;
    const double *A;     /* dim rows of `parameters` */
    const double *y;     /* dim */
    const double *noise; /* dim variances */
} linear_data;
sosmc_model linear_model(const linear_data *l);
double linear_loglik(const linear_data *l, const double *theta, double *gradient);
/* The posterior of x at theta: independent coordinates with these means and precisions. */
void linear_posterior(const linear_data *l, const double *theta, double *mean, double *precision);

#endif
