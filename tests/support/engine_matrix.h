/* engine_matrix.h: settings worth stopping: every kernel, scheme and optimiser at least once, on a model that parks, prepares
 * and can be told to fail. A world is a plain value that tests may change before they open it. */
#ifndef SOSMC_TESTS_ENGINE_MATRIX_H
#define SOSMC_TESTS_ENGINE_MATRIX_H

#include <stdatomic.h>

#include <sosmc/sosmc.h>

enum { DT = 3, N = 150 }; /* dimension of theta, and of x unless the world says otherwise; particles */

typedef struct {
    const char *name;
    sosmc_problem p;
    sosmc_settings cfg;
} world;

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
    WORLDS
};
world world_of(int which);
sosmc *world_open(world w); /* fails the test when there is no engine */

/* Parts to make other worlds of. */
extern const double world_reference[DT];
int world_reward(const void *self, const sosmc_batch *b, double *s);
/* A user's kernel with memory: the noise of the last move drives the next. */
int world_aux_step(const sosmc_kernel *k, sosmc_move *m);

/* How the energy fails. */
extern atomic_int world_energy_breaks; /* the call, counted down to zero, that returns 7 */
extern atomic_int world_energy_is_nan; /* everywhere */

#endif
