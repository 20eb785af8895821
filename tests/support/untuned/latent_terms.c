/* latent_terms.c: the terms that latents.h lists. Each adds what it is asked for; loops run over the values of one variable. */
#include <math.h>

#include "latents.h"
#include "untuned_inside.h"

void latent_add_normal(const latent_values *v, double mean, double log_sd, double *by_mean, double *by_log_sd)
{
    double precision = exp(-2 * log_sd);
    for (int i = 0; i < v->n; i++) {
        double off = v->x[i] - mean, squared = precision * off * off;
        if (v->U) v->U[i] += 0.5 * (squared + LOG_2PI) + log_sd;
        if (v->gx) v->gx[i] = precision * off;
        if (by_mean) by_mean[i] -= precision * off;
        if (by_log_sd) by_log_sd[i] += 1 - squared;
    }
}

/* y ~ N(x, sd^2): U, and its derivative in x (added). */
static void add_observation(const latent_values *v, double y, double sd)
{
    double precision = 1 / (sd * sd), constant = 0.5 * LOG_2PI + log(sd);
    for (int i = 0; i < v->n; i++) {
        double off = v->x[i] - y;
        if (v->U) v->U[i] += 0.5 * precision * off * off + constant;
        if (v->gx) v->gx[i] += precision * off;
    }
}

void latent_shared_mean(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    latent_add_normal(v, theta[0], log(l->sd[j]), latent_row(v, 0), NULL);
    add_observation(v, l->y[j], l->sd[j]);
}

void latent_random_effect(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    latent_add_normal(v, theta[0], theta[1], latent_row(v, 0), latent_row(v, 1));
    add_observation(v, l->y[j], l->sd[j]);
}

void latent_batches_effect(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    double precision = exp(-2 * theta[2]), *by_noise = latent_row(v, 2),
           constant = l->each * (0.5 * LOG_2PI + theta[2]);
    latent_add_normal(v, theta[0], theta[1], latent_row(v, 0), latent_row(v, 1));
    for (int i = 0; i < v->n; i++) {
        double off = v->x[i] - l->y[j], squared = precision * (l->each * off * off + l->sd[j]);
        if (v->U) v->U[i] += 0.5 * squared + constant;
        if (v->gx) v->gx[i] += precision * l->each * off;
        if (by_noise) by_noise[i] += l->each - squared;
    }
}

/* The density of t_3 is 2 / (pi sqrt(3)) (1 + r^2 / 3)^-2. */
void latent_student(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const double pi = 3.14159265358979323846;
    double inverse = exp(-theta[1]), constant = theta[1] - log(2 / (pi * sqrt(3))), tail[UNTUNED_TILE];
    double *by_mean = latent_row(v, 0), *by_scale = latent_row(v, 1);
    for (int i = 0; i < v->n; i++) {
        double r = inverse * (v->x[i] - theta[0]), slope = 4 * r / (3 + r * r);
        tail[i] = 1 + r * r / 3;
        if (v->gx) v->gx[i] = slope * inverse;
        if (by_mean) by_mean[i] -= slope * inverse;
        if (by_scale) by_scale[i] += 1 - slope * r;
    }
    if (v->U) sosmc_log(v->simd, v->n, tail, tail);
    for (int i = 0; v->U && i < v->n; i++) v->U[i] += 2 * tail[i] + constant;
    add_observation(v, l->y[j], 1);
}

void latent_squared(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    latent_add_normal(v, theta[0], 0, latent_row(v, 0), NULL);
    for (int i = 0; i < v->n; i++) {
        double off = v->x[i] * v->x[i] - l->y[j];
        if (v->U) v->U[i] += 2 * off * off + 0.5 * LOG_2PI - log(2);
        if (v->gx) v->gx[i] += 8 * v->x[i] * off;
    }
}

/* ---------------------------------------------------------------------------- generalised linear mixed models */

static double predictor(const latent_data *l, const double *theta, int r)
{
    int q = l->parameters - 1;
    double sum = 0;
    for (int k = 0; k < q; k++) sum += l->Z[(size_t)r * (size_t)q + (size_t)k] * theta[k];
    return sum;
}

/* prep: Z beta of every row. */
void latent_binary_prepare(const latent_data *l, const double *theta, double *prep)
{
    for (int r = 0; r < l->dim * l->each; r++) prep[r] = predictor(l, theta, r);
}

void latent_binary(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    int q = l->parameters - 1;
    double e[UNTUNED_TILE], softplus[UNTUNED_TILE];
    latent_add_normal(v, 0, theta[q], NULL, latent_row(v, q));
    for (int r = j * l->each; r < (j + 1) * l->each; r++) {
        double at = v->prep[r], y = l->y[r];
        const double *Z = l->Z + (size_t)r * (size_t)q;
        for (int i = 0; i < v->n; i++) e[i] = -fabs(at + v->x[i]);
        sosmc_exp(v->simd, v->n, e, e);
        for (int i = 0; i < v->n; i++) softplus[i] = 1 + e[i];
        if (v->U) sosmc_log(v->simd, v->n, softplus, softplus);
        for (int i = 0; v->U && i < v->n; i++) {
            double eta = at + v->x[i];
            v->U[i] += (eta > 0 ? eta : 0) + softplus[i] - y * eta;
        }
        for (int i = 0; i < v->n; i++) e[i] = (at + v->x[i] > 0 ? 1 : e[i]) / (1 + e[i]) - y; /* the residual */
        for (int i = 0; v->gx && i < v->n; i++) v->gx[i] += e[i];
        for (int k = 0; v->D && k < q; k++)
            for (int i = 0; i < v->n; i++) latent_row(v, k)[i] += Z[k] * e[i];
    }
}

/* prep, of every group: the sum of exp(Z beta), the sum of y, minus the log density of y at x = 0 without the first sum, then
 * for every covariate the sums of Z exp(Z beta) and of Z y. */
void latent_counts_prepare(const latent_data *l, const double *theta, double *prep)
{
    int q = l->parameters - 1, size = 3 + 2 * q;
    for (int k = 0; k < l->dim * size; k++) prep[k] = 0;
    for (int r = 0; r < l->dim * l->each; r++) {
        double *group = prep + (size_t)(r / l->each) * (size_t)size, at = predictor(l, theta, r), rate = exp(at);
        group[0] += rate;
        group[1] += l->y[r];
        group[2] += lgamma(l->y[r] + 1) - l->y[r] * at;
        for (int k = 0; k < q; k++) {
            double z = l->Z[(size_t)r * (size_t)q + (size_t)k];
            group[3 + k] += z * rate;
            group[3 + q + k] += z * l->y[r];
        }
    }
}

void latent_counts(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    int q = l->parameters - 1;
    latent_add_normal(v, 0, theta[q], NULL, latent_row(v, q));
    latent_add_counts(l, j, v);
}

void latent_add_counts(const latent_data *l, int j, const latent_values *v)
{
    int q = l->parameters - 1;
    const double *group = v->prep + (size_t)j * (size_t)(3 + 2 * q);
    double e[UNTUNED_TILE];
    sosmc_exp(v->simd, v->n, v->x, e);
    for (int i = 0; v->U && i < v->n; i++) v->U[i] += e[i] * group[0] - v->x[i] * group[1] + group[2];
    for (int i = 0; v->gx && i < v->n; i++) v->gx[i] += e[i] * group[0] - group[1];
    for (int k = 0; v->D && k < q; k++)
        for (int i = 0; i < v->n; i++) latent_row(v, k)[i] += e[i] * group[3 + k] - group[3 + q + k];
}
