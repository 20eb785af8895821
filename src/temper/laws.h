/* laws.h: mixtures of normal and Student laws with their densities and gradients, as starting laws of a pass. */
#ifndef SOSMC_TEMPER_LAWS_H
#define SOSMC_TEMPER_LAWS_H

#include <sosmc/sosmc.h>

enum { LAW_MOST = 24, LAW_FULL = 200 }; /* components; the largest dimension with full covariances */
enum { LAW_WORK = 32 };                 /* doubles per dimension that the densities of a tile need (tile.h) */

/* m + L z with z normal, or Student with `dof` degrees of freedom. L is lower triangular, dim rows of dim, or a diagonal. */
typedef struct {
    double weight;
    int dof;                    /* 0: normal */
    double *mean, *L, *inverse; /* the last: reciprocals of the diagonal of L */
    double log_norm;            /* of the density at the mean */
} law;

typedef struct {
    int dim, diagonal, count;
    law part[LAW_MOST];
    double log_weight[LAW_MOST];
    double *memory[LAW_MOST];
} laws;

/* A factor as the solves of a tile take it. */
typedef struct {
    int dim, diagonal;
    const double *factor, *inverse; /* dim rows of dim, or a diagonal; the reciprocals of the diagonal */
} triangle;

void sosmc_i_laws_free(laws *q);
size_t sosmc_i_law_doubles(const laws *q); /* of one L */
/* Adds a component with the given mean and the factor L of its covariance (both copied). Returns 0, -1 without memory or room. */
int sosmc_i_laws_add(laws *q, double weight, int dof, const double *mean, const double *L);
/* Normalises the weights; the densities below need it. */
void sosmc_i_laws_close(laws *q);

/* A weighted normal fit: mean and the factor of `inflate` times the covariance, whose off-diagonal entries are shrunk by
 * 1 - min(1, 2 dim / ess). x: n rows of dim; w: weights that sum to 1. Coordinates without spread get a little. */
int sosmc_i_fit_normal(const laws *q, int64_t n, const double *x, const double *w, double inflate, double *mean,
                       double *L);

/* Adds a mixture of at most `parts` normal laws (fewer where points are few), with `weight` among what the law holds, that is fitted to n
 * points, rows of dim, with weights w (NULL: equal ones); covariances times `inflate`. -1: without memory or room. */
int sosmc_i_fit_mixture(laws *q, int parts, double weight, double inflate, int64_t n, const double *x, const double *w);

/* The component of particle i of n, in proportion to the weights. */
int sosmc_i_law_of(const laws *q, int64_t i, int64_t n);
/* Particles first, first + 1, ... of n, as many as the tile b has: from dim rows of ld normals z, and for a Student law the
 * particle's sqrt(degrees of freedom / chi square) in `stretch` (1 for a normal law), into the tile x. */
void sosmc_i_laws_draw(const laws *q, const sosmc_batch *b, int64_t n, const double *z, const double *stretch,
                       double *x);

#endif
