/* mlp.c: a multi-layer perceptron as an energy (maths.md MLP). The arithmetic on particles is in mlp_vec.c, in float; here
 * is what happens once per theta: theta is rounded to float and packed in the two orders the products read. */
#include "base/arithmetic.h"
#include "mlp.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/table.h"

extern const mlp_code sosmc_i_mlp_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const mlp_code sosmc_i_mlp_avx2, sosmc_i_mlp_avx512;
#endif

static const mlp_code *code_for(const sosmc_batch *b) { return SIMD_CHOOSE(b->simd, sosmc_i_mlp); }

static int valid(const sosmc_mlp *m)
{
    if (!m->width || m->inputs < 1 || m->hidden < 1 || m->hidden > MLP_MOST_HIDDEN) return 0;
    for (int l = 0; l < m->hidden; l++)
        if (m->width[l] < 1 || m->width[l] > 1 << 14) return 0;
    return m->inputs <= 1 << 14 && m->activation >= SOSMC_SILU && m->activation <= SOSMC_TANH && m->base_sd >= 0;
}

void sosmc_i_mlp_shape(const sosmc_mlp *m, mlp_shape *s)
{
    size_t at = 0, prep = 0, work = 0;
    s->hidden = m->hidden;
    for (int l = 0; l <= m->hidden; l++) {
        s->width[l] = l ? m->width[l - 1] : m->inputs;
        s->padded[l] = (s->width[l] + PANEL - 1) / PANEL * PANEL;
    }
    for (int l = 1; l <= m->hidden; l++) {
        size_t in = (size_t)s->width[l - 1], out = (size_t)s->width[l];
        s->weight[l] = at;
        s->bias[l] = at + in * out;
        at = s->bias[l] + out;
        s->forward[l] = prep;
        s->backward[l] = s->forward[l] + (size_t)s->padded[l] * in;
        s->shift[l] = s->backward[l] + (size_t)s->padded[l - 1] * out;
        prep = s->shift[l] + (size_t)s->padded[l];
    }
    s->weight[m->hidden + 1] = at;
    s->bias[m->hidden + 1] = at + (size_t)s->width[m->hidden];
    s->parameters = s->bias[m->hidden + 1] + 1;
    s->out = prep;
    s->out_shift = prep + (size_t)s->padded[m->hidden];
    s->prep = s->out_shift + PANEL;
    for (int l = 0; l <= m->hidden; l++) {
        size_t wide = (size_t)s->padded[l];
        s->h[l] = work;
        s->d[l] = work + wide;
        work += 2 * wide;
    }
    s->t[0] = s->c[0] = 0;
    for (int l = 1; m->penalty > 0 && l <= m->hidden; l++) {
        size_t wide = (size_t)s->padded[l];
        s->t[l] = work;
        s->c[l] = work + wide;
        work += 2 * wide;
    }
    s->work = work;
}

/* ---------------------------------------------------------------------------- once per theta */

/* Panels over `outer` units, each inner rows of 16; number (o, k) of the matrix is at o * by_outer + k * by_inner. */
static void pack(const double *matrix, int outer, int inner, size_t by_outer, size_t by_inner, float *to)
{
    for (int p = 0; p < outer; p += PANEL)
        for (int k = 0; k < inner; k++)
            for (int c = 0; c < PANEL; c++, to++)
                *to = p + c < outer ? (float)matrix[(size_t)(p + c) * by_outer + (size_t)k * by_inner] : 0;
}

static int prepare(const void *self, const double *theta, void *prep)
{
    mlp_shape s;
    float *to = prep;
    sosmc_i_mlp_shape(self, &s);
    for (int l = 1; l <= s.hidden; l++) {
        int in = s.width[l - 1], out = s.width[l];
        pack(theta + s.weight[l], out, in, (size_t)in, 1, to + s.forward[l]);
        pack(theta + s.weight[l], in, out, 1, (size_t)in, to + s.backward[l]);
        pack(theta + s.bias[l], out, 1, 1, 1, to + s.shift[l]);
    }
    pack(theta + s.weight[s.hidden + 1], s.width[s.hidden], 1, 1, 1, to + s.out);
    pack(theta + s.bias[s.hidden + 1], 1, 1, 1, 1, to + s.out_shift);
    return 0;
}

/* ---------------------------------------------------------------------------- per batch */

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    mlp_shape s;
    sosmc_i_mlp_shape(self, &s);
    code_for(b)->energy(self, &s, b, U, gx);
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    mlp_shape s;
    sosmc_i_mlp_shape(self, &s);
    code_for(b)->contract(self, &s, b, c, g);
    return 0;
}

int sosmc_mlp_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                      double *value)
{
    const sosmc_mlp *m = self;
    mlp_shape s;
    if (!(m->penalty > 0)) return 0;
    sosmc_i_mlp_shape(m, &s);
    code_for(y)->penalty(m, &s, y, weight, g, value);
    return 0;
}

sosmc_model sosmc_mlp_model(const sosmc_mlp *mlp)
{
    mlp_shape s;
    sosmc_model model = {.self = mlp, .prepare = prepare, .energy = energy, .grad_theta = grad_theta};
    if (!valid(mlp)) return model; /* dim_x 0: sosmc_create says that it must be positive */
    sosmc_i_mlp_shape(mlp, &s);
    if (s.parameters > INT_MAX) return model;
    model.dim_x = mlp->inputs;
    model.dim_theta = (int)s.parameters;
    model.prep = s.prep * sizeof(float);
    model.work = s.work * sizeof(float);
    model.tile = MLP_TILE;
    model.rounding = FLT_EPSILON;
    return model;
}

void sosmc_mlp_init(const sosmc_mlp *mlp, double sd, uint64_t seed, double *theta)
{
    STANDARD_ARITHMETIC;
    mlp_shape s;
    enum { AT_ONCE = 1024 };
    double z[AT_ONCE];
    sosmc_i_mlp_shape(mlp, &s);
    memset(theta, 0, s.parameters * sizeof *theta);
    for (int l = 1; l <= s.hidden + 1; l++) /* number i of all parameters is draw i, whether weight or bias */
        for (size_t from = s.weight[l]; from < s.bias[l]; from += AT_ONCE) {
            size_t left = s.bias[l] - from;
            sosmc_batch b = {
                .dim = 1, .n = left < AT_ONCE ? (int)left : AT_ONCE, .ld = AT_ONCE, .first = (int64_t)from};
            sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_NETWORK}, &b, z);
            for (int i = 0; i < b.n; i++) theta[from + (size_t)i] = sd * z[i];
        }
}
