/* report_data.c: a run directory, read for its report.
 *
 * A file that is missing is no error (a run may have been stopped early), a damaged one is. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report_inside.h"

static const int64_t cloud_limit = ((int64_t)2 << 30) / 8; /* numbers */

/* 1: PATH = DIR/NAME is there; 0: it is not; -1: the path is too long. */
static int find(char path[FILES_PATH], const char *dir, const char *name, char *error, size_t room)
{
    if (files_join(path, dir, name, error, room)) return -1;
    return access(path, F_OK) == 0;
}

static int load_trace(report_data *r, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    int there = find(path, dir, "trace.csv", error, room);
    if (there < 0) return -1;
    if (!there) return files_fail(error, room, "%s is not a run directory: it has no trace.csv", dir);
    csv_options options = {.header = CSV_HEADER_YES, .max_bytes = (size_t)4 << 30, .max_rows = 100000000};
    if (csv_read(path, &options, &r->trace, error, room)) return -1;
    r->rows = (int)r->trace.rows;
    for (int c = 0; c < r->trace.columns; c++)
        if (r->trace.column[c].odd) {
            const double *ignored;
            return csv_numbers(&r->trace, c, &ignored, error, room);
        }
    r->unit = r->trace.column[0].name;
    if (strcmp(r->unit, "iteration") != 0 && strcmp(r->unit, "step") != 0)
        return files_fail(error, room, "%s is not a trace: its first column is '%s', not 'iteration' or 'step'", path,
                          r->unit);
    return 0;
}

/* Both files rise in their iterations; rows that only the trace has get the time in between. */
static void match_times(const report_data *r, const double *k, const double *t, int64_t n)
{
    int64_t j = 0;
    for (int i = 0; i < r->rows; i++) {
        double want = r->trace.column[0].number[i];
        while (j + 1 < n && k[j + 1] <= want) j++;
        r->seconds[i] = NAN;
        if (n > 0 && k[j] == want)
            r->seconds[i] = t[j];
        else if (j + 1 < n && k[j] < want)
            r->seconds[i] = t[j] + (t[j + 1] - t[j]) * (want - k[j]) / (k[j + 1] - k[j]);
    }
}

static int load_timing(report_data *r, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    csv_table t;
    csv_options options = {.header = CSV_HEADER_YES, .max_bytes = (size_t)4 << 30};
    int there = find(path, dir, "timing.csv", error, room);
    if (there <= 0) return there;
    if (csv_read(path, &options, &t, error, room)) return -1;
    const csv_column *k = csv_find(&t, r->unit), *s = csv_find(&t, "seconds");
    int status = 0;
    if (!k || !s || !k->number || !s->number) {
        status = files_fail(error, room, "%s has no columns of numbers called %s and seconds", path, r->unit);
    } else if (t.rows > 0 && r->rows > 0) {
        r->seconds = malloc((size_t)r->rows * sizeof(double));
        if (r->seconds)
            match_times(r, k->number, s->number, t.rows);
        else
            status = files_fail(error, room, "no memory to read %s", path);
    }
    csv_free(&t);
    return status;
}

/* Weights from their logarithms; equal ones when there are none. */
static int load_weights(report_data *r, const char *path, char *error, size_t room)
{
    npy_array logw = {0};
    size_t n = (size_t)r->particles;
    double top = -INFINITY, sum = 0.0;
    int weighted = npz_read_part(path, "logw", 0, &logw, NULL, 0) == 0 && npy_count(&logw) == r->particles &&
                   npz_read(path, "logw", &logw, NULL, 0) == 0 && npy_count(&logw) == r->particles;
    r->w = malloc(n * sizeof(double));
    if (!r->w) {
        npy_free(&logw);
        return files_fail(error, room, "no memory to read %s", path);
    }
    if (weighted) npy_doubles(&logw, r->w);
    npy_free(&logw);
    for (size_t i = 0; weighted && i < n; i++)
        if (r->w[i] > top) top = r->w[i];
    weighted = weighted && isfinite(top);
    for (size_t i = 0; i < n; i++) {
        double v = weighted ? exp(r->w[i] - top) : 1.0;
        r->w[i] = isfinite(v) ? v : 0.0;
        sum += r->w[i];
    }
    for (size_t i = 0; i < n; i++) r->w[i] /= sum;
    return 0;
}

int report_cloud(const char *dir, int dim, char path[FILES_PATH], npy_array *x, char *error, size_t room)
{
    json_t *summary = NULL;
    int there = find(path, dir, "summary.json", error, room);
    if (there < 0 || (there && json_read(path, &summary, error, room))) return -1;
    double rows = json_value_of(summary, "particles");
    json_decref(summary);
    there = find(path, dir, "particles.npz", error, room);
    for (int whole = 0; there == 1 && whole < 2; whole++) {
        npy_free(x);
        if (npz_read_part(path, "x", whole, x, error, room)) return -1;
        if (x->type != NPY_F64 || x->dims < 1 || x->dims > 2)
            return files_fail(error, room, "%s: x is not a float64 array of particles by coordinates", path);
        double columns = x->dims == 2 ? (double)x->shape[1] : 1;
        if ((isfinite(rows) && (double)x->shape[0] != rows) || (dim > 0 && columns != dim))
            return files_fail(error, room, "%s holds %" PRId64 " particles of %.0f numbers; expected %s", path,
                              x->shape[0], columns, "those of summary.json and run.yaml");
        if (npy_count(x) > cloud_limit) there = 2;
    }
    return there;
}

static int load_cloud(report_data *r, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    int there = report_cloud(dir, 0, path, &r->x, error, room);
    r->too_large = there == 2;
    if (there != 1) return there < 0 ? -1 : 0;
    int64_t dim = r->x.dims == 2 ? r->x.shape[1] : 1;
    if (npy_count(&r->x) == 0 || dim > INT32_MAX) return 0;
    r->particles = r->x.shape[0];
    r->dim = (int)dim;
    return load_weights(r, path, error, room);
}

static int load_rest(report_data *r, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    size_t size = 0;
    int there = find(path, dir, "summary.json", error, room);
    if (there < 0 || (there && json_read(path, &r->summary, error, room))) return -1;
    there = find(path, dir, "theta.npy", error, room);
    if (there < 0 || (there && npy_read(path, &r->theta, error, room))) return -1;
    there = find(path, dir, "run.yaml", error, room);
    if (there < 0 || (there && files_read(path, (size_t)16 << 20, &r->settings, &size, error, room))) return -1;
    return 0;
}

int report_load(report_data *r, const char *dir, char *error, size_t room)
{
    *r = (report_data){0};
    int status = load_trace(r, dir, error, room) || load_timing(r, dir, error, room) ||
                 load_cloud(r, dir, error, room) || load_rest(r, dir, error, room);
    if (status) report_unload(r);
    return status ? -1 : 0;
}

void report_unload(report_data *r)
{
    csv_free(&r->trace);
    npy_free(&r->theta);
    npy_free(&r->x);
    json_decref(r->summary);
    free(r->seconds);
    free(r->settings);
    free(r->w);
    *r = (report_data){0};
}

/* ---------------------------------------------------------------------------- curves */

const curve report_curves[] = {
    {"mean_score", "reward", "Reward", "mean reward", "Weighted mean of the reward over the particles",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .noisy = 1, .result = "reward"},
    {"loss", "loss", "Loss", "loss",
     "Diagnostic from the running log Z, which follows the errors of the cloud that steers theta",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .noisy = 1, .result = "loss",
     .learnt =
         "Loss of the averaged theta on points that do not steer it, with fresh particles, measured every 50 updates",
     .tuned = "Loss of the averaged theta with fresh particles, measured every 50 updates"},
    {"kl", "divergence", "Divergence from the reference", "KL divergence", "Diagnostic from the running log Z",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .result = "kl"},
    {"mean_energy", "log-density", "Mean log-density", "mean log-density",
     "Weighted mean of −U over the particles, a log-density without its constant", .section = SECTION_OBJECTIVE,
     .sign = -1.0, .noisy = 1},
    {"data_energy", "data-energy", "Energy of the data", "mean energy of the data", "Mean of U over the data batch",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .noisy = 1},
    {"penalty", "penalty", "Penalty", "penalty", "The regulariser's value on the data batch, times its factor",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .noisy = 1},
    {"logz", "log-z", "Normalising constant", "log Z", "Diagnostic from the incremental weights, without an error",
     .section = SECTION_OBJECTIVE, .sign = 1.0, .result = "log_z"},
    {"decrease", "decrease", "Decrease of the loss", "decrease of the loss",
     "The sum of what the updates gained, by the cloud's own estimate", .section = SECTION_OBJECTIVE, .sign = 1.0,
     .learnt = "The sum of what 50 updates each gained in that loss"},
    {"gain", "gain", "Gain of an update", "gain",
     "What the last update gained in the loss, by the cloud's own estimate", .section = SECTION_OBJECTIVE, .sign = 1.0,
     .log = 1, .learnt = "What the last 50 updates gained in that loss, against the best before"},
    {"ess", "ess", "Effective sample size", "ESS", "Effective sample size of the weights", .section = SECTION_CLOUD,
     .sign = 1.0, .noisy = 1},
    {"accept", "acceptance", "Acceptance", "mean acceptance", "Mean acceptance probability of the move",
     .section = SECTION_CLOUD, .sign = 1.0, .noisy = 1},
    {"mobility", "mobility", "Mobility", "mobility",
     "Mean squared jump of an observed move over twice the variance of the cloud: near 0 the cloud is frozen, at 1 the draws are "
     "independent",
     .section = SECTION_CLOUD, .sign = 1.0, .noisy = 1},
    {"h", "step", "Step size", "step size", "Step of the kernel", .section = SECTION_CLOUD, .sign = 1.0, .log = 1},
    {"grad_norm", "gradient", "Gradient norm", "gradient norm", "Norm of the estimated gradient, before clipping",
     .section = SECTION_ENGINE, .sign = 1.0, .log = 1, .noisy = 1},
    {"evaluations", "evaluations", "Evaluations", "evaluations", "Evaluations of U for one particle, so far",
     .section = SECTION_ENGINE, .sign = 1.0},
    {"rate", "rate", "Learning rate", "learning rate", "Learning rate of the optimiser", .section = SECTION_ENGINE,
     .sign = 1.0, .log = 1},
};
const int report_curve_count = (int)(sizeof report_curves / sizeof *report_curves);

const double *report_values(const report_data *r, const char *column)
{
    const csv_column *c = csv_find(&r->trace, column);
    return c ? c->number : NULL;
}

double report_scale(const report_data *r, const curve *c)
{
    return !strcmp(c->column, "ess") && r->particles > 0 ? 1.0 / (double)r->particles : c->sign;
}

int report_shows(const report_extra *extra, const curve *c)
{
    if (strcmp(c->column, "ess") == 0) return !extra->no_weights;
    return strcmp(c->column, "accept") != 0 || !extra->no_acceptance;
}

int report_has_result(const report_data *r, const curve *c)
{
    return c->result && json_is_number(json_object_get(r->summary, c->result));
}

digest report_digest(const report_data *r, const curve *c)
{
    digest d = {.first = NAN, .last = NAN, .min = NAN, .max = NAN, .mean = NAN, .sd = NAN};
    const double *y = report_values(r, c->column);
    double scale = report_scale(r, c), sum = 0.0, squares = 0.0;
    int m = 0;
    for (int i = 0; y && i < r->rows; i++) {
        double v = scale * y[i];
        if (!isfinite(v)) continue;
        if (d.n++ == 0) d.first = d.min = d.max = v;
        d.last = v;
        d.min = fmin(d.min, v);
        d.max = fmax(d.max, v);
        if (i < r->rows - r->rows / 10 - 1) continue;
        double old = sum; /* Welford: mean in `sum`, squared deviations in `squares` */
        sum += (v - sum) / ++m;
        squares += (v - old) * (v - sum);
    }
    if (m > 0) d.mean = sum;
    if (m > 1) d.sd = sqrt(squares / (m - 1));
    return d;
}
