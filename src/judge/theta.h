/* theta.h: theta from the tail of a run, with its errors (maths.md GROUPS, NEWTON). */
#ifndef SOSMC_JUDGE_THETA_H
#define SOSMC_JUDGE_THETA_H

#include "engine/watch.h"

typedef struct {
    int dim;
    int definite;   /* no direction of H is negative, and at least one is positive */
    int flat;       /* directions along which the loss does not change at all: theta stays there as it is */
    int unresolved; /* directions whose curvature is within three of its errors: theta is not determined there */
    double hides;   /* what the worst of these may hide of the loss, and the parameter that it mostly is */
    int hides_where;
    int newton_taken;        /* theta holds the Newton step */
    double *theta, *mean;    /* the estimate; the mean over the tail */
    double *mc_error;        /* Monte Carlo standard errors of theta */
    double *step;            /* of Newton, H^-1 g */
    double *H, *inverse;     /* the inverse of H across its flat directions */
    double newton, expected; /* g' H^-1 g / 2, and tr(H^-1 V) / 2 */
    int64_t renewals;        /* how often groups had to be cut anew */
    double *memory;
} theta_estimate;

/* `longest`: a Newton step that is worth more of the loss than this is not taken. SOSMC_ENOMEM is the only failure. */
sosmc_status sosmc_i_theta_estimate(theta_estimate *e, int dim, const watch_sums *tail, double longest);
void sosmc_i_theta_free(theta_estimate *e);

#endif
