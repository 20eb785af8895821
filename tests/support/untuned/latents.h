/* latents.h: models whose latent variables are independent given theta and the data,
 *
 *     U_theta(x) = sum_j u_j(x_j, theta),
 *
 * so that log Z is a sum of integrals on the line. A model is one function, u_j with its derivatives. */
#ifndef SOSMC_TESTS_LATENTS_H
#define SOSMC_TESTS_LATENTS_H

#include <sosmc/sosmc.h>

enum { LATENT_PARAMETERS = 24 };

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

sosmc_model latent_model(const latent_data *l);
/* log Z, and unless that is NULL its gradient; a trapezoidal rule where the integrand is not negligible. */
double latent_log_z(const latent_data *l, const double *theta, double *gradient);

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

#endif
