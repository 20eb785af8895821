/* checkpoint_plan.h: the small runs whose checkpoints are fuzzed: shared with what makes the seeds. */
#ifndef SOSMC_FUZZ_CHECKPOINT_PLAN_H
#define SOSMC_FUZZ_CHECKPOINT_PLAN_H

#include <sosmc/models.h>
#include <sosmc/sosmc.h>

#include "fuzz.h"

enum { CHECKPOINT_PLANS = 4 };

/* A weighted run, one with a momentum per particle, one with a pool that fills, one with an average and several sweeps. */
static inline sosmc *checkpoint_engine(int plan)
{
    static const double means[] = {-1, 0, 1, 0.5, 0, -1}, theta[] = {0.1, -0.2, 0.3};
    static const sosmc_mixture mixture = {.dim = 2, .components = 3, .means = means, .variance = 0.6};
    static const sosmc_mixture_law law = {.mixture = &mixture, .theta = theta};
    sosmc_settings cfg = sosmc_defaults();
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_mmle(),
                       .init = sosmc_mixture_source(&law),
                       .theta0 = theta};
    sosmc *engine = NULL;
    p.model.tile = 8;
    cfg.seed = 5;
    cfg.scheme = sosmc_scheme_sosmc(11);
    switch (plan % CHECKPOINT_PLANS) {
    case 1: cfg.kernel = sosmc_underdamped(0.3, 1, 1.5); break;
    case 2:
        cfg.scheme = sosmc_scheme_pcd(5, 9, 2);
        cfg.scheme.pool_rule = SOSMC_POOL_NEWEST;
        break;
    case 3:
        cfg.kernel = sosmc_hmc(0.4, 2, 1);
        cfg.scheme.sweeps = 2;
        cfg.average = 0.5;
        cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 10, .b = 0.6, .warmup = 3};
        cfg.adapt[0] = (sosmc_adapt){.threshold = 0.9, .factor = 1.1, .min = 1e-3, .max = 10};
        break;
    default: break;
    }
    if (sosmc_create(&engine, &p, &cfg) == SOSMC_OK) return engine;
    sosmc_free(engine);
    return NULL;
}

#endif
