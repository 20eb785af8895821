/* law.h: what a sosmc_law is. */
#ifndef SOSMC_TEMPER_LAW_H
#define SOSMC_TEMPER_LAW_H

#include <sosmc/temper.h>

#include "laws.h"

struct sosmc_law {
    laws q;
};

#endif
