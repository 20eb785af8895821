/* ebm2d_claims.h: what the section says about reward tuning of 2-D energy-based models, and what our numbers say to it. */
#ifndef SOSMC_EBM2D_EBM2D_CLAIMS_H
#define SOSMC_EBM2D_EBM2D_CLAIMS_H

#include "common/claims.h"
#include "ebm2d_cells.h"
#include "ebm2d_extras.h"

/* All that the verdicts are worked out from. What was not measured is NaN (a mean: n = 0). Arrays over methods hold
 * ImpDiff and SOSMC-ULA, on circles and the lower half-plane. */
typedef struct {
    int paper; /* at the paper's size: a claim that does not hold is then corrected, else merely not seen */
    int betas;
    double beta[EBM2D_BETAS];
    experiment_mean excess[EBM2D_PAPER_METHODS][EBM2D_BETAS]; /* l - l* at the end, exact */
    double estimate[EBM2D_PAPER_METHODS]; /* reward by the particles (SOSMC: weighted) at the end, */
    double reward[EBM2D_PAPER_METHODS];   /* and what it estimates, exact; means over seeds */
    double gap[EBM2D_PAPER_METHODS];      /* mean distance of the two over all evaluations but the first */
    int chains;                           /* of the study of the final models */
    double reached_by;                    /* a step, and the share of chains in H until then */
    double reached[EBM2D_PAPER_METHODS];
    double median_hit[EBM2D_PAPER_METHODS]; /* of chains that start outside of H */
    experiment_mean
        norm_spread[EBM2D_PAPER_METHODS]; /* of norms in the last half: (90% - 10% quantile) / median; over seeds */
    double early[2], late[2];             /* windows of steps, and the reward averaged over them */
    ebm2d_windows windows[EBM2D_PAPER_METHODS];
    int ring_chains; /* of the study of the pre-trained model */
    double inner_chains, inner_exact, ring_changes;
    double ring_bias; /* what the chains' share of the inner ring does to R_fresh, by the exact rewards of the rings */
    double fresh, fresh_error, fresh_exact; /* R_fresh of the pre-trained model, and E[R] */
    experiment_mean ours;                   /* l - l* of `sosmc tune` */
    /* SOSMC-ULA in the trial, from particles by chains and by tempering: ESS behind the first weights (its largest value:
     * by chains) and l - l*; beside them ImpDiff's */
    int particles;
    experiment_mean first_ess[2], start_excess[2], impdiff_excess;
    double most_first_ess;
} ebm2d_evidence;

enum { EBM2D_CLAIMS = 8 };

/* Evidence of which nothing has been measured. */
ebm2d_evidence ebm2d_no_evidence(void);
void ebm2d_judge(const ebm2d_evidence *evidence, claim out[EBM2D_CLAIMS]);

/* (90% - 10% quantile) / median of the last half of a series; NaN below 20 values. */
double ebm2d_spread(const double *value, int n);

#endif
