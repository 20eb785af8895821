/* test_judge_verdict.c: the verdict. Every condition alone gives one sentence with its number in it, and none gives "converged";
 * then runs that were spoiled on purpose: what is told of them is right or they are not called good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "base/student.h"
#include "exact_problems.h"
#include "expect_engine.h"
#include "judgements.h"
#include "stats.h"

/* ---------------------------------------------------------------------------- one condition at a time */

/* A run of which everything was measured and nothing is wrong. */
static sosmc_measured healthy(void)
{
    sosmc_measured m = sosmc_nothing_measured();
    m.dim_theta = 7;
    m.particles = 345;
    m.weighted = m.optimises = 1;
    m.iterations = 1000;
    m.collapsed = 0;
    m.tail_from = 256;
    m.observed = 40;
    m.newton = 0.003;
    m.newton_expected = 0.001;
    m.newton_limit = 0.007;
    m.imprecise = 0.07;
    m.newton_worst = 4;
    m.newton_worst_step = -0.0421;
    m.newton_worst_error = 0.0333;
    m.renewals = 2;
    m.hessian_definite = 1;
    m.mobility = 0.3;
    m.step = 0.1;
    m.first_ess = 0.8;
    m.first_khat = 0.2;
    m.score_spread = 0.5;
    m.pass_particles = 512;
    m.pass_temperatures = 5;
    m.pass_arrived = 1;
    m.pass_survivors = 0.6;
    m.pass_khat = 0.4;
    m.fresh_worst = 2;
    m.fresh_step = 0.05;
    m.fresh_error = 0.03;
    m.fresh_limit = 4;
    m.fresh_worth = 0.001;
    m.loss_unit = 1;
    m.gradient_ratio = 1;
    m.gradient_error = 1e-9;
    m.gradient_which = "dU/dx";
    return m;
}

static void fails(sosmc_measured *m)
{
    m->failed = SOSMC_ENUMERIC;
    m->failed_why = "iteration 77: the energy of particle 3 is not finite";
}
static void collapses(sosmc_measured *m) { m->collapsed = 123; }
static void has_a_wrong_gradient(sosmc_measured *m)
{
    m->gradient_ratio = 1.04;
    m->gradient_which = "grad_theta";
}
static void is_short(sosmc_measured *m) { m->iterations = 50; }
static void ends_at_a_bound(sosmc_measured *m)
{
    m->at_bound = 3;
    m->bound = -2.5;
}
static void has_no_minimum(sosmc_measured *m) { m->hessian_definite = 0; }
static void still_moves(sosmc_measured *m) { m->newton = 0.0456; }
static void is_imprecise(sosmc_measured *m) { m->newton_expected = 0.0721; }
static void loses_its_groups(sosmc_measured *m) { m->renewals = 37; }
static void is_contradicted(sosmc_measured *m)
{
    m->fresh_step = 0.36;
    m->fresh_worth = 0.087;
}
static void is_frozen(sosmc_measured *m) { m->mobility = 0.0037; }
static void has_its_step_at_a_bound(sosmc_measured *m) { m->step = m->step_bound = 1e-6; }
static void has_a_constant_reward(sosmc_measured *m) { m->score_spread = 0; }
/* Fresh particles that agree with theta would confirm the run, whatever its start was. */
static void is_not_covered(sosmc_measured *m)
{
    m->fresh_worst = -1;
    m->first_khat = 1.73;
    m->first_ess = 0.012;
}
/* A network: nothing is known of theta but how near it comes to the best of all densities. */
static void is_far_from_the_best(sosmc_measured *m)
{
    m->theta_unknown = "it has too many parameters";
    m->excess = 0.0456;
    m->excess_error = 0.0021;
    m->to_gain = 0.33;
}
static void may_be_far_from_the_best(sosmc_measured *m)
{
    is_far_from_the_best(m);
    m->excess_error = 0.0789;
}
static void is_near_the_best(sosmc_measured *m)
{
    is_far_from_the_best(m);
    m->excess = 0.0007;
}
static void is_unknown(sosmc_measured *m) { m->theta_unknown = "it has too many parameters"; }
static void does_not_arrive(sosmc_measured *m) { m->pass_arrived = 0.42; }
static void has_few_survivors(sosmc_measured *m) { m->pass_survivors = 0.034; }

/* Of a solver. */
static void is_solved(sosmc_measured *m)
{
    m->automatic = m->likelihood = 1;
    m->fresh_worst = -1;
}
static void has_a_bent_hessian(sosmc_measured *m)
{
    is_solved(m);
    m->bent = 0.12;
    m->bent_where = 1;
}
static void has_a_blunt_hessian(sosmc_measured *m)
{
    is_solved(m);
    m->blunt = 0.14;
    m->blunt_where = 5;
}
static void has_a_step_that_is_off(sosmc_measured *m)
{
    is_solved(m);
    m->off = -0.0612;
    m->off_where = 6;
}

typedef struct {
    const char *name;
    void (*spoil)(sosmc_measured *m);
    int status;
    const char *words[4]; /* the numbers, and what to change */
} condition;

static const condition conditions[] = {
    {"failed", fails, SOSMC_RUN_FAILED, {"failed", "iteration 77"}},
    {"dead", collapses, SOSMC_RUN_FAILED, {"345 particles", "123 iterations", "more particles"}},
    {"gradient", has_a_wrong_gradient, SOSMC_NOT_CONVERGED, {"grad_theta", "1.04", "mend"}},
    {"short", is_short, SOSMC_NOT_CONVERGED, {"50 iterations", "at least 128"}},
    {"bound", ends_at_a_bound, SOSMC_NOT_CONVERGED, {"theta_4", "-2.5", "widen"}},
    {"minimum", has_no_minimum, SOSMC_NOT_CONVERGED, {"not positive definite", "more iterations"}},
    {"newton", still_moves, SOSMC_NOT_CONVERGED, {"0.046", "theta_5", "0.0421", "more iterations"}},
    {"imprecise", is_imprecise, SOSMC_NOT_CONVERGED, {"0.072", "0.07", "more particles"}},
    {"groups", loses_its_groups, SOSMC_NOT_CONVERGED, {"37 times", "40 observed", "more particles"}},
    {"contradicted", is_contradicted, SOSMC_NOT_CONVERGED, {"theta_3", "-0.36", "12.0", "0.087"}},
    {"frozen", is_frozen, SOSMC_NOT_CONVERGED, {"frozen", "0.0037", "larger kernel step"}},
    {"step", has_its_step_at_a_bound, SOSMC_NOT_CONVERGED, {"1e-06", "adapt"}},
    {"reward", has_a_constant_reward, SOSMC_NOT_CONVERGED, {"345 particles", "reward"}},
    {"initial law", is_not_covered, SOSMC_NOT_CONVERGED, {"initial law", "0.012", "1.73", "wider"}},
    {"excess", is_far_from_the_best, SOSMC_NOT_CONVERGED, {"0.046 above", "14 %", "larger network"}},
    {"imprecise excess", may_be_far_from_the_best, SOSMC_NOT_CONVERGED, {"0.046", "0.079", "judge: cost"}},
    {"unknown", is_unknown, SOSMC_NOT_CONVERGED, {"not known", "too many parameters"}},
    {"pass", does_not_arrive, SOSMC_NOT_CONVERGED, {"0.42", "temperature"}},
    {"bent", has_a_bent_hessian, SOSMC_NOT_CONVERGED, {"theta_2", "12 %", "jump"}},
    {"blunt", has_a_blunt_hessian, SOSMC_NOT_CONVERGED, {"theta_6", "14 %", "take 1400 particles"}},
    {"off", has_a_step_that_is_off, SOSMC_NOT_CONVERGED, {"theta_7", "-0.061", "more particles"}},
    {"survivors", has_few_survivors, SOSMC_NOT_CONVERGED, {"0.034", "512", "not to be trusted"}},
};
enum { CONDITIONS = sizeof conditions / sizeof *conditions };

static void each_condition_has_its_sentence(void **state)
{
    sosmc_verdict_words v;
    for (int k = 0; k < CONDITIONS; k++) {
        sosmc_measured m = healthy();
        conditions[k].spoil(&m);
        sosmc_verdict(&m, &v);
        print_message("    %s: %s\n", conditions[k].name, v.reasons > 0 ? v.reason[0] : "no reason");
        assert_int_equal(v.status, conditions[k].status);
        assert_int_equal(v.reasons, 1);
        for (int w = 0; w < 4 && conditions[k].words[w]; w++) assert_contains(v.reason[0], conditions[k].words[w]);
    }
}

static void without_a_condition_it_has_converged(void **state)
{
    sosmc_verdict_words v;
    sosmc_measured m = healthy();
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_CONVERGED);
    assert_int_equal(v.reasons, 0);
    is_near_the_best(&m);
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_CONVERGED);
    m.optimises = 0; /* sampling alone: nothing is asked of theta */
    m.newton = 1;
    m.hessian_definite = 0;
    m.renewals = 40;
    m.score_spread = 0;
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_CONVERGED);
}

/* Numbers that were not measured say nothing, whatever the rest is. */
static void what_was_not_measured_is_not_judged(void **state)
{
    sosmc_verdict_words v;
    sosmc_measured m = sosmc_nothing_measured();
    m.dim_theta = 1;
    m.particles = 100;
    m.weighted = m.optimises = 1;
    m.iterations = 1000;
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_CONVERGED);
    assert_int_equal(v.reasons, 0);
}

/* All at once: every sentence has room, and a failure is told alone. */
static void many_conditions_have_many_sentences(void **state)
{
    sosmc_verdict_words v;
    sosmc_measured m = healthy();
    for (int k = 2; k < CONDITIONS; k++) conditions[k].spoil(&m);
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_NOT_CONVERGED);
    assert_true(v.reasons >= 10 && v.reasons <= SOSMC_REASONS);
    for (int r = 0; r < v.reasons; r++)
        assert_true(strlen(v.reason[r]) > 20 && strlen(v.reason[r]) < SOSMC_SENTENCE - 1);
    fails(&m);
    sosmc_verdict(&m, &v);
    assert_int_equal(v.status, SOSMC_RUN_FAILED);
    assert_contains(v.reason[0], "iteration 77");
}

static void parameters_have_the_users_names(void **state)
{
    static const char names[2][8] = {"mu", "log_tau"};
    sosmc_measured m = sosmc_nothing_measured();
    sosmc_verdict_words v;
    m.automatic = m.optimises = 1;
    m.dim_theta = 2;
    m.runs_away = -2;
    m.runs_from = 0;
    m.runs_to = -7.25;
    for (int k = 0; k < 4; k++) {
        m.names = k % 2 ? names[0] : NULL;
        m.name_room = 8;
        m.keeps_falling = k / 2;
        sosmc_verdict(&m, &v);
        const char *words = k / 2 ? " keeps decreasing (it went from 0 to -7.25)"
                                  : " is not determined: it went from 0 to -7.25";
        const char *name = k % 2 ? "log_tau" : "theta_2";
        assert_int_equal(v.reasons, 1);
        assert_memory_equal(v.reason[0], name, strlen(name));
        assert_memory_equal(v.reason[0] + strlen(name), words, strlen(words));
    }
}

static void states_have_names(void **state)
{
    assert_string_equal(sosmc_verdict_name(SOSMC_CONVERGED), "converged");
    assert_string_equal(sosmc_verdict_name(SOSMC_NOT_CONVERGED), "not_converged");
    assert_string_equal(sosmc_verdict_name(SOSMC_RUN_FAILED), "failed");
}

/* ---------------------------------------------------------------------------- runs spoiled on purpose */

typedef struct {
    int runs, flagged, wrong, silent, right_flagged, good, good_flagged;
} account;

/* The largest error of what is told, in errors; those of theta corrected for the number of parameters. */
static double worst_of(const exact_problem *e, const sosmc_judgement *j)
{
    exact_values v = e->values(e, j->theta, NULL);
    const double exact[] = {v.loss, v.log_z, v.kl, v.reward};
    const sosmc_number *told[] = {&j->loss, &j->log_z, &j->kl, &j->reward};
    double worst = 0;
    for (int q = 0; q < 4; q++)
        if (!isnan(exact[q]) && isfinite(told[q]->error))
            worst = fmax(worst, fabs(told[q]->value - exact[q]) / told[q]->error);
    double corrected = sosmc_i_student_quantile(1 - 0.00135 / j->dim_theta, SOSMC_GROUPS - 1) / 3;
    for (int k = 0; j->theta_mc_error && k < j->dim_theta; k++)
        worst = fmax(worst, fabs(j->theta[k] - e->best[k]) / j->theta_mc_error[k] / corrected);
    return worst;
}

static void run_spoiled(exact_problem e, int how, uint64_t seed, account *a)
{
    int64_t iterations = 1000;
    sosmc *s = NULL;
    sosmc_settings cfg = exact_settings(&e, 300, iterations, 'o');
    cfg.seed = stats_seed(seed);
    if (!exact_spoil(&e, how, &cfg, &iterations)) return;
    assert_int_equal(sosmc_create(&s, &e.problem, &cfg), SOSMC_OK);
    (void)sosmc_run(s, iterations, NULL, NULL); /* it may fail */
    sosmc_judgement j = expect_judgement(s, NULL);
    int wrong = worst_of(&e, &j) > 3, flagged = j.verdict.status != SOSMC_CONVERGED;
    assert_true(flagged == (j.verdict.reasons > 0));
    if (wrong && !flagged)
        print_message("    %s, %s, seed %llu: wrong by %.1f errors and called good\n", e.name, exact_spoils[how],
                      (unsigned long long)cfg.seed, worst_of(&e, &j));
    a->runs++;
    a->flagged += flagged;
    a->wrong += wrong;
    a->silent += wrong && !flagged;
    a->right_flagged += flagged && !wrong;
    a->good += how == EXACT_GOOD;
    a->good_flagged += flagged && how == EXACT_GOOD;
    sosmc_judgement_free(&j);
    sosmc_free(s);
}

/* At most 1 % of all runs are wrong by more than three stated errors and called good, and at most 5 % of those with good settings
 * are flagged: exact binomial probabilities against these shares. Of a frozen, a short and a badly stepped run it is demanded
 * outright. */
static void spoiled_runs_are_named(void **state)
{
    static const char *const names[] = {"reverse", "energy", "linear5", "far"};
    static const int named[] = {EXACT_FROZEN, EXACT_SHORT, EXACT_ULA2};
    const double alarm = 1e-6;
    account all = {0};
    int each = stats_by_tier(8, 40, 1), good = stats_by_tier(12, 200, 2);
    for (size_t p = 0; p < sizeof names / sizeof *names; p++) {
        exact_problem e;
        assert_int_equal(exact_open(&e, names[p], NULL), 0);
        for (int how = 0; how < EXACT_SPOILS; how++) {
            account a = {0};
            for (int r = 0; r < (how == EXACT_GOOD ? good : each); r++)
                run_spoiled(e, how, 6000 + 1000 * (uint64_t)how + (uint64_t)r, &a);
            for (int k = 0; k < 3; k++) assert_true(how != named[k] || a.flagged == a.runs);
            const int *from = (const int *)&a;
            int *to = (int *)&all;
            for (size_t k = 0; k < sizeof a / sizeof(int); k++) to[k] += from[k];
        }
        exact_close(&e);
    }
    print_message(
        "    %d runs, %d wrong, %d of them called good; right and flagged %d; with good settings %d, flagged %d\n",
        all.runs, all.wrong, all.silent, all.right_flagged, all.good, all.good_flagged);
    assert_true(all.silent <= 0.01 * all.runs || stats_binomial_p(all.runs, all.silent, 0.01) > alarm);
    assert_true(all.good_flagged <= 0.05 * all.good || stats_binomial_p(all.good, all.good_flagged, 0.05) > alarm);
    /* The control: were nothing ever flagged, that many wrong runs would be called good. */
    assert_true(each == 1 || stats_binomial_p(all.runs, all.wrong, 0.01) < alarm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_condition_has_its_sentence),
        cmocka_unit_test(without_a_condition_it_has_converged),
        cmocka_unit_test(what_was_not_measured_is_not_judged),
        cmocka_unit_test(many_conditions_have_many_sentences),
        cmocka_unit_test(parameters_have_the_users_names),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(spoiled_runs_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
