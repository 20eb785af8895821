/* borrowed.c: problems of exact_problems.h, without their initial laws. */
#include <string.h>

#include "../models/exact_problems.h"
#include "untuned_inside.h"

static double exact_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const exact_problem *e = u->self;
    return e->values(e, theta, gradient).loss;
}

static void release(void *self) { exact_close(self); }

int untuned_open_exact(untuned_problem *u, const char *data)
{
    static const double zeros[UNTUNED_PARAMETERS] = {0};
    exact_problem *e = untuned_room(u, 1, sizeof *e);
    if (!e) return 1;
    u->self = e;
    u->release = release;
    if (exact_open(e, u->name, data)) return 1;
    int p = e->problem.model.dim_theta, herds = strcmp(u->name, "cbpp") == 0;
    if (untuned_start(u, p, herds ? zeros : e->problem.theta0)) return 1;
    memcpy(u->best, e->best, (size_t)p * sizeof *u->best);
    u->problem.model = e->problem.model;
    u->problem.objective = e->problem.objective;
    u->loss = exact_loss;
    if (e->rows)
        untuned_marginal(u, e->rows);
    else if (u->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD)
        u->nats = (double)u->problem.objective.data.rows;
    return 0;
}
