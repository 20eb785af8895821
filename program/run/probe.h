/* probe.h: a model at the theta where a job starts, with a few of its initial particles and the memory to evaluate it there. */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include "runfile/problem.h"

enum { PROBE_PARTICLES = 8 };

typedef struct {
    const sosmc_model *model;
    double *theta; /* dim_theta */
    double *x, *U; /* of the particles: dim_x rows of PROBE_PARTICLES; PROBE_PARTICLES */
    double *g, *v; /* room for the caller: as much as x, and at least dim_theta */
    void *work, *prep;
    sosmc_batch b;
} probe;

/* Borrows *j until probe_close, which is to be called in any case. -1: no memory, or the particles could not be drawn. */
int probe_open(probe *p, const job *j);
void probe_close(probe *p);

/* sum_i U_theta(x_i), with the x-gradient when gx is not NULL; sets *failed when a callback fails. */
double probe_energy(probe *p, double *gx, int *failed);

#endif
