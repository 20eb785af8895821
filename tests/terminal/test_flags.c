/* test_flags.c: what a flag takes is what the key of run files takes that it is like: whole numbers stay whole and in their range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "terminal/exit_codes.h"
#include "terminal/flags.h"

enum { THREADS, PARTICLES, ITERATIONS, SEED, BUDGET, WORDS, HELP, FLAGS };
static const flag_row table[FLAGS] = {
    [THREADS] = {.name = "threads", .like = "threads", .takes_value = 1},
    [PARTICLES] = {.name = "particles", .like = "particles", .takes_value = 1},
    [ITERATIONS] = {.name = "iterations", .like = "iterations", .takes_value = 1},
    [SEED] = {.name = "seed", .like = "seed", .takes_value = 1},
    [BUDGET] = {.name = "budget", .like = "output.checkpoint_seconds", .takes_value = 1},
    [WORDS] = {.name = "words", .words = "one|two", .takes_value = 1},
    [HELP] = {.name = "help"},
};

static const struct {
    const char *flag;
    int fine;
    double value;
} rows[] = {
    {"--threads=3", 1, 3},
    {"--threads=1e1", 1, 10},
    {"--threads=2.5", 0, 0},
    {"--threads=0", 0, 0},
    {"--threads=-1", 0, 0},
    {"--threads=3000000000", 0, 0},
    {"--threads=1e300", 0, 0},
    {"--threads=nan", 0, 0},
    {"--threads=", 0, 0},
    {"--threads=3x", 0, 0},
    {"--particles=2147483647", 1, 2147483647},
    {"--particles=2147483648", 0, 0},
    {"--particles=1.5", 0, 0},
    {"--iterations=3000000000", 1, 3e9},
    {"--iterations=1e16", 0, 0},
    {"--iterations=0.5", 0, 0},
    {"--seed=18446744073709551615", 1, 0x1p64},
    {"--seed=18446744073709551616", 0, 0},
    {"--seed=-1", 0, 0},
    {"--seed=1.5", 0, 0},
    {"--budget=0.25", 1, 0.25},
    {"--budget=-1", 0, 0},
    {"--budget=inf", 0, 0},
    {"--words=two", 1, 0},
    {"--words=three", 0, 0},
};

static void values_are_those_of_the_key(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[] = "sosmc test", flag[64];
        char *argv[] = {name, flag, NULL};
        flag_values v;
        int code = -1;
        (void)snprintf(flag, sizeof flag, "%s", rows[i].flag);
        int refused = flags_read(&v, table, FLAGS, 0, 2, argv, NULL, "help", &code);
        if ((refused == 0) != rows[i].fine) fail_msg("%s: %d", rows[i].flag, refused);
        if (refused) assert_int_equal(code, SOSMC_EXIT_USAGE);
        for (int k = 0; !refused && k <= BUDGET; k++)
            if (flag_given(&v, k) && flag_number(&v, k, -1) != rows[i].value) fail_msg("%s", rows[i].flag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_those_of_the_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
