/* out_of_sample.c: problems of the second table whose latent variables depend on each other. */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

/* ---------------------------------------------------------------------------- volatility */

/* x_1 ~ N(mu, sigma^2 / (1 - phi^2)), x_t ~ N(mu + phi (x_(t-1) - mu), sigma^2), y_t ~ N(0, e^(x_t));
 * theta = (atanh phi, mu, log sigma). */
enum { TIMES = 40, VOLATILITY_THETA = 3 };
typedef struct {
    double y[TIMES];
} volatility_data;

static int volatility_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const volatility_data *s = self;
    double phi = tanh(theta[0]), mu = theta[1], precision = exp(-2 * theta[2]), first = 1 - phi * phi, e[UNTUNED_TILE];
    size_t ld = (size_t)b->ld;
    if (b->n > UNTUNED_TILE) return 1;
    for (int i = 0; i < b->n; i++) U[i] = TIMES * (LOG_2PI + theta[2]) - 0.5 * log(first);
    for (int t = 0; t < TIMES; t++) {
        const double *restrict x = untuned_row(b, t), *restrict before = t ? untuned_row(b, t - 1) : x;
        double weight = precision * (t ? 1 : first), slope = t ? phi : 0, square = s->y[t] * s->y[t];
        for (int i = 0; i < b->n; i++) e[i] = -x[i];
        sosmc_exp(b->simd, b->n, e, e);
        for (int i = 0; i < b->n; i++) {
            double step = x[i] - mu - slope * (before[i] - mu);
            U[i] += 0.5 * (weight * step * step + x[i] + square * e[i]);
            if (!gx) continue;
            if (t) gx[(size_t)(t - 1) * ld + (size_t)i] -= weight * slope * step;
            gx[(size_t)t * ld + (size_t)i] = weight * step + 0.5 * (1 - square * e[i]);
        }
    }
    return 0;
}

static int volatility_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    double phi = tanh(theta[0]), mu = theta[1], precision = exp(-2 * theta[2]), first = 1 - phi * phi;
    double *restrict by_phi = D, *restrict by_mu = D + b->ld, *restrict by_sigma = by_mu + b->ld;
    for (int i = 0; i < b->n; i++) {
        double off = b->x[i] - mu;
        by_phi[i] = phi * (1 - first * precision * off * off);
        by_mu[i] = -first * precision * off;
        by_sigma[i] = TIMES - first * precision * off * off;
    }
    for (int t = 1; t < TIMES; t++) {
        const double *restrict x = untuned_row(b, t), *restrict before = untuned_row(b, t - 1);
        for (int i = 0; i < b->n; i++) {
            double step = x[i] - mu - phi * (before[i] - mu);
            by_phi[i] -= first * precision * step * (before[i] - mu);
            by_mu[i] -= (1 - phi) * precision * step;
            by_sigma[i] -= precision * step * step;
        }
    }
    return 0;
}

static int volatility_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[VOLATILITY_THETA * UNTUNED_TILE];
    return untuned_contract(volatility_scores, self, theta, b, VOLATILITY_THETA, c, D, g);
}

/* A filter on a grid of z = (x - mu) / sd, where sd is that of x_1: z_1 ~ N(0, 1) and z_t ~ N(phi z_(t-1), 1 - phi^2). The
 * trapezoidal rule has no error to speak of while the nodes are closer than 0.7 sqrt(1 - phi^2). */
enum { GRID = 161 };
static double grid_filter(const volatility_data *s, const double *theta)
{
    const double limit = 10, width = 2 * limit / (GRID - 1);
    static const double root_2pi = 2.50662827463100050242;
    double phi = tanh(theta[0]), noise = sqrt(1 - phi * phi), sd = exp(theta[2]) / noise, loss = 0;
    double chance[GRID], next[GRID], move[GRID][GRID];
    for (int k = 0; k < GRID; k++) {
        double z = -limit + width * k;
        chance[k] = exp(-0.5 * z * z) / root_2pi;
        for (int m = 0; m < GRID; m++) {
            double r = (-limit + width * m - phi * z) / noise;
            move[k][m] = width * exp(-0.5 * r * r) / (root_2pi * noise);
        }
    }
    for (int t = 0; t < TIMES; t++) {
        double sum = 0;
        for (int k = 0; k < GRID; k++) {
            double x = theta[1] + sd * (-limit + width * k);
            chance[k] *= exp(-0.5 * (LOG_2PI + x + s->y[t] * s->y[t] * exp(-x)));
            sum += width * chance[k];
        }
        loss -= log(sum);
        memset(next, 0, sizeof next);
        for (int k = 0; k < GRID; k++)
            for (int m = 0; m < GRID; m++) next[m] += chance[k] / sum * move[k][m];
        memcpy(chance, next, sizeof chance);
    }
    return loss;
}

static double volatility_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const double h = 1e-5;
    double at[VOLATILITY_THETA];
    for (int k = 0; gradient && k < VOLATILITY_THETA; k++) {
        memcpy(at, theta, sizeof at);
        at[k] = theta[k] + h;
        gradient[k] = grid_filter(u->self, at);
        at[k] = theta[k] - h;
        gradient[k] = (gradient[k] - grid_filter(u->self, at)) / (2 * h);
    }
    return grid_filter(u->self, theta);
}

int untuned_open_volatility(untuned_problem *u, const char *data)
{
    static const double zeros[VOLATILITY_THETA] = {0};
    const double phi = 0.85, mu = -0.5, sigma = 0.7;
    double z[2 * TIMES], x = 0;
    volatility_data *s = untuned_room(u, 1, sizeof *s);
    if (!s || untuned_start(u, VOLATILITY_THETA, zeros)) return 1;
    drawn_normals(1931, 2 * TIMES, z);
    for (int t = 0; t < TIMES; t++) {
        x = t ? mu + phi * (x - mu) + sigma * z[2 * t] : mu + sigma / sqrt(1 - phi * phi) * z[0];
        s->y[t] = exp(0.5 * x) * z[2 * t + 1];
    }
    u->problem.model = (sosmc_model){.dim_x = TIMES,
                                     .dim_theta = VOLATILITY_THETA,
                                     .tile = UNTUNED_TILE,
                                     .self = s,
                                     .energy = volatility_energy,
                                     .grad_theta = volatility_grad,
                                     .scores = volatility_scores};
    u->self = s;
    u->loss = volatility_loss;
    untuned_marginal(u, TIMES);
    return 0;
}

/* ---------------------------------------------------------------------------- crossed effects */

/* y_rc ~ N(mu + a_r + b_c, e^(2 t_3)), a_r ~ N(0, e^(2 t_1)), b_c ~ N(0, e^(2 t_2)), mu = t_0: raters and objects, every rater has
 * measured every object once. Particles are (a, b). */
enum { RATERS = 8, OBJECTS = 5, EFFECTS = RATERS + OBJECTS, CROSSED_THETA = 4 };
typedef struct {
    double y[RATERS][OBJECTS];
} crossed_data;

static int crossed_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const crossed_data *s = self;
    double precision[CROSSED_THETA], constant = RATERS * OBJECTS * (0.5 * LOG_2PI + theta[3]);
    size_t ld = (size_t)b->ld;
    for (int k = 1; k < CROSSED_THETA; k++) precision[k] = exp(-2 * theta[k]);
    constant += RATERS * theta[1] + OBJECTS * theta[2] + 0.5 * EFFECTS * LOG_2PI;
    for (int i = 0; i < b->n; i++) U[i] = constant;
    for (int j = 0; j < EFFECTS; j++) {
        const double *restrict x = untuned_row(b, j);
        double weight = precision[j < RATERS ? 1 : 2];
        for (int i = 0; i < b->n; i++) U[i] += 0.5 * weight * x[i] * x[i];
        for (int i = 0; gx && i < b->n; i++) gx[(size_t)j * ld + (size_t)i] = weight * x[i];
    }
    for (int r = 0; r < RATERS; r++)
        for (int c = 0; c < OBJECTS; c++) {
            size_t rater = (size_t)r * ld, object = (size_t)(RATERS + c) * ld;
            for (size_t i = 0; i < (size_t)b->n; i++) {
                double off = theta[0] + b->x[rater + i] + b->x[object + i] - s->y[r][c];
                U[i] += 0.5 * precision[3] * off * off;
                if (!gx) continue;
                gx[rater + i] += precision[3] * off;
                gx[object + i] += precision[3] * off;
            }
        }
    return 0;
}

static int crossed_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const crossed_data *s = self;
    double precision[CROSSED_THETA];
    size_t ld = (size_t)b->ld;
    for (int k = 1; k < CROSSED_THETA; k++) precision[k] = exp(-2 * theta[k]);
    for (size_t i = 0; i < (size_t)b->n; i++) {
        D[i] = 0;
        D[ld + i] = RATERS;
        D[2 * ld + i] = OBJECTS;
        D[3 * ld + i] = RATERS * OBJECTS;
    }
    for (int j = 0; j < EFFECTS; j++) {
        const double *restrict x = untuned_row(b, j);
        int k = j < RATERS ? 1 : 2;
        for (int i = 0; i < b->n; i++) D[(size_t)k * ld + (size_t)i] -= precision[k] * x[i] * x[i];
    }
    for (int r = 0; r < RATERS; r++)
        for (int c = 0; c < OBJECTS; c++)
            for (int i = 0; i < b->n; i++) {
                double off = theta[0] + untuned_row(b, r)[i] + untuned_row(b, RATERS + c)[i] - s->y[r][c];
                D[i] += precision[3] * off;
                D[3 * ld + (size_t)i] -= precision[3] * off * off;
            }
    return 0;
}

static int crossed_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[CROSSED_THETA * UNTUNED_TILE];
    return untuned_contract(crossed_scores, self, theta, b, CROSSED_THETA, c, D, g);
}

/* The sums of squares of the analysis of variance: of the mean, of raters, of objects and of the rest. */
static void sums_of_squares(const crossed_data *s, double mu, double *squares, double *mean_off)
{
    double rater[RATERS] = {0}, object[OBJECTS] = {0}, mean = 0, all = 0;
    for (int r = 0; r < RATERS; r++)
        for (int c = 0; c < OBJECTS; c++) {
            rater[r] += s->y[r][c] / OBJECTS;
            object[c] += s->y[r][c] / RATERS;
            mean += s->y[r][c] / (RATERS * OBJECTS);
        }
    memset(squares, 0, 4 * sizeof *squares);
    *mean_off = mean - mu;
    squares[0] = RATERS * OBJECTS * (mean - mu) * (mean - mu);
    for (int r = 0; r < RATERS; r++) squares[1] += OBJECTS * (rater[r] - mean) * (rater[r] - mean);
    for (int c = 0; c < OBJECTS; c++) squares[2] += RATERS * (object[c] - mean) * (object[c] - mean);
    for (int r = 0; r < RATERS; r++)
        for (int c = 0; c < OBJECTS; c++) all += (s->y[r][c] - mean) * (s->y[r][c] - mean);
    squares[3] = all - squares[1] - squares[2];
}

/* The covariance of y has four eigenvalues; row k of `share` says how much of the variances of a, b and the noise is in the k-th. */
static double crossed_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    static const double freedom[4] = {1, RATERS - 1, OBJECTS - 1, (RATERS - 1) * (OBJECTS - 1)};
    static const double share[4][3] = {{OBJECTS, RATERS, 1}, {OBJECTS, 0, 1}, {0, RATERS, 1}, {0, 0, 1}};
    double squares[4], mean_off, loss = 0;
    sums_of_squares(u->self, theta[0], squares, &mean_off);
    for (int k = 0; gradient && k < CROSSED_THETA; k++) gradient[k] = 0;
    for (int k = 0; k < 4; k++) {
        double variance = 0;
        for (int m = 0; m < 3; m++) variance += share[k][m] * exp(2 * theta[m + 1]);
        loss += 0.5 * (freedom[k] * (LOG_2PI + log(variance)) + squares[k] / variance);
        for (int m = 0; gradient && m < 3; m++)
            gradient[m + 1] += (freedom[k] - squares[k] / variance) / variance * share[k][m] * exp(2 * theta[m + 1]);
        if (gradient && k == 0) gradient[0] = -RATERS * OBJECTS * mean_off / variance;
    }
    return loss;
}

int untuned_open_crossed(untuned_problem *u, const char *data)
{
    static const double zeros[CROSSED_THETA] = {0};
    double x[EFFECTS], noise[RATERS * OBJECTS];
    crossed_data *s = untuned_room(u, 1, sizeof *s);
    if (!s || untuned_start(u, CROSSED_THETA, zeros)) return 1;
    drawn_normals(1941, EFFECTS, x);
    drawn_normals(1942, RATERS * OBJECTS, noise);
    for (int r = 0; r < RATERS; r++)
        for (int c = 0; c < OBJECTS; c++)
            s->y[r][c] = 5 + 1.5 * x[r] + 0.8 * x[RATERS + c] + 0.5 * noise[r * OBJECTS + c];
    u->problem.model = (sosmc_model){.dim_x = EFFECTS,
                                     .dim_theta = CROSSED_THETA,
                                     .tile = UNTUNED_TILE,
                                     .self = s,
                                     .energy = crossed_energy,
                                     .grad_theta = crossed_grad,
                                     .scores = crossed_scores};
    u->self = s;
    u->loss = crossed_loss;
    untuned_marginal(u, RATERS * OBJECTS);
    return 0;
}
