/* test_mlp.c: the multi-layer perceptron against a plain network in double precision written here: energies, gradients,
 * the gradient penalty, the last two also against finite differences of that network. Then what must not change a bit:
 * vector level, place in the tile, reuse of a pass, padding; and whole runs, whose hash must not depend on threads,
 * level or parked work. Everything lies in exact allocations, padding and scratch start as NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sosmc/models.h>

#include "numbers.h"

/* Plain C is a hundred times slower when it is instrumented: then three panels stand for eight, every third combination
 * for all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEEP = 40, ITERATIONS = 2, FEWER = 1 };
#else
enum { DEEP = 128, ITERATIONS = 5, FEWER = 0 };
#endif
/* Under a sanitizer one combination in three. */
static int left_out(int combination) { return FEWER && combination % 3 != 0; }

enum { LEVELS = 3, ACTIVATIONS = 3, DEEPEST = 4, WIDEST = 128 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
static const char *const activation_name[ACTIVATIONS] = {"SiLU", "softplus", "tanh"};
#define FOR_LEVELS(s)                   \
    for (int v_ = 0; v_ < LEVELS; v_++) \
        for (const sosmc_simd *s = sosmc_simd_named(level_name[v_]); s; s = NULL)

static const int deep[] = {DEEP, DEEP, DEEP, DEEP}, one_layer[] = {5}, two_layers[] = {17, 33},
                 shrinking[] = {40, 16, 7}, smallest[] = {1}, whole_panels[] = {16, 32};
static const sosmc_mlp nets[] = {
    {.inputs = 2, .hidden = 4, .width = deep},       {.inputs = 2, .hidden = 1, .width = one_layer},
    {.inputs = 3, .hidden = 2, .width = two_layers}, {.inputs = 20, .hidden = 3, .width = shrinking},
    {.inputs = 1, .hidden = 1, .width = smallest},   {.inputs = 16, .hidden = 2, .width = whole_panels}};
enum { NETS = sizeof nets / sizeof nets[0] };
static const struct {
    int n, ld;
} sizes[] = {{1, 1}, {1, 8}, {13, 16}, {37, 40}, {128, 128}, {200, 200}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* ------------------------------------------------------------------------------------------------ the plain network */

/* act(z), act'(z) */
static double activate(int activation, double z, double *slope)
{
    double s = 1 / (1 + exp(-z)), t = tanh(z);
    if (activation == SOSMC_TANH) {
        *slope = 1 - t * t;
        return t;
    }
    if (activation == SOSMC_SOFTPLUS) {
        *slope = s;
        return fmax(z, 0) + log1p(exp(-fabs(z)));
    }
    *slope = s * (1 + z * (1 - s));
    return z * s;
}

static int width_of(const sosmc_mlp *m, int layer) { return layer ? m->width[layer - 1] : m->inputs; }

/* U at one x. gx, unless NULL, receives dU/dx; g, unless NULL, gets c dU/dtheta added. */
static double plain(const sosmc_mlp *m, const double *theta, const double *x, double *gx, double c, double *g)
{
    double h[DEEPEST + 1][WIDEST], slope[DEEPEST + 1][WIDEST], d[WIDEST], below[WIDEST], E, square = 0;
    size_t weight[DEEPEST + 2], at = 0;
    int last = m->hidden;
    memcpy(h[0], x, (size_t)m->inputs * sizeof *x);
    for (int l = 1; l <= last; l++) {
        int in = width_of(m, l - 1), out = width_of(m, l);
        weight[l] = at;
        for (int o = 0; o < out; o++) {
            double z = theta[at + (size_t)(in * out + o)];
            for (int i = 0; i < in; i++) z += theta[at + (size_t)(o * in + i)] * h[l - 1][i];
            h[l][o] = activate(m->activation, z, &slope[l][o]);
        }
        at += (size_t)(in * out + out);
    }
    E = theta[at + (size_t)width_of(m, last)];
    for (int o = 0; o < width_of(m, last); o++) {
        E += theta[at + (size_t)o] * h[last][o];
        d[o] = theta[at + (size_t)o] * slope[last][o];
        if (g) g[at + (size_t)o] += c * h[last][o];
    }
    if (g) g[at + (size_t)width_of(m, last)] += c;
    for (int l = last; l >= 1; l--) {
        int in = width_of(m, l - 1), out = width_of(m, l);
        for (int i = 0; i < in; i++) {
            below[i] = 0;
            for (int o = 0; o < out; o++) below[i] += theta[weight[l] + (size_t)(o * in + i)] * d[o];
        }
        for (int o = 0; g && o < out; o++) {
            for (int i = 0; i < in; i++) g[weight[l] + (size_t)(o * in + i)] += c * d[o] * h[l - 1][i];
            g[weight[l] + (size_t)(in * out + o)] += c * d[o];
        }
        for (int i = 0; i < in; i++) d[i] = l > 1 ? below[i] * slope[l - 1][i] : below[i];
    }
    for (int j = 0; j < m->inputs; j++) square += x[j] * x[j];
    for (int j = 0; gx && j < m->inputs; j++) gx[j] = d[j] + (m->base_sd > 0 ? x[j] / (m->base_sd * m->base_sd) : 0);
    return m->base_sd > 0 ? E + square / (2 * m->base_sd * m->base_sd) : E;
}

static void particle(const sosmc_batch *b, int i, double *x)
{
    for (int j = 0; j < b->dim; j++) x[j] = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
}

/* factor sum_i (|dU/dx_i| - 1)^2 */
static double plain_penalty(const sosmc_mlp *m, const double *theta, const sosmc_batch *b)
{
    double x[WIDEST], gx[WIDEST], sum = 0;
    for (int i = 0; i < b->n; i++) {
        double square = 0;
        particle(b, i, x);
        (void)plain(m, theta, x, gx, 0, NULL);
        for (int j = 0; j < b->dim; j++) square += gx[j] * gx[j];
        sum += (sqrt(square) - 1) * (sqrt(square) - 1);
    }
    return m->penalty * sum;
}

/* ------------------------------------------------------------------------------------------------ the library's */

/* A network with weights, a batch, and what the library computes of them. */
typedef struct {
    sosmc_mlp m;
    sosmc_model model;
    sosmc_batch b;
    double *theta, *x, *c, *U, *gx, *g, *penalty_g, value;
    void *prep;
} rig;

static size_t vector_of(const rig *r) { return (size_t)r->b.dim * (size_t)r->b.ld; }
static size_t parameters(const rig *r) { return (size_t)r->model.dim_theta; }

/* Weights of size gain / sqrt(inputs of the layer), biases of size 1. */
static double *weights(const sosmc_mlp *m, double gain)
{
    double *theta = numbers_room(sizeof *theta * (size_t)sosmc_mlp_model(m).dim_theta), *to = theta;
    for (int l = 1; l <= m->hidden + 1; l++) {
        int in = width_of(m, l - 1), out = l > m->hidden ? 1 : width_of(m, l);
        double size = gain * sqrt(3.0 / in);
        for (int k = 0; k < in * out; k++) *to++ = numbers_uniform(-size, size);
        for (int k = 0; k < out; k++) *to++ = numbers_uniform(-1, 1);
    }
    assert_int_equal(to - theta, sosmc_mlp_model(m).dim_theta);
    return theta;
}

static void prepare(rig *r) { assert_int_equal(r->model.prepare(r->model.self, r->theta, r->prep), 0); }

/* r->model points into *r: the rig stays where it is. */
static void rig_open(rig *r, const sosmc_mlp *m, int n, int ld)
{
    *r = (rig){.m = *m};
    r->model = sosmc_mlp_model(&r->m);
    r->b = (sosmc_batch){.dim = m->inputs, .n = n, .ld = ld};
    r->theta = weights(m, 1.3);
    r->prep = numbers_room(r->model.prep);
    r->b.work = numbers_room(r->model.work * (size_t)ld);
    r->b.prep = r->prep;
    r->b.x = r->x = numbers_room(vector_of(r) * sizeof *r->x);
    r->c = numbers_room((size_t)ld * sizeof *r->c);
    r->U = numbers_room((size_t)ld * sizeof *r->U);
    r->gx = numbers_room(vector_of(r) * sizeof *r->gx);
    r->g = numbers_room(parameters(r) * sizeof *r->g);
    r->penalty_g = numbers_room(parameters(r) * sizeof *r->g);
    for (int i = 0; i < n; i++) {
        r->c[i] = numbers_uniform(-1, 1);
        for (int j = 0; j < m->inputs; j++) r->x[j * ld + i] = numbers_uniform(-3, 3);
    }
    prepare(r);
}

static void rig_close(rig *r)
{
    void *all[] = {r->theta, r->prep, r->b.work, r->x, r->c, r->U, r->gx, r->g, r->penalty_g};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) free(all[k]);
}

static void forget(rig *r) { memset(r->b.work, 0xff, r->model.work * (size_t)r->b.ld); }

static void energy(rig *r) { assert_int_equal(r->model.energy(r->model.self, r->theta, &r->b, r->U, r->gx), 0); }

static void contract(rig *r, int fresh, double start)
{
    r->b.fresh = fresh;
    for (size_t k = 0; k < parameters(r); k++) r->g[k] = start;
    assert_int_equal(r->model.grad_theta(r->model.self, r->theta, &r->b, r->c, r->g), 0);
    r->b.fresh = 0;
}

static void penalise(rig *r, int fresh, double weight)
{
    r->b.fresh = fresh;
    r->value = 0;
    memset(r->penalty_g, 0, parameters(r) * sizeof *r->penalty_g);
    assert_int_equal(sosmc_mlp_penalty(r->model.self, r->theta, &r->b, weight, r->penalty_g, &r->value), 0);
    r->b.fresh = 0;
}

/* |a - b| <= tolerance |b| in Euclid's norm */
static void assert_vectors_near(const double *a, const double *b, size_t n, double tolerance, const char *what)
{
    double off = 0, norm = 0;
    for (size_t k = 0; k < n; k++) off += (a[k] - b[k]) * (a[k] - b[k]), norm += b[k] * b[k];
    if (!(sqrt(off) <= tolerance * sqrt(norm))) fail_msg("%s: off by %g of %g", what, sqrt(off), sqrt(norm));
}

static void assert_same_bits(const double *a, const double *b, size_t n, const char *what)
{
    for (size_t k = 0; k < n; k++)
        if (memcmp(a + k, b + k, sizeof *a) != 0) fail_msg("%s: number %zu is %a and %a", what, k, a[k], b[k]);
}

/* ------------------------------------------------------------------------------------------------ values */

static void assert_matches_plain(rig *r, const double *U, const double *gx, const double *g)
{
    double *got = numbers_room(vector_of(r) * sizeof *got);
    size_t dim = (size_t)r->b.dim, n = (size_t)r->b.n;
    energy(r);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(r->U[i] - U[i]) <= 1e-5 * fmax(1, fabs(U[i])))) fail_msg("U is %.9g, not %.9g", r->U[i], U[i]);
        for (size_t j = 0; j < dim; j++) got[i * dim + j] = r->gx[j * (size_t)r->b.ld + i];
    }
    assert_vectors_near(got, gx, dim * n, 1e-5, "dU/dx");
    contract(r, 1, 0.25); /* a contraction adds to what is there */
    for (size_t k = 0; k < parameters(r); k++) r->g[k] -= 0.25;
    assert_vectors_near(r->g, g, parameters(r), 1e-5, "dU/dtheta");
    free(got);
}

static void match_plain(const sosmc_mlp *m, int n, int ld)
{
    rig r;
    rig_open(&r, m, n, ld);
    double *U = numbers_room((size_t)n * sizeof *U), *gx = numbers_room((size_t)(n * m->inputs) * sizeof *gx);
    double *g = calloc(parameters(&r), sizeof *g), x[WIDEST];
    assert_non_null(g);
    for (int i = 0; i < n; i++) {
        particle(&r.b, i, x);
        U[i] = plain(m, r.theta, x, gx + (size_t)(i * m->inputs), r.c[i], g);
    }
    FOR_LEVELS(simd)
    {
        r.b.simd = simd;
        assert_matches_plain(&r, U, gx, g);
    }
    free(U);
    free(gx);
    free(g);
    rig_close(&r);
}

static void values_match_a_plain_network(void **state)
{
    for (int k = 0; k < NETS; k++)
        for (int a = 0; a < ACTIVATIONS; a++)
            for (int s = 0; s < SIZES; s++) {
                sosmc_mlp m = nets[k];
                if (left_out(k + a + s)) continue;
                if (k == 0 && a > 0 && s != 2) continue; /* the large one: every size once is enough */
                m.activation = a;
                m.base_sd = a == 1 ? 1.5 : 0;
                match_plain(&m, sizes[s].n, sizes[s].ld);
            }
}

/* 1 -> [1] with unit weights is the activation itself: over the whole range, including where exp is held back. */
static void activations_over_their_range(void **state)
{
    enum { POINTS = 4000 };
    for (int a = 0; a < ACTIVATIONS; a++) {
        const sosmc_mlp m = {.inputs = 1, .hidden = 1, .width = smallest, .activation = a};
        rig r;
        rig_open(&r, &m, POINTS, POINTS);
        for (int k = 0; k < 4; k++) r.theta[k] = k % 2 ? 0 : 1; /* weight, bias, weight, bias */
        prepare(&r);
        for (int i = 0; i < POINTS; i++)
            r.x[i] = (double)(float)(i < POINTS / 2 ? numbers_uniform(-5, 5) : numbers_uniform(-200, 200));
        FOR_LEVELS(simd)
        {
            r.b.simd = simd;
            energy(&r);
            for (int i = 0; i < POINTS; i++) {
                double slope, h = activate(a, r.x[i], &slope), room = 3e-7 * fmax(1, fabs(h));
                if (!(fabs(r.U[i] - h) <= room && fabs(r.gx[i] - slope) <= 1e-6))
                    fail_msg("%s of %g: %.9g, slope %.9g, not %.9g, %.9g", activation_name[a], r.x[i], r.U[i], r.gx[i],
                             h, slope);
            }
        }
        rig_close(&r);
    }
}

/* ------------------------------------------------------------------------------------------------ differences */

/* sum_i c_i U(x_i) of the plain network */
static double weighted_sum(const rig *r)
{
    double x[WIDEST], sum = 0;
    for (int i = 0; i < r->b.n; i++) {
        particle(&r->b, i, x);
        sum += r->c[i] * plain(&r->m, r->theta, x, NULL, 0, NULL);
    }
    return sum;
}
static double penalty_sum(const rig *r) { return plain_penalty(&r->m, r->theta, &r->b); }

/* Central differences of f in every parameter. */
static void differences(rig *r, double (*f)(const rig *r), double *g)
{
    const double step = 1e-5;
    for (size_t k = 0; k < parameters(r); k++) {
        double kept = r->theta[k];
        r->theta[k] = kept + step;
        double above = f(r);
        r->theta[k] = kept - step;
        g[k] = (above - f(r)) / (2 * step);
        r->theta[k] = kept;
    }
}

static void input_differences(const rig *r, double *gx)
{
    const double step = 1e-5;
    double x[WIDEST];
    for (int i = 0; i < r->b.n; i++)
        for (int j = 0; j < r->b.dim; j++) {
            particle(&r->b, i, x);
            x[j] += step;
            double above = plain(&r->m, r->theta, x, NULL, 0, NULL);
            x[j] -= 2 * step;
            gx[j * r->b.ld + i] = (above - plain(&r->m, r->theta, x, NULL, 0, NULL)) / (2 * step);
        }
}

static void match_differences(const sosmc_mlp *m)
{
    rig r;
    rig_open(&r, m, 6, 8);
    double *gx = numbers_room(vector_of(&r) * sizeof *gx), *g = numbers_room(parameters(&r) * sizeof *g);
    double *penalty = numbers_room(parameters(&r) * sizeof *penalty), value = penalty_sum(&r);
    input_differences(&r, gx);
    differences(&r, weighted_sum, g);
    differences(&r, penalty_sum, penalty);
    for (size_t k = 0; k < parameters(&r); k++) penalty[k] *= 0.5;
    FOR_LEVELS(simd)
    {
        r.b.simd = simd;
        energy(&r);
        for (int j = 0; j < r.b.dim; j++)
            assert_vectors_near(r.gx + j * r.b.ld, gx + j * r.b.ld, (size_t)r.b.n, 1e-5, "dU/dx by differences");
        contract(&r, 0, 0);
        assert_vectors_near(r.g, g, parameters(&r), 1e-5, "dU/dtheta by differences");
        penalise(&r, 0, 0.5);
        assert_true(fabs(r.value - 0.5 * value) <= 1e-5 * value);
        assert_vectors_near(r.penalty_g, penalty, parameters(&r), 1e-5, "the penalty's gradient by differences");
    }
    free(gx);
    free(g);
    free(penalty);
    rig_close(&r);
}

static void gradients_match_differences(void **state)
{
    for (int k = 1; k < NETS; k++)
        for (int a = 0; a < ACTIVATIONS; a++)
            for (int base = 0; base < 2; base++) {
                sosmc_mlp m = nets[k];
                m.activation = a;
                m.base_sd = base ? 0.8 : 0;
                m.penalty = 0.7;
                if (k == 3 && (a || base)) continue; /* those with many parameters: once, or once per activation */
                if (k == 5 && base != a % 2) continue;
                match_differences(&m);
            }
}

/* Of the large network the penalty's gradient along a few directions; more particles than an inner tile. */
static void penalty_of_a_large_network(void **state)
{
    enum { DIRECTIONS = 2, N = 150, LD = 152 };
    sosmc_mlp m = nets[0];
    rig r;
    m.penalty = 10;
    rig_open(&r, &m, N, LD);
    double *along = numbers_room(parameters(&r) * sizeof *along), *theta = numbers_room(parameters(&r) * sizeof *theta);
    memcpy(theta, r.theta, parameters(&r) * sizeof *theta);
    penalise(&r, 0, 1.0 / N);
    for (int d = 0; d < DIRECTIONS; d++) {
        const double step = 1e-6;
        double slope[2], expect, got = 0, norm = 0;
        for (size_t k = 0; k < parameters(&r); k++) along[k] = d ? r.penalty_g[k] : numbers_uniform(-1, 1);
        for (size_t k = 0; k < parameters(&r); k++) got += along[k] * r.penalty_g[k], norm += along[k] * along[k];
        norm = sqrt(norm);
        for (int side = 0; side < 2; side++) {
            for (size_t k = 0; k < parameters(&r); k++)
                r.theta[k] = theta[k] + (side ? step : -step) * along[k] / norm * 10;
            slope[side] = penalty_sum(&r) / N;
        }
        expect = (slope[1] - slope[0]) / (2 * step * 10);
        double size = 0;
        for (size_t k = 0; k < parameters(&r); k++) size += r.penalty_g[k] * r.penalty_g[k];
        if (!(fabs(got / norm - expect) <= 2e-5 * sqrt(size))) fail_msg("%.9g, not %.9g", got / norm, expect);
    }
    memcpy(r.theta, theta, parameters(&r) * sizeof *theta);
    assert_true(fabs(r.value - penalty_sum(&r) / N) <= 1e-5 * r.value);
    free(along);
    free(theta);
    rig_close(&r);
}

/* Without a slope there is no direction to it: the penalty is its factor, its gradient nothing. */
static void penalty_without_a_slope(void **state)
{
    for (int a = 0; a < ACTIVATIONS; a++) {
        sosmc_mlp m = {.inputs = 3, .hidden = 2, .width = two_layers, .activation = a, .base_sd = 2, .penalty = 0.7};
        rig r;
        rig_open(&r, &m, 13, 16);
        memset(r.theta, 0, parameters(&r) * sizeof *r.theta);
        for (int k = 0; k < 3 * r.b.ld; k++) r.x[k] = 0;
        prepare(&r);
        FOR_LEVELS(simd)
        {
            r.b.simd = simd;
            penalise(&r, 0, 0.5);
            assert_true(fabs(r.value - 0.5 * 13 * 0.7) < 1e-14);
            for (size_t k = 0; k < parameters(&r); k++) assert_true(r.penalty_g[k] == 0);
        }
        rig_close(&r);
    }
}

/* Where the slope is the smallest the activation has, its direction still counts: a unit vector times 2 (0 - 1). */
static void penalty_of_a_tiny_slope(void **state)
{
    const sosmc_mlp m = {.inputs = 1, .hidden = 1, .width = smallest, .activation = SOSMC_SOFTPLUS, .penalty = 10};
    rig r;
    rig_open(&r, &m, 1, 1);
    for (int k = 0; k < 4; k++) r.theta[k] = k % 2 ? 0 : 1; /* weight, bias, weight, bias */
    prepare(&r);
    r.x[0] = -1e30;
    FOR_LEVELS(simd)
    {
        r.b.simd = simd;
        penalise(&r, 0, 1);
        assert_true(fabs(r.value - 10) < 1e-6);
        for (size_t k = 0; k < parameters(&r); k++) assert_true(isfinite(r.penalty_g[k]));
    }
    rig_close(&r);
}

/* A network without a penalty adds nothing; its scratch has no room for one. */
static void no_penalty_is_nothing(void **state)
{
    rig r;
    rig_open(&r, &nets[2], 13, 16);
    penalise(&r, 0, 1);
    assert_true(r.value == 0);
    for (size_t k = 0; k < parameters(&r); k++) assert_true(r.penalty_g[k] == 0);
    rig_close(&r);
}

/* ------------------------------------------------------------------------------------------------ bits */

/* Everything the library computes of the rig, into `to`; returns how many numbers. */
static size_t outcome(rig *r, double *to)
{
    double *start = to;
    size_t n = (size_t)r->b.n;
    forget(r);
    energy(r);
    memcpy(to, r->U, n * sizeof *to);
    to += n;
    for (int j = 0; j < r->b.dim; j++, to += n) memcpy(to, r->gx + j * r->b.ld, n * sizeof *to);
    contract(r, 1, 0);
    memcpy(to, r->g, parameters(r) * sizeof *to);
    to += parameters(r);
    penalise(r, 1, 0.3);
    memcpy(to, r->penalty_g, parameters(r) * sizeof *to);
    to += parameters(r);
    *to++ = r->value;
    return (size_t)(to - start);
}

static void all_levels_have_the_same_bits(void **state)
{
    for (int k = 0; k < NETS; k++)
        for (int s = 0; s < SIZES; s++) {
            sosmc_mlp m = nets[k];
            rig r;
            if (left_out(k + s) || (k == 0 && s != 3)) continue;
            m.activation = (k + s) % ACTIVATIONS;
            m.base_sd = s % 2 ? 2 : 0;
            m.penalty = 1;
            rig_open(&r, &m, sizes[s].n, sizes[s].ld);
            size_t room = (size_t)(1 + m.inputs) * (size_t)r.b.n + 2 * parameters(&r) + 1;
            double *expect = numbers_room(room * sizeof *expect), *got = numbers_room(room * sizeof *got);
            r.b.simd = sosmc_simd_named("plain");
            assert_int_equal(outcome(&r, expect), room);
            FOR_LEVELS(simd)
            {
                r.b.simd = simd;
                (void)outcome(&r, got);
                assert_same_bits(got, expect, room, level_name[v_]);
            }
            free(expect);
            free(got);
            rig_close(&r);
        }
}

/* Where the next batch has its scratch is a hint: neither read nor written, even where nothing may be. */
static void the_next_batch_does_not_matter(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *forbidden = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(forbidden != MAP_FAILED);
    for (int k = 0; k < NETS; k++) {
        sosmc_mlp m = nets[k];
        rig r;
        m.penalty = 1;
        rig_open(&r, &m, 37, 40);
        size_t room = (size_t)(1 + m.inputs) * (size_t)r.b.n + 2 * parameters(&r) + 1;
        double *expect = numbers_room(room * sizeof *expect), *got = numbers_room(room * sizeof *got);
        FOR_LEVELS(simd)
        {
            r.b.simd = simd;
            r.b.next_work = NULL;
            assert_int_equal(outcome(&r, expect), room);
            r.b.next_work = forbidden;
            (void)outcome(&r, got);
            assert_same_bits(got, expect, room, level_name[v_]);
        }
        free(expect);
        free(got);
        rig_close(&r);
    }
    assert_int_equal(munmap(forbidden, page), 0);
}

/* Particles in reverse, particles alone: the same U and dU/dx. */
static void place_in_the_tile_does_not_matter(void **state)
{
    for (int k = 0; k < NETS; k++) {
        sosmc_mlp m = nets[k];
        rig r, turned, alone;
        m.activation = k % ACTIVATIONS;
        m.base_sd = 1.7;
        rig_open(&r, &m, 37, 40);
        rig_open(&turned, &m, 43, 48);
        rig_open(&alone, &m, 1, 1);
        turned.b.prep = alone.b.prep = r.prep;
        for (int i = 0; i < 37; i++)
            for (int j = 0; j < m.inputs; j++) turned.x[j * 48 + 42 - i] = r.x[j * 40 + i];
        FOR_LEVELS(simd)
        {
            r.b.simd = turned.b.simd = alone.b.simd = simd;
            energy(&r);
            energy(&turned);
            for (int i = 0; i < 37; i++) {
                for (int j = 0; j < m.inputs; j++) alone.x[j] = r.x[j * 40 + i];
                energy(&alone);
                assert_same_bits(alone.U, r.U + i, 1, "U alone");
                assert_same_bits(turned.U + 42 - i, r.U + i, 1, "U elsewhere");
                for (int j = 0; j < m.inputs; j++) {
                    assert_same_bits(alone.gx + j, r.gx + j * 40 + i, 1, "dU/dx alone");
                    assert_same_bits(turned.gx + j * 48 + 42 - i, r.gx + j * 40 + i, 1, "dU/dx elsewhere");
                }
            }
        }
        rig_close(&r);
        rig_close(&turned);
        rig_close(&alone);
    }
}

/* A pass left in work and a new one; a second contraction of the same pass; an energy without gradient. */
static void reuse_does_not_matter(void **state)
{
    for (int k = 0; k < NETS; k++) {
        sosmc_mlp m = nets[k];
        rig r;
        m.activation = k % ACTIVATIONS;
        m.penalty = 1;
        rig_open(&r, &m, k ? 136 : 37, k ? 136 : 40);
        size_t bytes = parameters(&r) * sizeof *r.g;
        double *g = numbers_room(bytes), *U = numbers_room((size_t)r.b.ld * sizeof *U);
        FOR_LEVELS(simd)
        {
            r.b.simd = simd;
            energy(&r);
            memcpy(U, r.U, (size_t)r.b.n * sizeof *U);
            contract(&r, 1, 0);
            memcpy(g, r.g, bytes);
            contract(&r, 1, 0);
            assert_same_bits(r.g, g, parameters(&r), "second contraction");
            forget(&r);
            contract(&r, 0, 0);
            assert_same_bits(r.g, g, parameters(&r), "contraction with its own pass");
            energy(&r);
            penalise(&r, 1, 1);
            memcpy(g, r.penalty_g, bytes);
            forget(&r);
            penalise(&r, 0, 1);
            assert_same_bits(r.penalty_g, g, parameters(&r), "penalty with its own pass");
            forget(&r);
            assert_int_equal(r.model.energy(r.model.self, r.theta, &r.b, r.U, NULL), 0);
            assert_same_bits(r.U, U, (size_t)r.b.n, "energy without gradient");
        }
        free(g);
        free(U);
        rig_close(&r);
    }
}

/* What stands behind the last particle, numbers or not, changes nothing. */
static void padding_does_not_matter(void **state)
{
    sosmc_mlp m = nets[2];
    rig r;
    m.penalty = 1;
    rig_open(&r, &m, 37, 40);
    size_t room = (size_t)(1 + m.inputs) * 37 + 2 * parameters(&r) + 1;
    double *expect = numbers_room(room * sizeof *expect), *got = numbers_room(room * sizeof *got);
    FOR_LEVELS(simd)
    {
        r.b.simd = simd;
        for (int fill = 0; fill < 3; fill++) {
            for (int j = 0; j < m.inputs; j++)
                for (int i = 37; i < 40; i++) r.x[j * 40 + i] = fill == 0 ? 1 : fill == 1 ? NAN : INFINITY;
            assert_int_equal(outcome(&r, fill ? got : expect), room);
            if (fill) assert_same_bits(got, expect, room, "padding");
        }
    }
    free(expect);
    free(got);
    rig_close(&r);
}

/* ------------------------------------------------------------------------------------------------ what is no number */

static void spoil_one(rig *r, const double *U, int j, double bad)
{
    enum { WHO = 5 };
    double kept = r->x[j * r->b.ld + WHO];
    r->x[j * r->b.ld + WHO] = bad;
    energy(r);
    if (isfinite(r->U[WHO])) fail_msg("%s: U(%g) is %g", activation_name[r->m.activation], bad, r->U[WHO]);
    for (int i = 0; i < r->b.n; i++)
        if (i != WHO) assert_same_bits(r->U + i, U + i, 1, "a neighbour's U");
    assert_int_equal(r->model.energy(r->model.self, r->theta, &r->b, r->U, NULL), 0);
    assert_true(!isfinite(r->U[WHO]));
    contract(r, 0, 0);
    penalise(r, 0, 1);
    r->x[j * r->b.ld + WHO] = kept;
}

/* Infinity too, whatever the activation makes of it: an energy far outside is no energy. */
static void not_a_number_stays_one(void **state)
{
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1e39, -1e300};
    for (int k = 1; k < NETS; k++)
        for (int a = 0; a < ACTIVATIONS; a++)
            for (int negative = 0; negative < 2; negative++) { /* all units of a layer on the same side */
                sosmc_mlp m = nets[k];
                rig r;
                double U[6];
                if (left_out(k + a + negative)) continue;
                m.activation = a;
                m.penalty = 1;
                rig_open(&r, &m, 6, 8);
                for (size_t p = 0; negative && p < parameters(&r); p++) r.theta[p] = -fabs(r.theta[p]);
                prepare(&r);
                FOR_LEVELS(simd)
                {
                    r.b.simd = simd;
                    energy(&r);
                    memcpy(U, r.U, sizeof U);
                    for (size_t q = 0; q < sizeof bad / sizeof bad[0]; q++) spoil_one(&r, U, (int)q % m.inputs, bad[q]);
                }
                rig_close(&r);
            }
}

/* 1e30 is a float: energies are right to the size of what is added up. */
static void far_outside(void **state)
{
    for (int k = 1; k < NETS; k++)
        for (int a = 0; a < ACTIVATIONS; a++) {
            sosmc_mlp m = nets[k];
            rig r;
            double x[WIDEST];
            m.activation = a;
            m.penalty = 1;
            rig_open(&r, &m, 13, 16);
            for (int j = 0; j < m.inputs; j++)
                for (int i = 0; i < 13; i++) r.x[j * 16 + i] = numbers_uniform(-1, 1) < 0 ? -1e30 : 1e30;
            FOR_LEVELS(simd)
            {
                r.b.simd = simd;
                energy(&r);
                for (int i = 0; i < 13; i++) {
                    particle(&r.b, i, x);
                    double expect = plain(&m, r.theta, x, NULL, 0, NULL), room = a == SOSMC_TANH ? 1e-5 : 1e25;
                    if (!(fabs(r.U[i] - expect) <= room)) fail_msg("U is %g, not %g", r.U[i], expect);
                    for (int j = 0; j < m.inputs; j++) assert_true(isfinite(r.gx[j * 16 + i]));
                }
                penalise(&r, 0, 1);
                assert_true(isfinite(r.value));
                for (size_t p = 0; p < parameters(&r); p++) assert_true(!isnan(r.penalty_g[p]));
            }
            rig_close(&r);
        }
}

/* ------------------------------------------------------------------------------------------------ construction */

static void shapes_that_are_none_are_refused(void **state)
{
    const int none[] = {4, 0}, huge[] = {16385},
              many[] = {16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384};
    const sosmc_mlp wrong[] = {{.inputs = 0, .hidden = 1, .width = one_layer},
                               {.inputs = 2, .hidden = 0, .width = one_layer},
                               {.inputs = 2, .hidden = 33, .width = one_layer},
                               {.inputs = 2, .hidden = 1},
                               {.inputs = 2, .hidden = 2, .width = none},
                               {.inputs = 2, .hidden = 1, .width = huge},
                               {.inputs = 2, .hidden = 9, .width = many}, /* more than 2^31 parameters */
                               {.inputs = 2, .hidden = 1, .width = one_layer, .activation = 3},
                               {.inputs = 2, .hidden = 1, .width = one_layer, .base_sd = NAN},
                               {.inputs = 2, .hidden = 1, .width = one_layer, .base_sd = -1}};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) assert_int_equal(sosmc_mlp_model(&wrong[k]).dim_x, 0);
    assert_int_equal(sosmc_mlp_model(&nets[0]).dim_theta, 2 * DEEP + DEEP + 3 * (DEEP + 1) * DEEP + DEEP + 1);
}

/* Weights have the spread asked for and differ with the seed; biases are zero; a draw is named by its place. */
static void initial_weights(void **state)
{
    const sosmc_mlp *m = &nets[0];
    size_t p = (size_t)sosmc_mlp_model(m).dim_theta, at = 0, count = 0;
    double *theta = numbers_room(p * sizeof *theta), *other = numbers_room(p * sizeof *other), sum = 0, square = 0;
    sosmc_mlp_init(m, 0.02, 7, theta);
    sosmc_mlp_init(m, 0.02, 8, other);
    assert_true(theta[0] != other[0]);
    for (int l = 1; l <= m->hidden + 1; l++) {
        int in = width_of(m, l - 1), out = l > m->hidden ? 1 : width_of(m, l);
        for (int k = 0; k < in * out; k++, at++, count++) sum += theta[at], square += theta[at] * theta[at];
        for (int k = 0; k < out; k++, at++) assert_true(theta[at] == 0);
    }
    assert_int_equal(at, p);
    assert_true(fabs(sum / (double)count) < 5 * 0.02 / sqrt((double)count));
    assert_true(fabs(square / (double)count / 4e-4 - 1) < 5 * sqrt(2.0 / (double)count));
    sosmc_mlp_init(m, 0.04, 7, other);
    for (size_t k = 0; k < p; k++) assert_true(other[k] == 2 * theta[k]);
    free(theta);
    free(other);
}

/* ------------------------------------------------------------------------------------------------ whole runs */

enum { PARTICLES = 300, ROWS = 200, BATCH = 150 };
static const int run_width[] = {16, 16};
static const double down[2] = {0, -1};
static const sosmc_half_plane lower = {.dim = 2, .normal = down};
static double run_theta[2 * 16 + 16 + 16 * 16 + 16 + 16 + 1], run_data[ROWS * 2];
static const sosmc_rows run_rows = {.data = run_data, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
static const sosmc_mlp run_net = {.inputs = 2, .hidden = 2, .width = run_width, .base_sd = 2, .penalty = 0.3};

static sosmc_problem run_problem(int likelihood)
{
    sosmc_problem p = {.model = sosmc_mlp_model(&run_net), .init = sosmc_standard_normal(), .theta0 = run_theta};
    p.objective = sosmc_reward_reverse(sosmc_half_plane_reward(&lower), 0.25, run_theta);
    if (likelihood) {
        p.objective = sosmc_likelihood(sosmc_rows_source(&run_rows), BATCH);
        p.objective.energy2 = 0.01;
        p.objective.penalty = sosmc_mlp_penalty;
    }
    return p;
}

enum { RUN_ULA, RUN_MALA, RUN_PCD, RUNS };
static sosmc_settings run_settings(int which)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = which == RUN_PCD ? sosmc_scheme_pcd(PARTICLES, 400, 2) : sosmc_scheme_sosmc(PARTICLES);
    cfg.kernel = which == RUN_MALA ? sosmc_mala(0.8) : sosmc_ula(0.01);
    cfg.optimiser = sosmc_adam(0.02);
    cfg.seed = 20;
    return cfg;
}

static uint64_t run_hash(int which, const sosmc_settings *cfg, sosmc_info *info)
{
    sosmc_problem p = run_problem(which == RUN_PCD);
    sosmc *s = NULL;
    if (sosmc_create(&s, &p, cfg) || sosmc_run(s, ITERATIONS, NULL, NULL)) fail_msg("%s", sosmc_message(s));
    uint64_t hash = sosmc_hash(s);
    *info = *sosmc_last(s);
    sosmc_free(s);
    return hash;
}

static int start_runs(void **state)
{
    (void)numbers_start(state);
    sosmc_mlp_init(&run_net, 0.4, 3, run_theta);
    for (int k = 0; k < ROWS * 2; k++) run_data[k] = numbers_uniform(-2, 2);
    return 0;
}

/* 300 particles are three tiles: threads, levels and recomputed instead of parked passes leave no trace. */
static void runs_do_not_depend_on_how(void **state)
{
    for (int which = 0; which < RUNS; which++) {
        sosmc_settings cfg = run_settings(which);
        sosmc_info info;
        uint64_t expect = run_hash(which, &cfg, &info);
        if (which == RUN_MALA) assert_true(info.accept > 0.02 && info.accept < 0.98);
        if (which == RUN_ULA) assert_true(info.ess > 1 && info.ess < PARTICLES);
        FOR_LEVELS(simd)
        {
            cfg.simd = simd;
            for (cfg.threads = 1; cfg.threads <= 3; cfg.threads++) {
                int parked = (cfg.threads + v_) % 2; /* both with every level, and with every number of threads */
                cfg.work_limit = parked ? sosmc_defaults().work_limit : 0;
                if (run_hash(which, &cfg, &info) != expect)
                    fail_msg("run %d, %s, %d threads, %s: another hash", which, level_name[v_], cfg.threads,
                             parked ? "parked" : "recomputed");
            }
        }
        cfg = run_settings(which);
        cfg.seed++;
        assert_true(run_hash(which, &cfg, &info) != expect);
    }
}

/* Energy and penalty of the data, as logged: those of the same rows under the theta before the update. */
static void logged_values_of_the_data(void **state)
{
    sosmc_problem p = run_problem(1);
    sosmc_settings cfg = run_settings(RUN_PCD);
    double theta[sizeof run_theta / sizeof *run_theta], columns[2 * BATCH];
    sosmc *s = NULL;
    assert_int_equal(p.model.dim_theta, sizeof theta / sizeof *theta);
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < 2; j++) columns[j * BATCH + i] = run_data[i * 2 + j];
    const sosmc_batch rows = {.x = columns, .dim = 2, .n = BATCH, .ld = BATCH};
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    for (int k = 0; k < ITERATIONS; k++) {
        double mean = 0, penalty;
        memcpy(theta, sosmc_theta(s), sizeof theta);
        if (sosmc_step(s)) fail_msg("%s", sosmc_message(s));
        for (int i = 0; i < BATCH; i++) mean += plain(&run_net, theta, run_data + (size_t)i * 2, NULL, 0, NULL) / BATCH;
        penalty = plain_penalty(&run_net, theta, &rows) / BATCH;
        if (!(fabs(sosmc_last(s)->data_energy - mean) <= 1e-5 * fmax(1, fabs(mean))))
            fail_msg("data energy %.9g, not %.9g", sosmc_last(s)->data_energy, mean);
        if (!(fabs(sosmc_last(s)->penalty - penalty) <= 1e-5 * penalty))
            fail_msg("penalty %.9g, not %.9g", sosmc_last(s)->penalty, penalty);
    }
    sosmc_free(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, numbers_start)
    const struct CMUnitTest tests[] = {
        TEST(values_match_a_plain_network),
        TEST(activations_over_their_range),
        TEST(gradients_match_differences),
        TEST(penalty_of_a_large_network),
        TEST(penalty_without_a_slope),
        TEST(penalty_of_a_tiny_slope),
        TEST(no_penalty_is_nothing),
        TEST(all_levels_have_the_same_bits),
        TEST(the_next_batch_does_not_matter),
        TEST(place_in_the_tile_does_not_matter),
        TEST(reuse_does_not_matter),
        TEST(padding_does_not_matter),
        TEST(not_a_number_stays_one),
        TEST(far_outside),
        TEST(shapes_that_are_none_are_refused),
        TEST(initial_weights),
        TEST(runs_do_not_depend_on_how),
        TEST(logged_values_of_the_data),
    };
    return cmocka_run_group_tests(tests, start_runs, NULL);
}
