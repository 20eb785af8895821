/* rwm.c: random-walk Metropolis, y = x + f sqrt(2h) sigma z, log ratio U(x) - U(y). Leaves pi_theta invariant; no gradient.
 *
 * f is 1, or with a spread S drawn for every particle and step, log f uniform on [-log S, log S] whatever x is: the proposal
 * stays symmetric, and one kernel makes small steps within a mode and jumps to others. */
#include <math.h>

#include "kernel.h"

enum { NOISE, SCRATCH };

/* z times f, particle by particle. */
static void spread_out(const sosmc_kernel *k, const sosmc_move *m, double *z)
{
    double *f = sosmc_move_row(k, m, 1), log_spread;
    sosmc_log(m->b.simd, 1, &k->spread, &log_spread);
    sosmc_uniforms(m->rng, 0, &m->b, f);
    for (int i = 0; i < m->b.n; i++) f[i] = log_spread * (2 * f[i] - 1);
    m->b.simd->exp(m->b.n, f, f);
    for (int j = 0; j < m->b.dim; j++)
        for (int i = 0; i < m->b.n; i++) z[(size_t)j * (size_t)m->b.ld + (size_t)i] *= f[i];
}

static int rwm_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_move_vector(m, NOISE), *ratio = sosmc_move_row(k, m, 0);
    sosmc_normals(m->rng, &m->b, z);
    if (k->spread > 1) spread_out(k, m, z);
    m->b.simd->propose(sosmc_move_length(m), m->x, NULL, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    if (rc) return rc;
    for (int i = 0; i < m->b.n; i++) ratio[i] = m->U[i] - m->U_new[i];
    sosmc_metropolis(k, m, ratio);
    return 0;
}

static const char *rwm_check(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_noise(k, weighted, text, room);
    if (wrong || ((k->spread == 0 || k->spread >= 1) && isfinite(k->spread))) return wrong;
    return sosmc_i_wrong("kernel.spread", k->spread, "it must be at least 1, or 0 for none", text, room);
}

sosmc_kernel sosmc_rwm(double h)
{
    return (sosmc_kernel){.name = "rwm",
                          .step = rwm_step,
                          .check = rwm_check,
                          .h = h,
                          .noise = 1,
                          .spread = 1,
                          .invariant = 1,
                          .metropolis = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
