/* pass.h: log Z and weighted means at one theta, from fresh particles (maths.md PASS). */
#ifndef SOSMC_TEMPER_PASS_H
#define SOSMC_TEMPER_PASS_H

#include <stdint.h>

#include "tile.h"

/* The coordinates in which particles move: proposals are x - h P P' g + sqrt(2h) P z with P P' the inverse of the matrix whose
 * factor is C (dim rows of dim, lower triangular, or a diagonal). */
typedef struct {
    int dim, diagonal;
    int gradient; /* 0: a random walk with the same P, for models whose gradient nobody uses */
    double *C;
} preconditioner;

typedef struct {
    const sosmc_model *model;
    const double *theta;
    const sosmc_score *score; /* NULL: none */
    double beta;             /* above 0: on to the tilted law, U - R/beta, with R the score; log Z is then that law's */
    const double *theta_ref; /* NULL: no reference energies */
    const laws *q;
    const preconditioner *c; /* NULL: found on the way, for each half of the particles from the other half */
    const sosmc_simd *simd;  /* NULL: the best of this machine */
    int particles, threads;
    int moves; /* at every temperature */
    int jumps; /* before them, with the differences of particles that are no part of the pass (jump.c); 0: none */
    const pool *pool;
    int leaps;   /* leapfrog steps of a move; 0 or 1: MALA */
    double cess; /* the conditional effective sample size, as a share, that a temperature may lead to; 0: 0.9 */
    /* Where the Pareto index of the weights from q straight to the target is at most this, these are taken, and nothing is tempered or
     * moved; 0: never. Not with beta. */
    double plain;
    int only_plain; /* give up where that is not so */
    uint64_t seed;
    uint64_t number;     /* of the pass: two passes with other numbers are independent */
    int wants_gradients; /* D = dU/dtheta of the final particles, for dim_theta up to WATCH_PARAMETERS */
    int (*stop)(void *ctx);
    void *stop_ctx;
} pass_task;

/* Weighted particles under pi_theta, with their first ancestors. */
typedef struct {
    int n, dim, dim_theta, temperatures, resamplings;
    int tile, ld;        /* particles are stored in tiles of so many, as dim rows of ld */
    size_t vector;       /* doubles of a tile */
    int64_t evaluations; /* of U, with or without its gradient, for one particle */
    double arrived;      /* 1 unless it gave up */
    double log_z, ess;
    double khat, survivors, acceptance;
    double *w;            /* normalised weights */
    double *x;            /* the particles, in the tiles of the model */
    double *U, *R, *Uref; /* n numbers each, or NULL */
    double *D;            /* n rows of dim_theta, or NULL */
    int *eve;             /* first ancestor of every particle */
    /* Of the law before it was tilted: log Z, the reward with its error and its standard deviation (NaN: not there yet), and the weights of
     * the classes of first ancestors. */
    double halfway_log_z, halfway_log_z_error, halfway_reward, halfway_reward_error, halfway_spread, *halfway;
    int parts,
        part_end[2 * LAW_MOST]; /* first ancestors were drawn component by component: part k ends before part_end[k] */
    double *class_sum;          /* scratch, n numbers */
    void *memory;
} pass_cloud;

/* SOSMC_OK also where it did not arrive (arrived < 1); SOSMC_ENUMERIC: the reward that tilts the law is no finite number at a particle. Free
 * the cloud in any case. */
sosmc_status sosmc_i_pass(const pass_task *task, pass_cloud *out);
void sosmc_i_pass_free(pass_cloud *p);
/* The bytes that it takes; of the task, laws and coordinates need not be there. SIZE_MAX: more than can be counted. */
size_t sosmc_i_pass_bytes(const pass_task *task);

/* The standard error of sum_i w_i f_i + c log Z; f NULL: zeros. */
double sosmc_i_pass_error(const pass_cloud *p, const double *f, double c);
double sosmc_i_pass_mean(const pass_cloud *p, const double *f);
/* ... and of sum_i w_i f_i + c (log Z - log Z of the law before it was tilted). */
double sosmc_i_pass_ratio_error(const pass_cloud *p, const double *f, double c);
void sosmc_i_pass_survivors(pass_cloud *p); /* counts them */
/* A reward that is no finite number, of a particle that has weight; NULL: there is none. */
const double *sosmc_i_pass_odd_reward(const pass_cloud *p);
/* The standard deviation of the reward, exactly 0 where all particles that have weight have the same. */
double sosmc_i_pass_reward_spread(const pass_cloud *p);

/* Whether so large an effective sample size is enough for n weights that go straight from a law to another. */
static inline int sosmc_i_enough(int n, double ess) { return ess >= (n < 2000 ? 0.05 * n : 100); }
/* Pareto index of the largest of n weights, given as logarithms (Zhang and Stephens 2009); NaN: too few. work: 2 n doubles. */
double sosmc_i_khat(int n, const double *logw, double *work);

#endif
