/* latents.h: models whose latent variables are independent given theta and the data,
 *
 *     U_theta(x) = sum_j u_j(x_j, theta),
 *
 * so that log Z is a sum of integrals on the line. A model is one function, u_j with its derivatives. */
#ifndef SOSMC_TESTS_LATENTS_H
#define SOSMC_TESTS_LATENTS_H

#include "untuned.h"

enum { LATENT_PARAMETERS = UNTUNED_PARAMETERS };

/* At most UNTUNED_TILE values of one latent variable. */
typedef struct {
    const sosmc_simd *simd;
    const double *prep; /* what `prepare` made of theta */
    int n, ld;
    const double *x;
    double *U;  /* u_j is added; may be NULL */
    double *gx; /* du_j/dx; may be NULL */
    double *D;  /* du_j/dtheta is added, a row of ld for every parameter; may be NULL */
} latent_values;

typedef struct latent_data latent_data;
struct latent_data {
    int dim, parameters;
    double low, high; /* between which the integrals run */
    void (*term)(const latent_data *l, const double *theta, int j, const latent_values *v);
    void (*prepare)(const latent_data *l, const double *theta, double *prep); /* may be NULL */
    int prep;                                                                 /* numbers of it */
    const double *y;                                                          /* dim of them, or dim * each */
    const double *sd;                                                         /* dim of them, where there are any */
    int each;        /* rows of data of a latent variable, where it has several */
    const double *Z; /* dim * each rows of parameters - 1 covariates */
};

/* The marginal likelihood of the data, which live as long as the problem, from theta0; log Z is a trapezoidal rule where the
 * integrand is not negligible. Non-zero when memory is out. */
int latent_open(untuned_problem *u, latent_data *l, const double *theta0);
/* The smallest y with P(Y <= y) >= chance, where Y has Poisson's law. */
double latent_count_of(double rate, double chance);

/* The terms. Parameters are locations and log standard deviations.
 *
 *     shared_mean     x_j ~ N(theta, sd_j^2), y_j ~ N(x_j, sd_j^2)
 *     random_effect   x_j ~ N(theta_0, e^(2 theta_1)), y_j ~ N(x_j, sd_j^2)
 *     batches_effect  x_j ~ N(theta_0, e^(2 theta_1)), `each` rows of mean y_j and squared deviations sd_j ~ N(x_j, e^(2 theta_2))
 *     student         x_j ~ theta_0 + e^(theta_1) t_3, y_j ~ N(x_j, 1)
 *     squared         x_j ~ N(theta, 1), y_j ~ N(x_j^2, 1/4)
 *     binary          x_j ~ N(0, e^(2 theta_p)), rows y ~ Bernoulli(1 / (1 + exp(-Z beta - x_j))), theta = (beta, theta_p)
 *     counts          the same with y ~ Poisson(exp(Z beta + x_j)) */
void latent_shared_mean(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_random_effect(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_batches_effect(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_student(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_squared(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_binary(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_counts(const latent_data *l, const double *theta, int j, const latent_values *v);
void latent_binary_prepare(const latent_data *l, const double *theta, double *prep);
void latent_counts_prepare(const latent_data *l, const double *theta, double *prep);

/* Parts of terms. Row k of D, or NULL where D is not asked for. */
static inline double *latent_row(const latent_values *v, int k)
{
    return v->D ? v->D + (size_t)k * (size_t)v->ld : NULL;
}
/* x ~ N(mean, e^(2 log_sd)): U, and its derivatives in x (set), in the mean and in log_sd (a row each; may be NULL). */
void latent_add_normal(const latent_values *v, double mean, double log_sd, double *by_mean, double *by_log_sd);
/* The rows of `counts`, after latent_counts_prepare: U, and its derivatives in x (added) and in beta. */
void latent_add_counts(const latent_data *l, int j, const latent_values *v);

#endif
