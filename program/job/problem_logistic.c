/* problem_logistic.c: model.type logistic_regression, labels 0 and 1 of a table and coefficients around theta. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "files/files.h"
#include "problem_inside.h"

/* Which columns are features: those named, or all numeric ones but the label and the split. */
static int choose_features(builder *b, const csv_table *t, int label, int split, int *column)
{
    int count = 0, named = config_count(b->c, "model.features");
    for (int i = 0; i < named; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "model.features.%d", i);
        column[count] = job_column(b, t, path);
        if (column[count++] < 0) return -1;
        if (column[count - 1] == label || column[count - 1] == split)
            return job_wrong(b, path, "names column '%s', which is the %s and so no feature",
                             t->column[column[count - 1]].name, column[count - 1] == label ? "label" : "split");
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

static int logistic_data(builder *b, const csv_table *t, sosmc_logistic *out)
{
    int label = job_column(b, t, "model.label"), split = -1;
    const double *y = NULL;
    if (label < 0 || csv_numbers(t, label, &y, b->error, b->room)) return -1;
    if (config_has(b->c, "model.train.column") && (split = job_column(b, t, "model.train.column")) < 0) return -1;
    int *column = calloc((size_t)t->columns + (size_t)config_count(b->c, "model.features") + 1, sizeof *column);
    if (!column) return job_no_memory(b);
    int dim = choose_features(b, t, label, split, column), rows = 0;
    size_t cells = (size_t)t->rows * (size_t)(dim > 0 ? dim : 1);
    double *features = job_take(b->job, cells * sizeof *features + 1),
           *labels = job_take(b->job, (size_t)t->rows * sizeof *labels + 1);
    int rc = dim < 0 ? -1 : !features || !labels ? job_no_memory(b) : 0;
    for (int64_t r = 0; rc == 0 && r < t->rows; r++) {
        if (y[r] != 0 && y[r] != 1)
            rc = job_wrong(b, "model.label", "names a column with %g in data row %lld of %s; expected 0 or 1", y[r],
                           (long long)r + 1, t->path);
        if (in_training(b, t, split, r)) labels[rows++] = y[r];
    }
    for (int j = 0; rc == 0 && j < dim; j++) {
        double mean = 0, scale = 1;
        rc = standardise(b, t, column[j], &mean, &scale);
        for (int64_t r = 0, kept = 0; rc == 0 && r < t->rows; r++)
            if (in_training(b, t, split, r))
                features[kept++ * dim + j] = (t->column[column[j]].number[r] - mean) / scale;
    }
    if (rc == 0 && rows == 0)
        rc = job_wrong(b, "model.train.value", "is '%s'; no row of %s has it", config_text(b->c, "model.train.value"),
                       t->path);
    *out = (sosmc_logistic){.rows = rows,
                            .dim = dim,
                            .features = features,
                            .labels = labels,
                            .variance = config_number(b->c, "model.prior_variance")};
    free(column);
    return rc;
}

static int logistic_build(builder *b)
{
    csv_table t = {0};
    sosmc_logistic *l = job_take(b->job, sizeof *l);
    if (!l) return job_no_memory(b);
    if (job_read_table(b, "model.data", &t)) return -1;
    int rc = logistic_data(b, &t, l);
    csv_free(&t);
    b->p->model = l;
    if (rc == 0) b->job->problem.model = sosmc_logistic_model(l);
    return rc;
}

/* Around the posterior mode. A bare Laplace law has weights of infinite variance, so it is widened, and a share of the draws
 * comes from the prior, which bounds the weights. */
static sosmc_gaussian laplace_law(const sosmc_logistic *l, double theta, const double *mode, const double *factor,
                                  double share)
{
    return (sosmc_gaussian){.dim = l->dim,
                            .mean = mode,
                            .factor = factor,
                            .widen = 1.2,
                            .share = share,
                            .centre = theta,
                            .variance = l->variance};
}

static int logistic_init(builder *b)
{
    const sosmc_logistic *l = b->p->model;
    double *mode, *factor;
    if (!is(b, "init.type", "laplace")) return JOB_COMMON_INIT;
    const double *theta = job_vector(b, "init.theta", 1);
    if (!theta || job_normal_memory(b, &mode, &factor)) return -1;
    sosmc_status status = sosmc_logistic_laplace(l, *theta, mode, factor);
    if (status == SOSMC_ENOMEM) return job_no_memory(b);
    if (status != SOSMC_OK)
        return job_wrong(b, "model.data", "has no posterior mode that could be found; are the features finite?");
    sosmc_gaussian law = laplace_law(l, *theta, mode, factor, config_number(b->c, "init.share"));
    return job_normal_init(b, &law);
}

static int64_t logistic_observations(const job *j)
{
    const sosmc_logistic *l = j->parts->model;
    return l->rows;
}

const model_kind kind_logistic_regression = {
    .build = logistic_build, .init = logistic_init, .observations = logistic_observations};
