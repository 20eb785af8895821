/* test_tune.c: networks that are tuned towards a reward: quadrature confirms where they end and what is told of it; rewards that are
 * constant, rare, weighed hardly or heavily; the same bits on threads, with any vector code and across a stop; a step that a
 * callback stops is taken back; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/analysis.h>
#include <sosmc/models.h>
#include <sosmc/networks.h>
#include <sosmc/solve.h>
#include <sosmc/temper.h>

#include "assertions.h"
#include "memory_stream.h"

enum { MOST_DIM = 5, WIDTH = 16, PARTICLES = 256 };

/* Instrumented, fewer updates are compared, and numbers, which the ordinary tests see, are not measured. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COMPARED = 4, MEASURED = 0 };
#else
enum { COMPARED = 12, MEASURED = 1 };
#endif

/* ---------------------------------------------------------------------------- a network and its reward */

typedef struct {
    int width[2];
    sosmc_mlp mlp;
    sosmc_gaussian base;
    sosmc_half_plane side;
    double mean[MOST_DIM], factor[MOST_DIM * MOST_DIM], normal[MOST_DIM];
    double *theta;
    sosmc_problem problem;
} network;

/* Random weights over a standard normal law, and the half-space in which the first coordinate is above an offset. */
static void open_network(network *n, int dim, int width, double offset, double beta)
{
    *n = (network){.width = {width, width}, .normal = {1}};
    for (int j = 0; j < dim; j++) n->factor[j * dim + j] = 1;
    n->mlp = (sosmc_mlp){.inputs = dim, .hidden = 2, .width = n->width, .base_sd = 1};
    n->base = (sosmc_gaussian){.dim = dim, .mean = n->mean, .factor = n->factor};
    n->side = (sosmc_half_plane){.dim = dim, .normal = n->normal, .offset = offset};
    n->problem.model = sosmc_mlp_model(&n->mlp);
    n->theta = calloc((size_t)n->problem.model.dim_theta, sizeof *n->theta);
    assert_non_null(n->theta);
    sosmc_mlp_init(&n->mlp, 0.4, 3, n->theta);
    n->problem.theta0 = n->theta;
    n->problem.init = sosmc_gaussian_source(&n->base);
    n->problem.objective = sosmc_reward_reverse(sosmc_half_plane_reward(&n->side), beta, n->theta);
    assert_true(n->problem.model.dim_theta > SOSMC_SOLVE_PARAMETERS);
}

/* ---------------------------------------------------------------------------- numbers */

/* What the network at theta is worth, on a fine lattice whose cells are divided where the network has a cliff. */
static sosmc_exact exactly(const network *n, const double *theta)
{
    const sosmc_lattice l = {.nodes = 800, .low = {-6, -6}, .high = {6, 6}};
    const sosmc_objective *o = &n->problem.objective;
    sosmc_exact e;
    assert_int_equal(sosmc_plane_exact(&n->problem.model, theta, n->theta, &o->score, o->kl, &l, 1, &e), SOSMC_OK);
    return e;
}

/* What there was to gain: the reference's loss above that of the best of all densities. */
static double to_gain(const sosmc_exact *e) { return -e->ref_reward - e->best_loss; }

static void expect_told(const char *name, sosmc_number told, double exact)
{
    print_message("    %-11s %.6f +- %.6f, by quadrature %.6f\n", name, told.value, told.error, exact);
    assert_true(isfinite(told.value) && told.error >= 0 && fabs(told.value - exact) <= 4 * told.error + 1e-9);
}

static void expect_all_told(const sosmc_judgement *j, const sosmc_exact *e)
{
    expect_told("log Z", j->log_z, e->logz);
    expect_told("loss", j->loss, e->loss);
    expect_told("reward", j->reward, e->reward);
    expect_told("KL", j->kl, e->kl);
    expect_told("excess", j->excess, e->excess);
    expect_told("best loss", j->best_loss, e->best_loss);
    expect_told("best reward", j->best_reward, e->best_reward);
    expect_told("best KL", j->best_kl, e->best_kl);
}

static sosmc_solution solve(const network *n, int particles, double precision)
{
    sosmc_solution r;
    sosmc_solve_options o = {.particles = particles, .precision = precision, .seed = 4};
    assert_int_equal(sosmc_solve(&r, &n->problem, &o), SOSMC_OK);
    assert_true(r.finished);
    return r;
}

static void quadrature_confirms_the_end(void **state)
{
    if (!MEASURED) skip();
    network n;
    open_network(&n, 2, WIDTH, 0, 0.25);
    sosmc_solution r = solve(&n, 1024, 0);
    const sosmc_judgement *j = &r.judgement;
    sosmc_exact e = exactly(&n, j->theta);
    print_message("%lld updates; %.4f of what there was to gain is left\n", (long long)r.info.updates,
                  e.excess / to_gain(&e));
    assert_true(j->verdict.status == SOSMC_CONVERGED && j->verdict.reasons == 0);
    assert_true(e.excess <= 0.006 * to_gain(&e));
    expect_all_told(j, &e);
    assert_true(j->excess.error < 0.1 * j->loss.error); /* the distance is known far better than the loss */
    assert_close(j->measured.to_gain, to_gain(&e), 0.02);
    assert_close(r.info.wanted, 0.002 * to_gain(&e), 1e-4);
    assert_true(r.info.left > 0 && r.info.left < 0.006 * to_gain(&e) && r.info.left_error > 0);
    assert_true(fabs(r.info.reward - e.reward) < 0.1); /* of the cloud */
    sosmc_solution_free(&r);
    free(n.theta);
}

static void numbers_are_finite(const sosmc_judgement *j)
{
    enum { NUMBERS = 8 };
    const sosmc_number *all[NUMBERS] = {&j->log_z,  &j->loss,      &j->reward,      &j->kl,
                                        &j->excess, &j->best_loss, &j->best_reward, &j->best_kl};
    for (int k = 0; k < NUMBERS; k++) assert_true(isfinite(all[k]->value) && isfinite(all[k]->error));
    for (int k = 0; k < j->measured.dim_theta; k++) assert_true(isfinite(j->theta[k]));
}

/* Hardly a divergence, or hardly a reward: whatever is called converged is. */
static void very_small_and_very_large_weights(void **state)
{
    static const double weights[] = {0.01, 100};
    if (!MEASURED) skip();
    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        network n;
        open_network(&n, 2, WIDTH, 0, weights[k]);
        sosmc_solution r = solve(&n, PARTICLES, 0);
        sosmc_exact e = exactly(&n, r.judgement.theta);
        print_message("beta %g: %lld updates, %s%s; %.4f of %.3g is left\n", weights[k], (long long)r.info.updates,
                      sosmc_verdict_name((sosmc_verdict_status)r.judgement.verdict.status),
                      r.judgement.verdict.reasons ? r.judgement.verdict.reason[0] : "", e.excess / to_gain(&e),
                      to_gain(&e));
        numbers_are_finite(&r.judgement);
        expect_all_told(&r.judgement, &e);
        assert_true((e.excess <= 0.05 * to_gain(&e)) == (r.judgement.verdict.status == SOSMC_CONVERGED));
        sosmc_solution_free(&r);
        free(n.theta);
    }
}

static int constant(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = *(const double *)self;
    return 0;
}

/* The reference is the best of all densities of those that the particles know of: nothing is done, and it is said why. */
static void constant_rewards(void **state)
{
    static const double values[] = {0, 0.3, -7};
    for (size_t k = 0; k < (MEASURED ? sizeof values / sizeof *values : 1); k++) {
        network n;
        open_network(&n, 2, WIDTH, 0, 0.25);
        n.problem.objective = sosmc_reward_reverse((sosmc_score){.self = &values[k], .eval = constant}, 0.25, n.theta);
        sosmc_solution r = solve(&n, PARTICLES, 0);
        const sosmc_judgement *j = &r.judgement;
        assert_int_equal(r.info.updates, 0);
        assert_true(isnan(j->best_loss.value) && isnan(j->excess.value));
        assert_string_equal(j->excess.why, "the reward is the same for all fresh particles");
        assert_near(j->kl.value, 0, 1e-12);
        assert_near(j->reward.value, values[k], 1e-12);
        assert_true(j->verdict.status == SOSMC_NOT_CONVERGED && j->verdict.reasons == 1);
        assert_contains(j->verdict.reason[0], "the reward is the same for all ");
        assert_memory_equal(j->theta, n.theta, (size_t)j->measured.dim_theta * sizeof *n.theta);
        sosmc_solution_free(&r);
        free(n.theta);
    }
}

/* A millionth of the reference's mass: what is told is right, or the verdict says that it is not known. */
static void a_rare_reward_is_never_silently_wrong(void **state)
{
    if (!MEASURED) skip();
    network n;
    open_network(&n, 2, WIDTH, 4.6, 0.05);
    sosmc_solution r = solve(&n, PARTICLES, 0);
    const sosmc_judgement *j = &r.judgement;
    sosmc_exact e = exactly(&n, j->theta);
    print_message("%.2g of the mass: %s %s; best loss %.4f +- %.4f, by quadrature %.4f; excess %.4f, %.4f\n",
                  e.ref_reward, sosmc_verdict_name((sosmc_verdict_status)j->verdict.status),
                  j->verdict.reasons ? j->verdict.reason[0] : "", j->best_loss.value, j->best_loss.error, e.best_loss,
                  j->excess.value, e.excess);
    assert_true(e.ref_reward < 1e-5 && e.ref_reward > 1e-7);
    if (j->verdict.status == SOSMC_CONVERGED) {
        expect_all_told(j, &e);
        assert_true(e.excess <= 0.05 * to_gain(&e));
    }
    sosmc_solution_free(&r);
    free(n.theta);
}

/* Beyond the plane: what is best of all densities, by particles that were tempered to it. */
static void five_coordinates(void **state)
{
    if (!MEASURED) skip();
    static const double sd[MOST_DIM] = {1, 1, 1, 1, 1};
    network n;
    sosmc_tempered best;
    open_network(&n, MOST_DIM, WIDTH, 0, 0.25);
    sosmc_solution r = solve(&n, PARTICLES, 0.01);
    const sosmc_judgement *j = &r.judgement;
    sosmc_law *start = sosmc_law_create(MOST_DIM, 0);
    assert_true(start && sosmc_law_add(start, 1, NULL, sd) == SOSMC_OK);
    sosmc_temper_task task = {.model = n.problem.model,
                              .theta = n.theta,
                              .start = start,
                              .score = n.problem.objective.score,
                              .beta = 0.25,
                              .particles = 8000};
    assert_int_equal(sosmc_temper(&task, &best, NULL), SOSMC_OK);
    print_message("%lld updates, %s; best loss %.4f +- %.4f, tempered %.4f +- %.4f; excess %.5f +- %.5f of %.4f\n",
                  (long long)r.info.updates, sosmc_verdict_name((sosmc_verdict_status)j->verdict.status),
                  j->best_loss.value, j->best_loss.error, best.loss.value, best.loss.error, j->excess.value,
                  j->excess.error, j->measured.to_gain);
    numbers_are_finite(j);
    assert_true(j->verdict.status == SOSMC_CONVERGED);
    assert_true(fabs(j->best_loss.value - best.loss.value) < 4 * hypot(j->best_loss.error, best.loss.error));
    assert_true(fabs(j->best_reward.value - best.reward.value) < 4 * hypot(j->best_reward.error, best.reward.error));
    assert_true(fabs(j->best_kl.value - best.kl.value) < 4 * hypot(j->best_kl.error, best.kl.error));
    assert_true(j->excess.value < 0.01 + 4 * j->excess.error);
    sosmc_law_free(start);
    sosmc_solution_free(&r);
    free(n.theta);
}

/* ---------------------------------------------------------------------------- bits */

static sosmc_solver *create(const network *n, sosmc_solve_options o)
{
    sosmc_solver *s;
    o.particles = PARTICLES;
    o.precision = 0.05; /* coarse, so that it ends soon */
    assert_int_equal(sosmc_solver_create(&s, &n->problem, &o), SOSMC_OK);
    return s;
}

static int done(const sosmc_solver *s) { return sosmc_solver_info(s)->phase == SOSMC_PHASE_DONE; }

static uint64_t steps_on(sosmc_solver *s, int64_t updates)
{
    while (sosmc_solver_info(s)->updates < updates && !done(s)) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    return sosmc_solver_hash(s);
}

static void nothing_depends_on_threads_or_levels(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    for (int dim = 2; dim <= (MEASURED ? 4 : 2); dim += 2) { /* a walk; moves along the slope */
        network n;
        open_network(&n, dim, WIDTH, 0, 0.25);
        sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
        uint64_t hash = steps_on(s, COMPARED);
        sosmc_solver_free(s);
        for (int k = 0; k < 4; k++) {
            sosmc_solve_options o = {.seed = 1, .threads = k < 1 ? 3 : 1};
            if (k == 1 && dim > 2) continue; /* slow, and the plane has it */
            if (k >= 1) o.simd = sosmc_simd_named(level[k - 1]);
            s = create(&n, o);
            assert_true(steps_on(s, COMPARED) == hash);
            sosmc_solver_free(s);
        }
        s = create(&n, (sosmc_solve_options){.seed = 2}); /* and what is compared depends on the seed */
        assert_true(steps_on(s, COMPARED) != hash);
        sosmc_solver_free(s);
        free(n.theta);
    }
}

/* Saved after a temperature, after updates, and between the search and the judgement. */
static void a_stop_changes_nothing(void **state)
{
    enum { MOST = 2000, STOPS = 3 };
    network n;
    open_network(&n, 2, WIDTH, 0, 0.25);
    sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
    int steps = 0, judged = 0;
    for (; !done(s) && steps < MOST; steps++) {
        if (sosmc_solver_info(s)->phase == SOSMC_PHASE_JUDGE && !judged) judged = steps;
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    }
    uint64_t end = sosmc_solver_hash(s);
    assert_true(done(s) && judged > 0);
    sosmc_solver_free(s);
    const int stops[STOPS] = {1, judged / 2, judged};
    for (int k = MEASURED ? 0 : STOPS - 1; k < STOPS; k++) {
        memory bytes = {.used = 0};
        s = create(&n, (sosmc_solve_options){.seed = 1});
        for (int i = 0; i < stops[k]; i++) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
        assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
        sosmc_solver *again = create(&n, (sosmc_solve_options){.seed = 1, .threads = 2});
        assert_int_equal(sosmc_solver_load(again, memory_get, &bytes), SOSMC_OK);
        assert_true(sosmc_solver_hash(again) == sosmc_solver_hash(s));
        if (steps_on(again, INT64_MAX) != end) fail_msg("saved after step %d of %d: another end", stops[k], steps);
        sosmc_solver_free(again);
        sosmc_solver_free(s);
        free(bytes.bytes);
    }
    free(n.theta);
}

/* ---------------------------------------------------------------------------- callbacks that fail */

static struct {
    sosmc_model model;
    sosmc_score score;
    int energy_at, reward_at; /* the calls that fail, counted down; 0: none */
} inner;

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    return inner.energy_at > 0 && --inner.energy_at == 0 ? 7 : inner.model.energy(self, theta, b, U, gx);
}
static int reward(const void *self, const sosmc_batch *b, double *s)
{
    return inner.reward_at > 0 && --inner.reward_at == 0 ? 7 : inner.score.eval(self, b, s);
}

/* The first step of the search measures, updates and moves. One of its calls fails; then the step is made again. */
static void a_stopped_step_is_taken_back(void **state)
{
    network n;
    open_network(&n, 2, WIDTH, 0, 0.25);
    inner.model = n.problem.model;
    inner.score = n.problem.objective.score;
    n.problem.model.energy = energy;
    n.problem.objective.score.eval = reward;
    sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
    int stopped[2] = {0};
    memory bytes = {.used = 0};
    while (sosmc_solver_info(s)->phase == SOSMC_PHASE_START) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    uint64_t before = sosmc_solver_hash(s);
    assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
    assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    uint64_t after = sosmc_solver_hash(s);
    for (int which = 0; which < 2; which++)
        for (int at = 1;; at += 1 + 7 * at) {
            bytes.at = 0;
            assert_int_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_OK);
            *(which ? &inner.reward_at : &inner.energy_at) = at;
            sosmc_status status = sosmc_solver_step(s);
            inner.energy_at = inner.reward_at = 0;
            if (status == SOSMC_OK) break; /* there are fewer calls */
            assert_int_equal(status, SOSMC_EMODEL);
            assert_contains(sosmc_solver_message(s), " failed");
            assert_true(sosmc_solver_hash(s) == before);
            assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
            assert_true(sosmc_solver_hash(s) == after);
            stopped[which]++;
        }
    free(bytes.bytes);
    print_message("%d calls of the energy and %d of the reward failed\n", stopped[0], stopped[1]);
    assert_true(stopped[0] > 1 && stopped[1] > 1);
    sosmc_solver_free(s);
    free(n.theta);
}

/* While the points are drawn there is no step to take back. */
static void a_reward_that_fails_at_once(void **state)
{
    network n;
    sosmc_solver *s;
    open_network(&n, 2, WIDTH, 0, 0.25);
    inner.score = n.problem.objective.score;
    n.problem.objective.score.eval = reward;
    inner.reward_at = 1;
    assert_int_equal(sosmc_solver_create(&s, &n.problem, NULL), SOSMC_EMODEL);
    assert_contains(sosmc_solver_message(s), "the model, its initial law or the reward failed");
    sosmc_solver_free(s);
    free(n.theta);
}

/* ---------------------------------------------------------------------------- refusals */

static void expect_refused(const sosmc_problem *p, const char *words)
{
    sosmc_solver *s;
    assert_int_equal(sosmc_solver_create(&s, p, NULL), SOSMC_EINVAL);
    assert_contains(sosmc_solver_message(s), words);
    sosmc_solver_free(s);
}

static void what_it_refuses(void **state)
{
    network n;
    open_network(&n, 2, WIDTH, 0, 0.25);
    const char *others = "with more than 200 the solver takes only the likelihood of data and rewards with a reverse "
                         "divergence of positive weight";
    sosmc_problem p = n.problem;
    p.objective = sosmc_reward_reverse(n.problem.objective.score, 0, n.theta);
    expect_refused(&p, others);
    p.objective = sosmc_reward_forward(n.problem.objective.score, 0.25, n.problem.init, 64, n.theta);
    expect_refused(&p, others);
    p = n.problem;
    p.init.draw = NULL;
    expect_refused(&p, "with more than 200 the solver needs an initial law");
    free(n.theta);
}

static int logarithm(const void *self, const sosmc_batch *b, double *s)
{
    (void)self;
    for (int i = 0; i < b->n; i++) s[i] = log(b->x[i]);
    return 0;
}

/* Half of the mass has a reward that is no number. */
static void rewards_that_are_no_numbers(void **state)
{
    network n;
    sosmc_solver *s;
    open_network(&n, 2, WIDTH, 0, 0.25);
    n.problem.objective.score = (sosmc_score){.eval = logarithm};
    assert_int_equal(sosmc_solver_create(&s, &n.problem, NULL), SOSMC_ENUMERIC);
    assert_contains(sosmc_solver_message(s), "the reward is ");
    assert_contains(sosmc_solver_message(s), "it must be a finite number there");
    sosmc_solver_free(s);
    free(n.theta);
}

/* A model that wants all particles at once, as those of array frameworks do. */
static void one_tile_for_all(void **state)
{
    network n;
    sosmc_solution r;
    open_network(&n, 2, WIDTH, 0, 0.25);
    n.problem.model.tile = 1 << 30;
    sosmc_solve_options o = {.particles = PARTICLES, .evaluations = 100000};
    assert_int_equal(sosmc_solve(&r, &n.problem, &o), SOSMC_OK);
    assert_true(r.info.updates > 0);
    sosmc_solution_free(&r);
    free(n.theta);
}

static void a_law_that_overflows(void **state)
{
    network n;
    sosmc_solver *s;
    open_network(&n, 2, WIDTH, 0, 0.25);
    for (int j = 0; j < 2; j++) n.factor[j * 2 + j] = 1e-160;
    assert_int_equal(sosmc_solver_create(&s, &n.problem, NULL), SOSMC_ENUMERIC);
    assert_contains(sosmc_solver_message(s), "have a finite mean and spread");
    sosmc_solver_free(s);
    free(n.theta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewards_that_are_no_numbers),
        cmocka_unit_test(one_tile_for_all),
        cmocka_unit_test(a_law_that_overflows),
        cmocka_unit_test(quadrature_confirms_the_end),
        cmocka_unit_test(very_small_and_very_large_weights),
        cmocka_unit_test(constant_rewards),
        cmocka_unit_test(a_rare_reward_is_never_silently_wrong),
        cmocka_unit_test(five_coordinates),
        cmocka_unit_test(nothing_depends_on_threads_or_levels),
        cmocka_unit_test(a_stop_changes_nothing),
        cmocka_unit_test(a_stopped_step_is_taken_back),
        cmocka_unit_test(a_reward_that_fails_at_once),
        cmocka_unit_test(what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
