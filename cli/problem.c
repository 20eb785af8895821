/* problem.c: from a resolved run file to what sosmc_create takes. Every section of the file has a function; what the plain
 * values of the library point to is kept in `parts` until job_free. */
#include "problem.h"

#include <stdarg.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "points.h"
#include "problem_inside.h"
#include "schema.h"

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

int job_no_memory(const builder *b)
{
    (void)files_fail(b->error, b->room, "out of memory");
    return -1;
}

/* A vector of the file that must have `n` numbers. */
static const double *vector_of(const builder *b, const char *path, int n)
{
    int length = 0;
    const double *v = config_vector(b->c, path, &length);
    if (v && length == n) return v;
    (void)job_wrong(b, path, "has %d numbers; expected %d", length, n);
    return NULL;
}

/* ---------------------------------------------------------------------------- model */

static int mixture_model(builder *b)
{
    int rows = 0, cols = 0;
    const double *means = config_matrix(b->c, "model.means", &rows, &cols);
    b->p->mixture = (sosmc_mixture){.dim = cols,
                                    .components = rows,
                                    .means = means,
                                    .variance = config_number(b->c, "model.variance"),
                                    .eps = config_number(b->c, "model.eps")};
    b->job->problem.model = sosmc_mixture_model(&b->p->mixture);
    return 0;
}

static int column_of(builder *b, const csv_table *t, const char *path)
{
    int number = config_column(b->c, path);
    if (number > 0) {
        if (number <= t->columns) return number - 1;
        (void)job_wrong(b, path, "is %d; %s has %d columns", number, t->path, t->columns);
        return -1;
    }
    const csv_column *found = csv_find(t, config_text(b->c, path));
    if (found) return (int)(found - t->column);
    (void)job_wrong(b, path, "is '%s'; %s has no such column", config_text(b->c, path), t->path);
    return -1;
}

static int read_table(builder *b, const char *path, csv_table *t)
{
    if (csv_read(config_text(b->c, path), NULL, t, b->error, b->room) == 0) return 0;
    *b->io = 1;
    return -1;
}

static int hierarchical_data(builder *b, const csv_table *t)
{
    const double *y = NULL;
    int column = column_of(b, t, "model.column");
    if (column < 0 || csv_numbers(t, column, &y, b->error, b->room)) return -1;
    b->p->labels = malloc((size_t)t->rows * sizeof(double) + 1);
    if (!b->p->labels) return job_no_memory(b);
    memcpy(b->p->labels, y, (size_t)t->rows * sizeof(double));
    b->p->hierarchical = (sosmc_hierarchical){.dim = (int)t->rows, .y = b->p->labels};
    return 0;
}

static int hierarchical_model(builder *b)
{
    int n = 0;
    if (config_has(b->c, "model.y")) {
        const double *y = config_vector(b->c, "model.y", &n);
        b->p->hierarchical = (sosmc_hierarchical){.dim = n, .y = y};
    } else {
        csv_table t = {0};
        if (!config_has(b->c, "model.data"))
            return job_wrong(b, "model", "has neither y nor data; expected one of them");
        if (read_table(b, "model.data", &t)) return -1;
        int rc = hierarchical_data(b, &t);
        csv_free(&t);
        if (rc) return -1;
    }
    b->job->problem.model = sosmc_hierarchical_model(&b->p->hierarchical);
    return 0;
}

/* Which columns are features: those named, or all numeric ones but the label and the split. */
static int choose_features(builder *b, const csv_table *t, int label, int split, int *column)
{
    int count = 0, named = config_count(b->c, "model.features");
    for (int i = 0; i < named; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "model.features.%d", i);
        column[count] = column_of(b, t, path);
        if (column[count++] < 0) return -1;
    }
    for (int i = 0; named == 0 && i < t->columns; i++)
        if (i != label && i != split) column[count++] = i;
    return count > 0 ? count : job_wrong(b, "model.features", "leaves no column of %s; expected at least one", t->path);
}

/* Features are standardised over all rows, with the population's standard deviation, before rows are split off. */
static int standardise(builder *b, const csv_table *t, int column, double *mean, double *scale)
{
    const double *v = NULL;
    if (csv_numbers(t, column, &v, b->error, b->room)) return -1;
    double sum = 0, square = 0;
    for (int64_t r = 0; r < t->rows; r++) sum += v[r];
    *mean = sum / (double)t->rows;
    for (int64_t r = 0; r < t->rows; r++) square += (v[r] - *mean) * (v[r] - *mean);
    *scale = sqrt(square / (double)t->rows);
    if (!config_flag(b->c, "model.standardise")) {
        *mean = 0;
        *scale = 1;
    }
    if (*scale > 0) return 0;
    return files_fail(b->error, b->room, "%s: column '%s' is constant, so it cannot be standardised", t->path,
                      t->column[column].name);
}

static int in_training(const builder *b, const csv_table *t, int split, int64_t row)
{
    if (split < 0) return 1;
    const char *wanted = config_text(b->c, "model.train.value");
    if (t->column[split].text) return strcmp(t->column[split].text[row], wanted) == 0;
    char *end;
    double value = strtod(wanted, &end);
    return *wanted && !*end && t->column[split].number[row] == value;
}

static int logistic_data(builder *b, const csv_table *t)
{
    int label = column_of(b, t, "model.label"), split = -1;
    const double *y = NULL;
    if (label < 0 || csv_numbers(t, label, &y, b->error, b->room)) return -1;
    if (config_has(b->c, "model.train.column") && (split = column_of(b, t, "model.train.column")) < 0) return -1;
    int *column = calloc((size_t)t->columns + (size_t)config_count(b->c, "model.features") + 1, sizeof *column);
    if (!column) return job_no_memory(b);
    int dim = choose_features(b, t, label, split, column), rows = 0;
    size_t cells = (size_t)t->rows * (size_t)(dim > 0 ? dim : 1);
    b->p->features = malloc(cells * sizeof(double) + 1);
    b->p->labels = malloc((size_t)t->rows * sizeof(double) + 1);
    int rc = dim < 0 ? -1 : !b->p->features || !b->p->labels ? job_no_memory(b) : 0;
    for (int64_t r = 0; rc == 0 && r < t->rows; r++) {
        if (y[r] != 0 && y[r] != 1)
            rc = job_wrong(b, "model.label", "names a column with %g in data row %lld of %s; expected 0 or 1", y[r],
                           (long long)r + 1, t->path);
        if (in_training(b, t, split, r)) b->p->labels[rows++] = y[r];
    }
    for (int j = 0; rc == 0 && j < dim; j++) {
        double mean = 0, scale = 1;
        rc = standardise(b, t, column[j], &mean, &scale);
        for (int64_t r = 0, kept = 0; rc == 0 && r < t->rows; r++)
            if (in_training(b, t, split, r))
                b->p->features[kept++ * dim + j] = (t->column[column[j]].number[r] - mean) / scale;
    }
    if (rc == 0 && rows == 0)
        rc = job_wrong(b, "model.train.value", "is '%s'; no row of %s has it", config_text(b->c, "model.train.value"),
                       t->path);
    b->p->logistic = (sosmc_logistic){.rows = rows,
                                      .dim = dim,
                                      .features = b->p->features,
                                      .labels = b->p->labels,
                                      .variance = config_number(b->c, "model.prior_variance")};
    free(column);
    return rc;
}

static int logistic_model(builder *b)
{
    csv_table t = {0};
    if (read_table(b, "model.data", &t)) return -1;
    int rc = logistic_data(b, &t);
    csv_free(&t);
    if (rc == 0) b->job->problem.model = sosmc_logistic_model(&b->p->logistic);
    return rc;
}

static int is_network(const builder *b)
{
    return schema_has_word("mlp|network|stored", config_text(b->c, "model.type"));
}

/* The network as the run file describes it, with weights drawn at random. */
static int new_network(builder *b)
{
    model_file *f = &b->p->network;
    const double *wide = config_vector(b->c, "model.hidden", &f->hidden_layers);
    if (f->hidden_layers > 32)
        return job_wrong(b, "model.hidden", "has %d layers; expected at most 32", f->hidden_layers);
    f->inputs = (int)config_integer(b->c, "model.inputs");
    f->width = calloc((size_t)f->hidden_layers, sizeof *f->width);
    if (!f->width) return job_no_memory(b);
    for (int l = 0; l < f->hidden_layers; l++) {
        f->width[l] = (int)wide[l];
        if (wide[l] != f->width[l]) return job_wrong(b, "model.hidden", "holds %g; expected whole numbers", wide[l]);
    }
    (void)snprintf(f->activation, sizeof f->activation, "%s", config_text(b->c, "model.activation"));
    f->base_sd = is(b, "model.base", "gaussian") && config_has(b->c, "model.base_sd")
                     ? config_number(b->c, "model.base_sd")
                     : 0;
    int64_t parameters = model_parameters(f->inputs, f->width, f->hidden_layers);
    if (parameters < 1 || parameters > INT32_MAX)
        return job_wrong(b, "model.hidden", "makes a network of too many parameters; expected fewer than 2^31");
    f->parameters = (int)parameters;
    f->theta = calloc((size_t)parameters, sizeof *f->theta);
    return f->theta ? 0 : job_no_memory(b);
}

/* Where theta starts: the weights of a file, or new ones, drawn when the model is known. */
static int network_weights_of(builder *b)
{
    model_file *f = &b->p->network;
    if (is(b, "model.type", "mlp")) return new_network(b);
    if (is(b, "model.type", "network")) return job_new_pictures(b);
    *b->io = 1;
    if (model_read_as(config_text(b->c, "model.file"), config_text(b->c, "model.network"), f, b->error, b->room))
        return -1;
    *b->io = 0;
    return 0;
}

static int network_model(builder *b)
{
    model_file *f = &b->p->network;
    uint64_t seed = config_unsigned(b->c, "seed");
    if (network_weights_of(b)) return -1;
    if (config_has(b->c, "model.temperature")) {
        if (!model_is_network(f))
            return job_wrong(b, "model.temperature", "is %g; only networks of pictures have one",
                             config_number(b->c, "model.temperature"));
        f->network.temperature = config_number(b->c, "model.temperature");
    }
    b->job->problem.model = model_energy(f, &b->p->mlp);
    if (is(b, "objective.type", "ebm_likelihood") && !model_is_network(f)) {
        b->p->mlp.penalty = config_number(b->c, "objective.gradient_penalty");
        b->job->problem.model = sosmc_mlp_model(&b->p->mlp);
    }
    if (b->job->problem.model.dim_x == 0)
        return job_wrong(
            b, "model",
            "is a network the library does not take: expected 1 to 32 hidden layers of at most 16,384 units");
    if (is(b, "model.type", "mlp")) sosmc_mlp_init(&b->p->mlp, config_number(b->c, "model.init_sd"), seed, f->theta);
    if (is(b, "model.type", "network")) sosmc_network_init(&f->network, seed, f->theta);
    b->p->theta = b->job->problem.theta0 = f->theta;
    return 0;
}

/* Of the network's Gaussian base; 0: it has none. */
static double base_of(const builder *b)
{
    return model_is_network(&b->p->network) ? b->p->network.network.base_sd : b->p->mlp.base_sd;
}

static int build_model(builder *b)
{
    if (is_network(b)) return network_model(b);
    int rc = is(b, "model.type", "gaussian_mixture")        ? mixture_model(b)
             : is(b, "model.type", "hierarchical_gaussian") ? hierarchical_model(b)
             : is(b, "model.type", "deblur")                ? job_deblur_model(b)
                                                            : logistic_model(b);
    if (rc) return -1;
    b->p->theta = vector_of(b, "model.theta", b->job->problem.model.dim_theta);
    b->job->problem.theta0 = b->p->theta;
    return b->p->theta ? 0 : -1;
}

/* ---------------------------------------------------------------------------- objective */

static int build_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x, rows = 0, cols = 0;
    double tau = config_number(b->c, "objective.reward.tau"), alpha = config_number(b->c, "objective.reward.alpha");
    if (is(b, "objective.reward.type", "formula")) {
        char words[256];
        picture_shape shape;
        int pictures = job_picture(b->job, &shape);
        pixels_shape picture = {.clamp = config_number(b->c, "objective.reward.clamp")};
        if (config_has(b->c, "objective.reward.mask") && job_mask(b, &b->p->mask)) return -1;
        if (pictures) {
            picture.channels = shape.channels;
            picture.rows = shape.rows;
            picture.columns = shape.columns;
            picture.mask = b->p->mask;
        }
        b->p->formula = formula_compile_picture(config_text(b->c, "objective.reward.formula"), dim,
                                                pictures ? &picture : NULL, words, sizeof words);
        if (!b->p->formula) return job_wrong(b, "objective.reward.formula", "is not a formula: %s", words);
        *out = formula_score(b->p->formula);
    } else if (schema_has_word("bright|dark|half|mask|network", config_text(b->c, "objective.reward.type"))) {
        return job_picture_reward(b, out);
    } else if (is(b, "objective.reward.type", "half_plane")) {
        b->p->half_plane = (sosmc_half_plane){.dim = dim,
                                              .normal = vector_of(b, "objective.reward.normal", dim),
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
                                  .center = vector_of(b, "objective.reward.center", dim),
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
    if (points_load(path, dim, &b->p->points, rows, b->error, b->room)) return -1;
    *b->io = 0;
    if (points_rescale(b->p->points, *rows, dim, centred, config_number(b->c, "objective.data.scale")) == 0) return 0;
    return job_wrong(b, "objective.data", "has points that are too large to be scaled in double precision");
}

/* The gradient penalty, and the width of a base that is to come from the data. */
static int network_training(builder *b)
{
    double penalty = config_number(b->c, "objective.gradient_penalty"), squares = 0;
    size_t numbers = (size_t)b->p->rows.rows * (size_t)b->job->problem.model.dim_x;
    if (penalty > 0 && (!is_network(b) || model_is_network(&b->p->network)))
        return job_wrong(b, "objective.gradient_penalty",
                         "is %g; only multi-layer perceptrons (model.type: mlp or stored) have one", penalty);
    if (!is_network(b) || model_is_network(&b->p->network)) return 0;
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

static int build_objective(builder *b)
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
    if (is_network(b) && !config_has(b->c, "objective.reference.theta"))
        b->p->theta_ref = b->p->theta;
    else
        b->p->theta_ref = vector_of(b, "objective.reference.theta", b->job->problem.model.dim_theta);
    if (!b->p->theta_ref) return -1;
    if (is(b, "objective.type", "reward_forward")) return forward_objective(b, reward);
    b->job->problem.objective = sosmc_reward_reverse(reward, config_number(b->c, "objective.beta"), b->p->theta_ref);
    return 0;
}

/* ---------------------------------------------------------------------------- initial law */

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
    const double *theta = vector_of(b, "init.theta", 1);
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
    if (base_of(b) > 0) return centred_init(b, base_of(b));
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
    if (!is_network(b) || !is(b, "objective.type", "ebm_likelihood") || !is(b, "scheme.type", "sosmc")) return 0;
    if (is(b, "model.type", "network") && base_of(b) == 0)
        return job_wrong(b, "model.layers",
                         "has no base: the energy of an untrained network is flat, and there is nothing to weigh "
                         "against; expected a clause such as 'base 0.8', or scheme.type pcd");
    if (is(b, "model.type", "mlp") && base_of(b) == 0)
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

static int build_init(builder *b)
{
    if (is(b, "objective.type", "anneal")) return centred_init(b, b->p->tempering.base_sd);
    if (is(b, "init.type", "seen") || (is(b, "model.type", "deblur") && is(b, "init.type", "normal")))
        return job_deblur_init(b);
    if (is(b, "init.type", "normal")) return normal_init(b);
    if (is(b, "init.type", "uniform")) return uniform_init(b);
    if (is(b, "init.type", "base")) return base_init(b);
    if (is(b, "init.type", "file")) return file_init(b);
    if (is(b, "init.type", "laplace")) return laplace_init(b);
    int dim_theta = b->job->problem.model.dim_theta;
    const double *theta = vector_of(b, "init.theta", dim_theta);
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

/* ---------------------------------------------------------------------------- settings */

static int choice(const builder *b, const char *path, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (is(b, path, words[i])) return i;
    return 0;
}
#define CHOICE(b, path, ...)                            \
    choice(b, path, (const char *const[]){__VA_ARGS__}, \
           (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static sosmc_scheme build_scheme(const builder *b)
{
    int n = (int)config_integer(b->c, "particles"), sweeps = (int)config_integer(b->c, "scheme.sweeps");
    sosmc_scheme s;
    if (is(b, "scheme.type", "sosmc"))
        s = sosmc_scheme_sosmc(n);
    else if (is(b, "scheme.type", "impdiff"))
        s = sosmc_scheme_moved_first(n);
    else if (is(b, "scheme.type", "soul"))
        s = sosmc_scheme_soul(sweeps);
    else if (is(b, "scheme.type", "pcd"))
        s = sosmc_scheme_pcd(n, n, sweeps);
    else
        s = sosmc_scheme_unweighted(n);
    if (config_has(b->c, "scheme.order")) s.order = CHOICE(b, "scheme.order", "paper", "authors");
    if (config_has(b->c, "scheme.drift_at")) s.drift_at = CHOICE(b, "scheme.drift_at", "previous", "current");
    if (config_has(b->c, "scheme.sweeps")) s.sweeps = sweeps;
    if (config_has(b->c, "scheme.keep")) s.keep = (int)config_integer(b->c, "scheme.keep");
    if (config_has(b->c, "scheme.pool")) s.pool = (int)config_integer(b->c, "scheme.pool");
    if (config_has(b->c, "scheme.pool_rule")) s.pool_rule = CHOICE(b, "scheme.pool_rule", "in_place", "newest");
    if (config_has(b->c, "scheme.refresh")) s.refresh = config_number(b->c, "scheme.refresh");
    s.ess_min = config_number(b->c, "resampling.threshold");
    s.resampling = CHOICE(b, "resampling.scheme", "multinomial", "stratified", "systematic", "residual", "ssp");
    return s;
}

static sosmc_kernel build_kernel(const builder *b)
{
    double h = config_number(b->c, "kernel.step");
    if (is(b, "kernel.type", "hmc"))
        return sosmc_hmc(h, (int)config_integer(b->c, "kernel.leapfrog"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "leapfrog"))
        return sosmc_leapfrog(h, (int)config_integer(b->c, "kernel.leapfrog"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "underdamped"))
        return sosmc_underdamped(h, config_number(b->c, "kernel.friction"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "myula")) {
        sosmc_kernel k = sosmc_myula(h, config_number(b->c, "kernel.lambda"),
                                     (sosmc_myula_weight)CHOICE(b, "kernel.weight", "invariant", "ratio", "cached"));
        k.noise = config_number(b->c, "kernel.noise");
        return k;
    }
    if (is(b, "kernel.type", "mymala")) {
        sosmc_kernel k = sosmc_mymala(h, config_number(b->c, "kernel.lambda"));
        k.noise = config_number(b->c, "kernel.noise");
        return k;
    }
    if (is(b, "kernel.type", "gibbs")) return sosmc_deblur_gibbs(&b->p->deblur, h);
    if (is(b, "kernel.type", "jitter"))
        return sosmc_jitter(h, config_number(b->c, "kernel.noise"), config_number(b->c, "kernel.clamp"),
                            config_number(b->c, "kernel.gradient_clip"));
    sosmc_kernel k = is(b, "kernel.type", "mala")  ? sosmc_mala(h)
                     : is(b, "kernel.type", "rwm") ? sosmc_rwm(h)
                                                   : sosmc_ula(h);
    if (is(b, "kernel.type", "ula") && config_number(b->c, "kernel.clamp") > 0)
        k = sosmc_ula_clamped(h, config_number(b->c, "kernel.clamp"));
    k.noise = config_number(b->c, "kernel.noise");
    return k;
}

static sosmc_optimiser build_optimiser(const builder *b)
{
    double lr = config_number(b->c, "optimiser.rate"), momentum = config_number(b->c, "optimiser.momentum");
    sosmc_optimiser o;
    switch (CHOICE(b, "optimiser.type", "sgd", "momentum", "nesterov", "rmsprop", "adagrad", "adam", "adamw")) {
    case 0: o = sosmc_sgd(lr); break;
    case 1: o = sosmc_momentum(lr, momentum); break;
    case 2: o = sosmc_nesterov(lr, momentum); break;
    case 3: o = sosmc_rmsprop(lr, config_number(b->c, "optimiser.decay")); break;
    case 4: o = sosmc_adagrad(lr); break;
    case 5: o = sosmc_adam(lr); break;
    default: o = sosmc_adamw(lr, config_number(b->c, "optimiser.weight_decay")); break;
    }
    if (config_has(b->c, "optimiser.beta1")) o.beta1 = config_number(b->c, "optimiser.beta1");
    if (config_has(b->c, "optimiser.beta2")) o.beta2 = config_number(b->c, "optimiser.beta2");
    if (config_has(b->c, "optimiser.eps")) o.eps = config_number(b->c, "optimiser.eps");
    o.clip = config_number(b->c, "optimiser.clip");
    if (config_has(b->c, "optimiser.low") || config_has(b->c, "optimiser.high")) {
        o.low = config_has(b->c, "optimiser.low") ? config_number(b->c, "optimiser.low") : -DBL_MAX;
        o.high = config_has(b->c, "optimiser.high") ? config_number(b->c, "optimiser.high") : DBL_MAX;
    }
    return o;
}

static sosmc_adapt build_rule(const builder *b, int i)
{
    char path[64];
    sosmc_adapt a = {0};
#define RULE(name) (snprintf(path, sizeof path, "adapt.%d." name, i), path)
    a.signal = CHOICE(b, RULE("signal"), "ess", "accept");
    a.target = CHOICE(b, RULE("target"), "step", "rate");
    a.threshold = config_number(b->c, RULE("threshold"));
    a.factor = config_number(b->c, RULE("factor"));
    a.min = config_number(b->c, RULE("min"));
    a.max = config_number(b->c, RULE("max"));
    a.before_move = config_flag(b->c, RULE("before_move"));
#undef RULE
    return a;
}

static void build_settings(builder *b)
{
    sosmc_settings *s = &b->job->settings;
    *s = sosmc_defaults();
    s->scheme = build_scheme(b);
    s->kernel = build_kernel(b);
    s->optimiser = is(b, "objective.type", "anneal") ? sosmc_tempering_path(&b->p->tempering)
                   : is(b, "objective.type", "none") ? sosmc_sgd(0)
                                                     : build_optimiser(b);
    s->schedule.kind = CHOICE(b, "optimiser.schedule.type", "constant", "robbins_monro", "exponential", "cosine",
                              "steps");
    if (config_has(b->c, "optimiser.schedule.a")) s->schedule.a = config_number(b->c, "optimiser.schedule.a");
    if (config_has(b->c, "optimiser.schedule.b")) s->schedule.b = config_number(b->c, "optimiser.schedule.b");
    s->schedule.warmup = config_integer(b->c, "optimiser.schedule.warmup");
    for (int i = 0; i < 2 && i < config_count(b->c, "adapt"); i++) s->adapt[i] = build_rule(b, i);
    s->average = config_number(b->c, "optimiser.average");
    s->average_from = config_integer(b->c, "optimiser.average_from");
    s->seed = config_unsigned(b->c, "seed");
    s->threads = (int)config_integer(b->c, "threads");
    s->on_nonfinite = CHOICE(b, "on_nonfinite", "default", "fail", "drop", "retry", "restart");
    b->job->iterations = config_integer(b->c, "iterations");
}

int job_build(job *out, const config *c, int *io, char *error, size_t room)
{
    *io = 0;
    *out = (job){.parts = calloc(1, sizeof *out->parts)};
    builder b = {.job = out, .c = c, .p = out->parts, .io = io, .error = error, .room = room};
    if (!out->parts) return job_no_memory(&b);
    if (build_model(&b) || build_objective(&b) || build_init(&b) || check_weighted_training(&b)) return -1;
    build_settings(&b);
    return 0;
}

void job_free(job *j)
{
    struct parts *p = j->parts;
    if (!p) return;
    formula_free(p->formula);
    model_free(&p->judge_file);
    free(p->judge_prep);
    images_free(&p->images);
    image_free(&p->seen);
    free(p->pixel_weight);
    free(p->mask);
    free(p->features);
    free(p->labels);
    free(p->mean);
    free(p->factor);
    free(p->points);
    free(p->low);
    free(p->high);
    free(p->started);
    model_free(&p->network);
    free(p);
    j->parts = NULL;
}

const double *job_points(const job *j, int64_t *rows)
{
    int fitted = j->parts && j->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD;
    *rows = fitted ? j->parts->rows.rows : 0;
    return fitted ? j->parts->points : NULL;
}

int job_has_network(const job *j)
{
    return j->parts->network.parameters > 0 && j->parts->network.parameters == j->problem.model.dim_theta;
}

int job_write_model(const job *j, const double *theta, const char *path, char *error, size_t room)
{
    model_file f = j->parts->network;
    size_t bytes = (size_t)f.parameters * sizeof *f.theta;
    f.theta = malloc(bytes + 1);
    if (!f.theta) return files_fail(error, room, "out of memory for the %d parameters of %s", f.parameters, path);
    memcpy(f.theta, theta, bytes);
    int rc = model_write(path, &f, error, room);
    free(f.theta);
    return rc;
}

int job_evidence(const job *j, const sosmc *s, sosmc_evidence *out)
{
    enum { DRAWS = 100000 };
    struct parts *p = j->parts;
    double theta = sosmc_theta(s)[0];
    int rc = -1;
    if (p->hierarchical.dim > 0) {
        sosmc_hierarchical_law law = {.data = &p->hierarchical, .theta = theta};
        rc = sosmc_importance(&j->problem.model, &theta, sosmc_hierarchical_source(&law), DRAWS, j->settings.seed, out);
    }
    if (p->logistic.dim > 0) {
        size_t dim = (size_t)p->logistic.dim;
        double *mode = malloc(dim * sizeof *mode), *factor = calloc(dim * dim, sizeof *factor);
        sosmc_gaussian law = {.dim = p->logistic.dim,
                              .mean = mode,
                              .factor = factor,
                              .widen = 1.2,
                              .share = 0.02,
                              .centre = theta,
                              .variance = p->logistic.variance};
        if (mode && factor && sosmc_logistic_laplace(&p->logistic, theta, mode, factor) == SOSMC_OK)
            rc = sosmc_importance(&j->problem.model, &theta, sosmc_gaussian_source(&law), DRAWS, j->settings.seed, out);
        free(mode);
        free(factor);
    }
    return rc == 0 ? 0 : -1;
}

double job_information(const job *j, const sosmc *s)
{
    double information = NAN;
    int64_t n = sosmc_particles(s);
    if (j->problem.model.dim_theta != 1) return NAN;
    double *x = malloc((size_t)n * (size_t)j->problem.model.dim_x * sizeof *x),
           *logw = malloc((size_t)n * sizeof *logw);
    if (!x || !logw || sosmc_cloud(s, x, logw) != SOSMC_OK ||
        sosmc_louis(&j->problem.model, sosmc_theta(s), n, x, logw, &information) != SOSMC_OK)
        information = NAN;
    free(x);
    free(logw);
    return information;
}
