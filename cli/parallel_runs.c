/* parallel_runs.c: a handful of threads that take the next job from a counter until none is left. */
#include "parallel_runs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "files.h"
#include "interrupt.h"
#include "progress.h"

enum { SENTENCE = 512, MOST_THREADS = 64 };
static const struct timespec glance = {.tv_nsec = 20000000};

typedef struct {
    parallel_run run;
    void *context;
    int jobs;
    atomic_int next, done, failed, left; /* left: threads still at work */
    pthread_mutex_t lock;
    char error[SENTENCE];
} crew;

static void *work(void *arg)
{
    crew *c = arg;
    for (;;) {
        int job = atomic_fetch_add(&c->next, 1);
        if (job >= c->jobs || interrupt_requested() || atomic_load(&c->failed)) break;
        char error[SENTENCE] = "";
        if (c->run(c->context, job, error, sizeof error)) {
            (void)pthread_mutex_lock(&c->lock);
            if (!atomic_exchange(&c->failed, 1)) (void)snprintf(c->error, sizeof c->error, "%s", error);
            (void)pthread_mutex_unlock(&c->lock);
        }
        atomic_fetch_add(&c->done, 1);
    }
    atomic_fetch_sub(&c->left, 1);
    return NULL;
}

int parallel_runs(parallel_run run, void *context, int jobs, int threads, int quiet, char *error, size_t room)
{
    pthread_t helper[MOST_THREADS] = {0};
    crew c = {.run = run, .context = context, .jobs = jobs};
    progress bar;
    int wanted = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads, started = 0;
    if (wanted > jobs) wanted = jobs;
    (void)pthread_mutex_init(&c.lock, NULL);
    progress_begin(&bar, quiet, 0);
    for (; started < wanted; started++) {
        atomic_fetch_add(&c.left, 1);
        if (pthread_create(&helper[started], NULL, work, &c)) {
            atomic_fetch_sub(&c.left, 1);
            break;
        }
    }
    while (atomic_load(&c.left) > 0) {
        (void)nanosleep(&glance, NULL);
        progress_show(&bar, atomic_load(&c.done), jobs, "runs");
    }
    for (int i = 0; i < started; i++) (void)pthread_join(helper[i], NULL);
    progress_end(&bar);
    (void)pthread_mutex_destroy(&c.lock);
    if (jobs > 0 && started == 0)
        return files_fail(error, room,
                          "no thread could be started: out of memory, or the system allows no more of them");
    if (interrupt_requested()) return files_fail(error, room, "interrupted");
    if (atomic_load(&c.failed)) return files_fail(error, room, "%s", c.error);
    return 0;
}
