/* units.h: in words, the units of the points of a run, where they are not those of the data. */
#ifndef SOSMC_RUN_UNITS_H
#define SOSMC_RUN_UNITS_H

#include <stddef.h>

#include "job/problem.h"
#include "runfile/config.h"

/* One sentence without a full stop; an empty one where points were not scaled, as far as is known. */
void units_words(const config *c, const job *j, char *out, size_t room);

#endif
