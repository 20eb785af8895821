/* program.h: how a program of ours begins and ends. */
#ifndef SOSMC_TERMINAL_PROGRAM_H
#define SOSMC_TERMINAL_PROGRAM_H

/* First of all: streams that the caller closed, signals, lack of memory. */
void program_begin(void);
/* The exit code of a command that returned `code`. What it said must have arrived, or its success is none; what it wrote to
 * files stays. */
int program_end(int code);

#endif
