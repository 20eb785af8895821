/* test_checkpoint_streams.c: streams that are damaged, foreign, cut off or another problem's are refused, in words, and
 * change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "expect_engine.h"
#include "record.h"

/* Tries a stream that must be refused; the engine must not notice. */
static void refuse(sosmc *s, memory *m, const char *what, long where)
{
    uint64_t before = sosmc_hash(s);
    int64_t iteration = sosmc_iteration(s);
    sosmc_status status = memory_load(s, m);
    if (status != SOSMC_EIO && status != SOSMC_EINVAL) fail_msg("%s %ld: status %d", what, where, status);
    if (strlen(sosmc_message(s)) < 10) fail_msg("%s %ld: no message", what, where);
    if (sosmc_hash(s) != before || sosmc_iteration(s) != iteration) fail_msg("%s %ld changed the engine", what, where);
}

static void truncated_streams(void **state)
{
    const int which[] = {ULA_PAPER, PCD, SOUL};
    for (int q = 0; q < 3; q++) {
        engine_case w = engine_case_of(which[q]);
        record *r = record_run(&w);
        memory *m = &r->at[5];
        size_t whole = m->used;
        sosmc *s = engine_case_open(w);
        expect_steps(s, 2);
        for (size_t cut = 0; cut < whole; cut += cut + 128 < whole ? 64 : 1) { /* and every byte at the end */
            m->used = cut;
            refuse(s, m, "truncated at", (long)cut);
            assert_contains(sosmc_message(s), "too early");
        }
        m->used = whole;
        record_follow(s, &w, r, 2, 0); /* and its future is what it was */
        memory_must_load(s, m);
        record_follow(s, &w, r, 5, 0);
        sosmc_free(s);
        record_free(r);
    }
}

static void flipped_bits(void **state)
{
    for (int small = 0; small < 2; small++) { /* every bit of a small stream, a sample of a larger one */
        engine_case w = engine_case_of(small ? ULA_AUTHORS : PCD);
        if (small) w.cfg.scheme.particles = w.cfg.scheme.pool = 5;
        record *r = record_run(&w);
        memory *m = &r->at[5];
        sosmc *s = engine_case_open(w);
        expect_steps(s, 2);
        for (size_t at = 0; at < m->used; at += small || at < 300 || at + 16 > m->used ? 1 : 13)
            for (int bit = 0; bit < 8; bit += small ? 1 : 5) {
                m->bytes[at] = (char)(m->bytes[at] ^ (1 << bit));
                refuse(s, m, "flipped byte", (long)at);
                m->bytes[at] = (char)(m->bytes[at] ^ (1 << bit));
            }
        record_follow(s, &w, r, 2, 0);
        memory_must_load(s, m);
        record_follow(s, &w, r, 5, 0);
        sosmc_free(s);
        record_free(r);
    }
}

static void foreign_and_newer_streams(void **state)
{
    enum { VERSION_AT = 8, BYTE_ORDER_AT = 16 };
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    memory *m = &r->at[5], copy = {.bytes = malloc(m->used), .used = m->used, .room = m->used};
    sosmc *s = engine_case_open(w);
    assert_non_null(copy.bytes);
    expect_steps(s, 2);
    for (int q = 0; q < 5; q++) {
        static const char foreign[8] = {'P', 'K', 3, 4, 'z', 'i', 'p', '?'};
        uint64_t version = 1000, reversed = 0x0807060504030201u;
        memcpy(copy.bytes, m->bytes, m->used);
        if (q == 0) memcpy(copy.bytes, foreign, sizeof foreign);
        if (q == 1) memset(copy.bytes, 0, copy.used);
        if (q == 2) memset(copy.bytes, 0xff, copy.used);
        if (q == 3) memcpy(copy.bytes + VERSION_AT, &version, sizeof version);
        if (q == 4) memcpy(copy.bytes + BYTE_ORDER_AT, &reversed, sizeof reversed);
        refuse(s, &copy, "foreign stream", q);
        assert_int_equal(memory_load(s, &copy), SOSMC_EIO);
        assert_contains(sosmc_message(s), q < 3 ? "not a sosmc checkpoint" : q == 3 ? "version 1000" : "byte order");
    }
    assert_int_equal(sosmc_load(s, NULL, NULL), SOSMC_EINVAL);
    assert_int_equal(sosmc_save(s, NULL, NULL), SOSMC_EINVAL);
    record_follow(s, &w, r, 2, 0);
    sosmc_free(s);
    free(copy.bytes);
    record_free(r);
}

/* A callback that fails at its n-th call, for every n. */
static void streams_that_break(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    sosmc *s = engine_case_open(w);
    memory m = {.used = 0};
    int n = 1;
    expect_steps(s, 2);
    for (;; n++) {
        m.fail_at = n;
        sosmc_status status = memory_save(s, &m);
        if (status == SOSMC_OK) break;
        assert_int_equal(status, SOSMC_EIO);
        assert_int_equal(m.calls, n); /* nothing is written behind a gap */
        assert_contains(sosmc_message(s), "could not be written");
        assert_true(sosmc_hash(s) == r->hash[2]);
    }
    assert_true(n > 5 && memory_same(&m, &r->at[2]));
    for (n = 1;; n++) {
        m.fail_at = n;
        sosmc_status status = memory_load(s, &m);
        if (status == SOSMC_OK) break;
        assert_int_equal(status, SOSMC_EIO);
        assert_true(sosmc_hash(s) == r->hash[2]);
    }
    assert_true(n > 5);
    record_follow(s, &w, r, 2, 0);
    sosmc_free(s);
    free(m.bytes);
    record_free(r);
}

/* ---------------------------------------------------------------------------- another problem's stream */

enum {
    SEED,
    DIM_X,
    DIM_THETA,
    PARTICLES,
    MEMBERS,
    SWEEP_COUNT,
    KEEP,
    WEIGHTED,
    ORDER,
    DRIFT,
    SLOTS,
    AVERAGE,
    KERNEL,
    KERNEL_RWM,
    KERNEL_AUX,
    OPTIMISER,
    SCORE,
    REFERENCE_U,
    DIFFERENCES
};

static void make_different(engine_case *w, int which)
{
    switch (which) {
    case SEED: w->cfg.seed = 98; break;
    case DIM_X: w->p.model.dim_x = 2; break;
    case DIM_THETA: w->p.model.dim_theta = 4; break;
    case PARTICLES: w->cfg.scheme.particles = w->cfg.scheme.pool = 151; break;
    case MEMBERS: w->cfg.scheme.pool = 301; break;
    case SWEEP_COUNT: w->cfg.scheme.sweeps = 8; break;
    case KEEP: w->cfg.scheme.keep = 2; break;
    case WEIGHTED:
        w->cfg.scheme.weighted = 0;
        w->cfg.adapt[0].factor = 0;
        break;
    case ORDER: w->cfg.scheme.order = SOSMC_ORDER_AUTHORS; break;
    case DRIFT: w->cfg.scheme.drift_at = SOSMC_AT_CURRENT; break;
    case SLOTS: w->cfg.optimiser = sosmc_momentum(0.05, 0.9); break;
    case AVERAGE: w->cfg.average = 0.5; break;
    case KERNEL: w->cfg.kernel = sosmc_mala(0.05); break;
    case KERNEL_RWM: w->cfg.kernel = sosmc_rwm(0.05); break;
    case KERNEL_AUX:
        w->cfg.kernel.aux = 1;
        w->cfg.kernel.step = engine_case_aux_step;
        break;
    case OPTIMISER: w->cfg.optimiser = sosmc_adamw(0.05, 0.0); break;
    case SCORE: w->p.objective.score.eval = engine_case_reward; break;
    default:
        w->p.objective.kl = 0.5;
        w->p.objective.theta_ref = engine_case_reference;
        break;
    }
}

static void other_problems(void **state)
{
    static const struct {
        const char *field, *theirs, *ours;
    } words[DIFFERENCES] = {
        {"seed", "99", "98"},          {"model.dim_x", "3", "2"},
        {"model.dim_theta", "3", "4"}, {"scheme.particles", "150", "151"},
        {"scheme.pool", "300", "301"}, {"scheme.sweeps", "7", "8"},
        {"scheme.keep", "3", "2"},     {"scheme.weighted", "1", "0"},
        {"scheme.order", "0", "1"},    {"scheme.drift_at", "0", "1"},
        {"optimiser.slots", "2", "1"}, {"average", "0", "1"},
        {"kernel", "ula", "mala"},     {"kernel", "1", "0"},
        {"kernel.aux", "0", "1"},      {"optimiser", "adam", "adamw"},
        {"score", "0", "1"},           {"reference", "0", "1"},
    };
    for (int q = 0; q < DIFFERENCES; q++) {
        engine_case w = engine_case_of(q == MEMBERS                    ? PCD
                                       : q == SWEEP_COUNT || q == KEEP ? SOUL
                                                                       : ULA_PAPER),
                    other = w;
        memory m = {.used = 0};
        make_different(&other, q);
        for (int swapped = 0; swapped < 2; swapped++) {
            sosmc *from = engine_case_open(swapped ? other : w), *to = engine_case_open(swapped ? w : other);
            expect_steps(from, 3);
            expect_steps(to, 2);
            memory_must_save(from, &m);
            refuse(to, &m, "another problem", q);
            assert_int_equal(memory_load(to, &m), SOSMC_EINVAL);
            assert_contains(sosmc_message(to), words[q].field);
            assert_contains(sosmc_message(to), words[q].theirs);
            assert_contains(sosmc_message(to), words[q].ours);
            expect_steps(to, 1);
            sosmc_free(from);
            sosmc_free(to);
        }
        free(m.bytes);
    }
}

/* Tiles decide the order of the numbers in the stream and of the sums. 100 particles make two tiles of 64 or of 60, and
 * streams of one length. */
static void another_tile(void **state)
{
    const int tiles[] = {60, 50, 32, 100};
    engine_case w = engine_case_of(ULA_PAPER);
    memory m = {.used = 0};
    w.cfg.scheme.particles = w.cfg.scheme.pool = 100;
    sosmc *from = engine_case_open(w);
    expect_steps(from, 3);
    memory_must_save(from, &m);
    for (int q = 0; q < 4; q++) {
        static double x[100 * DT], y[100 * DT];
        engine_case other = w;
        other.p.model.tile = tiles[q];
        sosmc *to = engine_case_open(other);
        uint64_t before = sosmc_hash(to);
        if (memory_load(to, &m) == SOSMC_OK) {
            assert_int_equal(sosmc_cloud(from, x, NULL), SOSMC_OK);
            assert_int_equal(sosmc_cloud(to, y, NULL), SOSMC_OK);
            for (int e = 0; e < 100 * DT; e++)
                if (!same_number(x[e], y[e]))
                    fail_msg("a stream made with tiles of 64 was read with tiles of %d, and scrambled", tiles[q]);
        } else {
            assert_true(sosmc_hash(to) == before);
        }
        sosmc_free(to);
    }
    sosmc_free(from);
    free(m.bytes);
}

static void long_names_are_told_apart(void **state)
{
    for (int q = 0; q < 2; q++) {
        engine_case w = engine_case_of(ULA_PAPER), other = w;
        memory m = {.used = 0};
        *(q ? &w.cfg.optimiser.name : &w.cfg.kernel.name) = "clamped_langevin_with_tight_bounds";
        *(q ? &other.cfg.optimiser.name : &other.cfg.kernel.name) = "clamped_langevin_with_loose_bounds";
        sosmc *from = engine_case_open(w), *to = engine_case_open(other);
        memory_must_save(from, &m);
        assert_int_equal(memory_load(from, &m), SOSMC_OK);
        assert_int_equal(memory_load(to, &m), SOSMC_EINVAL);
        sosmc_free(from);
        sosmc_free(to);
        free(m.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_streams),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(foreign_and_newer_streams),
        cmocka_unit_test(streams_that_break),
        cmocka_unit_test(other_problems),
        cmocka_unit_test(another_tile),
        cmocka_unit_test(long_names_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
