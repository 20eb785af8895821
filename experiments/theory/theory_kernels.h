/* theory_kernels.h: every weighted kernel of the library, with a target that it can move on and a path of theta there. */
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
    double h; /* of the Langevin step that it amounts to: the step itself, or eps^2 / 2m */
} theory_kernel;
/* At half of 1/L, the largest step at which weights are to be trusted. Those from THEORY_SMOOTH_KERNELS on are for the
 * stage with the kink (the last), the others for the first two. */
theory_kernel theory_kernel_at(int k, const theory_stage *stage);
/* Negative controls: ULA and MYULA whose weights pretend that the move leaves pi invariant. */
theory_kernel theory_pretender(const theory_stage *stage);

/* The problem on this stage, on its path; `exact`: from pi_theta0, else weighted from stage->start. */
sosmc_problem theory_problem(const theory_stage *stage, int exact);

#endif
