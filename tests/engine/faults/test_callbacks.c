/* test_callbacks.c: callbacks that return non-zero stop a run wherever they are called.
 *
 * The status says so, and the message names the callback, the iteration and what was returned: of several failures the
 * lowest, for any number of threads. The iteration is taken back: the engine is where it was before, to the bit, and goes on from there
 * as if nothing had happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "fake_comm.h"
#include "faulty_model.h"
#include "memory_stream.h"

typedef enum {
    C_PREPARE,
    C_ENERGY,
    C_GRAD,
    C_SCORE,
    C_INIT,
    C_INIT_PDF,
    C_DATA,
    C_DATA_PDF,
    C_KERNEL,
    C_H,
    C_PENALTY,
    C_OPTIMISER,
    CALLBACKS
} callback;
static const char *const CALLBACK_NAMES[CALLBACKS] = {"prepare",   "energy",      "grad_theta", "score",
                                                      "init.draw", "init.logpdf", "data.draw",  "data.logpdf",
                                                      "witness",   "H",           "penalty",    "optimiser"};

/* Which call of which callback fails; or, for several threads, every call on the second tile and behind. */
static struct {
    atomic_int calls[CALLBACKS];
    callback which;
    int at, by_tile; /* at: counted from 1 */
    atomic_int sick; /* particle 5 of a batch has no energy (to be restarted) */
} script;

enum { RETURNED = 77 };

static int trip(callback which, const sosmc_batch *b)
{
    int call = atomic_fetch_add(&script.calls[which], 1) + 1;
    if (which != script.which) return 0;
    if (script.by_tile) return b && b->first >= TILE ? 100 + (int)(b->first / TILE) : 0;
    return call == script.at ? RETURNED : 0;
}

static int s_prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, D * sizeof(double));
    return trip(C_PREPARE, NULL);
}
static int s_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    static const fault_plan calm = {.offender = {-1, -1, -1, -1}};
    (void)faulty_energy(&calm, theta, b, U, gx);
    if (script.sick && b->n > 5 && b->first == 0) U[5] = NAN;
    return trip(C_ENERGY, b);
}
static int s_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    static const fault_plan calm = {.offender = {-1, -1, -1, -1}};
    (void)faulty_grad_theta(&calm, theta, b, c, g);
    return trip(C_GRAD, b);
}
static int s_h(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return trip(C_H, b);
}
static int s_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                     double *value)
{
    return trip(C_PENALTY, y);
}
static int s_score(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i];
    return trip(C_SCORE, b);
}
static int s_init(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return trip(C_INIT, b);
}
static int s_data(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return trip(C_DATA, b);
}
static int s_init_pdf(const void *self, const sosmc_batch *b, double *lq)
{
    (void)sosmc_standard_normal().logpdf(NULL, b, lq);
    return trip(C_INIT_PDF, b);
}
static int s_data_pdf(const void *self, const sosmc_batch *b, double *lq)
{
    (void)sosmc_standard_normal().logpdf(NULL, b, lq);
    return trip(C_DATA_PDF, b);
}
static int s_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    return rc ? rc : trip(C_KERNEL, &m->b);
}

/* Fails behind the step: theta and slots have been written to. */
static int s_optimise(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    o->step(o, k, dim, g, theta, slots);
    return trip(C_OPTIMISER, NULL);
}

static int s_scores(const void *self, const double *theta, const sosmc_batch *b, double *S)
{
    double one[N] = {0}, g[D];
    for (int i = 0; i < b->n; i++) {
        memset(g, 0, sizeof g);
        one[i] = 1;
        int rc = s_grad(self, theta, b, one, g);
        if (rc) return rc;
        one[i] = 0;
        for (int j = 0; j < D; j++) S[j * b->ld + i] = g[j];
    }
    return 0;
}

enum {
    FORWARD,
    FORWARD_REFERENCE,
    REVERSE,
    PCD,
    SOUL,
    RESTARTS,
    SCENARIOS,
    NEWEST = SCENARIOS,
    AGAIN,
    MOMENTUM,
    WATCHED,
    OUTER,
    ALL
};

static void scenario(faulty_run *l, int which)
{
    sosmc_source init = {.draw = s_init}, data = {.draw = s_data};
    sosmc_score score = {.eval = s_score};
    faulty_fill(l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l->cfg.optimiser = sosmc_sgd(0.01);
    l->p.model.prep = D * sizeof(double);
    l->p.model.prepare = s_prepare;
    l->p.model.energy = s_energy;
    l->p.model.grad_theta = s_grad;
    l->p.init = init;
    atomic_store(&script.sick, which == RESTARTS); /* several ranks may say so at once */
    switch (which) {
    case FORWARD: /* densities of both laws, a regulariser, a user's kernel */
        l->p.init.logpdf = s_init_pdf;
        data.logpdf = s_data_pdf;
        l->p.objective = sosmc_reward_forward(score, 0.5, data, N, faulty_theta0);
        l->p.objective.penalty = s_penalty;
        l->cfg.optimiser.try_step = s_optimise;
        l->cfg.kernel.name = "witness";
        l->cfg.kernel.step = s_step;
        break;
    case FORWARD_REFERENCE: /* exact start, so that the KL needs U at theta_ref */
        l->p.init.exact = 1;
        l->p.objective = sosmc_reward_forward(score, 0.5, data, N, faulty_theta0);
        l->cfg.kernel = sosmc_hmc(0.2, 2, 1.0);
        break;
    case REVERSE:
        l->p.objective = sosmc_reward_reverse(score, 0.5, faulty_theta0);
        l->cfg.kernel = sosmc_mala(0.1);
        l->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    case PCD:
        l->p.objective = sosmc_likelihood(data, N);
        l->p.objective.energy2 = 0.01;
        l->cfg.scheme = sosmc_scheme_pcd(N, 2 * N, 2);
        break;
    case SOUL:
        l->p.objective.score = score;
        l->p.objective.H = s_h;
        l->cfg.scheme = sosmc_scheme_soul(4);
        l->cfg.scheme.particles = l->cfg.scheme.pool = N;
        l->cfg.kernel = sosmc_rwm(0.1);
        break;
    case NEWEST: /* a pool that grows, restarts */
        l->p.objective = sosmc_likelihood(data, N);
        l->cfg.scheme = sosmc_scheme_pcd(N, 3 * N, 3);
        l->cfg.scheme.pool_rule = SOSMC_POOL_NEWEST;
        l->cfg.scheme.refresh = 0.2;
        l->cfg.kernel = sosmc_ula_clamped(0.05, 4);
        break;
    case AGAIN: /* moves that may be repeated, behind a resampling */
        l->p.objective = sosmc_reward_reverse(score, 0.5, faulty_theta0);
        l->cfg.kernel = sosmc_mala(0.1);
        l->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        l->cfg.scheme.ess_min = 2;
        l->cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        break;
    case MOMENTUM: /* what a kernel, an optimiser and an average keep */
        l->p.objective = sosmc_reward_forward(score, 0.5, data, N, faulty_theta0);
        l->cfg.kernel = sosmc_underdamped(0.2, 1, 1);
        l->cfg.optimiser = sosmc_adam(0.01);
        l->cfg.average = 0.9;
        l->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    case WATCHED: /* observed iterations, with a Hessian */
        l->p.model.scores = s_scores;
        l->p.objective = sosmc_likelihood(data, N);
        l->cfg.optimiser = sosmc_adam(0.01);
        l->cfg.judge = 0.5;
        break;
    case OUTER: /* the last callback of an iteration is the optimiser, which has memory */
        l->p.model.prepare = NULL;
        l->p.model.prep = 0;
        l->p.objective = sosmc_likelihood(data, N);
        l->cfg.optimiser = sosmc_adam(0.01);
        l->cfg.optimiser.noise = 1;
        l->cfg.optimiser.try_step = s_optimise;
        l->cfg.average = 1;
        break;
    default:
        l->cfg.scheme = sosmc_scheme_moved_first(N);
        l->cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
        break;
    }
}

/* A run that calls everything there is to call: start, steps, and the evaluations after a load. */
static sosmc_status run_script(faulty_run *l, const char **stage)
{
    static memory m;
    for (int c = 0; c < CALLBACKS; c++) atomic_store(&script.calls[c], 0);
    m.used = m.at = 0;
    l->s = NULL;
    *stage = "";
    /* nothing of the start counts for a restarting scenario: sick particles may not start */
    int sick = script.sick;
    script.sick = 0;
    sosmc_status status = sosmc_create(&l->s, &l->p, &l->cfg);
    script.sick = sick;
    for (int k = 0; k < 2 && status == SOSMC_OK; k++) {
        *stage = k ? "iteration 1" : "iteration 0";
        status = sosmc_step(l->s);
    }
    if (status != SOSMC_OK) return status;
    *stage = "";
    status = sosmc_save(l->s, memory_put, &m);
    if (status == SOSMC_OK) status = sosmc_load(l->s, memory_get, &m);
    if (status != SOSMC_OK) return status;
    *stage = "iteration 2";
    return sosmc_step(l->s);
}

static void every_call_may_fail(void **state)
{
    int tripped[CALLBACKS] = {0};
    for (int which = 0; which < SCENARIOS; which++)
        for (int c = 0; c < CALLBACKS; c++)
            for (int at = 1;; at++) {
                faulty_run l;
                const char *stage;
                char value[32];
                script.which = (callback)c;
                script.at = at;
                script.by_tile = 0;
                scenario(&l, which);
                sosmc_status status = run_script(&l, &stage);
                if (status == SOSMC_OK) {
                    assert_true(atomic_load(&script.calls[c]) < at);
                    sosmc_free(l.s);
                    break;
                }
                const char *message = sosmc_message(l.s);
                assert_true(atomic_load(&script.calls[c]) >= at);
                if (status != SOSMC_EMODEL)
                    fail_msg("scenario %d, %s call %d: status %d, %s", which, CALLBACK_NAMES[c], at, status, message);
                /* an energy that fails inside a kernel makes the kernel fail: see the test below */
                if (c != C_ENERGY || !strstr(message, l.cfg.kernel.name)) assert_contains(message, CALLBACK_NAMES[c]);
                (void)snprintf(value, sizeof value, "returned %d", RETURNED);
                assert_contains(message, value);
                assert_contains(message, stage);
                tripped[c]++;
                sosmc_free(l.s);
            }
    for (int c = 0; c < CALLBACKS; c++)
        if (tripped[c] == 0) fail_msg("no scenario calls %s", CALLBACK_NAMES[c]);
    script.sick = 0;
}

/* The user wrote an energy, not a kernel: the message must send them to the right place. */
static void an_energy_inside_a_kernel_is_called_energy(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 2, 1.0)};
    for (int k = 0; k < 4; k++) {
        faulty_run l;
        script.which = C_ENERGY;
        script.by_tile = 0;
        script.at = 0;
        scenario(&l, REVERSE);
        l.p.objective = sosmc_mmle();
        l.cfg.kernel = kernels[k];
        l.cfg.scheme = sosmc_scheme_unweighted(N);
        faulty_open(&l);
        faulty_steps(&l, 1);
        script.at = atomic_load(&script.calls[C_ENERGY]) +
                    (kernels[k].invariant ? 2 : 1); /* tile 0 evaluates, then moves */
        assert_int_equal(sosmc_step(l.s), SOSMC_EMODEL);
        assert_contains(sosmc_message(l.s), "energy");
        assert_contains(sosmc_message(l.s), "returned 77");
        sosmc_free(l.s);
    }
}

/* Two tiles fail on three threads, in any order: the lower is reported, with what it returned. */
static void the_lowest_failure_is_reported(void **state)
{
    const callback which[] = {C_ENERGY, C_GRAD, C_SCORE, C_INIT, C_INIT_PDF, C_DATA, C_DATA_PDF, C_KERNEL, C_PENALTY};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++)
        for (int at_start = 0; at_start < 2; at_start++) {
            char first[512] = "";
            for (int repeat = 0; repeat < 12; repeat++) {
                faulty_run l;
                script.which = CALLBACKS;
                script.by_tile = 1;
                scenario(&l, FORWARD);
                l.cfg.threads = repeat ? 3 : 1;
                if (at_start) script.which = which[q];
                sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
                if (status == SOSMC_OK) {
                    faulty_steps(&l, at_start ? 0 : 2);
                    script.which = which[q];
                    status = sosmc_step(l.s);
                }
                if (status == SOSMC_OK) { /* the initial law is not asked again */
                    assert_true(which[q] == C_INIT || which[q] == C_INIT_PDF || (at_start && which[q] == C_KERNEL));
                    sosmc_free(l.s);
                    continue;
                }
                assert_int_equal(status, SOSMC_EMODEL);
                assert_contains(sosmc_message(l.s), "returned 101");
                assert_contains(sosmc_message(l.s), "particle 64");
                if (repeat == 0) (void)snprintf(first, sizeof first, "%s", sosmc_message(l.s));
                assert_string_equal(first, sosmc_message(l.s));
                sosmc_free(l.s);
            }
        }
    script.by_tile = 0;
}

/* ---------------------------------------------------------------------------- taken back */

typedef struct {
    memory stream;
    uint64_t hash;
    double gradient[D];
    sosmc_info info;
} portrait;

static void portray(faulty_run *l, portrait *p)
{
    memory_must_save(l->s, &p->stream);
    p->hash = sosmc_hash(l->s);
    memcpy(p->gradient, sosmc_gradient(l->s), sizeof p->gradient);
    p->info = *sosmc_last(l->s);
}

static void assert_alike(const portrait *a, const portrait *b, int with_time)
{
    sosmc_info ours = a->info;
    if (!with_time) ours.seconds = b->info.seconds;
    assert_true(memory_same(&a->stream, &b->stream));
    assert_int_equal(a->hash, b->hash);
    assert_memory_equal(a->gradient, b->gradient, sizeof a->gradient);
    assert_memory_equal(&ours, &b->info, sizeof ours);
}

enum { STEPS = 3 };

/* Goes through STEPS iterations behind `first`. Call number script.at of a callback fails; its iteration must then be as if it had not
 * begun, and succeed when it is tried again. seen[k] is the state behind iteration k. Returns whether a call failed. */
static int go_on_after_failure(int which, int threads, int first, portrait seen[STEPS + 1], int compare)
{
    faulty_run l;
    portrait now = {.hash = 0};
    int tripped = 0;
    scenario(&l, which);
    l.cfg.threads = threads;
    int sick = script.sick, at = script.at;
    script.sick = script.at = 0;
    faulty_open(&l);
    faulty_steps(&l, first);
    script.sick = sick;
    script.at = at;
    for (int c = 0; c < CALLBACKS; c++) atomic_store(&script.calls[c], 0);
    for (int k = 0; k <= STEPS; k++) {
        portray(&l, compare ? &now : &seen[k]);
        if (compare) assert_alike(&now, &seen[k], 0);
        if (k == STEPS) break;
        sosmc_status status = sosmc_step(l.s);
        while (status == SOSMC_EMODEL && tripped < 2) {
            portrait after = {.hash = 0};
            portray(&l, &after);
            assert_alike(&after, &now, 1);
            free(after.stream.bytes);
            assert_contains(sosmc_message(l.s), "returned 77");
            if (tripped++ == 0)
                script.at = atomic_load(&script.calls[script.which]) + 1; /* also when it is tried again */
            status = sosmc_step(l.s);
        }
        assert_int_equal(status, SOSMC_OK);
    }
    free(now.stream.bytes);
    sosmc_free(l.s);
    return tripped;
}

static void a_stopped_iteration_is_taken_back(void **state)
{
    int count = 0;
    script.by_tile = 0;
    for (int which = 0; which < ALL; which++) {
        int first = which == WATCHED ? 63 : 1;
        portrait seen[STEPS + 1] = {{.hash = 0}};
        script.which = CALLBACKS;
        (void)go_on_after_failure(which, 1, first, seen, 0);
        for (int c = 0; c < CALLBACKS; c++)
            for (int threads = 1; threads <= 3; threads += 2) {
                script.which = (callback)c;
                for (script.at = 1;; script.at += which == WATCHED ? 1 + script.at / 8 : 1) {
                    int at = script.at, tripped = go_on_after_failure(which, threads, first, seen, 1);
                    script.at = at;
                    count += tripped;
                    if (!tripped) break;
                }
            }
        for (int k = 0; k <= STEPS; k++) free(seen[k].stream.bytes);
    }
    print_message("%d iterations were stopped and taken back\n", count);
    assert_true(count > 1000);
    script.sick = 0;
}

/* A callback that fails on one of several ranks: all of them take the iteration back and go on together. */
typedef struct {
    int which;
    int stopped[3];
    sosmc_status status[3];
    uint64_t hash[3];
} ranks_run;

static void go_on_as_rank(void *ctx, const sosmc_comm *comm)
{
    ranks_run *r = ctx;
    faulty_run l;
    scenario(&l, r->which);
    l.cfg.comm = *comm;
    l.s = NULL;
    sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
    while (status == SOSMC_OK && sosmc_iteration(l.s) < STEPS) {
        status = sosmc_step(l.s);
        if (status != SOSMC_EMODEL || r->stopped[comm->rank]++) continue;
        status = SOSMC_OK;
    }
    r->status[comm->rank] = status;
    r->hash[comm->rank] = status == SOSMC_OK ? sosmc_hash(l.s) : 0;
    sosmc_free(l.s);
}

static void all_ranks_take_an_iteration_back(void **state)
{
    const int runs[] = {FORWARD, FORWARD_REFERENCE, PCD, AGAIN};
    const callback which[] = {C_PREPARE, C_ENERGY, C_GRAD, C_OPTIMISER};
    int stopped = 0;
    script.by_tile = 0;
    atomic_store(&script.sick, 0);
    for (size_t q = 0; q < sizeof runs / sizeof *runs; q++) {
        ranks_run right = {.which = runs[q]};
        script.which = CALLBACKS;
        assert_int_equal(fake_run(1, go_on_as_rank, &right, NULL, NULL), 0);
        assert_int_equal(right.status[0], SOSMC_OK);
        for (size_t c = 0; c < sizeof which / sizeof *which; c++)
            for (int k = 0; k < 14; k++) {
                int at = which[c] == C_OPTIMISER ? k + 1 : k + 10; /* it is called once in an iteration */
                ranks_run r = {.which = runs[q]};
                script.which = which[c];
                script.at = at;
                for (int i = 0; i < CALLBACKS; i++) atomic_store(&script.calls[i], 0);
                assert_int_equal(fake_run(3, go_on_as_rank, &r, NULL, NULL), 0);
                for (int rank = 0; rank < 3; rank++) {
                    assert_int_equal(r.status[rank], SOSMC_OK);
                    assert_int_equal(r.stopped[rank], r.stopped[0]);
                    assert_int_equal(r.hash[rank], right.hash[0]);
                }
                stopped += r.stopped[0];
            }
    }
    assert_true(stopped > 50);
}

/* A rule that may fail is the same run as the rule it calls: the same bytes in checkpoints, which either of them loads. */
static void a_step_that_may_fail_is_the_same_step(void **state)
{
    faulty_run plain, may_fail;
    portrait a = {.hash = 0}, b = {.hash = 0};
    script.which = CALLBACKS;
    scenario(&plain, OUTER);
    scenario(&may_fail, OUTER);
    plain.cfg.optimiser.try_step = NULL;
    faulty_open(&plain);
    faulty_open(&may_fail);
    faulty_steps(&plain, 5);
    faulty_steps(&may_fail, 5);
    portray(&plain, &a);
    portray(&may_fail, &b);
    assert_alike(&a, &b, 0);
    faulty_steps(&plain, 3);
    assert_int_equal(sosmc_load(plain.s, memory_get, &b.stream), SOSMC_OK);
    assert_int_equal(sosmc_hash(plain.s), b.hash);
    free(a.stream.bytes);
    free(b.stream.bytes);
    sosmc_free(plain.s);
    sosmc_free(may_fail.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(an_energy_inside_a_kernel_is_called_energy),
        cmocka_unit_test(the_lowest_failure_is_reported),
        cmocka_unit_test(a_stopped_iteration_is_taken_back),
        cmocka_unit_test(all_ranks_take_an_iteration_back),
        cmocka_unit_test(a_step_that_may_fail_is_the_same_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
