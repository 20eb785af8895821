/* parallel_runs.h: independent runs shared out to threads, with one progress line for all of them. */
#ifndef CLI_PARALLEL_RUNS_H
#define CLI_PARALLEL_RUNS_H

#include <stddef.h>

typedef struct {
    /* One of them; called from several threads at once. 0, or -1 with a sentence. */
    int (*run)(void *context, int job, char *error, size_t room);
    /* What it takes, in any unit; NULL: each takes as long as any other. Only the time left is told by it. */
    double (*cost)(const void *context, int job);
    void *context;
    int jobs, threads, quiet;
} parallel_work;

/* Runs the jobs 0..jobs-1 in this order. 0; -1 with the sentence of the first failure, or when interrupted (see
 * interrupt_requested): the jobs under way are then finished, no other is begun. */
int parallel_runs(const parallel_work *work, char *error, size_t room);

/* Seconds until all jobs are done, from the pace of those that are; NAN while nothing is known. A job that took no time was
 * found done and tells nothing. */
typedef struct {
    double cost, begun, ended; /* seconds on one clock, NAN: not yet */
} parallel_job;
double parallel_left(const parallel_job *job, int jobs, int threads, double now);

#endif
