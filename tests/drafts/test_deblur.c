/* test_deblur.c: `sosmc deblur` from end to end on small pictures, the moments of a run (output.moments_from) against the
 * clouds they are made of and through interruptions, and what wrong words and pictures get to hear. */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>
#include <sosmc/imaging.h>

#include "drafts/deblur.h"
#include "report/deblur_page.h"
#include "files/files.h"
#include "pictures/images.h"
#include "streams_and_python.h"
#include "reference.h"

enum { TEXT = 1 << 16, WORDS = 64, ROWS = 40, COLUMNS = 48, PIXELS = ROWS * COLUMNS };

static char folder[64], error[1024], output[TEXT];
#define ERROR error, sizeof error

/* ---------------------------------------------------------------------------- a command */

static int call(const char *line)
{
    char copy[1024], *argv[WORDS] = {"sosmc deblur"}, *rest = copy;
    int argc = 1;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strsep(&rest, " "); word && argc < WORDS - 1; word = strsep(&rest, " "))
        if (*word) argv[argc++] = word;
    argv[argc] = NULL;
    return command_deblur(argc, argv);
}

/* "WORD ..." to the command; returns the exit code, both streams are in `output`. */
static int says(const char *line)
{
    char *bytes = NULL;
    size_t n = 0;
    diverted_streams kept = streams_divert("streams");
    int code = call(line);
    streams_restore(kept);
    if (files_read("streams", TEXT - 1, &bytes, &n, ERROR) || !bytes) fail_msg("%s", error);
    (void)snprintf(output, sizeof output, "%s", bytes);
    free(bytes);
    return code;
}

static void expect(int code, const char *words, const char *line)
{
    int got = says(line);
    if (got != code || !strstr(output, words))
        fail_msg("%s: exit %d (expected %d), '%s' (expected '%s')", line, got, code, output, words);
}

static double figure(const char *dir, const char *object, const char *key)
{
    char path[256];
    json_t *j = NULL;
    (void)snprintf(path, sizeof path, "%s/deblur.json", dir);
    if (json_read(path, &j, ERROR)) fail_msg("%s", error);
    const json_t *v = json_object_get(object ? json_object_get(j, object) : j, key);
    double value = json_is_number(v) ? json_number_value(v) : NAN;
    json_decref(j);
    return value;
}

static void same_file(const char *one_dir, const char *other_dir, const char *name)
{
    char one[256], other[256], *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    (void)snprintf(one, sizeof one, "%s/%s", one_dir, name);
    (void)snprintf(other, sizeof other, "%s/%s", other_dir, name);
    if (files_read(one, (size_t)1 << 24, &a, &n, ERROR) || files_read(other, (size_t)1 << 24, &b, &m, ERROR))
        fail_msg("%s", error);
    if (!a || !b || n != m || memcmp(a, b, n) != 0) fail_msg("%s and %s differ", one, other);
    free(a);
    free(b);
}

static void same_runs(const char *one, const char *other)
{
    static const char *const names[] = {"mean.npy",    "sd.npy",       "trace.csv", "theta.npy",
                                        "moments.npz", "restored.png", "sd.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) same_file(one, other, names[i]);
}

static void copy_file(const char *from, const char *to)
{
    char *bytes = NULL;
    size_t n = 0;
    if (files_read(from, (size_t)1 << 26, &bytes, &n, ERROR) || files_write(to, bytes, n, ERROR)) fail_msg("%s", error);
    free(bytes);
}

static npy_array array(const char *path)
{
    npy_array a = {0};
    if (npy_read(path, &a, ERROR)) fail_msg("%s", error);
    return a;
}

/* ---------------------------------------------------------------------------- pictures */

static void draw(double *x, int channels)
{
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                *x++ = 60 + 15 * c + ((i / 9 + j / 11) % 2 ? 110 : 0) + (i > 20 && j > 25 ? 40 : 0);
}

static int write_picture(const char *path, int channels, int bits)
{
    double x[3 * PIXELS];
    image im = {.channels = channels, .rows = ROWS, .columns = COLUMNS, .bits = bits, .pixel = x};
    draw(x, channels);
    return image_write(path, &im, bits, 0, 255, ERROR);
}

static int write_mask(void)
{
    double x[PIXELS];
    image im = {.channels = 1, .rows = ROWS, .columns = COLUMNS, .bits = 8, .pixel = x};
    for (int j = 0; j < PIXELS; j++) x[j] = j / COLUMNS >= 14 && j / COLUMNS < 17 ? 0 : 255;
    if (image_write("mask.png", &im, 8, 0, 255, ERROR)) return -1;
    for (int j = 0; j < PIXELS; j++) x[j] = 0;
    return image_write("dark.png", &im, 8, 0, 255, ERROR);
}

/* The first channel of a picture as a JPEG; 0 for success. */
static int write_jpeg(const char *from, const char *to)
{
    struct jpeg_compress_struct c = {0};
    struct jpeg_error_mgr errors;
    JSAMPLE line[COLUMNS];
    JSAMPROW row = line;
    image im = {0};
    FILE *f = fopen(to, "wb");
    if (!f || image_read(from, &im, ERROR)) return -1;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = COLUMNS;
    c.image_height = ROWS;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++) line[j] = (JSAMPLE)im.pixel[i * COLUMNS + j];
        (void)jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    image_free(&im);
    return fclose(f);
}

/* ---------------------------------------------------------------------------- restoring */

static void simulated_pictures_get_better(void **state)
{
    expect(0, "PSNR", "clean.png --blur box:5 --noise 1 --simulate --iterations 40 --out box");
    assert_true(figure("box", "after", "mse") < 0.5 * figure("box", "before", "mse"));
    assert_true(figure("box", "after", "ssim") > figure("box", "before", "ssim"));
    assert_true(figure("box", "after", "psnr") > figure("box", "before", "psnr"));
    assert_true(figure("box", NULL, "clouds_averaged") == 20);
    assert_true(figure("box", NULL, "noise") == 1);
    assert_true(figure("box", NULL, "seconds_per_megapixel_and_iteration") > 0);
    for (const char *const *name =
             (const char *const[]){"box/restored.png", "box/before.png", "box/sd.png", "box/report.html",
                                   "box/figures/compared.png", "box/run.yaml", NULL};
         *name; name++)
        if (access(*name, F_OK)) fail_msg("%s is missing", *name);
    assert_true(deblur_owns("box") && !deblur_owns("."));
}

/* What is written to restored.png is mean.npy, and the bits are those of the photograph. */
static void restored_is_the_mean(void **state)
{
    image im = {0};
    expect(0, "results in deep", "deep16.png --noise 2 --iterations 20 --out deep");
    if (image_read("deep/restored.png", &im, ERROR)) fail_msg("%s", error);
    npy_array mean = array("deep/mean.npy");
    assert_true(im.bits == 16 && im.channels == 3 && mean.dims == 3 && mean.shape[0] == 3 && mean.shape[1] == ROWS &&
                mean.shape[2] == COLUMNS);
    const double *x = mean.data;
    for (int j = 0; j < 3 * PIXELS; j++) {
        double wanted = fmin(fmax(x[j], 0), 255);
        if (!(fabs(im.pixel[j] - wanted) <= 0.51 / 257)) fail_msg("pixel %d: %g, not %g", j, im.pixel[j], wanted);
    }
    npy_free(&mean);
    image_free(&im);
}

/* The gap closes: the missing rows come near the truth although they were never seen. */
static void missing_rows_are_painted_in(void **state)
{
    expect(0, "", "clean.png --mask mask.png --noise 1 --simulate --iterations 100 --out painted --quiet");
    npy_array mean = array("painted/mean.npy");
    double truth[PIXELS], sum = 0;
    const double *x = mean.data;
    draw(truth, 1);
    for (int j = 14 * COLUMNS; j < 17 * COLUMNS; j++) sum += fabs(x[j] - truth[j]) / (3 * COLUMNS);
    npy_free(&mean);
    if (!(sum < 15)) fail_msg("missing pixels are %g off on average", sum);
}

static void noise_is_reported(void **state)
{
    expect(0, "", "clean.png --blur box:5 --noise 3 --simulate --iterations 2 --out noisy --quiet");
    expect(0, "(estimated)", "noisy/before.png --blur box:5 --iterations 2 --out again");
    double sigma = figure("again", NULL, "noise");
    assert_true(sigma == figure("again", NULL, "noise_estimated"));
    if (!(fabs(sigma / 3 - 1) < 0.3)) fail_msg("noise %g, expected about 3", sigma);
    expect(0, "", "clean.png --iterations 2 --out still --quiet"); /* no noise at all: that of rounding */
    assert_true(fabs(figure("still", NULL, "noise") - 0.288675) < 1e-5);
}

/* How many sentences deblur.json has in its list of warnings. */
static size_t warnings_in(const char *dir)
{
    char path[256];
    json_t *j = NULL;
    (void)snprintf(path, sizeof path, "%s/deblur.json", dir);
    if (json_read(path, &j, ERROR)) fail_msg("%s", error);
    const json_t *list = json_object_get(j, "warnings");
    assert_true(json_is_array(list));
    size_t n = json_array_size(list);
    assert_true(n == 0 || strstr(json_string_value(json_array_get(list, 0)), "is not to be trusted"));
    json_decref(j);
    return n;
}

static int page_warns(const char *dir)
{
    char path[256], *bytes = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/report.html", dir);
    if (files_read(path, (size_t)1 << 24, &bytes, &n, ERROR) || !bytes) fail_msg("%s", error);
    const char *warning = strstr(bytes, "is not to be trusted"), *first = strstr(bytes, "48 x 40 pixels");
    int found = warning && first && warning < first;
    free(bytes);
    return found;
}

/* Compression removes the noise, so that what is estimated from a JPEG is too little: the user is told, by whatever name the
 * file goes, unless the noise was given. */
static void jpegs_are_warned_of(void **state)
{
#define TOLD "is a JPEG, whose compression removes noise: the estimate of "
    assert_int_equal(write_jpeg("noisy.png", "photo.jpg"), 0);
    copy_file("photo.jpg", "disguised.png");
    expect(0, "sosmc: photo.jpg " TOLD, "photo.jpg --blur box:5 --iterations 2 --out jpeg");
    assert_non_null(strstr(output, "with --noise S\n"));
    assert_int_equal(warnings_in("jpeg"), 1);
    assert_true(page_warns("jpeg"));
    expect(0, "sosmc: disguised.png " TOLD, "disguised.png --blur box:5 --iterations 2 --out disguised --quiet");
    expect(0, TOLD, "photo.jpg --blur box:5 --noise auto --print");
    static const char *const silent[] = {"photo.jpg --blur box:5 --noise 1", "photo.jpg --simulate", "noisy.png"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "%s --iterations 2 --overwrite --out silent", silent[i]);
        expect(0, "results in silent", line);
        assert_null(strstr(output, "JPEG"));
        assert_int_equal(warnings_in("silent"), 0);
        assert_false(page_warns("silent"));
    }
}

/* The page comes out with the same bytes from what is left, as long as the photograph is. */
static void pages_are_written_again(void **state)
{
    static const char *const names[] = {"report.html", "deblur.json", "restored.png",
                                        "before.png",  "sd.png",      "figures/compared.png"};
    static const char *const lines[] = {"photo.jpg --blur box:5", "deep16.png --noise 2",
                                        "clean.png --mask mask.png --noise 2",
                                        "clean.png --blur box:5 --mask mask.png --simulate"};
    assert_int_equal(write_jpeg("noisy.png", "photo.jpg"), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[256], path[256];
        (void)snprintf(line, sizeof line, "%s --iterations 4 --out again --overwrite --quiet", lines[i]);
        expect(0, "", line);
        if (system("rm -rf first && cp -r again first")) fail_msg("cp"); // NOLINT(cert-env33-c)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            (void)snprintf(path, sizeof path, "again/%s", names[k]);
            if (strcmp(names[k], "deblur.json") != 0) assert_int_equal(unlink(path), 0);
        }
        if (deblur_report("again", ERROR)) fail_msg("%s: %s", lines[i], error);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) same_file("first", "again", names[k]);
    }
    copy_file("noisy.png", "brief.png");
    expect(0, "", "brief.png --noise 1 --iterations 2 --out again --overwrite --quiet");
    assert_int_equal(unlink("brief.png"), 0);
    assert_int_equal(deblur_report("again", ERROR), -1);
    assert_non_null(strstr(error, "the page of again shows the photograph, which is not where it was: cannot open"));
    assert_non_null(strstr(error, "/brief.png"));
}

/* ---------------------------------------------------------------------------- moments */

#define SMALL \
    "noisy.png --blur box:5 --border inside --noise 1 --particles 3 --seed 5 --quiet --set output.moments_every=1 "

/* Mean and deviation of the last cloud alone are those of particles.npz. */
static void moments_of_one_cloud(void **state)
{
    expect(0, "",
           SMALL "--iterations 6 --out one --set output.moments_from=5 --set output.particles=true "
                 "--set scheme=sosmc --set optimiser.rate=0.001");
    npy_array x = {0}, logw = {0}, mean = array("one/mean.npy"), sd = array("one/sd.npy");
    if (npz_read("one/particles.npz", "x", &x, ERROR) || npz_read("one/particles.npz", "logw", &logw, ERROR))
        fail_msg("%s", error);
    const double *p = x.data, *l = logw.data, *m = mean.data, *s = sd.data;
    for (int j = 0; j < PIXELS; j++) {
        double a = 0, v = 0;
        for (int i = 0; i < 3; i++) a += exp(l[i]) * p[i * PIXELS + j];
        for (int i = 0; i < 3; i++) v += exp(l[i]) * (p[i * PIXELS + j] - a) * (p[i * PIXELS + j] - a);
        assert_true(fabs(m[j] - a) < 1e-10 && fabs(s[j] - sqrt(v)) < 1e-10);
    }
    npy_free(&x);
    npy_free(&logw);
    npy_free(&mean);
    npy_free(&sd);
}

/* Over iterations 4, 6 and 8: the mean of their means, and their variances with that of the means. */
static void moments_over_time(void **state)
{
    double mean[PIXELS] = {0}, square[PIXELS] = {0};
    for (int k = 4; k <= 8; k += 2) {
        char line[512], dir[64], path[128];
        (void)snprintf(dir, sizeof dir, "until%d", k);
        (void)snprintf(line, sizeof line, SMALL "--iterations %d --out %s --set output.moments_from=%d", k + 1, dir, k);
        expect(0, "", line);
        (void)snprintf(path, sizeof path, "%s/mean.npy", dir);
        npy_array m = array(path);
        (void)snprintf(path, sizeof path, "%s/sd.npy", dir);
        npy_array s = array(path);
        for (int j = 0; j < PIXELS; j++) {
            double a = ((const double *)m.data)[j], b = ((const double *)s.data)[j];
            mean[j] += a / 3;
            square[j] += (a * a + b * b) / 3;
        }
        npy_free(&m);
        npy_free(&s);
    }
    expect(0, "",
           "noisy.png --blur box:5 --border inside --noise 1 --particles 3 --seed 5 --quiet --iterations 10 --out all "
           "--set output.moments_every=2 --set output.moments_from=4");
    npy_array m = array("all/mean.npy"), s = array("all/sd.npy");
    for (int j = 0; j < PIXELS; j++) {
        double sd = sqrt(fmax(square[j] - mean[j] * mean[j], 0));
        assert_true(fabs(((const double *)m.data)[j] - mean[j]) < 1e-9);
        assert_true(fabs(((const double *)s.data)[j] - sd) < 1e-6);
    }
    npy_free(&m);
    npy_free(&s);
}

static void killed_runs_resume(void **state)
{
#define LONG "noisy.png --blur box:5 --noise 1 --particles 3 --quiet --iterations 60 --set output.checkpoint_every=1 "
    expect(0, "", LONG "--out whole");
    for (int kills = 0; kills < 5; kills++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(call(LONG "--out killed --resume"));
        const struct timespec nap = {.tv_nsec = 30000000L * (kills + 1)};
        (void)nanosleep(&nap, NULL);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    expect(0, "", LONG "--out killed --resume");
    same_runs("whole", "killed");
}

/* Moments on the disk that the checkpoint does not know yet: the kill came between the two. */
static void moments_ahead_of_the_checkpoint(void **state)
{
#define AHEAD "noisy.png --blur box:5 --noise 1 --particles 3 --quiet --set output.moments_from=5 "
    expect(0, "", AHEAD "--iterations 20 --out straight");
    expect(0, "", AHEAD "--iterations 12 --out ahead");
    copy_file("ahead/checkpoint", "ahead/kept");
    expect(0, "", AHEAD "--iterations 16 --out ahead --resume");
    copy_file("ahead/kept", "ahead/checkpoint");
    (void)unlink("ahead/checkpoint.previous");
    expect(0, "", AHEAD "--iterations 20 --out ahead --resume");
    same_runs("straight", "ahead");
    (void)unlink("ahead/moments.npz");
    (void)unlink("ahead/moments.previous.npz");
    expect(4, "has no moments", AHEAD "--iterations 30 --out ahead --resume");
}

/* A run with more iterations than before goes on averaging where it began to. */
static void longer_runs_keep_their_burn_in(void **state)
{
    expect(0, "", "noisy.png --blur box:5 --noise 1 --particles 3 --quiet --iterations 20 --out longer");
    expect(0, "", "noisy.png --blur box:5 --noise 1 --particles 3 --quiet --iterations 60 --out longer --resume");
    assert_true(figure("longer", NULL, "clouds_averaged") == 50); /* from 10 on */
}

/* ---------------------------------------------------------------------------- the verdict */

/* The status of the verdict in DIR/summary.json, and whether one of its reasons has these words. */
static void expect_verdict(const char *dir, const char *status, const char *words)
{
    char path[256];
    json_t *j = NULL;
    size_t i;
    json_t *reason;
    int found = !words;
    (void)snprintf(path, sizeof path, "%s/summary.json", dir);
    if (json_read(path, &j, ERROR)) fail_msg("%s", error);
    const json_t *verdict = json_object_get(j, "verdict");
    const char *is = json_string_value(json_object_get(verdict, "status"));
    json_array_foreach(json_object_get(verdict, "reasons"), i, reason)
    {
        if (words && strstr(json_string_value(reason), words)) found = 1;
    }
    if (strcmp(is, status) != 0 || !found) fail_msg("%s: %s (expected %s, '%s')", dir, is, status, words ? words : "");
    json_decref(j);
}

#define SETTLES "noisy.png --blur box:5 --noise 1 --seed 3 --quiet "

/* Without a number of iterations the run ends when theta has settled, and says so; a run that is cut short continues to the same
 * bytes. */
static void runs_end_when_theta_has_settled(void **state)
{
    expect(0, "verdict: converged", "noisy.png --blur box:5 --noise 1 --seed 3 --strict --out settled");
    expect_verdict("settled", "converged", NULL);
    double done = figure("settled", NULL, "iterations"), clouds = figure("settled", NULL, "clouds_averaged");
    if (!(done >= 40 && done < 400 && clouds >= 20 && clouds < done))
        fail_msg("%g iterations, %g clouds", done, clouds);
    expect(0, "is finished", "noisy.png --blur box:5 --noise 1 --seed 3 --out settled --resume");
    for (int i = 0; i < 400 && access("parts/deblur.json", F_OK) != 0; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(call(SETTLES "--out parts --resume --set output.checkpoint_every=7"));
        const struct timespec nap = {.tv_nsec = 20000000L * (i + 1) % 1000000000L};
        (void)nanosleep(&nap, NULL);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    expect(0, "", SETTLES "--out parts --resume --set output.checkpoint_every=7");
    same_runs("settled", "parts");
}

/* From a strength that is far off, with small steps, theta cannot settle: the verdict says how far it still goes. */
static void moving_theta_is_named(void **state)
{
    expect(5, "the strength still moves",
           SETTLES "--iterations 60 --set model.theta=-6 --set optimiser.clip=0.01 --strict --out moves");
    expect_verdict("moves", "not_converged", "(at most 0.0");
    expect(0, "it takes 20", SETTLES "--iterations 20 --out brief");
    expect_verdict("brief", "not_converged", "averaged over 10 iterations");
}

/* The residuals show a noise that is too large or too small, and single pixels that are wrong. */
static void wrong_noise_is_named(void **state)
{
    double x[PIXELS];
    image im = {0};
    expect(0, "do not look like the noise", SETTLES "--iterations 40 --noise 4 --out loud");
    expect_verdict("loud", "not_converged", "their standard deviation is");
    expect(0, "", SETTLES "--iterations 40 --noise 0.2 --out calm");
    expect_verdict("calm", "not_converged", "do not look like the noise");
    if (image_read("noisy.png", &im, ERROR)) fail_msg("%s", error);
    for (int j = 0; j < PIXELS; j++) x[j] = j % 97 == 5 ? (j % 2) * 255 : im.pixel[j];
    image_free(&im);
    im = (image){.channels = 1, .rows = ROWS, .columns = COLUMNS, .bits = 8, .pixel = x};
    if (image_write("peppered.png", &im, 8, 0, 255, ERROR)) fail_msg("%s", error);
    expect(0, "mask the pixels that are wrong", "peppered.png --blur box:5 --quiet --iterations 40 --out peppered");
    expect(0, "", SETTLES "--iterations 40 --out right");
    expect_verdict("right", "converged", NULL);
}

/* ---------------------------------------------------------------------------- the border */

/* A scene that was blurred before it was cropped: x is the scene inside, y what was seen. */
static void photograph(double *x, const char *path)
{
    enum { REACH = 3, HIGH = ROWS + 2 * REACH, WIDE = COLUMNS + 2 * REACH };
    static double scene[HIGH * WIDE], blurred[HIGH * WIDE], z[HIGH * WIDE], y[PIXELS], scratch[1 << 16];
    sosmc_blur blur = {.rows = HIGH, .columns = WIDE, .kind = SOSMC_BLUR_BOX, .patch = 7};
    sosmc_batch b = {.x = z, .dim = HIGH * WIDE, .n = 1, .ld = 1, .simd = sosmc_simd_best()};
    for (int i = 0; i < HIGH; i++)
        for (int j = 0; j < WIDE; j++)
            scene[i * WIDE + j] = 60 + ((i / 9 + j / 11) % 2 ? 110 : 0) + (i + 2 * j < 30 || i * j > 1500 ? 60 : 0);
    assert_true(sosmc_blur_scratch(&blur) <= sizeof scratch / sizeof *scratch);
    sosmc_blur_apply(&blur, scene, blurred, scratch);
    sosmc_normals((sosmc_rng){.seed = 7, .stream = SOSMC_STREAM_USER}, &b, z);
    for (int j = 0; j < PIXELS; j++) {
        int at = (j / COLUMNS + REACH) * WIDE + j % COLUMNS + REACH;
        x[j] = scene[at];
        y[j] = blurred[at] + z[at];
    }
    image im = {.channels = 1, .rows = ROWS, .columns = COLUMNS, .bits = 16, .pixel = y};
    if (image_write(path, &im, 16, 0, 255, ERROR)) fail_msg("%s", error);
}

static double error_of(const char *dir, const double *truth)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/mean.npy", dir);
    npy_array mean = array(path);
    assert_true(mean.dims == 3 && mean.shape[1] == ROWS && mean.shape[2] == COLUMNS);
    double mse = sosmc_mse(PIXELS, truth, mean.data);
    npy_free(&mean);
    return mse;
}

static void unknown_borders_are_estimated(void **state)
{
    double x[PIXELS];
    photograph(x, "cropped.png");
    expect(0, "", "cropped.png --blur box:7 --noise 1 --quiet --iterations 40 --out unknown");
    expect(0, "", "cropped.png --blur box:7 --noise 1 --quiet --iterations 40 --border inside --out inside");
    double unknown = error_of("unknown", x), inside = error_of("inside", x);
    if (!(unknown < 0.6 * inside)) fail_msg("MSE %g with a frame, %g without", unknown, inside);
    expect(0, "border: unknown", "cropped.png --blur box:7 --noise 1 --print");
    expect(0, "border: inside", "cropped.png --blur box:7 --noise 1 --simulate --print");
    expect(2, "--border is 'wrong'; expected inside or unknown", "cropped.png --blur box:7 --border wrong");
    expect(0, "", "cropped.png --blur box:7 --noise 1 --quiet --iterations 40 --mask mask.png --out both");
    double both = error_of("both", x);
    if (!(both < 0.8 * inside)) fail_msg("MSE %g with a frame and a mask, %g without a frame", both, inside);
    expect(0, "", "small.pgm --blur box:3 --noise 2 --quiet --out tiny"); /* 8 x 8 */
    assert_int_equal(access("tiny/restored.png", F_OK), 0);
}

static void time_limit_leaves_a_picture(void **state)
{
    expect(0, "--resume goes on", "noisy.png --noise 1 --iterations 1000000 --time-limit 0.2 --out limited");
    assert_true(figure("limited", NULL, "clouds_averaged") == 0);
    assert_int_equal(access("limited/restored.png", F_OK), 0);
}

static void threads_change_nothing(void **state)
{
    expect(0, "", "noisy.png --blur gaussian:1 --iterations 12 --quiet --out single");
    expect(0, "", "noisy.png --blur gaussian:1 --iterations 12 --quiet --out double --threads 2");
    same_runs("single", "double");
}

/* ---------------------------------------------------------------------------- wrong words */

static void wrong_words_are_named(void **state)
{
    expect(2, "--blur is 'wobble:3'", "clean.png --blur wobble:3");
    expect(2, "--blur is 'box'", "clean.png --blur box");
    expect(2, "--blur is 'box:2.5'", "clean.png --blur box:2.5");
    expect(2, "--blur is 'box:-5'", "clean.png --blur box:-5");
    expect(2, "--blur is 'motion:9'", "clean.png --blur motion:9");
    expect(2, "--blur is 'gaussian:1,2'", "clean.png --blur gaussian:1,2");
    expect(2, "reaches over 49 pixels, but clean.png has 48 x 40", "clean.png --blur box:49");
    expect(2, "--noise is '-1'", "clean.png --noise -1");
    expect(2, "--noise is '0'", "clean.png --noise 0");
    expect(2, "--noise is 'nan'", "clean.png --noise nan");
    expect(2, "--noise is 'auto'", "clean.png --noise auto --simulate");
    expect(2, "--particles is '0'", "clean.png --particles 0");
    expect(2, "--iterations is '1.5'", "clean.png --iterations 1.5");
    expect(2, "--time-limit is '-1'", "clean.png --time-limit -1");
    expect(2, "--threads is '0'", "clean.png --threads 0");
    expect(2, "expected one PHOTO, found 0", "");
    expect(2, "kernel.nothing", "clean.png --noise 1 --set kernel.nothing=1");
    expect(2, "expected --particles of at most", "clean.png --particles 1000000000");
    expect(0, "sosmc deblur PHOTO", "--help");
    expect(0, "patch: 7", "clean.png --blur box:7 --noise 1 --print");
    expect(0, "moments_from: 20", "clean.png --noise 1 --print");
}

static void wrong_pictures_are_named(void **state)
{
    expect(4, "none.png", "none.png");
    expect(4, "bad.png is no picture", "bad.png");
    expect(2, "one.pgm has 1 x 1 pixels", "one.pgm");
    expect(2, "--mask one.pgm has 1 x 1 pixels; expected 48 x 40", "clean.png --mask one.pgm");
    expect(2, "dark all over", "clean.png --mask dark.png");
    expect(4, "none.png", "clean.png --mask none.png");
    expect(2, "--noise", "small.pgm --blur box:3");
    expect(0, "", "noisy.png --noise 1 --iterations 1 --out twice --quiet");
    expect(2, "already holds a run", "noisy.png --noise 1 --iterations 1 --out twice");
    expect(0, "", "noisy.png --noise 1 --iterations 1 --out twice --overwrite --quiet");
}

/* ---------------------------------------------------------------------------- the published picture */

static void guitar(void **state)
{
    const char *path = reference_file("deblurring/guitar_292x119.pgm");
    char line[FILES_PATH + 128];
    (void)snprintf(line, sizeof line,
                   "%s --blur box:5 --noise 0.47 --simulate --iterations 30 --particles 3 --quiet --out "
                   "guitar",
                   path);
    expect(0, "", line);
    assert_true(fabs(figure("guitar", "before", "mse") - 702) < 2);
    if (!(figure("guitar", "after", "mse") < 450)) fail_msg("MSE %g", figure("guitar", "after", "mse"));
}

static int make_folder(void **state)
{
    (void)snprintf(folder, sizeof folder, "/tmp/sosmc_deblur_XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) || write_picture("clean.png", 1, 8) || write_picture("deep16.png", 3, 16) ||
        write_mask() || files_write("bad.png", "no picture", 10, ERROR) ||
        files_write("one.pgm", "P2 1 1 255 7\n", 13, ERROR))
        return -1;
    char small[1024];
    int n = snprintf(small, sizeof small, "P2 8 8 255");
    for (int j = 0; j < 64; j++) n += snprintf(small + n, sizeof small - (size_t)n, " %d", j * 3);
    if (files_write("small.pgm", small, (size_t)n, ERROR)) return -1;
    if (says("clean.png --blur box:5 --noise 1 --simulate --iterations 1 --out degraded --quiet")) return -1;
    copy_file("degraded/before.png", "noisy.png");
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("/") || system(command); // NOLINT(cert-env33-c): a folder of our own making
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulated_pictures_get_better),
        cmocka_unit_test(restored_is_the_mean),
        cmocka_unit_test(missing_rows_are_painted_in),
        cmocka_unit_test(noise_is_reported),
        cmocka_unit_test(jpegs_are_warned_of),
        cmocka_unit_test(pages_are_written_again),
        cmocka_unit_test(moments_of_one_cloud),
        cmocka_unit_test(moments_over_time),
        cmocka_unit_test(killed_runs_resume),
        cmocka_unit_test(moments_ahead_of_the_checkpoint),
        cmocka_unit_test(longer_runs_keep_their_burn_in),
        cmocka_unit_test(runs_end_when_theta_has_settled),
        cmocka_unit_test(moving_theta_is_named),
        cmocka_unit_test(wrong_noise_is_named),
        cmocka_unit_test(unknown_borders_are_estimated),
        cmocka_unit_test(time_limit_leaves_a_picture),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(wrong_pictures_are_named),
        cmocka_unit_test(guitar),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
