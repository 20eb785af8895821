/* test_nonfinite_uncovered.c: values that are not finite where no policy applies.
 *
 * A start, a score, a gradient or an update that is not finite stops the run, with a status and a message with numbers;
 * a proposal that is not finite is rejected by Metropolis kernels, which is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "assertions.h"
#include "faulty_model.h"

static void the_start_must_be_finite(void **state)
{
    static const struct {
        fault_place where;
        const char *word;
    } cases[] = {{IN_ENERGY, "initial"}, {IN_GX, "initial"},          {IN_X, "initial"},
                 {IN_SCORE, "score"},    {IN_REFERENCE, "theta_ref"}, {IN_LOGPDF, "density"}};
    static const double theta_ref[D] = {7.0, 0.0}, values[] = {NAN, INFINITY, -INFINITY};
    for (size_t q = 0; q < sizeof cases / sizeof *cases; q++)
        for (int v = 0; v < 3; v++)
            for (int threads = 1; threads <= 3; threads += 2)
                for (int policy = SOSMC_NONFINITE_FAIL; policy <= SOSMC_NONFINITE_RETRY; policy++) {
                    faulty_run l;
                    faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
                    sosmc_score score = {.self = &l.q, .eval = faulty_reward};
                    l.p.objective = sosmc_reward_reverse(score, 0.5, theta_ref);
                    l.p.init.logpdf = faulty_logpdf;
                    l.cfg.on_nonfinite = policy;
                    l.cfg.threads = threads;
                    l.q.armed = 1;
                    l.q.where = cases[q].where;
                    l.q.value = values[v];
                    l.q.offender[0] = 140;
                    l.q.offender[1] = 70;
                    assert_int_equal(sosmc_create(&l.s, &l.p, &l.cfg), SOSMC_ENUMERIC);
                    assert_contains(sosmc_message(l.s), "iteration 0");
                    assert_contains(sosmc_message(l.s), "particle 70");
                    assert_contains(sosmc_message(l.s), cases[q].word);
                    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
                    sosmc_free(l.s);
                }
}

static void theta0_must_be_finite(void **state)
{
    const double theta0[D] = {0.0, NAN};
    faulty_run l;
    faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.p.theta0 = theta0;
    assert_int_equal(sosmc_create(&l.s, &l.p, &l.cfg), SOSMC_EINVAL);
    assert_contains(sosmc_message(l.s), "theta0[1]");
    assert_contains(sosmc_message(l.s), "nan");
    sosmc_free(l.s);
}

static void scores_on_the_way_must_be_finite(void **state)
{
    static const double theta_ref[D] = {7.0, 0.0};
    for (int where = IN_SCORE; where <= IN_REFERENCE; where++)
        for (int threads = 1; threads <= 3; threads += 2) {
            faulty_run l;
            faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_mala(0.1));
            sosmc_score score = {.self = &l.q, .eval = faulty_reward};
            l.p.objective = sosmc_reward_reverse(score, 0.5, theta_ref);
            l.cfg.threads = threads;
            l.q.where = (fault_place)where;
            l.q.value = -INFINITY;
            l.q.offender[0] = 140;
            l.q.offender[1] = 70;
            faulty_open(&l);
            faulty_steps(&l, 3);
            assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 3");
            assert_contains(sosmc_message(l.s), "particle 70");
            assert_contains(sosmc_message(l.s), where == IN_SCORE ? "score" : "theta_ref");
            assert_contains(sosmc_message(l.s), "-inf");
            sosmc_free(l.s);
        }
}

static void gradients_must_be_finite(void **state)
{
    static const double values[] = {NAN, INFINITY, 1e300}; /* the last has a norm that overflows */
    for (int where = IN_GRADIENT; where <= IN_DATA_GRADIENT; where++)
        for (int v = 0; v < 3; v++) {
            faulty_run l;
            faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
            l.p.objective = sosmc_likelihood(sosmc_standard_normal(), 100);
            l.p.objective.penalty = faulty_penalty;
            l.q.where = (fault_place)where;
            l.q.value = values[v];
            l.q.offender[0] = 70;
            faulty_open(&l);
            faulty_steps(&l, 2);
            assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 2");
            assert_contains(sosmc_message(l.s), "gradient");
            if (v == 0 && where == IN_DATA_GRADIENT) {
                assert_contains(sosmc_message(l.s), "component 1");
                assert_contains(sosmc_message(l.s), "nan");
                assert_contains(sosmc_message(l.s), "theta[1] = -3");
            }
            sosmc_free(l.s);
        }
}

static void poison_theta(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k == 2) theta[1] = *(const double *)o->self;
}

static void updates_must_be_finite(void **state)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    const char *const words[] = {"nan", "inf", "-inf"};
    for (int v = 0; v < 3; v++) {
        faulty_run l;
        faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.optimiser = (sosmc_optimiser){.name = "poison", .self = &values[v], .step = poison_theta};
        faulty_open(&l);
        faulty_steps(&l, 2);
        assert_int_equal(sosmc_step(l.s), SOSMC_ENUMERIC);
        assert_contains(sosmc_message(l.s), "iteration 2");
        assert_contains(sosmc_message(l.s), "theta[1]");
        assert_contains(sosmc_message(l.s), words[v]);
        assert_contains(sosmc_message(l.s), "-3"); /* what it was */
        sosmc_free(l.s);
    }
    faulty_run l;
    faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.cfg.optimiser = sosmc_sgd(1e308); /* no poison: a rate that is far too large */
    faulty_open(&l);
    sosmc_status status = sosmc_run(l.s, 3, NULL, NULL);
    assert_int_equal(status, SOSMC_ENUMERIC);
    assert_true(strlen(sosmc_message(l.s)) > 20);
    sosmc_free(l.s);
}

/* ---------------------------------------------------------------------------- Metropolis rejects, which is exact */

/* The standard normal on x > 0: beyond the wall U is `wall` and the gradient is no number. */
static int half_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *wall = self;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i];
        U[i] = x > 0.0 ? 0.5 * x * x : *wall;
        if (gx) gx[i] = x > 0.0 ? x : NAN;
    }
    return 0;
}

static int no_gradient(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return 0;
}

/* Far from the target, inside the wall. */
static int wide_half(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++) x[i] = 1e-3 + 3.0 * fabs(x[i]);
    return 0;
}

/* The negative control: goes wherever U is finite, without asking how likely that is. */
static int careless_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (int i = 0; i < m->b.n; i++) m->x_new[i] = m->x[i] + sqrt(2.0 * m->h) * m->x_new[i];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    for (int i = 0; i < m->b.n; i++)
        if (!isfinite(m->U_new[i])) {
            m->x_new[i] = m->x[i];
            m->U_new[i] = m->U[i];
        }
    return rc;
}

enum { MANY = 4000, MOVES = 250 };

/* The larger of the two errors of E x and E x^2, in standard errors. theta stands still and nothing is resampled, so
 * the particles are independent chains. */
static double half_line_error(sosmc_kernel kernel, int weighted, int order, double wall)
{
    static double x[MANY], logw[MANY];
    sosmc_problem p = {
        .model = {.dim_x = 1, .dim_theta = 1, .self = &wall, .energy = half_energy, .grad_theta = no_gradient},
        .objective = sosmc_mmle(),
        .init = {.draw = wide_half}};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = weighted ? sosmc_scheme_sosmc(MANY) : sosmc_scheme_unweighted(MANY);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0.0;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.0);
    cfg.on_nonfinite = SOSMC_NONFINITE_FAIL; /* a rejected proposal is not a failure */
    cfg.seed = 20;
    if (sosmc_create(&s, &p, &cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    for (int k = 0; k < MOVES; k++) {
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s: %s", kernel.name, sosmc_message(s));
        assert_int_equal(sosmc_last(s)->nonfinite, 0);
    }
    double accept = sosmc_last(s)->accept;
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    sosmc_free(s);
    double sum = 0.0, sum2 = 0.0, sum4 = 0.0;
    for (int i = 0; i < MANY; i++) {
        assert_true(x[i] > 0.0);
        assert_true(fabs(logw[i] + log(MANY)) < 1e-12);
        sum += x[i];
        sum2 += x[i] * x[i];
        sum4 += x[i] * x[i] * x[i] * x[i];
    }
    double m1 = sum / MANY, m2 = sum2 / MANY, m4 = sum4 / MANY;
    double e1 = fabs(m1 - sqrt(2.0 / 3.14159265358979323846)) / sqrt((m2 - m1 * m1) / MANY);
    double e2 = fabs(m2 - 1.0) / sqrt((m4 - m2 * m2) / MANY);
    if (kernel.metropolis) assert_true(accept > 0.2 && accept < 0.999); /* some proposals were rejected */
    return e1 > e2 ? e1 : e2;
}

static void metropolis_is_exact_at_a_wall(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_rwm(0.4), sosmc_mala(0.2), sosmc_hmc(0.3, 4, 1.0)};
    const double walls[] = {INFINITY, NAN, -INFINITY};
    for (int k = 0; k < 3; k++)
        for (int v = 0; v < 3; v++) {
            assert_true(half_line_error(kernels[k], 1, v == 1 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER, walls[v]) <
                        4.0);
            if (v == 1) assert_true(half_line_error(kernels[k], 0, SOSMC_ORDER_PAPER, walls[v]) < 4.0);
        }
}

static void a_careless_kernel_is_noticed(void **state)
{
    sosmc_kernel careless = sosmc_rwm(0.4);
    careless.step = careless_step;
    careless.metropolis = 0;
    assert_true(half_line_error(careless, 1, SOSMC_ORDER_PAPER, INFINITY) > 20.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_must_be_finite),         cmocka_unit_test(theta0_must_be_finite),
        cmocka_unit_test(scores_on_the_way_must_be_finite), cmocka_unit_test(gradients_must_be_finite),
        cmocka_unit_test(updates_must_be_finite),           cmocka_unit_test(metropolis_is_exact_at_a_wall),
        cmocka_unit_test(a_careless_kernel_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
