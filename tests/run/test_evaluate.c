/* test_evaluate.c: the rows of evaluation.csv against the lattice by hand, at the theta the engine holds.
 *
 * Every number of a row is taken a second time, from sosmc_lattice_exact, sosmc_cloud and the energies at the data, at
 * the engine's theta; a run that is cut anywhere and resumed must leave the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runfile/config.h"
#include "run/evaluate.h"
#include "files/files.h"
#include "report/evaluation_figures.h"
#include "job/problem.h"
#include "scratch.h"

/* ---------------------------------------------------------------------------- a small run */

#define MIXTURE "model: {type: gaussian_mixture, means: [[-2, -1], [2, 1]], variance: 0.6, theta: [0.2, -0.1]}\n"
#define REST                                                                \
    "kernel: {type: ula, step: 0.02}\noptimiser: {type: adam, rate: 0.1}\n" \
    "resampling: {scheme: systematic, threshold: 0.5}\nparticles: 200\niterations: 8\nseed: 5\n"
#define REWARD "reward: {type: half_plane, normal: [0, -1]}, beta: 0.3, reference: {theta: [0.2, -0.1]}"

static const char reverse[] = MIXTURE "objective: {type: reward_reverse, " REWARD "}\nscheme: sosmc\n" REST
                                      "evaluate: {every: 3, nodes: 60, low: -7, high: 7}\n";

typedef struct {
    config *c;
    job j;
    sosmc *engine;
    evaluation *e;
} small_run;

/* `extra` is NULL or an assignment for config_set. */
static void prepare(small_run *r, const char *text, const char *extra)
{
    int io = 0;
    *r = (small_run){.c = config_parse(text, "test.yaml", ERROR)};
    if (!r->c) fail_msg("%s", sentence);
    if (extra) assert_fine(config_set(r->c, extra, ERROR));
    assert_fine(config_resolve(r->c, ERROR));
    assert_fine(job_build(&r->j, r->c, &io, ERROR));
    if (sosmc_create(&r->engine, &r->j.problem, &r->j.settings) != SOSMC_OK) fail_msg("%s", sosmc_message(r->engine));
}

static int stop_now; /* what the hook answers */
static int stop(void *ctx) { return stop_now; }
static const run_hooks hooks = {.stop = stop};

static void begin(small_run *r, const char *text, const char *extra)
{
    prepare(r, text, extra);
    assert_fine(evaluation_open(&r->e, r->c, &r->j, scratch, 0, &hooks, ERROR));
}

static void advance(small_run *r, int64_t until)
{
    while (sosmc_iteration(r->engine) < until) {
        assert_int_equal(sosmc_step(r->engine), SOSMC_OK);
        assert_fine(evaluation_step(r->e, r->engine, sosmc_last(r->engine), ERROR));
    }
}

static void end(small_run *r)
{
    assert_fine(evaluation_close(r->e, ERROR));
    sosmc_free(r->engine);
    job_free(&r->j);
    config_free(r->c);
}

/* ---------------------------------------------------------------------------- rows */

typedef struct {
    csv_table t;
    int64_t row;
} row;

static row row_of(int64_t iteration)
{
    csv_options options = {.header = CSV_HEADER_YES};
    row out = {.row = -1};
    assert_fine(csv_read(at("evaluation.csv"), &options, &out.t, ERROR));
    for (int64_t i = 0; i < out.t.rows; i++)
        if (out.t.column[0].number[i] == (double)iteration) out.row = i;
    assert_true(out.row >= 0);
    return out;
}

static double get(const row *r, const char *name)
{
    const csv_column *c = csv_find(&r->t, name);
    if (!c || !c->number) fail_msg("no column of numbers called %s", name);
    return c->number[r->row];
}

static void assert_same(double a, double b, const char *name)
{
    if (!(a == b || (isnan(a) && isnan(b)))) fail_msg("%s is %.17g; expected %.17g", name, a, b);
}
#define assert_field(r, name, value) assert_same(get(r, name), value, name)

static void assert_iterations(const double *expected, int64_t n)
{
    row r = row_of((int64_t)expected[0]);
    assert_int_equal(r.t.rows, n);
    for (int64_t i = 0; i < n; i++) assert_true(r.t.column[0].number[i] == expected[i]);
    csv_free(&r.t);
}

enum { NODES = 60 };
static const sosmc_lattice lattice = {.nodes = NODES, .low = {-7, -7}, .high = {7, 7}};

static sosmc_exact by_hand(const small_run *r, double beta)
{
    static double U[NODES * NODES], U_ref[NODES * NODES], R[NODES * NODES];
    static const double theta_ref[] = {0.2, -0.1};
    const sosmc_problem *p = &r->j.problem;
    sosmc_exact x;
    assert_int_equal(sosmc_lattice_energy(&p->model, sosmc_theta(r->engine), &lattice, 1, U), SOSMC_OK);
    assert_int_equal(sosmc_lattice_energy(&p->model, theta_ref, &lattice, 1, U_ref), SOSMC_OK);
    for (int g = 0; g < NODES * NODES; g++) R[g] = sosmc_lattice_node(&lattice, 1, g / NODES) < 0;
    sosmc_lattice_exact(&lattice, U, U_ref, R, beta, &x);
    return x;
}

static void rows_are_exact_at_the_current_theta(void **state)
{
    small_run r;
    static const double when[] = {0, 3, 6, 7};
    begin(&r, reverse, NULL);
    for (int k = 0; k < 4; k++) {
        advance(&r, (int64_t)when[k] + 1);
        assert_fine(evaluation_flush(r.e, ERROR));
        row line = row_of((int64_t)when[k]);
        sosmc_exact x = by_hand(&r, 0.3);
        assert_field(&line, "updates", when[k] + 1);
        assert_field(&line, "logz", x.logz);
        assert_field(&line, "reward", x.reward);
        assert_field(&line, "kl", x.kl);
        assert_field(&line, "loss", x.loss);
        assert_field(&line, "ref_reward", x.ref_reward);
        assert_field(&line, "best_reward", x.best_reward);
        assert_field(&line, "best_kl", x.best_kl);
        assert_field(&line, "best_loss", x.best_loss);
        assert_field(&line, "excess", x.excess);
        assert_field(&line, "edge", x.edge);
        assert_field(&line, "particle_kl", sosmc_last(r.engine)->kl);
        assert_field(&line, "particle_loss", sosmc_last(r.engine)->loss);
        assert_field(&line, "fresh", NAN);
        assert_field(&line, "fresh_error", NAN);
        assert_field(&line, "loglik", NAN);
        csv_free(&line.t);
    }
    assert_iterations(when, 4);
    end(&r);
}

/* What lies outside of the box is missing on every lattice alike, so that their differences do not show it. */
static void errors_count_what_the_box_leaves_out(void **state)
{
    small_run r;
    evaluation_values value, error;
    prepare(&r, reverse, NULL);
    for (int high = 4; high <= 8; high++) {
        const sosmc_lattice l = {.nodes = 200, .low = {-8, -8}, .high = {high, 8}};
        assert_fine(evaluation_exact(&r.j, r.j.problem.theta0, &l, &value, &error));
        double off = value.logz - log(2 * M_PI * 0.6);
        print_message("to %d: edge %.2g, log Z off by %.2g, error %.2g\n", high, value.edge, off, error.logz);
        assert_true(fabs(off) <= 2 * error.logz + 1e-12);
        assert_true(error.logz < 10 * value.edge + 1e-3);
    }
    sosmc_free(r.engine);
    job_free(&r.j);
    config_free(r.c);
}

static void rewards_of_the_cloud(void **state)
{
    enum { N = 200 };
    small_run r;
    static double x[2 * N], logw[N];
    double plain = 0, weighted = 0;
    begin(&r, reverse, "resampling.threshold=never"); /* weights that differ */
    advance(&r, 7);
    assert_fine(evaluation_flush(r.e, ERROR));
    assert_int_equal(sosmc_cloud(r.engine, x, logw), SOSMC_OK);
    for (size_t i = 0; i < N; i++) {
        double R = x[2 * i + 1] < 0;
        plain += R / N;
        weighted += exp(logw[i]) * R;
    }
    row line = row_of(6);
    assert_true(fabs(get(&line, "particle_reward") - plain) < 1e-12);
    assert_true(fabs(get(&line, "weighted_reward") - weighted) < 1e-12);
    assert_true(fabs(plain - weighted) > 1e-6);
    csv_free(&line.t);
    end(&r);
}

static void forward_divergence(void **state)
{
    static const char text[] = MIXTURE
        "objective: {type: reward_forward, reward: {type: half_plane, normal: [0, -1]}, beta: 0.3, reference: "
        "{theta: [0.2, -0.1], batch: 64}}\nscheme: impdiff\n" REST
        "evaluate: {every: 4, nodes: 60, low: -7, high: 7}\n";
    small_run r;
    begin(&r, text, NULL);
    advance(&r, 5);
    assert_fine(evaluation_flush(r.e, ERROR));
    sosmc_exact x = by_hand(&r, 0.3);
    row line = row_of(4);
    assert_field(&line, "reward", x.reward);
    assert_field(&line, "kl", x.forward_kl);
    assert_true(fabs(get(&line, "loss") - (0.3 * x.forward_kl - x.reward)) < 1e-15);
    assert_field(&line, "ref_reward", x.ref_reward);
    assert_field(&line, "best_reward", NAN);
    assert_field(&line, "best_kl", NAN);
    assert_field(&line, "best_loss", NAN);
    assert_field(&line, "excess", NAN);
    csv_free(&line.t);
    end(&r);
}

static void likelihood_of_all_points(void **state)
{
    static const char text[] = MIXTURE "objective: {type: ebm_likelihood, data: {type: two_moons, points: 100}, batch: "
                                       "10}\nscheme: impdiff\n" REST
                                       "evaluate: {every: 5, nodes: 60, low: -7, high: 7, chains: 4}\n";
    small_run r;
    int64_t rows = 0;
    static double U[100];
    begin(&r, text, NULL);
    advance(&r, 6);
    assert_fine(evaluation_flush(r.e, ERROR));
    const double *points = job_points(&r.j, &rows);
    assert_int_equal(rows, 100);
    assert_int_equal(sosmc_energies(&r.j.problem.model, sosmc_theta(r.engine), rows, points, 1, U), SOSMC_OK);
    row line = row_of(5);
    double loglik = sosmc_lattice_loglik(rows, U, by_hand(&r, 0).logz);
    assert_true(isfinite(loglik));
    assert_field(&line, "loglik", loglik);
    assert_field(&line, "loss", -loglik);
    assert_field(&line, "reward", NAN);
    assert_field(&line, "kl", NAN);
    assert_field(&line, "particle_reward", NAN);
    assert_field(&line, "fresh", NAN); /* no reward to average */
    csv_free(&line.t);
    end(&r);
}

/* ---------------------------------------------------------------------------- fresh chains */

#define CHAINS "evaluate={every: 2, nodes: 60, low: -7, high: 7, chains: 40, burn_in: 100, averaged: 50, step: 0.02}"

static double fresh_of(const char *text, const char *seed, int64_t iteration)
{
    small_run r;
    prepare(&r, text, CHAINS);
    assert_fine(config_set(r.c, seed, ERROR));
    assert_fine(config_resolve(r.c, ERROR));
    r.j.settings.seed = config_unsigned(r.c, "seed");
    assert_fine(evaluation_open(&r.e, r.c, &r.j, scratch, 0, &hooks, ERROR));
    advance(&r, iteration + 1);
    assert_fine(evaluation_flush(r.e, ERROR));
    row line = row_of(iteration);
    double mean = get(&line, "fresh"), spread = get(&line, "fresh_error"), exact = get(&line, "reward");
    assert_true(mean > 0 && mean < 1 && spread > 0 && spread < 0.2);
    assert_true(fabs(mean - exact) < 6 * spread + 0.1); /* chains from the box share the modes otherwise than pi does */
    csv_free(&line.t);
    end(&r);
    return mean;
}

/* theta does not move, so the chains alone make the difference. */
static void fresh_chains_are_new_every_time_and_shared_by_methods(void **state)
{
    static const char still[] = MIXTURE
        "objective: {type: reward_reverse, " REWARD
        "}\nscheme: sosmc\noptimiser: {type: sgd, rate: 1.0e-300}\nparticles: 20\niterations: 8\n";
    static const char other[] = MIXTURE
        "objective: {type: reward_reverse, " REWARD
        "}\nscheme: impdiff\noptimiser: {type: sgd, rate: 1.0e-300}\nparticles: 30\niterations: 8\n";
    double first = fresh_of(still, "seed=5", 0);
    assert_true(fresh_of(still, "seed=5", 0) == first);
    assert_true(fresh_of(other, "seed=5", 0) == first);
    assert_true(fresh_of(still, "seed=5", 2) != first);
    assert_true(fresh_of(still, "seed=6", 0) != first);
}

static void chains_that_run_away_have_no_mean(void **state)
{
    small_run r;
    begin(&r, reverse, CHAINS);
    assert_fine(evaluation_close(r.e, ERROR));
    assert_fine(config_set(r.c, "evaluate.step=1.0e150", ERROR));
    assert_fine(config_resolve(r.c, ERROR));
    assert_fine(evaluation_open(&r.e, r.c, &r.j, scratch, 0, &hooks, ERROR));
    advance(&r, 1);
    assert_fine(evaluation_flush(r.e, ERROR));
    row line = row_of(0);
    assert_field(&line, "fresh", NAN);
    assert_true(isfinite(get(&line, "reward")));
    csv_free(&line.t);
    end(&r);
}

/* ---------------------------------------------------------------------------- stopping and going on */

static char *whole_run(void)
{
    small_run r;
    begin(&r, reverse, NULL);
    advance(&r, 8);
    end(&r);
    return slurp("evaluation.csv", NULL);
}

static char *summary_of(const evaluation *e)
{
    atomic_file f;
    assert_fine(atomic_open(&f, at("summary.json"), ERROR));
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    assert_int_equal(evaluation_summary(e, &w), 0);
    json_close(&w);
    assert_fine(atomic_close(&f, ERROR));
    return slurp("summary.json", NULL);
}

/* Checkpoint after `saved` iterations, death after `killed`. */
static void interrupted_run(int64_t saved, int64_t killed, const char *expected)
{
    small_run r;
    begin(&r, reverse, NULL);
    advance(&r, saved);
    assert_fine(evaluation_flush(r.e, ERROR));
    assert_int_equal(sosmc_save_file(r.engine, at("checkpoint")), SOSMC_OK);
    advance(&r, killed);
    end(&r);
    prepare(&r, reverse, NULL);
    assert_int_equal(sosmc_load_file(r.engine, at("checkpoint")), SOSMC_OK);
    assert_fine(evaluation_open(&r.e, r.c, &r.j, scratch, saved, NULL, ERROR));
    char *between = slurp("evaluation.csv", NULL);
    assert_true(strlen(between) < strlen(expected) || saved == 8);
    assert_memory_equal(between, expected, strlen(between));
    free(between);
    assert_fine(evaluation_step(r.e, r.engine, sosmc_last(r.engine), ERROR)); /* has its row: nothing */
    advance(&r, 8);
    end(&r);
    char *now = slurp("evaluation.csv", NULL);
    assert_string_equal(now, expected);
    free(now);
}

static void a_resumed_run_leaves_the_same_rows(void **state)
{
    char *expected = whole_run();
    interrupted_run(4, 4, expected);
    interrupted_run(4, 7, expected);
    interrupted_run(5, 8, expected);
    interrupted_run(8, 8, expected);
    free(expected);
}

/* Iteration 6 was done and saved, but an interrupt came before its row. */
static void a_row_that_is_owed_is_made_up_for(void **state)
{
    small_run r;
    char *expected = whole_run();
    begin(&r, reverse, NULL);
    advance(&r, 6);
    assert_int_equal(sosmc_step(r.engine), SOSMC_OK);
    assert_int_equal(sosmc_save_file(r.engine, at("checkpoint")), SOSMC_OK);
    end(&r);
    prepare(&r, reverse, NULL);
    assert_int_equal(sosmc_load_file(r.engine, at("checkpoint")), SOSMC_OK);
    assert_fine(evaluation_open(&r.e, r.c, &r.j, scratch, 7, NULL, ERROR));
    for (int i = 0; i < 2; i++)
        assert_fine(evaluation_step(r.e, r.engine, sosmc_last(r.engine), ERROR)); /* once is enough */
    advance(&r, 8);
    end(&r);
    char *now = slurp("evaluation.csv", NULL);
    assert_string_equal(now, expected);
    free(now);
    free(expected);
}

static void the_summary_has_the_last_row(void **state)
{
    small_run r;
    begin(&r, reverse, NULL);
    char *none = summary_of(r.e), *nothing = summary_of(NULL);
    assert_null(strstr(none, "evaluated"));
    assert_null(strstr(nothing, "evaluated"));
    advance(&r, 8);
    char *before = summary_of(r.e);
    assert_fine(evaluation_close(r.e, ERROR));
    assert_fine(evaluation_open(&r.e, r.c, &r.j, scratch, 8, NULL, ERROR)); /* nothing is left to do */
    char *after = summary_of(r.e);
    assert_string_equal(before, after);
    json_t *json = NULL;
    assert_fine(json_read(at("summary.json"), &json, ERROR));
    json_t *exact = json_object_get(json, "evaluated");
    sosmc_exact x = by_hand(&r, 0.3);
    assert_int_equal(json_integer_value(json_object_get(exact, "iteration")), 7);
    assert_int_equal(json_integer_value(json_object_get(exact, "updates")), 8);
    assert_true(json_real_value(json_object_get(exact, "ref_reward")) == x.ref_reward);
    assert_true(json_is_null(json_object_get(exact, "fresh")));
    assert_null(json_object_get(exact, "loss")); /* a run has one */
    json_decref(json);
    free(none);
    free(nothing);
    free(before);
    free(after);
    end(&r);
}

static void a_stop_leaves_no_half_row(void **state)
{
    small_run r;
    stop_now = 0;
    begin(&r, reverse, CHAINS);
    advance(&r, 1);
    assert_fine(evaluation_flush(r.e, ERROR));
    char *before = slurp("evaluation.csv", NULL);
    stop_now = 1;
    advance(&r, 3);
    assert_fine(evaluation_flush(r.e, ERROR));
    char *after = slurp("evaluation.csv", NULL);
    stop_now = 0;
    assert_string_equal(before, after);
    char *summary = summary_of(r.e);
    assert_non_null(strstr(summary, "\"iteration\": 0"));
    free(before);
    free(after);
    free(summary);
    end(&r);
}

/* ---------------------------------------------------------------------------- none, and mistakes */

static void none_is_none(void **state)
{
    small_run r;
    (void)unlink(at("evaluation.csv"));
    begin(&r, reverse, "evaluate.every=0");
    assert_null(r.e);
    assert_fine(evaluation_check(r.c, &r.j, ERROR));
    advance(&r, 2);
    assert_fine(evaluation_flush(r.e, ERROR));
    end(&r);
    assert_int_not_equal(access(at("evaluation.csv"), F_OK), 0);
}

static void mistakes_are_sentences(void **state)
{
    static const char wide[] =
        "model: {type: gaussian_mixture, means: [[0, 0, 0], [1, 1, 1]], theta: [0, 0]}\nobjective: {type: "
        "reward_reverse, reward: x1, beta: 1, reference: {theta: [0, 0]}}\nscheme: sosmc\nevaluate:\n  every: 10\n";
    small_run r;
    (void)unlink(at("evaluation.csv"));
    prepare(&r, wide, NULL);
    assert_int_equal(evaluation_open(&r.e, r.c, &r.j, scratch, 0, &hooks, ERROR), -1);
    assert_null(r.e);
    assert_non_null(strstr(sentence, "test.yaml:5: evaluate.every is 10"));
    assert_non_null(strstr(sentence, "has 3"));
    end(&r);
    prepare(&r, reverse, "evaluate.low=8");
    assert_int_equal(evaluation_open(&r.e, r.c, &r.j, scratch, 0, &hooks, ERROR), -1);
    assert_non_null(strstr(sentence, "evaluate.high is 7; expected more than evaluate.low, which is 8"));
    end(&r);
    prepare(&r, reverse, "objective.reward=log(x1 + 6.9)");
    assert_int_equal(evaluation_open(&r.e, r.c, &r.j, scratch, 0, &hooks, ERROR), -1);
    assert_non_null(strstr(sentence, "objective.reward is not finite everywhere"));
    end(&r);
    assert_int_not_equal(access(at("evaluation.csv"), F_OK), 0);
}

/* ---------------------------------------------------------------------------- figures */

static void figures_show_what_there_is(void **state)
{
    evaluation_gallery g;
    (void)unlink(at("evaluation.csv"));
    assert_fine(evaluation_figures(&g, scratch, ERROR));
    assert_int_equal(g.n, 0);
    evaluation_figures_free(&g);
    free(whole_run());
    assert_fine(evaluation_figures(&g, scratch, ERROR));
    assert_int_equal(g.n, 2);
    assert_string_equal(g.item[0].figure.name, "exact-reward");
    assert_string_equal(g.item[1].figure.name, "excess");
    assert_int_equal(g.item[1].series[0].n, 4);
    assert_int_equal(g.item[0].panel.n, 5); /* exact, particles, weighted, optimum, reference */
    if (plot_available()) {
        char *svg[EVALUATION_FIGURES] = {NULL};
        plot_figure figure[] = {g.item[0].figure, g.item[1].figure};
        assert_fine(plot_write(figure, 2, scratch, svg, ERROR));
        assert_non_null(strstr(svg[0], "optimum"));
        free(svg[0]);
        free(svg[1]);
    }
    evaluation_figures_free(&g);
    assert_fine(files_write(at("evaluation.csv"), "time,reward\n1,2\n", 16, ERROR));
    assert_int_equal(evaluation_figures(&g, scratch, ERROR), -1);
    assert_non_null(strstr(sentence, "evaluation.csv is damaged"));
}

/* ---------------------------------------------------------------------------- all of them */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_exact_at_the_current_theta),
        cmocka_unit_test(errors_count_what_the_box_leaves_out),
        cmocka_unit_test(rewards_of_the_cloud),
        cmocka_unit_test(forward_divergence),
        cmocka_unit_test(likelihood_of_all_points),
        cmocka_unit_test(fresh_chains_are_new_every_time_and_shared_by_methods),
        cmocka_unit_test(chains_that_run_away_have_no_mean),
        cmocka_unit_test(a_resumed_run_leaves_the_same_rows),
        cmocka_unit_test(a_row_that_is_owed_is_made_up_for),
        cmocka_unit_test(the_summary_has_the_last_row),
        cmocka_unit_test(none_is_none),
        cmocka_unit_test(mistakes_are_sentences),
        cmocka_unit_test(figures_show_what_there_is),
        cmocka_unit_test(a_stop_leaves_no_half_row),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
