/* problem_model.c: the model of a run file, with the data that belong to it, and where theta starts: the file's `model.theta`,
 * or the weights of a network, stored or drawn. Invariant: after success problem.model and problem.theta0 are set, and
 * what they point to is in `parts`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "problem_inside.h"
#include "schema.h"

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
    *b->io = 1;
    if (csv_read(config_text(b->c, path), NULL, t, b->error, b->room)) return -1;
    if (csv_needs_rows(t, b->error, b->room)) {
        csv_free(t);
        return -1;
    }
    *b->io = 0;
    return 0;
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
    if (t->rows == 1)
        return files_fail(b->error, b->room,
                          "%s has one row, and one value of column '%s' has no spread to be standardised by; expected "
                          "two rows or more, or model.standardise: false",
                          t->path, t->column[column].name);
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

int job_is_network(const builder *b) { return schema_has_word("mlp|network|stored", config_text(b->c, "model.type")); }

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
double job_base_sd(const builder *b)
{
    return model_is_network(&b->p->network) ? b->p->network.network.base_sd : b->p->mlp.base_sd;
}

int job_build_model(builder *b)
{
    if (job_is_network(b)) return network_model(b);
    int rc = is(b, "model.type", "gaussian_mixture")        ? mixture_model(b)
             : is(b, "model.type", "hierarchical_gaussian") ? hierarchical_model(b)
             : is(b, "model.type", "deblur")                ? job_deblur_model(b)
                                                            : logistic_model(b);
    if (rc) return -1;
    b->p->theta = job_vector(b, "model.theta", b->job->problem.model.dim_theta);
    b->job->problem.theta0 = b->p->theta;
    return b->p->theta ? 0 : -1;
}
