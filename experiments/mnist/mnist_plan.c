/* mnist_plan.c: which cells the experiment with pictures has, with all their settings, and what they cost.
 *
 * The pairs, the sweeps and their constants are those of the authors' program; "paper" is what the paper says instead.
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

/* Of both sweeps in the authors' program, and the one that agrees best with the paper. */
static const mnist_setting sweep = {.particles = 1000,
                                    .iterations = 1000,
                                    .rate = 1e-4,
                                    .gamma = 3e-3,
                                    .noise = 1,
                                    .threshold = 0.9,
                                    .warm = 1000,
                                    .every = 50,
                                    .chains = 64,
                                    .steps = 512,
                                    .final_chains = 192,
                                    .final_steps = 512};

static mnist_setting pair_setting(mnist_reward reward)
{
    mnist_setting s = sweep;
    int half = reward == MNIST_HALF;
    s.particles = half ? 2000 : 10000;
    s.rate = half ? 2e-4 : 1e-4;
    s.gamma = half ? 3e-3 : 5e-3;
    s.noise = half ? 0.4 : 0.1;
    s.threshold = 0.95;
    s.warm = 256;
    s.purify = half ? 2000 : 1000;
    s.chains = half ? 128 : 64;
    s.steps = half ? 1000 : 128;
    s.final_steps = half ? 1000 : 256;
    return s;
}

static mnist_setting paper_setting(void)
{
    mnist_setting s = sweep;
    s.gamma = 5e-3;
    s.adapt_threshold = 0.95;
    s.adapt_factor = 1.01;
    s.adapt_max = 1e-2;
    return s;
}

static mnist_setting reduced_setting(int cold)
{
    mnist_setting s = sweep;
    s.particles = 128;
    s.iterations = 300;
    s.warm = 256;
    s.final_chains = 128;
    s.steps = s.final_steps = 256;
    if (!cold) return s;
    s.gamma = 5e-3;
    s.noise = 0.1;
    s.threshold = 0.95;
    s.purify = 300;
    return s;
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

static void add(mnist_plan *plan, mnist_cell cell)
{
    shrink(&cell.set, &plan->scale);
    plan->cell[plan->cells++] = cell;
}

static void add_pairs(mnist_plan *plan)
{
    static const mnist_reward rewards[] = {MNIST_BRIGHT, MNIST_HALF};
    for (int r = 0; r < 2; r++)
        for (int m = 0; m < MNIST_METHODS; m++)
            add(plan, (mnist_cell){.group = MNIST_PAIR,
                                   .reward = rewards[r],
                                   .method = (mnist_method)m,
                                   .beta = 1,
                                   .scale = authors_scale(rewards[r]),
                                   .set = pair_setting(rewards[r])});
}

static void add_sweeps(mnist_plan *plan, mnist_group group)
{
    int more = group == MNIST_SWEEP ? plan->scale.seeds : 1; /* what the re-run is compared with */
    for (int r = 0; r < MNIST_REWARDS; r++)
        for (int b = 0; b < MNIST_BETAS; b++)
            for (int m = 0; m < MNIST_METHODS; m++)
                for (int seed = 0; seed < (m == MNIST_SOSMC && more > 1 ? more : 1); seed++)
                    add(plan, (mnist_cell){.group = group,
                                           .reward = (mnist_reward)r,
                                           .method = (mnist_method)m,
                                           .beta = mnist_betas[b],
                                           .scale = group == MNIST_PAPER ? 1 : authors_scale((mnist_reward)r),
                                           .seed = seed,
                                           .set = group == MNIST_PAPER ? paper_setting() : sweep});
}

static void add_reduced(mnist_plan *plan)
{
    static const struct {
        mnist_reward reward;
        mnist_method method;
        int cold;
    } rows[] = {{MNIST_BRIGHT, MNIST_SOSMC, 0},   {MNIST_BRIGHT, MNIST_IMPDIFF, 0}, {MNIST_BRIGHT, MNIST_SOSMC, 1},
                {MNIST_BRIGHT, MNIST_IMPDIFF, 1}, {MNIST_HALF, MNIST_SOSMC, 0},     {MNIST_DARK, MNIST_SOSMC, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add(plan, (mnist_cell){.group = MNIST_REDUCED,
                               .reward = rows[i].reward,
                               .method = rows[i].method,
                               .beta = 1,
                               .scale = authors_scale(rows[i].reward),
                               .label = rows[i].cold ? "cold" : NULL,
                               .set = reduced_setting(rows[i].cold)});
}

/* A cold target, exp(-100 E), and steps so short that the particles are still digits at the end. The energy's scale is 100
 * times larger, so beta is as much smaller, and so is the rate, or the weights would be gone after one update. The sampler of
 * the fresh chains stays what it was: its step and clipping undo the temperature. */
static mnist_setting cold_setting(void)
{
    mnist_setting s = sweep;
    s.iterations = 300;
    s.rate = 3e-5;
    s.gamma = 1e-4;
    s.warm = 256;
    s.every = 100;
    s.steps = s.final_steps = 256;
    s.set[0] = "model.temperature=0.01";
    s.set[1] = "evaluate.step=0.1";
    s.set[2] = "evaluate.gradient_clip=3";
    return s;
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
            add(plan, (mnist_cell){.group = MNIST_BETTER,
                                   .reward = rows[i].reward,
                                   .method = (mnist_method)m,
                                   .beta = rows[i].beta,
                                   .scale = authors_scale(rows[i].reward),
                                   .label = rows[i].label,
                                   .set = cold_setting()});
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
