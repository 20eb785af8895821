/* langevin_cells.c: the settings of the Langevin experiment and its runs, both from the run files A.yaml to D.yaml, which hold the
 * constants of the published programs. A method is a few keys that are set in them (README.md). */
#include "langevin_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

const char *const langevin_method_names[LANGEVIN_METHODS] = {"ImpDiff",    "SOUL",      "SOSMC-ULA",
                                                             "SOSMC-MALA", "SOSMC-RWM", "SOSMC-HMC"};

static const char *const method_keys[LANGEVIN_METHODS][3] = {
    [IMPDIFF] = {"scheme=impdiff", "adapt=null", "resampling=null"},
    [SOUL] = {"scheme=soul", "adapt=null", "resampling=null"},
    [SOSMC_MALA] = {"kernel.type=mala"},
    [SOSMC_RWM] = {"kernel.type=rwm"},
    [SOSMC_HMC] = {"kernel={type: hmc, step: 0.1, leapfrog: 1}", "adapt=null"}};

/* ---------------------------------------------------------------------------- settings */

static experiment_file load(const langevin_setting *s)
{
    char file[16];
    (void)snprintf(file, sizeof file, "%s.yaml", s->name);
    return experiment_load(s->dir, file);
}

static int open_setting(langevin_setting *s, char *error, size_t room)
{
    int rows = 0, cols = 0, weights = 0, center = 0;
    experiment_file f = load(s);
    if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) {
        config_free(f.c);
        return files_fail(error, room, "%s", f.error);
    }
    s->file = f.c;
    s->mixture = (sosmc_mixture){.dim = 2,
                                 .means = config_matrix(f.c, "model.means", &rows, &cols),
                                 .variance = config_number(f.c, "model.variance"),
                                 .eps = config_number(f.c, "model.eps")};
    s->mixture.components = rows;
    s->theta_ref = config_vector(f.c, "model.theta", &weights);
    s->reward = (sosmc_gate){
        .dim = 2,
        .center = config_vector(f.c, "objective.reward.center", &center),
        .tau = config_number(f.c, "objective.reward.tau"),
        .lambda = config_has(f.c, "objective.reward.lambda") ? config_number(f.c, "objective.reward.lambda") : 0,
        .alpha = config_number(f.c, "objective.reward.alpha")};
    s->beta = config_number(f.c, "objective.beta");
    s->particles = (int)config_integer(f.c, "particles");
    s->iterations = (int)config_integer(f.c, "iterations");
    if (cols == 2 && center == 2 && rows <= LANGEVIN_MAX && weights == rows) return 0;
    return files_fail(error, room,
                      "%s/%s.yaml: expected a mixture of at most %d components in the plane and a gate as reward",
                      s->dir, s->name, (int)LANGEVIN_MAX);
}

int langevin_open(langevin_setting out[LANGEVIN_SETTINGS], char *error, size_t room)
{
    static const char *const names[LANGEVIN_SETTINGS] = {"A", "B", "C", "D"};
    static const char *const labels[LANGEVIN_SETTINGS] = {"V_dual, R_smooth", "V_dual, R_hard", "V_sparse, R_hard",
                                                          "V_tight, R_tight"};
    int rc = 0;
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        out[k] = (langevin_setting){.name = names[k], .label = labels[k]};
        if (rc == 0) rc = experiment_find("langevin", "A.yaml", out[k].dir, error, room);
        if (rc == 0) rc = open_setting(&out[k], error, room);
    }
    return rc;
}

void langevin_close(langevin_setting settings[LANGEVIN_SETTINGS])
{
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        config_free(settings[k].file);
        settings[k].file = NULL;
    }
}

/* ---------------------------------------------------------------------------- one run */

static int start(const langevin_run *r, experiment_engine *out, char *error, size_t room)
{
    experiment_file f = load(r->setting);
    for (int i = 0; i < 3 && method_keys[r->method][i]; i++) experiment_set(&f, "%s", method_keys[r->method][i]);
    experiment_set(&f, "objective.beta=%.17g", r->beta);
    experiment_set(&f, "objective.reference.batch=%d", r->reference);
    experiment_set(&f, "optimiser.type=%s", r->adam ? "adam" : "sgd");
    experiment_set(&f, "particles=%d", r->particles);
    experiment_set(&f, "seed=%llu", (unsigned long long)r->seed);
    experiment_set(&f, "threads=%d", r->threads);
    for (int i = 0; i < LANGEVIN_KEYS && r->set[i]; i++) experiment_set(&f, "%s", r->set[i]);
    return experiment_start(&f, out, error, room);
}

static void note(langevin_result *out, const sosmc_info *info, double seconds, int stride)
{
    if (info->iteration % stride || out->points == LANGEVIN_POINTS) return;
    int i = out->points++;
    out->at[i] = (double)info->iteration + 1;
    out->curve_reward[i] = info->mean_score;
    out->curve_density[i] = -info->mean_energy; /* what the paper's figures call NLL */
    out->curve_seconds[i] = seconds;
}

static sosmc_status iterate(const langevin_run *run, sosmc *s, double optimum, langevin_result *out)
{
    int stride = run->iterations > LANGEVIN_POINTS ? (run->iterations + LANGEVIN_POINTS - 1) / LANGEVIN_POINTS : 1;
    double begin = monotonic_seconds();
    for (int k = 0; k < run->iterations && !interrupt_requested(); k++) {
        sosmc_status status = sosmc_step(s);
        double seconds = monotonic_seconds() - begin;
        if (status != SOSMC_OK) return status;
        if (run->budget_seconds > 0 && seconds >= run->budget_seconds) break; /* an iteration that ended too late */
        const sosmc_info *info = sosmc_last(s);
        out->reward = info->mean_score;
        out->step = info->h;
        out->acceptance = info->accept;
        out->seconds = seconds;
        out->iterations = k + 1;
        note(out, info, seconds, stride);
        if (out->reached < 0 && info->mean_score >= 0.99 * optimum) {
            out->reached = k + 1;
            out->reached_seconds = seconds;
        }
    }
    return SOSMC_OK;
}

/* Measures the cloud: x has n rows of dim, logw n numbers. x is overwritten. */
static void look_at(int n, int dim, double *x, const double *logw, double *sample, langevin_result *out)
{
    double right = 0, sum = 0;
    for (int i = 0; i < n; i++)
        if (x[(size_t)i * (size_t)dim] > 0) right += exp(logw[i]);
    out->right = right;
    for (int i = 0, j = 0; sample && dim == 2 && i < n; i++) {
        sum += exp(logw[i]);
        for (; j < LANGEVIN_SAMPLE && (j + 0.5) / LANGEVIN_SAMPLE < sum; j++)
            memcpy(&sample[2 * j], &x[2 * i], 2 * sizeof *x);
    }
    for (int i = 0; i < n; i++)
        x[i] = x[(size_t)i * (size_t)dim]; /* copies agree in the first coordinate, others never */
    qsort(x, (size_t)n, sizeof *x, experiment_ascending);
    int different = 1;
    for (int i = 1; i < n; i++) different += x[i] != x[i - 1];
    out->distinct = (double)different / n;
}

static int look_at_end(const langevin_run *run, const experiment_engine *e, langevin_result *out, char *error,
                       size_t room)
{
    int n = sosmc_particles(e->engine), dim = e->job.problem.model.dim_x;
    double *x = malloc((size_t)n * ((size_t)dim + 1) * sizeof *x), *logw = x ? x + (size_t)n * (size_t)dim : NULL;
    langevin_softmax(e->job.problem.model.dim_theta, sosmc_theta(e->engine), out->weight);
    int rc = x && sosmc_cloud(e->engine, x, logw) == SOSMC_OK ? 0 : files_fail(error, room, "out of memory");
    if (rc == 0) look_at(n, dim, x, logw, run->sample, out);
    free(x);
    return rc;
}

int langevin_execute(const langevin_run *run, double optimum, langevin_result *out, char *error, size_t room)
{
    experiment_engine e;
    *out = (langevin_result){.reward = NAN, .reached = -1, .reached_seconds = NAN};
    int rc = start(run, &e, error, room);
    if (rc == 0 && iterate(run, e.engine, optimum, out) != SOSMC_OK)
        rc = files_fail(error, room, "%s", sosmc_message(e.engine));
    if (rc == 0) rc = look_at_end(run, &e, out, error, room);
    experiment_engine_free(&e);
    return rc;
}

double langevin_best_tenth(const langevin_result *r)
{
    double took[LANGEVIN_POINTS];
    int n = r->points - 1;
    if (n < 1) return NAN;
    for (int i = 0; i < n; i++) took[i] = (r->curve_seconds[i + 1] - r->curve_seconds[i]) / (r->at[i + 1] - r->at[i]);
    qsort(took, (size_t)n, sizeof *took, experiment_ascending);
    return took[n / 10];
}
