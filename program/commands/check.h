/* check.h: `sosmc check`: whether the model of a run file does what the library relies on: gradients, weights, and calls from
 * several threads. */
#ifndef SOSMC_COMMANDS_CHECK_H
#define SOSMC_COMMANDS_CHECK_H

#include <stdio.h>

#include "runfile/config.h"

/* Prints one line per check to `out`; returns the exit code: 0 when all hold. */
int check_job(const config *c, FILE *out);

#endif
