/* untuned.c: see untuned.h. */
#include "untuned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../models/minimise.h"
#include "untuned_inside.h"

typedef struct {
    const char *name;
    untuned_family *open;
    int identified, hard;
} problem_row;

static const problem_row problems[] = {
    {"dual2", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"far3", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"ring8", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"mix10", untuned_open_mixture, UNTUNED_WEIGHTS, 1},
    {"mix20", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"tiny1", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"rare1", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"far100_fwd", untuned_open_mixture, UNTUNED_WEIGHTS, 0},
    {"far100_rev", untuned_open_mixture, UNTUNED_WEIGHTS, 1},
    {"forward", untuned_open_exact, UNTUNED_THETA, 0},
    {"reverse", untuned_open_exact, UNTUNED_THETA, 0},
    {"energy", untuned_open_exact, UNTUNED_THETA, 0},
    {"hier1", untuned_open_hierarchy, UNTUNED_THETA, 0},
    {"hier50", untuned_open_hierarchy, UNTUNED_THETA, 0},
    {"hier6", untuned_open_hierarchy, UNTUNED_THETA, 0},
    {"hier1000", untuned_open_hierarchy, UNTUNED_THETA, 0},
    {"scales_x", untuned_open_latent, UNTUNED_THETA, 0},
    {"scales_theta", untuned_open_scales_theta, UNTUNED_THETA, 0},
    {"linear50", untuned_open_exact, UNTUNED_THETA, 0},
    {"linear150", untuned_open_exact, UNTUNED_THETA, 0},
    {"series", untuned_open_series, UNTUNED_THETA, 0},
    {"wisconsin", untuned_open_wisconsin, UNTUNED_THETA, 0},
    {"logit50", untuned_open_logit, UNTUNED_THETA, 0},
    {"cbpp", untuned_open_exact, UNTUNED_THETA, 0},
    {"glmm60", untuned_open_latent, UNTUNED_THETA, 0},
    {"poisson20", untuned_open_latent, UNTUNED_THETA, 0},
    {"schools", untuned_open_latent, UNTUNED_THETA, 0},
    {"far_start", untuned_open_latent, UNTUNED_THETA, 0},
    {"dyestuff", untuned_open_latent, UNTUNED_THETA, 0},
    {"t_latent", untuned_open_latent, UNTUNED_THETA, 0},
    {"square", untuned_open_latent, UNTUNED_SIZES, 0},
    {"banana", untuned_open_banana, UNTUNED_THETA, 0},
    {"well", untuned_open_well, UNTUNED_THETA, 0},
    {"well_far", untuned_open_well, UNTUNED_THETA, 0},
    {"funnel", untuned_open_funnel, UNTUNED_THETA, 1},
};
static const problem_row out_of_sample[] = {
    {"frailty", untuned_open_out_of_sample_latent, UNTUNED_THETA, 0},
    {"probit", untuned_open_out_of_sample_latent, UNTUNED_THETA, 0},
    {"factor", untuned_open_out_of_sample_latent, UNTUNED_SIZES, 0},
    {"volatility", untuned_open_volatility, UNTUNED_THETA, 0},
    {"crossed", untuned_open_crossed, UNTUNED_THETA, 0},
    {"spins", untuned_open_spins, UNTUNED_THETA, 0},
    {"skewed", untuned_open_skewed, UNTUNED_THETA, 0},
    {"gauss_rev", untuned_open_gauss_rev, UNTUNED_THETA, 0},
};
enum { PROBLEMS = sizeof problems / sizeof *problems, OUT_OF_SAMPLE = sizeof out_of_sample / sizeof *out_of_sample };

const char *untuned_name(int k) { return k < PROBLEMS ? problems[k].name : NULL; }
const char *untuned_out_of_sample_name(int k) { return k < OUT_OF_SAMPLE ? out_of_sample[k].name : NULL; }

static const problem_row *row_of(const char *name)
{
    for (int k = 0; k < PROBLEMS; k++)
        if (strcmp(problems[k].name, name) == 0) return problems + k;
    for (int k = 0; k < OUT_OF_SAMPLE; k++)
        if (strcmp(out_of_sample[k].name, name) == 0) return out_of_sample + k;
    return NULL;
}

void *untuned_room(untuned_problem *u, size_t count, size_t size)
{
    int k = 0;
    while (k < UNTUNED_BLOCKS && u->block[k]) k++;
    return k < UNTUNED_BLOCKS ? u->block[k] = calloc(count, size) : NULL;
}

int untuned_start(untuned_problem *u, int p, const double *theta0)
{
    double *kept = untuned_room(u, (size_t)p, sizeof *kept);
    if (!kept) return 1;
    memcpy(kept, theta0, (size_t)p * sizeof *kept);
    memcpy(u->best, theta0, (size_t)p * sizeof *kept);
    u->problem.theta0 = kept;
    return 0;
}

void untuned_marginal(untuned_problem *u, int64_t rows)
{
    u->problem.objective = sosmc_mmle();
    u->rows = rows;
    u->nats = 1;
}

int untuned_contract(untuned_scores *scores, const void *self, const double *theta, const sosmc_batch *b, int p,
                     const double *c, double *D, double *g)
{
    int code = b->ld > UNTUNED_TILE ? 1 : scores(self, theta, b, D);
    for (int k = 0; !code && k < p; k++)
        for (int i = 0; i < b->n; i++) g[k] += c[i] * D[k * b->ld + i];
    return code;
}

static double loss_of(const void *self, const double *theta, double *gradient)
{
    const untuned_problem *u = self;
    return u->loss(u, theta, gradient);
}

int untuned_open(untuned_problem *u, const char *name, const char *data)
{
    const problem_row *row = row_of(name);
    memset(u, 0, sizeof *u);
    if (!row) return 1;
    u->name = row->name;
    u->hard = row->hard;
    u->identified = row->identified;
    if (row->open(u, data) || minimise(loss_of, u, u->problem.model.dim_theta, u->best)) return 1;
    u->best_loss = u->loss(u, u->best, NULL);
    u->start_loss = u->loss(u, u->problem.theta0, NULL);
    return 0;
}

void untuned_close(untuned_problem *u)
{
    if (u->release && u->self) u->release(u->self);
    for (int k = 0; k < UNTUNED_BLOCKS; k++) free(u->block[k]);
    memset(u, 0, sizeof *u);
}

double untuned_gap(const untuned_problem *u, const double *theta)
{
    return (u->loss(u, theta, NULL) - u->best_loss) / (u->start_loss - u->best_loss);
}

/* ---------------------------------------------------------------------------- identified coordinates */

void untuned_identify(const untuned_problem *u, const double *theta, double *q)
{
    int p = u->problem.model.dim_theta;
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < p; j++) {
        q[j] = theta[j] / (u->unit ? u->unit[j] : 1);
        top = fmax(top, q[j]);
    }
    for (int j = 0; j < p && u->identified == UNTUNED_SIZES; j++) q[j] = fabs(q[j]);
    if (u->identified != UNTUNED_WEIGHTS) return;
    for (int j = 0; j < p; j++) sum += q[j] = exp(q[j] - top);
    for (int j = 0; j < p; j++) q[j] /= sum;
}

/* Row k of the Jacobian: d v_k / d theta_j = v_k ((k == j) - v_j) for weights v; 1 or -1 on the diagonal for the others, where
 * the sign does not matter. */
static void jacobian_row(const untuned_problem *u, const double *v, int k, double *row)
{
    for (int j = 0; j < u->problem.model.dim_theta; j++) {
        row[j] = u->identified == UNTUNED_WEIGHTS ? v[k] * ((k == j) - v[j]) : k == j;
        if (u->unit) row[j] /= u->unit[j];
    }
}

void untuned_identified_errors(const untuned_problem *u, const double *theta, const double *theta_error,
                               const double *covariance, double *error)
{
    int p = u->problem.model.dim_theta;
    double v[UNTUNED_PARAMETERS], row[UNTUNED_PARAMETERS];
    untuned_identify(u, theta, v);
    for (int k = 0; k < p; k++) {
        double sum = 0;
        jacobian_row(u, v, k, row);
        for (int i = 0; i < p; i++) {
            if (!covariance) sum += row[i] * row[i] * theta_error[i] * theta_error[i];
            for (int j = 0; covariance && j < p; j++) sum += row[i] * covariance[i * p + j] * row[j];
        }
        error[k] = sqrt(fmax(sum, 0));
    }
}
