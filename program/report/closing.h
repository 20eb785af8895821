/* closing.h: what a run found, in the few lines with which it closes. */
#ifndef SOSMC_REPORT_CLOSING_H
#define SOSMC_REPORT_CLOSING_H

#include <stdio.h>

#include "run/run.h"

/* The lines, of which the verdict is the last, where it is noticed. `name` is the run directory as the user named it. */
void closing_write(const run_result *r, const char *name, FILE *out);
/* What speaks against the result, a sentence at a time; that nothing was judged is no news to who asked for it. */
void closing_against(const run_result *r, void (*say)(void *ctx, const char *sentence), void *ctx);

#endif
