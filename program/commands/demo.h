/* demo.h: `sosmc demo`: what the program does, shown in seconds on one page: a marginal likelihood, a reward tuning with its
 * exact optimum, and a photograph sharpened. */
#ifndef SOSMC_COMMANDS_DEMO_H
#define SOSMC_COMMANDS_DEMO_H

extern const char demo_text[];
/* The run files of the first two parts, so that an installed program has them: examples/batting.yaml, three_modes.yaml. */
extern const char demo_batting[], demo_modes[];

int command_demo(int argc, char **argv);

#endif
