/* gaussians.c: models in which everything is Gaussian, and the marginal likelihood has a closed form. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

/* ---------------------------------------------------------------------------- the library's hierarchy */

static double hierarchy_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const sosmc_hierarchical *h = u->self;
    if (gradient) gradient[0] = 0.5 * h->dim * (theta[0] - sosmc_hierarchical_best(h));
    return -sosmc_hierarchical_loglik(h, theta[0]);
}

int untuned_open_hierarchy(untuned_problem *u, const char *data)
{
    int dim = (int)strtol(u->name + strlen("hier"), NULL, 10);
    const double zero = 0, mean = dim == 1 ? 3 : dim == 50 ? 8 : dim == 6 ? 60 : 1;
    sosmc_hierarchical *h = untuned_room(u, 1, sizeof *h);
    double *y = untuned_room(u, (size_t)dim, sizeof *y);
    if (!h || !y || untuned_start(u, 1, &zero)) return 1;
    if (dim > 1) drawn_normals(1100 + (uint32_t)dim, dim, y);
    for (int j = 0; j < dim; j++) y[j] = mean + 1.4 * y[j];
    *h = (sosmc_hierarchical){.dim = dim, .y = y};
    u->problem.model = sosmc_hierarchical_model(h);
    u->self = h;
    u->loss = hierarchy_loss;
    untuned_marginal(u, dim);
    return 0;
}

/* ---------------------------------------------------------------------------- parameters of different sizes */

/* y = A theta + x + e, x and e ~ N(0, I); the columns of A have size 1, 1000 and 0.01. */
enum { SCALES_ROWS = 40, SCALES_THETA = 3 };
typedef struct {
    double A[SCALES_ROWS][SCALES_THETA], y[SCALES_ROWS];
} scales_data;

/* y - A theta in one row. */
static double rest(const scales_data *s, const double *theta, int d)
{
    return s->y[d] - s->A[d][0] * theta[0] - s->A[d][1] * theta[1] - s->A[d][2] * theta[2];
}

static int scales_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = SCALES_ROWS * LOG_2PI;
    for (int d = 0; d < SCALES_ROWS; d++) {
        const double *restrict x = untuned_row(b, d);
        double r = rest(self, theta, d);
        for (int i = 0; i < b->n; i++) U[i] += 0.5 * (x[i] * x[i] + (r - x[i]) * (r - x[i]));
        for (int i = 0; gx && i < b->n; i++) gx[(size_t)d * (size_t)b->ld + (size_t)i] = 2 * x[i] - r;
    }
    return 0;
}

static int scales_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const scales_data *s = self;
    memset(D, 0, SCALES_THETA * (size_t)b->ld * sizeof *D);
    for (int d = 0; d < SCALES_ROWS; d++) {
        const double *restrict x = untuned_row(b, d);
        double r = rest(s, theta, d);
        for (int k = 0; k < SCALES_THETA; k++) {
            double *restrict to = D + (size_t)k * (size_t)b->ld;
            for (int i = 0; i < b->n; i++) to[i] -= s->A[d][k] * (r - x[i]);
        }
    }
    return 0;
}

static int scales_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[SCALES_THETA * UNTUNED_TILE];
    return untuned_contract(scales_scores, self, theta, b, SCALES_THETA, c, D, g);
}

/* y ~ N(A theta, 2 I) */
static double scales_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const scales_data *s = u->self;
    double sum = 0.5 * SCALES_ROWS * (LOG_2PI + log(2));
    for (int k = 0; gradient && k < SCALES_THETA; k++) gradient[k] = 0;
    for (int d = 0; d < SCALES_ROWS; d++) {
        double r = rest(s, theta, d);
        sum += 0.25 * r * r;
        for (int k = 0; gradient && k < SCALES_THETA; k++) gradient[k] -= 0.5 * s->A[d][k] * r;
    }
    return sum;
}

int untuned_open_scales_theta(untuned_problem *u, const char *data)
{
    static const double zeros[SCALES_THETA] = {0}, truth[SCALES_THETA] = {2, 0.003, 150};
    double z[3 * SCALES_ROWS];
    scales_data *s = untuned_room(u, 1, sizeof *s);
    if (!s || untuned_start(u, SCALES_THETA, zeros)) return 1;
    drawn_normals(1201, 3 * SCALES_ROWS, z);
    for (int d = 0; d < SCALES_ROWS; d++) {
        s->A[d][0] = 1;
        s->A[d][1] = 1000 * z[3 * d];
        s->A[d][2] = 0.01 * z[3 * d + 1];
        s->y[d] = sqrt(2) * z[3 * d + 2] - rest(s, truth, d);
    }
    u->problem.model = (sosmc_model){.dim_x = SCALES_ROWS,
                                     .dim_theta = SCALES_THETA,
                                     .tile = UNTUNED_TILE,
                                     .self = s,
                                     .energy = scales_energy,
                                     .grad_theta = scales_grad,
                                     .scores = scales_scores};
    u->self = s;
    u->loss = scales_loss;
    untuned_marginal(u, SCALES_ROWS);
    return 0;
}

/* ---------------------------------------------------------------------------- a series */

/* x_1 ~ N(0, sigma^2 / (1 - phi^2)), x_t ~ N(phi x_(t-1), sigma^2), y_t ~ N(x_t, 1); theta = (atanh phi, log sigma). */
enum { SERIES = 60, SERIES_THETA = 2 };
typedef struct {
    double y[SERIES];
} series_data;

static int series_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const series_data *s = self;
    double phi = tanh(theta[0]), precision = exp(-2 * theta[1]), first = 1 - phi * phi;
    size_t ld = (size_t)b->ld;
    for (int i = 0; i < b->n; i++) U[i] = SERIES * (LOG_2PI + theta[1]) - 0.5 * log(first);
    for (int t = 0; t < SERIES; t++) {
        const double *restrict x = untuned_row(b, t), *restrict before = t ? untuned_row(b, t - 1) : x;
        double weight = precision * (t ? 1 : first), slope = t ? phi : 0;
        for (int i = 0; i < b->n; i++) {
            double step = x[i] - slope * before[i], off = x[i] - s->y[t];
            U[i] += 0.5 * (weight * step * step + off * off);
            if (!gx) continue;
            if (t) gx[(size_t)(t - 1) * ld + (size_t)i] -= weight * slope * step;
            gx[(size_t)t * ld + (size_t)i] = weight * step + off;
        }
    }
    return 0;
}

static int series_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    double phi = tanh(theta[0]), precision = exp(-2 * theta[1]), first = 1 - phi * phi;
    double *restrict by_phi = D, *restrict by_sigma = D + b->ld;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i];
        by_phi[i] = phi * (1 - first * precision * x * x);
        by_sigma[i] = SERIES - first * precision * x * x;
    }
    for (int t = 1; t < SERIES; t++) {
        const double *restrict x = untuned_row(b, t), *restrict before = untuned_row(b, t - 1);
        for (int i = 0; i < b->n; i++) {
            double step = x[i] - phi * before[i];
            by_phi[i] -= first * precision * step * before[i];
            by_sigma[i] -= precision * step * step;
        }
    }
    return 0;
}

static int series_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[SERIES_THETA * UNTUNED_TILE];
    return untuned_contract(series_scores, self, theta, b, SERIES_THETA, c, D, g);
}

/* Kalman's filter. The prediction of x_t is N(mean, variance). */
static double filter(const series_data *s, double atanh_phi, double log_sigma)
{
    double phi = tanh(atanh_phi), noise = exp(2 * log_sigma), mean = 0, variance = noise / (1 - phi * phi), loss = 0;
    for (int t = 0; t < SERIES; t++) {
        double off = s->y[t] - mean, gain = variance / (variance + 1);
        loss += 0.5 * (LOG_2PI + log1p(variance) + off * off / (variance + 1));
        mean = phi * (mean + gain * off);
        variance = phi * phi * (1 - gain) * variance + noise;
    }
    return loss;
}

static double series_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const double h = 1e-5;
    const series_data *s = u->self;
    if (gradient) {
        gradient[0] = (filter(s, theta[0] + h, theta[1]) - filter(s, theta[0] - h, theta[1])) / (2 * h);
        gradient[1] = (filter(s, theta[0], theta[1] + h) - filter(s, theta[0], theta[1] - h)) / (2 * h);
    }
    return filter(s, theta[0], theta[1]);
}

int untuned_open_series(untuned_problem *u, const char *data)
{
    static const double zeros[SERIES_THETA] = {0};
    const double phi = 0.9, sigma = 0.7;
    double z[2 * SERIES], x = 0;
    series_data *s = untuned_room(u, 1, sizeof *s);
    if (!s || untuned_start(u, SERIES_THETA, zeros)) return 1;
    drawn_normals(1301, 2 * SERIES, z);
    for (int t = 0; t < SERIES; t++) {
        x = t ? phi * x + sigma * z[2 * t] : sigma / sqrt(1 - phi * phi) * z[0];
        s->y[t] = x + z[2 * t + 1];
    }
    u->problem.model = (sosmc_model){.dim_x = SERIES,
                                     .dim_theta = SERIES_THETA,
                                     .tile = UNTUNED_TILE,
                                     .self = s,
                                     .energy = series_energy,
                                     .grad_theta = series_grad,
                                     .scores = series_scores};
    u->self = s;
    u->loss = series_loss;
    untuned_marginal(u, SERIES);
    return 0;
}
