/* exact_laws.c: see exact_laws.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exact_laws.h"
#include "toys.h"

#include <sosmc/models.h>

const double laws_prior_sd[LAWS_PARAMETERS] = {1, 0.3};

static double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2)); }
static const double half_log_2pi = 0.91893853320467274178;

/* Bisection: cdf(z) = u for an increasing cdf of one number. */
static double invert(double (*cdf)(const double *a, double z), const double *a, double u)
{
    double lo = -60, hi = 60;
    for (int k = 0; k < 60; k++) {
        double mid = 0.5 * (lo + hi);
        if (cdf(a, mid) < u)
            lo = mid;
        else
            hi = mid;
    }
    return 0.5 * (lo + hi);
}

/* ---------------------------------------------------------------------------- skewed */

/* Generalised logistic laws: F(z) = (1 + e^-z)^-shape. x_0 = a_0 + e^{a_1} z_0, x_1 = lean x_0 + z_1. */
static const double shape[LAWS_DIM] = {2.0, 0.6}, lean = 0.5;

static void skewed_residuals(const double *a, const double *x, double *z)
{
    z[0] = (x[0] - a[0]) * exp(-a[1]);
    z[1] = x[1] - lean * x[0];
}

static double skewed_potential(const double *a, const double *x, double *gx)
{
    double z[LAWS_DIM], g[LAWS_DIM], U = a[1];
    skewed_residuals(a, x, z);
    for (int j = 0; j < LAWS_DIM; j++) {
        double e = exp(-fabs(z[j])), soft = (z[j] < 0 ? -z[j] : 0) + log1p(e); /* log(1 + e^-z) */
        U += z[j] + (shape[j] + 1) * soft - log(shape[j]);
        g[j] = 1 - (shape[j] + 1) * (z[j] < 0 ? 1 : e) / (1 + e);
    }
    if (gx) {
        gx[0] = g[0] * exp(-a[1]) - lean * g[1];
        gx[1] = g[1];
    }
    return U;
}

static void skewed_draw(const double *a, const double *u, double *x)
{
    double z[LAWS_DIM];
    for (int j = 0; j < LAWS_DIM; j++) z[j] = -log(expm1(-log(u[j]) / shape[j]));
    x[0] = a[0] + exp(a[1]) * z[0];
    x[1] = lean * x[0] + z[1];
}

static void skewed_undo(const double *a, const double *x, double *u)
{
    double z[LAWS_DIM];
    skewed_residuals(a, x, z);
    for (int j = 0; j < LAWS_DIM; j++) u[j] = exp(-shape[j] * ((z[j] < 0 ? -z[j] : 0) + log1p(exp(-fabs(z[j])))));
}

const exact_law *laws_skewed(void)
{
    static const exact_law law = {
        .name = "skewed", .potential = skewed_potential, .draw = skewed_draw, .undo = skewed_undo};
    return &law;
}

/* ---------------------------------------------------------------------------- kinked */

/* exp(-(x - c)^2/2 - b |x|) is a piece of N(c + b, 1) below 0 and of N(c - b, 1) above; their factors. */
static void kinked_masses(const double *a, double *below, double *above)
{
    double c = a[0], b = exp(a[1]), common = half_log_2pi + 0.5 * b * b;
    *below = exp(common + b * c) * normal_cdf(-(c + b));
    *above = exp(common - b * c) * normal_cdf(c - b);
}

static double kinked_cdf(const double *a, double x)
{
    double below, above, c = a[0], b = exp(a[1]);
    kinked_masses(a, &below, &above);
    if (x < 0) return below * normal_cdf(x - c - b) / normal_cdf(-(c + b)) / (below + above);
    return 1 - above * normal_cdf(c - b - x) / normal_cdf(c - b) / (below + above);
}

static double kinked_potential(const double *a, const double *x, double *gx)
{
    double below, above, U;
    kinked_masses(a, &below, &above);
    U = LAWS_DIM * log(below + above);
    for (int j = 0; j < LAWS_DIM; j++) {
        double r = x[j] - a[0];
        U += 0.5 * r * r + exp(a[1]) * fabs(x[j]);
        if (gx) gx[j] = r;
    }
    return U;
}

static void kinked_draw(const double *a, const double *u, double *x)
{
    for (int j = 0; j < LAWS_DIM; j++) x[j] = invert(kinked_cdf, a, u[j]);
}

static void kinked_undo(const double *a, const double *x, double *u)
{
    for (int j = 0; j < LAWS_DIM; j++) u[j] = kinked_cdf(a, x[j]);
}

static void kinked_prox(const double *a, double lambda, const double *x, double *p)
{
    double by = lambda * exp(a[1]);
    for (int j = 0; j < LAWS_DIM; j++) p[j] = x[j] > by ? x[j] - by : x[j] < -by ? x[j] + by : 0;
}

const exact_law *laws_kinked(void)
{
    static const exact_law law = {
        .name = "kinked", .potential = kinked_potential, .draw = kinked_draw, .undo = kinked_undo, .prox = kinked_prox};
    return &law;
}

/* ---------------------------------------------------------------------------- what Langevin steps leave invariant */

static double normal_potential(const double *a, const double *x, double variance, double *gx)
{
    double U = 0;
    for (int j = 0; j < LAWS_DIM; j++) {
        double r = x[j] - a[0];
        U += 0.5 * r * r / variance + half_log_2pi + 0.5 * log(variance);
        if (gx) gx[j] = r / variance;
    }
    return U;
}

static double langevin_potential(const double *a, const double *x, double *gx)
{
    return normal_potential(a, x, exp(a[1]), gx);
}

static double stationary_variance(const double *a)
{
    double v = exp(a[1]);
    return v / (1 - LAWS_STEP / (2 * v));
}

static double langevin_density(const double *a, const double *x)
{
    return normal_potential(a, x, stationary_variance(a), NULL);
}

static double normal_cdf_of(const double *a, double z) { return normal_cdf(z); }

static void langevin_draw(const double *a, const double *u, double *x)
{
    for (int j = 0; j < LAWS_DIM; j++) x[j] = a[0] + sqrt(stationary_variance(a)) * invert(normal_cdf_of, a, u[j]);
}

static void langevin_undo(const double *a, const double *x, double *u)
{
    for (int j = 0; j < LAWS_DIM; j++) u[j] = normal_cdf((x[j] - a[0]) / sqrt(stationary_variance(a)));
}

const exact_law *laws_langevin(void)
{
    static const exact_law law = {.name = "langevin",
                                  .potential = langevin_potential,
                                  .density = langevin_density,
                                  .draw = langevin_draw,
                                  .undo = langevin_undo};
    return &law;
}

/* ---------------------------------------------------------------------------- draws */

enum { STREAM = SOSMC_STREAM_USER + 40 };

void laws_uniforms(uint64_t seed, uint32_t number, int n, double *u)
{
    sosmc_batch b = {.dim = 1, .n = n, .ld = n};
    sosmc_uniforms((sosmc_rng){.seed = seed, .stream = STREAM}, number, &b, u);
}

void laws_normals(uint64_t seed, int n, int dim, double *z)
{
    enum { MOST = 64 };
    double coordinates[8 * MOST];
    assert_in_range(dim, 1, MOST);
    for (int i = 0; i < n; i += 8) {
        sosmc_batch b = {.dim = dim, .n = n - i < 8 ? n - i : 8, .ld = 8, .first = i};
        sosmc_normals((sosmc_rng){.seed = seed, .stream = STREAM}, &b, coordinates);
        for (int k = 0; k < b.n; k++)
            for (int j = 0; j < dim; j++) z[(size_t)(i + k) * (size_t)dim + (size_t)j] = coordinates[j * 8 + k];
    }
}

void laws_begin(const exact_law *law, int n, uint64_t seed, double *a, double *x)
{
    double *u = malloc((size_t)n * LAWS_DIM * sizeof *u), one[LAWS_DIM];
    assert_non_null(u);
    for (int j = 0; j < LAWS_DIM; j++) laws_uniforms(seed, (uint32_t)j, n, u + (size_t)j * (size_t)n);
    laws_normals(seed, n, LAWS_PARAMETERS, a);
    for (size_t i = 0; i < (size_t)n; i++) {
        for (size_t j = 0; j < LAWS_PARAMETERS; j++) a[i * LAWS_PARAMETERS + j] *= laws_prior_sd[j];
        for (size_t j = 0; j < LAWS_DIM; j++) one[j] = u[j * (size_t)n + i];
        law->draw(a + i * LAWS_PARAMETERS, one, x + i * LAWS_DIM);
    }
    free(u);
}

void laws_undo(const exact_law *law, const double *a, const double *x, double *u)
{
    for (int j = 0; j < LAWS_PARAMETERS; j++) u[j] = normal_cdf(a[j] / laws_prior_sd[j]);
    law->undo(a, x, u + LAWS_PARAMETERS);
}

double laws_log_prior(const double *a)
{
    double sum = 0;
    for (int j = 0; j < LAWS_PARAMETERS; j++) sum -= 0.5 * a[j] * a[j] / (laws_prior_sd[j] * laws_prior_sd[j]);
    return sum;
}

double laws_log_law(const exact_law *law, const double *a, const double *x)
{
    return law->density ? -law->density(a, x) : -law->potential(a, x, NULL);
}

/* ---------------------------------------------------------------------------- the engine's model */

static void parameters_of(const laws_trip *trip, double t, int64_t i, double *a)
{
    const double *from = trip->from + (size_t)i * LAWS_PARAMETERS, *to = trip->to + (size_t)i * LAWS_PARAMETERS;
    double way = t / trip->steps;
    for (int j = 0; j < LAWS_PARAMETERS; j++) a[j] = (1 - way) * from[j] + way * to[j];
}

static void state_of(const sosmc_batch *b, int i, double *x)
{
    for (int j = 0; j < LAWS_DIM; j++) x[j] = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
}

static int trip_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const laws_trip *trip = self;
    for (int i = 0; i < b->n; i++) {
        double a[LAWS_PARAMETERS], x[LAWS_DIM], g[LAWS_DIM];
        parameters_of(trip, theta[0], b->first + i, a);
        state_of(b, i, x);
        U[i] = trip->law->potential(a, x, g);
        for (int j = 0; gx && j < LAWS_DIM; j++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = g[j];
    }
    return 0;
}

static int trip_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return 0; /* theta has its path, whatever the gradient */
}

static int trip_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const laws_trip *trip = self;
    for (int i = 0; i < b->n; i++) {
        double a[LAWS_PARAMETERS], x[LAWS_DIM], q[LAWS_DIM];
        parameters_of(trip, theta[0], b->first + i, a);
        state_of(b, i, x);
        trip->law->prox(a, lambda, x, q);
        for (int j = 0; j < LAWS_DIM; j++) p[(size_t)j * (size_t)b->ld + (size_t)i] = q[j];
    }
    return 0;
}

void laws_carry(const laws_trip *trip, const double *x, double *x_new, double *logG)
{
    enum { MOST = 16 };
    double times[MOST + 1];
    assert_in_range(trip->steps, 1, MOST);
    for (int k = 0; k <= trip->steps; k++) times[k] = k;
    const toy_path path = {.rows = trip->steps + 1, .theta = times};
    const sosmc_rows rows = {.data = x, .rows = trip->n, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem p = {.model = {.dim_x = LAWS_DIM,
                                 .dim_theta = 1,
                                 .self = trip,
                                 .energy = trip_energy,
                                 .grad_theta = trip_grad,
                                 .prox = trip->law->prox ? trip_prox : NULL},
                       .objective = sosmc_sampling((sosmc_score){0}),
                       .init = sosmc_rows_source(&rows)};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    p.init.exact = 1;
    cfg.scheme = trip->weighted ? sosmc_scheme_sosmc(trip->n) : sosmc_scheme_unweighted(trip->n);
    cfg.scheme.ess_min = 0;
    cfg.kernel = trip->kernel;
    cfg.optimiser = toy_follow(&path);
    cfg.seed = trip->seed;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, trip->steps + 1, NULL, NULL); /* iteration 0 does not move */
    if (status != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    assert_int_equal(sosmc_last(s)->nonfinite, 0);
    assert_int_equal(sosmc_cloud(s, x_new, logG), SOSMC_OK);
    for (int i = 0; i < trip->n; i++) logG[i] = trip->weighted ? logG[i] + log(trip->n) + sosmc_last(s)->logz : 0;
    sosmc_free(s);
}
