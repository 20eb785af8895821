/* ebm2d_page.c: the page of the 2-D energy-based experiment: verdicts, tables beside the known values, every figure.
 *
 * Nothing is computed here but means and differences; values belong to circles and the lower half-plane unless they say
 * otherwise. A figure whose data were not made at this size of the experiment is left out. */
#include "ebm2d_page_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAPER = EBM2D_PAPER_METHODS };

/* ---------------------------------------------------------------------------- known values */

ebm2d_value ebm2d_estimate_of(ebm2d_method method) { return method == EBM2D_IMPDIFF ? EBM2D_PARTICLE : EBM2D_WEIGHTED; }

ebm2d_reference ebm2d_reference_of(const ebm2d_plan *plan, const ebm2d_cell *c)
{
    static const char *const names[] = {"reward",          "kl",    "excess",       "particle_reward",
                                        "weighted_reward", "fresh", "fresh_reduced"};
    double v[sizeof names / sizeof *names];
    char setting[64];
    (void)snprintf(setting, sizeof setting, "%s beta %g", ebm2d_group_names[c->group], c->beta);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        v[i] = known_value(&plan->known, setting, ebm2d_method_names[c->method], names[i]);
    return (ebm2d_reference){v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
}

int ebm2d_efficiency_steps(int steps, double out[EBM2D_EFFICIENCY])
{
    static const double published[EBM2D_EFFICIENCY] = {0, 10, 100, 500, 1000, 5000, 10000, 20000, 30000};
    int n = 0;
    while (n < EBM2D_EFFICIENCY && published[n] <= steps) {
        out[n] = published[n];
        n++;
    }
    return n;
}

/* ---------------------------------------------------------------------------- tables */

static void table_row(const ebm2d_page_context *x, const ebm2d_cell *c)
{
    const experiment_mean none = {.mean = NAN};
    char what[96];
    ebm2d_reference r = ebm2d_reference_of(x->plan, c);
    (void)snprintf(what, sizeof what, "%s, %s, beta %g", ebm2d_dataset_names[c->data], ebm2d_half_names[c->half],
                   c->beta);
    page_mark mark[12] = {[3] = PAGE_DIM, [5] = PAGE_DIM, [7] = PAGE_DIM, [11] = PAGE_DIM};
    experiment_cells(x->page, mark, "ssm4m4m4mme4", what, ebm2d_method_names[c->method],
                     ebm2d_cell_mean(x->plan, c, EBM2D_REWARD), r.reward, ebm2d_cell_mean(x->plan, c, EBM2D_KL), r.kl,
                     ebm2d_cell_mean(x->plan, c, EBM2D_EXCESS), r.excess, ebm2d_cell_mean(x->plan, c, EBM2D_PARTICLE),
                     c->method == EBM2D_IMPDIFF ? none : ebm2d_cell_mean(x->plan, c, EBM2D_WEIGHTED),
                     ebm2d_last(c, EBM2D_FRESH), ebm2d_last(c, EBM2D_FRESH_ERROR), r.fresh);
}

static void table(const ebm2d_page_context *x, ebm2d_group group, const char *caption)
{
    experiment_page_table(x->page, caption,
                          "l setting|l method|r E[R]|r known|r KL|r known|r l − l*|r known|r particle reward|"
                          "r weighted reward|r R_fresh|r known");
    for (int i = 0; i < x->plan->cells; i++)
        if (x->plan->cell[i].group == group && x->plan->cell[i].seed == 0) table_row(x, &x->plan->cell[i]);
    page_table_end(x->page);
}

/* The same models by chains of either length: where they disagree, the chains have not forgotten where they began. */
static void reduced_table(const ebm2d_page_context *x)
{
    char caption[160];
    const ebm2d_scale *s = &x->plan->scale;
    (void)snprintf(caption, sizeof caption,
                   "R_fresh of the first seed: %d steps, the last %d averaged; reduced: %d and %d",
                   s->burn_in + s->averaged, s->averaged, s->short_burn_in + s->short_averaged, s->short_averaged);
    experiment_page_table(x->page, caption,
                          "l beta|l method|r E[R]|r R_fresh, full|r R_fresh, reduced|r known (reduced)");
    for (int i = 0; i < x->plan->cells; i++) {
        const ebm2d_cell *c = &x->plan->cell[i];
        if (!c->reduced) continue;
        page_mark mark[6] = {[5] = PAGE_DIM};
        experiment_cells(x->page, mark, "gs4ee4", c->beta, ebm2d_method_names[c->method], ebm2d_last(c, EBM2D_REWARD),
                         ebm2d_last(c, EBM2D_FRESH), ebm2d_last(c, EBM2D_FRESH_ERROR), ebm2d_last(c, EBM2D_SHORT),
                         ebm2d_last(c, EBM2D_SHORT_ERROR), ebm2d_reference_of(x->plan, c).reduced);
    }
    page_table_end(x->page);
}

/* Is the rerun of the published program within three standard deviations of our seeds? */
static void agreement(const ebm2d_page_context *x)
{
    static const ebm2d_value values[] = {EBM2D_REWARD, EBM2D_KL, EBM2D_EXCESS};
    static const char *const names[] = {"E[R]", "KL", "l − l*"};
    if (!x->f->published || !x->plan->scale.paper || x->plan->scale.seeds < 2) return;
    page_subheading(x->page, "From the published weights");
    page_paragraph(
        x->page,
        "The circles network is the published one, so the values of the rerun of the published program, "
        "which has a single seed and initial particles of its own, should lie within three standard deviations "
        "of our seeds. From %d seeds that standard deviation is itself %s.",
        x->plan->scale.seeds, x->plan->scale.seeds < 5 ? "little more than a guess" : "a rough one");
    experiment_page_table(x->page, NULL,
                          "l method|l value|r ours|r standard deviation of seeds|r rerun|r standard deviations apart");
    for (int m = 0; m < PAPER; m++)
        for (int v = 0; v < 3; v++) {
            const ebm2d_cell *c = ebm2d_trial(x->plan, m, 0);
            ebm2d_reference r = ebm2d_reference_of(x->plan, c);
            experiment_mean ours = ebm2d_cell_mean(x->plan, c, values[v]);
            double known = v == 0 ? r.reward : v == 1 ? r.kl : r.excess, apart = fabs(ours.mean - known) / ours.sd;
            page_mark mark[6] = {[5] = apart <= 3 ? PAGE_PLAIN : PAGE_WARN};
            experiment_cells(x->page, mark, "ss4441", ebm2d_method_names[m], names[v], ours.mean, ours.sd, known,
                             apart);
        }
    page_table_end(x->page);
}

static void facts(const ebm2d_page_context *x)
{
    enum { FACTS = EBM2D_METHODS + 1 };
    static const char *const names[FACTS] = {"l − l*, ImpDiff", "l − l*, SOSMC-ULA", "l − l*, tempered start",
                                             "l − l*, sosmc tune --kernel rwm", "−l*, the best there is"};
    char t[FACTS][64];
    page_fact fact[FACTS];
    for (int i = 0; i < FACTS; i++) {
        const ebm2d_cell *c = ebm2d_trial(x->plan, i < EBM2D_METHODS ? i : EBM2D_SOSMC, 0);
        double value = !c ? NAN : i < EBM2D_METHODS ? ebm2d_cell_mean(x->plan, c, EBM2D_EXCESS).mean : -c->best_loss;
        fact[i] = (page_fact){experiment_with_error(value, NAN, t[i]), names[i]};
    }
    page_facts(x->page, fact, FACTS);
}

/* ---------------------------------------------------------------------------- training */

static const char *in_millions(double evaluations, char out[64])
{
    if (isnan(evaluations)) return "";
    (void)snprintf(out, 64, "%.3g million", evaluations / 1e6);
    return out;
}

static void training_rows(const ebm2d_page_context *x, int d)
{
    const ebm2d_training *t = &x->f->training[d];
    for (int m = 0; m < EBM2D_TRAININGS; m++) {
        const ebm2d_likelihood *l = &t->of[m];
        char cost[64];
        int weights = m == EBM2D_WEIGHTS, better = l->loglik > t->of[!m].loglik;
        page_mark mark[8] = {[2] = better ? PAGE_STRONG : PAGE_PLAIN, [3] = PAGE_DIM};
        experiment_cells(x->page, mark, "ss44s440", ebm2d_dataset_names[d], ebm2d_training_names[m], l->loglik,
                         t->bound, in_millions(l->evaluations, cost), weights ? t->running : NAN,
                         weights ? t->logz_error : NAN, weights ? t->seconds : NAN);
    }
}

static void training_table(const ebm2d_page_context *x)
{
    char verdict[256];
    page_heading(x->page, "Training");
    page_paragraph(
        x->page,
        "The pre-trained networks come from persistent contrastive divergence; beside each stands a network of the same "
        "shape over a Gaussian base, trained with weighted particles (train/NAME-weighted). Both are scored by the mean "
        "log-density of the %lld training points, log Z by quadrature, in nats; the bound is that of the law the points "
        "were drawn from, on the same points.",
        (long long)x->plan->recipe[EBM2D_CIRCLES].points);
    page_paragraph(
        x->page,
        "The running estimate is a diagnostic: the log-likelihood of the last mini-batch by the particles' own log Z, and the "
        "column behind it tells how far this log Z is above the exact one. No number of this page is a judged one.");
    experiment_page_table(x->page, NULL,
                          "l data set|l method|r exact log-likelihood|r bound|r network evaluations|r running estimate|"
                          "r log Z, error|r seconds");
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (x->f->training[d].made) training_rows(x, d);
    page_table_end(x->page);
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (x->f->training[d].made)
            page_paragraph(x->page, "%s",
                           ebm2d_training_verdict(&x->f->training[d], (ebm2d_dataset)d, verdict, sizeof verdict));
}

static void ring_table(const ebm2d_page_context *x)
{
    static const char *const names[EBM2D_STUDIED] = {"ImpDiff, final", "SOSMC-ULA, final", "pre-trained"};
    experiment_page_table(
        x->page, "What the chains see and what there is",
        "l model|r inner ring, exact|r inner ring, chains|r E[R] given inner|r E[R] given outer|r E[R]|"
        "r E[R] with the chains' shares");
    for (int i = EBM2D_STUDIED - 1; i >= 0; i--) {
        const ebm2d_masses *m = &x->f->masses[i];
        const ebm2d_sample *s = &x->f->sample[i];
        double share = ebm2d_inner_share(&s->snapshot[2 * (size_t)(s->snapshots - 1) * (size_t)s->chains], s->chains);
        experiment_cells(x->page, NULL, "s444444", names[i], m->inner, share, m->reward_inner, m->reward_outer,
                         m->reward, share * m->reward_inner + (1 - share) * m->reward_outer);
    }
    page_table_end(x->page);
    page_paragraph(
        x->page,
        "The initial particles of the tuning runs share the fault: by chains, %.4f of them are on the inner ring "
        "and %.4f in H; by tempering (the start of sosmc tune --kernel rwm) %.4f and %.4f; exact are %.4f and %.4f.",
        x->f->start_inner[0], x->f->start_reward[0], x->f->start_inner[1], x->f->start_reward[1],
        x->f->masses[EBM2D_PRETRAINED].inner, x->f->masses[EBM2D_PRETRAINED].reward);
}

/* ---------------------------------------------------------------------------- the page */

static int tuning_figures(const ebm2d_page_context *x)
{
    page_heading(x->page, "The illustrative trial");
    if (ebm2d_page_trial(x)) return -1;
    if (!x->plan->scale.full) return 0;
    page_heading(x->page, "Sweep over beta");
    return ebm2d_page_sweep(x);
}

static int chain_figures(const ebm2d_page_context *x)
{
    page_heading(x->page, "Chains on the tuned models");
    if (ebm2d_page_efficiency(x) || ebm2d_page_hitting(x) || ebm2d_page_paths(x)) return -1;
    page_heading(x->page, "Why R_fresh is not E[R]");
    page_paragraph(
        x->page,
        "The barrier between the rings is far too high for Langevin steps: a chain stays on the ring that it fell "
        "onto. The share of chains on either ring is decided by the box they start from, not by the model. The "
        "last column puts the exact rewards of the rings together with the chains' shares: that is what R_fresh "
        "measures.");
    ring_table(x);
    return ebm2d_page_rings(x);
}

static void introduce(const ebm2d_page_context *x)
{
    const ebm2d_scale *s = &x->plan->scale;
    page_paragraph(
        x->page,
        "A pre-trained energy network is tuned towards a half-plane H under a leash: minimise l = −E[R] + beta "
        "KL(pi_theta || pi_0), R = 1 on H. Every E[R], KL and l here is exact, by quadrature on a lattice of %d × %d "
        "nodes; l* is the least value that any density has, so l − l* ≥ 0 is the score. R_fresh is the paper's: "
        "%d chains of %d steps from uniform points, averaged over the last %d.",
        s->nodes, s->nodes, s->fresh_chains, s->burn_in + s->averaged, s->averaged);
    page_paragraph(
        x->page,
        "The trial and the sweep over beta run on circles. The paper's text says two moons for the trial; but the run that its "
        "authors published, its stored results and all its plots are of circles, and no tuning on two moons is "
        "published that could be compared.%s",
        s->full ? "" : " The other data sets belong to --full.");
    page_paragraph(
        x->page,
        "Values belong to the last evaluation, ± is a standard error over seeds (R_fresh: over chains, of the first "
        "seed). The seeds of a setting share their initial particles, whose own error is not in it. The columns headed "
        "“known” hold exact values from a rerun of the published program for the trial, "
        "the printed ones for the sweep and for R_fresh. Models: %s.",
        x->f->models);
    if (!x->f->published)
        page_note(x->page,
                  "Known values belong to the published networks. The circles network used here is another one, with "
                  "its own pi_0(H), pi*(H) and l*: compare methods by l − l*, not with those columns.");
    if (!s->paper)
        page_note(x->page,
                  "This is a small version, with fewer particles and iterations than the paper; a claim that is not "
                  "seen here may well hold.");
}

static int fill(const ebm2d_page_context *x)
{
    introduce(x);
    facts(x);
    claims_page(x->page, x->f->claim, EBM2D_CLAIMS);
    page_heading(x->page, "Tables");
    table(x, EBM2D_TRIAL, "Illustrative trial");
    agreement(x);
    if (x->plan->scale.full) {
        table(x, EBM2D_SWEEP, "Sweep over beta");
        reduced_table(x);
        table(x, EBM2D_PAIR, "The other pairs of data set and half-plane, one seed");
    }
    if (!x->at.plots) {
        page_note(x->page, "%s", x->at.no_plots);
        training_table(x);
        ring_table(x);
        return 0;
    }
    page_heading(x->page, "Data sets and models");
    if (ebm2d_page_models(x)) return -1;
    training_table(x);
    return ebm2d_page_training(x) || tuning_figures(x) || chain_figures(x) ? -1 : 0;
}

int ebm2d_write_page(const ebm2d_findings *f, char *error, size_t room)
{
    char subtitle[160];
    const ebm2d_scale *s = &f->plan->scale;
    ebm2d_page_context x = {.f = f, .plan = f->plan};
    (void)snprintf(subtitle, sizeof subtitle, "N = %d particles, %d iterations%s, %d seeds", s->particles,
                   s->trial_iterations, s->full ? " (sweep: more)" : "", s->seeds);
    if (experiment_page_begin(&x.at, f->plan->out, "Reward tuning of energy-based models in the plane", subtitle, error,
                              room))
        return -1;
    x.page = x.at.page;
    return experiment_page_end(&x.at, fill(&x), "report.html");
}
