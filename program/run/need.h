/* need.h: the memory that a run takes, before it is taken. */
#ifndef SOSMC_RUN_NEED_H
#define SOSMC_RUN_NEED_H

#include "job/problem.h"

/* Bytes of libraries, streams, tables and stacks that any run touches beside its arrays; measured. */
enum { NEED_PROGRAM = 2500000 };

/* 0, or -1 with a sentence where the files that the run file names are together larger than what is free. To be asked before the job is
 * built, which reads them. */
int need_inputs(const config *c, char *error, size_t room);

/* The bytes that the run of this job takes beside what the process has (the job and its data): the engine or the solver, what is
 * evaluated, its judgement, copies of its cloud, or the report afterwards. Settings that the engine refuses need next to nothing. */
double need_of_run(const config *c, const job *j);
/* 0 where the run finds so much free; else -1 with a sentence that has both numbers and, where that helps, how many particles fit. */
int need_check(const config *c, const job *j, char *error, size_t room);

/* "some 1.23 GB": what the process has and `bytes` more. */
enum { NEED_WORDS = 64 };
const char *need_words(double bytes, char out[NEED_WORDS]);

#endif
