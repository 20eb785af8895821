/* test_deblurring.c: the deblurring experiment: its pictures, the list of its runs, what a run does to theta and to its step,
 * a run that is cut short, verdicts worked out from made-up values, magnifiers, the whole of it at a tiny size, and what it says
 * to files that are missing or damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deblurring/deblurring_figures.h"
#include "deblurring/deblurring_page.h"
#include "folder.h"
#include "pictures/images.h"
#include "terminal/interrupt.h"
#include "reference.h"
#include "terminal/say.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

static int set_up(void **state) { return folder_make(folder, "test_deblurring"); }
static int tear_down(void **state) { return folder_remove(folder); }

static char *contents(const char *path, size_t *size)
{
    char *bytes = NULL;
    if (files_read(path, 1 << 25, &bytes, size, ERROR)) fail_msg("%s", error);
    return bytes;
}

/* ---------------------------------------------------------------------------- pictures */

static void drawn_pictures(void **state)
{
    enum { ROWS = 25, COLUMNS = 20, N = ROWS * COLUMNS };
    static double x[DEBLURRING_PICTURES][N], large[9 * N];
    for (int p = DEBLURRING_FLOWER; p < DEBLURRING_PICTURES; p++) {
        deblurring_draw((deblurring_picture)p, ROWS, COLUMNS, x[p]);
        deblurring_draw((deblurring_picture)p, 3 * ROWS, 3 * COLUMNS, large);
        for (int i = 0; i < ROWS; i++) /* the same picture at three times the size: centres of pixels coincide */
            for (int j = 0; j < COLUMNS; j++)
                assert_true(fabs(large[(3 * i + 1) * 3 * COLUMNS + 3 * j + 1] - x[p][i * COLUMNS + j]) < 1e-6);
        for (int e = 0; e < N; e++) assert_true(x[p][e] >= 0 && x[p][e] <= 255);
        assert_true(sosmc_image_range(N, x[p]) > 150);
        for (int q = DEBLURRING_FLOWER; q < p; q++) assert_true(sosmc_mse(N, x[p], x[q]) > 500);
    }
    int levels = 0;
    for (int e = 0; e < N; e++) { /* shapes are piecewise constant */
        int known = 0;
        for (int f = 0; f < e && !known; f++) known = x[DEBLURRING_SHAPES][f] == x[DEBLURRING_SHAPES][e];
        levels += !known;
    }
    assert_true(levels >= 8 && levels <= 14);
}

static void the_photograph(void **state)
{
    enum { N = DEBLURRING_PHOTOGRAPH_ROWS * DEBLURRING_COLUMNS(DEBLURRING_GUITAR) };
    static double x[N];
    double sum = 0;
    if (deblurring_read_photograph(reference_file("deblurring"), DEBLURRING_GUITAR, x, ERROR)) fail_msg("%s", error);
    for (int e = 0; e < N; e++) sum += x[e];
    assert_true(fabs(sum / N - 87.453020249) < 1e-8);
    assert_true(fabs(sosmc_image_range(N, x) - 253.474576271) < 1e-8);
    assert_true(
        fabs(sosmc_tv(SOSMC_TV_ISOTROPIC, DEBLURRING_PHOTOGRAPH_ROWS, DEBLURRING_COLUMNS(DEBLURRING_GUITAR), x) -
             1170588.7198) < 1e-3);
}

static void damaged_photographs(void **state)
{
    enum { N = DEBLURRING_PHOTOGRAPH_ROWS * DEBLURRING_COLUMNS(DEBLURRING_GUITAR) };
    double *x = calloc(N + 1, sizeof *x);
    const char *path = folder_path(folder, "guitar_292x119.f64");
    assert_non_null(x);
    char found[FILES_PATH];
    assert_false(deblurring_find_photograph(folder, DEBLURRING_GUITAR, found));
    assert_int_equal(deblurring_read_photograph(folder, DEBLURRING_GUITAR, x, ERROR), -1);
    assert_int_equal(files_write(path, x, N * sizeof *x - 1, ERROR), 0);
    assert_int_equal(deblurring_read_photograph(folder, DEBLURRING_GUITAR, x, ERROR), -1);
    assert_non_null(strstr(error, "expected 277984"));
    assert_int_equal(files_write(path, x, (N + 1) * sizeof *x, ERROR), 0);
    assert_int_equal(deblurring_read_photograph(folder, DEBLURRING_GUITAR, x, ERROR), -1);
    x[7] = NAN;
    assert_int_equal(files_write(path, x, N * sizeof *x, ERROR), 0);
    assert_int_equal(deblurring_read_photograph(folder, DEBLURRING_GUITAR, x, ERROR), -1);
    assert_non_null(strstr(error, "pixel 7"));
    x[7] = 3.25;
    assert_int_equal(files_write(path, x, N * sizeof *x, ERROR), 0);
    x[7] = 0;
    if (deblurring_read_photograph(folder, DEBLURRING_GUITAR, x, ERROR)) fail_msg("%s", error);
    assert_true(x[7] == 3.25 && x[6] == 0);
    free(x);
}

/* ---------------------------------------------------------------------------- the list of runs */

static deblurring_scale tiny(void)
{
    deblurring_scale s = deblurring_scale_quick();
    s.rows = 17;
    s.columns = 14;
    s.flower_rows = 15;
    s.flower_columns = 13;
    s.particles = 8;
    s.iterations = 30;
    s.theta = -15;
    return s;
}

static deblurring_plan planned(deblurring_scale scale, const char *out)
{
    deblurring_plan p = {.out = out, .scale = scale, .seed = 42, .threads = 1};
    if (deblurring_plan_cells(&p, ERROR)) fail_msg("%s", error);
    return p;
}

static int count(const deblurring_plan *p, deblurring_setup s, deblurring_method m)
{
    int n = 0;
    for (int i = 0; i < p->cells; i++) n += p->cell[i].setup == s && p->cell[i].method == m;
    return n;
}

/* A photograph of the right size. */
static const char *made_up_photograph(void)
{
    static double x[DEBLURRING_PHOTOGRAPH_ROWS * DEBLURRING_COLUMNS(DEBLURRING_GUITAR)];
    deblurring_draw(DEBLURRING_SHAPES, DEBLURRING_PHOTOGRAPH_ROWS, DEBLURRING_COLUMNS(DEBLURRING_GUITAR), x);
    if (files_write(folder_path(folder, "guitar_292x119.f64"), x, sizeof x, ERROR)) fail_msg("%s", error);
    return folder;
}

static void the_list(void **state)
{
    deblurring_plan p = {.out = "/out", .scale = deblurring_scale_full(), .data = made_up_photograph()};
    if (deblurring_plan_cells(&p, ERROR)) fail_msg("%s", error);
    assert_int_equal(count(&p, DEBLURRING_A, DEBLURRING_MYPGD), 5);
    assert_int_equal(count(&p, DEBLURRING_C, DEBLURRING_P), 5);
    assert_int_equal(count(&p, DEBLURRING_B, DEBLURRING_P), 1);
    for (int m = 0; m < DEBLURRING_METHODS; m++)
        assert_true(deblurring_find(&p, DEBLURRING_A, (deblurring_method)m, 0) != NULL);
    for (int i = 0; i < p.cells; i++) /* each once */
        assert_ptr_equal(deblurring_find(&p, p.cell[i].setup, p.cell[i].method, p.cell[i].seed), &p.cell[i]);
    assert_int_equal(deblurring_cell_particles(&p, deblurring_find(&p, DEBLURRING_A, DEBLURRING_P_FEW, 0)), 5);
    assert_int_equal(deblurring_cell_particles(&p, deblurring_find(&p, DEBLURRING_A, DEBLURRING_P_MANY, 0)), 80);
    deblurring_plan_free(&p);
    p = planned(deblurring_scale_default(), "/out"); /* without the photograph */
    assert_int_equal(count(&p, DEBLURRING_A, DEBLURRING_P), 0);
    assert_true(count(&p, DEBLURRING_FLAT, DEBLURRING_P_MANY) == 1 && count(&p, DEBLURRING_GRAIN, DEBLURRING_P) == 1);
    deblurring_plan_free(&p);
    p = (deblurring_plan){.scale = tiny()};
    p.scale.seeds = DEBLURRING_SEEDS + 1;
    assert_int_equal(deblurring_plan_cells(&p, ERROR), -1);
    deblurring_plan_free(&p);
}

/* The same data for all methods of a seed; its noise has the size it should have. */
static void what_is_seen(void **state)
{
    deblurring_scale scale = tiny();
    scale.rows = 60;
    scale.columns = 50;
    deblurring_plan p = planned(scale, folder);
    const deblurring_cell *a = deblurring_find(&p, DEBLURRING_FLAT, DEBLURRING_MYPGD, 0);
    const deblurring_cell *b = deblurring_find(&p, DEBLURRING_FLAT, DEBLURRING_P, 0);
    const deblurring_cell *other = deblurring_find(&p, DEBLURRING_FLAT, DEBLURRING_P, 1);
    enum { N = 3000 };
    static double y[3][N], blurred[N];
    sosmc_blur blur = {.rows = 60, .columns = 50, .kind = SOSMC_BLUR_BOX, .patch = 5};
    double *scratch = malloc(deblurring_see_scratch(&p, a) * sizeof *scratch);
    assert_non_null(scratch);
    deblurring_see(&p, a, y[0], scratch);
    deblurring_see(&p, b, y[1], scratch);
    deblurring_see(&p, other, y[2], scratch);
    sosmc_blur_apply(&blur, p.truth[DEBLURRING_SHAPES], blurred, scratch);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_true(fabs(sosmc_mse(N, blurred, y[0]) / (0.47 * 0.47) - 1) < 0.15);
    assert_true(fabs(sosmc_mse(N, y[2], y[0]) / (2 * 0.47 * 0.47) - 1) < 0.15); /* independent */
    free(scratch);
    deblurring_plan_free(&p);
}

/* ---------------------------------------------------------------------------- one run */

static deblurring_cell *cell_of(deblurring_plan *p, deblurring_method m)
{
    const deblurring_cell *c = deblurring_find(p, DEBLURRING_FLAT, m, 0);
    assert_non_null(c);
    return &p->cell[c - p->cell];
}

static const deblurring_cell *made(deblurring_plan *p, deblurring_method m)
{
    deblurring_cell *c = cell_of(p, m);
    if (deblurring_cell_run(p, c, ERROR) || deblurring_cell_read(p, c, ERROR)) fail_msg("%s", error);
    assert_true(c->rows == 3 && c->value[DEBLURRING_K][0] == 10 && deblurring_last(c, DEBLURRING_K) == 30);
    return c;
}

/* While e^theta is nearly nothing, theta rises by the rate in every iteration and all weights are equal. */
static void theta_and_step(void **state)
{
    static const double step[DEBLURRING_METHODS] = {0.01, 0, 0, 0, 0.396, 0.01, 0.396, 0, 0};
    deblurring_plan p = planned(tiny(), folder_path(folder, "steps"));
    for (int m = 0; m < DEBLURRING_METHODS; m++) {
        const deblurring_cell *c = made(&p, (deblurring_method)m);
        int exact = m == DEBLURRING_RATIO || m == DEBLURRING_CACHED;
        assert_true(fabs(deblurring_last(c, DEBLURRING_THETA) - (-15 + 0.3)) < 1e-4);
        /* the exact weightings know the ESS behind the move, so their step grows one iteration later */
        double expected = step[m] > 0 ? step[m] : 0.01 * pow(1.01, exact ? 29 : 30);
        assert_true(fabs(deblurring_last(c, DEBLURRING_STEP) - expected) < 1e-12);
        if (!exact) assert_true(deblurring_last(c, DEBLURRING_RESAMPLINGS) == 0);
        if (exact) assert_true(deblurring_last(c, DEBLURRING_LEAST_ESS) < 0.5 * p.scale.particles);
        double cloud = deblurring_last(c, DEBLURRING_MSE), mean = deblurring_last(c, DEBLURRING_MEAN_MSE);
        assert_true(mean <= cloud); /* convexity */
        int rows, columns;
        const double *truth = deblurring_truth(&p, c, &rows, &columns);
        assert_true(fabs(sosmc_mse((size_t)rows * (size_t)columns, truth, c->mean) - mean) < 1e-9 * mean);
        assert_int_equal(c->shown_count, m == DEBLURRING_P_FEW ? 2 : 8);
    }
    deblurring_plan_free(&p);
}

/* A child is told to stop before it begins, and stops behind the first row; the parent goes on. */
static void a_run_cut_short(void **state)
{
    char out[2][FILES_PATH];
    const deblurring_cell *c[2];
    deblurring_plan p[2];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(out[i], sizeof out[i], "%s", folder_path(folder, i ? "whole" : "pieces"));
        p[i] = planned(tiny(), out[i]);
        p[i].scale.theta = -3; /* where something is resampled */
    }
    pid_t child = fork();
    if (child == 0) {
        interrupt_catch();
        (void)kill(getpid(), SIGINT);
        _exit(deblurring_cell_run(&p[0], cell_of(&p[0], DEBLURRING_CACHED), ERROR) == -1 ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    deblurring_cell *half = cell_of(&p[0], DEBLURRING_CACHED);
    assert_int_equal(deblurring_cell_read(&p[0], half, ERROR), -1); /* no result yet, but a row */
    assert_int_equal(half->rows, 1);
    double seconds = half->value[DEBLURRING_SECONDS][0];
    deblurring_plan_free(&p[0]);
    p[0] = planned(tiny(), out[0]);
    p[0].scale.theta = -3;
    for (int i = 0; i < 2; i++) c[i] = made(&p[i], DEBLURRING_CACHED);
    assert_true(c[0]->value[DEBLURRING_SECONDS][0] == seconds); /* it was not begun anew */
    for (int v = 0; v < DEBLURRING_SECONDS; v++)
        assert_memory_equal(c[0]->value[v], c[1]->value[v], 3 * sizeof(double));
    assert_true(deblurring_last(c[0], DEBLURRING_RESAMPLINGS) > 0);
    assert_memory_equal(c[0]->mean, c[1]->mean, 17 * 14 * sizeof(double));
    assert_memory_equal(c[0]->shown, c[1]->shown, 8 * 17 * 14 * sizeof(double));
    for (int i = 0; i < 2; i++) deblurring_plan_free(&p[i]);
}

/* ---------------------------------------------------------------------------- verdicts */

/* A plan of cells with one row each: values of the paper, moved by `apart` standard deviations. */
typedef struct {
    deblurring_plan plan;
    double value[DEBLURRING_CELLS][DEBLURRING_VALUES];
} invention;

static void invent(invention *v, deblurring_setup s, deblurring_method m, double theta, double mse, double ssim)
{
    for (int seed = 0; seed < 5; seed++) {
        int i = v->plan.cells++;
        deblurring_cell *c = &v->plan.cell[i];
        double off = seed - 2; /* sample standard deviation 1.58 */
        *c = (deblurring_cell){.setup = s, .method = m, .seed = seed, .rows = 1};
        for (int k = 0; k < DEBLURRING_VALUES; k++) {
            v->value[i][k] = 1;
            c->value[k] = &v->value[i][k];
        }
        v->value[i][DEBLURRING_THETA] = theta + 0.01 * off;
        v->value[i][DEBLURRING_MSE] = mse + off;
        v->value[i][DEBLURRING_SSIM] = ssim + 0.01 * off;
    }
}

static void verdicts(void **state)
{
    static invention v;
    claim c[DEBLURRING_CLAIMS];
    v.plan.scale = deblurring_scale_full();
    if (known_open(&v.plan.known, "deblurring", ERROR)) fail_msg("%s", error);
    invent(&v, DEBLURRING_A, DEBLURRING_MYPGD, -3.30, 312.71, 0.74);
    invent(&v, DEBLURRING_A, DEBLURRING_P, -3.48, 215.47 + 4, 0.80);      /* 2.5 standard deviations */
    invent(&v, DEBLURRING_C, DEBLURRING_MYPGD, -3.94, 1520.36 - 6, 0.22); /* 3.8 */
    invent(&v, DEBLURRING_A, DEBLURRING_LARGE_STEP, -3.49, 218, 0.80);
    deblurring_judge(&v.plan, c);
    assert_int_equal(c[0].verdict, CLAIM_CONFIRMED);
    assert_int_equal(c[1].verdict, CLAIM_CONFIRMED);
    assert_int_equal(c[4].verdict, CLAIM_CORRECTED);
    assert_int_equal(c[5].verdict, CLAIM_NOT_SEEN); /* was not run */
    assert_int_equal(c[6].verdict, CLAIM_CONFIRMED);
    assert_int_equal(c[7].verdict, CLAIM_CORRECTED); /* the step alone does nearly as well */
    assert_int_equal(c[8].verdict, CLAIM_NOT_SEEN);
    v.plan.cells = 11; /* all seeds of two methods and one of the third */
    deblurring_judge(&v.plan, c);
    assert_int_equal(c[4].verdict, CLAIM_NOT_SEEN);
    v.plan.cells = 0; /* drawn pictures alone correct nothing that the paper says of its own */
    invent(&v, DEBLURRING_FLAT, DEBLURRING_MYPGD, -3, 100, 0.7);
    invent(&v, DEBLURRING_FLAT, DEBLURRING_P, -3, 110, 0.7);
    invent(&v, DEBLURRING_FLAT, DEBLURRING_LARGE_STEP, -3, 112, 0.7);
    invent(&v, DEBLURRING_FLAT, DEBLURRING_RATIO, -3, 112, 0.7);
    deblurring_judge(&v.plan, c);
    for (int i = 0; i < DEBLURRING_CLAIMS; i++) assert_int_equal(c[i].verdict, CLAIM_NOT_SEEN);
    v.plan.cells = 0; /* ... and confirm nothing of it either: what was not run is said, and no "0 of 0" */
    v.plan.scale = deblurring_scale_quick();
    invent(&v, DEBLURRING_FLAT, DEBLURRING_MYPGD, -3, 110, 0.7);
    invent(&v, DEBLURRING_FLAT, DEBLURRING_P, -3, 100, 0.7);
    deblurring_judge(&v.plan, c);
    assert_int_equal(c[6].verdict, CLAIM_NOT_SEEN);
    assert_non_null(strstr(c[6].because, "the quick version runs drawn pictures alone"));
    assert_non_null(strstr(c[6].because, "smaller on 1 of 1 drawn pictures"));
    for (int i = 0; i < DEBLURRING_CLAIMS; i++) assert_null(strstr(c[i].because, "0 of 0"));
    deblurring_known k = deblurring_known_of(&v.plan, DEBLURRING_B,
                                             DEBLURRING_P); /* of another picture: not compared */
    assert_true(isnan(k.theta) && isnan(k.check_theta) && k.check_particles == 0);
    k = deblurring_known_of(&v.plan, DEBLURRING_A, DEBLURRING_LARGE_STEP);
    assert_true(isnan(k.theta) && k.check_theta == -3.4931 && k.check_mean_ssim == 0.8599 && k.check_particles == 4);
    known_close(&v.plan.known);
}

/* ---------------------------------------------------------------------------- magnifiers */

static void magnifiers(void **state)
{
    enum { ROWS = 40, COLUMNS = 30, ZOOM = 2 };
    static double x[ROWS * COLUMNS], canvas[ROWS * COLUMNS * ZOOM * ZOOM];
    deblurring_magnifier m = {.row = 30.5, .column = 20.5, .radius = 4, .shade = -5};
    for (int e = 0; e < ROWS * COLUMNS; e++) x[e] = e;
    deblurring_magnify(&m, ROWS, COLUMNS, ZOOM, x, canvas);
    const double *middle = canvas + (size_t)(8.6 * ZOOM) * COLUMNS * ZOOM + (size_t)(8.6 * ZOOM);
    assert_true(fabs(*middle - (30 * COLUMNS + 20)) <= COLUMNS + 1); /* upper left: what stands at (30, 20) */
    assert_true(canvas[(size_t)(ROWS * ZOOM - 1) * COLUMNS * ZOOM] == (ROWS - 1) * COLUMNS); /* far away: as it was */
    int shaded = 0, changed = 0;
    for (int i = 0; i < ROWS * ZOOM; i++)
        for (int j = 0; j < COLUMNS * ZOOM; j++) {
            double here = canvas[i * COLUMNS * ZOOM + j];
            shaded += here == -5;
            changed += here != x[i / ZOOM * COLUMNS + j / ZOOM];
        }
    double ring = 2 * 3.14159 * (8 * 1.2 + 4 * 0.6) * ZOOM * ZOOM;
    assert_true(fabs(shaded / ring - 1) < 0.2);
    assert_true(changed < shaded + 3.2 * 8 * 8 * ZOOM * ZOOM);
}

/* ---------------------------------------------------------------------------- the whole */

static void the_whole(void **state)
{
    static const char *const files[] = {"report.html", "summary.json", "table.csv"};
    char out[FILES_PATH], path[FILES_PATH], *before[3], *after;
    size_t size[3], again;
    deblurring_scale scale = tiny();
    reproduce_options o = {.out = out, .quiet = 1, .threads = 2, .seed = 7};
    image im;
    scale.b = 1;
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, "out"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(reproduce_deblurring_scaled(&o, &scale), SOSMC_EXIT_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(files_join(path, out, files[i], ERROR), 0);
            after = contents(path, round ? &again : &size[i]);
            if (round)
                assert_true(again == size[i] && memcmp(before[i], after, again) == 0); /* all was there already */
            if (round) free(after);
            if (!round) before[i] = after;
        }
    }
    assert_non_null(strstr(before[0], "data:image/png;base64,"));
    assert_non_null(strstr(before[0], "Ablation"));
    assert_non_null(strstr(before[1], "\"experiment\": \"deblurring\""));
    assert_non_null(strstr(before[2], "B,flower,SOSMC-MYULA,0,8,30,"));
    for (int i = 0; i < 3; i++) free(before[i]);
    assert_int_equal(files_join(path, out, "figures/means-B.png", ERROR), 0);
    if (image_read(path, &im, ERROR)) fail_msg("%s", error);
    assert_int_equal(im.columns, 4 * 13 * 14 + 5 * 4);
    image_free(&im);
    assert_int_equal(files_join(path, out, "figures/particles-shapes.png", ERROR), 0);
    if (image_read(path, &im, ERROR)) fail_msg("%s", error);
    assert_int_equal(im.rows, 2 * 17 * 13 + 3 * 4);
    image_free(&im);
}

/* Without --data the photograph is that which comes with the program, and the published rows are compared. */
static void the_shipped_photograph(void **state)
{
    char out[FILES_PATH], path[FILES_PATH];
    size_t size;
    deblurring_scale scale = tiny();
    reproduce_options o = {.out = out, .quiet = 1, .threads = 2, .seed = 7};
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, "shipped"));
    scale.guitar = 1;
    scale.particles = 2;
    scale.iterations = 2;
    scale.every = 1;
    assert_int_equal(reproduce_deblurring_scaled(&o, &scale), SOSMC_EXIT_OK);
    assert_int_equal(files_join(path, out, "summary.json", ERROR), 0);
    char *summary = contents(path, &size);
    assert_non_null(strstr(summary, "experiments/deblurring"));
    assert_non_null(strstr(summary, "\"picture\": \"guitar\""));
    assert_non_null(strstr(summary, "2 seeds: theta -14.98"));
    assert_non_null(strstr(summary, "setup C is run by --full alone"));
    assert_non_null(strstr(summary, "its photograph was not given by --data DIR"));
    free(summary);
}

/* The owner of the flower fills both rows of setup B; the guitar is the one that comes with the program. */
static void the_flower_of_others(void **state)
{
    enum { ROWS = 3, COLUMNS = 2, N = DEBLURRING_PHOTOGRAPH_ROWS * 150 };
    double pixel[3 * ROWS * COLUMNS] = {200, 10, 30, 40, 50, 60, 100, 20, 30, 40, 50, 61, 50, 30, 30, 40, 50, 62};
    const image im = {.channels = 3, .rows = ROWS, .columns = COLUMNS, .pixel = pixel};
    const char *dir = folder_path(folder, "flower");
    char out[FILES_PATH], path[FILES_PATH], why[512];
    static double x[N];
    size_t size;
    deblurring_scale scale = tiny();
    reproduce_options o = {.out = out, .quiet = 1, .threads = 2, .seed = 7};
    assert_int_equal(mkdir(dir, 0777), 0);
    (void)snprintf(out, sizeof out, "%s", dir);
    assert_int_equal(files_join(path, out, "flower.jpeg", ERROR), 0);
    assert_int_equal(files_write(path, "no picture", 10, ERROR), 0);
    assert_int_equal(deblurring_read_photograph(out, DEBLURRING_FLOWER, x, why, sizeof why), -1);
    assert_non_null(strstr(why, "flower.jpeg is no picture that can be read"));
    if (image_write(path, &im, 8, 0, 255, ERROR)) fail_msg("%s", error); /* what it is its bytes say */
    if (deblurring_read_photograph(out, DEBLURRING_FLOWER, x, ERROR)) fail_msg("%s", error);
    assert_true(x[0] == 124 && x[149] == 18 && x[N - 150] == 50 && x[N - 1] == 61); /* corners stay */
    assert_true(fabs(x[75] - (124 - 106 * 75 / 149.0)) < 1e-9);
    char *data = strdup(out);
    o.data = data;
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, "with-flower"));
    scale.guitar = 1;
    scale.particles = scale.iterations = 2;
    scale.every = 1;
    assert_int_equal(reproduce_deblurring_scaled(&o, &scale), SOSMC_EXIT_OK);
    assert_int_equal(files_join(path, out, "summary.json", ERROR), 0);
    char *summary = contents(path, &size);
    assert_non_null(strstr(summary, "\"rows\": 292,\n      \"columns\": 150"));
    assert_null(strstr(summary, "its photograph was not given"));
    assert_null(strstr(summary, "one was run"));
    assert_non_null(strstr(summary, "experiments/deblurring"));
    free(summary);
    free(data);
}

static void refusals(void **state)
{
    reproduce_options o = {.out = folder_path(folder, "refused"), .quiet = 1, .data = "/nowhere"};
    assert_int_equal(reproduce_deblurring(&o), SOSMC_EXIT_IO);
    o.data = NULL;
    o.budget_seconds = 1;
    assert_int_equal(reproduce_deblurring(&o), SOSMC_EXIT_USAGE);
    o.budget_seconds = 0;
    o.quick = o.full = 1;
    assert_int_equal(reproduce_deblurring(&o), SOSMC_EXIT_USAGE);
    o.full = 0;
    o.seeds = DEBLURRING_SEEDS + 1;
    assert_int_equal(reproduce_deblurring(&o), SOSMC_EXIT_IO);
    assert_int_equal(access(folder_path(folder, "refused"), F_OK), -1); /* nothing is left behind */
}

/* ---------------------------------------------------------------------------- run files */

/* A short run of every method with the blur of setup A gives this MSE of its cloud as long as no run file and no key of a method
 * changes. */
static void run_files_are_the_published_settings(void **state)
{
    static const double mse[DEBLURRING_METHODS] = {0x1.467e845b62a3ap+11, 0x1.4185c25956d4bp+11, 0x1.3d724877e4879p+11,
                                                   0x1.3d7323c9e7d84p+11, 0x1.06113d5e566e1p+10, 0x1.4450fecf0377cp+11,
                                                   0x1.025eddc9fa1b7p+10, 0x1.36e6e061a5c46p+11, 0x1.384fd34266ceap+11};
    deblurring_scale scale = tiny();
    scale.theta = -3; /* where the prior matters */
    char out[FOLDER_ROOM];
    (void)snprintf(out, sizeof out, "%s", folder_path(folder, "files"));
    deblurring_plan p = planned(scale, out);
    for (int m = 0; m < DEBLURRING_METHODS; m++) {
        const deblurring_cell *c = made(&p, (deblurring_method)m);
        if (!(fabs(deblurring_last(c, DEBLURRING_MSE) / mse[m] - 1) < 1e-12))
            fail_msg("%s: the MSE is %a, expected %a", deblurring_recipes[m].name, deblurring_last(c, DEBLURRING_MSE),
                     mse[m]);
    }
    deblurring_plan_free(&p);
}

/* What a reader runs by hand is setup A at the paper's size. */
static void run_files_are_setup_a(void **state)
{
    static const char *const files[] = {"mypgd.yaml", "sosmc-myula.yaml"};
    const deblurring_setting *a = &deblurring_settings[DEBLURRING_A];
    const deblurring_scale full = deblurring_scale_full();
    char dir[FILES_PATH];
    int n;
    if (experiment_find("deblurring", files[0], dir, ERROR)) fail_msg("%s", error);
    for (int i = 0; i < 2; i++) {
        experiment_file f = experiment_load(dir, files[i]);
        if (!f.c || config_resolve(f.c, f.error, sizeof f.error)) fail_msg("%s", f.error);
        assert_int_equal(config_integer(f.c, "model.patch"), a->patch);
        assert_true(config_number(f.c, "model.noise") == a->noise &&
                    config_vector(f.c, "init.sd", &n)[0] == a->start_sd);
        assert_true(config_vector(f.c, "model.theta", &n)[0] == full.theta);
        assert_int_equal(config_integer(f.c, "particles"), full.particles);
        assert_int_equal(config_integer(f.c, "iterations"), full.iterations);
        config_free(f.c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_pictures),
        cmocka_unit_test(the_photograph),
        cmocka_unit_test(damaged_photographs),
        cmocka_unit_test(the_list),
        cmocka_unit_test(what_is_seen),
        cmocka_unit_test(theta_and_step),
        cmocka_unit_test(a_run_cut_short),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(magnifiers),
        cmocka_unit_test(the_whole),
        cmocka_unit_test(the_shipped_photograph),
        cmocka_unit_test(the_flower_of_others),
        cmocka_unit_test(run_files_are_the_published_settings),
        cmocka_unit_test(run_files_are_setup_a),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
