/* mnist_claims.h: what the paper says about the tuning of its model of pictures, and what our numbers say to it. */
#ifndef SOSMC_MNIST_MNIST_CLAIMS_H
#define SOSMC_MNIST_MNIST_CLAIMS_H

#include "common/claims.h"
#include "mnist_findings.h"

enum { MNIST_CLAIMS = 6 };

/* Works out the verdicts from findings and from what the cells have been read to hold. */
void mnist_judge(const mnist_findings *f, claim out[MNIST_CLAIMS]);

/* How far our gain is from that of the independent re-run, in standard errors: of the chains alone, and with the variance of
 * tuning from run to run (ours over three seeds or more, else mnist_run_spread). NaN where either gain is unknown, or
 * the pre-trained network is another one. */
typedef struct {
    double chains, all;
} mnist_distance;
mnist_distance mnist_apart(const mnist_findings *f, const mnist_cell *cell);

#endif
