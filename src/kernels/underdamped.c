/* underdamped.c: underdamped Langevin as O-B-A-B-O with its exact incremental weight (maths.md UNDERDAMPED):
 *
 *     p+ = c p + sqrt((1 - c^2) m) z,     c = exp(-friction h / 2)
 *     p = p+ - h/2 grad U_prev(x);  x' = x + h/m p;  p- = p - h/2 grad U(x')
 *     p' = c p- + sqrt((1 - c^2) m) z'
 *     log G = U_prev(x) + |p+|^2/2m - U(x') - |p-|^2/2m
 *
 * The momentum is the particle's aux: N(0, m I) where the particle begins, and with it wherever it goes. z has the names of
 * every other kernel's noise, so that with c = 0 (infinite friction) the step is that of ULA at h^2/2m, draw by draw. One
 * evaluation. */
#include <math.h>

#include "kernel.h"

enum { NOISE, SCRATCH };

/* Half an Ornstein-Uhlenbeck step, which leaves N(0, m I) invariant. */
static void half_refresh(const sosmc_kernel *k, const sosmc_move *m, sosmc_stream stream, const double *from,
                         double *to)
{
    double *z = sosmc_move_vector(m, NOISE);
    double c = fmin(sosmc_i_exp1(m->b.simd, -0.5 * k->friction * m->h), 1), scale = sqrt((1 - c) * (1 + c) * k->mass);
    sosmc_rng rng = m->rng;
    rng.stream = stream;
    sosmc_normals(rng, &m->b, z);
    for (size_t e = 0, len = sosmc_move_length(m); e < len; e++) to[e] = c * from[e] + scale * z[e];
}

static int underdamped_step(const sosmc_kernel *k, sosmc_move *m)
{
    half_refresh(k, m, SOSMC_STREAM_MOVE, m->aux, m->aux_new);
    int rc = sosmc_i_leapfrog(k, m, 1, m->aux_new, m->logG);
    if (rc) return rc;
    half_refresh(k, m, SOSMC_STREAM_MOMENTUM, m->aux_new, m->aux_new);
    return 0;
}

static int underdamped_begin(const sosmc_kernel *k, sosmc_rng rng, const sosmc_batch *b, double *aux)
{
    sosmc_i_fresh_momentum(rng, k->mass, b, aux);
    return 0;
}

static const char *underdamped_check(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_positive("kernel.mass", k->mass, text, room);
    return wrong ? wrong : sosmc_i_check_not_negative("kernel.friction", k->friction, text, room);
}

sosmc_kernel sosmc_underdamped(double step, double friction, double mass)
{
    return (sosmc_kernel){.name = "underdamped",
                          .step = underdamped_step,
                          .check = underdamped_check,
                          .begin = underdamped_begin,
                          .h = step,
                          .mass = mass,
                          .friction = friction,
                          .uses_gradient = 1,
                          .aux = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_PREVIOUS,
                          .backward_at = SOSMC_AT_CURRENT};
}
