/* interrupt.h: Ctrl-C and SIGTERM ask the run to stop after this iteration, with everything saved; a second Ctrl-C stops at
 * once. */
#ifndef SOSMC_TERMINAL_INTERRUPT_H
#define SOSMC_TERMINAL_INTERRUPT_H

void interrupt_catch(void);
int interrupt_requested(void); /* the signal's number, or 0 */

#endif
