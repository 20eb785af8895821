/* paper.c: the program sosmc-paper, which `sosmc reproduce` executes: the paper's experiments, one function each. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/flags.h"
#include "terminal/program.h"
#include "common/reproduce.h"
#include "terminal/say.h"

static const char reproduce_text[] =
    "sosmc reproduce langevin [--quick] [--budget-seconds B] [--seeds N] [--threads T] [--out DIR] [--quiet]\n"
    "sosmc reproduce ebm2d [--quick | --full] [--pretrain] [--models DIR] [--seeds N] [--threads T] [--out DIR] [--quiet]\n"
    "sosmc reproduce mnist [--quick | --full] [--paper] [--checkpoint FILE] [--data DIR] [--seeds N] [--seed S] [--threads T] "
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
    "  --data DIR            the folder of the IDX files of MNIST (default: data/mnist, if it is there), for the digit score\n"
    "  --seed S              of all runs (default 42)\n"
    "\n"
    "deblurring, which continues likewise:\n"
    "  --full                setups A, B and C with all weightings and the ablation: about 20 minutes\n"
    "  --data DIR            the folder of guitar_292x119.f64 (default: the one that comes with the program)\n"
    "  --seed S              of all runs (default 42)\n"
    "\n"
    "theory, which ends with 3 when something that we claim ourselves does not hold:\n"
    "  --only ID             one statement: its name in the list of tables, feynman-kac for instance\n"
    "  --seed S              of all runs (default 42)\n";

/* ---------------------------------------------------------------------------- flags */

typedef struct {
    const char *out, *models, *checkpoint, *data, *only, *seed;
    int help;
    double budget_seconds;
    long seeds, threads;
} flags;

enum {
    FLAG_OUT = 256,
    FLAG_SEED,
    FLAG_THREADS,
    FLAG_BUDGET,
    FLAG_SEEDS,
    FLAG_MODELS,
    FLAG_CHECKPOINT,
    FLAG_DATA,
    FLAG_ONLY
};

static int number_of(const char *flag, const char *text, double low, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (*text && !*end && *out >= low && *out <= 1e9) return 0;
    return complain(-1, "%s is '%s'; expected a number of at least %g", flag, text, low);
}

static int count_of(const char *flag, const char *text, long *out)
{
    double number = 0;
    if (number_of(flag, text, 1, &number)) return -1;
    *out = (long)number;
    return 0;
}

static int take_flag(flags *f, int option, const char *value)
{
    switch (option) {
    case FLAG_OUT: f->out = value; return 0;
    case FLAG_MODELS: f->models = value; return 0;
    case FLAG_CHECKPOINT: f->checkpoint = value; return 0;
    case FLAG_DATA: f->data = value; return 0;
    case FLAG_ONLY: f->only = value; return 0;
    case FLAG_SEED: f->seed = value; return 0;
    case FLAG_THREADS: return count_of("--threads", value, &f->threads);
    case FLAG_SEEDS: return count_of("--seeds", value, &f->seeds);
    case FLAG_BUDGET: return number_of("--budget-seconds", value, 0, &f->budget_seconds);
    default: return -1;
    }
}

static int parse_flags(flags *f, int argc, char **argv, const struct option *known)
{
    int option, index = 0;
    *f = (flags){.seeds = 0};
    while ((option = flags_next(argc, argv, known, &index)) != -1) {
        if (option == 0) *(known[index].flag) = 1;
        if (option == 'h') f->help = 1;
        if (option == '?' || (option >= FLAG_OUT && take_flag(f, option, optarg))) return -1;
    }
    return 0;
}

/* 42 without --seed, as in the published runs. */
static int seed_of(const flags *f, uint64_t *seed)
{
    char *end = NULL;
    const char *text = f->seed ? f->seed : "42";
    errno = 0;
    *seed = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno) return 0;
    return complain(-1, "--seed is '%s'; expected a whole number from 0 to 2^64 - 1", text);
}

static int no_experiment(const char *typed)
{
    char end[128];
    return complain(SOSMC_EXIT_USAGE, "there is no experiment '%s'%s", typed,
                    flags_did_you_mean("langevin|ebm2d|mnist|deblurring|theory", typed,
                                       "expected langevin, ebm2d, mnist, deblurring or theory", end, sizeof end));
}

enum { LANGEVIN = 1, EBM2D = 2, MNIST = 4, DEBLURRING = 8, THEORY = 16 };

static int reproduce(int argc, char **argv)
{
    static const struct {
        const char *name;
        int bit;
        int (*run)(const reproduce_options *);
    } experiments[] = {{"langevin", LANGEVIN, reproduce_langevin},
                       {"ebm2d", EBM2D, reproduce_ebm2d},
                       {"mnist", MNIST, reproduce_mnist},
                       {"deblurring", DEBLURRING, reproduce_deblurring},
                       {"theory", THEORY, reproduce_theory}};
    flags f;
    int quick = 0, quiet = 0, full = 0, paper = 0, pretrain = 0, at = 0;
    const struct option known[] = {{"quick", 0, &quick, 1},
                                   {"quiet", 0, &quiet, 1},
                                   {"full", 0, &full, 1},
                                   {"paper", 0, &paper, 1},
                                   {"pretrain", 0, &pretrain, 1},
                                   {"models", 1, NULL, FLAG_MODELS},
                                   {"checkpoint", 1, NULL, FLAG_CHECKPOINT},
                                   {"data", 1, NULL, FLAG_DATA},
                                   {"only", 1, NULL, FLAG_ONLY},
                                   {"seed", 1, NULL, FLAG_SEED},
                                   {"budget-seconds", 1, NULL, FLAG_BUDGET},
                                   {"seeds", 1, NULL, FLAG_SEEDS},
                                   {"threads", 1, NULL, FLAG_THREADS},
                                   {"out", 1, NULL, FLAG_OUT},
                                   {"help", 0, NULL, 'h'},
                                   {0}};
    if (parse_flags(&f, argc, argv, known)) return SOSMC_EXIT_USAGE;
    if (f.help) return fputs(reproduce_text, stdout) < 0;
    const char *experiment = argc - optind == 1 ? argv[optind] : "";
    const int count = sizeof experiments / sizeof *experiments;
    while (at < count && strcmp(experiments[at].name, experiment) != 0) at++;
    if (at == count && *experiment) return no_experiment(experiment);
    if (at == count)
        return complain(
            SOSMC_EXIT_USAGE,
            "reproduce takes an experiment: langevin, ebm2d, mnist, deblurring or theory; see 'sosmc help reproduce'");
    const struct {
        const char *flag;
        int given, owners;
    } particular[] = {{"full", full, EBM2D | MNIST | DEBLURRING},
                      {"paper", paper, MNIST},
                      {"pretrain", pretrain, EBM2D},
                      {"models", f.models != NULL, EBM2D},
                      {"checkpoint", f.checkpoint != NULL, MNIST},
                      {"data", f.data != NULL, MNIST | DEBLURRING},
                      {"seed", f.seed != NULL, MNIST | DEBLURRING | THEORY},
                      {"only", f.only != NULL, THEORY},
                      {"seeds", f.seeds > 0, LANGEVIN | EBM2D | MNIST | DEBLURRING},
                      {"budget-seconds", f.budget_seconds > 0, LANGEVIN}};
    for (size_t i = 0; i < sizeof particular / sizeof *particular; i++)
        if (particular[i].given && !(particular[i].owners & experiments[at].bit))
            return complain(SOSMC_EXIT_USAGE, "--%s does not belong to reproduce %s; see 'sosmc help reproduce'",
                            particular[i].flag, experiment);
    reproduce_options options = {.out = f.out ? f.out : experiment,
                                 .quick = quick,
                                 .quiet = quiet,
                                 .full = full,
                                 .paper = paper,
                                 .pretrain = pretrain,
                                 .models = f.models,
                                 .checkpoint = f.checkpoint,
                                 .data = f.data,
                                 .only = f.only,
                                 .budget_seconds = f.budget_seconds,
                                 .seeds = (int)f.seeds,
                                 .threads = (int)f.threads};
    if (seed_of(&f, &options.seed)) return SOSMC_EXIT_USAGE;
    return experiments[at].run(&options);
}

int main(int argc, char **argv)
{
    char name[] = "sosmc reproduce"; /* flags_next takes the command from it */
    program_begin();
    if (argc > 0) argv[0] = name;
    return program_end(reproduce(argc, argv));
}
