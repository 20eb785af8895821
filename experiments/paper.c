/* paper.c: the program sosmc-paper, which `sosmc reproduce` executes: the experiments of the paper, and which flags belong to
 * which of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/directory.h"
#include "files/files.h"
#include "terminal/flags.h"
#include "terminal/launcher.h"
#include "terminal/program.h"
#include "terminal/stack.h"
#include "common/reproduce.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"

enum { SENTENCE = 1024 };

static const char reproduce_text[] =
    "sosmc reproduce langevin [--quick] [--budget-seconds B] [--seeds N] [--threads T] [--out DIR] [--quiet]\n"
    "sosmc reproduce ebm2d [--quick | --full] [--pretrain] [--models DIR] [--seeds N] [--threads T] [--out DIR] [--quiet]\n"
    "sosmc reproduce mnist [--quick | --full] [--paper] [--checkpoint FILE] [--seeds N] [--seed S] [--threads T] "
    "[--out DIR] [--quiet]\n"
    "sosmc reproduce deblurring [--quick | --full] [--data DIR] [--seeds N] [--seed S] [--threads T] [--out DIR] [--quiet]\n"
    "sosmc reproduce theory [--quick] [--only ID] [--seed S] [--threads T] [--out DIR] [--quiet]\n"
    "\n"
    "  --quick               a small version in seconds (others than langevin: a minute): fewer particles and iterations\n"
    "  --seeds N             runs per cell (default: langevin 10, ebm2d and deblurring 2, with --full 5;\n"
    "                        mnist, sweeps by SOSMC-ULA only: 1, with --full 3)\n"
    "  --out DIR             where tables, figures and the page go (default: the experiment's name)\n"
    "\n"
    "langevin:\n"
    "  --budget-seconds B    the paper's protocol: each run gets B seconds of wall clock instead of a number of iterations\n"
    "\n"
    "ebm2d, which continues where it was left when the command is given again:\n"
    "  --full                also the sweep over beta and the other pairs of data set and half-plane: two and a half hours\n"
    "  --models DIR          the folder of circles.safetensors, two_moons.safetensors, blobs.safetensors (or .npz)\n"
    "  --pretrain            train these first, by the run files circles.yaml, ... of that folder\n"
    "\n"
    "mnist, which continues likewise:\n"
    "  --paper               the sweeps with the settings of the paper's text too, not only of its program: 24 runs more\n"
    "  --full                the published sizes, the paper's settings too, and every evaluation: hours\n"
    "  --checkpoint FILE     another network of digits than ours, safetensors or NPZ\n"
    "  --seed S              of all runs (default 42)\n"
    "\n"
    "deblurring, which continues likewise:\n"
    "  --full                setups A, B and C with all weightings and the ablation: about 20 minutes\n"
    "  --data DIR            the folder of setup B's photograph, flower.jpeg (also .jpg, .png, or flower_292x150.f64), or of\n"
    "                        another guitar_292x119.f64 (default: the one that comes with the program)\n"
    "  --seed S              of all runs (default 42)\n"
    "\n"
    "theory, which ends with 3 when something that we claim ourselves does not hold:\n"
    "  --only ID             one statement: its name in the list of tables, feynman-kac for instance\n"
    "  --seed S              of all runs (default 42)\n";

enum { LANGEVIN = 1, EBM2D = 2, MNIST = 4, DEBLURRING = 8, THEORY = 16 };

static const struct {
    const char *name;
    int bit;
    int (*run)(const reproduce_options *);
} experiments[] = {{"langevin", LANGEVIN, reproduce_langevin},
                   {"ebm2d", EBM2D, reproduce_ebm2d},
                   {"mnist", MNIST, reproduce_mnist},
                   {"deblurring", DEBLURRING, reproduce_deblurring},
                   {"theory", THEORY, reproduce_theory}};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

enum {
    FULL,
    PAPER,
    PRETRAIN,
    MODELS,
    CHECKPOINT,
    DATA,
    SEED,
    ONLY,
    SEEDS,
    BUDGET,
    QUICK,
    QUIET,
    THREADS,
    OUT,
    HELP,
    FLAGS
};
static const flag_row table[FLAGS] = {
    [FULL] = {.name = "full"},
    [PAPER] = {.name = "paper"},
    [PRETRAIN] = {.name = "pretrain"},
    [MODELS] = {.name = "models", .takes_value = 1},
    [CHECKPOINT] = {.name = "checkpoint", .takes_value = 1},
    [DATA] = {.name = "data", .takes_value = 1},
    [SEED] = {.name = "seed", .like = "seed", .takes_value = 1},
    [ONLY] = {.name = "only", .takes_value = 1},
    [SEEDS] = {.name = "seeds", .like = "particles", .takes_value = 1},
    [BUDGET] = {.name = "budget-seconds", .like = "output.checkpoint_seconds", .takes_value = 1},
    [QUICK] = {.name = "quick"},
    [QUIET] = {.name = "quiet"},
    [THREADS] = {.name = "threads", .like = "threads", .takes_value = 1},
    [OUT] = {.name = "out", .takes_value = 1},
    [HELP] = {.name = "help"},
};

/* The experiments that have a flag; flags that are not here belong to all. */
static const int owners[FLAGS] = {[FULL] = EBM2D | MNIST | DEBLURRING,
                                  [PAPER] = MNIST,
                                  [PRETRAIN] = EBM2D,
                                  [MODELS] = EBM2D,
                                  [CHECKPOINT] = MNIST,
                                  [DATA] = DEBLURRING,
                                  [SEED] = MNIST | DEBLURRING | THEORY,
                                  [ONLY] = THEORY,
                                  [SEEDS] = LANGEVIN | EBM2D | MNIST | DEBLURRING,
                                  [BUDGET] = LANGEVIN};

/* The experiment that the command names; -1, having said that there is no such one. */
static int experiment_named(const flag_values *v)
{
    char end[128];
    const char *typed = v->operands == 1 ? v->operand : "";
    for (int i = 0; i < EXPERIMENTS; i++)
        if (strcmp(experiments[i].name, typed) == 0) return i;
    if (!*typed)
        return complain(
            -1,
            "reproduce takes an experiment: langevin, ebm2d, mnist, deblurring or theory; see 'sosmc help reproduce'");
    return complain(-1, "there is no experiment '%s'%s", typed,
                    flags_did_you_mean("langevin|ebm2d|mnist|deblurring|theory", typed,
                                       "expected langevin, ebm2d, mnist, deblurring or theory", end, sizeof end));
}

static int check_owners(const flag_values *v, int at)
{
    for (int f = 0; f < FLAGS; f++)
        if (flag_given(v, f) && owners[f] && !(owners[f] & experiments[at].bit))
            return complain(-1, "--%s does not belong to reproduce %s; see 'sosmc help reproduce'", table[f].name,
                            experiments[at].name);
    return 0;
}

/* Whether a file in the directory would be replaced that no experiment of ours made. */
static int is_foreign(const char *dir, const run_lock *lock, char path[FILES_PATH])
{
    static const char *const ours[] = {"cells", "langevin.html", "theory.html"}, *const replaced[] = {
                                                                                     "table.csv", "summary.json",
                                                                                     "report.html", "results.json"};
    if (lock->left) return 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (files_join(path, dir, ours[i], NULL, 0) == 0 && access(path, F_OK) == 0) return 0;
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        if (files_join(path, dir, replaced[i], NULL, 0) == 0 && access(path, F_OK) == 0) return 1;
    return 0;
}

static int run_there(int (*run)(const reproduce_options *), const reproduce_options *options, const run_lock *lock)
{
    char path[FILES_PATH];
    if (is_foreign(options->out, lock, path))
        return complain(SOSMC_EXIT_USAGE, "%s is there, and no experiment made it; choose another --out", path);
    directory_sweep(options->out, 3);
    return run(options);
}

/* The directory is made and locked before the experiment, and goes again if that leaves nothing there. */
static int run_locked(int (*run)(const reproduce_options *), const reproduce_options *options)
{
    char error[SENTENCE];
    run_lock lock = {.held = 0};
    int existed = access(options->out, F_OK) == 0;
    if (launcher_refuse()) return SOSMC_EXIT_USAGE;
    if (files_directory(options->out, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    int code = say_lock(&lock, options->out);
    if (code == SOSMC_EXIT_OK) code = run_there(run, options, &lock);
    lock_give_back(&lock);
    if (!existed) (void)rmdir(options->out); /* only when it is empty */
    return code;
}

static int reproduce(int argc, char **argv)
{
    flag_values v;
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, reproduce_text, &code)) return code;
    int at = experiment_named(&v);
    if (at < 0 || check_owners(&v, at)) return SOSMC_EXIT_USAGE;
    reproduce_options options = {.out = flag_text(&v, OUT, experiments[at].name),
                                 .quick = flag_given(&v, QUICK),
                                 .quiet = flag_given(&v, QUIET),
                                 .full = flag_given(&v, FULL),
                                 .paper = flag_given(&v, PAPER),
                                 .pretrain = flag_given(&v, PRETRAIN),
                                 .models = flag_text(&v, MODELS, NULL),
                                 .checkpoint = flag_text(&v, CHECKPOINT, NULL),
                                 .data = flag_text(&v, DATA, NULL),
                                 .only = flag_text(&v, ONLY, NULL),
                                 .budget_seconds = flag_number(&v, BUDGET, 0),
                                 .seeds = (int)flag_whole(&v, SEEDS, 0),
                                 .threads = (int)flag_whole(&v, THREADS, 0),
                                 /* as in the published runs, unless it is given */
                                 .seed = strtoull(flag_text(&v, SEED, "42"), NULL, 10)};
    return run_locked(experiments[at].run, &options);
}

int main(int argc, char **argv)
{
    char name[] = "sosmc reproduce"; /* flags_read takes the command from it */
    program_begin();
    if (argc > 0) argv[0] = name;
    int code = stack_claim();
    return program_end(code == SOSMC_EXIT_OK ? reproduce(argc, argv) : code);
}
