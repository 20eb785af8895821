/* mixture.c: the Gaussian mixture as a model and as a source of exact draws (maths.md GMM). The arithmetic on particles
 * is in mixture_vec.c; here is what happens once per theta or once per batch.
 *
 * Invariant: softmax weights come from the library's own exp and log, so they have the same bits everywhere, and
 * log v_j is theta_j - max - log(sum), never the logarithm of a v_j that may have underflowed. */
#include "base/arithmetic.h"
#include "mixture.h"

#include <math.h>

#include "base/table.h"

extern const mixture_code sosmc_i_mixture_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const mixture_code sosmc_i_mixture_avx2, sosmc_i_mixture_avx512;
#endif

static const mixture_code *code_for(const sosmc_batch *b) { return SIMD_CHOOSE(b->simd, sosmc_i_mixture); }

/* log sum_j exp(theta_j - top), where top is the largest theta_j. */
static double softmax_shift(int components, const double *theta, double *top)
{
    enum { PIECE = 64 };
    double e[PIECE], sum = 0.0;
    *top = theta[0];
    for (int j = 1; j < components; j++) *top = theta[j] > *top ? theta[j] : *top;
    for (int j = 0, piece; j < components; j += piece) {
        piece = components - j < PIECE ? components - j : PIECE;
        for (int l = 0; l < piece; l++) e[l] = theta[j + l] - *top;
        sosmc_exp(NULL, piece, e, e);
        for (int l = 0; l < piece; l++) sum += e[l];
    }
    return sosmc_i_log1(NULL, sum);
}

/* prep: components of log v_j, then components of v_j, then components of 1 / theta_j where theta are probabilities */
static int prepare(const void *self, const double *theta, void *prep)
{
    const sosmc_mixture *m = self;
    double *logv = prep, *v = logv + m->components, top;
    for (int j = 0; m->probabilities && j < m->components; j++) {
        if (!(theta[j] > 0)) return 1;
        v[m->components + j] = 1 / theta[j];
    }
    if (m->probabilities) {
        sosmc_log(NULL, m->components, theta, v);
        theta = v;
    }
    double logsum = softmax_shift(m->components, theta, &top);
    for (int j = 0; j < m->components; j++) logv[j] = (theta[j] - top) - logsum;
    sosmc_exp(NULL, m->components, logv, v);
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    code_for(b)->energy(self, b->prep, b, U, gx);
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    code_for(b)->contract(self, b->prep, b, c, g);
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const sosmc_mixture *m = self;
    const double *per = (const double *)b->prep + 2 * (size_t)m->components;
    code_for(b)->scores(m, b->prep, b, D);
    for (size_t j = 0; m->probabilities && j < (size_t)m->components; j++)
        for (int i = 0; i < b->n; i++) D[j * (size_t)b->ld + (size_t)i] *= per[j];
    return 0;
}

/* The largest power of two up to 256 for which a step's rows (two positions, two gradients, noise, a few scalars and
 * the parked p_j) stay within a 48 KB first-level cache. */
static int tile_for(int dim, int components)
{
    int tile = 256;
    while (tile > 16 && ((int64_t)5 * dim + components + 4) * tile * (int64_t)sizeof(double) > 48 * 1024) tile /= 2;
    return tile;
}

sosmc_model sosmc_mixture_model(const sosmc_mixture *mixture)
{
    size_t components = mixture->components > 0 ? (size_t)mixture->components : 0;
    sosmc_model model = {
        .self = mixture, .prepare = prepare, .energy = energy, .grad_theta = grad_theta, .scores = scores};
    model.dim_x = mixture->dim;
    model.dim_theta = mixture->components;
    model.work = components * sizeof(double);
    model.prep = (mixture->probabilities ? 3 : 2) * components * sizeof(double);
    model.tile = tile_for(mixture->dim, mixture->components);
    return model;
}

double sosmc_mixture_logz(const sosmc_mixture *mixture)
{
    STANDARD_ARITHMETIC;
    const double two_pi = 6.283185307179586;
    return 0.5 * mixture->dim * sosmc_i_log1(NULL, two_pi * mixture->variance);
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    enum { BLOCK = 256 };
    const sosmc_mixture_law *law = self;
    const sosmc_simd *simd = sosmc_i_simd(b->simd);
    double u[BLOCK];
    simd->normals(rng, b->first, b->dim, b->n, b->ld, x);
    for (int i = 0; i < b->n; i += BLOCK) {
        int count = b->n - i < BLOCK ? b->n - i : BLOCK;
        simd->uniforms(rng, 0, b->first + i, count, u);
        code_for(b)->place(law->mixture, law->theta, count, b->ld, u, x + i);
    }
    return 0;
}

/* -U of the unnormalised weights e^theta, without eps and without a gradient, then the constants. */
static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const sosmc_mixture_law *law = self;
    sosmc_mixture m = *law->mixture;
    double top, constant;
    m.eps = 0.0;
    code_for(b)->energy(&m, law->theta, b, lq, NULL);
    constant = softmax_shift(m.components, law->theta, &top);
    constant = (top + constant) + sosmc_mixture_logz(&m);
    for (int i = 0; i < b->n; i++) lq[i] = -lq[i] - constant;
    return 0;
}

sosmc_source sosmc_mixture_source(const sosmc_mixture_law *law)
{
    return (sosmc_source){.self = law, .draw = draw, .logpdf = logpdf};
}
