/* runtext.h: run files given as text: what reading one gives, or which error message; and the run files of examples/. */
#ifndef SOSMC_TESTS_RUNTEXT_H
#define SOSMC_TESTS_RUNTEXT_H

#include <glob.h>

#include "runfile/config.h"

/* The smallest run file there is. */
#define SMALL \
    "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\nobjective: {type: reward_forward, reward: x1}\n"
#define LOGIT "model: {type: logistic_regression, data: d.csv, label: 3}\nobjective: mmle\n"
/* An objective that wants points, up to the value of `data`. */
#define FIT "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\nobjective:\n  type: ebm_likelihood\n  data: "
#define TOY "model: {type: hierarchical_gaussian, y: [1, 2]}\nobjective: mmle\n"

enum { RUNTEXT_ROOM = 2048, RUNTEXT_PATH = 4096 };
extern char runtext_error[RUNTEXT_ROOM]; /* the last complaint */

/* These fail the test when there is an error. */
config *runtext_parse(const char *text);
void runtext_resolve(config *c);
config *runtext_resolved(const char *text);
char *runtext_written(const config *c);
/* What it writes reads as what it is. */
void runtext_assert_replays(const config *c);

/* What resolving this text says. */
const char *runtext_complaint(const char *text);

/* ---------------------------------------------------------------------------- files */

/* The path of `rest` in the source tree, or NULL where SOSMC_TEST_SOURCE is not set. */
const char *runtext_source(const char *rest, char out[RUNTEXT_PATH]);
/* The text with the folder of the examples in place of every $, or NULL where SOSMC_TEST_SOURCE is not set. */
const char *runtext_beside_examples(const char *text, char out[4 * RUNTEXT_PATH]);
char *runtext_read(const char *path); /* NULL: it cannot be read */
void runtext_save(const char *path, const char *text);

typedef struct {
    glob_t found;
} runtext_files;
/* Finds the run files in examples/; -1: there are none. */
int runtext_examples(runtext_files *f);

#endif
