/* test_reproduce_ebm2d.c: the whole 2-D energy-based experiment at a tiny size with small networks, its continuation, and what
 * it says to missing or broken models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "assertions.h"
#include "ebm2d/ebm2d_page.h"
#include "files/files.h"
#include "folder.h"
#include "view/plot.h"
#include "job/points.h"
#include "common/reproduce.h"
#include "terminal/say.h"
#include "small_network.h"

static const double BASE = 1.5; /* of the networks */

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* ---------------------------------------------------------------------------- the whole, small */

static void remove_tree(const char *path) { assert_int_equal(folder_remove(path), 0); }

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
    int closed = close(kept), closed_too = close(file);
    assert_true(closed == 0 && closed_too == 0);
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

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* What out/summary.json says of training, against the networks themselves. */
static void assert_training(size_t sets)
{
    static const double boxes[EBM2D_DATASETS] = {6, 6, 8};
    static const char *const models[EBM2D_DATASETS] = {"models/circles.safetensors", "models/two_moons.npz",
                                                       "models/blobs.safetensors"};
    ebm2d_plan plan = {.out = NULL};
    if (ebm2d_plan_open(&plan, ERROR)) fail_msg("%s", error);
    json_t *summary = NULL;
    if (json_read("out/summary.json", &summary, ERROR)) fail_msg("%s", error);
    const json_t *list = json_object_get(summary, "training");
    assert_int_equal(json_array_size(list), sets);
    for (size_t d = 0; d < sets; d++) {
        const json_t *one = json_array_get(list, d), *weighted = json_object_get(one, "weighted");
        double *x = NULL;
        int64_t n = 0;
        char path[FILES_PATH];
        ebm2d_likelihood l;
        assert_string_equal(json_string_value(json_object_get(one, "dataset")), ebm2d_dataset_names[d]);
        (void)snprintf(path, sizeof path, "out/train/%s-weighted/model.safetensors", ebm2d_dataset_names[d]);
        assert_int_equal(points_generate(&plan.recipe[d], &x, &n, ERROR), 0);
        assert_int_equal(ebm2d_loglik(models[d], boxes[d], 400, n, x, 1, &l, ERROR), 0);
        assert_near(number_at(json_object_get(one, "contrastive_divergence"), "loglik"), l.loglik, 1e-12);
        assert_int_equal(ebm2d_loglik(path, boxes[d], 400, n, x, 1, &l, ERROR), 0);
        assert_near(number_at(weighted, "loglik"), l.loglik, 1e-12);
        assert_near(number_at(weighted, "running_loglik"), l.loglik, 0.5); /* 32 particles */
        assert_near(number_at(weighted, "evaluations"), 78 * (32 + 512), 0);
        assert_true(number_at(weighted, "seconds") > 0 && number_at(weighted, "loglik") < number_at(one, "bound"));
        free(x);
    }
    ebm2d_plan_free(&plan);
    json_decref(summary);
}

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
    int64_t trained = changed_at("out/train/circles-weighted/model.safetensors");
    assert_non_null(strstr(summary, "\"verdict\""));
    assert_training(1);
    char *page = bytes_of("out/report.html");
    assert_null(strstr(page, "image/svg+xml"));
    assert_non_null(strstr(page, "nats a point"));
    free(page);
    remove_tree(CELL("sosmc-seed1"));
    assert_int_equal(remove("out/summary.json"), 0);
    succeeds(&o, &scale);
    assert_same_file("out/table.csv", table);
    assert_same_file("out/summary.json", summary);
    assert_same_file(CELL("sosmc-seed1/trace.csv"), trace);
    assert_true(changed_at(CELL("sosmc-seed0/model.safetensors")) == kept);
    assert_true(changed_at("out/studies/impdiff.npz") == study);
    assert_true(changed_at("out/train/circles-weighted/model.safetensors") == trained);
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
    assert_int_equal(rows_of("out/table.csv"), 4 + 10 + 44);
    assert_training(EBM2D_DATASETS);
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
        "models",      "training",    "trajectory_exact", "trajectory_fresh", "rewards", "excess",
        "norms",       "efficiency",  "hitting",          "chains",           "rings",   "sweep_exact",
        "sweep_fresh", "sweep_short", "sweep_excess",     "terminal"};
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
    /* the run file beside the network tells what its training took: 16 particles moved twice, 16 points */
    json_t *summary = NULL;
    assert_int_equal(json_read("out/summary.json", &summary, ERROR), 0);
    const json_t *one = json_array_get(json_object_get(summary, "training"), 0);
    assert_near(number_at(json_object_get(one, "contrastive_divergence"), "evaluations"), 5 * (16 * 2 + 16), 0);
    json_decref(summary);
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
    small_network_write("broken/circles.safetensors", 0.5, BASE);
    assert_int_equal(run_scaled(&o, &scale), SOSMC_EXIT_IO);
    assert_non_null(strstr(said, "two_moons"));
    remove_tree("broken");
    remove_tree("out");
}

static void finds_models(void **state)
{
    reproduce_options o = options_for("out");
    ebm2d_scale scale = tiny(0);
    char here[FILES_PATH], share[FILES_PATH + 16], before[FILES_PATH], pattern[FILES_PATH + 32];
    glob_t names;
    (void)snprintf(before, sizeof before, "%s", getenv("SOSMC_SHARE") ? getenv("SOSMC_SHARE") : "");
    scale.seeds = 1;
    o.models = NULL;
    assert_int_equal(mkdir("share", 0700), 0);
    assert_int_equal(mkdir("share/ebm2d", 0700), 0);
    small_network_write("share/ebm2d/circles.npz", 0.5, BASE);
    (void)snprintf(pattern, sizeof pattern, "%s/ebm2d/*.[yc]*",
                   before); /* the run files and the table of known values */
    assert_int_equal(glob(pattern, 0, NULL, &names), 0);
    for (size_t i = 0; i < names.gl_pathc; i++)
        assert_int_equal(symlink(names.gl_pathv[i], folder_path("share/ebm2d", strrchr(names.gl_pathv[i], '/') + 1)),
                         0);
    globfree(&names);
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(share, sizeof share, "%s/share", here);
    assert_int_equal(setenv("SOSMC_SHARE", share, 1), 0);
    without_figures();
    succeeds(&o, &scale);
    char *summary = bytes_of("out/summary.json");
    assert_non_null(strstr(summary, "share/ebm2d"));
    free(summary);
    assert_int_equal(setenv("SOSMC_SHARE", before, 1), 0);
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
    if (folder_make(folder, "sosmc_ebm2d") || chdir(folder) || mkdir("models", 0700)) return -1;
    small_network_write("models/circles.safetensors", 0.5, BASE);
    small_network_write("models/two_moons.npz", 0.6, BASE);
    small_network_write("models/blobs.safetensors", 0.7, BASE);
    return 0;
}

static int tear_down(void **state) { return chdir("/") || folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options), cmocka_unit_test(wrong_models), cmocka_unit_test(finds_models),
        cmocka_unit_test(pretrains),     cmocka_unit_test(resumes),      cmocka_unit_test(full_version),
        cmocka_unit_test(figures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
