/* funnel.c: v ~ N(theta, 4), x_j ~ N(0, e^v), y_j ~ N(x_j, 1), j = 1..9. Given v the x_j integrate to
 * y_j ~ N(0, 1 + e^v); the integral over v is a trapezoidal rule. Particles are (v, x_1, ..., x_9). */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

enum { OBSERVED = 9 };
typedef struct {
    double y[OBSERVED];
} funnel_data;

static int funnel_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const funnel_data *f = self;
    const double *restrict v = b->x;
    double precision[UNTUNED_TILE];
    if (b->n > UNTUNED_TILE) return 1;
    for (int i = 0; i < b->n; i++) precision[i] = fmin(-v[i], 300);
    sosmc_exp(b->simd, b->n, precision, precision);
    for (int i = 0; i < b->n; i++) {
        double off = v[i] - theta[0];
        U[i] = 0.125 * off * off + 0.5 * OBSERVED * v[i];
        if (gx) gx[i] = 0.25 * off + 0.5 * OBSERVED;
    }
    for (int j = 0; j < OBSERVED; j++) {
        const double *restrict x = untuned_row(b, j + 1);
        for (int i = 0; i < b->n; i++) {
            double half = 0.5 * x[i] * x[i] * precision[i], off = x[i] - f->y[j];
            U[i] += half + 0.5 * off * off;
            if (!gx) continue;
            gx[i] -= half;
            gx[(size_t)(j + 1) * (size_t)b->ld + (size_t)i] = x[i] * precision[i] + off;
        }
    }
    return 0;
}

static int funnel_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    for (int i = 0; i < b->n; i++) D[i] = 0.25 * (theta[0] - b->x[i]);
    return 0;
}

static int funnel_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[UNTUNED_TILE];
    return untuned_contract(funnel_scores, self, theta, b, 1, c, D, g);
}

static double funnel_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    enum { NODES = 4001 };
    const funnel_data *f = u->self;
    const double limit = 40, width = 2 * limit / (NODES - 1);
    double squares = 0, value[NODES], top = -INFINITY, sum = 0, mean = 0;
    for (int j = 0; j < OBSERVED; j++) squares += f->y[j] * f->y[j];
    for (int k = 0; k < NODES; k++) {
        double v = -limit + width * k, variance = 1 + exp(v), off = v - theta[0];
        value[k] = -0.125 * off * off - 0.5 * OBSERVED * log(variance) - 0.5 * squares / variance;
        top = fmax(top, value[k]);
    }
    for (int k = 0; k < NODES; k++) sum += value[k] = exp(value[k] - top);
    for (int k = 0; k < NODES; k++) mean += value[k] / sum * (-limit + width * k);
    if (gradient) gradient[0] = 0.25 * (theta[0] - mean);
    return -(top + log(sum * width) + 0.5 * OBSERVED * LOG_2PI);
}

int untuned_open_funnel(untuned_problem *u, const char *data)
{
    static const double start = -2;
    funnel_data *f = untuned_room(u, 1, sizeof *f);
    if (!f || untuned_start(u, 1, &start)) return 1;
    drawn_normals(1601, OBSERVED, f->y);
    for (int j = 0; j < OBSERVED; j++) f->y[j] *= sqrt(1 + exp(1));
    u->problem.model = (sosmc_model){.dim_x = OBSERVED + 1,
                                     .dim_theta = 1,
                                     .tile = UNTUNED_TILE,
                                     .self = f,
                                     .energy = funnel_energy,
                                     .grad_theta = funnel_grad,
                                     .scores = funnel_scores};
    u->self = f;
    u->loss = funnel_loss;
    untuned_marginal(u, OBSERVED);
    return 0;
}
