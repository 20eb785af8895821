/* stepper.h: what a run steps: an engine, where the run file chooses the settings, a solver, where they are automatic, or a sampler,
 * where particles are tempered. The rest of the run library asks here and does not need to know which of them it is. */
#ifndef SOSMC_RUN_STEPPER_H
#define SOSMC_RUN_STEPPER_H

#include "files/files.h"
#include "job/problem.h"

typedef struct {
    const job *job;
    sosmc *engine;          /* NULL: the settings are automatic */
    sosmc_solver *solver;   /* NULL: they are chosen */
    sosmc_sampler *sampler; /* instead of the two, where the objective is temper */
    /* What the last iteration or step of them reported, with log Z and losses of likelihoods in the units of job_units. */
    sosmc_info last;
    sosmc_solve_info solved;
    sosmc_sampler_info tempered;
} stepper;

/* Borrows the job. On failure stepper_message says what is wrong. Free it in either case; zeros are fine. */
sosmc_status stepper_create(stepper *s, const job *j);
void stepper_free(stepper *s);
const char *stepper_message(const stepper *s);

sosmc_status stepper_step(stepper *s);      /* an iteration of the engine, or a step of the others */
int64_t stepper_done(const stepper *s);     /* how many are behind it */
int stepper_finished(const stepper *s);     /* none is left */
const char *stepper_unit(const stepper *s); /* what one of them is called: "iteration" or "step" */
/* The limit of the run file that a run without chosen settings has reached, after so many seconds: "seconds", "evaluations"; NULL: none. */
const char *stepper_limit(const stepper *s, double seconds);
const double *stepper_theta(const stepper *s);
int stepper_particles(const stepper *s);
sosmc_status stepper_cloud(const stepper *s, double *x, double *logw); /* as sosmc_cloud */
uint64_t stepper_hash(const stepper *s);
sosmc_status stepper_save(stepper *s, sosmc_write put, void *ctx);
sosmc_status stepper_load(stepper *s, sosmc_read get, void *ctx);

/* DIR/trace.csv and DIR/timing.csv, of which the rows before `from` are kept, and the row of the last iteration or step. The
 * solver's columns are those of sosmc_solve_info; step counts from 0, as iterations do. */
int stepper_open_trace(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room);
int stepper_open_timing(const stepper *s, trace **out, const char *path, int64_t from, char *error, size_t room);
void stepper_row(const stepper *s, trace *t);

#endif
