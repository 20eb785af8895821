/* curvature.h: is the step of an unadjusted kernel small enough for the potential it moves in? */
#ifndef SOSMC_RUN_CURVATURE_H
#define SOSMC_RUN_CURVATURE_H

#include <sosmc/analysis.h>

#include "job/problem.h"

/* The sentence that `run` and `check` say when the step of an unadjusted Langevin move, in the units of `ula`, is beyond
 * 0.5 / L, L being the largest curvature of U in x at the first particles. 0: there is nothing to say, because the step is
 * smaller, is adapted while the run goes on, or belongs to a kernel that accepts and rejects or has no density. 1: `out` has
 * the sentence. */
int curvature_warning(const job *j, char *out, size_t room);
/* The same sentence from what was measured; h is the kernel's. */
int curvature_sentence(double h, const sosmc_step_check *step, char *out, size_t room);

#endif
