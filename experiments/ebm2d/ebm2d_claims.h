/* ebm2d_claims.h: what the paper's section says about reward tuning of 2-D energy-based models, with verdicts from our
 * numbers. */
#ifndef SOSMC_EBM2D_EBM2D_CLAIMS_H
#define SOSMC_EBM2D_EBM2D_CLAIMS_H

#include "common/claims.h"
#include "ebm2d_cells.h"
#include "ebm2d_extras.h"

/* The numbers from which the verdicts are computed. A number that was not measured is NaN (a mean: n = 0). Arrays over
 * methods hold ImpDiff and SOSMC-ULA, on circles and the lower half-plane. */
typedef struct {
    int paper; /* the sizes are the paper's: a claim that does not hold is then CLAIM_CORRECTED, else CLAIM_NOT_SEEN */
    int betas;
    double beta[EBM2D_BETAS];
    experiment_mean excess[EBM2D_PAPER_METHODS][EBM2D_BETAS]; /* l - l* at the end, exact */
    double estimate[EBM2D_PAPER_METHODS]; /* mean reward of the particles (SOSMC: weighted) at the end */
    double reward[EBM2D_PAPER_METHODS];   /* the exact value of what `estimate` estimates; both are means over seeds */
    double gap[EBM2D_PAPER_METHODS]; /* mean distance of `estimate` and `reward` over all evaluations but the first */
    int chains;                      /* of the study of the final models */
    double reached_by;               /* a step; `reached` is the share of chains that have been in H by then */
    double reached[EBM2D_PAPER_METHODS];
    double median_hit[EBM2D_PAPER_METHODS]; /* of chains that start outside of H */
    experiment_mean
        norm_spread[EBM2D_PAPER_METHODS]; /* of norms in the last half: (90% - 10% quantile) / median; over seeds */
    double early[2], late[2];             /* two windows of steps; `windows` has the rewards averaged over them */
    ebm2d_windows windows[EBM2D_PAPER_METHODS];
    int ring_chains; /* of the study of the pre-trained model */
    double inner_chains, inner_exact, ring_changes;
    /* The error of R_fresh that comes from a wrong share of chains on the inner ring, by the exact rewards of the
     * rings. */
    double ring_bias;
    double fresh, fresh_error, fresh_exact; /* R_fresh of the pre-trained model, and E[R] */
    experiment_mean ours;                   /* l - l* of `sosmc tune --kernel rwm` */
    /* SOSMC-ULA in the trial, from particles by chains and by tempering: ESS after the first weights (most_first_ess: its
     * largest value, by chains) and l - l*; impdiff_excess is l - l* of ImpDiff. */
    int particles;
    experiment_mean first_ess[2], start_excess[2], impdiff_excess;
    double most_first_ess;
} ebm2d_evidence;

enum { EBM2D_CLAIMS = 8 };

/* Evidence without any measured number. */
ebm2d_evidence ebm2d_no_evidence(void);
void ebm2d_judge(const ebm2d_evidence *evidence, claim out[EBM2D_CLAIMS]);

/* (90% - 10% quantile) / median of the last half of a series; NaN below 20 values. */
double ebm2d_spread(const double *value, int n);

#endif
