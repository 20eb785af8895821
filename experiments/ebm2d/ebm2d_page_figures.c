/* ebm2d_page_figures.c: the figures on the page of the 2-D energy-based experiment, each from what its cells and chains left. */
#include "ebm2d_page_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ebm2d_figures.h"

enum { PAPER = EBM2D_PAPER_METHODS };

/* ---------------------------------------------------------------------------- curves of several seeds */

/* y of an ebm2d_curve or ebm2d_path: seed after seed, n values each. */
typedef struct {
    int n, seeds;
    double *x, *y;
} gathered;

static gathered gather(const ebm2d_plan *plan, const ebm2d_cell *like, int series, int which)
{
    gathered g = {.n = -1};
    for (int seed = 0; like && seed < plan->scale.seeds; seed++) {
        const ebm2d_cell *c = ebm2d_find(plan, like->group, like->data, like->half, like->beta, like->method, seed);
        int n = c ? (series ? c->steps : c->evaluations) : 0;
        const double *y = c ? (series ? c->series[which] : c->value[which]) : NULL;
        if (n < 1 || isnan(y[n - 1])) continue; /* R_fresh belongs to the first seed alone */
        if (g.n < 0) {
            g.n = n;
            g.x = malloc((size_t)n * sizeof(double));
            g.y = malloc((size_t)n * (size_t)plan->scale.seeds * sizeof(double));
            if (!g.x || !g.y) break;
            memcpy(g.x, series ? c->series[EBM2D_STEP] : c->value[EBM2D_K], (size_t)n * sizeof(double));
        }
        if (n == g.n) memcpy(g.y + (size_t)g.n * (size_t)g.seeds++, y, (size_t)n * sizeof(double));
    }
    if (g.n < 0 || !g.x || !g.y) g.n = 0;
    return g;
}

static void free_gathered(gathered *g, int n)
{
    for (int i = 0; i < n; i++) {
        free(g[i].x);
        free(g[i].y);
    }
}

static ebm2d_curve curve_of(const gathered *g)
{
    return (ebm2d_curve){.n = g->n, .seeds = g->seeds, .x = g->x, .y = g->y};
}

static const ebm2d_cell *first_of(const ebm2d_plan *plan, ebm2d_group group, double beta, int method)
{
    return ebm2d_find(plan, group, EBM2D_CIRCLES, EBM2D_LOWER, beta, (ebm2d_method)method, 0);
}

/* Into the page, with what its drawing returned. */
static int show(const ebm2d_page_context *x, int rc, char *svg, const char *name, const char *alt, const char *caption)
{
    char stem[96];
    (void)snprintf(stem, sizeof stem, "figures/%s", name);
    if (rc == 0) page_figure(x->page, svg, alt, caption, stem);
    free(svg);
    return rc;
}

/* ---------------------------------------------------------------------------- the trial and the sweep */

/* (reward, KL) with the exact reward or with either kind of R_fresh, a panel per beta. */
static int trajectories(const ebm2d_page_context *x, ebm2d_group group, ebm2d_value reward, const char *name,
                        const char *what, const char *caption)
{
    int betas = group == EBM2D_SWEEP ? 4 : 1; /* the paper leaves the largest out */
    int methods = group == EBM2D_SWEEP || reward != EBM2D_REWARD ? PAPER : EBM2D_METHODS;
    gathered all[2 * 4 * EBM2D_METHODS];
    ebm2d_path path[4 * EBM2D_METHODS];
    ebm2d_trajectory panel[4];
    char *svg = NULL;
    int used = 0;
    for (int b = 0; b < betas; b++) {
        double beta = group == EBM2D_SWEEP ? ebm2d_betas[b] : EBM2D_TRIAL_BETA;
        const ebm2d_cell *any = first_of(x->plan, group, beta, EBM2D_SOSMC);
        for (int m = 0; m < methods; m++) {
            const ebm2d_cell *c = first_of(x->plan, group, beta, m);
            all[used] = gather(x->plan, c, 0, (int)reward);
            all[used + 1] = gather(x->plan, c, 0, EBM2D_KL);
            int seeds = all[used].seeds < all[used + 1].seeds ? all[used].seeds : all[used + 1].seeds;
            path[b * methods + m] = (ebm2d_path){
                .n = all[used].n, .seeds = seeds, .reward = all[used].y, .kl = all[used + 1].y};
            used += 2;
        }
        panel[b] = (ebm2d_trajectory){.beta = beta,
                                      .path = &path[b * methods],
                                      .optimum_reward = any ? any->best_reward : NAN,
                                      .optimum_kl = any ? any->best_kl : NAN};
    }
    ebm2d_trajectories f = {.reward = what,
                            .methods = methods,
                            .panels = betas,
                            .columns = betas > 1 ? 2 : 1,
                            .method = ebm2d_method_names,
                            .ringed = EBM2D_IMPDIFF,
                            .panel = panel};
    int rc = ebm2d_draw_trajectories(&f, x->figures, name, &svg, x->error, x->room);
    free_gathered(all, used);
    return show(x, rc, svg, name, "Tuning trajectories in the plane of reward and divergence", caption);
}

/* How EBM2D_SPLIT shows on an axis. */
#define ITERATIONS_OF_TUNE "An iteration of the axis is ten of sosmc tune, each with two fifths of the particles."
_Static_assert(EBM2D_SPLIT == 10, "the sentence says ten");

static int rewards(const ebm2d_page_context *x)
{
    gathered all[4 * EBM2D_METHODS];
    ebm2d_curve particle[EBM2D_METHODS], weighted[EBM2D_METHODS], fresh[EBM2D_METHODS], exact[EBM2D_METHODS];
    const ebm2d_cell *any = first_of(x->plan, EBM2D_TRIAL, EBM2D_TRIAL_BETA, EBM2D_SOSMC);
    char *svg = NULL;
    for (int m = 0; m < EBM2D_METHODS; m++) {
        const ebm2d_cell *c = first_of(x->plan, EBM2D_TRIAL, EBM2D_TRIAL_BETA, m);
        int weights = m != EBM2D_IMPDIFF;
        gathered *g = &all[4 * m];
        /* without weights the logged score is the particle reward of every iteration */
        g[0] = weights ? gather(x->plan, c, 0, EBM2D_PARTICLE) : gather(x->plan, c, 1, EBM2D_SCORE);
        g[1] = weights ? gather(x->plan, c, 1, EBM2D_SCORE) : (gathered){.n = 0};
        g[2] = gather(x->plan, c, 0, EBM2D_FRESH);
        g[3] = gather(x->plan, c, 0, EBM2D_REWARD);
        particle[m] = curve_of(&g[0]);
        weighted[m] = curve_of(&g[1]);
        fresh[m] = curve_of(&g[2]);
        exact[m] = curve_of(&g[3]);
    }
    ebm2d_rewards f = {.methods = EBM2D_METHODS,
                       .method = ebm2d_method_names,
                       .particle = particle,
                       .weighted = weighted,
                       .fresh = fresh,
                       .exact = exact,
                       .target = any ? any->best_reward : NAN};
    int rc = ebm2d_draw_rewards(&f, x->figures, "rewards", &svg, x->error, x->room);
    free_gathered(all, 4 * EBM2D_METHODS);
    return show(
        x, rc, svg, "rewards", "Rewards against iteration for each method",
        "Reward by the particles, with weights where there are weights, R_fresh and the exact E[R] against iteration, "
        "with the level pi*(H) of the optimum. " ITERATIONS_OF_TUNE);
}

static int curves(const ebm2d_page_context *x, ebm2d_group group, int series, int which, const char *quantity,
                  const char *name, const char *caption)
{
    int betas = group == EBM2D_SWEEP ? EBM2D_BETAS : 1, methods = group == EBM2D_SWEEP ? PAPER : EBM2D_METHODS;
    gathered all[EBM2D_BETAS * EBM2D_METHODS];
    ebm2d_curve curve[EBM2D_BETAS * EBM2D_METHODS];
    char *svg = NULL;
    for (int b = 0; b < betas; b++)
        for (int m = 0; m < methods; m++) {
            double beta = group == EBM2D_SWEEP ? ebm2d_betas[b] : EBM2D_TRIAL_BETA;
            all[b * methods + m] = gather(x->plan, first_of(x->plan, group, beta, m), series, which);
            curve[b * methods + m] = curve_of(&all[b * methods + m]);
        }
    ebm2d_curves f = {.methods = methods,
                      .panels = betas,
                      .columns = betas > 1 ? 3 : 1,
                      .method = ebm2d_method_names,
                      .beta = betas > 1 ? ebm2d_betas : NULL,
                      .quantity = quantity,
                      .curve = curve};
    int rc = ebm2d_draw_curves(&f, x->figures, name, &svg, x->error, x->room);
    free_gathered(all, betas * methods);
    return show(x, rc, svg, name, quantity, caption);
}

/* ---------------------------------------------------------------------------- chains */

/* Points of a snapshot as a cloud; the memory is one block, x before y. */
static int cloud_of(const ebm2d_sample *s, double step, ebm2d_cloud *out, double **block)
{
    int at = 0, n = s->chains;
    while (at + 1 < s->snapshots && s->at[at] < step) at++;
    const double *from = &s->snapshot[2 * (size_t)at * (size_t)n];
    *block = malloc(2 * (size_t)n * sizeof(double) + 1);
    if (!*block) return -1;
    for (int i = 0; i < n; i++) {
        (*block)[i] = from[2 * i];
        (*block)[n + i] = from[2 * i + 1];
    }
    *out = (ebm2d_cloud){.n = n, .x = *block, .y = *block + n};
    return 0;
}

static int densities(const ebm2d_page_context *x, const ebm2d_densities *like, const ebm2d_sample *const *sample,
                     const char *name, const char *alt, const char *caption)
{
    int panels = like->rows * like->columns, rc = 0;
    ebm2d_cloud *cloud = calloc((size_t)panels + 1, sizeof *cloud);
    double **block = calloc((size_t)panels + 1, sizeof *block);
    char *svg = NULL;
    ebm2d_densities f = *like;
    if (!cloud || !block) rc = files_fail(x->error, x->room, "out of memory");
    for (int i = 0; rc == 0 && i < panels; i++) /* snapshots of one step are the same whatever is asked for */
        if (cloud_of(sample[i], like->column[i % like->columns], &cloud[i], &block[i]))
            rc = files_fail(x->error, x->room, "out of memory");
    f.cloud = cloud;
    if (rc == 0) rc = ebm2d_draw_densities(&f, x->figures, name, &svg, x->error, x->room);
    for (int i = 0; block && i < panels; i++) free(block[i]);
    free(block);
    free(cloud);
    return show(x, rc, svg, name, alt, caption);
}

int ebm2d_page_efficiency(const ebm2d_page_context *x)
{
    double steps[EBM2D_EFFICIENCY];
    const ebm2d_sample *sample[PAPER * EBM2D_EFFICIENCY];
    int n = ebm2d_efficiency_steps(x->plan->scale.study_steps, steps);
    for (int i = 0; i < PAPER * n; i++) sample[i] = &x->f->sample[i / n];
    ebm2d_densities f = {.rows = PAPER, .columns = n, .row = ebm2d_method_names, .quantity = "step", .column = steps};
    return densities(
        x, &f, sample, "efficiency", "Chains on the tuned models after growing numbers of steps",
        "Sampler efficiency: chains from uniform points on the final models of the illustrative trial, with the "
        "same starts and the same noise for both methods.");
}

static int terminal(const ebm2d_page_context *x)
{
    const ebm2d_sample *sample[PAPER * EBM2D_BETAS];
    for (int i = 0; i < PAPER * EBM2D_BETAS; i++) sample[i] = &x->f->terminal[i / EBM2D_BETAS][i % EBM2D_BETAS];
    ebm2d_densities f = {
        .rows = PAPER, .columns = EBM2D_BETAS, .row = ebm2d_method_names, .quantity = "beta =", .column = ebm2d_betas};
    return densities(
        x, &f, sample, "terminal", "Terminal densities for five values of beta",
        "Terminal densities across beta: samples of the final models of the sweep, same starts and noise.");
}

int ebm2d_page_hitting(const ebm2d_page_context *x)
{
    const double *first[PAPER] = {x->f->sample[0].hit, x->f->sample[1].hit};
    char *svg = NULL;
    ebm2d_hitting f = {.methods = PAPER,
                       .chains = x->f->sample[0].chains,
                       .method = ebm2d_method_names,
                       .steps = x->plan->scale.study_steps,
                       .first = first};
    int rc = ebm2d_draw_hitting(&f, x->figures, "hitting", &svg, x->error, x->room);
    return show(x, rc, svg, "hitting", "Share of chains that have reached the half-plane, against step",
                "Hitting times: the share of the chains above whose first visit to H is at step t or before.");
}

int ebm2d_page_paths(const ebm2d_page_context *x)
{
    const ebm2d_sample *s = x->f->sample;
    size_t chains = (size_t)s[0].paths, n = (size_t)s[0].steps + 1;
    double *block = malloc((2 * PAPER * chains * n + n + 1) * sizeof *block), *step = block;
    const double *xs[PAPER], *ys[PAPER];
    char *svg = NULL;
    if (!block) return files_fail(x->error, x->room, "out of memory");
    for (size_t t = 0; t < n; t++) step[t] = (double)t;
    for (size_t m = 0; m < PAPER; m++) {
        double *to_x = block + n + 2 * m * chains * n, *to_y = to_x + chains * n;
        for (size_t i = 0; i < chains * n; i++) {
            to_x[i] = s[m].path[2 * i];
            to_y[i] = s[m].path[2 * i + 1];
        }
        xs[m] = to_x;
        ys[m] = to_y;
    }
    ebm2d_chains f = {.methods = PAPER,
                      .chains = (int)chains,
                      .n = (int)n,
                      .method = ebm2d_method_names,
                      .step = step,
                      .x = xs,
                      .y = ys};
    int rc = ebm2d_draw_chains(&f, x->figures, "chains", &svg, x->error, x->room);
    free(block);
    return show(x, rc, svg, "chains", "Paths of ten chains on the tuned models",
                "The first ten of these chains, coloured by step, from the dot to the cross.");
}

int ebm2d_page_rings(const ebm2d_page_context *x)
{
    static const char *const names[EBM2D_STUDIED] = {"ImpDiff", "SOSMC-ULA", "pre-trained"};
    ebm2d_curve share[EBM2D_STUDIED];
    double exact[EBM2D_STUDIED], *y[EBM2D_STUDIED] = {NULL};
    char *svg = NULL;
    int rc = 0;
    for (int i = 0; i < EBM2D_STUDIED; i++) {
        const ebm2d_sample *s = &x->f->sample[i];
        y[i] = malloc((size_t)s->snapshots * sizeof(double) + 1);
        if (!y[i]) rc = files_fail(x->error, x->room, "out of memory");
        for (int t = 0; y[i] && t < s->snapshots; t++)
            y[i][t] = ebm2d_inner_share(&s->snapshot[2 * (size_t)t * (size_t)s->chains], s->chains);
        share[i] = (ebm2d_curve){.n = s->snapshots, .seeds = 1, .x = s->at, .y = y[i]};
        exact[i] = x->f->masses[i].inner;
    }
    ebm2d_rings f = {.groups = EBM2D_STUDIED, .group = names, .share = share, .exact = exact};
    if (rc == 0) rc = ebm2d_draw_rings(&f, x->figures, "rings", &svg, x->error, x->room);
    for (int i = 0; i < EBM2D_STUDIED; i++) free(y[i]);
    return show(
        x, rc, svg, "rings", "Share of chains on the inner ring against step, beside its exact mass",
        "Share of chains nearer to the origin than 3.35, half-way between the rings, and the exact mass there. Where the "
        "two differ, an average over chains is not an expectation under the model.");
}

/* ---------------------------------------------------------------------------- in the order of the page */

int ebm2d_page_models(const ebm2d_page_context *x)
{
    char *svg = NULL;
    int rc = ebm2d_models_figure(x->plan, x->f->threads, x->figures, &svg, x->error, x->room);
    return show(
        x, rc, svg, "models", "Data sets, densities of the pre-trained models and their samples",
        "Data (black), lines around 50, 90 and 99 % of the model's mass, and samples after 300 Langevin steps from "
        "uniform noise (red).");
}

int ebm2d_page_training(const ebm2d_page_context *x)
{
    char *svg = NULL;
    int rc = ebm2d_training_figure(x->f->training, x->figures, &svg, x->error, x->room);
    return show(
        x, rc, svg, "training", "Log-likelihood of the training points against iteration of the weighted run",
        "Mean log-density of the training points while a network trains with weighted particles, with the levels of "
        "the pre-trained network and of the law of the points.");
}

int ebm2d_page_trial(const ebm2d_page_context *x)
{
    return trajectories(x, EBM2D_TRIAL, EBM2D_REWARD, "trajectory_exact", "exact E[R]",
                        "Tuning trajectories with the exact reward, beta = 0.25; lines of equal R − beta KL.") ||
                   trajectories(
                       x, EBM2D_TRIAL, EBM2D_FRESH, "trajectory_fresh", "R_fresh",
                       "The same with R_fresh, as the paper shows it; one seed. Here the reward is that of chains "
                       "and the divergence that of the model.") ||
                   rewards(x) ||
                   curves(x, EBM2D_TRIAL, 0, EBM2D_EXCESS, "l − l*", "excess",
                          "Exact excess over the optimum. " ITERATIONS_OF_TUNE) ||
                   curves(x, EBM2D_TRIAL, 1, EBM2D_NORM, "gradient norm", "norms",
                          "Norm of the gradient estimate in every iteration. " ITERATIONS_OF_TUNE)
               ? -1
               : 0;
}

int ebm2d_page_sweep(const ebm2d_page_context *x)
{
    return trajectories(x, EBM2D_SWEEP, EBM2D_REWARD, "sweep_exact", "exact E[R]",
                        "Trajectories for several beta with the exact reward.") ||
                   trajectories(x, EBM2D_SWEEP, EBM2D_FRESH, "sweep_fresh", "R_fresh",
                                "The same with R_fresh by the full evaluation; one seed.") ||
                   trajectories(x, EBM2D_SWEEP, EBM2D_SHORT, "sweep_short", "R_fresh, reduced",
                                "The same with R_fresh by the reduced evaluation; one seed.") ||
                   curves(x, EBM2D_SWEEP, 0, EBM2D_EXCESS, "l − l*", "sweep_excess",
                          "Exact excess over the optimum.") ||
                   terminal(x)
               ? -1
               : 0;
}
