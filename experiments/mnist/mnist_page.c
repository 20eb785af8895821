/* mnist_page.c: the page of the experiment with pictures: verdicts, tables beside the recorded values, every figure.
 *
 * Nothing is computed here. Recorded values belong to the published checkpoint; with another network the page says so and
 * compares nothing. A figure whose cells were not run at this size is left out. */
#include "mnist_page.h"

#include <math.h>

#include "mnist_figures.h"
#include "mnist_record.h"

typedef struct {
    const mnist_results *r;
    const mnist_findings *f;
    const mnist_plan *plan;
    experiment_page at;
    page *page; /* of `at` */
} context;

/* ---------------------------------------------------------------------------- figures */

static int all_curves(const context *x, const mnist_panel *panel, int panels, const char *name)
{
    static const char *const words[MNIST_CURVE_KINDS] = {"fresh", "particles", "ess", "deviation"};
    static const char *const captions[MNIST_CURVE_KINDS] = {
        "Fresh reward after the update of each evaluated iteration, with bars of 1.96 standard errors over chains.",
        "Reward of the particles during tuning. It says nothing about the model: the particles diffuse.",
        "Effective sample size as a share of the particles.",
        "Standard deviation of all pixel values of the particles, and that of a free random walk with the same noise."};
    for (int i = 0; i < MNIST_CURVE_KINDS; i++) {
        arena memory = {0};
        char file[96];
        (void)snprintf(file, sizeof file, "%s-%s", name, words[i]);
        plot_figure f = mnist_draw_curves(&memory, (mnist_curve)i, panel, panels, x->f->published ? x->plan : NULL,
                                          file);
        if (experiment_figure(&x->at, &memory, f, NULL, captions[i])) return -1;
    }
    return 0;
}

/* Both methods at one reward of a group; returns how many there are. */
static int methods_of(const context *x, mnist_group group, mnist_reward reward, const mnist_cell *out[MNIST_METHODS])
{
    int n = 0;
    const mnist_cell *cell[MNIST_CELLS];
    int all = mnist_group_cells(x->plan, group, cell);
    for (int i = all - 1; i >= 0 && n < MNIST_METHODS; i--) /* of several settings, the one with the least noise */
        if (cell[i]->reward == reward) out[n++] = cell[i];
    if (n == 2) {
        const mnist_cell *last = out[0];
        out[0] = out[1];
        out[1] = last;
    }
    return n;
}

static int trajectories(const context *x, mnist_group group, mnist_reward reward)
{
    const mnist_cell *cell[MNIST_METHODS];
    int n = methods_of(x, group, reward, cell);
    char name[64], caption[400], at[MNIST_NAME];
    if (n == 0) return 0;
    (void)snprintf(name, sizeof name, "trajectories-%s", mnist_reward_names[reward]);
    if (mnist_draw_trajectories(x->f, cell, n, reward, at, x->at.figures, name, x->at.error, x->at.room)) return -1;
    (void)snprintf(
        caption, sizeof caption,
        "Sampling trajectories, %s: rows pre-trained%s%s%s%s; one sample of the pre-trained model, followed by the "
        "sampler under each model with the same noise. Columns: steps %s.",
        mnist_reward_names[reward], n > 0 ? ", " : "", n > 0 ? mnist_method_names[cell[0]->method] : "",
        n > 1 ? ", " : "", n > 1 ? mnist_method_names[cell[1]->method] : "", at);
    experiment_picture(&x->at, name, caption);
    return 0;
}

static int grids(const context *x, const mnist_cell *c)
{
    const mnist_finding *f = mnist_finding_of(x->f, c);
    char words[MNIST_NAME], name[MNIST_NAME + 16], caption[320], what[128];
    mnist_cell_name(c, words, sizeof words);
    (void)snprintf(name, sizeof name, "grid-%s", words);
    if (mnist_draw_grid(f->base, &f->sample, x->at.figures, name, x->at.error, x->at.room)) return -1;
    (void)snprintf(caption, sizeof caption,
                   "%s, %s: 32 samples of the pre-trained model over 32 of the tuned one, from the same noise.",
                   mnist_setting_words(c, what, sizeof what), mnist_method_names[c->method]);
    experiment_picture(&x->at, name, caption);
    return 0;
}

static int across_beta(const context *x, mnist_group group, mnist_reward reward)
{
    const mnist_cell *cell[MNIST_BETAS];
    char name[64], caption[240];
    int n = 0;
    for (int b = 0; b < MNIST_BETAS; b++)
        if ((cell[n] = mnist_find(x->plan, group, reward, mnist_betas[b], MNIST_SOSMC))) n++;
    if (n == 0) return 0;
    (void)snprintf(name, sizeof name, "beta-%s-%s", mnist_group_names[group], mnist_reward_names[reward]);
    if (mnist_draw_samples(x->f, cell, n, reward, x->at.figures, name, x->at.error, x->at.room)) return -1;
    (void)snprintf(
        caption, sizeof caption,
        "%s: eight samples under the pre-trained model (first row) and under models tuned by SOSMC-ULA with beta 5, "
        "2, 1, 0.5, same starts and noise.",
        mnist_reward_names[reward]);
    experiment_picture(&x->at, name, caption);
    return 0;
}

/* ---------------------------------------------------------------------------- sections */

static int pair_figures(const context *x, mnist_group group)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(x->plan, group, cell), panels = 0;
    mnist_panel panel[MNIST_REWARDS] = {{.title = NULL}};
    for (int r = 0; r < MNIST_REWARDS; r++) {
        const mnist_cell *both[MNIST_METHODS];
        int found = methods_of(x, group, (mnist_reward)r, both);
        if (found == 0) continue;
        panel[panels].title = mnist_reward_names[r];
        for (int i = 0; i < found; i++) panel[panels].cell[both[i]->method] = both[i];
        panels++;
    }
    if (trajectories(x, group, MNIST_HALF) || trajectories(x, group, MNIST_BRIGHT)) return -1;
    for (int i = 0; i < n; i++)
        if (grids(x, cell[i])) return -1;
    return all_curves(x, panel, panels, mnist_group_names[group]);
}

static int sweep_figures(const context *x, mnist_group group)
{
    static const char *const titles[MNIST_BETAS] = {"beta = 5", "beta = 2", "beta = 1", "beta = 0.5"};
    for (int r = 0; r < MNIST_REWARDS; r++) {
        mnist_panel panel[MNIST_BETAS] = {{.title = NULL}};
        char name[64];
        page_subheading(x->page, mnist_reward_names[r]);
        for (int b = 0; b < MNIST_BETAS; b++) {
            panel[b].title = titles[b];
            for (int m = 0; m < MNIST_METHODS; m++)
                panel[b].cell[m] = mnist_find(x->plan, group, (mnist_reward)r, mnist_betas[b], (mnist_method)m);
        }
        (void)snprintf(name, sizeof name, "%s-%s", mnist_group_names[group], mnist_reward_names[r]);
        if (across_beta(x, group, (mnist_reward)r) || all_curves(x, panel, MNIST_BETAS, name)) return -1;
    }
    return 0;
}

static int better_figures(const context *x)
{
    const mnist_cell *cell[MNIST_CELLS];
    int n = mnist_group_cells(x->plan, MNIST_BETTER, cell);
    for (int i = 0; i < n; i++)
        if (grids(x, cell[i])) return -1;
    return 0;
}

static int section(const context *x, mnist_group group, const char *heading, const char *words)
{
    if (!mnist_has_group(x->plan, group)) return 0;
    page_heading(x->page, heading);
    page_paragraph(x->page, "%s", words);
    mnist_page_rewards(x->page, x->f, group);
    if (group == MNIST_SWEEP && x->f->published) mnist_page_agreement(x->page, x->f);
    mnist_page_samples(x->page, x->f, group);
    mnist_page_particles(x->page, x->f, group);
    return group == MNIST_BETTER                          ? better_figures(x)
           : group == MNIST_SWEEP || group == MNIST_PAPER ? sweep_figures(x, group)
                                                          : pair_figures(x, group);
}

static void introduce(const context *x)
{
    page_paragraph(
        x->page,
        "A pre-trained convolutional energy model of MNIST digits is tuned towards a reward under a leash: minimise l = −E[R] + "
        "beta KL(pi_theta || pi_0). R is the mean of all pixels (bright), minus it (dark), or the lower half against the upper "
        "half. A fresh reward is the mean over chains of the pre-training sampler from uniform noise; before and after share "
        "starts and noise, so gains are taken chain by chain. ± is a standard error over the %d chains of a recorded mean, "
        "intervals are over all chains; neither holds the variance of tuning from run to run, which is a share of %.2f of the "
        "gain by what two runs of the published program differ in.",
        (int)MNIST_FEW, mnist_run_spread(x->plan));
    page_paragraph(
        x->page,
        "KL and l come from the running log Z of the weighted particles. They are approximate: they take the start for a sample "
        "of pi_0, which it is not. Spread is that of the samples among themselves, as a share of that of pre-trained samples. "
        "Model: %s.",
        x->plan->model);
    if (!x->f->published)
        page_note(x->page,
                  "The pre-trained model is not the published checkpoint, to which all recorded values and the re-run "
                  "belong. They stand in the tables for orientation; nothing is compared with them.");
    if (x->plan->scale.reduced)
        page_note(x->page,
                  "This is the reduced scale: 128 particles and 300 updates. A claim that is not seen here may well "
                  "hold.");
    if (!x->at.plots) page_note(x->page, "%s", x->at.no_plots);
}

/* Writes the section on what the numbers of the particles mean. */
static void explain_particles(const context *x)
{
    page_heading(x->page, "What the particles do");
    page_paragraph(
        x->page,
        "The gradient of the energy at a digit has a norm of about 0.02, so a Langevin step of this size moves a picture by "
        "1e-4 where its noise moves it by about 2. The particles are nearly a free random walk: the standard deviation of "
        "their pixels follows that of the walk in the figures below, whatever the reward and beta, and they leave [−1, 1]. The "
        "reward path of the particles is therefore the same for all beta and says nothing about the model; weights stay "
        "nearly uniform where s = 1, and the two methods hardly differ. What the tuned model is worth is told by fresh chains "
        "alone.");
    mnist_page_bases(x->page, x->f);
}

static void facts(const context *x)
{
    char t[2][64];
    double least = 1;
    int gains = 0, cells = x->plan->cells;
    for (int i = 0; i < cells; i++) {
        const experiment_mean *g = &x->f->cell[i].gain;
        double ess = mnist_smallest_ess(&x->plan->cell[i]) / x->plan->cell[i].set.particles;
        gains += g->mean > 3 * g->error;
        least = fmin(least, ess);
    }
    (void)snprintf(t[0], sizeof t[0], "%d of %d", gains, cells);
    (void)snprintf(t[1], sizeof t[1], "%.3f", least);
    page_fact fact[] = {{t[0], "cells gain reward"}, {t[1], "least ESS / N of all"}};
    page_facts(x->page, fact, 2);
}

static int fill(const context *x)
{
    introduce(x);
    facts(x);
    claims_page(x->page, x->r->claim, MNIST_CLAIMS);
    explain_particles(x);
    return section(x, MNIST_REDUCED, "Reduced scale",
                   "Settings for which an independent run of the authors' method at this scale is known.") ||
                   section(
                       x, MNIST_BETTER, "Settings where weighting matters and digits survive",
                       "The target is exp(-100 E) and the step a thirtieth, so that the particles are digits to the end and the weights "
                       "do something (the least ESS and the resamplings tell); beta and the rate are smaller accordingly. "
                       "Compared at the same beta the weighted method holds the digits better and gains less; compared at "
                       "the same gain, it does not differ much from the others (docs/mnist.md has what was tried).") ||
                   section(
                       x, MNIST_PAIR, "The published pairs",
                       "ImpDiff against SOSMC-ULA with the settings of the authors' program, which has a noise scale of 0.1 "
                       "for bright and of 0.4 for half.") ||
                   section(
                       x, MNIST_SWEEP, "Sweeps over beta, the authors' settings",
                       "Rewards as in the authors' program: half without its factor 1/2, dark with one. The authors ran "
                       "SOSMC-ULA for bright and dark; the re-run has half as well.") ||
                   section(
                       x, MNIST_PAPER, "Sweeps over beta, as the paper says",
                       "Rewards on the paper's scale, step 0.005 led by the effective sample size (0.95, factor 1.01, at "
                       "most 0.01), noise scale 1. No recorded values exist for these.")
               ? -1
               : 0;
}

int mnist_write_page(const mnist_results *r, char *error, size_t room)
{
    char subtitle[160];
    const mnist_plan *plan = r->found->plan;
    context x = {.r = r, .f = r->found, .plan = plan};
    (void)snprintf(subtitle, sizeof subtitle, "%d tuning runs%s", plan->cells,
                   plan->scale.reduced ? ", reduced scale"
                   : plan->scale.full  ? ", all of the published sizes"
                                       : "");
    if (experiment_page_begin(&x.at, plan->out, "Reward tuning of an energy model of digits", subtitle, error, room))
        return -1;
    x.page = x.at.page;
    return experiment_page_end(&x.at, fill(&x), "report.html");
}
