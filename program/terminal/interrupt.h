/* interrupt.h: Ctrl-C, SIGTERM, SIGHUP and SIGXCPU ask the run to stop after this iteration, with everything saved; a second
 * signal stops at once. SIGUSR1 asks the run to save a checkpoint and go on. */
#ifndef SOSMC_TERMINAL_INTERRUPT_H
#define SOSMC_TERMINAL_INTERRUPT_H

void interrupt_catch(void);
int interrupt_requested(void); /* the signal's number, or 0 */
int interrupt_saves(void);     /* how often a checkpoint was asked for */

#endif
