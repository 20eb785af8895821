/* points.h: points to train on: three well-known shapes, made to measure, or a user's file. */
#ifndef SOSMC_JOB_POINTS_H
#define SOSMC_JOB_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "scaling.h"

/* Fewer are all fitted where nothing else is asked for: a tenth of them could tell nothing. */
enum { POINTS_FEW = 50 };

typedef enum { POINTS_TWO_MOONS, POINTS_CIRCLES, POINTS_BLOBS } points_kind;

typedef struct {
    points_kind kind;
    int64_t points;        /* 1 to 2^31 - 1, in two halves or as many equal parts as there are centres */
    double noise;          /* standard deviation in every coordinate, before scaling; blobs: of a cluster */
    double factor;         /* circles: radius of the inner one */
    const double *centres; /* blobs: clusters x dim; the other shapes have dimension 2 */
    int clusters, dim;
    int standardise;
    double scale;
    uint64_t seed;
    points_scaling *scaling; /* NULL, or as in points_rescale */
} points_recipe;

/* points x dim numbers, row-major, curve after curve or cluster after cluster; the caller frees. The same recipe gives
 * the same points anywhere, up to the last digits of the machine's sine and cosine. 0, or -1 with one sentence. */
int points_generate(const points_recipe *recipe, double **x, int64_t *rows, char *error, size_t room);

/* A CSV table (header or none) or an array NAME.npy with `dim` columns of finite numbers, one point per row. */
int points_load(const char *path, int dim, double **x, int64_t *rows, char *error, size_t room);
/* The same for data, in which numbers may be missing. */
typedef struct {
    const char *remedy; /* what to write, where a missing number is refused */
    int drop;           /* points in which a number is missing are left out, and counted */
    int64_t dropped;
    char *columns;  /* of a table with a header: as in points_scaling, for the caller to free */
    int identifier; /* the first column, from 1, that may only count or name the rows; 0: none */
} points_gaps;
int points_load_data(const char *path, int dim, points_gaps *gaps, double **x, int64_t *rows, char *error, size_t room);

/* x = scale (x - mean) / (sd + 1e-8) per coordinate, with the population's standard deviation; without `standardise`,
 * x = scale x. -1 when a result is not finite. Where `told` is there (NULL: nobody asks), it is made to say what was done, which the
 * caller frees; it is empty where nothing was changed. */
int points_rescale(double *x, int64_t rows, int dim, int standardise, double scale, points_scaling *told);

/* A sentence where all points of the file are the same, which no network of theirs can be fitted to. */
int points_differ(const char *path, const double *x, int64_t rows, int dim, char *error, size_t room);
/* A sentence where `rows` points of the file have no standard deviation; `otherwise` is what switches scaling off. */
int points_can_standardise(const char *path, int64_t rows, const char *otherwise, char *error, size_t room);

#endif
