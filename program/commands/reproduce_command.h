/* reproduce_command.h: `sosmc reproduce` is another program, sosmc-paper, which this one executes. */
#ifndef SOSMC_COMMANDS_REPRODUCE_COMMAND_H
#define SOSMC_COMMANDS_REPRODUCE_COMMAND_H

/* Both return only when sosmc-paper cannot be executed. */
int command_reproduce(int argc, char **argv);
int reproduce_help(void);

#endif
