/* out_of_sample_energies.c: problems of the second table without latent variables: an energy fitted to data, and two families that
 * are tuned to a reward. */
#include <math.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

/* ---------------------------------------------------------------------------- two spins */

/* U = e^(t_0) ((x_1^2 - 1)^2 + (x_2^2 - 1)^2) - t_1 x_1 x_2 - t_2 x_1 - t_3 x_2: a coupling and two fields. */
enum { SPINS_DATA = 300, SPINS_THETA = 4 };
typedef struct {
    double data[2 * SPINS_DATA];
    sosmc_rows rows;
} spins_data;

static double well(double x) { return (x * x - 1) * (x * x - 1); }

static int spins_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *restrict x = b->x, *restrict y = untuned_row(b, 1);
    double a = exp(theta[0]);
    for (int i = 0; i < b->n; i++) {
        U[i] = a * (well(x[i]) + well(y[i])) - theta[1] * x[i] * y[i] - theta[2] * x[i] - theta[3] * y[i];
        if (!gx) continue;
        gx[i] = 4 * a * x[i] * (x[i] * x[i] - 1) - theta[1] * y[i] - theta[2];
        gx[b->ld + i] = 4 * a * y[i] * (y[i] * y[i] - 1) - theta[1] * x[i] - theta[3];
    }
    return 0;
}

static int spins_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const double *restrict x = b->x, *restrict y = untuned_row(b, 1);
    double a = exp(theta[0]);
    for (int i = 0; i < b->n; i++) {
        D[i] = a * (well(x[i]) + well(y[i]));
        D[b->ld + i] = -x[i] * y[i];
        D[2 * b->ld + i] = -x[i];
        D[3 * b->ld + i] = -y[i];
    }
    return 0;
}

static int spins_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[SPINS_THETA * UNTUNED_TILE];
    return untuned_contract(spins_scores, self, theta, b, SPINS_THETA, c, D, g);
}

/* gradient += weight dU/dtheta at x; returns U. */
static double spins_point(const double *theta, const double *x, double weight, double *gradient)
{
    double U, D[SPINS_THETA];
    sosmc_batch one = {.x = x, .dim = 2, .n = 1, .ld = 1};
    (void)spins_energy(NULL, theta, &one, &U, NULL);
    (void)spins_scores(NULL, theta, &one, D);
    for (int k = 0; gradient && k < SPINS_THETA; k++) gradient[k] += weight * D[k];
    return U;
}

/* log Z is a trapezoidal rule on a square. */
static double spins_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    enum { SIDE = 121 };
    const spins_data *s = u->self;
    const double limit = 6, width = 2 * limit / (SIDE - 1);
    double mean = 0, least = INFINITY, sum = 0, at[SPINS_THETA] = {0}, U[SIDE * SIDE];
    for (int k = 0; gradient && k < SPINS_THETA; k++) gradient[k] = 0;
    for (int i = 0; i < SPINS_DATA; i++)
        mean += spins_point(theta, s->data + 2 * (size_t)i, 1.0 / SPINS_DATA, gradient) / SPINS_DATA;
    for (int k = 0; k < SIDE * SIDE; k++) {
        int row = k / SIDE, column = k % SIDE;
        const double x[2] = {-limit + width * row, -limit + width * column};
        U[k] = spins_point(theta, x, 0, NULL);
        least = fmin(least, U[k]);
    }
    for (int k = 0; k < SIDE * SIDE; k++) {
        int row = k / SIDE, column = k % SIDE;
        const double x[2] = {-limit + width * row, -limit + width * column}, weight = exp(least - U[k]);
        sum += weight;
        if (gradient) (void)spins_point(theta, x, weight, at);
    }
    for (int k = 0; gradient && k < SPINS_THETA; k++) gradient[k] -= at[k] / sum;
    return mean + log(sum * width * width) - least;
}

int untuned_open_spins(untuned_problem *u, const char *data)
{
    static const double zeros[SPINS_THETA] = {0};
    double side[2 * SPINS_DATA];
    spins_data *s = untuned_room(u, 1, sizeof *s);
    if (!s || untuned_start(u, SPINS_THETA, zeros)) return 1;
    drawn_normals(1951, 2 * SPINS_DATA, s->data);
    drawn_uniforms(1952, 2 * SPINS_DATA, side);
    for (int i = 0; i < SPINS_DATA; i++) {
        double first = side[2 * i] < 0.6 ? 1 : -1, second = side[2 * i + 1] < 0.75 ? first : -first;
        s->data[2 * i] = 0.95 * first + 0.3 * s->data[2 * i];
        s->data[2 * i + 1] = 0.95 * second + 0.3 * s->data[2 * i + 1];
    }
    s->rows = (sosmc_rows){.data = s->data, .rows = SPINS_DATA, .mode = SOSMC_ROWS_IN_ORDER};
    u->problem.model = (sosmc_model){.dim_x = 2,
                                     .dim_theta = SPINS_THETA,
                                     .tile = UNTUNED_TILE,
                                     .self = s,
                                     .energy = spins_energy,
                                     .grad_theta = spins_grad,
                                     .scores = spins_scores};
    u->problem.objective = sosmc_likelihood(sosmc_rows_source(&s->rows), SPINS_DATA);
    u->nats = SPINS_DATA;
    u->self = s;
    u->loss = spins_loss;
    return 0;
}

/* ---------------------------------------------------------------------------- a skewed family */

/* U = a (e^(x - m) - (x - m)), theta = (m, log a): e^(x - m) ~ Gamma(a, a). The reference is (0, log 3); the reward is a smooth step
 * above 0.5. Forward, beta 0.2. */
enum { SKEWED_THETA = 2, SHAPE = 3, REFERENCE_BATCH = 1024 };
static const double skewed_beta = 0.2;

/* e = e^(x - m) */
static void skewed_exp(const double *theta, const sosmc_batch *b, double *e)
{
    for (int i = 0; i < b->n; i++) e[i] = b->x[i] - theta[0];
    sosmc_exp(b->simd, b->n, e, e);
}

static int skewed_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    double a = exp(theta[1]);
    skewed_exp(theta, b, U);
    for (int i = 0; gx && i < b->n; i++) gx[i] = a * (U[i] - 1);
    for (int i = 0; i < b->n; i++) U[i] = a * (U[i] - b->x[i] + theta[0]);
    return 0;
}

static int skewed_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    double a = exp(theta[1]);
    skewed_exp(theta, b, D);
    for (int i = 0; i < b->n; i++) D[b->ld + i] = a * (D[i] - b->x[i] + theta[0]);
    for (int i = 0; i < b->n; i++) D[i] = a * (1 - D[i]);
    return 0;
}

static int skewed_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[SKEWED_THETA * UNTUNED_TILE];
    return untuned_contract(skewed_scores, self, theta, b, SKEWED_THETA, c, D, g);
}

static int skewed_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = 0.5 + 0.5 * tanh(2 * (b->x[i] - 0.5));
    return 0;
}

/* The reference: the log of a third of the sum of three exponentials. */
static int skewed_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    for (int from = 0; from < b->n; from += UNTUNED_TILE) {
        double u[UNTUNED_TILE], sum[UNTUNED_TILE] = {0};
        sosmc_batch part = *b;
        part.first += from;
        part.n = b->n - from < UNTUNED_TILE ? b->n - from : UNTUNED_TILE;
        for (uint32_t k = 0; k < SHAPE; k++) {
            sosmc_uniforms(rng, k, &part, u);
            sosmc_log(b->simd, part.n, u, u);
            for (int i = 0; i < part.n; i++) sum[i] -= u[i] / SHAPE;
        }
        sosmc_log(b->simd, part.n, sum, x + from);
    }
    return 0;
}

static int skewed_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const double theta0[SKEWED_THETA] = {0, log(SHAPE)}, constant = SHAPE * log(SHAPE) - log(2);
    (void)skewed_energy(NULL, theta0, b, lq, NULL);
    for (int i = 0; i < b->n; i++) lq[i] = constant - lq[i];
    return 0;
}

/* log Z = lgamma(a) - a log a; expectations are a trapezoidal rule. */
static double skewed_log_z(const double *theta) { return lgamma(exp(theta[1])) - theta[1] * exp(theta[1]); }

static double skewed_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const double low = -60, high = 12, width = 0.02, log_z = skewed_log_z(theta),
                 log_z0 = skewed_log_z(u->problem.theta0);
    double reward = 0, kl = 0, with_reward[SKEWED_THETA] = {0}, here[SKEWED_THETA] = {0}, there[SKEWED_THETA] = {0};
    for (int k = 0; k < (int)((high - low) / width + 0.5); k++) {
        double x = low + k * width;
        double U, U0, R, D[SKEWED_THETA];
        sosmc_batch one = {.x = &x, .dim = 1, .n = 1, .ld = 1};
        (void)skewed_energy(NULL, theta, &one, &U, NULL);
        (void)skewed_energy(NULL, u->problem.theta0, &one, &U0, NULL);
        (void)skewed_scores(NULL, theta, &one, D);
        (void)skewed_reward(NULL, &one, &R);
        double p = width * exp(-U - log_z), q = width * exp(-U0 - log_z0);
        reward += p * R;
        kl += q * (U + log_z - U0 - log_z0);
        for (int k = 0; k < SKEWED_THETA; k++) {
            with_reward[k] += p * R * D[k];
            here[k] += p * D[k];
            there[k] += q * D[k];
        }
    }
    for (int k = 0; gradient && k < SKEWED_THETA; k++)
        gradient[k] = with_reward[k] - reward * here[k] + skewed_beta * (there[k] - here[k]);
    return -reward + skewed_beta * kl;
}

int untuned_open_skewed(untuned_problem *u, const char *data)
{
    const double start[SKEWED_THETA] = {0, log(SHAPE)};
    if (untuned_start(u, SKEWED_THETA, start)) return 1;
    u->problem.model = (sosmc_model){.dim_x = 1,
                                     .dim_theta = SKEWED_THETA,
                                     .tile = UNTUNED_TILE,
                                     .energy = skewed_energy,
                                     .grad_theta = skewed_grad,
                                     .scores = skewed_scores};
    sosmc_source reference = {.draw = skewed_draw, .logpdf = skewed_logpdf};
    u->problem.objective = sosmc_reward_forward((sosmc_score){.eval = skewed_reward}, skewed_beta, reference,
                                                REFERENCE_BATCH, u->problem.theta0);
    u->loss = skewed_loss;
    return 0;
}

/* ---------------------------------------------------------------------------- a correlated Gaussian */

/* x = m + e^s z, z ~ N(0, C) with C_jk = 0.7^|j-k|, theta = (m, s); the reward is -0.2 |x - c|^2. Reverse, beta 0.5. The reference
 * has means 0 and standard deviations 1, 1/2 and 2. */
enum { GAUSS = 3, GAUSS_THETA = 2 * GAUSS };
static const double gauss_beta = 0.5, gauss_weight = 0.2, gauss_centre[GAUSS] = {2, -1, 1}, correlation = 0.7;

/* An entry of C^-1. */
static double gauss_precision(int j, int k)
{
    double inside = j > 0 && j < GAUSS - 1 ? 1 + correlation * correlation : 1;
    return (j == k ? inside : j - k == 1 || k - j == 1 ? -correlation : 0) / (1 - correlation * correlation);
}

/* z and C^-1 z of particle i. */
static void gauss_standard(const double *theta, const sosmc_batch *b, int i, double *z, double *slope)
{
    for (int j = 0; j < GAUSS; j++) z[j] = exp(-theta[GAUSS + j]) * (untuned_row(b, j)[i] - theta[j]);
    for (int j = 0; j < GAUSS; j++) {
        slope[j] = 0;
        for (int k = 0; k < GAUSS; k++) slope[j] += gauss_precision(j, k) * z[k];
    }
}

static int gauss_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        double z[GAUSS], slope[GAUSS];
        gauss_standard(theta, b, i, z, slope);
        U[i] = 0;
        for (int j = 0; j < GAUSS; j++) U[i] += 0.5 * z[j] * slope[j];
        for (int j = 0; gx && j < GAUSS; j++) gx[j * b->ld + i] = exp(-theta[GAUSS + j]) * slope[j];
    }
    return 0;
}

static int gauss_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    for (int i = 0; i < b->n; i++) {
        double z[GAUSS], slope[GAUSS];
        gauss_standard(theta, b, i, z, slope);
        for (int j = 0; j < GAUSS; j++) {
            D[j * b->ld + i] = -exp(-theta[GAUSS + j]) * slope[j];
            D[(GAUSS + j) * b->ld + i] = -z[j] * slope[j];
        }
    }
    return 0;
}

static int gauss_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[GAUSS_THETA * UNTUNED_TILE];
    return untuned_contract(gauss_scores, self, theta, b, GAUSS_THETA, c, D, g);
}

static int gauss_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = 0;
    for (int j = 0; j < GAUSS; j++)
        for (int i = 0; i < b->n; i++) {
            double off = untuned_row(b, j)[i] - gauss_centre[j];
            s[i] -= gauss_weight * off * off;
        }
    return 0;
}

/* With d the difference of the means in the reference's standard deviations and r the ratio of standard deviations,
 * 2 KL = sum_jk C^-1_jk (d_j d_k + C_jk r_j r_k) - dim - 2 sum_j log r_j. */
static double gauss_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const double *theta0 = u->problem.theta0;
    double d[GAUSS], r[GAUSS], loss = -0.5 * gauss_beta * GAUSS;
    for (int j = 0; j < GAUSS; j++) {
        d[j] = exp(-theta0[GAUSS + j]) * (theta[j] - theta0[j]);
        r[j] = exp(theta[GAUSS + j] - theta0[GAUSS + j]);
    }
    for (int j = 0; j < GAUSS; j++) {
        double off = theta[j] - gauss_centre[j], variance = exp(2 * theta[GAUSS + j]), by_mean = 0, by_scale = 0;
        for (int k = 0; k < GAUSS; k++) {
            by_mean += gauss_precision(j, k) * d[k];
            by_scale += gauss_precision(j, k) * pow(correlation, j > k ? j - k : k - j) * r[k];
        }
        loss += gauss_weight * (off * off + variance);
        loss += gauss_beta * (0.5 * (d[j] * by_mean + r[j] * by_scale) - log(r[j]));
        if (!gradient) continue;
        gradient[j] = 2 * gauss_weight * off + gauss_beta * exp(-theta0[GAUSS + j]) * by_mean;
        gradient[GAUSS + j] = 2 * gauss_weight * variance + gauss_beta * (r[j] * by_scale - 1);
    }
    return loss;
}

int untuned_open_gauss_rev(untuned_problem *u, const char *data)
{
    const double start[GAUSS_THETA] = {0, 0, 0, 0, -log(2), log(2)};
    if (untuned_start(u, GAUSS_THETA, start)) return 1;
    u->problem.model = (sosmc_model){.dim_x = GAUSS,
                                     .dim_theta = GAUSS_THETA,
                                     .tile = UNTUNED_TILE,
                                     .energy = gauss_energy,
                                     .grad_theta = gauss_grad,
                                     .scores = gauss_scores};
    u->problem.objective = sosmc_reward_reverse((sosmc_score){.eval = gauss_reward}, gauss_beta, u->problem.theta0);
    u->loss = gauss_loss;
    return 0;
}
