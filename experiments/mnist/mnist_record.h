/* mnist_record.h: what is known of the experiment from elsewhere: the outputs recorded in the authors' program, an independent
 * re-run of it, and a re-run at a reduced scale. All of it belongs to the published checkpoint. */
#ifndef SOSMC_MNIST_MNIST_RECORD_H
#define SOSMC_MNIST_MNIST_RECORD_H

#include "mnist_cells.h"

enum { MNIST_RECORDED = 20, MNIST_RECORDED_CLOUDS = 10 };

/* What is not known is NaN. */
typedef struct {
    double particles;
    double baseline, final;              /* mean reward of 64 chains before and after tuning, by the authors */
    double rerun_before, rerun_after;    /* the independent re-run: 192 chains */
    double rerun_gain, rerun_gain_error; /* paired, with its standard error */
    double rerun_ess;                    /* the smallest over the run */
    double reduced_before, reduced, reduced_error; /* the reduced scale, 128 chains */
    double reduced_resamplings, reduced_ess;
} mnist_known;
mnist_known mnist_known_of(const mnist_plan *plan, const mnist_cell *cell);

/* What the authors' program printed on the way. */
typedef struct {
    int known;                              /* otherwise nothing else is set */
    double fresh[MNIST_RECORDED][2];        /* k = 0, 50, ..., 950: mean and standard deviation over chains */
    double cloud[MNIST_RECORDED_CLOUDS][5]; /* k = 0, 100, ..., 900: reward plain and weighted, mean E, mean E_0, ESS */
} mnist_curves;
void mnist_known_curves(const mnist_plan *plan, const mnist_cell *cell, mnist_curves *out);

/* How much the gain of a tuning run varies from run to run, as a share of the gain: from the sweeps that both the authors'
 * program and the re-run of it have made. One standard deviation. */
double mnist_run_spread(const mnist_plan *plan);

/* Are these the parameters of the published checkpoint? */
int mnist_is_published(const double *theta, int n);

#endif
