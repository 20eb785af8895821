/* ebm2d_extras.h: what the 2-D energy-based experiment looks at besides its runs: fresh chains on stored networks, exact
 * masses of the rings, data sets and pre-trained densities.
 *
 * Chains are named by their seed, so that two networks studied with one seed share starts and noise. A study is kept in a
 * file and taken from there when network and settings are the same: an experiment that was cut short does not begin again. */
#ifndef SOSMC_EBM2D_EBM2D_EXTRAS_H
#define SOSMC_EBM2D_EBM2D_EXTRAS_H

#include <stddef.h>
#include <stdint.h>

#include "ebm2d_cells.h"

/* Unadjusted chains of step 0.005 from uniform points of [-6, 6]^2. */
typedef struct {
    int chains;
    int64_t burn_in, averaged;
    uint64_t seed;
    const double *normal; /* of the rewarded half-plane */
    int threads;
    int snapshots;     /* steps at which all chains are kept, */
    const int64_t *at; /* ascending */
    int paths;         /* how many chains are kept at every step */
} ebm2d_study;

/* Mean reward over chains and averaged steps, and its standard error. An interrupt is an error too. */
int ebm2d_study_reward(const ebm2d_study *study, const char *model, double *mean, double *error_of_mean, char *error,
                       size_t room);

typedef struct {
    int chains, snapshots, paths;
    int64_t steps;
    double *at;       /* the steps of the snapshots */
    double *snapshot; /* [(s * chains + c) * 2 + axis] */
    double *hit;      /* per chain, the step of its first visit to the half-plane; NaN: none */
    double *path;     /* [(c * (steps + 1) + step) * 2 + axis] */
} ebm2d_sample;
/* `cache` is the NPZ file that keeps it. */
int ebm2d_study_run(const ebm2d_study *study, const char *model, const char *cache, ebm2d_sample *out, char *error,
                    size_t room);
void ebm2d_sample_free(ebm2d_sample *sample);

/* Share of chains that have been in the half-plane by a step, and the step by which half of those that started outside
 * have (infinite: fewer than half ever). */
double ebm2d_reached(const ebm2d_sample *sample, double step);
double ebm2d_median_hit(const ebm2d_sample *sample);

/* Mean reward over the snapshots of a window [from, to] of steps, with its standard error from chain to chain. */
double ebm2d_window_reward(const ebm2d_sample *sample, const double *normal, const double window[2],
                           double *error_of_mean);
/* The same for two windows, its change from the first window to the second, and the standard error of
 * the change from chain to chain. */
typedef struct {
    double early, late, change, error;
} ebm2d_windows;
ebm2d_windows ebm2d_compare_windows(const ebm2d_sample *sample, const double *normal, const double early[2],
                                    const double late[2]);

/* ------------------------------------------------------------------------------------------------ rings */

#define EBM2D_BETWEEN_RINGS 3.35 /* the radius half-way between the circles of radius 2.235 and 4.469 */

double ebm2d_inner_share(const double *x, int chains); /* rows of two coordinates */
/* Share of chains that are on another ring than at snapshot `from`, at the last one. */
double ebm2d_ring_changes(const ebm2d_sample *sample, int from);

/* Shares of the particles of a run (its particles.npz) on the inner ring and in the half-plane. */
int ebm2d_particle_shares(const char *particles, const double *normal, double *inner, double *reward, char *error,
                          size_t room);

/* Exact, by quadrature on [-6, 6]^2. */
typedef struct {
    double logz, reward;
    double inner, reward_inner, reward_outer; /* mass of the inner ring; the reward given the ring */
} ebm2d_masses;
int ebm2d_exact_masses(const char *model, const double *normal, int nodes, int threads, ebm2d_masses *out, char *error,
                       size_t room);
/* Are these the masses of the published circles network and the lower half-plane, on 400 nodes? */
int ebm2d_is_published(const ebm2d_masses *masses);

/* Can the network be read, and is it one of points in the plane? */
int ebm2d_check_model(const char *model, char *error, size_t room);

/* ------------------------------------------------------------------------------------------------ figures */

/* Data, densities and samples after 300 steps, for the models that there are. */
int ebm2d_models_figure(arena *memory, const ebm2d_plan *plan, int threads, plot_figure *out, char *error, size_t room);

#endif
