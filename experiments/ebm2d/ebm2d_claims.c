/* ebm2d_claims.c: verdicts on the claims of the 2-D energy-based experiment.
 *
 * A claim holds by a rule that is written beside it; one that does not hold is corrected at the paper's size and not seen at
 * a smaller one, where it may still appear. What was not measured is never confirmed. Differences between seeds are judged
 * by twice their standard error, those between chains by three times. */
#include "ebm2d_claims.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/squares.h"

enum { I = EBM2D_IMPDIFF, S = EBM2D_SOSMC };

static const char *const claims[EBM2D_CLAIMS] = {
    "SOSMC-ULA reaches a better objective than ImpDiff at small beta, and a comparable one at large beta",
    "The weighted particle reward follows E[R] during tuning, while ImpDiff's particle reward does not",
    "Chains on the model tuned by SOSMC-ULA reach the rewarded half-plane sooner",
    "Gradient norms are steadier under SOSMC-ULA",
    "R_fresh from 5,000 steps agrees with 20,000 steps for SOSMC-ULA and not for ImpDiff",
    "R_fresh is biased on circles, because chains never change ring",
    "sosmc tune --kernel rwm, with fewer evaluations of the model than the paper, brings l − l* below 0.005 at beta = 0.25",
    "Long unadjusted chains leave particles of the pre-trained model: the first weights of SOSMC-ULA keep most of them"};

ebm2d_evidence ebm2d_no_evidence(void)
{
    ebm2d_evidence e = {.reached_by = NAN,
                        .inner_chains = NAN,
                        .inner_exact = NAN,
                        .ring_changes = NAN,
                        .ring_bias = NAN,
                        .fresh = NAN,
                        .fresh_error = NAN,
                        .fresh_exact = NAN,
                        .ours = {.mean = NAN, .sd = NAN, .error = NAN},
                        .first_ess = {{.mean = NAN}, {.mean = NAN}},
                        .start_excess = {{.mean = NAN}, {.mean = NAN}},
                        .impdiff_excess = {.mean = NAN},
                        .most_first_ess = NAN};
    for (int m = 0; m < EBM2D_PAPER_METHODS; m++) {
        e.estimate[m] = e.reward[m] = e.gap[m] = e.reached[m] = e.median_hit[m] = NAN;
        e.norm_spread[m] = (experiment_mean){.mean = NAN, .sd = NAN, .error = NAN};
        e.windows[m] = (ebm2d_windows){NAN, NAN, NAN, NAN};
    }
    return e;
}

double ebm2d_spread(const double *value, int n)
{
    enum { FEWEST = 20 };
    int half = n / 2;
    double *sorted = n >= FEWEST ? malloc((size_t)half * sizeof *sorted) : NULL, spread = NAN;
    if (!sorted) return NAN;
    memcpy(sorted, value + (n - half), (size_t)half * sizeof *sorted);
    qsort(sorted, (size_t)half, sizeof *sorted, experiment_ascending);
    if (sorted[half / 2] > 0) spread = (sorted[half * 9 / 10] - sorted[half / 10]) / sorted[half / 2];
    free(sorted);
    return spread;
}

/* ---------------------------------------------------------------------------- */

/* Small beta: the gain is above twice its standard error. Large beta (1 and more): it is within that, or below 0.001, which
 * is less than any of the figures shows. */
static void judge_objective(const ebm2d_evidence *e, claim *c)
{
    char list[400] = "";
    size_t used = 0;
    int better = 1, comparable = 1, small = 0, large = 0;
    for (int b = 0; b < e->betas; b++) {
        const experiment_mean *i = &e->excess[I][b], *s = &e->excess[S][b];
        double gain = i->mean - s->mean, error = root_of_squares(i->error, s->error);
        if (isnan(gain) || isnan(error)) continue;
        if (e->beta[b] < 1) {
            small++;
            better &= gain > 2 * error;
        } else {
            large++;
            comparable &= fabs(gain) < fmax(2 * error, 0.001);
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%sbeta %g: %.4f against %.4f (gain %.4f ± %.4f)",
                                     used ? "; " : "", e->beta[b], s->mean, i->mean, gain, 2 * error);
    }
    if (!claim_measured(c, small > 0, "The objective with an error bar (two seeds or more)")) return;
    claim_decide(c, e->paper, better && comparable, "exact l − l* of SOSMC-ULA against ImpDiff: %s%s%s", list,
                 better ? "; better at small beta" : "; not better at every small beta",
                 large == 0   ? "; large beta was not run, it belongs to --full"
                 : comparable ? "; comparable at large beta"
                              : "; not comparable at every large beta");
    if (better && large == 0) c->verdict = CLAIM_NOT_SEEN; /* half of a claim is not the claim */
}

/* Follows: within 0.02 on average over the evaluations. Does not: off by more than twice as much as the other. */
static void judge_tracking(const ebm2d_evidence *e, claim *c)
{
    double s = e->gap[S], i = e->gap[I];
    if (!claim_measured(c, !isnan(s + i + e->estimate[S] + e->estimate[I]), "The particle reward")) return;
    claim_decide(
        c, e->paper, s < 0.02 && i > 2 * s,
        "SOSMC-ULA's weighted particles are off by %.4f on average (at the end they say %.4f where E[R] is %.4f), "
        "ImpDiff's by %.4f (%.4f where it is %.4f)",
        s, e->estimate[S], e->reward[S], i, e->estimate[I], e->reward[I]);
}

static double binomial_error(double p, int n) { return n > 0 ? sqrt(fmax(p * (1 - p), 0) / n) : NAN; }

static void judge_hitting(const ebm2d_evidence *e, claim *c)
{
    double error = root_of_squares(binomial_error(e->reached[I], e->chains), binomial_error(e->reached[S], e->chains));
    if (!claim_measured(c, !isnan(e->reached[I] + e->reached[S] + error), "The time to reach the half-plane")) return;
    claim_decide(
        c, e->paper, e->reached[S] - e->reached[I] > 3 * error && !(e->median_hit[S] > e->median_hit[I]),
        "by step %.0f %.1f%% of %d chains have been there with SOSMC-ULA and %.1f%% with ImpDiff, same starts and noise; "
        "half of those that start outside arrive by step %.0f and %.0f",
        e->reached_by, 100 * e->reached[S], e->chains, 100 * e->reached[I], e->median_hit[S], e->median_hit[I]);
}

static void judge_norms(const ebm2d_evidence *e, claim *c)
{
    const experiment_mean *s = &e->norm_spread[S], *i = &e->norm_spread[I];
    double error = root_of_squares(s->error, i->error);
    if (!claim_measured(c, !isnan(s->mean + i->mean + error),
                        "The spread of gradient norms with an error bar (two seeds or more)"))
        return;
    claim_decide(
        c, e->paper, i->mean - s->mean > 2 * error,
        "in the second half of the run the middle 80%% of the norms span %.2f medians with SOSMC-ULA and %.2f medians with "
        "ImpDiff (difference %.2f ± %.2f)",
        s->mean, i->mean, i->mean - s->mean, 2 * error);
}

/* Agrees: within three standard errors, or within 0.005. */
static int agrees(const ebm2d_windows *w) { return fabs(w->change) <= fmax(3 * w->error, 0.005); }

static void judge_windows(const ebm2d_evidence *e, claim *c)
{
    const ebm2d_windows *s = &e->windows[S], *i = &e->windows[I];
    if (!claim_measured(c, !isnan(s->change + i->change), "R_fresh in two windows of steps")) return;
    claim_decide(
        c, e->paper, agrees(s) && !agrees(i),
        "from steps %.0f–%.0f to steps %.0f–%.0f of the same chains R_fresh goes from %.4f to %.4f (change %.4f ± %.4f) "
        "with SOSMC-ULA and from %.4f to %.4f (%.4f ± %.4f) with ImpDiff",
        e->early[0], e->early[1], e->late[0], e->late[1], s->early, s->late, s->change, s->error, i->early, i->late,
        i->change, i->error);
}

/* Never: fewer than one chain in a hundred. Biased: another share of chains on the inner ring than there is mass. */
static void judge_rings(const ebm2d_evidence *e, claim *c)
{
    double error = binomial_error(e->inner_chains, e->ring_chains);
    if (!claim_measured(c, !isnan(e->inner_chains + e->inner_exact + e->ring_changes + e->ring_bias + error),
                        "The share of chains on either ring"))
        return;
    claim_decide(
        c, e->paper, e->ring_changes < 0.01 && fabs(e->inner_chains - e->inner_exact) > 3 * error,
        "%.1f%% of the chains are on the inner ring of the pre-trained model, whose exact mass is %.1f%%; %.2f%% changed "
        "ring after the first steps; by the exact rewards of the rings this alone moves R_fresh by %.4f; measured %.4f ± "
        "%.4f where E[R] is %.4f",
        100 * e->inner_chains, 100 * e->inner_exact, 100 * e->ring_changes, e->ring_bias, e->fresh, e->fresh_error,
        e->fresh_exact);
}

static void judge_ours(const ebm2d_evidence *e, claim *c)
{
    if (!claim_measured(c, !isnan(e->ours.mean + e->ours.error),
                        "l − l* of sosmc tune --kernel rwm and an error bar (two seeds or more)"))
        return;
    claim_decide(c, e->paper, e->ours.mean + 2 * e->ours.error < 0.005, "l − l* is %.4f ± %.4f over %d seeds",
                 e->ours.mean, 2 * e->ours.error, e->ours.n);
}

/* Most: half of them, on average over seeds. */
static void judge_start(const ebm2d_evidence *e, claim *c)
{
    const experiment_mean *ess = e->first_ess, *l = e->start_excess;
    if (!claim_measured(
            c, !isnan(ess[0].mean + ess[1].mean + e->most_first_ess + l[0].mean + l[1].mean + e->impdiff_excess.mean),
            "The effective sample size of the first iteration"))
        return;
    claim_decide(
        c, e->paper, ess[0].mean > 0.5 * e->particles,
        "behind the first weights the effective sample size is %.4g of %d on average over %d seeds, %.4g at most; from particles "
        "by tempering it is %.4g. The trial then ends at l − l* = %.4f instead of %.4f (ImpDiff: %.4f). Unadjusted steps "
        "leave particles on slopes that the model hardly visits, and the first to come down takes the weight of many",
        ess[0].mean, e->particles, ess[0].n, e->most_first_ess, ess[1].mean, l[1].mean, l[0].mean,
        e->impdiff_excess.mean);
}

void ebm2d_judge(const ebm2d_evidence *e, claim out[EBM2D_CLAIMS])
{
    static void (*const judges[EBM2D_CLAIMS])(const ebm2d_evidence *,
                                              claim *) = {judge_objective, judge_tracking, judge_hitting, judge_norms,
                                                          judge_windows,   judge_rings,    judge_ours,    judge_start};
    for (int i = 0; i < EBM2D_CLAIMS; i++) {
        out[i] = (claim){.claim = claims[i]};
        judges[i](e, &out[i]);
    }
}
