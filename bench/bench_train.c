/* bench_train.c: is the training of networks good, are its numbers right, and what does it cost? Networks over a Gaussian base are fitted
 * to points in the plane by sosmc_solve, and a lattice tells what they are worth exactly.
 *
 *     bench/train [--data circles,two_moons,blobs,modes5,modes10] [--first R] [--last R] [--layers L] [--width W] [--points N]
 *                 [--particles N] [--seconds S]
 *
 * Every shape is trained with the seeds R = first .. last - 1. A row has the updates of theta, the processor time, the exact mean
 * log-density of the points, the one that was told with its error, their difference in errors, and the verdict. Below stands how
 * many of all numbers are within three errors and within 1.96.
 *
 * modes5 and modes10, where they are named, are four normal modes in five and ten dimensions, some 9 and 13 standard deviations apart. No
 * lattice knows these networks: their row has the mean log-density of the law, and of the network by the log Z that was told, at as many
 * points again that nobody has seen.
 *
 * --seconds S: the peers beside it, noise-contrastive estimation and energy discrepancy of ebmkit (bench/peers/train_ebmkit.py), at two rates, with
 * the same network and points for S seconds of processor time each; 0 (unless told): as long as ours took with that seed. --alone:
 * without peers. They need SOSMC_PEER_PYTHON with ebmkit and PyTorch; one that does not run is one line. */
#include <math.h>
#include <sosmc/analysis.h>
#include <sosmc/models.h>
#include <sosmc/networks.h>
#include <sosmc/solve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "job/points.h"
#include "options.h"
#include "peer.h"

enum { MOST_LAYERS = 8, NODES = 800, MODES = 4, MOST_DIM = 10 };
static const double MODE_SD = 0.65, CENTRES_SD = 2;

typedef struct {
    const char *data;
    int64_t first, last, layers, width, points, particles, seconds;
    int alone;
    int numbers, three, two, flagged;
} request;

typedef struct {
    const char *name;
    int dim;
    double centres[MODES * MOST_DIM]; /* of modes5 and modes10 */
    double *x, base_sd;
    int64_t rows;
    int width[MOST_LAYERS];
    sosmc_mlp mlp;
    sosmc_model model;
} task;

static double processor_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int generate(const points_recipe *r, double **x, int64_t *rows)
{
    char error[256];
    if (points_generate(r, x, rows, error, sizeof error) == 0) return 0;
    (void)fprintf(stderr, "train: %s\n", error);
    return -1;
}

/* A network over a base as wide as the points. */
static void open_network(task *t, const request *q)
{
    double squares = 0;
    int64_t n = t->dim * t->rows;
    for (int64_t i = 0; i < n; i++) squares += t->x[i] * t->x[i];
    t->base_sd = sqrt(squares / (double)n);
    for (int k = 0; k < q->layers; k++) t->width[k] = (int)q->width;
    t->mlp = (sosmc_mlp){.inputs = t->dim, .hidden = (int)q->layers, .width = t->width, .base_sd = t->base_sd};
    t->model = sosmc_mlp_model(&t->mlp);
}

/* The shapes as `sosmc train` makes them. */
static int open_shape(task *t, const request *q, points_kind kind)
{
    static const char *const names[] = {"two_moons", "circles", "blobs"};
    static const double noise[] = {0.08, 0.02, 0.5}, scale[] = {2.2, 2.5, 2};
    static const double centres[] = {0.97627, 4.30379, 2.05527, 0.89766, -1.5269, 2.91788};
    points_recipe r = {.kind = kind,
                       .points = q->points,
                       .noise = noise[kind],
                       .factor = 0.5,
                       .centres = centres,
                       .clusters = 3,
                       .dim = 2,
                       .standardise = 1,
                       .scale = scale[kind]};
    *t = (task){.name = names[kind], .dim = 2};
    if (generate(&r, &t->x, &t->rows)) return -1;
    open_network(t, q);
    return 0;
}

static points_recipe modes(const task *t, const request *q, uint64_t seed)
{
    return (points_recipe){.kind = POINTS_BLOBS,
                           .points = q->points,
                           .noise = MODE_SD,
                           .centres = t->centres,
                           .clusters = MODES,
                           .dim = t->dim,
                           .scale = 1,
                           .seed = seed};
}

static int open_modes(task *t, const request *q, const char *name, int dim)
{
    *t = (task){.name = name, .dim = dim};
    sosmc_batch all = {.simd = sosmc_simd_best(), .dim = MODES * dim, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = (uint64_t)dim}, &all, t->centres);
    for (int k = 0; k < MODES * dim; k++) t->centres[k] *= CENTRES_SD;
    points_recipe r = modes(t, q, 0);
    if (generate(&r, &t->x, &t->rows)) return -1;
    open_network(t, q);
    return 0;
}

/* The mean log-density of points under the law of the modes. */
static double law_likelihood(const task *t, int64_t n, const double *x)
{
    double mean = 0, norm = log(MODES) + t->dim * (log(MODE_SD) + 0.5 * log(2 * acos(-1)));
    for (int64_t i = 0; i < n; i++) {
        double most = -INFINITY, sum = 0, at[MODES];
        for (int k = 0; k < MODES; k++) {
            at[k] = 0;
            for (int j = 0; j < t->dim; j++) {
                double z = (x[i * t->dim + j] - t->centres[k * t->dim + j]) / MODE_SD;
                at[k] -= 0.5 * z * z;
            }
            most = fmax(most, at[k]);
        }
        for (int k = 0; k < MODES; k++) sum += exp(at[k] - most);
        mean += (most + log(sum) - norm) / (double)n;
    }
    return mean;
}

/* The mean log-density of the points, by the lattice. */
static double exact_likelihood(const task *t, const double *theta)
{
    double reach = 6 * t->base_sd, *U = malloc(sizeof *U * NODES * NODES), *at = malloc((size_t)t->rows * sizeof *at);
    sosmc_lattice l = {.nodes = NODES, .low = {-reach, -reach}, .high = {reach, reach}};
    sosmc_exact e = {.logz = NAN};
    double value = NAN;
    if (U && at && sosmc_lattice_energy(&t->model, theta, &l, 1, U) == SOSMC_OK &&
        sosmc_energies(&t->model, theta, t->rows, t->x, 1, at) == SOSMC_OK) {
        sosmc_lattice_exact(&l, U, NULL, NULL, 0, &e);
        value = sosmc_lattice_loglik(t->rows, at, e.logz);
    }
    free(U);
    free(at);
    return value;
}

/* What the lattice says, beside what was told. */
static void judge_in_plane(request *q, const task *t, const sosmc_judgement *j)
{
    double exact = exact_likelihood(t, j->theta), off = (-j->loss.value - exact) / j->loss.error;
    printf(" %10.4f %10.4f %8.4f %6.2f", exact, -j->loss.value, j->loss.error, off);
    q->numbers++;
    q->three += fabs(off) <= 3;
    q->two += fabs(off) <= 1.959963984540054;
}

/* The law, and the network by its log Z, at points that nobody has seen. */
static void judge_by_law(const request *q, const task *t, const sosmc_judgement *j)
{
    points_recipe r = modes(t, q, 1);
    double *x = NULL, *at = malloc((size_t)q->points * sizeof *at), law = NAN, network = NAN;
    int64_t rows = 0;
    if (at && generate(&r, &x, &rows) == 0 && sosmc_energies(&t->model, j->theta, rows, x, 1, at) == SOSMC_OK) {
        law = law_likelihood(t, rows, x);
        network = sosmc_lattice_loglik(rows, at, j->log_z.value);
    }
    printf(" %10.4f %10.4f %8.4f  (law, network, error of its log Z)", law, network, j->log_z.error);
    free(x);
    free(at);
}

static double train(request *q, const task *t, int64_t seed)
{
    double *theta = calloc((size_t)t->model.dim_theta, sizeof *theta), factor[MOST_DIM * MOST_DIM] = {0};
    static const double origin[MOST_DIM] = {0};
    for (int j = 0; j < t->dim; j++) factor[j * t->dim + j] = 1 / t->base_sd;
    sosmc_gaussian base = {.dim = t->dim, .mean = origin, .factor = factor};
    sosmc_rows rows = {.data = t->x, .rows = t->rows, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem problem = {.model = t->model,
                             .objective = sosmc_likelihood(sosmc_rows_source(&rows), (int)t->rows),
                             .init = sosmc_gaussian_source(&base),
                             .theta0 = theta};
    sosmc_solution r;
    if (!theta) return NAN;
    sosmc_mlp_init(&t->mlp, 0.1, (uint64_t)seed, theta);
    double begun = processor_seconds();
    sosmc_status status = sosmc_solve(&r, &problem,
                                      &(sosmc_solve_options){.seed = (uint64_t)seed, .particles = (int)q->particles});
    double used = processor_seconds() - begun;
    const sosmc_judgement *j = &r.judgement;
    printf("%-10s %4lld %8lld %8.1f", t->name, (long long)seed, (long long)r.info.updates, used);
    if (status == SOSMC_OK && t->dim == 2) judge_in_plane(q, t, j);
    if (status == SOSMC_OK && t->dim != 2) judge_by_law(q, t, j);
    printf("  %s\n", sosmc_verdict_name((sosmc_verdict_status)j->verdict.status));
    (void)fflush(stdout);
    q->flagged += j->verdict.status != SOSMC_CONVERGED;
    sosmc_solution_free(&r);
    free(theta);
    return used;
}

static int write_points(const task *t, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f) return -1;
    size_t n = 2 * (size_t)t->rows;
    int rc = fwrite(t->x, sizeof(double), n, f) == n ? 0 : -1;
    return fclose(f) || rc ? -1 : 0;
}

static double *read_theta(const task *t, const char *path)
{
    size_t n = (size_t)t->model.dim_theta;
    double *theta = calloc(n, sizeof *theta);
    FILE *f = theta ? fopen(path, "rb") : NULL;
    int whole = f && fread(theta, sizeof(double), n, f) == n;
    if (f) (void)fclose(f);
    if (whole) return theta;
    free(theta);
    return NULL;
}

/* One peer for so many seconds; 0: it did not run. */
static int train_peer(const request *q, const task *t, const char *method, const char *rate, int64_t seed,
                      double seconds)
{
    static const char script[] = SOSMC_SOURCE_DIR "/bench/peers/train_ebmkit.py";
    char points[64], weights[64], word[5][32], text[4096] = "";
    (void)snprintf(points, sizeof points, "/tmp/bench-train-%ld.points", (long)getpid());
    (void)snprintf(weights, sizeof weights, "/tmp/bench-train-%ld.theta", (long)getpid());
    (void)snprintf(word[0], sizeof word[0], "%.3f", seconds);
    (void)snprintf(word[1], sizeof word[1], "%lld", (long long)seed);
    (void)snprintf(word[2], sizeof word[2], "%.17g", t->base_sd);
    (void)snprintf(word[3], sizeof word[3], "%lld", (long long)q->layers);
    (void)snprintf(word[4], sizeof word[4], "%lld", (long long)q->width);
    const char *const argv[] = {
        peer_interpreter(), script, method, points, weights, word[0], word[1], word[2], word[3], word[4], rate, NULL};
    double *theta = write_points(t, points) == 0 && peer_output(argv, text, sizeof text) == 0 ? read_theta(t, weights)
                                                                                              : NULL;
    if (theta)
        printf("  %-3s %-4s %4lld %8.0f %8.1f %10.4f\n", method, rate, (long long)seed, peer_value(text, "updates"),
               seconds, exact_likelihood(t, theta));
    (void)fflush(stdout);
    (void)unlink(points);
    (void)unlink(weights);
    int ran = theta != NULL;
    free(theta);
    return ran;
}

/* Both methods at two rates each. */
static int train_peers(const request *q, const task *t, int64_t seed, double seconds)
{
    static const char *const peers[][2] = {{"nce", "1e-3"}, {"nce", "4e-3"}, {"ed", "1e-3"}, {"ed", "4e-3"}};
    for (size_t k = 0; k < sizeof peers / sizeof *peers; k++)
        if (!train_peer(q, t, peers[k][0], peers[k][1], seed, seconds)) return 0;
    return 1;
}

static int named(const request *q, const char *name) { return strstr(q->data, name) != NULL; }

static void run_task(request *q, task *t)
{
    for (int64_t seed = q->first; seed < q->last && named(q, t->name); seed++) {
        double used = train(q, t, seed), allowed = q->seconds > 0 ? (double)q->seconds : used;
        if (t->dim == 2 && !q->alone && !train_peers(q, t, seed, allowed)) {
            printf("  ebmkit did not run: set SOSMC_PEER_PYTHON to a Python that has it and PyTorch\n");
            q->alone = 1;
        }
    }
    free(t->x);
}

int main(int argc, char **argv)
{
    request q = {.data = "circles,two_moons,blobs", .last = 3, .layers = 4, .width = 128, .points = 20000};
    const bench_option options[] = {{.name = "--data", .text = &q.data},
                                    {.name = "--first", .number = &q.first},
                                    {.name = "--last", .number = &q.last},
                                    {.name = "--layers", .number = &q.layers},
                                    {.name = "--width", .number = &q.width},
                                    {.name = "--points", .number = &q.points},
                                    {.name = "--particles", .number = &q.particles},
                                    {.name = "--seconds", .number = &q.seconds},
                                    {.name = "--alone", .flag = &q.alone}};
    const char *odd = options_read(argc, argv, options, sizeof options / sizeof *options);
    if (odd || q.layers < 1 || q.layers > MOST_LAYERS || q.width < 1 || q.points < 100) {
        (void)fprintf(stderr, "train: '%s' is not understood; see the head of bench/bench_train.c\n",
                      odd ? odd : "a size");
        return 2;
    }
    printf("%-10s %4s %8s %8s %10s %10s %8s %6s\n", "points", "seed", "updates", "s", "exact", "told", "error", "off");
    static const points_kind shapes[] = {POINTS_CIRCLES, POINTS_TWO_MOONS, POINTS_BLOBS};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        task t;
        if (open_shape(&t, &q, shapes[k]) == 0) run_task(&q, &t);
    }
    static const char *const names[] = {"modes5", "modes10"};
    for (int k = 0; k < 2; k++) {
        task t;
        if (named(&q, names[k]) && open_modes(&t, &q, names[k], k ? 10 : 5) == 0) run_task(&q, &t);
    }
    printf("%d of %d numbers within three errors, %d within 1.96; %d runs flagged\n", q.three, q.numbers, q.two,
           q.flagged);
    return 0;
}
