/* test_picture_jobs.c: run files about pictures: what rewards, judges and data sets they make, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runfile/config.h"
#include "files/files.h"
#include "folder.h"
#include "pictures/images.h"
#include "job/model_file.h"
#include "job/network_text.h"
#include "job/problem.h"

enum { ROWS = 5, COLUMNS = 4, DIM = ROWS * COLUMNS, LD = 8 };
static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* FOLDER/m.safetensors: an energy; FOLDER/judge.safetensors: three outputs, number k being k + 1 times pixel k. */
static void write_models(void)
{
    static const char *const texts[] = {"1x5x4; dense 1", "1x5x4; dense 3"};
    for (int judge = 0; judge < 2; judge++) {
        model_file m = {.inputs = DIM};
        assert_int_equal(network_parse(texts[judge], &m.network, ERROR), 0);
        m.parameters = (int)network_parameters(&m.network);
        m.theta = calloc((size_t)m.parameters, sizeof *m.theta);
        assert_non_null(m.theta);
        for (int k = 0; judge && k < 3; k++) m.theta[k * DIM + k] = k + 1;
        assert_int_equal(model_write(folder_path(folder, judge ? "judge.safetensors" : "m.safetensors"), &m, ERROR), 0);
        model_free(&m);
    }
}

static void write_mask(const char *name, int rows, int columns, double (*grey)(int, int))
{
    image mask = {.channels = 1, .rows = rows, .columns = columns, .bits = 8};
    mask.pixel = malloc((size_t)(rows * columns) * sizeof *mask.pixel);
    assert_non_null(mask.pixel);
    for (int i = 0; i < rows * columns; i++) mask.pixel[i] = grey(i / columns, i % columns);
    assert_int_equal(image_write(folder_path(folder, name), &mask, 8, 0, 255, ERROR), 0);
    image_free(&mask);
}

static double white_on_top(int row, int column) { return row == 0 ? 255 : row == ROWS - 1 ? 0 : 127.5; }
static double grey_all_over(int row, int column) { return 127.5; }

/* A job with this reward, or with what stands in for the whole objective when `objective` is given; -1 leaves `error`. */
static int build(job *j, config **c, const char *model, const char *objective)
{
    char text[2048];
    int io = 0;
    (void)snprintf(text, sizeof text, "model: %s\nobjective: %s\nscheme: unweighted\nparticles: 8\n", model, objective);
    *j = (job){0};
    FILE *f = fopen(folder_path(folder, "run.yaml"), "w"); /* paths are relative to it */
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    *c = config_load(folder_path(folder, "run.yaml"), ERROR);
    assert_non_null(*c);
    if (config_resolve(*c, ERROR)) return -1;
    return job_build(j, *c, &io, ERROR);
}

static const char *reward_of(const char *words)
{
    static char text[1024];
    (void)snprintf(text, sizeof text, "{type: reward_reverse, beta: 1, reward: %s}", words);
    return text;
}

/* A picture whose pixel j is (j - 7) / 10, from -0.7 to 1.2: the last two are clipped. */
static double pixel(int j) { return (j - 7) / 10.0; }
static double clipped(int j) { return fmin(1, pixel(j)); }

static double score(const char *words)
{
    job j;
    config *c;
    _Alignas(64) double x[DIM * LD] = {0}, s[LD];
    if (build(&j, &c, "{type: stored, file: m.safetensors}", reward_of(words))) fail_msg("%s", error);
    for (int k = 0; k < DIM; k++) x[k * LD + 3] = pixel(k);
    sosmc_batch b = {.x = x, .simd = sosmc_simd_best(), .dim = DIM, .n = 4, .ld = LD};
    assert_int_equal(j.problem.objective.score.eval(j.problem.objective.score.self, &b, s), 0);
    job_free(&j);
    config_free(c);
    return s[3];
}

static double mean_of(int from, int to)
{
    double sum = 0;
    for (int k = from; k < to; k++) sum += clipped(k);
    return sum / (to - from);
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void rewards_of_pixels(void **state)
{
    double half = 0.5 * (mean_of(3 * COLUMNS, DIM) - mean_of(0, 2 * COLUMNS)); /* the middle row counts for neither */
    NEAR(score("{type: bright}"), mean_of(0, DIM));
    NEAR(score("{type: dark, scale: 0.5}"), -0.5 * mean_of(0, DIM));
    NEAR(score("{type: half}"), half);
    NEAR(score("{type: half, scale: 2}"), 2 * half);
    NEAR(score("{type: bright, clamp: 0}"), mean_of(0, DIM) + (pixel(18) + pixel(19) - 2) / DIM);
    NEAR(score("mean"), mean_of(0, DIM));
    NEAR(score("\"0.5*(mean(4, 5, 1, 4) - mean(1, 2, 1, 4))\""), half);
}

static void rewards_of_masks(void **state)
{
    write_mask("mask.png", ROWS, COLUMNS, white_on_top);
    double grey = 128 / 127.5 - 1, weighed = 0, total = 0; /* 127.5 is stored as 128 */
    for (int k = 0; k < DIM; k++) {
        double w = k < COLUMNS ? 1 : k >= DIM - COLUMNS ? -1 : grey;
        weighed += w * clipped(k);
        total += fabs(w);
    }
    NEAR(score("{type: mask, mask: mask.png, scale: 3}"), 3 * weighed / total);
    NEAR(score("{formula: \"2 * mask\", mask: mask.png}"), 2 * weighed / total);
}

static void rewards_of_judges(void **state)
{
    double f[3], sum = 0;
    for (int k = 0; k < 3; k++) {
        f[k] = (k + 1) * clipped(k);
        sum += exp(f[k]);
    }
    NEAR(score("{network: judge.safetensors, output: 2}"), f[2]);
    NEAR(score("{network: judge.safetensors, output: 1, scale: -4}"), -4 * f[1]);
    NEAR(score("{network: judge.safetensors, output: 2, log_probability: true}"), f[2] - log(sum));
}

/* Four pictures of bytes become a data source with noise that respects the bounds. */
static void pictures_to_train_on(void **state)
{
    unsigned char bytes[16 + 4 * DIM] = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, ROWS, 0, 0, 0, COLUMNS};
    _Alignas(64) double x[DIM * LD];
    job j;
    config *c;
    for (int i = 0; i < 4 * DIM; i++) bytes[16 + i] = (unsigned char)(i % 256);
    FILE *f = fopen(folder_path(folder, "four.idx"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(build(&j, &c, "{type: network, layers: \"1x5x4; conv 2 3 silu; dense 1\"}",
                           "{type: ebm_likelihood, batch: 2, data: {type: images, file: four.idx, jitter: 0.1}}"),
                     0);
    const sosmc_source *data = &j.problem.objective.data;
    sosmc_batch b = {.simd = sosmc_simd_best(), .dim = DIM, .n = 8, .ld = LD};
    assert_int_equal(data->draw(data->self, (sosmc_rng){.seed = 3, .stream = SOSMC_STREAM_DATA}, &b, x), 0);
    double moved = 0;
    for (int i = 0; i < 8; i++) {
        double nearest = 1e9; /* each is one of the four, give or take the noise */
        for (int p = 0; p < 4; p++) {
            double apart = 0;
            for (int k = 0; k < DIM; k++)
                apart = fmax(apart, fabs(x[k * LD + i] - (bytes[16 + p * DIM + k] / 127.5 - 1)));
            nearest = fmin(nearest, apart);
        }
        assert_true(nearest < 0.6);
        moved = fmax(moved, nearest);
        for (int k = 0; k < DIM; k++) assert_true(fabs(x[k * LD + i]) <= 1);
    }
    assert_true(moved > 0.05);
    job_free(&j);
    config_free(c);
}

static void what_is_refused(void **state)
{
#define STORED "{type: stored, file: m.safetensors}"
    static const struct {
        const char *model, *objective, *words;
    } wrong[] = {
        {"{type: mlp, inputs: 2, hidden: [4]}", "{type: reward_reverse, reward: {type: bright}}",
         "objective.reward.type is bright, which is for pictures"},
        {STORED, "{type: reward_reverse, reward: {type: mask, mask: wide.png}}",
         "a picture of 1 x 4 x 5 (channels, rows, columns); expected 1 x 5 x 4"},
        {STORED, "{type: reward_reverse, reward: {type: mask, mask: absent.png}}", "absent.png"},
        {STORED, "{type: reward_reverse, reward: {network: judge.safetensors, output: 3}}",
         "objective.reward.output is 3; "},
        {STORED, "{type: reward_reverse, reward: {network: small.safetensors}}",
         "which judges pictures of 4 numbers; the model has 20"},
        {"{type: network, layers: \"1x9x9; dense 1\"}", "{type: ebm_likelihood, data: {type: images, file: four.idx}}",
         "pictures of 1 x 5 x 4 (channels, rows, columns); the model has 1 x 9 x 9"},
        {"{type: network, layers: \"1x9x9; dence 1\"}", "none", "model.layers is not a network: clause 2"},
        {"{type: network, layers: \"1x9x9; dense 1\"}",
         "{type: ebm_likelihood, gradient_penalty: 1, data: {type: images, "
         "file: nine.idx}}",
         "nine.idx"},
        {"{type: mlp, inputs: 2, hidden: [4]}", "{type: reward_reverse, reward: \"tv\"}", "statistic of pictures"}};
    model_file small = {.inputs = 4};
    job j;
    config *c;
    write_mask("wide.png", COLUMNS, ROWS, grey_all_over);
    assert_int_equal(network_parse("1x2x2; dense 1", &small.network, ERROR), 0);
    small.parameters = 5;
    small.theta = calloc(5, sizeof *small.theta);
    assert_non_null(small.theta);
    assert_int_equal(model_write(folder_path(folder, "small.safetensors"), &small, ERROR), 0);
    model_free(&small);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(build(&j, &c, wrong[i].model, wrong[i].objective), -1);
        if (!strstr(error, wrong[i].words)) fail_msg("\"%s\" lacks \"%s\"", error, wrong[i].words);
        job_free(&j);
        config_free(c);
    }
}

/* The temperature divides the energy, and a perceptron has none. */
static void temperature(void **state)
{
    job j;
    config *c;
    _Alignas(64) double x[DIM * LD] = {0}, U[2][LD];
    for (int k = 0; k < DIM; k++) x[k * LD] = pixel(k);
    for (int cold = 0; cold < 2; cold++) {
        assert_int_equal(build(&j, &c,
                               cold ? "{type: stored, file: judge.safetensors, temperature: 0.25}"
                                    : "{type: stored, file: judge.safetensors}",
                               "none"),
                         0);
        const sosmc_model *m = &j.problem.model;
        void *prep = aligned_alloc(64, (m->prep + 63) / 64 * 64),
             *work = aligned_alloc(64, (m->work * LD + 63) / 64 * 64);
        assert_true(prep && work && m->prepare(m->self, j.problem.theta0, prep) == 0);
        sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = sosmc_simd_best(), .dim = DIM, .n = 1, .ld = LD};
        assert_int_equal(m->energy(m->self, j.problem.theta0, &b, U[cold], NULL), 0);
        free(prep);
        free(work);
        job_free(&j);
        config_free(c);
    }
    NEAR(U[0][0], clipped(0));
    NEAR(U[1][0], 4 * clipped(0));
    int width[] = {3};
    double weights[13] = {0};
    model_file mlp = {.inputs = 2, .hidden_layers = 1, .width = width, .activation = "silu", .theta = weights};
    mlp.parameters = model_parameters(2, width, 1);
    assert_int_equal(mlp.parameters, 13);
    assert_int_equal(model_write(folder_path(folder, "mlp.safetensors"), &mlp, ERROR), 0);
    assert_int_equal(build(&j, &c, "{type: stored, file: mlp.safetensors, temperature: 0.5}", "none"), -1);
    assert_non_null(strstr(error, "model.temperature is 0.5; only networks of pictures have one"));
    job_free(&j);
    config_free(c);
}

/* A restored photograph is stored as channels x rows x columns, a picture of a network as a vector; both are pictures. */
static void shapes(void **state)
{
    job j;
    config *c;
    picture_shape shape;
    int64_t axes[3] = {0};
    write_mask("photo.png", ROWS, COLUMNS, white_on_top);
    if (build(&j, &c, "{type: deblur, picture: photo.png, noise: 1}", "none")) fail_msg("%s", error);
    assert_int_equal(job_shape(&j, axes), 3);
    assert_true(axes[0] == 1 && axes[1] == ROWS && axes[2] == COLUMNS);
    assert_true(job_picture(&j, &shape) && shape.rows == ROWS && shape.white == 255);
    job_free(&j);
    config_free(c);
    if (build(&j, &c, "{type: stored, file: m.safetensors}", "none")) fail_msg("%s", error);
    assert_int_equal(job_shape(&j, axes), 1);
    assert_true(axes[0] == DIM);
    assert_true(job_picture(&j, &shape) && shape.rows == ROWS && shape.white == 1);
    job_free(&j);
    config_free(c);
}

static int make_folder(void **state)
{
    if (folder_make(folder, "test_picture_jobs")) return -1;
    write_models();
    return 0;
}
static int remove_folder(void **state) { return folder_remove(folder); }

/* dU/dtheta of a flat picture is minus the degrees of freedom: all pixels of all channels, or one less in each. */
static void freedom_of_colours(void **state)
{
    static const struct {
        const char *word;
        double freedom;
    } rows[] = {{"pixels", 3 * DIM}, {"exact", 3 * (DIM - 1)}};
    static const double flat[3 * DIM] = {0}, one = 1;
    double pixels[3 * DIM];
    for (int i = 0; i < 3 * DIM; i++) pixels[i] = i;
    npy_array a = {.type = NPY_F64, .dims = 3, .shape = {3, ROWS, COLUMNS}, .data = pixels};
    assert_int_equal(npy_write(folder_path(folder, "colours.npy"), &a, ERROR), 0);
    for (int k = 0; k < 2; k++) {
        char model[FOLDER_ROOM + 128];
        job j;
        config *c;
        (void)snprintf(model, sizeof model, "{type: deblur, picture: %s/colours.npy, noise: 1, freedom: %s}", folder,
                       rows[k].word);
        if (build(&j, &c, model, "mmle\nkernel: {type: myula, step: 0.1}")) fail_msg("%s", error);
        const sosmc_model *m = &j.problem.model;
        double theta = 0.3, g = 0;
        void *work = aligned_alloc(64, (m->work + 64) / 64 * 64), *prep = aligned_alloc(64, (m->prep + 64) / 64 * 64);
        assert_true(work && prep);
        if (m->prepare) assert_int_equal(m->prepare(m->self, &theta, prep), 0);
        sosmc_batch b = {.x = flat, .prep = prep, .work = work, .dim = m->dim_x, .n = 1, .ld = 1};
        double U, gx[3 * DIM];
        assert_int_equal(m->energy(m->self, &theta, &b, &U, gx), 0);
        assert_int_equal(m->grad_theta(m->self, &theta, &b, &one, &g), 0);
        if (g != -rows[k].freedom) fail_msg("freedom %s: %g", rows[k].word, g);
        free(work);
        free(prep);
        job_free(&j);
        config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rewards_of_pixels),
                                       cmocka_unit_test(rewards_of_masks),
                                       cmocka_unit_test(rewards_of_judges),
                                       cmocka_unit_test(pictures_to_train_on),
                                       cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(temperature),
                                       cmocka_unit_test(shapes),
                                       cmocka_unit_test(freedom_of_colours)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
