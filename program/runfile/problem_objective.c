/* problem_objective.c: the objective of a run file: its reward, its reference, the data it fits. The model is known; a base
 * whose width comes from the data gets it here, and a cooled cloud replaces the model by the way to it. */
#include <math.h>

#include "points.h"
#include "problem_inside.h"
#include "schema.h"

static int build_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x, rows = 0, cols = 0;
    double tau = config_number(b->c, "objective.reward.tau"), alpha = config_number(b->c, "objective.reward.alpha");
    if (is(b, "objective.reward.type", "formula")) {
        char words[256];
        picture_shape shape;
        int pictures = job_picture(b->job, &shape);
        sosmc_picture_shape picture = {.clamp = config_number(b->c, "objective.reward.clamp")};
        if (config_has(b->c, "objective.reward.mask") && job_mask(b, &b->p->mask)) return -1;
        if (pictures) {
            picture.channels = shape.channels;
            picture.rows = shape.rows;
            picture.columns = shape.columns;
            picture.mask = b->p->mask;
        }
        b->p->formula = sosmc_expression_compile(config_text(b->c, "objective.reward.formula"), dim,
                                                 pictures ? &picture : NULL, words, sizeof words);
        if (!b->p->formula) return job_wrong(b, "objective.reward.formula", "is not a formula: %s", words);
        *out = sosmc_expression_score(b->p->formula);
    } else if (schema_has_word("bright|dark|half|mask|network", config_text(b->c, "objective.reward.type"))) {
        return job_picture_reward(b, out);
    } else if (is(b, "objective.reward.type", "half_plane")) {
        b->p->half_plane = (sosmc_half_plane){.dim = dim,
                                              .normal = job_vector(b, "objective.reward.normal", dim),
                                              .offset = config_number(b->c, "objective.reward.offset")};
        if (!b->p->half_plane.normal) return -1;
        *out = sosmc_half_plane_reward(&b->p->half_plane);
    } else if (is(b, "objective.reward.type", "multi_modal")) {
        const double *centers = config_matrix(b->c, "objective.reward.centers", &rows, &cols);
        if (cols != dim)
            return job_wrong(b, "objective.reward.centers", "have %d numbers each; expected %d", cols, dim);
        b->p->peaks = (sosmc_peaks){.dim = dim, .count = rows, .centers = centers, .tau = tau, .alpha = alpha};
        *out = sosmc_peaks_reward(&b->p->peaks);
    } else {
        int smooth = is(b, "objective.reward.type", "smooth_gate");
        b->p->gate = (sosmc_gate){.dim = dim,
                                  .center = job_vector(b, "objective.reward.center", dim),
                                  .tau = tau,
                                  .lambda = smooth ? config_number(b->c, "objective.reward.lambda") : 0,
                                  .alpha = alpha};
        if (!b->p->gate.center) return -1;
        *out = sosmc_gate_reward(&b->p->gate);
    }
    return 0;
}

/* Reference samples that are rows of a file. */
static int stored_reference(builder *b, sosmc_score reward)
{
    int64_t rows = 0;
    *b->io = 1;
    if (points_load(config_text(b->c, "objective.reference.file"), b->job->problem.model.dim_x, &b->p->points, &rows,
                    b->error, b->room))
        return -1;
    *b->io = 0;
    b->p->rows = (sosmc_rows){.data = b->p->points, .rows = rows, .mode = SOSMC_ROWS_RANDOM};
    b->job->problem.objective = sosmc_reward_forward(
        reward, config_number(b->c, "objective.beta"), sosmc_rows_source(&b->p->rows),
        (int)config_integer(b->c, "objective.reference.batch"), b->p->theta_ref);
    return 0;
}

static int forward_objective(builder *b, sosmc_score reward)
{
    if (config_has(b->c, "objective.reference.file")) return stored_reference(b, reward);
    if (!is(b, "model.type", "gaussian_mixture"))
        return job_wrong(
            b, "objective.type",
            "is reward_forward, which needs draws of the reference, and model %s has none of its own; expected "
            "objective.reference.file",
            config_text(b->c, "model.type"));
    b->p->reference_mixture = (sosmc_mixture_law){.mixture = &b->p->mixture, .theta = b->p->theta_ref};
    b->job->problem.objective = sosmc_reward_forward(
        reward, config_number(b->c, "objective.beta"), sosmc_mixture_source(&b->p->reference_mixture),
        (int)config_integer(b->c, "objective.reference.batch"), b->p->theta_ref);
    return 0;
}

/* Points of one of the generators, in the dimension of the model. */
static int generated_points(builder *b, points_kind kind, int64_t *rows)
{
    int dim = b->job->problem.model.dim_x;
    points_recipe recipe = {
        .kind = kind,
        .points = config_integer(b->c, "objective.data.points"),
        .noise = config_number(b->c, kind == POINTS_BLOBS ? "objective.data.sd" : "objective.data.noise"),
        .factor = config_number(b->c, "objective.data.factor"),
        .standardise = config_flag(b->c, "objective.data.standardise"),
        .scale = config_number(b->c, "objective.data.scale"),
        .seed = config_unsigned(b->c, "objective.data.seed")};
    recipe.centres = config_matrix(b->c, "objective.data.centres", &recipe.clusters, &recipe.dim);
    if (kind == POINTS_BLOBS && recipe.dim != dim)
        return job_wrong(b, "objective.data.centres", "have %d numbers each; expected %d", recipe.dim, dim);
    if (kind != POINTS_BLOBS && dim != 2)
        return job_wrong(b, "objective.data.type",
                         "is %s, which gives points of dimension 2; the model has dimension %d",
                         config_text(b->c, "objective.data.type"), dim);
    return points_generate(&recipe, &b->p->points, rows, b->error, b->room);
}

static int build_points(builder *b, int64_t *rows)
{
    if (is(b, "objective.data.type", "two_moons")) return generated_points(b, POINTS_TWO_MOONS, rows);
    if (is(b, "objective.data.type", "circles")) return generated_points(b, POINTS_CIRCLES, rows);
    if (is(b, "objective.data.type", "blobs")) return generated_points(b, POINTS_BLOBS, rows);
    if (is(b, "objective.data.type", "images")) return job_picture_data(b, rows);
    int dim = b->job->problem.model.dim_x, centred = config_flag(b->c, "objective.data.standardise");
    const char *path = config_text(b->c, "objective.data.file");
    *b->io = 1;
    if (points_load(path, dim, &b->p->points, rows, b->error, b->room) ||
        (centred && points_can_standardise(path, *rows, "objective.data.standardise: false", b->error, b->room)))
        return -1;
    *b->io = 0;
    if (points_rescale(b->p->points, *rows, dim, centred, config_number(b->c, "objective.data.scale")) == 0) return 0;
    return job_wrong(b, "objective.data", "has points that are too large to be scaled in double precision");
}

/* The gradient penalty, and the width of a base that is to come from the data. */
static int network_training(builder *b)
{
    double penalty = config_number(b->c, "objective.gradient_penalty"), squares = 0;
    size_t numbers = (size_t)b->p->rows.rows * (size_t)b->job->problem.model.dim_x;
    if (penalty > 0 && (!job_is_network(b) || model_is_network(&b->p->network)))
        return job_wrong(b, "objective.gradient_penalty",
                         "is %g; only multi-layer perceptrons (model.type: mlp or stored) have one", penalty);
    if (!job_is_network(b) || model_is_network(&b->p->network)) return 0;
    if (penalty > 0) b->job->problem.objective.penalty = sosmc_mlp_penalty;
    if (!is(b, "model.base", "gaussian") || b->p->mlp.base_sd > 0 || !b->p->points) return 0;
    for (size_t i = 0; i < numbers; i++) squares += b->p->points[i] * b->p->points[i];
    b->p->mlp.base_sd = b->p->network.base_sd = sqrt(squares / (double)numbers);
    if (b->p->mlp.base_sd > 0 && isfinite(b->p->mlp.base_sd)) return 0;
    return job_wrong(b, "objective.data",
                     "has points all at the origin (or too large), so model.base_sd cannot come from them");
}

static int likelihood_objective(builder *b)
{
    int64_t rows = 0, batch = config_integer(b->c, "objective.batch");
    int epochs = is(b, "objective.batches", "epochs");
    if (build_points(b, &rows)) return -1;
    if (rows < 1 || rows > INT32_MAX)
        return job_wrong(b, "objective.data", "holds %lld points; expected 1 to 2^31 - 1", (long long)rows);
    if (epochs && batch > rows)
        return job_wrong(b, "objective.batch",
                         "is %lld; expected at most the %lld points, because objective.batches is epochs",
                         (long long)batch, (long long)rows);
    if (b->p->points) b->p->rows.data = b->p->points;
    b->p->rows.rows = rows;
    b->p->rows.mode = !batch ? SOSMC_ROWS_IN_ORDER : epochs ? SOSMC_ROWS_EPOCHS : SOSMC_ROWS_RANDOM;
    b->p->rows.batch = (int)batch;
    b->job->problem.objective = sosmc_likelihood(sosmc_rows_source(&b->p->rows), (int)(batch ? batch : rows));
    b->job->problem.objective.energy2 = config_number(b->c, "objective.energy2");
    return network_training(b);
}

/* Theta stays, or is the temperature between a normal law and the model. */
static int sampling_objective(builder *b)
{
    sosmc_score score = {0};
    if (config_has(b->c, "objective.reward") && build_reward(b, &score)) return -1;
    b->job->problem.objective = sosmc_sampling(score);
    if (is(b, "objective.type", "none")) return 0;
    b->p->tempering = (sosmc_tempering){.model = b->job->problem.model,
                                        .theta = b->p->theta,
                                        .base_sd = config_number(b->c, "objective.base_sd"),
                                        .steps = config_integer(b->c, "objective.steps"),
                                        .power = config_number(b->c, "objective.power")};
    b->job->problem.model = sosmc_tempered_model(&b->p->tempering);
    b->job->problem.theta0 = NULL; /* t = 0 */
    return 0;
}

int job_build_objective(builder *b)
{
    sosmc_score reward = {0};
    if (is(b, "objective.type", "mmle")) {
        b->job->problem.objective = sosmc_mmle();
        if (is(b, "model.type", "deblur")) /* per pixel, so that one learning rate serves all sizes */
            b->job->problem.objective.scale /= b->job->problem.model.dim_x;
        return 0;
    }
    if (is(b, "objective.type", "ebm_likelihood")) return likelihood_objective(b);
    if (is(b, "objective.type", "none") || is(b, "objective.type", "anneal")) return sampling_objective(b);
    if (build_reward(b, &reward)) return -1;
    if (job_is_network(b) && !config_has(b->c, "objective.reference.theta"))
        b->p->theta_ref = b->p->theta;
    else
        b->p->theta_ref = job_vector(b, "objective.reference.theta", b->job->problem.model.dim_theta);
    if (!b->p->theta_ref) return -1;
    if (is(b, "objective.type", "reward_reverse"))
        b->job->problem.objective = sosmc_reward_reverse(reward, config_number(b->c, "objective.beta"),
                                                         b->p->theta_ref);
    else if (forward_objective(b, reward))
        return -1;
    b->job->problem.objective.ramp = config_integer(b->c, "objective.ramp");
    return 0;
}
