/* reproduce_ebm2d.c: the paper's second experiment: energy networks of the plane, tuned towards a half-plane by ImpDiff and by
 * SOSMC-ULA, scored exactly.
 *
 *     OUT/pretrain/NAME, OUT/train/NAME-weighted, OUT/start/..., OUT/cells/...    run directories
 *     OUT/studies                                                                 fresh chains
 *     OUT/report.html, OUT/figures, OUT/table.csv, OUT/summary.json
 *
 * Everything that takes time is kept in a file when it is done and picked up where it was left: the same command continues
 * after Ctrl-C or worse. Runs are made in parallel, one thread each. */
#include "common/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ebm2d_page.h"
#include "files/directory.h"
#include "files/files.h"
#include "terminal/say.h"
#include "files/share.h"

enum { SENTENCE = 1024, MOST_SEEDS = 100, SNAPSHOTS = 120, MOST_SNAPSHOTS = SNAPSHOTS + 16 };

typedef struct {
    const reproduce_options *o;
    ebm2d_plan plan;
    ebm2d_findings found;
    char out[FILES_PATH], models[FILES_PATH];
    int threads;
} study;

static void announce(const study *s, const char *what)
{
    if (!s->o->quiet) fprintf(stderr, "%s\n", what);
}

/* ---------------------------------------------------------------------------- where the models are */

static int find_model(const char *dir, int d, char out[FILES_PATH])
{
    return share_look(dir, ebm2d_dataset_names[d], "safetensors", out) ||
           share_look(dir, ebm2d_dataset_names[d], "npz", out);
}

/* What a folder must hold to be the one. */
static int has_models(const void *context, const char *dir)
{
    const study *s = context;
    char path[FILES_PATH];
    return s->o->pretrain ? share_look(dir, ebm2d_dataset_names[EBM2D_CIRCLES], "yaml", path)
                          : find_model(dir, EBM2D_CIRCLES, path);
}

static int find_models(study *s)
{
    const char *wanted = s->o->pretrain ? "circles.yaml" : "circles.safetensors";
    if (!s->o->models && share_place("ebm2d", has_models, s, s->models) == 0) return SOSMC_EXIT_OK;
    if (s->o->models && has_models(s, s->o->models) && realpath(s->o->models, s->models)) return SOSMC_EXIT_OK;
    if (s->o->models)
        return complain(SOSMC_EXIT_IO, "--models is %s, which holds no %s%s", s->o->models, wanted,
                        s->o->pretrain ? "" : " (or circles.npz)");
    return complain(
        SOSMC_EXIT_IO,
        "no folder with %s was found; expected --models DIR, or the environment variable SOSMC_SHARE with the "
        "folder above ebm2d",
        wanted);
}

/* The data sets this size of the experiment cannot do without. */
static int needed(const study *s, int d) { return d == EBM2D_CIRCLES || s->plan.scale.full; }

static int pretrain_one(study *s, int d)
{
    char file[64], dir[FILES_PATH], path[FILES_PATH], relative[64], error[SENTENCE];
    if (!share_look(s->models, ebm2d_dataset_names[d], "yaml", path))
        return complain(SOSMC_EXIT_IO, "%s holds no %s.yaml; --pretrain needs it", s->models, ebm2d_dataset_names[d]);
    (void)snprintf(relative, sizeof relative, "pretrain/%s", ebm2d_dataset_names[d]);
    (void)snprintf(file, sizeof file, "%s.yaml", ebm2d_dataset_names[d]);
    if (files_join(dir, s->out, relative, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    experiment_file f = experiment_load(s->models, file);
    experiment_set(&f, "threads=%d", s->threads);
    int code = experiment_go(&f, dir, s->o->quiet);
    if (code == SOSMC_EXIT_OK && files_join(s->plan.model[d], dir, "model.safetensors", error, sizeof error))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    return code;
}

/* Reads every network before anything is run, so that a broken one is reported at once and not after an hour. */
static int take_models(study *s)
{
    char error[SENTENCE];
    for (int d = 0; d < EBM2D_DATASETS; d++) {
        int code = SOSMC_EXIT_OK;
        if (s->o->pretrain && needed(s, d))
            code = pretrain_one(s, d);
        else if (!find_model(s->models, d, s->plan.model[d]) && needed(s, d))
            code = complain(SOSMC_EXIT_IO, "%s holds neither %s.safetensors nor %s.npz, which --full needs", s->models,
                            ebm2d_dataset_names[d], ebm2d_dataset_names[d]);
        if (code != SOSMC_EXIT_OK) return code;
        if (s->plan.model[d][0] && ebm2d_check_model(s->plan.model[d], error, sizeof error))
            return complain(SOSMC_EXIT_IO, "%s", error);
    }
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- runs */

/* Networks trained with weights beside the pre-trained ones; nothing else needs them. */
static int compare_training(study *s)
{
    char error[SENTENCE];
    int code = SOSMC_EXIT_OK;
    announce(s, "training with weights");
    for (int d = 0; code == SOSMC_EXIT_OK && d < EBM2D_DATASETS; d++) {
        if (!needed(s, d)) continue;
        code = ebm2d_training_run(&s->plan, (ebm2d_dataset)d, s->threads, s->o->quiet);
        if (code == SOSMC_EXIT_OK &&
            ebm2d_training_read(&s->plan, (ebm2d_dataset)d, s->threads, &s->found.training[d], error, sizeof error))
            code = complain(SOSMC_EXIT_IO, "%s", error);
    }
    return code;
}

/* Runs them one at a time, each with all threads, because everything else needs their results. */
static int draw_starts(study *s)
{
    int code = SOSMC_EXIT_OK;
    announce(s, "initial particles");
    for (int d = 0; code == SOSMC_EXIT_OK && d < EBM2D_DATASETS; d++) {
        if (!needed(s, d)) continue;
        code = ebm2d_start_run(&s->plan, (ebm2d_dataset)d, 0, s->threads, s->o->quiet);
        if (code == SOSMC_EXIT_OK && d == EBM2D_CIRCLES)
            code = ebm2d_start_run(&s->plan, (ebm2d_dataset)d, 1, s->threads, s->o->quiet);
    }
    return code;
}

static int run_cells(study *s)
{
    const grid cells = ebm2d_grid(&s->plan);
    announce(s, "tuning");
    return experiment_run_grid(&cells, s->threads, s->o->quiet);
}

/* ---------------------------------------------------------------------------- chains on the models */

/* Steps at which a study keeps all chains: evenly spaced ones, and those of the figure. */
static int snapshot_steps(int steps, int64_t out[MOST_SNAPSHOTS])
{
    double shown[9];
    int wanted = ebm2d_efficiency_steps(steps, shown), n = 0, every = (steps + SNAPSHOTS - 1) / SNAPSHOTS;
    for (int t = 0; t <= steps && n < MOST_SNAPSHOTS; t++) {
        int keep = t % every == 0 || t == steps;
        for (int i = 0; i < wanted; i++) keep |= shown[i] == t;
        if (keep) out[n++] = t;
    }
    return n;
}

static int final_model(const study *s, ebm2d_group group, double beta, int method, char out[FILES_PATH], char *error,
                       size_t room)
{
    const ebm2d_cell *c = ebm2d_find(&s->plan, group, EBM2D_CIRCLES, EBM2D_LOWER, beta, (ebm2d_method)method, 0);
    if (!c) return files_fail(error, room, "there is no run with beta %g", beta);
    return ebm2d_cell_model(&s->plan, c, out, error, room);
}

/* Jobs: the final models of the trial, the pre-trained one, then the final models of the sweep. */
static int one_study(void *context, int job, char *error, size_t room)
{
    study *s = context;
    const ebm2d_scale *scale = &s->plan.scale;
    char model[FILES_PATH], cache[FILES_PATH], name[64];
    int64_t at[MOST_SNAPSHOTS] = {scale->terminal_steps};
    ebm2d_study chains = {.normal = ebm2d_normals[EBM2D_LOWER],
                          .at = at,
                          .threads = s->threads > 2 * EBM2D_STUDIED ? s->threads / EBM2D_STUDIED : 1};
    int terminal = job - EBM2D_STUDIED, b = terminal / EBM2D_PAPER_METHODS, m = terminal % EBM2D_PAPER_METHODS, rc;
    ebm2d_sample *out = terminal < 0 ? &s->found.sample[job] : &s->found.terminal[m][b];
    if (terminal >= 0) {
        chains.chains = scale->terminal_chains;
        chains.burn_in = scale->terminal_steps;
        chains.snapshots = 1;
        chains.seed = 2;
        (void)snprintf(name, sizeof name, "studies/terminal-beta%g-%d.npz", ebm2d_betas[b], m);
        rc = final_model(s, EBM2D_SWEEP, ebm2d_betas[b], m, model, error, room);
    } else {
        int before = job == EBM2D_PRETRAINED;
        chains.chains = before ? scale->fresh_chains : scale->study_chains;
        chains.burn_in = before ? scale->burn_in + scale->averaged : scale->study_steps;
        chains.snapshots = snapshot_steps((int)chains.burn_in, at);
        chains.paths = before ? 0 : chains.chains < 10 ? chains.chains : 10;
        chains.seed = 1;
        (void)snprintf(name, sizeof name, "studies/%s.npz",
                       before                 ? "pretrained"
                       : job == EBM2D_IMPDIFF ? "impdiff"
                                              : "sosmc");
        (void)snprintf(model, sizeof model, "%s", s->plan.model[EBM2D_CIRCLES]);
        rc = before ? 0 : final_model(s, EBM2D_TRIAL, EBM2D_TRIAL_BETA, job, model, error, room);
    }
    if (rc || files_join(cache, s->out, name, error, room) ||
        ebm2d_study_run(&chains, model, cache, out, error, room) ||
        (terminal < 0 && ebm2d_exact_masses(model, chains.normal, 400, 1, &s->found.masses[job], error, room)))
        return -1;
    return 0;
}

/* Steps of chains. */
static double cost_of_study(const void *context, int job)
{
    const ebm2d_scale *scale = &((const study *)context)->plan.scale;
    if (job == EBM2D_PRETRAINED) return (double)scale->fresh_chains * (scale->burn_in + scale->averaged);
    if (job < EBM2D_STUDIED) return (double)scale->study_chains * scale->study_steps;
    return (double)scale->terminal_chains * scale->terminal_steps;
}

static int run_studies(study *s)
{
    char error[SENTENCE], dir[FILES_PATH];
    const grid chains = {.cells = EBM2D_STUDIED + (s->plan.scale.full ? EBM2D_PAPER_METHODS * EBM2D_BETAS : 0),
                         .cost = cost_of_study,
                         .run = one_study,
                         .context = s};
    announce(s, "chains on the tuned models");
    if (files_join(dir, s->out, "studies", error, sizeof error) || directory_make(dir, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    int code = experiment_run_grid(&chains, s->threads, s->o->quiet);
    if (code != SOSMC_EXIT_OK) return code;
    s->found.published = ebm2d_is_published(&s->found.masses[EBM2D_PRETRAINED]);
    for (int smc = 0; smc < 2; smc++) {
        char file[FILES_PATH];
        if (ebm2d_start_file(&s->plan, EBM2D_CIRCLES, smc, file, error, sizeof error) ||
            ebm2d_particle_shares(file, ebm2d_normals[EBM2D_LOWER], &s->found.start_inner[smc],
                                  &s->found.start_reward[smc], error, sizeof error))
            return complain(SOSMC_EXIT_IO, "%s", error);
    }
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- evidence */

static experiment_mean norm_spread(const study *s, ebm2d_method method)
{
    double spread[MOST_SEEDS];
    int n = 0;
    for (int seed = 0; seed < s->plan.scale.seeds; seed++) {
        const ebm2d_cell *c = ebm2d_trial(&s->plan, (int)method, seed);
        if (c) spread[n++] = ebm2d_spread(c->series[EBM2D_NORM], c->steps);
    }
    return experiment_mean_of(spread, n);
}

/* Mean distance of the particles' reward from the exact one. The first evaluation is left out, because it shows the
 * start particles more than the method. */
static double tracking_gap(const study *s, ebm2d_method method)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->plan.cells; i++) {
        const ebm2d_cell *c = &s->plan.cell[i];
        if (c->group != EBM2D_TRIAL || c->method != method) continue;
        for (int k = 1; k < c->evaluations; k++, n++)
            sum += fabs(c->value[ebm2d_estimate_of(method)][k] - c->value[EBM2D_REWARD][k]);
    }
    return n > 0 ? sum / n : NAN;
}

static experiment_mean trial(const study *s, int method, ebm2d_value value)
{
    return ebm2d_over_seeds(&s->plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, (ebm2d_method)method,
                            value);
}

/* The sweep where there is one: its runs are the longer ones. */
static void collect_excess(const study *s, ebm2d_evidence *e)
{
    int sweep = s->plan.scale.full;
    e->betas = sweep ? EBM2D_BETAS : 1;
    for (int b = 0; b < e->betas; b++) {
        e->beta[b] = sweep ? ebm2d_betas[b] : EBM2D_TRIAL_BETA;
        for (int m = 0; m < EBM2D_PAPER_METHODS; m++)
            e->excess[m][b] = ebm2d_over_seeds(&s->plan, sweep ? EBM2D_SWEEP : EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER,
                                               e->beta[b], (ebm2d_method)m, EBM2D_EXCESS);
    }
}

static void collect_rings(const study *s, ebm2d_evidence *e)
{
    const ebm2d_sample *x = &s->found.sample[EBM2D_PRETRAINED];
    const double *normal = ebm2d_normals[EBM2D_LOWER];
    double window[2] = {s->plan.scale.burn_in, s->plan.scale.burn_in + s->plan.scale.averaged};
    int settled = 0;
    while (settled + 1 < x->snapshots && x->at[settled] < fmin(500, (double)x->steps / 2)) settled++;
    e->ring_chains = x->chains;
    e->inner_chains = ebm2d_inner_share(&x->snapshot[2 * (size_t)(x->snapshots - 1) * (size_t)x->chains], x->chains);
    e->inner_exact = s->found.masses[EBM2D_PRETRAINED].inner;
    e->ring_changes = ebm2d_ring_changes(x, settled);
    e->ring_bias = (e->inner_chains - e->inner_exact) *
                   (s->found.masses[EBM2D_PRETRAINED].reward_inner - s->found.masses[EBM2D_PRETRAINED].reward_outer);
    e->fresh_exact = s->found.masses[EBM2D_PRETRAINED].reward;
    e->fresh = ebm2d_window_reward(x, normal, window, &e->fresh_error);
}

static void collect_starts(const study *s, ebm2d_evidence *e)
{
    static const ebm2d_method methods[2] = {EBM2D_SOSMC, EBM2D_TEMPERED};
    e->particles = s->plan.scale.particles;
    e->impdiff_excess = trial(s, EBM2D_IMPDIFF, EBM2D_EXCESS);
    for (int i = 0; i < 2; i++) {
        double ess[MOST_SEEDS];
        int n = 0;
        for (int seed = 0; seed < s->plan.scale.seeds; seed++) {
            const ebm2d_cell *c = ebm2d_trial(&s->plan, (int)methods[i], seed);
            if (!c || c->steps < 1) continue;
            ess[n++] = c->series[EBM2D_ESS][0];
            if (i == 0) e->most_first_ess = fmax(e->most_first_ess, ess[n - 1]); /* fmax passes a NaN over */
        }
        e->first_ess[i] = experiment_mean_of(ess, n);
        e->start_excess[i] = trial(s, (int)methods[i], EBM2D_EXCESS);
    }
}

static void collect_evidence(study *s)
{
    ebm2d_evidence *e = &s->found.evidence;
    const ebm2d_scale *scale = &s->plan.scale;
    *e = ebm2d_no_evidence();
    e->paper = scale->paper;
    collect_excess(s, e);
    collect_rings(s, e);
    collect_starts(s, e);
    e->ours = trial(s, EBM2D_OURS, EBM2D_EXCESS);
    e->chains = scale->study_chains;
    e->reached_by = fmax(scale->study_steps / 30.0, 10); /* 1000 of the paper's 30,000 */
    for (int i = 0; i < 2; i++) {
        e->early[i] = (i ? 5000 : 500) / 30000.0 * scale->study_steps;
        e->late[i] = (i ? 20000 : 15000) / 30000.0 * scale->study_steps;
    }
    for (int m = 0; m < EBM2D_PAPER_METHODS; m++) {
        const ebm2d_sample *x = &s->found.sample[m];
        e->estimate[m] = trial(s, m, ebm2d_estimate_of((ebm2d_method)m)).mean;
        e->reward[m] = trial(s, m, EBM2D_REWARD).mean;
        e->gap[m] = tracking_gap(s, (ebm2d_method)m);
        e->reached[m] = ebm2d_reached(x, e->reached_by);
        e->median_hit[m] = ebm2d_median_hit(x);
        e->norm_spread[m] = norm_spread(s, (ebm2d_method)m);
        e->windows[m] = ebm2d_compare_windows(x, ebm2d_normals[EBM2D_LOWER], e->early, e->late);
    }
    ebm2d_judge(e, s->found.claim);
}

/* ---------------------------------------------------------------------------- */

static int set_up(study *s, const ebm2d_scale *scale)
{
    const reproduce_options *o = s->o;
    char error[SENTENCE];
    s->threads = experiment_threads(o->threads);
    s->plan.scale = *scale;
    if (o->seeds > 0) s->plan.scale.seeds = o->seeds;
    if (s->plan.scale.seeds > MOST_SEEDS)
        return complain(SOSMC_EXIT_USAGE, "--seeds is %d; expected at most %d", s->plan.scale.seeds, MOST_SEEDS);
    int code = find_models(s);
    if (code == SOSMC_EXIT_OK &&
        (ebm2d_plan_open(&s->plan, error, sizeof error) || known_open(&s->plan.known, "ebm2d", error, sizeof error)))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    if (code == SOSMC_EXIT_OK) code = experiment_folder(o->out, s->out);
    if (code != SOSMC_EXIT_OK) return code;
    s->plan.out = s->out;
    s->found.plan = &s->plan;
    s->found.threads = s->threads;
    s->found.models = s->models;
    return ebm2d_plan_cells(&s->plan, error, sizeof error) ? complain(SOSMC_EXIT_NUMERIC, "%s", error) : SOSMC_EXIT_OK;
}

static int tell(study *s)
{
    char error[SENTENCE];
    collect_evidence(s);
    if (!s->o->quiet) ebm2d_print_findings(&s->found, stdout);
    if (ebm2d_write_table(&s->found, error, sizeof error) || ebm2d_write_summary(&s->found, error, sizeof error) ||
        ebm2d_write_page(&s->found, error, sizeof error))
        return experiment_failed(SOSMC_EXIT_IO, error);
    if (!s->o->quiet) printf("\ntable.csv, summary.json, figures and report.html are in %s\n", s->out);
    return SOSMC_EXIT_OK;
}

static void clear(study *s)
{
    for (int d = 0; d < EBM2D_DATASETS; d++) ebm2d_training_free(&s->found.training[d]);
    for (int i = 0; i < EBM2D_STUDIED; i++) ebm2d_sample_free(&s->found.sample[i]);
    for (int m = 0; m < EBM2D_PAPER_METHODS; m++)
        for (int b = 0; b < EBM2D_BETAS; b++) ebm2d_sample_free(&s->found.terminal[m][b]);
    ebm2d_plan_free(&s->plan);
}

int reproduce_ebm2d_scaled(const reproduce_options *options, const ebm2d_scale *scale)
{
    study *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    s->o = options;
    int code = set_up(s, scale);
    if (code == SOSMC_EXIT_OK) code = take_models(s);
    if (code == SOSMC_EXIT_OK) code = compare_training(s);
    if (code == SOSMC_EXIT_OK) code = draw_starts(s);
    if (code == SOSMC_EXIT_OK) code = run_cells(s);
    if (code == SOSMC_EXIT_OK) code = run_studies(s);
    if (code == SOSMC_EXIT_OK) code = tell(s);
    clear(s);
    free(s);
    return code;
}

int reproduce_ebm2d(const reproduce_options *options)
{
    ebm2d_scale scale = options->quick  ? ebm2d_scale_quick()
                        : options->full ? ebm2d_scale_full()
                                        : ebm2d_scale_default();
    int code = experiment_check_sizes(options, "ebm2d");
    return code == SOSMC_EXIT_OK ? reproduce_ebm2d_scaled(options, &scale) : code;
}
