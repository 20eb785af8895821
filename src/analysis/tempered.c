/* tempered.c: from a normal law to any model by tempering (maths.md TEMPER):
 *
 *     U_t(x) = t U(x) + (1 - t) ( |x|^2 / (2 s^2) + (dim/2) log(2 pi s^2) ),   t from 0 to 1,
 *
 * as a model whose theta is t, and an optimiser that ignores the gradient and moves t along its path. With the base as
 * initial law the weights start at 1, log Z_0 = 0, and the run ends with particles of the model and its log Z. */
#include <math.h>

#include <sosmc/analysis.h>

#include "base/table.h"

static int prepare(const void *self, const double *theta, void *prep)
{
    const sosmc_tempering *t = self;
    return t->model.prepare ? t->model.prepare(t->model.self, t->theta, prep) : 0;
}

/* Squared norm of particle i. */
static double square_of(const sosmc_batch *b, int i)
{
    double sum = 0;
    for (int j = 0; j < b->dim; j++) {
        double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
        sum += x * x;
    }
    return sum;
}

/* -log of the base's normalising constant */
static double base_constant(const sosmc_tempering *t, const sosmc_batch *b)
{
    return 0.5 * b->dim * sosmc_i_log1(b->simd, 2 * M_PI * t->base_sd * t->base_sd);
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_tempering *t = self;
    double share = *theta, rest = 1 - share, precision = 1 / (t->base_sd * t->base_sd), constant = base_constant(t, b);
    int rc = t->model.energy(t->model.self, t->theta, b, U, gx);
    if (rc) return rc;
    for (int i = 0; i < b->n; i++) U[i] = share * U[i] + rest * (0.5 * precision * square_of(b, i) + constant);
    for (int j = 0; gx && j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            size_t at = (size_t)j * (size_t)b->ld + (size_t)i;
            gx[at] = share * gx[at] + rest * precision * b->x[at];
        }
    return 0;
}

/* U of the model at a batch, taken again in its own scratch. */
static int energy_again(const sosmc_tempering *t, const sosmc_batch *b, double *U)
{
    sosmc_batch again = *b;
    again.fresh = 0;
    return t->model.energy(t->model.self, t->theta, &again, U, NULL);
}

/* dU_t/dt = U - base of particle i */
static double slope(const sosmc_batch *b, int i, double U, double precision, double constant)
{
    return U - (0.5 * precision * square_of(b, i) + constant);
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    enum { AT_ONCE = 128 };
    const sosmc_tempering *t = self;
    double U[AT_ONCE], precision = 1 / (t->base_sd * t->base_sd), constant = base_constant(t, b);
    for (int from = 0; from < b->n; from += AT_ONCE) {
        sosmc_batch part = *b;
        part.x += from;
        part.first += from;
        part.n = b->n - from < AT_ONCE ? b->n - from : AT_ONCE;
        int rc = energy_again(t, &part, U);
        if (rc) return rc;
        for (int i = 0; i < part.n; i++) g[0] += c[from + i] * slope(&part, i, U[i], precision, constant);
    }
    return 0;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const sosmc_tempering *t = self;
    double precision = 1 / (t->base_sd * t->base_sd), constant = base_constant(t, b);
    int rc = energy_again(t, b, D);
    for (int i = 0; !rc && i < b->n; i++) D[i] = slope(b, i, D[i], precision, constant);
    return rc;
}

sosmc_model sosmc_tempered_model(const sosmc_tempering *tempering)
{
    return (sosmc_model){.self = tempering,
                         .dim_x = tempering->base_sd > 0 ? tempering->model.dim_x : 0,
                         .dim_theta = 1,
                         .work = tempering->model.work,
                         .prep = tempering->model.prep,
                         .tile = tempering->model.tile,
                         .rounding = tempering->model.rounding,
                         .x_low = tempering->model.x_low,
                         .x_high = tempering->model.x_high,
                         .prepare = prepare,
                         .energy = energy,
                         .grad_theta = grad_theta,
                         .scores = scores};
}

static void follow(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const sosmc_tempering *t = o->self;
    double part = (double)(k + 1) / (double)t->steps;
    theta[0] = part >= 1 ? 1 : sosmc_i_exp1(NULL, t->power * sosmc_i_log1(NULL, part));
}

sosmc_optimiser sosmc_tempering_path(const sosmc_tempering *tempering)
{
    sosmc_optimiser o = sosmc_sgd(0);
    o.name = "tempering";
    o.step = follow;
    o.self = tempering;
    return o;
}

sosmc_objective sosmc_sampling(sosmc_score score) { return (sosmc_objective){.score = score}; }
