/* test_progress.c: the line that a run shows while it goes on names what exists, and what a run of that kind is for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/progress.h"

static char *bytes;
static size_t count;

/* A progress whose next line is due, and is kept. */
static void begin(progress *p)
{
    progress_begin(p, 0, 0);
    p->terminal = 0;
    p->last = -1e9; /* long ago */
    p->out = open_memstream(&bytes, &count);
    assert_non_null(p->out);
}

static void end(progress *p, const char *line)
{
    assert_int_equal(fclose(p->out), 0);
    if (strncmp(bytes, line, strlen(line)) != 0) fail_msg("'%s', expected '%s'", bytes, line);
    free(bytes);
    bytes = NULL;
}

static void expect(const char *line, double strength, int weighted, const sosmc_info *info)
{
    progress p;
    begin(&p);
    progress_info(&p, 10, 40, info, strength, weighted);
    end(&p, line);
}

static void expect_solver(const char *line, const sosmc_solve_info *info, int dim_theta)
{
    static const double theta[] = {1.5, -2, 3, 4, 5};
    progress p;
    begin(&p);
    progress_solve(&p, info, theta, dim_theta);
    end(&p, line);
}

static void lines_name_what_exists(void **state)
{
    const sosmc_info info = {.mean_score = NAN, .loss = NAN, .ess = 4, .h = 0.05};
    const sosmc_info reward = {.mean_score = 0.5, .loss = -0.25, .ess = 90, .h = 0.1};
    expect("10/40  strength 0.04  ", 0.04, 0, &info); /* what deblur learns; its particles have no weights */
    expect("10/40  strength 0.04  ESS 4  ", 0.04, 1, &info);
    expect("10/40  step 0.05  ", NAN, 0, &info);
    expect("10/40  reward 0.5  loss -0.25  ESS 90  step 0.1  ", NAN, 1, &reward);
}

/* The phase, and of the numbers those that exist in it. */
static void lines_of_the_solver(void **state)
{
    sosmc_solve_info info = {.phase = SOSMC_PHASE_START,
                             .step = 3,
                             .temperature = 0.25,
                             .left = NAN,
                             .loss = NAN,
                             .reward = NAN,
                             .evaluations = 12000};
    expect_solver("start  step 3  temperature 0.25  theta 1.5  1.2e+04 evaluations\n", &info, 1);
    info.phase = SOSMC_PHASE_MEASURE;
    info.temperature = NAN;
    info.reward = 0.75;
    info.left = 0.5;
    info.left_error = 0.25;
    info.wanted = 0.001;
    expect_solver(
        "measure  step 3  reward 0.75  theta 1.5 -2 3 4 ...  left 0.5 +- 0.2, wanted 0.001  1.2e+04 evaluations\n",
        &info, 5);
    info.loss = -12.5;
    info.loss_error = 0.03;
    info.left = NAN;
    expect_solver("measure  step 3  loss -12.5 +- 0.03  reward 0.75  theta 1.5 -2  1.2e+04 evaluations\n", &info, 2);
}

/* What is left: the pace so far for what is not done yet, in words of a clock. */
static void lines_tell_the_time(void **state)
{
    static const struct {
        double left;
        const char *line;
    } rows[] = {{7.2, "2/8  x  7 s left\n"},         {99, "2/8  x  99 s left\n"}, {754, "2/8  x  12 min 34 s left\n"},
                {7384, "2/8  x  2 h 03 min left\n"}, {NAN, "2/8  x  ? left\n"},   {-1, "2/8  x  ? left\n"}};
    progress p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(&p);
        progress_line(&p, 2, 8, "x", rows[i].left);
        end(&p, rows[i].line);
    }
    begin(&p);
    p.first = 10;
    p.begun = monotonic_seconds() - 100; /* 20 in 100 seconds, and 60 to come */
    progress_show(&p, 30, 90, "x");
    end(&p, "30/90  x  5 min 00 s left\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_name_what_exists), cmocka_unit_test(lines_of_the_solver),
                                       cmocka_unit_test(lines_tell_the_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
