/* network_products.h: the products of layers, at the vector level of the file that includes it (network_vec.c alone).
 *
 * A product is a convolution, or the deltas of one, over all output channels and pixels of one class; its sums go to a sink,
 * which adds what skips bring, applies the activation and stores. Lanes are particles; weights are broadcast; a block of
 * channels by pixels stays in registers. */
#ifndef SOSMC_NETWORKS_NETWORK_PRODUCTS_H
#define SOSMC_NETWORKS_NETWORK_PRODUCTS_H

#include "network.h"

#include "activations.h"
#include "base/simdf.h"

enum {
    PIXELS = 2,    /* of a block of WIDE channels */
    PIXELS_ONE = 8 /* of a block of one */
};

_Static_assert(WIDE *PIXELS >= PIXELS_ONE, "the room for a block's sums is that of a wide one");

/* A group of particles. */
typedef struct {
    const network_shape *s;
    const float *prep;
    float *work;
    int lanes; /* apart: GROUP, or fewer where ld leaves no room for so many */
    int live;  /* particles there are, at most `lanes` */
} group;

static float *number_at(const group *g, size_t number) { return g->work + number * (size_t)g->lanes; }

/* A vector of `lanes` numbers, the others 0. `full` is a constant where these are expanded. */
VEC vf get(const int full, int lanes, const float *p)
{
    if (full) return vf_load(p);
    float some[GROUP] = {0};
    memcpy(some, p, (size_t)lanes * sizeof *p);
    return vf_load(some);
}
VEC void put(const int full, int lanes, float *p, vf a)
{
    if (full) {
        vf_store(p, a);
    } else {
        float some[GROUP];
        vf_store(some, a);
        memcpy(p, some, (size_t)lanes * sizeof *p);
    }
}

/* ------------------------------------------------------------------------------------------------ products */

/* Rows or columns of a product: output t = 0..count-1 stands at start + step t and sees, through tap u = 0..taps-1, the input
 * at in_step t + base + turn u, where there is one. */
typedef struct {
    int count, start, step;
    int taps, in_step, base, turn, in;
} axis;

/* Taps lo..hi-1 of output t are inside. Both ends are monotone in t. */
static void inside(const axis *a, int t, int *lo, int *hi)
{
    int at = a->in_step * t + a->base;
    *lo = a->turn > 0 ? -at : at - a->in + 1;
    *hi = a->turn > 0 ? a->in - at : at + 1;
    if (*lo < 0) *lo = 0;
    if (*hi > a->taps) *hi = a->taps;
}

/* A rectangle of taps over all inner channels, and the distances between neighbours in floats. */
typedef struct {
    int inner, rows, columns;
    ptrdiff_t in_channel, in_row, in_column, in_pixel, w_row;
    int lanes;
} window;

/* block (wide channels, `apart` vectors from one to the next, of px pixels) = start, or itself when that is NULL, + taps
 * times weights, `packed` of which stand together. `in` and `weights` are those of the first tap. */
VEC void products(const int full, const int wide, const int px, const int packed, const window *k,
                  const float *restrict in, const float *restrict weights, const float *start, float *restrict block,
                  const int apart)
{
    vf sum[WIDE][PIXELS_ONE]; /* wide by px of them */
    const ptrdiff_t pixel = k->in_pixel, in_channel = k->in_channel;
    const int inner = k->inner;
#pragma GCC unroll 16
    for (int o = 0; o < wide; o++)
#pragma GCC unroll 16
        for (int p = 0; p < px; p++) sum[o][p] = start ? vf_set(start[o]) : vf_load(block + (o * apart + p) * GROUP);
    for (ptrdiff_t a = 0; a < k->rows; a++) {
        const float *w = weights + a * k->w_row;
        for (ptrdiff_t b = 0; b < k->columns; b++) {
            ptrdiff_t at = a * k->in_row + b * k->in_column;
            for (int c = 0; c < inner; c++, at += in_channel, w += packed) {
                vf h[PIXELS_ONE];
#pragma GCC unroll 16
                for (int p = 0; p < px; p++) h[p] = get(full, k->lanes, in + (at + p * pixel));
#pragma GCC unroll 16
                for (int o = 0; o < wide; o++) {
                    vf v = vf_set(w[o]);
#pragma GCC unroll 16
                    for (int p = 0; p < px; p++) sum[o][p] = vf_fma(v, h[p], sum[o][p]);
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int o = 0; o < wide; o++)
#pragma GCC unroll 16
        for (int p = 0; p < px; p++) vf_store(block + (o * apart + p) * GROUP, sum[o][p]);
}

#define ARGUMENTS const window *k, const float *in, const float *weights, const float *start, float *block
#define NOINLINE static __attribute__((noinline)) void

/* Any shape, number by number of the block: for groups without room for full vectors, and where nothing is faster. */
NOINLINE products_slow(int wide, int px, int apart, ARGUMENTS)
{
    const int packed = wide;
    for (int o = 0; o < wide; o++)
        for (int p = 0; p < px; p++) {
            float *to = block + (o * apart + p) * GROUP;
            products(0, 1, 1, packed, k, in + p * k->in_pixel, weights + o, start ? start + o : NULL, to, 1);
        }
}

#if defined(SOSMC_LEVEL_AVX512)
#define CASE(px, wide, apart) \
    case px: products(1, wide, px, wide, k, in, weights, start, block, apart); break
NOINLINE products_wide(int px, ARGUMENTS)
{
    switch (px) {
        CASE(1, WIDE, PIXELS);
        CASE(2, WIDE, PIXELS);
    default: break;
    }
}
NOINLINE products_one(int px, ARGUMENTS)
{
    switch (px) {
        CASE(1, 1, PIXELS_ONE);
        CASE(2, 1, PIXELS_ONE);
        CASE(3, 1, PIXELS_ONE);
        CASE(4, 1, PIXELS_ONE);
        CASE(5, 1, PIXELS_ONE);
        CASE(6, 1, PIXELS_ONE);
        CASE(7, 1, PIXELS_ONE);
        CASE(8, 1, PIXELS_ONE);
    default: break;
    }
}
#elif defined(SOSMC_LEVEL_AVX2)
NOINLINE products_wide(int px, ARGUMENTS)
{
    for (int p = 0; p < px; p++)
        for (int o = 0; o < WIDE; o += 4)
            products(1, 4, 1, WIDE, k, in + p * k->in_pixel, weights + o, start ? start + o : NULL,
                     block + (o * PIXELS + p) * GROUP, PIXELS);
}
NOINLINE products_one(int px, ARGUMENTS)
{
    int p = 0;
    for (; p + 4 <= px; p += 4)
        products(1, 1, 4, 1, k, in + p * k->in_pixel, weights, start, block + p * GROUP, PIXELS_ONE);
    for (; p < px; p++) products(1, 1, 1, 1, k, in + p * k->in_pixel, weights, start, block + p * GROUP, PIXELS_ONE);
}
#else
static void products_wide(int px, ARGUMENTS) { products_slow(WIDE, px, PIXELS, k, in, weights, start, block); }
static void products_one(int px, ARGUMENTS) { products_slow(1, px, PIXELS_ONE, k, in, weights, start, block); }
#endif

/* One product: all output channels and pixels of one class. */
typedef struct {
    const float *in, *weights, *shift;
    network_map from, to; /* maps of the input and of the output */
    size_t in_apart;
    axis rows, columns;
    int lanes;
} product;

/* A block of outputs: `wide` channels, pixels tx..tx+px-1 of row ty. */
typedef struct {
    const float *weights, *start; /* of the channels */
    int wide, ty, tx, px;
    float *sums; /* channel after channel, `apart` vectors each */
    int apart;
} block;

/* Adds the taps of rows a..a+rows-1 and columns b..b+columns-1, which must be inside for pixels first..first+px-1. */
static void run_window(const product *p, const block *k, int a, int rows, int b, int columns, int first, int px,
                       const float *start)
{
    const axis *y = &p->rows, *x = &p->columns;
    ptrdiff_t row = y->in_step * k->ty + y->base + y->turn * a;
    ptrdiff_t column = x->in_step * (k->tx + first) + x->base + x->turn * b;
    ptrdiff_t each = (ptrdiff_t)p->from.channels * k->wide;
    const float *in = p->in + (row * p->from.columns + column) * p->lanes;
    const float *weights = k->weights + (a * x->taps + b) * each;
    float *sums = k->sums + first * GROUP;
    window w = {.inner = p->from.channels,
                .rows = rows,
                .columns = columns,
                .in_channel = (ptrdiff_t)p->in_apart * p->lanes,
                .in_row = (ptrdiff_t)y->turn * p->from.columns * p->lanes,
                .in_column = (ptrdiff_t)x->turn * p->lanes,
                .in_pixel = (ptrdiff_t)x->in_step * p->lanes,
                .w_row = x->taps * each,
                .lanes = p->lanes};
    if (p->lanes < GROUP)
        products_slow(k->wide, px, k->apart, &w, in, weights, start, sums);
    else if (k->wide == 1)
        products_one(px, &w, in, weights, start, sums);
    else
        products_wide(px, &w, in, weights, start, sums);
}

/* Which pixels of the block, *left..*right-1, see tap column u; the value is how many columns from u on they all see, or
 * none of the block's pixels does. */
static int common_run(const axis *x, const block *k, int u, int *left, int *right)
{
    int columns = x->taps - u;
    *left = k->px;
    *right = 0;
    for (int q = 0; q < k->px; q++) {
        int first, end;
        inside(x, k->tx + q, &first, &end);
        if (first <= u && u < end) {
            if (q < *left) *left = q;
            *right = q + 1;
            if (end - u < columns) columns = end - u;
        } else if (first > u && first < end && first - u < columns) {
            columns = first - u;
        }
    }
    return columns;
}

/* All taps that are inside: runs of tap columns that the same pixels see. */
static void fill_block(const product *p, const block *k)
{
    const axis *x = &p->columns;
    int top, bottom, first, end, last, last_end;
    inside(&p->rows, k->ty, &top, &bottom);
    inside(x, k->tx, &first, &end);
    inside(x, k->tx + k->px - 1, &last, &last_end);
    if (first == 0 && last == 0 && end == x->taps && last_end == x->taps && top < bottom && end > 0) {
        run_window(p, k, top, bottom - top, 0, x->taps, 0, k->px, k->start);
        return;
    }
    for (int c = 0; c < k->wide; c++)
        for (int i = 0; i < k->px; i++) vf_store(k->sums + (c * k->apart + i) * GROUP, vf_set(k->start[c]));
    for (int u = 0, columns; u < x->taps && top < bottom; u += columns) {
        int left, right;
        columns = common_run(x, k, u, &left, &right);
        if (left < right) run_window(p, k, top, bottom - top, u, columns, left, right - left, NULL);
    }
}

/* ------------------------------------------------------------------------------------------------ where sums go */

/* What becomes of the sums of a layer. Forward: h and, unless NULL, the slopes d. Backward: d is multiplied by the sums;
 * or, when gx is not NULL, they are dE/dx. */
typedef struct sink sink;
/* The sums of a block: `channels` from `channel` on, `apart` vectors each, of px pixels that begin at `pixel` and are `step`
 * from each other. */
typedef void finish(const sink *to, int channel, int channels, size_t pixel, size_t step, const float *sums, int apart,
                    int px);
struct sink {
    finish *end;
    float *h, *d;
    size_t apart; /* numbers from channel to channel */
    struct {
        const float *map;
        size_t apart;
    } added[NETWORK_MOST]; /* to the sums */
    int adds;
    const float
        *spike; /* NULL, or a number that is added at one place: the last layer's delta, where that has a skip */
    size_t spike_at;
    int lanes;
    /* dE/dx */
    double *gx;
    const double *x;
    double precision;
    size_t ld;
    int live;
};

/* A sum with what is added to it. */
VEC vf total(const sink *to, const int full, size_t channel, size_t pixel, vf z)
{
    for (int a = 0; a < to->adds; a++) {
        size_t number = channel * to->added[a].apart + pixel;
        z = vf_add(z, get(full, to->lanes, to->added[a].map + number * (size_t)to->lanes));
    }
    if (to->spike && channel * to->apart + pixel == to->spike_at) z = vf_add(z, get(full, to->lanes, to->spike));
    return z;
}

/* A finish from what happens to one sum z of a channel and pixel. */
#define FINISH(name, put_one, ...)                                                                                    \
    static void name(const sink *to, int channel, int channels, size_t pixel, size_t step, const float *sums,         \
                     int apart, int px)                                                                               \
    {                                                                                                                 \
        for (int c = 0; c < channels; c++)                                                                            \
            for (int p = 0; p < px; p++)                                                                              \
                put_one(to, (size_t)(channel + c), pixel + (size_t)p * step, vf_load(sums + (c * apart + p) * GROUP), \
                        __VA_ARGS__);                                                                                 \
    }

VEC void put_activated(const sink *to, size_t channel, size_t pixel, vf z, const int full, const int activation)
{
    size_t at = (channel * to->apart + pixel) * (size_t)to->lanes;
    vf h, slope;
    activate(activation, total(to, full, channel, pixel, z), &h, &slope);
    put(full, to->lanes, to->h + at, h);
    if (to->d) put(full, to->lanes, to->d + at, slope);
}
VEC void put_delta(const sink *to, size_t channel, size_t pixel, vf z, const int full)
{
    float *d = to->d + (channel * to->apart + pixel) * (size_t)to->lanes;
    put(full, to->lanes, d, vf_mul(total(to, full, channel, pixel, z), get(full, to->lanes, d)));
}
VEC void put_image(const sink *to, size_t channel, size_t pixel, vf z, const int full)
{
    size_t at = (channel * to->apart + pixel) * to->ld;
    float slope[GROUP];
    vf_store(slope, total(to, full, channel, pixel, z));
    if (to->live == GROUP && to->precision == 0)
        for (int i = 0; i < GROUP; i++) to->gx[at + (size_t)i] = (double)slope[i];
    else
        for (int i = 0; i < to->live; i++)
            to->gx[at + (size_t)i] = (double)slope[i] + to->precision * to->x[at + (size_t)i];
}

#define FINISH_BOTH(name, activation)                   \
    FINISH(finish_##name, put_activated, 1, activation) \
    FINISH(finish_few_##name, put_activated, 0, activation)
FINISH_BOTH(silu, SOSMC_SILU)
FINISH_BOTH(softplus, SOSMC_SOFTPLUS)
FINISH_BOTH(tanh, SOSMC_TANH)
FINISH_BOTH(gelu, SOSMC_GELU)
FINISH_BOTH(leaky_relu, SOSMC_LEAKY_RELU)
FINISH_BOTH(identity, SOSMC_IDENTITY)
FINISH(finish_deltas, put_delta, 1)
FINISH(finish_few_deltas, put_delta, 0)
FINISH(finish_image, put_image, 1)
FINISH(finish_few_image, put_image, 0)

/* In the order of sosmc_activation; by whether vectors are full. */
static finish *const finish_forward[2][SOSMC_IDENTITY + 1] = {
    {finish_few_silu, finish_few_softplus, finish_few_tanh, finish_few_gelu, finish_few_leaky_relu,
     finish_few_identity},
    {finish_silu, finish_softplus, finish_tanh, finish_gelu, finish_leaky_relu, finish_identity}};
static finish *const finish_backward[2] = {finish_few_deltas, finish_deltas};
static finish *const finish_gx[2] = {finish_few_image, finish_image};

/* Prefetches the memory that a block will be written to, or multiplied by, while its sums are computed. */
static void call_for(const sink *to, int channel, int channels, size_t pixel, size_t step, int px)
{
    for (int c = 0; c < channels; c++)
        for (int p = 0; p < px; p++) {
            size_t at = ((size_t)(channel + c) * to->apart + pixel + (size_t)p * step) * (size_t)to->lanes;
            if (to->d) __builtin_prefetch(to->d + at, 1);
            if (to->h) __builtin_prefetch(to->h + at, 1);
        }
}

/* All output channels and pixels of a product. */
static void run_product(const product *p, const sink *to)
{
    float sums[WIDE * PIXELS * GROUP] __attribute__((aligned(64)));
    static const float zero[WIDE];
    block k;
    k.weights = p->weights;
    k.sums = sums;
    for (int o = 0; o < p->to.channels; o += k.wide) {
        k.wide = network_block(p->to.channels - o);
        k.apart = k.wide == 1 ? PIXELS_ONE : PIXELS;
        k.start = p->shift ? p->shift + o : zero;
        int blocks = (p->columns.count + k.apart - 1) / k.apart;
        int here = p->to.channels - o < k.wide ? p->to.channels - o : k.wide;
        int all = blocks * p->rows.count;
        for (int i = 0; i < all; i++) {
            /* single channels go downwards, so that the rows a block shares with the next are still close */
            int part = k.wide == 1 ? i / p->rows.count : i % blocks;
            k.ty = k.wide == 1 ? i % p->rows.count : i / blocks;
            k.tx = p->columns.count * part / blocks;
            k.px = p->columns.count * (part + 1) / blocks - k.tx;
            int row = p->rows.start + p->rows.step * k.ty, column = p->columns.start + p->columns.step * k.tx;
            size_t at = (size_t)row * (size_t)p->to.columns + (size_t)column;
            call_for(to, o, here, at, (size_t)p->columns.step, k.px);
            fill_block(p, &k);
            to->end(to, o, here, at, (size_t)p->columns.step, sums, k.apart, k.px);
        }
        k.weights += (ptrdiff_t)p->from.channels * p->rows.taps * p->columns.taps * k.wide;
    }
}

#endif
