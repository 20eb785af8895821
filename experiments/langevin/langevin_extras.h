/* langevin_extras.h: the rest of the Langevin page: the single run, the claims of the paper's section, and what the paper
 * leaves open. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_EXTRAS_H
#define SOSMC_LANGEVIN_LANGEVIN_EXTRAS_H

#include <stddef.h>

#include "langevin_cells.h"
#include "view/page.h"
#include "common/reproduce.h"

/* Appends to the page; figures go to the folder `figures`, which stands beside the page under this name. 0, or -1 with a
 * sentence, also when interrupted. */
int langevin_extras(const reproduce_options *o, const langevin_setting *settings, int particles, int seeds, int threads,
                    page *page, const char *figures, char *error, size_t room);

#endif
