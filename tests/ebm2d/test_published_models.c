/* test_published_models.c: the three published pre-trained energies (2 -> 128 -> 128 -> 128 -> 128 -> 1, SiLU) against
 * values computed elsewhere in double precision: energies, dE/dx and contracted dE/dtheta at 64 points, at every vector
 * level; and exact quantities of their densities by quadrature on the sheet's lattice of 400 x 400 nodes. The reference
 * data are no part of the project: without them the tests skip and say so. */
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

#include <sosmc/lattice.h>
#include <sosmc/models.h>

#include "files/files.h"
#include "job/model_file.h"
#include "numbers.h"
#include "reference.h"

/* Quadrature takes a minute when it is instrumented: one model then stands for all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MODELS = 1 };
#else
enum { MODELS = 3 };
#endif
enum { PUBLISHED = 3, LEVELS = 3, POINTS = 64, LAYERS = 5, BETAS = 5 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};

/* Exact values as published: six decimals, the smallest energy three. */
static const double beta[BETAS] = {0.1, 0.25, 0.5, 1, 5};
static const struct {
    const char *name;
    double logz, least, lower, upper, left, right;
    double best[BETAS][3]; /* of the lower half-plane's indicator: pi*(H), KL*, -l* */
} published[PUBLISHED] = {{"circles",
                           4.373504,
                           -2.040,
                           0.556073,
                           0.443927,
                           0.411534,
                           0.588466,
                           {{0.999964, 0.586457, 0.941318},
                            {0.985589, 0.514695, 0.856915},
                            {0.902493, 0.289248, 0.757869},
                            {0.772984, 0.102343, 0.670641},
                            {0.604737, 0.004840, 0.580536}}},
                          {"two_moons",
                           3.620558,
                           -1.005,
                           0.542886,
                           0.457114,
                           0.468406,
                           0.531594,
                           {{0.999962, 0.610435, 0.938918},
                            {0.984812, 0.534801, 0.851112},
                            {0.897704, 0.298348, 0.748530},
                            {0.763500, 0.104514, 0.658986},
                            {0.591934, 0.004883, 0.567521}}},
                          {"blobs",
                           3.365872,
                           -1.362,
                           0.472433,
                           0.527567,
                           0.520951,
                           0.479049,
                           {{0.999949, 0.749303, 0.925019},
                            {0.979957, 0.649441, 0.817597},
                            {0.868712, 0.346541, 0.695442},
                            {0.708811, 0.114506, 0.594305},
                            {0.522390, 0.004997, 0.497407}}}};

static char error[1024];
#define ERROR error, sizeof error

/* DATA/ebm2d/NAME.npz or NAME_reference.npz; skips the test when there is none. */
static const char *file_of(const char *name, const char *ending)
{
    char member[128];
    (void)snprintf(member, sizeof member, "ebm2d/%s%s.npz", name, ending);
    return reference_file(member);
}

static void load(const char *name, model_file *file, sosmc_mlp *mlp)
{
    if (model_read_as(file_of(name, ""), NULL, "silu", file, ERROR)) fail_msg("%s", error);
    *mlp = (sosmc_mlp){.inputs = file->inputs, .hidden = file->hidden_layers, .width = file->width};
    assert_string_equal(file->activation, "silu");
    assert_int_equal(sosmc_mlp_model(mlp).dim_theta, file->parameters);
}

/* A member of the reference file, `count` numbers of it. */
static void reference(const char *name, const char *member, double *to, int64_t count)
{
    npy_array a;
    if (npz_read(file_of(name, "_reference"), member, &a, ERROR)) fail_msg("%s", error);
    assert_int_equal(npy_count(&a), count);
    npy_doubles(&a, to);
    npy_free(&a);
}

/* ------------------------------------------------------------------------------------------------ values at points */

static void assert_near(const double *a, const double *b, size_t n, const char *what)
{
    double off = 0, norm = 0;
    for (size_t k = 0; k < n; k++) off += (a[k] - b[k]) * (a[k] - b[k]), norm += b[k] * b[k];
    if (!(sqrt(off) <= 1e-5 * sqrt(norm))) fail_msg("%s: off by %g of %g", what, sqrt(off), sqrt(norm));
}

/* Tensor after tensor, as they lie in theta. */
static void assert_contraction(const char *name, const model_file *file, const double *g)
{
    double *expect = numbers_room((size_t)file->parameters * sizeof *expect);
    int in = file->inputs;
    for (int k = 1; k <= LAYERS; k++) {
        int out = k < LAYERS ? file->width[k - 1] : 1;
        for (int bias = 0; bias < 2; bias++) {
            char member[64];
            int count = bias ? out : in * out;
            (void)snprintf(member, sizeof member, "dcE_d_layer%d_%s", k, bias ? "bias" : "weight");
            reference(name, member, expect, count);
            assert_near(g, expect, (size_t)count, member);
            g += count;
        }
        in = out;
    }
    free(expect);
}

static void match_points(const char *name, const char *level, const sosmc_simd *simd)
{
    model_file file;
    sosmc_mlp mlp;
    double rows[POINTS * 2], expect_U[POINTS], expect_gx[POINTS * 2], c[POINTS], U[POINTS], got[POINTS * 2];
    static _Alignas(64) double x[2 * POINTS], gx[2 * POINTS];
    load(name, &file, &mlp);
    sosmc_model m = sosmc_mlp_model(&mlp);
    void *prep = numbers_room(m.prep), *work = numbers_room(m.work * POINTS);
    double *g = calloc((size_t)m.dim_theta, sizeof *g);
    assert_non_null(g);
    reference(name, "x", rows, 2L * POINTS);
    reference(name, "energy", expect_U, POINTS);
    reference(name, "grad_x", expect_gx, 2L * POINTS);
    reference(name, "coef", c, POINTS);
    for (int i = 0; i < POINTS; i++)
        for (int j = 0; j < 2; j++) x[j * POINTS + i] = rows[i * 2 + j];
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = simd, .dim = 2, .n = POINTS, .ld = POINTS};
    assert_int_equal(m.prepare(m.self, file.theta, prep), 0);
    assert_int_equal(m.energy(m.self, file.theta, &b, U, gx), 0);
    b.fresh = 1;
    assert_int_equal(m.grad_theta(m.self, file.theta, &b, c, g), 0);
    for (int i = 0; i < POINTS; i++) {
        if (!(fabs(U[i] - expect_U[i]) <= 1e-5 * fmax(1, fabs(expect_U[i]))))
            fail_msg("%s, %s, point %d: energy %.9g, not %.9g", name, level, i, U[i], expect_U[i]);
        for (int j = 0; j < 2; j++) got[i * 2 + j] = gx[j * POINTS + i];
    }
    assert_near(got, expect_gx, 2L * POINTS, "grad_x");
    assert_contraction(name, &file, g);
    free(prep);
    free(work);
    free(g);
    model_free(&file);
}

static void values_at_points(void **state)
{
    for (int k = 0; k < MODELS; k++)
        for (int v = 0; v < LEVELS; v++) {
            const sosmc_simd *simd = sosmc_simd_named(level_name[v]);
            if (simd) match_points(published[k].name, level_name[v], simd);
        }
}

/* ------------------------------------------------------------------------------------------------ exact quantities */

static void assert_digits(double got, double expect, double unit, const char *model, const char *what)
{
    if (!(fabs(got - expect) <= 1.5 * unit)) fail_msg("%s, %s: %.8f, not %.6f", model, what, got, expect);
}

/* The mass of {normal . x > 0}, and the optimum for its indicator when asked for. */
static void match_half_plane(const sosmc_lattice *l, const double *U, double *R, int k, double a, double b, double mass,
                             int optimum)
{
    const double normal[2] = {a, b};
    const sosmc_half_plane half = {.dim = 2, .normal = normal};
    sosmc_score reward = sosmc_half_plane_reward(&half);
    sosmc_exact e;
    assert_int_equal(sosmc_lattice_score(&reward, l, R), SOSMC_OK);
    sosmc_lattice_exact(l, U, U, R, 1, &e);
    assert_digits(e.logz, published[k].logz, 1e-6, published[k].name, "log Z");
    assert_digits(e.reward, mass, 1e-6, published[k].name, "mass of a half-plane");
    for (int q = 0; optimum && q < BETAS; q++) {
        sosmc_lattice_exact(l, U, U, R, beta[q], &e);
        assert_digits(e.best_reward, published[k].best[q][0], 1e-6, published[k].name, "pi*(H)");
        assert_digits(e.best_kl, published[k].best[q][1], 1e-6, published[k].name, "KL*");
        assert_digits(-e.best_loss, published[k].best[q][2], 1e-6, published[k].name, "J*");
        assert_true(fabs(e.kl) < 1e-12 && fabs(e.excess - (e.loss - e.best_loss)) < 1e-9);
    }
}

static void exact_quantities(void **state)
{
    const sosmc_lattice l = {.nodes = 400, .low = {-6, -6}, .high = {6, 6}};
    size_t nodes = 400UL * 400UL;
    for (int k = 0; k < MODELS; k++) {
        model_file file;
        sosmc_mlp mlp;
        load(published[k].name, &file, &mlp);
        sosmc_model m = sosmc_mlp_model(&mlp);
        double *U = numbers_room(nodes * sizeof *U), *R = numbers_room(nodes * sizeof *R), least = INFINITY;
        assert_int_equal(sosmc_lattice_energy(&m, file.theta, &l, 2, U), SOSMC_OK);
        for (size_t g = 0; g < nodes; g++) least = fmin(least, U[g]);
        assert_digits(least, published[k].least, 4e-4, published[k].name, "the least energy");
        match_half_plane(&l, U, R, k, 0, -1, published[k].lower, 1);
        match_half_plane(&l, U, R, k, 0, 1, published[k].upper, 0);
        match_half_plane(&l, U, R, k, -1, 0, published[k].left, 0);
        match_half_plane(&l, U, R, k, 1, 0, published[k].right, 0);
        free(U);
        free(R);
        model_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_at_points), cmocka_unit_test(exact_quantities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
