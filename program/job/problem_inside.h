/* problem_inside.h: what the files that build a job share.
 *
 * To add a kind of model, write a file problem_NAME.c that defines `const model_kind kind_NAME`, add NAME to MODEL_KINDS
 * below, and add its keys to schema.c. Nothing else needs to know it. */
#ifndef SOSMC_JOB_PROBLEM_INSIDE_H
#define SOSMC_JOB_PROBLEM_INSIDE_H

#include <string.h>

#include <sosmc/imaging.h>
#include <sosmc/models.h>

#include "files/files.h"
#include <sosmc/expression.h>
#include "pictures/images.h"
#include "model_file.h"
#include "problem.h"

typedef struct model_kind model_kind;

/* What a job keeps until job_free. The values of the library that point here are in the job itself. */
struct parts {
    const model_kind *kind;
    void *model;                  /* what kind->build made, of a type that only the file of this kind knows */
    model_file *network;          /* the network whose weights theta is; NULL: the model is not a network */
    const sosmc_deblur *restores; /* see job_restores */
    const double *theta;          /* where theta of the model starts */
    sosmc_rows rows;              /* the points of the objective; rows 0: it has none */
    const double *points;         /* these points as doubles; NULL: there are none, or they are pictures in bytes */
    int64_t held_out;             /* points behind them that are not fitted */
    points_scaling scaling;       /* how these points were scaled */
    int scaled;                   /* model.units: particles, rewards and densities are in the units of the fit */
    sosmc_tempering tempering;    /* of objective.type anneal */
    struct kept *kept;            /* everything that job_free releases */
    int64_t left_out;             /* rows of tables that are left out because a value is missing */
    int notes;                    /* see job_note_at */
    char note[JOB_NOTES][JOB_SENTENCE];
};

/* A job under construction, the run file it comes from, and where a failure is described. */
typedef struct {
    job *job;
    const config *c;
    struct parts *p;
    int *io;
    char *error;
    size_t room;
} builder;

/* Every function but `build` may be NULL. Those that return int return 0, or -1 with a sentence in b->error. */
struct model_kind {
    /* Sets problem.model, and parts.model for the functions below. A model whose start is not `model.theta` of the file sets
     * problem.theta0 too. */
    int (*build)(builder *b);
    /* Sets problem.init where init.type has a meaning of its own for this model. Returns JOB_COMMON_INIT where it has the
     * meaning that it has for all models. */
    int (*init)(builder *b);
    /* Independent draws of the model at `theta`, from which reward_forward takes its reference. NULL: it needs a file. */
    int (*exact_law)(builder *b, const double *theta, sosmc_source *out);
    /* What ebm_likelihood changes in the model, once the points are known. */
    int (*fit)(builder *b);
    /* Refuses combinations that the model does not support, when model, objective and init are built. */
    int (*check)(builder *b);
    /* See job_theta_name, which calls it where theta is the model's own; NULL: theta, or theta_1, theta_2, ... */
    void (*theta_name)(const job *j, int k, char out[JOB_NAME]);
    /* See job_rows, job_log_z and job_why_no_log_z; NULL: 0, NaN and NULL. */
    int64_t (*observations)(const job *j);
    double (*log_z)(const job *j, const double *theta);
    const char *(*why_no_log_z)(const job *j);
    /* See job_picture. */
    int (*picture)(const job *j, picture_shape *out);
    /* The kernel `gibbs`, which draws from the model's own conditional laws. */
    sosmc_kernel (*gibbs)(const builder *b, double h);
    int keeps_shape; /* job_shape tells channels, rows and columns; otherwise a particle is stored as a vector */
    /* The objective mmle divides the gradient by the numbers of a particle: one learning rate then suits all sizes. */
    int per_number;
    int log_strength; /* theta is the logarithm of the strength of a prior; see job_strength */
};

enum { JOB_COMMON_INIT = 1 };

/* The table of kinds: a row is the word that stands in model.type, and kind_WORD is defined in one of problem_*.c. */
#define MODEL_KINDS(KIND)       \
    KIND(gaussian_mixture)      \
    KIND(hierarchical_gaussian) \
    KIND(logistic_regression)   \
    KIND(deblur)                \
    KIND(mlp)                   \
    KIND(network)               \
    KIND(stored)                \
    KIND(own)
#define DECLARE_KIND(word) extern const model_kind kind_##word;
MODEL_KINDS(DECLARE_KIND)
#undef DECLARE_KIND

/* Hands `p` over to the job, which calls release(p) in job_free; what was kept last is released first. Returns p. NULL: p was
 * NULL, or there was no memory to remember it, and then release(p) has been called already. */
void *job_keep(job *j, void *p, void (*release)(void *));
/* So many zero bytes that belong to the job; NULL: there is no memory. */
void *job_take(job *j, size_t bytes);

static inline int is(const builder *b, const char *path, const char *word)
{
    const char *text = config_text(b->c, path);
    return text && strcmp(text, word) == 0;
}

/* Keeps a sentence about the data that whoever reads the results must know; it does not prevent the run. */
void job_note(const builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes one sentence that begins with the key's place in the run file, and returns -1. */
int job_wrong(const builder *b, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Like job_wrong. Inline so that static analysers see that it returns -1 after a failed malloc. */
static inline int job_no_memory(const builder *b)
{
    (void)files_fail(b->error, b->room, "out of memory");
    return -1;
}
/* A vector of the file with a number for every coordinate, or one for all; it belongs to the job. NULL: b->error says why. */
double *job_spread(builder *b, const char *path);
/* A vector of the file that must have `n` numbers. NULL: it has another length, and b->error says so. */
const double *job_vector(const builder *b, const char *path, int n);

/* The sections of a run file, in the order in which they need each other. */
int job_build_model(builder *b);     /* problem_model.c */
int job_build_objective(builder *b); /* problem_objective.c */
int job_build_init(builder *b);      /* problem_init.c */
void job_build_settings(builder *b); /* problem_settings.c */

/* problem_table.c: columns of CSV files, for the models that read observations. */
int job_read_table(builder *b, const char *path, csv_table *out);       /* the caller frees the table */
int job_column(const builder *b, const csv_table *t, const char *path); /* counted from 0; -1: there is no such one */
/* Rows that miss a value in one of these columns: refused, or left out and noted, as the key says. */
int job_settle_missing(builder *b, csv_table *t, const int *column, int columns, const char *key);
void job_left_rows(builder *b, const char *path, int64_t rows, int64_t dropped, const char *remedy);
int job_holds(const csv_column *c, int64_t row, const char *wanted);           /* this text, or this number */
int job_labels(const builder *b, const csv_table *t, int column, double *out); /* rows numbers, 0 or 1 */
/* Whether a column counts or names the rows instead of telling something about them. */
typedef enum { JOB_NO_IDENTIFIER, JOB_PERHAPS_IDENTIFIER, JOB_IDENTIFIER } job_identifier;
job_identifier job_looks_like_identifier(const csv_table *t, int column);

/* problem_own.c: what `own` stands for besides the model. */
int job_own_reward(builder *b, sosmc_score *out);
int job_own_init(builder *b);
int job_own_points(builder *b, int64_t *rows); /* fills all of parts.rows but rows and mode */

/* problem_init.c: normal laws, with their densities, for problem.init. The factor is a matrix of dim_x rows of zeros. */
int job_normal_memory(builder *b, double **mean, double **factor);
int job_normal_init(builder *b, const sosmc_gaussian *law);
int job_centred_init(builder *b, double sd); /* N(0, sd^2 I) */

/* problem_pictures.c */
int job_new_pictures(builder *b, model_file *f);      /* model.layers, with weights that are still 0 */
int job_picture_reward(builder *b, sosmc_score *out); /* bright, dark, half, mask, network */
int job_picture_data(builder *b, int64_t *rows);      /* fills all of parts.rows but rows and mode */
double *job_mask(builder *b);                         /* dim_x weights from -1 to 1; NULL: b->error says why */

#endif
