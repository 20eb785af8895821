/* test_start_files.c: particles that start from a file: which rows they get, and what becomes of the rows' weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runfile/config.h"
#include "files/files.h"
#include "folder.h"
#include "job/problem.h"

enum { ROWS = 10 };
static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* Row i is (i, -i); the particles of a job that starts there go to `first`, one number each. */
static int start(const double *logw, int particles, double *first)
{
    double x[2 * ROWS];
    _Alignas(64) double drawn[2 * 16];
    char text[1024];
    int io = 0;
    job j;
    for (int i = 0; i < ROWS; i++) x[2 * i] = i, x[2 * i + 1] = -i;
    npz_member members[] = {{"x", npy_matrix(x, ROWS, 2)}, {"logw", npy_vector(logw, ROWS)}};
    assert_int_equal(npz_write(folder_path(folder, "p.npz"), members, logw ? 2 : 1, 0, ERROR), 0);
    (void)snprintf(text, sizeof text,
                   "model: {type: mlp, hidden: [4]}\nobjective: none\nscheme: unweighted\nparticles: %d\n"
                   "init: {type: file, file: '%s'}\n",
                   particles, folder_path(folder, "p.npz"));
    config *c = config_parse(text, "start.yaml", ERROR);
    assert_non_null(c);
    assert_int_equal(config_resolve(c, ERROR), 0);
    int rc = job_build(&j, c, &io, ERROR);
    sosmc_batch b = {.dim = 2, .n = particles, .ld = 16};
    if (rc == 0) assert_int_equal(j.problem.init.draw(j.problem.init.self, (sosmc_rng){.seed = 1}, &b, drawn), 0);
    for (int i = 0; rc == 0 && i < particles; i++) {
        assert_true(drawn[16 + i] == -drawn[i]); /* rows stay whole */
        first[i] = drawn[i];
    }
    job_free(&j);
    config_free(c);
    return rc;
}

static void rows_are_spread_evenly(void **state)
{
    double got[ROWS], equal[ROWS] = {0};
    for (int weighted = 0; weighted < 2; weighted++) {
        assert_int_equal(start(weighted ? equal : NULL, 5, got), 0);
        for (int i = 0; i < 5; i++) assert_true(got[i] == 2 * i);
        assert_int_equal(start(weighted ? equal : NULL, ROWS, got), 0);
        for (int i = 0; i < ROWS; i++) assert_true(got[i] == i);
    }
}

/* Systematic resampling of weights 0.4 and 0.6 gives exactly four and six of ten. */
static void weights_are_resampled_away(void **state)
{
    double got[ROWS], logw[ROWS];
    int threes = 0, sevens = 0;
    for (int i = 0; i < ROWS; i++) logw[i] = i == 3 ? log(0.4) : i == 7 ? log(0.6) : -INFINITY;
    assert_int_equal(start(logw, ROWS, got), 0);
    for (int i = 0; i < ROWS; i++) threes += got[i] == 3, sevens += got[i] == 7;
    assert_int_equal(threes, 4);
    assert_int_equal(sevens, 6);
}

static void too_few_rows_are_named(void **state)
{
    double got[16];
    assert_int_equal(start(NULL, ROWS + 1, got), -1);
    assert_non_null(strstr(error, "holds 10 points; expected at least the 11 of particles"));
}

static int make_folder(void **state) { return folder_make(folder, "test_start_files"); }
static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_spread_evenly),
                                       cmocka_unit_test(weights_are_resampled_away),
                                       cmocka_unit_test(too_few_rows_are_named)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
