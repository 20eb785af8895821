/* problem.h: from a resolved run file to what sosmc_create takes. */
#ifndef CLI_PROBLEM_H
#define CLI_PROBLEM_H

#include <sosmc/sosmc.h>

#include "config.h"

typedef struct {
    sosmc_problem problem;
    sosmc_settings settings;
    int64_t iterations;
    struct parts *parts; /* what the values above point to */
} job;

/* 0, or -1 with one sentence in `error`; then *io tells whether a file was to blame. */
int job_build(job *out, const config *c, int *io, char *error, size_t room);
void job_free(job *j);

/* Maximum marginal likelihood with a scalar theta: Louis' observed information under the engine's cloud; NaN where the model
 * cannot tell. */
double job_information(const job *j, const sosmc *s);

#endif
