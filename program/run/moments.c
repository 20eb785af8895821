/* moments.c: running mean and standard deviation of every coordinate over the weighted clouds of iterations
 *
 *     from, from + every, from + 2 every, ...
 *
 * Cloud k has weighted mean a_k and variance v_k in a coordinate. Behind n clouds, mean = sum a_k / n, and
 * spread = sum v_k + sum (a_k - mean)^2, updated without cancellation (Chan, Golub and LeVeque), so sd^2 = spread / n.
 *
 * Invariant: moments.npz, or else moments.previous.npz, belongs to the checkpoint on the disk; after a resumption it is
 * moments.npz. Sums run over the particles in their order, by one thread: the bytes do not depend on threads. */
#include "moments.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "job/problem.h"

enum { STATE_DONE, STATE_FROM, STATE_EVERY, STATE_CLOUDS, STATES };

struct moments {
    int64_t from, every, clouds;
    size_t dim, particles;
    double *mean, *spread;  /* over the clouds so far */
    double *now_mean, *now; /* of one cloud: mean and variance */
    double *x, *w;          /* the cloud */
    npy_array shape;        /* what the written arrays look like */
    char dir[FILES_PATH], path[FILES_PATH], previous[FILES_PATH];
};

void moments_close(moments *m)
{
    if (!m) return;
    free(m->mean);
    free(m->x);
    free(m->w);
    free(m);
}

int64_t moments_clouds(const moments *m) { return m ? m->clouds : 0; }

/* ---------------------------------------------------------------------------- reading */

/* The file's sums, when they were taken by the same rule and belong to `done` iterations. */
static int read_file(moments *m, const char *path, int64_t done)
{
    char ignored[256];
    double state[STATES];
    npy_array a = {0};
    if (npz_read(path, "state", &a, ignored, sizeof ignored)) return -1;
    int fits = npy_count(&a) == STATES;
    if (fits) npy_doubles(&a, state);
    npy_free(&a);
    if (!fits || state[STATE_DONE] != (double)done || state[STATE_FROM] != (double)m->from ||
        state[STATE_EVERY] != (double)m->every)
        return -1;
    struct {
        const char *name;
        double *into;
    } part[] = {{"mean", m->mean}, {"spread", m->spread}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (npz_read(path, part[i].name, &a, ignored, sizeof ignored)) return -1;
        fits = npy_count(&a) == (int64_t)m->dim;
        if (fits) npy_doubles(&a, part[i].into);
        npy_free(&a);
        if (!fits) return -1;
    }
    m->clouds = (int64_t)state[STATE_CLOUDS];
    return 0;
}

static int resume(moments *m, int64_t done, char *error, size_t room)
{
    if (done <= m->from || read_file(m, m->path, done) == 0) return 0;
    if (read_file(m, m->previous, done) == 0)
        return rename(m->previous, m->path) ? files_cannot("rename", m->previous, errno, error, room) : 0;
    return files_fail(error, room,
                      "%s has no moments from iteration %lld on, every %lld, up to the checkpoint's iteration %lld; "
                      "continue with the output.moments_from and output.moments_every of the run, or with an "
                      "output.moments_from of at least %lld",
                      m->dir, (long long)m->from, (long long)m->every, (long long)done, (long long)done);
}

/* ---------------------------------------------------------------------------- beginning */

static npy_array shape_of(const job *j)
{
    npy_array a = {.type = NPY_F64};
    a.dims = job_shape(j, a.shape);
    return a;
}

int moments_open(moments **out, const config *c, const job *j, const char *dir, int64_t done, char *error, size_t room)
{
    *out = NULL;
    if (!config_has(c, "output.moments_from")) return 0;
    moments *m = calloc(1, sizeof *m);
    if (!m) return files_fail(error, room, "out of memory");
    m->from = config_integer(c, "output.moments_from");
    m->every = config_integer(c, "output.moments_every");
    m->dim = (size_t)j->problem.model.dim_x;
    m->particles = (size_t)j->settings.scheme.particles;
    m->shape = shape_of(j);
    m->mean = calloc(m->dim, 4 * sizeof(double));
    m->x = calloc(m->dim, m->particles * sizeof(double));
    m->w = malloc(m->particles * sizeof(double));
    int rc = 0;
    if (!m->mean || !m->x || !m->w) {
        rc = files_fail(error, room, "out of memory for the moments of %zu particles of %zu numbers", m->particles,
                        m->dim);
    } else {
        m->spread = m->mean + m->dim;
        m->now_mean = m->spread + m->dim;
        m->now = m->now_mean + m->dim;
        (void)snprintf(m->dir, sizeof m->dir, "%s", dir);
        rc = files_join(m->path, dir, "moments.npz", error, room) ||
                     files_join(m->previous, dir, "moments.previous.npz", error, room) || resume(m, done, error, room)
                 ? -1
                 : 0;
    }
    if (rc == 0)
        *out = m;
    else
        moments_close(m);
    return rc;
}

/* ---------------------------------------------------------------------------- going on */

/* Weighted mean and variance of the present cloud. */
static int measure(const moments *m, const sosmc *s, char *error, size_t room)
{
    if (sosmc_cloud(s, m->x, m->w) != SOSMC_OK) return files_fail(error, room, "%s", sosmc_message(s));
    sosmc_exp(NULL, (int)m->particles, m->w, m->w);
    memset(m->now_mean, 0, 2 * m->dim * sizeof(double));
    for (size_t i = 0; i < m->particles; i++)
        for (size_t j = 0; j < m->dim; j++) m->now_mean[j] += m->w[i] * m->x[i * m->dim + j];
    for (size_t i = 0; i < m->particles; i++)
        for (size_t j = 0; j < m->dim; j++) {
            double off = m->x[i * m->dim + j] - m->now_mean[j];
            m->now[j] += m->w[i] * off * off;
        }
    return 0;
}

int moments_step(moments *m, const sosmc *s, const sosmc_info *info, char *error, size_t room)
{
    if (!m || info->iteration < m->from || (info->iteration - m->from) % m->every != 0) return 0;
    if (measure(m, s, error, room)) return -1;
    double n = (double)++m->clouds;
    for (size_t j = 0; j < m->dim; j++) {
        double off = m->now_mean[j] - m->mean[j];
        m->mean[j] += off / n;
        m->spread[j] += m->now[j] + off * off * (n - 1) / n;
    }
    return 0;
}

int moments_save(moments *m, int64_t done, char *error, size_t room)
{
    if (!m || done <= m->from) return 0;
    double state[STATES] = {[STATE_DONE] = (double)done,
                            [STATE_FROM] = (double)m->from,
                            [STATE_EVERY] = (double)m->every,
                            [STATE_CLOUDS] = (double)m->clouds};
    npz_member members[] = {{"state", npy_vector(state, STATES)},
                            {"mean", npy_vector(m->mean, (int64_t)m->dim)},
                            {"spread", npy_vector(m->spread, (int64_t)m->dim)}};
    if (rename(m->path, m->previous) && errno != ENOENT) return files_cannot("rename", m->path, errno, error, room);
    return npz_write(m->path, members, sizeof members / sizeof *members, 0, error, room);
}

int moments_write(const moments *m, const sosmc *s, char *error, size_t room)
{
    char path[FILES_PATH];
    if (!m) return 0;
    if (m->clouds == 0 && measure(m, s, error, room)) return -1;
    const double *mean = m->clouds ? m->mean : m->now_mean, *spread = m->clouds ? m->spread : m->now;
    double n = m->clouds ? (double)m->clouds : 1;
    npy_array a = m->shape;
    a.data = mean;
    if (files_join(path, m->dir, "mean.npy", error, room) || npy_write(path, &a, error, room)) return -1;
    for (size_t j = 0; j < m->dim; j++) m->now[j] = sqrt(spread[j] / n);
    a.data = m->now;
    return files_join(path, m->dir, "sd.npy", error, room) || npy_write(path, &a, error, room) ? -1 : 0;
}
