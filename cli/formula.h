/* formula.h: a reward typed by the user, compiled once and evaluated over batches of particles.
 *
 *     formula *f = formula_compile("(x1 >= 0) * exp(-((x1-4)^2 + x2^2)/20)", 2, error, sizeof error);
 *     objective.score = formula_score(f);
 *
 * The language and its arithmetic are written down at the top of formula.c. */
#ifndef SOSMC_CLI_FORMULA_H
#define SOSMC_CLI_FORMULA_H

#include <sosmc/sosmc.h>

#include "pixels.h"

typedef struct formula formula;

/* For a model with `dim` coordinates x1..x<dim>. On failure NULL, and in `error` (room bytes, cut short where it does
 * not fit) one sentence that begins with the column, counted in bytes from 1. Prints nothing. */
formula *formula_compile(const char *text, int dim, char *error, size_t room);

/* For a model of pictures: the statistics of pictures have a meaning, too. The picture, of `dim` pixels in all, and its
 * mask are copied; NULL: as formula_compile. */
formula *formula_compile_picture(const char *text, int dim, const pixels_shape *picture, char *error, size_t room);

/* Borrows f. Any number of threads may evaluate at once; an evaluation takes about 70 KB of the caller's stack. */
sosmc_score formula_score(const formula *f);

void formula_free(formula *f); /* NULL is fine */

#endif
