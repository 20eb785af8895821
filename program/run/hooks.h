/* hooks.h: what a run receives from its caller: the functions that it calls to report its progress, and to ask whether it
 * should stop. */
#ifndef SOSMC_RUN_HOOKS_H
#define SOSMC_RUN_HOOKS_H

#include <sosmc/solve.h>
#include <sosmc/temper.h>

/* How far a run has come. */
typedef struct {
    int64_t done, total;           /* iterations; of an automatic run the solver's steps, whose total is not known: 0 */
    const sosmc_info *info;        /* NULL: the run is automatic, and the next is there instead */
    const sosmc_solve_info *solve; /* NULL otherwise */
    const sosmc_sampler_info *temper; /* of a run that tempers, instead of both; NULL otherwise */
    const double *theta;
    int dim_theta;
    double strength; /* of a prior that is learnt; NaN: there is none */
    int weighted;
} run_progress;

/* What a run receives from its caller; each may be NULL. They are called from the thread of run_execute. */
typedef struct {
    int (*stop)(void *ctx); /* called between iterations: non-zero ends the run there, with everything saved */
    int (*saves)(
        void *ctx); /* called between iterations: how often a checkpoint was asked for; one more: it is saved now */
    void (*progress)(void *ctx, const run_progress *p); /* before the first iteration and after each */
    void (*say)(void *ctx, const char *sentence);       /* a sentence for the user while the run goes on */
    void *ctx;
} run_hooks;

#endif
