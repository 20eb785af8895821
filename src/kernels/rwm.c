/* rwm.c: random-walk Metropolis, y = x + sqrt(2h) sigma z, log ratio U(x) - U(y). Leaves pi_theta invariant; no gradient. */
#include <math.h>

#include "langevin.h"

enum { NOISE, SCRATCH };

static int rwm_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_i_vector(k, m, NOISE), *ratio = sosmc_i_row(k, m, 0);
    sosmc_normals(m->rng, &m->b, z);
    m->b.simd->propose(sosmc_i_vector_length(m), m->x, NULL, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    if (rc) return rc;
    for (int i = 0; i < m->b.n; i++) ratio[i] = m->U[i] - m->U_new[i];
    sosmc_i_accept(k, m, ratio);
    return 0;
}

sosmc_kernel sosmc_rwm(double h)
{
    return (sosmc_kernel){.name = "rwm",
                          .step = rwm_step,
                          .h = h,
                          .noise = 1,
                          .mass = 1,
                          .leapfrog = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
