/* network_text.h: a layer list in words, as run files, model files and flags have it, and back.
 *
 *     1x28x28; conv 16 5 stride 2 pad 4 silu; conv 32 3 stride 2 pad 1 silu; dense 64 silu; dense 1; energy -1
 *
 * Clauses are separated by semicolons or ends of lines; empty ones do not count. The first is the picture, channels x
 * rows x columns. Then the layers:
 *     conv CHANNELS KERNEL [stride S] [pad P] [add A] [ACTIVATION]     stride 1 and pad 0 unless told
 *     dense UNITS [add A] [ACTIVATION]
 * `add A` is the residual of sosmc_layer.skip; an ACTIVATION is silu (or swish), softplus, tanh, gelu or leaky_relu, and
 * without one the layer is linear. Behind the layers, each at most once and in any order:
 *     energy 1 or energy -1     the sign of the output in the energy (1 unless told)
 *     output K                  which output of the last layer, from 0 (0 unless told)
 *     base SD                   the standard deviation of a Gaussian base (none unless told)
 *     temperature T             by which the network's energy is divided (1 unless told)
 * A single word names a description that is known: `mnist`. */
#ifndef SOSMC_JOB_NETWORK_TEXT_H
#define SOSMC_JOB_NETWORK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <sosmc/models.h>

enum {
    NETWORK_LAYERS = 64,
    NETWORK_TEXT = 8192 /* room for every description that network_print writes */
};

/* The layers are allocated: network_free. What sosmc_network_problem finds is an error too. On failure `out` is empty. */
int network_parse(const char *text, sosmc_network *out, char *error, size_t room);
/* The canonical form, on one line, defaults left out: network_parse gives the same network. -1: it does not fit. */
int network_print(const sosmc_network *n, char *out, size_t room);
/* A copy with layers of its own; -1: no memory. */
int network_copy(const sosmc_network *n, sosmc_network *out);
void network_free(sosmc_network *n);

/* What is in front of a layer of a sound network: maps or, behind a dense layer, units (rows and columns 1). */
typedef struct {
    int channels, rows, columns;
} layer_map;
layer_map network_picture(const sosmc_network *n);
layer_map network_behind(layer_map in, const sosmc_layer *l);
/* The shape of a layer's weights into `shape`, as PyTorch has it; returns the number of dimensions, 4 or 2. */
int network_weights(layer_map in, const sosmc_layer *l, int64_t shape[4]);
int64_t network_parameters(const sosmc_network *n);

#endif
