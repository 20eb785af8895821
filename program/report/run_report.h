/* picture.h: a run's report with what only the model can tell: density and reward over the box of its particles. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include <stddef.h>

/* Writes DIR/report.html from what the run left there. */
int picture_report(const char *dir, char *error, size_t room);

#endif
