/* watch.h: what an engine gathers about its own run for judge.h, and how the room `judge` reads it.
 *
 * From iteration WATCH_FIRST on some iterations are observed. At an observed iteration the engine adds, with the number of
 * iterations that the observation stands for as its weight,
 *
 *     theta, g          the parameter and its gradient there,
 *     T_c               the sum over group c of w_i IF_i, the influences of its particles on g (maths.md GROUPS),
 *     mobility          how far the last move went,
 *     H                 at some of them: the second derivative of the loss under the cloud (maths.md HESSIAN).
 *
 * A set of sums begins at every power of two, where the particles are cut into SOSMC_GROUPS runs of neighbours; offspring are of the
 * group of their ancestor. Ancestors ascend, so groups stay runs of neighbours and only their bounds move. Where resampling has left
 * the effective number of groups below half, their sums are squared into V and the groups are cut anew. Two sets are kept, so
 * that whenever the run ends there is one that began between a quarter and half of the way: the tail. Nothing of this changes an
 * iteration. */
#ifndef SOSMC_ENGINE_WATCH_H
#define SOSMC_ENGINE_WATCH_H

#include <sosmc/judge.h>

enum { WATCH_FIRST = 64, WATCH_SETS = 2, WATCH_BLOCKS = 8, WATCH_PARAMETERS = 200 };

/* Sums of one set, as doubles: the head, then these arrays. The Hessians are kept as WATCH_BLOCKS sums, the n-th in sum n mod
 * WATCH_BLOCKS, so that their scatter is known. */
enum {
    HEAD_START,
    HEAD_COUNT,
    HEAD_HESSIANS,
    HEAD_RENEWALS,
    HEAD_WEIGHT,
    HEAD_MOBILITY,
    HEAD_ACCEPT,
    HEAD_MOVES,
    HEAD_ALL
};
typedef struct {
    double *head;         /* HEAD_ALL; HEAD_COUNT 0: nothing was observed */
    double *bound;        /* SOSMC_GROUPS + 1: group c is particles bound[c] to bound[c + 1] - 1 */
    double *theta, *grad; /* dim_theta each */
    double *group_weight; /* SOSMC_GROUPS: the weights of the groups at the last observation */
    double *T;            /* SOSMC_GROUPS rows of dim_theta, since the groups were cut */
    double *V;            /* sums of T_c T_c' of groups that were cut anew before, dim_theta x dim_theta */
    double *fisher;       /* dim_theta: variances of D over the cloud, with the weights of the Hessians */
    double *H_weight;     /* WATCH_BLOCKS */
    double *H;            /* WATCH_BLOCKS matrices of dim_theta x dim_theta */
} watch_sums;
watch_sums sosmc_i_watch_sums(double *base, int dim_theta);
size_t sosmc_i_watch_doubles(int dim_theta); /* of one set */

/* The tail's sums of a run that has come so far. Returns 0, or -1 where there are none; *why then says why. */
int sosmc_i_watch_tail(const sosmc *s, watch_sums *out, const char **why);

/* The room `judge` stands between these while it reads the engine (guard.c). */
sosmc_status sosmc_i_enter_reading(const sosmc *s);
sosmc_status sosmc_i_leave_reading(const sosmc *s, sosmc_status status); /* returns the status */

/* sosmc_cloud for those who are inside, in the coordinates of the problem below (base/bounds.h). */
sosmc_status sosmc_i_cloud(const sosmc *s, double *x, double *logw);

/* What the engine was created with, and where it is. */
const sosmc_problem *sosmc_i_problem_of(const sosmc *s);
const sosmc_settings *sosmc_i_settings_of(const sosmc *s);
sosmc_status sosmc_i_failed(const sosmc *s);
const sosmc_simd *sosmc_i_simd_of(const sosmc *s);
double sosmc_i_step_now(const sosmc *s); /* the kernel's step */
double sosmc_i_score_spread(
    const sosmc *s); /* standard deviation of the score over the cloud; NaN: there is no score */

#endif
