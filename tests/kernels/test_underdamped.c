/* test_underdamped.c: the two kernels that weigh momentum, step by step (the identities of their weights over many runs are
 * in tests/kernels/test_feynman_kac.c).
 *
 * A step is recomputed by hand from the named noise; the map between the refreshes keeps volume although its two kicks are
 * at different thetas; without retained momentum, and with one leapfrog step, everything is ULA's; a step costs the
 * evaluations it should; and the momentum that a kernel finds is the particle's own: what the last step left, or a fresh
 * draw where the particle begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "assertions.h"
#include "expect_engine.h"

enum { DIM = 3, LD = 16, N = 21, ITERATIONS = 8, TILE = 8 };
static const double THETA0[DIM] = {0.3, -0.2, 0.5};

/* ------------------------------------------------------------------------------------------------ the toy */

/* U = sum_j (1 + j/2) (x_j - theta_j)^2 / 2 + (x_j - theta_j)^4 / 20, neighbours coupled by x_j x_{j+1} / 5; not a number
 * beyond the wall, if there is one. */
typedef struct {
    double wall; /* x_0 above it; INFINITY: none */
    atomic_int *calls;
} toy;

static int toy_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy *m = self;
    if (m->calls) atomic_fetch_add(m->calls, b->n);
    for (int i = 0; i < b->n; i++) {
        U[i] = 0;
        for (int j = 0; j < b->dim; j++) {
            size_t e = (size_t)j * (size_t)b->ld + (size_t)i;
            double d = b->x[e] - theta[j % DIM], stiff = 1 + 0.5 * (j % DIM);
            double left = j ? b->x[e - (size_t)b->ld] : 0, right = j + 1 < b->dim ? b->x[e + (size_t)b->ld] : 0;
            U[i] += 0.5 * stiff * d * d + 0.05 * d * d * d * d + 0.2 * b->x[e] * right;
            if (gx) gx[e] = stiff * d + 0.2 * d * d * d + 0.2 * (left + right);
        }
        if (b->x[i] > m->wall) U[i] = NAN;
    }
    return 0;
}

static int toy_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double d = b->x[(size_t)j * (size_t)b->ld + (size_t)i] - theta[j % DIM];
            g[j % DIM] -= c[i] * ((1 + 0.5 * (j % DIM)) * d + 0.2 * d * d * d);
        }
    return 0;
}

static sosmc_problem toy_problem(const toy *m)
{
    return (sosmc_problem){.model = {.dim_x = DIM,
                                     .dim_theta = DIM,
                                     .tile = TILE,
                                     .self = m,
                                     .energy = toy_energy,
                                     .grad_theta = toy_grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal(),
                           .theta0 = THETA0};
}
static const toy PLAIN = {.wall = INFINITY};

static sosmc_settings toy_settings(sosmc_kernel kernel, sosmc_scheme scheme)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.1);
    cfg.seed = 31;
    return cfg;
}

/* ------------------------------------------------------------------------------------------------ one step by hand */

typedef double vector[DIM * LD];

/* A tile of N particles before and after a step, outside any engine. */
typedef struct {
    sosmc_model model;
    double theta_prev[DIM], theta[DIM], U[LD], U_new[LD], logG[LD];
    vector x, gx, aux, x_new, gx_new, aux_new;
    double tmp[4 * DIM * LD + 4 * LD];
    sosmc_move m;
} bench;

enum { ON_BENCH = 11 };

static void set_up(bench *t, const sosmc_kernel *k)
{
    sosmc_rng start = {.seed = 5, .stream = SOSMC_STREAM_INIT};
    memset(t, 0, sizeof *t);
    t->model = toy_problem(&PLAIN).model;
    for (int j = 0; j < DIM; j++) t->theta_prev[j] = THETA0[j], t->theta[j] = THETA0[j] + 0.2 - 0.15 * j;
    t->m = (sosmc_move){.model = &t->model,
                        .theta_prev = t->theta_prev,
                        .theta = t->theta,
                        .h = k->h,
                        .rng = {.seed = 5, .step = 7, .stream = SOSMC_STREAM_MOVE, .retry = 2},
                        .b = {.x = t->x, .simd = sosmc_simd_best(), .dim = DIM, .n = ON_BENCH, .ld = LD, .first = 40},
                        .x = t->x,
                        .U = t->U,
                        .gx = t->gx,
                        .aux = t->aux,
                        .x_new = t->x_new,
                        .U_new = t->U_new,
                        .gx_new = t->gx_new,
                        .aux_new = t->aux_new,
                        .logG = t->logG,
                        .tmp = t->tmp};
    assert_true(k->scratch <= 4);
    sosmc_normals(start, &t->m.b, t->x);
    start.stream = SOSMC_STREAM_BEGIN;
    if (k->begin) assert_int_equal(k->begin(k, start, &t->m.b, t->aux), 0);
    assert_int_equal(sosmc_evaluate(&t->m, SOSMC_AT_PREVIOUS, t->x, t->U, t->gx), 0);
}

/* H of particle i with momentum p, U given. */
static double total_energy(double U, const double *p, double mass)
{
    double sum = 0;
    for (int j = 0; j < DIM; j++) sum += p[j] * p[j];
    return U + sum / (2 * mass);
}

/* U and its gradient at one point. */
static double at_point(const double *theta, const double *x, double *gx)
{
    double U;
    sosmc_batch b = {.x = x, .dim = DIM, .n = 1, .ld = 1};
    assert_int_equal(toy_energy(&PLAIN, theta, &b, &U, gx), 0);
    return U;
}

static double column(const double *v, int j, int i) { return v[j * LD + i]; }

static void underdamped_by_hand(double friction, double mass)
{
    static bench t;
    sosmc_kernel k = sosmc_underdamped(0.4, friction, mass);
    vector z1, z2;
    set_up(&t, &k);
    sosmc_rng rng = t.m.rng;
    sosmc_normals(rng, &t.m.b, z1);
    rng.stream = SOSMC_STREAM_MOMENTUM;
    sosmc_normals(rng, &t.m.b, z2);
    assert_int_equal(k.step(&k, &t.m), 0);
    double c = exp(-friction * 0.4 / 2), s = sqrt((1 - c * c) * mass);
    for (int i = 0; i < ON_BENCH; i++) {
        double x[DIM], p[DIM], g[DIM], before, U;
        for (int j = 0; j < DIM; j++) p[j] = c * column(t.aux, j, i) + s * column(z1, j, i);
        for (int j = 0; j < DIM; j++) x[j] = column(t.x, j, i);
        before = total_energy(at_point(t.theta_prev, x, g), p, mass);
        for (int j = 0; j < DIM; j++) p[j] -= 0.2 * g[j];
        for (int j = 0; j < DIM; j++) x[j] += 0.4 * p[j] / mass;
        U = at_point(t.theta, x, g);
        for (int j = 0; j < DIM; j++) p[j] -= 0.2 * g[j];
        assert_close(t.logG[i], before - total_energy(U, p, mass), 1e-12);
        assert_close(t.U_new[i], U, 1e-12);
        for (int j = 0; j < DIM; j++) {
            assert_close(column(t.x_new, j, i), x[j], 1e-12);
            assert_close(column(t.gx_new, j, i), g[j], 1e-12);
            assert_close(column(t.aux_new, j, i), c * p[j] + s * column(z2, j, i), 1e-12);
        }
    }
}

static void test_underdamped_by_hand(void **state)
{
    underdamped_by_hand(0, 1);
    underdamped_by_hand(0.8, 1.7);
    underdamped_by_hand(30, 0.6);
    underdamped_by_hand(INFINITY, 1.3);
}

static void test_leapfrog_by_hand(void **state)
{
    static bench t;
    const double h = 0.3, mass = 1.4;
    for (int steps = 1; steps <= 4; steps++) {
        sosmc_kernel k = sosmc_leapfrog(h, steps, mass);
        vector z;
        set_up(&t, &k);
        sosmc_normals(t.m.rng, &t.m.b, z);
        assert_int_equal(k.step(&k, &t.m), 0);
        for (int i = 0; i < ON_BENCH; i++) {
            double x[DIM], p[DIM], g[DIM], U = NAN;
            for (int j = 0; j < DIM; j++) x[j] = column(t.x, j, i), p[j] = sqrt(mass) * column(z, j, i);
            double before = total_energy(at_point(t.theta_prev, x, g), p, mass);
            for (int l = 0; l < steps; l++) {
                for (int j = 0; j < DIM; j++) p[j] -= h / 2 * g[j];
                for (int j = 0; j < DIM; j++) x[j] += h * p[j] / mass;
                U = at_point(t.theta, x, g);
                for (int j = 0; j < DIM; j++) p[j] -= h / 2 * g[j];
            }
            assert_close(t.logG[i], before - total_energy(U, p, mass), 1e-12);
            for (int j = 0; j < DIM; j++) assert_close(column(t.x_new, j, i), x[j], 1e-12);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ volume */

enum { SPACE = 2 * DIM };

static double determinant(double a[SPACE][SPACE])
{
    double det = 1;
    for (int k = 0; k < SPACE; k++) {
        int pivot = k;
        for (int r = k + 1; r < SPACE; r++)
            if (fabs(a[r][k]) > fabs(a[pivot][k])) pivot = r;
        for (int c = 0; c < SPACE; c++) {
            double swap = a[k][c];
            a[k][c] = a[pivot][c];
            a[pivot][c] = swap;
        }
        det *= pivot == k ? a[k][k] : -a[k][k];
        for (int r = k + 1; r < SPACE; r++)
            for (int c = SPACE - 1; c >= k; c--) a[r][c] -= a[r][k] / a[k][k] * a[k][c];
    }
    return det;
}

/* Where (x, p) of particle 3 goes without refreshes, when coordinate q of it is moved by `by`. */
static void shifted(bench *t, const sosmc_kernel *k, int q, double by, double to[SPACE])
{
    set_up(t, k);
    (q < DIM ? t->x : t->aux)[q % DIM * LD + 3] += by;
    assert_int_equal(sosmc_evaluate(&t->m, SOSMC_AT_PREVIOUS, t->x, t->U, t->gx), 0);
    assert_int_equal(k->step(k, &t->m), 0);
    for (int j = 0; j < DIM; j++) to[j] = column(t->x_new, j, 3), to[DIM + j] = column(t->aux_new, j, 3);
}

/* Frictionless: nothing is drawn, aux in and out are p+ and p-. The gradients belong to two thetas. */
static void test_volume_is_kept(void **state)
{
    static bench t;
    const double eps = 1e-5;
    sosmc_kernel k = sosmc_underdamped(0.7, 0, 1.3);
    double jacobian[SPACE][SPACE], up[SPACE], down[SPACE];
    for (int q = 0; q < SPACE; q++) {
        shifted(&t, &k, q, eps, up);
        shifted(&t, &k, q, -eps, down);
        for (int r = 0; r < SPACE; r++) jacobian[r][q] = (up[r] - down[r]) / (2 * eps);
    }
    assert_true(fabs(jacobian[0][0] - 1) > 0.05); /* the map does something */
    assert_close(determinant(jacobian), 1, 1e-8);
}

/* ------------------------------------------------------------------------------------------------ as ULA */

static void same_as_ula(sosmc_kernel k, int order, int sweeps, int weighted)
{
    double x[N * DIM], y[N * DIM], a[N], b[N], moved = 0;
    sosmc_problem p = toy_problem(&PLAIN);
    sosmc_settings cfg = toy_settings(k, weighted ? sosmc_scheme_sosmc(N) : sosmc_scheme_unweighted(N));
    int resampled = 0;
    cfg.scheme.order = order;
    cfg.scheme.sweeps = sweeps;
    if (weighted) cfg.scheme.ess_min = 0.9;
    sosmc *s = expect_create(&p, &cfg);
    cfg.kernel = sosmc_ula(k.h * k.h / (2 * k.mass));
    sosmc *ula = expect_create(&p, &cfg);
    for (int l = 0; l < ITERATIONS; l++) {
        expect_step(s);
        expect_step(ula);
        assert_int_equal(sosmc_cloud(s, x, a), SOSMC_OK);
        assert_int_equal(sosmc_cloud(ula, y, b), SOSMC_OK);
        for (int i = 0; i < N * DIM; i++) assert_close(x[i], y[i], 1e-10);
        for (int i = 0; i < N; i++) assert_close(a[i], b[i], 1e-10);
        for (int j = 0; j < DIM; j++) assert_close(sosmc_theta(s)[j], sosmc_theta(ula)[j], 1e-10);
        if (weighted) assert_close(sosmc_last(s)->logz, sosmc_last(ula)->logz, 1e-10);
        assert_int_equal(sosmc_last(s)->resampled, sosmc_last(ula)->resampled);
        resampled += sosmc_last(s)->resampled;
        for (int i = 0; i < N; i++) moved = fmax(moved, fabs(a[i] - a[0]));
    }
    assert_true(weighted ? resampled > 0 && moved > 0.01 : resampled == 0);
    sosmc_free(s);
    sosmc_free(ula);
}

static void test_without_memory_it_is_ula(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
        for (int sweeps = 1; sweeps <= 3; sweeps++)
            for (int weighted = 0; weighted < 2; weighted++) {
                same_as_ula(sosmc_underdamped(0.5, INFINITY, 1.6), order, sweeps, weighted);
                same_as_ula(sosmc_leapfrog(0.5, 1, 1.6), order, sweeps, weighted);
            }
}

/* A negative control of the comparison above: friction that is merely strong is something else. */
static void test_with_memory_it_is_not(void **state)
{
    double x[N * DIM], y[N * DIM], apart = 0;
    sosmc_problem p = toy_problem(&PLAIN);
    sosmc_settings cfg = toy_settings(sosmc_underdamped(0.5, 20, 1.6), sosmc_scheme_sosmc(N));
    sosmc *s = expect_create(&p, &cfg);
    cfg.kernel = sosmc_ula(0.5 * 0.5 / 3.2);
    sosmc *ula = expect_create(&p, &cfg);
    for (int l = 0; l < 2; l++) expect_step(s), expect_step(ula);
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(ula, y, NULL), SOSMC_OK);
    for (int i = 0; i < N * DIM; i++) apart = fmax(apart, fabs(x[i] - y[i]));
    assert_true(apart > 1e-4);
    sosmc_free(s);
    sosmc_free(ula);
}

/* ------------------------------------------------------------------------------------------------ cost */

static int evaluations(sosmc_kernel k, int order, int sweeps)
{
    atomic_int calls = 0;
    toy m = {.wall = INFINITY, .calls = &calls};
    sosmc_problem p = toy_problem(&m);
    sosmc_settings cfg = toy_settings(k, sosmc_scheme_sosmc(N));
    cfg.scheme.order = order;
    cfg.scheme.sweeps = sweeps;
    cfg.scheme.ess_min = 2;
    sosmc *s = expect_create(&p, &cfg);
    expect_step(s);
    atomic_store(&calls, 0);
    expect_step(s);
    expect_step(s);
    sosmc_free(s);
    return atomic_load(&calls) / (2 * N);
}

static void test_cost(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        assert_int_equal(evaluations(sosmc_underdamped(0.2, 1, 1), order, 1), 1);
        assert_int_equal(evaluations(sosmc_underdamped(0.2, 1, 1), order, 3), 3);
        assert_int_equal(evaluations(sosmc_leapfrog(0.2, 1, 1), order, 1), 1);
        assert_int_equal(evaluations(sosmc_leapfrog(0.2, 4, 1), order, 1), 4);
        assert_int_equal(evaluations(sosmc_leapfrog(0.2, 4, 1), order, 2), 8);
    }
}

/* ------------------------------------------------------------------------------------------------ whose momentum */

enum { MOST = 64, STEPS = 64 };

/* A kernel around the underdamped one that notes what every step found and left. */
typedef struct {
    sosmc_kernel inner;
    uint64_t step[STEPS];
    uint32_t retry[STEPS];
    double x[STEPS][MOST][DIM], p[STEPS][MOST][DIM], x_new[STEPS][MOST][DIM], p_new[STEPS][MOST][DIM];
    int steps, of_tile[MOST / TILE]; /* a tile makes all its sweeps before the next one does */
} diary;

static int noting_step(const sosmc_kernel *k, sosmc_move *m)
{
    diary *d = (diary *)k->self; /* written from one thread */
    int rc = d->inner.step(&d->inner, m);
    int at = d->of_tile[m->b.first / TILE]++;
    if (at >= STEPS) return 99;
    d->steps = at + 1;
    d->step[at] = m->rng.step;
    d->retry[at] = m->rng.retry;
    for (int i = 0; i < m->b.n; i++)
        for (int j = 0; j < DIM; j++) {
            size_t e = (size_t)j * (size_t)m->b.ld + (size_t)i, q = (size_t)(m->b.first + i);
            d->x[at][q][j] = m->x[e];
            d->p[at][q][j] = m->aux[e];
            d->x_new[at][q][j] = m->x_new[e];
            d->p_new[at][q][j] = m->aux_new[e];
        }
    return rc;
}

static sosmc_kernel noting(diary *d, sosmc_kernel inner)
{
    memset(d, 0, sizeof *d);
    d->inner = inner;
    inner.step = noting_step;
    inner.self = d;
    return inner;
}

/* The momentum that particle i is to begin with under this name. */
static void drawn(uint64_t seed, uint64_t step, uint32_t retry, double mass, int i, double p[DIM])
{
    double z[DIM * 8];
    sosmc_rng rng = {.seed = seed, .step = step, .stream = SOSMC_STREAM_BEGIN, .retry = retry};
    sosmc_batch b = {.dim = DIM, .n = 1, .ld = 8, .first = i};
    sosmc_normals(rng, &b, z);
    for (int j = 0; j < DIM; j++) p[j] = sqrt(mass) * z[8 * j];
}

static int has_drawn(const diary *d, int at, int i, uint64_t seed, uint64_t step, uint32_t retry)
{
    double p[DIM];
    drawn(seed, step, retry, d->inner.mass, i, p);
    return memcmp(d->p[at][i], p, sizeof p) == 0;
}

/* Whether (x, p) of particle i is what some particle had when step `at - 1` was over. */
static int was_left(const diary *d, int at, int i, int n)
{
    for (int q = 0; q < n; q++)
        if (memcmp(d->x[at][i], d->x_new[at - 1][q], sizeof d->x[at][i]) == 0 &&
            memcmp(d->p[at][i], d->p_new[at - 1][q], sizeof d->p[at][i]) == 0)
            return 1;
    return 0;
}

static diary notes;

static void test_momentum_travels(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
        for (int sweeps = 1; sweeps <= 2; sweeps++) {
            sosmc_problem p = toy_problem(&PLAIN);
            sosmc_settings cfg = toy_settings(noting(&notes, sosmc_underdamped(0.4, 1, 1.7)), sosmc_scheme_sosmc(N));
            cfg.scheme.order = order;
            cfg.scheme.sweeps = sweeps;
            cfg.scheme.ess_min = 2;
            sosmc *s = expect_create(&p, &cfg);
            expect_steps(s, ITERATIONS);
            int copies = 0;
            assert_int_equal(notes.steps, sweeps * (order == SOSMC_ORDER_PAPER ? ITERATIONS - 1 : ITERATIONS));
            for (int i = 0; i < N; i++) {
                if (order == SOSMC_ORDER_AUTHORS) assert_true(has_drawn(&notes, 0, i, 31, 0, 0));
                for (int at = 1; at < notes.steps; at++) assert_true(was_left(&notes, at, i, N));
                for (int at = 1; i && at < notes.steps; at++)
                    copies += memcmp(notes.p[at][i], notes.p[at][i - 1], sizeof notes.p[0][0]) == 0;
            }
            assert_true(copies > 0); /* resampling did something */
            sosmc_free(s);
        }
}

static void test_the_start(void **state)
{
    double sum = 0, squares = 0;
    sosmc_problem p = toy_problem(&PLAIN);
    sosmc_settings cfg = toy_settings(noting(&notes, sosmc_underdamped(0.4, 1, 4.0)), sosmc_scheme_unweighted(MOST));
    cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    sosmc *s = expect_create(&p, &cfg);
    expect_step(s);
    for (int i = 0; i < MOST; i++) {
        assert_true(has_drawn(&notes, 0, i, 31, 0, 0));
        for (int j = 0; j < DIM; j++) sum += notes.p[0][i][j], squares += notes.p[0][i][j] * notes.p[0][i][j];
    }
    /* N(0, 4) over 192 numbers, at five standard errors */
    assert_true(fabs(sum / (MOST * DIM)) < 5 * 2 / sqrt(MOST * DIM));
    assert_true(fabs(squares / (MOST * DIM) - 4) < 5 * 4 * sqrt(2.0 / (MOST * DIM)));
    sosmc_free(s);
}

static void test_pools_and_restarts(void **state)
{
    for (int pool = N; pool <= 2 * N; pool += N) {
        int begun = 0, kept = 0;
        sosmc_problem p = toy_problem(&PLAIN);
        sosmc_settings cfg = toy_settings(noting(&notes, sosmc_underdamped(0.4, 1, 1.7)), sosmc_scheme_pcd(N, pool, 3));
        cfg.scheme.refresh = 0.3;
        sosmc *s = expect_create(&p, &cfg);
        expect_steps(s, ITERATIONS);
        assert_int_equal(notes.steps, 3 * ITERATIONS);
        for (int at = 1; at < notes.steps; at++)
            for (int i = 0; i < N; i++) {
                int fresh = at % 3 == 0 && has_drawn(&notes, at, i, 31, (uint64_t)at / 3, 0);
                int old = memcmp(notes.p[at][i], notes.p_new[at - 1][i], sizeof notes.p[0][0]) == 0;
                assert_int_equal(fresh + old, 1);
                if (at % 3 == 0) begun += fresh, kept += old;
            }
        assert_true(begun > ITERATIONS && (pool > N ? kept == 0 : kept > ITERATIONS)); /* the pool keeps no momentum */
        sosmc_free(s);
    }
}

/* A particle that met the wall begins again, and its momentum with it. */
static void test_restarts_where_nothing_is_finite(void **state)
{
    toy m = {.wall = 1.6};
    static const double low[DIM] = {-1, -1, -1}, high[DIM] = {1, 1, 1};
    const sosmc_box box = {.dim = DIM, .low = low, .high = high};
    sosmc_problem p = toy_problem(&m);
    int restarted = 0;
    p.init = sosmc_box_source(&box);
    sosmc_settings cfg = toy_settings(noting(&notes, sosmc_underdamped(0.8, 1, 1)), sosmc_scheme_unweighted(MOST));
    cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
    cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    sosmc *s = expect_create(&p, &cfg);
    expect_steps(s, ITERATIONS);
    for (int at = 1; at < notes.steps; at++)
        for (int i = 0; i < MOST; i++) {
            int lost = notes.x_new[at - 1][i][0] > m.wall;
            restarted += lost;
            if (lost)
                assert_true(has_drawn(&notes, at, i, 31, notes.step[at - 1], 1));
            else
                assert_true(memcmp(notes.p[at][i], notes.p_new[at - 1][i], sizeof notes.p[0][0]) == 0);
        }
    assert_true(restarted > 3);
    sosmc_free(s);
}

/* Dropped particles keep what they had; a repeated move starts from it again, with other noise at both ends. */
static void test_drop_and_retry(void **state)
{
    toy m = {.wall = 1.6};
    static const double low[DIM] = {-1, -1, -1}, high[DIM] = {1, 1, 1};
    const sosmc_box box = {.dim = DIM, .low = low, .high = high};
    for (int policy = SOSMC_NONFINITE_DROP; policy <= SOSMC_NONFINITE_RETRY; policy++) {
        sosmc_problem p = toy_problem(&m);
        int met = 0;
        p.init = sosmc_box_source(&box);
        sosmc_settings cfg = toy_settings(noting(&notes, sosmc_underdamped(0.5, 1, 1)), sosmc_scheme_sosmc(N));
        cfg.on_nonfinite = policy;
        cfg.scheme.ess_min = 0;
        cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        sosmc *s = expect_create(&p, &cfg);
        expect_steps(s, ITERATIONS);
        for (int at = 1; at < notes.steps; at++) {
            int again = notes.retry[at] > 0;
            for (int i = 0; i < N; i++) {
                int lost = notes.x_new[at - 1][i][0] > m.wall;
                const double *before = again || lost ? notes.p[at - 1][i] : notes.p_new[at - 1][i];
                assert_memory_equal(notes.p[at][i], before, sizeof notes.p[0][0]);
                if (again) assert_true(notes.p_new[at][i][0] != notes.p_new[at - 1][i][0]);
                met += lost;
            }
        }
        assert_true(met > 0);
        sosmc_free(s);
    }
}

/* ------------------------------------------------------------------------------------------------ what is refused */

static int refusing_begin(const sosmc_kernel *k, sosmc_rng rng, const sosmc_batch *b, double *aux)
{
    return b->first >= TILE ? 17 : 0;
}

static void refused(sosmc_kernel k, sosmc_status status, const char *words)
{
    sosmc_problem p = toy_problem(&PLAIN);
    sosmc_settings cfg = toy_settings(k, sosmc_scheme_sosmc(N));
    expect_refusal(&p, &cfg, status, words);
}

static void test_refusals(void **state)
{
    sosmc_kernel k = sosmc_underdamped(0.1, 1, 1);
    refused(sosmc_underdamped(0.1, -1, 1), SOSMC_EINVAL, "kernel.friction is -1; it must not be negative");
    refused(sosmc_underdamped(0.1, NAN, 1), SOSMC_EINVAL, "kernel.friction is");
    refused(sosmc_underdamped(0, 1, 1), SOSMC_EINVAL, "kernel.h is 0; it must be positive");
    refused(sosmc_underdamped(0.1, 1, 0), SOSMC_EINVAL, "kernel.mass is 0; it must be positive");
    refused(sosmc_leapfrog(0.1, 0, 1), SOSMC_EINVAL, "kernel.leapfrog is 0; it must be at least 1");
    refused(sosmc_leapfrog(0.1, 1, -2), SOSMC_EINVAL, "kernel.mass is -2; it must be positive");
    k.begin = refusing_begin;
    refused(k, SOSMC_EMODEL, "kernel.begin returned 17 for the batch that starts at particle 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_underdamped_by_hand),   cmocka_unit_test(test_leapfrog_by_hand),
        cmocka_unit_test(test_volume_is_kept),        cmocka_unit_test(test_without_memory_it_is_ula),
        cmocka_unit_test(test_with_memory_it_is_not), cmocka_unit_test(test_cost),
        cmocka_unit_test(test_momentum_travels),      cmocka_unit_test(test_the_start),
        cmocka_unit_test(test_pools_and_restarts),    cmocka_unit_test(test_restarts_where_nothing_is_finite),
        cmocka_unit_test(test_drop_and_retry),        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
