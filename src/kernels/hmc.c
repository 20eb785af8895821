/* hmc.c: Hamiltonian Monte Carlo with fresh momentum p ~ N(0, m I), L leapfrog steps of size h (maths.md HMC).
 *
 *     p -= h/2 grad U(x);  x += h/m p;  p -= h/2 grad U(x);       log ratio = U(x) + |p|^2/2m - U(x') - |p'|^2/2m
 *
 * The inner half kicks of neighbouring steps are one full kick. With L = 1 this is MALA at step h^2/2m, draw by draw.
 * Leaves pi_theta invariant; momentum is refreshed at the next move, so the final flip is not needed. */
#include <math.h>

#include "langevin.h"

enum { MOMENTUM, SCRATCH };

static int hmc_step(const sosmc_kernel *k, sosmc_move *m)
{
    const sosmc_simd *v = m->b.simd;
    double *p = sosmc_i_vector(k, m, MOMENTUM), *ratio = sosmc_i_row(k, m, 0), *kinetic = sosmc_i_row(k, m, 1);
    size_t len = sosmc_i_vector_length(m);
    double eps = m->h, root = sqrt(k->mass);
    sosmc_normals(m->rng, &m->b, p);
    for (size_t e = 0; e < len; e++) p[e] *= root;
    v->norm2(m->b.dim, m->b.n, m->b.ld, p, ratio);
    for (size_t e = 0; e < len; e++) p[e] -= 0.5 * eps * m->gx[e];
    for (int step = 0; step < k->leapfrog; step++) {
        const double *from = step ? m->x_new : m->x;
        int last = step == k->leapfrog - 1;
        for (size_t e = 0; e < len; e++) m->x_new[e] = from[e] + eps / k->mass * p[e];
        int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
        if (rc) return rc;
        for (size_t e = 0; e < len; e++) p[e] -= (last ? 0.5 : 1.0) * eps * m->gx_new[e];
    }
    v->norm2(m->b.dim, m->b.n, m->b.ld, p, kinetic);
    for (int i = 0; i < m->b.n; i++) ratio[i] = m->U[i] - m->U_new[i] + (ratio[i] - kinetic[i]) * (0.5 / k->mass);
    sosmc_i_accept(k, m, ratio);
    return 0;
}

sosmc_kernel sosmc_hmc(double step, int leapfrog, double mass)
{
    return (sosmc_kernel){.name = "hmc",
                          .step = hmc_step,
                          .h = step,
                          .noise = 1,
                          .mass = mass,
                          .leapfrog = leapfrog,
                          .uses_gradient = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
