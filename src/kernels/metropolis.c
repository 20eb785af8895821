/* metropolis.c: accept or reject, particle by particle: y stays if log u < log ratio, u uniform on (0, 1].
 *
 * A rejected particle gets back everything it had: x, U, gx, aux. A proposal whose energy or ratio is not finite is
 * rejected, which is exact: its density counts as zero. */
#include <math.h>

#include "kernel.h"

size_t sosmc_move_length(const sosmc_move *m)
{
    size_t len = (size_t)m->b.dim * (size_t)m->b.ld;
    return (len + 7) / 8 * 8;
}

double *sosmc_move_vector(const sosmc_move *m, int v) { return m->tmp + (size_t)v * sosmc_move_length(m); }

double *sosmc_move_row(const sosmc_kernel *k, const sosmc_move *m, int row)
{
    size_t ld = m->b.ld == 1 ? 8 : (size_t)m->b.ld;
    return sosmc_move_vector(m, k->scratch) + (size_t)row * ld;
}

static void go_back(const sosmc_kernel *k, sosmc_move *m, int i)
{
    size_t ld = (size_t)m->b.ld, at = (size_t)i;
    for (size_t j = 0; j < (size_t)m->b.dim; j++) {
        m->x_new[j * ld + at] = m->x[j * ld + at];
        if (m->gx_new) m->gx_new[j * ld + at] = m->gx[j * ld + at];
    }
    for (size_t j = 0; j < (size_t)m->b.dim * (size_t)k->aux; j++) m->aux_new[j * ld + at] = m->aux[j * ld + at];
    m->U_new[i] = m->U[i];
}

void sosmc_metropolis(const sosmc_kernel *k, sosmc_move *m, const double *log_ratio)
{
    double *log_u = sosmc_move_row(k, m, 2), *capped = sosmc_move_row(k, m, 3);
    sosmc_rng rng = m->rng;
    rng.stream = SOSMC_STREAM_ACCEPT;
    sosmc_uniforms(rng, 0, &m->b, log_u);
    m->b.simd->log(m->b.n, log_u, log_u);
    for (int i = 0; i < m->b.n; i++)
        capped[i] = isfinite(m->U_new[i]) && log_ratio[i] > -1e300 ? fmin(log_ratio[i], 0) : -1e300;
    m->b.simd->exp(m->b.n, capped, m->accept);
    for (int i = 0; i < m->b.n; i++)
        if (!(log_u[i] < log_ratio[i]) || capped[i] == -1e300) go_back(k, m, i);
}
