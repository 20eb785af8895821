/* check_inside.h: what is asked of a model at a probe, apart from how it is judged. */
#ifndef SOSMC_ANALYSIS_CHECK_INSIDE_H
#define SOSMC_ANALYSIS_CHECK_INSIDE_H

#include "probe.h"

/* A coordinate in which a gradient is wrong, with the derivative along p->v there: as claimed, and by differences of the energy. */
typedef struct {
    int64_t coordinate;
    double claimed, measured;
} wrong_place;
/* Of the gradient p->g, which is wrong along p->v. `at`, p->x or p->theta, has `rows` coordinates of `each` numbers. */
wrong_place sosmc_i_check_place(probe *p, double *at, int rows, int each);

/* Whether the energies have other bits when they are asked for again. */
int sosmc_i_check_differs(probe *p);
/* A particle whose energy changes when others of the batch do; -1: there is none. */
int sosmc_i_check_coupled(probe *p);

#endif
