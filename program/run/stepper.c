/* stepper.c: see stepper.h. */
#include "stepper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sosmc_status stepper_create(stepper *s, const job *j)
{
    *s = (stepper){.job = j};
    return j->automatic ? sosmc_solver_create(&s->solver, &j->problem, &j->solve)
                        : sosmc_create(&s->engine, &j->problem, &j->settings);
}

void stepper_free(stepper *s)
{
    sosmc_free(s->engine);
    sosmc_solver_free(s->solver);
    *s = (stepper){.job = NULL};
}

const char *stepper_message(const stepper *s)
{
    return s->solver ? sosmc_solver_message(s->solver) : sosmc_message(s->engine);
}

sosmc_status stepper_step(stepper *s) { return s->solver ? sosmc_solver_step(s->solver) : sosmc_step(s->engine); }

int64_t stepper_done(const stepper *s)
{
    if (s->solver) return sosmc_solver_info(s->solver)->step;
    return s->engine ? sosmc_iteration(s->engine) : 0;
}

int stepper_finished(const stepper *s)
{
    return s->solver ? sosmc_solver_info(s->solver)->phase == SOSMC_PHASE_DONE
                     : sosmc_iteration(s->engine) >= s->job->iterations;
}

const char *stepper_unit(const stepper *s) { return s->solver ? "step" : "iteration"; }

const char *stepper_limit(const stepper *s)
{
    const sosmc_solve_options *limits = &s->job->solve;
    if (!s->solver || stepper_finished(s)) return NULL;
    const sosmc_solve_info *info = sosmc_solver_info(s->solver);
    if (limits->seconds > 0 && info->seconds >= limits->seconds) return "seconds";
    return limits->evaluations > 0 && info->evaluations >= limits->evaluations ? "evaluations" : NULL;
}

const double *stepper_theta(const stepper *s)
{
    return s->solver ? sosmc_solver_theta(s->solver) : sosmc_theta(s->engine);
}

int stepper_particles(const stepper *s)
{
    return s->solver ? sosmc_solver_particles(s->solver) : sosmc_particles(s->engine);
}

sosmc_status stepper_cloud(const stepper *s, double *x, double *logw)
{
    return s->solver ? sosmc_solver_cloud(s->solver, x, logw) : sosmc_cloud(s->engine, x, logw);
}

uint64_t stepper_hash(const stepper *s) { return s->solver ? sosmc_solver_hash(s->solver) : sosmc_hash(s->engine); }

sosmc_status stepper_save(stepper *s, sosmc_write put, void *ctx)
{
    return s->solver ? sosmc_solver_save(s->solver, put, ctx) : sosmc_save(s->engine, put, ctx);
}

sosmc_status stepper_load(stepper *s, sosmc_read get, void *ctx)
{
    return s->solver ? sosmc_solver_load(s->solver, get, ctx) : sosmc_load(s->engine, get, ctx);
}

/* ---------------------------------------------------------------------------- traces */

#define SOLVER_COLUMNS                                                                                                \
    "step,phase,updates,temperature,stage,round,gain,decrease,left,left_error,wanted,loss,loss_error,ess,mean_score," \
    "accept,mobility,moves,evaluations,contractions"
enum { SOLVER_VALUES = 19 }; /* between the step and theta */

int stepper_open_trace(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room)
{
    char columns[TRACE_COLUMNS] = SOLVER_COLUMNS;
    int p = s->job->problem.model.dim_theta;
    if (!s->solver) return trace_open_info(out, path, p, from, error, room);
    trace_name_theta(p, columns);
    return trace_open(out, path, columns, from, error, room);
}

int stepper_open_timing(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room)
{
    return trace_open(out, path, s->solver ? "step,seconds" : TRACE_TIMING, from, error, room);
}

void stepper_row(const stepper *s, trace *t)
{
    const double *theta = stepper_theta(s);
    int p = s->job->problem.model.dim_theta;
    if (!s->solver) {
        trace_info(t, sosmc_last(s->engine), theta, p);
        return;
    }
    const sosmc_solve_info *i = sosmc_solver_info(s->solver);
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
