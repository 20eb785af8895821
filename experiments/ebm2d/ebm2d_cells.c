/* ebm2d_cells.c: the cells of the 2-D energy-based experiment: a table of them, their run files (experiments/ebm2d, with what
 * a cell sets), and what they left.
 *
 * Settings are those of the published programs. Labels are theirs too: the evaluation at K belongs to theta after K + 1
 * updates. A sweep cell with the reduced evaluation runs from one evaluation to the next and stops there for its chains,
 * because the run itself has room for one kind of them; continuing a run does not change its numbers. */
#include "ebm2d_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ebm2d_extras.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

const char *const ebm2d_dataset_names[EBM2D_DATASETS] = {"circles", "two_moons", "blobs"};
const char *const ebm2d_half_names[EBM2D_HALVES] = {"lower", "upper", "left", "right"};
const char *const ebm2d_method_names[EBM2D_METHODS] = {"ImpDiff", "SOSMC-ULA", "SOSMC-ULA, tempered",
                                                       "sosmc tune --kernel rwm"};
const char *const ebm2d_group_names[EBM2D_GROUPS] = {"trial", "sweep", "pair"};
const double ebm2d_normals[EBM2D_HALVES][2] = {{0, -1}, {0, 1}, {-1, 0}, {1, 0}};
const double ebm2d_betas[EBM2D_BETAS] = {0.1, 0.25, 0.5, 1, 5};
static const char *const method_words[EBM2D_METHODS] = {"impdiff", "sosmc", "tempered", "ours"};

/* ---------------------------------------------------------------------------- sizes */

ebm2d_scale ebm2d_scale_default(void)
{
    return (ebm2d_scale){.particles = 10000,
                         .seeds = 2,
                         .nodes = 400,
                         .chain_steps = 20000,
                         .smc_steps = 500,
                         .trial_iterations = 1001,
                         .trial_every = 100,
                         .sweep_iterations = 5001,
                         .sweep_every = 1000,
                         .fresh_chains = 1000,
                         .burn_in = 15000,
                         .averaged = 5000,
                         .short_burn_in = 500,
                         .short_averaged = 4500,
                         .study_chains = 3000,
                         .study_steps = 30000,
                         .terminal_chains = 2500,
                         .terminal_steps = 5000,
                         .paper = 1};
}

ebm2d_scale ebm2d_scale_full(void)
{
    ebm2d_scale s = ebm2d_scale_default();
    s.seeds = 5;
    s.full = 1;
    return s;
}

ebm2d_scale ebm2d_scale_quick(void)
{
    ebm2d_scale s = ebm2d_scale_default();
    s.particles = 1000;
    s.nodes = 100;
    s.chain_steps = 300;
    s.smc_steps = 60;
    s.trial_iterations = 101;
    s.trial_every = 10;
    s.fresh_chains = 100;
    s.burn_in = 150;
    s.averaged = 50;
    s.study_chains = 300;
    s.study_steps = 1000;
    s.paper = 0;
    return s;
}

/* ---------------------------------------------------------------------------- the table of cells */

static void add(ebm2d_plan *plan, ebm2d_cell cell)
{
    const ebm2d_scale *s = &plan->scale;
    int sweep = cell.group == EBM2D_SWEEP;
    cell.iterations = sweep ? s->sweep_iterations : s->trial_iterations;
    cell.every = sweep ? s->sweep_every : s->trial_every;
    cell.fresh = cell.seed == 0 && cell.group != EBM2D_PAIR && (int)cell.method < EBM2D_PAPER_METHODS;
    cell.reduced = cell.fresh && sweep;
    plan->cell[plan->cells++] = cell;
}

static void add_sweep(ebm2d_plan *plan, int seed)
{
    for (int b = 0; b < EBM2D_BETAS; b++)
        for (int m = 0; m < EBM2D_PAPER_METHODS; m++)
            add(plan,
                (ebm2d_cell){.group = EBM2D_SWEEP, .method = (ebm2d_method)m, .beta = ebm2d_betas[b], .seed = seed});
}

/* Three data sets, four half-planes, but not the pair that the paper has. */
static void add_pairs(ebm2d_plan *plan)
{
    static const double betas[] = {0.25, 1};
    for (int d = 0; d < EBM2D_DATASETS; d++)
        for (int h = 0; h < EBM2D_HALVES; h++)
            for (int b = 0; b < 2 && (d != EBM2D_CIRCLES || h != EBM2D_LOWER); b++)
                for (int m = 0; m < EBM2D_PAPER_METHODS; m++)
                    add(plan, (ebm2d_cell){.group = EBM2D_PAIR,
                                           .data = (ebm2d_dataset)d,
                                           .half = (ebm2d_half)h,
                                           .method = (ebm2d_method)m,
                                           .beta = betas[b]});
}

static int read_recipe(ebm2d_plan *plan, int data, char *error, size_t room)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s.yaml", ebm2d_dataset_names[data]);
    experiment_file f = experiment_load(plan->settings, name);
    plan->data[data] = f.c;
    if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) return files_fail(error, room, "%s", f.error);
    if (job_recipe(f.c, &plan->recipe[data]) == 0) return 0;
    return files_fail(error, room, "%s/%s: expected points of a generator as objective.data", plan->settings, name);
}

int ebm2d_plan_open(ebm2d_plan *plan, char *error, size_t room)
{
    int rc = experiment_find("ebm2d", "tune.yaml", plan->settings, error, room);
    for (int d = 0; rc == 0 && d < EBM2D_DATASETS; d++) rc = read_recipe(plan, d, error, room);
    return rc;
}

int ebm2d_plan_cells(ebm2d_plan *plan, char *error, size_t room)
{
    size_t per_seed = EBM2D_METHODS + EBM2D_PAPER_METHODS * EBM2D_BETAS;
    size_t pairs = 2 * EBM2D_DATASETS * EBM2D_HALVES * EBM2D_PAPER_METHODS;
    plan->cells = 0;
    plan->cell = calloc((size_t)plan->scale.seeds * per_seed + pairs, sizeof *plan->cell);
    if (!plan->cell) return files_fail(error, room, "out of memory");
    for (int seed = 0; seed < plan->scale.seeds; seed++) {
        if (plan->scale.full) add_sweep(plan, seed);
        for (int m = 0; m < EBM2D_METHODS; m++)
            add(plan,
                (ebm2d_cell){.group = EBM2D_TRIAL, .method = (ebm2d_method)m, .beta = EBM2D_TRIAL_BETA, .seed = seed});
    }
    if (plan->scale.full) add_pairs(plan);
    return 0;
}

static void forget(ebm2d_cell *c)
{
    for (int i = 0; i < EBM2D_VALUES; i++) {
        free(c->value[i]);
        c->value[i] = NULL;
    }
    for (int i = 0; i < EBM2D_SERIES; i++) {
        free(c->series[i]);
        c->series[i] = NULL;
    }
    c->evaluations = c->steps = 0;
}

void ebm2d_plan_free(ebm2d_plan *plan)
{
    for (int i = 0; plan->cell && i < plan->cells; i++) forget(&plan->cell[i]);
    for (int d = 0; d < EBM2D_DATASETS; d++) {
        config_free(plan->data[d]);
        plan->data[d] = NULL;
    }
    free(plan->cell);
    known_close(&plan->known);
    plan->cell = NULL;
    plan->cells = 0;
}

/* ---------------------------------------------------------------------------- run files */

static const char *const method_files[EBM2D_METHODS] = {"impdiff.yaml", "sosmc.yaml", "sosmc.yaml", "tune.yaml"};

int ebm2d_starts_by_smc(ebm2d_method method) { return method == EBM2D_TEMPERED || method == EBM2D_OURS; }

static int split_of(const ebm2d_cell *c) { return c->method == EBM2D_OURS ? EBM2D_SPLIT : 1; }
static int iterations_of(const ebm2d_cell *c) { return (c->iterations - 1) * split_of(c) + 1; }
static int particles_of(const ebm2d_scale *s, const ebm2d_cell *c)
{
    return c->method == EBM2D_OURS ? s->particles * 2 / 5 : s->particles;
}

/* An iteration passes forward, backward, through the parameters and through the reference, and a random walk once more
 * forward; a step of a chain forward and backward. */
double ebm2d_cell_cost(const ebm2d_plan *plan, const ebm2d_cell *c)
{
    const ebm2d_scale *s = &plan->scale;
    double steps = (c->fresh ? s->burn_in + s->averaged : 0) + (c->reduced ? s->short_burn_in + s->short_averaged : 0);
    int evaluations = 1 + (c->iterations - 1) / c->every;
    double passes = c->method == EBM2D_OURS ? 5 : 4;
    return passes * particles_of(s, c) * iterations_of(c) + 2.0 * evaluations * s->fresh_chains * steps;
}

/* A smaller `sosmc tune --kernel rwm` has its ramp, warm-up and cosine in the same proportions. */
static void shrink_tune(experiment_file *f, int iterations)
{
    experiment_set(f, "objective.ramp=%d", iterations / 2);
    experiment_set(f, "optimiser.schedule.a=%d", iterations > 1 ? iterations - 1 : 1);
    experiment_set(f, "optimiser.schedule.warmup=%d", iterations * 35 / 100);
}

/* A cloud that has collapsed goes on: an experiment shows what methods do. */
experiment_file ebm2d_cell_file(const ebm2d_plan *plan, const ebm2d_cell *c)
{
    const ebm2d_scale *s = &plan->scale;
    const double *normal = ebm2d_normals[c->half];
    experiment_file f = experiment_load(plan->settings, method_files[c->method]);
    experiment_set(&f, "objective.beta=%.17g", c->beta);
    experiment_set(&f, "objective.reward.normal=[%g, %g]", normal[0], normal[1]);
    experiment_set(&f, "init.exact=%s", ebm2d_starts_by_smc(c->method) ? "true" : "false");
    experiment_set(&f, "particles=%d", particles_of(s, c));
    experiment_set(&f, "iterations=%d", iterations_of(c));
    if (c->method == EBM2D_OURS && !s->paper) shrink_tune(&f, iterations_of(c));
    experiment_set(&f, "seed=%d", c->seed);
    experiment_set(&f, "evaluate.every=%d", c->every * split_of(c));
    experiment_set(&f, "evaluate.nodes=%d", s->nodes);
    experiment_set(&f, "evaluate.chains=%d", c->fresh ? s->fresh_chains : 0);
    experiment_set(&f, "evaluate.burn_in=%d", s->burn_in);
    experiment_set(&f, "evaluate.averaged=%d", s->averaged);
    experiment_set(&f, "output.report=false");
    experiment_set(&f, "on_collapse=continue");
    return f;
}

/* Uniform points of the box and unadjusted chains, as published (an iteration more than there are moves: the first does not
 * move); or, as `sosmc tune --kernel rwm` does, tempering from a normal law, which puts the right share of particles everywhere. */
static experiment_file start_file(const ebm2d_plan *plan, int smc)
{
    const ebm2d_scale *s = &plan->scale;
    experiment_file f = experiment_load(plan->settings, smc ? "tune-start.yaml" : "chains.yaml");
    if (smc) experiment_set(&f, "objective.steps=%d", s->smc_steps);
    experiment_set(&f, "particles=%d", s->particles);
    experiment_set(&f, "iterations=%d", smc ? s->smc_steps + s->smc_steps / 5 : s->chain_steps + 1);
    experiment_set(&f, "on_collapse=continue");
    return f;
}

static void cell_name(const void *context, int cell, char out[GRID_NAME])
{
    const ebm2d_cell *c = &((const ebm2d_plan *)context)->cell[cell];
    (void)snprintf(out, GRID_NAME, "%s-%s-%s-beta%g-%s-seed%d", ebm2d_group_names[c->group],
                   ebm2d_dataset_names[c->data], ebm2d_half_names[c->half], c->beta, method_words[c->method], c->seed);
}

static int start_directory(const ebm2d_plan *plan, ebm2d_dataset data, int smc, const char *file, char out[FILES_PATH],
                           char *error, size_t room)
{
    char relative[96];
    (void)snprintf(relative, sizeof relative, "start/%s-%s%s%s", ebm2d_dataset_names[data], smc ? "smc" : "chains",
                   *file ? "/" : "", file);
    return files_join(out, plan->out, relative, error, room);
}

int ebm2d_start_file(const ebm2d_plan *plan, ebm2d_dataset data, int smc, char out[FILES_PATH], char *error,
                     size_t room)
{
    return start_directory(plan, data, smc, "particles.npz", out, error, room);
}

/* ---------------------------------------------------------------------------- running */

const char *ebm2d_activation(const char *model)
{
    const char *dot = strrchr(model, '.');
    return dot && strcmp(dot, ".npz") == 0 ? "silu" : NULL;
}

static void set_model(experiment_file *f, const char *model)
{
    experiment_set(f, "model.file=%s", model);
    if (ebm2d_activation(model)) experiment_set(f, "model.activation=%s", ebm2d_activation(model));
}

/* With the paths of its model and of its particles. */
static int run_cell_file(const ebm2d_plan *plan, const ebm2d_cell *c, const char *init, const char *dir)
{
    experiment_file f = ebm2d_cell_file(plan, c);
    set_model(&f, plan->model[c->data]);
    experiment_set(&f, "init.file=%s", init);
    return experiment_go(&f, dir, 1);
}

int ebm2d_start_run(const ebm2d_plan *plan, ebm2d_dataset data, int smc, int threads, int quiet)
{
    char dir[FILES_PATH], error[SENTENCE];
    if (start_directory(plan, data, smc, "", dir, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    experiment_file f = start_file(plan, smc);
    experiment_set(&f, "threads=%d", threads);
    set_model(&f, plan->model[data]);
    return experiment_go(&f, dir, quiet);
}

/* A cell under way. */
typedef struct {
    const ebm2d_plan *plan;
    const ebm2d_cell *cell;
    char dir[FILES_PATH], init[FILES_PATH];
} cell_run;

static int next_evaluation(const void *context, int k)
{
    const ebm2d_cell *c = ((const cell_run *)context)->cell;
    return k < 0 ? 0 : k + c->every < c->iterations ? k + c->every : c->iterations;
}

static int run_until(void *context, int iterations)
{
    const cell_run *r = context;
    ebm2d_cell stage = *r->cell;
    stage.iterations = iterations;
    return run_cell_file(r->plan, &stage, r->init, r->dir);
}

/* The reduced evaluation of the network that the run has just left. */
static int evaluate_shortly(void *context, int k, double value[2], char *error, size_t room)
{
    const cell_run *r = context;
    const ebm2d_scale *s = &r->plan->scale;
    char path[FILES_PATH];
    ebm2d_study study = {.chains = s->fresh_chains,
                         .burn_in = s->short_burn_in,
                         .averaged = s->short_averaged,
                         .seed = 1000003U * (uint64_t)(k + 1) + (uint64_t)r->cell->seed,
                         .normal = ebm2d_normals[r->cell->half],
                         .threads = 1};
    return files_join(path, r->dir, "model.safetensors", error, room) ||
                   ebm2d_study_reward(&study, path, &value[0], &value[1], error, room)
               ? -1
               : 0;
}

static int run_in_stages(cell_run *r, const char *name)
{
    return experiment_run_in_stages(&(experiment_stages){.dir = r->dir,
                                                         .file = "short.csv",
                                                         .columns = "iteration,short,short_error",
                                                         .name = name,
                                                         .values = 2,
                                                         .iterations = r->cell->iterations,
                                                         .next = next_evaluation,
                                                         .run = run_until,
                                                         .look = evaluate_shortly,
                                                         .context = r});
}

static int run_cell(void *context, int cell, char *error, size_t room)
{
    ebm2d_plan *plan = context;
    char name[GRID_NAME];
    const grid g = ebm2d_grid(plan);
    cell_run r = {.plan = plan, .cell = &plan->cell[cell]};
    if (grid_path(&g, cell, NULL, r.dir, error, room) ||
        ebm2d_start_file(plan, r.cell->data, ebm2d_starts_by_smc(r.cell->method), r.init, error, room))
        return SOSMC_EXIT_IO;
    cell_name(plan, cell, name);
    return r.cell->reduced ? run_in_stages(&r, name) : run_cell_file(plan, r.cell, r.init, r.dir);
}

/* ---------------------------------------------------------------------------- reading */

/* Iterations of our settings in units of the paper's. */
static void count_as_published(const ebm2d_cell *c, double *k, int n)
{
    for (int i = 0; k && c->method == EBM2D_OURS && i < n; i++) k[i] /= EBM2D_SPLIT;
}

static int read_evaluations(ebm2d_cell *c, const char *dir, char *error, size_t room)
{
    static const char *const names[EBM2D_VALUES] = {
        "iteration", "reward", "kl", "excess", "particle_reward", "weighted_reward", "fresh", "fresh_error", "", ""};
    csv_table t;
    if (experiment_columns(dir, "evaluation.csv", names, EBM2D_VALUES, c->value, &c->evaluations, error, room) ||
        experiment_table(dir, "evaluation.csv", &t, error, room))
        return -1;
    count_as_published(c, c->value[EBM2D_K], c->evaluations);
    c->ref_reward = experiment_last(&t, "ref_reward");
    c->best_reward = experiment_last(&t, "best_reward");
    c->best_kl = experiment_last(&t, "best_kl");
    c->best_loss = experiment_last(&t, "best_loss");
    csv_free(&t);
    return 0;
}

static int read_trace(ebm2d_cell *c, const char *dir, char *error, size_t room)
{
    static const char *const names[EBM2D_SERIES] = {"iteration", "mean_score", "grad_norm", "ess"};
    if (experiment_columns(dir, "trace.csv", names, EBM2D_SERIES, c->series, &c->steps, error, room)) return -1;
    count_as_published(c, c->series[EBM2D_STEP], c->steps);
    return 0;
}

/* Put beside the evaluations of the same iteration. */
static int read_short(ebm2d_cell *c, const char *dir, char *error, size_t room)
{
    csv_table t;
    if (experiment_table(dir, "short.csv", &t, error, room)) return -1;
    const csv_column *k = csv_find(&t, "iteration"), *mean = csv_find(&t, "short"), *se = csv_find(&t, "short_error");
    for (int64_t r = 0; k && k->number && r < t.rows; r++)
        for (int i = 0; i < c->evaluations; i++) {
            if (c->value[EBM2D_K][i] != k->number[r]) continue;
            c->value[EBM2D_SHORT][i] = mean && mean->number ? mean->number[r] : NAN;
            c->value[EBM2D_SHORT_ERROR][i] = se && se->number ? se->number[r] : NAN;
        }
    csv_free(&t);
    return 0;
}

static int read_cell(void *context, int cell, char *error, size_t room)
{
    ebm2d_plan *plan = context;
    ebm2d_cell *c = &plan->cell[cell];
    char dir[FILES_PATH];
    const grid g = ebm2d_grid(plan);
    forget(c);
    if (grid_path(&g, cell, NULL, dir, error, room) || read_evaluations(c, dir, error, room) ||
        read_trace(c, dir, error, room))
        return -1;
    return c->reduced ? read_short(c, dir, error, room) : 0;
}

static double cell_cost(const void *context, int cell)
{
    const ebm2d_plan *plan = context;
    return ebm2d_cell_cost(plan, &plan->cell[cell]);
}

grid ebm2d_grid(ebm2d_plan *plan)
{
    return (grid){.out = plan->out,
                  .cells = plan->cells,
                  .name = cell_name,
                  .cost = cell_cost,
                  .run = run_cell,
                  .read = read_cell,
                  .context = plan};
}

int ebm2d_cell_model(const ebm2d_plan *plan, const ebm2d_cell *c, char out[FILES_PATH], char *error, size_t room)
{
    const grid g = {.out = plan->out, .name = cell_name, .context = (void *)plan};
    return grid_path(&g, (int)(c - plan->cell), "model.safetensors", out, error, room);
}

/* ---------------------------------------------------------------------------- looking up */

const ebm2d_cell *ebm2d_find(const ebm2d_plan *plan, ebm2d_group group, ebm2d_dataset data, ebm2d_half half,
                             double beta, ebm2d_method method, int seed)
{
    for (int i = 0; i < plan->cells; i++) {
        const ebm2d_cell *c = &plan->cell[i];
        if (c->group == group && c->data == data && c->half == half && c->beta == beta && c->method == method &&
            c->seed == seed)
            return c;
    }
    return NULL;
}

const ebm2d_cell *ebm2d_trial(const ebm2d_plan *plan, int method, int seed)
{
    return ebm2d_find(plan, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, (ebm2d_method)method, seed);
}

double ebm2d_last(const ebm2d_cell *c, ebm2d_value value)
{
    return c && c->evaluations > 0 ? c->value[value][c->evaluations - 1] : NAN;
}

experiment_mean ebm2d_over_seeds(const ebm2d_plan *plan, ebm2d_group group, ebm2d_dataset data, ebm2d_half half,
                                 double beta, ebm2d_method method, ebm2d_value value)
{
    experiment_mean m = {.mean = NAN, .sd = NAN, .error = NAN};
    double *all = malloc((size_t)plan->scale.seeds * sizeof *all);
    if (!all) return m;
    for (int seed = 0; seed < plan->scale.seeds; seed++)
        all[seed] = ebm2d_last(ebm2d_find(plan, group, data, half, beta, method, seed), value);
    m = experiment_mean_of(all, plan->scale.seeds);
    free(all);
    return m;
}

experiment_mean ebm2d_cell_mean(const ebm2d_plan *plan, const ebm2d_cell *c, ebm2d_value value)
{
    return ebm2d_over_seeds(plan, c->group, c->data, c->half, c->beta, c->method, value);
}
