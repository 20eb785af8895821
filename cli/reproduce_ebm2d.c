/* reproduce_ebm2d.c: the paper's second experiment: energy networks of the plane, tuned towards a half-plane by ImpDiff and by
 * SOSMC-ULA, scored exactly.
 *
 *     OUT/pretrain/NAME, OUT/train/NAME-weighted, OUT/start/..., OUT/cells/...    run directories
 *     OUT/studies                                                                 fresh chains
 *     OUT/report.html, OUT/figures, OUT/table.csv, OUT/summary.json
 *
 * Everything that takes time is kept in a file when it is done and picked up where it was left: the same command continues
 * after Ctrl-C or worse. Runs are made in parallel, one thread each. */
#include "reproduce.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "ebm2d_page.h"
#include "files.h"
#include "parallel_runs.h"
#include "run.h"

enum { SENTENCE = 1024, MOST_SEEDS = 100, SNAPSHOTS = 120, MOST_SNAPSHOTS = SNAPSHOTS + 16 };

typedef struct {
    const reproduce_options *o;
    ebm2d_plan plan;
    ebm2d_findings found;
    char out[FILES_PATH], models[FILES_PATH];
    int threads;
    atomic_int code; /* of the first run that failed */
} study;

static void announce(const study *s, const char *what)
{
    if (!s->o->quiet) fprintf(stderr, "%s\n", what);
}

/* ---------------------------------------------------------------------------- where the models are */

static int find_model(const char *dir, int d, char out[FILES_PATH])
{
    return experiment_look(dir, ebm2d_dataset_names[d], "safetensors", out) ||
           experiment_look(dir, ebm2d_dataset_names[d], "npz", out);
}

/* What a folder must hold to be the one. */
static int has_models(const void *context, const char *dir)
{
    const study *s = context;
    char path[FILES_PATH];
    return s->o->pretrain ? experiment_look(dir, ebm2d_dataset_names[EBM2D_CIRCLES], "yaml", path)
                          : find_model(dir, EBM2D_CIRCLES, path);
}

static int find_models(study *s)
{
    const char *wanted = s->o->pretrain ? "circles.yaml" : "circles.safetensors";
    if (!s->o->models && experiment_place("ebm2d", has_models, s, s->models) == 0) return SOSMC_EXIT_OK;
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
    char file[FILES_PATH], dir[FILES_PATH], relative[64], set[64], error[SENTENCE];
    int code;
    if (!experiment_look(s->models, ebm2d_dataset_names[d], "yaml", file))
        return complain(SOSMC_EXIT_IO, "%s holds no %s.yaml; --pretrain needs it", s->models, ebm2d_dataset_names[d]);
    (void)snprintf(relative, sizeof relative, "pretrain/%s", ebm2d_dataset_names[d]);
    (void)snprintf(set, sizeof set, "threads=%d", s->threads);
    if (files_join(dir, s->out, relative, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    config *c = config_load(file, error, sizeof error);
    if (!c || config_set(c, set, error, sizeof error) || config_resolve(c, error, sizeof error)) {
        code = complain(!c && errno ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE, "%s", error);
    } else {
        run_options options = {.out = dir, .resume = 1, .quiet = s->o->quiet};
        code = run_job(c, &options);
    }
    config_free(c);
    if (code == SOSMC_EXIT_OK && files_join(s->plan.model[d], dir, "model.safetensors", error, sizeof error))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    return code;
}

/* Every network is read before anything is run: one that is broken should not be found out after an hour. */
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

/* One at a time, with all threads: everything else waits for them. */
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

static int one_cell(void *context, int job, char *error, size_t room)
{
    study *s = context;
    char name[128];
    int code = ebm2d_cell_run(&s->plan, &s->plan.cell[job]), none = SOSMC_EXIT_OK;
    if (code == SOSMC_EXIT_OK) return 0;
    (void)atomic_compare_exchange_strong(&s->code, &none, code);
    ebm2d_cell_name(&s->plan.cell[job], name, sizeof name);
    return files_fail(error, room, "%s/cells/%s did not finish", s->out, name);
}

static int run_cells(study *s)
{
    char error[SENTENCE];
    announce(s, "tuning");
    if (parallel_runs(one_cell, s, s->plan.cells, s->threads, s->o->quiet, error, sizeof error))
        return experiment_failed(atomic_load(&s->code) ? atomic_load(&s->code) : SOSMC_EXIT_NUMERIC, error);
    for (int i = 0; i < s->plan.cells; i++)
        if (ebm2d_cell_read(&s->plan, &s->plan.cell[i], error, sizeof error))
            return complain(SOSMC_EXIT_IO, "%s", error);
    return SOSMC_EXIT_OK;
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
    char dir[FILES_PATH];
    const ebm2d_cell *c = ebm2d_find(&s->plan, group, EBM2D_CIRCLES, EBM2D_LOWER, beta, (ebm2d_method)method, 0);
    if (!c) return files_fail(error, room, "there is no run with beta %g", beta);
    return ebm2d_cell_directory(&s->plan, c, dir, error, room) || files_join(out, dir, "model.safetensors", error, room)
               ? -1
               : 0;
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
    if (rc || files_join(cache, s->out, name, error, room) || ebm2d_study_run(&chains, model, cache, out, error, room))
        return -1;
    if (terminal >= 0) return 0;
    return ebm2d_exact_masses(model, chains.normal, 400, 1, &s->found.masses[job], error, room);
}

static int run_studies(study *s)
{
    char error[SENTENCE], dir[FILES_PATH];
    int jobs = EBM2D_STUDIED + (s->plan.scale.full ? EBM2D_PAPER_METHODS * EBM2D_BETAS : 0);
    announce(s, "chains on the tuned models");
    if (files_join(dir, s->out, "studies", error, sizeof error) || files_directory(dir, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    if (parallel_runs(one_study, s, jobs, s->threads, s->o->quiet, error, sizeof error))
        return experiment_failed(SOSMC_EXIT_NUMERIC, error);
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
        const ebm2d_cell *c = ebm2d_find(&s->plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, method,
                                         seed);
        if (c) spread[n++] = ebm2d_spread(c->series[EBM2D_NORM], c->steps);
    }
    return experiment_mean_of(spread, n);
}

/* Mean distance of the particles' reward from the exact one. The first evaluation is left out: it tells of the start. */
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

static void collect_evidence(study *s)
{
    ebm2d_evidence *e = &s->found.evidence;
    const ebm2d_scale *scale = &s->plan.scale;
    *e = ebm2d_no_evidence();
    e->paper = scale->paper;
    collect_excess(s, e);
    collect_rings(s, e);
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

/* ---------------------------------------------------------------------------- tables */

static experiment_mean over_seeds(const study *s, const ebm2d_cell *c, int value)
{
    return ebm2d_over_seeds(&s->plan, c->group, c->data, c->half, c->beta, c->method, (ebm2d_value)value);
}

static void print_row(const study *s, const ebm2d_cell *c, FILE *out)
{
    static const int shown[] = {EBM2D_REWARD, EBM2D_KL, EBM2D_EXCESS};
    ebm2d_reference r = ebm2d_reference_of(c);
    const double known[] = {r.reward, r.kl, r.excess};
    char t[4][32];
    fprintf(out, "%-6s %-9s %-6s %5g  %-20s", ebm2d_group_names[c->group], ebm2d_dataset_names[c->data],
            ebm2d_half_names[c->half], c->beta, ebm2d_method_names[c->method]);
    for (int i = 0; i < 3; i++) {
        experiment_mean m = over_seeds(s, c, shown[i]);
        fprintf(out, " %7s +- %-6s [%6s]", experiment_decimals(m.mean, 4, t[0]), experiment_decimals(m.error, 4, t[1]),
                experiment_decimals(known[i], 4, t[2]));
    }
    fprintf(out, " %7s %7s %7s +- %s\n", experiment_decimals(over_seeds(s, c, EBM2D_PARTICLE).mean, 4, t[0]),
            experiment_decimals(c->method == EBM2D_IMPDIFF ? NAN : over_seeds(s, c, EBM2D_WEIGHTED).mean, 4, t[1]),
            experiment_decimals(ebm2d_last(c, EBM2D_FRESH), 4, t[2]),
            experiment_decimals(ebm2d_last(c, EBM2D_FRESH_ERROR), 4, t[3]));
}

static void print_training(const study *s, FILE *out)
{
    char t[5][32], verdict[256];
    fprintf(out, "\nexact log-likelihood of the training points, in nats\n%-9s  %-22s %9s %9s %12s %9s %11s\n", "", "",
            "loglik", "bound", "evaluations", "running", "log Z error");
    for (int d = 0; d < EBM2D_DATASETS; d++)
        for (int m = 0; m < EBM2D_TRAININGS && s->found.training[d].made; m++) {
            const ebm2d_training *v = &s->found.training[d];
            int weights = m == EBM2D_WEIGHTS;
            fprintf(out, "%-9s  %-22s %9s %9s %12s %9s %11s\n", ebm2d_dataset_names[d], ebm2d_training_names[m],
                    experiment_decimals(v->of[m].loglik, 4, t[0]), experiment_decimals(v->bound, 4, t[1]),
                    experiment_decimals(v->of[m].evaluations, 0, t[2]),
                    experiment_decimals(weights ? v->running : NAN, 4, t[3]),
                    experiment_decimals(weights ? v->logz_error : NAN, 4, t[4]));
        }
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (s->found.training[d].made)
            fprintf(out, "%s\n",
                    ebm2d_training_verdict(&s->found.training[d], (ebm2d_dataset)d, verdict, sizeof verdict));
}

static void print_findings(const study *s, FILE *out)
{
    fprintf(out,
            "\nexact E[R], KL and l - l* with standard errors over %d seeds; in brackets a rerun of the published "
            "program%s\n%-51s %-26s%-26s%-26s %7s %7s %s\n",
            s->plan.scale.seeds, s->found.published ? "" : " (from other weights than these)", "", " E[R]", " KL",
            " l - l*", "particle", "weighted", "R_fresh");
    for (int i = 0; i < s->plan.cells; i++)
        if (s->plan.cell[i].seed == 0) print_row(s, &s->plan.cell[i], out);
    fputc('\n', out);
    claims_print(s->found.claim, EBM2D_CLAIMS, out);
    print_training(s, out);
}

static const char *const value_names[EBM2D_VALUES] = {"iteration",       "reward",          "kl",    "excess",
                                                      "particle_reward", "weighted_reward", "fresh", "fresh_error",
                                                      "short",           "short_error"};

static int write_csv(const study *s, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, s->out, "table.csv", error, room) || atomic_open(&f, path, error, room)) return -1;
    atomic_print(&f, "group,dataset,half_plane,beta,method,seeds");
    for (int v = EBM2D_REWARD; v <= EBM2D_WEIGHTED; v++) atomic_print(&f, ",%s,%s_se", value_names[v], value_names[v]);
    atomic_print(&f, ",fresh,fresh_se,short,short_se,start_reward,best_reward,best_kl,best_loss,known_reward,known_kl,"
                     "known_excess,known_particle_reward,known_weighted_reward,known_fresh,known_short\n");
    for (int i = 0; i < s->plan.cells; i++) {
        const ebm2d_cell *c = &s->plan.cell[i];
        if (c->seed) continue;
        ebm2d_reference r = ebm2d_reference_of(c);
        const double rest[] = {ebm2d_last(c, EBM2D_FRESH),
                               ebm2d_last(c, EBM2D_FRESH_ERROR),
                               ebm2d_last(c, EBM2D_SHORT),
                               ebm2d_last(c, EBM2D_SHORT_ERROR),
                               c->ref_reward,
                               c->best_reward,
                               c->best_kl,
                               c->best_loss,
                               r.reward,
                               r.kl,
                               r.excess,
                               r.particle,
                               r.weighted,
                               r.fresh,
                               r.reduced};
        atomic_print(&f, "%s,%s,%s,%g,\"%s\",%d", ebm2d_group_names[c->group], ebm2d_dataset_names[c->data],
                     ebm2d_half_names[c->half], c->beta, ebm2d_method_names[c->method],
                     over_seeds(s, c, EBM2D_REWARD).n);
        for (int v = EBM2D_REWARD; v <= EBM2D_WEIGHTED; v++) {
            experiment_mean m = over_seeds(s, c, v);
            experiment_field(&f, m.mean);
            experiment_field(&f, m.error);
        }
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++) experiment_field(&f, rest[k]);
        atomic_print(&f, "\n");
    }
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- summary.json */

static void put_cell(json_writer *w, const ebm2d_cell *c)
{
    json_open_object(w, NULL);
    json_put_text(w, "group", ebm2d_group_names[c->group]);
    json_put_text(w, "dataset", ebm2d_dataset_names[c->data]);
    json_put_text(w, "half_plane", ebm2d_half_names[c->half]);
    json_put_number(w, "beta", c->beta);
    json_put_text(w, "method", ebm2d_method_names[c->method]);
    json_put_whole(w, "seed", c->seed);
    json_put_number(w, "start_reward", c->ref_reward);
    json_put_number(w, "best_reward", c->best_reward);
    json_put_number(w, "best_kl", c->best_kl);
    json_put_number(w, "best_loss", c->best_loss);
    for (int v = 0; v < EBM2D_VALUES; v++) json_put_numbers(w, value_names[v], c->value[v], c->evaluations);
    json_close(w);
}

static void put_chains(json_writer *w, const study *s)
{
    static const char *const names[EBM2D_STUDIED] = {"ImpDiff", "SOSMC-ULA", "pre-trained"};
    const ebm2d_evidence *e = &s->found.evidence;
    json_open_list(w, "circles");
    for (int i = 0; i < EBM2D_STUDIED; i++) {
        const ebm2d_masses *m = &s->found.masses[i];
        const ebm2d_sample *x = &s->found.sample[i];
        json_open_object(w, NULL);
        json_put_text(w, "model", names[i]);
        json_put_number(w, "logz", m->logz);
        json_put_number(w, "reward", m->reward);
        json_put_number(w, "inner_mass", m->inner);
        json_put_number(w, "reward_inner", m->reward_inner);
        json_put_number(w, "reward_outer", m->reward_outer);
        json_put_number(w, "inner_share_of_chains",
                        ebm2d_inner_share(&x->snapshot[2 * (size_t)(x->snapshots - 1) * (size_t)x->chains], x->chains));
        if (i < EBM2D_PAPER_METHODS) {
            json_put_number(w, "reached", e->reached[i]);
            json_put_number(w, "median_hit", e->median_hit[i]);
            json_put_number(w, "gradient_norm_spread", e->norm_spread[i].mean);
            json_put_number(w, "particle_reward_gap", e->gap[i]);
            json_put_number(w, "early_reward", e->windows[i].early);
            json_put_number(w, "late_reward", e->windows[i].late);
            json_put_number(w, "change", e->windows[i].change);
            json_put_number(w, "change_error", e->windows[i].error);
        }
        json_close(w);
    }
    json_close(w);
    json_put_number(w, "reached_by_step", e->reached_by);
    json_put_number(w, "ring_changes", e->ring_changes);
    json_put_numbers(w, "start_inner_share", s->found.start_inner, 2);
    json_put_numbers(w, "start_particle_reward", s->found.start_reward, 2);
    json_put_number(w, "ring_bias", e->ring_bias);
    json_put_number(w, "start_fresh", e->fresh);
    json_put_number(w, "start_fresh_error", e->fresh_error);
}

static void put_training(json_writer *w, const ebm2d_training *t, ebm2d_dataset data)
{
    static const char *const names[EBM2D_TRAININGS] = {"contrastive_divergence", "weighted"};
    char verdict[256];
    json_open_object(w, NULL);
    json_put_text(w, "dataset", ebm2d_dataset_names[data]);
    json_put_number(w, "bound", t->bound);
    for (int m = 0; m < EBM2D_TRAININGS; m++) {
        json_open_object(w, names[m]);
        json_put_number(w, "loglik", t->of[m].loglik);
        json_put_number(w, "logz", t->of[m].logz);
        json_put_number(w, "edge", t->of[m].edge);
        json_put_number(w, "evaluations", t->of[m].evaluations);
        if (m == EBM2D_WEIGHTS) {
            json_put_number(w, "seconds", t->seconds);
            json_put_number(w, "running_loglik", t->running);
            json_put_number(w, "logz_error", t->logz_error);
        }
        json_close(w);
    }
    json_put_text(w, "verdict", ebm2d_training_verdict(t, data, verdict, sizeof verdict));
    json_close(w);
}

static int write_summary(const study *s, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    const ebm2d_scale *scale = &s->plan.scale;
    if (files_join(path, s->out, "summary.json", error, room) || atomic_open(&f, path, error, room)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "experiment", "ebm2d");
    json_put_text(&w, "models", s->models);
    json_put_truth(&w, "published_circles_model", s->found.published);
    json_put_whole(&w, "particles", scale->particles);
    json_put_whole(&w, "seeds", scale->seeds);
    json_put_whole(&w, "iterations", scale->trial_iterations);
    claims_json(&w, s->found.claim, EBM2D_CLAIMS);
    put_chains(&w, s);
    json_open_list(&w, "training");
    for (int d = 0; d < EBM2D_DATASETS; d++)
        if (s->found.training[d].made) put_training(&w, &s->found.training[d], (ebm2d_dataset)d);
    json_close(&w);
    json_open_list(&w, "cells");
    for (int i = 0; i < s->plan.cells; i++) put_cell(&w, &s->plan.cell[i]);
    json_close(&w);
    json_close(&w);
    return atomic_close(&f, error, room);
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
    if (!s->o->quiet) print_findings(s, stdout);
    if (write_csv(s, error, sizeof error) || write_summary(s, error, sizeof error) ||
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
    if (options->quick && options->full)
        return complain(SOSMC_EXIT_USAGE, "--quick and --full exclude each other; expected one of them");
    if (options->budget_seconds > 0)
        return complain(SOSMC_EXIT_USAGE,
                        "--budget-seconds belongs to langevin; ebm2d has a fixed number of iterations");
    return reproduce_ebm2d_scaled(options, &scale);
}
