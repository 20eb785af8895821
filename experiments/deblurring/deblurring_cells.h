/* deblurring_cells.h: the runs of the deblurring experiment: which there are, how they are made, and what they left behind.
 *
 *     OUT/cells/NAME-KEY    one run each: seen.npy, metrics.csv, checkpoint while it is under way, result.npz when it is done
 *
 * KEY is a digest of everything that decides the numbers, so a folder is never taken for that of another run. A cell that is
 * finished is left as it is, one that was cut short goes on, with the bits of one that was not. */
#ifndef SOSMC_DEBLURRING_DEBLURRING_CELLS_H
#define SOSMC_DEBLURRING_DEBLURRING_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include <sosmc/imaging.h>

#include "deblurring_pictures.h"
#include "files/files.h"
#include "common/known.h"

/* ------------------------------------------------------------------------------------------------ setups and methods */

/* The paper's three (B on a picture of our own where its photograph is not given), and two drawn pictures with A's blur and noise. */
typedef enum {
    DEBLURRING_A,
    DEBLURRING_B,
    DEBLURRING_C,
    DEBLURRING_FLAT,
    DEBLURRING_GRAIN,
    DEBLURRING_SETUPS
} deblurring_setup;

typedef struct {
    const char *name;
    deblurring_picture picture;
    int patch;
    double noise, start_sd; /* of the data; of the pixels at the start, around 50 */
} deblurring_setting;
extern const deblurring_setting deblurring_settings[DEBLURRING_SETUPS];

typedef enum {
    DEBLURRING_MYPGD,        /* unweighted, step 0.01 */
    DEBLURRING_P,            /* weighed as if invariant, as published */
    DEBLURRING_RATIO,        /* weighed exactly, both kernels at the new theta: the authors' program */
    DEBLURRING_CACHED,       /* weighed exactly, the forward kernel at the previous theta: the appendix */
    DEBLURRING_LARGE_STEP,   /* unweighted, with the step that the published run ends with */
    DEBLURRING_P_SMALL_STEP, /* as P, but without adaptation, step 0.01 */
    DEBLURRING_P_LARGE_STEP, /* ... and with the large step from the start */
    DEBLURRING_P_FEW,        /* as P, with a quarter of the particles */
    DEBLURRING_P_MANY,       /* ... and four times as many */
    DEBLURRING_METHODS
} deblurring_method;

enum { DEBLURRING_KEYS = 2 };
typedef struct {
    const char *name, *words;
    const char *file;                 /* the run file, beside this source */
    const char *set[DEBLURRING_KEYS]; /* the keys that are set in it; NULL: none */
    double particles;                 /* times those of the experiment */
    int weighted;
} deblurring_recipe;
extern const deblurring_recipe deblurring_recipes[DEBLURRING_METHODS];

/* ------------------------------------------------------------------------------------------------ cells */

typedef enum {
    DEBLURRING_K, /* iterations behind the row */
    DEBLURRING_THETA,
    DEBLURRING_MSE,  /* means over the cloud of what each particle has */
    DEBLURRING_SSIM, /* likewise */
    DEBLURRING_MEAN_MSE,
    DEBLURRING_MEAN_SSIM, /* of the mean picture of the cloud */
    DEBLURRING_STEP,
    DEBLURRING_ESS,
    DEBLURRING_LEAST_ESS,   /* so far; N without weights */
    DEBLURRING_RESAMPLINGS, /* so far */
    DEBLURRING_SECONDS,     /* so far */
    DEBLURRING_VALUES
} deblurring_value;
extern const char *const deblurring_value_names[DEBLURRING_VALUES];

enum { DEBLURRING_SHOWN = 8, DEBLURRING_NAME = 96, DEBLURRING_CELLS = 96, DEBLURRING_SEEDS = 10 };

typedef struct {
    deblurring_setup setup;
    deblurring_method method;
    int seed;     /* 0, 1, ...: decides the noise of the data, the start and the run */
    int ablation; /* belongs to the ablation alone */
    int rows;     /* of value, once read */
    double *value[DEBLURRING_VALUES];
    double *mean;  /* the mean picture at the end */
    double *shown; /* the first DEBLURRING_SHOWN particles at the end, one after the other; all of fewer */
    int shown_count;
} deblurring_cell;

/* The size of the whole. */
typedef struct deblurring_scale {
    /* The paper's pictures, particles and iterations: a claim that does not hold is then CLAIM_CORRECTED. */
    int published_size;
    int guitar; /* setups A and C's photograph, where it is at hand; 0: drawn pictures alone */
    int c, b;   /* setups C and B too */
    int seeds;
    int flower_rows, flower_columns;
    int rows, columns;         /* of the other drawn pictures */
    int guitar_ablation;       /* on setup A instead of a drawn picture */
    int particles, iterations; /* of every run */
    double theta;              /* where it starts */
    int every;                 /* iterations between two rows of metrics.csv */
} deblurring_scale;
deblurring_scale deblurring_scale_quick(void);
deblurring_scale deblurring_scale_default(void);
deblurring_scale deblurring_scale_full(void);

typedef struct {
    deblurring_scale scale;
    const char *out;
    const char *data;       /* the folder of the guitar; NULL: not at hand */
    const char *flower;     /* of the flower */
    char files[FILES_PATH]; /* the folder of the run files */
    uint64_t seed;
    int threads;                        /* of one run */
    double *truth[DEBLURRING_PICTURES]; /* NULL: not part of this plan */
    int rows[DEBLURRING_PICTURES], columns[DEBLURRING_PICTURES];
    deblurring_cell cell[DEBLURRING_CELLS];
    int cells;
    known known; /* numbers from elsewhere; closed by deblurring_plan_free */
} deblurring_plan;

/* Pictures and cells from scale, data and seed. */
int deblurring_plan_cells(deblurring_plan *plan, char *error, size_t room);
void deblurring_plan_free(deblurring_plan *plan);

const double *deblurring_truth(const deblurring_plan *plan, const deblurring_cell *c, int *rows, int *columns);
int deblurring_cell_particles(const deblurring_plan *plan, const deblurring_cell *c);
/* What was seen: blurred, with noise. rows * columns numbers. */
void deblurring_see(const deblurring_plan *plan, const deblurring_cell *c, double *y, double *scratch);
size_t deblurring_see_scratch(const deblurring_plan *plan, const deblurring_cell *c);

/* Runs it or continues it; several cells may run at once. */
int deblurring_cell_run(const deblurring_plan *plan, const deblurring_cell *c, char *error, size_t room);
int deblurring_cell_read(const deblurring_plan *plan, deblurring_cell *c, char *error, size_t room);

const deblurring_cell *deblurring_find(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method,
                                       int seed);
double deblurring_last(const deblurring_cell *c, deblurring_value value); /* NaN without a cell */

#endif
