/* ebm2d_page_figures.c: the figures on the page of the 2-D energy-based experiment, each from what its cells and chains left. */
#include "ebm2d_page_inside.h"

#include <math.h>
#include <string.h>

#include "ebm2d_figures.h"

enum { PAPER = EBM2D_PAPER_METHODS };

/* ---------------------------------------------------------------------------- curves of several seeds */

/* A value, or a series, of all seeds of a setting. */
static ebm2d_curve gather(arena *p, const ebm2d_plan *plan, const ebm2d_cell *like, int series, int which)
{
    ebm2d_curve g = {.n = 0};
    double *to = NULL;
    for (int seed = 0; like && seed < plan->scale.seeds; seed++) {
        const ebm2d_cell *c = ebm2d_find(plan, like->group, like->data, like->half, like->beta, like->method, seed);
        int n = c ? (series ? c->steps : c->evaluations) : 0;
        const double *y = c ? (series ? c->series[which] : c->value[which]) : NULL;
        if (n < 1 || isnan(y[n - 1])) continue; /* R_fresh belongs to the first seed alone */
        if (!to) {
            to = arena_doubles(p, n * plan->scale.seeds);
            g = (ebm2d_curve){.n = n, .x = series ? c->series[EBM2D_STEP] : c->value[EBM2D_K], .y = to};
        }
        if (to && n == g.n) memcpy(to + (size_t)g.n * (size_t)g.seeds++, y, (size_t)n * sizeof(double));
    }
    return to ? g : (ebm2d_curve){.n = 0};
}

static const ebm2d_cell *first_of(const ebm2d_plan *plan, ebm2d_group group, double beta, int method)
{
    return ebm2d_find(plan, group, EBM2D_CIRCLES, EBM2D_LOWER, beta, (ebm2d_method)method, 0);
}

/* ---------------------------------------------------------------------------- the trial and the sweep */

/* (reward, KL) with the exact reward or with either kind of R_fresh, a panel per beta. */
static int trajectories(const ebm2d_page_context *x, ebm2d_group group, ebm2d_value reward, const char *name,
                        const char *what, const char *caption)
{
    int betas = group == EBM2D_SWEEP ? 4 : 1; /* the paper leaves the largest out */
    int methods = group == EBM2D_SWEEP || reward != EBM2D_REWARD ? PAPER : EBM2D_METHODS;
    arena memory = {0};
    ebm2d_path path[4 * EBM2D_METHODS];
    ebm2d_trajectory panel[4];
    for (int b = 0; b < betas; b++) {
        double beta = group == EBM2D_SWEEP ? ebm2d_betas[b] : EBM2D_TRIAL_BETA;
        const ebm2d_cell *any = first_of(x->plan, group, beta, EBM2D_SOSMC);
        for (int m = 0; m < methods; m++) {
            const ebm2d_cell *c = first_of(x->plan, group, beta, m);
            ebm2d_curve r = gather(&memory, x->plan, c, 0, (int)reward), kl = gather(&memory, x->plan, c, 0, EBM2D_KL);
            path[b * methods + m] = (ebm2d_path){
                .n = r.n, .seeds = r.seeds < kl.seeds ? r.seeds : kl.seeds, .reward = r.y, .kl = kl.y};
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
                            .panel = panel};
    return experiment_figure(&x->at, &memory, ebm2d_draw_trajectories(&memory, &f, name),
                             "Tuning trajectories in the plane of reward and divergence", caption);
}

/* How EBM2D_SPLIT shows on an axis. */
#define ITERATIONS_OF_TUNE \
    "An iteration of the axis is ten of sosmc tune --kernel rwm, each with two fifths of the particles."
_Static_assert(EBM2D_SPLIT == 10, "the sentence says ten");

static int rewards(const ebm2d_page_context *x)
{
    arena memory = {0};
    ebm2d_curve particle[EBM2D_METHODS], weighted[EBM2D_METHODS], fresh[EBM2D_METHODS], exact[EBM2D_METHODS];
    const ebm2d_cell *any = first_of(x->plan, EBM2D_TRIAL, EBM2D_TRIAL_BETA, EBM2D_SOSMC);
    for (int m = 0; m < EBM2D_METHODS; m++) {
        const ebm2d_cell *c = first_of(x->plan, EBM2D_TRIAL, EBM2D_TRIAL_BETA, m);
        ebm2d_curve score = gather(&memory, x->plan, c, 1, EBM2D_SCORE);
        int weights = m != EBM2D_IMPDIFF;
        /* without weights the logged score is the particle reward of every iteration */
        particle[m] = weights ? gather(&memory, x->plan, c, 0, EBM2D_PARTICLE) : score;
        weighted[m] = weights ? score : (ebm2d_curve){.n = 0};
        fresh[m] = gather(&memory, x->plan, c, 0, EBM2D_FRESH);
        exact[m] = gather(&memory, x->plan, c, 0, EBM2D_REWARD);
    }
    ebm2d_rewards f = {.methods = EBM2D_METHODS,
                       .method = ebm2d_method_names,
                       .particle = particle,
                       .weighted = weighted,
                       .fresh = fresh,
                       .exact = exact,
                       .target = any ? any->best_reward : NAN};
    return experiment_figure(
        &x->at, &memory, ebm2d_draw_rewards(&memory, &f, "rewards"), "Rewards against iteration for each method",
        "Reward by the particles, with weights where there are weights, R_fresh and the exact E[R] against iteration, "
        "with the level pi*(H) of the optimum. " ITERATIONS_OF_TUNE);
}

static int curves(const ebm2d_page_context *x, ebm2d_group group, int series, int which, const char *quantity,
                  const char *name, const char *caption)
{
    int betas = group == EBM2D_SWEEP ? EBM2D_BETAS : 1, methods = group == EBM2D_SWEEP ? PAPER : EBM2D_METHODS;
    arena memory = {0};
    ebm2d_curve curve[EBM2D_BETAS * EBM2D_METHODS];
    for (int b = 0; b < betas; b++)
        for (int m = 0; m < methods; m++) {
            double beta = group == EBM2D_SWEEP ? ebm2d_betas[b] : EBM2D_TRIAL_BETA;
            curve[b * methods + m] = gather(&memory, x->plan, first_of(x->plan, group, beta, m), series, which);
        }
    ebm2d_curves f = {.methods = methods,
                      .panels = betas,
                      .columns = betas > 1 ? 3 : 1,
                      .method = ebm2d_method_names,
                      .beta = betas > 1 ? ebm2d_betas : NULL,
                      .quantity = quantity,
                      .curve = curve};
    return experiment_figure(&x->at, &memory, ebm2d_draw_curves(&memory, &f, name), quantity, caption);
}

/* ---------------------------------------------------------------------------- chains */

/* Coordinates 0 and 1 of `n` points, apart. */
static ebm2d_cloud apart(arena *p, const double *from, size_t n)
{
    double *x = arena_doubles(p, (int)n), *y = arena_doubles(p, (int)n);
    for (size_t i = 0; x && y && i < n; i++) {
        x[i] = from[2 * i];
        y[i] = from[2 * i + 1];
    }
    return (ebm2d_cloud){.n = x && y ? (int)n : 0, .x = x, .y = y};
}

/* The points of a snapshot. */
static ebm2d_cloud cloud_of(arena *p, const ebm2d_sample *s, double step)
{
    int at = 0;
    while (at + 1 < s->snapshots && s->at[at] < step) at++;
    return apart(p, &s->snapshot[2 * (size_t)at * (size_t)s->chains], (size_t)s->chains);
}

static int densities(const ebm2d_page_context *x, const ebm2d_densities *like, const ebm2d_sample *const *sample,
                     const char *name, const char *alt, const char *caption)
{
    arena memory = {0};
    int panels = like->rows * like->columns;
    ebm2d_cloud *cloud = arena_take(&memory, panels, sizeof *cloud);
    ebm2d_densities f = *like;
    for (int i = 0; cloud && i < panels; i++) /* snapshots of one step are the same whatever is asked for */
        cloud[i] = cloud_of(&memory, sample[i], like->column[i % like->columns]);
    f.cloud = cloud;
    return experiment_figure(
        &x->at, &memory, cloud ? ebm2d_draw_densities(&memory, &f, name) : (plot_figure){.name = name}, alt, caption);
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
    arena memory = {0};
    ebm2d_hitting f = {.methods = PAPER,
                       .chains = x->f->sample[0].chains,
                       .method = ebm2d_method_names,
                       .steps = x->plan->scale.study_steps,
                       .first = first};
    return experiment_figure(
        &x->at, &memory, ebm2d_draw_hitting(&memory, &f, "hitting"),
        "Share of chains that have reached the half-plane, against step",
        "Hitting times: the share of the chains above whose first visit to H is at step t or before.");
}

int ebm2d_page_paths(const ebm2d_page_context *x)
{
    const ebm2d_sample *s = x->f->sample;
    size_t chains = (size_t)s[0].paths, n = (size_t)s[0].steps + 1;
    arena memory = {0};
    double *step = arena_doubles(&memory, (int)n);
    const double *xs[PAPER], *ys[PAPER];
    for (size_t t = 0; step && t < n; t++) step[t] = (double)t;
    for (int m = 0; m < PAPER; m++) {
        ebm2d_cloud c = apart(&memory, s[m].path, chains * n);
        xs[m] = c.x;
        ys[m] = c.y;
    }
    if (memory.failed) n = 0;
    ebm2d_chains f = {.methods = PAPER,
                      .chains = (int)chains,
                      .n = (int)n,
                      .method = ebm2d_method_names,
                      .step = step,
                      .x = xs,
                      .y = ys};
    return experiment_figure(&x->at, &memory, ebm2d_draw_chains(&memory, &f, "chains"),
                             "Paths of ten chains on the tuned models",
                             "The first ten of these chains, coloured by step, from the dot to the cross.");
}

int ebm2d_page_rings(const ebm2d_page_context *x)
{
    static const char *const names[EBM2D_STUDIED] = {"ImpDiff", "SOSMC-ULA", "pre-trained"};
    ebm2d_curve share[EBM2D_STUDIED];
    double exact[EBM2D_STUDIED];
    arena memory = {0};
    for (int i = 0; i < EBM2D_STUDIED; i++) {
        const ebm2d_sample *s = &x->f->sample[i];
        double *y = arena_doubles(&memory, s->snapshots);
        for (int t = 0; y && t < s->snapshots; t++)
            y[t] = ebm2d_inner_share(&s->snapshot[2 * (size_t)t * (size_t)s->chains], s->chains);
        share[i] = (ebm2d_curve){.n = y ? s->snapshots : 0, .seeds = 1, .x = s->at, .y = y};
        exact[i] = x->f->masses[i].inner;
    }
    ebm2d_rings f = {.groups = EBM2D_STUDIED, .group = names, .share = share, .exact = exact};
    return experiment_figure(
        &x->at, &memory, ebm2d_draw_rings(&memory, &f, "rings"),
        "Share of chains on the inner ring against step, beside its exact mass",
        "Share of chains nearer to the origin than 3.35, half-way between the rings, and the exact mass there. Where the "
        "two differ, an average over chains is not an expectation under the model.");
}

/* ---------------------------------------------------------------------------- in the order of the page */

int ebm2d_page_models(const ebm2d_page_context *x)
{
    arena memory = {0};
    plot_figure f;
    if (ebm2d_models_figure(&memory, x->plan, x->f->threads, &f, x->at.error, x->at.room)) {
        arena_free(&memory);
        return -1;
    }
    return experiment_figure(
        &x->at, &memory, f, "Data sets, densities of the pre-trained models and their samples",
        "Data (black), lines around 50, 90 and 99 % of the model's mass, and samples after 300 Langevin steps from "
        "uniform noise (red).");
}

int ebm2d_page_training(const ebm2d_page_context *x)
{
    arena memory = {0};
    return experiment_figure(
        &x->at, &memory, ebm2d_training_figure(&memory, x->f->training),
        "Log-likelihood of the training points against iteration of the weighted run",
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
