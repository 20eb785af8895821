/* problem.h: from a resolved run file to what sosmc_create takes. */
#ifndef SOSMC_JOB_PROBLEM_H
#define SOSMC_JOB_PROBLEM_H

#include <sosmc/models.h>

#include "runfile/config.h"

typedef struct {
    sosmc_problem problem;
    sosmc_settings settings;
    int64_t iterations;
    struct parts *parts; /* everything the values above point to; job_free releases it */
} job;

/* Builds the job. Returns 0, or -1 with one sentence in `error`; *io is then set where a file could not be read. */
int job_build(job *out, const config *c, int *io, char *error, size_t room);
void job_free(job *j);

/* The data points of the objective, rows of dim_x, and their number; NULL: there are none. */
const double *job_points(const job *j, int64_t *rows);

/* Returns whether the particles are pictures. If so, *out holds channels, rows and columns, and the values that are shown
 * black and white. */
typedef struct {
    int channels, rows, columns;
    double black, white;
} picture_shape;
int job_picture(const job *j, picture_shape *out);
/* The axes of a particle in an array file, and their number: 3 (channels, rows, columns) for a picture that a model restores,
 * 1 (dim_x) for any other particle. Pictures of networks are stored as vectors. */
int job_shape(const job *j, int64_t shape[3]);

/* Does theta belong to a network that can be stored? */
int job_has_network(const job *j);
/* Stores it with this theta, as .safetensors or .npz. */
int job_write_model(const job *j, const double *theta, const char *path, char *error, size_t room);

/* e^theta, the strength of the prior that a deblurring model learns; NaN for other models. */
double job_strength(const job *j, const sosmc *s);

/* Maximum marginal likelihood with a scalar theta: Louis' observed information at `theta` from the engine's cloud, which is
 * reweighted where it belongs to another theta. NaN where the model does not provide it. */
double job_information(const job *j, const sosmc *s, const double *theta);

/* The log-likelihood at `theta` with its Monte Carlo error, from fresh independent draws: a check on the running log Z. -1
 * where the model has no law to draw from. */
int job_evidence(const job *j, const double *theta, sosmc_evidence *out);

#endif
