/* fresh.h: fresh particles at a theta for an engine's problem: the starting law, the coordinates of the moves, the pass. */
#ifndef SOSMC_JUDGE_FRESH_H
#define SOSMC_JUDGE_FRESH_H

#include "engine/watch.h"
#include "temper/pass.h"

/* What all passes of one judgement share. */
typedef struct {
    const sosmc *engine; /* its cloud and settings are what sosmc_i_fresh_open fits, and nothing else needs them */
    const sosmc_settings *settings;
    const sosmc_problem *problem;
    const sosmc_judge_options *options;
    int64_t iterations; /* that the run has made, which decide how many particles a pass may have */
    uint64_t seed;
    const sosmc_simd *simd;
    laws q;
    preconditioner c;
    int particles, threads;
    int plain; /* of a pass, so many particles first, whose weights are taken as they are where their Pareto index is small; 0: none */
    int tilts; /* the pass at the reference goes on to the best of all densities, where there is a reward */
    int jumps; /* of a pass, before the moves at every temperature, with the differences of these particles (temper/pass.h) */
    pool from;
    int tries; /* of a pass, each with twice the particles and moves, until enough ancestors survive */
    double first_ess, first_khat; /* of the initial law's weights, where it has a density; else NaN */
} fresh;

/* NULL, or why there can be no pass. */
const char *sosmc_i_fresh_refused(const fresh *f);
/* Builds laws and coordinates from the engine's cloud and its initial law, for theta. */
sosmc_status sosmc_i_fresh_open(fresh *f, const double *theta);
void sosmc_i_fresh_close(fresh *f);
/* The bytes that the judgement of a run with these settings holds at most, in all of what is declared here, unless a pass has to be
 * repeated with more particles; and those of a pass with the numbers that are made of it. No engine needs to be there. SIZE_MAX:
 * more than can be counted. */
size_t sosmc_i_fresh_bytes(const fresh *f);
size_t sosmc_i_fresh_pass_bytes(const fresh *f);
/* The pass at theta; repeated with twice the particles, at most three times, while too few ancestors survive. `number` names its
 * random numbers, 0 to 7. */
typedef enum {
    FRESH_PLAIN,  /* log Z alone */
    FRESH_WHOLE,  /* with scores, reference energies and gradients in theta */
    FRESH_TILTED, /* on to the law that is tilted by the score over the weight of the divergence */
} fresh_kind;
sosmc_status sosmc_i_fresh_pass(const fresh *f, const double *theta, int number, fresh_kind kind, pass_cloud *out);

#endif
