/* sampler_inside.h: a sampler, for sampler.c, sampler_law.c and sampler_keep.c. */
#ifndef SOSMC_JUDGE_SAMPLER_INSIDE_H
#define SOSMC_JUDGE_SAMPLER_INSIDE_H

#include "base/bounds.h"
#include "temper/law.h"
#include "temper/pass_run.h"

/* The trial goes from the caller's law to the model with few particles; the measurement begins near where they have arrived, and is
 * what the numbers come from. */
enum { TRIAL, MEASUREMENT };

struct sosmc_sampler {
    sosmc_temper_task task;
    bounded bounds;   /* what the user gave, where x has bounds */
    sosmc_law *start; /* ... and where the particles then begin; else NULL */
    int phase;
    int begun;   /* the pass of this phase has its particles */
    laws given;  /* the components are those of task.start; the weights add up to 1 */
    laws fitted; /* what the measurement starts from; empty before */
    pass_task pass;
    pass_cloud cloud;
    pass_run run;
    int64_t spent; /* evaluations before this pass */
    sosmc_sampler_info info;
    int ready; /* it has its memory */
    sosmc_status failed;
    char message[SOSMC_SENTENCE];
};

/* The weighted particles in the coordinates of the task's model. */
void sosmc_i_sampler_cloud(const sosmc_sampler *s, double *x, double *logw);
void sosmc_i_sampler_note(sosmc_sampler *s); /* fills `info` from the pass */
/* Memory for the pass of the present phase. */
sosmc_status sosmc_i_sampler_open(sosmc_sampler *s);
void sosmc_i_sampler_close(sosmc_sampler *s);
/* The law of the measurement, from the cloud of the trial, or from the mean and factor of a fit. Where the cloud has no fit it stays
 * empty, and the measurement starts from the caller's law. */
sosmc_status sosmc_i_sampler_fit(sosmc_sampler *s);
sosmc_status sosmc_i_sampler_law(sosmc_sampler *s, const double *mean, const double *L);

#endif
