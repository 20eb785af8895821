/* hmc.c: Hamiltonian Monte Carlo with fresh momentum p ~ N(0, m I), L leapfrog steps of size h (maths.md HMC) and a
 * Metropolis decision on the change of the total energy. With L = 1 this is MALA at step h^2/2m, draw by draw. Leaves
 * pi_theta invariant; momentum is refreshed at the next move, so the final flip is not needed. */
#include "kernel.h"

enum { MOMENTUM, SCRATCH };

static int hmc_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *p = sosmc_move_vector(m, MOMENTUM), *ratio = sosmc_move_row(k, m, 0);
    sosmc_i_fresh_momentum(m->rng, k->mass, &m->b, p);
    int rc = sosmc_i_leapfrog(k, m, k->leapfrog, p, ratio);
    if (rc) return rc;
    sosmc_metropolis(k, m, ratio);
    return 0;
}

sosmc_kernel sosmc_hmc(double step, int leapfrog, double mass)
{
    return (sosmc_kernel){.name = "hmc",
                          .step = hmc_step,
                          .check = sosmc_i_check_leapfrog,
                          .h = step,
                          .mass = mass,
                          .leapfrog = leapfrog,
                          .uses_gradient = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
