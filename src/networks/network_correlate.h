/* network_correlate.h: dE/dW of the inner layers, deltas times inputs summed over pixels and particles, at the vector level
 * of the file that includes it (network_vec.c alone).
 *
 * Invariant: sums over the particles of a group and the outputs of a chunk are made in float, those over chunks in double,
 * in an order that depends on the shapes alone. */
#ifndef SOSMC_NETWORKS_NETWORK_CORRELATE_H
#define SOSMC_NETWORKS_NETWORK_CORRELATE_H

#include "network_products.h"

enum {
    /* A contraction takes at most CHUNK outputs of a channel, in at most CHUNK_GROUPS groups, through TAPS taps at a time;
     * CORNER output by as many input channels stay in registers. */
    CHUNK = 64,
    CHUNK_GROUPS = 4,
    TAPS = 32,
    CORNER = 4
};

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

/* How many groups from `from` on go through a layer together: as fill a chunk, and have equal lanes. */
static int together(const crowd *w, int from, const network_layer *l)
{
    size_t most = CHUNK / network_pixels(&l->out);
    int n = 1;
    while (from + n < w->count && (size_t)n < most && w->g[from + n].lanes == w->g[from].lanes) n++;
    return n;
}

#endif
