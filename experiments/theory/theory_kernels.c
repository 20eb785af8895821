/* theory_kernels.c: kernels and stages. Steps are relative to the curvature of the stage, so that "h = 0.5/L" in a statement
 * is exactly the step that is used. */
#include "theory_kernels.h"

#include <math.h>
#include <stddef.h>

static const double share = 0.5; /* h L */
static const double width = 0.5; /* lambda of MYULA */

int theory_stages(arena *memory, theory_stage stage[THEORY_STAGES])
{
    static const struct {
        const theory_target *target;
        double start[THEORY_DIM], rate;
        theory_bell bell;
    } plan[THEORY_STAGES] = {{&theory_skew, {0.8, 1.0}, 0.5, {-0.3, 1.3}},
                             {&theory_waves, {0.6, -0.5}, 0.3, {0.3, 1.6}},
                             {&theory_kinked, {0.8, 1.0}, 0.5, {-0.2, 1.2}}};
    for (int i = 0; i < THEORY_STAGES; i++) {
        theory_stage *g = &stage[i];
        *g = (theory_stage){.target = plan[i].target, .start = plan[i].bell};
        g->grid = arena_take(memory, THEORY_STEPS + 1, sizeof *g->grid);
        if (!g->grid || theory_descend(g->target, plan[i].start, plan[i].rate, &g->path)) return -1;
        g->largest = theory_curvature(g->target, &g->path);
        for (int k = 0; k <= THEORY_STEPS; k++) theory_tabulate(g->target, g->path.theta[k], &g->grid[k]);
    }
    return 0;
}

theory_kernel theory_kernel_at(int k, const theory_stage *stage)
{
    double h = share / stage->largest, eps = sqrt(2 * h), wide = share / (stage->largest + 1 / width);
    switch (k) {
    case 0: return (theory_kernel){"ULA", sosmc_ula(h), h};
    case 1: return (theory_kernel){"MALA", sosmc_mala(h), h};
    case 2: return (theory_kernel){"RWM", sosmc_rwm(h), h};
    case 3: return (theory_kernel){"HMC, 3 steps", sosmc_hmc(eps, 3, 1), h};
    case 4: return (theory_kernel){"underdamped, γ = 1", sosmc_underdamped(eps, 1, 1), h};
    case 5: return (theory_kernel){"underdamped, γ = 0.2", sosmc_underdamped(eps * sqrt(2), 0.2, 2), h};
    case 6: return (theory_kernel){"leapfrog, 3 steps", sosmc_leapfrog(eps, 3, 1), h};
    case 7: return (theory_kernel){"MYULA, g = 0", sosmc_myula(h, width, SOSMC_MYULA_CACHED), h};
    case 8: return (theory_kernel){"MYULA, ratio", sosmc_myula(wide, width, SOSMC_MYULA_RATIO), wide};
    default: return (theory_kernel){"MYULA, cached", sosmc_myula(wide, width, SOSMC_MYULA_CACHED), wide};
    }
}

theory_kernel theory_pretender(const theory_stage *stage)
{
    double wide = share / (stage->largest + 1 / width);
    if (stage->target->kink > 0)
        return (theory_kernel){"MYULA as if invariant", sosmc_myula(wide, width, SOSMC_MYULA_AS_INVARIANT), wide};
    theory_kernel ula = theory_kernel_at(0, stage);
    ula.name = "ULA as if invariant";
    ula.kernel.invariant = 1;
    return ula;
}

sosmc_problem theory_problem(const theory_stage *stage, int exact)
{
    return (sosmc_problem){.model = theory_model(stage->target),
                           .objective = sosmc_mmle(),
                           .init = exact ? theory_exact_source(&stage->grid[0]) : theory_bell_source(&stage->start),
                           .theta0 = stage->path.theta[0]};
}
