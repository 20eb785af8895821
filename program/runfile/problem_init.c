/* problem_init.c: where the particles of a run file start: a law with or without a density, or the points of a file. Model
 * and objective are known. Invariant: a weighted run never gets a start whose weights nobody knows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "points.h"
#include "problem_inside.h"

static int normal_init(builder *b)
{
    int dim = b->job->problem.model.dim_x, means = 0, sds = 0;
    const double *mean = config_vector(b->c, "init.mean", &means), *sd = config_vector(b->c, "init.sd", &sds);
    if (means != 1 && means != dim) return job_wrong(b, "init.mean", "has %d numbers; expected 1 or %d", means, dim);
    if (sds != 1 && sds != dim) return job_wrong(b, "init.sd", "has %d numbers; expected 1 or %d", sds, dim);
    b->p->mean = malloc((size_t)dim * sizeof(double));
    b->p->factor = calloc((size_t)dim * (size_t)dim, sizeof(double));
    if (!b->p->mean || !b->p->factor) return job_no_memory(b);
    for (int j = 0; j < dim; j++) {
        b->p->mean[j] = mean[means == 1 ? 0 : j];
        b->p->factor[(size_t)j * (size_t)dim + (size_t)j] = 1 / sd[sds == 1 ? 0 : j];
    }
    b->p->gaussian = (sosmc_gaussian){.dim = dim, .mean = b->p->mean, .factor = b->p->factor, .variance = 1};
    b->job->problem.init = sosmc_gaussian_source(&b->p->gaussian);
    return 0;
}

static int laplace_init(builder *b)
{
    int dim = b->p->logistic.dim;
    const double *theta = job_vector(b, "init.theta", 1);
    b->p->mean = malloc((size_t)dim * sizeof(double));
    b->p->factor = calloc((size_t)dim * (size_t)dim, sizeof(double));
    if (!theta) return -1;
    if (!b->p->mean || !b->p->factor) return job_no_memory(b);
    sosmc_status status = sosmc_logistic_laplace(&b->p->logistic, *theta, b->p->mean, b->p->factor);
    if (status == SOSMC_ENOMEM) return job_no_memory(b);
    if (status != SOSMC_OK)
        return job_wrong(b, "model.data", "has no posterior mode that could be found; are the features finite?");
    b->p->gaussian = (sosmc_gaussian){.dim = dim,
                                      .mean = b->p->mean,
                                      .factor = b->p->factor,
                                      .widen = 1.2, /* a bare Laplace law has weights of infinite variance */
                                      .share = config_number(b->c, "init.share"),
                                      .centre = *theta,
                                      .variance = b->p->logistic.variance};
    b->job->problem.init = sosmc_gaussian_source(&b->p->gaussian);
    return 0;
}

/* A vector of the file spread over all coordinates. */
static double *spread(builder *b, const char *path)
{
    int dim = b->job->problem.model.dim_x, n = 0;
    const double *v = config_vector(b->c, path, &n);
    double *out = malloc((size_t)dim * sizeof *out);
    if (n != 1 && n != dim) {
        (void)job_wrong(b, path, "has %d numbers; expected 1 or %d", n, dim);
        free(out);
        return NULL;
    }
    if (!out) (void)job_no_memory(b);
    for (int j = 0; out && j < dim; j++) out[j] = v[n == 1 ? 0 : j];
    return out;
}

static int uniform_init(builder *b)
{
    int dim = b->job->problem.model.dim_x;
    b->p->low = spread(b, "init.low");
    b->p->high = b->p->low ? spread(b, "init.high") : NULL;
    if (!b->p->high) return -1;
    for (int j = 0; j < dim; j++)
        if (!(b->p->low[j] < b->p->high[j]))
            return job_wrong(b, "init.high", "is %g where init.low is %g; expected more", b->p->high[j], b->p->low[j]);
    b->p->box = (sosmc_box){.dim = dim, .low = b->p->low, .high = b->p->high};
    b->job->problem.init = sosmc_box_source(&b->p->box);
    return 0;
}

/* N(0, sd^2 I) with its density. */
static int centred_init(builder *b, double sd)
{
    size_t dim = (size_t)b->job->problem.model.dim_x;
    b->p->mean = calloc(dim, sizeof(double));
    b->p->factor = calloc(dim * dim, sizeof(double));
    if (!b->p->mean || !b->p->factor) return job_no_memory(b);
    for (size_t j = 0; j < dim; j++) b->p->factor[j * dim + j] = 1 / sd;
    b->p->gaussian = (sosmc_gaussian){.dim = (int)dim, .mean = b->p->mean, .factor = b->p->factor, .variance = 1};
    b->job->problem.init = sosmc_gaussian_source(&b->p->gaussian);
    return 0;
}

static int base_init(builder *b)
{
    if (job_base_sd(b) > 0) return centred_init(b, job_base_sd(b));
    return job_wrong(b, "init.type", "is base, but the network has none; see model.base");
}

/* The particles.npz of a weighted run: rows are resampled by their weights, so that what remains is a plain sample. */
static int resample_rows(builder *b, const char *path, int64_t rows)
{
    size_t dim = (size_t)b->job->problem.model.dim_x, n = (size_t)rows;
    npy_array logw = {0};
    char ignored[256];
    if (!strstr(path, ".npz") || npz_read(path, "logw", &logw, ignored, sizeof ignored)) return 0; /* no weights */
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
        for (size_t i = 0; rc == 0 && i < n; i++)
            memcpy(x + i * dim, b->p->started + (size_t)from[i] * dim, dim * sizeof *x);
        if (rc == 0) memcpy(b->p->started, x, n * dim * sizeof *x);
    }
    free(w);
    free(scratch);
    free(x);
    free(from);
    npy_free(&logw);
    return rc;
}

/* Of more rows than particles, evenly spaced ones come first: neighbours in the file of a weighted run are relatives. */
static void spread_rows(builder *b, int64_t rows, int64_t wanted)
{
    int64_t dim = b->job->problem.model.dim_x;
    for (int64_t i = 0; i < wanted; i++)
        memmove(b->p->started + i * dim, b->p->started + i * rows / wanted * dim, (size_t)dim * sizeof(double));
}

static int file_init(builder *b)
{
    int64_t rows = 0, wanted = config_integer(b->c, "particles");
    const char *path = config_text(b->c, "init.file");
    *b->io = 1;
    if (points_load(path, b->job->problem.model.dim_x, &b->p->started, &rows, b->error, b->room)) return -1;
    *b->io = 0;
    if (resample_rows(b, path, rows)) return -1;
    if (rows < wanted)
        return job_wrong(b, "init.file", "holds %lld points; expected at least the %lld of particles", (long long)rows,
                         (long long)wanted);
    spread_rows(b, rows, wanted);
    b->p->start = (sosmc_rows){.data = b->p->started, .rows = wanted, .mode = SOSMC_ROWS_IN_ORDER};
    b->job->problem.init = sosmc_rows_source(&b->p->start);
    b->job->problem.init.exact = config_flag(b->c, "init.exact");
    return 0;
}

/* Weights need a start that is a law with a finite, known mass. */
static int check_weighted_training(builder *b)
{
    if (!job_is_network(b) || !is(b, "objective.type", "ebm_likelihood") || !is(b, "scheme.type", "sosmc")) return 0;
    if (is(b, "model.type", "network") && job_base_sd(b) == 0)
        return job_wrong(b, "model.layers",
                         "has no base: the energy of an untrained network is flat, and there is nothing to weigh "
                         "against; expected a clause such as 'base 0.8', or scheme.type pcd");
    if (is(b, "model.type", "mlp") && job_base_sd(b) == 0)
        return job_wrong(
            b, "model.base",
            "is none: the energy of an untrained network is flat, exp(-U) has no finite integral, and there is "
            "nothing to weigh against; expected gaussian, or scheme.type pcd");
    if (b->job->problem.init.logpdf) return 0;
    return job_wrong(
        b, "init.type",
        "is %s, a law without a density, so the weights of the start are unknown; expected base or normal, or "
        "scheme.type pcd",
        config_text(b->c, "init.type"));
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
    b->p->start = b->p->rows;
    b->p->start.mode = SOSMC_ROWS_RANDOM;
    b->job->problem.init = sosmc_rows_source(&b->p->start);
    return 0;
}

static int initial_law(builder *b)
{
    if (is(b, "objective.type", "anneal")) return centred_init(b, b->p->tempering.base_sd);
    if (is(b, "init.type", "seen") || (is(b, "model.type", "deblur") && is(b, "init.type", "normal")))
        return job_deblur_init(b);
    if (is(b, "init.type", "normal")) return normal_init(b);
    if (is(b, "init.type", "uniform")) return uniform_init(b);
    if (is(b, "init.type", "base")) return base_init(b);
    if (is(b, "init.type", "file")) return file_init(b);
    if (is(b, "init.type", "data")) return data_init(b);
    if (is(b, "init.type", "laplace")) return laplace_init(b);
    int dim_theta = b->job->problem.model.dim_theta;
    const double *theta = job_vector(b, "init.theta", dim_theta);
    if (!theta) return -1;
    if (is(b, "model.type", "gaussian_mixture")) {
        b->p->init_mixture = (sosmc_mixture_law){.mixture = &b->p->mixture, .theta = theta};
        b->job->problem.init = sosmc_mixture_source(&b->p->init_mixture);
        /* drawn where theta starts, the weights are 1 (eps neglected, as the experiment does) */
        b->job->problem.init.exact = memcmp(theta, b->p->theta, (size_t)dim_theta * sizeof(double)) == 0;
    } else {
        b->p->init_hierarchical = (sosmc_hierarchical_law){.data = &b->p->hierarchical, .theta = *theta};
        b->job->problem.init = sosmc_hierarchical_source(&b->p->init_hierarchical);
    }
    return 0;
}

int job_build_init(builder *b) { return initial_law(b) || check_weighted_training(b) ? -1 : 0; }
