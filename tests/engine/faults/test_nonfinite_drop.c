/* test_nonfinite_drop.c: values that are not finite under the policies fail and drop, and which scheme knows which
 * policy.
 *
 * A stop has a status and a message with numbers, the same for any number of threads; a particle that is dropped loses
 * its weight and leaves the others alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "assertions.h"
#include "faulty_model.h"

/* ---------------------------------------------------------------------------- fail */

static void fail_names_the_offender(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 3, 1.0)};
    const double values[] = {NAN, INFINITY, -INFINITY};
    const char *const words[] = {"nan", "inf", "-inf"};
    for (int k = 0; k < 4; k++)
        for (int weighted = 0; weighted < 2; weighted++)
            for (int v = 0; v < 3; v++) {
                char first[512] = "";
                if (!weighted && k > 0)
                    continue; /* an invariant kernel without weights never evaluates where it stands */
                for (int threads = 1; threads <= 3; threads += 2) {
                    faulty_run l;
                    faulty_fill(&l, weighted ? sosmc_scheme_sosmc(N) : sosmc_scheme_unweighted(N), kernels[k]);
                    l.cfg.on_nonfinite = SOSMC_NONFINITE_FAIL;
                    l.cfg.threads = threads;
                    l.q.value = values[v];
                    l.q.offender[0] = 130;
                    l.q.offender[1] = 71; /* the lowest is reported */
                    l.q.offender[2] = 70;
                    faulty_open(&l);
                    faulty_steps(&l, 3);
                    assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
                    assert_contains(sosmc_message(l.s), "iteration 3");
                    assert_contains(sosmc_message(l.s), "particle 70");
                    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
                    assert_contains(sosmc_message(l.s), words[v]);
                    if (threads == 1) (void)snprintf(first, sizeof first, "%s", sosmc_message(l.s));
                    assert_string_equal(first, sosmc_message(l.s));
                    sosmc_free(l.s);
                }
            }
}

/* It is the gradient that is wrong: a message that shows a healthy energy would mislead. */
static void fail_shows_the_value_that_is_wrong(void **state)
{
    for (int at_start = 0; at_start < 2; at_start++) {
        faulty_run l;
        faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.on_nonfinite = SOSMC_NONFINITE_FAIL;
        l.q.where = IN_GX;
        l.q.offender[0] = 70;
        l.q.armed = at_start;
        sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
        if (!at_start) {
            assert_int_equal(status, SOSMC_OK);
            faulty_steps(&l, 2);
            status = faulty_bad_step(&l);
        }
        assert_int_equal(status, SOSMC_ENUMERIC);
        assert_contains(sosmc_message(l.s), "70");
        assert_contains(sosmc_message(l.s), "nan");
        sosmc_free(l.s);
    }
}

static void fail_inside_sweeps_and_pools(void **state)
{
    sosmc_scheme soul = sosmc_scheme_soul(20);
    soul.particles = soul.pool = N;
    const sosmc_scheme schemes[] = {soul, sosmc_scheme_pcd(N, 2 * N, 3), sosmc_scheme_moved_first(N)};
    for (int q = 0; q < 3; q++) {
        faulty_run l;
        faulty_fill(&l, schemes[q], sosmc_ula(0.05));
        l.q.offender[0] = 100;
        faulty_open(&l);
        faulty_steps(&l, 2);
        assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC); /* the default of unweighted schemes */
        assert_contains(sosmc_message(l.s), "iteration 2");
        assert_contains(sosmc_message(l.s), "particle 100");
        sosmc_free(l.s);
    }
}

/* ---------------------------------------------------------------------------- drop */

/* Dropping leaves the other particles' weights alone, up to the common constant. */
static void assert_others_untouched(const snapshot *with, const snapshot *without, int a, int b)
{
    double shift = NAN, sum = 0.0;
    for (int i = 0; i < N; i++) {
        if (i == a || i == b) {
            assert_true(with->logw[i] == -INFINITY);
            continue;
        }
        if (isnan(shift)) shift = with->logw[i] - without->logw[i];
        assert_true(fabs(with->logw[i] - without->logw[i] - shift) < 1e-12);
        for (int j = 0; j < D; j++) assert_true(with->x[i * D + j] == without->x[i * D + j]);
        sum += exp(with->logw[i]);
    }
    assert_true(fabs(sum - 1.0) < 1e-12);
}

static void drop_takes_the_weight(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 3, 1.0)};
    static snapshot with, without;
    for (int k = 0; k < 4; k++)
        for (int order = 0; order < 2; order++)
            for (int where = 0; where < 2; where++) { /* U or its gradient */
                faulty_run l, clean;
                if (where == 1 && k == 2) continue; /* RWM has no gradient */
                faulty_fill(&l, sosmc_scheme_sosmc(N), kernels[k]);
                l.cfg.scheme.order = order;
                l.cfg.scheme.ess_min = 0.0;
                l.cfg.optimiser = sosmc_sgd(0.05);
                l.cfg.on_nonfinite = where ? SOSMC_NONFINITE_DROP : SOSMC_NONFINITE_DEFAULT;
                l.q.where = where ? IN_GX : IN_ENERGY;
                clean = l;
                clean.p.model.self = clean.p.init.self = &clean.q;
                l.q.offender[0] = 3;
                l.q.offender[1] = 70;
                faulty_open(&l);
                faulty_open(&clean);
                faulty_steps(&l, 2);
                faulty_steps(&clean, 2);
                assert_int_equal(faulty_bad_step(&l), SOSMC_OK);
                faulty_steps(&clean, 1);
                assert_int_equal(sosmc_last(l.s)->nonfinite, 2);
                assert_int_equal(sosmc_last(clean.s)->nonfinite, 0);
                assert_true(sosmc_last(l.s)->ess <= N - 2);
                faulty_look(&l, &with);
                faulty_look(&clean, &without);
                assert_others_untouched(&with, &without, 3, 70);
                for (int q = 0; q < 20; q++) { /* never resampled, never back */
                    faulty_steps(&l, 1);
                    faulty_look(&l, &with);
                    assert_true(with.logw[3] == -INFINITY && with.logw[70] == -INFINITY);
                    assert_true(isfinite(with.logw[0]));
                    assert_int_equal(sosmc_last(l.s)->resampled, 0);
                    assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
                    assert_true(isfinite(sosmc_last(l.s)->grad_norm) && isfinite(sosmc_last(l.s)->mean_energy));
                }
                sosmc_free(l.s);
                sosmc_free(clean.s);
            }
}

/* Resampling replaces the dropped: no offspring of theirs is left, and all weights are equal. */
static void drop_ends_with_resampling(void **state)
{
    static snapshot before, after;
    for (int resampling = SOSMC_MULTINOMIAL; resampling <= SOSMC_SSP; resampling++) {
        faulty_run l;
        faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.scheme.ess_min = 2.0;
        l.cfg.scheme.resampling = resampling;
        l.q.offender[0] = 3;
        l.q.offender[1] = 70;
        faulty_open(&l);
        faulty_steps(&l, 2);
        faulty_look(&l, &before);
        assert_int_equal(faulty_bad_step(&l), SOSMC_OK);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 2);
        assert_int_equal(sosmc_last(l.s)->resampled, 1);
        faulty_look(&l, &after);
        for (int i = 0; i < N; i++) {
            assert_true(fabs(after.logw[i] + log(N)) < 1e-12);
            assert_true(after.x[i * D] != before.x[3 * D] && after.x[i * D] != before.x[70 * D]);
        }
        faulty_steps(&l, 2);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
        sosmc_free(l.s);
    }
}

/* A whole tile may die; a whole cloud may not. */
static void drop_until_nobody_is_left(void **state)
{
    static snapshot c;
    for (int k = 0; k < 2; k++)
        for (int threads = 1; threads <= 3; threads += 2) {
            faulty_run l;
            faulty_fill(&l, sosmc_scheme_sosmc(N), k ? sosmc_mala(0.1) : sosmc_ula(0.05));
            l.cfg.scheme.ess_min = 0.0;
            l.cfg.threads = threads;
            faulty_open(&l);
            faulty_steps(&l, 1);
            for (int i = TILE; i < 2 * TILE; i++) {
                l.q.offender[0] = i;
                assert_int_equal(faulty_bad_step(&l), SOSMC_OK);
            }
            faulty_look(&l, &c);
            for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i >= TILE && i < 2 * TILE));
            l.q.everyone = 1;
            assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 65");
            assert_contains(sosmc_message(l.s), "150 particles");
            assert_contains(sosmc_message(l.s), "weight zero");
            assert_int_equal(sosmc_last(l.s)->nonfinite, N);
            sosmc_free(l.s);
        }
}

static void a_dead_cloud_names_theta(void **state)
{
    faulty_run l;
    faulty_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.q.everyone = 1;
    faulty_open(&l);
    faulty_steps(&l, 2);
    assert_int_equal(faulty_bad_step(&l), SOSMC_ENUMERIC);
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    sosmc_free(l.s);
}

/* Where the new theta makes U infinite or undefined, dU/dtheta is so too, and zero times that is no number: a dropped
 * particle must not reach the gradient by way of 0 * NaN. Update 2 carries theta to where the wall stands. */
static void to_the_wall(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k == 2) theta[0] = 0.5;
}

static void drop_keeps_the_gradient_finite(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1)};
    for (int k = 0; k < 3; k++)
        for (int order = 0; order < 2; order++) {
            faulty_run l;
            int dropped = 0;
            faulty_fill(&l, sosmc_scheme_sosmc(N), kernels[k]);
            l.cfg.scheme.ess_min = 0.0;
            l.cfg.scheme.order = order;
            l.cfg.optimiser = (sosmc_optimiser){.name = "path", .step = to_the_wall};
            l.q.wall = 1.5;
            l.q.wall_from = 0.4;
            faulty_open(&l);
            for (int q = 0; q < 6; q++) {
                sosmc_status status = sosmc_step(l.s);
                if (status != SOSMC_OK) fail_msg("%s, order %d: %s", kernels[k].name, order, sosmc_message(l.s));
                assert_true(isfinite(sosmc_last(l.s)->grad_norm));
                dropped += sosmc_last(l.s)->nonfinite;
            }
            assert_true(dropped > 2);
            sosmc_free(l.s);
        }
}

/* ---------------------------------------------------------------------------- who knows which policy */

static void policies_belong_to_schemes(void **state)
{
    for (int weighted = 0; weighted < 2; weighted++)
        for (int sweeps = 1; sweeps <= 2; sweeps++)
            for (int policy = -1; policy <= SOSMC_NONFINITE_RESTART + 1; policy++) {
                int known = policy == SOSMC_NONFINITE_DEFAULT || policy == SOSMC_NONFINITE_FAIL ||
                            (weighted
                                 ? policy == SOSMC_NONFINITE_DROP || (policy == SOSMC_NONFINITE_RETRY && sweeps == 1)
                                 : policy == SOSMC_NONFINITE_RESTART);
                faulty_run l;
                faulty_fill(&l, weighted ? sosmc_scheme_sosmc(N) : sosmc_scheme_unweighted(N), sosmc_ula(0.05));
                l.cfg.scheme.sweeps = sweeps;
                l.cfg.on_nonfinite = policy;
                sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
                if (status != (known ? SOSMC_OK : SOSMC_EINVAL))
                    fail_msg("policy %d, weighted %d, sweeps %d: status %d", policy, weighted, sweeps, status);
                if (!known) assert_contains(sosmc_message(l.s), "on_nonfinite");
                sosmc_free(l.s);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_names_the_offender),      cmocka_unit_test(fail_shows_the_value_that_is_wrong),
        cmocka_unit_test(fail_inside_sweeps_and_pools), cmocka_unit_test(drop_takes_the_weight),
        cmocka_unit_test(drop_ends_with_resampling),    cmocka_unit_test(drop_until_nobody_is_left),
        cmocka_unit_test(a_dead_cloud_names_theta),     cmocka_unit_test(drop_keeps_the_gradient_finite),
        cmocka_unit_test(policies_belong_to_schemes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
