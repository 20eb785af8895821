/* lattice.h: the former name of analysis.h. */
#ifndef SOSMC_LATTICE_H
#define SOSMC_LATTICE_H

#include <sosmc/analysis.h>

#endif
