/* problem_init.c: where the particles of a run file start: a law with or without a density, or the points of a file. Model
 * and objective are known. Invariant: a weighted run never gets a start whose weights are unknown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "files/memory.h"
#include "points.h"
#include "problem_inside.h"

int job_normal_memory(builder *b, double **mean, double **factor)
{
    size_t dim = (size_t)b->job->problem.model.dim_x;
    char what[96];
    (void)snprintf(what, sizeof what, "an initial normal distribution of %zu coordinates", dim);
    if (memory_check(what, (double)dim * (double)dim * sizeof **factor, "", b->error, b->room)) return -1;
    *mean = job_take(b->job, dim * sizeof **mean);
    *factor = job_take(b->job, dim * dim * sizeof **factor);
    return *mean && *factor ? 0 : job_no_memory(b);
}

int job_normal_init(builder *b, const sosmc_gaussian *law)
{
    sosmc_gaussian *kept = job_take(b->job, sizeof *kept);
    if (!kept) return job_no_memory(b);
    *kept = *law;
    b->job->problem.init = sosmc_gaussian_source(kept);
    return 0;
}

static int normal_init(builder *b)
{
    int dim = b->job->problem.model.dim_x, means = 0, sds = 0;
    double *at, *factor;
    const double *mean = config_vector(b->c, "init.mean", &means), *sd = config_vector(b->c, "init.sd", &sds);
    if (means != 1 && means != dim) return job_wrong(b, "init.mean", "has %d numbers; expected 1 or %d", means, dim);
    if (sds != 1 && sds != dim) return job_wrong(b, "init.sd", "has %d numbers; expected 1 or %d", sds, dim);
    if (job_normal_memory(b, &at, &factor)) return -1;
    for (int j = 0; j < dim; j++) {
        at[j] = mean[means == 1 ? 0 : j];
        factor[(size_t)j * (size_t)dim + (size_t)j] = 1 / sd[sds == 1 ? 0 : j];
    }
    return job_normal_init(b, &(sosmc_gaussian){.dim = dim, .mean = at, .factor = factor, .variance = 1});
}

int job_centred_init(builder *b, double sd)
{
    size_t dim = (size_t)b->job->problem.model.dim_x;
    double *mean, *factor;
    if (job_normal_memory(b, &mean, &factor)) return -1;
    for (size_t j = 0; j < dim; j++) factor[j * dim + j] = 1 / sd;
    return job_normal_init(b, &(sosmc_gaussian){.dim = (int)dim, .mean = mean, .factor = factor, .variance = 1});
}

static int uniform_init(builder *b)
{
    int dim = b->job->problem.model.dim_x;
    const double *low = job_spread(b, "init.low"), *high = low ? job_spread(b, "init.high") : NULL;
    if (!high) return -1;
    for (int j = 0; j < dim; j++)
        if (!(low[j] < high[j]))
            return job_wrong(b, "init.high", "is %g where init.low is %g; expected more", high[j], low[j]);
    sosmc_box *box = job_take(b->job, sizeof *box);
    if (!box) return job_no_memory(b);
    *box = (sosmc_box){.dim = dim, .low = low, .high = high};
    b->job->problem.init = sosmc_box_source(box);
    return 0;
}

/* Rows without a density, in order or at random. */
static int rows_init(builder *b, sosmc_rows rows)
{
    sosmc_rows *start = job_take(b->job, sizeof *start);
    if (!start) return job_no_memory(b);
    *start = rows;
    b->job->problem.init = sosmc_rows_source(start);
    return 0;
}

/* Resamples the rows of the particles.npz of a weighted run by their weights, so that the result is an unweighted sample.
 * */
static int resample_rows(builder *b, const char *path, int64_t rows, double *point)
{
    size_t dim = (size_t)b->job->problem.model.dim_x, n = (size_t)rows;
    npy_array logw = {0};
    char ignored[256];
    if (!strstr(path, ".npz") || npz_read_part(path, "logw", 0, &logw, ignored, sizeof ignored) ||
        (npy_count(&logw) == rows && npz_read(path, "logw", &logw, ignored, sizeof ignored)))
        return 0; /* no weights */
    double *w = malloc(n * sizeof *w), *scratch = malloc((2 * n + 1) * sizeof *scratch);
    double *x = malloc(n * dim * sizeof *x), most = -INFINITY, least = INFINITY;
    int *from = malloc(n * sizeof *from), rc = 0;
    if (!w || !scratch || !x || !from) rc = job_no_memory(b);
    if (rc == 0 && (npy_count(&logw) != rows || rows > INT32_MAX))
        rc = job_wrong(b, "init.file", "has %lld weights for %lld points", (long long)npy_count(&logw),
                       (long long)rows);
    if (rc == 0) npy_doubles(&logw, w);
    for (size_t i = 0; rc == 0 && i < n; i++) most = fmax(most, w[i]), least = fmin(least, w[i]);
    if (rc == 0 && most > least) { /* equal weights leave the rows as they are */
        for (size_t i = 0; i < n; i++) w[i] -= most;
        sosmc_exp(NULL, (int)n, w, w);
        sosmc_rng rng = {.seed = config_unsigned(b->c, "seed"), .stream = SOSMC_STREAM_INIT};
        if (sosmc_resample(SOSMC_SYSTEMATIC, rng, (int)n, w, scratch, from) != SOSMC_OK)
            rc = job_wrong(b, "init.file", "has weights that are not finite");
        for (size_t i = 0; rc == 0 && i < n; i++) memcpy(x + i * dim, point + (size_t)from[i] * dim, dim * sizeof *x);
        if (rc == 0) memcpy(point, x, n * dim * sizeof *x);
    }
    free(w);
    free(scratch);
    free(x);
    free(from);
    npy_free(&logw);
    return rc;
}

/* Of more rows than particles, evenly spaced ones come first: neighbours in the file of a weighted run are often
 * copies of one ancestor. */
static void spread_rows(const builder *b, int64_t rows, int64_t wanted, double *point)
{
    int64_t dim = b->job->problem.model.dim_x;
    for (int64_t i = 0; i < wanted; i++)
        memmove(point + i * dim, point + i * rows / wanted * dim, (size_t)dim * sizeof(double));
}

static int file_init(builder *b)
{
    int64_t rows = 0, wanted = config_integer(b->c, "particles");
    double *point = NULL;
    const char *path = config_text(b->c, "init.file");
    *b->io = 1;
    if (points_load(path, b->job->problem.model.dim_x, &point, &rows, b->error, b->room)) return -1;
    *b->io = 0;
    if (!job_keep(b->job, point, free)) return job_no_memory(b);
    scaling_map(job_units(b->job), 0, rows, point);
    if (resample_rows(b, path, rows, point)) return -1;
    if (rows < wanted)
        return job_wrong(b, "init.file", "holds %lld points; expected at least the %lld of particles", (long long)rows,
                         (long long)wanted);
    spread_rows(b, rows, wanted, point);
    if (rows_init(b, (sosmc_rows){.data = point, .rows = wanted, .mode = SOSMC_ROWS_IN_ORDER})) return -1;
    b->job->problem.init.exact = config_flag(b->c, "init.exact");
    return 0;
}

/* Points of the data, whatever the batches are: where the chains of contrastive divergence begin. */
static int data_init(builder *b)
{
    if (!is(b, "objective.type", "ebm_likelihood"))
        return job_wrong(b, "init.type", "is data, but objective.type %s has no points; expected ebm_likelihood",
                         config_text(b->c, "objective.type"));
    if (is(b, "scheme.type", "sosmc"))
        return job_wrong(b, "init.type",
                         "is data, whose law has no density, so the weights of the start are unknown; "
                         "expected a scheme without weights, such as pcd");
    sosmc_rows rows = b->p->rows;
    rows.mode = SOSMC_ROWS_RANDOM;
    return rows_init(b, rows);
}

/* The values of init.type that mean the same for all models. */
static int common_init(builder *b)
{
    if (is(b, "init.type", "normal")) return normal_init(b);
    if (is(b, "init.type", "uniform")) return uniform_init(b);
    if (is(b, "init.type", "file")) return file_init(b);
    if (is(b, "init.type", "data")) return data_init(b);
    if (is(b, "init.type", "own")) return job_own_init(b);
    if (is(b, "init.type", "inside"))
        return job_has_bounds(b->job)
                   ? 0
                   : job_wrong(b, "init.type", "is inside, which needs bounds (model.x_low, x_high)");
    return job_wrong(b, "init.type", "is %s, which model %s does not have", config_text(b->c, "init.type"),
                     config_text(b->c, "model.type"));
}

/* ---------------------------------------------------------------------------- laws that tempering starts from */

static void release_law(void *p) { sosmc_law_free(p); }

static int wrong_law(builder *b, sosmc_status status)
{
    return status == SOSMC_ENOMEM ? job_no_memory(b)
                                  : job_wrong(b, "init.type", "is %s, whose draws have no finite mean and spread",
                                              config_text(b->c, "init.type"));
}

/* A normal law as it is: the factor of problem.init's law has the reciprocals of the standard deviations on its diagonal. */
static int law_as_it_is(builder *b, sosmc_law *law)
{
    const sosmc_gaussian *g = b->job->problem.init.self;
    size_t dim = (size_t)g->dim;
    double *sd = job_take(b->job, dim * sizeof *sd);
    if (!sd) return job_no_memory(b);
    for (size_t j = 0; j < dim; j++) sd[j] = 1 / g->factor[j * dim + j];
    sosmc_status status = sosmc_law_add(law, 1, g->mean, sd);
    return status == SOSMC_OK ? 0 : wrong_law(b, status);
}

static int law_by_fit(builder *b, sosmc_law *law)
{
    enum { DRAWS = 2000 };
    const sosmc_source *init = &b->job->problem.init;
    int dim = b->job->problem.model.dim_x, n = DRAWS;
    if (is(b, "init.type", "file") && n > config_integer(b->c, "particles")) n = (int)config_integer(b->c, "particles");
    size_t row = (size_t)dim * sizeof(double);
    double *rows = malloc((size_t)n * row + 1), *x = aligned_alloc(64, (row + 63) / 64 * 64);
    sosmc_rng rng = {.seed = config_unsigned(b->c, "seed"), .stream = SOSMC_STREAM_INIT};
    int rc = rows && x ? 0 : job_no_memory(b);
    for (int i = 0; i < n && rc == 0; i++) {
        sosmc_batch one = {.x = x, .simd = sosmc_simd_best(), .dim = dim, .n = 1, .ld = 1, .first = i};
        if (init->draw(init->self, rng, &one, x)) rc = job_wrong(b, "init.type", "gives no draws");
        memcpy(rows + (size_t)i * (size_t)dim, x, row);
    }
    sosmc_status status = rc == 0 ? sosmc_law_add_fit(law, 1, n, rows, NULL) : SOSMC_OK;
    free(rows);
    free(x);
    return status == SOSMC_OK ? rc : wrong_law(b, status);
}

/* The law is what `init` says, or a wide normal one. */
static int tempered_init(builder *b)
{
    const double wide = 4;
    int given = config_has(b->c, "init"), dim = b->job->problem.model.dim_x;
    int as_it_is = !given || is(b, "init.type", "normal") || is(b, "init.type", "base");
    int rc = JOB_COMMON_INIT;
    if (job_has_bounds(b->job) && (!given || is(b, "init.type", "inside"))) return 0; /* the sampler has one */
    if (!given) rc = job_centred_init(b, wide);
    if (given && b->p->kind->init) rc = b->p->kind->init(b);
    if (rc == JOB_COMMON_INIT) rc = common_init(b);
    if (rc) return rc;
    sosmc_law *law = job_keep(b->job, sosmc_law_create(dim, !as_it_is), release_law);
    if (!law) return job_no_memory(b);
    b->job->temper.start = law;
    return as_it_is ? law_as_it_is(b, law) : law_by_fit(b, law);
}

int job_build_init(builder *b)
{
    if (b->job->tempers) return tempered_init(b);
    if (is(b, "objective.type", "anneal"))
        return job_has_bounds(b->job) ? 0 : job_centred_init(b, b->p->tempering.base_sd);
    int rc = b->p->kind->init ? b->p->kind->init(b) : JOB_COMMON_INIT;
    return rc == JOB_COMMON_INIT ? common_init(b) : rc;
}
