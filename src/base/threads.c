/* threads.c: a crew of threads that runs numbered tasks.
 *
 * Worker w owns a contiguous share of the tasks, the same in every phase, so that a tile's numbers stay in the cache of one
 * core; a worker that has finished its share takes tasks from the others. The caller waits for the tasks, not for the
 * helpers: a helper that the system has suspended causes no delay as long as it holds no task. Which worker runs a task never
 * influences its result. A helper that finds no work spins for a while (an iteration has several phases, microseconds apart)
 * and then sleeps.
 *
 * A share's `claim` holds the job's number (high half) and its next task (low half). Invariant: the fields of a job change
 * only while the low halves are CLOSED, which is more than any number of tasks; so a thread that advances a claim by
 * compare-and-swap has read the fields of the very job whose task it takes.
 *
 * Helpers are guests in the host's process: they block all signals, so that the host's handlers run on the host's threads, and every
 * task begins in the standard floating-point environment, whatever the one before it or the host has set. A child of fork has
 * the memory of a crew and none of its threads: there the crew can be stopped, and nothing else. */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "arithmetic.h"

typedef struct {
    _Alignas(64) _Atomic uint64_t claim; /* on a cache line of its own */
} share;

struct crew {
    int threads, spins;
    pid_t process; /* whose threads the helpers are */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int tasks, done; /* of the present job */
    atomic_int sleepers, stop;
    atomic_llong failed; /* task * 256 - status of the lowest task that failed */
    crew_task task;
    void *ctx;
    int started;
    struct helper { /* entry 0 is the caller */
        pthread_t id;
        crew *crew;
        int worker;
        share share;
    } helper[];
};

static const uint64_t CLOSED = 0xffffffffu;
static const long long NO_FAILURE = INT64_MAX;

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void record_failure(crew *p, int task, sosmc_status status)
{
    long long mine = (long long)task * 256 - (long long)status, seen = atomic_load(&p->failed);
    while (mine < seen && !atomic_compare_exchange_weak(&p->failed, &seen, mine)) {
    }
}

static uint64_t bound(int tasks, int worker, int threads) { return (uint64_t)((int64_t)tasks * worker / threads); }

/* The next task of a share, or -1. */
static int claim_from(crew *p, int owner)
{
    _Atomic uint64_t *next = &p->helper[owner].share.claim;
    uint64_t claim = atomic_load(next);
    while ((claim & CLOSED) < bound(atomic_load(&p->tasks), owner + 1, p->threads))
        if (atomic_compare_exchange_weak(next, &claim, claim + 1)) return (int)(claim & CLOSED);
    return -1;
}

static int has_work(crew *p)
{
    for (int w = 0; w < p->threads; w++) {
        uint64_t claim = atomic_load(&p->helper[w].share.claim);
        if ((claim & CLOSED) < bound(atomic_load(&p->tasks), w + 1, p->threads)) return 1;
    }
    return 0;
}

static void work_through(crew *p, int worker)
{
    for (int i = 0; i < p->threads; i++) {
        int owner = worker + i < p->threads ? worker + i : worker + i - p->threads, task;
        while ((task = claim_from(p, owner)) >= 0) {
            sosmc_i_arithmetic_set();
            sosmc_status status = p->task(p->ctx, task, worker);
            if (status != SOSMC_OK) record_failure(p, task, status);
            atomic_fetch_add(&p->done, 1);
        }
    }
}

static void wait_for_work(crew *p)
{
    for (int i = 0; i < p->spins; i++) {
        if (has_work(p) || atomic_load(&p->stop)) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    /* Counted before the last check, so that a job announced meanwhile is either seen there or wakes this thread. */
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_work(p) && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *helper_main(void *arg)
{
    const struct helper *h = arg;
    while (!atomic_load(&h->crew->stop)) {
        work_through(h->crew, h->worker);
        wait_for_work(h->crew);
    }
    return NULL;
}

static void wake_waiting(crew *p)
{
    if (atomic_load(&p->sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

size_t sosmc_i_crew_bytes(int threads) { return sizeof(crew) + (size_t)threads * sizeof(struct helper); }

int sosmc_i_crew_threads(const crew *p) { return p ? p->threads : 1; }

int sosmc_i_crew_lost(const crew *p) { return p && p->process != getpid(); }

/* A new thread has the signal mask of the one that starts it. */
static int start_helper(struct helper *h)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) return -1;
    int failed = pthread_create(&h->id, NULL, helper_main, h);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

crew *sosmc_i_crew_start(void *memory, int threads)
{
    crew *p = memory;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    p->threads = threads;
    p->process = getpid();
    p->spins = threads <= cores ? 20000 : 100; /* with too few cores, spinning keeps the others from working */
    p->started = 0;
    for (int w = 0; w < threads; w++) atomic_init(&p->helper[w].share.claim, CLOSED);
    atomic_init(&p->tasks, 0);
    atomic_init(&p->done, 0);
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
        h->crew = p;
        h->worker = i;
        if (start_helper(h)) {
            sosmc_i_crew_stop(p);
            return NULL;
        }
        p->started++;
    }
    return p;
}

void sosmc_i_crew_stop(crew *p)
{
    if (!p || sosmc_i_crew_lost(p)) return; /* a helper that is not in this process may have held the lock */
    atomic_store(&p->stop, 1);
    wake_waiting(p);
    for (int i = 1; i <= p->started; i++) pthread_join(p->helper[i].id, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
}

static sosmc_status run_alone(crew_task task, void *ctx, int n)
{
    sosmc_status first = SOSMC_OK;
    for (int i = 0; i < n; i++) {
        sosmc_i_arithmetic_set();
        sosmc_status status = task(ctx, i, 0);
        if (first == SOSMC_OK) first = status;
    }
    return first;
}

sosmc_status sosmc_i_parallel(crew *p, crew_task task, void *ctx, int n)
{
    STANDARD_ARITHMETIC;
    if (!p || p->threads < 2 || n < 2) return run_alone(task, ctx, n);
    uint64_t job = ((atomic_load(&p->helper[0].share.claim) >> 32) + 1) << 32;
    for (int w = 0; w < p->threads; w++) atomic_store(&p->helper[w].share.claim, job | CLOSED);
    p->task = task;
    p->ctx = ctx;
    atomic_store(&p->tasks, n);
    atomic_store(&p->done, 0);
    atomic_store(&p->failed, NO_FAILURE);
    for (int w = 0; w < p->threads; w++) atomic_store(&p->helper[w].share.claim, job | bound(n, w, p->threads));
    wake_waiting(p);
    work_through(p, 0);
    for (int i = 0; atomic_load(&p->done) < n; i++) {
        relax();
        if (i > p->spins) {
            sched_yield();
            i = 0;
        }
    }
    long long failed = atomic_load(&p->failed);
    return failed == NO_FAILURE ? SOSMC_OK : (sosmc_status)(-(failed % 256));
}
