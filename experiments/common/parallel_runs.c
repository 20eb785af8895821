/* parallel_runs.c: a handful of threads that take the next job from a counter until none is left. */
#include "parallel_runs.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "files/files.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

enum { SENTENCE = 512, MOST_THREADS = 64 };
static const struct timespec glance = {.tv_nsec = 20000000};
static const double MOMENT = 1; /* seconds: less than that is no run, unless all are like that */

typedef struct {
    const parallel_work *work;
    atomic_int next, done, failed, left; /* left: threads still at work */
    pthread_mutex_t lock;                /* of what follows */
    parallel_job *job;
    char error[SENTENCE];
} crew;

/* ---------------------------------------------------------------------------- how long it will take */

/* Seconds for a unit of cost, by the jobs that took at least so long. */
static double pace(const parallel_job *job, int jobs, double least)
{
    double seconds = 0, cost = 0;
    for (int i = 0; i < jobs; i++)
        if (job[i].ended - job[i].begun >= least) { /* false for those that have not ended */
            seconds += job[i].ended - job[i].begun;
            cost += job[i].cost;
        }
    return cost > 0 ? seconds / cost : NAN;
}

double parallel_left(const parallel_job *job, int jobs, int threads, double now)
{
    double all = 0, longest = 0, unit = pace(job, jobs, MOMENT);
    int long_ones = 0;
    for (int i = 0; i < jobs; i++) long_ones |= isnan(job[i].ended) && now - job[i].begun >= MOMENT;
    if (isnan(unit) && !long_ones) unit = pace(job, jobs, 0);
    for (int i = 0; i < jobs; i++) {
        if (!isnan(job[i].ended)) continue;
        double need = job[i].cost * unit, spent = isnan(job[i].begun) ? 0 : now - job[i].begun;
        need = need < spent ? 0 : need - spent;
        all += need / threads;
        if (need > longest) longest = need;
    }
    return all < longest ? longest : all;
}

/* ---------------------------------------------------------------------------- work */

static void note(crew *c, double *when)
{
    (void)pthread_mutex_lock(&c->lock);
    *when = monotonic_seconds();
    (void)pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
    crew *c = arg;
    for (;;) {
        int job = atomic_fetch_add(&c->next, 1);
        if (job >= c->work->jobs || interrupt_requested() || atomic_load(&c->failed)) break;
        char error[SENTENCE] = "";
        note(c, &c->job[job].begun);
        if (c->work->run(c->work->context, job, error, sizeof error)) {
            (void)pthread_mutex_lock(&c->lock);
            if (!atomic_exchange(&c->failed, 1)) (void)snprintf(c->error, sizeof c->error, "%s", error);
            (void)pthread_mutex_unlock(&c->lock);
        }
        note(c, &c->job[job].ended);
        atomic_fetch_add(&c->done, 1);
    }
    atomic_fetch_sub(&c->left, 1);
    return NULL;
}

static void show(crew *c, progress *bar, int threads)
{
    if (!progress_due(bar)) return;
    (void)pthread_mutex_lock(&c->lock);
    double left = parallel_left(c->job, c->work->jobs, threads, monotonic_seconds());
    (void)pthread_mutex_unlock(&c->lock);
    progress_line(bar, atomic_load(&c->done), c->work->jobs, "runs", left);
}

int parallel_runs(const parallel_work *w, char *error, size_t room)
{
    pthread_t helper[MOST_THREADS] = {0};
    crew c = {.work = w, .job = calloc((size_t)w->jobs + 1, sizeof *c.job)};
    progress bar;
    int wanted = w->threads < 1 ? 1 : w->threads > MOST_THREADS ? MOST_THREADS : w->threads, started = 0;
    if (!c.job) return files_fail(error, room, "out of memory");
    if (wanted > w->jobs) wanted = w->jobs;
    for (int i = 0; i < w->jobs; i++)
        c.job[i] = (parallel_job){.cost = w->cost ? w->cost(w->context, i) : 1, .begun = NAN, .ended = NAN};
    (void)pthread_mutex_init(&c.lock, NULL);
    progress_begin(&bar, w->quiet, 0);
    for (; started < wanted; started++) {
        atomic_fetch_add(&c.left, 1);
        if (pthread_create(&helper[started], NULL, work, &c)) {
            atomic_fetch_sub(&c.left, 1);
            break;
        }
    }
    while (atomic_load(&c.left) > 0) {
        (void)nanosleep(&glance, NULL);
        show(&c, &bar, started);
    }
    for (int i = 0; i < started; i++) (void)pthread_join(helper[i], NULL);
    progress_end(&bar);
    (void)pthread_mutex_destroy(&c.lock);
    free(c.job);
    if (w->jobs > 0 && started == 0)
        return files_fail(error, room,
                          "no thread could be started: out of memory, or the system allows no more of them");
    if (interrupt_requested()) return files_fail(error, room, "interrupted");
    if (atomic_load(&c.failed)) return files_fail(error, room, "%s", c.error);
    return 0;
}
