/* laws.h: mixtures of normal and Student laws with their densities and gradients, as starting laws of a pass. */
#ifndef SOSMC_JUDGE_LAWS_H
#define SOSMC_JUDGE_LAWS_H

#include <sosmc/sosmc.h>

enum { LAW_MOST = 24, LAW_FULL = 200 }; /* components; the largest dimension with full covariances */

/* m + L z with z normal, or Student with `dof` degrees of freedom. L is lower triangular, dim rows of dim, or a diagonal. */
typedef struct {
    double weight;
    int dof; /* 0: normal */
    double *mean, *L;
    double log_norm; /* of the density at the mean */
} law;

typedef struct {
    int dim, diagonal, count;
    law part[LAW_MOST];
    double log_weight[LAW_MOST];
    double *memory[LAW_MOST];
} laws;

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

/* The component of particle i of n, in proportion to the weights. */
int sosmc_i_law_of(const laws *q, int64_t i, int64_t n);
/* x = a draw of component k from dim normals z and, for a Student law, `chi2` over its degrees of freedom; z is overwritten. */
void sosmc_i_law_draw(const laws *q, int k, double *z, double chi2, double *x);
/* -log density at x, and its gradient (NULL: not wanted). work: 2 dim doubles. */
double sosmc_i_laws_energy(const laws *q, const double *x, double *gradient, double *work);

#endif
