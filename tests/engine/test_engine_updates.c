/* test_engine_updates.c: when things happen to theta and to step sizes: iteration 0, observers, averages, clipping,
 * schedules, an optimiser of one's own, and adaptation, all followed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "assertions.h"
#include "quartic_model.h"
#include "formulas_by_hand.h"
#include "expect_engine.h"

/* ---------------------------------------------------------------------------- the order of things */

static void test_iteration_zero(void **state)
{
    quartic m = {.shift = 0};
    for (int scheme = 0; scheme < 3; scheme++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            sosmc_problem p = quartic_problem(&m);
            sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), order);
            if (scheme == 1) cfg.scheme = sosmc_scheme_unweighted(N);
            if (scheme == 2) cfg.scheme = sosmc_scheme_moved_first(N);
            cfg.scheme.order = order;
            sosmc *s = expect_create(&p, &cfg);
            assert_int_equal(sosmc_iteration(s), 0);
            moment before = quartic_now(s);
            for (int i = 0; i < N; i++) { /* drawn under its own name */
                double z[DIM];
                by_hand_normals(&cfg, SOSMC_STREAM_INIT, 0, i, z);
                assert_true(quartic_same(before.x[i], z, DIM));
            }
            assert_memory_equal(before.theta, quartic_start, sizeof quartic_start);
            const sosmc_info *info = expect_step(s);
            moment after = quartic_now(s);
            int moves = order == SOSMC_ORDER_AUTHORS || scheme == 2;
            assert_int_equal(!quartic_same(before.x[0], after.x[0], N * DIM), moves);
            assert_true(isnan(info->accept) == !moves);
            assert_false(quartic_same(before.theta, after.theta, THETA));
            assert_int_equal(info->iteration, 0);
            assert_int_equal(info->gradient_updates, 0);
            assert_int_equal(info->updates, order == SOSMC_ORDER_AUTHORS);
            assert_int_equal(sosmc_iteration(s), 1);
            assert_true(info->seconds >= 0);
            sosmc_free(s);
        }
}

typedef struct {
    int calls, stop_at;
    int64_t last;
    const sosmc *engine;
} watcher;

static int watch(void *ctx, const sosmc *s, const sosmc_info *info)
{
    watcher *w = ctx;
    w->calls++;
    w->last = info->iteration;
    w->engine = s;
    return w->calls == w->stop_at;
}

static void test_observer(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    watcher w = {.stop_at = 3};
    sosmc *s = expect_create(&p, &cfg), *alone = expect_create(&p, &cfg);
    assert_int_equal(sosmc_run(s, 10, watch, &w), SOSMC_STOPPED);
    assert_true(w.calls == 3 && w.last == 2 && w.engine == s);
    assert_int_equal(sosmc_iteration(s), 3);
    assert_non_null(strstr(sosmc_message(s), "observer"));
    assert_int_equal(sosmc_run(s, 2, watch, &w), SOSMC_OK); /* the run can go on */
    assert_true(w.calls == 5 && w.last == 4);
    assert_int_equal(sosmc_run(alone, 5, NULL, NULL), SOSMC_OK);
    assert_true(sosmc_hash(s) == sosmc_hash(alone));
    assert_int_equal(sosmc_run(s, 0, watch, &w), SOSMC_OK);
    assert_int_equal(w.calls, 5);
    sosmc_free(s);
    sosmc_free(alone);
}

/* ---------------------------------------------------------------------------- noise of the update */

/* maths.md THETA-NOISE, written out: the optimiser's own step, then the noise, then the bounds, then the average. */
static void test_noise(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    for (int variant = 0; variant < 4; variant++) {
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        int states = N, held = 0;
        if (variant > 0) cfg.scheme = sosmc_scheme_unweighted(N);
        if (variant == 3) {
            cfg.scheme = sosmc_scheme_soul(10);
            states = 5; /* the second half of the chain */
        }
        cfg.optimiser = sosmc_sgd(0.1);
        cfg.optimiser.noise = variant == 1 ? 0.5 : 1;
        if (variant == 2) cfg.optimiser.low = -0.02, cfg.optimiser.high = 0.3;
        cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 10, .b = 0.6};
        cfg.average = 1;
        cfg.seed = 12;
        sosmc *s = expect_create(&p, &cfg);
        double theta[THETA], sum[THETA] = {0}, z[THETA];
        memcpy(theta, sosmc_theta(s), sizeof theta);
        for (int k = 0; k < 8; k++) {
            sosmc_batch one = {.dim = THETA, .n = 1, .ld = 1};
            const sosmc_info *info = expect_step(s);
            double scale = cfg.optimiser.noise * sqrt(2 * info->rate / states);
            assert_true(info->rate == sosmc_schedule_rate(cfg.schedule, 0.1, k));
            sosmc_normals((sosmc_rng){.seed = 12, .step = (uint64_t)k, .stream = SOSMC_STREAM_THETA}, &one, z);
            for (int j = 0; j < THETA; j++) {
                theta[j] = theta[j] - info->rate * sosmc_gradient(s)[j] + scale * z[j];
                if (variant == 2) held += theta[j] < -0.02 || theta[j] > 0.3;
                if (variant == 2) theta[j] = fmin(fmax(theta[j], -0.02), 0.3);
                sum[j] += theta[j];
                assert_close(sosmc_theta_average(s)[j], sum[j] / (k + 1), 1e-14);
            }
            assert_true(quartic_same(sosmc_theta(s), theta, THETA));
        }
        assert_true(variant != 2 || held > 0);
        sosmc_free(s);
    }
}

/* ---------------------------------------------------------------------------- optimiser and averages */

static void test_average(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    for (int from = 0; from <= 3; from += 3)
        for (int kind = 0; kind < 3; kind++) {
            const double decay = kind == 0 ? 0 : kind == 1 ? 1 : 0.6;
            sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
            double sum[THETA] = {0}, smooth[THETA] = {0};
            cfg.average = decay;
            cfg.average_from = from;
            sosmc *s = expect_create(&p, &cfg);
            for (int k = 0; k < 8; k++) { /* iteration k makes update k */
                (void)expect_step(s);
                const double *theta = sosmc_theta(s), *average = sosmc_theta_average(s);
                int count = k - from + 1;
                for (int j = 0; j < THETA; j++) {
                    if (count >= 1) sum[j] += theta[j];
                    double plain = count >= 1 ? sum[j] / count : theta[j];
                    double keep = count >= 1 ? fmin(decay, (count - 1.0) / count) : 0;
                    smooth[j] = keep * smooth[j] + (1 - keep) * theta[j];
                    double expected = count < 1 || kind == 0 ? theta[j] : kind == 1 ? plain : smooth[j];
                    assert_close(average[j], expected, 1e-14);
                }
            }
            sosmc_free(s);
        }
}

static void test_clipping(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = expect_create(&p, &cfg);
    for (int j = 0; j < THETA; j++) assert_true(sosmc_gradient(s)[j] == 0);
    double norm = expect_step(s)->grad_norm, free_step[THETA];
    for (int j = 0; j < THETA; j++) free_step[j] = sosmc_theta(s)[j] - quartic_start[j];
    sosmc_free(s);
    const double clips[] = {0.25 * norm, norm * 1.0001, 0};
    for (int i = 0; i < 3; i++) {
        cfg.optimiser.clip = clips[i];
        s = expect_create(&p, &cfg);
        assert_close(expect_step(s)->grad_norm, norm, 1e-15); /* before clipping */
        for (int j = 0; j < THETA; j++)
            assert_close(sosmc_theta(s)[j] - quartic_start[j], (i == 0 ? 0.25 : 1) * free_step[j], 1e-14);
        for (int j = 0; j < THETA; j++) /* quartic_calm has plain gradient descent at a rate of 0.1 */
            assert_close(sosmc_gradient(s)[j], (quartic_start[j] - sosmc_theta(s)[j]) / 0.1, 1e-12);
        sosmc_free(s);
    }
}

static void test_schedule(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    for (int kind = SOSMC_SCHEDULE_CONSTANT; kind <= SOSMC_SCHEDULE_COSINE; kind++) {
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        cfg.schedule = (sosmc_schedule){.kind = kind, .a = 4, .b = 0.5};
        sosmc *s = expect_create(&p, &cfg);
        moment before = quartic_now(s);
        for (int k = 0; k < 6; k++) {
            const sosmc_info *info = expect_step(s);
            estimate e = by_hand_estimate(&p.objective, k, before.theta, before.x, before.logw);
            double rate = sosmc_schedule_rate(cfg.schedule, 0.1, k);
            assert_true(info->rate == rate);
            assert_true(info->h == 0.1);
            for (int j = 0; j < THETA; j++) assert_close(sosmc_theta(s)[j], before.theta[j] - rate * e.g[j], 1e-12);
            before = quartic_now(s);
        }
        sosmc_free(s);
    }
}

/* A user's rule: theta on a given path, with memory and the count of updates. */
static void path_step(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const double *path = o->self;
    for (int j = 0; j < dim; j++) {
        theta[j] = path[j] + 0.1 * (double)k;
        slots[dim + j] += 1; /* two slots, zero at the start */
        if (slots[dim + j] != (double)(k + 1) || slots[j] != 0 || o->lr != 0.25) theta[j] = NAN;
    }
}

static void test_own_optimiser(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    cfg.optimiser = (sosmc_optimiser){.name = "path", .lr = 0.25, .slots = 2, .self = quartic_away, .step = path_step};
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        (void)expect_step(s);
        for (int j = 0; j < THETA; j++) assert_true(sosmc_theta(s)[j] == quartic_away[j] + 0.1 * k);
    }
    sosmc_free(s);
}

/* ---------------------------------------------------------------------------- adaptation */

static double adapted(const sosmc_adapt *a, double value, double signal)
{
    double next = signal < a->threshold ? value / a->factor : value * a->factor;
    return next < a->min ? a->min : next > a->max ? a->max : next;
}

/* Both targets, in both orders, with a power of two so that the factor is exact and with one that is not; the bounds bind. */
static void test_adaptation(void **state)
{
    quartic m = {.shift = 0};
    int up = 0, down = 0, at_min = 0, at_max = 0;
    for (int variant = 0; variant < 8; variant++) {
        int order = variant & 1, rate = variant & 2, exact = variant & 4;
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.125), order);
        cfg.optimiser = sosmc_sgd(0.125);
        cfg.scheme.ess_min = 0.9;
        cfg.adapt[0] = exact ? quartic_rule(0.95, 2, 0.0625, 0.25) : quartic_rule(0.95, 1.01, 0.1235, 0.1265);
        cfg.adapt[0].target = rate ? SOSMC_ADAPT_RATE : SOSMC_ADAPT_STEP;
        sosmc *s = expect_create(&p, &cfg);
        double value = 0.125;
        for (int k = 0; k < 14; k++) {
            const sosmc_info *info = expect_step(s); /* this iteration uses what the last one decided */
            assert_close(rate ? info->rate : info->h, value, exact ? 0 : 1e-15);
            assert_true((rate ? info->h : info->rate) == 0.125);
            double next = adapted(&cfg.adapt[0], value, info->ess / N);
            up += next > value;
            down += next < value;
            at_min += next == cfg.adapt[0].min;
            at_max += next == cfg.adapt[0].max;
            value = next;
        }
        sosmc_free(s);
    }
    assert_true(up > 5 && down > 5 && at_min > 0 && at_max > 0);
}

/* A signal equal to the threshold is not below it. */
static void test_adaptation_at_equality(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_mala(0.25), SOSMC_ORDER_PAPER);
    p.init.exact = 1;
    cfg.optimiser = sosmc_sgd(0); /* ESS is N, to the last bit */
    cfg.adapt[0] = quartic_rule(1, 2, 1e-3, 1e3);
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        const sosmc_info *info = expect_step(s);
        assert_true(info->ess == N);
        assert_true(info->h == ldexp(0.25, k));
    }
    sosmc_free(s);
}

/* Two rules, one on the ESS and one on the acceptance; the latter waits for the first move. */
static void test_two_rules(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_rwm(0.5), SOSMC_ORDER_PAPER);
    cfg.adapt[0] = quartic_rule(0.5, 2, 1e-3, 1e3);
    cfg.adapt[0].target = SOSMC_ADAPT_RATE;
    cfg.adapt[1] = quartic_rule(0.6, 4, 1e-3, 1e3);
    cfg.adapt[1].signal = SOSMC_SIGNAL_ACCEPT;
    sosmc *s = expect_create(&p, &cfg);
    double h = 0.5, rate = 0.1;
    for (int k = 0; k < 8; k++) {
        const sosmc_info *info = expect_step(s);
        assert_true(info->h == h);
        assert_close(info->rate, rate, 1e-15);
        if (k > 0)
            h = adapted(&cfg.adapt[1], h, info->accept);
        else
            assert_true(isnan(info->accept));
        rate = adapted(&cfg.adapt[0], rate, info->ess / N);
    }
    sosmc_free(s);
}

/* In the authors' order an invariant kernel weighs before it moves; before_move says whether this iteration's move already
 * sees the new step. The step reported is the step used. */
static void test_before_move(void **state)
{
    for (int before = 0; before <= 1; before++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
            for (int kernel = ULA; kernel <= MALA; kernel++) {
                tally t = {.first_move = 1};
                quartic m = {.t = &t};
                checker c = {.inner = quartic_kernel(kernel), .sweeps = 1, .t = &t};
                sosmc_problem p = quartic_problem(&m);
                sosmc_settings cfg = quartic_calm(quartic_checking(&c), order);
                cfg.adapt[0] = quartic_rule(0.85, 2, 1e-3, 1e3);
                cfg.adapt[0].before_move = before;
                sosmc *s = expect_create(&p, &cfg);
                double h = cfg.kernel.h;
                int early = before && order == SOSMC_ORDER_AUTHORS && kernel == MALA;
                for (int k = 0; k < 6; k++) {
                    t.h = -1;
                    const sosmc_info *info = expect_step(s);
                    double next = adapted(&cfg.adapt[0], h, info->ess / N);
                    assert_true(info->h == (early ? next : h));
                    if (k > 0 || order == SOSMC_ORDER_AUTHORS) assert_true(t.h == info->h);
                    h = next;
                }
                sosmc_free(s);
            }
}

/* The acceptance of this iteration is not known before the move: such a rule must act all the same, or be refused. */
static void test_acceptance_before_move(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_mala(0.1), SOSMC_ORDER_AUTHORS);
    sosmc *s = NULL;
    cfg.adapt[0] = quartic_rule(0.5, 2, 1e-3, 1e3);
    cfg.adapt[0].signal = SOSMC_SIGNAL_ACCEPT;
    cfg.adapt[0].before_move = 1;
    if (sosmc_create(&s, &p, &cfg) == SOSMC_OK) {
        assert_int_equal(sosmc_run(s, 4, NULL, NULL), SOSMC_OK);
        assert_true(sosmc_last(s)->h != 0.1);
    } else {
        assert_non_null(strstr(sosmc_message(s), "before_move"));
    }
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iteration_zero),
        cmocka_unit_test(test_observer),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_own_optimiser),
        cmocka_unit_test(test_adaptation),
        cmocka_unit_test(test_adaptation_at_equality),
        cmocka_unit_test(test_two_rules),
        cmocka_unit_test(test_before_move),
        cmocka_unit_test(test_acceptance_before_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
