/* problem_deblur.c: model.type deblur: what was seen, how it was blurred, which pixels are missing. */
#include <stdlib.h>

#include "files/files.h"
#include "files/memory.h"
#include "problem_inside.h"

typedef struct {
    image seen;
    double *mask; /* NULL: every pixel was seen */
    int frame;    /* pixels around the picture that were not seen and are estimated */
    sosmc_deblur deblur;
} photograph;

static void release(void *p)
{
    photograph *photo = p;
    image_free(&photo->seen);
    free(photo->mask);
    free(photo);
}

/* An NPY array of doubles or a picture, as channels planes of rows lines. */
static int read_seen(builder *b, const char *path, image *out)
{
    npy_array a = {0};
    size_t length = strlen(path);
    *b->io = 1;
    if (length < 4 || strcmp(path + length - 4, ".npy") != 0) {
        if (image_read_part(path, 0, out, b->error, b->room)) return -1;
        double numbers = (double)config_integer(b->c, "particles") * out->channels * out->rows * out->columns;
        int fits = !memory_check("the set of particles", numbers * sizeof(double), "", b->error, b->room);
        *b->io = fits && image_read(path, out, b->error, b->room);
        return fits && !*b->io ? 0 : -1;
    }
    if (npy_read(path, &a, b->error, b->room)) return -1;
    *b->io = 0;
    int sound = (a.dims == 2 || (a.dims == 3 && (a.shape[0] == 1 || a.shape[0] == 3))) && npy_count(&a) > 0 &&
                npy_count(&a) <= IMAGE_PIXELS;
    *out = (image){.channels = a.dims == 3 ? (int)a.shape[0] : 1};
    if (sound) {
        out->rows = (int)a.shape[a.dims - 2];
        out->columns = (int)a.shape[a.dims - 1];
        out->pixel = malloc((size_t)npy_count(&a) * sizeof *out->pixel);
        if (out->pixel) npy_doubles(&a, out->pixel);
    }
    npy_free(&a);
    if (!sound)
        return job_wrong(b, "model.picture",
                         "names %s; expected an array of rows x columns, or of 1 or 3 channels x rows x columns", path);
    return out->pixel ? 0 : job_no_memory(b);
}

static int read_seen_mask(builder *b, photograph *photo)
{
    char why[JOB_SENTENCE];
    int rc = image_read_mask(config_text(b->c, "model.mask"), photo->seen.rows, photo->seen.columns, &photo->mask, why,
                             sizeof why);
    *b->io = rc < 0;
    if (rc > 0) return job_wrong(b, "model.mask", "names %s", why);
    return rc ? files_fail(b->error, b->room, "%s", why) : 0;
}

/* A pixel at the border was blurred with pixels that were not seen: they belong to the particle, as missing ones. */
static int frame_seen(builder *b, photograph *p)
{
    sosmc_blur blur = p->deblur.blur;
    image seen;
    double *mask;
    p->frame = sosmc_blur_reach(&blur);
    if (p->frame == 0) return 0;
    if ((double)(blur.rows + 2 * p->frame) * (blur.columns + 2 * p->frame) > (double)IMAGE_PIXELS)
        return job_wrong(b, "model.border",
                         "is unknown, and with %d pixels more on every side the picture is too large", p->frame);
    int rc = image_frame(&p->seen, p->mask, p->frame, &seen, &mask);
    image_free(&p->seen);
    free(p->mask);
    p->seen = seen;
    p->mask = mask;
    if (rc) return job_no_memory(b);
    p->deblur.blur.rows = p->seen.rows;
    p->deblur.blur.columns = p->seen.columns;
    p->deblur.blur.mask = p->mask;
    p->deblur.y = p->seen.pixel;
    return sosmc_fill_missing(&p->deblur.blur, p->seen.channels, p->seen.pixel) == SOSMC_ENOMEM ? job_no_memory(b) : 0;
}

static sosmc_blur blur_of(const builder *b, const photograph *photo)
{
    sosmc_blur blur = {.rows = photo->seen.rows, .columns = photo->seen.columns, .mask = photo->mask};
    if (is(b, "model.blur", "box")) {
        blur.kind = SOSMC_BLUR_BOX;
        blur.patch = (int)config_integer(b->c, "model.patch");
    } else if (is(b, "model.blur", "gaussian")) {
        blur.kind = SOSMC_BLUR_GAUSSIAN;
        blur.sigma = config_number(b->c, "model.blur_sd");
    } else if (is(b, "model.blur", "motion")) {
        blur.kind = SOSMC_BLUR_MOTION;
        blur.length = config_number(b->c, "model.length");
        blur.angle = config_number(b->c, "model.angle");
    }
    return blur;
}

static int deblur_build(builder *b)
{
    photograph *p = job_keep(b->job, calloc(1, sizeof *p), release);
    if (!p) return job_no_memory(b);
    b->p->model = p;
    b->p->restores = &p->deblur;
    if (read_seen(b, config_text(b->c, "model.picture"), &p->seen)) return -1;
    if (config_has(b->c, "model.mask") && read_seen_mask(b, p)) return -1;
    p->deblur = (sosmc_deblur){.blur = blur_of(b, p),
                               .channels = p->seen.channels,
                               .y = p->seen.pixel,
                               .sigma = config_number(b->c, "model.noise"),
                               .tv = is(b, "model.tv", "anisotropic") ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC,
                               .prox_tv = is(b, "model.prox_tv", "isotropic") ? SOSMC_TV_ISOTROPIC
                                                                              : SOSMC_TV_ANISOTROPIC,
                               .tolerance = config_number(b->c, "model.tolerance"),
                               .published_passes = (int)config_integer(b->c, "model.passes"),
                               .envelope = config_number(b->c, "model.envelope")};
    if (p->deblur.envelope > 0 && p->deblur.tv != p->deblur.prox_tv)
        return job_wrong(b, "model.prox_tv",
                         "is %s; expected that of model.tv, which is %s, where model.envelope is above 0",
                         config_text(b->c, "model.prox_tv"), config_text(b->c, "model.tv"));
    const char *fault = sosmc_blur_fault(&p->deblur.blur);
    if (fault) return job_wrong(b, "model.blur", "cannot be used: %s", fault);
    if (is(b, "model.border", "unknown") && frame_seen(b, p)) return -1;
    double pixels = (double)p->seen.rows * p->seen.columns;
    p->deblur.freedom = p->seen.channels * (pixels - is(b, "model.freedom", "exact"));
    b->job->problem.model = sosmc_deblur_model(&p->deblur);
    return 0;
}

/* Particles around what was seen, or around one grey; their noise is drawn like that of a jittered data set. */
static int deblur_init(builder *b)
{
    const photograph *p = b->p->model;
    size_t dim = (size_t)b->job->problem.model.dim_x;
    int means = 0, sds = 0;
    if (!is(b, "init.type", "seen") && !is(b, "init.type", "normal")) return JOB_COMMON_INIT;
    const double *sd = config_vector(b->c, "init.sd", &sds);
    if (sds != 1) return job_wrong(b, "init.sd", "has %d numbers; expected 1 for this model", sds);
    double *started = job_take(b->job, dim * sizeof *started);
    sosmc_rows *start = job_take(b->job, sizeof *start);
    if (!started || !start) return job_no_memory(b);
    memcpy(started, p->seen.pixel, dim * sizeof *started);
    if (is(b, "init.type", "normal")) {
        const double *mean = config_vector(b->c, "init.mean", &means);
        if (means != 1) return job_wrong(b, "init.mean", "has %d numbers; expected 1 for this model", means);
        for (size_t j = 0; j < dim; j++) started[j] = mean[0];
    }
    *start = (sosmc_rows){.data = started, .rows = 1, .mode = SOSMC_ROWS_IN_ORDER, .noise = sd[0]};
    b->job->problem.init = sosmc_rows_source(start);
    return 0;
}

static int deblur_picture(const job *j, picture_shape *out)
{
    const photograph *p = j->parts->model;
    *out = (picture_shape){p->seen.channels, p->seen.rows, p->seen.columns, 0, 255, p->frame};
    return p->seen.pixel != NULL;
}

static sosmc_kernel deblur_gibbs(const builder *b, double h)
{
    const photograph *p = b->p->model;
    return sosmc_deblur_gibbs(&p->deblur, h);
}

static void deblur_theta_name(const job *j, int k, char out[JOB_NAME])
{
    (void)j;
    (void)k;
    (void)snprintf(out, JOB_NAME, "log_strength");
}

const model_kind kind_deblur = {.build = deblur_build,
                                .init = deblur_init,
                                .picture = deblur_picture,
                                .theta_name = deblur_theta_name,
                                .gibbs = deblur_gibbs,
                                .keeps_shape = 1,
                                .per_number = 1,
                                .log_strength = 1};
