/* toys.c: see toys.h. Written for reading; the hierarchies, which have many coordinates, run along the rows. */
#include "toys.h"

#include <math.h>
#include <string.h>

static const double log_2pi = 1.8378770664093454836;

static double at(const sosmc_batch *b, int j, int i) { return b->x[(size_t)j * (size_t)b->ld + (size_t)i]; }
static void put(const sosmc_batch *b, double *v, int j, int i, double value)
{
    if (v) v[(size_t)j * (size_t)b->ld + (size_t)i] = value;
}

/* ---------------------------------------------------------------------------- N(theta, v I) */

static int gauss_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy_gauss *toy = self;
    for (int i = 0; i < b->n; i++) {
        U[i] = 0;
        for (int j = 0; j < b->dim; j++) {
            double r = at(b, j, i) - theta[j];
            U[i] += 0.5 * r * r / toy->variance;
            put(b, gx, j, i, r / toy->variance);
        }
    }
    return 0;
}

static int gauss_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const toy_gauss *toy = self;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[j] += c[i] * (theta[j] - at(b, j, i)) / toy->variance;
    return 0;
}

sosmc_model toy_gauss_model(const toy_gauss *toy)
{
    return (sosmc_model){.dim_x = toy->dim,
                         .dim_theta = toy->dim,
                         .tile = 8,
                         .self = toy,
                         .energy = gauss_energy,
                         .grad_theta = gauss_grad};
}

double toy_gauss_logz(const toy_gauss *toy) { return 0.5 * toy->dim * (log_2pi + log(toy->variance)); }

/* ---------------------------------------------------------------------------- location and log precision */

static int scaled_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    double precision = exp(theta[1]);
    for (int i = 0; i < b->n; i++) {
        double r = at(b, 0, i) - theta[0];
        U[i] = 0.5 * precision * r * r;
        put(b, gx, 0, i, precision * r);
    }
    return 0;
}

static int scaled_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double precision = exp(theta[1]);
    for (int i = 0; i < b->n; i++) {
        double r = at(b, 0, i) - theta[0];
        g[0] -= c[i] * precision * r;
        g[1] += c[i] * 0.5 * precision * r * r;
    }
    return 0;
}

sosmc_model toy_scaled_model(void)
{
    return (sosmc_model){.dim_x = 1, .dim_theta = 2, .tile = 16, .energy = scaled_energy, .grad_theta = scaled_grad};
}

double toy_scaled_logz(const double *theta) { return 0.5 * (log_2pi - theta[1]); }

/* ---------------------------------------------------------------------------- natural parameters */

static int natural_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        double x = at(b, 0, i);
        U[i] = 0.5 * theta[1] * x * x - theta[0] * x;
        put(b, gx, 0, i, theta[1] * x - theta[0]);
    }
    return 0;
}

static int natural_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) {
        double x = at(b, 0, i);
        g[0] -= c[i] * x;
        g[1] += c[i] * 0.5 * x * x;
    }
    return 0;
}

sosmc_model toy_natural_model(void)
{
    return (sosmc_model){.dim_x = 1, .dim_theta = 2, .energy = natural_energy, .grad_theta = natural_grad};
}

double toy_natural_logz(const double *theta)
{
    return 0.5 * (log_2pi - log(theta[1]) + theta[0] * theta[0] / theta[1]);
}

/* ---------------------------------------------------------------------------- a skewed target */

static double softplus(double t) { return t > 0 ? t + log1p(exp(-t)) : log1p(exp(t)); }

static int skew_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        double x = at(b, 0, i), r = x - theta[0];
        U[i] = 0.5 * r * r + theta[1] * softplus(2 * x);
        put(b, gx, 0, i, r + theta[1] * 2 / (1 + exp(-2 * x)));
    }
    return 0;
}

static int skew_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) {
        double x = at(b, 0, i);
        g[0] -= c[i] * (x - theta[0]);
        g[1] += c[i] * softplus(2 * x);
    }
    return 0;
}

sosmc_model toy_skew_model(void)
{
    return (sosmc_model){.dim_x = 1, .dim_theta = 2, .tile = 8, .energy = skew_energy, .grad_theta = skew_grad};
}

/* ---------------------------------------------------------------------------- hierarchies */

double toy_data_mean(const toy_data *toy)
{
    double sum = 0;
    for (int d = 0; d < toy->dim; d++) sum += toy->y[d];
    return sum / toy->dim;
}

double toy_data_square(const toy_data *toy)
{
    double sum = 0;
    for (int d = 0; d < toy->dim; d++) sum += toy->y[d] * toy->y[d];
    return sum / toy->dim;
}

/* sum_d log N(y_d; mean, variance) */
static double normal_loglik(const toy_data *toy, double mean, double variance)
{
    double sum = 0;
    for (int d = 0; d < toy->dim; d++) sum += (toy->y[d] - mean) * (toy->y[d] - mean);
    return -0.5 * (sum / variance + toy->dim * (log_2pi + log(variance)));
}

static int hierarchy_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy_data *toy = self;
    for (int i = 0; i < b->n; i++) U[i] = b->dim * log_2pi;
    for (int d = 0; d < b->dim; d++) {
        const double *x = b->x + (size_t)d * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) {
            double prior = x[i] - theta[0], data = x[i] - toy->y[d];
            U[i] += 0.5 * (prior * prior + data * data);
            put(b, gx, d, i, prior + data);
        }
    }
    return 0;
}

static int hierarchy_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int d = 0; d < b->dim; d++)
        for (int i = 0; i < b->n; i++) g[0] += c[i] * (theta[0] - at(b, d, i));
    return 0;
}

sosmc_model toy_hierarchy_model(const toy_data *toy)
{
    return (sosmc_model){
        .dim_x = toy->dim, .dim_theta = 1, .self = toy, .energy = hierarchy_energy, .grad_theta = hierarchy_grad};
}

double toy_hierarchy_loglik(const toy_data *toy, double theta) { return normal_loglik(toy, theta, 2); }

static int spread_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const toy_data *toy = self;
    double precision = exp(-theta[0]);
    for (int i = 0; i < b->n; i++) U[i] = b->dim * (log_2pi + 0.5 * theta[0]);
    for (int d = 0; d < b->dim; d++) {
        const double *x = b->x + (size_t)d * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) {
            double data = x[i] - toy->y[d];
            U[i] += 0.5 * (precision * x[i] * x[i] + data * data);
            put(b, gx, d, i, precision * x[i] + data);
        }
    }
    return 0;
}

static int spread_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double precision = exp(-theta[0]);
    for (int d = 0; d < b->dim; d++)
        for (int i = 0; i < b->n; i++) g[0] += c[i] * 0.5 * (1 - precision * at(b, d, i) * at(b, d, i));
    return 0;
}

sosmc_model toy_spread_model(const toy_data *toy)
{
    return (sosmc_model){
        .dim_x = toy->dim, .dim_theta = 1, .self = toy, .energy = spread_energy, .grad_theta = spread_grad};
}

double toy_spread_loglik(const toy_data *toy, double theta) { return normal_loglik(toy, 0, 1 + exp(theta)); }

/* ---------------------------------------------------------------------------- laws and rewards */

static int normal_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const toy_normal *law = self;
    sosmc_normals(rng, b, x);
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double *xi = x + (size_t)j * (size_t)b->ld + (size_t)i;
            *xi = law->mean[j] + law->sd * *xi;
        }
    return 0;
}

static int normal_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const toy_normal *law = self;
    for (int i = 0; i < b->n; i++) {
        lq[i] = -b->dim * (0.5 * log_2pi + log(law->sd));
        for (int j = 0; j < b->dim; j++) {
            double r = (at(b, j, i) - law->mean[j]) / law->sd;
            lq[i] -= 0.5 * r * r;
        }
    }
    return 0;
}

sosmc_source toy_normal_source(const toy_normal *law)
{
    return (sosmc_source){.self = law, .draw = normal_draw, .logpdf = normal_logpdf};
}

sosmc_source toy_normal_exact(const toy_normal *law)
{
    return (sosmc_source){.self = law, .draw = normal_draw, .exact = 1};
}

static double reward_at(const toy_reward *r, double x)
{
    return r->slope * x - 0.5 * r->curvature * (x - r->centre) * (x - r->centre);
}

static int reward_eval(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) {
        s[i] = 0;
        for (int j = 0; j < b->dim; j++) s[i] += reward_at(self, at(b, j, i));
    }
    return 0;
}

sosmc_score toy_reward_score(const toy_reward *reward) { return (sosmc_score){.self = reward, .eval = reward_eval}; }

/* ---------------------------------------------------------------------------- a given path of theta */

static void follow(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const toy_path *path = o->self;
    size_t row = (size_t)(k + 1 < path->rows ? k + 1 : path->rows - 1), bytes = (size_t)dim * sizeof(double);
    memcpy(theta, path->theta + row * (size_t)dim, bytes);
    if (path->seen) memcpy(path->seen, g, bytes);
}

sosmc_optimiser toy_follow(const toy_path *path)
{
    return (sosmc_optimiser){.name = "given path", .lr = 1, .self = path, .step = follow};
}

/* ---------------------------------------------------------------------------- quadrature */

void toy_integrate(const sosmc_model *model, const double *theta, toy_grid *grid)
{
    const double limit = 16, dx = 2 * limit / (TOY_POINTS - 1);
    double least = INFINITY, sum = 0;
    for (int i = 0; i < TOY_POINTS; i++) grid->x[i] = -limit + i * dx;
    sosmc_batch b = {.x = grid->x, .dim = 1, .n = TOY_POINTS, .ld = TOY_POINTS};
    (void)model->energy(model->self, theta, &b, grid->U, NULL);
    for (int i = 0; i < TOY_POINTS; i++) least = fmin(least, grid->U[i]);
    for (int i = 0; i < TOY_POINTS; i++) sum += grid->p[i] = exp(least - grid->U[i]);
    for (int i = 0; i < TOY_POINTS; i++) grid->p[i] /= sum;
    grid->logz = log(sum * dx) - least;
}

double toy_mean(const toy_grid *grid, double power)
{
    double sum = 0;
    for (int i = 0; i < TOY_POINTS; i++) sum += grid->p[i] * pow(grid->x[i], power);
    return sum;
}

double toy_mean_energy(const toy_grid *grid)
{
    double sum = 0;
    for (int i = 0; i < TOY_POINTS; i++) sum += grid->p[i] * grid->U[i];
    return sum;
}

double toy_mean_reward(const toy_grid *grid, const toy_reward *reward)
{
    double sum = 0;
    for (int i = 0; i < TOY_POINTS; i++) sum += grid->p[i] * reward_at(reward, grid->x[i]);
    return sum;
}

double toy_kl(const toy_grid *from, const toy_grid *to)
{
    double sum = 0;
    for (int i = 0; i < TOY_POINTS; i++) sum += from->p[i] * (to->U[i] - from->U[i]);
    return sum + to->logz - from->logz;
}
