/* ebm2d_figures.h: the figures of the reward tuning of 2-D energy-based models, drawn from plain arrays.
 *
 * Each figure is a struct with counts and pointers and a function that makes a plot_figure of it, whose memory is the arena.
 * Everything pointed to is borrowed until the figure is drawn; long curves are thinned and clouds counted or sampled, so that
 * files stay small whatever the size of the input. A value that is not known is NaN and not drawn; a curve that is not there
 * has n = 0. Several seeds are shown as their mean with a band, or bars, of 1.96 standard errors.
 *
 *     ebm2d_hitting h = {.methods = 2, .method = names, .chains = 3000, .steps = 30000, .first = first};
 *     experiment_figure(page, &memory, ebm2d_draw_hitting(&memory, &h, "hitting"), alt, caption);
 *
 * ImpDiff is black and SOSMC-ULA vermilion wherever they occur; other names take other colours by their place. Where memory
 * was short, the arena's `failed` is set and the figure must not be drawn. */
#ifndef SOSMC_EBM2D_EBM2D_FIGURES_H
#define SOSMC_EBM2D_EBM2D_FIGURES_H

#include <stddef.h>

#include "view/arena.h"
#include "view/plot.h"

typedef struct {
    int n;
    const double *x, *y;
} ebm2d_cloud;

typedef struct {
    int n, seeds;
    const double *x; /* n of them, shared by the seeds */
    const double *y; /* y[s * n + i] is the value of seed s at x[i] */
} ebm2d_curve;

/* ------------------------------------------------------------------------------------------------ hexagons */

/* The box [-B, B]^2 with 60 hexagons across: two interleaved lattices of centres, each point counted at the nearer one.
 * Bins of the first lattice come first, row by row. Points outside of the closed box, or not finite, have no bin. */
enum { EBM2D_ACROSS = 60, EBM2D_UP = 34 /* across / sqrt(3) */ };
enum { EBM2D_BINS = (EBM2D_ACROSS + 1) * (EBM2D_UP + 1) + EBM2D_ACROSS * EBM2D_UP };
int ebm2d_bin(double x, double y, double half_side); /* -1: outside */
void ebm2d_bin_centre(int bin, double half_side, double *x, double *y);
int ebm2d_count(const ebm2d_cloud *cloud, double half_side, int count[EBM2D_BINS]); /* returns the sum of the counts */
/* The colour scale of several histograms: 5th to 99.5th percentile of the counts that are not 0, at least from 1. */
plot_scale ebm2d_count_scale(const int *count, int n);

/* ------------------------------------------------------------------------------------------------ figures */

/* Data sets and pre-trained models, a panel each: data black, model samples red, and the lines around 50, 90 and 99 %
 * of the model's mass. */
typedef struct {
    int models;
    const char *const *model;
    const ebm2d_cloud *data, *samples;
    const plot_lattice *density; /* up to a factor */
} ebm2d_models;
plot_figure ebm2d_draw_models(arena *p, const ebm2d_models *f, const char *name);

/* Hexagonal histograms in rows and columns with one logarithmic colour scale: terminal densities (rows are methods,
 * columns are betas) and sampler efficiency (columns are steps). */
typedef struct {
    int rows, columns;
    const char *const *row;
    const char *quantity; /* what a column is: "beta =", "step" */
    const double *column;
    const ebm2d_cloud *cloud; /* row by row */
} ebm2d_densities;
plot_figure ebm2d_draw_densities(arena *p, const ebm2d_densities *f, const char *name);

/* (reward, KL) of the methods joined in order over lines of equal J = reward - beta KL, a panel per beta with
 * common axes; J takes about ten round values. The best point of the first method is ringed, its J drawn through. */
typedef struct {
    int n, seeds;
    const double *reward, *kl; /* [s * n + i] */
} ebm2d_path;
typedef struct {
    double beta;
    const ebm2d_path *path;            /* one per method */
    double optimum_reward, optimum_kl; /* of the best density there is; NaN: not shown */
} ebm2d_trajectory;
typedef struct {
    const char *reward; /* what the reward is: "exact E[R]", "R_fresh" */
    int methods, panels, columns;
    const char *const *method;
    const ebm2d_trajectory *panel;
} ebm2d_trajectories;
plot_figure ebm2d_draw_trajectories(arena *p, const ebm2d_trajectories *f, const char *name);

/* Fraction of chains whose first visit to the rewarded half-plane is at a step <= t, on a linear and a log axis. */
typedef struct {
    int methods, chains;
    const char *const *method;
    double steps;
    const double *const *first; /* per method and chain the step of the first visit; NaN: none within `steps` */
} ebm2d_hitting;
plot_figure ebm2d_draw_hitting(arena *p, const ebm2d_hitting *f, const char *name);

/* Paths of a few chains, a panel per method, coloured by step, with a dot at the start and a cross at the end. */
typedef struct {
    int methods, chains, n;
    const char *const *method;
    const double *step;                /* n of them, growing */
    const double *const *x, *const *y; /* per method, [c * n + i] for chain c at step[i] */
} ebm2d_chains;
plot_figure ebm2d_draw_chains(arena *p, const ebm2d_chains *f, const char *name);

/* Rewards against iteration, a panel per method. Each array has one curve per method; NULL: that kind is not shown. */
typedef struct {
    int methods;
    const char *const *method;
    const ebm2d_curve *particle, *weighted, *fresh, *exact;
    double target; /* pi*(H); NaN: not known */
} ebm2d_rewards;
plot_figure ebm2d_draw_rewards(arena *p, const ebm2d_rewards *f, const char *name);

/* Curves of the methods against iteration, a panel per beta with common axes: gradient norms, excess l - l*. More than
 * 500 values are shown as the median of each hundredth of them, in a band from the 10th to the 90th percentile. */
typedef struct {
    int methods, panels, columns;
    const char *const *method;
    const double *beta; /* of the panels; NULL: panels have no titles */
    const char *quantity;
    const ebm2d_curve *curve; /* [panel * methods + method] */
} ebm2d_curves;
plot_figure ebm2d_draw_curves(arena *p, const ebm2d_curves *f, const char *name);

/* Share of particles on the inner ring against step, each with the exact mass of the ring: where they differ, chains do
 * not sample the density and R_fresh is biased. */
typedef struct {
    int groups;
    const char *const *group; /* "pre-trained", "ImpDiff", ... */
    const ebm2d_curve *share;
    const double *exact; /* NaN: not known */
} ebm2d_rings;
plot_figure ebm2d_draw_rings(arena *p, const ebm2d_rings *f, const char *name);

#endif
