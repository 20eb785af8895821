/* regressions.c: logistic regressions with a learned prior mean, whose marginal likelihood has no closed form.
 *
 * log Z(theta) is a polynomial through values that were computed once. At nine or ten theta from -0.4 to 2.9 particles were drawn
 * from Laplace's approximation, widened by 1.15, and tempered to the posterior (conditional effective size 0.9, systematic
 * resampling, two trajectories of five leapfrogs per temperature, then forty times two at the posterior), which gives log Z and its
 * slope, (E sum x - dim theta) / variance, with errors from four repetitions: 6,000 particles, errors 0.013 and 0.0024 for
 * logit50; 8,000 particles, errors 0.0032 and 0.0002 for wisconsin. The polynomials are least squares through both; all values are
 * within two errors of them. logit50 has its maximum at 1.3072, known to 0.0005, and its level is known to 0.004. For wisconsin
 * the maximum, 0.96772 +- 0.00013, and the level, -61.3242 +- 0.0008, are those of 2 million importance draws, and the other
 * coefficients those of the fit. */
#include <math.h>
#include <string.h>

#include <sosmc/models.h>

#include "../models/drawn_numbers.h"
#include "../models/exact_problems.h"
#include "untuned_inside.h"

enum { DEGREE = 6 };
typedef struct {
    double centre, coefficient[DEGREE + 1]; /* log Z = sum of coefficient_k (theta - centre)^k */
    exact_problem exact;
    sosmc_logistic logistic;
} regression;

static double polynomial_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const regression *r = u->self;
    double off = theta[0] - r->centre, value = 0, slope = 0;
    for (int k = DEGREE; k >= 0; k--) {
        slope = slope * off + value;
        value = value * off + r->coefficient[k];
    }
    if (gradient) gradient[0] = -slope;
    return -value;
}

static regression *begin(untuned_problem *u, double centre, const double *coefficient)
{
    static const double zero = 0;
    regression *r = untuned_room(u, 1, sizeof *r);
    if (!r || untuned_start(u, 1, &zero)) return NULL;
    r->centre = u->best[0] = centre;
    memcpy(r->coefficient, coefficient, sizeof r->coefficient);
    u->self = r;
    u->loss = polynomial_loss;
    return r;
}

static void release(void *self) { exact_close(&((regression *)self)->exact); }

int untuned_open_wisconsin(untuned_problem *u, const char *data)
{
    static const double coefficient[DEGREE + 1] = {-61.3242, 0, -0.88056, 0.00051};
    regression *r = begin(u, 0.96772, coefficient);
    if (!r) return 1;
    u->release = release;
    if (exact_open(&r->exact, "logistic", data)) return 1;
    u->problem.model = r->exact.problem.model;
    untuned_marginal(u, r->exact.rows);
    return 0;
}

/* 178 rows of 50 correlated features; the coefficients are N(0.3, 0.36). Features are standardised. */
enum { ROWS = 178, FEATURES = 50 };
static void standardise(double *column)
{
    double mean = 0, square = 0;
    for (int r = 0; r < ROWS; r++) mean += column[r * FEATURES] / ROWS;
    for (int r = 0; r < ROWS; r++) {
        column[r * FEATURES] -= mean;
        square += column[r * FEATURES] * column[r * FEATURES] / ROWS;
    }
    for (int r = 0; r < ROWS; r++) column[r * FEATURES] /= sqrt(square);
}

static void simulate(double *features, double *labels)
{
    static double raw[ROWS * FEATURES], mix[FEATURES * FEATURES];
    double beta[FEATURES], chance[ROWS];
    drawn_normals(1801, ROWS * FEATURES, raw);
    drawn_normals(1802, FEATURES * FEATURES, mix);
    drawn_normals(1803, FEATURES, beta);
    drawn_uniforms(1804, ROWS, chance);
    for (int k = 0; k < FEATURES * FEATURES; k++) mix[k] = 1.5 * mix[k] / sqrt(FEATURES) + (k % (FEATURES + 1) == 0);
    for (int r = 0; r < ROWS; r++) {
        double eta = 0;
        for (int j = 0; j < FEATURES; j++) {
            double sum = 0;
            for (int k = 0; k < FEATURES; k++) sum += raw[r * FEATURES + k] * mix[k * FEATURES + j];
            features[r * FEATURES + j] = sum;
            eta += sum * (0.3 + 0.6 * beta[j]);
        }
        labels[r] = chance[r] < 1 / (1 + exp(-eta));
    }
    for (int j = 0; j < FEATURES; j++) standardise(features + j);
}

int untuned_open_logit(untuned_problem *u, const char *data)
{
    static const double coefficient[DEGREE + 1] = {-59.5314, 0.0440, -3.04428, 0.13857, 0.00257, -0.000613, -0.0000468};
    regression *r = begin(u, 1.3, coefficient);
    double *features = untuned_room(u, ROWS * FEATURES, sizeof *features);
    double *labels = untuned_room(u, ROWS, sizeof *labels);
    if (!r || !features || !labels) return 1;
    simulate(features, labels);
    r->logistic = (sosmc_logistic){
        .rows = ROWS, .dim = FEATURES, .features = features, .labels = labels, .variance = 5};
    u->problem.model = sosmc_logistic_model(&r->logistic);
    untuned_marginal(u, ROWS);
    return 0;
}
