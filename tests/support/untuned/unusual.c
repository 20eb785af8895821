/* unusual.c: problems of the third table: each breaks an assumption that smooth problems with informative scores fulfil.
 *
 * Latent variables are independent, as in latents.h. Terms of theta alone stand in the term of the first variable. */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "latents.h"
#include "untuned_inside.h"

enum { VARIABLES_MOST = 20, ROWS_MOST = 30, PENALTIES = 200, STEPS_MOST = 3 };

/* The parameters of x_j ~ N(mean, e^(2 spread)), y_j ~ N(offset + x_j, e^(2 noise)): an index, or -1 for the number 0. */
typedef struct {
    int mean, spread, offset, noise;
} roles;

/* Energies that are added to variable j: height[k] below place[k] and above place[k - 1]; 0 above all places. */
typedef struct {
    int steps;
    double place[STEPS_MOST], height[STEPS_MOST];
} pieces;

typedef struct {
    latent_data latent; /* of the exact loss */
    latent_data model;  /* of the model, where it differs */
    roles roles;
    pieces added[VARIABLES_MOST];
    double y[PENALTIES], scale[PENALTIES], covariate[ROWS_MOST], count[ROWS_MOST];
} data_store;

/* ---------------------------------------------------------------------------- parameters without latent variables */

/* x_j ~ N(theta_0, 1), y_j = 1 ~ N(x_j, 1), and penalties (theta_k - y_k)^2 / (2 scale_k^2), k = 1 to p - 1. */
static void penalties_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const data_store *s = (const data_store *)l;
    latent_add_normal(v, theta[0], 0, latent_row(v, 0), NULL);
    for (int i = 0; i < v->n; i++) {
        if (v->U) v->U[i] += 0.5 * (v->x[i] - 1) * (v->x[i] - 1);
        if (v->gx) v->gx[i] += v->x[i] - 1;
    }
    for (int k = 1; j == 0 && k < l->parameters; k++) {
        double off = (theta[k] - s->y[k]) / s->scale[k], *by = latent_row(v, k);
        for (int i = 0; i < v->n; i++) {
            if (v->U) v->U[i] += 0.5 * off * off;
            if (by) by[i] += off / s->scale[k];
        }
    }
}

static void make_penalties(data_store *s)
{
    drawn_normals(2001, PENALTIES, s->y);
    for (int k = 0; k < PENALTIES; k++) {
        s->y[k] *= 3;
        s->scale[k] = pow(10, -1 + 2.0 * k / (PENALTIES - 1));
    }
}

/* x_j ~ N(t_0, e^(2 t_1)), y_j ~ N(x_j, 1), and counts without latent variables: Poisson(exp(t_2 + t_3 c_k + 0.3 t_0)). */
static const double SHARED = 0.3;
static void mixed_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const data_store *s = (const data_store *)l;
    latent_random_effect(l, theta, j, v);
    for (int k = 0; j == 0 && k < ROWS_MOST; k++) {
        double eta = theta[2] + theta[3] * s->covariate[k] + SHARED * theta[0], off = exp(eta) - s->count[k];
        for (int i = 0; i < v->n; i++) {
            if (v->U) v->U[i] += exp(eta) - s->count[k] * eta;
            if (!v->D) continue;
            latent_row(v, 0)[i] += SHARED * off;
            latent_row(v, 2)[i] += off;
            latent_row(v, 3)[i] += s->covariate[k] * off;
        }
    }
}

static void make_mixed(data_store *s)
{
    double chance[ROWS_MOST];
    drawn_normals(2011, s->latent.dim, s->y);
    drawn_normals(2012, ROWS_MOST, s->covariate);
    drawn_uniforms(2013, ROWS_MOST, chance);
    for (int j = 0; j < s->latent.dim; j++) {
        s->y[j] = 2 + sqrt(1 + 1.5) * s->y[j];
        s->scale[j] = 1;
    }
    for (int k = 0; k < ROWS_MOST; k++)
        s->count[k] = latent_count_of(exp(0.5 + 0.4 * s->covariate[k] + SHARED * 2), chance[k]);
}

/* ---------------------------------------------------------------------------- scores that hardly vary */

/* u_j = x^2 / 2 + 10 log cosh(t_j - 1) + b_j x t_j: the share b_j^2 / 10 of the information is missing. */
static void faint_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const double *b = ((const data_store *)l)->scale;
    double *by = latent_row(v, j), complete = 10 * log(cosh(theta[j] - 1)), slope = 10 * tanh(theta[j] - 1);
    for (int i = 0; i < v->n; i++) {
        if (v->U) v->U[i] += 0.5 * v->x[i] * v->x[i] + complete + b[j] * v->x[i] * theta[j];
        if (v->gx) v->gx[i] = v->x[i] + b[j] * theta[j];
        if (by) by[i] += slope + b[j] * v->x[i];
    }
}

static void make_faint(data_store *s)
{
    for (int j = 0; j < s->latent.dim; j++) s->scale[j] = sqrt(10 * pow(10, -1 - j));
}

/* x_j ~ N(0, 1), y_j ~ N(t_0 + 0.03 x_j, e^(2 t_1)): nearly all of the noise is integrated by hand. */
static const double RESIDUAL = 0.03;
static void residual_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    double precision = exp(-2 * theta[1]);
    latent_add_normal(v, 0, 0, NULL, NULL);
    for (int i = 0; i < v->n; i++) {
        double off = theta[0] + RESIDUAL * v->x[i] - l->y[j], squared = precision * off * off;
        if (v->U) v->U[i] += 0.5 * squared + theta[1] + 0.5 * LOG_2PI;
        if (v->gx) v->gx[i] += RESIDUAL * precision * off;
        if (!v->D) continue;
        latent_row(v, 0)[i] += precision * off;
        latent_row(v, 1)[i] += 1 - squared;
    }
}

static void make_residual(data_store *s)
{
    drawn_normals(2021, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) s->y[j] = 1.5 + 0.8 * s->y[j];
}

/* ---------------------------------------------------------------------------- walls and steps */

static double value_of(const double *theta, int role) { return role < 0 ? 0 : theta[role]; }

static double added_energy(const pieces *p, double x)
{
    for (int k = 0; k < p->steps; k++)
        if (x < p->place[k]) return p->height[k];
    return 0;
}

static void pieces_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const data_store *s = (const data_store *)l;
    const roles *r = &s->roles;
    double noise = value_of(theta, r->noise), offset = value_of(theta, r->offset), precision = exp(-2 * noise);
    latent_add_normal(v, value_of(theta, r->mean), value_of(theta, r->spread),
                      r->mean < 0 ? NULL : latent_row(v, r->mean), r->spread < 0 ? NULL : latent_row(v, r->spread));
    for (int i = 0; i < v->n; i++) {
        double off = offset + v->x[i] - l->y[j], squared = precision * off * off;
        if (v->U) v->U[i] += 0.5 * squared + noise + 0.5 * LOG_2PI + added_energy(&s->added[j], v->x[i]);
        if (v->gx) v->gx[i] += precision * off;
        if (v->D && r->offset >= 0) latent_row(v, r->offset)[i] += precision * off;
        if (v->D && r->noise >= 0) latent_row(v, r->noise)[i] += 1 - squared;
    }
}

/* P(low < Z < high) of a standard normal Z. */
static double normal_between(double low, double high)
{
    if (low > 0) return 0.5 * (erfc(low / sqrt(2)) - erfc(high / sqrt(2)));
    return 0.5 * (erfc(-high / sqrt(2)) - erfc(-low / sqrt(2)));
}

/* -log of the integrals: the product of both normal densities is a normal density in x, cut into pieces. */
static double pieces_value(const data_store *s, const double *theta)
{
    const roles *r = &s->roles;
    double mean = value_of(theta, r->mean), A = exp(2 * value_of(theta, r->spread)),
           B = exp(2 * value_of(theta, r->noise)), loss = 0;
    for (int j = 0; j < s->latent.dim; j++) {
        const pieces *p = &s->added[j];
        double centre = s->y[j] - value_of(theta, r->offset), off = centre - mean, mass = 0, below = -INFINITY;
        double middle = (mean * B + centre * A) / (A + B), sd = sqrt(A * B / (A + B));
        for (int k = 0; k <= p->steps; k++) {
            double above = k < p->steps ? (p->place[k] - middle) / sd : INFINITY;
            mass += exp(k < p->steps ? -p->height[k] : 0) * normal_between(below, above);
            below = above;
        }
        loss += 0.5 * (off * off / (A + B) + log(A + B) + LOG_2PI) - log(mass);
    }
    return loss;
}

static double pieces_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const data_store *s = u->self;
    const double h = 1e-5;
    double at[LATENT_PARAMETERS];
    for (int k = 0; gradient && k < s->latent.parameters; k++) {
        memcpy(at, theta, (size_t)s->latent.parameters * sizeof *at);
        at[k] = theta[k] + h;
        gradient[k] = pieces_value(s, at);
        at[k] = theta[k] - h;
        gradient[k] = (gradient[k] - pieces_value(s, at)) / (2 * h);
    }
    return pieces_value(s, theta);
}

static void make_wall_one(data_store *s)
{
    s->roles = (roles){0, -1, -1, -1};
    s->y[0] = s->y[1] = 1;
    s->added[0] = (pieces){1, {1}, {INFINITY}};
}

static void make_wall_some(data_store *s)
{
    s->roles = (roles){0, 1, -1, -1};
    drawn_normals(2031, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) s->y[j] = 1 + 1.6 * s->y[j];
    for (int j = 0; j < s->latent.dim; j += 4) s->added[j] = (pieces){1, {0}, {INFINITY}};
}

/* Inefficiencies are half-normal: y_j = t_0 + |x_j| + noise. */
static void make_wall_all(data_store *s)
{
    double z[2 * VARIABLES_MOST];
    s->roles = (roles){-1, 1, 0, 2};
    drawn_normals(2041, 2 * s->latent.dim, z);
    for (int j = 0; j < s->latent.dim; j++) {
        s->y[j] = 2 + 1.5 * fabs(z[2 * j]) + 0.4 * z[2 * j + 1];
        s->added[j] = (pieces){1, {0}, {INFINITY}};
    }
}

static void make_step(data_store *s)
{
    s->roles = (roles){0, -1, -1, -1};
    s->y[0] = s->y[1] = 1;
    s->added[0] = (pieces){1, {1.5}, {-3}}; /* 3 above 1.5, but for a constant */
}

static void make_steps(data_store *s)
{
    s->roles = (roles){0, 1, -1, -1};
    drawn_normals(2051, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) {
        s->y[j] = 0.5 + 1.5 * s->y[j];
        s->added[j] = (pieces){3, {-1, 0.2, 1}, {0.4, -0.6, 0.5}};
    }
}

/* ---------------------------------------------------------------------------- many modes; a ridge; a batch */

/* x_j ~ half N(-t, 0.09) + half N(t, 0.09), y_j ~ N(x_j, 2.25). */
static void products_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    const double narrow = 1 / 0.09, wide = 1 / 2.25, constant = log(0.5) - 0.5 * (2 * LOG_2PI + log(0.09) + log(2.25));
    double *by = latent_row(v, 0);
    for (int i = 0; i < v->n; i++) {
        double above = v->x[i] - theta[0], below = v->x[i] + theta[0], off = v->x[i] - l->y[j];
        double a = -0.5 * narrow * above * above, b = -0.5 * narrow * below * below, top = fmax(a, b);
        double share = exp(a - top) / (exp(a - top) + exp(b - top));
        if (v->U) v->U[i] += 0.5 * wide * off * off - constant - top - log(exp(a - top) + exp(b - top));
        if (v->gx) v->gx[i] = narrow * (share * above + (1 - share) * below) + wide * off;
        if (by) by[i] += narrow * ((1 - share) * below - share * above);
    }
}

static void make_products(data_store *s)
{
    for (int j = 0; j < s->latent.dim; j++) s->y[j] = -5 + 11.0 * j / (s->latent.dim - 1);
}

/* x_j ~ N(t_0, e^(2 t_1)), y_j ~ N(x_j, e^(2 t_2)), and a penalty (t_2 + 1)^2 / 2. */
static void ridge_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    pieces_term(l, theta, j, v);
    for (int i = 0; j == 0 && i < v->n; i++) {
        if (v->U) v->U[i] += 0.5 * (theta[2] + 1) * (theta[2] + 1);
        if (v->D) latent_row(v, 2)[i] += theta[2] + 1;
    }
}

static double normal_quantile(double p)
{
    double low = -10, high = 10;
    for (int k = 0; k < 100; k++) {
        double middle = 0.5 * (low + high);
        if (0.5 * erfc(-middle / sqrt(2)) < p)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

static void make_ridge(data_store *s)
{
    s->roles = (roles){0, 1, -1, 2};
    for (int j = 0; j < s->latent.dim; j++) s->y[j] = 1 + 2 * normal_quantile((j + 0.5) / s->latent.dim);
}

/* latent_random_effect by a user who has mixed up two indices: every second particle of a batch has another variable's data. */
static void batch_term(const latent_data *l, const double *theta, int j, const latent_values *v)
{
    latent_add_normal(v, theta[0], theta[1], latent_row(v, 0), latent_row(v, 1));
    for (int i = 0; i < v->n; i++) {
        double off = v->x[i] - l->y[(j + i % 2) % l->dim];
        if (v->U) v->U[i] += 0.5 * (off * off + LOG_2PI);
        if (v->gx) v->gx[i] += off;
    }
}

static void make_batch(data_store *s)
{
    drawn_normals(2061, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) {
        s->y[j] = 1 + 1.8 * s->y[j];
        s->scale[j] = 1;
    }
    s->model = s->latent;
    s->model.term = batch_term;
}

/* ---------------------------------------------------------------------------- opening */

static const struct {
    const char *name;
    latent_data latent;
    void (*make)(data_store *s);
    double theta0, search; /* of all parameters; the search for the minimum begins at theta0 + search */
} rows[] = {
    {"penalties", {2, PENALTIES, -50, 50, .term = penalties_term}, make_penalties, 0, 0},
    {"mixed", {10, 4, -100, 100, .term = mixed_term}, make_mixed, 0, 0},
    {"faint", {4, 4, -50, 50, .term = faint_term}, make_faint, 0, 0.5},
    {"residual", {20, 2, -50, 50, .term = residual_term}, make_residual, 0, 0},
    {"wall_one", {2, 1, -50, 50, .term = pieces_term}, make_wall_one, 0, 0},
    {"wall_some", {12, 2, -50, 50, .term = pieces_term}, make_wall_some, 0, 0},
    {"wall_all", {15, 3, -50, 50, .term = pieces_term}, make_wall_all, 0, 0},
    {"step", {2, 1, -50, 50, .term = pieces_term}, make_step, 0, 0},
    {"steps", {8, 2, -50, 50, .term = pieces_term}, make_steps, 0, 0},
    {"products", {15, 1, -50, 50, .term = products_term}, make_products, 1, 1.5},
    {"ridge", {20, 3, -100, 100, .term = ridge_term}, make_ridge, 0, 0},
    {"batch", {10, 2, -100, 100, .term = latent_random_effect}, make_batch, 0, 0},
};

int untuned_open_unusual(untuned_problem *u, const char *data)
{
    size_t k = 0;
    double theta0[UNTUNED_PARAMETERS];
    data_store *s = untuned_room(u, 1, sizeof *s);
    while (strcmp(rows[k].name, u->name) != 0) k++;
    if (!s) return 1;
    s->latent = rows[k].latent;
    s->latent.y = s->y;
    s->latent.sd = s->scale;
    rows[k].make(s);
    for (int j = 0; j < s->latent.parameters; j++) theta0[j] = rows[k].theta0;
    int code = latent_open(u, &s->latent, theta0);
    if (s->latent.term == pieces_term) u->loss = pieces_loss;
    if (s->model.term) u->problem.model.self = &s->model;
    for (int j = 0; j < s->latent.parameters; j++) u->best[j] += rows[k].search;
    return code;
}
