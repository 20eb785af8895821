/* test_reweighed.c: all numbers of a reward from one set of importance draws, against closed forms.
 *
 * The model is N(theta, 1), the reference N(0, 1), the reward x, the weight of the divergence beta: then the best of all densities is N(1/beta, 1),
 *
 *     reward = theta,  KL = theta^2 / 2,  loss = beta theta^2 / 2 - theta,  excess = beta (theta - 1/beta)^2 / 2,
 *     best reward = 1 / beta,  best KL = 1 / (2 beta^2),  best loss = -1 / (2 beta),  to gain = 1 / (2 beta) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "assertions.h"
#include "judge/numbers.h"
#include "judge/result.h"
#include "stats.h"

enum { DRAWS = 2048, NUMBERS = 7 };
static const char *const names[NUMBERS] = {"reward", "KL", "loss", "excess", "best reward", "best KL", "best loss"};

/* ---------------------------------------------------------------------------- a normal law and its reward */

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        double away = b->x[i] - theta[0];
        U[i] = 0.5 * away * away;
        if (gx) gx[i] = away;
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++) g[0] -= c[i] * (b->x[i] - theta[0]);
    return 0;
}

static const sosmc_model normal = {.dim_x = 1, .dim_theta = 1, .energy = energy, .grad_theta = grad_theta};
static const double one[1] = {1}, zero[1] = {0};
static const sosmc_linear linear = {.dim = 1, .weight = one};

/* Draws of N(mean, sd^2) that are weighed straight to the model, and the numbers; returns what sosmc_i_reweighed does. */
static int reweigh(double theta, double beta, double mean, double sd, uint64_t seed, sosmc_judgement *out)
{
    sosmc_score score = sosmc_linear_reward(&linear);
    sosmc_objective objective = sosmc_reward_reverse(score, beta, zero);
    laws q = {.dim = 1};
    pass_cloud p;
    pass_task task = {.model = &normal,
                      .theta = &theta,
                      .score = &score,
                      .theta_ref = zero,
                      .q = &q,
                      .particles = DRAWS,
                      .threads = 1,
                      .plain = 0.5,
                      .only_plain = 1,
                      .seed = seed};
    assert_int_equal(sosmc_i_laws_add(&q, 1, 0, &mean, &sd), 0);
    sosmc_i_laws_close(&q);
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    assert_true(p.arrived >= 1 && p.temperatures == 0);
    assert_int_equal(sosmc_i_result_open(out, 1), SOSMC_OK);
    int rc = sosmc_i_reweighed(&objective, &p, out);
    sosmc_i_pass_free(&p);
    sosmc_i_laws_free(&q);
    return rc;
}

/* ---------------------------------------------------------------------------- tests */

static void intervals_hold_closed_forms(void **state)
{
    const double theta = 0.5, beta = 0.8;
    const double exact[NUMBERS] = {theta,
                                   theta * theta / 2,
                                   beta * theta * theta / 2 - theta,
                                   beta * (theta - 1 / beta) * (theta - 1 / beta) / 2,
                                   1 / beta,
                                   1 / (2 * beta * beta),
                                   -1 / (2 * beta)};
    int runs = stats_by_tier(120, 1000, 20);
    int64_t held[NUMBERS] = {0};
    stats_tally off[NUMBERS] = {{0}}, gain = {0};
    for (int r = 0; r < runs; r++) {
        sosmc_judgement j;
        assert_int_equal(reweigh(theta, beta, 0.6, 1.6, stats_seed(100 + (uint64_t)r), &j), 0);
        const sosmc_number *told[NUMBERS] = {&j.reward,      &j.kl,      &j.loss,     &j.excess,
                                             &j.best_reward, &j.best_kl, &j.best_loss};
        for (int k = 0; k < NUMBERS; k++) {
            held[k] += fabs(told[k]->value - exact[k]) <= 1.959963984540054 * told[k]->error;
            stats_add(&off[k], (told[k]->value - exact[k]) / told[k]->error);
        }
        assert_true(j.measured.excess == j.excess.value && j.measured.excess_error == j.excess.error);
        assert_close(j.loss.value - j.best_loss.value, j.excess.value, 1e-9);
        stats_add(&gain, j.measured.to_gain);
        sosmc_judgement_free(&j);
    }
    for (int k = 0; k < NUMBERS; k++) {
        print_message("    %s: %lld of %d held, off by %.2f errors on average\n", names[k], (long long)held[k], runs,
                      off[k].mean);
        assert_true(stats_coverage_p(runs, held[k]) > 1e-4);
        assert_true(fabs(off[k].mean) < 0.5);
    }
    assert_near(gain.mean, 1 / (2 * beta), 5 * stats_se(&gain));
}

/* At the best of all densities nothing is left, without any noise. */
static void the_best_density_has_no_excess(void **state)
{
    sosmc_judgement j;
    assert_int_equal(reweigh(1 / 0.8, 0.8, 0.6, 1.6, 7, &j), 0);
    assert_near(j.excess.value, 0, 1e-12);
    assert_near(j.excess.error, 0, 1e-12);
    assert_true(j.loss.error > 1e-4);
    sosmc_judgement_free(&j);
}

/* The draws cover the model, but not the best of all densities, N(20, 1), or not the reference. */
static void draws_that_do_not_reach_are_refused(void **state)
{
    sosmc_judgement j;
    assert_int_equal(reweigh(0.5, 0.05, 0.6, 1.6, 7, &j), -1);
    assert_true(isnan(j.loss.value) && isnan(j.excess.value) && isnan(j.best_loss.value)); /* nothing is filled */
    sosmc_judgement_free(&j);
    assert_int_equal(reweigh(12, 1 / 12.0, 12, 1.4, 7, &j), -1);
    sosmc_judgement_free(&j);
}

/* One particle has nearly all the mass of the best of all densities, which a Pareto index of the many others does not show; or a
 * reward is no number. */
static void single_particles_are_refused(void **state)
{
    enum { MANY = 4096 };
    static double memory[6 * MANY];
    static int eve[MANY];
    sosmc_objective objective = sosmc_reward_reverse(sosmc_linear_reward(&linear), 1, zero);
    pass_cloud p = {.n = MANY, .arrived = 1, .w = memory, .U = memory + MANY, .R = memory + 2 * MANY, .eve = eve};
    sosmc_judgement j;
    p.Uref = memory + 3 * MANY;
    p.class_sum = memory + 4 * MANY;
    p.parts = 1;
    p.part_end[0] = MANY;
    for (int i = 0; i < MANY; i++) {
        p.w[i] = 1.0 / MANY;
        p.U[i] = 1e-4 * ((i * 1103) % 997);
        p.R[i] = 1e-4 * ((i * 7) % 1013);
        eve[i] = i;
    }
    const double odd[] = {0.05, 15, NAN, -INFINITY};
    for (int k = 0; k < 4; k++) {
        p.R[9] = odd[k];
        assert_int_equal(sosmc_i_result_open(&j, 1), SOSMC_OK);
        assert_int_equal(sosmc_i_reweighed(&objective, &p, &j), k == 0 ? 0 : -1);
        sosmc_judgement_free(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_hold_closed_forms),
        cmocka_unit_test(the_best_density_has_no_excess),
        cmocka_unit_test(draws_that_do_not_reach_are_refused),
        cmocka_unit_test(single_particles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
