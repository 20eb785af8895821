/* coordinates.h: a problem in other coordinates. What a solver without settings tells must not depend on the units in which a user
 * happens to write the model down. */
#ifndef SOSMC_TESTS_COORDINATES_H
#define SOSMC_TESTS_COORDINATES_H

#include "untuned.h"

/* x' = Q (scale x) + b and theta'_j = unit_j theta_j. Q is a product of random reflections, the components of b are at most
 * `shift`, and the units are between 1 / units and units. Q, b and the units are those of the seed. */
typedef struct {
    double scale, shift, units;
    uint64_t seed;
} untuned_coordinates;

/* The coordinates of a seed: scale from 0.001 to 1000, shift from 1 to 1000, units up to 100. */
untuned_coordinates untuned_coordinates_of(uint64_t seed);

/* The problem of `inner`, which is borrowed, in these coordinates: model, data, reference law, reward, exact loss (a density of x'
 * differs from that of x by scale^dim) and best theta. Non-zero when memory is out. Close it in any case. */
int untuned_move(untuned_problem *u, const untuned_problem *inner, const untuned_coordinates *c);

#endif
