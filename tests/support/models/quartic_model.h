/* quartic_model.h: a small target with every quantity known in closed form, as a model that counts its calls and checks how it
 * is called, and the engine on it.
 *
 *     U = sum_j (1 + theta_2^2) (x_j - theta_j)^2 / 2 + x_j^4 / 20
 *
 * formulas_by_hand.h has the same formulas for one particle. The functions below that run an engine fail the test where
 * the engine returns an error. */
#ifndef SOSMC_TESTS_QUARTIC_MODEL_H
#define SOSMC_TESTS_QUARTIC_MODEL_H

#include <stdatomic.h>

#include <sosmc/sosmc.h>

enum { DIM = 2, THETA = 3, N = 37, TILE = 8, ROWS = 7, BATCH = 11, STAMP = DIM + THETA };

/* Where theta begins; and another theta, at which energies are counted as references. */
extern const double quartic_start[THETA], quartic_away[THETA];

/* ---------------------------------------------------------------------------- a model that watches */

enum { SEEN_ROOM = 64 };

/* Counts of what the callbacks have seen. The lists are kept by runs on one thread only. */
typedef struct {
    atomic_llong energies, references, contracted, fresh; /* particles */
    atomic_llong stale; /* particles in batches marked as fresh whose `work` is of another call */
    atomic_llong odd;   /* batches whose layout or `prep` is not as documented */
    atomic_llong names; /* sum of the numbers of the particles that grad_theta saw */
    atomic_llong wrong; /* cached values that do not belong to the particle */
    atomic_llong lost;  /* numbers in aux that do not belong to it */
    int first_move;     /* no move has been made yet: nothing is in aux */
    double h;           /* the step of the last move */
    int listing, evaluated, seen;
    double evaluated_at[SEEN_ROOM][DIM], seen_at[SEEN_ROOM][DIM], seen_c[SEEN_ROOM];
} tally;

typedef struct {
    double shift; /* added to U */
    tally *t;     /* may be NULL */
} quartic;

sosmc_problem quartic_problem(const quartic *m); /* mmle, from a standard normal */
int quartic_reward(const void *self, const sosmc_batch *b, double *s);

/* ROWS points of data, taken in order. */
extern const sosmc_rows quartic_rows;
const double *quartic_row(int j);

enum { MMLE, LIKELIHOOD, FORWARD, REVERSE, OBJECTIVES };
sosmc_objective quartic_objective(int which, const double *theta_ref);

/* ---------------------------------------------------------------------------- the engine on it */

enum { ULA, MALA, RWM, HMC1, HMC3, KERNELS };
sosmc_kernel quartic_kernel(int which);
sosmc_kernel quartic_ula_at(int forward, int backward);
/* Weighted, never resampled, with plain gradient steps, so that formulas_by_hand.h can follow every number. */
sosmc_settings quartic_calm(sosmc_kernel kernel, int order);
sosmc_adapt quartic_rule(double threshold, double factor, double min, double max);

/* The cloud and theta at one moment. */
typedef struct {
    double x[N][DIM], logw[N], theta[THETA];
} moment;
moment quartic_now(const sosmc *s);
int quartic_same(const double *a, const double *b, int n);

/* ---------------------------------------------------------------------------- a kernel that looks */

/* A kernel that checks its input and then calls another kernel: U and gx must be those of x under theta_prev, and aux,
 * which it sets to 2 x + 1, must still belong to the particle. */
typedef struct {
    sosmc_kernel inner;
    int sweeps;
    tally *t;
} checker;
sosmc_kernel quartic_checking(const checker *c);

#endif
