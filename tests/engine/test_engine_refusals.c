/* test_engine_refusals.c: every setting that makes no sense is refused with a sentence that names it; what looks odd
 * and is right is accepted; creating and freeing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quartic_model.h"
#include "formulas_by_hand.h"
#include "expect_engine.h"

static int no_exchange(void *self, const size_t *send_bytes, const void *send, const size_t *recv_bytes, void *recv)
{
    return 0;
}

/* Spoils setting number `which` and returns what the message must say; NULL when there is no such number. */
#define SPOIL(words, ...) \
    if (which-- == 0) {   \
        __VA_ARGS__;      \
        return words;     \
    }

static const char *spoil_problem(int which, sosmc_problem *p, sosmc_settings *c)
{
    static const double not_finite[THETA] = {0, NAN, 0};
    sosmc_score score = {.eval = quartic_reward};
    sosmc_source rows = sosmc_rows_source(&quartic_rows);
    SPOIL("model.dim_x is 0", p->model.dim_x = 0)
    SPOIL("model.dim_theta is -1", p->model.dim_theta = -1)
    SPOIL("model.tile is -3", p->model.tile = -3)
    SPOIL("model.energy", p->model.energy = NULL)
    SPOIL("model.grad_theta", p->model.grad_theta = NULL)
    SPOIL("model.prep is 8 bytes", p->model.prep = 8; p->model.prepare = NULL)
    SPOIL("model.work", p->model.work = SIZE_MAX / 4)
    SPOIL("init.draw", p->init.draw = NULL)
    SPOIL("theta0[1] is nan", p->theta0 = not_finite)
    SPOIL("objective.a is inf", p->objective.a = INFINITY)
    SPOIL("objective.b is nan", p->objective.b = NAN)
    SPOIL("objective.kl is nan", p->objective.kl = NAN)
    SPOIL("objective.scale is inf", p->objective.scale = INFINITY)
    SPOIL("objective.energy2 is nan", p->objective.energy2 = NAN)
    SPOIL("objective.ramp is -4", p->objective.ramp = -4)
    SPOIL("no objective.score", p->objective.ramp = 10)
    SPOIL("objective.loss is 9", p->objective.loss = 9)
    SPOIL("objective.loss is -1", p->objective.loss = -1)
    SPOIL("objective.theta_ref", p->objective.kl = 0.5)
    SPOIL("beta is -0.5", p->objective = sosmc_reward_forward(score, -0.5, rows, BATCH, NULL))
    SPOIL("beta is -0.25", p->objective = sosmc_reward_reverse(score, -0.25, quartic_start))
    SPOIL("objective.score.eval", p->objective = sosmc_reward_forward((sosmc_score){0}, 0.5, rows, BATCH, NULL))
    SPOIL("objective.score.eval", p->objective = sosmc_reward_reverse((sosmc_score){0}, 0.5, quartic_start))
    SPOIL("objective.data.draw", p->objective.b = 1)
    SPOIL("objective.batch is 0", p->objective = sosmc_likelihood(rows, 0))
    SPOIL("model.grad_theta", p->objective = sosmc_likelihood(rows, BATCH); p->objective.H = by_hand_H;
          p->model.grad_theta = NULL)
    SPOIL("penalty", p->objective.penalty = by_hand_penalty) /* there is no data for it to see */
    return which == 0 ? NULL : "a number in order";
}

static const char *spoil_scheme(int which, sosmc_problem *p, sosmc_settings *c)
{
    sosmc_scheme *s = &c->scheme;
    SPOIL("scheme.particles is 0", s->particles = 0)
    SPOIL("scheme.pool is 5", s->pool = 5)
    SPOIL("scheme.sweeps is 0", s->sweeps = 0)
    SPOIL("scheme.keep is 0", s->keep = 0)
    SPOIL("scheme.keep is 3", s->sweeps = 2; s->keep = 3)
    SPOIL("scheme.order is 2", s->order = 2)
    SPOIL("scheme.drift_at is -1", s->drift_at = -1)
    SPOIL("scheme.refresh is 1.5", s->refresh = 1.5)
    SPOIL("scheme.refresh is nan", s->refresh = NAN)
    SPOIL("scheme.ess_min is -0.1", s->ess_min = -0.1)
    SPOIL("scheme.ess_min is nan", s->ess_min = NAN)
    SPOIL("scheme.resampling is 5", s->resampling = 5)
    SPOIL("scheme.resampling is -1", s->resampling = -1)
    SPOIL("kernel ula has no tractable density", c->kernel.no_weight = 1)
    SPOIL("kernel.clamp is -1", c->kernel.clamp = -1)
    SPOIL("kernel.clamp is 2; a clamped move has no density", c->kernel.clamp = 2)
    SPOIL("a weighted scheme keeps the particles it has", s->sweeps = s->keep = 2)
    SPOIL("a weighted scheme keeps the particles it has", s->pool = 2 * N)
    SPOIL("a weighted scheme keeps the particles it has", s->refresh = 0.1)
    SPOIL("scheme.drift_at", *s = sosmc_scheme_pcd(N, 2 * N, 1); s->drift_at = SOSMC_AT_PREVIOUS)
    SPOIL("scheme.drift_at", *s = sosmc_scheme_unweighted(N); s->refresh = 0.1)
    SPOIL("scheme.drift_at", *s = sosmc_scheme_soul(8); s->drift_at = SOSMC_AT_PREVIOUS)
    SPOIL("scheme.order", *s = sosmc_scheme_soul(8); s->order = SOSMC_ORDER_AUTHORS)
    SPOIL("scheme.pool_rule is 2", s->pool_rule = 2)
    SPOIL("a weighted scheme keeps the particles it has", s->pool_rule = SOSMC_POOL_NEWEST)
    SPOIL("scheme.drift_at", *s = sosmc_scheme_unweighted(N); s->pool_rule = SOSMC_POOL_NEWEST)
    SPOIL("kernel jitter has no tractable density", c->kernel = sosmc_jitter(10, 0.005, 1, 0.03))
    SPOIL("kernel clamped ula has no tractable density", c->kernel = sosmc_ula_clamped(0.1, 2))
    SPOIL("kernel ula is blind", *s = sosmc_scheme_unweighted(N); c->kernel.blind = 1)
    SPOIL("kernel.gradient_clip is -1", *s = sosmc_scheme_unweighted(N); c->kernel = sosmc_jitter(1, 1, 1, -1))
    SPOIL("scheme.keep exceeds", *s = sosmc_scheme_soul(1 << 20); s->particles = s->pool = 1 << 20)
    return which == 0 ? NULL : "a number in order";
}

static const char *spoil_kernel(int which, sosmc_problem *p, sosmc_settings *c)
{
    sosmc_kernel *k = &c->kernel;
    SPOIL("kernel.step", k->step = NULL)
    SPOIL("kernel.name", k->name = NULL)
    SPOIL("kernel.h is -0.1", k->h = -0.1)
    SPOIL("kernel.h is 0", k->h = 0)
    SPOIL("kernel.h is inf", k->h = INFINITY)
    SPOIL("kernel.noise is -1", k->noise = -1)
    SPOIL("kernel.noise is nan", k->noise = NAN)
    SPOIL("kernel.noise is 0", k->noise = 0)
    SPOIL("kernel.spread is 0.5", *k = sosmc_rwm(0.1); k->spread = 0.5)
    SPOIL("kernel.spread is inf", *k = sosmc_rwm(0.1); k->spread = INFINITY)
    SPOIL("kernel.mass is 0", *k = sosmc_hmc(0.1, 1, 0))
    SPOIL("kernel.leapfrog is 0", *k = sosmc_hmc(0.1, 0, 1))
    SPOIL("kernel.aux or kernel.scratch is -1", k->aux = -1)
    SPOIL("kernel.aux or kernel.scratch is -2", k->scratch = -2)
    return which == 0 ? NULL : "a number in order";
}

static const char *spoil_optimiser(int which, sosmc_problem *p, sosmc_settings *c)
{
    sosmc_optimiser *o = &c->optimiser;
    SPOIL("optimiser.step", o->step = NULL)
    SPOIL("optimiser.name", o->name = NULL)
    SPOIL("optimiser.lr is -1", o->lr = -1)
    SPOIL("optimiser.lr is inf", o->lr = INFINITY)
    SPOIL("optimiser.momentum is 1", *o = sosmc_momentum(0.1, 1))
    SPOIL("optimiser.beta1 is -0.1", *o = sosmc_adam(0.1); o->beta1 = -0.1)
    SPOIL("optimiser.beta2 is 1", *o = sosmc_adam(0.1); o->beta2 = 1)
    SPOIL("optimiser.eps is -1", o->eps = -1)
    SPOIL("optimiser.weight_decay is -0.5", *o = sosmc_adamw(0.1, -0.5))
    SPOIL("optimiser.clip is nan", o->clip = NAN)
    SPOIL("optimiser.clip is -1", o->clip = -1)
    SPOIL("optimiser.slots is -1", o->slots = -1)
    SPOIL("optimiser.noise is -1", o->noise = -1)
    SPOIL("optimiser.noise is nan", o->noise = NAN)
    SPOIL("optimiser.noise is inf", o->noise = INFINITY)
    SPOIL("objective.scale is 0", o->noise = 1; p->objective.scale = 0)
    SPOIL("schedule.kind is 5", c->schedule.kind = 5)
    SPOIL("schedule.a is 0.5", c->schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_STEPS, .a = 0.5, .b = 0.5})
    SPOIL("schedule.b is 0", c->schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_STEPS, .a = 10})
    SPOIL("schedule.b is 1.5", c->schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_STEPS, .a = 10, .b = 1.5})
    SPOIL("schedule.a is 0", c->schedule.kind = SOSMC_SCHEDULE_COSINE)
    SPOIL("schedule.b is -1", c->schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 1, .b = -1})
    SPOIL("schedule.warmup is -1", c->schedule.warmup = -1)
    SPOIL("average is 1.5", c->average = 1.5)
    SPOIL("average is nan", c->average = NAN)
    SPOIL("average_from is -1", c->average_from = -1)
    return which == 0 ? NULL : "a number in order";
}

static const char *spoil_adapt(int which, sosmc_problem *p, sosmc_settings *c)
{
    sosmc_adapt *a = &c->adapt[which % 2]; /* either rule */
    *a = quartic_rule(0.9, 1.1, 0.01, 1);
    SPOIL("adapt.factor is 0.5", a->factor = 0.5)
    SPOIL("adapt.factor is nan", a->factor = NAN)
    SPOIL("adapt.threshold is 0", a->threshold = 0)
    SPOIL("adapt.threshold is 1.5", a->threshold = 1.5)
    SPOIL("adapt.min is 0", a->min = 0)
    SPOIL("adapt.max is 0.001", a->max = 0.001)
    SPOIL("adapt.signal is 2", a->signal = 2)
    SPOIL("adapt.target is 2", a->target = 2)
    SPOIL("effective sample size", c->scheme = sosmc_scheme_unweighted(N))
    SPOIL("acceptance rate, which kernel ula does not have", a->signal = SOSMC_SIGNAL_ACCEPT)
    return which == 0 ? NULL : "a number in order";
}

static const char *spoil_rest(int which, sosmc_problem *p, sosmc_settings *c)
{
    SPOIL("threads is -1", c->threads = -1)
    SPOIL("threads is 1025", c->threads = 1025)
    SPOIL("on_nonfinite is 5", c->on_nonfinite = 5)
    SPOIL("on_nonfinite is -1", c->on_nonfinite = -1)
    SPOIL("on_nonfinite is restart", c->on_nonfinite = SOSMC_NONFINITE_RESTART)
    SPOIL("on_nonfinite is drop", c->scheme = sosmc_scheme_unweighted(N); c->on_nonfinite = SOSMC_NONFINITE_DROP)
    SPOIL("on_nonfinite is", c->scheme = sosmc_scheme_unweighted(N); c->on_nonfinite = SOSMC_NONFINITE_RETRY)
    SPOIL("scheme.sweeps is 2", c->scheme.sweeps = 2; c->on_nonfinite = SOSMC_NONFINITE_RETRY)
    SPOIL("on_collapse is 3", c->on_collapse = 3)
    SPOIL("on_collapse is -1", c->on_collapse = -1)
    SPOIL("comm.size is -1", c->comm.size = -1)
    SPOIL("comm.rank is 2", c->comm.size = 2; c->comm.rank = 2)
    SPOIL("comm.rank is -1", c->comm.size = 2; c->comm.rank = -1)
    SPOIL("comm.allgather", c->comm.size = 2; c->comm.exchange = no_exchange)
    return which == 0 ? NULL : "a number in order";
}

static void refuse_all(const char *(*spoil)(int, sosmc_problem *, sosmc_settings *), int expected)
{
    quartic m = {.shift = 0};
    int which = 0, wrong = 0;
    for (;; which++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        sosmc *s = NULL;
        const char *words = spoil(which, &p, &cfg);
        if (!words) break;
        sosmc_status status = sosmc_create(&s, &p, &cfg);
        if (status != SOSMC_EINVAL || !s || !strstr(sosmc_message(s), words)) {
            print_error("expected a refusal that says '%s'; got %s, '%s'\n", words, sosmc_status_name(status),
                        sosmc_message(s));
            wrong++;
        }
        sosmc_free(s); /* whatever happened */
    }
    assert_int_equal(which, expected);
    assert_int_equal(wrong, 0);
}

static void test_refusals_problem(void **state) { refuse_all(spoil_problem, 27); }
static void test_refusals_scheme(void **state) { refuse_all(spoil_scheme, 31); }
static void test_refusals_kernel(void **state) { refuse_all(spoil_kernel, 14); }
static void test_refusals_optimiser(void **state) { refuse_all(spoil_optimiser, 26); }
static void test_refusals_adapt(void **state) { refuse_all(spoil_adapt, 10); }
static void test_refusals_rest(void **state) { refuse_all(spoil_rest, 14); }

static void test_simd_by_name(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    const char *old = getenv("SOSMC_SIMD");
    char *kept = old ? strdup(old) : NULL;
    sosmc *s = NULL;
    assert_int_equal(setenv("SOSMC_SIMD", "abacus", 1), 0);
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(s), "'abacus'"));
    sosmc_free(s);
    cfg.simd = sosmc_simd_named("plain"); /* a setting goes before the environment */
    sosmc_free(expect_create(&p, &cfg));
    cfg.simd = NULL;
    assert_int_equal(setenv("SOSMC_SIMD", "plain", 1), 0);
    sosmc_free(expect_create(&p, &cfg));
    if (kept)
        (void)setenv("SOSMC_SIMD", kept, 1);
    else
        (void)unsetenv("SOSMC_SIMD");
    free(kept);
}

/* Settings that look odd and are right. */
static void test_accepted(void **state)
{
    quartic m = {.shift = 0};
    for (int which = 0; which < 7; which++) {
        sosmc_problem p = quartic_problem(&m);
        sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (which == 0) cfg.scheme = sosmc_scheme_unweighted(N), cfg.kernel.noise = 0;
        if (which == 1) cfg.scheme = sosmc_scheme_unweighted(N), cfg.kernel.no_weight = 1;
        if (which == 2) p.theta0 = NULL; /* zeros */
        if (which == 3) cfg.threads = 0;
        if (which == 4) cfg.comm = (sosmc_comm){.size = 1, .rank = 0};
        if (which == 5)
            p.objective = sosmc_reward_forward((sosmc_score){.eval = quartic_reward}, 0, (sosmc_source){0}, 0, NULL);
        if (which == 6) cfg.adapt[0] = (sosmc_adapt){.factor = 0, .threshold = NAN};
        sosmc *s = expect_create(&p, &cfg);
        if (which == 2) assert_true(sosmc_theta(s)[0] == 0 && sosmc_theta(s)[2] == 0);
        (void)expect_step(s);
        (void)expect_step(s);
        sosmc_free(s);
    }
}

static void test_create_and_free(void **state)
{
    quartic m = {.shift = 0};
    sosmc_problem p = quartic_problem(&m);
    sosmc_settings cfg = quartic_calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = (sosmc *)&m;
    assert_int_equal(sosmc_create(NULL, &p, &cfg), SOSMC_EINVAL);
    assert_int_equal(sosmc_create(&s, NULL, &cfg), SOSMC_EINVAL);
    assert_null(s);
    s = (sosmc *)&m;
    assert_int_equal(sosmc_create(&s, &p, NULL), SOSMC_EINVAL);
    assert_null(s);
    assert_non_null(sosmc_message(NULL));
    sosmc_free(NULL);
    s = expect_create(&p, &cfg); /* structs are copied */
    sosmc *twin = expect_create(&p, &cfg);
    memset(&p, 0xff, sizeof p);
    memset(&cfg, 0xff, sizeof cfg);
    (void)expect_step(s);
    (void)expect_step(twin);
    assert_true(sosmc_hash(s) == sosmc_hash(twin));
    assert_string_equal(sosmc_message(s), "");
    sosmc_free(s);
    sosmc_free(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals_problem), cmocka_unit_test(test_refusals_scheme),
        cmocka_unit_test(test_refusals_kernel),  cmocka_unit_test(test_refusals_optimiser),
        cmocka_unit_test(test_refusals_adapt),   cmocka_unit_test(test_refusals_rest),
        cmocka_unit_test(test_simd_by_name),     cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_create_and_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
