/* hamiltonian.c: leapfrog steps, which Hamiltonian Monte Carlo accepts or rejects and others weigh (maths.md LEAPFROG).
 *
 *     p -= h/2 g;  x += h/m p;  p -= h/2 grad U(x);       log ratio = U_prev(x) + |p|^2/2m - U(x') - |p'|^2/2m
 *
 * The inner half kicks of neighbouring steps are one full kick. The first kick uses the gradient that is stored with the
 * particle, whatever theta it belongs to. Invariant: every line changes x or p by a function of the other one, so the map
 * keeps volume and can be undone. `steps` evaluations. */
#include <math.h>

#include "kernel.h"

void sosmc_i_fresh_momentum(sosmc_rng rng, double mass, const sosmc_batch *b, double *p)
{
    double root = sqrt(mass);
    sosmc_normals(rng, b, p);
    for (size_t e = 0, len = (size_t)b->dim * (size_t)b->ld; e < len; e++) p[e] *= root;
}

int sosmc_i_leapfrog(const sosmc_kernel *k, sosmc_move *m, int steps, double *p, double *log_ratio)
{
    const sosmc_simd *v = m->b.simd;
    double *kinetic = sosmc_move_row(k, m, 1), eps = m->h;
    size_t len = sosmc_move_length(m);
    if (log_ratio) v->norm2(m->b.dim, m->b.n, m->b.ld, p, log_ratio);
    for (size_t e = 0; e < len; e++) p[e] -= 0.5 * eps * m->gx[e];
    for (int step = 0; step < steps; step++) {
        const double *from = step ? m->x_new : m->x;
        int last = step == steps - 1;
        for (size_t e = 0; e < len; e++) m->x_new[e] = from[e] + eps / k->mass * p[e];
        int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
        if (rc) return rc;
        for (size_t e = 0; e < len; e++) p[e] -= (last ? 0.5 : 1.0) * eps * m->gx_new[e];
    }
    if (!log_ratio) return 0;
    v->norm2(m->b.dim, m->b.n, m->b.ld, p, kinetic);
    for (int i = 0; i < m->b.n; i++)
        log_ratio[i] = m->U[i] - m->U_new[i] + (log_ratio[i] - kinetic[i]) * (0.5 / k->mass);
    return 0;
}
