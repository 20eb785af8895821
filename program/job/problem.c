/* problem.c: from a resolved run file to what sosmc_create takes, and what can be asked of it afterwards. Every section of
 * the file has a function in a problem_*.c of its own, every kind of model a file of its own; what the plain values of the
 * library point to is kept until job_free. */
#include "problem.h"

#include <stdarg.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void job_note(const builder *b, const char *format, ...)
{
    struct parts *p = b->p;
    va_list args;
    if (p->notes == JOB_NOTES) return;
    va_start(args, format);
    (void)vsnprintf(p->note[p->notes++], JOB_SENTENCE, format, args);
    va_end(args);
}

const double *job_vector(const builder *b, const char *path, int n)
{
    int length = 0;
    const double *v = config_vector(b->c, path, &length);
    if (v && length == n) return v;
    (void)job_wrong(b, path, "has %d numbers; expected %d", length, n);
    return NULL;
}

double *job_spread(builder *b, const char *path)
{
    int dim = b->job->problem.model.dim_x, n = 0;
    const double *v = config_vector(b->c, path, &n);
    if (n != 1 && n != dim) {
        (void)job_wrong(b, path, "has %d numbers; expected 1 or %d", n, dim);
        return NULL;
    }
    double *out = job_take(b->job, (size_t)dim * sizeof *out);
    if (!out) (void)job_no_memory(b);
    for (int j = 0; out && j < dim; j++) out[j] = v[n == 1 ? 0 : j];
    return out;
}

int job_has_bounds(const job *j) { return j->problem.model.x_low || j->problem.model.x_high; }

int job_build(job *out, const config *c, int *io, char *error, size_t room)
{
    *io = 0;
    *out = (job){.parts = calloc(1, sizeof *out->parts)};
    builder b = {.job = out, .c = c, .p = out->parts, .io = io, .error = error, .room = room};
    if (!out->parts) return job_no_memory(&b);
    if (job_build_model(&b) || job_build_objective(&b) || job_build_init(&b)) return -1;
    if (b.p->kind->check && b.p->kind->check(&b)) return -1;
    job_build_settings(&b);
    return 0;
}

/* ---------------------------------------------------------------------------- what a job keeps */

struct kept {
    void *p;
    void (*release)(void *);
    struct kept *before;
};

void *job_keep(job *j, void *p, void (*release)(void *))
{
    struct kept *k = p ? malloc(sizeof *k) : NULL;
    if (!k) {
        if (p) release(p);
        return NULL;
    }
    *k = (struct kept){.p = p, .release = release, .before = j->parts->kept};
    j->parts->kept = k;
    return p;
}

void *job_take(job *j, size_t bytes) { return job_keep(j, calloc(1, bytes), free); }

void job_free(job *j)
{
    if (!j->parts) return;
    for (struct kept *k = j->parts->kept, *before; k; k = before) {
        before = k->before;
        k->release(k->p);
        free(k);
    }
    scaling_free(&j->parts->scaling);
    free(j->parts);
    j->parts = NULL;
}

/* ---------------------------------------------------------------------------- what can be asked of a job */

const double *job_points(const job *j, int64_t *rows)
{
    int fitted = j->parts && j->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD;
    *rows = fitted ? j->parts->rows.rows : 0;
    return fitted ? j->parts->points : NULL;
}

const double *job_held_out(const job *j, int64_t *rows)
{
    const double *points = job_points(j, rows);
    int64_t fitted = *rows;
    *rows = points ? j->parts->held_out : 0;
    return *rows > 0 ? points + (size_t)fitted * (size_t)j->problem.model.dim_x : NULL;
}

const points_scaling *job_scaling(const job *j)
{
    if (!j->parts) return NULL;
    const points_scaling *s = j->parts->network ? &j->parts->network->scaling : &j->parts->scaling;
    return s->dim > 0 ? s : NULL;
}

const points_scaling *job_units(const job *j)
{
    return j->parts && j->parts->network && !j->parts->scaled ? job_scaling(j) : NULL;
}

double job_log_volume(const job *j) { return job_units(j) ? scaling_log_density(job_units(j)) : 0; }

int job_picture(const job *j, picture_shape *out)
{
    return j->parts && j->parts->model && j->parts->kind->picture ? j->parts->kind->picture(j, out) : 0;
}

int job_shape(const job *j, int64_t shape[3])
{
    picture_shape picture;
    if (!j->parts->kind->keeps_shape || !job_picture(j, &picture)) {
        shape[0] = j->problem.model.dim_x;
        return 1;
    }
    shape[0] = picture.channels;
    shape[1] = picture.rows - 2 * picture.frame;
    shape[2] = picture.columns - 2 * picture.frame;
    return 3;
}

void job_cut(const job *j, double *x)
{
    picture_shape p;
    if (!j->parts->kind->keeps_shape || !job_picture(j, &p) || p.frame == 0) return;
    int rows = p.rows - 2 * p.frame, columns = p.columns - 2 * p.frame;
    for (int i = 0; i < p.channels * rows; i++)
        memmove(x + (size_t)i * (size_t)columns,
                x + (size_t)(i / rows * p.rows + i % rows + p.frame) * (size_t)p.columns + p.frame,
                (size_t)columns * sizeof *x);
}

int job_has_network(const job *j)
{
    const model_file *f = j->parts->network;
    return f && f->parameters > 0 && f->parameters == j->problem.model.dim_theta;
}

int job_write_model(const job *j, const double *theta, const char *path, char *error, size_t room)
{
    model_file f = *j->parts->network;
    size_t bytes = (size_t)f.parameters * sizeof *f.theta;
    f.theta = malloc(bytes + 1);
    if (!f.theta) return files_fail(error, room, "out of memory for the %d parameters of %s", f.parameters, path);
    memcpy(f.theta, theta, bytes);
    int rc = model_write(path, &f, error, room);
    free(f.theta);
    return rc;
}

double job_strength(const job *j, const sosmc *s)
{
    return j->parts->kind->log_strength ? exp(sosmc_theta(s)[0]) : NAN;
}

const sosmc_deblur *job_restores(const job *j) { return j->parts->restores; }

void job_theta_name(const job *j, int k, char out[JOB_NAME])
{
    const model_kind *kind = j->parts->kind;
    if (j->parts->tempering.model.energy)
        (void)snprintf(out, JOB_NAME, "temperature");
    else if (kind->theta_name)
        kind->theta_name(j, k, out);
    else if (j->problem.model.dim_theta == 1)
        (void)snprintf(out, JOB_NAME, "theta");
    else
        (void)snprintf(out, JOB_NAME, "theta_%d", k + 1);
}

int64_t job_rows(const job *j)
{
    const model_kind *kind = j->parts->kind;
    return j->problem.objective.loss == SOSMC_LOSS_MMLE && kind->observations ? kind->observations(j) : 0;
}

const char *job_note_at(const job *j, int i)
{
    return j->parts && i >= 0 && i < j->parts->notes ? j->parts->note[i] : NULL;
}

int64_t job_left_out(const job *j) { return j->parts ? j->parts->left_out : 0; }

double job_log_z(const job *j, const double *theta)
{
    const model_kind *kind = j->parts->kind;
    return kind->log_z && !j->parts->tempering.model.energy && !job_has_bounds(j) ? kind->log_z(j, theta) : NAN;
}

const char *job_why_no_log_z(const job *j)
{
    const model_kind *kind = j->parts->kind;
    const char *sampler = j->settings.kernel.name;
    if (sampler && strcmp(sampler, "jitter") == 0)
        return "the sampler jitter clips its moves, and no density is known that it leaves invariant";
    if (sampler && strcmp(sampler, "clamped ula") == 0)
        return "kernel.clamp cuts the moves off, and no density is known that they leave invariant";
    return kind->why_no_log_z ? kind->why_no_log_z(j) : NULL;
}
