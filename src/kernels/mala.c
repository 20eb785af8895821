/* mala.c: the Metropolis-adjusted Langevin kernel. The log acceptance ratio is the cancelled Langevin ratio of ula.c with
 * both kernels at theta (maths.md MALA-ratio). Leaves pi_theta invariant. */
#include <math.h>

#include "kernel.h"

enum { NOISE, SCRATCH };

static int mala_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_move_vector(m, NOISE), *ratio = sosmc_move_row(k, m, 0);
    sosmc_normals(m->rng, &m->b, z);
    m->b.simd->propose(sosmc_move_length(m), m->x, m->gx, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc) return rc;
    m->b.simd->langevin_ratio(m->b.dim, m->b.n, m->b.ld, m->x, m->x_new, m->gx, m->gx_new, m->h,
                              1 / (k->noise * k->noise), m->U, m->U_new, ratio);
    sosmc_metropolis(k, m, ratio);
    return 0;
}

sosmc_kernel sosmc_mala(double h)
{
    return (sosmc_kernel){.name = "mala",
                          .step = mala_step,
                          .check = sosmc_i_check_noise,
                          .h = h,
                          .noise = 1,
                          .uses_gradient = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
