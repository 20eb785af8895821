/* mnist_findings.h: what the cells of the experiment with pictures are worth: samples of every tuned network beside samples of
 * the pre-trained one from the same noise, and what is worked out from them. */
#ifndef SOSMC_MNIST_MNIST_FINDINGS_H
#define SOSMC_MNIST_MNIST_FINDINGS_H

#include "mnist_cells.h"

enum { MNIST_FEW = 64, MNIST_BASES = 8 }; /* chains behind a recorded mean; lengths of chains */

/* Samples of a network. Spread tells how far they differ from each other: the root mean square over pixels of their standard
 * deviation. */
typedef struct {
    int chains, steps;
    double *x; /* chains rows of pixels */
    double spread;
} mnist_sample;

typedef struct {
    const mnist_sample *base; /* of the pre-trained network: same steps, same noise */
    mnist_sample sample;
    experiment_mean before, after; /* reward of the first MNIST_FEW chains */
    experiment_mean gain;          /* of all chains, paired */
    experiment_mean over;          /* beyond that of ImpDiff at the same setting, paired; n = 0: no such cell */
} mnist_finding;

typedef struct {
    const mnist_plan *plan;
    int threads;
    int published; /* the pre-trained network is the published one */
    int bases;
    mnist_sample base[MNIST_BASES];
    mnist_finding *cell; /* as in the plan */
} mnist_findings;

/* Which lengths of chains the plan asks for. Borrows the plan. */
int mnist_findings_begin(mnist_findings *f, const mnist_plan *plan, char *error, size_t room);
void mnist_findings_free(mnist_findings *f);

/* Draws the samples of a length, or of a cell whose run is finished; kept in OUT/studies. Cells need the bases. */
int mnist_base_draw(mnist_findings *f, int base, char *error, size_t room);
int mnist_cell_draw(mnist_findings *f, int cell, char *error, size_t room);
/* When all samples are there: methods against each other. */
int mnist_compare(mnist_findings *f, char *error, size_t room);

/* The gain from seed to seed of a setting and method. */
experiment_mean mnist_gain_over_seeds(const mnist_findings *f, const mnist_cell *cell);

const mnist_finding *mnist_finding_of(const mnist_findings *f, const mnist_cell *cell);

#endif
