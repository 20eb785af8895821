/* test_optimisers.c: each optimiser against its published recursion, written again in long double, over 50 steps;
 * schedules against libm.
 *
 * The tolerance is 50 steps of a few ulps each, relative to the largest of |theta| and 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include <sosmc/sosmc.h>

enum { DIM = 3, STEPS = 50 };
typedef long double real;

/* Gradients of very different sizes, with changes of sign. */
static double gradient(int k, int j)
{
    const double size[DIM] = {1.0, 1e-3, 250.0};
    return size[j] * (sin(0.7 * k + j) + 0.2);
}

/* A recursion: theta, two memories and the gradient of one coordinate at update k. */
typedef void (*recursion)(int k, real g, real *theta, real *m, real *v);

static void run(sosmc_optimiser o, recursion next, const double *start)
{
    double theta[DIM], slots[2 * DIM] = {0}, g[DIM];
    real x[DIM], m[DIM] = {0}, v[DIM] = {0};
    assert_in_range(o.slots, 0, 2);
    for (int j = 0; j < DIM; j++) x[j] = theta[j] = start[j];
    for (int k = 0; k < STEPS; k++) {
        for (int j = 0; j < DIM; j++) g[j] = gradient(k, j);
        o.step(&o, k, DIM, g, theta, slots);
        for (int j = 0; j < DIM; j++) {
            next(k, g[j], &x[j], &m[j], &v[j]);
            real size = fmaxl(1.0L, fabsl(x[j]));
            assert_true(fabsl(theta[j] - x[j]) <= (real)(4 * (k + 1)) * DBL_EPSILON * size);
        }
    }
    for (int q = o.slots * DIM; q < 2 * DIM; q++) assert_true(slots[q] == 0.0); /* no slot more than it declared */
}

static const double start[DIM] = {0.5, -2.0, 3.0};

static void sgd(int k, real g, real *theta, real *m, real *v) { *theta -= (real)0.01 * g; }

static void heavy_ball(int k, real g, real *theta, real *m, real *v)
{
    *v = (real)0.9 * *v + g;
    *theta -= (real)0.01 * *v;
}

static void nesterov(int k, real g, real *theta, real *m, real *v)
{
    *v = (real)0.9 * *v + g;
    *theta -= (real)0.01 * (g + (real)0.9 * *v);
}

static void rmsprop(int k, real g, real *theta, real *m, real *v)
{
    *v = (real)0.95 * *v + (1.0L - (real)0.95) * g * g;
    *theta -= (real)0.02 * g / (sqrtl(*v) + (real)1e-8);
}

static void adagrad(int k, real g, real *theta, real *m, real *v)
{
    *v += g * g;
    *theta -= (real)0.1 * g / (sqrtl(*v) + (real)1e-8);
}

static void adam(int k, real g, real *theta, real *m, real *v)
{
    *m = (real)0.9 * *m + (1.0L - (real)0.9) * g;
    *v = (real)0.999 * *v + (1.0L - (real)0.999) * g * g;
    real mhat = *m / (1.0L - powl((real)0.9, k + 1)), vhat = *v / (1.0L - powl((real)0.999, k + 1));
    *theta -= (real)0.1 * mhat / (sqrtl(vhat) + (real)1e-8);
}

static void adamw(int k, real g, real *theta, real *m, real *v)
{
    *theta *= 1.0L - (real)0.1 * (real)0.02;
    adam(k, g, theta, m, v);
}

static void published_recursions(void **state)
{
    run(sosmc_sgd(0.01), sgd, start);
    run(sosmc_momentum(0.01, 0.9), heavy_ball, start);
    run(sosmc_nesterov(0.01, 0.9), nesterov, start);
    run(sosmc_rmsprop(0.02, 0.95), rmsprop, start);
    run(sosmc_adagrad(0.1), adagrad, start);
    run(sosmc_adam(0.1), adam, start);
    run(sosmc_adamw(0.1, 0.02), adamw, start);
}

/* After one step the bias corrections cancel the averages: every coordinate moves by lr, whatever the gradient's
 * size. */
static void first_adam_step_is_the_rate(void **state)
{
    const double g[DIM] = {4.0, -3e-4, 7e5};
    double theta[DIM] = {0}, slots[2 * DIM] = {0};
    sosmc_optimiser o = sosmc_adam(0.1);
    o.step(&o, 0, DIM, g, theta, slots);
    for (int j = 0; j < DIM; j++) {
        double expected = -0.1 * g[j] / (fabs(g[j]) + 1e-8);
        assert_true(fabs(theta[j] - expected) <= 8 * DBL_EPSILON * 0.1);
    }
}

/* Corrections far beyond the first thousand updates; the power must not lose its digits. */
static void late_bias_correction(void **state)
{
    const int64_t late[] = {6, 99, 12345, 1000000007, (int64_t)1 << 40};
    for (int q = 0; q < 5; q++) {
        double g = 1.0, theta = 0.0, slots[2] = {0.5, 2.0};
        sosmc_optimiser o = sosmc_adam(1.0);
        o.step(&o, late[q], 1, &g, &theta, slots);
        real t = (real)(late[q] + 1);
        real mhat = ((real)0.9 * 0.5L + (1.0L - (real)0.9)) / (1.0L - powl((real)0.9, t));
        real vhat = ((real)0.999 * 2.0L + (1.0L - (real)0.999)) / (1.0L - powl((real)0.999, t));
        real expected = -mhat / (sqrtl(vhat) + (real)1e-8);
        assert_true(fabsl((real)theta - expected) <= 1e-13L * fabsl(expected));
    }
}

static void adamw_decays_without_gradient(void **state)
{
    double theta[DIM], slots[2 * DIM] = {0};
    const double zero[DIM] = {0};
    memcpy(theta, start, sizeof theta);
    sosmc_optimiser w = sosmc_adamw(0.1, 0.5), plain = sosmc_adam(0.1);
    for (int k = 0; k < 10; k++) w.step(&w, k, DIM, zero, theta, slots);
    for (int j = 0; j < DIM; j++) assert_true(fabs(theta[j] - start[j] * pow(0.95, 10)) <= 1e-14);

    memcpy(theta, start, sizeof theta);
    for (int k = 0; k < 10; k++) plain.step(&plain, k, DIM, zero, theta, slots);
    assert_memory_equal(theta, start, sizeof theta);
}

/* The rate of a step is o->lr: what the engine multiplies by the schedule. */
static void rate_is_read_at_the_step(void **state)
{
    sosmc_optimiser all[] = {sosmc_sgd(1),     sosmc_momentum(1, 0.5), sosmc_nesterov(1, 0.5), sosmc_rmsprop(1, 0.9),
                             sosmc_adagrad(1), sosmc_adam(1),          sosmc_adamw(1, 0.1)};
    for (int q = 0; q < 7; q++) {
        double g[DIM] = {1.0, -2.0, 3.0}, theta[DIM], slots[2 * DIM] = {0};
        memcpy(theta, start, sizeof theta);
        assert_non_null(all[q].name);
        assert_true(all[q].clip == 0.0);
        all[q].lr = 0.0;
        all[q].step(&all[q], 0, DIM, g, theta, slots);
        assert_memory_equal(theta, start, sizeof theta);
    }
}

static void close_to(double value, double expected)
{
    assert_true(fabs(value - expected) <= 4e-15 * fabs(expected) + 1e-300);
}

static void schedules(void **state)
{
    const double pi = 3.14159265358979323846;
    const sosmc_schedule none = {.kind = SOSMC_SCHEDULE_CONSTANT};
    const sosmc_schedule robbins = {.kind = SOSMC_SCHEDULE_ROBBINS_MONRO, .a = 20.0, .b = 0.6};
    const sosmc_schedule decay = {.kind = SOSMC_SCHEDULE_EXPONENTIAL, .a = 150.0};
    const sosmc_schedule cosine = {.kind = SOSMC_SCHEDULE_COSINE, .a = 200.0, .b = 0.1};
    for (int k = 0; k < 1000; k++) {
        assert_true(sosmc_schedule_rate(none, 0.3, k) == 0.3);
        close_to(sosmc_schedule_rate(robbins, 0.3, k), 0.3 * pow(1.0 + k / 20.0, -0.6));
        close_to(sosmc_schedule_rate(decay, 0.3, k), 0.3 * exp(-k / 150.0));
        double arc = 0.3 * (0.1 + 0.45 * (1.0 + cos(pi * k / 200.0)));
        close_to(sosmc_schedule_rate(cosine, 0.3, k), k < 200 ? arc : 0.03);
    }
    assert_true(sosmc_schedule_rate(robbins, 0.3, 0) == 0.3); /* all start at lr exactly */
    assert_true(sosmc_schedule_rate(decay, 0.3, 0) == 0.3);
    close_to(sosmc_schedule_rate(cosine, 0.3, 0), 0.3);
    sosmc_schedule slow = cosine; /* a warm-up multiplies whatever the schedule says */
    slow.warmup = 10;
    for (int64_t k = 0; k < 30; k++) {
        double part = k < 10 ? (double)(k + 1) / 10 : 1;
        close_to(sosmc_schedule_rate(slow, 0.3, k), part * sosmc_schedule_rate(cosine, 0.3, k));
    }
    assert_true(sosmc_schedule_rate(decay, 0.3, 1000000) == 0.0); /* no subnormals at the end of a long run */
    const sosmc_schedule steps = {.kind = SOSMC_SCHEDULE_STEPS, .a = 468, .b = 0.97};
    for (int64_t k = 0; k < 60 * 468; k += 117) /* the first, the last and two others of every epoch */
        close_to(sosmc_schedule_rate(steps, 1e-4, k), 1e-4 * pow(0.97, floor((double)k / 468)));
    for (int64_t epoch = 1; epoch <= 60; epoch++) {
        assert_true(sosmc_schedule_rate(steps, 1e-4, 468 * epoch - 1) ==
                    sosmc_schedule_rate(steps, 1e-4, 468 * (epoch - 1)));
        assert_true(sosmc_schedule_rate(steps, 1e-4, 468 * epoch) < sosmc_schedule_rate(steps, 1e-4, 468 * epoch - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_recursions),     cmocka_unit_test(first_adam_step_is_the_rate),
        cmocka_unit_test(late_bias_correction),     cmocka_unit_test(adamw_decays_without_gradient),
        cmocka_unit_test(rate_is_read_at_the_step), cmocka_unit_test(schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
