/* threads.c: a pool of threads that runs numbered tasks.
 *
 * Tasks are handed out by a counter, so a thread that is held up delays nobody; which worker runs a task never influences
 * its result. A worker that finds no work spins for a while (an iteration has several phases, microseconds apart) and
 * then sleeps. Invariant: when sosmc_i_parallel returns, no worker touches the job. */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

struct pool {
    int threads, spins;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint generation; /* counts jobs; a change tells the workers to look */
    atomic_int next;        /* the next task */
    atomic_int busy;        /* helpers that have not finished the job */
    atomic_int sleepers;
    atomic_llong failed; /* task * 256 - status of the lowest task that failed */
    atomic_int stop;
    pool_task task;
    void *ctx;
    int tasks;
    int started;
    struct helper { /* entry 0 is the caller */
        pthread_t id;
        pool *pool;
        int worker;
    } helper[];
};

static const long long NO_FAILURE = INT64_MAX;

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void record_failure(pool *p, int task, sosmc_status status)
{
    long long mine = (long long)task * 256 - (long long)status, seen = atomic_load(&p->failed);
    while (mine < seen && !atomic_compare_exchange_weak(&p->failed, &seen, mine)) {
    }
}

static void work_through(pool *p, int worker)
{
    for (;;) {
        int task = atomic_fetch_add(&p->next, 1);
        if (task >= p->tasks) return;
        sosmc_status status = p->task(p->ctx, task, worker);
        if (status != SOSMC_OK) record_failure(p, task, status);
    }
}

static void wait_for_job(pool *p, unsigned seen)
{
    for (int i = 0; i < p->spins; i++) {
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    pool *p = h->pool;
    unsigned seen = 0;
    for (;;) {
        wait_for_job(p, seen);
        seen++;
        if (atomic_load(&p->stop)) return NULL;
        work_through(p, h->worker);
        atomic_fetch_sub(&p->busy, 1);
    }
}

static void announce(pool *p)
{
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
}

size_t sosmc_i_pool_bytes(int threads) { return sizeof(pool) + (size_t)threads * sizeof(struct helper); }

int sosmc_i_pool_threads(const pool *p) { return p ? p->threads : 1; }

pool *sosmc_i_pool_start(void *memory, int threads)
{
    pool *p = memory;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    p->threads = threads;
    p->spins = threads <= cores ? 20000
                                : 100; /* with more threads than cores, spinning keeps the others from working */
    p->started = 0;
    atomic_init(&p->generation, 0);
    atomic_init(&p->next, 0);
    atomic_init(&p->busy, 0);
    atomic_init(&p->sleepers, 0);
    atomic_init(&p->stop, 0);
    atomic_init(&p->failed, NO_FAILURE);
    if (pthread_mutex_init(&p->lock, NULL)) return NULL;
    if (pthread_cond_init(&p->wake, NULL)) {
        pthread_mutex_destroy(&p->lock);
        return NULL;
    }
    for (int i = 1; i < threads; i++) {
        struct helper *h = &p->helper[i];
        h->pool = p;
        h->worker = i;
        if (pthread_create(&h->id, NULL, helper_main, h)) {
            sosmc_i_pool_stop(p);
            return NULL;
        }
        p->started++;
    }
    return p;
}

void sosmc_i_pool_stop(pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, 1);
    announce(p);
    for (int i = 1; i <= p->started; i++) pthread_join(p->helper[i].id, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
}

static sosmc_status run_alone(pool_task task, void *ctx, int n)
{
    sosmc_status first = SOSMC_OK;
    for (int i = 0; i < n; i++) {
        sosmc_status status = task(ctx, i, 0);
        if (first == SOSMC_OK) first = status;
    }
    return first;
}

sosmc_status sosmc_i_parallel(pool *p, pool_task task, void *ctx, int n)
{
    if (!p || p->threads < 2 || n < 2) return run_alone(task, ctx, n);
    p->task = task;
    p->ctx = ctx;
    p->tasks = n;
    atomic_store(&p->failed, NO_FAILURE);
    atomic_store(&p->next, 0);
    atomic_store(&p->busy, p->threads - 1);
    announce(p);
    work_through(p, 0);
    for (int i = 0; atomic_load_explicit(&p->busy, memory_order_acquire) > 0; i++) {
        relax();
        if (i > p->spins) {
            sched_yield();
            i = 0;
        }
    }
    long long failed = atomic_load(&p->failed);
    return failed == NO_FAILURE ? SOSMC_OK : (sosmc_status)(-(failed % 256));
}
