/* network_vec.c: passes through a list of convolutions and dense layers, compiled once per vector level (maths.md NETWORK).
 *
 *     z_l = W_l * h_{l-1} + b_l + h_{added},  h_l = act(z_l),  E = factor f_output,  f = h_count      forward
 *     d_count = factor act'(z_count),  d_{l-1} = (W_l^T * d_l + skips) act'(z_{l-1})                  backward
 *     dE/dW_l = d_l * h_{l-1} (a correlation over pixels),  dE/db_l = sum of d_l over pixels
 *
 * Lanes are particles, so the convolutions are direct: a block of output channels by pixels of a row stays in registers
 * while the inner channels and the taps of the kernel pass, weights are broadcast, and taps outside the map are never
 * visited. A group of 16 particles goes forward and back before the next one comes, so that it stays in the second-level
 * cache. The deltas of the layer below a convolution of stride s are s x s such products, one per class of its pixels.
 *
 * Invariant: every number is a chain of fused multiply-adds over runs of tap columns that depend on the layer's shape and on
 * PIXELS alone, in each of them over tap rows, tap columns, inner channels. How many channels and pixels share the
 * registers changes nothing but speed. */
#include "network.h"

#include "activations.h"
#include "simd/simdf.h"

enum {
    PIXELS = 2,     /* of a block of WIDE channels */
    PIXELS_ONE = 8, /* of a block of one */
    /* A contraction takes at most CHUNK outputs of a channel, in at most CHUNK_GROUPS groups, through TAPS taps at a time;
     * CORNER output by as many input channels stay in registers. */
    CHUNK = 64,
    CHUNK_GROUPS = 4,
    TAPS = 32,
    CORNER = 4
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

/* What a block will be written to, or multiplied by, comes closer while its sums are made. */
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

/* ------------------------------------------------------------------------------------------------ forward */

static void take_input(const group *g, const sosmc_batch *b, int particle, double clamp)
{
    for (int j = 0; j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld + (size_t)particle;
        float *to = number_at(g, (size_t)j);
        if (g->live == GROUP)
            for (int i = 0; i < GROUP; i++) to[i] = (float)x[i];
        else /* the lanes that are left repeat a particle: whatever is finite for that one is finite for them */
            for (int i = 0; i < g->lanes; i++) to[i] = (float)x[i < g->live ? i : 0];
        for (int i = 0; clamp > 0 && i < g->lanes; i++) {
            if (to[i] > (float)clamp) to[i] = (float)clamp;
            if (to[i] < -(float)clamp) to[i] = -(float)clamp;
        }
    }
}

static axis forward_axis(const network_layer *l, int in, int out)
{
    return (axis){
        .count = out, .step = 1, .taps = l->kernel, .in_step = l->stride, .base = -l->padding, .turn = 1, .in = in};
}

/* h of layers 1..count-1 and, where asked, their slopes. */
static void forward(const group *g, int slopes)
{
    for (int k = 1; k < g->s->count; k++) {
        const network_layer *l = &g->s->layer[k];
        product p = {.in = number_at(g, g->s->layer[k - 1].h),
                     .weights = g->prep + l->forward,
                     .shift = g->prep + l->shift,
                     .from = l->in,
                     .to = l->out,
                     .in_apart = l->in_apart,
                     .rows = forward_axis(l, l->in.rows, l->out.rows),
                     .columns = forward_axis(l, l->in.columns, l->out.columns),
                     .lanes = g->lanes};
        sink to = {.end = finish_forward[g->lanes == GROUP][l->activation],
                   .h = number_at(g, l->h),
                   .d = slopes ? number_at(g, l->d) : NULL,
                   .apart = l->apart,
                   .lanes = g->lanes};
        if (l->added >= 0) {
            to.added[0].map = number_at(g, g->s->layer[l->added].h);
            to.added[0].apart = l->dense ? 1 : g->s->layer[l->added].apart;
            to.adds = 1;
        }
        run_product(&p, &to);
    }
}

/* Which window of the layer below a number of the last layer sees: the input at row + a, column + b through tap (a, b). */
typedef struct {
    const float *weights;
    int channel, row, column;
} view;

static view view_of(const group *g, int output)
{
    const network_layer *l = &g->s->layer[g->s->count];
    int pixels = (int)network_pixels(&l->out), channel = output / pixels, at = output % pixels;
    size_t per_channel = (size_t)l->in.channels * (size_t)l->kernel * (size_t)l->kernel;
    return (view){.weights = g->prep + l->forward + (size_t)channel * per_channel,
                  .channel = channel,
                  .row = at / l->out.columns * l->stride - l->padding,
                  .column = at % l->out.columns * l->stride - l->padding};
}

/* Which weight of a view the number (c, y, x) of the layer below is multiplied by; NULL: none. */
static const float *weight_of(const network_layer *l, const view *v, int c, int y, int x)
{
    int a = y - v->row, b = x - v->column;
    if (a < 0 || a >= l->kernel || b < 0 || b >= l->kernel) return NULL;
    return v->weights + ((size_t)c * (size_t)l->kernel + (size_t)a) * (size_t)l->kernel + (size_t)b;
}

/* Where the number that counts as `number` in a layer's outputs stands among them in work. */
static size_t place_of(const network_layer *l, int number)
{
    size_t pixels = network_pixels(&l->out);
    return (size_t)number / pixels * l->apart + (size_t)number % pixels;
}

/* Number `output` of the last layer, summed in double, and act' there. */
static void last_output(const group *g, int output, double *f, float *slope)
{
    const network_layer *l = &g->s->layer[g->s->count];
    size_t below = g->s->layer[g->s->count - 1].h;
    view v = view_of(g, output);
    const network_layer *from = l->added >= 0 ? &g->s->layer[l->added] : NULL;
    const float *added = from ? number_at(g, from->h + place_of(from, output)) : NULL;
    float z[GROUP] = {0}, value[GROUP] = {0};
    for (int i = 0; i < GROUP; i++) f[i] = (double)g->prep[l->shift + (size_t)v.channel];
    for (int c = 0; c < l->in.channels; c++) {
        const float *h = number_at(g, below + (size_t)c * l->in_apart);
        for (int y = 0; y < l->in.rows; y++)
            for (int x = 0; x < l->in.columns; x++, h += g->lanes) {
                const float *w = weight_of(l, &v, c, y, x);
                for (int i = 0; w && i < g->lanes; i++) f[i] += (double)*w * (double)h[i];
            }
    }
    for (int i = 0; added && i < g->lanes; i++) f[i] += (double)added[i];
    for (int i = 0; i < GROUP; i++) slope[i] = 1;
    if (l->activation == SOSMC_IDENTITY) return;
    for (int i = 0; i < g->lanes; i++) z[i] = (float)f[i];
    sink to = {.h = value, .d = slope, .lanes = GROUP};
    finish_forward[1][l->activation](&to, 0, 1, 0, 0, z, 1, 1);
    for (int i = 0; i < GROUP; i++) f[i] = (double)value[i];
}

/* ------------------------------------------------------------------------------------------------ backward */

static axis backward_axis(const network_layer *l, int r, int in, int out)
{
    network_class c = network_class_of(l, r);
    return (axis){.count = r < in ? (in - r + l->stride - 1) / l->stride : 0,
                  .start = r,
                  .step = l->stride,
                  .taps = c.taps,
                  .in_step = 1,
                  .base = (r + l->padding - c.first) / l->stride,
                  .turn = -1,
                  .in = out};
}

/* The sink of the sums that arrive at the output of layer k from layer k + 1: deltas of the layers that added it come with
 * them. */
static sink sink_below(const group *g, int k, sink to, int output)
{
    const network_layer *layer = g->s->layer, *last = &layer[g->s->count];
    to.end = k > 0 ? finish_backward[g->lanes == GROUP] : finish_gx[g->lanes == GROUP];
    to.d = k > 0 ? number_at(g, layer[k].d) : NULL;
    to.apart = layer[k + 1].in_apart;
    to.lanes = g->lanes;
    for (int l = k + 1; l < g->s->count; l++)
        if (layer[l].added == k) {
            to.added[to.adds].map = number_at(g, layer[l].d);
            to.added[to.adds++].apart = layer[l].dense ? to.apart : layer[l].apart;
        }
    if (last->added == k) {
        to.spike = number_at(g, last->d);
        to.spike_at = place_of(&layer[k], output);
    }
    return to;
}

/* From the delta of the energy's output to the layer below the last. */
static void backward_last(const group *g, int output, const sink *to)
{
    const network_layer *l = &g->s->layer[g->s->count];
    vf delta = get(0, g->lanes, number_at(g, l->d));
    float sum[GROUP];
    view v = view_of(g, output);
    for (int c = 0; c < l->in.channels; c++)
        for (int y = 0; y < l->in.rows; y++)
            for (int x = 0; x < l->in.columns; x++) {
                const float *w = weight_of(l, &v, c, y, x);
                vf_store(sum, vf_mul(vf_set(w ? *w : 0.0f), delta));
                to->end(to, c, 1, (size_t)y * (size_t)l->in.columns + (size_t)x, 0, sum, 1, 1);
            }
}

/* From the deltas of layer k to what arrives at layer k - 1. */
static void backward_layer(const group *g, int k, const sink *to)
{
    const network_layer *l = &g->s->layer[k];
    product p = {.in = number_at(g, l->d),
                 .weights = g->prep + l->backward,
                 .from = l->out,
                 .to = l->in,
                 .in_apart = l->apart,
                 .lanes = g->lanes};
    for (int y = 0; y < l->stride; y++)
        for (int x = 0; x < l->stride; x++) {
            p.rows = backward_axis(l, y, l->in.rows, l->out.rows);
            p.columns = backward_axis(l, x, l->in.columns, l->out.columns);
            run_product(&p, to);
            p.weights += network_padded(l->in.channels) * (size_t)l->out.channels * (size_t)p.rows.taps *
                         (size_t)p.columns.taps;
        }
}

/* From the slopes to the deltas; then dE/dx, unless `image` has no gx. */
static void backward(const group *g, int output, sink image)
{
    int last = g->s->count;
    for (int k = last; k >= 1; k--) {
        if (k == 1 && !image.gx) return;
        sink to = sink_below(g, k - 1, image, output);
        if (k == last)
            backward_last(g, output, &to);
        else
            backward_layer(g, k, &to);
    }
}

/* ------------------------------------------------------------------------------------------------ energy */

static group group_at(const network_shape *s, const sosmc_batch *b, int particle)
{
    int room = b->ld - particle, live = b->n - particle;
    return (group){.s = s,
                   .prep = b->prep,
                   .work = (float *)b->work + s->work * (size_t)particle,
                   .lanes = room < GROUP ? room : GROUP,
                   .live = live < GROUP ? live : GROUP};
}

/* With `slopes`: h and deltas are left in work, and with gx dE/dx goes there. U may be NULL. */
static void pass(const sosmc_network *n, const network_shape *s, const sosmc_batch *b, int particle, int slopes,
                 double *U, double *gx)
{
    group g = group_at(s, b, particle);
    double f[GROUP];
    float slope[GROUP], *delta = number_at(&g, s->layer[s->count].d);
    take_input(&g, b, particle, 0);
    forward(&g, slopes);
    last_output(&g, n->output, f, slope);
    double factor = n->temperature > 0 ? n->sign / n->temperature : n->sign;
    for (int i = 0; U && i < g.live; i++) U[particle + i] = factor * f[i];
    for (int i = 0; i < g.lanes; i++) delta[i] = (float)factor * slope[i];
    sink image = {.gx = gx ? gx + particle : NULL,
                  .x = b->x + particle,
                  .precision = n->base_sd > 0 ? 1 / (n->base_sd * n->base_sd) : 0,
                  .ld = (size_t)b->ld,
                  .live = g.live};
    if (slopes) backward(&g, n->output, image);
}

static void energy(const sosmc_network *n, const network_shape *s, const sosmc_batch *b, double *U, double *gx)
{
    double half = n->base_sd > 0 ? 0.5 / (n->base_sd * n->base_sd) : 0;
    for (int i = 0; i < b->n; i += GROUP) pass(n, s, b, i, gx != NULL, U, gx);
    for (int j = 0; half > 0 && j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) U[i] += half * x[i] * x[i];
    }
}

static void outputs(const network_shape *s, const sosmc_batch *b, const void *prep, double clamp, int particle,
                    int first, int last, void *work, double *f)
{
    int live = b->n - particle;
    float slope[GROUP];
    group g = {.s = s, .prep = prep, .work = work, .lanes = GROUP, .live = live < GROUP ? live : GROUP};
    take_input(&g, b, particle, clamp);
    forward(&g, 0);
    for (int k = first; k < last; k++) last_output(&g, k, f + (size_t)(k - first) * GROUP, slope);
}

/* ------------------------------------------------------------------------------------------------ over particles */

/* Lane sums of 16 vectors, each as vf_fold has them. */
VEC void fold_16(const float *vectors, float *sums)
{
#if defined(SOSMC_LEVEL_AVX512)
    /* Halving the lanes of two vectors into one, four times over; the order in which vectors are taken puts the sum of
     * vector k into lane k. */
    vf eight[8], four[4], two[2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        /* position q + 4 r of the tree ends in lane 4 q + r */
        int first = 2 * i, second = 2 * i + 1;
        vf a = vf_load(vectors + (4 * (first % 4) + first / 4) * GROUP);
        vf b = vf_load(vectors + (4 * (second % 4) + second / 4) * GROUP);
        eight[i] = vf_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        four[i] = vf_add(_mm512_shuffle_f32x4(eight[2 * i], eight[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(eight[2 * i], eight[2 * i + 1], 0xdd));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        two[i] = vf_add(_mm512_shuffle_ps(four[2 * i], four[2 * i + 1], 0x44),
                        _mm512_shuffle_ps(four[2 * i], four[2 * i + 1], 0xee));
    vf_store(sums, vf_add(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xdd)));
#else
    for (int k = 0; k < GROUP; k++) sums[k] = vf_fold(vf_load(vectors + k * GROUP));
#endif
}

/* A rectangle of a layer's outputs in several groups, with its deltas times c in `scaled`: channel, group, row, column. */
typedef struct {
    const network_layer *l;
    const float *h[CHUNK_GROUPS]; /* of the layer below */
    int groups, lanes;
    int row, rows, column, columns;
    const float *scaled;
    size_t slots; /* outputs of a channel: groups * rows * columns */
} chunk;

/* Outputs of a chunk that see a number inside the map through one tap: where their deltas and that number stand, in floats
 * from those of the first channel (of the first group). */
typedef struct {
    int count, lanes;
    size_t d_channel, h_channel;
    ptrdiff_t d[CHUNK], h[CHUNK];
} pairs;

static void pair_up(const chunk *k, int a, int b, pairs *to)
{
    const network_layer *l = k->l;
    to->count = 0;
    to->lanes = k->lanes;
    to->d_channel = k->slots * GROUP;
    to->h_channel = l->in_apart * (size_t)k->lanes;
    for (int g = 0, slot = 0; g < k->groups; g++)
        for (int y = 0; y < k->rows; y++)
            for (int x = 0; x < k->columns; x++, slot++) {
                int row = (k->row + y) * l->stride + a - l->padding;
                int column = (k->column + x) * l->stride + b - l->padding;
                if (row < 0 || row >= l->in.rows || column < 0 || column >= l->in.columns) continue;
                to->d[to->count] = (ptrdiff_t)slot * GROUP;
                to->h[to->count++] = k->h[g] - k->h[0] + ((ptrdiff_t)row * l->in.columns + column) * k->lanes;
            }
}

/* sums (columns of them in a row, rows `apart` vectors from each other) of products delta of channel i times input of
 * channel j. */
VEC void correlate(const int full, const int rows, const int columns, const pairs *k, const float *restrict d,
                   const float *restrict h, float *restrict sums, const int apart)
{
    const size_t d_channel = k->d_channel, h_channel = k->h_channel;
    const int count = k->count;
    vf sum[GROUP][CORNER]; /* rows by columns of them */
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (int j = 0; j < columns; j++) sum[i][j] = vf_set(0.0f);
    for (int s = 0; s < count; s++) {
        const float *e = d + k->d[s], *x = h + k->h[s];
        vf v[CORNER];
#pragma GCC unroll 16
        for (int j = 0; j < columns; j++) v[j] = get(full, k->lanes, x + (size_t)j * h_channel);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vf delta = vf_load(e + (size_t)i * d_channel);
#pragma GCC unroll 16
            for (int j = 0; j < columns; j++) sum[i][j] = vf_fma(delta, v[j], sum[i][j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (int j = 0; j < columns; j++) vf_store(sums + (i * apart + j) * GROUP, sum[i][j]);
}

#define CORRELATION const pairs *k, const float *d, const float *h, float *sums

NOINLINE correlate_slow(int columns, CORRELATION)
{
    for (int i = 0; i < GROUP / columns; i++)
        for (int j = 0; j < columns; j++)
            correlate(0, 1, 1, k, d + (size_t)i * k->d_channel, h + (size_t)j * k->h_channel,
                      sums + (i * columns + j) * GROUP, 1);
}
#if defined(SOSMC_LEVEL_AVX512)
NOINLINE correlate_square(CORRELATION) { correlate(1, CORNER, CORNER, k, d, h, sums, CORNER); }
NOINLINE correlate_tall(CORRELATION) { correlate(1, GROUP, 1, k, d, h, sums, 1); }
#elif defined(SOSMC_LEVEL_AVX2)
NOINLINE correlate_square(CORRELATION)
{
    for (int i = 0; i < CORNER; i += 2)
        for (int j = 0; j < CORNER; j += 2)
            correlate(1, 2, 2, k, d + (size_t)i * k->d_channel, h + (size_t)j * k->h_channel,
                      sums + (i * CORNER + j) * GROUP, CORNER);
}
NOINLINE correlate_tall(CORRELATION)
{
    for (int i = 0; i < GROUP; i += 4) correlate(1, 4, 1, k, d + (size_t)i * k->d_channel, h, sums + i * GROUP, 1);
}
#else
static void correlate_square(CORRELATION) { correlate_slow(CORNER, k, d, h, sums); }
static void correlate_tall(CORRELATION) { correlate_slow(1, k, d, h, sums); }
#endif

/* to[i * row + j * every + t] += part[i][j * taps + t]: rows of weights that follow each other where all taps are there. */
static void add_part(float part[GROUP][CORNER * TAPS], int taps, int rows, int columns, double *to, size_t row,
                     size_t every)
{
    int whole = (size_t)taps == every, runs = whole ? 1 : columns, count = whole ? columns * taps : taps;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < runs; j++) {
            double *restrict g = to + (size_t)i * row + (size_t)j * every;
            const float *from = part[i] + j * taps;
            for (int t = 0; t < count; t++) g[t] += (double)from[t];
        }
}

/* Weights of `rows` output channels by `columns` (CORNER or 1) input channels, those of all taps of k. */
static void contract_corner(const pairs *k, int taps, int rows, int columns, const float *d, const float *h, double *to,
                            size_t row, size_t every)
{
    float vectors[GROUP * GROUP] __attribute__((aligned(64))), sums[GROUP], part[GROUP][CORNER * TAPS];
    for (int t = 0; t < taps; t++, k++) {
        if (k->lanes < GROUP)
            correlate_slow(columns, k, d, h, vectors);
        else if (columns == 1)
            correlate_tall(k, d, h, vectors);
        else
            correlate_square(k, d, h, vectors);
        fold_16(vectors, sums);
        if (columns == 1)
            for (int i = 0; i < GROUP; i++) part[i][t] = sums[i];
        else
            for (int i = 0; i < CORNER; i++)
                for (int j = 0; j < CORNER; j++) part[i][j * taps + t] = sums[i * CORNER + j];
    }
    add_part(part, taps, rows, columns, to, row, every);
}

/* Taps tap..tap+taps-1 of `here` (at most GROUP) output channels from o by all input channels. */
static void contract_taps(const chunk *k, const pairs *p, int o, int here, int tap, int taps, double *g)
{
    const network_layer *l = k->l;
    size_t every = (size_t)l->kernel * (size_t)l->kernel, row = (size_t)l->in.channels * every;
    double *to = g + l->weight + (size_t)o * row + (size_t)tap;
    int squares = l->in.channels / CORNER * CORNER;
    for (int i = 0; i < here; i += CORNER)
        for (int c = 0; c < squares; c += CORNER)
            contract_corner(p, taps, here - i < CORNER ? here - i : CORNER, CORNER,
                            k->scaled + (size_t)i * p->d_channel, k->h[0] + (size_t)c * p->h_channel,
                            to + (size_t)i * row + (size_t)c * every, row, every);
    for (int c = squares; c < l->in.channels; c++)
        contract_corner(p, taps, here, 1, k->scaled, k->h[0] + (size_t)c * p->h_channel, to + (size_t)c * every, row,
                        every);
}

/* Sixteen output channels from o. */
static void contract_chunk(const chunk *k, int o, double *g)
{
    const network_layer *l = k->l;
    int here = l->out.channels - o < GROUP ? l->out.channels - o : GROUP, all = l->kernel * l->kernel;
    pairs p[TAPS];
    for (int i = 0; i < here; i++) {
        vf sum = vf_set(0.0f);
        for (size_t s = 0; s < k->slots; s++)
            sum = vf_add(sum, vf_load(k->scaled + ((size_t)i * k->slots + s) * GROUP));
        g[l->bias + (size_t)(o + i)] += (double)vf_fold(sum);
    }
    for (int first = 0; first < all; first += TAPS) {
        int taps = all - first < TAPS ? all - first : TAPS;
        for (int t = 0; t < taps; t++) pair_up(k, (first + t) / l->kernel, (first + t) % l->kernel, &p[t]);
        contract_taps(k, p, o, here, first, taps, g);
    }
}

/* Groups that are contracted together, and c of their particles. */
typedef struct {
    group g[CHUNK_GROUPS];
    float c[CHUNK_GROUPS][GROUP];
    int count;
} crowd;

static void scale_deltas(const crowd *w, int from, const chunk *k, int o, float *scaled)
{
    const network_layer *l = k->l;
    for (int i = 0; i < GROUP; i++)
        for (int g = 0; g < k->groups; g++)
            for (int y = 0; y < k->rows; y++)
                for (int x = 0; x < k->columns; x++, scaled += GROUP) {
                    const group *at = &w->g[from + g];
                    size_t pixel = (size_t)(k->row + y) * (size_t)l->out.columns + (size_t)(k->column + x);
                    const float *d = number_at(at, l->d + (size_t)(o + i) * l->apart + pixel);
                    vf v = vf_set(0.0f);
                    if (o + i < l->out.channels) v = k->lanes == GROUP ? vf_load(d) : get(0, k->lanes, d);
                    vf_store(scaled, vf_mul(v, vf_load(w->c[from + g])));
                }
}

/* Groups of equal lanes, from..from+groups-1, through one hidden layer, in chunks of at most CHUNK outputs. */
static void contract_layer(const crowd *w, int from, int groups, int layer, double *g)
{
    float scaled[GROUP * CHUNK * GROUP] __attribute__((aligned(64)));
    const network_shape *s = w->g[from].s;
    const network_layer *l = &s->layer[layer];
    int wide = l->out.columns < CHUNK ? l->out.columns : CHUNK, tall = CHUNK / wide;
    chunk k = {.l = l, .groups = groups, .lanes = w->g[from].lanes, .scaled = scaled};
    for (int i = 0; i < groups; i++) k.h[i] = number_at(&w->g[from + i], s->layer[layer - 1].h);
    for (int o = 0; o < l->out.channels; o += GROUP)
        for (k.row = 0; k.row < l->out.rows; k.row += tall)
            for (k.column = 0; k.column < l->out.columns; k.column += wide) {
                k.rows = l->out.rows - k.row < tall ? l->out.rows - k.row : tall;
                k.columns = l->out.columns - k.column < wide ? l->out.columns - k.column : wide;
                k.slots = (size_t)k.groups * (size_t)k.rows * (size_t)k.columns;
                scale_deltas(w, from, &k, o, scaled);
                contract_chunk(&k, o, g);
            }
}

/* The last layer, in double. */
static void contract_last(const group *g, int output, const double *c, double *to)
{
    const network_layer *l = &g->s->layer[g->s->count];
    const float *delta = number_at(g, l->d);
    size_t below = g->s->layer[g->s->count - 1].h;
    view v = view_of(g, output);
    double scaled[GROUP], all = 0;
    for (int i = 0; i < g->live; i++) scaled[i] = c[i] * (double)delta[i];
    for (int i = 0; i < g->live; i++) all += scaled[i];
    to[l->bias + (size_t)v.channel] += all;
    for (int ch = 0; ch < l->in.channels; ch++) {
        const float *h = number_at(g, below + (size_t)ch * l->in_apart);
        for (int y = 0; y < l->in.rows; y++)
            for (int x = 0; x < l->in.columns; x++, h += g->lanes) {
                const float *w = weight_of(l, &v, ch, y, x);
                double sum = 0;
                if (!w) continue;
                for (int i = 0; i < g->live; i++) sum += scaled[i] * (double)h[i];
                to[l->weight + (size_t)(w - (g->prep + l->forward))] += sum;
            }
    }
}

/* How many groups from `from` on go through a layer together: as fill a chunk, and have equal lanes. */
static int together(const crowd *w, int from, const network_layer *l)
{
    size_t most = CHUNK / network_pixels(&l->out);
    int n = 1;
    while (from + n < w->count && (size_t)n < most && w->g[from + n].lanes == w->g[from].lanes) n++;
    return n;
}

static void contract(const sosmc_network *n, const network_shape *s, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; !b->fresh && i < b->n; i += GROUP) pass(n, s, b, i, 1, NULL, NULL);
    for (int first = 0; first < b->n; first += CHUNK_GROUPS * GROUP) {
        crowd w = {.count = 0};
        for (int i = first; i < b->n && w.count < CHUNK_GROUPS; i += GROUP, w.count++) {
            w.g[w.count] = group_at(s, b, i);
            for (int k = 0; k < w.g[w.count].live; k++) w.c[w.count][k] = (float)c[i + k];
        }
        for (int l = 1; l < s->count; l++)
            for (int from = 0, groups; from < w.count; from += groups) {
                groups = together(&w, from, &s->layer[l]);
                contract_layer(&w, from, groups, l, g);
            }
        for (int i = 0; i < w.count; i++) contract_last(&w.g[i], n->output, c + first + i * GROUP, g);
    }
}

extern const network_code AT_LEVEL(sosmc_i_network);
const network_code AT_LEVEL(sosmc_i_network) = {.energy = energy, .contract = contract, .outputs = outputs};
