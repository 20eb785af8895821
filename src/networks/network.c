/* network.c: a list of convolutions and dense layers as an energy of images (maths.md NETWORK). The arithmetic on particles
 * is in network_vec.c, in float; here is what happens once: the description is checked, and per theta the weights are
 * rounded to float and packed in the two orders the products read. */
#include "base/arithmetic.h"
#include "network.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

extern const network_code sosmc_i_network_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const network_code sosmc_i_network_avx2, sosmc_i_network_avx512;
#endif

static const network_code *code_for(const sosmc_batch *b) { return SIMD_CHOOSE(b->simd, sosmc_i_network); }

/* ---------------------------------------------------------------------------- the description */

enum { MOST_CHANNELS = 1 << 16, MOST_PIXELS = 1 << 12 /* of a row or column */, MOST_UNITS = 1 << 26 };

#define SAY(condition, ...)                          \
    do {                                             \
        if (condition) {                             \
            (void)snprintf(text, room, __VA_ARGS__); \
            return text;                             \
        }                                            \
    } while (0)

static int side(int in, const sosmc_layer *l) { return (in + 2 * l->padding - l->kernel) / l->stride + 1; }

/* The map that layer `l` makes of `in`; a dense layer sees its units as channels. */
static network_map output_of(const sosmc_layer *l, const network_map *in)
{
    if (l->kind == SOSMC_DENSE) return (network_map){l->outputs, 1, 1};
    return (network_map){l->outputs, side(in->rows, l), side(in->columns, l)};
}

static const char *window_problem(const sosmc_layer *l, int k, const network_map *in, char *text, size_t room)
{
    SAY(l->kernel < 1 || l->kernel > MOST_PIXELS, "layer %d: kernel is %d; it must be between 1 and %d", k, l->kernel,
        MOST_PIXELS);
    SAY(l->stride < 1 || l->stride > MOST_PIXELS, "layer %d: stride is %d; it must be between 1 and %d", k, l->stride,
        MOST_PIXELS);
    SAY(l->padding < 0 || l->padding >= l->kernel,
        "layer %d: padding is %d; it must not be negative and less than the kernel's %d", k, l->padding, l->kernel);
    SAY(in->rows + 2 * l->padding < l->kernel || in->columns + 2 * l->padding < l->kernel,
        "layer %d: kernel is %d, but its input has only %d rows and %d columns with padding %d", k, l->kernel, in->rows,
        in->columns, l->padding);
    return NULL;
}

static const char *layer_problem(const sosmc_network *n, int k, const network_map *map, char *text, size_t room)
{
    const sosmc_layer *l = &n->layer[k - 1];
    SAY(l->kind != SOSMC_CONVOLUTION && l->kind != SOSMC_DENSE, "layer %d: kind is %d; it must be a sosmc_layer_kind",
        k, l->kind);
    SAY(l->outputs < 1 || l->outputs > MOST_CHANNELS, "layer %d: outputs is %d; it must be between 1 and %d", k,
        l->outputs, MOST_CHANNELS);
    SAY(l->activation < SOSMC_SILU || l->activation > SOSMC_IDENTITY,
        "layer %d: activation is %d; it must be a sosmc_activation", k, l->activation);
    SAY(l->kind == SOSMC_CONVOLUTION && k > 1 && n->layer[k - 2].kind == SOSMC_DENSE,
        "layer %d is a convolution after a dense layer; units have no rows and columns", k);
    if (l->kind == SOSMC_CONVOLUTION && window_problem(l, k, &map[k - 1], text, room)) return text;
    SAY(l->skip < 0 || l->skip > k, "layer %d: skip is %d; it must be between 0 and %d", k, l->skip, k);
    return NULL;
}

static const char *size_problem(const sosmc_layer *l, int k, const network_map *map, char *text, size_t room)
{
    const network_map *out = &map[k];
    SAY(network_units(out) > MOST_UNITS, "layer %d has %zu numbers; more than %d are not supported", k,
        network_units(out), MOST_UNITS);
    if (!l->skip) return NULL;
    const network_map *from = &map[k - l->skip];
    int same = l->kind == SOSMC_DENSE
                   ? network_units(from) == network_units(out)
                   : from->channels == out->channels && from->rows == out->rows && from->columns == out->columns;
    SAY(!same, "layer %d: skip is %d, but what it would add is %d x %d x %d and the layer's output %d x %d x %d", k,
        l->skip, from->channels, from->rows, from->columns, out->channels, out->rows, out->columns);
    return NULL;
}

const char *sosmc_network_problem(const sosmc_network *n, char *text, size_t room)
{
    network_map map[NETWORK_MOST + 1] = {{n->channels, n->rows, n->columns}};
    SAY(n->channels < 1 || n->channels > MOST_CHANNELS, "channels is %d; it must be between 1 and %d", n->channels,
        MOST_CHANNELS);
    SAY(n->rows < 1 || n->rows > MOST_PIXELS, "rows is %d; it must be between 1 and %d", n->rows, MOST_PIXELS);
    SAY(n->columns < 1 || n->columns > MOST_PIXELS, "columns is %d; it must be between 1 and %d", n->columns,
        MOST_PIXELS);
    SAY(network_units(map) > MOST_UNITS, "an image has %zu numbers; more than %d are not supported", network_units(map),
        MOST_UNITS);
    SAY(!n->layer || n->count < 1 || n->count > NETWORK_MOST, "there are %d layers; there must be 1 to %d",
        n->layer ? n->count : 0, NETWORK_MOST);
    for (int k = 1; k <= n->count; k++) {
        if (layer_problem(n, k, map, text, room)) return text;
        map[k] = output_of(&n->layer[k - 1], &map[k - 1]);
        if (size_problem(&n->layer[k - 1], k, map, text, room)) return text;
    }
    SAY(n->output < 0 || (size_t)n->output >= network_units(&map[n->count]),
        "output is %d; the last layer has numbers 0 to %zu", n->output, network_units(&map[n->count]) - 1);
    SAY(n->sign != 1 && n->sign != -1, "sign is %g; it must be 1 or -1", n->sign);
    SAY(!(n->base_sd >= 0 && isfinite(n->base_sd)), "base_sd is %g; it must not be negative", n->base_sd);
    SAY(!(n->temperature >= 0 && isfinite(n->temperature)), "temperature is %g; it must not be negative",
        n->temperature);
    network_shape s;
    sosmc_i_network_shape(n, &s);
    SAY(s.parameters > INT_MAX, "the network has %zu parameters; more than %d are not supported", s.parameters,
        INT_MAX);
    return NULL;
}

/* ---------------------------------------------------------------------------- the layout */

/* Whether every reader of layer k is a convolution: none takes its channels and pixels for units in a row. */
static int read_by_channels(const sosmc_network *n, int k)
{
    for (int l = k + 1; l <= n->count; l++)
        if (n->layer[l - 1].kind == SOSMC_DENSE && (l == k + 1 || n->layer[l - 1].skip == l - k)) return 0;
    return k > 0;
}

static void place_layer(const sosmc_network *n, int k, network_shape *s)
{
    const sosmc_layer *from = &n->layer[k - 1];
    network_layer *l = &s->layer[k];
    const network_map *below = &s->layer[k - 1].out;
    int dense = from->kind == SOSMC_DENSE;
    *l = (network_layer){.in = *below, .out = output_of(from, below), .activation = from->activation, .dense = dense};
    if (dense) l->in = (network_map){(int)network_units(below), 1, 1};
    l->in_apart = dense ? 1 : s->layer[k - 1].apart;
    l->apart = network_pixels(&l->out);
    if (read_by_channels(n, k)) l->apart |= 1;
    l->kernel = dense ? 1 : from->kernel;
    l->stride = dense ? 1 : from->stride;
    l->padding = dense ? 0 : from->padding;
    l->added = from->skip ? k - from->skip : -1;
    size_t taps = (size_t)l->kernel * (size_t)l->kernel, in = (size_t)l->in.channels, out = (size_t)l->out.channels;
    l->weight = s->parameters;
    l->bias = l->weight + in * out * taps;
    s->parameters = l->bias + out;
    l->forward = s->prep;
    l->backward = l->forward + network_padded(l->out.channels) * in * taps;
    l->shift = l->backward + (k < s->count ? network_padded(l->in.channels) * out * taps : 0);
    s->prep = l->shift + network_padded(l->out.channels);
    l->h = s->work;
    l->d = l->h + (k < s->count ? out * l->apart : 0);
    s->work = l->d + (k < s->count ? out * l->apart : 1);
}

void sosmc_i_network_shape(const sosmc_network *n, network_shape *s)
{
    s->count = n->count;
    s->parameters = s->prep = 0;
    s->layer[0] = (network_layer){.out = {n->channels, n->rows, n->columns}, .added = -1};
    s->layer[0].apart = network_pixels(&s->layer[0].out);
    s->work = network_units(&s->layer[0].out);
    for (int k = 1; k <= n->count; k++) place_layer(n, k, s);
}

/* ---------------------------------------------------------------------------- once per theta */

/* Where the weight of an outer and an inner channel stands, and which taps are meant. */
typedef struct {
    int outer, inner, kernel;
    size_t by_outer, by_inner;
    int first_row, first_column, rows, columns, step;
} packing;

static float *pack(const double *weights, const packing *p, float *to)
{
    for (int o = 0, wide; o < p->outer; o += wide) {
        wide = network_block(p->outer - o);
        for (int a = 0; a < p->rows; a++)
            for (int b = 0; b < p->columns; b++)
                for (int i = 0; i < p->inner; i++)
                    for (int c = 0; c < wide; c++, to++) {
                        int tap = (p->first_row + a * p->step) * p->kernel + p->first_column + b * p->step;
                        size_t at = (size_t)(o + c) * p->by_outer + (size_t)i * p->by_inner + (size_t)tap;
                        *to = o + c < p->outer ? (float)weights[at] : 0;
                    }
    }
    return to;
}

static void pack_layer(const network_layer *l, const double *theta, float *prep)
{
    const double *weights = theta + l->weight;
    size_t taps = (size_t)l->kernel * (size_t)l->kernel, row = (size_t)l->in.channels * taps;
    packing forward = {.outer = l->out.channels,
                       .inner = l->in.channels,
                       .kernel = l->kernel,
                       .by_outer = row,
                       .by_inner = taps,
                       .rows = l->kernel,
                       .columns = l->kernel,
                       .step = 1};
    float *to = prep + l->backward;
    (void)pack(weights, &forward, prep + l->forward);
    for (int y = 0; y < l->stride; y++)
        for (int x = 0; x < l->stride; x++) {
            network_class rows = network_class_of(l, y), columns = network_class_of(l, x);
            packing back = {.outer = l->in.channels,
                            .inner = l->out.channels,
                            .kernel = l->kernel,
                            .by_outer = taps,
                            .by_inner = row,
                            .first_row = rows.first,
                            .first_column = columns.first,
                            .rows = rows.taps,
                            .columns = columns.taps,
                            .step = l->stride};
            to = pack(weights, &back, to);
        }
}

static int prepare(const void *self, const double *theta, void *prep)
{
    network_shape s;
    float *to = prep;
    sosmc_i_network_shape(self, &s);
    for (int k = 1; k <= s.count; k++) {
        const network_layer *l = &s.layer[k];
        if (k < s.count)
            pack_layer(l, theta, to);
        else
            for (size_t i = l->weight; i < l->bias; i++) to[l->forward + i - l->weight] = (float)theta[i];
        for (int o = 0; o < l->out.channels; o++) to[l->shift + (size_t)o] = (float)theta[l->bias + (size_t)o];
        for (size_t o = (size_t)l->out.channels; o < network_padded(l->out.channels); o++) to[l->shift + o] = 0;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- per batch */

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    network_shape s;
    sosmc_i_network_shape(self, &s);
    code_for(b)->energy(self, &s, b, U, gx);
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    network_shape s;
    sosmc_i_network_shape(self, &s);
    code_for(b)->contract(self, &s, b, c, g);
    return 0;
}

sosmc_model sosmc_network_model(const sosmc_network *network)
{
    char text[200];
    network_shape s;
    sosmc_model model = {.self = network, .prepare = prepare, .energy = energy, .grad_theta = grad_theta};
    if (sosmc_network_problem(network, text, sizeof text)) return model; /* dim_x 0: sosmc_create refuses it */
    sosmc_i_network_shape(network, &s);
    model.dim_x = (int)network_units(&s.layer[0].out);
    model.dim_theta = (int)s.parameters;
    model.prep = s.prep * sizeof(float);
    model.work = s.work * sizeof(float);
    model.tile = NETWORK_TILE;
    model.rounding = FLT_EPSILON;
    return model;
}

void sosmc_network_init(const sosmc_network *network, uint64_t seed, double *theta)
{
    STANDARD_ARITHMETIC;
    network_shape s;
    enum { AT_ONCE = 1024 };
    double u[AT_ONCE];
    sosmc_i_network_shape(network, &s);
    for (int k = 1; k <= s.count; k++) {
        const network_layer *l = &s.layer[k];
        double bound = 1 / sqrt((double)l->in.channels * l->kernel * l->kernel);
        size_t end = l->bias + (size_t)l->out.channels;
        for (size_t from = l->weight; from < end; from += AT_ONCE) { /* number i of all parameters is draw i */
            size_t left = end - from;
            sosmc_batch b = {
                .dim = 1, .n = left < AT_ONCE ? (int)left : AT_ONCE, .ld = AT_ONCE, .first = (int64_t)from};
            sosmc_uniforms((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_NETWORK}, 0, &b, u);
            for (int i = 0; i < b.n; i++) theta[from + (size_t)i] = bound * (2 * u[i] - 1);
        }
    }
}

/* ---------------------------------------------------------------------------- as a reward */

/* s[i] = log softmax of number `output` of count rows f of GROUP lanes; overwrites f. */
static void log_softmax(const sosmc_simd *simd, int count, int output, double *f, double *s)
{
    double most[GROUP], sum[GROUP] = {0}, value[GROUP];
    memcpy(most, f, sizeof most);
    for (int k = 1; k < count; k++)
        for (int i = 0; i < GROUP; i++)
            if (f[k * GROUP + i] > most[i]) most[i] = f[k * GROUP + i];
    for (int i = 0; i < GROUP; i++) value[i] = f[output * GROUP + i] - most[i];
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < GROUP; i++) f[k * GROUP + i] -= most[i];
        sosmc_exp(simd, GROUP, f + (size_t)k * GROUP, f + (size_t)k * GROUP);
        for (int i = 0; i < GROUP; i++) sum[i] += f[k * GROUP + i];
    }
    sosmc_log(simd, GROUP, sum, sum);
    for (int i = 0; i < GROUP; i++) s[i] = value[i] - sum[i];
}

static int reward(const void *self, const sosmc_batch *b, double *score)
{
    const sosmc_network_judge *j = self;
    network_shape s;
    sosmc_i_network_shape(j->network, &s);
    int all = (int)network_units(&s.layer[s.count].out), one = j->network->output;
    int first = j->softmax ? 0 : one, count = j->softmax ? all : 1;
    size_t work = s.work * GROUP * sizeof(float);
    char *memory = aligned_alloc(64, work + (size_t)(count + 1) * GROUP * sizeof(double));
    if (!memory) return -1;
    double *f = (double *)(void *)(memory + work), *value = f + (size_t)count * GROUP;
    for (int i = 0; i < b->n; i += GROUP) {
        code_for(b)->outputs(&s, b, j->prep, j->clamp, i, first, first + count, memory, f);
        if (j->softmax)
            log_softmax(b->simd, count, one, f, value);
        else
            memcpy(value, f, GROUP * sizeof *value);
        for (int k = 0; k < GROUP && i + k < b->n; k++) score[i + k] = j->scale * value[k];
    }
    free(memory);
    return 0;
}

sosmc_score sosmc_network_reward(const sosmc_network_judge *judge) { return (sosmc_score){judge, reward}; }
