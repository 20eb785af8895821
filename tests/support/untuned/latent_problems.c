/* latent_problems.c: data for the models of latents.h. */
#include <math.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "latents.h"
#include "untuned_inside.h"

enum { VARIABLES_MOST = 60, ROWS_MOST = 400 };
typedef struct {
    latent_data latent;
    double y[ROWS_MOST], sd[VARIABLES_MOST], Z[ROWS_MOST * LATENT_PARAMETERS];
} data_store;

static void make_scales_x(data_store *s)
{
    drawn_normals(1701, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) {
        s->sd[j] = pow(10, -1.5 + 3.0 * j / (s->latent.dim - 1));
        s->y[j] = 2 + 1.4 * s->sd[j] * s->y[j];
    }
}

static void make_schools(data_store *s)
{
    static const double y[] = {56.875, 6.875, -20.625, 4.375, -15.625, -10.625, 31.875, 16.875};
    static const double sd[] = {15, 10, 16, 11, 9, 11, 10, 18};
    memcpy(s->y, y, sizeof y);
    memcpy(s->sd, sd, sizeof sd);
}

static void make_far_start(data_store *s)
{
    drawn_normals(1702, s->latent.dim, s->y);
    for (int j = 0; j < s->latent.dim; j++) {
        s->sd[j] = 1;
        s->y[j] = 29 + sqrt(1 + exp(3.4)) * s->y[j];
    }
}

/* Davies' yields of dyestuff in grams, six batches of five. */
static void make_dyestuff(data_store *s)
{
    static const double yield[6][5] = {{1545, 1440, 1440, 1520, 1580}, {1540, 1555, 1490, 1560, 1495},
                                       {1595, 1550, 1605, 1510, 1560}, {1445, 1440, 1595, 1465, 1545},
                                       {1595, 1630, 1515, 1635, 1625}, {1520, 1455, 1450, 1480, 1445}};
    for (int j = 0; j < 6; j++) {
        for (int r = 0; r < 5; r++) s->y[j] += yield[j][r] / 5;
        for (int r = 0; r < 5; r++) s->sd[j] += (yield[j][r] - s->y[j]) * (yield[j][r] - s->y[j]);
    }
}

static void make_student(data_store *s)
{
    double z[5 * VARIABLES_MOST];
    drawn_normals(1703, 5 * s->latent.dim, z);
    for (int j = 0; j < s->latent.dim; j++) {
        const double *at = z + 5 * (size_t)j;
        s->y[j] = 4 + at[0] / sqrt((at[1] * at[1] + at[2] * at[2] + at[3] * at[3]) / 3) + at[4];
    }
    s->y[0] = 30;
}

static void make_squared(data_store *s)
{
    double z[2 * VARIABLES_MOST];
    drawn_normals(1704, 2 * s->latent.dim, z);
    for (int j = 0; j < s->latent.dim; j++) s->y[j] = (3 + 0.5 * z[2 * j]) * (3 + 0.5 * z[2 * j]) + 0.5 * z[2 * j + 1];
}

/* An intercept and normal covariates; Z beta + sd u of row r into eta. */
static void make_predictors(data_store *s, uint32_t name, const double *beta, double sd, double *eta)
{
    int q = s->latent.parameters - 1, rows = s->latent.dim * s->latent.each;
    double effect[VARIABLES_MOST];
    drawn_normals(name, rows * q, s->Z);
    drawn_normals(name + 1, s->latent.dim, effect);
    for (int r = 0; r < rows; r++) {
        s->Z[r * q] = 1;
        eta[r] = sd * effect[r / s->latent.each];
        for (int k = 0; k < q; k++) eta[r] += s->Z[r * q + k] * beta[k];
    }
}

static void make_binary(data_store *s)
{
    static const double beta[] = {0.5, 1, -1, 0.3};
    double eta[ROWS_MOST] = {0}, chance[ROWS_MOST];
    make_predictors(s, 1710, beta, 1.2, eta);
    drawn_uniforms(1712, s->latent.dim * s->latent.each, chance);
    for (int r = 0; r < s->latent.dim * s->latent.each; r++) s->y[r] = chance[r] < 1 / (1 + exp(-eta[r]));
}

double latent_count_of(double rate, double chance)
{
    double p = exp(-rate), below = p, y = 0;
    for (; below < chance && y < 1000; below += p) p *= rate / ++y;
    return y;
}

static void make_counts(data_store *s)
{
    double beta[LATENT_PARAMETERS], eta[ROWS_MOST] = {0}, chance[ROWS_MOST];
    drawn_normals(1720, s->latent.parameters - 1, beta);
    for (int k = 0; k < s->latent.parameters - 1; k++) beta[k] *= 0.3;
    beta[0] = 1;
    make_predictors(s, 1721, beta, 0.5, eta);
    drawn_uniforms(1723, s->latent.dim * s->latent.each, chance);
    for (int r = 0; r < s->latent.dim * s->latent.each; r++) s->y[r] = latent_count_of(exp(eta[r]), chance[r]);
}

static const struct {
    const char *name;
    latent_data latent;
    void (*make)(data_store *s);
    double theta0[3], search[3]; /* the search for the minimum begins at theta0 + search */
} rows[] = {
    {"scales_x", {10, 1, -1e3, 1e3, .term = latent_shared_mean}, make_scales_x, {0}, {0}},
    {"schools", {8, 2, -1e4, 1e4, .term = latent_random_effect}, make_schools, {0}, {0}},
    {"far_start", {20, 2, -1e3, 1e3, .term = latent_random_effect}, make_far_start, {0, -4}, {20, 5}},
    {"dyestuff", {6, 3, -1e5, 1e5, .term = latent_batches_effect, .each = 5}, make_dyestuff, {1500, 3, 3}, {0}},
    {"t_latent", {20, 2, -100, 130, .term = latent_student}, make_student, {0}, {0}},
    {"square", {4, 1, -12, 12, .term = latent_squared}, make_squared, {0.3}, {1.7}},
    {"glmm60",
     {60, 5, -60, 60, .term = latent_binary, .prepare = latent_binary_prepare, .prep = 300, .each = 5},
     make_binary,
     {0},
     {0}},
    {"poisson20",
     {40, 20, -60, 60, .term = latent_counts, .prepare = latent_counts_prepare, .prep = 40 * 41, .each = 10},
     make_counts,
     {0},
     {0}},
};

int untuned_open_latent(untuned_problem *u, const char *data)
{
    size_t k = 0;
    double theta0[LATENT_PARAMETERS] = {0};
    data_store *s = untuned_room(u, 1, sizeof *s);
    while (strcmp(rows[k].name, u->name) != 0) k++;
    memcpy(theta0, rows[k].theta0, sizeof rows[k].theta0);
    if (!s) return 1;
    s->latent = rows[k].latent;
    s->latent.y = s->y;
    s->latent.sd = s->sd;
    s->latent.Z = s->Z;
    rows[k].make(s);
    int code = latent_open(u, &s->latent, theta0);
    for (int j = 0; j < 3; j++) u->best[j] += rows[k].search[j];
    return code;
}
