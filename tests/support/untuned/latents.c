/* latents.c: see latents.h. */
#include "latents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "untuned_inside.h"

/* ---------------------------------------------------------------------------- the model */

static int prepare(const void *self, const double *theta, void *prep)
{
    const latent_data *l = self;
    l->prepare(l, theta, prep);
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const latent_data *l = self;
    latent_values v = {.simd = b->simd, .prep = b->prep, .n = b->n, .ld = b->ld, .U = U};
    if (b->n > UNTUNED_TILE) return 1;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < l->dim; j++) {
        v.x = untuned_row(b, j);
        v.gx = gx ? gx + (size_t)j * (size_t)b->ld : NULL;
        l->term(l, theta, j, &v);
    }
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const latent_data *l = self;
    latent_values v = {.simd = b->simd, .prep = b->prep, .n = b->n, .ld = b->ld, .D = D};
    if (b->n > UNTUNED_TILE) return 1;
    memset(D, 0, (size_t)l->parameters * (size_t)b->ld * sizeof *D);
    for (int j = 0; j < l->dim; j++) {
        v.x = untuned_row(b, j);
        l->term(l, theta, j, &v);
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double D[LATENT_PARAMETERS * UNTUNED_TILE];
    return untuned_contract(scores, self, theta, b, ((const latent_data *)self)->parameters, c, D, g);
}

static sosmc_model latent_model(const latent_data *l)
{
    return (sosmc_model){.dim_x = l->dim,
                         .dim_theta = l->parameters,
                         .prep = (size_t)l->prep * sizeof(double),
                         .tile = UNTUNED_TILE,
                         .self = l,
                         .prepare = l->prepare ? prepare : NULL,
                         .energy = energy,
                         .grad_theta = grad_theta,
                         .scores = scores};
}

/* ---------------------------------------------------------------------------- its integrals */

enum { NODES = 512, CHUNKS = NODES / UNTUNED_TILE };

typedef struct {
    const latent_data *l;
    const double *theta, *prep;
    int j;
    double low, width; /* the first node, and the distance between two */
    double U[NODES];
} line;

/* u_j at all nodes, or, with weights, gradient += sum of weight times du_j/dtheta. */
static void evaluate(line *n, const double *weight, double *gradient)
{
    const latent_data *l = n->l;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        double x[UNTUNED_TILE], D[LATENT_PARAMETERS * UNTUNED_TILE] = {0}, *U = n->U + chunk * UNTUNED_TILE;
        latent_values v = {.prep = n->prep, .n = UNTUNED_TILE, .ld = UNTUNED_TILE, .x = x};
        for (int i = 0; i < UNTUNED_TILE; i++) x[i] = n->low + n->width * (chunk * UNTUNED_TILE + i);
        if (weight)
            v.D = D;
        else
            v.U = memset(U, 0, UNTUNED_TILE * sizeof *U);
        l->term(l, n->theta, n->j, &v);
        for (int k = 0; weight && k < l->parameters; k++)
            for (int i = 0; i < UNTUNED_TILE; i++)
                gradient[k] += weight[chunk * UNTUNED_TILE + i] * D[k * UNTUNED_TILE + i];
    }
}

/* Lays the nodes over what is not negligible of the integrand: within 45 of the least energy, and not less than 40 % of them. */
static double place(line *n)
{
    double low = n->l->low, high = n->l->high, least = 0;
    for (int round = 0; round < 60; round++) {
        int first = NODES, last = 0;
        n->low = low;
        n->width = (high - low) / (NODES - 1);
        evaluate(n, NULL, NULL);
        least = INFINITY;
        for (int k = 0; k < NODES; k++) least = fmin(least, n->U[k]);
        for (int k = 0; k < NODES; k++) {
            if (!(n->U[k] < least + 45)) continue;
            if (k < first) first = k;
            last = k;
        }
        if (last - first > 2 * NODES / 5) break;
        high = low + n->width * (last + 1);
        low += n->width * (first - 1);
    }
    return least;
}

/* log Z, and unless that is NULL its gradient. */
static double latent_log_z(const latent_data *l, const double *theta, double *gradient)
{
    double total = 0, *prep = calloc((size_t)l->prep + 1, sizeof *prep);
    if (!prep) return NAN;
    if (l->prepare) l->prepare(l, theta, prep);
    for (int k = 0; gradient && k < l->parameters; k++) gradient[k] = 0;
    for (int j = 0; j < l->dim; j++) {
        line n = {.l = l, .theta = theta, .prep = prep, .j = j};
        double least = place(&n), weight[NODES], sum = 0;
        for (int k = 0; k < NODES; k++) sum += weight[k] = exp(least - n.U[k]);
        for (int k = 0; k < NODES; k++) weight[k] /= -sum;
        if (gradient) evaluate(&n, weight, gradient);
        total += log(sum * n.width) - least;
    }
    free(prep);
    return total;
}

static double latent_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const latent_data *l = u->self;
    double log_z = latent_log_z(l, theta, gradient);
    for (int k = 0; gradient && k < l->parameters; k++) gradient[k] = -gradient[k];
    return -log_z;
}

int latent_open(untuned_problem *u, latent_data *l, const double *theta0)
{
    u->problem.model = latent_model(l);
    u->self = l;
    u->loss = latent_loss;
    untuned_marginal(u, l->dim * (l->each ? l->each : 1));
    return untuned_start(u, l->parameters, theta0);
}
