/* faulty_model.c: see faulty_model.h. Unless the plan is armed, or has a wall, the model is a Gaussian like any other. */
#include "faulty_model.h"
#include "expect_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

const double faulty_y[D] = {1.0, -2.0}, faulty_theta0[D] = {0.25, -3.0};

static int hit(const fault_plan *q, fault_place where, const sosmc_batch *b, int i)
{
    if (!q->armed || q->where != where || (q->batches_only && b->n == 1)) return 0;
    for (int k = 0; k < OFFENDERS; k++)
        if (q->offender[k] == b->first + i) return 1;
    return q->everyone;
}

static int beyond_wall(const fault_plan *q, const double *theta, double x)
{
    return q->wall != 0.0 && theta[0] > q->wall_from && x > q->wall;
}

int faulty_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const fault_plan *q = self;
    double *work = b->work; /* keeps x - theta for grad_theta */
    int at_reference = theta[0] == 7.0;
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - theta[j], r = x - faulty_y[j];
            U[i] += 0.5 * (p * p + r * r);
            if (gx) gx[j * b->ld + i] = p + r;
            if (gx && work) work[j * b->ld + i] = p;
            if (gx && j == D - 1 && hit(q, IN_GX, b, i)) gx[j * b->ld + i] = q->value;
        }
    for (int i = 0; i < b->n; i++) {
        if (hit(q, at_reference ? IN_REFERENCE : IN_ENERGY, b, i)) U[i] = q->value;
        if (!beyond_wall(q, theta, b->x[i])) continue;
        U[i] = NAN;
        if (gx) gx[i] = NAN;
    }
    return 0;
}

int faulty_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const fault_plan *q = self;
    const double *work = b->work;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double d = b->fresh && work ? -work[j * b->ld + i] : theta[j] - b->x[j * b->ld + i];
            if (beyond_wall(q, theta, b->x[i])) d = NAN;
            if (hit(q, IN_GRADIENT, b, i)) d = q->value;
            g[j] += c[i] * d;
        }
    return 0;
}

int faulty_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g, double *value)
{
    const fault_plan *q = self;
    for (int i = 0; i < y->n; i++)
        if (hit(q, IN_DATA_GRADIENT, y, i)) g[1] += weight * q->value;
    return 0;
}

int faulty_reward(const void *self, const sosmc_batch *b, double *s)
{
    const fault_plan *q = self;
    for (int i = 0; i < b->n; i++) s[i] = hit(q, IN_SCORE, b, i) ? q->value : b->x[i];
    return 0;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const fault_plan *q = self;
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++)
        if (hit(q, IN_X, b, i)) x[b->ld + i] = q->value;
    return 0;
}

int faulty_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const fault_plan *q = self;
    sosmc_source normal = sosmc_standard_normal();
    int rc = normal.logpdf(normal.self, b, lq);
    for (int i = 0; i < b->n; i++)
        if (hit(q, IN_LOGPDF, b, i)) lq[i] = q->value;
    return rc;
}

void faulty_fill(faulty_run *l, sosmc_scheme scheme, sosmc_kernel kernel)
{
    memset(l, 0, sizeof *l);
    l->q = (fault_plan){.value = NAN, .offender = {-1, -1, -1, -1}, .wall_from = -INFINITY};
    l->p.model = (sosmc_model){.dim_x = D,
                               .dim_theta = D,
                               .work = D * sizeof(double),
                               .tile = TILE,
                               .self = &l->q,
                               .energy = faulty_energy,
                               .grad_theta = faulty_grad_theta};
    l->p.objective = sosmc_mmle();
    l->p.init = (sosmc_source){.self = &l->q, .draw = draw};
    l->p.theta0 = faulty_theta0;
    l->cfg = sosmc_defaults();
    l->cfg.scheme = scheme;
    l->cfg.kernel = kernel;
    l->cfg.optimiser = sosmc_sgd(0.0);
    l->cfg.seed = 5;
}

void faulty_open(faulty_run *l) { l->s = expect_create(&l->p, &l->cfg); }

void faulty_steps(faulty_run *l, int count) { expect_steps(l->s, count); }

sosmc_status faulty_bad_step(faulty_run *l)
{
    l->q.armed = 1;
    sosmc_status status = sosmc_step(l->s);
    l->q.armed = 0;
    return status;
}

void faulty_look(const faulty_run *l, snapshot *c) { assert_int_equal(sosmc_cloud(l->s, c->x, c->logw), SOSMC_OK); }
