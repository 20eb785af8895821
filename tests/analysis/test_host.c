/* test_host.c: a model at one theta with its memory: energies, gradients, contractions and scores at rows of points are those of the
 * callbacks, whatever the tiles are; scores at rows of points; the information of several parameters with its inverse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <sosmc/analysis.h>
#include <sosmc/models.h>

#include "toys.h"

enum { POINTS = 150, DIM = 3, MODES = 4 };
static const double means[MODES * DIM] = {-1, 0, 1, 0.5, 2, -2, 0, 0, 1, 1, 1, -1};
static const sosmc_mixture mixture = {.dim = DIM, .components = MODES, .means = means, .variance = 0.7};
static const double theta[MODES] = {0.3, -0.2, 0.1, 0.5}, other[MODES] = {1, 0, -1, 0.25};
static double points[POINTS * DIM];

static void fill(double *x, int n)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 5, .stream = SOSMC_STREAM_USER}, &b, x);
}

static int draw_points(void **state)
{
    fill(points, POINTS * DIM);
    return 0;
}

/* The mixture written out. */
static double energy_at(const double *at, const double *x, double *gx, double *gt)
{
    double e[MODES], sum = 0, total = 0;
    for (int k = 0; k < MODES; k++) total += exp(at[k]);
    for (int k = 0; k < MODES; k++) {
        double square = 0;
        for (int j = 0; j < DIM; j++) square += pow(x[j] - means[k * DIM + j], 2);
        e[k] = exp(at[k]) / total * exp(-square / (2 * mixture.variance));
        sum += e[k];
    }
    for (int j = 0; j < DIM; j++) {
        gx[j] = 0;
        for (int k = 0; k < MODES; k++) gx[j] += e[k] / sum * (x[j] - means[k * DIM + j]) / mixture.variance;
    }
    for (int k = 0; k < MODES; k++) gt[k] = exp(at[k]) / total - e[k] / sum;
    return -log(sum);
}

static void expect_at(sosmc_host *h, const double *at)
{
    double U[POINTS], alone[POINTS], gx[POINTS * DIM], c[POINTS], g[MODES] = {1, 2, 3, 4}, sum[MODES] = {1, 2, 3, 4};
    for (int i = 0; i < POINTS; i++) c[i] = 0.01 * (i % 7) - 0.02;
    assert_int_equal(sosmc_host_gradients(h, POINTS, points, U, gx), SOSMC_OK);
    assert_int_equal(sosmc_host_energies(h, POINTS, points, alone), SOSMC_OK);
    assert_memory_equal(U, alone, sizeof U);
    assert_int_equal(sosmc_host_contract(h, POINTS, points, c, g), SOSMC_OK);
    for (int i = 0; i < POINTS; i++) {
        double wx[DIM], wt[MODES];
        assert_true(fabs(U[i] - energy_at(at, points + i * DIM, wx, wt)) < 1e-12);
        for (int j = 0; j < DIM; j++) assert_true(fabs(gx[i * DIM + j] - wx[j]) < 1e-12);
        for (int k = 0; k < MODES; k++) sum[k] += c[i] * wt[k];
    }
    for (int k = 0; k < MODES; k++) assert_true(fabs(g[k] - sum[k]) < 1e-12);
}

static void hosts_call_the_model(void **state)
{
    static const int tiles[] = {0, 1, 3, 8, 64, 1000};
    sosmc_model m = sosmc_mixture_model(&mixture);
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
        sosmc_host *h = NULL;
        assert_int_equal(sosmc_host_create(&h, &m, theta, tiles[t]), SOSMC_OK);
        expect_at(h, theta);
        assert_int_equal(sosmc_host_move(h, other), SOSMC_OK);
        expect_at(h, other);
        sosmc_host_free(h);
    }
    sosmc_host_free(NULL);
}

static void scores_of_parameters_at_points(void **state)
{
    static const int tiles[] = {0, 1, 3, 64};
    for (int k = 0; k < 8; k++) {
        sosmc_model m = sosmc_mixture_model(&mixture);
        sosmc_host *h = NULL;
        double D[POINTS * MODES], wx[DIM], wt[MODES];
        if (k >= 4) m.scores = NULL; /* they are then derived */
        assert_int_equal(sosmc_host_create(&h, &m, theta, tiles[k % 4]), SOSMC_OK);
        assert_int_equal(sosmc_host_scores(h, POINTS, points, D), SOSMC_OK);
        for (int i = 0; i < POINTS; i++) {
            (void)energy_at(theta, points + i * DIM, wx, wt);
            for (int j = 0; j < MODES; j++) assert_true(fabs(D[i * MODES + j] - wt[j]) < 1e-12);
        }
        sosmc_host_free(h);
    }
}

/* A model that wants all particles in one batch says so with a tile that no memory holds. */
static void a_model_may_want_everything_at_once(void **state)
{
    sosmc_model m = sosmc_mixture_model(&mixture);
    sosmc_host *h = NULL;
    m.tile = 1 << 30;
    assert_int_equal(sosmc_host_create(&h, &m, theta, 0), SOSMC_OK);
    expect_at(h, theta);
    sosmc_host_free(h);
}

static void energies_agree_with_the_survey(void **state)
{
    sosmc_model m = sosmc_mixture_model(&mixture);
    sosmc_host *h = NULL;
    double U[2][POINTS];
    assert_int_equal(sosmc_host_create(&h, &m, theta, 0), SOSMC_OK);
    assert_int_equal(sosmc_host_energies(h, POINTS, points, U[0]), SOSMC_OK);
    assert_int_equal(sosmc_energies(&m, theta, POINTS, points, 3, U[1]), SOSMC_OK);
    assert_memory_equal(U[0], U[1], sizeof U[0]);
    sosmc_host_free(h);
}

static int fails(const void *self, const double *at, const sosmc_batch *b, double *U, double *gx) { return 7; }
static int unscored(const void *self, const double *at, const sosmc_batch *b, double *D) { return 7; }
static int unprepared(const void *self, const double *at, void *prep) { return 1; }

static void failures_have_a_status(void **state)
{
    sosmc_model m = sosmc_mixture_model(&mixture), broken = m;
    sosmc_host *h = NULL;
    double U[POINTS], g[MODES], D[POINTS * MODES];
    assert_int_equal(sosmc_host_create(&h, &m, theta, -1), SOSMC_EINVAL);
    assert_null(h);
    broken.prepare = unprepared;
    assert_int_equal(sosmc_host_create(&h, &broken, theta, 0), SOSMC_EMODEL);
    assert_null(h);
    broken = m;
    broken.energy = fails;
    broken.grad_theta = NULL;
    broken.scores = NULL;
    assert_int_equal(sosmc_host_create(&h, &broken, theta, 0), SOSMC_OK);
    assert_int_equal(sosmc_host_energies(h, POINTS, points, U), SOSMC_EMODEL);
    assert_int_equal(sosmc_host_contract(h, POINTS, points, U, g), SOSMC_EINVAL);
    assert_int_equal(sosmc_host_scores(h, POINTS, points, D), SOSMC_EINVAL);
    sosmc_host_free(h);
    broken.scores = unscored;
    assert_int_equal(sosmc_host_create(&h, &broken, theta, 0), SOSMC_OK);
    assert_int_equal(sosmc_host_scores(h, POINTS, points, D), SOSMC_EMODEL);
    sosmc_host_free(h);
}

static void scores_at_points(void **state)
{
    static const double normal[DIM] = {1, -1, 0.5};
    sosmc_half_plane half = {.dim = DIM, .normal = normal, .offset = 0.1};
    sosmc_score score = sosmc_half_plane_reward(&half);
    double s[POINTS];
    assert_int_equal(sosmc_scores(&score, DIM, POINTS, points, s), SOSMC_OK);
    for (int i = 0; i < POINTS; i++) {
        double sum = 0;
        for (int j = 0; j < DIM; j++) sum += normal[j] * points[i * DIM + j];
        assert_true(s[i] == (sum > 0.1 ? 1 : 0));
    }
    assert_int_equal(sosmc_scores(&score, 0, POINTS, points, s), SOSMC_EINVAL);
}

/* ---------------------------------------------------------------------------- information of two parameters */

enum { DATA = 5, DRAWS = 20000 };
static const double y[DATA] = {-1.2, 3.1, 0.4, 2.2, -0.9};

/* x_d ~ N(t_0, exp t_1), y_d | x_d ~ N(x_d, 1), constants of the data aside. */
static int pair_energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        U[i] = 0.5 * DATA * t[1];
        for (int j = 0; j < DATA; j++) {
            double x = b->x[j * b->ld + i];
            U[i] += 0.5 * exp(-t[1]) * (x - t[0]) * (x - t[0]) + 0.5 * (x - y[j]) * (x - y[j]);
        }
    }
    return 0;
}

static int pair_grad_theta(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < DATA; j++) {
            double d = b->x[j * b->ld + i] - t[0];
            g[0] -= c[i] * exp(-t[1]) * d;
            g[1] += c[i] * 0.5 * (1 - exp(-t[1]) * d * d);
        }
    return 0;
}

static double log_likelihood(double mean, double log_variance)
{
    double v = 1 + exp(log_variance), sum = 0;
    for (int j = 0; j < DATA; j++) sum -= 0.5 * log(v) + 0.5 * (y[j] - mean) * (y[j] - mean) / v;
    return sum;
}

static void information_of_two_parameters(void **state)
{
    static double x[DRAWS * DATA];
    sosmc_model m = {.dim_x = DATA, .dim_theta = 2, .energy = pair_energy, .grad_theta = pair_grad_theta};
    const double at[2] = {0.72, 0.8}, e = 1e-4, v = exp(at[1]);
    double information[4], covariance[4], expected[4];
    fill(x, DRAWS * DATA);
    for (int i = 0; i < DRAWS; i++)
        for (int j = 0; j < DATA; j++) /* exact draws of the posterior */
            x[i * DATA + j] = (at[0] + v * y[j]) / (1 + v) + sqrt(v / (1 + v)) * x[i * DATA + j];
    for (int k = 0; k < 4; k++) {
        const double a[2] = {k < 2 ? e : 0, k < 2 ? 0 : e}, b[2] = {k % 2 ? 0 : e, k % 2 ? e : 0};
        expected[k] = -(log_likelihood(at[0] + a[0] + b[0], at[1] + a[1] + b[1]) -
                        log_likelihood(at[0] + a[0] - b[0], at[1] + a[1] - b[1]) -
                        log_likelihood(at[0] - a[0] + b[0], at[1] - a[1] + b[1]) +
                        log_likelihood(at[0] - a[0] - b[0], at[1] - a[1] - b[1])) /
                      (4 * e * e);
    }
    assert_int_equal(sosmc_information(&m, at, DRAWS, x, NULL, information, covariance), SOSMC_OK);
    for (int k = 0; k < 4; k++) assert_true(fabs(information[k] - expected[k]) < 0.06);
    for (int k = 0; k < 4; k++) { /* information times covariance is the identity */
        double sum = information[k / 2 * 2] * covariance[k % 2] + information[k / 2 * 2 + 1] * covariance[2 + k % 2];
        assert_true(fabs(sum - (k % 3 == 0)) < 1e-9);
    }
    double same[4];
    assert_int_equal(sosmc_louis(&m, at, DRAWS, x, NULL, same), SOSMC_OK);
    assert_memory_equal(same, information, sizeof same);
    assert_int_equal(sosmc_information(&m, at, DRAWS, x, NULL, information, NULL), SOSMC_OK);
}

/* log Z of an exponential family is convex: minus its second derivative is never positive definite. */
static void no_covariance_away_from_a_maximum(void **state)
{
    double x[POINTS], information[4], covariance[4];
    const double at[2] = {0, 1};
    sosmc_model m = toy_natural_model();
    fill(x, POINTS);
    assert_int_equal(sosmc_information(&m, at, POINTS, x, NULL, information, covariance), SOSMC_OK);
    for (int k = 0; k < 4; k++) assert_true(isfinite(information[k]) && isnan(covariance[k]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_parameters_at_points),
        cmocka_unit_test(hosts_call_the_model),
        cmocka_unit_test(a_model_may_want_everything_at_once),
        cmocka_unit_test(energies_agree_with_the_survey),
        cmocka_unit_test(failures_have_a_status),
        cmocka_unit_test(scores_at_points),
        cmocka_unit_test(information_of_two_parameters),
        cmocka_unit_test(no_covariance_away_from_a_maximum),
    };
    return cmocka_run_group_tests(tests, draw_points, NULL);
}
