/* threads.h: a pool of threads that runs numbered tasks. */
#ifndef SOSMC_THREADS_H
#define SOSMC_THREADS_H

#include <sosmc/sosmc.h>

typedef struct pool pool;
typedef sosmc_status (*pool_task)(void *ctx, int task, int worker);

size_t sosmc_i_pool_bytes(int threads);
/* Starts threads-1 helpers in memory given by the caller; NULL if a thread cannot be started. */
pool *sosmc_i_pool_start(void *memory, int threads);
void sosmc_i_pool_stop(pool *p); /* NULL is fine */
int sosmc_i_pool_threads(const pool *p);

/* Runs tasks 0..n-1, each exactly once, on any worker; returns the status of the lowest-numbered task that failed.
 * p NULL: all on the calling thread, as worker 0. A task fails with one of the negative statuses. */
sosmc_status sosmc_i_parallel(pool *p, pool_task task, void *ctx, int n);

#endif
