/* likelihoods.c: energies fitted to data, with log Z in closed form or by quadrature on the line. */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

enum { PARAMETERS = 3, DATA_MOST = 400 };
typedef struct {
    int count;
    double data[2 * DATA_MOST];
    sosmc_rows rows;
} likelihood_data;

static void fit_to(untuned_problem *u, likelihood_data *l)
{
    l->rows = (sosmc_rows){.data = l->data, .rows = l->count, .mode = SOSMC_ROWS_IN_ORDER};
    u->problem.objective = sosmc_likelihood(sosmc_rows_source(&l->rows), l->count);
    u->nats = l->count;
    u->self = l;
}

/* ---------------------------------------------------------------------------- a banana */

/* U = e^(t_0 + x_1) - 2 x_1 + e^(t_2) (x_2 - t_1 x_1^2)^2 / 2; e^(x_1) has a gamma law. log Z = log(2 pi) / 2 - 2 t_0 - t_2 / 2. */
static int banana_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *x = b->x, *y = untuned_row(b, 1);
    double precision = exp(theta[2]), e[UNTUNED_TILE];
    if (b->n > UNTUNED_TILE) return 1;
    for (int i = 0; i < b->n; i++) e[i] = theta[0] + x[i];
    sosmc_exp(b->simd, b->n, e, e);
    for (int i = 0; i < b->n; i++) {
        double r = y[i] - theta[1] * x[i] * x[i];
        U[i] = e[i] - 2 * x[i] + 0.5 * precision * r * r;
        if (!gx) continue;
        gx[i] = e[i] - 2 - 2 * precision * r * theta[1] * x[i];
        gx[b->ld + i] = precision * r;
    }
    return 0;
}

static int banana_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const double *x = b->x, *y = untuned_row(b, 1);
    double precision = exp(theta[2]), *e = D, *by_curve = D + b->ld, *by_precision = by_curve + b->ld;
    for (int i = 0; i < b->n; i++) e[i] = theta[0] + x[i];
    sosmc_exp(b->simd, b->n, e, e);
    for (int i = 0; i < b->n; i++) {
        double r = y[i] - theta[1] * x[i] * x[i];
        by_curve[i] = -precision * r * x[i] * x[i];
        by_precision[i] = 0.5 * precision * r * r;
    }
    return 0;
}

static int banana_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[PARAMETERS * UNTUNED_TILE];
    return untuned_contract(banana_scores, self, theta, b, PARAMETERS, c, D, g);
}

static double banana_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const likelihood_data *l = u->self;
    double first = 0, curve = 0, square = 0, linear = 0, precision = exp(theta[2]);
    for (int i = 0; i < l->count; i++) {
        double x = l->data[2 * i], r = l->data[2 * i + 1] - theta[1] * x * x;
        first += exp(theta[0] + x) / l->count;
        linear += 2 * x / l->count;
        curve += precision * r * x * x / l->count;
        square += 0.5 * precision * r * r / l->count;
    }
    if (gradient) {
        gradient[0] = first - 2;
        gradient[1] = -curve;
        gradient[2] = square - 0.5;
    }
    return first - linear + square + 0.5 * LOG_2PI - 2 * theta[0] - 0.5 * theta[2];
}

int untuned_open_banana(untuned_problem *u, const char *data)
{
    static const double start[PARAMETERS] = {1, -0.5, -0.5};
    likelihood_data *l = untuned_room(u, 1, sizeof *l);
    double z[DATA_MOST], a[DATA_MOST], b[DATA_MOST];
    if (!l || untuned_start(u, PARAMETERS, start)) return 1;
    l->count = 400;
    drawn_normals(1401, l->count, z);
    drawn_uniforms(1402, l->count, a);
    drawn_uniforms(1403, l->count, b);
    for (int i = 0; i < l->count; i++) {
        double x = log(-2 * log(a[i] * b[i]));
        l->data[2 * i] = x;
        l->data[2 * i + 1] = 0.7 * x * x + 0.5 * z[i];
    }
    u->problem.model = (sosmc_model){.dim_x = 2,
                                     .dim_theta = PARAMETERS,
                                     .tile = UNTUNED_TILE,
                                     .self = l,
                                     .energy = banana_energy,
                                     .grad_theta = banana_grad,
                                     .scores = banana_scores};
    u->loss = banana_loss;
    fit_to(u, l);
    return 0;
}

/* ---------------------------------------------------------------------------- double wells */

/* U = e^(t_0) x^4 + t_1 x^2 + t_2 x */
static int well_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *restrict x = b->x;
    double a = exp(theta[0]);
    for (int i = 0; i < b->n; i++) U[i] = x[i] * (theta[2] + x[i] * (theta[1] + a * x[i] * x[i]));
    for (int i = 0; gx && i < b->n; i++) gx[i] = theta[2] + x[i] * (2 * theta[1] + 4 * a * x[i] * x[i]);
    return 0;
}

static int well_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const double *restrict x = b->x;
    double a = exp(theta[0]);
    for (int i = 0; i < b->n; i++) {
        D[i] = a * x[i] * x[i] * x[i] * x[i];
        D[b->ld + i] = x[i] * x[i];
        D[2 * b->ld + i] = x[i];
    }
    return 0;
}

static int well_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[PARAMETERS * UNTUNED_TILE];
    return untuned_contract(well_scores, self, theta, b, PARAMETERS, c, D, g);
}

/* grad += weight dU/dtheta at x; returns U. */
static double well_point(const double *theta, double x, double weight, double *gradient)
{
    double U, D[PARAMETERS];
    sosmc_batch one = {.x = &x, .dim = 1, .n = 1, .ld = 1};
    (void)well_energy(NULL, theta, &one, &U, NULL);
    (void)well_scores(NULL, theta, &one, D);
    for (int k = 0; gradient && k < PARAMETERS; k++) gradient[k] += weight * D[k];
    return U;
}

static double well_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    enum { NODES = 4001 };
    const likelihood_data *l = u->self;
    const double limit = 8, width = 2 * limit / (NODES - 1);
    double mean = 0, low = INFINITY, sum = 0;
    for (int k = 0; gradient && k < PARAMETERS; k++) gradient[k] = 0;
    for (int i = 0; i < l->count; i++) mean += well_point(theta, l->data[i], 1.0 / l->count, gradient) / l->count;
    for (int k = 0; k < NODES; k++) low = fmin(low, well_point(theta, -limit + width * k, 0, NULL));
    for (int k = 0; k < NODES; k++) sum += exp(low - well_point(theta, -limit + width * k, 0, NULL));
    for (int k = 0; gradient && k < NODES; k++) {
        double x = -limit + width * k;
        (void)well_point(theta, x, -exp(low - well_point(theta, x, 0, NULL)) / sum, gradient);
    }
    return mean + log(sum * width) - low;
}

/* Seven tenths of the data are around +apart, the others around -apart. */
int untuned_open_well(untuned_problem *u, const char *data)
{
    static const double start[PARAMETERS] = {0, 0.5, 0};
    int far = strcmp(u->name, "well_far") == 0;
    double apart = far ? 2.2 : 1.6, sd = far ? 0.35 : 0.5, side[DATA_MOST];
    likelihood_data *l = untuned_room(u, 1, sizeof *l);
    if (!l || untuned_start(u, PARAMETERS, start)) return 1;
    l->count = 300;
    drawn_normals(1501, l->count, l->data);
    drawn_uniforms(1502, l->count, side);
    for (int i = 0; i < l->count; i++) l->data[i] = sd * l->data[i] + (side[i] < 0.7 ? apart : -apart);
    u->problem.model = (sosmc_model){.dim_x = 1,
                                     .dim_theta = PARAMETERS,
                                     .tile = UNTUNED_TILE,
                                     .self = l,
                                     .energy = well_energy,
                                     .grad_theta = well_grad,
                                     .scores = well_scores};
    u->loss = well_loss;
    fit_to(u, l);
    return 0;
}
