/* command_check.c: `sosmc check`. */
#include <stdio.h>

#include "check.h"
#include "commands.h"
#include "terminal/say.h"

const char check_text[] =
    "sosmc check FILE.yaml [--set KEY=VALUE]... [--iterations N] [--particles N] [--seed S] [--threads T]\n"
    "\n"
    "Tests both gradients of the model (by differences of the energy), the weights (Z along a\n"
    "closed path of theta must return to its start on average) and a short run. Of a run whose settings are automatic it tests\n"
    "the gradients, and solves it with few particles. Exit code 0 when all hold, 3 otherwise.\n"
    "The flags override keys of the file, as for 'sosmc run'.\n";

enum { SET, SEED, THREADS, ITERATIONS, PARTICLES, HELP, FLAGS };
static const flag_row table[FLAGS] = {
    [SET] = {.name = "set", .takes_value = 1},
    [SEED] = {.name = "seed", .key = "seed", .takes_value = 1},
    [THREADS] = {.name = "threads", .like = "threads", .key = "threads", .takes_value = 1},
    [ITERATIONS] = {.name = "iterations", .key = "iterations", .takes_value = 1},
    [PARTICLES] = {.name = "particles", .key = "particles", .takes_value = 1},
    [HELP] = {.name = "help"},
};

int command_check(int argc, char **argv)
{
    flag_values v;
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, check_text, &code)) return code;
    if (v.operands != 1) return complain(SOSMC_EXIT_USAGE, "check takes one run file; see 'sosmc help check'");
    config *c = command_load(&v, &code);
    if (!c) return code;
    code = check_job(c, stdout);
    config_free(c);
    return code;
}
