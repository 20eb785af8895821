/* test_engine.c: what one engine promises, iteration by iteration.
 *
 * A small target with every quantity known in closed form, a model that counts and checks how it is called, and formulas
 * written out a second time, for one particle and in the plainest way: weights as ratios of densities, gradients as sums,
 * losses from them. Everything the engine reports is compared with these. */
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

#include <sosmc/models.h>

#include "internal.h"

enum { DIM = 2, THETA = 3, N = 37, TILE = 8, ROWS = 7, BATCH = 11, STAMP = DIM + THETA };

/* ------------------------------------------------------------------------------------------------ a target in closed form */

static const double START[THETA] = {0.5, -0.3, 0.4}, AWAY[THETA] = {0.2, 0.1, 0.6};

static double stiffness(const double *theta) { return 1 + theta[2] * theta[2]; }

static double hand_U(const double *theta, const double *x)
{
    double U = 0;
    for (int j = 0; j < DIM; j++)
        U += 0.5 * stiffness(theta) * (x[j] - theta[j]) * (x[j] - theta[j]) + 0.05 * x[j] * x[j] * x[j] * x[j];
    return U;
}

static void hand_gx(const double *theta, const double *x, double *g)
{
    for (int j = 0; j < DIM; j++) g[j] = stiffness(theta) * (x[j] - theta[j]) + 0.2 * x[j] * x[j] * x[j];
}

/* g += c dU/dtheta */
static void hand_gtheta(const double *theta, const double *x, double c, double *g)
{
    for (int j = 0; j < DIM; j++) {
        g[j] -= c * stiffness(theta) * (x[j] - theta[j]);
        g[2] += c * theta[2] * (x[j] - theta[j]) * (x[j] - theta[j]);
    }
}

static int same(const double *a, const double *b, int n)
{
    for (int j = 0; j < n; j++)
        if (a[j] != b[j]) return 0;
    return 1;
}

static double hand_R(const double *x) { return (x[0] > 0 ? 1 : 0) - 0.5 * x[1] * x[1]; }

/* ------------------------------------------------------------------------------------------------ a model that watches */

enum { SEEN_ROOM = 64 };

/* What the callbacks have seen. The lists are kept by runs on one thread only. */
typedef struct {
    atomic_llong energies, references, contracted, fresh; /* particles */
    atomic_llong stale; /* particles promised to be fresh whose work holds something else */
    atomic_llong odd;   /* batches that are not laid out, or not prepared, as promised */
    atomic_llong names; /* sum of the numbers of the particles that grad_theta saw */
    atomic_llong wrong; /* cached values that do not belong to the particle */
    atomic_llong lost;  /* numbers in aux that do not belong to it */
    int first_move;     /* no move has been made yet: nothing is in aux */
    double h;           /* the step of the last move */
    int listing, evaluated, seen;
    double evaluated_at[SEEN_ROOM][DIM], seen_at[SEEN_ROOM][DIM], seen_c[SEEN_ROOM];
} tally;

typedef struct {
    double shift; /* added to U */
    tally *t;     /* may be NULL */
} toy;

static void column(const sosmc_batch *b, int i, double *x)
{
    for (int j = 0; j < DIM; j++) x[j] = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
}

static double *stamp_of(const sosmc_batch *b, int row, int i)
{
    return (double *)b->work + (size_t)row * (size_t)b->ld + (size_t)i;
}

static void stamp(const double *theta, const sosmc_batch *b, int valid)
{
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        for (int j = 0; j < DIM; j++) *stamp_of(b, j, i) = valid ? x[j] : NAN;
        for (int j = 0; j < THETA; j++) *stamp_of(b, DIM + j, i) = theta[j];
    }
}

static int stamped(const double *theta, const sosmc_batch *b, int i)
{
    double x[DIM];
    column(b, i, x);
    for (int j = 0; j < DIM; j++)
        if (*stamp_of(b, j, i) != x[j]) return 0;
    for (int j = 0; j < THETA; j++)
        if (*stamp_of(b, DIM + j, i) != theta[j]) return 0;
    return 1;
}

/* prep is a copy of the theta it was made for. */
static int toy_prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, THETA * sizeof(double));
    return 0;
}

static int odd_shape(const double *theta, const sosmc_batch *b)
{
    return !same(b->prep, theta, THETA) || b->dim != DIM || b->n < 1 || b->n > b->ld || b->ld % 8 ||
           (uintptr_t)b->x % 64 || (uintptr_t)b->work % 64 || !b->simd;
}

static int toy_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy *m = self;
    tally *t = m->t;
    for (int i = 0; i < b->n; i++) {
        double x[DIM], g[DIM];
        column(b, i, x);
        U[i] = hand_U(theta, x) + m->shift;
        hand_gx(theta, x, g);
        for (int j = 0; gx && j < DIM; j++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = g[j];
        if (t && t->listing && t->evaluated < SEEN_ROOM) memcpy(t->evaluated_at[t->evaluated++], x, sizeof x);
    }
    stamp(theta, b, gx != NULL);
    if (t) {
        atomic_fetch_add(same(theta, AWAY, THETA) ? &t->references : &t->energies, b->n);
        atomic_fetch_add(&t->odd, odd_shape(theta, b));
    }
    return 0;
}

static int toy_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const toy *m = self;
    tally *t = m->t;
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        hand_gtheta(theta, x, c[i], g);
        if (t) atomic_fetch_add(&t->names, b->first + i);
        if (t && b->fresh) atomic_fetch_add(&t->stale, !stamped(theta, b, i));
        if (t && t->listing && t->seen < SEEN_ROOM) {
            t->seen_c[t->seen] = c[i];
            memcpy(t->seen_at[t->seen++], x, sizeof x);
        }
    }
    if (t) {
        atomic_fetch_add(&t->contracted, b->n);
        atomic_fetch_add(&t->fresh, b->fresh ? b->n : 0);
        atomic_fetch_add(&t->odd, odd_shape(theta, b));
    }
    return 0;
}

static int toy_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        s[i] = hand_R(x);
    }
    return 0;
}

static const double DATA[ROWS * DIM] = {0.3, -0.2, 1.1, 0.7, -0.4, 0.9, 0.0, -1.2, 0.6, 0.1, -0.8, -0.5, 1.4, 0.2};
static const sosmc_rows DATA_ROWS = {.data = DATA, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
static const double *data_row(int j) { return DATA + (size_t)(j % ROWS) * DIM; }

static sosmc_problem toy_problem(const toy *m)
{
    return (sosmc_problem){.model = {.dim_x = DIM,
                                     .dim_theta = THETA,
                                     .work = STAMP * sizeof(double),
                                     .prep = THETA * sizeof(double),
                                     .tile = TILE,
                                     .self = m,
                                     .prepare = toy_prepare,
                                     .energy = toy_energy,
                                     .grad_theta = toy_grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal(),
                           .theta0 = START};
}

enum { MMLE, LIKELIHOOD, FORWARD, REVERSE, OBJECTIVES };

static sosmc_objective objective_of(int which, const double *theta_ref)
{
    sosmc_score score = {.eval = toy_reward};
    switch (which) {
    case LIKELIHOOD: return sosmc_likelihood(sosmc_rows_source(&DATA_ROWS), BATCH);
    case FORWARD: return sosmc_reward_forward(score, 0.7, sosmc_rows_source(&DATA_ROWS), BATCH, theta_ref);
    case REVERSE: return sosmc_reward_reverse(score, 0.4, theta_ref);
    default: return sosmc_mmle();
    }
}

enum { ULA, MALA, RWM, HMC1, HMC3, KERNELS };

static sosmc_kernel kernel_of(int which)
{
    switch (which) {
    case ULA: return sosmc_ula(0.1);
    case MALA: return sosmc_mala(0.5);
    case RWM: return sosmc_rwm(0.4);
    case HMC1: return sosmc_hmc(0.9, 1, 1.2);
    default: return sosmc_hmc(0.6, 3, 0.8);
    }
}

/* Weighted, never resampled, plain gradient steps: what happens can be followed by hand. */
static sosmc_settings calm(sosmc_kernel kernel, int order)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(N);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.1);
    cfg.seed = 5;
    return cfg;
}

static sosmc *engine(const sosmc_problem *p, const sosmc_settings *cfg)
{
    sosmc *s = NULL;
    if (sosmc_create(&s, p, cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return s;
}

static const sosmc_info *step(sosmc *s)
{
    if (sosmc_step(s) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    return sosmc_last(s);
}

static void assert_close(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b)))) fail_msg("%.17g is not %.17g to within %g", a, b, tolerance);
}

/* The cloud and theta at one moment. */
typedef struct {
    double x[N][DIM], logw[N], theta[THETA];
} moment;

static moment now(const sosmc *s)
{
    moment m = {.theta = {0}};
    assert_int_equal(sosmc_particles(s), N);
    assert_int_equal(sosmc_cloud(s, m.x[0], m.logw), SOSMC_OK);
    memcpy(m.theta, sosmc_theta(s), sizeof m.theta);
    return m;
}

/* ------------------------------------------------------------------------------------------------ counted, checked, promised */

typedef struct {
    const char *name;
    sosmc_kernel kernel;
    sosmc_scheme scheme;
    int objective;
    int start, each; /* energies per particle in iteration 0 and in every later one */
} cost;

static sosmc_kernel ula_at(int forward, int backward)
{
    sosmc_kernel k = sosmc_ula(0.1);
    k.forward_at = forward;
    k.backward_at = backward;
    return k;
}

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
        {"weighted ula, forward at current", ula_at(CURRENT, CURRENT), weighted, MMLE, 0, 2},
        {"weighted ula, backward at previous", ula_at(PREVIOUS, PREVIOUS), weighted, MMLE, 0, 2},
        {"weighted ula, swapped", ula_at(CURRENT, PREVIOUS), weighted, MMLE, 0, 3},
        {"weighted ula, swapped, two sweeps", ula_at(CURRENT, PREVIOUS), swept(weighted, 2), MMLE, 0, 4},
        {"weighted mala", sosmc_mala(0.2), weighted, MMLE, 0, 2},
        {"weighted mala, authors", sosmc_mala(0.2), authors(weighted), MMLE, 2, 2},
        {"weighted rwm", sosmc_rwm(0.2), weighted, MMLE, 0, 2},
        {"weighted hmc", sosmc_hmc(0.3, 4, 1), weighted, MMLE, 0, 5},
        {"weighted ula, reward", sosmc_ula(0.1), weighted, REVERSE, 0, 1},
        {"unweighted ula", sosmc_ula(0.1), unweighted, MMLE, 0, 1},
        {"unweighted ula, authors", sosmc_ula(0.1), authors(unweighted), MMLE, 1, 1},
        {"unweighted ula swapped", ula_at(CURRENT, PREVIOUS), unweighted, MMLE, 0,
         2}, /* no weight, no backward kernel */
        {"unweighted mala", sosmc_mala(0.2), unweighted, MMLE, 0, 2},
        {"moved first ula", sosmc_ula(0.1), sosmc_scheme_moved_first(N), MMLE, 1, 2},
        {"moved first ula, swapped", ula_at(CURRENT, PREVIOUS), sosmc_scheme_moved_first(N), MMLE, 1, 2},
        {"pcd", sosmc_ula(0.1), sosmc_scheme_pcd(N, 2 * N, 2), MMLE, 3, 3},
    };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const cost *c = &costs[i];
        tally t = {.h = 0};
        toy m = {.t = &t};
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(c->kernel, 0);
        p.objective = objective_of(c->objective, AWAY);
        cfg.scheme = c->scheme;
        cfg.scheme.ess_min = c->scheme.weighted ? 2 : 0; /* what was cached survives resampling */
        cfg.threads = 1 + (int)i % 3;
        sosmc *s = engine(&p, &cfg);
        assert_int_equal(atomic_exchange(&t.energies, 0), N);
        for (int k = 0; k < 4; k++) {
            (void)step(s);
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
    toy m = {.t = &t};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(kernel, order);
    cfg.scheme.ess_min = ess_min;
    cfg.work_limit = work_limit;
    cfg.threads = 2;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 4; k++) {
        (void)step(s);
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
                count_fresh(kernel_of(kernel), order, ess_min, plenty, fresh);
                assert_int_equal(fresh[0], kernel == RWM ? 0 : N); /* nothing has moved yet */
                for (int k = 1; k < 4; k++) assert_int_equal(fresh[k], 0);
            }
            count_fresh(sosmc_ula(0.1), order, ess_min, 0, fresh); /* nothing parked */
            for (int k = 0; k < 4; k++) assert_int_equal(fresh[k], 0);
            count_fresh(ula_at(SOSMC_AT_PREVIOUS, SOSMC_AT_PREVIOUS), order, ess_min, plenty, fresh);
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

/* The mixture with `fresh` hidden from it: every gradient takes a pass of its own. */
static int unfused_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const sosmc_model *inner = self;
    sosmc_batch stale = *b;
    stale.fresh = 0;
    return inner->grad_theta(inner->self, theta, &stale, c, g);
}
static int unfused_prepare(const void *self, const double *theta, void *prep)
{
    const sosmc_model *inner = self;
    return inner->prepare(inner->self, theta, prep);
}
static int unfused_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_model *inner = self;
    return inner->energy(inner->self, theta, b, U, gx);
}

static const double MEANS[] = {0.0, 0.0, 2.0, 1.0, -1.5, 2.0};
static const double MIXTURE_START[] = {0.3, -0.2, 0.1};
static const sosmc_mixture MIXTURE = {.dim = DIM, .components = 3, .means = MEANS, .variance = 0.6};
static const sosmc_mixture_law LAW = {.mixture = &MIXTURE, .theta = MIXTURE_START};

static void test_fused_equals_unfused(void **state)
{
    sosmc_model inner = sosmc_mixture_model(&MIXTURE);
    inner.tile = TILE;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int variant = 0; variant < 4; variant++) {
            sosmc_problem p = {.model = inner,
                               .objective = objective_of(FORWARD, NULL),
                               .init = sosmc_mixture_source(&LAW),
                               .theta0 = MIXTURE_START};
            sosmc_settings cfg = calm(kernel_of(kernel), variant & 1);
            cfg.scheme.ess_min = variant & 2 ? 0.97 : 0;
            cfg.optimiser = sosmc_sgd(1);
            sosmc *fused = engine(&p, &cfg);
            p.model.self = &inner;
            p.model.prepare = unfused_prepare;
            p.model.energy = unfused_energy;
            p.model.grad_theta = unfused_grad_theta;
            sosmc *unfused = engine(&p, &cfg);
            int rejections = 0;
            for (int k = 0; k < 5; k++) {
                rejections += step(fused)->accept < 1;
                (void)step(unfused);
                assert_true(sosmc_hash(fused) == sosmc_hash(unfused));
            }
            assert_true(kernel == ULA || rejections >= 3);
            sosmc_free(fused);
            sosmc_free(unfused);
        }
}

/* A kernel that looks at what it is given before it hands it to another: U and gx must be those of x under theta_prev, and
 * aux, which it keeps at 2 x + 1, must have come along. */
typedef struct {
    sosmc_kernel inner;
    int sweeps;
    tally *t;
} checker;

static int checker_step(const sosmc_kernel *k, sosmc_move *m)
{
    const checker *c = k->self;
    size_t len = (size_t)m->b.dim * (size_t)m->b.ld;
    double U[64], gx[64 * DIM];
    long long wrong = 0, lost = 0;
    int newborn = c->t->first_move && m->rng.step % (uint64_t)c->sweeps == 0;
    int rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x, U, gx);
    for (int i = 0; i < m->b.n; i++) {
        wrong += U[i] != m->U[i];
        for (size_t e = (size_t)i; e < len; e += (size_t)m->b.ld) {
            wrong += m->gx && gx[e] != m->gx[e];
            lost += m->aux[e] != (newborn ? 0 : 2 * m->x[e] + 1);
        }
    }
    atomic_fetch_add(&c->t->wrong, wrong);
    atomic_fetch_add(&c->t->lost, lost);
    if (m->b.first == 0) c->t->h = m->h;
    if (rc == 0) rc = c->inner.step(&c->inner, m);
    for (size_t e = 0; e < len; e++) m->aux_new[e] = 2 * m->x_new[e] + 1;
    return rc;
}

static sosmc_kernel checking(const checker *c)
{
    sosmc_kernel k = c->inner;
    k.step = checker_step;
    k.self = c;
    k.aux = 1;
    return k;
}

static void check_caches(int kernel, sosmc_scheme scheme)
{
    tally t = {.first_move = 1};
    toy m = {.t = &t};
    checker c = {.inner = kernel_of(kernel), .sweeps = scheme.sweeps, .t = &t};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(checking(&c), 0);
    cfg.scheme = scheme;
    cfg.threads = 2;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        (void)step(s);
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
    toy m = {.t = &t};
    checker c = {.inner = kernel_of(kernel), .sweeps = 2, .t = &t};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(checking(&c), order);
    cfg.scheme = sosmc_scheme_moved_first(N);
    cfg.scheme.order = order;
    cfg.scheme.sweeps = 2;
    cfg.scheme.refresh = 1;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 3; k++) (void)step(s);
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
            sosmc_settings cfg = calm(kernel_of(kernel), SOSMC_ORDER_PAPER);
            cfg.scheme = sosmc_scheme_sosmc(cuts[i].particles);
            cfg.scheme.ess_min = 2;
            sosmc *s = engine(&p, &cfg);
            (void)step(s);
            (void)step(s);
            assert_int_equal(atomic_load(&seen.n), cuts[i].n);
            assert_int_equal(atomic_load(&seen.ld), cuts[i].ld);
            assert_int_equal(atomic_load(&seen.odd), 0);
            sosmc_free(s);
        }
}

/* ------------------------------------------------------------------------------------------------ weights */

static void test_constant_in_U(void **state)
{
    const double shift = 1024;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int objective = 0; objective < OBJECTIVES; objective++) {
            toy plain = {.shift = 0}, shifted = {.shift = shift};
            sosmc_problem p = toy_problem(&plain), q = toy_problem(&shifted);
            sosmc_settings cfg = calm(kernel_of(kernel), kernel & 1);
            p.objective = q.objective = objective_of(objective, START);
            cfg.scheme.ess_min = 0.8;
            sosmc *a = engine(&p, &cfg), *b = engine(&q, &cfg);
            for (int k = 0; k < 6; k++) {
                const sosmc_info *ia = step(a), *ib = step(b);
                moment ma = now(a), mb = now(b);
                for (int i = 0; i < N; i++) {
                    assert_close(mb.logw[i], ma.logw[i], 1e-9);
                    for (int j = 0; j < DIM; j++) assert_close(mb.x[i][j], ma.x[i][j], 1e-9);
                }
                for (int j = 0; j < THETA; j++) assert_close(mb.theta[j], ma.theta[j], 1e-9);
                assert_int_equal(ia->resampled, ib->resampled);
                assert_close(ib->ess, ia->ess, 1e-9);
                if (!isnan(ia->accept)) assert_close(ib->accept, ia->accept, 1e-9);
                assert_close(ib->mean_energy, ia->mean_energy + shift, 1e-9);
                assert_close(ib->logz, ia->logz - shift, 1e-9);
                /* -log Z moves with the constant; a likelihood or a divergence does not */
                assert_close(ib->loss, objective == MMLE ? ia->loss + shift : ia->loss, 1e-9);
            }
            sosmc_free(a);
            sosmc_free(b);
        }
}

/* With theta at rest a reversible kernel weighs nothing, to the last bit; with theta in motion, or without the Metropolis
 * step, it does. */
static void test_reversible_at_rest(void **state)
{
    toy m = {.shift = 0};
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
            for (int moving = 0; moving <= 1; moving++) {
                sosmc_problem p = toy_problem(&m);
                sosmc_settings cfg = calm(kernel_of(kernel), order);
                p.init.exact = 1;
                cfg.optimiser = sosmc_sgd(moving ? 0.1 : 0);
                sosmc *s = engine(&p, &cfg);
                for (int k = 0; k < 5; k++) {
                    const sosmc_info *info = step(s);
                    moment c = now(s);
                    int equal = 1, rest = kernel != ULA && !moving;
                    for (int i = 1; i < N; i++) equal &= c.logw[i] == c.logw[0];
                    if (k == 0 && (order == SOSMC_ORDER_PAPER)) rest = 1; /* nothing has happened */
                    assert_int_equal(equal, rest);
                    assert_true((info->ess == N) == rest);
                    assert_true((info->logz == 0) == rest);
                    if (rest) assert_close(c.logw[0], -log(N), 1e-14);
                }
                sosmc_free(s);
            }
}

/* log of the density of N(mean, 2 h noise^2) at y, without the constant that both kernels share. */
static double log_kernel(const sosmc_kernel *k, const double *theta, const double *from, const double *to)
{
    double g[DIM], sum = 0;
    hand_gx(theta, from, g);
    for (int j = 0; j < DIM; j++) {
        double d = to[j] - from[j] + k->h * g[j];
        sum -= d * d / (4 * k->h * k->noise * k->noise);
    }
    return sum;
}

/* The incremental weight as the ratio it is. */
static double hand_logG(const sosmc_kernel *k, const double *prev, const double *cur, const double *x, const double *y)
{
    if (k->invariant) return hand_U(prev, x) - hand_U(cur, x);
    const double *forward = k->forward_at == SOSMC_AT_CURRENT ? cur : prev;
    const double *backward = k->backward_at == SOSMC_AT_CURRENT ? cur : prev;
    return hand_U(prev, x) - hand_U(cur, y) + log_kernel(k, backward, y, x) - log_kernel(k, forward, x, y);
}

static void follow_weights(sosmc_kernel kernel, int order)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(kernel, order);
    sosmc *s = engine(&p, &cfg);
    moment before = now(s);
    double prev[THETA], sum = 0, logz = NAN;
    for (int i = 0; i < N; i++) { /* W_0 = exp(-U) / q */
        double lq = -log(2 * acos(-1)) - 0.5 * (before.x[i][0] * before.x[i][0] + before.x[i][1] * before.x[i][1]);
        double W = exp(-hand_U(START, before.x[i]) - lq);
        assert_close(before.logw[i] - before.logw[0],
                     log(W) - (-hand_U(START, before.x[0]) + log(2 * acos(-1)) +
                               0.5 * (before.x[0][0] * before.x[0][0] + before.x[0][1] * before.x[0][1])),
                     1e-12);
        sum += W / N;
    }
    logz = log(sum);
    memcpy(prev, START, sizeof prev);
    for (int k = 0; k < 5; k++) {
        const sosmc_info *info = step(s);
        moment after = now(s);
        const double *cur = order == SOSMC_ORDER_PAPER ? before.theta : after.theta;
        double logG[N], total = 0;
        if (order == SOSMC_ORDER_AUTHORS) memcpy(prev, before.theta, sizeof prev);
        for (int i = 0; i < N; i++) {
            int moved = order == SOSMC_ORDER_AUTHORS || k > 0;
            logG[i] = moved ? hand_logG(&kernel, prev, cur, before.x[i], after.x[i]) : 0;
            total += exp(before.logw[i] + logG[i]);
        }
        for (int i = 0; i < N; i++) assert_close(after.logw[i], before.logw[i] + logG[i] - log(total), 1e-10);
        logz += log(total);
        assert_close(info->logz, logz, 1e-10);
        memcpy(prev, before.theta, sizeof prev);
        before = after;
    }
    sosmc_free(s);
}

static void test_weights_by_hand(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        for (int choice = 0; choice < 4; choice++)
            for (int loud = 0; loud <= 1; loud++) {
                sosmc_kernel k = ula_at(choice & 1, choice >> 1);
                k.noise = loud ? 1.3 : 1;
                follow_weights(k, order);
            }
        for (int kernel = MALA; kernel < KERNELS; kernel++) follow_weights(kernel_of(kernel), order);
    }
}

/* log Z of the mixture is known, and its law has equal weights exp(-U)/q. */
static void test_absolute_logz(void **state)
{
    sosmc_problem p = {.model = sosmc_mixture_model(&MIXTURE),
                       .objective = sosmc_mmle(),
                       .init = sosmc_mixture_source(&LAW),
                       .theta0 = MIXTURE_START};
    sosmc_settings cfg = calm(sosmc_ula(0.05), SOSMC_ORDER_PAPER);
    sosmc *s = engine(&p, &cfg);
    const sosmc_info *info = step(s);
    assert_close(info->logz, sosmc_mixture_logz(&MIXTURE), 1e-13);
    assert_close(info->loss, -sosmc_mixture_logz(&MIXTURE), 1e-13);
    assert_close(info->ess, N, 1e-13);
    sosmc_free(s);
}

static void test_cloud(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    for (int weighted = 0; weighted <= 1; weighted++) {
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (!weighted) cfg.scheme = sosmc_scheme_unweighted(N);
        sosmc *s = engine(&p, &cfg);
        for (int k = 0; k < 4; k++) {
            moment c = now(s);
            double x[N][DIM], logw[N], sum = 0;
            for (int i = 0; i < N; i++) sum += exp(c.logw[i]);
            assert_close(sum, 1, 1e-13);
            if (!weighted) assert_close(c.logw[3], -log(N), 1e-14);
            assert_int_equal(sosmc_cloud(s, x[0], NULL), SOSMC_OK);
            assert_int_equal(sosmc_cloud(s, NULL, logw), SOSMC_OK);
            assert_memory_equal(x, c.x, sizeof x);
            assert_memory_equal(logw, c.logw, sizeof logw);
            (void)step(s);
        }
        sosmc_free(s);
    }
}

/* After resampling all weights are equal, every particle is one of the old ones, and heavy ones are there more often. */
static void test_resampled_cloud(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = engine(&p, &cfg);
    moment before = now(s);
    sosmc_free(s);
    cfg.scheme.ess_min = 2;
    s = engine(&p, &cfg);
    assert_int_equal(step(s)->resampled, 1); /* iteration 0 weighs with W_0 and does not move */
    moment after = now(s);
    for (int a = 0, i = 0; a < N; a++) {
        int offspring = 0;
        while (i < N && same(after.x[i], before.x[a], DIM)) i++, offspring++;
        double expected = N * exp(before.logw[a]);
        assert_true(offspring >= floor(expected - 1e-9) && offspring <= ceil(expected + 1e-9)); /* systematic */
        if (a == N - 1) assert_int_equal(i, N);
    }
    for (int i = 0; i < N; i++) assert_close(after.logw[i], -log(N), 1e-14);
    sosmc_free(s);
}

static void test_when_to_resample(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.3), SOSMC_ORDER_PAPER);
    int happened = 0, spared = 0;
    cfg.optimiser = sosmc_sgd(0.6);
    cfg.scheme.ess_min = 0.75;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 12; k++) {
        const sosmc_info *info = step(s);
        assert_int_equal(info->resampled, info->ess < 0.75 * N);
        assert_true(info->ess >= 1 && info->ess <= N * (1 + 1e-14));
        info->resampled ? happened++ : spared++;
    }
    assert_true(happened > 0 && spared > 0);
    sosmc_free(s);
    cfg.scheme.ess_min = 1; /* exact weights that are equal: ESS is N, and N is not below N */
    p.init.exact = 1;
    s = engine(&p, &cfg);
    assert_int_equal(step(s)->resampled, 0);
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ gradients and losses */

/* What the objective sees at theta: particles x with normalised weights w, and the data batch. */
typedef struct {
    double g[THETA], mean_score, mean_energy, difference, data_U, data_ref, ess;
} estimate;

static estimate hand_estimate(const sosmc_objective *o, const double *theta, double (*x)[DIM], const double *logw)
{
    estimate e = {.g = {0}};
    double w2 = 0;
    for (int i = 0; i < N; i++) {
        double w = exp(logw[i]), U = hand_U(theta, x[i]);
        w2 += w * w;
        e.mean_energy += w * U;
        if (o->score.eval) e.mean_score += w * hand_R(x[i]);
        if (o->theta_ref) e.difference += w * (U - hand_U(o->theta_ref, x[i]));
    }
    e.ess = 1 / w2;
    double sbar = e.mean_score + o->kl * e.difference;
    for (int i = 0; i < N; i++) {
        double U = hand_U(theta, x[i]), s = o->score.eval ? hand_R(x[i]) : 0;
        if (o->kl != 0) s += o->kl * (U - hand_U(o->theta_ref, x[i]));
        hand_gtheta(theta, x[i], o->scale * exp(logw[i]) * (s - sbar + o->a), e.g);
    }
    for (int j = 0; o->b != 0 && j < BATCH; j++) {
        hand_gtheta(theta, data_row(j), o->scale * o->b / BATCH, e.g);
        e.data_U += hand_U(theta, data_row(j)) / BATCH;
        if (o->theta_ref) e.data_ref += hand_U(o->theta_ref, data_row(j)) / BATCH;
    }
    return e;
}

static void check_loss(const sosmc_objective *o, const estimate *e, double logz, const sosmc_info *info)
{
    double kl = NAN, loss = NAN;
    switch (o->loss) {
    case SOSMC_LOSS_MMLE: loss = -logz; break;
    case SOSMC_LOSS_LIKELIHOOD: loss = e->data_U + logz; break;
    case SOSMC_LOSS_FORWARD_KL: /* KL(ref || theta) = E_ref[U - U_ref] + log Z/Z_ref */
        kl = e->data_U - e->data_ref + logz;
        loss = -e->mean_score + o->b * kl;
        break;
    default: /* KL(theta || ref) = -E[U - U_ref] - log Z/Z_ref */
        kl = -e->difference - logz;
        loss = -e->mean_score + o->kl * kl;
        break;
    }
    assert_close(info->loss, loss, 1e-11);
    if (isnan(kl))
        assert_true(isnan(info->kl));
    else
        assert_close(info->kl, kl, 1e-11);
}

static void check_step(const sosmc_settings *cfg, const double *from, const double *g, const double *to,
                       const sosmc_info *info)
{
    double norm2 = 0;
    for (int j = 0; j < THETA; j++) {
        norm2 += g[j] * g[j];
        assert_close(to[j], from[j] - cfg->optimiser.lr * g[j], 1e-12);
    }
    assert_close(info->grad_norm, sqrt(norm2), 1e-12);
}

/* Algorithm 1: the gradient at theta_k sees the particles after the move of this iteration, and so does everything the
 * info says. */
static void follow_paper(sosmc_kernel kernel, sosmc_scheme scheme, int objective)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(kernel, SOSMC_ORDER_PAPER);
    p.objective = objective_of(objective, START);
    p.objective.scale = 0.8;
    p.init.exact = 1; /* declared: log Z is relative to the start, where it is zero */
    cfg.scheme = scheme;
    cfg.scheme.ess_min = 0;
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 4; k++) {
        double theta[THETA];
        memcpy(theta, sosmc_theta(s), sizeof theta);
        const sosmc_info *info = step(s);
        moment after = now(s);
        estimate e = hand_estimate(&p.objective, theta, after.x, after.logw);
        check_step(&cfg, theta, e.g, after.theta, info);
        assert_close(info->ess, e.ess, 1e-12);
        assert_close(info->mean_energy, e.mean_energy, 1e-12);
        if (p.objective.score.eval)
            assert_close(info->mean_score, e.mean_score, 1e-12);
        else
            assert_true(isnan(info->mean_score));
        assert_int_equal(info->iteration, k);
        assert_int_equal(info->updates, k);
        assert_int_equal(info->gradient_updates, k);
        if (scheme.weighted)
            check_loss(&p.objective, &e, info->logz, info);
        else
            assert_true(isnan(info->loss) && isnan(info->kl) && isnan(info->logz));
    }
    assert_int_equal(sosmc_iteration(s), 4);
    sosmc_free(s);
}

/* The order of the programs: the gradient sees the particles as the last iteration left them, resampled or not. */
static void follow_authors(sosmc_kernel kernel, int objective, double ess_min)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(kernel, SOSMC_ORDER_AUTHORS);
    p.objective = objective_of(objective, START);
    p.init.exact = 1;
    cfg.scheme.ess_min = ess_min;
    sosmc *s = engine(&p, &cfg);
    moment before = now(s);
    double logz = 0;
    for (int k = 0; k < 4; k++) {
        const sosmc_info *info = step(s);
        moment after = now(s);
        estimate e = hand_estimate(&p.objective, before.theta, before.x, before.logw);
        check_step(&cfg, before.theta, e.g, after.theta, info);
        check_loss(&p.objective, &e, logz, info);
        assert_int_equal(info->gradient_updates, k);
        assert_int_equal(info->updates, k + 1);
        if (ess_min == 0) { /* an invariant kernel is weighed where it stood, ULA where it went */
            e = hand_estimate(&p.objective, after.theta, kernel.invariant ? before.x : after.x, after.logw);
            assert_close(info->ess, e.ess, 1e-12);
            assert_close(info->mean_energy, e.mean_energy, 1e-12);
            if (p.objective.score.eval) assert_close(info->mean_score, e.mean_score, 1e-12);
        }
        logz = info->logz;
        before = after;
    }
    sosmc_free(s);
}

static void test_gradients_by_hand(void **state)
{
    for (int objective = 0; objective < OBJECTIVES; objective++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            follow_paper(kernel_of(kernel), sosmc_scheme_sosmc(N), objective);
            follow_paper(kernel_of(kernel), sosmc_scheme_unweighted(N), objective);
            follow_paper(kernel_of(kernel), sosmc_scheme_moved_first(N), objective);
            follow_authors(kernel_of(kernel), objective, 0);
            follow_authors(kernel_of(kernel), objective, 2);
        }
}

static void test_why_no_loss(void **state)
{
    toy m = {.shift = 0};
    const char *const reasons[] = {NULL,
                                   "does not say which loss",
                                   "no weights",
                                   "no density",
                                   "theta0 equal to theta_ref",
                                   "theta0 equal to theta_ref",
                                   NULL,
                                   NULL};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (i == 1) p.objective.loss = SOSMC_LOSS_NONE;
        if (i == 2) cfg.scheme = sosmc_scheme_unweighted(N);
        if (i == 3) p.init.logpdf = NULL;
        if (i == 4) p.objective = objective_of(REVERSE, AWAY);
        if (i == 5) p.objective = objective_of(FORWARD, AWAY);
        if (i == 6) p.objective = objective_of(FORWARD, NULL), p.objective.a = p.objective.b = 0, p.init.logpdf = NULL;
        if (i == 7) p.init.logpdf = NULL, p.init.exact = 1;
        sosmc *s = engine(&p, &cfg);
        const sosmc_info *info = step(s);
        const char *why = sosmc_why_no_loss(s);
        assert_true((why != NULL) == (reasons[i] != NULL));
        if (why && reasons[i]) assert_non_null(strstr(why, reasons[i]));
        assert_true(isnan(info->loss) == (reasons[i] != NULL));
        assert_true(isnan(info->logz) == (i == 2 || i == 3 || i == 6));
        sosmc_free(s);
    }
}

/* H in place of dU on the particles; dU stays on the data. */
static int toy_H(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) {
        g[0] += c[i] * b->x[i];
        g[1] += c[i] * theta[0];
        g[2] += c[i];
    }
    return self ? 0 : 1; /* the model's self */
}

static void test_H(void **state)
{
    toy m = {.shift = 0};
    for (int objective = MMLE; objective <= LIKELIHOOD; objective++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        p.objective = objective_of(objective, NULL);
        p.objective.H = toy_H;
        if (objective == MMLE) p.model.grad_theta = NULL; /* not needed then */
        sosmc *s = engine(&p, &cfg);
        moment before = now(s);
        double g[THETA] = {0, p.objective.a * START[0], p.objective.a};
        for (int i = 0; i < N; i++) g[0] += p.objective.a * exp(before.logw[i]) * before.x[i][0];
        for (int j = 0; objective == LIKELIHOOD && j < BATCH; j++) hand_gtheta(START, data_row(j), 1.0 / BATCH, g);
        const sosmc_info *info = step(s);
        check_step(&cfg, START, g, sosmc_theta(s), info);
        sosmc_free(s);
    }
}

/* The mean over the data of (theta_0 y_0 + theta_2)^2 / 2. */
static int toy_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                       double *value)
{
    for (int i = 0; i < y->n; i++) {
        double r = theta[0] * y->x[i] + theta[2];
        g[0] += weight * r * y->x[i];
        g[2] += weight * r;
        *value += weight * 0.5 * r * r;
    }
    return 0;
}

/* The objective on a cloud that stays where it is, with its hooks, as a function of theta. */
static double fixed_cloud_loss(const sosmc_objective *o, const double *theta, const moment *c)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double U = hand_U(theta, c->x[i]);
        sum += exp(c->logw[i]) * (o->a * U + o->energy2 * U * U);
    }
    for (int j = 0; j < BATCH; j++) {
        double U = hand_U(theta, data_row(j)), r = theta[0] * data_row(j)[0] + theta[2];
        sum += (o->b * U + o->energy2 * U * U + (o->penalty ? 0.5 * r * r : 0)) / BATCH;
    }
    return o->scale * sum;
}

static void test_hooks_by_finite_differences(void **state)
{
    tally t = {.h = 0};
    toy m = {.t = &t};
    for (int hooks = 0; hooks < 4; hooks++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        p.objective = objective_of(LIKELIHOOD, NULL);
        p.objective.scale = 1.5;
        p.objective.loss = hooks & 1 ? SOSMC_LOSS_NONE
                                     : SOSMC_LOSS_LIKELIHOOD; /* with and without energies of the data */
        if (hooks & 1) p.objective.energy2 = 0.3;
        if (hooks & 2) p.objective.penalty = toy_penalty;
        cfg.optimiser = sosmc_sgd(1);
        cfg.threads = 2;
        sosmc *s = engine(&p, &cfg);
        moment c = now(s);
        (void)step(s);
        for (int j = 0; j < THETA; j++) {
            const double eps = 1e-5;
            double up[THETA], down[THETA];
            memcpy(up, START, sizeof up);
            memcpy(down, START, sizeof down);
            up[j] += eps;
            down[j] -= eps;
            double slope = (fixed_cloud_loss(&p.objective, up, &c) - fixed_cloud_loss(&p.objective, down, &c)) /
                           (2 * eps);
            assert_close(START[j] - sosmc_theta(s)[j], slope, 1e-8);
        }
        sosmc_free(s);
    }
    assert_int_equal(atomic_load(&t.stale), 0); /* the data batch too is fresh only after its own energy */
}

/* ------------------------------------------------------------------------------------------------ kernels */

static void test_hmc_of_one_step_is_mala(void **state)
{
    const double eps = 0.8, mass = 1.7;
    toy m = {.shift = 0};
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_hmc(eps, 1, mass), order);
        cfg.scheme.ess_min = 0.9;
        sosmc *hmc = engine(&p, &cfg);
        cfg.kernel = sosmc_mala(eps * eps / (2 * mass));
        sosmc *mala = engine(&p, &cfg);
        double rejected = 0;
        for (int k = 0; k < 6; k++) {
            const sosmc_info *a = step(hmc), *b = step(mala);
            moment ma = now(hmc), mb = now(mala);
            for (int i = 0; i < N; i++) {
                assert_close(ma.logw[i], mb.logw[i], 1e-10);
                for (int j = 0; j < DIM; j++) assert_close(ma.x[i][j], mb.x[i][j], 1e-10);
            }
            for (int j = 0; j < THETA; j++) assert_close(ma.theta[j], mb.theta[j], 1e-10);
            if (isnan(b->accept)) continue;
            assert_close(a->accept, b->accept, 1e-10);
            rejected += 1 - b->accept;
        }
        assert_true(rejected > 0.1);
        sosmc_free(hmc);
        sosmc_free(mala);
    }
}

/* With theta at rest, weights are all that distinguishes a weighted scheme that never resamples. */
static void test_weighted_moves_like_unweighted(void **state)
{
    toy m = {.shift = 0};
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            sosmc_problem p = toy_problem(&m);
            sosmc_settings cfg = calm(kernel_of(kernel), order);
            cfg.optimiser = sosmc_sgd(0);
            sosmc *weighted = engine(&p, &cfg);
            cfg.scheme = sosmc_scheme_unweighted(N);
            cfg.scheme.order = order;
            sosmc *unweighted = engine(&p, &cfg);
            for (int k = 0; k < 5; k++) {
                (void)step(weighted);
                const sosmc_info *info = step(unweighted);
                moment a = now(weighted), b = now(unweighted);
                assert_memory_equal(a.x, b.x, sizeof a.x);
                assert_true(info->ess == N);
            }
            sosmc_free(weighted);
            sosmc_free(unweighted);
        }
}

/* Particle i's own normals of a step, from their name. */
static void own_normals(const sosmc_settings *cfg, int stream, int64_t at, int i, double *z)
{
    double row[8 * DIM];
    sosmc_batch one = {.dim = DIM, .n = 1, .ld = 8, .first = i};
    sosmc_normals((sosmc_rng){.seed = cfg->seed, .step = (uint64_t)at, .stream = (uint32_t)stream}, &one, row);
    for (int j = 0; j < DIM; j++) z[j] = row[8 * j];
}

/* The move itself, from named normals: what ULA does to a particle, at which theta, and that noise 0 is gradient descent. */
static void test_ula_move(void **state)
{
    toy m = {.shift = 0};
    for (int variant = 0; variant < 8; variant++) {
        int order = variant & 1, loud = variant & 2;
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), order);
        cfg.scheme = variant & 4 ? sosmc_scheme_moved_first(N) : sosmc_scheme_unweighted(N);
        cfg.scheme.order = order;
        cfg.kernel.noise = loud ? 1.4 : 0;
        sosmc *s = engine(&p, &cfg);
        moment before = now(s);
        double prev[THETA];
        memcpy(prev, START, sizeof prev);
        for (int k = 0; k < 4; k++) {
            (void)step(s);
            moment after = now(s);
            int at_current = variant & 4, moved = k > 0 || order == SOSMC_ORDER_AUTHORS || at_current;
            const double *cur = order == SOSMC_ORDER_PAPER ? before.theta : after.theta;
            if (order == SOSMC_ORDER_AUTHORS) memcpy(prev, before.theta, sizeof prev);
            for (int i = 0; i < N; i++) {
                double z[DIM], g[DIM];
                own_normals(&cfg, SOSMC_STREAM_MOVE, k, i, z);
                hand_gx(at_current ? cur : prev, before.x[i], g);
                for (int j = 0; j < DIM; j++) {
                    double y = before.x[i][j] - 0.1 * g[j] + sqrt(0.2) * cfg.kernel.noise * z[j];
                    assert_close(after.x[i][j], moved ? y : before.x[i][j], 1e-13);
                }
            }
            memcpy(prev, before.theta, sizeof prev);
            before = after;
        }
        sosmc_free(s);
    }
}

/* Where the kernel proposes to go from x, given normals z, and the log of the Metropolis ratio. */
static double hand_proposal(const sosmc_kernel *k, int which, const double *theta, const double *x, const double *z,
                            double *y)
{
    double g[DIM], p[DIM], energy = hand_U(theta, x);
    memcpy(y, x, DIM * sizeof *y);
    hand_gx(theta, x, g);
    if (which <= RWM) {
        for (int j = 0; j < DIM; j++) y[j] += sqrt(2 * k->h) * z[j] - (which == MALA ? k->h * g[j] : 0);
        double ratio = energy - hand_U(theta, y);
        return which == RWM ? ratio : ratio + log_kernel(k, theta, y, x) - log_kernel(k, theta, x, y);
    }
    for (int j = 0; j < DIM; j++) p[j] = sqrt(k->mass) * z[j], energy += 0.5 * p[j] * p[j] / k->mass;
    for (int l = 0; l < k->leapfrog; l++) {
        for (int j = 0; j < DIM; j++) p[j] -= 0.5 * k->h * g[j], y[j] += k->h / k->mass * p[j];
        hand_gx(theta, y, g);
        for (int j = 0; j < DIM; j++) p[j] -= 0.5 * k->h * g[j];
    }
    for (int j = 0; j < DIM; j++) energy -= 0.5 * p[j] * p[j] / k->mass;
    return energy - hand_U(theta, y);
}

static void test_metropolis_by_hand(void **state)
{
    toy m = {.shift = 0};
    for (int kernel = MALA; kernel < KERNELS; kernel++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(kernel_of(kernel), SOSMC_ORDER_AUTHORS);
        sosmc *s = engine(&p, &cfg);
        moment before = now(s);
        int accepted = 0, rejected = 0;
        for (int k = 0; k < 4; k++) {
            const sosmc_info *info = step(s);
            moment after = now(s);
            double mean = 0;
            for (int i = 0; i < N; i++) {
                double z[DIM], y[DIM], u;
                sosmc_batch one = {.dim = DIM, .n = 1, .ld = 8, .first = i};
                own_normals(&cfg, SOSMC_STREAM_MOVE, k, i, z);
                sosmc_uniforms((sosmc_rng){.seed = cfg.seed, .step = (uint64_t)k, .stream = SOSMC_STREAM_ACCEPT}, 0,
                               &one, &u);
                double ratio = hand_proposal(&cfg.kernel, kernel, after.theta, before.x[i], z, y);
                int accept = log(u) < ratio;
                mean += fmin(1, exp(ratio)) / N;
                for (int j = 0; j < DIM; j++)
                    assert_close(after.x[i][j], accept ? y[j] : before.x[i][j], accept ? 1e-12 : 0);
                accept ? accepted++ : rejected++;
            }
            assert_close(info->accept, mean, 1e-12);
            before = after;
        }
        assert_true(accepted > 20 && rejected > 5);
        sosmc_free(s);
    }
}

/* Acceptance: certain for tiny steps, rare for huge ones, and then the particle stays where it was with all it had. */
static void test_acceptance(void **state)
{
    toy m = {.shift = 0};
    for (int kernel = MALA; kernel < KERNELS; kernel++)
        for (int huge = 0; huge <= 1; huge++) {
            sosmc_problem p = toy_problem(&m);
            sosmc_settings cfg = calm(kernel_of(kernel), SOSMC_ORDER_AUTHORS);
            cfg.kernel.h = huge ? 1e3 : 1e-8;
            sosmc *s = engine(&p, &cfg);
            moment before = now(s);
            const sosmc_info *info = step(s);
            moment after = now(s);
            assert_true(huge ? info->accept < 0.02 : info->accept > 0.999 && info->accept <= 1);
            int moved = 0;
            for (int i = 0; i < N; i++) moved += !same(before.x[i], after.x[i], DIM);
            assert_true(huge ? moved < 3 : moved > N - 3);
            sosmc_free(s);
        }
}

/* ------------------------------------------------------------------------------------------------ the order of things */

static void test_iteration_zero(void **state)
{
    toy m = {.shift = 0};
    for (int scheme = 0; scheme < 3; scheme++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            sosmc_problem p = toy_problem(&m);
            sosmc_settings cfg = calm(sosmc_ula(0.1), order);
            if (scheme == 1) cfg.scheme = sosmc_scheme_unweighted(N);
            if (scheme == 2) cfg.scheme = sosmc_scheme_moved_first(N);
            cfg.scheme.order = order;
            sosmc *s = engine(&p, &cfg);
            assert_int_equal(sosmc_iteration(s), 0);
            moment before = now(s);
            for (int i = 0; i < N; i++) { /* drawn under its own name */
                double z[DIM];
                own_normals(&cfg, SOSMC_STREAM_INIT, 0, i, z);
                assert_true(same(before.x[i], z, DIM));
            }
            assert_memory_equal(before.theta, START, sizeof START);
            const sosmc_info *info = step(s);
            moment after = now(s);
            int moves = order == SOSMC_ORDER_AUTHORS || scheme == 2;
            assert_int_equal(!same(before.x[0], after.x[0], N * DIM), moves);
            assert_true(isnan(info->accept) == !moves);
            assert_false(same(before.theta, after.theta, THETA));
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    watcher w = {.stop_at = 3};
    sosmc *s = engine(&p, &cfg), *alone = engine(&p, &cfg);
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

/* ------------------------------------------------------------------------------------------------ optimiser and averages */

static void test_average(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    for (int from = 0; from <= 3; from += 3)
        for (int kind = 0; kind < 3; kind++) {
            const double decay = kind == 0 ? 0 : kind == 1 ? 1 : 0.6;
            sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
            double sum[THETA] = {0}, smooth[THETA] = {0};
            cfg.average = decay;
            cfg.average_from = from;
            sosmc *s = engine(&p, &cfg);
            for (int k = 0; k < 8; k++) { /* iteration k makes update k */
                (void)step(s);
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = engine(&p, &cfg);
    double norm = step(s)->grad_norm, free_step[THETA];
    for (int j = 0; j < THETA; j++) free_step[j] = sosmc_theta(s)[j] - START[j];
    sosmc_free(s);
    const double clips[] = {0.25 * norm, norm * 1.0001, 0};
    for (int i = 0; i < 3; i++) {
        cfg.optimiser.clip = clips[i];
        s = engine(&p, &cfg);
        assert_close(step(s)->grad_norm, norm, 1e-15); /* before clipping */
        for (int j = 0; j < THETA; j++)
            assert_close(sosmc_theta(s)[j] - START[j], (i == 0 ? 0.25 : 1) * free_step[j], 1e-14);
        sosmc_free(s);
    }
}

static void test_schedule(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    for (int kind = SOSMC_SCHEDULE_CONSTANT; kind <= SOSMC_SCHEDULE_COSINE; kind++) {
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_AUTHORS);
        cfg.schedule = (sosmc_schedule){.kind = kind, .a = 4, .b = 0.5};
        sosmc *s = engine(&p, &cfg);
        moment before = now(s);
        for (int k = 0; k < 6; k++) {
            const sosmc_info *info = step(s);
            estimate e = hand_estimate(&p.objective, before.theta, before.x, before.logw);
            double rate = sosmc_schedule_rate(cfg.schedule, 0.1, k);
            assert_true(info->rate == rate);
            assert_true(info->h == 0.1);
            for (int j = 0; j < THETA; j++) assert_close(sosmc_theta(s)[j], before.theta[j] - rate * e.g[j], 1e-12);
            before = now(s);
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    cfg.optimiser = (sosmc_optimiser){.name = "path", .lr = 0.25, .slots = 2, .self = AWAY, .step = path_step};
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        (void)step(s);
        for (int j = 0; j < THETA; j++) assert_true(sosmc_theta(s)[j] == AWAY[j] + 0.1 * k);
    }
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ adaptation */

static sosmc_adapt rule(double threshold, double factor, double min, double max)
{
    return (sosmc_adapt){.threshold = threshold, .factor = factor, .min = min, .max = max};
}

static double adapted(const sosmc_adapt *a, double value, double signal)
{
    double next = signal < a->threshold ? value / a->factor : value * a->factor;
    return next < a->min ? a->min : next > a->max ? a->max : next;
}

/* Both targets, in both orders, with a power of two so that the factor is exact and with one that is not; the bounds bind. */
static void test_adaptation(void **state)
{
    toy m = {.shift = 0};
    int up = 0, down = 0, at_min = 0, at_max = 0;
    for (int variant = 0; variant < 8; variant++) {
        int order = variant & 1, rate = variant & 2, exact = variant & 4;
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.125), order);
        cfg.optimiser = sosmc_sgd(0.125);
        cfg.scheme.ess_min = 0.9;
        cfg.adapt[0] = exact ? rule(0.95, 2, 0.0625, 0.25) : rule(0.95, 1.01, 0.1235, 0.1265);
        cfg.adapt[0].target = rate ? SOSMC_ADAPT_RATE : SOSMC_ADAPT_STEP;
        sosmc *s = engine(&p, &cfg);
        double value = 0.125;
        for (int k = 0; k < 14; k++) {
            const sosmc_info *info = step(s); /* this iteration uses what the last one decided */
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_mala(0.25), SOSMC_ORDER_PAPER);
    p.init.exact = 1;
    cfg.optimiser = sosmc_sgd(0); /* ESS is N, to the last bit */
    cfg.adapt[0] = rule(1, 2, 1e-3, 1e3);
    sosmc *s = engine(&p, &cfg);
    for (int k = 0; k < 5; k++) {
        const sosmc_info *info = step(s);
        assert_true(info->ess == N);
        assert_true(info->h == ldexp(0.25, k));
    }
    sosmc_free(s);
}

/* Two rules, one on the ESS and one on the acceptance; the latter waits for the first move. */
static void test_two_rules(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_rwm(0.5), SOSMC_ORDER_PAPER);
    cfg.adapt[0] = rule(0.5, 2, 1e-3, 1e3);
    cfg.adapt[0].target = SOSMC_ADAPT_RATE;
    cfg.adapt[1] = rule(0.6, 4, 1e-3, 1e3);
    cfg.adapt[1].signal = SOSMC_SIGNAL_ACCEPT;
    sosmc *s = engine(&p, &cfg);
    double h = 0.5, rate = 0.1;
    for (int k = 0; k < 8; k++) {
        const sosmc_info *info = step(s);
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
                toy m = {.t = &t};
                checker c = {.inner = kernel_of(kernel), .sweeps = 1, .t = &t};
                sosmc_problem p = toy_problem(&m);
                sosmc_settings cfg = calm(checking(&c), order);
                cfg.adapt[0] = rule(0.85, 2, 1e-3, 1e3);
                cfg.adapt[0].before_move = before;
                sosmc *s = engine(&p, &cfg);
                double h = cfg.kernel.h;
                int early = before && order == SOSMC_ORDER_AUTHORS && kernel == MALA;
                for (int k = 0; k < 6; k++) {
                    t.h = -1;
                    const sosmc_info *info = step(s);
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_mala(0.1), SOSMC_ORDER_AUTHORS);
    sosmc *s = NULL;
    cfg.adapt[0] = rule(0.5, 2, 1e-3, 1e3);
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

/* ------------------------------------------------------------------------------------------------ other schemes */

/* One chain: the gradient is the plain mean over exactly the last `keep` states, and the chain goes on from the last. */
static void test_soul(void **state)
{
    tally t = {.listing = 1};
    toy m = {.t = &t};
    for (int sweeps = 1; sweeps <= 9; sweeps += 4) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        double last[DIM], theta[THETA];
        cfg.scheme = sosmc_scheme_soul(sweeps);
        int keep = cfg.scheme.keep;
        assert_int_equal(keep, sweeps > 3 ? sweeps / 2 : 1);
        sosmc *s = engine(&p, &cfg);
        memcpy(last, t.evaluated_at[t.evaluated - 1], sizeof last);
        for (int k = 0; k < 4; k++) {
            double g[THETA] = {0};
            t.evaluated = t.seen = 0;
            memcpy(theta, sosmc_theta(s), sizeof theta);
            const sosmc_info *info = step(s);
            int looks = k > 0; /* at the new theta, before the first sweep */
            assert_int_equal(t.evaluated, looks + sweeps);
            assert_int_equal(t.seen, keep);
            if (looks) assert_memory_equal(t.evaluated_at[0], last, sizeof last);
            for (int i = 0; i < keep; i++) {
                assert_memory_equal(t.seen_at[i], t.evaluated_at[t.evaluated - keep + i], sizeof last);
                assert_close(t.seen_c[i], 1.0 / keep, 1e-15);
                hand_gtheta(theta, t.seen_at[i], 1.0 / keep, g);
            }
            check_step(&cfg, theta, g, sosmc_theta(s), info);
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
        toy m = {.t = &t};
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_mala(0.3), SOSMC_ORDER_PAPER);
        cfg.scheme = sosmc_scheme_soul(6);
        cfg.scheme.particles = cfg.scheme.pool = N;
        cfg.scheme.keep = keep;
        p.model.tile = keep == 3 ? 5 : TILE;
        p.objective = objective_of(REVERSE, AWAY);
        sosmc *s = engine(&p, &cfg);
        for (int k = 0; k < 2; k++) {
            const sosmc_info *info = step(s);
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
    toy m = {.shift = 0};
    for (int moves = 0; moves <= 1; moves++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(moves ? sosmc_ula(0.1) : stay(), SOSMC_ORDER_PAPER);
        double pool[POOL][DIM], got[POOL][DIM];
        int duplicates = 0;
        cfg.scheme = sosmc_scheme_pcd(N, POOL, 2);
        cfg.scheme.refresh = 0;
        cfg.threads = 2;
        sosmc *s = engine(&p, &cfg);
        copy_pool(s, pool);
        for (int i = 0; i < N; i++) assert_memory_equal(pool[i], now(s).x[i], sizeof pool[i]); /* draws 0 .. of init */
        for (int k = 0; k < 4; k++) {
            (void)step(s);
            moment after = now(s);
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
    toy m = {.shift = 0};
    for (int variant = 0; variant < 6; variant++) {
        const double refresh = variant % 3 == 0 ? 0 : variant % 3 == 1 ? 0.3 : 1;
        int pooled = variant / 3, fresh = 0;
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(stay(), SOSMC_ORDER_PAPER);
        double pool[POOL][DIM];
        cfg.scheme = sosmc_scheme_moved_first(N);
        if (pooled) cfg.scheme.pool = POOL;
        cfg.scheme.refresh = refresh;
        sosmc *s = engine(&p, &cfg);
        moment before = now(s);
        for (int k = 0; k < 6; k++) {
            if (pooled) copy_pool(s, pool);
            (void)step(s);
            moment after = now(s);
            for (int i = 0; i < N; i++) {
                double z[DIM];
                own_normals(&cfg, SOSMC_STREAM_REFRESH, k, i, z);
                int restarted = same(after.x[i], z, DIM);
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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(stay(), SOSMC_ORDER_PAPER);
    int fresh = 0, upper = 0;
    p.init = sosmc_rows_source(&rows);
    cfg.scheme = sosmc_scheme_moved_first(N);
    cfg.scheme.refresh = 0.25;
    sosmc *s = engine(&p, &cfg);
    moment before = now(s);
    for (int k = 0; k < 40; k++) {
        (void)step(s);
        moment after = now(s);
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

/* ------------------------------------------------------------------------------------------------ a repeated move */

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
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc *s[2];
    for (int i = 0; i < 2; i++) {
        sosmc_settings cfg = calm(stay(), SOSMC_ORDER_PAPER);
        cfg.kernel.step = fumbling_step;
        cfg.kernel.invariant = 1;
        cfg.kernel.self = i ? &m : NULL;
        cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        s[i] = engine(&p, &cfg);
    }
    for (int k = 0; k < 3; k++) {
        (void)step(s[0]);
        const sosmc_info *info = step(s[1]);
        assert_int_equal(info->retries, k > 0);
        moment steady = now(s[0]), fumbled = now(s[1]);
        for (int i = 0; i < N; i++) assert_close(fumbled.logw[i], steady.logw[i], 1e-12);
    }
    sosmc_free(s[0]);
    sosmc_free(s[1]);
}

/* ------------------------------------------------------------------------------------------------ what is refused */

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
    sosmc_score score = {.eval = toy_reward};
    sosmc_source rows = sosmc_rows_source(&DATA_ROWS);
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
    SPOIL("objective.loss is 9", p->objective.loss = 9)
    SPOIL("objective.loss is -1", p->objective.loss = -1)
    SPOIL("objective.theta_ref", p->objective.kl = 0.5)
    SPOIL("beta is -0.5", p->objective = sosmc_reward_forward(score, -0.5, rows, BATCH, NULL))
    SPOIL("beta is -0.25", p->objective = sosmc_reward_reverse(score, -0.25, START))
    SPOIL("objective.score.eval", p->objective = sosmc_reward_forward((sosmc_score){0}, 0.5, rows, BATCH, NULL))
    SPOIL("objective.score.eval", p->objective = sosmc_reward_reverse((sosmc_score){0}, 0.5, START))
    SPOIL("objective.data.draw", p->objective.b = 1)
    SPOIL("objective.batch is 0", p->objective = sosmc_likelihood(rows, 0))
    SPOIL("model.grad_theta", p->objective = sosmc_likelihood(rows, BATCH); p->objective.H = toy_H;
          p->model.grad_theta = NULL)
    SPOIL("penalty", p->objective.penalty = toy_penalty) /* there is no data for it to see */
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
    *a = rule(0.9, 1.1, 0.01, 1);
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
    SPOIL("comm.size is -1", c->comm.size = -1)
    SPOIL("comm.rank is 2", c->comm.size = 2; c->comm.rank = 2)
    SPOIL("comm.rank is -1", c->comm.size = 2; c->comm.rank = -1)
    SPOIL("comm.allgather", c->comm.size = 2; c->comm.exchange = no_exchange)
    return which == 0 ? NULL : "a number in order";
}

static void refuse_all(const char *(*spoil)(int, sosmc_problem *, sosmc_settings *), int expected)
{
    toy m = {.shift = 0};
    int which = 0, wrong = 0;
    for (;; which++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
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

static void test_refusals_problem(void **state) { refuse_all(spoil_problem, 25); }
static void test_refusals_scheme(void **state) { refuse_all(spoil_scheme, 31); }
static void test_refusals_kernel(void **state) { refuse_all(spoil_kernel, 12); }
static void test_refusals_optimiser(void **state) { refuse_all(spoil_optimiser, 22); }
static void test_refusals_adapt(void **state) { refuse_all(spoil_adapt, 10); }
static void test_refusals_rest(void **state) { refuse_all(spoil_rest, 12); }

static void test_simd_by_name(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    const char *old = getenv("SOSMC_SIMD");
    char *kept = old ? strdup(old) : NULL;
    sosmc *s = NULL;
    assert_int_equal(setenv("SOSMC_SIMD", "abacus", 1), 0);
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(s), "'abacus'"));
    sosmc_free(s);
    cfg.simd = sosmc_simd_named("plain"); /* a setting goes before the environment */
    sosmc_free(engine(&p, &cfg));
    cfg.simd = NULL;
    assert_int_equal(setenv("SOSMC_SIMD", "plain", 1), 0);
    sosmc_free(engine(&p, &cfg));
    if (kept)
        (void)setenv("SOSMC_SIMD", kept, 1);
    else
        (void)unsetenv("SOSMC_SIMD");
    free(kept);
}

/* Settings that look odd and are right. */
static void test_accepted(void **state)
{
    toy m = {.shift = 0};
    for (int which = 0; which < 7; which++) {
        sosmc_problem p = toy_problem(&m);
        sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
        if (which == 0) cfg.scheme = sosmc_scheme_unweighted(N), cfg.kernel.noise = 0;
        if (which == 1) cfg.scheme = sosmc_scheme_unweighted(N), cfg.kernel.no_weight = 1;
        if (which == 2) p.theta0 = NULL; /* zeros */
        if (which == 3) cfg.threads = 0;
        if (which == 4) cfg.comm = (sosmc_comm){.size = 1, .rank = 0};
        if (which == 5)
            p.objective = sosmc_reward_forward((sosmc_score){.eval = toy_reward}, 0, (sosmc_source){0}, 0, NULL);
        if (which == 6) cfg.adapt[0] = (sosmc_adapt){.factor = 0, .threshold = NAN};
        sosmc *s = engine(&p, &cfg);
        if (which == 2) assert_true(sosmc_theta(s)[0] == 0 && sosmc_theta(s)[2] == 0);
        (void)step(s);
        (void)step(s);
        sosmc_free(s);
    }
}

static void test_create_and_free(void **state)
{
    toy m = {.shift = 0};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = calm(sosmc_ula(0.1), SOSMC_ORDER_PAPER);
    sosmc *s = (sosmc *)&m;
    assert_int_equal(sosmc_create(NULL, &p, &cfg), SOSMC_EINVAL);
    assert_int_equal(sosmc_create(&s, NULL, &cfg), SOSMC_EINVAL);
    assert_null(s);
    s = (sosmc *)&m;
    assert_int_equal(sosmc_create(&s, &p, NULL), SOSMC_EINVAL);
    assert_null(s);
    assert_non_null(sosmc_message(NULL));
    sosmc_free(NULL);
    s = engine(&p, &cfg); /* structs are copied */
    sosmc *twin = engine(&p, &cfg);
    memset(&p, 0xff, sizeof p);
    memset(&cfg, 0xff, sizeof cfg);
    (void)step(s);
    (void)step(twin);
    assert_true(sosmc_hash(s) == sosmc_hash(twin));
    assert_string_equal(sosmc_message(s), "");
    sosmc_free(s);
    sosmc_free(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_work_limit),
        cmocka_unit_test(test_fused_equals_unfused),
        cmocka_unit_test(test_caches_travel),
        cmocka_unit_test(test_restarts_are_evaluated),
        cmocka_unit_test(test_restarts_have_no_memory),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_constant_in_U),
        cmocka_unit_test(test_reversible_at_rest),
        cmocka_unit_test(test_weights_by_hand),
        cmocka_unit_test(test_absolute_logz),
        cmocka_unit_test(test_cloud),
        cmocka_unit_test(test_resampled_cloud),
        cmocka_unit_test(test_when_to_resample),
        cmocka_unit_test(test_gradients_by_hand),
        cmocka_unit_test(test_why_no_loss),
        cmocka_unit_test(test_H),
        cmocka_unit_test(test_hooks_by_finite_differences),
        cmocka_unit_test(test_hmc_of_one_step_is_mala),
        cmocka_unit_test(test_weighted_moves_like_unweighted),
        cmocka_unit_test(test_ula_move),
        cmocka_unit_test(test_metropolis_by_hand),
        cmocka_unit_test(test_acceptance),
        cmocka_unit_test(test_iteration_zero),
        cmocka_unit_test(test_observer),
        cmocka_unit_test(test_average),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_own_optimiser),
        cmocka_unit_test(test_adaptation),
        cmocka_unit_test(test_adaptation_at_equality),
        cmocka_unit_test(test_two_rules),
        cmocka_unit_test(test_before_move),
        cmocka_unit_test(test_acceptance_before_move),
        cmocka_unit_test(test_soul),
        cmocka_unit_test(test_many_chains),
        cmocka_unit_test(test_pcd),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_refresh_is_independent_of_the_draw),
        cmocka_unit_test(test_retry_keeps_the_weights),
        cmocka_unit_test(test_refusals_problem),
        cmocka_unit_test(test_refusals_scheme),
        cmocka_unit_test(test_refusals_kernel),
        cmocka_unit_test(test_refusals_optimiser),
        cmocka_unit_test(test_refusals_adapt),
        cmocka_unit_test(test_refusals_rest),
        cmocka_unit_test(test_simd_by_name),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_create_and_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
