/* embed.h: run files inside another program: what `sosmc run` does, as functions that neither print nor exit nor touch the
 * handling of signals. A binding to another language links the static library sosmc_embed and reads this header, so it has
 * plain declarations only: no macros, no inline functions, and no include but the public headers.
 *
 *     embed_file *f;
 *     embed_source from = {.path = "run.yaml"};
 *     if (embed_open(&f, &from, error, sizeof error) == EMBED_OK) {
 *         embed_options options = {.out = "folder"};
 *         embed_result result;
 *         embed_run(f, &options, NULL, &result);
 *         puts(result.closing);
 *         embed_result_free(&result);
 *     }
 *     embed_close(f);
 *
 * Rules that hold everywhere:
 *   - a run directory gets the bytes that `sosmc run FILE --out DIR` leaves, but for wall-clock times;
 *   - what fails returns a status and leaves one sentence, which names file and line, or the assignment, and what was expected;
 *   - everything here may be called from several threads at once; one embed_file or embed_job may serve several calls at once,
 *     and a directory has one writer (EMBED_EBUSY);
 *   - numbers are read and written with a decimal point, and sums are rounded to nearest, whatever locale and floating-point
 *     environment the caller has. Hooks are called in this state;
 *   - the report starts gnuplot, where there is one, as a child process and waits for it;
 *   - memory that runs out is EMBED_ENUMERIC with a sentence, but for the parser of JSON (Jansson), which then ends the process. */
#ifndef SOSMC_EMBED_EMBED_H
#define SOSMC_EMBED_EMBED_H

#include <sosmc/solve.h>
#include <sosmc/temper.h>

enum { EMBED_SENTENCE = 2048, EMBED_PATH = 4096, EMBED_NAME = 32 };

typedef enum {
    EMBED_OK = 0,
    EMBED_STOPPED,  /* a hook asked to stop; the run can be continued */
    EMBED_EUSAGE,   /* the run file, an assignment or the directory is not as it must be */
    EMBED_ENUMERIC, /* values that are not finite, a cloud that has collapsed, or no memory */
    EMBED_EIO,      /* a file could not be read or written */
    EMBED_EBUSY     /* somebody else writes to the directory */
} embed_status;

/* ------------------------------------------------------------------------------------------------ run files */

typedef struct embed_file embed_file; /* a run file that was checked, with every default filled in */

/* What the caller lends to a run file: what `own` stands for as model.type, objective.reward.type, objective.data.type and
 * init.type. So a model that is a function of another language is run, checkpointed, judged and reported as any other, with every
 * other key of the run file; `sosmc run` refuses such a file with a sentence, `sosmc report` does not need the model. What the
 * run file does not ask for may be NULL. */
typedef struct {
    const sosmc_model *model; /* model: {type: own, dim_x: ..., dim_theta: ...} */
    const double *theta0;     /* where theta starts */
    const char *const *names; /* of the numbers of theta; NULL: theta_1, theta_2, ... */
    int64_t observations;     /* behind a marginal likelihood, for AIC and BIC; 0: not known */
    const sosmc_score *reward;
    const sosmc_source *init;
    const sosmc_source *reference; /* draws from pi_ref, for objective.type reward_forward with an own model */
    const double *points;          /* rows of dim_x numbers, to fit */
    int64_t rows;
} embed_own;

typedef struct {
    const char *path;       /* the run file; NULL: `text` */
    const char *text;       /* the run file itself, YAML or JSON; its data files are relative to the current folder */
    const char *name;       /* of `text`: what stands for a file in sentences; NULL: "run file" */
    const char *const *set; /* assignments "KEY=VALUE", as those of --set; NULL: none */
    int sets;
    const embed_own
        *own; /* copied; what it points to is borrowed until the file and its jobs are gone. NULL: nothing is own */
} embed_source;

/* *out is NULL after a failure. embed_close takes NULL. */
embed_status embed_open(embed_file **out, const embed_source *from, char *error, size_t room);
void embed_close(embed_file *f);

/* Text that belongs to the caller, who gives it back with embed_text_free; NULL: there is no memory. */
char *embed_yaml(const embed_file *f); /* the resolved run file, as `sosmc run FILE --print` shows it */
char *embed_json(const embed_file *f); /* the same values as nested JSON objects */
/* The table of keys, as `sosmc list --json` prints it: {"keys": [{"key", "type", "bare", "values", "range",
 * "required", "default", "derived", "when", "chosen", "expected", "meaning"}, ...], "choices": [{"key", "value", "meaning"}, ...],
 * "methods": [{"name", "scheme", "values"}, ...]}. docs/run-file.md, which is made from the same table, explains them. */
char *embed_keys(void);
void embed_text_free(char *text);

/* ------------------------------------------------------------------------------------------------ runs */

typedef struct {
    int64_t done, total;           /* iterations; of an automatic run the solver's steps, whose total is not known: 0 */
    const sosmc_info *info;        /* of the last iteration; NULL: the run is automatic, or tempers */
    const sosmc_solve_info *solve; /* of the solver's last step; NULL: it is not automatic */
    const double *theta;
    int dim_theta;
    const sosmc_sampler_info
        *temper; /* of the last step of a run that tempers (objective.type temper); NULL: it does not */
} embed_progress;

/* Functions that a run calls, each from the thread of embed_run; each may be NULL. */
typedef struct {
    int (*stop)(void *ctx);  /* between iterations: non-zero ends the run there, with everything saved */
    int (*saves)(void *ctx); /* likewise: how often a checkpoint was asked for; one more: it is saved now */
    void (*progress)(void *ctx, const embed_progress *p); /* before the first iteration and after each */
    void (*log)(void *ctx, const char *sentence); /* what `sosmc run` says on standard error while the run goes on */
    void *ctx;
} embed_hooks;

typedef struct {
    const char *out; /* the run directory; NULL: the name of the run file without .yaml, in the current folder */
    int resume, overwrite, accept_changed; /* the flags of `sosmc run` */
    int judge;             /* what the directory holds is judged, as by `sosmc judge`; no iteration is made */
    double budget_seconds; /* 0: none */
} embed_options;

typedef struct {
    embed_status status;
    char message[EMBED_SENTENCE]; /* what went wrong, or that it was stopped; empty otherwise */
    char directory[EMBED_PATH];   /* where the results are */
    int complete;                 /* there was nothing left to do: the directory held the whole run */
    int automatic;                /* the settings are: a solver was run */
    int64_t iterations;           /* behind the run; of an automatic one, the solver's steps */
    double seconds;               /* that they took, in all processes that worked on them */
    int verdict;                  /* sosmc_verdict_status; -1: there is none */
    char limit
        [16]; /* what ended an automatic run before it was done: "seconds", "evaluations", "budget"; empty: nothing */
    char *closing; /* the lines with which `sosmc run` closes; NULL: after a failure */
    char *against; /* sentences that speak against the result, a line each, as they go to standard error; NULL: none */
} embed_result;

/* Runs it, writes the results and, where the run file asks for it, the report. hooks may be NULL. Call embed_result_free in any
 * case. */
embed_status embed_run(const embed_file *f, const embed_options *options, const embed_hooks *hooks, embed_result *out);
void embed_result_free(embed_result *result);
/* The lock that a run takes, for a caller that writes a run directory itself, and whether a run made what is in the directory.
 * embed_claim_free gives the lock back, also after a failure; NULL is fine. */
typedef struct embed_claim embed_claim;
embed_status embed_claim_take(embed_claim **out, const char *dir, int *ours, char *error, size_t room);
void embed_claim_free(embed_claim *c);
/* DIR/report.html and DIR/figures, written again, as by `sosmc report`. */
embed_status embed_report(const char *dir, char *error, size_t room);

/* ------------------------------------------------------------------------------------------------ values of the library */

/* What a run file describes, as the values that sosmc_create, sosmc_solver_create or sosmc_sampler_create take. They point into the job, which must
 * be kept until the engine or the solver is freed; the file may be closed before. */
typedef struct embed_job embed_job;
embed_status embed_job_make(embed_job **out, const embed_file *f, char *error, size_t room);
void embed_job_free(embed_job *j);

const sosmc_problem *embed_job_problem(const embed_job *j);
int embed_job_automatic(const embed_job *j); /* the solver chooses the settings */
/* Of an automatic job the library's defaults with the seed, threads and particles of the file. */
const sosmc_settings *embed_job_settings(const embed_job *j);
const sosmc_solve_options *embed_job_solve(const embed_job *j);               /* NULL: the job is not automatic */
const sosmc_temper_task *embed_job_temper(const embed_job *j);                /* NULL: objective.type is not temper */
int64_t embed_job_iterations(const embed_job *j);                             /* 0: it is, or tempers */
void embed_job_theta_name(const embed_job *j, int k, char *out, size_t room); /* EMBED_NAME bytes suffice */

/* What sosmc_judge_options takes: the observations behind a marginal likelihood, 0: not known; and why exp(-U_theta) has no
 * normalising constant that could be told, NULL: it has one. */
int64_t embed_job_rows(const embed_job *j);
const char *embed_job_why_no_log_z(const embed_job *j);

/* EMBED_OK where the memory that a run of this job takes is free; else EMBED_ENUMERIC, with a sentence that has both numbers and, where
 * that helps, how many particles fit. To be asked before an engine or a solver is created. */
embed_status embed_job_fits(const embed_job *j, char *error, size_t room);

#endif
