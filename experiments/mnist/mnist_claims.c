/* mnist_claims.c: verdicts on the claims of the experiment with pictures.
 *
 * A claim holds by the rule that is written beside it, over the published pairs and sweeps (at the reduced scale, over its
 * cells). One that does not hold is corrected at the paper's size and not seen at a smaller one. What was not measured is
 * never confirmed. Standard errors are those of chains unless they say otherwise. */
#include "mnist_claims.h"

#include <math.h>
#include <stdio.h>

#include "common/squares.h"
#include "mnist_record.h"

static const char *const claims[MNIST_CLAIMS] = {
    "Both methods raise the fresh reward over that of the pre-trained model, for all rewards and beta",
    "The methods are comparable for bright and dark, and SOSMC-ULA is slightly better for half",
    "Tuned samples keep the structure of digits: no reward hacking",
    "Small beta brings some mode collapse, for bright and dark",
    "Tuning works although its kernel is not the sampler of the pre-training",
    "Paired gains agree with an independent re-run of the published program"};

static int counts(const mnist_cell *c) { return c->group != MNIST_BETTER && c->seed == 0; }

/* At the paper's size: all published particles and iterations. */
static int is_paper(const mnist_findings *f) { return !f->plan->scale.reduced && f->plan->scale.iterations == 0; }

typedef struct {
    char text[400];
    size_t used;
} list;

/* "sweep bright beta 0.5 SOSMC-ULA (-0.01 ± 0.02)", as long as there is room. */
static void note(list *l, const mnist_cell *c, double value, double error)
{
    if (l->used + 80 > sizeof l->text) return;
    int n = snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s %s beta %g %s (%.3f", l->used ? ", " : "",
                     mnist_group_names[c->group], mnist_reward_names[c->reward], c->beta, mnist_method_names[c->method],
                     value);
    l->used += (size_t)n;
    n = isnan(error) ? snprintf(l->text + l->used, sizeof l->text - l->used, ")")
                     : snprintf(l->text + l->used, sizeof l->text - l->used, " ± %.3f)", error);
    l->used += (size_t)n;
}

/* Every gain is above three standard errors. */
static void judge_gains(const mnist_findings *f, claim *c)
{
    list failing = {.used = 0};
    int all = 0, raised = 0;
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < f->plan->cells; i++) {
        const mnist_cell *cell = &f->plan->cell[i];
        const experiment_mean *g = &f->cell[i].gain;
        if (!counts(cell) || isnan(g->mean)) continue;
        all++;
        least = fmin(least, g->mean);
        most = fmax(most, g->mean);
        if (g->mean > 3 * g->error)
            raised++;
        else
            note(&failing, cell, g->mean, g->error);
    }
    if (!claim_measured(c, all > 0, "The gain of any cell")) return;
    claim_decide(c, is_paper(f), raised == all,
                 "%d of %d cells gain more than three standard errors; gains from %.3f to %.3f%s%s%s", raised, all,
                 least, most, failing.used ? "; not: " : "", failing.text,
                 f->plan->scale.reduced ? "; the quick version runs beta = 1 alone, where the claim is about all" : "");
    if (f->plan->scale.reduced) c->verdict = CLAIM_NOT_SEEN; /* a part of a claim is not the claim */
}

/* Comparable: within two standard errors, or within a tenth of the gain. Better: by more than two standard errors. */
static void judge_methods(const mnist_findings *f, claim *c)
{
    list unlike = {.used = 0}, halves = {.used = 0};
    int compared = 0, half = 0, comparable = 1, better = 1;
    for (int i = 0; i < f->plan->cells; i++) {
        const mnist_cell *cell = &f->plan->cell[i];
        const experiment_mean *d = &f->cell[i].over;
        if (!counts(cell) || d->n == 0 || isnan(d->mean)) continue;
        if (cell->reward == MNIST_HALF) {
            half++;
            better &= d->mean > 2 * d->error;
            note(&halves, cell, d->mean, 2 * d->error);
        } else {
            compared++;
            if (fabs(d->mean) <= fmax(2 * d->error, 0.1 * fabs(f->cell[i].gain.mean))) continue;
            comparable = 0;
            note(&unlike, cell, d->mean, 2 * d->error);
        }
    }
    if (!claim_measured(c, compared > 0, "A pair of methods at one setting")) return;
    claim_decide(c, is_paper(f), comparable && half && better,
                 "final reward of SOSMC-ULA over ImpDiff from the same noise: %s%s; half: %s",
                 comparable ? "comparable in all cells of bright and dark" : "bright and dark differ in ", unlike.text,
                 half                     ? halves.text
                 : f->plan->scale.reduced ? "not compared, the quick version runs it with SOSMC-ULA alone"
                                          : "not compared");
    if (half == 0 && comparable) c->verdict = CLAIM_NOT_SEEN; /* half of a claim is not the claim */
}

/* A score of digits would need training digits; the page shows samples instead. */
static void judge_structure(const mnist_findings *f, claim *c)
{
    (void)f;
    claim_not_run(
        c,
        "not judged: the program has no score of digits; the pictures of samples on the page are for the reader to judge");
}

static double variety(const mnist_findings *f, mnist_reward reward, double beta)
{
    const mnist_cell *cell = mnist_find(f->plan, MNIST_SWEEP, reward, beta, MNIST_SOSMC);
    const mnist_finding *found = mnist_finding_of(f, cell);
    return found ? found->sample.spread / found->base->spread : NAN;
}

/* Collapse: at beta 0.5 the samples differ from each other by less than nine tenths of what they do at beta 5. */
static void judge_collapse(const mnist_findings *f, claim *c)
{
    double bright[2] = {variety(f, MNIST_BRIGHT, 5), variety(f, MNIST_BRIGHT, 0.5)};
    double dark[2] = {variety(f, MNIST_DARK, 5), variety(f, MNIST_DARK, 0.5)};
    if (isnan(bright[0] + bright[1] + dark[0] + dark[1])) {
        if (f->plan->scale.reduced)
            claim_not_run(c, "not judged: it needs the sweep over beta, and the quick version runs beta = 1 alone");
        else
            claim_unknown(c, "The sweep over beta");
        return;
    }
    claim_decide(
        c, is_paper(f), bright[1] < 0.9 * bright[0] && dark[1] < 0.9 * dark[0],
        "spread of the samples among themselves, as a share of that of pre-trained samples: bright %.2f at beta 5 and "
        "%.2f at beta 0.5, dark %.2f and %.2f",
        bright[0], bright[1], dark[0], dark[1]);
}

/* Works: the gains, which are measured by the sampler, are positive. What the cloud looks like is told beside it. */
static void judge_kernels(const mnist_findings *f, claim *c)
{
    int all = 0, positive = 0;
    double sd[2] = {INFINITY, -INFINITY}, outside = 0;
    for (int i = 0; i < f->plan->cells; i++) {
        const mnist_cell *cell = &f->plan->cell[i];
        double now = mnist_last_cloud(cell, MNIST_PIXEL_SD);
        if (!counts(cell) || isnan(f->cell[i].gain.mean) || isnan(now)) continue;
        all++;
        positive += f->cell[i].gain.mean > 0;
        sd[0] = fmin(sd[0], now);
        sd[1] = fmax(sd[1], now);
        outside = fmax(outside, mnist_last_cloud(cell, MNIST_OUTSIDE));
    }
    if (!claim_measured(c, all > 0, "The particles of any cell")) return;
    claim_decide(
        c, is_paper(f), positive == all,
        "the sampler's reward rises in %d of %d cells; but the particles that the gradient is taken at are no samples of "
        "the model: their pixels end with a standard deviation of %.2f to %.2f, up to %.0f%% of them outside [−1, 1]",
        positive, all, sd[0], sd[1], 100 * outside);
}

mnist_distance mnist_apart(const mnist_findings *f, const mnist_cell *cell)
{
    mnist_known k = mnist_known_of(f->plan, cell);
    const mnist_finding *found = mnist_finding_of(f, cell);
    experiment_mean seeds = mnist_gain_over_seeds(f, cell);
    mnist_distance d = {NAN, NAN};
    if (!f->published || !found || cell->seed) return d;
    double chains = root_of_squares(found->gain.error, k.rerun_gain_error), n = seeds.n > 0 ? seeds.n : 1;
    double sd = seeds.n > 2 ? seeds.sd : mnist_run_spread(f->plan) * k.rerun_gain;
    d.chains = fabs(found->gain.mean - k.rerun_gain) / chains;
    d.all = fabs(seeds.mean - k.rerun_gain) /
            root_of_squares(chains, sd * sqrt(1 + 1 / n)); /* the re-run is a run, too */
    return d;
}

/* Within three standard errors of the chains and of tuning from run to run together: the same program with other noise ends
 * many standard errors of the chains away (docs/mnist.md). The distance by the chains alone is told beside it. */
static void judge_agreement(const mnist_findings *f, claim *c)
{
    list failing = {.used = 0};
    int all = 0, near = 0, by_chains = 0;
    double most = 0;
    for (int i = 0; i < f->plan->cells; i++) {
        const mnist_cell *cell = &f->plan->cell[i];
        mnist_distance apart = mnist_apart(f, cell);
        if (isnan(apart.all)) continue;
        all++;
        most = fmax(most, apart.all);
        by_chains += apart.chains <= 3;
        if (apart.all <= 3)
            near++;
        else
            note(&failing, cell, apart.all, NAN);
    }
    if (all == 0) {
        if (f->plan->scale.reduced)
            claim_not_run(
                c, "not judged: the re-run is of the sweep over beta, and the quick version runs beta = 1 alone%s",
                f->published ? "" : "; it also belongs to the published checkpoint (--checkpoint)");
        else if (!f->published)
            claim_not_run(c, "not judged: the re-run belongs to the published checkpoint, which was not given "
                             "(--checkpoint)");
        else
            claim_unknown(c, "The sweep that was re-run");
        return;
    }
    claim_decide(c, is_paper(f), near == all,
                 "%d of %d cells are within three standard errors of the chains and of tuning from run to run, the "
                 "farthest at %.1f; %d of them when only the chains' error is counted%s%s",
                 near, all, most, by_chains, failing.used ? "; beyond: " : "", failing.text);
}

void mnist_judge(const mnist_findings *f, claim out[MNIST_CLAIMS])
{
    static void (*const judges[MNIST_CLAIMS])(const mnist_findings *, claim *) = {
        judge_gains, judge_methods, judge_structure, judge_collapse, judge_kernels, judge_agreement};
    for (int i = 0; i < MNIST_CLAIMS; i++) {
        out[i] = (claim){.claim = claims[i]};
        judges[i](f, &out[i]);
    }
}
