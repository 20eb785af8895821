/* theory_targets.h: small targets of which every expectation is known, for the statements about particles.
 *
 * All are one-dimensional with two parameters. None is symmetric unless it is Gaussian, and Z depends on theta in all of
 * them, so that an estimator cannot agree here by symmetry or because Z is constant. Expectations come from Simpson's rule
 * on a fixed lattice with a node at the only kink, accurate to about 1e-10. */
#ifndef SOSMC_THEORY_THEORY_TARGETS_H
#define SOSMC_THEORY_THEORY_TARGETS_H

#include <sosmc/sosmc.h>

#include "view/arena.h"

enum { THEORY_DIM = 2, THEORY_NODES = 4097 };

typedef struct {
    double U, slope;       /* of the smooth part: dU/dx */
    double du[THEORY_DIM]; /* dU/dtheta */
} theory_value;

typedef struct {
    const char *name;
    theory_value (*at)(double x, const double *theta);
    double (*curvature)(const double *theta); /* a bound on |d2U/dx2| of the smooth part */
    double kink; /* U has the further term kink |x|, which is not part of `slope` and has a proximal map */
} theory_target;

/* (x - theta0)^2 / 2 + theta1 log(1 + e^{2x}); curvature 1 + theta1 for theta1 >= 0 */
extern const theory_target theory_skew;
/* 0.35 x^2 + theta0 sin(2x + 1/2) + theta1 x; curvature 0.7 + 4 |theta0|, with several modes for larger theta0 */
extern const theory_target theory_waves;
/* the first target with the further term |x| / 2 */
extern const theory_target theory_kinked;
/* e^{theta1} (x - theta0)^2 / 2 */
extern const theory_target theory_normal;

double theory_energy(const theory_target *t, const double *theta, double x); /* kink included */
sosmc_model theory_model(const theory_target *t);

typedef struct {
    double x[THEORY_NODES], mass[THEORY_NODES]; /* masses add up to 1 */
    double cumulative[THEORY_NODES];            /* of the density between the nodes taken as linear */
    double logz;
    double du[THEORY_DIM]; /* E dU/dtheta = -grad log Z */
} theory_lattice;
void theory_tabulate(const theory_target *t, const double *theta, theory_lattice *grid);

/* Exact draws from the density that was tabulated: the initial law of Lemma 1, with W_0 = 1. The source borrows the grid. */
sosmc_source theory_exact_source(const theory_lattice *grid);

/* N(mean, sd^2) with its density. The source borrows the struct. */
typedef struct {
    double mean, sd;
} theory_bell;
sosmc_source theory_bell_source(const theory_bell *bell);

/* ------------------------------------------------------------------------------------------------ paths of theta */

enum { THEORY_STEPS = 8 };
typedef struct {
    double theta[THEORY_STEPS + 1][THEORY_DIM];
    double *seen; /* NULL, or THEORY_DIM numbers that receive the gradient of the last update */
} theory_path;
/* The idealised scheme: theta - rate grad l from `start`, with exact gradients of l = mean U(y) + log Z, the loss of an
 * energy model whose data are theory_data. */
enum { THEORY_DATA = 6 };
extern const double theory_data[THEORY_DATA];
void theory_gradient(const theory_target *t, const double *theta, const theory_lattice *grid, double *gradient);
/* 0, or -1: no memory. */
int theory_descend(const theory_target *t, const double *start, double rate, theory_path *path);
double theory_curvature(const theory_target *t, const theory_path *path); /* the largest on the path */
/* An optimiser that moves theta along the path, whatever the gradient is. */
sosmc_optimiser theory_follow(const theory_path *path);

#endif
