/* hierarchical.c: the hierarchical Gaussian model, in which everything is known in closed form.
 *
 *     U_theta(x) = sum_d [ (x_d - theta)^2/2 + (x_d - y_d)^2/2 + log 2 pi ] = -log p_theta(x, y)
 *     log Z = log p_theta(y) = sum_d log N(y_d; theta, 2),   x_d | y ~ N((y_d + theta)/2, 1/2)
 *
 * Sums run over d ascending, one particle per lane, so the bits depend on no vector level and no tile. */
#include <math.h>
#include <sosmc/models.h>

#include "base/arithmetic.h"
#include "prior.h"

#define LOG_2PI 1.8378770664093454836

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_hierarchical *data = self;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++) {
        const double *restrict x = b->x + (size_t)j * (size_t)b->ld;
        double y = data->y[j], at = theta[0];
        for (int i = 0; i < b->n; i++) U[i] += (x[i] - at) * (x[i] - at) + (x[i] - y) * (x[i] - y);
        if (!gx) continue;
        double *restrict g = gx + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) g[i] = (x[i] - at) + (x[i] - y);
    }
    for (int i = 0; i < b->n; i++) U[i] = 0.5 * U[i] + b->dim * LOG_2PI;
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    prior_contract(theta[0], 1, b, c, g);
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    prior_scores(theta[0], 1, b, D);
    return 0;
}

sosmc_model sosmc_hierarchical_model(const sosmc_hierarchical *data)
{
    return (sosmc_model){
        .dim_x = data->dim, .dim_theta = 1, .self = data, .energy = energy, .grad_theta = grad_theta, .scores = scores};
}

double sosmc_hierarchical_best(const sosmc_hierarchical *data)
{
    STANDARD_ARITHMETIC;
    double sum = 0;
    for (int j = 0; j < data->dim; j++) sum += data->y[j];
    return sum / data->dim;
}

double sosmc_hierarchical_loglik(const sosmc_hierarchical *data, double theta)
{
    STANDARD_ARITHMETIC;
    const double log_2 = 0.69314718055994530942;
    double sum = 0;
    for (int j = 0; j < data->dim; j++) sum += (data->y[j] - theta) * (data->y[j] - theta);
    return -0.25 * sum - 0.5 * data->dim * (LOG_2PI + log_2);
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const sosmc_hierarchical_law *law = self;
    const double deviation = 0.70710678118654752440;
    sosmc_normals(rng, b, x);
    for (int j = 0; j < b->dim; j++) {
        double *row = x + (size_t)j * (size_t)b->ld, centre = 0.5 * (law->data->y[j] + law->theta);
        for (int i = 0; i < b->n; i++) row[i] = centre + deviation * row[i];
    }
    return 0;
}

/* N(m, 1/2) has density exp(-(x - m)^2) / sqrt(pi). */
static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const sosmc_hierarchical_law *law = self;
    const double half_log_pi = 0.57236494292470008707;
    for (int i = 0; i < b->n; i++) lq[i] = 0;
    for (int j = 0; j < b->dim; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        double centre = 0.5 * (law->data->y[j] + law->theta);
        for (int i = 0; i < b->n; i++) lq[i] += (x[i] - centre) * (x[i] - centre);
    }
    for (int i = 0; i < b->n; i++) lq[i] = -lq[i] - b->dim * half_log_pi;
    return 0;
}

sosmc_source sosmc_hierarchical_source(const sosmc_hierarchical_law *law)
{
    return (sosmc_source){.self = law, .draw = draw, .logpdf = logpdf};
}
