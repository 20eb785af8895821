/* test_untuned.c: sosmc_solve on problems with exact answers, from a model and an objective alone: right, and silent about nothing.
 *
 * bench/untuned makes the whole table; here every problem that takes little time runs with a few seeds, in its own coordinates and in
 * others. The limits are those of the table with the binomial error of so few runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "untuned/coordinates.h"
#include "untuned/untuned_run.h"

/* Of different kinds, some hundredths of a second each; of the hard ones none. */
static const char *const names[] = {"dual2",      "far3",         "ring8",    "tiny1",     "rare1",
                                    "far100_fwd", "reverse",      "energy",   "hier1",     "hier6",
                                    "scales_x",   "schools",      "dyestuff", "far_start", "t_latent",
                                    "square",     "scales_theta", "well_far", "banana",    "cbpp"};
enum { NAMES = sizeof names / sizeof *names, SEEDS = 3 };

typedef struct {
    int runs, solved, right_flagged, silent, far, intervals, covered, losses, losses_covered;
} totals;

static void run_problem(const char *name, int moved, totals *all)
{
    untuned_problem plain, other, *u = &plain;
    untuned_tally tally = {.runs = 0};
    if (untuned_open(&plain, name, getenv("SOSMC_TEST_DATA"))) {
        print_message("[   SKIP   ] %s: its data are not here (SOSMC_TEST_DATA)\n", name);
        return;
    }
    for (uint64_t seed = 40; seed < 40 + SEEDS; seed++) {
        untuned_outcome o;
        sosmc_solve_options options = {.seed = seed};
        if (moved) {
            untuned_coordinates c = untuned_coordinates_of(seed);
            assert_int_equal(untuned_move(&other, &plain, &c), 0);
            u = &other;
        }
        untuned_solve(u, &options, &o);
        assert_true(o.status == SOSMC_OK || untuned_flagged(&o));
        untuned_count(&tally, u, &o);
        if (!untuned_right(&o) || untuned_flagged(&o))
            print_message("%s, seed %d: gap %.3g, %.3g nats, %.1f errors; %s\n", name, (int)seed, o.gap, o.nats,
                          o.largest, untuned_flagged(&o) ? o.reason : "not flagged");
        if (moved) untuned_close(&other);
    }
    untuned_close(&plain);
    all->runs += tally.runs;
    all->solved += tally.solved;
    all->right_flagged += tally.right_flagged;
    all->silent += tally.silent;
    all->far += tally.silent_far;
    all->intervals += tally.intervals;
    all->covered += tally.covered;
    all->losses += tally.losses;
    all->losses_covered += tally.losses_covered;
}

static void check(const totals *t)
{
    print_message(
        "%d runs: %d right and not flagged, %d right but flagged, %d silently wrong (%d of them far); theta's intervals hold "
        "%d of %d, the loss's %d of %d\n",
        t->runs, t->solved, t->right_flagged, t->silent, t->far, t->covered, t->intervals, t->losses_covered,
        t->losses);
    assert_true(t->runs >= (NAMES - 1) * SEEDS);
    assert_int_equal(t->far, 0);
    assert_true(t->silent <= 1);
    assert_true(t->solved >= 0.93 * t->runs);
    assert_true(t->right_flagged <= 0.05 * t->runs + 1);
    double theta = (double)t->covered / t->intervals, loss = (double)t->losses_covered / t->losses;
    assert_true(theta >= 0.86 &&
                loss >= 0.86); /* 90 %, and twice the binomial error; errors that are too large cannot be told so */
}

static void right_from_a_model_and_an_objective(void **state)
{
    totals t = {0};
    for (int k = 0; k < NAMES; k++) run_problem(names[k], 0, &t);
    check(&t);
}

static void right_in_other_coordinates(void **state)
{
    totals t = {0};
    for (int k = 0; k < NAMES; k++) run_problem(names[k], 1, &t);
    check(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_from_a_model_and_an_objective),
                                       cmocka_unit_test(right_in_other_coordinates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
