/* leapfrog.c: deterministic dynamics between fresh momenta, weighed instead of accepted (maths.md LEAPFROG):
 *
 *     p ~ N(0, m I),  L leapfrog steps from (x, p) to (x', p'),      log G = U_prev(x) + |p|^2/2m - U(x') - |p'|^2/2m
 *
 * The first half kick takes the cached gradient at the previous theta, all others are at theta: L evaluations. With L = 1
 * this is ULA at step h^2/2m, draw by draw and weight by weight. */
#include "kernel.h"

enum { MOMENTUM, SCRATCH };

static int leapfrog_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *p = sosmc_move_vector(m, MOMENTUM);
    sosmc_i_fresh_momentum(m->rng, k->mass, &m->b, p);
    return sosmc_i_leapfrog(k, m, k->leapfrog, p, m->logG);
}

sosmc_kernel sosmc_leapfrog(double step, int leapfrog, double mass)
{
    return (sosmc_kernel){.name = "leapfrog",
                          .step = leapfrog_step,
                          .check = sosmc_i_check_leapfrog,
                          .h = step,
                          .mass = mass,
                          .leapfrog = leapfrog,
                          .uses_gradient = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_PREVIOUS,
                          .backward_at = SOSMC_AT_CURRENT};
}
