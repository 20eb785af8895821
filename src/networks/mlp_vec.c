/* mlp_vec.c: passes through a multi-layer perceptron, compiled once per vector level (maths.md MLP).
 *
 *     z_l = W_l h_{l-1} + b_l,  h_l = act(z_l),  E = w . h_L + b          forward
 *     d_L = w act'(z_L),  d_{l-1} = (W_l^T d_l) act'(z_{l-1})             backward, one unit of E per particle
 *     dE/dx = W_1^T d_1,  dE/dW_l = d_l h_{l-1}^T,  dE/db_l = d_l
 *
 * A tile of particles goes through all layers before the next tile comes, so that it stays in the second-level cache. Each
 * product keeps a block of particles by panels of 16 outputs in registers and adds over the inner units.
 *
 * Invariant: every number of the result is a sum of chains of fused multiply-adds over CHAIN inner units (or over the
 * particles) in ascending order; how many rows and panels are worked on together changes nothing but speed. */
#include "activations.h"
#include "mlp.h"
#include "base/simdf.h"

/* Rows (particles) and panels that fit the registers, for products over units; and for products over particles; and panels
 * that are summed over particles together. */
#if defined(SOSMC_LEVEL_AVX512)
enum { ROWS = 14, WIDE = 2, OUT_ROWS = 8, OUT_WIDE = 3, SUM_WIDE = 8 };
#elif defined(SOSMC_LEVEL_AVX2)
enum { ROWS = 6, WIDE = 1, OUT_ROWS = 4, OUT_WIDE = 1, SUM_WIDE = 4 };
#else
enum { ROWS = 4, WIDE = 1, OUT_ROWS = 4, OUT_WIDE = 1, SUM_WIDE = 4 };
#endif

enum { CHAIN = 64 }; /* a multiple of PANEL */

static const float *prep_of(const sosmc_batch *b) { return b->prep; }
static float *work_of(const sosmc_batch *b, size_t per_particle)
{
    return (float *)b->work + per_particle * (size_t)b->ld;
}
static size_t panel_of(const sosmc_batch *b) { return (size_t)PANEL * (size_t)b->ld; }

/* ------------------------------------------------------------------------------------------------ the next batch */

/* The scratch that a model parks for a batch has left the second-level cache by the time that the batch is worked on again.
 * Therefore, while one batch is worked on, the scratch of the next is prefetched from its beginning to its end: every innermost
 * step of the products prefetches `step` bytes more. */
typedef struct {
    uintptr_t at; /* not a pointer: rounding of `step` takes it beyond the end */
    size_t
        step; /* 0: there is nothing to prefetch, and the same line of this batch's scratch is named again and again */
} prefetch;

static prefetch prefetch_nothing(const sosmc_batch *b) { return (prefetch){.at = (uintptr_t)b->work}; }

/* All that a pass reads and writes of the next batch's scratch, in so many steps. */
static prefetch prefetch_next(const sosmc_batch *b, const mlp_shape *s, size_t steps)
{
    enum { LINE = 64 };
    size_t bytes = (s->d[s->hidden] + (size_t)s->padded[s->hidden]) * (size_t)b->ld * sizeof(float);
    if (!b->next_work || steps == 0) return prefetch_nothing(b);
    return (prefetch){.at = (uintptr_t)b->next_work, .step = bytes / steps < LINE ? bytes / steps + 1 : LINE};
}

/* The address at which the next `steps` steps begin to prefetch. */
static uintptr_t prefetch_advance(prefetch *a, size_t steps)
{
    uintptr_t from = a->at;
    a->at += steps * a->step;
    return from;
}

VEC void prefetch_line(uintptr_t place) { __builtin_prefetch((const void *)place, 0, 2); }

/* ------------------------------------------------------------------------------------------------ products */

/* out (rows by `wide` panels) = sum, or += when `more` */
VEC void put_block(const int rows, const int wide, vf sum[ROWS][WIDE], const int more, float *out, size_t out_panel)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) {
            float *to = out + (size_t)v * out_panel + (size_t)(r * PANEL);
            vf_store(to, more ? vf_add(vf_load(to), sum[r][v]) : sum[r][v]);
        }
}

/* out (rows by `wide` panels) = start + in times weights, over `inner` units: in has them in panels in_panel apart, the
 * weights' panels are w_panel apart. start is one row for all. CHAIN units at a time: short chains of additions keep the
 * rounding error of a long one down (a factor of three on the energies of a 128-unit network). rows and wide are constants
 * where this is expanded. */
VEC void product(const int rows, const int wide, int inner, const float *restrict in, size_t in_panel,
                 const float *restrict weights, size_t w_panel, const float *restrict start, float *restrict out,
                 size_t out_panel, uintptr_t ahead, size_t step)
{
    for (int from = 0; from < inner; from += CHAIN) {
        vf sum[ROWS][WIDE];
        int end = inner - from < CHAIN ? inner : from + CHAIN;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++) sum[r][v] = from ? vf_set(0.0f) : vf_load(start + v * PANEL);
        for (int k = from; k < end; k += PANEL, in += in_panel) {
            int here = end - k < PANEL ? end - k : PANEL;
            for (int c = 0; c < here; c++, weights += PANEL, ahead += step) {
                vf w[WIDE];
                prefetch_line(ahead);
#pragma GCC unroll 4
                for (int v = 0; v < wide; v++) w[v] = vf_load(weights + (size_t)v * w_panel);
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    vf x = vf_set(in[r * PANEL + c]);
#pragma GCC unroll 4
                    for (int v = 0; v < wide; v++) sum[r][v] = vf_fma(x, w[v], sum[r][v]);
                }
            }
        }
        if (from) {
            put_block(rows, wide, sum, 1, out, out_panel);
        } else {
            put_block(rows, wide, sum, 0, out, out_panel);
        }
    }
}

#define PRODUCT_CASE(r)                                                                                  \
    case r:                                                                                              \
        if (wide == WIDE) {                                                                              \
            product(r, WIDE, inner, in, in_panel, weights, w_panel, start, out, out_panel, ahead, step); \
        } else {                                                                                         \
            product(r, 1, inner, in, in_panel, weights, w_panel, start, out, out_panel, ahead, step);    \
        }                                                                                                \
        break

static __attribute__((noinline)) void product_block(int rows, int wide, int inner, const float *in, size_t in_panel,
                                                    const float *weights, const float *start, float *out,
                                                    size_t out_panel, uintptr_t ahead, size_t step)
{
    size_t w_panel = (size_t)PANEL * (size_t)inner;
    switch (rows) {
        PRODUCT_CASE(1);
        PRODUCT_CASE(2);
        PRODUCT_CASE(3);
        PRODUCT_CASE(4);
#if !defined(SOSMC_LEVEL_PLAIN)
        PRODUCT_CASE(5);
        PRODUCT_CASE(6);
#endif
#if defined(SOSMC_LEVEL_AVX512)
        PRODUCT_CASE(7);
        PRODUCT_CASE(8);
        PRODUCT_CASE(9);
        PRODUCT_CASE(10);
        PRODUCT_CASE(11);
        PRODUCT_CASE(12);
        PRODUCT_CASE(13);
        PRODUCT_CASE(14);
#endif
    default: break;
    }
}

/* What happens to a block of products before the next block: `block` holds them, rows by `wide` panels. */
typedef struct {
    float *h, *d, *c, *t; /* of the layer; which of them are used depends on the pass */
    size_t panel;
} finish;
typedef void finish_block(const finish *f, size_t at, int rows, int wide, const float *block, size_t block_panel);

static int row_blocks(const sosmc_batch *b) { return (b->n + ROWS - 1) / ROWS; }
static int panels_of(int units) { return (units + PANEL - 1) / PANEL; }

/* Innermost steps of all_products. */
static size_t steps_of_products(const sosmc_batch *b, int inner, int outer)
{
    return (size_t)row_blocks(b) * (size_t)((panels_of(outer) + WIDE - 1) / WIDE) * (size_t)inner;
}

/* What the sums begin with: biases, one panel behind the other, or the same zeros for all. */
typedef struct {
    const float *row;
    int step;
} beginning;
static const float zeros[WIDE * PANEL] __attribute__((aligned(64)));
static const beginning at_zero = {zeros, 0};

/* All particles of the batch: `outer` units from `inner` ones, block by block, each finished while it is in the first-level
 * cache. */
static void all_products(const sosmc_batch *b, int inner, int outer, const float *in, const float *weights,
                         beginning from_what, finish_block *end, const finish *f, prefetch *a)
{
    float block[ROWS * WIDE * PANEL] __attribute__((aligned(64)));
    int blocks = row_blocks(b), panels = panels_of(outer);
    for (int p = 0; p < panels; p += WIDE) {
        int wide = panels - p < WIDE ? panels - p : WIDE;
        const float *w = weights + (size_t)p * PANEL * (size_t)inner, *s = from_what.row + p * from_what.step;
        for (int k = 0; k < blocks; k++) {
            int from = (int)((int64_t)b->n * k / blocks), rows = (int)((int64_t)b->n * (k + 1) / blocks) - from;
            product_block(rows, wide, inner, in + (size_t)from * PANEL, panel_of(b), w, s, block, (size_t)rows * PANEL,
                          prefetch_advance(a, (size_t)inner), a->step);
            end(f, (size_t)p * panel_of(b) + (size_t)from * PANEL, rows, wide, block, (size_t)rows * PANEL);
        }
    }
}

/* A finish_block from what happens to one vector z of the block, whose place in the layer is `to`. */
#define FINISH(name, put)                                                                                    \
    static void name(const finish *f, size_t at, int rows, int wide, const float *block, size_t block_panel) \
    {                                                                                                        \
        for (int v = 0; v < wide; v++)                                                                       \
            for (int r = 0; r < rows; r++)                                                                   \
                put(f, at + (size_t)v * f->panel + (size_t)(r * PANEL),                                      \
                    vf_load(block + (size_t)v * block_panel + (size_t)(r * PANEL)));                         \
    }

/* ------------------------------------------------------------------------------------------------ activations */

/* act'' */
VEC vf curvature(int activation, vf z)
{
    vf one = vf_set(1.0f), h, slope;
    if (activation == SOSMC_TANH) {
        tanh_of(z, &h, &slope);
        return vf_mul(vf_mul(vf_set(-2.0f), h), slope);
    }
    vf s = sigmoid(z), bump = vf_mul(s, vf_sub(one, s));
    if (activation == SOSMC_SOFTPLUS) return bump;
    return vf_mul(bump, vf_fma(z, vf_fnma(vf_set(2.0f), s, one), vf_set(2.0f)));
}

VEC void put_activated(int activation, const finish *f, size_t to, vf z)
{
    vf h, slope;
    activate(activation, z, &h, &slope);
    vf_store(f->h + to, h);
    if (f->d) vf_store(f->d + to, slope);
    if (f->c) vf_store(f->c + to, curvature(activation, z));
}
VEC void put_silu(const finish *f, size_t to, vf z) { put_activated(SOSMC_SILU, f, to, z); }
VEC void put_softplus(const finish *f, size_t to, vf z) { put_activated(SOSMC_SOFTPLUS, f, to, z); }
VEC void put_tanh(const finish *f, size_t to, vf z) { put_activated(SOSMC_TANH, f, to, z); }
VEC void put_plain(const finish *f, size_t to, vf z) { vf_store(f->h + to, z); }
VEC void put_delta(const finish *f, size_t to, vf z) { vf_store(f->d + to, vf_mul(z, vf_load(f->d + to))); }
FINISH(finish_silu, put_silu)
FINISH(finish_softplus, put_softplus)
FINISH(finish_tanh, put_tanh)
FINISH(finish_plain, put_plain)
FINISH(finish_backward, put_delta)

static finish_block *finish_forward(const sosmc_mlp *m)
{
    return m->activation == SOSMC_SILU ? finish_silu : m->activation == SOSMC_SOFTPLUS ? finish_softplus : finish_tanh;
}

/* ------------------------------------------------------------------------------------------------ energy */

static void take_input(const sosmc_batch *b, float *to)
{
    memset(to, 0, (size_t)((b->dim + PANEL - 1) / PANEL) * panel_of(b) * sizeof *to);
    for (int j = 0; j < b->dim; j++) {
        float *panel = to + (size_t)(j / PANEL) * panel_of(b) + j % PANEL;
        for (int i = 0; i < b->n; i++) panel[i * PANEL] = (float)b->x[(size_t)j * (size_t)b->ld + (size_t)i];
    }
}

/* Leaves h, and where asked the slopes and curvatures. */
static const float *forward(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, int slopes, int curvatures,
                            prefetch *a)
{
    const float *prep = prep_of(b);
    float *in = work_of(b, s->h[0]);
    take_input(b, in);
    for (int l = 1; l <= s->hidden; l++) {
        finish f = {.h = work_of(b, s->h[l]),
                    .d = slopes ? work_of(b, s->d[l]) : NULL,
                    .c = curvatures ? work_of(b, s->c[l]) : NULL,
                    .panel = panel_of(b)};
        all_products(b, s->width[l - 1], s->width[l], in, prep + s->forward[l], (beginning){prep + s->shift[l], PANEL},
                     finish_forward(m), &f, a);
        in = f.h;
    }
    return in;
}

/* d_L from the slopes, and the energies. */
static void top(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, const float *h, float *d, double *U)
{
    const float *w = prep_of(b) + s->out;
    int panels = s->padded[s->hidden] / PANEL;
    for (int i = 0; i < b->n; i++) {
        vf sum = vf_set(0.0f);
        for (int p = 0; p < panels; p++) {
            size_t at = (size_t)p * panel_of(b) + (size_t)(i * PANEL);
            vf wp = vf_load(w + p * PANEL);
            sum = vf_fma(wp, vf_load(h + at), sum);
            if (d) vf_store(d + at, vf_mul(wp, vf_load(d + at)));
        }
        if (U) U[i] = (double)vf_fold(sum) + (double)prep_of(b)[s->out_shift];
    }
}

/* From the slopes to the deltas d_{L-1}, ..., d_1; then dE/dx, in the place of d_0. */
static void backward(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, prefetch *a)
{
    for (int l = s->hidden; l > 1; l--) {
        finish f = {.d = work_of(b, s->d[l - 1]), .panel = panel_of(b)};
        all_products(b, s->width[l], s->width[l - 1], work_of(b, s->d[l]), prep_of(b) + s->backward[l], at_zero,
                     finish_backward, &f, a);
    }
    finish f = {.h = work_of(b, s->d[0]), .panel = panel_of(b)};
    all_products(b, s->width[1], s->width[0], work_of(b, s->d[1]), prep_of(b) + s->backward[1], at_zero, finish_plain,
                 &f, a);
}

static size_t steps_of_pass(const mlp_shape *s, const sosmc_batch *b)
{
    size_t steps = 0;
    for (int l = 1; l <= s->hidden; l++)
        steps += steps_of_products(b, s->width[l - 1], s->width[l]) +
                 steps_of_products(b, s->width[l], s->width[l - 1]);
    return steps;
}

static void pass(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, double *U)
{
    prefetch a = prefetch_next(b, s, steps_of_pass(s, b));
    const float *last = forward(m, s, b, 1, 0, &a);
    top(m, s, b, last, work_of(b, s->d[s->hidden]), U);
    backward(m, s, b, &a);
}

static float *input_slope(const mlp_shape *s, const sosmc_batch *b, int j)
{
    return work_of(b, s->d[0]) + (size_t)(j / PANEL) * panel_of(b) + j % PANEL;
}

/* |x|^2 / (2 base_sd^2) */
static void add_base(const sosmc_mlp *m, const sosmc_batch *b, double *U, double *gx)
{
    double precision = m->base_sd > 0 ? 1 / (m->base_sd * m->base_sd) : 0;
    for (int j = 0; precision > 0 && j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        double *g = gx ? gx + (size_t)j * (size_t)b->ld : NULL;
        for (int i = 0; i < b->n; i++) U[i] += 0.5 * precision * x[i] * x[i];
        for (int i = 0; g && i < b->n; i++) g[i] += precision * x[i];
    }
}

static void energy(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, double *U, double *gx)
{
    if (gx) {
        pass(m, s, b, U);
        for (int j = 0; j < b->dim; j++) {
            const float *slope = input_slope(s, b, j);
            for (int i = 0; i < b->n; i++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = (double)slope[i * PANEL];
        }
    } else {
        prefetch none = prefetch_nothing(b);
        top(m, s, b, forward(m, s, b, 0, 0, &none), NULL, U);
    }
    add_base(m, b, U, gx);
}

/* ------------------------------------------------------------------------------------------------ over particles */

/* sums[r][v] = sum_i left[i][r] right_v[i]: `rows` units of one side by `wide` panels of the other, then added to g, whose
 * row r begins at g + r * stride and has `valid` numbers from here. */
VEC void outer(const int rows, const int wide, int n, const float *restrict left, const float *restrict right,
               double *g, size_t stride, int valid, int valid_rows, uintptr_t ahead, size_t step)
{
    vf sum[OUT_ROWS][OUT_WIDE];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) sum[r][v] = vf_set(0.0f);
    for (int i = 0; i < n; i++, left += PANEL, right += PANEL, ahead += step) {
        vf h[OUT_WIDE];
        prefetch_line(ahead);
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) h[v] = vf_load(right + v * PANEL * MLP_TILE);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vf d = vf_set(left[r]);
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++) sum[r][v] = vf_fma(d, h[v], sum[r][v]);
        }
    }
    if (valid == wide * PANEL && valid_rows == rows) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++) vf_add_to(g + (size_t)r * stride + (size_t)(v * PANEL), sum[r][v]);
        return;
    }
    float rest[OUT_ROWS][OUT_WIDE * PANEL];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) vf_store(rest[r] + v * PANEL, sum[r][v]);
    for (int r = 0; r < valid_rows; r++)
        for (int k = 0; k < valid; k++) g[(size_t)r * stride + (size_t)k] += (double)rest[r][k];
}

static void outer_block(int wide, int n, const float *left, const float *right, double *g, size_t stride, int valid,
                        int valid_rows, uintptr_t ahead, size_t step)
{
    switch (wide) {
#if defined(SOSMC_LEVEL_AVX512)
    case 3: outer(OUT_ROWS, 3, n, left, right, g, stride, valid, valid_rows, ahead, step); break;
    case 2: outer(OUT_ROWS, 2, n, left, right, g, stride, valid, valid_rows, ahead, step); break;
#endif
    default: outer(OUT_ROWS, 1, n, left, right, g, stride, valid, valid_rows, ahead, step); break;
    }
}

/* Innermost steps of contract_rows over n particles. */
static size_t steps_of_outer(int n, int outputs, int inputs)
{
    return (size_t)((panels_of(inputs) + OUT_WIDE - 1) / OUT_WIDE) * (size_t)((outputs + OUT_ROWS - 1) / OUT_ROWS) *
           (size_t)n;
}

/* g (outputs rows of inputs) += sum_i c_i left_i right_i^T over at most MLP_TILE particles from `first`. `left` has outputs
 * units, `right` inputs units. The right side is multiplied by c and stays in the cache while all rows of the left are used. */
static void contract_rows(const sosmc_batch *b, int first, int n, int outputs, int inputs, const float *left,
                          const float *right, const float *c, double *g, prefetch *a)
{
    float scaled[OUT_WIDE * PANEL * MLP_TILE] __attribute__((aligned(64)));
    int panels = panels_of(inputs);
    for (int p = 0; p < panels; p += OUT_WIDE) {
        int wide = panels - p < OUT_WIDE ? panels - p : OUT_WIDE;
        int valid = inputs - p * PANEL < wide * PANEL ? inputs - p * PANEL : wide * PANEL;
        for (int v = 0; v < wide; v++)
            for (int i = 0; i < n; i++) {
                const float *from = right + (size_t)(p + v) * panel_of(b) + (size_t)((first + i) * PANEL);
                vf_store(scaled + (v * MLP_TILE + i) * PANEL, vf_mul(vf_set(c[i]), vf_load(from)));
            }
        for (int o = 0; o < outputs; o += OUT_ROWS) {
            const float *l = left + (size_t)(o / PANEL) * panel_of(b) + (size_t)(first * PANEL) + o % PANEL;
            double *to = g + (size_t)o * (size_t)inputs + (size_t)(p * PANEL);
            int rows = outputs - o < OUT_ROWS ? outputs - o : OUT_ROWS;
            outer_block(wide, n, l, scaled, to, (size_t)inputs, valid, rows, prefetch_advance(a, (size_t)n), a->step);
        }
    }
}

/* sums[v] = sum_i c_i values_v,i over n particles, for `wide` panels. */
VEC void weighted(const int wide, int n, const float *restrict values, size_t panel, const float *restrict c,
                  float *sums)
{
    vf sum[SUM_WIDE];
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) sum[v] = vf_set(0.0f);
    for (int i = 0; i < n; i++) {
        vf ci = vf_set(c[i]);
#pragma GCC unroll 8
        for (int v = 0; v < wide; v++) sum[v] = vf_fma(ci, vf_load(values + (size_t)v * panel + i * PANEL), sum[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) vf_store(sums + v * PANEL, sum[v]);
}

/* g (units numbers, stride apart) += sum_i c_i values_i. Several panels are summed at once, because the additions of a single
 * chain must wait for each other. */
static void sum_rows(const sosmc_batch *b, int first, int n, int units, const float *values, const float *c, double *g,
                     size_t stride)
{
    float sums[SUM_WIDE * PANEL];
    int panels = panels_of(units);
    for (int p = 0, wide; p < panels; p += wide) {
        const float *v = values + (size_t)p * panel_of(b) + (size_t)(first * PANEL);
        wide = panels - p < SUM_WIDE ? 1 : SUM_WIDE;
        if (wide == SUM_WIDE) {
            weighted(SUM_WIDE, n, v, panel_of(b), c, sums);
        } else {
            weighted(1, n, v, panel_of(b), c, sums);
        }
        int valid = units - p * PANEL < wide * PANEL ? units - p * PANEL : wide * PANEL;
        for (int k = 0; k < valid; k++) g[(size_t)(p * PANEL + k) * stride] += (double)sums[k];
    }
}

/* As contract_rows with less than a panel of inputs, one input after the other: lanes are outputs. */
static void contract_narrow(const sosmc_batch *b, int first, int n, int outputs, int inputs, const float *left,
                            const float *right, const float *c, double *g)
{
    float scaled[MLP_TILE];
    for (int k = 0; k < inputs; k++) {
        for (int i = 0; i < n; i++) scaled[i] = c[i] * right[(first + i) * PANEL + k];
        sum_rows(b, first, n, outputs, left, scaled, g + k, (size_t)inputs);
    }
}

/* Whether layer l is contracted by contract_narrow. */
static int narrow(const mlp_shape *s, int l) { return s->width[l - 1] < PANEL; }

static size_t steps_of_contraction(const mlp_shape *s, int n)
{
    size_t steps = 0;
    for (int l = 1; l <= s->hidden; l++)
        if (!narrow(s, l)) steps += steps_of_outer(n, s->width[l], s->width[l - 1]);
    return steps;
}

static void contract(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, const double *c, double *g)
{
    float scale[MLP_TILE];
    int last = s->hidden;
    if (!b->fresh) pass(m, s, b, NULL);
    prefetch a = prefetch_next(b, s, steps_of_contraction(s, b->n));
    for (int first = 0; first < b->n; first += MLP_TILE) {
        int n = b->n - first < MLP_TILE ? b->n - first : MLP_TILE;
        double sum = 0;
        for (int i = 0; i < n; i++) scale[i] = (float)c[first + i];
        for (int l = 1; l <= last; l++) {
            const float *d = work_of(b, s->d[l]), *h = work_of(b, s->h[l - 1]);
            if (narrow(s, l))
                contract_narrow(b, first, n, s->width[l], s->width[l - 1], d, h, scale, g + s->weight[l]);
            else
                contract_rows(b, first, n, s->width[l], s->width[l - 1], d, h, scale, g + s->weight[l], &a);
            sum_rows(b, first, n, s->width[l], d, scale, g + s->bias[l], 1);
        }
        sum_rows(b, first, n, s->width[last], work_of(b, s->h[last]), scale, g + s->weight[last + 1], 1);
        for (int i = 0; i < n; i++) sum += c[first + i];
        g[s->bias[last + 1]] += sum;
    }
}

/* ------------------------------------------------------------------------------------------------ second order */

/* z = W_l t_{l-1}: t_l = act' z, c_l = act'' z (maths.md MLP-penalty). */
VEC void put_tangent(const finish *f, size_t to, vf z)
{
    vf_store(f->t + to, vf_mul(z, vf_load(f->d + to)));
    vf_store(f->c + to, vf_mul(z, vf_load(f->c + to)));
}
/* z = W^T d: the part of e that comes from the curvature takes the place of c. */
VEC void put_curved(const finish *f, size_t to, vf z) { vf_store(f->c + to, vf_mul(z, vf_load(f->c + to))); }
/* z = W^T e of the layer above: e = z act' + what stands in c. */
VEC void put_bent(const finish *f, size_t to, vf z)
{
    vf_store(f->c + to, vf_fma(z, vf_load(f->d + to), vf_load(f->c + to)));
}
FINISH(finish_tangent, put_tangent)
FINISH(finish_curved, put_curved)
FINISH(finish_bent, put_bent)

/* (|dU/dx| - 1)^2 summed, times the penalty's factor; dE/dx is replaced by the direction v = 2 (|dU/dx| - 1) dU/dx / |dU/dx|
 * along which dE/dx is to be differentiated. */
static double penalise(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b)
{
    double precision = m->base_sd > 0 ? 1 / (m->base_sd * m->base_sd) : 0, sum = 0;
    for (int i = 0; i < b->n; i++) {
        double square = 0;
        for (int j = 0; j < b->dim; j++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
            double slope = (double)input_slope(s, b, j)[i * PANEL] + precision * x;
            square += slope * slope;
            input_slope(s, b, j)[i * PANEL] = (float)slope;
        }
        double norm = sqrt(square), off = norm - 1, factor = norm > 0 ? 2 * m->penalty * off / norm : 0;
        sum += m->penalty * off * off;
        for (int j = 0; j < b->dim; j++) { /* in double: factor may be beyond float where the slope is tiny */
            float *v = input_slope(s, b, j) + i * PANEL;
            *v = (float)(factor * (double)*v);
        }
    }
    return sum;
}

/* t_l, the derivatives of h_l along v, and beside them c_l = act'' (W_l t_{l-1}). */
static void tangents(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, prefetch *a)
{
    for (int l = 1; l <= s->hidden; l++) {
        finish f = {.d = work_of(b, s->d[l]), .c = work_of(b, s->c[l]), .t = work_of(b, s->t[l]), .panel = panel_of(b)};
        const float *in = work_of(b, l > 1 ? s->t[l - 1] : s->d[0]);
        all_products(b, s->width[l - 1], s->width[l], in, prep_of(b) + s->forward[l], at_zero, finish_tangent, &f, a);
    }
}

/* Deltas d of the tangents, as in a plain pass, and e of the activations, in the place of c. */
static void tangent_backward(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, prefetch *a)
{
    int last = s->hidden, panels = s->padded[last] / PANEL;
    const float *w = prep_of(b) + s->out;
    for (int i = 0; i < b->n; i++)
        for (int p = 0; p < panels; p++) {
            float *e = work_of(b, s->c[last]) + (size_t)p * panel_of(b) + (size_t)(i * PANEL);
            vf_store(e, vf_mul(vf_load(w + p * PANEL), vf_load(e)));
        }
    top(m, s, b, work_of(b, s->h[last]), work_of(b, s->d[last]), NULL);
    for (int l = last; l > 1; l--) {
        finish f = {.d = work_of(b, s->d[l - 1]), .c = work_of(b, s->c[l - 1]), .panel = panel_of(b)};
        int from = s->width[l], to = s->width[l - 1];
        const float *back = prep_of(b) + s->backward[l];
        all_products(b, from, to, work_of(b, s->d[l]), back, at_zero, finish_curved, &f, a);
        all_products(b, from, to, work_of(b, s->c[l]), back, at_zero, finish_bent, &f, a);
        all_products(b, from, to, work_of(b, s->d[l]), back, at_zero, finish_backward, &f, a);
    }
}

static void penalty(const sosmc_mlp *m, const mlp_shape *s, const sosmc_batch *b, double weight, double *g,
                    double *value)
{
    prefetch none = prefetch_nothing(b);
    float scale[MLP_TILE];
    int last = s->hidden;
    if (!b->fresh) pass(m, s, b, NULL);
    *value += weight * penalise(m, s, b);
    (void)forward(m, s, b, 1, 1, &none);
    tangents(m, s, b, &none);
    tangent_backward(m, s, b, &none);
    for (int i = 0; i < MLP_TILE; i++) scale[i] = (float)weight;
    for (int first = 0; first < b->n; first += MLP_TILE) {
        int n = b->n - first < MLP_TILE ? b->n - first : MLP_TILE;
        for (int l = 1; l <= last; l++) {
            const float *d = work_of(b, s->d[l]), *e = work_of(b, s->c[l]);
            const float *t = work_of(b, l > 1 ? s->t[l - 1] : s->d[0]), *h = work_of(b, s->h[l - 1]);
            contract_rows(b, first, n, s->width[l], s->width[l - 1], d, t, scale, g + s->weight[l], &none);
            contract_rows(b, first, n, s->width[l], s->width[l - 1], e, h, scale, g + s->weight[l], &none);
            sum_rows(b, first, n, s->width[l], e, scale, g + s->bias[l], 1);
        }
        sum_rows(b, first, n, s->width[last], work_of(b, s->t[last]), scale, g + s->weight[last + 1], 1);
    }
}

extern const mlp_code AT_LEVEL(sosmc_i_mlp);
const mlp_code AT_LEVEL(sosmc_i_mlp) = {.energy = energy, .contract = contract, .penalty = penalty};
