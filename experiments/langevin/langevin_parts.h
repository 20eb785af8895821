/* langevin_parts.h: the rest of the Langevin page: the single run and the claims of the paper's section. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_PARTS_H
#define SOSMC_LANGEVIN_LANGEVIN_PARTS_H

#include <stddef.h>

#include "langevin_cells.h"
#include "common/experiment.h"
#include "common/reproduce.h"

/* Appends to the page. 0, or -1 with a sentence in x->error, also when interrupted. */
int langevin_parts(const reproduce_options *o, const langevin_setting *settings, int particles, int seeds, int threads,
                   const experiment_page *x);

#endif
