/* langevin_cells.h: one run of the Langevin experiment, as the published programs run it. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_CELLS_H
#define SOSMC_LANGEVIN_LANGEVIN_CELLS_H

#include "langevin_exact.h"

typedef enum { IMPDIFF, SOUL, SOSMC_ULA, SOSMC_MALA, SOSMC_RWM, SOSMC_HMC, LANGEVIN_METHODS } langevin_method;
extern const char *const langevin_method_names[LANGEVIN_METHODS];

enum { LANGEVIN_POINTS = 250 }; /* of a curve */

typedef struct {
    const langevin_setting *setting;
    langevin_method method;
    int adam; /* else SGD */
    double beta;
    int particles, reference, iterations, threads;
    double budget_seconds; /* 0: all iterations */
    double step;           /* initial kernel step; 0: the published 0.1 */
    int feedback;          /* reversible kernels: rate follows the ESS, step the acceptance */
    uint64_t seed;
} langevin_run;

typedef struct {
    double reward;  /* as logged last: weighted, before resampling */
    double seconds; /* of the iterations alone */
    int iterations; /* done; with a budget, those that ended before it */
    int reached;    /* the first iteration whose reward was within 1% of the optimum; -1: none */
    double reached_seconds;
    int points;
    double at[LANGEVIN_POINTS], curve_reward[LANGEVIN_POINTS], curve_density[LANGEVIN_POINTS],
        curve_seconds[LANGEVIN_POINTS];
} langevin_result;

/* 0, or -1 with a sentence. `optimum` is what `reached` is measured against (NaN: not measured). */
int langevin_execute(const langevin_run *run, double optimum, langevin_result *out, char *error, size_t room);

/* The published weighted scheme: the authors' order, multinomial resampling below 0.9 N. */
sosmc_scheme langevin_scheme(int particles);
/* The published adaptation of a method, or the one with feedback: the rate follows the ESS, the step the acceptance. */
void langevin_adapt(langevin_method method, int feedback, sosmc_adapt adapt[2]);
double langevin_acceptance(langevin_method method); /* the acceptance that feedback aims at */

/* A step at which one ULA move at fixed theta leaves an ESS of 95% of the particles, found before the first iteration. */
double langevin_safe_step(const langevin_run *run);

#endif
