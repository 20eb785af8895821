/* progress.h: what a long run shows: one live line on a terminal, a line every few seconds in a log, nothing when quiet. */
#ifndef SOSMC_TERMINAL_PROGRESS_H
#define SOSMC_TERMINAL_PROGRESS_H

#include <stdio.h>

#include <sosmc/solve.h>
#include <sosmc/temper.h>

#include "run/clock.h"

typedef struct {
    FILE *out;
    int quiet, terminal;
    double begun, last; /* seconds on the monotonic clock */
    int64_t first;      /* what was done before this process began */
    size_t shown;       /* characters of the live line */
} progress;

void progress_begin(progress *p, int quiet, int64_t first);
/* `what` is the middle of the line. The head ("12/1000 ...") and the tail ("... 3 s left", from the pace so far) are added.
 * */
void progress_show(progress *p, int64_t done, int64_t total, const char *what);
/* For callers that have an estimate of their own of the seconds left (NAN: unknown). They ask progress_due whether it is
 * time for a line before they call progress_line. */
int progress_due(const progress *p);
void progress_line(progress *p, int64_t done, int64_t total, const char *what, double left);
/* `strength` is the strength of the prior that a model learns; NAN: it has none. Without `weighted` no ESS is shown. */
void progress_info(progress *p, int64_t done, int64_t total, const sosmc_info *info, double strength, int weighted);
/* A solver: its phase, the loss with its error where it is known, theta, and what is left against what may be left. */
void progress_solve(progress *p, const sosmc_solve_info *info, const double *theta, int dim_theta);
void progress_temper(progress *p, const sosmc_sampler_info *info);
void progress_end(progress *p); /* clears the live line */

#endif
