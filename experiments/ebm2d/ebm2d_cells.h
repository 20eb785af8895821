/* ebm2d_cells.h: the runs of the reward tuning of 2-D energy-based models: which there are, their run files, and what they
 * left behind.
 *
 *     OUT/start/NAME-chains, NAME-smc    the initial particles of a model, drawn once
 *     OUT/cells/NAME                     a tuning run each, with evaluation.csv and trace.csv
 *
 * Every cell is an ordinary run directory. One that is finished is left as it is, one that was cut short goes on: so does the
 * experiment as a whole. */
#ifndef SOSMC_EBM2D_EBM2D_CELLS_H
#define SOSMC_EBM2D_EBM2D_CELLS_H

#include <stddef.h>

#include "common/experiment.h"
#include "files/files.h"
#include "common/known.h"

typedef enum { EBM2D_CIRCLES, EBM2D_TWO_MOONS, EBM2D_BLOBS, EBM2D_DATASETS } ebm2d_dataset;
typedef enum { EBM2D_LOWER, EBM2D_UPPER, EBM2D_LEFT, EBM2D_RIGHT, EBM2D_HALVES } ebm2d_half;
/* Tempered: the paper's SOSMC-ULA in every setting but the start; ours: what `sosmc tune --kernel rwm` does. */
typedef enum { EBM2D_IMPDIFF, EBM2D_SOSMC, EBM2D_TEMPERED, EBM2D_OURS, EBM2D_METHODS } ebm2d_method;
enum { EBM2D_PAPER_METHODS = 2 }; /* the first two */
/* The illustrative trial; the sweep over beta; the other pairs of data set and half-plane. */
typedef enum { EBM2D_TRIAL, EBM2D_SWEEP, EBM2D_PAIR, EBM2D_GROUPS } ebm2d_group;
enum { EBM2D_BETAS = 5 };

extern const char *const ebm2d_dataset_names[EBM2D_DATASETS];
/* The activation of a published network in a file NAME.npz, which does not say it; NULL: other files do. */
const char *ebm2d_activation(const char *model);
extern const char *const ebm2d_half_names[EBM2D_HALVES];
extern const char *const ebm2d_method_names[EBM2D_METHODS];
extern const char *const ebm2d_group_names[EBM2D_GROUPS];
extern const double ebm2d_normals[EBM2D_HALVES][2]; /* of the rewarded half-planes, pointing inwards */
extern const double ebm2d_betas[EBM2D_BETAS];       /* of the sweep; the trial has 0.25 */
#define EBM2D_TRIAL_BETA 0.25

/* How large the experiment is. */
typedef struct ebm2d_scale {
    int particles, seeds, nodes;
    int chain_steps, smc_steps;          /* of the two kinds of start */
    int trial_iterations, trial_every;   /* every: between evaluations; also of the pairs */
    int sweep_iterations, sweep_every;   /* iterations is 1 more than a multiple of every */
    int fresh_chains, burn_in, averaged; /* R_fresh */
    int short_burn_in, short_averaged;   /* R_fresh with the reduced evaluation */
    int study_chains, study_steps;       /* of the sampler study on the final models */
    int terminal_chains, terminal_steps; /* of the terminal densities */
    int full;                            /* with the sweep and the pairs */
    int paper;                           /* particles and iterations are the paper's, so values are comparable */
} ebm2d_scale;
ebm2d_scale ebm2d_scale_quick(void);
ebm2d_scale ebm2d_scale_default(void);
ebm2d_scale ebm2d_scale_full(void);

/* Values at the evaluations of a run. Reward, KL and excess are exact and belong to the theta behind the update of
 * iteration K; so do both kinds of R_fresh. */
typedef enum {
    EBM2D_K,
    EBM2D_REWARD,
    EBM2D_KL,
    EBM2D_EXCESS,
    EBM2D_PARTICLE, /* mean reward of the particles, and with their weights */
    EBM2D_WEIGHTED,
    EBM2D_FRESH,
    EBM2D_FRESH_ERROR,
    EBM2D_SHORT, /* the reduced evaluation */
    EBM2D_SHORT_ERROR,
    EBM2D_VALUES
} ebm2d_value;
/* Values of every iteration. */
typedef enum {
    EBM2D_STEP,
    EBM2D_SCORE /* weighted where there are weights */,
    EBM2D_NORM,
    EBM2D_ESS,
    EBM2D_SERIES
} ebm2d_series;

typedef struct {
    ebm2d_group group;
    ebm2d_dataset data;
    ebm2d_half half;
    ebm2d_method method;
    double beta;
    int seed, iterations, every;
    int fresh;   /* with R_fresh */
    int reduced; /* with R_fresh by the reduced evaluation too */
    /* What the run left; set when the grid has run. */
    int evaluations, steps;
    double *value[EBM2D_VALUES], *series[EBM2D_SERIES];
    double ref_reward, best_reward, best_kl, best_loss; /* pi_0(H), pi*(H), KL*, l* */
} ebm2d_cell;

typedef struct {
    const char *out; /* absolute */
    ebm2d_scale scale;
    char model[EBM2D_DATASETS][FILES_PATH]; /* stored networks; empty: none */
    char settings[FILES_PATH];              /* the folder of the run files that come with the program */
    config *data[EBM2D_DATASETS];           /* the run file of each pre-training */
    points_recipe recipe[EBM2D_DATASETS];   /* and its points */
    known known;                            /* numbers from elsewhere; closed by ebm2d_plan_free */
    int cells;
    ebm2d_cell *cell;
} ebm2d_plan;

/* Finds the run files and reads the data sets from them; ebm2d_plan_free in either case. */
int ebm2d_plan_open(ebm2d_plan *plan, char *error, size_t room);
/* The cells of a scale, those that take longest first. */
int ebm2d_plan_cells(ebm2d_plan *plan, char *error, size_t room);
void ebm2d_plan_free(ebm2d_plan *plan);

/* Our settings take ten times the iterations of the paper's with two fifths of its particles, drawn by tempering, and two
 * evaluations each: with the start, less than half of the evaluations of the model. What is read of such a run counts
 * iterations by tens, so that curves of all methods share an axis. */
enum { EBM2D_SPLIT = 10 };
/* Which start particles a method takes. */
int ebm2d_starts_by_smc(ebm2d_method method);

/* What a cell takes, in passes of one particle through the network or back. */
double ebm2d_cell_cost(const ebm2d_plan *plan, const ebm2d_cell *cell);
/* The run file of a cell with all it sets but its paths. */
experiment_file ebm2d_cell_file(const ebm2d_plan *plan, const ebm2d_cell *cell);

/* The cells as a grid, which runs and reads them; the plan must stay where it is. */
grid ebm2d_grid(ebm2d_plan *plan);
/* The network that a cell ended with. */
int ebm2d_cell_model(const ebm2d_plan *plan, const ebm2d_cell *cell, char out[FILES_PATH], char *error, size_t room);

/* Returns an exit code, having said what went wrong. */
int ebm2d_start_run(const ebm2d_plan *plan, ebm2d_dataset data, int smc, int threads, int quiet);

/* Where the start particles are. */
int ebm2d_start_file(const ebm2d_plan *plan, ebm2d_dataset data, int smc, char out[FILES_PATH], char *error,
                     size_t room);

/* The cell of the plan, NULL when there is none. */
const ebm2d_cell *ebm2d_find(const ebm2d_plan *plan, ebm2d_group group, ebm2d_dataset data, ebm2d_half half,
                             double beta, ebm2d_method method, int seed);
/* The cell of the illustrative trial: circles, the lower half-plane. */
const ebm2d_cell *ebm2d_trial(const ebm2d_plan *plan, int method, int seed);
/* The last value of a cell; NaN for NULL. */
double ebm2d_last(const ebm2d_cell *cell, ebm2d_value value);

/* The last value over the seeds of a setting. */
experiment_mean ebm2d_over_seeds(const ebm2d_plan *plan, ebm2d_group group, ebm2d_dataset data, ebm2d_half half,
                                 double beta, ebm2d_method method, ebm2d_value value);
experiment_mean ebm2d_cell_mean(const ebm2d_plan *plan, const ebm2d_cell *cell, ebm2d_value value); /* of its setting */

#endif
