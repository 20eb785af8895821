/* commands.h: the commands of the program that have no header of their own, each with its help text. A command takes its words,
 * argv[0] being its name, and returns the program's exit code, having said on standard error what went wrong. */
#ifndef SOSMC_COMMANDS_COMMANDS_H
#define SOSMC_COMMANDS_COMMANDS_H

#include "runfile/config.h"
#include "terminal/flags.h"

extern const char run_text[], new_text[], judge_text[], check_text[], report_text[], list_text[];

int command_run(int argc, char **argv);
int command_new(int argc, char **argv);
int command_judge(int argc, char **argv);
int command_check(int argc, char **argv);
int command_report(int argc, char **argv);
int command_list(int argc, char **argv);

/* The run file that is the operand of a command, with the assignments of its flags, resolved. NULL: *code is what the program
 * exits with. */
config *command_load(const flag_values *v, int *code);

#endif
