/* test_own_kernel.c: kernels that a user writes with the public header alone. The fields that such a kernel does not use stay
 * zero: sosmc_create accepts it, and the run samples the right law. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sosmc/models.h>
#include <sosmc/sosmc.h>

#include "expect_engine.h"

enum { N = 1000, DIM = 2 };
static const double data[DIM] = {0.5, 1.5};
static const sosmc_hierarchical hierarchical = {.dim = DIM, .y = data};

/* The posterior of the hierarchical model is N((y + theta) / 2, 1/2) in every coordinate; x' = m + r (x - m) + s z leaves it
 * invariant when s^2 = (1 - r^2) / 2. The factor on s is 1, or wrong. */
static int autoregress(const sosmc_kernel *k, sosmc_move *m)
{
    const double *factor = k->self;
    double r = 1 - m->h, s = sqrt((1 - r * r) / 2) * (factor ? *factor : 1);
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (int j = 0; j < m->b.dim; j++)
        for (int i = 0; i < m->b.n; i++) {
            int e = j * m->b.ld + i;
            double mean = 0.5 * (data[j] + m->theta[0]);
            m->x_new[e] = mean + r * (m->x[e] - mean) + s * m->x_new[e];
        }
    return sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
}

/* The largest error of theta and of the means and variances after a fit, against what is known in closed form. */
static double worst_error(const sosmc_kernel *kernel)
{
    sosmc_problem p = {
        .model = sosmc_hierarchical_model(&hierarchical), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(N);
    cfg.optimiser = sosmc_sgd(0.2);
    cfg.kernel = *kernel;
    sosmc *s = expect_create(&p, &cfg);
    for (int k = 0; k < 200; k++) (void)expect_step(s);
    static double x[N * DIM], logw[N];
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    double theta = sosmc_theta(s)[0], worst = fabs(theta - sosmc_hierarchical_best(&hierarchical));
    for (int j = 0; j < DIM; j++) {
        double mean = 0, square = 0;
        for (int i = 0; i < N; i++) mean += exp(logw[i]) * x[i * DIM + j];
        for (int i = 0; i < N; i++) square += exp(logw[i]) * (x[i * DIM + j] - mean) * (x[i * DIM + j] - mean);
        worst = fmax(worst, fmax(fabs(mean - 0.5 * (data[j] + theta)), fabs(square - 0.5)));
    }
    worst = fmax(worst, fabs(sosmc_last(s)->logz - sosmc_hierarchical_loglik(&hierarchical, theta)));
    sosmc_free(s);
    return worst;
}

static void four_fields_are_enough(void **state)
{
    const sosmc_kernel own = {.name = "autoregressive", .step = autoregress, .h = 0.7, .invariant = 1};
    const double too_wide = 1.5;
    sosmc_kernel wrong = own;
    wrong.self = &too_wide;
    assert_true(worst_error(&own) < 0.12);
    assert_true(worst_error(&wrong) > 0.3);
}

/* A random walk with the public helpers, which has the bits of the library's own. */
static int walk(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_move_vector(m, 0), *ratio = sosmc_move_row(k, m, 0);
    sosmc_normals(m->rng, &m->b, z);
    for (size_t e = 0; e < sosmc_move_length(m); e++) m->x_new[e] = fma(sqrt(2 * m->h), z[e], m->x[e]);
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    if (rc) return rc;
    for (int i = 0; i < m->b.n; i++) ratio[i] = m->U[i] - m->U_new[i];
    sosmc_metropolis(k, m, ratio);
    return 0;
}

static void metropolis_is_within_reach(void **state)
{
    static double x[2][N * DIM], logw[2][N];
    sosmc_problem p = {
        .model = sosmc_hierarchical_model(&hierarchical), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    for (int own = 0; own < 2; own++) {
        sosmc_settings cfg = sosmc_defaults();
        cfg.scheme = sosmc_scheme_sosmc(N);
        cfg.kernel = sosmc_rwm(0.4);
        if (own)
            cfg.kernel = (sosmc_kernel){
                .name = "walk", .step = walk, .h = 0.4, .invariant = 1, .metropolis = 1, .scratch = 1};
        sosmc *s = expect_create(&p, &cfg);
        for (int k = 0; k < 10; k++) (void)expect_step(s);
        assert_true(sosmc_last(s)->accept > 0.2 && sosmc_last(s)->accept < 0.9);
        assert_int_equal(sosmc_cloud(s, x[own], logw[own]), SOSMC_OK);
        sosmc_free(s);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(logw[0], logw[1], sizeof logw[0]);
}

/* ---------------------------------------------------------------------------- parameters of its own */

static const char *half_open(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    if (k->h <= 1) return NULL;
    (void)snprintf(text, room, "kernel.h is %g; this kernel needs it to be at most 1%s", k->h,
                   weighted ? ", weighted" : "");
    return text;
}

static void a_kernel_checks_its_own_parameters(void **state)
{
    sosmc_problem p = {
        .model = sosmc_hierarchical_model(&hierarchical), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    cfg.kernel = (sosmc_kernel){
        .name = "autoregressive", .step = autoregress, .check = half_open, .h = 1.5, .invariant = 1};
    expect_refusal(&p, &cfg, SOSMC_EINVAL, "kernel.h is 1.5; this kernel needs it to be at most 1, weighted");
    cfg.scheme = sosmc_scheme_unweighted(N);
    expect_refusal(&p, &cfg, SOSMC_EINVAL, "kernel.h is 1.5; this kernel needs it to be at most 1");
    cfg.kernel.h = 1;
    sosmc_free(expect_create(&p, &cfg));
}

/* Each kernel of the library refuses what it reads and leaves alone what it does not. */
static void the_librarys_kernels_check_what_they_read(void **state)
{
    const sosmc_kernel momentum[] = {sosmc_hmc(0.1, 0, 1), sosmc_leapfrog(0.1, 1, -1), sosmc_underdamped(0.1, -1, 1)};
    const char *const wrong[] = {"kernel.leapfrog is 0", "kernel.mass is -1", "kernel.friction is -1"};
    sosmc_problem p = {
        .model = sosmc_hierarchical_model(&hierarchical), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    for (int k = 0; k < 3; k++) {
        cfg.kernel = momentum[k];
        expect_refusal(&p, &cfg, SOSMC_EINVAL, wrong[k]);
    }
    cfg.kernel = sosmc_mala(0.1);
    cfg.kernel.mass = -1;
    cfg.kernel.leapfrog = -1;
    sosmc_free(expect_create(&p, &cfg));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_fields_are_enough),
        cmocka_unit_test(metropolis_is_within_reach),
        cmocka_unit_test(a_kernel_checks_its_own_parameters),
        cmocka_unit_test(the_librarys_kernels_check_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
