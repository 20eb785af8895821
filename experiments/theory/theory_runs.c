/* theory_runs.c: replicated runs. Replicates are added in the order of their seeds, so that a sum is the same whoever
 * computes it. */
#include "theory_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"

void theory_add(theory_tally *t, double value)
{
    double off = value - t->mean;
    t->n++;
    t->mean += off / (double)t->n;
    t->m2 += off * (value - t->mean);
}

double theory_se(const theory_tally *t) { return sqrt(t->m2 / ((double)t->n * (double)(t->n - 1))); }

double theory_z(const theory_tally *t, double expected)
{
    return t->mean == expected ? 0 : (t->mean - expected) / theory_se(t);
}

const char *theory_brief(const theory_tally *t, char out[32])
{
    (void)snprintf(out, 32, "%.4f(%.0f)", t->mean, ceil(1e4 * theory_se(t)));
    return out;
}

theory_fit theory_power(int n, const double *x, const double *y, const double *se)
{
    double w = 0, wx = 0, wy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < n; i++) {
        double weight = y[i] * y[i] / (se[i] * se[i]);
        w += weight;
        wx += weight * log(x[i]);
        wy += weight * log(fabs(y[i]));
    }
    for (int i = 0; i < n; i++) {
        double weight = y[i] * y[i] / (se[i] * se[i]), off = log(x[i]) - wx / w;
        sxx += weight * off * off;
        sxy += weight * off * (log(fabs(y[i])) - wy / w);
    }
    return (theory_fit){sxy / sxx, 1 / sqrt(sxx)};
}

uint64_t theory_seed(const theory_options *o, int statement, int cell)
{
    return experiment_mix(experiment_mix(experiment_mix(EXPERIMENT_DIGEST, o->seed), (uint64_t)statement),
                          (uint64_t)cell);
}

sosmc_settings theory_settings(int particles, double ess_min, sosmc_kernel kernel, sosmc_optimiser optimiser,
                               uint64_t seed)
{
    sosmc_settings settings = sosmc_defaults();
    settings.on_collapse = SOSMC_COLLAPSE_CONTINUE; /* a statement shows what a method does, also then */
    settings.judge = 0;                             /* a statement measures what it is about itself */
    settings.scheme = sosmc_scheme_sosmc(particles);
    settings.scheme.ess_min = ess_min;
    settings.kernel = kernel;
    settings.optimiser = optimiser;
    settings.seed = seed;
    return settings;
}

int theory_engine(theory_statement *s, const sosmc_problem *problem, const sosmc_settings *settings, int64_t iterations,
                  theory_ending out)
{
    sosmc *engine = NULL;
    sosmc_status status = sosmc_create(&engine, problem, settings);
    for (int64_t k = 0; k < iterations && status == SOSMC_OK && !interrupt_requested(); k++)
        status = sosmc_step(engine);
    if (status == SOSMC_OK && (out.x || out.logw)) status = sosmc_cloud(engine, out.x, out.logw);
    if (status == SOSMC_OK && out.last) *out.last = *sosmc_last(engine);
    int code = interrupt_requested() ? theory_fail(s, SOSMC_EXIT_INTERRUPTED, "interrupted")
               : status == SOSMC_OK  ? 0
                                     : theory_fail(s, SOSMC_EXIT_NUMERIC, "a run with %s failed: %s",
                                                   settings->kernel.name, sosmc_message(engine));
    sosmc_free(engine);
    return code;
}

int theory_replicate(const theory_batch *batch, theory_statement *s, theory_tally *tally)
{
    double value[THEORY_VALUES] = {0};
    memset(tally, 0, (size_t)batch->count * sizeof *tally);
    for (int r = 0; r < batch->replicates; r++) {
        if (interrupt_requested()) return theory_fail(s, SOSMC_EXIT_INTERRUPTED, "interrupted");
        sosmc_settings settings = batch->settings;
        sosmc *engine = NULL;
        settings.seed += (uint64_t)r;
        sosmc_status status = sosmc_create(&engine, batch->problem, &settings);
        if (status == SOSMC_OK) status = sosmc_run(engine, batch->iterations, NULL, NULL);
        int code = status == SOSMC_OK
                       ? 0
                       : theory_fail(s, SOSMC_EXIT_NUMERIC, "%s, replicate %d: %s", s->id, r, sosmc_message(engine));
        if (!code) batch->read(batch->ctx, engine, value);
        sosmc_free(engine);
        if (code) return code;
        for (int c = 0; c < batch->count; c++) theory_add(&tally[c], value[c]);
    }
    return 0;
}
