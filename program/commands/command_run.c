/* command_run.c: `sosmc run`. */
#include <stdio.h>

#include "commands.h"
#include "files/files.h"
#include "run/place.h"
#include "terminal/say.h"
#include "terminal/session.h"

const char run_text[] =
    "sosmc run FILE.yaml [--set KEY=VALUE]... [--out DIR] [options]\n"
    "\n"
    "A file that names a model and an objective and no setting is solved automatically. One that names a kernel, an optimiser, a\n"
    "scheme, iterations or the like is run with these ('settings' in docs/run-file.md).\n"
    "\n"
    "  --set KEY=VALUE       overrides a key of the file, with dots: --set model.theta=[0,1]; of an automatic one, settings must be\n"
    "                        said to be chosen: --set settings=explicit --set kernel.type=mala\n"
    "  --print               print the resolved run file, every key with its value, and the memory that it takes, and stop\n"
    "  --out DIR             the run directory (default: the file's name without .yaml)\n"
    "  --iterations N        the same as --set iterations=N\n"
    "  --particles N         the same as --set particles=N\n"
    "  --seed S              the same as --set seed=S\n"
    "  --threads T           the same as --set threads=T; the results do not depend on it\n"
    "  --resume              continue the run in DIR from its checkpoint; also with more iterations or larger limits\n"
    "  --overwrite           replace the run in DIR\n"
    "  --accept-changed-inputs    with --resume: go on although a file that the run reads has changed since it began\n"
    "  --budget-seconds B    stop after B seconds; --resume goes on\n"
    "  --quiet               no progress, no closing words\n"
    "  --strict              exit code 5 unless the verdict is that the run has converged\n"
    "\n"
    "Ctrl-C stops after the current iteration with everything saved (exit 130); after kill -9 --resume goes on from the last\n"
    "checkpoint and ends with the same bytes. Exit codes: 0 done, 2 usage or run file, 3 numerical failure, 4 files,\n"
    "5 not converged (with --strict), 6 another process is writing to DIR.\n";

enum {
    SET,
    OUT,
    SEED,
    THREADS,
    ITERATIONS,
    PARTICLES,
    BUDGET,
    RESUME,
    OVERWRITE,
    ACCEPT,
    QUIET,
    STRICT,
    PRINT,
    HELP,
    FLAGS
};
static const flag_row table[FLAGS] = {
    [SET] = {.name = "set", .takes_value = 1},
    [OUT] = {.name = "out", .takes_value = 1},
    [SEED] = {.name = "seed", .key = "seed", .takes_value = 1},
    [THREADS] = {.name = "threads", .like = "threads", .key = "threads", .takes_value = 1},
    [ITERATIONS] = {.name = "iterations", .key = "iterations", .takes_value = 1},
    [PARTICLES] = {.name = "particles", .key = "particles", .takes_value = 1},
    [BUDGET] = {.name = "budget-seconds", .like = "output.checkpoint_seconds", .takes_value = 1},
    [RESUME] = {.name = "resume"},
    [OVERWRITE] = {.name = "overwrite"},
    [ACCEPT] = {.name = "accept-changed-inputs"},
    [QUIET] = {.name = "quiet"},
    [STRICT] = {.name = "strict"},
    [PRINT] = {.name = "print"},
    [HELP] = {.name = "help"},
};

int command_run(int argc, char **argv)
{
    flag_values v;
    char directory[FILES_PATH];
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, run_text, &code)) return code;
    if (v.operands != 1) return complain(SOSMC_EXIT_USAGE, "run takes one run file; see 'sosmc help run'");
    config *c = command_load(&v, &code);
    if (!c) return code;
    if (flag_given(&v, PRINT)) {
        code = session_print(c);
        config_free(c);
        return code;
    }
    place_default(v.operand, directory);
    session_options options = {.out = flag_text(&v, OUT, directory),
                               .resume = flag_given(&v, RESUME),
                               .overwrite = flag_given(&v, OVERWRITE),
                               .accept_changed = flag_given(&v, ACCEPT),
                               .unnamed = !flag_given(&v, OUT),
                               .quiet = flag_given(&v, QUIET),
                               .strict = flag_given(&v, STRICT),
                               .budget_seconds = flag_number(&v, BUDGET, 0)};
    code = session_run(c, &options);
    config_free(c);
    return code;
}
