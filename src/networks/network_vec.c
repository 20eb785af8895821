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
#include "network_correlate.h"
#include "network_products.h"

/* ------------------------------------------------------------------------------------------------ forward */

static void take_input(const group *g, const sosmc_batch *b, int particle, double clamp)
{
    for (int j = 0; j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld + (size_t)particle;
        float *to = number_at(g, (size_t)j);
        /* Lanes without a particle repeat the first one, so their values are finite where those of that particle are. */
        if (g->live == GROUP)
            for (int i = 0; i < GROUP; i++) to[i] = (float)x[i];
        else
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
