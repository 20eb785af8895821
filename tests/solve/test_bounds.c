/* test_bounds.c: a model that declares bounds of x has exact answers from the solver, from chosen kernels and from tempering, gives
 * its functions points inside the bounds alone, is the same bits on several threads and across a stop, and refuses what cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/analysis.h>
#include <sosmc/solve.h>
#include <sosmc/temper.h>

#include "memory_stream.h"

/* U = sum_j (x_j - theta)^2 / 2 + (x_j - 1)^2 / 2, with x_1 > 1: theta is 1.433758, and minus log Z there */
static const double PAIR[] = {1, -INFINITY}, THETA = 1.433758, LOSS = -0.573391;
static atomic_int outside; /* points that a function of the model or a reward has seen outside of the bounds */

typedef struct {
    const double *low, *high;
} box;

static void look(const box *k, const sosmc_batch *b)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i];
            if ((k->low && !(x > k->low[j])) || (k->high && !(x < k->high[j])) || !isfinite(x)) outside++;
        }
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    look(self, b);
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - theta[0], q = x - 1;
            U[i] += (p * p + q * q) / 2;
            if (gx) gx[j * b->ld + i] = p + q;
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    look(self, b);
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[0] += c[i] * (theta[0] - b->x[j * b->ld + i]);
    return 0;
}

static int first_coordinate(const void *self, const sosmc_batch *b, double *s)
{
    look(self, b);
    memcpy(s, b->x, (size_t)b->n * sizeof *s);
    return 0;
}

static int no_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p) { return -1; }

static const box pair_box = {.low = PAIR};

static sosmc_problem pair(void)
{
    return (sosmc_problem){
        .model =
            {.dim_x = 2, .dim_theta = 1, .self = &pair_box, .energy = energy, .grad_theta = grad_theta, .x_low = PAIR},
        .objective = sosmc_mmle()};
}

/* ---------------------------------------------------------------------------- answers */

static void the_solver_is_right(void **state)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        sosmc_problem p = pair();
        p.model.no_gx = seed == 2; /* dU/dx by differences, which stay inside as well */
        sosmc_solution r;
        assert_int_equal(sosmc_solve(&r, &p, &(sosmc_solve_options){.seed = seed}), SOSMC_OK);
        const sosmc_judgement *j = &r.judgement;
        assert_int_equal(j->verdict.status, SOSMC_CONVERGED);
        assert_true(fabs(j->theta[0] - THETA) < 4 * j->theta_mc_error[0]);
        assert_true(j->theta_mc_error[0] < 0.03);
        assert_true(fabs(j->loss.value - LOSS) < 4 * j->loss.error);
        sosmc_solution_free(&r);
    }
    assert_int_equal(outside, 0);
}

static void chosen_kernels_are_right(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.4), sosmc_hmc(0.5, 3, 1), sosmc_rwm(0.3)};
    for (int k = 0; k < 4; k++) {
        sosmc_problem p = pair(); /* without an init: N(0, I) of z */
        sosmc_settings c = sosmc_defaults();
        c.scheme = sosmc_scheme_sosmc(2000);
        c.kernel = kernels[k];
        c.optimiser = sosmc_adam(0.05);
        c.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 100, .b = 0.6};
        c.judge = 0.1;
        sosmc *s;
        assert_int_equal(sosmc_create(&s, &p, &c), SOSMC_OK);
        assert_int_equal(sosmc_run(s, 1000, NULL, NULL), SOSMC_OK);
        sosmc_judgement j;
        assert_int_equal(sosmc_judge(s, NULL, &j, NULL, 0), SOSMC_OK);
        assert_true(fabs(j.theta[0] - THETA) < 4 * j.theta_mc_error[0] && j.theta_mc_error[0] < 0.05);
        assert_true(fabs(j.loss.value - LOSS) < 4 * j.loss.error && j.loss.error < 0.05);
        double *x = malloc(2000 * 3 * sizeof *x), mean = 0;
        assert_int_equal(sosmc_cloud(s, x, x + 4000),
                         SOSMC_OK); /* of x: the mean of x_1 is theta where the loss is least ... */
        for (int i = 0; i < 2000; i++) {
            assert_true(x[2 * i] > 1);
            mean += exp(x[4000 + i]) * (x[2 * i] + x[2 * i + 1]) / 2;
        }
        assert_true(fabs(mean - THETA) < 0.1); /* ... on average over both */
        free(x);
        sosmc_judgement_free(&j);
        sosmc_free(s);
    }
    assert_int_equal(outside, 0);
}

/* Half-normal coordinates in a box: log Z = 8 log integral of exp(-(x - 1/2)^2/2 - (x - 1)^2/2) over (0, 1). */
static void tempering_is_right(void **state)
{
    static const double zeros[8] = {0}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const box k = {.low = zeros, .high = ones};
    const double theta = 0.5, pi = 3.14159265358979323846;
    double one = exp(-0.0625) * sqrt(pi) / 2 * (erf(0.25) - erf(-0.75)), mean = 0;
    double exact = 0.75 + exp(-0.0625) * (exp(-0.5625) - exp(-0.0625)) / 2 / one; /* of a coordinate */
    sosmc_temper_task t = {
        .model = {.dim_x = 8, .dim_theta = 1, .self = &k, .energy = energy, .x_low = zeros, .x_high = ones},
        .theta = &theta,
        .score = {.self = &k, .eval = first_coordinate},
        .seed = 3};
    sosmc_tempered r;
    double *x = malloc(4096 * 8 * sizeof *x);
    assert_int_equal(sosmc_temper(&t, &r, x), SOSMC_OK);
    assert_int_equal(r.verdict.status, SOSMC_CONVERGED);
    assert_true(fabs(r.log_z.value - 8 * log(one)) < 4 * r.log_z.error && r.log_z.error < 0.05);
    assert_true(fabs(r.reward.value - exact) < 4 * r.reward.error && r.reward.error < 0.02);
    for (int i = 0; i < 4096 * 8; i++) {
        assert_true(x[i] > 0 && x[i] < 1);
        mean += x[i] / (4096 * 8);
    }
    assert_true(fabs(mean - exact) < 0.02);
    assert_true(sosmc_temper_memory(&t) > 0);
    assert_int_equal(outside, 0);

    sosmc_law *wide = sosmc_law_create(8, 0); /* a start that has mass outside, and bounds that cannot be */
    sosmc_sampler *s;
    assert_int_equal(sosmc_law_add(wide, 1, NULL, ones), SOSMC_OK);
    t.start = wide;
    assert_int_equal(sosmc_sampler_create(&s, &t), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_sampler_message(s), "coordinate 0"));
    sosmc_sampler_free(s);
    sosmc_law_free(wide);
    t.start = NULL;
    t.model.x_low = ones;
    assert_int_equal(sosmc_sampler_create(&s, &t), SOSMC_EINVAL);
    sosmc_sampler_free(s);
    free(x);
}

/* An upper bound alone, and points near it: x < 0 with U = -x has log Z = 0 and mean -1. */
static int ramp(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    look(self, b);
    for (int i = 0; i < b->n; i++) U[i] = -b->x[i];
    for (int i = 0; gx && i < b->n; i++) gx[i] = -1;
    return 0;
}

static void an_upper_bound_is_one(void **state)
{
    const double zero = 0;
    const box k = {.high = &zero};
    sosmc_temper_task t = {.model = {.dim_x = 1, .dim_theta = 1, .self = &k, .energy = ramp, .x_high = &zero},
                           .theta = &zero,
                           .score = {.self = &k, .eval = first_coordinate}};
    sosmc_tempered r;
    assert_int_equal(sosmc_temper(&t, &r, NULL), SOSMC_OK);
    assert_true(fabs(r.log_z.value) < 4 * r.log_z.error && r.log_z.error < 0.05);
    assert_true(fabs(r.reward.value + 1) < 4 * r.reward.error);
    double x[] = {-2, 0.5}, U[2];
    assert_int_equal(sosmc_energies(&t.model, &zero, 2, x, 1, U), SOSMC_OK); /* U of x, without a Jacobian */
    assert_true(U[0] == 2 && U[1] == INFINITY);
    sosmc_fresh f = {.chains = 4, .averaged = 2, .step = 0.1, .low = -2, .high = -1}; /* have no such coordinates */
    assert_int_equal(sosmc_fresh_reward(&t.model, &zero, &t.score, &f, NULL, NULL, NULL, NULL), SOSMC_EINVAL);
}

/* Rows stay points x: mean of (y - theta)^2/2 + (y - 1)^2/2 + log Z is least where E[x] over (0, inf) is the rows' mean. */
static void data_are_points_of_x(void **state)
{
    static const double zero[1] = {0}, data[6] = {0.2, 0.4, 0.9, 1.1, 1.5, 2.2};
    const box k = {.low = zero};
    const sosmc_rows rows = {.data = data, .rows = 6, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem p = {
        .model = {.dim_x = 1, .dim_theta = 1, .self = &k, .energy = energy, .grad_theta = grad_theta, .x_low = zero},
        .objective = sosmc_likelihood(sosmc_rows_source(&rows), 6)};
    /* E[x] = m + s phi(m/s) / Phi(m/s), s = sqrt(1/2), m = (theta + 1)/2 */
    double low = -9, high = 9, mean = 0, loss = 0;
    for (int i = 0; i < 6; i++) mean += data[i] / 6;
    for (int i = 0; i < 100; i++) {
        double m = ((low + high) / 2 + 1) / 2;
        double at = m + exp(-m * m) / sqrt(3.14159265358979323846) / (1 + erf(m));
        *(at < mean ? &low : &high) = (low + high) / 2;
    }
    for (int i = 0; i < 6; i++) loss += ((data[i] - low) * (data[i] - low) + (data[i] - 1) * (data[i] - 1)) / 12;
    loss += log(exp(-(low - 1) * (low - 1) / 4) * sqrt(3.14159265358979323846) / 2 * (1 + erf((low + 1) / 2)));
    sosmc_solution r;
    assert_int_equal(sosmc_solve(&r, &p, NULL), SOSMC_OK);
    assert_int_equal(r.judgement.verdict.status, SOSMC_CONVERGED);
    assert_true(fabs(r.judgement.theta[0] - low) < 4 * r.judgement.theta_mc_error[0]);
    assert_true(fabs(r.judgement.loss.value - loss) < 4 * r.judgement.loss.error && r.judgement.loss.error < 0.05);
    sosmc_solution_free(&r);

    sosmc_settings c = sosmc_defaults();
    c.scheme = sosmc_scheme_sosmc(2000);
    c.kernel = sosmc_mala(0.5);
    c.optimiser = sosmc_adam(0.05);
    c.judge = 0.1;
    sosmc *s;
    sosmc_judgement j;
    assert_int_equal(sosmc_create(&s, &p, &c), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 600, NULL, NULL), SOSMC_OK);
    assert_true(fabs(sosmc_last(s)->loss - loss) < 0.1);
    assert_int_equal(sosmc_judge(s, NULL, &j, NULL, 0), SOSMC_OK);
    assert_true(fabs(j.theta[0] - low) < 4 * j.theta_mc_error[0]);
    assert_true(fabs(j.loss.value - loss) < 4 * j.loss.error);
    sosmc_judgement_free(&j);
    sosmc_free(s);
    assert_int_equal(outside, 0);

    const double high_row = 1.2;
    p.model.x_high = &high_row;
    assert_int_equal(sosmc_create(&s, &p, &c), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(s), "row 4 has 1.5 in coordinate 0"));
    sosmc_free(s);
}

/* ---------------------------------------------------------------------------- bits */

static uint64_t end_of(const sosmc_problem *p, int threads, int stopped)
{
    sosmc_settings c = sosmc_defaults();
    c.scheme = sosmc_scheme_sosmc(500);
    c.kernel = sosmc_mala(0.3);
    c.optimiser = sosmc_adam(0.05);
    c.threads = threads;
    c.seed = 4;
    sosmc *s;
    memory bytes = {.used = 0};
    assert_int_equal(sosmc_create(&s, p, &c), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 20, NULL, NULL), SOSMC_OK);
    if (stopped) {
        assert_int_equal(sosmc_save(s, memory_put, &bytes), SOSMC_OK);
        sosmc_free(s);
        assert_int_equal(sosmc_create(&s, p, &c), SOSMC_OK);
        assert_int_equal(sosmc_load(s, memory_get, &bytes), SOSMC_OK);
        free(bytes.bytes);
    }
    assert_int_equal(sosmc_run(s, 20, NULL, NULL), SOSMC_OK);
    uint64_t hash = sosmc_hash(s);
    sosmc_free(s);
    return hash;
}

static uint64_t solved(const sosmc_problem *p, const sosmc_solve_options *o, int stopped)
{
    sosmc_solver *s;
    memory bytes = {.used = 0};
    assert_int_equal(sosmc_solver_create(&s, p, o), SOSMC_OK);
    for (int k = 0; k < stopped; k++) assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    if (stopped) {
        assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
        sosmc_solver_free(s);
        assert_int_equal(sosmc_solver_create(&s, p, o), SOSMC_OK);
        assert_int_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_OK);
        free(bytes.bytes);
    }
    assert_int_equal(sosmc_solver_run(s), SOSMC_OK);
    uint64_t hash = sosmc_solver_hash(s);
    sosmc_solver_free(s);
    return hash;
}

static uint64_t tempered(const sosmc_temper_task *t, int stopped)
{
    sosmc_sampler *s, *other;
    memory bytes = {.used = 0};
    assert_int_equal(sosmc_sampler_create(&s, t), SOSMC_OK);
    for (int k = 0; k < stopped; k++) assert_int_equal(sosmc_sampler_step(s), SOSMC_OK);
    if (stopped) { /* the sampler that wrote it is gone when the other goes on */
        assert_int_equal(sosmc_sampler_save(s, memory_put, &bytes), SOSMC_OK);
        assert_int_equal(sosmc_sampler_create(&other, t), SOSMC_OK);
        sosmc_sampler_free(s);
        s = other;
        assert_int_equal(sosmc_sampler_load(s, memory_get, &bytes), SOSMC_OK);
        free(bytes.bytes);
    }
    while (!sosmc_sampler_state(s)->done) assert_int_equal(sosmc_sampler_step(s), SOSMC_OK);
    uint64_t hash = sosmc_sampler_hash(s);
    sosmc_sampler_free(s);
    return hash;
}

static void the_bits_are_the_same(void **state)
{
    sosmc_problem p = pair();
    sosmc_solve_options o = {.particles = 256, .seed = 6};
    uint64_t engine = end_of(&p, 1, 0), solver = solved(&p, &o, 0);
    assert_true(end_of(&p, 1, 1) == engine && end_of(&p, 3, 0) == engine);
    for (int k = 1; k < 30; k += 7) assert_true(solved(&p, &o, k) == solver);
    o.threads = 3;
    assert_true(solved(&p, &o, 0) == solver);
    for (int level = 0; level < 2; level++) {
        o.simd = sosmc_simd_named(level ? "avx2" : "plain");
        if (o.simd) assert_true(solved(&p, &o, 0) == solver);
    }
    const double theta = 1;
    sosmc_temper_task t = {.model = p.model, .theta = &theta, .particles = 300};
    uint64_t sampler = tempered(&t, 0);
    for (int k = 1; k < 10; k += 2) assert_true(tempered(&t, k) == sampler);
    t.threads = 2;
    assert_true(tempered(&t, 0) == sampler);

    /* a state is of its bounds */
    sosmc_solver *s;
    sosmc *e;
    sosmc_sampler *m;
    memory bytes = {.used = 0}, of_engine = {.used = 0}, of_sampler = {.used = 0};
    sosmc_settings c = sosmc_defaults();
    c.kernel = sosmc_mala(0.3);
    c.optimiser = sosmc_adam(0.05);
    assert_int_equal(sosmc_solver_create(&s, &p, &o), SOSMC_OK);
    assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
    sosmc_solver_free(s);
    assert_int_equal(sosmc_create(&e, &p, &c), SOSMC_OK);
    assert_int_equal(sosmc_save(e, memory_put, &of_engine), SOSMC_OK);
    sosmc_free(e);
    assert_int_equal(sosmc_sampler_create(&m, &t), SOSMC_OK);
    assert_int_equal(sosmc_sampler_save(m, memory_put, &of_sampler), SOSMC_OK);
    sosmc_sampler_free(m);
    const double less[] = {0.5, -INFINITY};
    p.model.x_low = t.model.x_low = less;
    assert_int_equal(sosmc_solver_create(&s, &p, &o), SOSMC_OK);
    assert_int_equal(sosmc_solver_load(s, memory_get, &bytes), SOSMC_EINVAL);
    assert_int_equal(sosmc_create(&e, &p, &c), SOSMC_OK);
    assert_int_equal(sosmc_load(e, memory_get, &of_engine), SOSMC_EINVAL);
    assert_int_equal(sosmc_sampler_create(&m, &t), SOSMC_OK);
    assert_int_equal(sosmc_sampler_load(m, memory_get, &of_sampler), SOSMC_EINVAL);
    sosmc_sampler_free(m);
    sosmc_solver_free(s);
    sosmc_free(e);
    free(bytes.bytes);
    free(of_engine.bytes);
    free(of_sampler.bytes);
}

/* ---------------------------------------------------------------------------- refusals */

static void expect_refusal(const sosmc_problem *p, const char *words)
{
    sosmc_settings c = sosmc_defaults();
    c.kernel = sosmc_mala(0.3);
    c.optimiser = sosmc_adam(0.05);
    sosmc *e;
    sosmc_solver *s;
    assert_int_equal(sosmc_create(&e, p, &c), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(e), words));
    assert_int_equal(sosmc_solver_create(&s, p, NULL), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_solver_message(s), words));
    sosmc_free(e);
    sosmc_solver_free(s);
}

static void what_cannot_be_is_refused(void **state)
{
    sosmc_problem p = pair();
    const double high[] = {INFINITY, 3}, equal[] = {1, 3}, nan_at_1[] = {0, NAN};
    p.model.x_high = high; /* may be */
    sosmc_solver *s;
    assert_int_equal(sosmc_solver_create(&s, &p, NULL), SOSMC_OK);
    sosmc_solver_free(s);
    p.model.x_high = equal;
    expect_refusal(&p, "in coordinate 0 model.x_low is 1 and model.x_high is 1");
    p = pair();
    p.model.x_low = nan_at_1;
    expect_refusal(&p, "in coordinate 1 model.x_low is nan");
    p = pair();
    p.model.prox = no_prox;
    sosmc_settings c = sosmc_defaults();
    c.kernel = sosmc_myula(0.1, 0.1, SOSMC_MYULA_CACHED);
    sosmc *e;
    assert_int_equal(sosmc_create(&e, &p, &c), SOSMC_EINVAL);
    assert_non_null(strstr(sosmc_message(e), "proximal map"));
    sosmc_free(e);

    /* starts of the user's own: mass outside, points outside, points inside */
    double points[512][2];
    for (int i = 0; i < 512; i++) points[i][0] = 1.01 + i / 100.0, points[i][1] = i % 7 - 3.0;
    const sosmc_rows rows = {.data = *points, .rows = 512, .mode = SOSMC_ROWS_IN_ORDER};
    p = pair();
    p.init = sosmc_standard_normal();
    expect_refusal(&p, "in coordinate 0, where the model's bounds are 1 and inf");
    p.init = sosmc_rows_source(&rows);
    assert_int_equal(sosmc_solver_create(&s, &p, NULL), SOSMC_OK);
    sosmc_solver_free(s);
    points[300][0] = 1; /* on the bound */
    expect_refusal(&p, "init: particle 300 has 1 in coordinate 0");
    const double other[] = {-INFINITY, -3};
    points[300][0] = -5;
    p.model.x_low = other;
    expect_refusal(&p, "init: particle 0 has -3 in coordinate 1");
}

/* ---------------------------------------------------------------------------- checks of the model */

static int wrong_gradient(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int rc = energy(self, theta, b, U, gx);
    for (int i = 0; gx && i < b->n; i++) gx[b->ld + i] *= 1.1;
    return rc;
}

static void checks_know_bounds(void **state)
{
    sosmc_settings c = sosmc_defaults();
    c.kernel = sosmc_mala(0.1);
    c.optimiser = sosmc_adam(0.05);
    sosmc_problem p = pair();
    sosmc_check_report r;
    assert_int_equal(sosmc_check(&p, &c, NULL, &r), SOSMC_OK);
    assert_int_equal(r.failed, 0);
    p.model.energy = wrong_gradient;
    assert_int_equal(sosmc_check(&p, &c, NULL, &r), SOSMC_OK);
    assert_int_equal(r.item[0].verdict, SOSMC_CHECK_FAIL);
    assert_int_equal(r.item[0].coordinate, 1);
    p = pair();
    p.init = sosmc_standard_normal();
    assert_int_equal(sosmc_check(&p, &c, NULL, &r), SOSMC_OK);
    assert_string_equal(r.item[0].name, "initial law");
    assert_non_null(strstr(r.item[r.count - 1].sentence, "coordinate 0"));
    assert_int_equal(outside, 0);
}

static int begin(void **state)
{
    outside = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_solver_is_right, begin),
        cmocka_unit_test_setup(chosen_kernels_are_right, begin),
        cmocka_unit_test_setup(tempering_is_right, begin),
        cmocka_unit_test_setup(an_upper_bound_is_one, begin),
        cmocka_unit_test_setup(data_are_points_of_x, begin),
        cmocka_unit_test_setup(the_bits_are_the_same, begin),
        cmocka_unit_test_setup(what_cannot_be_is_refused, begin),
        cmocka_unit_test_setup(checks_know_bounds, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
