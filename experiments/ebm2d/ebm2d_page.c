/* ebm2d_page.c: the page of the 2-D energy-based experiment: verdicts, tables beside the known values, every figure.
 *
 * Nothing is computed here but means and differences; values belong to circles and the lower half-plane unless they say
 * otherwise. A figure whose data were not made at this size of the experiment is left out. */
#include "ebm2d_page_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/plot.h"

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

static experiment_mean over_seeds(const ebm2d_page_context *x, const ebm2d_cell *c, ebm2d_value value)
{
    return ebm2d_over_seeds(x->plan, c->group, c->data, c->half, c->beta, c->method, value);
}

static const char *plain(double value, char out[64]) { return experiment_with_error(value, NAN, out); }

static const char *of_mean(experiment_mean m, char out[64]) { return experiment_with_error(m.mean, m.error, out); }

static void table_row(const ebm2d_page_context *x, const ebm2d_cell *c)
{
    char what[96], t[10][64];
    ebm2d_reference r = ebm2d_reference_of(x->plan, c);
    (void)snprintf(what, sizeof what, "%s, %s, beta %g", ebm2d_dataset_names[c->data], ebm2d_half_names[c->half],
                   c->beta);
    const char *row[] = {what,
                         ebm2d_method_names[c->method],
                         of_mean(over_seeds(x, c, EBM2D_REWARD), t[0]),
                         plain(r.reward, t[1]),
                         of_mean(over_seeds(x, c, EBM2D_KL), t[2]),
                         plain(r.kl, t[3]),
                         of_mean(over_seeds(x, c, EBM2D_EXCESS), t[4]),
                         plain(r.excess, t[5]),
                         of_mean(over_seeds(x, c, EBM2D_PARTICLE), t[6]),
                         c->method == EBM2D_IMPDIFF ? "" : of_mean(over_seeds(x, c, EBM2D_WEIGHTED), t[7]),
                         experiment_with_error(ebm2d_last(c, EBM2D_FRESH), ebm2d_last(c, EBM2D_FRESH_ERROR), t[8]),
                         plain(r.fresh, t[9])};
    page_mark mark[12] = {[3] = PAGE_DIM, [5] = PAGE_DIM, [7] = PAGE_DIM, [11] = PAGE_DIM};
    page_row(x->page, row, mark);
}

static void table(const ebm2d_page_context *x, ebm2d_group group, const char *caption)
{
    const char *head[] = {"setting",         "method",          "E[R]",    "known", "KL", "known", "l − l*", "known",
                          "particle reward", "weighted reward", "R_fresh", "known", NULL};
    page_table(x->page, caption, "llrrrrrrrrrr", head);
    for (int i = 0; i < x->plan->cells; i++)
        if (x->plan->cell[i].group == group && x->plan->cell[i].seed == 0) table_row(x, &x->plan->cell[i]);
    page_table_end(x->page);
}

/* The same models by chains of either length: where they disagree, the chains have not forgotten where they began. */
static void reduced_table(const ebm2d_page_context *x)
{
    const char *head[] = {"beta", "method", "E[R]", "R_fresh, full", "R_fresh, reduced", "known (reduced)", NULL};
    char caption[160], t[5][64];
    const ebm2d_scale *s = &x->plan->scale;
    (void)snprintf(caption, sizeof caption,
                   "R_fresh of the first seed: %d steps, the last %d averaged; reduced: %d and %d",
                   s->burn_in + s->averaged, s->averaged, s->short_burn_in + s->short_averaged, s->short_averaged);
    page_table(x->page, caption, "llrrrr", head);
    for (int i = 0; i < x->plan->cells; i++) {
        const ebm2d_cell *c = &x->plan->cell[i];
        if (!c->reduced) continue;
        (void)snprintf(t[0], sizeof t[0], "%g", c->beta);
        const char *row[] = {t[0],
                             ebm2d_method_names[c->method],
                             plain(ebm2d_last(c, EBM2D_REWARD), t[1]),
                             experiment_with_error(ebm2d_last(c, EBM2D_FRESH), ebm2d_last(c, EBM2D_FRESH_ERROR), t[2]),
                             experiment_with_error(ebm2d_last(c, EBM2D_SHORT), ebm2d_last(c, EBM2D_SHORT_ERROR), t[3]),
                             plain(ebm2d_reference_of(x->plan, c).reduced, t[4])};
        page_mark mark[6] = {[5] = PAGE_DIM};
        page_row(x->page, row, mark);
    }
    page_table_end(x->page);
}

/* Is the rerun of the published program within three standard deviations of our seeds? */
static void agreement(const ebm2d_page_context *x)
{
    static const ebm2d_value values[] = {EBM2D_REWARD, EBM2D_KL, EBM2D_EXCESS};
    static const char *const names[] = {"E[R]", "KL", "l − l*"};
    const char *head[] = {
        "method", "value", "ours", "standard deviation of seeds", "rerun", "standard deviations apart", NULL};
    if (!x->f->published || !x->plan->scale.paper || x->plan->scale.seeds < 2) return;
    page_subheading(x->page, "From the published weights");
    page_paragraph(
        x->page,
        "The circles network is the published one, so the values of the rerun of the published program, "
        "which has a single seed and initial particles of its own, should lie within three standard deviations "
        "of our seeds. From %d seeds that standard deviation is itself %s.",
        x->plan->scale.seeds, x->plan->scale.seeds < 5 ? "little more than a guess" : "a rough one");
    page_table(x->page, NULL, "llrrrr", head);
    for (int m = 0; m < PAPER; m++)
        for (int v = 0; v < 3; v++) {
            const ebm2d_cell *c = ebm2d_find(x->plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA,
                                             (ebm2d_method)m, 0);
            ebm2d_reference r = ebm2d_reference_of(x->plan, c);
            experiment_mean ours = over_seeds(x, c, values[v]);
            double known = v == 0 ? r.reward : v == 1 ? r.kl : r.excess, apart = fabs(ours.mean - known) / ours.sd;
            char t[4][64];
            (void)snprintf(t[3], sizeof t[3], "%.1f", apart);
            const char *row[] = {ebm2d_method_names[m], names[v],           plain(ours.mean, t[0]),
                                 plain(ours.sd, t[1]),  plain(known, t[2]), t[3]};
            page_mark mark[6] = {[5] = apart <= 3 ? PAGE_PLAIN : PAGE_WARN};
            page_row(x->page, row, mark);
        }
    page_table_end(x->page);
}

static void facts(const ebm2d_page_context *x)
{
    char t[5][64];
    const ebm2d_cell *c = ebm2d_find(x->plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, EBM2D_SOSMC,
                                     0);
    experiment_mean m[EBM2D_METHODS];
    for (int i = 0; i < EBM2D_METHODS; i++)
        m[i] = ebm2d_over_seeds(x->plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, (ebm2d_method)i,
                                EBM2D_EXCESS);
    page_fact fact[] = {{plain(m[EBM2D_IMPDIFF].mean, t[0]), "l − l*, ImpDiff"},
                        {plain(m[EBM2D_SOSMC].mean, t[1]), "l − l*, SOSMC-ULA"},
                        {plain(m[EBM2D_TEMPERED].mean, t[2]), "l − l*, tempered start"},
                        {plain(m[EBM2D_OURS].mean, t[3]), "l − l*, sosmc tune"},
                        {plain(c ? -c->best_loss : NAN, t[4]), "−l*, the best there is"}};
    page_facts(x->page, fact, sizeof fact / sizeof *fact);
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
        char c[6][64];
        int weights = m == EBM2D_WEIGHTS, better = l->loglik > t->of[!m].loglik;
        (void)snprintf(c[5], sizeof c[5], "%.0f", t->seconds);
        const char *row[] = {ebm2d_dataset_names[d],
                             ebm2d_training_names[m],
                             plain(l->loglik, c[0]),
                             plain(t->bound, c[1]),
                             in_millions(l->evaluations, c[2]),
                             weights ? plain(t->running, c[3]) : "",
                             weights ? plain(t->logz_error, c[4]) : "",
                             weights && !isnan(t->seconds) ? c[5] : ""};
        page_mark mark[8] = {[2] = better ? PAGE_STRONG : PAGE_PLAIN, [3] = PAGE_DIM};
        page_row(x->page, row, mark);
    }
}

static void training_table(const ebm2d_page_context *x)
{
    const char *head[] = {"data set",
                          "method",
                          "exact log-likelihood",
                          "bound",
                          "network evaluations",
                          "running estimate",
                          "log Z, error",
                          "seconds",
                          NULL};
    char verdict[256];
    page_heading(x->page, "Training");
    page_paragraph(
        x->page,
        "The pre-trained networks come from persistent contrastive divergence; beside each stands a network of the same "
        "shape over a Gaussian base, trained with weighted particles (train/NAME-weighted). Both are scored by the mean "
        "log-density of the %lld training points, log Z by quadrature, in nats; the bound is that of the law the points "
        "were drawn from, on the same points.",
        (long long)ebm2d_recipe(EBM2D_CIRCLES)->points);
    page_paragraph(
        x->page,
        "The running estimate is a diagnostic: the log-likelihood of the last mini-batch by the particles' own log Z, and the "
        "column behind it tells how far this log Z is above the exact one. No number of this page is a judged one.");
    page_table(x->page, NULL, "llrrrrrr", head);
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
    const char *head[] = {"model",
                          "inner ring, exact",
                          "inner ring, chains",
                          "E[R] given inner",
                          "E[R] given outer",
                          "E[R]",
                          "E[R] with the chains' shares",
                          NULL};
    page_table(x->page, "What the chains see and what there is", "lrrrrrr", head);
    for (int i = EBM2D_STUDIED - 1; i >= 0; i--) {
        const ebm2d_masses *m = &x->f->masses[i];
        const ebm2d_sample *s = &x->f->sample[i];
        double share = ebm2d_inner_share(&s->snapshot[2 * (size_t)(s->snapshots - 1) * (size_t)s->chains], s->chains);
        char t[6][64];
        const char *row[] = {names[i],
                             plain(m->inner, t[0]),
                             plain(share, t[1]),
                             plain(m->reward_inner, t[2]),
                             plain(m->reward_outer, t[3]),
                             plain(m->reward, t[4]),
                             plain(share * m->reward_inner + (1 - share) * m->reward_outer, t[5])};
        page_row(x->page, row, NULL);
    }
    page_table_end(x->page);
    page_paragraph(
        x->page,
        "The initial particles of the tuning runs share the fault: by chains, %.4f of them are on the inner ring "
        "and %.4f in H; by tempering (the start of sosmc tune) %.4f and %.4f; exact are %.4f and %.4f.",
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
    if (!plot_available()) {
        page_note(x->page, "%s", PLOT_ADVICE);
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
    char path[FILES_PATH], subtitle[160];
    const ebm2d_scale *s = &f->plan->scale;
    ebm2d_page_context x = {.f = f, .plan = f->plan, .error = error, .room = room};
    (void)snprintf(subtitle, sizeof subtitle, "N = %d particles, %d iterations%s, %d seeds", s->particles,
                   s->trial_iterations, s->full ? " (sweep: more)" : "", s->seeds);
    if (files_join(path, f->plan->out, "report.html", error, room) ||
        files_join(x.figures, f->plan->out, "figures", error, room))
        return -1;
    x.page = page_new("Reward tuning of energy-based models in the plane", subtitle);
    int rc = fill(&x);
    if (rc == 0) rc = page_write(x.page, path, error, room);
    page_free(x.page);
    return rc;
}
