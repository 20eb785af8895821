/* untuned.c: see untuned.h. */
#include "untuned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../models/minimise.h"
#include "base/linear.h"
#include "untuned_inside.h"

typedef struct {
    const char *name;
    untuned_family *open;
    int identified, wanted;
} problem_row;

static const problem_row problems[] = {
    {"dual2", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"far3", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"ring8", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"mix10", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT_OR_NAMED},
    {"mix20", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"tiny1", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"rare1", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"far100_fwd", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT},
    {"far100_rev", untuned_open_mixture, UNTUNED_WEIGHTS, UNTUNED_RIGHT_OR_NAMED},
    {"forward", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"reverse", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"energy", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"hier1", untuned_open_hierarchy, UNTUNED_THETA, UNTUNED_RIGHT},
    {"hier50", untuned_open_hierarchy, UNTUNED_THETA, UNTUNED_RIGHT},
    {"hier6", untuned_open_hierarchy, UNTUNED_THETA, UNTUNED_RIGHT},
    {"hier1000", untuned_open_hierarchy, UNTUNED_THETA, UNTUNED_RIGHT},
    {"scales_x", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"scales_theta", untuned_open_scales_theta, UNTUNED_THETA, UNTUNED_RIGHT},
    {"linear50", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"linear150", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"series", untuned_open_series, UNTUNED_THETA, UNTUNED_RIGHT},
    {"wisconsin", untuned_open_wisconsin, UNTUNED_THETA, UNTUNED_RIGHT},
    {"logit50", untuned_open_logit, UNTUNED_THETA, UNTUNED_RIGHT},
    {"cbpp", untuned_open_exact, UNTUNED_THETA, UNTUNED_RIGHT},
    {"glmm60", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"poisson20", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"schools", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"far_start", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"dyestuff", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"t_latent", untuned_open_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"square", untuned_open_latent, UNTUNED_SIZES, UNTUNED_RIGHT},
    {"banana", untuned_open_banana, UNTUNED_THETA, UNTUNED_RIGHT},
    {"well", untuned_open_well, UNTUNED_THETA, UNTUNED_RIGHT},
    {"well_far", untuned_open_well, UNTUNED_THETA, UNTUNED_RIGHT},
    {"funnel", untuned_open_funnel, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
};
static const problem_row out_of_sample[] = {
    {"frailty", untuned_open_out_of_sample_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"probit", untuned_open_out_of_sample_latent, UNTUNED_THETA, UNTUNED_RIGHT},
    {"factor", untuned_open_out_of_sample_latent, UNTUNED_SIZES, UNTUNED_RIGHT},
    {"volatility", untuned_open_volatility, UNTUNED_THETA, UNTUNED_RIGHT},
    {"crossed", untuned_open_crossed, UNTUNED_THETA, UNTUNED_RIGHT},
    {"spins", untuned_open_spins, UNTUNED_THETA, UNTUNED_RIGHT},
    {"skewed", untuned_open_skewed, UNTUNED_THETA, UNTUNED_RIGHT},
    {"gauss_rev", untuned_open_gauss_rev, UNTUNED_THETA, UNTUNED_RIGHT},
};
static const problem_row unusual[] = {
    {"penalties", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT},
    {"mixed", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT},
    {"faint", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT},
    {"residual", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT},
    {"wall_one", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"wall_some", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"wall_all", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"step", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"steps", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"products", untuned_open_unusual, UNTUNED_SIZES, UNTUNED_RIGHT_OR_NAMED},
    {"ridge", untuned_open_unusual, UNTUNED_THETA, UNTUNED_RIGHT_OR_NAMED},
    {"batch", untuned_open_unusual, UNTUNED_THETA, UNTUNED_NAMED},
};
enum {
    PROBLEMS = sizeof problems / sizeof *problems,
    OUT_OF_SAMPLE = sizeof out_of_sample / sizeof *out_of_sample,
    UNUSUAL = sizeof unusual / sizeof *unusual
};

const char *untuned_name(int k) { return k < PROBLEMS ? problems[k].name : NULL; }
const char *untuned_out_of_sample_name(int k) { return k < OUT_OF_SAMPLE ? out_of_sample[k].name : NULL; }

const char *untuned_unusual_name(int k) { return k < UNUSUAL ? unusual[k].name : NULL; }

static const problem_row *row_of(const char *name)
{
    for (int k = 0; k < PROBLEMS; k++)
        if (strcmp(problems[k].name, name) == 0) return problems + k;
    for (int k = 0; k < OUT_OF_SAMPLE; k++)
        if (strcmp(out_of_sample[k].name, name) == 0) return out_of_sample + k;
    for (int k = 0; k < UNUSUAL; k++)
        if (strcmp(unusual[k].name, name) == 0) return unusual + k;
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

/* The square roots of the diagonal of the inverse Hessian at the best theta. */
static int find_standard_errors(untuned_problem *u)
{
    size_t p = (size_t)u->problem.model.dim_theta;
    double *H = malloc(2 * p * p * sizeof *H);
    u->standard_error = untuned_room(u, p, sizeof *u->standard_error);
    int code = !H || !u->standard_error;
    if (!code) {
        difference_hessian(loss_of, u, (int)p, u->best, H);
        code = sosmc_i_cholesky(p, H);
    }
    if (!code) sosmc_i_cholesky_inverse(p, H, H + p * p);
    for (size_t j = 0; !code && j < p; j++) u->standard_error[j] = sqrt(H[p * p + j * (p + 1)]);
    free(H);
    return code;
}

int untuned_open(untuned_problem *u, const char *name, const char *data)
{
    const problem_row *row = row_of(name);
    memset(u, 0, sizeof *u);
    if (!row) return 1;
    u->name = row->name;
    u->wanted = row->wanted;
    u->identified = row->identified;
    if (row->open(u, data) || minimise(loss_of, u, u->problem.model.dim_theta, u->best)) return 1;
    u->best_loss = u->loss(u, u->best, NULL);
    u->start_loss = u->loss(u, u->problem.theta0, NULL);
    if (row->open == untuned_open_unusual) return find_standard_errors(u);
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
