/* ebm2d_training.c: exact log-likelihoods of networks trained by persistent contrastive divergence and with weights.
 *
 *     loglik = -mean U(y_i) - log Z,    log Z on a lattice (sosmc/lattice.h)
 *     bound  = mean log p(y_i),         p an equal mixture of Gaussians: along a curve, or at the centres of blobs
 *
 * Invariant: both methods are scored at the same points by the same function, whatever the runs said of themselves. */
#include "ebm2d_training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>

#include "runfile/config.h"
#include "files/files.h"
#include "job/model_file.h"
#include "view/plot.h"
#include "terminal/say.h"

enum { PLANE = 2, CURVE_NODES = 512, SENTENCE = 1024 };

const char *const ebm2d_training_names[EBM2D_TRAININGS] = {"contrastive divergence", "weighted particles"};

static const double pi = 3.14159265358979323846;

/* Half the side of the box outside which the networks, whose chains are held within it, are taken to have no mass. */
static const double boxes[EBM2D_DATASETS] = {[EBM2D_CIRCLES] = 6, [EBM2D_TWO_MOONS] = 6, [EBM2D_BLOBS] = 8};
#define BASE_REACH 5 /* standard deviations of a Gaussian base: a millionth of its mass lies beyond */
enum { NODES = 400 };

/* ---------------------------------------------------------------------------- points and their law */

/* Where the noise is added: nodes of a midpoint rule along both curves, or the centres. Returns how many there are. */
static int noise_centres(const points_recipe *r, double *node)
{
    if (r->kind == POINTS_BLOBS) {
        memcpy(node, r->centres, (size_t)r->clusters * PLANE * sizeof *node);
        return r->clusters;
    }
    int moons = r->kind == POINTS_TWO_MOONS;
    for (int i = 0; i < CURVE_NODES; i++) {
        double t = (moons ? pi : 2 * pi) * (i + 0.5) / CURVE_NODES, *one = node + PLANE * i,
               *other = one + PLANE * CURVE_NODES;
        one[0] = cos(t);
        one[1] = sin(t);
        other[0] = moons ? 1.0 - cos(t) : r->factor * cos(t);
        other[1] = moons ? 0.5 - sin(t) : r->factor * sin(t);
    }
    return 2 * CURVE_NODES;
}

/* Log of an equal mixture of N(node, sd^2 I) at y. */
static double log_mixture(const double *y, const double *node, int nodes, double sd)
{
    double least = INFINITY, sum = 0;
    for (int i = 0; i < nodes; i++) {
        double a = y[0] - node[PLANE * i], b = y[1] - node[PLANE * i + 1];
        least = fmin(least, a * a + b * b);
    }
    for (int i = 0; i < nodes; i++) {
        double a = y[0] - node[PLANE * i], b = y[1] - node[PLANE * i + 1], e = (least - a * a - b * b) / (2 * sd * sd);
        if (e > -40) sum += exp(e); /* the rest is below the rounding error */
    }
    return log(sum / nodes) - least / (2 * sd * sd) - log(2 * pi * sd * sd);
}

/* Log of the factor by which the recipe's scaling multiplies areas, from the points before it. */
static double log_area(const points_recipe *r, const double *y, int64_t rows)
{
    double area = 2 * log(r->scale);
    for (int j = 0; r->standardise && j < PLANE; j++) {
        double mean = 0, square = 0;
        for (int64_t i = 0; i < rows; i++) mean += y[PLANE * i + j] / (double)rows;
        for (int64_t i = 0; i < rows; i++) square += pow(y[PLANE * i + j] - mean, 2) / (double)rows;
        area -= log(sqrt(square) + 1e-8);
    }
    return area;
}

int ebm2d_bound(const points_recipe *recipe, double *bound, char *error, size_t room)
{
    points_recipe raw = *recipe;
    double *y = NULL, sum = 0;
    int64_t rows = 0;
    int blobs = recipe->kind == POINTS_BLOBS;
    *bound = NAN;
    if (!(recipe->noise > 0) || (blobs && recipe->dim != PLANE))
        return files_fail(error, room, "points of dimension %d with noise %g have no density in the plane", recipe->dim,
                          recipe->noise);
    raw.standardise = 0;
    raw.scale = 1;
    if (points_generate(&raw, &y, &rows, error, room)) return -1;
    double *node = malloc((size_t)(blobs ? recipe->clusters : 2 * CURVE_NODES) * PLANE * sizeof *node);
    if (!node) {
        free(y);
        return files_fail(error, room, "out of memory");
    }
    int nodes = noise_centres(recipe, node);
    for (int64_t i = 0; i < rows; i++) sum += log_mixture(y + PLANE * i, node, nodes, recipe->noise);
    *bound = sum / (double)rows - log_area(recipe, y, rows);
    free(node);
    free(y);
    return 0;
}

/* ---------------------------------------------------------------------------- a stored network */

/* A lattice of the same spacing that holds the base; an even number of nodes stays even. */
static sosmc_lattice lattice_for(double box, int nodes, double base_sd)
{
    double wide = fmax(box, BASE_REACH * base_sd);
    int more = wide > box ? 2 * (int)ceil((wide / box - 1) * nodes / 2) : 0;
    return (sosmc_lattice){.nodes = nodes + more, .low = {-wide, -wide}, .high = {wide, wide}};
}

int ebm2d_loglik(const char *model, double box, int nodes, int64_t n, const double *x, int threads,
                 ebm2d_likelihood *out, char *error, size_t room)
{
    model_file file;
    sosmc_exact exact;
    if (model_read_as(model, NULL, ebm2d_activation(model), &file, error, room)) return -1;
    if (file.inputs != PLANE) {
        int inputs = file.inputs;
        model_free(&file);
        return files_fail(error, room, "%s is a network of %d inputs; expected 2", model, inputs);
    }
    sosmc_mlp mlp = model_network(&file);
    sosmc_model energy = sosmc_mlp_model(&mlp);
    sosmc_lattice lattice = lattice_for(box, nodes, file.base_sd);
    size_t lattice_size = (size_t)lattice.nodes * (size_t)lattice.nodes;
    double *U = malloc((lattice_size + (size_t)n) * sizeof *U), *at_points = U ? U + lattice_size : NULL;
    sosmc_status status = U ? sosmc_lattice_energy(&energy, file.theta, &lattice, threads, U) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) status = sosmc_energies(&energy, file.theta, n, x, threads, at_points);
    if (status == SOSMC_OK) {
        sosmc_lattice_exact(&lattice, U, NULL, NULL, 0, &exact);
        out->logz = exact.logz;
        out->edge = exact.edge;
        out->loglik = sosmc_lattice_loglik(n, at_points, exact.logz);
    }
    free(U);
    model_free(&file);
    if (status == SOSMC_OK) return 0;
    return files_fail(error, room, "%s: no log-likelihood: %s", model,
                      status == SOSMC_ENUMERIC ? "the network gave values that are not finite"
                      : status == SOSMC_ENOMEM ? "there is not enough memory"
                                               : sosmc_status_name(status));
}

/* ---------------------------------------------------------------------------- the weighted run */

static int directory_of(const ebm2d_plan *plan, ebm2d_dataset data, char out[FILES_PATH], char *error, size_t room)
{
    char relative[64];
    (void)snprintf(relative, sizeof relative, "train/%s-weighted", ebm2d_dataset_names[data]);
    return files_join(out, plan->out, relative, error, room);
}

/* Widths with commas between; 0 for a network without hidden layers. */
static int shape_of(const model_file *f, char *out, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < f->hidden_layers && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%d", i ? "," : "", f->width[i]);
    return used > 0 && used < room;
}

/* Settings of a short run: two epochs of 39 updates, evaluated every so many. */
enum { BRIEF_PARTICLES = 500, BRIEF_UPDATES = 78, BRIEF_EVERY = 3 };

/* The network has the shape of the pre-trained one; base, regularisers, rates and cost are each method's own. The lattice
 * of the evaluations on the way has the spacing of the experiment's. */
experiment_file ebm2d_training_file(const ebm2d_plan *plan, ebm2d_dataset data, const model_file *like)
{
    char widths[SENTENCE], name[64];
    const ebm2d_scale *s = &plan->scale;
    sosmc_lattice lattice = lattice_for(boxes[data], s->nodes, plan->recipe[data].scale);
    (void)snprintf(name, sizeof name, "train-%s.yaml", ebm2d_dataset_names[data]);
    experiment_file f = experiment_load(plan->settings, name);
    experiment_set(&f, "model.activation=%s", like->activation);
    if (shape_of(like, widths, sizeof widths)) experiment_set(&f, "model.hidden=[%s]", widths);
    if (!s->paper) {
        experiment_set(&f, "particles=%d", s->particles < BRIEF_PARTICLES ? s->particles : BRIEF_PARTICLES);
        experiment_set(&f, "iterations=%d", BRIEF_UPDATES);
        experiment_set(&f, "optimiser.schedule.a=%d", BRIEF_UPDATES);
        experiment_set(&f, "evaluate.every=%d", BRIEF_EVERY);
    }
    experiment_set(&f, "evaluate.nodes=%d", lattice.nodes);
    experiment_set(&f, "evaluate.low=%.17g", lattice.low[0]);
    experiment_set(&f, "evaluate.high=%.17g", lattice.high[0]);
    experiment_set(&f, "output.report=false");
    return f;
}

int ebm2d_training_run(const ebm2d_plan *plan, ebm2d_dataset data, int threads, int quiet)
{
    char error[SENTENCE], dir[FILES_PATH];
    model_file like;
    if (directory_of(plan, data, dir, error, sizeof error) ||
        model_read_as(plan->model[data], NULL, ebm2d_activation(plan->model[data]), &like, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    experiment_file f = ebm2d_training_file(plan, data, &like);
    model_free(&like);
    experiment_set(&f, "threads=%d", threads);
    return experiment_go(&f, dir, quiet);
}

/* ---------------------------------------------------------------------------- what was found */

/* Points at which the network of a run file is evaluated: moved particles and data, in every iteration. */
static double evaluations_of(const char *run_file)
{
    char error[SENTENCE];
    double n = NAN;
    config *c = config_load(run_file, error, sizeof error);
    if (c && config_resolve(c, error, sizeof error) == 0 && config_has(c, "objective.batch")) {
        double batch = config_number(c, "objective.batch"), points = config_number(c, "objective.data.points");
        n = config_number(c, "iterations") *
            (config_number(c, "particles") * config_number(c, "scheme.sweeps") + (batch > 0 ? batch : points));
    }
    config_free(c);
    return n;
}

/* Of a network from elsewhere, if its run file lies beside it: run.yaml in a run directory, else NAME.yaml. */
static double evaluations_beside(const char *model, const char *name)
{
    char dir[FILES_PATH], path[FILES_PATH], file[64];
    const char *slash = strrchr(model, '/');
    int length = slash ? (int)(slash - model) : 1;
    (void)snprintf(dir, sizeof dir, "%.*s", length, slash ? model : ".");
    (void)snprintf(file, sizeof file, "%s.yaml", name);
    if (files_join(path, dir, "run.yaml", NULL, 0) == 0 && access(path, R_OK) == 0) return evaluations_of(path);
    if (files_join(path, dir, file, NULL, 0) == 0 && access(path, R_OK) == 0) return evaluations_of(path);
    return NAN;
}

static int read_rows(ebm2d_training *t, const char *dir, double *logz, char *error, size_t room)
{
    csv_table table;
    if (experiment_table(dir, "evaluation.csv", &table, error, room)) return -1;
    t->rows = (int)table.rows;
    t->iteration = experiment_column(&table, "iteration");
    t->exact = experiment_column(&table, "loglik");
    t->by_particles = experiment_column(&table, "particle_loss");
    double *normaliser = experiment_column(&table, "logz");
    int memory = t->iteration && t->exact && t->by_particles && normaliser;
    if (memory) {
        for (int i = 0; i < t->rows; i++) t->by_particles[i] = -t->by_particles[i];
        t->running = t->by_particles[t->rows - 1];
        *logz = normaliser[t->rows - 1];
    }
    free(normaliser);
    csv_free(&table);
    return memory ? 0 : files_fail(error, room, "out of memory");
}

static double number_in(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int read_weighted(ebm2d_training *t, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    double logz = NAN;
    json_t *summary = NULL;
    if (read_rows(t, dir, &logz, error, room) || files_join(path, dir, "summary.json", error, room) ||
        json_read(path, &summary, error, room))
        return -1;
    t->seconds = number_in(summary, "seconds");
    t->logz_error = number_in(json_object_get(summary, "last_iteration"), "log_z") - logz;
    json_decref(summary);
    if (files_join(path, dir, "run.yaml", error, room)) return -1;
    t->of[EBM2D_WEIGHTS].evaluations = evaluations_of(path);
    return 0;
}

int ebm2d_training_read(const ebm2d_plan *plan, ebm2d_dataset data, int threads, ebm2d_training *t, char *error,
                        size_t room)
{
    char dir[FILES_PATH], weighted[FILES_PATH];
    const points_recipe *recipe = &plan->recipe[data];
    double *x = NULL;
    int64_t n = 0;
    *t = (ebm2d_training){.brief = !plan->scale.paper, .seconds = NAN, .running = NAN, .logz_error = NAN};
    t->of[EBM2D_PCD].evaluations = evaluations_beside(plan->model[data], ebm2d_dataset_names[data]);
    int rc = directory_of(plan, data, dir, error, room) ||
             files_join(weighted, dir, "model.safetensors", error, room) || read_weighted(t, dir, error, room) ||
             ebm2d_bound(recipe, &t->bound, error, room) || points_generate(recipe, &x, &n, error, room) ||
             ebm2d_loglik(plan->model[data], boxes[data], NODES, n, x, threads, &t->of[EBM2D_PCD], error, room) ||
             ebm2d_loglik(weighted, boxes[data], NODES, n, x, threads, &t->of[EBM2D_WEIGHTS], error, room);
    free(x);
    t->made = rc == 0;
    if (rc) ebm2d_training_free(t);
    return rc ? -1 : 0;
}

void ebm2d_training_free(ebm2d_training *t)
{
    free(t->iteration);
    free(t->exact);
    free(t->by_particles);
    *t = (ebm2d_training){.made = 0};
}

const char *ebm2d_training_verdict(const ebm2d_training *t, ebm2d_dataset data, char *out, size_t room)
{
    double gain = t->of[EBM2D_WEIGHTS].loglik - t->of[EBM2D_PCD].loglik;
    int better = gain > 0 ? EBM2D_WEIGHTS : EBM2D_PCD;
    double below = t->bound - t->of[better].loglik;
    (void)snprintf(out, room,
                   "%s: training %s is better by %.3f nats a point, %.3f against %.3f, and ends %.3f %s the bound%s.",
                   ebm2d_dataset_names[data], better == EBM2D_WEIGHTS ? "with weights" : "by contrastive divergence",
                   fabs(gain), t->of[better].loglik, t->of[!better].loglik, fabs(below), below < 0 ? "above" : "below",
                   t->brief ? "; the weighted run is a brief one, far from its end" : "");
    return out;
}

/* ---------------------------------------------------------------------------- the figure */

enum { LINES = 4 };

static void draw_panel(const ebm2d_training *t, plot_panel *panel, plot_series s[LINES])
{
    s[0] = (plot_series){.label = "weighted particles, exact",
                         .colour = PLOT_BLUE,
                         .width = 1.8,
                         .n = t->rows,
                         .x = t->iteration,
                         .y = t->exact};
    s[1] = (plot_series){.label = "the same by the running log Z (a mini-batch)",
                         .colour = PLOT_SKY,
                         .dash = PLOT_DOTTED,
                         .n = t->rows,
                         .x = t->iteration,
                         .y = t->by_particles};
    s[2] = (plot_series){.kind = PLOT_LEVEL,
                         .label = "contrastive divergence, exact",
                         .colour = PLOT_VERMILION,
                         .dash = PLOT_DASHED,
                         .n = 1,
                         .y = &t->of[EBM2D_PCD].loglik};
    s[3] = (plot_series){
        .kind = PLOT_LEVEL, .label = "the law of the points", .colour = PLOT_BLACK, .n = 1, .y = &t->bound};
    panel->x_label = "iteration";
    panel->y_label = "log-likelihood per point";
    panel->series = s;
    panel->n = LINES;
}

plot_figure ebm2d_training_figure(arena *memory, const ebm2d_training *all)
{
    static const char *const titles[EBM2D_DATASETS] = {"circles", "two moons", "blobs"};
    plot_series *series = arena_take(memory, EBM2D_DATASETS * LINES, sizeof *series);
    plot_panel *panel = arena_take(memory, EBM2D_DATASETS, sizeof *panel);
    int n = 0;
    for (int d = 0; series && panel && d < EBM2D_DATASETS; d++) {
        if (!all[d].made) continue;
        panel[n].title = titles[d];
        draw_panel(&all[d], &panel[n], series + (size_t)n * LINES);
        n++;
    }
    return (plot_figure){.name = "training", .panel = panel, .panels = n, .width = n > 1 ? 400 : 640, .height = 340};
}
