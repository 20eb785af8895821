/* problem_network.c: the models whose theta is the weights of a network: `mlp` and `network` are new ones that the run file
 * describes, a perceptron of points and a layer list of pictures; `stored` is either of them with the weights of a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "problem_inside.h"

/* The model of these kinds. parts.network points to `file`, problem.model to one of the two. */
typedef struct {
    model_file file;
    sosmc_mlp mlp; /* the library's view of a perceptron */
} network;

static void release(void *p)
{
    network *n = p;
    model_free(&n->file);
    free(n);
}

/* The standard deviation of the network's Gaussian base; 0: it has none. */
static double base_of(const network *n)
{
    return model_is_network(&n->file) ? n->file.network.base_sd : n->mlp.base_sd;
}

/* ---------------------------------------------------------------------------- the network of a run file */

static int take_network(builder *b, network **out)
{
    *out = job_keep(b->job, calloc(1, sizeof **out), release);
    if (!*out) return job_no_memory(b);
    b->p->model = *out;
    b->p->network = &(*out)->file;
    return 0;
}

static int read_widths(builder *b, model_file *f)
{
    const double *wide = config_vector(b->c, "model.hidden", &f->hidden_layers);
    if (f->hidden_layers > 32)
        return job_wrong(b, "model.hidden", "has %d layers; expected at most 32", f->hidden_layers);
    f->width = calloc((size_t)f->hidden_layers, sizeof *f->width);
    if (!f->width) return job_no_memory(b);
    for (int l = 0; l < f->hidden_layers; l++) {
        f->width[l] = (int)wide[l];
        if (wide[l] != f->width[l]) return job_wrong(b, "model.hidden", "holds %g; expected whole numbers", wide[l]);
    }
    return 0;
}

/* A perceptron as the run file describes it, with weights that are still 0. */
static int new_perceptron(builder *b, model_file *f)
{
    if (read_widths(b, f)) return -1;
    f->inputs = (int)config_integer(b->c, "model.inputs");
    (void)snprintf(f->activation, sizeof f->activation, "%s", config_text(b->c, "model.activation"));
    f->base_sd = is(b, "model.base", "gaussian") && config_has(b->c, "model.base_sd")
                     ? config_number(b->c, "model.base_sd")
                     : 0;
    int64_t parameters = model_parameters(f->inputs, f->width, f->hidden_layers);
    if (parameters < 1)
        return job_wrong(b, "model.hidden",
                         "makes a network of too many parameters; expected at most 2^28, which a file holds");
    f->parameters = (int)parameters;
    f->theta = calloc((size_t)parameters, sizeof *f->theta);
    return f->theta ? 0 : job_no_memory(b);
}

/* The library's model of the network in n->file; its weights may still change. */
static int use_network(builder *b, network *n)
{
    model_file *f = &n->file;
    if (config_has(b->c, "model.temperature")) {
        double temperature = config_number(b->c, "model.temperature");
        if (!model_is_network(f))
            return job_wrong(b, "model.temperature", "is %g; only networks of pictures have one", temperature);
        f->network.temperature = temperature;
    }
    b->job->problem.model = model_energy(f, &n->mlp);
    if (is(b, "objective.type", "ebm_likelihood") && !model_is_network(f)) {
        n->mlp.penalty = config_number(b->c, "objective.gradient_penalty");
        b->job->problem.model = sosmc_mlp_model(&n->mlp);
    }
    if (b->job->problem.model.dim_x == 0)
        return job_wrong(
            b, "model",
            "is a network the library does not take: expected 1 to 32 hidden layers of at most 16,384 units");
    b->job->problem.theta0 = f->theta;
    b->p->scaled = is(b, "model.units", "scaled");
    return 0;
}

static int mlp_build(builder *b)
{
    network *n;
    if (take_network(b, &n) || new_perceptron(b, &n->file) || use_network(b, n)) return -1;
    sosmc_mlp_init(&n->mlp, config_number(b->c, "model.init_sd"), config_unsigned(b->c, "seed"), n->file.theta);
    return 0;
}

static int layers_build(builder *b)
{
    network *n;
    if (take_network(b, &n) || job_new_pictures(b, &n->file) || use_network(b, n)) return -1;
    sosmc_network_init(&n->file.network, config_unsigned(b->c, "seed"), n->file.theta);
    return 0;
}

static int stored_build(builder *b)
{
    network *n;
    if (take_network(b, &n)) return -1;
    *b->io = 1;
    if (model_read_as(config_text(b->c, "model.file"), config_text(b->c, "model.network"),
                      config_text(b->c, "model.activation"), &n->file, b->error, b->room))
        return -1;
    *b->io = 0;
    return use_network(b, n);
}

/* ---------------------------------------------------------------------------- start, training, pictures */

static int network_init(builder *b)
{
    if (!is(b, "init.type", "base")) return JOB_COMMON_INIT;
    if (base_of(b->p->model) > 0) return job_centred_init(b, base_of(b->p->model));
    return is(b, "model.type", "stored")
               ? job_wrong(b, "init.type",
                           "is base, but the stored network has none; expected a law that covers it, such as "
                           "{type: normal, sd: 4}")
               : job_wrong(b, "init.type", "is base, but the network has none; see model.base");
}

/* The gradient penalty, and the width of a base that is to come from the data. */
static int fit_base(builder *b)
{
    network *n = b->p->model;
    double squares = 0;
    size_t numbers = (size_t)b->p->rows.rows * (size_t)b->job->problem.model.dim_x;
    if (model_is_network(&n->file)) return 0;
    if (config_number(b->c, "objective.gradient_penalty") > 0) b->job->problem.objective.penalty = sosmc_mlp_penalty;
    if (!is(b, "model.base", "gaussian") || n->mlp.base_sd > 0 || !b->p->points) return 0;
    for (size_t i = 0; i < numbers; i++) squares += b->p->points[i] * b->p->points[i];
    n->mlp.base_sd = n->file.base_sd = sqrt(squares / (double)numbers);
    if (n->mlp.base_sd > 0 && isfinite(n->mlp.base_sd)) return 0;
    return job_wrong(b, "objective.data",
                     "has points all at the origin (or too large), so model.base_sd cannot come from them");
}

/* model.init_sd is for points some two units wide, as `train` makes them. With others the first layer sees the same where its weights are
 * as much larger or smaller; a network that starts nearly linear does not learn. */
static void fit_first_layer(const builder *b, const network *n)
{
    const double usual = 2;
    if (!is(b, "settings", "automatic") || !is(b, "model.type", "mlp") || n->file.hidden_layers < 1) return;
    for (size_t i = 0; n->mlp.base_sd > 0 && i < (size_t)n->file.inputs * (size_t)n->file.width[0]; i++)
        n->file.theta[i] *= usual / n->mlp.base_sd;
}

static int network_fit(builder *b)
{
    int rc = fit_base(b);
    if (rc == 0 && is(b, "objective.type", "ebm_likelihood")) fit_first_layer(b, b->p->model);
    return rc;
}

/* Weighted training needs a start that is a law with a finite, known mass. */
static int network_check(builder *b)
{
    int automatic = is(b, "settings", "automatic");
    if (!is(b, "objective.type", "ebm_likelihood") || (!automatic && !is(b, "scheme.type", "sosmc"))) return 0;
    if (is(b, "model.type", "network") && base_of(b->p->model) == 0)
        return job_wrong(b, "model.layers",
                         "has no base: the energy of an untrained network is flat, and there is nothing to weigh "
                         "against; expected a clause such as 'base 0.8', or scheme.type pcd");
    if (is(b, "model.type", "mlp") && base_of(b->p->model) == 0)
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

static int network_picture(const job *j, picture_shape *out)
{
    const sosmc_network *n = &j->parts->network->network;
    *out = (picture_shape){n->channels, n->rows, n->columns, -1, 1, 0};
    return n->count > 0;
}

static const char *network_why_no_log_z(const job *j)
{
    return base_of(j->parts->model) > 0 ? NULL
                                        : "the network has no base law, and exp(-U) need not have a finite integral";
}

#define NETWORK(build_)                                                                      \
    {                                                                                        \
        .build = (build_), .init = network_init, .fit = network_fit, .check = network_check, \
        .picture = network_picture, .why_no_log_z = network_why_no_log_z                     \
    }
const model_kind kind_mlp = NETWORK(mlp_build);
const model_kind kind_network = NETWORK(layers_build);
const model_kind kind_stored = NETWORK(stored_build);
