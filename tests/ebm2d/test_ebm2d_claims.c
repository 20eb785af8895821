/* test_ebm2d_claims.c: the cells of the 2-D energy-based experiment and their run files against the experiment's constants,
 * verdicts worked out from made-up evidence, questions to made-up chains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runfile/config.h"
#include "ebm2d/ebm2d_page.h"
#include "files/files.h"
#include "reference.h"
#include "runtext.h"

enum { I = EBM2D_IMPDIFF, S = EBM2D_SOSMC };

static char error[1024];
#define ERROR error, sizeof error

/* ---------------------------------------------------------------------------- cells */

static int count(const ebm2d_plan *p, int group, int fresh)
{
    int n = 0;
    for (int i = 0; i < p->cells; i++) n += (int)p->cell[i].group == group && (!fresh || p->cell[i].fresh);
    return n;
}

static void sizes(void **state)
{
    ebm2d_plan p = {.scale = ebm2d_scale_default()};
    assert_int_equal(ebm2d_plan_cells(&p, ERROR), 0);
    assert_int_equal(p.cells, 8);
    assert_int_equal(count(&p, EBM2D_TRIAL, 1), 2);
    ebm2d_plan_free(&p);
    p.scale = ebm2d_scale_full();
    assert_int_equal(ebm2d_plan_cells(&p, ERROR), 0);
    assert_int_equal(count(&p, EBM2D_TRIAL, 0), 20);
    assert_int_equal(count(&p, EBM2D_SWEEP, 0), 50);
    assert_int_equal(count(&p, EBM2D_SWEEP, 1), 10);
    assert_int_equal(count(&p, EBM2D_PAIR, 0), 44);
    assert_int_equal(count(&p, EBM2D_PAIR, 1), 0);
    assert_null(ebm2d_find(&p, EBM2D_PAIR, EBM2D_CIRCLES, EBM2D_LOWER, 0.25, EBM2D_SOSMC, 0));
    assert_non_null(ebm2d_find(&p, EBM2D_PAIR, EBM2D_BLOBS, EBM2D_LEFT, 1, EBM2D_SOSMC, 0));
    /* passes: four an iteration (ours: five), two a step; the first seed has six evaluations of 25,000 steps of 1,000 chains */
    const ebm2d_cell *first = ebm2d_find(&p, EBM2D_SWEEP, EBM2D_CIRCLES, EBM2D_LOWER, 1, EBM2D_SOSMC, 0);
    const ebm2d_cell *second = ebm2d_find(&p, EBM2D_SWEEP, EBM2D_CIRCLES, EBM2D_LOWER, 1, EBM2D_SOSMC, 1);
    const ebm2d_cell *ours = ebm2d_find(&p, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, 0.25, EBM2D_OURS, 1);
    assert_true(ebm2d_cell_cost(&p, second) == 4e4 * 5001 && ebm2d_cell_cost(&p, ours) == 2e4 * 10001);
    assert_true(ebm2d_cell_cost(&p, first) == 4e4 * 5001 + 2 * 6 * 25e6);
    ebm2d_plan_free(&p);
}

static config *resolved(const ebm2d_plan *p, ebm2d_method method)
{
    const ebm2d_cell *cell = ebm2d_find(p, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, method, 1);
    assert_non_null(cell);
    experiment_file f = ebm2d_cell_file(p, cell);
    experiment_set(&f, "model.file=/a model.npz");
    experiment_set(&f, "init.file=/x.npz");
    if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) fail_msg("%s", f.error);
    return f.c;
}

/* The row "sosmc tune --kernel rwm" is the stored file: nothing but its place, its seed and what is written differs. */
static void tune_is_its_run_file(const ebm2d_plan *p)
{
    experiment_file f = experiment_load(p->settings, "tune.yaml");
    experiment_set(&f, "model.file=/a model.npz");
    experiment_set(&f, "init.file=/x.npz");
    experiment_set(&f, "seed=1");
    experiment_set(&f, "on_collapse=continue");
    experiment_set(&f, "output.report=false");
    if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) fail_msg("%s", f.error);
    config *c = resolved(p, EBM2D_OURS);
    char *stored = runtext_written(f.c), *cell = runtext_written(c);
    assert_string_equal(cell, stored);
    free(stored);
    free(cell);
    config_free(f.c);
    config_free(c);
}

static void run_files(void **state)
{
    ebm2d_plan p = {.scale = ebm2d_scale_default()};
    if (ebm2d_plan_cells(&p, ERROR) || ebm2d_plan_open(&p, ERROR)) fail_msg("%s", error);
    tune_is_its_run_file(&p);
    for (int m = 0; m < EBM2D_METHODS; m++) {
        config *c = resolved(&p, (ebm2d_method)m);
        int n = 0;
        const double *normal = config_vector(c, "objective.reward.normal", &n);
        assert_string_equal(config_text(c, "objective.type"), "reward_reverse");
        assert_true(n == 2 && normal[0] == 0 && normal[1] == -1 && config_number(c, "objective.reward.offset") == 0);
        assert_true(config_number(c, "objective.beta") == 0.25);
        int split = m == EBM2D_OURS ? EBM2D_SPLIT : 1;
        assert_int_equal(config_integer(c, "particles"), m == EBM2D_OURS ? 4000 : 10000);
        assert_int_equal(config_integer(c, "iterations"), 1000 * split + 1);
        assert_int_equal(config_integer(c, "evaluate.every"), 100 * split);
        assert_int_equal(config_integer(c, "evaluate.nodes"), 400);
        assert_int_equal(config_integer(c, "evaluate.chains"), 0); /* only the first seed has fresh chains */
        assert_int_equal(config_integer(c, "seed"), 1);
        assert_int_equal(config_flag(c, "init.exact"), m == EBM2D_OURS || m == EBM2D_TEMPERED);
        assert_string_equal(config_text(c, "model.file"), "/a model.npz");
        if (m == EBM2D_OURS) {
            config_free(c);
            continue;
        }
        assert_string_equal(config_text(c, "kernel.type"), "ula");
        assert_true(config_number(c, "kernel.step") == 0.005);
        assert_string_equal(config_text(c, "optimiser.type"), "adam");
        assert_true(config_number(c, "optimiser.rate") == 2e-4 && config_number(c, "optimiser.clip") == 1000);
        assert_string_equal(config_text(c, "scheme.type"), m == I ? "impdiff_printed" : "sosmc");
        if (m == S || m == EBM2D_TEMPERED) {
            assert_string_equal(config_text(c, "scheme.order"), "authors");
            assert_string_equal(config_text(c, "resampling.scheme"), "systematic");
            assert_true(config_number(c, "resampling.threshold") == 0.9);
            assert_true(config_number(c, "adapt.threshold") == 0.95 && config_number(c, "adapt.factor") == 1.01);
            assert_true(config_number(c, "adapt.min") == 1e-8 && config_number(c, "adapt.max") == 0.01);
        }
        config_free(c);
    }
    ebm2d_plan_free(&p);
}

static void means(void **state)
{
    const double v[] = {1, NAN, 3, 5};
    experiment_mean m = experiment_mean_of(v, 4);
    assert_true(m.n == 3 && m.mean == 3 && m.sd == 2 && fabs(m.error - 2 / sqrt(3)) < 1e-15);
    m = experiment_mean_of(v, 2);
    assert_true(m.n == 1 && m.mean == 1 && isnan(m.sd) && isnan(m.error));
    assert_true(isnan(experiment_mean_of(v + 1, 1).mean));
    double norm[40];
    for (int i = 0; i < 40; i++) norm[i] = i < 20 ? 1000 : 81 + i - 20; /* the last half: 81, ..., 100 */
    assert_true(fabs(ebm2d_spread(norm, 40) - (99.0 - 83.0) / 91.0) < 1e-12);
    assert_true(isnan(ebm2d_spread(norm, 19)));
}

/* ---------------------------------------------------------------------------- verdicts */

/* Evidence in which every claim holds. */
static ebm2d_evidence good(void)
{
    ebm2d_evidence e = ebm2d_no_evidence();
    e.paper = 1;
    e.betas = 2;
    e.beta[0] = 0.25;
    e.beta[1] = 5;
    e.excess[I][0] = (experiment_mean){.n = 5, .mean = 0.0199, .error = 0.0005};
    e.excess[S][0] = (experiment_mean){.n = 5, .mean = 0.0150, .error = 0.0005};
    e.excess[I][1] = (experiment_mean){.n = 5, .mean = 0.0033, .error = 0.0001};
    e.excess[S][1] = (experiment_mean){.n = 5, .mean = 0.0029, .error = 0.0001};
    e.estimate[I] = 0.8153;
    e.estimate[S] = 0.9770;
    e.reward[I] = 0.9651;
    e.reward[S] = 0.9832;
    e.chains = 3000;
    e.reached_by = 1000;
    e.reached[I] = 0.84;
    e.reached[S] = 0.99;
    e.median_hit[I] = 700;
    e.median_hit[S] = 200;
    e.gap[I] = 0.25;
    e.gap[S] = 0.006;
    e.norm_spread[I] = (experiment_mean){.n = 2, .mean = 2, .error = 0.1};
    e.norm_spread[S] = (experiment_mean){.n = 2, .mean = 1, .error = 0.1};
    e.windows[I] = (ebm2d_windows){0.87, 0.95, 0.08, 0.004};
    e.windows[S] = (ebm2d_windows){0.972, 0.974, 0.002, 0.0001};
    e.ring_chains = 1000;
    e.inner_chains = 0.261;
    e.inner_exact = 0.0535;
    e.ring_changes = 0;
    e.ring_bias = -0.0193;
    e.fresh = 0.547;
    e.fresh_error = 0.01;
    e.fresh_exact = 0.556;
    e.ours = (experiment_mean){.n = 2, .mean = 0.004, .error = 0.0002};
    e.particles = 10000;
    e.first_ess[0] = (experiment_mean){.n = 2, .mean = 9000};
    e.first_ess[1] = (experiment_mean){.n = 2, .mean = 9500};
    e.start_excess[0] = e.start_excess[1] = (experiment_mean){.n = 2, .mean = 0.015};
    e.impdiff_excess = (experiment_mean){.n = 2, .mean = 0.02};
    e.most_first_ess = 9100;
    return e;
}

static void assert_verdicts(const ebm2d_evidence *e, const char *expected, const char *what)
{
    static const char letters[CLAIM_VERDICTS] = {'y', 'n', '-'};
    claim c[EBM2D_CLAIMS];
    char got[EBM2D_CLAIMS + 1] = "";
    ebm2d_judge(e, c);
    for (int i = 0; i < EBM2D_CLAIMS; i++) {
        got[i] = letters[c[i].verdict];
        assert_true(c[i].claim && c[i].because[0]);
        assert_null(strstr(c[i].because, "nan"));
    }
    if (strcmp(got, expected) != 0) fail_msg("%s: verdicts %s, expected %s", what, got, expected);
}

static void verdicts(void **state)
{
    ebm2d_evidence e = ebm2d_no_evidence();
    assert_verdicts(&e, "--------", "nothing measured");
    e.paper = 1;
    assert_verdicts(&e, "--------", "nothing measured at the paper's size");
    e = good();
    assert_verdicts(&e, "yyyyyyyy", "everything as claimed");

    e.excess[S][0].mean = 0.0190; /* a gain within the error */
    assert_verdicts(&e, "nyyyyyyy", "no gain at small beta");
    e = good();
    e.excess[S][1].mean = 0.0010;
    assert_verdicts(&e, "nyyyyyyy", "not comparable at large beta");
    e = good();
    e.gap[S] = 0.03;
    assert_verdicts(&e, "ynyyyyyy", "weighted reward off");
    e = good();
    e.gap[I] = 0.01;
    assert_verdicts(&e, "ynyyyyyy", "ImpDiff's reward right as well");
    e = good();
    e.reached[S] = 0.85;
    assert_verdicts(&e, "yynyyyyy", "hardly sooner");
    e = good();
    e.median_hit[S] = INFINITY;
    assert_verdicts(&e, "yynyyyyy", "half of the chains never there");
    e = good();
    e.norm_spread[S].mean = 1.8;
    assert_verdicts(&e, "yyynyyyy", "norms hardly steadier");
    e = good();
    e.windows[I].change = 0.004;
    assert_verdicts(&e, "yyyynyyy", "short chains agree for both");
    e = good();
    e.windows[S].change = -0.02;
    assert_verdicts(&e, "yyyynyyy", "short chains disagree for SOSMC");
    e = good();
    e.ring_changes = 0.2;
    assert_verdicts(&e, "yyyyynyy", "chains change ring");
    e = good();
    e.inner_chains = 0.055;
    assert_verdicts(&e, "yyyyynyy", "chains have the right shares");
    e = good();
    e.ours.mean = 0.0049;
    assert_verdicts(&e, "yyyyyyny", "0.005 within the error");
    e.paper = 0;
    assert_verdicts(&e, "yyyyyy-y", "the same in a small version");
    e = good();
    e.first_ess[0].mean = 4900;
    assert_verdicts(&e, "yyyyyyyn", "the first weights drop half of the particles");
    e.first_ess[1].mean = NAN;
    assert_verdicts(&e, "yyyyyyy-", "no start by tempering");
    e = good();
    e.betas = 1;
    assert_verdicts(&e, "-yyyyyyy", "the trial alone: nothing about large beta");
    e.excess[S][0].mean = 0.03;
    assert_verdicts(&e, "nyyyyyyy", "the trial alone, and worse");
    e = good();
    e.excess[I][0].error = e.excess[S][0].error = e.norm_spread[S].error = e.ours.error = NAN;
    assert_verdicts(&e, "-yy-yy-y", "a single seed");
}

/* ---------------------------------------------------------------------------- questions to chains */

/* Three chains at steps 0, 10, 20: one stays below on the inner ring, one comes down at step 20 on the outer ring, one goes
 * from the inner ring to the outer one, above. */
static void chains_answer(void **state)
{
    double at[] = {0, 10, 20}, hit[] = {0, 17, NAN};
    double x[] = {0, -2, 0, 5, 0, 2, /**/ 0, -2, 0, 5, 0, 2, /**/ 0, -2, 0, -5, 0, 5};
    ebm2d_sample s = {.chains = 3, .snapshots = 3, .steps = 20, .at = at, .snapshot = x, .hit = hit};
    const double early[2] = {0, 10}, late[2] = {15, 20}, *lower = ebm2d_normals[EBM2D_LOWER];
    assert_true(fabs(ebm2d_reached(&s, 16) - 1.0 / 3) < 1e-15 && fabs(ebm2d_reached(&s, 17) - 2.0 / 3) < 1e-15);
    assert_true(isinf(ebm2d_median_hit(&s)));
    hit[2] = 30;
    assert_true(ebm2d_median_hit(&s) == 30);
    ebm2d_windows w = ebm2d_compare_windows(&s, lower, early, late);
    assert_true(fabs(w.early - 1.0 / 3) < 1e-15 && fabs(w.late - 2.0 / 3) < 1e-15);
    assert_true(fabs(w.change - 1.0 / 3) < 1e-15 && fabs(w.error - 1.0 / 3) < 1e-15); /* changes 0, 1, 0 */
    assert_true(fabs(ebm2d_window_reward(&s, ebm2d_normals[EBM2D_UPPER], late, &w.error) - 1.0 / 3) < 1e-15);
    assert_true(fabs(ebm2d_inner_share(x, 3) - 2.0 / 3) < 1e-15);
    assert_true(fabs(ebm2d_ring_changes(&s, 0) - 1.0 / 3) < 1e-15 && ebm2d_ring_changes(&s, 2) == 0);
    double shown[9];
    assert_int_equal(ebm2d_efficiency_steps(30000, shown), 9);
    assert_int_equal(ebm2d_efficiency_steps(999, shown), 4);
}

static void published_masses(void **state)
{
    const char *circles = reference_file("ebm2d/circles.npz"), *blobs = reference_file("ebm2d/blobs.npz");
    ebm2d_masses m;
    assert_int_equal(ebm2d_exact_masses(circles, ebm2d_normals[EBM2D_LOWER], 400, 2, &m, ERROR), 0);
    assert_true(ebm2d_is_published(&m));
    assert_true(fabs(m.inner - 0.0535) < 6e-5 && fabs(m.reward_inner - 0.468) < 6e-4 &&
                fabs(m.reward_outer - 0.561) < 6e-4);
    assert_int_equal(ebm2d_exact_masses(blobs, ebm2d_normals[EBM2D_LOWER], 400, 2, &m, ERROR), 0);
    assert_false(ebm2d_is_published(&m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),    cmocka_unit_test(run_files),     cmocka_unit_test(means),
        cmocka_unit_test(verdicts), cmocka_unit_test(chains_answer), cmocka_unit_test(published_masses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
