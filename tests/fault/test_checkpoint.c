/* test_checkpoint.c: a run that is stopped and taken up again is the run that was never stopped.
 *
 * The state hash is compared at every iteration, for every place to stop, with other numbers of threads and ranks and
 * at other vector levels. Streams that are damaged or belong elsewhere are refused and change nothing; files survive
 * full disks, broken directories and kill -9. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_comm.h"
#include "internal.h"

enum { DT = 3, N = 150, K = 8, NAME_ROOM = 512 };

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

/* ---------------------------------------------------------------------------- a model that parks and prepares */

static const double Y[DT] = {1.0, -2.0, 0.5}, REFERENCE[DT] = {0.1, 0.2, 0.3};
static atomic_int energy_breaks; /* the call, counted down to zero, that returns 7 */
static atomic_int energy_is_nan; /* everywhere */

static int prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, DT * sizeof(double));
    return 0;
}

/* Behind the wall, which moves with theta, nothing is a number: neither U nor dU/dtheta. */
static int behind_wall(const double *wall, const double *theta, double x) { return wall && x > *wall + theta[0]; }

/* U = sum_j p^2/2 + q^2/2 + p^4/100 with p = x - theta, q = x - y. work keeps p, so that a stale one would show. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *t = b->prep, *wall = self;
    double *work = b->work;
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - t[j % DT], q = x - Y[j % DT];
            U[i] += 0.5 * (p * p + q * q) + 0.01 * p * p * p * p;
            if (gx) gx[j * b->ld + i] = p + q + 0.04 * p * p * p;
            if (gx) work[j * b->ld + i] = p;
        }
    for (int i = 0; i < b->n; i++)
        if (behind_wall(wall, t, b->x[i]) || atomic_load(&energy_is_nan)) U[i] = NAN;
    return atomic_load(&energy_breaks) > 0 && atomic_fetch_sub(&energy_breaks, 1) == 1 ? 7 : 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const double *t = b->prep, *work = b->work;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double p = b->fresh ? work[j * b->ld + i] : b->x[j * b->ld + i] - t[j % DT];
            if (behind_wall(self, t, b->x[i])) p = NAN;
            g[j % DT] -= c[i] * (p + 0.04 * p * p * p);
        }
    return 0;
}

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0.0;
    return 0;
}

/* A user's kernel with memory: the noise of the last move drives the next. */
static int aux_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    for (int e = 0; e < m->b.dim * m->b.ld; e++) m->aux_new[e] = 0.5 * m->aux[e] + m->x_new[e];
    for (int i = 0; m->logG && i < m->b.n; i++) m->logG[i] += 1e-3 * m->aux[i];
    return rc;
}

/* ---------------------------------------------------------------------------- settings worth stopping */

typedef struct {
    const char *name;
    sosmc_problem p;
    sosmc_settings cfg;
} world;

static world base_world(const char *name, sosmc_kernel kernel, sosmc_scheme scheme)
{
    world w = {.name = name,
               .p = {.model = {.dim_x = DT,
                               .dim_theta = DT,
                               .work = DT * sizeof(double),
                               .prep = DT * sizeof(double),
                               .tile = 64,
                               .prepare = prepare,
                               .energy = energy,
                               .grad_theta = grad_theta},
                     .objective = sosmc_mmle(),
                     .init = sosmc_standard_normal()},
               .cfg = sosmc_defaults()};
    w.cfg.kernel = kernel;
    w.cfg.scheme = scheme;
    w.cfg.optimiser = sosmc_adam(0.05);
    w.cfg.seed = 99;
    return w;
}

enum {
    ULA_PAPER,
    ULA_AUTHORS,
    MALA_PAPER,
    MALA_AUTHORS,
    RWM_PAPER,
    RWM_AUTHORS,
    HMC_PAPER,
    HMC_AUTHORS,
    UNWEIGHTED,
    UNWEIGHTED_AUTHORS,
    MOVED_FIRST,
    SOUL,
    SOUL_CHAIN,
    PCD,
    PCD_AUTHORS,
    AUX,
    NOTHING_PARKED,
    UNUSUAL_LANGEVIN,
    SWEEPS,
    DROPPED,
    DROPPED_MALA,
    TALL,
    UNDERDAMPED,
    UNDERDAMPED_AUTHORS,
    UNDERDAMPED_POOL,
    UNDERDAMPED_TALL,
    LEAPFROG,
    HUGE_DIMENSION,
    WORLDS
};

static world world_of(int which)
{
    static const double rows[7 * DT] = {1, 2, 3, -1, 0.5, 0, 2, 2, -2, 0.1, 0.2, 0.3, 4, -3, 1, 0, 0, 1, -2, 1, 0.7};
    static const sosmc_rows minibatch = {.data = rows, .rows = 7, .mode = SOSMC_ROWS_RANDOM};
    static const double wall = 0.4;
    const sosmc_scheme sosmc = sosmc_scheme_sosmc(N), unweighted = sosmc_scheme_unweighted(N);
    const sosmc_score score = {.eval = reward};
    const sosmc_adapt on_ess = {.threshold = 0.9, .factor = 1.1, .min = 1e-4, .max = 1.0};
    world w;
    switch (which) {
    case ULA_PAPER:
        w = base_world("ula, paper, adam", sosmc_ula(0.05), sosmc);
        w.cfg.adapt[0] = on_ess;
        break;
    case ULA_AUTHORS:
        w = base_world("ula, authors, momentum, average", sosmc_ula(0.05), sosmc);
        w.cfg.optimiser = sosmc_momentum(0.05, 0.9);
        w.cfg.average = 0.8;
        w.cfg.adapt[0] = on_ess;
        w.cfg.adapt[0].before_move = 1;
        break;
    case MALA_PAPER:
        w = base_world("mala, paper, data", sosmc_mala(0.1), sosmc);
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        w.cfg.adapt[1] = on_ess;
        w.cfg.adapt[1].signal = SOSMC_SIGNAL_ACCEPT;
        break;
    case MALA_AUTHORS:
        w = base_world("mala, authors, sgd, both adapt", sosmc_mala(0.1), sosmc);
        w.cfg.optimiser = sosmc_sgd(0.3);
        w.cfg.adapt[0] = w.cfg.adapt[1] = on_ess;
        w.cfg.adapt[0].before_move = 1;
        w.cfg.adapt[1].target = SOSMC_ADAPT_RATE;
        w.cfg.average = 1.0;
        w.cfg.average_from = 3;
        break;
    case RWM_PAPER:
        w = base_world("rwm, paper, forward KL, adagrad", sosmc_rwm(0.1), sosmc);
        w.cfg.optimiser = sosmc_adagrad(0.3);
        w.p.objective = sosmc_reward_forward(score, 0.5, sosmc_standard_normal(), 90, REFERENCE);
        w.cfg.scheme.resampling = SOSMC_STRATIFIED;
        break;
    case RWM_AUTHORS:
        w = base_world("rwm, authors, reverse KL, nesterov", sosmc_rwm(0.1), sosmc);
        w.cfg.optimiser = sosmc_nesterov(0.1, 0.9);
        w.p.objective = sosmc_reward_reverse(score, 0.5, REFERENCE);
        w.p.theta0 = REFERENCE;
        w.p.init.exact = 1;
        w.cfg.scheme.resampling = SOSMC_RESIDUAL;
        break;
    case HMC_PAPER:
        w = base_world("hmc, paper, rmsprop, schedule", sosmc_hmc(0.2, 3, 1.5), sosmc);
        w.cfg.optimiser = sosmc_rmsprop(0.1, 0.9);
        w.cfg.optimiser.clip = 1.0;
        w.cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 3.0, .b = 0.6};
        break;
    case HMC_AUTHORS:
        w = base_world("hmc, authors, adamw, cosine", sosmc_hmc(0.2, 3, 1.0), sosmc);
        w.cfg.optimiser = sosmc_adamw(0.1, 0.01);
        w.cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_COSINE, .a = 6.0, .b = 0.1};
        w.cfg.scheme.ess_min = 2.0;
        break;
    case UNWEIGHTED: w = base_world("unweighted ula", sosmc_ula(0.05), unweighted); break;
    case UNWEIGHTED_AUTHORS:
        w = base_world("unweighted ula, authors", sosmc_ula(0.05), unweighted);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.p.objective.score = score;
        break;
    case MOVED_FIRST:
        w = base_world("moved first, mala, average", sosmc_mala(0.1), sosmc_scheme_moved_first(N));
        w.cfg.average = 0.9;
        break;
    case SOUL:
        w = base_world("soul, momentum, minibatch", sosmc_ula(0.05), sosmc_scheme_soul(7));
        w.cfg.scheme.particles = w.cfg.scheme.pool = 70;
        w.cfg.optimiser = sosmc_momentum(0.05, 0.5);
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case SOUL_CHAIN:
        w = base_world("soul, one chain, reward", sosmc_mala(0.05), sosmc_scheme_soul(100));
        w.p.objective = sosmc_reward_reverse(score, 0.5, REFERENCE);
        w.cfg.average = 1.0;
        break;
    case PCD:
        w = base_world("pcd, adam", sosmc_ula(0.05), sosmc_scheme_pcd(N, 2 * N, 2));
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case PCD_AUTHORS:
        w = base_world("pcd, authors, momentum, average", sosmc_ula(0.05), sosmc_scheme_pcd(N, 3 * N, 3));
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.cfg.optimiser = sosmc_momentum(0.05, 0.9);
        w.cfg.average = 0.9;
        break;
    case AUX:
        w = base_world("a kernel with memory", sosmc_ula(0.05), sosmc);
        w.cfg.kernel.name = "remembering";
        w.cfg.kernel.step = aux_step;
        w.cfg.kernel.aux = 1;
        break;
    case NOTHING_PARKED:
        w = base_world("nothing parked, ssp", sosmc_ula(0.05), sosmc);
        w.cfg.work_limit = 0;
        w.cfg.scheme.resampling = SOSMC_SSP;
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    case UNUSUAL_LANGEVIN:
        w = base_world("ula at other thetas, multinomial", sosmc_ula(0.05), sosmc);
        w.cfg.kernel.forward_at = SOSMC_AT_CURRENT;
        w.cfg.kernel.backward_at = SOSMC_AT_PREVIOUS;
        w.cfg.scheme.resampling = SOSMC_MULTINOMIAL;
        break;
    case SWEEPS:
        w = base_world("weighted, two sweeps", sosmc_hmc(0.2, 2, 1.0), sosmc);
        w.cfg.scheme.sweeps = 2;
        break;
    case DROPPED: /* some weights are zero soon */
    case DROPPED_MALA:
        w = base_world("dropped particles", which == DROPPED ? sosmc_ula(0.05) : sosmc_mala(0.1), sosmc);
        w.p.model.self = &wall;
        w.p.init.draw = NULL;
        w.cfg.scheme.ess_min = 0.0;
        w.cfg.scheme.order = which == DROPPED ? SOSMC_ORDER_PAPER : SOSMC_ORDER_AUTHORS;
        break;
    case UNDERDAMPED:
        w = base_world("underdamped, adapt", sosmc_underdamped(0.3, 1.0, 1.5), sosmc);
        w.cfg.adapt[0] = on_ess;
        w.cfg.scheme.ess_min = 0.9;
        break;
    case UNDERDAMPED_AUTHORS:
        w = base_world("underdamped, authors, two sweeps", sosmc_underdamped(0.3, 1.0, 1.5), sosmc);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        w.cfg.scheme.sweeps = 2;
        w.cfg.scheme.ess_min = 2.0;
        break;
    case UNDERDAMPED_POOL:
        w = base_world("underdamped, pool and restarts", sosmc_underdamped(0.3, 1.0, 1.0),
                       sosmc_scheme_pcd(N, 2 * N, 2));
        w.p.objective = sosmc_likelihood(sosmc_rows_source(&minibatch), 20);
        break;
    case UNDERDAMPED_TALL:
        w = base_world("underdamped, tiles of 16", sosmc_underdamped(0.1, 1.0, 1.0), sosmc_scheme_sosmc(40));
        w.p.model.dim_x = 300;
        w.p.model.tile = 0;
        w.p.model.work = 300 * sizeof(double);
        break;
    case LEAPFROG: w = base_world("leapfrog", sosmc_leapfrog(0.2, 3, 1.5), sosmc); break;
    case TALL:
        w = base_world("tiles of 16", sosmc_ula(0.01), sosmc_scheme_sosmc(40));
        w.p.model.dim_x = 300;
        w.p.model.tile = 0;
        w.p.model.work = 300 * sizeof(double);
        w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    default:
        w = base_world("one particle per tile", sosmc_mala(0.001), sosmc_scheme_sosmc(5));
        w.p.model.dim_x = 4100;
        w.p.model.tile = 0;
        w.p.model.work = 4100 * sizeof(double);
        break;
    }
    if (which % 2 == 1 && which < UNWEIGHTED) w.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    return w;
}

/* Starts on this side of the wall. */
static int draw_low(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++) x[i] = x[i] > 0.0 ? -x[i] : x[i];
    return 0;
}

static sosmc *open_world(world w)
{
    sosmc *s = NULL;
    if (!w.p.init.draw) w.p.init = (sosmc_source){.draw = draw_low};
    if (sosmc_create(&s, &w.p, &w.cfg) != SOSMC_OK) fail_msg("%s: %s", w.name, sosmc_message(s));
    return s;
}

static void steps(sosmc *s, int count)
{
    for (int k = 0; k < count; k++)
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

/* ---------------------------------------------------------------------------- streams in memory */

typedef struct {
    char *bytes;
    size_t used, room, at;
    int calls, fail_at; /* the call that fails, counted from 1; 0: none */
} memory;

static int to_memory(void *ctx, const void *bytes, size_t n)
{
    memory *m = ctx;
    if (++m->calls == m->fail_at) return -1;
    if (m->used + n > m->room) {
        m->room = 2 * (m->used + n);
        m->bytes = realloc(m->bytes, m->room);
        if (!m->bytes) return -1;
    }
    memcpy(m->bytes + m->used, bytes, n);
    m->used += n;
    return 0;
}

static int from_memory(void *ctx, void *bytes, size_t n)
{
    memory *m = ctx;
    if (++m->calls == m->fail_at || m->at + n > m->used) return -1;
    memcpy(bytes, m->bytes + m->at, n);
    m->at += n;
    return 0;
}

static sosmc_status save(sosmc *s, memory *m)
{
    m->used = m->at = 0;
    m->calls = 0;
    return sosmc_save(s, to_memory, m);
}

static sosmc_status load(sosmc *s, memory *m)
{
    m->at = 0;
    m->calls = 0;
    return sosmc_load(s, from_memory, m);
}

static void must_save(sosmc *s, memory *m)
{
    if (save(s, m) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

static void must_load(sosmc *s, memory *m)
{
    if (load(s, m) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
}

static int same_bytes(const memory *a, const memory *b)
{
    return a->used == b->used && !memcmp(a->bytes, b->bytes, a->used);
}

/* ---------------------------------------------------------------------------- resume equals uninterrupted */

/* An uninterrupted run: what it was at every iteration. */
typedef struct {
    memory at[K + 1];
    uint64_t hash[K + 1];
    sosmc_info info[K + 1]; /* of the iteration that led there */
    double theta[K + 1][DT], average[K + 1][DT];
} record;

static void note(const sosmc *s, record *r, int k)
{
    r->hash[k] = sosmc_hash(s);
    r->info[k] = *sosmc_last(s);
    memcpy(r->theta[k], sosmc_theta(s), sizeof r->theta[k]);
    memcpy(r->average[k], sosmc_theta_average(s), sizeof r->average[k]);
}

static record *run_whole(const world *w)
{
    record *r = calloc(1, sizeof *r);
    sosmc *s = open_world(*w);
    assert_non_null(r);
    for (int k = 0; k <= K; k++) {
        note(s, r, k);
        must_save(s, &r->at[k]);
        assert_true(sosmc_hash(s) == r->hash[k]); /* saving changes nothing */
        for (int q = 0; q < k; q++) assert_true(r->hash[q] != r->hash[k]);
        if (k < K) steps(s, 1);
    }
    sosmc_free(s);
    return r;
}

static void free_record(record *r)
{
    for (int k = 0; k <= K; k++) free(r->at[k].bytes);
    free(r);
}

static int same(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (isnan(a) && isnan(b));
}

static int same_info(const sosmc_info *a, const sosmc_info *b)
{
    return a->iteration == b->iteration && a->updates == b->updates && a->gradient_updates == b->gradient_updates &&
           same(a->ess, b->ess) && same(a->mean_score, b->mean_score) && same(a->mean_energy, b->mean_energy) &&
           same(a->loss, b->loss) && same(a->kl, b->kl) && same(a->logz, b->logz) && same(a->grad_norm, b->grad_norm) &&
           same(a->accept, b->accept) && same(a->h, b->h) && same(a->rate, b->rate) && a->resampled == b->resampled &&
           a->nonfinite == b->nonfinite && a->retries == b->retries;
}

/* From iteration k to the end, in step with the record. */
static void follow(sosmc *s, const world *w, const record *r, int k, int bytes_too)
{
    memory m = {.used = 0};
    assert_int_equal(sosmc_iteration(s), k);
    if (!same_info(sosmc_last(s), &r->info[k])) fail_msg("%s: another last info after %d iterations", w->name, k);
    for (;; k++) {
        if (sosmc_hash(s) != r->hash[k]) fail_msg("%s: another state after %d iterations", w->name, k);
        assert_memory_equal(sosmc_theta(s), r->theta[k], sizeof r->theta[k]);
        assert_memory_equal(sosmc_theta_average(s), r->average[k], sizeof r->average[k]);
        if (bytes_too) {
            must_save(s, &m);
            if (!same_bytes(&m, &r->at[k])) fail_msg("%s: other bytes after %d iterations", w->name, k);
        }
        if (k == K) break;
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s: %s", w->name, sosmc_message(s));
        if (!same_info(sosmc_last(s), &r->info[k + 1])) fail_msg("%s: another info of iteration %d", w->name, k);
    }
    free(m.bytes);
}

static void resume_equals_uninterrupted(void **state)
{
    const char *const levels[] = {"plain", "avx2", "avx512"};
    const int threads[] = {1, 3, 2};
    for (int which = 0; which < WORLDS; which++) {
        world w = world_of(which);
        record *r = run_whole(&w);
        for (int k = 0; k <= K; k++) {
            world other = w;
            other.cfg.threads = threads[k % 3];
            other.cfg.simd = sosmc_simd_named(levels[(k + which) % 3]); /* NULL: the best of this machine */
            sosmc *s = open_world(other);
            must_load(s, &r->at[k]);
            follow(s, &w, r, k, 1);
            sosmc_free(s);
        }
        free_record(r);
    }
}

/* The settings really do what the test is meant to stop. */
static void the_worlds_are_eventful(void **state)
{
    int resampled = 0, dropped[2] = {0}, adapted = 0, averaged = 0, accepted = 0;
    for (int which = 0; which < WORLDS; which++) {
        world w = world_of(which);
        sosmc *s = open_world(w);
        double h = s->now->v.h, rate = s->now->v.rate;
        for (int k = 0; k < K; k++) {
            steps(s, 1);
            resampled += sosmc_last(s)->resampled;
            if (which == DROPPED || which == DROPPED_MALA) dropped[which - DROPPED] += sosmc_last(s)->nonfinite;
            accepted += sosmc_last(s)->accept < 1.0;
        }
        adapted += s->now->v.h != h;
        adapted += s->now->v.rate != rate;
        averaged += s->now->v.averaged > 0;
        sosmc_free(s);
    }
    assert_true(resampled >= 10);
    assert_true(dropped[0] >= 3 && dropped[1] >= 3);
    assert_true(adapted >= 4);
    assert_true(averaged >= 4);
    assert_true(accepted >= 20);
}

static void load_into_an_engine_that_has_stepped(void **state)
{
    for (int which = 0; which < WORLDS; which++) {
        world w = world_of(which);
        record *r = run_whole(&w);
        w.cfg.threads = 2;
        sosmc *s = open_world(w);
        steps(s, K + 3);
        for (int k = K; k >= 0; k--) {
            must_load(s, &r->at[k]);
            follow(s, &w, r, k, 0);
        }
        sosmc_free(s);
        free_record(r);
    }
}

/* Where a model parks depends on work_limit; what a run computes does not. */
static void parking_is_not_part_of_the_state(void **state)
{
    const int which[] = {ULA_PAPER, ULA_AUTHORS, MALA_AUTHORS, UNWEIGHTED_AUTHORS, SOUL};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++) {
        world w = world_of(which[q]);
        record *r = run_whole(&w);
        w.cfg.work_limit = 0;
        sosmc *s = open_world(w);
        for (int k = 0; k <= K; k++) {
            must_load(s, &r->at[k]);
            follow(s, &w, r, k, 0);
        }
        sosmc_free(s);
        free_record(r);
    }
}

/* ---------------------------------------------------------------------------- after a failure */

/* A step that failed half-way can be repaired by loading ... */
static void loading_repairs_a_failed_step(void **state)
{
    for (int which = 0; which < WORLDS; which++)
        for (int call = 1; call <= 3; call++) {
            world w = world_of(which);
            record *r = run_whole(&w);
            sosmc *s = open_world(w);
            steps(s, 3);
            atomic_store(&energy_breaks, call);
            sosmc_status status = sosmc_step(s);
            atomic_store(&energy_breaks, 0);
            if (status == SOSMC_OK) { /* so few calls per step */
                assert_true(call > 1);
            } else {
                assert_int_equal(status, SOSMC_EMODEL);
                must_load(s, &r->at[3]);
                follow(s, &w, r, 3, 0);
            }
            sosmc_free(s);
            free_record(r);
        }
}

/* ... and must not pass for a whole one: to go on from it, or to save it, either is refused or gives the run that was
 * never disturbed. */
static void a_failed_step_is_not_continued(void **state)
{
    for (int which = 0; which < WORLDS; which++)
        for (int saved = 0; saved < 2; saved++) {
            world w = world_of(which);
            record *r = run_whole(&w);
            sosmc *s = open_world(w);
            memory m = {.used = 0};
            steps(s, 3);
            atomic_store(&energy_breaks, w.cfg.scheme.particles > 64 ? 3 : 1);
            sosmc_status status = sosmc_step(s);
            atomic_store(&energy_breaks, 0);
            assert_int_equal(status, SOSMC_EMODEL);
            if (saved) {
                status = save(s, &m);
                if (status == SOSMC_OK) must_load(s, &m);
            } else {
                status = SOSMC_OK;
            }
            for (int k = (int)sosmc_iteration(s); k < K && status == SOSMC_OK; k++) status = sosmc_step(s);
            if (status == SOSMC_OK && sosmc_hash(s) != r->hash[K])
                fail_msg("%s: a failed step was %s without a word, and the run is another one", w.name,
                         saved ? "saved and taken up again" : "continued");
            sosmc_free(s);
            free(m.bytes);
            free_record(r);
        }
}

/* ---------------------------------------------------------------------------- streams that are refused */

/* Tries a stream that must be refused; the engine must not notice. */
static void refuse(sosmc *s, memory *m, const char *what, long where)
{
    uint64_t before = sosmc_hash(s);
    int64_t iteration = sosmc_iteration(s);
    sosmc_status status = load(s, m);
    if (status != SOSMC_EIO && status != SOSMC_EINVAL) fail_msg("%s %ld: status %d", what, where, status);
    if (strlen(sosmc_message(s)) < 10) fail_msg("%s %ld: no message", what, where);
    if (sosmc_hash(s) != before || sosmc_iteration(s) != iteration) fail_msg("%s %ld changed the engine", what, where);
}

static void truncated_streams(void **state)
{
    const int which[] = {ULA_PAPER, PCD, SOUL};
    for (int q = 0; q < 3; q++) {
        world w = world_of(which[q]);
        record *r = run_whole(&w);
        memory *m = &r->at[5];
        size_t whole = m->used;
        sosmc *s = open_world(w);
        steps(s, 2);
        for (size_t cut = 0; cut < whole; cut += cut + 128 < whole ? 64 : 1) { /* and every byte at the end */
            m->used = cut;
            refuse(s, m, "truncated at", (long)cut);
            assert_contains(sosmc_message(s), "too early");
        }
        m->used = whole;
        follow(s, &w, r, 2, 0); /* and its future is what it was */
        must_load(s, m);
        follow(s, &w, r, 5, 0);
        sosmc_free(s);
        free_record(r);
    }
}

static void flipped_bits(void **state)
{
    for (int small = 0; small < 2; small++) { /* every bit of a small stream, a sample of a larger one */
        world w = world_of(small ? ULA_AUTHORS : PCD);
        if (small) w.cfg.scheme.particles = w.cfg.scheme.pool = 5;
        record *r = run_whole(&w);
        memory *m = &r->at[5];
        sosmc *s = open_world(w);
        steps(s, 2);
        for (size_t at = 0; at < m->used; at += small || at < 300 || at + 16 > m->used ? 1 : 13)
            for (int bit = 0; bit < 8; bit += small ? 1 : 5) {
                m->bytes[at] = (char)(m->bytes[at] ^ (1 << bit));
                refuse(s, m, "flipped byte", (long)at);
                m->bytes[at] = (char)(m->bytes[at] ^ (1 << bit));
            }
        follow(s, &w, r, 2, 0);
        must_load(s, m);
        follow(s, &w, r, 5, 0);
        sosmc_free(s);
        free_record(r);
    }
}

static void foreign_and_newer_streams(void **state)
{
    enum { VERSION_AT = 8, BYTE_ORDER_AT = 16 };
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    memory *m = &r->at[5], copy = {.bytes = malloc(m->used), .used = m->used, .room = m->used};
    sosmc *s = open_world(w);
    assert_non_null(copy.bytes);
    steps(s, 2);
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
        assert_int_equal(load(s, &copy), SOSMC_EIO);
        assert_contains(sosmc_message(s), q < 3 ? "not a sosmc checkpoint" : q == 3 ? "version 1000" : "byte order");
    }
    assert_int_equal(sosmc_load(s, NULL, NULL), SOSMC_EINVAL);
    assert_int_equal(sosmc_save(s, NULL, NULL), SOSMC_EINVAL);
    follow(s, &w, r, 2, 0);
    sosmc_free(s);
    free(copy.bytes);
    free_record(r);
}

/* A callback that fails at its n-th call, for every n. */
static void streams_that_break(void **state)
{
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    sosmc *s = open_world(w);
    memory m = {.used = 0};
    int n = 1;
    steps(s, 2);
    for (;; n++) {
        m.fail_at = n;
        sosmc_status status = save(s, &m);
        if (status == SOSMC_OK) break;
        assert_int_equal(status, SOSMC_EIO);
        assert_int_equal(m.calls, n); /* nothing is written behind a gap */
        assert_contains(sosmc_message(s), "could not be written");
        assert_true(sosmc_hash(s) == r->hash[2]);
    }
    assert_true(n > 5 && same_bytes(&m, &r->at[2]));
    for (n = 1;; n++) {
        m.fail_at = n;
        sosmc_status status = load(s, &m);
        if (status == SOSMC_OK) break;
        assert_int_equal(status, SOSMC_EIO);
        assert_true(sosmc_hash(s) == r->hash[2]);
    }
    assert_true(n > 5);
    follow(s, &w, r, 2, 0);
    sosmc_free(s);
    free(m.bytes);
    free_record(r);
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

static void make_different(world *w, int which)
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
        w->cfg.kernel.step = aux_step;
        break;
    case OPTIMISER: w->cfg.optimiser = sosmc_adamw(0.05, 0.0); break;
    case SCORE: w->p.objective.score.eval = reward; break;
    default:
        w->p.objective.kl = 0.5;
        w->p.objective.theta_ref = REFERENCE;
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
        world w = world_of(q == MEMBERS ? PCD : q == SWEEP_COUNT || q == KEEP ? SOUL : ULA_PAPER), other = w;
        memory m = {.used = 0};
        make_different(&other, q);
        for (int swapped = 0; swapped < 2; swapped++) {
            sosmc *from = open_world(swapped ? other : w), *to = open_world(swapped ? w : other);
            steps(from, 3);
            steps(to, 2);
            must_save(from, &m);
            refuse(to, &m, "another problem", q);
            assert_int_equal(load(to, &m), SOSMC_EINVAL);
            assert_contains(sosmc_message(to), words[q].field);
            assert_contains(sosmc_message(to), words[q].theirs);
            assert_contains(sosmc_message(to), words[q].ours);
            steps(to, 1);
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
    world w = world_of(ULA_PAPER);
    memory m = {.used = 0};
    w.cfg.scheme.particles = w.cfg.scheme.pool = 100;
    sosmc *from = open_world(w);
    steps(from, 3);
    must_save(from, &m);
    for (int q = 0; q < 4; q++) {
        static double x[100 * DT], y[100 * DT];
        world other = w;
        other.p.model.tile = tiles[q];
        sosmc *to = open_world(other);
        uint64_t before = sosmc_hash(to);
        if (load(to, &m) == SOSMC_OK) {
            assert_int_equal(sosmc_cloud(from, x, NULL), SOSMC_OK);
            assert_int_equal(sosmc_cloud(to, y, NULL), SOSMC_OK);
            for (int e = 0; e < 100 * DT; e++)
                if (!same(x[e], y[e]))
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
        world w = world_of(ULA_PAPER), other = w;
        memory m = {.used = 0};
        *(q ? &w.cfg.optimiser.name : &w.cfg.kernel.name) = "clamped_langevin_with_tight_bounds";
        *(q ? &other.cfg.optimiser.name : &other.cfg.kernel.name) = "clamped_langevin_with_loose_bounds";
        sosmc *from = open_world(w), *to = open_world(other);
        must_save(from, &m);
        assert_int_equal(load(from, &m), SOSMC_OK);
        assert_int_equal(load(to, &m), SOSMC_EINVAL);
        sosmc_free(from);
        sosmc_free(to);
        free(m.bytes);
    }
}

/* ---------------------------------------------------------------------------- files */

typedef struct {
    char dir[NAME_ROOM / 4], path[NAME_ROOM / 2], previous[NAME_ROOM], tmp[NAME_ROOM];
} place;

static place place_new(void)
{
    place p;
    const char *base = getenv("TMPDIR");
    (void)snprintf(p.dir, sizeof p.dir, "%s/sosmc_XXXXXX", base && strlen(base) < 100 ? base : "/tmp");
    assert_non_null(mkdtemp(p.dir));
    (void)snprintf(p.path, sizeof p.path, "%s/run.checkpoint", p.dir);
    (void)snprintf(p.previous, sizeof p.previous, "%s.previous", p.path);
    (void)snprintf(p.tmp, sizeof p.tmp, "%s.tmp", p.path);
    return p;
}

static void place_free(const place *p)
{
    (void)unlink(p->path);
    (void)rmdir(p->path);
    (void)unlink(p->previous);
    (void)rmdir(p->previous);
    (void)unlink(p->tmp);
    assert_int_equal(rmdir(p->dir), 0); /* nothing else was left there */
}

static int exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static memory read_all(const char *path)
{
    memory m = {.used = 0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    m.room = 1 << 23;
    m.bytes = malloc(m.room);
    assert_non_null(m.bytes);
    m.used = fread(m.bytes, 1, m.room, f);
    (void)fclose(f);
    return m;
}

static void write_all(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void must_save_file(sosmc *s, const place *p)
{
    if (sosmc_save_file(s, p->path) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    assert_false(exists(p->tmp));
}

static void assert_file_is(const char *path, const memory *expected)
{
    memory m = read_all(path);
    if (!same_bytes(&m, expected)) fail_msg("%s does not hold what it should", path);
    free(m.bytes);
}

static void files_rotate(void **state)
{
    place p = place_new();
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    sosmc *s = open_world(w), *fresh = open_world(w);
    for (int k = 0; k <= K; k++) {
        must_save_file(s, &p);
        assert_file_is(p.path, &r->at[k]);
        if (k)
            assert_file_is(p.previous, &r->at[k - 1]);
        else
            assert_false(exists(p.previous));
        assert_int_equal(sosmc_load_file(fresh, p.path), SOSMC_OK);
        assert_true(sosmc_hash(fresh) == r->hash[k]);
        if (k < K) steps(s, 1);
    }
    assert_int_equal(sosmc_load_file(fresh, p.path), SOSMC_OK);
    follow(fresh, &w, r, K, 1);
    sosmc_free(s);
    sosmc_free(fresh);
    free_record(r);
    place_free(&p);
}

/* A path without a directory is one in the working directory. */
static void a_bare_name(void **state)
{
    place p = place_new();
    char here[1024];
    world w = world_of(ULA_PAPER);
    sosmc *s = open_world(w);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(p.dir), 0);
    sosmc_status saved = sosmc_save_file(s, "run.checkpoint"), loaded = sosmc_load_file(s, "run.checkpoint");
    assert_int_equal(chdir(here), 0);
    assert_int_equal(saved, SOSMC_OK);
    assert_int_equal(loaded, SOSMC_OK);
    assert_true(exists(p.path));
    sosmc_free(s);
    place_free(&p);
}

/* Iteration 3 in PATH.previous, iteration 4 in PATH, an engine at iteration 1. */
typedef struct {
    place p;
    world w;
    record *r;
    sosmc *s;
} desk;

static desk desk_new(int which)
{
    desk d = {.p = place_new(), .w = world_of(which)};
    d.r = run_whole(&d.w);
    d.s = open_world(d.w);
    write_all(d.p.previous, d.r->at[3].bytes, d.r->at[3].used);
    write_all(d.p.path, d.r->at[4].bytes, d.r->at[4].used);
    steps(d.s, 1);
    return d;
}

static void desk_free(desk *d)
{
    sosmc_free(d->s);
    free_record(d->r);
    place_free(&d->p);
}

static void assert_falls_back(desk *d, const char *what, long where)
{
    if (sosmc_load_file(d->s, d->p.path) != SOSMC_OK) fail_msg("%s %ld: %s", what, where, sosmc_message(d->s));
    if (sosmc_iteration(d->s) != 3) fail_msg("%s %ld: loaded iteration %ld", what, where, (long)sosmc_iteration(d->s));
    assert_true(sosmc_hash(d->s) == d->r->hash[3]);
}

static void a_damaged_file_falls_back(void **state)
{
    desk d = desk_new(ULA_PAPER);
    memory *m = &d.r->at[4];
    size_t whole = m->used;
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_OK);
    assert_int_equal(sosmc_iteration(d.s), 4);
    for (size_t cut = 0; cut < whole; cut += 997) {
        write_all(d.p.path, m->bytes, cut);
        assert_falls_back(&d, "truncated at", (long)cut);
    }
    for (size_t at = 320; at < whole; at += 501) { /* behind the header */
        m->bytes[at] ^= 0x10;
        write_all(d.p.path, m->bytes, whole);
        assert_falls_back(&d, "flipped byte", (long)at);
        m->bytes[at] ^= 0x10;
    }
    assert_int_equal(unlink(d.p.path), 0);
    assert_falls_back(&d, "missing", 0);
    write_all(d.p.path, m->bytes, whole);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_OK);
    assert_int_equal(sosmc_iteration(d.s), 4);
    desk_free(&d);
}

/* Damage in the header makes the seed or a name look like another problem's; it is damage all the same. */
static void a_damaged_header_falls_back(void **state)
{
    desk d = desk_new(ULA_PAPER);
    memory *m = &d.r->at[4];
    for (size_t at = 0; at < 320; at++) {
        m->bytes[at] ^= 0x10;
        write_all(d.p.path, m->bytes, m->used);
        assert_falls_back(&d, "flipped byte", (long)at);
        m->bytes[at] ^= 0x10;
    }
    desk_free(&d);
}

/* A whole file of another problem is not damaged: the user has to know. */
static void a_file_of_another_problem_is_refused(void **state)
{
    desk d = desk_new(ULA_PAPER);
    world other = d.w;
    other.cfg.seed = 98;
    sosmc *s = open_world(other);
    memory m = {.used = 0};
    must_save(s, &m);
    write_all(d.p.path, m.bytes, m.used);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EINVAL);
    assert_contains(sosmc_message(d.s), "seed");
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    sosmc_free(s);
    free(m.bytes);
    desk_free(&d);
}

static void no_file_is_whole(void **state)
{
    desk d = desk_new(ULA_PAPER);
    write_all(d.p.path, d.r->at[4].bytes, 1000);
    write_all(d.p.previous, d.r->at[3].bytes, 2000);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EIO);
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    assert_int_equal(unlink(d.p.path), 0);
    assert_int_equal(unlink(d.p.previous), 0);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EIO);
    assert_contains(sosmc_message(d.s), d.p.path);
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    follow(d.s, &d.w, d.r, 1, 0);
    desk_free(&d);
}

static void paths_that_are_none(void **state)
{
    static char endless[5000];
    world w = world_of(ULA_PAPER);
    sosmc *s = open_world(w);
    memset(endless, 'x', sizeof endless - 1);
    const char *const paths[] = {NULL, "", endless};
    for (int q = 0; q < 3; q++) {
        assert_int_equal(sosmc_save_file(s, paths[q]), SOSMC_EINVAL);
        assert_contains(sosmc_message(s), "path");
        assert_int_equal(sosmc_load_file(s, paths[q]), SOSMC_EINVAL);
        assert_contains(sosmc_message(s), "path");
    }
    sosmc_free(s);
}

/* Fails to save at d.p.path, and the two files stay what they are. */
static void assert_not_saved(desk *d, sosmc_status expected)
{
    uint64_t before = sosmc_hash(d->s);
    sosmc_status status = sosmc_save_file(d->s, d->p.path);
    if (status != expected) fail_msg("status %d: %s", status, sosmc_message(d->s));
    assert_true(sosmc_hash(d->s) == before);
    assert_false(exists(d->p.tmp));
    assert_file_is(d->p.path, &d->r->at[4]);
    assert_file_is(d->p.previous, &d->r->at[3]);
}

static void directories_that_cannot_be_written(void **state)
{
    desk d = desk_new(ULA_PAPER);
    char path[2 * NAME_ROOM];
    const char *const formats[] = {"%s/run", "%s/no/such/directory/run"};
    for (int q = 0; q < 2; q++) { /* below a regular file; below nothing */
        (void)snprintf(path, sizeof path, formats[q], q ? d.p.dir : d.p.path);
        assert_int_equal(sosmc_save_file(d.s, path), SOSMC_EIO);
        assert_contains(sosmc_message(d.s), path);
        assert_int_equal(sosmc_load_file(d.s, path), SOSMC_EIO);
        assert_contains(sosmc_message(d.s), path);
    }
    assert_int_equal(sosmc_save_file(d.s, "/proc/sosmc_checkpoint"), SOSMC_EIO);
    follow(d.s, &d.w, d.r, 1, 0);
    desk_free(&d);
}

/* PATH.previous cannot be replaced: PATH must stay. */
static void a_rename_that_fails(void **state)
{
    desk d = desk_new(ULA_PAPER);
    assert_int_equal(unlink(d.p.previous), 0);
    assert_int_equal(mkdir(d.p.previous, 0777), 0);
    assert_int_equal(sosmc_save_file(d.s, d.p.path), SOSMC_EIO);
    assert_contains(sosmc_message(d.s), d.p.path);
    assert_false(exists(d.p.tmp));
    assert_file_is(d.p.path, &d.r->at[4]);
    desk_free(&d);
}

/* Somebody's directory is not ours to rename. */
static void a_directory_is_not_a_checkpoint(void **state)
{
    for (int with_previous = 0; with_previous < 2; with_previous++) {
        desk d = desk_new(ULA_PAPER);
        struct stat st;
        assert_int_equal(unlink(d.p.path), 0);
        if (!with_previous) assert_int_equal(unlink(d.p.previous), 0);
        assert_int_equal(mkdir(d.p.path, 0777), 0);
        sosmc_status status = sosmc_save_file(d.s, d.p.path);
        int still_there = stat(d.p.path, &st) == 0 && S_ISDIR(st.st_mode);
        if (with_previous) assert_file_is(d.p.previous, &d.r->at[3]);
        desk_free(&d);
        assert_int_equal(status, SOSMC_EIO);
        assert_true(still_there);
    }
}

/* The disk is full at once (a device that always is), or after some kilobytes (a limit on the size of files). */
static void full_disks(void **state)
{
    const rlim_t limits[] = {100, 4096, 40000};
    for (int large = 0; large < 2; large++) { /* within one buffer of the writer, and in many */
        desk d = desk_new(large ? HUGE_DIMENSION : ULA_PAPER);
        if (exists("/dev/full")) {
            assert_int_equal(symlink("/dev/full", d.p.tmp), 0);
            assert_not_saved(&d, SOSMC_EIO);
            assert_contains(sosmc_message(d.s), d.p.tmp);
        }
        struct rlimit old, low;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        for (int q = 0; q < 2 + large; q++) {
            low = old;
            low.rlim_cur = limits[q];
            uint64_t before = sosmc_hash(d.s);
            int set = setrlimit(RLIMIT_FSIZE, &low);
            sosmc_status status = sosmc_save_file(d.s, d.p.path);
            int restored = setrlimit(RLIMIT_FSIZE, &old);
            assert_int_equal(set, 0);
            assert_int_equal(restored, 0);
            assert_int_equal(status, SOSMC_EIO);
            assert_contains(sosmc_message(d.s), d.p.tmp);
            assert_true(sosmc_hash(d.s) == before);
            assert_false(exists(d.p.tmp));
            assert_file_is(d.p.path, &d.r->at[4]);
            assert_file_is(d.p.previous, &d.r->at[3]);
        }
        (void)signal(SIGXFSZ, handler);
        follow(d.s, &d.w, d.r, 1, 0);
        must_save_file(d.s, &d.p); /* room again */
        assert_file_is(d.p.path, &d.r->at[K]);
        assert_file_is(d.p.previous, &d.r->at[4]);
        desk_free(&d);
    }
}

/* A leftover of a crash, or anything else under the temporary name, is not in the way. */
static void leftovers_are_overwritten(void **state)
{
    desk d = desk_new(ULA_PAPER);
    write_all(d.p.tmp, d.r->at[8].bytes, 3000);
    must_save_file(d.s, &d.p);
    assert_file_is(d.p.path, &d.r->at[1]);
    assert_file_is(d.p.previous, &d.r->at[4]);
    desk_free(&d);
}

/* ---------------------------------------------------------------------------- states with NaN */

/* Its memory turns bad in update 2, theta in update 3: what a diverging rule does. */
static void bad_rule(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k >= 2) slots[1] = NAN;
    if (k >= 3) theta[2] = NAN;
}

static void a_bad_optimiser_does_not_replace_a_healthy_state(void **state)
{
    desk d = desk_new(ULA_PAPER);
    world w = d.w;
    memory m = {.used = 0};
    w.cfg.optimiser = (sosmc_optimiser){.name = "bad", .slots = 1, .step = bad_rule};
    sosmc_free(d.s);
    d.s = open_world(w);
    steps(d.s, 2);
    assert_int_equal(save(d.s, &m), SOSMC_OK);
    steps(d.s, 1); /* theta is still fine */
    assert_int_equal(save(d.s, &m), SOSMC_ENUMERIC);
    assert_int_equal(m.used, 0);
    assert_contains(sosmc_message(d.s), "optimiser");
    assert_not_saved(&d, SOSMC_ENUMERIC);
    assert_int_equal(sosmc_step(d.s), SOSMC_ENUMERIC); /* now it is not */
    assert_not_saved(&d, SOSMC_ENUMERIC);
    free(m.bytes);
    desk_free(&d);
}

/* No public way leads there, so the numbers are put into the state by hand. */
static double *poke(sosmc *s, int which)
{
    state *st = s->now;
    double *const all[] = {&st->theta[1],
                           &st->theta_prev[0],
                           &st->slots[1],
                           &st->c.x[3],
                           &st->c.gx[7],
                           &st->c.U[9],
                           &st->c.R[2],
                           &st->c.Uref[1],
                           &st->logw[5],
                           &st->v.h,
                           &st->v.rate,
                           &st->v.logz,
                           &st->v.logmean,
                           &st->v.logz0,
                           st->average,
                           st->pool ? &st->pool[4] : NULL,
                           NULL};
    enum { ALL = sizeof all / sizeof *all };
    return which < ALL - 1 ? all[which] : NULL;
}

static void no_number_may_be_bad(void **state)
{
    static const double values[] = {NAN, INFINITY};
    enum { POKES = 16, POOL_MEMBER = 15 };
    world w = world_of(MALA_AUTHORS), pool = world_of(PCD);
    const sosmc_score score = {.eval = reward};
    w.p.objective = sosmc_reward_reverse(score, 0.5, REFERENCE);
    w.cfg.optimiser = sosmc_adam(0.05);
    desk d = desk_new(ULA_PAPER);
    for (int which = 0; which < POKES; which++)
        for (int v = 0; v < 2; v++) {
            sosmc_free(d.s);
            d.s = open_world(which == POOL_MEMBER ? pool : w);
            steps(d.s, 5);
            double *target = poke(d.s, which), healthy = *target;
            memory m = {.used = 0};
            assert_non_null(target);
            *target = values[v];
            sosmc_status status = save(d.s, &m);
            if (status != SOSMC_ENUMERIC)
                fail_msg("number %d of the state is %g and was saved: %d", which, values[v], status);
            assert_int_equal(m.used, 0);
            assert_not_saved(&d, SOSMC_ENUMERIC);
            *target = healthy;
            assert_int_equal(save(d.s, &m), SOSMC_OK);
            free(m.bytes);
        }
    desk_free(&d);
}

/* A weight of zero is no defect; a cloud of nothing else is. */
static void a_dead_cloud_is_not_saved(void **state)
{
    for (int which = ULA_PAPER; which <= MALA_AUTHORS; which++) {
        desk d = desk_new(which);
        memory m = {.used = 0};
        atomic_store(&energy_is_nan, 1);
        sosmc_status status = sosmc_step(d.s);
        atomic_store(&energy_is_nan, 0);
        assert_int_equal(status, SOSMC_ENUMERIC);
        if (save(d.s, &m) == SOSMC_OK) fail_msg("%s: a cloud without weight was saved", d.w.name);
        assert_not_saved(&d, SOSMC_ENUMERIC);
        must_load(d.s, &d.r->at[3]); /* nothing of the dead cloud comes along */
        follow(d.s, &d.w, d.r, 3, 0);
        for (int i = 0; i < 3 * 64; i++) d.s->now->logw[i] = -INFINITY; /* dead, and no step has failed of it */
        assert_not_saved(&d, SOSMC_ENUMERIC);
        free(m.bytes);
        desk_free(&d);
    }
}

/* ---------------------------------------------------------------------------- kill -9 */

enum { KILLS = 20, CROWD = 1500 };
typedef struct {
    atomic_llong begun, done; /* iterations whose saving has begun, has ended */
} progress;

static world killed_world(void)
{
    world w = world_of(ULA_PAPER);
    w.cfg.scheme = sosmc_scheme_sosmc(CROWD);
    return w;
}

/* The child: takes up what there is, and saves after every step until it is killed. */
static void save_for_ever(const char *path, progress *seen)
{
    world w = killed_world();
    sosmc *s = NULL;
    if (sosmc_create(&s, &w.p, &w.cfg) != SOSMC_OK) _exit(1);
    if (atomic_load(&seen->done) > 0 && sosmc_load_file(s, path) != SOSMC_OK) _exit(2);
    for (;;) {
        if (sosmc_step(s) != SOSMC_OK) _exit(3);
        atomic_store(&seen->begun, sosmc_iteration(s));
        if (sosmc_save_file(s, path) != SOSMC_OK) _exit(4);
        atomic_store(&seen->done, sosmc_iteration(s));
    }
}

static void sleep_for(long microseconds)
{
    struct timespec t = {.tv_nsec = microseconds * 1000};
    (void)nanosleep(&t, NULL);
}

static void killed_while_saving(void **state)
{
    place p = place_new();
    /* cppcheck-suppress invalidFunctionArg */
    progress *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    world w = killed_world();
    sosmc *s = open_world(w), *whole = open_world(w); /* the second is never interrupted */
    assert_true(seen != MAP_FAILED);
    uint64_t chance = 12345;
    for (int round = 0; round < KILLS; round++) {
        long long before = atomic_load(&seen->done);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(p.path, seen);
        for (int q = 0; q < 5000 && atomic_load(&seen->done) == before && waitpid(child, NULL, WNOHANG) == 0; q++)
            sleep_for(1000); /* at least one whole save, so that every round gets on */
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        sleep_for((long)(chance >> 33) % 6000);
        int status = 0;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        long long begun = atomic_load(&seen->begun), done = atomic_load(&seen->done);
        assert_true(done > before && begun >= done && begun <= done + 1);
        if (sosmc_load_file(s, p.path) != SOSMC_OK) fail_msg("round %d: %s", round, sosmc_message(s));
        if (sosmc_iteration(s) < done || sosmc_iteration(s) > begun)
            fail_msg("round %d: loaded %ld, saved %lld", round, (long)sosmc_iteration(s), done);
        if (sosmc_iteration(whole) > sosmc_iteration(s)) fail_msg("round %d went back", round);
        while (sosmc_iteration(whole) < sosmc_iteration(s)) steps(whole, 1);
        assert_true(sosmc_hash(s) == sosmc_hash(whole));
        atomic_store(&seen->done, sosmc_iteration(s));
    }
    sosmc_free(s);
    sosmc_free(whole);
    (void)munmap(seen, sizeof *seen);
    place_free(&p);
}

/* ---------------------------------------------------------------------------- ranks */

enum { MOST_RANKS = 5, HALF = 4 };

/* One job for all ranks; every rank notes what it sees in its own row. */
typedef struct {
    const world *w;
    const record *r;
    const char *path; /* files instead of memory */
    int saves;        /* run from the start and save at every iteration; else load iteration HALF and run */
    memory at[K + 1]; /* rank 0's streams */
    sosmc_status status[MOST_RANKS];
    int wrong[MOST_RANKS]; /* iterations whose hash differs */
    int64_t loaded[MOST_RANKS];
    char message[MOST_RANKS][MESSAGE];
} job;

static sosmc_status job_save(job *j, sosmc *s, int k)
{
    memory *m = &j->at[k];
    if (j->path) return sosmc_save_file(s, j->path);
    return sosmc_save(s, s->cfg.comm.rank == 0 ? to_memory : NULL, m);
}

static sosmc_status job_load(job *j, sosmc *s)
{
    memory m = j->r->at[HALF]; /* every rank reads the whole stream, with its own position */
    m.at = 0;
    m.calls = m.fail_at = 0;
    return j->path ? sosmc_load_file(s, j->path) : sosmc_load(s, from_memory, &m);
}

static void rank_runs(void *ctx, const sosmc_comm *comm)
{
    job *j = ctx;
    int rank = comm->rank;
    world w = *j->w;
    sosmc *s = NULL;
    w.cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &w.p, &w.cfg);
    if (status == SOSMC_OK && !j->saves) {
        status = job_load(j, s);
        j->loaded[rank] = sosmc_iteration(s);
    }
    for (int k = status == SOSMC_OK ? (int)sosmc_iteration(s) : K + 1; k <= K; k++) {
        if (sosmc_hash(s) != j->r->hash[k]) j->wrong[rank]++;
        if (j->saves && status == SOSMC_OK) status = job_save(j, s, k);
        if (k < K && status == SOSMC_OK) status = sosmc_step(s);
        if (status != SOSMC_OK) break;
    }
    j->status[rank] = status;
    (void)snprintf(j->message[rank], MESSAGE, "%s", sosmc_message(s));
    sosmc_free(s);
}

static void check_job(const job *j, int size)
{
    for (int rank = 0; rank < size; rank++) {
        if (j->status[rank] != SOSMC_OK) fail_msg("%s: rank %d of %d: %s", j->w->name, rank, size, j->message[rank]);
        if (j->wrong[rank]) fail_msg("%s: rank %d of %d: another state", j->w->name, rank, size);
        if (!j->saves) assert_int_equal(j->loaded[rank], HALF);
    }
}

static void ranks_write_the_same_bytes(void **state)
{
    const int which[] = {ULA_PAPER, HMC_AUTHORS, PCD, SOUL, RWM_AUTHORS, HUGE_DIMENSION};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++) {
        world w = world_of(which[q]);
        record *r = run_whole(&w);
        for (int size = 1; size <= 4; size++) {
            job j = {.w = &w, .r = r, .saves = 1};
            assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
            check_job(&j, size);
            for (int k = 0; k <= K; k++) {
                if (!same_bytes(&j.at[k], &r->at[k])) fail_msg("%s: %d ranks, other bytes", w.name, size);
                free(j.at[k].bytes);
            }
        }
        for (int size = 1; size <= 4; size++) { /* from one rank into any number */
            job j = {.w = &w, .r = r};
            assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
            check_job(&j, size);
        }
        free_record(r);
    }
}

static void ranks_share_a_file(void **state)
{
    world w = world_of(PCD);
    record *r = run_whole(&w);
    for (int size = 1; size <= 4; size++) {
        place p = place_new();
        job j = {.w = &w, .r = r, .saves = 1, .path = p.path};
        assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
        check_job(&j, size);
        assert_file_is(p.path, &r->at[K]);
        assert_file_is(p.previous, &r->at[K - 1]);
        assert_false(exists(p.tmp));

        write_all(p.path, r->at[5].bytes, 3000); /* damaged: all of them take the one before */
        write_all(p.previous, r->at[HALF].bytes, r->at[HALF].used);
        j = (job){.w = &w, .r = r, .path = p.path};
        assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
        check_job(&j, size);
        place_free(&p);
    }
    free_record(r);
}

/* A stream that is refused is refused by all ranks, with one status, and they can go on together. */
typedef struct {
    const world *w;
    const record *r;
    const memory *m;
    const char *path, *path1; /* instead of the memory: save to this path, or load from it; rank 1's own, or NULL */
    int saves;
    sosmc_status status[MOST_RANKS], after[MOST_RANKS];
    uint64_t hash[MOST_RANKS];
} refusal;

static void rank_is_refused(void *ctx, const sosmc_comm *comm)
{
    refusal *j = ctx;
    world w = *j->w;
    sosmc *s = NULL;
    w.cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &w.p, &w.cfg);
    for (int k = 0; k < 2 && status == SOSMC_OK; k++) status = sosmc_step(s);
    j->after[comm->rank] = status;
    if (status == SOSMC_OK) {
        memory m = {.used = 0};
        if (j->m) m = *j->m;
        m.calls = 0;
        const char *path = j->path1 && comm->rank == 1 ? j->path1 : j->path;
        j->status[comm->rank] = path && j->saves ? sosmc_save_file(s, path)
                                : path           ? sosmc_load_file(s, path)
                                                 : sosmc_load(s, from_memory, &m);
        j->after[comm->rank] = sosmc_step(s);
        j->hash[comm->rank] = sosmc_hash(s);
    }
    sosmc_free(s);
}

static void all_are_refused(refusal *j, int size, sosmc_status expected, const char *what)
{
    assert_int_equal(fake_run(size, rank_is_refused, j, NULL, NULL), 0);
    for (int rank = 0; rank < size; rank++) {
        if (j->status[rank] != expected)
            fail_msg("%s: rank %d of %d: status %d, not %d", what, rank, size, j->status[rank], expected);
        if (j->after[rank] != SOSMC_OK)
            fail_msg("%s: rank %d of %d cannot go on: status %d", what, rank, size, j->after[rank]);
        assert_true(j->hash[rank] == j->r->hash[3]);
    }
}

static void ranks_refuse_together(void **state)
{
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    memory damaged = r->at[5], shorter = r->at[5];
    damaged.bytes = malloc(damaged.used);
    assert_non_null(damaged.bytes);
    memcpy(damaged.bytes, r->at[5].bytes, damaged.used);
    damaged.bytes[1000] ^= 1;
    shorter.used = 5000;
    for (int size = 1; size <= 4; size++) {
        refusal j = {.w = &w, .r = r, .m = &damaged};
        all_are_refused(&j, size, SOSMC_EIO, "damaged stream");
        j.m = &shorter;
        all_are_refused(&j, size, SOSMC_EIO, "short stream");
        j.path = "/no/such/directory/checkpoint";
        all_are_refused(&j, size, SOSMC_EIO, "no file");
    }
    free(damaged.bytes);
    free_record(r);
}

/* Only rank 0 touches the disk; when that fails, the others must hear of it, and nobody may wait for who has left. */
static void ranks_learn_that_saving_failed(void **state)
{
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    for (int size = 1; size <= 3; size++) {
        place p = place_new();
        refusal j = {.w = &w, .r = r, .path = "/no/such/directory/checkpoint", .saves = 1};
        all_are_refused(&j, size, SOSMC_EIO, "no directory");
        if (exists("/dev/full")) {
            assert_int_equal(symlink("/dev/full", p.tmp), 0);
            j.path = p.path;
            all_are_refused(&j, size, SOSMC_EIO, "full disk");
        }
        place_free(&p);
    }
    free_record(r);
}

/* Every rank reads the file itself; where one cannot, none may go ahead. */
static void ranks_learn_that_loading_failed(void **state)
{
    world w = world_of(ULA_PAPER);
    record *r = run_whole(&w);
    place p = place_new();
    write_all(p.path, r->at[5].bytes, r->at[5].used);
    for (int size = 2; size <= 3; size++) {
        refusal j = {.w = &w, .r = r, .path = p.path, .path1 = "/no/such/directory/checkpoint"};
        all_are_refused(&j, size, SOSMC_EIO, "no file on rank 1");
    }
    place_free(&p);
    free_record(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resume_equals_uninterrupted),
        cmocka_unit_test(the_worlds_are_eventful),
        cmocka_unit_test(load_into_an_engine_that_has_stepped),
        cmocka_unit_test(parking_is_not_part_of_the_state),
        cmocka_unit_test(loading_repairs_a_failed_step),
        cmocka_unit_test(a_failed_step_is_not_continued),
        cmocka_unit_test(truncated_streams),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(foreign_and_newer_streams),
        cmocka_unit_test(streams_that_break),
        cmocka_unit_test(other_problems),
        cmocka_unit_test(another_tile),
        cmocka_unit_test(long_names_are_told_apart),
        cmocka_unit_test(files_rotate),
        cmocka_unit_test(a_bare_name),
        cmocka_unit_test(a_damaged_file_falls_back),
        cmocka_unit_test(a_damaged_header_falls_back),
        cmocka_unit_test(a_file_of_another_problem_is_refused),
        cmocka_unit_test(no_file_is_whole),
        cmocka_unit_test(paths_that_are_none),
        cmocka_unit_test(directories_that_cannot_be_written),
        cmocka_unit_test(a_rename_that_fails),
        cmocka_unit_test(a_directory_is_not_a_checkpoint),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(leftovers_are_overwritten),
        cmocka_unit_test(a_bad_optimiser_does_not_replace_a_healthy_state),
        cmocka_unit_test(no_number_may_be_bad),
        cmocka_unit_test(a_dead_cloud_is_not_saved),
        cmocka_unit_test(killed_while_saving),
        cmocka_unit_test(ranks_write_the_same_bytes),
        cmocka_unit_test(ranks_share_a_file),
        cmocka_unit_test(ranks_refuse_together),
        cmocka_unit_test(ranks_learn_that_saving_failed),
        cmocka_unit_test(ranks_learn_that_loading_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
