/* lattice_inside.h: sums over nodes of the plane, for lattice.c and divide.c. */
#ifndef SOSMC_ANALYSIS_LATTICE_INSIDE_H
#define SOSMC_ANALYSIS_LATTICE_INSIDE_H

#include <sosmc/analysis.h>

/* Masses proportional to exp(-U + R / beta), or to exp(-U) when R is NULL. */
typedef struct {
    int64_t count;
    const double *U, *R;
    double beta;
    double logsum; /* log of the sum of what the masses are proportional to */
} measure;

static inline double log_weight(const measure *p, int64_t g) { return p->R ? p->R[g] / p->beta - p->U[g] : -p->U[g]; }

measure sosmc_i_masses(int64_t count, const double *U, const double *R, double beta);
/* All of *out but the edge, from values at `count` points of which each stands for the same area. */
void sosmc_i_exact_sums(int64_t count, double log_cell, const double *U, const double *U_ref, const double *R,
                        double beta, sosmc_exact *out);
double sosmc_i_log_cell(const sosmc_lattice *l);
double sosmc_i_edge(const measure *p, int nodes); /* the share of the outermost ring of nodes */

#endif
