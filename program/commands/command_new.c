/* command_new.c: `sosmc new`. */
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "files/files.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

const char new_text[] =
    "sosmc new FILE.yaml [--model MODEL]\n"
    "\n"
    "Writes a run file to begin with: a model and an objective, and no setting, which 'sosmc run FILE.yaml' solves. A file that is\n"
    "there is left alone. Networks have commands of their own: 'sosmc train DATA --print' shows a run file.\n"
    "\n"
    "  --model MODEL         hierarchical_gaussian (the default), logistic_regression or gaussian_mixture\n";

/* The first is the default. */
static const struct {
    const char *model, *text;
} drafts[] = {
    {"hierarchical_gaussian",
     "# Hidden x_d ~ N(theta, 1) and observations y_d ~ N(x_d, 1): which theta makes the observations most likely?\n"
     "model:\n"
     "  type: hierarchical_gaussian\n"
     "  y: [0.3, 1.9, 2.4, -0.6, 1.5, 2.0]     # or `data: FILE.csv` and `column: NAME`\n"
     "objective: mmle\n"},
    {"logistic_regression",
     "# Bayesian logistic regression that learns the mean theta of the prior of its coefficients.\n"
     "model:\n"
     "  type: logistic_regression\n"
     "  data: data.csv                         # a table with a header\n"
     "  label: y                               # its column of 0 and 1; all others are features\n"
     "objective: mmle\n"},
    {"gaussian_mixture",
     "# A mixture whose weights are tuned towards a reward, and held near where they were by a divergence.\n"
     "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5}\n"
     "objective:\n"
     "  type: reward_reverse\n"
     "  reward: \"exp(-(x1 - 3)^2)\"             # any formula in x1, x2, ...\n"
     "  beta: 0.5                              # the weight of the divergence\n"}};
enum { DRAFTS = sizeof drafts / sizeof *drafts };

enum { MODEL, HELP, FLAGS };
static const flag_row table[FLAGS] = {
    [MODEL] = {.name = "model",
               .words = "hierarchical_gaussian|logistic_regression|gaussian_mixture",
               .takes_value = 1},
    [HELP] = {.name = "help"},
};

int command_new(int argc, char **argv)
{
    flag_values v;
    char error[SENTENCE];
    int code, chosen = 0;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, new_text, &code)) return code;
    if (v.operands != 1) return complain(SOSMC_EXIT_USAGE, "new takes the name of one run file; see 'sosmc help new'");
    if (access(v.operand, F_OK) == 0)
        return complain(SOSMC_EXIT_USAGE, "%s is there already; choose another name", v.operand);
    for (int i = 0; i < DRAFTS; i++)
        if (strcmp(flag_text(&v, MODEL, drafts[0].model), drafts[i].model) == 0) chosen = i;
    if (files_write(v.operand, drafts[chosen].text, strlen(drafts[chosen].text), error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    return SOSMC_EXIT_OK;
}
