/* test_scores.c: dU/dtheta of single particles, for every model of the library that has few parameters. They are derivatives of
 * the energy; contracted they are what grad_theta gives; a model's own are, bit by bit, those derived from grad_theta; levels,
 * shapes of batches and fresh scratch do not matter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/imaging.h>
#include <sosmc/models.h>

#include "assertions.h"
#include "base/scores.h"
#include "numbers.h"

enum { N = 37, LD = 40, DIM = 11, ROWS = 50, MODES = 5, SIDE = 6, PIXELS = SIDE * SIDE, LEVELS = 3 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};

static double y[PIXELS], features[ROWS * DIM], labels[ROWS], means[MODES * DIM];
static const double weights[MODES] = {0.3, -0.2, 0.1, 0.5, -900}, number[1] = {0.7}, strength[1] = {-1},
                    cold[1] = {0.4};

static const sosmc_hierarchical hierarchy = {.dim = DIM, .y = y};
static const sosmc_logistic logistic = {
    .rows = ROWS, .dim = DIM, .features = features, .labels = labels, .variance = 2.5};
static const sosmc_mixture one = {.dim = 1, .components = 1, .means = means, .variance = 0.7},
                           plane = {.dim = 2, .components = MODES, .means = means, .variance = 0.7},
                           bounded = {.dim = 3, .components = 3, .means = means, .variance = 0.7, .eps = 1e-9},
                           space = {.dim = DIM, .components = MODES, .means = means, .variance = 2};
#define PICTURE                                                                                                     \
    .blur = {.rows = SIDE, .columns = SIDE, .kind = SOSMC_BLUR_BOX, .patch = 3}, .channels = 1, .y = y, .sigma = 1, \
    .tv = SOSMC_TV_ANISOTROPIC, .prox_tv = SOSMC_TV_ANISOTROPIC, .tolerance = 1e-8, .freedom = PIXELS
static const sosmc_deblur picture = {PICTURE}, smooth = {PICTURE, .envelope = 0.1};
static sosmc_tempering tempering = {.theta = weights, .base_sd = 1.5, .steps = 10, .power = 1};

/* The models of the library with few parameters, each at a theta. */
enum { MODELS = 9 };
static sosmc_model model_of(int which, const double **theta)
{
    tempering.model = sosmc_mixture_model(&plane);
    *theta = which < 4 ? weights : which < 6 ? number : which < 8 ? strength : cold;
    switch (which) {
    case 0: return sosmc_mixture_model(&one);
    case 1: return sosmc_mixture_model(&plane);
    case 2: return sosmc_mixture_model(&bounded);
    case 3: return sosmc_mixture_model(&space);
    case 4: return sosmc_hierarchical_model(&hierarchy);
    case 5: return sosmc_logistic_model(&logistic);
    case 6: return sosmc_deblur_model(&picture);
    case 7: return sosmc_deblur_model(&smooth);
    default: return sosmc_tempered_model(&tempering);
    }
}

/* A model, a batch of n of its particles in rows of ld, and room; exactly as long as promised, so that a sanitizer sees one
 * number too many. */
typedef struct {
    sosmc_model model;
    const double *theta;
    sosmc_batch b;
    double *x, *D, *scratch;
    void *prep, *work;
} example;

static example open_example(int which, int n, int ld)
{
    example d = {.b = {.n = n, .ld = ld, .first = 3}};
    d.model = model_of(which, &d.theta);
    const size_t dim = (size_t)d.model.dim_x, row = (size_t)ld;
    sosmc_batch all = {.dim = d.model.dim_x, .n = N, .ld = LD};
    double *points = numbers_room(dim * LD * sizeof *points);
    assert_non_null(d.model.scores);
    sosmc_normals((sosmc_rng){.seed = 9, .stream = SOSMC_STREAM_USER}, &all, points);
    d.x = numbers_room(dim * row * sizeof(double));
    for (size_t j = 0; j < dim; j++) memcpy(d.x + j * row, points + j * LD, (size_t)n * sizeof *points);
    free(points);
    d.D = numbers_room((size_t)d.model.dim_theta * row * sizeof(double));
    d.prep = numbers_room(d.model.prep + 1);
    d.work = numbers_room(d.model.work * row + 1);
    sosmc_model derived = d.model;
    derived.scores = NULL;
    assert_int_equal(sosmc_i_scores_scratch(&d.model), 0);
    assert_int_equal(sosmc_i_scores_scratch(&derived) % 8, 0);
    d.scratch = numbers_room(sosmc_i_scores_scratch(&derived) * sizeof(double));
    d.b.x = d.x;
    d.b.prep = d.prep;
    d.b.work = d.work;
    d.b.dim = d.model.dim_x;
    if (d.model.prepare) assert_int_equal(d.model.prepare(d.model.self, d.theta, d.prep), 0);
    return d;
}

static void close_example(example *d)
{
    free(d->x);
    free(d->D);
    free(d->prep);
    free(d->work);
    free(d->scratch);
}

/* Own scores, or derived ones. */
static void evaluate(example *d, int own)
{
    sosmc_model m = d->model;
    if (!own) m.scores = NULL;
    memset(d->D, 0xFF, (size_t)m.dim_theta * (size_t)d->b.ld * sizeof *d->D);
    assert_int_equal(sosmc_i_scores(&m, d->theta, &d->b, d->scratch, d->D), 0);
}

static void expect_rows(const example *a, const example *b, int n)
{
    for (int j = 0; j < a->model.dim_theta; j++)
        assert_memory_equal(a->D + j * a->b.ld, b->D + j * b->b.ld, (size_t)n * sizeof *a->D);
}

static void contracted_they_are_the_gradient(void **state)
{
    for (int which = 0; which < MODELS; which++) {
        example d = open_example(which, N, LD);
        double c[LD], g[MODES] = {0};
        for (int i = 0; i < LD; i++) c[i] = numbers_uniform(-1, 1);
        evaluate(&d, 1);
        assert_int_equal(d.model.grad_theta(d.model.self, d.theta, &d.b, c, g), 0);
        for (int j = 0; j < d.model.dim_theta; j++) {
            double sum = 0, size = 0;
            for (int i = 0; i < N; i++) sum += c[i] * d.D[j * LD + i], size += fabs(c[i] * d.D[j * LD + i]);
            assert_near(sum, g[j], 1e-13 * (1 + size));
            assert_true(size > 0 || which == 0 || d.theta[j] < -700); /* one component has the weight 1 */
        }
        close_example(&d);
    }
}

/* U at theta with `step` added to parameter j. */
static void energy_near(example *d, int j, double step, double *U)
{
    double moved[MODES];
    memcpy(moved, d->theta, (size_t)d->model.dim_theta * sizeof *moved);
    moved[j] += step;
    if (d->model.prepare) assert_int_equal(d->model.prepare(d->model.self, moved, d->prep), 0);
    assert_int_equal(d->model.energy(d->model.self, moved, &d->b, U, NULL), 0);
}

static void they_are_derivatives_of_the_energy(void **state)
{
    const double step = 1e-4;
    for (int which = 0; which < MODELS; which++) {
        example d = open_example(which, N, LD);
        double above[LD], below[LD];
        evaluate(&d, 1);
        for (int j = 0; j < d.model.dim_theta; j++) {
            energy_near(&d, j, step, above);
            energy_near(&d, j, -step, below);
            for (int i = 0; i < N; i++) assert_close(d.D[j * LD + i], (above[i] - below[i]) / (2 * step), 1e-7);
        }
        close_example(&d);
    }
}

static void derived_ones_have_the_same_bits(void **state)
{
    for (int which = 0; which < MODELS; which++) {
        example own = open_example(which, N, LD), derived = open_example(which, N, LD);
        evaluate(&own, 1);
        evaluate(&derived, 0);
        expect_rows(&own, &derived, N);
        close_example(&own);
        close_example(&derived);
    }
}

static void levels_and_shapes_do_not_matter(void **state)
{
    static const int shape[][2] = {{N, LD}, {8, 8}, {1, 8}, {1, 1}};
    for (int which = 0; which < MODELS; which++) {
        example plain = open_example(which, N, LD);
        plain.b.simd = sosmc_simd_named("plain");
        evaluate(&plain, 1);
        for (int k = 0; k < 4 * LEVELS; k++) {
            const sosmc_simd *simd = sosmc_simd_named(level_name[k / 4]);
            if (!simd) continue;
            example other = open_example(which, shape[k % 4][0], shape[k % 4][1]);
            other.b.simd = simd;
            for (int own = 0; own < 2; own++) {
                evaluate(&other, own);
                expect_rows(&plain, &other, other.b.n);
            }
            close_example(&other);
        }
        close_example(&plain);
    }
}

/* Behind an energy call with a gradient a model may take what its scratch holds. */
static void fresh_scratch_does_not_matter(void **state)
{
    for (int which = 0; which < MODELS; which++) {
        example d = open_example(which, N, LD), fresh = open_example(which, N, LD);
        double U[LD], *gx = numbers_room((size_t)d.model.dim_x * LD * sizeof *gx);
        evaluate(&d, 1);
        assert_int_equal(fresh.model.energy(fresh.model.self, fresh.theta, &fresh.b, U, gx), 0);
        fresh.b.fresh = 1;
        for (int own = 0; own < 2; own++) { /* those derived do not touch the batch's own scratch */
            evaluate(&fresh, own);
            expect_rows(&d, &fresh, N);
        }
        free(gx);
        close_example(&d);
        close_example(&fresh);
    }
}

/* What the derived scores hand to grad_theta, and where a failure goes. */
static int seen;
static int watches(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    assert_true(b->n == 1 && b->fresh == 0 && c[0] == 1 && b->next_work == NULL);
    assert_true(b->ld == (b->dim < 8 ? 8 : 1));
    assert_int_equal(b->first, 3 + seen);
    assert_int_equal((uintptr_t)b->x % 64, 0);
    assert_int_equal((uintptr_t)b->work % 64, 0);
    assert_true(g[0] == 0);
    return ++seen == 5 ? 42 : 0;
}

static void a_failure_is_handed_on(void **state)
{
    for (int which = 1; which < 4; which += 2) {
        example d = open_example(which, N, LD);
        d.model.scores = NULL;
        d.model.grad_theta = watches;
        d.b.fresh = 1;
        d.b.next_work = d.work;
        seen = 0;
        assert_int_equal(sosmc_i_scores(&d.model, d.theta, &d.b, d.scratch, d.D), 42);
        assert_int_equal(seen, 5);
        close_example(&d);
    }
}

int main(void)
{
    for (int k = 0; k < PIXELS; k++) y[k] = numbers_uniform(-2, 2);
    for (int k = 0; k < ROWS * DIM; k++) features[k] = numbers_uniform(-1, 1);
    for (int k = 0; k < ROWS; k++) labels[k] = k % 3 == 0;
    for (int k = 0; k < MODES * DIM; k++) means[k] = numbers_uniform(-1.5, 1.5);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_derivatives_of_the_energy), cmocka_unit_test(contracted_they_are_the_gradient),
        cmocka_unit_test(derived_ones_have_the_same_bits),    cmocka_unit_test(levels_and_shapes_do_not_matter),
        cmocka_unit_test(fresh_scratch_does_not_matter),      cmocka_unit_test(a_failure_is_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
