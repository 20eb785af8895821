/* mlp.h: how a multi-layer perceptron is laid out in theta, in prep and in work. Shared by mlp.c and mlp_vec.c.
 *
 * Layer l = 1..hidden maps width[l-1] numbers to width[l]; the output layer maps width[hidden] to the energy. theta holds,
 * layer after layer, the weights (outputs rows of inputs) and the biases.
 *
 * Vectors over units are cut into panels of 16 floats, padded with zeros:
 *
 *     activations of a tile:  panel p, particle i, lane c     is unit 16 p + c      at  p * 16 ld + 16 i + c
 *     weights in prep:        panel p, inner unit k, lane c   is outer unit 16 p + c  at  p * 16 K  + 16 k + c
 *
 * so that every row is one vector and neighbouring particles or units are 64 bytes apart whatever the widths. Padded units
 * have neither weights nor biases: their activations are multiplied by zero weights. */
#ifndef SOSMC_NETWORKS_MLP_H
#define SOSMC_NETWORKS_MLP_H

#include <sosmc/networks.h>

enum { PANEL = 16, MLP_MOST_HIDDEN = 32, MLP_TILE = 128 };

typedef struct {
    int hidden;
    int width[MLP_MOST_HIDDEN + 1]; /* of the input and of every hidden layer */
    int padded[MLP_MOST_HIDDEN + 1];
    /* in theta: weights and biases of layers 1..hidden, then of the output at hidden + 1 */
    size_t weight[MLP_MOST_HIDDEN + 2], bias[MLP_MOST_HIDDEN + 2], parameters;
    /* in prep, in floats: panels over the outputs of layer l (forward), over its inputs (backward), biases */
    size_t forward[MLP_MOST_HIDDEN + 1], backward[MLP_MOST_HIDDEN + 1], shift[MLP_MOST_HIDDEN + 1], out, out_shift,
        prep;
    /* in work, in floats per particle: activations h; slopes, which become deltas d (d[0]: dE/dx); with a penalty also
     * tangents t and curvatures c, from layer 1 */
    size_t h[MLP_MOST_HIDDEN + 1], d[MLP_MOST_HIDDEN + 1], c[MLP_MOST_HIDDEN + 1], t[MLP_MOST_HIDDEN + 1], work;
} mlp_shape;

void sosmc_i_mlp_shape(const sosmc_mlp *m, mlp_shape *s);

/* The arithmetic, once per vector level. */
typedef struct {
    /* with gx, work is left with h and with the deltas of one unit of energy per particle: a pass */
    void (*energy)(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, double *U, double *gx);
    /* g += sum_i c_i dE_i/dtheta, from a pass left in work (b->fresh) or from a new one */
    void (*contract)(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, const double *c, double *g);
    /* g += weight d/dtheta of the gradient penalty's sum over the batch, *value += weight times it; overwrites the pass. */
    void (*penalty)(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, double weight, double *g,
                    double *value);
} mlp_code;

#endif
