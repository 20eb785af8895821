/* test_allocator.c: memory that runs out, and memory that is never asked for.
 *
 * For every n until sosmc_create succeeds, the n-th allocation fails, once or for good: the status is SOSMC_ENOMEM, the
 * message is readable, and whatever had been taken is given back. What is given is full of rubbish, so that nothing can
 * rely on fresh pages being zero. After a successful create nothing is allocated, neither through the injected
 * allocator nor behind its back: this program brings its own malloc, which counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sosmc/sosmc.h>

/* ---------------------------------------------------------------------------- a malloc that counts */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static atomic_long mallocs; /* stays zero where nobody counts */
static long malloc_calls(void) { return atomic_load(&mallocs); }

#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS_MALLOC 1
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *ptr);

/* Parameters are called what libc calls them. */
void *malloc(size_t __size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(__size);
}
void *calloc(size_t __nmemb, size_t __size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(__nmemb, __size);
}
void *realloc(void *__ptr, size_t __size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(__ptr, __size);
}
void *aligned_alloc(size_t __alignment, size_t __size)
{
    atomic_fetch_add(&mallocs, 1);
    return __libc_memalign(__alignment, __size);
}
void free(void *__ptr) { __libc_free(__ptr); }
#else
#define COUNTS_MALLOC 0
#endif

/* ---------------------------------------------------------------------------- an allocator that fails */

enum { MOST_LIVE = 512 };
typedef struct {
    long calls, fail_at; /* the call that fails, counted from 1; 0: none */
    int for_good;        /* all later calls fail too */
    size_t limit;        /* bytes of one request above which it fails; 0: none */
    int live, misused;
    void *block[MOST_LIVE];
} ledger;

static void *ledger_alloc(void *ctx, void *ptr, size_t bytes)
{
    ledger *l = ctx;
    if (ptr) {
        int at = 0;
        while (at < l->live && l->block[at] != ptr) at++;
        if (bytes || at == l->live) { /* the engine only allocates and frees, and only what it has */
            l->misused++;
            return NULL;
        }
        l->block[at] = l->block[--l->live];
        free(ptr);
        return NULL;
    }
    l->calls++;
    if (bytes == 0) {
        l->misused++;
        return NULL;
    }
    if (l->fail_at && (l->for_good ? l->calls >= l->fail_at : l->calls == l->fail_at)) return NULL;
    if ((l->limit && bytes > l->limit) || l->live == MOST_LIVE) return NULL;
    char *p = malloc(bytes);
    if (!p) return NULL;
    memset(p, 0xa5, bytes);
    l->block[l->live++] = p;
    return p;
}

/* --------------------------------------------------------------------------- problems that use every kind of memory */

enum { D = 3, N = 150, STEPS = 20, ROOM = 1 << 20 };
static const double Y[D] = {1.0, -2.0, 0.5}, REFERENCE[D] = {0.1, 0.2, 0.3};

static int prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, D * sizeof(double));
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *t = b->prep;
    double *work = b->work;
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - t[j], q = x - Y[j];
            U[i] += 0.5 * (p * p + q * q);
            if (gx) gx[j * b->ld + i] = p + q;
            if (gx) work[j * b->ld + i] = p;
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const double *t = b->prep, *work = b->work;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double p = b->fresh ? work[j * b->ld + i] : b->x[j * b->ld + i] - t[j];
            g[j] -= c[i] * p;
        }
    return 0;
}

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i];
    return 0;
}

/* A user's kernel with memory of its own per particle. */
static int aux_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    for (int e = 0; e < m->b.dim * m->b.ld; e++) m->aux_new[e] = m->aux[e] + 1.0;
    return ula.step(&ula, m);
}

/* Pretends to be two ranks, each of which says the same: enough for create. */
static int echo_gather(void *self, const void *mine, size_t bytes, void *all)
{
    memcpy(all, mine, bytes);
    memcpy((char *)all + bytes, mine, bytes);
    return 0;
}
static int echo_exchange(void *self, const size_t *send_bytes, const void *send, const size_t *recv_bytes, void *recv)
{
    return 0;
}

typedef struct {
    const char *name;
    sosmc_problem p;
    sosmc_settings cfg;
    int create_only;
} engine_case;

enum { PLAIN, THREADS, POOL, KEPT, DATA, REFERENCE_ENERGY, AUX, RANKS, ENGINE_CASES };

static engine_case engine_case_of(int which)
{
    engine_case w = {.p = {.model = {.dim_x = D,
                                     .dim_theta = D,
                                     .work = D * sizeof(double),
                                     .prep = D * sizeof(double),
                                     .prepare = prepare,
                                     .energy = energy,
                                     .grad_theta = grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal()},
                     .cfg = sosmc_defaults()};
    sosmc_score score = {.eval = reward};
    w.cfg.seed = 11;
    w.cfg.scheme = sosmc_scheme_sosmc(N);
    w.cfg.scheme.ess_min = 2; /* resample always */
    w.cfg.average = 0.9;
    switch (which) {
    case PLAIN: w.name = "one thread"; break;
    case THREADS:
        w.name = "three threads";
        w.cfg.threads = 3;
        w.cfg.kernel = sosmc_mala(0.1);
        break;
    case POOL:
        w.name = "pool";
        w.cfg.threads = 3;
        w.cfg.scheme = sosmc_scheme_pcd(N, 3 * N, 2);
        w.p.objective = sosmc_likelihood(sosmc_standard_normal(), 100);
        break;
    case KEPT:
        w.name = "kept sweeps";
        w.cfg.scheme = sosmc_scheme_soul(20);
        w.cfg.scheme.particles = w.cfg.scheme.pool = 70;
        w.cfg.work_limit = 0;
        break;
    case DATA:
        w.name = "data batch";
        w.cfg.threads = 3;
        w.cfg.kernel = sosmc_rwm(0.1);
        w.p.objective = sosmc_reward_forward(score, 0.5, sosmc_standard_normal(), 90, REFERENCE);
        break;
    case REFERENCE_ENERGY:
        w.name = "reference energy";
        w.cfg.kernel = sosmc_hmc(0.2, 3, 1.0);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.p.objective = sosmc_reward_reverse(score, 0.5, REFERENCE);
        break;
    case AUX:
        w.name = "a kernel with memory";
        w.cfg.kernel.name = "counting";
        w.cfg.kernel.step = aux_step;
        w.cfg.kernel.aux = 1;
        w.cfg.optimiser = sosmc_momentum(0.01, 0.9);
        break;
    default:
        w.name = "two ranks";
        w.create_only = 1;
        w.cfg.scheme = sosmc_scheme_pcd(N, 3 * N, 2);
        w.cfg.comm = (sosmc_comm){.size = 2, .allgather = echo_gather, .exchange = echo_exchange};
        break;
    }
    return w;
}

/* ---------------------------------------------------------------------------- every n-th allocation */

/* Creates with the n-th allocation failing; returns the status after checking what must hold whatever it is. */
static sosmc_status try_create(engine_case *w, long n, int for_good, long *calls)
{
    ledger l = {.fail_at = n, .for_good = for_good};
    sosmc *s = NULL;
    w->cfg.alloc = ledger_alloc;
    w->cfg.alloc_ctx = &l;
    sosmc_status status = sosmc_create(&s, &w->p, &w->cfg);
    const char *message = sosmc_message(s);
    assert_non_null(message);
    if (status == SOSMC_OK)
        assert_non_null(s);
    else
        assert_non_null(strstr(message, "memory"));
    if (status == SOSMC_OK && !w->create_only) {
        assert_int_equal(sosmc_step(s), SOSMC_OK);
        assert_int_equal(sosmc_iteration(s), 1);
    }
    sosmc_free(s);
    assert_int_equal(l.live, 0);
    assert_int_equal(l.misused, 0);
    *calls = l.calls;
    return status;
}

static void every_allocation_may_fail(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++)
        for (int for_good = 0; for_good < 2; for_good++) {
            engine_case w = engine_case_of(which);
            long total, calls, n = 1;
            assert_int_equal(try_create(&w, 0, 0, &total), SOSMC_OK);
            assert_true(total > 20);
            for (; n <= total; n++) {
                sosmc_status status = try_create(&w, n, for_good, &calls);
                if (status != SOSMC_ENOMEM) fail_msg("%s: allocation %ld of %ld: status %d", w.name, n, total, status);
            }
            assert_int_equal(try_create(&w, n, for_good, &calls), SOSMC_OK);
            assert_int_equal(calls, total);
        }
}

/* Two engines in one process do not interact: one lives on while the other fails to be born. */
static void a_failure_leaves_others_alone(void **state)
{
    engine_case w = engine_case_of(THREADS), other = engine_case_of(POOL);
    sosmc *s = NULL, *undisturbed = NULL;
    long calls;
    assert_int_equal(sosmc_create(&s, &w.p, &w.cfg), SOSMC_OK);
    assert_int_equal(sosmc_create(&undisturbed, &w.p, &w.cfg), SOSMC_OK);
    for (int k = 0; k < 10; k++) {
        assert_int_equal(sosmc_step(s), SOSMC_OK);
        assert_int_equal(sosmc_step(undisturbed), SOSMC_OK);
        assert_int_equal(try_create(&other, 5L * k + 1, 1, &calls), SOSMC_ENOMEM);
        assert_true(sosmc_hash(s) == sosmc_hash(undisturbed));
    }
    sosmc_free(s);
    sosmc_free(undisturbed);
}

/* Sizes that no machine has: refused in words, without arithmetic that wraps around. */
static void absurd_sizes_are_refused(void **state)
{
    enum {
        PARTICLES,
        DIM,
        TILE,
        THETA,
        MEMBERS,
        WORK,
        WORK_EDGE,
        PREP,
        KERNEL_SCRATCH,
        KERNEL_AUX,
        SLOTS,
        SWEEPS,
        BATCH,
        CASES
    };
    for (int which = 0; which < CASES; which++) {
        engine_case w = engine_case_of(which == MEMBERS ? POOL : which == SWEEPS ? KEPT : which == BATCH ? DATA : AUX);
        ledger l = {.limit = (size_t)16 << 20};
        sosmc *s = NULL;
        switch (which) {
        case PARTICLES: w.cfg.scheme.particles = w.cfg.scheme.pool = INT_MAX; break;
        case DIM: w.p.model.dim_x = INT_MAX; break;
        case TILE: w.p.model.tile = w.cfg.scheme.particles = w.cfg.scheme.pool = INT_MAX; break;
        case THETA: w.p.model.dim_theta = INT_MAX; break;
        case MEMBERS: w.cfg.scheme.pool = INT_MAX; break;
        case WORK: w.p.model.work = SIZE_MAX; break;
        case WORK_EDGE: w.p.model.work = SIZE_MAX / 64; break;
        case PREP: w.p.model.prep = SIZE_MAX; break;
        case KERNEL_SCRATCH: w.cfg.kernel.scratch = INT_MAX; break;
        case KERNEL_AUX: w.cfg.kernel.aux = INT_MAX; break;
        case SLOTS: w.cfg.optimiser.slots = INT_MAX; break;
        case SWEEPS:
            w.cfg.scheme.particles = w.cfg.scheme.pool = 1;
            w.cfg.scheme.sweeps = w.cfg.scheme.keep = INT_MAX;
            break;
        default: w.p.objective.batch = INT_MAX; break;
        }
        w.cfg.alloc = ledger_alloc;
        w.cfg.alloc_ctx = &l;
        sosmc_status status = sosmc_create(&s, &w.p, &w.cfg);
        if (status != SOSMC_ENOMEM && status != SOSMC_EINVAL) fail_msg("case %d: status %d", which, status);
        assert_true(strlen(sosmc_message(s)) > 10);
        sosmc_free(s);
        assert_int_equal(l.live, 0);
        assert_int_equal(l.misused, 0);
    }
}

static void nothing_to_free(void **state)
{
    engine_case w = engine_case_of(PLAIN);
    sosmc *s = (sosmc *)&w;
    sosmc_free(NULL);
    assert_non_null(strstr(sosmc_message(NULL), "memory"));
    assert_int_equal(sosmc_create(NULL, &w.p, &w.cfg), SOSMC_EINVAL);
    assert_int_equal(sosmc_create(&s, NULL, &w.cfg), SOSMC_EINVAL);
    assert_null(s);
    assert_int_equal(sosmc_create(&s, &w.p, NULL), SOSMC_EINVAL);
    assert_null(s);
}

/* ---------------------------------------------------------------------------- nothing after create */

typedef struct {
    size_t used, at;
    char bytes[ROOM];
} memory;

static int to_memory(void *ctx, const void *bytes, size_t n)
{
    memory *m = ctx;
    if (m->used + n > ROOM) return -1;
    memcpy(m->bytes + m->used, bytes, n);
    m->used += n;
    return 0;
}

static int from_memory(void *ctx, void *bytes, size_t n)
{
    memory *m = ctx;
    if (m->at + n > m->used) return -1;
    memcpy(bytes, m->bytes + m->at, n);
    m->at += n;
    return 0;
}

/* Everything an engine can be asked for; no assertion inside, for cmocka may allocate. */
static sosmc_status use(sosmc *s, const char *path, memory *m, double *x, double *logw, int *resampled)
{
    sosmc_status status = SOSMC_OK;
    m->used = m->at = 0;
    *resampled = 0;
    for (int k = 0; k < STEPS && status == SOSMC_OK; k++) {
        status = sosmc_step(s);
        *resampled += sosmc_last(s)->resampled;
        if (sosmc_hash(s) == 0) status = SOSMC_ECOMM;
        if (k != STEPS / 2) continue;
        if (status == SOSMC_OK) status = sosmc_save(s, to_memory, m);
        if (status == SOSMC_OK) status = sosmc_cloud(s, x, logw);
        if (status == SOSMC_OK) status = sosmc_load(s, from_memory, m);
        if (status == SOSMC_OK) status = sosmc_save_file(s, path);
        if (status == SOSMC_OK) status = sosmc_save_file(s, path);
        if (status == SOSMC_OK) status = sosmc_load_file(s, path);
    }
    if (status == SOSMC_OK) status = sosmc_run(s, 3, NULL, NULL);
    return status;
}

static void remove_files(const char *path)
{
    char name[128];
    (void)unlink(path);
    (void)snprintf(name, sizeof name, "%s.previous", path);
    (void)unlink(name);
}

static void create_is_the_last_to_allocate(void **state)
{
    static memory m;
    static double x[N * D], logw[N];
    char path[64];
    (void)snprintf(path, sizeof path, "allocator_%ld.checkpoint", (long)getpid());
    for (int which = 0; which < ENGINE_CASES; which++) {
        engine_case w = engine_case_of(which);
        ledger l = {.fail_at = 0};
        sosmc *s = NULL;
        int resampled;
        if (w.create_only) continue;
        w.cfg.alloc = ledger_alloc;
        w.cfg.alloc_ctx = &l;
        assert_int_equal(sosmc_create(&s, &w.p, &w.cfg), SOSMC_OK);
        long injected = l.calls, libc = malloc_calls();
        int live = l.live;
        sosmc_status status = use(s, path, &m, x, logw, &resampled);
        libc = malloc_calls() - libc;
        if (status != SOSMC_OK) fail_msg("%s: %s", w.name, sosmc_message(s));
        assert_int_equal(resampled, w.cfg.scheme.weighted ? STEPS : 0);
        assert_int_equal(l.calls, injected);
        assert_int_equal(l.live, live);
        if (libc != 0) fail_msg("%s: malloc was called %ld times after create", w.name, libc);
        sosmc_free(s);
        assert_int_equal(l.live, 0);
        assert_int_equal(l.misused, 0);
    }
    remove_files(path);
}

/* ---------------------------------------------------------------------------- an engine that was never finished */

/* Whoever overlooks the status of create is told again, and does not crash. Run in a child, which may. */
static int insist(engine_case *w, ledger *l, memory *m)
{
    sosmc *s = NULL;
    int refused = 1;
    w->cfg.alloc = ledger_alloc;
    w->cfg.alloc_ctx = l;
    if (sosmc_create(&s, &w->p, &w->cfg) == SOSMC_OK) return 2;
    m->at = 0;
    if (s) {
        refused &= sosmc_step(s) != SOSMC_OK;
        refused &= sosmc_run(s, 3, NULL, NULL) != SOSMC_OK;
        refused &= sosmc_save(s, to_memory, m) != SOSMC_OK;
        refused &= sosmc_load(s, from_memory, m) != SOSMC_OK;
        refused &= strlen(sosmc_message(s)) > 5;
    }
    sosmc_free(s);
    return refused && l->live == 0 && l->misused == 0 ? 0 : 1;
}

static void an_unfinished_engine_only_complains(void **state)
{
    static memory m;
    engine_case w = engine_case_of(PLAIN);
    sosmc *s = NULL;
    m.used = 0;
    assert_int_equal(sosmc_create(&s, &w.p, &w.cfg), SOSMC_OK);
    assert_int_equal(sosmc_save(s, to_memory, &m), SOSMC_OK); /* a stream that would fit */
    sosmc_free(s);
    for (int n = 0; n <= 40; n += 4) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}; /* cmocka would go on from its handlers */
            for (size_t q = 0; q < sizeof fatal / sizeof *fatal; q++) (void)signal(fatal[q], SIG_DFL);
            ledger l = {.fail_at = n, .for_good = 1};
            if (n == 0) w.cfg.kernel.h = -1.0; /* refused before any memory is taken */
            _exit(insist(&w, &l, &m));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("create failed at allocation %d, and then: %s %d", n, WIFEXITED(status) ? "exit" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

/* Failing allocates nothing either: the words of a message are the engine's own. */
static int broken_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    return *(const int *)self ? 7 : energy(NULL, theta, b, U, gx);
}

static void failures_do_not_allocate(void **state)
{
    engine_case w = engine_case_of(THREADS);
    ledger l = {.fail_at = 0};
    sosmc *s = NULL;
    static int broken;
    broken = 0;
    w.p.model.self = &broken;
    w.p.model.energy = broken_energy;
    w.cfg.alloc = ledger_alloc;
    w.cfg.alloc_ctx = &l;
    assert_int_equal(sosmc_create(&s, &w.p, &w.cfg), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 3, NULL, NULL), SOSMC_OK);
    broken = 1;
    long injected = l.calls, libc = malloc_calls();
    sosmc_status status = sosmc_step(s), io = sosmc_load_file(s, "/nowhere/at/all");
    libc = malloc_calls() - libc;
    assert_int_equal(status, SOSMC_EMODEL);
    assert_int_equal(io, SOSMC_EIO);
    assert_int_equal(l.calls, injected);
    assert_int_equal(libc, 0);
    sosmc_free(s);
    assert_int_equal(l.live, 0);
}

/* The count would notice: this very program allocates, and the counter moves. */
static void the_counter_counts(void **state)
{
    if (!COUNTS_MALLOC) skip();
    engine_case w = engine_case_of(PLAIN);
    sosmc *s = NULL;
    long before = malloc_calls();
    assert_int_equal(sosmc_create(&s, &w.p, &w.cfg), SOSMC_OK); /* without an allocator: libc's */
    assert_true(malloc_calls() - before > 20);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_failure_leaves_others_alone),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(nothing_to_free),
        cmocka_unit_test(create_is_the_last_to_allocate),
        cmocka_unit_test(failures_do_not_allocate),
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(an_unfinished_engine_only_complains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
