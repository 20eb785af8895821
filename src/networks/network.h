/* network.h: how a list of convolutions and dense layers is laid out in theta, in prep and in work. Shared by network.c and
 * network_vec.c.
 *
 * Layer l = 1..count maps the numbers of layer l - 1 to its own; layer 0 is the image. A dense layer is a convolution of
 * kernel 1 whose channels are the units of a 1 x 1 map: the numbers of a map stand in the order of x, so flattening moves
 * nothing.
 *
 * Particles lie in groups of GROUP, one vector lane each, and the numbers of one group after those of the other:
 *
 *     channel c, pixel k (row after row) of a layer, lane i       at  (offset of the layer + c * apart + k) * lanes + i
 *
 * with lanes = GROUP, or what ld leaves for the last group of a tile, so that a tile fits into what model.work promises.
 * `apart` is the number of pixels, made odd where all who read the layer see channels: channels of 2^k pixels would all be
 * mapped to a few sets of the first-level cache.
 *
 * Weights in prep are packed in blocks of output channels of the product that reads them: WIDE of them (padded with zeros),
 * or single ones where fewer than half a block is left. In each block: tap row, tap column, inner channel, channel. */
#ifndef SOSMC_NETWORKS_NETWORK_H
#define SOSMC_NETWORKS_NETWORK_H

#include <sosmc/networks.h>

enum { GROUP = 16, WIDE = 8, NETWORK_MOST = 64, NETWORK_TILE = 32 };

typedef struct {
    int channels, rows, columns;
} network_map;

static inline size_t network_pixels(const network_map *m) { return (size_t)m->rows * (size_t)m->columns; }
static inline size_t network_units(const network_map *m) { return (size_t)m->channels * network_pixels(m); }

typedef struct {
    network_map in, out; /* of a dense layer: units as channels of one pixel */
    int dense, kernel, stride, padding, activation;
    size_t in_apart, apart; /* numbers from channel to channel in work */
    int added;              /* the layer whose output is added before the activation; -1: none */
    size_t weight, bias;    /* in theta */
    /* in prep, in floats: packed for the sums, for the deltas of the layer below (class after class of its pixels), the
     * biases. Of the last layer only `forward` and `shift`, as they stand in theta. */
    size_t forward, backward, shift;
    size_t h, d; /* in work, in numbers per particle: activations; slopes, which become deltas. The last layer has no h,
                  * its d is one number: that of the output that is the energy. The image has no d. */
} network_layer;

typedef struct {
    int count;
    network_layer layer[NETWORK_MOST + 1];
    size_t parameters, prep, work; /* numbers, floats, floats per particle */
} network_shape;

void sosmc_i_network_shape(const sosmc_network *n, network_shape *s);

/* Of `left` output channels that are not yet packed, how many the next block has room for. */
static inline int network_block(int left) { return left > WIDE / 2 ? WIDE : 1; }
/* Channels with padding. */
static inline size_t network_padded(int channels)
{
    int rest = channels % WIDE;
    return (size_t)(rest > WIDE / 2 ? channels - rest + WIDE : channels);
}

/* Pixels y with y mod stride = r, r = 0..stride-1, are a class: they are touched by the kernel's taps first, first + stride,
 * ... alone. */
typedef struct {
    int first, taps;
} network_class;
static inline network_class network_class_of(const network_layer *l, int r)
{
    int first = (r + l->padding) % l->stride;
    return (network_class){first, first < l->kernel ? (l->kernel - first + l->stride - 1) / l->stride : 0};
}

/* The arithmetic, once per vector level. */
typedef struct {
    /* with gx, work is left with h and with the deltas of one unit of energy per particle: a pass */
    void (*energy)(const sosmc_network *n, const network_shape *s, const sosmc_batch *b, double *U, double *gx);
    /* g += sum_i c_i dE_i/dtheta, from a pass left in work (b->fresh) or from a new one */
    void (*contract)(const sosmc_network *n, const network_shape *s, const sosmc_batch *b, const double *c, double *g);
    /* numbers first..last-1 of the last layer for the group of particles from `particle` on, GROUP lanes each; x is held to
     * [-clamp, clamp]. `work` has room for GROUP particles. */
    void (*outputs)(const network_shape *s, const sosmc_batch *b, const void *prep, double clamp, int particle,
                    int first, int last, void *work, double *f);
} network_code;

#endif
