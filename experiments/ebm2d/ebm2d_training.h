/* ebm2d_training.h: the two ways of training a 2-D energy-based model side by side: persistent contrastive divergence (the
 * pre-trained networks) and weighted particles (OUT/train/NAME-weighted, an ordinary run directory).
 *
 * Both are scored by the exact mean log-density of the points they were trained on, in nats, and measured against that of
 * the law the points were drawn from. */
#ifndef SOSMC_EBM2D_EBM2D_TRAINING_H
#define SOSMC_EBM2D_EBM2D_TRAINING_H

#include <stddef.h>
#include <stdint.h>

#include "ebm2d_cells.h"
#include "job/model_file.h"
#include "job/points.h"

typedef enum { EBM2D_PCD, EBM2D_WEIGHTS, EBM2D_TRAININGS } ebm2d_training_method;
extern const char *const ebm2d_training_names[EBM2D_TRAININGS];

/* Mean log-density of the points of a recipe under the law they were drawn from, in the coordinates they end up in. A model
 * is above it only by what it owes to chance in these points. */
int ebm2d_bound(const points_recipe *recipe, double *bound, char *error, size_t room);

typedef struct {
    double loglik;      /* mean log-density of the points */
    double logz, edge;  /* log Z on the box; the share of the mass on its rim */
    double evaluations; /* of the network at one point, in training; NaN: not known */
} ebm2d_likelihood;
/* For n points, rows of two, by quadrature with `nodes` nodes an axis on [-box, box]^2. A network with a Gaussian base has
 * mass beyond that: the box then reaches five standard deviations of the base at least, with as many more nodes. Leaves
 * `evaluations` alone. */
int ebm2d_loglik(const char *model, double box, int nodes, int64_t n, const double *x, int threads,
                 ebm2d_likelihood *out, char *error, size_t room);

typedef struct {
    int made;  /* otherwise nothing else is set */
    int brief; /* the weighted run is shorter than its run file makes it: no verdict on the method */
    double bound;
    ebm2d_likelihood of[EBM2D_TRAININGS];
    /* The weighted run: its seconds, the log-likelihood of the last mini-batch by the running log Z, and how far that log Z
     * is above the exact one. NaN: not known. */
    double seconds, running, logz_error;
    int rows; /* evaluations of the weighted run */
    double *iteration, *exact, *by_particles;
} ebm2d_training;

/* The run file of the training with weights (experiments/ebm2d/train-NAME.yaml) for a network of this shape. */
experiment_file ebm2d_training_file(const ebm2d_plan *plan, ebm2d_dataset data, const model_file *like);
/* Trains with weights a network of the pre-trained one's shape, or goes on with it. Returns an exit code, having said what
 * went wrong. */
int ebm2d_training_run(const ebm2d_plan *plan, ebm2d_dataset data, int threads, int quiet);
/* Scores both networks. */
int ebm2d_training_read(const ebm2d_plan *plan, ebm2d_dataset data, int threads, ebm2d_training *t, char *error,
                        size_t room);
void ebm2d_training_free(ebm2d_training *t);

/* Which is better and by how much, in a sentence; returns `out`. */
const char *ebm2d_training_verdict(const ebm2d_training *t, ebm2d_dataset data, char *out, size_t room);

/* Log-likelihood against iteration of the weighted run with the other network and the bound as levels, a panel for each of
 * the EBM2D_DATASETS that was made. */
plot_figure ebm2d_training_figure(arena *memory, const ebm2d_training *all);

#endif
