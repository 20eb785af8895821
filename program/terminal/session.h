/* session.h: a run as a person at a terminal meets it: progress while it goes on, Ctrl-C to stop it, its report, and what it
 * found in a few lines. */
#ifndef SOSMC_TERMINAL_SESSION_H
#define SOSMC_TERMINAL_SESSION_H

#include "run/lock.h"
#include "runfile/config.h"

typedef struct {
    const char *out; /* the run directory */
    int resume, overwrite;
    int judge;  /* with resume: no iteration is made; the directory is judged as it is */
    int strict; /* SOSMC_EXIT_UNTRUSTED unless the verdict is that the run has converged */
    int quiet;  /* no progress and no closing lines; what speaks against the result is printed all the same */
    int experiment; /* part of an experiment, which has a page of its own: what speaks against the result goes to summary.json alone */
    double budget_seconds; /* 0: none */
    /* These are as in run_options. */
    int accept_changed, unnamed;
    run_lock *lock;
    const char *root, *photo;
} session_options;

/* Runs a resolved run file into its directory and writes the report; returns the exit code, having said on standard error what
 * went wrong. */
int session_run(const config *c, const session_options *options);

/* SOSMC_EXIT_OK where the run finds the memory that it takes, for commands that prepare a directory before they run; otherwise the
 * exit code, having said why not. */
int session_fits(const config *c);

/* --print: the resolved run file on standard output, below a comment that says how much memory its run takes. Returns the exit
 * code. */
int session_print(const config *c);

#endif
