/* test_ebm2d_training.c: how the 2-D energy-based experiment scores training: log-likelihoods and bounds against sums and
 * formulas, the recipes of the points against run files, verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "runfile/config.h"
#include "ebm2d/ebm2d_page.h"
#include "files/files.h"
#include "job/points.h"
#include "job/problem.h"
#include "reference.h"
#include "scratch.h"
#include "small_network.h"

static const double pi = 3.14159265358979323846;

static ebm2d_plan plan;

static int set_up(void **state) { return scratch_make(state) || ebm2d_plan_open(&plan, ERROR) ? -1 : 0; }

static int tear_down(void **state)
{
    ebm2d_plan_free(&plan);
    return scratch_remove(state);
}

static ebm2d_likelihood likelihood(double slope, double base_sd, double box, int n, const double *x)
{
    ebm2d_likelihood l = {.evaluations = 17};
    small_network_write(at("one.safetensors"), slope, base_sd);
    assert_fine(ebm2d_loglik(at("one.safetensors"), box, 200, n, x, 2, &l, ERROR));
    assert_true(l.evaluations == 17);
    return l;
}

static void log_likelihoods(void **state)
{
    enum { N = 3, SIDE = 400 };
    static const double x[2 * N] = {0.5, -1, 2, 0.25, -1.5, -3};
    const double h = 20.0 / SIDE, slope = 0.5, sd = 1.5;
    double z = 0, mean = 0, square = 0;
    for (int i = 0; i < SIDE; i++) /* cell by cell, on another box than the program's */
        for (int j = 0; j < SIDE; j++)
            z += h * h * exp(-small_network_energy(slope, sd, -10 + h * (i + 0.5), -10 + h * (j + 0.5)));
    for (int i = 0; i < N; i++) {
        mean += small_network_energy(slope, sd, x[2 * i], x[2 * i + 1]) / N;
        square += (x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1]) / N;
    }
    ebm2d_likelihood l = likelihood(slope, sd, 6, N, x);
    assert_near(l.logz, log(z), 2e-5);
    assert_near(l.loglik, -mean - log(z), 2e-5);
    assert_true(l.edge < 1e-5);
    /* The base alone, in a box that holds 84 % of it: the whole must come out. */
    l = likelihood(0, 3, 6, N, x);
    assert_near(l.loglik, -square / 18 - log(2 * pi * 9), 1e-5);
    /* No base and no network: the uniform law on the box. */
    l = likelihood(0, 0, 2.5, N, x);
    assert_near(l.loglik, -log(25), 0.03);
    assert_int_equal(ebm2d_loglik("nowhere.safetensors", 6, 20, N, x, 1, &l, ERROR), -1);
    assert_says("nowhere");
}

static void published_likelihood(void **state)
{
    const char *path = reference_file("ebm2d/circles.npz");
    double *x = NULL;
    int64_t n = 0;
    ebm2d_likelihood l;
    assert_fine(points_generate(&plan.recipe[EBM2D_CIRCLES], &x, &n, ERROR));
    assert_fine(ebm2d_loglik(path, 6, 400, n, x, 2, &l, ERROR));
    free(x);
    assert_near(l.logz, 4.373504, 1e-5);
    assert_near(l.loglik, -4.038, 0.02); /* by 600 points and a network in other code */
}

/* The points of the experiment are those that a run file has by default. */
static void recipes(void **state)
{
    for (int d = 0; d < EBM2D_DATASETS; d++) {
        char text[512];
        int io = 0;
        job j = {.iterations = 0};
        int64_t n = 0, rows = 0;
        double *x = NULL;
        (void)snprintf(text, sizeof text,
                       "model: {type: mlp, inputs: 2, hidden: [4], base: gaussian}\n"
                       "objective: {type: ebm_likelihood, data: {type: %s, points: 20000, seed: 0}}\n"
                       "init: base\nscheme: sosmc\nkernel: {type: ula, step: 0.005}\nparticles: 8\niterations: 1\n",
                       ebm2d_dataset_names[d]);
        config *c = config_parse(text, "recipe", ERROR);
        if (!c || config_resolve(c, ERROR) || job_build(&j, c, &io, ERROR)) fail_msg("%s", sentence);
        const double *points = job_points(&j, &rows);
        assert_fine(points_generate(&plan.recipe[d], &x, &n, ERROR));
        assert_int_equal(n, rows);
        assert_memory_equal(x, points, 2 * (size_t)n * sizeof *x);
        free(x);
        job_free(&j);
        config_free(c);
    }
}

/* The density of noise around a circle of radius R at distance r: a Bessel function, here by its asymptotic series. */
static double log_ring(double r, double R, double sd)
{
    double z = r * R / (sd * sd), series = 1 + 1 / (8 * z) + 9 / (128 * z * z);
    return log(series / sqrt(2 * pi * z)) - (r - R) * (r - R) / (2 * sd * sd) - log(2 * pi * sd * sd);
}

static void bound_of_circles(void **state)
{
    points_recipe r = plan.recipe[EBM2D_CIRCLES];
    double *x = NULL, bound, scaled, sum = 0;
    int64_t n = 0;
    assert_fine(ebm2d_bound(&r, &scaled, ERROR));
    assert_near(scaled, -2.686, 0.012); /* the entropy of two thin rings; 0.007 is the chance in 20,000 points */
    r.standardise = 0;
    r.scale = 1;
    assert_fine(points_generate(&r, &x, &n, ERROR));
    for (int64_t i = 0; i < n; i++) {
        double radius = hypot(x[2 * i], x[2 * i + 1]);
        sum += log(0.5 * exp(log_ring(radius, 1, 0.02)) + 0.5 * exp(log_ring(radius, 0.5, 0.02)));
    }
    free(x);
    assert_fine(ebm2d_bound(&r, &bound, ERROR));
    assert_near(bound, sum / (double)n, 1e-7);
    r.scale = 3; /* every area grows ninefold */
    assert_fine(ebm2d_bound(&r, &scaled, ERROR));
    assert_near(scaled, bound - log(9), 1e-12);
    r.noise = 0;
    assert_int_equal(ebm2d_bound(&r, &bound, ERROR), -1);
    assert_says("noise 0");
}

/* A moon drawn as densely as its law is smooth: the mixture over its own places is that law. */
static void bound_of_moons(void **state)
{
    enum { N = 2000 };
    points_recipe r = plan.recipe[EBM2D_TWO_MOONS], still;
    double *x = NULL, *place = NULL, bound, sum = 0;
    int64_t n = 0;
    r.points = N;
    r.standardise = 0;
    r.scale = 1;
    still = r;
    still.noise = 0;
    assert_fine(points_generate(&r, &x, &n, ERROR) + points_generate(&still, &place, &n, ERROR));
    for (int i = 0; i < N; i++) {
        double p = 0;
        for (int j = 0; j < N; j++)
            p += exp(-(pow(x[2 * i] - place[2 * j], 2) + pow(x[2 * i + 1] - place[2 * j + 1], 2)) / (2 * 0.0064)) / N;
        sum += log(p / (2 * pi * 0.0064));
    }
    free(place);
    free(x);
    assert_fine(ebm2d_bound(&r, &bound, ERROR));
    assert_near(bound, sum / N, 1e-3); /* the places include both ends, the law's nodes lie between */
}

/* Points of the blobs' law from another generator, and their density, before scaling; then the scale from their spread. */
static void bound_of_blobs(void **state)
{
    enum { N = 60000 };
    const points_recipe *r = &plan.recipe[EBM2D_BLOBS];
    double sum = 0, first[2] = {0, 0}, second[2] = {0, 0}, bound;
    uint64_t word = 1;
    for (int i = 0; i < N; i++) {
        double u[2], y[2], p = 0;
        for (int j = 0; j < 2; j++) {
            word = word * 6364136223846793005U + 1442695040888963407U;
            u[j] = ((double)(word >> 11) + 0.5) * 0x1p-53;
        }
        y[0] = r->centres[2 * (i % 3)] + 0.5 * sqrt(-2 * log(u[0])) * cos(2 * pi * u[1]);
        y[1] = r->centres[2 * (i % 3) + 1] + 0.5 * sqrt(-2 * log(u[0])) * sin(2 * pi * u[1]);
        for (int c = 0; c < 3; c++)
            p += exp(-2 * (pow(y[0] - r->centres[2 * c], 2) + pow(y[1] - r->centres[2 * c + 1], 2))) / (3 * pi / 2);
        sum += log(p);
        for (int j = 0; j < 2; j++) {
            first[j] += y[j] / N;
            second[j] += y[j] * y[j] / N;
        }
    }
    for (int j = 0; j < 2; j++) sum += N * 0.5 * log((second[j] - first[j] * first[j]) / 4);
    assert_fine(ebm2d_bound(r, &bound, ERROR));
    assert_near(bound, sum / N, 0.03); /* standard errors 0.007 and 0.004 */
}

static void training_verdicts(void **state)
{
    char out[256];
    ebm2d_training t = {.made = 1, .bound = -2.69, .of = {{.loglik = -4.25}, {.loglik = -2.75}}};
    assert_string_equal(ebm2d_training_verdict(&t, EBM2D_CIRCLES, out, sizeof out),
                        "circles: training with weights is better by 1.500 nats a point, -2.750 against -4.250, and "
                        "ends 0.060 below the bound.");
    t.of[EBM2D_PCD].loglik = -2.5;
    assert_string_equal(ebm2d_training_verdict(&t, EBM2D_BLOBS, out, sizeof out),
                        "blobs: training by contrastive divergence is better by 0.250 nats a point, -2.500 against "
                        "-2.750, and ends 0.190 above the bound.");
    t.brief = 1;
    assert_non_null(strstr(ebm2d_training_verdict(&t, EBM2D_BLOBS, out, sizeof out), "a brief one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_likelihoods),   cmocka_unit_test(published_likelihood), cmocka_unit_test(recipes),
        cmocka_unit_test(bound_of_circles),  cmocka_unit_test(bound_of_moons),       cmocka_unit_test(bound_of_blobs),
        cmocka_unit_test(training_verdicts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
