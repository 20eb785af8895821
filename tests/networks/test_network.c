/* test_network.c: lists of convolutions and dense layers against a plain network in double precision written here, whose
 * gradients are checked by differences: named lists for the corners (padding, strides, skips, kernels and maps too large
 * for one table or chunk), random ones for the rest. Then what must not change a bit: vector level, place in the tile,
 * reuse of a pass; whole runs, whose hash must not depend on threads, level or parked work; the reward, the first weights
 * and the sentences about wrong descriptions. Everything lies in exact allocations, padding and scratch start as NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "numbers.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RANDOM_LISTS = 12, ITERATIONS = 2 };
#else
enum { RANDOM_LISTS = 60, ITERATIONS = 4 };
#endif
enum { LEVELS = 3, MOST_LAYERS = 6 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
#define FOR_LEVELS(s)                   \
    for (int v_ = 0; v_ < LEVELS; v_++) \
        for (const sosmc_simd *s = sosmc_simd_named(level_name[v_]); s; s = NULL)

static const struct {
    int n, ld;
} sizes[] = {{1, 1}, {7, 8}, {8, 8}, {16, 16}, {17, 24}, {40, 40}, {1, 8}, {33, 48}, {90, 96}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ------------------------------------------------------------------------------------------------ the plain network */

typedef struct {
    int channels, rows, columns;
} map;
static size_t count_of(map m) { return (size_t)m.channels * (size_t)m.rows * (size_t)m.columns; }
static size_t place(map m, int c, int y, int x)
{
    return ((size_t)c * (size_t)m.rows + (size_t)y) * (size_t)m.columns + (size_t)x;
}

static double activate(int activation, double z, double *slope)
{
    double s = 1 / (1 + exp(-z)), t = tanh(z), phi = 0.5 * erfc(-z * sqrt(0.5));
    switch (activation) {
    case SOSMC_SILU: *slope = s * (1 + z * (1 - s)); return z * s;
    case SOSMC_SOFTPLUS: *slope = s; return fmax(z, 0) + log1p(exp(-fabs(z)));
    case SOSMC_TANH: *slope = 1 - t * t; return t;
    case SOSMC_GELU: *slope = phi + z * exp(-0.5 * z * z) * 0.3989422804014327; return z * phi;
    case SOSMC_LEAKY_RELU: *slope = z > 0 ? 1 : 0.01; return z > 0 ? z : 0.01 * z;
    default: *slope = 1; return z;
    }
}

/* The maps of layers 0..count, with dense inputs as they come, and where their weights begin in theta. */
static void maps_of(const sosmc_network *n, map *m, size_t *weight)
{
    size_t at = 0;
    m[0] = (map){n->channels, n->rows, n->columns};
    for (int k = 1; k <= n->count; k++) {
        const sosmc_layer *l = &n->layer[k - 1];
        size_t inputs = count_of(m[k - 1]);
        m[k] = (map){l->outputs, 1, 1};
        if (l->kind == SOSMC_CONVOLUTION) {
            m[k].rows = (m[k - 1].rows + 2 * l->padding - l->kernel) / l->stride + 1;
            m[k].columns = (m[k - 1].columns + 2 * l->padding - l->kernel) / l->stride + 1;
            inputs = (size_t)m[k - 1].channels * (size_t)(l->kernel * l->kernel);
        }
        weight[k] = at;
        at += (inputs + 1) * (size_t)l->outputs;
    }
    weight[n->count + 1] = at;
}

/* Calls see(weight, input, output) for every product of layer k. */
typedef void see_product(void *ctx, size_t weight, size_t input, size_t output);
static void products_of(const sosmc_network *n, int k, const map *m, see_product *see, void *ctx)
{
    const sosmc_layer *l = &n->layer[k - 1];
    map in = m[k - 1], out = m[k];
    if (l->kind == SOSMC_DENSE) {
        for (size_t o = 0; o < count_of(out); o++)
            for (size_t i = 0; i < count_of(in); i++) see(ctx, o * count_of(in) + i, i, o);
        return;
    }
    for (int o = 0; o < out.channels; o++)
        for (int y = 0; y < out.rows; y++)
            for (int x = 0; x < out.columns; x++)
                for (int c = 0; c < in.channels; c++)
                    for (int tap = 0; tap < l->kernel * l->kernel; tap++) {
                        int row = y * l->stride + tap / l->kernel - l->padding;
                        int column = x * l->stride + tap % l->kernel - l->padding;
                        if (row < 0 || row >= in.rows || column < 0 || column >= in.columns) continue;
                        size_t w = (size_t)(o * in.channels + c) * (size_t)(l->kernel * l->kernel) + (size_t)tap;
                        see(ctx, w, place(in, c, row, column), place(out, o, y, x));
                    }
}

typedef struct {
    const double *w, *below;
    double *z;       /* forward */
    const double *d; /* backward */
    double *down, *g, c;
} pass;
static void see_forward(void *ctx, size_t w, size_t i, size_t o)
{
    pass *p = ctx;
    p->z[o] += p->w[w] * p->below[i];
}
static void see_backward(void *ctx, size_t w, size_t i, size_t o)
{
    pass *p = ctx;
    p->down[i] += p->w[w] * p->d[o];
    if (p->g) p->g[w] += p->c * p->d[o] * p->below[i];
}

/* All numbers of one evaluation. */
typedef struct {
    map m[MOST_LAYERS + 1];
    size_t weight[MOST_LAYERS + 2];
    double *h[MOST_LAYERS + 1], *slope[MOST_LAYERS + 1], *d[MOST_LAYERS + 1];
} trace;

static void *zeros(size_t count)
{
    void *p = calloc(count, sizeof(double));
    assert_non_null(p);
    return p;
}

static void trace_forward(const sosmc_network *n, const double *theta, const double *x, trace *t)
{
    maps_of(n, t->m, t->weight);
    t->h[0] = zeros(count_of(t->m[0]));
    t->d[0] = zeros(count_of(t->m[0]));
    memcpy(t->h[0], x, count_of(t->m[0]) * sizeof *x);
    for (int k = 1; k <= n->count; k++) {
        const sosmc_layer *l = &n->layer[k - 1];
        const double *bias = theta + t->weight[k + 1] - l->outputs;
        size_t count = count_of(t->m[k]), pixels = count / (size_t)l->outputs;
        double *z = t->h[k] = zeros(count);
        t->slope[k] = zeros(count);
        t->d[k] = zeros(count);
        for (size_t o = 0; o < count; o++) z[o] = bias[o / pixels] + (l->skip ? t->h[k - l->skip][o] : 0);
        pass p = {.w = theta + t->weight[k], .below = t->h[k - 1], .z = z};
        products_of(n, k, t->m, see_forward, &p);
        for (size_t o = 0; o < count; o++) z[o] = activate(l->activation, z[o], &t->slope[k][o]);
    }
}

static void trace_backward(const sosmc_network *n, const double *theta, trace *t, double c, double *g)
{
    t->d[n->count][n->output] = n->sign;
    for (int k = n->count; k >= 1; k--) {
        const sosmc_layer *l = &n->layer[k - 1];
        size_t count = count_of(t->m[k]), pixels = count / (size_t)l->outputs;
        for (size_t o = 0; o < count; o++) {
            t->d[k][o] *= t->slope[k][o];
            if (l->skip) t->d[k - l->skip][o] += t->d[k][o];
            if (g) g[t->weight[k + 1] - (size_t)l->outputs + o / pixels] += c * t->d[k][o];
        }
        pass p = {.w = theta + t->weight[k], .below = t->h[k - 1], .d = t->d[k], .down = t->d[k - 1], .c = c};
        p.g = g ? g + t->weight[k] : NULL;
        products_of(n, k, t->m, see_backward, &p);
    }
}

/* U at one x. gx, unless NULL, receives dU/dx; g, unless NULL, gets c dU/dtheta added. f, unless NULL, receives the numbers
 * of the last layer. */
static double plain(const sosmc_network *n, const double *theta, const double *x, double *gx, double c, double *g,
                    double *f)
{
    trace t = {0};
    double precision = n->base_sd > 0 ? 1 / (n->base_sd * n->base_sd) : 0, square = 0;
    trace_forward(n, theta, x, &t);
    double U = n->sign * t.h[n->count][n->output];
    if (f) memcpy(f, t.h[n->count], count_of(t.m[n->count]) * sizeof *f);
    if (gx || g) trace_backward(n, theta, &t, c, g);
    for (size_t j = 0; j < count_of(t.m[0]); j++) square += x[j] * x[j];
    for (size_t j = 0; gx && j < count_of(t.m[0]); j++) gx[j] = t.d[0][j] + precision * x[j];
    for (size_t k = 0; k < sizeof t.h / sizeof *t.h; k++) free(t.h[k]), free(t.slope[k]), free(t.d[k]);
    return U + 0.5 * precision * square;
}

/* ------------------------------------------------------------------------------------------------ lists of layers */

typedef struct {
    sosmc_network n;
    sosmc_layer layer[MOST_LAYERS];
} list;

#define CONV(o, k, s, p, a, j)                                                                       \
    {                                                                                                \
        .outputs = (o), .kernel = (k), .stride = (s), .padding = (p), .activation = (a), .skip = (j) \
    }
#define DENSE(o, a, j)                                                      \
    {                                                                       \
        .kind = SOSMC_DENSE, .outputs = (o), .activation = (a), .skip = (j) \
    }
enum {
    SI = SOSMC_SILU,
    SP = SOSMC_SOFTPLUS,
    TA = SOSMC_TANH,
    GE = SOSMC_GELU,
    LE = SOSMC_LEAKY_RELU,
    ID = SOSMC_IDENTITY
};

static const list named[] = {
    /* the published shape, smaller */
    {{1, 12, 12, 4, NULL, 0, -1, 0, 0},
     {CONV(8, 5, 2, 4, SI, 0), CONV(16, 3, 2, 1, SI, 0), DENSE(9, SI, 0), DENSE(1, ID, 0)}},
    /* one layer, of either kind, and its numbers in the middle */
    {{1, 1, 5, 1, NULL, 2, 1, 0.7, 0}, {DENSE(4, ID, 0)}},
    {{3, 5, 4, 1, NULL, 13, -1, 0, 0}, {CONV(2, 3, 1, 1, TA, 0)}},
    /* the last layer is a convolution with a skip, from the image and from a layer between */
    {{2, 5, 6, 1, NULL, 37, 1, 0, 0}, {CONV(2, 3, 1, 1, SP, 1)}},
    {{2, 4, 4, 3, NULL, 21, 1, 2, 0}, {CONV(2, 3, 1, 1, SI, 1), CONV(2, 3, 1, 1, GE, 2), CONV(2, 3, 1, 1, SI, 2)}},
    /* residual blocks of two; a map added by two layers; units added by a dense layer whose input they are not */
    {{3, 6, 6, 5, NULL, 0, 1, 0, 0},
     {CONV(5, 3, 1, 1, SI, 0), CONV(5, 3, 1, 1, SI, 0), CONV(5, 3, 1, 1, SI, 2), CONV(5, 1, 1, 0, LE, 3),
      DENSE(1, ID, 0)}},
    {{1, 4, 2, 4, NULL, 1, 1, 0, 0},
     {CONV(3, 1, 1, 0, TA, 0), CONV(3, 3, 1, 1, SI, 1), DENSE(24, SI, 2), DENSE(24, GE, 3)}},
    {{1, 3, 4, 3, NULL, 5, -1, 1, 0}, {DENSE(12, SI, 1), DENSE(12, SP, 2), DENSE(12, ID, 1)}},
    /* kernels with more taps than a table, in one row even; strides that leave pixels out; all in the padding */
    {{1, 4, 40, 2, NULL, 0, 1, 0, 0}, {CONV(2, 36, 2, 33, SI, 0), DENSE(1, ID, 0)}},
    {{2, 9, 9, 2, NULL, 0, 1, 0, 0}, {CONV(3, 7, 1, 3, GE, 0), DENSE(1, ID, 0)}},
    {{2, 7, 8, 3, NULL, 0, 1, 0, 0}, {CONV(6, 2, 3, 0, LE, 0), CONV(3, 1, 3, 0, SI, 0), DENSE(1, ID, 0)}},
    {{1, 2, 2, 2, NULL, 0, 1, 0, 0}, {CONV(7, 4, 1, 3, SI, 0), DENSE(1, TA, 0)}},
    /* rows longer than a chunk of the contraction; more outputs than lanes, and blocks of five and of three */
    {{1, 3, 70, 2, NULL, 0, 1, 0, 0}, {CONV(2, 3, 1, 1, SI, 0), DENSE(1, ID, 0)}},
    {{5, 3, 3, 4, NULL, 0, 1, 0, 0},
     {CONV(21, 3, 1, 1, SI, 0), CONV(19, 3, 2, 1, SI, 0), DENSE(35, SI, 0), DENSE(1, ID, 0)}}};
enum { NAMED = sizeof named / sizeof named[0] };

static void point(list *l) { l->n.layer = l->layer; }

static void random_list(list *l)
{
    map m = {numbers_between(0, 1) ? 3 : 1, numbers_between(1, 9), numbers_between(1, 9)},
        before[MOST_LAYERS + 1] = {m};
    int dense = numbers_between(1, MOST_LAYERS);
    *l = (list){.n = {.channels = m.channels, .rows = m.rows, .columns = m.columns, .count = numbers_between(1, 5)}};
    point(l);
    l->n.sign = numbers_between(0, 1) ? 1 : -1;
    l->n.base_sd = numbers_between(0, 1) ? 0 : numbers_uniform(0.5, 2);
    for (int k = 1; k <= l->n.count; k++) {
        sosmc_layer *a = &l->layer[k - 1];
        a->activation = numbers_between(0, SOSMC_IDENTITY);
        a->outputs = numbers_between(1, 11);
        if (k >= dense) {
            a->kind = SOSMC_DENSE;
            if (k > dense && numbers_between(0, 1)) a->outputs = m.channels, a->skip = 1;
            m = (map){a->outputs, 1, 1};
        } else if (k > 1 && numbers_between(0, 2) == 0) { /* a residual one */
            a->kernel = numbers_between(0, 1) ? 3 : 1;
            a->stride = 1;
            a->padding = a->kernel / 2;
            a->outputs = m.channels;
            a->skip = count_of(before[k - 2]) == count_of(m) && before[k - 2].channels == m.channels &&
                              before[k - 2].rows == m.rows
                          ? 2
                          : 1;
        } else {
            do {
                a->kernel = numbers_between(1, 5);
                a->stride = numbers_between(1, 3);
                a->padding = numbers_between(0, a->kernel - 1);
            } while (m.rows + 2 * a->padding < a->kernel || m.columns + 2 * a->padding < a->kernel);
            m = (map){a->outputs, (m.rows + 2 * a->padding - a->kernel) / a->stride + 1,
                      (m.columns + 2 * a->padding - a->kernel) / a->stride + 1};
        }
        before[k] = m;
    }
    l->n.output = numbers_between(0, (int)count_of(m) - 1);
}

static void list_at(int k, list *l)
{
    if (k < NAMED)
        *l = named[k];
    else
        random_list(l);
    point(l);
    char text[200];
    const char *wrong = sosmc_network_problem(&l->n, text, sizeof text);
    if (wrong) fail_msg("list %d: %s", k, wrong);
}

/* ------------------------------------------------------------------------------------------------ the library's */

typedef struct {
    sosmc_model m;
    sosmc_batch b;
    double *theta, *x, *U, *gx, *g, *c;
    void *prep, *work;
} rig;

static size_t vector_of(const rig *r) { return (size_t)r->b.dim * (size_t)r->b.ld; }
static size_t parameters(const rig *r) { return (size_t)r->m.dim_theta; }

static void forget(rig *r)
{
    memset(r->work, 0xff, r->m.work * (size_t)r->b.ld);
    memset(r->U, 0xff, (size_t)r->b.ld * sizeof *r->U);
    memset(r->gx, 0xff, vector_of(r) * sizeof *r->gx);
}
static void energy(rig *r, int gx)
{
    forget(r);
    assert_int_equal(r->m.energy(r->m.self, r->theta, &r->b, r->U, gx ? r->gx : NULL), 0);
}
static void contract(rig *r, int fresh)
{
    if (!fresh) forget(r);
    memset(r->g, 0, parameters(r) * sizeof *r->g);
    r->b.fresh = fresh;
    assert_int_equal(r->m.grad_theta(r->m.self, r->theta, &r->b, r->c, r->g), 0);
    r->b.fresh = 0;
}

static void rig_open(rig *r, const sosmc_network *n, int particles, int ld)
{
    *r = (rig){.m = sosmc_network_model(n)};
    assert_true(r->m.dim_x > 0);
    r->b = (sosmc_batch){.simd = sosmc_simd_best(), .dim = r->m.dim_x, .n = particles, .ld = ld};
    r->theta = numbers_room(parameters(r) * sizeof(double));
    r->prep = numbers_room(r->m.prep);
    r->work = numbers_room(r->m.work * (size_t)ld);
    r->x = numbers_room(vector_of(r) * sizeof(double));
    r->gx = numbers_room(vector_of(r) * sizeof(double));
    r->U = numbers_room((size_t)ld * sizeof(double));
    r->c = numbers_room((size_t)ld * sizeof(double));
    r->g = numbers_room(parameters(r) * sizeof(double));
    sosmc_network_init(n, (uint64_t)numbers_between(1, 1000), r->theta);
    for (size_t k = 0; k < parameters(r); k++) r->theta[k] = (float)(2 * r->theta[k]);
    for (int j = 0; j < r->b.dim; j++)
        for (int i = 0; i < particles; i++) r->x[j * ld + i] = (float)numbers_uniform(-1.5, 1.5);
    for (int i = 0; i < particles; i++) r->c[i] = numbers_uniform(-1, 1);
    r->b.x = r->x;
    r->b.prep = r->prep;
    r->b.work = r->work;
    assert_int_equal(r->m.prepare(r->m.self, r->theta, r->prep), 0);
}
static void rig_close(rig *r)
{
    free(r->theta), free(r->prep), free(r->work), free(r->x), free(r->gx), free(r->U), free(r->c), free(r->g);
}
static void particle(const rig *r, int i, double *x)
{
    for (int j = 0; j < r->b.dim; j++) x[j] = r->x[j * r->b.ld + i];
}

/* The largest difference against the largest number. */
static void assert_near(const double *a, const double *b, size_t count, double tolerance, int k, const char *what)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(a[i] - b[i]) <= off)) off = fabs(a[i] - b[i]);
        size = fmax(size, fabs(b[i]));
    }
    if (!(off <= tolerance * size + 1e-30)) fail_msg("list %d, %s: off by %g of %g", k, what, off, size);
}

/* ------------------------------------------------------------------------------------------------ values */

static void match_plain(int k, const list *l, int size)
{
    rig r;
    rig_open(&r, &l->n, sizes[size].n, sizes[size].ld);
    size_t dim = (size_t)r.b.dim;
    double *x = numbers_room(dim * sizeof *x), *gx = numbers_room(dim * sizeof *gx),
           *got = numbers_room(dim * sizeof *got);
    double *g = calloc(parameters(&r), sizeof *g);
    assert_non_null(g);
    energy(&r, 1);
    for (int i = 0; i < r.b.n; i++) {
        particle(&r, i, x);
        double U = plain(&l->n, r.theta, x, gx, r.c[i], g, NULL);
        if (!(fabs(r.U[i] - U) <= 3e-6 * fmax(1, fabs(U)))) fail_msg("list %d: U is %.9g, not %.9g", k, r.U[i], U);
        for (size_t j = 0; j < dim; j++) got[j] = r.gx[j * (size_t)r.b.ld + (size_t)i];
        assert_near(got, gx, dim, 1e-5, k, "dU/dx");
    }
    contract(&r, 1);
    assert_near(r.g, g, parameters(&r), 1e-5, k, "dU/dtheta");
    free(x), free(gx), free(got), free(g);
    rig_close(&r);
}

static void values_match_a_plain_network(void **state)
{
    for (int k = 0; k < NAMED + RANDOM_LISTS; k++) {
        list l;
        list_at(k, &l);
        match_plain(k, &l, k % SIZES);
        if (k < NAMED) match_plain(k, &l, (k + 4) % SIZES);
    }
}

/* The plain network's own gradients, along a few coordinates and parameters of every list. */
static void differences_match_the_plain_network(void **state)
{
    const double step = 1e-5;
    for (int k = 0; k < NAMED + RANDOM_LISTS; k++) {
        list l;
        rig r;
        list_at(k, &l);
        rig_open(&r, &l.n, 1, 1);
        double *gx = numbers_room(vector_of(&r) * sizeof *gx), *g = calloc(parameters(&r), sizeof *g);
        assert_non_null(g);
        (void)plain(&l.n, r.theta, r.x, gx, 1, g, NULL);
        for (int t = 0; t < 12; t++) {
            double *v = t % 2 ? &r.x[numbers_between(0, r.b.dim - 1)] : &r.theta[numbers_between(0, r.m.dim_theta - 1)];
            double kept = *v, slope = t % 2 ? gx[v - r.x] : g[v - r.theta], side[2];
            for (int s = 0; s < 2; s++) {
                *v = kept + (s ? step : -step);
                side[s] = plain(&l.n, r.theta, r.x, NULL, 0, NULL, NULL);
            }
            *v = kept;
            double found = (side[1] - side[0]) / (2 * step);
            int kinked = 0; /* a kink within the step shows as a difference of the one-sided slopes */
            double here = plain(&l.n, r.theta, r.x, NULL, 0, NULL, NULL);
            if (fabs(side[1] - 2 * here + side[0]) > 1e-3 * step * fmax(1, fabs(slope))) kinked = 1;
            if (!kinked && !(fabs(found - slope) <= 1e-6 * fmax(1, fabs(slope))))
                fail_msg("list %d: the slope is %.9g, not %.9g", k, slope, found);
        }
        free(gx), free(g);
        rig_close(&r);
    }
}

/* act and act' over a wide range, through a network that is nothing else: relative to |z|, as z enters. */
static void activations_are_exact_to_a_few_ulps(void **state)
{
    for (int a = 0; a <= SOSMC_IDENTITY; a++) {
        list l = {{1, 1, 1, 2, NULL, 0, 1, 0, 0}, {DENSE(1, a, 0), DENSE(1, ID, 0)}};
        rig r;
        point(&l);
        rig_open(&r, &l.n, 96, 96);
        for (int k = 0; k < 4; k++) r.theta[k] = k % 2 == 0; /* weights 1, biases 0 */
        assert_int_equal(r.m.prepare(r.m.self, r.theta, r.prep), 0);
        for (int i = 0; i < 96; i++)
            r.x[i] = (float)(i < 90 ? 0.25 * (i - 45) : i == 90 ? 0 : numbers_uniform(-20, 20));
        energy(&r, 1);
        for (int i = 0; i < 96; i++) {
            double slope, h = activate(a, r.x[i], &slope), size = fmax(fabs(r.x[i]), a == SOSMC_SOFTPLUS ? 0.5 : 0.01);
            if (!(fabs(r.U[i] - h) <= 4 * FLT_EPSILON * size))
                fail_msg("act %d of %g: %.9g, not %.9g", a, r.x[i], r.U[i], h);
            if (!(fabs(r.gx[i] - slope) <= 8 * FLT_EPSILON))
                fail_msg("act' %d of %g: %.9g, not %.9g", a, r.x[i], r.gx[i], slope);
        }
        rig_close(&r);
    }
}

/* ------------------------------------------------------------------------------------------------ bits */

static void all_levels_have_the_same_bits(void **state)
{
    for (int k = 0; k < NAMED + RANDOM_LISTS / 3; k++) {
        list l;
        rig r;
        list_at(k, &l);
        rig_open(&r, &l.n, sizes[k % SIZES].n, sizes[k % SIZES].ld);
        size_t n = (size_t)r.b.n, all = n * (size_t)(r.b.dim + 1) + parameters(&r);
        double *first = numbers_room(all * sizeof *first), *now = numbers_room(all * sizeof *now);
        int seen = 0;
        FOR_LEVELS(simd)
        {
            double *to = seen++ ? now : first;
            r.b.simd = simd;
            energy(&r, 1);
            memcpy(to, r.U, n * sizeof *to);
            for (int j = 0; j < r.b.dim; j++) memcpy(to + (size_t)(j + 1) * n, r.gx + j * r.b.ld, n * sizeof *to);
            contract(&r, 1);
            memcpy(to + n * (size_t)(r.b.dim + 1), r.g, parameters(&r) * sizeof *to);
            if (to == now && memcmp(first, now, all * sizeof *now) != 0) fail_msg("list %d: other bits", k);
        }
        free(first), free(now);
        rig_close(&r);
    }
}

/* Fresh or not, with gx or without, alone or among others, near padding that is not a number. */
static void reuse_and_place_change_no_bit(void **state)
{
    for (int k = 0; k < NAMED + RANDOM_LISTS / 3; k++) {
        list l;
        rig r;
        list_at(k, &l);
        rig_open(&r, &l.n, sizes[k % SIZES].n, sizes[k % SIZES].ld);
        size_t bytes = parameters(&r) * sizeof(double);
        double *U = numbers_room((size_t)r.b.n * sizeof *U), *gx = numbers_room(vector_of(&r) * sizeof *gx),
               *g = numbers_room(bytes);
        double *alone = numbers_room((size_t)r.b.dim * sizeof *alone),
               *slope = numbers_room((size_t)r.b.dim * sizeof *slope), one;
        energy(&r, 1);
        memcpy(U, r.U, (size_t)r.b.n * sizeof *U);
        memcpy(gx, r.gx, vector_of(&r) * sizeof *gx);
        contract(&r, 1);
        memcpy(g, r.g, bytes);
        contract(&r, 1); /* the pass is not spent */
        assert_memory_equal(g, r.g, bytes);
        contract(&r, 0);
        assert_memory_equal(g, r.g, bytes);
        energy(&r, 0);
        assert_memory_equal(U, r.U, (size_t)r.b.n * sizeof *U);
        int i = numbers_between(0, r.b.n - 1);
        sosmc_batch b = r.b;
        particle(&r, i, alone);
        b.x = alone, b.n = b.ld = 1;
        assert_int_equal(r.m.energy(r.m.self, r.theta, &b, &one, slope), 0);
        assert_memory_equal(&one, &U[i], sizeof one);
        for (int j = 0; j < r.b.dim; j++) assert_memory_equal(&slope[j], &gx[j * r.b.ld + i], sizeof one);
        free(U), free(gx), free(g), free(alone), free(slope);
        rig_close(&r);
    }
}

/* A broken particle shows in its own energy and nowhere else. */
static void nan_stays_in_its_lane(void **state)
{
    for (int a = 0; a <= SOSMC_IDENTITY; a++) {
        list l = named[0];
        rig r;
        for (int k = 0; k < 3; k++) l.layer[k].activation = a;
        point(&l);
        rig_open(&r, &l.n, 17, 24);
        r.x[5 * r.b.ld + 3] = NAN;
        FOR_LEVELS(simd)
        {
            r.b.simd = simd;
            energy(&r, 1);
            for (int i = 0; i < r.b.n; i++)
                if ((i == 3) != !isfinite(r.U[i])) fail_msg("activation %d, particle %d: U is %g", a, i, r.U[i]);
            for (int j = 0; j < r.b.dim; j++)
                for (int i = 0; i < r.b.n; i++) assert_true(i == 3 || isfinite(r.gx[j * r.b.ld + i]));
        }
        rig_close(&r);
    }
}

/* ------------------------------------------------------------------------------------------------ as a reward */

static void rewards_match_the_plain_network(void **state)
{
    list l = {{1, 6, 6, 3, NULL, 2, -1, 0, 0}, {CONV(4, 3, 2, 1, SI, 0), DENSE(9, TA, 0), DENSE(5, ID, 0)}};
    rig r;
    point(&l);
    rig_open(&r, &l.n, 37, 40);
    double x[36], f[5], s[40];
    for (int i = 0; i < 36 * 40; i++) r.x[i] *= 2;
    for (int softmax = 0; softmax < 2; softmax++)
        for (int clamp = 0; clamp < 2; clamp++) FOR_LEVELS(simd)
            {
                sosmc_network_judge judge = {
                    .network = &l.n, .prep = r.prep, .scale = -1, .clamp = clamp, .softmax = softmax};
                sosmc_score score = sosmc_network_reward(&judge);
                r.b.simd = simd;
                r.b.prep = r.b.work = NULL; /* they belong to the model of the run, not to the judge */
                assert_int_equal(score.eval(score.self, &r.b, s), 0);
                for (int i = 0; i < 37; i++) {
                    double sum = 0, expect;
                    particle(&r, i, x);
                    for (int j = 0; clamp && j < 36; j++) x[j] = fmax(-1, fmin(1, x[j]));
                    expect = plain(&l.n, r.theta, x, NULL, 0, NULL, f);
                    for (int k = 0; k < 5; k++) sum += exp(f[k]);
                    if (softmax) expect = -(f[2] - log(sum));
                    if (!(fabs(s[i] - expect) <= 2e-6 * fmax(1, fabs(expect))))
                        fail_msg("%.9g, not %.9g", s[i], expect);
                }
            }
    rig_close(&r);
}

/* log softmax(f)_output of three outputs f. */
static double log_share(const double f[3], int output)
{
    list l = {{1, 1, 1, 1, NULL, 1, 1, 0, 0}, {DENSE(3, ID, 0)}};
    rig r;
    double s[8];
    l.n.output = output;
    point(&l);
    rig_open(&r, &l.n, 1, 8);
    const double theta[6] = {f[0], f[1], f[2], 0, 0, 0};
    memcpy(r.theta, theta, sizeof theta);
    r.x[0] = 1;
    assert_int_equal(r.m.prepare(r.m.self, r.theta, r.prep), 0);
    sosmc_network_judge judge = {.network = &l.n, .prep = r.prep, .scale = 1, .softmax = 1};
    sosmc_score score = sosmc_network_reward(&judge);
    assert_int_equal(score.eval(score.self, &r.b, s), 0);
    rig_close(&r);
    return s[0];
}

/* Numbers too large for exp are no obstacle. */
static void softmax_does_not_overflow(void **state)
{
    const double f[3] = {1000, 990, -1000};
    assert_true(fabs(log_share(f, 1) + 10 + log1p(exp(-10))) < 1e-10);
}

/* Outputs so far apart that the smaller one's share is zero in double: its logarithm is still the distance. */
static void softmax_of_outputs_far_apart(void **state)
{
    for (int output = 0; output < 3; output++)
        for (int most = 0; most < 3; most++) {
            double f[3] = {-500, -501, -502};
            f[most] = 500;
            double s = log_share(f, output), expected = output == most ? 0 : -1000 - output;
            if (!(fabs(s - expected) < 1e-9)) fail_msg("output %d: %g and not %g", output, s, expected);
        }
}

/* ------------------------------------------------------------------------------------------------ the rest */

static void first_weights_are_uniform(void **state)
{
    const sosmc_layer layer[] = {CONV(40, 5, 1, 0, SI, 0), DENSE(30, ID, 0)};
    const sosmc_network n = {.channels = 2, .rows = 7, .columns = 7, .count = 2, .layer = layer, .sign = 1};
    const size_t ends[] = {0, 40 * 51, 40 * 51 + 30 * 361};
    const double bound[] = {1 / sqrt(50), 1 / sqrt(360)};
    sosmc_model m = sosmc_network_model(&n);
    assert_int_equal(m.dim_theta, (int)ends[2]);
    double *theta = numbers_room(ends[2] * sizeof *theta), *other = numbers_room(ends[2] * sizeof *other);
    sosmc_network_init(&n, 7, theta);
    sosmc_network_init(&n, 8, other);
    for (int k = 0; k < 2; k++) {
        double sum = 0, square = 0, count = (double)(ends[k + 1] - ends[k]);
        int same = 0;
        for (size_t i = ends[k]; i < ends[k + 1]; i++) {
            double v = theta[i] / bound[k];
            assert_true(fabs(v) <= 1);
            sum += v;
            square += v * v;
            same += theta[i] == other[i];
        }
        assert_true(fabs(sum / count) < 5 * sqrt(1 / (3 * count)));
        assert_true(fabs(square / count - 1.0 / 3) < 5 * sqrt(4 / (45 * count)));
        assert_int_equal(same, 0);
    }
    free(theta), free(other);
}

static void wrong_descriptions_are_refused(void **state)
{
    const list good = named[5];
    const struct {
        const char *part;
        int layer, at, value; /* of the second layer or of the network; which number, see below; what it becomes */
    } wrong[] = {{"channels is 0", 0, 0, 0},
                 {"rows is 5000", 0, 1, 5000},
                 {"columns is -1", 0, 2, -1},
                 {"there are 0 layers", 0, 3, 0},
                 {"there are 65 layers", 0, 3, 65},
                 {"output is 1", 0, 4, 1},
                 {"output is -1", 0, 4, -1},
                 {"sign is 2", 0, 5, 2},
                 {"base_sd is -1", 0, 6, -1},
                 {"layer 2: kind is 7", 1, 0, 7},
                 {"layer 2: outputs is 0", 1, 1, 0},
                 {"layer 2: kernel is 0", 1, 2, 0},
                 {"layer 2: kernel is 30", 1, 2, 30},
                 {"layer 2: stride is 0", 1, 3, 0},
                 {"layer 2: padding is 3", 1, 4, 3},
                 {"layer 2: activation is 6", 1, 5, 6},
                 {"layer 2: skip is 3", 1, 6, 3},
                 {"layer 2: skip is 2, but", 1, 6, 2},
                 {"layer 3 is a convolution after a dense layer", 1, 0, SOSMC_DENSE}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        list l = good;
        char text[200];
        int sign = (int)l.n.sign, base = (int)l.n.base_sd;
        sosmc_layer *second = &l.layer[1];
        int *const number[2][7] = {{&l.n.channels, &l.n.rows, &l.n.columns, &l.n.count, &l.n.output, &sign, &base},
                                   {&second->kind, &second->outputs, &second->kernel, &second->stride, &second->padding,
                                    &second->activation, &second->skip}};
        point(&l);
        assert_null(sosmc_network_problem(&l.n, text, sizeof text));
        *number[wrong[k].layer][wrong[k].at] = wrong[k].value;
        l.n.sign = sign;
        l.n.base_sd = base;
        const char *said = sosmc_network_problem(&l.n, text, sizeof text);
        if (!said || !strstr(said, wrong[k].part)) fail_msg("\"%s\", not \"%s\"", said ? said : "", wrong[k].part);
        assert_int_equal(sosmc_network_model(&l.n).dim_x, 0);
    }
}

/* A weighted run that tunes the network: its hash, with `threads`, a level and a limit of parked work. */
static uint64_t hash_of(const list *l, int threads, const sosmc_simd *level, size_t limit, int particles)
{
    sosmc *s = NULL;
    sosmc_model m = sosmc_network_model(&l->n);
    double *theta = numbers_room((size_t)m.dim_theta * sizeof *theta);
    sosmc_network_init(&l->n, 3, theta);
    sosmc_network_judge judge = {.network = &l->n, .scale = 1, .clamp = 1};
    void *prep = numbers_room(m.prep);
    assert_int_equal(m.prepare(m.self, theta, prep), 0);
    judge.prep = prep;
    sosmc_problem p = {.model = m,
                       .objective = sosmc_reward_reverse(sosmc_network_reward(&judge), 0.5, theta),
                       .init = sosmc_standard_normal(),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(particles);
    cfg.kernel = sosmc_ula(0.01);
    cfg.optimiser = sosmc_adam(0.01);
    cfg.threads = threads;
    cfg.simd = level;
    cfg.work_limit = limit;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    if (status != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    assert_int_equal(sosmc_run(s, ITERATIONS, NULL, NULL), SOSMC_OK);
    uint64_t hash = sosmc_hash(s);
    sosmc_free(s);
    free(theta), free(prep);
    return hash;
}

static void runs_have_one_hash(void **state)
{
    const int particles[] = {75, 9, 1};
    list l = named[0];
    point(&l);
    for (int k = 0; k < 3; k++) {
        uint64_t hash = hash_of(&l, 1, NULL, (size_t)1 << 28, particles[k]);
        assert_true(hash == hash_of(&l, 2, NULL, (size_t)1 << 28, particles[k]));
        assert_true(hash == hash_of(&l, 2, NULL, 1, particles[k]));
        FOR_LEVELS(simd) assert_true(hash == hash_of(&l, 1, simd, (size_t)1 << 28, particles[k]));
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, numbers_start)
    const struct CMUnitTest tests[] = {
        TEST(values_match_a_plain_network),        TEST(differences_match_the_plain_network),
        TEST(activations_are_exact_to_a_few_ulps), TEST(all_levels_have_the_same_bits),
        TEST(reuse_and_place_change_no_bit),       TEST(nan_stays_in_its_lane),
        TEST(rewards_match_the_plain_network),     TEST(softmax_does_not_overflow),
        TEST(softmax_of_outputs_far_apart),        TEST(first_weights_are_uniform),
        TEST(wrong_descriptions_are_refused),      TEST(runs_have_one_hash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
