/* law.h: what a sosmc_law is. */
#ifndef SOSMC_JUDGE_LAW_H
#define SOSMC_JUDGE_LAW_H

#include <sosmc/temper.h>

#include "laws.h"

struct sosmc_law {
    laws q;
};

#endif
