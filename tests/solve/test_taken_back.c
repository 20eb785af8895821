/* test_taken_back.c: a callback that returns non-zero stops a step of the solver, which is then where it was before the step, to the
 * bit, and goes on from there as if nothing had happened; also after it was saved and loaded in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sosmc/solve.h>

#include "assertions.h"
#include "exact_problems.h"
#include "memory_stream.h"

enum { PARTICLES = 128, MOST_STEPS = 4000 };

/* ---------------------------------------------------------------------------- callbacks that fail */

typedef enum { ENERGY, GRAD, SCORES, PREPARE, DRAW, REWARD, CALLBACKS } callback;
static struct {
    sosmc_model model;
    sosmc_score score;
    sosmc_source data;
    atomic_llong calls[CALLBACKS];
    callback which;
    long long at; /* the call that fails, counted from 1; 0: none */
} inner;

static atomic_int slow, asked; /* energy takes 150 ms; the caller was asked whether the step should end */

static int trip(callback which)
{
    if (which == ENERGY && atomic_load(&slow)) (void)nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    long long call = atomic_fetch_add(&inner.calls[which], 1) + 1;
    return which == inner.which && call == inner.at ? 7 : 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = trip(ENERGY);
    return rc ? rc : inner.model.energy(self, theta, b, U, gx);
}
static int grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    int rc = trip(GRAD);
    return rc ? rc : inner.model.grad_theta(self, theta, b, c, g);
}
static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    int rc = trip(SCORES);
    return rc ? rc : inner.model.scores(self, theta, b, D);
}
static int prepare(const void *self, const double *theta, void *prep)
{
    int rc = trip(PREPARE);
    return rc ? rc : inner.model.prepare(self, theta, prep);
}
static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    int rc = trip(DRAW);
    return rc ? rc : inner.data.draw(self, rng, b, x);
}
static int reward(const void *self, const sosmc_batch *b, double *s)
{
    int rc = trip(REWARD);
    return rc ? rc : inner.score.eval(self, b, s);
}

static void wrap(sosmc_problem *p)
{
    inner.model = p->model;
    inner.score = p->objective.score;
    inner.data = p->objective.data;
    p->model.energy = energy;
    p->model.grad_theta = grad;
    if (p->model.scores) p->model.scores = scores;
    if (p->model.prepare) p->model.prepare = prepare;
    if (p->objective.data.draw) p->objective.data.draw = draw;
    if (p->objective.score.eval) p->objective.score.eval = reward;
}

/* ---------------------------------------------------------------------------- going on */

static uint64_t hashes[MOST_STEPS];

static sosmc_solver *create(const sosmc_problem *p, int threads)
{
    sosmc_solver *s;
    sosmc_solve_options o = {.particles = PARTICLES, .seed = 5, .threads = threads};
    for (int c = 0; c < CALLBACKS; c++) atomic_store(&inner.calls[c], 0);
    long long at = inner.at;
    inner.at = 0; /* creation is not a step */
    assert_int_equal(sosmc_solver_create(&s, p, &o), SOSMC_OK);
    inner.at = at;
    for (int c = 0; c < CALLBACKS; c++) atomic_store(&inner.calls[c], 0);
    return s;
}

static int done(const sosmc_solver *s) { return sosmc_solver_info(s)->phase == SOSMC_PHASE_DONE; }

/* The state after every step, and how many there are. */
static int write_down(const sosmc_problem *p)
{
    int n = 0;
    inner.at = 0;
    sosmc_solver *s = create(p, 1);
    for (; !done(s) && n < MOST_STEPS; n++) {
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        hashes[n] = sosmc_solver_hash(s);
    }
    assert_true(done(s));
    sosmc_solver_free(s);
    return n;
}

/* The step that was stopped left nothing behind. Now and then another solver goes on from what this one saves. */
static sosmc_solver *look_after_failure(const sosmc_problem *p, sosmc_solver *s, int step, int threads, int elsewhere)
{
    static memory stream;
    assert_contains(sosmc_solver_message(s), " failed");
    assert_int_equal(sosmc_solver_info(s)->step, step);
    if (step > 0) assert_int_equal(sosmc_solver_hash(s), hashes[step - 1]);
    sosmc_solution r;
    assert_int_equal(sosmc_solver_solution(s, &r), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_RUN_FAILED);
    sosmc_solution_free(&r);
    if (!elsewhere) return s;
    stream.used = stream.at = 0;
    assert_int_equal(sosmc_solver_save(s, memory_put, &stream), SOSMC_OK);
    sosmc_solver_free(s);
    inner.at = 0;
    s = create(p, threads);
    assert_int_equal(sosmc_solver_load(s, memory_get, &stream), SOSMC_OK);
    return s;
}

/* Returns whether the call was reached. */
static int go_on_after_failure(const sosmc_problem *p, int steps, callback which, long long at, int threads)
{
    enum { BEHIND = 12 };
    int stopped = 0, last = steps;
    inner.which = which;
    inner.at = at;
    sosmc_solver *s = create(p, threads);
    for (int k = 0; k < last; k++) {
        sosmc_status status = sosmc_solver_step(s);
        while (status == SOSMC_EMODEL && stopped < 2) {
            s = look_after_failure(p, s, k, threads, stopped == 0 && at % 3 == 0);
            if (k + BEHIND < last) last = k + BEHIND; /* the states behind it are those of every other run */
            if (stopped++ == 0) inner.at = atomic_load(&inner.calls[which]) + 1; /* also when it is tried again */
            status = sosmc_solver_step(s);
        }
        assert_int_equal(status, SOSMC_OK);
        assert_int_equal(sosmc_solver_hash(s), hashes[k]);
    }
    sosmc_solver_free(s);
    return stopped > 0;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SPARSE = 40 };
#else
enum { SPARSE = 5 };
#endif

/* Calls from the first to the last, ever further apart. */
static void a_stopped_step_is_taken_back(void **state)
{
    static const char *const names[] = {"forward1", "energy", "hier20"};
    int stopped = 0, tripped[CALLBACKS] = {0};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        exact_problem e;
        assert_int_equal(exact_open(&e, names[k], NULL), 0);
        e.problem.init = (sosmc_source){.draw = NULL};
        wrap(&e.problem);
        int steps = write_down(&e.problem);
        for (int c = 0; c < CALLBACKS; c++)
            for (long long at = 1;; at += 1 + at / 2 * SPARSE / 5) {
                if (!go_on_after_failure(&e.problem, steps, (callback)c, at, 1 + (int)(at % 2))) break;
                tripped[c]++;
                stopped++;
            }
        exact_close(&e);
    }
    print_message("%d steps were stopped and taken back\n", stopped);
    assert_true(tripped[ENERGY] > 10 && tripped[GRAD] > 0 && tripped[REWARD] > 0);
}

static int says_stop(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&asked, 1);
    return atomic_load(&slow);
}

static void step_to(sosmc_solver *s, int first, int last)
{
    for (int k = first; k < last; k++) {
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        assert_int_equal(sosmc_solver_hash(s), hashes[k]);
    }
}

static void is_where_it_was(const sosmc_solver *s, int step, double begun)
{
    sosmc_solution r;
    assert_true(sosmc_solver_info(s)->seconds - begun < 8);
    assert_int_equal(sosmc_solver_info(s)->step, step);
    assert_int_equal(sosmc_solver_hash(s), hashes[step - 1]);
    assert_int_equal(sosmc_solver_solution(s, &r), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
    sosmc_solution_free(&r);
}

/* A step that would take minutes is ended by its caller, and by its time; the same solver goes on with the same bits. */
static void a_long_step_is_ended(void **state)
{
    enum { AT = 3, LATER = 6, ENOUGH = 12 };
    exact_problem e;
    assert_int_equal(exact_open(&e, "hier20", NULL), 0);
    e.problem.init = (sosmc_source){.draw = NULL};
    wrap(&e.problem);
    assert_true(write_down(&e.problem) > ENOUGH);
    for (int threads = 1; threads <= 2; threads++) {
        sosmc_solver *s;
        sosmc_solve_options o = {.particles = PARTICLES, .seed = 5, .threads = threads, .stop = says_stop};
        assert_int_equal(sosmc_solver_create(&s, &e.problem, &o), SOSMC_OK);
        atomic_store(&asked, 0);
        step_to(s, 0, AT);
        assert_int_equal(atomic_load(&asked), 0); /* nobody is asked in a short step */
        double begun = sosmc_solver_info(s)->seconds;
        atomic_store(&slow, 1);
        assert_int_equal(sosmc_solver_step(s), SOSMC_STOPPED);
        assert_true(atomic_load(&asked) > 0);
        is_where_it_was(s, AT, begun);
        atomic_store(&slow, 0);
        step_to(s, AT, LATER);
        begun = sosmc_solver_info(s)->seconds;
        sosmc_solver_limits(s, begun + 0.5, 0);
        atomic_store(&slow, 1);
        assert_int_equal(sosmc_solver_run(s), SOSMC_OK);
        is_where_it_was(s, LATER, begun);
        sosmc_solver_limits(s, 0, 0);
        atomic_store(&slow, 0);
        step_to(s, LATER, ENOUGH);
        sosmc_solver_free(s);
    }
    exact_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stopped_step_is_taken_back),
                                       cmocka_unit_test(a_long_step_is_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
