/* streams.h: standard output and standard error, through which no control character passes but the end of a line (files/words.h). Everything
 * that the program prints goes through here, whoever prints it; only a progress line that is rewritten on a terminal does not.
 *
 * It takes a C library whose streams can be replaced (glibc); with others, sentences on standard error are clean (say.h), and the rest is
 * printed as it is. */
#ifndef SOSMC_TERMINAL_STREAMS_H
#define SOSMC_TERMINAL_STREAMS_H

#include <stdio.h>

/* Puts them in the place of stdout and stderr. 0, or -1: there is no memory for that. */
int streams_begin(void);
/* Writes out what is left of a character that was never ended. */
void streams_end(void);
/* Standard error as it is, for a line whose words are clean. */
FILE *streams_terminal(void);

#endif
