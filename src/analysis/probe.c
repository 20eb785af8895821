/* probe.c: a model at one theta, with a few particles and the memory to evaluate it there. */
#include "probe.h"

#include <string.h>

sosmc_status sosmc_i_probe_open(probe *p, const sosmc_problem *problem, uint64_t seed)
{
    char text[SOSMC_CHECK_SENTENCE];
    *p = (probe){.problem = *problem, .model = &p->problem.model};
    if (sosmc_i_bound(&p->bounds, &p->problem, 0, text, sizeof text)) return SOSMC_EINVAL;
    const sosmc_model *m = p->model;
    problem = &p->problem;
    size_t nx = (size_t)m->dim_x * PROBE_PARTICLES, nt = (size_t)m->dim_theta, most = nx > nt ? nx : nt;
    sosmc_i_host_shape(&p->h, m, PROBE_PARTICLES, PROBE_PARTICLES);
    size_t vectors = (most + p->h.vector - 1) / p->h.vector, length = vectors * p->h.vector;
    sosmc_status status = sosmc_i_host_open(&p->h, NULL, 4 * vectors, 1); /* x, g, v, theta; U */
    if (status != SOSMC_OK) return status;
    p->x = host_room(&p->h, 0);
    p->g = p->x + length;
    p->v = p->g + length;
    p->theta = p->v + length;
    p->U = p->theta + length;
    p->b = sosmc_i_host_batch(&p->h, 0, 0, PROBE_PARTICLES);
    if (problem->theta0) memcpy(p->theta, problem->theta0, nt * sizeof(double)); /* else zeros */
    sosmc_source init = problem->init.draw ? problem->init : sosmc_standard_normal();
    if (init.draw(init.self, (sosmc_rng){.seed = seed}, &p->b, p->x)) status = SOSMC_EMODEL;
    if (status != SOSMC_OK) sosmc_i_probe_close(p);
    return status;
}

void sosmc_i_probe_close(probe *p) { sosmc_i_host_close(&p->h); }

double sosmc_i_probe_energy(probe *p, double *gx, int *failed)
{
    double sum = 0;
    if (sosmc_i_host_move(&p->h, p->theta) != SOSMC_OK) *failed = 1;
    if (p->model->energy(p->model->self, p->theta, &p->b, p->U, gx)) *failed = 1;
    for (int i = 0; i < PROBE_PARTICLES; i++) sum += p->U[i];
    return sum;
}
