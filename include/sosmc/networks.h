/* networks.h: networks as energies and as rewards. Each is a plain struct you fill and keep; the constructors borrow it. */
#ifndef SOSMC_NETWORKS_H
#define SOSMC_NETWORKS_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* ------------------------------------------------------------------------------------------------ lists of layers */

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

#ifdef __cplusplus
}
#endif
#endif
