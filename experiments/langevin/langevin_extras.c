/* langevin_extras.c: the rest of the Langevin page, part by part: the single-run illustration, the claims of the section with
 * verdicts, and three questions beyond the paper. Here are the runs that all parts are made of.
 *
 * Runs whose time is measured are made one at a time; all others in parallel. Every verdict is worked out from the
 * numbers beside it. */
#include "langevin_extras.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "files/files.h"
#include "terminal/interrupt.h"
#include "langevin_extras_inside.h"

const char *const langevin_kernel_names[KERNELS] = {"SOSMC-RWM", "SOSMC-MALA"};

int langevin_iterations(const extras *e, int setting)
{
    return (int)(e->scale * langevin_settings()[setting].iterations);
}

/* ---------------------------------------------------------------------------- text */

summary langevin_summarise(const double *v, int n)
{
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += v[i] / n;
    for (int i = 0; i < n; i++) square += (v[i] - mean) * (v[i] - mean);
    return (summary){.mean = mean, .half = n > 1 ? 1.96 * sqrt(square / (n - 1) / n) : 0};
}

/* ---------------------------------------------------------------------------- one run with everything we look at */

/* What the cloud looks like at the end: x has n rows of dim, logw n numbers. */
static void look_at(task *t, int n, int dim, double *x, const double *logw)
{
    double right = 0, sum = 0;
    for (int i = 0; i < n; i++)
        if (x[(size_t)i * (size_t)dim] > 0) right += exp(logw[i]);
    t->end.right = right;
    for (int i = 0, j = 0; t->sample && dim == PLANE && i < n; i++) {
        sum += exp(logw[i]);
        for (; j < CLOUD && (j + 0.5) / CLOUD < sum; j++)
            memcpy(&t->sample[PLANE * j], &x[PLANE * i], PLANE * sizeof *x);
    }
    for (int i = 0; i < n; i++)
        x[i] = x[(size_t)i * (size_t)dim]; /* copies agree in the first coordinate, others never */
    qsort(x, (size_t)n, sizeof *x, experiment_ascending);
    int different = 1;
    for (int i = 1; i < n; i++) different += x[i] != x[i - 1];
    t->end.distinct = (double)different / n;
}

static int run_task(void *context, int job, char *error, size_t room)
{
    task *t = &((task *)context)[job];
    sosmc_mixture_law law = {.mixture = &t->mixture, .theta = t->theta_ref};
    sosmc_source reference = sosmc_mixture_source(&law);
    reference.exact = 1;
    sosmc_problem p = {.model = sosmc_mixture_model(&t->mixture),
                       .objective = sosmc_reward_forward(t->reward, 0, reference, 1, t->theta_ref),
                       .init = reference,
                       .theta0 = t->theta_ref};
    sosmc_settings cfg = experiment_defaults();
    cfg.scheme = t->scheme;
    cfg.kernel = t->kernel;
    memcpy(cfg.adapt, t->adapt, sizeof cfg.adapt);
    cfg.optimiser = t->optimiser;
    cfg.seed = t->seed;
    cfg.threads = 1;
    sosmc *s = NULL;
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    t->end.reached = -1;
    for (int k = 0; status == SOSMC_OK && k < t->iterations && !interrupt_requested(); k++) {
        status = sosmc_step(s);
        if (status != SOSMC_OK) break;
        const sosmc_info *info = sosmc_last(s);
        t->end.reward = info->mean_score;
        t->end.step = info->h;
        t->end.acceptance = info->accept;
        if (t->end.reached < 0 && info->mean_score >= 0.99 * t->optimum) t->end.reached = k + 1;
    }
    int rc = status == SOSMC_OK ? 0 : files_fail(error, room, "%s", sosmc_message(s));
    if (rc == 0) {
        int n = sosmc_particles(s), dim = t->mixture.dim;
        double *x = malloc((size_t)n * ((size_t)dim + 1) * sizeof *x), *logw = x ? x + (size_t)n * (size_t)dim : NULL;
        langevin_softmax(t->mixture.components, sosmc_theta(s), t->end.weight);
        if (!x || sosmc_cloud(s, x, logw) != SOSMC_OK)
            rc = files_fail(error, room, "out of memory");
        else
            look_at(t, n, dim, x, logw);
        free(x);
    }
    sosmc_free(s);
    return rc;
}

int langevin_run_tasks(const extras *e, task *t, int n)
{
    const grid tasks = {.cells = n, .run = run_task, .context = t};
    return experiment_grid(&tasks, e->threads, e->o->quiet, e->error, e->room) ? -1 : 0;
}

task langevin_published(const extras *e, const langevin_setting *s, sosmc_kernel kernel, int iterations, int seed)
{
    task t = {.mixture = s->mixture,
              .theta_ref = s->theta_ref,
              .reward = sosmc_gate_reward(&s->reward),
              .scheme = langevin_scheme(e->particles),
              .kernel = kernel,
              .optimiser = sosmc_adam(0.1),
              .iterations = iterations,
              .seed = (uint64_t)seed};
    double r[MODES];
    langevin_component_rewards(s, r);
    for (int i = 0; i < s->mixture.components; i++) t.optimum = fmax(t.optimum, r[i]);
    langevin_adapt(SOSMC_ULA, 0, t.adapt); /* the same for MALA and RWM */
    return t;
}

/* ---------------------------------------------------------------------------- the parts */

int langevin_extras(const reproduce_options *o, int particles, int seeds, int threads, page *page, const char *figures,
                    char *error, size_t room)
{
    extras e = {.o = o,
                .particles = particles,
                .seeds = seeds,
                .threads = threads,
                .scale = o->quick ? 0.2 : 1,
                .page = page,
                .figures = figures,
                .error = error,
                .room = room};
    int (*const part[])(const extras *) = {langevin_single_run, langevin_claims, langevin_several_peaks,
                                           langevin_initial_step, langevin_feedback};
    enum { FIRST_BEYOND = 2, PARTS = sizeof part / sizeof *part };
    for (int i = 0; i < PARTS; i++) {
        if (i == FIRST_BEYOND) page_heading(page, "Beyond the paper");
        if (interrupt_requested()) return files_fail(error, room, "interrupted");
        if (part[i](&e)) return -1;
    }
    return 0;
}
