/* stack.h: the stack of the main thread, claimed while there is room for it. */
#ifndef SOSMC_TERMINAL_STACK_H
#define SOSMC_TERMINAL_STACK_H

/* Under a limit on the address space (ulimit -v) the stack cannot grow once the heap has taken the rest, and the process would
 * end with a signal instead of a sentence. To be called early in main. 0; else the exit code, and a sentence was said. */
int stack_claim(void);

#endif
