/* mnist_plan.c: which cells the experiment with pictures has, from which run files, and what they cost.
 *
 * The pairs, the sweeps and the constants in their run files are those of the authors' program; "paper" is what the paper says instead.
 * Invariant: two cells of the same start, reward and seed differ by what their settings say and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnist_cells.h"

const char *const mnist_reward_names[MNIST_REWARDS] = {"bright", "dark", "half"};
const char *const mnist_method_names[MNIST_METHODS] = {"ImpDiff", "SOSMC-ULA"};
const char *const mnist_group_names[MNIST_GROUPS] = {"pair", "sweep", "paper", "reduced", "better"};
const double mnist_betas[MNIST_BETAS] = {5, 2, 1, 0.5};

/* ---------------------------------------------------------------------------- settings */

/* The run files, and the chains that the experiment draws before and after a run, which no run file has. */
static const mnist_setting settings[MNIST_SETTINGS] = {
    [MNIST_PAIR_BRIGHT] = {"pair-bright.yaml", "sampler-256.yaml", "purify-bright.yaml", 192, 256},
    [MNIST_PAIR_HALF] = {"pair-half.yaml", "sampler-256.yaml", "purify-half.yaml", 192, 1000},
    [MNIST_SWEEPS] = {"sweep.yaml", "sampler.yaml", NULL, 192, 512},
    [MNIST_PAPER_SWEEPS] = {"paper.yaml", "sampler.yaml", NULL, 192, 512},
    [MNIST_SMALL] = {"reduced.yaml", "sampler-256.yaml", NULL, 128, 256},
    [MNIST_SMALL_COLD] = {"reduced-cold.yaml", "sampler-256.yaml", "purify-reduced.yaml", 128, 256},
    [MNIST_COLD_TARGET] = {"cold-target.yaml", "sampler-256.yaml", NULL, 192, 256}};

/* A run file with its defaults; NULL with a sentence. */
static config *resolved(const mnist_plan *plan, const char *file, char *error, size_t room)
{
    experiment_file f = experiment_load(plan->settings, file);
    if (f.c && config_resolve(f.c, f.error, sizeof f.error) == 0) return f.c;
    config_free(f.c);
    (void)files_fail(error, room, "%s", f.error);
    return NULL;
}

/* The steps that a start's run file makes: its first iteration does not move. */
static int read_steps(const mnist_plan *plan, const char *file, int *steps, char *error, size_t room)
{
    config *c = resolved(plan, file, error, room);
    if (!c) return -1;
    *steps = (int)(config_integer(c, "scheme.sweeps") * (config_integer(c, "iterations") - 1));
    config_free(c);
    return 0;
}

static int read_setting(const mnist_plan *plan, mnist_setting *s, char *error, size_t room)
{
    config *c = resolved(plan, s->file, error, room);
    if (!c) return -1;
    s->particles = (int)config_integer(c, "particles");
    s->iterations = (int)config_integer(c, "iterations");
    s->rate = config_number(c, "optimiser.rate");
    s->gamma = config_number(c, "kernel.step");
    s->noise = config_number(c, "kernel.noise");
    s->threshold = config_number(c, "resampling.threshold");
    s->every = (int)config_integer(c, "evaluate.every");
    s->chains = (int)config_integer(c, "evaluate.chains");
    s->steps = (int)config_integer(c, "evaluate.steps");
    config_free(c);
    if (read_steps(plan, s->sampler, &s->warm, error, room)) return -1;
    return s->purifier ? read_steps(plan, s->purifier, &s->purify, error, room) : 0;
}

int mnist_plan_open(mnist_plan *plan, char *error, size_t room)
{
    int rc = experiment_find("mnist", settings[0].file, plan->settings, error, room);
    memcpy(plan->setting, settings, sizeof settings);
    for (int i = 0; rc == 0 && i < MNIST_SETTINGS; i++) rc = read_setting(plan, &plan->setting[i], error, room);
    return rc;
}

/* The scale on which the authors' program has a reward, as a factor of the paper's. */
static double authors_scale(mnist_reward reward) { return reward == MNIST_DARK ? 0.5 : reward == MNIST_HALF ? 2 : 1; }

/* ---------------------------------------------------------------------------- sizes */

mnist_scale mnist_scale_full(void) { return (mnist_scale){.full = 1, .paper = 1, .seeds = 3}; }

mnist_scale mnist_scale_default(void) { return (mnist_scale){.particles = 1000, .least_every = 250}; }

mnist_scale mnist_scale_quick(void) { return (mnist_scale){.reduced = 1, .least_every = 100, .figure_steps = 256}; }

static void bound(int *value, int most)
{
    if (most > 0 && *value > most) *value = most;
}

static void shrink(mnist_setting *s, const mnist_scale *scale)
{
    bound(&s->particles, scale->particles);
    bound(&s->iterations, scale->iterations);
    bound(&s->warm, scale->warm);
    bound(&s->purify, scale->purify);
    bound(&s->chains, scale->chains);
    bound(&s->steps, scale->steps);
    bound(&s->final_chains, scale->final_chains);
    bound(&s->final_steps, scale->final_steps);
    if (s->every < scale->least_every) s->every = scale->least_every;
}

/* ---------------------------------------------------------------------------- the table of cells */

static void add(mnist_plan *plan, mnist_file setting, mnist_cell cell)
{
    cell.set = plan->setting[setting];
    shrink(&cell.set, &plan->scale);
    plan->cell[plan->cells++] = cell;
}

static void add_pairs(mnist_plan *plan)
{
    static const mnist_reward rewards[] = {MNIST_BRIGHT, MNIST_HALF};
    static const mnist_file files[] = {MNIST_PAIR_BRIGHT, MNIST_PAIR_HALF};
    for (int r = 0; r < 2; r++)
        for (int m = 0; m < MNIST_METHODS; m++)
            add(plan, files[r],
                (mnist_cell){.group = MNIST_PAIR,
                             .reward = rewards[r],
                             .method = (mnist_method)m,
                             .beta = 1,
                             .scale = authors_scale(rewards[r])});
}

static void add_sweeps(mnist_plan *plan, mnist_group group)
{
    int more = group == MNIST_SWEEP ? plan->scale.seeds : 1; /* what the re-run is compared with */
    for (int r = 0; r < MNIST_REWARDS; r++)
        for (int b = 0; b < MNIST_BETAS; b++)
            for (int m = 0; m < MNIST_METHODS; m++)
                for (int seed = 0; seed < (m == MNIST_SOSMC && more > 1 ? more : 1); seed++)
                    add(plan, group == MNIST_PAPER ? MNIST_PAPER_SWEEPS : MNIST_SWEEPS,
                        (mnist_cell){.group = group,
                                     .reward = (mnist_reward)r,
                                     .method = (mnist_method)m,
                                     .beta = mnist_betas[b],
                                     .scale = group == MNIST_PAPER ? 1 : authors_scale((mnist_reward)r),
                                     .seed = seed});
}

static void add_reduced(mnist_plan *plan)
{
    static const struct {
        mnist_reward reward;
        mnist_method method;
        int cold;
    } rows[] = {{MNIST_BRIGHT, MNIST_SOSMC, 0},   {MNIST_BRIGHT, MNIST_IMPDIFF, 0}, {MNIST_BRIGHT, MNIST_SOSMC, 1},
                {MNIST_BRIGHT, MNIST_IMPDIFF, 1}, {MNIST_HALF, MNIST_SOSMC, 0},     {MNIST_HALF, MNIST_IMPDIFF, 0},
                {MNIST_DARK, MNIST_SOSMC, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(plan, rows[i].cold ? MNIST_SMALL_COLD : MNIST_SMALL,
            (mnist_cell){.group = MNIST_REDUCED,
                         .reward = rows[i].reward,
                         .method = rows[i].method,
                         .beta = 1,
                         .scale = authors_scale(rows[i].reward),
                         .label = rows[i].cold ? "cold" : NULL});
}

/* Settings in which the weights do something and the pictures stay digits, with both methods. */
static void add_better(mnist_plan *plan)
{
    static const struct {
        const char *label;
        mnist_reward reward;
        double beta;
    } rows[] = {
        {"cold target", MNIST_HALF, 0.01}, {"cold target", MNIST_HALF, 0.03}, {"cold target", MNIST_BRIGHT, 0.01}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int m = 0; m < MNIST_METHODS; m++)
            add(plan, MNIST_COLD_TARGET,
                (mnist_cell){.group = MNIST_BETTER,
                             .reward = rows[i].reward,
                             .method = (mnist_method)m,
                             .beta = rows[i].beta,
                             .scale = authors_scale(rows[i].reward),
                             .label = rows[i].label});
}

static int costliest_first(const void *a, const void *b)
{
    double x = mnist_cell_cost(a), y = mnist_cell_cost(b);
    return (x < y) - (x > y);
}

int mnist_plan_cells(mnist_plan *plan, char *error, size_t room)
{
    if (plan->scale.seeds > MNIST_SEEDS)
        return files_fail(error, room, "--seeds is %d; expected at most %d", plan->scale.seeds, (int)MNIST_SEEDS);
    plan->cells = 0;
    plan->cell = calloc(MNIST_CELLS, sizeof *plan->cell);
    if (!plan->cell) return files_fail(error, room, "out of memory");
    if (plan->scale.reduced) {
        add_reduced(plan);
    } else {
        add_pairs(plan);
        add_sweeps(plan, MNIST_SWEEP);
        if (plan->scale.paper) add_sweeps(plan, MNIST_PAPER);
        add_better(plan);
    }
    qsort(plan->cell, (size_t)plan->cells, sizeof *plan->cell, costliest_first);
    return 0;
}

void mnist_cell_forget(mnist_cell *c)
{
    for (int i = 0; i < MNIST_VALUES; i++) free(c->value[i]);
    for (int i = 0; i < MNIST_SERIES; i++) free(c->series[i]);
    for (int i = 0; i < MNIST_CLOUDS; i++) free(c->cloud[i]);
    memset(c->value, 0, sizeof c->value);
    memset(c->series, 0, sizeof c->series);
    memset(c->cloud, 0, sizeof c->cloud);
    c->evaluations = c->steps = c->clouds = 0;
}

void mnist_plan_free(mnist_plan *plan)
{
    for (int i = 0; plan->cell && i < plan->cells; i++) mnist_cell_forget(&plan->cell[i]);
    free(plan->cell);
    known_close(&plan->known);
    plan->cell = NULL;
    plan->cells = 0;
}

/* ---------------------------------------------------------------------------- costs */

/* An update costs about two of them: energy and gradient, half of it for the parameters' gradient, half for E_0. */
double mnist_cell_cost(const mnist_cell *c)
{
    const mnist_setting *s = &c->set;
    double looks = (double)s->iterations / s->every + 1;
    return 2.0 * s->particles * s->iterations + looks * s->chains * s->steps + (double)s->final_chains * s->final_steps;
}

void mnist_start_name(const mnist_cell *c, int purified, char out[MNIST_NAME])
{
    const mnist_setting *s = &c->set;
    int used = snprintf(out, MNIST_NAME, "n%d-sampler%d", s->particles, s->warm);
    if (purified)
        used += snprintf(out + used, (size_t)(MNIST_NAME - used), "-ula%d-step%g-noise%g", s->purify, s->gamma,
                         s->noise);
    if (c->seed > 0) (void)snprintf(out + used, (size_t)(MNIST_NAME - used), "-seed%d", c->seed);
}

static int same_start(const mnist_cell *a, const mnist_cell *b)
{
    char x[MNIST_NAME], y[MNIST_NAME];
    mnist_start_name(a, a->set.purify > 0, x);
    mnist_start_name(b, b->set.purify > 0, y);
    return strcmp(x, y) == 0;
}

int mnist_start_is_first(const mnist_plan *plan, int cell)
{
    int first = 1;
    for (int i = 0; i < cell; i++) first &= !same_start(&plan->cell[i], &plan->cell[cell]);
    return first;
}

double mnist_start_cost(const mnist_plan *plan)
{
    double cost = 0;
    for (int i = 0; i < plan->cells; i++) {
        const mnist_setting *s = &plan->cell[i].set;
        if (mnist_start_is_first(plan, i)) cost += (double)s->particles * (s->warm + s->purify);
    }
    return cost;
}
