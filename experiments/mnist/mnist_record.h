/* mnist_record.h: what is known of the experiment from elsewhere: the outputs recorded in the authors' program, an independent
 * re-run of it, and a re-run at a reduced scale. All of it belongs to the published checkpoint. */
#ifndef CLI_MNIST_RECORD_H
#define CLI_MNIST_RECORD_H

#include "mnist_cells.h"

enum { MNIST_RECORDED = 20, MNIST_RECORDED_CLOUDS = 10 };

/* What is not known is NaN or NULL. */
typedef struct {
    double particles;
    double baseline, final;              /* mean reward of 64 chains before and after tuning, by the authors */
    const double (*fresh)[2];            /* k = 0, 50, ..., 950: mean and standard deviation over chains */
    const double (*cloud)[5];            /* k = 0, 100, ..., 900: reward plain and weighted, mean E, mean E_0, ESS */
    double rerun_before, rerun_after;    /* the independent re-run: 192 chains */
    double rerun_gain, rerun_gain_error; /* paired, with its standard error */
    double rerun_ess;                    /* the smallest over the run */
    double rerun_likeness;               /* median digit-likeness score of the samples */
    double reduced_before, reduced, reduced_error; /* the reduced scale, 128 chains */
    double reduced_resamplings, reduced_ess;
} mnist_known;
mnist_known mnist_known_of(const mnist_cell *cell);

#define MNIST_RERUN_LIKENESS 2.27 /* median score of samples of the published checkpoint */
#define MNIST_RERUN_LIMIT 4.17    /* 99% quantile of held-out digits */

/* How much the gain of a tuning run varies from run to run, as a share of the gain: from the sweeps that both the authors'
 * program and the re-run of it have made. One standard deviation. */
double mnist_run_spread(void);

/* Are these the parameters of the published checkpoint? */
int mnist_is_published(const double *theta, int n);

#endif
