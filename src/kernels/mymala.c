/* mymala.c: the Moreau-Yosida Langevin move with a Metropolis test (maths.md MYMALA). The proposal is that of myula.c, both
 * ways at theta; the test is that of mala.c with the drift D for the gradient and the whole potential U, its non-smooth part
 * included.
 *
 * Invariant: pi_theta stays as it is, exactly, whatever the proximal map is: a wrong one lowers the acceptance rate and
 * changes nothing else. */
#include <math.h>

#include "moreau.h"

enum { NOISE, PULL, DRIFT, DRIFT_NEW, SCRATCH };

static int mymala_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_move_vector(m, NOISE), *pull = sosmc_move_vector(m, PULL), *ratio = sosmc_move_row(k, m, 0);
    double *g0 = sosmc_move_vector(m, DRIFT), *g1 = sosmc_move_vector(m, DRIFT_NEW);
    size_t len = sosmc_move_length(m);
    int rc = sosmc_i_pull(k, m, m->x, pull);
    if (rc) return rc;
    sosmc_i_drift(len, m->gx, pull, 1 / k->lambda, g0);
    sosmc_normals(m->rng, &m->b, z);
    m->b.simd->propose(len, m->x, g0, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    rc = sosmc_i_pull(k, m, m->x_new, pull);
    if (!rc) rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc) return rc;
    sosmc_i_drift(len, m->gx_new, pull, 1 / k->lambda, g1);
    m->b.simd->langevin_ratio(m->b.dim, m->b.n, m->b.ld, m->x, m->x_new, g0, g1, m->h, 1 / (k->noise * k->noise), m->U,
                              m->U_new, ratio);
    sosmc_metropolis(k, m, ratio);
    return 0;
}

sosmc_kernel sosmc_mymala(double h, double lambda)
{
    return (sosmc_kernel){.name = "mymala",
                          .step = mymala_step,
                          .check = sosmc_i_check_moreau,
                          .h = h,
                          .noise = 1,
                          .lambda = lambda,
                          .uses_gradient = 1,
                          .uses_prox = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
