/* problem.h: from a resolved run file to what sosmc_create or, where the settings are automatic, sosmc_solver_create or
 * sosmc_sampler_create takes. */
#ifndef SOSMC_JOB_PROBLEM_H
#define SOSMC_JOB_PROBLEM_H

#include <sosmc/imaging.h>
#include <sosmc/models.h>
#include <sosmc/solve.h>
#include <sosmc/temper.h>

#include "runfile/config.h"
#include "points.h"

typedef struct {
    sosmc_problem problem;
    int automatic;             /* the solver chooses: `solve` is what it takes, `settings` has the library's defaults */
    sosmc_solve_options solve; /* with the limits of the run file; the caller may add an observer */
    int tempers;               /* objective.type temper: `temper` is what sosmc_sampler_create takes; automatic is 0 */
    sosmc_temper_task temper;
    sosmc_settings settings;
    int64_t iterations;
    struct parts *parts; /* everything the values above point to; job_free releases it */
} job;

/* What a program that holds the run file lends to it by config_lend: what `own` stands for as model.type, objective.reward.type,
 * objective.data.type and init.type. What a run file does not ask for may be NULL. Everything is borrowed until job_free. */
typedef struct {
    const sosmc_model *model;
    const double *theta0;
    const char *const *names; /* of the numbers of theta, as job_theta_name tells them; NULL: the usual ones */
    int64_t observations;     /* behind a marginal likelihood; 0: not known */
    const sosmc_score *reward;
    const sosmc_source *init, *reference; /* reference: draws from pi_ref, for reward_forward with the own model */
    const double *points;                 /* rows of dim_x, to fit */
    int64_t rows;
} job_own;

/* Builds the job. Returns 0, or -1 with one sentence in `error`; *io is then set where a file could not be read. */
int job_build(job *out, const config *c, int *io, char *error, size_t room);
void job_free(job *j);

/* How a resolved run file has its data points made, with pointers into it. -1: by none of the generators. */
int job_recipe(const config *c, points_recipe *out);
/* The data points of the objective, rows of dim_x, and their number; NULL: there are none. */
const double *job_points(const job *j, int64_t *rows);
/* Those that were held out, likewise. */
const double *job_held_out(const job *j, int64_t *rows);

/* The units of x: how the points that are fitted were scaled, or else those behind a stored network; NULL: they were not, as far as is
 * known. */
const points_scaling *job_scaling(const job *j);
/* The same where the reader sees points and densities of a network in the units of the data: x = centre + y / factor of a particle y,
 * and log-densities larger by job_log_volume (log Z smaller). NULL and 0: the reader sees them as the particles have them. */
const points_scaling *job_units(const job *j);
double job_log_volume(const job *j);

/* Returns whether the particles are pictures. If so, *out holds channels, rows and columns, and the values that are shown
 * black and white. */
typedef struct {
    int channels, rows, columns;
    double black, white;
    int frame; /* so many pixels on every side are unknown, and are cut off where the picture is stored */
} picture_shape;
int job_picture(const job *j, picture_shape *out);
/* The axes of a particle in an array file, and their number: 3 (channels, rows, columns) for a picture that a model restores,
 * 1 (dim_x) for any other particle. Pictures of networks are stored as vectors. */
int job_shape(const job *j, int64_t shape[3]);
/* Moves the numbers of a particle that are stored to its front: those of a picture without its frame. */
void job_cut(const job *j, double *x);

/* Does theta belong to a network that can be stored? */
int job_has_network(const job *j);
/* Stores it with this theta, as .safetensors or .npz. */
int job_write_model(const job *j, const double *theta, const char *path, char *error, size_t room);

/* e^theta, the strength of the prior that a deblurring model learns; NaN for other models. */
double job_strength(const job *j, const sosmc *s);

/* The picture that the model restores; NULL: it restores none. */
const sosmc_deblur *job_restores(const job *j);

/* What parameter k is called: a word for a reader, without blanks. */
enum { JOB_NAME = 32 };
void job_theta_name(const job *j, int k, char out[JOB_NAME]);

/* How many observations are behind a marginal likelihood; 0: the objective is none, or their number is not known. */
int64_t job_rows(const job *j);

/* What whoever reads the results must know of the data: sentence i; NULL: there are no more. */
enum { JOB_NOTES = 4, JOB_SENTENCE = 512 };
const char *job_note_at(const job *j, int i);
/* Rows of tables that were left out because a value is missing. */
int64_t job_left_out(const job *j);

int job_has_bounds(const job *j); /* of x: then no formula and no lattice tells its numbers */
/* log Z at `theta` where there is a formula for it, which no estimate can improve on; NaN: there is none. */
double job_log_z(const job *j, const double *theta);

/* Why exp(-U_theta) has no normalising constant, or none that could be told; NULL: it has one. */
const char *job_why_no_log_z(const job *j);

#endif
