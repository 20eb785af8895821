/* stepper.c: see stepper.h. */
#include "stepper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Takes what was reported. log Z of an engine is known up to a constant where its start has no density; on the way from a
 * normalised distribution to the model the volume counts in proportion. */
static sosmc_status take(stepper *s, sosmc_status status)
{
    if (!s->job) return status; /* an engine alone, which its caller reads */
    const sosmc_problem *p = &s->job->problem;
    double volume = job_log_volume(s->job), of_loss = p->objective.loss == SOSMC_LOSS_LIKELIHOOD ? volume : 0;
    if (status != SOSMC_OK) return status;
    if (s->engine) s->last = *sosmc_last(s->engine);
    if (s->engine && p->init.logpdf && !p->init.exact) s->last.logz -= volume, s->last.loss -= of_loss;
    if (s->solver) s->solved = *sosmc_solver_info(s->solver);
    if (s->sampler) s->tempered = *sosmc_sampler_state(s->sampler);
    s->solved.loss -= of_loss;
    s->tempered.log_z -= volume * fmin(1, s->tempered.temperature * (s->job->temper.beta > 0 ? 2 : 1));
    return SOSMC_OK;
}

sosmc_status stepper_create(stepper *s, const job *j)
{
    *s = (stepper){.job = j};
    if (j->tempers) return take(s, sosmc_sampler_create(&s->sampler, &j->temper));
    return take(s, j->automatic ? sosmc_solver_create(&s->solver, &j->problem, &j->solve)
                                : sosmc_create(&s->engine, &j->problem, &j->settings));
}

void stepper_free(stepper *s)
{
    sosmc_free(s->engine);
    sosmc_solver_free(s->solver);
    sosmc_sampler_free(s->sampler);
    *s = (stepper){.job = NULL};
}

const char *stepper_message(const stepper *s)
{
    if (s->job->tempers) return sosmc_sampler_message(s->sampler);
    return s->solver ? sosmc_solver_message(s->solver) : sosmc_message(s->engine);
}

sosmc_status stepper_step(stepper *s)
{
    if (s->sampler) return take(s, sosmc_sampler_step(s->sampler));
    return take(s, s->solver ? sosmc_solver_step(s->solver) : sosmc_step(s->engine));
}

int64_t stepper_done(const stepper *s)
{
    if (s->sampler) return sosmc_sampler_state(s->sampler)->step;
    if (s->solver) return sosmc_solver_info(s->solver)->step;
    return s->engine ? sosmc_iteration(s->engine) : 0;
}

int stepper_finished(const stepper *s)
{
    if (s->sampler) return sosmc_sampler_state(s->sampler)->done;
    return s->solver ? sosmc_solver_info(s->solver)->phase == SOSMC_PHASE_DONE
                     : sosmc_iteration(s->engine) >= s->job->iterations;
}

const char *stepper_unit(const stepper *s) { return s->engine ? "iteration" : "step"; }

const char *stepper_limit(const stepper *s, double seconds)
{
    const sosmc_solve_options *limits = &s->job->solve;
    int none = stepper_done(s) == 0; /* the first step may have been ended by its time */
    if (s->engine || stepper_finished(s) || (s->sampler && none)) return NULL;
    int64_t evaluations = s->sampler ? sosmc_sampler_state(s->sampler)->evaluations
                                     : sosmc_solver_info(s->solver)->evaluations;
    double spent = s->sampler ? seconds : sosmc_solver_info(s->solver)->seconds;
    if (limits->seconds > 0 && spent >= limits->seconds) return "seconds";
    return limits->evaluations > 0 && !none && evaluations >= limits->evaluations ? "evaluations" : NULL;
}

const double *stepper_theta(const stepper *s)
{
    if (s->sampler) return s->job->temper.theta;
    return s->solver ? sosmc_solver_theta(s->solver) : sosmc_theta(s->engine);
}

int stepper_particles(const stepper *s)
{
    if (s->sampler) return s->job->temper.particles;
    return s->solver ? sosmc_solver_particles(s->solver) : sosmc_particles(s->engine);
}

/* Tempered particles are handed out with equal weights, as many as the run file asks for. */
static sosmc_status tempered_cloud(const stepper *s, double *x, double *logw)
{
    int n = stepper_particles(s);
    for (int i = 0; i < n && logw; i++) logw[i] = -log((double)n);
    return x ? sosmc_sampler_points(s->sampler, n, x) : SOSMC_OK;
}

sosmc_status stepper_cloud(const stepper *s, double *x, double *logw)
{
    if (s->sampler) return tempered_cloud(s, x, logw);
    return s->solver ? sosmc_solver_cloud(s->solver, x, logw) : sosmc_cloud(s->engine, x, logw);
}

uint64_t stepper_hash(const stepper *s)
{
    if (s->sampler) return sosmc_sampler_hash(s->sampler);
    return s->solver ? sosmc_solver_hash(s->solver) : sosmc_hash(s->engine);
}

sosmc_status stepper_save(stepper *s, sosmc_write put, void *ctx)
{
    if (s->sampler) return sosmc_sampler_save(s->sampler, put, ctx);
    return s->solver ? sosmc_solver_save(s->solver, put, ctx) : sosmc_save(s->engine, put, ctx);
}

sosmc_status stepper_load(stepper *s, sosmc_read get, void *ctx)
{
    if (s->sampler) return take(s, sosmc_sampler_load(s->sampler, get, ctx));
    return take(s, s->solver ? sosmc_solver_load(s->solver, get, ctx) : sosmc_load(s->engine, get, ctx));
}

/* ---------------------------------------------------------------------------- traces */

#define SOLVER_COLUMNS                                                                                                \
    "step,phase,updates,temperature,stage,round,gain,decrease,left,left_error,wanted,loss,loss_error,ess,mean_score," \
    "accept,mobility,moves,evaluations,contractions"
enum { SOLVER_VALUES = 19 }; /* between the step and theta */
#define SAMPLER_COLUMNS "step,phase,temperature,logz,ess,accept,h,resamplings,evaluations"

int stepper_open_trace(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room)
{
    char columns[TRACE_COLUMNS] = SOLVER_COLUMNS;
    int p = s->job->problem.model.dim_theta;
    if (s->sampler) return trace_open(out, path, SAMPLER_COLUMNS, from, error, room);
    if (!s->solver) return trace_open_info(out, path, p, from, error, room);
    trace_name_theta(p, columns);
    return trace_open(out, path, columns, from, error, room);
}

int stepper_open_timing(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room)
{
    return trace_open(out, path, s->engine ? TRACE_TIMING : "step,seconds", from, error, room);
}

void stepper_row(const stepper *s, trace *t)
{
    const double *theta = stepper_theta(s);
    int p = s->job->problem.model.dim_theta;
    if (s->sampler) {
        const sosmc_sampler_info *i = &s->tempered;
        const double value[] = {i->phase,  i->temperature, i->log_z,       i->ess,
                                i->accept, i->kernel_step, i->resamplings, (double)i->evaluations};
        trace_append(t, i->step - 1, value, sizeof value / sizeof *value);
        return;
    }
    if (!s->solver) {
        trace_info(t, &s->last, theta, p);
        return;
    }
    const sosmc_solve_info *i = &s->solved;
    double value[SOLVER_VALUES + TRACE_THETAS] = {i->phase,
                                                  (double)i->updates,
                                                  i->temperature,
                                                  i->stage,
                                                  i->round,
                                                  i->gain,
                                                  i->decrease,
                                                  i->left,
                                                  i->left_error,
                                                  i->wanted,
                                                  i->loss,
                                                  i->loss_error,
                                                  i->ess,
                                                  i->reward,
                                                  i->accept,
                                                  i->mobility,
                                                  i->moves,
                                                  (double)i->evaluations,
                                                  (double)i->contractions};
    int n = trace_put_theta(theta, p, value + SOLVER_VALUES);
    trace_append(t, i->step - 1, value, SOLVER_VALUES + n);
}
