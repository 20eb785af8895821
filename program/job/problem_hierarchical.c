/* problem_hierarchical.c: model.type hierarchical_gaussian, observations around latent means around theta. */
#include "files/files.h"
#include "problem_inside.h"

/* The first column is taken where none is named; it may count the rows. */
static int check_unnamed(const builder *b, const csv_table *t, int column)
{
    if (config_column(b->c, "model.column") != 1 || t->columns < 2) return 0;
    if (job_looks_like_identifier(t, column) != JOB_IDENTIFIER) return 0;
    return job_wrong(
        b, "model.column",
        "is 1, the column '%s' of %s, which counts or names the rows as an identifier does; expected the name "
        "of the column with the observations, such as '%s'",
        t->column[0].name, t->path, t->column[1].name);
}

static int hierarchical_data(builder *b, csv_table *t, sosmc_hierarchical *out)
{
    const double *y = NULL;
    int column = job_column(b, t, "model.column");
    if (column < 0 || check_unnamed(b, t, column)) return -1;
    if (!t->column[column].odd && job_settle_missing(b, t, &column, 1, "model.missing")) return -1;
    if (csv_numbers(t, column, &y, b->error, b->room)) return -1;
    double *kept = job_take(b->job, (size_t)t->rows * sizeof *kept + 1);
    if (!kept) return job_no_memory(b);
    memcpy(kept, y, (size_t)t->rows * sizeof *kept);
    *out = (sosmc_hierarchical){.dim = (int)t->rows, .y = kept};
    return 0;
}

static int hierarchical_build(builder *b)
{
    int n = 0;
    sosmc_hierarchical *h = job_take(b->job, sizeof *h);
    if (!h) return job_no_memory(b);
    if (config_has(b->c, "model.y")) {
        const double *y = config_vector(b->c, "model.y", &n);
        *h = (sosmc_hierarchical){.dim = n, .y = y};
    } else {
        csv_table t = {0};
        if (!config_has(b->c, "model.data"))
            return job_wrong(b, "model", "has neither y nor data; expected one of them");
        if (job_read_table(b, "model.data", &t)) return -1;
        int rc = hierarchical_data(b, &t, h);
        csv_free(&t);
        if (rc) return -1;
    }
    b->p->model = h;
    b->job->problem.model = sosmc_hierarchical_model(h);
    return 0;
}

static int hierarchical_init(builder *b)
{
    if (!is(b, "init.type", "model")) return JOB_COMMON_INIT;
    const double *theta = job_vector(b, "init.theta", b->job->problem.model.dim_theta);
    if (!theta) return -1;
    sosmc_hierarchical_law *law = job_take(b->job, sizeof *law);
    if (!law) return job_no_memory(b);
    *law = (sosmc_hierarchical_law){.data = b->p->model, .theta = *theta};
    b->job->problem.init = sosmc_hierarchical_source(law);
    return 0;
}

static int64_t hierarchical_observations(const job *j)
{
    const sosmc_hierarchical *h = j->parts->model;
    return h->dim;
}

static double hierarchical_log_z(const job *j, const double *theta)
{
    return sosmc_hierarchical_loglik(j->parts->model, *theta);
}

const model_kind kind_hierarchical_gaussian = {.build = hierarchical_build,
                                               .init = hierarchical_init,
                                               .observations = hierarchical_observations,
                                               .log_z = hierarchical_log_z};
