/* ula.c: the unadjusted Langevin kernel with its exact incremental weight (maths.md ULA-weight):
 *
 *     y = x - h g0 + sqrt(2h) sigma z,     g0 = grad U_prev(x) (cached), g1 = grad U(y) (computed, and cached for next time)
 *     log G = U_prev(x) - U(y) + [ (y-x).(g0+g1)/2 + h/4 (|g0|^2 - |g1|^2) ] / sigma^2
 *
 * The squares of the step cancel on paper. One model evaluation per particle, unless forward_at or backward_at ask for
 * a gradient at the other theta. */
#include <math.h>

#include "kernel.h"

enum { NOISE, OTHER_GRADIENT, SCRATCH };

/* NaN passes through both comparisons unchanged; the engine's finiteness check then reports it. */
static void hold(size_t len, double bound, double *restrict x)
{
    for (size_t j = 0; j < len; j++) x[j] = x[j] > bound ? bound : x[j] < -bound ? -bound : x[j];
}

static int ula_step(const sosmc_kernel *k, sosmc_move *m)
{
    const sosmc_simd *v = m->b.simd;
    double *z = sosmc_move_vector(m, NOISE), *other = sosmc_move_vector(m, OTHER_GRADIENT);
    double *unused_U = sosmc_move_row(k, m, 0);
    const double *g0 = m->gx, *g1 = m->gx_new;
    int moved = m->theta_prev != m->theta, rc = 0;
    if (moved && k->forward_at == SOSMC_AT_CURRENT) {
        rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x, unused_U, other);
        if (rc) return rc;
        g0 = other;
    }
    sosmc_normals(m->rng, &m->b, z);
    v->propose(sosmc_move_length(m), m->x, g0, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    if (k->clamp > 0) hold(sosmc_move_length(m), k->clamp, m->x_new);
    rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc || !m->logG) return rc;
    if (moved && k->backward_at == SOSMC_AT_PREVIOUS) {
        if (g0 == other) { /* the noise is no longer needed, so its memory takes the second gradient */
            rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x_new, unused_U, z);
            g1 = z;
        } else {
            rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x_new, unused_U, other);
            g1 = other;
        }
        if (rc) return rc;
    }
    v->langevin_ratio(m->b.dim, m->b.n, m->b.ld, m->x, m->x_new, g0, g1, m->h, 1 / (k->noise * k->noise), m->U,
                      m->U_new, m->logG);
    return 0;
}

static const char *ula_check(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_noise(k, weighted, text, room);
    if (!wrong) wrong = sosmc_i_check_not_negative("kernel.clamp", k->clamp, text, room);
    if (wrong || !weighted || !(k->clamp > 0)) return wrong;
    return sosmc_i_wrong("kernel.clamp", k->clamp, "a clamped move has no density to weigh with", text, room);
}

sosmc_kernel sosmc_ula(double h)
{
    return (sosmc_kernel){.name = "ula",
                          .step = ula_step,
                          .check = ula_check,
                          .h = h,
                          .noise = 1,
                          .uses_gradient = 1,
                          .scratch = SCRATCH,
                          .forward_at = SOSMC_AT_PREVIOUS,
                          .backward_at = SOSMC_AT_CURRENT};
}

sosmc_kernel sosmc_ula_clamped(double h, double clamp)
{
    sosmc_kernel k = sosmc_ula(h);
    k.name = "clamped ula";
    k.clamp = clamp;
    k.no_weight = 1;
    return k;
}
