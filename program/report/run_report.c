/* run_report.c: evaluates the model and the reward on a lattice over the box that holds the particles, for the report; and
 * shows particles that are pictures.
 *
 * Everything comes from the run directory (run.yaml, theta.npy or model.safetensors, particles.npz), so that `sosmc report`
 * shows the same page as the run itself. A directory without particles, or a model of more than two coordinates, gets a report without the map. */
#include "run_report.h"

#include <math.h>
#include <sosmc/analysis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "evaluation_figures.h"
#include "files/directory.h"
#include "files/files.h"
#include "pictures/images.h"
#include "job/model_file.h"
#include "job/problem.h"
#include "report.h"
#include "run/need.h"

enum { SIDE = 160, TILE = 64 };

typedef struct {
    job job;
    npy_array stored, x;
    model_file network;
    const double *theta; /* of `stored` or of `network` */
    double *density, *reward;
    plot_lattice density_map, reward_map;
    report_level level[2];
    evaluation_gallery exact;
    report_figure figure[EVALUATION_FIGURES];
} picture;

static int open_theta(picture *p, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    int wanted = p->job.problem.model.dim_theta;
    if (job_has_network(&p->job)) {
        if (files_join(path, dir, "model.safetensors", error, room) || model_read(path, &p->network, error, room))
            return -1;
        p->theta = p->network.theta;
        return p->network.parameters == wanted ? 0 : -1;
    }
    if (files_join(path, dir, "theta.npy", error, room) || npy_read(path, &p->stored, error, room)) return -1;
    p->theta = p->stored.data;
    return p->stored.type == NPY_F64 && npy_count(&p->stored) == wanted ? 0 : -1;
}

/* Particles that are pictures are shown as such: evenly spaced ones, since neighbours may be copies of one ancestor. */
static int draw_pictures(picture *p, const char *dir, report_extra *extra)
{
    enum {
        ACROSS = 8,
        SHOWN = ACROSS * ACROSS,
        WIDE = 72,            /* about so many pixels of the file for each */
        MOST_PIXELS = 4000000 /* of all of them */
    };
    char path[FILES_PATH], folder[FILES_PATH], ignored[256];
    picture_shape shape;
    if (!job_picture(&p->job, &shape)) return 0;
    int64_t all = p->x.shape[0], dim = p->x.shape[1], n = all < SHOWN ? all : SHOWN;
    while (n > 1 && n * dim > MOST_PIXELS) n--;
    double *chosen = malloc((size_t)(n * dim) * sizeof *chosen + 1);
    for (int64_t i = 0; chosen && i < n; i++)
        memcpy(chosen + i * dim, (const double *)p->x.data + i * all / n * dim, (size_t)dim * sizeof *chosen);
    image_grid grid = {.columns = ACROSS,
                       .magnify = shape.rows < WIDE ? WIDE / shape.rows : 1,
                       .line = 2,
                       .shade = 128,
                       .low = shape.black,
                       .high = shape.white};
    if (chosen && !files_join(folder, dir, "figures", ignored, sizeof ignored) &&
        !files_join(path, folder, "particles.png", ignored, sizeof ignored) &&
        !directory_make(folder, ignored, sizeof ignored) &&
        !image_grid_write(path, chosen, n, shape.channels, shape.rows, shape.columns, &grid, ignored, sizeof ignored))
        extra->picture = "figures/particles.png";
    free(chosen);
    return 1;
}

/* The box of the particles and of the modes they came from, with a margin. */
static void find_box(const picture *p, plot_lattice *l)
{
    const double *x = p->x.data;
    int64_t n = p->x.shape[0], dim = p->x.shape[1] == 2 ? 2 : 1; /* run_report passes over the others */
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < dim; j++) {
            low[j] = fmin(low[j], x[i * dim + j]);
            high[j] = fmax(high[j], x[i * dim + j]);
        }
    for (int64_t j = 0; j < dim; j++) {
        double margin = 0.15 * (high[j] - low[j]) + 1e-3;
        low[j] -= margin;
        high[j] += margin;
    }
    *l = (plot_lattice){.nx = SIDE,
                        .ny = dim == 2 ? SIDE : 1,
                        .x_min = low[0],
                        .x_max = high[0],
                        .y_min = dim == 2 ? low[1] : 0,
                        .y_max = dim == 2 ? high[1] : 0};
}

/* The nodes of the lattice, rows of dim coordinates. */
static void place_nodes(const plot_lattice *l, int64_t nodes, int dim, double *x)
{
    for (int64_t at = 0; at < nodes; at++) {
        int64_t column = at % l->nx, row = at / l->nx;
        x[at * dim] = l->x_min + (l->x_max - l->x_min) * (double)column / (l->nx - 1);
        if (dim == 2) x[at * dim + 1] = l->y_min + (l->y_max - l->y_min) * (double)row / (l->ny - 1);
    }
}

/* U, and the score where there is one, at every node of the lattice. */
static int evaluate(picture *p, int64_t nodes)
{
    const sosmc_problem *problem = &p->job.problem;
    int dim = problem->model.dim_x;
    sosmc_host *h = NULL;
    double *x = malloc((size_t)nodes * (size_t)dim * sizeof *x);
    sosmc_status status = x ? sosmc_host_create(&h, &problem->model, p->theta, TILE) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) {
        place_nodes(&p->density_map, nodes, dim, x);
        scaling_map(job_units(&p->job), 0, nodes, x);
        status = sosmc_host_energies(h, nodes, x, p->density);
    }
    if (status == SOSMC_OK && p->reward) status = sosmc_scores(&problem->objective.score, dim, nodes, x, p->reward);
    sosmc_host_free(h);
    free(x);
    return status == SOSMC_OK ? 0 : -1;
}

static int draw_maps(picture *p, report_extra *extra)
{
    find_box(p, &p->density_map);
    int64_t nodes = (int64_t)p->density_map.nx * p->density_map.ny;
    p->density = malloc((size_t)nodes * sizeof(double));
    if (p->job.problem.objective.score.eval) p->reward = malloc((size_t)nodes * sizeof(double));
    if (!p->density || (p->job.problem.objective.score.eval && !p->reward) || evaluate(p, nodes)) return -1;
    double least = INFINITY;
    for (int64_t i = 0; i < nodes; i++) least = fmin(least, p->density[i]);
    for (int64_t i = 0; i < nodes; i++) p->density[i] = exp(least - p->density[i]);
    p->density_map.z = p->density;
    extra->density = &p->density_map;
    if (!p->reward) return 0;
    p->reward_map = p->density_map;
    p->reward_map.z = p->reward;
    extra->reward = &p->reward_map;
    return 0;
}

static void draw_levels(picture *p, const config *c, report_extra *extra)
{
    double threshold = config_number(c, "resampling.threshold"), particles = (double)config_integer(c, "particles");
    const char *scheme = config_text(c, "scheme.type");
    if (!scheme || strcmp(scheme, "sosmc") != 0 || !(threshold > 0 && threshold <= 1)) return;
    p->level[0] = (report_level){.column = "ess", .value = threshold * particles, .label = "resampling below"};
    extra->level = p->level;
    extra->levels = 1;
}

/* Figures of evaluation.csv. */
static int draw_exact(picture *p, const char *dir, report_extra *extra, char *error, size_t room)
{
    if (evaluation_figures(&p->exact, dir, error, room)) return -1;
    for (int i = 0; i < p->exact.n; i++) {
        const evaluation_figure *f = &p->exact.item[i];
        p->figure[i] = (report_figure){.figure = f->figure, .title = f->title, .caption = f->caption, .alt = f->alt};
    }
    extra->figure = p->figure;
    extra->figures = p->exact.n;
    return 0;
}

int run_report(const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    picture p = {.density = NULL};
    report_extra extra = {.title = NULL};
    config *c = NULL;
    int rc = files_join(path, dir, "run.yaml", error, room);
    if (rc == 0) rc = directory_regular(path, error, room);
    if (rc == 0) c = config_load(path, error, room);
    if (rc == 0 && (!c || config_resolve(c, error, room))) rc = -1;
    if (rc == 0) {
        char ignored[512];
        int io = 0, built = job_build(&p.job, c, &io, ignored, sizeof ignored) == 0,
            there = built ? report_cloud(dir, p.job.problem.model.dim_x, path, &p.x, error, room) : 0;
        draw_levels(&p, c, &extra);
        if (there == 1 && p.x.dims == 2 && open_theta(&p, dir, ignored, sizeof ignored) == 0 &&
            !draw_pictures(&p, dir, &extra) && (p.job.problem.model.dim_x > 2 || draw_maps(&p, &extra)))
            extra.density = extra.reward = NULL;
        if (p.job.settings.kernel.name) { /* the job could be built */
            extra.no_weights = !p.job.settings.scheme.weighted;
            extra.no_acceptance = !p.job.automatic && !p.job.tempers && !p.job.settings.kernel.metropolis;
        }
        rc = there < 0 ? -1 : draw_exact(&p, dir, &extra, error, room);
        if (rc == 0) rc = report_write(dir, &extra, error, room);
    }
    evaluation_figures_free(&p.exact);
    job_free(&p.job);
    npy_free(&p.stored);
    model_free(&p.network);
    npy_free(&p.x);
    free(p.density);
    free(p.reward);
    config_free(c);
    return rc;
}

static int has_report(const char *dir)
{
    char path[FILES_PATH];
    return files_join(path, dir, "report.html", NULL, 0) == 0 && access(path, F_OK) == 0;
}

int run_report_asked(const config *c, const char *dir, char *error, size_t room)
{
    return config_flag(c, "output.report") && !has_report(dir) ? run_report(dir, error, room) : 0;
}

double run_report_need(const char *dir)
{
    static const struct {
        const char *name;
        double times;
    } read[] = {{"particles.npz", 2.2}, {"trace.csv", 2}, {"timing.csv", 2}, {"evaluation.csv", 2}, {"theta.npy", 2}};
    char path[FILES_PATH];
    struct stat st;
    double bytes = NEED_PROGRAM;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (files_join(path, dir, read[i].name, NULL, 0) == 0 && stat(path, &st) == 0)
            bytes += read[i].times * (double)st.st_size;
    return bytes;
}
