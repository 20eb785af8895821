/* main.c: the program. Each command reads its flags and hands over; what a command does is in a file of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "commands_ebm.h"
#include "config.h"
#include "deblur.h"
#include "deblur_page.h"
#include "demo.h"
#include "fetch.h"
#include "files.h"
#include "flags.h"
#include "interrupt.h"
#include "list.h"
#include "picture.h"
#include "reproduce.h"
#include "run.h"

enum { SENTENCE = 1024, SETS = 256 };

static const char usage_text[] =
    "sosmc optimises theta when the gradient is an expectation under a distribution that moves with theta.\n"
    "\n"
    "  sosmc run FILE.yaml        run what the file describes; results and report.html go to a run directory\n"
    "  sosmc train DATA           train an energy-based model on points (circles, two_moons, blobs, a file) or pictures\n"
    "  sosmc tune MODEL ...       tune a stored energy-based model towards a reward\n"
    "  sosmc sample MODEL         sample a stored energy-based model\n"
    "  sosmc deblur PHOTO         sharpen a photograph, with error bars\n"
    "  sosmc demo                 all of this in half a minute, on one page\n"
    "  sosmc check FILE.yaml      test the model's gradients and weights before you wait for a run\n"
    "  sosmc report DIR           write a run directory's report again\n"
    "  sosmc reproduce langevin   the paper's first experiment: tables, figures, verdicts (--quick: seconds)\n"
    "  sosmc reproduce ebm2d      the second: energy networks of the plane, scored exactly (--quick: under a minute)\n"
    "  sosmc reproduce mnist      the third: a convolutional energy of digits (--quick: about a minute)\n"
    "  sosmc reproduce deblurring the fourth: deblurring that learns the strength of its prior (--quick: seconds)\n"
    "  sosmc reproduce theory     every result of the paper as a numerical statement (--quick: half a minute)\n"
    "  sosmc fetch mnist          the pictures of MNIST, checked, for training and for judging digits\n"
    "  sosmc list                 models, rewards, kernels, resampling schemes, optimisers, schemes, experiments\n"
    "  sosmc help [COMMAND]       more about a command\n"
    "\n"
    "First steps:\n"
    "  sosmc run examples/langevin_dual.yaml --out first\n"
    "  sosmc run examples/langevin_dual.yaml --set kernel.type=mala --set particles=2000 --out second\n"
    "\n"
    "docs/run-file.md explains every key of a run file.\n";

static const char run_text[] =
    "sosmc run FILE.yaml [--set KEY=VALUE]... [--out DIR] [options]\n"
    "\n"
    "  --set KEY=VALUE       overrides a key of the file, with dots: --set kernel.type=mala --set model.theta=[0,1]\n"
    "  --out DIR             the run directory (default: the file's name without .yaml)\n"
    "  --iterations N        the same as --set iterations=N\n"
    "  --particles N         the same as --set particles=N\n"
    "  --seed S              the same as --set seed=S\n"
    "  --threads T           the same as --set threads=T; the results do not depend on it\n"
    "  --resume              continue the run in DIR from its checkpoint; also with more iterations than before\n"
    "  --overwrite           replace the run in DIR\n"
    "  --budget-seconds B    stop after B seconds; --resume goes on\n"
    "  --quiet               no progress, no closing words\n"
    "\n"
    "Ctrl-C stops after the current iteration with everything saved (exit 130); after kill -9 --resume goes on from the last\n"
    "checkpoint and ends with the same bytes. Exit codes: 0 done, 2 usage or run file, 3 numerical failure, 4 files.\n";

static const char check_text[] =
    "sosmc check FILE.yaml [--set KEY=VALUE]... [--iterations N] [--particles N] [--seed S] [--threads T]\n"
    "\n"
    "Tests both gradients of the model (the Taylor remainder must fall as the square of the step), the weights (Z along a\n"
    "closed path of theta must return to its start on average) and a short run. Exit code 0 when all hold, 3 otherwise.\n"
    "The flags override keys of the file, as for 'sosmc run'.\n";

static const char report_text[] =
    "sosmc report DIR\n\nWrites DIR/report.html and DIR/figures again from what the run left.\n";

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
    "  --data DIR            the folder of guitar_292x119.f64 (default: the one that comes with the program)\n"
    "  --seed S              of all runs (default 42)\n"
    "\n"
    "theory, which ends with 3 when something that we claim ourselves does not hold:\n"
    "  --only ID             one statement: its name in the list of tables, feynman-kac for instance\n"
    "  --seed S              of all runs (default 42)\n";

static const char list_text[] = "sosmc list\n\nOne line for each thing a run file can name.\n";

static const struct {
    const char *name, *text;
} helps[] = {{"run", run_text},       {"train", train_text}, {"tune", tune_text},     {"sample", sample_text},
             {"deblur", deblur_text}, {"check", check_text}, {"report", report_text}, {"reproduce", reproduce_text},
             {"list", list_text},     {"fetch", fetch_text}, {"demo", demo_text},     {"help", usage_text}};

static const char *help_of(const char *command)
{
    for (size_t i = 0; i < sizeof helps / sizeof *helps; i++)
        if (strcmp(helps[i].name, command) == 0) return helps[i].text;
    return NULL;
}

/* ---------------------------------------------------------------------------- flags */

typedef struct {
    const char *file, *out, *models, *checkpoint, *data, *only;
    const char *set[SETS];
    int sets;
    int help;
    double budget_seconds;
    long seeds, threads;
    char seed_set[64], threads_set[64], iterations_set[64], particles_set[64];
} flags;

enum {
    FLAG_SET = 256,
    FLAG_OUT,
    FLAG_SEED,
    FLAG_THREADS,
    FLAG_ITERATIONS,
    FLAG_PARTICLES,
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
    if (*text && !*end && *out >= low) return 0;
    return complain(-1, "%s is '%s'; expected a number of at least %g", flag, text, low);
}

static int add_set(flags *f, const char *assignment)
{
    if (f->sets == SETS) return complain(-1, "more than %d --set", SETS);
    f->set[f->sets++] = assignment;
    return 0;
}

/* --seed S is --set seed=S; the assignment stands in `room`. */
static int set_key(flags *f, const char *key, const char *value, char room[64])
{
    int n = snprintf(room, 64, "%s=%s", key, value);
    if (n < 0 || n >= 64) return complain(-1, "--%s is '%.32s...'; expected a number", key, value);
    return add_set(f, room);
}

static int take_flag(flags *f, int option, const char *value)
{
    double number = 0;
    switch (option) {
    case FLAG_SET: return add_set(f, value);
    case FLAG_OUT: f->out = value; return 0;
    case FLAG_MODELS: f->models = value; return 0;
    case FLAG_CHECKPOINT: f->checkpoint = value; return 0;
    case FLAG_DATA: f->data = value; return 0;
    case FLAG_ONLY: f->only = value; return 0;
    case FLAG_SEED: return set_key(f, "seed", value, f->seed_set);
    case FLAG_ITERATIONS: return set_key(f, "iterations", value, f->iterations_set);
    case FLAG_PARTICLES: return set_key(f, "particles", value, f->particles_set);
    case FLAG_THREADS:
        if (number_of("--threads", value, 1, &number)) return -1;
        f->threads = (long)number;
        return set_key(f, "threads", value, f->threads_set);
    case FLAG_BUDGET: return number_of("--budget-seconds", value, 0, &f->budget_seconds);
    case FLAG_SEEDS:
        if (number_of("--seeds", value, 1, &number)) return -1;
        f->seeds = (long)number;
        return 0;
    default: return -1;
    }
}

/* The flags a command knows, by name. */
static int parse_flags(flags *f, int argc, char **argv, const struct option *known)
{
    int option, index = 0;
    *f = (flags){.seeds = 0};
    while ((option = flags_next(argc, argv, known, &index)) != -1) {
        if (option == 0) *(known[index].flag) = 1;
        if (option == 'h') f->help = 1;
        if (option == '?' || (option >= FLAG_SET && take_flag(f, option, optarg))) return -1;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- commands */

static config *load(const flags *f, const char *file, int *code)
{
    char error[SENTENCE];
    *code = SOSMC_EXIT_USAGE;
    config *c = config_load(file, error, sizeof error);
    if (!c) {
        if (errno) *code = errno == ENOMEM ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_IO;
        (void)complain(0, "%s", error);
        return NULL;
    }
    for (int i = 0; i < f->sets; i++)
        if (config_set(c, f->set[i], error, sizeof error)) goto wrong;
    if (config_resolve(c, error, sizeof error)) goto wrong;
    *code = SOSMC_EXIT_OK;
    return c;
wrong:
    (void)complain(0, "%s", error);
    config_free(c);
    return NULL;
}

/* run.yaml -> run; path/to/x.yml -> x */
static void default_directory(const char *file, char out[FILES_PATH])
{
    const char *slash = strrchr(file, '/');
    (void)snprintf(out, FILES_PATH, "%s", slash ? slash + 1 : file);
    char *dot = strrchr(out, '.');
    if (dot && dot != out) *dot = 0;
    if (strcmp(out, "-") == 0) (void)snprintf(out, FILES_PATH, "run");
}

static int command_run(int argc, char **argv)
{
    flags f;
    int resume = 0, overwrite = 0, quiet = 0, code;
    const struct option known[] = {{"set", 1, NULL, FLAG_SET},
                                   {"out", 1, NULL, FLAG_OUT},
                                   {"seed", 1, NULL, FLAG_SEED},
                                   {"threads", 1, NULL, FLAG_THREADS},
                                   {"iterations", 1, NULL, FLAG_ITERATIONS},
                                   {"particles", 1, NULL, FLAG_PARTICLES},
                                   {"budget-seconds", 1, NULL, FLAG_BUDGET},
                                   {"resume", 0, &resume, 1},
                                   {"overwrite", 0, &overwrite, 1},
                                   {"quiet", 0, &quiet, 1},
                                   {"help", 0, NULL, 'h'},
                                   {0}};
    char directory[FILES_PATH];
    if (parse_flags(&f, argc, argv, known)) return SOSMC_EXIT_USAGE;
    if (f.help) return fputs(run_text, stdout) < 0;
    if (argc - optind != 1) return complain(SOSMC_EXIT_USAGE, "run takes one run file; see 'sosmc help run'");
    config *c = load(&f, argv[optind], &code);
    if (!c) return code;
    default_directory(argv[optind], directory);
    run_options options = {.out = f.out ? f.out : directory,
                           .resume = resume,
                           .overwrite = overwrite,
                           .quiet = quiet,
                           .budget_seconds = f.budget_seconds};
    code = run_job(c, &options);
    config_free(c);
    return code;
}

static int command_check(int argc, char **argv)
{
    flags f;
    int code;
    const struct option known[] = {{"set", 1, NULL, FLAG_SET},
                                   {"seed", 1, NULL, FLAG_SEED},
                                   {"threads", 1, NULL, FLAG_THREADS},
                                   {"iterations", 1, NULL, FLAG_ITERATIONS},
                                   {"particles", 1, NULL, FLAG_PARTICLES},
                                   {"help", 0, NULL, 'h'},
                                   {0}};
    if (parse_flags(&f, argc, argv, known)) return SOSMC_EXIT_USAGE;
    if (f.help) return fputs(check_text, stdout) < 0;
    if (argc - optind != 1) return complain(SOSMC_EXIT_USAGE, "check takes one run file; see 'sosmc help check'");
    config *c = load(&f, argv[optind], &code);
    if (!c) return code;
    code = check_job(c, stdout);
    config_free(c);
    return code;
}

static int command_report(int argc, char **argv)
{
    flags f;
    char error[SENTENCE];
    const struct option known[] = {{"help", 0, NULL, 'h'}, {0}};
    if (parse_flags(&f, argc, argv, known)) return SOSMC_EXIT_USAGE;
    if (f.help) return fputs(report_text, stdout) < 0;
    if (argc - optind != 1)
        return complain(SOSMC_EXIT_USAGE, "report takes one run directory; see 'sosmc help report'");
    int rc = deblur_owns(argv[optind]) ? deblur_report(argv[optind], error, sizeof error)
                                       : picture_report(argv[optind], error, sizeof error);
    return rc ? complain(SOSMC_EXIT_IO, "%s", error) : SOSMC_EXIT_OK;
}

/* The seed of --seed, which parse_flags keeps as an assignment; 42 without it, as in the published runs. */
static int seed_of(const flags *f, uint64_t *seed)
{
    char *end = NULL;
    const char *text = *f->seed_set ? f->seed_set + strlen("seed=") : "42";
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

static int command_reproduce(int argc, char **argv)
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
                      {"data", f.data != NULL, DEBLURRING},
                      {"seed", *f.seed_set != 0, MNIST | DEBLURRING | THEORY},
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

static int command_list(int argc, char **argv)
{
    flags f;
    const struct option known[] = {{"help", 0, NULL, 'h'}, {0}};
    if (parse_flags(&f, argc, argv, known)) return SOSMC_EXIT_USAGE;
    if (f.help) return fputs(list_text, stdout) < 0;
    list_choices(stdout);
    return SOSMC_EXIT_OK;
}

static int no_command(const char *typed)
{
    char words[256] = "", end[128];
    size_t used = 0;
    for (size_t i = 0; i < sizeof helps / sizeof *helps; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? "|" : "", helps[i].name);
    return complain(SOSMC_EXIT_USAGE, "there is no command '%s'%s", typed,
                    flags_did_you_mean(words, typed, "see 'sosmc help'", end, sizeof end));
}

static int command_help(int argc, char **argv)
{
    const char *text = argc > 1 ? help_of(argv[1]) : usage_text;
    if (!text) return no_command(argv[1]);
    return fputs(text, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
}

/* A file that is opened must never take the number of a stream that the caller closed: what we say would go into it. */
static void fill_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
}

/* What a command said must have arrived, or its success is none; what it wrote to files stays. */
static int leave(int code)
{
    code = complain_code(code);
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return code;
    return complain(code > 1 ? code : SOSMC_EXIT_IO, "cannot write to standard output: %s",
                    errno ? strerror(errno) : "there was no room or no memory for what was said before");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int, char **);
    } commands[] = {{"run", command_run},       {"train", command_train},         {"tune", command_tune},
                    {"sample", command_sample}, {"deblur", command_deblur},       {"check", command_check},
                    {"report", command_report}, {"reproduce", command_reproduce}, {"fetch", command_fetch},
                    {"list", command_list},     {"demo", command_demo},           {"help", command_help}};
    fill_closed_streams();
    interrupt_catch();
    if (argc < 2) {
        fputs(usage_text, stderr);
        return SOSMC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return leave(command_help(1, argv));
    if (strcmp(argv[1], "--version") == 0) return leave(printf("sosmc %s\n", sosmc_version()) < 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        char name[32]; /* flags_next takes the command from it */
        (void)snprintf(name, sizeof name, "sosmc %s", commands[i].name);
        argv[1] = name;
        return leave(commands[i].run(argc - 1, argv + 1));
    }
    return no_command(argv[1]);
}
