/* moments.c: the files of sosmc_moments over the weighted clouds of iterations
 *
 *     from, from + every, from + 2 every, ...
 *
 * Invariant: moments.npz, or else moments.previous.npz, belongs to the checkpoint on the disk; after a resumption it is
 * moments.npz. */
#include "moments.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sosmc/analysis.h>

#include "files/files.h"
#include "job/problem.h"

/* The last four, numbers and sums of theta in the halves of what is averaged, are missing in files of earlier versions. */
enum {
    STATE_DONE,
    STATE_FROM,
    STATE_EVERY,
    STATE_CLOUDS,
    STATE_EARLY,
    STATE_LATE,
    STATE_EARLY_SUM,
    STATE_LATE_SUM,
    STATES
};

struct moments {
    int64_t first, from, every; /* first: of the run file; from: later, where averaging began anew */
    int64_t iterations;         /* of the run, at most */
    int settle;
    double state[STATES];
    sosmc_moments *sums; /* over the clouds so far */
    double *sd;          /* what is written */
    const job *job;
    const points_scaling *units;
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

/* ---------------------------------------------------------------------------- whether theta has settled */

moments_theta moments_theta_of(const moments *m)
{
    moments_theta t = {.mean = NAN, .moved = NAN, .limit = NAN};
    if (!m || m->state[STATE_EARLY] == 0 || m->state[STATE_LATE] == 0) return t;
    double early = m->state[STATE_EARLY], late = m->state[STATE_LATE], sum = m->state[STATE_EARLY_SUM];
    t.iterations = (int64_t)(early + late);
    t.mean = (sum + m->state[STATE_LATE_SUM]) / (early + late);
    t.moved = m->state[STATE_LATE_SUM] / late - sum / early;
    t.limit = 2 / sqrt(m->sums->dim);
    t.least = MOMENTS_LEAST / fmin(m->job->settings.optimiser.lr, 1);
    t.settled = (double)t.iterations >= t.least && fabs(t.moved) <= t.limit;
    return t;
}

/* For how many iterations an average is made that begins in m->from. */
static int64_t length_of(const moments *m)
{
    if (!m->settle) return m->from;
    return m->from / 2 > MOMENTS_LEAST ? m->from / 2 : MOMENTS_LEAST;
}

/* One that would leave too few iterations for the next goes on to the end. */
static int64_t end_of(const moments *m)
{
    int64_t end = m->from + length_of(m);
    return end + MOMENTS_LEAST <= m->iterations ? end : m->iterations;
}

int64_t moments_next(const moments *m) { return m && m->settle ? end_of(m) : 0; }

int moments_over(const moments *m)
{
    moments_theta t = moments_theta_of(m);
    return m && m->settle && m->from + t.iterations == end_of(m) && t.settled;
}

static void follow(moments *m, int64_t done, double theta)
{
    int late = done - m->from > (length_of(m) + 1) / 2;
    m->state[late ? STATE_LATE : STATE_EARLY] += 1;
    m->state[late ? STATE_LATE_SUM : STATE_EARLY_SUM] += theta;
    if (!m->settle || done != end_of(m) || done == m->iterations || moments_over(m)) return;
    m->from = done;
    memset(m->state, 0, sizeof m->state);
    sosmc_moments_clear(m->sums);
}

/* ---------------------------------------------------------------------------- reading */

/* The file's sums, when they were taken by the same rule and belong to `done` iterations. */
static int read_file(moments *m, const char *path, int64_t done)
{
    char ignored[256];
    double state[STATES] = {0};
    npy_array a = {0};
    if (npz_read(path, "state", &a, ignored, sizeof ignored)) return -1;
    int fits = npy_count(&a) == STATES || npy_count(&a) == STATE_EARLY;
    if (fits) npy_doubles(&a, state);
    npy_free(&a);
    if (!fits || state[STATE_DONE] != (double)done || state[STATE_EVERY] != (double)m->every) return -1;
    if (m->settle ? !(state[STATE_FROM] >= (double)m->first) : state[STATE_FROM] != (double)m->first) return -1;
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
    m->from = (int64_t)state[STATE_FROM];
    memcpy(m->state, state, sizeof state);
    return 0;
}

static int resume(moments *m, int64_t done, char *error, size_t room)
{
    if (done <= m->first || read_file(m, m->path, done) == 0) return 0;
    if (read_file(m, m->previous, done) == 0)
        return rename(m->previous, m->path) ? files_cannot("rename", m->previous, errno, error, room) : 0;
    return files_fail(error, room,
                      "%s has no moments from iteration %lld on, every %lld, up to the checkpoint's iteration %lld; "
                      "continue with the output.moments_from and output.moments_every of the run, or with an "
                      "output.moments_from of at least %lld",
                      m->dir, (long long)m->from, (long long)m->every, (long long)done, (long long)done);
}

/* ---------------------------------------------------------------------------- beginning */

int moments_open(moments **out, const config *c, const job *j, const char *dir, int64_t done, char *error, size_t room)
{
    *out = NULL;
    if (!config_has(c, "output.moments_from")) return 0;
    moments *m = calloc(1, sizeof *m);
    if (!m) return files_fail(error, room, "out of memory");
    m->first = m->from = config_integer(c, "output.moments_from");
    m->iterations = j->iterations;
    m->settle = config_flag(c, "output.moments_settle");
    m->every = config_integer(c, "output.moments_every");
    m->job = j;
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
    if (!m || info->iteration < m->from) return 0;
    if ((info->iteration - m->from) % m->every == 0 && add(m, s, error, room)) return -1;
    if (!isnan(job_strength(m->job, s))) follow(m, info->iteration + 1, sosmc_theta(s)[0]);
    return 0;
}

int moments_save(moments *m, int64_t done, char *error, size_t room)
{
    if (!m || done <= m->first) return 0;
    m->state[STATE_DONE] = (double)done;
    m->state[STATE_FROM] = (double)m->from;
    m->state[STATE_EVERY] = (double)m->every;
    m->state[STATE_CLOUDS] = (double)m->sums->clouds;
    npz_member members[] = {{"state", npy_vector(m->state, STATES)},
                            {"mean", npy_vector(m->sums->mean, m->sums->dim)},
                            {"spread", npy_vector(m->sums->spread, m->sums->dim)}};
    if (rename(m->path, m->previous) && errno != ENOENT) return files_cannot("rename", m->path, errno, error, room);
    return npz_write(m->path, members, sizeof members / sizeof *members, 0, error, room);
}

static int write_arrays(const moments *m, char *error, size_t room)
{
    char path[FILES_PATH];
    npy_array a = {.type = NPY_F64, .data = m->sd};
    a.dims = job_shape(m->job, a.shape);
    memcpy(m->sd, m->sums->mean, (size_t)m->sums->dim * sizeof *m->sd);
    job_cut(m->job, m->sd);
    scaling_map(m->units, 1, 1, m->sd);
    if (files_join(path, m->dir, "mean.npy", error, room) || npy_write(path, &a, error, room)) return -1;
    sosmc_moments_sd(m->sums, m->sd);
    for (int j = 0; m->units && j < m->units->dim; j++) m->sd[j] /= m->units->factor[j];
    job_cut(m->job, m->sd);
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
