/* probe.h: a model at the theta where a problem starts, with a few of its initial particles. */
#ifndef SOSMC_ANALYSIS_PROBE_H
#define SOSMC_ANALYSIS_PROBE_H

#include "base/bounds.h"
#include "host.h"

enum { PROBE_PARTICLES = 8 };

typedef struct {
    host h;
    sosmc_problem problem; /* as an engine would have it (base/bounds.h) */
    bounded bounds;
    const sosmc_model *model;
    double *theta; /* dim_theta numbers, which the caller may change */
    double *x, *U; /* of the particles: dim_x rows of PROBE_PARTICLES; PROBE_PARTICLES */
    double *g, *v; /* room for the caller: as much as x, and at least dim_theta */
    sosmc_batch b;
} probe;

/* Borrows the problem's model until sosmc_i_probe_close. On failure there is nothing to close. SOSMC_EMODEL: the particles could
 * not be drawn. */
sosmc_status sosmc_i_probe_open(probe *p, const sosmc_problem *problem, uint64_t seed);
void sosmc_i_probe_close(probe *p);

/* Of dU/dx, where the kernel uses it, or of grad_theta, at the start of the problem (check.c): differences of the energy over the
 * claimed derivative, of a wrong one where there is one. It is wrong where *ratio is further than *error from 1; NaN: not known.
 * SOSMC_EMODEL: a callback failed. */
sosmc_status sosmc_i_check_gradients(const sosmc_problem *problem, const sosmc_settings *settings, double *ratio,
                                     double *error, const char **which);

/* sum_i U_theta(x_i), with the x-gradient when gx is not NULL; sets *failed when a callback fails. */
double sosmc_i_probe_energy(probe *p, double *gx, int *failed);

#endif
