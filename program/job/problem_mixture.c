/* problem_mixture.c: model.type gaussian_mixture, a mixture of normal laws whose weights are the softmax of theta. */
#include <math.h>
#include <stdio.h>

#include "problem_inside.h"

static int mixture_build(builder *b)
{
    int rows = 0, cols = 0;
    const double *means = config_matrix(b->c, "model.means", &rows, &cols);
    sosmc_mixture *m = job_take(b->job, sizeof *m);
    if (!m) return job_no_memory(b);
    *m = (sosmc_mixture){.dim = cols,
                         .components = rows,
                         .means = means,
                         .variance = config_number(b->c, "model.variance"),
                         .eps = config_number(b->c, "model.eps")};
    b->p->model = m;
    b->job->problem.model = sosmc_mixture_model(m);
    return 0;
}

static int mixture_law(builder *b, const double *theta, sosmc_source *out)
{
    sosmc_mixture_law *law = job_take(b->job, sizeof *law);
    if (!law) return job_no_memory(b);
    *law = (sosmc_mixture_law){.mixture = b->p->model, .theta = theta};
    *out = sosmc_mixture_source(law);
    return 0;
}

static int mixture_init(builder *b)
{
    int dim_theta = b->job->problem.model.dim_theta;
    if (!is(b, "init.type", "model")) return JOB_COMMON_INIT;
    const double *theta = job_vector(b, "init.theta", dim_theta);
    if (!theta || mixture_law(b, theta, &b->job->problem.init)) return -1;
    /* particles drawn at the theta where the run starts have weights 1 (eps neglected, as the experiment does) */
    b->job->problem.init.exact = memcmp(theta, b->p->theta, (size_t)dim_theta * sizeof(double)) == 0;
    return 0;
}

/* theta are logits: the weights of the components are their softmax. */
static void mixture_theta_name(const job *j, int k, char out[JOB_NAME])
{
    (void)j;
    (void)snprintf(out, JOB_NAME, "logit_%d", k + 1);
}

static double mixture_log_z(const job *j, const double *theta)
{
    const sosmc_mixture *m = j->parts->model;
    (void)theta;
    return m->eps == 0 ? sosmc_mixture_logz(m) : NAN;
}

const model_kind kind_gaussian_mixture = {.build = mixture_build,
                                          .init = mixture_init,
                                          .exact_law = mixture_law,
                                          .theta_name = mixture_theta_name,
                                          .log_z = mixture_log_z};
