/* langevin_cells.h: one run of the Langevin experiment: the run file of a setting with the keys of a method. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_CELLS_H
#define SOSMC_LANGEVIN_LANGEVIN_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "langevin_exact.h"

typedef enum { IMPDIFF, SOUL, SOSMC_ULA, SOSMC_MALA, SOSMC_RWM, SOSMC_HMC, LANGEVIN_METHODS } langevin_method;
extern const char *const langevin_method_names[LANGEVIN_METHODS];

enum { LANGEVIN_POINTS = 250 };  /* of a curve */
enum { LANGEVIN_SAMPLE = 1500 }; /* points of the plane that stand for a cloud in a picture */
enum { LANGEVIN_KEYS = 3, LANGEVIN_SEEDS = 100 };

typedef struct {
    const langevin_setting *setting;
    langevin_method method;
    int adam; /* else SGD */
    double beta;
    int particles, reference, iterations, threads;
    double budget_seconds;          /* 0: all iterations */
    const char *set[LANGEVIN_KEYS]; /* further keys of the run file, KEY=VALUE, set last; NULL: none */
    double *sample;                 /* NULL, or room for LANGEVIN_SAMPLE points: the cloud at the end, resampled */
    uint64_t seed;
} langevin_run;

typedef struct {
    double reward; /* as logged last: weighted, before resampling */
    double step, acceptance;
    double seconds; /* of the iterations alone */
    int iterations; /* done; with a budget, those that ended before it */
    int reached;    /* the first iteration whose reward was within 1% of the optimum; -1: none */
    double reached_seconds;
    double weight[LANGEVIN_MAX]; /* softmax(theta) at the end */
    double right;                /* weight of the particles with x_1 > 0 */
    double distinct;             /* share of different particles */
    int points;
    double at[LANGEVIN_POINTS], curve_reward[LANGEVIN_POINTS], curve_density[LANGEVIN_POINTS],
        curve_seconds[LANGEVIN_POINTS];
} langevin_result;

/* 0, or -1 with a sentence. `optimum` is what `reached` is measured against (NaN: not measured). */
int langevin_execute(const langevin_run *run, double optimum, langevin_result *out, char *error, size_t room);

/* Seconds of one iteration: the 10 % quantile of those that were timed, because other work on the machine only adds time. */
double langevin_best_tenth(const langevin_result *r);

#endif
