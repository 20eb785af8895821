/* evaluate.c: the model on a tile, under the theta a kernel asks for. */
#include "kernel.h"

int sosmc_evaluate(const sosmc_move *m, sosmc_theta_choice at, const double *x, double *U, double *gx)
{
    sosmc_batch b = m->b;
    b.x = x;
    b.fresh = 0;
    if (at == SOSMC_AT_PREVIOUS) b.prep = m->prep_prev;
    int rc = m->model->energy(m->model->self, at == SOSMC_AT_PREVIOUS ? m->theta_prev : m->theta, &b, U, gx);
    if (rc && m->energy_code) *m->energy_code = rc;
    return rc;
}
