/* ebm2d_extras.c: fresh chains on stored networks, masses of rings by quadrature, the figure of the data sets.
 *
 * Chains, lattice and densities come from the library (sosmc/lattice.h); here are the questions asked of them. Invariant: a
 * cached study is used only when a digest of the network and of every setting agrees with the one stored beside it. */
#include "ebm2d_extras.h"

#include <math.h>
#include <stdlib.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>

#include "common/squares.h"
#include "ebm2d_figures.h"
#include "ebm2d_training.h"
#include "job/model_file.h"
#include "job/points.h"

enum { PLANE = 2 };
#define BOX 6.0
#define CHAIN_STEP 0.005

/* ---------------------------------------------------------------------------- networks */

typedef struct {
    model_file file;
    sosmc_mlp mlp;
    sosmc_model model;
} network;

static int open_network(network *n, const char *path, char *error, size_t room)
{
    *n = (network){.mlp = {0}};
    if (model_read_as(path, NULL, ebm2d_activation(path), &n->file, error, room)) return -1;
    n->mlp = model_network(&n->file);
    n->model = sosmc_mlp_model(&n->mlp);
    if (n->model.dim_x == PLANE) return 0;
    int inputs = n->file.inputs;
    model_free(&n->file);
    return files_fail(error, room, "%s is a network of %d inputs; expected 2", path, inputs);
}

int ebm2d_check_model(const char *model, char *error, size_t room)
{
    network n;
    if (open_network(&n, model, error, room)) return -1;
    model_free(&n.file);
    return 0;
}

/* ---------------------------------------------------------------------------- chains */

static sosmc_fresh chains_of(const ebm2d_study *s)
{
    return (sosmc_fresh){.chains = s->chains,
                         .burn_in = s->burn_in,
                         .averaged = s->averaged,
                         .step = CHAIN_STEP,
                         .low = -BOX,
                         .high = BOX,
                         .seed = s->seed,
                         .threads = s->threads};
}

int ebm2d_study_reward(const ebm2d_study *s, const char *model, double *mean, double *error_of_mean, char *error,
                       size_t room)
{
    network n;
    sosmc_fresh f = chains_of(s);
    sosmc_fresh_record record = {.stop = experiment_interrupted};
    sosmc_half_plane half = {.dim = PLANE, .normal = s->normal};
    sosmc_score score = sosmc_half_plane_reward(&half);
    *mean = *error_of_mean = NAN;
    if (open_network(&n, model, error, room)) return -1;
    sosmc_status status = sosmc_fresh_reward(&n.model, n.file.theta, &score, &f, &record, NULL, mean, error_of_mean);
    model_free(&n.file);
    return status == SOSMC_OK ? 0 : experiment_refused(model, "fresh chains", status, error, room);
}

static int allocate(ebm2d_sample *out, const ebm2d_study *s)
{
    size_t chains = (size_t)s->chains, length = (size_t)(s->burn_in + s->averaged) + 1;
    *out = (ebm2d_sample){
        .chains = s->chains, .snapshots = s->snapshots, .paths = s->paths, .steps = s->burn_in + s->averaged};
    out->at = calloc((size_t)s->snapshots + 1, sizeof(double));
    out->snapshot = calloc((size_t)s->snapshots * chains * PLANE + 1, sizeof(double));
    out->hit = calloc(chains, sizeof(double));
    out->path = calloc((size_t)s->paths * length * PLANE + 1, sizeof(double));
    return out->at && out->snapshot && out->hit && out->path ? 0 : -1;
}

void ebm2d_sample_free(ebm2d_sample *s)
{
    free(s->at);
    free(s->snapshot);
    free(s->hit);
    free(s->path);
    *s = (ebm2d_sample){.chains = 0};
}

static uint64_t digest_study(const ebm2d_study *s, const network *n)
{
    const int64_t settings[] = {s->chains, s->burn_in, s->averaged, s->snapshots, s->paths, n->mlp.activation};
    uint64_t h = experiment_mix(EXPERIMENT_DIGEST, s->seed);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) h = experiment_mix(h, (uint64_t)settings[i]);
    for (int i = 0; i < s->snapshots; i++) h = experiment_mix(h, (uint64_t)s->at[i]);
    for (int l = 0; l < n->mlp.hidden; l++) h = experiment_mix(h, (uint64_t)n->mlp.width[l]);
    h = experiment_mix_doubles(h, s->normal, PLANE);
    h = experiment_mix_doubles(h, &n->mlp.base_sd, 1);
    return experiment_mix_doubles(h, n->file.theta, n->file.parameters);
}

/* A file that is absent, damaged or of something else is no error: the study is then made anew. */
static int recall(const char *cache, const double key[2], ebm2d_sample *out)
{
    int64_t points = (int64_t)out->snapshots * out->chains * PLANE, length = (out->steps + 1) * out->paths * PLANE;
    if (!experiment_is_kept(cache, key)) return -1;
    return experiment_recall(cache, "hit", out->hit, out->chains) ||
                   experiment_recall(cache, "snapshot", out->snapshot, points) ||
                   experiment_recall(cache, "path", out->path, length)
               ? -1
               : 0;
}

static int keep(const char *cache, const double key[2], const ebm2d_sample *s, char *error, size_t room)
{
    npz_member members[] = {{"key", npy_vector(key, 2)},
                            {"hit", npy_vector(s->hit, s->chains)},
                            {"snapshot", npy_vector(s->snapshot, (int64_t)s->snapshots * s->chains * PLANE)},
                            {"path", npy_vector(s->path, (s->steps + 1) * s->paths * PLANE)}};
    return npz_write(cache, members, 4, 0, error, room);
}

static int follow(const ebm2d_study *s, const network *n, const char *path, ebm2d_sample *out, char *error, size_t room)
{
    sosmc_fresh f = chains_of(s);
    sosmc_half_plane half = {.dim = PLANE, .normal = s->normal};
    sosmc_score score = sosmc_half_plane_reward(&half);
    int64_t *hit = calloc((size_t)s->chains, sizeof *hit);
    sosmc_fresh_record record = {.snapshots = s->snapshots,
                                 .at = s->at,
                                 .snapshot = out->snapshot,
                                 .paths = s->paths,
                                 .path = out->path,
                                 .hit = hit,
                                 .stop = experiment_interrupted};
    if (!hit) return files_fail(error, room, "out of memory for %d chains", s->chains);
    sosmc_status status = sosmc_fresh_reward(&n->model, n->file.theta, &score, &f, &record, NULL, NULL, NULL);
    for (int c = 0; c < s->chains; c++) out->hit[c] = hit[c] < 0 ? NAN : (double)hit[c];
    free(hit);
    return status == SOSMC_OK ? 0 : experiment_refused(path, "fresh chains", status, error, room);
}

int ebm2d_study_run(const ebm2d_study *s, const char *model, const char *cache, ebm2d_sample *out, char *error,
                    size_t room)
{
    network n;
    int rc = 0;
    *out = (ebm2d_sample){.chains = 0};
    if (open_network(&n, model, error, room)) return -1;
    double key[2];
    experiment_key(digest_study(s, &n), key);
    if (allocate(out, s)) rc = files_fail(error, room, "out of memory for %d chains", s->chains);
    for (int i = 0; rc == 0 && i < s->snapshots; i++) out->at[i] = (double)s->at[i];
    if (rc == 0 && recall(cache, key, out))
        rc = follow(s, &n, model, out, error, room) || keep(cache, key, out, error, room) ? -1 : 0;
    model_free(&n.file);
    if (rc) ebm2d_sample_free(out);
    return rc;
}

/* ---------------------------------------------------------------------------- questions to chains */

double ebm2d_reached(const ebm2d_sample *s, double step)
{
    int there = 0;
    for (int c = 0; c < s->chains; c++) there += s->hit[c] <= step; /* false for NaN */
    return s->chains > 0 ? (double)there / s->chains : NAN;
}

double ebm2d_median_hit(const ebm2d_sample *s)
{
    double *late = malloc(((size_t)s->chains + 1) * sizeof *late), median = NAN;
    int n = 0;
    if (!late) return NAN;
    for (int c = 0; c < s->chains; c++)
        if (!(s->hit[c] <= 0)) late[n++] = isnan(s->hit[c]) ? INFINITY : s->hit[c];
    if (n > 0) {
        qsort(late, (size_t)n, sizeof *late, experiment_ascending);
        median = late[n / 2];
    }
    free(late);
    return median;
}

static int rewarded(const double *x, const double *normal) { return normal[0] * x[0] + normal[1] * x[1] > 0; }

/* Mean over the snapshots of a window, for one chain. */
static double window_mean(const ebm2d_sample *s, const double *normal, const double window[2], int chain)
{
    int n = 0, in = 0;
    for (int i = 0; i < s->snapshots; i++) {
        if (s->at[i] < window[0] || s->at[i] > window[1]) continue;
        in += rewarded(&s->snapshot[PLANE * ((size_t)i * (size_t)s->chains + (size_t)chain)], normal);
        n++;
    }
    return n > 0 ? (double)in / n : NAN;
}

double ebm2d_window_reward(const ebm2d_sample *s, const double *normal, const double window[2], double *error_of_mean)
{
    double *mean = malloc(((size_t)s->chains + 1) * sizeof *mean);
    *error_of_mean = NAN;
    if (!mean) return NAN;
    for (int c = 0; c < s->chains; c++) mean[c] = window_mean(s, normal, window, c);
    experiment_mean m = experiment_mean_of(mean, s->chains);
    free(mean);
    *error_of_mean = m.error;
    return m.mean;
}

ebm2d_windows ebm2d_compare_windows(const ebm2d_sample *s, const double *normal, const double early[2],
                                    const double late[2])
{
    ebm2d_windows w = {NAN, NAN, NAN, NAN};
    double *change = malloc(((size_t)s->chains + 1) * sizeof *change), sum = 0;
    if (!change) return w;
    for (int c = 0; c < s->chains; c++) {
        double before = window_mean(s, normal, early, c);
        change[c] = window_mean(s, normal, late, c) - before;
        sum += before;
    }
    experiment_mean m = experiment_mean_of(change, s->chains);
    w = (ebm2d_windows){.early = sum / s->chains, .change = m.mean, .error = m.error};
    w.late = w.early + w.change;
    free(change);
    return w;
}

/* ---------------------------------------------------------------------------- rings */

static int inside(const double *x) { return root_of_squares(x[0], x[1]) < EBM2D_BETWEEN_RINGS; }

double ebm2d_inner_share(const double *x, int chains)
{
    int n = 0;
    for (int c = 0; c < chains; c++) n += inside(&x[PLANE * c]);
    return chains > 0 ? (double)n / chains : NAN;
}

double ebm2d_ring_changes(const ebm2d_sample *s, int from)
{
    size_t chains = (size_t)s->chains, changed = 0;
    if (from < 0 || from >= s->snapshots) return NAN;
    const double *a = &s->snapshot[PLANE * chains * (size_t)from],
                 *b = &s->snapshot[PLANE * chains * ((size_t)s->snapshots - 1)];
    for (size_t c = 0; c < chains; c++) changed += inside(&a[PLANE * c]) != inside(&b[PLANE * c]);
    return (double)changed / (double)chains;
}

int ebm2d_particle_shares(const char *particles, const double *normal, double *inner, double *reward, char *error,
                          size_t room)
{
    double *x = NULL;
    int64_t rows = 0;
    int in = 0;
    if (points_load(particles, PLANE, &x, &rows, error, room)) return -1;
    for (int64_t i = 0; i < rows; i++) in += rewarded(&x[PLANE * i], normal);
    *inner = ebm2d_inner_share(x, (int)rows);
    *reward = rows > 0 ? (double)in / (double)rows : NAN;
    free(x);
    return 0;
}

int ebm2d_exact_masses(const char *model, const double *normal, int nodes, int threads, ebm2d_masses *out, char *error,
                       size_t room)
{
    network n;
    sosmc_lattice lattice = {.nodes = nodes, .low = {-BOX, -BOX}, .high = {BOX, BOX}};
    double *U = malloc((size_t)nodes * (size_t)nodes * sizeof *U), least = INFINITY;
    double mass[2] = {0, 0}, gain[2] = {0, 0}; /* outer ring, inner ring */
    sosmc_exact exact;
    if (!U) return files_fail(error, room, "out of memory for %d nodes", nodes);
    if (open_network(&n, model, error, room)) {
        free(U);
        return -1;
    }
    sosmc_status status = sosmc_lattice_energy(&n.model, n.file.theta, &lattice, threads, U);
    model_free(&n.file);
    if (status == SOSMC_OK) sosmc_lattice_exact(&lattice, U, NULL, NULL, 0, &exact);
    for (int i = 0; status == SOSMC_OK && i < nodes * nodes; i++) least = fmin(least, U[i]);
    for (int i = 0; status == SOSMC_OK && i < nodes * nodes; i++) {
        const double x[PLANE] = {sosmc_lattice_node(&lattice, 0, i % nodes),
                                 sosmc_lattice_node(&lattice, 1, i / nodes)};
        double m = exp(least - U[i]);
        mass[inside(x)] += m;
        if (rewarded(x, normal)) gain[inside(x)] += m;
    }
    free(U);
    if (status != SOSMC_OK) return experiment_refused(model, "values on the lattice", status, error, room);
    *out = (ebm2d_masses){.logz = exact.logz,
                          .reward = (gain[0] + gain[1]) / (mass[0] + mass[1]),
                          .inner = mass[1] / (mass[0] + mass[1]),
                          .reward_inner = gain[1] / mass[1],
                          .reward_outer = gain[0] / mass[0]};
    return 0;
}

int ebm2d_is_published(const ebm2d_masses *m)
{
    return fabs(m->logz - 4.373504) < 1e-5 && fabs(m->reward - 0.556073) < 1e-5;
}

/* ---------------------------------------------------------------------------- data sets and densities */

enum { SIDE = 160, SHOWN = 2000 };

typedef struct {
    double density[SIDE * SIDE], data_x[SHOWN], data_y[SHOWN], sample_x[SHOWN], sample_y[SHOWN];
} portrait;

static int data_points(const points_recipe *data, double *x, double *y, char *error, size_t room)
{
    double *all = NULL;
    int64_t rows = 0;
    if (points_generate(data, &all, &rows, error, room)) return -1;
    for (int64_t i = 0; i < SHOWN; i++) {
        x[i] = all[PLANE * (i * rows / SHOWN)];
        y[i] = all[PLANE * (i * rows / SHOWN) + 1];
    }
    free(all);
    return 0;
}

static int model_points(const network *n, const char *path, int threads, portrait *p, char *error, size_t room)
{
    static const double normal[PLANE] = {0, -1};
    ebm2d_study study = {.chains = SHOWN, .burn_in = 300, .seed = 300, .normal = normal, .threads = threads};
    sosmc_fresh f = chains_of(&study);
    sosmc_fresh_record record = {.stop = experiment_interrupted};
    sosmc_lattice lattice = {.nodes = SIDE, .low = {-BOX, -BOX}, .high = {BOX, BOX}};
    double *x = malloc((size_t)SHOWN * PLANE * sizeof *x), least = INFINITY;
    if (!x) return files_fail(error, room, "out of memory for %d chains", SHOWN);
    sosmc_status status = sosmc_fresh_reward(&n->model, n->file.theta, NULL, &f, &record, x, NULL, NULL);
    for (int i = 0; status == SOSMC_OK && i < SHOWN; i++) {
        p->sample_x[i] = x[PLANE * i];
        p->sample_y[i] = x[PLANE * i + 1];
    }
    free(x);
    if (status == SOSMC_OK) status = sosmc_lattice_energy(&n->model, n->file.theta, &lattice, threads, p->density);
    if (status != SOSMC_OK) return experiment_refused(path, "picture of its density", status, error, room);
    for (int i = 0; i < SIDE * SIDE; i++) least = fmin(least, p->density[i]);
    for (int i = 0; i < SIDE * SIDE; i++) p->density[i] = exp(least - p->density[i]);
    return 0;
}

static int paint(const points_recipe *data, const char *path, int threads, portrait *p, char *error, size_t room)
{
    network n;
    if (open_network(&n, path, error, room)) return -1;
    int rc = data_points(data, p->data_x, p->data_y, error, room) || model_points(&n, path, threads, p, error, room);
    model_free(&n.file);
    return rc ? -1 : 0;
}

int ebm2d_models_figure(arena *memory, const ebm2d_plan *plan, int threads, plot_figure *out, char *error, size_t room)
{
    static const char *const titles[EBM2D_DATASETS] = {"circles", "two moons", "blobs"};
    portrait *all = arena_take(memory, EBM2D_DATASETS, sizeof *all);
    const char *name[EBM2D_DATASETS];
    ebm2d_cloud data[EBM2D_DATASETS], samples[EBM2D_DATASETS];
    plot_lattice density[EBM2D_DATASETS];
    int n = 0, rc = all ? 0 : files_fail(error, room, "out of memory");
    for (int d = 0; rc == 0 && d < EBM2D_DATASETS; d++) {
        portrait *p = &all[n];
        if (!plan->model[d][0]) continue;
        rc = paint(&plan->recipe[d], plan->model[d], threads, p, error, room);
        name[n] = titles[d];
        data[n] = (ebm2d_cloud){.n = SHOWN, .x = p->data_x, .y = p->data_y};
        samples[n] = (ebm2d_cloud){.n = SHOWN, .x = p->sample_x, .y = p->sample_y};
        density[n++] = (plot_lattice){
            .nx = SIDE, .ny = SIDE, .x_min = -BOX, .x_max = BOX, .y_min = -BOX, .y_max = BOX, .z = p->density};
    }
    ebm2d_models f = {.models = n, .model = name, .data = data, .samples = samples, .density = density};
    if (rc == 0) *out = ebm2d_draw_models(memory, &f, "models");
    return rc;
}
