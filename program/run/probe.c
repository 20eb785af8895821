/* probe.c: a model at one theta, with a few particles and the memory to evaluate it there. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

/* Aligned to 64 bytes, and at least that many. */
static void *aligned(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

int probe_open(probe *p, const job *j)
{
    const sosmc_model *m = &j->problem.model;
    size_t dim = (size_t)m->dim_x, most = dim > (size_t)m->dim_theta ? dim : (size_t)m->dim_theta;
    *p = (probe){.model = m};
    p->theta = calloc((size_t)m->dim_theta, sizeof(double));
    p->x = aligned(dim * PROBE_PARTICLES * sizeof(double));
    p->U = aligned(PROBE_PARTICLES * sizeof(double));
    p->g = aligned(most * PROBE_PARTICLES * sizeof(double));
    p->v = aligned(most * PROBE_PARTICLES * sizeof(double));
    p->work = aligned(m->work * PROBE_PARTICLES);
    p->prep = aligned(m->prep);
    if (!p->theta || !p->x || !p->U || !p->g || !p->v || !p->work || !p->prep) return -1;
    p->b = (sosmc_batch){.x = p->x,
                         .prep = p->prep,
                         .work = p->work,
                         .simd = sosmc_simd_best(),
                         .dim = m->dim_x,
                         .n = PROBE_PARTICLES,
                         .ld = PROBE_PARTICLES};
    if (j->problem.theta0) memcpy(p->theta, j->problem.theta0, (size_t)m->dim_theta * sizeof(double));
    return j->problem.init.draw(j->problem.init.self, (sosmc_rng){.seed = j->settings.seed}, &p->b, p->x);
}

void probe_close(probe *p)
{
    free(p->theta);
    free(p->x);
    free(p->U);
    free(p->g);
    free(p->v);
    free(p->work);
    free(p->prep);
}

double probe_energy(probe *p, double *gx, int *failed)
{
    double sum = 0;
    if (p->model->prepare && p->model->prepare(p->model->self, p->theta, p->prep)) *failed = 1;
    p->b.fresh = 0;
    if (p->model->energy(p->model->self, p->theta, &p->b, p->U, gx)) *failed = 1;
    for (int i = 0; i < PROBE_PARTICLES; i++) sum += p->U[i];
    return sum;
}
