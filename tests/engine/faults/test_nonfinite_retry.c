/* test_nonfinite_retry.c: values that are not finite under the policies retry and restart, and in a user's kernels.
 *
 * A repeated move has a smaller step and noise of its own, a restarted particle is a new one, and weights stay what
 * they have to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "assertions.h"
#include "faulty_model.h"

/* ---------------------------------------------------------------------------- a user's kernels */

/* An exact draw from pi_theta = N((theta + Y)/2, 1/2): leaves it invariant without Metropolis. Poisoned at will. */
typedef struct {
    int64_t iteration, particle; /* where the move is not finite ... */
    uint32_t attempts;           /* ... for so many attempts */
} gibbs_plan;

static int gibbs_step(const sosmc_kernel *k, sosmc_move *m)
{
    const gibbs_plan *q = k->self;
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (int j = 0; j < D; j++)
        for (int i = 0; i < m->b.n; i++)
            m->x_new[j * m->b.ld + i] = 0.5 * (m->theta[j] + faulty_y[j]) + sqrt(0.5) * m->x_new[j * m->b.ld + i];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    int64_t at = q->particle - m->b.first;
    if ((int64_t)m->rng.step == q->iteration && m->rng.retry < q->attempts && at >= 0 && at < m->b.n)
        m->U_new[at] = NAN;
    return rc;
}

static sosmc_kernel gibbs(const gibbs_plan *q)
{
    return (sosmc_kernel){.name = "gibbs",
                          .step = gibbs_step,
                          .h = 1.0,
                          .noise = 1.0,
                          .mass = 1.0,
                          .leapfrog = 1,
                          .self = q,
                          .invariant = 1};
}

static void gibbs_run(faulty_run *l, const gibbs_plan *q, int order, int policy)
{
    faulty_fill(l, sosmc_scheme_sosmc(N), gibbs(q));
    l->cfg.scheme.order = order;
    l->cfg.scheme.ess_min = 0.0;
    l->cfg.on_nonfinite = policy;
    l->cfg.optimiser = sosmc_sgd(0.05); /* theta moves, so that there is something to weigh */
    faulty_open(l);
}

/* The weight of an invariant kernel does not depend on its move, so a repeated move must not change it. */
static void retry_keeps_the_weight_of_invariant_kernels(void **state)
{
    static snapshot with, without;
    for (int order = 0; order < 2; order++) {
        gibbs_plan bad = {.iteration = 3, .particle = 70, .attempts = 2}, good = {.attempts = 0};
        faulty_run l, clean;
        gibbs_run(&l, &bad, order, SOSMC_NONFINITE_RETRY);
        gibbs_run(&clean, &good, order, SOSMC_NONFINITE_RETRY);
        faulty_steps(&l, 4);
        faulty_steps(&clean, 4);
        assert_int_equal(sosmc_last(l.s)->retries, 2);
        faulty_look(&l, &with);
        faulty_look(&clean, &without);
        for (int i = 0; i < N; i++) assert_true(fabs(with.logw[i] - without.logw[i]) < 1e-12);
        sosmc_free(l.s);
        sosmc_free(clean.s);
    }
}

/* In the authors' order an invariant kernel moves after it has been weighed: who is lost then is lost all the same. */
static void drop_takes_the_weight_after_weighing_too(void **state)
{
    static snapshot c;
    for (int order = 0; order < 2; order++) {
        gibbs_plan bad = {.iteration = 3, .particle = 70, .attempts = 1};
        faulty_run l;
        gibbs_run(&l, &bad, order, SOSMC_NONFINITE_DROP);
        faulty_steps(&l, 4);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 1);
        faulty_look(&l, &c);
        for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i == 70));
        sosmc_free(l.s);
    }
}

/* A weight that is not a number is a failure of the move, whatever the particle looks like. */
static int nan_weight_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    const double *poison = k->self;
    if (m->logG && m->rng.step == 2 && m->b.first == TILE) m->logG[6] = *poison;
    return rc;
}

static void a_weight_that_is_no_number(void **state)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    static snapshot c;
    for (int v = 0; v < 3; v++) {
        faulty_run l;
        faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.kernel.step = nan_weight_step;
        l.cfg.kernel.self = &poison[v];
        l.cfg.scheme.ess_min = 0.0;
        faulty_open(&l);
        faulty_steps(&l, 3);
        assert_int_equal(sosmc_last(l.s)->nonfinite, v < 2); /* -inf is a weight of zero, and said so by the kernel */
        faulty_look(&l, &c);
        for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i == 70));
        sosmc_free(l.s);
    }
}

/* ---------------------------------------------------------------------------- retry */

enum { ATTEMPTS = 64 };
typedef struct {
    int attempts, bad; /* moves seen; the first `bad` of iteration `at` fail */
    int64_t at;
    double h[ATTEMPTS], x[ATTEMPTS], x_new[ATTEMPTS], gx[ATTEMPTS];
    sosmc_rng rng[ATTEMPTS];
} witness;

/* One tile only, so that attempts can be counted here. */
static int witnessed_step(const sosmc_kernel *k, sosmc_move *m)
{
    witness *w = (witness *)k->self;
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    int at = w->attempts++;
    if (at >= ATTEMPTS) return 1;
    w->h[at] = m->h;
    w->rng[at] = m->rng;
    w->x[at] = m->x[5];
    w->gx[at] = m->gx[5];
    w->x_new[at] = m->x_new[5];
    if ((int64_t)m->rng.step == w->at && (int)m->rng.retry < w->bad) m->logG[3] = m->U_new[3] = NAN;
    return rc;
}

static void retry_run(faulty_run *l, witness *w, int bad)
{
    *w = (witness){.bad = bad, .at = 2};
    faulty_fill(l, sosmc_scheme_sosmc(20), sosmc_ula(0.05));
    l->cfg.kernel.step = witnessed_step;
    l->cfg.kernel.self = w;
    l->cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
    faulty_open(l);
}

static double noise_of(const sosmc_rng *rng)
{
    _Alignas(64) double z[D * 24];
    sosmc_batch b = {.dim = D, .n = 20, .ld = 24};
    sosmc_normals(*rng, &b, z);
    return z[5];
}

static void retry_halves_the_step_of_this_move(void **state)
{
    static witness w;
    for (int bad = 0; bad <= 8; bad++) {
        faulty_run l;
        retry_run(&l, &w, bad);
        faulty_steps(&l, 5); /* iteration 0 does not move, 1 moves, 2 repeats, 3 and 4 move */
        assert_int_equal(w.attempts, 4 + bad);
        for (int a = 0; a < w.attempts; a++) {
            int repeat = a >= 1 && a <= 1 + bad ? a - 1 : 0;
            int step = a == 0 ? 1 : a <= 1 + bad ? 2 : a - bad + 1;
            assert_int_equal(w.rng[a].step, step);
            assert_int_equal(w.rng[a].retry, repeat);
            assert_true(w.h[a] == ldexp(0.05, -repeat));
            double z = noise_of(&w.rng[a]); /* fresh noise, from the kept copy */
            assert_true(fabs(w.x_new[a] - (w.x[a] - w.h[a] * w.gx[a] + sqrt(2.0 * w.h[a]) * z)) < 1e-14);
            if (repeat) assert_true(w.x[a] == w.x[a - 1] && z != noise_of(&w.rng[a - 1]));
        }
        assert_true(sosmc_last(l.s)->h == 0.05);
        assert_int_equal(sosmc_last(l.s)->retries, 0);
        sosmc_free(l.s);

        retry_run(&l, &w, bad);
        faulty_steps(&l, 3);
        assert_int_equal(sosmc_last(l.s)->retries, bad);
        assert_true(sosmc_last(l.s)->h == 0.05);
        sosmc_free(l.s);
    }
}

static void retry_gives_up_after_eight(void **state)
{
    static witness w;
    faulty_run l;
    retry_run(&l, &w, 9);
    faulty_steps(&l, 2);
    assert_int_equal(sosmc_step(l.s), SOSMC_ENUMERIC);
    assert_int_equal(w.attempts, 1 + 9); /* the move and eight repetitions */
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "particle 3");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    assert_contains(sosmc_message(l.s), "nan");
    sosmc_free(l.s);
}

/* A repeated move has names of its own: threads draw the same, and the weights of the repeated move are exact ones. */
static void retry_is_the_same_on_any_thread(void **state)
{
    uint64_t hash[2];
    for (int q = 0; q < 2; q++) {
        faulty_run l;
        faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        l.cfg.threads = q ? 3 : 1;
        faulty_open(&l);
        faulty_steps(&l, 2);
        l.q.wall = 2.2; /* where a step that is small enough does not reach */
        int retries = 0;
        for (int k = 0; k < 8; k++) {
            faulty_steps(&l, 1);
            retries += sosmc_last(l.s)->retries;
        }
        assert_true(retries > 0);
        hash[q] = sosmc_hash(l.s);
        sosmc_free(l.s);
    }
    assert_true(hash[0] == hash[1]);
}

/* ---------------------------------------------------------------------------- restart */

static void restart_draws_from_the_initial_law(void **state)
{
    const sosmc_scheme schemes[] = {sosmc_scheme_unweighted(N), sosmc_scheme_moved_first(N)};
    static snapshot with, without;
    for (int q = 0; q < 2; q++)
        for (int threads = 1; threads <= 3; threads += 2) {
            _Alignas(64) double z[D * 8];
            sosmc_batch b = {.dim = D, .n = 1, .ld = 8, .first = 70};
            faulty_run l, clean;
            faulty_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            l.cfg.threads = threads;
            clean = l;
            clean.p.model.self = clean.p.init.self = &clean.q;
            l.q.offender[0] = 70;
            l.q.batches_only = 1;
            faulty_open(&l);
            faulty_open(&clean);
            faulty_steps(&l, 2);
            faulty_steps(&clean, 3);
            if (faulty_bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
            assert_true(sosmc_last(l.s)->nonfinite >= 1);
            assert_int_equal(sosmc_last(clean.s)->nonfinite, 0);
            faulty_look(&l, &with);
            faulty_look(&clean, &without);
            sosmc_normals((sosmc_rng){.seed = 5, .step = 2, .stream = SOSMC_STREAM_REFRESH, .retry = 1}, &b, z);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < D; j++)
                    assert_true(with.x[i * D + j] == (i == 70 ? z[j * 8] : without.x[i * D + j]));
            faulty_steps(&l, 5);
            sosmc_free(l.s);
            sosmc_free(clean.s);
        }
}

/* What the model had parked belongs to the particle that is gone: the gradient must not be taken from it. */
static void restart_forgets_what_was_parked(void **state)
{
    const sosmc_scheme schemes[] = {sosmc_scheme_unweighted(N), sosmc_scheme_moved_first(N),
                                    sosmc_scheme_pcd(N, 2 * N, 3)};
    for (int q = 0; q < 3; q++) {
        uint64_t hash[2];
        for (int parked = 0; parked < 2; parked++) {
            faulty_run l;
            faulty_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.optimiser = sosmc_sgd(0.05);
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            if (!parked) l.cfg.work_limit = 0;
            l.q.offender[0] = 70;
            l.q.batches_only = 1;
            faulty_open(&l);
            faulty_steps(&l, 2);
            for (int k = 0; k < 3; k++)
                if (faulty_bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
            faulty_steps(&l, 2);
            hash[parked] = sosmc_hash(l.s);
            sosmc_free(l.s);
        }
        assert_true(hash[0] == hash[1]);
    }
}

static void restart_may_fail_too(void **state)
{
    faulty_run l;
    faulty_fill(&l, sosmc_scheme_unweighted(N), sosmc_ula(0.05));
    l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
    l.q.offender[0] = 70; /* alone or not */
    faulty_open(&l);
    faulty_steps(&l, 2);
    assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "restarted");
    assert_contains(sosmc_message(l.s), "particle 70");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    sosmc_free(l.s);
}

static void restart_in_sweeps_and_pools(void **state)
{
    sosmc_scheme soul = sosmc_scheme_soul(10);
    soul.particles = soul.pool = N;
    const sosmc_scheme schemes[] = {soul, sosmc_scheme_pcd(N, 2 * N, 3)};
    for (int q = 0; q < 2; q++) {
        uint64_t hash[2];
        for (int t = 0; t < 2; t++) {
            faulty_run l;
            faulty_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            l.cfg.threads = t ? 3 : 1;
            l.q.offender[0] = 20;
            l.q.offender[1] = 149;
            l.q.batches_only = 1;
            faulty_open(&l);
            for (int k = 0; k < 4; k++) {
                if (faulty_bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
                assert_true(sosmc_last(l.s)->nonfinite >= 2);
                assert_true(isfinite(sosmc_last(l.s)->grad_norm) && isfinite(sosmc_last(l.s)->mean_energy));
            }
            faulty_steps(&l, 1);
            assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
            hash[t] = sosmc_hash(l.s);
            sosmc_free(l.s);
        }
        assert_true(hash[0] == hash[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_keeps_the_weight_of_invariant_kernels),
        cmocka_unit_test(drop_takes_the_weight_after_weighing_too),
        cmocka_unit_test(a_weight_that_is_no_number),
        cmocka_unit_test(retry_halves_the_step_of_this_move),
        cmocka_unit_test(retry_gives_up_after_eight),
        cmocka_unit_test(retry_is_the_same_on_any_thread),
        cmocka_unit_test(restart_draws_from_the_initial_law),
        cmocka_unit_test(restart_forgets_what_was_parked),
        cmocka_unit_test(restart_may_fail_too),
        cmocka_unit_test(restart_in_sweeps_and_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
