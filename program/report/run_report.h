/* run_report.h: the report of any run. It adds to report.h what has to be computed from the model: density and reward over the
 * box of the particles. */
#ifndef SOSMC_REPORT_RUN_REPORT_H
#define SOSMC_REPORT_RUN_REPORT_H

#include <stddef.h>

/* Writes DIR/report.html from what the run left there. */
int run_report(const char *dir, char *error, size_t room);

#endif
