/* run_report.h: the report of any run. It adds to report.h what has to be computed from the model: density and reward over the
 * box of the particles. */
#ifndef SOSMC_REPORT_RUN_REPORT_H
#define SOSMC_REPORT_RUN_REPORT_H

#include <stddef.h>

#include "runfile/config.h"

/* Writes DIR/report.html from what the run left there. */
int run_report(const char *dir, char *error, size_t room);
/* The same where the run file asks for it and it is not there yet; 0 also where nothing was to be done. */
int run_report_asked(const config *c, const char *dir, char *error, size_t room);
/* The bytes that this takes: of what is read all is held at once, the cloud twice, a table as text and as numbers. */
double run_report_need(const char *dir);

#endif
