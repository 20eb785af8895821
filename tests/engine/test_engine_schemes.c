/* test_engine_schemes.c: schemes with chains, pools and restarts: which states the gradient sees, where a particle
 * starts and where it ends up; and that a repeated move keeps the weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "assertions.h"
#include "quartic_model.h"
#include "formulas_by_hand.h"
#include "engine/engine_inside.h"
#include "expect_engine.h"

/* One chain: the gradient is the plain mean over exactly the last `keep` states, and the chain goes on from the last. */
static void test_soul(void **state)
{
    tally t = {.listing = 1};
    quartic m = {.t = &t};
    for (int sweeps = 1; sweeps <= 9; sweeps += 4) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        double last[DIM], theta[THETA];
        cfg.scheme = sosmc_scheme_soul(sweeps);
        int keep = cfg.scheme.keep;
        assert_int_equal(keep, sweeps > 3 ? sweeps / 2 : 1);
        sosmc *s = expect_create(&p, &cfg);
        memcpy(last, t.evaluated_at[t.evaluated - 1], sizeof last);
        for (int k = 0; k < 4; k++) {
            double g[THETA] = {0};
            t.evaluated = t.seen = 0;
            memcpy(theta, sosmc_theta(s), sizeof theta);
            const sosmc_info *info = expect_step(s);
            int looks = k > 0; /* at the new theta, before the first sweep */
            assert_int_equal(t.evaluated, looks + sweeps);
            assert_int_equal(t.seen, keep);
            if (looks) assert_memory_equal(t.evaluated_at[0], last, sizeof last);
            for (int i = 0; i < keep; i++) {
                assert_memory_equal(t.seen_at[i], t.evaluated_at[t.evaluated - keep + i], sizeof last);
                assert_close(t.seen_c[i], 1.0 / keep, 1e-15);
                by_hand_gtheta(theta, t.seen_at[i], 1.0 / keep, g);
            }
            by_hand_check_step(&cfg, theta, g, sosmc_theta(s), info);
            assert_true(info->accept == 1);
            memcpy(last, t.evaluated_at[t.evaluated - 1], sizeof last);
            double x[DIM];
            assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
            assert_memory_equal(x, last, sizeof x);
        }
        sosmc_free(s);
    }
}

/* Several chains that share tiles: every kept state counts once, whatever the sizes. */
static void test_many_chains(void **state)
{
    for (int keep = 2; keep <= 5; keep++) {
        tally t = {.h = 0};
        quartic m = {.t = &t};
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_mala(0.3), SOSMC_ORDER_PAPER);
        cfg.scheme = sosmc_scheme_soul(6);
        cfg.scheme.particles = cfg.scheme.pool = N;
        cfg.scheme.keep = keep;
        p.model.tile = keep == 3 ? 5 : TILE;
        p.objective = quartic_objective(REVERSE, quartic_away);
        sosmc *s = expect_create(&p, &cfg);
        for (int k = 0; k < 2; k++) {
            const sosmc_info *info = expect_step(s);
            assert_int_equal(atomic_exchange(&t.contracted, 0), N * keep);
            assert_true(info->accept > 0 && info->accept < 1);
        }
        assert_int_equal(atomic_load(&t.references), N + 2 * N * keep);
        assert_int_equal(atomic_load(&t.names), (N * keep) * (N * keep - 1)); /* each state has its own, twice */
        assert_int_equal(atomic_load(&t.odd), 0);
        sosmc_free(s);
    }
}

/* A kernel that stays where it is. */
static int stay_step(const sosmc_kernel *k, sosmc_move *m)
{
    memcpy(m->x_new, m->x, (size_t)m->b.dim * (size_t)m->b.ld * sizeof(double));
    return sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
}

static sosmc_kernel stay(void)
{
    return (sosmc_kernel){.name = "stay", .step = stay_step, .h = 1, .noise = 1, .mass = 1, .leapfrog = 1};
}

enum { POOL = 45 };

/* Which member of the pool particle i takes in an iteration. */
static int member_of(const sosmc_settings *cfg, int iteration, int i)
{
    double u;
    sosmc_batch one = {.dim = 1, .n = 1, .ld = 1, .first = i};
    sosmc_uniforms((sosmc_rng){.seed = cfg->seed, .step = (uint64_t)iteration, .stream = SOSMC_STREAM_POOL}, 0, &one,
                   &u);
    return (int)((1 - u) * POOL);
}

static void copy_pool(const sosmc *s, double (*pool)[DIM]) { memcpy(pool, s->now->pool, POOL * sizeof *pool); }

static void test_pcd(void **state)
{
    quartic m = {.shift = 0};
    for (int moves = 0; moves <= 1; moves++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(moves ? sosmc_ula(0.1) : stay(), SOSMC_ORDER_PAPER);
        double pool[POOL][DIM], got[POOL][DIM];
        int duplicates = 0;
        cfg.scheme = sosmc_scheme_pcd(N, POOL, 2);
        cfg.scheme.refresh = 0;
        cfg.threads = 2;
        sosmc *s = expect_create(&p, &cfg);
        copy_pool(s, pool);
        for (int i = 0; i < N; i++)
            assert_memory_equal(pool[i], quartic_now(s).x[i], sizeof pool[i]); /* draws 0 .. of init */
        for (int k = 0; k < 4; k++) {
            (void)expect_step(s);
            moment after = quartic_now(s);
            int taken[POOL] = {0};
            for (int i = 0; i < N; i++) {
                int a = member_of(&cfg, k, i);
                duplicates += taken[a]++ > 0;
                if (!moves) assert_memory_equal(after.x[i], pool[a], sizeof pool[a]); /* started from its member */
            }
            for (int i = 0; i < N; i++)
                memcpy(pool[member_of(&cfg, k, i)], after.x[i], sizeof after.x[i]); /* the later wins */
            copy_pool(s, got);
            assert_memory_equal(got, pool, sizeof pool);
        }
        assert_true(duplicates > 10);
        sosmc_free(s);
    }
}

/* The fraction that restarts comes from init, under names of its own; the rest from the pool or from where it was. */
static void test_refresh(void **state)
{
    quartic m = {.shift = 0};
    for (int variant = 0; variant < 6; variant++) {
        const double refresh = variant % 3 == 0 ? 0 : variant % 3 == 1 ? 0.3 : 1;
        int pooled = variant / 3, fresh = 0;
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(stay(), SOSMC_ORDER_PAPER);
        double pool[POOL][DIM];
        cfg.scheme = sosmc_scheme_moved_first(N);
        if (pooled) cfg.scheme.pool = POOL;
        cfg.scheme.refresh = refresh;
        sosmc *s = expect_create(&p, &cfg);
        moment before = quartic_now(s);
        for (int k = 0; k < 6; k++) {
            if (pooled) copy_pool(s, pool);
            (void)expect_step(s);
            moment after = quartic_now(s);
            for (int i = 0; i < N; i++) {
                double z[DIM];
                by_hand_normals(&cfg, SOSMC_STREAM_REFRESH, k, i, z);
                int restarted = quartic_same(after.x[i], z, DIM);
                const double *old = pooled ? pool[member_of(&cfg, k, i)] : before.x[i];
                if (!restarted) assert_memory_equal(after.x[i], old, sizeof after.x[i]);
                fresh += restarted;
            }
            before = after;
        }
        double expected = refresh * 6 * N, sd = sqrt(expected * (1 - refresh));
        assert_true(fabs(fresh - expected) <= 4 * sd);
        sosmc_free(s);
    }
}

/* Who restarts must not decide where: a source that picks by a uniform (rows, mixtures) would only ever pick its first. */
static void test_refresh_is_independent_of_the_draw(void **state)
{
    enum { MANY = 100 };
    static double line[MANY * DIM];
    for (int r = 0; r < MANY; r++) line[r * DIM] = line[r * DIM + 1] = 0.02 * r - 1;
    const sosmc_rows rows = {.data = line, .rows = MANY, .mode = SOSMC_ROWS_RANDOM};
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(stay(), SOSMC_ORDER_PAPER);
    int fresh = 0, upper = 0;
    p.init = sosmc_rows_source(&rows);
    cfg.scheme = sosmc_scheme_moved_first(N);
    cfg.scheme.refresh = 0.25;
    sosmc *s = expect_create(&p, &cfg);
    moment before = quartic_now(s);
    for (int k = 0; k < 40; k++) {
        (void)expect_step(s);
        moment after = quartic_now(s);
        for (int i = 0; i < N; i++) {
            if (after.x[i][0] == before.x[i][0]) continue;
            fresh++;
            upper += after.x[i][0] > 0;
        }
        before = after;
    }
    assert_true(fresh > 250);
    if (fabs(upper - 0.5 * fresh) > 4 * sqrt(0.25 * fresh))
        fail_msg("%d of %d restarts came from the upper half of the rows", upper, fresh);
    sosmc_free(s);
}

/* ---------------------------------------------------------------------------- a repeated move */

/* Leaves the target invariant by standing still, but fumbles the first attempt of every move. */
static int fumbling_step(const sosmc_kernel *k, sosmc_move *m)
{
    int rc = stay_step(k, m);
    if (m->rng.retry == 0 && k->self) m->U_new[0] = NAN;
    return rc;
}

/* A repeated move changes the step and the noise, not the weight that theta's motion has already earned. */
static void test_retry_keeps_the_weights(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc *s[2];
    for (int i = 0; i < 2; i++) {
        sosmc_settings cfg = quartic_calm(stay(), SOSMC_ORDER_PAPER);
        cfg.kernel.step = fumbling_step;
        cfg.kernel.invariant = 1;
        cfg.kernel.self = i ? &m : NULL;
        cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        s[i] = expect_create(&p, &cfg);
    }
    for (int k = 0; k < 3; k++) {
        (void)expect_step(s[0]);
        const sosmc_info *info = expect_step(s[1]);
        assert_int_equal(info->retries, k > 0);
        moment steady = quartic_now(s[0]), fumbled = quartic_now(s[1]);
        for (int i = 0; i < N; i++) assert_close(fumbled.logw[i], steady.logw[i], 1e-12);
    }
    sosmc_free(s[0]);
    sosmc_free(s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soul),
        cmocka_unit_test(test_many_chains),
        cmocka_unit_test(test_pcd),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_refresh_is_independent_of_the_draw),
        cmocka_unit_test(test_retry_keeps_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
