/* deblurring_plan.c: setups, methods and sizes of the deblurring experiment, and the list of its runs. Invariant: no two cells of
 * a plan have the same setup, method and seed. */
#include <math.h>
#include <stdlib.h>

#include "common/experiment.h"
#include "deblurring_cells.h"

const deblurring_setting deblurring_settings[DEBLURRING_SETUPS] = {
    {"A", DEBLURRING_GUITAR, 5, 0.47, 10},        {"B", DEBLURRING_FLOWER, 5, 0.47, 10},
    {"C", DEBLURRING_GUITAR, 10, 1, 30},          {"shapes", DEBLURRING_SHAPES, 5, 0.47, 10},
    {"texture", DEBLURRING_TEXTURE, 5, 0.47, 10},
};

/* The large step is 0.99 lambda, the bound that the step of the published run reaches. With exact weights the authors' program
 * resamples in nearly every iteration, so the ESS that its rule uses is always N and its step only grows. A threshold near
 * 0 does the same. */
#define MYPGD "mypgd.yaml"
#define MYULA "sosmc-myula.yaml"
#define LARGE_STEP "kernel.step=0.396"
#define ONLY_GROWS "adapt.threshold=1e-9"
#define NO_RULE "adapt=null"

const deblurring_recipe deblurring_recipes[DEBLURRING_METHODS] = {
    {"MYPGD", "no weights, step 0.01", MYPGD, {NULL}, 1, 0},
    {"SOSMC-MYULA", "weighed as if invariant, as published", MYULA, {NULL}, 1, 1},
    {"SOSMC-MYULA-ratio",
     "weighed exactly, both kernels at the new theta",
     MYULA,
     {"kernel.weight=ratio", ONLY_GROWS},
     1,
     1},
    {"SOSMC-MYULA-cached",
     "weighed exactly, forward kernel at the previous theta",
     MYULA,
     {"kernel.weight=cached", ONLY_GROWS},
     1,
     1},
    {"MYULA-0.396", "no weights, step 0.396", MYPGD, {LARGE_STEP}, 1, 0},
    {"SOSMC-MYULA-0.01", "as published, but the step stays 0.01", MYULA, {NO_RULE}, 1, 1},
    {"SOSMC-MYULA-0.396", "as published, but the step stays 0.396", MYULA, {NO_RULE, LARGE_STEP}, 1, 1},
    {"SOSMC-MYULA-few", "as published, a quarter of the particles", MYULA, {NULL}, 0.25, 1},
    {"SOSMC-MYULA-many", "as published, four times the particles", MYULA, {NULL}, 4, 1},
};

const char *const deblurring_value_names[DEBLURRING_VALUES] = {"iterations", "theta",       "mse",    "ssim",
                                                               "mean_mse",   "mean_ssim",   "step",   "ess",
                                                               "least_ess",  "resamplings", "seconds"};

/* ---------------------------------------------------------------------------- sizes */

deblurring_scale deblurring_scale_full(void)
{
    return (deblurring_scale){.published_size = 1,
                              .guitar = 1,
                              .c = 1,
                              .b = 1,
                              .seeds = 5,
                              .flower_rows = 292,
                              .flower_columns = 150,
                              .rows = 96,
                              .columns = 80,
                              .guitar_ablation = 1,
                              .particles = 20,
                              .iterations = 3000,
                              .theta = -15,
                              .every = 10};
}

deblurring_scale deblurring_scale_default(void)
{
    deblurring_scale s = deblurring_scale_full();
    s.c = s.b = s.guitar_ablation = 0;
    s.seeds = 2;
    return s;
}

/* From -15, 200 iterations lead nowhere. */
deblurring_scale deblurring_scale_quick(void)
{
    deblurring_scale s = deblurring_scale_default();
    s.published_size = s.guitar = 0;
    s.rows = 48;
    s.columns = 40;
    s.iterations = 200;
    s.theta = -4;
    return s;
}

/* ---------------------------------------------------------------------------- the list */

static int add(deblurring_plan *p, deblurring_setup setup, deblurring_method method, int seed, int ablation)
{
    if (deblurring_find(p, setup, method, seed)) return 0;
    if (p->cells == DEBLURRING_CELLS) return -1;
    p->cell[p->cells++] = (deblurring_cell){.setup = setup, .method = method, .seed = seed, .ablation = ablation};
    return 0;
}

static int add_pair(deblurring_plan *p, deblurring_setup setup, int seeds)
{
    int rc = 0;
    for (int seed = 0; seed < seeds; seed++)
        for (int m = DEBLURRING_MYPGD; m <= DEBLURRING_P; m++) rc |= add(p, setup, (deblurring_method)m, seed, 0);
    return rc;
}

/* Adds long runs first, so that no thread begins a long one at the end. */
static int list_cells(deblurring_plan *p)
{
    const deblurring_scale *s = &p->scale;
    int guitar = s->guitar && p->data, rc = 0;
    deblurring_setup ablated = guitar && s->guitar_ablation ? DEBLURRING_A : DEBLURRING_FLAT;
    for (int m = DEBLURRING_METHODS - 1; m > DEBLURRING_P; m--) rc |= add(p, ablated, (deblurring_method)m, 0, 1);
    if (guitar && s->c) { /* known.csv has values of these methods for setup C too */
        rc |= add(p, DEBLURRING_C, DEBLURRING_RATIO, 0, 1);
        rc |= add(p, DEBLURRING_C, DEBLURRING_LARGE_STEP, 0, 1);
    }
    if (guitar) rc |= add_pair(p, DEBLURRING_A, s->seeds);
    if (s->b || p->flower) rc |= add_pair(p, DEBLURRING_B, p->flower ? s->seeds : 1);
    if (guitar && s->c) rc |= add_pair(p, DEBLURRING_C, s->seeds);
    rc |= add_pair(p, DEBLURRING_FLAT, s->seeds < 2 ? s->seeds : 2);
    return rc | add_pair(p, DEBLURRING_GRAIN, 1);
}

static int take_picture(deblurring_plan *p, deblurring_picture what, char *error, size_t room)
{
    int flower = what == DEBLURRING_FLOWER;
    const char *photograph = what == DEBLURRING_GUITAR ? p->data : flower ? p->flower : NULL;
    if (p->truth[what]) return 0;
    p->rows[what] = photograph ? DEBLURRING_PHOTOGRAPH_ROWS : flower ? p->scale.flower_rows : p->scale.rows;
    p->columns[what] = photograph ? DEBLURRING_COLUMNS(what) : flower ? p->scale.flower_columns : p->scale.columns;
    p->truth[what] = malloc((size_t)p->rows[what] * (size_t)p->columns[what] * sizeof(double));
    if (!p->truth[what]) return files_fail(error, room, "out of memory for a picture");
    if (photograph) return deblurring_read_photograph(photograph, what, p->truth[what], error, room);
    deblurring_draw(what, p->rows[what], p->columns[what], p->truth[what]);
    return 0;
}

int deblurring_plan_cells(deblurring_plan *plan, char *error, size_t room)
{
    plan->cells = 0;
    if (plan->scale.seeds > DEBLURRING_SEEDS)
        return files_fail(error, room, "%d seeds were asked for; expected at most %d", plan->scale.seeds,
                          (int)DEBLURRING_SEEDS);
    if (experiment_find("deblurring", MYPGD, plan->files, error, room)) return -1;
    if (list_cells(plan)) return files_fail(error, room, "there are more runs than %d", (int)DEBLURRING_CELLS);
    for (int i = 0; i < plan->cells; i++)
        if (take_picture(plan, deblurring_settings[plan->cell[i].setup].picture, error, room)) return -1;
    return 0;
}

void deblurring_plan_free(deblurring_plan *plan)
{
    for (int i = 0; i < plan->cells; i++) {
        deblurring_cell *c = &plan->cell[i];
        for (int v = 0; v < DEBLURRING_VALUES; v++) free(c->value[v]);
        free(c->mean);
        free(c->shown);
    }
    for (int i = 0; i < DEBLURRING_PICTURES; i++) free(plan->truth[i]);
    known_close(&plan->known);
    plan->cells = 0;
}

/* ---------------------------------------------------------------------------- looking up */

const double *deblurring_truth(const deblurring_plan *plan, const deblurring_cell *c, int *rows, int *columns)
{
    deblurring_picture what = deblurring_settings[c->setup].picture;
    *rows = plan->rows[what];
    *columns = plan->columns[what];
    return plan->truth[what];
}

int deblurring_cell_particles(const deblurring_plan *plan, const deblurring_cell *c)
{
    double n = plan->scale.particles * deblurring_recipes[c->method].particles;
    return n < 2 ? 2 : (int)n;
}

const deblurring_cell *deblurring_find(const deblurring_plan *plan, deblurring_setup setup, deblurring_method method,
                                       int seed)
{
    for (int i = 0; i < plan->cells; i++) {
        const deblurring_cell *c = &plan->cell[i];
        if (c->setup == setup && c->method == method && c->seed == seed) return c;
    }
    return NULL;
}

double deblurring_last(const deblurring_cell *c, deblurring_value value)
{
    return c && c->rows > 0 ? c->value[value][c->rows - 1] : NAN;
}
