/* theory_targets.c: targets and their exact values. A target is one function that returns value, slope and parameter
 * gradient together, so they cannot belong to different targets. */
#include "theory_targets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ the targets */

static double softplus(double t) { return t > 0 ? t + log1p(exp(-t)) : log1p(exp(t)); }

static theory_value skew_at(double x, const double *theta)
{
    double r = x - theta[0], s = softplus(2 * x);
    return (theory_value){0.5 * r * r + theta[1] * s, r + 2 * theta[1] / (1 + exp(-2 * x)), {-r, s}};
}
static double skew_curvature(const double *theta) { return 1 + fabs(theta[1]); }

static theory_value waves_at(double x, const double *theta)
{
    double s = sin(2 * x + 0.5), c = cos(2 * x + 0.5);
    return (theory_value){0.35 * x * x + theta[0] * s + theta[1] * x, 0.7 * x + 2 * theta[0] * c + theta[1], {s, x}};
}
static double waves_curvature(const double *theta) { return 0.7 + 4 * fabs(theta[0]); }

static theory_value normal_at(double x, const double *theta)
{
    double precision = exp(theta[1]), r = x - theta[0], U = 0.5 * precision * r * r;
    return (theory_value){U, precision * r, {-precision * r, U}};
}
static double normal_curvature(const double *theta) { return exp(theta[1]); }

const theory_target theory_skew = {"skew", skew_at, skew_curvature, 0};
const theory_target theory_waves = {"waves", waves_at, waves_curvature, 0};
const theory_target theory_kinked = {"kinked", skew_at, skew_curvature, 0.5};
const theory_target theory_normal = {"normal", normal_at, normal_curvature, 0};

double theory_energy(const theory_target *t, const double *theta, double x)
{
    return t->at(x, theta).U + t->kink * fabs(x);
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const theory_target *t = self;
    for (int i = 0; i < b->n; i++) {
        theory_value v = t->at(b->x[i], theta);
        U[i] = v.U + t->kink * fabs(b->x[i]);
        if (gx) gx[i] = v.slope;
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const theory_target *t = self;
    for (int i = 0; i < b->n; i++) {
        theory_value v = t->at(b->x[i], theta);
        for (int j = 0; j < THEORY_DIM; j++) g[j] += c[i] * v.du[j];
    }
    return 0;
}

/* of lambda kink |x|: soft thresholding; the identity when there is no kink */
static int prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    const theory_target *t = self;
    double cut = lambda * t->kink;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i];
        p[i] = x > cut ? x - cut : x < -cut ? x + cut : 0;
    }
    return 0;
}

sosmc_model theory_model(const theory_target *t)
{
    return (sosmc_model){
        .dim_x = 1, .dim_theta = THEORY_DIM, .self = t, .energy = energy, .grad_theta = grad_theta, .prox = prox};
}

/* ------------------------------------------------------------------------------------------------ exact values */

static const double limit = 16, spacing = 2.0 * 16 / (THEORY_NODES - 1);

void theory_tabulate(const theory_target *t, const double *theta, theory_lattice *grid)
{
    double least = INFINITY, sum = 0, total = 0;
    double *density = grid->mass;
    for (int i = 0; i < THEORY_NODES; i++) {
        grid->x[i] = -limit + spacing * i;
        density[i] = theory_energy(t, theta, grid->x[i]);
        least = fmin(least, density[i]);
    }
    for (int i = 0; i < THEORY_NODES; i++) density[i] = exp(least - density[i]);
    for (int i = 0; i < THEORY_NODES; i++) {
        total += i ? 0.5 * (density[i - 1] + density[i]) : 0;
        grid->cumulative[i] = total;
    }
    for (int i = 0; i < THEORY_NODES; i++) {
        int end = i == 0 || i == THEORY_NODES - 1;
        grid->mass[i] *= (end ? 1.0 : i % 2 ? 4.0 : 2.0) / 3.0;
        sum += grid->mass[i];
    }
    for (int j = 0; j < THEORY_DIM; j++) grid->du[j] = 0;
    for (int i = 0; i < THEORY_NODES; i++) {
        theory_value v = t->at(grid->x[i], theta);
        grid->mass[i] /= sum;
        grid->cumulative[i] /= total;
        for (int j = 0; j < THEORY_DIM; j++) grid->du[j] += grid->mass[i] * v.du[j];
    }
    grid->logz = log(sum * spacing) - least;
}

/* x with cumulative probability u; the density is taken as constant between two nodes, which moves the variance by
 * spacing^2 / 12 = 5e-6 */
static double quantile(const theory_lattice *g, double u)
{
    int low = 0, high = THEORY_NODES - 1;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (g->cumulative[mid] < u)
            low = mid;
        else
            high = mid;
    }
    double step = g->cumulative[high] - g->cumulative[low];
    return g->x[low] + (step > 0 ? (u - g->cumulative[low]) / step : 0.5) * spacing;
}

static int draw_exactly(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_uniforms(rng, 0, b, x);
    for (int i = 0; i < b->n; i++) x[i] = quantile(self, x[i]);
    return 0;
}

sosmc_source theory_exact_source(const theory_lattice *grid)
{
    return (sosmc_source){.self = grid, .draw = draw_exactly, .exact = 1};
}

static int draw_bell(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const theory_bell *bell = self;
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++) x[i] = bell->mean + bell->sd * x[i];
    return 0;
}

static int bell_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const double half_log_2pi = 0.91893853320467274178;
    const theory_bell *bell = self;
    for (int i = 0; i < b->n; i++) {
        double r = (b->x[i] - bell->mean) / bell->sd;
        lq[i] = -0.5 * r * r - log(bell->sd) - half_log_2pi;
    }
    return 0;
}

sosmc_source theory_bell_source(const theory_bell *bell)
{
    return (sosmc_source){.self = bell, .draw = draw_bell, .logpdf = bell_logpdf};
}

/* ------------------------------------------------------------------------------------------------ paths */

const double theory_data[THEORY_DATA] = {-1.6, -0.9, -0.3, 0.2, 0.5, 1.7};

void theory_gradient(const theory_target *t, const double *theta, const theory_lattice *grid, double *gradient)
{
    for (int j = 0; j < THEORY_DIM; j++) gradient[j] = -grid->du[j];
    for (int m = 0; m < THEORY_DATA; m++) {
        theory_value v = t->at(theory_data[m], theta);
        for (int j = 0; j < THEORY_DIM; j++) gradient[j] += v.du[j] / THEORY_DATA;
    }
}

int theory_descend(const theory_target *t, const double *start, double rate, theory_path *path)
{
    double gradient[THEORY_DIM];
    theory_lattice *grid = malloc(sizeof *grid);
    if (!grid) return -1;
    memcpy(path->theta[0], start, sizeof path->theta[0]);
    for (int k = 0; k < THEORY_STEPS; k++) {
        theory_tabulate(t, path->theta[k], grid);
        theory_gradient(t, path->theta[k], grid, gradient);
        for (int j = 0; j < THEORY_DIM; j++) path->theta[k + 1][j] = path->theta[k][j] - rate * gradient[j];
    }
    free(grid);
    return 0;
}

double theory_curvature(const theory_target *t, const theory_path *path)
{
    double largest = 0;
    for (int k = 0; k <= THEORY_STEPS; k++) largest = fmax(largest, t->curvature(path->theta[k]));
    return largest;
}

static void follow(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const theory_path *path = o->self;
    size_t bytes = (size_t)dim * sizeof *theta;
    memcpy(theta, path->theta[k + 1 < THEORY_STEPS ? k + 1 : THEORY_STEPS], bytes);
    if (path->seen) memcpy(path->seen, g, bytes);
}

sosmc_optimiser theory_follow(const theory_path *path)
{
    return (sosmc_optimiser){.name = "given path", .lr = 1, .self = path, .step = follow};
}
