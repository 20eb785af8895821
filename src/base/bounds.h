/* bounds.h: a problem whose model has bounds of x becomes one without, in coordinates z (maths.md BOUNDS). Where a problem enters the
 * library its model, reward and initial distribution are replaced, and everything inside works on z; the user's functions see x.
 * Rows of an objective's data stay points x, and go to the user's own model, sosmc_i_original. A model without dU/dx is replaced
 * by one with differences of U where that is asked for. */
#ifndef SOSMC_BASE_BOUNDS_H
#define SOSMC_BASE_BOUNDS_H

#include <sosmc/sosmc.h>

/* What the user gave. It must stay where it is while the problem is used. */
typedef struct {
    sosmc_model model;
    sosmc_score score;
    sosmc_source init;
} bounded;

/* Replaces what p holds, where there are bounds or differences are wanted. With bounds a missing initial distribution becomes N(0, I)
 * of z. NULL, or a sentence that says why the problem is refused, which may be in `text`; p is then as it was. */
const char *sosmc_i_bound(bounded *k, sosmc_problem *p, int differences, char *text, size_t room);
/* NULL, or a sentence in `text` about a point outside of the bounds: among draws of the initial distribution that was replaced,
 * `particles` of them or more, or among the rows of the data. */
const char *sosmc_i_points_outside(const sosmc_problem *p, uint64_t seed, int64_t particles, char *text, size_t room);

/* The user's model behind a replaced one; any other model is its own. */
const sosmc_model *sosmc_i_original(const sosmc_model *m);
/* The first coordinate of a user's model that has a bound; -1: there is none. */
int sosmc_i_first_bound(const sosmc_model *m);
/* A hash of the bounds of a model, replaced or not; 0: there are none. */
int64_t sosmc_i_bounds_hash(const sosmc_model *m);

/* With a replaced model, else nothing changes: n points z, rows of dim, become x; a batch of points x, laid out like b, becomes z. */
void sosmc_i_to_x(const sosmc_model *m, int64_t n, double *rows);
void sosmc_i_to_z(const sosmc_model *m, const sosmc_batch *b, double *x);
/* Energies of a user's model become infinite where the batch is outside of its bounds. */
void sosmc_i_bound_energies(const sosmc_model *m, const sosmc_batch *b, double *U);

#endif
