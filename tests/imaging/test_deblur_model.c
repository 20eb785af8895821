/* test_deblur_model.c: the deblurring model: gradient, proximal map, layout of batches and channels, its smooth envelope; and a
 * run with the kernel it was made for has the same bits on any number of threads, at any vector level and across a
 * checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

#include "memory_stream.h"
#include "expect_engine.h"

enum { ROWS = 9, COLUMNS = 12, PIXELS = ROWS * COLUMNS, COLOURS = 3, MOST = COLOURS * PIXELS, TILE = 8 };

static double seen[MOST], masked[PIXELS];

static int set_up(void **state)
{
    for (int e = 0; e < MOST; e++) seen[e] = 100 + 60 * (e / COLUMNS % 2) + 20 * sin(1.3 * e);
    for (int e = 0; e < PIXELS; e++) masked[e] = e % 7 != 3;
    return 0;
}

static sosmc_deblur deblur_of(int which, int channels)
{
    sosmc_deblur d = {.blur = {.rows = ROWS, .columns = COLUMNS, .mask = which > 3 ? masked : NULL},
                      .channels = channels,
                      .y = seen,
                      .sigma = 0.7,
                      .tv = which % 2 ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC,
                      .prox_tv = SOSMC_TV_ANISOTROPIC,
                      .tolerance = 1e-8,
                      .freedom = channels * PIXELS};
    d.blur.kind = (sosmc_blur_kind)(which % 4);
    d.blur.patch = 4;
    d.blur.sigma = 1.2;
    d.blur.length = 5;
    d.blur.angle = 25;
    return d;
}

static void fill(uint64_t seed, int n, double *x)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int e = 0; e < n; e++) x[e] = seen[e % MOST] + 15 * x[e];
}

/* Exactly the room that the model asks for, so that a sanitizer sees one double too many. */
static void *work_for(const sosmc_model *m, int particles)
{
    void *work = NULL;
    assert_int_equal(posix_memalign(&work, 64, (size_t)particles * m->work), 0);
    memset(work, 0xFF, (size_t)particles * m->work); /* not numbers */
    return work;
}

typedef struct {
    double U, gx[MOST], gtheta, prox[MOST];
} values;

/* Everything the model says of one particle, by itself. */
static values ask(const sosmc_deblur *d, double theta, const double *x)
{
    sosmc_model m = sosmc_deblur_model(d);
    const double one = 1;
    values v = {0};
    sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
    assert_int_equal(m.dim_x, d->channels * PIXELS);
    assert_int_equal(m.energy(d, &theta, &b, &v.U, v.gx), 0);
    assert_int_equal(m.grad_theta(d, &theta, &b, &one, &v.gtheta), 0);
    assert_int_equal(m.prox(d, &theta, 0.4, &b, v.prox), 0);
    free(b.work);
    return v;
}

/* The energy alone, and its gradient when asked for. */
static double ask_energy(const sosmc_deblur *d, double theta, const double *x, double *gx)
{
    sosmc_model m = sosmc_deblur_model(d);
    double U = NAN;
    sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
    assert_int_equal(m.energy(d, &theta, &b, &U, gx), 0);
    free(b.work);
    return U;
}

static void gradients_are_right(void **state)
{
    double x[MOST], away[MOST], theta = -1.5;
    for (int which = 0; which < 8; which++) {
        sosmc_deblur d = deblur_of(which, 2), smooth;
        fill((uint64_t)which, 2 * PIXELS, x);
        values v = ask(&d, theta, x);
        smooth = d;
        smooth.freedom = 0;
        for (int e = 0; e < 2 * PIXELS; e += 5) { /* the smooth part: a quadratic, so central differences are exact */
            double U[2], h = 0.5, none = -700;    /* e^theta TV is nothing there */
            for (int side = 0; side < 2; side++) {
                memcpy(away, x, sizeof away);
                away[e] += side ? h : -h;
                U[side] = ask(&smooth, none, away).U;
            }
            double scale = fmax(1, fabs(v.gx[e]));
            assert_true(fabs((U[1] - U[0]) / (2 * h) - v.gx[e]) < 1e-7 * scale);
        }
        double h = 1e-5, slope = (ask(&d, theta + h, x).U - ask(&d, theta - h, x).U) / (2 * h);
        assert_true(fabs(slope - v.gtheta) < 1e-5 * fabs(v.gtheta));
        double tv = sosmc_tv(d.tv, ROWS, COLUMNS, x) + sosmc_tv(d.tv, ROWS, COLUMNS, x + PIXELS);
        assert_true(fabs(v.gtheta - (exp(theta) * tv - 2 * PIXELS)) < 1e-9 * tv);
    }
}

/* ... as the library has it, or as it was published; and it does something. */
static void the_prox_is_that_of_total_variation(void **state)
{
    double x[MOST], u[PIXELS], theta = 1.1;
    double *scratch = malloc(sosmc_tv_prox_scratch(ROWS, COLUMNS) * sizeof *scratch);
    assert_non_null(scratch);
    for (int which = 0; which < 3; which++) {
        sosmc_deblur d = deblur_of(1, COLOURS);
        if (which == 1) d.prox_tv = SOSMC_TV_ISOTROPIC;
        if (which == 2) d.published_passes = 35;
        fill(3, MOST, x);
        values v = ask(&d, theta, x);
        for (int c = 0; c < COLOURS; c++) {
            const double *z = x + (size_t)c * PIXELS;
            sosmc_tv_settings s = {.rows = ROWS, .columns = COLUMNS, .kind = d.prox_tv, .tolerance = d.tolerance};
            if (which == 2)
                sosmc_tv_prox_published(ROWS, COLUMNS, 35, 0.4 * exp(theta), z, u, scratch);
            else
                assert_int_equal(sosmc_tv_prox(&s, 0.4 * exp(theta), z, u, scratch, NULL), SOSMC_OK);
            assert_memory_equal(v.prox + (size_t)c * PIXELS, u, sizeof u);
            assert_true(memcmp(u, z, sizeof u) != 0);
        }
    }
    free(scratch);
}

/* Particles side by side, with one column left over, say what each says alone. */
static void tiles_change_nothing(void **state)
{
    enum { N = TILE - 1, CHANNELS = 2, LONG = CHANNELS * PIXELS };
    static double x[N][LONG], tile[LONG * TILE], gx[LONG * TILE], p[LONG * TILE];
    double U[TILE], c[TILE], g = 0.25, again = 0.25, sum = 0.25, theta = 0.3;
    sosmc_deblur d = deblur_of(5, CHANNELS);
    sosmc_model m = sosmc_deblur_model(&d);
    sosmc_batch b = {.x = tile, .work = work_for(&m, TILE), .dim = LONG, .n = N, .ld = TILE};
    for (int i = 0; i < N; i++) {
        fill(20 + (uint64_t)i, LONG, x[i]);
        c[i] = 0.3 - 0.2 * i;
        for (int e = 0; e < LONG; e++) tile[e * TILE + i] = x[i][e];
    }
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    b.fresh = 1;
    assert_int_equal(m.grad_theta(&d, &theta, &b, c, &g), 0);
    b.fresh = 0;
    assert_int_equal(m.grad_theta(&d, &theta, &b, c, &again), 0);
    assert_int_equal(m.prox(&d, &theta, 0.4, &b, p), 0);
    for (int i = 0; i < N; i++) {
        values v = ask(&d, theta, x[i]);
        assert_true(U[i] == v.U);
        sum += c[i] * v.gtheta;
        for (int e = 0; e < LONG; e++) assert_true(gx[e * TILE + i] == v.gx[e] && p[e * TILE + i] == v.prox[e]);
    }
    assert_true(g == again && g == sum);
    free(b.work);
}

static void colour_is_the_sum_of_its_channels(void **state)
{
    double x[MOST], theta = 0.3, U = 0, g = 0;
    sosmc_deblur d = deblur_of(6, COLOURS);
    fill(9, MOST, x);
    values whole = ask(&d, theta, x);
    for (int c = 0; c < COLOURS; c++) {
        sosmc_deblur one = deblur_of(6, 1);
        size_t from = (size_t)c * PIXELS;
        one.y = seen + from;
        values v = ask(&one, theta, x + from);
        U += v.U;
        g += v.gtheta;
        assert_memory_equal(whole.gx + from, v.gx, PIXELS * sizeof(double));
        assert_memory_equal(whole.prox + from, v.prox, PIXELS * sizeof(double));
    }
    assert_true(fabs(whole.U - U) < 1e-12 * fabs(U) && fabs(whole.gtheta - g) < 1e-12 * fabs(g));
}

/* Another theta at the same pictures: the same bits, and the gradient is left alone. */
static void what_does_not_change_is_kept(void **state)
{
    enum { N = 3 };
    static double tile[PIXELS * TILE], gx[PIXELS * TILE], again[PIXELS * TILE];
    double U[TILE], V[TILE], x[PIXELS], theta = -1, other = -1.3;
    sosmc_deblur d = deblur_of(1, 1);
    sosmc_model m = sosmc_deblur_model(&d);
    sosmc_batch b = {.x = tile, .work = work_for(&m, TILE), .dim = PIXELS, .n = N, .ld = TILE};
    for (int i = 0; i < N; i++) {
        fill(70 + (uint64_t)i, PIXELS, x);
        for (int e = 0; e < PIXELS; e++) tile[e * TILE + i] = x[e];
    }
    assert_int_equal(m.energy(&d, &other, &b, V, again), 0);
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    memset(tile, 0xFF, sizeof tile); /* not numbers: nobody looks */
    b.fresh = 1;
    assert_int_equal(m.energy(&d, &other, &b, U, gx), 0);
    assert_memory_equal(U, V, N * sizeof *U);
    for (int e = 0; e < PIXELS * TILE; e++) assert_true(e % TILE >= N || gx[e] == again[e]);
    free(b.work);
}

/* The envelope changes with theta: nothing of another theta's may be kept, whatever the engine says of x. */
static void the_envelope_follows_theta(void **state)
{
    enum { N = 3 };
    static double tile[PIXELS * TILE], gx[PIXELS * TILE], right[PIXELS * TILE];
    double U[TILE], V[TILE], x[PIXELS], theta = -1, other = 0.4, slope = 0, right_slope = 0;
    const double c[TILE] = {0.5, -1, 2};
    sosmc_deblur d = deblur_of(1, 1);
    d.prox_tv = d.tv;
    d.envelope = 0.8;
    sosmc_model m = sosmc_deblur_model(&d);
    sosmc_batch b = {.x = tile, .work = work_for(&m, TILE), .dim = PIXELS, .n = N, .ld = TILE};
    for (int i = 0; i < N; i++) {
        fill(70 + (uint64_t)i, PIXELS, x);
        for (int e = 0; e < PIXELS; e++) tile[e * TILE + i] = x[e];
    }
    assert_int_equal(m.energy(&d, &other, &b, V, right), 0);
    b.fresh = 1;
    assert_int_equal(m.grad_theta(&d, &other, &b, c, &right_slope), 0);
    b.fresh = 0;
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    b.fresh = 1; /* x is unchanged, theta is not */
    assert_int_equal(m.energy(&d, &other, &b, U, gx), 0);
    assert_memory_equal(U, V, N * sizeof *U);
    for (int e = 0; e < PIXELS * TILE; e++) assert_true(e % TILE >= N || gx[e] == right[e]);
    assert_int_equal(m.grad_theta(&d, &other, &b, c, &slope), 0);
    assert_true(slope == right_slope);
    b.fresh = 0;
    slope = 0;
    assert_int_equal(m.energy(&d, &theta, &b, U, gx), 0);
    assert_int_equal(m.grad_theta(&d, &other, &b, c, &slope), 0);
    assert_true(slope == right_slope);
    free(b.work);
}

/* ------------------------------------------------------------------------------------------------ the envelope */

/* min_v e^theta TV(v) + |v - x|^2 / (2 lambda): at most what v = x gives, nearly that for a narrow one; smooth. */
static void the_envelope_is_smooth(void **state)
{
    double x[MOST], away[MOST], theta = 0.4, h = 1e-4;
    for (int which = 0; which < 4; which++) {
        sosmc_deblur d = deblur_of(which, 2), plain;
        d.prox_tv = d.tv;
        plain = d;
        fill(30 + (uint64_t)which, 2 * PIXELS, x);
        double U = ask(&plain, theta, x).U, steepest2 = 8 * exp(2 * theta) * 2 * PIXELS; /* |D|^2 <= 8 */
        static const double widths[] = {4, 4e-2, 4e-4};
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            double width = widths[i];
            d.envelope = width;
            double near = ask_energy(&d, theta, x, NULL);
            assert_true(near < U && U - near < 0.5 * width * steepest2);
        }
        d.envelope = 0.8;
        d.tolerance = 1e-9;
        ask_energy(&d, theta, x, away);
        double gx[MOST];
        memcpy(gx, away, sizeof gx);
        for (int e = 0; e < 2 * PIXELS; e += 17) {
            double at[2];
            for (int side = 0; side < 2; side++) {
                memcpy(away, x, sizeof away);
                away[e] += side ? h : -h;
                at[side] = ask_energy(&d, theta, away, NULL);
            }
            assert_true(fabs((at[1] - at[0]) / (2 * h) - gx[e]) < 1e-3 * fmax(1, fabs(gx[e])));
        }
        double slope = (ask_energy(&d, theta + h, x, NULL) - ask_energy(&d, theta - h, x, NULL)) / (2 * h), g = 0;
        const double one = 1;
        sosmc_model m = sosmc_deblur_model(&d);
        sosmc_batch b = {.x = x, .work = work_for(&m, 1), .dim = m.dim_x, .n = 1, .ld = 1};
        assert_true(m.prox == NULL);
        assert_int_equal(m.grad_theta(&d, &theta, &b, &one, &g), 0);
        assert_true(fabs(g - slope) < 1e-4 * fabs(slope));
        free(b.work);
    }
}

static void unsound_descriptions_make_no_model(void **state)
{
    for (int which = 0; which < 9; which++) {
        sosmc_deblur d = deblur_of(1, 1);
        assert_int_equal(sosmc_deblur_model(&d).dim_x, PIXELS);
        if (which == 0) d.y = NULL;
        if (which == 1) d.sigma = 0;
        if (which == 2) d.channels = 5;
        if (which == 3) d.blur.patch = 0;
        if (which == 4) d.tolerance = NAN;
        if (which == 5) d.published_passes = -1;
        if (which == 6) d.envelope = -1;
        if (which == 7) d.envelope = INFINITY;
        if (which == 8) d.envelope = 1, d.prox_tv = SOSMC_TV_ISOTROPIC; /* the prior has the other */
        assert_int_equal(sosmc_deblur_model(&d).dim_x, 0);
    }
}

/* ------------------------------------------------------------------------------------------------ the same bits */

enum { PARTICLES = 7, ITERATIONS = 10 };

typedef struct {
    sosmc_deblur d;
    sosmc_rows start;
    sosmc_problem p;
    sosmc_settings cfg;
} deblurring;

static void begin(deblurring *r, sosmc_myula_weight weight)
{
    static const double grey[2 * PIXELS] = {0}, theta0[1] = {-2};
    *r = (deblurring){.d = deblur_of(1, 2),
                      .start = {.data = grey, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = 30}};
    r->p = (sosmc_problem){.model = sosmc_deblur_model(&r->d),
                           .objective = sosmc_mmle(),
                           .init = sosmc_rows_source(&r->start),
                           .theta0 = theta0};
    r->p.objective.scale = 1.0 / (2 * PIXELS);
    r->cfg = sosmc_defaults();
    r->cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
    r->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    r->cfg.scheme.ess_min = 0.9;
    r->cfg.kernel = sosmc_myula(0.02, 0.4, weight);
    r->cfg.optimiser = sosmc_sgd(0.05);
    r->cfg.adapt[0] = (sosmc_adapt){.threshold = 0.95, .factor = 1.1, .min = 1e-4, .max = 0.05, .before_move = 1};
    r->cfg.seed = 3;
}

static void hashes(const deblurring *r, uint64_t hash[ITERATIONS])
{
    sosmc *s = expect_create(&r->p, &r->cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        expect_step(s);
        hash[k] = sosmc_hash(s);
    }
    sosmc_free(s);
}

/* The model as it is, or one that is never told that only theta has changed; both with cracks, if asked for, where U is not
 * a number. */
typedef struct {
    sosmc_model model;
    int deaf;
    double crack; /* width */
} listener;

static int listener_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const listener *l = self;
    sosmc_batch heard = *b;
    if (l->deaf) heard.fresh = 0;
    int rc = l->model.energy(l->model.self, theta, &heard, U, gx);
    for (int i = 0; i < b->n; i++)
        if (fabs(remainder(b->x[i] - 0.3, 1)) < l->crack) U[i] = NAN;
    return rc;
}

static int listener_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const listener *l = self;
    return l->model.grad_theta(l->model.self, theta, b, c, g);
}

static int listener_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const listener *l = self;
    return l->model.prox(l->model.self, theta, lambda, b, p);
}

static int listen(const deblurring *r, int deaf, double crack, uint64_t hash[ITERATIONS])
{
    listener l = {.model = r->p.model, .deaf = deaf, .crack = crack};
    deblurring with = *r;
    int retries = 0;
    with.p.model.self = &l;
    with.p.model.energy = listener_energy;
    with.p.model.grad_theta = listener_grad_theta;
    with.p.model.prox = listener_prox;
    sosmc *s = expect_create(&with.p, &with.cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        expect_step(s);
        hash[k] = sosmc_hash(s);
        retries += sosmc_last(s)->retries;
    }
    sosmc_free(s);
    return retries;
}

/* What the engine says of work is true: after resampling, after moves that were repeated, in either order. */
static void being_told_changes_no_bit(void **state)
{
    uint64_t told[ITERATIONS], deaf[ITERATIONS];
    for (int which = 0; which < 6; which++) {
        int retry = which >= 4, weighted = which % 2 || retry; /* the others know no repeated moves */
        int order = (retry ? which : which / 2) % 2 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER;
        deblurring r;
        begin(&r, SOSMC_MYULA_AS_INVARIANT);
        r.cfg.adapt[0].factor = 0;
        if (!weighted) r.cfg.scheme = sosmc_scheme_unweighted(PARTICLES);
        r.cfg.scheme.drift_at = SOSMC_AT_CURRENT;
        r.cfg.scheme.order = order;
        if (weighted) r.cfg.scheme.ess_min = 2; /* always */
        if (retry) r.cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        int repeated = listen(&r, 0, retry ? 0.02 : 0, told);
        assert_true(!retry || repeated > 0);
        (void)listen(&r, 1, retry ? 0.02 : 0, deaf);
        assert_memory_equal(told, deaf, sizeof told);
    }
}

static void threads_and_levels_give_the_same_bits(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    uint64_t first[ITERATIONS], again[ITERATIONS];
    deblurring r;
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        begin(&r, (sosmc_myula_weight)weight);
        hashes(&r, first);
        assert_true(first[1] != first[0]);
        for (int threads = 2; threads <= 5; threads += 3) {
            r.cfg.threads = threads;
            hashes(&r, again);
            assert_memory_equal(first, again, sizeof first);
        }
        for (int l = 0; l < 3; l++) {
            r.cfg.simd = sosmc_simd_named(level[l]);
            if (!r.cfg.simd) continue;
            hashes(&r, again);
            assert_memory_equal(first, again, sizeof first);
        }
    }
}

/* ULA on the envelope makes the moves of MYULA; only its weights are those of another target. */
static void ula_on_the_envelope_is_myula(void **state)
{
    static double x[PARTICLES * 2 * PIXELS], y[PARTICLES * 2 * PIXELS];
    deblurring one, two;
    begin(&one, SOSMC_MYULA_CACHED);
    one.cfg.scheme = sosmc_scheme_unweighted(PARTICLES);
    one.cfg.scheme.drift_at = SOSMC_AT_CURRENT;
    one.cfg.adapt[0].factor = 0;
    one.cfg.kernel = sosmc_myula(0.02, 0.4, SOSMC_MYULA_AS_INVARIANT);
    one.cfg.optimiser = sosmc_sgd(0);
    one.d.prox_tv = one.d.tv;
    two = one;
    two.d.envelope = 0.4;
    one.p.model = sosmc_deblur_model(&one.d);
    two.p.model = sosmc_deblur_model(&two.d);
    one.p.init.self = &one.start;
    two.p.init.self = &two.start;
    two.cfg.kernel = sosmc_ula(0.02);
    sosmc *s = expect_create(&one.p, &one.cfg), *t = expect_create(&two.p, &two.cfg);
    for (int k = 0; k < ITERATIONS; k++) {
        expect_step(s);
        expect_step(t);
    }
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(t, y, NULL), SOSMC_OK);
    for (int e = 0; e < PARTICLES * 2 * PIXELS; e++) assert_true(fabs(x[e] - y[e]) < 1e-9 * fmax(1, fabs(x[e])));
    assert_true(fabs(sosmc_last(s)->mean_energy - sosmc_last(t)->mean_energy) > 1e-3);
    sosmc_free(s);
    sosmc_free(t);
}

static void a_checkpoint_changes_nothing(void **state)
{
    memory saved = {.used = 0};
    uint64_t whole[ITERATIONS];
    deblurring r;
    for (int weight = SOSMC_MYULA_AS_INVARIANT; weight <= SOSMC_MYULA_CACHED; weight++) {
        begin(&r, (sosmc_myula_weight)weight);
        hashes(&r, whole);
        sosmc *s = expect_create(&r.p, &r.cfg);
        expect_steps(s, ITERATIONS / 2);
        memory_must_save(s, &saved);
        sosmc_free(s);
        s = expect_create(&r.p, &r.cfg);
        memory_must_load(s, &saved);
        for (int k = ITERATIONS / 2; k < ITERATIONS; k++) {
            expect_step(s);
            assert_true(sosmc_hash(s) == whole[k]);
        }
        sosmc_free(s);
    }
    free(saved.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(the_prox_is_that_of_total_variation),
        cmocka_unit_test(tiles_change_nothing),
        cmocka_unit_test(colour_is_the_sum_of_its_channels),
        cmocka_unit_test(what_does_not_change_is_kept),
        cmocka_unit_test(the_envelope_follows_theta),
        cmocka_unit_test(the_envelope_is_smooth),
        cmocka_unit_test(ula_on_the_envelope_is_myula),
        cmocka_unit_test(unsound_descriptions_make_no_model),
        cmocka_unit_test(being_told_changes_no_bit),
        cmocka_unit_test(threads_and_levels_give_the_same_bits),
        cmocka_unit_test(a_checkpoint_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
