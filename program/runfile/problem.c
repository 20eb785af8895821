/* problem.c: from a resolved run file to what sosmc_create takes, and what can be asked of it afterwards. Every section of
 * the file has a function in a problem_*.c of its own; what the plain values of the library point to is kept in `parts`
 * until job_free. */
#include "problem.h"

#include <stdarg.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/lattice.h>

#include "files/files.h"
#include "problem_inside.h"

int job_wrong(const builder *b, const char *path, const char *format, ...)
{
    char where[512], what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)files_fail(b->error, b->room, "%s: %s %s", config_where(b->c, path, where, sizeof where), path, what);
    return -1;
}

const double *job_vector(const builder *b, const char *path, int n)
{
    int length = 0;
    const double *v = config_vector(b->c, path, &length);
    if (v && length == n) return v;
    (void)job_wrong(b, path, "has %d numbers; expected %d", length, n);
    return NULL;
}

int job_build(job *out, const config *c, int *io, char *error, size_t room)
{
    *io = 0;
    *out = (job){.parts = calloc(1, sizeof *out->parts)};
    builder b = {.job = out, .c = c, .p = out->parts, .io = io, .error = error, .room = room};
    if (!out->parts) return job_no_memory(&b);
    if (job_build_model(&b) || job_build_objective(&b) || job_build_init(&b)) return -1;
    job_build_settings(&b);
    return 0;
}

void job_free(job *j)
{
    struct parts *p = j->parts;
    if (!p) return;
    sosmc_expression_free(p->formula);
    model_free(&p->judge_file);
    free(p->judge_prep);
    images_free(&p->images);
    image_free(&p->seen);
    free(p->pixel_weight);
    free(p->mask);
    free(p->features);
    free(p->labels);
    free(p->mean);
    free(p->factor);
    free(p->points);
    free(p->low);
    free(p->high);
    free(p->started);
    model_free(&p->network);
    free(p);
    j->parts = NULL;
}

const double *job_points(const job *j, int64_t *rows)
{
    int fitted = j->parts && j->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD;
    *rows = fitted ? j->parts->rows.rows : 0;
    return fitted ? j->parts->points : NULL;
}

int job_shape(const job *j, int64_t shape[3])
{
    const image *seen = &j->parts->seen;
    shape[0] = seen->pixel ? seen->channels : j->problem.model.dim_x;
    shape[1] = seen->pixel ? seen->rows : 0;
    shape[2] = seen->pixel ? seen->columns : 0;
    return seen->pixel ? 3 : 1;
}

int job_has_network(const job *j)
{
    return j->parts->network.parameters > 0 && j->parts->network.parameters == j->problem.model.dim_theta;
}

int job_write_model(const job *j, const double *theta, const char *path, char *error, size_t room)
{
    model_file f = j->parts->network;
    size_t bytes = (size_t)f.parameters * sizeof *f.theta;
    f.theta = malloc(bytes + 1);
    if (!f.theta) return files_fail(error, room, "out of memory for the %d parameters of %s", f.parameters, path);
    memcpy(f.theta, theta, bytes);
    int rc = model_write(path, &f, error, room);
    free(f.theta);
    return rc;
}

int job_evidence(const job *j, const double *at, sosmc_evidence *out)
{
    enum { DRAWS = 100000 };
    struct parts *p = j->parts;
    double theta = at[0];
    int rc = -1;
    if (p->hierarchical.dim > 0) {
        sosmc_hierarchical_law law = {.data = &p->hierarchical, .theta = theta};
        rc = sosmc_importance(&j->problem.model, &theta, sosmc_hierarchical_source(&law), DRAWS, j->settings.seed, out);
    }
    if (p->logistic.dim > 0) {
        size_t dim = (size_t)p->logistic.dim;
        double *mode = malloc(dim * sizeof *mode), *factor = calloc(dim * dim, sizeof *factor);
        sosmc_gaussian law = {.dim = p->logistic.dim,
                              .mean = mode,
                              .factor = factor,
                              .widen = 1.2,
                              .share = 0.02,
                              .centre = theta,
                              .variance = p->logistic.variance};
        if (mode && factor && sosmc_logistic_laplace(&p->logistic, theta, mode, factor) == SOSMC_OK)
            rc = sosmc_importance(&j->problem.model, &theta, sosmc_gaussian_source(&law), DRAWS, j->settings.seed, out);
        free(mode);
        free(factor);
    }
    return rc == 0 ? 0 : -1;
}

double job_strength(const job *j, const sosmc *s) { return j->parts->seen.pixel ? exp(sosmc_theta(s)[0]) : NAN; }

/* Log-weights of a cloud at the engine's theta become those of the same particles at another one. */
static int reweigh(const job *j, const sosmc *s, const double *theta, int64_t n, const double *x, double *logw)
{
    const sosmc_model *m = &j->problem.model;
    if (memcmp(theta, sosmc_theta(s), (size_t)m->dim_theta * sizeof *theta) == 0) return 0;
    double *here = malloc((size_t)n * sizeof *here), *there = malloc((size_t)n * sizeof *there);
    int rc = !here || !there || sosmc_energies(m, sosmc_theta(s), n, x, 1, here) != SOSMC_OK ||
             sosmc_energies(m, theta, n, x, 1, there) != SOSMC_OK;
    for (int64_t i = 0; rc == 0 && i < n; i++) logw[i] += here[i] - there[i];
    free(here);
    free(there);
    return rc ? -1 : 0;
}

double job_information(const job *j, const sosmc *s, const double *theta)
{
    double information = NAN;
    int64_t n = sosmc_particles(s);
    if (j->problem.model.dim_theta != 1) return NAN;
    double *x = malloc((size_t)n * (size_t)j->problem.model.dim_x * sizeof *x),
           *logw = malloc((size_t)n * sizeof *logw);
    if (!x || !logw || sosmc_cloud(s, x, logw) != SOSMC_OK || reweigh(j, s, theta, n, x, logw) ||
        sosmc_louis(&j->problem.model, theta, n, x, logw, &information) != SOSMC_OK)
        information = NAN;
    free(x);
    free(logw);
    return information;
}
