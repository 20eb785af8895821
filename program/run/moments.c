/* moments.c: the files of sosmc_moments over the weighted clouds of iterations
 *
 *     from, from + every, from + 2 every, ...
 *
 * Invariant: moments.npz, or else moments.previous.npz, belongs to the checkpoint on the disk; after a resumption it is
 * moments.npz. */
#include "moments.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <sosmc/analysis.h>

#include "files/files.h"
#include "job/problem.h"

enum { STATE_DONE, STATE_FROM, STATE_EVERY, STATE_CLOUDS, STATES };

struct moments {
    int64_t from, every;
    sosmc_moments *sums; /* over the clouds so far */
    double *sd;
    const points_scaling *units;
    npy_array shape; /* what the written arrays look like */
    char dir[FILES_PATH], path[FILES_PATH], previous[FILES_PATH];
};

void moments_close(moments *m)
{
    if (!m) return;
    sosmc_moments_free(m->sums);
    free(m->sd);
    free(m);
}

int64_t moments_clouds(const moments *m) { return m ? m->sums->clouds : 0; }

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
    } part[] = {{"mean", m->sums->mean}, {"spread", m->sums->spread}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (npz_read(path, part[i].name, &a, ignored, sizeof ignored)) return -1;
        fits = npy_count(&a) == m->sums->dim;
        if (fits) npy_doubles(&a, part[i].into);
        npy_free(&a);
        if (!fits) return -1;
    }
    m->sums->clouds = (int64_t)state[STATE_CLOUDS];
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
    m->shape = shape_of(j);
    m->units = job_units(j);
    int dim = j->problem.model.dim_x, particles = j->settings.scheme.particles, rc = 0;
    m->sd = malloc((size_t)dim * sizeof *m->sd);
    if (!m->sd || sosmc_moments_create(&m->sums, dim, particles) != SOSMC_OK) {
        rc = files_fail(error, room, "out of memory for the moments of %d particles of %d numbers", particles, dim);
    } else {
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

static int add(const moments *m, const sosmc *s, char *error, size_t room)
{
    if (sosmc_moments_add_cloud(m->sums, s) == SOSMC_OK) return 0;
    return files_fail(error, room, "%s", sosmc_message(s));
}

int moments_step(moments *m, const sosmc *s, const sosmc_info *info, char *error, size_t room)
{
    if (!m || info->iteration < m->from || (info->iteration - m->from) % m->every != 0) return 0;
    return add(m, s, error, room);
}

int moments_save(moments *m, int64_t done, char *error, size_t room)
{
    if (!m || done <= m->from) return 0;
    double state[STATES] = {[STATE_DONE] = (double)done,
                            [STATE_FROM] = (double)m->from,
                            [STATE_EVERY] = (double)m->every,
                            [STATE_CLOUDS] = (double)m->sums->clouds};
    npz_member members[] = {{"state", npy_vector(state, STATES)},
                            {"mean", npy_vector(m->sums->mean, m->sums->dim)},
                            {"spread", npy_vector(m->sums->spread, m->sums->dim)}};
    if (rename(m->path, m->previous) && errno != ENOENT) return files_cannot("rename", m->path, errno, error, room);
    return npz_write(m->path, members, sizeof members / sizeof *members, 0, error, room);
}

static int write_arrays(const moments *m, char *error, size_t room)
{
    char path[FILES_PATH];
    npy_array a = m->shape;
    scaling_map(m->units, 1, 1, m->sums->mean); /* the sums end here */
    a.data = m->sums->mean;
    if (files_join(path, m->dir, "mean.npy", error, room) || npy_write(path, &a, error, room)) return -1;
    sosmc_moments_sd(m->sums, m->sd);
    for (int j = 0; m->units && j < m->units->dim; j++) m->sd[j] /= m->units->factor[j];
    a.data = m->sd;
    return files_join(path, m->dir, "sd.npy", error, room) || npy_write(path, &a, error, room) ? -1 : 0;
}

int moments_write(const moments *m, const sosmc *s, char *error, size_t room)
{
    if (!m) return 0;
    int none = m->sums->clouds == 0;
    if (none && add(m, s, error, room)) return -1;
    int rc = write_arrays(m, error, room);
    if (none) sosmc_moments_clear(m->sums); /* it was for these files alone */
    return rc;
}
