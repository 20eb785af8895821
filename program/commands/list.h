/* list.h: what a run file can name. */
#ifndef SOSMC_COMMANDS_LIST_H
#define SOSMC_COMMANDS_LIST_H

#include <stdio.h>

void list_choices(FILE *out);

#endif
