/* theory_kernels.h: every weighted kernel of the library, with targets on which it can move and a path of theta for each. */
#ifndef SOSMC_THEORY_THEORY_KERNELS_H
#define SOSMC_THEORY_THEORY_KERNELS_H

#include "theory_targets.h"

/* Two smooth targets and one with a kink, each with the path of exact gradient descent (theory_descend), the exact values
 * along it and a normal law to start from. */
enum { THEORY_STAGES = 3 };
typedef struct {
    const theory_target *target;
    theory_path path;
    theory_bell start;
    double largest;       /* L: the largest curvature on the path */
    theory_lattice *grid; /* THEORY_STEPS + 1 of them */
} theory_stage;
/* 0, or -1: no memory. */
int theory_stages(arena *memory, theory_stage stage[THEORY_STAGES]);

enum { THEORY_KERNELS = 10, THEORY_SMOOTH_KERNELS = 8 };
typedef struct {
    const char *name;
    sosmc_kernel kernel;
    double h; /* the Langevin step that it is equivalent to: the step itself, or eps^2 / 2m */
} theory_kernel;
/* Returns kernel k with h = 0.5/L, half of the step from which on weights have no variance. Kernels from
 * THEORY_SMOOTH_KERNELS on are for the stage with the kink (the last), the others for the first two. */
theory_kernel theory_kernel_at(int k, const theory_stage *stage);
/* Negative controls: ULA and MYULA with the weights of a kernel that leaves pi invariant, which they do not. */
theory_kernel theory_pretender(const theory_stage *stage);

/* The problem on this stage along its path. With `exact` the particles are drawn from pi_theta0, otherwise from stage->start
 * with weights. */
sosmc_problem theory_problem(const theory_stage *stage, int exact);

#endif
