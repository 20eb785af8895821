/* test_engine_caches.c: what the engine promises a model and a kernel, iteration by iteration: how often it evaluates,
 * that what is cached or parked belongs to the particle, and how the cloud is cut into tiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "quartic_model.h"
#include "expect_engine.h"

typedef struct {
    const char *name;
    sosmc_kernel kernel;
    sosmc_scheme scheme;
    int objective;
    int start, each; /* energies per particle in iteration 0 and in every later one */
} cost;

static sosmc_scheme authors(sosmc_scheme scheme)
{
    scheme.order = SOSMC_ORDER_AUTHORS;
    return scheme;
}

static sosmc_scheme drifting(sosmc_scheme scheme)
{
    scheme.drift_at = SOSMC_AT_CURRENT;
    return scheme;
}

static sosmc_scheme swept(sosmc_scheme scheme, int sweeps)
{
    scheme.sweeps = sweeps;
    return scheme;
}

/* U and gx travel with the particle: a weighted ULA step costs one evaluation. */
static void test_cost(void **state)
{
    enum { PREVIOUS = SOSMC_AT_PREVIOUS, CURRENT = SOSMC_AT_CURRENT };
    const sosmc_scheme weighted = sosmc_scheme_sosmc(N), unweighted = sosmc_scheme_unweighted(N);
    const cost costs[] = {
        {"weighted ula", sosmc_ula(0.1), weighted, MMLE, 0, 1},
        {"weighted ula, authors", sosmc_ula(0.1), authors(weighted), MMLE, 1, 1},
        {"weighted ula, drift at current", sosmc_ula(0.1), drifting(weighted), MMLE, 0, 1}, /* of no concern to it */
        {"weighted ula, three sweeps", sosmc_ula(0.1), swept(weighted, 3), MMLE, 0, 3},
        {"weighted ula, forward at current", quartic_ula_at(CURRENT, CURRENT), weighted, MMLE, 0, 2},
        {"weighted ula, backward at previous", quartic_ula_at(PREVIOUS, PREVIOUS), weighted, MMLE, 0, 2},
        {"weighted ula, swapped", quartic_ula_at(CURRENT, PREVIOUS), weighted, MMLE, 0, 3},
        {"weighted ula, swapped, two sweeps", quartic_ula_at(CURRENT, PREVIOUS), swept(weighted, 2), MMLE, 0, 4},
        {"weighted mala", sosmc_mala(0.2), weighted, MMLE, 0, 2},
        {"weighted mala, authors", sosmc_mala(0.2), authors(weighted), MMLE, 2, 2},
        {"weighted rwm", sosmc_rwm(0.2), weighted, MMLE, 0, 2},
        {"weighted hmc", sosmc_hmc(0.3, 4, 1), weighted, MMLE, 0, 5},
        {"weighted ula, reward", sosmc_ula(0.1), weighted, REVERSE, 0, 1},
        {"unweighted ula", sosmc_ula(0.1), unweighted, MMLE, 0, 1},
        {"unweighted ula, authors", sosmc_ula(0.1), authors(unweighted), MMLE, 1, 1},
        {"unweighted ula swapped", quartic_ula_at(CURRENT, PREVIOUS), unweighted, MMLE, 0,
         2}, /* no weight, no backward kernel */
        {"unweighted mala", sosmc_mala(0.2), unweighted, MMLE, 0, 2},
        {"moved first ula", sosmc_ula(0.1), sosmc_scheme_moved_first(N), MMLE, 1, 2},
        {"moved first ula, swapped", quartic_ula_at(CURRENT, PREVIOUS), sosmc_scheme_moved_first(N), MMLE, 1, 2},
        {"pcd", sosmc_ula(0.1), sosmc_scheme_pcd(N, 2 * N, 2), MMLE, 3, 3},
    };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const cost *c = &costs[i];
        tally t = {.h = 0};
        quartic m = {.t = &t};
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(c->kernel, 0);
        p.objective = quartic_objective(c->objective, quartic_away);
        cfg.scheme = c->scheme;
        cfg.scheme.ess_min = c->scheme.weighted ? 2 : 0; /* what was cached survives resampling */
        cfg.threads = 1 + (int)i % 3;
        sosmc *s = expect_create(&p, &cfg);
        assert_int_equal(atomic_exchange(&t.energies, 0), N);
        for (int k = 0; k < 4; k++) {
            (void)expect_step(s);
            long long expected = (long long)N * (k ? c->each : c->start), got = atomic_exchange(&t.energies, 0);
            if (got != expected) fail_msg("%s, iteration %d: %lld energies, not %lld", c->name, k, got, expected);
            assert_int_equal(atomic_exchange(&t.contracted, 0), N);
        }
        assert_int_equal(atomic_load(&t.odd), 0);
        assert_int_equal(atomic_load(&t.stale), 0);
        if (c->objective == REVERSE) assert_int_equal(atomic_load(&t.references), 4 * N); /* start and three moves */
        sosmc_free(s);
    }
}

/* How many of the particles that grad_theta saw in each of four iterations were fresh. */
static void count_fresh(sosmc_kernel kernel, int order, double ess_min, size_t work_limit, long long fresh[4])
{
    tally t = {.h = 0};
    quartic m = {.t = &t};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(kernel, order);
    cfg.scheme.ess_min = ess_min;
    cfg.work_limit = work_limit;
    cfg.threads = 2;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 4; k++) {
        (void)expect_step(s);
        fresh[k] = atomic_exchange(&t.fresh, 0);
    }
    assert_int_equal(atomic_load(&t.stale), 0);
    sosmc_free(s);
}

static void test_fresh(void **state)
{
    const size_t plenty = (size_t)1 << 20;
    long long fresh[4];
    for (int resampling = 0; resampling <= 1; resampling++) {
        double ess_min = resampling ? 2 : 0;
        count_fresh(sosmc_ula(0.1), SOSMC_ORDER_PAPER, ess_min, plenty, fresh);
        for (int k = 0; k < 4; k++) assert_int_equal(fresh[k], N);
        count_fresh(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS, ess_min, plenty, fresh);
        for (int k = 0; k < 4; k++) assert_int_equal(fresh[k], k && resampling ? 0 : N);
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            for (int kernel = MALA; kernel < KERNELS; kernel++) {
                count_fresh(quartic_kernel(kernel), order, ess_min, plenty, fresh);
                assert_int_equal(fresh[0], kernel == RWM ? 0 : N); /* nothing has moved yet */
                for (int k = 1; k < 4; k++) assert_int_equal(fresh[k], 0);
            }
            count_fresh(sosmc_ula(0.1), order, ess_min, 0, fresh); /* nothing parked */
            for (int k = 0; k < 4; k++) assert_int_equal(fresh[k], 0);
            count_fresh(quartic_ula_at(SOSMC_AT_PREVIOUS, SOSMC_AT_PREVIOUS), order, ess_min, plenty, fresh);
            for (int k = 1; k < 4; k++) assert_int_equal(fresh[k], 0); /* the last call was at the other theta */
        }
    }
}

/* The limit is what it says, bytes of the whole cloud: as many tiles park as find room. */
static void test_work_limit(void **state)
{
    const size_t tiles = (N + TILE - 1) / TILE, bytes = tiles * TILE * STAMP * sizeof(double);
    long long fresh[4];
    count_fresh(sosmc_ula(0.1), SOSMC_ORDER_PAPER, 0, bytes, fresh);
    assert_int_equal(fresh[1], N);
    count_fresh(sosmc_ula(0.1), SOSMC_ORDER_PAPER, 0, bytes - 1, fresh);
    assert_int_equal(fresh[1], (tiles - 1) * TILE);
    count_fresh(sosmc_ula(0.1), SOSMC_ORDER_PAPER, 0, 2 * bytes / tiles, fresh);
    assert_int_equal(fresh[1], 2 * TILE);
    count_fresh(sosmc_ula(0.1), SOSMC_ORDER_PAPER, 0, bytes / tiles - 1, fresh);
    assert_int_equal(fresh[1], 0);
}

/* Of every tile, the scratch of its last call and what it was told about the next one. */
enum { TILES = (N + TILE - 1) / TILE };
typedef struct {
    const void *work[TILES], *next[TILES];
    int calls;
} lent;

static void look_at_work(const sosmc_batch *b, lent *seen)
{
    seen->work[b->first / TILE] = b->work;
    seen->next[b->first / TILE] = b->next_work;
    seen->calls++;
}

typedef struct {
    lent *at_energy, *at_gradient;
} lent_to;

static int lent_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    look_at_work(b, ((const lent_to *)self)->at_energy);
    for (int i = 0; i < b->n; i++) U[i] = 0.5 * b->x[i] * b->x[i];
    for (int i = 0; gx && i < b->n; i++) gx[i] = b->x[i];
    return 0;
}

static int lent_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    look_at_work(b, ((const lent_to *)self)->at_gradient);
    for (int i = 0; i < b->n; i++) g[0] += c[i] * b->x[i];
    return 0;
}

/* A batch is told where its thread's next one parks, and of no other place. */
static void test_next_work(void **state)
{
    for (int parked = 0; parked <= TILES; parked++) {
        lent energy = {.calls = 0}, gradient = {.calls = 0};
        const lent_to to = {&energy, &gradient};
        sosmc_problem p = {.model = {.dim_x = 1,
                                     .dim_theta = 1,
                                     .work = 64,
                                     .tile = TILE,
                                     .self = &to,
                                     .energy = lent_energy,
                                     .grad_theta = lent_grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal()};
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        cfg.work_limit = (size_t)parked * TILE * 64;
        sosmc *s = expect_create(&p, &cfg);
        for (int k = 0; k < 2; k++) (void)expect_step(s);
        assert_int_equal(gradient.calls, 2 * TILES);
        for (int t = 0; t < TILES; t++) {
            assert_ptr_equal(energy.work[t], gradient.work[t]);
            assert_ptr_equal(energy.next[t], t + 1 < parked ? energy.work[t + 1] : NULL);
            assert_ptr_equal(gradient.next[t], t + 1 < parked ? gradient.work[t + 1] : NULL);
        }
        sosmc_free(s);
    }
}

/* ---------------------------------------------------------------------------- caches */

static void check_caches(int kernel, sosmc_scheme scheme)
{
    tally t = {.first_move = 1};
    quartic m = {.t = &t};
    checker c = {.inner = quartic_kernel(kernel), .sweeps = scheme.sweeps, .t = &t};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(quartic_checking(&c), 0);
    cfg.scheme = scheme;
    cfg.threads = 2;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        (void)expect_step(s);
        if (t.h > 0) t.first_move = 0;
    }
    assert_true(t.h > 0);
    assert_int_equal(atomic_load(&t.wrong), 0);
    assert_int_equal(atomic_load(&t.lost), 0);
    assert_int_equal(atomic_load(&t.stale), 0);
    assert_int_equal(atomic_load(&t.odd), 0);
    sosmc_free(s);
}

static void test_caches_travel(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int variant = 0; variant < 8; variant++) {
            sosmc_scheme scheme = variant & 2 ? sosmc_scheme_unweighted(N) : sosmc_scheme_sosmc(N);
            scheme.order = variant & 1;
            scheme.sweeps = variant & 4 ? 3 : 1;
            scheme.ess_min = variant & 2 ? 0 : 2;
            scheme.resampling = variant % 5;
            check_caches(kernel, scheme);
            scheme.drift_at = SOSMC_AT_CURRENT;
            check_caches(kernel, scheme);
        }
}

/* Every particle restarts in every iteration: returns what the kernel found wrong with U and gx, and with aux. */
static tally restart_all(int kernel, int order)
{
    tally t = {.first_move = 1}; /* and stays so: aux starts at zero every time */
    quartic m = {.t = &t};
    checker c = {.inner = quartic_kernel(kernel), .sweeps = 2, .t = &t};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(quartic_checking(&c), order);
    cfg.scheme = sosmc_scheme_moved_first(N);
    cfg.scheme.order = order;
    cfg.scheme.sweeps = 2;
    cfg.scheme.refresh = 1;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 3; k++) (void)expect_step(s);
    sosmc_free(s);
    return t;
}

/* A restarted particle is a new one: nothing cached about the old one is used, from the very first iteration on. */
static void test_restarts_are_evaluated(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            tally t = restart_all(kernel, order);
            assert_int_equal(atomic_load(&t.wrong), 0);
        }
}

/* ... and the kernel's memory of the old one is gone, as it is when a particle restarts for want of finite values. */
static void test_restarts_have_no_memory(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        tally t = restart_all(kernel, SOSMC_ORDER_PAPER);
        assert_int_equal(atomic_load(&t.lost), 0);
    }
}

/* ---------------------------------------------------------------------------- tiles */

/* A model of any dimension that notes how it is cut. */
typedef struct {
    atomic_int n, ld, odd; /* the largest batch, its ld, batches whose rows are not aligned */
} shape;

static int shape_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    shape *s = *(shape *const *)self;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (size_t j = 0; j < (size_t)b->dim; j++)
        for (size_t i = 0; i < (size_t)b->n; i++) {
            double x = b->x[j * (size_t)b->ld + i];
            U[i] += 0.5 * x * x;
            if (gx) gx[j * (size_t)b->ld + i] = x;
        }
    atomic_fetch_add(&s->odd, b->ld > 1 && (b->ld % 8 || (uintptr_t)b->x % 64));
    if (b->n > atomic_load(&s->n)) atomic_store(&s->n, b->n);
    atomic_store(&s->ld, b->ld);
    return 0;
}

static int shape_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) g[0] += c[i] * b->x[i];
    return 0;
}

/* Tiles suit the dimension or the model's wish; a one-particle tile of a large model is a contiguous vector. */
static void test_tiles(void **state)
{
    static const struct {
        int particles, dim, wish, n, ld;
    } cuts[] = {{100, 2, 0, 64, 64},  {100, 2, 24, 24, 24}, {100, 2, 5, 5, 8},  {100, 2, 1, 1, 8},
                {100, 8, 1, 1, 1},    {7, 2, 0, 7, 8},      {1, 2, 0, 1, 8},    {1, 20, 0, 1, 1},
                {50, 256, 0, 16, 16}, {50, 255, 0, 50, 56}, {3, 4096, 0, 1, 1}, {9, 4096, 4, 4, 8}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            shape seen = {0}, *self = &seen;
            sosmc_problem p = {.model = {.dim_x = cuts[i].dim,
                                         .dim_theta = 1,
                                         .tile = cuts[i].wish,
                                         .self = &self,
                                         .energy = shape_energy,
                                         .grad_theta = shape_grad_theta},
                               .objective = sosmc_mmle(),
                               .init = sosmc_standard_normal()};
            sosmc_settings cfg = quartic_calm(quartic_kernel(kernel), SOSMC_ORDER_PAPER);
            cfg.scheme = sosmc_scheme_sosmc(cuts[i].particles);
            cfg.scheme.ess_min = 2;
            sosmc *s = expect_create(&p, &cfg);
            (void)expect_step(s);
            (void)expect_step(s);
            assert_int_equal(atomic_load(&seen.n), cuts[i].n);
            assert_int_equal(atomic_load(&seen.ld), cuts[i].ld);
            assert_int_equal(atomic_load(&seen.odd), 0);
            sosmc_free(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_work_limit),
        cmocka_unit_test(test_next_work),
        cmocka_unit_test(test_caches_travel),
        cmocka_unit_test(test_restarts_are_evaluated),
        cmocka_unit_test(test_restarts_have_no_memory),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
