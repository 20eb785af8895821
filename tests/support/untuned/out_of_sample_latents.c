/* out_of_sample_latents.c: problems of the second table whose latent variables are independent, as in latents.h.
 *
 *     frailty   e^(x_j) ~ Gamma(a, a), rows y ~ Poisson(exp(Z beta + x_j)), theta = (beta, log a)
 *     probit    x_j ~ N(0, e^(2 theta_p)), rows y = 1 with probability Phi(Z beta + x_j), else -1, theta = (beta, theta_p)
 *     factor    x_j ~ N(0, 1), y_jk ~ N(theta_k x_j, e^(2 theta_p)), k = 0 .. p - 1 */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "latents.h"
#include "untuned_inside.h"

enum { ROWS_MOST = 100, COVARIATES_MOST = 3 };
typedef struct {
    latent_data latent;
    double y[ROWS_MOST], Z[ROWS_MOST * COVARIATES_MOST];
} data_store;

/* ---------------------------------------------------------------------------- frailty */

/* The derivative of lgamma at a > 0: the recurrence to 10 and above, then Stirling's series, whose error is below 1e-13 there. */
static double digamma(double a)
{
    double sum = 0;
    while (a < 10) {
        sum -= 1 / a;
        a += 1;
    }
    double r = 1 / (a * a);
    return sum + log(a) - 0.5 / a - r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r / 132))));
}

static size_t after_counts(const latent_data *l) { return (size_t)l->dim * (size_t)(3 + 2 * (l->parameters - 1)); }

/* prep: that of the counts, then a, the constant of the density of x, and its derivative in log a. */
static void frailty_prepare(const latent_data *l, const double *theta, double *prep)
{
    double log_a = theta[l->parameters - 1], a = exp(log_a), *more = prep + after_counts(l);
    latent_counts_prepare(l, theta, prep);
    more[0] = a;
    more[1] = lgamma(a) - a * log_a;
    more[2] = a * (digamma(a) - log_a - 1);
}

/* x has the density a^a / Gamma(a) exp(a x - a e^x). */
static void frailty_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const double *law = v->prep + after_counts(l);
    double e[UNTUNED_TILE], *by_shape = latent_row(v, l->parameters - 1);
    sosmc_exp(v->simd, v->n, v->x, e);
    for (int i = 0; i < v->n; i++) {
        double off = law[0] * (e[i] - v->x[i]);
        if (v->U) v->U[i] += off + law[1];
        if (v->gx) v->gx[i] = law[0] * (e[i] - 1);
        if (by_shape) by_shape[i] += off + law[2];
    }
    latent_add_counts(l, j, v);
}

/* An intercept and normal covariates; Z beta of row r into eta. */
static void make_predictors(data_store *s, uint32_t name, const double *beta, double *eta)
{
    int q = s->latent.parameters - 1, rows = s->latent.dim * s->latent.each;
    drawn_normals(name, rows * q, s->Z);
    for (int r = 0; r < rows; r++) {
        s->Z[r * q] = 1;
        eta[r] = 0;
        for (int k = 0; k < q; k++) eta[r] += s->Z[r * q + k] * beta[k];
    }
}

static void make_frailty(data_store *s)
{
    static const double beta[] = {0.7, 0.5};
    double eta[ROWS_MOST], chance[ROWS_MOST], u[2 * ROWS_MOST];
    make_predictors(s, 1901, beta, eta);
    drawn_uniforms(1902, s->latent.dim * s->latent.each, chance);
    drawn_uniforms(1903, 2 * s->latent.dim, u);
    for (int r = 0; r < s->latent.dim * s->latent.each; r++) {
        int j = r / s->latent.each;
        double frailty = -0.5 * log(u[2 * j] * u[2 * j + 1]); /* Gamma(2, 2) */
        s->y[r] = latent_count_of(frailty * exp(eta[r]), chance[r]);
    }
}

/* ---------------------------------------------------------------------------- probit */

/* log Phi(z) and its derivative; far below zero by the asymptotic series. */
static double log_normal_below(double z, double *slope)
{
    double log_density = -0.5 * (z * z + LOG_2PI), r = 1 / (z * z);
    double below = 0.5 * erfc(-z / sqrt(2));
    double series = 1 - r * (1 - 3 * r * (1 - 5 * r * (1 - 7 * r * (1 - 9 * r))));
    int far = z < -25;
    *slope = far ? -z / series : exp(log_density) / below;
    return far ? log_density - log(-z) + log(series) : z > 0 ? log1p(-0.5 * erfc(z / sqrt(2))) : log(below);
}

static void probit_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    int q = l->parameters - 1;
    latent_add_normal(v, 0, theta[q], NULL, latent_row(v, q));
    for (int r = j * l->each; r < (j + 1) * l->each; r++) {
        const double *Z = l->Z + (size_t)r * (size_t)q;
        for (int i = 0; i < v->n; i++) {
            double slope, value = log_normal_below(l->y[r] * (v->prep[r] + v->x[i]), &slope);
            if (v->U) v->U[i] -= value;
            if (v->gx) v->gx[i] -= l->y[r] * slope;
            for (int k = 0; v->D && k < q; k++) latent_row(v, k)[i] -= Z[k] * l->y[r] * slope;
        }
    }
}

static void make_probit(data_store *s)
{
    static const double beta[] = {-0.3, 0.8, 0.5};
    double eta[ROWS_MOST], z[ROWS_MOST], effect[ROWS_MOST];
    make_predictors(s, 1911, beta, eta);
    drawn_normals(1912, s->latent.dim * s->latent.each, z);
    drawn_normals(1913, s->latent.dim, effect);
    for (int r = 0; r < s->latent.dim * s->latent.each; r++)
        s->y[r] = eta[r] + 0.9 * effect[r / s->latent.each] + z[r] > 0 ? 1 : -1;
}

/* ---------------------------------------------------------------------------- one factor */

static void factor_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    double precision = exp(-2 * theta[l->each]), constant = l->each * (0.5 * LOG_2PI + theta[l->each]);
    double *by_noise = latent_row(v, l->each);
    latent_add_normal(v, 0, 0, NULL, NULL);
    for (int i = 0; i < v->n; i++) {
        if (v->U) v->U[i] += constant;
        if (by_noise) by_noise[i] += l->each;
    }
    for (int k = 0; k < l->each; k++) {
        double y = l->y[j * l->each + k], *by_loading = latent_row(v, k);
        for (int i = 0; i < v->n; i++) {
            double off = theta[k] * v->x[i] - y;
            if (v->U) v->U[i] += 0.5 * precision * off * off;
            if (v->gx) v->gx[i] += precision * off * theta[k];
            if (by_loading) by_loading[i] += precision * off * v->x[i];
            if (by_noise) by_noise[i] -= precision * off * off;
        }
    }
}

static void make_factor(data_store *s)
{
    static const double loading[] = {1.2, -0.8, 0.5, 0.9};
    double factor[ROWS_MOST];
    drawn_normals(1921, s->latent.dim, factor);
    drawn_normals(1922, s->latent.dim * s->latent.each, s->y);
    for (int r = 0; r < s->latent.dim * s->latent.each; r++)
        s->y[r] = loading[r % s->latent.each] * factor[r / s->latent.each] + 0.6 * s->y[r];
}

/* ---------------------------------------------------------------------------- opening */

static const struct {
    const char *name;
    latent_data latent;
    void (*make)(data_store *s);
    double theta0[5];
} rows[] = {
    {"frailty",
     {15, 3, -60, 30, .term = frailty_term, .prepare = frailty_prepare, .prep = 15 * 7 + 3, .each = 4},
     make_frailty,
     {0}},
    {"probit",
     {20, 4, -60, 60, .term = probit_term, .prepare = latent_binary_prepare, .prep = 100, .each = 5},
     make_probit,
     {0}},
    {"factor", {25, 5, -30, 30, .term = factor_term, .each = 4}, make_factor, {0.5, 0.5, 0.5, 0.5, 0}},
};

int untuned_open_out_of_sample_latent(untuned_problem *u, const char *data)
{
    size_t k = 0;
    data_store *s = untuned_room(u, 1, sizeof *s);
    while (strcmp(rows[k].name, u->name) != 0) k++;
    if (!s) return 1;
    s->latent = rows[k].latent;
    s->latent.y = s->y;
    s->latent.Z = s->Z;
    rows[k].make(s);
    return latent_open(u, &s->latent, rows[k].theta0);
}
