/* ending.c: a step that takes more than a second can be ended before it is done.
 *
 * The model that the solver calls is the user's behind a look at the clock. When options.seconds have passed, or options.stop is non-zero,
 * all its callbacks fail, and the step is taken back as behind a callback that failed. Only the thread that steps looks. */
#include <time.h>

#include "solve_inside.h"

static const double UNASKED = 1;    /* seconds of a step in which nothing is asked: short steps are not lost */
static const double BETWEEN = 0.05; /* seconds between two questions */
enum { CALLS = 8 };                 /* of a fast model between two looks at the clock */

double sosmc_i_seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int is_over(step_end *e)
{
    if (atomic_load_explicit(&e->ended, memory_order_relaxed)) return 1;
    if (!e->active || !pthread_equal(pthread_self(), e->thread) || e->calls-- > 0) return 0;
    double now = sosmc_i_seconds_now();
    e->calls = now - e->looked < BETWEEN ? CALLS : 0;
    e->looked = now;
    const sosmc_solve_options *o = &e->solver->o;
    if (now - e->begun < UNASKED || now - e->asked < BETWEEN) return 0;
    e->asked = now;
    int over = (o->seconds > 0 && e->spent + now - e->begun >= o->seconds) || (o->stop && o->stop(o->stop_ctx));
    if (over) atomic_store(&e->ended, 1);
    return over;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    step_end *e = (step_end *)self;
    return is_over(e) ? -1 : e->model.energy(e->model.self, theta, b, U, gx);
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    step_end *e = (step_end *)self;
    return is_over(e) ? -1 : e->model.grad_theta(e->model.self, theta, b, c, g);
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    step_end *e = (step_end *)self;
    return is_over(e) ? -1 : e->model.scores(e->model.self, theta, b, D);
}

static int prepare(const void *self, const double *theta, void *prep)
{
    const step_end *e = self;
    return e->model.prepare(e->model.self, theta, prep);
}

void sosmc_i_ending_open(sosmc_solver *s)
{
    sosmc_model *m = &s->problem.model;
    s->end.model = *m;
    s->end.solver = s;
    m->self = &s->end;
    m->energy = energy;
    m->grad_theta = grad_theta;
    if (m->scores) m->scores = scores;
    if (m->prepare) m->prepare = prepare;
}

void sosmc_i_ending_begin(sosmc_solver *s)
{
    s->end.thread = pthread_self();
    s->end.begun = sosmc_i_seconds_now();
    s->end.spent = s->v.seconds;
    s->end.asked = s->end.looked = 0;
    s->end.calls = 0;
    s->end.active = 1;
}

int sosmc_i_ending_close(sosmc_solver *s)
{
    s->end.active = 0;
    return atomic_exchange(&s->end.ended, 0);
}
