/* test_reproduce_ebm2d.c: the 2-D energy-based experiment: its cells and their run files against the experiment's constants,
 * verdicts worked out from made-up evidence, questions to made-up chains, the whole of it at a tiny size with small
 * networks, its continuation, and what it says to missing or broken models. */
#define _XOPEN_SOURCE 700 /* nftw */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "ebm2d_page.h"
#include "files.h"
#include "model_file.h"
#include "plot.h"
#include "reproduce.h"
#include "run.h"

enum { I = EBM2D_IMPDIFF, S = EBM2D_SOSMC };

static char folder[64], error[1024];
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
    assert_int_equal(p.cells, 6);
    assert_int_equal(count(&p, EBM2D_TRIAL, 1), 2);
    ebm2d_plan_free(&p);
    p.scale = ebm2d_scale_full();
    assert_int_equal(ebm2d_plan_cells(&p, ERROR), 0);
    assert_int_equal(count(&p, EBM2D_TRIAL, 0), 15);
    assert_int_equal(count(&p, EBM2D_SWEEP, 0), 50);
    assert_int_equal(count(&p, EBM2D_SWEEP, 1), 10);
    assert_int_equal(count(&p, EBM2D_PAIR, 0), 44);
    assert_int_equal(count(&p, EBM2D_PAIR, 1), 0);
    assert_null(ebm2d_find(&p, EBM2D_PAIR, EBM2D_CIRCLES, EBM2D_LOWER, 0.25, EBM2D_SOSMC, 0));
    assert_non_null(ebm2d_find(&p, EBM2D_PAIR, EBM2D_BLOBS, EBM2D_LEFT, 1, EBM2D_SOSMC, 0));
    ebm2d_plan_free(&p);
}

static config *resolved(const ebm2d_plan *p, ebm2d_method method)
{
    char text[4096];
    const ebm2d_cell *cell = ebm2d_find(p, EBM2D_TRIAL, EBM2D_CIRCLES, EBM2D_LOWER, EBM2D_TRIAL_BETA, method, 1);
    assert_non_null(cell);
    config *c = config_parse(ebm2d_cell_text(p, cell, text, sizeof text), "cell", ERROR);
    if (!c || config_set(c, "model.file=/a model.npz", ERROR) || config_set(c, "init.file=/x.npz", ERROR) ||
        config_resolve(c, ERROR))
        fail_msg("%s", error);
    return c;
}

static void run_files(void **state)
{
    ebm2d_plan p = {.scale = ebm2d_scale_default()};
    assert_int_equal(ebm2d_plan_cells(&p, ERROR), 0);
    for (int m = 0; m < EBM2D_METHODS; m++) {
        config *c = resolved(&p, (ebm2d_method)m);
        int n = 0;
        const double *normal = config_vector(c, "objective.reward.normal", &n);
        assert_string_equal(config_text(c, "objective.type"), "reward_reverse");
        assert_true(n == 2 && normal[0] == 0 && normal[1] == -1 && config_number(c, "objective.reward.offset") == 0);
        assert_true(config_number(c, "objective.beta") == 0.25);
        assert_int_equal(config_integer(c, "particles"), 10000);
        assert_int_equal(config_integer(c, "iterations"), 1001);
        assert_int_equal(config_integer(c, "evaluate.every"), 100);
        assert_int_equal(config_integer(c, "evaluate.nodes"), 400);
        assert_int_equal(config_integer(c, "evaluate.chains"), 0); /* only the first seed has fresh chains */
        assert_int_equal(config_integer(c, "seed"), 1);
        assert_int_equal(config_flag(c, "init.exact"), m == EBM2D_OURS);
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
        if (m == S) {
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
    ebm2d_mean m = ebm2d_mean_of(v, 4);
    assert_true(m.n == 3 && m.mean == 3 && m.sd == 2 && fabs(m.error - 2 / sqrt(3)) < 1e-15);
    m = ebm2d_mean_of(v, 2);
    assert_true(m.n == 1 && m.mean == 1 && isnan(m.sd) && isnan(m.error));
    assert_true(isnan(ebm2d_mean_of(v + 1, 1).mean));
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
    e.excess[I][0] = (ebm2d_mean){.n = 5, .mean = 0.0199, .error = 0.0005};
    e.excess[S][0] = (ebm2d_mean){.n = 5, .mean = 0.0150, .error = 0.0005};
    e.excess[I][1] = (ebm2d_mean){.n = 5, .mean = 0.0033, .error = 0.0001};
    e.excess[S][1] = (ebm2d_mean){.n = 5, .mean = 0.0029, .error = 0.0001};
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
    e.norm_spread[I] = (ebm2d_mean){.n = 2, .mean = 2, .error = 0.1};
    e.norm_spread[S] = (ebm2d_mean){.n = 2, .mean = 1, .error = 0.1};
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
    e.ours = (ebm2d_mean){.n = 2, .mean = 0.004, .error = 0.0002};
    return e;
}

static void assert_verdicts(const ebm2d_evidence *e, const char *expected, const char *what)
{
    static const char letters[EBM2D_VERDICTS] = {'y', 'n', '-'};
    ebm2d_claim c[EBM2D_CLAIMS];
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
    assert_verdicts(&e, "-------", "nothing measured");
    e.paper = 1;
    assert_verdicts(&e, "-------", "nothing measured at the paper's size");
    e = good();
    assert_verdicts(&e, "yyyyyyy", "everything as claimed");

    e.excess[S][0].mean = 0.0190; /* a gain within the error */
    assert_verdicts(&e, "nyyyyyy", "no gain at small beta");
    e = good();
    e.excess[S][1].mean = 0.0010;
    assert_verdicts(&e, "nyyyyyy", "not comparable at large beta");
    e = good();
    e.gap[S] = 0.03;
    assert_verdicts(&e, "ynyyyyy", "weighted reward off");
    e = good();
    e.gap[I] = 0.01;
    assert_verdicts(&e, "ynyyyyy", "ImpDiff's reward right as well");
    e = good();
    e.reached[S] = 0.85;
    assert_verdicts(&e, "yynyyyy", "hardly sooner");
    e = good();
    e.median_hit[S] = INFINITY;
    assert_verdicts(&e, "yynyyyy", "half of the chains never there");
    e = good();
    e.norm_spread[S].mean = 1.8;
    assert_verdicts(&e, "yyynyyy", "norms hardly steadier");
    e = good();
    e.windows[I].change = 0.004;
    assert_verdicts(&e, "yyyynyy", "short chains agree for both");
    e = good();
    e.windows[S].change = -0.02;
    assert_verdicts(&e, "yyyynyy", "short chains disagree for SOSMC");
    e = good();
    e.ring_changes = 0.2;
    assert_verdicts(&e, "yyyyyny", "chains change ring");
    e = good();
    e.inner_chains = 0.055;
    assert_verdicts(&e, "yyyyyny", "chains have the right shares");
    e = good();
    e.ours.mean = 0.0049;
    assert_verdicts(&e, "yyyyyyn", "0.005 within the error");
    e.paper = 0;
    assert_verdicts(&e, "yyyyyy-", "the same in a small version");
    e = good();
    e.betas = 1;
    assert_verdicts(&e, "-yyyyyy", "the trial alone: nothing about large beta");
    e.excess[S][0].mean = 0.03;
    assert_verdicts(&e, "nyyyyyy", "the trial alone, and worse");
    e = good();
    e.excess[I][0].error = e.excess[S][0].error = e.norm_spread[S].error = e.ours.error = NAN;
    assert_verdicts(&e, "-yy-yy-", "a single seed");
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
    const char *data = getenv("SOSMC_TEST_DATA");
    char path[FILES_PATH] = "";
    ebm2d_masses m;
    if (data) (void)snprintf(path, sizeof path, "%s/ebm2d/circles.npz", data);
    if (!data || access(path, R_OK)) {
        print_message("skipped: %s\n", data ? path : "SOSMC_TEST_DATA names no folder of reference data");
        skip();
    }
    assert_int_equal(ebm2d_exact_masses(path, ebm2d_normals[EBM2D_LOWER], 400, 2, &m, ERROR), 0);
    assert_true(ebm2d_is_published(&m));
    assert_true(fabs(m.inner - 0.0535) < 6e-5 && fabs(m.reward_inner - 0.468) < 6e-4 &&
                fabs(m.reward_outer - 0.561) < 6e-4);
    (void)snprintf(path, sizeof path, "%s/ebm2d/blobs.npz", data);
    assert_int_equal(ebm2d_exact_masses(path, ebm2d_normals[EBM2D_LOWER], 400, 2, &m, ERROR), 0);
    assert_false(ebm2d_is_published(&m));
}

/* ---------------------------------------------------------------------------- the whole, small */

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *walk) { return remove(path); }
static void remove_tree(const char *path) { assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* 2 -> 8 -> 1 over a Gaussian base, named differently per data set so that their laws differ. */
static int small_network(const char *path, double slope)
{
    enum { HIDDEN = 8 };
    int width[] = {HIDDEN};
    double theta[4 * HIDDEN + 1];
    model_file f = {
        .inputs = 2, .hidden_layers = 1, .width = width, .base_sd = 1.5, .parameters = 4 * HIDDEN + 1, .theta = theta};
    (void)snprintf(f.activation, sizeof f.activation, "silu");
    for (int i = 0; i < f.parameters; i++) theta[i] = slope * sin(1 + 3 * i);
    return model_write(path, &f, ERROR);
}

static ebm2d_scale tiny(int full)
{
    return (ebm2d_scale){.particles = 32,
                         .seeds = full ? 1 : 2,
                         .nodes = 20,
                         .chain_steps = 4,
                         .smc_steps = 5,
                         .trial_iterations = 41,
                         .trial_every = 20,
                         .sweep_iterations = 5,
                         .sweep_every = 2,
                         .fresh_chains = 8,
                         .burn_in = 5,
                         .averaged = 5,
                         .short_burn_in = 2,
                         .short_averaged = 2,
                         .study_chains = 12,
                         .study_steps = 30,
                         .terminal_chains = 12,
                         .terminal_steps = 5,
                         .full = full};
}

static reproduce_options options_for(const char *out)
{
    return (reproduce_options){.out = out, .models = "models", .quiet = 1, .threads = 2};
}

/* What is said to standard error goes to `said`. */
static char said[8192];
static int run_scaled(const reproduce_options *o, const ebm2d_scale *scale)
{
    char *bytes = NULL;
    size_t n = 0;
    int kept = dup(2), file = open("said.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && file >= 0 && dup2(file, 2) >= 0);
    int code = reproduce_ebm2d_scaled(o, scale);
    (void)fflush(stderr);
    assert_true(dup2(kept, 2) >= 0);
    assert_int_equal(close(kept) + close(file), 0);
    assert_int_equal(files_read("said.txt", sizeof said - 1, &bytes, &n, ERROR), 0);
    memcpy(said, bytes, n);
    said[n] = 0;
    free(bytes);
    return code;
}

static void succeeds(const reproduce_options *o, const ebm2d_scale *scale)
{
    int code = run_scaled(o, scale);
    if (code != SOSMC_EXIT_OK) fail_msg("exit code %d: %s", code, said);
}

static char *bytes_of(const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    if (files_read(path, (size_t)1 << 26, &bytes, &n, ERROR)) fail_msg("%s", error);
    return bytes;
}

static void assert_same_file(const char *path, const char *before)
{
    char *now = bytes_of(path);
    if (strcmp(now, before) != 0) fail_msg("%s is not what it was", path);
    free(now);
}

static int64_t changed_at(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
}

/* Figures are drawn in one test alone: elsewhere the program does not find gnuplot. */
static char path_before[4096];
static void without_figures(void) { assert_int_equal(setenv("PATH", "/nowhere", 1), 0); }
static void with_figures(void) { assert_int_equal(setenv("PATH", path_before, 1), 0); }

#define CELL(name) "out/cells/trial-circles-lower-beta0.25-" name

static void resumes(void **state)
{
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(0), other = tiny(0);
    without_figures();
    succeeds(&o, &scale);
    char *table = bytes_of("out/table.csv"), *summary = bytes_of("out/summary.json"),
         *trace = bytes_of(CELL("sosmc-seed1/trace.csv"));
    int64_t kept = changed_at(CELL("sosmc-seed0/model.safetensors")), study = changed_at("out/studies/impdiff.npz");
    assert_non_null(strstr(summary, "\"verdict\""));
    char *page = bytes_of("out/report.html");
    assert_null(strstr(page, "image/svg+xml"));
    free(page);
    remove_tree(CELL("sosmc-seed1"));
    assert_int_equal(remove("out/summary.json"), 0);
    succeeds(&o, &scale);
    assert_same_file("out/table.csv", table);
    assert_same_file("out/summary.json", summary);
    assert_same_file(CELL("sosmc-seed1/trace.csv"), trace);
    assert_true(changed_at(CELL("sosmc-seed0/model.safetensors")) == kept);
    assert_true(changed_at("out/studies/impdiff.npz") == study);
    /* a study that is damaged, or of other chains, is made anew */
    assert_int_equal(files_write("out/studies/impdiff.npz", "PK", 2, ERROR), 0);
    scale.study_chains = 16;
    succeeds(&o, &scale);
    scale.study_chains = 12;
    succeeds(&o, &scale);
    assert_same_file("out/summary.json", summary);
    /* cells of another size are not passed off as these */
    other.particles = 16;
    assert_int_equal(run_scaled(&o, &other), SOSMC_EXIT_USAGE);
    assert_non_null(strstr(said, "belongs to another run"));
    free(table);
    free(summary);
    free(trace);
    remove_tree("out");
    with_figures();
}

static int64_t rows_of(const char *path)
{
    csv_table t;
    if (csv_read(path, NULL, &t, ERROR)) fail_msg("%s", error);
    int64_t rows = t.rows;
    csv_free(&t);
    return rows;
}

/* The sweep stops at every evaluation for the reduced one; what was done stays when the last stage is lost. */
static void full_version(void **state)
{
    static const char cell[] = "out/cells/sweep-circles-lower-beta0.1-sosmc-seed0/";
    char path[FILES_PATH];
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(1);
    without_figures();
    succeeds(&o, &scale);
    (void)snprintf(path, sizeof path, "%sshort.csv", cell);
    char *rows = bytes_of(path), *table = bytes_of("out/table.csv");
    assert_int_equal(rows_of(path), 3); /* at 0, 2 and 4 */
    (void)snprintf(path, sizeof path, "%sevaluation.csv", cell);
    assert_int_equal(rows_of(path), 3);
    assert_int_equal(rows_of("out/table.csv"), 3 + 10 + 44);
    (void)snprintf(path, sizeof path, "%s", cell);
    remove_tree(path);
    succeeds(&o, &scale);
    (void)snprintf(path, sizeof path, "%sshort.csv", cell);
    assert_same_file(path, rows);
    assert_same_file("out/table.csv", table);
    /* rows that cannot be made up for are asked for, not invented */
    assert_int_equal(remove(path), 0);
    assert_true(run_scaled(&o, &scale) != SOSMC_EXIT_OK);
    assert_non_null(strstr(said, "short.csv"));
    free(rows);
    free(table);
    remove_tree("out");
    with_figures();
}

static void figures(void **state)
{
    static const char *const names[] = {
        "models",      "trajectory_exact", "trajectory_fresh", "rewards",      "excess",
        "norms",       "efficiency",       "hitting",          "chains",       "rings",
        "sweep_exact", "sweep_fresh",      "sweep_short",      "sweep_excess", "terminal"};
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(1);
    if (!plot_available()) {
        print_message("skipped: %s\n", PLOT_ADVICE);
        skip();
    }
    succeeds(&o, &scale);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "out/figures/%s.pdf", names[i]);
        if (access(path, R_OK)) fail_msg("there is no %s", path);
    }
    char *page = bytes_of("out/report.html");
    assert_non_null(strstr(page, "image/svg+xml"));
    assert_non_null(strstr(page, "another one")); /* not the published network, and the page says so */
    free(page);
    remove_tree("out");
}

/* ---------------------------------------------------------------------------- models */

static void pretrains(void **state)
{
    static const char text[] =
        "model: {type: mlp, inputs: 2, hidden: [8], base: gaussian, base_sd: 2}\n"
        "objective: {type: ebm_likelihood, data: {type: circles, points: 64}, batch: 16}\n"
        "init: {type: uniform}\nscheme: {type: pcd, pool: 32, sweeps: 2}\nkernel: {type: ula, step: 0.005, clamp: 6}\n"
        "particles: 16\niterations: 5\noutput: {report: false}\n";
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(0);
    scale.seeds = 1;
    o.pretrain = 1;
    o.models = "recipes";
    without_figures();
    assert_int_equal(mkdir("recipes", 0700), 0);
    assert_int_equal(run_scaled(&o, &scale), SOSMC_EXIT_IO);
    assert_non_null(strstr(said, "circles.yaml"));
    assert_int_equal(files_write("recipes/circles.yaml", text, strlen(text), ERROR), 0);
    succeeds(&o, &scale);
    assert_int_equal(access("out/pretrain/circles/model.safetensors", R_OK), 0);
    char *yaml = bytes_of(CELL("sosmc-seed0/run.yaml"));
    assert_non_null(strstr(yaml, "pretrain/circles/model.safetensors"));
    free(yaml);
    remove_tree("out");
    remove_tree("recipes");
    with_figures();
}

static void wrong_models(void **state)
{
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(0);
    o.models = "nowhere";
    assert_int_equal(run_scaled(&o, &scale), SOSMC_EXIT_IO);
    assert_non_null(strstr(said, "nowhere"));
    assert_true(access("out", F_OK) != 0);
    assert_int_equal(mkdir("broken", 0700), 0);
    assert_int_equal(files_write("broken/circles.safetensors", "no network", 10, ERROR), 0);
    o.models = "broken";
    assert_int_equal(run_scaled(&o, &scale), SOSMC_EXIT_IO);
    assert_non_null(strstr(said, "circles.safetensors"));
    scale = tiny(1); /* which needs all three */
    assert_int_equal(small_network("broken/circles.safetensors", 0.5), 0);
    assert_int_equal(run_scaled(&o, &scale), SOSMC_EXIT_IO);
    assert_non_null(strstr(said, "two_moons"));
    remove_tree("broken");
    remove_tree("out");
}

static void finds_models(void **state)
{
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(0);
    char here[FILES_PATH], share[FILES_PATH + 16];
    scale.seeds = 1;
    o.models = NULL;
    assert_int_equal(mkdir("share", 0700), 0);
    assert_int_equal(mkdir("share/ebm2d", 0700), 0);
    assert_int_equal(small_network("share/ebm2d/circles.npz", 0.5), 0);
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(share, sizeof share, "%s/share", here);
    assert_int_equal(setenv("SOSMC_SHARE", share, 1), 0);
    without_figures();
    succeeds(&o, &scale);
    char *summary = bytes_of("out/summary.json");
    assert_non_null(strstr(summary, "share/ebm2d"));
    free(summary);
    assert_int_equal(unsetenv("SOSMC_SHARE"), 0);
    remove_tree("share");
    remove_tree("out");
    with_figures();
}

static void wrong_options(void **state)
{
    reproduce_options o = options_for("out");
    o.quick = o.full = 1;
    assert_int_equal(reproduce_ebm2d(&o), SOSMC_EXIT_USAGE);
    o.quick = o.full = 0;
    o.seeds = 1000;
    assert_int_equal(reproduce_ebm2d(&o), SOSMC_EXIT_USAGE);
    o.seeds = 0;
    o.budget_seconds = 2;
    assert_int_equal(reproduce_ebm2d(&o), SOSMC_EXIT_USAGE);
}

static int set_up(void **state)
{
    const char *path = getenv("PATH");
    (void)snprintf(path_before, sizeof path_before, "%s", path ? path : "");
    /* hundreds of files are put on the disk one by one: in memory that takes no time */
    (void)snprintf(folder, sizeof folder, "%s/sosmc_ebm2d_XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder) || chdir(folder) || mkdir("models", 0700)) return -1;
    return small_network("models/circles.safetensors", 0.5) || small_network("models/two_moons.npz", 0.6) ||
           small_network("models/blobs.safetensors", 0.7);
}

static int tear_down(void **state) { return chdir("/") || nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(run_files),     cmocka_unit_test(means),
        cmocka_unit_test(verdicts),      cmocka_unit_test(chains_answer), cmocka_unit_test(published_masses),
        cmocka_unit_test(wrong_options), cmocka_unit_test(wrong_models),  cmocka_unit_test(finds_models),
        cmocka_unit_test(pretrains),     cmocka_unit_test(resumes),       cmocka_unit_test(full_version),
        cmocka_unit_test(figures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
