/* test_temper.c: tempering from a wide normal law to two modes whose masses and log Z are known, and to the same law tilted by a
 * reward: the numbers against exact ones, their errors, and the same bits whatever threads, vector code and interruptions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/models.h>
#include <sosmc/temper.h>

#include "memory_stream.h"

enum { MOST = 50 };
static const double HALF_APART = 4, MASS = 0.75;

/* Two round modes of unit width at -4 and 4 on the first axis, with a quarter and three quarters of the mass. */
typedef struct {
    double means[2 * MOST], theta[2], normal[MOST], sd[MOST];
    sosmc_mixture mixture;
    sosmc_half_plane right;
    sosmc_law *wide;
    sosmc_temper_task task;
} two_modes;

static void open_modes(two_modes *m, int dim, double beta)
{
    *m = (two_modes){.mixture = {.dim = dim, .components = 2, .means = m->means, .variance = 1},
                     .right = {.dim = dim, .normal = m->normal}};
    m->means[0] = -HALF_APART;
    m->means[dim] = HALF_APART;
    m->theta[0] = log(1 - MASS);
    m->theta[1] = log(MASS);
    m->normal[0] = 1;
    for (int j = 0; j < dim; j++) m->sd[j] = 4;
    m->wide = sosmc_law_create(dim, 0);
    assert_non_null(m->wide);
    assert_int_equal(sosmc_law_add(m->wide, 1, NULL, m->sd), SOSMC_OK);
    m->task = (sosmc_temper_task){.model = sosmc_mixture_model(&m->mixture),
                                  .theta = m->theta,
                                  .start = m->wide,
                                  .score = sosmc_half_plane_reward(&m->right),
                                  .beta = beta,
                                  .particles = 512};
}

static sosmc_tempered temper(const two_modes *m, uint64_t seed)
{
    sosmc_temper_task task = m->task;
    sosmc_tempered r;
    task.seed = seed;
    assert_int_equal(sosmc_temper(&task, &r, NULL), SOSMC_OK);
    assert_int_equal(r.verdict.status, SOSMC_CONVERGED);
    return r;
}

/* ---------------------------------------------------------------------------- numbers */

/* How often an exact value lies within 1.96 stated errors, and the mean square of the distance in errors. */
typedef struct {
    int held, runs;
    double squares;
} tally;

static void count(tally *t, const sosmc_number *n, double exact)
{
    double z = (n->value - exact) / n->error;
    assert_true(isfinite(z));
    t->held += fabs(z) < 1.96;
    t->squares += z * z;
    t->runs++;
}

static void expect_honest(const tally *t)
{
    assert_in_range(t->held, 0.87 * t->runs, t->runs);
    assert_true(t->squares / t->runs > 0.5 && t->squares / t->runs < 1.7);
}

static void log_z_and_masses(void **state)
{
    static const int dims[] = {1, 2, 10};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        two_modes m;
        tally log_z = {0}, mass = {0}, control = {0};
        open_modes(&m, dims[d], 0);
        for (uint64_t seed = 0; seed < 100; seed++) {
            sosmc_tempered r = temper(&m, seed);
            count(&log_z, &r.log_z, sosmc_mixture_logz(&m.mixture));
            count(&mass, &r.reward, MASS);
            count(&control, &r.reward, MASS - 0.05);
            assert_true(isnan(r.kl.value) && !*r.kl.why);
        }
        expect_honest(&log_z);
        expect_honest(&mass);
        assert_true(control.held < 0.8 * control.runs); /* what is wrong by 0.05 is not held */
        sosmc_law_free(m.wide);
    }
}

static void tilted(void **state)
{
    static const double betas[] = {1, 0.25, 0.02};
    for (size_t b = 0; b < sizeof betas / sizeof *betas; b++) {
        two_modes m;
        tally log_z = {0}, reward = {0}, kl = {0}, loss = {0}, model = {0};
        double beta = betas[b], gain = log(1 - MASS + MASS * exp(1 / beta)), mass = MASS * exp(1 / beta - gain);
        open_modes(&m, 2, beta);
        for (uint64_t seed = 0; seed < 60; seed++) {
            sosmc_tempered r = temper(&m, seed);
            double exact = sosmc_mixture_logz(&m.mixture);
            count(&log_z, &r.log_z, exact + gain);
            count(&model, &r.model_log_z, exact);
            count(&kl, &r.kl, mass / beta - gain);
            count(&loss, &r.loss, -beta * gain);
            assert_true(fabs(r.reward.value - mass) < 4 * r.reward.error && r.reward.error >= 1.0 / 512);
            if (beta > 0.1) count(&reward, &r.reward, mass);
        }
        expect_honest(&log_z);
        expect_honest(&model);
        expect_honest(&kl);
        expect_honest(&loss);
        sosmc_law_free(m.wide);
    }
}

/* N(0, I) tilted by the sum of the coordinates, and by -2 times that of their squares: exp(R) has the logarithm of its mean d/2, and
 * -d/2 log 5. Without what leads the moves along the reward the squares of the errors are 16 times what is stated. */
static int sum_of(const void *self, const sosmc_batch *b, double *R)
{
    int squares = *(const int *)self;
    for (int i = 0; i < b->n; i++) R[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
            R[i] += squares ? -2 * x * x : x;
        }
    return 0;
}

static void smooth_rewards(void **state)
{
    enum { DIM = 20 };
    for (int squares = 0; squares < 2; squares++) {
        two_modes m;
        tally loss = {0}, reward = {0}, kl = {0};
        double gain = squares ? -0.5 * DIM * log(5.0) : 0.5 * DIM, mean = squares ? -0.4 * DIM : DIM;
        open_modes(&m, DIM, 1);
        m.mixture.components = 1;
        m.means[0] = m.theta[0] = 0;
        m.task.model = sosmc_mixture_model(&m.mixture);
        m.task.score = (sosmc_score){.self = &squares, .eval = sum_of};
        m.task.particles = 1024;
        for (uint64_t seed = 0; seed < 60; seed++) {
            sosmc_tempered r = temper(&m, seed);
            assert_true(r.loss.error < 0.12);
            count(&loss, &r.loss, -gain);
            count(&reward, &r.reward, mean);
            count(&kl, &r.kl, mean - gain);
        }
        expect_honest(&loss);
        expect_honest(&reward);
        expect_honest(&kl);
        sosmc_law_free(m.wide);
    }
}

/* A law that covers one mode only: the trial's fit knows no more, and the verdict does not know; a mixture that covers both finds
 * them. And a fit of points is a law. */
static void other_laws(void **state)
{
    two_modes m;
    double mean[2] = {4, 0}, sd[2] = {1, 1}, points[2 * 200];
    open_modes(&m, 2, 0);
    sosmc_law *one = sosmc_law_create(2, 0), *both = sosmc_law_create(2, 0), *fit = sosmc_law_create(2, 1);
    assert_int_equal(sosmc_law_add(one, 1, mean, sd), SOSMC_OK);
    assert_int_equal(sosmc_law_add(both, 1, mean, sd), SOSMC_OK);
    mean[0] = -4;
    assert_int_equal(sosmc_law_add(both, 3, mean, sd), SOSMC_OK); /* the wrong way round */
    for (int i = 0; i < 200; i++) {
        points[2 * i] = i % 2 ? 4 : -4;
        points[2 * i + 1] = i * 0.01 - 1;
    }
    assert_int_equal(sosmc_law_add_fit(fit, 1, 200, points, NULL), SOSMC_OK);
    double exact = sosmc_mixture_logz(&m.mixture);
    m.task.start = one;
    sosmc_tempered r = temper(&m, 1);
    assert_true(fabs(r.log_z.value - exact - log(MASS)) < 0.05); /* one mode alone */
    const sosmc_law *good[] = {both, fit};
    for (int k = 0; k < 2; k++) {
        m.task.start = good[k];
        r = temper(&m, 1);
        assert_true(fabs(r.log_z.value - exact) < 4 * r.log_z.error && r.log_z.error < 0.1);
        assert_true(fabs(r.reward.value - MASS) < 4 * r.reward.error);
    }
    assert_int_equal(sosmc_law_add(one, 0, mean, sd), SOSMC_EINVAL);
    sd[1] = 0;
    assert_int_equal(sosmc_law_add(one, 1, mean, sd), SOSMC_EINVAL);
    sosmc_law_free(one);
    sosmc_law_free(both);
    sosmc_law_free(fit);
    sosmc_law_free(m.wide);
}

/* Draws of a law with two modes are fitted by more than one normal law, so that from a fit of the target itself little is left to do. */
static void laws_by_their_draws(void **state)
{
    enum { DRAWS = 2000 };
    two_modes m;
    static double points[2 * DRAWS], weights[DRAWS];
    open_modes(&m, 2, 0);
    m.task.direct = 1;
    for (int i = 0; i < DRAWS; i++) {
        sosmc_batch one = {.simd = sosmc_simd_best(), .dim = 2, .n = 1, .ld = 1, .first = i};
        sosmc_normals((sosmc_rng){.seed = 5}, &one, points + 2 * i);
        points[2 * i] += i % 4 ? 4 : -4;
        weights[i] = i % 4 ? 0.25 : 2.25; /* three quarters at the smaller mode */
    }
    double exact = sosmc_mixture_logz(&m.mixture);
    int fewest = 0;
    for (int k = 0; k < 2; k++) {
        sosmc_law *fit = sosmc_law_create(2, 1);
        assert_int_equal(sosmc_law_add_fit(fit, 1, DRAWS, points, k ? weights : NULL), SOSMC_OK);
        m.task.start = fit;
        sosmc_tempered r = temper(&m, 1);
        assert_true(fabs(r.log_z.value - exact) < 4 * r.log_z.error && r.log_z.error < (k ? 0.06 : 0.015));
        assert_true(k || r.temperatures <= 2);
        assert_true(r.temperatures > fewest);
        fewest = r.temperatures;
        sosmc_law_free(fit);
    }
    sosmc_law *none = sosmc_law_create(2, 1);
    assert_int_equal(sosmc_law_add_fit(none, 1, 1, points, NULL), SOSMC_EINVAL);
    assert_int_equal(sosmc_law_add_fit(none, 0, DRAWS, points, NULL), SOSMC_EINVAL);
    weights[7] = -1;
    assert_int_equal(sosmc_law_add_fit(none, 1, DRAWS, points, weights), SOSMC_EINVAL);
    points[20] = NAN;
    assert_int_equal(sosmc_law_add_fit(none, 1, DRAWS, points, NULL), SOSMC_EINVAL);
    points[20] = INFINITY;
    assert_int_equal(sosmc_law_add_fit(none, 1, DRAWS, points, NULL), SOSMC_EINVAL);
    m.task.start = none;
    sosmc_tempered r;
    assert_int_equal(sosmc_temper(&m.task, &r, NULL), SOSMC_EINVAL);
    sosmc_law_free(none);
    sosmc_law_free(m.wide);
}

/* A judged run under a reverse divergence tells the best of all densities, here that of a run that stays at the reference: its loss is
 * minus its reward, and the excess what there was to gain. */
static void judged_runs_tell_the_best(void **state)
{
    tally loss = {0}, reward = {0}, kl = {0}, excess = {0};
    const double beta = 0.5, gain = log(1 - MASS + MASS * exp(1 / beta)), mass = MASS * exp(1 / beta - gain);
    for (uint64_t seed = 0; seed < 40; seed++) {
        two_modes m;
        open_modes(&m, 2, 0);
        const sosmc_mixture_law law = {.mixture = &m.mixture, .theta = m.theta};
        const sosmc_problem problem = {.model = m.task.model,
                                       .theta0 = m.theta,
                                       .objective = sosmc_reward_reverse(m.task.score, beta, m.theta),
                                       .init = sosmc_mixture_source(&law)};
        sosmc_settings cfg = sosmc_defaults();
        sosmc_judge_options options = {.pass_particles = 1000};
        sosmc_judgement j;
        sosmc *s = NULL;
        cfg.scheme = sosmc_scheme_sosmc(200);
        cfg.kernel = sosmc_mala(0.1);
        cfg.optimiser = sosmc_sgd(0);
        cfg.seed = seed;
        if (sosmc_create(&s, &problem, &cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
        for (int k = 0; k < 3; k++) assert_int_equal(sosmc_step(s), SOSMC_OK);
        assert_int_equal(sosmc_judge(s, &options, &j, NULL, 0), SOSMC_OK);
        count(&loss, &j.best_loss, -beta * gain);
        count(&reward, &j.best_reward, mass);
        count(&kl, &j.best_kl, mass / beta - gain);
        count(&excess, &j.excess, beta * gain - MASS);
        sosmc_judgement_free(&j);
        sosmc_free(s);
        sosmc_law_free(m.wide);
    }
    expect_honest(&loss);
    expect_honest(&kl);
    expect_honest(&excess);
    assert_true(reward.squares / reward.runs < 2.5); /* a share near 1 is skewed */
}

/* U without gradients: a random walk. Two coordinates on scales 1 and 100. */
static int without_gradient(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    assert_null(gx);
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i], y = b->x[b->ld + i] / 100;
        U[i] = 0.5 * (x * x + y * y - x * y);
    }
    return 0;
}

static void a_walk(void **state)
{
    double sd[2] = {300, 300};
    sosmc_law *wide = sosmc_law_create(2, 0);
    assert_int_equal(sosmc_law_add(wide, 1, NULL, sd), SOSMC_OK);
    sosmc_temper_task task = {
        .model = {.dim_x = 2, .no_gx = 1, .energy = without_gradient}, .start = wide, .particles = 1000, .seed = 5};
    sosmc_tempered r;
    double x[2 * 1000], square = 0;
    assert_int_equal(sosmc_temper(&task, &r, x), SOSMC_OK);
    double exact = log(2 * M_PI * 100 / sqrt(0.75));
    assert_true(fabs(r.log_z.value - exact) < 4 * r.log_z.error && r.log_z.error < 0.1);
    for (int i = 0; i < 1000; i++) square += x[2 * i] * x[2 * i] / 1000;
    assert_true(fabs(square - 4.0 / 3) < 0.3);
    sosmc_law_free(wide);
}

/* ---------------------------------------------------------------------------- bits */

static uint64_t finish(sosmc_sampler *s)
{
    while (!sosmc_sampler_state(s)->done) assert_int_equal(sosmc_sampler_step(s), SOSMC_OK);
    return sosmc_sampler_hash(s);
}

static uint64_t finished(const sosmc_temper_task *task)
{
    sosmc_sampler *s;
    assert_int_equal(sosmc_sampler_create(&s, task), SOSMC_OK);
    uint64_t hash = finish(s);
    sosmc_sampler_free(s);
    return hash;
}

static void bits(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    two_modes m;
    open_modes(&m, 10, 0.5);
    uint64_t one = finished(&m.task);
    for (int threads = 2; threads <= 3; threads++) {
        m.task.threads = threads;
        assert_true(one == finished(&m.task));
    }
    for (int l = 0; l < 3; l++) {
        m.task.simd = sosmc_simd_named(level[l]);
        if (m.task.simd) assert_true(one == finished(&m.task));
    }
    m.task.seed++;
    assert_false(one == finished(&m.task));
    sosmc_law_free(m.wide);
}

/* Saved after every step, and gone on with by another sampler: in the trial, in the measurement and on the way to the tilted law. */
static void interruptions(void **state)
{
    two_modes m;
    open_modes(&m, 3, 0.5);
    uint64_t whole = finished(&m.task);
    for (int stop = 0;; stop++) {
        sosmc_sampler *s, *other;
        memory f = {.used = 0};
        assert_int_equal(sosmc_sampler_create(&s, &m.task), SOSMC_OK);
        assert_int_equal(sosmc_sampler_create(&other, &m.task), SOSMC_OK);
        for (int k = 0; k < stop; k++) assert_int_equal(sosmc_sampler_step(s), SOSMC_OK);
        int done = sosmc_sampler_state(s)->done;
        assert_int_equal(sosmc_sampler_save(s, memory_put, &f), SOSMC_OK);
        assert_int_equal(sosmc_sampler_load(other, memory_get, &f), SOSMC_OK);
        assert_true(sosmc_sampler_hash(s) == sosmc_sampler_hash(other));
        assert_int_equal(sosmc_sampler_state(other)->evaluations, sosmc_sampler_state(s)->evaluations);
        sosmc_sampler_free(s);
        assert_true(whole == finish(other));
        sosmc_sampler_free(other);
        if (stop == 4) { /* a damaged stream changes nothing */
            for (size_t at = 0; at < f.used; at += f.used / 40) {
                assert_int_equal(sosmc_sampler_create(&other, &m.task), SOSMC_OK);
                f.bytes[at] ^= 1;
                f.at = 0;
                assert_int_not_equal(sosmc_sampler_load(other, memory_get, &f), SOSMC_OK);
                f.bytes[at] ^= 1;
                assert_true(whole == finish(other));
                sosmc_sampler_free(other);
            }
        }
        free(f.bytes);
        if (done) break;
    }
    sosmc_law_free(m.wide);
}

/* A reward that no particle meets tells nothing of the law that it tilts, however small the error comes out; one that a few of them meet
 * does, and so does a run that is not tilted. */
static int far_out(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > *(const double *)self ? 0.3 : 0.1;
    return 0;
}

static void rewards_that_nobody_meets(void **state)
{
    static const double from[] = {20, 6.5, 20}, betas[] = {0.02, 0.02, 0};
    for (int k = 0; k < 3; k++) {
        two_modes m;
        sosmc_tempered r;
        open_modes(&m, 2, betas[k]);
        m.task.score = (sosmc_score){.self = &from[k], .eval = far_out};
        assert_int_equal(sosmc_temper(&m.task, &r, NULL), SOSMC_OK);
        assert_int_equal(r.verdict.status, k == 0 ? SOSMC_NOT_CONVERGED : SOSMC_CONVERGED);
        assert_int_equal(r.verdict.reasons, k == 0);
        if (k == 0)
            assert_non_null(
                strstr(r.verdict.reason[0], "the reward is the same for all 512 particles, so nothing is known"));
        sosmc_law_free(m.wide);
    }
}

/* A reward of minus infinity, or none, at points that the model has. */
static int logarithm(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = log(b->x[i]);
    return 0;
}
static int barrier(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0 ? 1 : -INFINITY;
    return 0;
}

static void rewards_that_are_no_numbers(void **state)
{
    static const double betas[] = {0, 0.5};
    for (int k = 0; k < 4; k++) {
        two_modes m;
        sosmc_tempered r;
        open_modes(&m, 2, betas[k % 2]);
        m.task.score = (sosmc_score){.eval = k < 2 ? logarithm : barrier};
        assert_int_equal(sosmc_temper(&m.task, &r, NULL), SOSMC_ENUMERIC);
        assert_int_equal(r.verdict.status, SOSMC_RUN_FAILED);
        assert_non_null(
            strstr(r.verdict.reason[0], "the reward is no finite number at a point where the model has mass"));
        assert_true(isnan(r.log_z.value) && isnan(r.reward.value) && *r.log_z.why);
        sosmc_law_free(m.wide);
    }
}

static void refused(void **state)
{
    two_modes m;
    sosmc_sampler *s;
    open_modes(&m, 2, 0);
    const sosmc_temper_task good = m.task;
    sosmc_law *empty = sosmc_law_create(2, 0), *other = sosmc_law_create(3, 0);
    double sd[3] = {1, 1, 1};
    assert_int_equal(sosmc_law_add(other, 1, NULL, sd), SOSMC_OK);
    sosmc_temper_task wrong[6];
    const char *const words[6] = {"no law", "another number of coordinates", "no score", "beta", "cess", "particles"};
    for (int k = 0; k < 6; k++) wrong[k] = good;
    wrong[0].start = empty;
    wrong[1].start = other;
    wrong[2].beta = 1;
    wrong[2].score = (sosmc_score){0};
    wrong[3].beta = -1;
    wrong[4].cess = 1;
    wrong[5].particles = -1;
    for (int k = 0; k < 6; k++) {
        assert_int_equal(sosmc_sampler_create(&s, &wrong[k]), SOSMC_EINVAL);
        assert_non_null(strstr(sosmc_sampler_message(s), words[k]));
        sosmc_sampler_free(s);
    }
    sosmc_law_free(empty);
    sosmc_law_free(other);
    sosmc_law_free(m.wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(log_z_and_masses),
                                       cmocka_unit_test(tilted),
                                       cmocka_unit_test(smooth_rewards),
                                       cmocka_unit_test(other_laws),
                                       cmocka_unit_test(laws_by_their_draws),
                                       cmocka_unit_test(judged_runs_tell_the_best),
                                       cmocka_unit_test(a_walk),
                                       cmocka_unit_test(bits),
                                       cmocka_unit_test(interruptions),
                                       cmocka_unit_test(rewards_that_nobody_meets),
                                       cmocka_unit_test(rewards_that_are_no_numbers),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
