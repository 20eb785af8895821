/* problem_own.c: the values `own` of a run file: model, reward, points and initial law of the program that holds it, which lends them
 * by config_lend. The file alone does not have them, so a program that only reads it is told so. */
#include <stdio.h>

#include "problem_inside.h"

/* What is lent; NULL, with a sentence in b->error: nothing is. */
static const job_own *lent(const builder *b, const char *path)
{
    const job_own *own = config_lent(b->c);
    if (!own)
        (void)job_wrong(
            b, path, "is own: it belongs to another program that made this run file, and only that program can run it");
    return own;
}

static int missing(const builder *b, const char *path, const char *what)
{
    return job_wrong(b, path, "is own, but the program that holds this run file has no %s for it", what);
}

static int same_dim(const builder *b, const char *path, int theirs)
{
    long long said = config_integer(b->c, path);
    return said == theirs ? 0 : job_wrong(b, path, "is %lld; the model of this program has %d", said, theirs);
}

static int own_build(builder *b)
{
    const job_own *own = lent(b, "model.type");
    if (!own) return -1;
    if (!own->model || !own->theta0) return missing(b, "model.type", "model and start");
    (void)config_text(b->c, "model.name"); /* what tells results reads it */
    if (same_dim(b, "model.dim_x", own->model->dim_x) || same_dim(b, "model.dim_theta", own->model->dim_theta))
        return -1;
    b->job->problem.model = *own->model;
    b->job->problem.theta0 = own->theta0;
    b->p->model = (job_own *)(uintptr_t)own;
    return 0;
}

static int own_law(builder *b, const double *theta, sosmc_source *out)
{
    const job_own *own = b->p->model;
    (void)theta;
    if (!own->reference)
        return job_wrong(
            b, "objective.type",
            "is reward_forward, which needs draws of the reference; expected them from the program that holds "
            "this run file, or objective.reference.file");
    *out = *own->reference;
    return 0;
}

static void own_name(const job *j, int k, char out[JOB_NAME])
{
    const job_own *own = j->parts->model;
    if (own->names)
        (void)snprintf(out, JOB_NAME, "%s", own->names[k]);
    else if (j->problem.model.dim_theta == 1)
        (void)snprintf(out, JOB_NAME, "theta");
    else
        (void)snprintf(out, JOB_NAME, "theta_%d", k + 1);
}

static int64_t own_observations(const job *j)
{
    const job_own *own = j->parts->model;
    return own->observations;
}

const model_kind kind_own = {
    .build = own_build, .exact_law = own_law, .theta_name = own_name, .observations = own_observations};

/* ---------------------------------------------------------------------------- with any model */

int job_own_reward(builder *b, sosmc_score *out)
{
    const job_own *own = lent(b, "objective.reward.type");
    if (!own) return -1;
    if (!own->reward) return missing(b, "objective.reward.type", "reward");
    *out = *own->reward;
    return 0;
}

int job_own_init(builder *b)
{
    const job_own *own = lent(b, "init.type");
    if (!own) return -1;
    if (!own->init) return missing(b, "init.type", "initial law");
    b->job->problem.init = *own->init;
    return 0;
}

int job_own_points(builder *b, int64_t *rows)
{
    const job_own *own = lent(b, "objective.data.type");
    if (!own) return -1;
    if (!own->points || own->rows < 1) return missing(b, "objective.data.type", "points");
    b->p->points = b->p->rows.data = own->points;
    *rows = own->rows;
    return 0;
}
