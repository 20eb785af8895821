/* program.h: how a program of ours begins and ends. */
#ifndef SOSMC_TERMINAL_PROGRAM_H
#define SOSMC_TERMINAL_PROGRAM_H

/* To be called first in main: replaces standard streams that the caller closed, lets JSON parsing survive a failed
 * allocation, and catches signals. */
void program_begin(void);
/* To be called last in main: returns the exit code of a command that returned `code`. A command whose output could not be
 * written to standard output fails with SOSMC_EXIT_IO; the files that it wrote stay. */
int program_end(int code);

#endif
