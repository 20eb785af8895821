/* problem_mixture.c: model.type gaussian_mixture, a mixture of normal laws whose weights are the softmax of theta, or theta. */
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
                         .eps = config_number(b->c, "model.eps"),
                         .probabilities = is(b, "model.weights", "probabilities")};
    int sampled = is(b, "objective.type", "none") || is(b, "objective.type", "anneal") ||
                  is(b, "objective.type", "temper");
    if (m->probabilities && !sampled && !is(b, "optimiser.map", "entropy"))
        return job_wrong(b, "model.weights", "probabilities take `optimiser: {type: mirror, map: entropy}`");
    b->p->model = m;
    b->job->problem.model = sosmc_mixture_model(m);
    return 0;
}

static int mixture_law(builder *b, const double *theta, sosmc_source *out)
{
    sosmc_mixture_law *law = job_take(b->job, sizeof *law);
    if (!law) return job_no_memory(b);
    *law = (sosmc_mixture_law){.mixture = b->p->model, .theta = theta};
    if (law->mixture->probabilities) {
        double *logs = job_take(b->job, (size_t)law->mixture->components * sizeof *logs);
        if (!logs) return job_no_memory(b);
        sosmc_log(NULL, law->mixture->components, theta, logs);
        law->theta = logs;
    }
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

static void mixture_theta_name(const job *j, int k, char out[JOB_NAME])
{
    const sosmc_mixture *m = j->parts->model;
    (void)snprintf(out, JOB_NAME, "%s_%d", m->probabilities ? "weight" : "logit", k + 1);
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
