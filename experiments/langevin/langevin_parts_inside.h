/* langevin_parts_inside.h: what the parts of the rest of the Langevin page share: what they are asked for, and sets of runs.
 *
 * Functions that return int are 0 for success; otherwise the sentence is in parts.error. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_PARTS_INSIDE_H
#define SOSMC_LANGEVIN_LANGEVIN_PARTS_INSIDE_H

#include "common/claims.h"
#include "common/experiment.h"
#include "langevin_parts.h"
#include "view/plot.h"

enum { A, B, C, D }; /* the settings */
enum { PLANE = 2, MODES = LANGEVIN_MAX };
enum { RWM, MALA, KERNELS }; /* those that leave the target invariant */
static const langevin_method langevin_kernels[KERNELS] = {SOSMC_RWM, SOSMC_MALA};

typedef struct {
    const reproduce_options *o;
    const langevin_setting *setting; /* LANGEVIN_SETTINGS of them */
    int particles, seeds, threads;
    double scale; /* of the number of iterations */
    const experiment_page *x;
    page *page; /* of x, as what follows */
    char *error;
    size_t room;
} parts;

int langevin_iterations(const parts *e, int setting);

typedef struct {
    double mean, half; /* 1.96 standard errors */
} summary;
summary langevin_summarise(const double *v, int n);

typedef struct {
    langevin_run run;
    double optimum; /* what `reached` is measured against */
    langevin_result end;
} task;

/* Several tasks, zero-initialised, which the caller frees. NULL: no memory, and the sentence is in parts.error. */
task *langevin_tasks(const parts *e, int n);
/* The published weighted run of a setting by ULA, MALA or RWM: Adam without divergence term. */
task langevin_published(const parts *e, int setting, langevin_method method, int iterations, int seed);
int langevin_run_tasks(const parts *e, task *t, int n); /* in parallel */
/* The largest reward of a component, which is the optimum at beta = 0. */
double langevin_best_component(const langevin_setting *s);

/* The parts of the page. */
int langevin_single_run(const parts *e); /* langevin_single.c */
int langevin_claims(const parts *e);     /* langevin_claims.c */

#endif
