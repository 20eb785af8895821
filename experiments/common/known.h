/* known.h: numbers from elsewhere (a paper, a re-run of its program), which an experiment shows beside its own. They stand in
 * experiments/NAME/known.csv, a row each: setting, method, quantity, value, source. */
#ifndef SOSMC_COMMON_KNOWN_H
#define SOSMC_COMMON_KNOWN_H

#include <stddef.h>

#include "files/files.h"

typedef struct {
    csv_table table;
    char **setting, **method, **quantity; /* columns of the table */
    const double *value;
} known;

/* Reads the file that comes with the program, installed or in the source tree. 0, or -1 with a sentence. */
int known_open(known *k, const char *experiment, char *error, size_t room);
void known_close(known *k); /* one that was not opened, all zero, is fine */

/* NaN: not known. */
double known_value(const known *k, const char *setting, const char *method, const char *quantity);

#endif
