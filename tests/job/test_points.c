/* test_points.c: generated points have the geometry of their recipe, files of points are read whole or refused, and a
 * run file gets the points it asks for. Figures "of the sheet" are those of the published experiment. */
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

#include "assertions.h"
#include "runfile/config.h"
#include "files/files.h"
#include "job/points.h"
#include "job/problem.h"

static char error[2048];

static const double pi = 3.14159265358979323846;
static const double sheet_centres[] = {0.97627, 4.30379, 2.05527, 0.89766, -1.5269, 2.91788};

static const points_recipe moons = {
    .kind = POINTS_TWO_MOONS, .points = 20000, .noise = 0.08, .standardise = 1, .scale = 2.2};
static const points_recipe circles = {
    .kind = POINTS_CIRCLES, .points = 20000, .noise = 0.02, .factor = 0.5, .standardise = 1, .scale = 2.5};
static const points_recipe blobs = {.kind = POINTS_BLOBS,
                                    .points = 20000,
                                    .noise = 0.5,
                                    .centres = sheet_centres,
                                    .clusters = 3,
                                    .dim = 2,
                                    .standardise = 1,
                                    .scale = 2};

static double *generate(const points_recipe *r)
{
    double *x = NULL;
    int64_t rows = 0;
    if (points_generate(r, &x, &rows, error, sizeof error)) fail_msg("%s", error);
    assert_non_null(x);
    assert_int_equal(rows, r->points);
    return x;
}

/* The recipe before any scaling. */
static points_recipe raw(points_recipe r, double noise)
{
    r.noise = noise;
    r.standardise = 0;
    r.scale = 1;
    return r;
}

static void moments(const double *x, int64_t from, int64_t to, double *mean, double *sd)
{
    double sum = 0, square = 0;
    for (int64_t i = from; i < to; i++) sum += x[2 * i];
    *mean = sum / (double)(to - from);
    for (int64_t i = from; i < to; i++) square += (x[2 * i] - *mean) * (x[2 * i] - *mean);
    *sd = sqrt(square / (double)(to - from));
}

/* ---------------------------------------------------------------------------- shapes */

static void moons_without_noise(void **state)
{
    points_recipe r = raw(moons, 0);
    r.points = 9; /* four outside, five inside */
    double *x = generate(&r);
    for (int i = 0; i < 4; i++) {
        assert_near(x[2 * i], cos(pi * i / 3), 1e-15);
        assert_near(x[2 * i + 1], sin(pi * i / 3), 1e-15);
    }
    for (int i = 0; i < 5; i++) {
        assert_near(x[2 * (4 + i)], 1 - cos(pi * i / 4), 1e-15);
        assert_near(x[2 * (4 + i) + 1], 0.5 - sin(pi * i / 4), 1e-15);
    }
    free(x);
    r.points = 1; /* alone: where the inner moon begins */
    x = generate(&r);
    assert_true(x[0] == 0 && x[1] == 0.5);
    free(x);
}

static void circles_without_noise(void **state)
{
    points_recipe r = raw(circles, 0);
    r.points = 9;
    r.factor = 0.3;
    double *x = generate(&r);
    for (int i = 0; i < 4; i++) {
        assert_near(x[2 * i], cos(pi * i / 2), 1e-15);
        assert_near(x[2 * i + 1], sin(pi * i / 2), 1e-15);
    }
    for (int i = 0; i < 5; i++) {
        assert_near(x[2 * (4 + i)], 0.3 * cos(2 * pi * i / 5), 1e-15);
        assert_near(x[2 * (4 + i) + 1], 0.3 * sin(2 * pi * i / 5), 1e-15);
    }
    free(x);
}

static void blobs_without_noise(void **state)
{
    static const double centres[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const int counts[][5] = {{20000, 6667, 6667, 6666, 0}, {9, 3, 3, 3, 0}, {2, 1, 1, 0, 0}, {11, 3, 3, 3, 2}};
    for (int q = 0; q < 4; q++) {
        points_recipe r = raw(blobs, 0);
        r.points = counts[q][0];
        r.centres = centres;
        r.clusters = q == 3 ? 4 : 3;
        r.dim = 3;
        double *x = generate(&r);
        int64_t i = 0;
        for (int k = 0; k < r.clusters; k++)
            for (int n = 0; n < counts[q][1 + k]; n++, i++)
                for (int j = 0; j < 3; j++) assert_true(x[3 * i + j] == centres[3 * k + j]);
        assert_int_equal(i, r.points);
        free(x);
    }
}

/* ---------------------------------------------------------------------------- the figures of the sheet */

/* Standard errors: 6e-4 and 4e-4 of the deviations, 6e-4 of the means. */
static void moons_of_the_sheet(void **state)
{
    points_recipe plain = raw(moons, moons.noise);
    double *x = generate(&moons), *y = generate(&plain), mean[2], sd[2], after, spread;
    for (int j = 0; j < 2; j++) {
        moments(y + j, 0, 20000, &mean[j], &sd[j]);
        moments(x + j, 0, 20000, &after, &spread);
        assert_near(after, 0, 1e-12);
        assert_near(spread, 2.2, 1e-7);
        for (int i = 0; i < 20000; i++) assert_near(x[2 * i + j], 2.2 * (y[2 * i + j] - mean[j]) / sd[j], 1e-6);
    }
    assert_near(sd[0], 0.8697, 2.5e-3);
    assert_near(sd[1], 0.5006, 2e-3);
    assert_near(mean[0], 0.5, 2.5e-3);
    assert_near(mean[1], 0.25, 2.5e-3);
    free(x);
    free(y);
}

static void circles_of_the_sheet(void **state)
{
    double *x = generate(&circles);
    for (int inner = 0; inner < 2; inner++) {
        double along = 0, across = 0, square = 0;
        double radius = inner ? 2.235 : 4.469;
        for (int i = 0; i < 10000; i++) {
            const double *p = x + 2 * (10000 * inner + i);
            double t = 2 * pi * i / 10000, out = p[0] * cos(t) + p[1] * sin(t), side = p[1] * cos(t) - p[0] * sin(t);
            along += out / 10000;
            across += side * side / 10000;
            square += (out - radius) * (out - radius) / 10000;
        }
        assert_near(along, radius, 4e-3);
        assert_near(sqrt(across), 0.089, 3e-3);
        assert_near(sqrt(square), 0.089, 3e-3);
    }
    free(x);
}

static void blobs_of_the_sheet(void **state)
{
    static const double centre[3][2] = {{0.600, 2.151}, {1.965, -2.436}, {-2.565, 0.285}}, width[2] = {0.632, 0.673};
    static const int from[] = {0, 6667, 13334, 20000};
    double *x = generate(&blobs), mean, sd;
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 2; j++) {
            moments(x + j, from[k], from[k + 1], &mean, &sd);
            assert_near(mean, centre[k][j], 0.035);
            assert_near(sd, width[j], 0.025);
        }
    free(x);
}

/* The noise of a point is named by the seed and its number; coordinates are independent. */
static void noise_by_name(void **state)
{
    points_recipe r = raw(moons, 1), few = r, still = raw(moons, 0), other = r;
    few.points = 1300;
    few.kind = POINTS_CIRCLES;
    few.factor = 0;
    points_recipe few_still = few;
    few_still.noise = 0;
    other.seed = 1;
    double *a = generate(&r), *b = generate(&r), *c = generate(&other), *s = generate(&still);
    double *f = generate(&few), *fs = generate(&few_still), product = 0, between = 0;
    assert_memory_equal(a, b, 40000 * sizeof *a);
    for (int i = 0; i < 2600; i++) assert_near(f[i] - fs[i], a[i] - s[i], 1e-14);
    for (int i = 0; i < 20000; i++) {
        product += (a[2 * i] - s[2 * i]) * (a[2 * i + 1] - s[2 * i + 1]);
        between += (a[2 * i] - s[2 * i]) * (c[2 * i] - s[2 * i]);
    }
    assert_near(product / 20000, 0, 4.5 / sqrt(20000));
    assert_near(between / 20000, 0, 4.5 / sqrt(20000));
    double *all[] = {a, b, c, s, f, fs};
    for (int i = 0; i < 6; i++) free(all[i]);
}

static void refuse_recipe(points_recipe r, const char *message)
{
    double before = 0, *x = &before;
    int64_t rows = 5;
    assert_int_equal(points_generate(&r, &x, &rows, error, sizeof error), -1);
    assert_string_equal(error, message);
    assert_null(x);
    assert_int_equal(rows, 0);
}

static void wrong_recipes(void **state)
{
    points_recipe r = moons;
    r.points = 0;
    refuse_recipe(r, "the number of points is 0; expected 1 to 2^31 - 1");
    r.points = (int64_t)1 << 31;
    refuse_recipe(r, "the number of points is 2147483648; expected 1 to 2^31 - 1");
    r = circles;
    r.noise = -1;
    refuse_recipe(r, "the noise of the points is -1; expected a number of at least 0");
    r.noise = 1e308;
    refuse_recipe(r, "the generated points are not finite; expected smaller noise, centres or scale");
    r = blobs;
    r.clusters = 0;
    refuse_recipe(r, "the points have 0 centres of 2 numbers; expected at least 1 of each");
}

static void scaling(void **state)
{
    double x[] = {1, 5, 3, 5}, y[] = {1, 2, 3, 4}, large[] = {1e308, -1e308};
    assert_int_equal(points_rescale(x, 2, 2, 1, 3, NULL), 0); /* the deviation of 1 and 3 is 1: the population's */
    assert_near(x[0], -3, 1e-7);
    assert_near(x[2], 3, 1e-7);
    assert_true(x[0] > -3 && x[1] == 0 && x[3] == 0); /* 1e-8 more than 1, and a constant is no error */
    assert_int_equal(points_rescale(y, 2, 2, 0, 0.5, NULL), 0);
    assert_true(y[0] == 0.5 && y[1] == 1 && y[2] == 1.5 && y[3] == 2);
    assert_int_equal(points_rescale(large, 2, 1, 0, 10, NULL), -1);
    large[0] = 1e308, large[1] = -1e308;
    assert_int_equal(points_rescale(large, 2, 1, 1, 1, NULL), -1); /* the square overflows: zeros would be wrong */
}

/* What is told of a scaling takes the fitted points back to those that came, and densities with them: their integrals are the same. */
static void scalings_are_told(void **state)
{
    static const double came[] = {1, 50, 3, 70, 8, 20};
    double x[6];
    points_scaling s;
    for (int standardise = 0; standardise < 2; standardise++) {
        memcpy(x, came, sizeof x);
        assert_int_equal(points_rescale(x, 3, 2, standardise, 4, &s), 0);
        assert_int_equal(s.dim, 2);
        for (int i = 0; i < 6; i++) assert_near(s.centre[i % 2] + x[i] / s.factor[i % 2], came[i], 1e-12);
        assert_near(scaling_log_density(&s), log((x[2] - x[0]) / 2 * (x[3] - x[1]) / 20), 1e-12);
        scaling_free(&s);
    }
    assert_int_equal(points_rescale(x, 3, 2, 0, 1, &s), 0);
    assert_true(s.dim == 0 && !s.centre && scaling_log_density(&s) == 0); /* nothing was done */
}

/* ---------------------------------------------------------------------------- files */

static char folder[] = "/tmp/sosmc_points_XXXXXX";

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }

static int remove_folder(void **state) { return rmdir(folder); }

static const char *in_folder(const char *name)
{
    static char path[FILES_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_text(const char *name, const char *text)
{
    if (files_write(in_folder(name), text, strlen(text), error, sizeof error)) fail_msg("%s", error);
}

static void put_array(const char *name, const double *x, int64_t rows, int64_t columns)
{
    npy_array a = npy_matrix(x, rows, columns);
    if (npy_write(in_folder(name), &a, error, sizeof error)) fail_msg("%s", error);
}

/* Loads, and takes the file away. */
static int load(const char *name, int dim, double **x, int64_t *rows)
{
    int rc = points_load(in_folder(name), dim, x, rows, error, sizeof error);
    (void)unlink(in_folder(name));
    return rc;
}

static void good_files(void **state)
{
    static const double numbers[] = {1, 2, 3, -4, 5.5, 6};
    double *x = NULL;
    int64_t rows = 0;
    put_text("a.csv", "x1,x2,x3\n1,2,3\n-4,5.5,6\n");
    assert_int_equal(load("a.csv", 3, &x, &rows), 0);
    assert_int_equal(rows, 2);
    assert_memory_equal(x, numbers, sizeof numbers);
    free(x);
    put_array("a.npy", numbers, 3, 2);
    assert_int_equal(load("a.npy", 2, &x, &rows), 0);
    assert_int_equal(rows, 3);
    assert_memory_equal(x, numbers, sizeof numbers);
    free(x);
}

static void refuse_file(const char *name, int dim, const char *part)
{
    double before = 0, *x = &before;
    int64_t rows = 5;
    assert_int_equal(load(name, dim, &x, &rows), -1);
    if (!strstr(error, part) || !strstr(error, name)) fail_msg("'%s' does not say '%s' of %s", error, part, name);
    assert_null(x);
    assert_int_equal(rows, 0);
}

static void wrong_points(void **state)
{
    static const double numbers[] = {1, 2, 3, NAN, 5, 6};
    refuse_file("none.csv", 2, "No such file");
    refuse_file("none.npy", 2, "No such file");
    put_text("a.csv", "x1,x2\n1,2\n");
    refuse_file("a.csv", 3, "has 2 columns; expected 3, the dimension of the model");
    put_text("b.csv", "x1,x2\n1,2\n3,word\n");
    refuse_file("b.csv", 2, "b.csv:3: column 'x2' holds 'word', which is not a number");
    put_text("c.csv", "x1,x2\n1,2\n3,\n");
    refuse_file("c.csv", 2, "c.csv:3: column 'x2'");
    put_text("d.csv", "x1,x2\n");
    refuse_file("d.csv", 2, "has a header of 2 columns ('x1', ...) and no rows below it; expected at least one");
    put_text("e.csv", "x1;x2\n1,5;2\n");
    refuse_file("e.csv", 2, "e.csv:2: column 'x1' holds '1,5', a number with a comma; expected a point");
    put_array("d.npy", numbers, 0, 2);
    refuse_file("d.npy", 2, "holds no points; expected at least one row");
    put_array("a.npy", numbers, 2, 3);
    refuse_file("a.npy", 2, "expected an array of two dimensions with 2 columns");
    put_array("b.npy", numbers, 2, 3);
    refuse_file("b.npy", 3, "row 2, column 1 is nan; expected a finite number");
    put_text("c.npy", "nothing of the sort");
    refuse_file("c.npy", 2, "c.npy");
}

/* Of data, points in which a number is missing may be left out; of other points they are refused. */
static void points_with_gaps(void **state)
{
    static const double numbers[] = {1, 2, 3, NAN, 5, 6};
    points_gaps gaps = {.remedy = "the remedy"};
    double *x = NULL;
    int64_t rows = 0;
    put_array("g.npy", numbers, 3, 2);
    put_text("g.csv", "a;b\n1;2\n3;NA\n5;6\n");
    for (int i = 0; i < 2; i++) {
        const char *path = in_folder(i ? "g.csv" : "g.npy");
        gaps.drop = 0;
        assert_int_equal(points_load_data(path, 2, &gaps, &x, &rows, error, sizeof error), -1);
        if (!strstr(error, "; fill it in, or write the remedy to leave such rows out")) fail_msg("%s", error);
        gaps.drop = 1;
        if (points_load_data(path, 2, &gaps, &x, &rows, error, sizeof error)) fail_msg("%s", error);
        assert_int_equal(rows, 2);
        assert_int_equal(gaps.dropped, 1);
        assert_true(x[0] == 1 && x[1] == 2 && x[2] == 5 && x[3] == 6);
        free(x);
        free(gaps.columns);
        (void)unlink(path);
    }
}

/* ---------------------------------------------------------------------------- run files */

#define PLANE "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"
#define LINE "model: {type: gaussian_mixture, means: [[-1], [1]]}\n"
#define FIT "objective: {type: ebm_likelihood, "

static int build(const char *text, job *j, config **c, int *io)
{
    *c = config_parse(text, "run.yaml", error, sizeof error);
    if (!*c || config_resolve(*c, error, sizeof error)) fail_msg("%s", error);
    return job_build(j, *c, io, error, sizeof error);
}

static void points_of_a_run_file(void **state)
{
    static const struct {
        const char *text;
        const points_recipe *recipe;
    } cases[] = {{PLANE FIT "data: {type: two_moons}}\n", &moons},
                 {PLANE FIT "data: {type: circles}, batch: 512, batches: epochs}\n", &circles},
                 {PLANE FIT "data: {type: blobs}, batch: 30000}\n", &blobs}};
    static const int modes[] = {SOSMC_ROWS_IN_ORDER, SOSMC_ROWS_EPOCHS, SOSMC_ROWS_RANDOM};
    static const int batches[] = {20000, 512, 30000};
    for (int q = 0; q < 3; q++) {
        job j;
        config *c;
        int io;
        if (build(cases[q].text, &j, &c, &io)) fail_msg("%s", error);
        const sosmc_rows *rows = j.problem.objective.data.self;
        double *x = generate(cases[q].recipe);
        assert_true(rows->rows == 20000 && rows->mode == modes[q] && j.problem.objective.batch == batches[q]);
        assert_true(q != 1 || rows->batch == 512);
        assert_memory_equal(rows->data, x, 40000 * sizeof *x);
        free(x);
        job_free(&j);
        config_free(c);
    }
}

static void file_of_a_run_file(void **state)
{
    char text[FILES_PATH + 200];
    job j;
    config *c;
    int io;
    put_text("a.csv", "x1,x2\n1,2\n3,2\n");
    snprintf(text, sizeof text, PLANE FIT "data: %s}\n", in_folder("a.csv"));
    if (build(text, &j, &c, &io)) fail_msg("%s", error);
    const sosmc_rows *rows = j.problem.objective.data.self;
    assert_true(rows->rows == 2 && rows->data[0] == 1 && rows->data[1] == 2 && rows->data[2] == 3);
    job_free(&j);
    config_free(c);
    snprintf(text, sizeof text, PLANE FIT "data: {file: %s, standardise: true, scale: 4}}\n", in_folder("a.csv"));
    if (build(text, &j, &c, &io)) fail_msg("%s", error);
    rows = j.problem.objective.data.self;
    assert_near(rows->data[0], -4, 1e-7);
    assert_near(rows->data[2], 4, 1e-7);
    assert_true(rows->data[1] == 0);
    job_free(&j);
    config_free(c);
    assert_int_equal(unlink(in_folder("a.csv")), 0);
}

static void refuse_run(const char *text, int blames_file, const char *message)
{
    job j;
    config *c;
    int io = -1;
    assert_int_equal(build(text, &j, &c, &io), -1);
    assert_string_equal(error, message);
    assert_int_equal(io, blames_file);
    job_free(&j);
    config_free(c);
}

static void wrong_run_files(void **state)
{
    refuse_run(LINE FIT "data: {type: two_moons}}\n", 0,
               "run.yaml:2: objective.data.type is two_moons, which gives points of dimension 2; the model has "
               "dimension 1");
    refuse_run(LINE FIT "data: {type: blobs}}\n", 0,
               "run.yaml:2: objective.data.centres have 2 numbers each; expected 1");
    refuse_run(PLANE FIT "data: {type: circles, points: 10}, batch: 11, batches: epochs}\n", 0,
               "run.yaml:2: objective.batch is 11; expected at most the 10 points, because objective.batches is "
               "epochs");
    refuse_run(PLANE FIT "data: /no/such.csv}\n", 1, "cannot open /no/such.csv: No such file or directory");
}

/* Epochs in the engine: three batches of four out of thirteen points, and the same result from any number of threads. */
static void epochs_in_the_engine(void **state)
{
    double theta[2][2];
    for (int q = 0; q < 2; q++) {
        job j;
        config *c;
        int io;
        sosmc *s = NULL;
        if (build(PLANE FIT "data: {type: circles, points: 13}, batch: 4, batches: epochs}\n"
                            "scheme: unweighted\nparticles: 64\n",
                  &j, &c, &io))
            fail_msg("%s", error);
        j.settings.threads = 1 + 2 * q;
        assert_int_equal(sosmc_create(&s, &j.problem, &j.settings), SOSMC_OK);
        assert_int_equal(sosmc_run(s, 20, NULL, NULL), SOSMC_OK);
        memcpy(theta[q], sosmc_theta(s), sizeof theta[q]);
        sosmc_free(s);
        job_free(&j);
        config_free(c);
    }
    assert_memory_equal(theta[0], theta[1], sizeof theta[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moons_without_noise),
        cmocka_unit_test(circles_without_noise),
        cmocka_unit_test(blobs_without_noise),
        cmocka_unit_test(moons_of_the_sheet),
        cmocka_unit_test(circles_of_the_sheet),
        cmocka_unit_test(blobs_of_the_sheet),
        cmocka_unit_test(noise_by_name),
        cmocka_unit_test(wrong_recipes),
        cmocka_unit_test(scaling),
        cmocka_unit_test(scalings_are_told),
        cmocka_unit_test(good_files),
        cmocka_unit_test(wrong_points),
        cmocka_unit_test(points_with_gaps),
        cmocka_unit_test(points_of_a_run_file),
        cmocka_unit_test(file_of_a_run_file),
        cmocka_unit_test(wrong_run_files),
        cmocka_unit_test(epochs_in_the_engine),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
