/* test_pictures.c: what the training of an energy of pictures asks of the engine: a kernel that takes the gradient where
 * its noise has led to, a pool of the newest, and both at the price they should have.
 *
 * The model is U = sum_j (a_j (x_j - theta)^2 + |x_j - theta|^3 / 3) / 2, whose gradient a few lines compute again. It parks its x and
 * theta in `work` and complains when grad_theta is told `fresh` and finds others there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>
#include <sosmc/sosmc.h>

#include "fake_comm.h"
#include "memory_stream.h"
#include "expect_engine.h"

enum { DIM = 11, ROWS = 29, STAMP = DIM + 1 };

/* How often particles were evaluated, with and without their gradient, and contracted. */
typedef struct {
    atomic_llong with_gradient, alone, contracted, fresh, stale;
} tally;

static double curvature(int j) { return 0.5 + 0.25 * j; }
static double slope(int j, double d) { return curvature(j) * d + 0.5 * d * fabs(d); }

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    tally *t = (tally *)self;
    double *work = b->work;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], d = x - theta[0];
            U[i] += 0.5 * curvature(j) * d * d + fabs(d * d * d) / 6;
            if (gx) gx[j * b->ld + i] = slope(j, d);
            if (work) work[i * STAMP + j] = gx ? x : NAN;
        }
    for (int i = 0; work && i < b->n; i++) work[i * STAMP + DIM] = theta[0];
    if (t) atomic_fetch_add(gx ? &t->with_gradient : &t->alone, b->n);
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    tally *t = (tally *)self;
    const double *work = b->work;
    double sum = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            sum -= c[i] * slope(j, b->x[j * b->ld + i] - theta[0]);
            if (t && b->fresh && work && work[i * STAMP + j] != b->x[j * b->ld + i]) atomic_fetch_add(&t->stale, 1);
        }
    for (int i = 0; t && b->fresh && work && i < b->n; i++)
        if (work[i * STAMP + DIM] != theta[0]) atomic_fetch_add(&t->stale, 1);
    g[0] += sum;
    if (t) atomic_fetch_add(&t->contracted, b->n);
    if (t && b->fresh) atomic_fetch_add(&t->fresh, b->n);
    return 0;
}

static sosmc_model model_of(tally *t)
{
    return (sosmc_model){.dim_x = DIM,
                         .dim_theta = 1,
                         .work = STAMP * sizeof(double),
                         .tile = 8,
                         .self = t,
                         .energy = energy,
                         .grad_theta = grad_theta};
}

static double low[DIM], high[DIM];
static sosmc_box box = {.dim = DIM, .low = low, .high = high};
static unsigned char bytes[ROWS * DIM];
static const double THETA0[1] = {0.2};
static sosmc_rows pictures = {.bytes = bytes,
                              .rows = ROWS,
                              .mode = SOSMC_ROWS_EPOCHS,
                              .batch = 14,
                              .low = -1,
                              .high = 1,
                              .noise = 0.01,
                              .clamp = 1};

static int set_up(void **state)
{
    for (int j = 0; j < DIM; j++) low[j] = -1, high[j] = 1;
    for (int q = 0; q < ROWS * DIM; q++) bytes[q] = (unsigned char)(q * q % 251 + q % 5);
    return 0;
}

/* Contrastive training with everything the tutorial's recipe has. */
static sosmc_problem training(tally *t)
{
    sosmc_problem p = {.model = model_of(t),
                       .objective = sosmc_likelihood(sosmc_rows_source(&pictures), 14),
                       .init = sosmc_box_source(&box),
                       .theta0 = THETA0};
    p.objective.energy2 = 0.1;
    return p;
}

static sosmc_settings recipe(int particles, int pool, int sweeps)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_pcd(particles, pool, sweeps);
    cfg.scheme.pool_rule = SOSMC_POOL_NEWEST;
    cfg.kernel = sosmc_jitter(0.4, 0.05, 1, 0.3);
    cfg.optimiser = sosmc_adam(0.01);
    cfg.optimiser.beta1 = 0;
    cfg.optimiser.clip = 0.1;
    cfg.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_STEPS, .a = 2, .b = 0.97};
    cfg.seed = 5;
    return cfg;
}

/* ------------------------------------------------------------------------------------------------ the kernel */

static double held(double x, double bound) { return bound > 0 ? fmax(-bound, fmin(bound, x)) : x; }

/* One step of one particle, whose numbers are named by `particle` and `step`. */
static void jitter(const sosmc_kernel *k, double theta, uint64_t seed, int64_t particle, uint64_t step, double *x)
{
    double z[DIM];
    sosmc_batch b = {.dim = DIM, .n = 1, .ld = 1, .first = particle};
    sosmc_normals((sosmc_rng){.seed = seed, .step = step, .stream = SOSMC_STREAM_MOVE}, &b, z);
    for (int j = 0; j < DIM; j++) {
        double y = held(fma(k->noise, z[j], x[j]), k->clamp);
        x[j] = held(y - k->h * held(slope(j, y - theta), k->gradient_clip), k->clamp);
    }
}

/* 1 and 20 steps from given places, with and without noise, clamp and clip; and that each of them bites. */
static void steps_follow_the_formula(void **state)
{
    enum { N = 13 };
    double started[N * DIM], x[N * DIM];
    sosmc_rows rows = {.data = started, .rows = N, .mode = SOSMC_ROWS_IN_ORDER};
    for (int q = 0; q < N * DIM; q++) started[q] = sin(1.7 * q);
    for (int which = 0; which < 16; which++)
        for (int tile = 1; tile <= 8; tile += 7) {
            sosmc_kernel k = sosmc_jitter(0.5, which & 1 ? 0.3 : 0, which & 2 ? 0.9 : 0, which & 4 ? 0.2 : 0);
            sosmc_settings cfg = sosmc_defaults();
            sosmc_problem p = {.model = model_of(NULL),
                               .objective = sosmc_sampling((sosmc_score){.eval = NULL}),
                               .init = sosmc_rows_source(&rows),
                               .theta0 = THETA0};
            int sweeps = which & 8 ? 20 : 1, at_clamp = 0;
            p.model.tile = tile;
            cfg.scheme = sosmc_scheme_moved_first(N);
            cfg.scheme.sweeps = sweeps;
            cfg.kernel = k;
            sosmc *s = expect_create(&p, &cfg);
            expect_step(s);
            assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
            for (int i = 0; i < N; i++) {
                double expected[DIM], sum = 0;
                memcpy(expected, started + i * DIM, sizeof expected);
                for (int sweep = 0; sweep < sweeps; sweep++)
                    jitter(&k, THETA0[0], cfg.seed, i, (uint64_t)sweep, expected);
                for (int j = 0; j < DIM; j++) {
                    assert_true(x[i * DIM + j] == expected[j]);
                    sum += fabs(expected[j] - started[i * DIM + j]);
                    at_clamp += fabs(expected[j]) == 0.9;
                }
                if (which == 4) assert_true(sum <= DIM * (0.5 * 0.2 + 1e-15)); /* no farther than step * clip */
            }
            if (which == 2) assert_true(at_clamp > 0);
            sosmc_free(s);
        }
}

/* With the drift at the previous theta the first sweep of an iteration follows the gradient of the theta before. */
static void the_drift_may_lag(void **state)
{
    enum { N = 5 };
    for (int drift = SOSMC_AT_PREVIOUS; drift <= SOSMC_AT_CURRENT; drift++) {
        sosmc_settings cfg = recipe(N, N, 2);
        sosmc_problem p = training(NULL);
        double x[N * DIM], was[N * DIM];
        cfg.scheme = sosmc_scheme_unweighted(N);
        cfg.scheme.sweeps = 2;
        cfg.scheme.drift_at = drift;
        cfg.optimiser = sosmc_sgd(1);
        sosmc *s = expect_create(&p, &cfg);
        double theta[3] = {THETA0[0]};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(sosmc_cloud(s, was, NULL), SOSMC_OK);
            expect_step(s);
            theta[k + 1] = sosmc_theta(s)[0];
        }
        assert_true(theta[1] != theta[0]);
        assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int i = 0; i < N; i++) {
            jitter(&cfg.kernel, theta[drift == SOSMC_AT_CURRENT], cfg.seed, i, 2, was + i * DIM);
            jitter(&cfg.kernel, theta[1], cfg.seed, i, 3, was + i * DIM);
            for (int j = 0; j < DIM; j++) assert_true(x[i * DIM + j] == was[i * DIM + j]);
        }
        sosmc_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------ what it costs */

/* 60 sweeps are 60 evaluations and one more where they end, which the contraction finds done if there is room to park. */
static void a_sweep_costs_one_evaluation(void **state)
{
    enum { N = 20, DATA = 14, SWEEPS = 60 };
    for (int which = 0; which < 4; which++) { /* plainly; nothing parked; two of three tiles parked; only sampling */
        tally t = {0};
        sosmc_problem p = training(&t);
        sosmc_settings cfg = recipe(N, 50, SWEEPS);
        const int parked[] = {N, 0, 16, 0};
        const size_t tile = 8 * STAMP * sizeof(double);
        if (which == 1) cfg.work_limit = 0;
        if (which == 2) cfg.work_limit = 3 * tile - 1;
        if (which == 3) p.objective = sosmc_sampling((sosmc_score){.eval = NULL});
        sosmc *s = expect_create(&p, &cfg);
        for (int k = 0; k < 3; k++) {
            long long data = which == 3 ? 0 : DATA;
            atomic_store(&t.with_gradient, 0), atomic_store(&t.alone, 0);
            atomic_store(&t.contracted, 0), atomic_store(&t.fresh, 0);
            expect_step(s);
            assert_int_equal(atomic_load(&t.with_gradient), SWEEPS * N + parked[which] + data);
            assert_int_equal(atomic_load(&t.alone), N - parked[which]);
            assert_int_equal(atomic_load(&t.contracted), which == 3 ? 0 : N + DATA);
            assert_int_equal(atomic_load(&t.fresh), parked[which] + data);
        }
        assert_int_equal(atomic_load(&t.stale), 0);
        sosmc_free(s);
    }
}

/* Kept sweeps need their energies. */
static void kept_sweeps_have_their_energies(void **state)
{
    enum { SWEEPS = 10 };
    tally t = {0};
    sosmc_problem p = {
        .model = model_of(&t), .objective = sosmc_mmle(), .init = sosmc_box_source(&box), .theta0 = THETA0};
    sosmc_settings cfg = recipe(1, 1, 1);
    cfg.scheme = sosmc_scheme_soul(SWEEPS);
    sosmc *s = expect_create(&p, &cfg);
    double x[DIM], U, mean = 0, theta = THETA0[0];
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    atomic_store(&t.with_gradient, 0), atomic_store(&t.alone, 0);
    expect_step(s);
    assert_int_equal(atomic_load(&t.with_gradient), SWEEPS);
    assert_int_equal(atomic_load(&t.alone), SWEEPS / 2);
    sosmc_batch one = {.x = x, .dim = DIM, .n = 1, .ld = 1};
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        jitter(&cfg.kernel, theta, cfg.seed, 0, (uint64_t)sweep, x);
        assert_int_equal(energy(NULL, &theta, &one, &U, NULL), 0);
        if (sweep >= SWEEPS / 2) mean += 2 * U / SWEEPS;
    }
    assert_true(fabs(sosmc_last(s)->mean_energy - mean) < 1e-13 * fabs(mean));
    sosmc_free(s);
}

/* A gradient that is not a number is told, or the particle restarts, and the others do not notice. */
static int cracked_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = energy(NULL, theta, b, U, gx);
    for (int i = 0; i < b->n; i++)
        if (b->x[i] > 0.9 && gx) gx[i] = NAN;
    return rc;
}

static void gradients_that_are_no_numbers(void **state)
{
    for (int restart = 0; restart <= 1; restart++) {
        sosmc_problem p = training(NULL);
        sosmc_settings cfg = recipe(40, 90, 6);
        double x[40 * DIM];
        int nonfinite = 0;
        p.model.energy = cracked_energy;
        if (restart) cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
        p.objective.b = 0; /* the data would meet the crack too */
        p.objective.energy2 = 0;
        cfg.kernel.noise = 0.5;
        sosmc *s = expect_create(&p, &cfg);
        sosmc_status status = SOSMC_OK;
        for (int k = 0; k < 4 && status == SOSMC_OK; k++) status = sosmc_step(s), nonfinite += sosmc_last(s)->nonfinite;
        assert_int_equal(status, restart ? SOSMC_OK : SOSMC_ENUMERIC);
        if (!restart) assert_non_null(strstr(sosmc_message(s), "a coordinate is"));
        if (restart) assert_true(nonfinite > 0);
        if (restart) assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int q = 0; restart && q < 40 * DIM; q++) assert_true(fabs(x[q]) <= 1);
        sosmc_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------ the pool */

enum { PARTICLES = 7, POOL = 24, MOST = 30 };

/* The tutorial's buffer: a list with the newest in front. */
typedef struct {
    double list[POOL + PARTICLES][DIM];
    int length;
} buffer;

static void put_in_front(buffer *b, double x[PARTICLES][DIM], int pool)
{
    int room = pool - PARTICLES, stay = b->length < room ? b->length : room;
    memmove(b->list[PARTICLES], b->list[0], (size_t)stay * sizeof b->list[0]);
    for (int i = 0; i < PARTICLES; i++) memcpy(b->list[PARTICLES - 1 - i], x[i], sizeof x[i]);
    b->length = stay + PARTICLES;
}

static double uniform_of(sosmc_stream stream, int64_t iteration, uint32_t draw, int64_t particle)
{
    double u;
    sosmc_batch b = {.dim = DIM, .n = 1, .ld = 1, .first = particle};
    sosmc_uniforms((sosmc_rng){.seed = 5, .step = (uint64_t)iteration, .stream = stream}, draw, &b, &u);
    return u;
}

static void from_box(sosmc_stream stream, int64_t iteration, int64_t particle, double *x)
{
    for (int j = 0; j < DIM; j++) x[j] = -1 + 2 * uniform_of(stream, iteration, (uint32_t)j, particle);
}

static void the_newest_stay(void **state)
{
    const int pools[] = {PARTICLES, POOL, POOL - 3};
    for (int which = 0; which < 3; which++) {
        sosmc_settings cfg = recipe(PARTICLES, pools[which], 2);
        sosmc_problem p = training(NULL);
        buffer b = {.length = 0};
        double x[PARTICLES][DIM], got[PARTICLES][DIM];
        int restarted = 0;
        cfg.scheme.refresh = 0.3;
        sosmc *s = expect_create(&p, &cfg);
        for (int i = 0; i < PARTICLES; i++) from_box(SOSMC_STREAM_INIT, 0, i, x[i]);
        put_in_front(&b, x, pools[which]);
        for (int k = 0; k < MOST; k++) {
            double theta = sosmc_theta(s)[0];
            for (int i = 0; i < PARTICLES; i++) {
                int oldest_first = (int)((1 - uniform_of(SOSMC_STREAM_POOL, k, 0, i)) * b.length);
                memcpy(x[i], b.list[b.length - 1 - oldest_first], sizeof x[i]);
                if (uniform_of(SOSMC_STREAM_POOL, k, 1, i) <= 0.3) {
                    from_box(SOSMC_STREAM_REFRESH, k, i, x[i]);
                    restarted++;
                }
                for (int sweep = 0; sweep < 2; sweep++)
                    jitter(&cfg.kernel, theta, 5, i, 2 * (uint64_t)k + (uint64_t)sweep, x[i]);
            }
            put_in_front(&b, x, pools[which]);
            expect_step(s);
            assert_int_equal(sosmc_cloud(s, &got[0][0], NULL), SOSMC_OK);
            assert_memory_equal(got, x, sizeof x);
        }
        assert_int_equal(b.length, pools[which]);
        /* binomial: 210 times 0.3, give or take four standard deviations */
        assert_true(abs(restarted - 63) < 4 * 6.7);
        sosmc_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------ the same bits */

enum { RUN = 9, ITERATIONS_BEFORE = 4 };

typedef struct {
    uint64_t hash[RUN];
    double theta[RUN], mean_energy[RUN];
} trace;

static void note(const sosmc *s, trace *t, int k)
{
    t->hash[k] = sosmc_hash(s);
    t->theta[k] = sosmc_theta(s)[0];
    t->mean_energy[k] = sosmc_last(s)->mean_energy;
}

static void run_traced(const sosmc_settings *cfg, trace *t)
{
    sosmc_problem p = training(NULL);
    sosmc *s = expect_create(&p, cfg);
    for (int k = 0; k < RUN; k++) expect_step(s), note(s, t, k);
    sosmc_free(s);
}

typedef struct {
    sosmc_settings cfg;
    trace got[4];
    sosmc_status status[4];
} ranks_job;

static void run_rank(void *ctx, const sosmc_comm *comm)
{
    ranks_job *job = ctx;
    sosmc_settings cfg = job->cfg;
    sosmc_problem p = training(NULL);
    sosmc *s = NULL;
    cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    for (int k = 0; k < RUN && status == SOSMC_OK; k++) {
        status = sosmc_step(s);
        if (status == SOSMC_OK) note(s, &job->got[comm->rank], k);
    }
    job->status[comm->rank] = status;
    sosmc_free(s);
}

static void threads_levels_and_ranks_change_no_bit(void **state)
{
    const char *const levels[] = {"plain", "avx2", "avx512"};
    sosmc_settings cfg = recipe(40, 100, 5);
    trace expected, got;
    run_traced(&cfg, &expected);
    assert_true(expected.theta[RUN - 1] != expected.theta[0]);
    for (int threads = 2; threads <= 3; threads++) {
        sosmc_settings other = cfg;
        other.threads = threads;
        other.work_limit = threads == 2 ? 0 : 3000;
        run_traced(&other, &got);
        assert_memory_equal(&got, &expected, sizeof got);
    }
    for (int q = 0; q < 3; q++) {
        sosmc_settings other = cfg;
        other.simd = sosmc_simd_named(levels[q]);
        if (!other.simd) continue;
        run_traced(&other, &got);
        assert_memory_equal(&got, &expected, sizeof got);
    }
    for (int size = 2; size <= 4; size += 2) {
        ranks_job job = {.cfg = cfg};
        job.cfg.work_limit = 3000; /* some ranks park, some do not */
        assert_int_equal(fake_run(size, run_rank, &job, NULL, NULL), 0);
        for (int r = 0; r < size; r++) {
            assert_int_equal(job.status[r], SOSMC_OK);
            assert_memory_equal(&job.got[r], &expected, sizeof expected);
        }
    }
    cfg.scheme.pool_rule = SOSMC_POOL_IN_PLACE; /* and that the rule matters */
    run_traced(&cfg, &got);
    assert_true(got.hash[RUN - 1] != expected.hash[RUN - 1]);
}

/* Saved while the pool still grows, and when it has wrapped; loaded where another run has been. */
static void runs_resume(void **state)
{
    for (int pool = 60; pool <= 300; pool += 240) {
        sosmc_settings cfg = recipe(40, pool, 5);
        sosmc_problem p = training(NULL);
        trace expected, got;
        memory f = {.used = 0};
        run_traced(&cfg, &expected);
        got = expected;
        sosmc *s = expect_create(&p, &cfg);
        expect_steps(s, ITERATIONS_BEFORE);
        memory_must_save(s, &f);
        sosmc_free(s);
        cfg.threads = 2;
        s = expect_create(&p, &cfg);
        expect_steps(s, 6);
        memory_must_load(s, &f);
        for (int k = ITERATIONS_BEFORE; k < RUN; k++) expect_step(s), note(s, &got, k);
        assert_memory_equal(&got, &expected, sizeof got);
        sosmc_free(s);

        cfg.scheme.pool_rule = SOSMC_POOL_IN_PLACE;
        s = expect_create(&p, &cfg);
        assert_int_equal(memory_load(s, &f), SOSMC_EINVAL);
        assert_non_null(strstr(sosmc_message(s), "its scheme.pool_rule is 1, this run's is 0"));
        sosmc_free(s);
        free(f.bytes);
    }
}

/* ---------------------------------------------------------------------------- streams of older versions */

static uint64_t mix(uint64_t hash, const void *from, size_t n)
{
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)from + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static void leave_out_word(memory *f, size_t at)
{
    memmove(f->bytes + at, f->bytes + at + 8, f->used - at - 8);
    f->used -= 8;
}

/* Version 4 had 19 numbers in its info instead of 20, no mobility, and no word about what is watched. Version 3 had 18 numbers
 * there, and no count of collapsed iterations. Version 2 also had 19 numbers in its shape instead of 20, and no pool_rule. Both
 * checksums are made anew. */
static void become_version(memory *f, uint64_t version)
{
    enum {
        VERSION_AT = 8,
        SHAPE_AT = 24,
        RULE_AT = SHAPE_AT + 19 * 8,
        NAMES_AT = RULE_AT + 8,
        CHECK_AT = NAMES_AT + 2 * 48
    };
    const uint64_t seed = 0x736f736d63000001u;
    size_t check_at = version == 2 ? CHECK_AT - 8 : CHECK_AT;
    memcpy(f->bytes + VERSION_AT, &version, 8);
    leave_out_word(f, f->used - 16);
    leave_out_word(f, CHECK_AT + 8 + (size_t)19 * 8);
    if (version < 4) leave_out_word(f, CHECK_AT + 8 + (size_t)18 * 8);
    if (version == 2) leave_out_word(f, RULE_AT);
    uint64_t check = mix(seed, f->bytes, check_at);
    memcpy(f->bytes + check_at, &check, 8);
    check = mix(seed, f->bytes, f->used - 8);
    memcpy(f->bytes + f->used - 8, &check, 8);
}

static void streams_of_older_versions_are_read(void **state)
{
    for (int k = 0; k < 6; k++) {
        const int newest = k % 2, version = 2 + k / 2;
        sosmc_settings cfg = recipe(40, 100, 5);
        sosmc_problem p = training(NULL);
        trace expected, got;
        memory f = {.used = 0};
        cfg.scheme.pool_rule = SOSMC_POOL_IN_PLACE;
        run_traced(&cfg, &expected);
        got = expected;
        sosmc *s = expect_create(&p, &cfg);
        expect_steps(s, ITERATIONS_BEFORE);
        memory_must_save(s, &f);
        sosmc_free(s);
        become_version(&f, (uint64_t)version);
        if (newest) cfg.scheme.pool_rule = SOSMC_POOL_NEWEST;
        s = expect_create(&p, &cfg);
        assert_int_equal(memory_load(s, &f), newest ? SOSMC_EINVAL : SOSMC_OK);
        if (newest) assert_non_null(strstr(sosmc_message(s), "its scheme.pool_rule is 0, this run's is 1"));
        for (int i = ITERATIONS_BEFORE; i < RUN && !newest; i++) expect_step(s), note(s, &got, i);
        assert_memory_equal(&got, &expected, sizeof got);
        sosmc_free(s);
        f.bytes[30] ^= 1; /* damage to an old header is damage, too */
        s = expect_create(&p, &cfg);
        assert_int_equal(memory_load(s, &f), SOSMC_EIO);
        sosmc_free(s);
        free(f.bytes);
    }
}

/* ------------------------------------------------------------------------------------------------ fresh chains */

static int mean_of_x(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) {
        s[i] = 0;
        for (int j = 0; j < b->dim; j++) s[i] += b->x[j * b->ld + i] / b->dim;
    }
    return 0;
}

/* The reward of the final states alone, of jittered chains; each evaluation of a chain is a step. */
static void chains_of_a_blind_kernel(void **state)
{
    enum { CHAINS = 21, STEPS = 12 };
    tally t = {0};
    sosmc_model m = model_of(&t);
    sosmc_score score = {.eval = mean_of_x};
    sosmc_kernel k = sosmc_jitter(0.4, 0.05, 1, 0.3);
    double x[CHAINS][DIM], got[CHAINS][DIM], again[CHAINS][DIM], reward[CHAINS], mean = 0, sd = 0, m1, s1;
    sosmc_fresh f = {.chains = CHAINS, .burn_in = STEPS, .low = -1, .high = 1, .seed = 8, .threads = 2, .kernel = &k};
    assert_int_equal(sosmc_fresh_final(&m, THETA0, &score, &f, NULL, &got[0][0], &m1, &s1), SOSMC_OK);
    assert_int_equal(atomic_load(&t.with_gradient), CHAINS * STEPS);
    assert_int_equal(atomic_load(&t.alone), 0);
    for (int i = 0; i < CHAINS; i++) {
        sosmc_batch b = {.x = x[i], .dim = DIM, .n = 1, .ld = 1, .first = i};
        for (int j = 0; j < DIM; j++) {
            double u;
            sosmc_uniforms((sosmc_rng){.seed = 8, .stream = SOSMC_STREAM_INIT}, (uint32_t)j, &b, &u);
            x[i][j] = -1 + 2 * u;
        }
        for (uint64_t step = 1; step <= STEPS; step++) jitter(&k, THETA0[0], 8, i, step, x[i]);
        (void)mean_of_x(NULL, &b, &reward[i]);
        mean += reward[i] / CHAINS;
    }
    for (int i = 0; i < CHAINS; i++) sd += (reward[i] - mean) * (reward[i] - mean) / CHAINS;
    assert_memory_equal(x, got, sizeof x);
    assert_true(fabs(m1 - mean) < 1e-14 && fabs(s1 - sqrt(sd)) < 1e-14);
    f.threads = 1; /* however the steps are split, and from where they are told to start */
    f.burn_in = 5;
    f.averaged = STEPS - 5;
    assert_int_equal(sosmc_fresh_final(&m, THETA0, &score, &f, NULL, &again[0][0], &mean, &sd), SOSMC_OK);
    assert_memory_equal(again, got, sizeof x);
    assert_true(mean == m1 && sd == s1);
    f.start = &got[0][0];
    assert_int_equal(sosmc_fresh_final(&m, THETA0, &score, &f, NULL, &again[0][0], &mean, &sd), SOSMC_OK);
    for (int i = 0; i < CHAINS; i++)
        for (uint64_t step = 1; step <= STEPS; step++) jitter(&k, THETA0[0], 8, i, step, x[i]);
    assert_memory_equal(again, x, sizeof x);
    f.averaged = f.burn_in = 0;
    assert_int_equal(sosmc_fresh_final(&m, THETA0, &score, &f, NULL, NULL, &mean, &sd), SOSMC_EINVAL);
    f.averaged = 1;
    assert_int_equal(sosmc_fresh_final(&m, THETA0, NULL, &f, NULL, NULL, &mean, &sd), SOSMC_EINVAL);
    k.gradient_clip = -1;
    assert_int_equal(sosmc_fresh_final(&m, THETA0, &score, &f, NULL, NULL, &mean, &sd), SOSMC_EINVAL);
}

/* The kernels of the engine move as they do there: the same names, the same places. Sweep 0 of an engine is step 0. */
static void chains_of_any_kernel(void **state)
{
    enum { N = 21, STEPS = 30 };
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.2), sosmc_rwm(0.1), sosmc_hmc(0.3, 3, 1.5)};
    for (int which = 0; which < 4; which++) {
        sosmc_model m = model_of(NULL);
        sosmc_problem p = {.model = m,
                           .objective = sosmc_sampling((sosmc_score){.eval = NULL}),
                           .init = sosmc_box_source(&box),
                           .theta0 = THETA0};
        sosmc_settings cfg = sosmc_defaults();
        double x[N][DIM], got[N][DIM], started[N][DIM];
        cfg.scheme = sosmc_scheme_moved_first(N);
        cfg.kernel = kernels[which];
        cfg.seed = 8;
        sosmc *s = expect_create(&p, &cfg);
        expect_step(s); /* step 0 is the engine's alone; from there on both take steps 1, 2, ... */
        assert_int_equal(sosmc_cloud(s, &started[0][0], NULL), SOSMC_OK);
        expect_steps(s, STEPS);
        assert_int_equal(sosmc_cloud(s, &x[0][0], NULL), SOSMC_OK);
        sosmc_fresh f = {.chains = N, .burn_in = STEPS, .seed = 8, .kernel = &kernels[which], .start = &started[0][0]};
        assert_int_equal(sosmc_fresh_reward(&m, THETA0, NULL, &f, NULL, &got[0][0], NULL, NULL), SOSMC_OK);
        assert_memory_equal(got, x, sizeof x);
        sosmc_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_formula),
        cmocka_unit_test(the_drift_may_lag),
        cmocka_unit_test(a_sweep_costs_one_evaluation),
        cmocka_unit_test(kept_sweeps_have_their_energies),
        cmocka_unit_test(gradients_that_are_no_numbers),
        cmocka_unit_test(the_newest_stay),
        cmocka_unit_test(threads_levels_and_ranks_change_no_bit),
        cmocka_unit_test(runs_resume),
        cmocka_unit_test(streams_of_older_versions_are_read),
        cmocka_unit_test(chains_of_a_blind_kernel),
        cmocka_unit_test(chains_of_any_kernel),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
