/* jitter.c: the sampler with which energies of pictures are trained (maths.md JITTER). With clip_a = held to [-a, a]:
 *
 *     y = clip_clamp(x + noise z),     x' = clip_clamp(y - step clip_gradient_clip(grad U(y)))
 *
 * The noise is added first, and the gradient is taken at the resulting point: U and its gradient at x' are not known, so the
 * kernel is blind (sosmc_kernel.blind) and a sweep costs one model evaluation. It has no density and leaves nothing
 * invariant. */
#include <math.h>

#include "kernel.h"

enum { NOISE, SCRATCH };

/* NaN passes through both comparisons unchanged; the engine's finiteness check then reports it. */
static inline double held(double x, double bound) { return x > bound ? bound : x < -bound ? -bound : x; }

static double bound_of(double setting) { return setting > 0 ? setting : (double)INFINITY; }

static int jitter_step(const sosmc_kernel *k, sosmc_move *m)
{
    size_t len = sosmc_move_length(m);
    double *restrict noise_then_gradient = sosmc_move_vector(m, NOISE), *restrict x = m->x_new;
    double step = m->h, clamp = bound_of(k->clamp), clip = bound_of(k->gradient_clip);
    sosmc_normals(m->rng, &m->b, noise_then_gradient);
    m->b.simd->propose(len, m->x, NULL, noise_then_gradient, 0, k->noise, x);
    for (size_t e = 0; e < len; e++) x[e] = held(x[e], clamp);
    int rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, x, sosmc_move_row(k, m, 0), noise_then_gradient);
    if (rc) return rc;
    for (size_t e = 0; e < len; e++) x[e] = held(x[e] - step * held(noise_then_gradient[e], clip), clamp);
    return 0;
}

static const char *jitter_check(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_noise(k, weighted, text, room);
    if (!wrong) wrong = sosmc_i_check_not_negative("kernel.clamp", k->clamp, text, room);
    return wrong ? wrong : sosmc_i_check_not_negative("kernel.gradient_clip", k->gradient_clip, text, room);
}

sosmc_kernel sosmc_jitter(double step, double noise, double clamp, double gradient_clip)
{
    return (sosmc_kernel){.name = "jitter",
                          .step = jitter_step,
                          .check = jitter_check,
                          .h = step,
                          .noise = noise,
                          .clamp = clamp,
                          .gradient_clip = gradient_clip,
                          .no_weight = 1,
                          .blind = 1,
                          .scratch = SCRATCH};
}
