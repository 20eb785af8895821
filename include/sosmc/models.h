/* models.h: models that come with the library. Each is a plain struct you fill and keep; the constructors borrow it. */
#ifndef SOSMC_MODELS_H
#define SOSMC_MODELS_H

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
} sosmc_mixture;

SOSMC_API sosmc_model sosmc_mixture_model(const sosmc_mixture *mixture);

/* Exact draws from the mixture (eps neglected) at a given theta, with normalised density: initial or reference law. */
typedef struct {
    const sosmc_mixture *mixture;
    const double *theta; /* components of them */
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

/* ------------------------------------------------------------------------------------------------ networks */

typedef enum {
    SOSMC_SILU = 0, /* z / (1 + exp(-z)), also called swish */
    SOSMC_SOFTPLUS,
    SOSMC_TANH,
    SOSMC_GELU,       /* z Phi(z), with the exact normal distribution function */
    SOSMC_LEAKY_RELU, /* z for z > 0, z/100 otherwise */
    SOSMC_IDENTITY
} sosmc_activation;

/* A multi-layer perceptron as an energy (maths.md MLP): U_theta(x) = E_theta(x) + |x|^2 / (2 base_sd^2), the latter only
 * when base_sd > 0. `hidden` layers with the activation, then a linear output. theta holds, layer after layer, the weights
 * (outputs rows of inputs, PyTorch's layout) and the biases. Arithmetic on particles is in float; theta, U and gradients
 * are double. Without a base (or training that shapes one) exp(-U) need not have a finite integral. */
typedef struct {
    int inputs, hidden; /* hidden: 1 to 32 layers */
    const int *width;   /* of each hidden layer, 1 to 16,384 */
    int activation;     /* SOSMC_SILU, SOSMC_SOFTPLUS or SOSMC_TANH */
    double base_sd;     /* 0: no base */
    double penalty;     /* factor of the gradient penalty, mean over the data of (|dU/dx| - 1)^2; 0: none */
} sosmc_mlp;
SOSMC_API sosmc_model sosmc_mlp_model(const sosmc_mlp *mlp); /* dim_theta: the number of parameters */
/* The usual start: every weight N(0, sd^2), every bias 0. theta has dim_theta numbers. */
SOSMC_API void sosmc_mlp_init(const sosmc_mlp *mlp, double sd, uint64_t seed, double *theta);
/* For objective.penalty, with the model's self. */
SOSMC_API int sosmc_mlp_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                                double *value);

/* A list of convolutions and dense layers as an energy of images (maths.md NETWORK):
 *     U_theta(x) = sign * f_output(x) / temperature + |x|^2 / (2 base_sd^2),   f the last layer's outputs.
 * x holds channel after channel, row after row. theta holds, layer after layer, the weights and the biases in PyTorch's
 * layout: outputs, inputs, kernel row, kernel column of a convolution (a cross-correlation with zeros around the map);
 * outputs, inputs of a dense layer, whose inputs are in the order of x. Arithmetic on particles is in float, the last layer
 * is summed in double; theta, U and gradients are double. */
typedef enum { SOSMC_CONVOLUTION = 0, SOSMC_DENSE } sosmc_layer_kind;
typedef struct {
    int kind;                    /* sosmc_layer_kind; no convolution after a dense layer */
    int outputs;                 /* channels or units */
    int kernel, stride, padding; /* of a convolution; the window is square */
    int activation;              /* sosmc_activation */
    /* Residual: the input of the layer skip - 1 before this one (1: this layer's own input) is added before the activation,
     * and must have the shape of this layer's output; 0: nothing is added. */
    int skip;
} sosmc_layer;
typedef struct {
    int channels, rows, columns; /* of an image */
    int count;                   /* 1 to 64 layers */
    const sosmc_layer *layer;
    int output;     /* which number of the last layer, from 0 (channel, row, column when that is a convolution) */
    double sign;    /* 1, or -1 for a network that gives minus the energy */
    double base_sd; /* 0: no base */
    /* Networks trained by short chains are sampled much colder than they are written down: 1e-4, say; 0 counts as 1. */
    double temperature;
} sosmc_network;
SOSMC_API sosmc_model sosmc_network_model(const sosmc_network *network); /* dim_theta: the number of parameters */
/* PyTorch's usual start: weights and biases uniform on +-1/sqrt(fan-in). theta has dim_theta numbers. */
SOSMC_API void sosmc_network_init(const sosmc_network *network, uint64_t seed, double *theta);
/* What is wrong with a description, as a sentence ("layer 3 ..."); NULL when nothing is. */
SOSMC_API const char *sosmc_network_problem(const sosmc_network *network, char *text, size_t room);
/* A network as a reward, R(x) = scale * f_output(x), of x held to [-clamp, clamp] (0: as it is). With `softmax` it is
 * scale * log softmax(f)_output, the log-probability of a classifier. `prep` is what the model's prepare made of theta
 * (model.prep bytes, 64-byte aligned). The network's own sign, temperature and base play no part. The evaluation takes scratch from
 * malloc. */
typedef struct {
    const sosmc_network *network;
    const void *prep;
    double scale;
    double clamp;
    int softmax;
} sosmc_network_judge;
SOSMC_API sosmc_score sosmc_network_reward(const sosmc_network_judge *judge);

/* ------------------------------------------------------------------------------------------------ sampling */

/* Nothing is optimised: theta stays (or follows its own path), the mean score is logged. score {0}: none. */
SOSMC_API sosmc_objective sosmc_sampling(sosmc_score score);

/* Annealed importance sampling with resampling, as a run of the same loop: theta is the temperature t of
 * exp(-t U) times a normal law to the power 1 - t, and goes from 0 to 1 as (k / steps)^power (maths.md TEMPER). Use
 * sosmc_tempered_model, sosmc_sampling, theta0 NULL (t = 0), an initial law N(0, base_sd^2 I) with density, a weighted
 * scheme and any kernel; log Z is then that of the model. */
typedef struct {
    sosmc_model model;
    const double *theta; /* of the model, which stays */
    double base_sd;
    int64_t steps;
    double power;
} sosmc_tempering;
SOSMC_API sosmc_model sosmc_tempered_model(const sosmc_tempering *tempering);
SOSMC_API sosmc_optimiser sosmc_tempering_path(const sosmc_tempering *tempering);

/* ---------------------------------------------------------------------------------------------- what a fit is worth */

/* Observed information at theta, minus the second derivative of log Z, by Louis' identity under a weighted cloud:
 *     I = E[d2U/dtheta2] - Cov(dU/dtheta)                                                        (dim_theta rows of it)
 * for any model with few parameters. x (n rows of dim_x) and logw are those of sosmc_cloud; logw NULL: equal weights.
 * The second derivatives are central differences of grad_theta, exact for a U quadratic in theta. At a maximum
 * likelihood estimate the inverse of I is its asymptotic covariance. SOSMC_EMODEL when a callback fails, SOSMC_ENUMERIC
 * when the weights or gradients are not finite, SOSMC_ENOMEM. */
SOSMC_API sosmc_status sosmc_louis(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                                   const double *logw, double *information);

/* log Z of exp(-U_theta) with its Monte Carlo error, from `draws` independent draws of a law with density:
 *     Z = mean of W_i = exp(-U(x_i)) / q(x_i),   error of log Z = standard error of that mean / Z.
 * The error is worth believing when ess, (sum W)^2 / sum W^2, is in the hundreds. Nothing of the run enters but theta,
 * so this checks the running log Z of a fit, whose own error one run does not show. Statuses as sosmc_louis; a law
 * without density is SOSMC_EINVAL. */
typedef struct {
    double logz, error, ess;
} sosmc_evidence;
SOSMC_API sosmc_status sosmc_importance(const sosmc_model *model, const double *theta, sosmc_source law, int64_t draws,
                                        uint64_t seed, sosmc_evidence *out);

#ifdef __cplusplus
}
#endif
#endif
