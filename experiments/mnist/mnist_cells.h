/* mnist_cells.h: the runs of the reward tuning of an energy model of pictures: which there are, their run files, and what
 * they left behind.
 *
 *     OUT/start/NAME    the initial particles of a setting: the pre-training sampler, then Langevin steps; drawn once and
 *                       shared by the methods and betas of a seed
 *     OUT/cells/NAME    a tuning run each, with evaluation.csv, trace.csv, and cloud.csv about its particles
 *
 * Every cell is an ordinary run directory. One that is finished is left as it is, one that was cut short goes on. */
#ifndef SOSMC_MNIST_MNIST_CELLS_H
#define SOSMC_MNIST_MNIST_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "common/experiment.h"
#include "files/files.h"
#include "common/known.h"

enum { MNIST_SIDE = 28, MNIST_PIXELS = MNIST_SIDE * MNIST_SIDE };

typedef enum { MNIST_BRIGHT, MNIST_DARK, MNIST_HALF, MNIST_REWARDS } mnist_reward;
typedef enum { MNIST_IMPDIFF, MNIST_SOSMC, MNIST_METHODS } mnist_method;
/* The published pairs of methods; the published sweeps over beta; the same sweeps with what the paper says; a reduced scale
 * for which values are known too; settings of our own. */
typedef enum { MNIST_PAIR, MNIST_SWEEP, MNIST_PAPER, MNIST_REDUCED, MNIST_BETTER, MNIST_GROUPS } mnist_group;
enum { MNIST_BETAS = 4, MNIST_NAME = 160, MNIST_SEEDS = 10, MNIST_CELLS = 256 /* at most */ };

extern const char *const mnist_reward_names[MNIST_REWARDS];
extern const char *const mnist_method_names[MNIST_METHODS];
extern const char *const mnist_group_names[MNIST_GROUPS];
extern const double mnist_betas[MNIST_BETAS];

/* The settings, each a run file. */
typedef enum {
    MNIST_PAIR_BRIGHT,
    MNIST_PAIR_HALF,
    MNIST_SWEEPS,
    MNIST_PAPER_SWEEPS,
    MNIST_SMALL,
    MNIST_SMALL_COLD,
    MNIST_COLD_TARGET,
    MNIST_SETTINGS
} mnist_file;

/* How a cell is run: its run files, and what they say, with sizes held to those of the plan. */
typedef struct {
    const char *file, *sampler, *purifier; /* the run, and its start; purifier NULL: no Langevin steps */
    int final_chains, final_steps;         /* fresh rewards before and after the run, with the same noise */
    int particles, iterations;
    double rate, gamma, noise; /* learning rate; step and noise scale s of the kernel */
    double threshold;          /* resample when ESS < threshold * particles */
    int warm, purify;          /* start: steps of the pre-training sampler, then of ula with gamma and noise */
    int every, chains, steps;  /* fresh rewards during the run */
} mnist_setting;

/* Values at the evaluations: k, R_fresh after the update of iteration k, and what the running log Z says. */
typedef enum { MNIST_K, MNIST_FRESH, MNIST_FRESH_ERROR, MNIST_KL, MNIST_LOSS, MNIST_VALUES } mnist_value;
/* Values of every iteration. */
typedef enum { MNIST_STEP, MNIST_SCORE, MNIST_ESS, MNIST_RESAMPLED, MNIST_GAMMA, MNIST_SERIES } mnist_series;
/* Of the particles, every so many iterations: unweighted means, the standard deviation of all pixel values, the share of
 * pixels outside [-1, 1]. */
typedef enum {
    MNIST_CLOUD_K,
    MNIST_PLAIN,
    MNIST_ENERGY,
    MNIST_ENERGY_REF,
    MNIST_PIXEL_SD,
    MNIST_OUTSIDE,
    MNIST_CLOUDS
} mnist_cloud;

typedef struct {
    mnist_group group;
    mnist_reward reward;
    mnist_method method;
    double beta, scale; /* scale: a factor of the paper's reward */
    const char *label;  /* of settings that need a name of their own: part of the directory; NULL: none */
    int seed;           /* counted from the plan's */
    mnist_setting set;
    /* What the run left; set by mnist_cell_read. */
    int evaluations, steps, clouds;
    double *value[MNIST_VALUES], *series[MNIST_SERIES], *cloud[MNIST_CLOUDS];
} mnist_cell;

/* How large the experiment is: what to run, and bounds on every setting's sizes (0: none). */
typedef struct mnist_scale {
    int reduced; /* the reduced settings alone */
    int full;    /* the published sizes */
    int paper;   /* with the sweeps in the settings of the paper's text */
    int seeds;   /* of the published sweeps by SOSMC-ULA; 0: one */
    int particles, iterations, warm, purify, chains, steps, final_chains, final_steps;
    int least_every;  /* between fresh rewards during a run */
    int figure_steps; /* of the pictures of samples: 0: 256 and 512 */
} mnist_scale;
mnist_scale mnist_scale_quick(void);
mnist_scale mnist_scale_default(void);
mnist_scale mnist_scale_full(void);

typedef struct {
    const char *out; /* absolute */
    mnist_scale scale;
    uint64_t seed;
    char model[FILES_PATH];    /* the pre-trained network */
    char settings[FILES_PATH]; /* the folder of the run files that come with the program */
    mnist_setting setting[MNIST_SETTINGS];
    known known; /* numbers from elsewhere; closed by mnist_plan_free */
    int cells;
    mnist_cell *cell;
} mnist_plan;

/* Finds the run files and reads the settings. */
int mnist_plan_open(mnist_plan *plan, char *error, size_t room);
/* The cells of a scale for a plan that is open, those that take longest first. */
int mnist_plan_cells(mnist_plan *plan, char *error, size_t room);
void mnist_plan_free(mnist_plan *plan);

/* Evaluations of energy and gradient at one picture that a cell, or all starts of the plan, come to, about. */
double mnist_cell_cost(const mnist_cell *cell);
double mnist_start_cost(const mnist_plan *plan);
/* Does no cell before this one have the same start? */
int mnist_start_is_first(const mnist_plan *plan, int cell);

/* "mnist" for a network in a file that carries no description of its own (NPZ); else NULL. */
const char *mnist_description(const char *model);

/* R of a picture, pixels held to [-1, 1]. */
double mnist_reward_of(mnist_reward reward, double scale, const double *x);

/* The name of a start: with the Langevin steps behind the sampler, or before them. */
void mnist_start_name(const mnist_cell *cell, int purified, char out[MNIST_NAME]);
void mnist_setting_name(const mnist_cell *cell, char *out, size_t room); /* without method and seed */
void mnist_cell_name(const mnist_cell *cell, char *out, size_t room);
/* The run file of a cell with all it sets but its paths. */
experiment_file mnist_cell_file(const mnist_plan *plan, const mnist_cell *cell);
/* The network a cell ended with. */
int mnist_cell_model(const mnist_plan *plan, const mnist_cell *cell, char out[FILES_PATH], char *error, size_t room);

/* Draws the initial particles of a cell by all threads; an exit code, having said what went wrong. */
int mnist_start_run(const mnist_plan *plan, const mnist_cell *cell, int threads, int quiet);
/* For a grid: runs the cell of this number by one thread; an exit code. */
int mnist_cell_run(mnist_plan *plan, int cell, char *error, size_t room);
/* What the run left, into the cell. */
int mnist_cell_read(mnist_plan *plan, int cell, char *error, size_t room);

void mnist_cell_forget(mnist_cell *cell);

/* The cell of the plan with the first seed, NULL when there is none. */
const mnist_cell *mnist_find(const mnist_plan *plan, mnist_group group, mnist_reward reward, double beta,
                             mnist_method method);
double mnist_last(const mnist_cell *cell, mnist_value value); /* NaN for NULL */
double mnist_last_cloud(const mnist_cell *cell, mnist_cloud value);
double mnist_smallest_ess(const mnist_cell *cell);
int mnist_resamplings(const mnist_cell *cell);

#endif
