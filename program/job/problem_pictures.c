/* problem_pictures.c: the parts of a job that know what a picture is: rewards of pixels, a network that judges, sets of
 * pictures to train on. A picture is channel after channel, row after row; its pixels lie between -1 and 1. */
#include <math.h>
#include <stdlib.h>

#include "files/tensors.h"
#include "files/files.h"
#include "network_text.h"
#include "problem_inside.h"

/* The layer list of the run's model, or NULL: its points are not pictures. */
static const sosmc_network *pictures_of(const builder *b)
{
    return b->p->network && b->p->network->network.count > 0 ? &b->p->network->network : NULL;
}

static int need_pictures(const builder *b, const char *path, const sosmc_network **out)
{
    *out = pictures_of(b);
    if (*out) return 0;
    return job_wrong(b, path, "is %s, which is for pictures; expected a model.type network, or stored with layers",
                     config_text(b->c, path));
}

/* The layers of the run file; their weights come later. */
int job_new_pictures(builder *b, model_file *f)
{
    char words[512];
    if (network_parse(config_text(b->c, "model.layers"), &f->network, words, sizeof words))
        return job_wrong(b, "model.layers", "is not a network: %s", words);
    int64_t parameters = network_parameters(&f->network);
    if (parameters < 1 || parameters > TENSORS_NUMBERS)
        return job_wrong(b, "model.layers",
                         "makes a network of too many parameters; expected at most 2^28, which a file holds");
    f->inputs = f->network.channels * f->network.rows * f->network.columns;
    f->parameters = (int)parameters;
    f->theta = calloc((size_t)parameters, sizeof *f->theta);
    return f->theta ? 0 : job_no_memory(b);
}

/* ---------------------------------------------------------------------------- rewards that weigh pixels */

/* Minus on the upper half of the rows, plus on the lower; the middle row of an odd number counts for neither. */
static double half_weight(const sosmc_network *n, int row)
{
    int half = n->rows / 2;
    if (half == 0 || (row >= half && row < n->rows - half)) return 0;
    return (row < half ? -0.5 : 0.5) / ((double)n->channels * half * n->columns);
}

/* The mask's pixels as weights from -1 to 1; a grey mask is used for every channel. Returns the sum of their sizes. */
static double weights_of(const image *mask, size_t plane, int channels, double *out)
{
    double total = 0;
    for (size_t j = 0; j < plane * (size_t)channels; j++) {
        out[j] = mask->pixel[mask->channels == 1 ? j % plane : j] / 127.5 - 1;
        total += fabs(out[j]);
    }
    return total;
}

static int read_mask(builder *b, const sosmc_network *n, const char *path, const image *mask, double **out)
{
    size_t plane = (size_t)n->rows * (size_t)n->columns;
    if (mask->rows != n->rows || mask->columns != n->columns || (mask->channels != 1 && mask->channels != n->channels))
        return job_wrong(b, "objective.reward.mask",
                         "names %s, a picture of %d x %d x %d (channels, rows, columns); expected %d x %d x %d", path,
                         mask->channels, mask->rows, mask->columns, n->channels, n->rows, n->columns);
    *out = job_take(b->job, plane * (size_t)n->channels * sizeof **out);
    if (!*out) return job_no_memory(b);
    if (weights_of(mask, plane, n->channels, *out) > 0) return 0;
    return job_wrong(b, "objective.reward.mask", "names %s, which is grey all over: it weighs nothing", path);
}

double *job_mask(builder *b)
{
    const sosmc_network *n = pictures_of(b);
    const char *path = config_text(b->c, "objective.reward.mask");
    double *out = NULL;
    image mask;
    if (!n) {
        (void)job_wrong(b, "objective.reward.mask", "is given, but the model is not one of pictures");
        return NULL;
    }
    *b->io = 1;
    if (image_read(path, &mask, b->error, b->room)) return NULL;
    *b->io = 0;
    int rc = read_mask(b, n, path, &mask, &out);
    image_free(&mask);
    return rc ? NULL : out;
}

static int fill_weights(builder *b, const sosmc_network *n, double *w)
{
    int dim = b->job->problem.model.dim_x;
    double scale = config_number(b->c, "objective.reward.scale"), total = 0;
    if (is(b, "objective.reward.type", "mask")) {
        const double *mask = job_mask(b);
        if (!mask) return -1;
        for (int j = 0; j < dim; j++) total += fabs(mask[j]);
        for (int j = 0; j < dim; j++) w[j] = scale * mask[j] / total;
        return 0;
    }
    int half = is(b, "objective.reward.type", "half");
    if (is(b, "objective.reward.type", "dark")) scale = -scale;
    for (int j = 0; j < dim; j++) w[j] = scale * (half ? half_weight(n, j / n->columns % n->rows) : 1.0 / dim);
    return 0;
}

static int linear_reward(builder *b, sosmc_score *out)
{
    const sosmc_network *n;
    int dim = b->job->problem.model.dim_x;
    if (need_pictures(b, "objective.reward.type", &n)) return -1;
    double *weight = job_take(b->job, (size_t)dim * sizeof *weight);
    sosmc_linear *linear = job_take(b->job, sizeof *linear);
    if (!weight || !linear) return job_no_memory(b);
    if (fill_weights(b, n, weight)) return -1;
    *linear = (sosmc_linear){.dim = dim, .weight = weight, .clamp = config_number(b->c, "objective.reward.clamp")};
    *out = sosmc_linear_reward(linear);
    return 0;
}

/* ---------------------------------------------------------------------------- a network that judges */

static int last_outputs(const sosmc_network *n)
{
    const sosmc_layer *last = &n->layer[n->count - 1];
    return last->kind == SOSMC_DENSE ? last->outputs : 0; /* 0 for a convolution: then the library checks the output */
}

typedef struct {
    model_file file;
    void *prep; /* what the model prepares from its weights, once */
    sosmc_network_judge judge;
} judge;

static void release_judge(void *p)
{
    judge *k = p;
    model_free(&k->file);
    free(k->prep);
    free(k);
}

static int read_judge(builder *b, const char *path, model_file *f)
{
    *b->io = 1;
    if (model_read_as(path, config_text(b->c, "objective.reward.description"), NULL, f, b->error, b->room)) return -1;
    *b->io = 0;
    if (f->network.count == 0)
        return job_wrong(b, "objective.reward.network", "names %s, which is not a network of pictures", path);
    int outputs = last_outputs(&f->network);
    f->network.output = (int)config_integer(b->c, "objective.reward.output");
    if (outputs && f->network.output >= outputs)
        return job_wrong(b, "objective.reward.output", "is %d; %s has the outputs 0 to %d", f->network.output, path,
                         outputs - 1);
    return 0;
}

static int judge_reward(builder *b, sosmc_score *out)
{
    const char *path = config_text(b->c, "objective.reward.network");
    judge *k = job_keep(b->job, calloc(1, sizeof *k), release_judge);
    if (!k) return job_no_memory(b);
    if (read_judge(b, path, &k->file)) return -1;
    sosmc_model m = sosmc_network_model(&k->file.network);
    if (m.dim_x != b->job->problem.model.dim_x)
        return job_wrong(b, "objective.reward.network",
                         "names %s, which judges pictures of %d numbers; the model has %d", path, m.dim_x,
                         b->job->problem.model.dim_x);
    k->prep = aligned_alloc(64, (m.prep + 63) / 64 * 64);
    if (!k->prep) return job_no_memory(b);
    if (m.prepare(m.self, k->file.theta, k->prep))
        return job_wrong(b, "objective.reward.network", "names %s, whose weights cannot be used", path);
    k->judge = (sosmc_network_judge){.network = &k->file.network,
                                     .prep = k->prep,
                                     .scale = config_number(b->c, "objective.reward.scale"),
                                     .clamp = config_number(b->c, "objective.reward.clamp"),
                                     .softmax = config_flag(b->c, "objective.reward.log_probability")};
    *out = sosmc_network_reward(&k->judge);
    return 0;
}

int job_picture_reward(builder *b, sosmc_score *out)
{
    return is(b, "objective.reward.type", "network") ? judge_reward(b, out) : linear_reward(b, out);
}

/* ---------------------------------------------------------------------------- pictures to train on */

static void release_images(void *p)
{
    images_free(p);
    free(p);
}

int job_picture_data(builder *b, int64_t *rows)
{
    const sosmc_network *n;
    const char *path = config_text(b->c, "objective.data.file");
    if (need_pictures(b, "objective.data.type", &n)) return -1;
    image_set *set = job_keep(b->job, calloc(1, sizeof *set), release_images);
    if (!set) return job_no_memory(b);
    *b->io = 1;
    if (images_read(path, set, b->error, b->room)) return -1;
    *b->io = 0;
    if (set->channels != n->channels || set->rows != n->rows || set->columns != n->columns)
        return job_wrong(b, "objective.data.file",
                         "names %s, pictures of %d x %d x %d (channels, rows, columns); the model has %d x %d x %d",
                         path, set->channels, set->rows, set->columns, n->channels, n->rows, n->columns);
    *rows = set->count;
    b->p->rows = (sosmc_rows){.data = set->values,
                              .bytes = set->bytes,
                              .low = -1,
                              .high = 1,
                              .noise = config_number(b->c, "objective.data.jitter"),
                              .clamp = config_number(b->c, "objective.data.clamp")};
    return 0;
}
