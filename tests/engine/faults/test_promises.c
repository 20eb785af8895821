/* test_promises.c: what the header promises to callbacks about threads and addresses.
 *
 * With one thread, or with any number where all particles are one batch, only the calling thread calls back. Every array that a
 * callback is given lies in memory that sosmc_create took, which stays where it is until sosmc_free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "expect_engine.h"
#include "memory_stream.h"

enum { DIM = 2, PARTICLES = 300, BLOCKS = 512, SEEN = 256 };

/* ---------------------------------------------------------------------------- what is watched */

static struct {
    struct {
        char *at;
        size_t bytes;
    } block[BLOCKS];           /* what the engine has taken */
    int blocks, created, late; /* late: taken or given back after sosmc_create */
    const void *address[SEEN]; /* different addresses that callbacks were given */
    int addresses;
    pthread_t caller;
    atomic_int calls, strangers, outside;
} watch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const double theta_ref[DIM] = {0.1, -0.1};

static void *take(void *ctx, void *old, size_t bytes)
{
    (void)ctx;
    watch.late += watch.created;
    if (bytes == 0 || old) {
        free(old);
        if (bytes == 0) return NULL;
    }
    char *at = malloc(bytes);
    assert_true(at && watch.blocks < BLOCKS);
    watch.block[watch.blocks].at = at;
    watch.block[watch.blocks++].bytes = bytes;
    return at;
}

static int is_ours(const void *p)
{
    if (p == theta_ref) return 1;
    for (int i = 0; i < watch.blocks; i++)
        if ((const char *)p >= watch.block[i].at && (const char *)p < watch.block[i].at + watch.block[i].bytes)
            return 1;
    return 0;
}

static void note(const void *p)
{
    if (!p) return;
    pthread_mutex_lock(&lock);
    if (!is_ours(p)) atomic_fetch_add(&watch.outside, 1);
    int i = 0;
    while (i < watch.addresses && watch.address[i] != p) i++;
    if (i == watch.addresses && i < SEEN) watch.address[watch.addresses++] = p;
    pthread_mutex_unlock(&lock);
}

static void enter(const sosmc_batch *b)
{
    atomic_fetch_add(&watch.calls, 1);
    if (!pthread_equal(pthread_self(), watch.caller)) atomic_fetch_add(&watch.strangers, 1);
    note(b->x);
    note(b->work);
    note(b->prep);
}

/* ---------------------------------------------------------------------------- a model */

static int prepare(const void *self, const double *theta, void *prep)
{
    note(theta);
    note(prep);
    memcpy(prep, theta, DIM * sizeof(double));
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    enter(b);
    note(theta);
    note(U);
    note(gx);
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double away = b->x[j * b->ld + i] - theta[j];
            U[i] += 0.5 * away * away;
            if (gx) gx[j * b->ld + i] = away;
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    enter(b);
    note(theta);
    note(c);
    note(g);
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[j] += c[i] * (theta[j] - b->x[j * b->ld + i]);
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    enter(b);
    note(theta);
    note(D);
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) D[j * b->ld + i] = theta[j] - b->x[j * b->ld + i];
    return 0;
}

static int score(const void *self, const sosmc_batch *b, double *s)
{
    enter(b);
    note(s);
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0;
    return 0;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    enter(b);
    note(x);
    sosmc_normals(rng, b, x);
    return 0;
}

static int log_density(const void *self, const sosmc_batch *b, double *lq)
{
    enter(b);
    note(lq);
    return sosmc_standard_normal().logpdf(NULL, b, lq);
}

/* ---------------------------------------------------------------------------- runs of many kinds */

enum { FORWARD, REVERSE_AUTHORS, POOL, KEPT, REPEATED, WATCHED_OFTEN, KINDS };

static void fill(int kind, sosmc_problem *p, sosmc_settings *cfg)
{
    sosmc_source source = {.draw = draw, .logpdf = log_density};
    sosmc_score reward = {.eval = score};
    *p = (sosmc_problem){.model = {.dim_x = DIM,
                                   .dim_theta = DIM,
                                   .work = 8,
                                   .prep = DIM * sizeof(double),
                                   .prepare = prepare,
                                   .energy = energy,
                                   .grad_theta = grad_theta,
                                   .scores = scores},
                         .objective = sosmc_likelihood(source, PARTICLES),
                         .init = source};
    *cfg = sosmc_defaults();
    cfg->scheme = sosmc_scheme_sosmc(PARTICLES);
    cfg->kernel = sosmc_ula(0.1);
    cfg->alloc = take;
    if (kind == FORWARD) p->objective = sosmc_reward_forward(reward, 0.5, source, PARTICLES, theta_ref);
    if (kind == REVERSE_AUTHORS) {
        p->objective = sosmc_reward_reverse(reward, 0.5, theta_ref);
        cfg->kernel = sosmc_hmc(0.2, 2, 1);
        cfg->scheme.order = SOSMC_ORDER_AUTHORS;
        cfg->scheme.ess_min = 2;
    }
    if (kind == POOL) cfg->scheme = sosmc_scheme_pcd(PARTICLES / 2, PARTICLES, 2);
    if (kind == KEPT) {
        cfg->scheme = sosmc_scheme_soul(4);
        cfg->scheme.particles = cfg->scheme.pool = PARTICLES / 4;
        cfg->kernel = sosmc_rwm(0.1);
    }
    if (kind == REPEATED) {
        cfg->kernel = sosmc_mala(0.1);
        cfg->on_nonfinite = SOSMC_NONFINITE_RETRY;
    }
    if (kind == WATCHED_OFTEN) cfg->judge = 0.5;
}

/* Returns how many different addresses the callbacks saw. */
static int run(int kind, int threads, int tile)
{
    static memory stream;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s;
    memset(&watch, 0, sizeof watch);
    watch.caller = pthread_self();
    fill(kind, &p, &cfg);
    p.model.tile = tile;
    cfg.threads = threads;
    s = expect_create(&p, &cfg);
    watch.created = 1;
    assert_int_equal(sosmc_run(s, 100, NULL, NULL), SOSMC_OK);
    stream.used = stream.at = 0;
    assert_int_equal(sosmc_save(s, memory_put, &stream), SOSMC_OK);
    assert_int_equal(sosmc_load(s, memory_get, &stream), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 100, NULL, NULL), SOSMC_OK);
    assert_int_equal(watch.late, 0);
    assert_int_equal(atomic_load(&watch.outside), 0);
    assert_true(atomic_load(&watch.calls) > 300);
    watch.created = 0;
    sosmc_free(s);
    return watch.addresses;
}

static void one_thread_calls_from_the_callers(void **state)
{
    for (int kind = 0; kind < KINDS; kind++) {
        (void)run(kind, 1, 64);
        assert_int_equal(atomic_load(&watch.strangers), 0);
    }
}

static void one_batch_calls_from_the_callers_thread(void **state)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int addresses = run(kind, 3, 1 << 30);
        if (atomic_load(&watch.strangers)) fail_msg("run %d: another thread called back", kind);
        if (addresses > 48) fail_msg("run %d: %d addresses", kind, addresses);
    }
}

/* So that the tests above could fail: with several batches other threads do call. */
static void several_batches_are_shared_out(void **state)
{
    int strangers = 0;
    for (int again = 0; again < 20 && !strangers; again++) {
        (void)run(FORWARD, 3, 64);
        strangers = atomic_load(&watch.strangers);
    }
    assert_true(strangers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_calls_from_the_callers),
                                       cmocka_unit_test(one_batch_calls_from_the_callers_thread),
                                       cmocka_unit_test(several_batches_are_shared_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
