/* run.h: one run and its directory. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "config.h"
#include "exit_codes.h"

typedef struct {
    const char *out; /* the run directory */
    int resume, overwrite;
    int quiet;      /* no progress, no closing words; warnings are said all the same */
    int experiment; /* part of an experiment, whose page speaks for its runs: warnings go to summary.json alone */
    double budget_seconds; /* 0: none */
} run_options;

/* Runs a resolved run file into its directory; returns the exit code, having said on standard error what went wrong. */
int run_job(const config *c, const run_options *options);

/* "sosmc: SENTENCE" on standard error; returns `code`, so that `return complain(...)` reads well. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exit code of a command that returned `code`: what looked like an error of usage is one of memory, if it ran out. */
int complain_code(int code);

#endif
