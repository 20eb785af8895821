/* demo_runs.c: the three parts of `sosmc demo`, by the same functions as the commands: session_run with a run file, and
 * command_deblur. Numbers come from what the runs leave (summary.json, particles.npz, deblur.json); what is exact and not in
 * there is computed here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runfile/config.h"
#include "drafts/deblur.h"
#include "demo.h"
#include "demo_inside.h"
#include "pictures/images.h"
#include "terminal/say.h"
#include "terminal/session.h"
#include "files/share.h"

enum { SENTENCE = 1024, ASSIGNMENT = 64 };

/* ---------------------------------------------------------------------------- the run files */

/* A test compares these texts with the files of examples/. */
const char demo_batting[] =
    "# How good is a batter whom nobody has seen yet? The hits of 18 players in their first 45 times at bat of 1970 (18, 17, 16,\n"
    "# 15, 14, 14, 13, 12, 11, 11, five times 10, 9, 8, 7), from table 1 of B. Efron and C. Morris, \"Data analysis using Stein's\n"
    "# estimator and its generalizations\", Journal of the American Statistical Association 70 (1975), 311-319. As there,\n"
    "# y = sqrt(45) arcsin(2 hits/45 - 1), whose noise has variance 1. A player's true skill is x_d ~ N(theta, 1), and\n"
    "# y_d ~ N(x_d, 1): theta, the skill of the population, has the mean of y as its estimate.\n"
    "model:\n"
    "  type: hierarchical_gaussian\n"
    "  y: [-1.351, -1.657, -1.966, -2.280, -2.599, -2.599, -2.924, -3.257, -3.599, -3.599, -3.951, -3.951, -3.951, -3.951,\n"
    "      -3.951, -4.317, -4.698, -5.098]\n"
    "  theta: [0]\n"
    "objective: mmle\n"
    "seed: 1970\n";

const char demo_modes[] =
    "# A model of three modes is tuned towards a reward without a gradient, held near where it was: 0 for the upper mode, 1/2 for the\n"
    "# one on the left, 1 for the one on the right. Everything is in the plane, so that exact values and the best value that any\n"
    "# density could have are computed along the way (`evaluate`).\n"
    "model: {type: gaussian_mixture, means: [[-3, -2], [3, -2], [0, 3]], variance: 0.5}\n"
    "objective:\n"
    "  type: reward_reverse\n"
    "  reward: \"(x2 < 0.5) * (0.5 + 0.5 * (x1 > 0))\"\n"
    "  beta: 0.25\n"
    "kernel: {type: ula, step: 0.1}\n"
    "optimiser: {type: adam, rate: 0.1, schedule: {type: cosine, a: 600, b: 0.01}}\n"
    "particles: 10000\n"
    "iterations: 600\n"
    "seed: 3\n"
    "evaluate: {every: 10, nodes: 400, low: -7, high: 7}\n";

/* ---------------------------------------------------------------------------- runs and what they left */

/* Runs the text into OUT/NAME. *kept gets the resolved run file, which the caller frees. */
static int run_text(const demo *d, const char *text, const char *name, const char *const *set, config **kept)
{
    char dir[FILES_PATH], threads[ASSIGNMENT], error[SENTENCE];
    if (files_join(dir, d->out, name, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    session_options options = {.out = dir, .overwrite = 1, .quiet = 1};
    config *c = config_parse(text, name, error, sizeof error);
    (void)snprintf(threads, sizeof threads, "threads=%d", d->threads);
    int rc = c ? config_set(c, threads, error, sizeof error) : -1;
    for (; rc == 0 && *set; set++) rc = config_set(c, *set, error, sizeof error);
    if (rc == 0) rc = config_resolve(c, error, sizeof error);
    int code = rc ? complain(SOSMC_EXIT_USAGE, "%s", error) : session_run(c, &options);
    if (code == SOSMC_EXIT_OK)
        *kept = c;
    else
        config_free(c);
    return code;
}

/* The first number of a list. */
static double first_of(const json_t *object, const char *key)
{
    return json_value(json_array_get(json_object_get(object, key), 0));
}

static void read_list(demo_warnings *w, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && w->n < DEMO_WARNINGS; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text) (void)snprintf(w->text[w->n++], DEMO_WARNING, "%s", text);
    }
}

/* What speaks against a run, and what else must be said of it. */
static void read_warnings(demo_warnings *w, const json_t *summary)
{
    read_list(w, json_object_get(json_object_get(summary, "verdict"), "reasons"));
    read_list(w, json_object_get(summary, "warnings"));
}

/* OUT/NAME/FILE as JSON; NULL, having said why. */
static json_t *left_by(const demo *d, const char *name, const char *file)
{
    char dir[FILES_PATH], path[FILES_PATH], error[SENTENCE];
    json_t *found = NULL;
    if (files_join(dir, d->out, name, error, sizeof error) || files_join(path, dir, file, error, sizeof error) ||
        json_read(path, &found, error, sizeof error))
        (void)complain(0, "%s", error);
    return found;
}

/* ---------------------------------------------------------------------------- the marginal likelihood */

double demo_batting_average(double skill)
{
    const double quarter = 1.57079632679489661923;
    double angle = skill / sqrt(DEMO_AT_BATS);
    return 0.5 * (1 + sin(fmax(-quarter, fmin(quarter, angle))));
}

/* y_d ~ N(theta, 2) and, given y, x_d ~ N((theta + y_d)/2, 1/2). */
static void find_exact(demo_likelihood *l, const config *c)
{
    const double two_pi = 6.28318530717958647692;
    int n = 0;
    const double *y = config_vector(c, "model.y", &n);
    double mean = 0, sum = 0;
    for (int i = 0; i < n; i++) mean += y[i] / n;
    for (int i = 0; i < n; i++) sum -= 0.5 * log(2 * two_pi) + 0.25 * (y[i] - mean) * (y[i] - mean);
    l->exact_theta = (demo_estimate){mean, sqrt(2.0 / n)};
    l->exact_log_likelihood = sum;
    for (int i = 0; i < n && i < DEMO_PLAYERS; i++) l->exact_skill[i] = (demo_estimate){0.5 * (mean + y[i]), sqrt(0.5)};
}

/* Mean and standard deviation of every coordinate of the weighted particles, x of n rows. */
static void find_moments(demo_likelihood *l, const double *x, const double *logw, int64_t n, int64_t dim)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < n; i++) top = fmax(top, logw[i]);
    for (int64_t j = 0; j < dim && j < DEMO_PLAYERS; j++) {
        double all = 0, sum = 0, square = 0;
        for (int64_t i = 0; i < n; i++) {
            double w = exp(logw[i] - top), v = x[i * dim + j];
            all += w;
            sum += w * v;
            square += w * v * v;
        }
        double mean = sum / all;
        l->skill[j] = (demo_estimate){mean, sqrt(fmax(0, square / all - mean * mean))};
        l->players = (int)j + 1;
    }
}

/* Without particles.npz the table of players is left out. */
static void read_skills(demo_likelihood *l, const char *out)
{
    char path[FILES_PATH];
    npy_array x = {0}, logw = {0};
    (void)snprintf(path, sizeof path, "%.3900s/" DEMO_LIKELIHOOD "/particles.npz", out);
    if (npz_read(path, "x", &x, NULL, 0) == 0 && npz_read(path, "logw", &logw, NULL, 0) == 0 && x.dims == 2 &&
        x.type == NPY_F64 && logw.type == NPY_F64 && npy_count(&logw) == x.shape[0])
        find_moments(l, x.data, logw.data, x.shape[0], x.shape[1]);
    npy_free(&x);
    npy_free(&logw);
}

int demo_run_likelihood(demo *d)
{
    static const char *const nothing[] = {NULL}; /* it takes milliseconds, also when it need not be quick */
    demo_likelihood *l = &d->likelihood;
    config *c = NULL;
    int code = run_text(d, demo_batting, DEMO_LIKELIHOOD, nothing, &c);
    if (code != SOSMC_EXIT_OK) return code;
    find_exact(l, c);
    config_free(c);
    json_t *s = left_by(d, DEMO_LIKELIHOOD, "summary.json");
    if (!s) return SOSMC_EXIT_IO;
    l->theta = (demo_estimate){first_of(s, "theta"), first_of(s, "theta_standard_error")};
    l->log_likelihood = (demo_estimate){json_value_of(s, "log_z"), json_value_of(s, "log_z_error")};
    l->particles = (int)json_value_of(s, "particles");
    l->iterations = (int)json_value_of(s, "iterations");
    read_warnings(&l->warnings, s);
    json_decref(s);
    read_skills(l, d->out);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- the reward */

int demo_run_reward(demo *d)
{
    static const char *const full[] = {NULL};
    static const char *const quick[] = {"particles=2000",           "iterations=400",     "optimiser.rate=0.2",
                                        "optimiser.schedule.a=400", "evaluate.nodes=200", NULL};
    demo_reward *r = &d->reward;
    config *c = NULL;
    int code = run_text(d, demo_modes, DEMO_REWARD, d->quick ? quick : full, &c);
    if (code != SOSMC_EXIT_OK) return code;
    config_free(c);
    json_t *s = left_by(d, DEMO_REWARD, "summary.json");
    if (!s) return SOSMC_EXIT_IO;
    r->reward = json_value_of(s, "reward");
    r->loss = json_value_of(s, "loss");
    r->start_reward = json_value_of(json_object_get(s, "evaluated"), "ref_reward");
    r->best_reward = json_value_of(s, "best_reward");
    r->best_loss = json_value_of(s, "best_loss");
    r->particles = (int)json_value_of(s, "particles");
    r->iterations = (int)json_value_of(s, "iterations");
    read_warnings(&r->warnings, s);
    json_decref(s);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- the photograph */

#define GUITAR "guitar_292x119.pgm"
static const double MAP_WHITE = 0.99; /* so many of the errors are below what is shown white */

/* The photograph that comes with the program; 0: it is not there. */
static int find_photograph(char path[FILES_PATH])
{
    char dir[FILES_PATH];
    return share_find("deblurring", GUITAR, dir) == 0 && files_join(path, dir, GUITAR, NULL, 0) == 0;
}

/* Keeps a window of the upper middle, of at most so many rows and columns. */
static void crop(image *im, int rows, int columns)
{
    if (rows > im->rows) rows = im->rows;
    if (columns > im->columns) columns = im->columns;
    int top = (im->rows - rows) / 3, left = (im->columns - columns) / 2;
    for (int i = 0; i < rows; i++)
        memmove(im->pixel + (size_t)i * (size_t)columns,
                im->pixel + (size_t)(top + i) * (size_t)im->columns + (size_t)left, (size_t)columns * sizeof(double));
    im->rows = rows;
    im->columns = columns;
}

/* OUT/photograph/original.png, of 8 bits, and what that file holds. */
static int write_original(const demo *d, const char *photograph, const char *dir, const char *path, image *original,
                          char *error, size_t room)
{
    image im = {0};
    if (image_read(photograph, &im, error, room)) return -1;
    if (d->quick) crop(&im, 56, 48);
    int rc = files_directory(dir, error, room) || image_write(path, &im, 8, 0, 255, error, room) ? -1 : 0;
    image_free(&im);
    return rc ? -1 : image_read(path, original, error, room);
}

static int restore(const demo *d, char *dir, char *path)
{
    char threads[16];
    (void)snprintf(threads, sizeof threads, "%d", d->threads);
    char *argv[] = {"sosmc demo", path,    "--simulate", "--blur", "box:5",   "--noise",     "1",
                    "--threads",  threads, "--out",      dir,      "--quiet", "--overwrite", NULL};
    return command_deblur((int)(sizeof argv / sizeof *argv) - 1, argv);
}

/* An array of the run beside the others; its size must be that of the picture. */
static int take_array(double *out, size_t pixels, const char *dir, const char *name, char *error, size_t room)
{
    char path[FILES_PATH];
    npy_array a = {0};
    if (files_join(path, dir, name, error, room) || npy_read(path, &a, error, room)) return -1;
    int fits = npy_count(&a) == (int64_t)pixels;
    if (fits) npy_doubles(&a, out);
    npy_free(&a);
    return fits ? 0 : files_fail(error, room, "%s does not hold %zu numbers, one for each pixel", path, pixels);
}

static int write_grid(const char *dir, const char *name, const double *value, int count, const image *size, double high,
                      char *error, size_t room)
{
    char path[FILES_PATH];
    image_grid grid = {
        .columns = count, .magnify = size->rows < 150 ? 4 : 2, .line = 6, .shade = 255, .low = 0, .high = high};
    if (files_join(path, dir, name, error, room)) return -1;
    return image_grid_write(path, value, count, 1, size->rows, size->columns, &grid, error, room);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* pictures.png: original, blurred and restored; maps.png: standard deviation and error, on one scale. */
static int write_pictures(demo *d, const char *dir, const image *original, char *error, size_t room)
{
    size_t pixels = (size_t)original->rows * (size_t)original->columns;
    double *v = malloc(6 * pixels * sizeof *v);
    if (!v) return files_fail(error, room, "out of memory for the pictures of the page");
    double *seen = v + pixels, *mean = v + 2 * pixels, *sd = v + 3 * pixels, *off = v + 4 * pixels,
           *sorted = v + 5 * pixels;
    memcpy(v, original->pixel, pixels * sizeof *v);
    int rc = take_array(seen, pixels, dir, "seen.npy", error, room) ||
                     take_array(mean, pixels, dir, "mean.npy", error, room) ||
                     take_array(sd, pixels, dir, "sd.npy", error, room)
                 ? -1
                 : 0;
    for (size_t j = 0; rc == 0 && j < pixels; j++) sorted[j] = off[j] = fabs(mean[j] - v[j]);
    if (rc == 0) {
        qsort(sorted, pixels, sizeof *sorted, ascending);
        d->photograph.white = fmax(sorted[(size_t)(MAP_WHITE * (double)(pixels - 1))], 1e-9);
        rc = write_grid(dir, "pictures.png", v, 3, original, 255, error, room) ||
                     write_grid(dir, "maps.png", sd, 2, original, d->photograph.white, error, room)
                 ? -1
                 : 0;
    }
    free(v);
    return rc;
}

static int read_figures(demo *d)
{
    demo_photograph *p = &d->photograph;
    json_t *j = left_by(d, DEMO_PHOTOGRAPH, "deblur.json");
    if (!j) return SOSMC_EXIT_IO;
    p->noise = json_value_of(j, "noise");
    p->strength = json_value_of(j, "strength");
    p->before = json_value_of(json_object_get(j, "before"), "psnr");
    p->after = json_value_of(json_object_get(j, "after"), "psnr");
    p->coverage = json_value_of(j, "coverage_95");
    json_decref(j);
    return SOSMC_EXIT_OK;
}

int demo_run_photograph(demo *d)
{
    char photograph[FILES_PATH], dir[FILES_PATH], path[FILES_PATH], error[SENTENCE];
    image original = {0};
    d->photograph.found = find_photograph(photograph);
    if (!d->photograph.found) return SOSMC_EXIT_OK;
    if (files_join(dir, d->out, DEMO_PHOTOGRAPH, error, sizeof error) ||
        files_join(path, dir, "original.png", error, sizeof error) ||
        write_original(d, photograph, dir, path, &original, error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    d->photograph.rows = original.rows;
    d->photograph.columns = original.columns;
    int code = restore(d, dir, path);
    if (code == SOSMC_EXIT_OK && write_pictures(d, dir, &original, error, sizeof error))
        code = complain(SOSMC_EXIT_IO, "%s", error);
    image_free(&original);
    return code == SOSMC_EXIT_OK ? read_figures(d) : code;
}
