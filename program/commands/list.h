/* list.h: what a run file can name. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include <stdio.h>

void list_choices(FILE *out);

#endif
