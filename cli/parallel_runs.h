/* parallel_runs.h: independent runs shared out to threads, with one progress line for all of them. */
#ifndef CLI_PARALLEL_RUNS_H
#define CLI_PARALLEL_RUNS_H

#include <stddef.h>

/* One of them; called from several threads at once. 0, or -1 with a sentence. */
typedef int (*parallel_run)(void *context, int job, char *error, size_t room);

/* Runs the jobs 0..jobs-1 in this order. 0; -1 with the sentence of the first failure, or when interrupted (see
 * interrupt_requested): the jobs under way are then finished, no other is begun. */
int parallel_runs(parallel_run run, void *context, int jobs, int threads, int quiet, char *error, size_t room);

#endif
