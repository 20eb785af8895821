/* test_determinism.c: the same seed gives the same bits on any number of threads, on any number of ranks and at any vector
 * level.
 *
 * A plan (problem and settings) is run once on one thread; then again on 2, 3 or 8 threads, on 1 to 5 ranks, on ranks of
 * several threads and at each vector level. Compared are the hash of the whole state and the info after *every* iteration
 * (contracting dynamics heal rounding differences, so an equal end proves little) and the cloud as the user gets it. The
 * plans cover every kernel, order, scheme, objective, resampling scheme and rule of adaptation, systematically chosen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>
#include <sosmc/sosmc.h>

#include "fake_comm.h"

enum { DIM = 2, COMPONENTS = 5, LONG_DIM = 9, ROWS = 50, ITERATIONS = 6, MAX_RANKS = 5, MAX_THETA = 9000 };

/* ------------------------------------------------------------------------------------------------ problems */

static const double MEANS[COMPONENTS * LONG_DIM] = {0.0, 0.0, 2.0, 1.0, -1.5, 2.0, 1.0,  -2.0, -2.0, -1.0, 0.5, 0.3,
                                                    0.1, 1.0, 1.2, 0.0, -0.7, 0.4, -0.2, 0.9,  0.6,  -0.8, 0.2, 1.1};
static const double THETA0[COMPONENTS] = {0.1, -0.3, 0.5, 0.0, 0.2};
static const sosmc_mixture MIXTURE = {.dim = DIM, .components = COMPONENTS, .means = MEANS, .variance = 0.5};
static const sosmc_mixture LONG_MIXTURE = {
    .dim = LONG_DIM, .components = COMPONENTS, .means = MEANS, .variance = 0.8, .eps = 1e-9};
static const sosmc_mixture_law LAW = {.mixture = &MIXTURE, .theta = THETA0};
static const sosmc_mixture_law LONG_LAW = {.mixture = &LONG_MIXTURE, .theta = THETA0};

static double data[ROWS * DIM];
static const sosmc_rows RANDOM_ROWS = {.data = data, .rows = ROWS, .mode = SOSMC_ROWS_RANDOM};
static const sosmc_rows ROWS_IN_ORDER = {.data = data, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = (b->x[i] > 0 ? 1 : 0) + 0.25 * b->x[b->ld + i];
    return 0;
}

/* U = |x - m(theta)|^2/2 + sum_j x_j^4/16, where coordinate j of m is the mean of every DIM-th theta: as many parameters as
 * one likes. The first axis has thin gaps in which the energy is not a number. */
typedef struct {
    int dim_theta;
    double crack;     /* width of the gaps at every integer; 0: none */
    int64_t broken;   /* the batch that holds this particle fails ... */
    double broken_at; /* ... once |theta[0]| has passed this; NAN: never */
} toy;

static double centre(const toy *m, const double *theta, int j)
{
    double sum = 0;
    int count = 0;
    for (int l = j; l < m->dim_theta; l += DIM, count++) sum += theta[l];
    return sum / count;
}

static int toy_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy *m = self;
    if (fabs(theta[0]) > m->broken_at && m->broken >= b->first && m->broken < b->first + b->n) return 7;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < DIM; j++) {
        double c = centre(m, theta, j);
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) {
            U[i] += 0.5 * (x[i] - c) * (x[i] - c) + 0.0625 * x[i] * x[i] * x[i] * x[i];
            if (gx) gx[(size_t)j * (size_t)b->ld + (size_t)i] = (x[i] - c) + 0.25 * x[i] * x[i] * x[i];
        }
    }
    for (int i = 0; i < b->n; i++)
        if (b->x[i] - floor(b->x[i]) < m->crack) U[i] = NAN;
    return 0;
}

static int toy_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const toy *m = self;
    for (int j = 0; j < DIM; j++) {
        double at = centre(m, theta, j), sum = 0;
        int count = (m->dim_theta - j + DIM - 1) / DIM;
        for (int i = 0; i < b->n; i++) sum += c[i] * (at - b->x[(size_t)j * (size_t)b->ld + (size_t)i]);
        for (int l = j; l < m->dim_theta; l += DIM) g[l] += sum / count;
    }
    return 0;
}

static sosmc_model toy_model(const toy *m)
{
    return (sosmc_model){.dim_x = DIM,
                         .dim_theta = m->dim_theta,
                         .tile = 8,
                         .self = m,
                         .energy = toy_energy,
                         .grad_theta = toy_grad_theta};
}

static const toy PLAIN_TOY = {.dim_theta = DIM, .broken_at = NAN};
static const toy CRACKED_TOY = {.dim_theta = DIM, .crack = 0.002, .broken_at = NAN};
static const toy RUINED_TOY = {.dim_theta = DIM, .crack = 0.006, .broken_at = NAN};
static const toy WIDE_TOY = {.dim_theta = MAX_THETA, .broken_at = NAN};

/* A user's kernel with a memory: a random walk whose momentum travels with the particle. */
static int walker_step(const sosmc_kernel *k, sosmc_move *m)
{
    size_t len = (size_t)m->b.dim * (size_t)m->b.ld;
    sosmc_normals(m->rng, &m->b, m->tmp);
    for (size_t e = 0; e < len; e++) m->aux_new[e] = 0.5 * m->aux[e] + sqrt(m->h) * m->tmp[e];
    for (size_t e = 0; e < len; e++) m->x_new[e] = m->x[e] + m->aux_new[e];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    for (int i = 0; m->logG && i < m->b.n; i++) m->logG[i] = m->U[i] - m->U_new[i]; /* a weight, if not the right one */
    return rc;
}

static sosmc_kernel walker(double h)
{
    return (sosmc_kernel){
        .name = "walker", .step = walker_step, .h = h, .noise = 1, .mass = 1, .leapfrog = 1, .aux = 1, .scratch = 1};
}

/* ------------------------------------------------------------------------------------------------ plans */

typedef struct {
    char name[160];
    sosmc_problem p;
    sosmc_settings cfg;
    int iterations, thorough;
    sosmc_status expected;
} plan;

enum { ULA, ULA_PREVIOUS, ULA_CURRENT, ULA_SWAPPED, MALA, RWM, RWM_SPREAD, HMC1, HMC3, UNDERDAMPED, LEAPFROG, KERNELS };
static const char *const KERNEL_NAMES[KERNELS] = {"ula",
                                                  "ula at previous theta",
                                                  "ula at current theta",
                                                  "ula swapped",
                                                  "mala",
                                                  "rwm",
                                                  "rwm of many scales",
                                                  "hmc 1",
                                                  "hmc 3",
                                                  "underdamped",
                                                  "leapfrog"};

static sosmc_kernel kernel_of(int which)
{
    sosmc_kernel k = sosmc_ula(0.15);
    switch (which) {
    case ULA: break;
    case ULA_PREVIOUS: k.backward_at = SOSMC_AT_PREVIOUS; break;
    case ULA_CURRENT: k.forward_at = SOSMC_AT_CURRENT; break;
    case ULA_SWAPPED:
        k.forward_at = SOSMC_AT_CURRENT;
        k.backward_at = SOSMC_AT_PREVIOUS;
        k.noise = 1.25;
        break;
    case MALA: return sosmc_mala(0.3);
    case RWM: return sosmc_rwm(0.3);
    case RWM_SPREAD:
        k = sosmc_rwm(0.3);
        k.spread = 6;
        break;
    case HMC1: return sosmc_hmc(0.7, 1, 1.5);
    case UNDERDAMPED: return sosmc_underdamped(0.6, 1.2, 1.5);
    case LEAPFROG: return sosmc_leapfrog(0.4, 3, 0.8);
    default: return sosmc_hmc(0.4, 3, 0.8);
    }
    return k;
}

enum { MMLE, LIKELIHOOD, FORWARD, REVERSE, OBJECTIVES };
static const char *const OBJECTIVE_NAMES[OBJECTIVES] = {"mmle", "likelihood", "reward_forward", "reward_reverse"};

static sosmc_objective objective_of(int which, int turn)
{
    sosmc_score score = {.eval = reward};
    switch (which) {
    case LIKELIHOOD: return sosmc_likelihood(sosmc_rows_source(turn % 2 ? &RANDOM_ROWS : &ROWS_IN_ORDER), 45);
    case FORWARD: return sosmc_reward_forward(score, 0.3, sosmc_mixture_source(&LAW), 45, THETA0);
    case REVERSE: return sosmc_reward_reverse(score, 0.2, THETA0);
    default: return sosmc_mmle();
    }
}

static sosmc_optimiser optimiser_of(int turn)
{
    switch (turn % 7) {
    case 0: return sosmc_sgd(0.5);
    case 1: return sosmc_adam(0.1);
    case 2: return sosmc_momentum(0.3, 0.8);
    case 3: return sosmc_nesterov(0.2, 0.9);
    case 4: return sosmc_rmsprop(0.05, 0.9);
    case 5: return sosmc_adagrad(0.2);
    default: return sosmc_adamw(0.1, 0.05);
    }
}

/* The mixture in tiles of 8, with everything that has no part in the name of the plan chosen by the turn. */
static plan plan_of(int kernel, int order, sosmc_scheme scheme, int objective, int turn)
{
    plan a = {.iterations = ITERATIONS};
    a.p = (sosmc_problem){.model = sosmc_mixture_model(&MIXTURE),
                          .objective = objective_of(objective, turn),
                          .init = sosmc_mixture_source(&LAW),
                          .theta0 = THETA0};
    a.p.model.tile = turn % 3 == 2 ? 5 : 8;
    a.p.init.exact = turn % 2; /* else weighed by its density */
    a.cfg = sosmc_defaults();
    a.cfg.scheme = scheme;
    a.cfg.scheme.order = order;
    a.cfg.kernel = kernel_of(kernel);
    a.cfg.optimiser = optimiser_of(turn);
    a.cfg.optimiser.clip = turn % 4 == 3 ? 0.05 : 0;
    a.cfg.schedule = (sosmc_schedule){.kind = turn % 4, .a = 10, .b = 0.6};
    a.cfg.average = turn % 5 == 1 ? 1 : turn % 5 == 3 ? 0.75 : 0;
    a.cfg.seed = 1000 + (uint64_t)turn;
    (void)snprintf(a.name, sizeof a.name, "%s, %s order, %s, turn %d", KERNEL_NAMES[kernel],
                   order == SOSMC_ORDER_PAPER ? "paper" : "authors", OBJECTIVE_NAMES[objective], turn);
    return a;
}

static sosmc_adapt adapt_of(int turn, int metropolis)
{
    sosmc_adapt a = {.threshold = 0.97, .factor = 1.25, .min = 0.01, .max = 0.9};
    a.target = turn % 3 == 1 ? SOSMC_ADAPT_STEP : SOSMC_ADAPT_RATE;
    a.before_move = turn % 2;
    if (turn % 3 == 0) a.factor = 1;
    if (metropolis && turn % 5 == 1) a.signal = SOSMC_SIGNAL_ACCEPT, a.before_move = 0, a.threshold = 0.8;
    return a;
}

/* ------------------------------------------------------------------------------------------------ runs and their traces */

typedef struct {
    sosmc_status status;
    int iterations;
    struct {
        uint64_t hash, info;
    } at[ITERATIONS];
    uint64_t cloud;
    int resampled, rejected, adapted, nonfinite, retries; /* iterations in which it happened */
    char message[256];
} trace;

static uint64_t digest(uint64_t hash, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        if (!isnan(v[i])) memcpy(&bits, &v[i], sizeof bits); /* one NaN is as good as another */
        hash = (hash ^ bits) * 0x100000001b3u;
        hash ^= hash >> 31;
    }
    return hash;
}

static uint64_t digest_info(const sosmc_info *info)
{
    const double v[] = {(double)info->iteration,
                        (double)info->updates,
                        (double)info->gradient_updates,
                        info->ess,
                        info->mean_score,
                        info->mean_energy,
                        info->loss,
                        info->kl,
                        info->logz,
                        info->grad_norm,
                        info->accept,
                        info->h,
                        info->rate,
                        info->resampled,
                        info->nonfinite,
                        info->retries};
    return digest(1, v, sizeof v / sizeof *v);
}

static sosmc_status look_at_cloud(const sosmc *s, int dim, uint64_t *result)
{
    size_t n = (size_t)sosmc_particles(s);
    double *x = calloc(n * (size_t)dim, sizeof(double)), *logw = calloc(n, sizeof(double));
    sosmc_status status = x && logw ? sosmc_cloud(s, x, logw) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) *result = digest(digest(2, x, n * (size_t)dim), logw, n);
    free(x);
    free(logw);
    return status;
}

/* Without the looks, for runs in which the communicator fails: a hash has no status. */
static void run_quietly(const plan *a, const sosmc_settings *cfg, trace *t)
{
    sosmc *s = NULL;
    memset(t, 0, sizeof *t);
    t->status = sosmc_create(&s, &a->p, cfg);
    while (t->status == SOSMC_OK && t->iterations < a->iterations) {
        t->status = sosmc_step(s);
        if (t->status == SOSMC_OK) t->iterations++;
    }
    (void)snprintf(t->message, sizeof t->message, "%s", sosmc_message(s));
    sosmc_free(s);
}

static void run_traced(const plan *a, const sosmc_settings *cfg, trace *t)
{
    sosmc *s = NULL;
    double h = cfg->kernel.h, rate = NAN;
    memset(t, 0, sizeof *t);
    t->status = sosmc_create(&s, &a->p, cfg);
    while (t->status == SOSMC_OK && t->iterations < a->iterations) {
        t->status = sosmc_step(s);
        if (t->status != SOSMC_OK) break;
        const sosmc_info *info = sosmc_last(s);
        t->at[t->iterations].info = digest_info(info);
        t->at[t->iterations++].hash = sosmc_hash(s);
        t->resampled += info->resampled;
        t->rejected += info->accept < 1;
        t->adapted += info->h != h || (info->iteration > 0 && cfg->schedule.kind == 0 && info->rate != rate);
        t->nonfinite += info->nonfinite > 0;
        t->retries += info->retries > 0;
        h = info->h;
        rate = info->rate;
    }
    if (t->status == SOSMC_OK) t->status = look_at_cloud(s, a->p.model.dim_x, &t->cloud);
    (void)snprintf(t->message, sizeof t->message, "%s", sosmc_message(s));
    sosmc_free(s);
}

/* What the ranks of one run share: each writes its own trace. */
typedef struct {
    const plan *plan;
    sosmc_settings cfg;
    void (*run)(const plan *, const sosmc_settings *, trace *);
    trace traces[MAX_RANKS];
} shared_run;

static void one_rank(void *ctx, const sosmc_comm *comm)
{
    shared_run *r = ctx;
    sosmc_settings cfg = r->cfg;
    cfg.comm = *comm;
    r->run(r->plan, &cfg, &r->traces[comm->rank]);
}

/* Rank -1: alone, where the words of a failure must agree too; among ranks they say who failed. */
static void compare(const plan *a, const trace *expected, const trace *got, const char *how, int rank)
{
    if (got->status != expected->status)
        fail_msg("%s, %s, rank %d: %s (%s) instead of %s", a->name, how, rank, sosmc_status_name(got->status),
                 got->message, sosmc_status_name(expected->status));
    if (got->iterations != expected->iterations)
        fail_msg("%s, %s, rank %d: stopped after %d iterations instead of %d", a->name, how, rank, got->iterations,
                 expected->iterations);
    for (int k = 0; k < expected->iterations; k++) {
        if (got->at[k].hash != expected->at[k].hash)
            fail_msg("%s, %s, rank %d: another state after iteration %d", a->name, how, rank, k);
        if (got->at[k].info != expected->at[k].info)
            fail_msg("%s, %s, rank %d: another info after iteration %d", a->name, how, rank, k);
    }
    if (got->cloud != expected->cloud) fail_msg("%s, %s, rank %d: another cloud", a->name, how, rank);
    if (rank < 0 && strcmp(got->message, expected->message) != 0)
        fail_msg("%s, %s: '%s' instead of '%s'", a->name, how, got->message, expected->message);
}

static void try_ranks(const plan *a, const trace *expected, int ranks, int threads)
{
    shared_run r = {.plan = a, .cfg = a->cfg, .run = run_traced};
    char how[64];
    r.cfg.threads = threads;
    (void)snprintf(how, sizeof how, "%d ranks of %d threads", ranks, threads);
    assert_int_equal(fake_run(ranks, one_rank, &r, NULL, NULL), 0);
    for (int rank = 0; rank < ranks; rank++) compare(a, expected, &r.traces[rank], how, rank);
}

static void try_threads(const plan *a, const trace *expected, int threads)
{
    sosmc_settings cfg = a->cfg;
    trace got;
    char how[64];
    cfg.threads = threads;
    (void)snprintf(how, sizeof how, "%d threads", threads);
    run_traced(a, &cfg, &got);
    compare(a, expected, &got, how, -1);
}

static void try_level(const plan *a, const trace *expected, const char *level)
{
    sosmc_settings cfg = a->cfg;
    trace got;
    cfg.simd = sosmc_simd_named(level);
    if (!cfg.simd) return; /* not on this machine */
    run_traced(a, &cfg, &got);
    compare(a, expected, &got, level, -1);
}

/* Runs the plan in other ways and returns its trace. Every eighth plan is run in all ways, and any plan that asks for it;
 * the others take turns, so that each number of threads and of ranks meets a good part of the plans. */
static trace try_plan(const plan *a)
{
    static const int THREADS[] = {2, 3, 8};
    static int turn;
    int all = turn % 8 == 0 || a->thorough;
    trace expected;
    run_traced(a, &a->cfg, &expected);
    if (expected.status != a->expected)
        fail_msg("%s: %s (%s)", a->name, sosmc_status_name(expected.status), expected.message);
    for (int k = 1; k < expected.iterations; k++) assert_true(expected.at[k].hash != expected.at[k - 1].hash);
    for (int i = 0; i < 3; i++)
        if (all || turn % 3 == i) try_threads(a, &expected, THREADS[i]);
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        if (all || turn % MAX_RANKS == ranks - 1 || (turn + 2) % MAX_RANKS == ranks - 1)
            try_ranks(a, &expected, ranks, 1);
    for (int ranks = 2; ranks <= 3; ranks++)
        if (all || turn % 8 == ranks) try_ranks(a, &expected, ranks, 2);
    try_level(a, &expected, "avx512");
    try_level(a, &expected, "avx2");
    try_level(a, &expected, "plain");
    turn++;
    return expected;
}

/* ------------------------------------------------------------------------------------------------ every kernel, scheme, ... */

static void test_weighted(void **state)
{
    int turn = 0, resampled = 0, kept = 0, rejected = 0, adapted = 0;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
            for (int pair = 0; pair < 2; pair++, turn++) {
                /* over two kernels each order meets all four objectives */
                int objective = (2 * pair + kernel + order) % OBJECTIVES;
                plan a = plan_of(kernel, order, sosmc_scheme_sosmc(turn % 4 == 1 ? 200 : 37), objective, turn);
                a.cfg.scheme.resampling = turn % 5;
                a.cfg.scheme.ess_min = turn % 3 == 0 ? 2 : 0.98;
                a.cfg.adapt[turn % 2] = adapt_of(turn, a.cfg.kernel.metropolis);
                trace t = try_plan(&a);
                resampled += t.resampled;
                kept += t.iterations - t.resampled;
                rejected += t.rejected;
                adapted += t.adapted;
            }
    assert_true(resampled > 60 && kept > 30 && rejected > 60 && adapted > 30); /* the plans have teeth */
}

/* Every resampling scheme sends particles between ranks, at sizes that divide well and badly. */
static void test_resampling(void **state)
{
    static const int SIZES[] = {37, 200};
    for (int scheme = SOSMC_MULTINOMIAL; scheme <= SOSMC_SSP; scheme++)
        for (int i = 0; i < 2; i++) {
            plan a = plan_of(i % 2 ? MALA : ULA, scheme % 2, sosmc_scheme_sosmc(SIZES[i]), REVERSE, 3 * scheme + i);
            a.cfg.scheme.resampling = scheme;
            a.cfg.scheme.ess_min = 2;
            a.cfg.optimiser = sosmc_sgd(3);
            assert_int_equal(try_plan(&a).resampled, ITERATIONS);
        }
}

static void test_adaptation(void **state)
{
    for (int turn = 0; turn < 8; turn++) {
        plan a = plan_of(turn & 4 ? MALA : ULA, turn & 1, sosmc_scheme_sosmc(37), FORWARD, turn);
        a.cfg.optimiser = sosmc_sgd(1);
        a.cfg.schedule.kind = SOSMC_SCHEDULE_CONSTANT;
        a.cfg.adapt[0] = (sosmc_adapt){.threshold = 0.9,
                                       .factor = 1.5,
                                       .min = 0.02,
                                       .max = 3,
                                       .target = turn & 2 ? SOSMC_ADAPT_RATE : SOSMC_ADAPT_STEP,
                                       .before_move = turn % 3 == 0};
        assert_true(try_plan(&a).adapted >= ITERATIONS - 2);
    }
}

static void test_unweighted(void **state)
{
    int turn = 0;
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++, turn++) {
            int n = turn % 3 == 1 ? 200 : 37;
            sosmc_scheme scheme = turn % 4 < 2 ? sosmc_scheme_unweighted(n) : sosmc_scheme_moved_first(n);
            plan a = plan_of(kernel, order, scheme, (turn + kernel) % OBJECTIVES, turn);
            if (a.cfg.kernel.metropolis)
                a.cfg.adapt[0] = (sosmc_adapt){
                    .threshold = 0.6, .factor = 1.3, .min = 0.01, .max = 2, .signal = SOSMC_SIGNAL_ACCEPT};
            (void)try_plan(&a);
        }
}

/* One chain as in the preset, and several, whose kept states are spread over tiles and ranks. */
static void test_soul(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        sosmc_scheme scheme = sosmc_scheme_soul(7);
        if (kernel % 2) scheme.particles = scheme.pool = 37;
        plan a = plan_of(kernel, SOSMC_ORDER_PAPER, scheme, (kernel + kernel / 4) % OBJECTIVES, kernel);
        (void)try_plan(&a);
    }
}

static void test_pcd(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            int turn = 2 * kernel + order;
            plan a = plan_of(kernel, order, sosmc_scheme_pcd(37, 61, 1 + turn % 3), (turn + kernel) % OBJECTIVES, turn);
            a.cfg.scheme.refresh = turn % 4 == 1 ? 0 : 0.3;
            (void)try_plan(&a);
        }
}

/* ------------------------------------------------------------------------------------------------ shapes */

static plan toy_plan(const toy *m, int particles, const char *name)
{
    plan a = {.iterations = ITERATIONS};
    a.p = (sosmc_problem){.model = toy_model(m), .objective = sosmc_mmle(), .init = sosmc_rows_source(&ROWS_IN_ORDER)};
    a.cfg = sosmc_defaults();
    a.cfg.scheme = sosmc_scheme_sosmc(particles);
    a.cfg.scheme.ess_min = 0.99;
    a.cfg.optimiser = sosmc_sgd(0.3);
    a.cfg.kernel = sosmc_ula(0.1);
    (void)snprintf(a.name, sizeof a.name, "%s, %d particles", name, particles);
    return a;
}

/* One-particle tiles of a large model are contiguous: other loops, other sums. */
static void test_contiguous_tiles(void **state)
{
    static const int KERNEL[] = {ULA, MALA, HMC3, ULA_SWAPPED, UNDERDAMPED, LEAPFROG};
    for (int i = 0; i < 6; i++) {
        sosmc_scheme scheme = i == 3 ? sosmc_scheme_soul(6) : sosmc_scheme_sosmc(13);
        plan a = plan_of(KERNEL[i], SOSMC_ORDER_PAPER, scheme, REVERSE, i);
        a.p.model = sosmc_mixture_model(&LONG_MIXTURE);
        a.p.init = sosmc_mixture_source(&LONG_LAW);
        a.p.model.tile = 1;
        a.cfg.kernel.h *= 0.4;
        a.cfg.scheme.ess_min = i == 3 ? 0 : 0.97;
        (void)try_plan(&a);
    }
}

/* Fewer blocks than ranks, one particle, and more tiles than blocks. */
static void test_sizes(void **state)
{
    static const int SIZES[] = {1, 2, 7, 8, 9, 17, 2100};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        plan a = toy_plan(&PLAIN_TOY, SIZES[i], "toy");
        a.thorough = 1;
        a.cfg.kernel = i % 2 ? sosmc_ula(0.2) : sosmc_mala(0.4);
        a.cfg.scheme.resampling = (int)i % 5;
        a.cfg.scheme.ess_min = 2;
        (void)try_plan(&a);
    }
}

/* So many particles that resampling goes through the threads in chunks; 2048 is a whole number of them. */
static void test_many_particles(void **state)
{
    for (int scheme = SOSMC_MULTINOMIAL; scheme <= SOSMC_SSP; scheme++) {
        plan a = toy_plan(&PLAIN_TOY, scheme % 2 ? 2048 : 5000, "toy");
        a.p.model.tile = 64;
        a.iterations = 2;
        a.cfg.kernel = sosmc_mala(0.4);
        a.cfg.scheme.resampling = scheme;
        a.cfg.scheme.ess_min = 2;
        assert_int_equal(try_plan(&a).resampled, 2);
    }
}

/* A gradient so long that its sum is folded by column ranges, with fewer blocks than tiles. */
static void test_long_theta(void **state)
{
    plan a = toy_plan(&WIDE_TOY, 2000, "long theta");
    a.iterations = 2;
    a.cfg.optimiser = sosmc_sgd(100);
    (void)try_plan(&a);
}

static void test_kernel_with_memory(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        plan a = toy_plan(&PLAIN_TOY, 100, "walker");
        a.thorough = 1;
        a.cfg.kernel = walker(0.1);
        a.cfg.scheme.order = order;
        a.cfg.scheme.ess_min = 2;
        assert_int_equal(try_plan(&a).resampled, ITERATIONS);
    }
}

/* An optimiser that leaves theta alone and notes a number: what a state remembers and does not yet show. */
static void noting_step(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    slots[dim - 1] = o->momentum;
}

static uint64_t last_hash(const plan *a)
{
    trace t;
    run_traced(a, &a->cfg, &t);
    assert_int_equal(t.status, SOSMC_OK);
    return t.at[a->iterations - 1].hash;
}

/* Updates with noise: the same numbers on every thread and rank, with and without weights, for a long theta too. */
static void test_noisy_updates(void **state)
{
    for (int turn = 0; turn < 8; turn++) {
        sosmc_scheme scheme = turn % 4 == 0   ? sosmc_scheme_sosmc(37)
                              : turn % 4 == 1 ? sosmc_scheme_unweighted(200)
                              : turn % 4 == 2 ? sosmc_scheme_soul(6)
                                              : sosmc_scheme_moved_first(37);
        plan a = plan_of(turn & 4 ? MALA : ULA, SOSMC_ORDER_PAPER, scheme, turn % OBJECTIVES, turn), quiet;
        quiet = a;
        a.thorough = 1;
        a.cfg.optimiser.noise = 1;
        assert_true(last_hash(&a) != last_hash(&quiet));
        (void)try_plan(&a);
    }
    plan a = toy_plan(&WIDE_TOY, 100, "long theta with noise");
    a.iterations = 2;
    a.cfg.optimiser.noise = 1;
    (void)try_plan(&a);
}

static void test_hash_sees_memory(void **state)
{
    plan a = toy_plan(&PLAIN_TOY, 40, "toy"), b;
    a.iterations = 1;
    a.cfg.optimiser = (sosmc_optimiser){.name = "noting", .momentum = 0.25, .slots = 2, .step = noting_step};
    b = a;
    assert_true(last_hash(&a) == last_hash(&b));
    b.cfg.optimiser.momentum = 0.5;
    assert_true(last_hash(&a) != last_hash(&b)); /* the optimiser's memory */
    b = a;
    b.cfg.kernel.h *= 2;
    assert_true(last_hash(&a) != last_hash(&b)); /* the step, before it is first used */
    a = toy_plan(&PLAIN_TOY, 40, "toy");
    a.cfg.average = 0.25;
    b = a;
    b.cfg.average = 0.3;
    assert_true(last_hash(&a) != last_hash(&b)); /* the average */
}

/* Two pools that agree in the members that stand for the cloud, and differ in another. */
static void test_hash_sees_the_pool(void **state)
{
    enum { POOL = 61 };
    static double members[POOL * DIM];
    const sosmc_rows rows = {.data = members, .rows = POOL, .mode = SOSMC_ROWS_IN_ORDER};
    plan a = toy_plan(&PLAIN_TOY, 37, "toy");
    uint64_t hash[2];
    a.p.init = sosmc_rows_source(&rows);
    a.cfg.scheme = sosmc_scheme_pcd(37, POOL, 1);
    for (int i = 0; i < 2; i++) {
        sosmc *s = NULL;
        members[50 * DIM] = i;
        assert_int_equal(sosmc_create(&s, &a.p, &a.cfg), SOSMC_OK);
        hash[i] = sosmc_hash(s);
        sosmc_free(s);
    }
    assert_true(hash[0] != hash[1]);
}

/* The hash must see the log-weights: two states that differ in them have different futures. */
static void test_hash_sees_weights(void **state)
{
    plan a = toy_plan(&PLAIN_TOY, 40, "walker"), b = a;
    trace ta, tb;
    a.cfg.kernel = walker(0.1);
    a.cfg.scheme.ess_min = 0;
    b.cfg.kernel = a.cfg.kernel;
    b.cfg.scheme = sosmc_scheme_unweighted(40); /* the same particles at the same places, but for theta */
    a.cfg.optimiser = b.cfg.optimiser = sosmc_sgd(0);
    run_traced(&a, &a.cfg, &ta);
    run_traced(&b, &b.cfg, &tb);
    assert_true(ta.at[0].hash == tb.at[0].hash); /* nothing has been weighed yet */
    assert_true(ta.at[1].hash != tb.at[1].hash);
}

/* ------------------------------------------------------------------------------------------------ values that are not finite */

static void test_nonfinite(void **state)
{
    static const int POLICIES[] = {SOSMC_NONFINITE_DROP, SOSMC_NONFINITE_RETRY, SOSMC_NONFINITE_RESTART,
                                   SOSMC_NONFINITE_FAIL};
    for (int i = 0; i < 8; i++) {
        int policy = POLICIES[i % 4], with_memory = i >= 4;
        plan a = with_memory ? toy_plan(&RUINED_TOY, 200, "ruined toy") : toy_plan(&CRACKED_TOY, 200, "cracked toy");
        a.thorough = 1;
        if (with_memory) a.cfg.kernel = sosmc_underdamped(0.45, 1, 1);
        a.cfg.on_nonfinite = policy;
        a.cfg.scheme.ess_min = 0.9;
        if (policy == SOSMC_NONFINITE_RESTART) a.cfg.scheme = sosmc_scheme_unweighted(200);
        if (policy == SOSMC_NONFINITE_FAIL) a.expected = SOSMC_ENUMERIC;
        trace t = try_plan(&a);
        if (a.expected == SOSMC_OK) assert_true(t.nonfinite >= 2 || t.retries >= 1);
        if (policy == SOSMC_NONFINITE_RETRY) assert_true(t.retries >= 1);
    }
    plan a = toy_plan(&CRACKED_TOY, 200, "cracked toy under mala"); /* a rejection, not a fault */
    a.cfg.kernel = sosmc_mala(0.2);
    assert_int_equal(try_plan(&a).nonfinite, 0);
}

/* A callback that fails stops the run at the same place with the same words, whoever called it. */
static void test_failing_callback(void **state)
{
    for (int64_t particle = 0; particle < 100; particle += 33) {
        toy m = {.dim_theta = DIM, .broken = particle, .broken_at = 1e-12};
        plan a = toy_plan(&m, 100, "failing toy");
        a.thorough = 1;
        a.expected = SOSMC_EMODEL;
        assert_non_null(strstr(try_plan(&a).message, "energy"));
    }
}

/* ------------------------------------------------------------------------------------------------ what must not matter */

/* Parked scratch saves a pass; it changes no bit. */
static void test_work_limit(void **state)
{
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
            plan a = plan_of(kernel, order, sosmc_scheme_sosmc(200), kernel % OBJECTIVES, 2 * kernel + order);
            sosmc_settings nothing_parked = a.cfg;
            trace expected, got;
            nothing_parked.work_limit = 0;
            run_traced(&a, &a.cfg, &expected);
            run_traced(&a, &nothing_parked, &got);
            assert_int_equal(expected.status, SOSMC_OK);
            compare(&a, &expected, &got, "nothing parked", 0);
        }
}

static void test_two_engines(void **state)
{
    plan plans[2] = {plan_of(ULA, SOSMC_ORDER_PAPER, sosmc_scheme_sosmc(200), FORWARD, 4),
                     plan_of(MALA, SOSMC_ORDER_AUTHORS, sosmc_scheme_sosmc(37), REVERSE, 5)};
    trace expected[2];
    sosmc *s[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        run_traced(&plans[i], &plans[i].cfg, &expected[i]);
        plans[i].cfg.threads = i + 1;
        assert_int_equal(sosmc_create(&s[i], &plans[i].p, &plans[i].cfg), SOSMC_OK);
    }
    for (int k = 0; k < ITERATIONS; k++)
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sosmc_step(s[i]), SOSMC_OK);
            assert_true(sosmc_hash(s[i]) == expected[i].at[k].hash);
        }
    sosmc_free(s[0]);
    assert_true(sosmc_hash(s[1]) == expected[1].at[ITERATIONS - 1].hash);
    sosmc_free(s[1]);
}

/* Looking changes nothing. */
static void test_looking(void **state)
{
    plan a = plan_of(ULA, SOSMC_ORDER_PAPER, sosmc_scheme_sosmc(37), REVERSE, 0);
    trace looked_at, left_alone;
    sosmc *s = NULL;
    run_traced(&a, &a.cfg, &looked_at);
    run_quietly(&a, &a.cfg, &left_alone);
    assert_int_equal(left_alone.status, SOSMC_OK);
    assert_int_equal(sosmc_create(&s, &a.p, &a.cfg), SOSMC_OK);
    assert_int_equal(sosmc_run(s, ITERATIONS, NULL, NULL), SOSMC_OK);
    assert_true(sosmc_hash(s) == looked_at.at[ITERATIONS - 1].hash);
    assert_true(sosmc_hash(s) == sosmc_hash(s));
    sosmc_free(s);
}

static void test_seeds_differ(void **state)
{
    plan a = plan_of(ULA, SOSMC_ORDER_PAPER, sosmc_scheme_sosmc(37), MMLE, 0);
    trace t[3];
    for (int i = 0; i < 3; i++) {
        a.cfg.seed = i < 2 ? (uint64_t)i : (uint64_t)1 << 40; /* the upper half of the key counts too */
        run_traced(&a, &a.cfg, &t[i]);
        assert_int_equal(t[i].status, SOSMC_OK);
        for (int l = 0; l < i; l++)
            for (int k = 0; k < ITERATIONS; k++) assert_true(t[i].at[k].hash != t[l].at[k].hash);
    }
}

/* ------------------------------------------------------------------------------------------------ failures between ranks */

typedef struct {
    int mismatch; /* 1: rank 1 sends too little, 2: it calls another verb, 3: it leaves */
    int wrong[MAX_RANKS], rc[MAX_RANKS], again[MAX_RANKS];
} conversation;

/* Rank q sends q + r + 1 numbers, each 100 q + r, to rank r. */
static void talk(void *ctx, const sosmc_comm *comm)
{
    conversation *c = ctx;
    int me = comm->rank, size = comm->size, odd = me == 1 ? c->mismatch : 0;
    int32_t mine = 10 + me, all[MAX_RANKS] = {0}, send[64], recv[64];
    size_t out[MAX_RANKS] = {0}, in[MAX_RANKS] = {0}, sent = 0, at = 0;
    for (int r = 0; r < size; r++) {
        out[r] = (size_t)(me + r + 1) * sizeof *send;
        in[r] = out[r];
        for (int i = 0; i < me + r + 1; i++) send[sent++] = 100 * me + r;
    }
    if (odd == 1) out[0] -= sizeof *send;
    if (odd == 3) return;
    c->rc[me] = odd == 2 ? 0 : comm->allgather(comm->self, &mine, sizeof mine, all);
    for (int r = 0; c->rc[me] == 0 && odd != 2 && r < size; r++) c->wrong[me] += all[r] != 10 + r;
    if (c->rc[me] == 0) c->rc[me] = comm->exchange(comm->self, out, send, in, recv);
    for (int r = 0; c->rc[me] == 0 && r < size; r++)
        for (int i = 0; i < me + r + 1; i++) c->wrong[me] += recv[at++] != 100 * r + me;
    c->again[me] = comm->allgather(comm->self, &mine, sizeof mine, all);
}

static void test_fake_communicator(void **state)
{
    for (int size = 1; size <= MAX_RANKS; size++)
        for (int mismatch = 0; mismatch <= (size > 1 ? 3 : 0); mismatch++) {
            conversation c = {.mismatch = mismatch};
            int calls[FAKE_VERBS];
            assert_int_equal(fake_run(size, talk, &c, NULL, calls), 0);
            for (int r = 0; r < size; r++) {
                assert_int_equal(c.wrong[r], 0);
                if (mismatch == 3 && r == 1) continue;
                assert_true((c.rc[r] != 0) == (mismatch != 0));
                assert_true((c.again[r] != 0) == (mismatch != 0));
            }
            if (mismatch == 0) assert_true(calls[FAKE_ALLGATHER] == 2 && calls[FAKE_EXCHANGE] == 1);
        }
}

static plan talkative_plan(int pool)
{
    sosmc_scheme scheme = pool ? sosmc_scheme_pcd(37, 61, 1) : sosmc_scheme_sosmc(37);
    plan a = plan_of(ULA, SOSMC_ORDER_PAPER, scheme, FORWARD, 1);
    if (!pool) a.cfg.scheme.ess_min = 2;
    a.iterations = 2;
    return a;
}

/* Whichever call fails on whichever rank, all ranks stop with the same status, say so, and can be freed. */
static void test_communicator_fails(void **state)
{
    for (int pool = 0; pool <= 1; pool++) {
        plan a = talkative_plan(pool);
        shared_run r = {.plan = &a, .cfg = a.cfg, .run = run_quietly};
        int calls[FAKE_VERBS] = {0, 0};
        assert_int_equal(fake_run(3, one_rank, &r, NULL, calls), 0);
        for (int rank = 0; rank < 3; rank++) assert_int_equal(r.traces[rank].status, SOSMC_OK);
        assert_true(calls[FAKE_ALLGATHER] > 10);
        assert_true(pool || calls[FAKE_EXCHANGE] == a.iterations);
        for (int verb = 0; verb < FAKE_VERBS; verb++)
            for (int call = 1; call <= calls[verb]; call++) {
                fake_fault fault = {.rank = call % 3, .verb = (fake_verb)verb, .call = call};
                assert_int_equal(fake_run(3, one_rank, &r, &fault, NULL), 0);
                for (int rank = 0; rank < 3; rank++) {
                    assert_int_equal(r.traces[rank].status, SOSMC_ECOMM);
                    assert_non_null(strstr(r.traces[rank].message, verb == FAKE_ALLGATHER ? "allgather" : "exchange"));
                }
            }
    }
}

/* A callback that fails on one rank stops all of them with its status; the message there names the callback. */
static void test_one_rank_fails(void **state)
{
    static const int64_t PARTICLES[] = {0, 20, 36};
    for (int i = 0; i < 3; i++)
        for (int at_once = 0; at_once <= 1; at_once++) {
            toy m = {.dim_theta = DIM, .broken = PARTICLES[i], .broken_at = at_once ? -1 : 1e-12};
            plan a = toy_plan(&m, 37, "failing toy");
            int named = 0, told = 0;
            shared_run r = {.plan = &a, .cfg = a.cfg, .run = run_quietly};
            assert_int_equal(fake_run(3, one_rank, &r, NULL, NULL), 0);
            for (int rank = 0; rank < 3; rank++) {
                assert_int_equal(r.traces[rank].status, SOSMC_EMODEL);
                assert_int_equal(r.traces[rank].iterations, r.traces[0].iterations);
                named += strstr(r.traces[rank].message, "returned 7") != NULL;
                told += strstr(r.traces[rank].message, "SOSMC_EMODEL") != NULL;
            }
            assert_int_equal(named, 1);
            assert_int_equal(told, 2);
        }
}

static int prepare_data(void **state)
{
    for (int i = 0; i < ROWS * DIM; i++) data[i] = (i * 37 % 101) / 25.0 - 1.985; /* never near an integer */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fake_communicator),
        cmocka_unit_test(test_weighted),
        cmocka_unit_test(test_resampling),
        cmocka_unit_test(test_adaptation),
        cmocka_unit_test(test_unweighted),
        cmocka_unit_test(test_soul),
        cmocka_unit_test(test_pcd),
        cmocka_unit_test(test_contiguous_tiles),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_many_particles),
        cmocka_unit_test(test_long_theta),
        cmocka_unit_test(test_kernel_with_memory),
        cmocka_unit_test(test_noisy_updates),
        cmocka_unit_test(test_hash_sees_memory),
        cmocka_unit_test(test_hash_sees_the_pool),
        cmocka_unit_test(test_hash_sees_weights),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_failing_callback),
        cmocka_unit_test(test_work_limit),
        cmocka_unit_test(test_two_engines),
        cmocka_unit_test(test_looking),
        cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_communicator_fails),
        cmocka_unit_test(test_one_rank_fails),
    };
    return cmocka_run_group_tests(tests, prepare_data, NULL);
}
