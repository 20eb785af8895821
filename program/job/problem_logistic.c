/* problem_logistic.c: model.type logistic_regression, labels 0 and 1 of a table and coefficients around theta. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "problem_inside.h"

/* Whether model.exclude names the column; -1: it names one that there is not. */
static int is_excluded(builder *b, const csv_table *t, int column)
{
    int named = config_count(b->c, "model.exclude"), found = 0;
    for (int i = 0; i < named; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "model.exclude.%d", i);
        int one = job_column(b, t, path);
        if (one < 0) return -1;
        found |= one == column;
    }
    return found;
}

static int add_feature(builder *b, const csv_table *t, const char *path, const int roles[2], int *column, int count)
{
    int one = job_column(b, t, path);
    if (one < 0) return -1;
    if (one == roles[0] || one == roles[1])
        return job_wrong(b, path, "names column '%s', which is the %s and so no feature", t->column[one].name,
                         one == roles[0] ? "label" : "split");
    for (int i = 0; i < count; i++)
        if (column[i] == one)
            return job_wrong(b, path, "names column '%s', which is a feature already", t->column[one].name);
    int excluded = is_excluded(b, t, one);
    if (excluded > 0)
        return job_wrong(b, path, "names column '%s', which model.exclude leaves out", t->column[one].name);
    column[count] = one;
    return excluded;
}

/* A column that nobody named may be no feature at all. */
static int check_unasked(builder *b, const csv_table *t, int column)
{
    const char *name = t->column[column].name;
    job_identifier how = job_looks_like_identifier(t, column);
    if (t->column[column].odd) {
        const double *ignored;
        char why[512];
        (void)csv_numbers(t, column, &ignored, why, sizeof why);
        if (csv_has_comma(&t->column[column])) return files_fail(b->error, b->room, "%s", why);
        return files_fail(
            b->error, b->room,
            "%s; leave the column out with model.exclude: ['%s'], or name the features with model.features", why, name);
    }
    if (how == JOB_IDENTIFIER)
        return files_fail(
            b->error, b->room,
            "%s: column '%s' counts or names the rows, as an identifier does, and would be a feature; leave it "
            "out with model.exclude: ['%s'], or name it in model.features if it is one",
            t->path, name, name);
    if (how == JOB_PERHAPS_IDENTIFIER)
        job_note(
            b,
            "column '%.60s' of %.300s has a different whole number in every row; if it is an identifier, leave it out "
            "with model.exclude",
            name, files_last_part(t->path));
    return 0;
}

typedef struct {
    const char *name;
    int column;
} column_name;

static int compare_names(const void *a, const void *b)
{
    const column_name *one = a, *other = b;
    int order = strcmp(one->name, other->name);
    return order ? order : one->column - other->column;
}

/* Features of the same name, by sorting: a table may have thousands. */
static int note_twins(builder *b, const csv_table *t, const int *column, int count)
{
    column_name *all = malloc((size_t)count * sizeof *all + 1);
    if (!all) return job_no_memory(b);
    for (int i = 0; i < count; i++) all[i] = (column_name){t->column[column[i]].name, column[i]};
    qsort(all, (size_t)count, sizeof *all, compare_names);
    for (int i = 1; i < count; i++)
        if (strcmp(all[i - 1].name, all[i].name) == 0)
            job_note(b, "columns %d and %d of %.300s are both called '%.60s', and both are features",
                     all[i - 1].column + 1, all[i].column + 1, files_last_part(t->path), all[i].name);
    free(all);
    return 0;
}

/* Which columns are features: those named, or all but the label, the split and the excluded ones. */
static int choose_features(builder *b, const csv_table *t, const int roles[2], int *column)
{
    int count = 0, named = config_count(b->c, "model.features");
    for (int i = 0; i < named; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "model.features.%d", i);
        if (add_feature(b, t, path, roles, column, count++)) return -1;
    }
    for (int i = 0; named == 0 && i < t->columns; i++) {
        int out = i == roles[0] || i == roles[1] ? 1 : is_excluded(b, t, i);
        if (out < 0 || (!out && check_unasked(b, t, i))) return -1;
        if (!out) column[count++] = i;
    }
    if (named == 0 && note_twins(b, t, column, count)) return -1;
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
    return split < 0 || job_holds(&t->column[split], row, config_text(b->c, "model.train.value"));
}

/* The label, the split (-1: there is none) and the features; returns how many features there are. */
static int find_columns(builder *b, const csv_table *t, int roles[2], int *column)
{
    roles[0] = job_column(b, t, "model.label");
    roles[1] = -1;
    if (roles[0] < 0) return -1;
    if (config_has(b->c, "model.train.column") && (roles[1] = job_column(b, t, "model.train.column")) < 0) return -1;
    return choose_features(b, t, roles, column);
}

/* Fills the rows that are trained on; returns how many, or -1. `labels` has room for all rows. */
static int fill_rows(builder *b, const csv_table *t, const int roles[2], const int *column, int dim, double *features,
                     double *labels)
{
    int rows = 0;
    if (job_labels(b, t, roles[0], labels)) return -1;
    for (int j = 0; j < dim; j++) {
        double mean = 0, scale = 1;
        if (standardise(b, t, column[j], &mean, &scale)) return -1;
        for (int64_t r = 0, kept = 0; r < t->rows; r++)
            if (in_training(b, t, roles[1], r))
                features[kept++ * dim + j] = (t->column[column[j]].number[r] - mean) / scale;
    }
    for (int64_t r = 0; r < t->rows; r++)
        if (in_training(b, t, roles[1], r)) labels[rows++] = labels[r];
    if (rows > 0) return rows;
    return job_wrong(b, "model.train.value", "is '%s'; no row of %s has it", config_text(b->c, "model.train.value"),
                     t->path);
}

static int logistic_data(builder *b, csv_table *t, sosmc_logistic *out)
{
    int roles[2],
        *column = calloc((size_t)t->columns + (size_t)config_count(b->c, "model.features") + 2, sizeof *column);
    if (!column) return job_no_memory(b);
    int dim = find_columns(b, t, roles, column), rows = -1;
    if (dim > 0) column[dim] = roles[0];
    if (dim > 0 && job_settle_missing(b, t, column, dim + 1, "model.missing") == 0) {
        double *features = job_take(b->job, (size_t)t->rows * (size_t)dim * sizeof *features + 1),
               *labels = job_take(b->job, (size_t)t->rows * sizeof *labels + 1);
        rows = features && labels ? fill_rows(b, t, roles, column, dim, features, labels) : job_no_memory(b);
        *out = (sosmc_logistic){.rows = rows,
                                .dim = dim,
                                .features = features,
                                .labels = labels,
                                .variance = config_number(b->c, "model.prior_variance")};
    }
    free(column);
    return rows > 0 ? 0 : -1;
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
