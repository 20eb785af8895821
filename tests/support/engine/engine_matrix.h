/* engine_matrix.h: a list of engines (problem and settings) for tests of checkpoints. Every kernel, scheme and optimiser occurs
 * in it at least once. Their model keeps scratch between calls, has a prepare callback, and can be told to fail. An engine_case
 * is a plain value: a test may change it before it calls engine_case_open. */
#ifndef SOSMC_TESTS_ENGINE_MATRIX_H
#define SOSMC_TESTS_ENGINE_MATRIX_H

#include <stdatomic.h>

#include <sosmc/sosmc.h>

enum { DT = 3, N = 150 }; /* dimension of theta, and of x unless the case says otherwise; particles */

typedef struct {
    const char *name;
    sosmc_problem p;
    sosmc_settings cfg;
} engine_case;

enum {
    ULA_PAPER,
    ULA_AUTHORS,
    MALA_PAPER,
    MALA_AUTHORS,
    RWM_PAPER,
    RWM_AUTHORS,
    HMC_PAPER,
    HMC_AUTHORS,
    UNWEIGHTED,
    UNWEIGHTED_AUTHORS,
    MOVED_FIRST,
    SOUL,
    SOUL_CHAIN,
    PCD,
    PCD_AUTHORS,
    AUX,
    NOTHING_PARKED,
    UNUSUAL_LANGEVIN,
    SWEEPS,
    DROPPED,
    DROPPED_MALA,
    TALL,
    UNDERDAMPED,
    UNDERDAMPED_AUTHORS,
    UNDERDAMPED_POOL,
    UNDERDAMPED_TALL,
    LEAPFROG,
    NOISY,
    HUGE_DIMENSION,
    ENGINE_CASES
};
engine_case engine_case_of(int which);
sosmc *engine_case_open(engine_case w); /* fails the test when there is no engine */

/* Parts that a test may use to make cases of its own. */
extern const double engine_case_reference[DT];
int engine_case_reward(const void *self, const sosmc_batch *b, double *s);
/* A user's kernel with memory: the noise of the last move drives the next. */
int engine_case_aux_step(const sosmc_kernel *k, sosmc_move *m);

/* A test sets these to make the energy fail. */
extern atomic_int engine_case_energy_breaks; /* the call, counted down to zero, that returns 7 */
extern atomic_int engine_case_energy_is_nan; /* everywhere */

#endif
