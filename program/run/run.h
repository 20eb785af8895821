/* run.h: one run and its directory, without a terminal: nothing here prints or asks for signals. The caller hands in
 * functions that receive the progress and decide when to stop, and gets a status with a sentence, and the outcome of the run.
 * Any number of runs may go on at once, in different directories, in threads of one process. */
#ifndef SOSMC_RUN_RUN_H
#define SOSMC_RUN_RUN_H

#include "runfile/config.h"
#include "hooks.h"
#include "lock.h"
#include "outcome.h"

typedef struct {
    const char *out; /* the run directory */
    int resume, overwrite;
    int judge;             /* with resume: no iteration is made; what the directory holds is judged, and told again */
    double budget_seconds; /* 0: none */
    int accept_changed;    /* with resume: go on although an input file has changed */
    int unnamed;           /* nobody chose the directory: it is not taken from another run file that began there */
    /* The lock of the directory: one that the caller has taken; one that is not taken, which the run takes and leaves to the
     * caller; NULL: the run takes one until it ends. */
    run_lock *lock;
    const char *root;  /* the directory with which it would be moved; NULL: itself */
    const char *photo; /* what the command reads besides the files of the run file; NULL: nothing */
} run_options;

typedef enum {
    RUN_OK = 0,
    RUN_STOPPED,  /* the caller asked to stop; it can be continued */
    RUN_EUSAGE,   /* the run file or the directory is not as it must be */
    RUN_ENUMERIC, /* values that are not finite, a cloud that has collapsed, or no memory */
    RUN_EIO,      /* a file could not be read or written */
    RUN_EBUSY     /* another process writes to the directory */
} run_status;

typedef struct {
    run_status status;
    char message[2048]; /* what went wrong, or that it was stopped; empty otherwise */
    int complete;       /* there was nothing left to do: the directory holds the whole run */
    int64_t iterations; /* behind the run; of an automatic one, the solver's steps */
    int automatic;      /* the settings are */
    const char
        *limit; /* what ended an automatic run before it was done: "seconds", "evaluations", "budget"; NULL: nothing */
    double seconds;  /* that they took, in all processes that worked on them */
    int verdict;     /* sosmc_verdict_status; -1: there is none */
    outcome outcome; /* of RUN_OK and RUN_STOPPED, unless `complete`, and of a run that broke off */
} run_result;

/* Runs a resolved run file into its directory. The report is not written: see report.h. hooks may be NULL. Call
 * run_result_free in any case. */
run_status run_execute(const config *c, const run_options *options, const run_hooks *hooks, run_result *out);
void run_result_free(run_result *result);

#endif
