/* same_run.h: whether a run file continues the run that another one began. */
#ifndef SOSMC_RUN_SAME_RUN_H
#define SOSMC_RUN_SAME_RUN_H

#include "runfile/config.h"

/* 0 when the resolved `c` differs from the run file at `path` in iterations, threads, limits, on_collapse, judge, evaluate and output at most; otherwise -1
 * and a sentence with the first difference, or with errno ENOMEM. `same_files`: the files that both name were compared by
 * their contents, so their names do not matter. */
int same_run_check(const config *c, const char *path, int same_files, char *error, size_t room);

#endif
