/* test_engine_memory.c: sosmc_memory says to the byte what sosmc_create takes, for every kind of engine, on one and three threads and
 * on the ranks of a group, and says it of engines that no machine could hold without taking anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>

#include <sosmc/sosmc.h>

#include "engine_matrix.h"

typedef struct {
    size_t bytes, largest;
    int drawn;
} ledger;

static void *counted(void *ctx, void *ptr, size_t bytes)
{
    ledger *l = ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    l->bytes += bytes;
    if (bytes > l->largest) l->largest = bytes;
    return realloc(ptr, bytes);
}

static void expect_exact(engine_case w)
{
    ledger measured = {.bytes = 0}, taken = {.bytes = 0};
    sosmc *s = NULL;
    w.cfg.alloc = counted;
    w.cfg.alloc_ctx = &measured;
    size_t told = sosmc_memory(&w.p, &w.cfg);
    w.cfg.alloc_ctx = &taken;
    if (sosmc_create(&s, &w.p, &w.cfg) != SOSMC_OK) fail_msg("%s: %s", w.name, sosmc_message(s));
    if (told != taken.bytes)
        fail_msg("%s on %d threads: told %zu bytes, took %zu", w.name, w.cfg.threads, told, taken.bytes);
    sosmc_free(s);
}

static void is_exact(void **state)
{
    for (int which = 0; which < ENGINE_CASES; which++)
        for (int threads = 1; threads <= 3; threads += 2) {
            engine_case w = engine_case_of(which);
            if (!w.p.init.draw) continue; /* its test brings one */
            w.cfg.threads = threads;
            expect_exact(w);
            w.cfg.scheme.pool += 20000; /* no array is so small any more that measuring takes it */
            if (w.cfg.scheme.pool == w.cfg.scheme.particles + 20000) w.cfg.scheme.particles += 20000;
            if (which != HUGE_DIMENSION) expect_exact(w);
        }
}

static int ranked_gather(void *self, const void *out, size_t bytes, void *in) { return 1; }
static int ranked_exchange(void *self, const size_t *out_bytes, const void *out, const size_t *in_bytes, void *in)
{
    return 1;
}

/* A rank of several takes less than all, and the packets that it sends. */
static void knows_ranks(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    w.cfg.scheme.particles = w.cfg.scheme.pool = 100000;
    size_t alone = sosmc_memory(&w.p, &w.cfg);
    w.cfg.comm = (sosmc_comm){.size = 4, .rank = 1, .allgather = ranked_gather, .exchange = ranked_exchange};
    size_t one = sosmc_memory(&w.p, &w.cfg);
    assert_true(one > alone / 6);
    assert_true(one < alone);
}

static int never_drawn(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    fail_msg("a callback was called");
    return 1;
}

/* Nothing large is taken and nothing is called; the number grows with particles and coordinates. */
static void takes_nothing(void **state)
{
    const int dims[] = {1, 3, 5000, 1 << 28};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        ledger l = {.bytes = 0};
        engine_case w = engine_case_of(ULA_PAPER);
        w.p.init.draw = never_drawn;
        w.p.model.dim_x = dims[i];
        w.cfg.alloc = counted;
        w.cfg.alloc_ctx = &l;
        w.cfg.scheme.particles = w.cfg.scheme.pool = INT_MAX;
        size_t told = sosmc_memory(&w.p, &w.cfg);
        assert_true(l.largest <= 1 << 17);
        assert_true((double)told >= 4.0 * 8 * INT_MAX * dims[i]); /* two clouds of x and dU/dx */
        assert_true((double)told < 8.0 * 8 * INT_MAX * (dims[i] + 4.0) + 1e9 * dims[i] / 8);
    }
}

static void does_not_overflow(void **state)
{
    engine_case w = engine_case_of(AUX);
    w.p.model.dim_x = INT_MAX;
    w.cfg.scheme.particles = w.cfg.scheme.pool = INT_MAX;
    w.cfg.kernel.aux = 1000;
    assert_true(sosmc_memory(&w.p, &w.cfg) == SIZE_MAX);
}

static void refuses_what_create_refuses(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    assert_true(sosmc_memory(&w.p, &w.cfg) > 0);
    w.cfg.kernel.h = -1;
    assert_true(sosmc_memory(&w.p, &w.cfg) == 0);
    assert_true(sosmc_memory(NULL, &w.cfg) == 0);
    assert_true(sosmc_memory(&w.p, NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_exact), cmocka_unit_test(knows_ranks),
                                       cmocka_unit_test(takes_nothing), cmocka_unit_test(does_not_overflow),
                                       cmocka_unit_test(refuses_what_create_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
