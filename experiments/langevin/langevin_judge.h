/* langevin_judge.h: how far a cell of the Langevin experiment is from the noise-free recursion at the same iteration, in standard
 * errors, and from where on that is more than chance. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_JUDGE_H
#define SOSMC_LANGEVIN_LANGEVIN_JUDGE_H

#include "langevin_cells.h"

/* Must the method end where the recursion does, up to Monte Carlo error? The weighted ones must, but for SOSMC-ULA in setting D (3),
 * which loses modes under the published rule for its step. */
int langevin_follows(int setting, langevin_method method);

/* The standard error of the mean reward, from the standard errors that the runs of each method gave in one setting under one
 * optimiser: a few runs give a poor one, so it is the larger of the method's own and of the root mean square over the methods that
 * follow. NaN where there are none. */
double langevin_error(int setting, langevin_method method, const double own[LANGEVIN_METHODS]);

/* The distance, in standard errors, that none of `cells` cells exceeds by chance in 19 tables of 20, when the standard errors have
 * `freedom` degrees of freedom: Student's law at 0.05 / cells, both sides together. */
double langevin_threshold(int cells, int freedom);
/* The fewest degrees of freedom that langevin_error has with so many seeds. */
int langevin_freedom(int seeds);

/* Why a method differs from the recursion; the same pointer for the same cause. */
const char *langevin_cause(int setting, langevin_method method);

#endif
