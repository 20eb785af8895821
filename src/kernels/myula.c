/* myula.c: Langevin moves for a target with a non-smooth part g that has a proximal map (maths.md MYULA):
 *
 *     y = x - h D(x) + sqrt(2h) sigma z,     D(x) = f(x) + (x - prox_{lambda g}(x)) / lambda,
 *
 * where f is the gradient of the smooth part alone (what such a model returns as dU/dx) and U the whole potential. D is the
 * gradient of the smooth part plus that of the Moreau-Yosida envelope of g, so the move does not quite leave pi_theta
 * invariant. Three weightings:
 *
 *     as invariant     the engine's U_prev(x) - U(x): the move counts as if it kept pi_theta. One proximal map.
 *     ratio            both kernels at the new theta. Two proximal maps.
 *     cached           the forward kernel at the previous theta, whose pull x - prox was kept. One proximal map.
 *
 * The last two have the exact weight of ULA with D for the gradient. A particle whose pull was never computed has none
 * (aux is zero at the start): its move is another one, with the density that goes with it. */
#include <math.h>
#include <string.h>

#include "moreau.h"

enum { NOISE, PULL, DRIFT, DRIFT_NEW, SCRATCH };

int sosmc_i_pull(const sosmc_kernel *k, const sosmc_move *m, const double *x, double *pull)
{
    sosmc_batch b = m->b;
    b.x = x;
    b.fresh = 0;
    int rc = m->model->prox(m->model->self, m->theta, k->lambda, &b, pull);
    if (rc) return rc;
    for (size_t e = 0, len = sosmc_move_length(m); e < len; e++) pull[e] = x[e] - pull[e];
    return 0;
}

const char *sosmc_i_check_moreau(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_noise(k, weighted, text, room);
    return wrong ? wrong : sosmc_i_check_positive("kernel.lambda", k->lambda, text, room);
}

void sosmc_i_drift(size_t len, const double *restrict f, const double *restrict pull, double rate,
                   double *restrict drift)
{
    for (size_t e = 0; e < len; e++) drift[e] = f[e] + rate * pull[e];
}

static int myula_step(const sosmc_kernel *k, sosmc_move *m)
{
    const sosmc_simd *v = m->b.simd;
    double *z = sosmc_move_vector(m, NOISE), *pull = sosmc_move_vector(m, PULL);
    double *g0 = sosmc_move_vector(m, DRIFT), *g1 = sosmc_move_vector(m, DRIFT_NEW),
           *unused_U = sosmc_move_row(k, m, 0);
    size_t len = sosmc_move_length(m);
    const double *f = m->gx;
    int cached = k->forward_at == SOSMC_AT_PREVIOUS, rc = 0;
    if (!cached && m->theta_prev != m->theta) {
        rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x, unused_U, g1);
        f = g1;
    }
    if (!cached && !rc) rc = sosmc_i_pull(k, m, m->x, pull);
    if (rc) return rc;
    sosmc_i_drift(len, f, cached ? m->aux : pull, 1 / k->lambda, g0);
    sosmc_normals(m->rng, &m->b, z);
    v->propose(len, m->x, g0, z, m->h, sqrt(2 * m->h) * k->noise, m->x_new);
    if (cached || m->logG) rc = sosmc_i_pull(k, m, m->x_new, pull);
    /* This call is the last one, because what it leaves in work is used afterwards. */
    if (!rc) rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc) return rc;
    if (cached) memcpy(m->aux_new, pull, len * sizeof *pull);
    if (!m->logG) return 0;
    sosmc_i_drift(len, m->gx_new, pull, 1 / k->lambda, g1);
    v->langevin_ratio(m->b.dim, m->b.n, m->b.ld, m->x, m->x_new, g0, g1, m->h, 1 / (k->noise * k->noise), m->U,
                      m->U_new, m->logG);
    return 0;
}

sosmc_kernel sosmc_myula(double h, double lambda, sosmc_myula_weight weight)
{
    return (sosmc_kernel){.name = "myula",
                          .step = myula_step,
                          .check = sosmc_i_check_moreau,
                          .h = h,
                          .noise = 1,
                          .lambda = lambda,
                          .uses_gradient = 1,
                          .uses_prox = 1,
                          .invariant = weight == SOSMC_MYULA_AS_INVARIANT,
                          .aux = weight == SOSMC_MYULA_CACHED,
                          .scratch = SCRATCH,
                          .forward_at = weight == SOSMC_MYULA_CACHED ? SOSMC_AT_PREVIOUS : SOSMC_AT_CURRENT,
                          .backward_at = SOSMC_AT_CURRENT};
}
