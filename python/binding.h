/* binding.h: what stands between the library and Python. Callbacks of the library arrive here and are handed to Python with plain
 * numbers instead of structs, because those cost less to convert; iterations are written down here, so that a run enters Python
 * only where a Python function has to answer.
 *
 * Declarations only: cffi_build.py hands this file to cffi as it is. */
#ifndef SOSMC_PYTHON_BINDING_H
#define SOSMC_PYTHON_BINDING_H

#include <sosmc/analysis.h>
#include <sosmc/solve.h>

/* Functions for sosmc_model, sosmc_score, sosmc_source and sosmc_optimiser whose `self` is a handle of cffi. Models need 8 bytes of
 * `work`: there stands the number of the forward pass that the batch was evaluated by. */
int binding_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx);
int binding_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
int binding_scores(const void *self, const double *theta, const sosmc_batch *b, double *D);
int binding_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p);
int binding_reward(const void *self, const sosmc_batch *b, double *s);
int binding_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x);
int binding_logpdf(const void *self, const sosmc_batch *b, double *lq);

/* The trace of a run: a row of numbers per iteration. The columns are those of trace.csv: the fields of sosmc_info, then theta, or
 * its norm alone where it has more than 64 numbers. */
enum { BINDING_COLUMNS = 20, BINDING_THETAS = 64 };
typedef struct {
    double *row; /* rows of `columns` */
    int64_t rows, room;
    int columns, dim_theta;
    double every; /* seconds between two calls of `see`; 0: every iteration; negative: never */
    double next;
    void *handle; /* of Python, for `see` */
    int no_memory;
} binding_trace;
/* For sosmc_run, with a binding_trace as context. */
int binding_observe(void *ctx, const sosmc *s, const sosmc_info *info);
int binding_record(binding_trace *t, const sosmc *s, const sosmc_info *info); /* the row alone */
void binding_trace_clear(binding_trace *t);
/* For sosmc_solver_run, with a handle of Python as context. */
int binding_observe_solver(void *ctx, const sosmc_solver *s, const sosmc_solve_info *info);
int binding_stop(void *handle); /* for sosmc_judge_options.stop */

/* Keeps memory that was freed for the next allocation instead of giving it back to the system, for the whole process: temporary
 * arrays then cost no page faults. Returns 0 where the C library knows no such thing. */
int binding_keep_memory(void);

#endif
