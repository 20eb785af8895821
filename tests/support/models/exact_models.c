/* exact_models.c: see exact_models.h. */
#include "exact_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double log_2pi = 1.8378770664093454836;
enum { TILE = 64 };

static const double *row_of(const sosmc_batch *b, int j) { return b->x + (size_t)j * (size_t)b->ld; }

/* ---------------------------------------------------------------------------- anchored mixture */

static void pad(const anchored_mixture *a, const double *theta, double *full)
{
    memcpy(full, theta, (size_t)(a->mixture.components - 1) * sizeof *full);
    full[a->mixture.components - 1] = 0;
}

static int anchored_prepare(const void *self, const double *theta, void *prep)
{
    const anchored_mixture *a = self;
    double full[ANCHORED_MOST];
    pad(a, theta, full);
    return a->inner.prepare(a->inner.self, full, prep);
}

static int anchored_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const anchored_mixture *a = self;
    double full[ANCHORED_MOST];
    pad(a, theta, full);
    return a->inner.energy(a->inner.self, full, b, U, gx);
}

static int anchored_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const anchored_mixture *a = self;
    double full[ANCHORED_MOST], sum[ANCHORED_MOST] = {0};
    pad(a, theta, full);
    int code = a->inner.grad_theta(a->inner.self, full, b, c, sum);
    for (int j = 0; j < a->mixture.components - 1; j++) g[j] += sum[j];
    return code;
}

sosmc_model anchored_model(anchored_mixture *a)
{
    a->inner = sosmc_mixture_model(&a->mixture);
    return (sosmc_model){.dim_x = a->inner.dim_x,
                         .dim_theta = a->inner.dim_theta - 1,
                         .work = a->inner.work,
                         .prep = a->inner.prep,
                         .tile = a->inner.tile,
                         .self = a,
                         .prepare = anchored_prepare,
                         .energy = anchored_energy,
                         .grad_theta = anchored_grad};
}

/* ---------------------------------------------------------------------------- bumps */

static void bump(const bumps *m, int j, const sosmc_batch *b, double *e)
{
    for (int i = 0; i < b->n; i++) {
        double r = (b->x[i] - m->centre[j]) / m->width;
        e[i] = -0.5 * r * r;
    }
    sosmc_exp(b->simd, b->n, e, e);
}

static int bumps_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const bumps *m = self;
    double e[TILE];
    for (int i = 0; i < b->n; i++) U[i] = 0.5 * b->x[i] * b->x[i] / m->variance;
    for (int i = 0; gx && i < b->n; i++) gx[i] = b->x[i] / m->variance;
    for (int j = 0; j < m->count; j++) {
        bump(m, j, b, e);
        for (int i = 0; i < b->n; i++) U[i] += theta[j] * e[i];
        for (int i = 0; gx && i < b->n; i++)
            gx[i] -= theta[j] * e[i] * (b->x[i] - m->centre[j]) / (m->width * m->width);
    }
    return 0;
}

static int bumps_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const bumps *m = self;
    double e[TILE];
    for (int j = 0; j < m->count; j++) {
        bump(m, j, b, e);
        for (int i = 0; i < b->n; i++) g[j] += c[i] * e[i];
    }
    return 0;
}

sosmc_model bumps_model(const bumps *b)
{
    return (sosmc_model){
        .dim_x = 1, .dim_theta = b->count, .tile = TILE, .self = b, .energy = bumps_energy, .grad_theta = bumps_grad};
}

/* ---------------------------------------------------------------------------- herds */

int herds_read(herd_data *h, const char *path)
{
    char line[200];
    FILE *f = fopen(path, "r");
    memset(h, 0, sizeof *h);
    if (!f) return 1;
    while (h->rows < HERDS_ROWS && fgets(line, sizeof line, f)) {
        char *at = line;
        int r = h->rows, herd = (int)strtol(at, &at, 10); /* 0 where the names of the columns stand */
        double cases = strtod(at + (*at == ','), &at), size = strtod(at + (*at == ','), &at);
        int period = (int)strtol(at + (*at == ','), &at, 10);
        if (herd < 1 || herd > HERDS_MOST || period < 1 || period > HERDS_PERIODS) continue;
        h->herd[r] = herd - 1;
        h->period[r] = period - 1;
        h->cases[r] = cases;
        h->size[r] = size;
        h->constant += lgamma(size + 1) - lgamma(cases + 1) - lgamma(size - cases + 1);
        if (herd > h->herds) h->herds = herd;
        h->rows++;
    }
    (void)fclose(f);
    return h->rows == 0;
}

static double log_odds(const herd_data *h, const double *theta, int r)
{
    return theta[0] + (h->period[r] ? theta[h->period[r]] : 0);
}

/* e = exp(-|eta|) of row r, eta = log-odds + x. */
static void odds_row(const herd_data *h, const double *theta, int r, const sosmc_batch *b, double *eta, double *e)
{
    const double *x = row_of(b, h->herd[r]);
    double at = log_odds(h, theta, r);
    for (int i = 0; i < b->n; i++) eta[i] = at + x[i];
    for (int i = 0; i < b->n; i++) e[i] = -fabs(eta[i]);
    sosmc_exp(b->simd, b->n, e, e);
}

/* The derivative of row r's part of U by eta: size sigmoid(eta) - cases. */
static double residual(const herd_data *h, int r, double eta, double e)
{
    return h->size[r] * (eta > 0 ? 1 : e) / (1 + e) - h->cases[r];
}

/* U = -log p_theta(x, cases): the constants are in it, so that log Z is the log-likelihood. */
static int herds_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const herd_data *h = self;
    double eta[TILE], e[TILE], l[TILE], precision = exp(-2 * theta[HERDS_THETA - 1]);
    for (int i = 0; i < b->n; i++) U[i] = h->herds * (0.5 * log_2pi + theta[HERDS_THETA - 1]) - h->constant;
    for (int j = 0; j < h->herds; j++) {
        const double *x = row_of(b, j);
        for (int i = 0; i < b->n; i++) U[i] += 0.5 * precision * x[i] * x[i];
        for (int i = 0; gx && i < b->n; i++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = precision * x[i];
    }
    for (int r = 0; r < h->rows; r++) {
        odds_row(h, theta, r, b, eta, e);
        for (int i = 0; i < b->n; i++) l[i] = 1 + e[i];
        sosmc_log(b->simd, b->n, l, l);
        for (int i = 0; i < b->n; i++) U[i] += h->size[r] * ((eta[i] > 0 ? eta[i] : 0) + l[i]) - h->cases[r] * eta[i];
        double *g = gx ? gx + (size_t)h->herd[r] * (size_t)b->ld : NULL;
        for (int i = 0; gx && i < b->n; i++) g[i] += residual(h, r, eta[i], e[i]);
    }
    return 0;
}

static int herds_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const herd_data *h = self;
    double eta[TILE], e[TILE], precision = exp(-2 * theta[HERDS_THETA - 1]);
    for (int r = 0; r < h->rows; r++) {
        double sum = 0;
        odds_row(h, theta, r, b, eta, e);
        for (int i = 0; i < b->n; i++) sum += c[i] * residual(h, r, eta[i], e[i]);
        g[0] += sum;
        if (h->period[r]) g[h->period[r]] += sum;
    }
    for (int j = 0; j < h->herds; j++)
        for (int i = 0; i < b->n; i++) g[HERDS_THETA - 1] += c[i] * (1 - precision * row_of(b, j)[i] * row_of(b, j)[i]);
    return 0;
}

static int herds_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const herd_data *h = self;
    size_t ld = (size_t)b->ld;
    double eta[TILE], e[TILE], precision = exp(-2 * theta[HERDS_THETA - 1]), *last = D + (HERDS_THETA - 1) * ld;
    memset(D, 0, HERDS_THETA * ld * sizeof *D);
    for (int r = 0; r < h->rows; r++) {
        double *own = D + (size_t)h->period[r] * ld;
        odds_row(h, theta, r, b, eta, e);
        for (int i = 0; i < b->n; i++) e[i] = residual(h, r, eta[i], e[i]);
        for (int i = 0; i < b->n; i++) D[i] += e[i];
        for (int i = 0; h->period[r] && i < b->n; i++) own[i] += e[i];
    }
    for (int j = 0; j < h->herds; j++)
        for (int i = 0; i < b->n; i++) last[i] += 1 - precision * row_of(b, j)[i] * row_of(b, j)[i];
    return 0;
}

sosmc_model herds_model(const herd_data *h)
{
    return (sosmc_model){.dim_x = h->herds,
                         .dim_theta = HERDS_THETA,
                         .tile = TILE,
                         .self = h,
                         .energy = herds_energy,
                         .grad_theta = herds_grad,
                         .scores = herds_scores};
}

/* One herd's integral over its intercept u = sigma z: nodes of a trapezoidal rule in z. */
enum { NODES = 81 };
static double herd_integral(const herd_data *h, int herd, const double *theta, double *gradient)
{
    const double span = 16, width = span / (NODES - 1);
    double value[NODES], slope[NODES][HERDS_THETA] = {{0}}, sigma = exp(theta[HERDS_THETA - 1]), top = -INFINITY,
                         sum = 0;
    for (int k = 0; k < NODES; k++) {
        double z = -0.5 * span + width * k;
        value[k] = -0.5 * (z * z + log_2pi);
        for (int r = 0; r < h->rows; r++) {
            if (h->herd[r] != herd) continue;
            double eta = log_odds(h, theta, r) + sigma * z, e = exp(-fabs(eta)), s = -residual(h, r, eta, e);
            value[k] -= h->size[r] * ((eta > 0 ? eta : 0) + log1p(e)) - h->cases[r] * eta;
            slope[k][0] += s;
            if (h->period[r]) slope[k][h->period[r]] += s;
            slope[k][HERDS_THETA - 1] += s * sigma * z;
        }
        top = fmax(top, value[k]);
    }
    for (int k = 0; k < NODES; k++) sum += value[k] = exp(value[k] - top);
    for (int j = 0; gradient && j < HERDS_THETA; j++)
        for (int k = 0; k < NODES; k++) gradient[j] += value[k] / sum * slope[k][j];
    return top + log(sum * width);
}

double herds_loglik(const herd_data *h, const double *theta, double *gradient)
{
    double sum = h->constant;
    for (int j = 0; gradient && j < HERDS_THETA; j++) gradient[j] = 0;
    for (int j = 0; j < h->herds; j++) sum += herd_integral(h, j, theta, gradient);
    return sum;
}

void herds_laplace(const herd_data *h, const double *theta, double *mode, double *curvature)
{
    double precision = exp(-2 * theta[HERDS_THETA - 1]);
    for (int j = 0; j < h->herds; j++) {
        mode[j] = 0;
        for (int step = 0; step < 50; step++) {
            double slope = precision * mode[j];
            curvature[j] = precision;
            for (int r = 0; r < h->rows; r++) {
                if (h->herd[r] != j) continue;
                double p = 1 / (1 + exp(-log_odds(h, theta, r) - mode[j]));
                slope += h->size[r] * p - h->cases[r];
                curvature[j] += h->size[r] * p * (1 - p);
            }
            mode[j] -= slope / curvature[j];
        }
    }
}

/* ---------------------------------------------------------------------------- linear */

/* prep: A theta */
static int linear_prepare(const void *self, const double *theta, void *prep)
{
    const linear_data *l = self;
    double *mean = prep;
    for (int d = 0; d < l->dim; d++) {
        const double *row = l->A + (size_t)d * (size_t)l->parameters;
        mean[d] = 0;
        for (int j = 0; j < l->parameters; j++) mean[d] += row[j] * theta[j];
    }
    return 0;
}

/* U = -log p_theta(x, y) */
static int linear_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const linear_data *l = self;
    const double *mean = b->prep;
    double constant = 0;
    for (int d = 0; d < l->dim; d++) constant += log_2pi + 0.5 * log(l->noise[d]);
    for (int i = 0; i < b->n; i++) U[i] = constant;
    for (int d = 0; d < l->dim; d++) {
        const double *x = row_of(b, d);
        double inverse = 1 / l->noise[d];
        for (int i = 0; i < b->n; i++) {
            double a = x[i] - mean[d], e = x[i] - l->y[d];
            U[i] += 0.5 * (a * a + inverse * e * e);
            if (gx) gx[(size_t)d * (size_t)b->ld + (size_t)i] = a + inverse * e;
        }
    }
    return 0;
}

static int linear_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const linear_data *l = self;
    const double *mean = b->prep;
    for (int d = 0; d < l->dim; d++) {
        const double *x = row_of(b, d), *row = l->A + (size_t)d * (size_t)l->parameters;
        double sum = 0;
        for (int i = 0; i < b->n; i++) sum += c[i] * (mean[d] - x[i]);
        for (int j = 0; j < l->parameters; j++) g[j] += sum * row[j];
    }
    return 0;
}

/* D = A^T (A theta - x), a row of D for every parameter. */
static int linear_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const linear_data *l = self;
    const double *mean = b->prep;
    size_t ld = (size_t)b->ld;
    memset(D, 0, (size_t)l->parameters * ld * sizeof *D);
    for (int d = 0; d < l->dim; d++) {
        const double *restrict x = row_of(b, d), *row = l->A + (size_t)d * (size_t)l->parameters;
        for (int j = 0; j < l->parameters; j++) {
            double *restrict to = D + (size_t)j * ld;
            for (int i = 0; i < b->n; i++) to[i] += row[j] * (mean[d] - x[i]);
        }
    }
    return 0;
}

sosmc_model linear_model(const linear_data *l)
{
    return (sosmc_model){.dim_x = l->dim,
                         .dim_theta = l->parameters,
                         .prep = (size_t)l->dim * sizeof(double),
                         .tile = TILE,
                         .self = l,
                         .prepare = linear_prepare,
                         .energy = linear_energy,
                         .grad_theta = linear_grad,
                         .scores = linear_scores};
}

/* y ~ N(A theta, I + noise) */
double linear_loglik(const linear_data *l, const double *theta, double *gradient)
{
    double sum = 0;
    for (int j = 0; gradient && j < l->parameters; j++) gradient[j] = 0;
    for (int d = 0; d < l->dim; d++) {
        const double *row = l->A + (size_t)d * (size_t)l->parameters;
        double r = l->y[d], variance = 1 + l->noise[d];
        for (int j = 0; j < l->parameters; j++) r -= row[j] * theta[j];
        sum -= 0.5 * (log_2pi + log(variance) + r * r / variance);
        for (int j = 0; gradient && j < l->parameters; j++) gradient[j] += row[j] * r / variance;
    }
    return sum;
}

void linear_posterior(const linear_data *l, const double *theta, double *mean, double *precision)
{
    (void)linear_prepare(l, theta, mean);
    for (int d = 0; d < l->dim; d++) {
        precision[d] = 1 + 1 / l->noise[d];
        mean[d] = (mean[d] + l->y[d] / l->noise[d]) / precision[d];
    }
}
