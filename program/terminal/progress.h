/* progress.h: what a long run shows: one live line on a terminal, a line every few seconds in a log, nothing when quiet. */
#ifndef SOSMC_TERMINAL_PROGRESS_H
#define SOSMC_TERMINAL_PROGRESS_H

#include <stdio.h>

#include <sosmc/sosmc.h>

#include "run/clock.h"

typedef struct {
    FILE *out;
    int quiet, terminal;
    double begun, last; /* seconds on the monotonic clock */
    int64_t first;      /* what was done before this process began */
    size_t shown;       /* characters of the live line */
} progress;

void progress_begin(progress *p, int quiet, int64_t first);
/* `what` is the line without its head ("12/1000 ...") and its tail ("... 3 s left"), which is what the pace so far promises. */
void progress_show(progress *p, int64_t done, int64_t total, const char *what);
/* For those who know better what is left (seconds, NAN: unknown), and ask first whether a line is due. */
int progress_due(const progress *p);
void progress_line(progress *p, int64_t done, int64_t total, const char *what, double left);
/* `strength`: what a model with a prior learns, NAN: there is none; `weighted`: without weights there is no ESS to tell. */
void progress_info(progress *p, int64_t done, int64_t total, const sosmc_info *info, double strength, int weighted);
void progress_end(progress *p); /* clears the live line */

#endif
