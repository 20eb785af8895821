/* main.c: the program: the table of its commands, and what holds for all of them. What a command does is in a file of its own. */
#include <stdio.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "commands.h"
#include "drafts/commands_ebm.h"
#include "drafts/deblur.h"
#include "demo.h"
#include "terminal/flags.h"
#include "terminal/launcher.h"
#include "terminal/program.h"
#include "terminal/stack.h"
#include "reproduce_command.h"
#include "terminal/say.h"

static const char usage_text[] =
    "sosmc optimises theta when the gradient is an expectation under a distribution that moves with theta.\n"
    "\n"
    "  sosmc run FILE.yaml        run what the file describes; results and report.html go to a run directory\n"
    "  sosmc new FILE.yaml        write a run file to begin with\n"
    "  sosmc train DATA           train an energy-based model on points (circles, two_moons, blobs, a file) or pictures\n"
    "  sosmc tune MODEL ...       tune a stored energy-based model towards a reward\n"
    "  sosmc sample MODEL         sample a stored energy-based model\n"
    "  sosmc deblur PHOTO         sharpen a photograph, with error bars\n"
    "  sosmc demo                 all of this in half a minute, on one page\n"
    "  sosmc check FILE.yaml      test the model's gradients and weights before you wait for a run\n"
    "  sosmc judge DIR            say what the run in a directory is worth: errors and a verdict\n"
    "  sosmc report DIR           write a run directory's report again\n"
    "  sosmc reproduce langevin   the paper's first experiment: tables, figures, verdicts (--quick: seconds)\n"
    "  sosmc reproduce ebm2d      the second: energy networks of the plane, scored exactly (--quick: under a minute)\n"
    "  sosmc reproduce mnist      the third: a convolutional energy of digits (--quick: about a minute)\n"
    "  sosmc reproduce deblurring the fourth: deblurring that learns the strength of its prior (--quick: seconds)\n"
    "  sosmc reproduce theory     every result of the paper as a numerical statement (--quick: half a minute)\n"
    "  sosmc list                 models, rewards, kernels, resampling schemes, optimisers, schemes, experiments\n"
    "  sosmc help [COMMAND]       more about a command\n"
    "\n"
    "First steps:\n"
    "  sosmc run examples/wisconsin.yaml                       a model and an objective; everything else is found\n"
    "  sosmc run examples/langevin_dual.yaml --out chosen      a file that chooses kernel, optimiser and the rest\n"
    "\n"
    "docs/run-file.md explains every key of a run file.\n";

static int command_help(int argc, char **argv);

/* In the order in which a misspelt word is compared with them. */
static const struct {
    const char *name, *text;
    int (*run)(int, char **);
    int writes; /* it writes files, so a launcher must not start it several times */
} commands[] = {
    {"run", run_text, command_run, 1},          {"train", train_text, command_train, 1},
    {"tune", tune_text, command_tune, 1},       {"sample", sample_text, command_sample, 1},
    {"deblur", deblur_text, command_deblur, 1}, {"check", check_text, command_check, 0},
    {"report", report_text, command_report, 1}, {"reproduce", NULL, command_reproduce, 0}, /* refuses itself */
    {"judge", judge_text, command_judge, 1},    {"list", list_text, command_list, 0},
    {"demo", demo_text, command_demo, 1},       {"new", new_text, command_new, 1},
    {"help", usage_text, command_help, 0}};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int no_command(const char *typed)
{
    char words[256] = "", end[128];
    size_t used = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? "|" : "", commands[i].name);
    return complain(SOSMC_EXIT_USAGE, "there is no command '%s'%s", typed,
                    flags_did_you_mean(words, typed, "see 'sosmc help'", end, sizeof end));
}

static int command_help(int argc, char **argv)
{
    const char *text = argc > 1 ? NULL : usage_text;
    for (size_t i = 0; i < COMMANDS && argc > 1; i++)
        if (strcmp(commands[i].name, argv[1]) == 0) text = commands[i].text;
    if (argc > 1 && strcmp(argv[1], "reproduce") == 0) return reproduce_help();
    if (!text) return no_command(argv[1]);
    return fputs(text, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
}

int main(int argc, char **argv)
{
    program_begin();
    int code = stack_claim();
    if (code != SOSMC_EXIT_OK) return program_end(code);
    if (argc < 2) {
        fputs(usage_text, stderr);
        return SOSMC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return program_end(command_help(1, argv));
    if (strcmp(argv[1], "--version") == 0) return program_end(printf("sosmc %s\n", sosmc_version()) < 0);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        char name[32]; /* flags_read takes the command from it */
        (void)snprintf(name, sizeof name, "sosmc %s", commands[i].name);
        argv[1] = name;
        if (commands[i].writes && launcher_refuse()) return program_end(SOSMC_EXIT_USAGE);
        return program_end(commands[i].run(argc - 1, argv + 1));
    }
    return no_command(argv[1]);
}
