/* test_given_noise.c: the program with noise from a file (tools/given_noise.c): every particle takes its own numbers, in every
 * iteration those of that iteration; a file that is missing or too short ends the run with a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "program.h"
#include "scratch.h"

enum { PARTICLES = 5, DIM = 2, ITERATIONS = 3, NUMBERS = PARTICLES * DIM };

#define STEP 0.125
/* U = |x - theta|^2 / 2 + |y - x|^2 / 2, and a theta that hardly moves. Particles first move in the second iteration. */
static const char run_file[] = "model: {type: hierarchical_gaussian, y: [0.3, 1.9], theta: [0]}\n"
                               "objective: mmle\n"
                               "kernel: {type: ula, step: 0.125}\n"
                               "optimiser: {type: sgd, rate: 1.0e-15}\n"
                               "particles: 5\niterations: 3\nseed: 3\n"
                               "resampling: {threshold: never}\noutput: {report: false}\n";

static int run(const char *noise, size_t bytes, const char *out, char said[PROGRAM_WORDS])
{
    char arguments[256];
    program_setting s = {.folder = scratch};
    if (noise) write_raw("noise", noise, bytes);
    (void)snprintf(arguments, sizeof arguments, "run run.yaml --quiet --threads 2 --out %s", out);
    return program_run(&s, arguments, said);
}

/* The particles that a run leaves; the caller frees. */
static npy_array end_of(const float *noise, const char *out)
{
    char said[PROGRAM_WORDS], path[64];
    npy_array x;
    if (run((const char *)noise, ITERATIONS * NUMBERS * sizeof *noise, out, said)) fail_msg("%s", said);
    (void)snprintf(path, sizeof path, "%s/particles.npz", out);
    assert_fine(npz_read(at(path), "x", &x, ERROR));
    assert_true(x.type == NPY_F64 && x.dims == 2 && x.shape[0] == PARTICLES && x.shape[1] == DIM);
    return x;
}

static void every_move_takes_its_own_numbers(void **state)
{
    float none[ITERATIONS * NUMBERS] = {0}, some[ITERATIONS * NUMBERS];
    for (int i = 0; i < ITERATIONS * NUMBERS; i++) some[i] = sinf((float)(7 * i + 1));
    npy_array a = end_of(none, "none"), b = end_of(some, "some");
    for (int i = 0; i < NUMBERS; i++) {
        double moved = ((const double *)b.data)[i] - ((const double *)a.data)[i];
        double expected = sqrt(2 * STEP) * ((1 - 2 * STEP) * (double)some[NUMBERS + i] + (double)some[2 * NUMBERS + i]);
        assert_true(fabs(moved - expected) < 1e-12);
    }
    npy_free(&a);
    npy_free(&b);
}

static void a_file_that_ends_early_is_told(void **state)
{
    char said[PROGRAM_WORDS];
    const float few[ITERATIONS * NUMBERS - 1] = {0};
    assert_int_equal(run((const char *)few, sizeof few, "few", said), 4);
    assert_non_null(strstr(said, "the file of noise ends before iteration"));
}

static void a_file_that_is_missing_is_told(void **state)
{
    char said[PROGRAM_WORDS];
    assert_int_equal(setenv("SOSMC_NOISE", at("nothing"), 1), 0);
    assert_int_equal(run(NULL, 0, "missing", said), 2);
    assert_non_null(strstr(said, "nothing"));
    assert_int_equal(setenv("SOSMC_NOISE", at("noise"), 1), 0);
    assert_int_equal(setenv("SOSMC_NOISE_PARTICLES", "none", 1), 0);
    assert_int_equal(run(NULL, 0, "missing", said), 2);
    assert_non_null(strstr(said, "'none'"));
    assert_int_equal(setenv("SOSMC_NOISE_PARTICLES", "5", 1), 0);
}

static int set_up(void **state)
{
    const char *program = getenv("SOSMC_GIVEN_NOISE");
    if (scratch_make(state) || !program || setenv("SOSMC_PROGRAM", program, 1)) return -1;
    write_text("run.yaml", run_file);
    return setenv("SOSMC_NOISE", at("noise"), 1) || setenv("SOSMC_NOISE_PARTICLES", "5", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_move_takes_its_own_numbers),
        cmocka_unit_test(a_file_that_ends_early_is_told),
        cmocka_unit_test(a_file_that_is_missing_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
