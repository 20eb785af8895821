/* langevin_parts.c: the rest of the Langevin page, part by part: the single-run illustration and the claims of the section with
 * verdicts. Here are the runs that the parts are made of.
 *
 * Runs whose time is measured are made one at a time; all others in parallel. Every verdict is worked out from the
 * numbers beside it. */
#include "langevin_parts.h"

#include <math.h>
#include <stdlib.h>

#include "common/experiment.h"
#include "files/files.h"
#include "terminal/interrupt.h"
#include "langevin_parts_inside.h"

int langevin_iterations(const parts *e, int setting) { return (int)(e->scale * e->setting[setting].iterations); }

/* ---------------------------------------------------------------------------- text */

summary langevin_summarise(const double *v, int n)
{
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += v[i] / n;
    for (int i = 0; i < n; i++) square += (v[i] - mean) * (v[i] - mean);
    return (summary){.mean = mean, .half = n > 1 ? 1.96 * sqrt(square / (n - 1) / n) : 0};
}

/* ---------------------------------------------------------------------------- sets of runs */

double langevin_best_component(const langevin_setting *s)
{
    double r[MODES], best = 0;
    langevin_component_rewards(s, r);
    for (int i = 0; i < s->mixture.components; i++) best = fmax(best, r[i]);
    return best;
}

task *langevin_tasks(const parts *e, int n)
{
    task *t = calloc((size_t)n, sizeof *t);
    if (!t) (void)files_fail(e->error, e->room, "out of memory");
    return t;
}

static int run_task(void *context, int job, char *error, size_t room)
{
    task *t = &((task *)context)[job];
    return langevin_execute(&t->run, t->optimum, &t->end, error, room);
}

int langevin_run_tasks(const parts *e, task *t, int n)
{
    const grid tasks = {.cells = n, .run = run_task, .context = t};
    return experiment_grid(&tasks, e->threads, e->o->quiet, e->error, e->room) ? -1 : 0;
}

task langevin_published(const parts *e, int setting, langevin_method method, int iterations, int seed)
{
    const langevin_setting *s = &e->setting[setting];
    return (task){.run = {.setting = s,
                          .method = method,
                          .adam = 1,
                          .particles = e->particles,
                          .reference = 1,
                          .iterations = iterations,
                          .threads = 1,
                          .seed = (uint64_t)seed},
                  .optimum = langevin_best_component(s)};
}

/* ---------------------------------------------------------------------------- the parts */

int langevin_parts(const reproduce_options *o, const langevin_setting *settings, int particles, int seeds, int threads,
                   const experiment_page *x)
{
    parts e = {.o = o,
               .setting = settings,
               .particles = particles,
               .seeds = seeds,
               .threads = threads,
               .scale = o->quick ? 0.2 : 1,
               .x = x,
               .page = x->page,
               .error = x->error,
               .room = x->room};
    if (langevin_single_run(&e)) return -1;
    if (interrupt_requested()) return files_fail(x->error, x->room, "interrupted");
    return langevin_claims(&e);
}
