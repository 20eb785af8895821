/* threads.h: a crew of threads that runs numbered tasks. */
#ifndef SOSMC_BASE_THREADS_H
#define SOSMC_BASE_THREADS_H

#include <sosmc/sosmc.h>

typedef struct crew crew;
typedef sosmc_status (*crew_task)(void *ctx, int task, int worker);

size_t sosmc_i_crew_bytes(int threads);
/* Starts threads-1 helpers in memory given by the caller; NULL if a thread cannot be started. */
crew *sosmc_i_crew_start(void *memory, int threads);
void sosmc_i_crew_stop(crew *p);      /* p may be NULL */
int sosmc_i_crew_lost(const crew *p); /* this process was forked from the one whose threads they are */
int sosmc_i_crew_threads(const crew *p);

/* Runs tasks 0..n-1, each exactly once, on any worker; returns the status of the lowest-numbered task that failed.
 * p NULL: all on the calling thread, as worker 0. A task fails with one of the negative statuses. */
sosmc_status sosmc_i_parallel(crew *p, crew_task task, void *ctx, int n);

#endif
