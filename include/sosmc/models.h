/* models.h: models and rewards that come with the library. Each is a plain struct you fill and keep; the constructors borrow it.
 * Networks are in networks.h; tempering, information and evidence in analysis.h: both are included, because they were here. */
#ifndef SOSMC_MODELS_H
#define SOSMC_MODELS_H

#include <sosmc/analysis.h>
#include <sosmc/networks.h>
#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gaussian mixture with softmax weights v = softmax(theta), fixed means, common variance (maths.md GMM):
 *     U_theta(x) = -log( sum_i v_i exp(-|x - mu_i|^2 / (2 variance)) + eps ).
 * Z does not depend on theta. eps = 0 is evaluated by log-sum-exp and is finite everywhere; eps > 0 bounds U by
 * -log eps, which makes the potential flat far from every mode (what the published experiment does with 1e-9). */
typedef struct {
    int dim, components;
    const double *means; /* components rows of dim */
    double variance, eps;
    /* 0: the weights are the softmax of theta. 1: theta are the weights, for sosmc_mirror(rate, SOSMC_MIRROR_ENTROPY); U is that of
     * theta over its sum, and a theta that is not above 0 is an error of `prepare`. */
    int probabilities;
} sosmc_mixture;

SOSMC_API sosmc_model sosmc_mixture_model(const sosmc_mixture *mixture);

/* Exact draws from the mixture (eps neglected) at a given theta, with normalised density: initial or reference law. */
typedef struct {
    const sosmc_mixture *mixture;
    const double
        *theta; /* components of them, whose softmax are the weights: logarithms where theta are probabilities */
} sosmc_mixture_law;
SOSMC_API sosmc_source sosmc_mixture_source(const sosmc_mixture_law *law);

/* log Z of exp(-U_theta) for eps = 0: (dim/2) log(2 pi variance), whatever theta. */
SOSMC_API double sosmc_mixture_logz(const sosmc_mixture *mixture);

/* ------------------------------------------------------------------------------------------------ rewards */

/* R(x) = gate(x_1) exp(-|x - center|^2 / tau) / alpha, with gate = 1{x_1 >= 0} for lambda = 0 (hard) and the logistic
 * function of x_1 / lambda otherwise (smooth). */
typedef struct {
    int dim;
    const double *center; /* dim numbers */
    double tau, lambda, alpha;
} sosmc_gate;
SOSMC_API sosmc_score sosmc_gate_reward(const sosmc_gate *gate);

/* R(x) = max_j exp(-|x - center_j|^2 / tau) / alpha. */
typedef struct {
    int dim, count;
    const double *centers; /* count rows of dim */
    double tau, alpha;
} sosmc_peaks;
SOSMC_API sosmc_score sosmc_peaks_reward(const sosmc_peaks *peaks);

/* R(x) = sum_j weight_j clip(x_j), with coordinates held to [-clamp, clamp] (0: as they are): brightness, a half of the
 * picture against the other, a user's mask. */
typedef struct {
    int dim;
    const double *weight; /* dim numbers */
    double clamp;
} sosmc_linear;
SOSMC_API sosmc_score sosmc_linear_reward(const sosmc_linear *linear);

/* R(x) = 1{normal . x > offset}. */
typedef struct {
    int dim;
    const double *normal; /* dim numbers */
    double offset;
} sosmc_half_plane;
SOSMC_API sosmc_score sosmc_half_plane_reward(const sosmc_half_plane *half_plane);

/* ------------------------------------------------------------------------------------------------ models from data */

/* For sosmc_mmle. exp(-U_theta(x)) is p_theta(x, y) with all its constants, so log Z is the log-likelihood
 * log p_theta(y); it is absolute when the initial law has a density, as those below do. theta is one number. */

/* x_d ~ N(theta, 1), y_d | x_d ~ N(x_d, 1), d = 1..dim. */
typedef struct {
    int dim;
    const double *y; /* dim numbers */
} sosmc_hierarchical;
SOSMC_API sosmc_model sosmc_hierarchical_model(const sosmc_hierarchical *data);
SOSMC_API double sosmc_hierarchical_best(const sosmc_hierarchical *data); /* theta* = mean of y */
SOSMC_API double sosmc_hierarchical_loglik(const sosmc_hierarchical *data, double theta);

/* Its posterior at a given theta, x_d ~ N((y_d + theta)/2, 1/2), with density: the initial law without any error. */
typedef struct {
    const sosmc_hierarchical *data;
    double theta;
} sosmc_hierarchical_law;
SOSMC_API sosmc_source sosmc_hierarchical_source(const sosmc_hierarchical_law *law);

/* x ~ N(theta 1, variance I), y_r ~ Bernoulli(1 / (1 + exp(-f_r . x))), r = 1..rows. */
typedef struct {
    int rows, dim;
    const double *features; /* rows of dim */
    const double *labels;   /* rows of them, 0 or 1 */
    double variance;
} sosmc_logistic;
SOSMC_API sosmc_model sosmc_logistic_model(const sosmc_logistic *data);

/* N(mean, widen^2 P^-1) with P = factor factor^T, with density; a particle comes from the wide law
 * N(centre 1, variance I) instead with probability `share`. The wide part bounds the weights of a proposal whose tails
 * are too thin. */
typedef struct {
    int dim;
    const double *mean;   /* dim numbers */
    const double *factor; /* dim rows of dim, lower triangular with a positive diagonal; the rest is not read */
    double widen;         /* 0: as it is */
    double share, centre, variance;
} sosmc_gaussian;
SOSMC_API sosmc_source sosmc_gaussian_source(const sosmc_gaussian *law);

/* Laplace's approximation of the posterior at a given theta: its mode (dim numbers) and the factor of P = d2U/dx2
 * there. With widen = 1.2, share = 0.02 and the prior as the wide part (centre = theta, the model's variance) it makes
 * an initial law whose weights are bounded. SOSMC_ENOMEM, or SOSMC_ENUMERIC when the data are not finite. */
SOSMC_API sosmc_status sosmc_logistic_laplace(const sosmc_logistic *data, double theta, double *mode, double *factor);

#ifdef __cplusplus
}
#endif
#endif
